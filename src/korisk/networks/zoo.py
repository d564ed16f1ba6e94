"""A small zoo: networks of today around known operators, and one without any, ready to train.

`build` makes one by its kind, such as FBP + U-Net or learned primal-dual. The classes are plain
modules whose known operators are submodules, so that `korisk.describe` shows each of them. Inputs
are (batch, *A.range), outputs images (batch, *A.domain), in float32.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import invalid
from korisk.networks.known_operator import Draws, Operators, free_name
from korisk.operators.basic import Diagonal
from korisk.operators.inputs import Shape, shape_text
from korisk.operators.linear import Composed, LinearOperator, parts_of, require_operator

KINDS = {
    "inverse-unet": "known inverse (FBP, Tikhonov or adjoint), then a U-Net",
    "weights-inverse-unet": "learned weights, then the known inverse, then a U-Net",
    "inverse-cnn": "known inverse, then five convolutions",
    "primal-dual": "learned primal-dual, with A and A^T at every pass",
    "dense-unet": "one learned dense layer instead of the inverse, then a U-Net",
}
_SMALL = 0.1  # gain of a last layer: a network starts close to what is known
_CELLS = 2**28  # weights of a dense layer at most: 1 GiB in float32


def build(
    kind: str,
    operator: LinearOperator,
    inverse: Operators,
    *,
    width: int = 16,
    levels: int = 2,
    passes: int = 4,
    seed: int = 0,
) -> nn.Module:
    """A network of the zoo for images that are measured by an operator."""
    _checks.one_of("kind", kind, tuple(KINDS))
    _checks.count("width", width, at_least=1, at_most=4096, remedy="try 16")
    number = _checks.count("seed", seed, at_least=0, at_most=2**63 - 1, remedy="try 0")
    draws = torch.Generator().manual_seed(number)
    if kind == "primal-dual":
        return PrimalDual(operator, passes, width=width, generator=draws)
    shape = require_operator(operator).domain
    if kind == "dense-unet":
        size, data = 1 / operator.norm().upper, operator.range
        dense = DenseUNet(data, shape, width=width, levels=levels, scale=size, generator=draws)
        return dense.to(operator.device)
    channels = _Channels(shape).count
    if kind == "inverse-cnn":
        return PostProcessing(inverse, Cnn(channels, width=width * 3 // 2, generator=draws))
    learned = UNet(channels, width=width, levels=levels, generator=draws)
    weighted = kind == "weights-inverse-unet"
    return (WeightedPostProcessing if weighted else PostProcessing)(inverse, learned)


# --- Learned blocks ------------------------------------------------------------------------------


class UNet(nn.Module):
    """A U-Net: images (batch, channels, rows, columns), plus a learned correction.

    Convolutions of 3 x 3 with ReLUs, averages over 2 x 2 pixels on the way down, and nearest
    neighbours on the way up, beside which the images of the way down are taken in again.
    """

    def __init__(
        self, channels: int = 1, levels: int = 2, *, width: int = 16, generator: Draws = None
    ) -> None:
        super().__init__()
        _checks.count("channels", channels, at_least=1, at_most=4096, remedy="1 for a real image")
        self.levels = _checks.count("levels", levels, at_least=1, at_most=8, remedy="try 2")
        _checks.count("width", width, at_least=1, at_most=4096, remedy="try 16")
        draws = generator or torch.Generator().manual_seed(0)
        widths = [width * 2 ** min(level, levels - 1) for level in range(levels + 1)]
        self.enter = _convolution(channels, width, draws)
        steps = zip([width, *widths], widths, strict=False)
        self.down = nn.ModuleList(_convolution(*step, draws) for step in steps)
        back = [widths[max(level - 1, 0)] for level in range(levels)]
        sides = zip(widths, [*back[1:], widths[-1]], back, strict=False)
        self.up = nn.ModuleList(_convolution(skip + low, up, draws) for skip, low, up in sides)
        self.leave = _convolution(width, channels, draws, _SMALL)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        skips = [torch.relu(self.down[0](torch.relu(self.enter(x))))]
        for convolution in self.down[1:]:
            skips.append(torch.relu(convolution(F.avg_pool2d(skips[-1], 2))))
        up = skips[-1]
        for level in reversed(range(self.levels)):
            batch, channels, rows, columns = up.shape
            # What F.interpolate gives, whose backward pass takes a fifth of a step on a GPU.
            small = up.reshape(batch, channels, rows, 1, columns, 1)
            wide = small.expand(-1, -1, -1, 2, -1, 2)
            wide = wide.reshape(batch, channels, 2 * rows, 2 * columns)
            up = torch.relu(self.up[level](torch.cat([skips[level], wide], 1)))
        return x + cast(Tensor, self.leave(up))


class Cnn(nn.Module):
    """Convolutions: images (batch, channels, rows, columns), plus a learned correction."""

    def __init__(
        self, channels: int = 1, depth: int = 5, *, width: int = 24, generator: Draws = None
    ) -> None:
        super().__init__()
        _checks.count("channels", channels, at_least=1, at_most=4096, remedy="1 for a real image")
        _checks.count("depth", depth, at_least=2, at_most=100, remedy="try 5")
        _checks.count("width", width, at_least=1, at_most=10**4, remedy="try 24")
        self.stack = _stack([channels, *[width] * (depth - 1), channels], generator)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        return x + cast(Tensor, self.stack(x))


def _convolution(
    inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0
) -> nn.Conv2d:
    """A convolution of 3 x 3 that keeps the size of ReLUs' outputs, times the gain."""
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, dtype=torch.float32)
    with torch.no_grad():
        convolution.weight.normal_(generator=generator).mul_(gain * math.sqrt(2 / (9 * inputs)))
        cast(Tensor, convolution.bias).zero_()
    return convolution


