"""A learning curve computed before training, with what a rehearsal and a pilot say of it."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._checks import real
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.errors import KoriskError, shown
from korisk.planning.law import Law, mixed
from korisk.planning.plan import LEAST_REACH, TAIL, table
from korisk.planning.posterior import MOST_SIZES, PRIOR, Posterior, posterior, thinned
from korisk.planning.related import trust
from korisk.prediction.dense.spectral import checked_sizes
from korisk.prediction.misfit import BELIEF, Belief, Misfit, no_checks
from korisk.prediction.rehearsal import Checks

Array = NDArray[np.float64]

FARTHEST_N = 10**7  # of which a prediction speaks
MIDDLE = 0.65  # share of the futures that meet a target by the answer, where some never do
_START = 2
_PER_DOUBLING = 4
FIT_SIZES = 3  # of a pilot, from which on curves can be fitted to it
_LEVEL = 4.0  # width of the logarithm of an error before anything is known
_BELIEVED = 0.75  # in the theory against a fitted curve, before the pilot is seen
_LEAST_NOISE = 1e-3  # of a pilot's mean, relative, in what it says of other N,
_TELLING = 1e-2  # and in whether it speaks for the theory
_ONE_SEED = 0.05  # of a mean, where seeds tell none
_RIVAL = replace(PRIOR, least_noise=_TELLING, noises=(_ONE_SEED,))
_RARE = 0.005  # chance of an error so far off, from which on a pilot of few sizes speaks against it
_AS_SEEDS = 1.78  # by which five quantiles are spread so that their mean is as unsure as their law
_DOUBTED = 0.5  # trust below which words say so


class Theory(Protocol):
    """What computes a curve: `Spectrum` for a dense layer, `Structured` for a known operator."""

    def errors(self, n: ArrayLike) -> Array:
        """(M,) mean squared errors at each N."""

    def effective(self, n: float) -> float:
        """How many parameters N samples determine."""

    @property
    def floor(self) -> float:
        """The error that no data removes."""

    @property
    def parameters(self) -> int | None:
        """Weights of the layer."""


@dataclass(frozen=True)
class PredictedSize:
    """Samples for a target: the middle and the 90% interval; None and infinity where none do."""

    target: float
    samples: int | None
    lower: float
    upper: float
    reach: float  # the probability that the target is met at all
    chance: float | None  # that `samples` are enough, over all futures

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON; an infinite end is None."""
        return {
            "target": self.target,
            "samples": self.samples,
            "lower": None if math.isinf(self.lower) else self.lower,
            "upper": None if math.isinf(self.upper) else self.upper,
            "reach": self.reach,
            "chance": self.chance,
        }


@dataclass(frozen=True)
class Check:
    """A measured error beside the computed one."""

    n: int
    computed: float
    measured: float

    @property
    def ratio(self) -> float:
        """Computed over measured."""
        return self.computed / self.measured


