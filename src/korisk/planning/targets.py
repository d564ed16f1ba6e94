"""The targets that a page offers: round values, and the one with which it opens.

A page shows the plans for some ninety targets, which are computed here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from typing import Any, Self

import numpy as np

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.curves.unit import Unit
from korisk.errors import KoriskError
from korisk.planning import words
from korisk.planning.compare import Comparison
from korisk.planning.forecast import LEAST_SIZES, check_goal
from korisk.planning.pilot import Trained
from korisk.planning.plan import Forecast, Plan, forecast

STOPS = 48  # evenly spaced targets of a slider, besides round ones
_EASIEST = 1.5  # times the largest mean: the first target
_HARDEST = 0.05  # of the last mean: the last target,
_REMOTE = 0.01  # unless an easier one is met with only this probability
_BEYOND = 0.7  # of the last mean: the last target is at least this hard
_LOGARITHMS = "psnr", "log10", "log2", "ln", "error_db"  # of errors
_ROUND = (1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)  # mantissas of round targets
_MOST_PAIRS = 12  # of models that are compared: each takes half a second


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

        The user's target, if there is one. Else, for a single model, 20% less error than its
        lowest, where that has even odds at some N; otherwise 5% more than the first model's lowest.
        """
        if self.requested is not None:
            return self.requested, ""
        first = self.forecasts[0].evidence
        # Collapsed means, at rounding, are no errors that a target could improve on.
        lowest = float(first.means[first.means > ROUNDING * first.means.max()].min())
        near, beyond = (_rounded(first.unit, _digits(f * lowest, 3)) for f in (1.05, 0.8))
        if len(self.forecasts) == 1 and self.plan(0, beyond).even is not None:
            return beyond, f"20% less error than the lowest of {first.name}"
        return near, f"5% more error than the lowest of {first.name}"

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
        sentence = comparison.saving() if comparison else self.plans[0].recommend().answer
        question = f"{words.quantity(curve.metric, curve.unit.noun)} {words.value(self.target)}"
        return f"{sentence} ({', '.join(filter(None, (question, self.why)))})"

    def pairs(self) -> list[JsonDict]:
        """The first pairs of models at every target, in sentences."""
        pairs: list[JsonDict] = []
        for first, second in islice(combinations(range(len(self.forecasts)), 2), _MOST_PAIRS):
            plans = zip(self.answers[first], self.answers[second], strict=True)
            compared = [Comparison(*both) for both in plans]
            pairs.append(
                {
                    "first": first,
                    "second": second,
                    "savings": [pair.saving() for pair in compared],
                    "likely": [pair.likely for pair in compared],
                    "better": [pair.better for pair in compared],
                    "crossover": compared[0].crossing.explanation,
                    "records": [pair.record for pair in compared],
                }
            )
        return pairs


def main_group(groups: Sequence[Group]) -> Group | None:
    """The group with which a page opens: the last that compares models and is complete.

    Where none is both, the last that compares models, then the last that is complete.
    """
    answered = [group for group in reversed(groups) if group.forecasts]
    return max(answered, key=lambda group: (len(group.forecasts) > 1, group.complete), default=None)


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
    targets |= {_rounded(unit, error) for error in np.geomspace(high, low, STOPS).tolist()}
    return sorted(targets, key=lambda target: -float(unit.to_error(target)))


def _hardest(outlook: Forecast) -> float:
    """No harder than futures reach, no easier than just beyond the pilot, and above rounding."""
    means = outlook.evidence.means
    reached = outlook.quantile([outlook.horizon], _REMOTE).item()
    low = min(max(reached, _HARDEST * float(means[-1])), _BEYOND * float(means[-1]))
    return max(low, 0.5 * ROUNDING * float(means.max()))


def round_targets(unit: Unit, low: float, high: float) -> list[float]:
    """Round targets whose errors lie between two: round values, whole steps of scores."""
    root = 0.5 if unit.law == "squared" else 1.0
    powers = range(math.floor(root * math.log10(low)), math.ceil(root * math.log10(high)) + 1)
    targets = [float(f"{mantissa}e{power}") for power in powers for mantissa in _ROUND]
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


def _rounded(unit: Unit, error: float) -> float:
    """An error in the user's unit, to a few digits."""
    if unit.law in _LOGARITHMS:
        return round(float(unit.from_error(error)), 2)
    if unit.law in ("complement", "percent"):  # round the error: scores near 1 need digits
        return _digits(float(unit.from_error(_digits(error, 3))), 12)
    return _digits(float(unit.from_error(error)), 4)


def _digits(number: float, most: int) -> float:
    return float(f"{number:.{most}g}")
