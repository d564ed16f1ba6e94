"""Plans: what they answer, the laws they keep, and how they are read off their chances."""

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import korisk as kr
from korisk.planning import chances
from korisk.planning import plan as planning
from korisk.planning.forecast import Forecast
from korisk.planning.futures.posterior import HORIZON, MOST_SIZES, ROUGHEST
from korisk.planning.plan import LEVELS
from pilots import FC_128, KO_128, N_128, power_pilot, released_h8, scaled

Array = NDArray[np.float64]
N = np.array([16, 32, 64, 128, 256])
PAGE = Path(__file__).parents[2] / "docs/explanation/planner.md"
DENSE = kr.Curve(N_128[:4], FC_128[:4], model="FC")


def test_the_dense_pilot_at_h_128_has_an_answer_below_its_best_error() -> None:
    """The released sweep reached 0.04753 at N = 2048; the pilot stops at 0.0701, N = 256."""
    plan = kr.plan(DENSE, 0.0475)
    assert plan.middle is not None
    assert 1024 <= plan.middle <= 4096
    assert plan.lower <= 2048 <= plan.upper
    assert kr.plan(DENSE, 0.0475, fit="paper").middle is None
    assert plan.at(2048).value == pytest.approx(FC_128[-1], rel=0.2)


@pytest.mark.parametrize("fit", kr.planning.FITS)
@pytest.mark.parametrize("factor", [1e-20, 0.37, 1e20])
def test_scaling_errors_and_target_leaves_n(fit: str, factor: float) -> None:
    curve = released_h8("FC")
    plain = kr.plan(curve, 0.006, fit=fit)
    other = kr.plan(scaled(curve, factor), 0.006 * factor, fit=fit)
    mine, theirs = ([it.middle, it.lower, it.upper, it.samples(0.9)] for it in (plain, other))
    for first, second in zip(mine, theirs, strict=True):
        assert second == pytest.approx(first, rel=0.01, abs=1)
    assert other.reach == pytest.approx(plain.reach, abs=1e-4)


@pytest.mark.parametrize("fit", kr.planning.FITS)
def test_permuting_seeds_changes_nothing(fit: str) -> None:
    curve = released_h8("FC")
    order = np.random.default_rng(0).permutation(len(curve))
    names = {"1": "5", "2": "1", "3": "4", "4": "2", "5": "3"}
    other = kr.Curve(
        curve.n[order], curve.error[order], [names[curve.seed[row]] for row in order], "FC", "MSE"
    )
    mine, theirs = (kr.plan(c, 0.003, fit=fit).to_dict() for c in (curve, other))
    for content in (mine, theirs):  # these name the outlying seed
        del content["findings"], content["explanation"]
    assert mine == theirs


def test_more_of_the_same_curve_narrows_the_answer() -> None:
    """On average over twenty noisy pilots: a single one may widen by a new point that disagrees."""
    sizes = (16, 32, 64, 128, 256, 512, 1024, 2048)
    widths = []
    for draw in range(20):
        curve = power_pilot(noise=0.05, sizes=sizes, draw=draw)
        bands = [kr.forecast(curve.up_to(last)).at(8192) for last in (128, 512, 2048)]
        widths.append([math.log(band.upper / band.lower) for band in bands])
    first, second, third = np.mean(widths, axis=0)
    assert first > second > third


def test_a_clean_power_law_gives_its_own_sample_size() -> None:
    n = np.array([16, 32, 64, 128, 256, 512])
    curve = kr.Curve(n, 0.02 + 0.5 * n**-0.5)
    plan = kr.plan(curve, 0.02 + 0.5 * 1000**-0.5)
    assert plan.middle == pytest.approx(1000, rel=0.1)


def test_harder_targets_need_more() -> None:
    curve = power_pilot()
    plans = [kr.plan(curve, target) for target in np.linspace(0.09, 0.036, 12)]
    counts = [math.inf if plan.middle is None else plan.middle for plan in plans]
    assert math.isfinite(counts[7])
    assert counts == sorted(counts)
    reach = [plan.reach for plan in plans]
    assert all(a >= b - 1e-9 for a, b in pairwise(reach))


