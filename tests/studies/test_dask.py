"""Cells on Dask: the results of the local pool, and each cell once, whatever dies."""

import asyncio
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import dummy_work
import pytest
from dummy_work import STUDY, cell, tasks
from fleet import dask_here
from waiting import contents, counts, until

from korisk.errors import KoriskError
from korisk.paper.reproduction import studies
from korisk.store.cells import Task, pack
from korisk.store.store import Store
from korisk.store.usage import Usage
from korisk.studies.run import clusters
from korisk.studies.run.cells import run_cell
from korisk.studies.run.clusters import Call, Cluster, run_there
from korisk.studies.run.engine import Compute, Event, run_study
from korisk.studies.run.worker import Done

Captured = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def cluster(start: Callable[[bool], Cluster]) -> Cluster:
    """Two workers. Those that an earlier test killed come back, or all are started anew."""
    made = start(False)
    try:
        made.client.wait_for_workers(2, timeout=20)
    except TimeoutError:  # on a busy machine Dask gives up on a worker that does not start in time
        made = start(True)
    return made


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[[bool], Cluster]]:
    main = sys.modules["__main__"]
    made: list[Cluster] = []
    with pytest.MonkeyPatch.context() as patch, ExitStack() as opened:
        # Workers would import pytest's own script.
        patch.delattr(main, "__file__", raising=False)
        patch.setattr(main, "__spec__", None)

        def newest(anew: bool) -> Cluster:
            if anew or not made:
                made.append(opened.enter_context(dask_here(2)))
            return made[-1]

        yield newest


def keys_held(cluster: Cluster) -> int:
    def count(dask_scheduler: Any) -> int:
        return sum(str(key).startswith("korisk") for key in dask_scheduler.tasks)

    return int(cluster.client.run_on_scheduler(count))


def test_200_cells_are_those_of_a_pool(store: Store, cluster: Cluster, tmp_path: Path) -> None:
    asked = tasks(4, 50)
    finished: list[str] = []
    held: list[int] = []

    def watch(event: Event) -> None:
        if event.kind == "done":
            finished.append(event.task.key)
            held.append(len(cluster.client.futures))

    assert counts(run_study(asked, cell, store, compute=Compute(cluster=cluster), watch=watch)) == (
        200,
        0,
        0,
    )
    with Store.create_or_open(tmp_path / "local.db", STUDY) as local:
        run_study(asked, cell, local)
        assert contents(store) == contents(local)
    assert sorted(finished) == sorted(task.key for task in asked)
    assert max(held) <= 4  # one that runs, one just finished, for each worker: none piles up
    until(lambda: keys_held(cluster) == 0)
    for one in store.results():
        assert one.usage.attempts == 1
        assert one.usage.cpu_seconds is not None
        assert one.usage.peak_memory is not None
        assert {"python", "korisk", "numpy", "scipy"} <= set(one.usage.versions)
    assert counts(run_study(asked, cell, store, compute=Compute(cluster=cluster))) == (0, 0, 200)


@pytest.mark.slow
def test_a_real_study_is_bitwise_the_same(store: Store, cluster: Cluster, tmp_path: Path) -> None:
    (study,) = studies(points=[8], protocols=["released"], seeds=[1, 2], full=False)
    assert counts(run_study(study.tasks, run_cell, store, compute=Compute(cluster=cluster))) == (
        2,
        0,
        0,
    )
    with Store.create_or_open(tmp_path / "local.db", STUDY) as local:
        run_study(study.tasks, run_cell, local, compute=Compute(workers=1, threads=1))
        assert contents(store, seconds=False) == contents(local, seconds=False)


def test_progress_comes_while_a_cell_runs(store: Store, cluster: Cluster) -> None:
    events: list[Event] = []
    asked = tasks(1, 1, pause=1.0)  # the last notice and the end come by different ways
    run_study(
        asked,
        dummy_work.reports_twice,
        store,
        compute=Compute(cluster=cluster),
        watch=events.append,
    )
    kinds = [(event.kind, event.fraction) for event in events]
    assert kinds == [("started", 0.0), ("progress", 0.25), ("progress", 0.75), ("done", 1.0)]


def test_an_exception_is_recorded_and_the_rest_goes_on(store: Store, cluster: Cluster) -> None:
    work = dummy_work.raises_on_odd_seeds
    assert counts(run_study(tasks(1, 4), work, store, compute=Compute(cluster=cluster))) == (
        2,
        2,
        0,
    )
    assert [failure.task.seed for failure in store.failures()] == [1, 3]
    assert store.failures()[0].error.startswith("KoriskError: odd seeds are not taken\n")


