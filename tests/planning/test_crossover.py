"""Where two curves cross: closed forms of the odds, and what is said beside the means."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

import korisk as kr
from korisk.curves.noise import paired_correlation
from korisk.planning.compare import (
    Crossing,
    Crossover,
    crossing,
    first_above,
    mean_at,
    odds_between,
)
from korisk.planning.forecast import Forecast
from korisk.planning.futures.law import Law, normals

Array = NDArray[np.float64]
SIZES = np.array([16, 32, 64, 128, 256])


@pytest.fixture(scope="module")
def plain() -> kr.Comparison:
    """Sizes 16 to 256 and 24 to 512: common from 24 on, and 64 times 512 is 32,768."""
    first = kr.Curve(SIZES, 0.5 * SIZES**-0.5, model="KO")
    second = kr.Curve([24, 48, 96, 192, 512], [0.5, 0.3, 0.2, 0.11, 0.05], model="FC")
    return kr.compare(first, second, 0.02)


@pytest.fixture
def with_odds(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Crossover | None, Array]]:
    """The crossover of a comparison for given odds, and the sizes at which they are asked for."""

    def crossover(
        pair: kr.Comparison, odds: Callable[[Array], Array]
    ) -> tuple[Crossover | None, Array]:
        sizes = []

        def known(self: kr.Comparison, n: Array) -> Array:
            sizes.append(n)
            return np.asarray(odds(n))

        monkeypatch.setattr(kr.Comparison, "odds", known)
        cross = kr.Comparison(pair.first, pair.second).crossover
        (n,) = sizes
        return cross, n

    return crossover


@pytest.mark.parametrize("centre", [300.0, 4000.0])
@pytest.mark.parametrize("rises", [True, False])
def test_curves_cross_at_even_odds_and_its_ends_have_odds_of_5_and_95_percent(
    plain: kr.Comparison,
    with_odds: Callable[..., tuple[Crossover | None, Array]],
    centre: float,
    rises: bool,
) -> None:
    """Odds whose normal score is linear in log N; interpolated on three sizes per doubling."""
    sign = 1 if rises else -1
    cross, n = with_odds(plain, lambda n: ndtr(sign * np.log(n / centre) / 0.8))
    assert cross is not None
    assert cross.n == pytest.approx(centre, rel=0.01)
    assert cross.lower == pytest.approx(centre * math.exp(-0.8 * 1.645), rel=0.03)
    assert cross.upper == pytest.approx(centre * math.exp(0.8 * 1.645), rel=0.03)
    assert cross.better_after == ("FC" if rises else "KO")
    assert not cross.measured
    assert n[0] == 24
    assert n[-1] == pytest.approx(64 * 512)
    assert {32, 48, 64, 96, 128, 192, 256, 512} <= set(n.tolist()), "all sizes from 24 on"
    assert 16 not in n
    # Over 10.4 doublings 31 steps of a third fit, and one more.
    assert np.diff(np.log2(n)).max() == pytest.approx(math.log2(64 * 512 / 24) / 32)


def test_a_crossover_inside_both_pilots_is_measured(
    plain: kr.Comparison, with_odds: Callable[..., tuple[Crossover | None, Array]]
) -> None:
    for centre, measured in ((255.0, True), (257.0, False)):
        cross, _ = with_odds(plain, lambda n, at=centre: ndtr(np.log(n / at) / 0.01))
        assert cross is not None
        assert cross.measured == measured
    exactly, _ = with_odds(plain, lambda n: np.where(n < 256, 0.0, np.where(n > 256, 1.0, 0.5)))
    assert exactly is not None
    assert (exactly.n, exactly.measured) == (256, True)


@pytest.mark.parametrize(("odds", "crosses"), [(0.749, False), (0.75, True), (0.76, True)])
def test_only_odds_of_three_to_one_for_both_are_a_change(
    plain: kr.Comparison,
    with_odds: Callable[..., tuple[Crossover | None, Array]],
    odds: float,
    crosses: bool,
) -> None:
    low, _ = with_odds(plain, lambda n: np.where(n < 300, 1 - odds, 0.9))
    high, _ = with_odds(plain, lambda n: np.where(n < 300, 0.1, odds))
    assert (low is not None) == (high is not None) == crosses
    nothing, _ = with_odds(plain, lambda n: np.full(len(n), 0.5))
    always, _ = with_odds(plain, lambda n: np.full(len(n), 0.9))
    assert nothing is None
    assert always is None


def test_the_last_change_counts_and_its_lower_end_comes_after_the_one_before(
    plain: kr.Comparison, with_odds: Callable[..., tuple[Crossover | None, Array]]
) -> None:
    """FC leads, KO leads from 100 to 1,000, and then FC leads for good."""

    def odds(n: Array) -> Array:
        return np.where(n < 100, 0.99, ndtr(np.log(n / 1000) / 0.5))

    cross, _ = with_odds(plain, odds)
    assert cross is not None
    assert cross.n == pytest.approx(1000, rel=0.01)
    assert cross.lower == pytest.approx(1000 * math.exp(-0.5 * 1.645), rel=0.03)
    # Where no odds are below 5% before the change, the table's first N is the lower end.
    cross, _ = with_odds(plain, lambda n: np.where(n < 1000, 0.2, 0.97))
    assert cross is not None
    assert cross.lower == 24
    assert cross.upper == pytest.approx(1000, rel=0.3)
    # An upper end that is never reached is infinite.
    cross, _ = with_odds(plain, lambda n: np.where(n < 1000, 0.2, 0.94))
    assert cross is not None
    assert cross.upper == math.inf


def test_of_many_sizes_only_three_per_doubling_are_compared(
    plain: kr.Comparison, with_odds: Callable[..., tuple[Crossover | None, Array]]
) -> None:
    """Forty sizes of both are compared; with one more, only those of the grid are."""
    for number, all_sizes in ((20, True), (21, False)):
        plans = []
        for sizes in (1000 + 7 * np.arange(20), 1001 + 7 * np.arange(number)):
            curve = kr.Curve(sizes, 3.0 * sizes**-0.5)
            plans.append(replace(plain.first, forecast=Forecast(curve, "posterior")))
        _, n = with_odds(kr.Comparison(*plans), lambda n: np.full(len(n), 0.5))
        assert (1007 in n) == all_sizes


def test_a_level_is_first_reached_between_two_sizes_evenly_in_log_n() -> None:
    n, rising = np.array([10.0, 100.0, 1000.0]), np.array([0.1, 0.3, 0.7])
    assert first_above(n, rising, 0.2) == pytest.approx(math.sqrt(1000))
    assert first_above(n, rising, 0.4) == pytest.approx(10**2.25)
    assert first_above(n, rising, 0.1) == 10
    assert first_above(n, rising, 0.05) == 10
    assert first_above(n, rising, 0.3) == pytest.approx(100)
    assert first_above(n, rising, 0.71) == math.inf


# --- In words ------------------------------------------------------------------------------------

CROSS = Crossover(1500, 1200.0, 2000.0, "FC", measured=True)


def test_a_crossover_is_told_with_its_interval_and_its_place() -> None:
    after = "from there on FC is probably better."
    start = "The curves cross at about N = 1,500"
    assert CROSS.explain() == f"{start} (90%: 1,200 to 2,000); {after}"
    assert CROSS.explain("here") == f"{start} (here; 90%: 1,200 to 2,000); {after}"
    unbounded = replace(CROSS, upper=math.inf)
    assert unbounded.explain() == f"{start} (90%: at least 1,200); {after}"
    by_fit = replace(CROSS, lower=math.nan, upper=math.nan)
    assert by_fit.explain("here") == f"{start} (here); {after}"
    inside = Crossing(CROSS, (1000, 2000), "FC", 4000, 5)
    assert inside.explain() == CROSS.explain("within the pilots")
    beyond = Crossing(replace(CROSS, measured=False), None, "KO", 1000, 5)
    assert beyond.explain().startswith(f"{start} (beyond the pilots, by extrapolation; 90%")


@pytest.mark.parametrize(
    ("means", "agrees"),
    [((1500, 2000), True), ((1000, 1500), True), ((1501, 2000), False), ((1000, 1499), False)],
)
def test_inside_the_pilots_the_means_change_their_order_at_the_crossover(
    means: tuple[int, int], agrees: bool
) -> None:
    cross = Crossing(CROSS, means, "FC", 4000, 5)
    assert cross.agrees == agrees
    words = f"The means change their order between N = {means[0]:,} and {means[1]:,}, "
    words += "and FC is better at N = 4,000; where the curves cross is not clear."
    assert (cross.explain() == words) != agrees
    assert (cross.to_dict()["found"] is None) != agrees
    # Of several changes of the order, the one at the crossover is told.
    sizes = [*means, 8000]
    of_means = Crossing.of_means(CROSS, sizes, [False, True, False], ("KO", "FC"))
    assert of_means.means == (means if agrees else (means[1], 8000))
    assert (of_means.better, of_means.last, of_means.sizes) == ("KO", 8000, 3)


def test_beyond_the_pilots_the_model_that_gets_better_is_not_better_already() -> None:
    beyond = replace(CROSS, measured=False)
    assert Crossing(beyond, None, "KO", 1000, 5).agrees
    assert not Crossing(beyond, None, "FC", 1000, 5).agrees
    assert not Crossing(beyond, (500, 1000), "FC", 1000, 5).agrees
    for cross in (CROSS, beyond):
        assert Crossing(cross).agrees, "without means, there is nothing to contradict it"
    assert not Crossing(CROSS, None, "FC", 4000, 5).agrees
    contradicted = Crossing(beyond, None, "FC", 1000, 5)
    assert contradicted.explain() == (
        "The curves do not clearly cross: FC is better at every measured N, up to 1,000."
    )


@pytest.mark.parametrize(("sizes", "enough"), [(2, False), (3, True)])
def test_three_sizes_are_needed_to_extrapolate(sizes: int, enough: bool) -> None:
    few = Crossing(None, None, "FC", 1000, sizes)
    more = " At least 3 sizes are needed to extrapolate."
    assert few.explain(sizes=True) == few.explain() + ("" if enough else more)
    assert few.to_dict()["explanation"] == few.explain(sizes=True)
    assert few.to_dict()["found"] is None


def test_means_are_compared_at_common_sizes_and_interpolated_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kr.Comparison, "odds", lambda self, n: np.full(len(n), 0.5))
    first = kr.Curve([16, 64, 256], [0.4, 0.2, 0.1], model="KO")
    second = kr.Curve([8, 32, 256, 512], [0.9, 0.3, 0.05, 0.02], model="FC")
    pair = kr.compare(first, second, 0.05)
    # At 32 KO has 0.283 by interpolation in log N; at 64 FC has 0.165.
    assert (pair.crossing.means, pair.crossing.better) == ((32, 64), "FC")
    assert (pair.crossing.last, pair.crossing.sizes) == (256, 4)
    for means, between in (([0.5, 0.1, 0.05], (16, 64)), ([0.5, 0.3, 0.05], (64, 256))):
        ends = kr.compare(first, kr.Curve([16, 64, 256], means, model="FC"), 0.05).crossing
        assert (ends.means, ends.last, ends.sizes) == (between, 256, 3)
    equal = kr.compare(first, kr.Curve([16, 64, 256], [0.4, 0.2, 0.1], model="FC"), 0.05)
    assert equal.crossing.better == ""
    apart = kr.compare(first, kr.Curve([300, 600, 900], [0.09, 0.06, 0.05]), 0.05)
    assert apart.crossing == Crossing(apart.crossover)
    assert mean_at(first, 64) == 0.2
    assert crossing(first, second) == Crossing(pair.crossover, None, "FC", 256, 1)


class NormalForecast:
    """A forecast whose log error is normal at every N."""

    def __init__(self, curve: kr.Curve, mean: float, deviation: float) -> None:
        self.curve, self.mean, self.deviation = curve, mean, deviation
        self.last = int(curve.sizes[-1])

    def law(self, n: Array) -> Law:
        ones = np.ones((1, len(n)))
        return normals(np.ones(1), self.mean * ones, self.deviation * ones)


@pytest.mark.parametrize(
    ("mean", "deviation"), [(-1.0, 0.1), (-0.9, 0.1), (-1.1, 0.2), (-1.3, 0.1)]
)
def test_odds_of_two_normal_laws_have_a_closed_form(mean: float, deviation: float) -> None:
    """Correlated by shared seeds inside both pilots, by 0.2 beyond both, and not between."""
    rng = np.random.default_rng(0)
    shared = 0.2 * rng.standard_normal((3, 8))
    curves = []
    for last in (64, 128):
        sizes = np.repeat([16, 32, last], 8)
        errors = np.exp(shared + 0.1 * rng.standard_normal((3, 8))).ravel() / sizes
        curves.append(kr.Curve(sizes, errors, [str(seed) for seed in range(8)] * 3))
    first, second = NormalForecast(curves[0], -1.0, 0.1), NormalForecast(curves[1], mean, deviation)
    paired = paired_correlation(curves[0], curves[1])
    assert paired > 0.3
    asked = (20.0, 64.0, 65.0, 128.0, 129.0, 1000.0)
    odds = odds_between(first, second, asked)
    for n, chance in zip(asked, odds, strict=True):
        correlation = paired if n <= 64 else 0.2 if n > 128 else 0.0
        square = 0.1**2 + deviation**2 - 2 * correlation * 0.1 * deviation
        # Forty steps of the error resolve odds to about half a per cent.
        assert chance == pytest.approx(ndtr((-1.0 - mean) / math.sqrt(square)), abs=0.006)
