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
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dummy_work
import numpy as np
import pytest
from dummy_work import STUDY, tasks
from hypothesis import example, given
from hypothesis import strategies as st

from korisk.errors import KoriskError, KoriskWarning
from korisk.store import file as store_file
from korisk.store.cells import Result, ResultError, Row, Task, pack, unpack_row
from korisk.store.file import FORMAT, DamagedError, WriteLock
from korisk.store.store import Store
from korisk.store.usage import Usage

USAGE = Usage(
    started="2026-01-02T03:04:05.000006+00:00",
    seconds=1.25,
    cpu_seconds=2.5,
    peak_memory=10**10,
    attempts=2,
    machine={"platform": "here", "cores": 2},
    versions={"python": "3.11"},
)


def result(task: Task) -> Result:
    return dummy_work.cell(task, lambda fraction: None)


def fill(path: Path, count: int = 4) -> list[Task]:
    made = tasks(2, count // 2)
    with Store.create_or_open(path, STUDY) as store:
        for task in made:
            store.record(task, result(task), USAGE)
    return made


def content(path: Path) -> list[Any]:
    with Store.read(path) as store:
        return list(store.results())


def read_all(path: Path) -> tuple[Any, ...]:
    """Everything that a store gives to those who read it."""
    with Store.read(path) as store:
        cells = list(store.results())
        arrays = {cell.task.key: store.arrays(cell.task.key) for cell in cells}
        lists = {
            key: {name: each.tolist() for name, each in own.items()} for key, own in arrays.items()
        }
        return cells, lists, store.failures(), store.study, store.created, store.korisk


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def sql(path: Path, *commands: str) -> list[Any]:
    """Run commands on the file; the rows of the last one."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = [connection.execute(command).fetchall() for command in commands]
        connection.commit()
    return rows[-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


def test_a_cell_takes_as_many_steps_in_a_large_store_as_in_a_small_one(path: Path) -> None:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def steps_of(store: Store, act: Any) -> int:
        nonlocal steps
        steps = 0
        store._connection.set_progress_handler(count, 1)  # called by SQLite at each of its steps
        act()
        return steps

    cells, recorded, read = tasks(2, 60), [], []
    with Store.create_or_open(path, STUDY) as store:
        store._connection.execute("PRAGMA synchronous = OFF")
        for task in cells:
            packed = pack(result(task))
            recorded.append(steps_of(store, lambda t=task, p=packed: store.record(t, p, USAGE)))
            read.append(steps_of(store, lambda t=task: store.arrays(t.key)))
    assert recorded[-1] < 1.1 * recorded[5]
    assert read[-1] < 1.1 * read[5]


def test_states_are_those_of_the_spec_that_a_task_has_now(path: Path) -> None:
    done, failed, new = tasks(1, 3)
    with Store.create_or_open(path, STUDY) as store:
        store.record(done, result(done), USAGE)
        store.record_failure(failed, "no images", USAGE)
        other = replace(failed, spec={"side": 2})
        assert store.states([new, failed, done]) == {failed.key: "failed", done.key: "done"}
        assert store.states([other]) == {}
        assert store.missing([done, failed, new]) == [failed, new]


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
        store.record(task, Result(rows=rows, arrays=arrays, detail={"steps": [1, 2]}), USAGE)
    with Store.read(path) as store:
        [cell] = store.results()
        back = store.arrays(task.key)
        assert store.study == STUDY
    assert (cell.task.key, cell.task.spec_hash) == (task.key, task.spec_hash)
    assert (cell.usage, cell.detail) == (USAGE, {"steps": [1, 2]})
    expected = [("KO", 16, {"lambda": 1e-3, "seconds": 2}), ("KO", 0, {})]
    assert [(row.model, row.n, row.detail) for row in cell.rows] == expected
    assert list(map(repr, cell.rows[0].metrics.values())) == list(map(repr, values.values()))
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array, strict=True)
    assert sql(path, "PRAGMA application_id") == [(store_file.APPLICATION_ID,)]
    assert sql(path, "PRAGMA user_version") == [(FORMAT,)]


names = st.text(max_size=100)


@given(
    names, st.integers(-1, 2**64), st.dictionaries(names, st.floats(allow_nan=False), max_size=3)
)
@example("KO\u00a0gross", 8, {"mse": 0.1})
@example("a\nb", 8, {"mse": 0.1})
@example("K" * 81, 8, {})
@example("KO", 10**15, {"m" * 80: 1.0})
def test_what_is_packed_is_unpacked_or_named(model: str, n: int, metrics: dict[str, float]) -> None:
    row = Row(model=model, n=n, metrics=metrics)
    odd = max(map(len, (model, *metrics))) > 80 or not 0 <= n <= 10**15
    if odd or any(ord(each) < 32 or 126 < ord(each) < 160 for each in "".join((model, *metrics))):
        with pytest.raises(ResultError):
            pack(Result(rows=(row,)))
        return
    [stored] = pack(Result(rows=(row,))).rows
    assert unpack_row(*stored) == row


def one(model: str = "KO", n: int = 4, **metrics: Any) -> Result:
    return Result(rows=(Row(model=model, n=n, metrics=metrics),))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Result(rows=(), arrays={"a": np.array([object()])}), "array 'a' must hold numbers"),
        (Result(rows=(), detail={"a": object()}), "detail must hold plain JSON"),
        (one(a="x"), "metrics must be numbers"),
        *((Result(rows=one().rows * 2), "2 rows of n = 4"), (one(n=-1), "n must be from 0 to")),
        *((one("\udc80"), "valid Unicode"), (one("a\x1b[2J"), "control characters")),
        (None, "must return a Result, got None"),
    ],
)
def test_what_cannot_be_stored_is_named(path: Path, bad: Any, words: str) -> None:
    [task] = tasks(1, 1)
    with Store.create_or_open(path, STUDY) as store:
        with pytest.raises(ResultError, match=words):
            store.record(task, bad, USAGE)
        assert store.missing([task]) == [task]


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
        assert store.states([task]) == {task.key: "failed"}
        changed = replace(task, spec={**task.spec, "sizes": [4]})
        store.check([changed])  # a failure does not bind the spec
        assert store.states([changed]) == {}
        assert store.missing([task, other]) == [task, other]
        store.record(task, result(task), USAGE)
        assert (store.failures(), store.missing([task, other])) == ([], [other])
        before = list(store.results())
        with pytest.raises(KoriskError, match="finished cells are kept"):
            store.record(task, result(other), USAGE)
        with pytest.raises(KoriskError, match="finished cells are kept"):
            store.record_failure(task, "late", USAGE)
        assert list(store.results()) == before


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


def respecced(seed: int, **changed: Any) -> list[Task]:
    [first, *_] = tasks(1, 1)
    return [replace(first, seed=seed, spec={**first.spec, **changed})]


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        # of a seed that is there, and of one that is not
        *(
            ("dummy", respecced(seed, sizes=[4, 64]), r"sizes is \[4, 16\] in the store and \[4, 6")
            for seed in (0, 7)
        ),
        ("dummy", respecced(0, noise={"a": 1}), "noise is missing in the store and {'a': 1} in"),
        ("dummy", tasks(1, 1) * 2, "point-1, seed 0: is twice"),
        ("other", [], "holds the study 'dummy', not 'other'"),
    ],
)
def test_contradictions_are_refused(path: Path, name: str, asked: list[Task], words: str) -> None:
    fill(path)
    before = files(path.parent)
    with pytest.raises(KoriskError, match=words) as error:
        Store.create_or_open(path, {"name": name, "other": 1}, tasks=asked)
    assert "\n" not in str(error.value)
    assert files(path.parent) == before


def newer(path: Path) -> None:
    fill(path)
    for command in (f"PRAGMA user_version = {FORMAT + 1}", f"UPDATE meta SET value = {FORMAT + 1}"):
        sql(path, command)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.touch(), "the file is empty"),
        (lambda path: path.write_text("n,error\n4,0.1\n" * 100), "is not a store"),
        (lambda p: sql(p, "CREATE TABLE meta (a)", "PRAGMA journal_mode = WAL"), "is not a store"),
        (newer, rf"has format {FORMAT + 1}, .* install a newer korisk"),
        *((lambda path: path.mkdir(), "is a folder"), (os.mkfifo, "is not a regular file")),
    ],
    ids=["empty", "csv", "foreign", "newer", "folder", "pipe"],
)
def test_what_is_no_store_gets_one_line_and_stays(path: Path, make: Any, words: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(KoriskError, match=words) as error:
        Store.create_or_open(path, STUDY)
    assert "\n" not in str(error.value)
    with pytest.raises(KoriskError, match=words), Store.read(path) as store:
        list(store.results())
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert before == (path.read_bytes() if path.is_file() else b"")


# --- Damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "lost"),
    [
        ("UPDATE rows SET metrics = '{\"mse\": 0.5}' WHERE cell = 2", 1),
        ("UPDATE rows SET metrics = '{\"mse\"' WHERE cell > 2", 2),
        ("UPDATE rows SET cell = 1, n = 5 WHERE cell = 2 AND n = 4", 1),
        *((f"DELETE FROM {table} WHERE cell = 2", 1) for table in ("rows", "arrays")),
        ("UPDATE arrays SET shape = '[3]' WHERE cell = 2", 1),
        ("UPDATE arrays SET content = x'00'", 4),
        ("UPDATE cells SET seconds = 99", 4),
        ("UPDATE cells SET key = 'else' WHERE id = 2", 1),
        ("UPDATE cells SET status = 'failed' WHERE id = 2", 1),
        ("DELETE FROM cells WHERE id = 2", 1),
        ("UPDATE meta SET value = '0' WHERE name = 'cells'", 0),
        ("DELETE FROM meta", 0),
        ("UPDATE meta SET value = '{}' WHERE name = 'study'", 0),
        ("PRAGMA user_version = 9", 0),
        ("PRAGMA user_version = 1", 0),
    ],
)
def test_a_change_is_named_when_it_is_read_and_computed_again_by_a_run(
    path: Path, command: str, lost: int
) -> None:
    made, before = fill(path), read_all(path)
    sql(path, command)
    if "PRAGMA" in command:  # bytes that nothing depends on
        assert read_all(path) == before
    else:
        with pytest.raises(DamagedError, match=r"study\.db: .*; run it again") as error:
            read_all(path)
        assert "\n" not in str(error.value)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        store = Store.create_or_open(path, STUDY, tasks=made)
    with store:
        missing = store.missing(made)
        assert len(missing) == lost
        for task in missing:
            store.record(task, result(task), USAGE)
    if lost:
        assert any(issubclass(each.category, KoriskWarning) for each in said)
    assert read_all(path)[:4] == before[:4]


@pytest.mark.parametrize(
    "where", ["end of the file", "header", "all but the first page", "a table", "an index"]
)
def test_a_file_that_sqlite_cannot_read_is_kept_aside_and_what_is_intact_goes_on(
    path: Path, where: str
) -> None:
    made, before = fill(path), read_all(path)
    data = bytearray(path.read_bytes())
    match where:
        case "end of the file":
            del data[9000:]
        case "header":
            del data[50:]
        case "all but the first page":
            data[4096:] = bytes(len(data) - 4096)
        case "a table" | "an index":
            kind = f"SELECT max(rootpage) FROM sqlite_master WHERE type = '{where.split()[1]}'"
            [[page]] = sql(path, kind)
            data[4096 * (page - 1) : 4096 * page] = bytes(4096)
    path.write_bytes(data)
    if where == "an index":  # which readers do without
        assert read_all(path) == before
    else:
        with pytest.raises(DamagedError, match="run it again") as error:
            read_all(path)
        assert "\n" not in str(error.value)
    assert files(path.parent) == {"study.db": bytes(data)}
    with pytest.warns(KoriskWarning, match=r"the damaged file is now study\.db\.damaged-1"):
        store = Store.create_or_open(path, STUDY, tasks=made)
    with store:
        for task in store.missing(made):
            store.record(task, result(task), USAGE)
    assert read_all(path)[:2] == before[:2]
    assert path.with_name("study.db.damaged-1").read_bytes() == bytes(data)


def test_rows_beyond_an_unreadable_page_keep_their_order(path: Path) -> None:
    """They are read from the end of the table, and digests are hashed in the order of rows."""
    made, before = fill(path, 60), read_all(path)
    data = bytearray(path.read_bytes())
    starts = [at for at in range(0, len(data), 4096) if b'"mse"' in data[at : at + 4096]]
    middle = starts[len(starts) // 2]
    data[middle : middle + 4096] = bytes(4096)
    path.write_bytes(data)
    with pytest.warns(KoriskWarning, match="damaged-1"):
        store = Store.create_or_open(path, STUDY, tasks=made)
    with store:
        missing = store.missing(made)
        assert 0 < len(missing) < len(made)
        for task in missing:
            store.record(task, result(task), USAGE)
    assert read_all(path)[:2] == before[:2]


def test_damaged_cells_of_another_run_take_its_others_with_them(path: Path) -> None:
    """Without them the other study would look complete: it stays in the damaged file."""
    made = fill(path)
    for number in (1, 3):
        sql(path, f"UPDATE rows SET metrics = '{{\"mse\": 0.5}}' WHERE cell = {number}")
    kept = files(path.parent)
    with pytest.raises(KoriskError, match="holds the study 'dummy', not 'other'"):
        Store.create_or_open(path, {"name": "other"}, tasks=tasks(1, 1))
    with pytest.raises(DamagedError, match=f"damaged: {made[0].key}, {made[2].key};"):
        Store.create_or_open(path, STUDY)
    assert files(path.parent) == kept
    with pytest.warns(KoriskWarning, match="1 of 2 intact cells .*damaged-1"):
        store = Store.create_or_open(path, STUDY, tasks=made[:2])
    with store:
        assert store.missing(made) == [made[0], *made[2:]]
    assert path.with_name("study.db.damaged-1").read_bytes() == kept["study.db"]


@pytest.mark.parametrize("description", ["", "UPDATE meta SET value = '{}' WHERE name = 'study'"])
@pytest.mark.parametrize("lost", ["", "DELETE FROM cells WHERE id = 2"])
@pytest.mark.parametrize("index", [False, True])
def test_no_other_study_takes_over_a_damaged_store(
    path: Path, description: str, lost: str, index: bool
) -> None:
    """Its cells are never mixed with others."""
    fill(path)
    for command in filter(None, (description, lost)):
        sql(path, command)
    if index:
        [[page]] = sql(path, "SELECT max(rootpage) FROM sqlite_master WHERE type = 'index'")
        data = bytearray(path.read_bytes())
        data[4096 * (page - 1) : 4096 * page] = bytes(4096)
        path.write_bytes(data)
    kept = files(path.parent)
    [other] = [replace(task, point="mine") for task in tasks(1, 1)]
    with pytest.raises(KoriskError, match=r"choose another path|restore a copy of it"):
        Store.create_or_open(path, {"name": "other"}, tasks=[other])
    assert files(path.parent) == kept


def test_cells_lost_without_a_trace_are_not_hidden_by_another_run(path: Path) -> None:
    made = fill(path)
    sql(path, "DELETE FROM cells WHERE id = 2")
    with pytest.raises(DamagedError, match="cells or entries are missing"):
        Store.create_or_open(path, STUDY)
    with pytest.warns(KoriskWarning, match="1 of 3 intact cells"):
        Store.create_or_open(path, STUDY, tasks=made[:1]).close()
    assert [cell.task for cell in content(path)] == made[:1]


def test_a_store_of_the_first_format_is_refused_and_left_alone(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {store_file.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    content = files(path.parent)
    for attempt in (read_all, lambda path: Store.create_or_open(path, STUDY)):
        with pytest.raises(KoriskError, match=r"is of korisk 0\.1\.0; open it with korisk 0\.3"):
            attempt(path)
        assert files(path.parent) == content


def test_missing_file_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match="no such file"):
        Store.read(tmp_path / "study.db")
    with pytest.raises(KoriskError, match="no such folder; create it first"):
        Store.create_or_open(tmp_path / "no" / "study.db", STUDY)
    with pytest.raises(KoriskError, match=r"contains no study\.db"):
        store_file.store_path(tmp_path)
    with pytest.raises(KoriskError, match="is not a file name"):
        Store.create_or_open(tmp_path / "a\0b", STUDY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("transaction", [False, True])
def test_a_query_that_was_interrupted_leaves_one_file(path: Path, transaction: bool) -> None:
    [done, *_] = fill(path)
    with Store.create_or_open(path, STUDY) as store:
        # As in a traceback of Ctrl-C, which refers to the cursor between a query and its rows.
        cursor = store._connection.execute("SELECT * FROM cells")
        if transaction:
            store._connection.execute("BEGIN IMMEDIATE")
            store._connection.execute("DELETE FROM cells")
    assert list(files(path.parent)) == ["study.db"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        cursor.fetchone()
    with Store.read(path) as store:
        assert done.key in {cell.task.key for cell in store.results()}


def test_parts_of_a_lost_store_are_not_taken_for_a_new_one(path: Path) -> None:
    path.with_name("study.db-wal").write_bytes(b"pages")
    with pytest.raises(KoriskError, match=r"study\.db-wal next to it contains parts of it"):
        Store.create_or_open(path, STUDY)
    assert files(path.parent) == {"study.db-wal": b"pages"}


def test_interrupted_creation_is_done_again(path: Path) -> None:
    path.with_name(".study.db.new").write_bytes(b"half")
    path.with_name(".study.db.new-journal").write_bytes(b"half")
    fill(path)
    assert [file.name for file in path.parent.iterdir()] == ["study.db"]


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


def test_reading_changes_no_files_and_cannot_write(path: Path) -> None:
    [task, *_] = fill(path)
    before = files(path.parent)
    assert list(before) == ["study.db"]  # the writer left one ordinary file
    content(path)
    with Store.read(path) as store, pytest.raises(KoriskError, match="open for reading only"):
        store.record_failure(task, "no", USAGE)
    assert files(path.parent) == before


@pytest.fixture
def sealed() -> Iterator[Path]:
    """A folder to be filled and then sealed by chmod, in a process whom that stops."""
    folder = Path(tempfile.mkdtemp(prefix="korisk-sealed-"))
    root = os.geteuid() == 0
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def seal(folder: Path) -> None:
    folder.chmod(0o555)
    if os.geteuid() == 0:  # root may write anywhere, so be somebody else
        os.seteuid(65534)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])  # WAL: as a copy of a running store has it
def test_read_only_folder(sealed: Path, journal: str) -> None:
    path = sealed / "study.db"
    fill(path)
    sql(path, f"PRAGMA journal_mode = {journal}")
    seal(sealed)
    assert len(content(path)) == 4
    for name in ("study.db", "new.db"):
        with pytest.raises(KoriskError, match="cannot be written: permission denied"):
            Store.create_or_open(sealed / name, STUDY)
    assert [file.name for file in sealed.iterdir()] == ["study.db"]


def leave_killed_writer(path: Path, copy: Path) -> None:
    """Files as they are after a kill of a writer of korisk 0.3, in WAL mode, the index lost."""
    [task] = tasks(1, 1)
    with Store.create_or_open(path, STUDY) as store:
        sql(path, "PRAGMA journal_mode = WAL")
        store.record(task, result(task), USAGE)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    sql(path, "PRAGMA journal_mode = DELETE")


def leave_half_a_write(path: Path, copy: Path) -> None:
    """Files as they are when a writer is killed in the midst of a rollback-journal write."""
    fill(path, 60)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # so that changed pages go to the file early
        connection.execute("UPDATE rows SET metrics = '{}'")
        connection.execute("UPDATE cells SET detail = '{}'")
        connection.execute("UPDATE arrays SET name = name || '?'")
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        connection.rollback()
    assert copy.read_bytes() != path.read_bytes()


@pytest.mark.parametrize("leave", [leave_killed_writer, leave_half_a_write])
def test_what_a_killed_writer_left_is_read_whole_or_refused(
    leave: Any, sealed: Path, path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    leave(path, copy)
    assert content(copy) == content(path)
    with Store.create_or_open(copy, STUDY) as store:
        assert store.missing(tasks(1, 1)) == []
    path.unlink()
    leave(path, sealed / "study.db")
    seal(sealed)
    with pytest.raises(
        KoriskError, match=r"study\.db-\w+ next to it .*copy both to another folder"
    ):
        content(sealed / "study.db")


def test_a_second_writer_is_told_who_writes(path: Path) -> None:
    with Store.create_or_open(path, STUDY):
        for _ in range(2):  # the second one is told as well
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
    end = threading.Timer(0.2, WriteLock(path).release)
    end.start()
    Store.create_or_open(path, STUDY, wait=60).close()
    end.join()


SMALL_DISK = """
import sys
from pathlib import Path
import dummy_work
from korisk.errors import KoriskError
from korisk.studies.run.engine import run_study
from korisk.store.store import Store

path = Path(sys.argv[1]) / "study.db"
asked = dummy_work.tasks(1, 50)
for _ in range(2):
    try:
        with Store.create_or_open(path, dummy_work.STUDY) as store:
            run_study(asked, dummy_work.stores_noise, store)
    except KoriskError as error:
        print(error)
with Store.read(path) as store:
    cells = list(store.results())
    sizes = {store.arrays(cell.task.key)["noise"].size for cell in cells}
print(len(cells), sizes)
"""


@pytest.mark.parametrize("limit", ["a full disk", "a file that may not grow"])
def test_a_disk_that_is_really_full(tmp_path: Path, limit: str) -> None:
    before = ["sh", "-c", 'ulimit -f 400; exec "$@"', "sh"]  # 512-byte blocks in most shells
    if limit == "a full disk":
        mount = f"mount -t tmpfs -o size=400k none {tmp_path} && exec "
        inside = ["unshare", *(["-m"] if os.geteuid() == 0 else ["-rm"]), "sh", "-c"]
        probe = [*inside, mount + "true"]
        if not shutil.which("unshare") or subprocess.run(probe, capture_output=True).returncode:
            pytest.skip("mounting a small disk needs unshare and a system that permits it")
        before = [*inside, mount + '"$@"', "sh"]
    path = os.pathsep.join(sys.path)
    command = [*before, sys.executable, "-c", SMALL_DISK, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.stderr == ""
    first, second, last = done.stdout.splitlines()
    for line in (first, second):
        assert "full; finished cells are kept" in line
    count, sizes = last.split()
    assert int(count) >= 1
    assert sizes == "{40000}"
