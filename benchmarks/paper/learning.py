"""A study in which the known operator has something to learn, counted from N = 0.

    python -m benchmarks.paper.learning --out FILE.csv --device cuda [--seconds 400]   # measures
    python -m benchmarks.paper.learning --out FILE.csv --side 32 --closed    # closed forms, minutes
    python -m benchmarks.paper.learning                  # what results/learning.txt keeps

Fan-beam CT at six points: few views, noise, part of the angles,
gains of the detector that are wrong, a geometry that is wrong, and all of these. The known operator
is filtered backprojection of the scanner as it should be; the data come from the scanner as it is.
Four networks:

    KO           weights in front of the known operator, in closed form
    KO + U-Net   the same weights, the known operator, then a U-Net
    FC           a dense matrix, in closed form
    FC + U-Net   a dense layer in the place of weights and operator, then the same U-Net

Closed forms choose lambda, and U-Nets their rate (of two) and the best of eleven steps, the first
of them before training, on 128 validation images; errors are those of 384 test images. N is 0
(before training), 1, 2, 4, ..., 1,024, with three seeds. All trainings of a curve run at once
(planner.image_networks). Curves that FILE.csv has are not measured again.

For KO's error at N = 0, 4 and 64: the N at which its dense counterpart has it too, with a 90%
interval over resampled seeds; and the N from which on the dense one has the smaller error.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.markdown import table
from benchmarks.networks.saved import Array, overtaken, saved, text
from benchmarks.planner import image_networks as base
from benchmarks.planner.image_networks import (
    TEST,
    VALIDATION,
    Data,
    KnownMatrix,
    Maker,
    Training,
    UNet,
    Way,
)
from korisk.errors import KoriskWarning
from korisk.fitting import DenseRidge, DiagonalRidge, Scorer
from korisk.fitting.ridge.diagonal import tail_gram
from korisk.operators import Composed, Matrix, Projector
from korisk.problems import CtScanner, EllipseSource

RESULTS = Path(__file__).parents[1] / "results" / "learning.csv"
COLUMNS = ("side", "point", "model", "rate", "n", "seed", "validation", "mse")
SIDE = 64  # pixels; bins are half as many again
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
POOL, SEEDS = SIZES[-1], 3  # training images of a seed
STEPS, BATCH, WIDTH = 1500, 8, 16
WITH = (0, 4, 64)  # samples of KO whose errors are the three targets
# A dense layer may need a smaller rate: its inputs are many and its steps add up.
RATES = {"KO + U-Net": (1e-3, 3e-3), "FC + U-Net": (1e-3, 3e-4)}
PAIRS = (("KO", "FC"), ("KO + U-Net", "FC + U-Net"))


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


@dataclass(frozen=True)
class Bench:
    """What is known at a point, and the data."""

    weights: Tensor  # (views, bins), of the analytic reconstruction
    tail: Tensor  # (pixels, measurements): filter and backprojection
    data: Data

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
        for seed in range(SEEDS)
    ]
    judged = source.draw(
        side, seed=0, counts={"validation": VALIDATION, "test": TEST}, device=where
    )
    return torch.cat(pools).float(), torch.cat([judged["validation"], judged["test"]]).float()


@cache
def bench(point: Point, side: int, device: str) -> Bench:
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


# --- Networks: measurements (E, 1, B, views, bins) to images (E, 1, B, 64, 64) -------------------


class KnownUNet(nn.Module):
    """Learned weights that start at the analytic ones, the known operator, then a U-Net."""

    def __init__(self, make: Maker, at: Bench) -> None:
        super().__init__()
        analytic = at.tail * at.weights.flatten()
        self.weights = make.constant((1, 1, *at.weights.shape), 1.0)
        self.known = KnownMatrix(analytic.double().cpu().numpy(), at.shape)
        self.then = UNet(make)

    def forward(self, y: Tensor) -> Tensor:
        """All of it."""
        image: Tensor = self.then(self.known(y * self.weights))
        return image


class DenseUNet(nn.Module):
    """A dense learned layer in the place of weights and operator, then a U-Net."""

    def __init__(self, make: Maker, at: Bench) -> None:
        super().__init__()
        inputs, self.shape = at.weights.numel(), at.shape
        self.dense = make.normal((inputs, math.prod(at.shape)), 0.3 * inputs**-0.5)
        self.then = UNet(make)

    def forward(self, y: Tensor) -> Tensor:
        """All of it."""
        dense = torch.bmm(y[:, 0].flatten(2), self.dense)
        image: Tensor = self.then(dense.view(len(y), 1, -1, *self.shape))
        return image


BUILDS: dict[str, Callable[[Maker, Bench], nn.Module]] = {
    "KO + U-Net": KnownUNet,
    "FC + U-Net": DenseUNet,
}
Row = tuple[str, int, int, float, float]  # rate, n, seed, validation and test error


def trained(model: str, rate: float, at: Bench, steps: int, device: str) -> Iterator[Row]:
    """Errors of the untrained networks, then of all at the best step on validation images."""
    cells = [(n, seed) for n in SIZES for seed in range(SEEDS)]
    cuda = device == "cuda"
    way = Way(conv="triton" if cuda else "unfold", graph=cuda)
    training = Training(
        lambda make: BUILDS[model](make, at),
        *(at.data, cells, base.cosine(rate, steps), way, WIDTH, device),
        batch=BATCH,
        pool=POOL,
    )
    best, test = (errors.cpu() for errors in training.judge())
    for seed in range(SEEDS):  # members of a seed start with the same weights
        yield f"{rate:g}", 0, seed, best[seed].item(), test[seed].item()
    for check in range(1, base.CHECKS + 1):
        training.run(steps * check // base.CHECKS - training.done)
        validation, now = (errors.cpu() for errors in training.judge())
        better = validation < best
        best, test = torch.where(better, validation, best), torch.where(better, now, test)
    for (n, seed), chosen, error in zip(cells, best.tolist(), test.tolist(), strict=True):
        yield f"{rate:g}", n, seed, chosen, error


def solved(model: str, at: Bench) -> Iterator[Row]:
    """Errors of KO or FC in closed form, in float64; at N = 0 of what lambda = inf gives."""
    inputs, targets = at.data.judged_inputs[:, 0].double(), at.data.judged_targets.double()
    chosen, judged = (
        Scorer(inputs[part], targets[part])
        for part in (slice(0, VALIDATION), slice(VALIDATION, None))
    )
    shape = tuple(at.weights.shape)
    tail = Matrix(at.tail.double(), domain=shape, range=at.shape)
    gram = tail_gram(tail) if model == "KO" else None
    for seed in range(SEEDS):
        rows = slice(seed * POOL, seed * POOL + SIZES[-1])
        pool = at.data.inputs[rows, 0].double(), at.data.targets[rows].double()
        dense = DenseRidge(*pool)
        known = DiagonalRidge(tail, *pool, toward=at.weights.double(), gram=gram)
        ridge = known if model == "KO" else dense
        for n in (0, *SIZES):
            if n == 0:
                fit = ridge.training(1).fit(penalty=math.inf)
            else:
                fit = ridge.training(n).fit(scorer=chosen)
            validation, test = (scorer(fit.predict(scorer.inputs)) for scorer in (chosen, judged))
            yield "", n, seed, validation, test


def measure(out: Path, device: str, seconds: float, *, side: int, steps: int, closed: bool) -> None:
    """Append the curves that the file does not have; none starts when its time might not do."""
    if not out.exists():
        out.write_text(",".join(COLUMNS) + "\n")
    with out.open(newline="") as file:
        done = {
            (row["point"], row["model"], row["rate"])
            for row in csv.DictReader(file)
            if int(row["side"]) == side
        }
    start, longest = time.monotonic(), 0.0
    first, second = ([(model, rates[at]) for model, rates in RATES.items()] for at in (0, 1))
    # Closed forms take seconds; the second rates when all points have the first ones.
    for runs in ([("KO", 0.0), ("FC", 0.0)], *(() if closed else (first, second))):
        for name, point in POINTS.items():
            wanted = [(m, r) for m, r in runs if (name, m, f"{r:g}" if r else "") not in done]
            if not wanted:
                continue
            at = bench(point, side, device)
            for model, rate in wanted:
                before = time.monotonic()
                if before - start + longest > seconds:
                    print(f"left out: {name}, {model}, {rate:g}", flush=True)
                    continue
                rows = list(trained(model, rate, at, steps, device) if rate else solved(model, at))
                with out.open("a", newline="") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    writer.writerows(
                        (side, name, model, *row[:3], *(f"{error:.6g}" for error in row[3:]))
                        for row in rows
                    )
                spent = time.monotonic() - before
                longest = max(longest, spent)
                ends = f"{rows[0][-1]:.3g} to {rows[-1][-1]:.3g}"
                print(f"{spent:5.1f} s  {name}, {model}, {rate:g}: {ends}", flush=True)


# --- Tables --------------------------------------------------------------------------------------

Errors = tuple[Array, Array]  # sizes from 0 on, and errors (sizes, seeds)


def kept_errors(path: Path = RESULTS) -> dict[str, dict[str, Errors]]:
    """Errors of every model at every point, each network at the better rate on validation."""
    best: dict[tuple[str, str, int, int], tuple[float, float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            cell = row["point"], row["model"], int(row["n"]), int(row["seed"])
            errors = float(row["validation"]), float(row["mse"])
            best[cell] = min(best.get(cell, errors), errors)
    tables: dict[str, dict[str, Errors]] = defaultdict(dict)
    sizes = (0, *SIZES)
    for point, model in dict.fromkeys(cell[:2] for cell in best):
        rows = [[best[point, model, n, seed][1] for seed in range(SEEDS)] for n in sizes]
        tables[point][model] = np.array(sizes, float), np.array(rows)
    return tables


def statements(known: Errors, dense: Errors) -> dict[str, bool | None]:
    """What the paper says of KO and FC, at one point; None where sizes end too early."""
    sizes, of_known, of_dense = known[0], known[1].mean(1), dense[1].mean(1)
    few = sizes <= 64
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
            of_known[-1] < 0.9 * of_known[0]
        ),
    }


def tables() -> Iterator[str]:
    """What was learned, what dense networks need for it, and what is left of the paper."""
    shown = (0, 4, 64, 1024)
    curves, samples = [], []
    judged: dict[str, list[dict[str, bool | None]]] = defaultdict(list)
    for point, models in kept_errors().items():
        for model, (sizes, errors) in models.items():
            means = dict(zip(sizes.astype(int).tolist(), errors.mean(1).tolist(), strict=True))
            gained = 1 - means[SIZES[-1]] / means[0]
            curves.append([point, model, *(f"{means[n]:.3g}" for n in shown), f"{gained:.0%}"])
        for first, second in PAIRS:
            if not {first, second} <= set(models):
                continue  # a run of closed forms alone
            known, dense = models[first], models[second]
            trained = dense[0][1:], dense[1][1:]  # a logarithm has no N = 0
            largest = float(SIZES[-1])
            needed = (text(saved(known, trained, n, largest), largest) for n in WITH)
            passed = text(overtaken(known, trained), largest)
            samples.append([point, f"{second} for {first}", *needed, passed])
            judged[first].append(statements(known, dense))
    yield "### Errors\n"
    heads = ["", "network", *(f"N = {n:,}" for n in shown), "training lowers it by"]
    yield table(curves, heads)
    yield "\n### Samples\n"
    heads = ["", "N of", "as untrained", *(f"as with {n}" for n in WITH[1:]), "smaller from N on"]
    yield table(samples, heads)
    yield "\n### Statements\n"
    counts = [
        [
            says,
            *(_counted([point[says] for point in points]) for points in judged.values()),
        ]
        for says in judged["KO"][0]
    ]
    heads = ["", *(f"{first} and {second}" for first, second in PAIRS if first in judged)]
    yield table(counts, heads)


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
    add("--closed", action="store_true", help="closed forms alone, which need no GPU")
    add("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    if options.out:
        how = {"side": options.side, "steps": options.steps, "closed": options.closed}
        measure(options.out, options.device, options.seconds, **how)
    else:
        print("\n".join(tables()))


if __name__ == "__main__":
    main()
