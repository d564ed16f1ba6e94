"""What a pilot says of sizes that were not measured: the error to expect, and how surely."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk.curves.band import PooledBand, pooled_band
from korisk.curves.calibrate import (
    CURVE_METHODS,
    LEAST_SIZES,
    Calibration,
    calibrate,
    check_curve,
    sample_counts,
)
from korisk.curves.curve import LARGEST_N, Curve
from korisk.curves.posterior import HORIZON, Posterior, posterior
from korisk.theory._checks import count, one_of

Array = NDArray[np.float64]
Reached = Callable[[Array], NDArray[np.bool_]]

DEFAULT_METHOD = "posterior"
_PER_DOUBLING = 4


@dataclass(frozen=True)
class Expectation:
    """The error to expect at N and its 90% band, in the user's unit; lower <= upper.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> then = kr.plan(pilot, target=0.005).at(1024)
    >>> then.n, round(then.error, 4), then.lower < then.error < then.upper
    (1024, 0.0031, True)
    """

    n: int
    error: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Forecast:
    """A pilot, carried on. All errors are in the unit of errors unless said otherwise.

    Made by `forecast`. N may run up to `horizon`, ten thousand times the pilot's largest.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = kr.forecast(pilot)
    >>> made.last, made.horizon
    (256, 2560000)
    >>> round(made.at(512).error, 5), made.at(1024).upper < 0.005
    (0.00625, True)
    """

    curve: Curve
    method: str

    @cached_property
    def posterior(self) -> Posterior:
        """The grid posterior; probabilities come from it whatever the method."""
        return posterior(self.curve)

    @cached_property
    def calibration(self) -> Calibration:
        """The fitted curve."""
        return calibrate(self.curve, self.method)

    @cached_property
    def _band(self) -> PooledBand:
        return pooled_band(self.calibration)

    @property
    def last(self) -> int:
        """The largest N of the pilot."""
        return int(self.curve.sizes[-1])

    @property
    def horizon(self) -> int:
        """The largest N of which anything is said."""
        return min(int(HORIZON * self.last), LARGEST_N)

    def middle(self, n: ArrayLike) -> Array:
        """(M,) the error to expect at each of M sizes N."""
        n = np.atleast_1d(sample_counts(n))
        if self.method == DEFAULT_METHOD:
            return self.posterior.quantile(n, 0.5)
        return self.calibration.predict(n)

    def band(self, n: ArrayLike) -> tuple[Array, Array]:
        """(M,) the lower and upper end of the 90% band at each of M sizes N."""
        n = np.atleast_1d(sample_counts(n))
        if self.method == DEFAULT_METHOD:
            return self.posterior.quantile(n, 0.05), self.posterior.quantile(n, 0.95)
        return self._band.at(n)

    def at(self, n: float) -> Expectation:
        """The error to expect at N, in the user's unit.

        With its 90% band. N beyond the horizon raises `KoriskError`.
        """
        count = self.sample_count(n)
        where = np.array([float(count)])
        ends = np.concatenate([self.middle(where), *self.band(where)])
        error, *band = self.curve.unit.from_error(ends).tolist()
        return Expectation(count, error, min(band), max(band))

    def sample_count(self, n: object) -> int:
        """N, if it is a number of samples of which the forecast speaks."""
        remedy = "a pilot says nothing of N beyond 10,000 times its largest"
        return count("n", n, at_least=2, at_most=self.horizon, remedy=remedy)

    def first(self, reached: Reached, *, start: int | None = None) -> int | None:
        """The smallest N, from the pilot's first (or `start`) to the horizon, with `reached`."""
        start, end = start or int(self.curve.sizes[0]), self.horizon
        doublings = math.log2(end / start)
        grid = np.unique(
            np.round(start * 2.0 ** np.linspace(0, doublings, 2 + int(_PER_DOUBLING * doublings)))
        )
        found = reached(grid)
        if not found.any():
            return None
        position = int(np.argmax(found))
        if position == 0:
            return start
        low, high = int(grid[position - 1]), int(grid[position])
        while high - low > 1:  # not reached at low, reached at high
            inner = np.unique(np.linspace(low, high, 18).round())[1:-1]
            hits = reached(inner)
            index = int(np.argmax(hits)) if hits.any() else len(inner)
            low, high = (
                int(inner[index - 1]) if index else low,
                int(inner[index]) if index < len(inner) else high,
            )
        return high


def forecast(curve: Curve, *, method: str = DEFAULT_METHOD) -> Forecast:
    """Carry a pilot on beyond its largest N, by one of `CURVE_METHODS`.

    The default is a posterior over many curves, which tells what is likely; other methods carry on
    one fitted curve. Like `calibrate`, it needs two or three sizes, or `KoriskError` is raised.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = kr.forecast(pilot)
    >>> round(made.at(512).error, 5)
    0.00625
    """
    one_of("method", method, CURVE_METHODS)
    check_curve(curve)
    curve.require(LEAST_SIZES.get(method, 3), "a forecast")
    return Forecast(curve, method)
