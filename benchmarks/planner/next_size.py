"""Does measuring where `next_size` says narrow the plan more than measuring elsewhere?

Simulated curves floor + scale N^-rate with drawn floor, rate, noise and target. For each, a pilot
of five sizes and five seeds is planned, the next size is suggested among eight, and then all eight
are measured, each alone, and planned again. Narrowing is what log2(upper / lower) of the 90%
interval of N loses, N beyond `near_horizon` of the first plan counted as that. The kept output is
benchmarks/results/next_size.txt.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np

import korisk as kr
from korisk.planning.next_size import next_size

SIZES = (16, 32, 64, 128, 256)
CANDIDATES = (23, 45, 91, 181, 362, 512, 724, 1024)
SEEDS = 5


@dataclass(frozen=True)
class Truth:
    """A curve to draw measurements from."""

    floor: float
    scale: float
    rate: float
    noise: float

    def error(self, n: float) -> float:
        """The error without noise."""
        return float(self.floor + self.scale * n**-self.rate)

    def measured(self, sizes: tuple[int, ...], rng: np.random.Generator) -> kr.Curve:
        """A pilot with noise."""
        n = np.repeat(sizes, SEEDS)
        noise = np.exp(self.noise * rng.standard_normal(len(n)))
        errors = [self.error(float(size)) for size in n]
        return kr.Curve(n, np.array(errors) * noise, list(range(SEEDS)) * len(sizes))


PARTS = {"far": (1.0, 3.0), "near": (-1.0, 1.0)}  # doublings from the pilot's end to the target


def drawn(rng: np.random.Generator, part: str) -> tuple[Truth, float]:
    """A curve, and a target that it meets in this part."""
    rate = rng.uniform(0.3, 0.9)
    last = SIZES[-1] ** -rate
    share = rng.uniform(0.0, 0.6)  # of the last error that no data removes
    truth = Truth(last * share / (1 - share), 1.0, rate, rng.uniform(0.01, 0.08))
    return truth, truth.error(SIZES[-1] * 2 ** rng.uniform(*PARTS[part]))


def width(curve: kr.Curve, target: float, end: int) -> float:
    """log2(upper / lower), as the planner gives it."""
    made = kr.plan(curve, target)
    return math.log2(min(made.upper, end) / min(made.lower, end))


def one(seed: int, part: str) -> tuple[dict[int, float], int, float]:
    """Realised narrowing of each candidate, the suggested one, and what was expected of it."""
    rng = np.random.default_rng([20_261_115, seed])
    truth, target = drawn(rng, part)
    pilot = truth.measured(SIZES, rng)
    end = kr.plan(pilot, target).near_horizon
    before = width(pilot, target, end)
    suggested = next_size(pilot, target, candidates=CANDIDATES)
    found = {
        n: before - width(pilot.merged(truth.measured((n,), rng)), target, end) for n in CANDIDATES
    }
    return found, suggested.n, suggested.narrowing


def report(part: str, curves: int) -> None:
    """Print the table of one part."""
    runs = [one(seed, part) for seed in range(curves)]
    chosen = np.array([found[n] for found, n, _ in runs])
    others = [[gain for n, gain in found.items() if n != best] for found, best, _ in runs]
    median = np.array([np.median(gains) for gains in others])
    low, high = (2**end for end in PARTS[part])
    print(f"Target met at {low:g} to {high:g} times the pilot's last N; {curves} curves\n")
    print("measured at              mean narrowing")
    print(f"the suggested size       {chosen.mean():14.3f}")
    print(f"the median other         {median.mean():14.3f}")
    print(f"the best other, after    {np.mean([max(gains) for gains in others]):14.3f}")
    for n in CANDIDATES:
        print(f"always N = {n:<5}         {np.mean([found[n] for found, *_ in runs]):14.3f}")
    gap = chosen - median
    error = gap.std(ddof=1) / math.sqrt(curves)
    print(f"\nsuggested above the median other: {gap.mean():.3f} +- {error:.3f} (standard error),")
    print(f"for {np.mean(gap > 0):.0%} of the curves")
    print(f"expected of the suggested size: {np.mean([e for *_, e in runs]):.3f}")
    picks = {n: sum(best == n for _, best, _ in runs) for n in CANDIDATES}
    print("suggested how often: " + ", ".join(f"{n}: {k}" for n, k in picks.items() if k) + "\n")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", type=int, default=60)
    curves = parser.parse_args().curves
    print(f"{len(CANDIDATES)} candidates; narrowing in doublings of N\n")
    for part in PARTS:
        report(part, curves)


if __name__ == "__main__":
    main()
