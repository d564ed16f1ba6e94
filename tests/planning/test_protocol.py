"""One protocol of answers: forecasts, plans and pilots say the same, in every unit."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import korisk as kr
from korisk.planning.answer import comparison_tables

EXAMPLE = Path(__file__).parents[2] / "examples" / "pilot_h8.csv"
SIZES = (16, 32, 64, 128, 256)
SURE = (0.5, 0.7, 0.9, 0.95, 0.99)
UNITS = ("error", "rmse", "psnr", "db", "accuracy", "percent", "ssim", "r2", "negated")


def records(unit: str, draw: int, *, seeds: int = 3, noise: float = 0.05) -> dict[str, list[float]]:
    """A pilot in a user's unit: a noisy power law of errors above a floor."""
    rng = np.random.default_rng(draw)
    floor, rate = 0.02 * rng.random(), rng.uniform(0.2, 0.9)
    errors = (floor + 0.5 * (np.array(SIZES) / SIZES[0]) ** -rate)[:, None]
    errors = errors * np.exp(noise * rng.standard_normal((len(SIZES), seeds)))
    return {
        "n": np.repeat(SIZES, seeds).tolist(),
        "value": kr.curves.UNITS[unit].from_error(errors.ravel()).tolist(),
        "seed": [*range(seeds)] * len(SIZES),
    }


def curve_of(unit: str, draw: int, **options: float) -> kr.Curve:
    table = records(unit, draw, **options)  # type: ignore[arg-type]
    return kr.Curve(table["n"], table["value"], table["seed"], "net", unit=unit)


def target_of(curve: kr.Curve, factor: float) -> float:
    """The value whose error is the factor of the pilot's last one."""
    return float(curve.unit.from_error(factor * curve.means[-1]))


def infinite(n: float | None) -> float:
    return math.inf if n is None else n


