"""The dense ridge in dual form, against the primal one that forms M."""

import math

import pytest
import torch
from torch import Tensor

from korisk import _memory
from korisk.errors import KoriskError
from korisk.fitting.ridge.choice import By, Scorer
from korisk.fitting.ridge.dense import DenseRidge, kernel
from korisk.problems import measure

DOMAIN, RANGE = (4, 5), (3, 6)


def pool(samples: int, seed: int = 0, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(18, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(99))
    inputs = torch.randn(samples, 20, dtype=torch.float64, generator=generator)
    rest = torch.randn(samples, 18, dtype=torch.float64, generator=generator)
    targets = inputs @ matrix.T + noise * rest
    return inputs.reshape(-1, *DOMAIN), targets.reshape(-1, *RANGE)


def primal(inputs: Tensor, targets: Tensor, penalty: float) -> Tensor:
    """M = Y^T X (X^T X + lambda I)^-1, (outputs, inputs)."""
    x, y = inputs.flatten(1), targets.flatten(1)
    normal = x.T @ x + penalty * torch.eye(x.shape[1], dtype=x.dtype)
    found: Tensor = torch.linalg.solve(normal, x.T @ y)
    return found.T


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("n", [3, 20, 40])
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 1e3])
def test_predictions_are_those_of_the_matrix(n: int, penalty: float, relu: bool) -> None:
    inputs, targets = pool(40)
    new, _ = pool(7, seed=5)
    fit = DenseRidge(inputs, targets, relu=relu).training(n).fit(penalty=penalty)
    expected = new.flatten(1) @ primal(inputs[:n], targets[:n], penalty).T
    expected = expected.relu() if relu else expected
    assert torch.allclose(fit.predict(new).flatten(1), expected, rtol=1e-9, atol=1e-9)
    network = fit.network()
    assert torch.allclose(network(new).flatten(1), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("relu", [True, False])
def test_leave_one_out_is_what_refitting_without_each_sample_gives(relu: bool) -> None:
    inputs, targets = pool(12)
    ridge = DenseRidge(inputs, targets, relu=relu)
    total = 0.0
    for left in range(12):
        rest = [at for at in range(12) if at != left]
        matrix = primal(inputs[rest], targets[rest], 0.7)
        predicted = inputs[left].flatten() @ matrix.T
        predicted = predicted.relu() if relu else predicted
        total += float((predicted - targets[left].flatten()).square().mean())
    assert ridge.training(12).leave_one_out([0.7])[0] == pytest.approx(total / 12, rel=1e-9)


def test_lambda_is_the_best_on_the_validation_set() -> None:
    inputs, targets = pool(30, noise=3.0)
    judge = Scorer(*pool(400, seed=3, noise=3.0))
    fit = DenseRidge(inputs, targets, relu=False).training(30).fit(scorer=judge)
    assert fit.choice is not None
    assert not fit.choice.at_edge
    for factor in (0.2, 5.0):
        other = primal(inputs, targets, fit.penalty * factor)
        new = (judge.inputs.flatten(1) @ other.T).reshape(-1, *RANGE)
        assert judge(new) > fit.choice.score


def test_leave_one_out_chooses_nearly_as_well_as_a_large_validation_set() -> None:
    inputs, targets = pool(60, noise=3.0)
    judge = Scorer(*pool(2000, seed=3, noise=3.0))
    training = DenseRidge(inputs, targets, relu=False).training(60)
    by_loo, by_judge = training.fit(), training.fit(scorer=judge)
    assert judge(by_loo.predict(judge.inputs)) <= 1.1 * judge(by_judge.predict(judge.inputs))


def test_without_noise_the_dense_layer_learns_the_map_itself_and_lambda_goes_to_zero() -> None:
    inputs, targets = pool(30, noise=0.0)
    judge = Scorer(*pool(20, seed=3, noise=0.0))
    fit = DenseRidge(inputs, targets, relu=False).training(30).fit(scorer=judge)
    assert fit.penalty <= 1e-9 * fit.training.scale
    assert fit.choice is not None
    assert not fit.choice.at_edge
    assert fit.choice.score < 1e-20


def test_small_singular_values_are_not_taken_for_rounding() -> None:
    inputs, _ = pool(30, noise=0.0)
    inputs = inputs * torch.logspace(0, -4.5, 20, dtype=torch.float64).reshape(DOMAIN)
    targets = inputs.flatten(1)[:, :18].reshape(-1, *RANGE) * 1e3
    fit = DenseRidge(inputs, targets, relu=False).training(30).fit(penalty=0.0)
    new = inputs.flip(0) * 0.5
    expected = new.flatten(1)[:, :18].reshape(-1, *RANGE) * 1e3
    assert torch.allclose(fit.predict(new), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("by", ["mse", "rmse_over_max"])
def test_scores_are_the_metrics_of_their_name(by: By) -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.rand(5, 12, 12, dtype=torch.float64, generator=generator) * 3
    targets[2] = 0  # an ellipse between the pixels
    predictions = targets + 0.1 * torch.rand(5, 12, 12, dtype=torch.float64, generator=generator)
    scorer = Scorer(targets, targets, by=by)
    assert scorer(predictions) == pytest.approx(measure(predictions, targets)[by], rel=1e-12)


def test_a_fixed_grid_is_taken_as_it_is() -> None:
    judge = Scorer(*pool(50, seed=3, noise=3.0))
    fit = DenseRidge(*pool(10, noise=3.0)).training(10).fit(scorer=judge, grid=[1e-8, 1e-6])
    assert fit.penalty in (1e-8, 1e-6)
    assert fit.choice is not None
    assert fit.choice.at_edge


def test_nested_sets_share_one_kernel_and_change_nothing() -> None:
    inputs, targets = pool(40)
    new, _ = pool(5, seed=7)
    whole = DenseRidge(inputs, targets).training(9).fit(penalty=0.1).predict(new)
    alone = DenseRidge(inputs[:9], targets[:9]).training(9).fit(penalty=0.1).predict(new)
    assert torch.allclose(whole, alone, rtol=1e-12, atol=1e-12)


def test_a_kernel_of_single_precision_is_summed_in_double() -> None:
    left = torch.randn(3, 200_000, generator=torch.Generator().manual_seed(0))
    exact = left.double() @ left.double().T
    assert torch.allclose(kernel(left, left), exact, rtol=1e-12)
    assert not torch.allclose((left @ left.T).double(), exact, rtol=1e-12, atol=0)


def test_an_infinite_lambda_is_the_zero_map() -> None:
    inputs, targets = pool(6)
    assert not DenseRidge(inputs, targets).training(6).fit(penalty=math.inf).predict(inputs).any()


def test_what_cannot_be_fitted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, targets = pool(6)
    with pytest.raises(KoriskError, match="same number of samples"):
        DenseRidge(inputs, targets[:5])
    with pytest.raises(KoriskError, match="n must be a whole number from 1 to 6, got 7"):
        DenseRidge(inputs, targets).training(7)
    with pytest.raises(KoriskError, match="targets must be finite"):
        DenseRidge(inputs, targets * math.nan)
    monkeypatch.setattr(_memory, "free_memory", lambda device: 1000)
    with pytest.raises(KoriskError, match="the kernel of a dense fit to 6 samples needs"):
        DenseRidge(inputs, targets)
