"""KnownOperatorNet: learned weights, known operators behind them, and a ReLU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Self, cast

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, invalid, shown
from korisk.operators.basic import Diagonal, own_tensor
from korisk.operators.inputs import Shape, shape_text
from korisk.operators.linear import Composed, LinearOperator, parts_of
from korisk.operators.types import Values
from korisk.theory import Known, Layer, Learned, Network

Operators = LinearOperator | Sequence[LinearOperator]  # the one that takes the input first
Draws = torch.Generator | None  # of weights; None: one with the seed 0
_LONGEST_NAME = 70  # of a layer: longer ones are cut, so that a number fits behind


class KnownOperatorNet(nn.Module):
    """ReLU(B W x), Eq. (eq:fbp): (..., *domain) -> (..., *range), W diagonal and learned, B known.

    Several independent trainings can run side by side, with an axis of runs in front of weights,
    inputs and outputs. Moving the network moves its operators, which are shared, not copied. With
    filtered backprojection as B it is the upper network of (fig:ct-arch).

    Parameters
    ----------
    weights : tensor or array of shape domain or (runs, *domain)
        Start of W, such as (views, bins); copied into the tail's precision and device.
    tail : LinearOperator or sequence of LinearOperator
        B: an operator, or several in the order in which they are applied, such as K and A^T. None
        may have trainable weights.
    relu : bool, default True
        Whether a ReLU follows.

    Raises
    ------
    KoriskError
        If shapes do not fit together, the tail can be trained, or an input has another shape,
        precision or device.

    Examples
    --------
    >>> import torch
    >>> from korisk.networks import KnownOperatorNet
    >>> from korisk.operators import ParallelBeam, fbp
    >>> net = KnownOperatorNet.from_fbp(fbp(ParallelBeam(8, views=6, bins=12)))
    >>> net(torch.ones(3, 6, 12)).shape, net.describe().names
    (torch.Size([3, 8, 8]), ('W', 'K', 'A^T', 'ReLU'))
    """

    weights: nn.Parameter

    def __init__(self, weights: Values, tail: Operators, *, relu: bool = True) -> None:
        super().__init__()
        single = isinstance(tail, LinearOperator) or not isinstance(tail, Iterable)
        listed = cast(Iterable[object], [tail] if single else tail)
        parts: list[LinearOperator] = []
        for operator in listed:
            if not isinstance(operator, LinearOperator):
                raise invalid("tail", "be a LinearOperator or several", operator)
            if any(True for _ in operator.parameters()):
                why = f"tail must be known, but {operator.name} has weights that can be trained"
                remedy = "make it with trainable=False, or train the whole as an nn.Sequential"
                raise KoriskError(f"{why}; {remedy}")
            parts += parts_of(operator)
        rule, remedy = "hold at least one operator", "use Identity(shape)"
        _checks.require(bool(parts), "tail", rule, tail, remedy, got="none")
        self.linear_tail = Composed(parts)
        self.relu = bool(relu)
        # In float64, so that a tail in float64 loses nothing.
        weights_double = own_tensor("weights", weights, dtype=torch.float64)
        values = weights_double.to(self.linear_tail.device, self.linear_tail.dtype)
        if values.shape[-len(self.domain) :] != self.domain or values.ndim - len(self.domain) > 1:
            shape = f"{shape_text(self.domain)}, as {self.linear_tail.name} takes"
            rule = f"have shape {shape}, with an axis of runs in front or not"
            raise invalid("weights", rule, values, got=shape_text(tuple(values.shape)))
        self.weights = nn.Parameter(values)

    @classmethod
    def from_fbp(
        cls, composed: LinearOperator, *, runs: int | None = None, relu: bool = True
    ) -> Self:
        """The network of `fbp` or `released_fbp`: W is learned, what follows it is the tail.

        Parameters
        ----------
        composed : LinearOperator
            A composition whose first layer is a `Diagonal`.
        runs : int, optional
            Train this many copies of W side by side. Default: one, without an axis of runs.
        relu : bool, default True
            Whether a ReLU follows.

        Returns
        -------
        KnownOperatorNet
            The network, which equals `composed` and a ReLU until W is trained.

        Raises
        ------
        KoriskError
            If `composed` is not such a composition.
        """
        layers = parts_of(composed)
        if len(layers) < 2 or not isinstance(layers[0], Diagonal):
            rule = "takes a composition such as fbp(geometry), whose first layer is a Diagonal"
            got = f"got {shown(composed)}; use KnownOperatorNet(weights, tail)"
            raise KoriskError(f"from_fbp {rule}, {got}")
        weights = layers[0].weights.detach()
        if runs is not None:
            remedy = "count the trainings, or leave it out for a single one"
            number = _checks.count("runs", runs, at_least=1, remedy=remedy)
            weights = weights.expand(number, *weights.shape)
        return cls(weights, layers[1:], relu=relu)

    @property
    def domain(self) -> Shape:
        """The shape of one input, such as (views, bins)."""
        return self.linear_tail.domain

    @property
    def range(self) -> Shape:
        """The shape of one output, such as (rows, columns)."""
        return self.linear_tail.range

    @property
    def runs(self) -> int | None:
        """How many trainings run side by side; None without an axis of runs."""
        return len(self.weights) if self.weights.ndim > len(self.domain) else None

    def forward(self, x: Tensor) -> Tensor:
        """ReLU(B W x): (..., *domain) -> (..., *range), with an axis of runs in front or not."""
        self.linear_tail._check(x, self.domain, "input")
        image: Tensor = self.linear_tail(x * self.spread_weights(x))
        return torch.relu(image) if self.relu else image

    def spread_weights(self, x: Tensor) -> Tensor:
        """The weights as they multiply x.

        Parameters
        ----------
        x : tensor of shape (..., *domain) or (runs, ..., *domain)
            Inputs.

        Returns
        -------
        tensor
            The weights, with axes of length 1 where x has batches.
        """
        if self.runs is None:
            return self.weights
        if x.ndim <= len(self.domain) or len(x) != self.runs:
            raise KoriskError(
                f"the input must have shape {shape_text((self.runs,))[:-1]}, ..., "
                f"{shape_text(self.domain)[1:]}, a batch for each of the {self.runs} runs, got "
                f"{shape_text(tuple(x.shape))}; one batch for all is x.expand({self.runs}, ...)"
            )
        batches = [1] * (x.ndim - len(self.domain) - 1)
        return self.weights.reshape(self.runs, *batches, *self.domain)

    def describe(self) -> Network:
        """The network as the theory takes it: W learned, the operators known by their norms.

        Norms are computed when a bound first needs them, those of compositions too.

        Returns
        -------
        Network
            The layers "W", the operators by their names, and "ReLU" if there is one.
        """
        layers: list[Layer] = [Learned("W", parameters=math.prod(self.domain))]
        names = {"W", "ReLU"}
        for operator in self.linear_tail.layers:
            layers.append(Known(free_name(operator.name, names), lipschitz=operator))
            names.add(layers[-1].name)
        if self.relu:
            layers.append(Known("ReLU", lipschitz=1.0))
        return Network(layers)

    def extra_repr(self) -> str:
        """The weights' shape and the ReLU, as nn.Module prints them."""
        return f"weights {shape_text(tuple(self.weights.shape))}, relu={self.relu}"


def free_name(name: str, names: set[str]) -> str:
    """A layer's name, cut if it is long, with a number where it is taken."""
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
    number, free = 2, short
    while free in names:
        number, free = number + 1, f"{short} ({number})"
    return free
