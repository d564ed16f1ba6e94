"""The plan: how many samples a target asks for, how sure that is, and what to collect next.

Everything is read off one table, the probability that the target is met by N, over all futures:
what is printed, drawn, and written as JSON, and what the page interpolates.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk._checks import LARGEST_N, real
from korisk._show import Drawn
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.errors import Message, OutOfReachError
from korisk.planning.explain import explain, findings, no_answer
from korisk.planning.fit import DEFAULT_FIT, check_target
from korisk.planning.forecast import Expectation, Forecast, forecast

Array = NDArray[np.float64]

# Chosen on the tuning part of benchmarks/planner/compare.py, reported there on the other part.
NEAR = 16  # times the pilot: futures that meet the target later do not count,
LATER = 16  # unless even the earliest plausible N times this is later
LEAST_REACH = 0.15  # below this chance the target is called out of reach
TAIL = 0.05  # left out at each end of an interval
MIDDLE = 0.64  # share of the counted draws that meet the target by the point answer
LEVELS = (0.8, 0.9, 0.95)  # of safety that reports show
ROUND = 4  # a round of collection at most multiplies the data by this
_PER_DOUBLING = 8  # sizes at which the table is computed beyond the pilot
_BETWEEN = (0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)  # and between measured sizes
_REFINEMENTS = 3
_JUMP = 0.04  # of the probability, between neighbours of the table
_SPLIT = np.arange(1, 6) / 6  # where new sizes lie between two
_FEW = 16  # whole numbers between two measured sizes that are all in the table


@dataclass(frozen=True, eq=False)
class Chances:
    """The probability that a target is met by N: a table over N, straight in log N between."""

    n: Array  # (M,) ascending
    p: Array  # (M,) never falling

    def at(self, n: float) -> float:
        """The probability at N; that of the table's ends outside."""
        return float(np.interp(math.log(n), np.log(self.n), self.p))

    def first(self, p: float) -> float:
        """The N, not rounded, at which the probability comes to be p; infinite where never."""
        at = int(np.searchsorted(self.p, p))
        if at == len(self.p):
            return math.inf
        if at == 0:
            return float(self.n[0])
        part = (p - self.p[at - 1]) / (self.p[at] - self.p[at - 1])
        logs = np.log(self.n[at - 1 : at + 1])
        return float(np.exp(logs[0] + part * (logs[1] - logs[0])))

    def smallest(self, p: float) -> int | None:
        """The smallest whole N with at least that probability; None where there is none."""
        found = self.first(p)
        if math.isinf(found):
            return None
        n = max(math.floor(found), 1)
        while n < self.n[-1] and self.at(n) < p:
            n += 1
        return n if self.at(n) >= p else None


def chances(made: Forecast, goal: float) -> Chances:
    """The table for an error."""
    return table(lambda n: made.probability(n, goal), table_sizes(made))


def table(probability: Callable[[Array], Array], n: Array) -> Chances:
    """The table of a probability over N, with more sizes than those given where it jumps."""
    p = probability(n)
    for _ in range(_REFINEMENTS):
        steep = np.flatnonzero((np.abs(np.diff(p)) > _JUMP) & (np.diff(n) > 1.0))
        if not len(steep):
            break
        more = n[steep] * (n[steep + 1] / n[steep]) ** _SPLIT[:, None]
        more = np.setdiff1d(more.ravel(), n)
        n, p = np.append(n, more), np.append(p, probability(more))
        order = np.argsort(n)
        n, p = n[order], p[order]
    return Chances(n, np.maximum.accumulate(p))


def table_sizes(made: Forecast) -> Array:
    """N of the table: the measured ones, some between them, eight to a doubling beyond."""
    sizes = made.curve.sizes.astype(float)
    parts = [sizes]
    for low, high in pairwise(sizes):
        if high - low <= _FEW:
            parts.append(np.arange(low + 1, high))
        elif len(sizes) <= 2 * _FEW:
            parts.append(low * (high / low) ** np.array(_BETWEEN))
    doublings = math.log2(made.horizon / made.last)
    steps = np.arange(1, int(_PER_DOUBLING * doublings) + 1) / _PER_DOUBLING
    parts.append(
        np.append(made.last * 2.0**steps, [min(made.last + 1, made.horizon), made.horizon])
    )
    return np.unique(np.concatenate(parts))


