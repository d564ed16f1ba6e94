"""From stored rows to curves, crossovers, and tables for other programs (CSV, JSON, Parquet)."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from korisk.curves.curve import Curve
from korisk.curves.unit import LARGEST_ERROR, SMALLEST_ERROR, UNITS, Unit, suggested_unit
from korisk.errors import KoriskError, MissingExtraError, did_you_mean
from korisk.planning.compare import Crossover, compare
from korisk.store.cells import Row, Task
from korisk.store.store import FlatRow, Store

LEAST_SIZES = 3  # that a curve needs to be extrapolated
LEAST_N = 2  # of a learning curve; smaller N are before any training
PART_OF = "part_of"  # in a spec: what the point is a part of, as one N is of a pilot

# In the detail of a pilot's row: the metric to plan with, its unit, and whether the fit returned a
# number without a name, which then has the name of the metric that it is read as.
METRIC, UNIT, BARE = "metric", "unit", "bare"

_BEST = {"error": 0.0, "complement": 1.0, "percent": 100.0, "squared": 0.0, "negated": 0.0}


@dataclass(frozen=True)
class Chosen:
    """The metric that a point's curves show, and its unit."""

    metric: str
    unit: Unit

    def error(self, row: Row) -> float:
        """A row's error, as `error_of` computes it; nan if it has none."""
        value = renamed(row, self.metric).get(self.metric)
        return math.nan if value is None else error_of(self.unit, value)


def chosen(spec: Mapping[str, Any], rows: Iterable[Row]) -> Chosen:
    """The study's metric, the one that a pilot chose last, or else the first that was measured."""
    own = list(rows)
    metric, unit = spec.get("metric"), None
    if metric is None and PART_OF in spec:
        detail = next((row.detail for row in reversed(own) if METRIC in row.detail), {})
        metric, unit = detail.get(METRIC), UNITS.get(str(detail.get(UNIT)))
    if metric is None:
        metric = next((name for row in own for name in row.metrics), "")
    return Chosen(str(metric), unit or UNITS[suggested_unit(str(metric)) or "error"])


def renamed(row: Row, name: str) -> dict[str, float]:
    """A row's metrics; a number without a name gets this one."""
    if not row.detail.get(BARE):
        return {**row.metrics}
    return dict(zip([name], row.metrics.values(), strict=False))


def error_of(unit: Unit, value: float) -> float:
    """The error of a metric's value: 0 for a perfect one, nan for one that no curve can hold."""
    if value == _BEST.get(unit.law):
        return 0.0
    error = float(unit.to_error(value))
    return error if SMALLEST_ERROR <= error <= LARGEST_ERROR else math.nan


def group_of(task: Task) -> str:
    """The name under which a task's rows are shown: its point, or what that is a part of."""
    return str(task.spec.get(PART_OF, task.point))


def by_point(rows: Iterable[FlatRow]) -> dict[str, list[FlatRow]]:
    """Rows by `group_of` their task, in the order in which they appear."""
    groups: dict[str, list[FlatRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row.task), []).append(row)
    return groups


def curves(rows: Iterable[FlatRow]) -> dict[str, list[Curve]]:
    """The curves of each point, one for each model.

    Parameters
    ----------
    rows : iterable of FlatRow
        From `Store.rows`.

    Returns
    -------
    dict of str to list of Curve
        Curves by point, in the metric that the study names; for a pilot in the metric that was
        chosen, in its unit. Values that no curve can hold are left out.

    Examples
    --------
    >>> from korisk.studies import FlatRow, Row, Task, curves
    >>> task = Task(point="a", seed=1, spec={"metric": "mse"})
    >>> rows = [FlatRow(task=task, row=Row(model="KO", n=n, metrics={"mse": 1 / n}))
    ...         for n in (8, 16)]
    >>> curves(rows)
    {'a': [Curve('KO', mse, N = 8 ... 16 (2 sizes), 1 seed)]}
    """
    found = {}
    for point, own in by_point(rows).items():
        shown = chosen(own[0].task.spec, (each.row for each in own))
        values: dict[str, list[tuple[int, float, int]]] = {}
        for each in own:
            of_model = values.setdefault(each.row.model, [])
            error = shown.error(each.row)
            if each.row.n > 0 and math.isfinite(error):
                of_model.append((each.row.n, error, each.task.seed))
        made = [curve_from(errors, model, shown)[0] for model, errors in values.items()]
        found[point] = [curve for curve in made if curve is not None]
    return found


