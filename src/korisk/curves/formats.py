"""Files and frames as one kind of table: text, JSON, spreadsheets, NumPy, Parquet, data frames.

A `Grid` has a header and rows of cells, each with its place in the user's count. Cells are texts,
numbers, or None where they are empty; what they mean is left to `read.py`.
"""

import csv
import io
import json
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk._checks import unique_keys
from korisk.curves import foreign
from korisk.errors import Argument, KoriskError, MissingExtraError, invalid, shown

MAX_BYTES = 16_000_000
MAX_UNPACKED = 64_000_000  # bytes of what a compressed file holds
MAX_CELLS = 200_000  # read in some seconds
MAX_LINE = 1_000_000  # characters

Table = NDArray[Any]  # of numbers, texts, or fields with names

_SPREADSHEETS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")


@dataclass(frozen=True)
class Source:
    """Where measurements come from, in the words of messages."""

    name: str = ""  # the path; nothing for what is in memory
    place: str = "row"
    column: str = "column"

    def error(self, *problem: str | Argument) -> KoriskError:
        """A problem with the whole of it."""
        return KoriskError(f"{self.name or f'these {self.place}s'}: ", *problem)

    def at(self, position: int, column: str | None = None) -> str:
        """The words for one row, or for one cell of it, without the file's name."""
        row = f"{self.place} {position}"
        return row if column is None else f"{row}, {self.column} {shown(column)}"


@dataclass(frozen=True)
class Grid:
    """A table: its header, and rows of as many cells with their positions."""

    source: Source
    header: list[str]
    rows: list[tuple[int, list[Any]]]
    notes: list[str] = field(default_factory=list)  # how it was read
    delimiter: str = ""  # of text


def read_grid(path: str | PathLike[str], worksheet: str | None = None) -> Grid:
    """The table in a file; its content, and not its name, tells what kind of file it is."""
    from korisk.files import read_bytes  # imports pydantic and yaml

    content = read_bytes(path, max_bytes=MAX_BYTES)
    name = str(path)
    if content.startswith(b"PK\x03\x04"):
        members = _unpacked(content, Source(name))
        if any(member in _SPREADSHEETS for member in members):
            return _of_spreadsheet(content, name, worksheet)
        if not members or not all(member.endswith(".npy") for member in members):
            raise KoriskError(f"{path}: is a ZIP archive and no table; unpack it first")
        arrays = {key: _npy(io.BytesIO(each), Source(name)) for key, each in members.items()}
        return _of_arrays({key.removesuffix(".npy"): arrays[key] for key in arrays}, name)
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        return _of_spreadsheet(content, name, worksheet)
    if worksheet is not None:
        rest = " does not apply; leave it out"
        raise KoriskError(f"{path}: is no spreadsheet, so ", Argument("worksheet", ...), rest)
    if content.startswith(b"\x93NUMPY"):
        return _of_arrays({"": _npy(io.BytesIO(content), Source(name))}, name)
    if content.startswith(b"PAR1"):
        return _of_columns(_foreign(content, name, "Parquet file", "pyarrow"), Source(name))
    return _of_text(_decoded(content, name), name)


def grid_of_records(records: Iterable[object], source: Source) -> Grid:
    """The table of mappings; mappings inside them are taken apart as `config.n_train`."""
    made: list[tuple[int, dict[str, Any]]] = []
    header: dict[str, None] = {}
    cells = 0
    for position, record in enumerate(records, start=1):
        if not isinstance(record, Mapping):
            rule = "must be a mapping with the keys n and error"
            remedy = 'write {"n": 64, "error": 0.1}'
            raise source.error(f"{source.at(position)} {rule}, got {shown(record)}; {remedy}")
        flat = dict(_flattened(record))
        cells += len(flat)
        if cells > MAX_CELLS:
            raise source.error(_too_many())
        header |= dict.fromkeys(flat)
        made.append((position, flat))
    if not made:
        raise source.error('holds no records; add some such as {"n": 64, "error": 0.1}')
    if len(header) * len(made) > MAX_CELLS:
        raise source.error(f"has {len(header):,} different keys; is it a table?")
    rows = [(position, [_cell(each.get(name)) for name in header]) for position, each in made]
    return _checked(Grid(source, list(header), rows))


