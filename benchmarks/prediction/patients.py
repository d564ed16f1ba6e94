"""Predictions from few patients with many images each, against curves of many patients.

    python -m benchmarks.prediction.patients [--images DIR] [--draws 8] [--json FILE]

Patients are simulated: ellipsoids in a body that is cut into slices, or an image that is warped
smoothly and made brighter and darker ("digits", "clothing", ...; from NAME.npz in DIR, which
benchmarks/prediction/real_images.py makes). Every truth is fitted in closed form with the best
penalty, at N = 4, 8, ..., 1024 images of as many patients, and tested on 1,024 images of as many
others. A prediction sees 32 images each of 4, 8 or 16 patients that neither has; "before" it is not
told whose they are. Printed is the share of true errors within the 90% bands.

Constants were chosen on CHOSEN_ON, with two exceptions: Student's factor, and the deviation of KO's
curves from patients, came after bands of KO had held too little on clothing.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, map_coordinates

from korisk.fitting import DenseRidge, DiagonalRidge
from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.diagonal import tail_gram
from korisk.operators import Composed
from korisk.prediction.api import dense_prediction, known_prediction
from korisk.problems import CtScanner, Gaussian
from korisk.problems.noise import add_noise, noise_variance
from korisk.problems.problem import Examples

Array = NDArray[np.float64]

SIDE, FINE = 16, 2  # pixels, and points along the edge of one
SLICES = 32
PATIENTS = (4, 8, 16)
SIZES = 2 ** np.arange(2, 11)
TESTED = 1024
NOISE = (0.02, 0.1)
CHOSEN_ON = ("ellipsoids", "digits")
IMAGES = {
    "digits": "mnist",
    "clothing": "fashion",
    "heads": "head_ct_a",
    "brains": "brain_mri_b",
    "chests": "chest_ct",
}
_PENALTIES = [10.0**e for e in np.arange(-9, 1.01, 0.5)]


def main() -> None:
    """Simulate, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, help="a folder of NAME.npz; ellipsoids need none")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for kind in ("ellipsoids", *IMAGES):
        file = None if options.images is None else options.images / f"{IMAGES.get(kind)}.npz"
        if kind == "ellipsoids" or (file is not None and file.exists()):
            rows += list(judged(kind, file, options.draws))
            print("\n".join(table([row for row in rows if row["kind"] == kind])), flush=True)
    print("\n".join(table(rows)))
    if options.json is not None:
        options.json.write_text(json.dumps(rows) + "\n")


# --- Patients ------------------------------------------------------------------------------------


def ellipsoids(count: int, slices: int, rng: np.random.Generator) -> Array:
    """(count, slices, SIDE, SIDE): a body with two to five organs, cut at random heights."""
    line = (np.arange(SIDE * FINE) + 0.5) / (SIDE * FINE) * 2 - 1
    found = np.zeros((count, slices, SIDE, SIDE))
    for patient in range(count):
        height = rng.uniform(-0.6, 0.6, slices)
        z, y, x = height[:, None, None], line[None, :, None], line[None, None, :]
        values = np.zeros((slices, len(line), len(line)))
        for organ in range(1 + rng.integers(2, 6)):
            axes = rng.uniform(0.7, 0.95, 3) if organ == 0 else rng.uniform(0.12, 0.4, 3)
            centre = rng.uniform(-0.05, 0.05, 3) if organ == 0 else rng.uniform(-0.45, 0.45, 3)
            turn, tilt = rng.uniform(0, math.pi), rng.uniform(-0.5, 0.5)
            dz, dy, dx = z - centre[2], y - centre[1], x - centre[0] - tilt * (z - centre[2])
            u = math.cos(turn) * dx + math.sin(turn) * dy
            v = math.cos(turn) * dy - math.sin(turn) * dx
            inside = (u / axes[0]) ** 2 + (v / axes[1]) ** 2 + (dz / axes[2]) ** 2 <= 1
            values += (1.0 if organ == 0 else rng.uniform(-0.5, 0.8)) * inside
        found[patient] = area_means(np.maximum(values, 0.0))
    return found


def warped(images: Array, slices: int, rng: np.random.Generator) -> Array:
    """(count, slices, SIDE, SIDE): each image, smoothly bent, brighter or darker."""
    side = images.shape[1]
    grid = np.mgrid[:side, :side].astype(float)
    found = np.empty((len(images), slices, side, side))
    for patient, image in enumerate(images):
        for at in range(slices):
            bent = gaussian_filter(rng.standard_normal((2, side, side)), (0, side / 6, side / 6))
            bent *= rng.uniform(0.0, 0.06) * side / np.sqrt(np.square(bent).mean())
            moved = grid + bent + rng.uniform(-0.03, 0.03, 2)[:, None, None] * side
            found[patient, at] = rng.uniform(0.8, 1.2) * map_coordinates(image, moved, order=1)
    return np.asarray(area_means(found))


