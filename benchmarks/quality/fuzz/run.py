"""Fuzz every reader of users' files: each must read a file or refuse it in words, soon and small.

    python -m benchmarks.quality.fuzz.run --inputs 50000 [--workers W] [--seed S] [--reader NAME]
        [--json FILE]

Files are sound ones with something changed: bytes, words, keys and values, cells of tables. Each
reader runs in processes of its own, with a limit on memory and on the time of a file. A fault
is whatever else happens: another exception, a refusal that does not name the file, a process that
dies, a file that takes too long or so much memory that it ran out, also where the reader then
says that the file is wrong. Files that caused one are kept, and the command leaves with 1.
"""

import argparse
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.quality import tables
from benchmarks.quality.fuzz.readers import READERS, Reader, refusal
from benchmarks.quality.fuzz.watch import SECONDS, limit_memory, tried
from korisk.store.usage import machine, versions

_IMPORTED = (
    *("PIL.PngImagePlugin", "h5py", "pydicom.pixels", "tifffile", "torch"),
    *("korisk.images", "korisk.report.contents"),
    *("korisk.studies.spec.study", "korisk.fitting", "korisk.cli.run"),
)
PATIENCE = 6 * SECONDS  # by the clock, as other processes may be busy, too
PIECE = 500  # files that one process tries before another takes its place
_CHOSEN: dict[str, Reader] = {}  # with their sound files, before any process is started


@dataclass
class Tally:
    """What became of the files of one reader."""

    reader: str
    tried: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0  # seconds of the processor
    memory: int = 0  # bytes, the most that one file took
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Count another's files, too."""
        for name in ("slowest", "memory"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for name in ("tried", "accepted", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults += other.faults


def main() -> None:
    """Fuzz with so many files, print the table, keep what was found."""
    options = _options()
    names = options.reader or list(READERS)
    missing = {name: READERS[name].needs for name in names}
    missing = {name: need for name, need in missing.items() if need and not find_spec(need)}
    _CHOSEN.update(_with_seeds({name: READERS[name] for name in names if name not in missing}))
    for name in _IMPORTED:  # once, and not in every process again
        import_module(name)
    tallies = {name: Tally(name) for name in _CHOSEN}
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(options.workers, mp_context=get_context("fork")) as pool,
    ):
        pieces = [
            pool.submit(_piece, name, first, last, options.seed, Path(scratch), options.keep)
            for name, first, last in _pieces(list(_CHOSEN), options.inputs)
        ]
        for piece in as_completed(pieces):
            tallies[piece.result().reader].add(piece.result())
    minutes = (time.monotonic() - begun) / 60
    faults = [fault for tally in tallies.values() for fault in tally.faults]
    found = {
        "machine": dict(machine()),
        "versions": dict(versions()),
        "seed": options.seed,
        "workers": options.workers,
        "minutes": minutes,
        "files": sum(tally.tried for tally in tallies.values()),
        "faults": len(faults),
        "readers": [asdict(tally) for tally in tallies.values()],
    }
    print(*tables.tried(found), *faults, sep="\n")
    for name, need in missing.items():
        print(f"Left out: {name}, which needs {need}.")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(1 if faults else 0)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=50_000, help="files, over all readers")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="readers at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", action="append", choices=sorted(READERS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), metavar="DIR")
    return parser.parse_args()


def _pieces(readers: list[str], inputs: int) -> Iterator[tuple[str, int, int]]:
    """The first number and the last of every piece; readers have equal shares, and take turns."""
    for first in range(0, -(-inputs // len(readers)), PIECE):
        for place, reader in enumerate(readers):
            share = inputs // len(readers) + (place < inputs % len(readers))
            if first < share:
                yield reader, first, min(share, first + PIECE)


def _with_seeds(readers: dict[str, Reader]) -> dict[str, Reader]:
    """The readers with their sound files made, in a process of its own.

    Those of studies are made with PyTorch, whose threads no process may have that forks others.
    """
    here, there = get_context("fork").Pipe(duplex=False)
    child = get_context("fork").Process(
        target=lambda: there.send([reader.seeds() for reader in readers.values()]), daemon=True
    )
    child.start()
    found = here.recv()
    child.join()
    return {
        name: replace(readers[name], seeds=partial(list, seeds))
        for name, seeds in zip(readers, found, strict=True)
    }


# --- Some files of one reader --------------------------------------------------------------------


def _piece(name: str, first: int, last: int, seed: int, scratch: Path, keep: Path) -> Tally:
    """Try files by their numbers; a process that dies or hangs is replaced."""
    reader, tally, keep = _CHOSEN[name], Tally(name), keep.absolute()
    while first + tally.tried < last:
        here, there = get_context("fork").Pipe(duplex=False)
        folder = Path(tempfile.mkdtemp(dir=scratch), "a", "b")  # so that ".." stays inside
        folder.mkdir(parents=True)
        numbers = range(first + tally.tried, last)
        asked = (reader, seed, numbers, folder, keep, there)
        child = get_context("fork").Process(target=_child, args=asked, daemon=True)
        child.start()
        there.close()
        lost = _listen(here, tally)
        if lost is not None:
            child.kill()
        child.join()
        shutil.rmtree(folder.parents[1])
        if lost is None and child.exitcode != 0:
            lost = f"crash: the process ended with {child.exitcode}"
        if lost is not None:  # the file that it was lost over is made again from its number
            number = first + tally.tried
            content = reader.make(_rng(reader, seed, number))
            tally.tried += 1
            tally.faults.append(_keep(reader, keep, number, content, lost))
    return tally


def _listen(connection: Connection, tally: Tally) -> str | None:
    """Take results until the child ends; what to say of a file that took too long."""
    while True:
        if not connection.poll(PATIENCE):
            return f"hang: more than {PATIENCE:g} s"
        try:
            outcome, seconds, memory, fault = connection.recv()
        except EOFError:
            return None
        tally.tried += 1
        tally.slowest, tally.memory = max(tally.slowest, seconds), max(tally.memory, memory)
        if outcome == "accepted":
            tally.accepted += 1
        elif outcome == "refused":
            tally.refused += 1
        else:
            tally.faults.append(fault)


def _keep(reader: Reader, folder: Path, number: int, content: bytes, fault: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{reader.name}-{number}-{reader.file}"
    path.write_bytes(content)
    path.with_name(f"{path.name}.txt").write_text(fault + "\n")
    return f"{path.name}: {fault.strip().splitlines()[-1]}"


def _rng(reader: Reader, seed: int, number: int) -> random.Random:
    return random.Random(f"{seed}/{reader.name}/{number}")


def _child(
    reader: Reader, seed: int, numbers: range, folder: Path, keep: Path, connection: Connection
) -> None:
    os.chdir(folder)
    # First, so that memory which libraries allocate once is not counted.
    for content in reader.seeds():
        (folder / reader.file).write_bytes(content)
        with suppress(Exception):  # which it will be tried with, too
            refusal(reader, folder / reader.file)
    limit_memory()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        content = reader.make(_rng(reader, seed, number))
        path = folder / reader.file
        path.write_bytes(content)
        outcome, seconds, memory, fault = tried(reader, path)
        if fault:
            fault = _keep(reader, keep, number, content, fault)
        connection.send((outcome, seconds, memory, fault))


if __name__ == "__main__":
    main()
