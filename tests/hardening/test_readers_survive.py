"""Whatever a file holds, its reader reads it or refuses it: in one line, soon, and in little room.

Files are sound ones with something changed; benchmarks/fuzz.py tries many more of them.
"""

import random
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzz_readers as fuzz

FILES = {  # how many of each are tried; those that need PyTorch for each take longer
    **dict.fromkeys(("csv", "json", "network", "jobs", "prediction"), 40),
    **dict.fromkeys(("npy", "npz", "png", "tiff", "dicom", "hdf5", "patients"), 40),
    **dict.fromkeys(("lodopab", "checkpoint", "shards", "metadata", "result"), 20),
    "store": 30,
    "study": 12,
    "geometry": 12,
}
SECONDS, MEMORY = 5.0, 2**28


def test_every_reader_is_tried() -> None:
    assert set(FILES) == set(fuzz.READERS)


@pytest.mark.parametrize("name", FILES)
def test_sound_files_are_read(tmp_path: Path, name: str) -> None:
    reader = fuzz.READERS[name]
    for content in reader.seeds():
        (tmp_path / reader.file).write_bytes(content)
        assert fuzz.refusal(reader, tmp_path / reader.file) is None


@pytest.mark.parametrize("name", FILES)
def test_changed_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    reader = fuzz.READERS[name]
    folder = tmp_path_factory.mktemp("files") / "a" / "b"  # so that ".." in a file stays inside
    folder.mkdir(parents=True)
    path = folder / reader.file

    @settings(max_examples=FILES[name], database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    def law(seed: int) -> None:
        path.write_bytes(reader.make(random.Random(seed)))
        begun = time.process_time()
        tracemalloc.start()
        try:
            fuzz.refusal(reader, path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert time.process_time() - begun < SECONDS
        assert peak < MEMORY

    law()
