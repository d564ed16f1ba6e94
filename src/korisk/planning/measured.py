"""Inside the pilot, measurements speak: the error between measured sizes, and when a target is met.

At a measured N the law of the log error is normal around the mean that was measured there, with the
variance that the seeds tell. Between two neighbours the curve falls from one to the other; the part
F of the fall that lies behind it at a share t of the way (in log N) has the law of a Dirichlet
process, Eq. (eq:between),

    F ~ Beta(a t, a (1 - t)),

whose concentration a is large where the slopes of neighbouring gaps agree, which is a nearly
straight line, and small where this gap falls much faster than its neighbours: then the curve steps
somewhere in between and nobody knows where. For a step, t is replaced by Jeffreys' law of its
place, (2 / pi) arcsin(sqrt(t)), which leaves the whole gap possible.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.planning.law import Law, normals

Array = NDArray[np.float64]

_NODES = (np.arange(16) + 0.5) / 16  # quantiles that stand for the law of F
_SMOOTHEST = 400.0  # largest concentration
_ROUGHEST = 0.02  # smallest one
_LEAST_NOISE = 1e-5  # of a mean, relative


@dataclass(frozen=True, eq=False)
class Measured:
    """The means of a pilot, with what lies between them, Eq. (eq:between).

    `noise` is the relative deviation of a mean for pilots of one seed each.
    """

    curve: Curve
    noise: float

    @cached_property
    def _at(self) -> Array:
        return np.asarray(np.log(self.curve.sizes.astype(float)))

    @cached_property
    def _logs(self) -> Array:
        return np.asarray(np.log(self.curve.means))

    @cached_property
    def _variance(self) -> Array:
        found = relative_variance(self.curve)
        if found is None:
            found = np.full(len(self._at), self.noise**2)
        return np.maximum(found, _LEAST_NOISE**2)

    @cached_property
    def _lasting(self) -> NDArray[np.intp]:
        """(K,) for each size, the size from there on whose mean is the largest."""
        found = np.arange(len(self._at))
        for index in range(len(found) - 2, -1, -1):
            if self._logs[found[index + 1]] > self._logs[index]:
                found[index] = found[index + 1]
        return found

    def law(self, n: Array) -> Law:
        """The law of the log error at each N from the pilot's first to its last."""
        return self._between(n, self._logs, self._variance)

    def lasting(self, n: Array) -> Law:
        """The law of the largest log error from each N on: a target it is below stays met."""
        return self._between(n, self._logs[self._lasting], self._variance[self._lasting])

    def crossing(self, goal: float) -> tuple[float, int, int] | None:
        """N from which on the means stay at or below an error, and the measured N on either side.

        In a straight line between neighbours, logarithm over logarithm. None where the last mean
        is above it; the first size twice where all means are below.
        """
        lasting, level = self._logs[self._lasting], np.log(goal)
        if lasting[-1] > level:
            return None
        after = int(np.argmax(lasting <= level))
        sizes = self.curve.sizes
        if after == 0:
            return float(sizes[0]), int(sizes[0]), int(sizes[0])
        part = (lasting[after - 1] - level) / (lasting[after - 1] - lasting[after])
        where = self._at[after - 1] + part * (self._at[after] - self._at[after - 1])
        return float(np.exp(where)), int(sizes[after - 1]), int(sizes[after])

    def middle(self, n: Array) -> Array:
        """(M,) the log error at each N in a straight line between neighbouring means."""
        return np.interp(np.log(n), self._at, self._logs)

    def _between(self, n: Array, logs: Array, variance: Array) -> Law:
        from scipy.special import betaincinv

        where = np.log(n)
        gap = np.clip(np.searchsorted(self._at, where, side="right") - 1, 0, len(logs) - 2)
        share = (where - self._at[gap]) / (self._at[gap + 1] - self._at[gap])
        share = np.clip(share, 0.0, 1.0)
        concentration = self._concentration(logs)[gap]
        step = 1.0 / (1.0 + concentration)
        share = (1 - step) * share + step * 2 / np.pi * np.arcsin(np.sqrt(share))
        inner = np.clip(share, 1e-9, 1 - 1e-9)
        part = betaincinv(concentration * inner, concentration * (1 - inner), _NODES[:, None])
        part = np.where((share <= 0) | (share >= 1), share, part)  # (Q, M)
        mean = (1 - part) * logs[gap] + part * logs[gap + 1]
        spread = (1 - part) ** 2 * variance[gap] + part**2 * variance[gap + 1]
        weight = np.full(len(_NODES), 1.0 / len(_NODES))
        return normals(weight, mean, np.sqrt(spread))

    def _concentration(self, logs: Array) -> Array:
        """(K - 1,) of the gaps: by how far slopes differ from those of the gaps beside them."""
        slope = np.diff(logs) / np.diff(self._at)
        bend = np.abs(np.diff(slope))
        beside = np.maximum(np.append(0.0, bend), np.append(bend, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            rough = np.where(beside > 0, beside / np.abs(slope), 0.0)
        # Half way, F deviates by 1 / (2 sqrt(a + 1)): half a fall for a step, next to none if
        # straight.
        deviation = np.clip(0.5 * rough, 1e-3, 0.5)
        return np.clip((0.5 / deviation) ** 2 - 1.0, _ROUGHEST, _SMOOTHEST)
