"""The diagonal ridge against least squares on the stacked system, with and without a matrix."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.fitting import DiagonalFit, DiagonalRidge, Scorer, refine, tail_gram
from korisk.fitting.ridge import diagonal
from korisk.fitting.ridge.diagonal import Krylov, solved
from korisk.fitting.ridge.refinement import penalised_loss
from korisk.operators import Composed, Identity, Matrix

DOMAIN, RANGE = (3, 4), (2, 5)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


TAIL = Matrix(draw(10, 12, seed=1), DOMAIN, RANGE)
TRUE = torch.linspace(0.5, 1.5, 12, dtype=torch.float64).reshape(DOMAIN)
ONES = torch.ones(DOMAIN, dtype=torch.float64)


def pool(samples: int, seed: int = 0, noise: float = 0.5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(samples, *DOMAIN, dtype=torch.float64, generator=generator)
    rest = torch.randn(samples, *RANGE, dtype=torch.float64, generator=generator)
    return inputs, TAIL(inputs * TRUE) + noise * rest


def fitted(pool: tuple[Tensor, Tensor], *, stored: bool = False, **options: Any) -> DiagonalFit:
    """A fit to the whole pool, at the lambda or with the scorer that is passed."""
    chosen = {name: options.pop(name) for name in ("penalty", "scorer") if name in options}
    gram = tail_gram(TAIL) if stored else None
    return DiagonalRidge(TAIL, *pool, gram=gram, **options).training(len(pool[0])).fit(**chosen)


def stacked(inputs: Tensor, targets: Tensor, penalty: float, toward: Tensor) -> Tensor:
    """The minimiser by least squares: one row for each pixel of each sample, and the penalty."""
    rows = torch.cat([TAIL.as_matrix() * x.flatten() for x in inputs])
    rows = torch.cat([rows, math.sqrt(penalty) * torch.eye(12, dtype=torch.float64)])
    right = torch.cat([targets.flatten(), math.sqrt(penalty) * toward.flatten()])
    found = np.linalg.lstsq(rows.numpy(), right.numpy(), rcond=None)[0]
    return torch.from_numpy(found).reshape(DOMAIN)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("toward", [None, ONES])
@pytest.mark.parametrize("penalty", [1e-4, 0.3, 50.0])
def test_weights_are_the_least_squares_ones(
    penalty: float, toward: Tensor | None, stored: bool
) -> None:
    inputs, targets = pool(9)
    goal = 0 * ONES if toward is None else toward
    for n in (2, 9):
        part = inputs[:n], targets[:n]
        fit = fitted(part, stored=stored, toward=toward, penalty=penalty)
        expected = stacked(*part, penalty, goal)
        assert torch.allclose(fit.weights, expected, rtol=1e-8, atol=1e-9)
        assert fit.training.residual(fit.weights, penalty) == pytest.approx(0, abs=1e-9)


def test_a_large_matrix_is_solved_by_lanczos_to_the_same_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ridge = DiagonalRidge(TAIL, *pool(9), gram=tail_gram(TAIL))
    factored = ridge.training(9).weights([0.01, 1.0, math.inf])
    monkeypatch.setattr(diagonal, "LARGEST_FACTORED", 0)
    training = ridge.training(9)
    assert torch.allclose(training.weights([0.01, 1.0, math.inf]), factored, rtol=1e-9, atol=1e-11)


def test_the_gram_matrix_of_a_tail_is_the_same_from_its_matrix_and_from_its_products() -> None:
    matrix = TAIL.as_matrix()
    for tail in (TAIL, Composed([TAIL, Identity(RANGE, dtype=torch.float64)])):
        assert torch.allclose(tail_gram(tail), matrix.T @ matrix, rtol=1e-12)


@pytest.mark.parametrize("stored", [True, False])
def test_rays_that_met_nothing_and_an_infinite_lambda_keep_the_weights(stored: bool) -> None:
    inputs, targets = pool(6)
    inputs[:, 1, 2] = 0
    fit = fitted((inputs, targets), toward=7 * ONES, stored=stored, penalty=0.1)
    assert fit.weights[1, 2] == 7.0
    expected = stacked(inputs, targets, 0.1, 7 * ONES)
    assert torch.allclose(fit.weights, expected, rtol=1e-8, atol=1e-9)
    assert torch.equal(fit.training.weights([math.inf])[0], 7 * ONES)


def test_lambda_is_chosen_on_the_validation_set_and_never_worse_than_the_start() -> None:
    judge = Scorer(*pool(200, seed=8))
    for seed in range(5):
        few = pool(2, seed=seed, noise=5.0)  # and too noisy
        fit = fitted(few, toward=TRUE, stored=True, scorer=judge)
        start = judge(fit.training.ridge.predict(TRUE, judge.inputs))
        assert fit.choice is not None
        assert fit.choice.score <= start * 1.001
        assert not fit.choice.at_edge


def test_predictions_are_those_of_the_network() -> None:
    inputs = pool(4)[0]
    fit, free = (fitted(pool(4), relu=relu, penalty=0.2) for relu in (True, False))
    assert torch.equal(fit.predict(inputs), TAIL(inputs * fit.weights).relu())
    assert torch.allclose(free.predict(inputs), TAIL(inputs * free.weights))
    assert (free.predict(inputs) < 0).any()


def test_a_perfect_fit_has_an_error_of_zero_and_a_lambda() -> None:
    """Its quadratic form leaves rounding of either sign, from which no lambda could be chosen."""
    inputs = pool(40)[0]
    targets = TAIL(inputs * TRUE)
    judge = Scorer(inputs, targets)
    fit = fitted((inputs, targets), relu=False, stored=True, scorer=judge)
    assert fit.choice is not None
    assert all(score >= 0 for _, score in fit.choice.tried)
    torch.testing.assert_close(fit.weights, TRUE, rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_together_is_refused() -> None:
    inputs, targets = pool(4)
    with pytest.raises(KoriskError, match=r"samples must map \(3, 4\) to \(2, 5\)"):
        DiagonalRidge(TAIL, targets, inputs)
    with pytest.raises(KoriskError, match="penalty= or a scorer"):
        fitted((inputs, targets))


# --- Refinement ----------------------------------------------------------------------------------


def rectified(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    inputs, _ = pool(samples, seed=seed)
    return inputs, TAIL(inputs * TRUE).relu()


def penalised(fit: DiagonalFit, weights: Tensor) -> Tensor:
    ridge = fit.training.ridge
    images = TAIL(ridge.inputs * weights).relu()
    moved: Tensor = (weights - ridge.toward).square().sum()
    loss: Tensor = (images - ridge.targets).square().sum() + fit.penalty * moved
    return loss


def test_refinement_lowers_a_loss_that_the_closed_form_cannot_see() -> None:
    judge, test = Scorer(*rectified(40, 1)), Scorer(*rectified(300, 2))
    fit = fitted(rectified(60, 0), toward=ONES, penalty=1e-6)
    refined = refine(fit, judge, steps=60)
    predict = fit.training.ridge.predict
    before, after = (test(predict(w, test.inputs)) for w in (fit.weights, refined.weights))
    assert after < 0.01 * before  # the true weights fit exactly once the ReLU is in the loss
    assert torch.allclose(refined.weights, TRUE, atol=0.02)
    assert refined.score_after < refined.score_before


def test_the_gradient_of_the_refinement_is_that_of_autograd() -> None:
    fit, weights = fitted(pool(7), toward=ONES, penalty=3.0), (TRUE * 0.8).requires_grad_()
    value, slope = penalised_loss(fit, weights.detach())
    loss = penalised(fit, weights)
    (expected,) = torch.autograd.grad(loss, weights)
    assert value == pytest.approx(float(loss.detach()), rel=1e-12)
    assert torch.allclose(slope, expected, rtol=1e-10)


def test_refinement_comes_to_rest_where_the_penalised_loss_is_least() -> None:
    inputs, targets = pool(12, noise=0.3)
    fit = fitted((inputs, targets.relu()), toward=ONES, penalty=0.5)
    judge = Scorer(inputs, targets.relu())  # the training set itself, so that no step is refused
    start = fit.weights.clone().requires_grad_()
    descent = torch.optim.LBFGS([start], max_iter=300, tolerance_grad=1e-10, history_size=20)

    def closure() -> float:
        descent.zero_grad()
        loss = penalised(fit, start)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    descent.step(closure)  # type: ignore[no-untyped-call]
    refined = refine(fit, judge, steps=100).weights
    least, before, after = (
        float(penalised(fit, w)) for w in (start.detach(), fit.weights, refined)
    )
    assert after - least < 0.2 * (before - least)


def test_refinement_is_never_worse_on_the_validation_set() -> None:
    for seed in range(6):
        judge = Scorer(*rectified(30, 50 + seed))
        fit = fitted(pool(3, seed=seed, noise=4.0), toward=TRUE, scorer=judge)
        refined = refine(fit, judge, steps=15)
        found = judge(fit.training.ridge.predict(refined.weights, judge.inputs))
        assert max(found, refined.score_after) <= refined.score_before
    # Where every step is worse, the start is kept.
    start = DiagonalFit(fit.training, 1e-3, None, TRUE)  # which the judge calls exact
    refined = refine(start, judge, steps=10)
    assert torch.equal(refined.weights, TRUE)
    assert refined.score_after == refined.score_before < 1e-20


def test_there_is_nothing_to_refine_without_a_relu_or_at_an_infinite_lambda() -> None:
    judge = Scorer(*pool(5, seed=1))
    for fit in (fitted(pool(5), relu=False, penalty=0.1), fitted(pool(5), penalty=math.inf)):
        refined = refine(fit, judge)
        assert torch.equal(refined.weights, fit.weights)


# --- Systems of some size ------------------------------------------------------------------------


def large_system(condition: float) -> tuple[Tensor, Tensor]:
    basis, _ = torch.linalg.qr(draw(600, 600))
    values = torch.logspace(0, -math.log10(condition), 600, dtype=torch.float64)
    return basis * values @ basis.T, draw(600, seed=1)


@pytest.mark.parametrize("shift", [1e-4, 1e-2, 1.0])
def test_a_factored_system_is_solved(shift: float) -> None:
    matrix, right = large_system(1e6)
    found = solved(matrix, right, shift)
    off = torch.linalg.vector_norm(right - matrix @ found - shift * found)
    assert off <= 1e-10 * torch.linalg.vector_norm(right)
    # The smallest eigenvalue is then below 0.
    assert torch.isnan(solved(matrix - torch.eye(600, dtype=torch.float64), right, 1e-9)).all()


def test_a_fit_of_many_weights_solves_the_normal_equations() -> None:
    wide, inputs = Matrix(draw(40, 600, seed=3)), draw(30, 600, seed=4).sigmoid()
    targets = wide(inputs) + draw(30, 40, seed=5)
    ridge = DiagonalRidge(wide, inputs, targets, gram=tail_gram(wide))
    fit = ridge.training(20).fit(scorer=Scorer(inputs[20:], targets[20:]), grid=[0.1, 1.0, 10.0])
    assert fit.training.residual(fit.weights, fit.penalty) == pytest.approx(0, abs=1e-12)


# --- One Krylov space for many lambdas ------------------------------------------------------------

SHIFTS = [1e-3, 1e-1, 1.0, 1e2]


def system(size: int, rank: int) -> tuple[Tensor, Tensor]:
    factor = draw(size, rank)
    return factor @ factor.T / rank, draw(size, seed=1)


@pytest.mark.parametrize(("size", "rank"), [(60, 90), (60, 7), (1, 1)])
def test_every_lambda_is_solved(size: int, rank: int) -> None:
    matrix, right = system(size, rank)
    space = Krylov(lambda x: matrix @ x, right)
    assert space.converge(SHIFTS, tolerance=1e-12, most=200)
    for shift, found in zip(SHIFTS, space.solve(SHIFTS), strict=True):
        exact = torch.linalg.solve(matrix + shift * torch.eye(size, dtype=torch.float64), right)
        assert torch.linalg.vector_norm(found - exact) <= 1e-9 * torch.linalg.vector_norm(exact)


def test_directions_that_hardly_show_are_found_too() -> None:
    values = torch.logspace(-8, 0, 30, dtype=torch.float64)
    right = torch.ones(30, dtype=torch.float64)
    space = Krylov(lambda x: values * x, right)
    space.converge([1e-9], tolerance=1e-13, most=60)
    exact = right / (values + 1e-9)
    (found,) = space.solve([1e-9])
    assert torch.linalg.vector_norm(found - exact) <= 1e-5 * torch.linalg.vector_norm(exact)


def test_residuals_are_true_before_convergence() -> None:
    matrix, right = system(80, 120)
    space = Krylov(lambda x: matrix @ x, right)
    space.extend(9)
    assert space.steps == 9
    found = zip(SHIFTS, space.residuals(SHIFTS), space.solve(SHIFTS), strict=True)
    for shift, residual, solution in found:
        off = torch.linalg.vector_norm(right - matrix @ solution - shift * solution)
        assert residual == pytest.approx(float(off / torch.linalg.vector_norm(right)), rel=1e-6)
    assert space.residuals([1e2])[0] < space.residuals([1e-3])[0]


def test_a_smaller_lambda_continues_where_the_larger_stopped() -> None:
    matrix, right = system(50, 80)
    products = []

    def product(x: Tensor) -> Tensor:
        products.append(1)
        return matrix @ x

    space = Krylov(product, right)
    space.converge([1e2], tolerance=1e-10, most=200)
    few = len(products)
    assert not space.converge([1e-9], tolerance=1e-30, most=few)
    assert len(products) == few  # `most` counts the steps of all calls
    space.converge([1e-3], tolerance=1e-10, most=200)
    assert len(products) == space.steps > few


def test_a_space_that_is_exhausted_ends() -> None:
    matrix, right = system(40, 3)
    space, nothing = (Krylov(lambda x: matrix @ x, each) for each in (right, right * 0))
    space.extend(40)
    assert space.exhausted
    assert space.steps <= 6
    assert nothing.converge(SHIFTS, tolerance=1e-12, most=10)
    assert not nothing.solve(SHIFTS).any()
    assert np.array_equal(nothing.residuals(SHIFTS), np.zeros(4))
