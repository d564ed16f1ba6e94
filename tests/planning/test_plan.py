"""Plans: what they answer, and the laws that every pilot keeps, in every unit."""

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import korisk as kr
from korisk.planning.recommend import LEVELS
from pilots import FC_128, KO_128, N_128, power_pilot, released_h8, scaled

DENSE = kr.Curve(N_128[:4], FC_128[:4], model="FC")
SIZES = (16, 32, 64, 128, 256)
ALL = (0.5, *LEVELS, 0.99)
UNITS = ("error", "rmse", "psnr", "db", "accuracy", "percent", "ssim", "r2", "negated")
settled = settings(max_examples=settings().max_examples // 4)  # of half a second each


def infinite(n: float | None) -> float:
    return math.inf if n is None else n


def test_the_dense_pilot_at_h_128_holds_what_was_measured_beyond() -> None:
    """The released sweep reached 0.04753 at N = 2048; the pilot stops at 0.0701, N = 256."""
    plan = kr.plan(DENSE, 0.0475)
    assert plan.lower <= 2048 <= plan.upper
    assert plan.forecast.at(2048).value == pytest.approx(FC_128[-1], rel=0.2)


@pytest.mark.parametrize("factor", [1e-20, 0.37, 1e20])
def test_scaling_errors_and_target_leaves_n(factor: float) -> None:
    curve = released_h8("FC")
    plain, other = kr.plan(curve, 0.006), kr.plan(scaled(curve, factor), 0.006 * factor)
    first, second = ([*map(plan.samples, ALL), *plan.interval] for plan in (plain, other))
    assert list(map(infinite, second)) == pytest.approx(list(map(infinite, first)), rel=0.01, abs=1)
    assert other.reach == pytest.approx(plain.reach, abs=1e-4)


def test_permuting_seeds_changes_nothing() -> None:
    curve = released_h8("FC")
    order = np.random.default_rng(0).permutation(len(curve))
    names = {"1": "5", "2": "1", "3": "4", "4": "2", "5": "3"}
    seeds = [names[curve.seed[row]] for row in order]
    other = kr.Curve(curve.n[order], curve.error[order], seeds, "FC", "MSE")
    first, second = (kr.plan(c, 0.003).to_dict() for c in (curve, other))
    for content in (first, second):  # these name the outlying seed
        del content["findings"], content["explanation"]
    assert first == second


def test_more_of_the_same_curve_narrows_the_answer() -> None:
    """On average over ten noisy pilots: a single one may widen by a new point that disagrees."""
    sizes = (16, 32, 64, 128, 256, 512, 1024, 2048)
    widths = []
    for draw in range(10):
        curve = power_pilot(noise=0.05, sizes=sizes, draw=draw)
        bands = [kr.forecast(curve.up_to(last)).at(8192) for last in (128, 512, 2048)]
        widths.append([math.log(band.upper / band.lower) for band in bands])
    first, second, third = np.mean(widths, axis=0)
    assert first > second > third


@pytest.mark.parametrize("sizes", [6, 120])
def test_a_clean_power_law_gives_its_own_sample_size(sizes: int) -> None:
    """So does one of many sizes, which are merged."""
    n = np.unique(np.round(np.geomspace(16, 512, sizes))).astype(int)
    plan = kr.plan(kr.Curve(n, 0.02 + 0.5 * n**-0.5), 0.02 + 0.5 * 1500**-0.5)
    assert plan.even == pytest.approx(1500, rel=0.05)


def test_harder_targets_need_more() -> None:
    forecast = kr.forecast(power_pilot())
    plans = [forecast.plan(float(target)) for target in np.linspace(0.09, 0.036, 12)]
    counts = [infinite(plan.even) for plan in plans]
    assert math.isfinite(counts[7])
    assert counts == sorted(counts)
    assert all(a.reach >= b.reach - 1e-9 for a, b in pairwise(plans))


@pytest.mark.parametrize("last", [10**15, 10**15 // 3])
def test_at_the_largest_n_nothing_is_planned_for_beyond_it(last: int) -> None:
    sizes, rng = [last // 16, last // 8, last // 4, last // 2, last], np.random.default_rng(0)
    errors = (np.repeat(sizes, 2) / last) ** -0.5 * np.exp(0.1 * rng.standard_normal(10))
    forecast = kr.forecast(kr.Curve(np.repeat(sizes, 2), errors, seed=[1, 2] * 5, model="KO"))
    assert forecast.horizon == 10**15
    for factor in (1.2, 1.0, 0.999, 0.95, 0.6, 0.1):
        plan = forecast.plan(factor * float(forecast.evidence.means[-1]))
        advice = plan.recommend()
        assert max([advice.n or 2, *(plan.samples(p) or 2 for p in ALL)]) <= 10**15
        if advice.action == "measure":
            assert advice.n == 10**15 or (advice.n in sizes) == plan.met_in_pilot
        assert last < 10**15 or f"{2 * last:,}" not in plan.explain()


def test_a_target_out_of_reach_has_no_number() -> None:
    plan = kr.plan(kr.Curve(N_128, KO_128, model="KO"), 0.03)
    assert [plan.samples(p) for p in ALL] == [None] * 5
    assert plan.upper == math.inf
    assert plan.reach < 0.1
    # Means without seeds cannot tell a floor from noise; a longer run at hand may.
    assert (plan.recommend().action, plan.recommend().n) == ("unlikely", None)
    with pytest.raises(kr.errors.UnreachableError, match=r"KO: unlikely to reach .* N = 2,048"):
        plan.require()


def test_a_target_that_a_rise_undoes_is_not_met_before_it() -> None:
    plan = kr.plan(kr.Curve([8, 16, 32, 64, 128], [0.5, 0.3, 0.45, 0.25, 0.2]), 0.35)
    assert plan.even is not None
    assert plan.even > 32
    assert plan.lower >= 32


def test_probabilities_jump_nowhere_between_sizes_of_the_table() -> None:
    """Except where neighbours are one apart: a curve that is known well has steep chances."""
    table = kr.plan(power_pilot(noise=0.002), 0.035).chances
    assert np.diff(table.p)[np.diff(table.n) > 1].max() < 0.1
    assert (np.diff(table.p) >= 0).all()
    assert (table.p[0], table.p[-1]) == pytest.approx((0, 1), abs=0.05)


@pytest.mark.parametrize("metric", ["mse", "error rate", "loss", ""])
def test_a_power_law_is_not_bent_into_a_floor(metric: str) -> None:
    """Met at four times the pilot in truth: a fair chance there, and an N with 90% exists."""
    chances, sure = [], []
    for draw, rate in enumerate(np.linspace(0.3, 0.7, 6)):
        noisy = power_pilot(0.0, 1.0, float(rate), sizes=SIZES, draw=draw)
        curve = kr.Curve(noisy.n, noisy.error, noisy.seed, metric=metric)
        plan = kr.plan(curve, float(1024**-rate))
        chances.append(plan.probability(1024))
        sure.append(plan.samples(0.9) is not None)
    assert np.mean(chances) >= 0.25
    # The odds of squared errors are careful: an N called 90% sure was enough too rarely.
    assert np.mean(sure) >= (0.3 if metric == "mse" else 0.5)


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0, -1, math.nan, math.inf, "low", None, True])
def test_targets_that_are_none_are_refused(target: Any) -> None:
    with pytest.raises(kr.KoriskError, match="target"):
        kr.plan(DENSE, target)


@pytest.mark.parametrize("targets", [[0.04, 0.03], (0.04, 0.03), np.array([0.04, 0.03])])
def test_several_targets_at_once_are_refused_with_a_remedy(targets: Any) -> None:
    with pytest.raises(kr.KoriskError, match="one target at a time"):
        kr.plan(DENSE, targets)


@pytest.mark.parametrize("curve", [None, 5, "pilot.csv"])
def test_what_is_no_curve_is_refused(curve: Any) -> None:
    for ask in (
        lambda: kr.plan(curve, 0.1),
        lambda: kr.planning.calibrate(curve),
        lambda: kr.forecast(curve),
        lambda: kr.compare(DENSE, curve, 0.1),
    ):
        with pytest.raises(kr.KoriskError, match="must be a Curve"):
            ask()


def test_two_sizes_are_too_few() -> None:
    for ask in (kr.forecast, lambda curve: kr.plan(curve, 0.05)):
        with pytest.raises(kr.KoriskError, match="at least 3 distinct N"):
            ask(kr.Curve([4, 16], [0.2, 0.1]))


# --- Laws of every pilot -------------------------------------------------------------------------


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(
        st.tuples(st.integers(2, 10**6), st.floats(1e-90, 1e90), st.integers(0, 3)),
        min_size=1,
        max_size=14,
        unique_by=lambda row: (row[0], row[2]),
    ),
    st.floats(0.1, 3.0) | st.floats(1e-90, 1e90),
)
def test_any_pilot_keeps_the_laws_of_odds_or_is_refused(
    rows: list[tuple[int, float, int]], factor: float
) -> None:
    """The band holds the means, samples(p) has p by `probability`, and JSON has the same."""
    n, errors, seeds = zip(*rows, strict=True)
    try:
        plan = kr.plan(kr.Curve(n, errors, seeds), factor * errors[-1])
    except kr.KoriskError:
        return
    forecast, curve = plan.forecast, plan.forecast.evidence
    low, high = (forecast.quantile(curve.sizes, p) for p in (0.05, 0.95))
    assert ((low <= curve.means * (1 + 1e-9)) & (curve.means <= high * (1 + 1e-9))).mean() >= 0.9
    keeps_the_laws(plan)


def keeps_the_laws(plan: kr.Plan) -> None:
    counts = [infinite(n) for n in map(plan.samples, ALL)]
    assert counts == sorted(counts)
    for level, n in zip(ALL, counts, strict=True):
        if math.isfinite(n):
            assert plan.probability(n) >= level
            assert n == plan.chances.n[0] or plan.probability(n - 1) < level
        else:
            assert plan.doubt or plan.reach < level
    assert 0 <= plan.reach <= 1 or (plan.doubt and math.isnan(plan.reach))
    assert plan.lower <= infinite(plan.even) or plan.even is None
    assert infinite(plan.samples(0.95)) == plan.upper >= plan.lower
    if not plan.doubt and math.isfinite(plan.lower):
        assert plan.probability(plan.lower) <= 0.05 or plan.lower == plan.chances.n[0]
        assert plan.probability(plan.lower + 1) >= 0.05
    elif not plan.doubt:
        assert plan.reach < 0.05
    if plan.between is not None:  # the means stay below the target
        curve = plan.forecast.evidence
        assert (curve.means[curve.sizes >= plan.between[1]] <= plan.goal).all()
    content = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert content["samples"] == {f"{p:g}": plan.samples(p) for p in (0.5, *LEVELS)}
    assert content["explanation"] == plan.explain() != ""


def curve_of(unit: str, draw: int, seeds: int = 3) -> kr.Curve:
    """A pilot in a user's unit: a noisy power law of errors above a floor."""
    rng = np.random.default_rng(draw)
    floor, rate = 0.02 * rng.random(), rng.uniform(0.2, 0.9)
    errors = (floor + 0.5 * (np.array(SIZES) / SIZES[0]) ** -rate)[:, None]
    errors = errors * np.exp(0.05 * rng.standard_normal((len(SIZES), seeds)))
    value = kr.curves.UNITS[unit].from_error(errors.ravel())
    return kr.Curve(np.repeat(SIZES, seeds), value, [*range(seeds)] * 5, "net", unit=unit)


def target_of(curve: kr.Curve, factor: float) -> float:
    """The value whose error is the factor of the pilot's last one."""
    return float(curve.unit.from_error(factor * curve.means[-1]))


pilots = st.builds(
    curve_of, st.sampled_from(UNITS), st.integers(0, 200), seeds=st.sampled_from([1, 3])
)


@settled
@given(pilots, st.floats(0.3, 2.5), st.floats(0.2, 0.9))
def test_samples_grow_with_the_level_and_with_how_hard_the_target_is(
    curve: kr.Curve, factor: float, harder: float
) -> None:
    forecast = kr.forecast(curve)
    easy, hard = (forecast.plan(target_of(curve, part)) for part in (factor, harder * factor))
    for plan in (easy, hard):
        keeps_the_laws(plan)
    assert all(infinite(easy.samples(p)) <= infinite(hard.samples(p)) for p in ALL)


@pytest.mark.parametrize("unit", ["rmse", "psnr", "accuracy"])
def test_forecast_plan_and_pilot_agree_to_the_digit(unit: str) -> None:
    curve = curve_of(unit, draw=1)
    values = curve.unit.from_error(curve.error).tolist()
    value = dict(zip(zip(curve.n.tolist(), curve.seed, strict=True), values, strict=True))
    pilot = kr.run_pilot(
        lambda n, seed: {"value": value[n, str(seed)]}, SIZES, seeds=range(3), unit=unit, quiet=True
    )
    for factor in (1.5, 0.6):
        target = target_of(pilot.curve, factor)
        plan = kr.plan(pilot.curve, target)
        for forecast in (kr.forecast(pilot.curve), pilot.forecast()):
            same = forecast.plan(target)
            assert [same.samples(p) for p in ALL] == [plan.samples(p) for p in ALL]
            assert same.recommend(0.8) == plan.recommend(0.8)
            for n in (20, 512, 4000):
                assert same.probability(n) == plan.probability(n)
                assert forecast.at(n) == plan.forecast.at(n)


@pytest.mark.parametrize("units", [("rmse", "psnr"), ("accuracy", "percent", "dice")])
@pytest.mark.parametrize("factor", [0.8, 0.3])
def test_a_unit_changes_no_answer(units: tuple[str, ...], factor: float) -> None:
    """The same errors in units of one family: the same N and the same odds."""
    answers = []
    for unit in units:
        curve = curve_of(unit, draw=2)
        advice = kr.plan(curve, target_of(curve, factor)).recommend()
        ends = (advice.n, advice.even, advice.lower, advice.upper)
        answers.append((advice.action, [infinite(n) for n in ends]))
    for action, numbers in answers[1:]:
        assert action == answers[0][0]
        assert numbers == pytest.approx(answers[0][1], rel=1e-6, abs=1)
