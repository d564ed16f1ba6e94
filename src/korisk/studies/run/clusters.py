"""Dask clusters for studies: `joined_cluster` is a context manager that yields a `Cluster`.

Meanwhile Dask's log is silenced: a run reports what matters.

The driver places cells, one at a time on each worker process, instead of leaving that to Dask's
scheduler (`client.submit(..., retries=)` and `as_completed`). A cell uses all threads and the
memory of its process, so two must not share one; a worker's death must count only against the cell
that it had, up to `attempts`, which Dask sets for the whole scheduler; and `retries` are for
exceptions, which here are results. A future is released once its cell is stored: otherwise the
scheduler would compute it again if the worker that holds it dies.
"""

import asyncio
import logging
import math
import pickle
import queue
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any
from uuid import uuid4

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError, needed_by, shown
from korisk.store.cells import Task
from korisk.store.usage import Usage, versions
from korisk.studies.run import worker as process
from korisk.studies.run.events import EventLog

Answer = process.Done | process.Failed | str | None  # of a worker; a text is a problem there

_PATIENCE = 60.0  # seconds without a worker before a run ends
_CONNECTING = 8.0  # seconds for a scheduler to answer
_CLOSING = 10.0  # seconds for a client to close
_SURVEY = 0.5  # seconds between two checks of which workers are connected
_SILENCE = 15.0  # seconds without an answer after which a scheduler counts as gone
_FETCH = 60.0  # seconds after which to check whether a result's worker is still there
_QUIET_WAIT = 2.0  # seconds without a worker before that is reported
_LOGGERS = ("distributed", "tornado", "asyncio")
_CANCELLED = (CancelledError, asyncio.CancelledError)  # depending on the version of distributed


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A connection to a Dask cluster."""

    client: Any  # distributed.Client
    name: str
    gpu: bool = False  # cells ask for a worker's GPU resource
    patience: float = _PATIENCE  # seconds without a usable worker after which a run ends
    remedy: str = "run again"  # if no worker appears


@contextmanager
def joined_cluster(
    address: str,
    *,
    gpu: bool | None = False,
    timeout: float = _CONNECTING,
    patience: float = _PATIENCE,
) -> Iterator[Cluster]:
    """Join a running Dask cluster; it is not closed at the end."""
    distributed = _extra("distributed")
    url = address if "://" in address else f"tcp://{address}"
    command = f"dask worker {url} --nthreads CORES" + (" --resources GPU=1" if gpu else "")
    remedy = f"start one ({command}) and run again"

    async def identity() -> None:
        """Ask who answers; a client would wait for ever if it is not a scheduler."""
        arguments = distributed.Security().get_connection_args("client")
        rpc = distributed.rpc(url, timeout=timeout, connection_args=arguments)
        # Longer than that of `rpc`, whose error says more.
        async with asyncio.timeout(timeout + 1), rpc as scheduler:
            kind = str((await scheduler.identity()).get("type"))
        if "Scheduler" not in kind:
            raise ValueError(f"a {kind} answers")

    lack = f"{url}: no Dask scheduler found there"
    advice = "start it, or check the address, which must be like tcp://host:8786"
    with _silent_dask():
        # In a thread, since this one may have a running event loop, as in notebooks.
        with _as_one_line(lack, advice), ThreadPoolExecutor(1) as executor:
            try:
                executor.submit(asyncio.run, identity()).result()
            except OSError:  # Dask retries until its timeout, and may hide the reason
                check = "and whether a firewall blocks the port"
                reason = f"no answer within {timeout:g} s"
                raise KoriskError(f"{lack}: {reason}; {advice}, {check}") from None
        with _connected(url) as client:
            if gpu is None:
                gpu = any(map(_has_gpu, client.scheduler_info(n_workers=-1)["workers"].values()))
            yield Cluster(client=client, name=url, gpu=gpu, patience=patience, remedy=remedy)


# --- Connections ---------------------------------------------------------------------------------


@contextmanager
def _connected(target: Any) -> Iterator[Any]:
    """A client of a cluster, or of the scheduler at an address."""
    distributed = _extra("distributed")
    with warnings.catch_warnings(), _as_one_line("no connection to Dask", "run again"):
        # Versions are compared in `run_there`, with an error that names them.
        warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
        client = distributed.Client(
            target,
            timeout=_CONNECTING,
            set_as_default=False,
            name="korisk",
            direct_to_workers=False,  # they may not be reachable from here
        )
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=_CLOSING)


@contextmanager
def _as_one_line(what: str, remedy: str) -> Iterator[None]:
    """Turn any exception into a one-line `KoriskError`."""
    try:
        yield
    except KoriskError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Errors of commands state their reason in the last line, others in the first.
        wrong_value = isinstance(error, TypeError | ValueError)
        reason = lines[0 if wrong_value else -1] if lines else type(error).__name__
        raise KoriskError(f"{what}: {shown(reason, limit=300)}; {remedy}") from None


@contextmanager
def _silent_dask() -> Iterator[str]:
    """Yield a folder for Dask's files; silence its loggers, and treat SIGTERM as Ctrl-C."""
    names = [*_LOGGERS, *logging.Logger.manager.loggerDict]
    loggers = [logging.getLogger(name) for name in names if name.split(".")[0] in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with (
        process.sigterm_as_interrupt(),
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory(prefix="korisk-", ignore_cleanup_errors=True) as folder,
        _extra("dask").config.set({"temporary-directory": folder}),
    ):
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield folder
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _extra(name: str) -> Any:
    """Import a package of the extra."""
    with needed_by("running on a Dask cluster", name, "'korisk[dask]'"):
        return import_module(name)


# --- In a Dask worker ----------------------------------------------------------------------------
#
# A call is sent as bytes that `pickle.loads` opens on the worker. So a scheduler needs no korisk,
# and a worker without korisk raises an exception that the driver can report.


class Call:
    """A call that `pickle.loads` makes: unpickling returns the function's result."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self._parts = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self._parts


def run_there(
    folder: str, required: dict[str, str], topic: str, key: str, pickled_work: bytes, task: Task
) -> Answer:
    """Run one cell on a Dask worker and report its progress on `topic`.

    None where `folder` is another process's: the scheduler has lost the worker and passed the cell
    to its successor. A text is the reason why this worker cannot run cells: its versions differ
    from those `required`, or it cannot import the work.
    """
    worker = import_module("distributed").get_worker()
    if folder != worker.local_directory:
        return None
    for name, version in installed().items():
        if (ours := required.get(name, "missing")) != version:
            remedy = "install the same version in both places"
            return f"{name} is {ours} here and {version} there, and results depend on it; {remedy}"
    try:
        work = _unpickled(pickled_work)
    except Exception as error:
        reason = process.describe_error(error).splitlines()[0]
        remedy = "define it at the top of a module that workers have too"
        return f"work cannot be imported there: {reason}; {remedy}"
    # A paused worker would accept no cell until its memory shrinks, which may never happen.
    for name in ("memory_target_fraction", "memory_spill_fraction", "memory_pause_fraction"):
        setattr(worker.memory_manager, name, False)

    def report(fraction: float) -> None:
        entry = worker.state.tasks.get(key)
        # A thread cannot be ended from outside.
        if entry is not None and entry.state == "cancelled":
            raise InterruptedError("the driver has stopped waiting for this cell")
        worker.log_event(topic, [key, fraction])

    process.use_threads(worker.state.nthreads)
    return process.perform(work, task, report)


def installed() -> dict[str, str]:
    """Versions of everything that a cell's results and their transport depend on.

    Patch releases of Python and builds for other devices are not distinguished.
    """
    packages = dict(versions())
    for name in ("dask", "distributed"):
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    packages["python"] = ".".join(packages["python"].split(".")[:2])
    return {name: version.partition("+")[0] for name, version in packages.items()}


@lru_cache(maxsize=4)
def _unpickled(packed: bytes) -> process.Work:
    """Unpickle the work of a driver; cached, so that each is unpickled once."""
    work: process.Work = pickle.loads(packed)
    return work


# --- In the driver -------------------------------------------------------------------------------


@dataclass
class WorkerState(process.Holder):
    """A worker as the driver sees it."""

    address: str
    folder: str  # new for each process
    usable: bool  # False if it lacks a GPU that cells need
    future: Any = None  # of its cell


class DaskPool:
    """The workers of a cluster, and the loop that feeds them."""

    def __init__(self, log: EventLog, work: process.Work, cluster: Cluster) -> None:
        self._log = log
        self._work = process.pickled(work)
        self._cluster = cluster
        self._client = cluster.client
        self._versions = installed()
        self._workers: dict[str, WorkerState] = {}  # by address
        self._topic = f"korisk-{uuid4().hex}"  # of progress
        self._notices: queue.SimpleQueue[tuple[str, float | None]] = queue.SimpleQueue()
        self._surveyed = -math.inf
        self._staffed = time.monotonic()  # when a usable worker was last seen
        self._warned = False

    def run(self) -> None:
        """Run every task of the queue."""
        # Dask calls back in another thread; the queue brings events to this one.
        self._client.subscribe_topic(self._topic, lambda event: self._notices.put(event[1]))
        try:
            while self._log.queue or any(worker.task for worker in self._workers.values()):
                self._survey()
                for worker in self._workers.values():
                    self._feed(worker)
                with suppress(queue.Empty):
                    self._attend(*self._notices.get(timeout=_SURVEY))
        finally:
            for worker in list(self._workers.values()):
                self._drop(worker)
            if self._client.status == "running":
                self._client.unsubscribe_topic(self._topic)

    def _survey(self) -> None:
        """Update the list of workers; warn or raise if there is none for long."""
        clock = time.monotonic()
        if clock - self._surveyed < _SURVEY and self._client.status == "running":
            return
        present = self._present()
        self._surveyed = clock
        for worker in list(self._workers.values()):
            # A restarted worker may have its predecessor's address, but not its folder.
            if present.get(worker.address, {}).get("local_directory") != worker.folder:
                self._lose(worker)
        for address in sorted(present.keys() - self._workers.keys()):
            usable = not self._cluster.gpu or _has_gpu(present[address])
            folder = present[address]["local_directory"]
            self._workers[address] = WorkerState(address, folder, usable)
        if any(worker.usable for worker in self._workers.values()):
            self._staffed, self._warned = clock, False
            return
        idle = clock - self._staffed
        problem = f"{self._cluster.name}: no worker{' with a GPU' if self._workers else ''}"
        if idle >= self._cluster.patience:
            raise KoriskError(f"{problem} for {idle:.0f} s; {self._cluster.remedy}")
        if idle >= _QUIET_WAIT and not self._warned:
            self._warned = True
            self._log.tell("waiting", self._log.queue.first(), words=f"{problem} yet")

    def _present(self) -> JsonDict:
        """The connected workers by address; raise if the scheduler is gone."""
        client = self._client
        try:
            if client.status != "running":
                raise OSError
            identity = client.scheduler.identity
            return dict(client.sync(identity, n_workers=-1, callback_timeout=_SILENCE)["workers"])
        except (OSError, TimeoutError, *_CANCELLED):
            problem = f"{self._cluster.name}: the scheduler is gone"
            raise KoriskError(f"{problem}; finished cells are kept: run again") from None

    def _feed(self, worker: WorkerState) -> None:
        """Submit a cell to an idle worker, and to no other."""
        if not (self._log.queue and worker.usable and worker.future is None):
            return
        busy = [colleague.point for colleague in self._workers.values() if colleague is not worker]
        task = self._log.queue.take(worker.point, busy)
        worker.hold(task)
        # A unique key: Dask would answer an equal call with the earlier result.
        key = f"korisk-{uuid4().hex}"
        arguments = worker.folder, self._versions, self._topic, key, self._work, task
        worker.future = self._client.submit(
            pickle.loads,
            pickle.dumps(Call(run_there, *arguments)),
            key=key,
            workers=[worker.address],
            resources={"GPU": 1} if self._cluster.gpu else None,
        )
        worker.future.add_done_callback(lambda future: self._notices.put((key, None)))
        self._log.tell("started", task)

    def _attend(self, key: str, fraction: float | None) -> None:
        """Process a cell's progress, or its end if `fraction` is None."""
        for worker in self._workers.values():
            if worker.future is not None and worker.future.key == key:
                break
        else:  # the cell has ended or was abandoned
            return
        task, future = worker.task, worker.future
        assert task is not None
        if fraction is not None:
            self._log.tell("progress", task, fraction=fraction)
            return
        answer = self._answer(worker)
        if answer is None:  # the worker's death, or its successor at the same address
            self._lose(worker)
        elif isinstance(answer, str):
            raise KoriskError(f"worker {worker.address}: {answer}")
        else:
            # The worker gets its next cell first, so that it does not wait for the disk.
            worker.future = worker.task = None
            self._feed(worker)
            self._log.outcome(task, answer)
            future.release()

    def _answer(self, worker: WorkerState) -> Answer:
        """The answer of a worker; None if it is lost."""
        patience = _FETCH
        while True:
            try:
                answer: Answer = worker.future.result(timeout=patience)
                return answer
            except TimeoutError:  # a large result over a slow connection, if its worker lives
                if worker.address not in self._present():
                    return None
                patience *= 2
            except (Exception, *_CANCELLED) as error:
                self._present()  # raises if it is the scheduler that was lost
                of_dask = type(error).__module__.startswith("distributed")
                if of_dask or isinstance(error, (OSError, *_CANCELLED)):
                    return None  # the cluster failed, not the cell
                reason = process.describe_error(error.__cause__ or error).splitlines()[0]
                return f"cannot use korisk as it is here: {reason}; install the same version there"

    def _lose(self, worker: WorkerState) -> None:
        """Remove a dead worker; retry its cell, or record the failure."""
        self._drop(worker)
        if worker.task is not None:
            usage = Usage(started=worker.started, seconds=worker.seconds, versions=versions())
            self._log.lost(worker.task, f"at {worker.address}", usage)

    def _drop(self, worker: WorkerState) -> None:
        """Remove a worker; a cell that still runs there stops at its next report."""
        del self._workers[worker.address]
        if worker.future is not None:
            worker.future.release()


def _has_gpu(worker: JsonMapping) -> bool:
    return bool(worker.get("resources", {}).get("GPU", 0) >= 1)
