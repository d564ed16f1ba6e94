"""What a ReLU takes off an error: against draws, and against ridge regression behind a ReLU."""

import numpy as np
import pytest
from numpy.typing import NDArray

from korisk.prediction.dense.clipping import SIZES, clipped_share, clipping
from korisk.prediction.dense.spectral import spectrum

Array = NDArray[np.float64]


@pytest.mark.parametrize("lowest", [0.0, -1.5])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_it_is_the_share_of_normal_predictions(lowest: float, scale: float) -> None:
    """Also of targets below zero, which a ReLU cannot reach: there it does harm."""
    rng = np.random.default_rng(0)
    targets = np.maximum(rng.normal(0, 1, (4, 6)), lowest)
    mean, deviation = targets + rng.normal(0, 0.2, (4, 6)), rng.uniform(0.05, 0.6, (4, 6))
    drawn = mean + deviation * rng.standard_normal((40_000, 4, 6))
    expected = ((np.maximum(drawn, 0) - targets) ** 2).sum() / ((drawn - targets) ** 2).sum()
    found = clipped_share(scale * mean, (scale * deviation) ** 2, scale * targets)
    assert found == pytest.approx(expected, rel=0.01)
    assert (found > 1) == (lowest < 0)


def test_predictions_far_above_zero_are_left_alone() -> None:
    targets = np.full((3, 5), 10.0)
    assert clipped_share(targets + 0.5, np.full((3, 5), 0.04), targets) == pytest.approx(1.0)
    assert clipped_share(targets + 0.5, np.zeros((3, 5)), targets) == pytest.approx(1.0)


def test_predictions_below_zero_come_back_to_it() -> None:
    targets, mean = np.ones((1, 2)), np.array([[-1.0, -3.0]])
    assert clipped_share(mean, np.zeros((1, 2)), targets) == pytest.approx(2 / 20)


def test_a_layer_without_error_has_nothing_to_take_off() -> None:
    targets = np.ones((2, 3))
    assert clipped_share(targets, np.zeros((2, 3)), targets) == pytest.approx(1.0)
    empty = np.zeros((2, 3))
    assert 0 <= clipped_share(empty, empty, empty) <= 1


def images(count: int, seed: int) -> Array:
    """Dark backgrounds with something bright on them: nonnegative, and mostly zero."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.exponential(size=(count, 16)) * (rng.random((count, 16)) < 0.3))


def test_it_foretells_ridge_behind_a_relu() -> None:
    rng = np.random.default_rng(1)
    forward, level = rng.standard_normal((20, 16)), 1.0
    known = images(200_000, 0)
    moment = known.T @ known / len(known)
    second = forward @ moment @ forward.T + level**2 * np.eye(20)
    cross = moment @ forward.T
    energies = np.diag(moment)
    made, vectors = spectrum(second, cross, float(energies.sum()), scales=np.ones(1))
    some = images(300, 2)
    inputs = some @ forward.T + level * rng.standard_normal((300, 20))
    found = clipping(made, vectors, cross, energies, inputs, some)
    for n, close in ((8, 0.07), (32, 0.05), (64, 0.015), (512, 0.015)):
        threshold, effective, _ = made.filter(n)
        kept = made.values / (made.values + threshold)
        penalty = threshold * (effective - kept.sum())  # delta of the threshold
        measured = ridge_share(forward, level, n, penalty)
        assert found.factor[n == SIZES][0] == pytest.approx(measured, rel=close)
        assert measured < 0.95


def ridge_share(forward: Array, level: float, n: int, penalty: float) -> float:
    """The squared error of ReLU(M x) over that of M x, of M fitted with that penalty."""
    rng = np.random.default_rng(n)
    tested = images(2000, 3)
    test = tested @ forward.T + level * rng.standard_normal((2000, 20))
    clipped = linear = 0.0
    for seed in range(30):
        y = images(n, 100 + seed)
        x = y @ forward.T + level * rng.standard_normal((n, 20))
        made = test @ np.linalg.solve(x.T @ x + penalty * np.eye(20), x.T @ y)
        clipped += float(np.square(np.maximum(made, 0) - tested).sum())
        linear += float(np.square(made - tested).sum())
    return clipped / linear
