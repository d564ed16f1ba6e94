"""How fast plans and fits are, against scipy's curve_fit in a loop, in one run.

First 2,000 resamples of a six-point pilot, medians of three. The rival starts from the values that
generated the data, which nobody has in practice; free, it may leave c >= 0 and b <= 1. Then whole
plans, of a pilot of 6 sizes with 5 seeds and of one of 71 sizes, against the time that the rival
takes for a bootstrap of 200 resamples of the first pilot: what a careful tutorial would do.
"""

import contextlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning, curve_fit

from korisk.curves.curve import Curve
from korisk.planning.fit import FAMILIES, least_squares
from korisk.planning.plan import plan

Array = NDArray[np.float64]

N = np.array([16.0, 32, 64, 128, 256, 512])
RESAMPLES = 2_000


def law(x: Array, c: float, a: float, b: float) -> Array:
    """c + a N^-b."""
    return np.asarray(c + a * x**-b)


def by_scipy(errors: Array, *, bounded: bool) -> None:
    """One curve_fit for each resample, free (Levenberg-Marquardt) or within our bounds."""
    limits: dict[str, Any] = {"bounds": ([0, 0, 0], [9, 99, 1])} if bounded else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        for row in errors:
            with contextlib.suppress(RuntimeError):  # no convergence
                curve_fit(law, N, row, p0=(0.02, 0.5, 0.5), sigma=row, **limits)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Print the times of each family and the ratio to the rival."""
    rng = np.random.default_rng(0)
    errors = law(N, 0.02, 0.5, 0.5) * np.exp(0.05 * rng.standard_normal((RESAMPLES, len(N))))
    weights = 1 / errors.mean(axis=0) ** 2
    rivals = {
        "free": lambda: by_scipy(errors, bounded=False),
        "bounded": lambda: by_scipy(errors, bounded=True),
    }
    ours = {
        name: partial(least_squares, family, N, errors, weights)
        for name, family in FAMILIES.items()
    }
    times = {name: median(seconds(work) for _ in range(3)) for name, work in rivals.items()}
    for name, taken in times.items():
        print(f"curve_fit of c + a N^-b in a loop, {name}: {taken:.2f} s for {RESAMPLES:,}")
    for name, work in ours.items():
        taken = median(seconds(work) for _ in range(3))
        ratios = " and ".join(f"{times[rival] / taken:.0f} ({rival})" for rival in rivals)
        print(f"{name:14s} {taken:6.3f} s, as fast as curve_fit times {ratios}")
    rival = median(seconds(lambda: by_scipy(errors[:200], bounded=True)) for _ in range(3))
    print(f"a bootstrap of 200 curve_fit (bounded): {rival:.2f} s")
    for sizes, pilots in planned(rng).items():
        plan(pilots[0], 0.9 * float(pilots[0].means[-1]))  # imports and caches
        taken = median(
            seconds(partial(plan, pilot, 0.9 * float(pilot.means[-1]))) for pilot in pilots[1:]
        )
        ratio = f"as fast as the bootstrap times {rival / taken:.0f}"
        print(f"plan, {sizes:2d} sizes  {taken:6.3f} s, {ratio}")


def planned(rng: np.random.Generator) -> dict[int, list[Curve]]:
    """Pilots of 6 sizes with 5 seeds, and of 71 sizes with one; no two alike."""
    labels = [str(seed) for seed in range(5)] * len(N)
    many = np.unique(np.geomspace(1e6, 1e9, 71).astype(np.int64))
    few = law(N, 0.02, 0.5, 0.5)[:, None]
    long = law(many / 1e6, 0.3, 0.5, 0.4)
    return {
        6: [
            Curve(np.repeat(N, 5), (few * np.exp(0.05 * rng.normal(size=(6, 5)))).ravel(), labels)
            for _ in range(6)
        ],
        71: [Curve(many, long * np.exp(0.003 * rng.normal(size=71))) for _ in range(6)],
    }


if __name__ == "__main__":
    main()
