"""Plans, comparisons and fits: closed forms of what is read off them, both sides of thresholds."""

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from pilots import power_pilot

import korisk as kr
from korisk.curves import plan as planning
from korisk.curves.band import STRETCH, WIDENING, pooled_band
from korisk.curves.calibrate import LEAST_SIZES, _Average, _exp, estimate, first_below
from korisk.curves.curve import LARGEST_N
from korisk.curves.families import FAMILIES, fit
from korisk.curves.noise import PRIOR_SEEDS, RESAMPLES, relative_variance
from korisk.curves.posterior import HORIZON, MOST_SIZES

Array = NDArray[np.float64]
N = np.array([16, 32, 64, 128, 256])
PAGE = Path(__file__).parents[2] / "docs/explanation/planner.md"


class Odds:
    """In place of a posterior: the chance to meet any target is N / scale, as far as `reach`."""

    def __init__(self, scale: float, reach: float) -> None:
        self.scale, self.reach = scale, reach

    def probability(self, n: ArrayLike, target: float) -> Array:
        return np.minimum(np.asarray(n, float) / self.scale, self.reach)


def planned(scale: float, reach: float = 1.0) -> kr.Plan:
    made = kr.forecast(kr.Curve(N, 1.0 / N))
    made.__dict__["posterior"] = Odds(scale, reach)
    return planning.plan_from(made, 1e-3)


# --- Plans ---------------------------------------------------------------------------------------


def test_a_plan_is_read_off_the_chances() -> None:
    """Near is 64 times the pilot, 16,384: the futures that count have a chance of 0.8192."""
    made = planned(20_000)
    assert (made.lower, made.upper, made.reach) == (1_000, 19_000, 1.0)
    assert made.before_long == 64 * 256
    assert made.samples == math.ceil(0.6 * 16_384)
    assert made.if_met == (math.ceil(0.05 * 16_384), math.ceil(0.95 * 16_384))
    assert [made.safe(p) for p in (0.8, 0.9, 0.95)] == [16_000, 18_000, 19_000]
    assert made.safe() == made.safe(0.9)
    assert made.probability(5_000) == 0.25


def test_a_plan_without_an_upper_end_counts_the_futures_before_long() -> None:
    made = planned(20_000, reach=0.95)
    assert math.isinf(made.upper)
    assert made.safe(0.9) == math.ceil(0.9 * 16_384)
    assert planned(20_000, reach=0.96).upper == 19_000


def test_late_targets_count_futures_up_to_sixteen_times_the_earliest() -> None:
    made = planned(50_000)
    assert (made.lower, made.before_long) == (2_500, 40_000)
    assert made.samples == 24_000


def test_one_chance_in_four_is_asked_for() -> None:
    assert planned(20_000, reach=0.25).samples == 3_000
    made = planned(20_000, reach=0.24)
    assert (made.samples, made.lower, made.upper) == (None, math.inf, math.inf)
    assert (made.reach, made.safe(0.9), made.if_met) == (0.24, None, None)
    assert made.rounds == (512,)


def test_futures_that_met_the_target_before_long_count_whatever_comes_after() -> None:
    class Passing(Odds):
        def probability(self, n: ArrayLike, target: float) -> Array:
            sizes = np.asarray(n, float)
            return np.where(sizes < 16_384, 0.8, np.where(sizes > 16_384, 0.9, 0.6))

    made = kr.forecast(kr.Curve(N, 1.0 / N))
    made.__dict__["posterior"] = Passing(1.0, 1.0)
    assert planning._futures(made, 1e-3, math.inf) == 0.8


def test_rounds_multiply_by_four() -> None:
    assert planned(20_000).rounds == (1_024, 4_096, 9_831)


def test_the_first_n_is_the_smallest() -> None:
    made = kr.forecast(kr.Curve(N, 1.0 / N))
    for first in (*range(17, 330), 4_001, 2_559_999, 2_560_000):
        assert made.first(lambda n, first=first: n >= first) == first  # type: ignore[misc]


