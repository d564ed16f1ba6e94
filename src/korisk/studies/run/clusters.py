"""Dask clusters that studies run on: started here, joined, or jobs of a batch system.

`local_cluster`, `joined_cluster` and `job_cluster` are context managers that give a `Cluster` and
close what they started. While one is open, Dask's own log is silenced: a run reports what matters.

The driver places cells itself, one at a time on each worker process, instead of leaving that to
Dask's scheduler (`client.submit(..., retries=)` and `as_completed`). A cell uses all threads and
the memory of its process, so two must not share one; a death of a worker must count against the
cell that it had and no other, up to `attempts`, which Dask sets for the whole scheduler; and
`retries` are for exceptions, which here are results. A future is released once its cell is stored:
otherwise the scheduler would compute it again if the worker that holds it dies.
"""

import asyncio
import faulthandler
import logging
import math
import os
import pickle
import queue
import re
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any
from uuid import uuid4

from korisk._checks import count, one_of
from korisk.errors import KoriskError, MissingExtraError, shown
from korisk.studies.result import Task
from korisk.studies.run.events import EventLog
from korisk.studies.run.usage import Usage, cores, now, versions
from korisk.studies.run.worker import (
    THREAD_VARIABLES,
    Done,
    Failed,
    Work,
    block_interrupts,
    describe_error,
    perform,
    pickled,
    sigterm_as_interrupt,
    thread_environment,
    use_threads,
)

SYSTEMS = ("slurm", "pbs", "lsf", "sge", "oar", "moab", "htcondor")  # of dask-jobqueue

