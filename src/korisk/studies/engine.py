"""Runs the cells of a study, in this process or in others, and stores each as it finishes.

Whatever ends a run, what is finished is kept, and the next run does the rest.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from types import FrameType
from typing import Literal

from korisk.errors import KoriskError, shown
from korisk.studies.account import Account, cores, machine, versions
from korisk.studies.result import Task
from korisk.studies.store import Store
from korisk.studies.worker import (
    Done,
    Failed,
    Message,
    Ready,
    Work,
    Worker,
    perform,
    pickled,
    use_threads,
)

_STARTS = 3  # workers in a row that may die before they are ready
_PATIENCE = 5.0  # seconds for a worker to end by itself
_WAKE = 1.0  # seconds; where signals do not end a wait, this does


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to a cell, and how far the run was then."""

    kind: Literal["started", "progress", "done", "failed", "retried"]
    task: Task
    done: int  # cells of this run
    failed: int
    total: int  # that this run has to do
    skipped: int  # that were there before
    fraction: float = 0.0  # of this cell
    words: str = ""  # why it failed, or is tried again


Watch = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run did."""

    done: int
    failed: int
    skipped: int  # results were there
    failed_before: int  # left alone; `retry_failed` tries them again
    seconds: float


def run(
    tasks: Iterable[Task],
    work: Work,
    store: Store,
    *,
    workers: int = 1,
    threads: int | None = None,
    attempts: int = 3,
    retry_failed: bool = False,
    watch: Watch | None = None,
) -> Summary:
    """Run the tasks that the store lacks.

    `work(task, report)` gives a cell's Result and may report its progress, from 0 to 1. With
    `workers=0` it runs in this process, as for a GPU; otherwise in so many others, which import it
    and have `threads` threads each (default: the cores, shared). An exception is recorded and does
    not stop the rest. A worker that dies is replaced and its cell tried again, `attempts` times in
    all. Ctrl-C and SIGTERM stop the workers and go on as KeyboardInterrupt.
    """
    begun = time.monotonic()
    _check_count("workers", workers, 0)
    _check_count("attempts", attempts, 1)
    if threads is not None:
        _check_count("threads", threads, 1)
    asked = list(tasks)
    store.check(asked)
    missing = store.missing(asked)
    todo = [task for task in missing if retry_failed or not store.failed(task)]
    book = _Book(store, len(todo), len(asked) - len(missing), watch)
    with _ended_by_sigterm():
        if workers == 0:
            _run_here(_Queue(todo), work, book, threads)
        elif todo:
            share = threads or max(1, cores() // workers)
            _Pool(_Queue(todo), work, book, min(workers, len(todo)), share, attempts).run()
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


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
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


class _Book:
    """Counts what happens, stores it, and tells who watches."""

    def __init__(self, store: Store, total: int, skipped: int, watch: Watch | None) -> None:
        self.done = self.failed = 0
        self.total = total
        self.skipped = skipped
        self._store = store
        self._watch = watch

    def started(self, task: Task) -> None:
        self._tell("started", task)

    def progress(self, task: Task, fraction: float) -> None:
        self._tell("progress", task, fraction)

    def retried(self, task: Task, words: str) -> None:
        self._tell("retried", task, words=words)

    def outcome(self, task: Task, outcome: Done | Failed, attempts: int) -> None:
        account = replace(outcome.account, attempts=attempts)
        if isinstance(outcome, Done):
            self._store.record(task, outcome.packed, account)
            self.done += 1
            self._tell("done", task, 1.0)
        else:
            self._store.record_failure(task, outcome.error, account)
            self.failed += 1
            self._tell("failed", task, words=outcome.error)

    def _tell(
        self,
        kind: Literal["started", "progress", "done", "failed", "retried"],
        task: Task,
        fraction: float = 0.0,
        words: str = "",
    ) -> None:
        if self._watch is not None:
            self._watch(
                Event(
                    kind=kind,
                    task=task,
                    done=self.done,
                    failed=self.failed,
                    total=self.total,
                    skipped=self.skipped,
                    fraction=fraction,
                    words=words,
                )
            )


class _Queue:
    """Tasks in order, point after point, so that a worker can use again what it keeps of one."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._points: dict[str, list[Task]] = {}
        for task in tasks:
            self._points.setdefault(task.point, []).append(task)

    def __len__(self) -> int:
        return sum(map(len, self._points.values()))

    def take(self, point: str | None = None, busy: Iterable[str | None] = ()) -> Task:
        """The next task: of this point, else of one that nobody is at, else of the first."""
        free = (other for other in self._points if other not in set(busy))
        chosen = point if point in self._points else next(free, None)
        if chosen is None:
            chosen = next(iter(self._points))
        tasks = self._points[chosen]
        task = tasks.pop(0)
        if not tasks:
            del self._points[chosen]
        return task

    def put_back(self, task: Task) -> None:
        """Have a task done next."""
        self._points.setdefault(task.point, []).insert(0, task)


