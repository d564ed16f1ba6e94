"""Fast slopes of convolutions are those of PyTorch."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from korisk.fitting.gradient.convolutions import FastGradients

PLAIN: list[dict[str, Any]] = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3},
    {"kernel_size": 1, "bias": False},
    {"kernel_size": (5, 3), "padding": (2, 0)},
    {"kernel_size": (3, 5), "padding": "same"},
    {"kernel_size": 2, "padding": "valid"},
    {"kernel_size": 2, "padding": 1},
    {"kernel_size": 3, "padding": 1, "padding_mode": "circular"},  # which pads by itself
]
OTHER: list[dict[str, Any]] = [
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": 3, "dilation": 2, "padding": 2},
    {"kernel_size": 3, "groups": 2},
    {"kernel_size": 1, "padding": 1},
]


def slopes(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Of the input and the weights, and those of their own size."""
    first = torch.autograd.grad(
        layer(x).square().sum(), [x, *layer.parameters()], create_graph=True
    )
    size = torch.stack([slope.square().sum() for slope in first]).sum()
    return *first, *torch.autograd.grad(size, [x, *layer.parameters()])


@pytest.mark.parametrize("options", [*PLAIN, *OTHER], ids=str)
def test_slopes_are_those_of_pytorch(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(4, 6, **options), torch.randn(3, 4, 9, 7, requires_grad=True)
    expected = slopes(layer, x)
    with FastGradients():
        found = slopes(layer, x)
    for slope, reference in zip(found, expected, strict=True):
        # Sums of at most some thousand products in another order.
        torch.testing.assert_close(
            slope, reference, rtol=1e-4, atol=1e-4 * float(reference.detach().abs().max())
        )


def used(x: Tensor, layer: nn.Module) -> bool:
    """Whether an output has a slope of ours."""
    with FastGradients():
        return "_Convolution" in str(layer(x).grad_fn)


def test_what_it_is_not_made_for_is_left_alone() -> None:
    x = torch.randn(3, 4, 9, 7)
    for options in PLAIN:
        assert used(x, nn.Conv2d(4, 6, **options))
    for options in OTHER:
        assert not used(x, nn.Conv2d(4, 6, **options))
    assert not used(x.double(), nn.Conv2d(4, 6, 3).double())
    assert not used(x[0], nn.Conv2d(4, 6, 3))
    frozen = nn.Conv2d(4, 6, 3).requires_grad_(False)
    assert not used(x.clone().requires_grad_(), frozen)
    with FastGradients(), torch.no_grad():
        assert nn.Conv2d(4, 6, 3)(x).shape == (3, 6, 7, 5)
