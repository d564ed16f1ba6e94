"""The curve of a network on simulated pairs, and what it says of real ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk import _checks
from korisk._show import Reported
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.planning.chances import Chances
from korisk.planning.explain import value
from korisk.planning.futures.posterior import posterior
from korisk.planning.protocol import Answers, Expectation
from korisk.planning.recommend import check_words
from korisk.prediction.misfit import Belief, LogErrors
from korisk.prediction.prediction import FARTHEST_N, PredictedPlan, Prediction, trust_words
from korisk.prediction.rehearsal.worth import Worth, worth

Array = NDArray[np.float64]

_ONE_SEED = 0.05  # relative deviation of a mean of one seed
# Chosen with benchmarks/prediction/rehearse.py --part choose.
# What few distinct images cost at N, over what half of them cost more: about that again, less at
# smaller N, where fewer of the training images are copies.
_AGAIN, _POWER = 1.2, 0.4
BELIEF = Belief(
    shapes=((0.05, 0.3), (0.15, 0.45), (0.4, 0.25)),
    lengths=((3.0, 0.5), (12.0, 0.5)),
    offsets=((0.02, 0.7), (0.08, 0.27), (0.4, 0.03)),
    unseen=0.0,
)
# Ellipses give the shape; their level may be another.
UNLIKE = Belief(
    shapes=((0.1, 0.5), (0.3, 0.5)),
    lengths=((3.0, 0.5), (12.0, 0.5)),
    offsets=((0.4, 0.4), (1.2, 0.6)),
    unseen=0.0,
)


# Chosen with benchmarks/prediction/reduced.py --part choose.
# Twice the steps take off the logarithm of an error so much of what the doubling before took off.
_NEXT_DOUBLING = 0.9
# Deviation of what steps that were left out would take off: a part of it, and for each halving.
_UNSURE, _UNSURE_HALVING = 0.3, 0.01


@dataclass(frozen=True, eq=False)
class _Simulated:
    """The simulated curve in the place of a theory."""

    simulated: ClassVar[bool] = True  # as no theory is
    curve: Curve
    parameters: int | None

    @property
    def floor(self) -> float:
        """Where curves that were fitted to it level off."""
        return posterior(self.curve).floor_quantile(0.5)

    def errors(self, n: ArrayLike) -> Array:
        """(M,) the simulated error at each N: straight between sizes, extrapolated beyond them."""
        sizes, fitted = np.asarray(n, float), posterior(self.curve)
        ends = np.clip(sizes, self.curve.sizes[0], self.curve.sizes[-1])
        inside = np.interp(np.log(ends), np.log(self.curve.sizes), np.log(self.curve.means))
        return np.asarray(np.exp(inside + fitted.centre(sizes) - fitted.centre(ends)))

    def effective(self, n: float) -> float:
        """Not known: a rehearsal measures errors alone."""
        return math.nan


def fullest(curve: Curve) -> int:
    """The N of the most seeds; of several, the largest."""
    return int(max(zip(curve.counts.tolist(), curve.sizes.tolist(), strict=True))[1])


def levelled(curve: Curve) -> Curve:
    """The errors of few seeds at some N as they would be on average over all seeds.

    A seed is better or worse at every N alike, since it has images of its own to judge it. By how
    much is seen at the N of the most seeds.

    Parameters
    ----------
    curve : Curve
        Errors of a rehearsal.

    Returns
    -------
    Curve
        The same one, if every N has equally many seeds.
    """
    if len(set(curve.counts.tolist())) == 1:
        return curve
    most, seeds, errors = curve.n == fullest(curve), np.array(curve.seed), curve.error.copy()
    for n in curve.sizes:
        here = curve.n == n
        shared = most & np.isin(seeds, seeds[here])
        if shared.any():
            errors[here] *= curve.error[most].mean() / curve.error[shared].mean()
    return Curve(curve.n, errors, curve.seed, curve.model, curve.metric)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rehearsal(Reported, Answers):
    """The curve of a network on simulated pairs, and what it says of real ones. By `rehearse`.

    Parameters
    ----------
    curve : Curve
        Mean squared errors on simulated pairs, of every size and seed.
    simulated : str
        What was simulated, in words.
    unaltered : int
        The largest N whose training images are all examples as they are; 0 without examples.
    level : float
        Relative standard error of the errors for the few images that judge.
    parameters : int
        Weights that are trained.
    belief : Belief, optional
        Prior of how far reality is from the simulation.
    halved : Curve, optional
        Errors of networks that had half the distinct images, and copies of these.
    undertrained : bool, default False
        Whether training limits the curve: it rises with N, the network has learned nothing, or
        steps were left out for a limit of time.
    trained : float, default 1
        The share of their steps that networks were trained for, where a limit of time left steps
        out. What these would have taken off the errors is estimated, and widens bands.
    doubled : float, default 0
        Where steps were left out: by how much the logarithm of the error at the largest N fell when
        steps were doubled to those that were taken.
    notes : tuple of str
        Sentences on how the rehearsal went.
    seconds : float
        How long it took.

    Examples
    --------
    >>> import korisk as kr
    >>> curve = kr.Curve([8, 16, 32, 64], [0.4, 0.3, 0.24, 0.2], model="Net", metric="mse")
    >>> made = kr.Rehearsal(
    ...     curve=curve, simulated="90 examples", unaltered=60, level=0.05, parameters=4160
    ... )
    >>> print(made.explain())
    Net has an expected error of 0.2... at N = 64 ...
    """

    curve: Curve
    simulated: str
    unaltered: int
    level: float
    parameters: int
    belief: Belief = BELIEF
    halved: Curve | None = None
    undertrained: bool = False
    trained: float = 1.0
    doubled: float = 0.0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @cached_property
    def adjusted(self) -> Curve:
        """The curve less what it costs that steps were left out, and that few images are distinct.

        Networks with half the distinct images show it at the largest N: they err more, by as much
        as twice the images would save.
        """
        curve = levelled(self.curve)
        if self.trained < 1:
            # Few pairs are learned by heart in few steps: nothing is left to do at the smallest N.
            first, last = curve.sizes[[0, -1]]
            share = np.log(curve.n / first) / math.log(last / first)
            errors = curve.error * np.exp(-self.untrained[0] * share)
            curve = Curve(curve.n, errors, curve.seed, curve.model, "mse")
        if self.halved is None:
            return curve
        largest = float(self.halved.sizes[-1])
        same = (self.curve.n == largest) & np.isin(self.curve.seed, self.halved.seed)
        more = math.log(self.halved.means[-1] / self.curve.error[same].mean())
        weight = 1 - np.minimum(self.unaltered / curve.n, 1.0) ** _POWER
        weight /= 1 - (self.unaltered / largest) ** _POWER
        errors = curve.error * np.exp(-_AGAIN * max(more, 0.0) * weight)
        return Curve(curve.n, errors, curve.seed, curve.model, "mse")

    @property
    def untrained(self) -> tuple[float, float]:
        """What steps that were left out would take off a log error, with its standard deviation.

        At the largest N. Each doubling takes off a constant part of what the one before did.
        """
        halvings = -math.log2(self.trained)
        series = _NEXT_DOUBLING * (1 - _NEXT_DOUBLING**halvings) / (1 - _NEXT_DOUBLING)
        less = max(self.doubled, 0.0) * series
        return less, math.hypot(_UNSURE * less, _UNSURE_HALVING * halvings)

    def predict(self, pilot: Curve | None = None) -> Prediction:
        """The expected errors of real images, corrected by those that were measured.

        Parameters
        ----------
        pilot : Curve, optional
            Mean squared errors of the same network on a few real pairs. It corrects the level and
            the shape of the rehearsed curve; where the two contradict each other, curves that are
            fitted to the pilot alone compete with the rehearsal.

        Returns
        -------
        Prediction
            Its `errors`, `band` and `samples` are about real images.

        Raises
        ------
        KoriskError
            If the pilot is no `Curve`, or is in another unit than the mean squared error.
        """
        sizes, plain = self.adjusted.sizes, self.adjusted.sizes <= self.unaltered
        variance = relative_variance(self.adjusted)
        noise = np.full(len(sizes), _ONE_SEED**2) if variance is None else variance
        logs = np.log(self.adjusted.means)
        # What is not known of steps that were left out is each network's own, and no part of the
        # level, which two networks share (`worth`).
        offsets = tuple((math.hypot(o, self.untrained[1]), p) for o, p in self.belief.offsets)
        alone = Prediction(
            _Simulated(self.adjusted, self.parameters),
            model=self.curve.model,
            examples=int(sizes[-1]),
            level=self.level,
            rehearsal=LogErrors(sizes[plain].astype(float), logs[plain], noise[plain]),
            notes=self.notes,
            valid_from=float(sizes[0]),
            valid_to=float(sizes[-1]),
            belief=replace(self.belief, offsets=offsets),
            rivals=self.belief is UNLIKE,
        )
        if pilot is None:
            return alone
        corrected = alone.with_pilot(pilot)
        return replace(corrected, rivals=True) if corrected.doubted else corrected

    def plan(self, target: float, pilot: Curve | None = None) -> PredictedPlan:
        """The answer for a target: by the rehearsal alone, or with a small real pilot.

        Parameters
        ----------
        target : float
            Mean squared error to reach.
        pilot : Curve, optional
            As for `predict`.

        Returns
        -------
        PredictedPlan
            No N is below the smallest that was rehearsed or measured.
        """
        answer = self.predict(pilot).plan(target)
        least = min(curve.sizes[0] for curve in (self.curve, pilot) if curve is not None)
        beyond = answer.chances.n >= least
        chances = Chances(answer.chances.n[beyond], answer.chances.p[beyond])
        return replace(answer, chances=chances, undertrained=self.undertrained)

    def worth(self, other: Rehearsal, target: float, pilot: Curve | None = None) -> Worth:
        """How many times as many samples another network needs for the same target.

        Parameters
        ----------
        other : Rehearsal
            Of the other network, with the same images and seeds: then what these images do not
            show of the population counts once.
        target : float
            Mean squared error to reach.
        pilot : Curve, optional
            Errors of this network on real pairs, as for `predict`.

        Returns
        -------
        Worth
            The ratio of N with its 90% interval.
        """
        shared = self.simulated.partition(";")[0] == other.simulated.partition(";")[0]
        return worth(self.predict(pilot), other.predict(), target, shared=shared)

    def expected_with(self, n: float, pilot: Curve | None = None) -> Expectation:
        """What is expected of real images at one N, with a small real pilot or without.

        Parameters
        ----------
        n : int
            Training samples.
        pilot : Curve, optional
            As for `predict`.

        Returns
        -------
        Expectation
            The error with its 90% band.
        """
        remedy = "rehearse smaller sizes, or give a pilot"
        least = int(min(curve.sizes[0] for curve in (self.curve, pilot) if curve is not None))
        size = _checks.count("n", n, at_least=least, at_most=FARTHEST_N, remedy=remedy)
        return self.predict(pilot).expected(size)

    def expected(self, n: float) -> Expectation:
        """What is expected of real images at one N, by the rehearsal alone."""
        return self.expected_with(n)

    def first_check(self) -> Expectation:
        """What a first measurement shows if operator, noise and images are as simulated.

        Returns
        -------
        Expectation
            At N = 16, or at the nearest N that was rehearsed.
        """
        return self.predict().first_check()

    def explain(
        self,
        target: float | None = None,
        pilot: Curve | None = None,
        sure: float = 0.9,
        cost: float | None = None,
    ) -> str:
        """The answer, what was simulated and measured, and what to measure first.

        Parameters
        ----------
        target : float, optional
            Mean squared error to reach; without it, the error at the largest simulated N is stated.
        pilot : Curve, optional
            As for `predict`.
        sure : float, default 0.9
            The chance with which samples are to be enough, from 0.5 to 0.99.
        cost : float, optional
            Price of one sample.

        Returns
        -------
        str
            Sentences on one line.
        """
        if target is None:
            sentences, reasons = [self.outlook(pilot)], []
            if pilot is None:
                reasons.append(check_words(self.first_check()))
        else:
            advice = self.plan(target, pilot).recommend(sure, cost)
            sentences, reasons = [advice.sentence, advice.odds], list(advice.reasons)
        return " ".join(filter(None, [*sentences, *self.basis(pilot), *reasons]))

    def outlook(self, pilot: Curve | None = None) -> str:
        """The error at the largest simulated N, in a sentence.

        Parameters
        ----------
        pilot : Curve, optional
            As for `predict`.

        Returns
        -------
        str
            With its 90% band.
        """
        then = self.expected_with(int(self.curve.sizes[-1]), pilot)
        return (
            f"{self.curve.model} has an expected error of {value(then.value)} at N = {then.n:,} "
            f"(90%: {value(then.lower)} to {value(then.upper)})."
        )

    def basis(self, pilot: Curve | None = None) -> list[str]:
        """What was simulated and what was measured, with notes on both.

        Parameters
        ----------
        pilot : Curve, optional
            As for `predict`.

        Returns
        -------
        list of str
            Sentences.
        """
        first, last = self.curve.sizes[0], self.curve.sizes[-1]
        facts = [f"Simulated: {self.simulated}; nothing below N = {first:,} or beyond {last:,}."]
        if pilot is None:
            facts.append("Measured: nothing.")
        else:
            facts.append(f"Measured: a pilot at N = {pilot.sizes[0]:,} to {pilot.sizes[-1]:,}.")
            facts += trust_words(self.predict(pilot))
        return [*facts, *self.notes]
