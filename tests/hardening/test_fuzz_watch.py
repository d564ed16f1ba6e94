"""The fuzzer is as hard to please as a user: neither a hang nor a lack of memory is a refusal."""

import random
import resource
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks.quality.fuzz import images as fuzz_images
from benchmarks.quality.fuzz import packed as fuzz_packed
from benchmarks.quality.fuzz import readers as fuzz_readers
from benchmarks.quality.fuzz import watch as fuzz_watch
from korisk.errors import KoriskError


def refuse(path: Path) -> NoReturn:
    raise KoriskError(f"{path}: cannot be read; mend it") from None


def spins(path: Path) -> None:
    try:
        while True:
            pass
    except Exception:  # as readers do that trust no library
        refuse(path)


def spins_deaf(path: Path) -> None:
    try:
        while True:
            pass
    except BaseException:
        refuse(path)


def runs_out(path: Path) -> None:
    try:
        bytearray(2**40)
    except Exception:
        refuse(path)


def runs_out_in_a_library(path: Path) -> None:
    try:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes")
    except RuntimeError:
        refuse(path)


def takes_much(path: Path) -> None:
    assert len(b"x" * 60_000_000) > len(path.name)


def breaks(path: Path) -> None:
    raise KeyError(path.name)


@pytest.mark.parametrize(
    ("read", "outcome"),
    [
        *((spins, "hang"), (spins_deaf, "hang"), (takes_much, "memory"), (breaks, "crash")),
        *((runs_out, "memory"), (runs_out_in_a_library, "memory")),
        *((refuse, "refused"), (len, "crash"), (Path.exists, "accepted")),
    ],
)
def test_an_end_counts_as_what_it_is(
    tmp_path: Path, read: Callable[[Path], object], outcome: str
) -> None:
    reader = fuzz_readers.Reader("fake", "a.txt", list, read, ())
    before = resource.getrlimit(resource.RLIMIT_DATA)
    fuzz_watch.limit_memory(2**28)
    try:
        trial = fuzz_watch.tried(reader, tmp_path / "a.txt", seconds=0.2, memory=2**26)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    assert trial.outcome == outcome, trial.fault
    assert bool(trial.fault) == (outcome in ("hang", "memory", "crash"))


@pytest.mark.parametrize("way", ["zip_packed_again", "zip_mended"])
def test_changed_archives_add_up(way: str) -> None:
    change = getattr(fuzz_packed, way)
    stored, _ = fuzz_images.npz()
    others = 0
    for seed in range(50):
        made = change(random.Random(seed), stored)
        with zipfile.ZipFile(BytesIO(made)) as archive:
            assert archive.testzip() is None  # names the first member with a wrong sum
        others += made != stored
    assert others > 25
