"""Predicted curves on paper and in the page of a study, read off artists and HTML."""

from pathlib import Path
from typing import Any

import made_studies
import numpy as np
import pytest
from artists import check_page, data, line, written
from commands import outputs, refused
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.prediction.record import (
    NAME,
    Outcome,
    PointRecord,
    measured_curves,
    outcome_sentences,
    outcomes,
    prediction_content,
    write_prediction,
)
from korisk.report.contents import read_contents
from korisk.report.figures.prediction import NOTE, prediction_figure
from korisk.report.figures.style import save
from korisk.report.page.prediction import prediction_section

N = [4.0 * 2**k for k in range(11)]


def model(name: str, level: float, rate: float, floor: float, **more: Any) -> dict[str, Any]:
    kind = {"model": name, "how": "rehearsed", "relu": True}
    errors = [floor + level * n**-rate for n in N]
    track = [
        {"n": n, "value": e, "lower": e / 1.2, "upper": 1.3 * e}
        for n, e in zip(N, errors, strict=True)
    ]
    empty: dict[str, Any] = {"rehearsal": [], "checks": []}
    return {**kind, "track": track, **empty, **more}


def content(problem: dict[str, Any] | None = None) -> dict[str, Any]:
    pilot = [{"n": 4.0, "measured": 0.04}, {"n": 8.0, "measured": 0.03}]
    checks = [{"n": 16.0, "measured": 0.021}]
    dense = model("FC", 0.08, 0.5, 0.0005, rehearsal=pilot, checks=checks)
    return {
        "point": "rigorous-8",
        "problem": problem or {},
        "images": "256 phantoms",
        "examples": 256,
        "models": [model("KO", 0.01, 1.0, 0.002), dense],
    }


@pytest.fixture(scope="module")
def record() -> PointRecord:
    return PointRecord.model_validate(content())


@pytest.fixture(scope="module")
def figure(record: PointRecord) -> Figure:
    measured = Curve([8, 8, 32, 32], [0.028, 0.03, 0.014, 0.015], [1, 2, 1, 2], model="FC")
    return prediction_figure(record, [measured])


def values(figure: Figure, gid: str) -> list[float]:
    return data(line(figure, gid))[1]


def test_curves_and_bands_are_drawn_where_they_are(figure: Figure, record: PointRecord) -> None:
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    bands = [band.get_paths()[0].vertices for band in axes.collections if band.get_hatch()]
    for made, corners in zip(record.models, bands, strict=True):
        n, expected = data(line(figure, f"forecast-{made.model}"))
        assert (n, expected) == (N, [row.value for row in made.track])
        low, high = axes.get_ylim()
        for row in made.track:
            assert low < row.lower < row.upper < high
            for end in (row.lower, row.upper):
                assert np.isclose(np.asarray(corners)[:, 1], end).any()


def test_measurements_and_the_end_of_the_rehearsal_are_marked(figure: Figure) -> None:
    assert values(figure, "rehearsal-FC") == [0.04, 0.03]
    assert values(figure, "pilot-FC") == [0.021]
    assert values(figure, "means-FC") == pytest.approx([0.029, 0.0145])
    assert data(line(figure, "examples"))[0] == [256, 256]
    told = " ".join(written(figure).split())
    for words in ("rehearsed", "extrapolated", "FC on simulated pairs", NOTE):
        assert words in told
    check_page(figure)
    check_page(prediction_figure(PointRecord.model_validate(content()), narrow=True))


def test_nothing_is_marked_that_is_not_there(tmp_path: Path) -> None:
    bare = content() | {"models": [model("KO $x", 1.0, 0.5, 0.0)]}
    drawn = prediction_figure(PointRecord.model_validate(bare))
    gids = {artist.get_gid() for artist in drawn.findobj()}
    assert not gids & {"pilot-KO $x", "rehearsal-KO $x"}
    save(drawn, tmp_path / "a.svg")
    assert "KO $x expected" in written(drawn)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_studies.made_study(tmp_path_factory.mktemp("studied"))


