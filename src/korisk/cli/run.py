"""`korisk run`: a study of one's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from korisk.cli.compute import (
    ClusterName,
    ClusterOptions,
    Compute,
    Device,
    Full,
    Live,
    Outcome,
    Port,
    Retry,
    Wait,
    WithPage,
    Workers,
    chosen_compute,
    expected_seconds,
    groups,
    report_failures,
    run_tasks,
)
from korisk.cli.output import cells, console, duration, number, print_json, table, warnings_as_lines
from korisk.curves.curve import Curve
from korisk.planning.compare import LEAST_SIZES, Crossing, crossing
from korisk.store.store import Store, store_path, store_to_write
from korisk.studies.results import curves
from korisk.studies.run.clusters import job_script
from korisk.studies.spec.study import Study
from korisk.theory.footprint import format_bytes

_POINTS = 6  # that are told without --full
_COUNTED = (("skipped", "already done"), ("failed", "failed"))


def run(
    path: Annotated[
        Path, typer.Argument(metavar="STUDY.yaml", help="The study; see docs/reference/study.md.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for results. [default: named as the file]"),
    ] = None,
    device: Device = "auto",
    cluster: ClusterName = None,
    cluster_options: ClusterOptions = None,
    workers: Workers = None,
    retry_failed: Retry = False,
    wait: Wait = 0.0,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the cells with state, estimated time and memory; run nothing."
        ),
    ] = False,
    page: WithPage = False,
    live: Live = False,
    port: Port = None,
    full: Full = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run a study, or what is missing of it: every finished cell is stored at once.

    It can be stopped at any time: the next run continues where this one ended.
    """
    with warnings_as_lines():
        study = Study.read(path)
    compute = chosen_compute(cluster, cluster_options, workers=workers, device=device)
    folder = out if out is not None else folder_of(path)
    if dry_run:
        _show_cells(study, folder, compute, retry=retry_failed, as_json=as_json)
        return
    done = run_tasks(
        *(study.tasks, study.content, folder),
        compute=compute,
        retry=retry_failed,
        wait=wait,
        quiet=as_json,
        page=page,
        live=live,
        port=port,
    )
    found = curves(done.rows)
    between = {point: crossing(*models) for point, models in found.items() if len(models) == 2}
    if as_json:
        points: dict[str, Any] = {}
        for point, models in found.items():
            points[point] = {curve.model: curve.records() for curve in models}
            if point in between:
                points[point]["crossing"] = crossing_json(between[point])
        print_json({"store": str(store_path(folder)), **done.counts, "points": points})
    else:
        screen = console()
        for point, models in found.items() if full else ():
            if not models:
                continue
            head = f"{point}: mean {models[0].metric} over seeds"
            screen.print(head, style="bold", highlight=False)
            shown = table("", "N", *(curve.model for curve in models), text=0)
            shown.title = None
            means = [dict(zip(curve.sizes.tolist(), curve.means, strict=True)) for curve in models]
            for n in sorted({int(size) for each in means for size in each}):
                errors = (number(float(each[n])) if n in each else "-" for each in means)
                shown.add_row(*cells(str(n), *errors))
            screen.print(shown)
        for line in _short(found, between, all_points=full):
            screen.print(line, highlight=False)
        print_end(done, folder, tables=full)
    report_failures(done)


def folder_of(study: Path) -> Path:
    """The default folder for the results of a study's file: in this folder, named as the file."""
    name = study.stem
    return Path(name if name.strip(".") else "study")  # a name of dots would lead elsewhere


def _short(
    found: Mapping[str, Sequence[Curve]],
    between: Mapping[str, Crossing | None],
    *,
    all_points: bool,
) -> Iterator[str]:
    """A line for each point: mean errors at the largest N, and where the better model changes."""
    shown = list(found.items())
    for point, models in shown if all_points else shown[:_POINTS]:
        if not models:
            yield f"{point}: no model has an error above 0, so there is no curve."
            continue
        lasts = {int(curve.sizes[-1]) for curve in models}
        ends = [
            f"{curve.model} {number(float(curve.means[-1]))}"
            + (f" at N = {int(curve.sizes[-1]):,}" if len(lasts) > 1 else "")
            for curve in models
        ]
        at = f" at N = {lasts.pop():,}" if len(lasts) == 1 else ""
        said = in_words(between[point]) if point in between else ""
        yield f"{point}: {models[0].metric} of {', '.join(ends)}{at}. {said}".rstrip()
    if len(shown) > _POINTS and not all_points:
        yield f"{len(shown) - _POINTS:,} more points; --full prints them all."


