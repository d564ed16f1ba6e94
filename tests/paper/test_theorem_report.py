"""The theorem in a report: figure, tables and section, and nothing of it where it is not told."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artists import check_page
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from theorem_stores import SIZES, cell, row, written

from korisk.paper import supplement as report
from korisk.paper.figure import theorem_figure
from korisk.paper.supplement import PaperSupplement, theorem_sentences, theorem_table
from korisk.paper.theorem.check import MEASURED, PointTheorem
from korisk.report.contents import read_contents
from korisk.report.figures.study import save_figures, study_figures
from korisk.report.page.study import study_page
from korisk.report.tables.table import ReportTable
from korisk.report.tables.tables import study_tables
from korisk.report.tables.text import FORMATS
from korisk.store.cells import Result, Row
from korisk.theory import BOUNDS, Known, Learned, Network


def points(folder: Path, cells: dict[str, list[Result]], **options: Any) -> list[PointTheorem]:
    return PaperSupplement(read_contents(written(folder, cells, **options))).theorems


def records(table: ReportTable) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, each, strict=True)) for each in table.rows]


def drawn(axes: Axes, name: str) -> tuple[np.ndarray, np.ndarray]:
    (line,) = [each for each in axes.lines if each.get_gid() == name]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def figure_of(made: list[PointTheorem]) -> Figure:
    figure, narrow = theorem_figure(made), theorem_figure(made, narrow=True)
    assert figure is not None
    assert narrow is not None
    check_page(figure)
    check_page(narrow)
    return figure


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[PointTheorem]:
    exact = [cell(seed, sizes=(0, *SIZES)) for seed in (1, 2)]
    cells = {"exact": exact, "wrong": [cell(1, mismatch=0.2)]}
    return points(tmp_path_factory.mktemp("both"), cells, failed=["wrong"])


def test_words_of_tables_have_the_constants_of_the_check(both: list[PointTheorem]) -> None:
    assert f"up to a relative {MEASURED:g} of rounding" in theorem_table(both).caption
    assert tuple(theorem_table(both).columns[5:8]) == BOUNDS
    parts = tuple(f"part of {form}" for form in BOUNDS)
    assert tuple(report.layers_table(both).columns[6:9]) == parts


def test_the_tables_hold_every_model_and_n_and_parts_add_up(both: list[PointTheorem]) -> None:
    rows, parts = records(theorem_table(both)), records(report.layers_table(both))
    groups = [(point.name, group) for point in both for group in point.groups]
    assert len(rows) == len(groups) == 2 * 5 + 2 * 4
    assert {each["model"] for each in parts} == {"KO"}  # in FC one layer alone has errors
    for found, (name, group) in zip(rows, groups, strict=True):
        about = (name, group.model, group.n)
        assert (found["point"], found["model"], found["N"]) == about
        assert found["error"] == group.error
        assert [found[form] for form in BOUNDS] == [group.bound(form) for form in BOUNDS]
        loose = group.looseness("composed")
        assert loose is not None
        assert (found["loose by, least"], found["loose by, most"]) == (loose.least, loose.worst)
        assert found["seeds"] == found["judged"] == found["held"] == len(group.checks)
        assert found["holds"] == "yes"
        own = [each for each in parts if (each["point"], each["model"], each["N"]) == about]
        for form in BOUNDS if own else ():
            total = sum(each[f"part of {form}"] for each in own)
            assert total == pytest.approx(group.bound(form))
        assert not own or sum(each["share of composed"] for each in own) == pytest.approx(100)
    kinds = [(each["layer"], each["kind"]) for each in parts if each["point"] == "wrong"][:3]
    assert kinds == [("W", "learned"), ("K", "known"), ("C", "learned")]


def test_the_order_has_a_row_for_each_form(both: list[PointTheorem]) -> None:
    rows = records(report.order_table(both))
    assert [each["bound"] for each in rows] == [*BOUNDS, *BOUNDS]
    for each, order in zip(rows[::3], (both[0].orders[0], both[1].orders[0]), strict=True):
        assert each["A p, first"] == order.strengths["paper"][0]
        assert each["predicted"] == order.predicted("paper")
        assert each["confirmed"] + each["reversed"] + each["open"] == len(order.rungs)
    assert rows[0]["changes at"] is None
    assert "FC" in rows[3]["changes at"]


def test_tables_of_what_is_not_known_or_violated(tmp_path: Path) -> None:
    endless = Network([Learned("W"), Known("K"), Learned("C", lipschitz=1.0)]).to_dict()
    known = Network([Learned("D", parameters=3)]).to_dict()
    told = (("a", 1.0, {"W": 1.0, "C": 1.0}), ("b", 0.0, {"D": 0.0}), ("c", 2.0, {"D": 1.0}))
    rows = tuple(row(model, 4, error, layers) for model, error, layers in told)
    nets = {"a": endless, "b": known, "c": known}
    made = points(tmp_path, {"p|q": [Result(rows=rows, detail={"networks": nets})]})
    found = records(theorem_table(made))
    assert [each["holds"] for each in found] == ["not known", "yes", "VIOLATED"]
    assert found[0]["composed"] is None
    assert found[1]["loose by, mean"] is None
    tables = [theorem_table(made), report.order_table(made)]
    assert not report.layers_table(made).rows
    predicted = [each["predicted"] for each in records(report.order_table(made))]
    assert predicted == ["not known"] * 6 + ["neither"] * 3
    assert not any("nan" in write(table) for table in tables for write in FORMATS.values())
    assert theorem_sentences(made)[0].startswith("VIOLATED: in 1 of 2 networks")


def bare() -> Result:
    rows = cell(1, sizes=(4, 16)).rows
    plain = [Row(model=each.model, n=each.n, metrics=each.metrics) for each in rows]
    return Result(rows=tuple(plain))


def test_a_study_without_errors_of_layers_has_nothing_of_it(tmp_path: Path) -> None:
    contents = read_contents(written(tmp_path, {"p": [bare()]}))
    assert (PaperSupplement(contents).theorems, theorem_sentences([])) == ([], [])
    assert theorem_figure([]) is None
    assert not any(table.name.startswith("theorem") for table in study_tables(contents))


def test_the_figure_shows_errors_bounds_and_parts(both: list[PointTheorem]) -> None:
    frames = figure_of(both).axes
    assert [axes.get_title(loc="left") for axes in frames] == ["exact"] * 3 + ["wrong"] * 3
    groups = [group for group in both[0].groups if group.model == "KO" and group.n]
    n, error = drawn(frames[0], "error")
    assert n.tolist() == list(SIZES)  # a logarithmic axis has no place for the untrained
    assert error.tolist() == [group.error for group in groups]
    for form in BOUNDS:
        assert drawn(frames[0], f"bound-{form}")[1].tolist() == [g.bound(form) for g in groups]
    parts = [drawn(frames[4], f"layer-{number}")[1] for number in (1, 2, 3)]
    assert np.sum(parts, axis=0) == pytest.approx(drawn(frames[4], "total")[1])
    low, high = frames[0].get_ylim()
    for line in frames[0].lines:
        assert low < np.min(line.get_ydata())
        assert np.max(line.get_ydata()) < high
    notes = [text.get_text() for axes in frames for text in axes.texts]
    assert notes[:3] == [
        *("KO: holds in 8 of 8", "KO: composed bound by layer"),
        "FC: holds in 8 of 8; bound = error",
    ]


def test_a_violation_and_an_unknown_bound_stand_in_the_figure(tmp_path: Path) -> None:
    net = Network([Learned("W"), Known("K")])
    nets = {"open": net.to_dict(), "bad": Network([Learned("D")]).to_dict()}
    rows = [row("open", n, 1.0, {"W": 1.0}) for n in (1, 3)]
    rows += [row("bad", n, error, {"D": 1.0}) for n, error in ((4, 2.0), (9, 0.0), (16, math.inf))]
    made = points(tmp_path, {"$p$": [Result(rows=tuple(rows), detail={"networks": nets})]})
    figure = figure_of(made)
    unknown, bad = figure.axes
    texts = [" ".join(text.get_text().split()) for text in unknown.texts]
    assert texts[0] == "open: not known"
    assert texts[1].startswith("no bound: layer 'K': lipschitz has no upper end")
    assert drawn(bad, "violated")[1].tolist() == [2.0]
    assert bad.texts[0].get_text().startswith("bad: holds in 1 of 3")
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any(text.startswith("VIOLATED") for text in legend)
    (saved,) = save_figures([("theorem", figure)], tmp_path / "figures", ("svg",))
    assert saved.stat().st_size > 0


def test_many_panels_are_counted_and_many_layers_are_grey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("korisk.paper.figure.MOST_PANELS", 4)  # twelve take long to draw
    names = [f"layer {k}" for k in range(6)]
    net = Network([Learned(name, lipschitz=1.0) for name in names])
    told = row("m" * 80, 4, 1.0, dict.fromkeys(names, 1.0))
    result = Result(rows=(told,), detail={"networks": {told.model: net.to_dict()}})
    made = points(tmp_path, {f"point {k}": [result] for k in range(4)})
    figure = figure_of(made)
    assert len(figure.axes) == 4
    assert any("4 of 8 panels" in text.get_text() for text in figure.texts)
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "other layers"


def test_the_report_has_a_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korisk.report.figures.study.efficiency_figure", lambda _, **__: None)
    told = {"<b>p</b>": [cell(seed, models=["KO"], sizes=(4, 16)) for seed in (1, 2)]}
    contents = read_contents(written(tmp_path / "told", told))
    assert [stem for stem, _ in study_figures(contents)] == ["theorem"]
    names = [table.name for table in study_tables(contents)]
    assert names[-3:] == ["theorem", "theorem_layers", "cells"]
    text = study_page(contents)
    start, end = text.index('<section id="theorem"'), text.index('<section id="tables"')
    section = text[start:end]
    assert "In all 4 networks the error stays within all three bounds" in section
    assert (section.count("<table>"), section.count("<figure ")) == (2, 1)
    assert "<b>p</b>" not in text
    assert '<section id="figures"' not in text
    assert "Does the theorem hold?" not in text[end:]
    assert "VIOLATED" not in text
    detail = {"networks": {"KO": Network([Learned("D")]).to_dict()}}
    broken = Result(rows=(row("KO", 4, 9.0, {"D": 1.0}),), detail=detail)
    bad = study_page(read_contents(written(tmp_path / "bad", {"p": [broken]})))
    assert "which is VIOLATED: p." in bad[: bad.index("</header>")]
    other = study_page(read_contents(written(tmp_path / "bare", {"p": [bare()]})))
    assert "theorem hold" not in other
