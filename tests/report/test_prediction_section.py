"""What was predicted before training, in the page of a study."""

from pathlib import Path
from typing import Any

import made_studies
import pytest
from commands import outputs, refused

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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_studies.made_study(tmp_path_factory.mktemp("studied"))


def predicted(folder: Path, made: dict[str, Any]) -> None:
    write_prediction(folder, prediction_content("made up", [made]))


def problem(folder: Path) -> dict[str, Any]:
    return dict(read_contents(folder).points[0].spec["problem"])


def test_predictions_stand_beside_what_was_measured(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
    section, notes = prediction_section(read_contents(folder))
    assert (section, notes) == ("", [])
    predicted(folder, content(problem(folder)))
    section, notes = prediction_section(read_contents(folder))
    assert notes == []
    assert "rigorous-8, FC: predicted over measured is" in section
    assert "<th" in section


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
        assert section == ""
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
    html = prediction_section(read_contents(folder))[0]
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
