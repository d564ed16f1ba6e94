"""One process that works on cells: what runs in it, and how its owner speaks with it.

Messages to a worker are tasks, then None. It answers `Ready` once, and for each task any number of
fractions, then `Done` or `Failed`. Pickles pass between our own processes alone, never from files.
"""

import ctypes
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

from korisk.errors import KoriskError, shown
from korisk.studies.result import Result, Task
from korisk.studies.run.usage import Account, Meter, now
from korisk.studies.run.worker_guard import guard_group
from korisk.studies.store.packing import Packed, pack

Report = Callable[[float], None]
Work = Callable[[Task, Report], Result]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_POLL = 0.02  # seconds
_REPORT_PAUSE = 0.1  # seconds between two fractions that are passed on
_TRACEBACK_CALLS = 4
_ERROR_LENGTH = 4000
_NOTES_LENGTH = 4200  # what a pilot's fit has printed, cut already, fits in
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Ready:
    """The worker has started and has the work; or it cannot, and says why."""

    problem: str = ""


@dataclass(frozen=True)
class Done:
    """A cell's results, packed where they were made."""

    packed: Packed
    account: Account


@dataclass(frozen=True)
class Failed:
    """A cell's exception in words."""

    error: str
    account: Account


Message = Ready | float | Done | Failed


def perform(
    work: Work, task: Task, report: Report, *, interruptible: bool = False
) -> Done | Failed:
    """Run one cell in this process; whatever it raises is its failure.

    Where Ctrl-C reaches this process, `interruptible` lets a KeyboardInterrupt pass.
    """
    meter = Meter()
    try:
        packed = pack(work(task, _calm(report)))
    except BaseException as error:  # SystemExit too: a cell may not end the study
        if interruptible and isinstance(error, KeyboardInterrupt):
            raise
        return Failed(_in_words(error), meter.read())
    return Done(packed, meter.read())


def use_threads(threads: int) -> None:
    """Have PyTorch use so many threads, if it is loaded."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def _calm(report: Report) -> Report:
    """A report that passes few fractions on, all from 0 to 1."""
    last = -_REPORT_PAUSE

    def calm(fraction: float) -> None:
        nonlocal last
        clock = time.monotonic()
        if clock - last >= _REPORT_PAUSE:
            last = clock
            report(min(max(float(fraction), 0.0), 1.0))

    return calm


def _in_words(error: BaseException) -> str:
    """Type and message first, then the last calls and what was noted on the error."""
    said = " ".join(_said(lambda: str(error)).split())
    calls = traceback.extract_tb(error.__traceback__)[1:][-_TRACEBACK_CALLS:]
    lines = [f"{type(error).__name__}: {said}" if said else type(error).__name__]
    lines += [f"  {Path(call.filename).name}, line {call.lineno}, in {call.name}" for call in calls]
    notes = _said(lambda: "\n".join(map(str, getattr(error, "__notes__", ()))))
    parts = [_shortened("\n".join(lines), _ERROR_LENGTH, 0)]
    parts += [_shortened(notes, _NOTES_LENGTH, _NOTES_LENGTH // 2)] if notes else []
    return "\n".join(parts).encode(errors="replace").decode()  # storable, whatever it quotes


def _said(text: Callable[[], str]) -> str:
    """What an exception says of itself, unless that raises another."""
    try:
        return text()
    except BaseException as error:
        return f"(it cannot be told: {type(error).__name__})"


def _shortened(text: str, length: int, end: int) -> str:
    """A text of at most this length, of which `end` are its last characters."""
    if len(text) <= length:
        return text
    return f"{text[: length - 3 - end]}...{text[len(text) - end :]}"


# --- In the worker -------------------------------------------------------------------------------


def serve(connection: Connection, pickled_work: bytes, threads: int, own_group: bool) -> None:
    """The life of a worker: tasks one at a time until None, or until its owner is gone."""
    if own_group:
        os.setpgid(0, 0)
        current_process().daemon = False  # what it starts ends with its group
        guard_group()
    _leave_interrupts_to_the_owner()
    _die_with_the_owner()
    with suppress(EOFError, OSError):  # the owner has gone
        try:
            work = pickle.loads(pickled_work)
        except Exception as error:
            connection.send(Ready(_in_words(error).splitlines()[0]))
            return
        connection.send(Ready())
        while (task := connection.recv()) is not None:
            use_threads(threads)
            outcome = perform(work, task, connection.send)
            connection.send(outcome)


def _leave_interrupts_to_the_owner() -> None:
    """Ctrl-C reaches every process of a terminal; the owner stops its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # blocked since `_interrupts_held`
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _die_with_the_owner() -> None:
    owner = parent_process()
    assert owner is not None
    if sys.platform == "linux":  # at once, even where a cell holds Python's lock
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)

    def watch() -> None:
        wait([owner.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# --- In its owner --------------------------------------------------------------------------------


class Worker:
    """A worker as its owner sees it.

    With `own_group` it and all that it starts are one process group, which ends with it, and
    with its owner. A process that starts a session or a group of its own has left it.
    """

    def __init__(self, pickled_work: bytes, threads: int, *, own_group: bool = False) -> None:
        self.ready = False
        self.task: Task | None = None
        self.point: str | None = None  # of its last task, for which it may keep things
        self.started = ""
        self._clock = 0.0
        self._own_group = own_group and hasattr(os, "killpg")
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, pickled_work, threads, self._own_group), daemon=True
        )
        try:
            with _threads_in_environment(threads), _interrupts_held():
                self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()  # so that the worker's end is the only one, and its death is seen

    @property
    def seconds(self) -> float:
        """How long it has had its task."""
        return time.monotonic() - self._clock

    def give(self, task: Task) -> None:
        """Hand over a task; a worker that is dead already is noticed later, by `messages`."""
        self.task, self.point = task, task.point
        self.started, self._clock = now(), time.monotonic()
        with suppress(OSError):
            self.connection.send(task)

    def messages(self) -> Iterator[Message]:
        """What it has said since."""
        with suppress(EOFError, OSError):  # it is dead
            while self.connection.poll():
                yield self.connection.recv()

    @property
    def exit_code(self) -> int | None:
        """None while it lives."""
        return self.process.exitcode

    def stop(self, *, at_once: bool) -> None:
        """End it, after its last message or at once."""
        if at_once:
            self.process.terminate()
            self._end_group()
        else:
            with suppress(OSError):
                self.connection.send(None)
        self.connection.close()

    def bury(self, *, patience: float) -> None:
        """Wait for its end, and force it if it does not come."""
        if self._own_group:  # what it left behind may hold what `join` would wait for
            end = time.monotonic() + patience
            while self.process.exitcode is None and time.monotonic() < end:
                time.sleep(_POLL)
            self._end_group()
        else:
            self.process.join(patience)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.process.close()

    def _end_group(self) -> None:
        pid = self.process.pid
        if self._own_group and pid is not None:
            with suppress(ProcessLookupError, PermissionError):  # none is left, or none was made
                os.killpg(pid, signal.SIGKILL)


def pickled(work: Work) -> bytes:
    """The work as it is sent to workers."""
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        raise KoriskError(
            f"work must be a function that other processes can import, got {shown(work)}; "
            "define it at the top of a module, or use workers=0"
        ) from None


@contextmanager
def _threads_in_environment(threads: int) -> Iterator[None]:
    """What the numeric libraries of a new process read when they are loaded."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C back for a moment: a new process inherits that, until it can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
