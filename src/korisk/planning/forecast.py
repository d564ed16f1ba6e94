"""The forecast: the law of the log error at every N, from a pilot, a rehearsal, or both.

It computes laws and nothing else: plans, comparisons and pages read one table of chances that is
made of them. `PilotLaw` is the source of a pilot's laws; a rehearsal has one of its own. Inside a
pilot, `Measured` decides; beyond it, the posterior of `futures`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._checks import LARGEST_N, count, real, require
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.curves.unit import LARGEST_ERROR, SMALLEST_ERROR, Unit
from korisk.errors import KoriskError, invalid
from korisk.planning import words
from korisk.planning.futures.law import Law, joined, mixed, normals
from korisk.planning.futures.posterior import HORIZON, Posterior, posterior
from korisk.planning.futures.related import Relatives, relatives
from korisk.planning.pilot import Longer, doubt

Array = NDArray[np.float64]
Basis = Literal["pilot", "rehearsal", "both"]

LEAST_SIZES = 3  # distinct N that a curve needs to be extrapolated
_SETTLING = 4.0  # halvings of the last mean's own weight per doubling of N
_PER_DOUBLING = 8  # sizes at which chances are tabulated beyond a pilot
_BETWEEN = (0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)  # and between measured sizes
_FEW = 16  # gap between measured sizes up to which every whole N is in the table
_NODES = (np.arange(16) + 0.5) / 16  # levels of the quantiles that represent the law of F
_SMOOTHEST = 400.0  # largest concentration
_ROUGHEST = 0.02  # smallest concentration
_LEAST_NOISE = 1e-5  # of a mean, relative: seeds that agree exactly still have rounding
_EASY = 3.0  # times the largest pilot error: easier targets are probably in another unit
_HARD = 0.1  # times the smallest pilot error: so may be harder ones
# What a target far from every measurement may mean: the first two in every unit, the others where
# the metric is an error. Where it is a score, an error may be meant.
_MEANINGS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("in percent", lambda t: t / 100),
    ("as a fraction of one", lambda t: t * 100),
    ("as a score of which larger is better", lambda t: 1 - t),
    ("as a score in percent", lambda t: 1 - t / 100),
    ("in decibels", lambda t: 10.0 ** (-t / 10)),
    ("as a root of the metric", np.square),
    ("as a square of the metric", np.sqrt),
)


class Source(Protocol):
    """Where the laws of a forecast come from."""

    def law(self, n: Array) -> Law:
        """The law of the log error at each N."""

    def lasting(self, n: Array) -> Law:
        """The law of the largest log error from each N on: a target above it stays met."""

    @property
    def floor(self) -> float:
        """The estimated floor of the error."""


@dataclass(frozen=True)
class Expectation:
    """The expected error at N with its 90% band, in the user's unit.

    Parameters
    ----------
    n : int
        Training samples.
    value : float
        The expected error, accuracy or other metric.
    lower, upper : float
        The ends of its 90% band, lower <= upper.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> then = kr.forecast(pilot).at(1024)
    >>> then.n, round(then.value, 3), then.lower < then.value < then.upper
    (1024, 0.003, True)
    """

    n: int
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """The error at every N, as a distribution: `Forecast` without its plans."""

    source: Source
    model: str
    metric: str
    unit: Unit
    sizes: Array = field(repr=False)
    curve: Curve | None = None
    simulated: Curve | None = None
    related: tuple[Curve, ...] = ()
    doubt: str = ""
    undertrained: bool = False
    notes: tuple[str, ...] = ()
    shared: tuple[str, float] = ("", 0.0)
    population: str = ""
    longer: Longer | None = None
    lowered: bool = False  # whether it is of the longer training

    @property
    def subject(self) -> str:
        """What answers are about: the model, and the simulated images if they alone are known."""
        return words.subject(self.model, self.population)

    @property
    def evidence(self) -> Curve:
        """The measured curve, or else the simulated one."""
        curve = self.simulated if self.curve is None else self.curve
        assert curve is not None
        return curve

    @property
    def basis(self) -> Basis:
        """What it rests on: a pilot, a rehearsal, or both."""
        if self.simulated is None:
            return "pilot"
        return "rehearsal" if self.curve is None else "both"

    @property
    def measured(self) -> int:
        """The largest N with a real error; 0 before a scan."""
        return 0 if self.curve is None else int(self.curve.sizes[-1])

    @property
    def last(self) -> int:
        """The largest N that was measured, or simulated: beyond it the error is extrapolated."""
        rehearsed = 0 if self.simulated is None else int(self.simulated.sizes[-1])
        return max(self.measured, rehearsed)

    @property
    def horizon(self) -> int:
        """Largest N that the forecast covers."""
        return int(self.sizes[-1])

    @cached_property
    def floor(self) -> float:
        """The estimated floor of the error, in the user's unit."""
        return float(self.unit.from_error(self.source.floor))

    @property
    def trust(self) -> float | None:
        """The weight of related curves; None without any, 0 if none is used."""
        if not self.related:
            return None
        relatives = getattr(self.source, "relatives", None)
        return 0.0 if relatives is None or self.doubt else float(relatives.trust)

    def law(self, n: Array) -> Law:
        """The law of the log error at each N, (M,): natural logarithms, not in the user's unit."""
        return self.source.law(n)

    def met(self, n: Array, goal: float) -> Array:
        """(M,) the probability that the error is at most the goal at each N and stays there."""
        # All targets share the law at the sizes of the table.
        law = self._lasting if n is self.sizes else self.source.lasting(n)
        return np.minimum(law.under(np.full(len(n), math.log(goal))), 1.0)

    @cached_property
    def _lasting(self) -> Law:
        return self.source.lasting(self.sizes)

    def quantile(self, n: ArrayLike, p: float) -> Array:
        """(M,) the p-quantile of the error at each N."""
        return np.asarray(np.exp(self.law(np.atleast_1d(np.asarray(n, dtype=float))).quantile(p)))

    @cached_property
    def reached(self) -> Callable[[int, float], float]:
        """The error, in the user's unit, that N samples reach with probability p."""
        # All targets ask for the same few.
        return cache(lambda n, p: float(self.unit.from_error(self.quantile([n], p).item())))

    def at(self, n: float) -> Expectation:
        """The expected error at one N with its 90% band, in the user's unit.

        Parameters
        ----------
        n : int
            Training samples, up to `horizon`.

        Returns
        -------
        Expectation
            Its value is the median.

        Raises
        ------
        KoriskError
            If N is out of range.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> kr.forecast(pilot).at(1024).n
        1024
        """
        size = self.sample_count(n)
        law = self.law(np.array([float(size)]))
        ends = np.exp([law.quantile(p).item() for p in (0.5, 0.05, 0.95)])
        # In units in which larger is better, the ends of the band change their order.
        value, *band = self.unit.from_error(ends).tolist()
        return Expectation(size, value, min(band), max(band))

    def sample_count(self, n: object) -> int:
        """Check that N is a whole number within the range of the forecast."""
        remedy = self.doubt or "count samples, within the range of the forecast"
        least = 2 if self.simulated is None else int(self.sizes[0])
        return count("n", n, at_least=least, at_most=self.horizon, remedy=remedy)


