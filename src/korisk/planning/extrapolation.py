"""The error of a pilot at sizes that were not measured: its distribution at every N.

Inside the pilot, the measured means decide. At a measured N the log error is normal around the
measured mean, with the variance estimated from the seeds. Between two neighbouring sizes the curve
falls from one mean to the next; the fraction F of the fall that is complete at a share t of the way
(in log N) follows a Dirichlet process, Eq. (eq:between),

    F ~ Beta(a t, a (1 - t)).

Its concentration a is large where the slopes of neighbouring gaps agree: the curve is nearly
straight. It is small where this gap falls much faster than its neighbours: the curve has a step at
an unknown place. For a step, t is replaced by Jeffreys' law of its place,
(2 / pi) arcsin(sqrt(t)), which allows the whole gap.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._checks import LARGEST_N, count, one_of, require
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.errors import KoriskError, invalid
from korisk.planning.explain import doubt
from korisk.planning.fit import (
    DEFAULT_FIT,
    FITS,
    calibrate,
    check_curve,
    least_sizes,
    sample_counts,
)
from korisk.planning.futures.law import Law, joined, mixed, normals
from korisk.planning.futures.posterior import HORIZON, Posterior, posterior
from korisk.planning.futures.related import Relatives, relatives
from korisk.planning.protocol import Expectation
from korisk.theory import RiskLine

Array = NDArray[np.float64]

_NODES = (np.arange(16) + 0.5) / 16  # levels of the quantiles that represent the law of F
_SMOOTHEST = 400.0  # largest concentration
_ROUGHEST = 0.02  # smallest concentration
_LEAST_NOISE = 1e-5  # of a mean, relative: seeds that agree exactly still have rounding
_SETTLING = 4.0  # halvings of the last mean's own weight per doubling of N


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


@dataclass(frozen=True)
class Extrapolation:
    """A pilot and its extrapolation. Errors are in the unit of errors unless stated otherwise.

    Made by `extrapolate`. N may run up to `horizon`, ten thousand times the pilot's largest. Inside
    the pilot the law of the error is that of the measured means; beyond it, that of the posterior,
    mixed with the law implied by `related` curves.
    """

    curve: Curve
    fit: str
    related: tuple[Curve, ...] = ()

    @cached_property
    def posterior(self) -> Posterior:
        """The grid posterior, the source of all probabilities, whatever the fit."""
        return posterior(self.curve)

    @cached_property
    def relatives(self) -> Relatives | None:
        """The law implied by related curves; None if none of them can be extrapolated."""
        usable = tuple(curve for curve in self.related if not doubt(curve, posterior(curve)))
        return relatives(self.curve, usable) if usable else None

    @cached_property
    def measured(self) -> Measured:
        """The law of the error inside the pilot."""
        return Measured(self.curve, self.posterior.noise)

    @cached_property
    def doubt(self) -> str:
        """Why the pilot cannot be extrapolated, as a sentence; empty where it can."""
        return doubt(self.curve, self.posterior)

    @cached_property
    def line(self) -> RiskLine | None:
        """The paper's line, for its fit."""
        return None if self.fit == DEFAULT_FIT else calibrate(self.curve)

    @cached_property
    def floor(self) -> float:
        """The estimated floor of the error."""
        if self.line is not None:
            return self.line.floor
        if self.related and not self.doubt:  # they change the shape, and with it the floor
            return float(self.quantile(self.horizon, 0.5).item())
        return self.posterior.floor_quantile(0.5)

    @property
    def last(self) -> int:
        """The largest N of the pilot."""
        return int(self.curve.sizes[-1])

    @property
    def horizon(self) -> int:
        """Largest N that the forecast covers."""
        return self.last if self.doubt else min(int(HORIZON * self.last), LARGEST_N)

    def law(self, n: Array) -> Law:
        """The law of the log error at each N."""
        return self._joined(n, self.measured.law)

    def met(self, n: Array, goal: float) -> Array:
        """The probability that the error is at most the goal at each N and stays there.

        Inside the pilot, the means at larger N decide whether it stays there.
        """
        return self._joined(n, self.measured.lasting).under(np.full(len(n), math.log(goal)))

    def _joined(self, n: Array, measured: Callable[[Array], Law]) -> Law:
        # Below the first size the posterior applies as well: nothing was measured there.
        inside = (n >= self.curve.sizes[0]) & (n <= self.last)
        if inside.all():
            return measured(n)
        beyond = self._beyond(n[~inside])
        return joined(inside, measured(n[inside]), beyond) if inside.any() else beyond

    def _beyond(self, n: Array) -> Law:
        """The law of the log error outside the pilot.

        Futures start at the measured mean of the pilot's last N, and settle within about a doubling
        on the curves that were fitted to the whole pilot.
        """
        last = np.array([float(self.last)])
        start = self.measured.law(last)
        # Two hypotheses, the pilot's own curves and its relatives' shape, mixed by their trust.
        trust = 0.0 if self.relatives is None else self.relatives.trust
        sources: list[tuple[float, Posterior | Relatives]] = [(1 - trust, self.posterior)]
        sources += [] if self.relatives is None else [(trust, self.relatives)]
        fitted = mixed([share for share, _ in sources], [source.law(n) for _, source in sources])
        # The start moves down with the mean of the fitted curves, and keeps its own spread.
        fall = sum(share * (source.centre(n) - source.centre(last)) for share, source in sources)
        start_weight = np.where(n > self.last, np.exp2(-_SETTLING * np.log2(n / self.last)), 0.0)

        def under(log_error: Array) -> Array:
            later = fitted.under(log_error)
            first = start.under(log_error - fall)
            return np.asarray(start_weight * first + (1 - start_weight) * later)

        low, high = np.minimum(fitted.low, start.low + fall), fitted.high
        return Law(under, low, np.maximum(high, start.high + fall))

    def quantile(self, n: ArrayLike, p: float) -> Array:
        """The p-quantile of the error at each N."""
        return np.asarray(np.exp(self.law(np.atleast_1d(sample_counts(n))).quantile(p)))

    def middle(self, n: ArrayLike) -> Array:
        """The expected error at each N: the median, or the paper's line for its fit."""
        n = np.atleast_1d(sample_counts(n))
        if self.line is None:
            return self.quantile(n, 0.5)
        # log N / N over its value at the pilot's last N, whose share of the error is the scale.
        x, log_last = np.log(n / self.last), math.log(self.last)
        scale = self.line.slope * (log_last / self.last)
        return np.asarray(self.line.floor + scale * ((x + log_last) / log_last * np.exp(-x)))

    def band(self, n: ArrayLike) -> tuple[Array, Array]:
        """The ends of the 90% band at each N, those of the posterior for every fit."""
        law = self.law(np.atleast_1d(sample_counts(n)))
        return np.exp(law.quantile(0.05)), np.exp(law.quantile(0.95))

    def expected(self, n: float) -> Expectation:
        """The expected error at one N, in the user's unit, with its 90% band."""
        count = self.sample_count(n)
        size = np.array([float(count)])
        ends = np.concatenate([self.middle(size), *self.band(size)])
        # In units in which larger is better, the ends of the band change their order.
        value, *band = self.curve.unit.from_error(ends).tolist()
        return Expectation(count, value, min(band), max(band))

    def sample_count(self, n: object) -> int:
        """Check that N is a whole number within the range of the forecast."""
        remedy = self.doubt or "count samples; a pilot reaches 10,000 times its largest N"
        return count("n", n, at_least=2, at_most=self.horizon, remedy=remedy)


