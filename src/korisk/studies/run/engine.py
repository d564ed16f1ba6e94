"""Runs the cells of a study, in this process or in others, and stores each as it finishes.

Whatever ends a run, what is finished is kept, and the next run does the rest.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from korisk._checks import real
from korisk.errors import KoriskError, shown
from korisk.studies.result import Task
from korisk.studies.run.events import Book, Queue
from korisk.studies.run.events import Event as Event
from korisk.studies.run.events import Watch as Watch
from korisk.studies.run.local import LocalPool
from korisk.studies.run.signals import ended_by_sigterm
from korisk.studies.run.usage import cores
from korisk.studies.run.worker import Work, perform, use_threads
from korisk.studies.store.store import Store

if TYPE_CHECKING:
    from korisk.studies.run.clusters import Cluster


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run did.

    Made by `run`.

    >>> from korisk.studies import Summary
    >>> Summary(done=2, failed=0, skipped=1, failed_before=0, seconds=1.5).done
    2
    """

    done: int
    failed: int
    skipped: int  # results were there
    failed_before: int  # left alone; `retry_failed` tries them again
    seconds: float


def run_study(
    tasks: Iterable[Task],
    work: Work,
    store: Store,
    *,
    workers: int = 1,
    threads: int | None = None,
    attempts: int = 3,
    retry_failed: bool = False,
    watch: Watch | None = None,
    cluster: "Cluster | None" = None,
    timeout: float | None = None,
    with_children: bool = False,
) -> Summary:
    """Run the tasks that the store lacks.

    `work(task, report)` gives a cell's Result and may report its progress, from 0 to 1. With
    `workers=0` it runs in this process, as for a GPU; otherwise in so many others, which import it
    and have `threads` threads each (default: the cores, shared). An exception is recorded and does
    not stop the rest. A worker that dies is replaced and its cell tried again, `attempts` times in
    all. Ctrl-C and SIGTERM stop the workers and go on as KeyboardInterrupt. With a `cluster`, made
    by `korisk.studies.run.clusters`, cells run there, and it settles `workers` and `threads`.

    A cell that takes longer than `timeout` seconds has failed and is not tried again; its worker
    is ended and replaced, so there must be one. With `with_children`, processes that a cell
    has left behind end with their worker; with a `timeout` they always do.

    Tasks that contradict what the store holds raise `KoriskError` before anything runs.

    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> with Store.create_or_open("run.db", {"name": "mine"}) as store:
    ...     first = run_study(tasks, work, store, workers=0)
    ...     again = run_study(tasks, work, store, workers=0)
    >>> first.done, again.done, again.skipped
    (2, 0, 2)
    """
    begun = time.monotonic()
    _check_count("workers", workers, 0)
    _check_count("attempts", attempts, 1)
    if threads is not None:
        _check_count("threads", threads, 1)
    if timeout is not None:
        _check_timeout(timeout, here=cluster is None and workers == 0)
    asked = list(tasks)
    store.check(asked)
    missing = store.missing(asked)
    todo = [task for task in missing if retry_failed or not store.failed(task)]
    book = Book(store, len(todo), len(asked) - len(missing), watch)
    with ended_by_sigterm():
        if cluster is not None:
            _run_there(Queue(todo), work, book, cluster, attempts, timeout)
        elif workers == 0:
            _run_here(Queue(todo), work, book, threads)
        elif todo:
            size, share = min(workers, len(todo)), threads or max(1, cores() // workers)
            LocalPool(
                *(Queue(todo), work, book, size, share, attempts),
                timeout=timeout,
                with_children=with_children,
            ).run()
    return Summary(
        done=book.done,
        failed=book.failed,
        skipped=book.skipped,
        failed_before=len(missing) - len(todo),
        seconds=time.monotonic() - begun,
    )


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise KoriskError(f"{name} must be a whole number from {least}, got {shown(value)}")


def _check_timeout(timeout: object, *, here: bool) -> None:
    real("timeout", timeout, above=0, remedy="give seconds")
    if here:
        raise KoriskError(
            f"timeout = {shown(timeout)} needs workers >= 1: what runs in this process cannot be "
            "ended; pass workers=1, or no timeout"
        )


def _run_here(queue: Queue, work: Work, book: Book, threads: int | None) -> None:
    while queue:
        task = queue.take()
        if threads is not None:
            use_threads(threads)
        book.started(task)
        outcome = perform(work, task, partial(book.progress, task), interruptible=True)
        book.outcome(task, outcome, attempts=1)


def _run_there(
    queue: Queue,
    work: Work,
    book: Book,
    cluster: "Cluster",
    attempts: int,
    timeout: float | None,
) -> None:
    from korisk.studies.run.dask import DaskPool  # of no use without the extra

    if queue:
        DaskPool(queue, work, book, cluster, attempts, timeout=timeout).run()
