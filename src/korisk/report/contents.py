"""What a report is made of, read from a store at once: results, what is missing, what failed.

Nothing is fitted and nothing is drawn here. A study may be half finished or running: what is there
is told, and what is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError
from korisk.studies.reproduction import Sweep, sweeps
from korisk.studies.result import Row, Task
from korisk.studies.results import PART_OF, Chosen, Crossing, chosen, crossing, curve_from, group_of
from korisk.studies.spec.study import PROTOCOLS, asked_for
from korisk.studies.store.store import Cell, Failure, FlatRow, Store, store_path

Array = NDArray[np.float64]

SQUARED = "(RMSE / max)\N{SUPERSCRIPT TWO}"
_LEAST_N = 2  # of a curve: without training samples there is none


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """A few test images, what each model made of them in one cell, and the weights it learned."""

    seed: int
    truth: Array  # (K, H, W)
    images: Mapping[str, Mapping[int, Array]]  # by model, then n: (K, H, W); n = 0 is untrained
    weights: Mapping[str, Mapping[int, Array]]  # by model, then n: (V, B)

    @property
    def sizes(self) -> list[int]:
        """Every n of any model, ascending; 0 is before training."""
        return sorted({n for shown in self.images.values() for n in shown})


def relative_error(image: Array, truth: Array) -> float:
    """||image - truth|| / ||truth||; nan where the truth is zero or not finite."""
    with np.errstate(all="ignore"):
        size = float(np.linalg.norm(truth))
        return float(np.linalg.norm(image - truth)) / size if size > 0 else math.nan


def grey_scale(truth: Array) -> tuple[float, float]:
    """The values that are black and white."""
    known = truth[np.isfinite(truth)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    return (low, high) if high > low else (low, low + 1.0)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One operating point: its curves, its cells, and what it lacks."""

    name: str
    spec: Mapping[str, Any]
    metric: str
    curves: tuple[Curve, ...]  # one for each model that has values to draw
    untrained: Mapping[str, float]  # mean error before training, by model
    cells: tuple[Cell, ...]  # finished ones
    failures: tuple[Failure, ...]
    missing: tuple[int, ...]  # seeds that were asked for and were not run yet
    left_out: tuple[str, ...]  # values that no curve can hold, in sentences
    pictures: Pictures | None

    @property
    def complete(self) -> bool:
        """Whether every cell that was asked for is there."""
        return not self.failures and not self.missing

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds whose cells are finished."""
        return tuple(cell.task.seed for cell in self.cells)

    def curve(self, model: str) -> Curve | None:
        """The curve of one model, if it has one."""
        return next((curve for curve in self.curves if curve.model == model), None)


def squared(point: Point) -> Point:
    """A point as the paper draws it: where its metric is RMSE / max, errors are the squares.

    Its theorem is about squared errors, and so are the lines of its Table 2.
    """
    if point.metric != "rmse_over_max":
        return point
    return replace(
        point,
        metric=SQUARED,
        curves=tuple(
            Curve(curve.n, curve.error**2, curve.seed, curve.model, SQUARED)
            for curve in point.curves
        ),
        untrained={model: error**2 for model, error in point.untrained.items()},
    )


@dataclass(frozen=True, kw_only=True)
class Contents:
    """A whole study as its report tells it."""

    name: str
    store: Path
    created: str  # ISO 8601, UTC
    korisk: str  # the version that made the store
    points: tuple[Point, ...]
    known: bool  # whether the store tells which cells were asked for

    @property
    def empty(self) -> bool:
        """Whether no cell is finished."""
        return not any(point.cells for point in self.points)

    @property
    def complete(self) -> bool:
        """Whether every cell that was asked for is there."""
        return all(point.complete for point in self.points)

    @cached_property
    def rows(self) -> tuple[FlatRow, ...]:
        """The rows of all finished cells."""
        return tuple(
            FlatRow(task=cell.task, row=row)
            for point in self.points
            for cell in point.cells
            for row in cell.rows
        )

    @cached_property
    def sweeps(self) -> list[Sweep]:
        """The points that are sweeps of the paper's kind, KO against FC in CT."""
        drawable = {point.name for point in self.points if _is_sweep(point)}
        return sweeps(row for row in self.rows if group_of(row.task) in drawable)

    @cached_property
    def crossings(self) -> dict[str, Crossing]:
        """Where the better of two models changes, by point; about a second for each, taken once."""
        pairs = {point.name: point.curves for point in self.points if len(point.curves) == 2}
        found = {name: crossing(first, second) for name, (first, second) in pairs.items()}
        return {name: crossed for name, crossed in found.items() if crossed is not None}


def read_contents(path: str | PathLike[str]) -> Contents:
    """Everything that a report tells, from the folder of a study or its store."""
    with Store.read(store_path(path)) as store:
        cells, failures = list(store.results()), store.failures()
        asked = asked_for(store.study)
        tried = {cell.task.key for cell in cells} | {failure.task.key for failure in failures}
        waiting = [task for task in asked or () if task.key not in tried]
        names = dict.fromkeys(
            [
                *(group_of(cell.task) for cell in cells),
                *(group_of(failure.task) for failure in failures),
                *(group_of(task) for task in waiting),
            ]
        )
        points = tuple(_point(store, name, cells, failures, waiting) for name in names)
        return Contents(
            name=str(store.study.get("name", "")),
            store=store.path,
            created=store.created,
            korisk=store.korisk,
            points=points,
            known=asked is not None,
        )


