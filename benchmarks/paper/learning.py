"""A study in which the known operator has something to learn, counted from N = 0.

    python -m benchmarks.paper.learning --out FILE.csv --device cuda [--seconds 400]   # measures
    python -m benchmarks.paper.learning --out FILE.csv --models FC --sizes 1024    # a part
    python -m benchmarks.paper.learning    # what results/learning.txt keeps of data/learning.csv

Fan-beam CT at six points: few views, noise, part of the angles,
gains of the detector that are wrong, a geometry that is wrong, and all of these. The known operator
is filtered backprojection of the scanner as it should be; the data come from the scanner as it is.
Three models are solved and four are trained:

    KO                 weights in front of the known operator, shrunk towards the analytic ones
    KO towards zero    the same, shrunk towards zero
    FC                 a dense matrix
    KO + U-Net           analytic weights, the known operator, then a U-Net; both learned
    FC + U-Net           a dense layer in the place of weights and operator, random, then the U-Net
    ridge FC + U-Net     the same, its dense layer started at its ridge fit to the N samples
    left-out FC + U-Net  the dense layer stays at its ridge fit; the U-Net learns from what the fit
                         to the N - 1 other samples makes of each sample (in closed form)

Before training, every U-Net returns its input. Lambda, rate and step are chosen on 128 validation
images; errors are those of 384 test images. Closed forms have N = 1, 2, 4, ..., 1,024, networks
every second power of two from 4 on; three seeds.

A network has one rate at N <= 64 and one above, the best of a grid on a seed of its own at N = 16
and 1,024. The grid is the same for all networks, and grows while its best rate is at its edge. The
rate is constant, and the weights that are judged are averages over about the last tenth of all
steps, so that a run with twice the steps goes on where the shorter one ended: members leave when
twice the steps have changed the mean error of their N by less than 2%, or at the largest number of
steps. `half` in the file is the error that half of the steps had. All members train at once
(planner.image_networks). What FILE.csv has is not measured again, and `--seconds` are kept.

The best dense network is, in each cell that all four have, the one that validates best.

For KO's error at N = 0, 4 and 64: the N at which FC has it too, with a 90% interval over resampled
seeds; and the N from which on FC has the smaller error. For the error that the best dense network
has with 1,024 samples: the N with which KO + U-Net has it.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.markdown import table
from benchmarks.networks import worth64
from benchmarks.networks.saved import (
    FAIR,
    NAMES,
    WORTH,
    Array,
    fair_row,
    meeting,
    overtaken,
    rivals,
    saved,
    tables_of_errors,
    text,
)
from benchmarks.planner import image_networks as base
from benchmarks.planner.image_networks import (
    TEST,
    VALIDATION,
    Data,
    KnownMatrix,
    Maker,
    Training,
    UNet,
)
from benchmarks.rows import append, read
from korisk.errors import KoriskWarning
from korisk.fitting import DenseFit, DenseRidge, DiagonalRidge, Scorer
from korisk.fitting.ridge.diagonal import tail_gram
from korisk.operators import Composed, Matrix, Projector
from korisk.problems import CtScanner, EllipseSource
from korisk.problems.problem import Pairs

DATA = Path(__file__).parents[1] / "data" / "learning.csv"
COLUMNS = ("side", "point", "model", "rate", "n", "seed", "steps", "validation", "mse", "half")
SIDE = 64  # pixels; bins are half as many again
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
TRAINED = (4, 16, 64, 256, 1024, 4096)
SEEDS = 3
TUNED, TUNING = (16, 1024), 3  # where rates are chosen: the sizes, and a seed of their own
RATES, FACTOR = (1e-3, 3e-3, 1e-2), 10**0.5
BATCH, WIDTH = 4, 16
TUNING_STEPS, STEPS, LEAST = 1000, 8000, 2000  # nobody leaves before LEAST
FIRST, EVERY, LAST = 250, 10, 9  # the first check; steps between averages; their last ninth or so
LOWEST = 3e-5  # of rates, where none improves an untrained network
SETTLED, ALIKE = 0.02, 0.01  # changes that are none: by twice the steps, by the next rate
WITH = (0, 4, 64)  # samples of KO whose errors are the three targets
SHOWN = (0, 4, 64, 1024, 4096)  # N in tables of errors
SOLVED = ("KO", "KO towards zero", "FC")
NETWORKS = ("KO + U-Net", "left-out FC + U-Net", "ridge FC + U-Net", "FC + U-Net")
FITTED = NETWORKS[1:3]  # have seen their samples before training
DENSE = ("FC", *NETWORKS[1:])


@dataclass(frozen=True, kw_only=True)
class Point:
    """A scanner as it should be, and in what the one that measures differs."""

    views: int
    arc: float = 180.0  # degrees
    noise: float = 0.01  # of a sinogram's root mean square
    gains: float = 0.0  # standard deviation of the bins' gains around 1
    shift: float = 0.0  # of the detector, in bins
    turned: float = 0.0  # degrees that the last view is turned too far; those before in proportion


POINTS = {
    "20 views": Point(views=20),
    "20 views, 10% noise": Point(views=20, noise=0.1),
    "90 degrees": Point(views=30, arc=90),
    "gains 10% wrong": Point(views=30, gains=0.1),
    "geometry wrong": Point(views=30, shift=1.0, turned=2.0),
    "all of these": Point(views=30, arc=120, noise=0.05, gains=0.05, shift=0.5, turned=1.0),
}
POOL = 1024  # training images of a seed
# Problems of networks/worth64.py whose operator is right, with slices of patients, and more images.
RIGHT = {
    "CT": "ct",
    "MRI, radial": "radial",
    "CT, known motion": "motion",
    "deblurring": "deblur",
    "MRI": "mri",
}
PATIENTS = 4096


def pool_of(name: str) -> int:
    """How many training images a seed has."""
    return PATIENTS if name in RIGHT else POOL


@dataclass(frozen=True)
class Bench:
    """What is known at a point, and the data."""

    weights: Tensor  # (views, bins), of the analytic reconstruction
    tail: Tensor  # (pixels, measurements): filter and backprojection
    data: Data
    pool: int = POOL

    @property
    def shape(self) -> tuple[int, int]:
        """Of an image."""
        rows, columns = self.data.judged_targets.shape[1:]
        return rows, columns


# --- Data ----------------------------------------------------------------------------------------


@cache
def images(side: int, device: str) -> tuple[Tensor, Tensor]:
    """Training images of all seeds, one after another; validation and test images."""
    source, where = EllipseSource(), torch.device(device)
    pools = [
        source.draw(side, seed=seed + 1, counts={"train": POOL}, device=where)["train"]
        for seed in (*range(SEEDS), TUNING)
    ]
    judged = source.draw(
        side, seed=0, counts={"validation": VALIDATION, "test": TEST}, device=where
    )
    return torch.cat(pools).float(), torch.cat([judged["validation"], judged["test"]]).float()


def bench(name: str, side: int, device: str) -> Bench:
    """The known operators and the data of a point or problem."""
    return patients(name, device) if name in RIGHT else scanned(POINTS[name], side, device)


@cache
def patients(name: str, device: str) -> Bench:
    """A known operator that is right, as a matrix of what is measured, and weights of one."""
    problem = worth64.problem_of(RIGHT[name])
    training, judged = list[Pairs](), list[Pairs]()
    for seed in (*range(SEEDS), TUNING):
        counts = {"train": TUNED[-1] if seed == TUNING else PATIENTS, "validation": 1, "test": 1}
        if seed == 0:
            counts |= {"validation": VALIDATION, "test": TEST}
        train, *rest = problem.pools(seed=seed + 1, device=device, **counts)
        training.append(train)
        judged = judged or rest
    inputs, seen = (
        torch.cat([pairs.inputs.float().flatten(1) for pairs in some])
        for some in (training, judged)
    )
    targets, wanted = (
        torch.cat([pairs.targets.float() for pairs in some]) for some in (training, judged)
    )
    measured = inputs.std(0) > 0  # lines that are not measured are left out
    tail = Composed(problem.known_operators(device)[1]).as_matrix()[:, measured]
    data = Data(inputs[:, None, None, measured], targets, seen[:, None, None, measured], wanted)
    return Bench(inputs.new_ones(1, int(measured.sum())), tail.float(), data, PATIENTS)


@cache
def scanned(point: Point, side: int, device: str) -> Bench:
    """The known operators of the scanner as it should be, and data of the scanner as it is."""
    bins = side + side // 2
    scanner = CtScanner(side=side, views=point.views, bins=bins, beam="fan", arc=point.arc)
    nominal = scanner.geometry
    with warnings.catch_warnings():  # a shifted detector misses an edge, which is the point
        warnings.simplefilter("ignore", KoriskWarning)
        angles = nominal.angle_array * (1 + point.turned / point.arc)
        real = replace(
            nominal,
            angles=tuple(angles.tolist()),
            detector_offset=point.shift * nominal.bin_spacing,
        )
    projector = Projector(real, device=device, dtype=torch.float32)
    size = scanner.projector(device).norm().upper  # so that data are of the size of images
    known = scanner.reconstruction(device)
    gains = 1 + point.gains * torch.randn(bins, generator=base.generator("gains"))
    train, judged = images(side, device)

    def measured(pictures: Tensor, key: str) -> Tensor:
        clean = torch.cat([projector(part) for part in torch.split(pictures, 1024)])
        clean *= gains.to(clean) / size
        deviation = point.noise * clean.square().mean((1, 2), keepdim=True).sqrt()
        noise = torch.randn(clean.shape, generator=base.generator("noise", key))
        return (clean + deviation * noise.to(clean))[:, None]

    data = Data(measured(train, "train"), train, measured(judged, "judged"), judged)
    tail = Composed(known.tail).as_matrix()
    return Bench(known.weights.float() * size, tail.float(), data)


class Member(NamedTuple):
    """One network of an ensemble."""

    rate: float
    n: int
    seed: int


# --- Networks: measurements (E, 1, B, views, bins) to images (E, 1, B, 64, 64) -------------------


class Refined(nn.Module):
    """A reconstruction and a U-Net behind it, which returns its input before training."""

    def __init__(self, make: Maker) -> None:
        super().__init__()
        self.then = UNet(make)
        nn.init.zeros_(self.then.leave.weight)


class KnownUNet(Refined):
    """Learned weights that start at the analytic ones, the known operator, then a U-Net."""

    def __init__(self, make: Maker, at: Bench) -> None:
        super().__init__(make)
        analytic = at.tail * at.weights.flatten()
        self.weights = make.constant((1, 1, *at.weights.shape), 1.0)
        self.known = KnownMatrix(analytic.double().cpu().numpy(), at.shape)

    def forward(self, y: Tensor) -> Tensor:
        """All of it."""
        image: Tensor = self.then(self.known(y * self.weights))
        return image


class DenseUNet(Refined):
    """A dense layer, started at (E, measurements, pixels), then a U-Net."""

    def __init__(self, make: Maker, start: Tensor, shape: tuple[int, int]) -> None:
        super().__init__(make)
        self.dense, self.shape = nn.Parameter(start), shape

    def forward(self, y: Tensor) -> Tensor:
        """All of it."""
        dense = torch.bmm(y[:, 0].flatten(2), self.dense)
        image: Tensor = self.then(dense.view(len(y), 1, -1, *self.shape))
        return image


def random_layers(at: Bench, members: Sequence[Member]) -> Tensor:
    """Dense layers of small random entries, the same for members of a seed."""
    pixels, inputs = at.tail.shape
    layers = {
        seed: torch.randn(inputs, pixels, generator=base.generator("dense", seed)).to(at.tail)
        for seed in {member.seed for member in members}
    }
    return torch.stack([layers[member.seed] * 0.3 * inputs**-0.5 for member in members])


class LeftOutUNet(Refined):
    """A U-Net for images, one of them a member if they come as channels."""

    which: Tensor

    def __init__(self, make: Maker, members: int) -> None:
        super().__init__(make)
        self.register_buffer("which", torch.arange(members))

    def forward(self, x: Tensor) -> Tensor:
        """(E, 1, B, H, W), or (E, all members, B, H, W), to (E, 1, B, H, W)."""
        if x.shape[1] > 1:
            x = x[torch.arange(len(x), device=x.device), self.which][:, None]
        image: Tensor = self.then(x)
        return image


def ridge_fits(at: Bench, members: Sequence[Member]) -> dict[tuple[int, int], DenseFit]:
    """Dense layers fitted to samples of N and seed, lambda chosen on validation images."""
    chosen = Scorer(
        at.data.judged_inputs[:VALIDATION, 0].double(), at.data.judged_targets[:VALIDATION].double()
    )
    fits: dict[tuple[int, int], DenseFit] = {}
    for seed in {member.seed for member in members}:
        rows = slice(seed * at.pool, (seed + 1) * at.pool)
        pool = at.data.inputs[rows, 0].double(), at.data.targets[rows].double()
        ridge = DenseRidge(*pool, relu=False)
        for n in {member.n for member in members if member.seed == seed}:
            fits[n, seed] = ridge.training(n).fit(scorer=chosen)
    return fits


def left_out(at: Bench, fits: dict[tuple[int, int], DenseFit], members: Sequence[Member]) -> Data:
    """What dense layers make of images that they have not seen; judged images by member."""
    images, targets, judged = [], [], {}
    for (n, seed), fit in fits.items():
        own = slice(seed * at.pool, seed * at.pool + n)
        inputs, wanted = at.data.inputs[own, 0].double(), at.data.targets[own].double()
        kernel = inputs.flatten(1) @ inputs.flatten(1).T
        kernel.diagonal().add_(min(fit.penalty, 1e9 * fit.training.scale))
        inverse = torch.linalg.inv(kernel)
        # The residual of a sample that a fit has not seen, Eq. (eq:leave-one-out).
        residuals = (inverse / inverse.diagonal()[:, None]) @ wanted.flatten(1)
        images.append((wanted - residuals.view_as(wanted)).float())
        targets.append(wanted.float())
        judged[n, seed] = fit.predict(at.data.judged_inputs[:, 0].double()).float()
    return Data(
        torch.cat(images)[:, None],
        torch.cat(targets),
        torch.stack([judged[member.n, member.seed] for member in members], 1),
        at.data.judged_targets,
    )


def ensemble(
    model: str, at: Bench, members: Sequence[Member]
) -> tuple[Callable[[Maker], nn.Module], Data, list[int]]:
    """What makes the networks of some members, their data, and where each one's samples begin."""
    begins = [member.seed * at.pool for member in members]
    if model == "KO + U-Net":
        return lambda make: KnownUNet(make, at), at.data, begins
    if model == "FC + U-Net":
        layers = random_layers(at, members)
        return lambda make: DenseUNet(make, layers, at.shape), at.data, begins
    fits = ridge_fits(at, members)
    if model == "ridge FC + U-Net":
        layers = torch.stack(
            [fits[member.n, member.seed].network().matrix().T.float() for member in members]
        )
        return lambda make: DenseUNet(make, layers, at.shape), at.data, begins
    starts = dict(zip(fits, accumulate((n for n, _ in fits), initial=0), strict=False))
    begins = [starts[member.n, member.seed] for member in members]
    return lambda make: LeftOutUNet(make, len(members)), left_out(at, fits, members), begins


