"""Curves in a store: their metric, and values that a curve cannot hold.

The store of a study has points, each with a curve for every model. That of a pilot has a cell for
every fit; its models form one point if they were measured in the same metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from korisk._group import grouped
from korisk.curves.unit import LARGEST_ERROR, SMALLEST_ERROR, UNITS, Unit, suggested_unit
from korisk.errors import Argument, KoriskError, did_you_mean, shown

if TYPE_CHECKING:
    from korisk.store.cells import Row, Task
    from korisk.store.store import FlatRow

LEAST_N = 2  # of a learning curve; smaller N are errors before training
PART_OF = "part_of"  # key of a spec: the pilot that a point, such as one N, belongs to

# Keys in the detail of a pilot's row: the metric to plan with, its unit, and whether the fit
# returned a number without a name, which gets the name of the metric that is read.
METRIC, UNIT, BARE = "metric", "unit", "bare"
TRAINING = "training"  # key in the detail as well: training errors, steps and epochs
LONGER = "longer"  # key of a spec: multiple of the usual training

# Perfect values by the law of a unit: their error is 0, which a curve cannot hold.
_BEST = {"error": 0.0, "complement": 1.0, "percent": 100.0, "squared": 0.0, "negated": 0.0}


@dataclass(frozen=True)
class Chosen:
    """The metric of a point's curves, and its unit."""

    metric: str
    unit: Unit

    def error(self, row: Row) -> float:
        """The error of a row, as in `error_of`; nan if the metric was not measured."""
        value = renamed(row, self.metric).get(self.metric)
        return math.nan if value is None else error_of(self.unit, value)


def chosen(spec: Mapping[str, Any], rows: Iterable[Row], requested: str | None = None) -> Chosen:
    """The metric of a study, the last choice of a pilot, or else the first that was measured.

    A `requested` metric takes precedence, with the unit of its name.
    """
    listed = list(rows)
    metric, unit = spec.get("metric"), None
    # A pilot may be resumed with another metric: the latest row counts.
    if metric is None and PART_OF in spec:
        detail = next((row.detail for row in reversed(listed) if METRIC in row.detail), {})
        metric, unit = detail.get(METRIC), UNITS.get(str(detail.get(UNIT)))
    if metric is None:
        metric = next((name for row in listed for name in row.metrics), "")
    if requested not in (None, metric):
        metric, unit = requested, None
    return Chosen(str(metric), unit or UNITS[suggested_unit(str(metric)) or "error"])


def renamed(row: Row, name: str) -> dict[str, float]:
    """The metrics of a row; a number without a name gets this one."""
    if not row.detail.get(BARE):
        return {**row.metrics}
    return dict(zip([name], row.metrics.values(), strict=False))


def error_of(unit: Unit, value: float) -> float:
    """The error of a metric's value: 0 for a perfect one, nan if a curve cannot hold it."""
    if value == _BEST.get(unit.law):
        return 0.0
    error = float(unit.to_error(value))
    return error if SMALLEST_ERROR <= error <= LARGEST_ERROR else math.nan


def grouping(rows: Iterable[FlatRow]) -> Callable[[Task], str]:
    """A function from a task to the name of its point in reports.

    Each fit of a pilot is a point of the store. Reports group them under the model's name, and
    those of several models under "pilot" if these were measured in the same metric.
    """
    fits = (row for row in rows if PART_OF in row.task.spec)
    models = grouped((str(row.task.spec[PART_OF]), row) for row in fits)
    choices = {chosen(group[0].task.spec, (r.row for r in group)) for group in models.values()}
    together = len(models) > 1 and len(choices) == 1

    def group(task: Task) -> str:
        if PART_OF not in task.spec:
            return task.point
        return "pilot" if together else str(task.spec[PART_OF])

    return group


def is_longer(task: Task) -> bool:
    """Whether a task is a pilot's fit with longer training, which belongs to no curve."""
    return PART_OF in task.spec and LONGER in task.spec


def by_point(rows: Iterable[FlatRow]) -> dict[str, list[FlatRow]]:
    """Rows by the name of their point, in order of appearance, without longer runs."""
    usual = [row for row in rows if not is_longer(row.task)]
    group = grouping(usual)
    return grouped((group(row.task), row) for row in usual)


