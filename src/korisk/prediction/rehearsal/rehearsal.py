"""The curve of a network on simulated pairs, and what it says of real ones.

`Rehearsal` predicts with the curve; `Rehearsed` adds a pilot, sentences, tables and JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk import _checks
from korisk._show import Shown
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.planning.chances import Chances
from korisk.planning.futures.posterior import posterior
from korisk.planning.protocol import Answers, Expectation
from korisk.prediction.misfit import Belief, LogErrors
from korisk.prediction.prediction import (
    FARTHEST_N,
    Advising,
    PredictedPlan,
    Prediction,
    expectation_words,
    trust_words,
)
from korisk.prediction.rehearsal.worth import Worth, worth

Array = NDArray[np.float64]

_ONE_SEED = 0.05  # relative deviation of a mean of one seed
_PER_DOUBLING = 2  # sizes per doubling of N at which a curve is drawn
_BEYOND = 4  # a curve is drawn at least up to this multiple of the largest rehearsed N
# Chosen with benchmarks/prediction/rehearse.py --part choose.
# Cost of few distinct images at N relative to the extra cost of half of them: about as much again,
# and less at smaller N, where fewer of the training images are copies.
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


@dataclass(frozen=True, eq=False)
class _Simulated:
    """The simulated curve in the place of a theory."""

    curve: Curve
    parameters: int | None

    @property
    def floor(self) -> float:
        """Where curves that were fitted to it level off."""
        return posterior(self.curve).floor_quantile(0.5)

    def errors(self, n: ArrayLike) -> Array:
        """(M,) the simulated error at each N: straight between sizes, extrapolated beyond them."""
        # Interpolated between rehearsed sizes; beyond them, fitted curves continue from the end.
        sizes, fitted = np.asarray(n, float), posterior(self.curve)
        ends = np.clip(sizes, self.curve.sizes[0], self.curve.sizes[-1])
        inside = np.interp(np.log(ends), np.log(self.curve.sizes), np.log(self.curve.means))
        return np.asarray(np.exp(inside + fitted.centre(sizes) - fitted.centre(ends)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Rehearsal(Shown, Answers):
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
        Relative standard error of the errors due to the few test images.
    parameters : int
        Weights that are trained.
    belief : Belief, optional
        Prior of how far reality is from the simulation.
    halved : Curve, optional
        Errors of networks that had half the distinct images, and copies of these.
    undertrained : bool, default False
        Whether training limits the curve: it rises with N, or the network has learned nothing.
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
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @cached_property
    def adjusted(self) -> Curve:
        """The curve without the cost of few distinct images.

        Networks with half the distinct images show it at the largest N: they err more, by as much
        as twice the images would save.
        """
        curve, halved = self.curve, self.halved
        if halved is None:
            return curve
        # `more`: log ratio of errors with half the distinct images, over the same seeds.
        largest = float(halved.sizes[-1])
        more = math.log(halved.means[-1] / curve.error[curve.n == largest].mean())
        weight = 1 - np.minimum(self.unaltered / curve.n, 1.0) ** _POWER
        weight /= 1 - (self.unaltered / largest) ** _POWER
        errors = curve.error * np.exp(-_AGAIN * max(more, 0.0) * weight)
        return Curve(curve.n, errors, curve.seed, curve.model, "mse")

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
        # Sizes without altered copies count as measured on the examples; others extrapolate.
        sizes, plain = self.adjusted.sizes, self.adjusted.sizes <= self.unaltered
        variance = relative_variance(self.adjusted)
        noise = np.full(len(sizes), _ONE_SEED**2) if variance is None else variance
        logs = np.log(self.adjusted.means)
        alone = Prediction(
            _Simulated(self.adjusted, self.parameters),
            model=self.curve.model,
            examples=int(sizes[-1]),
            level=self.level,
            rehearsal=LogErrors(sizes[plain].astype(float), logs[plain], noise[plain]),
            notes=self.notes,
            valid_from=float(sizes[0]),
            valid_to=float(sizes[-1]),
            belief=self.belief,
            rivals=self.belief == UNLIKE,
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
        covered = answer.chances.n >= self._smallest(pilot)
        chances = Chances(answer.chances.n[covered], answer.chances.p[covered])
        return replace(answer, chances=chances, undertrained=self.undertrained)

    def worth(self, rival: Rehearsal, target: float, pilot: Curve | None = None) -> Worth:
        """How many times as many samples another network needs for the same target.

        Parameters
        ----------
        rival : Rehearsal
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
        # The words before the semicolon describe the images: equal words, equal images.
        shared = self.simulated.partition(";")[0] == rival.simulated.partition(";")[0]
        return worth(self.predict(pilot), rival.predict(), target, shared=shared)

    def expected(self, n: float, pilot: Curve | None = None) -> Expectation:
        """The error expected on real images at one N, with a small real pilot or without."""
        remedy, least = "rehearse smaller sizes, or give a pilot", self._smallest(pilot)
        size = _checks.count("n", n, at_least=least, at_most=FARTHEST_N, remedy=remedy)
        return self.predict(pilot).expected(size)

    def _smallest(self, pilot: Curve | None) -> int:
        """The smallest N that was rehearsed or measured."""
        return int(min(curve.sizes[0] for curve in (self.curve, pilot) if curve is not None))

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
        return Rehearsed(self, pilot).explain(target, sure, cost)


