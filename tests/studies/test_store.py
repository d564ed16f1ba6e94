"""The store's promises: nothing lost, nothing changed, one line for whatever is wrong."""

import contextlib
import math
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dummy_work
import numpy as np
import pytest
from dummy_work import STUDY, tasks

from korisk.errors import KoriskError
from korisk.studies.result import Result, ResultError, Row, Task
from korisk.studies.run.usage import Usage
from korisk.studies.store.file import APPLICATION_ID, FORMAT, WriteLock, store_path
from korisk.studies.store.store import Store

USAGE = Usage(
    started="2026-01-02T03:04:05.000006+00:00",
    seconds=1.25,
    cpu_seconds=2.5,
    peak_memory=10**10,
    device_memory=None,
    attempts=2,
    machine={"platform": "here", "cores": 2},
    versions={"python": "3.11"},
)


def result(task: Task) -> Result:
    return dummy_work.cell(task, lambda fraction: None)


def fill(path: Path, count: int = 4) -> list[Task]:
    """A closed store with cells in it."""
    made = tasks(2, count // 2)
    with Store.create_or_open(path, STUDY) as store:
        for task in made:
            store.record(task, result(task), USAGE)
    return made


def content(path: Path) -> list[Any]:
    with Store.read(path) as store:
        return list(store.results())


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def one_line(error: pytest.ExceptionInfo[KoriskError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


# --- What goes in comes out ----------------------------------------------------------------------


def test_everything_comes_back_as_it_was(path: Path) -> None:
    [task, *_] = tasks(1, 1, nested={"a": [1, 2.5, None], "b": "ä"})
    values = {"mse": 0.1 + 0.2, "psnr": math.inf, "ssim": math.nan, "low": -math.inf}
    rows = (
        Row(model="KO", n=16, metrics=values, detail={"lambda": np.float64(1e-3), "seconds": 2}),
        Row(model="KO", n=0, metrics={"mse": 0.5}),
    )
    arrays: dict[str, Any] = {
        "image": np.arange(12.0, dtype=np.float32).reshape(3, 4)[:, ::2],
        "complex": np.array([1 + 2j, np.nan]),
        "none": np.zeros((0, 3), dtype=np.int16),
        "scalar": np.array(True),
    }
    with Store.create_or_open(path, STUDY) as store:
        given = Result(rows=rows, arrays=arrays, detail={"steps": [1, 2]})
        store.record(task, given, USAGE)
    with Store.read(path) as store:
        [cell] = store.results()
        back = store.arrays(task.key)
        assert store.study == STUDY
    assert (cell.task.key, cell.task.spec_hash) == (task.key, task.spec_hash)
    assert cell.usage == USAGE
    assert cell.detail == {"steps": [1, 2]}
    assert [(row.model, row.n, row.detail) for row in cell.rows] == [
        ("KO", 16, {"lambda": 1e-3, "seconds": 2}),
        ("KO", 0, {}),
    ]
    assert {name: repr(value) for name, value in cell.rows[0].metrics.items()} == {
        "mse": "0.30000000000000004",
        "psnr": "inf",
        "ssim": "nan",
        "low": "-inf",
    }
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array, strict=True)


def test_order_is_of_points_and_seeds_not_of_recording(path: Path) -> None:
    made = tasks(3, 2)
    with Store.create_or_open(path, STUDY) as store:
        for task in reversed(made):
            store.record(task, result(task), USAGE)
        assert [cell.task.key for cell in store.results()] == [task.key for task in made]
        flat = [(found.task.key, found.row.model, found.row.n) for found in store.rows()]
    assert flat[:3] == [(made[0].key, "KO", 4), (made[0].key, "FC", 4), (made[0].key, "KO", 16)]
    assert len(flat) == 4 * len(made)


def test_failure_gives_way_to_failure_and_to_results_but_results_to_nothing(path: Path) -> None:
    [task, other] = tasks(1, 2)
    with Store.create_or_open(path, STUDY) as store:
        store.record_failure(task, "first", USAGE)
        store.record_failure(task, "second", USAGE)
        assert [failure.error for failure in store.failures()] == ["second"]
        assert store.failed(task)
        assert store.missing([task, other]) == [task, other]
        store.record(task, result(task), USAGE)
        assert store.failures() == []
        assert store.missing([task, other]) == [other]
        before = list(store.results())
        with pytest.raises(KoriskError, match="finished cells are kept"):
            store.record(task, result(other), USAGE)
        with pytest.raises(KoriskError, match="finished cells are kept"):
            store.record_failure(task, "late", USAGE)
        assert list(store.results()) == before


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Result(rows=(), arrays={"a": np.array([object()])}), "array 'a' must hold numbers"),
        (Result(rows=(), detail={"a": object()}), "detail must hold plain JSON"),
        (Result(rows=(Row(model="KO", n=4, metrics={"a": "x"}),)), "metrics must be numbers"),  # type: ignore[dict-item]
        (Result(rows=(Row(model="KO", n=4, metrics={}),) * 2), "2 rows of n = 4"),
        (Result(rows=(Row(model="KO", n=-1, metrics={}),)), "n must be from 0 to"),
        (Result(rows=(Row(model="\udc80", n=4, metrics={}),)), "names must be valid Unicode"),
        (None, "must return a Result, got None"),
    ],
)
def test_what_cannot_be_stored_is_named(path: Path, bad: Any, words: str) -> None:
    [task] = tasks(1, 1)
    with Store.create_or_open(path, STUDY) as store:
        with pytest.raises(ResultError, match=words):
            store.record(task, bad, USAGE)
        assert store.missing([task]) == [task]


