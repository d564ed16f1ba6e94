"""Progress of a run as one line on stderr, if that is a terminal, with an estimate of its end."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from korisk.studies.run.events import Event, Watch


@contextmanager
def progress(
    total: int,
    *,
    skipped: int = 0,
    unit: str = "cells",
    quiet: bool = False,
    lines: Watch | None = None,
) -> Iterator[Watch | None]:
    """A `watch` for `run_study`, once or several times, that shows one line while cells run.

    The display needs a terminal; elsewhere `lines` is the watch. `quiet` displays nothing. More
    than `total` cells may follow.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    # Bound now: while a cell runs, `sys.stderr` may be redirected.
    console = Console(file=sys.stderr)
    if quiet or not console.is_terminal:
        yield None if quiet else lines
        return
    columns = SpinnerColumn("line"), TextColumn("{task.description},"), TimeRemainingColumn()
    counts = {"ended": 0, "failed": 0}
    shares: dict[str, float] = {}  # done of each running cell
    with Progress(
        *(*columns, TextColumn("left")),
        console=console,
        transient=True,
        # What cells print appears above the line; a file that stdout is written to still gets it.
        redirect_stdout=sys.stdout.isatty(),
        speed_estimate_period=math.inf,  # a single cell may take hours
    ) as display:
        line = display.add_task(f"0 of {total} {unit}", total=total)

        def show(event: Event) -> None:
            if event.kind in {"started", "progress"}:
                shares[event.task.key] = event.fraction
            elif event.kind != "waiting":
                shares.pop(event.task.key, None)
                counts["ended"] += event.kind != "retried"
                counts["failed"] += event.kind == "failed"
            if event.kind in {"failed", "retried", "waiting"}:
                console.print(Text(event_line(event)))
            announced = max(total, counts["ended"] + event.total - event.done - event.failed)
            words = [f"{counts['ended']} of {announced} {unit}"]
            words += [f"{counts['failed']} failed"] if counts["failed"] else []
            words += [f"{skipped} already done"] if skipped else []
            finished = counts["ended"] + sum(shares.values())
            text = ", ".join(words)
            display.update(line, completed=finished, total=announced, description=text)

        yield show


def event_line(event: Event) -> str:
    """A failure, a retry or a wait as one line."""
    reason = (event.words.splitlines() or [""])[0]
    return reason if event.kind == "waiting" else f"{event.task.key}: {event.kind}: {reason}"
