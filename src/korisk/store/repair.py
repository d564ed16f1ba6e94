"""Stores that were damaged or come from an older korisk, made right before a run writes to them.

Every cell has a digest, so that what can still be read of a damaged file is known to be intact or
not. Damaged cells stay, and are refused by readers, until a run has computed them again. If SQLite
cannot read the file, cells go into a new store, and the old file is kept under another name.
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

USAGE = ("started", "seconds", "cpu_seconds", "peak_memory", "device_memory", "attempts")
_WHICH = ("key", "point", "seed", "spec", "spec_hash", "status", "error", "attempts", "started")
_TOOK = ("seconds", "cpu_seconds", "peak_memory", "device_memory", "machine", "versions", "detail")
CELL = _WHICH + _TOOK
ROW = ("model", "n", "metrics", "detail")
ARRAY = ("name", "dtype", "shape", "content")
TABLES = {"cells": CELL, "rows": ROW, "arrays": ARRAY}


def is_signed(connection: sqlite3.Connection) -> bool:
    """Whether the store has digests, as all of format 2 have."""
    return any(column[1] == "digest" for column in connection.execute("PRAGMA table_info(cells)"))


def cell_digest(cell: Sequence[object], rows: Iterable[str], arrays: Iterable[str]) -> str:
    """The digest of a cell: of its own values and of the digests of what belongs to it."""
    return digest(*cell, *rows, "arrays", *arrays)


def read_cell(found: JsonDict) -> tuple[Task, Usage, JsonDict, str | None]:
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


def first_of(keys: Sequence[str]) -> str:
    """The first few keys, and how many more there are."""
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if keys[5:] else "")


def check_name(path: Path, known: object, name: str) -> None:
    """Refuse a study of another name than the store's."""
    if known != name:
        remedy = f"choose another path, or the name {known!r} if it is the same study"
        raise KoriskError(f"{path}: holds the study {known!r}, not {name!r}; {remedy}")


def make_right(path: Path, study: str, tasks: Sequence[Task]) -> set[int]:
    """Upgrade an old store, find damaged cells, and rebuild a file that SQLite cannot read.

    A damaged cell stays as it is until a run has computed it again: readers refuse it until then.

    Parameters
    ----------
    path : Path
        A store whose writer's lock is held.
    study : str
        The description of the study that is to be run.
    tasks : sequence of Task
        Its cells.

    Returns
    -------
    set of int
        The numbers of the damaged cells.
    """
    ours = "damaged, and to be computed again"
    try:
        file.check_header(path)
        with contextlib.closing(file.connect(path)) as connection, file.sqlite_errors(path):
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            signed = is_signed(connection)
            if signed:
                connection.execute("BEGIN IMMEDIATE")
                damaged = _find_damaged(connection, path, study, tasks)
                connection.execute("COMMIT")
            else:
                query = "SELECT value FROM meta WHERE name = 'study'"
                for (old,) in connection.execute(query).fetchall():
                    with file.reading(path):
                        check_name(path, from_json(old).get("name"), from_json(study)["name"])
        if not signed:
            damaged = _upgrade(path)
    except file.DamagedError as error:
        damaged = _rebuild(path, study, tasks, error)
        ours = ""  # which is said already
    keys = {task.key for task in tasks}
    others = "damaged and not in this run, so that readers refuse it until they are run again"
    for said, in_this_run in ((ours, True), (others, False)):
        names = [cell.key for cell in damaged if bool(keys & cell.names) is in_this_run]
        if said and names:
            warnings.warn(f"{path}: {said}: {first_of(names)}", KoriskWarning, stacklevel=3)
    return {cell.number for cell in damaged}


@dataclass
class _Found:
    """A cell as it was found, and the rowids and digests of what belongs to it."""

    number: int
    values: Sequence[object]
    kept: object  # the digest that was written
    parts: dict[str, list[int]] = field(default_factory=lambda: {"rows": [], "arrays": []})
    digests: dict[str, list[str]] = field(default_factory=lambda: {"rows": [], "arrays": []})
    whole: bool = True

    @property
    def key(self) -> str:
        return str(self.values[0])

    @property
    def names(self) -> set[str]:
        """The keys of the tasks that it may be of: one of its columns may be what is damaged."""
        return {self.key, f"{self.values[1]}, seed {self.values[2]}"}

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
                        cells[number] = _Found(number, values, kept)
                    elif number in cells:
                        own = cells[number]
                        own.whole &= kept == digest(*values)
                        own.parts[table].append(place)
                        own.digests[table].append(kept)
            except sqlite3.Error:
                if not tolerant:
                    raise
            else:
                break
        for own in cells.values() if table != "cells" else ():  # found from both ends
            pairs = sorted(zip(own.parts[table], own.digests[table], strict=True))
            own.parts[table] = [place for place, _ in pairs]
            own.digests[table] = [kept for _, kept in pairs]
    return list(cells.values())