# --- A store grows, and refuses what contradicts it ----------------------------------------------


def test_new_points_and_seeds_are_added(path: Path) -> None:
    first = fill(path)
    before = content(path)
    more = tasks(3, 3)
    with Store.create_or_open(path, {**STUDY, "more": True}, tasks=more) as store:
        missing = store.missing(more)
        assert {task.key for task in missing} == {t.key for t in more} - {t.key for t in first}
        for task in missing:
            store.record(task, result(task), USAGE)
        assert store.study["more"] is True
    after = content(path)
    assert len(after) == 9
    assert all(cell in after for cell in before)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sizes": [4, 64]}, r"sizes is \[4, 16\] in the store and \[4, 64\] in this study"),
        ({"noise": 0.1}, "noise is missing in the store and 0.1 in this study"),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])  # one that is there, one that is not
def test_another_spec_is_refused(path: Path, changed: Any, words: str, seed: int) -> None:
    [first, *_] = fill(path)
    before = files(path.parent)
    task = replace(first, seed=seed, spec={**first.spec, **changed})
    with pytest.raises(KoriskError, match=words) as error:
        Store.create_or_open(path, {**STUDY, "other": 1}, tasks=[task])
    assert "point 'point-1'" in one_line(error)
    assert str(path) in str(error.value)
    assert "choose another path" in str(error.value)
    assert files(path.parent) == before


def test_nested_difference_is_named_by_its_path(path: Path) -> None:
    [task] = tasks(1, 1, scan={"views": 8, "bins": 4})
    with Store.create_or_open(path, STUDY) as store:
        store.record(task, result(task), USAGE)
        other = replace(task, spec={**task.spec, "scan": {"views": 8, "bins": 5}})
        with pytest.raises(KoriskError, match=r"scan\.bins is 4 in the store and 5 in this study"):
            store.check([other])


def test_failure_under_another_spec_does_not_bind(path: Path) -> None:
    [task] = tasks(1, 1)
    changed = replace(task, spec={**task.spec, "sizes": [4]})
    with Store.create_or_open(path, STUDY) as store:
        store.record_failure(task, "no", USAGE)
        store.check([changed])
        assert not store.failed(changed)
        store.record(changed, result(changed), USAGE)
        assert store.failures() == []


def test_a_task_twice_is_refused(path: Path) -> None:
    [task] = tasks(1, 1)
    with pytest.raises(KoriskError, match="point-1, seed 0: is twice in this study"):
        Store.create_or_open(path, STUDY, tasks=[task, task])


def test_another_study_is_refused(path: Path) -> None:
    fill(path)
    before = files(path.parent)
    with pytest.raises(KoriskError, match="holds the study 'dummy', not 'other'"):
        Store.create_or_open(path, {"name": "other"})
    assert files(path.parent) == before


