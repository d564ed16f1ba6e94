"""Choice of the ridge penalty lambda: validation score and search grid."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError

By = Literal["mse", "rmse_over_max"]
BY: tuple[By, ...] = ("mse", "rmse_over_max")
Score = Callable[[Sequence[float]], Sequence[float]]  # lambdas -> their scores, smaller is better

_STEP = 10**0.5  # ratio of neighbouring lambdas
_MORE = 4  # values by which a grid grows at a time
_HIGHEST = 10.0  # upper end of the first grid, relative to the problem's scale
_TOP = 28  # largest exponent of _STEP that a grid grows to
SMALLEST = 1e-14  # relative to the problem's scale: below that a solve is rounding
SLACK = 1e-3  # scores this close count as equal; validation sets are far less certain than that


def flat(samples: Tensor) -> Tensor:
    """Flatten (samples, ...) to (samples, entries)."""
    return samples.reshape(len(samples), -1)


def require_pairs(inputs: Tensor, targets: Tensor) -> None:
    """Raise unless inputs and targets are equally many, not empty, and finite."""
    paired, got = len(inputs) == len(targets) > 0, f"{len(inputs):,} and {len(targets):,}"
    rule = "have the same number of samples, at least 1"
    _checks.require(paired, "inputs and targets", rule, targets, "pair them", got=got)
    remedy, got = "clean them first", "NaN or infinities"
    for field, values in (("inputs", inputs), ("targets", targets)):
        finite = bool(torch.isfinite(values).all())
        _checks.require(finite, field, "be finite", values, remedy, got=got)


class Scorer:
    """The error of predictions for `inputs` against `targets`: smaller is better.

    Called with predictions of the targets' shape, it returns their score.

    Parameters
    ----------
    inputs : Tensor of shape (samples, ...)
        Inputs of the predictions.
    targets : Tensor of shape (samples, ...)
        Reference values of the predictions.
    by : {"mse", "rmse_over_max"}, default "mse"
        "mse" is the mean squared error over all pixels. "rmse_over_max" is each image's root mean
        squared error divided by its target's maximum, which the released sweeps choose by; images
        whose target is zero everywhere are left out of it.

    Raises
    ------
    KoriskError
        If `by` is unknown.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import Scorer
    >>> targets = torch.ones(4, 2, 2)
    >>> scorer = Scorer(torch.zeros(4, 3), targets)
    >>> scorer(targets), scorer(targets + 0.5)
    (0.0, 0.25)
    """

    def __init__(self, inputs: Tensor, targets: Tensor, *, by: By = "mse") -> None:
        _checks.one_of("by", by, BY)
        self.inputs, self.targets, self.by = inputs, flat(targets), by

    def __call__(self, predictions: Tensor) -> float:
        """The score of (samples, ...) predictions."""
        squared = (flat(predictions) - self.targets).square_()
        per_image = squared.mean(1, dtype=torch.float64)
        if self.by == "rmse_over_max":
            # Images of zeros have no scale to divide by.
            highest = self.targets.amax(1).double()
            per_image = (per_image.sqrt() / highest)[highest > 0]
        return float(per_image.mean())


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The chosen lambda, and every value that was tried.

    A fit that chooses its lambda has it as `choice`.

    Parameters
    ----------
    value : float
        The chosen lambda; infinite if the value that the fit shrinks towards is best.
    score : float
        The score of `value`.
    tried : tuple of (float, float)
        Pairs of lambda and score, by ascending lambda.
    at_edge : bool
        Whether `value` is the smallest or largest value tried, so that a better one may lie beyond.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import DenseRidge
    >>> x = torch.eye(4, dtype=torch.float64)
    >>> choice = DenseRidge(x, 2 * x, relu=False).training(4).fit(grid=[0.1, 1.0]).choice
    >>> choice.value in (0.1, 1.0), len(choice.tried)
    (True, 2)
    """

    value: float
    score: float
    tried: tuple[tuple[float, float], ...]
    at_edge: bool


def choose(
    score: Score, *, grid: Sequence[float] | None, scale: float, lowest: float, zero: bool = False
) -> Choice:
    """The best lambda: the first best of a fixed `grid`, or of a grid that grows.

    A fixed grid is searched as in the released code. Without one, return the largest lambda whose
    score is within `SLACK` of the best. Candidates are `scale` times half powers of ten from
    `lowest` to 10, infinity (where a fit equals what it shrinks towards) and, with `zero`, also 0.
    Between these two limits the grid grows downwards while its smallest positive value or 0 is
    chosen, and upwards while its largest finite value is.
    """
    if grid:
        scores = dict(zip(grid, score(grid), strict=True))
        best = _best(scores)
        # The first of equal scores, as in the released code.
        value = next(penalty for penalty in grid if scores[penalty] == best)
        return _choice(value, scores, at_edge=value in (min(grid), max(grid)))
    positive = math.isfinite(scale) and scale > 0
    _checks.require(positive, "the scale of lambda", "be above 0", scale, "are all inputs zero?")
    low, high = (round(2 * math.log10(bound)) for bound in (lowest, _HIGHEST))
    # Both limits are always candidates, since no finite grid reaches them.
    limits = [*([0.0] if zero else []), math.inf]
    scores = dict(zip(limits, score(limits), strict=True))
    exponents = range(low, high + 1)
    while True:
        candidates = [scale * _STEP**exponent for exponent in exponents]
        scores |= dict(zip(candidates, score(candidates), strict=True))
        # Of equally good lambdas the largest is the safest: it gives the smallest weights.
        threshold = _best(scores) * (1 + SLACK)
        value = max(penalty for penalty, error in scores.items() if error <= threshold)
        # Factors 1.001 and 0.999 absorb the rounding of the powers.
        if value <= scale * _STEP**low * 1.001 and _STEP**low > SMALLEST:
            exponents = range(low - _MORE, low)
            low -= _MORE
        elif math.isfinite(value) and value >= scale * _STEP**high * 0.999 and high < _TOP:
            exponents = range(high + 1, high + _MORE + 1)
            high += _MORE
        else:
            break
    solved = [penalty for penalty, error in scores.items() if not math.isnan(error)]
    inner = 0 < value < math.inf  # nothing lies beyond 0 and infinity
    return _choice(value, scores, at_edge=inner and value in (min(solved), max(solved)))


def _best(scores: dict[float, float]) -> float:
    best = min((score for score in scores.values() if not math.isnan(score)), default=math.nan)
    if not math.isfinite(best):
        remedy = "look for NaN or infinities in inputs and targets"
        raise KoriskError(f"no lambda gives a finite score; {remedy}")
    return best


def _choice(value: float, scores: dict[float, float], *, at_edge: bool) -> Choice:
    tried = tuple(sorted(scores.items()))
    return Choice(value=value, score=scores[value], tried=tried, at_edge=at_edge)
