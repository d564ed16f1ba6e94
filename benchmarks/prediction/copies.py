"""Are altered copies among example images noticed, and are independent images left alone?

    python -m benchmarks.prediction.copies --images DIR [--part choose|report] [--draws 10]
        [--workers 2]

DIR has the populations of benchmarks/prediction/real_images.py. A draw takes images of one
population at random, and makes of 8 of them 16 copies each, altered as a row of the table says:
image noise (in units of the largest pixel), mirroring, quarter turns, shifts (of 32 pixels),
brightness. Printed is the share of draws in which 128 copies count as 6 to 16 images, and, in
brackets, the median count. "Half" has 8 images in 8 copies each beside 64 others, worth 28.4. The
independent images are counted as they are, and with noise: printed is the smallest count of all
draws over their number. Constants were chosen on the part "choose".
"""

import argparse
import os
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.prediction.draws import CHOOSE, REPORT, shuffled
from korisk.prediction.independent import independence

Array = NDArray[np.float64]

DISTINCT, TIMES, HALF = 8, 16, 64
HELD = 6, 16  # images that 8 in copies may count as
ALTERED: dict[str, dict[str, Any]] = {
    "noise 5%": {"noise": 0.05},
    "noise 10%": {"noise": 0.1},
    "mirrored, turned": {"turned": True},
    "shifts to 3": {"shift": 3},
    "brightness 30%": {"brightness": 0.3},
    "all, noise 2%": {"turned": True, "shift": 3, "brightness": 0.2, "noise": 0.02},
    "all, noise 7%": {"turned": True, "shift": 3, "brightness": 0.2, "noise": 0.07},
    "all, noise 10%": {"turned": True, "shift": 3, "brightness": 0.2, "noise": 0.1},
}
INDEPENDENT = ((64, 32, 0.0), (256, 32, 0.0), (64, 16, 0.0), (256, 16, 0.0), (128, 32, 0.05))


def altered(
    image: Array,
    rng: np.random.Generator,
    *,
    noise: float = 0.0,
    turned: bool = False,
    shift: int = 0,
    brightness: float = 0.0,
) -> Array:
    """One altered copy."""
    if turned:
        image = np.rot90(image[:, :: int(rng.choice([-1, 1]))], int(rng.integers(4)))
    image = np.roll(image, rng.integers(-shift, shift + 1, 2), axis=(0, 1))
    image = image * rng.uniform(1 - brightness, 1 + brightness)
    return np.asarray(image + noise * rng.standard_normal(image.shape))


def counts(folder: Path, case: tuple[str, int]) -> dict[str, float]:
    """What the images of one draw of a population count as, by what was done to them."""
    population, draw = case
    every, rng = shuffled(folder, population), np.random.default_rng(draw)
    found = {}
    for name, how in ALTERED.items():
        images = every[rng.choice(len(every), DISTINCT, replace=False)]
        copies = [altered(image, rng, **how) for image in images for _ in range(TIMES)]
        found[name] = independence(np.array(copies)).number
    images = every[rng.choice(len(every), DISTINCT + HALF, replace=False)]
    how = ALTERED["all, noise 7%"]
    copies = [altered(image, rng, **how) for image in images[:DISTINCT] for _ in range(TIMES // 2)]
    others = [altered(image, rng, noise=how["noise"]) for image in images[DISTINCT:]]
    found["half"] = independence(np.array(copies + others)).number
    for count, side, noise in INDEPENDENT:
        images = every[rng.choice(len(every), count, replace=False)]
        size = images.shape[1] // side
        images = images.reshape(count, side, size, side, size).mean(axis=(2, 4))
        images = images + noise * rng.standard_normal(images.shape)
        found[f"{count} of {side} px, noise {noise:.0%}"] = independence(images).number / count
    return found


def rows(names: tuple[str, ...], results: dict[tuple[str, int], Any]) -> Iterator[list[str]]:
    """Of the table: what was done, then every population."""
    yield ["", *names]
    yield ["---"] * (len(names) + 1)
    for kind in next(iter(results.values())):
        cells = []
        for name in names:
            values = np.array(
                [found[kind] for (which, _), found in results.items() if which == name]
            )
            if kind in ALTERED:
                held = np.mean((values >= HELD[0] - 0.5) & (values < HELD[1] + 0.5))
                cells.append(f"{held:.1f} ({np.median(values):.0f})")
            else:
                cells.append(
                    f"{np.median(values):.0f}" if kind == "half" else f"{values.min():.2f}"
                )
        yield [kind, *cells]


def main() -> None:
    """Draw, count, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--part", choices=("choose", "report"), default="report")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = CHOOSE if options.part == "choose" else REPORT
    cases = [(name, draw) for name in names for draw in range(options.draws)]
    os.environ["OMP_NUM_THREADS"] = "1"
    with get_context("spawn").Pool(options.workers) as pool:
        found = pool.map(partial(counts, options.images), cases, chunksize=1)
    for row in rows(names, dict(zip(cases, found, strict=True))):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
