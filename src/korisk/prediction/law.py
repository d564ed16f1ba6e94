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
from scipy.special import logsumexp

from korisk.curves.curve import Curve
from korisk.curves.noise import ONE_SEED, mean_variance
from korisk.planning.futures.law import Law, mixed
from korisk.planning.futures.posterior import Posterior, posterior
from korisk.planning.futures.prior import PRIOR
from korisk.planning.futures.related import trust
from korisk.prediction.misfit import NOTHING_MEASURED, UNLIKE, Belief, LogErrors, Misfit

Array = NDArray[np.float64]

FIT_SIZES = 3  # smallest number of pilot sizes to which curves can be fitted
# How the pilot is weighed against the rehearsal.
_LEVEL = 4.0  # prior width of the log error's level, which a fitted curve has free
_BELIEVED = 0.75  # prior probability of the rehearsal against a fitted curve
_LEAST_NOISE = 1e-3  # least relative deviation of a pilot's mean in forecasts
_TELLING = 1e-2  # the same when the rehearsal is tested: no simulation is exact
_RIVAL = replace(PRIOR, least_noise=_TELLING, noises=(ONE_SEED,))
_RARE = 0.005  # tail probability beyond which a pilot of few sizes contradicts the rehearsal
_DOUBTED = 0.5  # trust below which the rehearsal is called doubtful


@dataclass(frozen=True, kw_only=True, eq=False)
class RehearsedLaw:
    """The law at every N from 1 on; N is always an array of shape (M,)."""

    curve: Curve  # simulated, without the cost of few distinct images in the middle of its law
    unaltered: int  # the largest N whose training images are all examples as they are
    level: float  # relative standard error of the errors due to few test images
    belief: Belief
    pilot: Curve | None = None
    # N, and (K, M) by how much the log cost of few distinct images may differ, equally likely.
    apart: tuple[Array, Array] = (np.ones(1), np.zeros((1, 1)))

    def simulated(self, n: Array) -> Array:
        """(M,) the simulated error at each N: straight between sizes, extrapolated beyond them."""
        fitted = posterior(self.curve)
        ends = np.clip(n, self.curve.sizes[0], self.curve.sizes[-1])
        inside = np.interp(np.log(ends), np.log(self.curve.sizes), np.log(self.curve.means))
        return np.asarray(np.exp(inside + fitted.centre(n) - fitted.centre(ends)))

    def law(self, n: Array) -> Law:
        """The distribution of the log error at each N."""
        # log error = log simulated error + misfit: the misfit's law, moved by the simulated curve.
        end_n, evidences = self._end, np.array([misfit.evidence for misfit in self._misfits])
        bases = np.log(self.simulated(n)) + self._apart(n)
        laws = [_moved(misfit.law(n), b) for misfit, b in zip(self._misfits, bases, strict=True)]
        shares = np.exp(evidences - logsumexp(evidences))
        law = mixed(shares.tolist(), laws)
        if self._fitted is not None:
            law = mixed([self.trust, 1 - self.trust], [law, self._fitted.law(n)])
        far = n > end_n
        if not far.any():
            return law
        # Beyond all that was rehearsed or measured its fall is believed by half; else the error
        # stays. What is met stays met.
        end = self.law(np.full(len(n), end_n))

        def under(log_error: Array) -> Array:
            there = 0.5 * (law.under(log_error) + end.under(log_error))
            there = np.maximum(there, end.under(log_error))
            return np.where(far, there, law.under(log_error))

        return Law(under, np.minimum(law.low, end.low), np.maximum(law.high, end.high))

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
        if self.pilot is None or not self.tested or not self.rivals:
            return 1.0
        # One per cent at least: no simulation is exact, and a precise pilot must not refute it.
        rival = posterior(self.pilot, _RIVAL)
        constants = 0.5 * (len(self.pilot.sizes) - 1) * math.log(2 * math.pi)
        # The level of a fitted curve is free, where the rehearsal predicts it.
        evidences = [misfit.evidence for misfit in self._misfits_with(_TELLING)]
        odds = float(logsumexp(evidences)) - math.log(len(evidences))
        return trust(odds - (rival.evidence - constants - math.log(_LEVEL)), _BELIEVED)

    @property
    def tested(self) -> bool:
        """Whether the pilot has enough sizes to support or contradict the rehearsal."""
        return self.pilot is not None and len(self.pilot.sizes) >= FIT_SIZES

    @cached_property
    def rivals(self) -> bool:
        """Whether curves fitted to the pilot alone compete with the rehearsal."""
        return self.belief == UNLIKE or self._contradicted

    @property
    def doubted(self) -> bool:
        """Whether the pilot contradicts the rehearsal: by its weight, with enough sizes."""
        return self.trust < _DOUBTED if self.tested and self.rivals else self._contradicted

    @cached_property
    def _contradicted(self) -> bool:
        """Whether a measured error lies in the tails of what the rehearsal alone says."""
        if self.pilot is None:
            return False
        alone, n, means = replace(self, pilot=None), self.pilot.sizes, self.pilot.means
        low, high = (alone.quantile(n.astype(float), p) for p in (_RARE, 1 - _RARE))
        return bool(((means < low) | (means > high)).any())

    @property
    def _end(self) -> float:
        """The largest N that was rehearsed or measured."""
        known = [self.curve] if self.pilot is None else [self.curve, self.pilot]
        return float(max(curve.sizes[-1] for curve in known))

    def _measured(self, least_noise: float) -> LogErrors:
        """The pilot's errors over the simulated ones."""
        if self.pilot is None:
            return NOTHING_MEASURED
        n = self.pilot.sizes.astype(float)
        variance = np.maximum(mean_variance(self.pilot), least_noise**2)
        return LogErrors(n, np.log(self.pilot.means / self.simulated(n)), variance)

    def _apart(self, n: Array) -> Array:
        """(K, M) by how much the log error may differ as copies may cost more or less."""
        sizes, logs = self.apart
        return np.stack([np.interp(np.log(n), np.log(sizes), row) for row in logs])

    def _misfits_with(self, least_noise: float) -> list[Misfit]:
        # Sizes without altered copies count as measured on the examples; others extrapolate.
        plain = self.curve.sizes <= self.unaltered
        sizes, variance = self.curve.sizes[plain].astype(float), mean_variance(self.curve)[plain]
        simulated = LogErrors(sizes, np.zeros(len(sizes)), variance)
        real = self._measured(least_noise)
        return [
            Misfit(simulated, replace(real, log_error=logs), self.level, self.belief)
            for logs in real.log_error - self._apart(real.n)
        ]

    @cached_property
    def _misfits(self) -> list[Misfit]:
        return self._misfits_with(_LEAST_NOISE)

    @cached_property
    def _fitted(self) -> Posterior | None:
        """Curves fitted to the pilot alone, which are mixed with the rehearsal."""
        if self.pilot is None or len(self.pilot.sizes) < FIT_SIZES or not self.rivals:
            return None
        return posterior(self.pilot)


def _moved(law: Law, by: Array) -> Law:
    """The law of the log error plus a number at each N."""
    return Law(lambda log_error: law.under(log_error - by), law.low + by, law.high + by)
