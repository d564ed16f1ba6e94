"""Cells in other processes of this machine."""

from multiprocessing.connection import wait

from korisk.errors import KoriskError
from korisk.studies.result import Task
from korisk.studies.run.events import Book, Queue
from korisk.studies.run.usage import Account, machine, versions
from korisk.studies.run.worker import Failed, Message, Ready, Work, Worker, pickled

_STARTS = 3  # workers in a row that may die before they are ready
_PATIENCE = 5.0  # seconds for a worker to end by itself
_WAKE = 1.0  # seconds; where signals do not end a wait, this does


class LocalPool:
    """Workers, and the loop that feeds them.

    A cell that takes longer than `timeout` seconds has failed, and its worker is replaced. With
    `with_children`, processes that a cell has left behind end with its worker.
    """

    def __init__(
        self,
        queue: Queue,
        work: Work,
        book: Book,
        size: int,
        threads: int,
        attempts: int,
        *,
        timeout: float | None = None,
        with_children: bool = False,
    ) -> None:
        self._queue = queue
        self._work = pickled(work)
        self._book = book
        self._size = size
        self._threads = threads
        self._attempts = attempts
        self._timeout = timeout
        self._own_groups = with_children or timeout is not None
        self._deaths: dict[str, int] = {}  # of workers, by the key of the cell they had
        self._false_starts = 0
        self._workers: list[Worker] = []

    def run(self) -> None:
        """Run every task of the queue."""
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
            self._workers.append(Worker(self._work, self._threads, own_group=self._own_groups))

    def _wait(self) -> None:
        signs = [sign for w in self._workers for sign in (w.connection, w.process.sentinel)]
        wait(signs, timeout=min([_WAKE, *(self._left(worker) for worker in self._workers)]))

    def _left(self, worker: Worker) -> float:
        """Seconds that a worker still has for its cell."""
        if self._timeout is None or worker.task is None:
            return _WAKE
        return max(0.0, self._timeout - worker.seconds)

    def _attend(self, worker: Worker) -> None:
        exit_code = worker.exit_code  # looked up first: nothing is said after a death
        for message in worker.messages():
            self._hear(worker, message)
        if exit_code is not None:
            self._replace(worker, exit_code)
        elif worker.task is not None and self._left(worker) <= 0:
            self._give_up(worker, worker.task)

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
        words = f"its worker died {often} (exit code {exit_code})"
        self._book.outcome(task, _failure(words, worker), times)

    def _give_up(self, worker: Worker, task: Task) -> None:
        """End a worker that takes too long. Its cell would take as long again: it has failed."""
        failed = _failure(f"took longer than {self._timeout:g} s", worker)
        self._workers.remove(worker)
        worker.stop(at_once=True)
        worker.bury(patience=_PATIENCE)
        self._book.outcome(task, failed, self._deaths.get(task.key, 0) + 1)

    def _stop(self, *, at_once: bool) -> None:
        for worker in self._workers:
            worker.stop(at_once=at_once)
        for worker in self._workers:
            worker.bury(patience=1.0 if at_once else _PATIENCE)
        self._workers.clear()


def _failure(words: str, worker: Worker) -> Failed:
    account = Account(
        started=worker.started, seconds=worker.seconds, machine=machine(), versions=versions()
    )
    return Failed(words, account)
