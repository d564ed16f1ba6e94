"""A table of a report as a value."""

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
    """A table of plain values; None is what is missing."""

    name: str  # the stem of its file
    title: str
    caption: str  # what the numbers are
    columns: Sequence[str]  # their titles
    rows: Sequence[Row]
    units: Mapping[str, str] = field(default_factory=dict)  # by column, where there is one

    @property
    def kinds(self) -> list[Kind]:
        """What each column holds: text, numbers, or whole numbers."""
        found: list[Kind] = []
        for place in range(len(self.columns)):
            values = [row[place] for row in self.rows if row[place] is not None]
            if not values or any(isinstance(value, str | bool) for value in values):
                found.append("text")
            else:
                whole = all(isinstance(value, int) for value in values)
                found.append("integer" if whole else "number")
        return found

    def without_empty_columns(self) -> ReportTable:
        """The table without the columns in which everything is missing."""
        kept = [k for k in range(len(self.columns)) if any(row[k] is not None for row in self.rows)]
        return replace(
            self,
            columns=[self.columns[k] for k in kept],
            rows=[tuple(row[k] for k in kept) for row in self.rows],
        )


@cache
def words(package: str) -> dict[str, JsonDict]:
    """What `tables.yaml` of a package says of its tables: titles, captions, columns and units."""
    text = resources.files(package).joinpath("tables.yaml").read_text(encoding="utf-8")
    listed: dict[str, JsonDict] = yaml.safe_load(text)
    return listed


def worded(
    name: str,
    rows: Sequence[Row],
    *,
    caption: str = "{}",
    more: Sequence[str] = (),
    package: str = "korisk.report.tables",
) -> ReportTable:
    """A table with a package's words for it, inside of `caption`, and with `more` columns."""
    said = words(package)[name]
    around = {"caption": caption.format(said["caption"]), "columns": [*said["columns"], *more]}
    return ReportTable(name=name, rows=rows, **said | around)