def _stack(channels: Sequence[int], generator: Draws) -> nn.Sequential:
    """Convolutions with ReLUs between them; the last one starts small."""
    draws = generator or torch.Generator().manual_seed(0)
    layers: list[nn.Module] = []
    for place in range(len(channels) - 2):
        layers += [_convolution(channels[place], channels[place + 1], draws), nn.ReLU()]
    return nn.Sequential(*layers, _convolution(channels[-2], channels[-1], draws, _SMALL))


class _Channels:
    """How tensors of a shape become images with channels, (batch, count, rows, columns)."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.parts = len(shape) > 2 and shape[-1] == 2  # real and imaginary parts
        self.inner = shape[:-3] if self.parts else shape[:-2]  # such as coils
        if len(shape) < 2:
            rule, remedy = "have rows and columns", "use KnownOperatorNet for signals"
            raise invalid("images", rule, shape, remedy, got=shape_text(shape))
        self.count = math.prod(self.inner) * (2 if self.parts else 1)
        self.sides = shape[-3:-1] if self.parts else shape[-2:]

    def split(self, x: Tensor) -> Tensor:
        """(batch, *shape) to (batch, count, rows, columns)."""
        if len(self.shape) == 2:
            return x.unsqueeze(1)
        return (x.movedim(-1, 1) if self.parts else x).reshape(len(x), self.count, *self.sides)

    def through(self, net: nn.Module, x: Tensor) -> Tensor:
        """Apply a network on images with channels to (batch, *shape)."""
        return self.join(net(self.split(x)))

    def join(self, x: Tensor) -> Tensor:
        """(batch, count, rows, columns) to (batch, *shape)."""
        if len(self.shape) == 2:
            return x.squeeze(1)
        if not self.parts:
            return x.reshape(len(x), *self.shape)
        return x.reshape(len(x), 2, *self.inner, *self.sides).movedim(1, -1)


# --- Networks around known operators -------------------------------------------------------------


class PostProcessing(nn.Module):
    """A known inverse, then a learned network on images: (batch, *domain) to (batch, *range)."""

    def __init__(self, inverse: Operators, net: nn.Module) -> None:
        super().__init__()
        self.inverse = _chain(inverse)
        last = list(self.inverse.children())[-1]
        assert isinstance(last, LinearOperator)
        self._channels = _Channels(last.range)
        if isinstance(net, UNet):
            check_halved(self._channels.sides, net.levels)
        self.net = net.to(last.device)

    def forward(self, y: Tensor) -> Tensor:
        """Reconstruct images from measurements."""
        return self._channels.through(self.net, self.inverse(y))


class WeightedPostProcessing(PostProcessing):
    """Learned weights W, then a known inverse, then a learned network on images.

    The network of the paper, with a network of today behind it.
    """

    def __init__(self, inverse: Operators, net: nn.Module) -> None:
        super().__init__(inverse, net)
        layers = OrderedDict(self.inverse.named_children())
        first = next(iter(layers.values()))
        assert isinstance(first, LinearOperator)
        start = torch.ones(first.domain, device=first.device, dtype=torch.float32)
        if isinstance(first, Diagonal) and len(layers) > 1:
            start = first.weights.detach()
            layers.popitem(last=False)
        weights = Diagonal(start, name="W", trainable=True)
        self.inverse = nn.Sequential(OrderedDict([("W", weights), *layers.items()]))


class PrimalDual(nn.Module):
    """Learned primal-dual: small CNNs on what was measured and on images take turns.

    After Adler and Oektem (2018). At every pass a CNN changes the dual variables by the data and
    A x, and another one the images x by A^T of the dual variables. A is divided by its norm, and
    the data too.
    """

    def __init__(
        self,
        operator: LinearOperator,
        passes: int = 4,
        *,
        width: int = 16,
        memory: int = 4,
        generator: Draws = None,
    ) -> None:
        super().__init__()
        remedy = "try 4"
        _checks.count("passes", passes, at_least=1, at_most=100, remedy=remedy)
        _checks.count("width", width, at_least=1, at_most=4096, remedy="try 16")
        self.memory = _checks.count("memory", memory, at_least=1, at_most=1024, remedy=remedy)
        known = _single(require_operator(operator))
        self.scale = 1 / known.norm().upper
        self.operator = known * self.scale
        self.adjoint = self.operator.T
        self._data, self._image = _Channels(known.range), _Channels(known.domain)
        draws = generator or torch.Generator().manual_seed(0)
        data, image = self._data.count, self._image.count

        def blocks(inputs: int, outputs: int) -> nn.ModuleList:
            stacks = [_stack([inputs, width, width, outputs], draws) for _ in range(passes)]
            return nn.ModuleList(stacks).to(known.device)

        self.duals = blocks((memory + 2) * data, memory * data)
        self.primals = blocks((memory + 1) * image, memory * image)

    def forward(self, y: Tensor) -> Tensor:
        """Reconstruct images from measurements."""
        data, image = self._data, self._image
        measured = data.split(y * self.scale)
        dual = measured.new_zeros(y.shape[0], self.memory * data.count, *data.sides)
        x = measured.new_zeros(y.shape[0], self.memory * image.count, *image.sides)
        for on_data, on_image in zip(self.duals, self.primals, strict=True):
            projected = data.split(self.operator(image.join(x[:, -image.count :])))
            dual = dual + on_data(torch.cat([dual, projected, measured], 1))
            back = image.split(self.adjoint(data.join(dual[:, : data.count])))
            x = x + on_image(torch.cat([x, back], 1))
        return image.join(x[:, : image.count])


class DenseUNet(nn.Module):
    """A dense learned layer from everything measured to every pixel, then a U-Net.

    It knows no operator. The data are divided by the root of their number, so that weights of the
    size one suit Adam's steps.
    """

    def __init__(
        self,
        in_shape: Sequence[int],
        out_shape: Sequence[int],
        *,
        width: int = 16,
        levels: int = 2,
        scale: float = 1.0,
        generator: Draws = None,
    ) -> None:
        super().__init__()
        self._channels = _Channels(tuple(out_shape))
        inputs, outputs = math.prod(in_shape), math.prod(out_shape)
        check_dense(inputs, outputs)
        size = _checks.real("scale", scale, above=0, remedy="give one over the norm of A")
        self.scale = size / math.sqrt(inputs)
        draws = generator or torch.Generator().manual_seed(0)
        self.dense = nn.Linear(inputs, outputs, dtype=torch.float32)
        with torch.no_grad():
            self.dense.weight.normal_(generator=draws)
            self.dense.bias.zero_()
        self.net = UNet(self._channels.count, levels, width=width, generator=draws)
        check_halved(self._channels.sides, levels)

    def forward(self, y: Tensor) -> Tensor:
        """Reconstruct images from measurements."""
        images = self.dense(y.flatten(1) * self.scale).reshape(y.shape[0], *self._channels.shape)
        return self._channels.through(self.net, images)


class _Refinement(nn.Module):
    """The learned network behind a known inverse: images to images."""

    def __init__(self, channels: _Channels, net: nn.Module) -> None:
        super().__init__()
        self._channels, self.net = channels, net

    def forward(self, images: Tensor) -> Tensor:
        return self._channels.through(self.net, images)


def split_known(network: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The known part in front of a network, which is computed once, and the rest to train."""
    if isinstance(network, PostProcessing):
        front = network.inverse
        if not any(weights.requires_grad for weights in front.parameters()):
            return front, _Refinement(network._channels, network.net)
    return nn.Identity(), network


