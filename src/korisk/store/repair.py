"""Repair damaged stores, and upgrade those of an older korisk, before a run writes to them.

Every cell has a digest, which tells intact cells from damaged ones. A damaged cell stays in the
file, where readers refuse it, until a run has computed it again. If SQLite cannot read the file,
its cells are copied to a new store, and the damaged file is kept under another name.
"""

import contextlib
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from korisk._json import JsonDict
from korisk.errors import KoriskError, KoriskWarning
from korisk.store import file
from korisk.store.cells import Task, check_types, digest, from_json, unpack_array, unpack_row
from korisk.store.usage import Usage

# Numbers of `Usage`: two times in seconds, two sizes in bytes, and a count.
MEASURED = ("seconds", "cpu_seconds", "peak_memory", "device_memory", "attempts")
# Columns of the three tables, in the order in which digests hash them.
_TASK = ("key", "point", "seed", "spec", "spec_hash", "status", "error", "attempts", "started")
_USAGE = ("seconds", "cpu_seconds", "peak_memory", "device_memory", "machine", "versions", "detail")
CELL = _TASK + _USAGE
ROW = ("model", "n", "metrics", "detail")
ARRAY = ("name", "dtype", "shape", "content")
TABLES = {"cells": CELL, "rows": ROW, "arrays": ARRAY}


def is_signed(connection: sqlite3.Connection) -> bool:
    """Whether the store has digests, as all of format 2 have."""
    return any(column[1] == "digest" for column in connection.execute("PRAGMA table_info(cells)"))


def cell_digest(cell: Sequence[object], rows: Iterable[str], arrays: Iterable[str]) -> str:
    """Digest of a cell: of its columns and of the digests of its rows and arrays."""
    # The separator shows a digest that moved from one list to the other.
    return digest(*cell, *rows, "arrays", *arrays)


def read_cell(columns: JsonDict) -> tuple[Task, Usage, JsonDict, str | None]:
    """Read a cell from its columns: task, usage, detail and error."""
    check_types("a cell", str, columns["point"], columns["started"])
    check_types("a cell", int, columns["seed"])
    check_types("a cell", str | None, columns["error"])
    measured = {name: columns[name] for name in MEASURED}
    check_types("a cell", int | float | None, *measured.values())
    described: JsonDict = {name: from_json(columns[name]) for name in ("machine", "versions")}
    usage = Usage(started=columns["started"], **measured, **described)
    task = Task(point=columns["point"], seed=columns["seed"], spec=from_json(columns["spec"]))
    return task, usage, from_json(columns["detail"]), columns["error"]


def first_of(keys: Sequence[str]) -> str:
    """The first five keys, and how many more there are."""
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if keys[5:] else "")


def check_name(path: Path, known: object, name: str) -> None:
    """Refuse a study of another name than the store's."""
    if known != name:
        remedy = f"choose another path, or the name {known!r} if it is the same study"
        raise KoriskError(f"{path}: holds the study {known!r}, not {name!r}; {remedy}")


def check_and_repair(path: Path, study: str, tasks: Sequence[Task]) -> set[int]:
    """Upgrade an old store, find damaged cells, and rebuild a file that SQLite cannot read.

    A damaged cell stays in the file, where readers refuse it, until a run has computed it again.
    """
    in_run = "damaged, and to be computed again"
    try:
        file.check_header(path)
        with contextlib.closing(file.connect(path)) as connection, file.sqlite_errors(path):
            # The first problem is enough to decide; a full check of a damaged file is slow.
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            signed = is_signed(connection)
            if signed:
                connection.execute("BEGIN IMMEDIATE")
                damaged = _find_damaged(connection, path, study, tasks)
                connection.execute("COMMIT")
            else:
                # Check the name first: the file of another study must stay as it is.
                query = "SELECT value FROM meta WHERE name = 'study'"
                for (old_study,) in connection.execute(query).fetchall():
                    with file.reading(path):
                        check_name(path, from_json(old_study).get("name"), from_json(study)["name"])
        if not signed:
            damaged = _upgrade(path)
    except file.DamagedError as error:
        damaged = _rebuild(path, study, tasks, error)
        in_run = ""  # _rebuild has warned about them
    keys = {task.key for task in tasks}
    not_in_run = "damaged and not in this run, so that readers refuse it until they are run again"
    for status, is_in_run in ((in_run, True), (not_in_run, False)):
        names = [cell.key for cell in damaged if bool(keys & cell.names) is is_in_run]
        if status and names:
            warnings.warn(f"{path}: {status}: {first_of(names)}", KoriskWarning, stacklevel=3)
    return {cell.number for cell in damaged}


