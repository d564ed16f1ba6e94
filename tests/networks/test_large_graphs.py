"""Constants of whole graphs with many numbers, whose scales are searched for in float32."""

import pytest
import torch
from described import Of, told, upper
from torch import Tensor, nn

from benchmarks.networks.describe import climbed, steepest

SLACK = 1 + 1e-9  # of slopes in double precision


@pytest.fixture(params=[10, pytest.param(36, marks=pytest.mark.slow)])
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Side of an image whose graph counts as large: since it is, or since fewer numbers suffice."""
    if request.param < 36:
        monkeypatch.setattr("korisk.networks.describe.sectors._LARGE", 100)
    return int(request.param)


def convolution(inner: int, outer: int, *, seed: int, gain: float = 1.0) -> nn.Conv2d:
    """Weights of a stated size."""
    layer = nn.Conv2d(inner, outer, 3, padding=1)
    draws = torch.Generator().manual_seed(seed)
    layer.weight.data = gain * torch.randn(layer.weight.shape, generator=draws) / 6
    layer.bias.data = gain * torch.randn(outer, generator=draws) / 6  # type: ignore[union-attr]
    return layer


def test_a_step_towards_a_set_of_many_numbers_keeps_its_constant_of_one(side: int) -> None:
    # x - W^T relu(W x) is I - W^T D W with slopes D from 0 to 1: between 0 and I for |W| <= 1, and
    # I where W x < 0. So its constant is 1 exactly; paths say 1 + |W|^2.
    filters = torch.rand(8, 1, 3, 3, generator=torch.Generator().manual_seed(0)) / 14
    assert float(filters.sum((1, 2, 3)).square().sum()) <= 1  # |W|^2, by its symbol at 0

    def step(x: Tensor) -> Tensor:
        inner = torch.relu(nn.functional.conv2d(x, filters, padding=1))
        return x - nn.functional.conv_transpose2d(inner, filters, padding=1)

    wide = 5 * side // 2  # more than 60,000 numbers in the graph of the larger image
    example = torch.rand(1, 1, wide, wide, generator=torch.Generator().manual_seed(1))
    net, _ = told(Of(step), example)
    assert 1 <= net.lipschitz() * SLACK <= 1.06
    assert net.lipschitz("minkowski") > 1.2


def residual(blocks: int, channels: int, factor: float = 1.0) -> nn.Module:
    """Residual blocks; a factor and its inverse around each ReLU change nothing."""
    parts = []
    for block in range(blocks):
        parts.append(convolution(1, channels, seed=2 * block, gain=factor))
        parts.append(convolution(channels, 1, seed=2 * block + 1, gain=1 / factor))
    for layer in parts[1::2]:
        layer.bias.data.zero_()  # type: ignore[union-attr]

    def forward(x: Tensor, *layers: nn.Module) -> Tensor:
        for first, second in zip(layers[::2], layers[1::2], strict=True):
            x = x + second(torch.relu(first(x)))
        return x

    return Of(forward, *parts)


def image(side: int) -> Tensor:
    return torch.rand(1, 1, side, side, generator=torch.Generator().manual_seed(2))


def test_no_slope_that_is_found_exceeds_a_constant_searched_for_in_float32(side: int) -> None:
    module, example = residual(2, 8), image(side)
    slopes = (
        steepest(module, example, restarts=2, steps=20),
        climbed(module, example, restarts=2, steps=20)[0],
    )
    net, _ = told(module, example)
    assert max(slopes) <= net.lipschitz() * SLACK
    assert net.lipschitz() < 0.8 * net.lipschitz("minkowski")  # it says more than paths


def test_scales_beyond_float32_change_no_constant(side: int) -> None:
    # Squares of 1e25 are no floats of 32 bits: the search must go on in double precision.
    plain, scaled = (upper(residual(1, 16, factor), image(side)) for factor in (1.0, 1e25))
    assert scaled == pytest.approx(plain, rel=0.1)  # both searches stop within some percent
