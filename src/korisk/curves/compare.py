"""Two pilots against each other: who needs how many more samples, and where the curves cross."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.calibrate import calibrate
from korisk.curves.curve import Curve
from korisk.curves.forecast import DEFAULT_METHOD
from korisk.curves.plan import Plan, plan
from korisk.errors import KoriskError
from korisk.theory import RiskLine, TwoFactors, two_factors

Array = NDArray[np.float64]

FARTHEST = 64  # times the larger pilot: where a crossover is still looked for
_STEPS = 64  # of the errors over which two distributions are compared
_SHARES = np.arange(0.005, 1.0, 0.01)  # quantiles that stand for a distribution


@dataclass(frozen=True)
class Crossover:
    """Where the second curve comes to lie below the first, or the other way round.

    `lower` and `upper` bound N where the odds pass from 5% to 95%; infinite where they never do.
    """

    n: int
    lower: float
    upper: float
    better_after: str
    measured: bool  # whether it lies within both pilots


@dataclass(frozen=True)
class Comparison:
    """The known-operator network's pilot against the dense one's, or any two, at one target."""

    known: Plan
    dense: Plan

    @property
    def target(self) -> float:
        """The target, in the user's unit."""
        return self.known.target

    @property
    def names(self) -> tuple[str, str]:
        """What the two are called."""
        names = self.known.curve.model, self.dense.curve.model
        return names if all(names) and names[0] != names[1] else ("first", "second")

    @property
    def ratio(self) -> float | None:
        """Samples of the second over samples of the first; None where one cannot be told."""
        if self.known.samples is None or self.dense.samples is None:
            return None
        return self.dense.samples / self.known.samples

    @cached_property
    def ratio_range(self) -> tuple[float, float] | None:
        """The 90% range of that ratio among the futures in which both meet the target."""
        if self.ratio is None:
            return None
        first, second = (np.log(_spread(made)) for made in (self.known, self.dense))
        low, high = np.quantile(np.subtract.outer(second, first), [0.05, 0.95])
        return float(np.exp(low)), float(np.exp(high))

    def factors(self, method: str = "line") -> TwoFactors:
        """Both factors of Proposition (prop:ct-proxy) from lines fitted to both pilots.

        `method` is "line" or "paper", the calibrations of the form floor + slope log N / N.
        """
        if method not in ("line", "paper"):
            raise KoriskError(
                f"method must be 'line' or 'paper', got {method!r}; the two factors need lines"
            )
        lines = []
        for made in (self.known, self.dense):
            fitted = calibrate(made.curve, method)
            lines.append(RiskLine(fitted.floor, fitted.slope or 0.0))
        return two_factors(lines[0], lines[1], self.known.goal)

    @cached_property
    def crossover(self) -> Crossover | None:
        """The first N at which the better of the two changes, as far as the pilots tell."""
        n = self._range
        ahead = self.odds(n)  # that the second is better
        if self.known.method == DEFAULT_METHOD:
            sign = ahead - 0.5
        else:
            sign = np.log(self.known.forecast.middle(n) / self.dense.forecast.middle(n))
        changes = np.flatnonzero(np.signbit(sign[1:]) != np.signbit(sign[:-1]))
        if not changes.size:
            return None
        at = int(changes[0])
        part = sign[at] / (sign[at] - sign[at + 1]) if sign[at] != sign[at + 1] else 0.5
        where = math.exp(math.log(n[at]) * (1 - part) + math.log(n[at + 1]) * part)
        falls = bool(sign[at] > 0)
        odds = 1 - ahead if falls else ahead
        ends = [_first_above(n, odds, level) for level in (0.05, 0.95)]
        last = min(self.known.last, self.dense.last)
        n_there = max(2, round(where))
        return Crossover(
            n_there,
            min(ends[0], n_there),
            max(ends[1], n_there),
            self.names[0 if falls else 1],
            where <= last,
        )

    def odds(self, n: Array) -> Array:
        """(M,) the probability that the second curve lies below the first at each N.

        The pilots are taken for independent; seeds that share their data make it more certain.
        """
        pair = [made.forecast.posterior for made in (self.known, self.dense)]
        ends = np.log([[made.quantile(n, p) for made in pair] for p in (1e-3, 1 - 1e-3)])
        low, high = ends[0].min(axis=0), ends[1].max(axis=0)
        logs = low + (high - low) * np.linspace(0, 1, _STEPS)[:, None]
        first, second = (made.cumulative(n, np.exp(logs)) for made in pair)
        logs = _where_it_rises(logs, first + second)  # the bulk may lie between two steps
        first, second = (made.cumulative(n, np.exp(logs)) for made in pair)
        middle = 0.5 * (second[1:] + second[:-1])
        return np.asarray((np.diff(first, axis=0) * middle).sum(axis=0) + (1 - first[-1]))

    @property
    def _range(self) -> Array:
        start = max(int(made.curve.sizes[0]) for made in (self.known, self.dense))
        end = FARTHEST * max(self.known.last, self.dense.last)
        doublings = math.log2(end / start)
        return np.asarray(start * 2.0 ** np.linspace(0, doublings, 2 + int(4 * doublings)))

    def explain(self) -> str:
        """The comparison as a paragraph of plain words."""
        from korisk.curves.words import explain_comparison

        return explain_comparison(self)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON."""
        first, second = self.names
        cross = self.crossover
        return {
            "target": self.target,
            "known": {"name": first, **self.known.to_dict()},
            "dense": {"name": second, **self.dense.to_dict()},
            "ratio": self.ratio,
            "ratio_range": self.ratio_range,
            "two_factors": {name: self._factors_or_reason(name) for name in ("line", "paper")},
            "crossover": None
            if cross is None
            else {
                "n": cross.n,
                "lower": cross.lower,
                "upper": cross.upper,
                "better_after": cross.better_after,
                "within_pilots": cross.measured,
            },
            "explanation": self.explain(),
        }

    def _factors_or_reason(self, method: str) -> dict[str, Any]:
        try:
            found = self.factors(method)
        except KoriskError as error:
            return {"unknown": str(error)}
        return {
            "structural": found.structural,
            "approximation_budget": found.approximation_budget,
            "product": found.product,
        }


def compare(
    known: Curve, dense: Curve, target: float, *, method: str = DEFAULT_METHOD
) -> Comparison:
    """Compare two pilots, such as those of a known-operator and a dense network, at a target."""
    if known.unit.law != dense.unit.law:
        raise KoriskError(
            f"compared curves must have the same unit, got {known.unit.name!r} and "
            f"{dense.unit.name!r}; read both in one unit"
        )
    if known.metric != dense.metric:
        raise KoriskError(
            f"compared curves must have the same metric, got {known.metric!r} and "
            f"{dense.metric!r}; compare like with like"
        )
    return Comparison(plan(known, target, method=method), plan(dense, target, method=method))


def _spread(made: Plan) -> Array:
    """Quantiles of N among the futures that meet the target."""
    grid = np.unique(np.append(made._grid, float(made.last)))
    met = np.maximum.accumulate(made.forecast.posterior.probability(grid, made.goal))
    shares = met / made._counted
    rising, kept = np.unique(np.minimum(shares, 1.0), return_index=True)
    return np.asarray(np.exp(np.interp(_SHARES, rising, np.log(grid[kept]))))


def _where_it_rises(logs: Array, rising: Array) -> Array:
    """(Y, M) abscissas between which each column of `rising` grows by equal amounts."""
    result = np.empty_like(logs)
    for column in range(logs.shape[1]):
        values = rising[:, column]
        levels = np.linspace(values[0], values[-1], len(values))
        result[:, column] = np.interp(levels, values, logs[:, column])
    return result


def _first_above(n: Array, odds: Array, level: float) -> float:
    above = np.flatnonzero(odds >= level)
    return float(round(n[above[0]])) if above.size else math.inf
