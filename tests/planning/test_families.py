"""Every family fits its own curves exactly, and noisy ones as well as a general optimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from korisk.planning.fit import FAMILIES, Family, Fits, least_squares, nonnegative

N = np.array([8.0, 16, 32, 64, 128, 256, 512])
FAR = np.array([1024.0, 4096, 16384])
SHAPES: dict[str, tuple[float, ...]] = {
    "power": (0.4,),
    "line": (),
    "log-power": (0.6,),
    "no-floor": (0.5,),
    "inverse-log": (),
    "shifted-power": (0.5, 0.3),
    "weibull": (0.4, 1.5),
    "mmf": (0.8, 2.0),
}


def exact(family: Family, floor: float, scale: float, shape: tuple[float, ...]) -> Fits:
    return Fits(
        family,
        N[-1],
        np.array([floor if family.has_floor else 0.0]),
        np.array([scale]),
        tuple(np.array([value]) for value in shape),
        np.zeros(1),
    )


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
@pytest.mark.parametrize("floor", [0.0, 0.02, 3.0])
def test_a_curve_of_the_family_is_found_again(family: Family, floor: float) -> None:
    truth = exact(family, floor, 0.1, SHAPES[family.name])
    errors = truth.predict(N)
    found = least_squares(family, N, errors, 1 / errors[0] ** 2)
    assert found.predict(FAR) == pytest.approx(truth.predict(FAR), rel=2e-3)
    if len(family.grids) < 2:  # two shape parameters can trade with each other a little
        assert found.predict(FAR) == pytest.approx(truth.predict(FAR), rel=1e-6)


@given(
    rate=st.floats(0.05, 1.0),
    floor=st.floats(0.0, 1.0),
    scale=st.floats(0.01, 10.0),
)
def test_power_laws_are_found_again(rate: float, floor: float, scale: float) -> None:
    truth = exact(FAMILIES["power"], floor, scale, (rate,))
    errors = truth.predict(N)
    found = least_squares(FAMILIES["power"], N, errors, np.ones(len(N)))
    assert found.predict(FAR) == pytest.approx(truth.predict(FAR), rel=1e-4)


@given(st.integers(0, 10**6))
def test_the_closed_form_is_nonnegative_least_squares(draw: int) -> None:
    rng = np.random.default_rng(draw)
    basis, errors, weights = rng.uniform(0, 2, 6), rng.uniform(-1, 2, 6), rng.uniform(0.1, 3, 6)
    floor, scale, loss = nonnegative(basis[None, :], errors[None, :], weights, True)
    root = np.sqrt(weights)
    reference, residual = nnls(np.stack([root, root * basis], axis=1), root * errors)
    assert loss[0, 0] == pytest.approx(residual**2, rel=1e-9, abs=1e-12)
    assert [floor[0, 0], scale[0, 0]] == pytest.approx(reference, rel=1e-6, abs=1e-9)


def loss_by_optimiser(
    family: Family, errors: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """The best weighted sum of squares that Nelder and Mead find from many starts."""

    def loss(shape: NDArray[np.float64]) -> float:
        inside = all(a <= s <= b for s, (a, b) in zip(np.exp(shape), family.limits, strict=True))
        if not inside:
            return 1e9
        values = tuple(np.array([[[s]]]) for s in np.exp(shape))
        basis = family.basis(np.log(N / N[-1]), float(np.log(N[-1])), values)[0]
        return float(nonnegative(basis, errors[None, :], weights, family.has_floor)[2].min())

    starts = np.random.default_rng(0).uniform(np.log(0.05), np.log(1.5), (8, len(family.grids)))
    return min(
        float(minimize(loss, start, method="Nelder-Mead", tol=1e-12).fun) for start in starts
    )


@pytest.mark.parametrize("name", ["power", "log-power", "no-floor", "shifted-power", "mmf"])
@pytest.mark.parametrize("draw", range(3))
def test_noisy_fits_are_no_worse_than_a_general_optimiser(name: str, draw: int) -> None:
    rng = np.random.default_rng(draw)
    errors = (0.05 + 0.8 * N**-0.6) * np.exp(0.1 * rng.standard_normal(len(N)))
    weights = 1 / errors**2
    weights = weights / weights.max()
    family = FAMILIES[name]
    found = least_squares(family, N, errors[None, :], weights)
    size = np.exp(np.log(errors).mean())  # losses are told for errors of unit size
    assert found.loss[0] <= loss_by_optimiser(family, errors / size, weights) * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_many_pilots_at_once_are_fitted_as_one_by_one(family: Family) -> None:
    rng = np.random.default_rng(1)
    errors = (0.05 + 0.8 * N**-0.6) * np.exp(0.1 * rng.standard_normal((300, len(N))))
    weights = np.linspace(1, 2, len(N))
    together = least_squares(family, N, errors, weights).predict(FAR)
    for row in (0, 17, 299):  # in the first chunk and in the last
        alone = least_squares(family, N, errors[row : row + 1], weights).predict(FAR)
        # Products of other shapes round otherwise, which a flat minimum magnifies.
        assert together[row] == pytest.approx(alone[0], rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
@pytest.mark.parametrize("factor", [1e-60, 3.7, 1e60])
def test_scaling_errors_scales_the_fit(family: Family, factor: float) -> None:
    rng = np.random.default_rng(2)
    errors = (0.05 + 0.8 * N**-0.6) * np.exp(0.1 * rng.standard_normal((1, len(N))))
    weights = np.ones(len(N))
    plain, scaled = (least_squares(family, N, errors * s, weights) for s in (1.0, factor))
    assert scaled.predict(FAR) == pytest.approx(factor * plain.predict(FAR), rel=1e-6)
    assert scaled.floor == pytest.approx(factor * plain.floor, rel=1e-4, abs=1e-9 * factor)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_curves_fall_and_stay_above_their_floor(family: Family) -> None:
    rng = np.random.default_rng(3)
    errors = rng.uniform(0.1, 1.0, (50, len(N)))
    found = least_squares(family, N, errors, np.ones(len(N)))
    predicted = found.predict(np.geomspace(8, 1e9, 60))
    assert (np.diff(predicted, axis=1) <= 1e-12).all()
    assert (predicted >= found.floor[:, None] - 1e-12).all()
    assert (found.floor >= 0).all()