def area_means(images: Array) -> Array:
    """(..., SIDE, SIDE) the means of pixels that are a multiple of it."""
    size = images.shape[-1] // SIDE
    return np.asarray(
        images.reshape(*images.shape[:-2], SIDE, size, SIDE, size).mean(axis=(-3, -1))
    )


def of_patients(kind: str, file: Path | None, count: int, slices: int, seed: int) -> Array:
    """Patients `seed`, `seed + 1`, ...: of every image of a file one, of ellipsoids without end."""
    rng = np.random.default_rng(seed)
    if kind == "ellipsoids":
        return ellipsoids(count, slices, rng)
    assert file is not None
    pool = np.load(file)["pool"][seed : seed + count].astype(float) / 255
    return warped(pool, slices, rng)


# --- Truth and prediction ------------------------------------------------------------------------


def judged(kind: str, file: Path | None, draws: int) -> Iterator[dict[str, Any]]:
    """Whether every true error lies in the band, before and after patients are told."""
    scanner = CtScanner(side=SIDE, views=16, bins=24, beam="parallel")
    projector, layers = scanner.projector(torch.device("cpu")), scanner.reconstruction()
    tail = Composed(layers.tail)
    gram = tail_gram(tail)
    fitted, tested = SIZES[-1], TESTED
    alone = of_patients(kind, file, fitted + tested, 1, seed=0)[:, 0]
    for noise in NOISE:
        targets = torch.from_numpy(alone).to(projector.dtype)
        clean = projector(targets)
        inputs = add_noise(clean, Gaussian(noise), width=SIDE, seed=1, stream="truth")
        train, scorer = slice(0, fitted), Scorer(inputs[fitted:], targets[fitted:])
        pairs = inputs[train], targets[train]
        dense = DenseRidge(*pairs, relu=False)
        known = DiagonalRidge(tail, *pairs, toward=layers.weights, relu=False, gram=gram)
        truth: dict[str, list[float]] = defaultdict(list)
        for n in SIZES.tolist():
            for model, ridge, ends in (("FC", dense, []), ("KO", known, [math.inf])):
                fit = ridge.training(n)
                lambdas = [*(fit.scale * each for each in _PENALTIES), *ends]
                truth[model].append(min(fit.scores(scorer)(lambdas)))
        for count in PATIENTS:
            for draw in range(draws):
                first = fitted + tested + (draw * 16) % 1900
                images = of_patients(kind, file, count, SLICES, seed=first)
                latents = torch.from_numpy(images.reshape(-1, SIDE, SIDE)).to(projector.dtype)
                seen = projector(latents)
                noisy = add_noise(seen, Gaussian(noise), width=SIDE, seed=draw, stream="examples")
                variance = noise_variance(seen, Gaussian(noise), width=SIDE)
                whose = tuple(f"patient {each // SLICES}" for each in range(len(latents)))
                for patients in (None, whose):
                    made = Examples(latents, projector, None, noisy, latents, variance, patients)
                    for prediction in (
                        dense_prediction(made, relu=False),
                        known_prediction(made, layers),
                    ):
                        low, high = prediction.band(SIZES)
                        true = np.array(truth[prediction.model])
                        yield {
                            "kind": kind,
                            "noise": noise,
                            "patients": count,
                            "told": patients is not None,
                            "model": prediction.model,
                            "independent": prediction.independent,
                            "inside": ((low <= true) & (true <= high)).tolist(),
                            "off": np.log(prediction.errors(SIZES) / true).tolist(),
                            "width": np.log(high / low).tolist(),
                        }


def part_of(kind: str) -> str:
    """Whether constants were chosen on such patients."""
    return "chosen on" if kind in CHOSEN_ON else "judged on"


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Shares within the bands, by model, patients, and whether they were told."""
    yield "kind | model | patients | worth | before | after | width | off"
    for kind in [*dict.fromkeys(row["kind"] for row in rows), *("chosen on", "judged on")]:
        for model in ("FC", "KO"):
            for count in PATIENTS:
                both = [
                    [
                        row
                        for row in rows
                        if (row["model"], row["patients"], row["told"]) == (model, count, told)
                        and kind in (row["kind"], part_of(row["kind"]))
                    ]
                    for told in (False, True)
                ]
                if both[1]:
                    shares = [np.mean([row["inside"] for row in part]) for part in both]
                    worth = np.median([row["independent"] for row in both[1]])
                    width = np.median([row["width"] for row in both[1]])
                    off = np.sqrt(np.square([row["off"] for row in both[1]]).mean())
                    yield (
                        f"{kind} | {model} | {count} | {worth:.0f} | {shares[0]:.2f} | "
                        f"{shares[1]:.2f} | {width:.2f} | {off:.2f}"
                    )


if __name__ == "__main__":
    main()
