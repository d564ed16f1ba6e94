"""What ends a run from outside."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # others get no signals
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
