"""Tables as texts: Markdown, LaTeX, CSV and HTML.

Names come from files and may hold anything: in every format they are shown as text, in one line.
"""

import csv as writer
import io
import math
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template

from tabulate import DataRow, Line, TableFormat, tabulate

from korisk import _text as escapes
from korisk._checks import one_of
from korisk._text import one_line
from korisk.files import make_folder, to_cell, write_text
from korisk.report.contents import Contents
from korisk.report.tables.table import BYTES, ReportTable
from korisk.report.tables.tables import study_tables
from korisk.theory.footprint import format_bytes

LONG = 40  # rows beyond which a table does not fit on a page

_WIDE = 8  # columns beyond which LaTeX sets a table in small type
_SENTENCE = 30  # characters beyond which LaTeX breaks a text into lines
_DIGITS = 4  # of a number
_PLAIN = (1e-2, 1e5)  # a column whose numbers all lie between is written without powers of ten
_BOOKTABS = TableFormat(
    lineabove=Line(r"\toprule", "", "", ""),
    linebelowheader=Line(r"\midrule", "", "", ""),
    linebetweenrows=None,
    linebelow=Line(r"\bottomrule", "", "", ""),
    headerrow=DataRow("", " & ", r" \\"),
    datarow=DataRow("", " & ", r" \\"),
    padding=0,
    with_header_hide=None,
)


# --- Cells ---------------------------------------------------------------------------------------


