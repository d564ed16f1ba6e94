"""The numbers for one target, read off one table of chances, and what to do about it.

A future is one learning curve beyond the pilot, drawn from the forecast; `Chances` tabulates the
share of futures in which the target is met by N. The advice is one action with one number: collect
N samples; measure one more size; train longer; unlikely; stop; or: it is not known, because. The
first that applies:

1. No number for a pilot that cannot be extrapolated, or for a target below rounding.
2. Measured means that meet the target answer it, whatever else limits the error: with the number of
   samples, or with more seeds at the size from which on they meet it.
3. Where longer training lowers the error at the same N, training comes before data, unless the
   smallest N meets the target as it is.
4. A number of samples with the requested probability is collected, within the range of N in which
   odds were checked.
5. Without such a number: where a floor is shown and hardly a future reaches the target, more data
   will not help; where few futures do, it is unlikely; a run that shows what limits the error comes
   before new samples, and otherwise twice the largest N decides. None of it denies a number of
   samples that the plan has.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from korisk._checks import LARGEST_N
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.planning import words
from korisk.planning.forecast import Outlook, level_of
from korisk.planning.pilot import Limit, Longer, findings, limit, no_learning, shows_floor
from korisk.texts import counted

Array = NDArray[np.float64]
Action = Literal["collect", "measure", "train", "unlikely", "stop", "unknown"]

NEAR = 16  # times the largest known N: beyond it, odds were not checked
LEAST_SEEDS = 3  # for a measurement that is to settle a question
UNLIKELY = 0.15  # reach below which a target is unlikely,
HOPELESS = 0.01  # and below which data are said not to reach it, if a floor is shown
FIRST = 16  # the smallest N of a first measurement
EASY = 10.0  # times the largest error: an easier target is probably in another unit
TAIL = 0.05  # left out at each end of a range
LEVELS = (0.8, 0.9, 0.95)  # probabilities that reports show
_REFINEMENTS = 3  # passes; each divides steep intervals by six
_JUMP = 0.04  # largest step of the probability between neighbouring sizes
_SPLIT = np.arange(1, 6) / 6  # positions of new sizes between two, in log N


@dataclass(frozen=True, eq=False)
class Chances:
    """The probability that a target is met by N: a table, interpolated linearly in log N."""

    n: Array  # (M,) ascending
    p: Array  # (M,)

    def at(self, n: float) -> float:
        """The probability at N; constant beyond the ends of the table."""
        return float(np.interp(math.log(n), np.log(self.n), self.p))

    def first(self, p: float) -> float:
        """The N, not rounded, at which the probability first reaches p; infinite if never."""
        return float(self.each_first(np.array([p])).item())

    def each_first(self, p: Array) -> Array:
        """The same for each of several probabilities."""
        after = np.argmax(self.p >= p[:, None], axis=1)
        before, logs = np.maximum(after - 1, 0), np.log(self.n)
        # Inverse of the linear interpolation in `at`.
        steps = np.where(after > 0, self.p[after] - self.p[before], 1.0)
        fraction = (p - self.p[before]) / steps
        n = np.exp(logs[before] + fraction * (logs[after] - logs[before]))
        return np.where(self.p[after] < p, np.inf, np.where(after == 0, self.n[0], n))

    def smallest(self, p: float) -> int | None:
        """The smallest whole N with at least probability p; None if there is none."""
        crossing = self.first(p)
        if math.isinf(crossing):
            return None
        n = max(math.floor(crossing), 1)  # then upward: the floor has a probability below p
        while n < self.n[-1] and self.at(n) < p:
            n += 1
        return n if self.at(n) >= p else None

    def interval(self) -> tuple[float, float]:
        """The 90% range of the N that meets the target; an infinite end was never reached."""
        # Rounded outward, so that the range has at least its nominal probability.
        lower, upper = self.first(TAIL), self.first(1 - TAIL)
        lower = max(math.floor(lower), int(self.n[0])) if math.isfinite(lower) else lower
        return lower, math.ceil(upper) if math.isfinite(upper) else upper


def table(probability: Callable[[Array], Array], n: Array) -> Chances:
    """Tabulate a probability over N, with extra sizes where it is steep."""
    # Between sizes the table is interpolated. Divide steep intervals, until a step of the
    # probability is so small that the N of a level is accurate.
    p = probability(n)
    for _ in range(_REFINEMENTS):
        steep = np.flatnonzero((np.abs(np.diff(p)) > _JUMP) & (np.diff(n) > 1.0))
        if not len(steep):
            break
        new_sizes = n[steep] * (n[steep + 1] / n[steep]) ** _SPLIT[:, None]
        new_sizes = np.setdiff1d(new_sizes.ravel(), n)
        n, p = np.append(n, new_sizes), np.append(p, probability(new_sizes))
        order = np.argsort(n)
        n, p = n[order], p[order]
    # A target that is met by N is met by every larger N: the probability cannot fall.
    return Chances(n, np.maximum.accumulate(p))


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers for one target, all read off one table of chances: `Plan` without its advice."""

    forecast: Outlook = field(repr=False)
    target: float
    training: Curve | None = field(default=None, repr=False)
    longer: Longer | None = field(default=None, repr=False)

    @cached_property
    def goal(self) -> float:
        """The target as an error."""
        return float(self.forecast.unit.to_error(self.target))

    @cached_property
    def chances(self) -> Chances:
        """The probability that the target is met by N."""
        forecast = self.forecast
        odds = table(lambda n: forecast.met(n, self.goal), forecast.sizes)
        return Chances(odds.n, np.zeros_like(odds.p)) if self.below_rounding else odds

    # --- What is known ---------------------------------------------------------------------------

    @property
    def curve(self) -> Curve | None:
        """The pilot, if there is one."""
        return self.forecast.curve

    @property
    def below_rounding(self) -> bool:
        """Whether the target lies below rounding, where errors have no meaning."""
        return bool(self.goal < ROUNDING * self.forecast.evidence.means.max())

    @property
    def met_in_pilot(self) -> bool:
        """Whether the pilot's last mean meets the target, so that measured means answer it."""
        return self.curve is not None and bool(self.curve.means[-1] <= self.goal)

    @cached_property
    def doubt(self) -> str:
        """Why there is no answer although the target may be reachable; empty where there is one."""
        if self.below_rounding:
            return "The target lies below rounding, where errors have no meaning."
        if self.met_in_pilot or self.curve is None:
            return ""
        flat = self.forecast.simulated is None and no_learning(self.curve)
        noun = self.forecast.unit.noun
        return self.forecast.doubt or (words.reason("flat", noun=noun) if flat else "")

    @property
    def between(self) -> tuple[int, int] | None:
        """The measured N between which the means pass the target for good; None if they do not."""
        if not self.met_in_pilot or self.curve is None:
            return None
        missed = np.flatnonzero(self.curve.means > self.goal)
        after = int(missed[-1]) + 1 if missed.size else 0
        before, after = self.curve.sizes[[max(after - 1, 0), after]].tolist()
        return (before, after) if before < after else None

    @cached_property
    def limit(self) -> Limit | None:
        """What limits the error, by the pilot, its training errors and a longer run."""
        if (longer := self.forecast.longer) is not None:
            return Limit("training", words.reason("longer", longer))
        if self.curve is None or self.forecast.simulated is not None:
            return None
        return limit(self.curve, self.goal, training=self.training, longer=self.longer)

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """Anomalies of the pilot, in sentences."""
        return () if self.curve is None else findings(self.curve)

    # --- Numbers ---------------------------------------------------------------------------------

    def samples(self, sure: float = 0.9) -> int | None:
        """The smallest N with `probability(N)` of at least `sure`; None where there is no answer.

        Parameters
        ----------
        sure : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        int or None
            The number of samples, over all futures.
        """
        level = level_of(sure)
        return None if self.doubt else self.chances.smallest(level)

    def probability(self, n: float) -> float:
        """The probability that the target is met by N, over all futures.

        Parameters
        ----------
        n : int
            Training samples, within the range of the forecast.

        Returns
        -------
        float
            Zero below the smallest N that was measured or simulated: nothing is known there.
        """
        count = self.forecast.sample_count(n)
        return self.chances.at(count) if count >= self.chances.n[0] else 0.0

    @cached_property
    def even(self) -> int | None:
        """The N with even odds: as likely enough as not. None if no N has them."""
        return self.samples(0.5)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 90% range of N: a chance of 5% at its lower end, 95% at its upper end."""
        if self.below_rounding:
            return math.inf, math.inf
        return (self.forecast.last, math.inf) if self.doubt else self.chances.interval()

    @property
    def lower(self) -> float:
        """N by which the target is met with at most 5%; infinite where no N has that."""
        return self.interval[0]

    @property
    def upper(self) -> float:
        """N by which the target is met with at least 95%; infinite where no N has that."""
        return self.interval[1]

    @property
    def reach(self) -> float:
        """The chance that the target can be reached at all; nan where that is not known."""
        return math.nan if self.doubt else float(self.chances.p[-1])

    @property
    def met_at_smallest(self) -> bool:
        """Whether the smallest N has even odds already, so that fewer samples may be enough."""
        return self.even is not None and self.even <= int(self.chances.n[0])


# --- What to do -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recommendation:
    """What to do about a target, as one action with one number. Made by `Plan.recommend`.

    Parameters
    ----------
    action : {"collect", "measure", "train", "unlikely", "stop", "unknown"}
        Collect samples up to N; measure one more size; train longer or differently first; the
        target is unlikely to be reached; stop, because a floor lies above it; or not known.
    n : int or None
        The number of samples to collect in all, or the size to measure; None for other actions, and
        for a run that needs no new samples.
    sentence : str
        The advice.
    sure : float
        The requested probability.
    even, lower, upper : int or None
        N with even odds, and the 90% range of N; None where no N has the probability.
    reach : float or None
        The chance that the target can be reached at all.
    seeds : int or None
        Number of seeds to measure.
    chance : float or None
        The probability that N is enough, for "collect".
    limit : Limit or None
        What limits the error of a pilot.
    reasons : tuple of str
        The reasons, in sentences.
    record : str
        How often such answers held, in a sentence; empty where nothing is on record.
    about : str
        For which training `even`, `lower` and `upper` are, where another one comes before data.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> advice = kr.plan(pilot, target=0.005).recommend()
    >>> advice.action, 640 <= advice.n < 700
    ('collect', True)
    """

    action: Action
    n: int | None
    sentence: str
    sure: float
    even: int | None
    lower: int | None
    upper: int | None
    reach: float | None
    seeds: int | None = None
    chance: float | None = None
    limit: Limit | None = field(default=None, repr=False)
    reasons: tuple[str, ...] = ()
    record: str = ""
    about: str = ""

    def __str__(self) -> str:
        return self.sentence

    @property
    def helps(self) -> bool:
        """Whether it says what to do next, or that more data does not help, or nothing is known."""
        return self.action not in ("stop", "unknown")

    @property
    def odds(self) -> str:
        """Even odds and the 90% range of N, in a sentence; empty where neither is known."""
        return words.odds(self.even, self.lower, self.upper, self.about)

    @property
    def answer(self) -> str:
        """The advice with its odds."""
        return f"{self.sentence} {self.odds}".rstrip()

    def explain(self) -> str:
        """The advice with its odds, its record and its reasons.

        Returns
        -------
        str
            Sentences.
        """
        return " ".join(filter(None, (self.answer, self.record, *self.reasons)))

    def to_dict(self) -> dict[str, Any]:
        """The advice as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        limit = self.limit and asdict(self.limit)
        return vars(self) | {"limit": limit, "odds": self.odds, "reasons": list(self.reasons)}


