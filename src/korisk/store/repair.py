"""Stores that were damaged or come from an older korisk, made right before a run writes to them.

Every cell has a digest, so that what can still be read of a damaged file is known to be intact or
not: what is intact goes into a new store, and the old file is kept beside it under another name.
"""

import contextlib
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from korisk.errors import KoriskError, KoriskWarning
from korisk.store.cells import Task, check_types, digest, from_json, unpack_array, unpack_row
from korisk.store.file import (
    FORMAT,
    UNREADABLE,
    DamagedError,
    check_header,
    connect,
    create,
    restore_common_parts,
    set_meta,
    sqlite_errors,
    total,
)
from korisk.store.usage import Usage

USAGE = ("started", "seconds", "cpu_seconds", "peak_memory", "device_memory", "attempts")
CELL = (
    *("key", "point", "seed", "spec", "spec_hash", "status", "error", "attempts", "started"),
    *("seconds", "cpu_seconds", "peak_memory", "device_memory", "machine", "versions", "detail"),
)
ROW = ("model", "n", "metrics", "detail")
ARRAY = ("name", "dtype", "shape", "content")


TABLES = {"cells": CELL, "rows": ROW, "arrays": ARRAY}


def is_signed(connection: sqlite3.Connection) -> bool:
    """Whether the store has digests, as all of format 2 have."""
    return any(column[1] == "digest" for column in connection.execute("PRAGMA table_info(cells)"))


def cell_digest(cell: Sequence[object], rows: Iterable[str], arrays: Iterable[str]) -> str:
    """The digest of a cell: of its own values and of the digests of what belongs to it."""
    return digest(*cell, *rows, "arrays", *arrays)


def read_cell(found: dict[str, Any]) -> tuple[Task, Usage, dict[str, Any], str | None]:
    """A cell from its columns: the task, what it took, its detail and its error."""
    spent = {name: found[name] for name in USAGE}
    check_types("a cell", str, found["point"], spent.pop("started"))
    check_types("a cell", int, found["seed"])
    check_types("a cell", str | None, found["error"])
    check_types("a cell", int | float | None, *spent.values())
    usage = Usage(
        **{name: found[name] for name in USAGE},
        machine=from_json(found["machine"]),
        versions=from_json(found["versions"]),
    )
    task = Task(point=found["point"], seed=found["seed"], spec=from_json(found["spec"]))
    return task, usage, from_json(found["detail"]), found["error"]


def make_right(path: Path, study: str) -> None:
    """Upgrade an old store, drop damaged cells, and rebuild a file that SQLite cannot read.

    Parameters
    ----------
    path : Path
        A store whose writer's lock is held.
    study : str
        The description for a store that is built anew.
    """
    try:
        check_header(path)
        with contextlib.closing(connect(path)) as connection, sqlite_errors(path):
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            signed = is_signed(connection)
            if signed:
                connection.execute("BEGIN IMMEDIATE")
                dropped = _drop_damaged(connection, study)
                connection.execute("COMMIT")
        if not signed:
            dropped = _upgrade(path)
    except DamagedError as error:
        _rebuild(path, study, error)
        return
    if dropped:
        names = ", ".join(dropped[:5]) + (f" and {len(dropped) - 5} more" if dropped[5:] else "")
        warnings.warn(
            f"{path}: damaged, and to be computed again: {names}", KoriskWarning, stacklevel=4
        )


@dataclass
class _Found:
    """A cell as it was found, and what belongs to it."""

    number: int
    values: Sequence[object]
    kept: object  # the digest that was written
    parts: dict[str, list[int]]  # rowids
    digests: dict[str, list[str]]
    whole: bool = True

    @property
    def intact(self) -> bool:
        return self.whole and self.kept == cell_digest(self.values, *self.digests.values())


def _found(connection: sqlite3.Connection, *, tolerant: bool = False) -> list[_Found]:
    """All cells, whether intact or not; a tolerant search goes on where SQLite gives up."""
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    cells = {}
    for table, columns in TABLES.items():
        cell = "id" if table == "cells" else "cell"
        query = f"SELECT rowid, {cell}, {', '.join(columns)}, digest FROM {table} NOT INDEXED"
        seen = set[int]()
        for order in ("ASC", "DESC") if tolerant else ("ASC",):
            try:
                for place, number, *values, kept in connection.execute(
                    f"{query} ORDER BY rowid {order}"
                ):
                    if place in seen:
                        break
                    seen.add(place)
                    if table == "cells":
                        names = ("rows", "arrays")
                        empty: Any = ({name: [] for name in names} for _ in range(2))
                        cells[number] = _Found(number, values, kept, *empty)
                    elif number in cells:
                        own = cells[number]
                        own.whole &= kept == digest(*values)
                        own.parts[table].insert(0 if order == "DESC" else len(seen), place)
                        own.digests[table].insert(0 if order == "DESC" else len(seen), kept)
            except sqlite3.Error:
                if not tolerant:
                    raise
            else:
                break
    return list(cells.values())


