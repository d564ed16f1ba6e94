"""From stored rows to curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from korisk.curves.curve import Curve
from korisk.curves.unit import LARGEST_ERROR, SMALLEST_ERROR, UNITS, Unit, suggested_unit
from korisk.planning.compare import Crossover, compare
from korisk.studies.result import Row, Task
from korisk.studies.store.store import FlatRow

LEAST_SIZES = 3  # from which on curves can be extrapolated
PART_OF = "part_of"  # in a spec: what the point is a part of, as one N is of a pilot

# In the detail of a pilot's row: the metric that is looked at, its unit, and whether the fit gave
# a number without a name, which then has the name of the metric that it is read as.
METRIC, UNIT, BARE = "metric", "unit", "bare"

_BEST = {"error": 0.0, "complement": 1.0, "percent": 100.0, "squared": 0.0, "negated": 0.0}

Value = tuple[int, float, int]  # n, error, seed


def curve_of(rows: Iterable[FlatRow], model: str, metric: str) -> Curve | None:
    """The curve of one model's errors in the rows of one point, None where it has none.

    Unlike `curves` it refuses what no curve can hold: a sweep of the paper has all its values.
    """
    own = [each for each in rows if each.row.model == model and each.row.n > 0]
    if not own:
        return None
    return Curve(
        [each.row.n for each in own],
        [each.row.metrics[metric] for each in own],
        [each.task.seed for each in own],
        model=model,
        metric=metric,
    )


@dataclass(frozen=True)
class Chosen:
    """The metric that a point's curves are about, in its unit."""

    metric: str
    unit: Unit

    def value(self, row: Row) -> float | None:
        """A row's value of it, None where it has none."""
        if row.detail.get(BARE):
            return next(iter(row.metrics.values()))
        return row.metrics.get(self.metric)

    def error(self, row: Row) -> float:
        """A row's error, as `error_of` tells it; nan where it has none."""
        value = self.value(row)
        return math.nan if value is None else error_of(self.unit, value)


def chosen(spec: Mapping[str, Any], rows: Iterable[Row]) -> Chosen:
    """What the study names, or what a pilot last chose, or else the first that was measured."""
    own = list(rows)
    metric, unit = spec.get("metric"), None
    if metric is None and PART_OF in spec:
        told = next((row.detail for row in reversed(own) if METRIC in row.detail), {})
        metric, unit = told.get(METRIC), UNITS.get(str(told.get(UNIT)))
    if metric is None:
        metric = next((name for row in own for name in row.metrics), "")
    return Chosen(str(metric), unit or UNITS[suggested_unit(str(metric)) or "error"])


def with_names(rows: Iterable[FlatRow]) -> list[FlatRow]:
    """Rows in which the nameless numbers of a pilot all have the name that was last given."""
    found = list(rows)
    last = {group_of(f.task): next(iter(f.row.metrics)) for f in found if f.row.detail.get(BARE)}
    return [
        replace(each, row=replace(each.row, metrics=renamed(each.row, last[group_of(each.task)])))
        if each.row.detail.get(BARE)
        else each
        for each in found
    ]


def renamed(row: Row, name: str) -> dict[str, float]:
    """A row's metrics; a number without a name gets this one."""
    return dict.fromkeys([name], *row.metrics.values()) if row.detail.get(BARE) else {**row.metrics}


def error_of(unit: Unit, value: float) -> float:
    """The error of a metric's value: 0 for a perfect one, nan for one that no curve can hold."""
    if value == _BEST.get(unit.law):
        return 0.0
    error = float(unit.to_error(value))
    return error if SMALLEST_ERROR <= error <= LARGEST_ERROR else math.nan


def without_perfect(values: Iterable[Value]) -> tuple[list[Value], list[str]]:
    """What a curve holds of errors some of which are 0, and what that means, in words.

    A curve has no place for 0. At an N where some errors are, the others are scaled down so that
    their mean is that of all: left out alone, the perfect fits would make the curve look worse.
    """
    at: dict[int, list[Value]] = {}
    for value in values:
        at.setdefault(value[0], []).append(value)
    kept: list[Value] = []
    words = []
    for n, every in sorted(at.items()):
        imperfect = [value for value in every if value[1] > 0]
        share = len(imperfect) / len(every)
        kept += [(n, error * share, seed) for _, error, seed in imperfect]
        perfect = len(every) - len(imperfect)
        if perfect and imperfect:
            words.append(
                f"{perfect} of {len(every)} fits at N = {n:,} {'was' if perfect == 1 else 'were'} "
                "perfect; the others stand for the mean of all"
            )
        elif perfect:
            words.append(f"every fit at N = {n:,} was perfect")
    return [each for each in kept if each[1] >= SMALLEST_ERROR], words


