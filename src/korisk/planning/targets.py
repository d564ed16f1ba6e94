"""Which targets to ask: those that people would give, and the one with which a page opens.

A page looks up, or interpolates between neighbouring targets, what `plan_from` answered for some
hundred of them; nothing is computed in it.
"""

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING, relative_variance
from korisk.curves.unit import Unit
from korisk.errors import KoriskError
from korisk.planning.chances import table_sizes
from korisk.planning.compare import LEAST_SIZES, Comparison, Crossing, crossing
from korisk.planning.explain import value
from korisk.planning.fit import check_target
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.futures.law import Law
from korisk.planning.plan import Plan, plan_from

Array = NDArray[np.float64]

STOPS = 80  # targets at which a slider stops, about, besides round ones
_EASIEST = 1.5  # times the largest mean: the first target
_HARDEST = 0.05  # of the last mean: the last target,
_REMOTE = 0.01  # unless the chance to meet an easier one at all is this small
_BEYOND = 0.7  # of the last mean: at least so hard is the last target
_LOGARITHMS = ("psnr", "log10", "ln", "error_db")
_ROUND = (1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)  # times powers of ten, which people type:
_FEWER = (1, 2, 5)  # with a range of more than
_DECADES = 4.0
_WIDEST = math.log(16.0)  # fall of the means from which on more stops would tell nothing
_MEANS = 16  # measured means that are targets, at most
_JUST = 1e-9  # beyond a mean, where another answer begins
_AT_FIRST = (0.8, 0.95, 0.995)  # probabilities at the first N whose targets are answered
_ALL_PAIRS = 4  # models up to which every two are compared; beyond, the first with
_MOST_PAIRS = 12  # so many others, since each takes half a second
_EVERY = 4  # targets of which one is compared, for pairs other than the first
# Times the lowest error of the first model: where the first target may lie, the best place first,
_NEARLY = (1.05, 1.02, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 3.0)  # with other models beside it
_STRETCH = (0.8, 0.9, 0.95, 0.7, 0.6, 1.05, 1.2, 1.5, 2.0)  # and alone
_CLEAR = 2.0  # standard errors from every mean: at a target nearer to one, noise alone decides
_GUESSED_NOISE = 0.02  # of a mean, relative, where no N has two seeds


class Pair(TypedDict):
    """Two models of a group: which needs how many times fewer samples, and where they cross."""

    first: int  # the places of both
    second: int
    targets: list[float]  # from easy to hard: where the slider of the first stops
    savings: list[str]  # the ratio at each of them, in a sentence
    likely: list[bool]  # whether both reach it with even odds
    crossover: str  # where their curves cross, in a sentence


