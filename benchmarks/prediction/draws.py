"""Do bands of dense predictions hold over many disjoint draws of real example images?

    python -m benchmarks.prediction.draws measure --images DIR --part choose|report --json FILE
        [--populations a,b] [--points par16,fan32] [--device cuda] [--workers 16]
    python -m benchmarks.prediction.draws tables FILE

DIR has the populations of benchmarks/prediction/real_images.py. All images of a population (4,608)
are shuffled and split into four quarters. Three disjoint sets of 256 examples are drawn from each
quarter, twelve in all; the first 32 and 64 of a set are smaller sets. The truth for a quarter's
sets is measured on the other three: a dense layer is fitted in closed form with the best penalty
to N = 4, 8, ..., 2,048 images (to several disjoint training sets where they are enough) and tested
on 1,408 others. No example takes part in the truth that it is compared with.

A measured error has an error of its own: of the test images, and of the training sets. A band holds
a measured error if the band, widened in quadrature by 1.645 of these standard errors, contains it.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from korisk.prediction.api import dense_prediction
from korisk.prediction.misfit import BELIEF, Belief, LogErrors, Misfit
from korisk.problems import CtScanner, Gaussian
from korisk.problems.noise import add_noise, noise_variance
from korisk.problems.problem import Examples

CHOOSE = ("mnist", "photos", "histology", "head_ct_a", "brain_mri_a", "brain_mri_b")
REPORT = ("fashion", "glyphs", "chest_ct", "brain_mri_c", "brain_mri_d", "head_ct_b", "icons")
SCANNERS: dict[str, dict[str, Any]] = {
    "par16": {"side": 16, "views": 16, "bins": 24, "beam": "parallel"},
    "fan32": {"side": 32, "views": 20, "bins": 48, "beam": "fan"},
}
NOISE = (2, 10)  # percent
QUARTERS, SETS, EXAMPLES = 4, 3, (32, 64, 256)
SIZES = [2**k for k in range(2, 12)]
TRAINING_SETS = 16  # at most, of one N
PENALTIES = torch.logspace(-9, 1, 41, dtype=torch.float64)  # over the mean eigenvalue
NORMAL = 1.645  # standard deviations, of a two-sided 90% interval
Record = dict[str, Any]


def shuffled(folder: Path, population: str) -> np.ndarray[Any, Any]:
    """(4608, 32, 32) all images of a population from 0 to 1, in random order."""
    with np.load(folder / f"{population}.npz") as file:
        images = np.concatenate([file["examples"], file["pool"]])
    return np.asarray(images[np.random.default_rng(0).permutation(len(images))] / 255.0)


def quarters(count: int) -> list[np.ndarray[Any, Any]]:
    """Indices of each quarter of the images."""
    return list(np.array_split(np.arange(count), QUARTERS))


def resized(images: np.ndarray[Any, Any], side: int) -> Tensor:
    """(n, side, side) means over areas."""
    size = images.shape[1] // side
    return torch.from_numpy(
        images.reshape(len(images), side, size, side, size).mean(axis=(2, 4))
    ).float()


# --- Truth ---------------------------------------------------------------------------------------


def ridge_errors(sets: Sequence[tuple[Tensor, Tensor]], unseen: Tensor, wanted: Tensor) -> Tensor:
    """(sets, test images) mean squared errors of dense layers, with the best penalty for all."""
    fits = []
    for inputs, targets in sets:
        if len(inputs) < inputs.shape[1]:
            values, vectors = torch.linalg.eigh(inputs @ inputs.T)
            features, weights = (unseen @ inputs.T) @ vectors, vectors.T @ targets
        else:
            values, vectors = torch.linalg.eigh(inputs.T @ inputs)
            features, weights = unseen @ vectors, vectors.T @ (inputs.T @ targets)
        values = values.clamp_min(0)
        diagonals = 1 / (values + values.mean() * PENALTIES.to(values.device)[:, None])
        # |f D w - y|^2 for the diagonal D of every penalty, from products alone.
        products = (features.T @ features) * (weights @ weights.T)
        across = (features.T @ wanted * weights).sum(1)
        totals = ((diagonals @ products) * diagonals).sum(1) - 2 * diagonals @ across
        fits.append((features, weights, diagonals, totals))
    best = int(torch.stack([fit[3] for fit in fits]).sum(0).argmin())
    return torch.stack(
        [
            ((features * diagonals[best]) @ weights - wanted).square().mean(1)
            for features, weights, diagonals, _ in fits
        ]
    )


def truth(
    images: np.ndarray[Any, Any], scanner: CtScanner, noise: int, device: str
) -> dict[int, tuple[float, float]]:
    """Mean error and the standard error of its logarithm, for every N."""
    targets = resized(images, scanner.side).to(device)
    projector = scanner.projector(torch.device(device))
    clean = projector(targets)
    inputs = add_noise(clean, Gaussian(noise / 100), width=scanner.side, seed=1, stream="truth")
    x, y = inputs.flatten(1).double(), targets.flatten(1).double()
    most = SIZES[-1]
    found = {}
    for n in SIZES:
        starts = range(0, min(most, n * TRAINING_SETS), n)
        sets = [(x[first : first + n], y[first : first + n]) for first in starts]
        errors = ridge_errors(sets, x[most:], y[most:])
        mean = float(errors.mean())
        tested = float(errors.mean(0).std()) / math.sqrt(errors.shape[1]) / mean
        trained = float(errors.mean(1).std()) / math.sqrt(len(sets)) / mean if len(sets) > 1 else 0
        found[n] = mean, math.hypot(tested, trained)
    return found


# --- Predictions ---------------------------------------------------------------------------------


def predicted(folder: Path, device: str, case: tuple[str, str, int, int]) -> list[Record]:
    """All predictions from the examples of one quarter, beside the truth."""
    population, point, noise, quarter = case
    torch.set_num_threads(1)
    every = shuffled(folder, population)
    parts = quarters(len(every))
    others = np.concatenate([part for k, part in enumerate(parts) if k != quarter])
    scanner = CtScanner(**SCANNERS[point])
    measured = truth(every[others], scanner, noise, device)
    projector = scanner.projector(torch.device("cpu"))
    n = np.array(SIZES, dtype=float)
    records = []
    for draw in range(SETS):
        chosen = parts[quarter][draw * max(EXAMPLES) :]
        for count in EXAMPLES:
            latents = resized(every[chosen[:count]], scanner.side).to(projector.dtype)
            clean, kind = projector(latents), Gaussian(noise / 100)
            noisy = add_noise(clean, kind, width=scanner.side, seed=draw, stream="examples")
            variance = noise_variance(clean, kind, width=scanner.side)
            made = Examples(latents, projector, None, noisy, latents, variance, None)
            prediction = dense_prediction(made, relu=False)
            lower, upper = prediction.band(n)
            checks = prediction.rehearsal
            records.append(
                {
                    "population": population,
                    "point": f"{point} {noise}%",
                    "draw": quarter * SETS + draw,
                    "examples": count,
                    "independent": prediction.independent,
                    "level": prediction.level,
                    "n": SIZES,
                    "measured": [measured[size][0] for size in SIZES],
                    "error": [measured[size][1] for size in SIZES],
                    "expected": prediction.errors(n).tolist(),
                    "lower": lower.tolist(),
                    "upper": upper.tolist(),
                    "computed": prediction.computed(n).tolist(),
                    "rehearsed": {
                        "n": checks.n.tolist(),
                        "log_error": checks.log_error.tolist(),
                        "variance": checks.variance.tolist(),
                        "level": checks.level,
                        "computed": prediction.computed(checks.n).tolist() if len(checks) else [],
                    },
                }
            )
    print(*case, file=sys.stderr, flush=True)
    return records


def measure(
    folder: Path,
    names: Sequence[str],
    points: Sequence[str],
    *,
    device: str,
    workers: int,
    path: Path,
) -> list[Record]:
    """All records of some populations, kept in a file as they come."""
    cases = [
        (name, point, noise, quarter)
        for quarter in range(QUARTERS)
        for point in points
        for name in names
        for noise in NOISE
    ]
    os.environ["OMP_NUM_THREADS"] = "1"
    found: list[Record] = []
    with get_context("spawn").Pool(workers) as pool:
        for records in pool.imap_unordered(partial(predicted, folder, device), cases):
            found += records
            found.sort(key=lambda each: (each["point"], each["population"], each["draw"]))
            path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    return found


# --- What it says --------------------------------------------------------------------------------


def holds(record: Record) -> np.ndarray[Any, Any]:
    """(sizes,) whether the band, widened by the measurement's own error, holds the measured one."""
    middle, measured = np.log(record["expected"]), np.log(record["measured"])
    own = NORMAL * np.array(record["error"])
    above = np.hypot(np.log(record["upper"]) - middle, own)
    below = np.hypot(middle - np.log(record["lower"]), own)
    return np.asarray((measured <= middle + above) & (measured >= middle - below))


