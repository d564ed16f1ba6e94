"""Adam, Adagrad and SGD on lists of tensors: PyTorch's update rules, free of the host.

PyTorch's own keep step counts on the CPU, which a captured CUDA graph could not advance. Here the
iteration is a tensor on the device, and a state is a list of tensors that a checkpoint holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from korisk.fitting.gradient.recipe import Recipe

_ADAM_BETAS = 0.9, 0.999
_ADAM_EPSILON = 1e-8
_ADAGRAD_EPSILON = 1e-10


class Optimiser(ABC):
    """An elementwise update of parameters, in place; `state` is all that it remembers."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe, *, memories: int) -> None:
        self.parameters = list(parameters)
        self.recipe = recipe
        self.state = [[torch.zeros_like(p) for p in parameters] for _ in range(memories)]

    @abstractmethod
    def step(self, gradients: Sequence[Tensor], iteration: Tensor) -> None:
        """Move the parameters; `iteration`, shape (1,), counts from 0."""


class Sgd(Optimiser):
    """v <- m v + g, p <- p - rate v."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        super().__init__(parameters, recipe, memories=1 if recipe.momentum else 0)

    def step(self, gradients: Sequence[Tensor], iteration: Tensor) -> None:
        """Move the parameters."""
        moves = gradients
        if self.state:
            (moves,) = self.state
            for velocity, gradient in zip(moves, gradients, strict=True):
                velocity.mul_(self.recipe.momentum).add_(gradient)
        for parameter, move in zip(self.parameters, moves, strict=True):
            parameter.add_(move, alpha=-self.recipe.rate)


class Adagrad(Optimiser):
    """s <- s + g^2, p <- p - rate g / sqrt(s)."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        super().__init__(parameters, recipe, memories=1)

    def step(self, gradients: Sequence[Tensor], iteration: Tensor) -> None:
        """Move the parameters."""
        parts = zip(self.parameters, gradients, *self.state, strict=True)
        for parameter, gradient, total in parts:
            total.addcmul_(gradient, gradient)
            root = total.sqrt().add_(_ADAGRAD_EPSILON)
            parameter.addcdiv_(gradient, root, value=-self.recipe.rate)


class Adam(Optimiser):
    """p <- p - rate m / sqrt(v), with running means m of g and v of g^2 freed of their start."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        super().__init__(parameters, recipe, memories=2)
        first, second = _ADAM_BETAS
        step = torch.arange(1, recipe.iterations + 1, dtype=torch.float64)
        self.rates = recipe.rate / (1 - first**step)
        self.roots = (1 - second**step).sqrt()
        if self.parameters:
            self.rates = self.rates.to(self.parameters[0])
            self.roots = self.roots.to(self.parameters[0])

    def step(self, gradients: Sequence[Tensor], iteration: Tensor) -> None:
        """Move the parameters."""
        first, second = _ADAM_BETAS
        rate, root = self.rates[iteration], self.roots[iteration]
        parts = zip(self.parameters, gradients, *self.state, strict=True)
        for parameter, gradient, mean, square in parts:
            mean.lerp_(gradient, 1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            size = (square.sqrt() / root).add_(_ADAM_EPSILON)
            parameter.sub_((mean / size).mul_(rate))


_KINDS: dict[str, Callable[[Sequence[Tensor], Recipe], Optimiser]] = {
    "adam": Adam,
    "adagrad": Adagrad,
    "sgd": Sgd,
}


def optimiser_for(parameters: Sequence[Tensor], recipe: Recipe) -> Optimiser:
    """The recipe's optimiser, at its beginning."""
    return _KINDS[recipe.optimiser](parameters, recipe)
