"""How far a fit to examples flatters them: what each of them takes from its own residual."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from korisk.fitting.scores import flat
from korisk.prediction.lanczos import lanczos
from korisk.prediction.weights.pairs import Pairs
from korisk.prediction.weights.resolvent import Iterated, Normal, Resolvent
from korisk.prediction.weights.structured import Measure

_STEPS = 6  # of Lanczos, for the leverages of an example
_WORK = 2**17  # examples times weights whose leverages are looked at, 32 examples at least
_MOST_LEVERAGE = 0.98  # of what one example can have
_MOST_HELD = 4.0  # factor by which halves may correct a slope; beyond that they are chance


class HeldBack(NamedTuple):
    """What examples hold back of their own residuals, without the ReLU."""

    gradients: float  # factor of their squares
    loss: float  # to be added to the mean loss in sample
    leverages: Measure | None  # at the limit of many examples


def held_back(
    examples: Pairs,
    residuals: Tensor,
    start: Tensor,
    normal: Normal,
    resolvent: Resolvent,
    slope: float,
) -> HeldBack:
    """From leverages where solutions are cheap, else from fits to halves of the examples.

    `slope` is tr(G^-1 Omega) in sample.
    """
    if not slope:
        return HeldBack(1.0, 0.0, None)
    if resolvent.can_solve_many:
        return _by_leverages(examples, residuals, normal, resolvent)
    return _by_halves(examples, residuals, start, len(normal.active), slope)


def _by_leverages(
    examples: Pairs, residuals: Tensor, normal: Normal, resolvent: Resolvent
) -> HeldBack:
    """Sums over the spectra of L_k, the leverages of some examples, from r_k and at random."""
    count = min(len(examples), max(32, _WORK // len(normal.active)))
    some, n = examples.some(slice(count)), len(examples)

    def leverage(rows: Tensor) -> Tensor:
        """B D_k G^-1 D_k B^T of row k."""
        images = rows.reshape(some.targets.shape).to(some.targets)
        moved = normal.spread(resolvent.solve(normal.gathered(some.gradients(images))))
        return flat(some.tail._map(some.inputs * moved)).double()

    def nodes(start: Tensor) -> Measure:
        seen = lanczos(leverage, flat(start).double(), steps=_STEPS)
        values, weights = seen.nodes.flatten().cpu().numpy(), seen.weights.flatten().cpu().numpy()
        return Measure(np.minimum(values, _MOST_LEVERAGE * n), weights / count)

    own = nodes(residuals[:count])
    kept = 1 - own.values / n
    raw = float(own.weights @ own.values)
    factor = float(own.weights @ (own.values / kept)) / raw if raw else 1.0
    loss = float(own.weights @ (1 / kept - 1))
    return HeldBack(factor, loss, _of_many(nodes(_random(some.targets)), n))


def _of_many(own: Measure, n: int) -> Measure | None:
    """Leverages at the limit of many examples, from those among n, of which each is one.

    Without example k the rest leave it e / (1 - e / n), and all together must be the number of
    parameters, as they were: a normal matrix of few examples has too large an inverse.
    """
    values = own.values / (1 - own.values / n)
    total = float(own.weights @ values)
    if not total:
        return None
    return Measure(values * float(own.weights @ own.values) / total, own.weights)


def _by_halves(
    examples: Pairs, residuals: Tensor, start: Tensor, weights: int, slope: float
) -> HeldBack:
    """The loss in sample is floor - slope / n, so what halves lose more of it tells the slope.

    Out of sample, halves have an excess of (2 slope / n) / (1 - 2 c / n) with c = p / r, which
    tells how many rows an example counts for.
    """
    n = len(examples)
    halves = [examples.some(slice(at, None, 2)) for at in (0, 1)]
    fits = [_fitted(half, start) for half in halves]
    inside = sum(_loss(half, fit) for half, fit in zip(halves, fits, strict=True)) / n
    outside = sum(_loss(half, fit) for half, fit in zip(halves, fits[::-1], strict=True)) / n
    whole = float(residuals.double().square().sum()) / n
    factor = min(max(n * (whole - inside) / slope, 1.0), _MOST_HELD)
    loss = factor * slope / n
    excess = outside - whole - loss
    crowded = n / 2 * (1 - 2 * loss / excess) if excess > 2 * loss else 0.0
    rows = Measure(np.array([crowded]), np.array([weights / crowded])) if crowded else None
    return HeldBack(factor, loss, rows)


def _fitted(examples: Pairs, start: Tensor) -> Tensor:
    normal = Normal(examples.tail, examples.inputs, None)
    pull = examples.gradients(examples.residuals(start)).mean(0, keepdim=True)
    way, _ = Iterated(normal).both(normal.gathered(pull))
    return start - normal.spread(way)[0]


def _loss(examples: Pairs, weights: Tensor) -> float:
    return float(examples.residuals(weights).double().square().sum())


def _random(like: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return (torch.randint(0, 2, like.shape, generator=generator) * 2 - 1).to(like)
