"""What a fit prints, caught and kept short, so that it is neither lost nor on the progress bar."""

import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

LENGTH = 4_000  # bytes that are kept of one fit's output: half from its start, half from its end
_HALF = LENGTH // 2

Printed = Callable[[], str]


class _Ends(io.RawIOBase):
    """Takes any number of bytes and keeps the first and the last."""

    def __init__(self) -> None:
        self._first = bytearray()
        self._last = bytearray()
        self._total = 0

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        new = bytes(content)  # type: ignore[call-overload] # any buffer
        self._total += len(new)
        room = _HALF - len(self._first)
        self._first += new[:room]
        self._last = (self._last + new[max(room, 0) :])[-_HALF:]
        return len(new)

    def text(self) -> str:
        return _text(bytes(self._first), bytes(self._last), self._total)


def _text(first: bytes, last: bytes, total: int) -> str:
    hidden = total - len(first) - len(last)
    parts = [part.decode(errors="replace") for part in (first, last)]
    cut = f"\n... {hidden:,} bytes left out ...\n" if hidden > 0 else ""
    return f"{parts[0]}{cut}{parts[1]}" if cut else (first + last).decode(errors="replace")


@contextlib.contextmanager
def caught(*, whole_process: bool) -> Iterator[Printed]:
    """Catch what is printed meanwhile; what is given tells it, also afterwards.

    With `whole_process`, what libraries and child processes write counts too; else what Python's
    own `sys.stdout` and `sys.stderr` are given, by this thread and those that it starts.
    """
    with _caught_files() if whole_process else _caught_streams() as printed:
        yield printed


# --- In this process -----------------------------------------------------------------------------


@dataclass(eq=False)
class _Catch:
    """One fit under way: whose output is kept, and where."""

    stream: io.TextIOWrapper
    thread: int = field(default_factory=threading.get_ident)
    others: frozenset[int | None] = field(
        default_factory=lambda: frozenset(thread.ident for thread in threading.enumerate())
    )


_LOCK = threading.RLock()
_catches: list[_Catch] = []  # under way, in order of their start


def _mine() -> io.TextIOWrapper | None:
    """Where output of this thread is kept; None where it belongs to no fit."""
    thread = threading.get_ident()
    with _LOCK:
        for catch in reversed(_catches):
            if catch.thread == thread:
                return catch.stream
        # A thread that was not there before is the fit's own, if there is but one fit.
        if len({catch.thread for catch in _catches}) == 1 and thread not in _catches[-1].others:
            return _catches[-1].stream
    return None


class _Stand(io.TextIOBase):
    """Stands in for `sys.stdout` or `sys.stderr`: keeps what fits write, passes on the rest.

    Whoever holds it longer, such as a handler of `logging` that a fit has made, goes on with the
    stream that it stands for.
    """

    def __init__(self, real: Any) -> None:
        self.real = real
        self.users = 0

    def __getattr__(self, name: str) -> Any:
        if name == "real":  # not yet there
            raise AttributeError(name)
        return getattr(_mine() if name == "buffer" and _mine() else self.real, name)

    def write(self, text: str) -> int:
        stream = _mine() or self.real
        return len(text) if stream is None else int(stream.write(text))

    def flush(self) -> None:
        stream = _mine() or self.real
        if stream is not None:
            stream.flush()

    def close(self) -> None:
        """Nothing: what it stands for is not the fit's to close."""

    def detach(self) -> Any:
        raise io.UnsupportedOperation("detach")

    @property
    def closed(self) -> bool:
        return bool(getattr(self.real, "closed", False))

    def fileno(self) -> int:
        return int(self.real.fileno())

    def isatty(self) -> bool:
        return bool(self.real.isatty())

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self.real, "encoding", None) or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return getattr(self.real, "errors", None)


@contextlib.contextmanager
def _caught_streams() -> Iterator[Printed]:
    ends = _Ends()
    raw: Any = ends
    stream = io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)
    catch = _Catch(stream)
    with _LOCK:
        stands = {name: _stand(name) for name in ("stdout", "stderr")}
        _catches.append(catch)
    try:
        yield ends.text
    finally:
        with _LOCK:
            _catches.remove(catch)
            for name, stand in stands.items():
                stand.users -= 1
                setattr(sys, name, stand if stand.users else stand.real)


def _stand(name: str) -> _Stand:
    """The one that stands there already, for a fit in another thread, or a new one."""
    there = getattr(sys, name)
    stand = there if isinstance(there, _Stand) and there.users else _Stand(there)
    stand.users += 1
    setattr(sys, name, stand)
    return stand


# --- In a process of its own ---------------------------------------------------------------------


@contextlib.contextmanager
def _caught_files() -> Iterator[Printed]:
    kept = [""]
    with tempfile.TemporaryFile() as file:
        before = _flushed_copies()
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: kept[0] or _ends_of(file)
        finally:
            _flush()
            kept[0] = _ends_of(file)
            for number, copy in before.items():
                os.dup2(copy, number)
                os.close(copy)


def _flushed_copies() -> dict[int, int]:
    _flush()
    return {number: os.dup(number) for number in (1, 2)}


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a fit may have closed or replaced it
            stream.flush()


def _ends_of(file: IO[bytes]) -> str:
    if file.closed:
        return ""
    _flush()
    total = os.fstat(file.fileno()).st_size
    first = os.pread(file.fileno(), _HALF, 0)
    last = os.pread(file.fileno(), _HALF, max(len(first), total - _HALF))
    return _text(first, last, total)
