"""Upper Lipschitz constants of described networks beside slopes that an adversary finds.

At least 60 modules of every kind, with random and with briefly trained weights, and 200 random
graphs. An upper end below a found slope would be unsound; upper / lower says how loose it is. The
search climbs |f(x + v) - f(x - v)| / |2 v| in x and v from several starts, then follows the
steepest direction of the Jacobian there. Where there are skips, a second one climbs |J(x) v| with
softened ReLUs, also far from the example, and hands its ends to the first. For ResNets and learned
primal-dual networks "free" is the largest |J| that is found if every ReLU may have any slope from 0
to 1: a constant that takes slopes one by one, as the norm of the whole does, cannot be below it.

    python -m benchmarks.networks.describe [--workers 12] [--json benchmarks/results/describe.json]
"""

import argparse
import copy
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import korisk as kr
from benchmarks.markdown import header, line
from korisk.networks import zoo
from korisk.operators import DataConsistency, Fourier, LinearOperator, ParallelBeam, Projector, fbp
from korisk.store.usage import machine

SCAN = ParallelBeam(8, views=6, bins=12)
PASSES = 4
NEAREST = 1e-5  # relative distance of two inputs, whose quotient then has ten digits
RESTARTS, CLIMB_STEPS, POLISH_STEPS = 24, 240, 200
LARGE = "zoo, 32 x 32, width 16"
WEIGHTS = {False: "random weights", True: "briefly trained"}
MASK = torch.arange(8) % 2
Made = tuple[nn.Module, Tensor]  # and a batch of inputs, to train with
Factory = Callable[[], Made]