class _Case(NamedTuple):
    """What is decided: a case of `words.ADVICE`, its reasons, and what its sentence names."""

    action: Action
    name: str
    reasons: Sequence[str]
    n: int | None = None
    seeds: int | None = None
    fields: dict[str, str] = {}  # noqa: RUF012 (never changed)


def recommend(plan: Numbers, sure: float = 0.9) -> Recommendation:
    """The recommendation for a plan."""
    case = _decided(plan, sure)
    forecast, (lower, upper), known = plan.forecast, plan.interval, not plan.doubt
    n, limit, reasons, record = case.n, plan.limit, list(case.reasons), ""
    first = min(max(FIRST, int(forecast.sizes[0])), forecast.last, n or forecast.last)
    if forecast.population:
        record = words.SIMULATED_ALONE
    elif forecast.basis == "rehearsal" and case.action != "train":
        reasons.append(words.reason("first", **vars(forecast.at(first))))
    # The record is of N that are called sure, beyond a pilot: inside it, measured means answer.
    far = (n or 0) / (forecast.measured or 1)
    if case.action == "collect" and far > 1 and not forecast.population:
        record = words.record(forecast.basis, words.HELD[forecast.basis], far, sure)
    fields = {"n": words.count(n or 0), "more": words.count((n or 0) - forecast.measured)}
    fields |= {"seeds": str(case.seeds), "noun": forecast.unit.noun}
    fields |= {"target": words.value(plan.target), "sure": words.level(sure)}
    fields |= {"reach": words.chance(plan.reach), "first": words.count(first), **case.fields}
    return Recommendation(
        action=case.action,
        n=n,
        seeds=case.seeds,
        sentence=words.advice(case.name, forecast.subject, **fields),
        sure=sure,
        chance=plan.probability(n) if case.action == "collect" and n else None,
        even=plan.even,
        lower=int(lower) if known and math.isfinite(lower) else None,
        upper=int(upper) if known and math.isfinite(upper) else None,
        reach=plan.reach if known else None,
        # Where no amount of data meets the target, data cannot be what limits the error.
        limit=limit if case.name != "stop" or limit is None or limit.kind != "data" else None,
        reasons=tuple(filter(None, reasons)),
        record=record,
        # A rehearsal's curve is lowered by what longer training gave.
        about=words.TRAINED[forecast.lowered] if case.action == "train" else "",
    )


