"""Computed curves of dense layers, plain and behind a ReLU, against simulated ridge regression."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from korisk.prediction.dense.spectral import (
    CLIPPED_AT,
    ROUNDING,
    Spectrum,
    clipped_share,
    clipping,
    spectrum,
)

Array = NDArray[np.float64]

DIRECTIONS, OUTPUTS = 40, 4
EVEN = np.ones(1)
UNEVEN = np.array([0.03, 0.03, 0.03, 3.91])  # squared brightness, mean one
SIZES = (6, 25, 40, 60, 160)
MANY = np.array([1.0, 2, 3, 5, 8, 13, 39, 40, 41, 64, 200, 1e3, 1e4, 1e7])


def rotated(seed: int, *, rest: float) -> tuple[Array, Array, float]:
    """C, M* and r of inputs whose eigenvectors are not the axes."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((DIRECTIONS, DIRECTIONS)))[0]
    second = turn * np.arange(1, DIRECTIONS + 1) ** -1.0 @ turn.T
    best = rng.standard_normal((OUTPUTS, DIRECTIONS))
    return second, best, rest


def computed(second: Array, best: Array, rest: float, scales: Array = EVEN) -> Spectrum:
    energy = float(np.trace(best @ second @ best.T)) + rest
    return spectrum(second, best @ second, energy, scales=scales)[0]


def simulated(second: Array, best: Array, rest: float, n: int, scales: Array = EVEN) -> float:
    """Ridge at the penalty that is best on average, of x = s z and y = M* x + s e."""
    rng = np.random.default_rng(n)
    repetitions = 200
    bright = np.sqrt(rng.choice(scales, (repetitions, n, 1)))
    factor = np.linalg.cholesky(second)
    x = bright * rng.standard_normal((repetitions, n, DIRECTIONS)) @ factor.T
    noise = bright * np.sqrt(rest / OUTPUTS) * rng.standard_normal((repetitions, n, OUTPUTS))
    turned = x.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(turned @ x)
    right = vectors.swapaxes(1, 2) @ (turned @ (x @ best.T + noise))
    errors = []
    for penalty in n * np.logspace(-4, 1, 21):
        off = vectors @ (right / (np.maximum(values, 0) + penalty)[..., None]) - best.T
        errors.append(np.einsum("rio,ij,rjo->r", off, second, off, optimize=True).mean())
    return float(min(errors) + rest) / OUTPUTS


@pytest.mark.parametrize("n", SIZES)
def test_it_is_the_error_of_ridge_at_its_best(n: int) -> None:
    """Images of uneven brightness count for fewer."""
    for rest in (0.5, 4.0):
        known = rotated(0, rest=rest)
        assert computed(*known).errors(n)[0] == pytest.approx(simulated(*known, n), rel=0.05)
    known = rotated(1, rest=0.5)
    measured = simulated(*known, n, UNEVEN)
    assert computed(*known, UNEVEN).errors(n)[0] == pytest.approx(measured, rel=0.05)
    if n > DIRECTIONS:
        assert computed(*known).errors(n)[0] < 0.9 * measured


def direct(made: Spectrum, n: float) -> float:
    """E(N) with kappa solved from sum L + delta / kappa = N, at the best delta."""

    def error(log_delta: float) -> float:
        delta = np.exp(log_delta)

        def surplus(log_kappa: float) -> float:
            kappa = np.exp(log_kappa)
            return float((made.values / (made.values + kappa)).sum() + delta / kappa - n)

        kappa = np.exp(brentq(surplus, -60, 60))
        kept = made.values / (made.values + kappa)
        bias = (1 - kept) ** 2 @ made.signal + made.rest
        return float(n / (n - (kept**2).sum()) * bias / made.entries)

    found = minimize_scalar(error, bounds=(-18, 12), method="bounded")
    return min(float(found.fun), *(error(each) for each in np.linspace(-18, 12, 13)))


@pytest.mark.parametrize("rest", [1e-4, 0.3])
def test_it_solves_the_published_equations(rest: float) -> None:
    made = computed(*rotated(2, rest=rest))
    for n in (1, 4, 17, 39, 40, 41, 70, 2000):
        assert made.errors(n)[0] == pytest.approx(direct(made, n), rel=1e-3)


