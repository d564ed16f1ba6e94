"""The probability that a target is met by N, as a table, and the numbers that are read off it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from korisk.planning.extrapolation import Extrapolation
from korisk.planning.fit import DEFAULT_FIT
from korisk.planning.protocol import Numbers, each_of, level_of

Array = NDArray[np.float64]

# Chosen on the tuning part of benchmarks/planner/compare.py, reported there on the other part.
NEAR = 16  # times the pilot: futures that meet the target later do not count,
LATER = 16  # unless even the earliest plausible N times this is later
LEAST_REACH = 0.15  # below this chance the target is called out of reach
TAIL = 0.05  # left out at each end of an interval
MIDDLE = 0.5  # share of the counted draws that meet the target by the point answer
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

    def interval(self) -> tuple[float, float]:
        """The whole N between which the target comes to be met with 90%; infinite where never."""
        lower, upper = self.first(TAIL), self.first(1 - TAIL)
        lower = max(math.floor(lower), int(self.n[0])) if math.isfinite(lower) else lower
        return lower, math.ceil(upper) if math.isfinite(upper) else upper


class Enough:
    """Which N are enough with which probability, read off a table: part of a plan."""

    chances: Chances

    def met_by(self, n: float) -> float:
        """The probability that the target is met by one N."""
        raise NotImplementedError

    @overload
    def probability(self, n: float) -> float: ...

    @overload
    def probability(self, n: Numbers) -> list[float]: ...

    def probability(self, n: float | Numbers) -> float | list[float]:
        """The probability that the target is met by N, over all futures.

        Parameters
        ----------
        n : int or sequence of int
            Training samples; of a pilot, up to ten thousand times its largest.

        Returns
        -------
        float or list of float
            Zero for N below a pilot's smallest, where nothing was measured.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> made = kr.plan(pilot, target=0.005)
        >>> made.probability(300) < 0.01, made.probability(1024) > 0.9
        (True, True)
        """
        return each_of(n, self.met_by)

    @overload
    def samples(self, sure: float = 0.9) -> int | None: ...

    @overload
    def samples(self, sure: Numbers) -> list[int | None]: ...

    def samples(self, sure: float | Numbers = 0.9) -> int | list[int | None] | None:
        """The smallest N with `probability(N)` of at least `sure`, over all futures.

        Parameters
        ----------
        sure : float or sequence of float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        int or None, or a list of them
            None where no N has it: `reach` is the most that any N has, and `recommend()` says what
            to do then.

        Raises
        ------
        KoriskError
            If a level is out of range.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> made = kr.plan(pilot, target=0.005)
        >>> made.even <= made.samples(sure=0.8) <= made.samples(sure=0.95)
        True
        >>> made.probability(made.samples()) >= 0.9
        True
        """
        return each_of(sure, lambda level: self.chances.smallest(level_of(level)))

    @property
    def even(self) -> int | None:
        """N with even odds, over all futures; None where no N has them."""
        return self.samples(0.5)


def chances(made: Extrapolation, goal: float) -> Chances:
    """The table for an error."""
    return table(lambda n: made.met(n, goal), table_sizes(made))


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


def table_sizes(made: Extrapolation) -> Array:
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


def answer(made: Extrapolation, goal: float, odds: Chances) -> tuple[int | None, float, float]:
    """The number of samples for an error, if there is one, and the ends of its interval."""
    if made.fit != DEFAULT_FIT:
        return _by_fit(made, goal)
    lower, upper = odds.interval()
    passed = made.measured.crossing(goal)
    if passed is not None:  # inside the pilot the means answer, whatever lies beyond
        _, before, after = passed
        middle = odds.smallest(0.5) or after
        return min(max(middle, min(before + 1, after)), after), lower, upper
    if odds.p[-1] < LEAST_REACH or made.last == made.horizon:  # nothing is planned for beyond
        return None, lower, upper
    middle = odds.smallest(MIDDLE * odds.at(before_long(made, lower))) or made.horizon
    return max(middle, made.last + 1, int(lower)), lower, upper


def before_long(made: Extrapolation, lower: float) -> int:
    """The N by which futures must meet a target to have a part in the answer."""
    later = LATER * lower if math.isfinite(lower) else 0
    return int(min(max(NEAR * made.last, later), made.horizon))


def _by_fit(made: Extrapolation, goal: float) -> tuple[int | None, float, float]:
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
