"""A live display of a run on stderr, where that is a terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from korisk.studies.run.events import Event, Watch

_MAX_SHOWN = 8  # running cells
_BAR = 24  # characters


@contextmanager
def progress(
    *, quiet: bool = False, watch: Watch | None = None, lines: Watch | None = None, unit: str
) -> Iterator[Watch | None]:
    """What to pass as `watch` to `run_study`: a display that also calls the user's `watch`.

    Without a terminal it is `watch` alone, or else `lines`. `unit` names what runs, such as
    "cells". The estimated time follows from finished and running cells.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
    from rich.text import Text

    console = Console(file=sys.stderr)  # this one, also while the output of a fit is redirected
    if quiet or not console.is_terminal:
        yield watch if quiet or watch is not None else lines
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_BAR),
        TimeElapsedColumn(),
    )
    settings = {"redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=console, transient=True, **settings) as shown:  # type: ignore[arg-type]
        whole = shown.add_task("starting", total=None)
        running: dict[str, tuple[TaskID, float]] = {}
        before = 0  # finished in earlier rounds
        begun = time.monotonic()

        def show(event: Event) -> None:
            nonlocal before, begun
            key, over = event.task.key, event.done + event.failed
            if event.kind == "started" and not running and not over:
                begun = time.monotonic()
            if event.kind in {"started", "progress"}:
                if key not in running:
                    visible = len(running) < _MAX_SHOWN
                    running[key] = (shown.add_task(key, total=1.0, visible=visible), 0.0)
                running[key] = (running[key][0], event.fraction)
                shown.update(running[key][0], completed=event.fraction)
            elif event.kind != "waiting" and key in running:
                shown.remove_task(running.pop(key)[0])
            share = over + sum(fraction for _, fraction in running.values())
            parts = [f"{before + over} of {before + event.total} {unit}"]
            parts += [f"{event.failed} failed"] if event.failed else []
            parts += [f"{event.skipped} already done"] if event.skipped else []
            if share > 0:
                left = (time.monotonic() - begun) * (event.total - share) / share
                parts.append(f"about {timedelta(seconds=round(left))} left")
            shown.update(whole, description=", ".join(parts), completed=share, total=event.total)
            if event.kind in {"failed", "retried", "waiting"}:
                shown.console.print(Text(event_line(event)))
            if over == event.total:
                before += over
            if watch is not None:
                watch(event)

        yield show


def event_line(event: Event) -> str:
    """A failure, a retry or a wait as one line."""
    why = (event.words.splitlines() or [""])[0]
    return why if event.kind == "waiting" else f"{event.task.key}: {event.kind}: {why}"
