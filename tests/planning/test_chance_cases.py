"""Tables of chances and the numbers read off them: exact tables, sizes and boundaries."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.curves.noise import ROUNDING
from korisk.planning.chances import (
    Chances,
    answer,
    near_horizon,
    table,
    table_sizes,
)
from korisk.planning.extrapolation import Extrapolation, Measured
from korisk.planning.limits import Limit
from korisk.planning.recommend import Situation
from korisk.theory import RiskLine

Array = NDArray[np.float64]
EXACT = Chances(np.array([10.0, 20.0, 80.0, 160.0]), np.array([0.0, 0.25, 0.75, 0.96]))


def test_a_table_is_interpolated_in_log_n_and_inverted() -> None:
    assert EXACT.at(40) == pytest.approx(0.5)
    assert (EXACT.at(5), EXACT.at(1000)) == (0.0, 0.96)
    assert EXACT.first(0.5) == pytest.approx(40)
    assert EXACT.first(0.25) == pytest.approx(20)
    assert EXACT.first(0.0) == 10
    assert EXACT.first(0.961) == math.inf
    assert EXACT.smallest(0.5) in (40, 41)
    assert EXACT.smallest(0.96) == 160
    assert EXACT.smallest(0.961) is None
    low, high = EXACT.interval()
    assert low == math.floor(10 * 2**0.2)
    assert high == math.ceil(80 * 2 ** (0.2 / 0.21))
    assert Chances(EXACT.n, 0.9 * EXACT.p).interval()[1] == math.inf
    assert Chances(EXACT.n, 0.01 * EXACT.p).interval() == (math.inf, math.inf)
    assert Chances(EXACT.n + 0.5, EXACT.p + 0.2).interval()[0] == 10


def test_the_smallest_whole_n_is_at_least_one() -> None:
    from_half = Chances(np.array([0.25, 0.5, 4.0]), np.array([0.1, 0.6, 1.0]))
    assert from_half.smallest(0.5) == 1
    assert Chances(np.array([1.0, 4.0]), np.array([0.6, 1.0])).smallest(0.5) == 1
    between = Chances(np.array([1.0, 1.5]), np.array([0.2, 0.9]))
    assert between.smallest(0.8) == 2, "constant beyond its end"
    assert between.smallest(0.95) is None


def bare_forecast(sizes: list[int], horizon: int = 0, **values: Any) -> Any:
    curve = SimpleNamespace(sizes=np.array(sizes))
    fields = {"last": sizes[-1], "horizon": horizon or 10_000 * sizes[-1], "fit": "posterior"}
    fields |= {"line": None}
    return SimpleNamespace(curve=curve, **fields | values)


def test_sizes_of_a_table_lie_between_the_measured_ones_and_beyond() -> None:
    between = [0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99]
    sizes = table_sizes(bare_forecast([10, 26, 43], 400))
    inside = [*range(10, 27), *(26 * (43 / 26) ** share for share in between), 43]
    beyond = [44, *(43 * 2 ** (step / 8) for step in range(1, int(8 * math.log2(400 / 43)) + 1))]
    np.testing.assert_allclose(sizes, sorted([*inside, *beyond, 400]), rtol=1e-12)
    # Where there is no beyond, the last size ends the table.
    assert table_sizes(bare_forecast([10, 26], 26)).tolist() == list(range(10, 27))


@pytest.mark.parametrize(("number", "filled"), [(32, True), (33, False)])
def test_gaps_of_many_sizes_are_left_open(number: int, filled: bool) -> None:
    measured = [100 * step for step in range(1, number + 1)]
    sizes = table_sizes(bare_forecast(measured, measured[-1]))
    assert (len(sizes) > number) == filled
    if filled:
        assert len(sizes) == number + 9 * (number - 1)


def test_steep_parts_are_divided_by_six_three_times() -> None:
    """A jump between 100 and 200: steps of a sixth of a sixth of a sixth of the gap remain."""
    asked: list[Array] = []

    def jump(n: Array) -> Array:
        asked.append(n)
        return np.where(n < 150.3, 0.0, 1.0)

    odds = table(jump, np.array([10.0, 100.0, 200.0]))
    assert len(asked) == 1 + 3
    assert [len(sizes) for sizes in asked] == [3, 5, 5, 5]
    index = int(np.argmax(odds.p > 0.5))
    step = math.log(odds.n[index] / odds.n[index - 1])
    assert step == pytest.approx(math.log(2) / 6**3)
    # No step of a probability below 4% is divided, and none of N below one.
    asked.clear()
    table(lambda n: jump(n) * 0.039, np.array([10.0, 100.0, 200.0]))
    assert len(asked) == 1
    asked.clear()
    table(lambda n: jump(n) * 0.041, np.array([10.0, 100.0, 200.0]))
    assert len(asked) == 4
    asked.clear()
    table(jump, np.array([150.0, 151.0]))
    assert len(asked) == 1
    falling = table(lambda n: np.where(n < 15, 0.9, 0.3), np.array([10.0, 10.5, 20.0, 20.5]))
    assert set(falling.p.tolist()) == {0.9}, "what is met stays met"


@pytest.mark.parametrize(
    ("lower", "end"),
    [(10.0, 1600), (100.0, 1600), (101.0, 1616), (62_500.0, 1_000_000), (7e4, 1_000_000)],
)
def test_futures_count_up_to_sixteen_times_the_pilot_or_the_earliest(
    lower: float, end: int
) -> None:
    assert near_horizon(bare_forecast([10, 100]), lower) == end
    assert near_horizon(bare_forecast([10, 100]), math.inf) == 1600
    assert near_horizon(bare_forecast([10, 100], 500), 10.0) == 500


def with_crossing(crossing: tuple[float, int, int] | None, **values: Any) -> Any:
    measured = SimpleNamespace(crossing=lambda goal: crossing)
    return bare_forecast([10, 100], measured=measured, **values)


def steps(*pairs: tuple[float, float]) -> Chances:
    n, p = zip(*pairs, strict=True)
    return Chances(np.array(n, float), np.array(p, float))


@pytest.mark.parametrize(
    ("even", "expected"), [(15, 21), (20, 21), (30, 30), (40, 40), (45, 40), (None, 40)]
)
def test_inside_the_pilot_the_means_bracket_the_answer(even: int | None, expected: int) -> None:
    """After 20, where the means miss the target, up to 40, where they meet it."""
    odds = (
        steps((10, 0.1), (even - 1e-9, 0.1), (even, 0.6)) if even else steps((10, 0.1), (99, 0.4))
    )
    assert answer(with_crossing((30.0, 20, 40)), 0.1, odds)[0] == expected
    smallest = answer(with_crossing((10.0, 10, 10)), 0.1, odds)[0]
    assert smallest == 10


@pytest.mark.parametrize(("reach", "known"), [(0.149, False), (0.15, True)])
def test_below_a_chance_of_15_percent_there_is_no_number(reach: float, known: bool) -> None:
    odds = steps((10, 0.0), (400, 0.0), (401, reach), (1e6, reach))
    samples, lower, upper = answer(with_crossing(None), 0.1, odds)
    assert (samples is not None) == known
    assert upper == math.inf
    assert lower == 400
    assert samples in (None, 401)
    # Nor where nothing lies beyond the pilot.
    assert answer(with_crossing(None, horizon=100), 0.1, odds)[0] is None


def test_beyond_the_pilot_half_of_the_counted_futures_meet_the_target() -> None:
    """30% by N = 1,600, and most of the others later: the number has a chance of 15%."""
    odds = steps((10, 0.0), (100, 0.05), (400, 0.15), (1600, 0.3), (1e6, 0.9))
    assert answer(with_crossing(None), 0.1, odds)[0] == 400
    # Never inside the pilot, and never before the interval begins.
    early = steps((10, 0.0), (50, 0.0), (60, 0.9), (1e6, 0.99))
    assert answer(with_crossing(None), 0.1, early)[0] == 101
    none = steps((10, 0.0), (100, 0.0), (1600, 0.0), (1700, 0.2), (1e6, 0.2))
    assert answer(with_crossing(None), 0.1, none)[0] == math.ceil(math.sqrt(1600 * 1700))


def test_by_the_papers_line_its_own_n_is_within_the_pilot_and_the_horizon() -> None:
    def number(means: list[float], goal: float, line: RiskLine) -> int | None:
        forecast = bare_forecast([10, 20, 40, 80], fit="paper", line=line)
        forecast.curve.means = np.array(means)
        samples, *interval = answer(forecast, goal, EXACT)
        assert tuple(interval) == EXACT.interval()  # that of the default fit
        return samples

    line = RiskLine(0.5, 20.0)
    n = line.samples(1.5)
    assert n > 80
    assert number([9.0, 5.0, 3.0, 2.0], 1.5, line) == n
    assert number([9.0, 5.0, 3.0, 2.0], 8.0, line) == 10
    assert number([9.0, 5.0, 3.0, 2.0], 0.5, line) is None
    assert number([9.0, 5.0, 3.0, 2.0], 0.5 + 1e-9, line) is None, "beyond the horizon"
    # Means that miss the target after they met it: the answer lies beyond the last miss.
    assert number([9.0, 0.9, 3.0, 0.8], 2.9, RiskLine(0.1, 10.0)) == 41


# --- The numbers of a plan -----------------------------------------------------------------------

MEANS = [0.4, 0.2, 0.1, 0.05]
PILOT = kr.Curve([16, 32, 64, 128], MEANS)


class Bare(Extrapolation):
    """A forecast without a posterior: its doubt, horizon and floor are given."""

    doubt = ""
    horizon = 1_280_000

    @property
    def measured(self) -> Measured:
        return Measured(self.curve, 0.02)


def situation(goal: float = 0.02, doubt: str = "", **values: Any) -> Situation:
    forecast = Bare(PILOT, values.pop("fit", "posterior"))
    object.__setattr__(forecast, "doubt", doubt)
    fields: dict[str, Any] = {
        "middle": 400,
        "lower": 300.0,
        "upper": 500.0,
        "reach": 0.9,
        "chances": EXACT,
    }
    return Situation(forecast, goal, goal, **fields | values)


def test_the_last_and_the_first_mean_say_where_a_target_is_met() -> None:
    assert [situation(goal).met_in_pilot for goal in (0.05, 0.0499)] == [True, False]
    assert [situation(middle=n).met_at_smallest for n in (15, 16, 17, None)] == [
        True,
        True,
        False,
        False,
    ]
    assert situation(0.15).between == (32, 64)
    assert situation(0.02).between is None
    edge = ROUNDING * 0.4
    assert [situation(goal).below_rounding for goal in (edge, 0.99 * edge)] == [False, True]
    assert situation().last == 128


def test_a_doubt_counts_beyond_the_pilot_alone() -> None:
    assert situation(doubt="It rises.").doubt == "It rises."
    assert situation(0.05, doubt="It rises.").doubt == ""
    assert "below rounding" in situation(1e-20).doubt
    assert situation().missed == "not known"
    assert situation(doubt="It rises.").missed == "no answer"
    assert situation(fit="paper").missed == "not reachable"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, "reachable"),
        ({"reach": 0.5}, "reachable"),
        ({"reach": 0.499}, "unlikely"),
        ({"middle": None}, "not_known"),
        ({"goal": 0.05, "middle": None}, "reachable"),
        ({"goal": 1e-20, "middle": None}, "not_known"),
        ({"doubt": "It rises.", "middle": None}, "not_known"),
    ],
)
def test_the_verdict_is_a_word(values: dict[str, Any], verdict: str) -> None:
    assert situation(**values).verdict == verdict


def test_chances_are_read_off_the_table() -> None:
    known = situation(chances=EXACT)
    odds = [known.probability(n) for n in (9, 10, 40, 1000)]
    assert odds == pytest.approx([0.0, 0.0, 0.5, 0.96])
    assert situation(chances=Chances(EXACT.n, EXACT.p + 0.01)).probability(9) == 0
    assert situation(chances=Chances(EXACT.n, EXACT.p + 0.01)).probability(10) == 0.01
    assert [known.samples(p) for p in (0.5, 0.75)] == [EXACT.smallest(0.5), 80]
    assert known.even == EXACT.smallest(0.5)
    assert situation(middle=40).chance == pytest.approx(0.5)
    assert situation(middle=None).chance is None
    # By 16 times the pilot, or 16 times the earliest: conditional on the chance there.
    assert known.near_horizon == 16 * 300
    assert situation(lower=10.0).near_horizon == 16 * 128
    assert known.if_reached(0.5) == EXACT.smallest(0.5 * 0.96)
    assert situation(middle=None).if_reached(0.5) is None
    for level in (0.49, 0.991):
        with pytest.raises(kr.KoriskError, match="p must be"):
            known.if_reached(level)


@pytest.mark.parametrize(("floor", "above"), [(0.02, True), (0.0199, False), (0.03, True)])
def test_a_floor_at_or_above_the_target_is_why_it_is_out_of_reach(
    floor: float, above: bool
) -> None:
    plan = situation(0.02)
    plan.forecast.__dict__["floor"] = floor
    assert plan.floor == floor
    assert plan.floor_above == above
    words = f"levels off at about {floor:.4g}" if above else "improves too slowly"
    assert plan.why_out_of_reach == f"The error {words}."


def test_the_largest_supported_n_may_set_the_horizon() -> None:
    plan = kr.plan(PILOT, 0.02)
    assert plan.anywhere == "at any N"
    capped = replace(plan, forecast=Bare(PILOT, "posterior"))
    object.__setattr__(capped.forecast, "horizon", LARGEST_N)
    assert capped.anywhere == f"up to N = {LARGEST_N:,}, the largest that is planned for"
    assert plan.trust is None
    assert plan.limit == Limit(**plan.limit.to_dict())
