"""All answers of a pilot: sentences, plain values and tables."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.errors import UnreachableError
from korisk.planning.answer import (
    Answer,
    answer,
    answer_tables,
    comparison_tables,
    sample_cells,
    sample_heads,
)

SIZES = [16, 32, 64, 128, 256]
MEANS = [0.2, 0.1, 0.05, 0.025, 0.0125]
PILOT = kr.Curve(SIZES, MEANS, model="KO", metric="mse")
RISING = kr.Curve(SIZES, [0.05, 0.06, 0.08, 0.1, 0.2], model="FC")
RELATED = kr.Curve(SIZES, [0.4, 0.21, 0.1, 0.05, 0.026], model="simulated")


@pytest.fixture(scope="module")
def planned() -> Answer:
    return answer(PILOT, 0.005, [100, 1024])


def test_the_answer_is_that_of_the_plan_and_of_the_forecast(planned: Answer) -> None:
    plan, forecast = kr.plan(PILOT, 0.005), kr.forecast(PILOT)
    assert planned.advice == plan.recommend(0.9)
    assert planned.curve is PILOT
    assert [n for n, _, _ in planned.at] == [100, 1024]
    assert [expected for _, expected, _ in planned.at] == [forecast.at(n) for n in (100, 1024)]
    assert [chance for _, _, chance in planned.at] == [plan.probability(n) for n in (100, 1024)]
    planned.require()
    unlikely = answer(PILOT, 0.005, sure=0.5, cost=2.0)
    assert unlikely.advice == plan.recommend(0.5, 2.0)
    assert (planned.sure, planned.cost, unlikely.sure, unlikely.cost) == (0.9, None, 0.5, 2.0)
    with pytest.raises(kr.KoriskError, match="cost must be"):
        answer(PILOT, 0.005, cost=-1.0)
    with pytest.raises(kr.KoriskError, match="target must be"):
        answer(PILOT, -1.0)
    with pytest.raises(kr.KoriskError, match="sure must be"):
        answer(PILOT, sure=0.3)


def test_without_a_target_there_is_no_advice() -> None:
    bare = answer(PILOT, at=[512])
    assert bare.advice is None
    assert bare.plan is None
    assert bare.explain() == ""
    assert bare.at[0][2] is None
    bare.require()
    content = bare.to_dict()
    assert "recommendation" not in content
    assert content["related"] == []
    assert content["at"][0]["probability_of_target"] is None
    with_relatives = answer(PILOT, related=[RELATED])
    relatives = with_relatives.forecast.relatives
    assert relatives is not None
    assert relatives.trust < 0.01, "the pilot is an exact power law, and its relative is not"
    assert with_relatives.explain() == "Related: simulated (trust below 1%)."
    assert with_relatives.to_dict()["related"] == ["simulated"]


def test_plain_values_are_those_of_the_plan(planned: Answer) -> None:
    content = planned.to_dict()
    assert planned.plan is not None
    assert planned.advice is not None
    assert content["recommendation"] == planned.advice.to_dict()
    assert content["middle"] == planned.plan.middle
    names = ("model", "metric", "unit", "fit")
    assert [content[name] for name in names] == ["KO", "mse", "error", "posterior"]
    assert [size["n"] for size in content["at"]] == [100, 1024]
    for size, (_, expected, chance) in zip(content["at"], planned.at, strict=True):
        assert expected is not None
        ends = (expected.value, expected.lower, expected.upper)
        assert (size["value"], size["lower"], size["upper"]) == ends
        assert size["probability_of_target"] == chance


def test_a_short_answer_has_the_advice_its_reasons_and_one_finding(planned: Answer) -> None:
    plan, advice = planned.plan, planned.advice
    assert plan is not None
    assert advice is not None
    (finding,) = plan.findings
    reasons = " ".join(advice.reasons)
    assert planned.explain() == f"{advice.sentence}\n{reasons} {finding}"
    assert planned.explain(again=True) == f"{advice.sentence}\n{reasons}"
    assert planned.explain(full=True) == plan.explain(0.9)
    assert planned.explain(full=True, again=True) == plan.brief()
    assert planned.explain(with_name=True) == planned.explain(), "it begins with it already"


def test_a_model_without_a_name_is_named_by_its_curve_where_that_is_asked_for() -> None:
    nameless = answer(kr.Curve(SIZES, MEANS, metric="mse"), 0.3)
    assert nameless.explain(with_name=True) == f"mse: {nameless.explain()}"
    assert nameless.explain(full=True, with_name=True) == f"mse: {nameless.explain(full=True)}"


def test_further_findings_are_counted() -> None:
    short = answer(kr.Curve([16, 32, 48], [0.2, 0.1, 0.067], model="KO"), 0.05)
    assert short.plan is not None
    first, *others = short.plan.findings
    assert len(others) == 1
    assert short.explain().endswith(f"{first} (1 more in full)")


def test_no_reason_is_no_empty_line() -> None:
    n, seeds = np.repeat(SIZES, 3), ["0", "1", "2"] * 5
    noise = np.tile([0.99, 1.0, 1.01], 5)
    met = answer(kr.Curve(n, np.repeat(MEANS, 3) * noise, seeds, "KO"), 0.05)
    assert met.advice is not None
    assert met.advice.reasons == ()
    assert met.explain() == met.advice.sentence


def test_what_cannot_be_known_is_refused_where_it_is_required() -> None:
    doubtful = answer(RISING, at=[256, 300])
    assert [expected is None for _, expected, _ in doubtful.at] == [False, True]
    assert doubtful.at[1] == (300, None, None)
    words = "error at N = 300 is not known; the curve cannot be extrapolated: .*; ask for N up to "
    with pytest.raises(UnreachableError, match=f"the {words}256, or measure there$"):
        doubtful.require()
    assert doubtful.to_dict()["at"][1]["value"] is None
    answer(RISING, at=[256]).require()
    for n in (1, 10**15 + 1, 2.5):
        with pytest.raises(kr.KoriskError, match="n must be"):
            answer(PILOT, at=[n])
    tiny = kr.Curve([2, 3, 4], [0.1, 0.2, 0.4])
    assert answer(tiny, at=[5]).at == ((5, None, None),)
    stop = answer(RISING, 0.01)
    assert stop.advice is not None
    assert stop.advice.action == "unknown"
    with pytest.raises(UnreachableError) as refusal:
        stop.require()
    assert str(refusal.value) == stop.advice.explain()


# --- Tables --------------------------------------------------------------------------------------


def bare_plan(**values: Any) -> Any:
    """A plan with given numbers."""

    def samples(level: float) -> int | None:
        return {0.8: 30, 0.9: 1234, 0.95: None, 0.5: 16, 0.85: 17}[level]

    fields = {"fit": "posterior", "reach": 0.93, "doubt": "", "even": 24, "middle": 20}
    fields |= {"lower": 18, "upper": 4096, "target": 0.02, "curve": PILOT}
    return SimpleNamespace(samples=samples, **fields | values)


def test_a_row_has_a_number_for_every_level_and_the_interval() -> None:
    assert sample_heads((0.8, 0.925)) == [
        *("80% sure", "92.5% sure", "even odds"),
        *("90% from", "to", "at most"),
    ]
    row = sample_cells(bare_plan(), (0.8, 0.9, 0.95))
    assert row == ["30", "1,234", "none", "24", "18", "4,096", "93%"]
    # At or below the pilot's smallest N of 16, fewer samples may be enough.
    assert sample_cells(bare_plan(), (0.5, 0.85))[:2] == ["≤ 16", "17"]
    assert sample_cells(bare_plan(even=16), ())[0] == "≤ 16"
    assert sample_cells(bare_plan(even=None, lower=math.inf, upper=math.inf), ()) == [
        *("none", "∞", "∞", "93%")
    ]
    assert sample_cells(bare_plan(doubt="It rises.", reach=math.nan), (0.9,)) == ["-"] * 5
    assert sample_cells(bare_plan(doubt="It rises."), (0.8, 0.9)) == [*["-"] * 5, "93%"]
    assert len(sample_heads((0.8, 0.9))) == 6


def test_other_fits_have_a_column_for_their_curve() -> None:
    plan = bare_plan(fit="paper", middle=16)
    assert sample_heads((0.9,), "paper")[1:4] == ["even odds", "by fit", "90% from"]
    assert sample_cells(plan, (0.9,)) == ["1,234", "24", "≤ 16", "18", "4,096", "93%"]
    doubtful = bare_plan(fit="paper", doubt="It rises.")
    assert sample_cells(doubtful, (0.9,)) == [*["-"] * 5, "93%"]


def of_plan(curve: kr.Curve, target: float | None, sure: float = 0.9, chance: float = 0.4) -> Any:
    """An answer with given numbers."""
    expected = SimpleNamespace(value=0.25, lower=0.125, upper=0.5)
    plan = None if target is None else bare_plan(target=target, curve=curve)
    odds = None if target is None else chance
    return SimpleNamespace(plan=plan, curve=curve, sure=sure, at=((64, expected, odds),))


def test_tables_have_a_row_for_every_answer_and_one_column_for_every_target() -> None:
    nameless = kr.Curve(SIZES, MEANS)
    models = [(PILOT, 0.3), (PILOT, 0.02), (nameless, 0.3), (nameless, 0.02)]
    answers = [of_plan(curve, target, chance=target) for curve, target in models]
    samples, errors = answer_tables(answers)
    assert samples.title == ""
    assert samples.heads == ["target", "model", *sample_heads((0.9,))]
    assert [row[:3] for row in samples.rows] == [
        ["0.3", "KO", "1,234"],
        ["0.02", "KO", "1,234"],
        ["0.3", "-", "1,234"],
        ["0.02", "-", "1,234"],
    ]
    assert samples.align == "rlr"
    assert errors.title == "Expected error"
    assert errors.heads[5:] == ["chance of\n0.3", "chance of\n0.02"]
    assert errors.heads[:5] == ["model", "N", "error", "90% from", "to"]
    assert errors.rows == [
        ["KO", "64", "0.25", "0.125", "0.5", "30%", "2%"],
        ["-", "64", "0.25", "0.125", "0.5", "30%", "2%"],
    ]


def test_a_single_target_needs_no_number_in_its_column() -> None:
    _, errors = answer_tables([of_plan(PILOT, 0.3)])
    assert errors.heads[5:] == ["chance of\nthe target"]
    assert errors.rows == [["KO", "64", "0.25", "0.125", "0.5", "40%"]]
    (only,) = answer_tables([of_plan(PILOT, None), of_plan(PILOT, None)])
    assert only.heads == ["model", "N", "error", "90% from", "to"]
    assert only.rows == [["KO", "64", "0.25", "0.125", "0.5"]] * 2
    unknown = of_plan(PILOT, 0.3)
    unknown.at = ((64, None, None),)
    assert list(answer_tables([unknown]))[1].rows == [["KO", "64", "-", "-", "-", "-"]]
    unknown.at = ()
    assert len(list(answer_tables([unknown]))) == 1


def test_full_tables_have_a_title_and_all_levels_in_order() -> None:
    samples, _ = answer_tables([of_plan(PILOT, 0.3, sure=0.85)], full=True)
    assert samples.title == "Samples"
    assert samples.heads[2:7] == [f"{level}% sure" for level in (80, 85, 90, 95)] + ["even odds"]
    samples, _ = answer_tables([of_plan(PILOT, 0.3, sure=0.85)])
    assert samples.heads[2:4] == ["85% sure", "even odds"]
    by_fit = of_plan(PILOT, 0.3)
    by_fit.plan.fit = "paper"
    samples, _ = answer_tables([by_fit])
    assert samples.title == "Samples (by fit: paper; chances: posterior)"
    assert "by fit" in samples.heads


def bare_comparison(**values: Any) -> Any:
    fields = {"first": bare_plan(), "second": bare_plan(fit="posterior"), "target": 0.02}
    fields |= {"ratio": 3.14159, "ratio_range": (2.0, 4.0), "numbers": (24, 75), "open_end": ""}
    factors = SimpleNamespace(structural=2.0, approximation_budget=1.23456, product=2.46912)
    fields |= {"names": ("KO", "FC"), "factors": lambda fit: factors}
    return SimpleNamespace(**fields | values)


@pytest.mark.parametrize(
    ("values", "ratios"),
    [
        ({}, ["1", "3.14"]),
        ({"open_end": " or more"}, ["1", "3.14 or more"]),
        ({"ratio": None}, ["1", "at least 2"]),
        ({"ratio": None, "ratio_range": (2.3456, math.inf)}, ["1", "at least 2.35"]),
        ({"ratio": None, "ratio_range": (0.0, 0.23456)}, ["1", "at most 0.235"]),
        ({"ratio": None, "ratio_range": None, "numbers": (None, 75)}, ["-", "-"]),
        ({"ratio": None, "ratio_range": None, "numbers": (24, None)}, ["1", "-"]),
        ({"ratio": None, "ratio_range": (0.0, math.inf)}, ["1", "-"]),
    ],
)
def test_ratios_are_relative_to_the_first_model(values: dict[str, Any], ratios: list[str]) -> None:
    (table,) = comparison_tables(bare_comparison(**values))
    assert table.title == ""
    assert table.heads == ["model", *sample_heads((0.9,)), "ratio"]
    assert [row[-1] for row in table.rows] == ratios
    assert [row[:2] for row in table.rows] == [["KO", "1,234"], ["FC", "1,234"]]


def test_a_full_comparison_has_the_factors_of_both_calibrations() -> None:
    samples, factors = comparison_tables(bare_comparison(), full=True)
    assert samples.title == "Samples for 0.02"
    assert factors.title == "Proposition 1, from lines floor + sigma log N / N"
    assert factors.rows == [["line", "2", "1.23", "2.47"], ["paper", "2", "1.23", "2.47"]]

    def refused(fit: str) -> None:
        raise kr.KoriskError(f"no line for {fit}")

    _, factors = comparison_tables(bare_comparison(factors=refused), full=True)
    assert factors.rows == [["line", "-", "-", "-"], ["paper", "-", "-", "-"]]
    by_fit = bare_comparison(first=bare_plan(fit="paper"))
    (table,) = comparison_tables(by_fit)
    assert table.title == "Samples for 0.02 (by fit: paper; chances: posterior)"
    assert "by fit" in table.heads
