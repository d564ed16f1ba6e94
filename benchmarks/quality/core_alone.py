"""Tries the core alone: every command and every public name, on two ends of what is allowed.

    python -m benchmarks.quality.core_alone [--keep]

Two environments are made with the wheel and the core's dependencies, and nothing else: with the
lowest versions that pyproject.toml allows on its lowest Python, and with those of constraints.txt
on the newest Python of this machine. In each, core_commands.py runs every command and the example
of every name on the API pages; each must work, or say in one line what to install. Both must agree
with results/core.txt, which `--keep` writes. Tests of the core run in the first. `make core` calls
it; CI does, too.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.markdown import header, line
from benchmarks.quality.lowest import lowest
from benchmarks.quality.release import clean
from korisk import __version__

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results" / "core.txt"  # which docs/reference/install.md shows
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TESTS = (
    *("tests/theory/test_network.py", "tests/theory/test_bound.py", "tests/curves/test_unit.py"),
    *("tests/curves/test_curve.py", "tests/planning/test_compare.py", "tests/test_files.py"),
)
TESTERS = ("pytest", "hypothesis")
FREED = {"pydantic-core", "click"}  # follow from the lowest pydantic and Typer
STUDY = """\
name: tiny
problem: {beam: surrogate}
points: [{side: 8}]
sizes: [4, 8, 16]
seeds: [1, 2]
"""
TABLES = ("models.xlsx",)
API = re.compile(r"^```\{api\} ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def constraints(scratch: Path) -> Path:
    """constraints.txt without what the lowest versions decide."""
    own = FREED | {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    kept = [each for each in lines if canonicalize_name(each.partition("==")[0]) not in own]
    path = scratch / "constraints.txt"
    path.write_text("\n".join(kept) + "\n")
    return path


def pythons() -> dict[tuple[int, int], str]:
    """Interpreters of this machine that korisk allows, by version."""
    found: dict[tuple[int, int], str] = {}
    least = int(PROJECT["requires-python"].partition("3.")[2])
    shelf = Path.home() / ".pyenv" / "versions"
    for minor in range(least, 30):
        names = [f"python3.{minor}", *(str(each) for each in shelf.glob(f"3.{minor}.*/bin/python"))]
        for name in filter(shutil.which, [*names, sys.executable]):
            asked = [name, "-c", "import sys, venv; print(*sys.version_info[:2], sys.executable)"]
            said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
            if said[:2] == ["3", str(minor)]:
                found.setdefault((3, minor), said[2])
    return found


def made(python: str, home: Path, *packages: str, constraint: Path) -> Path:
    """An environment with these packages; its interpreter."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(home)], check=True)
    inside = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(inside), "install", "-qq", "--no-compile"]
    asked = ["--only-binary", ":all:", "-c", str(constraint), *packages]
    subprocess.run([*pip, *asked], check=True, env=clean())
    return inside


def folder_to_try(scratch: Path) -> Path:
    """A folder with what the commands take: examples, tables, a study with its results."""
    home = scratch / "home"
    shutil.copytree(ROOT / "examples", home / "examples")
    for name in TABLES:
        (home / "tables").mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / "data" / "tables" / name, home / "tables")
    (home / "study.yaml").write_text(STUDY)
    run = [sys.executable, "-m", "korisk", "run", "study.yaml", "--workers", "0"]
    subprocess.run(run, cwd=home, check=True, capture_output=True)
    return home


def rows(python: Path, home: Path) -> list[tuple[str, int, str]]:
    """What was tried, exit code and line."""
    pages = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
    names = [
        (module, each.partition(":")[0])
        for page in pages
        for module, lines in API.findall(page.read_text())
        for each in lines.splitlines()
    ]
    script = str(Path(__file__).with_name("core_commands.py"))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        shutil.copytree(home, work)
        done = subprocess.run(
            [str(python), script],
            input=json.dumps(names),
            cwd=work,
            env=clean(),
            stdout=subprocess.PIPE,
            text=True,
            timeout=600,
            check=True,
        )
    return [(what, code, said) for what, code, said in json.loads(done.stdout)]


def tables(found: list[tuple[str, int, str]]) -> Iterator[str]:
    """The rows as Markdown: commands, then names, those of a package that say the same together."""
    yield from ("### commands", "")
    yield from header("command", "exit code", "line")
    commands = [row for row in found if row[0].startswith("korisk ")]
    for what, code, said in commands:
        yield line(f"`{what}`", code, f"`{said.replace(__version__, 'VERSION')}`" if said else "")
    yield from ("", "### names", "")
    yield from header("names", "line")
    names = sorted((row[0].rpartition(".")[0], row[2], row[0]) for row in found[len(commands) :])
    for (module, said), several in groupby(names, key=lambda row: row[:2]):
        short = ", ".join(f"`{name.rpartition('.')[2]}`" for *_, name in several)
        yield line(f"`{module}`: {short}", said)


def main() -> None:
    """Make both environments, try, compare with what is kept."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--keep", action="store_true", help="write results/core.txt instead")
    given = parser.parse_args()
    found = pythons()
    ends = min(found), max(found)
    if ends[0] == ends[1]:
        print(f"only one Python that korisk allows was found, {ends[0]}; both ends are tried on it")
    with tempfile.TemporaryDirectory(prefix="korisk-core-") as folder:
        scratch = Path(folder)
        build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder]
        subprocess.run([*build, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
        (wheel,) = scratch.glob("*.whl")
        home = folder_to_try(scratch)
        lows, pinned = constraints(scratch), ROOT / "constraints.txt"
        asked = ((ends[0], (*lowest(), *TESTERS), lows), (ends[1], (), pinned))
        for version, packages, constraint in asked:
            begun = time.perf_counter()
            where = scratch / f"venv-{len(packages)}"
            python = made(found[version], where, str(wheel), *packages, constraint=constraint)
            built = time.perf_counter() - begun
            told = "\n".join(tables(rows(python, home))) + "\n"
            name = (
                f"Python {version[0]}.{version[1]}, {'lowest' if packages else 'pinned'} versions"
            )
            tried = time.perf_counter() - begun - built
            print(f"{name}: {built:.0f} s to install, {tried:.0f} s to try", flush=True)
            if given.keep and packages:
                KEPT.write_text(told)
            elif told != KEPT.read_text():
                (ROOT / "build").mkdir(exist_ok=True)
                (ROOT / "build" / "core_alone.md").write_text(told)
                raise SystemExit(f"error: {name}: build/core_alone.md differs from {KEPT.name}")
            if packages:
                pytest = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
                subprocess.run(pytest, cwd=ROOT, env=clean() | {"CI": "true"}, check=True)
                print(f"tests of the core: {time.perf_counter() - begun - built - tried:.0f} s")


if __name__ == "__main__":
    main()
