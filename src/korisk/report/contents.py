"""What a report is made of, read from a store at once: results, what is missing, what failed.

Nothing is fitted and nothing is drawn here. A study may be half finished or running: what is there
is told, and what is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.curves.curve import Curve
from korisk.curves.stored import LEAST_N, PART_OF, chosen, grouping, is_probe
from korisk.errors import KoriskError
from korisk.planning.compare import Crossing, crossing
from korisk.report.tables.table import ReportTable
from korisk.store.cells import Task
from korisk.store.store import Cell, Failure, FlatRow, Store, store_path
from korisk.studies.results import curve_from
from korisk.studies.spec.study import asked_for
from korisk.theory import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Draw = Callable[..., "Figure | None"]  # with `narrow`

SUPPLEMENTS: list[type[Supplement]] = []  # of the packages that were imported
SQUARED = "(RMSE / max)\N{SUPERSCRIPT TWO}"


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """A few test images, what each model made of them in one cell, and the weights it learned."""

    seed: int
    truth: Array  # (K, H, W)
    images: Mapping[str, Mapping[int, Array]]  # by model, then n: (K, H, W); n = 0 is untrained
    weights: Mapping[str, Mapping[int, Array]]  # by model, then n: (V, B)


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


def error_scale(errors: Iterable[Array]) -> tuple[float, float]:
    """The error of the last colour, beyond which two pixels in a hundred lie, and the largest."""
    known = np.abs(np.concatenate([np.zeros(0), *(each.ravel() for each in errors)]))
    known = known[np.isfinite(known)]
    reach = float(np.percentile(known, 98.0)) if known.size else 0.0
    most = float(known.max(initial=0.0))
    return reach or most or 1.0, most


@dataclass(frozen=True, kw_only=True)
class Point:
    """One operating point: its curves, its cells, and what it lacks."""

    name: str
    spec: JsonMapping
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
    def rows(self) -> list[FlatRow]:
        """The rows of its finished cells."""
        return [FlatRow(task=cell.task, row=row) for cell in self.cells for row in cell.rows]

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
    def complete(self) -> bool:
        """Whether every cell that was asked for is there."""
        return all(point.complete for point in self.points)

    @cached_property
    def supplements(self) -> list[Supplement]:
        """What other packages add to this report."""
        return [supplement(self) for supplement in SUPPLEMENTS]

    @cached_property
    def crossings(self) -> dict[str, Crossing]:
        """Where the better of two models changes, by point; about a second for each, taken once."""
        pairs = {point.name: point.curves for point in self.points if len(point.curves) == 2}
        found = {name: crossing(first, second) for name, (first, second) in pairs.items()}
        return {name: crossed for name, crossed in found.items() if crossed is not None}


class Supplement:
    """What another package adds to the reports of studies.

    A package appends its subclass to `SUPPLEMENTS` when it is imported. It is asked about every
    study; what it has nothing to add to stays as it is.

    Parameters
    ----------
    contents : Contents
        The study.
    """

    name = title = ""  # of its section on the page, whose figures and tables begin with the name
    # For those who do not see a figure, by how its name begins.
    words: ClassVar[Mapping[str, str]] = {}

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    def notes(self) -> list[str]:
        """What stands above all else on the page."""
        return []

    def sentences(self) -> list[str]:
        """What its section says, the answer first."""
        return []

    def networks(self) -> Iterable[tuple[Point, str, Network]]:
        """Networks to draw: the point and the model that each belongs to."""
        return []

    def figures(self) -> Iterable[tuple[str, Draw]]:
        """Figures, by the stems of their files."""
        return []

    def tables(self, tables: list[ReportTable]) -> list[ReportTable]:
        """The tables of the study with its own among them."""
        return tables


def read_contents(path: str | PathLike[str]) -> Contents:
    """Read everything that a report tells.

    Parameters
    ----------
    path : path
        The folder of a study, or its store.

    Returns
    -------
    Contents
        Points with their curves, cells, failures and pictures; the store is closed again.

    Raises
    ------
    KoriskError
        If there is no store, or it cannot be read.
    """
    with Store.read(store_path(path)) as store:
        cells = [cell for cell in store.results() if not is_probe(cell.task)]
        failures = [failure for failure in store.failures() if not is_probe(failure.task)]
        asked = asked_for(store.study)
        tried = [*(cell.task for cell in cells), *(failure.task for failure in failures)]
        keys = {task.key for task in tried}
        waiting = [task for task in asked or () if task.key not in keys]
        points = []
        group = grouping(FlatRow(task=cell.task, row=row) for cell in cells for row in cell.rows)
        for name in dict.fromkeys(group(task) for task in [*tried, *waiting]):
            own = [cell for cell in cells if group(cell.task) == name]
            failed = [failure for failure in failures if group(failure.task) == name]
            missing = [task for task in waiting if group(task) == name]
            points.append(_point(store, name, own, failed, missing))
        return Contents(
            name=str(store.study.get("name", "")),
            store=store.path,
            created=store.created,
            korisk=store.korisk,
            points=tuple(points),
            known=asked is not None,
        )


def refuse_an_empty_one(contents: Contents) -> None:
    """Raise an error if no cell is finished, with the reason."""
    if any(point.cells for point in contents.points):
        return
    failures = [failure for point in contents.points for failure in point.failures]
    why = f", and {len(failures)} failed, the first: {failures[0].reason}" if failures else ""
    retry = "correct that and retry the failed cells" if failures else "run the study first"
    raise KoriskError(f"{contents.store}: no cell is finished yet{why}; {retry}")


def _point(
    store: Store, name: str, cells: list[Cell], failures: list[Failure], missing: list[Task]
) -> Point:
    """A point with a curve for each model, and sentences about the values that no curve can hold.

    Where perfect fits may be, as in a pilot, their part in the mean is kept.
    """
    tasks = [*(cell.task for cell in cells), *(failure.task for failure in failures), *missing]
    spec = tasks[0].spec
    choice = chosen(spec, (row for cell in cells for row in cell.rows))
    found = [(row, choice.error(row), cell.task.seed) for cell in cells for row in cell.rows]
    before = grouped((row.model, error) for row, error, _ in found if row.n == 0 and error > 0)
    above = [(row, error, seed) for row, error, seed in found if row.n >= LEAST_N]
    trained = grouped((row.model, (row.n, error, seed)) for row, error, seed in above)
    curves, left_out = [], []
    least = 0.0 if PART_OF in spec else math.ulp(0.0)
    for model, values in trained.items():
        kept = [value for value in values if value[1] >= least]
        if len(kept) < len(values):
            wrong = f"{model}: {len(values) - len(kept)} of {len(values)} values of {choice.metric}"
            why = "are missing, not finite or not above 0, and are left out of the curve"
            left_out.append(f"{wrong} {why}")
        curve, words = curve_from(kept, model, choice)
        left_out += [f"{model}: {sentence}" for sentence in words]
        curves += [curve] if curve is not None else []
    return Point(
        name=name,
        spec=spec,
        metric=choice.metric,
        curves=tuple(curves),
        untrained={model: sum(errors) / len(errors) for model, errors in before.items()},
        cells=tuple(cells),
        failures=tuple(failures),
        missing=tuple(task.seed for task in missing),
        left_out=tuple(left_out),
        pictures=_pictures(store, cells[0].task) if cells else None,
    )


def _pictures(store: Store, task: Task) -> Pictures | None:
    """The arrays of one cell to look at."""
    arrays = store.arrays(task.key)
    truth = arrays.get("truth")
    if truth is None or truth.ndim != 3 or not truth.size:
        return None
    found: dict[str, dict[str, dict[int, Array]]] = {"images": {}, "weights": {}}
    for name, array in arrays.items():
        model, _, rest = name.rpartition("/")[0].rpartition("/")
        kind = name.rpartition("/")[2]
        fits = array.shape == truth.shape if kind == "images" else array.ndim == 2 and array.size
        if rest.isdecimal() and kind in found and fits:
            found[kind].setdefault(model, {})[int(rest)] = np.asarray(array, np.float64)
    if not found["images"]:
        return None
    return Pictures(seed=task.seed, truth=np.asarray(truth, np.float64), **found)