def curve_from(
    values: Iterable[tuple[int, float, int]], model: str, shown: Chosen
) -> tuple[Curve | None, list[str]]:
    """The curve of (n, error, seed), None without errors, and notes on errors of 0.

    A curve cannot hold 0. At an N with some errors of 0 the others are scaled down to the mean of
    all: without the perfect fits the curve would look worse than it is.
    """
    at: dict[int, list[tuple[int, float, int]]] = {}
    for value in values:
        at.setdefault(value[0], []).append(value)
    kept: list[tuple[int, float, int]] = []
    notes = []
    for n, every in sorted(at.items()):
        imperfect = [value for value in every if value[1] > 0]
        share = len(imperfect) / len(every)
        kept += [(n, error * share, seed) for _, error, seed in imperfect]
        perfect = len(every) - len(imperfect)
        if perfect and imperfect:
            notes.append(
                f"{perfect} of {len(every)} fits at N = {n:,} {'was' if perfect == 1 else 'were'} "
                "perfect; the others are scaled to the mean of all"
            )
        elif perfect:
            notes.append(f"every fit at N = {n:,} was perfect")
    kept = [each for each in kept if each[1] >= SMALLEST_ERROR]
    if not kept:
        return None, notes
    sizes, errors, seeds = zip(*kept, strict=True)
    return Curve(sizes, errors, seeds, model=model, metric=shown.metric, unit=shown.unit), notes


@dataclass(frozen=True)
class Crossing:
    """Where the better of two models changes, as far as the results show."""

    found: Crossover | None  # of the posterior, if there is one
    means: tuple[int, int] | None  # N between which mean errors change their order, there or last
    better: str  # the model with the lower mean error at the largest N of both
    last: int  # that N
    sizes: int  # how many N both were measured at


def crossing(first: Curve, second: Curve) -> Crossing | None:
    """Where the better of two curves changes; None if they have no N in common."""
    shared = sorted(set(first.sizes.tolist()) & set(second.sizes.tolist()))
    if not shared:
        return None
    found = None
    if min(len(first.sizes), len(second.sizes)) >= LEAST_SIZES:
        # The crossover does not depend on the target; one that is too easy would be refused.
        lowest = first.unit.from_error(min(first.means.min(), second.means.min()))
        found = compare(first, second, float(lowest)).crossover
    ahead = [mean_at(second, n) < mean_at(first, n) for n in shared]
    changes = [
        (shared[at - 1], shared[at]) for at in range(1, len(ahead)) if ahead[at] != ahead[at - 1]
    ]
    there = [each for each in changes if found is not None and each[0] <= found.n <= each[1]]
    return Crossing(
        found=found,
        means=next(iter(there + changes[::-1]), None),
        better=(second if ahead[-1] else first).model,
        last=shared[-1],
        sizes=len(shared),
    )


def mean_at(curve: Curve, n: int) -> float:
    """The mean error at one of the curve's N."""
    return float(curve.means[curve.sizes.tolist().index(n)])


# --- Tables --------------------------------------------------------------------------------------

Value = str | int | float | bool | None

FORMATS = ("csv", "json", "parquet")
_FROM_DETAIL = ("lambda", "seconds")  # columns from a row's detail, where it has them


