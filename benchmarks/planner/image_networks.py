"""Small image networks of 32 x 32 pixels that are trained at once, as one ensemble on one GPU.

Every weight has a leading axis of members, and each member draws its batches from its own first N
images. A seed decides which images are taken, in which order, their noise and the initial weights;
the noise of a training image is drawn once. Everything is drawn on the CPU from the seed, so that
runs differ by rounding alone.

`planner.imaging` and `paper.learning` measure learning curves with it.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

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
SIMULATED = ("ellipses", "blobs")


# Ensembles. Activations are (member, channel, image, row, column) throughout.


def convolve(x: Tensor, weight: Tensor, bias: Tensor, *, alone: bool) -> Tensor:
    """Each member's 3 x 3 convolution with zeros around the image.

    One kernel for all members on a GPU, unless networks are `alone` and others stack them.
    """
    if x.is_cuda and not alone:
        from benchmarks.planner.convolutions import MemberConvolution

        product = cast(Tensor, MemberConvolution.apply(x, weight))  # type: ignore[no-untyped-call]
        return product + bias[:, :, None, None, None]
    members = x.shape[0]
    flat = x.permute(2, 0, 1, 3, 4).flatten(1, 2)
    out = F.conv2d(flat, weight.flatten(0, 1), bias.flatten(), padding=1, groups=members)
    return out.view(len(out), members, -1, *out.shape[2:]).permute(1, 2, 0, 3, 4)


class Maker:
    """Makes the parameters of an ensemble, the same for members of the same seed."""

    def __init__(self, seeds: Sequence[int], width: int, *, alone: bool = False) -> None:
        self.alone, self.width = alone, width
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
        self.alone = make.alone
        self.weight = make.normal((outputs, inputs, 3, 3), gain * math.sqrt(2 / (9 * inputs)))
        self.bias = make.constant((outputs,), 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """(E, inputs, B, H, W) to (E, outputs, B, H, W)."""
        return convolve(x, self.weight, self.bias, alone=self.alone)


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
        return (x.flatten(3) @ self.matrix.T).view(*x.shape[:3], *self.shape)


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
def mri() -> Array:
    """12 of 32 lines of the Fourier transform, real and imaginary."""
    centre = np.arange(-4, 4) % SIDE
    others = np.setdiff1d(np.arange(SIDE), centre)
    lines = np.concatenate([centre, np.random.default_rng(0).choice(others, 4, replace=False)])
    line = np.fft.fft(np.eye(SIDE), norm="ortho")
    a = np.kron(line[lines], line)
    return np.concatenate([a.real, a.imag])


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
        width: int,
        device: str,
        *,
        batch: int = BATCH,
        pool: int = POOL,
        precise: bool = False,
    ) -> None:
        """`rates` has the learning rate of every step; `pool` images of a seed come in a row.

        `precise` products do without TF32, but for convolutions.
        """
        self.data, self.cuda = data, device == "cuda"
        torch.set_float32_matmul_precision("highest" if precise else "high")
        self.net = build(Maker([seed for _, seed in cells], width)).to(device)
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
        self.graph: torch.cuda.CUDAGraph | None = None
        self.done, self.captured_at = 0, WARM_UP

    def _loss(self, rows: Tensor) -> Tensor:
        """Each member's MSE over its batch, added up, so that gradients are the member's own."""
        out: Tensor = self.net(self.data.inputs[rows].transpose(1, 2))
        return (out[:, 0] - self.data.targets[rows]).square().mean((1, 2, 3)).sum()

    def _step(self) -> None:
        self.rate.copy_(self.rates.index_select(0, self.step)[0])
        loss = self._loss(self.batches.index_select(0, self.step)[0])
        gradients = torch.autograd.grad(loss, self.parameters)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimiser.step()
        self.step.add_(1)

    def run(self, steps: int) -> None:
        """Train for some more steps."""
        for _ in range(steps):
            warm = self.done >= self.captured_at
            if self.graph is None and self.cuda and warm:
                for parameter in self.parameters:
                    parameter.grad = None
                torch.cuda.synchronize()
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):  # records a step without taking it
                    self._step()
            if self.graph is not None:
                self.graph.replay()
            elif self.cuda:
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
        members, errors = self.batches.shape[1], []
        judged = self.data.judged_inputs, self.data.judged_targets
        for inputs, targets in zip(*(torch.split(part, CHUNK) for part in judged), strict=True):
            out = self.net(inputs.transpose(0, 1).expand(members, -1, -1, -1, -1))
            errors.append((out[:, 0] - targets).square().mean((2, 3)))
        all_errors = torch.cat(errors, 1).double()
        return all_errors[:, :VALIDATION].mean(1), all_errors[:, VALIDATION:].mean(1)
