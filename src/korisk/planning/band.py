"""The pooled band: an interval around any fitted curve, as wide as four families disagree."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import RESAMPLES, resampled_means, weights
from korisk.planning.calibrate import AVERAGED, Calibration, Estimates, estimate
from korisk.planning.families import FAMILIES

Array = NDArray[np.float64]

WIDENING = 0.02  # of the logarithm, for every doubling beyond the pilot
STRETCH = 2.1  # chosen on the tuning part of benchmarks/planner.py to hold nine in ten


@dataclass(frozen=True)
class PooledBand:
    """90% of the errors that seeds, drawn again, and four families might have led to, stretched.

    A bootstrap of one family alone is too narrow: it takes the family for true.
    """

    calibration: Calibration
    last: float
    _pooled: tuple[Estimates, ...]

    def at(self, n: Array) -> tuple[Array, Array]:
        """(M,) lower and upper end at each N."""
        middle = self.calibration.predict(n)
        width = self._half_width(n)
        return middle * np.exp(-width), middle * np.exp(width)

    def _half_width(self, n: Array) -> Array:
        predicted = np.concatenate([fits.predict(n) for fits in self._pooled])
        low, high = np.quantile(np.log(predicted), [0.05, 0.95], axis=0)
        beyond = np.maximum(np.log2(n / self.last), 0.0)
        return np.asarray(STRETCH * (0.5 * (high - low) + WIDENING * beyond))


def pooled_band(
    calibration: Calibration, *, resamples: int = RESAMPLES, seed: int = 0
) -> PooledBand:
    """The band around a calibration; the seed makes it the same every time."""
    curve = calibration.curve
    return PooledBand(calibration, float(curve.sizes[-1]), _pooled(curve, resamples, seed))


@lru_cache(maxsize=32)  # some 250 kB each; all fits and targets of a pilot share one
def _pooled(curve: Curve, resamples: int, seed: int) -> tuple[Estimates, ...]:
    rng = np.random.default_rng(seed)
    n, weight = curve.sizes.astype(float), weights(curve)
    means = resampled_means(curve, resamples, rng) if _repeated(curve) else curve.means[None, :]
    names = [name for name in AVERAGED if FAMILIES[name].parameters <= len(n)]
    return tuple(estimate(name, n, means, weight) for name in names)


def _repeated(curve: Curve) -> bool:
    return bool((curve.counts > 1).any())
