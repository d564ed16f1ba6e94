"""Progress of a run as one line on stderr, if that is a terminal, with an estimate of its end."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from statistics import fmean

from korisk.store.cells import Task
from korisk.studies.run.events import Event, Watch


class Pace:
    """Counts the events of one run, or of several in a row, and estimates the time left.

    A cell is expected to take as long as others of its point, in this run or else in earlier ones
    (`seconds`, by point); for a new point its progress is extrapolated.
    """

    def __init__(
        self,
        tasks: Iterable[Task] = (),
        *,
        seconds: Mapping[str, float] | None = None,
        skipped: int = 0,
        unit: str = "cells",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._points = {task.key: task.point for task in tasks}  # of cells that have not ended
        self._begun: dict[str, float] = {}  # times, of running cells
        self._width = 1  # cells that ran at a time
        self._took: dict[str, list[float]] = {}  # seconds, by point
        self._expected = dict(seconds or {})
        self._ended, self._failed, self._skipped = 0, 0, skipped
        self._unannounced = 0  # cells that a pilot adds as it grows
        self._unit, self._clock = unit, clock

    def note(self, event: Event) -> None:
        """Take an event into account."""
        key, point, now = event.task.key, event.task.point, self._clock()
        if event.kind in {"started", "progress"}:
            self._points[key] = point
            begun = self._begun.setdefault(key, now)
            # Runs with other numbers of workers may follow: a cell that runs alone resets.
            self._width = max(self._width, len(self._begun)) if len(self._begun) > 1 else 1
            if event.fraction and point not in self._took:
                self._expected[point] = (now - begun) / event.fraction
        elif event.kind != "waiting":
            begun = self._begun.pop(key, now)
            if event.kind == "done":
                self._took.setdefault(point, []).append(now - begun)
            if event.kind != "retried":
                self._points.pop(key, None)
                self._ended += 1
                self._failed += event.kind == "failed"
        left = event.total - event.done - event.failed
        self._unannounced = max(0, left - len(self._points))

    def left(self) -> tuple[float, int]:
        """Seconds left of cells of known time, and the number of the others."""
        means = self._expected | {point: fmean(took) for point, took in self._took.items()}
        now, seconds = self._clock(), []
        for key, point in self._points.items():
            if point in means:
                seconds.append(max(0.0, means[point] - (now - self._begun.get(key, now))))
        untimed = len(self._points) - len(seconds) + self._unannounced
        # Cells share the workers evenly; but no run ends before its longest cell.
        return max([sum(seconds) / self._width, *seconds]), untimed

    def __str__(self) -> str:
        """As in `3 of 30 cells, 1 failed, about 0:02:10 left (until 14:32)`."""
        total = self._ended + len(self._points) + self._unannounced
        if not total:
            return "starting"
        parts = [f"{self._ended} of {total} {self._unit}"]
        parts += [f"{self._failed} failed"] if self._failed else []
        parts += [f"{self._skipped} already done"] if self._skipped else []
        seconds, untimed = self.left()
        if seconds:
            qualifier, end = ("at least", "not before") if untimed else ("about", "until")
            now, time_left = datetime.now(), timedelta(seconds=round(seconds))
            then = f"{now + time_left:{'%H:%M' if time_left.days == 0 else '%a %d %b, %H:%M'}}"
            parts.append(f"{qualifier} {time_left} left ({end} {then})")
        elif untimed:
            parts.append("time left not known yet")
        return ", ".join(parts)


@contextmanager
def progress(
    pace: Pace, *, quiet: bool = False, lines: Watch | None = None
) -> Iterator[Watch | None]:
    """A `watch` for `run_study` that shows `pace` as one line while cells run.

    The display needs a terminal; elsewhere `lines` is the watch. `quiet` displays nothing.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    # Bound now: while a cell runs, `sys.stderr` may be redirected.
    console = Console(file=sys.stderr)
    if quiet or not console.is_terminal:
        yield None if quiet else lines
        return
    line = Spinner("line", text=Text(str(pace)))
    # What cells print appears above the line; a file that stdout is written to still gets it.
    with Live(line, console=console, transient=True, redirect_stdout=sys.stdout.isatty()):
        next_drawing = 0.0

        def show(event: Event) -> None:
            nonlocal next_drawing
            pace.note(event)
            if event.kind in {"failed", "retried", "waiting"}:
                console.print(Text(event_line(event)))
            # A tenth of the time at most goes into the line, a sum over all cells that remain.
            if (begun := time.perf_counter()) >= next_drawing:
                line.update(text=Text(str(pace)))
                next_drawing = begun + 10 * (time.perf_counter() - begun)

        yield show


def event_line(event: Event) -> str:
    """A failure, a retry or a wait as one line."""
    reason = (event.words.splitlines() or [""])[0]
    return reason if event.kind == "waiting" else f"{event.task.key}: {event.kind}: {reason}"