@dataclass(frozen=True, eq=False)
class Measured:
    """The law of the error inside a pilot, where the measured means decide.

    At a measured N the log error is normal around the measured mean, with the variance estimated
    from the seeds. Between two neighbouring sizes the curve falls from one mean to the next; the
    fraction F of the fall that is complete at a share t of the way (in log N) follows a Dirichlet
    process, Eq. (eq:between),

        F ~ Beta(a t, a (1 - t)).

    Its concentration a is large where the slopes of neighbouring gaps agree: the curve is nearly
    straight. It is small where this gap falls much faster than its neighbours: the curve has a step
    at an unknown place. For a step, t is replaced by Jeffreys' law of its place,
    (2 / pi) arcsin(sqrt(t)), which allows the whole gap.

    `noise` is the relative deviation of a mean for pilots with one seed at every N.
    """

    curve: Curve
    noise: float

    @cached_property
    def _variance(self) -> Array:
        variance = relative_variance(self.curve)
        if variance is None:
            variance = np.full(len(self.curve.sizes), self.noise**2)
        return np.maximum(variance, _LEAST_NOISE**2)

    @cached_property
    def _lasting(self) -> NDArray[np.intp]:
        """(K,) for each size, the index of the largest mean from that size on."""
        means = self.curve.means
        return np.array([k + means[k:].argmax() for k in range(len(means))])

    def law(self, n: Array) -> Law:
        """The law of the log error at each N inside the pilot."""
        return self._between(n, np.arange(len(self.curve.sizes)))

    def lasting(self, n: Array) -> Law:
        """The law of the largest log error from each N on: a target above it stays met."""
        sizes = self.curve.sizes
        here = self._between(n, self._lasting)
        after = self._between(sizes[np.searchsorted(sizes, n)].astype(float), self._lasting)

        def under(log_error: Array) -> Array:
            # What the next measured N misses was not met for good before it.
            return np.minimum(here.under(log_error), after.under(log_error))

        return Law(under, np.minimum(here.low, after.low), np.maximum(here.high, after.high))

    def _between(self, n: Array, of_size: NDArray[np.intp]) -> Law:
        """The law between the means that count at each size."""
        from scipy.special import betaincinv

        logs, variance = np.log(self.curve.means)[of_size], self._variance[of_size]
        log_n, sizes = np.log(n), np.log(self.curve.sizes.astype(float))
        gap = np.clip(np.searchsorted(sizes, log_n, side="right") - 1, 0, len(logs) - 2)
        share = np.clip((log_n - sizes[gap]) / (sizes[gap + 1] - sizes[gap]), 0.0, 1.0)
        # Relative difference of each gap's slope from those of its neighbours, (K - 1,).
        slope = np.diff(logs) / np.diff(sizes)
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
        return normals(np.full(len(_NODES), 1.0 / len(_NODES)), mean, np.sqrt(spread))