# --- Training until twice the steps change nothing -----------------------------------------------


class Lasting(Training):
    """Members with constant rates of their own, judged by averaged weights; some leave early."""

    def __init__(
        self, model: str, at: Bench, members: Sequence[Member], steps: int, device: str
    ) -> None:
        self.members = sorted(members)
        cells = [(member.n, member.seed) for member in self.members]
        build, data, begins = ensemble(model, at, self.members)
        rates, shape = torch.ones(steps), {"batch": BATCH, "pool": at.pool}
        # Ridge fits have large entries that cancel.
        super().__init__(build, data, cells, rates, WIDTH, device, **shape, precise=True)
        moved = [begin - seed * at.pool for begin, (_, seed) in zip(begins, cells, strict=True)]
        self.batches += torch.tensor(moved, device=device)[:, None]
        self.averages = [parameter.detach().clone() for parameter in self.parameters]
        self._use({})

    def _use(self, moments: dict[str, list[Tensor]]) -> None:
        """An Adam whose rates are the members': parameters in parts, one part a rate."""
        rates = [member.rate for member in self.members]
        self._parts = [
            slice(rates.index(r), rates.index(r) + rates.count(r)) for r in dict.fromkeys(rates)
        ]
        self._split = [[nn.Parameter(p.data[at]) for p in self.parameters] for at in self._parts]
        self.optimiser = torch.optim.Adam(
            [
                {"params": split, "lr": rates[at.start]}
                for at, split in zip(self._parts, self._split, strict=True)
            ],
            fused=self.cuda,
            capturable=self.cuda,
        )
        for at, split in zip(self._parts, self._split, strict=True) if moments else ():
            for index, parameter in enumerate(split):
                state = {name: values[index][at].clone() for name, values in moments.items()}
                # A device counts the steps itself, since its graph repeats what it has recorded.
                count = torch.tensor(float(self.done), device=self.step.device)
                self.optimiser.state[parameter] = {"step": count, **state}

    def _step(self) -> None:
        loss = self._loss(self.batches.index_select(0, self.step)[0])
        gradients = torch.autograd.grad(loss, self.parameters)
        for at, split in zip(self._parts, self._split, strict=True):
            for parameter, gradient in zip(split, gradients, strict=True):
                parameter.grad = gradient[at]
        self.optimiser.step()
        self.step.add_(1)

    @torch.no_grad()
    def until(self, steps: int) -> None:
        """Train up to a number of steps; weights are averaged as they go."""
        while self.done < steps:
            with torch.enable_grad():
                self.run(min(EVERY, steps - self.done))
            share = LAST / (self.done / EVERY - 1 + LAST)
            live = [parameter.data for parameter in self.parameters]
            torch._foreach_lerp_(self.averages, live, share)

    def judge(self) -> tuple[Tensor, Tensor]:
        """Every member's error on the validation and on the test images, by averaged weights."""
        live = [parameter.data for parameter in self.parameters]
        for parameter, average in zip(self.parameters, self.averages, strict=True):
            parameter.data = average
        validation, test = super().judge()
        for parameter, own in zip(self.parameters, live, strict=True):
            parameter.data = own
        return validation.cpu(), test.cpu()

    def keep(self, wanted: Sequence[int]) -> None:
        """Go on with some of the members."""
        index = torch.tensor(wanted, device=self.step.device)
        states = [[self.optimiser.state[p] for p in split] for split in self._split]
        moments = {
            name: [
                torch.cat([part[place][name] for part in states])[index]
                for place in range(len(self.parameters))
            ]
            for name in ("exp_avg", "exp_avg_sq")
        }
        for parameter in self.parameters:
            parameter.data = parameter.data[index]
        for name, buffer in self.net.named_buffers():
            if name == "which":
                self.net.which = buffer[index]
        self.averages = [average[index] for average in self.averages]
        self.batches = self.batches[:, index]
        self.members = [self.members[at] for at in wanted]
        self.graph, self.captured_at = None, self.done + base.WARM_UP
        self._use(moments)


