"""Results of a study in one SQLite file that grows cell by cell and survives its writers.

*Ownership.* One process writes, under a lock beside the file (`study.db.lock`); any number read,
also while it writes. A store object belongs to the thread that opened it.

*Promises.* A cell is written in one transaction, with SQLite's fullest synchronisation: after a
kill or a power cut it is there whole or not at all. A finished cell never changes. A failed one
gives way to its next try. All cells of a point have one spec; another is refused.

*The file* is in WAL mode while it is written and an ordinary single file afterwards, so that it
can be copied and read anywhere; on a network file system, where WAL does not work between
machines, it stays an ordinary one, and a warning is given. Its `application_id` tells it apart from
other SQLite files.
"""

import contextlib
import json
import re
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError, KoriskWarning, shown
from korisk.studies.result import Result, Row, Task
from korisk.studies.run.usage import Account
from korisk.studies.store.file import STORE_NAME as STORE_NAME
from korisk.studies.store.file import (
    check_header,
    connect,
    connect_to_read,
    create,
    in_words,
    reading,
    refuse_what_is_no_file,
)
from korisk.studies.store.file import store_path as store_path
from korisk.studies.store.file import store_to_write as store_to_write
from korisk.studies.store.file_system import network_file_system
from korisk.studies.store.lock import WriteLock
from korisk.studies.store.packing import (
    Packed,
    PackedArray,
    check_types,
    from_json,
    pack,
    to_json,
    unpack_array,
    unpack_row,
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A finished cell: what was asked, what came out, what it cost.

    `detail` is plain JSON about the cell as a whole, `account` its seconds, memory and machine;
    `Store.results` gives them.

    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> with Store.create_or_open("cells.db", {"name": "mine"}) as store:
    ...     summary = run_study(tasks, work, store, workers=0)
    ...     cells = list(store.results())
    >>> cells[1].task.seed, dict(cells[1].rows[0].metrics), cells[1].account.attempts
    (2, {'mse': 0.05}, 1)
    """

    task: Task
    rows: tuple[Row, ...]
    detail: Mapping[str, Any]
    account: Account


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed cell: what was asked, what went wrong, what it cost.

    `Store.failures` gives them.

    >>> from korisk.studies import Store, Task, run_study
    >>> def work(task, report):
    ...     raise ValueError("no images")
    >>> with Store.create_or_open("failures.db", {"name": "mine"}) as store:
    ...     summary = run_study([Task(point="a", seed=1, spec={})], work, store, workers=0)
    ...     [failure.reason for failure in store.failures()]
    ['ValueError: no images']
    """

    task: Task
    error: str
    account: Account

    @property
    def reason(self) -> str:
        """The first line of what went wrong."""
        lines = (line.strip() for line in self.error.splitlines())
        return next(filter(None, lines), "no reason is known")


@dataclass(frozen=True, kw_only=True)
class FlatRow:
    """One row of figures together with the cell that it comes from.

    `Store.rows` gives them.

    >>> from korisk.studies import FlatRow, Row, Task
    >>> each = FlatRow(task=Task(point="a", seed=1, spec={}),
    ...                row=Row(model="KO", n=8, metrics={"mse": 0.1}))
    >>> each.task.point, each.row.model
    ('a', 'KO')
    """

    task: Task
    row: Row


class Store:
    """Cells of one study in one file. Made by `create_or_open` for writing, `read` for reports.

    A `with` block closes it. A file that is no store, or one that another process is writing,
    raises `KoriskError`; docs/reference/store.md tells what it holds.

    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> with Store.create_or_open("study.db", {"name": "mine"}) as store:
    ...     summary = run_study(tasks, work, store, workers=0)
    >>> with Store.read("study.db") as store:
    ...     [cell.task.key for cell in store.results()], len(list(store.rows()))
    (['a, seed 1', 'a, seed 2'], 2)
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: WriteLock | None = None
    ) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock

    @classmethod
    def create_or_open(
        cls,
        path: str | PathLike[str],
        study: Mapping[str, Any],
        *,
        tasks: Iterable[Task] = (),
        wait: float = 0.0,
    ) -> Self:
        """The store at `path` for writing, made if there is none.

        `study` is plain JSON with a `name`; a store holds studies of one name, and keeps what was
        last said about it. `tasks` are checked against what is there before anything changes.
        `wait` is how many seconds to wait for another writer to end.
        """
        name, text = _study_text(study)
        file = Path(path)
        refuse_what_is_no_file(file)
        lock = WriteLock(file, wait=wait)
        try:
            if file.exists():
                check_header(file)
            else:
                create(file, text)
            store = cls(file, connect(file, "rw"), lock)
        except BaseException:
            lock.release()
            raise
        try:
            store._prepare(name, text, list(tasks))
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """The store at `path` for reading alone; it may be written at the same time."""
        file = Path(path)
        refuse_what_is_no_file(file)
        if not file.exists():
            raise KoriskError(f"{file}: no such file; check the path")
        check_header(file)
        return cls(file, connect_to_read(file))

    def close(self) -> None:
        """Let go of the file; what was written is one ordinary file then."""
        if self._lock is not None:
            with contextlib.suppress(sqlite3.Error):  # a reader is busy, or the disk is full:
                self._connection.execute("PRAGMA busy_timeout = 500")  # it stays as it is, whole
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- What is there ---------------------------------------------------------------------------

    @property
    def study(self) -> dict[str, Any]:
        """What was last said about the study: its name, and whatever else."""
        with reading(self.path):
            return from_json(self._meta("study"))

    @property
    def created(self) -> str:
        """When the store was made: ISO 8601, UTC."""
        return self._meta("created")

    @property
    def korisk(self) -> str:
        """The version of korisk that made the store."""
        return self._meta("korisk")

    def finished(self, task: Task) -> bool:
        """Whether the task's results are there."""
        return self._status(task) == "done"

    def failed(self, task: Task) -> bool:
        """Whether the task was tried, as it is now, and failed."""
        return self._status(task) == "failed"

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of the tasks whose results are not there, failed ones among them."""
        return [task for task in tasks if not self.finished(task)]

    def results(self) -> Iterator[Cell]:
        """The finished cells, ordered by point and seed, whatever order they finished in."""
        with reading(self.path), self._snapshot():
            cells = self._cells("done")
            rows: dict[int, list[Row]] = {number: [] for number, *_ in cells}
            for cell, *values in self._fetch(
                "SELECT cell, model, n, metrics, detail FROM rows ORDER BY rowid"
            ):
                rows[cell].append(unpack_row(*values))
            found = [
                Cell(task=task, rows=tuple(rows[number]), detail=detail, account=account)
                for number, task, account, detail, _ in cells
            ]
        yield from found

    def rows(self) -> Iterator[FlatRow]:
        """The rows of all finished cells, one after the other."""
        for cell in self.results():
            for row in cell.rows:
                yield FlatRow(task=cell.task, row=row)

    def arrays(self, key: str) -> dict[str, NDArray[np.generic]]:
        """The arrays of the cell of this key, by name."""
        with reading(self.path):
            found = self._fetch(
                "SELECT name, dtype, shape, content FROM arrays "
                "WHERE cell = (SELECT id FROM cells WHERE key = ?) ORDER BY rowid",
                (key,),
            )
            return {name: unpack_array(PackedArray(name, *rest)) for name, *rest in found}

    def failures(self) -> list[Failure]:
        """The failed cells, ordered by point and seed."""
        with reading(self.path):
            return [
                Failure(task=task, error=error or "", account=account)
                for _, task, account, _, error in self._cells("failed")
            ]

    def check_name(self, name: str) -> None:
        """Refuse a study of another name."""
        known = self.study.get("name")
        if known != name:
            raise KoriskError(
                f"{self.path}: holds the study {known!r}, and this one is {name!r}; "
                "choose another --out"
            )

    def check(self, tasks: Iterable[Task]) -> None:
        """Refuse tasks that contradict each other, or results that are there."""
        specs = self._specs()
        keys = set()
        for task in tasks:
            if task.key in keys:
                raise KoriskError(f"{task.key}: is there twice in this study; remove one")
            keys.add(task.key)
            if not -(2**63) <= task.seed < 2**63:
                raise KoriskError(f"{task.point!r}: seed must fit in 64 bits, got {task.seed}")
            known, where = specs.setdefault(task.point, (task, "at first"))
            if known.spec_hash != task.spec_hash:
                raise KoriskError(
                    f"{self.path}: point {task.point!r}: "
                    f"{_difference(known.spec, task.spec, where)}; choose another --out"
                )

    # --- What is written -------------------------------------------------------------------------

    def record(self, task: Task, result: Result | Packed, account: Account) -> None:
        """Write a finished cell, whole or not at all."""
        packed = result if isinstance(result, Packed) else pack(result)
        with in_words(self.path), self._transaction():
            cell = self._replace(task, "done", None, account, packed.detail)
            self._connection.executemany(
                "INSERT INTO rows VALUES (?, ?, ?, ?, ?)", [(cell, *row) for row in packed.rows]
            )
            self._connection.executemany(
                "INSERT INTO arrays VALUES (?, ?, ?, ?, ?)",
                [(cell, a.name, a.dtype, a.shape, a.content) for a in packed.arrays],
            )

    def record_failure(self, task: Task, error: str, account: Account) -> None:
        """Write that a cell failed, in place of an earlier failure but never of results."""
        with in_words(self.path), self._transaction():
            self._replace(task, "failed", error, account, "{}")

    def _replace(
        self, task: Task, status: str, error: str | None, account: Account, detail: str
    ) -> int:
        if self._fetch("SELECT 1 FROM cells WHERE key = ? AND status = 'done'", (task.key,)):
            raise KoriskError(f"{self.path}: {task.key}: is finished, and what is finished stays")
        self.check([task])
        self._connection.execute("DELETE FROM cells WHERE key = ?", (task.key,))
        values = (
            *(None, task.key, task.point, task.seed),
            *(to_json("spec", task.spec), task.spec_hash, status, error),
            *(account.attempts, account.started, account.seconds, account.cpu_seconds),
            *(account.peak_memory, account.device_memory),
            *(json.dumps(account.machine), json.dumps(account.versions), detail),
        )
        marks = ", ".join("?" * len(values))
        number = self._connection.execute(f"INSERT INTO cells VALUES ({marks})", values).lastrowid
        assert number is not None
        return number

    def _prepare(self, name: str, text: str, tasks: list[Task]) -> None:
        """Check that the store is whole and of this study; only then make it ready."""
        with in_words(self.path):
            problem = self._fetch("PRAGMA quick_check(1)")[0][0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            self.check_name(name)
            self.check(tasks)
            self._connection.execute(f"PRAGMA journal_mode = {self._journal()}")
            self._connection.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._connection.execute("UPDATE meta SET value = ? WHERE name = 'study'", (text,))

    def _journal(self) -> str:
        """How SQLite keeps what is not yet in the file: WAL needs memory that readers share."""
        kind = network_file_system(self.path)
        if kind is None:
            return "WAL"
        warnings.warn(
            f"{self.path}: lies on a network file system ({kind}), whose locks may fail: let one "
            "run at a time write there, or choose an --out on a disk of this machine",
            KoriskWarning,
            stacklevel=4,
        )
        return "DELETE"

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._lock is None:
            raise KoriskError(f"{self.path}: is open for reading alone; use Store.create_or_open")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk has SQLite roll back by itself
                self._connection.execute("ROLLBACK")
            raise

    # --- Queries ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several queries that see one state, whatever is written meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _fetch(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        # All at once: a half-read answer would keep the writer waiting.
        return self._connection.execute(query, values).fetchall()

    def _meta(self, name: str) -> str:
        with reading(self.path):
            [(value,)] = self._fetch("SELECT value FROM meta WHERE name = ?", (name,))
            return str(value)

    def _status(self, task: Task) -> str | None:
        with reading(self.path):
            found = self._fetch(
                "SELECT status FROM cells WHERE key = ? AND spec_hash = ?",
                (task.key, task.spec_hash),
            )
            return found[0][0] if found else None

    def _specs(self) -> dict[str, tuple[Task, str]]:
        """A finished task of each point, and where it stands. What failed may be asked anew."""
        with reading(self.path):
            found = self._fetch(
                "SELECT point, seed, spec FROM cells WHERE status = 'done' GROUP BY point"
            )
            return {
                point: (Task(point=point, seed=seed, spec=from_json(spec)), "in the store")
                for point, seed, spec in found
            }

    def _cells(self, status: str) -> list[tuple[int, Task, Account, dict[str, Any], str | None]]:
        found = self._fetch(
            "SELECT id, point, seed, spec, started, seconds, cpu_seconds, peak_memory, "
            "device_memory, attempts, machine, versions, detail, error "
            "FROM cells WHERE status = ?",
            (status,),
        )
        cells = [_cell(*values) for values in found]
        return sorted(cells, key=lambda cell: (_natural(cell[1].point), cell[1].seed))


def _cell(
    number: int, point: str, seed: int, spec: str, *rest: Any
) -> tuple[int, Task, Account, dict[str, Any], str | None]:
    *costs, machine, versions, detail, error = rest
    check_types("a cell", str, point, costs[0])
    check_types("a cell", int, seed, number)
    check_types("a cell", str | None, error)
    check_types("a cell", int | float | None, *costs[1:])
    names = "started", "seconds", "cpu_seconds", "peak_memory", "device_memory", "attempts"
    account = Account(
        **dict(zip(names, costs, strict=True)),
        machine=from_json(machine),
        versions=from_json(versions),
    )
    task = Task(point=point, seed=seed, spec=from_json(spec))
    return number, task, account, from_json(detail), error


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sorts point 8 before point 16."""
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def _study_text(study: Mapping[str, Any]) -> tuple[str, str]:
    name = study.get("name")
    if not isinstance(name, str) or not name:
        raise KoriskError(f"a study must have a name, got {shown(name)}; give it one")
    return name, to_json("the study", study)


def _difference(known: Mapping[str, Any], new: Mapping[str, Any], where: str) -> str:
    """The first key in which two specs differ, with both values."""
    name, old, asked = _first_difference(known, json.loads(to_json("spec", new)), "")
    return f"{name} is {_value(old)} {where} and {_value(asked)} in this study"


def _first_difference(old: Any, new: Any, name: str) -> tuple[str, Any, Any]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            left, right = old.get(key, _ABSENT), new.get(key, _ABSENT)
            if left is _ABSENT or right is _ABSENT or _text(left) != _text(right):
                return _first_difference(left, right, f"{name}.{key}".removeprefix("."))
    return name or "spec", old, new


def _text(value: object) -> str:
    """A JSON value as a text: equal values have equal ones, NaN too."""
    return json.dumps(value, sort_keys=True)


_ABSENT = object()


def _value(value: object) -> str:
    return "not there" if value is _ABSENT else shown(value)
