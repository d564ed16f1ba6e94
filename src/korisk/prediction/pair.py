"""Predicted curves at many N, and two of them compared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.compare import Crossover, first_above
from korisk.planning.fit import calibrate
from korisk.prediction.prediction import FARTHEST_N, FIT_SIZES, Prediction
from korisk.theory import RiskLine, TwoFactors, two_factors

Array = NDArray[np.float64]

# Curves are shown and compared from _SMALLEST to _BEYOND times the examples.
_SMALLEST = 4
_BEYOND = 16
_FARTHER = 16  # a crossover is searched up to this multiple of the largest N that is shown
_PER_DOUBLING = 2  # sizes per doubling of N
_CLEAR = 0.75  # least probability that one curve is better to call it clearly better
_FLAT = 1e-6  # relative fall over all N that are shown, below which a curve is level
_TO_THE_END = 1.6449  # 95% quantile of the normal law: from the median to the end of the 90% band


class PredictedTrack(NamedTuple):
    """A prediction at many N."""

    n: Array  # (M,)
    computed: Array  # (M,) by the theory alone
    expected: Array  # (M,)
    lower: Array  # (M,) of the 90% band
    upper: Array  # (M,)


@lru_cache(maxsize=16)  # by identity: predictions do not compare equal
def track(prediction: Prediction) -> PredictedTrack:
    """A prediction at N = 4, 5.7, 8 ... as far as a crossover is searched."""
    last = min(_FARTHER * last_shown(prediction), FARTHEST_N)
    steps = math.floor(_PER_DOUBLING * math.log2(last / _SMALLEST) + 1e-9)
    n = np.asarray(_SMALLEST * 2.0 ** (np.arange(steps + 1) / _PER_DOUBLING))
    return _points(prediction, n)


def _points(prediction: Prediction, n: Array) -> PredictedTrack:
    return PredictedTrack(n, prediction.computed(n), prediction.errors(n), *prediction.band(n))


def last_shown(prediction: Prediction) -> int:
    """The N up to which a curve is shown."""
    return _BEYOND * prediction.examples


def error_rows(
    prediction: Prediction, at: Sequence[float] = (), *, doublings: bool = True, to: float = 0.0
) -> list[dict[str, float]]:
    """N, the computed error, the expected one and its 90% band.

    At the N of `at`, or at doublings from 4 to 16 times the examples, or as far as `to`; without
    `doublings`, at two N for each doubling.
    """
    if at:
        points = _points(prediction, np.array(at, float))
    else:
        points = track(prediction)
        selected = points.n <= max(last_shown(prediction), to)
        if doublings:
            selected &= points.n == np.round(points.n)
        points = PredictedTrack(*(column[selected] for column in points))
    return [
        dict(zip(points._fields, map(float, row), strict=True)) for row in zip(*points, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class PredictedPair:
    """The predicted curves of a known-operator network and of a dense one, of equal images."""

    known: Prediction
    dense: Prediction

    @cached_property
    def odds(self) -> Array:
        """(M,) the probability that the dense curve lies below the other, at the tracks' N.

        Each error is taken as log-normal, with the half of its 90% band that faces the other curve,
        and independent of the other's. Beyond the end of a theory, it makes no curve the clear
        winner that was not one before.
        """
        from scipy.special import ndtr

        first, second = track(self.known), track(self.dense)
        # (M,) half-widths of the bands in logarithms, below and above each curve.
        (down, up), (other_down, other_up) = (
            (np.log(curve.expected / curve.lower), np.log(curve.upper / curve.expected))
            for curve in (first, second)
        )
        # (M,) log ratio of the errors, with the deviation of the halves that face each other.
        apart = np.log(first.expected / second.expected)
        facing = np.where(apart > 0, np.hypot(down, other_up), np.hypot(up, other_down))
        probability = ndtr(_TO_THE_END * apart / np.maximum(facing, 1e-9))
        probability = _held(self.dense, first.n, probability)
        return 1 - _held(self.known, first.n, 1 - probability)

    @cached_property
    def crossover(self) -> Crossover | None:
        """The first N at which the better of the two changes, clearly before and after.

        Clear is a probability of 75% or more; None where there is no such change.
        """
        n, ahead = track(self.known).n, self.odds
        clear = np.flatnonzero(np.abs(ahead - 0.5) >= _CLEAR - 0.5)
        if not clear.size:
            return None
        # From the first N with a clear winner on, the odds of the one that is behind.
        falls = bool(ahead[clear[0]] > 0.5)
        rising = 1 - ahead if falls else ahead  # the odds of the one that is behind at first
        n, rising = n[clear[0] :], rising[clear[0] :]
        if rising.max() < _CLEAR:
            return None
        where, lower, upper = (first_above(n, rising, p) for p in (0.5, 0.05, 0.95))
        better = self.known if falls else self.dense
        return Crossover(round(where), lower, upper, better.model, measured=False)

    @property
    def ahead(self) -> str | None:
        """The model that is clearly better at the last N that is shown; None if neither is."""
        within = track(self.known).n <= last_shown(self.known)
        odds = float(self.odds[within][-1])
        if abs(odds - 0.5) < _CLEAR - 0.5:
            return None
        return self.dense.model if odds > 0.5 else self.known.model

    @property
    def limit(self) -> float:
        """The N beyond which one of the computed curves is only the best case."""
        return min(_limit(self.known), _limit(self.dense))

    @cached_property
    def lines(self) -> tuple[RiskLine, RiskLine]:
        """The line floor + sigma log N / N through each curve.

        Fitted by least squares, as `korisk compare` fits it to a pilot, to the expected errors at
        N = 4, 8, ... up to 16 times the examples.
        """
        return _line(self.known), _line(self.dense)

    def factors(self, target: float) -> TwoFactors:
        """Both factors of Proposition (prop:ct-proxy) at a target, from the lines.

        A computed curve is no such line, so the factors explain it only roughly. Sample sizes are
        better read off the curves themselves.
        """
        return two_factors(self.lines[0], self.lines[1], target)

    def factors_or_reason(self, target: float) -> dict[str, Any]:
        """Both factors as plain values, for JSON, or why there are none."""
        try:
            factors = self.factors(target)
        except KoriskError as error:
            return {"target": target, "unknown": str(error)}
        values: dict[str, Any] = {"target": target}
        for name in ("structural", "approximation_budget", "product"):
            factor = float(getattr(factors, name))
            values[name] = factor if math.isfinite(factor) else None
        return values

    def explain(self) -> str:
        """Where the curves cross, or which one is ahead, in a sentence."""
        if self.crossover is not None:
            return self.crossover.explain()
        last = last_shown(self.known)
        if self.ahead is not None:
            return (
                f"{self.ahead} is better at N = {last:,}, and the curves do not clearly cross "
                "before or after."
            )
        reason = "the curves are too close"
        if self.limit < last:
            reason = f"beyond N = {self.limit:,.0f} a computed curve is only the best case"
        return f"Which one is better at N = {last:,} is not known: {reason}."


def _limit(prediction: Prediction) -> float:
    """The N up to which a curve holds; with a pilot of enough sizes, everywhere."""
    fitted = prediction.pilot is not None and len(prediction.pilot.sizes) >= FIT_SIZES
    return math.inf if fitted else prediction.valid_to


def _held(prediction: Prediction, n: Array, odds: Array) -> Array:
    """The odds that a curve is better; beyond the end of its theory, no clearer than before it."""
    beyond = n > _limit(prediction)
    most = float(odds[~beyond].max(initial=0.5))
    return np.where(beyond, np.minimum(odds, most), odds)


def _line(prediction: Prediction) -> RiskLine:
    rows = error_rows(prediction)
    errors = [row["expected"] for row in rows]
    fitted = calibrate(Curve([row["n"] for row in rows], errors, model=prediction.model), "line")
    flat = np.ptp(errors) <= _FLAT * max(errors)  # rounding of a flat curve is no slope
    return RiskLine(fitted.floor, 0.0 if flat else fitted.slope)
