"""What a cell cost, and where it ran: time, memory, machine, versions."""

import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from korisk._version import __version__


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The cost of one cell. None is what nobody could measure, as of a worker that died."""

    started: str  # ISO 8601, UTC
    seconds: float
    cpu_seconds: float | None = None  # of all threads of the process
    peak_memory: int | None = None  # bytes, of the process while the cell ran
    device_memory: int | None = None  # bytes, where CUDA was used
    attempts: int = 1
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


class Meter:
    """Measures a cell in this process, from its making to `read`."""

    def __init__(self) -> None:
        self.started = now()
        self._own_peak = _forget_peak()
        cuda = _cuda()
        if cuda is not None:
            for device in range(cuda.device_count()):
                cuda.reset_peak_memory_stats(device)
        self._cpu = time.process_time()
        self._wall = time.perf_counter()

    def read(self) -> Usage:
        """The cost until now."""
        seconds = time.perf_counter() - self._wall
        cpu = time.process_time() - self._cpu
        cuda = _cuda()
        return Usage(
            started=self.started,
            seconds=seconds,
            cpu_seconds=cpu,
            peak_memory=_peak() if self._own_peak else _largest_ever(),
            device_memory=_device_peak(cuda) if cuda is not None else None,
            machine=machine(),
            versions=versions(),
        )


def now() -> str:
    """The time as it is stored: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def machine() -> Mapping[str, Any]:
    """What the machine is, without saying which one."""
    return {"platform": platform.platform(), "processor": _processor(), "cores": cores()}


@cache
def versions() -> Mapping[str, str]:
    """The versions of what the numbers come from, as far as it is installed."""
    found = {"python": platform.python_version(), "korisk": __version__}
    for name in ("numpy", "scipy", "torch"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# --- Memory --------------------------------------------------------------------------------------


def _forget_peak() -> bool:
    """Have Linux count the peak anew, so that it is the cell's own; whether it did."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak() -> int | None:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return _largest_ever()


def _largest_ever() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def _cuda() -> Any:
    """PyTorch's CUDA where a cell uses it; nothing is imported and no device is woken for it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _device_peak(cuda: Any) -> int:
    return sum(cuda.max_memory_allocated(device) for device in range(cuda.device_count()))
