"""The pooled band and the resamples behind it."""

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import relative_variance, resampled_means, weights
from korisk.planning.fit import _pooled, pooled_band
from pilots import FC_128, N_128, power_pilot

FAR = np.array([700.0, 2000.0, 16000.0])


def test_resampled_means_scatter_as_theory_says() -> None:
    curve = power_pilot(seeds=8, noise=0.2)
    drawn = resampled_means(curve, 20_000, np.random.default_rng(0))
    assert drawn.mean(axis=0) == pytest.approx(curve.means, rel=0.01)
    expected = curve.deviations * np.sqrt(7 / 8) / np.sqrt(8)
    assert drawn.std(axis=0) == pytest.approx(expected, rel=0.03)


def test_whole_seeds_are_drawn_where_they_are_whole() -> None:
    """Two seeds, one always above the other: every resample keeps their difference."""
    curve = kr.Curve([4, 4, 8, 8], [1.0, 3.0, 2.0, 6.0], ["a", "b", "a", "b"])
    drawn = resampled_means(curve, 200, np.random.default_rng(0))
    assert np.array_equal(drawn[:, 1], 2 * drawn[:, 0])
    assert set(drawn[:, 0]) == {1.0, 2.0, 3.0}


def test_missing_cells_leave_each_n_its_own_seeds() -> None:
    curve = kr.Curve([4, 4, 8], [1.0, 3.0, 2.0], ["a", "b", "a"])
    drawn = resampled_means(curve, 500, np.random.default_rng(0))
    assert set(drawn[:, 0]) == {1.0, 2.0, 3.0}
    assert set(drawn[:, 1]) == {2.0}


def test_a_noisier_size_weighs_less() -> None:
    rng = np.random.default_rng(0)
    errors = np.concatenate([1 + 0.01 * rng.standard_normal(20), 1 + 0.3 * rng.standard_normal(20)])
    curve = kr.Curve(np.repeat([4, 8], 20), np.abs(errors), list(range(20)) * 2)
    heavy, light = weights(curve)
    assert heavy > 8 * light  # less than the 900 of their variances: spreads are pooled
    assert relative_variance(kr.Curve([4, 8], [1.0, 0.5])) is None


@pytest.mark.parametrize("fit", ["power", "paper", "aic"])
def test_the_band_lies_around_the_curve_and_widens(fit: str) -> None:
    found = kr.calibrate(power_pilot(), fit)
    low, high = pooled_band(found).at(FAR)
    middle = found.predict(FAR)
    assert (low < middle).all()
    assert (middle < high).all()
    assert (np.diff(high / low) > 0).all()


def test_the_band_is_the_same_every_time() -> None:
    found = kr.calibrate(power_pilot())
    first = pooled_band(found).at(FAR)
    _pooled.cache_clear()
    assert np.array_equal(first, pooled_band(found).at(FAR))


def test_one_seed_leaves_the_disagreement_of_families() -> None:
    low, high = pooled_band(kr.calibrate(kr.Curve(N_128[:4], FC_128[:4]))).at(np.array([2048.0]))
    assert low[0] < FC_128[-1] < high[0]
