"""Runs the tests on a fault: copies of the tree, and which tests to run in which order."""

import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from benchmarks.quality.mutation.mutants import Mutant

PARTS = ("src", "tests", "examples", "benchmarks", "docs", "pyproject.toml", "README.md")
PYTEST = "import sys, pytest; sys.exit(pytest.main(sys.stdin.read().splitlines()))"
KILLED, TIMEOUT, SURVIVED, UNTESTED = "killed", "timeout", "survived", "no test"


class Copies:
    """Copies of the tree, one for each worker, so that faults do not meet."""

    def __init__(self, root: Path, workers: int, folder: Path) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        unwanted = shutil.ignore_patterns("__pycache__", "*.db", ".cache")
        for number in range(workers):
            copy = folder / f"tree{number}"
            for part in PARTS:
                if (root / part).is_dir():
                    shutil.copytree(root / part, copy / part, ignore=unwanted)
                elif (root / part).exists():
                    shutil.copy2(root / part, copy / part)
            self._free.put(copy)

    @contextmanager
    def one(self) -> Iterator[Path]:
        """A copy that nobody else uses."""
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


@contextmanager
def copies(root: Path, workers: int) -> Iterator[Copies]:
    """Copies in a folder that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        yield Copies(root, workers, Path(folder))


def _environment(copy: Path) -> dict[str, str]:
    # No byte code: two faults may have the same size and second, and Python would take the old one.
    paths = [str(copy / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    wanted = {
        "CI": "true",  # the same examples every time
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONHASHSEED": "0",
    }
    return os.environ | wanted


def _run(arguments: list[str], copy: Path, lines: str, seconds: float) -> int | None:
    """The exit status, or None where it ran out of time."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=copy,
        env=_environment(copy),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        process.communicate(lines, timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return process.returncode


@dataclass(frozen=True)
class Coverage:
    """Which tests run which lines, and how long each takes."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, frozenset[str]]]
    importing: dict[str, frozenset[str]]  # the files of tests that load a file at all

    def tests(self, mutant: Mutant, most: float) -> list[str]:
        """The tests that run the statement, fastest first, for `most` seconds at most.

        The rest of their files follows: it may see what the statement made, since fixtures and
        caches are made once. What runs on import belongs to every test that runs any of the file,
        and then to all that load it.
        """
        lines = self.lines.get(mutant.path, {})
        first, last = mutant.lines
        running = {name for at in range(first, last + 1) for name in lines.get(at, ())}
        if mutant.on_import:
            running = set().union(*lines.values())
        running.discard("")
        files = {_file(name) for name in running}
        if mutant.on_import:
            files |= self.importing.get(mutant.path, frozenset())
        others = {name for name in self.seconds if _file(name) in files} - running
        ordered = (sorted(part, key=self.seconds.__getitem__) for part in (running, others))
        chosen, total = [], 0.0
        for name in chain.from_iterable(ordered):
            total += self.seconds[name]
            if total <= most:
                chosen.append(name)
        return chosen


def _file(test: str) -> str:
    return test.split("::")[0]


def covered(root: Path, packages: list[str], made: Copies, workers: int) -> Coverage:
    """The coverage of all tests of some folders; kept until a source or a test changes."""
    kept = root / "benchmarks/.cache" / f"mutation-{_state(root, packages)}.json"
    if kept.exists():
        found = json.loads(kept.read_text())
    else:
        files = [
            path.relative_to(root).as_posix()
            for package in packages
            for path in sorted((root / package).rglob("test_*.py"))
        ]
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(lambda tests: _cover(tests, made), files))
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found))
    return _merged(found)


def _cover(tests: str, made: Copies) -> dict[str, dict[str, dict[str, list[str]]]]:
    with made.one() as copy, tempfile.NamedTemporaryFile(suffix=".json") as out:
        script = "benchmarks/quality/mutation/cover.py"
        status = _run([script, tests, out.name], copy, "", 600)
        if status not in (0, 1, 5):
            sys.exit(f"{tests}: its tests cannot be run without a fault (status {status})")
        found: dict[str, dict[str, dict[str, list[str]]]] = json.loads(Path(out.name).read_text())
    return found


def _merged(found: list[dict[str, dict[str, dict[str, list[str]]]]]) -> Coverage:
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    importing: dict[str, set[str]] = defaultdict(set)
    for part in found:
        seconds |= part["seconds"]  # type: ignore[arg-type]
        for name in part["failed"]:
            print(f"fails without a fault and is not asked: {name}", file=sys.stderr)
            seconds.pop(name, None)
        for path, numbers in part["lines"].items():
            importing[path].update(map(_file, part["seconds"]))
            for number, tests in numbers.items():
                lines[path][int(number)].update(t for t in tests if not t or t in seconds)
    return Coverage(
        seconds,
        {path: {at: frozenset(t) for at, t in by.items()} for path, by in lines.items()},
        {path: frozenset(files) for path, files in importing.items()},
    )


def _state(root: Path, packages: list[str]) -> str:
    digest = hashlib.sha256(f"{sys.version} {packages}".encode())
    for part in ("src", "tests"):
        for path in sorted((root / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def outcome(mutant: Mutant, text: str, coverage: Coverage, made: Copies, most: float) -> str:
    """What the tests make of a fault, whose file reads `text`, with `most` seconds of tests."""
    tests = coverage.tests(mutant, most)
    if not tests:
        return UNTESTED
    allowed = 20.0 + 3.0 * sum(coverage.seconds[name] for name in tests)
    options = ["-x", "-q", "-p", "no:cacheprovider", *tests]
    with made.one() as copy:
        path = copy / mutant.path
        before = path.read_text(encoding="utf-8")
        try:
            path.write_text(text, encoding="utf-8")
            status = _run(["-c", PYTEST], copy, "\n".join(options), allowed)
        finally:
            path.write_text(before, encoding="utf-8")
        if status not in (0, 1, None):  # no test failed; the fault broke an import, or pytest did
            alone = _run(["-c", PYTEST], copy, "\n".join(options), allowed)
            if alone != 0:
                raise RuntimeError(f"the tests of {mutant.path} end with {alone} without a fault")
    if status is None:
        return TIMEOUT
    return SURVIVED if status == 0 else KILLED
