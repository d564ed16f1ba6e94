"""Diagonal, Matrix, Fourier, Diffusion and Tikhonov against NumPy, SciPy and closed forms."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators.basic import Diagonal, Diffusion, Fourier, Identity, Matrix
from korisk.operators.linear import LinearOperator
from korisk.operators.tikhonov import Tikhonov


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def spectral_norm(operator: LinearOperator) -> float:
    return float(np.linalg.norm(operator.double().as_matrix().numpy(), 2))


def test_diagonal_is_a_diagonal_matrix_whose_norm_follows_its_weights() -> None:
    weights = draw(2, 3)
    operator = Diagonal(weights, trainable=True)
    assert torch.equal(operator.as_matrix(), torch.diag(weights.flatten()))
    assert operator.norm().is_point
    assert operator.norm().upper == float(weights.abs().max())
    with torch.no_grad():
        operator.weights[0, 1] = -40
    assert operator.norm().upper == 40
    assert not operator.nonnegative
    assert Diagonal([0.0, 1.0]).nonnegative
    assert Matrix([[0.0, 1.0]]).nonnegative


def test_weights_are_a_copy_in_the_tensors_precision_or_the_default() -> None:
    assert Diagonal(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    for ints in (np.ones(2), [1, 2], torch.tensor([1, 2])):
        assert Diagonal(ints).dtype == torch.get_default_dtype()
    frozen, weights = np.ones(3), torch.ones(3)
    frozen.flags.writeable = False
    for entries in (frozen, frozen[::-1], weights):
        operator = Diagonal(entries)
        operator.weights.mul_(2)
        assert float(operator.norm().upper) == 2
    assert torch.equal(weights, torch.ones(3))
    for trainable in (False, True):
        operator = Diagonal(draw(3), trainable=trainable)
        other = Diagonal(torch.zeros(3, dtype=torch.float64), trainable=trainable)
        other.load_state_dict(operator.state_dict())
        assert torch.equal(other.weights, operator.weights)
        assert len(list(operator.parameters())) == trainable


def test_gradients_reach_weights_through_a_composition_and_its_adjoint() -> None:
    weights = Diagonal(draw(4), trainable=True)
    whole = Matrix(draw(3, 4)) @ weights @ Matrix(draw(4, 5))
    for operator, name in ((whole, "parts.1.weights"), (whole.T, "parts.1.of.weights")):
        x = draw(operator.domain[0], seed=3)
        assert torch.autograd.gradcheck(
            lambda w, operator=operator, name=name, x=x: torch.func.functional_call(
                operator, {name: w}, (x,)
            ),
            (weights.weights,),
        )


def test_matrix_with_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    values = draw(6, 8)
    operator = Matrix(values, domain=(2, 4), range=(3, 2))
    x, y = draw(5, 2, 4), draw(5, 3, 2)
    torch.testing.assert_close(operator(x).reshape(5, 6), x.reshape(5, 8) @ values.t())
    torch.testing.assert_close(operator.adjoint(y).reshape(5, 8), y.reshape(5, 6) @ values)
    assert torch.equal(operator.as_matrix(), values)
    norm = np.linalg.norm(values.numpy(), 2)
    assert operator.norm().upper == pytest.approx(norm, rel=1e-13)
    monkeypatch.setattr("korisk.operators.basic._LARGEST_DECOMPOSED", 4)
    assert "Lanczos" in operator.norm().how
    assert operator.norm().lower <= norm <= operator.norm().upper


def complex_of(x: Tensor) -> Any:
    return x.numpy()[..., 0] + 1j * x.numpy()[..., 1]


def numpy_transform(image: Any, dims: int) -> Any:
    axes = tuple(range(-dims, 0))
    shifted = np.fft.ifftshift(image, axes=axes)
    return np.fft.fftshift(np.fft.fftn(shifted, axes=axes, norm="ortho"), axes=axes)


@pytest.mark.parametrize("shape", [(7,), (4, 6), (5, 4), (2, 3, 4)])
def test_fourier_is_numpys_centred_transform(shape: tuple[int, ...]) -> None:
    operator = Fourier(shape, dtype=torch.float64)
    x = draw(3, *shape, 2)
    wanted = numpy_transform(complex_of(x), len(shape))
    np.testing.assert_allclose(complex_of(operator(x)), wanted, atol=1e-13)
    torch.testing.assert_close(operator.adjoint(operator(x)), x)


def test_masks_keep_columns_or_rows_and_real_images_are_complex_ones() -> None:
    operator = Fourier((4, 6), [1, 0, 0, 1, 0, 0])
    samples = operator(draw(4, 6, 2).float())
    assert torch.equal(samples.abs().sum((0, 2)) > 0, torch.tensor([1, 0, 0, 1, 0, 0]).bool())
    assert operator.acceleration == 3
    rows = Fourier((4, 6), np.array([[1], [0], [1], [0]]))
    assert torch.equal(rows.mask.sum(1), torch.tensor([6, 0, 6, 0]))
    y = draw(4, 6, 2).float()
    holes = y.clone()
    holes[:, [1, 2, 4, 5]] = math.nan
    assert torch.equal(operator.adjoint(holes), operator.adjoint(y))
    mask = draw(4, 6) > 0
    real = Fourier((4, 6), mask, real=True, dtype=torch.float64)
    full = Fourier((4, 6), mask, dtype=torch.float64)
    x, y = draw(4, 6), draw(4, 6, 2)
    torch.testing.assert_close(real(x), full(torch.stack([x, torch.zeros_like(x)], -1)))
    torch.testing.assert_close(real.adjoint(y), full.adjoint(y)[..., 0])


MASKS: list[tuple[tuple[int, ...], list[Any], float]] = [
    ((6,), [1, 0, 0, 0, 0, 0], 1.0),  # -n/2 is its own mirror
    ((6,), [0, 0, 0, 1, 0, 0], 1.0),  # so is the origin
    ((6,), [0, 0, 0, 0, 1, 1], math.sqrt(0.5)),  # each pair once
    ((6,), [0, 1, 0, 0, 0, 1], 1.0),  # -2 and 2
    ((7,), [1, 0, 0, 0, 0, 0, 0], math.sqrt(0.5)),
    ((7,), [1, 0, 0, 0, 0, 0, 1], 1.0),
    ((4, 3), [[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]], 1.0),  # (-1, -1) and (1, 1)
    ((4, 3), [[0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]], math.sqrt(0.5)),
    ((4, 3), [[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]], math.sqrt(0.5)),
]


@pytest.mark.parametrize(("shape", "mask", "norm"), MASKS)
def test_norm_for_real_images(shape: tuple[int, ...], mask: list[Any], norm: float) -> None:
    operator = Fourier(shape, mask, real=True, dtype=torch.float64)
    assert operator.norm().is_point
    assert operator.norm().upper == pytest.approx(norm, rel=1e-15)
    assert spectral_norm(operator) == pytest.approx(norm, rel=1e-13)
    assert Fourier(shape, mask).norm().upper == 1
    assert spectral_norm(Fourier(shape, mask, dtype=torch.float64)) == pytest.approx(1, rel=1e-13)


def flow(points: int, **changes: float) -> Diffusion:
    given = {"viscosity": 0.02, "speed": 0.7, "time": 0.3, "length": 1.5, **changes}
    return Diffusion(points, dtype=torch.float64, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("points", [1, 2, 3, 8, 9])
def test_diffusion_is_the_exponential_of_its_generator(points: int) -> None:
    # The generator is F^H (-nu k^2 - i c k) F.
    k = 2 * np.pi / 1.5 * np.fft.fftfreq(points, 1 / points)
    transform = np.fft.fft(np.eye(points), norm="ortho")
    rates = -0.02 * k**2 - 1j * 0.7 * k
    flowed = scipy.linalg.expm(0.3 * transform.conj().T @ np.diag(rates) @ transform)
    # The real part is what real data keeps: of the last wave, cos(c k t) exp(-nu k^2 t).
    np.testing.assert_allclose(flow(points).as_matrix().numpy(), flowed.real, atol=1e-13)


def test_diffusion_solves_the_equation_of_finite_differences() -> None:
    # An outside solver on a fine grid, second order in space: agreement to its own error.
    points = 256
    x = 1.5 * np.arange(points) / points
    h = 1.5 / points
    start = np.exp(np.sin(2 * np.pi * x / 1.5))

    def rate(_: float, u: Any) -> Any:
        ahead, behind = np.roll(u, -1), np.roll(u, 1)
        return 0.02 * (ahead - 2 * u + behind) / h**2 - 0.7 * (ahead - behind) / (2 * h)

    solved = scipy.integrate.solve_ivp(rate, (0, 0.3), start, rtol=1e-8, atol=1e-8).y[:, -1]
    found = flow(points)(torch.from_numpy(start)).numpy()
    assert np.abs(found - solved).max() < 1e-3


def test_diffusion_keeps_the_mean_composes_in_time_and_never_grows() -> None:
    # For odd numbers of points the flow is a semigroup; the mean is kept for all.
    x = draw(15)
    torch.testing.assert_close(flow(15, time=0.2)(flow(15, time=0.1)(x)), flow(15)(x))
    torch.testing.assert_close(flow(16)(draw(16)).mean(), draw(16).mean())
    torch.testing.assert_close(flow(16, time=0.0)(draw(16)), draw(16))
    assert torch.equal(flow(8).float().double()(draw(8)), flow(8)(draw(8)))
    for points in (6, 7):
        assert flow(points).norm().is_point
        assert flow(points).norm().upper == 1
        assert spectral_norm(flow(points)) == pytest.approx(1, rel=1e-13)


@pytest.mark.parametrize("solver", ["factor", "cg"])
@pytest.mark.parametrize("sides", [(9, 6), (6, 9), (6, 6)])
def test_tikhonov_is_numpys_regularised_solution(sides: tuple[int, int], solver: str) -> None:
    rows, columns = sides
    a = draw(rows, columns)
    operator = Tikhonov(Matrix(a), 0.1, solver=solver)
    # The definition, as ordinary least squares of the stacked system (A; sqrt(mu) I).
    stacked = np.vstack([a.numpy(), math.sqrt(0.1) * np.eye(columns)])
    y = draw(4, rows, seed=1)
    right = np.hstack([y.numpy(), np.zeros((4, columns))])
    wanted = np.linalg.lstsq(stacked, right.T, rcond=None)[0].T
    np.testing.assert_allclose(operator(y).numpy(), wanted, atol=1e-12)
    # And by its singular values.
    left, singular, vectors = np.linalg.svd(a.numpy(), full_matrices=False)
    filtered = singular / (singular**2 + 0.1)
    matrix = (vectors.T * filtered) @ left.T
    x = draw(columns, seed=2)
    np.testing.assert_allclose(operator.adjoint(x).numpy(), matrix.T @ x.numpy(), atol=1e-12)
    bracket = operator.norm()
    assert bracket.lower <= filtered.max() * (1 + 1e-12)
    assert filtered.max() <= bracket.upper * (1 + 1e-12)
    assert bracket.upper <= bracket.lower * (1 + 1e-12)


@pytest.mark.parametrize("mu", [1e-6, 1e-2, 1.0, 1e3])
def test_norm_of_an_inverse_whose_small_singular_values_are_rounding(mu: float) -> None:
    # Of rank 2: the other eigenvalues of the Gram matrix are zero but for rounding.
    a = draw(8, 2) @ draw(2, 7, seed=1)
    singular = np.linalg.svd(a.numpy(), compute_uv=False)[:2]
    true = float((singular / (singular**2 + mu)).max())
    bracket = Tikhonov(Matrix(a), mu).norm()
    assert bracket.lower <= true * (1 + 1e-12)
    assert true <= bracket.upper * (1 + 1e-12)
    assert bracket.upper <= 1 / (2 * math.sqrt(mu)) * (1 + 1e-12)


def test_cg_takes_the_closed_form_where_it_is_lower_and_any_side() -> None:
    operator = Tikhonov(Identity(40, dtype=torch.float64), 1.0, solver="cg")
    assert operator.norm().upper == pytest.approx(0.5, rel=1e-9)
    assert operator.norm().upper <= 0.5 * (1 + 1e-15)
    x = torch.ones(256, 256)  # too large to factor
    torch.testing.assert_close(Tikhonov(Identity((256, 256)), 1.0, solver="cg")(x), x / 2)


SPECTRA: dict[str, Any] = {
    "even": np.linspace(0, 1, 1100),
    "decaying": np.exp(-np.arange(1100) / 100),
    "far from 0": np.linspace(0.5, 1, 1100),
    "alike": np.full(1100, 0.7),
    "two": np.repeat([1.0, 0.01], 550),
    "a gap": np.concatenate([np.linspace(0.6, 1, 550), np.linspace(0, 1e-3, 550)]),
    "one": np.append(np.linspace(0.7, 1, 1099), 0.02),
    "none": np.concatenate([np.linspace(0.9, 1, 550), np.zeros(550)]),
}


# Where Lanczos leaves a wide bracket, a small Gram matrix is decomposed and a larger one solved.
@pytest.mark.parametrize(("spectrum", "later"), [*((name, 0) for name in SPECTRA), ("a gap", 4096)])
def test_norm_by_iteration_is_as_narrow_as_asked(
    spectrum: str, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("korisk.operators.tikhonov._DECOMPOSED_LATER", later)
    singular = SPECTRA[spectrum]
    widths, scale = (0.3, 0.1), 1e60
    for mu in (1e-3, 0.25, 4.0):
        true = float((singular / (singular**2 + mu)).max()) / scale
        operator = Tikhonov(
            Diagonal(torch.from_numpy(scale * singular)), mu * scale**2, solver="cg"
        )
        found = [operator.norm(width=width) for width in widths]
        for width, bracket in zip(widths, found, strict=True):
            assert bracket.lower <= true * (1 + 1e-12)
            assert true <= bracket.upper * (1 + 1e-12)
            assert bracket.upper <= bracket.lower * (1 + width) * (1 + 1e-9)


def test_norm_of_a_system_that_cannot_be_solved_is_wide_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, limit in {"_DECOMPOSED_LATER": 0, "_MOST_STEPS": 2}.items():
        monkeypatch.setattr(f"korisk.operators.tikhonov.{name}", limit)
    singular = torch.from_numpy(SPECTRA["none"])
    bracket = Tikhonov(Diagonal(singular), 1e-4, solver="cg").norm()
    assert "wider than asked" in bracket.how
    assert bracket.lower <= float((singular / (singular**2 + 1e-4)).max()) <= bracket.upper


@pytest.mark.parametrize("solver", ["factor", "cg"])
def test_single_precision_is_solved_in_double(solver: str) -> None:
    # Condition 1e6: in float32 two triangular solves, or an iteration, would lose most digits.
    a = draw(8, 8) @ torch.diag(torch.logspace(0, -3, 8, dtype=torch.float64))
    exact = Tikhonov(Matrix(a), 1e-6)
    single = Tikhonov(Matrix(a), 1e-6, solver=solver).float()
    y = draw(8, seed=1)
    error = (single(y.float()).double() - exact(y)).norm() / (exact.norm().lower * y.norm())
    assert float(error) < 1e-4


def test_factors_are_made_at_first_use_not_pickled_and_follow_the_weights() -> None:
    operator = Tikhonov(Matrix(draw(40, 30)), 0.1)
    fresh = len(pickle.dumps(operator))
    operator(draw(40))
    assert operator._cache
    assert len(pickle.dumps(operator)) == fresh
    assert not copy.deepcopy(operator)._cache
    inner, ones = Diagonal(torch.ones(3)), torch.ones(3)
    operator = Tikhonov(inner, 1.0)
    torch.testing.assert_close(operator(ones), torch.full((3,), 0.5))
    inner.load_state_dict({"weights": torch.full((3,), 2.0)})
    torch.testing.assert_close(operator(ones), torch.full((3,), 0.4))
    inner.to(torch.float64)
    torch.testing.assert_close(operator(ones.double()), torch.full((3,), 0.4, dtype=torch.float64))


def test_cg_items_do_not_depend_on_their_neighbours_and_no_iteration_is_recorded() -> None:
    operator = Tikhonov(Matrix(draw(20, 15)), 0.1, solver="cg")
    y = draw(4, 20, seed=1)
    y[1], y[2] = 0.0, 1e200 * y[2]
    y[3, 0] = math.nan
    found = operator(y)
    assert torch.equal(found[1], torch.zeros(15, dtype=torch.float64))
    assert bool(found[3].isnan().all())
    for item in (0, 2):
        torch.testing.assert_close(found[item], operator(y[item]), rtol=1e-11, atol=0)
    image = operator(draw(20).requires_grad_())  # kept: its graph lives as long
    todo = [image.grad_fn]
    count = 0
    while todo:
        node = todo.pop()
        if node is not None:
            count += 1
            todo.extend(following for following, _ in node.next_functions)
    assert count < 10


def test_what_cannot_be_solved_is_refused_when_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korisk.operators.tikhonov._MOST_STEPS", 3)
    operator = Tikhonov(Matrix(draw(20, 15)), 1e-6, solver="cg")
    with pytest.raises(KoriskError, match=r"relative residual of 1e-08 within 3 steps.*raise mu"):
        operator(draw(20))
    a = 1e8 * draw(8, 2) @ draw(2, 8, seed=1)
    with pytest.raises(KoriskError, match="mu must be above the rounding of A"):
        Tikhonov(Matrix(a), 1e-6)(draw(8))
