"""A process that computes cells: the code that runs in it, and the control by its owner.

Messages to a worker are tasks, then None. It first answers with a text: "" if it can import the
work, otherwise the reason. Then it answers each task with any number of fractions, followed by
`Done` or `Failed`. Pickles are exchanged only between korisk's processes, never read from files.
"""

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import current_process, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TypeAlias

from korisk.errors import Argument, Message, invalid
from korisk.store.cells import Packed, Result, Task, pack
from korisk.store.usage import Meter, Usage, now

Report = Callable[[float], None]
Work = Callable[[Task, Report], Result]

DEFINE_WORK = Message("define it at the top of a module, or use ", Argument("workers", 0))
_LIBRARIES = "OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "NUMEXPR_NUM", "VECLIB_MAXIMUM"
THREAD_VARIABLES = tuple(f"{library}_THREADS" for library in _LIBRARIES)
_POLL = 0.02  # seconds between two checks whether a process has ended
Answer: TypeAlias = "str | float | Done | Failed"  # of a worker to its driver

_REPORT_PAUSE = 0.1  # seconds between two fractions that are passed on
_TRACEBACK_CALLS = 4  # the innermost ones
_ERROR_LENGTH = 4000  # characters


@dataclass(frozen=True)
class Done:
    """A cell's results, packed by the worker."""

    packed: Packed
    usage: Usage


@dataclass(frozen=True)
class Failed:
    """A cell's exception as text."""

    error: str
    usage: Usage


def perform(
    work: Work, task: Task, report: Report, *, interruptible: bool = False
) -> Done | Failed:
    """Run one cell in this process; any exception becomes its failure.

    `interruptible` lets a KeyboardInterrupt pass, for a process that Ctrl-C reaches.
    """
    last_report = -_REPORT_PAUSE

    def report_rarely(fraction: float) -> None:
        nonlocal last_report
        if (current := time.monotonic()) - last_report >= _REPORT_PAUSE:
            last_report = current
            report(min(max(float(fraction), 0.0), 1.0))

    meter = Meter()
    try:
        # Packed here, so that results that cannot be stored are failures of the cell.
        packed = pack(work(task, report_rarely))
    except BaseException as error:  # SystemExit too: a cell may not end the study
        if interruptible and isinstance(error, KeyboardInterrupt):
            raise
        return Failed(describe_error(error), meter.read())
    return Done(packed, meter.read())


def describe_error(error: BaseException) -> str:
    """An exception as text: type and message, then the innermost calls and the notes."""

    def safe_text(text: Callable[[], str]) -> str:
        try:
            return text()
        except BaseException as failure:  # the __str__ of an exception may raise
            return f"(its message cannot be shown: {type(failure).__name__})"

    message = " ".join(safe_text(lambda: str(error)).split())
    # The outermost call is korisk's and says nothing about the cell.
    calls = traceback.extract_tb(error.__traceback__)[1:][-_TRACEBACK_CALLS:]
    lines = [f"{type(error).__name__}: {message}" if message else type(error).__name__]
    lines += [f"  {Path(call.filename).name}, line {call.lineno}, in {call.name}" for call in calls]
    text = "\n".join(lines)
    if len(text) > _ERROR_LENGTH:
        text = f"{text[: _ERROR_LENGTH - 3]}..."
    notes = safe_text(lambda: "\n".join(map(str, getattr(error, "__notes__", ()))))
    text = f"{text}\n{notes[:_ERROR_LENGTH]}" if notes else text
    # Lone surrogates cannot be stored.
    return text.encode(errors="replace").decode()


def threads_asked() -> int | None:
    """The user's OMP_NUM_THREADS if it is a number, or the first of a list; else None."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def use_threads(threads: int) -> None:
    """Set the number of PyTorch's threads, if PyTorch is loaded."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(threads)


def pickled(work: Work) -> bytes:
    """The work, pickled for workers."""
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        rule = "be a function that other processes can import"
        raise invalid("work", rule, work, DEFINE_WORK) from None