@dataclass(frozen=True)
class Group:
    """Curves of one metric with a name, and what is asked of them first.

    Parameters
    ----------
    name : str
        What they have in common, such as a point of a study.
    curves : tuple of Curve
        One for each model.
    asked : float, optional
        The target that a user gave, in the curves' unit.
    crossing : Crossing, optional
        Of two curves, where it is known already.
    whole : bool, default True
        Whether nothing of it is missing.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.planning.targets import Group
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> group = Group("pilot", (pilot,))
    >>> group.target, group.why
    (0.01, '20% less error than the lowest of KO')
    """

    name: str
    curves: tuple[Curve, ...]
    asked: float | None = None
    crossing: Crossing | None = None
    whole: bool = True

    @cached_property
    def forecasts(self) -> tuple[Forecast, ...]:
        """The forecasts of the curves that have enough sizes."""
        long = (curve for curve in self.curves if len(curve.sizes) >= LEAST_SIZES)
        return tuple(asked_often(forecast(curve)) for curve in long)

    @property
    def short(self) -> tuple[Curve, ...]:
        """The curves that have too few sizes for that."""
        return tuple(curve for curve in self.curves if len(curve.sizes) < LEAST_SIZES)

    @cached_property
    def _first(self) -> tuple[float, str]:
        """The first target, in the user's unit, and why it is asked.

        The user's own; else one near the lowest error of the first model at which the first two
        models have most to say, clear of the noise of every mean that was measured, or as clear as
        can be. It has three digits of an error.
        """
        if self.asked is not None:
            return self.asked, ""
        first = self.forecasts[0].curve
        lowest = float(first.means[first.means > ROUNDING * first.means.max()].min())
        best, chosen = (-1.0, -1), (math.nan, "")
        for factor in _NEARLY if len(self.forecasts) > 1 else _STRETCH:
            step = 10.0 ** (math.floor(math.log10(factor * lowest)) - 2)
            error = math.ceil(round(factor * lowest / step, 6)) * step
            digits = 4 if first.unit.law in _LOGARITHMS else 8
            target = _digits(float(first.unit.from_error(error)), digits)
            goal = float(first.unit.to_error(target))
            away = min(_standard_errors(made.curve, goal) for made in self.forecasts)
            told = sum(telling(plan_from(made, target)) for made in self.forecasts[:2])
            score = min(away, _CLEAR), told
            if score > best:
                more = f"{abs(100 * (factor - 1)):.0f}% {'more' if factor > 1 else 'less'}"
                best, chosen = score, (target, f"{more} error than the lowest of {first.name}")
        return chosen

    @property
    def target(self) -> float:
        """What is asked at first, in the user's unit."""
        return self._first[0]

    @property
    def why(self) -> str:
        """Why the first target is that one; empty where a user asked for it."""
        return self._first[1] if self.forecasts else ""

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The answers to the first target."""
        return tuple(plan_from(made, self.target) for made in self.forecasts)

    @cached_property
    def tables(self) -> tuple[tuple[list[Plan], list[int]], ...]:
        """For each forecast, the answers over targets, and those that a slider stops at."""
        return tuple(plans_over_targets(made, [self.target]) for made in self.forecasts)

    @property
    def comparison(self) -> Comparison | None:
        """The first two models at the first target."""
        return Comparison(self.plans[0], self.plans[1]) if len(self.plans) > 1 else None

    @property
    def sentence(self) -> str:
        """The answer to the first target, or that there are too few sizes for one."""
        if not self.forecasts:
            most = max(len(curve.sizes) for curve in self.curves)
            sizes = f"training set size{'s' if most > 1 else ''}"
            return f"{most} {sizes}; {LEAST_SIZES} are needed to plan."
        both, curve = self.comparison, self.forecasts[0].curve
        said = self.plans[0].brief() if both is None else both.headline()
        asked = f"{curve.metric or curve.unit.noun} {value(self.target)}"
        return f"{said} ({', '.join(filter(None, (asked, self.why)))})"

    @property
    def told(self) -> list[int]:
        """How much each of the first two models has to say of the first target."""
        return [telling(plan) for plan in self.plans[:2]]

    def pairs(self) -> list[Pair]:
        """Some pairs of models over targets, with a sentence on where their curves cross.

        Returns
        -------
        list of Pair
            Every two of a few models; of many, the first with others.
        """
        count = len(self.forecasts)
        places = list(combinations(range(count), 2))
        if count > _ALL_PAIRS:
            places = [(0, other) for other in range(1, min(count, _MOST_PAIRS + 1))]
        known = self.crossing if count == len(self.curves) == 2 else None
        pairs: list[Pair] = []
        for first, second in places:
            both = Comparison(self.plans[first], self.plans[second])
            cross = known or crossing(both.first.curve, both.second.curve)
            said = (cross or Crossing(both.crossover)).explain()  # None without an N in common
            plans, stops = self.tables[first]
            every = 1 if (first, second) == (0, 1) else _EVERY
            chosen = {*stops[::every], *(at for at in stops if plans[at].target == self.target)}
            compared = [
                Comparison(plans[at], plan_from(self.forecasts[second], plans[at].target))
                for at in sorted(chosen)
            ]
            pairs.append(
                Pair(
                    first=first,
                    second=second,
                    targets=[each.target for each in compared],
                    savings=[each.saving() for each in compared],
                    likely=[each.likely for each in compared],
                    crossover=said,
                )
            )
        return pairs


def _standard_errors(curve: Curve, error: float) -> float:
    """How many standard errors an error lies from the nearest mean, in logs."""
    noise = relative_variance(curve)
    deviations = _GUESSED_NOISE if noise is None else np.sqrt(np.maximum(noise, 1e-12))
    return float(np.min(np.abs(np.log(curve.means / error)) / deviations))


def telling(plan: Plan) -> int:
    """How much an answer says: most with a number that has an interval, least with none."""
    if plan.middle is None:
        return 0
    if plan.at_once or plan.lower == plan.upper:
        return 1
    return 2 + math.isfinite(plan.upper) + (not plan.forecast.doubt)


def main_group(groups: Sequence[Group]) -> Group | None:
    """The one with which a page opens: the last of those that say most of their first target.

    Groups that compare, and of which nothing is missing, go before others.
    """
    chosen = [group for group in groups if group.forecasts]
    chosen = [group for group in chosen if len(group.forecasts) > 1] or chosen
    chosen = [group for group in chosen if group.whole] or chosen
    return max(reversed(chosen), key=lambda group: sum(group.told), default=None)


def asked(groups: Sequence[Group]) -> tuple[list[Group], list[str]]:
    """The groups without targets that they cannot have, and why those are refused.

    Parameters
    ----------
    groups : sequence of Group
        With the target that a user gave.

    Returns
    -------
    tuple of list of Group and list of str
        Groups that ask for their target or choose one, and a sentence for each refused one.

    Raises
    ------
    KoriskError
        If no group can have the target.
    """
    allowed, refused = [], []
    for group in groups:
        try:
            if group.asked is not None:
                check_target([made.curve for made in group.forecasts], group.asked)
            allowed.append(group)
        except KoriskError as error:
            refused.append(f"{group.name}: {error}.")
            allowed.append(replace(group, asked=None))
    if refused and len(refused) == len(groups):
        raise KoriskError(refused[0].removesuffix("."))
    return allowed, refused


def plans_over_targets(
    made: Forecast, exactly: Collection[float] = ()
) -> tuple[list[Plan], list[int]]:
    """Plans from the easiest target to the hardest, and the places of those people would give.

    Parameters
    ----------
    made : Forecast
        The pilot's forecast by the default fit.
    exactly : collection of float, default ()
        Targets that are answered besides those that are chosen here.

    Returns
    -------
    tuple of list of Plan and list of int
        The plans, and which of them a slider stops at.
    """
    stops, others = _targets(made)
    often, plans = asked_often(made), []
    for target in {*stops, *others, *exactly}:
        with suppress(KoriskError):  # a target that is far too easy, unless it was asked
            if target not in exactly:
                check_target([made.curve], target)
            plans.append(plan_from(often, target))
    plans.sort(key=lambda plan: -plan.goal)
    given = {*stops, *exactly}
    return plans, [place for place, plan in enumerate(plans) if plan.target in given]


def _targets(made: Forecast) -> tuple[list[float], list[float]]:
    """Targets from easy to hard that people would give, and others for better interpolation.

    At a mean the answer changes its kind: the mean and a target just beyond it are among them. So
    are targets at which the probability at the pilot's first N rises from a half to one.
    """
    curve, unit = made.curve, made.curve.unit
    levels = np.unique(np.maximum.accumulate(curve.means[::-1]))[::-1]  # that stay met from some N
    levels = levels[np.unique(np.linspace(0, len(levels) - 1, _MEANS).round().astype(int))]
    last = float(curve.means[-1])
    low = max(float(made.quantile([made.horizon], _REMOTE)[0]), _HARDEST * last)
    low = max(min(low, _BEYOND * last), 0.5 * ROUNDING * float(curve.means.max()))
    edges = np.array([_EASIEST * curve.means.max(), *levels[levels > low], low])
    falls = np.minimum(-np.diff(np.log(edges)), _WIDEST)
    counts = np.ceil(STOPS * falls / falls.sum()).astype(int)
    grid = [
        np.geomspace(start, end, count, endpoint=False)
        for start, end, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    stops = []
    for error in [*np.concatenate(grid), low]:  # with as few digits as people would give
        if unit.law in _LOGARITHMS:
            stops.append(round(float(unit.from_error(error)), 2))
        elif unit.law in ("complement", "percent"):  # the digits of what is left to be right
            stops.append(_digits(float(unit.from_error(_digits(error, 3))), 12))
        else:
            stops.append(_digits(float(unit.from_error(error)), 4))
    stops += _round_targets(unit, low, float(edges[0]))
    beside = [error for level in levels for error in (level, level * (1 - _JUST))]
    smallest = made.measured.lasting(curve.sizes[:1].astype(float))
    beside += [math.exp(smallest.quantile(p)[0]) for p in _AT_FIRST]
    return stops, unit.from_error(beside).tolist()


def _round_targets(unit: Unit, low: float, high: float) -> list[float]:
    """Targets that people type, with errors between two: round values, whole steps of scores."""
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


def asked_often(made: Forecast) -> Forecast:
    """The same forecast, quick to ask about many targets."""
    if isinstance(made, _AskedOften):
        return made
    return _AskedOften(made.curve, made.fit, made.related)


class _AskedOften(Forecast):
    """A forecast that makes the law at the sizes of its table once, for all targets."""

    @cached_property
    def _kept(self) -> tuple[Array, Law]:
        """The sizes of the table, and the law there."""
        sizes = table_sizes(self)
        return sizes, self._joined(sizes, self.measured.lasting)

    def met(self, n: Array, goal: float) -> Array:
        """(M,) the probability at each N."""
        sizes, law = self._kept
        if np.array_equal(n, sizes):
            return law.under(np.full(len(n), math.log(goal)))
        return super().met(n, goal)


def _digits(number: float, most: int) -> float:
    return float(f"{number:.{most}g}")
