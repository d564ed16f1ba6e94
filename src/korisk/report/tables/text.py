"""Tables as text: CSV and HTML.

Names come from files and may contain anything: both formats escape them and keep them on one line.
"""

import csv as writer
import io
import math
from html import escape
from os import PathLike
from pathlib import Path

from korisk.files import make_folder, to_cell, write_text
from korisk.report.contents import Contents
from korisk.report.tables.table import BYTES, ReportTable
from korisk.report.tables.tables import study_tables
from korisk.texts import format_bytes, one_line

LONG = 40  # rows; a longer table does not fit on a page

_DIGITS = 4  # significant digits of a number
_PLAIN = (1e-2, 1e5)  # columns with all numbers in this range have no powers of ten


# --- Cells ---------------------------------------------------------------------------------------


def _cells(table: ReportTable) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, escaped; all numbers of a column have the same form."""
    heads, columns = [], []
    for index, (title, kind) in enumerate(zip(table.columns, table.kinds, strict=True)):
        unit = table.units.get(title, "")
        heads.append(escape(one_line(title) + (f" ({unit})" if unit not in ("", BYTES) else "")))
        values = [row[index] for row in table.rows]
        # One form for the whole column: a power of ten in one row means powers in all.
        magnitudes = [abs(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
        as_powers = any(v and not _PLAIN[0] <= v < _PLAIN[1] for v in magnitudes)
        cells = []
        for value in values:
            if value is None:
                cells.append("\N{EN DASH}")
            elif isinstance(value, str | bool) or not math.isfinite(value):
                cells.append(escape(one_line(str(value))))
            elif isinstance(value, int) and kind == "integer":
                cells.append(format_bytes(value) if unit == BYTES else f"{value:,}")
            elif as_powers and value:
                mantissa, exponent = f"{value:.{_DIGITS - 1}e}".split("e")
                cells.append(f"{mantissa}e{int(exponent)}" if int(exponent) else mantissa)
            else:
                exponent10 = math.floor(math.log10(abs(value))) if value else _DIGITS
                cells.append(f"{value:,.{max(0, _DIGITS - 1 - exponent10)}f}")
        columns.append(cells)
    return heads, [list(row) for row in zip(*columns, strict=True)]


# --- CSV and HTML --------------------------------------------------------------------------------


def csv(table: ReportTable) -> str:
    """The table as CSV, with all digits; missing values are empty.

    Text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    units = table.units
    heads = [f"{title} ({units[title]})" if title in units else title for title in table.columns]
    stream = io.StringIO()
    rows_writer = writer.writer(stream, lineterminator="\n")
    for row in (heads, *table.rows):
        rows_writer.writerow(to_cell(one_line(v)) if isinstance(v, str) else v for v in row)
    return stream.getvalue()


def html(table: ReportTable) -> str:
    """The table as HTML, in a region that scrolls."""
    heads, rows = _cells(table)
    kinds = ["" if kind == "text" else ' class="number"' for kind in table.kinds]
    title, caption = (escape(one_line(text)) for text in (table.title, table.caption))
    # Numbers are aligned by a class; the first cell of a row is its heading.
    columns = list(zip(heads, kinds, strict=True))
    header = "".join(f'<th scope="col"{kind}>{head}</th>' for head, kind in columns)
    lines = []
    for row in rows:
        data = zip(row[1:], kinds[1:], strict=True)
        cells = "".join(f"<td{kind}>{cell}</td>" for cell, kind in data)
        lines.append(f'<tr><th scope="row"{kinds[0]}>{row[0]}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f"<h3>{title}</h3>"
        f'<div class="table{" long" if len(rows) > LONG else ""}" role="region" '
        f'aria-label="{title}" tabindex="0">\n<table>\n'
        f"<caption><span>{caption}</span></caption>\n<thead>\n<tr>{header}</tr>\n</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
    )


def save_tables(contents: Contents, folder: str | PathLike[str]) -> list[Path]:
    """Write every table of a study into a folder, which is created if it is missing."""
    target = make_folder(folder)
    tables = {target / f"{table.name}.csv": csv(table) for table in study_tables(contents)}
    for path, text in tables.items():
        write_text(path, text)
    return list(tables)
