"""Numbers and small tables as text; escapes for terminals, one line and scripts.

For HTML use `html.escape`, for cells of CSV `korisk.files.to_cell`.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from unicodedata import bidirectional, category

_BREAKS = "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # of writing direction


class Table(NamedTuple):
    """A table of texts."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = "lr"

    def left(self, place: int) -> bool:
        """Whether a column is left-aligned."""
        return self.align[min(place, len(self.align) - 1)] == "l"

    def __str__(self) -> str:
        lines = [[head.replace("\n", " ") for head in self.heads], *self.rows]
        columns = [
            [f"{text:{'<' if self.left(place) else '>'}{max(map(len, column))}}" for text in column]
            for place, column in enumerate(zip(*lines, strict=True))
        ]
        printed = ("  ".join(line).rstrip() for line in zip(*columns, strict=True))
        return "\n".join([self.title, *printed])


def number(value: float | None, digits: int = 4) -> str:
    """A number with a few digits; a dash for None."""
    return "-" if value is None else f"{value:.{digits}g}"


def whole(value: int | None) -> str:
    """A count with thousands separators, or as a power of ten if it is very long."""
    return "-" if value is None else f"{value:,}" if value < 10**12 else short(value)


def short(value: int) -> str:
    """A count in few characters: whole below ten million, with four digits above."""
    return f"{value:,}" if value < 10**7 else f"{value:.4g}" if value < 10**300 else "> 1e300"


def counted(count: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def format_bytes(size: int) -> str:
    """Format bytes in KiB, MiB or GiB, with values below 100 up to GiB: `0.47 GiB`, `360 GiB`."""
    # The table of the paper counts in powers of 1024, and never in TiB.
    value, units = size / 1024, ["GiB", "MiB", "KiB"]  # the last one is that of `value`
    while value >= 100 and len(units) > 1:
        value /= 1024
        units.pop()
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {units[-1]}"


def duration(seconds: float) -> str:
    """A duration in a suitable unit: `3.2 s`, `12 min`, `4.5 h`, `17 days`."""
    if math.isnan(seconds):
        return "-"
    # A unit is used up to 90 or 48 of it: "75 s" reads better than "1.2 min".
    for size, unit, until in ((1, "s", 90), (60, "min", 90), (3600, "h", 48)):
        if seconds < until * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds / 86400:,.3g} days"


# --- Escapes -------------------------------------------------------------------------------------


def _steers(character: str) -> bool:
    """Whether a character is a control, a lone surrogate or a change of writing direction."""
    return category(character) in ("Cc", "Cs") or bidirectional(character) in _TURNS


def plain(text: str) -> str:
    """Escape control characters and changes of writing direction, for a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if c != "\n" and _steers(c) else c for c in text
    )


def one_line(text: str) -> str:
    """Put a text on one line: breaks become spaces, invisible characters a replacement mark."""
    spaced = "".join(" " if character in _BREAKS else character for character in text)
    return "".join("\N{REPLACEMENT CHARACTER}" if _steers(c) else c for c in spaced)


def script_json(content: Mapping[str, object] | Sequence[object]) -> str:
    """JSON that is safe inside a script element: it cannot close it or open a tag."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def natural(text: str) -> tuple[list[tuple[int, str]], str]:
    """A sort key by which `run 2` comes before `run 10`, for numbers of any length."""
    # Odd entries are numbers: without leading zeros, the longer one is the larger one.
    pieces = re.split(r"([0-9]+)", text)
    pieces[1::2] = (digits.lstrip("0") for digits in pieces[1::2])
    return [(len(piece) * (index % 2), piece) for index, piece in enumerate(pieces)], text
