"""What knowing the motion of a scan is worth: known, estimated and ignored, by `ablate`.

    python -m benchmarks.operators.motion [--scan MRI] [--images DIR]

Simulated heads, and real slices where DIR has NAME.npz of benchmarks/prediction/real_images.py, of
which two by two pixels are averaged. An object of 16 x 16 pixels turns by 10 degrees and shifts by
1.5 and -1 pixels in four steps during a scan with 2% of noise: 24 views of 24 bins, or 24 spokes of
k-space. The network is the known inverse (filtered backprojection, or gridding) and a U-Net behind
it; `ablate` trains it as it is and with the A^T of poses that were estimated from eight scans of
other objects, or of an object at rest. Scans are simulated with the same interpolation as the known
motion has. benchmarks/results/motion.txt has the tables of both scans.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import korisk as kr
from benchmarks.markdown import header, line
from korisk.ablation import Replacement
from korisk.networks import zoo
from korisk.operators import LinearOperator
from korisk.problems import CtProblem, CtScanner, Handled, Motion, MriProblem

SIDE, NOISE, HEADS = 16, 0.02, 240
SIZES, SEEDS = (8, 32, 128), 2
STEPS, WIDTH = 150, 8
VIEWS, BINS = 24, 24  # and as many spokes
REAL = {"CT": ("chest_ct", "chest CT"), "MRI": ("brain_mri_b", "brain MRI")}
MOVED = Motion(states=4, turn=10.0, shift=(1.5, -1.0))
# The head of Shepp and Logan (1974) with the contrast of Toft (1996): amplitude, semi-axes and
# centre along columns and rows, angle in degrees.
SHEPP_LOGAN = np.array(
    [
        [1.0, 0.69, 0.92, 0.0, 0.0, 0.0],
        [-0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0],
        [-0.2, 0.11, 0.31, 0.22, 0.0, -18.0],
        [-0.2, 0.16, 0.41, -0.22, 0.0, 18.0],
        [0.1, 0.21, 0.25, 0.0, 0.35, 0.0],
        [0.1, 0.046, 0.046, 0.0, 0.1, 0.0],
        [0.1, 0.046, 0.023, -0.08, -0.605, 0.0],
        [0.1, 0.023, 0.046, 0.06, -0.605, 0.0],
    ]
)


def heads(count: int) -> NDArray[np.float64]:
    """Heads that differ in size, pose and contents, (count, side, side), values in [0, 1]."""
    rng = np.random.default_rng(0)
    fine = 4  # points a pixel along each axis
    grid = ((np.arange(SIDE * fine) + 0.5) / fine - SIDE / 2) / (SIDE / 2)
    x, y = np.meshgrid(grid, grid)
    images = np.zeros((count, SIDE, SIDE))
    for image in images:
        table = SHEPP_LOGAN * (1 + 0.1 * rng.standard_normal(SHEPP_LOGAN.shape))
        table[:2, 1:] = SHEPP_LOGAN[:2, 1:]  # the skull keeps its thickness
        table[2:, 3:5] += 0.05 * rng.standard_normal((len(table) - 2, 2))
        table[:, 1:5] *= 0.8 * (1 + 0.05 * rng.standard_normal())  # room to move
        whole = np.zeros_like(x)
        for height, a, b, right, down, degrees in table:
            turn = np.deg2rad(degrees)
            u, v = x - right, y - down
            along, across = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
            whole += height * ((along / a) ** 2 + (across / b) ** 2 <= 1)
        image += whole.reshape(SIDE, fine, SIDE, fine).mean((1, 3)).clip(0, 1)
    return images


def problem(kind: str, handled: Handled) -> CtProblem | MriProblem:
    """A scan of what moves, whose known operators handle the motion so."""
    motion = Motion(states=MOVED.states, turn=MOVED.turn, shift=MOVED.shift, handled=handled)
    if kind == "CT":
        scanner = CtScanner(side=SIDE, views=VIEWS, bins=BINS, beam="parallel", motion=motion)
        return CtProblem(scanner=scanner)
    return MriProblem(side=SIDE, lines=VIEWS, trajectory="radial", motion=motion)


def network(kind: str, handled: Handled) -> tuple[Callable[[], nn.Module], LinearOperator]:
    """A function that makes the network, and its last known layer."""
    operator, inverse = problem(kind, handled).known_operators()

    def build() -> nn.Module:
        seed = int(torch.randint(2**31, ()))
        return zoo.build("inverse-unet", operator, inverse, width=WIDTH, seed=seed)

    return build, inverse[-1]


def compared(kind: str, what: str, images: NDArray[np.float64]) -> None:
    """The rows of one scan and one population."""
    build, known = network(kind, "known")
    moving = problem(kind, "known").operator().to(torch.float32)
    arms: tuple[Handled, ...] = ("estimated", "ignored")
    results = {}
    for handled in arms:
        change = Replacement(layer=known.name, by="wrong", wrong=network(kind, handled)[1])
        results[handled] = kr.ablate(
            build,
            moving,
            images,
            NOISE,
            replace=change,
            sizes=SIZES,
            seeds=SEEDS,
            training=kr.prediction.Training(steps=STEPS),
            bound=False,
        )
    target = results["ignored"].target
    curves: dict[str, kr.Curve] = {"known": results["ignored"].curves[0]}
    curves |= {handled: results[handled].curves[1] for handled in arms}
    for known_as, curve in curves.items():
        plan = kr.plan(curve, target)
        samples = plan.samples(sure=0.9)
        needed = "no N with 90%" if samples is None else f"{samples:,}"
        errors = (f"{error:.2g}" for error in curve.means)
        print(line(kind, what, known_as, *errors, f"{target:.2g}", needed), flush=True)


def main() -> None:
    """All scans and populations."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--images", type=Path, help="folder with NAME.npz of real slices")
    parser.add_argument("--scan", choices=("CT", "MRI"), default="CT")
    given = parser.parse_args()
    begun = time.process_time()
    populations = {"heads": heads(HEADS)}
    if given.images is not None:
        name, words = REAL[given.scan]
        slices = np.load(given.images / f"{name}.npz")["pool"][:HEADS] / 255.0
        populations[words] = slices.reshape(-1, SIDE, 2, SIDE, 2).mean((2, 4))
    print(
        *header("scan", "images", "motion", *(f"N = {n}" for n in SIZES), "target", "N for it"),
        sep="\n",
    )
    for what, images in populations.items():
        compared(given.scan, what, images)
    cpu = time.process_time() - begun
    print(f"\n{platform.machine()}, {cpu:.0f} s of CPU time; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
