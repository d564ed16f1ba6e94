"""Tables of a study: their values against closed forms, their texts read back by other readers."""

import csv as reader
import io
import math
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from korisk.errors import KoriskError
from korisk.paper import published
from korisk.paper.reproduction import NAME
from korisk.report.contents import Contents, read_contents
from korisk.report.tables import tables as report
from korisk.report.tables.table import BYTES, ReportTable
from korisk.report.tables.tables import parameters_table, study_tables
from korisk.report.tables.text import LONG, csv, html, save_tables
from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import Usage
from korisk.texts import one_line

SIZES = (4, 8, 16, 32, 64)
NASTY = "| <img src=x onerror=alert(1)> & _a_ $x$ \\ *b* {c} [d] `e` ~ ^ % # \"'\n\0 -- !"


def line(n: int, floor: float, sigma: float) -> float:
    return floor + sigma * math.log(n) / n


def result(lines: Mapping[str, tuple[float, float]], seed: int, sizes: tuple[int, ...]) -> Result:
    """Errors on a line, the seeds 10% above and below it; the means lie on it."""
    off = 1.1 if seed % 2 else 0.9
    rows, detail = [], {"lambda": 0.5, "seconds": 0.25}
    for model, n in product(lines, sizes):
        error = line(n, *lines[model])
        metrics = {"mse": off * error, "rmse_over_max": math.sqrt(error)}
        rows.append(Row(model=model, n=n, metrics=metrics, detail=detail))
    return Result(rows=tuple(rows))


def spec(protocol: str, side: int, metric: str = "mse") -> dict[str, Any]:
    problem = {"kind": "ct", "side": side, "views": 10, "bins": side}
    return {"protocol": protocol, "problem": problem, "metric": metric}


def stored(
    folder: Path,
    name: str,
    points: Mapping[str, tuple[dict[str, Any], dict[str, tuple[float, float]]]],
    *,
    sizes: tuple[int, ...] = SIZES,
    failing: str | None = None,
) -> Contents:
    usage = Usage(started="2026-01-01T00:00:00+00:00", seconds=2.0, peak_memory=3 * 2**20)
    with Store.create_or_open(folder / "study.db", {"name": name}) as store:
        for point, (about, lines) in points.items():
            for seed in (1, 2):
                task = Task(point=point, seed=seed, spec=about)
                store.record(task, result(lines, seed, sizes), usage)
            if failing is not None:
                store.record_failure(Task(point=point, seed=3, spec=about), failing, usage)
    return read_contents(folder)


LINES = {"KO": (1e-3, 0.02), "FC": (4e-3, 0.5)}
CROSSING = {"KO": (1e-2, 0.0), "FC": (1e-3, 0.3)}  # between N = 64 and 256


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    points = {
        "released-8": (spec("released", 8), LINES),
        "rigorous-128-reduced": (spec("rigorous", 128), LINES),
    }
    return stored(tmp_path_factory.mktemp("paper"), NAME, points)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    points = {
        NASTY: (spec("rigorous", 8, "rmse_over_max"), CROSSING),
        "~ mine": ({"metric": "mse"}, {"mine": (1e-3, 0.02)}),
    }
    folder = tmp_path_factory.mktemp("own")
    return stored(folder, "mine", points, sizes=(4, 16, 64, 256, 1024), failing="\n no\nmore")


def records(table: ReportTable) -> list[dict[str, Any]]:
    assert len(set(table.columns)) == len(table.columns)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def least_squares(sizes: tuple[int, ...], errors: list[float]) -> tuple[float, float]:
    """The paper's calibration once more: the lowest error, and a slope without intercept."""
    rate = np.log(sizes) / np.array(sizes)
    slope, *_ = np.linalg.lstsq(rate[:, None], np.array(errors) - min(errors), rcond=None)
    return min(errors), float(slope[0])


def test_the_four_origins_stand_side_by_side(paper: Contents) -> None:
    [table] = [table for table in study_tables(paper) if table.name == "calibration"]
    assert table.columns[4:] == ["paper", "released", "ours, released", "ours, rigorous"]
    found = {(row[0], row[1], row[3]): row[4:] for row in table.rows}
    assert len(found) == len(table.rows) == 8
    printed = published.CALIBRATION[0].known
    for model, pair in LINES.items():
        floor, sigma = least_squares(SIZES, [line(n, *pair) for n in SIZES])
        for quantity, value in (("floor", floor), ("sigma", sigma)):
            assert found["H = 8", model, quantity][2] == pytest.approx(value, rel=1e-9)
            assert found["H = 8", model, quantity][3] is None
            # The rmse / max of both seeds is the root of the line: squared it is the line again.
            assert found["H = 128*", model, quantity][3] == pytest.approx(value, rel=1e-9)
    assert found["H = 8", "KO", "floor"][:2] == (printed.floor, 2.340e-3)
    assert found["H = 8", "KO", "sigma"][:2] == (printed.slope, 9.986e-3)
    assert "* Ours, rigorous, is from a reduced grid" in table.caption


