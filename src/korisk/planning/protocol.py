"""The protocol of answers that forecasts, predictions, rehearsals and pilots share.

How many samples for a target; what error at N; how likely by N; what to do.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from korisk._checks import real
from korisk.planning.explain import count, span
from korisk.planning.limits import Limit

T = TypeVar("T")

Numbers = Sequence[float] | NDArray[np.generic]  # arguments that get a list of answers
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

    @overload
    def samples(self, sure: float = 0.9) -> int | None: ...

    @overload
    def samples(self, sure: Numbers) -> list[int | None]: ...

    @overload
    def probability(self, n: float) -> float: ...

    @overload
    def probability(self, n: Numbers) -> list[float]: ...

    def recommend(self, sure: float = 0.9, cost: float | None = None) -> Recommendation:
        """What to do."""


class Answers(ABC):
    """The questions that every source of a learning curve answers, in the user's unit.

    N and targets may be single numbers or sequences of them; a sequence gets a list of answers.
    """

    @abstractmethod
    def expected(self, n: float) -> Expectation:
        """The expected error at a single N."""

    @abstractmethod
    def plan(self, target: float) -> Planned:
        """The plan for a single target."""

    @overload
    def at(self, n: float) -> Expectation: ...

    @overload
    def at(self, n: Numbers) -> list[Expectation]: ...

    def at(self, n: float | Numbers) -> Expectation | list[Expectation]:
        """The expected error at N, in the user's unit, with its 90% band."""
        return each_of(n, self.expected)

    @overload
    def samples(self, target: float, sure: float = 0.9) -> int | None: ...

    @overload
    def samples(self, target: Numbers, sure: float = 0.9) -> list[int | None]: ...

    def samples(self, target: float | Numbers, sure: float = 0.9) -> int | list[int | None] | None:
        """The smallest N that meets a target with this probability, over all futures."""
        return each_of(target, lambda goal: self.plan(goal).samples(sure))

    @overload
    def probability(self, n: float, target: float) -> float: ...

    @overload
    def probability(self, n: Numbers, target: float) -> list[float]: ...

    def probability(self, n: float | Numbers, target: float) -> float | list[float]:
        """The probability that a target is met by N, over all futures."""
        return each_of(n, self.plan(target).probability)

    def recommend(
        self, target: float, sure: float = 0.9, cost: float | None = None
    ) -> Recommendation:
        """What to do about a target: one action with one number."""
        return self.plan(target).recommend(sure, cost)


def each_of(numbers: object, answer: Callable[[float], T]) -> T | list[T]:
    """The answer to a number, or the list of answers to a sequence or an array of numbers."""
    # A 0-d array becomes a number here, and gets a single answer.
    if isinstance(numbers, np.ndarray):
        numbers = numbers.tolist()
    if isinstance(numbers, list | tuple | range):
        return [answer(number) for number in numbers]
    return answer(cast(float, numbers))


def level_of(sure: float, name: str = "sure") -> float:
    """Check a requested probability."""
    return real(name, sure, at_least=0.5, at_most=0.99, remedy="ask for 0.9, for example")
