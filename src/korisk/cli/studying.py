"""What `korisk run` and `korisk reproduce` share: options, and the run itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from korisk import _checks
from korisk.cli.output import plain, warnings_as_lines
from korisk.cli.places import Place, opened, settled
from korisk.cli.progress import progress
from korisk.errors import KoriskError
from korisk.files import make_folder
from korisk.planning.explain import agrees, crossing
from korisk.studies.result import Task
from korisk.studies.results import LEAST_SIZES, Crossing
from korisk.studies.run.engine import Summary, run_study
from korisk.studies.store.store import Store, store_to_write

FAILED_CELLS = 1  # exit code where some cells failed and the rest is stored
_LARGE, _MANY = 64, 4096  # pixels a side and rays from which a cell keeps all cores busy itself

Retry = Annotated[bool, typer.Option("--retry-failed", help="Try cells again that have failed.")]
Wait = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait for another run on the store.")
]


def run_tasks(
    tasks: Sequence[Task],
    study: dict[str, Any],
    out: Path,
    *,
    place: Place,
    retry: bool,
    wait: float,
    quiet: bool,
) -> Summary:
    """Run what the store in `out` lacks, small images in parallel, large ones one by one."""
    from korisk.studies.run.cells import run_cell

    _checks.real("--wait", wait, at_least=0, remedy="give seconds")
    asked = settled(place)
    path = store_to_write(out)
    had_store = path.exists()
    with _no_folder_left(path.parent):
        with warnings_as_lines():
            made = Store.create_or_open(path, study, tasks=tasks, wait=wait)
        with made as store, _no_empty_store_left(store, path, had_store):
            parts = []
            for group, default in groups(tasks, asked):
                idle = all(store.failed(task) and not retry for task in store.missing(group))
                place_of_group = Place(device="cpu") if idle else asked  # nothing is started for it
                with (
                    opened(place_of_group, processes=max(1, default)) as (cluster, device),
                    progress(quiet=quiet) as watch,
                ):
                    parts.append(
                        run_study(
                            group,
                            partial(run_cell, device=device),
                            store,
                            workers=default if place.workers is None else place.workers,
                            retry_failed=retry,
                            watch=watch,
                            cluster=cluster,
                        )
                    )
    return Summary(
        done=sum(part.done for part in parts),
        failed=sum(part.failed for part in parts),
        skipped=sum(part.skipped for part in parts),
        failed_before=sum(part.failed_before for part in parts),
        seconds=sum(part.seconds for part in parts),
    )


@contextmanager
def _no_folder_left(folder: Path) -> Iterator[None]:
    """Make a folder, and leave it only if there is something in it after a refusal."""
    had_folder = folder.exists()
    make_folder(folder)
    try:
        yield
    except KoriskError:
        if not had_folder:
            with suppress(OSError):  # not empty: somebody else uses it
                folder.rmdir()
        raise


@contextmanager
def _no_empty_store_left(store: Store, path: Path, had_store: bool) -> Iterator[None]:
    """Leave no empty store behind where something was wrong before the first cell.

    It is taken away while we still hold its lock, so that it cannot be another process's.
    """
    try:
        yield
    except KoriskError:
        if not had_store and not store.failures() and next(store.results(), None) is None:
            with suppress(OSError):
                path.unlink()
        raise


def folder_of(study: Path) -> Path:
    """Where results of a study's file go unless somebody says: beside us, named as the file."""
    name = study.stem
    return Path(name if name.strip(".") else "study")  # a name of dots would lead elsewhere


def groups(tasks: Sequence[Task], place: Place) -> list[tuple[list[Task], int]]:
    """Tasks to run one group after the other, with the processes of this machine for each."""
    from korisk.studies.run.usage import cores

    if place.elsewhere:
        return [(list(tasks), 1)]
    if place.device != "cpu":
        return [(list(tasks), 0)]
    small = [task for task in tasks if not _is_large(task)]
    large = [task for task in tasks if _is_large(task)]
    parts = [(small, cores()), (large, 1)]
    return [(group, workers) for group, workers in parts if group]


def _is_large(task: Task) -> bool:
    problem = task.spec["problem"]
    rays = problem.get("views", 0) * problem.get("bins", 0)
    return bool(problem.get("side", 0) >= _LARGE or rays > _MANY)


def report_failures(out: Path, tasks: Sequence[Task], summary: Summary) -> None:
    """Say which of the cells failed, on stderr, and leave with the code for that."""
    if not (summary.failed or summary.failed_before):
        return
    asked = {task.key for task in tasks}
    with Store.read(store_to_write(out)) as store:
        for failure in store.failures():
            if failure.task.key not in asked:
                continue
            said = " ".join(f"{failure.task.key} failed: {failure.reason}".split())
            typer.echo(f"korisk: {plain(said)}", err=True)
    typer.echo("korisk: the rest is stored; run again with --retry-failed", err=True)
    raise typer.Exit(FAILED_CELLS)


def summary_json(summary: Summary) -> dict[str, Any]:
    """What a run did, as plain values."""
    return {
        "done": summary.done,
        "failed": summary.failed + summary.failed_before,
        "skipped": summary.skipped,
        "seconds": summary.seconds,
    }


def numbers(option: str, text: str | None) -> list[int] | None:
    """`1,2,3` as whole numbers."""
    if text is None:
        return None
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise KoriskError(
            f"{option} must be whole numbers with commas between, got {text!r}; write 1,2,3"
        ) from None
    return found


def in_words(found: Crossing) -> str:
    """Where the better of two models changes, as a sentence or two."""
    said = crossing(found.found, found.means, found.better, found.last)
    if found.sizes < LEAST_SIZES:
        return f"{said} At least {LEAST_SIZES} sizes are needed to extrapolate."
    return said


def crossing_json(found: Crossing) -> dict[str, Any]:
    """The same as plain values, without a crossover that the measured means contradict."""
    content = {**asdict(found), "explanation": in_words(found)}
    if found.found is not None and not agrees(found.found, found.means, found.better):
        content["found"] = None
    return content
