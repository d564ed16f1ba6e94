"""Tables as texts: Markdown, LaTeX, CSV and HTML.

Names come from files and may hold anything: in every format they are shown as text, in one line.
"""

from __future__ import annotations

import html as markup
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from korisk.errors import KoriskError, shown
from korisk.files import make_folder, write_text
from korisk.report.contents import Contents
from korisk.report.tables.tables import BYTES, Column, ReportTable, study_tables
from korisk.studies.export import Table, Value, csv_text
from korisk.theory.footprint import format_bytes

LONG = 40  # rows beyond which a table does not fit on a page

_WIDE = 8  # columns beyond which LaTeX sets a table in small type
_SENTENCE = 30  # characters beyond which LaTeX breaks a text into lines
_DIGITS = 4  # of a number
_PLAIN = (1e-2, 1e5)  # a column whose numbers all lie between is written without powers of ten
_BREAKS = "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # of the writing direction


def save_tables(
    contents: Contents,
    folder: str | PathLike[str],
    kinds: Sequence[str] = ("md", "tex", "csv"),
) -> list[Path]:
    """Write every table of a study into a folder, one file for each kind: md, tex, csv, html."""
    _prepare(folder, kinds)  # before the work
    return write_tables(study_tables(contents), folder, kinds)


def write_tables(
    tables: Iterable[ReportTable], folder: str | PathLike[str], kinds: Sequence[str]
) -> list[Path]:
    """Write tables into a folder, which is made if there is none; the files that were written."""
    place = _prepare(folder, kinds)
    written = []
    for table in tables:
        for kind in kinds:
            path = place / f"{table.name}.{kind}"
            write_text(path, FORMATS[kind](table))
            written.append(path)
    return written


def _prepare(folder: str | PathLike[str], kinds: Sequence[str]) -> Path:
    for kind in kinds:
        if kind not in FORMATS:
            raise KoriskError(
                f"kinds must be among {', '.join(FORMATS)}, got {shown(kind)}; "
                "name them without dots"
            )
    return make_folder(folder)


def one_line(text: str) -> str:
    """A text as every format shows it: breaks are spaces, what cannot be shown is marked."""
    return "".join(map(_character, text))


def _character(character: str) -> str:
    if character in _BREAKS:
        return " "
    if character in _TURNS or unicodedata.category(character) in ("Cc", "Cs"):
        return "\N{REPLACEMENT CHARACTER}"
    return character


# --- Cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Script:
    """How a format writes what stands in cells."""

    text: Callable[[str], str]  # a text of any characters
    plain: Callable[[str], str] = str  # digits, with a sign and a point
    power: Callable[[str, int], str] = "{}e{}".format  # a mantissa and a power of ten


def _cells(table: ReportTable, script: _Script) -> list[list[str]]:
    columns = [
        _column([row[place] for row in table.rows], column, script)
        for place, column in enumerate(table.columns)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _column(values: list[Value], column: Column, script: _Script) -> list[str]:
    """All numbers of a column are written alike, so that they can be compared at a glance."""
    numbers = [value for value in values if isinstance(value, int | float)]
    with_powers = not all(_is_plain(value) for value in numbers if math.isfinite(value))
    return [_cell(value, column, script, with_powers) for value in values]


def _cell(value: Value, column: Column, script: _Script, with_powers: bool) -> str:
    if value is None:
        return script.text("\N{EN DASH}")
    if isinstance(value, str | bool):
        return script.text(one_line(str(value)))
    if isinstance(value, int) and column.kind != "number":
        return format_bytes(value) if column.unit == BYTES else script.plain(f"{value:,}")
    if not math.isfinite(value):
        return script.text(str(value))
    if with_powers and value:
        mantissa, power = f"{value:.{_DIGITS - 1}e}".split("e")
        return script.power(mantissa, int(power)) if int(power) else script.plain(mantissa)
    return script.plain(_plain_digits(value) if value else "0")


def _plain_digits(value: float) -> str:
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def _is_plain(value: float) -> bool:
    return value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1]


def _heading(column: Column) -> str:
    """The title with its unit; sizes in bytes bring their own."""
    unit = f" ({column.unit})" if column.unit not in ("", BYTES) else ""
    return one_line(column.title) + unit


# --- Markdown ------------------------------------------------------------------------------------


def markdown(table: ReportTable) -> str:
    """The table in Markdown, as GitHub and Pandoc read it."""
    heads = [_markdown_text(_heading(column)) for column in table.columns]
    rules = ["---:" if column.align == "right" else "---" for column in table.columns]
    rows = _cells(table, _Script(_markdown_text))
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows)]
    title, caption = (_markdown_text(one_line(text)) for text in (table.title, table.caption))
    return f"**{title}**\n\n" + "\n".join(lines) + f"\n\n{caption}\n"


