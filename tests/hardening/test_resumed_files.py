"""Files that trainings resume from, and lists of patients: refused where they are wrong."""

import logging
import pickle
from pathlib import Path

import pytest

from benchmarks.quality.fuzz import readers as fuzz_readers
from benchmarks.quality.fuzz import trainings as fuzz_trainings
from korisk.errors import KoriskError
from korisk.images.patients import read_table


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content", [b'file,patient\na.npy,"' + b"x" * 200_000, b"file,patient\na.npy, \t\n"]
)
def test_tables_of_patients_are_refused_in_words(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match=r"patients\.csv"):
        read_table(write(tmp_path / "patients.csv", content))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_tables_of_patients_have_any_ends_of_lines(end: bytes, tmp_path: Path) -> None:
    lines = [b"file,patient", b"a.npy,1", b"b.npy,2", b""]
    table = read_table(write(tmp_path / "patients.csv", end.join(lines)))
    assert table == {"a.npy": "1", "b.npy": "2"}


@pytest.mark.parametrize("patient", ["²", "9" * 5000, "-1", "x"])
def test_odd_patients_of_lodopab_are_refused_by_name(patient: str, tmp_path: Path) -> None:
    path = write(tmp_path / "patient_ids_rand_train.csv", f"1\n{patient}\n2\n".encode())
    with pytest.raises(KoriskError, match=r"patient_ids_rand_train\.csv must have one whole"):
        fuzz_readers.READERS["lodopab"].read(path)


BOMB = b"\x80\x02Nr\xff\xff\xff\x7f."  # keeps None under 2^31 - 1, which would take 32 GiB


@pytest.mark.parametrize("content", [BOMB, pickle.dumps(print), pickle.dumps(print, protocol=2)])
def test_a_pickle_that_asks_for_memory_or_code_is_refused(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(KoriskError, match="checkpoint is damaged"):
        fuzz_trainings.read_checkpoint(
            write(tmp_path / "training.pt", fuzz_trainings.signed(content))
        )
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("iteration", each) for each in (float("inf"), 0, -1, 11)),
        *(("standings", {}), ("standings", {"start": (1, 2)})),
    ],
)
def test_checkpoints_that_lack_something_are_refused(
    name: str, value: object, tmp_path: Path
) -> None:
    content = fuzz_trainings.opened(fuzz_trainings.checkpoints()[0])
    content[name] = value
    path = write(tmp_path / "training.pt", fuzz_trainings.signed(content))
    with pytest.raises(KoriskError, match=r"training\.pt: the checkpoint is damaged"):
        fuzz_trainings.read_checkpoint(path)
