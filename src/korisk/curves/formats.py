"""Read text, JSON, workbooks and data frames into one kind of table.

A `Grid` has a header and rows of cells, each row with its position as the user counts. Cells are
texts, numbers, or None if empty; `read.py` interprets them. Text is split at a delimiter, or
copied from Markdown.
"""

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from korisk._checks import path as as_path
from korisk._checks import unique_keys
from korisk.errors import Argument, KoriskError, MissingExtraError, invalid, shown
from korisk.texts import counted

if TYPE_CHECKING:
    from korisk.curves.binary import Sheet

_Rows = list[tuple[int, list[Any]]]  # with their positions

MAX_BYTES = 16_000_000
MAX_CELLS = 200_000  # read in a few seconds
MAX_LINE = 1_000_000  # characters

# First bytes of formats that are not text.
_WORKBOOK = b"PK\x03\x04"  # a ZIP archive
_RECORD = '{"n": 64, "error": 0.1}'
_PERCENT_HEAD = re.compile(r"(?i)\s*%\s*(of|data|train)")  # of a share of the data, no comment
_BARE = re.compile(r"[\w.+-]+")  # nearly all cells: nothing to strip, no quotes
_RULE = re.compile(r"[\s|+:=-]*(--|==|:-)[\s|+:=-]*")  # line between a header and its rows


def in_short(texts: Iterable[str], most: int = 10) -> str:
    """Join distinct texts for a message, at most `most` of them."""
    distinct = list(dict.fromkeys(texts))
    return ", ".join(distinct[:most]) + ", ..." * bool(distinct[most:])


Answer = tuple[str, object, str]  # an option, its value, and when it is right


class Question(KoriskError):
    """An ambiguous table, with the options that may resolve it: the likeliest comes first."""

    def __init__(self, problem: str, *answers: Answer) -> None:
        self.problem, self.answers = problem, answers
        pieces: list[str | Argument] = []
        for k, (name, value, when) in enumerate(answers):
            # "a", "a, or b", "a, b, or c"
            between = "; pass " if k == 0 else ", or " if k == len(answers) - 1 else ", "
            pieces += [between, Argument(name, value), f" {when}"]
        super().__init__(problem, *pieces)


@dataclass(frozen=True)
class Source:
    """Where measurements come from, and the words of messages about it."""

    name: str = ""  # the path; empty for data in memory
    place: str = "row"
    column: str = "column"

    def error(self, *problem: str | Argument) -> KoriskError:
        """The error for a problem with the whole source."""
        return KoriskError(f"{self.name or f'these {self.place}s'}: ", *problem)

    def ask(self, problem: str, *answers: Answer) -> Question:
        """The question about an ambiguous table, with the options that resolve it."""
        return Question(f"{self.name or f'these {self.place}s'}: {problem}", *answers)

    def at(self, position: int, column: str | None = None) -> str:
        """Describe a row, or one of its cells, without the file's name."""
        row = f"{self.place} {position}"
        return row if column is None else f"{row}, {self.column} {shown(column)}"


@dataclass(frozen=True)
class Grid:
    """A table: its header, and rows of as many cells, with their positions."""

    source: Source
    header: list[str]
    rows: list[tuple[int, list[Any]]]
    notes: list[str] = field(default_factory=list)  # how it was read
    delimiter: str = ""  # of text
    titles: list[str] = field(default_factory=list)  # texts above the header
    decibels: frozenset[str] = frozenset()  # columns whose cells say dB


RECORDS = Source("", "record", "key")


def is_store(path: str | PathLike[str]) -> bool:
    """Whether a path names a folder, or a file that SQLite wrote."""
    file_path = as_path("path", path, remedy="name a table such as 'pilot.csv', or a store")
    try:
        if file_path.is_dir():
            return True
        if not file_path.is_file():
            return False
        with file_path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def read_grid(path: str | PathLike[str], worksheet: str | None = None) -> Grid:
    """Read the table in a file, whose format is recognised by its content."""
    from korisk.files import read_bytes  # imports pydantic and yaml

    # Extensions are not trusted: exports are often misnamed, such as tab-separated .xls files.
    content = read_bytes(path, max_bytes=MAX_BYTES)
    source = Source(str(path))
    if content.startswith(_WORKBOOK):
        return _of_sheets(_unpacked(content, source), source, worksheet)
    if worksheet is not None:
        rest = " does not apply; leave it out"
        raise source.error("is no spreadsheet, so ", Argument("worksheet", ...), rest)
    return _of_text(_decoded(content, str(path)), str(path))


