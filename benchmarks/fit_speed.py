"""How fast 2,000 resamples of a six-point pilot are fitted, against scipy's curve_fit in a loop.

Both in one run on the same resamples, in turn. The rival starts from the values that generated the
data, which nobody has in practice.
"""

import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning, curve_fit

from korisk.curves.families import FAMILIES, fit

Array = NDArray[np.float64]

N = np.array([16.0, 32, 64, 128, 256, 512])
RESAMPLES = 2_000
ROUNDS = 5


def law(x: Array, c: float, a: float, b: float) -> Array:
    """c + a N^-b."""
    return np.asarray(c + a * x**-b)


def by_scipy(errors: Array) -> None:
    """One curve_fit for each resample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        for row in errors:
            curve_fit(law, N, row, p0=(0.02, 0.5, 0.5), bounds=([0, 0, 0], [9, 99, 1]), sigma=row)


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
    rival = seconds(lambda: by_scipy(errors))
    print(f"curve_fit of c + a N^-b in a loop: {rival:.2f} s for {RESAMPLES:,} resamples")
    for family in FAMILIES.values():
        times = [seconds(lambda f=family: fit(f, N, errors, weights)) for _ in range(ROUNDS)]  # type: ignore[misc]
        ours = statistics.median(times)
        print(f"{family.name:14s} {ours:6.3f} s, {rival / ours:5.0f} times as fast as curve_fit")


if __name__ == "__main__":
    main()
