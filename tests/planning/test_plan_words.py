"""What a plan says, for given numbers: every branch of its sentences, at its thresholds."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.curves.noise import ROUNDING
from korisk.errors import UnreachableError
from korisk.planning.chances import Chances
from korisk.planning.explain import ANSWERS, FAR, chance
from korisk.planning.extrapolation import Extrapolation, Measured
from korisk.planning.plan import LEVELS, plan_from

SIZES, MEANS = [10, 25, 50, 100], [0.4, 0.2, 0.1, 0.05]
PILOT = kr.Curve(SIZES, MEANS, model="KO")


class Bare(Extrapolation):
    """A forecast without a posterior: doubt, horizon and floor are given."""

    doubt = ""
    horizon = 1_000_000
    relatives = None

    @property
    def measured(self) -> Measured:
        """The pilot's means with a deviation of 2%."""
        return Measured(self.curve, 0.02)


def odds(even: float, reach: float = 0.99) -> Chances:
    """Odds that pass one half at N, and 90% at twice that."""
    levels = np.array([0.0, 0.04, 0.5, 0.9, 0.99]) * reach / 0.99
    return Chances(np.array([10.0, even / 2, even, 2 * even, 1e6]), levels)


def planned(goal: float = 0.02, floor: float = 0.0, **values: Any) -> kr.Plan:
    forecast = Bare(values.pop("curve", PILOT), values.pop("fit", "posterior"))
    for name in ("doubt", "horizon", "related", "relatives"):
        if name in values:
            object.__setattr__(forecast, name, values.pop(name))
    forecast.__dict__["floor"] = floor
    fields: dict[str, Any] = {"middle": 400, "lower": 300.0, "upper": 900.0, "reach": 0.99}
    fields |= {"chances": odds(400)}
    return kr.Plan(forecast, goal, goal, **fields | values)


def filled(name: str, **values: str) -> str:
    """A template with the fields of these plans."""
    fields = {"start": "KO", "model": "KO", "whose": " of KO", "target": "0.02", "samples": "400"}
    fields |= {"chance": "50%", "lower": "300", "upper": "900", "safe": "800", "reach": "99%"}
    fields |= {"anywhere": "at any N", "horizon": "1,000,000", "most": "at most 99%"}
    fields |= {"far": "4 times the pilot's largest N of 100"}
    return ANSWERS[name].format(**fields | values)


@pytest.mark.parametrize(
    ("samples", "far"),
    [
        (101, "little more than"),
        (109, "little more than"),
        (110, "1.1 times"),
        (250, "2.5 times"),
        (1234, "12 times"),
    ],
)
def test_the_distance_from_the_pilot_is_told(samples: int, far: str) -> None:
    said = planned(middle=samples, chances=odds(samples)).headline()
    far = f"{far} the pilot's largest N of 100"
    assert said == filled("beyond", samples=f"{samples:,}", far=far)


@pytest.mark.parametrize(("samples", "far"), [(FAR * 100, False), (FAR * 100 + 1, True)])
def test_far_out_only_the_order_means_much(samples: int, far: bool) -> None:
    said = planned(middle=samples, chances=odds(samples)).headline()
    assert FAR == 64
    assert ("order of magnitude" in said) == far


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ({}, ["about 400 samples (chance 50%), 4 times the pilot", "300 to 900", "800 samples"]),
        ({"upper": math.inf}, ["95% probability it takes at least 300"]),
        ({"reach": 0.94}, ["about 400 samples (chance 50%)", "if the target is", "at most 94%"]),
        ({"reach": 0.49}, ["probably does not reach", "at most 49%", "about 400", "is 50%"]),
        ({"chances": odds(400, 0.8), "reach": 0.97}, ["No amount of data gives 90%", "97%"]),
        ({"middle": None, "reach": 0.3}, ["not known", "single seed", "1,000,000 is 30%"]),
        ({"goal": 0.15, "middle": 40, "chances": odds(40)},
         ["measured means of KO", "between N = 25 and 50, at about 40 (chance 50%)"]),
        ({"goal": 0.5, "middle": 10, "chances": odds(10)}, ["smallest N = 10 (chance 50%)"]),
    ],
)  # fmt: skip
def test_every_number_is_told_with_its_odds_and_its_condition(
    values: dict[str, Any], facts: list[str]
) -> None:
    said = planned(**values).brief()
    for fact in facts:
        assert fact in said


