"""The probability that a target is met by N as a table, and the sample sizes read off it.

A future is one learning curve beyond the pilot, drawn from the posterior. `goal` is the target as
an error; a target may be in another unit, such as decibels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from korisk.planning.extrapolation import Extrapolation
from korisk.planning.fit import level_of
from korisk.theory import RiskLine

Array = NDArray[np.float64]

# Chosen on the tuning part of benchmarks/planner/compare.py, reported there on the other part.
NEAR = 16  # times the pilot's largest N: futures that meet the target later do not count,
LATER = 16  # unless this multiple of the earliest plausible N is larger
LEAST_REACH = 0.15  # below this chance the target is called out of reach
TAIL = 0.05  # left out at each end of an interval
MIDDLE = 0.5  # share of the counted futures that meet the target by the point estimate
_PER_DOUBLING = 8  # sizes at which the table is computed beyond the pilot
_BETWEEN = (0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)  # and between measured sizes
_REFINEMENTS = 3  # passes; each divides steep intervals by six
_JUMP = 0.04  # largest step of the probability between neighbouring sizes
_SPLIT = np.arange(1, 6) / 6  # positions of new sizes between two, in log N
_FEW = 16  # gap between measured sizes up to which every whole N is in the table


@dataclass(frozen=True, eq=False)
class Chances:
    """The probability that a target is met by N: a table, interpolated linearly in log N."""

    n: Array  # (M,) ascending
    p: Array  # (M,) nondecreasing

    def at(self, n: float) -> float:
        """The probability at N; constant beyond the ends of the table."""
        return float(np.interp(math.log(n), np.log(self.n), self.p))

    def first(self, p: float) -> float:
        """The N, not rounded, at which the probability first reaches p; infinite if never."""
        index = int(np.searchsorted(self.p, p))
        if index == len(self.p):
            return math.inf
        if index == 0:
            return float(self.n[0])
        # Inverse of the linear interpolation in `at`.
        fraction = (p - self.p[index - 1]) / (self.p[index] - self.p[index - 1])
        logs = np.log(self.n[index - 1 : index + 1])
        return float(np.exp(logs[0] + fraction * (logs[1] - logs[0])))

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
        """The 90% interval of the N that meets the target; an infinite end was never reached."""
        # Rounded outward, so that the interval has at least its nominal probability.
        lower, upper = self.first(TAIL), self.first(1 - TAIL)
        lower = max(math.floor(lower), int(self.n[0])) if math.isfinite(lower) else lower
        return lower, math.ceil(upper) if math.isfinite(upper) else upper


class Enough:
    """Mixin of plans: sample sizes read off the table `chances`."""

    chances: Chances

    def samples(self, sure: float = 0.9) -> int | None:
        """The smallest N with `probability(N)` of at least `sure`, over all futures."""
        return self.chances.smallest(level_of(sure))

    @property
    def even(self) -> int | None:
        """The N with even odds, over all futures; None if no N has them."""
        return self.chances.smallest(0.5)


def chances(forecast: Extrapolation, goal: float) -> Chances:
    """The table of probabilities that the error is at most `goal`."""
    return table(lambda n: forecast.met(n, goal), table_sizes(forecast))


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


def table_sizes(forecast: Extrapolation) -> Array:
    """Sizes of the table: the measured N, some between them, eight per doubling beyond."""
    sizes, last, horizon = forecast.curve.sizes.astype(float), forecast.last, forecast.horizon
    groups = [sizes]
    for low, high in pairwise(sizes):
        if high - low <= _FEW:
            groups.append(np.arange(low + 1, high))
        elif len(sizes) <= 2 * _FEW:
            groups.append(low * (high / low) ** np.array(_BETWEEN))
    steps = np.arange(1, int(_PER_DOUBLING * math.log2(horizon / last)) + 1) / _PER_DOUBLING
    # The probability may jump right after the last mean, where the posterior takes over.
    groups.append(np.append(last * 2.0**steps, [min(last + 1, horizon), horizon]))
    return np.unique(np.concatenate(groups))


def answer(forecast: Extrapolation, goal: float, odds: Chances) -> tuple[int | None, float, float]:
    """The N that meets the error `goal`, or None, and the ends of its 90% interval."""
    lower, upper = odds.interval()
    if forecast.line is not None:
        return _by_line(forecast, forecast.line, goal), lower, upper
    last, crossing = forecast.last, forecast.measured.crossing(goal)
    if crossing is not None:  # the pilot meets the target: its means bracket the answer
        _, before, after = crossing
        middle = odds.smallest(0.5) or after
        return min(max(middle, min(before + 1, after)), after), lower, upper
    if odds.p[-1] < LEAST_REACH or last == forecast.horizon:  # out of reach, or no extrapolation
        return None, lower, upper
    # Conditional on meeting the target before long: later futures are hardly known.
    middle = odds.smallest(MIDDLE * odds.at(near_horizon(forecast, lower))) or forecast.horizon
    return max(middle, last + 1, int(lower)), lower, upper


def near_horizon(forecast: Extrapolation, lower: float) -> int:
    """The N by which a future must meet the target to count in the point estimate."""
    late = LATER * lower if math.isfinite(lower) else 0
    return int(min(max(NEAR * forecast.last, late), forecast.horizon))


def _by_line(forecast: Extrapolation, line: RiskLine, goal: float) -> int | None:
    """The N from which on the paper's line meets the goal, within the range of the forecast.

    Where the pilot meets the target, rises, and misses it again, the first crossing is ignored.
    """
    sizes = forecast.curve.sizes
    # The means rise if the last one above the goal comes after one below it.
    missed = np.flatnonzero(forecast.curve.means > goal)
    rises = len(missed) and missed[-1] >= len(missed)
    start = int(sizes[missed[-1]]) + 1 if rises else int(sizes[0])
    if goal <= line.floor:
        return None
    n = max(line.samples(goal), start)
    return n if n <= forecast.horizon else None
