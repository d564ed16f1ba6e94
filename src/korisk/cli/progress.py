"""A live display of a running study on stderr, where somebody watches."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from korisk.studies.run.engine import Event, Watch

_REFRESHES = 4  # in a second
_MAX_SHOWN = 8  # running cells
_BAR = 24  # characters


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Watch | None]:
    """What to pass as `watch` to the engine: a display in a terminal, lines elsewhere, or None."""
    console = Console(stderr=True)
    if quiet:
        yield None
        return
    if not console.is_terminal:
        yield _say_what_went_wrong
        return
    board = Board()

    def watch(event: Event) -> None:
        board.take(event)
        if event.kind in {"failed", "retried", "waiting"}:
            live.console.print(Text(_line(event)))

    with Live(
        console=console,
        get_renderable=board.shown,
        refresh_per_second=_REFRESHES,
        transient=True,
        redirect_stdout=False,  # stdout may lead elsewhere
    ) as live:
        yield watch


def _say_what_went_wrong(event: Event) -> None:
    """For logs; failures are named at the end of a run anyway."""
    if event.kind in {"retried", "waiting"}:
        typer.echo(f"korisk: {_line(event)}", err=True)


def _line(event: Event) -> str:
    why = (event.words.splitlines() or [""])[0]
    return why if event.kind == "waiting" else f"{event.task.key}: {event.kind}: {why}"


class Board:
    """What a display shows: kept from events, drawn at any time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._running: dict[str, float] = {}  # fraction by key
        self._last: Event | None = None

    def take(self, event: Event) -> None:
        """Keep what an event says."""
        if event.kind in {"started", "progress"}:
            self._running[event.task.key] = event.fraction
        elif event.kind != "waiting":  # which says nothing of any cell that runs
            self._running.pop(event.task.key, None)
        self._last = event

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._begun

    @property
    def remaining(self) -> float | None:
        """Seconds to go, if cells go on as they did; None while nothing is known."""
        if self._last is None:
            return None
        over = self._last.done + self._last.failed + sum(self._running.values())
        return self.elapsed * (self._last.total - over) / over if over > 0 else None

    def shown(self) -> RenderableType:
        """The display as it is now."""
        if self._last is None:
            return Text("starting")
        return Group(self._words(self._last), self._cells())

    def _words(self, last: Event) -> Text:
        parts = [f"{last.done + last.failed} of {last.total} cells"]
        parts += [f"{last.failed} failed"] if last.failed else []
        parts += [f"{last.skipped} already done"] if last.skipped else []
        parts.append(f"{_time(self.elapsed)} elapsed")
        if self.remaining is not None:
            parts.append(f"about {_time(self.remaining)} to go")
        return Text(", ".join(parts))

    def _cells(self) -> Table:
        grid = Table.grid(padding=(0, 1))
        for key, fraction in list(self._running.items())[:_MAX_SHOWN]:
            bar = ProgressBar(total=1.0, completed=fraction, width=_BAR)
            grid.add_row(Text(key), bar, Text(f"{fraction:.0%}"))
        hidden = len(self._running) - _MAX_SHOWN
        if hidden > 0:
            grid.add_row(Text(f"and {hidden} more"))
        return grid


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
