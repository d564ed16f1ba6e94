"""What tests of engines share: counts of a run, and waiting for something to happen."""

import time
from collections.abc import Callable

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
