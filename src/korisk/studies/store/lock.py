"""The lock that makes one process the only writer of a store.

It is held on a file beside the store and ends with its holder, however that ends. What the file
says about the holder is information alone. Where a file system knows no such locks, SQLite's own
keep two writers apart.
"""

import contextlib
import errno
import json
import os
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from korisk.errors import KoriskError

_FAR = 1 << 30  # Windows hides locked bytes from readers; these lie behind what is written
_PAUSE = 0.05  # seconds between two tries


class WriteLock:
    """Held from its making until `release`; beside `study.db` it is `study.db.lock`."""

    def __init__(self, store: Path, *, wait: float = 0.0) -> None:
        self._store = store
        self.path = store.with_name(f"{store.name}.lock")
        until = time.monotonic() + wait
        while (handle := self._try()) is None:
            if time.monotonic() >= until:
                raise KoriskError(
                    f"{store}: is being written by {self._holder()}; wait for it to end, or choose "
                    "another --out"
                )
            time.sleep(_PAUSE)
        self._handle = handle

    def release(self) -> None:
        """Give the lock back and leave no file behind."""
        with contextlib.suppress(OSError):  # Windows removes no open file: it stays, unlocked
            self.path.unlink()
        os.close(self._handle)

    def _try(self) -> int | None:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            raise KoriskError(
                f"{self._store}: cannot be written: no such folder; make it first"
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            if _locked(handle) and self._is_still(handle):
                self._sign(handle)
                return handle
        except OSError as error:
            os.close(handle)
            raise self._unwritable(error) from None
        os.close(handle)
        return None

    def _is_still(self, handle: int) -> bool:
        """Whether the file is still the one of this name, not one that its holder removed."""
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except FileNotFoundError:
            return False

    @staticmethod
    def _sign(handle: int) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, json.dumps(holder).encode())

    def _holder(self) -> str:
        try:
            holder = json.loads(self.path.read_text(encoding="utf-8"))
            return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        except (OSError, ValueError, KeyError, TypeError):  # it has just begun, or just ended
            return "another process"

    def _unwritable(self, error: OSError) -> KoriskError:
        reason = (error.strerror or str(error)).lower()
        return KoriskError(f"{self._store}: cannot be written: {reason}; choose another --out")


def _locked(handle: int) -> bool:
    """Whether the lock could be had."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
    else:
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}:
                raise
    return True