pilots = st.builds(
    curve_of, st.sampled_from(UNITS), st.integers(0, 200), seeds=st.sampled_from([1, 3])
)
LONGER = kr.planning.Longer(n=128, factor=3, errors=[0.02, 0.02], before=[0.09, 0.07])
settled = settings(max_examples=settings().max_examples // 4)  # of half a second each


@settled
@given(pilots, st.floats(0.3, 2.5), st.floats(0.2, 0.9))
def test_samples_grow_with_the_level_and_with_how_hard_the_target_is(
    curve: kr.Curve, factor: float, harder: float
) -> None:
    made = kr.forecast(curve)
    counts = [
        [infinite(n) for n in map(made.plan(target_of(curve, part)).samples, SURE)]
        for part in (factor, harder * factor)
    ]
    for row in counts:
        assert row == sorted(row)
    assert all(easy <= hard for easy, hard in zip(*counts, strict=True))


@settled
@given(pilots, st.floats(0.3, 2.5))
def test_samples_have_the_probability_they_were_asked_for(curve: kr.Curve, factor: float) -> None:
    made, target = kr.forecast(curve), target_of(curve, factor)
    for sure in (0.5, 0.9, 0.95):
        n = made.samples(target, sure)
        if n is None:
            assert made.probability(made.horizon, target) < sure
        else:
            assert made.probability(n, target) >= sure
            assert n == curve.sizes[0] or made.probability(n - 1, target) < sure


@settled
@given(pilots, st.floats(0.3, 2.5))
def test_an_interval_holds_even_odds_and_is_that_of_the_law(curve: kr.Curve, factor: float) -> None:
    plan = kr.plan(curve, target_of(curve, factor))
    if plan.even is not None:
        assert plan.lower <= plan.even <= infinite(plan.samples()) <= plan.upper
    assert plan.upper == infinite(plan.samples(0.95))
    if math.isfinite(plan.lower):
        assert plan.probability(plan.lower) <= 0.05 or plan.lower == curve.sizes[0]
        assert plan.probability(plan.lower + 1) >= 0.05
    else:
        assert plan.reach < 0.05
    if plan.between is not None:  # beside which the law may end, and which have measured means
        after = int(np.searchsorted(curve.sizes, plan.between[1]))
        assert (curve.means[after:] <= plan.goal).all()


@pytest.mark.parametrize("unit", ["rmse", "psnr", "accuracy"])
def test_forecast_plan_and_pilot_agree_to_the_digit(unit: str) -> None:
    table = records(unit, draw=1)
    rows = zip(table["n"], table["value"], table["seed"], strict=True)
    value = {(n, seed): number for n, number, seed in rows}
    pilot = kr.run_pilot(
        lambda n, seed: {"value": value[n, seed]}, SIZES, seeds=range(3), unit=unit, quiet=True
    )
    curve = pilot.curve
    forecast = kr.forecast(curve)
    for factor in (1.5, 0.6):
        target = target_of(curve, factor)
        plan = kr.plan(curve, target)
        for answers in (forecast, pilot):
            assert answers.samples(target) == plan.samples()
            assert answers.samples(target, sure=0.8) == plan.samples(0.8)
            for n in (20, 512, 4000):
                assert answers.probability(n, target) == plan.probability(n)
                assert answers.at(n) == plan.at(n)
            advice = answers.recommend(target, sure=0.8, cost=3)
            assert advice == plan.recommend(0.8, 3)
            assert advice.to_dict() == plan.recommend(0.8, 3).to_dict()
        assert plan.to_dict()["samples"]["0.9"] == plan.samples(0.9)
        assert plan.to_dict()["recommendation"] == plan.recommend().to_dict()


@pytest.mark.parametrize("units", [("rmse", "psnr"), ("accuracy", "percent", "dice")])
def test_a_unit_changes_no_answer(units: tuple[str, ...]) -> None:
    """The same errors in units of one family: the same N and the same odds."""
    for factor in (0.8, 0.3):
        told = []
        for unit in units:
            curve = curve_of(unit, draw=2)
            advice = kr.plan(curve, target_of(curve, factor)).recommend()
            ends = (advice.n, advice.even, advice.lower, advice.upper)
            told.append((advice.action, [infinite(n) for n in ends]))
        for action, numbers in told[1:]:
            assert action == told[0][0]
            assert numbers == pytest.approx(told[0][1], rel=1e-6, abs=1)


@settled
@given(pilots, st.floats(0.05, 2.5), st.sampled_from(SURE), st.floats(0.01, 100))
def test_advice_is_one_action_with_one_number_and_its_price(
    curve: kr.Curve, factor: float, sure: float, price: float
) -> None:
    plan = kr.plan(curve, target_of(curve, factor))
    advice = plan.recommend(sure, price)
    assert (advice.n is not None) == (advice.action in ("collect", "measure"))
    assert (advice.seeds is not None) == (advice.action == "measure")
    assert str(advice) == advice.sentence
    if advice.n is not None:
        assert f"{advice.n:,}" in advice.sentence
        assert advice.cost == price * max(advice.n - plan.last, 0)
    if advice.action == "collect":
        assert advice.n == plan.samples(sure)
        assert advice.chance == plan.probability(advice.n or 2) >= sure
    elif advice.action == "measure":
        assert plan.met_in_pilot or plan.last < (advice.n or 0)
    else:
        assert advice.cost is None
    if advice.action in ("measure", "unknown", "stop", "train"):
        assert advice.reasons  # what stands against a number of samples
    assert plan.explain(sure, price).startswith(advice.sentence)


def test_levels_are_asked_in_order_of_how_sure_one_can_be() -> None:
    """An advice that no N fulfils at one level is not to collect at a higher one."""
    curve = curve_of("error", draw=3)
    for factor in np.geomspace(1.2, 0.2, 8):
        plan = kr.plan(curve, target_of(curve, float(factor)))
        collects = [plan.recommend(sure).action == "collect" for sure in SURE]
        assert all(before >= after for before, after in pairwise(collects))


@pytest.mark.parametrize("longer", [None, LONGER])
@pytest.mark.parametrize("target", [0.081, 0.085, 0.0905])
def test_a_target_that_the_pilot_meets_is_measured_again_whatever_limits_it(
    target: float, longer: kr.planning.Longer | None
) -> None:
    n, seeds = np.repeat([16, 32, 64, 128], 2), [1, 2] * 4
    flat = kr.Curve(n, [0.10, 0.08, 0.09, 0.08, 0.085, 0.095, 0.09, 0.07], seed=seeds)
    made = kr.plan(flat, target, longer=longer)
    advice = made.recommend()
    assert made.met_in_pilot
    assert made.samples() is None
    assert (advice.action, advice.seeds) == ("measure", 4)
    assert advice.n == (made.between or (16, 16))[1]
    assert made.recommend(sure=0.5).action == "collect"


def test_another_fit_has_its_own_number_beside_the_advice_of_the_default() -> None:
    n = np.array([16, 32, 64, 128, 256])
    falls = n**-0.5
    ko, fc = kr.Curve(n, 0.3 * falls + 0.01, model="KO"), kr.Curve(n, falls + 0.01, model="FC")
    ours, lines = kr.compare(ko, fc, 0.08), kr.compare(ko, fc, 0.08, fit="paper")
    assert lines.first.recommend() == ours.first.recommend()
    numbers = lines.first.middle, lines.second.middle
    assert numbers[0]
    assert numbers[1]
    assert lines.numbers == numbers
    assert lines.ratio == numbers[1] / numbers[0] != ours.ratio
    assert "by fit 'paper'" in lines.saving()
    (table,) = comparison_tables(lines)
    cell = dict(zip(table.heads, table.rows[1], strict=True))["by fit"]
    assert cell == f"{numbers[1]:,}"


@pytest.mark.parametrize("target", [0.0022, 0.0028])
def test_the_advice_to_measure_says_what_the_next_size_does_reach(
    target: float,
) -> None:
    pilot = kr.Curve.read(EXAMPLE, model="KO" if target < 0.0025 else "FC")
    plan = kr.plan(pilot, target)
    for sure in (0.8, 0.9):
        advice = plan.recommend(sure)
        there = [said for said in advice.reasons if said.startswith("What N =")]
        assert len(there) == (advice.action == "measure")
        for said in there:
            reached = float(said.split(" is ")[1].split()[0])
            assert kr.plan(pilot, reached).probability(advice.n or 2) == pytest.approx(sure, 0.01)
    assert ("What N =" in plan.explain()) == (target < 0.0025)
