"""What a fit prints, caught and kept short, so that it is neither lost nor on the progress bar."""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
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
    own `sys.stdout` and `sys.stderr` are given.
    """
    with _caught_files() if whole_process else _caught_streams() as printed:
        yield printed


@contextlib.contextmanager
def _caught_streams() -> Iterator[Printed]:
    ends = _Ends()
    raw: Any = ends
    stream = io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield ends.text


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
