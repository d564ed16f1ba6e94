"""The file of a store: create, recognise, open and lock it, and explain its errors.

A store is created under a temporary name and then renamed. It is recognised by its first bytes,
before SQLite opens it. Errors of SQLite and of the operating system become one line.
"""

import contextlib
import errno
import json
import os
import shutil
import socket
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path

from filelock import FileLock, Timeout

from korisk._version import __version__
from korisk.errors import KoriskError, shown
from korisk.store.cells import CELL, CONTENTS, cell_digest, digest
from korisk.store.usage import now

STORE_NAME = "study.db"
FORMAT = 2  # 1 had no digests
APPLICATION_ID = 0x4B6F5269  # "KoRi"

# Exceptions that parsing damaged text or bytes may raise.
UNREADABLE = (ValueError, LookupError, TypeError, OverflowError, RecursionError, zlib.error)

_BUSY_SECONDS = 20.0  # how long a reader and the writer wait for each other
_SIDE_FILES = ("-wal", "-journal")  # pages that SQLite has not yet merged, or may roll back
_MASTER = "SELECT type, name, sql FROM sqlite_master"
_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">60xI4x4x")  # with user_version at byte 60
_MARKS = (0, _MAGIC), (68, APPLICATION_ID.to_bytes(4, "big"))
# Wrong bits allowed in the marks of a damaged store; a database without an application id has 17.
_FEW_BITS = 4
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # file systems without locks
_BUSY = "another process is using it; try again when that has ended"
# By SQLite's result code, extended or primary.
_PROBLEMS = {
    sqlite3.SQLITE_FULL: "the disk is full; finished cells are kept: free some space, run it again",
    sqlite3.SQLITE_IOERR: "cannot be read or written, the disk may be full; finished cells are "
    "kept: check the disk, run it again",
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_READONLY: "cannot be written: it is read-only; choose another path",
    sqlite3.SQLITE_READONLY_ROLLBACK: "its writer was killed while it was read; open it again",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied; choose another path",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the path and the rights of its folder",
}


def store_path(path: str | PathLike[str]) -> Path:
    """Path of the store that a path names: the file itself, or `study.db` in a folder.

    Parameters
    ----------
    path : str or path
        A file, which need not exist, or a folder.

    Returns
    -------
    Path
        The path of the store's file.

    Raises
    ------
    KoriskError
        If `path` is a folder without a `study.db`.

    Examples
    --------
    >>> from korisk.studies import store_path
    >>> str(store_path("results.db"))
    'results.db'
    """
    location = Path(path)
    if location.is_dir() and not (location / STORE_NAME).exists():
        problem = f"{path}: contains no {STORE_NAME}"
        raise KoriskError(f"{problem}; name the folder of a study, or its file")
    return location / STORE_NAME if location.is_dir() else location


def store_to_write(path: str | PathLike[str]) -> Path:
    """Path of the store that a run into `path` writes: a .db file, or `study.db` in a folder."""
    location = Path(path)
    return location if location.suffix == ".db" and not location.is_dir() else location / STORE_NAME


def check_path(path: Path) -> None:
    """Refuse folders, pipes and other special files; accept a path that does not exist."""
    if "\0" in str(path):
        raise KoriskError(f"{shown(str(path))}: is not a file name; check the path")
    with system_errors(path, "read"):
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise KoriskError(f"{path}: is {kind}; name a file, such as {STORE_NAME}")


