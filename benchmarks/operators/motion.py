"""What knowing the motion of a scan is worth: known and ignored, by `ablate`.

    python -m benchmarks.operators.motion [--scan MRI] [--images DIR] [--device cuda]
        [--steps 6000]                               # trains what motion.csv does not have
    python -m benchmarks.operators.motion --tables   # results/motion.txt

Simulated heads, and real slices where DIR has NAME.npz of benchmarks/prediction/real_images.py. An
object of 32 x 32 pixels turns by 10 degrees and shifts by 3 and -2 pixels in four steps during a
scan with 2% of noise: 48 views of 48 bins, or 48 spokes of k-space. The
network is the known inverse (filtered backprojection, or gridding) and a U-Net behind it; `ablate`
trains it as it is and with the A^T of an object at rest. These A^T are stored as matrices, which a
GPU multiplies faster than it interpolates so small images. Rows of estimated poses are of 0.3.0,
whose operators could also have poses estimated from eight scans of other objects. Scans are
simulated with the same interpolation as the known motion has. Runs with other steps than the
default show whether the networks had converged.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import korisk as kr
from benchmarks.markdown import header, line
from benchmarks.networks.burgers import needed, ratio
from benchmarks.operators.shepp_logan import ELLIPSES
from benchmarks.rows import append, curve, read
from korisk.ablation import Replacement
from korisk.networks import zoo
from korisk.operators import LinearOperator, Matrix
from korisk.problems import CtProblem, CtScanner, Handled, Motion, MriProblem

RESULTS = Path(__file__).parents[1] / "results" / "motion.csv"
TABLES = RESULTS.with_suffix(".txt")
COLUMNS = ("scan", "images", "motion", "steps", "n", "seed", "mse")
Row = dict[str, str]

SIDE, NOISE = 32, 0.02
IMAGES = 600  # a third judges, a tenth chooses the best step: 340 are left to train with
SIZES, SEEDS = (4, 8, 16, 32, 64, 128, 256), 3
STEPS, WIDTH = 3000, 8
VIEWS, BINS = 48, 48  # and as many spokes
REAL = {"CT": ("chest_ct", "chest CT"), "MRI": ("brain_mri_b", "brain MRI")}
MOVED = Motion(states=4, turn=10.0, shift=(SIDE * 3 / 32, -SIDE / 16))
HANDLED = ("known", "estimated", "ignored")  # in the tables
ABOVE = 1.05  # times the best error of a network: targets, as `ablate` has them
# Of the head, without two of its smallest ellipses.
SHEPP_LOGAN = np.array(ELLIPSES)[[0, 1, 2, 3, 4, 5, 7, 9]]


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


def network(
    kind: str, handled: Handled, device: str
) -> tuple[Callable[[], nn.Module], LinearOperator]:
    """A function that makes the network, and its last known layer."""
    operator, (*front, last) = problem(kind, handled).known_operators(device)
    with torch.no_grad():
        stored = Matrix(last.as_matrix(), last.domain, last.range, last.name)

    def build() -> nn.Module:
        seed = int(torch.randint(2**31, ()))
        return zoo.build("inverse-unet", operator, (*front, stored), width=WIDTH, seed=seed)

    return build, stored


def train(
    kind: str, images: str, population: NDArray[np.float64], options: argparse.Namespace
) -> None:
    """Train networks of one scan and one population, and append their errors."""
    begun = time.perf_counter()
    build, known = network(kind, "known", options.device)
    ablation = kr.ablate(
        build,
        problem(kind, "known").operator(options.device).to(torch.float32),
        population,
        NOISE,
        replace=Replacement(
            layer=known.name, by="wrong", wrong=network(kind, "ignored", options.device)[1]
        ),
        sizes=SIZES,
        seeds=SEEDS,
        training=kr.prediction.Training(steps=options.steps),
        bound=False,
    )
    print(ablation.first.simulated, *ablation.notes, sep="\n", flush=True)
    for handled, made in zip(("known", "ignored"), ablation.curves, strict=True):
        measured = zip(made.n, made.error, made.seed, strict=True)
        about = kind, images, handled, options.steps
        append(RESULTS, COLUMNS, [(*about, n, seed, f"{error:.6g}") for n, error, seed in measured])
    print(kind, images, f"{time.perf_counter() - begun:.0f} s", flush=True)


def curves_of(rows: Sequence[Row], steps: int) -> dict[tuple[str, str], dict[str, kr.Curve]]:
    """The curves of each scan and population, by what is known of the motion."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        if int(row["steps"]) == steps:
            group = groups.setdefault((row["scan"], row["images"]), {})
            group.setdefault(row["motion"], []).append(row)
    heads_first = sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] != "heads"))
    return {
        key: {handled: curve(group[handled], handled) for handled in HANDLED if handled in group}
        for key, group in heads_first
    }


def tables() -> str:
    """Markdown: errors, samples for two targets, and whether training had converged."""
    rows = read(RESULTS)
    curves = curves_of(rows, STEPS)
    text = ["### Errors", ""]
    text += header("scan", "images", "motion", *(f"N = {n}" for n in SIZES))
    for key, group in curves.items():
        for handled, learning in group.items():
            text.append(line(*key, handled, *(f"{error:.2g}" for error in learning.means)))
    text += ["", "### Samples", ""]
    heads_of = ("scan", "images", "target", "motion", "N (90% interval)")
    text += header(*heads_of, "enough with 90% probability", "times those of known motion")
    for key, group in curves.items():
        for reached in ("ignored", "known"):
            target = float(f"{ABOVE * float(group[reached].means.min()):.3g}")
            for handled, learning in group.items():
                times = "" if handled == "known" else ratio(group["known"], learning, target)
                samples = needed(learning, target)
                text.append(line(*key, f"{target:.2g} ({reached})", handled, *samples, times))
    text += ["", "### Converged", ""]
    heads_of = ("scan", "images", "motion", "steps", "errors over those of the table")
    text += header(*heads_of, f"error at N = {SIZES[-1]}")
    others = sorted({int(row["steps"]) for row in rows} - {STEPS})
    for steps in others:
        for key, group in curves_of(rows, steps).items():
            for handled, learning in group.items():
                ratios = learning.means / curves[key][handled].means
                span = f"{ratios.min():.2f} to {ratios.max():.2f}"
                last = f"{learning.means[-1]:.2g}"
                text.append(line(*key, handled, f"{steps:,}", span, last))
    return "\n".join(text) + "\n"


def main() -> None:
    """Train, or write tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--images", type=Path, help="folder with NAME.npz of real slices")
    parser.add_argument("--scan", choices=tuple(REAL), help="default: both")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if options.tables:
        TABLES.write_text(tables())
        return
    have = {(row["scan"], row["images"], int(row["steps"])) for row in read(RESULTS)}
    for kind in REAL if options.scan is None else [options.scan]:
        populations = {"heads": heads(IMAGES)}
        if options.images is not None:
            name, words = REAL[kind]
            populations[words] = np.load(options.images / f"{name}.npz")["pool"][:IMAGES] / 255.0
        for images, population in populations.items():
            if (kind, images, options.steps) not in have:
                train(kind, images, population, options)


if __name__ == "__main__":
    main()
