"""Where one more measurement would narrow a plan most.

A preposterior analysis over the planner's own posterior. For every candidate N, the posterior says
what a new mean there may turn out to be. For each such outcome, every curve of the posterior is
weighed anew and its level and drift are conditioned on the outcome, in closed form, since both are
Gaussian given the rest. The 90% interval of N for the target is read off again, as a plan reads it,
and its width (a logarithm) is averaged over the outcomes by their odds. So is whether the question
would be settled: the target is then met with 90% before long, or called out of reach. No random
numbers.

N beyond `before_long` of the plan count as that N: of futures that late a pilot says too little,
and an interval without an end has no width that could shrink.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from korisk._checks import LARGEST_N, count, real, require
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.errors import Argument, Message, shown
from korisk.planning.chances import LEAST_REACH, NEAR, TAIL, Chances, answer, before_long, chances
from korisk.planning.extrapolation import Extrapolation, extrapolate
from korisk.planning.fit import target_error
from korisk.planning.futures.law import turned
from korisk.planning.futures.posterior import Posterior

Array = NDArray[np.float64]
Cost = Callable[[int], float]

ROUND = 4  # a round of collection at most multiplies the data by this
_SETTLED = 0.9  # chance from which on the target counts as reachable
_AS_LIKELY = 0.8  # of the chance to settle it that twice the samples have
_OUTCOMES = 13  # of a measurement, closer together where they are less likely
_POINTS = 500  # of the posterior, the heaviest
_PER_DOUBLING = 12  # steps of N at which the target is looked for
_STEPS = 44  # halvings in which an outcome is found
_SURE = 1e-9  # a chance nearer to 0 or 1 counts as this one
_LEAST_NOISE = 1e-5  # of a mean, relative


@dataclass(frozen=True)
class Candidate:
    """A size that could be measured next, and what is to be expected of it."""

    n: int
    expected: float  # upper / lower of the 90% interval of N afterwards (geometric mean)
    narrowing: float  # doublings of N that the interval is expected to lose
    cost: float | None  # of all its seeds, where costs are given


@dataclass(frozen=True)
class NextSize:
    """The size to measure next. Made by `next_size`; printed, it is a sentence.

    Parameters
    ----------
    n, seeds : int
        The size, and how many seeds it would get.
    now, expected : float
        upper / lower of the 90% interval of N, as it is and as expected afterwards.
    narrowing : float
        The doublings of N that the interval is expected to lose.
    candidates : tuple of Candidate
        All sizes that were weighed, in order of N.
    counted_to : int or None
        Where the interval has no upper end: the N taken for it.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> print(kr.next_size(pilot, target=0.005, candidates=[512]))
    Measure N = 512 next, with 1 seed: the 90% interval of the answer spans a factor of 1.04 now
    and is expected to span 1.03 then.
    """

    n: int
    seeds: int
    now: float
    expected: float
    narrowing: float
    candidates: tuple[Candidate, ...]
    counted_to: int | None = None

    def __str__(self) -> str:
        words = f"Measure N = {self.n:,} next, with {self.seeds} seed{'s' * (self.seeds != 1)}"
        if self.narrowing <= 0:
            return f"{words}; it is not expected to narrow the answer."
        end = (
            ""
            if self.counted_to is None
            else f" (up to N = {self.counted_to:,}; it has no upper end)"
        )
        return (
            f"{words}: the 90% interval of the answer spans a factor of {self.now:.3g} now{end} "
            f"and is expected to span {self.expected:.3g} then."
        )


def next_size(
    curve: Curve,
    target: float,
    *,
    candidates: Iterable[int] | None = None,
    largest: int | None = None,
    seeds: int | None = None,
    noise: float | None = None,
    cost: Cost | None = None,
) -> NextSize:
    """The candidate whose measurement is expected to narrow the 90% interval of N most.

    Parameters
    ----------
    curve : Curve
        The pilot, of at least three sizes.
    target : float
        The error to reach, in the curve's unit.
    candidates : iterable of int, optional
        Sizes to choose from. By default two to a doubling, from the pilot's first N to four times
        its last or `largest`, without those that are measured already.
    largest : int, optional
        The largest N that may be measured.
    seeds : int, optional
        How many each would get; by default as many as the pilot's N have.
    noise : float, optional
        The relative deviation of one seed; by default the pilot's.
    cost : callable, optional
        What one seed costs at N. With it, the best is the one that narrows most for its cost;
        without, the one that narrows most.

    Returns
    -------
    NextSize
        The size to measure next.

    Raises
    ------
    KoriskError
        If the pilot is too small, or there is no candidate at all.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> best = kr.next_size(pilot, target=0.005)
    >>> best.n in [each.n for each in best.candidates], best.expected < best.now
    (True, True)
    """
    made = extrapolate(curve)
    goal = target_error(curve, target)
    if largest is not None:
        largest = count("largest", largest, at_least=2, remedy="give the N to end at")
    if candidates is None:
        asked = open_sizes(curve, largest)
    else:
        rule = partial(count, at_least=2, at_most=LARGEST_N, remedy="count the training samples")
        sizes = {rule("candidates", n) for n in candidates}
        asked = sorted(n for n in sizes if largest is None or n <= largest)
    wider = Message(
        "pass ", Argument("candidates", ...), ", or a larger ", Argument("largest", ...)
    )
    none = f"none up to largest = {shown(largest)}"
    require(bool(asked), "candidates", "name at least one size to measure", asked, wider, got=none)
    if seeds is not None:
        seeds = count("seeds", seeds, at_least=1, remedy="say how many runs the new size would get")
    often = seeds or int(np.median(curve.counts))
    odds = chances(made, goal)
    outlook = Outlook.of(made, goal, odds)
    variance = outlook.seed_variance(noise) / often
    now, remedy = outlook.width_now, "cost(n) is what one training with n samples costs"
    found = []
    for n in asked:
        price = cost and often * real(f"cost({n})", cost(n), above=0, remedy=remedy)
        then = outlook.expected_width(n, variance)
        found.append(Candidate(n, math.exp(then), (now - then) / math.log(2), price))
    best = max(found, key=lambda each: (each.narrowing / (each.cost or 1.0), -each.n))
    counted_to = None if math.isfinite(odds.first(1 - TAIL)) else outlook.end
    return NextSize(
        best.n, often, math.exp(now), best.expected, best.narrowing, tuple(found), counted_to
    )


def settling_size(made: Extrapolation, goal: float, odds: Chances, seeds: int) -> tuple[int, float]:
    """The size beyond the pilot that tells whether a target is reachable, and how likely it does.

    Twice the largest N, or four times it where that is clearly more likely to tell.
    """
    outlook = Outlook.of(made, goal, odds)
    variance = outlook.seed_variance() / seeds
    twice, fourfold = (min(factor * made.last, LARGEST_N) for factor in (2, ROUND))
    near, far = outlook.settles(twice, variance), outlook.settles(fourfold, variance)
    return (twice, near) if near >= _AS_LIKELY * far else (fourfold, far)


def open_sizes(curve: Curve, largest: int | None = None) -> list[int]:
    """Sizes that could be measured next, two to a doubling, without those that were."""
    first, last = int(curve.sizes[0]), int(curve.sizes[-1])
    end = min(ROUND * last, LARGEST_N, largest or LARGEST_N)
    steps = 1 + int(2 * math.log2(end / first)) if end > first else 0
    found = {round(first * 2 ** (step / 2)) for step in range(steps)} | {end}
    return sorted(n for n in found - set(curve.sizes.tolist()) if 2 <= n <= end)


@dataclass(frozen=True)
class Outlook:
    """The futures of a pilot, each once for every stretch of its drift."""

    made: Extrapolation
    goal: float
    end: int

    @classmethod
    def of(cls, made: Extrapolation, goal: float, odds: Chances) -> "Outlook":
        """The futures as far as they count for an error with these chances."""
        _, lower, _ = answer(made, goal, odds)
        # A pilot that cannot be extrapolated has wide futures, and so has most to learn far out.
        end = min(NEAR * made.last, LARGEST_N) if made.doubt else before_long(made, lower)
        return cls(made, goal, end)

    @cached_property
    def _posterior(self) -> Posterior:
        return self.made.posterior.heaviest(_POINTS)

    def seed_variance(self, noise: float | None = None) -> Array:
        """(P,) the relative variance of a single seed, for each curve of the posterior."""
        curve, found = self.made.curve, self._posterior
        if noise is not None:
            remedy = "give one seed's relative deviation"
            deviation = real("noise", noise, at_least=0, remedy=remedy)
            return np.full(len(found.weight), deviation**2)
        measured = relative_variance(curve)
        if measured is not None:
            return np.full(len(found.weight), float(np.mean(measured * curve.counts)))
        guessed = np.array([float(each.mean()) for each in found.pilot.noises])
        return guessed[found.walk % len(guessed)]  # walks are made drift by drift, noise by noise

    @cached_property
    def _grid(self) -> Array:
        missed = self.made.curve.means > self.goal
        # Where the pilot meets the target and misses it again, the first time does not count.
        start = int(self.made.curve.sizes[np.flatnonzero(missed)[-1] if missed.any() else 0])
        doublings = math.log2(self.end / start)
        steps = np.linspace(0, doublings, 2 + int(_PER_DOUBLING * doublings))
        return np.asarray(start * 2.0**steps)

    @cached_property
    def _weight(self) -> Array:
        """(J P,) of each curve and stretch."""
        weight = self._posterior.weight
        shares = np.array(self._posterior.prior.stretch_weights)
        return np.concatenate([share * weight for share in shares / shares.sum()])

    @cached_property
    def _group(self) -> NDArray[np.intp]:
        """(J P,) which walk, stretch by stretch."""
        walk, walks = self._posterior.walk, len(self._posterior.walks)
        stretches = range(len(self._posterior.prior.stretches))
        return np.concatenate([walk + walks * index for index in stretches])

    def _mean(self, n: Array) -> Array:
        """(J P, M) of the log error."""
        mean = self._posterior.moments(n)[0]
        return np.concatenate([mean] * len(self._posterior.prior.stretches))

    def _covariance(self, n: Array, other: Array) -> Array:
        """(J W, M, L) between log errors, for each stretch of the drift and each walk."""
        found = self._posterior
        sides = []
        for where in (n, other):
            away = np.log2(where / found.last)
            sides.append((np.maximum(-away, 0.0), found.ahead(where)))
        (behind, ahead), (behind_too, ahead_too) = sides
        both_behind = np.minimum(behind[:, None], behind_too)
        both_ahead = np.minimum(ahead[:, None], ahead_too)
        kept: list[list[Array]] = [[] for _ in found.prior.stretches]
        for walk in found.walks:
            pulls = [
                walk.inverse @ (walk.drift**2 * np.minimum(found.pilot.doublings[:, None], each))
                for each in (behind, behind_too)
            ]
            free = [1.0 - walk.ones @ pull for pull in pulls]
            held = walk.drift**2 * both_behind - pulls[0].T @ pulls[1]
            held = held + np.outer(*free) / walk.precision
            for part, stretch in zip(kept, found.prior.stretches, strict=True):
                part.append(held + (stretch * walk.drift) ** 2 * both_ahead)
        return np.array([each for part in kept for each in part])

    @cached_property
    def _ahead(self) -> tuple[Array, Array]:
        return self._along(self._grid)

    def _along(self, grid: Array) -> tuple[Array, Array]:
        """(J P, M) means and variances of the log error along a grid."""
        spread = np.einsum("wmm->wm", self._covariance(grid, grid))
        return self._mean(grid), spread[self._group] + self._posterior.lasting

    @property
    def width_now(self) -> float:
        """log(upper / lower) of the interval of N as it is."""
        mean, variance = self._ahead
        return self._width(
            self._chance(self._weight, (math.log(self.goal) - mean) / _root(variance))
        )

    def expected_width(self, n: int, noise: Array) -> float:
        """The same after a new mean at n with this variance (P,), on average."""
        nodes, shares = np.polynomial.legendre.leggauss(_OUTCOMES)
        return float(0.5 * shares @ self.widths_after(n, noise, at=0.5 + 0.5 * nodes))

    def settles(self, n: int, noise: Array) -> float:
        """The probability that a new mean at n tells whether the target is met by the end."""
        nodes, shares = np.polynomial.legendre.leggauss(_OUTCOMES)
        told = self._after(n, noise, np.array([float(self.end)]), at=0.5 + 0.5 * nodes)
        met = np.array([float(chance[-1]) for chance in told])
        return float(0.5 * shares @ ((met >= _SETTLED) | (met < LEAST_REACH)))

    def widths_after(
        self, n: int, noise: Array, *, at: Array | None = None, outcomes: Array | None = None
    ) -> Array:
        """(Y,) the same after each of several outcomes: given themselves, or as quantiles."""
        told = self._after(n, noise, self._grid, at=at, outcomes=outcomes)
        return np.array([self._width(chance) for chance in told])

    def _after(
        self,
        n: int,
        noise: Array,
        grid: Array,
        *,
        at: Array | None = None,
        outcomes: Array | None = None,
    ) -> Iterator[Array]:
        """(M,) the probability that the target is met along a grid, after each outcome at n."""
        where = np.array([float(n)])
        mean_there, group = self._mean(where)[:, 0], self._group
        own = self._covariance(where, where)[:, 0, 0]
        shared = self._covariance(grid, where)[:, :, 0][group]  # (J P, M)
        seen = np.maximum(noise, _LEAST_NOISE**2)
        seen = np.concatenate([seen] * len(self._posterior.prior.stretches))
        total = np.maximum(own, 0.0)[group] + seen
        mean, variance = self._ahead if grid is self._grid else self._along(grid)
        gain = shared / total[:, None]
        left = _root(variance - gain * shared)
        short, gain = (math.log(self.goal) - mean) / left, gain / left
        if outcomes is None:
            assert at is not None
            outcomes = _quantiles(self._weight, mean_there, np.sqrt(total), at)
        for outcome in outcomes:
            away = outcome - mean_there
            log_odds = np.log(self._weight) - 0.5 * away**2 / total - 0.5 * np.log(total)
            with np.errstate(under="ignore"):
                odds = np.exp(log_odds - log_odds.max())
            yield self._chance(odds / odds.sum(), short - gain * away[:, None])

    def _chance(self, weight: Array, short: Array) -> Array:
        """(M,) the probability that the target is met at each N.

        `short` (J P, M) is by how many deviations the expected error lies below the target.
        """
        from scipy.special import ndtr

        return turned(weight @ ndtr(short), *self._posterior.prior.recalibration)

    def _width(self, chance: Array) -> float:
        """log(upper / lower), read off the probability that the target is met along the grid."""
        return _when(self._grid, chance, 1 - TAIL) - _when(self._grid, chance, TAIL)


def _root(variance: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(variance, 1e-24)))


def _when(grid: Array, chance: Array, p: float) -> float:
    """log N at which the chance first is p; the grid's end where that is never.

    Between the grid's N, the quantile of the normal law that belongs to the chance is linear.
    """
    from scipy.special import ndtri

    logs = np.log(grid)
    reached = chance >= p
    if not reached.any():
        return float(logs[-1])
    at = int(np.argmax(reached))
    if at == 0:
        return float(logs[0])
    below, above = ndtri(np.clip(chance[at - 1 : at + 1], _SURE, 1 - _SURE))
    part = (ndtri(p) - below) / (above - below)
    return float(logs[at - 1] + part * (logs[at] - logs[at - 1]))


def _quantiles(weight: Array, mean: Array, deviation: Array, share: Array) -> Array:
    """(Y,) the values of a mixture of normals below which these shares of it lie."""
    return _searched(*(part.tobytes() for part in (weight, mean, deviation, share)))


@lru_cache(maxsize=8)  # they do not depend on the target, of which a page asks a hundred
def _searched(*parts: bytes) -> Array:
    from scipy.special import ndtr

    weight, mean, deviation, share = (np.frombuffer(part) for part in parts)
    low = np.full(len(share), float((mean - 9 * deviation).min()))
    high = np.full(len(share), float((mean + 9 * deviation).max()))
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        under = weight @ ndtr((middle - mean[:, None]) / deviation[:, None])
        low, high = np.where(under < share, middle, low), np.where(under < share, high, middle)
    return np.asarray(0.5 * (low + high))
