"""Run the cells of a study, in this process or in others, and store each as it finishes.

Whatever ends a run, finished cells are kept, and the next run does the rest. The pool of local
processes is korisk's: `concurrent.futures` breaks as a whole when one worker is killed; pebble and
loky survive that, but do not report progress from within a task, keep a worker at its point, end
the children of a cell with its worker, or end workers when their owner is killed.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from korisk._checks import count, options_of, require
from korisk.errors import Argument, KoriskError
from korisk.store.cells import Task
from korisk.store.store import Store
from korisk.store.usage import Usage, cores, machine, versions
from korisk.studies.run import worker as process
from korisk.studies.run.events import Event as Event
from korisk.studies.run.events import EventLog
from korisk.studies.run.events import Watch as Watch

if TYPE_CHECKING:
    from korisk.studies.run.clusters import Cluster

_MOST_WORKERS = 512
_STARTS = 3  # workers in a row that may die before they are ready
_PATIENCE = 5.0  # seconds for a worker to end by itself
_WAKE = 1.0  # seconds of a wait at most, for systems where signals do not interrupt it


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The outcome of a run; returned by `run_study`.

    Parameters
    ----------
    done, failed : int
        Cells that this run finished, and cells that failed in it.
    skipped : int
        Cells whose results were in the store before.
    failed_before : int
        Cells that failed in an earlier run and were not tried again.
    seconds : float
        Wall time of the run.

    Examples
    --------
    >>> from korisk.studies import Summary
    >>> Summary(done=2, failed=0, skipped=1, failed_before=0, seconds=1.5).done
    2
    """

    done: int
    failed: int
    skipped: int  # cells whose results were in the store before
    failed_before: int  # cells not tried again; `retry_failed` would
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where and how the cells of a study or the fits of a pilot run.

    Parameters
    ----------
    workers : int, default 0
        Processes on this machine; 0 is this process.
    threads : int, optional
        Threads of each worker's numeric libraries. Default: OMP_NUM_THREADS if that is set, else
        the cores, divided by the workers. Sums are rounded by how threads share them: with the same
        threads the same cells give the same bits, however many workers there are.
    cluster : Cluster, optional
        A Dask cluster of `korisk.studies.run.clusters` to run on instead.
    retry_failed : bool, default False
        Whether to repeat what failed in an earlier run.

    Raises
    ------
    KoriskError
        If a value is outside its range.

    Examples
    --------
    >>> from korisk.studies import Compute
    >>> Compute(workers=2).threads is None
    True
    """

    workers: int = 0
    threads: int | None = None
    cluster: "Cluster | None" = None
    retry_failed: bool = False

    def __post_init__(self) -> None:
        remedy = "count processes; 0 is this one"
        count("workers", self.workers, at_least=0, at_most=_MOST_WORKERS, remedy=remedy)
        if self.threads is not None:
            count("threads", self.threads, at_least=1, remedy="count threads")
        if self.cluster is not None:
            from korisk.studies.run.clusters import Cluster

            rule = "be one of korisk.studies.run.clusters"
            remedy = "with joined_cluster('tcp://host:8786') as cluster:"
            require(isinstance(self.cluster, Cluster), "cluster", rule, self.cluster, remedy)


def run_study(
    tasks: Iterable[Task],
    work: process.Work,
    store: Store,
    *,
    compute: Compute | None = None,
    attempts: int = 3,
    watch: Watch | None = None,
) -> Summary:
    """Run the tasks that the store lacks.

    A cell that raises is recorded as failed, with its traceback, and does not stop the rest. A
    worker that dies is replaced and its cell tried again. Ctrl-C and SIGTERM stop the workers and
    raise KeyboardInterrupt; finished cells are in the store.

    Parameters
    ----------
    tasks : iterable of Task
        The cells of the study.
    work : callable
        `work(task, report)` returns a cell's Result; it may call `report` with its progress, from
        0 to 1. Other processes must be able to import it.
    store : Store
        Store of the results.
    compute : Compute, optional
        Workers, threads, a cluster. Default: in this process.
    attempts : int, default 3
        Number of attempts at a cell whose worker dies.
    watch : callable, optional
        Called with every Event.

    Returns
    -------
    Summary
        Counts of cells.

    Raises
    ------
    KoriskError
        If tasks contradict the store (before anything runs), or workers cannot start.

    Examples
    --------
    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> with Store.create_or_open("run.db", {"name": "mine"}) as store:
    ...     first = run_study(tasks, work, store)
    ...     again = run_study(tasks, work, store)
    >>> first.done, again.done, again.skipped
    (2, 0, 2)
    """
    start = time.monotonic()
    compute = options_of("compute", compute, Compute)
    workers, threads, cluster = compute.workers, compute.threads, compute.cluster
    attempts = count("attempts", attempts, at_least=1, remedy="count tries")
    all_tasks = list(tasks)
    # Before anything runs: a key that is stored with another spec would mix results.
    store.check(all_tasks)
    missing = store.missing(all_tasks)
    todo = store.missing(missing, failed=compute.retry_failed)
    log = EventLog(
        store, todo, skipped=len(all_tasks) - len(missing), attempts=attempts, watch=watch
    )
    with process.sigterm_as_interrupt():
        if workers == 0 and cluster is None:
            while log.queue:
                task = log.queue.take()
                if threads is not None:
                    process.use_threads(threads)
                log.tell("started", task)
                report = partial(log.tell, "progress", task)
                log.outcome(task, process.perform(work, task, report, interruptible=True))
        elif todo and cluster is not None:
            from korisk.studies.run.clusters import DaskPool

            DaskPool(log, work, cluster).run()
        elif todo:
            share = threads or process.threads_asked() or max(1, cores() // workers)
            LocalPool(log, work, workers, share).run()
    seconds = time.monotonic() - start
    return Summary(**log.counts, failed_before=len(missing) - len(todo), seconds=seconds)


class LocalPool:
    """Worker processes on this machine, and the loop that feeds them."""

    def __init__(self, log: EventLog, work: process.Work, size: int, threads: int) -> None:
        self._log = log
        self._size = size
        self._start = partial(process.Worker, process.pickled(work), threads)
        self._false_starts = 0
        self._workers: list[process.Worker] = []

    def run(self) -> None:
        """Run every task of the queue."""
        finished = False
        try:
            while self._log.queue or any(worker.task for worker in self._workers):
                self._employ()
                handles = [h for w in self._workers for h in (w.connection, w.process.sentinel)]
                # Wakes up for a message, a worker's end, or a signal.
                wait(handles, timeout=_WAKE)
                for worker in list(self._workers):
                    self._attend(worker)
            finished = True
        finally:
            for worker in self._workers:
                worker.stop(at_once=not finished)
            for worker in self._workers:
                worker.join(patience=_PATIENCE if finished else 1.0)

    def _employ(self) -> None:
        """Give tasks to idle workers, and start workers for the rest of the queue."""
        queue = self._log.queue
        for worker in self._workers:
            if queue and worker.ready and worker.task is None:
                busy = [colleague.point for colleague in self._workers if colleague is not worker]
                task = queue.take(worker.point, busy)
                worker.give(task)
                self._log.tell("started", task)
        # Workers that are still importing will take one task each.
        starting = sum(not worker.ready for worker in self._workers)
        for _ in range(min(self._size - len(self._workers), len(queue) - starting)):
            self._workers.append(self._start())

    def _attend(self, worker: process.Worker) -> None:
        """Read a worker's messages; replace it if it has died."""
        # Read before the messages: none follows a worker's death.
        exit_code = worker.process.exitcode
        for message in worker.messages():
            # A text is the reason why it cannot import the work, or "" if it can.
            if isinstance(message, str):
                if message:
                    lack = f"work cannot be imported by other processes: {message}; "
                    raise KoriskError(lack, process.DEFINE_WORK)
                worker.ready = True
                self._false_starts = 0
                continue
            assert worker.task is not None
            if isinstance(message, float):
                self._log.tell("progress", worker.task, fraction=message)
            else:
                task, worker.task = worker.task, None
                self._log.outcome(task, message)
        if exit_code is None:
            return
        started, seconds, packages = worker.started, worker.seconds, versions()
        usage = Usage(started=started, seconds=seconds, machine=machine(), versions=packages)
        self._workers.remove(worker)
        worker.stop(at_once=True)
        worker.join(patience=_PATIENCE)
        if not worker.ready:
            # Without a limit, a work that kills its process on import would start workers for ever.
            self._false_starts += 1
            if self._false_starts >= _STARTS:
                lack = f"workers do not start (exit code {exit_code}); call run_study from a file, "
                remedy = "under if __name__ == '__main__':, or use "
                raise KoriskError(lack, remedy, Argument("workers", 0))
        if worker.task is not None:
            self._log.lost(worker.task, f"exit code {exit_code}", usage)