def without_perfect(
    values: Iterable[tuple[int, float, int]],
) -> tuple[list[tuple[int, float, int]], list[str]]:
    """The (n, error, seed) that a curve can hold, and notes on errors of 0.

    A curve cannot hold 0. At an N with some errors of 0, the others are scaled to the mean of all;
    leaving the perfect fits out would make the curve look worse than it is.
    """
    by_size = grouped((value[0], value) for value in values)
    usable: list[tuple[int, float, int]] = []
    notes = []
    for n, every in sorted(by_size.items()):
        imperfect = [value for value in every if value[1] > 0]
        share, perfect = len(imperfect) / len(every), len(every) - len(imperfect)
        usable += [(n, error * share, seed) for _, error, seed in imperfect]
        if perfect and imperfect:
            notes.append(
                f"{perfect} of {len(every)} fits at N = {n:,} {'was' if perfect == 1 else 'were'} "
                "perfect; the others are scaled to the mean of all"
            )
        elif perfect:
            notes.append(f"every fit at N = {n:,} was perfect")
    return [value for value in usable if value[1] >= SMALLEST_ERROR], notes


@dataclass(frozen=True)
class StoredCurve:
    """The errors of one model at one point of a store."""

    model: str
    chosen: Chosen
    values: list[tuple[int, float, int]]  # n, error, seed
    notes: list[str]


def training_name(metric: str, names: Iterable[str]) -> str:
    """The name of a metric's training error among `names`; empty if there is none.

    `test_loss` belongs to `train_loss`, and `train` to any metric.
    """
    stem = re.sub(r"^(test|val|valid|validation)_", "", metric)
    known = set(names)
    candidates = (f"train_{metric}", f"train_{stem}", "train")
    return next((name for name in candidates if name in known), "")


class MeasuredFit(NamedTuple):
    """One fit of a pilot, with the details of its training."""

    n: int
    seed: int
    value: float  # on the test set, in the metric's unit
    training: Mapping[str, float]  # training errors, steps and epochs
    longer: float | None  # multiple of the usual training; None: the usual one


def stored_fits(path: str | PathLike[str], model: str, metric: str) -> list[MeasuredFit]:
    """All fits of a pilot's model in a store, including longer runs."""
    from korisk.store.store import Store, store_path

    with Store.read(store_path(path)) as store:
        rows = [flat for flat in store.rows() if flat.task.spec.get(PART_OF) == model]
    fits = []
    for row, task in ((flat.row, flat.task) for flat in rows):
        if (value := renamed(row, metric).get(metric)) is not None:
            training, longer = row.detail.get(TRAINING, {}), task.spec.get(LONGER)
            fits.append(MeasuredFit(row.n, task.seed, value, training, longer))
    return fits


def stored_curves(
    path: str | PathLike[str],
    point: str | None = None,
    metric: str | None = None,
    unit: Unit | None = None,
) -> list[StoredCurve]:
    """The curves of a point in a store, by default its only one; in `unit`, if it is given."""
    from korisk.store.store import Store, store_path

    with Store.read(store_path(path)) as store:
        rows, failed = list(store.rows()), len(store.failures())
    if not (groups := by_point(rows)):
        raise KoriskError(f"{path}: no cell is finished yet; run the study first")
    if point is None and len(groups) > 1:
        listed = ", ".join(map(shown, groups))
        problem = f"has {len(groups)} points, {listed}; name one, such as "
        raise KoriskError(f"{path}: {problem}", Argument("point", next(iter(groups))))
    name = next(iter(groups)) if point is None else point
    if name not in groups:
        raise KoriskError(f"{path}: no point {shown(name)}{did_you_mean(name, list(groups))}")
    curves = []
    for model, rows_of in grouped((row.row.model, row) for row in groups[name]).items():
        choice = chosen(rows_of[0].task.spec, (flat.row for flat in rows_of), metric)
        choice = choice if unit is None else Chosen(choice.metric, unit)
        known = list(dict.fromkeys(key for flat in rows_of for key in flat.row.metrics))
        bare = any(flat.row.detail.get(BARE) for flat in rows_of)  # takes any name
        if metric is not None and metric not in known and not bare:
            raise KoriskError(f"{path}: no metric {shown(metric)}{did_you_mean(metric, known)}")
        later = [flat for flat in rows_of if flat.row.n >= LEAST_N]
        values = [(flat.row.n, choice.error(flat.row), flat.task.seed) for flat in later]
        finite = [value for value in values if not math.isnan(value[1])]
        usable, notes = without_perfect(finite)
        notes.insert(0, f"values from {shown(choice.metric)} of the store")
        if len(finite) < len(values):
            notes.append(f"{len(values) - len(finite)} values that no curve can hold left out")
        if failed:
            notes.append(f"{failed} failed cells left out")
        if usable:
            curves.append(StoredCurve(model, choice, usable, notes))
    if not curves:
        raise KoriskError(f"{path}: no values of N >= {LEAST_N}; a pilot needs larger N")
    return curves
