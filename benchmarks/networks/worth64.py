"""What a known operator is worth at 64 x 64 pixels, with patients and tuned learning rates.

    python -m benchmarks.networks.worth64 --out FILE.csv [--device cuda] [--minutes 8]
        [--cases ct,cone] [--networks unet] [--sizes 1 4] [--rates 0.003] [--steps 2000]
    python -m benchmarks.paper.learning    # tables, from results/worth64.csv and data/learning.csv

The same U-Net behind a known inverse ("unet") and behind a dense layer that is learned in its place
("dense-unet"), for seven scanners with 2% of Gaussian noise: CT in the plane (32 views of 92 bins),
CT with a cone (16^3 voxels, 10 views; the slices are the channels of the U-Net), Cartesian and
radial MRI (24 lines), deblurring (deviation 2), CT of an object that moves (poses known), and an
advection-diffusion equation whose start is seen by sensors of unknown gain (its network has learned
weights in front of the solver). "unet, 1% wrong" has a backprojection whose bins are 1% too wide.
"ridge" is the dense layer alone, at its best lambda on validation images: minutes on a CPU.

Images are of patients: bodies with two to five organs, cut at eight heights each. N counts images,
N / 8 patients; validation and test images are of 64 and 256 others. The cone's volumes are of a
patient each, and fields are independent.

Rates: each network is trained at N = 16 and 1,024 with three rates and a seed of its own; the rate
with the best error on validation images is that of all N nearby. Three other seeds are
reported, N = 0 (before training) to 4,096, at the best of ten steps on validation images. Cases in
FILE.csv are skipped; each is appended when it is done. Whether 2,000 steps are enough for a dense
layer: `--cases ct --networks unet dense-unet --sizes 4096 --rates 0.003 --steps 8000`.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.rows import append, read
from korisk.ablation import wrong_operator
from korisk.errors import KoriskError
from korisk.fitting import DenseRidge, Recipe, Scorer
from korisk.fitting.gradient.train import Member, train_many
from korisk.networks import zoo
from korisk.operators.linear import LinearOperator
from korisk.problems import (
    BlurProblem,
    CtProblem,
    CtScanner,
    Gaussian,
    ImageSource,
    Motion,
    MriProblem,
    PdeProblem,
    Problem,
)

SIDE, NOISE = 64, 0.02
SIZES = (1, 2, 4, 16, 64, 256, 1024, 4096)
TUNED_AT = (16, 1024)
RATES = (1e-3, 3e-3, 1e-2)
SEEDS, TUNING_SEED = (1, 2, 3), 9
VALIDATION, TEST = 64, 256
SLICES = 8  # images of a training patient
WRONG = ("0.1%", "1%", "5%", "20%")
COLUMNS = (
    *("problem", "network", "population", "noise", "recipe"),
    *("n", "seed", "error", "rate", "weights"),
)


class Case(NamedTuple):
    """A curve: what is measured, and the network."""

    problem: str
    network: str


PROBLEMS = ("ct", "radial", "cone", "motion", "pde", "mri", "deblur")
CASES = (
    *(
        Case(problem, network)
        for problem in PROBLEMS
        for network in ("unet", "dense-unet", "ridge")
    ),
    *(Case("ct", f"unet, {share} wrong") for share in WRONG),
    *(Case("radial", f"unet, {share} wrong") for share in WRONG[1:]),
)


# --- Patients ------------------------------------------------------------------------------------


class Patients(ImageSource):
    """Slices of bodies of ellipsoids; no patient is in two pools or of two seeds."""

    def draw(
        self, side: int, *, seed: int, counts: Any, device: torch.device | None
    ) -> dict[str, Tensor]:
        """Eight slices of each training patient, one of each other."""
        kinds = {"train": 0, "validation": 1, "test": 2}
        images = {}
        for name, count in counts.items():
            slices = SLICES if name == "train" else 1
            key = (kinds[name], 0 if name == "test" else seed)
            patients = math.ceil(count / slices)
            bodies = slices_of_bodies(side, patients, slices, np.random.default_rng(key), device)
            images[name] = bodies.flatten(0, 1)[:count]
        return images


def slices_of_bodies(
    side: int, count: int, slices: int, rng: np.random.Generator, device: torch.device | None
) -> Tensor:
    """Bodies with two to five organs cut at random heights, (count, slices, side, side).

    2 x 2 points are averaged in a pixel. Lengths are in halves of the image.
    """
    line = (torch.arange(2 * side, device=device, dtype=torch.float64) + 0.5) / side - 1
    y, x = line[:, None], line[None, :]
    images = []
    for _ in range(count):
        z = torch.as_tensor(rng.uniform(-0.6, 0.6, slices), device=device)[:, None, None]
        values = torch.zeros(slices, 2 * side, 2 * side, device=device, dtype=torch.float64)
        for organ in range(1 + int(rng.integers(2, 6))):
            body = organ == 0
            axes = rng.uniform(0.7, 0.95, 3) if body else rng.uniform(0.12, 0.4, 3)
            centre = rng.uniform(-0.05, 0.05, 3) if body else rng.uniform(-0.45, 0.45, 3)
            turn, tilt = rng.uniform(0, math.pi), rng.uniform(-0.5, 0.5)
            height = z - centre[2]
            across, along = x - centre[0] - tilt * height, y - centre[1]
            u = math.cos(turn) * across + math.sin(turn) * along
            v = math.cos(turn) * along - math.sin(turn) * across
            inside = (u / axes[0]) ** 2 + (v / axes[1]) ** 2 + (height / axes[2]) ** 2 <= 1
            values += (1.0 if body else rng.uniform(-0.5, 0.8)) * inside
        fine = values.clamp(min=0.0).reshape(slices, side, 2, side, 2)
        images.append(fine.mean((2, 4)))
    return torch.stack(images)


# --- Problems and networks -----------------------------------------------------------------------


def problem_of(name: str) -> Problem:
    """The problem of a case."""
    noise, patients = Gaussian(NOISE), Patients()
    if name == "cone":
        return CtProblem(scanner=CtScanner(side=16, views=10, bins=24, beam="cone"), noise=noise)
    if name in ("ct", "motion"):
        moved = Motion(states=4, turn=10.0, shift=(6.0, -4.0)) if name == "motion" else None
        scanner = CtScanner(side=SIDE, views=32, bins=92, beam="parallel", motion=moved)
        return CtProblem(scanner=scanner, noise=noise, source=patients)
    if name in ("mri", "radial"):
        trajectory = "radial" if name == "radial" else None
        return MriProblem(
            side=SIDE, lines=24, trajectory=cast(Any, trajectory), noise=noise, source=patients
        )
    if name == "deblur":
        return BlurProblem(side=SIDE, deviation=2.0, gain=0.0, noise=noise, source=patients)
    return PdeProblem(dimension=2, points=SIDE, gain=0.2, noise=NOISE, decay=1.0)


class Pool(NamedTuple):
    """Pairs of all seeds, and where those of a seed are."""

    inputs: Tensor
    targets: Tensor
    rows: dict[int, tuple[Tensor, ...]]  # by seed: training, validation and test pairs


def pool_of(problem: Problem, device: str) -> Pool:
    """What is measured of every seed's images, in float32."""
    inputs, targets, rows, start = [], [], {}, 0
    for seed in (*SEEDS, TUNING_SEED):
        largest = SIZES[-1] if seed in SEEDS else TUNED_AT[-1]
        counts = {"train": largest, "validation": VALIDATION, "test": TEST}
        for pairs in problem.pools(seed=seed, device=device, **counts):
            inputs.append(pairs.inputs.to(torch.float32))
            targets.append(pairs.targets.to(torch.float32))
        total = sum(counts.values())
        places = torch.arange(start, start + total, device=device)
        rows[seed] = torch.split(places, list(counts.values()))
        start += total
    return Pool(torch.cat(inputs), torch.cat(targets), rows)


