"""Samples with a known operator beside samples without, error by error.

    python -m benchmarks.networks.saved     # what results/saved.txt keeps for the docs

Of every setting of data/imaging.csv (benchmarks/planner/imaging.py): the U-Net behind the known
operator and the same U-Net behind a dense layer that has to be learned; and learned weights in
front of the operator beside the dense layer alone. All have the same recipe and N = 2 to 4,096. For
the error that the network with the operator has at N = 4, 32 and 128, the N at which the other has
it too, between measured sizes, with a 90% interval over resampled seeds. Where the other never
does, N is "more than" the largest. Then again with the largest N halved: what is not "more than"
should not move.

`rivals` reads results/worth64.csv (benchmarks/networks/worth64.py): 64 x 64 pixels, patients, rates
tuned for each network, from N = 0 on. There the dense network is, at each N, the one with the lower
test error of two: the layer with the U-Net, and the layer alone in closed form.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import table
from benchmarks.rows import read

Array = NDArray[np.float64]

DATA = Path(__file__).parents[1] / "data" / "imaging.csv"
WORTH = Path(__file__).parents[1] / "results" / "worth64.csv"
PAIRS = {"U-Net": ("unet", "dense-unet"), "linear": ("weights", "dense")}
WITH = (4, 32, 128)  # samples with the operator
DRAWS = 400  # of seeds
DENSE = {"dense-unet": "dense layer + U-Net", "ridge": "dense layer alone"}
NAMES = {
    "ct": "CT",
    "mri": "MRI",
    "deblur": "deblurring",
    "inpaint": "inpainting",
    "denoise": "denoising",
    "radial": "MRI, radial",
    "cone": "CT, cone beam",
    "motion": "CT, known motion",
    "pde": "advection and diffusion",
}
Key = tuple[str, str, str, str]  # problem, population, noise, recipe


class Saved(NamedTuple):
    """What the other network needs for the error at one N."""

    n: float  # infinite where it never has it
    low: float
    high: float


def tables_of_errors(path: Path = DATA) -> dict[Key, dict[str, tuple[Array, Array]]]:
    """Sizes, and errors (sizes, seeds), of every network of a setting."""
    rows: dict[Key, dict[str, dict[int, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in read(path):
        key = (row["problem"], row["population"], row["noise"], row["recipe"])
        rows[key][row["network"]][int(row["n"])].append(float(row["error"]))
    return {
        key: {
            network: (
                np.array(sorted(by_size), float),
                np.array([by_size[n] for n in sorted(by_size)]),
            )
            for network, by_size in networks.items()
        }
        for key, networks in rows.items()
    }


def needed(sizes: Array, means: Array, error: float) -> float:
    """The N at which a curve has an error, by a line between logarithms; infinite beyond it."""
    falling = np.minimum.accumulate(means)
    if falling[-1] > error:
        return math.inf
    n = np.interp(-math.log(error), -np.log(falling), np.log(sizes))
    return float(np.exp(n))


def saved(known: tuple[Array, Array], other: tuple[Array, Array], n: int, largest: float) -> Saved:
    """What another network needs for the error of the first at n, from sizes up to the largest."""
    inside = other[0] <= largest
    sizes, errors = other[0][inside], other[1][inside]
    known_errors = known[1][known[0] == n]

    def samples(of_known: Array, of_other: Array) -> float:
        return needed(sizes, of_other.mean(1), float(of_known.mean()))

    return over_seeds(samples, known_errors, errors)


def matched(known: tuple[Array, Array], other: tuple[Array, Array]) -> Saved:
    """The N with which the first network has the error that another has at its largest N."""
    untrained = int(known[0][0] == 0)

    def samples(of_known: Array, of_other: Array) -> float:
        means, error = of_known.mean(1), float(of_other.mean())
        if untrained and means[0] <= error:
            return 0.0
        return needed(known[0][untrained:], means[untrained:], error)

    return over_seeds(samples, known[1], other[1][-1:])


def overtaken(known: tuple[Array, Array], other: tuple[Array, Array]) -> Saved:
    """The N from which on another network has the smaller error, where both are measured."""
    sizes = np.intersect1d(known[0][known[0] > 0], other[0])

    def samples(of_known: Array, of_other: Array) -> float:
        ahead = np.log(of_known.mean(1) / of_other.mean(1))  # above zero: the other is ahead
        behind = np.flatnonzero(ahead <= 0)
        if len(behind) == 0:
            return float(sizes[0])
        last = int(behind[-1])
        if last == len(sizes) - 1:
            return math.inf
        part = -ahead[last] / (ahead[last + 1] - ahead[last])
        return float(sizes[last] ** (1 - part) * sizes[last + 1] ** part)

    return over_seeds(samples, *(errors[np.isin(n, sizes)] for n, errors in (known, other)))


def meeting(known: tuple[Array, Array], other: tuple[Array, Array]) -> Saved:
    """The N at which the curves meet, drawn on as power laws from the last two sizes."""
    before, last = other[0][-2:]

    def samples(of_known: Array, of_other: Array) -> float:
        first, then = np.log(of_other.mean(1) / of_known.mean(1))
        shrinks = first > then
        return float(last * (last / before) ** (then / (first - then))) if shrinks else math.inf

    return over_seeds(samples, known[1][-2:], other[1][-2:])


def over_seeds(samples: Callable[[Array, Array], float], known: Array, other: Array) -> Saved:
    """A number of samples from errors (sizes, seeds), with 90% of resampled seeds."""
    draws = np.random.default_rng(0)
    values = []
    for _ in range(DRAWS):
        of_known = draws.integers(known.shape[1], size=known.shape[1])
        of_other = draws.integers(other.shape[1], size=other.shape[1])
        values.append(samples(known[:, of_known], other[:, of_other]))
    low, high = np.quantile(values, (0.05, 0.95), method="nearest")
    return Saved(samples(known, other), float(low), float(high))


def text(found: Saved, largest: float) -> str:
    """N with its interval."""
    if math.isinf(found.n):
        least = f" (at least {found.low:,.0f})" if math.isfinite(found.low) else ""
        return f"more than {largest:,.0f}{least}"
    high = f"{found.high:,.0f}" if math.isfinite(found.high) else f"more than {largest:,.0f}"
    return f"{found.n:,.0f} ({found.low:,.0f} to {high})"


def summary(values: Sequence[float], largest: float) -> str:
    """The median of N over settings, and the smallest and the largest where they differ."""
    ordered = sorted(values)
    middle = ordered[(len(ordered) - 1) // 2]
    ends = [
        f"more than {largest:,.0f}" if math.isinf(n) else f"{n:,.0f}"
        for n in (middle, ordered[0], ordered[-1])
    ]
    return ends[0] if ends[1] == ends[2] else f"{ends[0]} ({ends[1]} to {ends[2]})"


def tables() -> Iterator[str]:
    """The tables for the docs."""
    settings = tables_of_errors()
    moved = compared = curves = 0
    for title, (first, second) in PAIRS.items():
        by_problem: dict[str, list[list[Saved]]] = defaultdict(list)
        rows, overtaken = [], defaultdict(list)
        for key, networks in sorted(settings.items()):
            if not {first, second} <= set(networks):
                continue
            known, other = networks[first], networks[second]
            largest = float(other[0][-1])
            curves += 2
            found = [saved(known, other, n, largest) for n in WITH]
            for n, whole in zip(WITH, found, strict=True):
                half = saved(known, other, n, largest / 2)
                if math.isfinite(half.n):
                    compared += 1
                    moved += not whole.low <= half.n <= whole.high
            by_problem[key[0]].append(found)
            overtaken[key[0]].append(bool(other[1][-1].mean() < known[1][-1].mean()))
            name = f"{NAMES[key[0]]}, {key[1].replace('_', ' ')}, noise {key[2]}, {key[3]}"
            rows.append([name, *(text(each, largest) for each in found)])
        heads = [f"as with {n} with the operator" for n in WITH]
        yield f"### {title}, by problem\n"
        body = [
            [
                NAMES[problem],
                str(len(found)),
                *(summary([each[at].n for each in found], largest) for at in range(len(WITH))),
                f"{sum(overtaken[problem])} of {len(found)}",
            ]
            for problem, found in by_problem.items()
        ]
        last = f"ahead at N = {largest:,.0f} without"
        yield table(body, ["", "settings", *heads, last])
        yield f"\n### {title}, every setting\n"
        yield table(rows, ["", *heads]) + "\n"
    yield "### The grid\n"
    yield (
        f"{curves} curves. With the largest N halved, {moved} of {compared} numbers that are still "
        "measured leave their 90% interval."
    )


def rivals(
    path: Path = WORTH,
) -> Iterator[tuple[str, str, tuple[Array, Array], tuple[Array, Array]]]:
    """Each problem with its best dense network, the known operator's curve, and the best's."""
    dense: dict[str, dict[float, list[tuple[float, str, Array]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    known = dict[str, tuple[Array, Array]]()
    for (problem, *_), networks in tables_of_errors(path).items():
        known |= {problem: networks["unet"]} if "dense-unet" in networks else {}
        for network, (sizes, errors) in networks.items():
            for n, each in zip(sizes, errors, strict=True):
                if network in DENSE and n > 0:  # an untrained dense layer is no rival
                    dense[problem][n].append((float(each.mean()), DENSE[network], each))
    for problem, curve in known.items():
        best = [min(dense[problem][n], key=lambda each: each[0]) for n in sorted(dense[problem])]
        errors = np.array([each[2] for each in best])
        yield problem, best[-1][1], curve, (np.array(sorted(dense[problem])), errors)


def fair_row(
    name: str, rival: str, known: tuple[Array, Array], dense: tuple[Array, Array]
) -> list[str]:
    """A row of the table of fair rivals: errors in thousandths, and N."""
    largest = float(dense[0][-1])
    errors = (f"{1e3 * each[1][-1].mean():.3g}" for each in (dense, known))
    found = matched(known, dense)
    needs = "at most 1" if found.high == 1 else text(found, largest)  # 1 is the smallest N
    return [name, f"{rival}, N = {largest:,.0f}", *errors, needs]


FAIR = [
    "",
    "best dense network",
    "its error",
    "known operator at that N",
    "known operator has that error at N =",
]


if __name__ == "__main__":
    print("\n".join(tables()))
