"""The size whose measurement would narrow a plan most.

A preposterior analysis over the planner's posterior. For every candidate N, the posterior gives the
distribution of a new mean there. For each outcome, the curves of the posterior are reweighted, and
their level and drift are conditioned on it, in closed form, because both are Gaussian given the
rest. The 90% interval of N for the target is computed again, as in a plan, and its width (in log N)
is averaged over the outcomes. So is the probability that the question is settled: the target is
then met with 90% before long, or called out of reach. No random numbers.

N beyond `near_horizon` of the plan count as that N: a pilot says too little about such late
futures, and an unbounded interval has no width that could shrink.
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
from korisk.planning.chances import LEAST_REACH, NEAR, TAIL, Chances, answer, chances, near_horizon
from korisk.planning.extrapolation import Extrapolation, extrapolate
from korisk.planning.fit import target_error
from korisk.planning.futures.law import turned
from korisk.planning.futures.posterior import Posterior

Array = NDArray[np.float64]
Cost = Callable[[int], float]

ROUND = 4  # largest factor by which one round of collection multiplies the data
_SETTLED = 0.9  # probability from which on the target counts as reachable
_AS_LIKELY = 0.8  # of the probability that four times the samples settle it: then twice are enough
_OUTCOMES = 13  # Gauss-Legendre nodes over the levels of a measurement's distribution
_POINTS = 500  # heaviest curves of the posterior that are used, for speed
_PER_DOUBLING = 12  # grid points of N per doubling
_STEPS = 44  # bisections, down to rounding
_SURE = 1e-9  # probabilities are clipped to this distance from 0 and 1
_LEAST_NOISE = 1e-5  # relative deviation of a mean


@dataclass(frozen=True)
class Candidate:
    """A size that could be measured next, and the expected gain."""

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
        The size, and the number of seeds to measure there.
    now, expected : float
        upper / lower of the 90% interval of N, now and as expected afterwards.
    narrowing : float
        The doublings of N that the interval is expected to lose.
    candidates : tuple of Candidate
        All sizes that were considered, in order of N.
    counted_to : int or None
        Where the interval has no upper end: the N used instead.

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
        end = f" (up to N = {self.counted_to:,}; it has no upper end)" if self.counted_to else ""
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
        Sizes to choose from. By default two per doubling, from the pilot's first N to four times
        its last or `largest`, without those already measured.
    largest : int, optional
        The largest N that may be measured.
    seeds : int, optional
        Number of seeds to measure; by default the pilot's median.
    noise : float, optional
        The relative deviation of one seed; by default the pilot's.
    cost : callable, optional
        Cost of one seed at N. With it, the candidate that narrows most per cost is best; without,
        the one that narrows most.

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
    >>> best.n in [size.n for size in best.candidates], best.expected < best.now
    (True, True)
    """
    forecast = extrapolate(curve)
    goal = target_error(curve, target)
    if largest is not None:
        largest = count("largest", largest, at_least=2, remedy="give the N to end at")
    if candidates is None:
        sizes = open_sizes(curve, largest)
    else:
        check = partial(count, at_least=2, at_most=LARGEST_N, remedy="count the training samples")
        distinct = {check("candidates", n) for n in candidates}
        sizes = sorted(n for n in distinct if largest is None or n <= largest)
    names = Argument("candidates", ...), Argument("largest", ...)
    wider = Message("pass ", names[0], ", or a larger ", names[1])
    none = f"none up to largest = {shown(largest)}"
    rule = "name at least one size to measure"
    require(bool(sizes), "candidates", rule, sizes, wider, got=none)
    if seeds is not None:
        seeds = count("seeds", seeds, at_least=1, remedy="say how many runs the new size would get")
    seeds_each = seeds or int(np.median(curve.counts))
    odds = chances(forecast, goal)
    outlook = Outlook.of(forecast, goal, odds)
    variance = outlook.seed_variance(noise) / seeds_each
    now, remedy = outlook.width_now, "cost(n) is what one training with n samples costs"
    weighed = []
    for n in sizes:
        price = cost and seeds_each * real(f"cost({n})", cost(n), above=0, remedy=remedy)
        width = outlook.expected_width(n, variance)
        weighed.append(Candidate(n, math.exp(width), (now - width) / math.log(2), price))
    best = max(weighed, key=lambda size: (size.narrowing / (size.cost or 1.0), -size.n))
    counted_to = None if math.isfinite(odds.first(1 - TAIL)) else outlook.end
    return NextSize(
        best.n, seeds_each, math.exp(now), best.expected, best.narrowing, tuple(weighed), counted_to
    )