def _meta(connection: sqlite3.Connection) -> dict[str, str]:
    """What is known of the store as a whole, as far as it is as it was written."""
    found = connection.execute("SELECT name, value, digest FROM meta NOT INDEXED")
    return {name: value for name, value, kept in found if kept == digest(name, value)}


def _check_study(
    path: Path, meta: dict[str, str], cells: Iterable[_Found], study: str, tasks: Sequence[Task]
) -> None:
    """Refuse a store of another study, or of an unknown one with other cells."""
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


def _is_one_of(cell: _Found, tasks: Sequence[Task]) -> bool:
    return (cell.values[0], cell.values[4]) in {(task.key, task.spec_hash) for task in tasks}


def _find_damaged(
    connection: sqlite3.Connection, path: Path, study: str, tasks: Sequence[Task]
) -> list[_Found]:
    """The cells that are not as they were written; what else is wrong is put right."""
    cells, meta = _found(connection), _meta(connection)
    _check_study(path, meta, cells, study, tasks)
    damaged = [cell for cell in cells if not cell.intact]
    kept = file.total(str(cell.kept) for cell in cells if cell.intact)
    if not damaged and meta.get("cells", kept) != kept:
        raise file.DamagedError(path, "cells are missing")
    for table in ("rows", "arrays"):  # of cells that are not there
        connection.execute(f"DELETE FROM {table} WHERE cell NOT IN (SELECT id FROM cells)")
    right = {"study": study, "korisk": "unknown", "created": "unknown"} | meta
    for name, value in (right | {"format": str(file.FORMAT), "cells": kept}).items():
        if meta.get(name) != value:  # what is right already is not written again
            file.set_meta(connection, name, value)
    if connection.execute("PRAGMA user_version").fetchone()[0] != file.FORMAT:
        connection.execute(f"PRAGMA user_version = {file.FORMAT}")
    return damaged


