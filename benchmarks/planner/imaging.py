"""The database of learning curves of inverse problems: data/imaging.csv.

Five problems (CT, MRI, deblurring, denoising, inpainting) of 32 x 32 pixels, nine networks with and
without known operators, populations of images, three levels of noise, two recipes of training. A
setting is a problem and a population; its noise and its recipe go round from setting to setting, so
that every network of a setting is trained on the same pairs and networks can be compared. A curve
is the test error (MSE) at N = 2, 4, ..., 4096 for three seeds: a seed decides which images are
taken, in which order, their noise, the initial weights and the batches. All trainings of a curve
run at once (image_networks.Training).

    python -m benchmarks.planner.imaging --images DIR [--out FILE.csv] [--minutes 9] [--settings 65]
    python -m benchmarks.planner.imaging --list        # the settings, what is measured, what is not

What the file has already is skipped, so that runs resume. DIR has the populations as NAME.npz
(benchmarks/planner/populations.py).

Recipes: `long` is 2,000 steps of Adam whose rate falls along a cosine, judged at the best of ten
steps on 128 validation images; `short` is 500 steps at a constant rate, judged at the last. Batches
have 16 images. `train` is the error of the same weights on the first images of the training set, 64
at most.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.planner import image_networks as base
from benchmarks.planner.image_networks import (
    POOL,
    SIDE,
    Cnn,
    Data,
    KnownMatrix,
    Maker,
    Stack,
    Training,
    UNet,
    generator,
)
from benchmarks.rows import append, read

Array = NDArray[np.float64]

OUT = Path(__file__).parents[1] / "data" / "imaging.csv"
COLUMNS = (
    *("problem", "network", "population", "noise", "recipe"),
    *("n", "seed", "error", "train"),
)
SIZES = tuple(2**k for k in range(1, 13))
SEEDS = 3
WIDTH = 16  # channels of the finest level of a U-Net
TRAINED = 64  # training images that tell the training error
RECIPES = {"long": 2000, "short": 500}  # steps
POPULATIONS = (
    *base.SIMULATED,
    *("mnist", "photos", "head_ct_a", "brain_mri_a", "brain_mri_b", "histology"),
    *("fashion", "glyphs", "chest_ct", "brain_mri_c", "icons"),
)


@dataclass(frozen=True)
class Problem:
    """What is measured of an image, and the known operator that turns it back into one."""

    matrix: Callable[[], Array]  # (m, 1024)
    inverse: Callable[[], Array]  # (1024, m)
    shape: tuple[int, int]  # of the measurements
    noises: tuple[float, float, float]
    relative: bool = True  # whether noise is a part of the measurements' mean absolute value


@cache
def identity() -> Array:
    """Nothing but noise happens to the image."""
    return np.eye(SIDE**2)


@cache
def mask(kept: float = 0.4) -> Array:
    """Zeros in the place of pixels that are lost, the same ones in every image."""
    return np.diag((np.random.default_rng(1).random(SIDE**2) < kept).astype(float))


@cache
def filled() -> Array:
    """Lost pixels as averages of those around, weighted by their distance."""
    seen = np.diag(mask())
    at = np.stack(np.divmod(np.arange(SIDE**2), SIDE))
    squares = ((at[:, :, None] - at[:, None, :]) ** 2).sum(0)
    near = np.exp(-0.5 * squares) * seen
    near /= near.sum(1, keepdims=True)
    return np.asarray(np.where(seen[:, None] > 0, np.eye(SIDE**2), near))


PROBLEMS = {
    "ct": Problem(
        lambda: base.ct()[0], lambda: base.ct()[1], (base.VIEWS, base.BINS), (0.005, 0.02, 0.08)
    ),
    "mri": Problem(base.mri, lambda: base.mri().T, (24, SIDE), (0.02, 0.08, 0.32)),
    "deblur": Problem(base.blur, base.deblur, (SIDE, SIDE), (0.005, 0.02, 0.08), False),
    "denoise": Problem(identity, identity, (SIDE, SIDE), (0.05, 0.1, 0.2), False),
    "inpaint": Problem(mask, filled, (SIDE, SIDE), (0.005, 0.02, 0.08), False),
}


# --- Networks: measurements (E, 1, B, rows, columns) to images (E, 1, B, 32, 32) -----------------


class After(nn.Module):
    """Known inverse first, then a network of images; its weights on the measurements are free."""

    def __init__(
        self, make: Maker, problem: Problem, then: nn.Module | None, *, weights: bool = False
    ) -> None:
        super().__init__()
        self.weights = make.constant((1, 1, *problem.shape), 1.0) if weights else None
        self.inverse = KnownMatrix(problem.inverse(), (SIDE, SIDE))
        self.then = then

    def forward(self, y: Tensor) -> Tensor:
        """All of it."""
        image: Tensor = self.inverse(y if self.weights is None else y * self.weights)
        return image if self.then is None else cast(Tensor, self.then(image))


class Dense(nn.Module):
    """A dense learned layer in the place of every known operator, and what comes then."""

    def __init__(self, make: Maker, problem: Problem, then: nn.Module | None) -> None:
        super().__init__()
        rows = math.prod(problem.shape)
        self.dense = make.normal((rows, SIDE**2), 0.3 * rows**-0.5)
        self.then = then

    def forward(self, y: Tensor) -> Tensor:
        """All of it."""
        image = torch.bmm(y[:, 0].flatten(2), self.dense).view(len(y), 1, -1, SIDE, SIDE)
        return image if self.then is None else cast(Tensor, self.then(image))


class Residual(nn.Module):
    """Three residual blocks of two convolutions between a first and a last one."""

    def __init__(self, make: Maker) -> None:
        super().__init__()
        wide = make.width
        self.enter, self.leave = base.Conv(make, 1, wide), base.Conv(make, wide, 1, 0.1)
        self.blocks = nn.ModuleList(Stack(make, wide, wide, wide) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """(E, 1, B, H, W) to the same shape."""
        hidden = torch.relu(self.enter(x))
        for block in self.blocks:
            hidden = hidden + block(torch.relu(hidden))
        return x + cast(Tensor, self.leave(hidden))


class Unrolled(nn.Module):
    """Gradient steps x - t A^T (A x - y) from the known inverse on, each with a CNN of its own."""

    def __init__(self, make: Maker, problem: Problem, steps: int = 4) -> None:
        super().__init__()
        a = problem.matrix()
        self.forward_a, self.adjoint = KnownMatrix(a, problem.shape), KnownMatrix(a.T, (SIDE, SIDE))
        self.inverse = KnownMatrix(problem.inverse(), (SIDE, SIDE))
        self.sizes = make.constant((steps,), 1.0)
        wide = make.width
        self.stacks = nn.ModuleList(Stack(make, 1, wide, wide, 1) for _ in range(steps))

    def forward(self, y: Tensor) -> Tensor:
        """All steps."""
        x: Tensor = self.inverse(y)
        for index, stack in enumerate(self.stacks):
            size = self.sizes[:, index, None, None, None, None]
            x = x - size * self.adjoint(self.forward_a(x) - y)
            x = x + stack(x)
        return x


class PrimalDual(nn.Module):
    """Learned primal-dual: CNNs on measurements and image take turns, joined by A and A^T."""

    def __init__(self, make: Maker, problem: Problem, steps: int = 3, memory: int = 4) -> None:
        super().__init__()
        self.memory, self.shape, a = memory, problem.shape, problem.matrix()
        self.forward_a, self.adjoint = KnownMatrix(a, problem.shape), KnownMatrix(a.T, (SIDE, SIDE))
        wide = make.width * 3 // 4
        self.duals, self.primals = (
            nn.ModuleList(Stack(make, memory + more, wide, wide, memory) for _ in range(steps))
            for more in (2, 1)
        )

    def forward(self, y: Tensor) -> Tensor:
        """All steps, from zero."""
        members, _, images, _, _ = y.shape
        x = y.new_zeros(members, self.memory, images, SIDE, SIDE)
        h = y.new_zeros(members, self.memory, images, *self.shape)
        for dual, primal in zip(self.duals, self.primals, strict=True):
            h = h + dual(torch.cat([h, self.forward_a(x[:, :1]), y], 1))
            x = x + primal(torch.cat([x, self.adjoint(h[:, :1])], 1))
        return x[:, :1]


Build = Callable[[Maker, Problem], nn.Module]
# Each with its learning rate: dense layers need a smaller one.
NETWORKS: dict[str, tuple[Build, float]] = {
    "weights": (lambda make, problem: After(make, problem, None, weights=True), 1e-2),
    "cnn": (lambda make, problem: After(make, problem, Cnn(make)), 1e-3),
    "unet": (lambda make, problem: After(make, problem, UNet(make)), 1e-3),
    "residual": (lambda make, problem: After(make, problem, Residual(make)), 1e-3),
    "weights-unet": (lambda make, problem: After(make, problem, UNet(make), weights=True), 1e-3),
    "unrolled": (Unrolled, 1e-3),
    "primal-dual": (PrimalDual, 1e-3),
    "dense": (lambda make, problem: Dense(make, problem, None), 3e-4),
    "dense-unet": (lambda make, problem: Dense(make, problem, UNet(make)), 3e-4),
}
SAME = ("weights-unet", "primal-dual")  # networks that denoising has no use for


@dataclass(frozen=True)
class Setting:
    """A problem on a population, with the noise and the recipe that go with it."""

    problem: str
    population: str
    noise: float
    recipe: str

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that are trained on it."""
        left_out = SAME if self.problem == "denoise" else ()
        return tuple(name for name in NETWORKS if name not in left_out)


