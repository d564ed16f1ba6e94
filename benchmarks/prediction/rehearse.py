"""Networks rehearsed on simulated pairs, then asked about real images.

Nine networks for CT, MRI, deblurring, denoising and inpainting (benchmarks/planner/imaging.py) are
rehearsed with `kr.rehearse` from 64 example images of a population. Truth are the curves of
benchmarks/data/imaging.csv, trained with the same recipe on other images of the population. Some
populations chose the constants of src/korisk/prediction/rehearsal.py; others report.

    python -m benchmarks.prediction.rehearse --train --part choose --images DIR [--minutes 9]
        # rehearse what is not in benchmarks/data/rehearsal.csv yet
    python -m benchmarks.prediction.rehearse --part report        # ask, and print the tables
    python -m benchmarks.prediction.rehearse --cost [--device cpu] [--steps 40]

DIR is that of benchmarks/planner/imaging.py.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

import korisk as kr
from benchmarks.planner import image_networks as base
from benchmarks.planner.imaging import NETWORKS, PROBLEMS, WIDTH, Setting, settings
from korisk.operators import Matrix
from korisk.prediction.alterations import evidence

DATA = Path(__file__).parents[1] / "data"
OUT = DATA / "rehearsal.csv"
COLUMNS = (
    *("problem", "network", "population", "examples", "variant"),
    *("n", "seed", "error", "unaltered", "level", "kinds", "seconds"),
)
CHOOSE = {"ellipses", "blobs", "mnist", "photos", "histology", "head_ct_a", "brain_mri_a"}
CHOOSE |= {"brain_mri_b"}
EXAMPLES = 64


class Single(nn.Module):
    """One member of an ensemble of benchmarks/planner/imaging.py, as a network of its own."""

    def __init__(self, network: str, problem: str) -> None:
        super().__init__()
        seed = int(torch.randint(2**31, ()))
        make = base.Maker([seed], base.Way(conv="grouped"), WIDTH)
        self.ensemble = NETWORKS[network][0](make, PROBLEMS[problem])

    def forward(self, measured: Tensor) -> Tensor:
        """(batch, rows, columns) to images (batch, 32, 32)."""
        image: Tensor = self.ensemble(measured[None, None])
        return image[0, 0]


def part_of(setting: Setting) -> str:
    """Whether a setting chooses constants or reports; neither, if its population chooses."""
    if setting.population in CHOOSE:
        return "neither" if setting.problem == "inpaint" else "choose"
    return "report"


def asked(part: str) -> list[tuple[Setting, str]]:
    """The settings and networks of a part that were trained with the long recipe."""
    truth = {tuple(row[:5]) for row in csv.reader((DATA / "imaging.csv").open(newline=""))}
    wanted = []
    for setting in settings():
        if setting.recipe == "long" and part_of(setting) == part:
            for network in setting.networks:
                noise = f"{setting.noise:g}"
                key = (setting.problem, network, setting.population, noise, setting.recipe)
                if key in truth:
                    wanted.append((setting, network))
    return wanted


@cache
def spoken_for(population: str, folder: Path | None) -> tuple[str, ...]:
    """The alterations for which the examples of a population speak, once for all networks."""
    examples = torch.from_numpy(base.population(population, folder)[1])[:EXAMPLES]
    return evidence(examples).kinds


def rehearsed(setting: Setting, network: str, options: argparse.Namespace) -> kr.Rehearsal:
    """One rehearsal, by the library."""
    problem = PROBLEMS[setting.problem]
    images = torch.from_numpy(base.population(setting.population, options.images)[1])[:EXAMPLES]
    matrix = torch.from_numpy(problem.matrix()).float()
    operator = Matrix(matrix, domain=(base.SIDE, base.SIDE), range=problem.shape).to(options.device)
    clean = images.flatten(1).float() @ matrix.T
    deviation = setting.noise * (float(clean.abs().mean()) if problem.relative else 1.0)
    lost = (matrix.abs().sum(1) > 0).float().view(problem.shape)  # lost pixels have no noise

    def noise(inputs: Tensor, draws: torch.Generator) -> Tensor:
        return inputs + deviation * lost * torch.randn(inputs.shape, generator=draws)

    return kr.rehearse(
        lambda: Single(network, setting.problem),
        operator,
        images,
        noise,
        augment=spoken_for(setting.population, options.images),
        model=network,
        training=kr.prediction.Training(steps=options.steps, rate=NETWORKS[network][1]),
    )


def train(options: argparse.Namespace) -> None:
    """Rehearse what is not in the file yet, and append it, one curve at a time."""
    out, start = options.out, time.perf_counter()
    if not out.exists():
        out.write_text(",".join(COLUMNS) + "\n")
    there = {tuple(row[:3]) for row in csv.reader(out.open(newline=""))}
    left = [
        (setting, network)
        for setting, network in asked(options.part)
        if (setting.problem, network, setting.population) not in there
    ]
    if options.networks:
        left = [job for job in left if job[1] in options.networks]
    for setting, network in left[options.turn :: options.turns]:
        if time.perf_counter() - start > 60 * options.minutes:
            print(f"{options.minutes:g} minutes are used up: run again for the rest")
            return
        made = rehearsed(setting, network, options)
        words = made.simulated
        kinds = words[words.find("copies") :].partition("(")[2].partition(")")[0].replace(", ", " ")
        rows = []
        variants = {"plain": made.curve, "halved": made.halved}
        for variant, curve in variants.items():
            if curve is None:
                continue
            key = (setting.problem, network, setting.population, EXAMPLES, variant)
            how = (made.unaltered, f"{made.level:.4f}", kinds, f"{made.seconds:.1f}")
            for n, error, seed in zip(curve.n, curve.error, curve.seed, strict=True):
                rows.append((*key, n, seed, f"{error:.6g}", *how))
        with out.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        print(setting.problem, network, setting.population, f"{made.seconds:.1f} s", flush=True)


def main() -> int:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--train", action="store_true", help="rehearse, instead of asking")
    add("--part", choices=("choose", "report"), default="report")
    add("--images", type=Path, help="folder with the populations as NAME.npz")
    add("--out", type=Path, default=OUT)
    add("--networks", type=lambda text: text.split(","), help="these alone")
    add("--steps", type=int, default=2000)
    add("--minutes", type=float, default=math.inf, help="start no curve after so many")
    add("--turn", type=int, default=0, help="of several processes, which one this is")
    add("--turns", type=int, default=1, help="how many processes share the work")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.train:
        train(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
