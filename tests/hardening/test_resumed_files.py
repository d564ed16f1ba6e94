"""Files that trainings go on from, and lists of patients: refused in words where they are wrong."""

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fuzz_readers
import fuzz_trainings
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
    read = fuzz_readers.READERS["lodopab"].read
    path = write(tmp_path / "patient_ids_rand_train.csv", f"1\n{patient}\n2\n".encode())
    with pytest.raises(KoriskError, match=r"patient_ids_rand_train\.csv must have one whole"):
        read(path)


def test_a_pickle_that_asks_for_memory_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bomb = b"\x80\x04Nr\xff\xff\xff\x7f."  # keeps None under 2^31 - 1: 32 GiB of room
    with caplog.at_level(logging.DEBUG), pytest.raises(KoriskError, match="keeps something under"):
        fuzz_trainings.read_metadata(write(tmp_path / "iteration-00000300", bomb))
    assert "Traceback" not in caplog.text


def test_a_pickle_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match="does not belong there"):
        fuzz_trainings.read_metadata(write(tmp_path / "iteration-00000300", pickle.dumps(print)))


def changed_result(change: Callable[[dict[str, Any]], object]) -> bytes:
    content = json.loads(fuzz_trainings.results()[0])
    change(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    "change",
    [
        *(lambda content, name=name: content.pop(name) for name in ("metrics", "losses", "ranks")),
        lambda content: content.update(losses=[]),
        lambda content: content.update(losses=["x"]),
        lambda content: content.update(peak_bytes=3),
    ],
)
def test_results_that_cannot_be_printed_are_refused(
    change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    with pytest.raises(KoriskError, match=r"train\.json: cannot be read; run again"):
        fuzz_trainings.read_result(write(tmp_path / "train.json", changed_result(change)))


def test_deep_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match=r"train\.json: cannot be read"):
        fuzz_trainings.read_result(write(tmp_path / "train.json", b"[" * 100_000))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("iteration", each) for each in (float("inf"), 0, -1, 11)),
        *(("standings", {}), ("standings", {"start": (1, 2)})),
        *(("validation", {}), ("validation", None), ("best_weights", {})),
    ],
)
def test_checkpoints_that_lack_something_are_refused(
    name: str, value: object, tmp_path: Path
) -> None:
    import torch

    path = write(tmp_path / "training.pt", fuzz_trainings.checkpoints()[0])
    content = torch.load(path, weights_only=True)
    (content["validation"] if name in content["validation"] else content)[name] = value
    torch.save(content, path)
    with pytest.raises(KoriskError, match=r"training\.pt: the checkpoint is damaged"):
        fuzz_trainings.read_checkpoint(path)
