"""Progress of a run, an estimate of its end, and a display on stderr if that is a terminal."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from korisk.store.cells import Task
from korisk.studies.run.events import Event, Watch

_MAX_SHOWN = 8  # running cells
_BAR = 24  # characters
# Time constant by which the displayed end follows a new estimate: seconds, or a share of the time
# left if that is longer, since estimates of long runs fluctuate more.
_SETTLE = 15.0
_SETTLE_PART = 0.25


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Progress of a run at one moment."""

    done: int
    failed: int
    skipped: int  # done before the run
    total: int  # of this run, as far as is known
    running: tuple[str, ...]  # keys of cells
    share: float  # of the run, from 0 to 1
    left: float | None  # seconds, smoothed, of cells whose time is known; None if there are none
    untimed: int  # cells of unknown time: no cell of their point has ended or reported progress
    next: float | None  # seconds until the next cell ends, if known


@dataclass(frozen=True)
class _Running:
    point: str
    begun: float
    fraction: float
    reported: float  # time of the fraction's report


class Pace:
    """Counts the events of one run, or of several in a row, and estimates the time left.

    A cell is expected to take as long as others of its point, in this run or else in earlier ones
    (`seconds`, by point); for a new point its progress is extrapolated. The displayed end follows
    new estimates gradually, so that the time left does not jump with every cell; it is reset when
    cells are added or get a known time. One thread may note events while others read.
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
        self._queued = {task.key: task.point for task in tasks}
        self._more = 0  # queued cells that are not in `tasks`
        self._point = ""  # their point
        self._running: dict[str, _Running] = {}
        self._width = 1  # cells that ran at a time
        self._took: dict[str, list[float]] = {}
        self._earlier = {point: [mean] for point, mean in (seconds or {}).items()}
        self._counts = {"done": 0, "failed": 0}
        self._before = dict(self._counts)  # of runs that have ended
        self._skipped = skipped
        self._unit = unit
        self._clock = clock
        self._end: float | None = None  # of the run, as displayed last
        self._end_told = 0.0  # time of that display
        self._end_of = (0, 0)  # numbers of cells then: all, and those of unknown time
        self._lock = threading.Lock()

    def note(self, event: Event) -> None:
        """Take an event into account."""
        key, point, now = event.task.key, event.task.point, self._clock()
        with self._lock:
            if event.kind != "waiting":
                self._queued.pop(key, None)
            if event.kind in {"started", "progress"}:
                begun = self._running[key].begun if key in self._running else now
                # Runs with other numbers of workers may follow: a cell that starts alone resets.
                alone = not self._running
                self._running[key] = _Running(point, begun, event.fraction, now)
                self._width = 1 if alone else max(self._width, len(self._running))
            elif event.kind != "waiting":
                cell = self._running.pop(key, None)
                if event.kind == "done" and cell is not None:
                    self._took.setdefault(point, []).append(now - cell.begun)
                if event.kind == "retried":
                    self._queued[key] = point
            ended = {"done": event.done, "failed": event.failed}
            self._counts = {name: self._before[name] + ended[name] for name in ended}
            finished = event.done + event.failed
            waiting = event.total - finished - len(self._running)
            # A pilot that grows has cells that were not announced at the start.
            self._more, self._point = max(0, waiting - len(self._queued)), point
            # A next run counts its events from zero.
            if finished == event.total:
                self._before = self._counts

    def standing(self) -> Standing:
        """Progress at this moment."""
        with self._lock:
            now = self._clock()
            remaining = [
                max(0.0, cell.begun + duration - now)
                for cell in self._running.values()
                if (duration := self._seconds(cell.point)) is not None
            ]
            points = [*self._queued.values(), *[self._point] * self._more]
            queued = [seconds for seconds in map(self._seconds, points) if seconds is not None]
            # Cells share the workers evenly; but no run ends before its longest running cell.
            ends = [sum(remaining + queued) / self._width, *remaining]
            estimate = max(ends) if remaining or queued else None
            finished = sum(self._counts.values())
            total = finished + len(self._running) + len(self._queued) + self._more
            completed = finished + sum(cell.fraction for cell in self._running.values())
            untimed = total - finished - len(remaining) - len(queued)
            over = finished == total > 0
            return Standing(
                **self._counts,
                skipped=self._skipped,
                total=total,
                running=tuple(self._running),
                share=completed / total if total else 0.0,
                left=0.0 if over else self._smooth(now, estimate, (total, untimed)),
                untimed=untimed,
                next=min(remaining, default=None),
            )

    def _smooth(self, now: float, estimate: float | None, cells: tuple[int, int]) -> float | None:
        """The time left to display, given a new estimate."""
        if estimate is None or self._end is None or cells != self._end_of:
            self._end = None if estimate is None else now + estimate
        else:
            settle = max(_SETTLE, _SETTLE_PART * estimate)
            # Exponential smoothing whose weight depends on the time since the last update.
            weight = 1 - math.exp((self._end_told - now) / settle)
            self._end += weight * (now + estimate - self._end)
        self._end_told, self._end_of = now, cells
        return None if self._end is None else max(self._end - now, 0.0)

    def _seconds(self, point: str) -> float | None:
        """Expected seconds of a cell of a point; None if unknown."""
        cells = self._running.values()
        running = (cell for cell in cells if cell.point == point and cell.fraction)
        projected = [(cell.reported - cell.begun) / cell.fraction for cell in running]
        durations = self._took.get(point) or self._earlier.get(point) or projected
        return fmean(durations) if durations else None

    def __str__(self) -> str:
        """As in `3 of 30 cells, 1 failed, about 0:02:10 left (until 14:32)`."""
        standing = self.standing()
        if not standing.total:
            return "starting"
        parts = [f"{standing.done + standing.failed} of {standing.total} {self._unit}"]
        parts += [f"{standing.failed} failed"] if standing.failed else []
        parts += [f"{standing.skipped} already done"] if standing.skipped else []
        if standing.left:
            qualifier, end = ("at least", "not before") if standing.untimed else ("about", "until")
            time_left = timedelta(seconds=round(standing.left))
            parts.append(f"{qualifier} {time_left} left ({end} {clock_time(standing.left)})")
        elif standing.untimed:
            parts.append("time left not known yet")
        return ", ".join(parts)


def clock_time(seconds: float) -> str:
    """The local time in so many seconds, with the date if it is another day."""
    now = datetime.now()
    then = now + timedelta(seconds=seconds)
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%a %d %b, %H:%M}"


@contextmanager
def progress(
    pace: Pace | None = None,
    *,
    quiet: bool = False,
    watches: Iterable[Watch | None] = (),
    lines: Watch | None = None,
) -> Iterator[Watch]:
    """A `watch` for `run_study` that updates `pace`, displays it, and calls `watches`.

    The display needs a terminal; elsewhere `lines` is called instead. `quiet` displays nothing.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
    from rich.text import Text

    pace = Pace() if pace is None else pace
    listeners = [watch for watch in watches if watch is not None]
    # Bound now: while a fit runs, `sys.stderr` may be redirected.
    console = Console(file=sys.stderr)
    if quiet or not console.is_terminal:
        listeners[:0] = [pace.note, *([lines] if lines and not quiet else [])]

        def tell(event: Event) -> None:
            for watch in listeners:
                watch(event)

        yield tell
        return
    columns = (
        TextColumn("{task.fields[line]}", markup=False),
        BarColumn(bar_width=_BAR),
        TimeElapsedColumn(),
    )
    settings = {"redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=console, transient=True, **settings) as display:  # type: ignore[arg-type]
        # `pace` is formatted at every refresh, so that the time left moves on.
        total_bar = display.add_task("", total=None, line=pace)
        running: dict[str, TaskID] = {}

        def show(event: Event) -> None:
            pace.note(event)
            key = event.task.key
            if event.kind in {"started", "progress"}:
                if key not in running:
                    visible = len(running) < _MAX_SHOWN
                    running[key] = display.add_task("", total=1.0, visible=visible, line=key)
                display.update(running[key], completed=event.fraction)
            elif event.kind != "waiting" and key in running:
                display.remove_task(running.pop(key))
            display.update(total_bar, completed=pace.standing().share, total=1.0)
            if event.kind in {"failed", "retried", "waiting"}:
                display.console.print(Text(event_line(event)))
            for watch in listeners:
                watch(event)

        yield show


def event_line(event: Event) -> str:
    """A failure, a retry or a wait as one line."""
    reason = (event.words.splitlines() or [""])[0]
    return reason if event.kind == "waiting" else f"{event.task.key}: {event.kind}: {reason}"
