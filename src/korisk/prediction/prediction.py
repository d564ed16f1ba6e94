"""A learning curve computed before training, corrected by a rehearsal and a pilot, and in words."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._checks import real
from korisk._show import Reported
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.errors import KoriskError, invalid
from korisk.planning.chances import LEAST_REACH, NEAR, TAIL, Chances, Enough, table
from korisk.planning.explain import chance, count, times, value
from korisk.planning.futures.law import Law, mixed, normals
from korisk.planning.futures.posterior import MOST_SIZES, Posterior, posterior, thinned
from korisk.planning.futures.prior import PRIORS
from korisk.planning.futures.related import trust
from korisk.planning.plan import LEVELS
from korisk.planning.protocol import Action, Answers, Expectation, Recommendation
from korisk.planning.recommend import (
    FIRST,
    LEAST_SEEDS,
    check_words,
    level_text,
    no_number,
    price_of,
)
from korisk.prediction.misfit import BELIEF, NOTHING_MEASURED, Belief, LogErrors, Misfit

Array = NDArray[np.float64]

# Sizes: the table of chances covers N = _START to FARTHEST_N.
FARTHEST_N = 10**7  # largest N that a prediction covers
FIT_SIZES = 3  # smallest number of pilot sizes to which curves can be fitted
_START = 2
_PER_DOUBLING = 4  # sizes of the table per doubling of N
# How the pilot is weighed against the theory.
AS_SEEDS = 1.78  # widens five quantiles so that their mean is as uncertain as their law
_LEVEL = 4.0  # prior width of the log error's level, which a fitted curve has free
_BELIEVED = 0.75  # prior probability of the theory against a fitted curve
_FALL = 1 / 3  # weight of the theory's fall beyond its end, if the pilot ends earlier
_LEAST_NOISE = 1e-3  # least relative deviation of a pilot's mean in forecasts
_TELLING = 1e-2  # the same when the theory is tested: no theory is exact
_ONE_SEED = 0.05  # relative deviation of a mean of one seed
_RIVAL = replace(PRIORS["squares"], least_noise=_TELLING, noises=(_ONE_SEED,))
_RARE = 0.005  # tail probability beyond which a pilot of few sizes contradicts the theory
# Thresholds of the sentences.
_DOUBTED = 0.5  # trust below which the theory is called doubtful
_FAR = 3.0  # ratio to the computed curve that only another unit explains
_ONE_SCALE = 1.5  # largest spread of the ratios of a pilot that is off by one factor


class Theory(Protocol):
    """What computes a curve: `Spectrum` for a dense layer, `Structured` for known operators."""

    def errors(self, n: ArrayLike) -> Array:
        """(M,) mean squared errors at each N."""

    @property
    def floor(self) -> float:
        """The error that no data removes."""

    @property
    def parameters(self) -> int | None:
        """Weights of the layer."""


@dataclass(frozen=True)
class PredictedPlan(Enough):
    """The answer of a prediction or rehearsal for one target. Made by their `plan`."""

    model: str
    target: float
    chances: Chances = field(repr=False, compare=False)
    measured: int = 0
    check: Expectation | None = field(default=None, repr=False, compare=False)
    undertrained: bool = False

    @property
    def reach(self) -> float:
        """The probability that the target is met at all."""
        return float(self.chances.p[-1])

    @property
    def farthest(self) -> float:
        """Largest N that the prediction covers."""
        return float(self.chances.n[-1])

    @property
    def lower(self) -> float:
        """N at which the target is met with 5%; infinite where no N has that."""
        return float(self.chances.smallest(TAIL) or math.inf)

    @property
    def upper(self) -> float:
        """N at which the target is met with 95%; infinite where no N has that."""
        return float(self.chances.smallest(1 - TAIL) or math.inf)

    def probability(self, n: float) -> float:
        """The probability that the target is met by one N."""
        return self.chances.at(float(checked_sizes([n])[0]))

    def recommend(self, sure: float = 0.9, cost: float | None = None) -> Recommendation:
        """What to do: one action with one number."""
        if cost is not None:
            real("cost", cost, above=0, remedy="give the price of one sample")
        samples, target, last = self.samples(sure), value(self.target), self.measured
        action: Action
        odds: float | None = None
        n: int | None = None
        reasons: list[str] = []
        if samples is not None:
            action, n, odds = "collect", samples, self.probability(samples)
            text = f"collect {count(samples)} samples for {target} ({level_text(sure)})"
        elif self.undertrained:
            action = "train"
            text = f"train longer or differently first: training keeps the error above {target}"
        elif self.reach < LEAST_REACH:
            far = f"chance {chance(self.reach)} by N = {count(self.farthest)}"
            action, text = "stop", f"stop: more data of this kind will not reach {target} ({far})"
        else:
            action = "measure"
            # Without a measurement, start where the earliest plausible answer is in range of one.
            n = 2 * last if last else max(FIRST, int(min(self.lower, self.farthest) / NEAR))
            text = f"measure N = {n:,} next, with {LEAST_SEEDS} seeds, and plan with it"
            reasons.append(no_number(sure, self.reach))
        price, paid = price_of(n, last, cost)
        reasons.append(paid)
        if self.check is not None and action != "train":
            reasons.append(check_words(self.check))
        return Recommendation(
            action=action,
            n=n,
            seeds=LEAST_SEEDS if action == "measure" else None,
            sentence=f"{self.model}: {text}.",
            sure=sure,
            chance=odds,
            even=self.even,
            lower=int(self.lower) if math.isfinite(self.lower) else None,
            upper=int(self.upper) if math.isfinite(self.upper) else None,
            cost=price,
            reasons=tuple(filter(None, reasons)),
        )

    def to_dict(self, sure: float = 0.9, cost: float | None = None) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "target": self.target,
            "recommendation": self.recommend(sure, cost).to_dict(),
            "samples": {f"{p:g}": self.samples(p) for p in sorted({0.5, *LEVELS, sure})},
            "lower": finite_or_none(self.lower),
            "upper": finite_or_none(self.upper),
            "reach": self.reach,
        }


@dataclass(frozen=True)
class TheoryCheck:
    """A measured error beside the computed one."""

    n: int
    computed: float
    measured: float

    @property
    def ratio(self) -> float:
        """Computed over measured."""
        return self.computed / self.measured


class Advising(Answers):
    """A predicted curve that says in sentences what to do: `Prediction` and `Rehearsed`."""

    @property
    @abstractmethod
    def check(self) -> Expectation | None:
        """What a first measurement is expected to show; None with a pilot."""

    @abstractmethod
    def plan(self, target: float) -> PredictedPlan:
        """The answer for a target."""

    @abstractmethod
    def outlook(self) -> str:
        """The expected error at the largest N that was examined, in a sentence."""

    def remark(self, advice: Recommendation) -> str:
        """What a model adds to its advice."""
        return ""

    def advised(
        self, targets: Sequence[float], sure: float = 0.9, cost: float | None = None
    ) -> tuple[list[str], list[str]]:
        """The advice for each target, or the outlook without one; then the reasons, each once."""
        advice = [self.plan(target).recommend(sure, cost) for target in targets]
        sentences = [
            text for item in advice for text in (item.sentence, item.odds, self.remark(item))
        ]
        reasons = [reason for item in advice for reason in item.reasons]
        if not targets:
            sentences = [self.outlook()]
            reasons = [] if self.check is None else [check_words(self.check)]
        return [*filter(None, sentences)], list(dict.fromkeys(reasons))


@dataclass(frozen=True, eq=False)
class Prediction(Reported, Advising):
    """The learning curve of one model, in mean squared errors of an entry.

    Made by `predict_dense`, `predict_structured` and `predict_study`. Methods take N from 1 on, a
    number or a list of M, and return arrays of shape (M,).

    Parameters
    ----------
    theory : Spectrum or Structured
        What computes the curve.
    model : str
        Name of the model, such as "FC".
    examples : int
        Number of images that it was computed from.
    level : float, default 0
        Relative standard error of the examples' mean energy.
    rehearsal : LogErrors, optional
        Errors of fits to some of the examples, tested on the others.
    pilot : Curve, optional
        Measured mean squared errors.
    notes : tuple of str, optional
        Sentences on what limits the prediction.
    valid_from : float, default 1
        N below which the theory is a rough guide, which a pilot does not test.
    valid_to : float, default infinity
        N beyond which the theory does not hold, as without noise.
    belief : Belief, optional
        Prior of how far the theory is off.
    independent : float, optional
        Number of independent images that the examples are worth. Default: as many as there are.
    rivals : bool, default True
        Whether curves that are fitted to the pilot alone compete with the theory.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.prediction.dense.spectral import Spectrum
    >>> theory = Spectrum(values=[1.0] * 8, signal=[1.0] * 8, rest=0.8, scales=[1.0], entries=8)
    >>> made = kr.prediction.Prediction(theory, model="FC", examples=64)
    >>> round(made.floor, 6), made.errors([16, 64, 256]).shape
    (0.1, (3,))
    >>> low, high = made.band(64)
    >>> bool((low < made.errors(64)).all() and (made.errors(64) < high).all())
    True
    """

    theory: Theory
    model: str
    examples: int
    level: float = 0.0
    rehearsal: LogErrors = NOTHING_MEASURED
    pilot: Curve | None = None
    notes: tuple[str, ...] = ()
    valid_from: float = 1.0
    valid_to: float = math.inf
    belief: Belief = BELIEF
    independent: float | None = None
    rivals: bool = True

    def __post_init__(self) -> None:
        if not (self.pilot is None or isinstance(self.pilot, Curve)):
            raise invalid("pilot", "be a korisk Curve", self.pilot, "use kr.Curve.read(...)")
        if self.pilot is not None and self.pilot.unit.name != "error":
            unit = f"{self.pilot.unit.name}; give the pilot's mean squared errors"
            raise KoriskError(f"a prediction is of mean squared errors, and the pilot is in {unit}")

    # --- The answers -----------------------------------------------------------------------------

    @property
    def floor(self) -> float:
        """The error that no data removes, according to the theory."""
        return self.theory.floor

    @property
    def parameters(self) -> int | None:
        """Weights of the layer."""
        return self.theory.parameters

    def computed(self, n: ArrayLike) -> Array:
        """The theory's errors alone.

        Parameters
        ----------
        n : float or array_like of shape (M,)
            Training samples, 1 or more.

        Returns
        -------
        ndarray of shape (M,)
            Mean squared errors.
        """
        return self.theory.errors(checked_sizes(n))

    def errors(self, n: ArrayLike) -> Array:
        """The expected error at each N: the median of its distribution.

        Parameters
        ----------
        n : float or array_like of shape (M,)
            Training samples, 1 or more.

        Returns
        -------
        ndarray of shape (M,)
            Mean squared errors.
        """
        return self.quantile(n, 0.5)

    def band(self, n: ArrayLike) -> tuple[Array, Array]:
        """The ends of the 90% band.

        Parameters
        ----------
        n : float or array_like of shape (M,)
            Training samples, 1 or more.

        Returns
        -------
        tuple of ndarray of shape (M,)
            Lower and upper mean squared errors.
        """
        return self.quantile(n, TAIL), self.quantile(n, 1 - TAIL)

    def quantile(self, n: ArrayLike, p: float) -> Array:
        """The p-quantile of the error at each N.

        Parameters
        ----------
        n : float or array_like of shape (M,)
            Training samples, 1 or more.
        p : float
            Probability, between 0 and 1.

        Returns
        -------
        ndarray of shape (M,)
            Mean squared errors.
        """
        return np.asarray(np.exp(self._law(checked_sizes(n)).quantile(p)))

    def met(self, n: Array, goal: float) -> Array:
        """The probability that the error at each N is at most a goal.

        Parameters
        ----------
        n : array of float, (M,)
            Training samples.
        goal : float
            A mean squared error.

        Returns
        -------
        array, (M,)
            Probabilities.
        """
        return np.minimum(self._law(n).under(np.full(len(n), math.log(goal))), 1.0)

    def expected(self, n: float) -> Expectation:
        """What is expected at one N: the error and its 90% band."""
        sizes = checked_sizes([n])
        (error,), ((lower,), (upper,)) = self.errors(sizes), self.band(sizes)
        return Expectation(int(sizes[0]), float(error), float(lower), float(upper))

    def plan(self, target: float) -> PredictedPlan:
        """The answer for a target: samples, chances, and what to do.

        Parameters
        ----------
        target : float
            Mean squared error to reach, above 0.

        Returns
        -------
        PredictedPlan
            Its `middle` is None where the target is called out of reach, since the probability to
            meet it is below 15%.
        """
        remedy = "give the mean squared error to reach"
        goal = real("target", target, above=0, remedy=remedy)
        doublings = math.log2(FARTHEST_N / _START)
        grid = np.geomspace(_START, FARTHEST_N, 1 + int(_PER_DOUBLING * doublings))
        last = 0 if self.pilot is None else int(self.pilot.sizes[-1])
        chances = table(partial(self.met, goal=goal), np.unique(np.round(grid)))
        return PredictedPlan(self.model, goal, chances, last, self.check)

    def first_check(self) -> Expectation:
        """What a first measurement shows if noise and images are as assumed.

        Returns
        -------
        Expectation
            At N = 16, or at the nearest N at which the theory holds.
        """
        return self.expected(math.ceil(min(max(FIRST, self.valid_from), self.valid_to)))

    @property
    def check(self) -> Expectation | None:
        """The first check, unless a pilot has answered it."""
        return self.first_check() if self.pilot is None else None

    def explain(
        self, target: float | None = None, sure: float = 0.9, cost: float | None = None
    ) -> str:
        """The prediction in sentences: the answer, how sure it is, and its notes.

        Parameters
        ----------
        target : float, optional
            Mean squared error to reach; without it, the expected error at as many samples as there
            were examples is stated.
        sure : float, default 0.9
            The chance with which samples are to be enough, from 0.5 to 0.99.
        cost : float, optional
            Price of one sample.

        Returns
        -------
        str
            Sentences on one line; without a pilot, the last says what to measure first.
        """
        sentences, reasons = self.advised([] if target is None else [target], sure, cost)
        return " ".join([*sentences, *trust_words(self), *self.notes, *reasons])

    def outlook(self) -> str:
        """The error at as many samples as there were examples, and the floor unless in doubt."""
        then = self.expected(max(self.examples, _START))
        floor = "" if self.doubted else f"; its curve levels off at {value(self.floor)}"
        return f"{expectation_words(self.model, then)}{floor}."

    def remark(self, advice: Recommendation) -> str:
        """The floor, where it is the reason to stop."""
        stands = advice.action == "stop" and self.floor > 0 and not self.doubted
        return f"Its curve levels off at {value(self.floor)}." if stands else ""

    # --- The pilot -------------------------------------------------------------------------------

    def with_pilot(self, pilot: Curve) -> "Prediction":
        """The same, corrected by measured errors.

        Parameters
        ----------
        pilot : Curve
            Mean squared errors over N, of one or more seeds.

        Returns
        -------
        Prediction
            A copy that uses the pilot.

        Raises
        ------
        KoriskError
            If the pilot is no `Curve`, or is in another unit than the mean squared error.
        """
        return replace(self, pilot=pilot)

    @property
    def checks(self) -> tuple[TheoryCheck, ...]:
        """The pilot's mean errors beside the computed ones."""
        if self.pilot is None:
            return ()
        # One row per size: N, computed and measured error.
        sizes = self.pilot.sizes
        columns = sizes.tolist(), self.computed(sizes).tolist(), self.pilot.means.tolist()
        return tuple(TheoryCheck(*row) for row in zip(*columns, strict=True))

    @cached_property
    def trust(self) -> float:
        """The weight of the theory against curves fitted to the pilot; one without a pilot."""
        if self.tested_on is None or not self.tested or not self.rivals:
            return 1.0
        # One per cent at least: no theory is exact, and a precise pilot must not refute it.
        misfit = misfit_of(self, _TELLING)
        rival = posterior(self.tested_on, _RIVAL)
        constants = 0.5 * (len(misfit.real) - 1) * math.log(2 * math.pi)
        # The level of a fitted curve is free, where the theory predicts it.
        odds = misfit.evidence - (rival.evidence - constants - math.log(_LEVEL))
        return trust(odds, _BELIEVED)

    @property
    def tested(self) -> bool:
        """Whether the pilot has enough sizes to support or contradict the theory."""
        return self.tested_on is not None and len(self.tested_on.sizes) >= FIT_SIZES

    @cached_property
    def doubted(self) -> bool:
        """Whether the pilot contradicts the theory."""
        # With enough sizes, the weight against fitted curves decides.
        if self.pilot is None or (self.tested and self.rivals):
            return self.trust < _DOUBTED
        if self.tested_on is None:
            return False
        # Too few sizes to fit rivals: does a measured error lie in the tails of the prediction?
        alone, n, means = replace(self, pilot=None), self.tested_on.sizes, self.tested_on.means
        low, high = alone.quantile(n, _RARE), alone.quantile(n, 1 - _RARE)
        return bool(((means < low) | (means > high)).any())

    @cached_property
    def tested_on(self) -> Curve | None:
        """The part of the pilot on which the theory is tested: where it holds.

        Where none is left, or fewer than curves can be fitted to, also those below, where it is a
        rough guide.
        """
        if self.pilot is None:
            return None
        # (K,) measurements of the pilot inside the range of the theory.
        valid = (self.pilot.n >= self.valid_from) & (self.pilot.n <= self.valid_to)
        if len(np.unique(self.pilot.n[valid])) < (FIT_SIZES if self.rivals else 1):
            valid = self.pilot.n <= self.valid_to
        if not valid.any():
            return None
        seeds = [seed for seed, there in zip(self.pilot.seed, valid, strict=True) if there]
        return Curve(self.pilot.n[valid], self.pilot.error[valid], seeds)

    @cached_property
    def _misfit(self) -> Misfit:
        return misfit_of(self)

    @cached_property
    def _fitted(self) -> Posterior | None:
        """Curves fitted to the pilot alone, which are mixed with the theory."""
        if self.pilot is None or len(self.pilot.sizes) < FIT_SIZES or not self.rivals:
            return None
        return posterior(self.pilot)

    @cached_property
    def extended(self) -> Posterior:
        """Curves fitted to the pilot, and to the theory at doublings beyond it, while it holds."""
        assert self.pilot is not None
        # Doublings of the pilot's largest N, as far as the theory holds.
        more = self.pilot.sizes[-1] * 2.0 ** np.arange(1, 40)
        more = np.floor(more[more <= self.valid_to])
        if not len(more):
            return posterior(self.pilot)
        levels = (TAIL, 0.25, 0.5, 0.75, 1 - TAIL)
        middle = np.log(self.errors(more))
        # The five stand for seeds, whose mean is surer than each: spread out by as much.
        logs = [middle + AS_SEEDS * (np.log(self.quantile(more, p)) - middle) for p in levels]
        errors = np.exp(logs).ravel()
        labels = [f"computed {p}" for p in levels for _ in more]
        # Quantiles of the prediction at each N serve as seeds of a curve that is merged in.
        n = np.tile(more, len(levels))
        added = Curve(n, errors, labels, self.pilot.model, self.pilot.metric)
        return posterior(self.pilot.merged(added))

    def _law(self, n: Array) -> Law:
        """The law of the log error at each N."""
        # log error = log computed error + misfit: the misfit's law, moved by the computed curve.
        base, misfit = np.log(self.computed(n)), self._misfit.law(n)

        def computed(log_error: Array) -> Array:
            return misfit.under(log_error - base)

        law = Law(computed, base + misfit.low, base + misfit.high)
        if self._fitted is not None:
            law = mixed([self.trust, 1 - self.trust], [law, self._fitted.law(n)])
        beyond = self.pilot is not None and self.pilot.sizes[-1] > self.valid_to
        if beyond:
            law = self._above_pilot(law, n)
        far = n > self.valid_to
        if not far.any():
            return law
        # Beyond the end of the theory its fall is believed by half; else the error stays. With a
        # pilot of enough sizes, curves fitted to it and to the theory up to its end extrapolate,
        # and the fall has a third, or nothing where the pilot went there. What is met stays met.
        end = self._law(np.full(len(n), self.valid_to))
        if self._fitted is None:
            later = mixed([0.5, 0.5], [law, end])
        else:
            later = self.extended.law(n)
            if not beyond:
                later = mixed([_FALL, 1 - _FALL], [law, later])

        def under(log_error: Array) -> Array:
            there = np.maximum(later.under(log_error), end.under(log_error))
            return np.where(far, there, law.under(log_error))

        low = np.min([law.low, end.low, later.low], axis=0)
        return Law(under, low, np.max([law.high, end.high, later.high], axis=0))

    def _above_pilot(self, law: Law, n: Array) -> Law:
        """The law with lower limits from a pilot beyond the theory's end: a curve does not rise.

        So the error at N is at least that at the next of the sizes that were measured there.
        """
        assert self.pilot is not None
        measured = log_errors(self.pilot, _LEAST_NOISE)
        past = measured.n > self.valid_to
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