@dataclass(frozen=True)
class PilotLaw:
    """The laws of a pilot: measured means inside it, the posterior and related curves beyond."""

    curve: Curve
    related: tuple[Curve, ...] = ()

    @cached_property
    def posterior(self) -> Posterior:
        """The grid posterior over the pilot's continuation."""
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

    @property
    def last(self) -> float:
        """The largest N of the pilot."""
        return float(self.curve.sizes[-1])

    @property
    def horizon(self) -> int:
        """Largest N that the pilot is extrapolated to."""
        return int(self.last if self.doubt else min(int(HORIZON * self.last), LARGEST_N))

    @cached_property
    def floor(self) -> float:
        """The estimated floor of the error."""
        if self.related and not self.doubt:  # they change the shape, and with it the floor
            return float(np.exp(self.law(np.array([float(self.horizon)])).quantile(0.5)).item())
        return self.posterior.floor_quantile(0.5)

    def law(self, n: Array) -> Law:
        """The law of the log error at each N."""
        return self._joined(n, self.measured.law)

    def lasting(self, n: Array) -> Law:
        """The law of the largest log error from each N on; inside, later means decide that too."""
        return self._joined(n, self.measured.lasting)

    def _joined(self, n: Array, measured: Callable[[Array], Law]) -> Law:
        # Below the first size the posterior applies as well: nothing was measured there.
        inside = (n >= self.curve.sizes[0]) & (n <= self.last)
        if inside.all():
            return measured(n)
        beyond = self._beyond(n[~inside])
        return joined(inside, measured(n[inside]), beyond) if inside.any() else beyond

    @cached_property
    def _start(self) -> tuple[Law, list[tuple[float, Posterior | Relatives]], list[Array]]:
        """At the pilot's last N: the measured law, the sources of futures, and their means."""
        last = np.array([self.last])
        # Two hypotheses, the pilot's own curves and its relatives' shape, mixed by their trust.
        trust = 0.0 if self.relatives is None else self.relatives.trust
        sources: list[tuple[float, Posterior | Relatives]] = [(1 - trust, self.posterior)]
        sources += [] if self.relatives is None else [(trust, self.relatives)]
        return self.measured.law(last), sources, [source.centre(last) for _, source in sources]

    def _beyond(self, n: Array) -> Law:
        """The law outside the pilot: from its last mean to the fitted curves within a doubling."""
        start, sources, centres = self._start
        fitted = mixed([share for share, _ in sources], [source.law(n) for _, source in sources])
        # The start moves down with the mean of the fitted curves, and keeps its own spread.
        falls = zip(sources, centres, strict=True)
        fall = sum(share * (source.centre(n) - last) for (share, source), last in falls)
        start_weight = np.where(n > self.last, np.exp2(-_SETTLING * np.log2(n / self.last)), 0.0)

        def under(log_error: Array) -> Array:
            later = fitted.under(log_error)
            first = start.under(log_error - fall)
            return np.asarray(start_weight * first + (1 - start_weight) * later)

        low, high = np.minimum(fitted.low, start.low + fall), fitted.high
        return Law(under, low, np.maximum(high, start.high + fall))

    def sizes(self) -> Array:
        """N at which chances are tabulated: measured ones, some between, eight per doubling on."""
        sizes, horizon = self.curve.sizes.astype(float), float(self.horizon)
        groups = [sizes]
        for low, high in pairwise(sizes):
            if high - low <= _FEW:
                groups.append(np.arange(low + 1, high))
            elif len(sizes) <= 2 * _FEW:
                groups.append(low * (high / low) ** np.array(_BETWEEN))
        steps = np.arange(1, int(_PER_DOUBLING * math.log2(horizon / self.last)) + 1)
        groups.append(self.last * 2.0 ** (steps / _PER_DOUBLING))
        # The probability may jump right after the last mean, where the posterior takes over.
        return np.unique(np.concatenate([*groups, [min(self.last + 1, horizon), horizon]]))


