"""Learning curves of small image networks, with known operators and without, trained on one GPU.

Eleven networks denoise, deblur or reconstruct images of 32 x 32 pixels from five populations. A
curve is the test error (MSE) at N = 4, 8, ..., 4096 training images for three seeds: a seed decides
which images are taken, in which order, their noise and the initial weights. All of a curve's
trainings run at once, as an ensemble: every weight has a leading axis of members, and each member
draws its batches from its own first N images. The noise of a training image is drawn once. The
error reported for a member is that at the best of ten steps on validation images, apart from both
training and test images. Everything is drawn on the CPU from the seed, so that runs differ by
rounding alone.

    python -m benchmarks.planner.image_networks --images DIR --out FILE.csv [--networks a,b]
        [--populations x,y] [--steps 2000] [--sizes 4,8,16] [--seeds 3] [--minutes 9]
        [--conv unfold|grouped|triton] [--channels-last] [--precision tf32|bf16|fp32] [--graph]
        [--compile]
    python -m benchmarks.planner.image_networks --benchmark [--networks a]
        # ms per step of each way

DIR has mnist.npz, fashion.npz and photos.npz, each with uint8 arrays `pool` (4096, 32, 32) and
`examples` (512, 32, 32); `ellipses` and `blobs` are simulated. A curve is appended to FILE.csv
(network,population,n,seed,error) as soon as it is finished, and what is there already is skipped.
benchmarks/planner/populations.py makes photos.npz.
"""

import argparse
import csv
import gc
import math
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from korisk.operators import ParallelBeam, Projector, fbp

Array = NDArray[np.float64]

SIDE, VIEWS, BINS = 32, 20, 46
POOL, VALIDATION, TEST = 4096, 128, 384
BATCH, CHECKS, CHUNK = 16, 10, 64  # CHUNK: images per member that are evaluated at once
WARM_UP = 3  # steps before a CUDA graph is captured
COLUMNS = ("network", "population", "n", "seed", "error")
SIMULATED = ("ellipses", "blobs")
READ = ("mnist", "fashion", "photos")


@dataclass
class Way:
    """How the ensemble is computed, which changes its speed and rounding alone."""

    conv: str = "unfold"
    channels_last: bool = False
    precision: str = "tf32"
    graph: bool = False
    compile: bool = False
    training: bool = True  # evaluation does without bfloat16

    @property
    def dtype(self) -> torch.dtype:
        """What convolutions are computed in."""
        return torch.bfloat16 if self.precision == "bf16" and self.training else torch.float32


# Ensembles. Activations are (member, channel, image, row, column) throughout; with --conv grouped
# their memory is ordered (image, member, channel, row, column), which elementwise steps keep.


def patches(x: Tensor) -> Tensor:
    """The 3 x 3 neighbourhoods: (members, 9 channels, images * rows * columns)."""
    around = F.pad(x, (1, 1, 1, 1)).unfold(3, 3, 1).unfold(4, 3, 1)
    return around.permute(0, 1, 5, 6, 2, 3, 4).reshape(x.shape[0], 9 * x.shape[1], -1)


class PatchConvolution(torch.autograd.Function):
    """A 3 x 3 convolution for each member, as one batched product with patches.

    Patches are made again for the gradients rather than kept, and the input's gradient is itself
    a convolution: nothing is scattered.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """(E, C, B, H, W) and (E, O, C, 3, 3) to (E, O, B, H, W)."""
        ctx.save_for_backward(x, weight)
        return torch.bmm(weight.flatten(2), patches(x)).view(*weight.shape[:2], *x.shape[2:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        """The gradients of the input, where it is wanted, and of the weights."""
        x, weight = ctx.saved_tensors
        of_weight = torch.bmm(gradient.flatten(2), patches(x).transpose(1, 2)).view_as(weight)
        if not ctx.needs_input_grad[0]:
            return None, of_weight
        turned = weight.flip(3, 4).transpose(1, 2).flatten(2)
        return torch.bmm(turned, patches(gradient)).view(x.shape), of_weight


def convolve(x: Tensor, weight: Tensor, bias: Tensor, way: Way) -> Tensor:
    """Each member's 3 x 3 convolution with zeros around the image."""
    x, weight, bias = x.to(way.dtype), weight.to(way.dtype), bias.to(way.dtype)
    if way.conv == "triton":
        from benchmarks.planner.convolutions import MemberConvolution

        product = cast(Tensor, MemberConvolution.apply(x, weight))  # type: ignore[no-untyped-call]
        return product + bias[:, :, None, None, None]
    if way.conv == "unfold":
        product = cast(Tensor, PatchConvolution.apply(x, weight))  # type: ignore[no-untyped-call]
        return product + bias[:, :, None, None, None]
    members = x.shape[0]
    flat = x.permute(2, 0, 1, 3, 4).flatten(1, 2)
    if way.channels_last:
        flat = flat.contiguous(memory_format=torch.channels_last)
    out = F.conv2d(flat, weight.flatten(0, 1), bias.flatten(), padding=1, groups=members)
    return out.view(len(out), members, -1, *out.shape[2:]).permute(1, 2, 0, 3, 4)


