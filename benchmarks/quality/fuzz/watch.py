"""One file given to one reader, watched: how it ended, how long it took and how much memory."""

import resource
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.quality.fuzz.readers import Reader, refusal

MEMORY = 2**30  # bytes that a reader may take beyond what its process has
SECONDS = 10.0  # of a file, of the processor
_NEAR = 0.8  # of that memory: what took so much was at the limit
_SHORT = ("cannot allocate", "can't allocate", "unable to allocate", "not enough memory")

Outcome = Literal["accepted", "refused", "crash", "hang", "memory"]


class OutOfTimeError(BaseException):
    """Time is over; no `Exception`, so that no reader makes a refusal of it."""


class Trial(NamedTuple):
    """What became of a file."""

    outcome: Outcome
    seconds: float  # of the processor
    memory: int  # bytes
    fault: str  # what to say of one that was neither read nor refused


def tried(reader: Reader, path: Path, *, seconds: float = SECONDS, memory: int = MEMORY) -> Trial:
    """Read a file; a hang or a lack of memory is one, whatever the reader made of it."""
    before, begun = _fresh_peak(), time.process_time()
    outcome: Outcome = "crash"
    fault = ""
    with _alarm(seconds) as rung:
        try:
            refused = refusal(reader, path)
            outcome = "accepted" if refused is None else "refused"
            if refused is not None and lacked_memory(refused):
                outcome, fault = "memory", f"memory: taken for a fault of the file: {refused}"
        except OutOfTimeError:
            pass
        except Exception as error:
            outcome, fault = "crash", traceback.format_exc()
            if lacked_memory(error):
                outcome = "memory"
    took, peak = time.process_time() - begun, max(0, status("VmHWM") - before)
    if rung:
        outcome, fault = "hang", f"hang: more than {seconds:g} s of the processor"
    elif not fault and peak > _NEAR * memory:
        outcome, fault = "memory", f"memory: {peak / 2**20:,.0f} MiB"
    return Trial(outcome, took, peak, fault)


@contextmanager
def _alarm(seconds: float) -> Iterator[list[bool]]:
    """Raise once the time is over; the list then holds something, also if nobody heard."""
    rung: list[bool] = []

    def ring(number: int, frame: object) -> None:
        rung.append(True)
        raise OutOfTimeError

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield rung
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def lacked_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was made of, says that memory ran out."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        said = str(each).lower()  # PyTorch and HDF5 have no error of their own for it
        if isinstance(each, MemoryError) or any(words in said for words in _SHORT):
            return True
        waiting += [each.__cause__, each.__context__]
    return False


def limit_memory(memory: int = MEMORY) -> None:
    """Let this process take so many bytes more than it has."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (status("VmData") + memory, hard))


def _fresh_peak() -> int:
    with suppress(OSError):  # not every kernel has it; the peak is then an upper bound
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    return status("VmRSS")


def status(name: str) -> int:
    """Bytes of this process, as Linux counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return 0