def _decided(plan: Numbers, sure: float) -> _Case:
    """The first of the rules at the top of this file that applies."""
    limit, forecast, samples = plan.limit, plan.forecast, plan.samples(sure)
    limits = [limit.sentence] if limit else []
    training = limit is not None and limit.kind == "training"
    near = samples is not None and samples <= NEAR * forecast.last
    met = plan.met_in_pilot or (samples is not None and samples <= plan.chances.n[0])
    if samples is not None and near and (met or not training):
        return _collected(plan, samples)
    n, to_tell = _next(plan)
    # Without learning, longer training may be all that is missing; other doubts stay with it.
    if plan.doubt and (forecast.doubt or plan.below_rounding or not training):
        why = plan.doubt.removeprefix("The curve cannot be extrapolated: ").rstrip(".")
        remedy = f"To find out, {to_tell if n is None else f'measure N = {n:,} and plan again'}."
        reasons = ["Ask for an easier target." if plan.below_rounding else remedy]
        reasons += [] if forecast.doubt else limits
        return _Case("unknown", "doubt", reasons, fields={"why": f"{why[0].lower()}{why[1:]}"})
    # A number may lie too far beyond what is known to be recommended; it is not denied.
    level, reach = words.level(sure), words.chance(plan.reach)
    why = words.reason("no_number", sure=level, target=plan.target, reach=reach)
    if samples is not None:
        why = words.reason("too_far", n=samples, sure=level, near=NEAR)
    if plan.met_in_pilot:
        return _repeated(plan, why)
    if training:
        return _trained(plan, limits)
    if forecast.undertrained:
        return _Case("train", "undertrained", [])
    seeds = LEAST_SEEDS if n else None
    if plan.reach < UNLIKELY:
        why = "level" if float(forecast.unit.to_error(forecast.floor)) >= plan.goal else "slow"
        reasons = [words.reason(why, noun=forecast.unit.noun, floor=forecast.floor)]
        if plan.reach < HOPELESS and shows_floor(forecast.evidence):
            return _Case("stop", "stop", reasons)
        return _Case("unlikely", "unlikely", reasons, n, seeds, {"next": to_tell})
    if n is None:  # a run that needs no new samples comes first
        return _Case("measure", "check", [why, *limits], fields={"next": to_tell})
    then = words.reason("then", n=n, reached=forecast.reached(n, sure), sure=level)
    return _Case("measure", "measure", [why, then], n, seeds)


