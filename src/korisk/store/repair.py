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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from korisk.errors import KoriskWarning
from korisk.store import file
from korisk.store.cells import CONTENTS, Task, cell_digest, digest, first_of, from_json

_ENTRIES = 5  # of `meta`: format, study, korisk, created and cells
_StoredCell = list[Any]  # id, key, point, seed, spec, spec_hash, ..., digest


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
    if len(meta) < _ENTRIES or meta["cells"] != _total(intact):
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
        with (
            closing(file.plain_connection(copy, "immutable=1")) as source,
            closing(file.connect(draft)) as target,
            file.sqlite_errors(path),
        ):
            target.execute("BEGIN")
            meta, intact, damaged = _read(source, target)
            if "study" in meta:
                file.check_name(path, from_json(meta["study"])["name"], from_json(study)["name"])
            cells = [cell for cell in intact if (cell[1], cell[5]) in known]
            others = len(intact) - len(cells)
            lost = {str(cell[1]) for cell in damaged}
            if others and "study" not in meta:
                raise error
            if lost <= keys and meta.get("cells") == _total(intact + damaged):
                cells, others = intact, 0
            elif not tasks:
                raise error
            for name, value in (meta | {"cells": _total(cells)}).items():
                file.set_meta(target, name, value)
            file.insert(target, "cells", cells)
            for table in CONTENTS:
                target.execute(f"DELETE FROM {table} WHERE cell NOT IN (SELECT id FROM cells)")
            target.execute("COMMIT")
        asides = (f"{path}.damaged-{number}" for number in itertools.count(1))
        aside = next(name for name in asides if not Path(name).exists())
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        draft.rename(path)
    reason = str(error).split(";")[0]
    message = f"{reason}; {len(cells)} intact cells are copied to a new file, the rest is computed "
    message += f"again; the damaged file is now {Path(aside).name}"
    message += f", with {others} more that are not in this run" if others else ""
    warnings.warn(message, KoriskWarning, stacklevel=3)


def _read(
    source: sqlite3.Connection, target: sqlite3.Connection | None = None
) -> tuple[dict[str, str], list[_StoredCell], list[_StoredCell]]:
    """Intact entries and cells, and damaged cells; copy intact rows and arrays to `target`."""
    # Damaged text must be readable, so that its digest can be compared.
    source.text_factory = lambda content: content.decode(errors="surrogateescape")
    entries = (entry for _, *entry in _readable(source, "meta"))
    meta = {name: value for name, value, stored in entries if stored == digest(name, value)}
    digests: list[dict[int, dict[int, str]]] = []  # by cell and rowid
    for table, columns in CONTENTS.items():
        digests.append(defaultdict(dict))
        for rowid, cell, *values, stored in _readable(source, table):
            if stored == digest(*values):
                digests[-1][cell][rowid] = stored
                if target is not None:
                    # With its rowid, by which digests are ordered. A row that was moved to another
                    # cell may meet one of that cell.
                    names = f"rowid, cell, {', '.join(columns)}, digest"
                    slots = ", ".join("?" * (len(columns) + 3))
                    with contextlib.suppress(sqlite3.IntegrityError):
                        query = f"INSERT INTO {table} ({names}) VALUES ({slots})"
                        target.execute(query, (rowid, cell, *values, stored))
    cells: tuple[list[_StoredCell], list[_StoredCell]] = [], []
    for _, number, *values, stored in _readable(source, "cells"):
        # Digests are hashed in the order of rowids.
        contents = ([text for _, text in sorted(table[number].items())] for table in digests)
        cells[stored != cell_digest(values, *contents)].append([number, *values, stored])
    return meta, *cells


def _readable(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """Rowids and rows of a table, from its start and, past an unreadable page, from its end."""
    rowids = set[int]()
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            query = f"SELECT rowid, * FROM {table} NOT INDEXED ORDER BY rowid {order}"
            for row in connection.execute(query):
                if row[0] in rowids:
                    return
                rowids.add(row[0])
                yield row
            return


def _total(cells: Sequence[_StoredCell]) -> str:
    """The sum of the digests of cells; empty if one is not hexadecimal."""
    try:
        return file.total(str(cell[-1]) for cell in cells)
    except ValueError:
        return ""
