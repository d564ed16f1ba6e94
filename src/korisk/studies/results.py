"""From stored rows to curves, crossovers, and tables for other programs (CSV, JSON, Parquet)."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.curves import stored
from korisk.curves.curve import Curve
from korisk.curves.read import DIGEST
from korisk.curves.unit import unit_by_name
from korisk.errors import Argument, KoriskError, did_you_mean, needed_by
from korisk.files import to_cell
from korisk.store.cells import row_digests
from korisk.store.store import FlatRow, Store

Value = str | int | float | bool | None

FORMATS = ("csv", "json", "parquet")
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
    for point, own in stored.by_point(rows).items():
        shown = stored.chosen(own[0].task.spec, (each.row for each in own))
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
    values: Iterable[tuple[int, float, int]], model: str, shown: stored.Chosen
) -> tuple[Curve | None, list[str]]:
    """The curve of (n, error, seed), None without errors, and notes on errors of 0."""
    kept, notes = stored.without_perfect(values)
    if not kept:
        return None, notes
    sizes, errors, seeds = zip(*kept, strict=True)
    curve = Curve.of_errors(sizes, errors, seeds, model, shown.metric, shown.unit)
    return curve, notes


# --- Tables --------------------------------------------------------------------------------------


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
    group = stored.grouping(found)
    metrics = _names(flat.row.metrics for flat in found)
    properties = []
    for flat in found:
        problem = flat.task.spec.get("problem")
        own = _plain(problem if isinstance(problem, Mapping) else {}) | _plain(flat.task.spec)
        if stored.PART_OF in own:  # a pilot: its N and what it is a part of are columns already
            del own[stored.PART_OF], own["n"]
        properties.append(own)
    about = _names(properties)
    detail = [name for name in _FROM_DETAIL if any(name in flat.row.detail for flat in found)]
    taken = {"point", "seed", "model", "n", "error", "metric", *_FROM_DETAIL, *metrics}
    titles = [f"spec.{name}" if name in taken else name for name in about]
    rows = []
    for flat, own in zip(found, properties, strict=True):
        task, row, told = flat.task, flat.row, _plain(flat.row.detail)
        measured = [*map(row.metrics.get, metrics), *map(told.get, detail)]
        rows.append((group(task), *map(own.get, about), task.seed, row.model, row.n, *measured))
    return Table(("point", *titles, "seed", "model", "n", *metrics, *detail), tuple(rows))


def pilot_table(store: Store, metric: str, *, point: str | None = None) -> Table:
    """One point's values of one metric at n >= 2, as `Curve.read` and `korisk plan` take them."""
    found = _rows(store, point)
    points = list(stored.by_point(found))
    if len(points) > 1:
        there = f"{store.path}: a pilot is of one point, and there are {', '.join(points)}; "
        raise KoriskError(there, "name one with ", Argument("point", ...))
    metrics = _names(flat.row.metrics for flat in found)
    if metric not in metrics:
        raise KoriskError(f"{store.path}: no metric {metric!r}{did_you_mean(metric, metrics)}")
    models = grouped((flat.row.model, flat) for flat in found)
    units = {
        model: stored.chosen(own[0].task.spec, (flat.row for flat in own), metric).unit.name
        for model, own in models.items()
    }
    rows = [
        (row.n, row.metrics[metric], flat.task.seed, row.model, metric, units[row.model])
        for flat in found
        if (row := flat.row).n >= stored.LEAST_N and metric in row.metrics
    ]
    if not rows:
        why = f"{store.path}: no {metric!r} of n >= {stored.LEAST_N}"
        raise KoriskError(f"{why}; a pilot needs larger n")
    return signed_table(rows)


def signed_table(rows: Sequence[tuple[Value, ...]]) -> Table:
    """A pilot of (n, value, seed, model, metric, unit), with a digest by which damage is noticed.

    The unit is left out where the names of all metrics tell it.
    """
    columns: tuple[str, ...] = ("n", "error", "seed", "model", "metric", "unit")
    if all(unit == unit_by_name(str(metric)) for *_, metric, unit in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    signed = zip(rows, row_digests(columns, rows), strict=True)
    return Table((*columns, DIGEST), tuple((*row, own) for row, own in signed))


def csv_text(table: Table) -> str:
    """The table as CSV. Floats keep every digit; missing values are empty; nan and inf stay.

    A text that a spreadsheet would take for a formula has an apostrophe in front.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(to_cell, row) for row in (table.columns, *table.rows))
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
    with needed_by("Parquet", "pyarrow", "'korisk[io]', or use the format csv"):
        import pyarrow as arrow
        from pyarrow import parquet
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
    found = [flat for flat in store.rows() if not stored.is_probe(flat.task)]
    if not found:
        raise KoriskError(f"{store.path}: no cell is finished yet; run the study first")
    points, group = stored.by_point(found), stored.grouping(found)
    if point is not None and point not in points:
        raise KoriskError(f"{store.path}: no point {point!r}{did_you_mean(point, points)}")
    last = {f.row.model: next(iter(f.row.metrics)) for f in found if f.row.detail.get(stored.BARE)}
    return [
        replace(each, row=replace(each.row, metrics=stored.renamed(each.row, last[each.row.model])))
        if each.row.detail.get(stored.BARE)
        else each
        for each in found
        if point is None or group(each.task) == point
    ]


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """The keys of all mappings, in the order in which they first appear."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _plain(content: JsonMapping) -> dict[str, Value]:
    """The entries that fit in a cell of a table."""
    return {
        name: value
        for name, value in content.items()
        if value is None or isinstance(value, str | int | float | bool)
    }
