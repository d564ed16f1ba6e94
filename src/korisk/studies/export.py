"""The figures of a study as one table: CSV, JSON or Parquet."""

import csv
import importlib
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from korisk.errors import KoriskError, MissingExtraError, did_you_mean
from korisk.studies.results import PART_OF, group_of, with_names
from korisk.studies.store.store import FlatRow, Store

Value = str | int | float | bool | None

FORMATS = ("csv", "json", "parquet")
LEAST_N = 2  # of a pilot: without training samples there is no learning curve
_OF_THE_ROW = ("lambda", "seconds")  # what a row's detail tells, if it does
_RESERVED = ("point", "seed", "model", "n", "error", "metric", *_OF_THE_ROW)


@dataclass(frozen=True)
class Table:
    """Columns of names, rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def results_table(store: Store, *, point: str | None = None) -> Table:
    """One row for each point, seed, model and n: what the point is, then every metric.

    What the point is are the plain values at the top of its spec and of the problem there; one
    that would take the name of another column is called spec.NAME.
    """
    found = _rows(store, point)
    metrics = _names(flat.row.metrics for flat in found)
    about = _names(_about(flat.task.spec) for flat in found)
    told = [name for name in _OF_THE_ROW if any(name in flat.row.detail for flat in found)]
    taken = {*_RESERVED, *metrics}
    titles = [f"spec.{name}" if name in taken else name for name in about]
    return Table(
        ("point", *titles, "seed", "model", "n", *metrics, *told),
        tuple(
            (
                group_of(flat.task),
                *(_about(flat.task.spec).get(name) for name in about),
                *(flat.task.seed, flat.row.model, flat.row.n),
                *(flat.row.metrics.get(name) for name in metrics),
                *(_plain(flat.row.detail).get(name) for name in told),
            )
            for flat in found
        ),
    )


def pilot_table(store: Store, metric: str, *, point: str | None = None) -> Table:
    """One point's values of one metric, as `Curve.read` and `korisk plan` take them.

    Rows of n = 0 and 1, from before any learning, are left out.
    """
    found = _rows(store, point)
    points = _names({group_of(flat.task): None} for flat in found)
    if len(points) > 1:
        raise KoriskError(
            f"{store.path}: a pilot is of one point, and there are {', '.join(points)}; "
            "name one with --point"
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
    """The table as CSV. Floats keep every digit; what is missing is empty; nan and inf stay."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def json_text(table: Table) -> str:
    """The table as a list of records; what is infinite or undefined becomes null."""
    records = [dict(zip(table.columns, map(_finite, row), strict=True)) for row in table.rows]
    return json.dumps(records, indent=1, allow_nan=False) + "\n"


def parquet_bytes(table: Table) -> bytes:
    """The table as a Parquet file."""
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "Parquet needs pyarrow, which is not installed; pip install 'korisk[io]', "
            "or use --format csv"
        ) from None
    columns = {
        name: _one_type([row[place] for row in table.rows])
        for place, name in enumerate(table.columns)
    }
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns), content)
    return content.getvalue()


def _rows(store: Store, point: str | None) -> list[FlatRow]:
    found = with_names(store.rows())
    if not found:
        raise KoriskError(f"{store.path}: no cell is finished yet; run the study first")
    points = _names({group_of(flat.task): None} for flat in found)
    if point is None:
        return found
    if point not in points:
        raise KoriskError(f"{store.path}: no point {point!r}{did_you_mean(point, points)}")
    return [flat for flat in found if group_of(flat.task) == point]


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """The keys of all mappings, in the order in which they first appear."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _about(spec: Mapping[str, Any]) -> dict[str, Value]:
    problem = spec.get("problem")
    about = _plain(problem if isinstance(problem, Mapping) else {}) | _plain(spec)
    if PART_OF in about:  # a pilot: its N and what it is a part of are columns already
        del about[PART_OF], about["n"]
    return about


def _plain(content: Mapping[str, Any]) -> dict[str, Value]:
    """The entries that fit in a cell of a table."""
    return {
        name: value
        for name, value in content.items()
        if value is None or isinstance(value, str | int | float | bool)
    }


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _one_type(values: list[Value]) -> list[Value]:
    """Values that share a type, as a column of Parquet must: numbers, else texts."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return values
    convert: Callable[[Any], Value] = float if kinds == {int, float} else str
    return [None if value is None else convert(value) for value in values]
