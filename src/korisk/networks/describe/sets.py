"""Sets of inputs on which constants hold: a ball, a box, or what surrounds some inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import invalid
from korisk.operators.norms import drawn


@dataclass(frozen=True, eq=False)
class Ball:
    """All inputs within a Euclidean distance of one input.

    Parameters
    ----------
    center : Tensor
        An input of the module, with or without its batch axis.
    radius : float
        The largest distance, above 0, over all entries of an input together.

    Examples
    --------
    >>> import korisk as kr
    >>> from torch import nn, ones
    >>> net = kr.describe(nn.Sigmoid(), ones(1, 2), inputs=kr.Ball(4 * ones(2), 1.0))
    >>> round(net.lipschitz(), 3)  # 1/4 on all inputs
    0.045
    """

    center: Tensor
    radius: float

    def __post_init__(self) -> None:
        _checks.real("radius", self.radius, "give the largest distance from the center", above=0)


@dataclass(frozen=True, eq=False)
class Box:
    """All inputs whose every entry lies between two numbers.

    Parameters
    ----------
    low, high : Tensor or float
        The ends, low <= high: one number for all entries, or one for each.

    Examples
    --------
    >>> import korisk as kr
    >>> from torch import nn, ones
    >>> net = kr.describe(nn.Tanh(), ones(1, 2), inputs=kr.Box(1.0, 2.0))
    >>> round(net.lipschitz(), 3)  # 1 on all inputs
    0.42
    """

    low: Tensor | float
    high: Tensor | float


Inputs = Ball | Box | Tensor


@dataclass(frozen=True, eq=False)
class InputSet:
    """The intersection of a box and a ball around its reference point."""

    center: Tensor  # (1, ...), in float64, exactly representable in the example's precision
    low: Tensor
    high: Tensor
    radius: float
    words: str  # "the ball of radius 0.5 around the given center"
    short: str  # "ball of radius 0.5"

    def points(self, like: Tensor, count: int = 8) -> list[Tensor]:
        """Inputs in the set from its center to its edge, in the type of another tensor."""
        inputs = []
        for place in range(count):
            step = drawn(self.center.shape, place, "in the set").to(self.center)
            length = self.radius * (place + 1) / count * (1 - 1e-6)
            point = self.center + step * (length / float(step.norm()))
            inputs.append(torch.minimum(torch.maximum(point, self.low), self.high).to(like))
        return inputs


def input_set(inputs: object, example: Tensor) -> InputSet:
    """The set of inputs that a user passes, checked against the example's shape."""
    shape, kind = (1, *example.shape[1:]), example.dtype

    def of_shape(argument: str, value: object) -> Tensor:
        try:
            values = torch.as_tensor(value, dtype=torch.float64, device=example.device)
            values = values.detach().broadcast_to(shape)
        except (RuntimeError, TypeError, ValueError):
            rule = f"have the shape of one input, {tuple(shape[1:])}"
            raise invalid(argument, rule, value, "leave the batch axis out") from None
        if not bool(torch.isfinite(values).all()):
            raise invalid(argument, "be finite", value, got="NaN or infinity in it")
        return values

    if isinstance(inputs, Ball):
        center = of_shape("center", inputs.center)
        rounded = center.to(kind).double()
        radius = inputs.radius + float((center - rounded).norm())
        text = f"the ball of radius {inputs.radius:g} around the given center"
        short = f"ball of radius {inputs.radius:g}"
        return InputSet(rounded, rounded - radius, rounded + radius, radius, text, short)
    if isinstance(inputs, Box):
        low, high = of_shape("low", inputs.low), of_shape("high", inputs.high)
        _checks.require(bool((low <= high).all()), "low", "be <= high", low, got="larger entries")
        center = ((low + high) / 2).to(kind).double()
        text, short = f"the box from {_ends(low)} to {_ends(high)}", "box"
    elif isinstance(inputs, Tensor) or hasattr(inputs, "__array__"):
        data = torch.as_tensor(inputs, dtype=torch.float64, device=example.device).detach()
        rule = f"be a batch of at least two inputs of shape {tuple(shape[1:])}"
        fits = data.ndim == example.ndim and data.shape[1:] == example.shape[1:] and len(data) > 1
        if not fits or not bool(torch.isfinite(data).all()):
            raise invalid("inputs", rule, inputs, got=str(tuple(data.shape)))
        center = data.mean(0, keepdim=True).to(kind).double()
        low, high = data.amin(0, keepdim=True), data.amax(0, keepdim=True)
        radius = float((data - center).flatten(1).norm(dim=1).max())
        short = f"hull of {len(data):,} inputs"
        text = f"the box and the ball that hold the {len(data):,} given inputs"
        return InputSet(center, low, high, radius, text, short)
    else:
        remedy = "give kr.Ball(center, radius), kr.Box(low, high) or a batch of inputs"
        raise invalid("inputs", "be a set of inputs", inputs, remedy)
    radius = float(torch.maximum(high - center, center - low).norm())
    return InputSet(center, low, high, radius, text, short)


def _ends(values: Tensor) -> str:
    least, most = float(values.min()), float(values.max())
    return f"{least:g}" if least == most else f"its ends ({least:g} to {most:g})"
