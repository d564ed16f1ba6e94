"""The law of the log error of real images at any N, from a rehearsal with or without a pilot.

Within the rehearsed N it is the simulated curve with its misfit, which a pilot narrows; where a
pilot contradicts the rehearsal, curves that are fitted to the pilot alone compete with it. Beyond
the largest rehearsed N the fall of the extrapolated curve is believed by half.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import ONE_SEED, mean_variance
from korisk.planning.futures.law import Law, mixed, normals
from korisk.planning.futures.posterior import MOST_SIZES, Posterior, posterior, thinned
from korisk.planning.futures.prior import PRIOR
from korisk.planning.futures.related import trust
from korisk.planning.recommend import TAIL
from korisk.prediction.misfit import NOTHING_MEASURED, UNLIKE, Belief, LogErrors, Misfit

Array = NDArray[np.float64]

FIT_SIZES = 3  # smallest number of pilot sizes to which curves can be fitted
# How the pilot is weighed against the rehearsal.
_AS_SEEDS = 1.78  # widens five quantiles so that their mean is as uncertain as their law
_LEVEL = 4.0  # prior width of the log error's level, which a fitted curve has free
_BELIEVED = 0.75  # prior probability of the rehearsal against a fitted curve
_FALL = 1 / 3  # weight of the curve's fall beyond its end, if the pilot ends earlier
_LEAST_NOISE = 1e-3  # least relative deviation of a pilot's mean in forecasts
_TELLING = 1e-2  # the same when the rehearsal is tested: no simulation is exact
_RIVAL = replace(PRIOR, least_noise=_TELLING, noises=(ONE_SEED,))
_RARE = 0.005  # tail probability beyond which a pilot of few sizes contradicts the rehearsal
_DOUBTED = 0.5  # trust below which the rehearsal is called doubtful


@dataclass(frozen=True, kw_only=True, eq=False)
class RehearsedLaw:
    """The law at every N from 1 on; N is always an array of shape (M,)."""

    curve: Curve  # simulated, without the cost of few distinct images
    unaltered: int  # the largest N whose training images are all examples as they are
    level: float  # relative standard error of the errors due to few test images
    belief: Belief
    pilot: Curve | None = None
    rivals: bool = False  # whether curves fitted to the pilot alone compete with the rehearsal

    @classmethod
    def of(
        cls, curve: Curve, unaltered: int, level: float, belief: Belief, pilot: Curve | None
    ) -> "RehearsedLaw":
        """The law with rivals where the images are unlike real ones or the pilot contradicts."""
        first = cls(
            curve=curve,
            unaltered=unaltered,
            level=level,
            belief=belief,
            pilot=pilot,
            rivals=belief == UNLIKE,
        )
        return replace(first, rivals=True) if first.doubted else first

    def simulated(self, n: Array) -> Array:
        """(M,) the simulated error at each N: straight between sizes, extrapolated beyond them."""
        fitted = posterior(self.curve)
        ends = np.clip(n, self.curve.sizes[0], self.curve.sizes[-1])
        inside = np.interp(np.log(ends), np.log(self.curve.sizes), np.log(self.curve.means))
        return np.asarray(np.exp(inside + fitted.centre(n) - fitted.centre(ends)))

    def law(self, n: Array) -> Law:
        """The distribution of the log error at each N."""
        # log error = log simulated error + misfit: the misfit's law, moved by the simulated curve.
        base, misfit, end_n = np.log(self.simulated(n)), self._misfit.law(n), self._end
        law = Law(lambda error: misfit.under(error - base), base + misfit.low, base + misfit.high)
        if self._fitted is not None:
            law = mixed([self.trust, 1 - self.trust], [law, self._fitted.law(n)])
        beyond = self.pilot is not None and self.pilot.sizes[-1] > end_n
        if beyond:
            law = self._above_pilot(law, n)
        far = n > end_n
        if not far.any():
            return law
        # Beyond the end of the rehearsal its fall is believed by half; else the error stays. With
        # a pilot of enough sizes, curves fitted to it and to the rehearsal extrapolate, and the
        # fall has a third, or nothing where the pilot went there. What is met stays met.
        end = self.law(np.full(len(n), end_n))
        if self._fitted is None:
            later = mixed([0.5, 0.5], [law, end])
        else:
            later = self._extended.law(n)
            if not beyond:
                later = mixed([_FALL, 1 - _FALL], [law, later])

        def under(log_error: Array) -> Array:
            there = np.maximum(later.under(log_error), end.under(log_error))
            return np.where(far, there, law.under(log_error))

        low = np.min([law.low, end.low, later.low], axis=0)
        return Law(under, low, np.max([law.high, end.high, later.high], axis=0))

    def lasting(self, n: Array) -> Law:
        """The law of the largest log error from each N on: a simulated curve does not rise."""
        return self.law(n)

    @property
    def floor(self) -> float:
        """Where curves that were fitted to the simulated one level off."""
        return posterior(self.curve).floor_quantile(0.5)

    def quantile(self, n: Array, p: float) -> Array:
        """(M,) the p-quantile of the error at each N."""
        return np.asarray(np.exp(self.law(n).quantile(p)))

    @cached_property
    def trust(self) -> float:
        """The weight of the rehearsal against curves fitted to the pilot; one without a pilot."""
        if self._within is None or not self.tested or not self.rivals:
            return 1.0
        # One per cent at least: no simulation is exact, and a precise pilot must not refute it.
        rival = posterior(self._within, _RIVAL)
        constants = 0.5 * (len(self._measured(_TELLING)) - 1) * math.log(2 * math.pi)
        # The level of a fitted curve is free, where the rehearsal predicts it.
        odds = self._misfit_with(_TELLING).evidence - (
            rival.evidence - constants - math.log(_LEVEL)
        )
        return trust(odds, _BELIEVED)

    @property
    def tested(self) -> bool:
        """Whether the pilot has enough sizes to support or contradict the rehearsal."""
        return self._within is not None and len(self._within.sizes) >= FIT_SIZES

    @cached_property
    def doubted(self) -> bool:
        """Whether the pilot contradicts the rehearsal."""
        if self._within is None:
            return False
        # With enough sizes, the weight against fitted curves decides.
        if self.tested and self.rivals:
            return self.trust < _DOUBTED
        # Else: does a measured error lie in the tails of what the rehearsal alone says?
        alone, n, means = replace(self, pilot=None), self._within.sizes, self._within.means
        low, high = (alone.quantile(n.astype(float), p) for p in (_RARE, 1 - _RARE))
        return bool(((means < low) | (means > high)).any())

    @property
    def _end(self) -> float:
        return float(self.curve.sizes[-1])

    @cached_property
    def _within(self) -> Curve | None:
        """The part of the pilot on which the rehearsal is tested: where it holds.

        Where none is left, or fewer than curves can be fitted to, also those below, where it is a
        rough guide.
        """
        if self.pilot is None:
            return None
        n = self.pilot.n
        valid = (n >= self.curve.sizes[0]) & (n <= self._end)
        if len(np.unique(n[valid])) < (FIT_SIZES if self.rivals else 1):
            valid = n <= self._end
        if not valid.any():
            return None
        seeds = [seed for seed, there in zip(self.pilot.seed, valid, strict=True) if there]
        return Curve(n[valid], self.pilot.error[valid], seeds)

    def _measured(self, least_noise: float) -> LogErrors:
        """The pilot's errors over the simulated ones."""
        if self._within is None:
            return NOTHING_MEASURED
        errors = log_errors(self._within, least_noise)
        return replace(errors, log_error=errors.log_error - np.log(self.simulated(errors.n)))

    def _misfit_with(self, least_noise: float) -> Misfit:
        # Sizes without altered copies count as measured on the examples; others extrapolate.
        plain = self.curve.sizes <= self.unaltered
        sizes, variance = self.curve.sizes[plain].astype(float), mean_variance(self.curve)[plain]
        simulated = LogErrors(sizes, np.zeros(len(sizes)), variance)
        return Misfit(simulated, self._measured(least_noise), self.level, self.belief)

    @cached_property
    def _misfit(self) -> Misfit:
        return self._misfit_with(_LEAST_NOISE)

    @cached_property
    def _fitted(self) -> Posterior | None:
        """Curves fitted to the pilot alone, which are mixed with the rehearsal."""
        if self.pilot is None or len(self.pilot.sizes) < FIT_SIZES or not self.rivals:
            return None
        return posterior(self.pilot)

    @cached_property
    def _extended(self) -> Posterior:
        """Curves fitted to the pilot, and to the law at doublings of its largest N."""
        assert self.pilot is not None
        more = self.pilot.sizes[-1] * 2.0 ** np.arange(1, 40)
        more = np.floor(more[more <= self._end])
        if not len(more):
            return posterior(self.pilot)
        levels = (TAIL, 0.25, 0.5, 0.75, 1 - TAIL)
        middle = np.log(self.quantile(more, 0.5))
        # The five stand for seeds, whose mean is surer than each: spread out by as much.
        logs = [middle + _AS_SEEDS * (np.log(self.quantile(more, p)) - middle) for p in levels]
        labels = [f"computed {p}" for p in levels for _ in more]
        n, errors = np.tile(more, len(levels)), np.exp(logs).ravel()
        added = Curve(n, errors, labels, self.pilot.model, self.pilot.metric)
        return posterior(self.pilot.merged(added))

    def _above_pilot(self, law: Law, n: Array) -> Law:
        """The law with lower limits from a pilot beyond the rehearsed N: a curve does not rise.

        So the error at N is at least that at the next of the sizes that were measured there.
        """
        assert self.pilot is not None
        measured = log_errors(self.pilot, _LEAST_NOISE)
        past = measured.n > self._end
        sizes, logs, variance = measured.n[past], measured.log_error[past], measured.variance[past]
        # (M,) the next measured size at or above each N; beyond the last one nothing is known.
        indices = np.searchsorted(sizes, n)
        before, indices = indices < len(sizes), np.minimum(indices, len(sizes) - 1)
        least = normals(np.ones(1), logs[None, indices], np.sqrt(variance)[None, indices])

        def under(log_error: Array) -> Array:
            probability = law.under(log_error)
            return np.where(before, np.minimum(probability, least.under(log_error)), probability)

        low, high = np.maximum(law.low, least.low), np.maximum(law.high, least.high)
        return Law(under, np.where(before, low, law.low), np.where(before, high, law.high))


def log_errors(pilot: Curve, least_noise: float) -> LogErrors:
    """Log mean errors of a pilot, merged to as many sizes as fitted curves use."""
    sizes, logs = pilot.sizes.astype(float), np.log(pilot.means)
    variance = np.maximum(mean_variance(pilot), least_noise**2)
    if len(sizes) <= MOST_SIZES:
        return LogErrors(sizes, logs, variance)
    # Distances are doublings below the largest N, as in the posterior of fitted curves.
    doublings, logs, variance = thinned(np.log2(sizes[-1] / sizes), logs, variance)
    return LogErrors(sizes[-1] * 2.0**-doublings, logs, variance)
