"""The plan: how many samples a target asks for, how sure that is, and what to collect next."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import LARGEST_N, Curve
from korisk.curves.findings import findings
from korisk.curves.forecast import DEFAULT_METHOD, Expectation, Forecast, forecast
from korisk.curves.target import target_error
from korisk.errors import KoriskError, OutOfReachError
from korisk.theory._checks import real

Array = NDArray[np.float64]

# Chosen on the tuning part of benchmarks/planner.py, reported there on the other part.
NEAR = 64  # times the pilot: futures that meet the target later do not count,
LATER = 16  # unless even the earliest plausible N times this is later
LEAST_REACH = 0.25  # below this chance the target is called out of reach
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

    Made by `plan`.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = kr.plan(pilot, target=0.005)
    >>> made.lower <= made.samples <= made.safe(0.9) <= made.upper
    True
    >>> print(made.explain())
    To reach 0.005, KO needs about 64... samples, 2.5 times the pilot's largest N of 256. ...
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
        """The error to expect at N, with its 90% band.

        In the user's unit. N beyond ten thousand times the pilot's largest raises `KoriskError`.

        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> kr.plan(pilot, target=0.005).at(1024).n
        1024
        """
        return self.forecast.at(n)

    def probability(self, n: float) -> float:
        """The probability that the target is met by N.

        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> made = kr.plan(pilot, target=0.005)
        >>> made.probability(300) < 0.01, made.probability(1024) > 0.99
        (True, True)
        """
        count = self.forecast.sample_count(n)
        up_to = np.unique(np.append(self._grid[self._grid < count], float(count)))
        return float(self.forecast.posterior.probability(up_to, self.goal).max())

    @cached_property
    def _grid(self) -> Array:
        return _doublings(self.forecast)

    def safe(self, p: float = 0.9) -> int | None:
        """An N to budget for at level p; None without an answer.

        Where `upper` is finite, N suffices with probability p, so that `upper` is `safe(0.95)`.
        Where it is not, N suffices in a share p of those futures alone that meet the target before
        long, by N = `before_long`; `probability(n)` has the whole odds of an N.

        `p` is from 0.5 to 0.95, or `KoriskError` is raised.

        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> made = kr.plan(pilot, target=0.005)
        >>> made.samples <= made.safe(0.8) <= made.safe(0.95)
        True
        """
        level = real("p", p, remedy="ask for a level from 0.5 to 0.95, such as 0.9")
        if not 0.5 <= level <= 0.95:
            raise KoriskError(f"p must be from 0.5 to 0.95, got {p!r}; ask for 0.9, for example")
        if self.samples is None:
            return None
        if self.method == DEFAULT_METHOD:
            return max(self.samples, self._by(level * (1.0 if self._certain else self._counted)))
        from scipy.special import ndtri as norm_quantile

        spread = norm_quantile(level) / norm_quantile(1 - TAIL)
        if self._certain:
            return math.ceil(self.samples * (self.upper / self.samples) ** spread)
        return min(math.ceil(self.samples * safety_multiple(level)), LARGEST_N)

    @property
    def _certain(self) -> bool:
        return math.isfinite(self.upper)

    @property
    def before_long(self) -> int:
        """The N by which futures must meet the target to have a part in the answer."""
        return _before_long(self.forecast, self.lower)

    @property
    def if_met(self) -> tuple[int, int] | None:
        """The 90% range of N among the futures that meet the target before long.

        None without an answer, and for methods that know no futures.
        """
        if self.samples is None or self.method != DEFAULT_METHOD:
            return None
        return self._by(TAIL * self._counted), self._by((1 - TAIL) * self._counted)

    def _by(self, p: float) -> int:
        found = _when(self.forecast, self.goal, p, start=again_missed(self.forecast, self.goal))
        return self.forecast.horizon if found is None else found

    @cached_property
    def _counted(self) -> float:
        return _futures(self.forecast, self.goal, self.lower)

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
            return (min(2 * self.last, LARGEST_N),)
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
                f"measure at N = {self.rounds[0]:,} before giving up, or ask for an easier target"
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
    """How many samples a target asks for, according to a pilot of at least three sizes.

    `target` is in the curve's unit. Where the pilot speaks against it, the plan says so and has no
    `samples`; a target that the unit does not allow, or a pilot that is too small, raises
    `KoriskError`. `method` is one of `CURVE_METHODS`.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = kr.plan(pilot, target=0.005)
    >>> round(made.samples, -1), made.next_round == made.samples
    (640, True)
    """
    target_error(curve, target)  # refused first, in its own words
    return plan_from(forecast(curve, method=method), target)


def plan_from(made: Forecast, target: float) -> Plan:
    """The plan for a target by a forecast that is there already: what takes long was done then."""
    goal = target_error(made.curve, target)
    if made.method == DEFAULT_METHOD:
        samples, lower, upper, reach = _by_posterior(made, goal)
    else:
        samples, lower, upper, reach = _by_band(made, goal)
    return Plan(made, float(target), goal, samples, lower, upper, reach)


Answer = tuple[int | None, float, float, float]


def _by_posterior(made: Forecast, goal: float) -> Answer:
    """Read N off the probability that the target is met by N."""
    reach = float(made.posterior.probability(_doublings(made), goal).max())
    if reach < LEAST_REACH:
        return None, math.inf, math.inf, reach
    start = again_missed(made, goal)
    lower = _or_infinite(_when(made, goal, TAIL, start))
    upper = _when(made, goal, 1 - TAIL, start) if reach > 1 - TAIL else None
    samples = _when(made, goal, MIDDLE * _futures(made, goal, lower), start)
    return samples, lower, _or_infinite(upper), reach


def _before_long(made: Forecast, earliest: float) -> int:
    """64 times the pilot, or 16 times the earliest plausible N where that is more.

    Of futures that meet the target later, a pilot says too little for them to have a part.
    """
    later = LATER * earliest if math.isfinite(earliest) else 0
    return int(min(max(NEAR * made.last, later), made.horizon))


def _futures(made: Forecast, goal: float, earliest: float) -> float:
    """The probability of the futures that meet the target before long."""
    until = float(_before_long(made, earliest))
    grid = _doublings(made)
    return float(made.posterior.probability(np.append(grid[grid < until], until), goal).max())


def _when(made: Forecast, goal: float, p: float, start: int | None) -> int | None:
    """The N by which the target is met with probability p."""
    return made.first(lambda n: made.posterior.probability(n, goal) >= p, start=start)


def again_missed(made: Forecast, goal: float) -> int | None:
    """Where the search must begin, if the pilot meets the target, rises, and misses it again.

    The first time does not count then; the answer lies beyond the last measured miss.
    """
    missed = made.curve.means > goal
    if not missed.any() or missed[: np.flatnonzero(missed)[-1]].all():
        return None
    return int(made.curve.sizes[np.flatnonzero(missed)[-1]]) + 1


def _by_band(made: Forecast, goal: float) -> Answer:
    """Read N off the fitted curve and its band; the chance still comes from the posterior."""
    start = again_missed(made, goal)
    samples = made.first(lambda n: made.middle(n) <= goal, start=start)
    lower = made.first(lambda n: made.band(n)[0] <= goal, start=start)
    upper = made.first(lambda n: made.band(n)[1] <= goal, start=start)
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