@dataclass(frozen=True)
class Table:
    """Names of columns, and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def results_table(store: Store, *, point: str | None = None) -> Table:
    """One row for each point, seed, model and n: the point's properties, then every metric.

    The properties are the plain values at the top of a point's spec and of its problem; one with
    the name of another column is called spec.NAME.
    """
    found = _rows(store, point)
    metrics = _names(flat.row.metrics for flat in found)
    properties = []
    for flat in found:
        problem = flat.task.spec.get("problem")
        own = _plain(problem if isinstance(problem, Mapping) else {}) | _plain(flat.task.spec)
        if PART_OF in own:  # a pilot: its N and what it is a part of are columns already
            del own[PART_OF], own["n"]
        properties.append(own)
    about = _names(properties)
    detail = [name for name in _FROM_DETAIL if any(name in flat.row.detail for flat in found)]
    taken = {"point", "seed", "model", "n", "error", "metric", *_FROM_DETAIL, *metrics}
    titles = [f"spec.{name}" if name in taken else name for name in about]
    return Table(
        ("point", *titles, "seed", "model", "n", *metrics, *detail),
        tuple(
            (
                group_of(flat.task),
                *(own.get(name) for name in about),
                *(flat.task.seed, flat.row.model, flat.row.n),
                *(flat.row.metrics.get(name) for name in metrics),
                *(_plain(flat.row.detail).get(name) for name in detail),
            )
            for flat, own in zip(found, properties, strict=True)
        ),
    )


def pilot_table(store: Store, metric: str, *, point: str | None = None) -> Table:
    """One point's values of one metric at n >= 2, as `Curve.read` and `korisk plan` take them."""
    found = _rows(store, point)
    points = list(by_point(found))
    if len(points) > 1:
        raise KoriskError(
            f"{store.path}: a pilot is of one point, and there are {', '.join(points)}; "
            "name one with point="
        )
    metrics = _names(flat.row.metrics for flat in found)
    if metric not in metrics:
        raise KoriskError(f"{store.path}: no metric {metric!r}{did_you_mean(metric, metrics)}")
    rows = tuple(
        (flat.row.n, flat.row.metrics[metric], flat.task.seed, flat.row.model, metric)
        for flat in found
        if flat.row.n >= LEAST_N and metric in flat.row.metrics
    )
    if not rows:
        raise KoriskError(f"{store.path}: no {metric!r} of n >= {LEAST_N}; a pilot needs larger n")
    return Table(("n", "error", "seed", "model", "metric"), rows)


def csv_text(table: Table) -> str:
    """The table as CSV. Floats keep every digit; missing values are empty; nan and inf stay."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def json_text(table: Table) -> str:
    """The table as a list of records; infinite and undefined values become null."""
    records = [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]
    return json.dumps(records, indent=1, allow_nan=False) + "\n"


def parquet_bytes(table: Table) -> bytes:
    """The table as a Parquet file; columns of several types become numbers, else texts."""
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "Parquet needs pyarrow, which is not installed; pip install 'korisk[io]', "
            "or use the format csv"
        ) from None
    columns = {}
    for place, name in enumerate(table.columns):
        values: list[Any] = [row[place] for row in table.rows]
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1:
            convert: Callable[[Any], Value] = float if kinds == {int, float} else str
            values = [None if value is None else convert(value) for value in values]
        columns[name] = values
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns), content)
    return content.getvalue()


def _rows(store: Store, point: str | None) -> list[FlatRow]:
    """The rows of a point, or of all; numbers without a name have the one that came last."""
    found = list(store.rows())
    if not found:
        raise KoriskError(f"{store.path}: no cell is finished yet; run the study first")
    points = by_point(found)
    if point is not None and point not in points:
        raise KoriskError(f"{store.path}: no point {point!r}{did_you_mean(point, points)}")
    last = {group_of(f.task): next(iter(f.row.metrics)) for f in found if f.row.detail.get(BARE)}
    return [
        replace(each, row=replace(each.row, metrics=renamed(each.row, last[group])))
        if each.row.detail.get(BARE)
        else each
        for each in found
        if (group := group_of(each.task)) == point or point is None
    ]


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """The keys of all mappings, in the order in which they first appear."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _plain(content: Mapping[str, Any]) -> dict[str, Value]:
    """The entries that fit in a cell of a table."""
    return {
        name: value
        for name, value in content.items()
        if value is None or isinstance(value, str | int | float | bool)
    }
