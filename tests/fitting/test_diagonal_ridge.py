"""The diagonal ridge against least squares on the stacked system, with and without a matrix."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.fitting.ridge import diagonal
from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.diagonal import DiagonalFit, DiagonalRidge, tail_gram
from korisk.fitting.ridge.refinement import penalised_loss, refine
from korisk.fitting.ridge.solvers import FactoredSystem, Krylov, conjugate_gradients
from korisk.operators import Composed, Identity, Matrix

DOMAIN, RANGE = (3, 4), (2, 5)


def tail(seed: int = 1) -> Matrix:
    generator = torch.Generator().manual_seed(seed)
    return Matrix(torch.randn(10, 12, dtype=torch.float64, generator=generator), DOMAIN, RANGE)


def true_weights() -> Tensor:
    return torch.linspace(0.5, 1.5, 12, dtype=torch.float64).reshape(DOMAIN)


def pool(samples: int, seed: int = 0, noise: float = 0.5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(samples, *DOMAIN, dtype=torch.float64, generator=generator)
    rest = torch.randn(samples, *RANGE, dtype=torch.float64, generator=generator)
    return inputs, tail()(inputs * true_weights()) + noise * rest


def stacked(inputs: Tensor, targets: Tensor, penalty: float, toward: Tensor) -> Tensor:
    """The minimiser by least squares: one row for each pixel of each sample, and the penalty."""
    matrix = tail().as_matrix()
    rows = torch.cat([matrix * x.flatten() for x in inputs])
    rows = torch.cat([rows, math.sqrt(penalty) * torch.eye(12, dtype=torch.float64)])
    right = torch.cat([targets.flatten(), math.sqrt(penalty) * toward.flatten()])
    found = np.linalg.lstsq(rows.numpy(), right.numpy(), rcond=None)[0]
    return torch.from_numpy(found).reshape(DOMAIN)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("toward", [None, torch.ones(DOMAIN)])
@pytest.mark.parametrize("penalty", [1e-4, 0.3, 50.0])
def test_weights_are_the_least_squares_ones(
    penalty: float, toward: Tensor | None, stored: bool
) -> None:
    inputs, targets = pool(9)
    gram = tail_gram(tail()) if stored else None
    ridge = DiagonalRidge(tail(), inputs, targets, toward=toward, gram=gram)
    goal = torch.zeros(DOMAIN) if toward is None else toward
    for n in (2, 9):
        fit = ridge.training(n).fit(penalty=penalty)
        expected = stacked(inputs[:n], targets[:n], penalty, goal.double())
        assert torch.allclose(fit.weights, expected, rtol=1e-8, atol=1e-9)
        assert fit.detail()["residual"] < 1e-9


def test_a_large_matrix_is_solved_by_lanczos_to_the_same_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs, targets = pool(9)
    ridge = DiagonalRidge(tail(), inputs, targets, gram=tail_gram(tail()))
    factored = ridge.training(9).weights([0.01, 1.0, math.inf])
    monkeypatch.setattr(diagonal, "LARGEST_FACTORED", 0)
    training = ridge.training(9)
    assert torch.allclose(training.weights([0.01, 1.0, math.inf]), factored, rtol=1e-9, atol=1e-11)
    assert training.fit(penalty=1.0).detail()["steps"] > 0


def test_the_gram_matrix_of_a_tail_is_the_same_from_its_matrix_and_from_its_products() -> None:
    once, twice = tail(), Composed([tail(), Identity(RANGE, dtype=torch.float64)])
    matrix = once.as_matrix()
    assert torch.allclose(tail_gram(once), matrix.T @ matrix, rtol=1e-13)
    assert torch.allclose(tail_gram(twice), matrix.T @ matrix, rtol=1e-12)


def test_without_a_relu_scores_are_a_quadratic_form_of_the_weights() -> None:
    inputs, targets = pool(9)
    judge = Scorer(*pool(20, seed=4))
    ridge = DiagonalRidge(tail(), inputs, targets, relu=False, gram=tail_gram(tail()))
    training = ridge.training(9)
    penalties = [1e-3, 1.0, math.inf]
    expected = [judge(ridge.predict(w, judge.inputs)) for w in training.weights(penalties)]
    assert training.scores(judge)(penalties) == pytest.approx(expected, rel=1e-11)
    free = DiagonalRidge(tail(), inputs, targets, relu=False).training(9)
    assert free.scores(judge)(penalties) == pytest.approx(expected, rel=1e-8)


def test_an_infinite_lambda_leaves_the_weights_where_they_shrink_to() -> None:
    inputs, targets = pool(5)
    toward = true_weights() + 0.1
    training = DiagonalRidge(tail(), inputs, targets, toward=toward).training(5)
    assert torch.equal(training.weights([math.inf])[0], toward)


@pytest.mark.parametrize("stored", [True, False])
def test_rays_that_met_nothing_keep_their_weights(stored: bool) -> None:
    inputs, targets = pool(6)
    inputs[:, 1, 2] = 0
    gram = tail_gram(tail()) if stored else None
    toward = torch.full(DOMAIN, 7.0, dtype=torch.float64)
    ridge = DiagonalRidge(tail(), inputs, targets, toward=toward, gram=gram)
    weights = ridge.training(6).fit(penalty=0.1).weights
    assert weights[1, 2] == 7.0
    expected = stacked(inputs, targets, 0.1, toward)
    assert torch.allclose(weights, expected, rtol=1e-8, atol=1e-9)


def test_lambda_is_chosen_on_the_validation_set_and_never_worse_than_the_start() -> None:
    judge = Scorer(*pool(200, seed=8))
    gram = tail_gram(tail())
    for seed in range(5):
        inputs, targets = pool(2, seed=seed, noise=5.0)  # far too few and too noisy
        ridge = DiagonalRidge(tail(), inputs, targets, toward=true_weights(), gram=gram)
        fit = ridge.training(2).fit(scorer=judge)
        start = judge(ridge.predict(true_weights(), judge.inputs))
        assert fit.choice is not None
        assert fit.choice.score <= start * 1.001
        assert not fit.choice.at_edge


def test_predictions_are_those_of_the_network() -> None:
    inputs, targets = pool(4)
    fit = DiagonalRidge(tail(), inputs, targets).training(4).fit(penalty=0.2)
    assert torch.equal(fit.predict(inputs), tail()(inputs * fit.weights).relu())
    free = DiagonalRidge(tail(), inputs, targets, relu=False).training(4).fit(penalty=0.2)
    assert torch.allclose(free.predict(inputs), tail()(inputs * free.weights))
    assert (free.predict(inputs) < 0).any()


# --- Refinement ----------------------------------------------------------------------------------


def rectified(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    inputs, _ = pool(samples, seed=seed)
    return inputs, tail()(inputs * true_weights()).relu()


def test_refinement_lowers_a_loss_that_the_closed_form_cannot_see() -> None:
    inputs, targets = rectified(60, 0)
    judge, test = Scorer(*rectified(40, 1)), Scorer(*rectified(300, 2))
    ridge = DiagonalRidge(tail(), inputs, targets, toward=torch.ones(DOMAIN))
    fit = ridge.training(60).fit(penalty=1e-6)
    refined = refine(fit, judge, steps=60)
    assert refined.ended == (refined.steps < 60)
    assert not refine(fit, judge, steps=1).ended
    before, after = (test(ridge.predict(w, test.inputs)) for w in (fit.weights, refined.weights))
    assert after < 0.01 * before  # the true weights fit exactly once the ReLU is in the loss
    assert torch.allclose(refined.weights, true_weights(), atol=0.02)
    assert refined.score_after < refined.score_before


def penalised(fit: DiagonalFit, weights: Tensor) -> Tensor:
    ridge = fit.training.ridge
    images = tail()(ridge.inputs * weights).relu()
    moved: Tensor = (weights - ridge.toward).square().sum()
    loss: Tensor = (images - ridge.targets).square().sum() + fit.penalty * moved
    return loss


def test_the_gradient_of_the_refinement_is_that_of_autograd() -> None:
    inputs, targets = pool(7)
    ridge = DiagonalRidge(tail(), inputs, targets, toward=torch.ones(DOMAIN))
    fit = ridge.training(7).fit(penalty=3.0)
    weights = (true_weights() * 0.8).requires_grad_()
    value, slope = penalised_loss(fit, weights.detach())
    loss = penalised(fit, weights)
    (expected,) = torch.autograd.grad(loss, weights)
    assert value == pytest.approx(float(loss.detach()), rel=1e-12)
    assert torch.allclose(slope, expected, rtol=1e-10)


def test_refinement_comes_to_rest_where_the_penalised_loss_is_least() -> None:
    inputs, targets = pool(12, noise=0.3)
    ridge = DiagonalRidge(tail(), inputs, targets.relu(), toward=torch.ones(DOMAIN))
    fit = ridge.training(12).fit(penalty=0.5)
    judge = Scorer(inputs, targets.relu())  # the training set itself, so that no step is refused
    start = fit.weights.clone().requires_grad_()
    descent = torch.optim.LBFGS([start], max_iter=300, tolerance_grad=1e-10, history_size=20)

    def closure() -> float:
        descent.zero_grad()
        loss = penalised(fit, start)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    descent.step(closure)  # type: ignore[no-untyped-call]
    least = float(penalised(fit, start.detach()))
    before = float(penalised(fit, fit.weights))
    after = float(penalised(fit, refine(fit, judge, steps=100).weights))
    assert after - least < 0.2 * (before - least)


def test_where_every_step_is_worse_on_the_validation_set_the_start_is_kept() -> None:
    inputs, targets = pool(2, noise=8.0)
    ridge = DiagonalRidge(tail(), inputs, targets.relu(), toward=true_weights())
    training = ridge.training(2)
    start = DiagonalFit(training, 1e-3, None, true_weights())
    judge = Scorer(*rectified(50, 9))  # which the true weights fit exactly
    refined = refine(start, judge, steps=10)
    assert refined.steps > 0
    assert torch.equal(refined.weights, true_weights())
    assert refined.score_after == refined.score_before < 1e-20


def test_refinement_is_never_worse_on_the_validation_set() -> None:
    for seed in range(6):
        inputs, targets = pool(3, seed=seed, noise=4.0)
        judge = Scorer(*rectified(30, 50 + seed))
        ridge = DiagonalRidge(tail(), inputs, targets, toward=true_weights())
        fit = ridge.training(3).fit(scorer=judge)
        refined = refine(fit, judge, steps=15)
        assert judge(ridge.predict(refined.weights, judge.inputs)) <= refined.score_before
        assert refined.score_after <= refined.score_before


# --- Systems of some size ------------------------------------------------------------------------


def large_system(condition: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(600, 600, dtype=torch.float64, generator=generator))
    values = torch.logspace(0, -math.log10(condition), 600, dtype=torch.float64)
    return basis * values @ basis.T, torch.randn(600, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("shift", [1e-4, 1e-2, 1.0])
def test_a_factor_in_single_precision_leads_to_double(shift: float) -> None:
    matrix, right = large_system(1e6)
    system = FactoredSystem(matrix, right)
    for rough, tolerance in ((True, 1e-7), (False, 1e-12)):
        found = system.solve(shift, rough=rough)
        off = torch.linalg.vector_norm(right - matrix @ found - shift * found)
        assert off <= tolerance * torch.linalg.vector_norm(right)
    # without a factor it takes more steps
    assert conjugate_gradients(matrix, right, shift, lambda x: x, 1e-13) is None


def test_a_system_that_is_not_positive_in_single_precision_is_factored_in_double() -> None:
    matrix, right = large_system(1e6)
    below = matrix - (1e-6 - 1e-9) * torch.eye(600, dtype=torch.float64)  # the smallest is 1e-9
    found = FactoredSystem(below, right).solve(1e-9)
    exact = torch.linalg.solve(below + 1e-9 * torch.eye(600, dtype=torch.float64), right)
    assert torch.linalg.vector_norm(found - exact) <= 1e-6 * torch.linalg.vector_norm(exact)
    wrong = matrix - torch.eye(600, dtype=torch.float64)
    assert torch.isnan(FactoredSystem(wrong, right).solve(1e-9)).all()


def test_the_weights_that_are_kept_are_solved_exactly_though_scores_are_rough() -> None:
    generator = torch.Generator().manual_seed(3)
    wide = Matrix(torch.randn(40, 600, dtype=torch.float64, generator=generator))
    inputs = torch.rand(30, 600, dtype=torch.float64, generator=generator)
    targets = wide(inputs) + torch.randn(30, 40, dtype=torch.float64, generator=generator)
    ridge = DiagonalRidge(wide, inputs, targets, gram=tail_gram(wide))
    fit = ridge.training(20).fit(scorer=Scorer(inputs[20:], targets[20:]), grid=[0.1, 1.0, 10.0])
    assert fit.detail()["residual"] < 1e-12
    assert fit.detail()["solved"]


def test_there_is_nothing_to_refine_without_a_relu_or_at_an_infinite_lambda() -> None:
    inputs, targets = pool(5)
    judge = Scorer(*pool(5, seed=1))
    linear = DiagonalRidge(tail(), inputs, targets, relu=False).training(5).fit(penalty=0.1)
    fixed = DiagonalRidge(tail(), inputs, targets).training(5).fit(penalty=math.inf)
    for fit in (linear, fixed):
        refined = refine(fit, judge)
        assert refined.steps == 0
        assert torch.equal(refined.weights, fit.weights)


def test_what_does_not_fit_together_is_refused() -> None:
    inputs, targets = pool(4)
    with pytest.raises(KoriskError, match=r"samples must map \(3, 4\) to \(2, 5\)"):
        DiagonalRidge(tail(), targets, inputs)
    training = DiagonalRidge(tail(), inputs, targets).training(4)
    with pytest.raises(KoriskError, match="penalty= or a scorer"):
        training.fit()


def test_a_perfect_fit_has_an_error_of_zero_and_a_lambda() -> None:
    """Its quadratic form leaves rounding of either sign, from which no lambda could be chosen."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.rand(40, 6, generator=generator, dtype=torch.float64)
    tail = Matrix(torch.rand(5, 6, generator=generator, dtype=torch.float64))
    true = torch.rand(6, generator=generator, dtype=torch.float64)
    targets = tail(inputs * true)
    ridge = DiagonalRidge(tail, inputs, targets, relu=False, gram=tail_gram(tail))
    fit = ridge.training(40).fit(scorer=Scorer(inputs, targets))
    assert fit.choice is not None
    assert all(score >= 0 for _, score in fit.choice.tried)
    torch.testing.assert_close(fit.weights, true, rtol=1e-5, atol=1e-5)


# --- One Krylov space for many lambdas ------------------------------------------------------------

SHIFTS = [1e-3, 1e-1, 1.0, 1e2]


def system(size: int, rank: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(size, rank, dtype=torch.float64, generator=generator)
    right = torch.randn(size, dtype=torch.float64, generator=generator)
    return factor @ factor.T / rank, right


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