def grid_of_frame(frame: Any) -> Grid:
    """The table of a data frame of pandas or polars: `columns`, each of them by its name."""
    try:
        names = list(frame.columns)
        index: Any = getattr(frame, "index", None)
        levels = list(getattr(index, "names", []))
        named = any(level is not None for level in levels)  # n as the index, as after groupby
        columns = {
            str(level): list(index.get_level_values(at)) for at, level in enumerate(levels) if named
        }
        for name in names:
            text = " ".join(map(str, name)).strip() if isinstance(name, tuple) else str(name)
            columns[text.strip()] = list(frame[name])
    except (AttributeError, TypeError, KeyError):
        remedy = "use Curve.from_records for a list of mappings"
        raise invalid("frame", "be a data frame with columns", frame, remedy) from None
    if len(columns) < len(names):
        raise Source().error("two columns have the same name; rename one")
    return _of_columns(columns, Source())


def _of_columns(columns: Mapping[str, Sequence[object]], source: Source) -> Grid:
    rows = zip(*(map(_cell, column) for column in columns.values()), strict=True)
    numbered = [(position, list(row)) for position, row in enumerate(rows, start=1)]
    return _checked(Grid(source, list(columns), numbered))


def _too_many() -> str:
    thin = "a pilot is some tens of rows: average or thin it first"
    return f"holds more than {MAX_CELLS:,} values; {thin}"


