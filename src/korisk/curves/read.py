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
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
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
        row = f"{self.name}, {self.place} {position}" if self.name else f"{self.place} {position}"
        return row if column is None else f"{row}, {self.column} {shown(column)}"


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

    @property
    def columns(self) -> tuple[list[Any], ...]:
        """All of them."""
        return self.position, self.n, self.value, self.seed, self.model, self.metric

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

    def cell(value: object) -> object:  # None where the frame marks it as missing
        if isinstance(value, Real) and not isinstance(value, Integral) and math.isnan(value):
            return None
        return None if type(value).__name__ in {"NAType", "NaTType"} else value

    rows = zip(*(map(cell, frame[name]) for name in names), strict=True)
    return _gathered(enumerate(rows, start=1), layout, source)


def label(what: str, value: object) -> str:
    """`value` as the text of a seed, model or metric; empty where there is none."""
    text: str | None = None
    number: Any = value
    if value is None or isinstance(value, str):
        text = (value or "").strip()
    elif _is_number(value):
        with suppress(OverflowError, ValueError):  # not finite, or too many digits
            text = str(int(number)) if number == int(number) else repr(float(number))
    if text is None or not text.isprintable() or len(text) > MAX_LABEL:
        raise KoriskError(
            f"{what} must be a printable text of at most {MAX_LABEL} characters, got "
            f"{shown(value)}; rename it"
        )
    return text


def _is_number(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


# --- Where each thing stands ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    header: Sequence[str]
    n: int
    values: dict[int, str | None]  # columns of values; in a wide table, of which seed
    seed: int | None
    model: int | None
    metric: int | None


def _layout(header: Sequence[str], source: Source, columns: Columns) -> _Layout:
    wanted, found = _wanted(columns), dict[str, int | None]()
    for name, theirs in wanted.items():
        there = [i for i, column in enumerate(header) if _folded(column) == _folded(theirs)]
        if len(there) > 1:
            raise source.error(f"column {shown(theirs)} is there twice; rename or remove one")
        found[name] = there[0] if there else None
    for name in ("n", *(columns or {})):
        if found[name] is None:
            raise _missing(name, wanted[name], header, source)
    n, error, seed, model, metric = found.values()
    assert n is not None
    others = {n, model, metric} - {None}
    values: dict[int, str | None] = {}
    if error is not None:
        values = {error: None}
    elif seed is None and len(header) > len(others):
        for index, name in enumerate(header):
            if index not in others:
                values[index] = _seed_of(name, index, source, values)
    else:
        raise _missing("error", "error", header, source)
    return _Layout(header, n, values, seed, model, metric)


def _wanted(columns: Columns) -> dict[str, str]:
    """Our names and those of the input."""
    mapped = {} if columns is None else columns
    if not isinstance(mapped, Mapping):
        raise KoriskError(f"columns must map our names to yours, got {shown(mapped)}; pass a dict")
    for name, theirs in mapped.items():
        if name not in _NAMES:
            raise KoriskError(
                f"columns must map {', '.join(_NAMES)}, got {shown(name)}"
                f"{did_you_mean(str(name)[:MAX_LABEL], _NAMES)}"
            )
        if not isinstance(theirs, str):
            raise KoriskError(
                f"columns[{name!r}] must be a column's name, got {shown(theirs)}; quote it"
            )
    return {name: mapped.get(name, name) for name in _NAMES}


def _folded(name: str) -> str:
    return name.strip().casefold()


def _missing(name: str, wanted: str, header: Sequence[str], source: Source) -> KoriskError:
    listed = ", ".join(shown(column, limit=30) for column in header[:10]) or "none"
    listed += ", ..." if len(header) > 10 else ""
    if header and all(isinstance(_parsed(column), float) for column in header):
        return source.error(f"no header, found {listed}; name the columns in the first line")
    short = {_folded(column): column for column in header[:100] if len(column) <= MAX_LABEL}
    meant = [each for each in short if each in _SYNONYMS.get(name, ())]
    meant += difflib.get_close_matches(_folded(wanted), short, n=1)
    hint = f"did you mean {shown(short[meant[0]])}? " if meant else ""
    example = shown(short[meant[0]] if meant else "...", limit=30)
    return source.error(
        f"no {source.column} {shown(wanted)}, found {listed}; {hint}needed are n and error, "
        f"or n and one column per seed: pass columns={{{name!r}: {example}}}"
    )


def _seed_of(name: str, index: int, source: Source, others: dict[int, str | None]) -> str:
    """The seed whose values are in a column of a wide table."""
    if not name:
        raise source.error(f"column {index + 1} has no name; name it after its seed, or remove it")
    found = words(name)
    other = suggested_unit(name) is not None or not _NOT_SEEDS.isdisjoint(found)
    if other and not any(_SEED_WORD.fullmatch(word) for word in found):
        raise source.error(
            f"column {shown(name)} does not name a seed, and without a column 'error' each "
            f"must; pass columns={{'error': {shown(name)}}} for the one to read"
        )
    seed = label(f"{source.name or 'frame'}: the name of a seed", name)
    if seed in others.values():
        raise source.error(f"column {shown(name)} is there twice; rename or remove one")
    return seed


# --- Rows to columns -----------------------------------------------------------------------------


def _gathered(rows: Iterable[Row], layout: _Layout, source: Source) -> Measurements:
    header, (first, *_) = layout.header, layout.values
    column = header[first] if layout.values[first] is None else None
    result = Measurements(source, header[layout.n], column)
    columns, texts = result.columns, dict[str, str]()  # one copy of each label
    for position, cells in rows:
        labels = []
        for index in (layout.model, layout.metric, layout.seed):
            cell = "" if index is None else cells[index]
            if not isinstance(cell, str) or cell not in texts:
                try:
                    made = label(shown(header[index or 0]), cell)
                except KoriskError as error:
                    raise KoriskError(f"{source.at(position)}: {error}") from None
                cell = cell if isinstance(cell, str) else made
                texts.setdefault(cell, made)
            labels.append(texts[cell])
        model, metric, own = labels
        numbers = {}
        for index in (layout.n, *layout.values):
            where = source.at(position, header[index])
            numbers[index] = _number(cells[index], where)
            if numbers[index] is None and layout.values.get(index) is None:
                raise KoriskError(
                    f"{where}: is missing; write the number, or remove the {source.place}"
                )
        n = numbers.pop(layout.n)
        for index, value in numbers.items():
            if value is None or n is None:
                continue  # a wide table has a cell for every N and seed
            if len(result.n) == MAX_ROWS:
                raise source.error(f"holds more than {MAX_ROWS:,} measurements; {_THIN_IT}")
            seed = layout.values[index]
            row = (position, n, value, own if seed is None else seed, model, metric)
            for kept, each in zip(columns, row, strict=True):
                kept.append(each)
    if not result.n:
        raise source.error("holds no measurements; add rows with n and error")
    return result


def _number(cell: object, where: str) -> float | None:
    """The number in a cell; None where the cell is empty."""
    if isinstance(cell, str):
        cell = cell.strip() or None
    if cell is None or type(cell) is float:
        return cell
    if _is_number(cell):
        try:
            return float(cell)
        except OverflowError:
            return math.inf
    remedy = "write it as 64, 0.001 or 1e-3"
    if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell):
        remedy = "write it with a decimal point and without marks between thousands"
    elif isinstance(cell, str) and isinstance(_parsed(cell), float):
        remedy = "write it without quotes"
    raise KoriskError(f"{where}: must be a number, got {shown(cell)}; {remedy}")