def settling_size(
    forecast: Extrapolation, goal: float, odds: Chances, seeds: int
) -> tuple[int, float]:
    """The size beyond the pilot that best settles whether a target is reachable.

    Returned with the probability that it does. Twice the largest N, or four times it where that is
    clearly more likely to settle the question.
    """
    outlook = Outlook.of(forecast, goal, odds)
    variance = outlook.seed_variance() / seeds
    # The nearer size costs half as much, so that it wins unless it settles clearly less.
    twice, fourfold = (min(factor * forecast.last, LARGEST_N) for factor in (2, ROUND))
    near, far = outlook.settles(twice, variance), outlook.settles(fourfold, variance)
    return (twice, near) if near >= _AS_LIKELY * far else (fourfold, far)


def open_sizes(curve: Curve, largest: int | None = None) -> list[int]:
    """Sizes that could be measured next: two per doubling, without those already measured."""
    first, last = int(curve.sizes[0]), int(curve.sizes[-1])
    end = min(ROUND * last, LARGEST_N, largest or LARGEST_N)
    steps = 1 + int(2 * math.log2(end / first)) if end > first else 0
    sizes = {round(first * 2 ** (step / 2)) for step in range(steps)} | {end}
    return sorted(sizes - set(curve.sizes.tolist()))


