"""Tables with their truth, and what becomes of each: read, asked, refused, or wrong.

Five collections: tables_of_labs.txt, tables_of_people.txt and tables_of_guests.txt in data, whose
truth was written by people who had not seen the reader, the files of data/tables with
data/tables.yaml, and data/tables_of_the_author.txt, by the reader's author.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import pytest
import yaml
from test_understood_tables import workbook

from korisk import Curve, KoriskError
from korisk.curves import UNITS
from korisk.errors import Absent, Argument

DATA = Path(__file__).parents[1] / "data"
LABS, PEOPLE = DATA / "tables_of_labs.txt", DATA / "tables_of_people.txt"
KEPT: dict[str, Any] = yaml.safe_load((DATA / "tables.yaml").read_text(encoding="utf-8"))
# The answers of most tables in PEOPLE, in errors.
KO = "KO: 16 .20 .22, 32 .11 .13, 64 .061 .073"
FC = "FC: 16 .40 .44, 32 .25 .27, 64 .15 .17"
MEANS = "KO: 16 .21, 32 .12, 64 .067 | FC: 16 .42, 32 .26, 64 .16"
ANSWERS = {"ko": KO, "both": f"{KO} | {FC}", "komean": MEANS.partition(" |")[0], "means": MEANS}
LAWS = {"dB": {"psnr", "error_db"}, "log10": {"log10"}, "log2": {"log2"}}
LAWS |= {"ln": {"ln"}, "negated": {"negated"}}
PLAIN = {"error", "squared", "complement", "percent"}
Options = dict[str, Any]


class Truth(NamedTuple):
    """What a table must be read as."""

    models: dict[str, dict[int, list[float]]]  # values at each N
    larger: bool | None = None  # is better; None: values are errors
    laws: frozenset[str] = frozenset(PLAIN)
    factors: tuple[float, ...] = (1.0,)
    means: bool = False  # of an unknown number of seeds

    def is_read(self, curves: tuple[Curve, ...]) -> bool:
        """Whether these curves say the same."""
        named = {_plain(curve.model): curve for curve in curves}
        expected = {_plain(model): points for model, points in self.models.items()}
        if len(curves) == len(expected) == 1:
            named = dict(zip(expected, curves, strict=True))
        return named.keys() == expected.keys() and any(
            all(self._same(curve, expected[model], factor) for model, curve in named.items())
            for factor in self.factors
        )

    def _same(self, curve: Curve, points: dict[int, list[float]], factor: float) -> bool:
        if curve.sizes.tolist() != sorted(points):
            return False
        kind = (curve.unit.larger_is_better, curve.unit.law in self.laws)
        if self.larger is not None and kind != (self.larger, True):
            return False
        counts = [len(points[n]) for n in sorted(points)]
        to_error = UNITS["error"].to_error if self.larger is None else curve.unit.to_error
        errors = [to_error(np.array(points[n]) * factor).mean() for n in sorted(points)]
        # Seeds made from a mean and its spread have another mean where a unit is not linear.
        made = self.means and curve.counts.max() > 1
        close = np.allclose(curve.means, errors, rtol=0.15 if made else 2e-3)
        return close and (self.means or curve.counts.tolist() == counts)


@dataclass(frozen=True)
class Table:
    """A table, what it must be read as, and how a person sees it."""

    about: str
    write: Callable[[Path], Path]
    truths: tuple[Truth, ...]
    sees: str = "one"  # reading, "ask" or "none"
    names: str = ""  # the line that a refusal names


class Outcome(NamedTuple):
    """What became of a table."""

    kind: str  # read, asked, refused, or wrong
    why: str = ""
    command: Options | None = None  # the options of the first remedy


def outcome(table: Table, folder: Path) -> Outcome:
    """Read a table; follow every remedy that a question names, and one further question."""
    path = table.write(folder)
    reading, question = _read(path, {})
    if reading is not None:
        right = any(truth.is_read(reading) for truth in table.truths)
        if right and (len(table.truths) == 1 or table.sees == "either"):
            return Outcome("read")
        return Outcome("wrong", f"read in silence: {reading!r} {reading[0].read_as}")
    message = str(question)
    if table.names and table.names not in message:
        return Outcome("stuck", f"does not name {table.names}: {message}")
    remedies = list(_remedies(question, {}))
    found = []
    for options in remedies:
        reading, further = _read(path, options)
        if reading is not None:
            found.append([reading])
            continue
        readings = [_read(path, more)[0] for more in _remedies(further, options)]
        if not readings or readings[0] is None:
            return Outcome("stuck", f"{options} leads nowhere: {further} AFTER {message}")
        found.append([reading for reading in readings if reading is not None])
    if not table.truths and found and table.sees == "none":
        return Outcome("stuck", f"no reading is right, and {remedies} leads to one: {message}")
    if not found:
        return Outcome("refused", message)
    for truth in table.truths:
        if not any(truth.is_read(reading) for readings in found for reading in readings):
            return Outcome("stuck", f"no remedy leads to the truth: {message}")
    if table.sees == "one" and not any(truth.is_read(found[0][0]) for truth in table.truths):
        return Outcome("stuck", f"the first remedy, {remedies[0]}, misleads: {message}")
    return Outcome("asked", message, remedies[0])


def _read(path: Path, options: Options) -> tuple[tuple[Curve, ...] | None, KoriskError]:
    try:
        return Curve.read_all(path, **options), KoriskError("")
    except KoriskError as question:
        return None, question


def _remedies(question: KoriskError, options: Options) -> Iterator[Options]:
    """The options after each remedy that a question names."""
    for item in question.message.parts:
        if not isinstance(item, Argument) or item.value is Absent:
            continue
        value: Any = item.value
        if value is ...:
            continue
        before = options.get(item.name)
        if isinstance(value, dict):
            value = {**(before or {}), **value}
        elif item.name == "ignore":
            value = [*(before or []), *([value] if isinstance(value, str) else value)]
        yield {**options, item.name: value}


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


# --- Where tables come from ----------------------------------------------------------------------


def blocks(path: Path) -> Iterator[tuple[str, list[tuple[str, str]], str]]:
    """The name, the fields and the text of each table of a collection."""
    for block in path.read_text(encoding="utf-8").split("\n@ ")[1:]:
        head, _, text = block.partition("\n---\n")
        about, *lines = head.splitlines()
        fields = [line.partition(": ")[::2] for line in lines]
        yield about, [(name, value) for name, value in fields], text.rstrip("\n") + "\n"


def labs(path: Path) -> Iterator[Table]:
    """The tables of data/tables_of_labs.txt, or of another file like it."""
    for about, fields, text in blocks(path):
        of = dict(fields)
        truths = tuple(_truth(value) for name, value in fields if name == "truth")
        sees = of.get("sees", "one")
        line = f"line {of['line']}" if "line" in of else ""
        file, encoding = of.get("file", "table.csv"), of.get("encoding", "utf-8")
        write = partial(_write, text=text, file=file, encoding=encoding)
        yield Table(about, write, truths, sees, line)


def _truth(line: str) -> Truth:
    label, *models = line.split(" | ")
    direction, *name = label.split(" ")
    laws = frozenset(LAWS.get(name[-1], PLAIN))
    factors = (1.0, 0.01, 100.0) if name[-1] == "%" else (1.0,)
    points = dict(map(_points, models))
    return Truth(points, direction == "larger", laws, factors, means="~" in line)


def _points(text: str) -> tuple[str, dict[int, list[float]]]:
    model, _, values = text.rpartition(":")
    rows = [row.replace("~", "").split() for row in values.split(",")]
    return model.strip(), {int(n): [float(v) for v in row] for n, *row in rows}


def people() -> Iterator[Table]:
    """The tables of data/tables_of_people.txt."""
    for about, fields, text in blocks(PEOPLE):
        of = dict(fields)
        name, *changes = of["answer"].split(" ")
        line = ANSWERS.get(name, of["answer"])
        sizes = {c[0]: float(c[2:]) for c in (changes if name in ANSWERS else []) if c[1] == "*"}
        power = 2 if "squared" in changes else 1
        points = {} if name == "none" else dict(map(_points, line.split(" | ")))
        models = {
            model: {
                round(n * sizes.get("n", 1)): [v**power * sizes.get("e", 1) for v in values]
                for n, values in by_size.items()
            }
            for model, by_size in points.items()
        }
        factors = (1.0, 0.01) if "e*100" in changes else (1.0,)
        means = "mean" in name or "spread" in of
        truths = (Truth(models, factors=factors, means=means),) if models else ()
        write = partial(
            _write,
            text=text,
            file=of["file"],
            encoding=of.get("encoding", "utf-8"),
            hidden=of.get("hidden", ""),
        )
        yield Table(about, write, truths, of.get("sees", "one" if models else "none"))


def kept() -> Iterator[Table]:
    """The files of data/tables."""
    for name, expected in KEPT.items():
        models: dict[str, dict[int, list[float]]] = {}
        kinds = set()
        for line in expected.get("curves", ()):
            model, _, unit, seeds = line.partition(": ")[0].split(" / ")
            kinds.add(unit)
            models[model] = {
                int(n): [float(value)] * int(seeds.split()[0])
                for n, value in (point.split() for point in line.partition(": ")[2].split(", "))
            }
        if not models:
            truths: tuple[Truth, ...] = ()
        else:
            (unit,) = {UNITS[kind] for kind in kinds}
            laws = PLAIN if unit.law in PLAIN else {unit.law}
            factors = (
                (1.0, 0.01, 100.0) if name.count("percent") or unit.law == "percent" else (1.0,)
            )
            truths = (Truth(models, unit.larger_is_better, frozenset(laws), factors, means=True),)
        sees = expected.get("sees", "one" if truths else "none")
        yield Table(expected["about"], partial(_kept, name=name), truths, sees)


def _kept(folder: Path, name: str) -> Path:
    if name.endswith(".xlsx"):
        pytest.importorskip("python_calamine")
    return DATA / "tables" / name


def _sheet(rows: list[list[str]], hidden: set[int]) -> bytes:
    """A workbook whose cells are numbers where they are, percent cells, and text otherwise."""
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = []
        for column, text in zip("ABCDEFGHIJ", row, strict=False):
            place, mark = f'r="{column}{number}"', ' s="1"' if text.endswith("%") else ""
            try:
                value = float(text.rstrip("%")) / (100 if mark else 1)
            except ValueError:
                text = escape(text.removeprefix("'"))
                cells += [f'<c {place} t="inlineStr"><is><t>{text}</t></is></c>'] * bool(text)
            else:
                cells.append(f"<c {place}{mark}><v>{value!r}</v></c>")
        mark = ' hidden="1"' if number in hidden else ""
        lines.append(f'<row r="{number}"{mark}>{"".join(cells)}</row>')
    return workbook("".join(lines))


def _write(
    folder: Path, *, text: str, file: str, encoding: str = "utf-8", hidden: str = ""
) -> Path:
    path = folder / file
    delimiter = ";" if ";" in text.splitlines()[0] else ","
    rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    if path.suffix in (".mat", ".npz"):
        columns = {
            name: [float(v) if v[0] in "0123456789." else v for v in values]
            for name, *values in zip(*rows, strict=True)
        }
        if path.suffix == ".npz":
            np.savez(path, **{name: np.array(values) for name, values in columns.items()})  # type: ignore[arg-type]
        else:
            pytest.importorskip("scipy.io").savemat(path, columns)
    elif path.suffix == ".xlsx":
        pytest.importorskip("python_calamine")
        path.write_bytes(_sheet(rows, {int(n) for n in hidden.split()}))
    else:
        path.write_bytes(text.encode(encoding))
    return path


AUTHOR = DATA / "tables_of_the_author.txt"
COLLECTIONS = {"labs": tuple(labs(LABS)), "people": tuple(people()), "kept": tuple(kept())}
COLLECTIONS["author"] = tuple(labs(AUTHOR))
COLLECTIONS["guests"] = tuple(labs(DATA / "tables_of_guests.txt"))
