"""`korisk run`: a study of one's own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from korisk.cli.output import cells, console, number, print_json, table
from korisk.cli.studying import (
    Device,
    Retry,
    Wait,
    Workers,
    chosen_device,
    in_words,
    report_failures,
    run_tasks,
    summary_json,
)
from korisk.curves.curve import Curve
from korisk.studies.results import crossing, curves
from korisk.studies.store import Store, store_path, store_to_write
from korisk.studies.study import Study


def run(
    path: Annotated[
        Path, typer.Argument(metavar="STUDY.yaml", help="What to run; see docs/study.md.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results go. [default: named as the file]"),
    ] = None,
    device: Device = "auto",
    workers: Workers = None,
    retry_failed: Retry = False,
    wait: Wait = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the cells, and which are there; run nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run a study, or what is missing of it: every finished cell is stored at once.

    Stop it at any moment: the next run goes on where this one ended.
    """
    study = Study.read(path)
    folder = out if out is not None else Path(path.stem)
    if dry_run:
        _show_cells(study, folder, as_json)
        return
    summary = run_tasks(
        study.tasks,
        study.content,
        folder,
        device=chosen_device(device),
        workers=workers,
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
        content["crossing"] = None if found is None else asdict(found)
    return content


def _crossing_words(models: list[Curve]) -> str:
    found = crossing(*models)
    return "the two were measured at no N in common" if found is None else in_words(found)


def _show_cells(study: Study, folder: Path, as_json: bool) -> None:
    states = _states(study, folder)
    if as_json:
        print_json(
            {
                "name": study.name,
                "cells": [
                    {"point": t.point, "seed": t.seed, "state": states[t.key], "spec": t.spec}
                    for t in study.tasks
                ],
            }
        )
        return
    shown = table(f"cells of {study.name}", "cell", "models", "sizes", "state", text=4)
    for task in study.tasks:
        sizes = ", ".join(map(str, task.spec["sizes"]))
        shown.add_row(*cells(task.key, " ".join(task.spec["models"]), sizes, states[task.key]))
    console().print(shown)


def _states(study: Study, folder: Path) -> dict[str, str]:
    """What there is of each cell; a store of another study is refused as a run would."""
    path = store_to_write(folder)
    states = {task.key: "to do" for task in study.tasks}
    if not path.exists():
        return states
    with Store.read(path) as store:
        store.check(study.tasks)
        for task in study.tasks:
            if store.finished(task):
                states[task.key] = "done"
            elif store.failed(task):
                states[task.key] = "failed"
    return states


def _print(found: dict[str, list[Curve]], folder: Path) -> None:
    out = console()
    for point, models in found.items():
        out.print(f"{point}: mean {models[0].metric} over seeds", style="bold", highlight=False)
        shown = table("", "N", *(curve.model for curve in models), text=0)
        shown.title = None
        for n in sorted({int(size) for curve in models for size in curve.sizes}):
            shown.add_row(*cells(str(n), *(_mean(curve, n) for curve in models)))
        out.print(shown)
        if len(models) == 2:
            words = _crossing_words(models)
            out.print(f"{words[0].upper()}{words[1:]}.\n", highlight=False)
    out.print(
        f"Results lie in {store_path(folder)}; korisk export {folder} writes them as a table.",
        highlight=False,
    )


def _mean(curve: Curve, n: int) -> str:
    sizes = curve.sizes.tolist()
    return number(float(curve.means[sizes.index(n)])) if n in sizes else "-"