def checked_sizes(n: ArrayLike) -> Array:
    """(M,) numbers of samples, at least one each, as floats."""
    try:
        sizes = np.atleast_1d(np.asarray(n, dtype=float))
    except (TypeError, ValueError):
        sizes = np.full(1, np.nan)
    if sizes.ndim != 1 or not (np.isfinite(sizes).all() and (sizes >= 1).all()):
        raise invalid("n", "be numbers of training samples >= 1", n, "check them")
    return sizes


def misfit_of(prediction: Prediction, least_noise: float = _LEAST_NOISE) -> Misfit:
    """How far the theory is off, from the rehearsal and from the pilot's log errors over N."""

    def over_computed(measured: LogErrors, first: float) -> LogErrors:
        """Logarithms over the computed curve, where that holds."""
        valid = (measured.n >= first) & (measured.n <= prediction.valid_to)
        n = measured.n[valid]
        logs = measured.log_error[valid] - np.log(prediction.computed(n))
        return LogErrors(n, logs, measured.variance[valid])

    # The pilot counts below `valid_from` too: it measures reality, however rough the theory.
    rehearsal = over_computed(prediction.rehearsal, prediction.valid_from)
    measured = NOTHING_MEASURED
    if prediction.tested_on is not None:
        measured = over_computed(log_errors(prediction.tested_on, least_noise), 1.0)
    examples = prediction.examples if prediction.independent is None else prediction.independent
    return Misfit(rehearsal, measured, prediction.level, prediction.belief, examples=examples)


