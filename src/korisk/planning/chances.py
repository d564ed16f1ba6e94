"""The probability that a target is met by N as a table, and the numbers read off it.

A future is one learning curve beyond the pilot, drawn from the forecast. `goal` is the target as
an error; a target may be in another unit, such as decibels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.planning import words
from korisk.planning.fit import level_of
from korisk.planning.forecast import Outlook
from korisk.planning.pilot import Limit, Longer, findings, limit, no_learning

Array = NDArray[np.float64]

TAIL = 0.05  # left out at each end of a range
LEVELS = (0.8, 0.9, 0.95)  # probabilities that reports show
_REFINEMENTS = 3  # passes; each divides steep intervals by six
_JUMP = 0.04  # largest step of the probability between neighbouring sizes
_SPLIT = np.arange(1, 6) / 6  # positions of new sizes between two, in log N


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
        return self.forecast.doubt or (words.flat(self.forecast.unit.noun) if flat else "")

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
            values = zip(longer.before, longer.errors, strict=True)
            return Limit("training", words.trained_longer(longer.n, longer.factor, *next(values)))
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
        """The plausible range of N: a chance of 5% at its lower end, 95% at its upper end."""
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
