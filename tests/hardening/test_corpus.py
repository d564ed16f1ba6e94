"""Every file that a reader ever failed on is now read, or refused in words, soon and small."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.quality.fuzz import readers as fuzz_readers
from benchmarks.quality.fuzz import watch as fuzz_watch

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
FILES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("*/*"))
USED: set[str] = set()  # readers that have read a valid file in this process


@pytest.mark.parametrize("name", FILES)
def test_what_once_failed_is_read_or_refused(name: str, tmp_path: Path) -> None:
    reader = fuzz_readers.READERS[name.partition("/")[0]]
    if reader.needs and not find_spec(reader.needs):
        pytest.skip(f"needs {reader.needs}")
    path = tmp_path / reader.file
    if reader.name not in USED:  # what libraries allocate once is not counted
        path.write_bytes(reader.seeds()[0])
        assert fuzz_readers.refusal(reader, path) is None
        USED.add(reader.name)
    path.write_bytes((CORPUS / name).read_bytes())
    trial = fuzz_watch.tried(reader, path, seconds=5.0, memory=2**28)
    assert not trial.fault


def test_there_is_a_corpus() -> None:
    assert {name.partition("/")[0] for name in FILES} <= set(fuzz_readers.READERS)
    assert len(FILES) >= 45