# --- Checks --------------------------------------------------------------------------------------


def _single(operator: LinearOperator) -> LinearOperator:
    """The operator in float32: itself, or a copy, since others may use it as it is."""
    single = operator.dtype == torch.float32
    return operator if single else copy.deepcopy(operator).to(torch.float32)


def _chain(inverse: LinearOperator | Iterable[LinearOperator]) -> nn.Sequential:
    """Operators by their names."""
    listed = [inverse] if isinstance(inverse, LinearOperator) else list(inverse)
    parts = [
        _single(factor) for operator in listed for factor in parts_of(require_operator(operator))
    ]
    some, rule = bool(parts), "hold at least one operator"
    _checks.require(some, "inverse", rule, parts, "use A.T", got="none")
    Composed(parts)  # raises if they do not follow one another
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for layer in parts:
        layers[free_name(layer.name.replace(".", "_"), set(layers))] = layer
    return nn.Sequential(layers)


def check_dense(inputs: int, outputs: int) -> None:
    """Raise if a dense layer would have too many weights."""
    rule, got = f"have at most {_CELLS:,} weights", f"{inputs:,} x {outputs:,}"
    fits = inputs * outputs <= _CELLS
    _checks.require(fits, "a dense layer", rule, inputs, "use smaller images", got=got)


def check_halved(sides: Shape, levels: int) -> None:
    """Raise if a U-Net of this many levels cannot halve the images' sides."""
    field, rule = f"images of a U-Net of {levels} levels", f"have sides divisible by {2**levels}"
    divisible = all(side % 2**levels == 0 for side in sides)
    remedy, got = "use fewer levels, or other images", shape_text(sides)
    _checks.require(divisible, field, rule, sides, remedy, got=got)
