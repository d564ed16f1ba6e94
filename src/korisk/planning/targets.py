"""The targets that a page offers: round values, and the one with which it opens.

A page shows the plans for some ninety targets, which are computed here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING, mean_variance
from korisk.curves.unit import Unit
from korisk.errors import KoriskError
from korisk.planning.compare import Comparison
from korisk.planning.forecast import LEAST_SIZES, check_goal
from korisk.planning.pilot import Longer
from korisk.planning.plan import Forecast, Plan, forecast
from korisk.planning.recommend import UNLIKELY
from korisk.planning.words import value

Array = NDArray[np.float64]

STOPS = 48  # evenly spaced targets of a slider, besides round ones
_EASIEST = 1.5  # times the largest mean: the first target
_HARDEST = 0.05  # of the last mean: the last target,
_REMOTE = 0.01  # unless an easier one is met with only this probability
_BEYOND = 0.7  # of the last mean: the last target is at least this hard
_LOGARITHMS = (
    "psnr",
    "log10",
    "log2",
    "ln",
    "error_db",
)  # of errors
_ROUND = (1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)  # mantissas of round targets
_FEWER = (1, 2, 5)  # the same, for a range of more than `_DECADES`
_DECADES = 4.0
_ALL_PAIRS = 4  # models up to which every pair is compared; with more, the first model with
_MOST_PAIRS = 12  # this many others, because each pair takes half a second
_EVERY = 4  # for pairs other than the first, compare at every fourth target
# Candidates of the first target, in order of preference, times the lowest error of the first model:
_NEARLY = (1.05, 1.02, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 3.0)  # for several models,
_STRETCH = (0.8, 0.9, 0.95, 0.7, 0.6, 1.05, 1.2, 1.5, 2.0)  # and for one
_CLEAR = 2.0  # standard errors from every mean: at a nearer target, noise alone decides


class Pair(TypedDict):
    """Two models of a group: how many times fewer samples one needs, and where they cross."""

    first: int  # indices of both models
    second: int
    stops: list[int]  # of the group
    savings: list[str]  # the ratio at each of them, in a sentence
    likely: list[bool]  # whether both reach it with at least even odds
    crossover: str  # where their curves cross, in a sentence
    records: list[str]  # how often such ratios held, at each of the stops


Trained = tuple[Curve | None, Longer | None]  # what a pilot says of its training


@dataclass(frozen=True)
class Group:
    """A named group of forecasts of one metric, and the first target to show."""

    name: str
    forecasts: tuple[Forecast, ...]
    requested: float | None = None
    short: tuple[Curve, ...] = ()  # curves with too few sizes for a forecast
    complete: bool = True
    trained: tuple[Trained, ...] = ()  # by forecast

    @classmethod
    def of_curves(cls, name: str, curves: Sequence[Curve], **options: Any) -> Self:
        """A group of measured curves."""
        long = tuple(forecast(curve) for curve in curves if len(curve.sizes) >= LEAST_SIZES)
        short = tuple(curve for curve in curves if len(curve.sizes) < LEAST_SIZES)
        return cls(name, long, short=short, **options)

    def plan(self, index: int, target: float) -> Plan:
        """The plan of one of the forecasts for a target."""
        return Plan(self.forecasts[index], target, *(self.trained[index] if self.trained else ()))

    @cached_property
    def _first(self) -> tuple[float, str]:
        """The first target, in the user's unit, and the reason for it.

        The user's target, if there is one. Else one near the lowest error of the first model, at
        which the plans of the first two models are most informative, and as far outside the noise
        of every measured mean as possible. It is rounded to three digits of the error.
        """
        if self.requested is not None:
            return self.requested, ""
        first = self.forecasts[0].evidence
        # Collapsed means, at rounding, are no errors that a target could improve on.
        lowest = float(first.means[first.means > ROUNDING * first.means.max()].min())
        candidates = []
        for factor in _NEARLY if len(self.forecasts) > 1 else _STRETCH:
            # Rounded up to three digits as an error, and then in the user's unit.
            step = 10.0 ** (math.floor(math.log10(factor * lowest)) - 2)
            error = math.ceil(round(factor * lowest / step, 6)) * step
            digits = 4 if first.unit.law in _LOGARITHMS else 8
            candidates.append((_digits(float(first.unit.from_error(error)), digits), factor))

        def rank(candidate: tuple[float, float]) -> tuple[float, int]:
            target = candidate[0]
            goal = float(first.unit.to_error(target))
            distance = min(_standard_errors(outlook.evidence, goal) for outlook in self.forecasts)
            score = sum(telling(Plan(outlook, target)) for outlook in self.forecasts[:2])
            return min(distance, _CLEAR), score

        target, factor = max(candidates, key=rank)  # the first of equals
        change = f"{abs(100 * (factor - 1)):.0f}% {'more' if factor > 1 else 'less'}"
        return target, f"{change} error than the lowest of {first.name}"

    @property
    def target(self) -> float:
        """The first target, in the user's unit."""
        return self._first[0]

    @property
    def why(self) -> str:
        """The reason for the first target; empty if the user gave it."""
        return self._first[1] if self.forecasts else ""

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plans for the first target."""
        return tuple(self.plan(index, self.target) for index in range(len(self.forecasts)))

    @cached_property
    def stops(self) -> list[float]:
        """The targets of the slider, from the easiest to the hardest."""
        return _stops(self.forecasts, self.target) if self.forecasts else []

    @cached_property
    def answers(self) -> list[list[Plan]]:
        """For each forecast, its plans for all stops."""
        models = range(len(self.forecasts))
        return [[self.plan(model, target) for target in self.stops] for model in models]

    @property
    def comparison(self) -> Comparison | None:
        """The first two models at the first target."""
        return Comparison(self.plans[0], self.plans[1]) if len(self.plans) > 1 else None

    @property
    def sentence(self) -> str:
        """The answer for the first target, or that there are too few sizes for one."""
        if not self.forecasts:
            most = max(len(curve.sizes) for curve in self.short)
            sizes = f"training set size{'s' if most > 1 else ''}"
            return f"{most} {sizes}; {LEAST_SIZES} are needed to plan."
        comparison, curve = self.comparison, self.forecasts[0].evidence
        advice = self.plans[0].recommend()
        sentence = " ".join(filter(None, (advice.sentence, advice.odds)))
        sentence = sentence if comparison is None else comparison.saving()
        question = f"{curve.metric or curve.unit.noun} {value(self.target)}"
        return f"{sentence} ({', '.join(filter(None, (question, self.why)))})"

    @property
    def told(self) -> list[int]:
        """Informativeness score of the first two plans."""
        return [telling(plan) for plan in self.plans[:2]]

    def pairs(self) -> list[Pair]:
        """Some pairs of models over targets, with a sentence on where their curves cross."""
        count = len(self.forecasts)
        places = list(combinations(range(count), 2))
        if count > _ALL_PAIRS:
            places = [(0, second) for second in range(1, min(count, _MOST_PAIRS + 1))]
        pairs: list[Pair] = []
        for first, second in places:
            crossed = Comparison(self.plans[first], self.plans[second]).crossing
            every = 1 if (first, second) == (0, 1) else _EVERY
            # The first target is always compared, because the page opens with it.
            stops = sorted({*range(0, len(self.stops), every), self.stops.index(self.target)})
            compared = [
                Comparison(self.answers[first][stop], self.answers[second][stop]) for stop in stops
            ]
            pairs.append(
                Pair(
                    first=first,
                    second=second,
                    stops=stops,
                    savings=[pair.saving() for pair in compared],
                    likely=[pair.likely for pair in compared],
                    crossover=crossed.explain(),
                    records=[pair.record for pair in compared],
                )
            )
        return pairs


def _standard_errors(curve: Curve, error: float) -> float:
    """Distance of an error from the nearest mean, in standard errors of the log error."""
    deviations = np.sqrt(np.maximum(mean_variance(curve), 1e-12))
    return float(np.min(np.abs(np.log(curve.means / error)) / deviations))


def telling(plan: Plan) -> int:
    """Informativeness score of a plan: highest with a bounded interval, 0 without a number."""
    if plan.doubt or plan.reach < UNLIKELY:
        return 0
    if plan.met_at_smallest or plan.lower == plan.upper:
        return 1
    return 2 + math.isfinite(plan.upper) + (not plan.forecast.doubt)


def main_group(groups: Sequence[Group]) -> Group | None:
    """The group with which a page opens: the last of the most informative ones.

    Groups that compare models, and complete ones, take precedence.
    """
    # Each condition is dropped if no group meets it.
    candidates = [group for group in groups if group.forecasts]
    candidates = [group for group in candidates if len(group.forecasts) > 1] or candidates
    candidates = [group for group in candidates if group.complete] or candidates
    return max(reversed(candidates), key=lambda group: sum(group.told), default=None)


def with_valid_targets(groups: Sequence[Group]) -> tuple[list[Group], list[str]]:
    """Remove targets that are invalid for a group's unit."""
    allowed, refused = [], []
    for group in groups:
        try:
            if group.requested is not None:
                check_goal(group.forecasts, group.requested)
            allowed.append(group)
        except KoriskError as error:
            refused.append(f"{group.name}: {error}.")
            allowed.append(replace(group, requested=None))
    if refused and len(refused) == len(groups):
        raise KoriskError(refused[0].removesuffix("."))
    return allowed, refused


