"""Laws, tables of chances, odds between two curves: against closed forms and plain simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

import korisk as kr
from korisk.curves.noise import paired_correlation
from korisk.planning.chances import Chances, table
from korisk.planning.compare import Crossing, Crossover
from korisk.planning.futures.law import Law, joined, mixed, normals, recalibrated, turned
from korisk.planning.futures.posterior import MOST_SIZES, posterior
from pilots import power_pilot

Array = NDArray[np.float64]

levels = st.floats(0.001, 0.999)
components = st.lists(
    st.tuples(st.floats(0.05, 1.0), st.floats(-5, 5), st.floats(0.05, 3.0)), min_size=1, max_size=4
)


def mixture(parts: list[tuple[float, float, float]], sizes: int = 2) -> tuple[Law, Array]:
    """A mixture of normal laws at several sizes, which lie one apart, and its parts as columns."""
    weight, mean, deviation = np.array(parts).T
    weight = weight / weight.sum()
    spread = np.broadcast_to(deviation[:, None], (len(parts), sizes))
    law = normals(weight, mean[:, None] + np.arange(sizes), spread)
    return law, np.array([weight, mean, deviation])


@settings(max_examples=40)
@given(components, levels)
def test_quantiles_of_mixtures_are_the_roots_of_their_distribution(
    parts: list[tuple[float, float, float]], p: float
) -> None:
    law, (weight, mean, deviation) = mixture(parts)

    def under(error: float) -> float:
        return float(weight @ ndtr((error - mean) / deviation))

    root = float(brentq(lambda error: under(error) - p, -60, 60, xtol=1e-12))
    found = law.quantile(p)
    # Where the density is low, a root is known less well than its probability.
    assert [under(found[0]), under(found[1] - 1)] == pytest.approx([p, p], abs=1e-5)
    assert found[1] - found[0] == pytest.approx(1, abs=1e-4)
    assert (law.low < found).all()
    assert (found < law.high).all()
    assert abs(found[0] - root) < 1e-4 or under(found[0]) == pytest.approx(p, abs=1e-6)
    assert law.under(law.low) == pytest.approx([0, 0], abs=1e-15)
    assert law.under(law.high) == pytest.approx([1, 1], abs=1e-15)
    assert law.high[0] - law.low[0] < 20 * (np.ptp(mean) + deviation.max())


@given(st.floats(0.05, 0.95), st.floats(-0.5, 0.5), st.floats(0.5, 2))
def test_recalibration_is_linear_in_normal_scores(p: float, offset: float, slope: float) -> None:
    value = float(turned(np.array([p]), offset, slope)[0])
    assert ndtri(value) == pytest.approx(offset + slope * ndtri(p), abs=1e-6)
    law = recalibrated(normals(np.ones(1), np.zeros((1, 1)), np.ones((1, 1))), offset, slope)
    assert law.quantile(p)[0] == pytest.approx((ndtri(p) - offset) / slope, abs=1e-4)


def test_laws_are_mixed_by_their_shares_and_joined_in_order() -> None:
    first, second = mixture([(1.0, 0.0, 1.0)], 3)[0], mixture([(1.0, 4.0, 0.5)], 3)[0]
    both, errors = mixed([0.3, 0.7], [first, second]), np.array([0.5, 4.9, 6.0])
    expected = 0.3 * first.under(errors) + 0.7 * second.under(errors)
    assert both.under(errors) == pytest.approx(expected)
    assert both.under(both.low) == pytest.approx(np.zeros(3), abs=1e-15)
    assert both.under(both.high) == pytest.approx(np.ones(3), abs=1e-15)
    inside = np.array([False, True, False])
    alone = mixture([(1.0, 1.0, 1.0)], 1)[0]
    outside = normals(np.ones(1), np.array([[7.0, 9.0]]), np.ones((1, 2)))
    assert joined(inside, alone, outside).quantile(0.5) == pytest.approx([7, 1, 9], abs=1e-5)


# --- Tables --------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.floats(4, 9), st.floats(0.02, 2.0), st.floats(0.05, 0.95))
def test_a_table_finds_the_n_of_every_level(centre: float, deviation: float, p: float) -> None:
    """log N is normal: its quantiles are known, however steep the probability rises."""
    grid = 2.0 ** np.arange(1, 21, 1 / 8)
    made = table(lambda n: ndtr((np.log(n) - centre) / deviation), grid)
    truth = math.exp(centre + deviation * ndtri(p))
    tolerance = 0.05 * deviation + 2e-3  # a step of the table is at most 4% of probability
    if grid[0] < truth < grid[-1]:
        assert math.log(made.first(p) / truth) == pytest.approx(0, abs=tolerance)
        assert made.at(made.first(p)) == pytest.approx(p, abs=1e-9)
    assert (np.diff(made.n) > 0).all()
    jumps = (np.diff(made.p) > 0.04) & (np.diff(made.n) > 1.0)
    assert not jumps.any()
    assert len(made.n) < 3 * len(grid)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), levels)
def test_the_smallest_whole_n_of_a_level_is_the_smallest(values: list[float], p: float) -> None:
    odds = Chances(np.array([2.0, 5, 9, 17, 30, 60])[: len(values)], np.sort(values))
    every = [n for n in range(1, int(odds.n[-1]) + 1) if odds.at(n) >= p]
    n = odds.smallest(p)
    if every and every[0] > odds.n[0]:
        assert n == every[0]
    elif every:
        assert n == odds.n[0]
    else:
        assert n is None
        assert odds.first(p) == math.inf
    lower, upper = odds.interval()
    if math.isfinite(lower):
        assert odds.n[0] <= lower <= max(odds.first(0.05), odds.n[0])
        assert lower > odds.first(0.05) - 1
    if math.isfinite(upper):
        assert odds.first(0.95) <= upper < odds.first(0.95) + 1


# --- Two curves ----------------------------------------------------------------------------------


def coupled(first: Law, second: Law, correlation: Array, low: float, high: float) -> Array:
    """P(second < first) of a Gaussian copula, as an integral over the first error."""
    count = len(correlation)
    errors = np.linspace(low, high, 600)
    below = [np.array([law.under(np.full(count, e)) for e in errors]) for law in (first, second)]
    mass = np.diff(below[0], axis=0)
    scores = [ndtri(np.clip(0.5 * (b[1:] + b[:-1]), 1e-12, 1 - 1e-12)) for b in below]
    given_first = ndtr((scores[1] - correlation * scores[0]) / np.sqrt(1 - correlation**2))
    return np.asarray((mass * given_first).sum(axis=0))


def test_odds_are_those_of_coupled_laws() -> None:
    """Paired seeds inside both pilots, nothing shared between their ends, and 0.2 beyond."""
    seeds = np.array([-0.12, -0.05, 0.0, 0.06, 0.11])
    n = np.array([16, 32, 64, 128])
    rng = np.random.default_rng(3)
    first, second = (
        kr.Curve(
            np.repeat(n * factor, 5),
            (level * (n * factor) ** -0.4)[:, None].repeat(5, 1).ravel()
            * np.exp(np.tile(seeds, 4) + 0.02 * rng.standard_normal(20)),
            list("abcde") * 4,
        )
        for level, factor in ((1.0, 1), (1.04, 2))
    )
    shared = paired_correlation(first, second)
    assert shared > 0.4
    made = kr.compare(first, second, 0.1)
    sizes = np.array([40.0, 100.0, 200.0, 400.0, 2000.0])
    correlation = np.array([shared, shared, 0.0, 0.2, 0.2])
    laws = made.first.forecast.law(sizes), made.second.forecast.law(sizes)
    expected = coupled(laws[0], laws[1], correlation, -4.5, -0.5)
    assert made.odds(sizes) == pytest.approx(expected, abs=0.01)
    back = kr.compare(second, first, 0.1)
    assert back.odds(sizes) == pytest.approx(1 - made.odds(sizes), abs=1e-6)


def test_at_the_ends_of_a_crossover_odds_are_its_levels() -> None:
    n = np.array([16, 32, 64, 128, 256, 512])
    flat = power_pilot(0.05, 0.4, 0.6, noise=0.03)
    steep = power_pilot(0.0, 1.1, 0.5, noise=0.03, draw=1)
    flat = kr.Curve(flat.n, flat.error, flat.seed, "flat")
    steep = kr.Curve(steep.n, steep.error, [f"{seed}!" for seed in steep.seed], "steep")
    made = kr.compare(flat, steep, 0.06)
    cross, back = made.crossover, kr.compare(steep, flat, 0.06).crossover
    assert cross is not None
    assert back is not None
    assert cross.better_after == back.better_after == "steep"
    assert (cross.n, cross.measured) == (back.n, back.measured)
    assert (cross.lower, cross.upper) == pytest.approx((back.lower, back.upper), rel=1e-3)
    odds = made.odds([cross.lower, cross.n, cross.upper])
    assert odds == pytest.approx([0.05, 0.5, 0.95], abs=0.05)
    assert cross.measured == (cross.n <= n[-1])


@pytest.mark.parametrize(
    ("cross", "ahead", "means", "agrees"),
    [
        (None, [False, True, False, True], (32, 64), False),  # the last change
        (20, [False, True, False, True], (16, 32), True),  # the one at the crossover
        (40, [False, True, True, True], (8, 16), False),
        (16, [False, True, True, True], (8, 16), True),
        (8, [False, True, True, True], (8, 16), True),
        (20, [True, True, True, True], None, False),
    ],
)
def test_of_several_changes_of_order_the_one_at_the_crossover_counts(
    cross: int | None, ahead: list[bool], means: tuple[int, int] | None, agrees: bool
) -> None:
    crossover = None if cross is None else Crossover(cross, math.nan, math.nan, "FC", True)
    made = Crossing.of_means(crossover, [8, 16, 32, 64], ahead, ("KO", "FC"))
    assert (made.means, made.agrees) == (means, agrees)
    assert (made.better, made.last, made.sizes) == ("FC", 64, 4)


# --- Pilots of many sizes, collapsed sizes, and steps --------------------------------------------


@pytest.mark.parametrize("sizes", [MOST_SIZES, MOST_SIZES + 1, 80])
def test_a_pilot_of_many_sizes_is_merged_into_few(sizes: int) -> None:
    n = np.unique(np.geomspace(16, 16_000, sizes).astype(int))
    curve = kr.Curve(n, 0.02 + n**-0.5)
    pilot = posterior(curve).pilot
    assert (len(pilot.x) == sizes) == (sizes <= MOST_SIZES)
    assert MOST_SIZES // 2 < len(pilot.x) <= MOST_SIZES
    assert (pilot.x[-1], pilot.last) == (1.0, n[-1])
    assert pilot.y[-1] == pytest.approx(math.log(curve.means[-1]))
    assert (np.diff(pilot.x) > 0).all()
    exactly = 1e-12 if sizes <= MOST_SIZES else 0.01
    np.testing.assert_allclose(np.exp(pilot.y), 0.02 + (pilot.x * n[-1]) ** -0.5, rtol=exactly)


def test_a_step_in_the_means_makes_room_for_larger_drifts() -> None:
    n = [4, 8, 16, 32, 64, 128, 256]
    step = posterior(kr.Curve(n, [1.0, 1.0, 1.0, 1.0, 0.01, 0.01, 0.01]))
    calm = posterior(kr.Curve(n, [n**-0.5 for n in n]))
    assert calm.misfit >= 0.01
    assert step.misfit >= 0.01 or step.prior.drifts[-1] >= 16 * 0.35
    assert calm.prior.drifts == extended(calm.prior.drifts, 0)
    rounds = (len(step.prior.drifts) - len(calm.prior.drifts)) // 2
    assert rounds >= 1
    assert step.prior.drifts == extended(calm.prior.drifts, rounds)
    for kind, wider in zip(calm.prior.kinds, step.prior.kinds, strict=True):
        added = wider.drift_weights[len(kind.drift_weights) :]
        assert added[:2] == pytest.approx([0.1 * kind.drift_weights[-1]] * 2)
    assert step.roughness > 0.35 > calm.roughness


def extended(drifts: tuple[float, ...], rounds: int) -> tuple[float, ...]:
    """Drifts after rounds that each add twice and four times the largest."""
    for _ in range(rounds):
        drifts = (*drifts, 2 * drifts[-1], 4 * drifts[-1])
    return drifts


def test_collapsed_sizes_are_no_part_of_the_curve() -> None:
    n, errors = [16, 32, 64, 128, 256], [0.4, 0.3, 0.2, 1e-25, 1e-26]
    made = posterior(kr.Curve(n, errors))
    assert (len(made.pilot.x), made.last) == (3, 64.0)
    alone = posterior(kr.Curve(n, [0.4, 1e-25, 1e-25, 1e-25, 1e-26]))
    assert len(alone.pilot.x) == 5  # one size has no shape: all are taken