def test_a_worker_killed_in_mid_run_costs_its_cell_one_more_try(
    store: Store, cluster: Cluster, tmp_path: Path, capfd: Captured
) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    asked = tasks(2, 20, folder=str(folder), pause=0.05)
    # The victim takes long enough to be still at it when it is killed, however busy the machine.
    asked[10] = replace(asked[10], point="slow", spec={**asked[10].spec, "pause": 3.0})
    victim = asked[10].key
    events: list[Event] = []

    def watch(event: Event) -> None:
        first = event.task.key not in {one.task.key for one in events if one.kind == "started"}
        events.append(event)
        if event.kind == "started" and event.task.key == victim and first:
            until(lambda: list(folder.glob(f"{victim}, *")))
            [trace] = folder.glob(f"{victim}, *")
            os.kill(int(trace.name.split(", ")[-2]), signal.SIGKILL)

    summary = run_study(
        asked, dummy_work.leaves_a_trace, store, compute=Compute(cluster=cluster), watch=watch
    )
    assert counts(summary) == (40, 0, 0)
    [retried] = [event.task.key for event in events if event.kind == "retried"]
    assert retried == victim
    times = {task.key: len(list(folder.glob(f"{task.key}, *"))) for task in asked}
    assert times == {task.key: 2 if task.key == retried else 1 for task in asked}
    assert {one.task.key: one.usage.attempts for one in store.results()} == times
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow  # killed once: above; always, in a pool: test_engine.py
def test_a_cell_that_always_kills_its_worker_fails_alone(store: Store, cluster: Cluster) -> None:
    events: list[Event] = []
    work = dummy_work.kills_itself_always
    asked, watch = tasks(1, 6), events.append
    # Two tries: every death costs the start of a worker.
    summary = run_study(
        asked, work, store, compute=Compute(cluster=cluster), watch=watch, attempts=2
    )
    assert counts(summary) == (5, 1, 0)
    [failure] = store.failures()
    assert failure.task.seed == 1
    assert failure.error.startswith("its worker died 2 times (at tcp://")
    assert (failure.usage.attempts, [event.kind for event in events].count("retried")) == (2, 1)


def test_work_that_no_worker_can_import(store: Store, cluster: Cluster, monkeypatch: Patch) -> None:
    with pytest.raises(KoriskError, match="work must be a function that other processes can"):
        run_study(
            tasks(1, 1),
            lambda task, report: cell(task, report),
            store,
            compute=Compute(cluster=cluster),
        )
    ghost = ModuleType("ghost")
    exec("def cell(task, report): ...", vars(ghost))
    monkeypatch.setitem(sys.modules, "ghost", ghost)
    with pytest.raises(KoriskError, match=r"imported there: ModuleNotFoundError: .*; define it"):
        run_study(tasks(1, 1), vars(ghost)["cell"], store, compute=Compute(cluster=cluster))
    assert store.failures() == []


def test_an_error_of_the_store_ends_the_run_and_frees_the_workers(
    store: Store, cluster: Cluster, tmp_path: Path, monkeypatch: Patch
) -> None:
    endless = Task(point="endless", seed=0, spec={"folder": str(tmp_path)})
    asked = tasks(1, 3)

    def full(*arguments: object) -> None:
        until((tmp_path / "begun").exists)
        raise KoriskError("the disk is full")

    monkeypatch.setattr(store, "record", full)
    with pytest.raises(KoriskError, match="the disk is full"):
        run_study(
            [endless, *asked], dummy_work.one_never_ends, store, compute=Compute(cluster=cluster)
        )
    monkeypatch.undo()
    until((tmp_path / "ended").exists)  # told to stop when it next reported
    assert counts(run_study(asked, cell, store, compute=Compute(cluster=cluster))) == (3, 0, 0)
    until(lambda: keys_held(cluster) == 0)


def test_a_cell_meant_for_another_process_is_not_run(cluster: Cluster, tmp_path: Path) -> None:
    [task] = tasks(1, 1, folder=str(tmp_path), pause=0.0)
    about = (clusters.installed(), "topic", "key", pickle.dumps(cell), task)
    call = Call(run_there, "its predecessor's folder", *about)
    assert cluster.client.submit(pickle.loads, pickle.dumps(call)).result(timeout=120) is None