@dataclass
class _StoredCell:
    """A cell as it was read, with the rowids and digests of its rows and arrays."""

    number: int  # its id
    values: Sequence[object]  # in the order of CELL
    stored_digest: object
    rowids: dict[str, list[int]] = field(default_factory=lambda: {"rows": [], "arrays": []})
    digests: dict[str, list[str]] = field(default_factory=lambda: {"rows": [], "arrays": []})
    contents_match: bool = True  # rows and arrays have the digests stored with them

    def column(self, name: str) -> object:
        """The value of a column of `CELL`."""
        return self.values[CELL.index(name)]

    @property
    def key(self) -> str:
        return str(self.column("key"))

    @property
    def names(self) -> set[str]:
        """Keys of the tasks it may belong to: its key, or its point and seed, may be damaged."""
        return {self.key, f"{self.column('point')}, seed {self.column('seed')}"}

    @property
    def intact(self) -> bool:
        expected = cell_digest(self.values, *self.digests.values())
        return self.contents_match and self.stored_digest == expected


def _stored_cells(connection: sqlite3.Connection, *, tolerant: bool = False) -> list[_StoredCell]:
    """Read all cells, intact or not; if `tolerant`, also those beyond an unreadable page."""
    # Damaged text must be readable, so that its digest can be compared.
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    cells = {}
    for table, columns in TABLES.items():
        cell = "id" if table == "cells" else "cell"
        query = f"SELECT rowid, {cell}, {', '.join(columns)}, digest FROM {table} NOT INDEXED"
        seen_rowids = set[int]()
        # SQLite stops at an unreadable page; reading from the other end reaches the rows behind it.
        for order in ("ASC", "DESC") if tolerant else ("ASC",):
            try:
                stored_rows = connection.execute(f"{query} ORDER BY rowid {order}")
                for rowid, number, *values, stored_digest in stored_rows:
                    if rowid in seen_rowids:
                        break
                    seen_rowids.add(rowid)
                    if table == "cells":
                        cells[number] = _StoredCell(number, values, stored_digest)
                    elif number in cells:
                        owner = cells[number]
                        owner.contents_match &= stored_digest == digest(*values)
                        owner.rowids[table].append(rowid)
                        owner.digests[table].append(stored_digest)
            except sqlite3.Error:
                if not tolerant:
                    raise
            else:
                break
        # Digests are hashed in the order of rowids; those read from the other end came reversed.
        for owner in cells.values() if table != "cells" else ():
            pairs = sorted(zip(owner.rowids[table], owner.digests[table], strict=True))
            owner.rowids[table] = [rowid for rowid, _ in pairs]
            owner.digests[table] = [stored_digest for _, stored_digest in pairs]
    return list(cells.values())


def _meta(connection: sqlite3.Connection) -> dict[str, str]:
    """The entries about the store as a whole whose digests match."""
    entries = connection.execute("SELECT name, value, digest FROM meta NOT INDEXED")
    return {name: value for name, value, stored in entries if stored == digest(name, value)}


def _check_study(
    path: Path,
    meta: dict[str, str],
    cells: Iterable[_StoredCell],
    study: str,
    tasks: Sequence[Task],
) -> None:
    """Refuse a store of another study, or one of unknown name with cells of other tasks."""
    name = from_json(study)["name"]
    if "study" in meta:
        check_name(path, from_json(meta["study"]).get("name"), name)
        return
    for cell in cells:
        if cell.intact and not _is_one_of(cell, tasks):
            raise KoriskError(
                f"{path}: the name of its study is damaged, and {cell.key} in it is no cell of "
                f"this run of {name!r}; run the study that it holds, or choose another path"
            )


def _is_one_of(cell: _StoredCell, tasks: Sequence[Task]) -> bool:
    identity = cell.column("key"), cell.column("spec_hash")
    return identity in {(task.key, task.spec_hash) for task in tasks}


