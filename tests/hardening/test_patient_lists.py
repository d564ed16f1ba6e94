"""Lists of patients: refused where they are wrong."""

from pathlib import Path

import pytest

from benchmarks.quality.fuzz import readers as fuzz_readers
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
