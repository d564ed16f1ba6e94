"""What runs in a Dask worker: a greeting, then cells.

Calls and answers travel as bytes that `pickle.loads` opens at their ends. So a scheduler needs no
korisk, and a worker that lacks it says so: it would die of a function that it cannot import.

A worker process is known by a word that it makes up once. A cell names the process that it is
meant for, so that a scheduler that has lost that one and hands the cell to its successor, at the
same address, does not run it again behind the driver's back.
"""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from importlib import metadata
from typing import Any, Literal
from uuid import uuid4

from korisk.studies.result import Task
from korisk.studies.run.usage import machine, versions
from korisk.studies.run.worker import Done, Failed, Report, Work, perform, use_threads

Answer = Done | Failed | Literal["stranger"]  # said by a process that a cell was not meant for


def call(function: Callable[..., Any], *arguments: object) -> bytes:
    """A call as bytes: `pickle.loads` makes it, and gives what it gives."""
    return pickle.dumps(_Call(function, arguments))


class _Call:
    def __init__(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
        self._parts = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self._parts


def greet(pickled_work: bytes) -> dict[str, Any]:
    """Who this worker is and what it has, in plain values: versions may differ."""
    _never_pause(_dask_worker())
    try:
        _work(pickled_work)
        problem = ""
    except Exception as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return {
        "process": _process(os.getpid()),
        "versions": installed(),
        "machine": dict(machine()),
        "gpu": _dask_worker().state.total_resources.get("GPU", 0) >= 1,
        "problem": problem,
    }


def _never_pause(worker: Any) -> None:
    """Have a worker take cells however much memory the last one left: paused, it would not end."""
    for name in ("memory_target_fraction", "memory_spill_fraction", "memory_pause_fraction"):
        with suppress(AttributeError):
            setattr(worker.memory_manager, name, False)


def run_there(process: str, topic: str, key: str, pickled_work: bytes, task: Task) -> bytes:
    """Run one cell, if this is the process that it is meant for; say how far it is on `topic`.

    The answer is a pickled Answer.
    """
    if process != _process(os.getpid()):
        return pickle.dumps("stranger")
    worker = _dask_worker()
    work = _work(pickled_work)
    use_threads(worker.state.nthreads)
    return pickle.dumps(perform(work, task, _report(worker, topic, key)))


def installed() -> dict[str, str]:
    """Versions of all that a cell's numbers, and its way here, depend on."""
    found = dict(versions())
    for name in ("dask", "distributed"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


class _UnwantedError(Exception):
    """Nobody waits for this cell any more."""


def _report(worker: Any, topic: str, key: str) -> Report:
    def report(fraction: float) -> None:
        entry = worker.state.tasks.get(key)
        if entry is not None and entry.state == "cancelled":  # threads end from within alone
            raise _UnwantedError
        worker.log_event(topic, [key, fraction])

    return report


@cache
def _process(pid: int) -> str:
    return f"{pid}-{uuid4().hex}"


@lru_cache(maxsize=4)
def _work(pickled_work: bytes) -> Work:
    work: Work = pickle.loads(pickled_work)
    return work


def _dask_worker() -> Any:
    from distributed import get_worker

    return get_worker()
