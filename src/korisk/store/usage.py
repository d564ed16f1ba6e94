"""Resources of a cell: time, memory, machine, versions."""

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

from korisk._json import JsonMapping
from korisk._version import __version__


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Time and memory of one cell; None where it could not be measured, as for a dead worker."""

    started: str  # ISO 8601, UTC
    seconds: float
    cpu_seconds: float | None = None  # of all threads of the process
    peak_memory: int | None = None  # bytes, of the process while the cell ran
    device_memory: int | None = None  # bytes, where CUDA was used
    attempts: int = 1
    machine: JsonMapping = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


class Meter:
    """Measure a cell in this process, from the creation of the meter to `read`."""

    def __init__(self) -> None:
        self.started = now()
        # On Linux this resets the peak, which then belongs to this cell alone (see proc(5)).
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        if (cuda := _cuda()) is not None:
            for device in range(cuda.device_count()):
                cuda.reset_peak_memory_stats(device)
        self._cpu = time.process_time()
        self._wall = time.perf_counter()

    def read(self) -> Usage:
        """Return the usage since the meter was created."""
        cuda, device_memory = _cuda(), None
        if cuda is not None:
            devices = range(cuda.device_count())
            device_memory = sum(cuda.max_memory_allocated(device) for device in devices)
        return Usage(
            started=self.started,
            seconds=time.perf_counter() - self._wall,
            cpu_seconds=time.process_time() - self._cpu,
            peak_memory=self._peak(),
            device_memory=device_memory,
            machine=machine(),
            versions=versions(),
        )

    def _peak(self) -> int | None:
        """Peak memory of the cell or, where it cannot be reset, of the whole process."""
        if peak := _line_of("/proc/self/status", "VmHWM:"):
            return int(peak.split()[0]) * 1024
        if sys.platform == "win32":
            return None
        import resource

        # macOS counts bytes, other systems KiB.
        max_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return max_rss if sys.platform == "darwin" else max_rss * 1024


def now() -> str:
    """Current time in the stored form: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def machine() -> JsonMapping:
    """Platform, processor and cores of this machine, without its host name."""
    model = _line_of("/proc/cpuinfo", "model name")
    processor = model.lstrip("\t :") if model else platform.processor() or platform.machine()
    return {"platform": platform.platform(), "processor": processor, "cores": cores()}


@cache
def versions() -> Mapping[str, str]:
    """Versions of Python, korisk and the numeric libraries that are installed."""
    versions_by_name = {"python": platform.python_version(), "korisk": __version__}
    for name in ("numpy", "scipy", "torch"):
        with suppress(metadata.PackageNotFoundError):
            versions_by_name[name] = metadata.version(name)
    return versions_by_name


def _line_of(path: str, start: str) -> str | None:
    """Rest of the first line that begins with `start` in a file of the Linux kernel."""
    with suppress(OSError):
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith(start):
                return line.removeprefix(start).strip()
    return None


def _cuda() -> Any:
    """Return `torch.cuda` if it is in use; import nothing, initialise no device."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None
