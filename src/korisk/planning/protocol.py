"""The protocol of answers that forecasts, predictions, rehearsals and pilots share.

How many samples for a target; what error at N; how likely by N; what to do.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from korisk.planning.explain import count, span
from korisk.planning.limits import Limit

Action = Literal["collect", "measure", "train", "stop", "unknown"]


@dataclass(frozen=True)
class Expectation:
    """The expected error at N with its 90% band, in the user's unit.

    Parameters
    ----------
    n : int
        Training samples.
    value : float
        The expected error, accuracy or other metric.
    lower, upper : float
        The ends of its 90% band, lower <= upper.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> then = kr.plan(pilot, target=0.005).at(1024)
    >>> then.n, round(then.value, 3), then.lower < then.value < then.upper
    (1024, 0.003, True)
    """

    n: int
    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Recommendation:
    """What to do about a target, as one action with one number. Made by `Plan.recommend`.

    Parameters
    ----------
    action : {"collect", "measure", "train", "stop", "unknown"}
        Collect samples up to N; measure one more size; train longer or differently first; stop,
        because more data of this kind will not reach the target; or unknown, because too little is
        known for any of these.
    n : int or None
        The number of samples to collect in all, or the size to measure; None for other actions.
    sentence : str
        The advice.
    sure : float
        The requested probability.
    even, lower, upper : number or None
        N with even odds, and the 90% interval of N; None where no N has the probability.
    seeds : int or None
        Number of seeds to measure.
    chance : float or None
        The probability that N is enough, for "collect".
    cost : float or None
        Cost of the samples still to be collected, where a price was given.
    limit : Limit or None
        What limits the error; None where the advice is to stop for want of data's effect.
    reasons : tuple of str
        The reasons, in sentences.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> advice = kr.plan(pilot, target=0.005).recommend()
    >>> advice.action, 640 <= advice.n < 700
    ('collect', True)
    """

    action: Action
    n: int | None
    sentence: str
    sure: float
    even: int | None
    lower: int | None
    upper: int | None
    seeds: int | None = None
    chance: float | None = None
    cost: float | None = None
    limit: Limit | None = None
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sentence

    @property
    def odds(self) -> str:
        """Even odds and the interval of N, in a sentence; empty where neither is known."""
        # Without an upper end, the lower one is a bound with 95% probability, and no interval.
        parts = [] if self.even is None else [f"even odds at {count(self.even)}"]
        if self.lower is not None:
            ends = span(self.lower, math.inf if self.upper is None else self.upper)
            takes = f"it takes {ends} samples (95% sure)"
            parts.append(f"90% interval {ends}" if self.upper is not None else takes)
        sentence = "; ".join(parts)
        return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""

    def explain(self) -> str:
        """The advice with its reasons.

        Returns
        -------
        str
            Sentences.
        """
        return " ".join([self.sentence, *self.reasons])

    def to_dict(self) -> dict[str, Any]:
        """The advice as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        names = ("action", "n", "seeds", "sure", "chance", "even", "lower", "upper", "cost")
        return {
            **{name: getattr(self, name) for name in names},
            "limit": self.limit and self.limit.to_dict(),
            "sentence": self.sentence,
            "reasons": list(self.reasons),
        }


class Planned(Protocol):
    """The answers for one target, as `Plan` has them."""

    @property
    def target(self) -> float:
        """The value to reach."""

    @property
    def reach(self) -> float:
        """The probability that the target is met at any N."""

    @property
    def even(self) -> int | None:
        """N with even odds."""

    def samples(self, sure: float = 0.9) -> int | None:
        """The smallest N that is enough with this probability."""

    def probability(self, n: float) -> float:
        """The probability that the target is met by N."""

    def recommend(self, sure: float = 0.9, cost: float | None = None) -> Recommendation:
        """What to do."""


class Answers(ABC):
    """The questions that every source of a learning curve answers, in the user's unit."""

    @abstractmethod
    def expected(self, n: float) -> Expectation:
        """The expected error at N, with its 90% band."""

    @abstractmethod
    def plan(self, target: float) -> Planned:
        """The plan for a target."""

    def at(self, n: float) -> Expectation:
        """The expected error at N, in the user's unit, with its 90% band."""
        return self.expected(n)

    def samples(self, target: float, sure: float = 0.9) -> int | None:
        """The smallest N that meets a target with this probability, over all futures."""
        return self.plan(target).samples(sure)

    def probability(self, n: float, target: float) -> float:
        """The probability that a target is met by N, over all futures."""
        return self.plan(target).probability(n)

    def recommend(
        self, target: float, sure: float = 0.9, cost: float | None = None
    ) -> Recommendation:
        """What to do about a target: one action with one number."""
        return self.plan(target).recommend(sure, cost)
