"""Answers that contradict each other, over random pilots.

    python -m benchmarks.quality.random_pilots --pilots 300
    python -m benchmarks.quality.random_pilots --pilots 10000

Of each pilot: to be surer takes no fewer samples; the order of rows changes nothing; errors and a
target that are both scaled take as many samples; an easier target takes no more; and even odds lie
inside the range. It exits with 1 if any of them is broken, and prints the pilots.
"""

import argparse
import math
import sys
from collections.abc import Iterator

import numpy as np

import korisk as kr
from korisk.planning.plan import Plan

LEVELS = (0.5, 0.8, 0.9, 0.95)
SLACK = 1.01  # between two ways to the same number: rounding to whole samples, and of sums


def pilot(rng: np.random.Generator) -> tuple[kr.curves.curve.Curve, float]:
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
    return kr.curves.curve.Curve(n, errors, seed=seed), target


def samples(plan: Plan, sure: float) -> float:
    """How many samples are enough; infinity if no number is."""
    return plan.samples(sure) or math.inf


def contradictions(
    curve: kr.curves.curve.Curve, target: float, rng: np.random.Generator
) -> Iterator[str]:
    """The laws that answers about a pilot break."""
    plan = kr.plan(curve, target)
    asked = [samples(plan, sure) for sure in LEVELS]
    if asked != sorted(asked):
        yield f"levels {dict(zip(LEVELS, asked, strict=True))}"
    order = rng.permutation(len(curve))
    seeds = [curve.seed[row] for row in order]
    shuffled = kr.curves.curve.Curve(curve.n[order], curve.error[order], seed=seeds)
    factor = 10 ** rng.uniform(-2, 2)
    scaled = kr.curves.curve.Curve(curve.n, curve.error * factor, seed=curve.seed)
    for name, other in (
        ("order of rows", kr.plan(shuffled, target)),
        ("scaling", kr.plan(scaled, target * factor)),
    ):
        for sure, before in zip(LEVELS, asked, strict=True):
            after = samples(other, sure)
            if not (before == after or max(before, after) <= SLACK * min(before, after) + 1):
                yield f"{name}: {before} and {after} at {sure}"
    easier = kr.plan(curve, target * rng.uniform(1.01, 2))
    for sure, before in zip(LEVELS, asked, strict=True):
        if samples(easier, sure) > before:
            yield f"easier target: {samples(easier, sure)} instead of {before} at {sure}"
    if plan.even is not None and not plan.lower <= plan.even <= plan.upper:
        yield f"even odds at {plan.even}, outside {plan.lower} to {plan.upper}"


def main() -> None:
    """Count the pilots with contradictory answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    broken = 0
    for number in range(options.pilots):
        rng = np.random.default_rng([options.seed, number])
        curve, target = pilot(rng)
        if found := list(contradictions(curve, target, rng)):
            broken += 1
            print(f"pilot {number}, target {target:.4g}: {'; '.join(found)}")
    print(f"{broken} of {options.pilots} pilots have answers that contradict each other")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