def _run_here(queue: _Queue, work: Work, book: _Book, threads: int | None) -> None:
    while queue:
        task = queue.take()
        if threads is not None:
            use_threads(threads)
        book.started(task)
        outcome = perform(work, task, partial(book.progress, task))
        book.outcome(task, outcome, attempts=1)


class _Pool:
    """Workers, and the loop that feeds them."""

    def __init__(
        self, queue: _Queue, work: Work, book: _Book, size: int, threads: int, attempts: int
    ) -> None:
        self._queue = queue
        self._work = pickled(work)
        self._book = book
        self._size = size
        self._threads = threads
        self._attempts = attempts
        self._deaths: dict[str, int] = {}  # of workers, by the key of the cell they had
        self._false_starts = 0
        self._workers: list[Worker] = []

    def run(self) -> None:
        finished = False
        try:
            while self._queue or any(worker.task for worker in self._workers):
                self._employ()
                self._wait()
                for worker in list(self._workers):
                    self._attend(worker)
            finished = True
        finally:
            self._stop(at_once=not finished)

    def _employ(self) -> None:
        """Give the idle something to do, and start workers for what is left."""
        for worker in self._workers:
            if self._queue and worker.ready and worker.task is None:
                busy = [other.point for other in self._workers if other is not worker]
                task = self._queue.take(worker.point, busy)
                worker.give(task)
                self._book.started(task)
        starting = sum(not worker.ready for worker in self._workers)
        room = self._size - len(self._workers)
        for _ in range(min(room, len(self._queue) - starting)):
            self._workers.append(Worker(self._work, self._threads))

    def _wait(self) -> None:
        signs = [sign for w in self._workers for sign in (w.connection, w.process.sentinel)]
        wait(signs, timeout=_WAKE)

    def _attend(self, worker: Worker) -> None:
        exit_code = worker.exit_code  # looked up first: nothing is said after a death
        for message in worker.messages():
            self._hear(worker, message)
        if exit_code is not None:
            self._replace(worker, exit_code)

    def _hear(self, worker: Worker, message: Message) -> None:
        if isinstance(message, Ready):
            if message.problem:
                raise KoriskError(
                    f"work cannot be imported by other processes: {message.problem}; "
                    "define it at the top of a module, or use workers=0"
                )
            worker.ready = True
            self._false_starts = 0
            return
        task = worker.task
        assert task is not None
        if isinstance(message, float):
            self._book.progress(task, message)
        else:
            worker.task = None
            self._book.outcome(task, message, self._deaths.get(task.key, 0) + 1)

    def _replace(self, worker: Worker, exit_code: int) -> None:
        """Take leave of a dead worker; `_employ` starts another if one is needed."""
        self._workers.remove(worker)
        worker.stop(at_once=True)
        worker.bury(patience=_PATIENCE)
        if not worker.ready:
            self._false_starts += 1
            if self._false_starts >= _STARTS:
                raise KoriskError(
                    f"workers do not start (exit code {exit_code}); call run() from a file, under "
                    "if __name__ == '__main__':, or use workers=0"
                )
        if worker.task is not None:
            self._lost(worker.task, worker, exit_code)

    def _lost(self, task: Task, worker: Worker, exit_code: int) -> None:
        times = self._deaths[task.key] = self._deaths.get(task.key, 0) + 1
        if times < self._attempts:
            self._queue.put_back(task)
            self._book.retried(task, f"its worker died (exit code {exit_code})")
            return
        often = "once" if times == 1 else f"{times} times"
        account = Account(
            started=worker.started,
            seconds=worker.seconds,
            machine=machine(),
            versions=versions(),
        )
        words = f"its worker died {often} (exit code {exit_code})"
        self._book.outcome(task, Failed(words, account), times)

    def _stop(self, *, at_once: bool) -> None:
        for worker in self._workers:
            worker.stop(at_once=at_once)
        for worker in self._workers:
            worker.bury(patience=1.0 if at_once else _PATIENCE)
        self._workers.clear()
