"""What a page foretells: groups of curves that may be compared, a first target, and the answers.

A group is an operating point of a study or a file of pilots: curves of one metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from korisk.curves.calibrate import calibrate
from korisk.curves.compare import Comparison, Crossover
from korisk.curves.curve import Curve
from korisk.curves.forecast import Forecast, forecast
from korisk.curves.plan import Plan, plan_from
from korisk.curves.words import comparison_headline, headline, value
from korisk.errors import KoriskError
from korisk.report.frame import Track, track
from korisk.studies.results import LEAST_SIZES, Crossing
from korisk.theory import RiskLine

_BEYOND = 64  # times the pilot: how far curves are drawn,
_STEPS = 48  # at so many N, since each takes a while
_ALL_PAIRS = 4  # models up to which every two are compared; beyond, the first with
_MOST_PAIRS = 12  # so many others, since each takes half a second
_NEARLY = 1.05  # of the lowest error of the first model: the first target where there are others
_STRETCH = 0.8  # of the lowest error: the first target of a model that stands alone


@dataclass(frozen=True)
class Foretold:
    """A curve that can be carried on, with what a page shows of it."""

    forecast: Forecast

    @property
    def curve(self) -> Curve:
        """What was measured."""
        return self.forecast.curve

    @cached_property
    def track(self) -> Track:
        """The forecast at the N that are drawn."""
        end = min(_BEYOND * self.forecast.last, self.forecast.horizon)
        return track(self.forecast, float(end), steps=_STEPS)

    def line(self, method: str) -> RiskLine | None:
        """The calibration of the form floor + slope log N / N; None where it cannot be made."""
        try:
            fitted = calibrate(self.curve, method)
            return RiskLine(fitted.floor, fitted.slope or 0.0)
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
    def foretold(self) -> tuple[Foretold, ...]:
        """The curves that can be carried on."""
        return tuple(
            Foretold(forecast(curve)) for curve in self.curves if len(curve.sizes) >= LEAST_SIZES
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
        first = self.foretold[0].curve
        lowest = float(first.means.min())
        return _easier(first, (_NEARLY if len(self.foretold) > 1 else _STRETCH) * lowest)

    @property
    def why(self) -> str:
        """Where the first target comes from."""
        if self.asked is not None:
            return "as asked"
        name = self.foretold[0].curve.name
        if len(self.foretold) > 1:
            return f"with 5% more error than the lowest of {name}"
        return f"with a fifth less error than the lowest of {name}"

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The answers to the first target."""
        return tuple(plan_from(each.forecast, self.target) for each in self.foretold)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The first two models at the first target."""
        if len(self.foretold) < 2:
            return None
        return Comparison(self.plans[0], self.plans[1])

    @property
    def sentence(self) -> str:
        """The answer to the first target."""
        if self.comparison is not None:
            return f"{comparison_headline(self.comparison)} ({self._meaning})"
        return f"{headline(self.plans[0])} ({self._meaning})"

    @property
    def _meaning(self) -> str:
        curve = self.foretold[0].curve
        return f"{curve.metric or curve.unit.noun} {value(self.target)}, {self.why}"

    def pairs(self) -> list[tuple[int, int]]:
        """Which of the forecasts are compared."""
        count = len(self.foretold)
        if count <= _ALL_PAIRS:
            return list(combinations(range(count), 2))
        return [(0, other) for other in range(1, min(count, _MOST_PAIRS + 1))]

    def crossovers(self) -> Iterator[tuple[int, int, Crossover | None]]:
        """Where each pair crosses; it does not depend on the target."""
        if self.crossing is not None and len(self.foretold) == len(self.curves) == 2:
            yield 0, 1, self.crossing.found
            return
        for first, second in self.pairs():
            pair = self.foretold[first], self.foretold[second]
            lowest = min(each.curve.means.min() for each in pair)
            target = float(pair[0].curve.unit.from_error(lowest))
            known, dense = (plan_from(each.forecast, target) for each in pair)
            yield first, second, Comparison(known, dense).crossover


def _easier(curve: Curve, error: float) -> float:
    """The error with three digits, rounded up, in the user's unit."""
    step = 10.0 ** (math.floor(math.log10(error)) - 2)
    rounded = math.ceil(round(error / step, 6)) * step
    return float(f"{float(curve.unit.from_error(rounded)):.8g}")


def main_group(groups: Sequence[Group]) -> Group | None:
    """The one whose answer leads the page: the last that compares and is whole, if there is one."""
    chosen = [group for group in groups if group.foretold]
    for better in (lambda group: len(group.foretold) > 1, lambda group: group.whole):
        chosen = list(filter(better, chosen)) or chosen
    return chosen[-1] if chosen else None
