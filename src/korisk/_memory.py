"""Free memory, and a check that a computation fits into it."""

import os

import torch

from korisk.errors import KoriskError


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as lines:  # noqa: PTH123 (a kernel's file, not a user's)
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        # Without /proc (macOS) only the total is known; half of it is a cautious guess.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 * 2**30


def check_memory(
    needed: float, device: torch.device, what: str, remedy: str, *, share: float = 1.0
) -> None:
    """Raise if so many bytes exceed a share of the free memory of a device."""
    free = free_memory(device)
    if needed > share * free:
        free_text = f"{free / 2**30:,.1f} GiB free on {device}; "
        raise KoriskError(f"{what} needs about {needed / 2**30:,.1f} GiB, of {free_text}", remedy)
