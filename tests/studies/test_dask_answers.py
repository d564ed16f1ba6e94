"""What the driver makes of each way in which a worker's answer can fail to come.

The cluster is a stand-in here: such failures last milliseconds in a real one.
"""

import asyncio
import pickle
from concurrent.futures import CancelledError
from typing import Any

import pytest
from dummy_work import cell, tasks

from korisk.errors import KoriskError
from korisk.studies.run.clusters import Cluster
from korisk.studies.run.dask import DaskPool, _Hand
from korisk.studies.run.events import Book, Event, Queue
from korisk.studies.run.usage import Account
from korisk.studies.run.worker import Done
from korisk.studies.store.packing import pack
from korisk.studies.store.store import Store

ADDRESS = "tcp://10.0.0.1:1"


class Client:
    """A scheduler that knows one worker, or is gone."""

    status = "running"
    workers: tuple[str, ...] = (ADDRESS,)

    class scheduler:
        ncores = None

    def sync(self, function: object, *, callback_timeout: float) -> dict[str, int]:
        if self.status != "running":
            raise OSError("gone")
        return dict.fromkeys(self.workers, 1)


class Future:
    """Gives what it was told, one thing after the other."""

    key = "key"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.patience: list[float] = []

    def result(self, timeout: float) -> Any:
        self.patience.append(timeout)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def release(self) -> None:
        pass


class DaskError(Exception):
    __module__ = "distributed.comm.core"


def attended(store: Store, client: Client, future: Future, attempts: int = 3) -> list[Event]:
    """What is said when a worker's future is attended to."""
    said: list[Event] = []
    (task,) = tasks(1, 1)
    cluster = Cluster(client=client, name="the cluster")
    book = Book(store, 1, 0, said.append)
    pool = DaskPool(Queue([]), cell, book, cluster, attempts)
    hand = pool._hands[ADDRESS] = _Hand(ADDRESS, future=future, process="p", task=task)
    pool._attend(hand)
    return said


def answer() -> bytes:
    (task,) = tasks(1, 1)
    packed = pack(cell(task, lambda fraction: None))
    return pickle.dumps(Done(packed, Account(started="now", seconds=1.0)))


def test_a_result_that_takes_long_is_waited_for_with_more_and_more_patience(store: Store) -> None:
    future = Future(TimeoutError(), TimeoutError(), answer())
    (event,) = attended(store, Client(), future)
    assert event.kind == "done"
    first, second, third = future.patience
    assert (second, third) == (2 * first, 4 * first)


@pytest.mark.parametrize(
    "failure",
    [CancelledError(), asyncio.CancelledError(), DaskError("closed"), OSError("reset")],
    ids=["cancelled", "cancelled in asyncio", "of Dask", "of the line"],
)
def test_an_answer_that_is_lost_costs_its_cell_a_try(store: Store, failure: BaseException) -> None:
    (event,) = attended(store, Client(), Future(failure))
    assert event.kind == "retried"
    assert not store.failures()


@pytest.mark.parametrize(
    "failure",
    [CancelledError(), asyncio.CancelledError(), DaskError("closed"), OSError("reset")],
    ids=["cancelled", "cancelled in asyncio", "of Dask", "of the line"],
)
def test_where_the_scheduler_is_lost_no_worker_is_blamed(
    store: Store, failure: BaseException
) -> None:
    client = Client()
    client.status = "closed"
    with pytest.raises(KoriskError, match="the scheduler is gone"):
        attended(store, client, Future(failure), attempts=1)
    assert not store.failures()


def test_a_result_whose_worker_has_gone_is_lost(store: Store) -> None:
    client = Client()
    client.workers = ()
    (event,) = attended(store, client, Future(TimeoutError()))
    assert event.kind == "retried"


def test_an_answer_that_cannot_be_read_is_the_failure_of_its_cell(store: Store) -> None:
    (event,) = attended(store, Client(), Future(RuntimeError("no such class")))
    assert event.kind == "failed"
    assert "no such class" in event.words


def lonely(store: Store, hands: list[_Hand]) -> list[Event]:
    """What is said, and raised, while nobody works for longer than is patiently borne."""
    said: list[Event] = []
    cluster = Cluster(client=Client(), name="the cluster", patience=10.0)
    pool = DaskPool(Queue(tasks(1, 1)), cell, Book(store, 1, 0, said.append), cluster, 3)
    pool._hands = {hand.address: hand for hand in hands}
    for clock in (0.0, 5.0, 6.0, 11.0, 40.0, 41.0):
        pool._mind_loneliness(clock)
    return said


def test_without_a_worker_a_run_says_so_once_and_then_ends(store: Store) -> None:
    with pytest.raises(KoriskError, match="no worker for 11 s"):
        lonely(store, [])


def test_a_worker_that_does_not_answer_is_waited_for(store: Store) -> None:
    (event,) = lonely(store, [_Hand(ADDRESS)])
    assert event.kind == "waiting"
    assert "no worker that answers" in event.words


def test_patience_begins_anew_when_something_else_is_lacking(store: Store) -> None:
    said: list[Event] = []
    cluster = Cluster(client=Client(), name="the cluster", gpu=True, patience=10.0)
    pool = DaskPool(Queue(tasks(1, 1)), cell, Book(store, 1, 0, said.append), cluster, 3)
    pool._mind_loneliness(0.0)
    pool._hands = {ADDRESS: _Hand(ADDRESS, process="p", fit=False)}
    pool._mind_loneliness(9.0)
    pool._mind_loneliness(12.0)
    assert [event.words for event in said] == ["the cluster: no worker with a GPU is there yet"]
    with pytest.raises(KoriskError, match="no worker with a GPU for 10 s"):
        pool._mind_loneliness(19.0)


def test_a_worker_that_comes_ends_the_loneliness(store: Store) -> None:
    cluster = Cluster(client=Client(), name="the cluster", patience=10.0)
    pool = DaskPool(Queue(tasks(1, 1)), cell, Book(store, 1, 0, None), cluster, 3)
    pool._mind_loneliness(0.0)
    pool._hands = {ADDRESS: _Hand(ADDRESS, process="p")}
    pool._mind_loneliness(9.0)
    pool._hands = {}
    pool._mind_loneliness(12.0)  # alone anew, not for twelve seconds
    with pytest.raises(KoriskError, match="for 11 s"):
        pool._mind_loneliness(23.0)
