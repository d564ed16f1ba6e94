"""A rehearsal as a figure and a page: everywhere the same answer."""

import re
from typing import Any

import pytest
from artists import check_page, data, line

import korisk as kr
from korisk.prediction.answer import Question
from korisk.prediction.record import point_record
from korisk.prediction.rehearsal.rehearsal import BELIEF, Rehearsed
from korisk.prediction.study import PointPrediction
from korisk.report.figures.prediction import prediction_figure
from korisk.report.page.prediction import rehearsal_page
from korisk.store.usage import Usage

SIZES = [16, 64, 256, 1024]
ERRORS = [0.00228, 0.00142, 0.00101, 0.00092, 0.00232, 0.00139, 0.00103, 0.00091]
MADE = kr.Rehearsal(
    curve=kr.Curve(SIZES * 2, ERRORS, [0] * 4 + [1] * 4, "FBP & <CNN>", "mse"),
    simulated="inputs of A (noise: 0.05) from 64 example images",
    unaltered=36,
    level=0.05,
    parameters=4153,
    belief=BELIEF,
    notes=("A note.",),
)
PILOT = kr.Curve(
    [16, 32, 64] * 2, [0.0023, 0.0018, 0.0014, 0.0024, 0.0018, 0.00145], [0] * 3 + [1] * 3
)
TARGET = 0.0015


def point(pilot: kr.Curve | None = None) -> PointPrediction:
    usage = Usage(started="", seconds=20.0)
    spec: dict[str, Any] = {"problem": {}, "models": {}}
    rehearsed = (Rehearsed(MADE, pilot),)
    return PointPrediction("twelve views", spec, (), "", 1, (), usage, (), rehearsed)


@pytest.mark.parametrize("pilot", [None, PILOT], ids=["alone", "with a pilot"])
def test_the_figure_marks_the_number_at_the_level_asked_for(pilot: kr.Curve | None) -> None:
    here = point(pilot)
    (plan,) = here.plans(TARGET)
    for sure in (0.8, 0.9):
        content = point_record(here.to_dict([TARGET], sure=sure))
        for narrow in (False, True):
            drawn = prediction_figure(content, needed=[plan], sure=sure, narrow=narrow)
            check_page(drawn)
            marked = data(line(drawn, "answer-FBP & <CNN>"))
            assert marked == ([plan.samples(sure)], [TARGET])


def test_the_page_says_the_advice_the_check_and_what_was_simulated() -> None:
    here, asked = point(), Question(targets=[TARGET], sure=0.8)
    html = rehearsal_page([here], asked, title="before <b> a scan")
    (plan,) = here.plans(TARGET)
    text = " ".join(re.sub(r"<[^>]*>", " ", html).split())
    assert "<b>" not in html
    assert "FBP &amp; &lt;CNN&gt;" in html
    assert f"collect {plan.samples(0.8)} samples for 0.0015 (80% sure)." in text
    check = MADE.predict().first_check()
    assert f"Check it at N = 16: expect {check.value:.4g}" in text
    assert "64 example images" in text
    assert "A note." in text
    assert text.index("80% sure") < text.index("Check it") < text.index("64 example images")


def test_words_and_json_are_of_one_answer() -> None:
    model = point().to_dict([TARGET], sure=0.8, cost=10.0)["models"][0]
    advice = model["samples"][0]["recommendation"]
    assert model["explanation"].startswith(advice["sentence"])
    assert model["explanation"].endswith(advice["reasons"][-1])
    assert model["first_check"]["n"] == 16
    assert advice["cost"] == 10.0 * advice["n"]
    assert model["floor"] is None
    assert min(row["n"] for row in model["track"]) == 16
