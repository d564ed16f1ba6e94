"""Where two curves cross: closed forms of the odds, and what is said beside the means."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

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
    crossing_of,
    mean_at,
    odds_between,
)
from korisk.planning.futures.law import Law, normals
from pilots import FC_128, KO_128, N_128, power_pilot

Array = NDArray[np.float64]
COLLAPSE = Path(__file__).parents[2] / "benchmarks" / "data" / "collapse_h8.csv"
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
        plans = [
            kr.plan(kr.Curve(sizes, 3.0 * sizes**-0.5), 0.02)
            for sizes in (1000 + 7 * np.arange(20), 1001 + 7 * np.arange(number))
        ]
        _, n = with_odds(kr.Comparison(*plans), lambda n: np.full(len(n), 0.5))
        assert (1007 in n) == all_sizes


# --- In words ------------------------------------------------------------------------------------

CROSS = Crossover(1500, 1200.0, 2000.0, "FC", measured=True)
BEYOND = replace(CROSS, measured=False)
NAMES = ("KO", "FC")


def beside(cross: Crossover | None, sizes: list[int], *means: list[float]) -> Crossing:
    """A crossover beside the means of KO and FC."""
    return crossing_of(cross, [kr.Curve(sizes, each) for each in means], NAMES)


def test_a_crossover_is_told_with_its_interval_and_its_place() -> None:
    for cross, place in ((CROSS, "within the pilots"), (BEYOND, "by extrapolation")):
        text = cross.explain()
        assert all(fact in text for fact in ("N = 1,500", place, "1,200 to 2,000", "FC"))
    assert "1,200 or more" in replace(CROSS, upper=math.inf).explain()


@pytest.mark.parametrize(
    ("means", "agrees"),
    [((1500, 2000), True), ((1000, 1500), True), ((1501, 2000), False), ((1000, 1499), False)],
)
def test_inside_the_pilots_the_means_change_their_order_at_the_crossover(
    means: tuple[int, int], agrees: bool
) -> None:
    found = beside(CROSS, [*means, 4000], [0.3, 0.3, 0.3], [0.4, 0.2, 0.2])
    assert (found.crossover is None) != agrees
    facts = (f"between N = {means[0]:,} and {means[1]:,}", "FC is better at N = 4,000")
    assert all(fact in found.explanation for fact in facts) != agrees
    assert (found.explanation == CROSS.explain()) == agrees
    # Of several changes of the order, the one at the crossover is told.
    found = beside(CROSS, [*means, 8000], [0.3, 0.3, 0.3], [0.4, 0.2, 0.4])
    assert found.means == (means if agrees else (means[1], 8000))
    assert (found.better, found.last, found.sizes) == ("KO", 8000, 3)


def test_beyond_the_pilots_the_model_that_gets_better_is_not_better_already() -> None:
    low, high, falls = [0.1, 0.1], [0.2, 0.2], [0.2, 0.05]
    assert beside(BEYOND, [500, 1000], low, high).crossover == BEYOND
    assert beside(BEYOND, [500, 1000], low, falls).crossover is None
    for cross in (CROSS, BEYOND):
        found = beside(cross, [500, 1000], low, low)
        assert found.crossover == cross, "equal means contradict nothing"
    assert beside(CROSS, [500, 4000], high, low).crossover is None
    contradicted = beside(BEYOND, [500, 1000], high, low)
    sentence = "do not clearly cross: FC is better at every N tried, up to 1,000"
    assert sentence in contradicted.explanation
    assert "1,500" not in contradicted.explanation
    assert contradicted.crossover is None


@pytest.mark.parametrize(("sizes", "enough"), [([500, 1000], False), ([250, 500, 1000], True)])
def test_three_sizes_are_needed_to_extrapolate(sizes: list[int], enough: bool) -> None:
    curves = [kr.Curve(sizes, [factor] * len(sizes)) for factor in (0.2, 0.1)]
    found = crossing(*curves)
    assert found is not None
    more = " At least 3 sizes are needed to extrapolate."
    assert found.explanation.endswith(more) != enough
    assert found.crossover is None


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
    assert (apart.crossing.sizes, apart.crossing.crossover) == (0, apart.crossover)
    assert mean_at(first, 64) == 0.2
    assert crossing(first, second) == pair.crossing


# --- Odds ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormalLaw:
    """A source whose log error is normal at every N."""

    mean: float
    deviation: float
    floor: float = 0.0

    def law(self, n: Array) -> Law:
        ones = np.ones((1, len(n)))
        return normals(np.ones(1), self.mean * ones, self.deviation * ones)

    lasting = law


@pytest.mark.parametrize(
    ("mean", "deviation"), [(-1.0, 0.1), (-0.9, 0.1), (-1.1, 0.2), (-1.3, 0.1)]
)
def test_odds_of_two_normal_laws_have_a_closed_form(mean: float, deviation: float) -> None:
    """Correlated by shared seeds inside both pilots alone."""
    rng = np.random.default_rng(0)
    shared = 0.2 * rng.standard_normal((3, 8))
    curves = []
    for last in (64, 128):
        sizes = np.repeat([16, 32, last], 8)
        errors = np.exp(shared + 0.1 * rng.standard_normal((3, 8))).ravel() / sizes
        curves.append(kr.Curve(sizes, errors, [str(seed) for seed in range(8)] * 3))
    laws = NormalLaw(-1.0, 0.1), NormalLaw(mean, deviation)
    paired = paired_correlation(curves[0], curves[1])
    assert paired > 0.3
    asked = (20.0, 64.0, 65.0, 128.0, 129.0, 1000.0)
    odds = odds_between((laws[0], curves[0]), (laws[1], curves[1]), asked)
    for n, chance in zip(asked, odds, strict=True):
        correlation = paired if n <= 64 else 0.0
        square = 0.1**2 + deviation**2 - 2 * correlation * 0.1 * deviation
        # Forty steps of the error resolve odds to about half a per cent.
        assert chance == pytest.approx(ndtr((-1.0 - mean) / math.sqrt(square)), abs=0.006)


def test_odds_of_pilots_turn_around_when_they_are_swapped_and_are_even_for_equals() -> None:
    first, second = power_pilot(noise=0.03), power_pilot(0.0, 1.1, 0.5, noise=0.03, draw=1)
    n = np.array([40.0, 512.0, 4096.0])
    there, back = (kr.compare(*pair, 0.1).odds(n) for pair in ((first, second), (second, first)))
    assert back == pytest.approx(1 - there, abs=1e-6)
    equal = kr.compare(first, first, 0.04)
    assert equal.odds(n[1:]) == pytest.approx([0.5, 0.5], abs=0.02)
    assert equal.crossover is None
    assert "better" not in equal.explain()


def test_at_the_ends_of_a_crossover_odds_are_its_levels() -> None:
    flat = power_pilot(0.05, 0.4, 0.6, noise=0.03)
    steep = power_pilot(0.0, 1.1, 0.5, noise=0.03, draw=1)
    flat = kr.Curve(flat.n, flat.error, flat.seed, "flat")
    steep = kr.Curve(steep.n, steep.error, [f"{seed}!" for seed in steep.seed], "steep")
    pair = kr.compare(flat, steep, 0.06)
    cross, back = pair.crossover, kr.compare(steep, flat, 0.06).crossover
    assert cross is not None
    assert back is not None
    assert cross.better_after == back.better_after == "steep"
    assert (cross.n, cross.measured) == (back.n, back.measured)
    assert (cross.lower, cross.upper) == pytest.approx((back.lower, back.upper), rel=1e-3)
    odds = pair.odds([cross.lower, cross.n, cross.upper])
    assert odds == pytest.approx([0.05, 0.5, 0.95], abs=0.05)
    assert cross.measured == (cross.n <= 512)


def test_curves_of_the_same_seeds_are_compared_in_pairs() -> None:
    """Both are off by the same factors, so that a small difference is a sure one."""
    sizes, offsets = 16 * 2 ** np.arange(5), 0.2 * np.array([-1.2, -0.6, 0.0, 0.6, 1.2])
    curves = []
    for draw, level, mark in ((0, 1.0, ""), (1, 0.93, ""), (1, 0.93, "!")):
        noise = 0.01 * np.random.default_rng(draw).standard_normal((5, 5))
        errors = level * sizes[:, None] ** -0.5 * np.exp(offsets + noise)
        names = [f"{seed}{mark}" for seed in "abcde"] * 5
        curves.append(kr.Curve(np.repeat(sizes, 5), errors.ravel(), names, metric="mse"))
    assert paired_correlation(curves[0], curves[1]) > 0.5
    target = float(curves[0].means[-1]) * 0.9
    paired, apart = (kr.compare(curves[0], other, target).odds([256])[0] for other in curves[1:])
    assert paired > apart > 0.5


# --- Where curves are known to cross -------------------------------------------------------------

SIX = np.array([16, 32, 64, 128, 256, 512])


@pytest.mark.parametrize(
    ("first", "second", "low", "high", "better"),
    [  # measured: where the means do
        (kr.Curve(N_128, KO_128, model="KO"), kr.Curve(N_128, FC_128, model="FC"), 256, 1024, "FC"),
        (kr.Curve.read(COLLAPSE, model="KO"), kr.Curve.read(COLLAPSE, model="FC"), 128, 256, "FC"),
        (kr.Curve(SIZES, [0.2, 0.19, 0.18, 0.17, 0.01], model="late"),  # of two changes, the last
         kr.Curve(SIZES, [0.24, 0.145, 0.092, 0.061, 0.044], model="steady"), 128, 256, "late"),
        (kr.Curve(4 ** np.arange(2, 6), 0.1 * (4 ** np.arange(2, 6) / 90) ** -0.1, model="flat"),
         kr.Curve(2 * 4 ** np.arange(2, 6), 0.1 * (4 ** np.arange(2, 6) / 45) ** -0.7, model="not"),
         76, 104, "not"),  # without a common N, they cross at 90
        # By one seed of unknown noise, eight times the pilot: at 8^4.
        (kr.Curve(SIX, 0.5 * SIX**-0.25, model="flat"), kr.Curve(SIX, 4.0 * SIX**-0.5, model="not"),
         2048, 6144, "not"),
    ],
)  # fmt: skip
def test_curves_cross_where_they_must(
    first: kr.Curve, second: kr.Curve, low: int, high: int, better: str
) -> None:
    target = float(min(first.means[-1], second.means[-1]))
    for pair in (kr.compare(first, second, target), kr.compare(second, first, target)):
        cross = pair.crossover
        assert cross is not None
        assert low < cross.n < high
        assert cross.lower <= cross.n <= cross.upper
        assert cross.better_after == better
        assert cross.measured == (high <= min(first.sizes[-1], second.sizes[-1]))
        assert f"N = {cross.n:,}" in pair.explain()


def test_curves_of_few_sizes_change_their_order_between_common_ones() -> None:
    first = kr.Curve([8, 16], [0.3, 0.25], model="KO")
    few = crossing(first, kr.Curve([8, 16], [0.5, 0.1], model="FC"))
    assert few is not None
    assert (few.crossover, few.means, few.better, few.last, few.sizes) == (
        None,
        (8, 16),
        "FC",
        16,
        2,
    )
    assert crossing(first, kr.Curve([32, 64], [0.5, 0.1])) is None
    worse = crossing(first, kr.Curve([8, 16, 32], [0.6, 0.5, 0.4], model="FC"))
    assert worse is not None
    assert (worse.crossover, worse.means, worse.better, worse.sizes) == (None, None, "KO", 2)
    none = beside(None, [8, 16], [0.1, 0.1], [0.1, 0.1])
    assert none.explanation.startswith("The curves do not clearly cross")
