"""Run the cells of a study from the command line: its options, and the run itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from korisk import _checks
from korisk._json import JsonDict
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.cli.common.options import Running
from korisk.cli.common.output import working
from korisk.errors import KoriskError
from korisk.files import make_folder, write_text
from korisk.store.cells import Task
from korisk.store.store import Failure, FlatRow, Store, store_to_write
from korisk.studies.run.compute import (
    chosen_device,
    device_kind,
    expected_seconds,
    groups,
    opened,
)
from korisk.studies.run.engine import Compute, Event, run_study
from korisk.studies.run.progress import Pace, event_line, progress

FAILED_CELLS = 1  # exit code if some cells failed and the others are stored


@dataclass(frozen=True)
class Outcome:
    """Counts of a run, and the rows and failures that the store then holds for its cells."""

    counts: JsonDict  # cells done, failed, skipped; seconds
    rows: list[FlatRow]
    failures: list[Failure]
    page: Path | None  # if one was written


def run_tasks(
    tasks: Sequence[Task],
    study: JsonDict,
    out: Path,
    running: Running,
    *,
    scheduler: str | None = None,
    quiet: bool,
) -> Outcome:
    """Run the missing cells of a store in `out`, and draw its page if that is asked for."""
    compute = Compute(workers=running.workers, retry_failed=running.retry_failed)
    kind = device_kind(running.device, scheduler)
    # Raises if PyTorch lacks the device; on a cluster, the workers choose theirs.
    place = chosen_device(running.device) if scheduler is None else running.device
    from korisk.studies.run.cells import cell_work

    # Imported before the run: a missing matplotlib should fail first.
    if running.page:
        from korisk.report.contents import read_contents
        from korisk.report.page.study import study_page
    path, keys = store_to_write(out), {task.key for task in tasks}
    with _opened_store(path, study, tasks, running.wait) as store:
        begun = time.monotonic()
        todo = store.missing(tasks, failed=running.retry_failed)
        skipped = len(tasks) - len(store.missing(tasks))
        pace = Pace(todo, seconds=expected_seconds(store, tasks, kind), skipped=skipped)
        with (
            progress(pace, quiet=quiet, lines=_print_line) as watch,
            # Without work, no scheduler is needed.
            opened(scheduler if todo else None, place) as (cluster, device),
        ):
            # Cells that need the same number of processes, and of threads in each.
            for group, processes, threads in groups(tasks, place, scheduler):
                workers = processes if running.workers is None else running.workers
                how = replace(compute, workers=workers, threads=threads, cluster=cluster)
                run_study(group, cell_work(group, device=device), store, compute=how, watch=watch)
        seconds = time.monotonic() - begun
        rows = [row for row in store.rows() if row.task.key in keys]
        failures = [failure for failure in store.failures() if failure.task.key in keys]
        done = len(tasks) - len(store.missing(tasks)) - skipped
    html = path.with_name("report.html") if running.page and rows else None
    if html is not None:
        with working("drawing the page", quiet=quiet) as show_step:
            write_text(html, study_page(read_contents(path), watch=show_step))
    counts = {"done": done, "failed": len(failures), "skipped": skipped, "seconds": seconds}
    return Outcome(counts, rows, failures, html)


@contextmanager
def _opened_store(
    path: Path, study: JsonDict, tasks: Sequence[Task], wait: float
) -> Iterator[Store]:
    """Open or create a store; a refused run leaves no empty one, and no empty folder."""
    _checks.real("--wait", wait, at_least=0, remedy="give seconds")
    had_folder, had_store = path.parent.exists(), path.exists()
    make_folder(path.parent)
    open_store = warnings_as_lines()(Store.create_or_open)
    try:
        with open_store(path, study, tasks=tasks, wait=wait) as store:
            try:
                yield store
            except KeyboardInterrupt:
                count = len(tasks) - len(store.missing(tasks))
                finished = f"{count} of {len(tasks)} cells are kept in {path}"
                with suppress(OSError):  # the terminal may be closed
                    tell(f"{finished}; the same command continues from there")
                raise
            except KoriskError:
                if not had_store and not store.states(tasks):
                    path.unlink(missing_ok=True)  # safe: this run holds the lock
                raise
    except KoriskError:
        if not had_folder:
            with suppress(OSError):  # fails if another process has put something there
                path.parent.rmdir()
        raise


def _print_line(event: Event) -> None:
    # Only what logs should show at once: failures are listed at the end.
    if event.kind in {"retried", "waiting"}:
        tell(event_line(event))


def report_failures(outcome: Outcome) -> None:
    """List failed cells on stderr, and exit with the code for them."""
    for failure in outcome.failures:
        tell(f"{failure.task.key} failed: {failure.reason}")
    if outcome.failures:
        tell("the rest is stored; run again with --retry-failed")
        raise typer.Exit(FAILED_CELLS)
