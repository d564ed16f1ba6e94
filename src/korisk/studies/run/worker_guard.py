"""Ends a worker's process group when the worker's owner is gone, however that has ended."""

import os
import select
import signal
import warnings
from contextlib import suppress
from multiprocessing import parent_process

_MOST_FILES = 65_536
_LOOK = 0.5  # seconds between two looks whether the worker is still there


def guard_group() -> None:
    """Start a process that waits for the owner's end and then kills this process's group.

    The worker cannot do it itself: it is killed at the same moment. The guard is a grandchild, so
    that a cell which waits for all its children does not wait for it.
    """
    owner, worker = parent_process(), os.getpid()
    assert owner is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads; the guard needs none
        child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            _watch(owner.sentinel, worker)
    finally:
        os._exit(0)


def _watch(owner: int, worker: int) -> None:
    os.setsid()
    _close_all_but(owner)
    while not select.select([owner], [], [], _LOOK)[0]:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return  # it has ended, and its owner looks after the rest
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)


def _close_all_but(kept: int) -> None:
    """Hold nothing open whose end someone may wait for."""
    os.closerange(0, kept)
    os.closerange(kept + 1, _MOST_FILES)
