"""`korisk run`: run a study of your own, or what is missing of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from korisk import _checks
from korisk._json import JsonDict
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.cli.common.options import Full, Json, Running
from korisk.cli.common.output import print_json, show, working
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.files import make_folder, write_text
from korisk.planning.compare import Crossing, crossing
from korisk.store.cells import Task
from korisk.store.store import Failure, FlatRow, Store, store_path, store_to_write
from korisk.studies.results import curves
from korisk.studies.run import compute as places
from korisk.studies.run.engine import Compute, Event, run_study
from korisk.studies.run.progress import event_line, progress
from korisk.studies.spec.study import Study
from korisk.texts import Table, counted, duration, number

FAILED_CELLS = 1  # exit code if some cells failed and the others are stored
_POINTS_SHOWN = 6  # without --full: more lines would push the answer off the screen


def run(
    path: Annotated[Path, "STUDY.yaml", "The study; see docs/reference/study.md."],
    *,
    out: Annotated[Path | None, "DIR", "Folder for results. [default: named as the file]"] = None,
    scheduler: Annotated[str | None, "ADDRESS", "A Dask scheduler: tcp://host:8786."] = None,
    running: Running,
    full: Full = False,
    json: Json = False,
) -> None:
    """Run a study, or what is missing of it: every finished cell is stored at once.

    It can be stopped at any time: the next run continues where this one ended.
    """
    with warnings_as_lines():
        study = Study.read(path)
    if scheduler is not None and running.workers is not None:
        raise KoriskError("--workers counts processes of this machine; leave it or --scheduler out")
    folder = out if out is not None else folder_of(path)
    outcome = run_tasks(study.tasks, study.content, folder, running, scheduler, quiet=json)
    by_point = curves(outcome.rows)
    crossings = {point: crossing(*pair) for point, pair in by_point.items() if len(pair) == 2}
    if json:
        points: JsonDict = {}
        for point, models in by_point.items():
            points[point] = {curve.model: curve.records() for curve in models}
        for point, meeting in crossings.items():
            points[point]["crossing"] = meeting and asdict(meeting)
        print_json({"store": str(store_path(folder)), **outcome.counts, "points": points})
    else:
        for point, models in by_point.items() if full else ():
            if models:
                show(f"{point}: mean {models[0].metric} over seeds", _means_table(models))
        show(*_summary_lines(by_point, crossings, all_points=full))
        print_end(outcome, folder, tables=full)
    report_failures(outcome)


def _means_table(models: Sequence[Curve]) -> Table:
    """Mean errors of the models at every N; a model without that N has an empty cell."""
    means = [dict(zip(curve.sizes.tolist(), curve.means.tolist(), strict=True)) for curve in models]
    rows = [
        [str(n), *(number(by_size.get(n)) for by_size in means)]
        for n in sorted({n for by_size in means for n in by_size})
    ]
    return Table("", ["N", *(curve.model for curve in models)], rows, "r")


def folder_of(study: Path) -> Path:
    """Default folder of the results of a study: in the working folder, named as its file."""
    name = study.stem
    # A file such as "...yaml" would name the parent folder.
    return Path(name if name.strip(".") else "study")


def _summary_lines(
    by_point: Mapping[str, Sequence[Curve]],
    crossings: Mapping[str, Crossing | None],
    *,
    all_points: bool,
) -> Iterator[str]:
    """One line a point: mean errors at the largest N, and where the better model changes."""
    points = list(by_point)[: len(by_point) if all_points else _POINTS_SHOWN]
    for point in points:
        models = by_point[point]
        if not models:
            yield f"{point}: no model has an error above 0, so there is no curve."
            continue
        sizes = {int(curve.sizes[-1]) for curve in models}
        errors = [
            f"{curve.model} {number(float(curve.means[-1]))}"
            + (f" at N = {int(curve.sizes[-1]):,}" if len(sizes) > 1 else "")
            for curve in models
        ]
        size = f" at N = {sizes.pop():,}" if len(sizes) == 1 else ""
        sentence = "The two models have no N in common." if point in crossings else ""
        if meeting := crossings.get(point):
            sentence = meeting.explanation
        yield f"{point}: {models[0].metric} of {', '.join(errors)}{size}. {sentence}".rstrip()
    if rest := len(by_point) - len(points):
        yield f"{rest:,} more points; --full prints them all."


def print_end(outcome: Outcome, folder: Path, *, tables: bool) -> None:
    """Print what was run, where the page and the results are, and the commands that use them."""
    counts = outcome.counts
    summary = [f"{counted(counts['done'], 'cell')} run in {duration(counts['seconds'])}"]
    labels = ("skipped", "already done"), ("failed", "failed")
    summary += [f"{counts[name]:,} {label}" for name, label in labels if counts[name]]
    results = f"results in {store_path(folder)} (korisk export {folder})."
    results += "" if tables else " --full prints the tables."
    page = f"Page: korisk report {folder} draws it."
    if outcome.page is not None:
        address = f"file://{quote(str(outcome.page.resolve()))}"
        page = f"Page: {outcome.page}; open {address} in a browser."
    show(f"{', '.join(summary)}; {results}", page, whole_lines=True)


# --- Cells, also of `korisk reproduce` ------------------------------------------------------------


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
    scheduler: str | None = None,
    *,
    quiet: bool,
) -> Outcome:
    """Run the missing cells of a store in `out`, and draw its page if that is asked for."""
    compute = Compute(workers=running.workers or 0, retry_failed=running.retry_failed)
    place = places.chosen_device(running.device, scheduler)
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
        with (
            progress(len(todo), skipped=skipped, quiet=quiet, lines=_print_line) as watch,
            # Without work, no scheduler is needed.
            places.opened(scheduler if todo else None, place) as (cluster, device),
        ):
            # Cells that need the same number of processes, and of threads in each.
            for group, processes, threads in places.groups(tasks, place, scheduler):
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