def test_the_first_n_is_looked_for_at_four_of_every_doubling() -> None:
    asked: list[Array] = []

    def never(n: Array) -> NDArray[np.bool_]:
        asked.append(n)
        return n < 0

    assert kr.forecast(kr.Curve(N, 1.0 / N)).first(never) is None
    doublings = math.log2(10_000 * 256 / 16)
    assert len(asked[0]) == 2 + int(4 * doublings)
    assert (asked[0][0], asked[0][-1]) == (16, 2_560_000)


def test_constants_of_the_planner_are_those_of_its_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    multiples = [f"{planning.safety_multiple(p):.1f}" for p in planning.LEVELS]
    for words in (
        f"within {HORIZON:,.0f} times the pilot",
        f"({100 * planning.MIDDLE:g}% of them have met it by then",
        f"within {planning.NEAR} times the pilot, or {planning.LATER} times `lower`",
        f"below {100 * planning.LEAST_REACH:g}% there is no answer",
        f"the {100 * (1 - 2 * planning.TAIL):g}% interval of N",
        f"More than {MOST_SIZES} sizes are averaged",
        f"{RESAMPLES:,} resamples",
        f"times {', '.join(multiples[:-1])} or {multiples[-1]} for 80, 90 or 95%",
    ):
        assert words in page
    assert planning.LEVELS == (0.8, 0.9, 0.95)
    assert planning.safety_multiple(0.5) == 1


# --- Comparisons ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("odds", "after", "share"),
    [
        ([0.0, 1.0], "second", 0.5),
        ([1.0, 0.0], "first", 0.5),
        ([0.25, 0.75], "second", 0.5),
        ([0.26, 1.0], None, 0),
        ([0.25, 0.74], None, 0),
        ([0.75, 0.26], None, 0),
        ([0.6, 0.0, 1.0], "second", 0.75),  # even odds at first are no crossover
        ([0.4, 1.0, 0.0], "first", 0.75),
    ],
)
def test_a_crossover_is_clear_before_and_after(
    monkeypatch: pytest.MonkeyPatch, odds: list[float], after: str | None, share: float
) -> None:
    """Odds that run through some values, evenly over the doublings from 16 to 64 times 256."""

    def made_up(self: kr.Comparison, n: Array) -> Array:
        assert (n[0], n[-1]) == (16, pytest.approx(64 * 256))
        return np.interp(np.log2(n / 16), np.linspace(0, 10, len(odds)), odds)

    monkeypatch.setattr(kr.Comparison, "odds", made_up)
    pair = kr.Comparison(planned(20_000), planned(20_000))
    found = pair.crossover
    assert (found.better_after if found else None) == after
    if found is not None:
        assert found.n == pytest.approx(16 * 2 ** (10 * share), rel=0.15)
        assert found.lower <= found.n <= found.upper
        assert found.measured == (found.n <= 256)


def test_curves_that_rise_have_no_slope_and_no_factors() -> None:
    rising = kr.forecast(kr.Curve(N, 0.01 * N**0.2))
    falling = kr.forecast(kr.Curve(N, 0.01 + 1.0 / N))
    plans = [kr.Plan(made, 1.0, 1.0, 1, 1, 1, 1.0) for made in (rising, falling)]
    for first, second in (plans, plans[::-1]):
        with pytest.raises(kr.KoriskError, match="must be > 0, got 0"):
            kr.Comparison(first, second).factors()


# --- Fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].grids])
def test_grids_cover_what_shapes_may_be(name: str) -> None:
    family = FAMILIES[name]
    for grid, (low, high) in zip(family.grids, family.limits, strict=True):
        assert low <= grid[0] < grid[-1] <= high
        assert grid[-1] >= 100 * grid[0] * (1 - 1e-9)  # two decades at least
        steps = grid[1:] / grid[:-1]
        assert steps == pytest.approx(steps[0])
        assert steps[0] < 1.5
    if len(family.grids) == 1:
        for rate in (0.02, 0.3, 0.9):
            basis = np.log(N) / N if name == "log-power" else 1.0 / N
            fitted = fit(family, N.astype(float), 2.0 * basis[None, :] ** rate, np.ones(len(N)))
            assert fitted.shape[0] == pytest.approx(rate, rel=1e-3)


