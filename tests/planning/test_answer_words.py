"""What an answer says: the facts in its sentences and tables, which are those of the plan."""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import string
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from benchmarks.planner import odds
from korisk.errors import Argument, Message
from korisk.planning import words
from korisk.planning.compare import comparison_tables
from korisk.planning.plan import plan_tables, sample_cells, sample_heads
from korisk.planning.recommend import LEVELS, Chances
from pilots import KnownLaw, known_forecast, known_plan, released_h8

N, MEANS = [16, 32, 64, 128], [0.4, 0.2, 0.1, 0.05]
PILOT = kr.Curve(N, MEANS, model="KO", metric="mse")
SIMULATED = kr.Curve(N, MEANS, model="simulated")


# --- Numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "below 1%"), (0.0099, "below 1%"), (0.01, "1%"), (0.99, "99%"), (0.991, "above 99%"),
     (1.0, "above 99%"), (None, "not known"), (math.nan, "not known"), (0.456, "46%")],
)  # fmt: skip
def test_chances_are_never_certain(p: float | None, text: str) -> None:
    assert words.chance(p) == text


def test_numbers_have_few_digits() -> None:
    factors = [words.times(factor) for factor in (0.123, 9.94, 10.4, 1234.4)]
    assert factors == ["0.12", "9.9", "10", "1,234"]
    assert [words.count(n) for n in (1234.4, math.inf)] == ["1,234", "∞"]
    assert [words.span(5.0, end) for end in (math.inf, 1500.0)] == ["5 or more", "5 to 1,500"]
    assert [words.level(p) for p in (0.9, 0.975)] == ["90%", "97.5%"]
    joined = words.paragraph([Message("Pass ", Argument("unit", ...), "."), "Or not."])
    assert str(joined) == "Pass unit=. Or not."
    assert str(words.paragraph([])) == ""


# --- A plan --------------------------------------------------------------------------------------


def test_a_lower_bound_is_rounded_down_and_a_bound_of_one_is_no_factor() -> None:
    texts = [words.at_least(factor) for factor in (0.049, 0.0496, 1.09, 2.39, 9.99, 137.8)]
    assert texts == ["0.049", "0.049", "1", "2.3", "9.9", "137"]
    sentences = [
        words.times_fewer(("KO", "FC"), 0.1, None, (low, math.inf)) for low in (1.09, 2.39)
    ]
    assert sentences[0] == "KO needs fewer samples than FC for 0.1 (95% sure)."
    assert "at least 2.3 times fewer" in sentences[1]


def test_an_answer_has_three_lines_of_which_none_is_empty() -> None:
    for plan in (
        kr.plan(released_h8("FC"), 0.003),
        kr.plan(PILOT, 0.05),
        known_plan(PILOT, 400, doubt="It rises."),
        known_plan(PILOT, 400, reach=0.5),
    ):
        advice, lines = plan.recommend(), plan.lines()
        assert 1 <= len(lines) <= 3
        assert lines[0] == "\n".join(words.parts(advice.sentence))
        assert advice.odds in lines[-1]
        assert (advice.record in lines[1:]) == (advice.record != "")
        assert all(reason in lines[-1] for reason in advice.reasons)
        explanation = plan.explain()
        assert explanation == "\n".join(plan.lines(full=True))
        assert all(finding in explanation for finding in plan.findings)
        more = f"({len(plan.findings) - 1} more with full=True)"
        assert (more in lines[-1]) == (len(plan.findings) > 1)


def test_every_case_of_advice_has_its_fields() -> None:
    allowed = {
        "n",
        "more",
        "target",
        "sure",
        "reach",
        "noun",
        "seeds",
        "chance",
        "factor",
        "after",
        "runs",
        "next",
        "first",
    }
    names = {"model": "KO", "first": "KO", "second": "FC", "layer": "A"}
    for case, text in words.ADVICE.items():
        fields = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        assert fields <= allowed | {"next", "why"}, case
    assert words.question("model", model="KO").count("KO") == 1
    assert all(words.question(kind, **names).count("{goal}") == 1 for kind in words.QUESTION)


