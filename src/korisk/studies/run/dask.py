"""Cells on a Dask cluster, placed by the driver.

Each worker process has one cell at a time, bound to it: a cell's memory is its process's, and it
uses all of the worker's threads. So the scheduler moves no cell and repeats none, and every death
of a worker is counted once, here. A future is released once its cell is stored: of a key that is
still wanted, the scheduler would compute again what a dying worker takes along.
"""

import asyncio
import pickle
import queue
import time
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from korisk.errors import KoriskError
from korisk.studies.result import Task
from korisk.studies.run.clusters import Cluster
from korisk.studies.run.dask_worker import Answer, call, greet, installed, run_there
from korisk.studies.run.events import Book, Queue
from korisk.studies.run.usage import Account, now
from korisk.studies.run.worker import Done, Failed, Work, pickled

_SURVEY = 0.5  # seconds between two looks at who is there
_SILENCE = 15.0  # seconds in which a scheduler answers, if it is there
_FETCH = 60.0  # seconds after which to look whether a result's worker is still there
_QUIET_WAIT = 2.0  # seconds without a worker before that is said
_SLOW_START = 30.0  # the same where workers are there and load what they need
_STARTS = 4  # workers in a row that may be lost before they have greeted
_RESTART = 60.0  # seconds for a worker to be started anew
_RENEWAL = 30.0  # seconds between two looks after lost jobs
_CANCELLED = (CancelledError, asyncio.CancelledError)  # distributed's has been either


@dataclass
class _Hand:
    """A worker as the driver sees it."""

    address: str
    future: Any = None  # of its greeting or its cell
    process: str = ""  # once it has greeted
    fit: bool = True  # unless it lacks a GPU that is asked for
    stuck: bool = False  # with a cell that took too long, and nobody can end it
    task: Task | None = None
    point: str | None = None  # of its last task, for which it may keep things
    started: str = ""
    clock: float = 0.0
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


