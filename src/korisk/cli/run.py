"""`korisk run`: a study of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from korisk.cli.dry_run import show_cells
from korisk.cli.output import cells, console, number, print_json, table, warnings_as_lines
from korisk.cli.places import Device, Engine, Scheduler, Slurm, Workers, chosen_place
from korisk.cli.studying import (
    Retry,
    Wait,
    crossing_json,
    folder_of,
    in_words,
    report_failures,
    run_tasks,
    summary_json,
)
from korisk.curves.curve import Curve
from korisk.studies.results import crossing, curves
from korisk.studies.spec.study import Study
from korisk.studies.store.store import Store, store_path


def run(
    path: Annotated[
        Path, typer.Argument(metavar="STUDY.yaml", help="The study; see docs/reference/study.md.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results go. [default: named as the file]"),
    ] = None,
    device: Device = "auto",
    engine: Engine = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    workers: Workers = None,
    retry_failed: Retry = False,
    wait: Wait = 0.0,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the cells, their cost and which are done; run nothing."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run a study, or what is missing of it: every finished cell is stored at once.

    It can be stopped at any time: the next run continues where this one ended.
    """
    with warnings_as_lines():
        study = Study.read(path)
    place = chosen_place(engine, scheduler, slurm, workers=workers, device=device)
    folder = out if out is not None else folder_of(path)
    if dry_run:
        show_cells(study, folder, place, retry=retry_failed, as_json=as_json)
        return
    summary = run_tasks(
        study.tasks,
        study.content,
        folder,
        place=place,
        retry=retry_failed,
        wait=wait,
        quiet=as_json,
    )
    with Store.read(store_path(folder)) as store:
        asked = {task.key for task in study.tasks}
        found = curves(row for row in store.rows() if row.task.key in asked)
    if as_json:
        points = {point: _point_json(models) for point, models in found.items()}
        print_json({"store": str(store_path(folder)), **summary_json(summary), "points": points})
    else:
        _print(found, folder)
    report_failures(folder, study.tasks, summary)


def _point_json(models: list[Curve]) -> dict[str, Any]:
    content: dict[str, Any] = {curve.model: curve.records() for curve in models}
    if len(models) == 2:
        found = crossing(*models)
        content["crossing"] = None if found is None else crossing_json(found)
    return content


def _print(found: dict[str, list[Curve]], folder: Path) -> None:
    out = console()
    for point, models in found.items():
        if not models:
            out.print(f"{point}: no model has an error above 0, so there is no curve.\n")
            continue
        out.print(f"{point}: mean {models[0].metric} over seeds", style="bold", highlight=False)
        shown = table("", "N", *(curve.model for curve in models), text=0)
        shown.title = None
        for n in sorted({int(size) for curve in models for size in curve.sizes}):
            shown.add_row(*cells(str(n), *(_mean(curve, n) for curve in models)))
        out.print(shown)
        if len(models) == 2:
            between = crossing(*models)
            none = "The two models have no N in common."
            words = none if between is None else in_words(between)
            out.print(f"{words}\n", highlight=False)
    out.print(
        f"Results lie in {store_path(folder)}; korisk report {folder} draws them on a page, korisk "
        f"export {folder} writes them as a table.",
        highlight=False,
    )


def _mean(curve: Curve, n: int) -> str:
    sizes = curve.sizes.tolist()
    return number(float(curve.means[sizes.index(n)])) if n in sizes else "-"
