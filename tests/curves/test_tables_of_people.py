"""130 tables made by somebody who had not seen the reader: none is read wrongly in silence.

data/tables_of_people.txt holds each table as it is kept, with its right answer, noted before the
reader was run (`none`: there is none, and it stays refused). `mode: ask` marks those that cannot be
told without a question; `says:` what the line `Read: ...` has to say instead. `then:` is what a
user types after a question, in the words of the message before it; `edit:` (a pattern => what
replaces it) a change of the text that a message asks for.
"""

import csv
import io
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import pytest
from commands import refused
from test_understood_tables import workbook

from korisk import Curve

SOURCE = Path(__file__).parents[1] / "data" / "tables_of_people.txt"
KO = "KO 16: .20 .22; KO 32: .11 .13; KO 64: .061 .073"
FC = "FC 16: .40 .44; FC 32: .25 .27; FC 64: .15 .17"
MEANS = "KO 16: .21; KO 32: .12; KO 64: .067; FC 16: .42; FC 32: .26; FC 64: .16"
ANSWERS = {"ko": KO, "both": f"{KO}; {FC}", "komean": MEANS[: MEANS.index("; FC")], "means": MEANS}
Points = dict[tuple[str, int], list[float]]


class Table(NamedTuple):
    """A table, how it is kept, and its right answer."""

    about: str
    file: str
    text: str
    answer: str
    mode: str = "read"
    encoding: str = "utf-8"
    hidden: str = ""
    says: str = ""
    steps: tuple[tuple[str, str], ...] = ()  # "then" or "edit", and its text


def tables() -> list[Table]:
    found = []
    for block in SOURCE.read_text(encoding="utf-8").split("\n@ ")[1:]:
        head, _, text = block.partition("\n---\n")
        about, *lines = head.splitlines()
        fields = [line.split(": ", 1) for line in lines]
        steps = tuple((name, value) for name, value in fields if name in ("then", "edit"))
        rest = {name: value for name, value in fields if name not in ("then", "edit")}
        found.append(Table(about, text=text.rstrip("\n") + "\n", steps=steps, **rest))
    return found


TABLES = tables()


def points_of(curves: tuple[Curve, ...]) -> Points:
    """Every error of a table by model and N; a single model's name tells nothing."""
    return {
        (curve.model if len(curves) > 1 else "", int(n)): sorted(curve.error[curve.n == n].tolist())
        for curve in curves
        for n in curve.sizes
    }


def right_points(answer: str) -> Points:
    """`answer:` of a table: a name of ANSWERS or points, then changes such as n*1000 or squared."""
    name = answer.split(" ")[0]
    points: Points = {}
    for point in ANSWERS.get(name, answer).split(";"):
        model, n, *errors = point.replace(":", " ").split()
        points[model, int(n)] = [float(error) for error in errors]
    single = len({model for model, _ in points}) == 1
    changes = answer.split(" ")[1:] if name in ANSWERS else []
    factors = {c[0]: float(c[2:]) for c in changes if c[1] == "*"}
    power = 2 if "squared" in changes else 1
    return {
        ("" if single else model, round(n * factors.get("n", 1))): sorted(
            (error * factors.get("e", 1)) ** power for error in errors
        )
        for (model, n), errors in points.items()
    }


def same(points: Points, expected: Points) -> bool:
    return points.keys() == expected.keys() and all(
        len(points[key]) == len(errors) and np.allclose(points[key], errors, rtol=2e-3, atol=0)
        for key, errors in expected.items()
    )


def sheet(rows: list[list[str]], hidden: set[int]) -> bytes:
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


def write(table: Table, folder: Path) -> Path:
    path = folder / table.file
    delimiter = ";" if ";" in table.text.splitlines()[0] else ","
    rows = list(csv.reader(io.StringIO(table.text), delimiter=delimiter))
    if path.suffix in (".mat", ".npz", ".parquet"):
        columns = {
            name: [float(v) if v[0] in "0123456789." else v for v in values]
            for name, *values in zip(*rows, strict=True)
        }
        if path.suffix == ".npz":
            np.savez(path, **{name: np.array(values) for name, values in columns.items()})  # type: ignore[arg-type]
        elif path.suffix == ".mat":
            pytest.importorskip("scipy.io").savemat(path, columns)
        else:
            arrow = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path)
    elif path.suffix == ".xlsx":
        pytest.importorskip("python_calamine")
        path.write_bytes(sheet(rows, {int(n) for n in table.hidden.split()}))
    else:
        path.write_bytes(table.text.encode(table.encoding))
    return path


def edited(text: str, edit: str) -> str:
    """The text after what a message asks for: cells filled up, seeds added, or a replacement."""
    if edit == "fill":  # an empty first cell has the text above it
        lines = text.splitlines()
        for k, line in enumerate(lines):
            if line.startswith(","):
                lines[k] = lines[k - 1].split(",")[0] + line
        return "\n".join(lines) + "\n"
    if edit == "seeds":
        head, *lines = text.splitlines()
        return "\n".join([f"{head},seed", *(f"{line},{k % 2}" for k, line in enumerate(lines))])
    old, _, new = edit.partition(" =>")
    new = new.removeprefix(" ")
    if "|" in old:  # several replacements
        for before, after in zip(old.split("|"), new.split("|"), strict=True):
            text = re.sub(before, after, text)
        return text
    changed = re.sub(old, new.replace("\\n", "\n"), text)
    assert changed != text
    return changed


def read(path: Path, options: list[str]) -> tuple[Curve, ...]:
    """The curves in a table, read with options of the command line."""
    given: dict[str, Any] = {}
    for name, value in zip(options[::2], options[1::2], strict=True):
        ours, _, theirs = value.partition("=")
        if name == "--column":
            given.setdefault("columns", {})[ours] = theirs
        elif name == "--filter":
            given.setdefault("filter", {})[ours] = theirs
        elif name == "--scale":
            given.setdefault("scale", {})[ours] = float(theirs)
        elif name == "--ignore":
            given.setdefault("ignore", []).append(value)
        else:
            given[name.removeprefix("--")] = int(value) if name == "--seeds" else value
    return Curve.read_all(path, **given)


def is_named(option: str, value: str, message: str) -> bool:
    """Whether a message names an option: with this value, or with one to be filled in."""
    ours, _, theirs = value.partition("=")
    if option == "--filter" and repr(theirs) in message:
        return f"{option} {ours}=" in message
    texts = (f"{option} {shlex.quote(value)}", f"{option} {ours}=...", f"{option} with")
    return any(text in message for text in texts)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.about)
def test_a_table_is_read_rightly_or_its_remedy_works(table: Table, tmp_path: Path) -> None:
    path, options = write(table, tmp_path), list[str]()
    asked = bool(table.steps) or (table.mode == "ask" and not table.says)
    for kind, step in table.steps:
        message = refused("plan", path, *options)
        if kind == "edit":
            if step == "csv":
                table = table._replace(file="as.csv")
            else:
                table = table._replace(text=edited(table.text, step))
            path = write(table, tmp_path)
            continue
        answer = shlex.split(step)
        for name, value in zip(answer[::2], answer[1::2], strict=True):
            assert is_named(name, value, message), message
        options += answer
    if table.answer == "none":
        assert asked
        refused("plan", path)
        return
    curves = read(path, options)
    assert same(points_of(curves), right_points(table.answer))
    assert table.says in curves[0].read_as
    assert asked or table.mode == "read" or table.says