_PATIENCE = 60.0  # seconds without a worker, where none stands in a queue
_CONNECTING = 8.0  # seconds for a scheduler to answer
_CLOSING = 10.0
_SURVEY = 0.5  # seconds between two checks of which workers are connected
_SILENCE = 15.0  # seconds in which a scheduler answers, if it is there
_FETCH = 60.0  # seconds after which to check whether a result's worker is still there
_QUIET_WAIT = 2.0  # seconds without a worker before that is reported
_RENEWAL = 30.0  # seconds between two requests for lost jobs
_ADDRESS = re.compile(r"(?:(tcp|tls|ws|wss|ucx)://)?(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})")
_LOGGERS = ("distributed", "dask_jobqueue", "tornado", "asyncio")
_CANCELLED = (CancelledError, asyncio.CancelledError)  # distributed's has been either


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A connection to a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    name : str
        What messages call the cluster.
    gpu : bool, default False
        Whether cells ask for a worker's GPU resource.
    patience : float, default 60
        Seconds without a usable worker after which a run ends.
    remedy : str
        What the message about that advises.
    renew : callable
        Called every half minute, to ask again for workers that were lost for good.

    Examples
    --------
    >>> from korisk.studies.run.clusters import Cluster
    >>> Cluster(client=None, name="mine").patience
    60.0
    """

    client: Any  # distributed.Client
    name: str
    gpu: bool = False  # cells ask for a worker's GPU resource
    patience: float = _PATIENCE  # seconds without a usable worker after which a run ends
    remedy: str = "run again"  # where no worker comes
    renew: Callable[[], None] = lambda: None  # asks again for workers that were lost for good


@contextmanager
def local_cluster(
    workers: int, *, threads: int | None = None, gpu: bool = False
) -> Iterator[Cluster]:
    """Start a Dask cluster of processes on this machine.

    Parameters
    ----------
    workers : int
        Processes.
    threads : int, optional
        Threads of each. Default: the cores, divided by the workers.
    gpu : bool, default False
        Whether each process offers the machine's GPU.

    Returns
    -------
    Cluster
        As the value of a `with` block, at whose end the cluster is closed.

    Examples
    --------
    >>> from korisk.studies.run.clusters import local_cluster
    >>> local_cluster(0).__enter__()
    Traceback (most recent call last):
    korisk.errors.KoriskError: workers must be a whole number >= 1, got 0; count processes
    """
    workers = count("workers", workers, at_least=1, remedy="count processes")
    distributed = _extra("distributed")
    share = threads or max(1, cores() // workers)
    guard = "start the cluster from a file, under if __name__ == '__main__':"

    async def without_interrupts() -> None:  # in the thread that starts workers, which inherit it
        block_interrupts()

    with ExitStack() as stack:
        stack.enter_context(thread_environment(share))
        folder = stack.enter_context(_silent_dask())
        with _as_one_line("workers do not start", guard):
            made = distributed.LocalCluster(
                n_workers=0,
                processes=True,
                threads_per_worker=share,
                memory_limit=0,  # a cell may use what the machine has, as in the local pool
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # else it takes port 8787
                silence_logs=logging.CRITICAL,
                local_directory=folder,
                resources={"GPU": 1} if gpu else None,
            )
            stack.callback(_close, made)
            made.sync(without_interrupts)
            made.sync(_scaled, made, workers)
        client = stack.enter_context(_connected(made, "the local Dask cluster"))
        yield Cluster(client=client, name="the local Dask cluster", gpu=gpu)


@contextmanager
def joined_cluster(
    address: str,
    *,
    gpu: bool | None = False,
    timeout: float = _CONNECTING,
    patience: float = _PATIENCE,
) -> Iterator[Cluster]:
    """Join a running Dask cluster; it is not closed at the end.

    Parameters
    ----------
    address : str
        Address of its scheduler, such as "tcp://host:8786".
    gpu : bool or None, default False
        Whether cells run on workers with a GPU resource; None: if a worker now has one.
    timeout : float, default 8
        Seconds for the scheduler to answer.
    patience : float, default 60
        Seconds without a usable worker after which a run ends.

    Returns
    -------
    Cluster
        As the value of a `with` block.

    Examples
    --------
    >>> from korisk.studies.run.clusters import joined_cluster
    >>> joined_cluster("host").__enter__()
    Traceback (most recent call last):
    korisk.errors.KoriskError: the scheduler's address must be like tcp://host:8786, got 'host'
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not 1 <= int(found[3]) <= 65535:
        raise KoriskError(
            f"the scheduler's address must be like tcp://host:8786, got {shown(address)}"
        )
    where = f"{found[1] or 'tcp'}://{found[2]}:{found[3]}"
    command = f"dask worker {where} --nthreads CORES" + (" --resources GPU=1" if gpu else "")
    remedy = f"start one ({command}) and run again"
    distributed = _extra("distributed")

    async def identity() -> str:
        """What answers at the address; a client would wait for ever for what is no scheduler."""
        arguments = distributed.Security().get_connection_args("client")
        rpc = distributed.rpc(where, timeout=timeout, connection_args=arguments)
        try:
            async with asyncio.timeout(timeout), rpc as there:
                return str((await there.identity()).get("type", "nothing known"))
        except (OSError, TimeoutError):
            return f"no answer within {timeout:g} s"
        except Exception as error:
            return type(error).__name__

    with _silent_dask():
        with ThreadPoolExecutor(1) as other:  # this thread may have a running loop, as in notebooks
            kind = other.submit(asyncio.run, identity()).result()
        if "Scheduler" not in kind:
            raise KoriskError(
                f"{where}: no Dask scheduler found there ({kind}); "
                "check the address, and that the scheduler runs"
            )
        with _connected(where, where) as client:
            if gpu is None:
                workers = client.scheduler_info(n_workers=-1)["workers"].values()
                gpu = any(map(_has_gpu, workers))
            yield Cluster(client=client, name=where, gpu=gpu, patience=patience, remedy=remedy)


