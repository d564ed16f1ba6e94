"""The file of a store: how it is made, known, opened, and what is said when it cannot be.

A store is made whole under another name and then given its own. It is known by its first bytes,
before SQLite opens it. What SQLite and the system say about it becomes one line.
"""

import contextlib
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from korisk._version import __version__
from korisk.errors import KoriskError, shown
from korisk.studies.run.usage import now

STORE_NAME = "study.db"
FORMAT = 1
APPLICATION_ID = 0x4B6F5269  # "KoRi"

_BUSY_SECONDS = 20.0  # how long a reader and the writer wait for each other
_BESIDE = ("-wal", "-journal")  # where SQLite keeps pages that are not yet in the file, or no more
_HEADER = struct.Struct(">16s44xI4xI")  # magic, user_version at byte 60, application_id at 68
_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
BEGIN;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE cells (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    point TEXT NOT NULL,
    seed INTEGER NOT NULL,
    spec TEXT NOT NULL,
    spec_hash TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    error TEXT,
    attempts INTEGER NOT NULL,
    started TEXT NOT NULL,
    seconds REAL NOT NULL,
    cpu_seconds REAL,
    peak_memory INTEGER,
    device_memory INTEGER,
    machine TEXT NOT NULL,
    versions TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE TABLE rows (
    cell INTEGER NOT NULL REFERENCES cells (id),
    model TEXT NOT NULL,
    n INTEGER NOT NULL,
    metrics TEXT NOT NULL,
    detail TEXT NOT NULL,
    UNIQUE (cell, model, n)
);
CREATE TABLE arrays (
    cell INTEGER NOT NULL REFERENCES cells (id),
    name TEXT NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    content BLOB NOT NULL,
    UNIQUE (cell, name)
);
COMMIT;
"""


def store_path(path: str | PathLike[str]) -> Path:
    """The store that a path means: the file itself, or the one in a folder by its usual name.

    A folder without one raises `KoriskError`.

    >>> from korisk.studies import store_path
    >>> str(store_path("results.db"))
    'results.db'
    """
    given = Path(path)
    if given.is_dir() and not (given / STORE_NAME).exists():
        raise KoriskError(f"{path}: holds no {STORE_NAME}; name the folder of a study, or its file")
    return given / STORE_NAME if given.is_dir() else given


def store_to_write(path: str | PathLike[str]) -> Path:
    """The store that a run into `path` writes, there or not: a .db file, or the one in a folder."""
    given = Path(path)
    return given if given.suffix == ".db" and not given.is_dir() else given / STORE_NAME


def refuse_what_is_no_file(path: Path) -> None:
    """Folders, pipes and the like; what does not exist passes."""
    if "\0" in str(path):
        raise KoriskError(f"{shown(str(path))}: is no name of a file; check the path")
    try:
        if path.is_dir():
            raise KoriskError(f"{path}: is a folder; name a file in it, such as {STORE_NAME}")
        if path.exists() and not path.is_file():
            raise KoriskError(f"{path}: is no ordinary file; choose another --out")
    except OSError as error:
        raise _unreadable(path, error) from None


def check_header(path: Path) -> None:
    """Know a store by its first bytes: SQLite itself might change a foreign file by opening it."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
    except OSError as error:
        raise _unreadable(path, error) from None
    if not header:
        raise KoriskError(f"{path}: the file is empty, and no store; remove it first")
    if len(header) == _HEADER.size:
        magic, version, application = _HEADER.unpack(header)
        if magic == b"SQLite format 3\0" and application == APPLICATION_ID:
            if version > FORMAT:
                raise KoriskError(
                    f"{path}: has format {version}, and this korisk ({__version__}) knows those up "
                    f"to {FORMAT}; install a newer korisk"
                )
            return
    raise KoriskError(
        f"{path}: is no store of a korisk study; name the folder or the {STORE_NAME} that korisk "
        "run wrote"
    )


def create(path: Path, study: str) -> None:
    """Make a store whole under another name, then give it its own: a kill leaves no half of one."""
    for suffix in _BESIDE:
        left = path.with_name(path.name + suffix)
        if left.exists():  # SQLite would take its pages for the new store's
            raise KoriskError(
                f"{path}: is missing, but {left.name} beside it holds parts of it; bring it back, "
                "or choose another --out"
            )
    new = path.with_name(f".{path.name}.new")
    try:
        with in_words(path):
            _remove(new)
            with contextlib.closing(_connection(new, "rwc")) as connection:
                connection.executescript(_SCHEMA)
                values = {"study": study, "korisk": __version__, "created": now()}
                connection.execute("BEGIN")
                connection.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
                connection.execute("COMMIT")
            new.replace(path)
            _sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            _remove(new)
        raise


def _remove(new: Path) -> None:
    new.unlink(missing_ok=True)
    new.with_name(f"{new.name}-journal").unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system opens folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{mode if '=' in mode else f'mode={mode}'}"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that has seen the file, in words where it could not."""
    with in_words(path):
        connection = _connection(path, mode)
        try:
            _refuse_what_computes(connection)
            connection.execute("SELECT count(*) FROM meta").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection


def _refuse_what_computes(connection: sqlite3.Connection) -> None:
    """A store has tables alone: views, triggers and the like could run without end."""
    connection.execute("PRAGMA trusted_schema = OFF")
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    for kind, name, sql in found:
        words = str(sql).upper()
        if kind not in ("table", "index") or "VIRTUAL" in words or "GENERATED" in words:
            raise sqlite3.DatabaseError(f"{kind} {name} is none of a store")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, also where the folder may not be written."""
    try:
        return connect(path, "ro")
    except KoriskError:
        if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            connect(path, "rw").close()  # takes back what a killed writer left half done
            return connect(path, "ro")
        for left in (path.with_name(path.name + suffix) for suffix in _BESIDE):
            if left.exists() and left.stat().st_size:
                raise KoriskError(
                    f"{path}: {left.name} beside it holds parts of it, which cannot be read in a "
                    "read-only folder; copy both to another folder"
                ) from None
        # In WAL mode SQLite wants to make files beside; where it may not, and nobody can be
        # writing, the file is read as it lies.
        return connect(path, "immutable=1")


def _unreadable(path: Path, error: OSError) -> KoriskError:
    reason = (error.strerror or str(error)).lower()
    return KoriskError(f"{path}: cannot be read: {reason}; check the path")


# --- Words ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def in_words(path: Path) -> Iterator[None]:
    """What SQLite and the system say about a file, in one line."""
    try:
        yield
    except sqlite3.ProgrammingError:  # a mistake of ours
        raise
    except sqlite3.Error as error:
        raise KoriskError(f"{path}: {_problem(error)}") from None
    except UnicodeDecodeError:
        raise KoriskError(f"{path}: is damaged: a text in it is none; {_DAMAGED}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KoriskError(f"{path}: cannot be written: {reason}; choose another --out") from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """The same where stored texts and bytes are made into values again."""
    try:
        with in_words(path):
            yield
    except KoriskError:
        raise
    except RecursionError:
        raise KoriskError(f"{path}: is damaged: a value is nested too deeply; {_DAMAGED}") from None
    except (ValueError, LookupError, TypeError, OverflowError, zlib.error) as error:
        raise KoriskError(f"{path}: is damaged: {shown(str(error))}; {_DAMAGED}") from None


_DAMAGED = "bring back a copy of it, or choose another --out"
_PROBLEMS = {  # by SQLite's result code, extended or primary
    sqlite3.SQLITE_FULL: "the disk is full; all that was finished is kept: make room, run it again",
    sqlite3.SQLITE_IOERR: "cannot be read or written, the disk may be full; all that was finished "
    "is kept: look after the disk, run it again",
    sqlite3.SQLITE_CORRUPT: f"is damaged or cut off; {_DAMAGED}",
    sqlite3.SQLITE_NOTADB: f"is damaged; {_DAMAGED}",
    sqlite3.SQLITE_BUSY: "another process keeps it busy; try again when that has ended",
    sqlite3.SQLITE_LOCKED: "another process keeps it busy; try again when that has ended",
    sqlite3.SQLITE_READONLY: "cannot be written: it is read-only; choose another --out",
    sqlite3.SQLITE_READONLY_ROLLBACK: "its writer was killed while it was read; open it again",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied; choose another --out",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the path and who may read its folder",
}


def _problem(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    known = _PROBLEMS.get(code) or _PROBLEMS.get(code & 0xFF)
    return known or f"is damaged: {shown(str(error))}; {_DAMAGED}"
