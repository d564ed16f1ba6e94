"""What a pilot says of sizes that were not measured: the expected error, and how surely.

Inside the pilot the measured means decide. At a measured N the law of the log error is normal
around the mean that was measured there, with the variance that the seeds tell. Between two
neighbours the curve falls from one to the other; the part F of the fall that lies behind it at a
share t of the way (in log N) has the law of a Dirichlet process, Eq. (eq:between),

    F ~ Beta(a t, a (1 - t)),

whose concentration a is large where the slopes of neighbouring gaps agree, which is a nearly
straight line, and small where this gap falls much faster than its neighbours: then the curve steps
somewhere in between and nobody knows where. For a step, t is replaced by Jeffreys' law of its
place, (2 / pi) arcsin(sqrt(t)), which leaves the whole gap possible.
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
    Calibration,
    calibrate,
    check_curve,
    least_sizes,
    pooled_band,
    sample_counts,
)
from korisk.planning.futures.law import Law, joined, mixed, normals
from korisk.planning.futures.posterior import HORIZON, Posterior, posterior
from korisk.planning.futures.related import Relatives, relatives
from korisk.planning.protocol import Expectation

Array = NDArray[np.float64]

_NODES = (np.arange(16) + 0.5) / 16  # quantiles that stand for the law of F
_SMOOTHEST = 400.0  # largest concentration
_ROUGHEST = 0.02  # smallest one
_LEAST_NOISE = 1e-5  # of a mean, relative
_SETTLING = 4.0  # halvings a doubling of what the last mean alone says


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
        # By how far slopes differ from those of the gaps beside them, (K - 1,).
        slope = np.diff(logs) / np.diff(self._at)
        bend = np.abs(np.diff(slope))
        beside = np.maximum(np.append(0.0, bend), np.append(bend, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            rough = np.where(beside > 0, beside / np.abs(slope), 0.0)
        # Half way, F deviates by 1 / (2 sqrt(a + 1)): half a fall for a step, next to none if
        # straight.
        deviation = np.clip(0.5 * rough, 1e-3, 0.5)
        concentration = np.clip((0.5 / deviation) ** 2 - 1.0, _ROUGHEST, _SMOOTHEST)[gap]
        step = 1.0 / (1.0 + concentration)
        share = (1 - step) * share + step * 2 / np.pi * np.arcsin(np.sqrt(share))
        inner = np.clip(share, 1e-9, 1 - 1e-9)
        part = betaincinv(concentration * inner, concentration * (1 - inner), _NODES[:, None])
        part = np.where((share <= 0) | (share >= 1), share, part)  # (Q, M)
        mean = (1 - part) * logs[gap] + part * logs[gap + 1]
        spread = (1 - part) ** 2 * variance[gap] + part**2 * variance[gap + 1]
        weight = np.full(len(_NODES), 1.0 / len(_NODES))
        return normals(weight, mean, np.sqrt(spread))


@dataclass(frozen=True)
class Extrapolation:
    """A pilot and its extrapolation. All errors are in the unit of errors unless said otherwise.

    Made by `extrapolate`. N may run up to `horizon`, ten thousand times the pilot's largest. Inside
    the pilot the law of the error is that of the measured means; beyond it, that of the posterior,
    mixed with what `related` curves say.

    Parameters
    ----------
    curve : Curve
        The pilot.
    fit : str
        One of `FITS`.
    related : tuple of Curve, default ()
        Curves of the same network on other data.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.planning.extrapolation import extrapolate
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = extrapolate(pilot)
    >>> made.last, made.horizon
    (256, 2560000)
    >>> round(made.expected(512).value, 4), made.expected(1024).upper < 0.005
    (0.0063, True)
    """

    curve: Curve
    fit: str
    related: tuple[Curve, ...] = ()

    @cached_property
    def posterior(self) -> Posterior:
        """The grid posterior; probabilities come from it whatever the fit."""
        return posterior(self.curve)

    @cached_property
    def relatives(self) -> Relatives | None:
        """What related curves say beyond the pilot; None without any that can be extrapolated."""
        sound = tuple(each for each in self.related if not doubt(each, posterior(each)))
        return relatives(self.curve, sound) if sound else None

    @cached_property
    def measured(self) -> Measured:
        """The means of the pilot, with what lies between them."""
        return Measured(self.curve, self.posterior.noise)

    @cached_property
    def doubt(self) -> str:
        """Why the pilot cannot be extrapolated, as a sentence; empty where it can."""
        return doubt(self.curve, self.posterior)

    @cached_property
    def calibration(self) -> Calibration:
        """The fitted curve."""
        return calibrate(self.curve, self.fit)

    @property
    def last(self) -> int:
        """The largest N of the pilot."""
        return int(self.curve.sizes[-1])

    @property
    def horizon(self) -> int:
        """The largest N of which anything is said."""
        return self.last if self.doubt else min(int(HORIZON * self.last), LARGEST_N)

    def law(self, n: Array) -> Law:
        """The law of the log error at each N.

        Parameters
        ----------
        n : array of float, (M,)
            Training samples, up to the horizon.

        Returns
        -------
        Law
            M laws.
        """
        return self._joined(n, self.measured.law)

    def met(self, n: Array, goal: float) -> Array:
        """The probability that the error is at most the goal at each N and stays so.

        Inside the pilot "stays so" is what was measured at larger N.

        Parameters
        ----------
        n : array of float, (M,)
            Training samples, up to the horizon.
        goal : float
            An error.

        Returns
        -------
        array, (M,)
            Probabilities.
        """
        return self._joined(n, self.measured.lasting).under(np.full(len(n), math.log(goal)))

    def _joined(self, n: Array, measured: Callable[[Array], Law]) -> Law:
        inside = (n >= self.curve.sizes[0]) & (n <= self.last)
        if inside.all():
            return measured(n)
        beyond = self._beyond(n[~inside])
        return joined(inside, measured(n[inside]), beyond) if inside.any() else beyond

    def _beyond(self, n: Array) -> Law:
        """The law of the log error outside the pilot.

        Futures start from what was measured at the pilot's last N, and settle on the curves that
        were fitted to all of the pilot within about a doubling.
        """
        last = np.array([float(self.last)])
        start = self.measured.law(last)
        trust = 0.0 if self.relatives is None else self.relatives.trust
        parts: list[tuple[float, Posterior | Relatives]] = [(1 - trust, self.posterior)]
        parts += [] if self.relatives is None else [(trust, self.relatives)]
        fitted = mixed([share for share, _ in parts], [each.law(n) for _, each in parts])
        fall = sum(share * (each.centre(n) - each.centre(last)) for share, each in parts)
        settled = np.where(n > self.last, np.exp2(-_SETTLING * np.log2(n / self.last)), 0.0)

        def under(log_error: Array) -> Array:
            later = fitted.under(log_error)
            return np.asarray(settled * start.under(log_error - fall) + (1 - settled) * later)

        low, high = np.minimum(fitted.low, start.low + fall), fitted.high
        return Law(under, low, np.maximum(high, start.high + fall))

    def quantile(self, n: ArrayLike, p: float) -> Array:
        """The error at each N that is undercut with probability p.

        Parameters
        ----------
        n : array of float, (M,)
            Training samples, from 2 on.
        p : float
            A probability, between 0 and 1.

        Returns
        -------
        array, (M,)
            In the unit of errors.
        """
        return np.asarray(np.exp(self.law(np.atleast_1d(sample_counts(n))).quantile(p)))

    def middle(self, n: ArrayLike) -> Array:
        """The expected error at each N: as likely too large as too small.

        Parameters
        ----------
        n : array of float, (M,)
            Training samples, from 2 on.

        Returns
        -------
        array, (M,)
            In the unit of errors.
        """
        n = np.atleast_1d(sample_counts(n))
        return self.quantile(n, 0.5) if self.fit == DEFAULT_FIT else self.calibration.predict(n)

    def band(self, n: ArrayLike) -> tuple[Array, Array]:
        """The ends of the 90% band at each N.

        Parameters
        ----------
        n : array of float, (M,)
            Training samples, from 2 on.

        Returns
        -------
        tuple of two arrays, (M,)
            The lower and the upper ends, in the unit of errors.
        """
        n = np.atleast_1d(sample_counts(n))
        if self.fit == DEFAULT_FIT:
            law = self.law(n)
            return np.exp(law.quantile(0.05)), np.exp(law.quantile(0.95))
        return pooled_band(self.calibration, n)

    def expected(self, n: float) -> Expectation:
        """The expected error at one N, in the user's unit, with its 90% band."""
        count = self.sample_count(n)
        where = np.array([float(count)])
        ends = np.concatenate([self.middle(where), *self.band(where)])
        value, *band = self.curve.unit.from_error(ends).tolist()
        return Expectation(count, value, min(band), max(band))

    def sample_count(self, n: object) -> int:
        """N as a whole number, if the forecast reaches that far.

        Parameters
        ----------
        n : object
            What a user gave.

        Returns
        -------
        int
            The number of samples.

        Raises
        ------
        KoriskError
            If it is no whole number from 2 to the horizon.
        """
        remedy = self.doubt or "count samples; a pilot reaches 10,000 times its largest N"
        return count("n", n, at_least=2, at_most=self.horizon, remedy=remedy)