def test_a_penalty_below_zero_is_none() -> None:
    """Many faint directions act as a penalty; one below zero would make up for it."""
    values, signal = np.repeat([100.0, 1.0], [5, 2000]), np.repeat([1.0, 0.0], [5, 2000])
    made = Spectrum(values, signal, 1e-3, EVEN, 1)
    for n in (20, 50, 200):
        assert made.errors(n)[0] == pytest.approx(direct(made, n), rel=1e-3)


@pytest.mark.parametrize("scales", [EVEN, UNEVEN, np.array([0.0, 0.0, 1.0])])
def test_curves_fall_from_all_the_energy_to_the_rest(scales: Array) -> None:
    made = computed(*rotated(4, rest=0.1), scales)
    errors = made.errors(MANY)
    assert (np.diff(errors) <= 0).all()
    assert (errors >= made.floor).all()
    assert (errors <= made.energy / OUTPUTS * (1 + 1e-2)).all()
    assert errors[-1] == pytest.approx(made.floor, rel=1e-4)
    assert made.floor == pytest.approx(0.1 / OUTPUTS)
    clean = computed(*rotated(5, rest=0.0), scales)  # without noise, rounding alone is left
    errors = clean.errors([39, 1e7])
    assert errors[0] > 1e-4
    assert ROUNDING * clean.energy / OUTPUTS * 0.99 <= errors[1] < 1e-9


def test_a_counted_eigenvalue_is_as_many_equal_ones() -> None:
    counts = np.array([1, 3, 2])
    values = np.array([4.0, 1.0, 0.1])
    counted = Spectrum(values, np.ones(3), 0.3, UNEVEN, 2, counts)
    spread = Spectrum(values.repeat(counts), (1 / counts).repeat(counts), 0.3, UNEVEN, 2)
    assert counted.errors(MANY) == pytest.approx(spread.errors(MANY))
    assert counted.rank == spread.rank == 6


def test_directions_without_signal_have_no_rank() -> None:
    second = np.diag([1.0, 1e-9, 0.0, 0.0])
    best = np.diag([1.0, 1e4, 1.0, 1.0])  # of which a faint direction tells 0.1
    made, vectors = spectrum(second, best @ second, 5.0, scales=EVEN, parameters=16)
    assert made.rank == 2
    assert made.rest == pytest.approx(3.9)  # what the inputs do not show
    assert made.parameters == 16
    assert np.abs(vectors.T @ vectors - np.eye(4)).max() < 1e-12


def test_a_relu_multiplies_the_curve_and_its_floor() -> None:
    plain = computed(*rotated(8, rest=0.2))
    clipped = replace(plain, gain=np.linspace(0.8, 0.5, len(CLIPPED_AT)))
    ratio = clipped.errors([1, 2, 3, 2**15, 1e6]) / plain.errors([1, 2, 3, 2**15, 1e6])
    between = 0.78 - 0.02 * np.log2(1.5)  # straight in log N
    assert ratio == pytest.approx([0.8, 0.78, between, 0.5, 0.5])
    assert clipped.floor == pytest.approx(0.5 * plain.floor)


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


def test_the_share_at_its_ends() -> None:
    """Predictions far above zero are left alone; those below zero come back to it."""
    ten, one, zero = np.full((3, 5), 10.0), np.ones((2, 3)), np.zeros((2, 3))
    assert clipped_share(ten + 0.5, np.full((3, 5), 0.04), ten) == pytest.approx(1.0)
    assert clipped_share(ten + 0.5, np.zeros((3, 5)), ten) == pytest.approx(1.0)
    below = np.array([[-1.0, -3.0]])
    assert clipped_share(below, np.zeros((1, 2)), np.ones((1, 2))) == pytest.approx(2 / 20)
    assert clipped_share(one, zero, one) == pytest.approx(1.0)  # no error, nothing to take off
    assert 0 <= clipped_share(zero, zero, zero) <= 1


def images(count: int, seed: int) -> Array:
    """Dark backgrounds with something bright on them: nonnegative, and mostly zero."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.exponential(size=(count, 16)) * (rng.random((count, 16)) < 0.3))


def test_it_predicts_ridge_behind_a_relu() -> None:
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
        assert found[n == CLIPPED_AT][0] == pytest.approx(measured, rel=close)
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