def rows(records: Sequence[Record]) -> Iterator[list[str]]:
    """By number of examples and population: bands that hold, and how far the curve is off."""
    for count in EXAMPLES:
        some = [record for record in records if record["examples"] == count]
        for name in (*dict.fromkeys(record["population"] for record in some), "all"):
            part = [record for record in some if name in (record["population"], "all")]
            held = np.array([holds(record) for record in part])
            off = np.array([np.log(r["expected"]) - np.log(r["measured"]) for r in part])
            width = np.array([np.log(r["upper"]) - np.log(r["lower"]) for r in part])
            later = np.array(SIZES) > count
            draws = [held[[r["draw"] == d for r in part]].mean() for d in range(QUARTERS * SETS)]
            noisy = np.array([r["point"].endswith(f" {NOISE[0]}%") for r in part])
            low = noisy[:, None] & later
            yield [
                str(count),
                name,
                f"{held.mean():.2f}",
                f"{held[:, later].mean():.2f}",
                f"{min(draws):.2f} to {max(draws):.2f}",
                f"{np.median(np.abs(off)):.3f}",
                f"{math.exp(off[:, later].mean()):.2f}",
                f"{math.exp(off[low].mean()):.2f}",
                f"{math.exp(np.median(width)):.2f}",
            ]