def test_averages_weigh_by_aic() -> None:
    """K log(loss) + 2 parameters, of families with fewer parameters than there are sizes."""
    n, errors = N.astype(float), np.array([[0.3, 0.22, 0.15, 0.13, 0.1]])
    made = estimate("aic", n, errors, np.ones(5))
    assert isinstance(made, _Average)
    kinds = [part.family for part in made.parts]
    assert [kind.name for kind in kinds] == ["line", "power", "no-floor", "log-power"]
    criterion = [
        5 * math.log(part.loss.item()) + 2 * kind.parameters
        for part, kind in zip(made.parts, kinds, strict=True)
    ]
    shares = np.exp(-0.5 * np.array(criterion))
    assert made.shares[:, 0] == pytest.approx(shares / shares.sum())
    assert made.floor.item() == pytest.approx(
        sum(made.shares[at, 0] * part.floor.item() for at, part in enumerate(made.parts))
    )
    few = estimate("aic", n[:3], errors[:, :3], np.ones(3))
    assert isinstance(few, _Average)
    assert [part.family.name for part in few.parts] == ["line", "no-floor"]


@pytest.mark.parametrize("method", kr.CURVE_METHODS)
def test_methods_ask_for_two_or_three_sizes(method: str) -> None:
    least = 2 if method in ("paper", "line", "inverse-log", "no-floor", "envelope") else 3
    assert LEAST_SIZES.get(method, 3) == least
    with pytest.raises(kr.KoriskError, match=r"size|N"):
        kr.calibrate(kr.Curve(N[: least - 1], 1.0 / N[: least - 1]), method)
    if method != "posterior":
        assert kr.calibrate(kr.Curve(N[:least], 1.0 / N[:least]), method).method == method


@pytest.mark.parametrize("first", [*range(3, 40), 1_000_003, LARGEST_N - 1, LARGEST_N])
def test_the_first_n_below_a_target_is_the_smallest(first: int) -> None:
    assert first_below(lambda n: -n, -float(first), 0.0) == first


def test_n_runs_from_two_to_ten_to_the_fifteen() -> None:
    made = kr.calibrate(kr.Curve(N, 1.0 / N), "no-floor")
    assert LARGEST_N == 10**15
    assert made.predict(2) == pytest.approx(0.5)
    assert made.predict([10.0**15]) == pytest.approx([1e-15])
    for n in (1.99, 1.001e15, [], [[2.0]], [8, 1], "many"):
        with pytest.raises(kr.KoriskError, match="from 2 to 10"):
            made.predict(n)  # type: ignore[arg-type]
    with pytest.raises(kr.UnreachableError):
        made.samples(1e-16)
    assert (_exp(0.0), _exp(699.0), _exp(700.0)) == (1.0, math.exp(699), math.inf)


def test_bands_widen_beyond_the_pilot_and_not_within() -> None:
    """By 0.02 for a doubling, and by 2.1 over all."""
    band = pooled_band(kr.calibrate(power_pilot(), "power"), resamples=20)
    n = np.array([32.0, 512.0, 1024.0, 8192.0])
    predicted = np.log(np.concatenate([part.predict(n) for part in band._pooled]))
    low, high = np.quantile(predicted, [0.05, 0.95], axis=0)
    lower, upper = band.at(n)
    expected = STRETCH * ((high - low) / 2 + WIDENING * np.array([0, 0, 1, 4]))
    assert np.log(upper / lower) / 2 == pytest.approx(expected)
    assert np.sqrt(upper * lower) == pytest.approx(band.calibration.predict(n))
    assert (STRETCH, WIDENING, len(band._pooled)) == (2.1, 0.02, 4)


def test_spreads_are_pooled_by_their_freedom() -> None:
    """Sizes with three, two and one seed: two degrees of freedom, one and none."""
    curve = kr.Curve([8, 8, 8, 16, 16, 32], [1.1, 1.0, 0.9, 0.6, 0.4, 0.2], list("abcaba"))
    spreads = np.array([0.1**2, 0.02 / 0.25, 0.0])  # variance over squared mean
    pooled = (2 * spreads[0] + spreads[1]) / 3
    freedom = np.array([2, 1, 0])
    expected = (freedom * spreads + PRIOR_SEEDS * pooled) / (freedom + PRIOR_SEEDS) / [3, 2, 1]
    assert relative_variance(curve) == pytest.approx(expected)
