"""Copy the intact cells of a damaged store to a new file, before a run writes to it.

Every row, array and cell has a digest, which tells what is intact. The damaged file is kept under
another name.
"""

import contextlib
import itertools
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from korisk._group import grouped
from korisk.errors import KoriskWarning
from korisk.store import file
from korisk.store.cells import CONTENTS, Task, cell_digest, digest, first_of, from_json

_ENTRIES = 5  # of `meta`: format, study, korisk, created and cells
_Rows = list[tuple[Any, ...]]  # those of cells: id, key, point, seed, spec, spec_hash, ..., digest


def require_intact(path: Path) -> None:
    """Raise `DamagedError` unless the file is readable and everything in it has its digest."""
    file.check_header(path)
    with closing(file.connect(path)) as connection, file.sqlite_errors(path):
        # The first problem is enough to decide; a full check of a damaged file is slow.
        problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(problem)
        meta, intact, damaged = _read(connection)
    if damaged:
        keys = first_of([str(cell[1]) for cell in damaged])
        raise file.DamagedError(path, f"not as written, and so damaged: {keys}")
    if len(meta) < _ENTRIES or meta["cells"] != file.total(cell[-1] for cell in intact):
        raise file.DamagedError(path, "cells or entries are missing")


def copy_intact(path: Path, study: str, tasks: Sequence[Task], error: file.DamagedError) -> None:
    """Put a new file with the intact cells in place of a damaged one.

    Where it is not certain that all lost cells are in this run, which computes them again, only
    cells of this run are copied: other studies would look complete although they are not.
    """
    known, keys = {(task.key, task.spec_hash) for task in tasks}, {task.key for task in tasks}
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".korisk-") as folder:
        copy, draft = Path(folder, "copy.db"), Path(folder, "intact.db")
        shutil.copyfile(path, copy)
        file.restore_common_parts(copy)  # the header and schema, which all stores share
        file.create(draft, study)
        reading = closing(file.plain_connection(copy, "immutable=1"))
        with reading as source, closing(file.connect(draft)) as target, file.sqlite_errors(path):
            meta, intact, damaged = _read(source)
            if "study" in meta:
                file.check_name(path, from_json(meta["study"])["name"], from_json(study)["name"])
            cells = [cell for cell in intact if (cell[1], cell[5]) in known]
            takes_over, total = len(cells) < len(intact) and "study" not in meta, None
            with contextlib.suppress(ValueError):  # a digest that is not hexadecimal
                total = file.total(str(cell[-1]) for cell in intact + damaged)
            lost_are_known = {str(cell[1]) for cell in damaged} <= keys
            if lost_are_known and meta.get("cells", "") == total and not takes_over:
                cells = intact
            elif takes_over or not tasks:
                raise error
            target.execute("BEGIN")
            for name, value in (meta | {"cells": file.total(cell[-1] for cell in cells)}).items():
                file.set_meta(target, name, value)
            file.insert(target, "cells", cells)
            for table, columns in CONTENTS.items():
                # With their rowids, by which digests are ordered.
                names = ("rowid", "cell", *columns, "digest")
                query = (
                    f"INSERT INTO {table} ({', '.join(names)}) VALUES (?{', ?' * len(names[1:])})"
                )
                numbers = {cell[0] for cell in cells}
                rows = (row for row in _contents(source, table) if row[1] in numbers)
                target.executemany(query, rows)
            target.execute("COMMIT")
        numbered = (Path(f"{path}.damaged-{number}") for number in itertools.count(1))
        aside = next(name for name in numbered if not name.exists())
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        draft.rename(path)
    message = (
        f"{str(error).split(';')[0]}; {len(cells)} of {len(intact)} intact cells are copied to a "
        f"new file, the rest is computed again; the damaged file is now {aside.name}"
    )
    warnings.warn(message, KoriskWarning, stacklevel=3)


def _read(connection: sqlite3.Connection) -> tuple[dict[str, str], _Rows, _Rows]:
    """Intact entries and cells, and damaged cells."""
    # Damaged text must be readable, so that its digest can be compared.
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    entries = _readable(connection, "meta")
    meta = {name: value for _, name, value, stored in entries if stored == digest(name, value)}
    digests = []  # of rows and of arrays, by cell, in the order of rowids
    for table in CONTENTS:
        rows = sorted((row[0], row[1], row[-1]) for row in _contents(connection, table))
        digests.append(grouped((cell, stored) for _, cell, stored in rows))
    cells: tuple[_Rows, _Rows] = [], []
    for _, *cell in _readable(connection, "cells"):
        contents = (table.get(cell[0], []) for table in digests)
        cells[cell[-1] != cell_digest(cell[1:-1], *contents)].append(tuple(cell))
    return meta, *cells


def _contents(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """Rows or arrays that have their digest: the rowid, the cell, the columns, the digest."""
    return (row for row in _readable(connection, table) if row[-1] == digest(*row[2:-1]))


def _readable(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """Rowids and rows of a table, up to an unreadable page."""
    with contextlib.suppress(sqlite3.Error):
        yield from connection.execute(f"SELECT rowid, * FROM {table} NOT INDEXED ORDER BY rowid")
