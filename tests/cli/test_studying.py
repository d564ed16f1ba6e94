"""A run that is refused takes away what it made, and nothing else."""

from pathlib import Path

import pytest
from dummy_work import STUDY, tasks

from korisk.cli import studying
from korisk.cli.places import Place
from korisk.errors import KoriskError
from korisk.studies.store.store import Store


def refuse(*arguments: object, **options: object) -> None:
    raise KoriskError("no scheduler answers")


def refused(out: Path, words: str) -> None:
    """A run of cells in `out` that ends before the first of them."""
    with pytest.raises(KoriskError, match=words):
        studying.run_tasks(
            tasks(1, 1, problem={}), STUDY, out, place=Place(), retry=False, wait=0.0, quiet=True
        )


def test_a_refused_run_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studying, "opened", refuse)
    refused(tmp_path / "out", "no scheduler answers")
    assert list(tmp_path.iterdir()) == []


def test_the_store_of_another_writer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.db"
    with Store.create_or_open(path, STUDY, tasks=tasks(1, 1)):
        # It came between our look and our lock.
        monkeypatch.setattr(Path, "exists", lambda self, **how: False)
        refused(tmp_path, "is being written by")
        monkeypatch.undo()
        assert path.exists()
    with Store.read(path) as store:
        assert list(store.results()) == []