@dataclass(frozen=True)
class Outlook:
    """The futures of a pilot: the curves of its posterior, for every stretch of the drift.

    Axes: P curves, J stretches, W walks, M sizes.
    """

    forecast: Extrapolation
    goal: float
    end: int

    @classmethod
    def of(cls, forecast: Extrapolation, goal: float, odds: Chances) -> "Outlook":
        """The futures of a forecast up to the last N that counts for this goal."""
        _, lower, _ = answer(forecast, goal, odds)
        # A pilot that cannot be extrapolated has no horizon, but measuring beyond it helps most.
        if forecast.doubt:
            return cls(forecast, goal, min(NEAR * forecast.last, LARGEST_N))
        return cls(forecast, goal, near_horizon(forecast, lower))

    @cached_property
    def _posterior(self) -> Posterior:
        return self.forecast.posterior.heaviest(_POINTS)

    def seed_variance(self, noise: float | None = None) -> Array:
        """(P,) the relative variance of one seed, for each curve of the posterior."""
        curve, posterior = self.forecast.curve, self._posterior
        if noise is not None:
            remedy = "give one seed's relative deviation"
            deviation = real("noise", noise, at_least=0, remedy=remedy)
            return np.full(len(posterior.weight), deviation**2)
        # Variances of means, times their counts, are those of single seeds.
        measured = relative_variance(curve)
        if measured is not None:
            return np.full(len(posterior.weight), float(np.mean(measured * curve.counts)))
        guessed = np.array([float(variances.mean()) for variances in posterior.pilot.noises])
        # The walks are listed drift by drift, and noise by noise for each drift.
        return guessed[posterior.walk % len(guessed)]

    @cached_property
    def _grid(self) -> Array:
        missed = self.forecast.curve.means > self.goal  # (K,)
        # Where the pilot meets the target and misses it again, the first crossing is ignored.
        start = int(self.forecast.curve.sizes[np.flatnonzero(missed)[-1] if missed.any() else 0])
        doublings = math.log2(self.end / start)
        steps = np.linspace(0, doublings, 2 + int(_PER_DOUBLING * doublings))
        return np.asarray(start * 2.0**steps)

    @cached_property
    def _weight(self) -> Array:
        """(J P,) the weight of each curve and stretch."""
        weight = self._posterior.weight
        shares = np.array(self._posterior.prior.stretch_weights)
        return np.concatenate([share * weight for share in shares / shares.sum()])

    @cached_property
    def _group(self) -> NDArray[np.intp]:
        """(J P,) the index of each curve's walk and stretch in `_covariance`."""
        walk, walks = self._posterior.walk, len(self._posterior.walks)
        stretches = range(len(self._posterior.prior.stretches))
        return np.concatenate([walk + walks * index for index in stretches])

    def _mean(self, n: Array) -> Array:
        """(J P, M) the mean of the log error."""
        mean = self._posterior.moments(n)[0]
        return np.concatenate([mean] * len(self._posterior.prior.stretches))

    def _covariance(self, n: Array, others: Array) -> Array:
        """(J W, M, L) covariance of log errors at two sets of sizes, by stretch and walk.

        A random walk from the pilot's last N has the covariance drift^2 min(d, d') at distances of
        d and d' doublings on the same side, and none across it, Eq. (eq:posterior).
        """
        posterior = self._posterior
        sizes = (n, others)
        behind = [np.maximum(-np.log2(size / posterior.last), 0.0) for size in sizes]
        ahead = [posterior.ahead(size) for size in sizes]
        both_behind = np.minimum(behind[0][:, None], behind[1])
        both_ahead = np.minimum(ahead[0][:, None], ahead[1])
        conditioned = []  # on the pilot's means, (W, M, L)
        for walk in posterior.walks:
            nearest = [np.minimum(posterior.pilot.doublings[:, None], d) for d in behind]
            pulls = [walk.inverse @ (walk.drift**2 * shared) for shared in nearest]
            free = [1.0 - walk.ones @ pull for pull in pulls]  # what the unknown level adds
            within = walk.drift**2 * both_behind - pulls[0].T @ pulls[1]
            conditioned.append(within + np.outer(*free) / walk.precision)
        drift = np.array([walk.drift for walk in posterior.walks])[:, None, None]
        stretches = posterior.prior.stretches
        beyond = [(stretch * drift) ** 2 * both_ahead for stretch in stretches]  # (W, M, L) each
        return np.concatenate([np.array(conditioned) + covariance for covariance in beyond])

    @cached_property
    def _ahead(self) -> tuple[Array, Array]:
        return self._along(self._grid)

    def _along(self, grid: Array) -> tuple[Array, Array]:
        """(J P, M) means and variances of the log error along a grid."""
        spread = np.einsum("wmm->wm", self._covariance(grid, grid))
        return self._mean(grid), spread[self._group] + self._posterior.lasting

    @property
    def width_now(self) -> float:
        """log(upper / lower) of the interval of N without a new measurement."""
        mean, variance = self._ahead
        short = (math.log(self.goal) - mean) / _root(variance)
        return self._width(self._chance(self._weight, short))

    def expected_width(self, n: int, noise: Array) -> float:
        """The mean of log(upper / lower) after a new mean at n with this variance (P,)."""
        # The outcome's distribution is uniform in its level: Gauss-Legendre quadrature on [0, 1].
        nodes, shares = np.polynomial.legendre.leggauss(_OUTCOMES)
        return float(0.5 * shares @ self.widths_after(n, noise, levels=0.5 + 0.5 * nodes))

    def settles(self, n: int, noise: Array) -> float:
        """The probability that a new mean at n settles whether the target is met by the end."""
        nodes, shares = np.polynomial.legendre.leggauss(_OUTCOMES)
        probabilities = self._after(n, noise, np.array([float(self.end)]), levels=0.5 + 0.5 * nodes)
        met = np.array([chance.item() for chance in probabilities])
        return float(0.5 * shares @ ((met >= _SETTLED) | (met < LEAST_REACH)))

    def widths_after(
        self, n: int, noise: Array, *, levels: Array | None = None, outcomes: Array | None = None
    ) -> Array:
        """(Y,) log(upper / lower) after each of several outcomes, given as log errors or levels."""
        probabilities = self._after(n, noise, self._grid, levels=levels, outcomes=outcomes)
        return np.array([self._width(chance) for chance in probabilities])

    def _after(
        self,
        n: int,
        noise: Array,
        grid: Array,
        *,
        levels: Array | None = None,
        outcomes: Array | None = None,
    ) -> Iterator[Array]:
        """(M,) the probability that the target is met along a grid, after each outcome at n.

        Gaussian conditioning: an outcome that deviates from a curve's mean by `surprise` moves the
        log error along the grid by gain * surprise, and leaves the deviation `deviation_left`.
        """
        size = np.array([float(n)])
        mean_there, group = self._mean(size).ravel(), self._group
        variance_there = self._covariance(size, size).ravel()
        shared = self._covariance(grid, size)[:, :, 0][group]  # (J P, M)
        seed_noise = np.maximum(noise, _LEAST_NOISE**2)
        seed_noise = np.concatenate([seed_noise] * len(self._posterior.prior.stretches))
        total = np.maximum(variance_there, 0.0)[group] + seed_noise
        mean, variance = self._ahead if grid is self._grid else self._along(grid)
        # Kalman gain of a scalar observation, and what remains of the variance along the grid.
        gain = shared / total[:, None]
        deviation_left = _root(variance - gain * shared)
        short, gain = (math.log(self.goal) - mean) / deviation_left, gain / deviation_left
        if outcomes is None:
            assert levels is not None
            outcomes = _quantiles(self._weight, mean_there, np.sqrt(total), levels)
        for outcome in outcomes:
            surprise = outcome - mean_there
            # Bayes' rule: curves under which the outcome is likely gain weight.
            log_odds = np.log(self._weight) - 0.5 * surprise**2 / total - 0.5 * np.log(total)
            with np.errstate(under="ignore"):
                odds = np.exp(log_odds - log_odds.max())
            yield self._chance(odds / odds.sum(), short - gain * surprise[:, None])

    def _chance(self, weight: Array, short: Array) -> Array:
        """(M,) the probability that the target is met at each N.

        `short` (J P, M): distance of the target above the mean log error, in deviations.
        """
        from scipy.special import ndtr

        return turned(weight @ ndtr(short), *self._posterior.prior.recalibration)

    def _width(self, chance: Array) -> float:
        """log(upper / lower) from the probability that the target is met along the grid."""
        return _when(self._grid, chance, 1 - TAIL) - _when(self._grid, chance, TAIL)


