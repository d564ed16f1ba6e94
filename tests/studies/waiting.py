"""What tests of engines share: what a run did and stored, and waiting for something to happen."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from korisk.store.store import Store
from korisk.studies.run.engine import Summary


def counts(summary: Summary) -> tuple[int, int, int]:
    """Cells that were done, failed and were there before."""
    return summary.done, summary.failed, summary.skipped


def contents(store: Store, *, seconds: bool = True) -> dict[str, Any]:
    """All that a store holds of its cells, to the bit."""

    def plain(row: Any) -> Any:  # times of fits stand among a row's details
        kept = {k: v for k, v in row.detail.items() if seconds or "seconds" not in k}
        return row.model, row.n, row.metrics, kept

    return {
        found.task.key: (
            found.task.spec,
            [plain(row) for row in found.rows],
            found.detail,
            {
                name: (array.dtype, array.shape, array.tobytes())
                for name, array in store.arrays(found.task.key).items()
            },
        )
        for found in store.results()
    }


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