class Of(nn.Module):
    """A function of the input and of parts."""

    def __init__(self, function: Callable[..., Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """The function of x."""
        return self.function(x, *self.parts)


def convolution(inner: int, outer: int) -> nn.Conv2d:
    """3 x 3, of the same size."""
    return nn.Conv2d(inner, outer, 3, padding=1)


def small(channels: int = 1, width: int = 4, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Two convolutions."""
    return nn.Sequential(convolution(channels, width), act(), convolution(width, channels))


class DeepUNet(nn.Module):
    """Two convolutions a level, maxima on the way down, no skip around the whole."""

    def __init__(self, levels: int, width: int = 2, *, outer: bool = False) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels)]
        self.outer = outer
        self.down = nn.ModuleList(
            nn.Sequential(convolution(a, b), nn.ReLU(), convolution(b, b), nn.ReLU())
            for a, b in zip([1, *widths], widths, strict=False)
        )
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
        self.up = nn.ModuleList(
            nn.Sequential(convolution(2 * w, w), nn.ReLU()) for w in widths[:-1]
        )
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        skips: list[Tensor] = []
        value = x
        for level, down in enumerate(self.down):
            value = down(F.max_pool2d(value, 2) if level else value)
            skips.append(value)
        skips.pop()
        for level in reversed(range(len(self.up))):
            value = self.up[level](torch.cat([skips[level], self.grow[level](value)], 1))
        made: Tensor = self.last(value)
        return x + made if self.outer else made


class Block(nn.Module):
    """Two convolutions beside a skip, as in a ResNet."""

    def __init__(self, inner: int, outer: int, stride: int, *, norm: bool) -> None:
        super().__init__()

        def normed(*parts: nn.Module) -> list[nn.Module]:
            return [*parts, nn.BatchNorm2d(outer)] if norm else [*parts]

        down = nn.Conv2d(inner, outer, 3, stride, 1)
        self.inner = nn.Sequential(*normed(down), nn.ReLU(), *normed(convolution(outer, outer)))
        short = normed(nn.Conv2d(inner, outer, 1, stride)) if inner != outer else []
        self.skip = nn.Sequential(*short)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        return torch.relu(self.skip(x) + self.inner(x))


def resnet(
    blocks: int, *, stages: int = 1, width: int = 8, norm: bool = True, classes: int = 0
) -> nn.Sequential:
    """A convolution, blocks, of which each stage doubles channels, and an image or classes."""
    parts: list[nn.Module] = [convolution(1, width), nn.ReLU()]
    channels = width
    for stage in range(stages):
        for at in range(blocks):
            wider = width * 2**stage
            parts.append(Block(channels, wider, 1 + (stage > 0 and at == 0), norm=norm))
            channels = wider
    if classes:
        return nn.Sequential(
            *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )
    return nn.Sequential(*parts, nn.Conv2d(channels, 1, 1))


class Unrolled(nn.Module):
    """Gradient steps on |A x - y|^2, and something learned behind each of them."""

    def __init__(self, kind: str, *, shared: bool = False) -> None:
        super().__init__()
        known = Projector(SCAN, dtype=torch.float32)
        self.operator = known * (1 / known.norm().upper)
        self.adjoint = self.operator.T
        self.kind, self.scale = kind, 1 / known.norm().upper
        self.step = nn.Parameter(torch.full((PASSES,), 0.9))
        self.threshold = nn.Parameter(torch.full((PASSES,), 0.02))
        count = 1 if shared else PASSES
        self.learned = nn.ModuleList(small() for _ in range(count))
        self.filters = nn.ParameterList(
            nn.Parameter(0.2 * torch.randn(4, 1, 3, 3)) for _ in range(PASSES)
        )

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms to images."""
        y = y * self.scale
        x: Tensor = self.adjoint(y)
        for at in range(PASSES):
            gradient = self.adjoint(self.operator(x) - y)
            if self.kind == "gradient":
                x = x - self.step[at] * gradient
                x = x + self.learned[at % len(self.learned)](x[:, None])[:, 0]
            elif self.kind == "ista":
                x = F.softshrink(x - self.step[at] * gradient, 0.02)
            elif self.kind == "prox":
                x = self.learned[at % len(self.learned)]((x - self.step[at] * gradient)[:, None])
                x = x[:, 0]
            else:  # a variational network
                inner = torch.tanh(F.conv2d(x[:, None], self.filters[at], padding=1))
                pulled = F.conv_transpose2d(inner, self.filters[at], padding=1)
                x = x - self.step[at] * gradient - pulled[:, 0]
        return x


class Cascade(nn.Module):
    """A small CNN and data consistency in turns, for MRI."""

    def __init__(self, act: type[nn.Module]) -> None:
        super().__init__()
        self.fourier = Fourier((8, 8), [1, 0, 1, 1] * 2, real=True, dtype=torch.float32)
        self.adjoint = self.fourier.T
        self.learned = nn.ModuleList(small(act=act) for _ in range(PASSES))
        self.consistent = DataConsistency(self.fourier, 0.2)

    def forward(self, y: Tensor) -> Tensor:
        """Spectra to images."""
        x: Tensor = self.adjoint(y)
        for learned in self.learned:
            x = self.consistent(x + learned(x[:, None])[:, 0], y)
        return x


def dense_skips(x: Tensor, *parts: nn.Module) -> Tensor:
    """Each convolution takes all values so far."""
    seen = [x]
    for part in parts:
        seen.append(torch.relu(part(torch.cat(seen, 1))))
    return seen[-1]


def modules() -> dict[str, dict[str, Factory]]:
    """By kind and name."""
    images, rows = torch.rand(8, 1, 8, 8), torch.randn(8, 6)
    scans = Projector(SCAN, dtype=torch.float32)(torch.rand(8, 8, 8))
    spectra = Fourier((8, 8), [1, 0, 1, 1] * 2, real=True, dtype=torch.float32)(torch.rand(8, 8, 8))
    projector = Projector(SCAN, dtype=torch.float32)

    def mlp(act: Callable[[], nn.Module]) -> Factory:
        return lambda: (nn.Sequential(nn.Linear(6, 8), act(), nn.Linear(8, 4)), rows)

    def cnn(*behind: nn.Module) -> Factory:
        return lambda: (nn.Sequential(convolution(1, 3), nn.ReLU(), *copy.deepcopy(behind)), images)

    def residual(act: Callable[[], nn.Module], blocks: int) -> Factory:
        def block() -> nn.Module:
            inner = nn.Sequential(nn.Linear(6, 8), act(), nn.Linear(8, 6))
            return Of(lambda x, part: x + part(x), inner)

        return lambda: (nn.Sequential(*(block() for _ in range(blocks))), rows)

    def dense(depth: int) -> Factory:
        return lambda: (
            Of(dense_skips, *(convolution(1 + 2 * at, 2) for at in range(depth))),
            images,
        )

    acts: dict[str, Callable[[], nn.Module]] = {
        "ReLU": nn.ReLU, "LeakyReLU": nn.LeakyReLU, "PReLU": nn.PReLU, "ELU": nn.ELU,
        "SELU": nn.SELU, "GELU": nn.GELU, "SiLU": nn.SiLU, "Mish": nn.Mish, "tanh": nn.Tanh,
        "sigmoid": nn.Sigmoid, "softplus": nn.Softplus, "hardswish": nn.Hardswish,
        "softmax": lambda: nn.Softmax(1), "log-softmax": lambda: nn.LogSoftmax(1),
        "where": lambda: Of(lambda x: torch.where(x > 0, x, 0.1 * x)),
    }  # fmt: skip
    chains = {f"MLP, {name}": mlp(act) for name, act in acts.items()}
    chains |= {
        "CNN": cnn(convolution(3, 1)), "CNN, max pooling": cnn(nn.MaxPool2d(2), convolution(3, 1)),
        "CNN, overlapping maxima": cnn(nn.MaxPool2d(3, 1, 1), convolution(3, 1)),
        "CNN, mean pooling": cnn(nn.AvgPool2d(2), convolution(3, 1)),
        "CNN, batch norm": cnn(nn.BatchNorm2d(3), convolution(3, 1)),
        "CNN, upsampling": cnn(nn.Upsample(scale_factor=2, mode="bilinear"), convolution(3, 1)),
        "CNN, circular": cnn(nn.Conv2d(3, 1, 3, padding=1, padding_mode="circular")),
        "CNN, dense end": cnn(nn.Flatten(), nn.Linear(192, 5)),
        "masked": lambda: (Of(lambda x, c: c(x * MASK), convolution(1, 2)), images),
        "clamped": lambda: (
            Of(lambda x, c: c(x).clamp(torch.zeros(8), torch.ones(8)), convolution(1, 2)),
            images,
        ),
        "weights, FBP": lambda: (fbp(SCAN, trainable=True).to(torch.float32), scans),
    }  # fmt: skip
    skips = {f"residual, {name}": residual(acts[name], 3) for name in ("ReLU", "GELU", "tanh")}
    skips |= {
        "residual, 8 blocks": residual(nn.ReLU, 8), "dense skips, 3": dense(3),
        "dense skips, 5": dense(5),
        "residual CNN": lambda: (zoo.Cnn(1, 4, width=4), images),
        "maximum of two": lambda: (
            Of(lambda x, a, b: x + torch.maximum(a(x), b(x)), small(), small()), images,
        ),
        "two branches": lambda: (
            Of(lambda x, a, b: torch.cat([a(x), x - b(x)], 1), small(), small()), images,
        ),
    }  # fmt: skip
    unets: dict[str, Factory] = {
        "zoo, 1 level": lambda: (zoo.UNet(1, 1, width=2), images),
        "zoo, 2 levels": lambda: (zoo.UNet(1, 2, width=2), images),
        LARGE: lambda: (zoo.UNet(1, 2, width=16), torch.rand(2, 1, 32, 32)),
        "zoo, 2 levels, FBP": lambda: (
            zoo.build("inverse-unet", projector, fbp(SCAN), width=2), scans,
        ),
        "2 levels": lambda: (DeepUNet(2), images), "3 levels": lambda: (DeepUNet(3), images),
        "2 levels, residual": lambda: (DeepUNet(2, outer=True), images),
        "3 levels, residual": lambda: (DeepUNet(3, outer=True), images),
    }  # fmt: skip
    resnets: dict[str, Factory] = {
        "2 blocks": lambda: (resnet(2), images), "4 blocks": lambda: (resnet(4, width=4), images),
        "3 blocks, no norm": lambda: (resnet(3, norm=False), images),
        "2 x 2 blocks": lambda: (resnet(2, stages=2, width=4), torch.rand(8, 1, 16, 16)),
        "2 x 2 blocks, classes": lambda: (resnet(2, stages=2, classes=4), images),
    }  # fmt: skip
    unrolled: dict[str, Factory] = {
        "gradient steps + CNNs": lambda: (Unrolled("gradient"), scans),
        "gradient steps + one CNN": lambda: (Unrolled("gradient", shared=True), scans),
        "learned prox": lambda: (Unrolled("prox"), scans),
        "ISTA": lambda: (Unrolled("ista"), scans),
        "variational network": lambda: (Unrolled("variational"), scans),
        "learned primal-dual": lambda: (zoo.PrimalDual(projector, PASSES, width=4), scans),
        "data consistency": lambda: (Cascade(nn.ReLU), spectra),
        "data consistency, tanh": lambda: (Cascade(nn.Tanh), spectra),
    }
    return {
        "chains": chains, "residual and dense skips": skips, "ResNets": resnets, "U-Nets": unets,
        "four unrolled passes": unrolled,
    }  # fmt: skip


def random_graph(seed: int) -> Made:
    """Up to 10 nodes of weights, activations, sums and concatenations, with skips at random."""
    draws = torch.Generator().manual_seed(seed)

    def pick(count: int) -> int:
        return int(torch.randint(count, (1,), generator=draws))

    width, count = 5, 4 + pick(7)
    acts: list[Callable[[Tensor], Tensor]] = [torch.relu, torch.tanh, F.gelu, torch.sin, F.silu]
    acts.insert(3, lambda x: F.leaky_relu(x, -0.3))
    plan: list[tuple[int, int, int, Tensor]] = []
    for at in range(count):
        recent = max(0, at - 3)
        weights = torch.randn(2 * width, width, generator=draws) * 0.4
        one, two = (recent + pick(at + 1 - recent) for _ in range(2))
        plan.append((pick(5), one, two, weights.double()))

    def forward(x: Tensor) -> Tensor:
        values = [x]
        for at, (kind, one, two, weights) in enumerate(plan):
            a, b = values[one], values[two]
            if kind == 0:
                made = a @ weights[:width]
            elif kind == 1:
                made = acts[(seed + at) % len(acts)](a)
            elif kind == 2:
                made = a - 0.7 * b
            elif kind == 3:
                made = torch.cat([a, b], 1) @ weights
            else:
                made = torch.maximum(a, b.flip(1))
            values.append(made)
        return values[-1] + values[-2]

    return Of(forward), torch.randn(4, width, generator=draws, dtype=torch.float64)


def train(module: nn.Module, inputs: Tensor, steps: int = 60) -> None:
    """Some steps of Adam towards smooth targets, so that weights are not random."""
    trained = [each for each in module.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=3e-3)
    draws = torch.Generator().manual_seed(3)
    goal = torch.rand(module(inputs).shape, generator=draws).cumsum(-1) / 4
    for _ in range(steps):
        optimizer.zero_grad()
        torch.mean((module(inputs) - goal) ** 2).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def steepest(
    module: nn.Module,
    example: Tensor,
    restarts: int = 6,
    steps: int = 80,
    points: Tensor | None = None,
) -> float:
    """The largest slope that is found, in double precision, from random points and given ones."""
    module = copy.deepcopy(module).double().requires_grad_(False)
    example = example.double()
    draws = torch.Generator().manual_seed(0)
    scale = float(example.norm()) / math.sqrt(example.numel()) or 1.0
    length = scale * math.sqrt(example.numel())

    def drawn() -> Tensor:
        return torch.randn(example.shape, generator=draws, dtype=torch.float64)

    def size(batch: Tensor) -> Tensor:
        return batch.flatten(1).square().sum(1).sqrt()

    away = [drawn() * scale * (0.3, 1, 3, 10)[at % 4] for at in range(restarts)]
    x = torch.cat([example + (each.abs() if at % 3 == 1 else each) for at, each in enumerate(away)])
    if points is not None:
        x, restarts = torch.cat([x, points]), restarts + len(points)
    v = torch.cat([drawn() * length * 0.02 * 3 ** (at % 3) for at in range(restarts)])
    x, v = x.requires_grad_(), v.requires_grad_()
    optimizer, best = torch.optim.Adam([x, v], lr=0.05 * scale), 0.0
    for step in range(steps):
        optimizer.zero_grad()
        one, two = x + v, x - v
        apart = size(one - two)
        slopes = size(module(one) - module(two)) / apart
        # Nearer points differ by rounding as well.
        apart_enough = apart.detach() > NEAREST * size(x.detach())
        best = max(best, float((slopes.detach() * apart_enough).max()))
        (-slopes.clamp_min(1e-300).log().sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 10 == 9:
            with torch.no_grad():
                v *= 0.85
    jvp: Any = torch.autograd.functional.jvp
    vjp: Any = torch.autograd.functional.vjp
    for at in range(restarts):
        point, direction = x[at : at + 1].detach(), v[at : at + 1].detach()
        for _ in range(10):
            direction = direction / direction.norm()
            moved = jvp(module, point, direction)[1]
            best = max(best, float(moved.norm()))
            direction = vjp(module, point, moved)[1]
            if not float(direction.norm()) > 0:
                break
    return best


class Relus(TorchFunctionMode):
    """ReLUs with a rounded corner, or with given slopes; counts the numbers that enter them."""

    def __init__(self, corner: float = 0.0, slopes: Sequence[Tensor] | None = None) -> None:
        super().__init__()
        self.corner, self.slopes = corner, slopes
        self.shapes: list[torch.Size] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The function, unless it is a ReLU."""
        if func not in (torch.relu, torch.relu_, F.relu, Tensor.relu):
            return func(*args, **(kwargs or {}))
        self.shapes.append(args[0].shape)
        if self.slopes is not None:
            return args[0] * self.slopes[len(self.shapes) - 1]
        corner = self.corner * float(args[0].detach().square().mean().sqrt()) + 1e-12
        return corner * F.softplus(args[0] / corner) if self.corner else args[0].clamp_min(0)


def _lengths(batch: Tensor) -> Tensor:
    """Of each sample, with axes for the others."""
    lengths: Tensor = batch.flatten(1).norm(dim=1)
    return lengths.clamp_min(1e-300).reshape(-1, *[1] * (batch.ndim - 1))


def _pushed(module: nn.Module, x: Tensor, v: Tensor, *, steps: int = 0) -> tuple[Tensor, Tensor]:
    """J(x) v, behind some steps of power iteration on v, and v: differentiable in x."""
    out = module(x)
    weights = torch.zeros_like(out, requires_grad=True)
    (back,) = torch.autograd.grad(out, x, weights, create_graph=True)
    for _ in range(steps):
        (image,) = torch.autograd.grad(back, weights, v / _lengths(v), retain_graph=True)
        (v,) = torch.autograd.grad(out, x, image.detach(), retain_graph=True)
    v = (v / _lengths(v)).detach()
    (image,) = torch.autograd.grad(back, weights, v, create_graph=True)
    return image, v


def climbed(module: nn.Module, example: Tensor, restarts: int, steps: int) -> tuple[float, Tensor]:
    """The largest |J(x)| on a climb with ReLUs whose corners sharpen, near the example and far.

    With the points at which the climbs end.
    """
    module = copy.deepcopy(module).double().requires_grad_(False)
    example, draws, best = example.double(), torch.Generator().manual_seed(1), 0.0
    sizes = torch.tensor([0.5, 30, 300] * restarts, dtype=torch.float64)[:restarts]
    scale = float(example.norm()) / math.sqrt(example.numel()) or 1.0
    scales = scale * sizes.reshape(-1, *[1] * (example.ndim - 1))
    shape = (restarts, *example.shape[1:])
    z, v = (torch.randn(shape, generator=draws, dtype=torch.float64) for _ in range(2))
    z = (z + (scales <= scale) * example / scale).requires_grad_()
    optimizer = torch.optim.Adam([z], lr=0.05)
    for step in range(steps):
        with Relus(0.02 ** (step / steps)):
            image, v = _pushed(module, z * scales, v, steps=1)
        optimizer.zero_grad()
        (-_lengths(image).log().sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 20 == 19:
            x = (z * scales).detach().requires_grad_()
            image, v = _pushed(module, x, v, steps=10 if step == steps - 1 else 3)
            best = max(best, float(_lengths(image.detach()).max()))
    return best, (z * scales).detach()


def free_slope(module: nn.Module, example: Tensor, steps: int = 200) -> float:
    """The largest |J| that is found where the slopes of ReLUs are chosen at will."""
    module = copy.deepcopy(module).double().requires_grad_(False)
    x, draws, best = example.double(), torch.Generator().manual_seed(2), 0.0
    with Relus() as seen:
        module(x)
    v = torch.randn(x.shape, generator=draws, dtype=torch.float64)
    logits = [
        (2 + 0.5 * torch.randn(shape, generator=draws, dtype=torch.float64)).requires_grad_()
        for shape in seen.shapes
    ]
    optimizer = torch.optim.Adam(logits, lr=0.3)
    for _ in range(steps):
        with Relus(slopes=[torch.sigmoid(each) for each in logits]):
            image, v = _pushed(module, x.clone().requires_grad_(), v, steps=2)
        best = max(best, float(image.detach().norm()))
        optimizer.zero_grad()
        (-image.norm().log()).backward()
        optimizer.step()
    return best


def operators(module: nn.Module) -> int:
    """How many known operators an unrolled network calls on what depends on its input, at least."""
    known = sum(isinstance(each, LinearOperator) for each in module.children())
    return known * PASSES - 1 if isinstance(module, zoo.PrimalDual) else known and 1 + 2 * PASSES


def measured(kind: str, name: str, made: Made, *, trained: bool = False) -> dict[str, Any]:
    """One module: upper, lower, and what is shown of it."""
    module, inputs = made
    if trained:
        train(module, inputs)
    module.eval()
    start = time.process_time()  # of the processor: other processes may run beside it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = kr.describe(module, inputs[:1])
    upper = net.lipschitz()
    seconds = time.process_time() - start
    shown = sum(layer.name.startswith(("A", "F")) for layer in net if layer.kind == "known")
    wanted = operators(module) if kind == "four unrolled passes" else 0
    if isinstance(module, Cascade):
        shown, wanted = sum(name.startswith("consistent") for name in net.names), PASSES
    free = kind == "ResNets" or isinstance(module, zoo.PrimalDual)
    lower = steepest(module, inputs[:1])
    if kind not in ("chains", "random graphs"):
        climbs = RESTARTS // 4 if name == LARGE else RESTARTS  # ten times as much work
        top, points = climbed(module, inputs[:1], climbs, CLIMB_STEPS)
        lower = max(lower, top, steepest(module, inputs[:1], climbs, POLISH_STEPS, points))
    return {
        "kind": kind, "name": name, "trained": trained, "layers": len(net), "upper": upper,
        "paths": net.lipschitz("minkowski"), "lower": lower,
        "free": free_slope(module, inputs[:1]) if free else None,
        "operators": shown, "wanted": wanted, "seconds": seconds,
    }  # fmt: skip


def keys(graphs: int, only: str = "") -> Iterator[tuple[str, str, bool]]:
    """Kind, name and whether to train, of every module and then of the random graphs."""
    for kind, several in modules().items():
        for name, make in several.items():
            if only not in f"{kind}, {name}":
                continue
            yield kind, name, False
            if any(each.requires_grad for each in make()[0].parameters()):
                yield kind, name, True
    for seed in range(graphs):
        yield "random graphs", f"graph {seed}", False


def case_of(key: tuple[str, str, bool]) -> dict[str, Any]:
    """One module, the same in every process."""
    kind, name, trained = key
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if kind == "random graphs":
        return measured(kind, name, random_graph(int(name.split()[1])))
    several = modules()
    torch.manual_seed(0)
    return measured(kind, name, several[kind][name](), trained=trained)


def table(found: dict[str, Any]) -> list[str]:
    """The rows of the page: kinds, then the networks whose free slopes were searched for."""
    heads = ("upper / lower, median", "90%", "largest", "sums over paths / lower, median")
    rows = [*header("", "networks", *heads)]

    def over(case: dict[str, Any], what: str) -> float:
        return float(case[what] / case["lower"])

    def text(ratio: float) -> str:
        return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}"

    groups: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for case in found["cases"]:
        groups.setdefault((case["kind"], case["trained"]), []).append(case)
    for (kind, trained), cases in groups.items():
        ratios = sorted(over(case, "upper") for case in cases)
        high = ratios[math.ceil(0.9 * len(ratios)) - 1]
        paths = statistics.median(over(case, "paths") for case in cases)
        numbers = map(text, (statistics.median(ratios), high, ratios[-1], paths))
        rows.append(line(f"{kind}, {WEIGHTS[trained]}", len(cases), *numbers))
    rows += ["", *header("", "weights", "upper / lower", "free / lower", "sums over paths / lower")]
    for case in found["cases"]:
        if case["free"] is not None:
            ends = (text(over(case, what)) for what in ("upper", "free", "paths"))
            rows.append(line(case["name"], WEIGHTS[case["trained"]], *ends))
    took = [f"{case['seconds']:.1f}" for case in found["cases"] if case["name"] == LARGE]
    if took:
        core = f"one thread of {found['machine']['processor']}"
        rows += ["", f"A U-Net ({LARGE}) is described in {' or '.join(took)} s, on {core}."]
    return rows


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--only", default="", help="networks whose kind or name contains this")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cases = []
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for case in pool.map(case_of, keys(given.graphs, given.only)):
            cases.append(case)
            ratio = case["upper"] / case["lower"] if case["lower"] else math.inf
            print(
                f"{case['kind']:26}{case['name']:28}{WEIGHTS[case['trained']]:16}"
                f"upper {case['upper']:9.4g} lower {case['lower']:9.4g} ratio {ratio:8.3g} "
                f"paths {case['paths']:9.3g} free {case['free'] or math.nan:9.3g} "
                f"operators {case['operators']} of {case['wanted']} {case['seconds']:5.1f} s",
                flush=True,
            )
    unsound = sum(case["upper"] * (1 + 1e-9) < case["lower"] for case in cases)
    hidden = sum(case["operators"] < case["wanted"] for case in cases)
    found = {"machine": dict(machine()), "cases": cases, "unsound": unsound, "hidden": hidden}
    print(*table(found), f"unsound: {unsound}", f"with an operator hidden: {hidden}", sep="\n")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
        given.json.with_suffix(".txt").write_text("\n".join([*table(found), ""]))


if __name__ == "__main__":
    main()