@pytest.mark.parametrize("fit", kr.planning.FITS)
@pytest.mark.parametrize("model", ["KO", "FC"])
def test_the_parts_of_a_plan_are_in_order(fit: str, model: str) -> None:
    curve = released_h8(model)
    for factor in (2.0, 0.97, 0.8, 0.4):  # within the pilot, just beyond, far, out of reach
        plan = kr.plan(curve, factor * curve.means[-1], fit=fit)
        safe = [math.inf if n is None else n for n in map(plan.samples, (0.5, *LEVELS))]
        assert safe == sorted(safe)
        for level, n in zip((0.5, *LEVELS), safe, strict=True):
            if math.isfinite(n):
                assert plan.probability(n) >= level
                assert n == plan.curve.sizes[0] or plan.probability(n - 1) < level
            else:
                assert plan.reach < level
        if plan.middle is None:
            continue
        assert plan.chance == plan.probability(plan.middle)
        assert safe[-1] == plan.upper
        if fit == "posterior":
            assert plan.lower <= plan.middle <= plan.upper
        reached = [plan.if_reached(level) or 0 for level in LEVELS]
        assert reached == sorted(reached)
        assert all(a <= b for a, b in zip(reached, safe[1:], strict=True))


@pytest.mark.parametrize("target", [0.06, 0.02, 0.012, 0.007, 0.003])
def test_what_to_do_is_collected_as_far_as_odds_were_checked_and_measured_near(
    target: float,
) -> None:
    plan = kr.plan(power_pilot(floor=0.0), target)
    for sure in (0.5, 0.9, 0.95):
        advice, samples = plan.recommend(sure), plan.samples(sure)
        assert advice.sure == sure
        assert advice.n is not None
        if advice.action == "collect":
            assert samples == advice.n <= chances.NEAR * plan.last
            assert advice.chance == plan.probability(advice.n) >= sure
        else:
            assert (advice.action, advice.seeds, advice.n) == ("measure", 3, 2 * plan.last)
            assert samples is None or samples > chances.NEAR * plan.last


