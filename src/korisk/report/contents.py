"""The contents of a report, read from a store at once: results, failures and missing cells.

Nothing is fitted and nothing is drawn here. A study may be half finished or still running: the
report shows what is stored and lists what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.curves.curve import Curve
from korisk.curves.stored import LEAST_N, PART_OF, chosen, grouping, is_longer
from korisk.errors import KoriskError
from korisk.report.tables.table import ReportTable
from korisk.store.cells import Task
from korisk.store.store import Cell, Failure, FlatRow, Store, store_path
from korisk.studies.results import curve_from
from korisk.studies.spec.study import asked_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Draw = Callable[..., "Figure | None"]  # with `narrow`

SQUARED = "(RMSE / max)\N{SUPERSCRIPT TWO}"


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Test images, and their reconstructions by each model in one cell."""

    seed: int
    truth: Array  # (K, H, W)
    images: Mapping[str, Mapping[int, Array]]  # by model, then n: (K, H, W); n = 0 is untrained


@dataclass(frozen=True, kw_only=True)
class Point:
    """One operating point: its curves, its cells, and the cells that are missing."""

    name: str
    spec: JsonMapping
    metric: str
    curves: tuple[Curve, ...]  # one for each model that has values to draw
    untrained: Mapping[str, float]  # mean error before training, by model
    cells: tuple[Cell, ...]  # finished ones
    failures: tuple[Failure, ...]
    missing: tuple[int, ...]  # seeds of cells that have not been run
    left_out: tuple[str, ...]  # sentences on values that a curve cannot contain
    pictures: Pictures | None

    @property
    def complete(self) -> bool:
        """Whether every cell that was asked for is there."""
        return not self.failures and not self.missing

    @property
    def rows(self) -> list[FlatRow]:
        """The rows of its finished cells."""
        return [FlatRow(task=cell.task, row=row) for cell in self.cells for row in cell.rows]


def squared(point: Point) -> Point:
    """A point as the paper draws it: errors in RMSE / max are squared.

    The paper's theorem bounds squared errors, and the lines of its Table 2 are fitted to them.
    """
    if point.metric != "rmse_over_max":
        return point
    curves = tuple(Curve(c.n, c.error**2, c.seed, c.model, SQUARED) for c in point.curves)
    untrained = {model: error**2 for model, error in point.untrained.items()}
    return replace(point, metric=SQUARED, curves=curves, untrained=untrained)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """A whole study as its report shows it."""

    name: str
    store: Path
    created: str  # ISO 8601, UTC
    korisk: str  # the version that created the store
    points: tuple[Point, ...]

    @property
    def complete(self) -> bool:
        """Whether every cell that was asked for is there."""
        return all(point.complete for point in self.points)


def read_contents(path: str | PathLike[str]) -> Contents:
    """Read everything that a report shows."""
    with Store.read(store_path(path)) as store:
        # Probes are fits of a pilot that were trained longer, and belong in no curve.
        cells = [cell for cell in store.results() if not is_longer(cell.task)]
        failures = [failure for failure in store.failures() if not is_longer(failure.task)]
        planned = asked_for(store.study)
        attempted = [*(cell.task for cell in cells), *(failure.task for failure in failures)]
        keys = {task.key for task in attempted}
        pending = [task for task in planned or () if task.key not in keys]
        # Each fit of a pilot is a point of the store; `grouping` shows them as one.
        points = []
        group = grouping(FlatRow(task=cell.task, row=row) for cell in cells for row in cell.rows)
        done = grouped((group(cell.task), cell) for cell in cells)
        failed = grouped((group(failure.task), failure) for failure in failures)
        missing = grouped((group(task), task) for task in pending)
        for name in done | failed | missing:
            by_kind = done.get(name, []), failed.get(name, []), missing.get(name, [])
            points.append(_point(store, name, *by_kind))
        return Contents(
            name=str(store.study.get("name", "")),
            store=store.path,
            created=store.created,
            korisk=store.korisk,
            points=tuple(points),
        )