@contextmanager
def job_cluster(
    system: str, jobs: int = 1, options: Mapping[str, Any] | None = None
) -> Iterator[Cluster]:
    """Start a Dask cluster whose workers are jobs of a batch system, cancelled at the end.

    Parameters
    ----------
    system : str
        "slurm", "pbs", "lsf", "sge", "oar", "moab" or "htcondor".
    jobs : int, default 1
        How many jobs to submit; jobs whose workers are lost are submitted again.
    options : mapping, optional
        Keyword arguments of dask-jobqueue's class for the system, such as `cores`, `memory`,
        `walltime`, `queue` and `job_extra_directives`. What is missing comes from Dask's own
        configuration, ~/.config/dask/jobqueue.yaml. Jobs whose `worker_extra_args` contain
        "GPU=1" run cells on their GPU.

    Returns
    -------
    Cluster
        As the value of a `with` block.

    Raises
    ------
    KoriskError
        If the options are wrong, or jobs cannot be submitted here.

    Examples
    --------
    >>> from korisk.studies.run.clusters import job_cluster
    >>> job_cluster("cray", 4, {"cores": 8, "memory": "16 GB"}).__enter__()
    Traceback (most recent call last):
    korisk.errors.KoriskError: system must be one of slurm, pbs, lsf, sge, oar, moab, htcondor, ...
    """
    kind, asked = _job_class(system, options or {})
    name = f"{jobs} {system} job{'s' if jobs > 1 else ''}"
    command = kind.job_cls.submit_command.split()[0]
    if shutil.which(command) is None:
        raise KoriskError(
            f"{system} needs the command {command}, which is not on this machine; "
            "run on a machine that can submit jobs, or choose another system"
        )

    def renew() -> None:
        with suppress(Exception):  # refused for now; the next time may do
            made.sync(_scaled, made, jobs)

    with ExitStack() as stack:
        stack.enter_context(_silent_dask())
        with _as_one_line(f"{name}: cannot be submitted", "see the batch system's message"):
            made = kind(
                scheduler_options={"dashboard": False, "dashboard_address": ":0"},
                silence_logs=logging.CRITICAL,
                **asked,
            )
            stack.callback(_close, made)
            made.sync(_scaled, made, jobs)
        client = stack.enter_context(_connected(made, name))
        gpu, patience = uses_gpu(system, options), math.inf  # queues take hours
        yield Cluster(client=client, name=name, gpu=gpu, patience=patience, renew=renew)


def uses_gpu(system: str, options: Mapping[str, Any] | None) -> bool:
    """Whether the jobs that these options ask for offer a GPU."""
    _, asked = _job_class(system, options or {})
    return any("GPU=1" in str(word) for word in asked["worker_extra_args"])


def job_script(system: str, options: Mapping[str, Any] | None = None) -> str:
    """The script that would be submitted for each job; nothing is started.

    Parameters
    ----------
    system : str
        The batch system, as of `job_cluster`.
    options : mapping, optional
        Keyword arguments of dask-jobqueue's class for it.

    Returns
    -------
    str
        The script.

    Examples
    --------
    >>> from korisk.studies.run.clusters import job_script
    >>> "#SBATCH --cpus-per-task=4" in job_script("slurm", {"cores": 4, "memory": "8 GB"})
    True
    """
    kind, asked = _job_class(system, options or {})
    logs = Path(str(asked.get("log_directory") or "."))
    had_logs = logs.exists()
    with _as_one_line(f"the options of {system}", "correct them"):
        job = kind.job_cls("tcp://ADDRESS-OF-THE-SCHEDULER", name="NAME", **asked)
        if not had_logs:  # dask-jobqueue makes the folder even for a script that is only shown
            with suppress(OSError):
                logs.rmdir()
        return str(job.job_script())


