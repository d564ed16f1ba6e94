"""Choosing lambda: on whatever score, over a grid that grows until its end is not the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from korisk.errors import KoriskError, shown

Score = Callable[[Sequence[float]], Sequence[float]]  # lambdas -> their scores, smaller is better

_STEP = 10**0.5
_MORE = 4  # values by which a grid grows at a time
_NO_SCORE = "no lambda gives a finite score; look for NaN or infinities in inputs and targets"
_TOP = 28  # half powers of ten up to which it grows
SMALLEST = 1e-14  # relative to the problem's scale: below that a solve is rounding
SLACK = 1e-3  # scores this close are called equal; validation sets are far less certain than that


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The lambda that was chosen, and what was tried for it.

    A fit that chooses its lambda has it as `choice`.

    >>> import torch
    >>> from korisk.fitting import DenseRidge
    >>> x = torch.eye(4, dtype=torch.float64)
    >>> found = DenseRidge(x, 2 * x, relu=False).training(4).fit(grid=[0.1, 1.0]).choice
    >>> found.value in (0.1, 1.0), len(found.tried)
    (True, 2)
    """

    value: float  # infinite where what the fit shrinks towards is the best there is
    score: float
    tried: tuple[tuple[float, float], ...]  # (lambda, score), ascending
    at_edge: bool  # the smallest or largest value tried, beyond which a better one may lie

    def as_json(self) -> dict[str, Any]:
        """What a study keeps of the choice; the infinite lambda is written as None."""
        return {
            "lambda": None if math.isinf(self.value) else self.value,
            "score": self.score,
            "lambda_at_edge": self.at_edge,
            "lambdas_tried": len(self.tried),
        }


def choose_from(score: Score, grid: Sequence[float]) -> Choice:
    """The first lambda of a fixed grid with the smallest score, as the released code chooses."""
    if not grid:
        raise KoriskError("a grid of lambdas must have at least one value, got none; add some")
    scores = list(score(grid))
    best = min(range(len(grid)), key=lambda at: math.inf if math.isnan(scores[at]) else scores[at])
    if not math.isfinite(scores[best]):
        raise KoriskError(_NO_SCORE)
    tried = tuple(sorted(zip(grid, scores, strict=True)))
    edges = tried[0][0], tried[-1][0]
    return Choice(value=grid[best], score=scores[best], tried=tried, at_edge=grid[best] in edges)


def choose(
    score: Score, *, scale: float, lowest: float, highest: float = 10.0, zero: bool = False
) -> Choice:
    """The largest lambda whose score is within `SLACK` of the best, over a grid that grows.

    Values are `scale` times half powers of ten from `lowest` to `highest`, infinity, at which a fit
    is what it shrinks towards, and with `zero` also 0. These two are ends that nothing lies beyond;
    between them the grid grows downwards while its smallest positive value or 0 is chosen, and
    upwards while its largest finite one is.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise KoriskError(
            f"the scale of lambda must be above 0, got {shown(scale)}; are all inputs zero?"
        )
    first, last = (round(2 * math.log10(end)) for end in (lowest, highest))
    known = _scored(score, [*([0.0] if zero else []), math.inf])
    new = range(first, last + 1)
    while True:
        known |= _scored(score, [scale * _STEP**step for step in new])
        value = _largest_good(known)
        if value <= scale * _STEP**first * 1.001 and _STEP**first > SMALLEST:
            new = range(first - _MORE, first)
            first -= _MORE
        elif math.isfinite(value) and value >= scale * _STEP**last * 0.999 and last < _TOP:
            new = range(last + 1, last + _MORE + 1)
            last += _MORE
        else:
            break
    tried = tuple(sorted(known.items()))
    return Choice(value=value, score=known[value], tried=tried, at_edge=_at_edge(value, known))


def _at_edge(value: float, known: dict[float, float]) -> bool:
    """Whether nothing on one side of it has a score, not even 0 or infinity."""
    solved = [each for each, score in known.items() if not math.isnan(score)]
    inner = 0 < value < math.inf
    return inner and (value == min(solved) or value == max(solved))


def _scored(score: Score, values: Sequence[float]) -> dict[float, float]:
    return dict(zip(values, score(values), strict=True))


def _largest_good(known: dict[float, float]) -> float:
    best = min((value for value in known.values() if not math.isnan(value)), default=math.nan)
    if not math.isfinite(best):
        raise KoriskError(_NO_SCORE)
    return max(value for value, score in known.items() if score <= best * (1 + SLACK))
