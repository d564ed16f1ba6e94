"""Refinement of diagonal weights with the ReLU in the loss, which no closed form has."""

import math
from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.diagonal import DiagonalFit

_MEMORY = 8  # pairs that L-BFGS remembers
_HALVINGS = 8
_PATIENCE = 2  # steps without a better score after which it stops, or a tenth of all


@dataclass(frozen=True)
class Refined:
    """Weights after the refinement, and how far it went. Made by `refine`.

    Parameters
    ----------
    weights : Tensor of shape tail.domain
        The weights with the best score.
    steps : int
        Steps taken.
    ended : bool
        Whether it came to rest before the allowed steps were used up.
    score_before, score_after : float
        Scores of the ridge fit and of `weights`.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import Refined
    >>> made = Refined(torch.ones(2), steps=3, ended=True, score_before=0.2, score_after=0.1)
    >>> made.detail()["score"]
    0.1
    """

    weights: Tensor
    steps: int
    ended: bool
    score_before: float
    score_after: float

    def detail(self) -> dict[str, float | None]:
        """What a study stores of the refinement.

        Returns
        -------
        dict
            `refinement_steps`, `refinement_ended`, `score_before_refinement` and `score`.
        """
        steps: dict[str, float | None] = {"refinement_steps": self.steps}
        steps |= {"refinement_ended": self.ended, "score_before_refinement": self.score_before}
        return steps | {"score": self.score_after}


def refine(fit: DiagonalFit, scorer: Scorer, *, steps: int = 20) -> Refined:
    """Minimise sum_i |ReLU(B (w x_i)) - y_i|^2 + lambda |w - toward|^2 from a ridge fit.

    By L-BFGS with step halving. The weights with the best score are kept, the fit's own among
    them, so the result is never worse by that score than the ridge fit.

    Parameters
    ----------
    fit : DiagonalFit
        The ridge fit to start from; lambda is its own.
    scorer : Scorer
        Samples that were not trained on, such as a validation set.
    steps : int, default 20
        The largest number of steps.

    Returns
    -------
    Refined
        The weights with the best score, and how far it went.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import DiagonalRidge, Scorer, refine
    >>> from korisk.operators import Diagonal
    >>> x = torch.tensor([[1.0, -1.0], [-1.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    >>> y = (torch.tensor([0.5, 2.0], dtype=torch.float64) * x).relu()
    >>> fit = DiagonalRidge(Diagonal([1.0, 1.0]).double(), x, y).training(3).fit(penalty=1e-9)
    >>> found = refine(fit, Scorer(x, y))
    >>> found.score_after < found.score_before, found.weights.round(decimals=3).tolist()
    (True, [0.5, 2.0])
    """
    ridge = fit.training.ridge
    weights, best = fit.weights, fit.weights
    before = best_score = scorer(fit.predict(scorer.inputs))
    if not ridge.relu or math.isinf(fit.penalty):
        return Refined(best, 0, True, before, before)
    value, slope = penalised_loss(fit, weights)
    memory: deque[tuple[Tensor, Tensor]] = deque(maxlen=_MEMORY)
    taken = idle = 0
    ended = False
    while taken < steps and not ended:
        moved = _step(fit, weights, value, slope, memory)
        if moved is None:
            return Refined(best, taken, True, before, best_score)
        new, value, new_slope = moved
        memory.append((new - weights, new_slope - slope))
        weights, slope, taken = new, new_slope, taken + 1
        score = scorer(ridge.predict(weights, scorer.inputs))
        idle = 0 if score < best_score * (1 - 1e-4) else idle + 1
        if score < best_score:
            best, best_score = weights, score
        ended = idle >= max(_PATIENCE, steps // 10)
    return Refined(best, taken, ended, before, best_score)


def penalised_loss(fit: DiagonalFit, weights: Tensor) -> tuple[float, Tensor]:
    """The penalised loss over the training set and its gradient, (views, bins)."""
    training, ridge = fit.training, fit.training.ridge
    tail = ridge.tail
    moved = weights - ridge.toward
    total = torch.zeros((), dtype=torch.float64, device=weights.device)
    slope = 2 * fit.penalty * moved
    for part in ridge.parts(training.n):
        inputs = ridge.inputs[part]
        images = tail._map(inputs * weights)
        # relu(u) - y, and its derivative in u, which is 0 where the ReLU is.
        off = images.relu() - ridge.targets[part]
        total += off.double().square().sum()
        off.mul_(images > 0)
        slope = slope + 2 * (inputs * tail._map_adjoint(off)).sum(0)
    return float(total + fit.penalty * moved.double().square().sum()), slope


def _step(
    fit: DiagonalFit,
    weights: Tensor,
    value: float,
    slope: Tensor,
    memory: deque[tuple[Tensor, Tensor]],
) -> tuple[Tensor, float, Tensor] | None:
    """One step of L-BFGS: new weights, loss and gradient; None where no step lowers the loss."""
    direction = slope.clone()
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
    descent = float((slope * direction).sum())
    if not descent < 0:
        return None
    # The first of ever shorter steps that lowers the loss enough and keeps curvature positive.
    length = 1.0
    for _ in range(_HALVINGS):
        new = weights + length * direction
        new_value, new_slope = penalised_loss(fit, new)
        lower = new_value <= value + 1e-4 * length * descent
        if lower and float(((new_slope - slope) * direction).sum()) > 0:
            return new, new_value, new_slope
        length /= 2
    return None