def _find_damaged(
    connection: sqlite3.Connection, path: Path, study: str, tasks: Sequence[Task]
) -> list[_StoredCell]:
    """Find the cells whose digests do not match; repair everything else."""
    # A damaged cell has another digest; a missing one changes the sum of all digests in `meta`.
    cells, meta = _stored_cells(connection), _meta(connection)
    _check_study(path, meta, cells, study, tasks)
    damaged = [cell for cell in cells if not cell.intact]
    digest_sum = file.total(str(cell.stored_digest) for cell in cells if cell.intact)
    if not damaged and meta.get("cells", digest_sum) != digest_sum:
        raise file.DamagedError(path, "cells are missing")
    # Rows and arrays whose cell was deleted would make readers report missing cells.
    for table in ("rows", "arrays"):
        connection.execute(f"DELETE FROM {table} WHERE cell NOT IN (SELECT id FROM cells)")
    entries = {"study": study, "korisk": "unknown", "created": "unknown"} | meta
    for name, value in (entries | {"format": str(file.FORMAT), "cells": digest_sum}).items():
        if meta.get(name) != value:  # opening an intact store must not write to it
            file.set_meta(connection, name, value)
    if connection.execute("PRAGMA user_version").fetchone()[0] != file.FORMAT:
        connection.execute(f"PRAGMA user_version = {file.FORMAT}")
    return damaged