def _upgrade(path: Path) -> list[_Found]:
    """Copy a store of format 1 into one with digests; those cells that cannot be read."""
    new = path.with_name(f".{path.name}.rebuilt")
    new.unlink(missing_ok=True)
    file.create(new, "")
    with (
        contextlib.closing(file.connect(path)) as source,
        contextlib.closing(file.connect(new)) as target,
        file.sqlite_errors(path),
    ):
        target.execute("BEGIN")
        signed, damaged = list[str](), list[_Found]()
        for number, *values in source.execute(f"SELECT id, {', '.join(CELL)} FROM cells"):
            rows, arrays = (
                source.execute(
                    f"SELECT {', '.join(TABLES[table])} FROM {table} WHERE cell = ? ORDER BY rowid",
                    (number,),
                ).fetchall()
                for table in ("rows", "arrays")
            )
            readable = True
            try:  # without digests this is all that can be noticed
                read_cell(dict(zip(CELL, values, strict=True)))
                for row in rows:
                    unpack_row(*row)
                for array in arrays:
                    unpack_array(*array)
            except file.UNREADABLE:
                readable = False
                damaged.append(_Found(number, values, ""))
            insert(target, "cells", [(number, *values, "")])
            insert(target, "rows", [(number, *row, digest(*row)) for row in rows])
            insert(target, "arrays", [(number, *array, digest(*array)) for array in arrays])
            if readable:  # another stays without a digest, and so counts as damaged
                signed.append(sign(target, number))
        file.set_meta(target, "cells", file.total(signed))
        for name, value in source.execute("SELECT name, value FROM meta"):
            file.set_meta(target, name, value)
        target.execute("COMMIT")
        source.execute("PRAGMA journal_mode = DELETE")  # so that nothing of it is beside it
    new.replace(path)
    return damaged


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Write whole rows of a table, their digests last."""
    if rows:
        slots = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({slots})", rows)


def delete(connection: sqlite3.Connection, number: int) -> None:
    """Remove a cell and what belongs to it."""
    for table, cell in (("rows", "cell"), ("arrays", "cell"), ("cells", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {cell} = ?", (number,))


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


def _rebuild(
    path: Path, study: str, tasks: Sequence[Task], error: file.DamagedError
) -> list[_Found]:
    """Copy what can be read into a new store; the damaged file is kept under another name.

    Where cells are lost without a trace, nobody could tell later that those of another run are not
    all there: only cells of this run are then kept. The cells that are damaged are returned.
    """
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    new = path.with_name(f".{path.name}.rebuilt")
    new.unlink(missing_ok=True)
    kept, damaged, others = list[_Found](), list[_Found](), list[_Found]()
    with _readable(path) as (source, meta, cells):
        whole = False
        with contextlib.suppress(ValueError):
            whole = meta.get("cells") == file.total(str(cell.kept) for cell in cells)
        _check_study(path, meta, cells if whole else (), study, tasks)
        if not whole and not tasks:
            raise KoriskError(
                f"{path}: cannot be read completely; open it with the tasks of its study, so that "
                "what is lost is computed again, or restore a copy of it"
            )
        file.create(new, meta.get("study", study))
        keys = {task.key for task in tasks}
        with contextlib.closing(file.connect(new)) as target, file.sqlite_errors(path):
            target.execute("BEGIN")
            for cell in sorted(cells, key=lambda cell: not cell.intact):
                rows, arrays = _copied(source, cell)
                try:
                    insert(target, "cells", [(cell.number, *cell.values, cell.kept)])
                    insert(target, "rows", rows)
                    insert(target, "arrays", arrays)
                except (sqlite3.IntegrityError, UnicodeEncodeError):  # only of a damaged one
                    whole &= bool(keys & cell.names)
                else:
                    (kept if cell.intact else damaged).append(cell)
            if not whole:
                others = [cell for cell in kept if not _is_one_of(cell, tasks)]
                for cell in others + damaged:
                    delete(target, cell.number)
                kept, damaged = [cell for cell in kept if cell not in others], []
            file.set_meta(target, "cells", file.total(str(cell.kept) for cell in kept))
            target.execute("COMMIT")
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    new.rename(path)
    reason = str(error).split(";")[0].removeprefix(f"{path}: ").split(":")[0]
    count = "1 cell is" if len(kept) == 1 else f"{len(kept)} cells are"
    rest = f", with {len(others)} more that are not in this run" if others else ""
    said = f"{path}: {reason}; {count} intact and kept, the rest is computed again"
    said += f"; the damaged file is now {aside.name}{rest}"
    warnings.warn(said, KoriskWarning, stacklevel=4)
    return damaged


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[tuple[sqlite3.Connection, dict[str, str], list[_Found]]]:
    """A damaged file, open as far as it can be, with its `meta` and the cells found in it."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".korisk-") as folder:
        copy = Path(folder, "copy.db")
        shutil.copyfile(path, copy)
        file.restore_common_parts(copy)
        try:
            connection = file.connect(copy, "immutable=1")
        except KoriskError:
            connection = sqlite3.connect(":memory:")
        with contextlib.closing(connection):
            meta, cells = dict[str, str](), list[_Found]()
            with contextlib.suppress(sqlite3.Error):
                cells = _found(connection, tolerant=True) if is_signed(connection) else []
            with contextlib.suppress(sqlite3.Error):
                meta = _meta(connection)
            yield connection, meta, cells


def _copied(connection: sqlite3.Connection, cell: _Found) -> list[list[Any]]:
    """The rows and arrays of a cell; none of one that is damaged, or turns out to be."""
    parts: list[list[Any]] = [[], []]
    try:
        for own, table in zip(parts, ("rows", "arrays"), strict=True):
            query = f"SELECT {', '.join(TABLES[table])} FROM {table} WHERE rowid = ?"
            for place, kept in zip(cell.parts[table], cell.digests[table], strict=True):
                [values] = connection.execute(query, (place,))
                cell.whole &= digest(*values) == kept  # the way there may be damaged
                own.append((cell.number, *values, kept))
    except (sqlite3.Error, ValueError):
        cell.whole = False
    return parts if cell.intact else [[], []]