class Reached(NamedTuple):
    """Errors of a member at its best check up to some step."""

    steps: int
    validation: float
    test: float


def checks(steps: int) -> list[int]:
    """Steps at which networks are judged: two in a doubling."""
    count = math.floor(2 * math.log2(steps / FIRST) + 0.01) + 1
    return [round(FIRST * 2 ** (k / 2) / EVERY) * EVERY for k in range(count)]


def trained(
    model: str,
    at: Bench,
    members: Sequence[Member],
    device: str,
    *,
    steps: int,
    deadline: float = math.inf,
    settle: bool = True,
) -> dict[Member, list[Reached]]:
    """Every member's best error up to each check, the first of them before training."""
    training = Lasting(model, at, members, steps, device)
    history: dict[Member, list[Reached]] = {member: [] for member in training.members}
    for check in (0, *checks(steps)):
        if time.monotonic() > deadline:
            break
        training.until(check)
        for member, now, error in zip(training.members, *training.judge(), strict=True):
            past = history[member][-1] if check else Reached(0, math.inf, math.inf)
            better = float(now) < past.validation
            best = (float(now), float(error)) if better else past[1:]
            history[member].append(Reached(check, *best))
        if not settle:
            continue
        moving = {n for n in {member.n for member in training.members} if not settled(history, n)}
        wanted = [at for at, member in enumerate(training.members) if member.n in moving]
        if not wanted:
            break
        if len(wanted) < len(training.members):
            training.keep(wanted)
    return history