def _upgrade(path: Path) -> list[_StoredCell]:
    """Copy a store of format 1 into one with digests; return the cells that cannot be read."""
    draft = path.with_name(f".{path.name}.rebuilt")
    draft.unlink(missing_ok=True)
    file.create(draft, "")
    with (
        contextlib.closing(file.connect(path)) as source,
        contextlib.closing(file.connect(draft)) as target,
        file.sqlite_errors(path),
    ):
        target.execute("BEGIN")
        signed, damaged = list[str](), list[_StoredCell]()
        for number, *values in source.execute(f"SELECT id, {', '.join(CELL)} FROM cells"):
            rows, arrays = (
                source.execute(
                    f"SELECT {', '.join(TABLES[table])} FROM {table} WHERE cell = ? ORDER BY rowid",
                    (number,),
                ).fetchall()
                for table in ("rows", "arrays")
            )
            readable = True
            try:  # without digests, damage shows only as values that cannot be parsed
                read_cell(dict(zip(CELL, values, strict=True)))
                for row in rows:
                    unpack_row(*row)
                for array in arrays:
                    unpack_array(*array)
            except file.UNREADABLE:
                readable = False
                damaged.append(_StoredCell(number, values, ""))
            insert(target, "cells", [(number, *values, "")])
            insert(target, "rows", [(number, *row, digest(*row)) for row in rows])
            insert(target, "arrays", [(number, *array, digest(*array)) for array in arrays])
            if readable:  # an unreadable cell keeps an empty digest, which marks it as damaged
                signed.append(sign(target, number))
        file.set_meta(target, "cells", file.total(signed))
        for name, value in source.execute("SELECT name, value FROM meta"):
            file.set_meta(target, name, value)
        target.execute("COMMIT")
        # Pages in a leftover -wal file would be applied to the new store.
        source.execute("PRAGMA journal_mode = DELETE")
    draft.replace(path)
    return damaged


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows into a table; the last column is the digest."""
    if rows:
        slots = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({slots})", rows)


def delete(connection: sqlite3.Connection, number: int) -> None:
    """Delete a cell with its rows and arrays."""
    for table, cell in (("rows", "cell"), ("arrays", "cell"), ("cells", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {cell} = ?", (number,))


def sign(connection: sqlite3.Connection, number: int) -> str:
    """Compute, write and return the digest of a cell."""
    # Read back from SQLite, which may convert values on insertion.
    [values] = connection.execute(f"SELECT {', '.join(CELL)} FROM cells WHERE id = ?", (number,))
    digests = []
    for table in ("rows", "arrays"):
        query = f"SELECT digest FROM {table} WHERE cell = ? ORDER BY rowid"
        digests.append([stored_digest for (stored_digest,) in connection.execute(query, (number,))])
    signature = cell_digest(values, *digests)
    connection.execute("UPDATE cells SET digest = ? WHERE id = ?", (signature, number))
    return signature


def _rebuild(
    path: Path, study: str, tasks: Sequence[Task], error: file.DamagedError
) -> list[_StoredCell]:
    """Copy the readable cells to a new store, keep the damaged file, return the damaged cells.

    If unknown cells are lost, a study with other tasks would look complete although it is not.
    Only cells of this run, which computes what is missing, are then kept.
    """
    suffix_number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{suffix_number}")).exists():
        suffix_number += 1
    draft = path.with_name(f".{path.name}.rebuilt")
    draft.unlink(missing_ok=True)
    intact, damaged, not_in_run = list[_StoredCell](), list[_StoredCell](), list[_StoredCell]()
    with _salvage(path) as (source, meta, cells):
        complete = False  # whether all cells of the file were read
        with contextlib.suppress(ValueError):  # a damaged digest is not hexadecimal
            complete = meta.get("cells") == file.total(str(cell.stored_digest) for cell in cells)
        _check_study(path, meta, cells if complete else (), study, tasks)
        if not complete and not tasks:
            raise KoriskError(
                f"{path}: cannot be read completely; open it with the tasks of its study, so that "
                "what is lost is computed again, or restore a copy of it"
            )
        file.create(draft, meta.get("study", study))
        keys = {task.key for task in tasks}
        with contextlib.closing(file.connect(draft)) as target, file.sqlite_errors(path):
            target.execute("BEGIN")
            # Intact cells first: a damaged one may claim the key of an intact one.
            for cell in sorted(cells, key=lambda cell: not cell.intact):
                rows, arrays = _intact_contents(source, cell)
                try:
                    insert(target, "cells", [(cell.number, *cell.values, cell.stored_digest)])
                    insert(target, "rows", rows)
                    insert(target, "arrays", arrays)
                except (sqlite3.IntegrityError, UnicodeEncodeError):  # a damaged cell, dropped
                    complete &= bool(keys & cell.names)
                else:
                    (intact if cell.intact else damaged).append(cell)
            if not complete:
                not_in_run = [cell for cell in intact if not _is_one_of(cell, tasks)]
                for cell in not_in_run + damaged:
                    delete(target, cell.number)
                intact, damaged = [cell for cell in intact if cell not in not_in_run], []
            file.set_meta(target, "cells", file.total(str(cell.stored_digest) for cell in intact))
            target.execute("COMMIT")
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    draft.rename(path)
    reason = str(error).split(";")[0].removeprefix(f"{path}: ").split(":")[0]
    count = "1 cell is" if len(intact) == 1 else f"{len(intact)} cells are"
    not_kept = f", with {len(not_in_run)} more that are not in this run" if not_in_run else ""
    message = f"{path}: {reason}; {count} intact and kept, the rest is computed again"
    message += f"; the damaged file is now {aside.name}{not_kept}"
    warnings.warn(message, KoriskWarning, stacklevel=4)
    return damaged


@contextlib.contextmanager
def _salvage(path: Path) -> Iterator[tuple[sqlite3.Connection, dict[str, str], list[_StoredCell]]]:
    """Open a copy of a damaged file; yield it with its readable entries and cells."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".korisk-") as folder:
        copy = Path(folder, "copy.db")
        shutil.copyfile(path, copy)
        file.restore_common_parts(copy)  # the header and schema, which all stores share
        connection: sqlite3.Connection
        try:
            connection = file.connect(copy, "immutable=1")
        except KoriskError:
            connection = sqlite3.connect(":memory:")
        with contextlib.closing(connection):
            meta, cells = dict[str, str](), list[_StoredCell]()
            with contextlib.suppress(sqlite3.Error):
                cells = _stored_cells(connection, tolerant=True) if is_signed(connection) else []
            with contextlib.suppress(sqlite3.Error):
                meta = _meta(connection)
            yield connection, meta, cells


def _intact_contents(connection: sqlite3.Connection, cell: _StoredCell) -> list[list[Any]]:
    """Rows and arrays of a cell with their digests; none if the cell is damaged."""
    contents: list[list[Any]] = [[], []]
    try:
        for stored_rows, table in zip(contents, ("rows", "arrays"), strict=True):
            query = f"SELECT {', '.join(TABLES[table])} FROM {table} WHERE rowid = ?"
            for rowid, stored_digest in zip(cell.rowids[table], cell.digests[table], strict=True):
                [values] = connection.execute(query, (rowid,))
                # A lookup by rowid takes another path through the file than the scan did.
                cell.contents_match &= digest(*values) == stored_digest
                stored_rows.append((cell.number, *values, stored_digest))
    except (sqlite3.Error, ValueError):
        cell.contents_match = False
    return contents if cell.intact else [[], []]
