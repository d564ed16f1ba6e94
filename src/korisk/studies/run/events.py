"""The queue of cells of a run, and the events that are reported of them."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from korisk.store.cells import Task
from korisk.store.store import Store
from korisk.store.usage import Usage
from korisk.studies.run.worker import Done, Failed

Watch = Callable[["Event"], None]
Kind = Literal["started", "progress", "done", "failed", "retried", "waiting"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of a cell, and the progress of the run at that moment.

    `run_study` calls its `watch` with one.

    Parameters
    ----------
    kind : str
        "started", "progress", "done", "failed", "retried" (its worker died and the cell will run
        again) or "waiting" (no worker is available; `task` is the next cell).
    task : Task
        The cell.
    done, failed : int
        Cells of this run that are finished or failed so far.
    total : int
        Cells that this run has to do.
    skipped : int
        Cells whose results were in the store before the run.
    fraction : float, default 0
        Progress of this cell, from 0 to 1.
    words : str, default ""
        Why the cell failed, is retried, or waits.

    Examples
    --------
    >>> from korisk.studies import Result, Row, Store, Task, run_study
    >>> def work(task, report):
    ...     return Result(rows=(Row(model="KO", n=8, metrics={"mse": 0.1 / task.seed}),))
    >>> tasks = [Task(point="a", seed=seed, spec={"metric": "mse"}) for seed in (1, 2)]
    >>> seen = []
    >>> with Store.create_or_open("events.db", {"name": "mine"}) as store:
    ...     summary = run_study(tasks, work, store, watch=seen.append)
    >>> [(event.kind, event.done) for event in seen]
    [('started', 0), ('done', 1), ('started', 1), ('done', 2)]
    """

    kind: Kind
    task: Task
    done: int  # cells of this run
    failed: int
    total: int  # cells that this run has to do
    skipped: int  # cells whose results were in the store before
    fraction: float = 0.0  # progress of this cell
    words: str = ""  # why it failed, is retried, or waits


class Queue:
    """Tasks in order, point by point, so that a worker can reuse the operators of a point."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        # Ordered dicts and deques lose their first entry at once, however many follow.
        self._points, self._length = OrderedDict[str, deque[Task]](), 0
        for task in tasks:
            self._points.setdefault(task.point, deque()).append(task)
            self._length += 1

    def __len__(self) -> int:
        return self._length

    def take(self, point: str | None = None, busy: Iterable[str | None] = ()) -> Task:
        """Take the next task: of this point, else of a point without workers, else the first."""
        if point is None or point not in self._points:
            # Workers are spread over points, so that each builds the operators of few of them.
            free = (candidate for candidate in self._points if candidate not in set(busy))
            point = next(free, next(iter(self._points)))
        tasks = self._points[point]
        task = tasks.popleft()
        self._length -= 1
        if not tasks:
            del self._points[point]
        return task

    def first(self) -> Task:
        """The task at the front, left in the queue."""
        return next(iter(self._points.values()))[0]

    def put_back(self, task: Task) -> None:
        """Return a task to the front of its point."""
        self._points.setdefault(task.point, deque()).appendleft(task)
        self._length += 1


class EventLog:
    """Counts the outcomes of a run's cells, stores them, and calls `watch`.

    `queue` has the remaining tasks. A cell whose worker dies is tried `attempts` times in all.
    """

    def __init__(
        self, store: Store, tasks: list[Task], *, skipped: int, attempts: int, watch: Watch | None
    ) -> None:
        self.queue = Queue(tasks)
        self.counts = {"done": 0, "failed": 0, "skipped": skipped}
        self._total = len(tasks)
        self._attempts = attempts
        self._deaths: dict[str, int] = {}  # of workers, by the key of the cell they had
        self._store = store
        self._watch = watch

    def outcome(self, task: Task, outcome: Done | Failed) -> None:
        """Store the results or the error of a cell."""
        usage = replace(outcome.usage, attempts=self._deaths.get(task.key, 0) + 1)
        if isinstance(outcome, Done):
            self._store.record(task, outcome.packed, usage)
            self.counts["done"] += 1
            self.tell("done", task, fraction=1.0)
        else:
            self._store.record_failure(task, outcome.error, usage)
            self.counts["failed"] += 1
            self.tell("failed", task, words=outcome.error)

    def lost(self, task: Task, how: str, usage: Usage) -> None:
        """Put back a cell whose worker died; record its failure after the last attempt."""
        deaths = self._deaths.get(task.key, 0) + 1
        if deaths < self._attempts:
            self._deaths[task.key] = deaths
            self.queue.put_back(task)
            self.tell("retried", task, words=f"its worker died ({how})")
        else:
            times = f"{deaths} times" if deaths > 1 else "once"
            self.outcome(task, Failed(f"its worker died {times} ({how})", usage))

    def tell(self, kind: Kind, task: Task, fraction: float = 0.0, words: str = "") -> None:
        """Report an event to `watch`."""
        if self._watch is not None:
            counts = self.counts | {"total": self._total}
            self._watch(Event(kind=kind, task=task, fraction=fraction, words=words, **counts))