def print_end(done: Outcome, folder: Path, *, tables: bool) -> None:
    """Say what was run, where the page and the results are, and what to do with them."""
    counts, screen = done.counts, console()
    many = "1 cell" if counts["done"] == 1 else f"{counts['done']:,} cells"
    said = [f"{many} run in {duration(counts['seconds'])}"]
    said += [f"{counts[name]:,} {words}" for name, words in _COUNTED if counts[name]]
    more = "" if tables else " --full prints the tables."
    ended = f"{', '.join(said)}; results in {store_path(folder)} (korisk export {folder}).{more}"
    page = f"Page: korisk report {folder} draws it."
    if done.page is not None:
        page = f"Page: {done.page}; open file://{quote(str(done.page.resolve()))} in a browser."
    for line in (ended, page):
        screen.print(line, highlight=False, soft_wrap=True)  # paths stay in one piece


def in_words(found: Crossing | None) -> str:
    """Where the better of two models changes, as a sentence or two."""
    if found is None:
        return "The two models have no N in common."
    said = found.explain()
    if found.sizes < LEAST_SIZES:
        return f"{said} At least {LEAST_SIZES} sizes are needed to extrapolate."
    return said


def crossing_json(found: Crossing | None) -> dict[str, Any] | None:
    """The same as plain values, without a crossover that the measured means contradict."""
    if found is None:
        return None
    content = {**asdict(found), "explanation": in_words(found)}
    if not found.agrees:
        content["found"] = None
    return content


# --- Dry runs ------------------------------------------------------------------------------------


def _show_cells(
    study: Study, folder: Path, compute: Compute, *, retry: bool, as_json: bool
) -> None:
    """List the cells with their state and what they need, and the job script if there is one."""
    listed = _listed(study, folder, compute.device_kind())
    open_states = {"to do", "failed"} if retry else {"to do"}
    todo = [cell["seconds"] for cell in listed if cell["state"] in open_states]
    here = replace(compute, device=compute.device_kind())
    default = (
        1 if compute.elsewhere else max(1, *(many for _, many, _ in groups(study.tasks, here)))
    )
    workers = compute.workers or default
    times = [seconds for seconds in todo if not math.isnan(seconds)]
    unknown = len(todo) - len(times)
    left = math.nan if todo else 0.0
    if times:
        left = max(sum(times) / workers, *times)  # not before its longest cell
    script = None if compute.batch is None else job_script(compute.batch, compute.options)
    if as_json:
        to_do = {"cells": len(todo), "without_estimate": unknown, "workers": workers}
        content = {"name": study.name, "cells": listed, "to_do": to_do | {"seconds": left}}
        print_json(content if script is None else content | {"job_script": script})
        return
    out = console()
    heads = ("cell", "models", "sizes", "state", "time", "memory")
    shown = table(f"cells of {study.name}", *heads, text=4)
    for cell in listed:
        shown.add_row(
            *cells(
                f"{cell['point']}, seed {cell['seed']}",
                " ".join(cell["spec"]["models"]),
                ", ".join(map(str, cell["spec"]["sizes"])),
                *(cell["state"], duration(cell["seconds"])),
                "-" if cell["memory"] is None else format_bytes(cell["memory"]),
            )
        )
    out.print(shown)
    many = "1 worker" if workers == 1 else f"{workers:,} workers"
    count = "1 cell" if len(todo) == 1 else f"{len(todo):,} cells"
    time = f"about {duration(left)} on {many}, from measured cells"
    if not times:
        time = "no measured cell yet, so the time is not known"
    elif unknown:
        time += f", without {unknown:,} of a size that was not measured yet"
    out.print(f"{count} to do: {time}." if todo else "Nothing is left to do.", highlight=False)
    if script is not None:
        out.print(f"\nScript of each job:\n\n{script}", highlight=False, soft_wrap=True)


def _listed(study: Study, folder: Path, device: str) -> list[dict[str, Any]]:
    """Each cell with its state, and its expected seconds and bytes; NaN and None if not known."""
    states: dict[str, str] = {}
    seconds: dict[str, float] = {}
    path = store_to_write(folder)
    if path.exists():
        with Store.read(path) as store:
            store.check_name(study.name)
            store.check(study.tasks)
            states = {task.key: "failed" for task in study.tasks if store.failed(task)}
            states |= {task.key: "done" for task in study.tasks if store.finished(task)}
            seconds = expected_seconds(store, study.tasks, device)
    memory: dict[str, int] = {}
    with suppress(ImportError):  # the fits' own formulas, where PyTorch is installed
        from korisk.studies.run.cells import memory_needed

        memory = {task.point: memory_needed(task.spec) for task in study.tasks}
    return [
        {
            "point": task.point,
            "seed": task.seed,
            "state": states.get(task.key, "to do"),
            "seconds": seconds.get(task.point, math.nan),
            "memory": memory.get(task.point),
            "spec": task.spec,
        }
        for task in study.tasks
    ]
