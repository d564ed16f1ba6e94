"""Fuzz every reader of users' files: each must read a file or refuse it in words, soon and small.

    python benchmarks/fuzz.py --minutes 5 [--seed S] [--reader NAME] [--json FILE]

Files are sound ones with something changed: bytes, words, keys and values, cells of tables. Each
reader runs in a process of its own, with a limit on its memory and on the time of a file. A fault
is whatever else happens: another exception, a refusal that does not name the file, a process that
dies, a file that takes too long or so much memory that it ran out, also where the reader then
says that the file is wrong. Files that caused one are kept, and the command leaves with 1.
"""

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fuzz_readers import READERS, Reader, refusal
from fuzz_watch import SECONDS, limit_memory, tried
from korisk.store.usage import machine, versions

_IMPORTED = (
    *("PIL.PngImagePlugin", "h5py", "pydicom.pixels", "tifffile", "torch"),
    *("korisk.images", "korisk.report.contents", "korisk.studies.theorem.check"),
    *("korisk.studies.spec.study", "korisk.fitting", "korisk.cli.compute"),
    "korisk.fitting.gradient.sharded",
)
TURN = 5.0  # seconds of a reader before the next one has its turn


@dataclass
class Tally:
    """What became of the files of one reader."""

    reader: str
    tried: int = 0
    accepted: int = 0
    refused: int = 0
    crashes: int = 0
    hangs: int = 0
    shortages: int = 0  # of memory
    slowest: float = 0.0  # seconds of the processor
    memory: int = 0  # bytes, the most that one file took
    faults: list[str] = field(default_factory=list)


def main() -> None:
    """Fuzz for so many minutes, print the table, keep what was found."""
    options = _options()
    chosen = _with_seeds([READERS[name] for name in options.reader or READERS])
    for name in _IMPORTED:  # once, and not in every process again
        import_module(name)
    tallies = {reader.name: Tally(reader.name) for reader in chosen}
    begun = time.monotonic()
    until = begun + 60 * options.minutes
    with tempfile.TemporaryDirectory() as scratch:
        while time.monotonic() < until:
            for reader in chosen:
                end = min(until, time.monotonic() + TURN)
                _turn(reader, tallies[reader.name], options, Path(scratch), end)
    minutes = (time.monotonic() - begun) / 60
    print("\n".join(table(list(tallies.values()), minutes)))
    if options.json is not None:
        options.json.write_text(json.dumps(_kept(tallies, minutes, options), indent=1) + "\n")
    sys.exit(1 if any(tally.faults for tally in tallies.values()) else 0)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", action="append", choices=sorted(READERS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), metavar="DIR")
    return parser.parse_args()


def _with_seeds(readers: list[Reader]) -> list[Reader]:
    """The readers with their sound files made, in a process of its own.

    Those of studies are made with PyTorch, whose threads no process may have that forks others.
    """
    here, there = get_context("fork").Pipe(duplex=False)
    child = get_context("fork").Process(
        target=lambda: there.send([reader.seeds() for reader in readers]), daemon=True
    )
    child.start()
    found = here.recv()
    child.join()
    return [
        replace(reader, seeds=partial(list, seeds))
        for reader, seeds in zip(readers, found, strict=True)
    ]


# --- One reader's turn ---------------------------------------------------------------------------


def _turn(reader: Reader, tally: Tally, options: Any, scratch: Path, end: float) -> None:
    """Try files until its time is over; a process that dies or hangs is replaced."""
    while time.monotonic() < end:
        here, there = get_context("fork").Pipe(duplex=False)
        folder = Path(tempfile.mkdtemp(dir=scratch), "a", "b")  # so that ".." stays inside
        folder.mkdir(parents=True)
        keep = options.keep.absolute()
        asked = (reader, options.seed, tally.tried, folder, keep, end, there)
        child = get_context("fork").Process(target=_child, args=asked, daemon=True)
        child.start()
        there.close()
        lost = _listen(here, tally, end)
        if lost is not None:
            child.kill()
        child.join()
        if lost is None and child.exitcode != 0:
            lost = f"crash: the process ended with {child.exitcode}"
        if lost is not None:
            _count_loss(reader, tally, options, lost)


def _listen(connection: Connection, tally: Tally, end: float) -> str | None:
    """Take results until the child ends; what to say of a file that took too long."""
    while True:
        if not connection.poll(2 * SECONDS + max(0.0, end - time.monotonic())):
            return f"hang: more than {2 * SECONDS:g} s"
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
            tally.crashes += outcome == "crash"
            tally.hangs += outcome == "hang"
            tally.shortages += outcome == "memory"
            tally.faults.append(fault)


def _count_loss(reader: Reader, tally: Tally, options: Any, lost: str) -> None:
    """The file that a process was lost over, made again from its number."""
    rng = _rng(reader, options.seed, tally.tried)
    tally.tried += 1
    tally.hangs += lost.startswith("hang")
    tally.crashes += lost.startswith("crash")
    tally.faults.append(_keep(reader, options.keep, tally.tried - 1, reader.make(rng), lost))


def _keep(reader: Reader, folder: Path, number: int, content: bytes, fault: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{reader.name}-{number}-{reader.file}"
    path.write_bytes(content)
    path.with_name(f"{path.name}.txt").write_text(fault + "\n")
    return f"{path.name}: {fault.strip().splitlines()[-1]}"


def _rng(reader: Reader, seed: int, number: int) -> random.Random:
    return random.Random(f"{seed}/{reader.name}/{number}")


def _child(
    reader: Reader,
    seed: int,
    number: int,
    folder: Path,
    keep: Path,
    end: float,
    connection: Connection,
) -> None:
    os.chdir(folder)
    # First, so that memory which libraries allocate once is not counted.
    for content in reader.seeds():
        (folder / reader.file).write_bytes(content)
        refusal(reader, folder / reader.file)
    limit_memory()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while time.monotonic() < end:
        content = reader.make(_rng(reader, seed, number))
        path = folder / reader.file
        path.write_bytes(content)
        outcome, seconds, memory, fault = tried(reader, path)
        if fault:
            fault = _keep(reader, keep, number, content, fault)
        connection.send((outcome, seconds, memory, fault))
        number += 1


# --- What is said --------------------------------------------------------------------------------


def table(tallies: list[Tally], minutes: float) -> Iterator[str]:
    """The table in Markdown, with the faults below it."""
    outcomes = "read | refused in words | crashes | hangs | out of memory"
    yield f"| reader | files | {outcomes} | slowest | most memory |"
    yield "| --- |" + 8 * " ---: |"
    for each in tallies:
        counts = [each.tried, each.accepted, each.refused]
        counts += [each.crashes, each.hangs, each.shortages]
        cells = " | ".join(f"{count:,}" for count in counts)
        size = f"{each.slowest:.2f} s | {each.memory / 2**20:,.0f} MiB"
        yield f"| {each.reader} | {cells} | {size} |"
    tried = sum(each.tried for each in tallies)
    faults = [fault for each in tallies for fault in each.faults]
    yield f"\n{tried:,} files in {minutes:.1f} minutes, {len(faults)} faults."
    yield from faults


def _kept(tallies: dict[str, Tally], minutes: float, options: Any) -> dict[str, Any]:
    return {
        "machine": dict(machine()),
        "versions": dict(versions()),
        "seed": options.seed,
        "minutes": minutes,
        "files": sum(each.tried for each in tallies.values()),
        "faults": sum(len(each.faults) for each in tallies.values()),
        "readers": [asdict(each) for each in tallies.values()],
    }


if __name__ == "__main__":
    main()