@dataclass(frozen=True, eq=False)
class Prediction:
    """The learning curve of one model, in mean squared errors of an entry.

    Made by `predict_dense`, `predict_structured` and `predict_study`. `examples` is how many images
    it was computed from, `notes` what to know of it, in sentences. Methods take N from 2 on, a
    number or a list of M, and return arrays of shape (M,).

    >>> import korisk as kr
    >>> from korisk.prediction.dense.spectral import Spectrum
    >>> theory = Spectrum(values=[1.0] * 8, signal=[1.0] * 8, rest=0.8, scales=[1.0], entries=8)
    >>> made = kr.Prediction(theory, model="FC", examples=64)
    >>> round(made.floor, 6), made.errors([16, 64, 256]).shape
    (0.1, (3,))
    >>> low, high = made.band(64)
    >>> bool((low < made.errors(64)).all() and (made.errors(64) < high).all())
    True
    """

    theory: Theory
    model: str
    examples: int
    level: float = 0.0  # relative deviation of the examples' mean energy
    rehearsal: Checks | None = None  # errors on the examples themselves
    pilot: Curve | None = None
    notes: tuple[str, ...] = ()
    valid_from: float = 1.0  # N below which the theory is a rough guide: not held against it
    valid_to: float = math.inf  # N beyond which the theory has no meaning, as without noise
    belief: Belief = BELIEF

    # --- What it says ----------------------------------------------------------------------------

    @property
    def floor(self) -> float:
        """The error that no data removes, according to the theory."""
        return self.theory.floor

    @property
    def parameters(self) -> int | None:
        """Weights of the layer."""
        return self.theory.parameters

    def effective(self, n: float) -> float:
        """How many weights of one output N samples determine; all, for known operators."""
        return self.theory.effective(n)

    def computed(self, n: ArrayLike) -> Array:
        """(M,) the theory's errors alone."""
        return self.theory.errors(checked_sizes(n))

    def errors(self, n: ArrayLike) -> Array:
        """(M,) the expected error at each N: as likely too large as too small."""
        return self.quantile(n, 0.5)

    def band(self, n: ArrayLike) -> tuple[Array, Array]:
        """(M,) the ends of the 90% band."""
        return self.quantile(n, TAIL), self.quantile(n, 1 - TAIL)

    def quantile(self, n: ArrayLike, p: float) -> Array:
        """(M,) the error at each N that is undercut with probability p."""
        sizes = checked_sizes(n)
        return np.asarray(np.exp(self._law(sizes).quantile(p)))

    def probability(self, n: ArrayLike, target: float) -> Array:
        """(M,) the probability that the error at each N is at most the target.

        >>> import korisk as kr
        >>> from korisk.prediction.dense.spectral import Spectrum
        >>> theory = Spectrum(values=[1.0] * 8, signal=[1.0] * 8, rest=0.8, scales=[1.0], entries=8)
        >>> made = kr.Prediction(theory, model="FC", examples=64)
        >>> (made.probability([4, 10**6], target=0.2) > 0.5).tolist()
        [False, True]
        """
        sizes, goal = checked_sizes(n), math.log(_goal(target))
        return np.minimum(self._under(np.full(len(sizes), goal), sizes), 1.0)

    def samples(self, target: float) -> PredictedSize:
        """How many samples a target asks for.

        `target` is a mean squared error above 0. The answer's `samples` is None where the target is
        called out of reach, as its chance to be met is below 15%.

        >>> import korisk as kr
        >>> from korisk.prediction.dense.spectral import Spectrum
        >>> theory = Spectrum(values=[1.0] * 8, signal=[1.0] * 8, rest=0.8, scales=[1.0], entries=8)
        >>> made = kr.Prediction(theory, model="FC", examples=64)
        >>> found = made.samples(0.2)
        >>> found.lower <= found.samples <= found.upper, made.samples(0.01).samples
        (True, None)
        """
        goal = _goal(target)
        doublings = math.log2(FARTHEST_N / _START)
        grid = np.unique(
            np.round(_START * 2 ** np.linspace(0, doublings, 1 + int(_PER_DOUBLING * doublings)))
        )
        odds = table(lambda n: self.probability(n, goal), grid)
        reach = float(odds.p[-1])

        def by(p: float) -> float:
            found = odds.smallest(p)
            return math.inf if found is None else found

        if reach < LEAST_REACH:
            return PredictedSize(goal, None, by(TAIL), math.inf, reach, None)
        samples = int(by(min(0.5, MIDDLE * reach)))
        return PredictedSize(goal, samples, by(TAIL), by(1 - TAIL), reach, odds.at(samples))

    # --- What it rests on ------------------------------------------------------------------------

    def with_pilot(self, pilot: Curve) -> "Prediction":
        """The same, held against measured errors.

        `pilot` is a `Curve` of mean squared errors; one in another unit raises `KoriskError`.
        """
        if not isinstance(pilot, Curve):
            raise KoriskError(
                f"pilot must be a korisk Curve, got {shown(pilot)}; use kr.Curve.read(...)"
            )
        if pilot.unit.name != "error":
            raise KoriskError(
                f"a prediction is of mean squared errors, and the pilot is in {pilot.unit.name}; "
                "give the pilot's mean squared errors"
            )
        return replace(self, pilot=pilot)

    @cached_property
    def _misfit(self) -> Misfit:
        return self._misfit_of(_LEAST_NOISE)

    def _misfit_of(self, least_noise: float) -> Misfit:
        rehearsal, measured = no_checks(), no_checks()
        if self.rehearsal is not None:
            rehearsal = self._over(self.rehearsal, self.valid_from)
        if self._within is not None:
            measured = self._over(_checks_of(self._within, least_noise), 1.0)
        return Misfit(rehearsal, measured, self.level, self.belief)

    def _over(self, found: Checks, first: float) -> Checks:
        """Logarithms over the computed curve, where that has a meaning."""
        kept = (found.n >= first) & (found.n <= self.valid_to)
        n = found.n[kept]
        base = np.log(self.computed(n)) if len(n) else np.zeros(0)
        return Checks(n, found.log_error[kept] - base, found.variance[kept])

    @cached_property
    def _within(self) -> Curve | None:
        """The part of the pilot of which the theory speaks.

        Where that is too little to tell, what it is a rough guide to: a pilot is never for nothing.
        """
        if self.pilot is None:
            return None
        kept = (self.pilot.n >= self.valid_from) & (self.pilot.n <= self.valid_to)
        if len(np.unique(self.pilot.n[kept])) < FIT_SIZES:
            kept = self.pilot.n <= self.valid_to
        if not kept.any():
            return None
        seeds = [seed for seed, there in zip(self.pilot.seed, kept, strict=True) if there]
        return Curve(self.pilot.n[kept], self.pilot.error[kept], seeds)

    @cached_property
    def _fitted(self) -> Posterior | None:
        """Curves fitted to the pilot alone, which have a say by how well each side explains it."""
        if self.pilot is None or len(self.pilot.sizes) < FIT_SIZES:
            return None
        return posterior(self.pilot)

    @cached_property
    def _beyond(self) -> Posterior:
        """Curves fitted to the pilot and to what the theory adds, as far as that has a meaning."""
        assert self.pilot is not None
        more = self.pilot.sizes[-1] * 2.0 ** np.arange(1, 40)
        more = np.floor(more[more <= self.valid_to])
        if not len(more):
            return posterior(self.pilot)
        levels = (TAIL, 0.25, 0.5, 0.75, 1 - TAIL)
        middle = np.log(self.errors(more))
        # Five of them pass for seeds, whose mean is surer than each: spread out by as much.
        errors = np.exp(
            [middle + _AS_SEEDS * (np.log(self.quantile(more, p)) - middle) for p in levels]
        ).ravel()
        labels = [f"computed {p}" for p in levels for _ in more]
        added = Curve(
            np.tile(more, len(levels)), errors, labels, self.pilot.model, self.pilot.metric
        )
        return posterior(self.pilot.merged(added))

    @cached_property
    def trust(self) -> float:
        """The weight of the theory against curves fitted to the pilot; one without a pilot."""
        within = self._within
        if self._fitted is None or within is None or not self.tested:
            return 1.0
        # A theory is not refuted by a pilot that knows its errors better than to one per cent.
        misfit = self._misfit_of(_TELLING)
        rival = posterior(within, _RIVAL)
        constants = 0.5 * (len(misfit.real) - 1) * math.log(2 * math.pi)
        # A fitted curve's level may be anything, where the theory names it.
        odds = misfit.evidence - (rival.evidence - constants - math.log(_LEVEL))
        return trust(odds, _BELIEVED)

    def _under(self, log_error: Array, n: Array) -> Array:
        return self._law(n).under(log_error)

    def _law(self, n: Array) -> Law:
        """The law of the log error at each N."""
        base, misfit = np.log(self.computed(n)), self._misfit.law(n)

        def computed(log_error: Array) -> Array:
            return misfit.under(log_error - base)

        low, high = base + misfit.low, base + misfit.high
        if self._fitted is None:
            return self._doubted_beyond(Law(computed, low, high), n)
        shares = [self.trust, 1 - self.trust]
        both = mixed(shares, [Law(computed, low, high), self._fitted.law(n)])
        return self._carried_beyond(both, n)

    def _doubted_beyond(self, law: Law, n: Array) -> Law:
        """Beyond where the theory has a meaning, its fall comes or it does not: even odds."""
        far = n > self.valid_to
        if not far.any():
            return law
        end = self._law(np.full(len(n), self.valid_to))

        def under(log_error: Array) -> Array:
            there, held = law.under(log_error), end.under(log_error)
            return np.where(far, np.maximum(0.5 * (there + held), held), there)

        return Law(under, np.minimum(law.low, end.low), np.maximum(law.high, end.high))

    def _carried_beyond(self, law: Law, n: Array) -> Law:
        """Beyond, curves that were fitted to the pilot and to the theory carry on from its end."""
        far = n > self.valid_to
        if not far.any():
            return law
        end, carried = self._law(np.full(len(n), self.valid_to)), self._beyond.law(n)

        def under(log_error: Array) -> Array:
            # What is met at the end stays met.
            later = np.maximum(carried.under(log_error), end.under(log_error))
            return np.where(far, later, law.under(log_error))

        low = np.minimum(law.low, np.minimum(carried.low, end.low))
        return Law(under, low, np.maximum(law.high, np.maximum(carried.high, end.high)))

    @property
    def checks(self) -> tuple[Check, ...]:
        """The pilot's mean errors beside the computed ones."""
        if self.pilot is None:
            return ()
        sizes, means = self.pilot.sizes, self.pilot.means
        computed = self.computed(sizes)
        rows = zip(sizes.tolist(), computed.tolist(), means.tolist(), strict=True)
        return tuple(Check(n, made, found) for n, made, found in rows)

    def explain(self, target: float | None = None) -> str:
        """The prediction in plain words."""
        from korisk.prediction.explain import explain

        return explain(self, target)

    @property
    def tested(self) -> bool:
        """Whether the pilot has sizes enough to speak for or against the theory."""
        within = self._within
        return within is not None and len(within.sizes) >= FIT_SIZES

    @cached_property
    def doubted(self) -> bool:
        """Whether the pilot speaks against the theory."""
        if self.pilot is None or self.tested:
            return self.trust < _DOUBTED
        alone, n = replace(self, pilot=None), self.pilot.sizes
        low, high = alone.quantile(n, _RARE), alone.quantile(n, 1 - _RARE)
        return bool(((self.pilot.means < low) | (self.pilot.means > high)).any())


def _checks_of(pilot: Curve, least_noise: float) -> Checks:
    variance = relative_variance(pilot)
    if variance is None:
        variance = np.full(len(pilot.sizes), _ONE_SEED**2)
    sizes, logs = pilot.sizes.astype(float), np.log(pilot.means)
    variance = np.maximum(variance, least_noise**2)
    if len(sizes) <= MOST_SIZES:
        return Checks(sizes, logs, variance)
    # As the curves that are fitted to it see the pilot, so that the two can be compared.
    doublings, logs, variance = thinned(np.log2(sizes[-1] / sizes), logs, variance)
    return Checks(sizes[-1] * 2.0**-doublings, logs, variance)


def _goal(target: float) -> float:
    return real("target", target, above=0, remedy="give the mean squared error to reach")
