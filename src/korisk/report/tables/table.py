"""A table of a report as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Literal

import yaml

from korisk._json import JsonDict

Kind = Literal["text", "number", "integer"]
Value = str | int | float | bool | None
Row = tuple[Value, ...]

BYTES = "bytes"  # the unit that is shown as KiB, MiB or GiB


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """A table of plain values; None stands for a missing value."""

    name: str  # the stem of its file
    title: str
    caption: str  # explains the numbers
    columns: Sequence[str]  # their titles
    rows: Sequence[Row]
    units: Mapping[str, str] = field(default_factory=dict)  # by column, where there is one

    @property
    def kinds(self) -> list[Kind]:
        """Type of each column: text, numbers, or whole numbers."""
        kinds: list[Kind] = []
        for column in range(len(self.columns)):
            values = [row[column] for row in self.rows if row[column] is not None]
            if not values or any(isinstance(value, str | bool) for value in values):
                kinds.append("text")
            else:
                integers = all(isinstance(value, int) for value in values)
                kinds.append("integer" if integers else "number")
        return kinds

    def without_empty_columns(self) -> ReportTable:
        """The table without columns that have no value."""
        indices = range(len(self.columns))
        filled = [k for k in indices if any(row[k] is not None for row in self.rows)]
        return replace(
            self,
            columns=[self.columns[k] for k in filled],
            rows=[tuple(row[k] for k in filled) for row in self.rows],
        )


@cache
def words(package: str) -> dict[str, JsonDict]:
    """Titles, captions, columns and units of the tables of a package, from its `tables.yaml`."""
    text = resources.files(package).joinpath("tables.yaml").read_text(encoding="utf-8")
    by_table: dict[str, JsonDict] = yaml.safe_load(text)
    return by_table


def worded(
    name: str,
    rows: Sequence[Row],
    *,
    caption: str = "{}",
    more: Sequence[str] = (),
    package: str = "korisk.report.tables",
) -> ReportTable:
    """Build a table with a package's texts, framed by `caption`, and with `more` columns."""
    texts = words(package)[name]
    replaced = {"caption": caption.format(texts["caption"]), "columns": [*texts["columns"], *more]}
    return ReportTable(name=name, rows=rows, **texts | replaced)
