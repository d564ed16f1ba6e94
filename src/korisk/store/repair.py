"""Copy the intact cells of a damaged store to a new file, before a run writes to it.

Every row, array and cell has a digest, which tells what is intact. The damaged file is kept under
another name.
"""

import itertools
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from korisk._group import grouped
from korisk.errors import KoriskWarning
from korisk.store import file
from korisk.store.cells import CELL, CONTENTS, Task, cell_digest, digest, first_of, from_json

_Row = tuple[Any, ...]  # of cells: id, key, point, seed, spec, spec_hash, ..., digest


def require_intact(path: Path) -> None:
    """Raise `DamagedError` unless the file is readable and everything in it has its digest."""
    file.check_header(path)
    with closing(file.connect(path)) as connection, file.sqlite_errors(path):
        # The first problem is enough to decide; a full check of a damaged file is slow.
        if (problem := connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(problem)
        meta, _, damaged, complete = _read(connection)
    if damaged:
        keys = first_of([str(cell[1]) for cell in damaged])
        raise file.DamagedError(path, f"not as written, and so damaged: {keys}")
    if not complete or len(meta) < 5:  # format, study, korisk, created and cells
        raise file.DamagedError(path, "cells or entries are missing")


def copy_intact(path: Path, study: str, tasks: Sequence[Task], error: file.DamagedError) -> None:
    """Put a new file with the intact cells in place of a damaged one.

    Where it is not certain that all lost cells are in this run, which computes them again, only
    cells of this run are copied: other studies would look complete although they are not.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".korisk-") as folder:
        copy, draft = Path(folder, "copy.db"), Path(folder, "intact.db")
        file.create(draft, study)
        reading = closing(file.readable_copy(path, copy))
        with reading as source, closing(file.connect(draft)) as target, file.sqlite_errors(path):
            meta, intact, damaged, complete = _read(source)
            hashes = {task.key: task.spec_hash for task in tasks}
            of_run = [cell for cell in intact if hashes.get(cell[1]) == cell[5]]
            if "study" in meta:
                file.check_name(path, from_json(meta["study"])["name"], from_json(study)["name"])
            elif len(of_run) < len(intact):  # of a study whose name is lost
                raise error
            computed_again = {str(cell[1]) for cell in damaged} <= hashes.keys()
            cells = intact if complete and computed_again else of_run
            if not (tasks or cells is intact):
                raise error
            target.execute("BEGIN")
            for name, value in (meta | {"cells": file.total(cell[-1] for cell in cells)}).items():
                file.set_meta(target, name, value)
            file.insert(target, "cells", ("id", *CELL, "digest"), cells)
            numbers = {cell[0] for cell in cells}
            for table, columns in CONTENTS.items():
                rows = (row for row in _unchanged(source, table) if row[1] in numbers)
                # With their rowids, by which digests are ordered.
                file.insert(target, table, ("rowid", "cell", *columns, "digest"), rows)
            target.execute("COMMIT")
        numbered = (Path(f"{path}.damaged-{number}") for number in itertools.count(1))
        aside = next(name for name in numbered if not name.exists())
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        draft.rename(path)
    problem, copied = str(error).split(";")[0], f"{len(cells)} of {len(intact)} intact cells"
    words = f"{problem}; {copied} are copied, the rest is computed again; the damaged file is now "
    warnings.warn(f"{words}{aside.name}", KoriskWarning, stacklevel=3)


def _read(connection: sqlite3.Connection) -> tuple[dict[str, str], list[_Row], list[_Row], bool]:
    """Intact entries and cells, damaged cells, and whether no cell is missing."""
    # Damaged text must be readable, so that its digest can be compared.
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    meta = {name: value for _, name, value, _ in _unchanged(connection, "meta", 1)}
    digests = []  # of rows and of arrays, by cell, in the order of rowids
    for table in CONTENTS:
        rows = sorted((row[0], row[1], row[-1]) for row in _unchanged(connection, table))
        digests.append(grouped((cell, stored) for _, cell, stored in rows))
    intact, damaged = list[_Row](), list[_Row]()
    for _, *cell in _readable(connection, "cells"):
        contents = (table.get(cell[0], []) for table in digests)
        is_intact = cell[-1] == cell_digest(cell[1:-1], *contents)
        (intact if is_intact else damaged).append(tuple(cell))
    with suppress(ValueError):  # a digest that is not hexadecimal
        total = file.total(str(cell[-1]) for cell in intact + damaged)
        return meta, intact, damaged, meta.get("cells") == total
    return meta, intact, damaged, False


def _unchanged(connection: sqlite3.Connection, table: str, first: int = 2) -> Iterator[_Row]:
    """Rowids and rows whose columns from `first` on have their digest, the last one."""
    return (row for row in _readable(connection, table) if row[-1] == digest(*row[first:-1]))


def _readable(connection: sqlite3.Connection, table: str) -> Iterator[_Row]:
    """Rowids and rows of a table, up to an unreadable page."""
    with suppress(sqlite3.Error):
        yield from connection.execute(f"SELECT rowid, * FROM {table} NOT INDEXED ORDER BY rowid")