class Networks:
    """Networks of a case, and the inputs that they are trained on."""

    def __init__(self, case: Case, pool: Pool, problem: Problem, device: str) -> None:
        self.case, self.device = case, device
        shape = tuple(pool.targets.shape[1:])
        self.inputs = pool.inputs
        self._front: nn.Module = nn.Identity()
        if case.network == "dense-unet":
            flat = pool.inputs.flatten(1)
            self.inputs = flat[:, flat.std(0) > 0]  # lines that are not measured are left out
            # A random layer whose outputs are as large as images, as the known inverse's are.
            size = float(self.inputs.square().mean().sqrt())
            scale = float(pool.targets.square().mean().sqrt()) / size
            measured = tuple(self.inputs.shape[1:])
            self._template = zoo.DenseUNet(measured, shape, scale=scale).to(device)
            return
        self._operator, inverse = self._known(problem)
        if case.problem == "pde":
            self._inverse: Sequence[LinearOperator] = inverse
            return
        if "wrong" in case.network:
            share = float(case.network.split()[1].rstrip("%")) / 100
            inverse = (*inverse[:-1], wrong_operator(inverse[-1], share))
        self._inverse = inverse
        self._front, _ = zoo.split_known(self._built(0))
        with torch.no_grad():
            parts = torch.split(pool.inputs, 512)
            self.inputs = torch.cat([self._front(part) for part in parts])

    def _known(self, problem: Problem) -> tuple[LinearOperator, Sequence[LinearOperator]]:
        if isinstance(problem, PdeProblem):
            flow = problem.reconstruction(self.device).tail[0].to(torch.float32)
            return flow, (flow,)
        return problem.known_operators(self.device)

    def _built(self, seed: int) -> nn.Module:
        kind = "weights-inverse-unet" if self.case.problem == "pde" else "inverse-unet"
        return zoo.build(kind, self._operator, self._inverse, seed=seed)

    def __call__(self, seed: int) -> nn.Module:
        """The part of a network that is trained, with fresh weights."""
        if self.case.network != "dense-unet":
            return zoo.split_known(self._built(seed))[1]
        network = copy.deepcopy(self._template)
        draws = torch.Generator(self.device).manual_seed(seed)  # ten times as fast on a GPU
        with torch.no_grad():
            network.dense.weight.normal_(generator=draws)
        refine = zoo.UNet(
            network.net.enter.in_channels, generator=torch.Generator().manual_seed(seed)
        )
        network.net = refine.to(self.device)
        return network