@contextmanager
def thread_environment(threads: int) -> Iterator[None]:
    """Set the variables by which numeric libraries of new processes choose their threads.

    At exit the whole environment is restored, whatever else was set meanwhile.
    """
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def block_interrupts() -> "set[int | signal.Signals]":
    """Block Ctrl-C in this thread, which new processes inherit; return the mask before."""
    if not hasattr(signal, "pthread_sigmask"):
        return set()
    resource_tracker.ensure_running()  # its start would unblock signals again
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}))


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a closed terminal, end a run as Ctrl-C does."""
    # Only the main thread receives signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    handlers = {signal.SIGTERM: signal.signal(signal.SIGTERM, signal.default_int_handler)}
    # Windows lacks it, and `nohup` ignores it.
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        handlers[hangup] = signal.signal(hangup, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


# --- In the worker -------------------------------------------------------------------------------


def serve(connection: Connection, pickled_work: bytes, threads: int) -> None:
    """The main loop of a worker: run tasks until None arrives or the owner ends."""
    owner = parent_process()
    assert owner is not None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner stops its workers
    if hasattr(os, "killpg"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see `block_interrupts`
        os.setpgid(0, 0)
        # A daemon may not start processes; here they end with the group.
        current_process().daemon = False
    threading.Thread(target=_end_with, args=(owner.sentinel,), daemon=True).start()
    with suppress(EOFError, OSError):  # the owner has ended
        try:
            work = pickle.loads(pickled_work)
        except Exception as error:
            connection.send(describe_error(error).splitlines()[0])
            return
        connection.send("")
        while (task := connection.recv()) is not None:
            # Before every task, since the previous one may have changed the number.
            use_threads(threads)
            connection.send(perform(work, task, connection.send))


def _end_with(owner: int) -> None:
    """Wait for the owner's end, then end this process, and its group where there are such."""
    wait([owner])
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


# --- In its owner --------------------------------------------------------------------------------


class Holder:
    """The driver's record of the cell that a worker runs."""

    task: Task | None = None
    point: str | None = None  # of its last task, whose operators it may still have
    started = ""
    _clock = 0.0

    def hold(self, task: Task) -> None:
        """Record that it has a task from now on."""
        self.task, self.point = task, task.point
        self.started, self._clock = now(), time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since it got its task; 0 without one."""
        return time.monotonic() - self._clock if self.task is not None else 0.0


class Worker(Holder):
    """A worker as its owner sees it.

    The worker and all processes that it starts are one process group, which ends with the worker
    and with its owner, except for processes that start a new session or group.
    """

    def __init__(self, pickled_work: bytes, threads: int) -> None:
        self.ready = False
        # A forked process would inherit locks and threads of this one in an unknown state.
        context = get_context("spawn")
        self.connection, worker_end = context.Pipe()
        arguments = worker_end, pickled_work, threads
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        # Ctrl-C must not reach a new worker before it ignores the signal.
        mask = block_interrupts()
        try:
            with thread_environment(threads):
                self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            # Only the worker's copy stays open, so that its death closes the pipe.
            worker_end.close()
            if hasattr(signal, "pthread_sigmask"):
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def give(self, task: Task) -> None:
        """Send a task; the death of a worker is noticed later, by its owner's loop."""
        self.hold(task)
        with suppress(OSError):
            self.connection.send(task)

    def messages(self) -> Iterator[Answer]:
        """Messages that have arrived."""
        with suppress(EOFError, OSError):  # it is dead
            while self.connection.poll():
                yield self.connection.recv()

    def stop(self, *, at_once: bool) -> None:
        """Stop it, after its current task or at once."""
        if at_once:
            self.process.terminate()
            self._end_group()
        else:
            with suppress(OSError):
                self.connection.send(None)
        self.connection.close()

    def join(self, *, patience: float) -> None:
        """Wait for its end, and kill it after `patience` seconds."""
        end = time.monotonic() + patience
        while self.process.exitcode is None and time.monotonic() < end:
            # Polled, since `Process.join` would also wait for the worker's children.
            time.sleep(_POLL)
        self._end_group()
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.process.close()

    def _end_group(self) -> None:
        if hasattr(os, "killpg") and self.process.pid is not None:
            # The group may be empty, or not exist yet.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
