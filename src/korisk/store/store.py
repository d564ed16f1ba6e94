"""Results of a study in one SQLite file that grows cell by cell and survives killed writers.

*Ownership.* One process writes, under a lock next to the file (`study.db.lock`); any number read,
also while it writes. A store object belongs to the thread that opened it.

*Guarantees.* A cell is written in one transaction with SQLite's full synchronisation: after a kill
or a power cut it is stored completely or not at all. A finished cell never changes. A failed one is
replaced by its next attempt. All cells of a point have the same spec; another is refused.

*The file* is an ordinary single file, which can be copied and read anywhere; SQLite keeps a
journal next to it while a cell is written.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from korisk._checks import path as checked_path
from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError, shown
from korisk.store import cells, file, repair
from korisk.store.cells import CELL, CONTENTS, Packed, Result, Row, Task
from korisk.store.file import STORE_NAME as STORE_NAME
from korisk.store.file import store_path as store_path
from korisk.store.file import store_to_write as store_to_write
from korisk.store.usage import Usage
from korisk.texts import natural

_ABSENT = object()  # the value of a key that a spec lacks


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A finished cell; `Store.results` returns them.

    Parameters
    ----------
    task : Task
        The point, the seed and the spec.
    rows : tuple of Row
        Metrics by model and training set size.
    detail : mapping
        Plain JSON values about the cell as a whole.
    usage : Usage
        Seconds, memory, attempts, machine and versions.

    Examples
    --------
    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> with Store.create_or_open("cells.db", {"name": "mine"}) as store:
    ...     summary = run_study(tasks, work, store)
    ...     cells = list(store.results())
    >>> cells[1].task.seed, dict(cells[1].rows[0].metrics), cells[1].usage.attempts
    (2, {'mse': 0.05}, 1)
    """

    task: Task
    rows: tuple[Row, ...]
    detail: JsonMapping
    usage: Usage


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed cell; `Store.failures` returns them.

    Parameters
    ----------
    task : Task
        The point, the seed and the spec.
    error : str
        The error message, with the traceback.
    usage : Usage
        Seconds, memory, attempts, machine and versions.

    Examples
    --------
    >>> from korisk.studies import Store, Task, run_study
    >>> def work(task, report):
    ...     raise ValueError("no images")
    >>> with Store.create_or_open("failures.db", {"name": "mine"}) as store:
    ...     summary = run_study([Task(point="a", seed=1, spec={})], work, store)
    ...     [failure.reason for failure in store.failures()]
    ['ValueError: no images']
    """

    task: Task
    error: str
    usage: Usage

    @property
    def reason(self) -> str:
        """The first line of `error`."""
        lines = (line.strip() for line in self.error.splitlines())
        return next(filter(None, lines), "no reason is known")


@dataclass(frozen=True, kw_only=True)
class FlatRow:
    """One row of metrics with the task of its cell; `Store.rows` returns them.

    Parameters
    ----------
    task : Task
        The cell that the row belongs to.
    row : Row
        Model, n and metrics.

    Examples
    --------
    >>> from korisk.studies import FlatRow, Row, Task
    >>> flat = FlatRow(task=Task(point="a", seed=1, spec={}),
    ...                row=Row(model="KO", n=8, metrics={"mse": 0.1}))
    >>> flat.task.point, flat.row.model
    ('a', 'KO')
    """

    task: Task
    row: Row


class Store:
    """The cells of one study in one file: `create_or_open` to write, `read` to read.

    A `with` block closes it. docs/reference/store.md describes the file.

    Parameters
    ----------
    path : Path
        The file.
    connection : sqlite3.Connection
        An open connection to it.
    lock : WriteLock, optional
        The writer's lock; None for reading.

    Examples
    --------
    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> with Store.create_or_open("study.db", {"name": "mine"}) as store:
    ...     summary = run_study(tasks, work, store)
    >>> with Store.read("study.db") as store:
    ...     [cell.task.key for cell in store.results()], len(list(store.rows()))
    (['a, seed 1', 'a, seed 2'], 2)
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: file.WriteLock | None = None
    ) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock

    @classmethod
    def create_or_open(
        cls,
        path: str | PathLike[str],
        study: JsonMapping,
        *,
        tasks: Iterable[Task] = (),
        wait: float = 0.0,
    ) -> Self:
        """Open the store at `path` for writing, or create it.

        Parameters
        ----------
        path : str or path
            The file; its folder must exist.
        study : mapping
            Plain JSON with a `"name"`. A store holds studies of one name, and keeps the latest
            description.
        tasks : iterable of Task, default ()
            The cells to compute. They are checked against the stored ones before anything changes;
            of a damaged file, their intact results are copied to a new one.
        wait : float, default 0.0
            Seconds to wait for another writer.

        Returns
        -------
        Store
            Open for writing and locked until it is closed.

        Raises
        ------
        KoriskError
            If the file is not a store, is damaged, holds another study, contradicts `tasks`, or is
            being written by another process.

        Examples
        --------
        >>> from korisk.studies import Store
        >>> with Store.create_or_open("new.db", {"name": "mine"}) as store:
        ...     store.study
        {'name': 'mine'}
        """
        name = study.get("name")
        if not isinstance(name, str) or not name:
            raise KoriskError(f"a study must have a name, got {shown(name)}; give it one")
        text, task_list = cells.to_json("the study", study), list(tasks)
        file_path = Path(path)
        file.check_path(file_path)
        with contextlib.ExitStack() as undo:
            lock = file.WriteLock(file_path, wait=wait)
            undo.callback(lock.release)
            if file_path.exists():
                try:
                    repair.require_intact(file_path)
                except file.DamagedError as error:
                    repair.copy_intact(file_path, text, task_list, error)
            else:
                file.create(file_path, text)
            store = cls(file_path, file.connect(file_path), lock)
            # From here on, closing the store releases the lock.
            undo.pop_all()
            undo.callback(store.close)
            with file.sqlite_errors(file_path):
                file.check_name(file_path, store.study.get("name"), name)
                store.check(task_list)
                # The mode that works on network file systems too; korisk 0.3 used WAL.
                store._connection.execute("PRAGMA journal_mode = DELETE")
                store._connection.execute("PRAGMA synchronous = FULL")
                with store._transaction():
                    file.set_meta(store._connection, "study", text)
            undo.pop_all()
        return store

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Open the store at `path` for reading; another process may be writing it.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Store
            Open for reading; its file is not changed.

        Raises
        ------
        KoriskError
            If there is no such file, or it is not a store.

        Examples
        --------
        >>> from korisk.studies import Store
        >>> Store.create_or_open("read.db", {"name": "mine"}).close()
        >>> with Store.read("read.db") as store:
        ...     list(store.results())
        []
        """
        file_path = checked_path("path", path, remedy="name the file of a store")
        file.check_path(file_path)
        if not file_path.exists():
            raise KoriskError(f"{file_path}: no such file; check the path")
        file.check_header(file_path)
        return cls(file_path, file.connect_to_read(file_path))

    def close(self) -> None:
        """Close the file; after writing it is one ordinary file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()  # of a transaction that Ctrl-C left open
        self._connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- Reading ---------------------------------------------------------------------------------

    @property
    def study(self) -> JsonDict:
        """The latest description of the study: its name, and its file's other keys."""
        with file.reading(self.path):
            return cells.from_json(self._meta("study"))

    @property
    def created(self) -> str:
        """When the store was created: ISO 8601, UTC."""
        return self._meta("created")

    @property
    def korisk(self) -> str:
        """The version of korisk that created the store."""
        return self._meta("korisk")

    def _meta(self, name: str) -> str:
        with file.reading(self.path):
            query = "SELECT value, digest FROM meta NOT INDEXED WHERE name = ?"
            [(value, stored_digest)] = self._fetch(query, (name,))
            if stored_digest != cells.digest(name, value):
                raise ValueError(f"{name} of the study was changed after it was written")
            return str(value)

    def states(self, tasks: Iterable[Task]) -> dict[str, str]:
        """How tasks ended that are stored with the spec that they have now.

        Parameters
        ----------
        tasks : iterable of Task
            Cells of the study.

        Returns
        -------
        dict of str to str
            "done" or "failed" by the key of a task; others have not run.
        """
        with file.reading(self.path):
            # Without the index, which may be damaged although the cells are intact.
            stored_cells = self._fetch("SELECT key, spec_hash, status FROM cells NOT INDEXED")
        statuses = {tuple(names): status for *names, status in stored_cells}
        states = ((task.key, statuses.get((task.key, task.spec_hash))) for task in tasks)
        return {key: status for key, status in states if status is not None}

    def missing(self, tasks: Iterable[Task], *, failed: bool = True) -> list[Task]:
        """The tasks whose results are not stored.

        Parameters
        ----------
        tasks : iterable of Task
            Cells of the study.
        failed : bool, default True
            Whether those that failed are among them.

        Returns
        -------
        list of Task
            Those that are not finished, in the same order.
        """
        states = self.states(all_tasks := list(tasks))
        ended = {"done"} if failed else {"done", "failed"}
        return [task for task in all_tasks if states.get(task.key) not in ended]

    def results(self) -> Iterator[Cell]:
        """Iterate over the finished cells, read from one snapshot.

        Yields
        ------
        Cell
            Ordered by point and seed.
        """
        for task, usage, detail, _, rows in self._cells("done"):
            yield Cell(task=task, rows=rows, detail=detail, usage=usage)

    def rows(self) -> Iterator[FlatRow]:
        """The rows of all finished cells.

        Yields
        ------
        FlatRow
            In the order of `results`.
        """
        for cell in self.results():
            yield from (FlatRow(task=cell.task, row=row) for row in cell.rows)

    def arrays(self, key: str) -> dict[str, NDArray[np.generic]]:
        """The arrays of a cell.

        Parameters
        ----------
        key : str
            The key of its task.

        Returns
        -------
        dict of str to ndarray
            Arrays by name.
        """
        stored_cells, contents = list[Any](), dict[str, dict[int, list[Any]]]()
        with file.reading(self.path):
            of_key = "IN (SELECT id FROM cells {} WHERE key = ?)"
            with contextlib.suppress(sqlite3.DatabaseError, file.DamagedError):
                stored_cells, contents = self._stored("arrays", of_key.format(""), key, scan="")
            if not stored_cells:  # the index may be damaged
                of_key = of_key.format("NOT INDEXED")
                stored_cells, contents = self._stored("arrays", of_key, key)
            if not stored_cells:
                self._cells("done")  # raises if a damaged cell may have had this key
                return {}
            [(number, *_)] = stored_cells
            stored_arrays = contents["arrays"][number]
            return {array[0]: cells.unpack_array(*array) for _, *array in stored_arrays}

    def failures(self) -> list[Failure]:
        """The failed cells.

        Returns
        -------
        list of Failure
            Ordered by point and seed.
        """
        failed = self._cells("failed")
        return [Failure(task=t, error=error or "", usage=usage) for t, usage, _, error, _ in failed]

    def _cells(
        self, status: str
    ) -> list[tuple[Task, Usage, JsonDict, str | None, tuple[Row, ...]]]:
        """Cells of a status with their rows, from one snapshot, digests checked."""
        with file.reading(self.path):
            self._connection.execute("BEGIN")
            try:
                stored_cells, contents = self._stored("rows", "NOT NULL")
                digest_sum = self._meta("cells")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            # Rows or arrays without a cell show that their cell was lost.
            orphaned = max(map(len, contents.values())) > len(stored_cells)
            if orphaned or digest_sum != file.total(cell[1] for cell in stored_cells):
                raise file.DamagedError(self.path, "cells are missing")
            unpacked = []
            for number, _, *values in stored_cells:
                columns = dict(zip(CELL, values, strict=True))
                if columns["status"] == status:
                    stored_rows = contents["rows"][number]
                    cell_rows = tuple(cells.unpack_row(*row[1:]) for row in stored_rows)
                    unpacked.append((*cells.unpack_cell(columns), cell_rows))

        return sorted(unpacked, key=lambda cell: (natural(cell[0].point), cell[0].seed))

    def _stored(
        self, content: str, which: str, *keys: str, scan: str = "NOT INDEXED"
    ) -> tuple[list[Any], dict[str, dict[int, list[Any]]]]:
        """Cells, and the digests of their rows and arrays by table and cell, all checked.

        For the table `content`, the values follow the digests.
        """
        # Read without indices, which may be damaged although the rows are intact.
        query = f"SELECT id, digest, {', '.join(CELL)} FROM cells {scan} WHERE id {which}"
        stored_cells, contents = self._fetch(query, keys), dict[str, dict[int, list[Any]]]()
        for table in ("rows", "arrays"):
            columns = ", ".join(["digest", *(CONTENTS[table] if table == content else ())])
            query = f"SELECT cell, {columns} FROM {table} {scan} WHERE cell {which}"
            contents[table] = {number: [] for number, *_ in stored_cells}
            for cell, *values in self._fetch(f"{query} ORDER BY rowid", keys):
                contents[table].setdefault(cell, []).append(values)
        damaged = []
        for number, stored_digest, *values in stored_cells:
            digests = ([row[0] for row in by_cell[number]] for by_cell in contents.values())
            changed = any(row[0] != cells.digest(*row[1:]) for row in contents[content][number])
            if changed or stored_digest != cells.cell_digest(values, *digests):
                damaged.append(str(values[0]))
        if damaged:
            keys_shown = cells.first_of(damaged)
            raise file.DamagedError(self.path, f"not as written, and so damaged: {keys_shown}")
        return stored_cells, contents

    def _fetch(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        # All rows at once: an open cursor would hold a read lock and block the writer.
        try:
            return self._connection.execute(query, values).fetchall()
        except MemoryError:
            # SQLite also raises this for text whose encoding is damaged; a small file cannot be the
            # cause.
            if self.path.stat().st_size > 2**28:
                raise
        raise sqlite3.DatabaseError("a text cannot be read")

    # --- Checking --------------------------------------------------------------------------------

    def check(self, tasks: Iterable[Task]) -> None:
        """Raise if tasks contradict each other or the stored results.

        Parameters
        ----------
        tasks : iterable of Task
            Cells of the study.

        Raises
        ------
        KoriskError
            If a task is given twice, or its spec differs from that of its point's other cells.
        """
        # The first task of a point is the reference for the others, unless the store has one.
        keys, references = set(), dict[str, tuple[Task, str]]()
        for task in tasks:
            if task.key in keys:
                raise KoriskError(f"{task.key}: is twice in this study; remove one")
            keys.add(task.key)
            if not -(2**63) <= task.seed < 2**63:
                raise KoriskError(f"{task.point!r}: seed must fit in 64 bits, got {task.seed}")
            if task.point not in references:
                finished = self._finished_at(task.point)
                references[task.point] = (
                    finished or task,
                    "in the store" if finished else "at first",
                )
            reference, origin = references[task.point]
            if reference.spec_hash != task.spec_hash:
                spec = json.loads(cells.to_json("spec", task.spec))
                name, old, new = difference(reference.spec, spec)
                problem = f"point {task.point!r}: {name} is {old} {origin} and {new} in this study"
                raise KoriskError(f"{self.path}: {problem}; choose another path")

    def _finished_at(self, point: str) -> Task | None:
        """A finished task of a point; failed ones do not count: their spec may be corrected."""
        # Between these keys, which the index finds, are those of the point, and few others.
        values = f"{point}, seed ", f"{point}, seed!", point
        which = "key > ? AND key < ? AND point = ? AND status = 'done' LIMIT 1"
        with file.reading(self.path):
            for seed, spec in self._fetch(f"SELECT seed, spec FROM cells WHERE {which}", values):
                return Task(point=point, seed=seed, spec=cells.from_json(spec))
        return None

    # --- Writing ---------------------------------------------------------------------------------

    def record(self, task: Task, result: Result | Packed, usage: Usage) -> None:
        """Store a finished cell, completely or not at all.

        Parameters
        ----------
        task : Task
            The cell; it must not be finished already.
        result : Result or Packed
            Its output, or the stored form of it.
        usage : Usage
            Its time and memory.

        Raises
        ------
        KoriskError
            If the result cannot be stored, the cell is finished already, or its spec differs from
            that of the point's other cells.
        """
        packed = result if isinstance(result, Packed) else cells.pack(result)
        with file.sqlite_errors(self.path), self._transaction():
            self._replace(task, "done", None, usage, packed)

    def record_failure(self, task: Task, error: str, usage: Usage) -> None:
        """Store that a cell failed; an earlier failure is replaced, results never are.

        Parameters
        ----------
        task : Task
            The cell; it must not be finished already.
        error : str
            The error message, with the traceback.
        usage : Usage
            Its time and memory.

        Raises
        ------
        KoriskError
            If the cell is finished already.
        """
        with file.sqlite_errors(self.path), self._transaction():
            self._replace(task, "failed", error, usage, Packed((), (), "{}"))

    def _replace(
        self, task: Task, status: str, error: str | None, usage: Usage, packed: Packed
    ) -> None:
        if self._fetch("SELECT 1 FROM cells WHERE key = ? AND status = 'done'", (task.key,)):
            raise KoriskError(f"{self.path}: {task.key}: is finished, and finished cells are kept")
        self.check([task])
        digest_sum = self._meta("cells")
        # An earlier failure of this task is replaced.
        for number, old_digest in self._fetch(
            "SELECT id, digest FROM cells WHERE key = ?", (task.key,)
        ):
            file.delete(self._connection, number)
            digest_sum = file.total([digest_sum], without=old_digest)
        values = vars(usage) | {"key": task.key, "point": task.point, "seed": task.seed}
        values |= {"spec": cells.to_json("spec", task.spec), "spec_hash": task.spec_hash}
        values |= {"status": status, "error": error, "detail": packed.detail, "digest": ""}
        values |= {name: json.dumps(values[name]) for name in ("machine", "versions")}
        number = self._connection.execute(
            f"INSERT INTO cells ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            tuple(values.values()),
        ).lastrowid
        assert number is not None
        for table, table_rows in (("rows", packed.rows), ("arrays", packed.arrays)):
            signed_rows = [(number, *row, cells.digest(*row)) for row in table_rows]
            file.insert(self._connection, table, ("cell", *CONTENTS[table], "digest"), signed_rows)
        signature = file.sign(self._connection, number)
        file.set_meta(self._connection, "cells", file.total([digest_sum, signature]))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._lock is None:
            raise KoriskError(f"{self.path}: is open for reading only; use Store.create_or_open")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # on a full disk SQLite rolls back by itself
                self._connection.execute("ROLLBACK")
            raise


def difference(old: Any, new: Any, name: str = "") -> tuple[str, str, str]:
    """First key in which two JSON values differ, and both values as text."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            old_value, new_value = old.get(key, _ABSENT), new.get(key, _ABSENT)
            pair = (old_value, new_value)
            # Compared as JSON, as stored: Python has 1 == True and (1,) != [1].
            if len({json.dumps(value, sort_keys=True, default=repr) for value in pair}) > 1:
                return difference(old_value, new_value, f"{name}.{key}".removeprefix("."))
    texts = ["missing" if value is _ABSENT else shown(value) for value in (old, new)]
    return name or "spec", texts[0], texts[1]