def settled(history: dict[Member, list[Reached]], n: int) -> bool:
    """Whether twice the steps have changed the mean error of the members with n samples little."""
    pasts = [past for member, past in history.items() if member.n == n]
    if pasts[0][-1].steps < LEAST:
        return False
    now, half = (sum(past[back].validation for past in pasts) for back in (-1, -3))
    return abs(now - half) < SETTLED * half


Cell = tuple[str, str, int]  # point, model, N
Row = tuple[object, ...]  # rate, n, seed, steps, validation and test error, and that of half


def tuned(model: str, at: Bench, n: int, steps: int, device: str) -> tuple[float, list[Row]]:
    """The best rate with n samples, and the errors of all that were tried."""
    found: dict[Member, list[Reached]] = {}
    wanted = list(RATES)
    while wanted:
        tries = [Member(rate, n, TUNING) for rate in wanted]
        found |= trained(model, at, tries, device, steps=steps, settle=False)
        tried = {member.rate: found[member][-1].validation for member in sorted(found)}
        rates, wanted = list(tried), []
        best = min(rates, key=lambda rate: tried[rate])
        # Where no rate improves what is there before training, lower ones may.
        idle = tried[best] == min(past[0].validation for past in found.values())
        for edge, inner, factor in ((0, 1, 1 / FACTOR), (-1, -2, FACTOR)):
            ahead = tried[rates[edge]] < (1 - ALIKE) * tried[rates[inner]]
            if (best == rates[edge] and ahead) or (idle and edge == 0 and rates[0] > LOWEST):
                wanted.append(float(f"{best * factor:.0e}"))
    return best, [
        (f"{m.rate:g}", n, "tuning", *found[m][-1], found[m][-3].test) for m in sorted(found)
    ]


