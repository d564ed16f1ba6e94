"""Tables of chances and the numbers read off them: closed forms, sizes and boundaries."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.curves.noise import ROUNDING
from korisk.planning.forecast import LEAST_SIZES, PilotLaw
from korisk.planning.futures.posterior import HORIZON, MOST_SIZES, ROUGHEST
from korisk.planning.recommend import LEVELS, NEAR, TAIL, UNLIKELY, Chances, table
from pilots import known_plan

Array = NDArray[np.float64]
EXACT = Chances(np.array([10.0, 20.0, 80.0, 160.0]), np.array([0.0, 0.25, 0.75, 0.96]))
PAGE = Path(__file__).parents[2] / "docs/explanation/planner.md"
levels = st.floats(0.001, 0.999)


def test_a_table_is_interpolated_in_log_n_and_inverted() -> None:
    assert EXACT.at(40) == pytest.approx(0.5)
    assert (EXACT.at(5), EXACT.at(1000)) == (0.0, 0.96)
    assert [EXACT.first(p) for p in (0.5, 0.25, 0.0)] == pytest.approx([40, 20, 10])
    assert EXACT.first(0.961) == math.inf
    assert EXACT.smallest(0.5) in (40, 41)
    assert (EXACT.smallest(0.96), EXACT.smallest(0.961)) == (160, None)
    assert EXACT.interval() == (math.floor(10 * 2**0.2), math.ceil(80 * 2 ** (0.2 / 0.21)))
    assert Chances(EXACT.n, 0.9 * EXACT.p).interval()[1] == math.inf
    assert Chances(EXACT.n, 0.01 * EXACT.p).interval() == (math.inf, math.inf)
    assert Chances(EXACT.n + 0.5, EXACT.p + 0.2).interval()[0] == 10


def test_the_smallest_whole_n_is_at_least_one() -> None:
    from_half = Chances(np.array([0.25, 0.5, 4.0]), np.array([0.1, 0.6, 1.0]))
    assert from_half.smallest(0.5) == 1
    between = Chances(np.array([1.0, 1.5]), np.array([0.2, 0.9]))
    assert (between.smallest(0.8), between.smallest(0.95)) == (2, None)


@settings(max_examples=40)
@given(st.floats(4, 9), st.floats(0.02, 2.0), st.floats(0.05, 0.95))
def test_a_table_finds_the_n_of_every_level(centre: float, deviation: float, p: float) -> None:
    """log N is normal: its quantiles are known, however steep the probability rises."""
    grid = 2.0 ** np.arange(1, 21, 1 / 8)
    odds = table(lambda n: ndtr((np.log(n) - centre) / deviation), grid)
    truth = math.exp(centre + deviation * ndtri(p))
    tolerance = 0.05 * deviation + 2e-3  # a step of the table is at most 4% of probability
    if grid[0] < truth < grid[-1]:
        assert math.log(odds.first(p) / truth) == pytest.approx(0, abs=tolerance)
        assert odds.at(odds.first(p)) == pytest.approx(p, abs=1e-9)
    assert (np.diff(odds.n) > 0).all()
    jumps = (np.diff(odds.p) > 0.04) & (np.diff(odds.n) > 1.0)
    assert not jumps.any()
    assert len(odds.n) < 3 * len(grid)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), levels)
def test_the_smallest_whole_n_of_a_level_is_the_smallest(values: list[float], p: float) -> None:
    odds = Chances(np.array([2.0, 5, 9, 17, 30, 60])[: len(values)], np.sort(values))
    every = [n for n in range(1, int(odds.n[-1]) + 1) if odds.at(n) >= p]
    n = odds.smallest(p)
    if every:
        assert n == max(every[0], odds.n[0])
    else:
        assert n is None
        assert odds.first(p) == math.inf
    lower, upper = odds.interval()
    if math.isfinite(lower):
        assert odds.n[0] <= lower <= max(odds.first(0.05), odds.n[0])
        assert lower > odds.first(0.05) - 1
    if math.isfinite(upper):
        assert odds.first(0.95) <= upper < odds.first(0.95) + 1


def test_steep_parts_are_divided_by_six_three_times() -> None:
    """A jump between 100 and 200: steps of a sixth of a sixth of a sixth of the gap remain."""
    asked: list[Array] = []

    def jump(n: Array) -> Array:
        asked.append(n)
        return np.where(n < 150.3, 0.0, 1.0)

    def scaled_jump(height: float, n: Array) -> Array:
        return height * jump(n)

    odds = table(jump, np.array([10.0, 100.0, 200.0]))
    assert [len(sizes) for sizes in asked] == [3, 5, 5, 5]
    index = int(np.argmax(odds.p > 0.5))
    step = math.log(odds.n[index] / odds.n[index - 1])
    assert step == pytest.approx(math.log(2) / 6**3)
    # No step of a probability below 4% is divided, and none of N below one.
    for height, sizes, passes in (
        (0.039, [10.0, 100.0, 200.0], 1),
        (0.041, [10.0, 100.0, 200.0], 4),
        (1.0, [150.0, 151.0], 1),
    ):
        asked.clear()
        table(partial(scaled_jump, height), np.array(sizes))
        assert len(asked) == passes
    falling = table(lambda n: np.where(n < 15, 0.9, 0.3), np.array([10.0, 10.5, 20.0, 20.5]))
    assert set(falling.p.tolist()) == {0.9}, "what is met stays met"


# --- Sizes of the table of a pilot ---------------------------------------------------------------


def test_sizes_of_a_table_lie_between_the_measured_ones_and_beyond() -> None:
    between = [0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99]
    sizes = PilotLaw(kr.Curve([10, 26, 43], [0.4, 0.3, 0.2])).sizes()
    inside = [*range(10, 27), *(26 * (43 / 26) ** share for share in between), 43]
    steps = range(1, int(8 * math.log2(10_000)) + 1)
    beyond = [44, *(43 * 2 ** (step / 8) for step in steps), 430_000]
    np.testing.assert_allclose(sizes, sorted([*inside, *beyond]), rtol=1e-12)
    # Where there is no beyond, the last size ends the table.
    rising = PilotLaw(kr.Curve([10, 18, 26], [0.1, 0.2, 0.4]))
    assert rising.sizes().tolist() == list(range(10, 27))


@pytest.mark.parametrize(("number", "filled"), [(32, True), (33, False)])
def test_gaps_of_many_sizes_are_left_open(number: int, filled: bool) -> None:
    measured = 100 * np.arange(1, number + 1)
    sizes = PilotLaw(kr.Curve(measured, 3.0 * measured**-0.5)).sizes()
    inside = (sizes <= measured[-1]).sum()
    assert inside == (number + 9 * (number - 1) if filled else number)


# --- The numbers of a plan -----------------------------------------------------------------------

MEANS = [0.4, 0.2, 0.1, 0.05]
PILOT = kr.Curve([16, 32, 64, 128], MEANS)


@pytest.mark.parametrize("reach", [1.0, 0.97, 0.93, 0.45])
def test_all_numbers_are_quantiles_of_the_same_law(reach: float) -> None:
    """N is log-normal around 400 with a deviation of 0.3, in a share of the futures."""
    plan = known_plan(PILOT, 400, reach=reach)

    def quantile(p: float) -> float:
        return float(400 * math.exp(0.3 * ndtri(p / reach))) if p < reach else math.inf

    for sure in (0.5, 0.8, 0.9, 0.95):
        n, exact = plan.samples(sure), quantile(sure)
        assert (n is None) == math.isinf(exact)
        if n is not None:
            assert n == pytest.approx(exact, rel=0.005, abs=1)
            assert plan.probability(n) >= sure > plan.probability(n - 1)
    assert plan.even == plan.samples(0.5)
    assert plan.samples() == plan.samples(0.9)
    assert plan.lower == pytest.approx(quantile(0.05), rel=0.005, abs=1)
    assert plan.upper == pytest.approx(quantile(0.95), rel=0.005, abs=1)
    assert plan.upper == (plan.samples(0.95) or math.inf)
    assert plan.reach == pytest.approx(reach)
    assert (plan.probability(8), plan.doubt) == (0.0, "")


def test_without_an_answer_there_are_no_numbers() -> None:
    for plan in (
        known_plan(PILOT, 400, doubt="It rises."),
        known_plan(kr.Curve(PILOT.sizes, [0.05] * 4), 400),
        known_plan(PILOT, 400, 0.99 * ROUNDING * 0.4),
        kr.plan(kr.Curve(PILOT.sizes, MEANS[::-1]), 0.01),
    ):
        assert plan.doubt
        assert [plan.samples(sure) for sure in (0.5, *LEVELS)] == [None] * 4
        assert plan.even is None
        assert math.isnan(plan.reach)
        assert plan.upper == math.inf
        assert plan.lower == (math.inf if plan.below_rounding else 128)
        assert not plan.met_at_smallest
        with pytest.raises(kr.errors.UnreachableError):
            plan.require()


def test_the_last_and_the_first_mean_say_where_a_target_is_met() -> None:
    goals = {goal: known_plan(PILOT, 400, goal) for goal in (0.05, 0.0499, 0.15, 0.02)}
    assert [goals[goal].met_in_pilot for goal in (0.05, 0.0499)] == [True, False]
    assert (goals[0.15].between, goals[0.02].between) == ((32, 64), None)
    evens = [known_plan(PILOT, n, spread=1e-4).met_at_smallest for n in (15, 16, 17)]
    assert evens == [True, True, False]
    edge = ROUNDING * 0.4
    plans = [known_plan(PILOT, 400, goal) for goal in (edge, 0.99 * edge)]
    assert [plan.below_rounding for plan in plans] == [False, True]
    # A doubt counts beyond the pilot alone.
    assert known_plan(PILOT, 400, 0.05, doubt="It rises.").doubt == ""
    assert "below rounding" in plans[1].doubt


def test_levels_run_from_even_odds_to_99_percent() -> None:
    plan = known_plan(PILOT, 400)
    for level in (0.5, 0.99):
        assert plan.samples(level) == plan.chances.smallest(level)
    for wrong in (math.nextafter(0.5, 0), math.nextafter(0.99, 1), math.nan, "sure"):
        with pytest.raises(kr.KoriskError, match="sure must be"):
            plan.samples(wrong)  # type: ignore[arg-type]


def test_constants_of_the_planner_are_those_of_its_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for fact in (
        f"within {HORIZON:,.0f} times the pilot",
        f"at most {NEAR} times the pilot",
        f"below {UNLIKELY:.0%}",
        f"takes τ above {ROUGHEST:g}",
        f"the 90% range of N, with probabilities of {100 * TAIL:g} and {1 - TAIL:.0%}",
        f"More than {MOST_SIZES} sizes are averaged",
    ):
        assert fact in page, fact
    assert (LEVELS, LEAST_SIZES, LARGEST_N) == ((0.8, 0.9, 0.95), 3, 10**15)
