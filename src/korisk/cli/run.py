"""`korisk run`: a study of one's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from korisk._json import JsonDict
from korisk.cli.common.command import command
from korisk.cli.common.compute import Outcome, chosen_compute, report_failures, run_tasks
from korisk.cli.common.options import Device, Full, Json, Live, Port, Wait, WithPage, Workers
from korisk.cli.common.output import print_json, show, warnings_as_lines
from korisk.curves.curve import Curve
from korisk.planning.compare import Crossing, crossing
from korisk.store.store import Store, store_path, store_to_write
from korisk.studies.results import curves
from korisk.studies.run.clusters import job_script
from korisk.studies.run.compute import Compute, expected_seconds, groups
from korisk.studies.spec.study import Study
from korisk.texts import Table, counted, duration, number
from korisk.theory.footprint import format_bytes

_POINTS = 6  # that are told without --full
_COUNTED = (("skipped", "already done"), ("failed", "failed"))
_NOTHING_SHARED = "The two models have no N in common."


@command("studies.run.compute.Compute", "studies.run.engine.run_study", options="cluster_options")
def run(
    path: Annotated[Path, "STUDY.yaml", "The study; see docs/reference/study.md."],
    out: Annotated[Path | None, "DIR", "Folder for results. [default: named as the file]"] = None,
    device: Device = "auto",
    cluster: Annotated[str | None, "NAME|ADDRESS"] = None,
    cluster_options: Annotated[Path | None, "FILE.yaml"] = None,
    workers: Workers = None,
    retry_failed: bool = False,
    wait: Wait = 0.0,
    dry_run: Annotated[
        bool, "List the cells with state, estimated time and memory; run nothing."
    ] = False,
    page: WithPage = False,
    live: Live = False,
    port: Port = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """Run a study, or what is missing of it: every finished cell is stored at once.

    It can be stopped at any time: the next run continues where this one ended.
    """
    with warnings_as_lines():
        study = Study.read(path)
    compute = chosen_compute(cluster, cluster_options, workers=workers, device=device)
    folder = out if out is not None else folder_of(path)
    if dry_run:
        _show_cells(study, folder, compute, retry=retry_failed, as_json=json)
        return
    done = run_tasks(
        study.tasks,
        study.content,
        folder,
        compute=compute,
        retry=retry_failed,
        wait=wait,
        quiet=json,
        page=page,
        live=live,
        port=port,
    )
    found = curves(done.rows)
    between = {point: crossing(*models) for point, models in found.items() if len(models) == 2}
    if json:
        points: JsonDict = {}
        for point, models in found.items():
            points[point] = {curve.model: curve.records() for curve in models}
            if point in between:
                crossed = between[point]
                points[point]["crossing"] = None if crossed is None else crossed.to_dict()
        print_json({"store": str(store_path(folder)), **done.counts, "points": points})
    else:
        for point, models in found.items() if full else ():
            if models:
                show(f"{point}: mean {models[0].metric} over seeds", _means_table(models))
        show(*_short(found, between, all_points=full))
        print_end(done, folder, tables=full)
    report_failures(done)


def _means_table(models: Sequence[Curve]) -> Table:
    means = [dict(zip(curve.sizes.tolist(), curve.means.tolist(), strict=True)) for curve in models]
    rows = [
        [str(n), *(number(of_model.get(n)) for of_model in means)]
        for n in sorted({n for of_model in means for n in of_model})
    ]
    return Table("", ["N", *(curve.model for curve in models)], rows, "r")


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
        crossed = between.get(point)
        said = (
            crossed.explain(sizes=True) if crossed else _NOTHING_SHARED if point in between else ""
        )
        yield f"{point}: {models[0].metric} of {', '.join(ends)}{at}. {said}".rstrip()
    if len(shown) > _POINTS and not all_points:
        yield f"{len(shown) - _POINTS:,} more points; --full prints them all."


def print_end(done: Outcome, folder: Path, *, tables: bool) -> None:
    """Say what was run, where the page and the results are, and what to do with them."""
    counts = done.counts
    said = [f"{counted(counts['done'], 'cell')} run in {duration(counts['seconds'])}"]
    said += [f"{counts[name]:,} {words}" for name, words in _COUNTED if counts[name]]
    more = "" if tables else " --full prints the tables."
    page = f"Page: korisk report {folder} draws it."
    if done.page is not None:
        page = f"Page: {done.page}; open file://{quote(str(done.page.resolve()))} in a browser."
    show(
        f"{', '.join(said)}; results in {store_path(folder)} (korisk export {folder}).{more}",
        page,
        whole_lines=True,
    )


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
    rows = [
        [
            f"{cell['point']}, seed {cell['seed']}",
            " ".join(cell["spec"]["models"]),
            ", ".join(map(str, cell["spec"]["sizes"])),
            cell["state"],
            duration(cell["seconds"]),
            "-" if cell["memory"] is None else format_bytes(cell["memory"]),
        ]
        for cell in listed
    ]
    time = f"about {duration(left)} on {counted(workers, 'worker')}, from measured cells"
    if not times:
        time = "no measured cell yet, so the time is not known"
    elif unknown:
        time += f", without {unknown:,} of a size that was not measured yet"
    show(
        Table(
            f"cells of {study.name}",
            ["cell", "models", "sizes", "state", "time", "memory"],
            rows,
            "llllr",
        ),
        f"{counted(len(todo), 'cell')} to do: {time}." if todo else "Nothing is left to do.",
    )
    if script is not None:
        show(f"\nScript of each job:\n\n{script}", whole_lines=True)


def _listed(study: Study, folder: Path, device: str) -> list[JsonDict]:
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