def curve(
    model: str,
    at: Bench,
    sizes: Sequence[int],
    rates: dict[int, float],
    steps: tuple[int, int],
    device: str,
    deadline: float,
) -> list[Row]:
    """Rows of a network: the rates that were tried, then some N; none if its time ends too soon."""
    nearest = {n: min(TUNED, key=lambda m: abs(math.log(m / n))) for n in sizes}
    rows: list[Row] = []
    for n in sorted(set(nearest.values()) - set(rates)):
        rates[n], tried = tuned(model, at, n, steps[0], device)
        rows += tried
    members = [Member(rates[nearest[n]], n, seed) for n in sizes for seed in range(SEEDS)]
    history = trained(model, at, members, device, steps=steps[1], deadline=deadline)
    for member in sorted(history, key=lambda member: (member.n, member.seed)):
        past = history[member]
        last = bool(past) and past[-1].steps == checks(steps[1])[-1]
        if not past or not (last or settled(history, member.n)):
            continue  # its time ended too soon
        if member.n == TRAINED[0] and model not in FITTED:
            rows.append((f"{member.rate:g}", 0, member.seed, *past[0], ""))
        rows.append((f"{member.rate:g}", member.n, member.seed, *past[-1], past[-3].test))
    return rows


def solved(model: str, at: Bench) -> Iterator[Row]:
    """Errors of a closed form, in float64; at N = 0 of what lambda = inf gives."""
    inputs, targets = at.data.judged_inputs[:, 0].double(), at.data.judged_targets.double()
    chosen, judged = (
        Scorer(inputs[part], targets[part])
        for part in (slice(0, VALIDATION), slice(VALIDATION, None))
    )
    tail = Matrix(at.tail.double(), domain=tuple(at.weights.shape), range=at.shape)
    gram = tail_gram(tail)
    toward = at.weights.double() if model == "KO" else None
    for seed in range(SEEDS):
        rows = slice(seed * at.pool, (seed + 1) * at.pool)
        pool = at.data.inputs[rows, 0].double(), at.data.targets[rows].double()
        ridge = (
            DenseRidge(*pool)
            if model == "FC"
            else DiagonalRidge(tail, *pool, toward=toward, gram=gram)
        )
        for n in (0, *(n for n in SIZES if n <= at.pool)):
            if n == 0:
                fit = ridge.training(1).fit(penalty=math.inf)
            else:
                fit = ridge.training(n).fit(scorer=chosen)
            validation, test = (scorer(fit.predict(scorer.inputs)) for scorer in (chosen, judged))
            yield "", n, seed, "", validation, test, ""