def test_the_reach_is_a_condition_where_it_is_below_95_percent() -> None:
    assert planned(reach=0.95).headline() == filled("beyond")
    assert planned(reach=0.94).headline() == filled("if_reachable", reach="94%")
    assert planned(reach=0.5).headline() == filled("if_reachable", reach="50%")
    assert planned(reach=0.49).headline() == filled("unlikely", reach="49%")
    bare = planned(reach=0.94, curve=kr.Curve(SIZES, MEANS))
    names = {"start": "The model", "model": "the model"}
    assert bare.headline() == filled("if_reachable", reach="94%", **names)
    unlikely = replace(bare, reach=0.49).headline()
    assert unlikely == filled("unlikely", reach="49%", **names)


def test_inside_the_pilot_the_means_answer() -> None:
    inside = planned(0.15, middle=40, chances=odds(40))
    ends = {"before": "25", "after": "50"}
    text = filled("inside", target="0.15", samples="40", **ends)
    assert inside.headline() == text
    bare = planned(0.15, middle=40, chances=odds(40), curve=kr.Curve(SIZES, MEANS))
    assert bare.headline() == filled("inside", target="0.15", samples="40", whose="", **ends)
    for by_fit in (
        planned(0.15, middle=40, chances=odds(40), fit="paper"),
        planned(0.02, middle=100, chances=odds(100), fit="paper"),
    ):
        said = by_fit.headline()
        assert said.startswith("By fit 'paper', KO meets the target 0.")
        assert f"inside the pilot, at about N = {by_fit.middle} (chance 50%)" in said
    smallest = planned(0.5, middle=10, chances=odds(10)).headline()
    assert "KO meets the target 0.5 already at the pilot's smallest N = 10" in smallest


@pytest.mark.parametrize(
    ("values", "templates"),
    [
        ({}, ["beyond", "interval", "safe"]),
        ({"upper": math.inf}, ["beyond", "at_least", "safe"]),
        ({"lower": math.inf, "upper": math.inf}, ["beyond", "safe"]),
        ({"middle": 800, "chances": odds(400)}, ["beyond", "interval"]),
        ({"chances": odds(400, 0.8), "reach": 0.97}, ["beyond", "interval", "unsafe"]),
        ({"middle": None}, ["not_known"]),
        ({"middle": None, "fit": "paper"}, ["unreachable"]),
    ],
)
def test_a_brief_answer_has_its_interval_and_the_safe_number(
    values: dict[str, Any], templates: list[str]
) -> None:
    plan = planned(**values)
    samples = plan.middle or 0
    fields = {
        "samples": f"{samples:,}",
        "chance": chance(plan.chance),
        "reach": chance(plan.reach),
        "most": f"at most {chance(plan.reach)}",
        "far": f"{samples / 100:.2g} times the pilot's largest N of 100",
        "why": "most sizes have a single seed, which cannot tell a floor from noise",
    }
    assert plan.brief() == " ".join(filled(name, **fields) for name in templates)


def test_a_brief_answer_at_the_smallest_size_or_in_doubt() -> None:
    smallest = planned(0.5, middle=10, chances=odds(10)).brief()
    fields = {"target": "0.5", "samples": "10"}
    assert smallest == f"{filled('smallest', **fields)} {filled('safe', safe='20')}"
    assert planned(doubt="It rises.", middle=None).brief() == "It rises."
    assert planned(doubt="It rises.").brief() == "It rises."
    inside = planned(0.15, doubt="It rises.", middle=40, chances=odds(40, 0.8), reach=0.902)
    assert inside.brief().endswith(filled("unsafe_inside", most="just below 90%"))


