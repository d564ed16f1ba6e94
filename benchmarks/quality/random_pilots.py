"""Answers that contradict each other, over random pilots.

    python -m benchmarks.quality.random_pilots --pilots 300
    python -m benchmarks.quality.random_pilots --pilots 10000

Of each pilot, by the forecast and by the paper's recipe: errors and a target that are both scaled
take as many samples, and an easier target takes no more. By the forecast, to be surer takes no
fewer, and even odds lie inside the range. The order of rows changes nothing, because a shuffled
pilot is the same curve to the last bit. It exits with 1 if any of them is broken, and prints the
pilots.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from time import process_time

import numpy as np

import korisk as kr
from korisk.errors import UnreachableError
from korisk.theory import RiskLine

LEVELS = (0.5, 0.8, 0.9, 0.95)
SLACK = 1.01  # between two ways to the same number: rounding to whole samples, and of sums


def pilot(rng: np.random.Generator) -> tuple[kr.Curve, float]:
    """A power law with or without a floor, seeds with noise, and a target around its end."""
    sizes = np.unique(np.round(2 ** rng.uniform(2, 10) * 2.0 ** np.arange(rng.integers(3, 8))))
    seeds = int(rng.integers(1, 6))
    rate, floor, noise = (
        rng.uniform(0, 1.2),
        rng.choice([0, rng.uniform(0, 0.5)]),
        rng.uniform(0, 0.2),
    )
    means = 10 ** rng.uniform(-4, 1) * ((sizes / sizes[0]) ** -rate + floor)
    n, seed = np.repeat(sizes.astype(int), seeds), np.tile(np.arange(seeds), len(sizes))
    errors = np.repeat(means, seeds) * np.exp(noise * rng.standard_normal(len(n)))
    target = float(means[-1] * 2 ** rng.uniform(-1.5, 0.5))
    return kr.Curve(n, errors, seed=seed), target


def of_recipe(recipe: RiskLine, target: float) -> float:
    """How many samples are enough by the paper's recipe; infinity below its floor."""
    try:
        return recipe.samples(target)
    except UnreachableError:
        return math.inf


def differ(a: float, b: float) -> bool:
    """Whether two numbers of samples differ by more than rounding."""
    return a != b and max(a, b) > SLACK * min(a, b) + 1


def contradictions(curve: kr.Curve, target: float, rng: np.random.Generator) -> Iterator[str]:
    """The laws that answers about a pilot break."""
    order = rng.permutation(len(curve))
    values = curve.unit.from_error(curve.error)
    shuffled = kr.Curve(curve.n[order], values[order], seed=[curve.seed[row] for row in order])
    if shuffled != curve:
        yield "the order of rows"
    factor, easier = 10 ** rng.uniform(-2, 2), target * rng.uniform(1.01, 2)
    scaled = kr.Curve(curve.n, values * factor, seed=curve.seed)
    forecast, of_scaled = kr.forecast(curve), kr.forecast(scaled)
    plan, same, lighter = (
        forecast.plan(target),
        of_scaled.plan(target * factor),
        forecast.plan(easier),
    )
    needed = [plan.samples(sure) or math.inf for sure in LEVELS]
    if needed != sorted(needed):
        yield f"levels {dict(zip(LEVELS, needed, strict=True))}"
    for sure, before in zip(LEVELS, needed, strict=True):
        after, of_easier = (other.samples(sure) or math.inf for other in (same, lighter))
        if differ(before, after):
            yield f"scaling: {before} and {after} at {sure}"
        if of_easier > before:
            yield f"easier target: {of_easier} instead of {before} at {sure}"
    if plan.even is not None and not plan.lower <= plan.even <= plan.upper:
        yield f"even odds at {plan.even}, outside {plan.lower} to {plan.upper}"
    recipe = kr.calibrate(curve)
    before, after = of_recipe(recipe, target), of_recipe(kr.calibrate(scaled), target * factor)
    if differ(before, after):
        yield f"scaling by the recipe: {before} and {after}"
    if of_recipe(recipe, easier) > before:
        yield f"easier target by the recipe: {of_recipe(recipe, easier)} instead of {before}"


def main() -> None:
    """Count the pilots with contradictory answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first pilot")
    options = parser.parse_args()
    broken = 0
    for number in range(options.first, options.first + options.pilots):
        rng = np.random.default_rng([options.seed, number])
        curve, target = pilot(rng)
        if found := list(contradictions(curve, target, rng)):
            broken += 1
            print(f"pilot {number}, target {target:.4g}: {'; '.join(found)}", flush=True)
    print(
        f"{broken} of {options.pilots} pilots have answers that contradict each other "
        f"({process_time():.0f} s of CPU)"
    )
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