def kept(out: Path, side: int) -> tuple[set[Cell], dict[tuple[str, str], dict[int, float]]]:
    """What the file has: point, model and N of curves, and rates that were chosen."""
    cells: set[Cell] = set()
    tried: dict[Cell, list[tuple[float, float]]] = defaultdict(list)
    for row in read(out):
        cell = row["point"], row["model"], int(row["n"])
        if int(row["side"]) != side:
            continue
        if row["seed"] == "tuning":
            tried[cell].append((float(row["validation"]), float(row["rate"])))
        else:
            cells.add(cell)
    rates: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for (point, model, n), errors in tried.items():
        rates[point, model][n] = min(errors)[1]
    return cells, rates


def measure(options: argparse.Namespace) -> None:
    """Append the curves that the file does not have, until the seconds are over."""
    out: Path = options.out
    start = time.monotonic()
    for name, model in ((name, model) for model in options.models for name in options.points):
        done, rates = kept(out, options.side)
        wanted = [n for n in options.sizes if n <= pool_of(name)]
        sizes = [n for n in wanted if (name, model, n) not in done]
        before = time.monotonic()
        if not sizes or before - start > options.seconds:
            continue
        at = bench(name, options.side, options.device)
        if model in SOLVED:
            rows = list(solved(model, at))
        else:
            known = rates[name, model]
            ends = start + options.seconds
            rows = curve(model, at, sizes, known, options.steps, options.device, ends)
        texts = ([f"{v:.6g}" if type(v) is float else v for v in row] for row in rows)
        append(out, COLUMNS, [(options.side, name, model, *cells) for cells in texts])
        spent = time.monotonic() - before
        errors = f"{rows[0][-2]:.3g} to {rows[-1][-2]:.3g}" if rows else "too little time"
        print(f"{spent:5.1f} s  {name}, {model}: {errors}", flush=True)


# --- Tables --------------------------------------------------------------------------------------

Errors = tuple[Array, Array]  # sizes, and errors (sizes, seeds)
Cells = dict[tuple[int, int], tuple[float, float]]  # by N and seed: validation and test error


