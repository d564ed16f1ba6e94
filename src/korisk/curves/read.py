"""Measurements out of CSV, JSON, records and data frames, as columns of plain values.

A table is *long*, one measurement in a row (n, error and maybe seed, model, metric), or *wide*, one
seed in a column (n and maybe model, metric, but no error). What is wrong with a cell is said with
its place; what its number means is left to the unit of the curve.
"""

import csv
import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeGuard

from korisk.curves.unit import suggested_unit, words
from korisk.errors import KoriskError, did_you_mean, shown

MAX_CSV_BYTES = 64_000_000
MAX_JSON_BYTES = 16_000_000  # parsed, JSON takes some ten times its size in memory
MAX_ROWS = 1_000_000
MAX_LINES = 2_000_000  # rows, with as many comments
MAX_LINE = 1_000_000  # characters; bounds the number of cells that one line can make
MAX_LABEL = 80

Row = tuple[int, Sequence[object]]  # its position in the user's count, and its cells
Columns = Mapping[str, str] | None  # our names → the file's

_THIN_IT = "a pilot is some tens of rows: average or thin it first"

_NAMES = ("n", "error", "seed", "model", "metric")

_SYNONYMS = {  # headers that are probably meant, where ours is missing
    "n": ("samples", "n_samples", "num_samples", "n_train", "train_size", "train_sizes", "size"),
    "error": ("mse", "rmse", "mae", "loss", "test_error", "test_mse", "test_loss", "score"),
}