# Entities for what ends a cell or begins a tag: no reader of tables disagrees about those.
_MARKDOWN = {character: f"&#{ord(character)};" for character in "|\\"}
_MARKDOWN |= {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKDOWN |= {character: f"\\{character}" for character in "`*_[]$~#!"}


def _markdown_text(text: str) -> str:
    return _replaced(text, _MARKDOWN)


# --- LaTeX ---------------------------------------------------------------------------------------


def latex(table: ReportTable) -> str:
    """The table in LaTeX; it needs booktabs, graphicx if it is wide and longtable if it is long."""
    heads = " & ".join(_latex_text(_heading(column)) for column in table.columns) + r" \\"
    rows = [" & ".join(cells) + r" \\" for cells in _cells(table, _LATEX_SCRIPT)]
    layout = "".join(_latex_layout(table))
    title, caption = (_latex_text(one_line(text)) for text in (table.title, table.caption))
    label = rf"\label{{tab:{re.sub('[^A-Za-z0-9-]', '-', table.name)}}}"
    told = rf"\caption[{title}]{{{title}. {caption}}}{label}"
    write = _long if len(rows) > LONG else _short
    small = r"\scriptsize" if len(table.columns) > _WIDE else r"\small"
    return "\n".join(write(told, layout, heads, rows, small)) + "\n"


def _latex_layout(table: ReportTable) -> list[str]:
    """Columns of sentences are broken into lines, and share half of the page's width."""
    kinds = ["l" if column.align == "left" else "r" for column in table.columns]
    long = [
        place
        for place, column in enumerate(table.columns)
        if column.kind == "text" and any(len(str(row[place])) > _SENTENCE for row in table.rows)
    ]
    for place in long:
        kinds[place] = rf"p{{{0.5 / len(long):.2f}\textwidth}}"
    return kinds


def _short(told: str, layout: str, heads: str, rows: list[str], size: str) -> list[str]:
    wide = heads.count(" & ") >= _WIDE  # made as wide as the page, however small the type
    return [
        r"\begin{table}[htbp]",
        *(r"\centering", size, told),
        *([r"\resizebox{\textwidth}{!}{%"] if wide else []),
        rf"\begin{{tabular}}{{{layout}}}",
        *(r"\toprule", heads, r"\midrule", *rows, r"\bottomrule"),
        r"\end{tabular}" + ("}" if wide else ""),
        r"\end{table}",
    ]


def _long(told: str, layout: str, heads: str, rows: list[str], size: str) -> list[str]:
    return [
        rf"\begingroup{size}",
        rf"\begin{{longtable}}{{{layout}}}",
        told + r"\\",
        *(r"\toprule", heads, r"\midrule", r"\endfirsthead"),
        *(r"\toprule", heads, r"\midrule", r"\endhead"),
        *(r"\bottomrule", r"\endfoot"),
        *rows,
        r"\end{longtable}",
        r"\endgroup",
    ]


_LATEX = {character: f"\\{character}" for character in "{}$&#_%"}
# In braces: after the end of a row, a bracket or a star would be taken for an argument of it.
_LATEX |= {character: f"{{{character}}}" for character in "[]*"}
_LATEX |= {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\char34{}",
    "\N{EN DASH}": r"\textendash{}",
    "\N{REPLACEMENT CHARACTER}": "?",  # which most fonts of LaTeX lack
}
_TWINS = re.compile(r"([-',])(?=\1)")  # two of them in a row would be set as one sign


def _latex_text(text: str) -> str:
    return _replaced(_TWINS.sub("\\1\0", text), _LATEX).replace("\0", "{}")


def _latex_power(mantissa: str, power: int) -> str:
    return rf"${mantissa}\cdot10^{{{power}}}$"


def _latex_plain(digits: str) -> str:
    """In math mode, where a minus is one, and a comma would be followed by a space."""
    return f"${digits.replace(',', '{,}')}$"


_LATEX_SCRIPT = _Script(_latex_text, _latex_plain, _latex_power)


# --- CSV -----------------------------------------------------------------------------------------


def csv(table: ReportTable) -> str:
    """The table for other programs, with every digit; what is missing is empty.

    A text that a spreadsheet would take for a formula has an apostrophe in front.
    """
    titles = [
        f"{column.title} ({column.unit})" if column.unit else column.title
        for column in table.columns
    ]
    rows = tuple(tuple(map(_csv_value, row)) for row in table.rows)
    return csv_text(Table(tuple(str(_csv_value(title)) for title in titles), rows))


def _csv_value(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


# --- HTML ----------------------------------------------------------------------------------------


def html(table: ReportTable) -> str:
    """The table as a part of a page, in a region of its own that scrolls."""
    title = _html_text(one_line(table.title))
    caption = _html_text(one_line(table.caption))
    heads = "".join(
        f'<th scope="col"{_class(column)}>{_html_text(_heading(column))}</th>'
        for column in table.columns
    )
    kind = "table long" if len(table.rows) > LONG else "table"
    lines = [
        f'<div class="{kind}" role="region" aria-label="{title}" tabindex="0">',
        "<table>",
        f"<caption><span>{caption}</span></caption>",
        f"<thead>\n<tr>{heads}</tr>\n</thead>",
        "<tbody>",
        *(_html_row(row, table.columns) for row in _cells(table, _Script(_html_text))),
        "</tbody>",
        "</table>",
        "</div>",
    ]
    return "\n".join(lines) + "\n"


def _html_row(cells: list[str], columns: Sequence[Column]) -> str:
    first, *others = zip(cells, columns, strict=True)
    head = f'<th scope="row"{_class(first[1])}>{first[0]}</th>'
    return f"<tr>{head}{''.join(f'<td{_class(kind)}>{cell}</td>' for cell, kind in others)}</tr>"


def _class(column: Column) -> str:
    return ' class="number"' if column.align == "right" else ""


def _html_text(text: str) -> str:
    return markup.escape(text)


def _replaced(text: str, by: dict[str, str]) -> str:
    return "".join(by.get(character, character) for character in text)


FORMATS: dict[str, Callable[[ReportTable], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": csv,
    "html": html,
}