@pytest.mark.parametrize("fit", kr.planning.FITS)
@pytest.mark.parametrize("last", [10**15, 10**15 // 3])
def test_at_the_largest_n_nothing_is_planned_for_beyond_it(fit: str, last: int) -> None:
    sizes = [last // 16, last // 8, last // 4, last // 2, last]
    rng, said = np.random.default_rng(0), ""
    errors = (np.repeat(sizes, 2) / last) ** -0.5 * np.exp(0.1 * rng.standard_normal(10))
    curve = kr.Curve(np.repeat(sizes, 2), errors, seed=[1, 2] * 5, model="KO")
    for factor in (1.2, 1.0, 0.999, 0.95, 0.6, 0.1):
        plan = kr.plan(curve, factor * float(curve.means[-1]), fit=fit)
        advice = plan.recommend()
        numbers = [advice.n or 2, plan.middle or 2, *(plan.samples(p) or 2 for p in LEVELS)]
        assert max(numbers) <= plan.forecast.horizon == 10**15
        again = plan.met_in_pilot  # else not measured yet
        assert advice.action != "measure" or (advice.n in sizes) == again
        assert plan.chance is None or plan.chance <= plan.reach
        said += plan.explain()
    assert "at any N" not in said  # of what lies beyond, nothing is known
    assert "No amount of data" not in said
    assert last < 10**15 or " next, with" not in said


def test_a_target_out_of_reach_is_said_so() -> None:
    curve = kr.Curve(N_128, KO_128, model="KO")
    plan = kr.plan(curve, 0.03)
    assert (plan.middle, plan.samples(0.9), plan.if_reached(0.9)) == (None, None, None)
    assert (plan.chance, plan.upper) == (None, math.inf)
    assert plan.reach < 0.1
    advice = plan.recommend()  # means without seeds cannot tell a floor from noise
    assert (advice.action, advice.n, advice.seeds) == ("measure", 4096, 3)
    with pytest.raises(kr.errors.UnreachableError, match=r"KO: measure N = 4,096 .* below 1%"):
        plan.require()


@pytest.mark.parametrize("fit", kr.planning.FITS)
def test_a_target_that_a_rise_undoes_is_not_met_before_it(fit: str) -> None:
    curve = kr.Curve([8, 16, 32, 64, 128], [0.5, 0.3, 0.45, 0.25, 0.2])
    plan = kr.plan(curve, 0.35, fit=fit)
    assert plan.middle is not None
    assert plan.middle > 32
    assert plan.lower >= 32


@pytest.mark.parametrize("target", [0, -1, math.nan, math.inf, "low", None, True])
def test_targets_that_are_none_are_refused(target: object) -> None:
    with pytest.raises(kr.KoriskError, match="target"):
        kr.plan(DENSE, target)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.4, math.nan, "sure"])
def test_safety_levels_have_limits(level: object) -> None:
    with pytest.raises(kr.KoriskError, match="sure must be"):
        kr.plan(DENSE, 0.05).samples(level)  # type: ignore[arg-type]


def test_two_sizes_are_too_few_except_for_the_papers_line() -> None:
    two = kr.Curve([4, 16], [0.2, 0.1])
    with pytest.raises(kr.KoriskError, match="at least 3 distinct N"):
        kr.plan(two, 0.05)
    assert kr.plan(two, 0.12, fit="paper").middle == kr.planning.calibrate(two, "paper").samples(
        0.12
    )


@pytest.mark.parametrize("n", [2.5, 1, 10**9, math.inf, math.nan, [64, 2.5], "64"])
def test_sample_counts_have_limits(n: Any) -> None:
    plan = kr.plan(released_h8("FC"), 0.003)
    for ask in (plan.at, plan.probability):
        with pytest.raises(kr.KoriskError, match="n must be a whole number"):
            ask(n)


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


def test_many_sizes_are_thinned_without_changing_the_answer() -> None:
    n = np.unique(np.round(np.geomspace(16, 512, 120))).astype(int)
    few = np.array([16, 32, 64, 128, 256, 512])
    target = 0.02 + 0.5 * 1500**-0.5
    many, some = (kr.plan(kr.Curve(sizes, 0.02 + 0.5 * sizes**-0.5), target) for sizes in (n, few))
    assert many.middle == pytest.approx(1500, rel=0.05)
    assert some.middle == pytest.approx(1500, rel=0.05)


def test_larger_is_better_is_told_in_the_users_unit() -> None:
    errors = np.array([0.4, 0.3, 0.22, 0.17])
    plain = kr.plan(kr.Curve([16, 32, 64, 128], errors, metric="error rate"), 0.12)
    accuracy = kr.Curve.from_records(
        [{"n": n, "error": 1 - e} for n, e in zip([16, 32, 64, 128], errors, strict=True)],
        unit="accuracy",
    )
    plan = kr.plan(accuracy, 0.88)
    assert plan.middle == pytest.approx(plain.middle, rel=1e-6)
    expected, mirrored = plan.at(256), plain.at(256)
    assert expected.value == pytest.approx(1 - mirrored.value, rel=1e-9)
    assert expected.lower == pytest.approx(1 - mirrored.upper, rel=1e-9)
    assert expected.lower < expected.value < expected.upper
    assert plan.floor > 0.88
    assert "To reach 0.88" in plan.explain()


@pytest.mark.parametrize("fit", kr.planning.FITS)
def test_every_fit_makes_a_whole_plan(fit: str) -> None:
    plan = kr.plan(released_h8("FC"), 0.0048, fit=fit)
    content = json.loads(json.dumps(plan.to_dict(), allow_nan=True))
    assert (content["fit"], content["explanation"]) == (fit, plan.explain())
    assert plan.at(100).lower <= plan.at(100).upper
    assert (plan.at(100).lower <= plan.at(100).value <= plan.at(100).upper) == (fit == "posterior")


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(
        st.tuples(st.integers(2, 10**6), st.floats(1e-90, 1e90), st.integers(0, 3)),
        min_size=1,
        max_size=14,
        unique_by=lambda row: (row[0], row[2]),
    ),
    st.floats(1e-90, 1e90),
    st.sampled_from(kr.planning.FITS),
)
def test_any_pilot_gives_a_plan_or_a_refusal(
    rows: list[tuple[int, float, int]], target: float, fit: str
) -> None:
    n, errors, seeds = zip(*rows, strict=True)
    try:
        plan = kr.plan(kr.Curve(n, errors, seeds), target, fit=fit)
    except kr.KoriskError:
        return
    if fit == "posterior" and plan.middle is not None:
        assert plan.lower <= plan.middle <= plan.upper
    assert plan.lower <= plan.upper
    assert 0 <= plan.reach <= 1 or (plan.doubt and math.isnan(plan.reach))
    assert plan.explain()