def test_another_study_has_its_own_calibration(own: Contents) -> None:
    found = records(report.calibration_table(own))
    assert list(found[0]) == ["point", "model", "error", "quantity", "this study"]
    assert [row["model"] for row in found[::2]] == ["KO", "FC", "mine"]
    sizes = (4, 16, 64, 256, 1024)
    pairs = [*CROSSING.values(), (1e-3, 0.02)]
    for place, pair in enumerate(pairs):
        floor, sigma = least_squares(sizes, [line(n, *pair) for n in sizes])
        assert found[2 * place]["this study"] == pytest.approx(floor, rel=1e-9)
        assert found[2 * place + 1]["this study"] == pytest.approx(sigma, rel=1e-9, abs=1e-12)
    assert (found[0]["error"], found[-1]["error"]) == ("(RMSE / max)^2", "MSE")


def test_a_rigorous_point_elsewhere_is_not_judged(paper: Contents, own: Contents) -> None:
    [table] = [table for table in study_tables(paper) if table.name == "outcomes"]
    judged = records(table)
    expected = [("H = 8", "released"), ("H = 128", "rigorous")]
    assert [(row["point"], row["protocol"]) for row in judged] == expected
    assert [row["holds"] for row in judged] == ["yes", "open"]
    assert "outcomes" not in [table.name for table in study_tables(own)]


def test_parameters_are_those_of_the_papers_first_table(paper: Contents) -> None:
    found = records(parameters_table(paper))
    [first] = [row for row in published.FOOTPRINT if row.size.H == 8]
    assert str(found[0]["p_KO"]) == first.known_parameters
    assert f"{found[0]['p_FC']:.2e}".replace("e+0", "e") == first.dense_parameters
    assert found[0]["ratio"] == 64
    shown = by_title(parameters_table(paper))[0]
    assert shown["KO weights"] == first.known_weights
    assert shown["FC with Adam"] == first.dense_adam
    assert (found[0]["cells"], found[0]["peak memory"], found[0]["time"]) == (2, 3 * 2**20, 2.0)
    assert "device memory" not in found[0]  # nobody had one


def test_the_calibration_has_the_error_before_training(own: Contents) -> None:
    (place, point) = next((k, each) for k, each in enumerate(own.points) if len(each.curves) == 2)
    points = list(own.points)
    points[place] = replace(point, untrained={point.curves[0].model: 0.2})
    calibrated = records(report.calibration_table(replace(own, points=tuple(points))))
    (start,) = (row["this study"] for row in calibrated if row["quantity"] == "N = 0")
    assert start == pytest.approx(0.2**2)  # roots of mean squares are squared there


def test_a_study_of_ones_own_lists_costs_and_means(own: Contents) -> None:
    tables = {table.name: table for table in study_tables(own)}
    assert list(tables) == ["calibration", "measured", "parameters"]
    row = records(parameters_table(own))[1]  # of a point that is no scan
    assert (row["point"], row["H"], row["p_FC"], row["cells"]) == ("~ mine", None, None, 2)
    found = records(tables["measured"])
    assert len(found) == 5 * (2 + 1)
    first = (NASTY, "KO", "rmse_over_max", 4, 2, pytest.approx(math.sqrt(line(4, 1e-2, 0.0))))
    assert tuple(found[0].values()) == first


def test_a_study_without_results(tmp_path: Path) -> None:
    study = {"name": "none", "points": [{"side": 8}], "seeds": [4, 7]}
    Store.create_or_open(tmp_path / "study.db", study).close()
    assert [table.name for table in study_tables(read_contents(tmp_path))] == ["parameters"]


SMALL = ReportTable(
    name="small",
    title="A_title",
    caption="Of 5% & more.",
    columns=("point", "N", "mse", "time", "memory"),
    units={"time": "s", "memory": BYTES},
    rows=(
        *(("a|b", 2048, 0.0023401, 12.0, 2**20), ("-c", -1, 0.25, -1234.56, None)),
        (None, None, 2.0, math.inf, 0),
    ),
)


def test_a_small_table_in_both_formats() -> None:
    heads = ["point", "N", "mse", "time (s)", "memory"]
    rows = [
        ["a|b", "2,048", "2.340e-3", "12.00", "1.00 MiB"],
        ["-c", "-1", "2.500e-1", "-1,235", "\N{EN DASH}"],
        ["\N{EN DASH}", "\N{EN DASH}", "2.000", "inf", "0.00 KiB"],
    ]
    seen = seen_in(SMALL)
    title = ["A_title", "Of 5% & more."]
    assert seen.texts == [*title, *heads, *(cell for row in rows for cell in row)]
    numbers = [tag for tag, attributes in seen.tags if attributes.get("class") == "number"]
    assert numbers == ["th"] * 4 + ["td"] * 12
    assert csv(SMALL).splitlines() == [
        *("point,N,mse,time (s),memory (bytes)", "a|b,2048,0.0023401,12.0,1048576"),
        *("'-c,-1,0.25,-1234.56,", ",,2.0,inf,0"),
    ]


