"""How the command line runs the cells of a study: what the options mean, and the run itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from korisk import _checks
from korisk._json import JsonDict
from korisk.cli.common.output import tell, warnings_as_lines
from korisk.errors import KoriskError
from korisk.files import make_folder, read_yaml, write_text
from korisk.store.cells import Task
from korisk.store.store import Failure, FlatRow, Store, store_to_write
from korisk.studies.run.clusters import job_script
from korisk.studies.run.compute import Compute, chosen_device, expected_seconds, groups, opened
from korisk.studies.run.engine import Event, Summary, run_study
from korisk.studies.run.progress import Pace, event_line, progress

FAILED_CELLS = 1  # exit code where some cells failed and the rest is stored


@dataclass(frozen=True)
class Outcome:
    """What a run did, and what the store then holds of the cells that were asked for."""

    counts: JsonDict  # cells done, failed, skipped; seconds
    rows: list[FlatRow]
    failures: list[Failure]
    page: Path | None  # if one was written


def chosen_compute(
    cluster: str | None = None,
    cluster_options: Path | None = None,
    *,
    workers: int | None = None,
    device: str = "auto",
) -> Compute:
    """Where cells run, with the options of jobs from a file."""
    options = {} if cluster_options is None else read_yaml(cluster_options)
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise KoriskError(f"{cluster_options}: must be keys and values, such as cores: 4")
    try:
        compute = Compute(cluster=cluster, options=options, workers=workers, device=device)
        if compute.batch is not None:
            job_script(compute.batch, options)
    except KoriskError as error:
        if cluster_options is None or not str(error).startswith("the options of"):
            raise
        raise type(error)(f"{cluster_options}: ", error.message) from None
    return compute


def run_tasks(
    tasks: Sequence[Task],
    study: JsonDict,
    out: Path,
    *,
    compute: Compute,
    retry: bool,
    wait: float,
    quiet: bool,
    page: bool = False,
    live: bool = False,
    port: int | None = None,
) -> Outcome:
    """Run what the store in `out` lacks; a refused run leaves no empty folder or store behind."""
    _checks.real("--wait", wait, at_least=0, remedy="give seconds")
    if port is not None and not live:
        raise KoriskError(f"--port {port} is of the page that --live serves; add --live")
    device = chosen_device("cpu" if compute.elsewhere else compute.device)  # PyTorch is installed
    from korisk.studies.run.cells import cell_work

    if page or live:  # which says so where something is missing
        from korisk.report.contents import read_contents
        from korisk.report.live import live_page
        from korisk.report.local import LocalPort
        from korisk.report.page.study import study_page
    asked = compute if compute.elsewhere else replace(compute, device=device)
    path = store_to_write(out)
    drawn = path.with_name("report.html")
    had_folder, had_store = path.parent.exists(), path.exists()
    make_folder(path.parent)
    keys = {task.key for task in tasks}

    def print_line(event: Event) -> None:  # for logs; failures are listed at the end anyway
        if event.kind in {"retried", "waiting"}:
            tell(event_line(event))

    parts: list[Summary] = []
    try:
        open_store = warnings_as_lines()(Store.create_or_open)
        with (
            LocalPort(True if port is None else port) if live else nullcontext() as served,
            open_store(path, study, tasks=tasks, wait=wait) as store,
        ):
            try:
                missing = store.missing(tasks)
                pace = Pace(
                    [task for task in missing if retry or not store.failed(task)],
                    seconds=expected_seconds(store, tasks, asked.device_kind()),
                    skipped=len(tasks) - len(missing),
                )
                with (
                    live_page(served, path, pace, page=drawn) if served else nullcontext() as told,
                    progress(pace, quiet=quiet, watches=[told], lines=print_line) as watch,
                ):
                    for group, processes, threads in groups(tasks, asked):
                        todo = store.missing(group)
                        idle = all(store.failed(task) and not retry for task in todo)
                        place = Compute(device="cpu") if idle else asked  # starts nothing for it
                        workers = processes if compute.workers is None else compute.workers
                        many = max(1, processes)
                        with opened(place, processes=many, threads=threads) as (cluster, device):
                            done = run_study(
                                group,
                                cell_work(group, device=device),
                                store,
                                workers=workers,
                                threads=threads,
                                cluster=cluster,
                                retry_failed=retry,
                                watch=watch,
                            )
                        parts.append(done)
            except KeyboardInterrupt:
                count = len(tasks) - len(store.missing(tasks))
                kept = f"{count} of {len(tasks)} cells are kept in {path}"
                with suppress(OSError):  # of a terminal that was closed
                    tell(f"{kept}; the same command goes on from there")
                raise
            except KoriskError:
                if not had_store and not store.failures() and not list(store.results()):
                    path.unlink(missing_ok=True)  # empty, and its lock is still ours
                raise
            rows = [row for row in store.rows() if row.task.key in keys]
            failures = [failure for failure in store.failures() if failure.task.key in keys]
    except KoriskError:
        if not had_folder:
            with suppress(OSError):  # not empty: another process uses it
                path.parent.rmdir()
        raise
    if page and not live and rows:
        with Console(stderr=True, quiet=quiet).status("drawing the page") as status:
            html = study_page(read_contents(path), watch=lambda what: status.update(Text(what)))
            write_text(drawn, html)
    counts = {
        "done": sum(part.done for part in parts),
        "failed": len(failures),
        "skipped": sum(part.skipped for part in parts),
        "seconds": sum(part.seconds for part in parts),
    }
    return Outcome(counts, rows, failures, drawn if (page or live) and drawn.exists() else None)


def report_failures(outcome: Outcome) -> None:
    """List failed cells on stderr, and exit with the code for them."""
    for failure in outcome.failures:
        tell(f"{failure.task.key} failed: {failure.reason}")
    if outcome.failures:
        tell("the rest is stored; run again with --retry-failed")
        raise typer.Exit(FAILED_CELLS)