def grid_of_records(records: object, source: Source = RECORDS) -> Grid:
    """The table of mappings; nested keys are joined, as in `config.n_train`."""
    if isinstance(records, bytes | Mapping) or not isinstance(records, Iterable):
        rule = "be a path, a list of mappings with n and error, or a data frame"
        raise invalid("source", rule, records, "pass one")
    records_read: list[tuple[int, dict[str, Any]]] = []
    header: dict[str, None] = {}
    for position, record in enumerate(records, start=1):
        if not isinstance(record, Mapping):
            problem = f"must be a mapping with the keys n and error, got {shown(record)}"
            raise source.error(f"{source.at(position)} {problem}; write {_RECORD}")
        flat = dict(_flattened(record))
        header |= dict.fromkeys(flat)
        _check_cells(len(header) * position, source)
        records_read.append((position, flat))
    rows = [(place, [_cell(record.get(name)) for name in header]) for place, record in records_read]
    return _checked(Grid(source, list(header), rows))


def grid_of_frame(frame: Any) -> Grid:
    """The table of a data frame of pandas or polars, by its `columns`."""
    names = list(frame.columns)
    index: Any = getattr(frame, "index", None)
    levels = enumerate(getattr(index, "names", []))  # n may be the index, as after groupby
    columns = {str(name): list(index.get_level_values(k)) for k, name in levels if name is not None}
    for name in names:
        text = " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        columns[text.strip()] = list(frame[name])
    if len(columns) < len(names):
        raise Source().error("two columns have the same name; rename one")
    return _of_columns(columns, Source())


def _of_columns(columns: Mapping[str, Sequence[object]], source: Source) -> Grid:
    rows = zip(*(map(_cell, column) for column in columns.values()), strict=True)
    numbered = [(position, list(row)) for position, row in enumerate(rows, start=1)]
    return _checked(Grid(source, list(columns), numbered))


def _check_cells(count: int, source: Source) -> None:
    """Raise for more values than a pilot has."""
    if count > MAX_CELLS:
        thin = "a pilot is some tens of rows: average or thin it first"
        raise source.error(f"holds more than {MAX_CELLS:,} values; {thin}")