@dataclass(frozen=True)
class Plan(Drawn):
    """The answer for one pilot and target. Made by `plan`.

    Errors and targets are in the user's unit.

    Parameters
    ----------
    forecast : Forecast
        The pilot and its extrapolation.
    target : float
        The error to reach.
    goal : float
        The same in the unit of errors.
    samples : int or None
        The best single number if the target is reachable; None where the pilot speaks against it
        or cannot be extrapolated. `chance` is the probability that it is enough.
    lower, upper : float
        Beyond the pilot, the ends of the 90% interval of N over all futures: at N = `lower` the
        target is met with at most 5%, at N = `upper` with at least 95%; `upper` is infinite where
        no N has that. Inside the pilot, the part of it that lies between the two measured sizes at
        which the means pass the target.
    reach : float
        The probability that the target is met at all, within the horizon; nan where the target
        lies beyond a pilot that cannot be extrapolated.
    chances : Chances
        The probability that the target is met by N, as a table.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = kr.plan(pilot, target=0.005)
    >>> made.lower <= made.samples <= made.safe(0.9) <= made.upper
    True
    >>> print(made.explain())
    To reach 0.005, KO needs about 6... samples (chance ...%), 2.6 times the pilot's largest N ...
    """

    forecast: Forecast = field(repr=False)
    target: float
    goal: float = field(repr=False)  # the target as an error
    samples: int | None
    lower: float
    upper: float
    reach: float
    chances: Chances = field(repr=False, compare=False)

    @property
    def curve(self) -> Curve:
        """The pilot."""
        return self.forecast.curve

    @property
    def fit(self) -> str:
        """How the curve was extrapolated."""
        return self.forecast.fit

    @property
    def last(self) -> int:
        """The largest N of the pilot."""
        return self.forecast.last

    @property
    def inside(self) -> bool:
        """Whether the target was met within the pilot, so that measured means answer it."""
        return bool(self.curve.means[-1] <= self.goal)

    @property
    def at_once(self) -> bool:
        """Whether the pilot's smallest N meets the target, so that fewer may be enough."""
        return self.samples is not None and self.samples <= int(self.curve.sizes[0])

    @property
    def capped(self) -> bool:
        """Whether N ends at the largest that is planned for, nearer than the pilot could tell."""
        return self.forecast.horizon >= LARGEST_N

    @property
    def _below_rounding(self) -> bool:
        return bool(self.goal < ROUNDING * self.curve.means.max())

    @property
    def doubt(self) -> str:
        """Why there is no answer although the target may be reachable; empty where there is one."""
        if self._below_rounding:
            return "The target lies below rounding, where errors have no meaning."
        return "" if self.inside else self.forecast.doubt

    @property
    def chance(self) -> float | None:
        """The probability that `samples` are enough, over all futures; None without an answer."""
        return None if self.samples is None else self.probability(self.samples)

    def at(self, n: float) -> Expectation:
        """What is expected at N, with its 90% band.

        Parameters
        ----------
        n : int
            Training samples, up to ten thousand times the pilot's largest.

        Returns
        -------
        Expectation
            In the user's unit.

        Raises
        ------
        KoriskError
            If N is out of range.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> kr.plan(pilot, target=0.005).at(1024).n
        1024
        """
        return self.forecast.at(n)

    def probability(self, n: float) -> float:
        """The probability that the target is met by N, over all futures.

        Parameters
        ----------
        n : int
            Training samples, up to ten thousand times the pilot's largest.

        Returns
        -------
        float
            Zero for N below the pilot's smallest, where nothing was measured.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> made = kr.plan(pilot, target=0.005)
        >>> made.probability(300) < 0.01, made.probability(1024) > 0.9
        (True, True)
        """
        count = self.forecast.sample_count(n)
        # Below the pilot nothing was measured, and nothing is claimed.
        return self.chances.at(count) if count >= self.chances.n[0] else 0.0

    def safe(self, p: float = 0.9) -> int | None:
        """The smallest N with `probability(N)` of at least p, over all futures.

        Parameters
        ----------
        p : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        int or None
            None where no N has it. `reach` is the most that any N has, `if_reached(p)` the number
            under the condition that the target is reachable.

        Raises
        ------
        KoriskError
            If p is out of range.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> made = kr.plan(pilot, target=0.005)
        >>> made.samples <= made.safe(0.8) <= made.safe(0.95), made.probability(made.safe()) >= 0.9
        (True, True)
        """
        return self.chances.smallest(_level(p))

    def if_reached(self, p: float = 0.9) -> int | None:
        """The N that is enough with probability p *if* the target is met by N = `before_long`.

        A number under a condition, whose own probability is `probability(before_long)`; never show
        one without the other.

        Parameters
        ----------
        p : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        int or None
            None without an answer.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.12, 0.08, 0.062, 0.054], model="KO")
        >>> made = kr.plan(pilot, target=0.047)
        >>> made.safe(0.9), made.if_reached(0.9) < made.before_long
        (None, True)
        """
        level = _level(p)
        if self.samples is None:
            return None
        return self.chances.smallest(level * self.chances.at(self.before_long))

    @cached_property
    def before_long(self) -> int:
        """The N by which futures must meet the target to have a part in `samples`.

        16 times the pilot, or 16 times the earliest plausible N where that is more: of futures that
        meet the target later, a pilot says too little.
        """
        later = LATER * self.lower if math.isfinite(self.lower) else 0
        return int(min(max(NEAR * self.last, later), self.forecast.horizon))

    @property
    def floor(self) -> float:
        """Where the curve levels off as far as the pilot tells, in the user's unit."""
        made, error = self.forecast, self.forecast.calibration.floor
        if self.related and not made.doubt:
            error = float(made.quantile(made.horizon, 0.5)[0])
        return float(self.curve.unit.from_error(error))

    @property
    def rounds(self) -> tuple[int, ...]:
        """Totals after each round of collection, none more than four times the one before."""
        if self.samples is None:
            met = self.inside and not self.doubt  # by its means, where a fit does not say so
            beyond = min(2 * self.last, LARGEST_N)
            return () if self._below_rounding or met or beyond == self.last else (beyond,)
        totals, total = [], self.last
        while total < self.samples:
            total = min(ROUND * total, self.samples)
            totals.append(total)
        return tuple(totals)

    @property
    def next_round(self) -> int | None:
        """The total to collect next before planning again; None if the target is met already."""
        return next(iter(self.rounds), None)

    @cached_property
    def alone(self) -> "Plan":
        """The plan without related curves."""
        return plan_from(forecast(self.curve, fit=self.fit), self.target) if self.related else self

    @property
    def related(self) -> tuple[Curve, ...]:
        """The related curves that had a part in it."""
        return self.forecast.related

    @property
    def trust(self) -> float | None:
        """The weight of related curves in the answer; None without any, 0 where none is used."""
        if not self.related:
            return None
        found = self.forecast.relatives
        return 0.0 if found is None or self.doubt else found.trust

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """What is odd about the pilot, in sentences."""
        return findings(self.curve)

    def require(self) -> int:
        """`samples`, or an error where there is no answer.

        Returns
        -------
        int
            The number of samples.

        Raises
        ------
        OutOfReachError
            If the pilot speaks against the target, or cannot be extrapolated.
        """
        if self.samples is None:
            first = "".join(f"measure at N = {n:,} before giving up, or " for n in self.rounds)
            raise OutOfReachError(f"{no_answer(self)} Remedy: {first}ask for an easier target.")
        return self.samples

    def explain(self) -> Message:
        """The plan as a paragraph of plain words.

        Returns
        -------
        Message
            A text: the answer, how sure it is, what to do next, and what is odd about the pilot.
        """
        return explain(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        by, reached = self.before_long, {f"{p:g}": self.if_reached(p) for p in LEVELS}
        condition = {"by": by, "chance": self.chances.at(by), **reached}
        return {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "unit": self.curve.unit.name,
            "fit": self.fit,
            "target": self.target,
            "samples": self.samples,
            "chance": self.chance,
            "lower": self.lower,
            "upper": self.upper,
            "reach": None if math.isnan(self.reach) else self.reach,
            "safe": {f"{p:g}": self.safe(p) for p in LEVELS},
            "if_reached": None if self.samples is None else condition,
            "inside": self.inside,
            "at_once": self.at_once,
            "doubt": self.doubt,
            "trust": self.trust,
            "floor": self.floor,
            "next_round": self.next_round,
            "rounds": list(self.rounds),
            "findings": list(self.findings),
            "explanation": self.explain(),
        }


def plan(
    curve: Curve, target: float, *, fit: str = DEFAULT_FIT, related: Iterable[Curve] = ()
) -> Plan:
    """How many samples a target asks for, according to a pilot of at least three sizes.

    Parameters
    ----------
    curve : Curve
        The pilot.
    target : float
        The error to reach, in the curve's unit. Where the pilot speaks against it, the plan says so
        and has no `samples`.
    fit : str, default "posterior"
        One of `FITS`.
    related : iterable of Curve, default ()
        Curves of the same network on other data: simulated with the known operator, from another
        scanner, of a public data set. They give the shape, the pilot gives level and stretch; how
        far they are trusted follows from how well they explain the pilot (`trust`).

    Returns
    -------
    Plan
        The answer.

    Raises
    ------
    KoriskError
        If the pilot is too small, or its unit does not allow the target.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = kr.plan(pilot, target=0.005)
    >>> round(made.samples, -1), made.next_round == made.samples
    (660, True)
    """
    check_target([curve], target)
    return plan_from(forecast(curve, fit=fit, related=related), target)


def plan_from(made: Forecast, target: float) -> Plan:
    """The plan for a checked target by a forecast: what takes long was done there."""
    goal = float(made.curve.unit.to_error(target))
    odds = chances(made, goal)
    reach = float(odds.p[-1])
    samples, lower, upper = _answer(made, goal, odds)
    if made.doubt and made.curve.means[-1] > goal:
        samples, lower, upper, reach = None, made.last, math.inf, math.nan
    elif goal < ROUNDING * made.curve.means.max():
        samples, lower, upper, reach = None, math.inf, math.inf, math.nan
        odds = Chances(odds.n, np.zeros_like(odds.p))
    return Plan(made, float(target), goal, samples, lower, upper, reach, odds)


def _answer(made: Forecast, goal: float, odds: Chances) -> tuple[int | None, float, float]:
    """The point answer, and the ends of its interval."""
    if made.fit != DEFAULT_FIT:
        return _by_fit(made, goal)
    lower, upper = odds.first(TAIL), odds.first(1 - TAIL)
    if math.isfinite(lower):
        lower = max(math.floor(lower), int(made.curve.sizes[0]))
    if math.isfinite(upper):
        upper = math.ceil(upper)
    passed = made.measured.crossing(goal)
    if passed is not None:
        _, before, after = passed
        middle = odds.smallest(0.5) or after
        lower, upper = max(lower, before), min(upper, after)
        if before == after:
            return after, after, after
        return min(max(middle, before + 1), after), min(lower, after), max(upper, before)
    if odds.p[-1] < LEAST_REACH or made.last == made.horizon:  # nothing is planned for beyond
        return None, lower, upper
    until = min(max(NEAR * made.last, LATER * lower), made.horizon)
    middle = odds.smallest(MIDDLE * odds.at(until)) or made.horizon
    return max(middle, made.last + 1, int(lower)), lower, upper


def _by_fit(made: Forecast, goal: float) -> tuple[int | None, float, float]:
    """Where the fitted curve and its band meet the target; chances are the posterior's.

    Where the pilot meets the target, rises, and misses it again, the first time does not count.
    """
    missed = np.flatnonzero(made.curve.means > goal)
    rises = len(missed) and missed[-1] >= len(missed)
    grid = table_sizes(made)
    grid = grid[grid > made.curve.sizes[missed[-1]]] if rises else grid

    lower = first_met(lambda n: made.band(n)[0], grid, goal)
    upper = first_met(lambda n: made.band(n)[1], grid, goal)
    return first_met(made.middle, grid, goal), float(lower or math.inf), float(upper or math.inf)


def first_met(errors: Callable[[Array], Array], grid: Array, goal: float) -> int | None:
    """The smallest whole N at which a curve is at or below an error, from a grid of N on."""
    reached = np.flatnonzero(errors(grid) <= goal)
    if not len(reached):
        return None
    at = int(reached[0])
    high = math.ceil(float(grid[at]))
    low = math.ceil(float(grid[at - 1])) if at else high - 1
    while high - low > 1:
        middle = (low + high) // 2
        met = bool(errors(np.array([float(middle)]))[0] <= goal)
        low, high = (low, middle) if met else (middle, high)
    return high


def _level(p: float) -> float:
    return real("p", p, at_least=0.5, at_most=0.99, remedy="ask for 0.9, for example")
