"""A rehearsal as a page, in words and as JSON: everywhere the same answer."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

import korisk as kr
from korisk.planning import words
from korisk.prediction.answer import point_lines, point_tables
from korisk.prediction.misfit import BELIEF
from korisk.prediction.study import PointPrediction, Question
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


def point(pilot: kr.Curve | None = None, *others: kr.Rehearsal) -> PointPrediction:
    usage = Usage(started="", seconds=20.0)
    spec: dict[str, Any] = {"problem": {}, "models": {}}
    made = (MADE, *others)
    views = tuple(item.forecast(pilot) for item in made)
    return PointPrediction("twelve views", spec, made, views, ("A note on the point.",), usage)


@pytest.mark.parametrize("pilot", [None, PILOT], ids=["alone", "with a pilot"])
def test_the_page_says_the_advice_and_what_it_rests_on(pilot: kr.Curve | None) -> None:
    here, asked = point(pilot), Question(targets=[TARGET])
    html = rehearsal_page([here], asked, title="before <b> a scan")
    (plan,) = here.plans(TARGET)
    text = " ".join(re.sub(r"<[^>]*>", " ", html).split())
    assert "<b>" not in html
    assert "FBP &amp; &lt;CNN&gt;" in html
    assert all(part in unescape(html) for part in words.parts(plan.recommend().sentence))
    check = here.forecasts[0].at(16)
    assert (f"N = 16: expect {check.value:.4g}" in text) == (pilot is None)
    for fact in ("64 example images", "A note.", "A note on the point."):
        assert fact in text
    # A pilot without a name is of the network; what was simulated beside it says so.
    assert ("FBP & <CNN>, simulated" in unescape(html)) == (pilot is not None)
    assert '"name":"mse"' not in html
    simulated = here.forecasts[0].simulated
    assert simulated is not None
    (table,) = point_tables(here, asked)
    assert [row[1] for row in table.rows] == [f"{mean:.3g}" for mean in simulated.means]


@pytest.mark.parametrize("pilot", [None, PILOT], ids=["alone", "with a pilot"])
def test_words_and_json_are_of_one_answer(pilot: kr.Curve | None) -> None:
    here, asked = point(pilot), Question(targets=[TARGET], sure=0.8)
    (plan,), (model,) = here.plans(TARGET), here.to_dict(asked)["models"]
    assert model["samples"] == [plan.to_dict(0.8)]
    advice = model["samples"][0]["recommendation"]
    assert advice["n"] == plan.samples(0.8)
    assert point_lines(here, asked)[0] == "\n".join(words.parts(advice["sentence"]))
    assert (model["how"], min(row["n"] for row in model["track"])) == ("rehearsed", 16)


def test_a_target_in_the_range_of_one_model_alone_is_answered_for_both() -> None:
    """For the other model by itself it would look like one in percent."""
    worse = kr.Curve(MADE.curve.n, 100 * MADE.curve.error, MADE.curve.seed, "FC", "mse")
    here = point(None, replace(MADE, curve=worse))
    with pytest.raises(kr.KoriskError, match="in percent"):
        here.forecasts[0].plan(0.12)
    easy, other = here.plans(0.12)
    assert easy.met_at_smallest
    assert 64 < (other.even or 0) < 256
    with pytest.raises(kr.KoriskError, match="than all that was measured"):
        point().plans(0.12)