def kept_cells(path: Path = DATA) -> dict[str, dict[str, Cells]]:
    """Every model at every point."""
    found: dict[str, dict[str, Cells]] = defaultdict(lambda: defaultdict(dict))
    for row in read(path):
        if row["seed"] != "tuning":
            cell = int(row["n"]), int(row["seed"])
            errors = float(row["validation"]), float(row["mse"])
            found[row["point"]][row["model"]][cell] = errors
    return found


def errors_of(cells: Cells) -> Errors:
    """Test errors at the sizes that all seeds have."""
    wanted = range(SEEDS)
    sizes = [n for n in sorted({n for n, _ in cells}) if all((n, seed) in cells for seed in wanted)]
    return np.array(sizes, float), np.array([[cells[n, s][1] for s in wanted] for n in sizes])


def best_dense(models: dict[str, Cells]) -> Cells:
    """The dense network that validates best, in each cell that all of them have."""
    rivals = [models[name] for name in DENSE if name in models]
    shared = set[tuple[int, int]](rivals[0]).intersection(*rivals)
    return {cell: min(cells[cell] for cells in rivals) for cell in sorted(shared)}


def statements(known: Errors, dense: Errors) -> dict[str, bool | None]:
    """What the paper says of KO and FC, at one point; None where sizes end too early."""
    sizes = np.intersect1d(known[0], dense[0])
    of_known, of_dense = (errors[np.isin(each, sizes)].mean(1) for each, errors in (known, dense))
    few = (sizes > 0) & (sizes <= 64)  # without samples both may be zero
    plateaus = [sizes[errors <= 1.1 * errors.min()][0] for errors in (of_known, of_dense)]
    tenth: bool | None = bool(10 * max(plateaus[0], 1) <= plateaus[1])
    # A dense network that still falls at the last size may need any number of samples more.
    if not tenth and plateaus[1] == sizes[-1]:
        tenth = None
    return {
        "with N up to 64 the known operator has the smaller error": bool(
            (of_known < of_dense)[few].all()
        ),
        "it is within 10% of its lowest error with a tenth of the samples that the dense one "
        "needs for its own": tenth,
        "the dense one has the smaller error at N = 1,024": bool(of_dense[-1] < of_known[-1]),
        "training lowers the known operator's error by 10% or more": bool(
            known[1][-1].mean() < 0.9 * known[1][0].mean()
        ),
    }


def tables() -> Iterator[str]:
    """What was learned, what dense networks need for it, and what is left of the paper."""
    everything = kept_cells()
    curves: dict[bool, list[list[str]]] = {True: [], False: []}  # whether the operator is right
    fair: dict[bool, list[list[str]]] = {True: [], False: []}
    samples, needs, drawn = (list[list[str]]() for _ in range(3))
    judged: dict[str, list[dict[str, bool | None]]] = defaultdict(list)
    for point, models in everything.items():
        right, largest = point in RIGHT, pool_of(point)
        for model in (*SOLVED, *NETWORKS):
            if model in models:
                means = means_of(errors_of(models[model]))
                curves[right].append([point, model, *(means.get(n, "") for n in SHOWN)])
        known, dense = errors_of(models[NETWORKS[0]]), errors_of(best_dense(models))
        ends = {m: errors_of(models[m]) for m in DENSE if m in models}
        ends = {m: end for m, end in ends.items() if end[0][-1] == largest}
        rival = min(ends, key=lambda model: ends[model][1][-1].mean())
        fair[right].append(fair_row(point, rival, known, dense))
        drawn.append([point, text(meeting(known, dense), largest)])
        if right:
            needs.append(needed_row(point, known, dense))
        else:
            judged["KO + U-Net and the best dense network"].append(statements(known, dense))
        dense = errors_of(models["FC"])
        for model in SOLVED[:2]:
            known, later = errors_of(models[model]), (dense[0][1:], dense[1][1:])  # no log of 0
            samples.append([point, *needed_row(model, known, later)])
            if not right:
                judged[f"{model} and FC"].append(statements(known, dense))
    for problem, rival, known, dense in rivals():
        fair[True].append(fair_row(NAMES[problem], rival, known, dense))
        needs.append(needed_row(NAMES[problem], known, dense))
    yield "### Trainings\n"
    heads = ["", "network", "N", "rates tried", "best", "steps", "change by the last doubling"]
    yield table([row for point in everything for row in _trained(point)], heads) + "\n"
    heads = ["", "network", *(f"N = {n:,}" for n in SHOWN)]
    yield "### Errors\n"
    yield table([row[:-1] for row in curves[False]], heads[:-1])
    yield "\n### Samples\n"
    needed = [*(f"as with {n}" for n in WITH), "smaller from N on"]
    needed[0] = "as untrained"
    yield table(samples, ["", "network", *needed])
    yield "\n### Against the best dense network\n"
    yield table(fair[False], FAIR)
    yield "\n### Drawn on\n"
    yield table(drawn, ["", "both curves meet at N ="])
    yield "\n### The note\n"
    yield table([*fair[False], *fair[True]], FAIR)
    yield "\n### An operator that is right\n"
    yield table(curves[True], heads)
    yield "\n### Samples of the best dense network\n"
    yield table(needs, ["", *needed])
    yield "\n### An operator that is wrong\n"
    heads = [f"N = {n:,}" for n in SHOWN if n != POOL]
    yield table(list(wrong_operators(everything)), ["", *heads, "dense ahead from N ="])
    yield "\n### Statements\n"
    heads = [*judged][1:] + [*judged][:1]  # the closed forms first
    counts = [
        [says, *(_counted([point[says] for point in judged[pair]]) for pair in heads)]
        for says in judged[heads[0]][0]
    ]
    yield table(counts, ["", *heads])


