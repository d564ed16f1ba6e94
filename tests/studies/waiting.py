"""What tests of engines share: counts of a run, and waiting for something to happen."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from korisk.studies.run.engine import Summary


def counts(summary: Summary) -> tuple[int, int, int]:
    """Cells that were done, failed and were there before."""
    return summary.done, summary.failed, summary.skipped


def until(condition: Callable[[], object]) -> None:
    """Go on when the condition holds, with an end to patience that a busy machine does not meet."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def group_lives(group: int) -> bool:
    """Whether any process of a group lives; a dead one may stay as a zombie."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = file.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                return True
    return False