def group_of(task: Task) -> str:
    """What a task's rows are shown under: its point, or what that is a part of."""
    return str(task.spec.get(PART_OF, task.point))


def by_point(rows: Iterable[FlatRow]) -> dict[str, list[FlatRow]]:
    """Rows of each point, or of all that are part of one, in the order in which they appear."""
    groups: dict[str, list[FlatRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row.task), []).append(row)
    return groups


def curves(rows: Iterable[FlatRow]) -> dict[str, list[Curve]]:
    """The curves of each point in the metric that its study names, one for each model.

    Of a pilot it is the metric that was chosen, in its unit. What no curve can hold is left out.

    Keys are points; `rows` come from `Store.rows`.

    >>> from korisk.studies import FlatRow, Row, Task, curves
    >>> task = Task(point="a", seed=1, spec={"metric": "mse"})
    >>> rows = [FlatRow(task=task, row=Row(model="KO", n=n, metrics={"mse": 1 / n}))
    ...         for n in (8, 16)]
    >>> curves(rows)
    {'a': [Curve('KO', mse, N = 8 ... 16 (2 sizes), 1 seed)]}
    """
    found = {}
    for point, own in by_point(rows).items():
        spec = own[0].task.spec
        looked_at = chosen(spec, (each.row for each in own))
        models = dict.fromkeys(each.row.model for each in own)
        made = [model_curve(own, model, looked_at)[0] for model in models]
        found[point] = [curve for curve in made if curve is not None]
    return found


def model_curve(
    rows: Iterable[FlatRow], model: str, looked_at: Chosen
) -> tuple[Curve | None, list[str]]:
    """The curve of a model in a point's rows, None where it has none, and words of perfect fits."""
    values = [
        (each.row.n, error, each.task.seed)
        for each in rows
        if each.row.model == model
        and each.row.n > 0
        and math.isfinite(error := looked_at.error(each.row))
    ]
    return curve_from(values, model, looked_at)


def curve_from(
    values: Iterable[Value], model: str, looked_at: Chosen
) -> tuple[Curve | None, list[str]]:
    """The curve of errors some of which may be 0, and words about these."""
    kept, words = without_perfect(values)
    if not kept:
        return None, words
    sizes, errors, seeds = zip(*kept, strict=True)
    unit, metric = looked_at.unit, looked_at.metric
    return Curve(sizes, errors, seeds, model=model, metric=metric, unit=unit), words


@dataclass(frozen=True)
class Crossing:
    """Where the better of two models changes, as far as results tell."""

    found: Crossover | None  # by the planner's odds; None where it tells of none
    means: tuple[int, int] | None  # N between which mean errors change their order, there or last
    better: str  # the model with the lower mean error at the largest N of both
    last: int  # that N
    sizes: int  # how many N both were measured at

    @property
    def measured(self) -> bool:
        """Whether the N that was found lies where the mean errors change their order."""
        if self.found is None or self.means is None:
            return False
        return self.means[0] <= self.found.n <= self.means[1]


def crossing(first: Curve, second: Curve) -> Crossing | None:
    """How two curves stand to each other; None where they have no N in common."""
    shared = sorted(set(first.sizes.tolist()) & set(second.sizes.tolist()))
    if not shared:
        return None
    ahead = [mean_at(second, n) < mean_at(first, n) for n in shared]
    found = _by_odds(first, second)
    turns = [
        (shared[at - 1], shared[at]) for at in range(1, len(ahead)) if ahead[at] != ahead[at - 1]
    ]
    there = [turn for turn in turns if found is not None and turn[0] <= found.n <= turn[1]]
    return Crossing(
        found=found,
        means=next(iter(there + turns[::-1]), None),
        better=(second if ahead[-1] else first).model,
        last=shared[-1],
        sizes=len(shared),
    )


def mean_at(curve: Curve, n: int) -> float:
    """The mean error at one of the curve's N."""
    return float(curve.means[curve.sizes.tolist().index(n)])


def _by_odds(first: Curve, second: Curve) -> Crossover | None:
    if min(len(first.sizes), len(second.sizes)) < LEAST_SIZES:
        return None
    # The crossover does not depend on the target; one that is too easy would be refused.
    lowest = first.unit.from_error(min(first.means.min(), second.means.min()))
    return compare(first, second, float(lowest)).crossover