def _root(variance: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(variance, 1e-24)))


def _when(grid: Array, chance: Array, p: float) -> float:
    """log N at which the probability first is p; the grid's end if it never is.

    Between the grid's N, the normal score of the probability is interpolated linearly.
    """
    from scipy.special import ndtri

    logs = np.log(grid)
    reached = chance >= p
    if not reached.any():
        return float(logs[-1])
    index = int(np.argmax(reached))
    if index == 0:
        return float(logs[0])
    below, above = ndtri(np.clip(chance[index - 1 : index + 1], _SURE, 1 - _SURE))
    fraction = (ndtri(p) - below) / (above - below)
    return float(logs[index - 1] + fraction * (logs[index] - logs[index - 1]))


def _quantiles(weight: Array, mean: Array, deviation: Array, share: Array) -> Array:
    """(Y,) quantiles of a mixture of normal laws at the levels `share`."""
    # As bytes, because arrays cannot be keys of a cache.
    return _searched(*(array.tobytes() for array in (weight, mean, deviation, share)))


@lru_cache(maxsize=8)  # the same for all targets, of which a page has a hundred
def _searched(*buffers: bytes) -> Array:
    from scipy.special import ndtr

    weight, mean, deviation, share = (np.frombuffer(buffer) for buffer in buffers)
    # Bisection from a bracket of nine deviations, beyond which a normal law has no mass.
    low = np.full(len(share), float((mean - 9 * deviation).min()))
    high = np.full(len(share), float((mean + 9 * deviation).max()))
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        under = weight @ ndtr((middle - mean[:, None]) / deviation[:, None])
        low, high = np.where(under < share, middle, low), np.where(under < share, high, middle)
    return np.asarray(0.5 * (low + high))