class Maker:
    """Makes the parameters of an ensemble, the same for members of the same seed."""

    def __init__(self, seeds: Sequence[int], way: Way, width: int) -> None:
        self.way, self.width = way, width
        self._kinds = sorted(set(seeds))
        self._of_member = torch.tensor([self._kinds.index(seed) for seed in seeds])
        self._generators = [generator("weights", seed) for seed in self._kinds]

    def normal(self, shape: tuple[int, ...], deviation: float) -> nn.Parameter:
        """Normal weights around 0, for every member."""
        drawn = [torch.randn(shape, generator=each) * deviation for each in self._generators]
        return nn.Parameter(torch.stack(drawn)[self._of_member])

    def constant(self, shape: tuple[int, ...], value: float) -> nn.Parameter:
        """The same value everywhere."""
        return nn.Parameter(torch.full((len(self._of_member), *shape), value))


def generator(*key: object) -> torch.Generator:
    """Random numbers that depend on the key alone."""
    return torch.Generator().manual_seed(zlib.crc32("/".join(map(str, key)).encode()))


class Conv(nn.Module):
    """A learned 3 x 3 convolution of every member."""

    def __init__(self, make: Maker, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__()
        self.way = make.way
        self.weight = make.normal((outputs, inputs, 3, 3), gain * math.sqrt(2 / (9 * inputs)))
        self.bias = make.constant((outputs,), 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """(E, inputs, B, H, W) to (E, outputs, B, H, W)."""
        return convolve(x, self.weight, self.bias, self.way)


class Stack(nn.Module):
    """Convolutions with ReLUs between them; the last one starts small."""

    def __init__(self, make: Maker, *channels: int) -> None:
        super().__init__()
        last = len(channels) - 2
        self.convs = nn.ModuleList(
            Conv(make, channels[i], channels[i + 1], 0.1 if i == last else 1.0)
            for i in range(last + 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """All of them, one after the other."""
        for conv in self.convs[:-1]:
            x = torch.relu(conv(x))
        return cast(Tensor, self.convs[-1](x))


class Cnn(nn.Module):
    """The input's first channel, plus what five convolutions make of the input."""

    def __init__(self, make: Maker, inputs: int = 1) -> None:
        super().__init__()
        wide = make.width * 3 // 2
        self.stack = Stack(make, inputs, wide, wide, wide, wide, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(E, inputs, B, H, W) to (E, 1, B, H, W)."""
        return x[:, :1] + cast(Tensor, self.stack(x))


def halved(x: Tensor) -> Tensor:
    """Averages over 2 x 2 pixels."""
    e, c, b, h, w = x.shape
    return x.view(e, c, b, h // 2, 2, w // 2, 2).mean((4, 6))


def doubled(x: Tensor) -> Tensor:
    """Every pixel 2 x 2 times."""
    e, c, b, h, w = x.shape
    return x[..., :, None, :, None].expand(e, c, b, h, 2, w, 2).flatten(5, 6).flatten(3, 4)


class UNet(nn.Module):
    """The input's first channel, plus what a U-Net that halves the image twice makes of it."""

    def __init__(self, make: Maker, inputs: int = 1) -> None:
        super().__init__()
        c = make.width
        self.enter, self.fine = Conv(make, inputs, c), Conv(make, c, c)
        self.down, self.deep = Conv(make, c, 2 * c), Conv(make, 2 * c, 2 * c)
        self.up = Conv(make, 4 * c, c)
        self.merge, self.leave = Conv(make, 2 * c, c), Conv(make, c, 1, 0.1)

    def forward(self, x: Tensor) -> Tensor:
        """(E, inputs, B, H, W) to (E, 1, B, H, W)."""
        fine = torch.relu(self.fine(torch.relu(self.enter(x))))
        middle = torch.relu(self.down(halved(fine)))
        deep = torch.relu(self.deep(halved(middle)))
        up = torch.relu(self.up(torch.cat([middle, doubled(deep)], 1)))
        merged = torch.relu(self.merge(torch.cat([fine, doubled(up)], 1)))
        return x[:, :1] + cast(Tensor, self.leave(merged))


class KnownMatrix(nn.Module):
    """A known operator as a fixed matrix, on every channel by itself."""

    matrix: Tensor

    def __init__(self, matrix: Array, shape: tuple[int, int]) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.from_numpy(matrix).float())
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        """(E, C, B, H, W) to (E, C, B, *shape)."""
        return (x.float().flatten(3) @ self.matrix.T).view(*x.shape[:3], *self.shape)


class Unrolled(nn.Module):
    """Gradient steps x - t A^T (A x - y), each followed by its own small residual CNN."""

    def __init__(self, make: Maker, steps: int = 4) -> None:
        super().__init__()
        self.forward_a = KnownMatrix(blur(), (SIDE, SIDE))
        self.adjoint_a = KnownMatrix(blur().T, (SIDE, SIDE))
        self.sizes = make.constant((steps,), 1.0)
        wide = make.width
        self.stacks = nn.ModuleList(Stack(make, 1, wide, wide, 1) for _ in range(steps))

    def forward(self, y: Tensor) -> Tensor:
        """Blurred images (E, 1, B, H, W) to sharp ones."""
        x = y
        for i, stack in enumerate(self.stacks):
            size = self.sizes[:, i, None, None, None, None]
            x = x - size * self.adjoint_a(self.forward_a(x) - y)
            x = x + stack(x)
        return x


class WeightedFbp(nn.Module):
    """Learned weights on the sinogram, the known FBP, and a U-Net."""

    def __init__(self, make: Maker) -> None:
        super().__init__()
        self.weights = make.constant((1, 1, VIEWS, BINS), 1.0)
        self.fbp = KnownMatrix(ct()[1], (SIDE, SIDE))
        self.unet = UNet(make)

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms (E, 1, B, views, bins) to images."""
        return cast(Tensor, self.unet(self.fbp(y * self.weights)))


class PrimalDual(nn.Module):
    """Learned primal-dual: CNNs on the sinogram and the image take turns, joined by A and A^T."""

    def __init__(self, make: Maker, steps: int = 3, memory: int = 4) -> None:
        super().__init__()
        self.memory = memory
        self.project = KnownMatrix(ct()[0], (VIEWS, BINS))
        self.backproject = KnownMatrix(ct()[0].T, (SIDE, SIDE))
        wide = make.width * 3 // 4
        self.duals, self.primals = (
            nn.ModuleList(Stack(make, memory + more, wide, wide, memory) for _ in range(steps))
            for more in (2, 1)
        )

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms (E, 1, B, views, bins) to images."""
        e, _, b, _, _ = y.shape
        x = y.new_zeros(e, self.memory, b, SIDE, SIDE)
        h = y.new_zeros(e, self.memory, b, VIEWS, BINS)
        for dual, primal in zip(self.duals, self.primals, strict=True):
            h = h + dual(torch.cat([h, self.project(x[:, :1]), y], 1))
            x = x + primal(torch.cat([x, self.backproject(h[:, :1])], 1))
        return x[:, :1]


class DenseUNet(nn.Module):
    """A dense learned layer in the place of the reconstruction, and a U-Net."""

    def __init__(self, make: Maker) -> None:
        super().__init__()
        self.dense = make.normal((VIEWS * BINS, SIDE**2), (VIEWS * BINS) ** -0.5)
        self.unet = UNet(make)

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms (E, 1, B, views, bins) to images."""
        image = torch.bmm(y[:, 0].flatten(2), self.dense)
        return cast(Tensor, self.unet(image.view(len(y), 1, -1, SIDE, SIDE)))


# Known operators, as matrices.


@cache
def blur(sigma: float = 1.2) -> Array:
    """A Gaussian blur whose weights add up to 1 at the border too."""
    at = np.arange(SIDE)
    line = np.exp(-((at[:, None] - at) ** 2) / (2 * sigma**2))
    line /= line.sum(1, keepdims=True)
    return np.asarray(np.kron(line, line), np.float64)


@cache
def deblur(weight: float = 0.01) -> Array:
    """The Tikhonov inverse of the blur."""
    a = blur()
    return np.asarray(np.linalg.solve(a.T @ a + weight * np.eye(SIDE**2), a.T), np.float64)


@cache
def ct() -> tuple[Array, Array]:
    """The parallel-beam projector, scaled to norm 1, and its filtered backprojection."""
    scan = ParallelBeam(SIDE, views=VIEWS, bins=BINS)
    a = Projector(scan, dtype=torch.float64).as_matrix().numpy()
    norm = float(np.linalg.norm(a, 2))
    return a / norm, fbp(scan, dtype=torch.float64).as_matrix().numpy() * norm


@cache
def mri() -> tuple[Array, Array]:
    """12 of 32 lines of the Fourier transform, and the zero-filled inverse (real, imaginary)."""
    centre = np.arange(-4, 4) % SIDE
    others = np.setdiff1d(np.arange(SIDE), centre)
    lines = np.concatenate([centre, np.random.default_rng(0).choice(others, 4, replace=False)])
    line = np.fft.fft(np.eye(SIDE), norm="ortho")
    a = np.kron(line[lines], line)
    back = a.conj().T
    zero_filled = np.block([[back.real, -back.imag], [back.imag, back.real]])
    return np.concatenate([a.real, a.imag]), zero_filled


@dataclass(frozen=True)
class Network:
    """What is measured, what is known of it, and what is learned."""

    build: Callable[[Maker], nn.Module]
    measure: Callable[[], Array] | None  # None: the image itself
    noise: float
    relative: bool = False  # whether noise is a part of the measurements' mean absolute value
    prepare: Callable[[], Array] | None = None  # known and first, so applied once to all data
    shape: tuple[int, int, int] = (1, SIDE, SIDE)  # of the network's input
    rate: float = 1e-3


def _ct(build: Callable[[Maker], nn.Module], first: bool = False, rate: float = 1e-3) -> Network:
    prepare, shape = (lambda: ct()[1], (1, SIDE, SIDE)) if first else (None, (1, VIEWS, BINS))
    return Network(build, lambda: ct()[0], 0.02, True, prepare, shape, rate)


def _unet_of_two(make: Maker) -> nn.Module:
    return UNet(make, 2)


NETWORKS = {
    "denoise-cnn": Network(Cnn, None, 0.1),
    "denoise-unet": Network(UNet, None, 0.1),
    "deblur-unet": Network(UNet, blur, 0.02),
    "deblur-tikhonov-cnn": Network(Cnn, blur, 0.02, prepare=deblur),
    "deblur-unrolled": Network(Unrolled, blur, 0.02),
    "ct-fbp-cnn": _ct(Cnn, first=True),
    "ct-fbp-unet": _ct(UNet, first=True),
    "ct-weights-fbp-unet": _ct(WeightedFbp),
    "ct-primal-dual": _ct(PrimalDual),
    "ct-dense-unet": _ct(DenseUNet, rate=3e-4),
    "mri-unet": Network(_unet_of_two, lambda: mri()[0], 0.02, True, lambda: mri()[1], (2, 32, 32)),
}


# Populations of images.


def _frame(rng: np.random.Generator, grid: Array) -> tuple[Array, Array]:
    """The grid's coordinates, moved to a random centre and turned at random."""
    x, y = grid - rng.uniform(-0.6, 0.6, (2, 1, 1))
    angle = rng.uniform(0, math.pi)
    return x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)


def _simulated(name: str) -> Array:
    """Random ellipses, or sums of Gaussian blobs, a third of which are cut at a threshold."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    fine = 2 * SIDE  # averaged over 2 x 2 in the end
    at = (np.arange(fine) + 0.5) / SIDE - 1
    grid = np.stack(np.meshgrid(at, at))
    images = np.zeros((POOL + VALIDATION + TEST, fine, fine))
    for image in images:
        for _ in range(rng.integers(1, 6) if name == "ellipses" else rng.integers(2, 9)):
            u, v = _frame(rng, grid)
            if name == "ellipses":
                a, b = rng.uniform(0.1, 0.7, 2)
                least = -0.4 if image.any() else 0.2  # so that hardly any image is empty
                image += rng.uniform(least, 1.0) * ((u / a) ** 2 + (v / b) ** 2 < 1)
            else:
                a, b = rng.uniform(0.08, 0.45, 2)
                image += rng.uniform(0.2, 0.9) * np.exp(-((u / a) ** 2 + (v / b) ** 2) / 2)
        if name == "blobs" and rng.random() < 1 / 3:
            image *= image > rng.uniform(0.2, 0.5)
    images = images.clip(0, 1).reshape(-1, SIDE, 2, SIDE, 2)
    return np.asarray(images.mean((2, 4)), np.float64)


@cache
def population(name: str, folder: Path | None) -> tuple[Array, Array]:
    """The pool and the examples of a population, values from 0 to 1."""
    if name in SIMULATED:
        images = _simulated(name)
        return images[:POOL], images[POOL:]
    if folder is None:
        raise SystemExit(f"--images is missing: {name} is read from a file there")
    with np.load(folder / f"{name}.npz") as file:
        return file["pool"] / 255.0, file["examples"] / 255.0


@dataclass(frozen=True)
class Data:
    """What the networks see and should answer: training rows of all seeds, and what judges."""

    inputs: Tensor  # (seeds * pool, C, H, W), each seed's in its own order
    targets: Tensor  # (seeds * pool, 32, 32)
    judged_inputs: Tensor  # validation, then test
    judged_targets: Tensor


def measured(name: str, images: str, folder: Path | None, seeds: int, device: str) -> Data:
    """The data of a network on a population, on the device."""
    network = NETWORKS[name]
    pool, examples = (torch.from_numpy(part).to(device) for part in population(images, folder))
    clean = [part.flatten(1) for part in (pool, examples)]
    if network.measure is not None:
        matrix = torch.from_numpy(network.measure()).to(device)
        clean = [part @ matrix.T for part in clean]
    deviation = network.noise * (clean[0].abs().mean().item() if network.relative else 1.0)

    def seen(values: Tensor, key: object) -> Tensor:
        noise = torch.randn(values.shape, generator=generator("noise", images, key))
        values = values + deviation * noise.to(device)
        if network.prepare is not None:
            values = values @ torch.from_numpy(network.prepare()).to(device).T
        return values.reshape(-1, *network.shape).float()

    orders = [
        torch.randperm(POOL, generator=generator("order", images, seed)).to(device)
        for seed in range(seeds)
    ]
    return Data(
        torch.cat([seen(clean[0][order], seed) for seed, order in enumerate(orders)]),
        torch.cat([pool[order] for order in orders]).float(),
        seen(clean[1], "judged"),
        examples.float(),
    )


# Training.


def cosine(rate: float, steps: int) -> Tensor:
    """Learning rates that fall to zero along a cosine."""
    return rate / 2 * (1 + torch.cos(torch.arange(steps) * (math.pi / steps)))


class Training:
    """One ensemble in training: members are all pairs of a size and a seed."""

    def __init__(
        self,
        build: Callable[[Maker], nn.Module],
        data: Data,
        cells: Sequence[tuple[int, int]],
        rates: Tensor,
        way: Way,
        width: int,
        device: str,
        *,
        batch: int = BATCH,
        pool: int = POOL,
    ) -> None:
        """`rates` has the learning rate of every step; `pool` images of a seed come in a row."""
        self.way, self.data, self.cuda = replace(way), data, device == "cuda"
        torch.set_float32_matmul_precision("highest" if way.precision == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = way.precision != "fp32"
        torch.backends.cudnn.benchmark = True
        self.net = build(Maker([seed for _, seed in cells], self.way, width)).to(device)
        drawn, steps = [], len(rates)
        for n, seed in cells:  # a batch of fewer is repeated to fill it
            shape = (steps, min(batch, n))
            rows = torch.randint(n, shape, generator=generator("batches", n, seed)) + seed * pool
            drawn.append(rows[:, torch.arange(batch) % shape[1]])
        self.batches = torch.stack(drawn, 1).to(device)
        self.rates = rates.to(device)
        self.rate = self.rates[0].clone()
        self.parameters = list(self.net.parameters())
        self.optimiser = torch.optim.Adam(
            self.parameters, lr=self.rate, fused=self.cuda, capturable=self.cuda
        )
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        if way.compile:
            torch.compiler.reset()  # else compilation gives up after a few ensembles
        self.loss = torch.compile(self._loss) if way.compile else self._loss
        self.graph: torch.cuda.CUDAGraph | None = None
        self.done, self.captured_at = 0, WARM_UP

    def _loss(self, rows: Tensor) -> Tensor:
        """Each member's MSE over its batch, added up, so that gradients are the member's own."""
        out: Tensor = self.net(self.data.inputs[rows].transpose(1, 2))
        return (out[:, 0].float() - self.data.targets[rows]).square().mean((1, 2, 3)).sum()

    def _step(self) -> None:
        self.rate.copy_(self.rates.index_select(0, self.step)[0])
        loss = self.loss(self.batches.index_select(0, self.step)[0])
        gradients = torch.autograd.grad(loss, self.parameters)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimiser.step()
        self.step.add_(1)

    def run(self, steps: int) -> None:
        """Train for some more steps."""
        for _ in range(steps):
            warm = self.done >= self.captured_at
            if self.graph is None and self.way.graph and self.cuda and warm:
                for parameter in self.parameters:
                    parameter.grad = None
                torch.cuda.synchronize()
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):  # records a step without taking it
                    self._step()
            if self.graph is not None:
                self.graph.replay()
            elif self.way.graph and self.cuda:
                side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    self._step()
                torch.cuda.current_stream().wait_stream(side)
            else:
                self._step()
            self.done += 1

    @torch.no_grad()
    def judge(self) -> tuple[Tensor, Tensor]:
        """Every member's error on the validation and on the test images."""
        self.way.training = False
        members, errors = self.batches.shape[1], []
        judged = self.data.judged_inputs, self.data.judged_targets
        for inputs, targets in zip(*(torch.split(part, CHUNK) for part in judged), strict=True):
            out = self.net(inputs.transpose(0, 1).expand(members, -1, -1, -1, -1))
            errors.append((out[:, 0].float() - targets).square().mean((2, 3)))
        self.way.training = True
        all_errors = torch.cat(errors, 1).double()
        return all_errors[:, :VALIDATION].mean(1), all_errors[:, VALIDATION:].mean(1)

    def finish(self) -> list[float]:
        """Train to the end; every member's test error at its best step on validation images."""
        steps = self.batches.shape[0]
        best = torch.full((self.batches.shape[1],), math.inf, device=self.step.device).double()
        reported = best.clone()
        for check in range(1, CHECKS + 1):
            self.run(steps * check // CHECKS - self.done)
            validation, test = self.judge()
            reported = torch.where(validation < best, test, reported)
            best = torch.minimum(best, validation)
        return reported.tolist()


def benchmark(arguments: argparse.Namespace, cells: Sequence[tuple[int, int]]) -> None:
    """Print milliseconds per step of every way to compute the ensemble."""
    name = arguments.networks[0] if len(arguments.networks) == 1 else "ct-fbp-unet"
    device, timed = arguments.device, 20
    data = measured(name, "ellipses", None, arguments.seeds, device)
    ways = [
        Way(conv, last, precision, graph, arguments.compile)
        for conv, last in (
            *(("unfold", False), ("grouped", False), ("grouped", True)),
            *((("triton", False),) if device == "cuda" else ()),
        )
        for precision in ("tf32", "bf16")
        for graph in ((False, True) if device == "cuda" else (False,))
    ]
    print(f"{name}, {len(cells)} members, width {arguments.width}, {device}")
    for way in ways:
        label = f"{way.conv:8}{'channels_last' if way.channels_last else '':14}{way.precision:5}"
        label += f"{' graph' if way.graph else '':7}{'compiled' if way.compile else '':8}"
        try:
            training = Training(
                NETWORKS[name].build,
                data,
                cells,
                cosine(1e-3, 4 * timed),
                way,
                arguments.width,
                device,
            )
            training.run(2 * WARM_UP)
            _wait(device)
            start = time.perf_counter()
            training.run(timed)
            _wait(device)
            each = (time.perf_counter() - start) / timed * 1000
            peak = torch.cuda.max_memory_allocated() / 2**30
            print(f"{label} {each:8.2f} ms per step, {peak:6.1f} GiB", flush=True)
        except RuntimeError as error:  # one way that fails should not hide the others
            print(f"{label} failed: {str(error).splitlines()[0]}", flush=True)
        training = None  # type: ignore[assignment]
        _clear(device)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _clear(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def curves(arguments: argparse.Namespace, cells: Sequence[tuple[int, int]]) -> None:
    """Train what is not in the file yet, and append it, one curve at a time."""
    a = arguments
    way = Way(a.conv, a.channels_last, a.precision, a.graph, a.compile)
    out: Path = a.out
    if not out.exists():
        out.write_text(",".join(COLUMNS) + "\n")
    with out.open(newline="") as file:
        there = {tuple(row[:4]) for row in csv.reader(file) if len(row) == len(COLUMNS)}
    wanted = [(name, images) for name in a.networks for images in a.populations]
    start = time.perf_counter()
    for number, (name, images) in enumerate(wanted, 1):
        keys = [(name, images, str(n), str(seed)) for n, seed in cells]
        if there.issuperset(keys):
            continue
        before = time.perf_counter()
        if before - start > 60 * a.minutes:
            print(f"{a.minutes:g} minutes are used up: run again to go on with {name}")
            return
        data = measured(name, images, a.images, a.seeds, a.device)
        network = NETWORKS[name]
        rates = cosine(network.rate, a.steps)
        training = Training(network.build, data, cells, rates, way, a.width, a.device)
        errors = training.finish()
        lines = [
            ",".join([*key, f"{error:.6g}"])
            for key, error in zip(keys, errors, strict=True)
            if key not in there
        ]
        with out.open("a") as file:
            file.write("\n".join(lines) + "\n")
        now = time.perf_counter()
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(
            f"{number}/{len(wanted)} {name} {images}: {now - before:.1f} s, MSE {errors[0]:.3g} at "
            f"N={cells[0][0]}, {errors[-1]:.3g} at N={cells[-1][0]}, {peak:.1f} GiB, "
            f"{(now - start) / 60:.1f} minutes so far",
            flush=True,
        )
        del training, data
        _clear(a.device)


def main() -> int:
    """Read the command line and do what it asks."""
    populations = (*SIMULATED, *READ)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--images", type=Path, help="folder with mnist.npz, fashion.npz and photos.npz")
    add("--out", type=Path, help="CSV file that curves are appended to")
    add("--networks", default=",".join(NETWORKS), help="names with commas (default: all)")
    add("--populations", default=",".join(populations), help="names with commas (default: all)")
    add("--steps", type=int, default=2000)
    add("--sizes", default=",".join(str(2**k) for k in range(2, 13)), help="numbers with commas")
    add("--seeds", type=int, default=3)
    add("--minutes", type=float, default=math.inf, help="start no curve after so many")
    add("--width", type=int, default=16, help="channels of the U-Net's finest level")
    add("--conv", choices=("unfold", "grouped", "triton"), default="unfold")
    add("--channels-last", action="store_true", help="for --conv grouped")
    add("--precision", choices=("tf32", "bf16", "fp32"), default="tf32")
    add("--graph", action="store_true", help="replay steps as a CUDA graph")
    add("--compile", action="store_true", help="torch.compile, anew for each curve")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--benchmark", action="store_true", help="time 20 steps of every way, train nothing")
    arguments = parser.parse_args()
    arguments.networks = arguments.networks.split(",")
    arguments.populations = arguments.populations.split(",")
    for name in {*arguments.networks} - {*NETWORKS} | {*arguments.populations} - {*populations}:
        parser.error(f"there is no network or population {name!r}")
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if not sizes or min(sizes) < 1 or max(sizes) > POOL:
        parser.error(f"--sizes must be from 1 to {POOL}")
    cells = [(n, seed) for n in sizes for seed in range(arguments.seeds)]
    if arguments.benchmark:
        benchmark(arguments, cells)
    elif arguments.out is None:
        parser.error("--out is missing")
    else:
        curves(arguments, cells)
    return 0


if __name__ == "__main__":
    sys.exit(main())
