"""What the tests of `kr.describe` share."""

import warnings
from collections.abc import Callable
from typing import Any

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


def told(module: nn.Module, example: Tensor) -> tuple[kr.Network, str]:
    """The network, and everything that was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KoriskWarning)
        net = kr.describe(module, example)
    return net, " | ".join(str(each.message) for each in caught)