def test_the_record_is_told_where_there_is_one_and_doubted_where_it_is_below_its_promise() -> None:
    rows: list[words.Held] = [
        {"times": 4, "asked": 400, "held": 0.92}, {"times": 64, "asked": 58, "held": 0.75}
    ]  # fmt: skip
    near, far = (words.record("pilot", rows, times) for times in (4.0, 4.1))
    assert all(fact in near for fact in ("400", "92%"))
    assert all(fact in far for fact in ("58", "75%", "ask for 95%"))
    assert "ask" not in near
    assert words.record("pilot", rows, 65.0) == ""
    assert "wider" in words.record("ratio", rows, 5.0)
    plan = known_plan(PILOT, 400)
    beyond = (plan.samples() or 0) / plan.forecast.measured
    assert plan.recommend().record == words.record("pilot", words.HELD["pilot"], beyond) != ""
    assert known_plan(PILOT, 400, doubt="It rises.").recommend().record == ""
    assert words.HELD.keys() == {"pilot", "rehearsal", "both", "ratio"} == words.RECORD.keys()
    assert all(0 <= row["held"] <= 1 < row["asked"] for held in words.HELD.values() for row in held)


def test_the_record_is_that_of_the_kept_results() -> None:
    """Of pilots and ratios; `python -m benchmarks.planner.record` asks rehearsals as well."""
    kept = odds.record()
    for kind in ("pilot", "ratio"):
        assert [row["times"] for row in words.HELD[kind]] == [row["times"] for row in kept[kind]]
        for told, row in zip(words.HELD[kind], kept[kind], strict=True):
            assert told["asked"] == row["asked"]
            assert told["held"] == pytest.approx(row["held"])


def test_who_asked_for_95_percent_is_not_told_to_ask_for_it() -> None:
    rows: list[words.Held] = [{"times": 64, "asked": 58, "held": 0.75}]
    assert "ask for 95%" not in words.record("pilot", rows, 2.0, sure=0.95)
    assert "collect half of the new ones" in words.record("pilot", rows, 2.0, sure=0.95)


@pytest.mark.parametrize(("trust", "verb"), [(0.0099, "disagree with"), (0.01, "explain")])
def test_related_curves_are_told_with_their_trust_and_their_effect(trust: float, verb: str) -> None:
    told = words.related('"sim"', trust, 400, 900)
    assert all(fact in told for fact in ('"sim"', verb, words.chance(trust), "900"))
    assert "do not change" in words.related("", trust, 400, 400)
    assert "no number of samples is enough" in words.related("", trust, 400, None)
    for none in (0.0, None):
        assert words.related('"sim"', none, 400, 400).endswith("are not used.")


def test_a_plan_with_related_curves_says_what_it_would_be_without() -> None:
    sizes = 16 * 2 ** np.arange(8)
    like = kr.Curve(sizes, 2.0 * sizes**-0.5 + 0.05, model="simulated")
    pilot = kr.Curve(sizes[:4], 1.4 * like.means[:4] * [1.01, 0.99, 1.0, 1.01], model="KO")
    beyond, inside = (kr.plan(pilot, goal, related=[like]) for goal in (0.2, 0.5))
    assert beyond.forecast.trust is not None
    alone = kr.plan(pilot, 0.2).even
    told = words.related('"simulated"', beyond.forecast.trust, beyond.even, alone)
    assert told in beyond.explain()
    assert "do not change the answer" in inside.explain()
    step = kr.Curve(sizes, np.where(sizes > 100, 0.01, 1.0), model="step")
    assert '("step") are not used' in kr.plan(pilot, 0.2, related=[step]).explain()
    assert '("simulated") are not used' in kr.plan(step, 0.001, related=[like]).explain()


# --- Tables --------------------------------------------------------------------------------------


def test_a_row_has_a_number_for_every_level_and_the_plausible_range() -> None:
    heads = sample_heads((0.8, 0.925))
    assert heads[:3] == ["80% sure", "92.5% sure", "50% sure"]
    for reach in (1.0, 0.93, 0.3, 0.03):
        plan = known_plan(PILOT, 400, reach=reach)
        row = sample_cells(plan, (0.8, 0.925))
        assert len(row) == len(heads)
        assert row[-1] == words.chance(plan.reach)
        counts = [plan.samples(0.8), plan.samples(0.925), plan.even]
        texts = ["none" if n is None else f"{n:,}" for n in counts]
        if math.isinf(plan.lower):
            assert row[:-1] == [*texts, "-", "-"]
        else:
            assert row[:5] == [*texts, words.count(plan.lower), words.count(plan.upper)]
    # At the pilot's smallest N of 16, fewer samples may be enough.
    assert sample_cells(known_plan(PILOT, 8, spread=0.01), (0.9,))[:4] == ["≤ 16"] * 4
    for doubtful in (known_plan(PILOT, 400, doubt="It rises."), known_plan(PILOT, 400, 1e-19)):
        assert sample_cells(doubtful, (0.8, 0.9)) == ["-"] * 6


