"""Dask clusters that studies run on: one started here, one joined, one of a batch system's jobs.

Each is a context manager that gives a `Cluster` and closes what it started. While one is open,
Dask's own log keeps still: what matters of it is said by the run, in its own words.
"""

import asyncio
import logging
import math
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from korisk.errors import KoriskError, MissingExtraError, shown
from korisk.studies.run.job_profile import JobProfile, System
from korisk.studies.run.signals import ended_by_sigterm
from korisk.studies.run.usage import cores
from korisk.studies.run.worker import THREAD_VARIABLES

_PATIENCE = 60.0  # seconds without a worker, where none stands in a queue
_CONNECTING = 8.0  # seconds for a scheduler to answer
_CLOSING = 10.0
_ADDRESS = re.compile(r"(?:(tcp|tls|ws|wss|ucx)://)?(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})")
_LOGGERS = ("distributed", "dask_jobqueue", "tornado.application", "tornado.general", "asyncio")
_STAND_IN = "tcp://ADDRESS-OF-THE-SCHEDULER"


def _nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where cells run: a connection, and how to speak of it."""

    client: Any  # distributed.Client
    name: str
    gpu: bool = False  # cells ask for a worker's GPU resource
    patience: float = _PATIENCE  # seconds to go on without a worker
    remedy: str = "run again"  # where no worker comes
    renew: Callable[[], None] = _nothing  # asks for workers again that were lost for good


@contextmanager
def local_cluster(
    workers: int, *, threads: int | None = None, gpu: bool = False
) -> Iterator[Cluster]:
    """A cluster of so many processes on this machine, with `threads` threads each.

    By default they share the cores. With `gpu`, each of them offers the machine's GPU.
    """
    if workers < 1:
        raise KoriskError(f"workers must be 1 or more, got {shown(workers)}")
    distributed = _extra("distributed")
    share = threads or max(1, cores() // workers)
    with ExitStack() as stack:
        stack.enter_context(ended_by_sigterm())
        stack.enter_context(_quiet())
        stack.enter_context(_threads_in_environment(share))
        folder = stack.enter_context(_scratch_folder())
        with _in_words("workers do not start", _UNGUARDED):
            made = distributed.LocalCluster(
                n_workers=0,
                processes=True,
                threads_per_worker=share,
                memory_limit=0,  # a cell may have what the machine has, as in the local pool
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # else it takes port 8787
                silence_logs=logging.CRITICAL,
                local_directory=folder,
                resources={"GPU": 1} if gpu else None,
            )
            stack.callback(_close, made)
            made.sync(_without_interrupts)
            made.sync(_grown, made, workers)
        client = stack.enter_context(_connected(made, "the local Dask cluster"))
        yield Cluster(client=client, name="the local Dask cluster", gpu=gpu)


@contextmanager
def joined_cluster(
    address: str, *, gpu: bool = False, timeout: float = _CONNECTING, patience: float = _PATIENCE
) -> Iterator[Cluster]:
    """A running cluster, by the address of its scheduler. Nothing of it is closed."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 1 <= int(found[3]) <= 65535:
        raise KoriskError(
            f"the scheduler's address must be like tcp://host:8786, got {shown(address)}"
        )
    where = f"{found[1] or 'tcp'}://{found[2]}:{found[3]}"
    _extra("distributed")
    command = f"dask worker {where} --nthreads CORES" + (" --resources GPU=1" if gpu else "")
    remedy = f"start one ({command}) and run again"
    with _quiet():
        _check_scheduler(where, timeout)
        with _connected(where, where) as client:
            yield Cluster(client=client, name=where, gpu=gpu, patience=patience, remedy=remedy)