def _job_class(system: str, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """dask-jobqueue's class of a system, and the arguments for it.

    To the user's are added: one worker process in each job, unless a number is set, the threads of
    its numeric libraries, and korisk as the job's name.
    """
    one_of("system", system, SYSTEMS)
    _extra("distributed")
    module, config = _extra("dask_jobqueue"), _extra("dask").config
    asked = {"job_name": "korisk"} | {key.replace("-", "_"): options[key] for key in options}

    def setting(name: str) -> Any:
        default = config.get(f"jobqueue.{system}.{name.replace('_', '-')}", None)
        return asked.get(name, default)

    with _as_one_line(f"the options of {system}", "correct them"):
        for key in ("job_script_prologue", "worker_extra_args"):
            asked[key] = setting(key) or []
            if not isinstance(asked[key], list):
                raise TypeError(f"{key} must be a list, got {asked[key]!r}")
        asked["processes"] = setting("processes") or 1
        share = max(1, int(setting("cores") or 1) // int(asked["processes"]))
    exports = [f"export {name}={share}" for name in THREAD_VARIABLES]
    asked["job_script_prologue"] = [*exports, *asked["job_script_prologue"]]
    name = "HTCondor" if system == "htcondor" else "Moab" if system == "moab" else system.upper()
    return getattr(module, f"{name}Cluster"), asked


# --- Connections ---------------------------------------------------------------------------------


@contextmanager
def _connected(target: Any, name: str) -> Iterator[Any]:
    distributed = _extra("distributed")
    with warnings.catch_warnings(), _as_one_line(f"{name}: no connection", "run again"):
        # Versions are compared, and named, when a worker answers for the first time.
        warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
        client = distributed.Client(
            target,
            timeout=_CONNECTING,
            set_as_default=False,
            name="korisk",
            direct_to_workers=False,  # they may be out of reach from here
        )
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=_CLOSING)


async def _scaled(cluster: Any, workers: int) -> None:
    """Ask for workers, and raise what prevents them from starting."""
    status = _extra("distributed").Status
    cluster.scale(workers)
    try:
        await cluster
    except Exception:  # forget what did not start: it could be neither closed nor tried again
        for name, worker in list(cluster.workers.items()):
            if worker.status == status.created:
                worker.status = status.failed
                del cluster.workers[name]
        raise


def _close(cluster: Any) -> None:
    with suppress(Exception, asyncio.CancelledError):
        cluster.close(timeout=_CLOSING)


@contextmanager
def _as_one_line(what: str, remedy: str) -> Iterator[None]:
    """Turn an exception into one line."""
    try:
        yield
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        wrong_value = isinstance(error, TypeError | ValueError)  # a command's last line says why
        said = lines[0 if wrong_value else -1] if lines else type(error).__name__
        raise KoriskError(f"{what}: {shown(said, limit=300)}; {remedy}") from None


@contextmanager
def _silent_dask() -> Iterator[str]:
    """A folder for Dask's files, no output of its loggers, and SIGTERM as Ctrl-C."""
    known = [
        logging.getLogger(name)
        for name in (*_LOGGERS, *logging.Logger.manager.loggerDict)
        if name.split(".")[0] in _LOGGERS
    ]
    levels = [(logger, logger.level) for logger in known]
    made = tempfile.TemporaryDirectory(prefix="korisk-", ignore_cleanup_errors=True)
    with (
        sigterm_as_interrupt(),
        warnings.catch_warnings(),
        made as folder,
        _extra("dask").config.set({"temporary-directory": folder}),
    ):
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        for logger in known:
            logger.setLevel(logging.CRITICAL)
        try:
            yield folder
        finally:
            for logger, level in levels:
                logger.setLevel(level)


def _extra(name: str) -> Any:
    """A package of the extra; dask-jobqueue's import must not change what Ctrl-C does."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return import_module(name)
    except ValueError as error:  # it sets a handler of signals, which the main thread alone may
        raise KoriskError(
            f"{name} cannot be loaded here: {error}; start from the main thread"
        ) from None
    except ImportError as missing:
        package = name.replace("_", "-")
        raise MissingExtraError(
            f"running on a Dask cluster needs {package}, which is not installed; "
            "pip install 'korisk[dask]'"
        ) from missing
    finally:
        changed = before is not None and signal.getsignal(signal.SIGINT) is not before
        if changed and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


# --- In a Dask worker ----------------------------------------------------------------------------
#
# A call travels as bytes that `pickle.loads` opens on the worker. So a scheduler needs no korisk,
# and a worker without korisk raises an exception that the driver can name.


class Call:
    """A call that `pickle.loads` makes: unpickling gives what the function returns."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self._parts = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self._parts


def run_there(
    folder: str,
    wanted: dict[str, str],
    topic: str,
    key: str,
    pickled_work: bytes,
    task: Task,
    timeout: float | None,
) -> Done | Failed | str | None:
    """Run one cell on a Dask worker and report its progress on `topic`.

    `folder` is the worker's own, new for each process. Another folder means a wrong process: the
    scheduler has lost the worker and passed the cell to its successor at the same address, without
    the driver's knowledge; the answer is None. A text is the reason why this worker cannot run
    cells: its versions differ from those `wanted`, or it cannot import the work. After `timeout`
    seconds the process ends itself, even if the cell holds Python's lock.
    """
    worker = import_module("distributed").get_worker()
    if folder != worker.local_directory:
        return None
    for name, there in installed().items():
        here = wanted.get(name, "missing")
        # Patches of Python and builds of a package for another device give the same numbers.
        python = name == "python" and here.split(".")[:2] == there.split(".")[:2]
        if not python and here.partition("+")[0] != there.partition("+")[0]:
            return (
                f"{name} is {here} here and {there} there, and results depend on it; install the "
                "same version in both places"
            )
    try:
        work = _unpickled(pickled_work)
    except Exception as error:
        said = describe_error(error).splitlines()[0]
        return (
            f"work cannot be imported there: {said}; define it at the top of a module that "
            "workers have too"
        )
    # A paused worker would take no cell until its memory shrinks, which it need not do.
    for name in ("memory_target_fraction", "memory_spill_fraction", "memory_pause_fraction"):
        with suppress(AttributeError):
            setattr(worker.memory_manager, name, False)

    def report(fraction: float) -> None:
        entry = worker.state.tasks.get(key)
        if entry is not None and entry.state == "cancelled":  # threads end only from within
            raise InterruptedError("the driver has stopped waiting for this cell")
        worker.log_event(topic, [key, fraction])

    use_threads(worker.state.nthreads)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 (no user's file)
        if timeout is not None:
            faulthandler.dump_traceback_later(timeout, exit=True, file=nowhere)
        try:
            return perform(work, task, report)
        finally:
            if timeout is not None:
                faulthandler.cancel_dump_traceback_later()


def installed() -> dict[str, str]:
    """Versions of everything that a cell's numbers, and its way here, depend on."""
    found = dict(versions())
    for name in ("dask", "distributed"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@lru_cache(maxsize=4)
def _unpickled(pickled_work: bytes) -> Work:
    work: Work = pickle.loads(pickled_work)
    return work


# --- In the driver -------------------------------------------------------------------------------


@dataclass
class WorkerState:
    """A worker as the driver sees it."""

    address: str
    folder: str  # new for each process
    usable: bool  # unless it lacks a GPU that is asked for
    future: Any = None  # of its cell
    task: Task | None = None
    point: str | None = None  # of its last task, for which it may keep things
    started: str = ""
    clock: float = 0.0


class DaskPool:
    """The workers of a cluster, and the loop that feeds them."""

    def __init__(
        self, log: EventLog, work: Work, cluster: Cluster, *, timeout: float | None = None
    ) -> None:
        self._log = log
        self._work = pickled(work)
        self._cluster = cluster
        self._client = cluster.client
        self._timeout = timeout
        self._versions = installed()
        self._workers: dict[str, WorkerState] = {}  # by address
        self._name = f"korisk-{uuid4().hex[:12]}"  # of keys, and of the topic of progress
        self._submitted = 0
        self._notices: queue.SimpleQueue[tuple[str, float | None]] = queue.SimpleQueue()
        self._surveyed = float("-inf")
        self._renewed = time.monotonic()
        self._lack, self._lack_since, self._warned = "", 0.0, False

    def run(self) -> None:
        """Run every task of the queue."""

        def hear(event: tuple[float, tuple[str, float]]) -> None:  # in the client's thread
            self._notices.put((event[1][0], float(event[1][1])))

        self._client.subscribe_topic(self._name, hear)
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
                self._client.unsubscribe_topic(self._name)

    def _survey(self) -> None:
        """Find out which workers have come and gone."""
        clock = time.monotonic()
        if clock - self._surveyed < _SURVEY and self._client.status == "running":
            return
        present = self._present()
        self._surveyed = clock
        for worker in list(self._workers.values()):
            if present.get(worker.address, {}).get("local_directory") != worker.folder:
                self._lose(worker)
        for address in sorted(present.keys() - self._workers.keys()):
            about = present[address]
            usable = not self._cluster.gpu or _has_gpu(about)
            self._workers[address] = WorkerState(address, about["local_directory"], usable)
        if clock - self._renewed >= _RENEWAL:
            self._renewed = clock
            self._cluster.renew()
        if any(worker.usable for worker in self._workers.values()):
            self._lack = ""
            return
        lack = "no worker with a GPU" if self._workers else "no worker"
        if lack != self._lack:
            self._lack, self._lack_since, self._warned = lack, clock, False
        alone = clock - self._lack_since
        if alone >= self._cluster.patience:
            raise KoriskError(
                f"{self._cluster.name}: {lack} for {alone:.0f} s; {self._cluster.remedy}"
            )
        if alone >= _QUIET_WAIT and not self._warned:
            self._warned = True
            words = f"{self._cluster.name}: {lack} yet"
            self._log.tell("waiting", self._log.queue.first(), words=words)

    def _present(self) -> dict[str, Any]:
        """The connected workers by address; raises where the scheduler is gone."""
        client = self._client
        try:
            if client.status != "running":
                raise OSError
            asked = client.scheduler.identity
            found = client.sync(asked, n_workers=-1, callback_timeout=_SILENCE)
            return dict(found["workers"])
        except (OSError, TimeoutError, *_CANCELLED):
            raise KoriskError(
                f"{self._cluster.name}: the scheduler is gone; finished cells are kept: run again"
            ) from None

    def _feed(self, worker: WorkerState) -> None:
        """Give an idle worker a cell, bound to it."""
        if not (self._log.queue and worker.usable and worker.future is None):
            return
        busy = [other.point for other in self._workers.values() if other is not worker]
        task = worker.task = self._log.queue.take(worker.point, busy)
        worker.point = task.point
        worker.started, worker.clock = now(), time.monotonic()
        self._submitted += 1
        key = f"{self._name}-{self._submitted}"
        about = (worker.folder, self._versions, self._name, key, self._work, task, self._timeout)
        worker.future = self._client.submit(
            *(pickle.loads, pickle.dumps(Call(run_there, *about))),
            key=key,
            workers=[worker.address],
            allow_other_workers=False,
            pure=False,
            retries=0,
            resources={"GPU": 1} if self._cluster.gpu else None,
        )
        worker.future.add_done_callback(lambda future: self._notices.put((key, None)))
        self._log.tell("started", task)

    def _attend(self, key: str, fraction: float | None) -> None:
        """Hear of a cell's progress, or of its end if `fraction` is None."""
        busy = (each for each in self._workers.values() if each.future is not None)
        worker = next((each for each in busy if each.future.key == key), None)
        if worker is None or worker.task is None:  # the cell has ended, or was given up
            return
        if fraction is not None:
            self._log.tell("progress", worker.task, fraction=fraction)
            return
        answer = self._answer(worker)
        if answer is None:  # the worker's death, or its successor at the same address
            self._lose(worker)
        elif isinstance(answer, str):
            raise KoriskError(f"worker {worker.address}: {answer}")
        else:
            # The worker continues first, so that it does not wait for the disk.
            task, finished = worker.task, worker.future
            worker.future = worker.task = None
            self._feed(worker)
            self._log.outcome(task, answer)
            finished.release()

    def _answer(self, worker: WorkerState) -> Done | Failed | str | None:
        """The answer of a worker; None where it is lost."""
        patience = _FETCH
        while True:
            try:
                answer: Done | Failed | str | None = worker.future.result(timeout=patience)
                return answer
            except TimeoutError:  # a large result on a slow line, if its worker lives
                if worker.address not in self._present():
                    return None
                patience *= 2
            except (Exception, *_CANCELLED) as error:
                self._present()  # raises where it is the scheduler that was lost
                of_dask = type(error).__module__.startswith("distributed")
                if of_dask or isinstance(error, (OSError, *_CANCELLED)):
                    return None  # the cluster failed, not the cell
                said = describe_error(error.__cause__ or error).splitlines()[0]
                return (
                    f"cannot use korisk as it is here: {said}; install the same version of "
                    "korisk there"
                )

    def _lose(self, worker: WorkerState) -> None:
        """Forget a dead worker; retry its cell, or record the failure."""
        task, seconds = worker.task, time.monotonic() - worker.clock
        self._drop(worker)
        if task is None:
            return
        usage = Usage(started=worker.started, seconds=seconds, versions=self._versions)
        if self._timeout is not None and seconds >= self._timeout:
            self._log.outcome(task, Failed(f"took longer than {self._timeout:g} s", usage))
        else:
            self._log.lost(task, f"at {worker.address}", usage)

    def _drop(self, worker: WorkerState) -> None:
        """Forget a worker; a cell that still runs there stops when it next reports."""
        self._workers.pop(worker.address, None)
        if worker.future is not None:
            worker.future.release()


def _has_gpu(worker: Mapping[str, Any]) -> bool:
    return bool(worker.get("resources", {}).get("GPU", 0) >= 1)