def _cells(
    table: ReportTable, text: Callable[[str], str], number: str = "{}", power: str = "{}e{}"
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; all numbers of a column are written alike, to be compared at a glance.

    `text` writes words; `number` is the form of digits, and `power` of digits and a power of ten.
    """
    heads, made = [], []
    for place, (title, kind) in enumerate(zip(table.columns, table.kinds, strict=True)):
        unit = table.units.get(title, "")
        heads.append(text(one_line(title) + (f" ({unit})" if unit not in ("", BYTES) else "")))
        values = [row[place] for row in table.rows]
        known = [abs(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
        powers = any(v and not _PLAIN[0] <= v < _PLAIN[1] for v in known)
        cells = []
        for value in values:
            if value is None:
                cells.append(text("\N{EN DASH}"))
            elif isinstance(value, str | bool) or not math.isfinite(value):
                cells.append(text(one_line(str(value))))
            elif isinstance(value, int) and kind == "integer":
                whole = number.format(f"{value:,}")
                cells.append(format_bytes(value) if unit == BYTES else whole)
            elif powers and value:
                mantissa, exponent = f"{value:.{_DIGITS - 1}e}".split("e")
                form = power if int(exponent) else number
                cells.append(form.format(mantissa, int(exponent)))
            else:
                size = math.floor(math.log10(abs(value))) if value else _DIGITS
                cells.append(number.format(f"{value:,.{max(0, _DIGITS - 1 - size)}f}"))
        made.append(cells)
    return heads, [list(row) for row in zip(*made, strict=True)]


# --- Markdown ------------------------------------------------------------------------------------


def markdown(table: ReportTable) -> str:
    """The table in Markdown, as GitHub and Pandoc read it."""
    heads, rows = _cells(table, escapes.markdown)
    aligned = ["left" if kind == "text" else "right" for kind in table.kinds]
    body = tabulate(rows, heads, tablefmt="pipe", disable_numparse=True, colalign=aligned)
    title, caption = (escapes.markdown(one_line(t)) for t in (table.title, table.caption))
    return f"**{title}**\n\n{body}\n\n{caption}\n"


# --- LaTeX ---------------------------------------------------------------------------------------


def latex(table: ReportTable) -> str:
    """The table in LaTeX; it needs booktabs, graphicx if it is wide and longtable if it is long."""
    # Numbers in math mode, where a minus is one; a comma there would be followed by a space.
    heads, rows = _cells(table, escapes.latex, "${}$", r"${}\cdot10^{{{}}}$")
    rows = [[c.replace(",", "{,}") if c[:1] == "$" else c for c in row] for row in rows]
    aligned = ["left" if kind == "text" else "right" for kind in table.kinds]
    text = tabulate(rows, heads, tablefmt=_BOOKTABS, disable_numparse=True, colalign=aligned)
    # Columns of sentences are broken into lines, and share half of the page's width.
    layout = [side[0] for side in aligned]
    long = [
        place
        for place, kind in enumerate(table.kinds)
        if kind == "text" and any(len(str(row[place])) > _SENTENCE for row in table.rows)
    ]
    for place in long:
        layout[place] = rf"p{{{0.5 / len(long):.2f}\textwidth}}"
    title, caption = (escapes.latex(one_line(t)) for t in (table.title, table.caption))
    label = rf"\label{{tab:{re.sub('[^A-Za-z0-9-]', '-', table.name)}}}"
    wide = len(table.columns) > _WIDE  # made as wide as the page, however small the type
    words = {
        "caption": rf"\caption[{title}]{{{title}. {caption}}}{label}",
        "columns": "".join(layout),
        "size": r"\scriptsize" if wide else r"\small",
    }
    if len(rows) > LONG:
        *top, body = text.split("\n", 3)
        middle, bottom = body.rsplit("\n", 1)
        words |= {"top": "\n".join(top), "rows": middle, "bottom": bottom}
    else:
        begin, end = ("\\resizebox{\\textwidth}{!}{%\n", "}") if wide else ("", "")
        words |= {"open": begin, "body": text, "close": end}
    form = "longtable.tex" if len(rows) > LONG else "table.tex"
    template = files("korisk.report.tables").joinpath(form).read_text(encoding="utf-8")
    return Template(template).substitute(words)


# --- CSV and HTML --------------------------------------------------------------------------------


def csv(table: ReportTable) -> str:
    """The table for other programs, with every digit; what is missing is empty.

    A text that a spreadsheet would take for a formula has an apostrophe in front.
    """
    units = table.units
    heads = [f"{title} ({units[title]})" if title in units else title for title in table.columns]
    content = io.StringIO()
    made = writer.writer(content, lineterminator="\n")
    for row in (heads, *table.rows):
        made.writerow(to_cell(one_line(v)) if isinstance(v, str) else v for v in row)
    return content.getvalue()


def html(table: ReportTable) -> str:
    """The table as a part of a page, in a region of its own that scrolls."""
    heads, rows = _cells(table, escape)
    kinds = ["" if kind == "text" else ' class="number"' for kind in table.kinds]
    title, caption = (escape(one_line(text)) for text in (table.title, table.caption))
    top = "".join(f'<th scope="col"{k}>{head}</th>' for head, k in zip(heads, kinds, strict=True))
    lines = []
    for row in rows:
        cells = "".join(f"<td{k}>{cell}</td>" for cell, k in zip(row[1:], kinds[1:], strict=True))
        lines.append(f'<tr><th scope="row"{kinds[0]}>{row[0]}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="table{" long" if len(rows) > LONG else ""}" role="region" '
        f'aria-label="{title}" tabindex="0">\n<table>\n'
        f"<caption><span>{caption}</span></caption>\n<thead>\n<tr>{top}</tr>\n</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
    )


FORMATS: dict[str, Callable[[ReportTable], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": csv,
    "html": html,
}


def save_tables(
    contents: Contents, folder: str | PathLike[str], kinds: Sequence[str] = ("md", "tex", "csv")
) -> list[Path]:
    """Write every table of a study into a folder, which is created if it is missing.

    Parameters
    ----------
    contents : Contents
        What `read_contents` returns.
    folder : path
        Where the files go.
    kinds : sequence of str, default ("md", "tex", "csv")
        The formats, of md, tex, csv and html; each table is written in each of them.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    KoriskError
        If a kind is not one of the four, or a file cannot be written.
    """
    for kind in kinds:
        one_of("kinds", kind, tuple(FORMATS))
    place = make_folder(folder)  # before the work
    written = []
    for table in study_tables(contents):
        for kind in kinds:
            written.append(place / f"{table.name}.{kind}")
            write_text(written[-1], FORMATS[kind](table))
    return written
