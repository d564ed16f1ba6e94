"""Curves and tables (CSV, JSON) of stored results."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from korisk import _json
from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.curves import stored
from korisk.curves.curve import Curve
from korisk.curves.read import DIGEST
from korisk.curves.unit import unit_by_name
from korisk.errors import Argument, KoriskError, did_you_mean
from korisk.files import to_cell
from korisk.store.cells import row_digests
from korisk.store.store import FlatRow, Store

Value = str | int | float | bool | None

FORMATS = ("csv", "json")
_FROM_DETAIL = ("lambda", "seconds")  # columns from a row's detail, where it has them


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
        chosen, in its unit. Sizes of 0 and errors that are not finite are left out.

    Examples
    --------
    >>> from korisk.studies import FlatRow, Row, Task, curves
    >>> task = Task(point="a", seed=1, spec={"metric": "mse"})
    >>> rows = [FlatRow(task=task, row=Row(model="KO", n=n, metrics={"mse": 1 / n}))
    ...         for n in (8, 16)]
    >>> curves(rows)
    {'a': [Curve('KO', mse, N = 8 ... 16 (2 sizes), 1 seed)]}
    """
    curves_by_point = {}
    for point, point_rows in stored.by_point(rows).items():
        choice = stored.chosen(point_rows[0].task.spec, (flat.row for flat in point_rows))
        values: dict[str, list[tuple[int, float, int]]] = {}
        for flat in point_rows:
            model_values = values.setdefault(flat.row.model, [])
            error = choice.error(flat.row)
            # n = 0 is a network before training, which has no place on a logarithmic axis.
            if flat.row.n > 0 and math.isfinite(error):
                model_values.append((flat.row.n, error, flat.task.seed))
        candidates = [curve_from(errors, model, choice)[0] for model, errors in values.items()]
        curves_by_point[point] = [curve for curve in candidates if curve is not None]
    return curves_by_point


def curve_from(
    values: Iterable[tuple[int, float, int]], model: str, choice: stored.Chosen
) -> tuple[Curve | None, list[str]]:
    """The curve of (n, error, seed), or None if there are no errors, and notes on errors of 0."""
    points, notes = stored.without_perfect(values)
    if not points:
        return None, notes
    sizes, errors, seeds = zip(*points, strict=True)
    return Curve.of_errors(sizes, errors, seeds, model, choice.metric, choice.unit), notes


# --- Tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table: names of columns, and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def results_table(store: Store, *, point: str | None = None) -> Table:
    """A table with a row for each point, seed, model and n: properties, then metrics.

    Properties are the plain values at the top level of a point's spec and of its problem; one with
    the name of another column is called spec.NAME.
    """
    # Properties become columns, named so that they do not hide others.
    flat_rows = _rows(store, point)
    group = stored.grouping(flat_rows)
    metrics = _names(flat.row.metrics for flat in flat_rows)
    properties = []
    for flat in flat_rows:
        problem = flat.task.spec.get("problem")
        values = _plain(problem if isinstance(problem, Mapping) else {}) | _plain(flat.task.spec)
        # The point and N of a pilot are columns already.
        if stored.PART_OF in values:
            del values[stored.PART_OF], values["n"]
        properties.append(values)
    names = _names(properties)
    detail = [name for name in _FROM_DETAIL if any(name in flat.row.detail for flat in flat_rows)]
    columns = {"point", "seed", "model", "n", "error", "metric", *_FROM_DETAIL, *metrics}
    titles = [f"spec.{name}" if name in columns else name for name in names]
    rows = []
    for flat, values in zip(flat_rows, properties, strict=True):
        task, row, details = flat.task, flat.row, _plain(flat.row.detail)
        measured = [*map(row.metrics.get, metrics), *map(details.get, detail)]
        rows.append((group(task), *map(values.get, names), task.seed, row.model, row.n, *measured))
    return Table(("point", *titles, "seed", "model", "n", *metrics, *detail), tuple(rows))


def pilot_table(store: Store, metric: str, *, point: str | None = None) -> Table:
    """One point's values of one metric at n >= 2, as `Curve.read` and `korisk plan` take them."""
    flat_rows = _rows(store, point)
    points = list(stored.by_point(flat_rows))
    if len(points) > 1:
        problem = f"{store.path}: a pilot is of one point, and there are {', '.join(points)}; "
        raise KoriskError(problem, "name one with ", Argument("point", ...))
    metrics = _names(flat.row.metrics for flat in flat_rows)
    if metric not in metrics:
        raise KoriskError(f"{store.path}: no metric {metric!r}{did_you_mean(metric, metrics)}")
    models = grouped((flat.row.model, flat) for flat in flat_rows)
    units = {}
    for model, model_rows in models.items():
        spec, measured = model_rows[0].task.spec, (flat.row for flat in model_rows)
        units[model] = stored.chosen(spec, measured, metric).unit.name
    rows = [
        (row.n, row.metrics[metric], flat.task.seed, row.model, metric, units[row.model])
        for flat in flat_rows
        if (row := flat.row).n >= stored.LEAST_N and metric in row.metrics
    ]
    if not rows:
        problem = f"{store.path}: no {metric!r} of n >= {stored.LEAST_N}"
        raise KoriskError(f"{problem}; a pilot needs larger n")
    return signed_table(rows)


def signed_table(rows: Sequence[tuple[Value, ...]]) -> Table:
    """A table of (n, value, seed, model, metric, unit), with a digest of each row.

    The column of units is left out if the names of all metrics imply it.
    """
    columns: tuple[str, ...] = ("n", "error", "seed", "model", "metric", "unit")
    if all(unit == unit_by_name(str(metric)) for *_, metric, unit in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    # With a digest in each row, edits by hand are noticed when the table is read.
    signed = zip(rows, row_digests(columns, rows), strict=True)
    return Table((*columns, DIGEST), tuple((*row, digest) for row, digest in signed))


def csv_text(table: Table) -> str:
    """The table as CSV, with all digits of floats, empty missing values, and nan and inf.

    A text that a spreadsheet would read as a formula gets a leading apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(to_cell, row) for row in (table.columns, *table.rows))
    return text.getvalue()


def json_text(table: Table) -> str:
    """The table as a list of records; infinite and undefined values become null."""
    records = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return _json.json_text(records, indent=1) + "\n"


def _rows(store: Store, point: str | None) -> list[FlatRow]:
    """Rows of a point, or of all points; unnamed metrics get the name that was used last."""
    if not (flat_rows := [flat for flat in store.rows() if not stored.is_longer(flat.task)]):
        raise KoriskError(f"{store.path}: no cell is finished yet; run the study first")
    points, group = stored.by_point(flat_rows), stored.grouping(flat_rows)
    if point is not None and point not in points:
        raise KoriskError(f"{store.path}: no point {point!r}{did_you_mean(point, points)}")
    # A pilot may return bare numbers and be told what they measure later: the last name counts.
    bare = [flat.row for flat in flat_rows if flat.row.detail.get(stored.BARE)]
    names = {row.model: next(iter(row.metrics)) for row in bare}
    rows = []
    for flat in flat_rows:
        if flat.row.detail.get(stored.BARE):
            metrics = stored.renamed(flat.row, names[flat.row.model])
            flat = replace(flat, row=replace(flat.row, metrics=metrics))
        if point is None or group(flat.task) == point:
            rows.append(flat)
    return rows


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """The keys of all mappings, in the order of their first occurrence."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _plain(content: JsonMapping) -> dict[str, Value]:
    """The entries that fit in a cell of a table."""
    return {
        name: value
        for name, value in content.items()
        if value is None or isinstance(value, str | int | float | bool)
    }