def _flattened(
    record: Mapping[Any, Any], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < 3:
            yield from _flattened(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _cell(value: object) -> object:
    """A cell as a text, a number or None."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isnan(value):
        return None
    return None if value is None or type(value).__name__ in {"NAType", "NaTType"} else value


def _checked(grid: Grid) -> Grid:
    """The table without empty columns at its edge and rows without any content."""
    rows = [row for row in grid.rows if any(cell is not None for cell in row[1])]

    def is_kept(place: int, name: str) -> bool:
        if place == 0 and name.casefold() in ("", "unnamed: 0", "index"):
            return not _counts(row[0] for _, row in rows)
        return bool(name) or any(row[place] is not None for _, row in rows)

    kept = [place for place, name in enumerate(grid.header) if is_kept(place, name)]
    header = [grid.header[place] for place in kept]
    rows = [(at, [row[place] for place in kept]) for at, row in rows]
    if "" in header:
        place = kept[header.index("")] + 1
        raise grid.source.error(f"column {place} has no name; name it, or remove it")
    seen = set[str]()
    for name in header:
        if name.casefold() in seen:
            problem = f"{grid.source.column} {shown(name)} is there twice"
            raise grid.source.error(f"{problem}; rename or remove one")
        seen.add(name.casefold())
    if not rows:
        raise grid.source.error("holds no measurements; add rows with n and error")
    return replace(grid, header=header, rows=rows)


def _counts(cells: Iterable[object]) -> bool:
    """Whether cells count rows, from 0 or 1, as pandas writes them."""
    found = [str(cell) for cell in cells]
    return any(found == [str(at + first) for at in range(len(found))] for first in (0, 1))


# --- Text ----------------------------------------------------------------------------------------


def _decoded(content: bytes, name: str) -> tuple[str, list[str]]:
    """The text of a file, and notes: UTF-8, UTF-16 with its mark, or what Windows writes."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return content.decode("utf-16"), []
        except UnicodeDecodeError:
            raise KoriskError(f"{name}: is damaged UTF-16 text; save it as UTF-8") from None
    if b"\0" in content:
        problem = "is a binary file and no table that korisk reads"
        raise KoriskError(f"{name}: {problem}; save it as CSV")
    try:
        return content.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace"), ["its text is in Windows-1252"]


def _of_text(decoded: tuple[str, list[str]], name: str) -> Grid:
    text, notes = decoded
    start = text.lstrip()[:1]
    if not start:
        raise KoriskError(f"{name}: the file is empty; write a header such as n,error,seed first")
    if start in "[{":
        return _of_json(text, name)
    source = Source(name, "line")
    numbers: list[int] = []
    lines: list[str] = []
    comment = ""
    for position, line in enumerate(text.splitlines(), start=1):
        if len(line) > MAX_LINE:
            problem = f"line {position} has more than {MAX_LINE:,} characters"
            raise source.error(f"{problem}; is this a table?")
        if line.lstrip()[:1] in ("#", "%"):
            comment = comment if lines else line.strip().lstrip("#%").strip()
        elif line.strip():
            numbers.append(position)
            lines.append(line)
    if not lines:
        raise source.error("holds only comments; write a header such as n,error,seed first")
    stated = re.fullmatch(r"sep=(.)", lines[0].strip())
    if stated:  # Excel's own line
        del numbers[0], lines[0]
    delimiter = stated[1] if stated else _delimiter(lines)
    rows = _split(lines, numbers, delimiter, source)
    usual = max((len(cells) for _, cells in rows), default=0)
    while len(rows) > 1 and usual > 1 and sum(cell != "" for cell in rows[0][1]) == 1:
        notes = [*notes, f"line {rows[0][0]} is a title"]
        del rows[0]
    if not rows:
        raise source.error("holds no table; write a header such as n,error,seed first")
    position, header = rows.pop(0)
    if all(re.fullmatch(r"[-+.,\deE]+", cell) for cell in header):
        names = comment.split(delimiter) if delimiter != " " else comment.split()
        if len(names) != len(header):
            listed = ", ".join(shown(cell, limit=30) for cell in header[:10])
            raise source.error(f"no header, found {listed}; name the columns in the first line")
        rows.insert(0, (position, header))  # as NumPy's savetxt writes it
        header = names
        notes = [*notes, "the header is a comment"]
    header = [cell.strip() for cell in header]
    while header and not header[-1]:  # spreadsheets end lines with empty cells
        header.pop()
    width = len(header)
    problems = [
        f"{source.at(position)} has {len(cells)} cells where the header has {width}"
        for position, cells in rows
        if len(cells) < width or any(cells[width:])
    ]
    if problems:
        more = f" and {len(problems) - 10} lines more" if len(problems) > 10 else ""
        raise source.error(
            f"{', '.join(problems[:10])}{more}; fill them up, write 0.5 and not 0,5 between "
            "commas, and quote texts that hold the delimiter"
        )
    made = [(position, [_cell(cell) for cell in cells[:width]]) for position, cells in rows]
    return _checked(Grid(source, header, made, notes, delimiter))


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter with which most lines have as many cells as the first, and most of them."""

    def fit(delimiter: str) -> tuple[float, int]:
        counts = [len(_quick(line, delimiter)) for line in lines[:50]]
        usual = max(set(counts), key=counts.count)
        return (counts.count(usual) / len(counts) if usual > 1 else 0.0, usual)

    return max("\t;,| ", key=fit)


def _quick(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    return re.sub(r'"[^"]*"', "", line).split(delimiter)


def _split(
    lines: list[str], numbers: list[int], delimiter: str, source: Source
) -> list[tuple[int, list[str]]]:
    from korisk.files import from_cell  # imports pydantic and yaml

    if delimiter == " ":
        return [(at, line.split()) for at, line in zip(numbers, lines, strict=True)]
    reader = csv.reader(
        (f"{line}\n" for line in lines), delimiter=delimiter, strict=True, skipinitialspace=True
    )
    rows, begun, cells = list[tuple[int, list[str]]](), 0, 0
    try:
        for row in reader:
            cells += len(row)
            if cells > MAX_CELLS:
                raise source.error(_too_many())
            found = [from_cell(" ".join(cell.split())) for cell in row]
            if any(found):
                rows.append((numbers[begun], found))
            begun = reader.line_num
    except csv.Error as error:
        where = source.at(numbers[min(begun, len(numbers) - 1)])
        problem = str(error).splitlines()[0]
        raise source.error(f"{where}: not valid CSV: {problem}; check its quotes") from None
    return rows


# --- JSON ----------------------------------------------------------------------------------------


def _of_json(text: str, name: str) -> Grid:
    source = Source(name, "record", "key")

    def parsed(part: str, line: int | None = None) -> Any:
        """The values in a text, or in one line of it."""
        try:
            return json.loads(part, object_pairs_hook=unique_keys)
        except json.JSONDecodeError as error:
            if line is None and len(lines) > 1 and lines[0].lstrip().startswith("{"):  # JSON lines
                return [parsed(each, place) for place, each in enumerate(lines, start=1)]
            where = f"{name}, line {line or error.lineno}, column {error.colno}"
            raise KoriskError(f"{where}: not valid JSON: {error.msg.lower()}; correct it") from None
        except KoriskError as error:
            raise source.error(str(error)) from None
        except (RecursionError, ValueError):  # the latter for numbers of thousands of digits
            raise source.error("nested too deeply, or a number has too many digits") from None

    lines = [line for line in text.splitlines() if line.strip()]
    content = parsed(text)
    if isinstance(content, dict):
        lists = {key: value for key, value in content.items() if isinstance(value, list)}
        if len(lists) > 1 and not any(isinstance(v, dict) for vs in lists.values() for v in vs):
            return _of_arrays({key: _as_array(key, lists[key], source) for key in lists}, name)
        content = next(iter(lists.values())) if len(lists) == 1 else content
    if not isinstance(content, list):
        raise source.error(
            'must hold a list of records, or one key with such a list; write [{"n": 64, "error": '
            "0.1}, ...]"
        )
    return grid_of_records(content, source)


def _as_array(name: str, values: list[object], source: Source) -> Table:
    mixed = any(isinstance(value, str | None) for value in values)
    try:
        return np.array(values, dtype=object if mixed else None)
    except ValueError:
        raise source.error(f"{shown(name)} has rows of different lengths; fill them up") from None


# --- Arrays --------------------------------------------------------------------------------------


def _unpacked(content: bytes, source: Source) -> dict[str, bytes]:
    """The members of an archive, if all together are of a sensible size."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(each.file_size for each in members) > MAX_UNPACKED or len(members) > 2000:
                size = f"{MAX_UNPACKED / 1e6:g} MB"
                raise source.error(f"unpacks to more than {size}; a pilot is a small table")
            contents = {}
            for member in members:
                with archive.open(member) as file:
                    contents[member.filename] = file.read(member.file_size)  # and never more
            return contents
    except KoriskError:
        raise
    except Exception as error:  # whatever damage causes: zipfile, zlib and lzma have their own
        raise source.error(f"is a damaged archive: {shown(str(error))}; save it again") from None


def _npy(file: io.BytesIO, source: Source) -> Table:
    """An array, whose header may claim no more than the file holds."""
    try:
        version = 1 if np.lib.format.read_magic(file) == (1, 0) else 2
        shape, _, dtype = getattr(np.lib.format, f"read_array_header_{version}_0")(file)
        if max(math.prod(shape), *shape, 0) > MAX_CELLS:
            raise ValueError(f"it {_too_many()}")
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        if math.prod(shape) * dtype.itemsize > len(file.getbuffer()):
            raise ValueError("it is cut short")
        file.seek(0)
        made: Table = np.load(file, allow_pickle=False)
        for each in [made[name] for name in dtype.names] if dtype.names else [made]:
            if each.dtype.kind not in "biufUS":
                raise ValueError(f"it holds {shown(each.dtype.name)}, not numbers or texts")
            if each.dtype.kind == "U":  # NumPy makes texts of any numbers, which fail when used
                plain = np.ascontiguousarray(each, each.dtype.newbyteorder("="))
                if plain.view("u4").max(initial=0) > sys.maxunicode:
                    raise ValueError("it holds invalid characters")
        return made
    except Exception as error:  # whatever a damaged header causes
        raise source.error(f"an array cannot be read: {shown(str(error))}; save it again") from None


def _of_arrays(arrays: Mapping[str, Table], name: str) -> Grid:
    """The table of named arrays; one with two axes has a column for each fold or field."""
    source, columns = Source(name), dict[str, Sequence[Any]]()
    for key, array in arrays.items():
        if array.dtype.names:  # a table with named fields
            columns |= {field: array[field].tolist() for field in array.dtype.names}
        elif array.ndim == 1:
            columns[key] = array.tolist()
        elif array.ndim == 2 and array.size <= MAX_CELLS and key == "" and array.shape[1] == 2:
            columns |= {"n": array[:, 0].tolist(), "error": array[:, 1].tolist()}
        elif array.ndim == 2 and array.size <= MAX_CELLS and "score" in key:
            folds = range(1, array.shape[1] + 1)
            columns |= {f"{key} fold {fold}": array[:, fold - 1].tolist() for fold in folds}
        else:
            raise source.error(
                f"an array of shape {array.shape} does not say what its columns are; save an array "
                "for each model, or what learning_curve returns as train_sizes and test_scores"
            )
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise source.error(f"its columns have {sorted(lengths)} rows; save columns of one length")
    if sum(map(len, columns.values())) > MAX_CELLS:
        raise source.error(_too_many())
    return _of_columns(columns, source)


# --- Other programs' files -----------------------------------------------------------------------


def _of_spreadsheet(content: bytes, name: str, worksheet: str | None) -> Grid:
    from korisk.files import from_cell  # imports pydantic and yaml

    tables: dict[str, list[list[Any]]] = _foreign(content, name, "workbook", "python_calamine")
    names = list(tables)
    if worksheet is not None:
        if worksheet not in tables:
            listed = ", ".join(map(shown, names[:10]))
            raise KoriskError(f"{name}: no sheet {shown(worksheet)}; there are {listed}")
        tables = {worksheet: tables[worksheet]}
    tables = {each: rows for each, rows in tables.items() if any(c != "" for r in rows for c in r)}
    if not tables:
        raise KoriskError(f"{name}: is empty; write a header such as n,error,seed first")
    if len(tables) > 1:
        listed = ", ".join(map(shown, list(tables)[:10]))
        problem = f"has {len(tables)} sheets with content ({listed}); name one, such as "
        raise KoriskError(f"{name}: {problem}", Argument("worksheet", next(iter(tables))))
    [(title, rows)] = tables.items()
    source = Source(name, "row")
    filled = [(at, row) for at, row in enumerate(rows, start=1) if any(cell != "" for cell in row)]
    notes = [f"sheet {shown(title)}"] if worksheet is None and len(names) > 1 else []
    while len(filled) > 1 and sum(cell != "" for cell in filled[0][1]) == 1:
        notes.append(f"row {filled[0][0]} is a title")
        del filled[0]
    header = [from_cell(" ".join(str(cell).split())) for cell in filled[0][1]]
    header = [re.sub(r"^(\d+)\.0$", r"\1", cell) for cell in header]
    kept = [
        (at, [_cell(from_cell(cell) if isinstance(cell, str) else cell) for cell in row])
        for at, row in filled[1:]
        if not str(next(cell for cell in row if cell != "")).startswith("#")
    ]
    return _checked(Grid(source, header, kept, notes))


def _foreign(content: bytes, name: str, kind: str, library: str) -> Any:
    """What a library of another language reads, in a process with limits."""
    if find_spec(library) is None:
        what = "a workbook" if kind == "workbook" else "Parquet"
        problem = f"{what} needs {library.replace('_', '-')}, which is not installed"
        remedy = "pip install 'korisk[io]', or save the table as CSV"
        raise MissingExtraError(f"{name}: {problem}; {remedy}")
    command = [sys.executable, "-P", foreign.__file__, kind, str(MAX_CELLS)]
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    made: dict[str, Any] = {"problem": "it takes too much memory or time"}
    with suppress(ValueError):
        made = json.loads(done.stdout)
    if "problem" in made:
        problem = f"is no {kind} that can be read: {shown(made['problem'])}"
        raise KoriskError(f"{name}: {problem}; save it again, or as CSV")
    return made["tables"]
