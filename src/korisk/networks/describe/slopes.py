"""Slopes of a function around a point: what its Lipschitz constant is at least."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from korisk.networks.describe.linear_part import pulled_back

_DIRECTIONS = 8
_SCALES = (1e-2, 0.3, 1.0)
_POWER_STEPS = 12
_SLACK = {torch.float64: 1e-9, torch.float32: 1e-3}  # what rounding may add to a quotient

Function = Callable[[Tensor], Tensor]


def largest_slope(function: Function, point: Tensor) -> float:
    """The largest slope found near a point, less what rounding may have added.

    Pairs of points at several distances, and small steps along the direction in which the
    Jacobian stretches most, at the point and beside it, where torch can form the Jacobian.
    """
    point = point.detach()
    if not point.is_floating_point():
        return 0.0
    generator = torch.Generator().manual_seed(0)
    scale = float(point.norm()) / max(point.numel(), 1) ** 0.5 or 1.0
    found = [0.0]
    for _ in range(_DIRECTIONS):
        for size in _SCALES:
            start = point + scale * size * _draw(point, generator)
            found.append(_quotient(function, point, start))
            found.append(_quotient(function, start, start + 0.1 * scale * _draw(point, generator)))
    for start in (point, point + scale * _draw(point, generator)):
        length = 0.01 * scale * point.numel() ** 0.5
        steepest = _steepest(function, start, _draw(point, generator), length)
        step = length * steepest / steepest.norm()
        found += [_quotient(function, start, start + sign * step) for sign in (-1, 1)]
    slack = _SLACK.get(point.dtype, 0.05)
    return max(value for value in found if value < float("inf")) * (1 - slack)


def _draw(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


def _quotient(function: Function, one: Tensor, two: Tensor) -> float:
    with torch.no_grad():
        apart = float((one - two).norm())
        between = _numbers(function(one)) - _numbers(function(two))
        return float(between.norm()) / apart if apart > 0 else 0.0


def _numbers(value: Tensor) -> Tensor:
    return value if value.is_floating_point() or value.is_complex() else value.to(torch.float64)


def _steepest(function: Function, point: Tensor, direction: Tensor, length: float) -> Tensor:
    """The direction in which the Jacobian stretches most, by power iteration.

    There by a step of some length, back by a vector-Jacobian product. Only the direction is used:
    a function may state a derivative that is not its own.
    """
    try:
        point = point.clone().requires_grad_()
        with torch.enable_grad():
            at = function(point)
        for _ in range(_POWER_STEPS):
            step = length * direction / direction.norm()
            with torch.no_grad():
                image = function(point + step) - at
            back = pulled_back(at, point, image)
            if not 0 < float(back.norm()) < float("inf"):
                break
            direction = back
    except Exception:  # whatever torch or the user's code cannot do under autograd
        return direction
    return direction