def _drop_damaged(connection: sqlite3.Connection, study: str) -> list[str]:
    """Remove cells that are not as they were written; their names."""
    cells = _found(connection)
    damaged = [cell for cell in cells if not cell.intact]
    for cell in damaged:
        connection.execute("DELETE FROM cells WHERE id = ?", (cell.number,))
    for table in ("rows", "arrays"):  # of these, and of cells that are not there
        connection.execute(f"DELETE FROM {table} WHERE cell NOT IN (SELECT id FROM cells)")
    names = [str(cell.values[0]) for cell in damaged]
    kept = total(str(cell.kept) for cell in cells if cell.intact)
    meta = {name: (value, own) for name, value, own in connection.execute("SELECT * FROM meta")}
    if not damaged and meta.get("cells", ("", ""))[0] != kept:
        names.append("cells that are missing")
    right = {"format": str(FORMAT), "cells": kept}
    for name, usual in {"study": study, "korisk": "unknown", "created": "unknown"}.items():
        value, own = meta.get(name, ("", ""))
        right[name] = value if own == digest(name, value) else usual
    for name, value in right.items():  # what is right already is not written again
        if meta.get(name) != (value, digest(name, value)):
            set_meta(connection, name, value)
    if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    return names


def _upgrade(path: Path) -> list[str]:
    """Copy a store of format 1 into one with digests; the names of cells that cannot be read."""
    new = path.with_name(f".{path.name}.rebuilt")
    new.unlink(missing_ok=True)
    create(new, "")
    with (
        contextlib.closing(connect(path)) as source,
        contextlib.closing(connect(new)) as target,
        sqlite_errors(path),
    ):
        target.execute("BEGIN")
        signed, dropped = list[str](), list[str]()
        for number, *values in source.execute(f"SELECT id, {', '.join(CELL)} FROM cells"):
            rows, arrays = (
                source.execute(
                    f"SELECT {', '.join(TABLES[table])} FROM {table} WHERE cell = ? ORDER BY rowid",
                    (number,),
                ).fetchall()
                for table in ("rows", "arrays")
            )
            try:  # without digests this is all that can be noticed
                read_cell(dict(zip(CELL, values, strict=True)))
                for row in rows:
                    unpack_row(*row)
                for array in arrays:
                    unpack_array(*array)
            except UNREADABLE:
                dropped.append(str(values[0]))
                continue
            for table, own in (("cells", [(*values, "")]), ("rows", rows), ("arrays", arrays)):
                for each in own:
                    content = (
                        (number, *each) if table == "cells" else (number, *each, digest(*each))
                    )
                    slots = ", ".join("?" * len(content))
                    target.execute(f"INSERT INTO {table} VALUES ({slots})", content)
            signed.append(sign(target, number))
        set_meta(target, "cells", total(signed))
        for name, value in source.execute("SELECT name, value FROM meta"):
            set_meta(target, name, value)
        target.execute("COMMIT")
        source.execute("PRAGMA journal_mode = DELETE")  # so that nothing of it is beside it
    new.replace(path)
    return dropped


def sign(connection: sqlite3.Connection, number: int) -> str:
    """Write the digest of a cell, from what SQLite holds of it now."""
    [values] = connection.execute(f"SELECT {', '.join(CELL)} FROM cells WHERE id = ?", (number,))
    parts = []
    for table in ("rows", "arrays"):
        query = f"SELECT digest FROM {table} WHERE cell = ? ORDER BY rowid"
        parts.append([each for (each,) in connection.execute(query, (number,))])
    made = cell_digest(values, *parts)
    connection.execute("UPDATE cells SET digest = ? WHERE id = ?", (made, number))
    return made


def _rebuild(path: Path, study: str, error: DamagedError) -> None:
    """Copy what is intact into a new store; the damaged file is kept under another name."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    new = path.with_name(f".{path.name}.rebuilt")
    new.unlink(missing_ok=True)
    create(new, study)
    kept = []
    with contextlib.closing(connect(new)) as target, sqlite_errors(path):
        target.execute("BEGIN")
        for cell, rows, arrays in _readable(path):
            for table, values in (("cells", [cell]), ("rows", rows), ("arrays", arrays)):
                for each in values:
                    slots = ", ".join("?" * len(each))
                    target.execute(f"INSERT INTO {table} VALUES ({slots})", each)
            kept.append(str(cell[-1]))
        set_meta(target, "cells", total(kept))
        target.execute("COMMIT")
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    new.rename(path)
    reason = str(error).split(";")[0].removeprefix(f"{path}: ").split(":")[0]
    cells = "1 cell is" if len(kept) == 1 else f"{len(kept)} cells are"
    warnings.warn(
        f"{path}: {reason}; {cells} intact and kept, the rest is computed again; the damaged file "
        f"is now {aside.name}",
        KoriskWarning,
        stacklevel=5,
    )


def _readable(path: Path) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """The cells of a damaged file that can be read and are intact, with their rows and arrays."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".korisk-") as folder:
        copy = Path(folder, "copy.db")
        shutil.copyfile(path, copy)
        restore_common_parts(copy)
        try:
            connection = connect(copy, "immutable=1")
        except KoriskError:
            return
        with contextlib.closing(connection):
            try:
                cells = _found(connection, tolerant=True) if is_signed(connection) else []
            except sqlite3.Error:
                return
            for cell in cells:
                if cell.intact:
                    with contextlib.suppress(sqlite3.Error, ValueError):
                        yield _copied(connection, cell)


def _copied(connection: sqlite3.Connection, cell: _Found) -> tuple[Any, list[Any], list[Any]]:
    parts: list[list[Any]] = []
    for table in ("rows", "arrays"):
        query = f"SELECT {', '.join(TABLES[table])} FROM {table} WHERE rowid = ?"
        parts.append([])
        for place, kept in zip(cell.parts[table], cell.digests[table], strict=True):
            [values] = connection.execute(query, (place,))
            if digest(*values) != kept:  # the way there is damaged
                raise ValueError
            parts[-1].append((cell.number, *values, kept))
    return (cell.number, *cell.values, cell.kept), parts[0], parts[1]
