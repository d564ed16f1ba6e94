"""The plan: how many samples a target asks for, how sure that is, and what to collect next."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.calibrate import LARGEST_N
from korisk.curves.curve import Curve
from korisk.curves.findings import findings
from korisk.curves.forecast import DEFAULT_METHOD, Expectation, Forecast, forecast
from korisk.curves.target import target_error
from korisk.errors import KoriskError, OutOfReachError
from korisk.theory._checks import real

Array = NDArray[np.float64]

# Chosen on the tuning part of benchmarks/planner.py, reported there on the other part.
NEAR = 64  # times the pilot: futures that meet the target later do not count,
LATER = 16  # unless even the earliest plausible N times this is later
LEAST_REACH = 0.1  # below this chance the target is called out of reach
TAIL = 0.05  # left out at each end of an interval
MIDDLE = 0.6  # share of the futures that count which meet the target by the point answer
MULTIPLES = {0.8: 1.7, 0.9: 2.2, 0.95: 3.2}  # of a fitted curve's answer, to be safe
LEVELS = (0.8, 0.9, 0.95)  # of safety that reports show
ROUND = 4  # a round of collection at most multiplies the data by this


@dataclass(frozen=True)
class Plan:
    """The answer for one pilot and target. Errors and targets are in the user's unit.

    `samples` is None where the pilot speaks against the target. `lower` and `upper` are the 90%
    band read at the target; `upper` is infinite where the pilot cannot rule out that the error
    levels off above it. `reach` is the probability that the target is met within the horizon.
    """

    forecast: Forecast = field(repr=False)
    target: float
    goal: float = field(repr=False)  # the target as an error
    samples: int | None
    lower: float
    upper: float
    reach: float

    @property
    def curve(self) -> Curve:
        """The pilot."""
        return self.forecast.curve

    @property
    def method(self) -> str:
        """How the curve was carried on."""
        return self.forecast.method

    @property
    def last(self) -> int:
        """The largest N of the pilot."""
        return self.forecast.last

    def at(self, n: float) -> Expectation:
        """The error to expect at N, with its 90% band."""
        return self.forecast.at(n)

    def probability(self, n: float) -> float:
        """The probability that the target is met by N."""
        count = real("n", n, at_least=2, remedy="count the training samples")
        up_to = np.unique(np.append(self._grid[self._grid < count], count))
        return float(self.forecast.posterior.probability(up_to, self.goal).max())

    @cached_property
    def _grid(self) -> Array:
        return _doublings(self.forecast)

    def safe(self, p: float = 0.9) -> int | None:
        """An N that suffices with probability p if the target can be met at all; None without one.

        "At all" means before long: within 64 times the pilot, or 16 times the earliest plausible
        N where that is more.
        """
        level = real("p", p, remedy="ask for a level from 0.5 to 0.95, such as 0.9")
        if not 0.5 <= level <= 0.95:
            raise KoriskError(f"p must be from 0.5 to 0.95, got {p!r}; ask for 0.9, for example")
        if self.samples is None:
            return None
        if self.method == DEFAULT_METHOD:
            return max(self.samples, self._among_those_met(level))
        if self.samples <= self.last:  # the multiples are for what is foretold, not for this
            return self.samples
        return min(math.ceil(self.samples * safety_multiple(level)), LARGEST_N)

    @property
    def if_met(self) -> tuple[int, int] | None:
        """The 90% range of N among the futures that meet the target; None without an answer."""
        if self.samples is None:
            return None
        return self._among_those_met(TAIL), self._among_those_met(1 - TAIL)

    def _among_those_met(self, share: float) -> int:
        start = _missed(self.forecast, self.goal) if share > MIDDLE else None
        found = _when(self.forecast, self.goal, share * self._counted, start=start)
        return self.forecast.horizon if found is None else found

    @cached_property
    def _counted(self) -> float:
        earliest = self.lower if math.isfinite(self.lower) else None
        return _futures(self.forecast, self.goal, earliest)

    @property
    def floor(self) -> float:
        """Where the curve levels off as far as the pilot tells, in the user's unit."""
        return float(self.curve.unit.from_error(self._floor_error))

    @property
    def _floor_error(self) -> float:
        if self.method == DEFAULT_METHOD:
            return self.forecast.posterior.floor_quantile(0.5)
        return self.forecast.calibration.floor

    @property
    def rounds(self) -> tuple[int, ...]:
        """Totals after each round of collection, none more than four times the one before."""
        if self.samples is None:
            return (2 * self.last,)
        totals, total = [], self.last
        while total < self.samples:
            total = min(ROUND * total, self.samples)
            totals.append(total)
        return tuple(totals)

    @property
    def next_round(self) -> int | None:
        """The total to collect next before planning again; None if the target is met already."""
        return self.rounds[0] if self.rounds else None

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """What is odd about the pilot, in sentences."""
        return findings(self.curve)

    def require(self) -> int:
        """`samples`, or `OutOfReachError` where the pilot speaks against the target."""
        if self.samples is None:
            name = self.curve.model or "the model"
            raise OutOfReachError(
                f"target {self.target:.6g} is not reachable by {name} according to this pilot "
                f"and method {self.method}, which levels off at about {self.floor:.4g}; "
                f"measure at N = {2 * self.last:,} before giving up, or ask for less"
            )
        return self.samples

    def explain(self) -> str:
        """The plan as a paragraph of plain words."""
        from korisk.curves.words import explain

        return explain(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for JSON."""
        return {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "unit": self.curve.unit.name,
            "method": self.method,
            "target": self.target,
            "samples": self.samples,
            "lower": self.lower,
            "upper": self.upper,
            "reach": self.reach,
            "if_met": self.if_met,
            "safe": {f"{p:g}": self.safe(p) for p in LEVELS},
            "floor": self.floor,
            "next_round": self.next_round,
            "rounds": list(self.rounds),
            "findings": list(self.findings),
            "explanation": self.explain(),
        }


def plan(curve: Curve, target: float, *, method: str = DEFAULT_METHOD) -> Plan:
    """How many samples a target asks for, according to a pilot of at least three sizes."""
    goal = target_error(curve, target)
    made = forecast(curve, method=method)
    value = float(target)
    if method == DEFAULT_METHOD:
        samples, lower, upper, reach = _by_posterior(made, goal)
    else:
        samples, lower, upper, reach = _by_band(made, goal)
    return Plan(made, value, goal, samples, lower, upper, reach)


Answer = tuple[int | None, float, float, float]


def _by_posterior(made: Forecast, goal: float) -> Answer:
    """Read N off the probability that the target is met by N."""
    reach = float(made.posterior.probability(_doublings(made), goal).max())
    if reach < LEAST_REACH:
        return None, math.inf, math.inf, reach
    lower = _when(made, goal, TAIL)
    upper = _when(made, goal, 1 - TAIL) if reach > 1 - TAIL else None
    samples = _when(made, goal, MIDDLE * _futures(made, goal, lower), start=_missed(made, goal))
    return samples, _or_infinite(lower), _or_infinite(upper), reach


def _futures(made: Forecast, goal: float, earliest: float | None) -> float:
    """The probability of the futures that count: those that meet the target before long.

    Before long is within 64 times the pilot, or 16 times the earliest plausible N. Of futures
    beyond, a pilot says too little for them to have a part in the answer.
    """
    until = min(max(NEAR * made.last, LATER * (earliest or 0.0)), made.horizon)
    grid = _doublings(made)
    chance = made.posterior.probability(np.append(grid[grid < until], float(until)), goal)
    return float(chance.max())


def _when(made: Forecast, goal: float, p: float, start: int | None = None) -> int | None:
    """The N by which the target is met with probability p."""
    return made.first(lambda n: made.posterior.probability(n, goal) >= p, start=start)


def _missed(made: Forecast, goal: float) -> int:
    """The largest measured N whose mean error misses the target: the answer is not before it.

    Where a pilot falls below the target and rises again, the first time does not count.
    """
    above = np.flatnonzero(made.curve.means > goal)
    return int(made.curve.sizes[above[-1] if above.size else 0])


def _by_band(made: Forecast, goal: float) -> Answer:
    """Read N off the fitted curve and its band; the chance still comes from the posterior."""
    samples = made.first(lambda n: made.middle(n) <= goal, start=_missed(made, goal))
    lower = made.first(lambda n: made.band(n)[0] <= goal)
    upper = made.first(lambda n: made.band(n)[1] <= goal)
    reach = float(made.posterior.probability(_doublings(made), goal).max())
    return samples, _or_infinite(lower), _or_infinite(upper), reach


def _doublings(made: Forecast) -> Array:
    """N from the pilot's first to the horizon, four to a doubling, the near end among them."""
    start, end = float(made.curve.sizes[0]), float(made.horizon)
    grid = start * 2.0 ** np.arange(0, math.log2(end / start), 0.25)
    return np.unique(np.append(grid, [float(made.last), min(float(NEAR * made.last), end), end]))


def _or_infinite(n: int | None) -> float:
    return math.inf if n is None else n


def safety_multiple(p: float) -> float:
    """The multiple of the point answer for a level, between those that were measured."""
    levels = np.array([0.5, *MULTIPLES])
    logits = np.log(levels / (1 - levels))
    factors = np.log([1.0, *MULTIPLES.values()])
    return float(np.exp(np.interp(math.log(p / (1 - p)), logits, factors)))