def extrapolate(
    curve: Curve, *, fit: str = DEFAULT_FIT, related: Iterable[Curve] = ()
) -> Extrapolation:
    """What `kr.forecast` makes of a pilot, before it is asked by the protocol of answers."""
    one_of("fit", fit, FITS)
    check_curve(curve)
    curve.require(least_sizes(fit), "a forecast")
    listed = tuple(dict.fromkeys(related))  # the same curve twice says no more than once
    for other in listed:
        check_curve(other)
        if fit != DEFAULT_FIT:
            raise KoriskError(
                f"related curves need fit {DEFAULT_FIT!r}, got {fit!r}; leave one of them out"
            )
        rule = f"be in the pilot's unit, {curve.unit.name!r}"
        same = other.unit.law == curve.unit.law
        require(same, "a related curve", rule, other.unit.name, "read both in one unit")
        other.require(3, "a related curve")
        seen = other.up_to(curve.sizes[-1]) if other.sizes[0] <= curve.sizes[-1] else other
        if np.array_equal(seen.sizes, curve.sizes) and np.allclose(seen.means, curve.means, 1e-9):
            rule, remedy = (
                "be another measurement than the pilot",
                "give a curve of the same network ",
            )
            remedy += "on other data"
            raise invalid("a related curve", rule, other, remedy, got="the pilot's own means")
    return Extrapolation(curve, fit, listed)
