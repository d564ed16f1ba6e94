"""What a run has to do, what has happened in it, and who is told."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from korisk.studies.result import Task
from korisk.studies.run.worker import Done, Failed
from korisk.studies.store.store import Store

Kind = Literal["started", "progress", "done", "failed", "retried", "waiting"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to a cell, and how far the run was then.

    "waiting" is said of the cell that is next, while there is no worker for it.

    `run` calls its `watch` with one. `done` and `failed` count cells of this run, out of `total`;
    `skipped` were there before.

    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> seen = []
    >>> with Store.create_or_open("events.db", {"name": "mine"}) as store:
    ...     summary = run_study(tasks, work, store, workers=0, watch=seen.append)
    >>> [(event.kind, event.done) for event in seen]
    [('started', 0), ('done', 1), ('started', 1), ('done', 2)]
    """

    kind: Kind
    task: Task
    done: int  # cells of this run
    failed: int
    total: int  # that this run has to do
    skipped: int  # that were there before
    fraction: float = 0.0  # of this cell
    words: str = ""  # why it failed, is tried again, or waits


Watch = Callable[[Event], None]


class Book:
    """Counts what happens, stores it, and tells who watches."""

    def __init__(self, store: Store, total: int, skipped: int, watch: Watch | None) -> None:
        self.done = self.failed = 0
        self.total = total
        self.skipped = skipped
        self._store = store
        self._watch = watch

    def started(self, task: Task) -> None:
        """A cell was given to a worker."""
        self._tell("started", task)

    def progress(self, task: Task, fraction: float) -> None:
        """A cell has come so far."""
        self._tell("progress", task, fraction)

    def retried(self, task: Task, words: str) -> None:
        """A cell was lost and is to be done again."""
        self._tell("retried", task, words=words)

    def waiting(self, task: Task, words: str) -> None:
        """There is no worker for the next cell."""
        self._tell("waiting", task, words=words)

    def outcome(self, task: Task, outcome: Done | Failed, attempts: int) -> None:
        """A cell has ended: store what came of it."""
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
        kind: Kind,
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


class Queue:
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

    def first(self) -> Task:
        """The task that `take` would give, left where it is."""
        return next(iter(self._points.values()))[0]

    def put_back(self, task: Task) -> None:
        """Have a task done next."""
        self._points.setdefault(task.point, []).insert(0, task)
