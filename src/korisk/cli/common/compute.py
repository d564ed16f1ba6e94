"""Run the cells of a study from the command line: its options, and the run itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from korisk import _checks
from korisk._json import JsonDict
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.cli.common.options import Running
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
from korisk.studies.run.engine import Compute, Event, Summary, run_study
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
    """Run the missing cells of a store in `out`; a refused run leaves no empty store or folder."""
    page, retry = running.page, running.retry_failed
    _checks.real("--wait", running.wait, at_least=0, remedy="give seconds")
    compute = Compute(workers=running.workers, retry_failed=retry)
    kind = device_kind(running.device, scheduler)
    # Raises if PyTorch lacks the device; on a cluster, the workers choose theirs.
    place = chosen_device(running.device) if scheduler is None else running.device
    from korisk.studies.run.cells import cell_work

    # Imported before the run: a missing matplotlib should fail first.
    if page:
        from korisk.report.contents import read_contents
        from korisk.report.page.study import study_page
    path = store_to_write(out)
    html = path.with_name("report.html")
    had_folder, had_store = path.parent.exists(), path.exists()
    make_folder(path.parent)
    keys = {task.key for task in tasks}

    def print_line(event: Event) -> None:
        # Only what logs should show at once: failures are listed at the end.
        if event.kind in {"retried", "waiting"}:
            tell(event_line(event))

    summaries: list[Summary] = []  # of each group of cells
    try:
        open_store = warnings_as_lines()(Store.create_or_open)
        with open_store(path, study, tasks=tasks, wait=running.wait) as store:
            try:
                todo = store.missing(tasks, failed=retry)
                pace = Pace(
                    todo,
                    seconds=expected_seconds(store, tasks, kind),
                    skipped=len(tasks) - len(store.missing(tasks)),
                )
                todo_keys = {task.key for task in todo}
                with progress(pace, quiet=quiet, lines=print_line) as watch:
                    # Cells that need the same number of processes, and of threads in each.
                    for group, processes, threads in groups(tasks, place, scheduler):
                        # A group without work needs no scheduler.
                        has_work = any(task.key in todo_keys for task in group)
                        workers = processes if running.workers is None else running.workers
                        with opened(scheduler if has_work else None, place) as (cluster, device):
                            how = replace(
                                compute, workers=workers, threads=threads, cluster=cluster
                            )
                            work = cell_work(group, device=device)
                            summary = run_study(group, work, store, compute=how, watch=watch)
                        summaries.append(summary)
            except KeyboardInterrupt:
                count = len(tasks) - len(store.missing(tasks))
                finished = f"{count} of {len(tasks)} cells are kept in {path}"
                with suppress(OSError):  # the terminal may be closed
                    tell(f"{finished}; the same command continues from there")
                raise
            except KoriskError:
                if not had_store and not store.failures() and not list(store.results()):
                    path.unlink(missing_ok=True)  # safe: this run holds the lock
                raise
            rows = [row for row in store.rows() if row.task.key in keys]
            failures = [failure for failure in store.failures() if failure.task.key in keys]
    except KoriskError:
        if not had_folder:
            with suppress(OSError):  # fails if another process has put something there
                path.parent.rmdir()
        raise
    if page and rows:
        with Console(stderr=True, quiet=quiet).status("drawing the page") as status:
            text = study_page(read_contents(path), watch=lambda step: status.update(Text(step)))
            write_text(html, text)
    counts = {
        "done": sum(summary.done for summary in summaries),
        "failed": len(failures),
        "skipped": sum(summary.skipped for summary in summaries),
        "seconds": sum(summary.seconds for summary in summaries),
    }
    return Outcome(counts, rows, failures, html if page and html.exists() else None)


def report_failures(outcome: Outcome) -> None:
    """List failed cells on stderr, and exit with the code for them."""
    for failure in outcome.failures:
        tell(f"{failure.task.key} failed: {failure.reason}")
    if outcome.failures:
        tell("the rest is stored; run again with --retry-failed")
        raise typer.Exit(FAILED_CELLS)
