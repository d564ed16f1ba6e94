"""Refinement of diagonal weights with the ReLU in the loss, which has no closed form."""

import math
from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.diagonal import DiagonalFit

_MEMORY = 8  # pairs of steps and gradient changes in the L-BFGS history
_HALVINGS = 8  # of a step that does not lower the loss; after 8 it is 0.4% of a full step
_PATIENCE = 2  # steps without a better score before it stops, or a tenth of all steps
_GAIN = 1e-4  # relative fall of the score that counts as better
_ARMIJO = 1e-4  # share of the fall predicted by the gradient that a step must achieve


@dataclass(frozen=True)
class Refined:
    """Refined weights and scores. Returned by `refine`.

    Parameters
    ----------
    weights : Tensor of shape tail.domain
        The weights with the best score.
    score_before, score_after : float
        Scores of the ridge fit and of `weights`.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import Refined
    >>> refined = Refined(torch.ones(2), score_before=0.2, score_after=0.1)
    >>> refined.score_after < refined.score_before
    True
    """

    weights: Tensor
    score_before: float
    score_after: float


def refine(fit: DiagonalFit, scorer: Scorer, *, steps: int = 20) -> Refined:
    """Minimise sum_i |ReLU(B (w x_i)) - y_i|^2 + lambda |w - toward|^2 from a ridge fit.

    Uses L-BFGS with step halving. Returns the weights with the best score, those of the ridge fit
    included, so the result is never worse by that score than the ridge fit.

    Parameters
    ----------
    fit : DiagonalFit
        The ridge fit to start from, whose lambda is used.
    scorer : Scorer
        Samples that were not trained on, such as a validation set.
    steps : int, default 20
        The largest number of steps.

    Returns
    -------
    Refined
        The weights with the best score, and the scores.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import DiagonalRidge, Scorer, refine
    >>> from korisk.operators import Diagonal
    >>> x = torch.tensor([[1.0, -1.0], [-1.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    >>> y = (torch.tensor([0.5, 2.0], dtype=torch.float64) * x).relu()
    >>> fit = DiagonalRidge(Diagonal([1.0, 1.0]).double(), x, y).training(3).fit(penalty=1e-9)
    >>> refined = refine(fit, Scorer(x, y))
    >>> refined.score_after < refined.score_before, refined.weights.round(decimals=3).tolist()
    (True, [0.5, 2.0])
    """
    ridge = fit.training.ridge
    weights, best = fit.weights, fit.weights
    initial_score = best_score = scorer(fit.predict(scorer.inputs))
    # Without a ReLU the ridge fit is the minimiser already; at infinite lambda nothing can move.
    if not ridge.relu or math.isinf(fit.penalty):
        return Refined(best, initial_score, initial_score)
    loss, gradient = penalised_loss(fit, weights)
    memory: deque[tuple[Tensor, Tensor]] = deque(maxlen=_MEMORY)
    steps_taken = steps_without_gain = 0
    ended = False
    while steps_taken < steps and not ended:
        step_result = _step(fit, weights, loss, gradient, memory)
        if step_result is None:
            break
        new_weights, loss, new_gradient = step_result
        memory.append((new_weights - weights, new_gradient - gradient))
        weights, gradient, steps_taken = new_weights, new_gradient, steps_taken + 1
        score = scorer(ridge.predict(weights, scorer.inputs))
        steps_without_gain = 0 if score < best_score * (1 - _GAIN) else steps_without_gain + 1
        if score < best_score:
            best, best_score = weights, score
        ended = steps_without_gain >= max(_PATIENCE, steps // 10)
    return Refined(best, initial_score, best_score)


def penalised_loss(fit: DiagonalFit, weights: Tensor) -> tuple[float, Tensor]:
    """The penalised loss over the training set and its gradient, (views, bins)."""
    training, ridge = fit.training, fit.training.ridge
    tail = ridge.tail
    displacement = weights - ridge.toward
    squared_error = torch.zeros((), dtype=torch.float64, device=weights.device)
    gradient = 2 * fit.penalty * displacement
    for piece in ridge.parts(training.n):
        inputs = ridge.inputs[piece]
        images = tail._map(inputs * weights)
        # Residual relu(u) - y; below, its product with the ReLU's derivative, 0 where u <= 0.
        residual = images.relu() - ridge.targets[piece]
        squared_error += residual.double().square().sum()
        residual.mul_(images > 0)
        gradient = gradient + 2 * (inputs * tail._map_adjoint(residual)).sum(0)
    return float(squared_error + fit.penalty * displacement.double().square().sum()), gradient


def _step(
    fit: DiagonalFit,
    weights: Tensor,
    loss: float,
    gradient: Tensor,
    memory: deque[tuple[Tensor, Tensor]],
) -> tuple[Tensor, float, Tensor] | None:
    """Take one L-BFGS step: new weights, loss and gradient; None if no step lowers the loss."""
    direction = gradient.clone()
    # Two-loop recursion: through the history backwards, then forwards. The scaling in between
    # stands for the inverse Hessian before any update.
    factors = []
    for step, change in reversed(memory):
        factor = (step * direction).sum() / (step * change).sum()
        factors.append(factor)
        direction = direction - factor * change
    if memory:
        step, change = memory[-1]
        direction = direction * ((step * change).sum() / change.square().sum())
    else:  # a step by the normal matrix's mean diagonal
        direction = direction / (2 * (fit.training.scale + fit.penalty))
    for (step, change), factor in zip(memory, reversed(factors), strict=True):
        direction = direction + step * (factor - (change * direction).sum() / (step * change).sum())
    direction = -direction
    descent = float((gradient * direction).sum())
    if not descent < 0:
        return None
    # The first of ever shorter steps that lowers the loss enough and keeps curvature positive.
    step_size = 1.0
    for _ in range(_HALVINGS):
        new_weights = weights + step_size * direction
        new_loss, new_gradient = penalised_loss(fit, new_weights)
        loss_falls = new_loss <= loss + _ARMIJO * step_size * descent
        if loss_falls and float(((new_gradient - gradient) * direction).sum()) > 0:
            return new_weights, new_loss, new_gradient
        step_size /= 2
    return None