def means_of(errors: Errors) -> dict[int, str]:
    """Mean errors in thousandths, by N."""
    return {int(n): f"{1e3 * each.mean():.3g}" for n, each in zip(*errors, strict=True)}


def needed_row(point: str, known: Errors, dense: Errors) -> list[str]:
    """The N at which a dense network has the known operator's errors, and from which it leads."""
    largest = dense[0][-1]
    needs = (text(saved(known, dense, n, largest), largest) for n in WITH)
    return [point, *needs, text(overtaken(known, dense), largest)]


def wrong_operators(everything: dict[str, dict[str, Cells]]) -> Iterator[list[str]]:
    """Networks of 2,000 steps around operators that are wrong, beside the best dense network."""
    shown = [n for n in SHOWN if n != POOL]
    for (problem, *_), networks in tables_of_errors(WORTH).items():
        name = NAMES[problem]
        if name not in everything:
            continue
        dense = errors_of(best_dense(everything[name]))
        for network, known in networks.items():
            crossing = text(overtaken(known, dense), dense[0][-1])
            means = means_of(known)
            yield [name + network.removeprefix("unet"), *(means[n] for n in shown), crossing]
        means = means_of(dense)
        yield [f"{name}, best dense network", *(means.get(n, "") for n in shown), ""]


def _trained(point: str) -> Iterator[list[object]]:
    """Rates and steps of networks that were trained until twice the steps change nothing."""
    tried: dict[tuple[str, int], list[float]] = defaultdict(list)
    ends: dict[tuple[str, int], list[tuple[float, int, float, float]]] = defaultdict(list)
    for row in read(DATA):
        if row["point"] != point or not row["half"]:
            continue
        key, rate = (row["model"], int(row["n"])), float(row["rate"])
        if row["seed"] == "tuning":
            tried[key].append(rate)
        else:
            values = rate, int(row["steps"]), float(row["mse"]), float(row["half"])
            ends[key].append(values)
    for (model, n), runs in sorted(ends.items()):
        nearest = min(TUNED, key=lambda m: abs(math.log(m / n)))
        rates = ", ".join(f"{rate:g}" for rate in sorted(tried[model, nearest]))
        change = sum(run[2] for run in runs) / sum(run[3] for run in runs) - 1
        yield [point, model, n, rates, f"{runs[0][0]:g}", f"{runs[0][1]:,}", f"{change:+.1%}"]


def _counted(answers: Sequence[bool | None]) -> str:
    """At how many points a statement holds, and at how many that is not decided."""
    unsure = answers.count(None)
    return f"{answers.count(True)} of {len(answers)}{f', {unsure} undecided' if unsure else ''}"


def main() -> None:
    """Measure, or make tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, help="CSV file that curves are appended to; default: only tables")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--seconds", type=float, default=math.inf, help="start no curve that would end after them")
    add("--side", type=int, default=SIDE, help="pixels along an edge")
    add("--models", nargs="+", default=[*NETWORKS, *SOLVED], choices=[*NETWORKS, *SOLVED])
    add("--points", nargs="+", default=list(POINTS), choices=[*POINTS, *RIGHT])
    add("--sizes", type=int, nargs="+", default=TRAINED, help="N of networks that are trained")
    add("--steps", type=int, nargs=2, default=(TUNING_STEPS, STEPS), help="of rates, and at most")
    options = parser.parse_args()
    if options.out:
        measure(options)
    else:
        print("\n".join(tables()))


if __name__ == "__main__":
    main()