# --- Curves --------------------------------------------------------------------------------------


def fitted(case: Case, pool: Pool, sizes: Sequence[int]) -> Iterator[tuple[object, ...]]:
    """Rows of the dense layer alone, in closed form and float64."""
    inputs, targets = pool.inputs.flatten(1).double(), pool.targets.flatten(1).double()
    about = (case.problem, case.network, "patients", NOISE, "closed form")
    weights = inputs.shape[1] * targets.shape[1]
    for seed in SEEDS:
        train, validation, test = pool.rows[seed]
        ridge = DenseRidge(inputs[train], targets[train], relu=False)
        chosen, judged = (Scorer(inputs[part], targets[part]) for part in (validation, test))
        for n in sizes:
            fit = ridge.training(n).fit(scorer=chosen)
            error = judged(fit.predict(judged.inputs))
            yield (*about, n, seed, f"{error:.6g}", "", weights)


def curve(case: Case, pool: Pool, options: argparse.Namespace) -> list[tuple[object, ...]]:
    """Rows of a case for the file."""
    make = Networks(case, pool, problem_of(case.problem), options.device)

    def trained(
        seeds_and_sizes: Sequence[tuple[int, int]], rate: float
    ) -> list[tuple[float, float]]:
        """Mean errors on validation and on test images at the best step."""
        members = []
        for seed, n in seeds_and_sizes:
            train, validation, test = pool.rows[seed]
            judged = torch.cat([validation, test])
            members.append(Member(f"N = {n}", make(seed), seed, train[:n], validation, judged))
        recipe = Recipe(steps=options.steps, batch=options.batch, rate=rate, cosine=True)
        errors = [(math.inf, math.inf)] * len(members)
        try:
            for index, squares in train_many(members, make.inputs, pool.targets, recipe):
                validation, test = torch.split(squares, [VALIDATION, TEST])
                errors[index] = float(validation.mean()), float(test.mean())
        except KoriskError as error:  # a loss that is not finite: no rate to choose
            print(f"rate {rate}: {error}", flush=True)
        return errors

    rates = options.rates
    best = dict.fromkeys(TUNED_AT, rates[0])
    if len(rates) > 1:
        losses = {
            rate: [loss for loss, _ in trained([(TUNING_SEED, n) for n in TUNED_AT], rate)]
            for rate in rates
        }
        for index, n in enumerate(TUNED_AT):
            best[n] = min(rates, key=lambda rate: losses[rate][index])
    nearest = {
        n: best[min(TUNED_AT, key=lambda tuned: abs(math.log(tuned / n)))] for n in options.sizes
    }
    weights = sum(p.numel() for p in make(0).parameters() if p.requires_grad)
    about = (case.problem, case.network, "patients", NOISE, f"{options.steps:,} steps")
    rows: list[tuple[object, ...]] = []
    for seed in SEEDS:
        with torch.no_grad():
            test, network = pool.rows[seed][2], make(seed)
            parts = torch.split(test, 64)
            errors = torch.cat(
                [(network(make.inputs[part]) - pool.targets[part]).square() for part in parts]
            )
        rows.append((*about, 0, seed, f"{float(errors.mean()):.6g}", 0, weights))
    for rate in rates:
        jobs = [(seed, n) for n in options.sizes if nearest[n] == rate for seed in SEEDS]
        for (seed, n), (_, error) in zip(jobs, trained(jobs, rate), strict=True):
            rows.append((*about, n, seed, f"{error:.6g}", rate, weights))
    return rows