class DamagedError(KoriskError):
    """The file is a store, and its contents fail their checksums or cannot be read."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"{path}: {what}; run it again, which keeps what is intact and computes the rest, or "
            "restore a copy of it"
        )


def check_header(path: Path) -> None:
    """Recognise a store by its first bytes: SQLite could change a foreign file by opening it."""
    with system_errors(path, "read"), path.open("rb") as file:
        header = file.read(_HEADER.size)
    if not header:
        raise KoriskError(f"{path}: the file is empty, not a store; remove it first")
    marks = [zip(header[offset:], mark, strict=False) for offset, mark in _MARKS]
    wrong_bits = sum((actual ^ expected).bit_count() for mark in marks for actual, expected in mark)
    if wrong_bits > _FEW_BITS or (len(header) < _HEADER.size and wrong_bits):
        problem = f"{path}: is not a store of a korisk study"
        raise KoriskError(f"{problem}; name the folder or the {STORE_NAME} that korisk run wrote")
    if wrong_bits or len(header) < _HEADER.size:
        raise DamagedError(path, "its first bytes are damaged")
    # A damaged version number must not ask for a newer korisk.
    version = _HEADER.unpack(header)[0]
    if version > FORMAT and _stated_format(path) != FORMAT:
        limit = f"this korisk ({__version__}) reads formats up to {FORMAT}"
        raise KoriskError(f"{path}: has format {version}, and {limit}; install a newer korisk")


def _stated_format(path: Path) -> int | None:
    """Format recorded in the `meta` table, which has a checksum; the header has none."""
    query = "SELECT value, digest FROM meta NOT INDEXED WHERE name = 'format'"
    with (
        contextlib.suppress(sqlite3.Error, UnicodeDecodeError, ValueError),
        contextlib.closing(plain_connection(path, "mode=ro")) as connection,
    ):
        for value, stored_digest in connection.execute(query):
            if stored_digest == digest("format", value):
                return int(value)
    return None


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in _SIDE_FILES]


def create(path: Path, study: str) -> None:
    """Create a store under a temporary name and rename it: a kill leaves no partial store."""
    for leftover in _beside(path):
        if leftover.exists():  # SQLite would apply its pages to the new store
            problem = f"{path}: is missing, but {leftover.name} next to it contains parts of it"
            raise KoriskError(f"{problem}; restore it, or choose another path")
    draft = path.with_name(f".{path.name}.new")
    partial = (draft, draft.with_name(f"{draft.name}-journal"))
    try:
        with sqlite_errors(path):
            for file in partial:
                file.unlink(missing_ok=True)
            with contextlib.closing(plain_connection(draft, "mode=rwc")) as connection:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                connection.executescript(f"BEGIN; {_schema_text()} COMMIT;")
                connection.execute("BEGIN")
                facts = {"format": str(FORMAT), "study": study, "korisk": __version__}
                for name, value in (facts | {"created": now(), "cells": total(())}).items():
                    set_meta(connection, name, value)
                connection.execute("COMMIT")
            draft.replace(path)
            # A rename survives a power cut only after its folder is synchronised, which not every
            # system supports.
            with contextlib.suppress(OSError):
                folder = os.open(path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            for file in partial:
                file.unlink(missing_ok=True)
        raise


def set_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Write an entry about the store as a whole, with its digest."""
    values = name, value, digest(name, value)
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", values)