# --- Checks ---------------------------------------------------------------------------------------


def check_curve(curve: object) -> None:
    """Raise if the argument is not a Curve, such as a path to one."""
    remedy = "read one with korisk.Curve.read(path)"
    require(isinstance(curve, Curve), "curve", "be a Curve", curve, remedy)


def level_of(sure: float, name: str = "sure") -> float:
    """Check a requested probability."""
    return real(name, sure, at_least=0.5, at_most=0.99, remedy="ask for 0.9, for example")


def target_error(curve: Curve, target: object) -> float:
    """Check a target in the curve's unit, and return it as an error."""
    check_target([curve], target)
    return float(curve.unit.to_error(target))  # type: ignore[arg-type]


def check_target(curves: Sequence[Curve], target: object) -> None:
    """Raise if a target is impossible in the unit of the curves, or looks like another unit.

    A target that is worse than every measurement raises if it is plausible in another unit. One
    that is far too hard is a legitimate question; `other_unit` gives a hint for it.
    """
    for curve in curves:
        check_curve(curve)
        remedy = f"give the {curve.unit.noun} that you want to reach"
        # A list would fail as "not a number"; say instead that targets are asked one by one.
        several = np.ndim(target) if isinstance(target, list | tuple | np.ndarray) else 0
        value = real("target", target, remedy="ask for one target at a time" if several else remedy)
        error = float(curve.unit.to_error(value))
        hint, rule = other_unit(curve, value), f"be {curve.unit.rule}"
        if not SMALLEST_ERROR <= error <= LARGEST_ERROR:
            raise invalid("target", rule, value, hint or remedy, got=f"{value:.6g}")
        if hint and all(error > measured.means.max() for measured in curves):
            raise KoriskError(f"target {value:.6g} is worse than all that was measured; {hint}")


def other_unit(curve: Curve, value: float) -> str:
    """A hint that a target far from the pilot may be in another unit; empty where it may not."""
    unit, low, high = curve.unit, float(curve.means.min()), float(curve.means.max())
    error, worst = float(unit.to_error(value)), float(unit.from_error(high))
    # A score is bounded, and so is its error: compare the scores themselves.
    tiny_score = unit.larger_is_better and value < worst / 10 and worst > 0
    if _HARD * low <= error <= high or (high < error <= _EASY * high and not tiny_score):
        return ""
    scores = (*_MEANINGS[:2], ("as an error", unit.from_error))
    for meaning, convert in scores if unit.larger_is_better else _MEANINGS:
        with np.errstate(all="ignore"):
            converted = float(convert(np.array(value)))
        if 0.3 * low <= float(unit.to_error(converted)) <= high:
            ends = sorted(unit.from_error([low, high]).tolist())
            return (
                f"the pilot runs from {ends[0]:.4g} to {ends[1]:.4g}: was the target given "
                f"{meaning}? then ask for {converted:.4g}"
            )
    return ""


def check_goal(outlooks: Iterable[Outlook], target: object) -> None:
    """Raise if a target is impossible, or in the range of none and so perhaps in another unit.

    The range of simulated errors includes the band of real ones: they may be far higher.
    """
    known = []
    for outlook in outlooks:
        known += [curve for curve in (outlook.curve, outlook.simulated) if curve is not None]
        if outlook.curve is None:
            first = outlook.sizes[:1]
            known.append(Curve.of_errors(first, outlook.quantile(first, 0.95), unit=outlook.unit))
    check_target(known, target)


def checked_relatives(curve: Curve, related: Iterable[Curve]) -> tuple[Curve, ...]:
    """Distinct related curves, checked to belong to the pilot and to be others than it."""
    try:
        distinct = tuple(dict.fromkeys(related))  # a curve given twice is no additional evidence
    except TypeError:
        raise invalid("related", "be a list of curves", related, "or leave it out") from None
    for relative in distinct:
        check_curve(relative)
        rule = f"be in the pilot's unit, {curve.unit.name!r}"
        same = relative.unit.law == curve.unit.law
        require(same, "a related curve", rule, relative.unit.name, "read both in one unit")
        relative.require(LEAST_SIZES, "a related curve")
        # The pilot itself, maybe with further sizes, would confirm itself.
        inside = relative.sizes <= curve.sizes[-1]
        sizes, means = relative.sizes[inside], relative.means[inside]
        if np.array_equal(sizes, curve.sizes) and np.allclose(means, curve.means, 1e-9, 0):
            rule = "be another measurement than the pilot"
            remedy = "give a curve of the same network on other data"
            raise invalid("a related curve", rule, relative, remedy, got="the pilot's own means")
    return distinct