def _parsed(text: str) -> float | str:
    """The number in a cell of text, or the text if it has no number."""
    text = text.strip()
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
    position, line = next(lines, (0, ""))
    if not line:
        raise source.error("holds only comments; write a header such as n,error,seed first")
    delimiter = max(",;\t", key=line.count)
    header = [cell.strip() for cell in _cells(line, delimiter, position, source)]
    while header and not header[-1]:  # spreadsheets end lines with empty cells
        header.pop()
    layout = _layout(header, source, columns)

    def rows() -> Iterator[Row]:
        width = len(header)
        for position, line in lines:
            cells: list[Any] = _cells(line, delimiter, position, source)
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) < width or any(cell.strip() for cell in cells[width:]):
                raise KoriskError(
                    f"{source.at(position)}: has {len(cells)} cells where the header has {width}; "
                    "fill it up, write 0.5 and not 0,5, and quote texts that hold the delimiter"
                )
            for index in (layout.n, *layout.values):
                cells[index] = _parsed(cells[index])
            yield position, cells

    return _gathered(rows(), layout, source)


def _content_lines(text: str, source: Source) -> Iterator[tuple[int, str]]:
    """The lines that are neither blank nor comments, with their numbers in the file."""
    # One by one: a list of all lines would double the memory.
    found = re.finditer(r"([^\r\n]*)(?:\r\n|[\r\n]|\Z)", text)
    for position, line in enumerate((each[1] for each in found), start=1):
        if len(line) > MAX_LINE:
            raise KoriskError(
                f"{source.at(position)}: has more than {MAX_LINE:,} characters; is this a table?"
            )
        if line.strip() and not line.lstrip().startswith("#"):
            yield position, line


def _cells(line: str, delimiter: str, position: int, source: Source) -> list[str]:
    # Each line is a row of its own, so that an open quote is found where it stands.
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True))
    except csv.Error as error:
        where, problem = source.at(position), str(error).splitlines()[0]
        raise KoriskError(f"{where}: not valid CSV: {problem}; check its quotes") from None


# --- Records -------------------------------------------------------------------------------------


def _json_records(text: str, source: Source) -> list[object]:
    if len(text) > MAX_JSON_BYTES:
        raise source.error(f"is larger than {MAX_JSON_BYTES / 1e6:g} MB; {_THIN_IT}")

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise source.error("a record has a key twice; remove one")
        return made

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        where = f"{source.name}, line {error.lineno}, column {error.colno}"
        raise KoriskError(f"{where}: not valid JSON: {error.msg.lower()}; correct it") from None
    except KoriskError:
        raise
    except (RecursionError, ValueError):  # the latter for numbers of thousands of digits
        raise source.error("nested too deeply, or a number has too many digits") from None
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

    def folded() -> Iterator[dict[str, object]]:
        for position, record in enumerate(records, start=1):
            if not isinstance(record, Mapping):
                raise KoriskError(
                    f"{source.at(position)}: must be a mapping with the keys n and error, "
                    f'got {shown(record)}; write {{"n": 64, "error": 0.1}}'
                )
            made = {_folded(str(key)): value for key, value in record.items()}
            if len(made) < len(record):
                raise KoriskError(f"{source.at(position)}: two keys are alike; remove one")
            yield made

    mappings = folded()
    first = next(mappings, None)
    if first is None:
        raise source.error('holds no records; add some such as {"n": 64, "error": 0.1}')
    for name in ("n", "error", *(columns or {})):
        if _folded(wanted[name]) not in first:
            raise _missing(name, wanted[name], list(first), source)
    layout = _Layout(list(wanted.values()), 0, {1: None}, 2, 3, 4)
    keys = [_folded(theirs) for theirs in layout.header]
    rows = ([record.get(key) for key in keys] for record in chain([first], mappings))
    return _gathered(enumerate(rows, start=1), layout, source)