# --- What is no store ----------------------------------------------------------------------------


def truncate(path: Path, size: int) -> None:
    fill(path)
    os.truncate(path, size)


def foreign_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE meta (a)")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.commit()


def newer(path: Path) -> None:
    fill(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
        connection.commit()


def half_of_it_zero(path: Path) -> None:
    fill(path)
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: truncate(path, 9000), "is damaged or truncated"),
        (lambda path: truncate(path, 50), "is not a store"),
        (lambda path: path.touch(), "the file is empty"),
        (lambda path: path.write_text("n,error\n4,0.1\n" * 100), "is not a store"),
        (foreign_database, "is not a store"),
        (half_of_it_zero, "is damaged"),
        (newer, rf"has format {FORMAT + 1}, .* install a newer korisk"),
        (lambda path: path.mkdir(), "is a folder"),
        (os.mkfifo, "is not a regular file"),
    ],
    ids=["cut", "header cut", "empty", "csv", "foreign", "zeros", "newer", "folder", "pipe"],
)
def test_what_is_no_store_gets_one_line_and_stays(path: Path, make: Any, words: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(KoriskError, match=words) as error:
        Store.create_or_open(path, STUDY)
    one_line(error)
    with pytest.raises(KoriskError, match=words), Store.read(path) as store:
        list(store.results())
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert before == (path.read_bytes() if path.is_file() else b"")


def test_damaged_bytes_are_told_when_they_are_read(path: Path) -> None:
    [task, *_] = fill(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE arrays SET content = x'00'")
        connection.execute("UPDATE rows SET metrics = '{\"mse\"'")
        connection.commit()
    with Store.read(path) as store:
        with pytest.raises(KoriskError, match="is damaged"):
            store.arrays(task.key)
        with pytest.raises(KoriskError, match="is damaged"):
            list(store.results())


def test_an_array_that_is_larger_than_its_shape_is_damage(path: Path) -> None:
    [task, *_] = fill(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE arrays SET shape = '[3]'")
        connection.commit()
    with Store.read(path) as store, pytest.raises(KoriskError, match="does not fill its shape"):
        store.arrays(task.key)


def test_nothing_is_added_where_a_single_page_is_damaged(path: Path) -> None:
    fill(path)
    data = bytearray(path.read_bytes())
    data[-4096:] = bytes(4096)  # a page that is not needed for opening
    path.write_bytes(data)
    Store.read(path).close()
    with pytest.raises(KoriskError, match="is damaged"):
        Store.create_or_open(path, STUDY)
    assert files(path.parent) == {"study.db": bytes(data)}


def test_missing_file_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match="no such file"):
        Store.read(tmp_path / "study.db")
    with pytest.raises(KoriskError, match="no such folder; create it first"):
        Store.create_or_open(tmp_path / "no" / "study.db", STUDY)
    with pytest.raises(KoriskError, match=r"contains no study\.db"):
        store_path(tmp_path)
    with pytest.raises(KoriskError, match="is not a file name"):
        Store.create_or_open(tmp_path / "a\0b", STUDY)
    assert list(tmp_path.iterdir()) == []


def test_remains_of_a_lost_store_are_not_taken_for_a_new_one(path: Path) -> None:
    remains = path.with_name("study.db-wal")
    remains.write_bytes(b"pages")
    with pytest.raises(KoriskError, match=r"study\.db-wal next to it contains parts of it"):
        Store.create_or_open(path, STUDY)
    assert files(path.parent) == {"study.db-wal": b"pages"}


def test_interrupted_creation_is_done_again(path: Path) -> None:
    path.with_name(".study.db.new").write_bytes(b"half")
    path.with_name(".study.db.new-journal").write_bytes(b"half")
    fill(path)
    assert [file.name for file in path.parent.iterdir()] == ["study.db"]


def test_application_id_and_format_are_in_the_file(path: Path) -> None:
    fill(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        [[application]] = connection.execute("PRAGMA application_id")
        [[version]] = connection.execute("PRAGMA user_version")
    assert (application, version) == (APPLICATION_ID, FORMAT)


# --- Reading -------------------------------------------------------------------------------------


def test_a_store_is_read_while_it_is_written(path: Path) -> None:
    [first, second, *_] = tasks(2, 2)
    with Store.create_or_open(path, STUDY) as writer:
        writer.record(first, result(first), USAGE)
        with Store.read(path) as reader:
            half_read = reader.results()
            assert next(half_read).task.key == first.key
            writer.record(second, result(second), USAGE)
            assert list(half_read) == []  # one state, that of its beginning
            assert [cell.task.key for cell in reader.results()] == [first.key, second.key]
            assert set(reader.arrays(second.key)) == {"curve"}


def test_reading_makes_and_changes_no_files(path: Path) -> None:
    fill(path)
    before = files(path.parent)
    assert list(before) == ["study.db"]  # the writer left one ordinary file
    content(path)
    assert files(path.parent) == before


def test_a_reader_cannot_write(path: Path) -> None:
    [task, *_] = fill(path)
    with Store.read(path) as store, pytest.raises(KoriskError, match="open for reading only"):
        store.record_failure(task, "no", USAGE)


@pytest.fixture
def sealed() -> Iterator[Path]:
    """A folder to be filled and then sealed by chmod, in a process whom that stops."""
    folder = Path(tempfile.mkdtemp(prefix="korisk-sealed-"))
    if os.geteuid() != 0:
        yield folder
    else:  # root may write anywhere, so be somebody else as soon as the folder is sealed
        yield folder
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def seal(folder: Path) -> None:
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)


def test_read_only_folder(sealed: Path) -> None:
    path = sealed / "study.db"
    fill(path)
    seal(sealed)
    assert len(content(path)) == 4
    for name in ("study.db", "new.db"):
        with pytest.raises(KoriskError, match="cannot be written: permission denied") as error:
            Store.create_or_open(sealed / name, STUDY)
        one_line(error)
    assert [file.name for file in sealed.iterdir()] == ["study.db"]


def test_store_in_wal_mode_is_read_in_a_read_only_folder(sealed: Path) -> None:
    path = sealed / "study.db"
    fill(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # as a copy of a running store has it
    seal(sealed)
    assert len(content(path)) == 4
    assert [file.name for file in sealed.iterdir()] == ["study.db"]


def test_killed_writers_pages_are_never_left_out_in_a_read_only_folder(
    sealed: Path, path: Path
) -> None:
    [task] = tasks(1, 1)
    with Store.create_or_open(path, STUDY) as store:
        store.record(task, result(task), USAGE)
        for name in ("study.db", "study.db-wal"):  # as a kill would leave them, the index lost
            shutil.copy(path.with_name(name), sealed / name)
    seal(sealed)
    with pytest.raises(KoriskError, match="copy both to another folder"):
        content(sealed / "study.db")


def test_killed_writers_pages_are_read(path: Path, tmp_path: Path) -> None:
    [task] = tasks(1, 1)
    copy = tmp_path / "copy.db"
    with Store.create_or_open(path, STUDY) as store:
        store.record(task, result(task), USAGE)
        shutil.copy(path, copy)
        shutil.copy(f"{path}-wal", f"{copy}-wal")
    assert len(content(copy)) == 1
    with Store.create_or_open(copy, STUDY) as store:
        assert store.finished(task)


def leave_half_a_write(path: Path, copy: Path) -> None:
    """Files as they lie when a writer is killed in the midst of a rollback-journal write."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # so that changed pages go to the file early
        connection.execute("UPDATE rows SET metrics = '{}'")
        connection.execute("UPDATE cells SET detail = '{}'")
        connection.execute("UPDATE arrays SET name = name || '?'")
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        connection.rollback()
    assert copy.read_bytes() != path.read_bytes()


def test_half_a_write_is_taken_back_by_whoever_reads_next(path: Path, tmp_path: Path) -> None:
    fill(path, 60)
    copy = tmp_path / "copy.db"
    leave_half_a_write(path, copy)
    assert content(copy) == content(path)


def test_half_a_write_is_never_read_in_a_read_only_folder(sealed: Path, path: Path) -> None:
    fill(path, 60)
    leave_half_a_write(path, sealed / "study.db")
    seal(sealed)
    with pytest.raises(KoriskError, match=r"study\.db-journal next to it contains parts of it"):
        content(sealed / "study.db")


# --- One writer ----------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_writes(path: Path) -> None:
    with Store.create_or_open(path, STUDY):
        with pytest.raises(KoriskError, match=rf"by process {os.getpid()} on .+ since 20"):
            Store.create_or_open(path, STUDY)
        with Store.read(path) as reader:
            assert list(reader.results()) == []
    Store.create_or_open(path, STUDY).close()
    assert [file.name for file in path.parent.iterdir()] == ["study.db"]


def hold(path: Path, started: Any) -> None:
    lock = WriteLock(path)
    started.set()
    time.sleep(60)
    lock.release()


def test_a_killed_writer_holds_nobody_up(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    holder = context.Process(target=hold, args=(path, started))
    holder.start()
    assert started.wait(120)
    with pytest.raises(KoriskError, match=f"by process {holder.pid}"):
        Store.create_or_open(path, STUDY, wait=0.1)
    holder.kill()
    Store.create_or_open(path, STUDY, wait=60).close()
    holder.join()
    holder.close()


def test_a_writer_waits_for_another(path: Path) -> None:
    lock = WriteLock(path)
    end = threading.Timer(0.2, lock.release)
    end.start()
    Store.create_or_open(path, STUDY, wait=60).close()
    end.join()


# --- A full disk ---------------------------------------------------------------------------------


def test_full_disk_keeps_what_is_finished(path: Path) -> None:
    made = tasks(1, 9)
    with Store.create_or_open(path, STUDY) as store:
        store.record(made[0], result(made[0]), USAGE)
        [[pages]] = store._connection.execute("PRAGMA page_count").fetchall()
        store._connection.execute(f"PRAGMA max_page_count = {pages + 12}").fetchall()
        noise = [dummy_work.stores_noise(task, print) for task in made]  # 10 pages each
        store.record(made[1], noise[1], USAGE)
        before = list(store.results())
        with pytest.raises(KoriskError, match="the disk is full; finished cells are kept"):
            store.record(made[2], noise[2], USAGE)
        assert list(store.results()) == before
        store._connection.execute(f"PRAGMA max_page_count = {pages + 1000}").fetchall()
        store.record(made[2], noise[2], USAGE)
    assert len(content(path)) == 3


SMALL_DISK = """
import sys
from pathlib import Path
import dummy_work
from korisk.errors import KoriskError
from korisk.studies.run.engine import run_study
from korisk.studies.store.store import Store

path = Path(sys.argv[1]) / "study.db"
asked = dummy_work.tasks(1, 50)
for _ in range(2):
    try:
        with Store.create_or_open(path, dummy_work.STUDY) as store:
            run_study(asked, dummy_work.stores_noise, store, workers=0)
    except KoriskError as error:
        print(error)
with Store.read(path) as store:
    cells = list(store.results())
    sizes = {store.arrays(cell.task.key)["noise"].size for cell in cells}
print(len(cells), sizes)
"""


def run_on_small_disk(before: list[str], folder: Path) -> list[str]:
    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    done = subprocess.run(
        [*before, sys.executable, "-c", SMALL_DISK, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=400k none {tmp_path} && exec "
    inside = ["unshare", *(["-m"] if os.geteuid() == 0 else ["-rm"]), "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, mount + "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a small disk needs unshare and a system that permits it")
    lines = run_on_small_disk([*inside, mount + '"$@"', "sh"], tmp_path)
    assert len(lines) == 3
    assert all("the disk is full; finished cells are kept" in line for line in lines[:2])
    count, sizes = lines[2].split()
    assert int(count) >= 2
    assert sizes == "{40000}"


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    limit = ["sh", "-c", 'ulimit -f 400; exec "$@"', "sh"]  # 512-byte blocks in most shells
    lines = run_on_small_disk(limit, tmp_path)
    assert len(lines) == 3
    assert all("the disk may be full; finished cells are kept" in line for line in lines[:2])
    assert int(lines[2].split()[0]) >= 1