def test_tables_have_a_row_for_every_plan_with_its_target_and_model() -> None:
    nameless = kr.Curve(N, MEANS)
    plans = [known_plan(curve, 400, goal) for curve in (PILOT, nameless) for goal in (0.03, 0.02)]
    (table,) = plan_tables(plans, 0.85)
    assert table.heads == ["target", "model", *sample_heads((0.85,))]
    first = [row[:2] for row in table.rows]
    assert first == [["0.03", "KO"], ["0.02", "KO"], ["0.03", "-"], ["0.02", "-"]]
    assert [row[2:] for row in table.rows] == [sample_cells(plan, (0.85,)) for plan in plans]
    (full,) = plan_tables(plans, 0.85, full=True)
    assert full.heads[2:6] == [f"{level}% sure" for level in (80, 85, 90, 95)]
    assert list(plan_tables([])) == []


def test_a_plan_without_a_range_has_no_row() -> None:
    """Its advice says all: a row of dashes would say it again."""
    plans = [known_plan(PILOT, 400), known_plan(PILOT, 400, reach=0.04)]
    for full in (False, True):
        (table,) = plan_tables(plans, full=full)
        assert len(table.rows) == 1
        assert list(plan_tables(plans[1:], full=full)) == []
        (beside,) = comparison_tables(kr.Comparison(*plans), full=full)
        assert len(beside.rows) == 1


def test_a_comparison_has_a_row_for_each_plan() -> None:
    n = np.array([16, 32, 64, 128, 256])
    rate = np.log(n) / n
    pair = kr.compare(kr.Curve(n, 0.01 + 0.5 * rate), kr.Curve(n, 0.02 + 2.0 * rate), 0.05)
    (table,) = comparison_tables(pair)
    assert table.rows == [
        [name, *sample_cells(plan, (0.9,))]
        for name, plan in zip(pair.names, (pair.first, pair.second), strict=True)
    ]


# --- Values --------------------------------------------------------------------------------------


def test_what_it_rests_on_is_a_pilot_a_rehearsal_or_both() -> None:
    law = KnownLaw(4.0)
    pilot, rehearsed = known_forecast(PILOT, law), known_forecast(SIMULATED, law, simulated=True)
    both = replace(pilot, simulated=SIMULATED)
    assert [made.basis for made in (pilot, rehearsed, both)] == ["pilot", "rehearsal", "both"]
    assert [made.measured for made in (pilot, rehearsed, both)] == [128, 0, 128]
    assert rehearsed.plan(0.02).limit is None
    noted = replace(rehearsed, notes=("It rests on 64 images.",)).plan(0.02)
    assert "It rests on 64 images." in noted.explain()
    assert noted.to_dict()["notes"] == ["It rests on 64 images."]
    assert noted.to_dict()["basis"] == "rehearsal"


def test_plain_values_name_what_they_are_about() -> None:
    content = kr.plan(released_h8("FC"), 0.003).to_dict()
    named = [content[name] for name in ("model", "unit", "basis", "target", "doubt", "trust")]
    assert named == ["FC", "error", "pilot", 0.003, "", None]
    assert list(content["samples"]) == [f"{p:g}" for p in (0.5, *LEVELS)]


def test_values_of_arrays_are_compared_by_identity() -> None:
    odds = Chances(np.array([2.0, 4.0]), np.array([0.1, 0.9]))
    for value in (odds, kr.plan(PILOT, 0.02), kr.forecast(PILOT)):
        assert value != dataclasses.replace(value)
        assert isinstance(hash(value), int)


# Modules are imported inside the test, so that what runs on import belongs to it.


@pytest.mark.parametrize("package", ["korisk.theory", "korisk.curves", "korisk.planning"])
def test_every_dataclass_is_frozen(package: str) -> None:
    root = importlib.import_module(package)
    count = 0
    for info in pkgutil.walk_packages(root.__path__, f"{package}."):
        module = importlib.import_module(info.name)
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == info.name and "__dataclass_params__" in vars(kind):
                count += 1
                assert vars(kind)["__dataclass_params__"].frozen, f"{info.name}.{name}"
    assert count > 3


@pytest.mark.parametrize(
    "method", [kr.Plan.samples, kr.Plan.recommend, kr.Plan.require, kr.Plan.explain, kr.Plan.lines]
)
def test_answers_are_90_percent_sure_unless_asked_otherwise(method: Any) -> None:
    assert inspect.signature(method).parameters["sure"].default == 0.9