def test_enough_is_told_for_every_level() -> None:
    assert planned().enough(0.9).startswith("800 samples are enough with 90%")
    assert planned().enough(0.5).startswith("400 samples are enough with 50%")
    assert "92.5%" in planned(doubt="It rises.").enough(0.925)
    unsafe = planned(chances=odds(400, 0.8), reach=0.8)
    said = unsafe.enough(0.9)
    assert "at most 80%" in said
    assert "levels off above the target" in said
    near = unsafe.near_horizon
    assert f"by N = {near:,} (chance {chance(unsafe.probability(near))})" in said
    assert f"{unsafe.if_reached(0.9):,} samples are enough with 90% probability." in said
    just = planned(chances=odds(400, 0.898), reach=0.898).enough(0.9)
    assert "just below 90%" in just
    capped = planned(chances=odds(400, 0.8), reach=0.8, horizon=LARGEST_N).enough(0.9)
    assert f"up to N = {LARGEST_N:,}" in capped
    assert "levels off" not in capped
    by_fit = planned(chances=odds(400, 0.8), reach=0.8, fit="paper").enough(0.9)
    assert "If the target is reachable" not in by_fit
    score = kr.Curve(SIZES, [0.6, 0.8, 0.9, 0.95], unit="accuracy")
    better = planned(chances=odds(400, 0.8), reach=0.8, curve=score).enough(0.9)
    assert "levels off below the target" in better
    inside = planned(0.15, doubt="It rises.", chances=odds(40, 0.8), reach=0.8).enough(0.9)
    assert inside.startswith("No N inside the pilot gives 90%; at most 80%")
    assert inside.endswith("It rises.")


def test_without_a_number_the_reason_is_told() -> None:
    doubt = planned(doubt="It rises.", middle=None).headline()
    assert doubt.endswith("can be given. It rises.")
    assert planned(middle=None).headline() == filled(
        "not_known", why="most sizes have a single seed, which cannot tell a floor from noise"
    )
    seeded = kr.Curve(
        np.repeat(SIZES, 2), np.repeat([0.4, 0.2, 0.15, 0.14], 2) * np.tile([0.999, 1.001], 4),
        ["1", "2"] * 4, "KO",
    )  # fmt: skip
    for floor, reason in ((0.13, "levels off at about 0.13"), (0.01, "improves too slowly")):
        shown = planned(0.1, floor, middle=None, curve=seeded, reach=0.05).headline()
        assert f"the error of KO {reason}, and" in shown
        assert "by N = 1,000,000 is 5%" in shown
        capped = planned(0.1, floor, middle=None, curve=seeded, reach=0.05, horizon=LARGEST_N)
        slow = f"probably not met up to N = {LARGEST_N:,}"
        assert (slow in capped.headline()) == (floor < 0.1)
        assert ("(chance 5%)" in capped.headline()) == (floor < 0.1)
    for floor, reason in (
        (0.02, "levels off at 0.02"),
        (0.01, "does not get there by N = 1,000,000"),
    ):
        by_fit = planned(0.02, floor, middle=None, fit="paper", reach=0.3).headline()
        assert f"By fit 'paper' the target 0.02 is not reachable: its curve {reason}." in by_fit
        assert by_fit.endswith("is 30%.")
    met = planned(0.15, 0.2, middle=None, fit="paper").headline()
    assert met.endswith("The measured means meet it inside the pilot: use the default fit.")
    hinted = planned(0.001, 0.0, middle=None).headline()
    assert hinted.endswith("was the target given as a fraction of one? then ask for 0.1.")
    assert "The pilot runs from 0.05 to 0.4" in hinted


