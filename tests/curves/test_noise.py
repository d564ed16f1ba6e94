"""How seeds scatter: closed forms, and what resampling must keep."""

import statistics

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import relative_variance, resampled_means, weights

SEEDS = {4: [1.0, 1.4, 0.9], 16: [0.5], 64: [0.2, 0.3]}
ROWS = [(n, e, str(s)) for n, each in SEEDS.items() for s, e in enumerate(each)]
CURVE = kr.Curve([r[0] for r in ROWS], [r[1] for r in ROWS], [r[2] for r in ROWS])


def _expected() -> list[float]:
    """Each squared coefficient of variation drawn to the pooled one, which counts as 4 seeds."""
    free = {n: len(each) - 1 for n, each in SEEDS.items()}
    own = {
        n: statistics.variance(each) / statistics.mean(each) ** 2 if free[n] else 0.0
        for n, each in SEEDS.items()
    }
    pooled = sum(free[n] * own[n] for n in SEEDS) / sum(free.values())
    return [(free[n] * own[n] + 4 * pooled) / (free[n] + 4) / (free[n] + 1) for n in SEEDS]


def test_spreads_are_drawn_to_the_pooled_one() -> None:
    assert relative_variance(CURVE) == pytest.approx(_expected(), rel=1e-12)


def test_weights_are_one_over_the_variance() -> None:
    assert weights(CURVE) == pytest.approx(1 / (np.array(_expected()) * CURVE.means**2), rel=1e-12)


def test_one_seed_tells_no_spread_and_gives_equal_precision() -> None:
    curve = kr.Curve([4, 8, 16], [0.4, 0.2, 0.1])
    assert relative_variance(curve) is None
    assert weights(curve) == pytest.approx(1 / np.square([0.4, 0.2, 0.1]))


def test_seeds_that_agree_give_equal_precision() -> None:
    curve = kr.Curve([4, 4, 8, 8], [0.4, 0.4, 0.2, 0.2], ["a", "b", "a", "b"])
    assert weights(curve) == pytest.approx(1 / np.square([0.4, 0.2]))


def test_whole_seeds_are_drawn_together() -> None:
    """Where every seed is off by its own factor at all N, so is every mean of drawn seeds."""
    factors, levels = np.array([0.7, 1.0, 1.61]), np.array([1.0, 0.3, 0.1])
    n = np.repeat([4, 8, 16], 3)
    curve = kr.Curve(n, np.outer(levels, factors).ravel(), ["a", "b", "c"] * 3)
    drawn = resampled_means(curve, 500, np.random.default_rng(0))
    assert drawn / drawn[:, :1] == pytest.approx(np.tile(levels, (500, 1)))
    assert drawn.mean(axis=0) == pytest.approx(curve.means, rel=0.05)
    assert len(np.unique(drawn[:, 0].round(12))) == 10  # multisets of three out of three


def test_incomplete_seeds_are_drawn_at_each_size() -> None:
    drawn = resampled_means(CURVE, 2000, np.random.default_rng(0))
    assert drawn.shape == (2000, 3)
    assert drawn.mean(axis=0) == pytest.approx(CURVE.means, rel=0.02)
    assert np.unique(drawn[:, 1]).tolist() == [0.5]
    assert np.unique(drawn[:, 2].round(9)).tolist() == [0.2, 0.25, 0.3]