# Headers that never name a seed, whatever else they name: (n, mean, std) must not be read as two.
_STATISTICS = {"mean", "average", "median", "std", "sd", "sem", "stderr", "var", "lower", "upper"}
_METRICS = {"train", "test", "val", "validation", "loss", "error", "mse", "rmse", "mae", "score"}
_REMARKS = {"epoch", "epochs", "time", "seconds", "date", "comment", "id", "index", "parameters"}
_NOT_SEEDS = _STATISTICS | _METRICS | _REMARKS
_SEED_WORD = re.compile(r"[0-9]+|(seed|run|fold|rep|trial|split).*")
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+(,[0-9]+)+([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Source:
    """Where measurements come from, in the words of messages."""

    name: str = ""  # the path; nothing for what is in memory
    place: str = "row"
    column: str = "column"

    def error(self, problem: str) -> KoriskError:
        """A problem with the whole of it."""
        return KoriskError(f"{self.name or f'these {self.place}s'}: {problem}")

    def at(self, position: int, column: str | None = None) -> str:
        """The words for one row, or for one cell of it."""
        parts = [self.name] if self.name else []
        parts.append(f"{self.place} {position}")
        if column is not None:
            parts.append(f"{self.column} {shown(column)}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Measurements:
    """Columns of equal length, values still in the user's unit."""

    source: Source
    n_column: str
    value_column: str | None  # None in a wide table, whose columns are the seeds
    position: list[int] = field(default_factory=list)
    n: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    seed: list[str] = field(default_factory=list)
    model: list[str] = field(default_factory=list)
    metric: list[str] = field(default_factory=list)

    def where(self, row: int, name: str) -> str:
        """The place of one measurement's `n` or `error`."""
        column = self.n_column if name == "n" else self.value_column
        return self.source.at(self.position[row], self.seed[row] if column is None else column)


def read_measurements(path: str | PathLike[str], columns: Columns = None) -> Measurements:
    """What a CSV or JSON file holds; the content tells which of the two it is."""
    from korisk.files import read_text  # imports pydantic and yaml

    text = read_text(path, max_bytes=MAX_CSV_BYTES)
    if not text.strip():
        raise KoriskError(f"{path}: the file is empty; write a header such as n,error,seed first")
    if str(path).casefold().endswith((".yaml", ".yml")):
        raise KoriskError(
            f"{path}: is YAML and no table; korisk bound takes networks, korisk run and predict "
            "take studies"
        )
    if "\0" in text:
        raise KoriskError(f"{path}: looks like UTF-16 or a binary file; save it as UTF-8 text")
    if text.lstrip()[0] in "[{":
        source = Source(str(path), "record", "key")
        return _of_records(_json_records(text, source), source, columns)
    return _of_csv(text, Source(str(path), "line"), columns)


def record_measurements(records: object, columns: Columns = None) -> Measurements:
    """The measurements of mappings such as {"n": 64, "error": 0.1, "seed": 1}."""
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise KoriskError(
            f"records must be a list of mappings with the keys n and error, got {shown(records)}; "
            "use Curve.read for files and Curve.from_frame for data frames"
        )
    return _of_records(records, Source("", "record", "key"), columns)


def frame_measurements(frame: Any, columns: Columns = None) -> Measurements:
    """The measurements of a data frame: anything with `columns` and `frame[column]`."""
    try:
        names = list(frame.columns)
    except (AttributeError, TypeError):
        raise KoriskError(
            f"frame must be a data frame with columns, got {shown(frame)}; "
            "use Curve.from_records for a list of mappings"
        ) from None
    source = Source("", "row")
    layout = _layout([str(name).strip() for name in names], source, columns)
    cells = [
        map(_frame_cell, frame[name]) if index in layout.used else repeat(None)
        for index, name in enumerate(names)
    ]
    return _gathered(enumerate(zip(*cells, strict=False), start=1), layout, source)


def label(what: str, value: object) -> str:
    """`value` as the text of a seed, model or metric; empty where there is none."""
    text: str | None = None
    if value is None:
        text = ""
    elif isinstance(value, str):
        text = value.strip()
    elif _is_number(value):
        text = _written(value)
    if text is None or not text.isprintable():
        raise KoriskError(f"{what} must be a printable text, got {shown(value)}; rename it")
    if len(text) > MAX_LABEL:
        raise KoriskError(
            f"{what} must have at most {MAX_LABEL} characters, got {len(text)}; "
            f"shorten {shown(value)}"
        )
    return text


def _is_number(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _written(number: Real) -> str | None:
    """The text of a number; a seed read as 3.0 is the seed 3."""
    try:
        if isinstance(number, Integral):
            return str(int(number))
        value = float(number)
    except (OverflowError, ValueError):  # too many digits to be a label
        return None
    if not math.isfinite(value):
        return None
    return f"{value:.0f}" if value.is_integer() else repr(value)


# --- Where each thing stands ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    header: Sequence[str]
    n: int
    values: tuple[tuple[int, str | None], ...]  # columns of values; in a wide table, of which seed
    seed: int | None
    model: int | None
    metric: int | None

    @property
    def wide(self) -> bool:
        return self.values[0][1] is not None

    @property
    def used(self) -> set[int]:
        labels = {index for index in (self.seed, self.model, self.metric) if index is not None}
        return {self.n, *(index for index, _ in self.values), *labels}


def _layout(header: Sequence[str], source: Source, columns: Columns) -> _Layout:
    wanted = _wanted(columns)
    found = {name: _find(header, wanted[name], source) for name in _NAMES}
    for name in columns or {}:
        if found[name] is None:
            raise _missing(name, wanted[name], header, source)
    n, error, seed = found["n"], found["error"], found["seed"]
    if n is None:
        raise _missing("n", "n", header, source)
    if error is not None:
        values: tuple[tuple[int, str | None], ...] = ((error, None),)
    elif seed is None and len(header) > len({n, found["model"], found["metric"]} - {None}):
        values = _seed_columns(header, {n, found["model"], found["metric"]}, source)
    else:
        raise _missing("error", "error", header, source)
    return _Layout(header, n, values, seed, found["model"], found["metric"])


def _wanted(columns: Columns) -> dict[str, str]:
    given = {} if columns is None else columns
    if not isinstance(given, Mapping):
        raise KoriskError(f"columns must map our names to yours, got {shown(given)}; pass a dict")
    for name, theirs in given.items():
        if name not in _NAMES:
            raise KoriskError(
                f"columns must map {', '.join(_NAMES)}, got {shown(name)}"
                f"{did_you_mean(str(name)[:MAX_LABEL], _NAMES)}"
            )
        if not isinstance(theirs, str):
            raise KoriskError(
                f"columns[{name!r}] must be a column's name, got {shown(theirs)}; quote it"
            )
    return {name: given.get(name, name) for name in _NAMES}


def _folded(name: str) -> str:
    return name.strip().casefold()


def _find(header: Sequence[str], name: str, source: Source) -> int | None:
    folded = _folded(name)
    found = [index for index, column in enumerate(header) if _folded(column) == folded]
    if len(found) > 1:
        raise source.error(f"column {shown(name)} is there twice; rename or remove one")
    return found[0] if found else None


def _missing(name: str, wanted: str, header: Sequence[str], source: Source) -> KoriskError:
    listed = ", ".join(shown(column, limit=30) for column in header[:10]) or "none"
    more = f" and {len(header) - 10} more" if len(header) > 10 else ""
    if header and all(isinstance(_parsed(column), float) for column in header):
        return source.error(
            f"no header, found {listed}{more}; name the columns in the first line, without a #"
        )
    theirs = _guess(name, wanted, header)
    hint = f"did you mean {shown(theirs)}? " if theirs else ""
    example = shown(theirs or "...", limit=30)
    return source.error(
        f"no {source.column} {shown(wanted)}, found {listed}{more}; {hint}needed are n and error, "
        f"or n and one column per seed: pass columns={{{name!r}: {example}}} or --column {name}=..."
    )


def _guess(name: str, wanted: str, header: Sequence[str]) -> str | None:
    short = [column for column in header[:100] if len(column) <= MAX_LABEL]
    for column in short:
        if _folded(column) in _SYNONYMS.get(name, ()):
            return column
    near = difflib.get_close_matches(_folded(wanted), map(_folded, short), n=1)
    return next((column for column in short if near and _folded(column) == near[0]), None)


def _seed_columns(
    header: Sequence[str], others: set[int | None], source: Source
) -> tuple[tuple[int, str | None], ...]:
    seeds: dict[str, int] = {}
    for index, name in enumerate(header):
        if index in others:
            continue
        if not name:
            raise source.error(
                f"column {index + 1} has no name; name it after its seed, or remove it "
                "(pandas: to_csv(index=False))"
            )
        if _names_no_seed(name):
            raise source.error(
                f"column {shown(name)} does not name a seed, and without a column 'error' each "
                f"must; pass columns={{'error': {shown(name)}}} or --column error=... for the "
                "one to read"
            )
        if name in seeds:
            raise source.error(f"column {shown(name)} is there twice; rename or remove one")
        seeds[label(f"{source.name or 'frame'}: the name of a seed", name)] = index
    return tuple((index, name) for name, index in seeds.items())


def _names_no_seed(name: str) -> bool:
    found = words(name)
    if any(_SEED_WORD.fullmatch(word) for word in found):
        return False
    return suggested_unit(name) is not None or not _NOT_SEEDS.isdisjoint(found)


# --- Rows to columns -----------------------------------------------------------------------------


def _gathered(rows: Iterable[Row], layout: _Layout, source: Source) -> Measurements:
    value_column = None if layout.wide else layout.header[layout.values[0][0]]
    result = Measurements(source, layout.header[layout.n], value_column)
    labels = _Labels(layout, source)
    for position, cells in rows:
        n = _number(cells, layout.n, position, layout, source)
        if n is None:
            raise _empty(position, layout.n, layout, source)
        model, metric = (labels.read(cells, i, position) for i in (layout.model, layout.metric))
        for index, seed in layout.values:
            value = _number(cells, index, position, layout, source)
            if value is None:
                if seed is not None:  # a wide table has a cell for every N and seed
                    continue
                raise _empty(position, index, layout, source)
            if len(result.n) == MAX_ROWS:
                raise source.error(
                    f"holds more than {MAX_ROWS:,} measurements, the limit; {_THIN_IT}"
                )
            result.position.append(position)
            result.n.append(n)
            result.value.append(value)
            result.seed.append(labels.read(cells, layout.seed, position) if seed is None else seed)
            result.model.append(model)
            result.metric.append(metric)
    if not result.n:
        raise source.error("holds no measurements; add rows with n and error")
    return result


class _Labels:
    """Reads the cells of labels, keeping one copy of each text."""

    def __init__(self, layout: _Layout, source: Source) -> None:
        self._layout = layout
        self._source = source
        self._known: dict[str, str] = {}

    def read(self, cells: Sequence[object], index: int | None, position: int) -> str:
        if index is None:
            return ""
        cell = cells[index]
        if isinstance(cell, str) and cell in self._known:
            return self._known[cell]
        name = self._layout.header[index]
        try:
            text = label(shown(name), cell)
        except KoriskError as error:
            raise KoriskError(f"{self._source.at(position)}: {error}") from None
        return self._known.setdefault(cell if isinstance(cell, str) else text, text)


def _number(
    cells: Sequence[object], index: int, position: int, layout: _Layout, source: Source
) -> float | None:
    cell = cells[index]
    if isinstance(cell, str):
        cell = cell.strip() or None
    if cell is None or type(cell) is float:
        return cell
    if _is_number(cell):
        try:
            return float(cell)
        except OverflowError:
            return math.inf
    where = source.at(position, layout.header[index])
    raise KoriskError(f"{where}: must be a number, got {shown(cell)}; {_how_to_write(cell)}")


def _how_to_write(cell: object) -> str:
    if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell):
        return "write it with a decimal point and without marks between thousands"
    if isinstance(cell, str) and isinstance(_parsed(cell), float):
        return "write it without quotes"
    return "write it as 64, 0.001 or 1e-3"


def _empty(position: int, index: int, layout: _Layout, source: Source) -> KoriskError:
    where = source.at(position, layout.header[index])
    return KoriskError(f"{where}: is missing; write the number, or remove the {source.place}")


def _parsed(text: str) -> float | str | None:
    """The number in a cell of text, or the text if it is none."""
    text = text.strip()
    if not text:
        return None
    if len(text) > MAX_LABEL or "_" in text or not text.isascii():
        return text  # float() takes 1_000 and digits of any script
    try:
        return float(text)
    except ValueError:
        return text


# --- CSV -----------------------------------------------------------------------------------------


def _of_csv(text: str, source: Source, columns: Columns) -> Measurements:
    if text.count("\n") > MAX_LINES:
        raise source.error(f"has more than {MAX_LINES:,} lines, the limit; {_THIN_IT}")
    lines = _content_lines(text, source)
    first = next(lines, None)
    if first is None:
        raise source.error("holds only comments; write a header such as n,error,seed first")
    position, line = first
    delimiter = _delimiter(line)
    header = [cell.strip() for cell in _cells(line, delimiter, position, source)]
    while header and not header[-1]:  # spreadsheets end lines with empty cells
        header.pop()
    layout = _layout(header, source, columns)
    return _gathered(_csv_rows(lines, delimiter, layout, source), layout, source)


def _content_lines(text: str, source: Source) -> Iterator[tuple[int, str]]:
    """The lines that are neither blank nor comments, with their numbers in the file."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = position = 0
    while start < len(text):  # lines one by one: a list of all would double the memory
        position += 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > MAX_LINE:
            raise KoriskError(
                f"{source.at(position)}: has more than {MAX_LINE:,} characters; is this a table?"
            )
        line = text[start:end]
        start = end + 1
        if line.strip() and not line.lstrip().startswith("#"):
            yield position, line


def _csv_rows(
    lines: Iterable[tuple[int, str]], delimiter: str, layout: _Layout, source: Source
) -> Iterator[Row]:
    width = len(layout.header)
    numbers = [layout.n, *(index for index, _ in layout.values)]
    for position, line in lines:
        cells: list[Any] = _cells(line, delimiter, position, source)
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) < width or any(cell.strip() for cell in cells[width:]):
            raise KoriskError(
                f"{source.at(position)}: has {len(cells)} cells where the header has {width}; "
                + ("fill it up" if len(cells) < width else _too_many(delimiter))
            )
        for index in numbers:
            cells[index] = _parsed(cells[index])
        yield position, cells


def _too_many(delimiter: str) -> str:
    if delimiter == ",":
        return "write 0.5 and not 0,5, and quote texts that hold a comma"
    return "quote texts that hold the delimiter"


def _delimiter(header: str) -> str:
    """The character that cuts the header into most cells."""

    def width(delimiter: str) -> int:
        try:
            return len(next(csv.reader([header], delimiter=delimiter, strict=True)))
        except csv.Error:
            return 0

    return max(",;\t", key=width)


def _cells(line: str, delimiter: str, position: int, source: Source) -> list[str]:
    # Each line is a row of its own, so that an open quote is found where it stands.
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True))
    except csv.Error as error:
        problem = str(error).splitlines()[0]
        if problem == "unexpected end of data":
            problem = "a quote is not closed in its line"
        raise KoriskError(
            f"{source.at(position)}: not valid CSV: {problem}; correct the line"
        ) from None


# --- Records and frames --------------------------------------------------------------------------


class _KeyTwice:
    """Stands for a JSON object that gives a key twice, until its record is reached."""

    def __init__(self, key: str) -> None:
        self.key = key


def _json_object(pairs: list[tuple[str, object]]) -> object:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _KeyTwice(key)
        seen.add(key)
    return dict(pairs)


def _json_records(text: str, source: Source) -> list[object]:
    if len(text) > MAX_JSON_BYTES:
        raise source.error(
            f"is larger than {MAX_JSON_BYTES / 1e6:g} MB, the limit for JSON; {_THIN_IT}"
        )
    try:
        content = json.loads(text, object_pairs_hook=_json_object)
    except json.JSONDecodeError as error:
        where = f"{source.name}, line {error.lineno}, column {error.colno}"
        raise KoriskError(f"{where}: not valid JSON: {error.msg.lower()}; correct it") from None
    except RecursionError:
        raise source.error("nested too deeply; write a list of records") from None
    except ValueError:  # Python refuses whole numbers of thousands of digits
        raise source.error("a number has too many digits; round it") from None
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else content
    if not isinstance(content, list):
        raise source.error(
            'must hold a list of records, or one key with such a list; write [{"n": 64, "error": '
            "0.1}, ...]"
        )
    return content


def _of_records(records: Iterable[object], source: Source, columns: Columns) -> Measurements:
    wanted = _wanted(columns)
    keys = [_folded(wanted[name]) for name in _NAMES]
    mappings = _folded_records(records, source)
    first = next(mappings, None)
    if first is None:
        raise source.error('holds no records; add some such as {"n": 64, "error": 0.1}')
    for name in {"n": 0, "error": 0, **(columns or {})}:
        if _folded(wanted[name]) not in first:
            raise _missing(name, wanted[name], list(first), source)

    def rows() -> Iterator[Row]:
        yield 1, [first.get(key) for key in keys]
        for position, record in enumerate(mappings, start=2):
            yield position, [record.get(key) for key in keys]

    layout = _Layout([wanted[name] for name in _NAMES], 0, ((1, None),), 2, 3, 4)
    return _gathered(rows(), layout, source)


def _folded_records(records: Iterable[object], source: Source) -> Iterator[dict[str, object]]:
    for position, record in enumerate(records, start=1):
        if isinstance(record, _KeyTwice):
            raise KoriskError(
                f"{source.at(position)}: key {shown(record.key)} is there twice; remove one"
            )
        if not isinstance(record, Mapping):
            raise KoriskError(
                f"{source.at(position)}: must be a mapping with the keys n and error, "
                f'got {shown(record)}; write {{"n": 64, "error": 0.1}}'
            )
        folded = {_folded(str(key)): value for key, value in record.items()}
        if len(folded) < len(record):
            raise KoriskError(
                f"{source.at(position)}: two keys differ only in case or spaces; remove one"
            )
        yield folded


def _frame_cell(value: object) -> object:
    """A frame's cell, None where the frame marks it as missing."""
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isnan(value):
        return None
    return None if type(value).__name__ in {"NAType", "NaTType"} else value
