"""Rows of CSV files, to which benchmarks append what is not there yet."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from korisk.curves.curve import Curve


def read(path: Path) -> list[dict[str, str]]:
    """The rows by their columns; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def curve(rows: Iterable[dict[str, str]], model: str, error: str = "mse") -> Curve:
    """The learning curve of some rows with an N, a seed and a squared error."""
    cells = [(int(row["n"]), float(row[error]), row["seed"]) for row in rows]
    n, errors, seeds = zip(*cells, strict=True)
    return Curve(n, errors, seeds, model, "mse")


def append(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Add rows, below the names of the columns where there is no file."""
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([columns, *rows] if new else rows)