def _collected(plan: Numbers, samples: int) -> _Case:
    """A number of samples, measured or not."""
    measured, unit = plan.forecast.measured, plan.forecast.unit
    name, reasons = "collect" if measured else "collect_first", []
    # If every measurement is far better, the target may be in another unit.
    largest = float(plan.forecast.evidence.means.max())
    if plan.goal > EASY * largest:
        best = float(unit.from_error(largest))
        reasons.append(words.reason("too_easy", noun=unit.noun, best=best, unit=unit.name))
    if plan.forecast.population:
        name = "simulated"
    elif samples <= plan.chances.n[0]:
        name = "already" if measured else "already_rehearsed"
    elif samples <= measured:
        name = "inside"
        reasons += [words.reason("between", n=plan.between)] if plan.between else []
    elif measured:
        reasons.append(words.reason("far", n=samples, times=samples / measured, last=measured))
    return _Case("collect", name, reasons, samples)


def _next(plan: Numbers) -> tuple[int | None, str]:
    """The cheapest measurement that would tell: its N, None where it needs no new one; in words."""
    forecast, limit = plan.forecast, plan.limit
    if limit is not None and limit.next_run:
        return None, limit.next_run
    twice = min(2 * (forecast.measured or forecast.last), LARGEST_N)
    if not forecast.measured:  # start where the earliest plausible N is within range
        twice = max(FIRST, int(min(twice, plan.lower / NEAR)))
    return twice, words.reason("next", n=twice, seeds=LEAST_SEEDS)


def _trained(plan: Numbers, limits: Sequence[str]) -> _Case:
    """Longer training, with what it gave."""
    longer, unit = plan.longer or plan.forecast.longer, plan.forecast.unit
    assert longer is not None  # without it, training is no limit
    error = float(unit.to_error(longer.errors).mean())
    fields = {"factor": f"{longer.factor:g}", "after": words.value(float(unit.from_error(error)))}
    fields |= {"runs": counted(len(longer.errors), "seed"), "n": words.count(longer.n)}
    # Of a rehearsal, no samples are there yet.
    enough = error <= plan.goal and plan.forecast.measured
    return _Case("train", "train_enough" if enough else "train", limits, fields=fields)


def _repeated(plan: Numbers, why: str) -> _Case:
    """More seeds where measured means meet the target, but too uncertainly."""
    curve = plan.forecast.evidence
    n = plan.between[1] if plan.between else int(curve.sizes[0])
    seeds = max(2 * int(curve.counts[curve.sizes == n].item()), LEAST_SEEDS)
    fields = {"chance": words.chance(plan.probability(n))}
    return _Case("measure", "repeat", [why], n, seeds, fields)