def predicted(folder: Path, made: dict[str, Any]) -> None:
    write_prediction(folder, prediction_content("made up", [made]))


def problem(folder: Path) -> dict[str, Any]:
    return dict(read_contents(folder).points[0].spec["problem"])


def test_predictions_stand_beside_what_was_measured(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
    section, notes = prediction_section(read_contents(folder))
    assert (section.html, notes) == ("", [])
    predicted(folder, content(problem(folder)))
    section, notes = prediction_section(read_contents(folder))
    assert (notes, section.title) == ([], "Predicted before training")
    assert section.html.count("<figure") == 1
    assert "rigorous-8, FC: predicted over measured is" in section.html
    assert "<th" in section.html


def test_outcomes_are_at_measured_sizes_without_the_pilots(folder: Path) -> None:
    curves = measured_curves(read_contents(folder).points[0].cells)
    assert [curve.metric for curve in curves] == ["mse", "mse"]
    found = list(outcomes(PointRecord.model_validate(content()), curves))
    assert [each.n for each in found if each.model == "KO"] == [4, 8, 16, 32, 64, 128]
    assert [each.n for each in found if each.model == "FC"] == [4, 8, 32, 64, 128]
    fc = {curve.model: curve for curve in curves}["FC"]
    for each in found:
        floor, level, rate = made_studies.LAWS[each.model]
        assert each.predicted == pytest.approx(floor + level * each.n**-rate)
        assert each.ratio == pytest.approx(1, rel=0.1)  # it was made by the same law
        assert each.inside
    assert next(e.measured for e in found if e.model == "FC") == fc.means[0]


def test_outcomes_lie_between_the_sizes_that_were_kept_and_are_summed_up() -> None:
    made = PointRecord.model_validate(content() | {"models": [model("FC", 1.0, 1.0, 0.0)]})
    (found,) = outcomes(made, [Curve([2, 10, 10**6], [1.0, 0.2, 0.1], model="FC")])
    assert found.n == 10  # the others lie outside
    assert found.predicted == pytest.approx(0.1)
    assert not found.inside
    measured = ((4, 1.0), (8, 2.0), (16, 0.5))
    rows = [Outcome("p", "FC", n, 1.0, 0.9, 1.1, m) for n, m in measured]
    (said,) = outcome_sentences(rows)
    for words in ("is 1.00 in the geometric mean over 3 N", "0.50 at worst, at N = 8", "1 of 3"):
        assert words in said


def test_predictions_of_something_else_are_said_and_not_shown(folder: Path) -> None:
    own = problem(folder)
    for made in (
        *(content(own | {"noise": {"gaussian": 0.5}}), content(own) | {"point": "elsewhere"}),
        content(own) | {"models": [model("FC", 1, 1, 0, relu=False)]},
    ):
        predicted(folder, made)
        section, notes = prediction_section(read_contents(folder))
        assert section.html == ""
        assert f"{made['point']} is no point of this study with the same" in notes[0]


@pytest.mark.usefixtures("bare_pages")
@pytest.mark.parametrize("change", [("0", "1"), ("}", "")])
def test_a_damaged_prediction_is_refused_and_the_remedy_works(
    folder: Path, tmp_path: Path, change: tuple[str, str]
) -> None:
    predicted(folder, content(problem(folder)))
    file = folder / NAME
    file.write_text(file.read_text().replace(*change))
    report = ("report", folder, "--only", "page", "--out", tmp_path)
    said = refused(*report)
    assert str(file) in said
    assert "run korisk rehearse again, or remove it" in said
    assert list(tmp_path.iterdir()) == []
    file.unlink()
    outputs(*report)
    assert (tmp_path / "report.html").exists()


def test_predictions_from_other_images_are_shown_and_escaped(folder: Path) -> None:
    own = problem(folder) | {"population": "images", "images": {"path": "mine"}}
    predicted(folder, content(own) | {"images": "<script>alert(1)</script>"})
    html = prediction_section(read_contents(folder))[0].html
    assert "<figure" in html
    assert "<script>" not in html