@dataclass(frozen=True)
class Supplement:
    """What a package adds to reports of its own studies."""

    tables: Callable[[Contents, list[ReportTable]], list[ReportTable]]  # with its own among them
    # The question with which the page opens, its answer in sentences, and the names of the tables
    # below it; no sentences for the studies of others.
    opening: Callable[[Contents], tuple[str, list[str], Sequence[str]]]


# Packages append theirs when they are imported, so that this one needs none of them.
SUPPLEMENTS: list[Supplement] = []


def refuse_an_empty_one(contents: Contents) -> None:
    """Raise if no cell is finished, with the first reason."""
    if any(point.cells for point in contents.points):
        return
    failures = [failure for point in contents.points for failure in point.failures]
    reason = f", and {len(failures)} failed, the first: {failures[0].reason}" if failures else ""
    remedy = "correct that and retry the failed cells" if failures else "run the study first"
    raise KoriskError(f"{contents.store}: no cell is finished yet{reason}; {remedy}")


def _point(
    store: Store, name: str, cells: list[Cell], failures: list[Failure], missing: list[Task]
) -> Point:
    """Build a point: a curve for each model, and sentences on values that are left out.

    A pilot may contain perfect fits, with an error of 0, which count in its means.
    """
    # A point may have no finished cell yet.
    tasks = [*(cell.task for cell in cells), *(failure.task for failure in failures), *missing]
    # All cells of a point have the same spec: the store refuses another one.
    spec = tasks[0].spec
    choice = chosen(spec, (row for cell in cells for row in cell.rows))
    measured = [(row, choice.error(row), cell.task.seed) for cell in cells for row in cell.rows]
    initial = grouped((row.model, error) for row, error, _ in measured if row.n == 0 and error > 0)
    trained_rows = [(row, error, seed) for row, error, seed in measured if row.n >= LEAST_N]
    trained = grouped((row.model, (row.n, error, seed)) for row, error, seed in trained_rows)
    curves, left_out = [], []
    # The smallest positive double keeps every error above 0, and no NaN.
    least_error = 0.0 if PART_OF in spec else math.ulp(0.0)
    for model, values in trained.items():
        usable = [value for value in values if value[1] >= least_error]
        if len(usable) < len(values):
            removed = f"{len(values) - len(usable)} of {len(values)} values of {choice.metric}"
            reason = "are missing, not finite or not above 0, and are left out of the curve"
            left_out.append(f"{model}: {removed} {reason}")
        curve, sentences = curve_from(usable, model, choice)
        left_out += [f"{model}: {sentence}" for sentence in sentences]
        curves += [curve] if curve is not None else []
    return Point(
        name=name,
        spec=spec,
        metric=choice.metric,
        curves=tuple(curves),
        untrained={model: sum(errors) / len(errors) for model, errors in initial.items()},
        cells=tuple(cells),
        failures=tuple(failures),
        missing=tuple(task.seed for task in missing),
        left_out=tuple(left_out),
        pictures=_pictures(store, cells[0].task) if cells else None,
    )


def _pictures(store: Store, task: Task) -> Pictures | None:
    """The stored images of one cell."""
    # One cell is enough for pictures: the first that finished.
    arrays = store.arrays(task.key)
    truth = arrays.get("truth")
    if truth is None or truth.ndim != 3 or not truth.size:
        return None
    images: dict[str, dict[int, Array]] = {}
    for name, array in arrays.items():
        # Arrays are named MODEL/N/images; a model may contain a slash.
        model, _, size_text = name.rpartition("/")[0].rpartition("/")
        if size_text.isdecimal() and name.endswith("/images") and array.shape == truth.shape:
            images.setdefault(model, {})[int(size_text)] = np.asarray(array, np.float64)
    if not images:
        return None
    return Pictures(seed=task.seed, truth=np.asarray(truth, np.float64), images=images)
