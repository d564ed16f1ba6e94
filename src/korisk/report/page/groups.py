"""What a page answers: groups of curves that may be compared, a first target, and the answers.

A group is an operating point of a study or a file of pilots: curves of one metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.errors import KoriskError
from korisk.planning import explain as words
from korisk.planning.compare import Comparison
from korisk.planning.fit import fitted_line
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.plan import Plan, plan_from, table_sizes
from korisk.report.figures.frame import Track, track
from korisk.report.page.planner import sentence
from korisk.studies.results import LEAST_SIZES, Crossing, crossing
from korisk.theory import RiskLine

_INSIDE = 60  # N inside the pilot at which a forecast is kept, at most
_EVERY = 3  # and so many times fewer than the planner's beyond it
_ALL_PAIRS = 4  # models up to which every two are compared; beyond, the first with
_MOST_PAIRS = 12  # so many others, since each takes half a second
_NEARLY = 1.05  # of the lowest error of the first model: the first target where there are others
_STRETCH = 0.8  # of the lowest error: the first target of a model that stands alone


@dataclass(frozen=True)
class Extrapolated:
    """A curve that can be extrapolated, with what a page shows of it."""

    forecast: Forecast

    @property
    def curve(self) -> Curve:
        """What was measured."""
        return self.forecast.curve

    @cached_property
    def track(self) -> Track:
        """The forecast from the first N to the horizon, dense enough to be interpolated."""
        n, last = table_sizes(self.forecast), self.forecast.last
        inside, beyond = n[n <= last], n[n > last]
        inside = inside[:: math.ceil(len(inside) / _INSIDE)]
        return track(self.forecast, np.unique([*inside, last, *beyond[::_EVERY], n[-1]]))

    def line(self, fit: str) -> RiskLine | None:
        """The calibration of the form floor + slope log N / N; None where it cannot be made."""
        try:
            return fitted_line(self.curve, fit)
        except KoriskError:
            return None


@dataclass(frozen=True)
class Group:
    """Curves of one metric, with a name, in the order of their models."""

    name: str
    curves: tuple[Curve, ...]
    asked: float | None = None  # the target that a user gave
    crossing: Crossing | None = None  # of two curves, where it is known already
    whole: bool = True  # whether nothing of it is missing

    @cached_property
    def extrapolated(self) -> tuple[Extrapolated, ...]:
        """The curves that can be extrapolated."""
        return tuple(
            Extrapolated(forecast(curve))
            for curve in self.curves
            if len(curve.sizes) >= LEAST_SIZES
        )

    @property
    def short(self) -> tuple[Curve, ...]:
        """The curves that have too few sizes for that."""
        return tuple(curve for curve in self.curves if len(curve.sizes) < LEAST_SIZES)

    @cached_property
    def target(self) -> float:
        """What is asked at first, in the user's unit.

        The user's own target; else nearly the best of the first model, which shows what the others
        lack, or some way beyond that where it stands alone.
        """
        if self.asked is not None:
            return self.asked
        first = self.extrapolated[0].curve
        lowest = float(first.means[first.means > ROUNDING * first.means.max()].min())
        return _easier(first, (_NEARLY if len(self.extrapolated) > 1 else _STRETCH) * lowest)

    @property
    def why(self) -> str:
        """Where the first target comes from."""
        if self.asked is not None:
            return "as asked"
        name = self.extrapolated[0].curve.name
        if len(self.extrapolated) > 1:
            return f"with 5% more error than the lowest of {name}"
        return f"with a fifth less error than the lowest of {name}"

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The answers to the first target."""
        return tuple(plan_from(each.forecast, self.target) for each in self.extrapolated)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The first two models at the first target."""
        if len(self.extrapolated) < 2:
            return None
        return Comparison(self.plans[0], self.plans[1])

    @property
    def sentence(self) -> str:
        """The answer to the first target."""
        if self.comparison is not None:
            return f"{words.comparison_headline(self.comparison)} ({self._meaning})"
        return f"{sentence(self.plans[0])} ({self._meaning})"

    @property
    def _meaning(self) -> str:
        curve = self.extrapolated[0].curve
        return f"{curve.metric or curve.unit.noun} {words.value(self.target)}, {self.why}"

    def pairs(self) -> list[tuple[int, int]]:
        """Which of the forecasts are compared."""
        count = len(self.extrapolated)
        if count <= _ALL_PAIRS:
            return list(combinations(range(count), 2))
        return [(0, other) for other in range(1, min(count, _MOST_PAIRS + 1))]

    def compared(self) -> Iterator[tuple[int, int, Comparison, str]]:
        """Each pair at the first target, and a sentence on where its curves cross at any."""
        known = self.crossing if len(self.extrapolated) == len(self.curves) == 2 else None
        for first, second in self.pairs():
            both = Comparison(self.plans[first], self.plans[second])
            found = known or crossing(both.first.curve, both.second.curve)
            if found is None:  # no N in common
                yield first, second, both, words.crossing(both.crossover)
            else:
                told = words.crossing(found.found, found.means, found.better, found.last)
                yield first, second, both, told


def _easier(curve: Curve, error: float) -> float:
    """The error with three digits, rounded up, in the user's unit."""
    step = 10.0 ** (math.floor(math.log10(error)) - 2)
    rounded = math.ceil(round(error / step, 6)) * step
    return float(f"{float(curve.unit.from_error(rounded)):.8g}")


def main_group(groups: Sequence[Group]) -> Group | None:
    """The one whose answer leads the page: the last that compares and is whole, if there is one."""
    chosen = [group for group in groups if group.extrapolated]
    for better in (lambda group: len(group.extrapolated) > 1, lambda group: group.whole):
        chosen = list(filter(better, chosen)) or chosen
    return chosen[-1] if chosen else None
