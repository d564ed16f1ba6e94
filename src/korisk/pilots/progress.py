"""A progress bar for a pilot, on stderr, where that is a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from korisk.studies.run.events import Event, Watch


@contextmanager
def progress_bar(*, quiet: bool, watch: Watch | None) -> Iterator[Watch | None]:
    """What to pass as `watch` to the engine: a bar, the user's own, both or none."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    console = Console(file=sys.stderr)  # this one, also while a fit's output is caught
    if quiet or not console.is_terminal:
        yield watch
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    settings = {"redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=console, transient=True, **settings) as bar:  # type: ignore[arg-type]
        line = bar.add_task("starting", total=None)
        before = 0  # fits of earlier rounds

        def show(event: Event) -> None:
            nonlocal before
            over = event.done + event.failed
            words = f"{before + over} fits, now {event.task.key}"
            bar.update(line, description=words, completed=over, total=event.total)
            if event.kind in {"failed", "retried", "waiting"}:
                why = (event.words.splitlines() or [""])[0]
                console.print(Text(f"{event.task.key}: {event.kind}: {why}"))
            if over == event.total:
                before += over
            if watch is not None:
                watch(event)

        yield show
