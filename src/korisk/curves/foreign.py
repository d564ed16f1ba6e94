"""Print the tables of the workbook, Parquet file or NumPy archive on standard input as JSON.

`formats.py` runs this file as a process. A damaged file may make its parser use any amount of
memory or time, or crash; so the process has limits, and imports nothing of korisk.
"""

import io
import json
import sys
import zipfile
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree

MEMORY = 3 << 30  # bytes of address space
SECONDS = 10  # of processor time
UNPACKED = 64_000_000  # bytes of an unpacked archive, against decompression bombs
MEMBERS = 2_000  # of an archive
_REL = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_ODS = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"


def workbook(content: bytes, largest: int) -> dict[str, Any]:
    """The rows of each sheet, the numbers of hidden rows, and cells of formulas without a value."""
    import python_calamine as calamine

    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
    marked = _marks(content) if content.startswith(b"PK") else {}
    sheets: dict[str, Any] = {}
    for about in book.sheets_metadata[:100]:
        sheet = book.get_sheet_by_name(about.name)
        largest -= sheet.total_height * sheet.total_width
        if largest < 0:
            raise ValueError("it has cells far outside of any table")
        rows = sheet.to_python(skip_empty_area=False)
        visible = about.visible == calamine.SheetVisibleEnum.Visible
        hidden, formulas = marked.get(about.name, ([], []))
        sheets[about.name] = {"rows": rows, "visible": visible, "hidden": hidden}
        sheets[about.name]["formulas"] = formulas
    return {"sheets": sheets}


def _marks(content: bytes) -> dict[str, tuple[list[int], list[str]]]:
    """Hidden rows and formulas without a value of each sheet, from Excel's or LibreOffice's XML."""
    # calamine reports neither, and both change what the user sees as the table.
    marks = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:

        def parsed(name: str) -> ElementTree.Element:
            return ElementTree.fromstring(archive.read(name))

        if "content.xml" in archive.namelist():
            for table in parsed("content.xml").iter(f"{_ODS}table"):
                row_number, hidden = 0, list[int]()
                for row in table.iter(f"{_ODS}table-row"):
                    count = int(row.get(f"{_ODS}number-rows-repeated", "1"))
                    if row.get(f"{_ODS}visibility", "visible") != "visible":
                        hidden += range(row_number + 1, row_number + 1 + min(count, 100_000))
                    row_number += count
                marks[table.get(f"{_ODS}name", "")] = hidden, list[str]()
        elif "xl/_rels/workbook.xml.rels" in archive.namelist():
            links = parsed("xl/_rels/workbook.xml.rels")
            targets = {link.get("Id"): link.get("Target", "") for link in links}
            for sheet in parsed("xl/workbook.xml").findall(".//{*}sheet"):
                target = targets[sheet.get(_REL)]
                name = target[1:] if target.startswith("/") else f"xl/{target}"
                if not name.endswith(".xml"):  # the binary kind has no such marks
                    continue
                rows = parsed(name).findall(".//{*}sheetData/{*}row")
                hidden = [int(r.get("r", "0")) for r in rows if r.get("hidden") in ("1", "true")]
                formulas = [
                    cell.get("r", "")
                    for row in rows
                    for cell in row
                    if cell.find("{*}f") is not None
                    and not cell.findtext("{*}v")
                    and cell.get("t") != "str"  # whose value may be an empty text
                ]
                marks[sheet.get("name", "")] = hidden, formulas
    return marks


def arrays(content: bytes, largest: int) -> dict[str, Any]:
    """The arrays of a .npz or .npy file as lists; an array with named fields as one per field."""
    import numpy as np

    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    else:
        files = {"": content}
    columns: dict[str, Any] = {}
    for key, file in files.items():
        array = np.load(io.BytesIO(file), allow_pickle=False)
        fields = array.dtype.names
        arrays = {name: array[name] for name in fields} if fields else {key: array}
        for name, column in arrays.items():
            largest -= column.size
            if largest < 0:
                raise ValueError("it holds too many values")
            if column.dtype.kind not in "biufUS":
                raise ValueError(f"it holds {column.dtype.name}, not numbers or texts")
            columns[name] = (column.astype("U") if column.dtype.kind == "S" else column).tolist()
    return {"arrays": columns}


def archive(content: bytes, largest: int) -> dict[str, Any]:
    """The tables of a workbook or a NumPy archive, after a check of its unpacked size."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            members = packed.infolist()
    except Exception as error:
        raise ValueError("it is a damaged archive") from error
    if sum(member.file_size for member in members) > UNPACKED or len(members) > MEMBERS:
        raise ValueError(f"it unpacks to more than {UNPACKED / 1e6:g} MB; a pilot is a small table")
    names = [member.filename for member in members]
    if names and all(name.endswith(".npy") for name in names):
        return arrays(content, largest)
    if not {"xl/workbook.xml", "xl/workbook.bin", "content.xml"} & set(names):
        raise ValueError("it is a ZIP archive and no table; unpack it first")
    return workbook(content, largest)


def parquet(content: bytes, largest: int) -> dict[str, Any]:
    """The columns of a Parquet file, without nested ones."""
    from pyarrow import parquet, types

    # The metadata give the size before anything is unpacked.
    about = parquet.read_metadata(io.BytesIO(content))
    if about.num_rows * about.num_columns > largest:
        raise ValueError(f"it holds more than {largest:,} values")
    nested = (types.is_nested, types.is_fixed_size_binary)
    fields = about.schema.to_arrow_schema()
    names = [field.name for field in fields if not any(kind(field.type) for kind in nested)]
    columns = parquet.read_table(io.BytesIO(content), columns=names, use_threads=False)
    return {"columns": columns.to_pydict()}


def main(largest: int) -> None:
    """Print the tables, of at most `largest` cells, or {"problem": ...}."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        content = sys.stdin.buffer.read()
        kinds = {b"PK\x03\x04": archive, b"PAR1": parquet, b"\x93NUM": arrays}
        text = json.dumps(kinds.get(content[:4], workbook)(content, largest), default=str)
    except ModuleNotFoundError as error:
        text = json.dumps({"missing": error.name})
    except BaseException as error:  # whatever a damaged file causes, panics included
        text = json.dumps({"problem": (str(error).splitlines() or [type(error).__name__])[0]})
    sys.stdout.write(text)


if __name__ == "__main__":
    main(int(sys.argv[1]))