@dataclass(frozen=True, eq=False)
class Rehearsed(Advising):
    """The answers of a rehearsed network, with or without a small pilot on real pairs."""

    rehearsal: Rehearsal
    pilot: Curve | None = None

    @property
    def model(self) -> str:
        """Name of the network."""
        return self.rehearsal.curve.model

    @property
    def first(self) -> int:
        """The smallest N that was rehearsed."""
        return int(self.rehearsal.curve.sizes[0])

    @property
    def last(self) -> int:
        """The largest N that was rehearsed."""
        return int(self.rehearsal.curve.sizes[-1])

    @property
    def target(self) -> float:
        """A target for users who name none: what the largest N reaches with 95% probability."""
        return float(f"{self.expected(self.last).upper:.3g}")

    @property
    def check(self) -> Expectation | None:
        """What a first measurement is expected to show; None with a pilot."""
        return None if self.pilot is not None else self.rehearsal.first_check()

    def plan(self, target: float) -> PredictedPlan:
        """The answer for a target."""
        return self.rehearsal.plan(target, self.pilot)

    def expected(self, n: float) -> Expectation:
        """The error expected on real images at one N."""
        return self.rehearsal.expected(n, self.pilot)

    def rows(self, sizes: Sequence[float]) -> list[dict[str, float]]:
        """N, the simulated error, the expected one and its 90% band."""
        simulated = self.rehearsal.predict().computed(sizes).tolist()
        return [
            {"n": float(then.n), "computed": error, "expected": then.value}
            | {"lower": then.lower, "upper": then.upper}
            for error, then in zip(simulated, map(self.expected, sizes), strict=True)
        ]

    def drawn_sizes(self, needed: float = 0.0) -> list[int]:
        """N at which the curve is drawn, some way beyond the rehearsal and what a target needs."""
        first, end = float(self.first), max(_BEYOND * self.last, 2.0 * needed)
        end = min(end, FARTHEST_N)
        if self.pilot is not None:  # a pilot may begin above the smallest rehearsed N
            first = max(first, float(self.pilot.sizes[0]))
        steps = max(2, math.ceil(_PER_DOUBLING * math.log2(max(end / first, 2.0))))
        sizes = np.geomspace(first, max(end, first + 1), 1 + steps)
        return sorted({round(n) for n in sizes.tolist()})

    def explain(
        self, target: float | None = None, sure: float = 0.9, cost: float | None = None
    ) -> str:
        """The answer, what was simulated and measured, and what to measure first."""
        sentences, reasons = self.advised([] if target is None else [target], sure, cost)
        return " ".join([*sentences, *self.basis(), *reasons])

    def outlook(self) -> str:
        """The error at the largest rehearsed N, in a sentence."""
        return f"{expectation_words(self.model, self.expected(self.last))}."

    def basis(self) -> list[str]:
        """What was simulated and what was measured, with notes on both."""
        limits = f"nothing below N = {self.first:,} or beyond {self.last:,}"
        facts = [f"Simulated: {self.rehearsal.simulated}; {limits}.", "Measured: nothing."]
        if self.pilot is not None:
            first, last = self.pilot.sizes[[0, -1]]
            facts[1] = f"Measured: a pilot at N = {first:,} to {last:,}."
            facts += trust_words(self.rehearsal.predict(self.pilot))
        return [*facts, *self.rehearsal.notes]

    def to_dict(
        self,
        targets: Sequence[float],
        at: Sequence[float] = (),
        sure: float = 0.9,
        cost: float | None = None,
    ) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        rehearsal, curve, pilot = self.rehearsal, self.rehearsal.curve, self.pilot
        rows = zip(curve.n.tolist(), curve.error.tolist(), curve.seed, strict=True)
        # Curves are drawn as far as the targets need, and beyond the rehearsal.
        plans = [self.plan(target) for target in targets]
        needed = max((plan.samples(sure) or plan.even or 0 for plan in plans), default=0)
        pairs = () if pilot is None else zip(pilot.sizes, pilot.means, strict=True)
        means = zip(curve.sizes.tolist(), curve.means.tolist(), strict=True)
        return {
            "model": self.model,
            "how": "trained",
            "relu": False,
            "floor": None,
            "parameters": rehearsal.parameters,
            "errors": self.rows(at or curve.sizes.tolist()),
            "samples": [plan.to_dict(sure, cost) for plan in plans],
            "track": self.rows(self.drawn_sizes(needed)),
            "rehearsal": [{"n": n, "measured": mean} for n, mean in means],
            "checks": [{"n": int(n), "measured": float(mean)} for n, mean in pairs],
            "trust": None if pilot is None else rehearsal.predict(pilot).trust,
            "first_check": self.check and vars(self.check),
            "simulated": rehearsal.simulated,
            "curve": [dict(zip(("n", "error", "seed"), row, strict=True)) for row in rows],
            "unaltered": rehearsal.unaltered,
            "notes": list(rehearsal.notes),
            "explanation": self.explain(targets[0] if targets else None, sure, cost),
            "seconds": rehearsal.seconds,
        }