def named(*names: str, rows: int = 2) -> ReportTable:
    words: Any = {"title": names[0], "caption": names[-1]}
    return ReportTable(name="named", **words, columns=names, rows=(names,) * rows)


# Characters that mean something in one of the formats, and some that mean nothing anywhere.
CHARACTERS = st.sampled_from(
    [*"|<>&_$\\\n\r\t\0*{}[]()`~^%#\"'-=+@,;:!?./ ab9", "\u202e", "é", "λ"]
)
TEXTS = st.text(CHARACTERS | st.characters(), min_size=1, max_size=12)
NAMES = st.lists(TEXTS, min_size=1, max_size=4)
some = examples(
    max_examples=2 * examples().max_examples
)  # of a few milliseconds each: the special characters are few


@some
@given(st.lists(st.tuples(st.floats(), st.integers(), st.none() | st.floats()), min_size=1))
def test_csv_keeps_every_digit(rows: list[tuple[float, int, float | None]]) -> None:
    table = ReportTable(name="t", title="t", caption="", columns="xny", rows=rows)
    found = list(reader.reader(io.StringIO(csv(table))))[1:]
    for (x, n, y), (first, second, third) in zip(rows, found, strict=True):
        assert (repr(float(first)), int(second)) == (repr(x), n)
        assert (third == "") if y is None else repr(float(third)) == repr(y)


class Seen(HTMLParser):
    """What a page's reader sees: tags with their attributes, and the text of each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("h3", "th", "td", "caption"):
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data.replace("\n", "")


def seen_in(table: ReportTable) -> Seen:
    seen = Seen()
    seen.feed(html(table))
    return seen


def by_title(table: ReportTable) -> list[dict[str, str]]:
    _, _, *cells = seen_in(table).texts
    width = len(table.columns)
    heads, *rows = (cells[at : at + width] for at in range(0, len(cells), width))
    return [dict(zip(heads, row, strict=True)) for row in rows]


@some
@example([NASTY, "=a,,b''"])
@given(NAMES)
def test_both_formats_show_any_name_as_text(names: list[str]) -> None:
    table, shown = named(*names), [one_line(name) for name in names]
    for cells in reader.reader(io.StringIO(csv(table), newline="")):
        for cell, name in zip(cells, shown, strict=True):
            assert not cell.lstrip().startswith(("=", "+", "-", "@"))
            assert cell in (name, f"'{name}")

    seen = seen_in(table)
    assert seen.texts == [shown[0], shown[-1], *shown * 3]
    head = ["h3", "div", "table", "caption", "span", "thead", "tr", *["th"] * len(names), "tbody"]
    row_tags = ["tr", "th", *["td"] * (len(names) - 1)]
    assert [tag for tag, _ in seen.tags] == [*head, *row_tags * 2]
    assert seen.tags[1][1]["aria-label"] == shown[0]
    known = {"class", "role", "aria-label", "tabindex", "scope"}
    assert {name for _, attributes in seen.tags for name in attributes} == known


def test_a_name_is_one_line_that_can_be_written() -> None:
    shown = one_line(NASTY + "\udcff\u2028\u202e")
    assert shown.isprintable()
    assert len(shown.encode().decode()) == len(NASTY) + 3


def test_long_tables_scroll() -> None:
    short, long = (named("a", "b", rows=rows) for rows in (LONG, LONG + 1))
    assert 'class="table long"' in html(long)
    assert 'class="table"' in html(short)


def test_numbers_have_four_digits() -> None:
    for value, others, expected in (
        *((99_999.6, (), "100,000"), (0.01, (), "0.01000"), (0.009999, (), "9.999e-3")),
        *((1e5, (), "1.000e5"), (0.0, (1e-9,), "0"), (-3.0, (1e-9,), "-3.000")),
        *((3, (0.5,), "3.000"), (3, (4,), "3"), (math.nan, (1.0,), "nan")),
    ):
        rows = [("a", each) for each in (value, *others)]
        table = ReportTable(name="t", title="t", caption="c", columns="ax", rows=rows)
        assert by_title(table)[0]["x"] == expected


def test_tables_are_saved_and_what_cannot_be_is_refused(own: Contents, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "tables"
    written = save_tables(own, folder)
    assert (sorted(written), len(written)) == (sorted(folder.iterdir()), 3)
    table = csv(parameters_table(own))
    assert (folder / "parameters.csv").read_text(encoding="utf-8") == table
    (tmp_path / "file").write_text("")
    with pytest.raises(KoriskError, match="file exists"):
        save_tables(own, tmp_path / "file")
