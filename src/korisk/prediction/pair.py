"""Predicted curves as they are shown, and two of them against each other."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.calibrate import calibrate
from korisk.planning.compare import first_above
from korisk.prediction.prediction import FARTHEST_N, FIT_SIZES, Prediction
from korisk.theory import RiskLine, TwoFactors, two_factors

Array = NDArray[np.float64]

SMALLEST = 4  # N from which on curves are shown and compared
BEYOND = 16  # times the examples: how far they are shown
_FARTHER = 16  # times that: where a crossover is still looked for
_PER_DOUBLING = 2
_CLEAR = 0.75  # odds from which on one curve is clearly the better
_FLAT = 1e-6  # relative fall of a curve over all N that are shown, below which it is level
_TO_THE_END = 1.6449  # deviations from the middle of a normal law to the end of its 90% band


@dataclass(frozen=True, eq=False)
class PredictedTrack:
    """A prediction at many N, from 4 on."""

    n: Array  # (M,)
    computed: Array  # (M,) by the theory alone
    lower: Array  # (M,) of the 90% band
    middle: Array  # (M,) the expected error
    upper: Array  # (M,)


@lru_cache(maxsize=16)  # predictions are looked up by what they are, not by what they say
def track(made: Prediction) -> PredictedTrack:
    """A prediction at N = 4, 5.7, 8 ... as far as a crossover is looked for."""
    n = sizes(SMALLEST, min(_FARTHER * last_shown(made), FARTHEST_N), _PER_DOUBLING)
    lower, upper = made.band(n)
    return PredictedTrack(n, made.computed(n), lower, made.errors(n), upper)


def last_shown(made: Prediction) -> int:
    """The N up to which a curve is shown."""
    return BEYOND * made.examples


def sizes(first: float, last: float, per_doubling: int = 1) -> Array:
    """N from `first` on, so many for a doubling, as far as `last`."""
    steps = math.floor(per_doubling * math.log2(last / first) + 1e-9)
    return np.asarray(first * 2.0 ** (np.arange(steps + 1) / per_doubling))


@dataclass(frozen=True)
class PredictedCrossover:
    """Where the curve that is better at first comes to be the worse one.

    `lower` and `upper` are where the odds of the other pass 5% and 95%; `upper` is infinite where
    they never do.
    """

    n: int
    lower: float
    upper: float
    better_after: str

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON; an infinite end is None."""
        upper = None if math.isinf(self.upper) else self.upper
        return {
            "n": self.n,
            "lower": self.lower,
            "upper": upper,
            "better_after": self.better_after,
        }


@dataclass(frozen=True, eq=False)
class PredictedPair:
    """The predicted curve of a known-operator network beside that of a dense one."""

    known: Prediction
    dense: Prediction

    def __post_init__(self) -> None:
        if self.known.examples != self.dense.examples:
            raise KoriskError(
                "two predictions are compared at the same N: make both from the same images, not "
                f"from {self.known.examples} and {self.dense.examples}"
            )

    @cached_property
    def odds(self) -> Array:
        """(M,) the probability that the dense curve lies below the other, at the tracks' N.

        Each error is taken for log-normal, with the half of its 90% band that faces the other
        curve, and independent of the other's. Beyond the N up to which a theory has a meaning, it
        makes no curve the clear winner that was not one before.
        """
        from scipy.special import ndtr

        first, second = track(self.known), track(self.dense)
        apart = np.log(first.middle / second.middle)
        down, up = np.log(first.middle / first.lower), np.log(first.upper / first.middle)
        other_down, other_up = (
            np.log(second.middle / second.lower),
            np.log(second.upper / second.middle),
        )
        facing = np.where(apart > 0, np.hypot(down, other_up), np.hypot(up, other_down))
        found = ndtr(_TO_THE_END * apart / np.maximum(facing, 1e-9))
        found = _held(self.dense, first.n, found)
        return 1 - _held(self.known, first.n, 1 - found)

    @cached_property
    def crossover(self) -> PredictedCrossover | None:
        """The first N at which the better of the two changes, clearly before and after.

        Clear are odds of three to one; None where there is no such change.
        """
        n, ahead = track(self.known).n, self.odds
        clear = np.flatnonzero(np.abs(ahead - 0.5) >= _CLEAR - 0.5)
        if not clear.size:
            return None
        falls = bool(ahead[clear[0]] > 0.5)
        rising = 1 - ahead if falls else ahead  # the odds of the one that is behind at first
        n, rising = n[clear[0] :], rising[clear[0] :]
        if rising.max() < _CLEAR:
            return None
        where, lower, upper = (first_above(n, rising, p) for p in (0.5, 0.05, 0.95))
        return PredictedCrossover(
            round(where), lower, upper, (self.known if falls else self.dense).model
        )

    @property
    def ahead(self) -> str | None:
        """Which one is clearly the better at the last N that is shown; None if neither."""
        shown = track(self.known).n <= last_shown(self.known)
        odds = float(self.odds[shown][-1])
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

        A computed curve is no such line, so that the factors explain it roughly. Sample sizes are
        better read off the curves themselves.
        """
        return two_factors(self.lines[0], self.lines[1], target)

    def factors_or_reason(self, target: float) -> dict[str, Any]:
        """Both factors as plain values, for JSON, or why there are none."""
        try:
            found = self.factors(target)
        except KoriskError as error:
            return {"target": target, "unknown": str(error)}
        parts = {
            "structural": found.structural,
            "approximation_budget": found.approximation_budget,
            "product": found.product,
        }
        return {"target": target} | {n: v if math.isfinite(v) else None for n, v in parts.items()}


def _limit(made: Prediction) -> float:
    """The N up to which a curve has a meaning; a pilot speaks where its theory does not."""
    fitted = made.pilot is not None and len(made.pilot.sizes) >= FIT_SIZES
    return math.inf if fitted else made.valid_to


def _held(made: Prediction, n: Array, odds: Array) -> Array:
    """The odds that a curve is the better one, no clearer beyond its theory's end than there."""
    beyond = n > _limit(made)
    most = float(odds[~beyond].max(initial=0.5))
    return np.where(beyond, np.minimum(odds, most), odds)


def _line(made: Prediction) -> RiskLine:
    shown = track(made)
    kept = (shown.n <= last_shown(made)) & (shown.n == np.round(shown.n))
    fitted = calibrate(Curve(shown.n[kept], shown.middle[kept], model=made.model), "line")
    # What rounding leaves of a flat curve is no slope.
    flat = np.ptp(shown.middle[kept]) <= _FLAT * float(shown.middle[kept].max())
    return RiskLine(fitted.floor, 0.0 if flat else fitted.slope or 0.0)