def extrapolate(
    curve: Curve, *, fit: str = DEFAULT_FIT, related: Iterable[Curve] = ()
) -> Extrapolation:
    """Extrapolate a pilot, as `kr.forecast` does, without the protocol of answers."""
    one_of("fit", fit, FITS)
    check_curve(curve)
    curve.require(least_sizes(fit), "a forecast")
    distinct = tuple(dict.fromkeys(related))  # a curve given twice is no additional evidence
    for relative in distinct:
        check_curve(relative)
        if fit != DEFAULT_FIT:
            raise KoriskError(
                f"related curves need fit {DEFAULT_FIT!r}, got {fit!r}; leave one of them out"
            )
        rule = f"be in the pilot's unit, {curve.unit.name!r}"
        same = relative.unit.law == curve.unit.law
        require(same, "a related curve", rule, relative.unit.name, "read both in one unit")
        relative.require(3, "a related curve")
        # The pilot itself, maybe with further sizes, would confirm itself.
        inside = relative.sizes <= curve.sizes[-1]
        sizes, means = relative.sizes[inside], relative.means[inside]
        if np.array_equal(sizes, curve.sizes) and np.allclose(means, curve.means, 1e-9):
            rule = "be another measurement than the pilot"
            remedy = "give a curve of the same network on other data"
            raise invalid("a related curve", rule, relative, remedy, got="the pilot's own means")
    return Extrapolation(curve, fit, distinct)
