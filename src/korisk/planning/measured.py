"""The law of the error inside a pilot, where the measured means decide.

At a measured N the log error is normal around the
measured mean, with the variance estimated from the seeds. Between two neighbouring sizes the curve
falls from one mean to the next; the fraction F of the fall that is complete at a share t of the way
(in log N) follows a Dirichlet process, Eq. (eq:between),

    F ~ Beta(a t, a (1 - t)).

Its concentration a is large where the slopes of neighbouring gaps agree: the curve is nearly
straight. It is small where this gap falls much faster than its neighbours: the curve has a step at
an unknown place. For a step, t is replaced by Jeffreys' law of its place,
(2 / pi) arcsin(sqrt(t)), which allows the whole gap.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.planning.futures.law import Law, normals

Array = NDArray[np.float64]

_NODES = (np.arange(16) + 0.5) / 16  # levels of the quantiles that represent the law of F
_SMOOTHEST = 400.0  # largest concentration
_ROUGHEST = 0.02  # smallest concentration
_LEAST_NOISE = 1e-5  # of a mean, relative: seeds that agree exactly still have rounding


@dataclass(frozen=True, eq=False)
class Measured:
    """The law of the error inside a pilot: measured means, and Eq. (eq:between) between them.

    `noise` is the relative deviation of a mean for pilots with one seed at every N.
    """

    curve: Curve
    noise: float

    @cached_property
    def _log_n(self) -> Array:
        return np.asarray(np.log(self.curve.sizes.astype(float)))

    @cached_property
    def _logs(self) -> Array:
        return np.asarray(np.log(self.curve.means))

    @cached_property
    def _variance(self) -> Array:
        variance = relative_variance(self.curve)
        if variance is None:
            variance = np.full(len(self._log_n), self.noise**2)
        return np.maximum(variance, _LEAST_NOISE**2)

    @cached_property
    def _lasting(self) -> NDArray[np.intp]:
        """(K,) for each size, the index of the largest mean from that size on."""
        # From the last size backward: the larger of this mean and the largest after it.
        largest = np.arange(len(self._log_n))
        for index in range(len(largest) - 2, -1, -1):
            if self._logs[largest[index + 1]] > self._logs[index]:
                largest[index] = largest[index + 1]
        return largest

    def law(self, n: Array) -> Law:
        """The law of the log error at each N inside the pilot."""
        return self._between(n, self._logs, self._variance)

    def lasting(self, n: Array) -> Law:
        """The law of the largest log error from each N on: a target above it stays met."""
        return self._between(n, self._logs[self._lasting], self._variance[self._lasting])

    def crossing(self, goal: float) -> tuple[float, int, int] | None:
        """The N from which on the means stay at or below an error, and the measured N around it.

        Interpolated linearly in log error over log N. None where the last mean is above the error;
        where all means are below, the first size three times.
        """
        lasting, level = self._logs[self._lasting], np.log(goal)
        if lasting[-1] > level:
            return None
        after = int(np.argmax(lasting <= level))
        sizes = self.curve.sizes
        if after == 0:
            return float(sizes[0]), int(sizes[0]), int(sizes[0])
        fraction = (lasting[after - 1] - level) / (lasting[after - 1] - lasting[after])
        log_n = self._log_n[after - 1] + fraction * (self._log_n[after] - self._log_n[after - 1])
        return float(np.exp(log_n)), int(sizes[after - 1]), int(sizes[after])

    def middle(self, n: Array) -> Array:
        """(M,) the log error at each N, interpolated linearly in log N."""
        return np.interp(np.log(n), self._log_n, self._logs)

    def _between(self, n: Array, logs: Array, variance: Array) -> Law:
        from scipy.special import betaincinv

        log_n = np.log(n)
        gap = np.clip(np.searchsorted(self._log_n, log_n, side="right") - 1, 0, len(logs) - 2)
        share = (log_n - self._log_n[gap]) / (self._log_n[gap + 1] - self._log_n[gap])
        share = np.clip(share, 0.0, 1.0)
        # Relative difference of each gap's slope from those of its neighbours, (K - 1,).
        slope = np.diff(logs) / np.diff(self._log_n)
        bend = np.abs(np.diff(slope))
        beside = np.maximum(np.append(0.0, bend), np.append(bend, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            rough = np.where(beside > 0, beside / np.abs(slope), 0.0)
        # Half way, F has the deviation 1 / (2 sqrt(a + 1)): one half for a step, near zero for a
        # straight line. Solve for the concentration a.
        deviation = np.clip(0.5 * rough, 1e-3, 0.5)
        concentration = np.clip((0.5 / deviation) ** 2 - 1.0, _ROUGHEST, _SMOOTHEST)[gap]
        step = 1.0 / (1.0 + concentration)
        # Jeffreys' law of the place of a step, mixed in where the concentration is small.
        share = (1 - step) * share + step * 2 / np.pi * np.arcsin(np.sqrt(share))
        inner = np.clip(share, 1e-9, 1 - 1e-9)  # the beta law is not defined at a measured N
        fallen = betaincinv(concentration * inner, concentration * (1 - inner), _NODES[:, None])
        fallen = np.where((share <= 0) | (share >= 1), share, fallen)  # (Q, M)
        # Given F, the log error is a weighted sum of two independent normal means.
        mean = (1 - fallen) * logs[gap] + fallen * logs[gap + 1]
        spread = (1 - fallen) ** 2 * variance[gap] + fallen**2 * variance[gap + 1]
        # Quantiles at the midpoints of equal shares of the law of F have equal weights.
        weight = np.full(len(_NODES), 1.0 / len(_NODES))
        return normals(weight, mean, np.sqrt(spread))