def main() -> None:
    """Append the curves that are not in the file yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--out", type=Path, required=True)
    add("--device", default="cpu")
    add("--minutes", type=float, default=math.inf, help="no case starts that might end after this")
    add("--cases", help="problems, with commas between them; default: all")
    add("--sizes", type=int, nargs="+", default=SIZES)
    add("--rates", type=float, nargs="+", default=RATES, help="one is taken as it is")
    add("--networks", nargs="+", help="default: all")
    add("--steps", type=int, default=2000)
    add("--batch", type=int, default=8)
    options = parser.parse_args()
    begun, longest = time.monotonic(), {True: 0.0, False: 0.0}  # seconds, by whether dense
    done = {Case(row["problem"], row["network"]) for row in read(options.out)}
    chosen = options.cases.split(",") if options.cases else list(dict.fromkeys(c[0] for c in CASES))
    for name in chosen:
        cases = [case for case in CASES if case.problem == name and case not in done]
        if options.networks:
            cases = [case for case in cases if case.network in options.networks]
        pool = pool_of(problem_of(name), options.device) if cases else None
        for case in cases:
            start, solved = time.monotonic(), case.network == "ridge"
            dense = case.network == "dense-unet"
            if start - begun + longest[dense] > 60 * options.minutes:
                print(f"left out: {case}", flush=True)
                continue
            assert pool is not None
            try:
                rows = (
                    [*fitted(case, pool, options.sizes)] if solved else curve(case, pool, options)
                )
            except RuntimeError as error:  # such as too little memory: the next case may fit
                print(f"failed: {case}: {error}", flush=True)
                continue
            append(options.out, COLUMNS, rows)
            longest[dense] = max(longest[dense], time.monotonic() - start)
            print(f"{time.monotonic() - start:5.1f} s  {case}", flush=True)


if __name__ == "__main__":
    main()