def log_errors(pilot: Curve, least_noise: float) -> LogErrors:
    """Log mean errors of a pilot, merged to as many sizes as fitted curves use."""
    variance = relative_variance(pilot)
    if variance is None:
        variance = np.full(len(pilot.sizes), _ONE_SEED**2)
    sizes, logs = pilot.sizes.astype(float), np.log(pilot.means)
    variance = np.maximum(variance, least_noise**2)
    if len(sizes) <= MOST_SIZES:
        return LogErrors(sizes, logs, variance)
    # Distances are doublings below the largest N, as in the posterior of fitted curves.
    doublings, logs, variance = thinned(np.log2(sizes[-1] / sizes), logs, variance)
    return LogErrors(sizes[-1] * 2.0**-doublings, logs, variance)


def finite_or_none(number: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return number if math.isfinite(number) else None


# --- Words ---------------------------------------------------------------------------------------


def expectation_words(model: str, then: Expectation) -> str:
    """The expected error of a model at one N, with its band, as the start of a sentence."""
    band = f"{value(then.lower)} to {value(then.upper)}"
    return f"{model} has an expected error of {value(then.value)} at N = {then.n:,} (90%: {band})"


def trust_words(prediction: Prediction) -> list[str]:
    """Whether a pilot agrees with the theory; nothing without a pilot."""
    if not prediction.checks:
        return []
    # One factor between all errors suggests another unit rather than a wrong theory.
    ratios = [check.ratio for check in prediction.checks]
    middle = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    if max(ratios) / min(ratios) <= _ONE_SCALE and not 1 / _FAR < middle < _FAR:
        return [
            f"All errors of {prediction.model}'s pilot are about {value(1 / middle)} times the "
            "computed ones: are its images in another unit, or is it a sum instead of a mean? As "
            "it is, it cannot be compared with another model."
        ]
    worst = max(prediction.checks, key=lambda check: abs(math.log(check.ratio)))
    factor = times(max(worst.ratio, 1 / worst.ratio))
    stands = "contradicts" if prediction.doubted else f"is within a factor of {factor} of"
    if prediction.tested:
        weight = chance(prediction.trust)
        then = f"The theory has a weight of {weight} against curves fitted to the pilot"
    elif prediction.doubted:
        then = f"Measure more than {len(ratios)} sizes before you rely on this"
    else:
        then = (
            f"With fewer than {FIT_SIZES} sizes a pilot moves the level of the curve, and cannot "
            "tell whether its shape is right"
        )
    return [
        f"The pilot {stands} the theory of {prediction.model}: at N = {worst.n:,} it measured "
        f"{value(worst.measured)} where {value(worst.computed)} was computed. {then}."
    ]