def settings() -> list[Setting]:
    """All settings, in an order whose beginnings are balanced."""
    made = []
    for turn in range(len(POPULATIONS)):
        for index, problem in enumerate(PROBLEMS):
            place = (turn + 5 * index) % len(POPULATIONS)
            noise = PROBLEMS[problem].noises[(turn + index) % 3]
            recipe = tuple(RECIPES)[(turn // 3 + index) % 2]
            made.append(Setting(problem, POPULATIONS[place], noise, recipe))
    return made


def measured(setting: Setting, folder: Path | None, device: str) -> Data:
    """Training pairs of all seeds, and what judges, on the device."""
    problem = PROBLEMS[setting.problem]
    pool, examples = (
        torch.from_numpy(part).to(device) for part in base.population(setting.population, folder)
    )
    matrix = torch.from_numpy(problem.matrix()).to(device)
    clean = [part.flatten(1) @ matrix.T for part in (pool, examples)]
    deviation = setting.noise * (clean[0].abs().mean().item() if problem.relative else 1.0)
    lost = (matrix.abs().sum(1) > 0).double()  # a pixel that is lost has no noise either

    def seen(values: Tensor, key: object) -> Tensor:
        noise = torch.randn(values.shape, generator=generator("noise", setting.population, key))
        noisy = values + deviation * lost * noise.to(device)
        return noisy.reshape(-1, 1, *problem.shape).float()

    orders = [
        torch.randperm(POOL, generator=generator("order", setting.population, seed)).to(device)
        for seed in range(SEEDS)
    ]
    return Data(
        torch.cat([seen(clean[0][order], seed) for seed, order in enumerate(orders)]),
        torch.cat([pool[order] for order in orders]).float(),
        seen(clean[1], "judged"),
        examples.float(),
    )


class Curve(Training):
    """The trainings of one curve."""

    @torch.no_grad()
    def trained(self, cells: Sequence[tuple[int, int]]) -> Tensor:
        """(members,) the error on the first training images."""
        rows = torch.stack([seed * POOL + torch.arange(TRAINED) % n for n, seed in cells]).to(
            self.step.device
        )
        out = self.net(self.data.inputs[rows].transpose(1, 2))[:, 0]
        errors: Tensor = (out - self.data.targets[rows]).square().double()
        return errors.mean((1, 2, 3))

    def result(self, cells: Sequence[tuple[int, int]], checks: int) -> tuple[Array, Array]:
        """Every member's test and training error at its best check on validation images."""
        steps = self.batches.shape[0]
        best, test, train = (torch.full((len(cells),), math.inf).double() for _ in range(3))
        for check in range(1, checks + 1):
            self.run(steps * check // checks - self.done)
            validation, now = (part.cpu() for part in self.judge())
            better = validation < best
            best = torch.where(better, validation, best)
            test = torch.where(better, now, test)
            train = torch.where(better, self.trained(cells).cpu(), train)
        return test.numpy(), train.numpy()


def curve(setting: Setting, network: str, data: Data, device: str) -> Iterator[tuple[str, ...]]:
    """Train the networks of one curve; the rows of the file."""
    build, rate = NETWORKS[network]
    steps = RECIPES[setting.recipe]
    long = setting.recipe == "long"
    rates = base.cosine(rate, steps) if long else torch.full((steps,), rate)
    cells = [(n, seed) for n in SIZES for seed in range(SEEDS)]
    problem = PROBLEMS[setting.problem]
    training = Curve(lambda make: build(make, problem), data, cells, rates, WIDTH, device)
    key = (setting.problem, network, setting.population, f"{setting.noise:g}", setting.recipe)
    errors = training.result(cells, checks=base.CHECKS if long else 1)
    for (n, seed), error, train in zip(cells, *errors, strict=True):
        yield (*key, str(n), str(seed), f"{error:.6g}", f"{train:.6g}")


def main() -> int:
    """Train what is not in the file yet, and append it, one curve at a time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--images", type=Path, help="folder with the populations as NAME.npz")
    add("--out", type=Path, default=OUT, help="CSV file that curves are appended to")
    add("--minutes", type=float, default=math.inf, help="start no curve after so many")
    add("--settings", type=int, default=len(settings()), help="how many of them, from the first on")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--list", action="store_true", help="print the settings and train nothing")
    options = parser.parse_args()
    start = time.perf_counter()
    done = {tuple(row.values())[:3] for row in read(options.out)}
    for index, setting in enumerate(settings()[: options.settings], 1):
        left = [n for n in setting.networks if (setting.problem, n, setting.population) not in done]
        if options.list:
            print(index, setting, f"{len(setting.networks) - len(left)} curves there")
        elif left:
            data = measured(setting, options.images, options.device)
            for network in left:
                before = time.perf_counter()
                if before - start > 60 * options.minutes:
                    print(f"{options.minutes:g} minutes are used up: run again to go on")
                    return 0
                rows = list(curve(setting, network, data, options.device))
                append(options.out, COLUMNS, rows)
                print(
                    f"{index} {setting.problem} {network} {setting.population} {setting.noise:g} "
                    f"{setting.recipe}: {time.perf_counter() - before:.1f} s, MSE {rows[0][-2]} to "
                    f"{rows[-1][-2]}, {(time.perf_counter() - start) / 60:.1f} minutes so far",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
