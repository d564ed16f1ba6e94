"""What `korisk run --dry-run` shows: the cells, what each takes, and the job that would start."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from korisk.cli.output import cells, console, duration, print_json, table
from korisk.cli.places import Place, device_kind
from korisk.cli.studying import groups
from korisk.costs.cost import Estimate, Estimator, Total, total
from korisk.costs.rates import Rates, rates_for
from korisk.studies.result import Task
from korisk.studies.spec.study import Study
from korisk.studies.store.store import Store, store_to_write
from korisk.theory.footprint import format_bytes


def show_cells(study: Study, folder: Path, place: Place, *, retry: bool, as_json: bool) -> None:
    """List the cells with their states and estimates, and the job script where there is one."""
    rates = rates_for(device_kind(place))
    states, found = _looked_up(study, folder, rates)
    open_states = {"to do", "failed"} if retry else {"to do"}
    open_tasks = [task for task in study.tasks if states[task.key] in open_states]
    todo = [task for task in open_tasks if found(task).origin != "unknown"]
    unknown = len(open_tasks) - len(todo)
    script = _script(place)
    workers = _workers(study, place)
    whole = total(todo, found, workers=workers)
    if as_json:
        print_json(_as_json(study, states, found, rates, whole, workers, script, unknown))
        return
    _print_cells(study, states, found)
    _print_total(whole, workers, rates, unknown)
    if script is not None:
        console().print(f"\nEach of {workers} jobs:\n\n{script}", highlight=False, soft_wrap=True)


def _looked_up(study: Study, folder: Path, rates: Rates) -> tuple[dict[str, str], Estimator]:
    """What there is of each cell; a store of another study is refused as a run would."""
    path = store_to_write(folder)
    states = {task.key: "to do" for task in study.tasks}
    if not path.exists():
        return states, Estimator(rates)
    with Store.read(path) as store:
        store.check_name(study.name)
        store.check(study.tasks)
        for task in study.tasks:
            if store.finished(task):
                states[task.key] = "done"
            elif store.failed(task):
                states[task.key] = "failed"
        return states, Estimator(rates, store=store)


def _workers(study: Study, place: Place) -> int:
    if place.profile is not None:
        return place.profile.jobs
    here = replace(place, device=device_kind(place))
    return place.workers or max(1, *(count for _, count in groups(study.tasks, here)))


def _script(place: Place) -> str | None:
    if place.profile is None:
        return None
    from korisk.studies.run.clusters import job_script

    return job_script(place.profile)


def _print_cells(study: Study, states: dict[str, str], found: Estimator) -> None:
    columns = ("cell", "models", "sizes", "state", "known by", "time", "memory")
    shown = table(f"cells of {study.name}", *columns, text=5)
    for task in study.tasks:
        sizes = ", ".join(map(str, task.spec["sizes"]))
        about = found(task)
        shown.add_row(
            *cells(
                *(task.key, " ".join(task.spec["models"]), sizes, states[task.key], about.origin),
                *(duration(about.seconds), _size(_memory(about))),
            )
        )
    console().print(shown)


def _print_total(whole: Total, workers: int, rates: Rates, unknown: int) -> None:
    if unknown:
        console().print(
            f"{unknown:,} to do of a kind whose time is not known before the first has run.",
            highlight=False,
        )
        if not whole.cells:
            return
    many = "1 worker" if workers == 1 else f"{workers:,} workers"
    memory = whole.memory if whole.device_memory is None else whole.device_memory
    count = "1 cell" if whole.cells == 1 else f"{whole.cells:,} cells"
    lines = [
        f"{count} to do: about {duration(whole.seconds)} on {many}, "
        f"{format_bytes(int(memory))} each."
    ]
    if whole.measured < whole.cells:
        lines.append(f"Predicted from rates measured on {rates.where}; see korisk cost.")
    console().print(" ".join(lines) if whole.cells else "Nothing is left to do.", highlight=False)


def _size(size: float) -> str:
    return "-" if math.isnan(size) else format_bytes(int(size))


def _memory(about: Estimate) -> float:
    return about.memory if about.device_memory is None else about.device_memory


def _as_json(
    study: Study,
    states: dict[str, str],
    found: Estimator,
    rates: Rates,
    whole: Total,
    workers: int,
    script: str | None,
    unknown: int,
) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": study.name,
        "cells": [_cell_json(task, states[task.key], found(task)) for task in study.tasks],
        "rates": rates.name,
        "to_do": {
            "cells": whole.cells + unknown,
            "of_unknown_time": unknown,
            "workers": workers,
            "seconds": whole.seconds if whole.cells or not unknown else math.nan,
        },
    }
    return content if script is None else content | {"job_script": script}


def _cell_json(task: Task, state: str, about: Estimate) -> dict[str, Any]:
    return {
        "point": task.point,
        "seed": task.seed,
        "state": state,
        "seconds": about.seconds,
        "memory": about.memory,
        "device_memory": about.device_memory,
        "origin": about.origin,
        "spec": task.spec,
    }