@dataclass(frozen=True)
class Odds(Forecast):
    """A forecast whose chance to meet any target grows by a tenth with each doubling.

    From `start` doublings beyond the pilot on, as far as `reach`.
    """

    start: float = 0.0
    reach: float = 1.0

    def met(self, n: Array, goal: float) -> Array:
        grown = (np.log2(n / self.last) - self.start) / 10
        return np.clip(grown, 0.0, self.reach)


def planned(start: float = 0.0, reach: float = 1.0) -> kr.Plan:
    curve = kr.Curve(N, 1.0 / N)
    return planning.plan_from(Odds(curve, "posterior", (), start, reach), 1e-3)


def doubled(times: float) -> float:
    return float(256 * 2**times)


def test_a_plan_is_read_off_the_chances() -> None:
    """From all futures, and from those that meet the target before long."""
    made = planned()
    assert (made.lower, made.upper) == (math.floor(doubled(0.5)), math.ceil(doubled(9.5)))
    assert made.reach == 1.0
    assert made.near_horizon == max(chances.NEAR * 256, chances.LATER * made.lower)
    before = math.log2(made.near_horizon / 256)
    assert made.middle == math.ceil(doubled(chances.MIDDLE * before))
    assert made.chance == pytest.approx(0.1 * chances.MIDDLE * before, abs=1e-3)
    levels = (0.8, 0.9, 0.95)
    assert [made.samples(p) for p in levels] == [math.ceil(doubled(10 * p)) for p in levels]
    assert [made.if_reached(p) for p in levels] == [math.ceil(doubled(before * p)) for p in levels]
    assert (made.samples(), made.if_reached()) == (made.samples(0.9), made.if_reached(0.9))
    assert made.probability(1024) == pytest.approx(0.2)


def test_safety_is_of_all_futures_and_the_condition_of_those_before_long() -> None:
    made = planned(reach=0.925)
    assert math.isinf(made.upper)
    assert (made.samples(0.9), made.samples(0.95)) == (planned().samples(0.9), None)
    assert made.if_reached(0.95) == planned().if_reached(0.95)
    assert planned(reach=0.975).upper == planned().upper


def test_late_targets_count_futures_up_to_a_multiple_of_the_earliest() -> None:
    made = planned(start=4.0)
    assert (made.lower, made.near_horizon) == (math.floor(doubled(4.5)), chances.LATER * made.lower)
    later = math.log2(made.near_horizon / doubled(4))
    assert made.middle == pytest.approx(doubled(4 + chances.MIDDLE * later), rel=1e-3)


def test_a_least_chance_is_asked_for() -> None:
    least = chances.LEAST_REACH
    expected = doubled(10 * chances.MIDDLE * least)
    assert planned(reach=least).middle == pytest.approx(expected, rel=0.01)
    made = planned(reach=least - 0.01)
    assert (made.middle, made.chance, made.upper) == (None, None, math.inf)
    assert (made.reach, made.samples(0.9), made.if_reached(0.9)) == (least - 0.01, None, None)
    assert made.lower == planned().lower  # the earliest is told all the same
    assert made.recommend().action == "measure"  # one seed is too few to stop


def test_probabilities_jump_nowhere_between_sizes_of_the_table() -> None:
    """Except where neighbours are one apart: a curve that is known well has steep chances."""
    curve = power_pilot(noise=0.002)
    table = kr.plan(curve, 0.035).chances
    apart = np.diff(table.n) > 1
    assert np.diff(table.p)[apart].max() < 0.1
    assert (np.diff(table.p) >= 0).all()
    assert (table.p[0], table.p[-1]) == pytest.approx((0, 1), abs=0.05)


def test_constants_of_the_planner_are_those_of_its_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for words in (
        f"within {HORIZON:,.0f} times the pilot",
        f"read at {100 * chances.MIDDLE:g}% of futures that meet the target before long",
        f"(by {chances.NEAR} times the pilot, or {chances.LATER} times `lower`",
        f"Below a `reach` of {100 * chances.LEAST_REACH:g}% there is no `middle`",
        f"takes τ above {ROUGHEST:g}",
        f"the {100 * (1 - 2 * chances.TAIL):g}% interval of N",
        f"More than {MOST_SIZES} sizes are averaged",
    ):
        assert words in page
    assert planning.LEVELS == (0.8, 0.9, 0.95)