def test_an_explanation_has_what_the_advice_leaves_out() -> None:
    said = planned().explain()
    assert said.startswith("KO: collect 800 samples")
    assert filled("interval") in said
    assert "samples are enough" not in said, "that is the advice"
    stop = planned(chances=odds(400, 0.8), reach=0.8)
    assert stop.recommend().action != "collect"
    assert stop.enough(0.9) in stop.explain()
    by_fit = planned(fit="paper").explain()
    assert filled("interval") in by_fit
    assert "The chances and the interval are those of the default fit." in by_fit
    assert "default fit" not in said
    none = planned(middle=None, fit="paper").explain()
    assert "The chances are" not in none


@pytest.mark.parametrize(("trust", "verb"), [(0.0099, "disagree with"), (0.01, "explain")])
def test_related_curves_are_told_with_their_trust_and_their_effect(trust: float, verb: str) -> None:
    related = (kr.Curve(SIZES, MEANS, model="sim"), kr.Curve(SIZES, MEANS))
    relatives = SimpleNamespace(trust=trust)
    plan = planned(related=related, relatives=relatives)
    assert plan.trust == trust
    for alone, effect in (
        (planned(), " and do not change the answer."),
        (planned(middle=None, reach=0.3), ": without them there would be no number (chance to "
         "reach it 30%)."),
        (planned(middle=800), ": without them the answer would be about 800 (chance 90%)."),
        (planned(chances=odds(400, 0.9)), ": without them the answer would be about 400 (chance "
         "45%)."),
    ):  # fmt: skip
        plan.__dict__["alone"] = alone
        how = f'Related curves ("sim") {verb} the pilot (trust {chance(trust)})'
        assert how + effect in plan.explain()
    nameless = planned(related=related[1:], relatives=relatives)
    nameless.__dict__["alone"] = planned()
    assert "Related curves explain" in nameless.explain() or trust < 0.01
    doubtful = planned(related=related, relatives=relatives, doubt="It rises.")
    assert doubtful.trust == 0
    assert "are not used." in doubtful.explain()
    unusable = planned(related=related)
    assert unusable.trust == 0
    assert "cannot be extrapolated and are not used." in unusable.explain()
    assert planned().trust is None
    assert planned().alone == planned()


def test_plain_values_have_every_level_and_the_condition() -> None:
    plan = planned()
    content = plan.to_dict()
    assert LEVELS == (0.8, 0.9, 0.95)
    assert content["samples"] == {f"{p:g}": plan.samples(p) for p in (0.5, 0.8, 0.9, 0.95)}
    by = plan.near_horizon
    levels = {f"{p:g}": plan.if_reached(p) for p in LEVELS}
    assert content["if_reached"] == {"by": by, "chance": plan.chances.at(by), **levels}
    assert content["reach"] == 0.99
    assert content["inside"] is False
    none = planned(middle=None, reach=math.nan).to_dict()
    assert none["reach"] is None
    assert none["if_reached"] is None
    assert plan.require(0.9) == 800
    with pytest.raises(UnreachableError):
        planned(chances=odds(400, 0.8), reach=0.8).require(0.9)


def test_a_target_below_rounding_has_no_number() -> None:
    forecast = kr.forecast(PILOT)
    edge = ROUNDING * 0.4
    below = plan_from(forecast, 0.99 * edge)
    assert (below.middle, below.lower, below.upper) == (None, math.inf, math.inf)
    assert math.isnan(below.reach)
    assert not below.chances.p.any()
    assert math.isfinite(plan_from(forecast, edge).reach)


def test_a_pilot_without_learning_answers_inside_and_not_beyond() -> None:
    flat = kr.Curve(SIZES, [0.0505, 0.0504, 0.0503, 0.05], model="KO")
    inside = kr.plan(flat, 0.05)
    assert inside.middle is not None
    assert inside.middle <= 100
    assert kr.plan(flat, 0.0499).middle is None
    rising = kr.plan(kr.Curve(SIZES, [0.05, 0.06, 0.08, 0.2], model="KO"), 0.1)
    assert (rising.middle, rising.lower, rising.upper) == (None, 100, math.inf)
    assert math.isnan(rising.reach)