def tables(records: Sequence[Record]) -> str:
    """A Markdown table."""
    heads = ["examples", "population", "bands that hold", "beyond the examples", "over draws"]
    heads += ["median |log| off", "factor beyond", "at 2% noise", "band, upper over lower"]
    lines = [heads, ["---"] * len(heads), *rows(records)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rebanded(record: Record, belief: Belief = BELIEF) -> Record:
    """The same record with the band of another belief."""
    seen = record["rehearsed"]
    logs = np.array(seen["log_error"]) - np.log(np.array(seen["computed"]))
    checks = LogErrors(np.array(seen["n"]), logs, np.array(seen["variance"]))
    nothing = LogErrors(*np.zeros((3, 0)))
    law = Misfit(checks, nothing, record["level"], belief, examples=record["independent"]).law(
        np.array(record["n"], dtype=float)
    )
    base = np.array(record["computed"])
    curves = {
        name: (base * np.exp(law.quantile(p))).tolist()
        for name, p in (("lower", 0.05), ("expected", 0.5), ("upper", 0.95))
    }
    return record | curves


def main() -> None:
    """Measure or print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("measure", "tables"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--part", choices=("choose", "report"), default="report")
    parser.add_argument("--populations", help="names with commas (default: all of the part)")
    parser.add_argument("--points", default="fan32,par16", help="names with commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.what == "tables":
        print(tables(json.loads(options.file.read_text())))
        return
    names = CHOOSE if options.part == "choose" else REPORT
    if options.populations:
        names = tuple(options.populations.split(","))
    found = measure(
        options.images,
        names,
        options.points.split(","),
        device=options.device,
        workers=options.workers,
        path=options.json,
    )
    print(tables(found))


if __name__ == "__main__":
    main()