def _flattened(
    record: Mapping[Any, Any], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < 3:
            yield from _flattened(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _cell(value: Any) -> object:
    """Convert a cell to a text, a number or None."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, np.generic) or (hasattr(value, "detach") and value.ndim == 0):
        value = value.item()  # of NumPy, or of a tensor of PyTorch
    absent = type(value).__name__ in {"MaskedConstant", "NAType", "NaTType"}
    return None if absent or (isinstance(value, float) and math.isnan(value)) else value


def _checked(grid: Grid) -> Grid:
    """The table without empty rows and columns; names of columns must differ."""
    rows = [row for row in grid.rows if any(cell is not None for cell in row[1])]
    if not rows:
        raise grid.source.error("holds no measurements; add rows with n and error")
    used = [
        place
        for place, name in enumerate(grid.header)
        if name or any(row[place] is not None for _, row in rows)
    ]
    header = [grid.header[place] or f"column {place + 1}" for place in used]
    rows = [(position, [row[place] for place in used]) for position, row in rows]
    folded = [name.casefold() for name in header]
    for index, name in enumerate(header):
        if folded[index] in folded[:index]:
            twice = f"{grid.source.column} {shown(name)} is there twice"
            raise grid.source.error(f"{twice}; rename or remove one")
    return replace(grid, header=header, rows=rows)


def _headed(rows: _Rows, source: Source, notes: list[str]) -> Grid:
    """The table in rows of a text or a sheet: titles, a header, a body, and notes."""
    if not rows:
        raise source.error("holds no table; write a header such as n,error,seed first")
    # Rows with one cell above the header are titles, and below the body notes.
    filled = [sum(cell not in ("", None) for cell in cells) for _, cells in rows]
    titles = []
    while filled[0] == 1 < max(filled):
        notes = [*notes, f"{source.place} {rows[0][0]} is a title"]
        titles += [str(cell) for cell in rows[0][1] if cell not in ("", None)]
        rows, filled = rows[1:], filled[1:]
    while filled[-1] == 1 < max(filled) and not any(map(_is_number, filter(None, rows[-1][1]))):
        notes = [*notes, f"{source.place} {rows[-1][0]} is a note"]
        rows, filled = rows[:-1], filled[:-1]
    (_, first), *body = rows
    header = [re.sub(r"^(\d+)\.0$", r"\1", str(cell or "").strip()) for cell in first]
    width = len(header)
    merged = len(set(filter(None, header))) < width
    below = body[0][1] if body else []
    if len(below) > 1 and not any(map(_is_number, below)) and (merged or all(below[1:])):
        raise source.error(f"{source.at(body[0][0])} has no numbers; write a head of one row")
    # R and pandas write names of rows without a header cell: rows are one cell longer.
    extra = [str(cells[0]) for _, cells in body if len(cells) == width + 1]
    counts = [[str(row + first) for row in range(len(body))] for first in (0, 1)]
    names = not any(map(_is_number, extra)) or extra in counts
    if body and len(extra) == len(body) and names and any(cells[-1] for _, cells in body):
        header.insert(0, "")
        width += 1
    problems = [
        f"{source.at(position)} has {len(cells)} cells where the header has {width}"
        for position, cells in body
        if len(cells) < width or any(cell not in ("", None) for cell in cells[width:])
    ]
    if problems:
        remedy = "write 0.5 and not 0,5 between commas, and quote texts that hold the delimiter"
        raise source.error(f"{in_short(problems)}; fill them up, {remedy}")
    cells = [(position, [_cell(cell) for cell in row[:width]]) for position, row in body]
    return _checked(Grid(source, header, cells, notes, titles=titles))


def _is_number(cell: object) -> bool:
    """Whether a cell begins like a number, so that its row is no header."""
    return not isinstance(cell, str | None) or bool(re.match(r"\s*[-+\u2212]?[.,]?\d", cell or ""))


# --- Text ----------------------------------------------------------------------------------------


def _decoded(content: bytes, name: str) -> tuple[str, list[str]]:
    """Decode a file, with notes: UTF-8, UTF-16 with a byte order mark, or Windows-1252."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return content.decode("utf-16"), []
        except UnicodeDecodeError:
            raise KoriskError(f"{name}: is damaged UTF-16 text; save it as UTF-8") from None
    if b"\0" in content:
        raise KoriskError(f"{name}: is a binary file; save it as .xlsx or CSV")
    try:
        return content.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace"), ["its text is in Windows-1252"]


def _of_text(decoded: tuple[str, list[str]], name: str) -> Grid:
    text, notes = decoded
    start = text.lstrip()[:1]
    if start and start in "[{":
        return _of_json(text, name)
    if start == "<":
        raise KoriskError(f"{name}: is a web page (HTML or XML); save its table as CSV")
    source = Source(name, "line")
    numbers: list[int] = []
    lines: list[str] = []
    comment, bars = "", False
    for position, line in enumerate(text.splitlines(), start=1):
        if len(line) > MAX_LINE:
            raise source.error(f"line {position} has more than {MAX_LINE:,} characters")
        if line.lstrip()[:1] in ("#", "%") and not _PERCENT_HEAD.match(line):
            comment = comment if lines else line.strip().lstrip("#%").strip()
        elif _RULE.fullmatch(line):
            bars = bars or "|" in line or "+" in line  # Markdown, and tables drawn with rules
        elif line.strip():
            numbers.append(position)
            lines.append(line)
    if bars:
        lines = [re.sub(r"\*\*|`|^\s*\||\|\s*$", "", line) for line in lines]
        delimiter = "|"
    else:
        delimiter = _delimiter(lines or [""])
    rows = _split(lines, numbers, delimiter, source)
    # NumPy's savetxt writes the header as a comment, which then names as many columns.
    if rows and all(re.fullmatch(r"[-+.,\deE]+", cell) for cell in rows[0][1]):
        names = comment.split(delimiter) if delimiter != " " else comment.split()
        if len(names) != len(rows[0][1]):
            listed = in_short(shown(cell, limit=30) for cell in rows[0][1])
            raise source.error(f"no header, found {listed}; name the columns in the first line")
        rows.insert(0, (0, names))
        notes = [*notes, "the header is a comment"]
    return replace(_headed(rows, source, notes), delimiter=delimiter)


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter that gives most lines the same number of cells; of several, the most cells."""

    def fit(delimiter: str) -> tuple[float, int]:
        # A quoted text may contain delimiters.
        bare = (re.sub(r'"[^"]*"', "x", line) for line in lines[:50])
        parts = (line.split(None if delimiter == " " else delimiter) for line in bare)
        counts = [len(cells) for cells in parts]
        usual = max(set(counts), key=counts.count)
        return (counts.count(usual) / len(counts) if usual > 1 else 0.0, usual)

    return max("\t;,| ", key=fit)


def _split(lines: list[str], numbers: list[int], delimiter: str, source: Source) -> _Rows:
    from korisk.files import from_cell  # imports pydantic and yaml

    ended = (f"{line.strip(' ') if delimiter == ' ' else line}\n" for line in lines)
    reader = csv.reader(ended, delimiter=delimiter, strict=True, skipinitialspace=True)
    rows, begun, cells = _Rows(), 0, 0
    try:
        for row in reader:
            cells += len(row)
            _check_cells(cells, source)
            texts = [
                cell if _BARE.fullmatch(cell) else from_cell(" ".join(cell.split())) for cell in row
            ]
            if any(texts):
                rows.append((numbers[begun], texts))
            begun = reader.line_num
    except csv.Error as error:
        problem = f"{source.at(numbers[min(begun, len(numbers) - 1)])}: not valid CSV"
        raise source.error(f"{problem}: {str(error).splitlines()[0]}; check its quotes") from None
    return rows


# --- JSON ----------------------------------------------------------------------------------------


def _of_json(text: str, name: str) -> Grid:
    source = Source(name, "record", "key")

    def parsed(fragment: str, place: str = "") -> Any:
        """The values in a JSON text, or in one line of JSON lines."""
        try:
            return json.loads(fragment, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            if not place and str(error).startswith("Extra data"):  # JSON lines
                lines = enumerate(text.splitlines(), start=1)
                return [parsed(line, f", line {number}") for number, line in lines if line.strip()]
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise KoriskError(f"{name}{place}: not valid JSON: {reason}; correct it") from None

    content = parsed(text)
    if isinstance(content, dict):
        lists = {key: value for key, value in content.items() if isinstance(value, list)}
        if len(lists) > 1:
            if len(lengths := {*map(len, lists.values())}) > 1:
                problem = f"its columns have {sorted(lengths)} rows"
                raise source.error(f"{problem}; save columns of one length")
            _check_cells(sum(map(len, lists.values())), source)
            return _of_columns(lists, Source(name))
        content = next(iter(lists.values())) if lists else content
    if not isinstance(content, list):
        rule = "must hold a list of records, or one key with such a list"
        raise source.error(f"{rule}; write [{_RECORD}, ...]")
    return grid_of_records(content, source)


# --- Workbooks -----------------------------------------------------------------------------------


def _unpacked(content: bytes, source: Source) -> dict[str, "Sheet"]:
    """The sheets of a workbook; one line for whatever a damaged file makes its reader raise."""
    from korisk.curves import binary  # imports zipfile and XML

    try:
        return binary.workbook(content, MAX_CELLS)
    except ModuleNotFoundError:
        remedy = "pip install 'korisk[io]', or save the table as CSV"
        problem = "needs python-calamine, which is not installed"
        raise MissingExtraError(f"{source.name}: {problem}; {remedy}") from None
    except BaseException as error:  # its reader in Rust panics, which is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        problem = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise source.error(f"cannot be read: {problem}; save it as .xlsx or CSV") from None


def _of_sheets(sheets: dict[str, "Sheet"], source: Source, worksheet: str | None) -> Grid:
    from korisk.curves.binary import Sheet  # imports zipfile and XML
    from korisk.files import from_cell  # imports pydantic and yaml

    if worksheet is not None and worksheet not in sheets:
        raise source.error(f"no sheet {shown(worksheet)}; there are {in_short(map(shown, sheets))}")
    used = {
        title: sheet
        for title, sheet in sheets.items()
        if any(cell != "" for row in sheet.rows for cell in row)
        and (sheet.visible if worksheet is None else title == worksheet)
    }
    if len(used) > 1:
        answers: list[Answer] = [("worksheet", sheet, "for that one") for sheet in list(used)[:4]]
        listed = in_short(map(shown, used))
        raise source.ask(f"has {len(used)} sheets with content ({listed})", *answers)
    title, sheet = next(iter(used.items()), ("", Sheet([])))
    if sheet.formulas:
        problem = f"has formulas without values ({in_short(sheet.formulas, 5)})"
        raise source.error(f"{problem}; open it in a spreadsheet program and save it, or as CSV")
    notes = [f"sheet {shown(title)}"] if worksheet is None and len(sheets) > 1 else []
    rows = [(k, row) for k, row in enumerate(sheet.rows, start=1) if any(c != "" for c in row)]
    visible = [row for row in rows if row[0] not in sheet.hidden]
    if hidden := len(rows) - len(visible):
        notes.append(f"{counted(hidden, 'hidden row')} left out")
    texts = [
        (position, [from_cell(" ".join(c.split())) if isinstance(c, str) else c for c in row])
        for position, row in visible
        if not str(next(c for c in row if c != "")).startswith("#")
    ]
    return _headed(texts, source, notes)
