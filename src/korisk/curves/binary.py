"""Read workbooks as plain values, and refuse those that unpack to too much.

A pilot is a small table. Sizes are checked before a library unpacks what a file holds: a damaged
file may claim any number of rows, or repeat a long text in all of them.
"""

import io
import re
import zipfile
import zlib
from functools import reduce
from typing import Any, NamedTuple
from xml.etree import ElementTree

UNPACKED = 64_000_000  # bytes of an unpacked file, against decompression bombs
MEMBERS = 2_000  # of an archive
MOST_SHEETS = 100
_TAGS = 12  # for each cell: more of them are no table
_REL = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_FAR = "it has cells far outside of any table"
_LONG = f"it unpacks to more than {UNPACKED / 1e6:g} MB; a pilot is a small table"


class Sheet(NamedTuple):
    """A worksheet: its cells from A1 on, what its program shows of it, and its size."""

    rows: list[list[Any]]
    visible: bool = True
    hidden: frozenset[int] = frozenset()  # numbers of rows
    formulas: tuple[str, ...] = ()  # cells of formulas without a value, such as "B7"
    cells: int = 0  # from A1 to the last one that is filled
    characters: int = 0  # of all cells, where they share texts


def workbook(content: bytes, largest: int) -> dict[str, Sheet]:
    """The sheets of a workbook with at most `largest` cells; ValueError if it is larger."""
    import python_calamine as calamine

    verified, marked = _checked(content, largest)
    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(verified))
    sheets = {}
    for about in book.sheets_metadata[:MOST_SHEETS]:
        cells = book.get_sheet_by_name(about.name).to_python(skip_empty_area=False)
        rows = [[_plain(cell) for cell in row] for row in cells]
        visible = about.visible == calamine.SheetVisibleEnum.Visible
        sheets[about.name] = marked[about.name]._replace(rows=rows, visible=visible)
    return sheets


def _plain(value: Any) -> Any:
    """A number, a text or None; dates and the like as texts."""
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _checked(content: bytes, largest: int) -> tuple[bytes, dict[str, Sheet]]:
    """The parts of a workbook that hold its tables, unpacked, and its sheets without their rows."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(m.file_size for m in members) > UNPACKED or len(members) > MEMBERS:
                raise ValueError(_LONG)
            files = {member.filename: archive.read(member) for member in members}
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError) as error:
        raise ValueError("it is a damaged archive") from error
    # A spreadsheet of LibreOffice's has a content.xml, which no limit below would count.
    if "xl/workbook.xml" not in files or "content.xml" in files:
        raise ValueError("it is a ZIP archive and no workbook of Excel's")
    if any(file.count(b"<") > _TAGS * largest for file in files.values()):
        raise ValueError(f"it holds more than {largest:,} cells")
    sheets = _sheets(files)
    if sum(sheet.cells for sheet in sheets.values()) > largest:
        raise ValueError(_FAR)
    if sum(sheet.characters for sheet in sheets.values()) > UNPACKED:
        raise ValueError(_LONG)
    # Packed again: what was checked here is what is read.
    verified = io.BytesIO()
    with zipfile.ZipFile(verified, "w") as archive:
        for name, file in files.items():
            archive.writestr(name, file)
    return verified.getvalue(), sheets


def _sheets(files: dict[str, bytes]) -> dict[str, Sheet]:
    """Hidden rows and formulas without a value, which change what the user sees as the table."""
    sheets = {}
    links = ElementTree.fromstring(files["xl/_rels/workbook.xml.rels"])
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    texts = ElementTree.fromstring(files.get("xl/sharedStrings.xml", b"<sst/>"))
    shared = {str(row): sum(map(len, text.itertext())) for row, text in enumerate(texts)}
    for sheet in ElementTree.fromstring(files["xl/workbook.xml"]).findall(".//{*}sheet"):
        target = targets[sheet.get(_REL)]
        path = target[1:] if target.startswith("/") else f"xl/{target}"
        rows = ElementTree.fromstring(files[path]).findall(".//{*}sheetData/{*}row")
        sheets[sheet.get("name", "")] = _of_rows(rows, shared)
    return sheets


def _of_rows(rows: list[ElementTree.Element], shared: dict[str, int]) -> Sheet:
    """A worksheet of Excel's, without its rows."""
    height = width = characters = 0
    longest = max(shared.values(), default=0)  # of texts that are not named by a plain number
    formulas = []
    for row in rows:
        for cell in row:
            name = cell.get("r", "")
            if not (reference := re.fullmatch(r"([A-Za-z]{1,3})([0-9]{1,7})", name)):
                raise ValueError(f"it has cells without a place, such as {name[:20]!r}")
            if any(cell.find(f"{{*}}{tag}") is not None for tag in ("v", "is")):
                # A is 1, Z is 26, AA is 27.
                digits = (int(letter, 36) - 9 for letter in reference[1])
                width = max(width, reduce(lambda high, low: 26 * high + low, digits))
                height = max(height, int(reference[2]))
            if cell.get("t") == "s":
                indices = ("".join(v.itertext()).strip() for v in cell.findall("{*}v"))
                characters += sum(shared.get(index, longest) for index in indices)
            # An empty text is a value, and marked as one.
            empty = not cell.findtext("{*}v") and cell.get("t") != "str"
            if cell.find("{*}f") is not None and empty:
                formulas.append(name)
    hidden = (int(row.get("r", "0")) for row in rows if row.get("hidden") in ("1", "true"))
    return Sheet([], True, frozenset(hidden), tuple(formulas), height * width, characters)
