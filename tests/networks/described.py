"""What the tests of networks share."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import korisk as kr
from korisk.errors import KoriskWarning


class Of(nn.Module):
    """A function of the input and of parts, as a module."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.parts)


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers in double precision."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def told(module: nn.Module, example: Tensor) -> tuple[kr.Network, str]:
    """The network, and everything that was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KoriskWarning)
        net = kr.describe(module, example)
    return net, " | ".join(str(each.message) for each in caught)


def upper(module: nn.Module, example: Tensor) -> float:
    """The constant of the whole, from above."""
    return told(module, example)[0].lipschitz()


def slope_at(module: nn.Module, x: Tensor) -> float:
    """The exact norm of the Jacobian at a point."""
    jacobian: Any = torch.autograd.functional.jacobian
    matrix = jacobian(module.eval(), x).reshape(-1, x.numel())
    return float(np.linalg.norm(matrix.numpy(), 2))
