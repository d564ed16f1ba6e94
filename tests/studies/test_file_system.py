"""Network file systems are known by the list of mounts, and a store on one is handled with care."""

import sqlite3
import warnings
from pathlib import Path

import pytest
from dummy_work import STUDY, cell, tasks

from korisk.errors import KoriskWarning
from korisk.studies.run.usage import Usage
from korisk.studies.store import file
from korisk.studies.store.file import network_file_system
from korisk.studies.store.store import Store


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the list of mounts calls NFS, with a local one inside; names have spaces."""
    home = tmp_path / "group home"
    (home / "fast disk").mkdir(parents=True)
    here, there = (str(path).replace(" ", r"\040") for path in (home, home / "fast disk"))
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"31 24 0:40 / {here} rw,relatime shared:9 master:2 - nfs4 server:/home rw,vers=4.2\n"
        f"32 31 8:2 / {there} rw,relatime - xfs /dev/sdb1 rw\n"
        "a line that says nothing\n"
    )
    monkeypatch.setattr(file, "MOUNTS", mounts)
    return home


def test_the_nearest_mount_above_a_path_says_what_it_lies_on(mounted: Path, tmp_path: Path) -> None:
    assert network_file_system(mounted) == "nfs4"
    assert network_file_system(mounted / "not" / "there" / "study.db") == "nfs4"
    assert network_file_system(mounted / "fast disk" / "study.db") is None
    assert network_file_system(tmp_path / "group home too") is None


def test_links_are_followed(mounted: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(mounted)
    assert network_file_system(tmp_path / "link" / "study.db") == "nfs4"


def test_a_later_mount_hides_an_earlier_one(mounted: Path) -> None:
    mounts = file.MOUNTS
    hidden = str(mounted).replace(" ", r"\040")
    mounts.write_text(mounts.read_text() + f"40 31 0:50 / {hidden} rw - lustre fs@tcp:/fs rw\n")
    assert network_file_system(mounted) == "lustre"


def test_where_there_is_no_list_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "MOUNTS", tmp_path / "missing")
    assert network_file_system(tmp_path) is None


def journal(path: Path) -> str:
    """The mode that the file itself says: 2 in its bytes 18 and 19 is WAL."""
    return {b"\1\1": "ordinary", b"\2\2": "WAL"}[path.read_bytes()[18:20]]


def test_a_store_there_warns_and_does_without_wal(mounted: Path) -> None:
    path = mounted / "study.db"
    (task, *_) = tasks(1, 1)
    with pytest.warns(KoriskWarning, match=r"network file system \(nfs4\)"):
        made = Store.create_or_open(path, STUDY)
    with made as store:
        store.record(task, cell(task, lambda fraction: None), Usage(started="", seconds=1.0))
        assert journal(path) == "ordinary"
        with Store.read(path) as reader:
            assert reader.finished(task)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM cells").fetchall() == [(1,)]
    connection.close()


def test_a_store_on_a_local_disk_does_neither(mounted: Path) -> None:
    path = mounted / "fast disk" / "study.db"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Store.create_or_open(path, STUDY):
            assert journal(path) == "WAL"