def _stops(outlooks: Sequence[Forecast], first: float) -> list[float]:
    """Targets from the easiest to the hardest of any forecast: evenly spaced, round, the first."""
    unit = outlooks[0].unit
    high = _EASIEST * max(float(outlook.evidence.means.max()) for outlook in outlooks)
    low = min(map(_hardest, outlooks))
    targets = {first, *round_targets(unit, low, high)}
    for error in np.geomspace(high, low, STOPS).tolist():  # rounded to a few digits
        if unit.law in _LOGARITHMS:
            targets.add(round(float(unit.from_error(error)), 2))
        elif unit.law in ("complement", "percent"):  # round the error: scores near 1 need digits
            targets.add(_digits(float(unit.from_error(_digits(error, 3))), 12))
        else:
            targets.add(_digits(float(unit.from_error(error)), 4))
    return sorted(targets, key=lambda target: -float(unit.to_error(target)))


def _hardest(outlook: Forecast) -> float:
    """No harder than futures reach, no easier than just beyond the pilot, and above rounding."""
    means = outlook.evidence.means
    reached = outlook.quantile([outlook.horizon], _REMOTE).item()
    low = min(max(reached, _HARDEST * float(means[-1])), _BEYOND * float(means[-1]))
    return max(low, 0.5 * ROUNDING * float(means.max()))


def round_targets(unit: Unit, low: float, high: float) -> list[float]:
    """Round targets whose errors lie between two: round values, whole steps of scores."""
    mantissas = _ROUND if math.log10(high / low) <= _DECADES else _FEWER
    root = 0.5 if unit.law == "squared" else 1.0
    powers = range(math.floor(root * math.log10(low)), math.ceil(root * math.log10(high)) + 1)
    targets = [float(f"{mantissa}e{power}") for power in powers for mantissa in mantissas]
    if unit.law in _LOGARITHMS:
        ends = sorted(float(unit.from_error(error)) for error in (low, high))
        targets = np.arange(math.ceil(ends[0]), ends[1]).tolist()
    elif unit.law in ("complement", "percent"):
        most = float(unit.from_error(0.0))
        fine = [_digits(most - error, 12) for error in targets if error < 0.1 * most]
        targets = [*fine, *(_digits(most * step / 100, 12) for step in range(1, 100))]
    elif unit.law == "negated":
        targets = [-target for target in targets]
    return [target for target in targets if low <= float(unit.to_error(target)) <= high]


def _digits(number: float, most: int) -> float:
    return float(f"{number:.{most}g}")