def insert(
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> None:
    """Insert rows into a table, by the names of its columns."""
    slots = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({slots})", rows)


def delete(connection: sqlite3.Connection, number: int) -> None:
    """Delete a cell with its rows and arrays."""
    for table, cell in (("rows", "cell"), ("arrays", "cell"), ("cells", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {cell} = ?", (number,))


def sign(connection: sqlite3.Connection, number: int) -> str:
    """Compute, write and return the digest of a cell."""
    # Read back from SQLite, which may convert values on insertion.
    [values] = connection.execute(f"SELECT {', '.join(CELL)} FROM cells WHERE id = ?", (number,))
    digests = []
    for table in CONTENTS:
        query = f"SELECT digest FROM {table} WHERE cell = ? ORDER BY rowid"
        digests.append([stored_digest for (stored_digest,) in connection.execute(query, (number,))])
    signature = cell_digest(values, *digests)
    connection.execute("UPDATE cells SET digest = ? WHERE id = ?", (signature, number))
    return signature


def check_name(path: Path, known: object, name: str) -> None:
    """Refuse a study of another name than the store's."""
    if known != name:
        remedy = f"choose another path, or the name {known!r} if it is the same study"
        raise KoriskError(f"{path}: holds the study {known!r}, not {name!r}; {remedy}")


def total(digests: Iterable[str], *, without: str = "0") -> str:
    """Sum of the digests of cells modulo 2^128: it shows whether a cell was lost.

    A sum can be updated for one cell, in any order, without reading the others.
    """
    return f"{(sum(int(text, 16) for text in digests) - int(without, 16)) % 2**128:032x}"


def plain_connection(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that checks nothing but the length of records."""
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    if mode != "mode=rw":
        # A damaged record may claim to hold a gigabyte, which SQLite would allocate.
        longest = max(4 * path.stat().st_size, 2**28) if path.exists() else 2**28
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(longest, 10**9))
    return connection


def readable_copy(path: Path, copy: Path) -> sqlite3.Connection:
    """Open a copy of a damaged file, with the header and the schema that all stores share."""
    shutil.copyfile(path, copy)
    # Offsets and values of SQLite's file format: 4096-byte pages, UTF-8, no auto-vacuum.
    fields = {0: _MAGIC + b"\x10\0\1\1\0@  ", 44: b"\0\0\0\4", 52: bytes(7) + b"\1", 64: bytes(4)}
    # SQLite refuses a file with fewer pages than its header states, or than its root pages need.
    pages = max(16, -(-copy.stat().st_size // 4096))
    with copy.open("r+b") as file:
        file.truncate(4096 * pages)
        for offset, content in [*fields.items(), (28, pages.to_bytes(4, "big")), *_MARKS]:
            file.seek(offset)
            file.write(content)
    with (
        contextlib.suppress(sqlite3.Error, UnicodeDecodeError),
        contextlib.closing(plain_connection(copy, "mode=rw")) as connection,
    ):
        connection.execute("PRAGMA writable_schema = ON")
        for kind, name, sql in schema():
            query = "UPDATE sqlite_master SET type = ?, sql = ? WHERE name = ?"
            connection.execute(query, (kind, sql, name))
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    return plain_connection(copy, "immutable=1")


def connect(path: Path, mode: str = "mode=rw") -> sqlite3.Connection:
    """Open a connection, and check that the file has the tables and indices of a store only."""
    with sqlite_errors(path):
        connection = plain_connection(path, mode)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            objects = connection.execute(_MASTER).fetchall()
            # Views, triggers and generated columns could run queries that never return.
            for kind, name, sql in objects:
                text = str(sql).upper()
                if kind in ("view", "trigger") or "VIRTUAL" in text or "GENERATED" in text:
                    problem = f"is not a store of a korisk study: unexpected {kind} {shown(name)}"
                    raise KoriskError(f"{path}: {problem}; choose another path")
            if set(objects) != schema():
                if connection.execute("PRAGMA user_version").fetchone()[0] == 1:
                    remedy = "open it with korisk 0.3, which reads it, or choose another path"
                    raise KoriskError(f"{path}: is of korisk 0.1.0; {remedy}")
                raise sqlite3.DatabaseError("its tables are not as they were made")
            connection.execute("SELECT count(*) FROM meta").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection


def _schema_text() -> str:
    return files("korisk.store").joinpath("schema.sql").read_text(encoding="utf-8")


@cache
def schema() -> frozenset[tuple[str, str, str | None]]:
    """Kind, name and SQL of the tables and indices of a store."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_schema_text())
        return frozenset(connection.execute(_MASTER))


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a connection that changes nothing, also in a read-only folder."""
    try:
        return connect(path, "mode=ro")
    except KoriskError:
        if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            connect(path).close()  # rolls back an unfinished transaction of a killed writer
            return connect(path, "mode=ro")
        for leftover in _beside(path):
            if leftover.exists() and leftover.stat().st_size:
                parts = f"{leftover.name} next to it contains parts of it"
                problem = f"{path}: {parts}, which cannot be read in a read-only folder"
                raise KoriskError(f"{problem}; copy both to another folder") from None
        # Beside a store in WAL mode, as korisk 0.3 wrote them, SQLite creates files. In a read-only
        # folder it cannot, and neither can a writer, so the file may be read without locks.
        return connect(path, "immutable=1")


# --- One writer ----------------------------------------------------------------------------------


class WriteLock:
    """Lock of the only writer of a store, held until `release`.

    It is a file next to the store, `study.db.lock`. The operating system releases it when the
    process ends. On a file system without such locks, those of SQLite keep two writers apart.
    """

    def __init__(self, store: Path, *, wait: float = 0.0) -> None:
        self.path = store.with_name(f"{store.name}.lock")
        self._lock = FileLock(self.path, thread_local=False)
        if not store.parent.is_dir():
            raise KoriskError(f"{store}: cannot be written: no such folder; create it first")
        with system_errors(store, "written"):
            try:
                self._lock.acquire(timeout=wait, poll_interval=0.05)
            except Timeout:
                problem = f"{store}: is being written by {self._holder()}"
                remedy = "wait until it has ended, or choose another path"
                raise KoriskError(f"{problem}; {remedy}") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with contextlib.suppress(OSError):  # Windows does not write to a locked file
            self.path.write_text(json.dumps(holder), encoding="utf-8")

    def _holder(self) -> str:
        try:
            holder = json.loads(self.path.read_text(encoding="utf-8"))
            return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        except (OSError, ValueError, KeyError, TypeError):  # it has just started or just ended
            return "another process"

    def release(self) -> None:
        """Release the lock and remove its file."""
        with contextlib.suppress(OSError):  # Windows does not remove an open file
            self.path.unlink()
        self._lock.release()


# --- Errors ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def system_errors(path: Path, action: str) -> Iterator[None]:
    """Turn errors of the operating system into one line."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KoriskError(f"{path}: cannot be {action}: {reason}; check the path") from None


@contextlib.contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the operating system into one line."""
    try:
        with system_errors(path, "written"):
            yield
    except sqlite3.ProgrammingError:  # a mistake in this package
        raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if (problem := _PROBLEMS.get(code) or _PROBLEMS.get(code & 0xFF)) is None:
            raise DamagedError(path, f"is damaged: {shown(str(error))}") from None
        raise KoriskError(f"{path}: {problem}") from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Like `sqlite_errors`, and report text or bytes that cannot be parsed as damage."""
    try:
        with sqlite_errors(path):
            yield
    except KoriskError:
        raise
    except UNREADABLE as error:
        raise DamagedError(path, f"is damaged: {shown(str(error))}") from None
