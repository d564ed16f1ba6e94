"""Parse cells of tables: numbers with either decimal mark, empty cells, and labels."""

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from numbers import Real
from typing import Any, TypeGuard

from korisk.curves.formats import Source
from korisk.errors import invalid, shown

_remembered = lru_cache(maxsize=2**16)  # cells are looked at several times, and many are alike
MAX_LABEL = 80  # characters of a seed, model or metric

# What people and programs write where there is no number.
_EMPTY = {"-", "--", "–", "na", "n/a", "nan", "null", "none", "#n/a", "#na", "#div/0!", "?"}  # noqa: RUF001
_SPACES = re.compile(r"(?<=\d)[\u00a0\u202f\u2009 '’_](?=\d{3}(?:\D|$))")  # noqa: RUF001
# For each decimal mark: plain numbers, and those with the other mark between thousands.
_FORMS = {
    mark: re.compile(
        rf"[-+]?(\d+[{mark}]?\d*|[{mark}]\d+)([eE][-+]?\d+)?"
        rf"|[-+]?[1-9]\d{{0,2}}([{thousands}]\d{{3}})+([{mark}]\d*)?"
    )
    for mark, thousands in (".,", ",.")
}
_MARKED = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)\s*[^\d\s:-]{0,8}")  # such as 0.10*
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([.,]\d{3})+")  # of a count
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")  # 1,024 and 1.024: which is it?


class CellError(Exception):
    """A problem with a cell, and a remedy."""


def label(what: str, value: object) -> str:
    """`value` as the label of a seed, model or metric; empty if there is none."""
    # Seeds 1, 1.0 and "1" are the same label.
    text = (value or "").strip() if isinstance(value, str | None) else None
    number: Any = value
    if is_number(value):
        with suppress(OverflowError, ValueError):  # not finite, or too many digits
            text = str(int(number)) if number == int(number) else repr(float(number))
    if text is None or not text.isprintable() or len(text) > MAX_LABEL:
        rule = f"be a printable text of at most {MAX_LABEL} characters"
        raise invalid(what, rule, value, "rename it")
    return text


def is_number(value: object) -> TypeGuard[Real]:
    """Whether a cell is a number already."""
    kind = type(value)  # most cells are texts, of which Python's abstract classes tell slowly
    return kind in (int, float) or (kind not in (str, bool) and isinstance(value, Real))


def is_empty(cell: object) -> bool:
    """Whether a cell holds no number, as after a crashed run."""
    return cell is None or (isinstance(cell, str) and cell.casefold() in _EMPTY)


def folded(cell: object) -> str:
    """A cell as case-folded text, for comparisons."""
    if is_number(cell) and cell % 1 == 0:  # 64.0 as 64; an int may be too large for a float
        return str(math.trunc(cell))
    return "" if is_empty(cell) else str(cell).strip().casefold()


def begins_as_number(cell: object) -> bool:
    """Whether a cell is a number, maybe with a mark that is rejected later, such as 0.10*."""
    if isinstance(cell, str):
        return _is_numeric(cell) or bool(_MARKED.fullmatch(cell))
    return is_number(cell)


def rough(cell: object, *, is_count: bool = False) -> float:
    """The approximate number in a cell, for sorting; nan if there is none.

    A count has no decimals: 1,024 and 1.024 are 1024 there.
    """
    text = str(cell) if is_number(cell) else _bare(str(cell))
    if is_count and isinstance(cell, str) and _THOUSANDS.fullmatch(text):
        text = re.sub("[.,]", "", text)
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return math.nan


def decimal_mark(
    cells: Iterable[tuple[Any, int, str]], delimiter: str, source: Source
) -> str | None:
    """The decimal mark of a table's cells: point, comma, or None if no cell shows it."""
    first, marks_seen = dict[str, str](), set[str]()
    for cell, position, head in cells:
        # Once points are decimal, only a comma or a second point may say otherwise.
        if not isinstance(cell, str) or ("." in first and "," not in cell and cell.count(".") < 2):
            continue
        # A form that only one mark allows decides; 1,024 and 1.024 fit both readings.
        text = _bare(cell)
        marks = [mark for mark, form in _FORMS.items() if form.fullmatch(text)]
        marks_seen |= {*text} & {".", ","}
        if len(marks) == 1 and not _EITHER.fullmatch(text) and marks[0] not in first:
            first[marks[0]] = f"{source.at(position, head)}: {shown(text)}"
    if len(first) > 1:
        problem = f"decimal points ({first['.']}) and commas ({first[',']}) are mixed"
        raise source.error(f"{problem}; write all numbers in one way")
    # Only 1.024-like numbers are left: a comma between cells cannot be a decimal mark as well.
    if not first and delimiter in (",", " "):  # which no table with decimal commas has
        return "." if marks_seen == {"."} else None
    return next(iter(first), None)


def is_unclear(cell: object, mark: str | None, *, is_count: bool) -> bool:
    """Whether a mark in a cell may separate thousands or decimals: a factor of a thousand."""
    if not isinstance(cell, str) or not _EITHER.fullmatch(text := _bare(cell)):
        return False
    if mark is None:  # guessed for N alone, in a table without decimals
        return not is_count or text.endswith("000")
    return (mark in text) == is_count  # a count has no decimals, and an error no thousands


def number(cell: object, mark: str | None) -> float:
    """Parse the number in a cell by the decimal mark of its table."""
    if is_number(cell):
        with suppress(OverflowError):
            return float(cell)
        return math.inf
    text = _bare(cell) if isinstance(cell, str) else ""
    if not _is_numeric(text):
        raise CellError(f"{shown(cell)} is no number", "write numbers as 64, 0.001 or 1e-3")
    if _EITHER.fullmatch(text) and mark is None:  # thousands: `is_unclear` refuses others
        return float(re.sub("[.,]", "", text))
    mark = mark or "."
    if not _FORMS[mark].fullmatch(text):
        remedy = f"write all with a decimal {'comma' if mark == ',' else 'point'}"
        raise CellError(f"{shown(cell)} has another mark", remedy)
    return float(text.replace("," if mark == "." else ".", "").replace(mark, "."))


@_remembered
def _bare(text: str) -> str:
    """Remove the percent sign and spaces between thousands, and use a plain minus."""
    return _SPACES.sub("", text.removesuffix("%").strip().replace("\u2212", "-"))


@_remembered
def _is_numeric(cell: str) -> bool:
    text = _bare(cell)
    return (
        len(text) <= MAX_LABEL
        and text.isascii()
        and any(form.fullmatch(text) for form in _FORMS.values())
    )