@contextmanager
def job_cluster(profile: JobProfile) -> Iterator[Cluster]:
    """A cluster whose workers are jobs of a batch system; they are cancelled at the end."""
    _extra("distributed")
    system = _SYSTEMS[profile.system]
    kind = getattr(_extra("dask_jobqueue"), f"{system.name}Cluster")
    if shutil.which(system.submit) is None:
        raise KoriskError(
            f"{system.submit} is not there, which {profile.system} takes jobs by; "
            "run on a machine that can submit, or correct the profile's system"
        )
    name = f"{profile.jobs} {profile.system} job{'s' if profile.jobs > 1 else ''}"
    with ExitStack() as stack:
        stack.enter_context(ended_by_sigterm())
        stack.enter_context(_quiet())
        stack.enter_context(_scratch_folder())
        _make_folder(profile.log_directory)
        with _in_words(f"{name}: cannot be submitted", "see what the batch system says"):
            made = kind(
                **_options(profile),
                interface=profile.interface,
                scheduler_options={"dashboard": False, "dashboard_address": ":0"},
                silence_logs=logging.CRITICAL,
            )
            stack.callback(_close, made)
            made.sync(_grown, made, profile.jobs)
        client = stack.enter_context(_connected(made, name))
        yield Cluster(
            client=client,
            name=name,
            gpu=profile.gpus > 0,
            patience=math.inf,  # queues take hours
            renew=partial(_grow_again, made, profile.jobs),
        )


def offers_gpu(cluster: Cluster) -> bool:
    """Whether a worker that is there now was started with a GPU resource."""
    with _in_words(f"{cluster.name}: the scheduler does not say who is there", "run again"):
        workers = cluster.client.scheduler_info(n_workers=-1)["workers"].values()
        return any(worker.get("resources", {}).get("GPU", 0) >= 1 for worker in workers)


def job_script(profile: JobProfile) -> str:
    """The script that would be submitted for each job; nothing is started or written."""
    module = import_module(_extra("dask_jobqueue").__name__ + "." + profile.system)
    job = getattr(module, f"{_SYSTEMS[profile.system].name}Job")
    options = {**_options(profile), "interface": profile.interface}
    return str(job(_STAND_IN, name="NAME", **options).job_script())


# --- Jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _System:
    name: str  # of Dask's classes
    submit: str


_SYSTEMS: dict[System, _System] = {
    "slurm": _System("SLURM", "sbatch"),
    "pbs": _System("PBS", "qsub"),
    "lsf": _System("LSF", "bsub"),
}


def _options(profile: JobProfile) -> dict[str, Any]:
    """A job in Dask's words; all are given, so that none comes from a user's Dask settings."""
    return {
        "cores": profile.cores,
        "memory": f"{profile.memory_bytes} B",
        "processes": 1,
        "job_name": "korisk",
        "python": _quoted(profile.python or sys.executable),
        "local_directory": profile.local_directory and _quoted(profile.local_directory),
        "worker_extra_args": ["--resources", "GPU=1"] if profile.gpus else [],
        "job_script_prologue": [*_exports(profile.cores), *profile.prologue],
        "job_extra_directives": [*_directives(profile), *profile.directives],
        "job_directives_skip": [],
        "queue": profile.queue,
        **_particular(profile),
    }


def _particular(profile: JobProfile) -> dict[str, Any]:
    """What each system has words of its own for."""
    minutes, seconds = divmod(profile.walltime_seconds, 60)
    hours, minutes = divmod(minutes, 60)
    walltime = f"{hours:02}:{minutes:02}:{seconds:02}"
    match profile.system:
        case "slurm":
            return {"account": profile.account, "walltime": walltime}
        case "pbs":
            megabytes = math.ceil(profile.memory_bytes / 1024**2)
            select = f"select=1:ncpus={profile.cores}:mem={megabytes}mb"
            gpus = f":ngpus={profile.gpus}" if profile.gpus else ""
            return {
                "account": profile.account,
                "walltime": walltime,
                "resource_spec": select + gpus,
            }
        case "lsf":  # minutes are its smallest unit
            hours, minutes = divmod(math.ceil(profile.walltime_seconds / 60), 60)
            return {"project": profile.account, "walltime": f"{hours:02}:{minutes:02}"}


def _directives(profile: JobProfile) -> list[str]:
    """GPUs and logs. Dask's own option for logs would make their folder to show a script."""
    logs, gpus = profile.log_directory, profile.gpus
    match profile.system:
        case "slurm":
            return [f"--gres=gpu:{gpus}"] * bool(gpus) + [f"-o {logs}/korisk-%j.log"] * bool(logs)
        case "pbs":
            return ["-j oe", f"-o {logs}/"] if logs else []
        case "lsf":
            return [f'-gpu "num={gpus}"'] * bool(gpus) + [f"-o {logs}/korisk-%J.log"] * bool(logs)