class DaskPool:
    """The workers of a cluster, and the loop that feeds them. It alone touches the book."""

    def __init__(
        self,
        tasks: Queue,
        work: Work,
        book: Book,
        cluster: Cluster,
        attempts: int,
        *,
        timeout: float | None = None,
    ) -> None:
        self._queue = tasks
        self._work = pickled(work)
        self._book = book
        self._cluster = cluster
        self._client = cluster.client
        self._attempts = attempts
        self._timeout = timeout
        self._deaths: dict[str, int] = {}  # of workers, by the key of the cell they had
        self._hands: dict[str, _Hand] = {}  # by address
        self._by_key: dict[str, _Hand] = {}  # by the key of the future they have
        self._name = f"korisk-{uuid4().hex[:12]}"  # of keys, and of the topic of progress
        self._submitted = 0
        self._false_starts = 0
        self._notices: queue.SimpleQueue[tuple[str, float | None]] = queue.SimpleQueue()
        self._surveyed = self._renewed = float("-inf")
        self._lack: str | None = None  # what keeps cells waiting,
        self._alone_since = 0.0  # since when,
        self._told = False  # and whether that was said

    def run(self) -> None:
        """Run every task of the queue."""
        self._client.subscribe_topic(self._name, self._hear)
        try:
            while self._queue or any(hand.task for hand in self._hands.values()):
                self._survey()
                self._employ()
                self._wait()
        finally:
            for hand in list(self._hands.values()):
                self._drop(hand)
            if self._client.status == "running":
                self._client.unsubscribe_topic(self._name)

    # --- Who is there ----------------------------------------------------------------------------

    def _survey(self) -> None:
        clock = time.monotonic()
        if clock - self._surveyed < _SURVEY and self._client.status == "running":
            return
        self._give_up_on_the_slow(clock)
        present = self._present()
        self._surveyed = clock
        for address in self._hands.keys() - present:
            self._lose(self._hands[address], f"its worker at {address} was lost")
        for address in sorted(present - self._hands.keys()):
            self._welcome(address)
        self._look_after_jobs(clock)
        self._mind_loneliness(clock)

    def _present(self) -> set[str]:
        """The addresses of the workers, or one line where there is no scheduler to ask."""
        client = self._client
        try:
            if client.status != "running":
                raise OSError
            return set(client.sync(client.scheduler.ncores, callback_timeout=_SILENCE))
        except (OSError, TimeoutError, *_CANCELLED):
            raise KoriskError(
                f"{self._cluster.name}: the scheduler is gone; what is finished is kept: run again"
            ) from None

    def _welcome(self, address: str) -> None:
        hand = self._hands[address] = _Hand(address)
        self._submit(hand, self._next_key(), call(greet, self._work))

    def _look_after_jobs(self, clock: float) -> None:
        if clock - self._renewed >= _RENEWAL:
            if self._renewed > 0:
                self._cluster.renew()
            self._renewed = clock

    def _mind_loneliness(self, clock: float) -> None:
        if any(hand.process and hand.fit and not hand.stuck for hand in self._hands.values()):
            self._lack = None
            return
        lack = "no worker"
        if any(hand.stuck for hand in self._hands.values()):
            lack = "no worker but such as took too long and cannot be restarted (no nanny)"
        elif any(hand.process for hand in self._hands.values()):
            lack = "no worker with a GPU"
        elif self._hands:
            lack = "no worker that answers"
        if lack != self._lack:
            self._lack, self._alone_since, self._told = lack, clock, False
        alone = clock - self._alone_since
        silent = lack == "no worker that answers"  # they may be busy for others, or slow to load
        if alone >= self._cluster.patience and not silent:
            raise KoriskError(
                f"{self._cluster.name}: {lack} for {alone:.0f} s; {self._cluster.remedy}"
            )
        if alone >= (_SLOW_START if silent else _QUIET_WAIT) and not self._told and self._queue:
            self._told = True
            self._book.waiting(self._queue.first(), f"{self._cluster.name}: {lack} is there yet")

    # --- What they are given ---------------------------------------------------------------------

    def _employ(self) -> None:
        """Give the idle something to do."""
        for hand in self._hands.values():
            self._feed(hand)

    def _feed(self, hand: _Hand) -> None:
        if not (self._queue and hand.process and hand.fit and hand.future is None) or hand.stuck:
            return
        busy = [other.point for other in self._hands.values() if other is not hand]
        task = hand.task = self._queue.take(hand.point, busy)
        hand.point = task.point
        hand.started, hand.clock = now(), time.monotonic()
        key = self._next_key()
        resources = {"GPU": 1} if self._cluster.gpu else None
        cell = call(run_there, hand.process, self._name, key, self._work, task)
        self._submit(hand, key, cell, resources)
        self._book.started(task)

    def _next_key(self) -> str:
        self._submitted += 1
        return f"{self._name}-{self._submitted}"

    def _submit(
        self, hand: _Hand, key: str, called: bytes, resources: dict[str, int] | None = None
    ) -> None:
        hand.future = self._client.submit(
            *(pickle.loads, called),
            key=key,
            workers=[hand.address],
            allow_other_workers=False,
            pure=False,
            retries=0,
            resources=resources,
        )
        self._by_key[key] = hand
        hand.future.add_done_callback(partial(_note, self._notices, key))

    # --- What they say ---------------------------------------------------------------------------

    def _hear(self, event: tuple[float, Any]) -> None:
        """Progress, in the client's thread; the key is known while the cell runs."""
        key, fraction = event[1]
        self._notices.put((key, float(fraction)))

    def _wait(self) -> None:
        """Attend to what was said, or to what is said soon."""
        try:
            key, fraction = self._notices.get(timeout=_SURVEY)
        except queue.Empty:
            return
        hand = self._by_key.get(key)
        if hand is None:  # its cell has ended, or was given up
            return
        if fraction is None:
            self._attend(hand)
        elif hand.task is not None:
            self._book.progress(hand.task, fraction)

    def _attend(self, hand: _Hand) -> None:
        given = self._given(hand)
        if hand.task is None:
            self._get_to_know(hand, given)
            return
        answer: Answer | None = pickle.loads(given) if isinstance(given, bytes) else given
        if isinstance(answer, Done | Failed):
            self._finish(hand, hand.task, answer)
        else:  # the worker's successor at this address, or a death that the scheduler told first
            self._lose(hand, f"its worker at {hand.address} was lost")

    def _given(self, hand: _Hand) -> Any:
        """What the worker gave; None where that is lost, and an exception where it gave one."""
        patience = _FETCH
        while True:
            try:
                return hand.future.result(timeout=patience)
            except TimeoutError:  # does the worker live that has it?
                if hand.address not in self._present():
                    return None
                patience *= 2  # a large result on a slow line
            except Exception as error:
                self._present()  # raises where it was the scheduler that was lost
                if isinstance(error, _CANCELLED) or _of_dask(error):
                    return None
                return error if hand.task is None else self._failure(hand, _line(error))
            except _CANCELLED:
                self._present()
                return None

    def _get_to_know(self, hand: _Hand, greeting: Any) -> None:
        if isinstance(greeting, Exception):
            self._present()
            raise KoriskError(
                f"worker {hand.address}: cannot load korisk as it is here: {_line(greeting)}; "
                "install the same version of korisk there"
            )
        if not isinstance(greeting, dict):
            self._lose(hand, "")  # gone already, or asked again at the next survey
            return
        _check_versions(hand.address, greeting["versions"])
        if greeting["problem"]:
            raise KoriskError(
                f"worker {hand.address}: work cannot be imported there: {greeting['problem']}; "
                "define it at the top of a module that workers have too"
            )
        self._false_starts = 0
        hand.process, hand.fit = greeting["process"], greeting["gpu"] or not self._cluster.gpu
        hand.machine, hand.versions = greeting["machine"], greeting["versions"]
        self._release(hand)

    def _finish(self, hand: _Hand, task: Task, outcome: Done | Failed) -> None:
        """Have the worker go on first, so that it does not wait for the disk."""
        finished = hand.future
        hand.future = hand.task = None
        self._by_key.pop(finished.key, None)
        self._feed(hand)
        self._book.outcome(task, outcome, self._deaths.get(task.key, 0) + 1)
        finished.release()

    # --- Losses ----------------------------------------------------------------------------------

    def _lose(self, hand: _Hand, words: str) -> None:
        """Take leave of a dead worker and see to its cell."""
        task = hand.task
        self._drop(hand)
        if not hand.process:
            self._count_false_start(hand)
        if task is None:
            return
        times = self._deaths[task.key] = self._deaths.get(task.key, 0) + 1
        if times < self._attempts:
            self._queue.put_back(task)
            self._book.retried(task, words)
            return
        often = "once" if times == 1 else f"{times} times"
        outcome = self._failure(hand, f"its worker died {often} (the last at {hand.address})")
        self._book.outcome(task, outcome, times)

    def _give_up_on_the_slow(self, clock: float) -> None:
        """Fail cells that take too long, and have their workers started anew.

        A worker that nobody restarts (it has no nanny) is given no more cells.
        """
        for hand in [hand for hand in self._hands.values() if hand.task is not None]:
            if self._timeout is None or clock - hand.clock < self._timeout:
                continue
            task, failed = hand.task, self._failure(hand, f"took longer than {self._timeout:g} s")
            assert task is not None
            hand.task, hand.stuck = None, True
            self._release(hand)
            self._book.outcome(task, failed, self._deaths.get(task.key, 0) + 1)
            if self._restarted(hand.address):
                self._drop(hand)

    def _restarted(self, address: str) -> bool:
        try:
            said = self._client.restart_workers([address], timeout=_RESTART, raise_for_error=False)
        except (ValueError, TimeoutError):  # no nanny, or the worker has gone by itself
            return address not in self._present()
        return bool(said.get(address) == "OK")

    def _count_false_start(self, hand: _Hand) -> None:
        self._false_starts += 1
        if self._false_starts >= _STARTS:
            raise KoriskError(
                f"worker {hand.address}: died while it loaded the work, as {_STARTS - 1} others "
                "before it; see what the workers print"
            )

    def _failure(self, hand: _Hand, words: str) -> Failed:
        account = Account(
            started=hand.started,
            seconds=time.monotonic() - hand.clock,
            machine=hand.machine,
            versions=hand.versions,
        )
        return Failed(words, account)

    def _drop(self, hand: _Hand) -> None:
        hand.task = None
        self._release(hand)
        self._hands.pop(hand.address, None)

    def _release(self, hand: _Hand) -> None:
        """Let the scheduler forget a future; what runs of it is told to stop."""
        if hand.future is not None:
            self._by_key.pop(hand.future.key, None)
            hand.future.release()
            hand.future = None


def _note(notices: "queue.SimpleQueue[tuple[str, float | None]]", key: str, future: object) -> None:
    notices.put((key, None))


def _of_dask(error: Exception) -> bool:
    """Whether the cluster failed and not the cell, as with KilledWorker or a closed line."""
    return isinstance(error, OSError) or type(error).__module__.startswith("distributed")


def _check_versions(address: str, there: dict[str, str]) -> None:
    for name, version in installed().items():
        other = there.get(name, "missing")
        if _compared(name, version) != _compared(name, other):
            raise KoriskError(
                f"worker {address}: {name} is {version} here and {other} there, and results "
                "depend on it; install the same version in both places"
            )


def _compared(name: str, version: str) -> str:
    """Patches of Python and builds of a package for another device give the same numbers."""
    return ".".join(version.split(".")[:2]) if name == "python" else version.partition("+")[0]


def _line(error: BaseException) -> str:
    """An exception, or rather its cause, on one line."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())}"[:300]
