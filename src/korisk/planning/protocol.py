"""The one protocol of answers: what everything that knows a learning curve can be asked.

How many samples for a target; what error at N; how likely by N; what to do. Curves with a forecast,
predictions before training, rehearsals and pilots answer alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, overload

import numpy as np

from korisk._checks import real

if TYPE_CHECKING:
    from korisk.planning.chances import Chances
    from korisk.planning.recommend import Recommendation

T = TypeVar("T")


@dataclass(frozen=True)
class Expectation:
    """What is expected at N and its 90% band, in the user's unit.

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


class Planned(Protocol):
    """The answers for one target, as `Plan` has them."""

    @overload
    def samples(self, sure: float = 0.9) -> int | None: ...

    @overload
    def samples(self, sure: Sequence[float]) -> list[int | None]: ...

    @overload
    def probability(self, n: float) -> float: ...

    @overload
    def probability(self, n: Sequence[float]) -> list[float]: ...

    def recommend(self, sure: float = 0.9, cost: float | None = None) -> "Recommendation":
        """What to do."""


class Unmeasured(Planned, Protocol):
    """The same of a curve that was predicted."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def target(self) -> float:
        """What is to be reached."""

    @property
    def chances(self) -> "Chances":
        """The probability that it is met by N."""

    @property
    def measured(self) -> int:
        """The largest N that was measured."""

    @property
    def reach(self) -> float:
        """The probability that it is met at all."""

    @property
    def even(self) -> int | None:
        """N with even odds."""

    @property
    def lower(self) -> float:
        """The lower end of the 90% interval."""

    @property
    def upper(self) -> float:
        """The upper end of it."""


class Answers(ABC):
    """What everything that knows a learning curve answers, in the user's unit.

    N and targets may be single numbers or sequences of them; a sequence gets a list of answers.
    """

    @abstractmethod
    def expected(self, n: float) -> Expectation:
        """What is expected at one N."""

    @abstractmethod
    def plan(self, target: float) -> Planned:
        """The plan for one target."""

    @overload
    def at(self, n: float) -> Expectation: ...

    @overload
    def at(self, n: Sequence[float]) -> list[Expectation]: ...

    def at(self, n: float | Sequence[float]) -> Expectation | list[Expectation]:
        """The expected error at N, in the user's unit, with its 90% band.

        Parameters
        ----------
        n : int or sequence of int
            Training samples.

        Returns
        -------
        Expectation or list of Expectation
            The value and its band.

        Raises
        ------
        KoriskError
            If N is out of range.
        """
        return each_of(n, self.expected)

    @overload
    def samples(self, target: float, sure: float = 0.9) -> int | None: ...

    @overload
    def samples(self, target: Sequence[float], sure: float = 0.9) -> list[int | None]: ...

    def samples(
        self, target: float | Sequence[float], sure: float = 0.9
    ) -> int | list[int | None] | None:
        """The smallest N that meets a target with this probability, over all futures.

        Parameters
        ----------
        target : float or sequence of float
            The value to reach, in the user's unit.
        sure : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        int or None, or a list of them
            None where no N has that probability; `recommend(target)` says what to do then.
        """
        return each_of(target, lambda wanted: self.plan(wanted).samples(sure))

    @overload
    def probability(self, n: float, target: float) -> float: ...

    @overload
    def probability(self, n: Sequence[float], target: float) -> list[float]: ...

    def probability(self, n: float | Sequence[float], target: float) -> float | list[float]:
        """The probability that a target is met by N, over all futures.

        Parameters
        ----------
        n : int or sequence of int
            Training samples.
        target : float
            The value to reach, in the user's unit.

        Returns
        -------
        float or list of float
            Probabilities.
        """
        return each_of(n, self.plan(target).probability)

    def recommend(
        self, target: float, sure: float = 0.9, cost: float | None = None
    ) -> "Recommendation":
        """What to do about a target: one action with one number.

        Parameters
        ----------
        target : float
            The value to reach, in the user's unit.
        sure : float, default 0.9
            The chance with which samples are to be enough, from 0.5 to 0.99.
        cost : float, optional
            Price of one sample.

        Returns
        -------
        Recommendation
            Collect N, measure N next, train longer, stop, or not known; with its reasons.
        """
        return self.plan(target).recommend(sure, cost)


def each_of(given: object, answer: Callable[[float], T]) -> T | list[T]:
    """The answer to a number, or the list of answers to a sequence or an array of numbers."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, list | tuple | range):
        return [answer(number) for number in given]
    return answer(cast(float, given))


def level_of(sure: float) -> float:
    """A probability that may be asked for, checked."""
    return real("sure", sure, at_least=0.5, at_most=0.99, remedy="ask for 0.9, for example")