def _exports(threads: int) -> list[str]:
    """Threads for the numeric libraries; and a worker that never pauses for its memory.

    A paused worker takes no cell until its memory shrinks, which what a cell keeps for the next
    one need not do.
    """
    exports = [f"export {name}={threads}" for name in THREAD_VARIABLES]
    shares = ("TARGET", "SPILL", "PAUSE")
    return exports + [f"export DASK_DISTRIBUTED__WORKER__MEMORY__{name}=False" for name in shares]


def _quoted(text: str) -> str:
    """Blanks kept together, and $VARIABLES for the job to fill in."""
    return f'"{text}"' if shlex.split(text) != [text] else text


def _make_folder(path: str | None) -> None:
    if path is None:
        return
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KoriskError(
            f"log_directory {shown(path)} cannot be made: {error.strerror}; choose another"
        ) from None


# --- Connections ---------------------------------------------------------------------------------


@contextmanager
def _connected(target: Any, name: str) -> Iterator[Any]:
    distributed = _extra("distributed")
    mismatch = distributed.versions.VersionMismatchWarning
    with (
        warnings.catch_warnings(),
        _in_words(f"{name}: no connection to the scheduler", "run again"),
    ):
        warnings.simplefilter("ignore", mismatch)  # said when a worker greets, and by name
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


def _check_scheduler(address: str, timeout: float) -> None:
    """Ask who is there, with an end: a client would wait for ever where somebody else listens."""
    with ThreadPoolExecutor(1) as other:  # this thread may have a loop that runs, as notebooks do
        found = other.submit(asyncio.run, _identity(address, timeout)).result()
    if found != "Scheduler":
        raise KoriskError(
            f"{address}: no Dask scheduler found there ({found}); "
            "check the address, and that the scheduler runs"
        )


async def _identity(address: str, timeout: float) -> str:
    distributed = _extra("distributed")
    arguments = distributed.Security().get_connection_args("client")
    try:
        async with (
            asyncio.timeout(timeout),
            distributed.rpc(address, timeout=timeout, connection_args=arguments) as there,
        ):
            identity = await there.identity()
    except (OSError, TimeoutError):
        return f"nobody answers within {timeout:g} s"
    except Exception as error:
        return type(error).__name__
    kind = identity.get("type", "") if isinstance(identity, dict) else ""
    return "Scheduler" if "Scheduler" in kind else f"it is a {kind}"


async def _grown(cluster: Any, workers: int) -> None:
    """Ask for so many workers, and learn what speaks against it."""
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


def _grow_again(cluster: Any, workers: int) -> None:
    """Where a batch system refuses for now, the next time may do."""
    with suppress(Exception):
        cluster.sync(_grown, cluster, workers)


async def _without_interrupts() -> None:
    """In the thread that starts workers: they inherit that Ctrl-C is left to the driver."""
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # its start would let signals through again
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _close(cluster: Any) -> None:
    with suppress(Exception, asyncio.CancelledError):
        cluster.close(timeout=_CLOSING)


_UNGUARDED = "start the cluster from a file, under if __name__ == '__main__':"


@contextmanager
def _in_words(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except KoriskError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = lines[-1] if lines else type(error).__name__
        raise KoriskError(f"{what}: {shown(said, limit=300)}; {remedy}") from None


@contextmanager
def _threads_in_environment(threads: int) -> Iterator[None]:
    """What the numeric libraries of workers read when they are loaded, also of late ones.

    Dask sets further variables for its workers here, and would leave them.
    """
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _scratch_folder() -> Iterator[str]:
    """A folder for what Dask writes on this machine, which it would leave behind elsewhere."""
    made = tempfile.TemporaryDirectory(prefix="korisk-", ignore_cleanup_errors=True)
    with made as folder, _extra("dask").config.set({"temporary-directory": folder}):
        yield folder


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's loggers still for a while, and what Python says of its coroutines at Ctrl-C."""
    known = [
        logging.getLogger(name)
        for name in (*_LOGGERS, *logging.Logger.manager.loggerDict)
        if name.split(".")[0] in ("distributed", "dask_jobqueue") or name in _LOGGERS
    ]
    before = [(logger, logger.level) for logger in known]
    for logger in known:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        for logger, level in before:
            logger.setLevel(level)


@contextmanager
def _interrupt_kept() -> Iterator[None]:
    """dask-jobqueue makes Ctrl-C a plain exit when it is imported; here it stays what it was."""
    here = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if here and before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


def _extra(name: str) -> Any:
    try:
        with _interrupt_kept():
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
