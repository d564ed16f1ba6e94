"""What lies beyond a pilot: mixtures of normal laws, and what their prior makes of odd pilots."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

import korisk as kr
from korisk.curves.noise import lasting_share
from korisk.planning.futures.law import Law, joined, mixed, normals
from korisk.planning.futures.posterior import MOST_SIZES, posterior

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


# --- Odds -----------------------------------------------------------------------------------------

N = 16 * 2 ** np.arange(5)


def test_bands_get_narrower_with_every_size_of_an_exact_curve() -> None:
    widths = []
    for sizes in range(5, 13):
        n = 16 * 2 ** np.arange(sizes)
        band = kr.forecast(kr.Curve(n, n**-0.5)).at(4 * int(n[-1]))
        widths.append(math.log(band.upper / band.lower))
    assert all(after < 1.3 * before for before, after in itertools.pairwise(widths))
    assert widths[-1] < 0.1


def with_lasting_effects(effect: float, *, draw: int = 0, level: float = 1.0) -> kr.Curve:
    """Five seeds, each off by a factor of its own at every N, and 1% of other noise."""
    rng = np.random.default_rng(draw)
    offsets = effect * np.array([-1.2, -0.6, 0.0, 0.6, 1.2])
    error = level * N[:, None] ** -0.5 * np.exp(offsets + 0.01 * rng.standard_normal((5, 5)))
    return kr.Curve(np.repeat(N, 5), error.ravel(), list("abcde") * 5, metric="mse")


def test_seeds_that_are_off_everywhere_tell_the_shape_all_the_better() -> None:
    lasting = with_lasting_effects(0.2)
    assert lasting_share(lasting) > 0.6
    assert lasting_share(kr.Curve(N, N**-0.5)) == 0, "seeds without names are not paired"
    assert lasting_share(with_lasting_effects(0.0)) < 0.3
    shuffled = kr.Curve(lasting.n, lasting.error, np.random.default_rng(0).permuted(
        np.array(lasting.seed).reshape(5, 5), axis=1).ravel().tolist(), metric="mse")  # fmt: skip
    spread = []
    for curve in (lasting, shuffled):
        futures = posterior(curve)
        spread.append(futures.weight @ (futures.rate - futures.weight @ futures.rate) ** 2)
    assert spread[0] < spread[1]
