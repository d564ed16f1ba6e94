"""Where a run stands and when it will end, and a display of that on stderr if it is a terminal."""

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
_SETTLE = 15.0  # seconds in which a new estimate of the end takes effect, at least,
_SETTLE_PART = 0.25  # or this part of the time left: a long run has time to be sure


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a run stands at one moment."""

    done: int
    failed: int
    skipped: int  # done before the run
    total: int  # of this run, as far as is known
    running: tuple[str, ...]  # keys of cells
    share: float  # of the run, from 0 to 1
    left: float | None  # seconds, smoothed, without cells of unknown time; None if all are such
    untimed: int  # those cells: none of their point has ended, nor told how far it is
    next: float | None  # seconds until the next cell ends, if known


@dataclass(frozen=True)
class _Running:
    point: str
    begun: float
    fraction: float
    told: float  # when the fraction was told


class Pace:
    """Counts the events of a run, or of several after one another, and estimates the time left.

    A cell takes as long as others of its point, in this run or else in earlier ones (`seconds`, by
    point); a running cell of a new point as long as its own report of progress says. The end that
    is told moves toward a new estimate little by little, so that the time left does not jump with
    every cell; it starts anew where cells were added or came to have a time. One thread may note
    events while others ask.
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
        self._more = 0  # queued cells that were not announced
        self._point = ""  # of these
        self._running: dict[str, _Running] = {}
        self._width = 1  # cells that ran at a time
        self._took: dict[str, list[float]] = {}
        self._earlier = {point: [each] for point, each in (seconds or {}).items()}
        self._counts = {"done": 0, "failed": 0}
        self._before = dict(self._counts)  # of runs that have ended
        self._skipped = skipped
        self._unit = unit
        self._clock = clock
        self._end: float | None = None  # of the run, as it was told last,
        self._end_told = 0.0  # when that was,
        self._end_of = (0, 0)  # and of how many cells: all, and those without a time
        self._lock = threading.Lock()

    def note(self, event: Event) -> None:
        """Take an event into account."""
        key, point, now = event.task.key, event.task.point, self._clock()
        with self._lock:
            if event.kind != "waiting":
                self._queued.pop(key, None)
            if event.kind in {"started", "progress"}:
                begun = self._running[key].begun if key in self._running else now
                alone = not self._running
                self._running[key] = _Running(point, begun, event.fraction, now)
                self._width = 1 if alone else max(self._width, len(self._running))
            elif event.kind != "waiting":
                cell = self._running.pop(key, None)
                if event.kind == "done" and cell is not None:
                    self._took.setdefault(point, []).append(now - cell.begun)
                if event.kind == "retried":
                    self._queued[key] = point
            now_over = {"done": event.done, "failed": event.failed}
            self._counts = {name: self._before[name] + now_over[name] for name in now_over}
            over = event.done + event.failed
            waiting = event.total - over - len(self._running)
            self._more, self._point = max(0, waiting - len(self._queued)), point
            if over == event.total:
                self._before = self._counts

    def standing(self) -> Standing:
        """Where the run stands now."""
        with self._lock:
            now = self._clock()
            rests = [
                max(0.0, cell.begun + whole - now)
                for cell in self._running.values()
                if (whole := self._seconds(cell.point)) is not None
            ]
            points = [*self._queued.values(), *[self._point] * self._more]
            queued = [took for took in map(self._seconds, points) if took is not None]
            left = max([sum(rests + queued) / self._width, *rests]) if rests or queued else None
            over = sum(self._counts.values())
            total = over + len(self._running) + len(self._queued) + self._more
            part = over + sum(cell.fraction for cell in self._running.values())
            untimed = total - over - len(rests) - len(queued)
            return Standing(
                **self._counts,
                skipped=self._skipped,
                total=total,
                running=tuple(self._running),
                share=part / total if total else 0.0,
                left=0.0 if over == total > 0 else self._smooth(now, left, (total, untimed)),
                untimed=untimed,
                next=min(rests, default=None),
            )

    def _smooth(self, now: float, left: float | None, cells: tuple[int, int]) -> float | None:
        """The time left that is told, of a new estimate."""
        if left is None or self._end is None or cells != self._end_of:
            self._end = None if left is None else now + left
        else:
            settle = max(_SETTLE, _SETTLE_PART * left)
            self._end += (1 - math.exp((self._end_told - now) / settle)) * (now + left - self._end)
        self._end_told, self._end_of = now, cells
        return None if self._end is None else max(self._end - now, 0.0)

    def _seconds(self, point: str) -> float | None:
        """What a cell of a point takes, if known: as others did, or as running ones tell."""
        running = (each for each in self._running.values() if each.point == point)
        told = [(each.told - each.begun) / each.fraction for each in running if each.fraction]
        own = self._took.get(point) or self._earlier.get(point) or told
        return fmean(own) if own else None

    def __str__(self) -> str:
        """As in `3 of 30 cells, 1 failed, about 0:02:10 left (until 14:32)`."""
        now = self.standing()
        if not now.total:
            return "starting"
        parts = [f"{now.done + now.failed} of {now.total} {self._unit}"]
        parts += [f"{now.failed} failed"] if now.failed else []
        parts += [f"{now.skipped} already done"] if now.skipped else []
        if now.left:
            about, end = ("at least", "not before") if now.untimed else ("about", "until")
            time_left = timedelta(seconds=round(now.left))
            parts.append(f"{about} {time_left} left ({end} {clock_time(now.left)})")
        elif now.untimed:
            parts.append("time left not known yet")
        return ", ".join(parts)


def clock_time(seconds: float) -> str:
    """The local time in so many seconds, with its date if that is another day."""
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
    """What to pass as `watch` to `run_study`: it keeps `pace`, shows it, and calls `watches`.

    It is shown in a terminal alone; elsewhere `lines` is called instead. `quiet` shows nothing.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
    from rich.text import Text

    pace, watches = Pace() if pace is None else pace, list(watches)
    console = Console(file=sys.stderr)  # this one, also while the output of a fit is redirected
    if quiet or not console.is_terminal:
        told = [pace.note, *([lines] if lines and not quiet else []), *watches]

        def tell(event: Event) -> None:
            for watch in told:
                if watch is not None:
                    watch(event)

        yield tell
        return
    columns = (
        TextColumn("{task.fields[line]}", markup=False),
        BarColumn(bar_width=_BAR),
        TimeElapsedColumn(),
    )
    settings = {"redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=console, transient=True, **settings) as shown:  # type: ignore[arg-type]
        whole = shown.add_task("", total=None, line=pace)  # which is made anew at every look
        running: dict[str, TaskID] = {}

        def show(event: Event) -> None:
            pace.note(event)
            key = event.task.key
            if event.kind in {"started", "progress"}:
                if key not in running:
                    visible = len(running) < _MAX_SHOWN
                    running[key] = shown.add_task("", total=1.0, visible=visible, line=key)
                shown.update(running[key], completed=event.fraction)
            elif event.kind != "waiting" and key in running:
                shown.remove_task(running.pop(key))
            shown.update(whole, completed=pace.standing().share, total=1.0)
            if event.kind in {"failed", "retried", "waiting"}:
                shown.console.print(Text(event_line(event)))
            for watch in watches:
                if watch is not None:
                    watch(event)

        yield show


def event_line(event: Event) -> str:
    """A failure, a retry or a wait as one line."""
    why = (event.words.splitlines() or [""])[0]
    return why if event.kind == "waiting" else f"{event.task.key}: {event.kind}: {why}"
