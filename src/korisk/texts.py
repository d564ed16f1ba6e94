"""Numbers and small tables as people read them, in a terminal or printed from Python."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """A table of texts.

    Parameters
    ----------
    title : str
        What it shows.
    heads : sequence of str
        Titles of the columns, maybe of several lines.
    rows : sequence of sequences of str
        Its cells.
    align : str, default "lr"
        Each column's side, l or r; the last is that of all that follow.

    Examples
    --------
    >>> from korisk.texts import Table
    >>> print(Table("Samples for 0.01", ["model", "N"], [["KO", "512"], ["FC", "8,192"]]))
    Samples for 0.01
    model      N
    KO       512
    FC     8,192
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = "lr"

    def left(self, place: int) -> bool:
        """Whether a column is aligned at its left."""
        return self.align[min(place, len(self.align) - 1)] == "l"

    def __str__(self) -> str:
        lines = [[head.replace("\n", " ") for head in self.heads], *self.rows]
        columns = [
            [f"{text:{'<' if self.left(place) else '>'}{max(map(len, column))}}" for text in column]
            for place, column in enumerate(zip(*lines, strict=True))
        ]
        shown = ("  ".join(line).rstrip() for line in zip(*columns, strict=True))
        return "\n".join([self.title, *shown])


def number(value: float | None, digits: int = 4) -> str:
    """A number with a few digits; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}g}"


def whole(value: int | None) -> str:
    """A count with its thousands apart, or as a power of ten where it is very long."""
    return "-" if value is None else f"{value:,}" if value < 10**12 else short(value)


def short(value: int) -> str:
    """A count in few characters: whole below ten million, with four digits above."""
    return f"{value:,}" if value < 10**7 else f"{value:.4g}" if value < 10**300 else "> 1e300"


def counted(count: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def duration(seconds: float) -> str:
    """A span of time in the unit that suits it: `3.2 s`, `12 min`, `4.5 h`, `17 days`."""
    if math.isnan(seconds):
        return "-"
    for size, unit, until in ((1, "s", 90), (60, "min", 90), (3600, "h", 48)):
        if seconds < until * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds / 86400:,.3g} days"