# The cluster is a stand-in here: such failures last milliseconds in a real one.

ADDRESS = "tcp://10.0.0.1:1"


class Client:
    """A scheduler with one worker, whose answers to cells are given; it may be lost or be empty."""

    def __init__(self, *answers: Any, workers: tuple[str, ...] = (ADDRESS,)) -> None:
        self.status = "running"
        self.workers = workers
        self.answers = deque(answers)
        self.patience: list[float] = []
        self.scheduler = self

    identity = None

    def sync(self, function: object, **options: object) -> dict[str, Any]:
        if self.status != "running":
            raise OSError("gone")
        return {"workers": {each: {"local_directory": "x"} for each in self.workers}}

    def subscribe_topic(self, *arguments: object) -> None: ...

    def unsubscribe_topic(self, *arguments: object) -> None: ...

    def submit(self, *arguments: object, key: str, **options: object) -> "Future":
        return Future(self, key)


class Future:
    def __init__(self, client: Client, key: str) -> None:
        self.client, self.key = client, key

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        callback(self)

    def result(self, timeout: float) -> Any:
        self.client.patience.append(timeout)
        answer = self.client.answers.popleft()
        if callable(answer):
            answer = answer(self.client)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def release(self) -> None: ...


class DaskError(Exception):
    __module__ = "distributed.comm.core"


def done() -> Done:
    (task,) = tasks(1, 1)
    return Done(pack(cell(task, lambda fraction: None)), Usage(started="now", seconds=1.0))


def events_of(store: Store, client: Client, **about: Any) -> list[Event]:
    said: list[Event] = []
    made = Cluster(client=client, name="the cluster", **about)
    run_study(tasks(1, 1), cell, store, compute=Compute(cluster=made), watch=said.append)
    return [event for event in said if event.kind != "started"]


LOST = [CancelledError(), asyncio.CancelledError(), DaskError("closed"), OSError("reset")]


def test_a_result_that_takes_long_is_waited_for_with_more_and_more_patience(store: Store) -> None:
    client = Client(TimeoutError(), TimeoutError(), done())
    (event,) = events_of(store, client)
    assert event.kind == "done"
    first, second, third = client.patience
    assert (second, third) == (2 * first, 4 * first)


@pytest.mark.parametrize("failure", LOST, ids=lambda each: type(each).__name__)
def test_an_answer_that_is_lost_costs_its_cell_a_try(store: Store, failure: BaseException) -> None:
    first, second = events_of(store, Client(failure, done()))
    assert (first.kind, second.kind) == ("retried", "done")
    assert ADDRESS in first.words
    assert [found.usage.attempts for found in store.results()] == [2]


@pytest.mark.parametrize("failure", LOST, ids=lambda each: type(each).__name__)
def test_a_lost_scheduler_is_no_fault_of_a_worker(store: Store, failure: BaseException) -> None:
    def lose_all(client: Client) -> BaseException:
        client.status = "closed"
        return failure

    with pytest.raises(KoriskError, match="the scheduler is gone"):
        events_of(store, Client(lose_all))
    assert not store.failures()


def test_a_result_whose_worker_has_gone_is_lost(store: Store) -> None:
    def lose_worker(client: Client) -> BaseException:
        client.workers = ()
        return TimeoutError()

    with pytest.raises(KoriskError, match="no worker for"):
        events_of(store, Client(lose_worker), patience=0.1)
    assert not store.failures()


def test_an_answer_that_cannot_be_read_ends_the_run(store: Store) -> None:
    with pytest.raises(KoriskError, match=f"{ADDRESS}: cannot use korisk .* no such class"):
        events_of(store, Client(RuntimeError("no such class")))
    assert not store.failures()


def test_without_a_worker_a_run_says_so_once_and_ends(store: Store, monkeypatch: Patch) -> None:
    monkeypatch.setattr(clusters, "_QUIET_WAIT", 0.0)
    for gpu, workers, lack in (
        (False, (), "no worker"),
        (True, (ADDRESS,), "no worker with a GPU"),
    ):
        said: list[Event] = []
        made = Cluster(client=Client(workers=workers), name="it", gpu=gpu, patience=1.2)
        with pytest.raises(KoriskError, match=f"it: {lack} for [12] s; run again"):
            run_study(tasks(1, 1), cell, store, compute=Compute(cluster=made), watch=said.append)
        assert [event.words for event in said] == [f"it: {lack} yet"]