def refuse_an_empty_one(contents: Contents) -> None:
    """Say in one line why there is nothing to report."""
    if not contents.empty:
        return
    failures = [failure for point in contents.points for failure in point.failures]
    if not failures:
        raise KoriskError(f"{contents.store}: no cell is finished yet; run the study first")
    raise KoriskError(
        f"{contents.store}: no cell is finished, and {len(failures)} failed, the first because: "
        f"{failures[0].reason}; mend that and run again with --retry-failed"
    )


def _point(
    store: Store, name: str, cells: list[Cell], failures: list[Failure], waiting: list[Task]
) -> Point:
    own = tuple(cell for cell in cells if group_of(cell.task) == name)
    failed = tuple(failure for failure in failures if group_of(failure.task) == name)
    lacking = [task for task in waiting if group_of(task) == name]
    tasks = [
        *(cell.task for cell in own),
        *(failure.task for failure in failed),
        *lacking,
    ]
    spec = tasks[0].spec
    looked_at = chosen(spec, (row for cell in own for row in cell.rows))
    drawn, left_out = _curves(own, looked_at, perfect_may_be=PART_OF in spec)
    return Point(
        name=name,
        spec=spec,
        metric=looked_at.metric,
        curves=tuple(drawn),
        untrained=_untrained(own, looked_at),
        cells=own,
        failures=failed,
        missing=tuple(task.seed for task in lacking),
        left_out=tuple(left_out),
        pictures=_pictures(store, own),
    )


def _curves(
    cells: Iterable[Cell], looked_at: Chosen, *, perfect_may_be: bool
) -> tuple[list[Curve], list[str]]:
    """A curve for each model, and sentences about the values that no curve can hold.

    Where perfect fits may be, as in a pilot, their part in the mean is kept.
    """
    trained: dict[str, list[tuple[int, Row]]] = {}
    for cell in cells:
        for row in cell.rows:
            if row.n >= _LEAST_N:
                trained.setdefault(row.model, []).append((cell.task.seed, row))
    made, left_out = [], []
    for model, found in trained.items():
        values = [(row.n, looked_at.error(row), seed) for seed, row in found]
        least = 0.0 if perfect_may_be else math.ulp(0.0)
        kept = [value for value in values if value[1] >= least]
        if len(kept) < len(values):
            left_out.append(
                f"{model}: {len(values) - len(kept)} of {len(values)} values of "
                f"{looked_at.metric} are missing, not finite or no error above 0, and are left "
                "out of the curve"
            )
        curve, words = curve_from(kept, model, looked_at)
        left_out += [f"{model}: {sentence}" for sentence in words]
        made += [curve] if curve is not None else []
    return made, left_out


def _untrained(cells: Iterable[Cell], looked_at: Chosen) -> dict[str, float]:
    """The mean error of each model before training."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        for row in cell.rows:
            if row.n == 0 and (error := looked_at.error(row)) > 0:
                found.setdefault(row.model, []).append(error)
    return {model: sum(errors) / len(errors) for model, errors in found.items()}


def _pictures(store: Store, cells: tuple[Cell, ...]) -> Pictures | None:
    """What the first seed's cell kept to look at."""
    if not cells:
        return None
    task = cells[0].task
    arrays = store.arrays(task.key)
    truth = arrays.get("truth")
    if truth is None or truth.ndim != 3 or not truth.size:
        return None
    images = {
        model: {n: image for n, image in found.items() if image.shape == truth.shape}
        for model, found in _by_model(arrays, "images").items()
    }
    images = {model: found for model, found in images.items() if found}
    if not images:
        return None
    return Pictures(
        seed=task.seed,
        truth=np.asarray(truth, np.float64),
        images=images,
        weights=_by_model(arrays, "weights"),
    )


def _by_model(arrays: Mapping[str, NDArray[np.generic]], kind: str) -> dict[str, dict[int, Array]]:
    found: dict[str, dict[int, Array]] = {}
    for name, array in arrays.items():
        model, _, rest = name.rpartition("/")[0].rpartition("/")
        if name.endswith(f"/{kind}") and rest.isdecimal():
            found.setdefault(model, {})[int(rest)] = np.asarray(array, np.float64)
    return found


def _is_sweep(point: Point) -> bool:
    """Whether a point is of the paper's kind, with all values that its tables need."""
    problem = point.spec.get("problem")
    if not isinstance(problem, Mapping) or point.left_out or "side" not in problem:
        return False
    return point.spec.get("protocol") in PROTOCOLS and all(
        Chosen(name, UNITS["error"]).error(row) > 0
        for cell in point.cells
        for row in cell.rows
        for name in ("mse", "rmse_over_max")
    )
