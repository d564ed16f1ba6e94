"""The grid posterior: what a pilot says about the rest of its curve, and how surely.

The model, Eq. (eq:posterior), in logarithms and with x = N / N_last:

    log error(N) = level + log(phi + (1 - phi) ((x + s) / (1 + s))^-b) + drift(N)
    log of a pilot's mean = log error(N) + noise of the seeds

b is the rate, phi the part of the last error that no data removes, s a shift for curves that start
late. Real curves are of no family: the drift is a random walk over doublings of N, zero at N_last,
with step tau. It lets old points count for less than recent ones, and it is what widens the answer
with every doubling beyond the pilot, where in some futures it also grows: curves surprise.

The level is integrated out; b, phi, s and tau are weighed on a grid, which closes in on the part
that the pilot leaves possible. No random numbers, no starting values. The prior's constants were
chosen on learning curves that no reported figure uses; see benchmarks/planner.py.

SciPy is imported where it is used: it takes longer to load than NumPy and all of the command.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance

Array = NDArray[np.float64]

HORIZON = 1e4  # the posterior speaks of N up to so many times the pilot's last
_CELLS = 14  # of the grid, along the rate and along the floor
_ZOOMS = 8
_MASS = 0.999  # of the weight is kept, in the heaviest grid points,
_KEPT = 2_500  # and no more than so many
MOST_SIZES = 32  # of a pilot; more are averaged with their neighbours
_CLOSE = 1e-8  # of a logarithm
_NEWTON = 40  # steps at most; some eight are taken
_TINY = 1e-100


@dataclass(frozen=True, kw_only=True)
class Prior:
    """What is held likely before a pilot is seen. Rates are log-normal, floors beta."""

    rate_median: float = 0.55
    rate_spread: float = 0.9  # of log b
    no_floor: float = 0.05  # probability that phi is zero
    floor_shape: tuple[float, float] = (1.2, 0.5)  # of the beta law of phi otherwise
    shifts: tuple[float, ...] = (0.0, 0.1, 0.4, 1.6)
    shift_weights: tuple[float, ...] = (0.3, 0.33, 0.22, 0.15)
    drifts: tuple[float, ...] = (1e-4, 0.002, 0.01, 0.03, 0.06, 0.12)  # tau, for a doubling of N
    drift_weights: tuple[float, ...] = (0.003, 0.007, 0.07, 0.25, 0.35, 0.32)
    surprise: float = 0.25  # probability that the curve turns less regular beyond the pilot:
    surprise_stretch: float = 2.5  # tau grows by this factor
    surprise_step: float = 0.09  # and by this much, for a doubling of N
    least_noise: float = 1e-5  # of a mean, relative: seeds that agree exactly are still rounded
    noises: tuple[float, ...] = (1e-5, 1e-3, 0.01, 0.03, 0.08)  # of a mean, where seeds tell none


PRIOR = Prior()
_RATES = (np.log(0.02), np.log(2.5))  # log b, the ends of the grid


@dataclass(frozen=True)
class _Pilot:
    last: float
    x: Array  # (K,) N / N_last
    y: Array  # (K,) log of the means
    doublings: Array  # (K,) below the last N
    noises: tuple[Array, ...]  # candidates for the variances (K,) of y


@dataclass(frozen=True)
class _Weighed:
    """Grid points for one walk: their weights (logarithms), and what each says of the level."""

    log_weight: Array  # (S, R, 1 + C) over shifts, rates and floors
    level: Array
    rate: Array
    floor: Array
    shift: Array

    @property
    def mass(self) -> Array:
        """Weights, the heaviest point as one."""
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(self.log_weight - self.log_weight.max()))


@dataclass(frozen=True)
class _Walk:
    """One drift and noise: the covariance of the pilot's means, factored."""

    drift: float
    log_weight: float
    inverse: Array  # (K, K) inverse of the Cholesky factor
    ones: Array  # (K,) inverse times ones

    @property
    def precision(self) -> float:
        """One over the variance of the level."""
        return float(self.ones @ self.ones)

    @property
    def log_determinant(self) -> float:
        return float(np.log(np.diag(self.inverse)).sum() - 0.5 * np.log(self.precision))


def log_shape(rate: Array, floor: Array, shift: Array, x: Array) -> Array:
    """(G, M) the logarithm of the curve over its value at N_last, Eq. (eq:posterior)."""
    power = np.exp(-rate[:, None] * np.log((x + shift[:, None]) / (1.0 + shift[:, None])))
    return np.asarray(np.log(floor[:, None] + (1.0 - floor[:, None]) * power))


@dataclass(frozen=True)
class Posterior:
    """A mixture of curves, each with its weight; errors are log-normal around each."""

    last: float
    weight: Array  # (P,)
    level: Array  # (P,) log of the error at N_last
    rate: Array  # (P,)
    floor: Array  # (P,) phi
    shift: Array  # (P,)
    walk: NDArray[np.intp]  # (P,) which drift and noise
    _pilot: _Pilot = field(repr=False)
    _walks: tuple[_Walk, ...] = field(repr=False)
    _prior: Prior = field(repr=False)
    evidence: float = 0.0  # log of how likely the pilot is, but for its level and for constants

    def _moments(self, n: Array) -> tuple[Array, Array, Array]:
        """(P, M) mean of the log error at each N, its deviation, and that after a surprise."""
        x = n / self.last
        mean = self.level[:, None] + log_shape(self.rate, self.floor, self.shift, x)
        variance, surprised = np.empty_like(mean), np.empty_like(mean)
        behind, ahead = np.maximum(-np.log2(x), 0.0), np.maximum(np.log2(x), 0.0)
        stretch, step = self._prior.surprise_stretch, self._prior.surprise_step
        for index, walk in enumerate(self._walks):
            mine = self.walk == index
            if not mine.any():
                continue
            # Within the pilot the walk is held by the means around; beyond it, it is free.
            near = np.minimum(self._pilot.doublings[:, None], behind)
            pull = walk.inverse @ (walk.drift**2 * near)  # (K, M)
            held = np.maximum(walk.drift**2 * behind - (pull**2).sum(axis=0), 0.0)
            known = held + (1.0 - walk.ones @ pull) ** 2 / walk.precision
            variance[mine] = known + walk.drift**2 * ahead
            surprised[mine] = known + ((stretch * walk.drift) ** 2 + step**2) * ahead
            mean[mine] += self._residuals[mine] @ walk.inverse.T @ pull
        return mean, np.sqrt(np.maximum(variance, 1e-24)), np.sqrt(np.maximum(surprised, 1e-24))

    def _under(self, log_error: Array, moments: tuple[Array, Array, Array]) -> Array:
        """(M,) the probability that the log error at each N is at most the one given."""
        from scipy.special import ndtr

        mean, calm, surprised = moments
        away = log_error - mean
        chance = self._prior.surprise
        under = (1 - chance) * ndtr(away / calm) + chance * ndtr(away / surprised)
        return np.clip(self.weight @ under, 0.0, 1.0)

    @cached_property
    def _residuals(self) -> Array:
        shape = log_shape(self.rate, self.floor, self.shift, self._pilot.x)
        return np.asarray(self._pilot.y - self.level[:, None] - shape)

    def quantile(self, n: Array, p: float) -> Array:
        """(M,) the error at each N that is undercut with probability p.

        Newton's steps, and a bisection where one would leave what is still possible.
        """
        moments = self._moments(n)
        mean, _, widest = moments
        low = (mean - 9 * widest).min(axis=0)
        high = (mean + 9 * widest).max(axis=0)
        at = self.weight @ mean
        for _ in range(_NEWTON):
            short = self._under(at, moments) - p
            low, high = np.where(short < 0, at, low), np.where(short < 0, high, at)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = at - short / self._density(at, moments)
            inside = (step >= low) & (step <= high)  # one that has arrived stays where it is
            following = np.where(inside, step, 0.5 * (low + high))
            done = np.abs(following - at).max() < _CLOSE
            at = following
            if done:
                break
        return np.asarray(np.exp(at))

    def _density(self, log_error: Array, moments: tuple[Array, Array, Array]) -> Array:
        mean, calm, surprised = moments
        away = log_error - mean
        chance = self._prior.surprise
        with np.errstate(under="ignore"):
            likely = (1 - chance) * np.exp(-0.5 * (away / calm) ** 2) / calm
            likely += chance * np.exp(-0.5 * (away / surprised) ** 2) / surprised
        return np.asarray(self.weight @ likely / np.sqrt(2 * np.pi))

    def law(self, n: Array) -> "Law":
        """The law of the log error at each N, for many questions about the same N."""
        moments = self._moments(n)
        mean, _, widest = moments
        low, high = (mean - 9 * widest).min(axis=0), (mean + 9 * widest).max(axis=0)
        return Law(lambda log_error: self._under(log_error, moments), low, high)

    def cumulative(self, n: Array, errors: Array) -> Array:
        """(Y, M) the probability to lie at or below each of the errors (Y, M) at each N."""
        moments = self._moments(n)
        return np.array([self._under(log_error, moments) for log_error in np.log(errors)])

    def probability(self, n: Array, target: float) -> Array:
        """(M,) the probability that the error at each N is at most the target."""
        return self._under(np.full(len(n), np.log(target)), self._moments(n))

    @cached_property
    def floors(self) -> tuple[Array, Array]:
        """(P,) errors that no data removes, ascending, and their weights."""
        floors = self.floor * np.exp(self.level)
        order = np.argsort(floors, kind="stable")
        return floors[order], self.weight[order]

    def floor_quantile(self, p: float) -> float:
        """The floor that the true one undercuts with probability p."""
        floors, weight = self.floors
        return float(floors[min(int(np.searchsorted(np.cumsum(weight), p)), len(floors) - 1)])


@dataclass(frozen=True, eq=False)
class Law:
    """A law of log errors at each of M sizes."""

    under: Callable[[Array], Array]  # (M,) the probability of each being at most the one given
    low: Array  # (M,) below which it is never,
    high: Array  # (M,) and above which it is never


@lru_cache(maxsize=32)  # some 100 kB each; reports ask for the same pilots again and again
def posterior(curve: Curve, prior: Prior = PRIOR) -> Posterior:
    """Weigh every curve of the grid by the pilot."""
    pilot = _pilot(curve, prior)
    walks = _walks(pilot, prior)
    return _heaviest([_rates_closed_in(pilot, walk, prior) for walk in walks], pilot, walks, prior)


def _rates_closed_in(pilot: _Pilot, walk: _Walk, prior: Prior) -> _Weighed:
    """Weights for one walk, on a grid of its own: the smaller its step, the finer it must be."""
    edges = np.linspace(*_RATES, _CELLS + 1)
    for _ in range(_ZOOMS):
        weighed = _floors_closed_in(pilot, walk, prior, edges)
        first, last = _heavy(weighed.mass.sum(axis=(0, 2)))
        if _gains_little(first, last):
            break
        edges = np.linspace(edges[first], edges[last], _CELLS + 1)
    return weighed


def _floors_closed_in(pilot: _Pilot, walk: _Walk, prior: Prior, rate_edges: Array) -> _Weighed:
    """For every shift and rate, its own grid of floors: a rate leaves only few of them possible."""
    steps = np.linspace(0.0, 1.0, _CELLS + 1)
    low = np.zeros((len(prior.shifts), _CELLS, 1))
    high = np.ones_like(low)
    for _ in range(_ZOOMS):
        edges = low + (high - low) * steps
        weighed = _weigh(pilot, walk, prior, rate_edges, edges)
        cells = weighed.log_weight[:, :, 1:]
        with np.errstate(under="ignore"):
            first, last = _heavy(np.exp(cells - cells.max(axis=-1, keepdims=True)))
        small = _gains_little(first, last)
        if small.all():
            break
        start = np.take_along_axis(edges, first[..., None], axis=-1)
        end = np.take_along_axis(edges, last[..., None], axis=-1)
        low = np.where(small[..., None], low, start)
        high = np.where(small[..., None], high, end)
    return weighed


def _heavy(mass: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and last edge of the cells that carry weight, with one cell to spare."""
    heavy = mass > 2e-3 * mass.max(axis=-1, keepdims=True)
    first = np.argmax(heavy, axis=-1) - 1
    last = mass.shape[-1] - np.argmax(heavy[..., ::-1], axis=-1) + 1
    return np.maximum(first, 0), np.minimum(last, mass.shape[-1])


def _gains_little(first: NDArray[np.intp], last: NDArray[np.intp]) -> NDArray[np.bool_]:
    return np.asarray((last - first > 0.6 * _CELLS) | (last <= first))


def _pilot(curve: Curve, prior: Prior) -> _Pilot:
    n = curve.sizes.astype(float)
    doublings, logs = np.log2(n[-1] / n), np.log(curve.means)
    variance = relative_variance(curve)
    relative = np.ones(len(n)) if variance is None else np.maximum(variance, prior.least_noise**2)
    if len(n) > MOST_SIZES:
        doublings, logs, relative = thinned(doublings, logs, relative)
    noises = (relative,) if variance is not None else _guessed(relative, prior)
    return _Pilot(float(n[-1]), 2.0**-doublings, logs, doublings, noises)


def _guessed(relative: Array, prior: Prior) -> tuple[Array, ...]:
    """Candidates for the variances where seeds tell none."""
    return tuple(relative * noise**2 for noise in prior.noises)


def thinned(doublings: Array, logs: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Neighbours averaged, each by its precision, so that few sizes remain; the last alone."""
    width = doublings[0] / (MOST_SIZES - 1)
    group = np.ceil(doublings / width).astype(int)  # the last N has zero doublings and a group
    kept = np.unique(group)[::-1]
    weight = 1.0 / variance
    total = np.array([weight[group == g].sum() for g in kept])
    means = [
        np.array([(weight * values)[group == g].sum() for g in kept]) / total
        for values in (doublings, logs)
    ]
    return means[0], means[1], 1.0 / total


def _walks(pilot: _Pilot, prior: Prior) -> tuple[_Walk, ...]:
    shared = np.minimum(pilot.doublings[:, None], pilot.doublings[None, :])
    made = []
    for drift, weight in zip(prior.drifts, prior.drift_weights, strict=True):
        for noise in pilot.noises:
            factor = np.linalg.cholesky(np.diag(noise) + drift**2 * shared)
            inverse = np.linalg.inv(factor)
            log_weight = float(np.log(weight / len(pilot.noises)))
            made.append(_Walk(drift, log_weight, inverse, inverse @ np.ones(len(pilot.x))))
    return tuple(made)


def _weigh(
    pilot: _Pilot,
    walk: _Walk,
    prior: Prior,
    rate_edges: Array,  # (R + 1,)
    floor_edges: Array,  # (S, R, C + 1)
) -> _Weighed:
    cells = 0.5 * (floor_edges[..., 1:] + floor_edges[..., :-1])
    floor = np.concatenate([np.zeros((*cells.shape[:2], 1)), cells], axis=-1)
    rates = np.exp(0.5 * (rate_edges[1:] + rate_edges[:-1]))
    rate = np.broadcast_to(rates[None, :, None], floor.shape)
    shift = np.broadcast_to(np.array(prior.shifts)[:, None, None], floor.shape)
    shape = log_shape(rate.ravel(), floor.ravel(), shift.ravel(), pilot.x)
    white = (pilot.y - shape) @ walk.inverse.T  # (G, K)
    level = white @ walk.ones / walk.precision
    misfit = (white**2).sum(axis=1) - level**2 * walk.precision
    likelihood = (walk.log_weight + walk.log_determinant - 0.5 * misfit).reshape(floor.shape)
    believed = _log_prior(prior, rate_edges, floor_edges)
    return _Weighed(likelihood + believed, level.reshape(floor.shape), rate, floor, shift)


def _log_prior(prior: Prior, rate_edges: Array, floor_edges: Array) -> Array:
    """(S, R, 1 + C) the logarithm of each cell's prior mass; the first has no floor."""
    from scipy.special import betainc, ndtr

    rate = np.diff(ndtr((rate_edges - np.log(prior.rate_median)) / prior.rate_spread))
    some = (1 - prior.no_floor) * np.diff(betainc(*prior.floor_shape, floor_edges), axis=-1)
    none = np.full((*some.shape[:2], 1), prior.no_floor)
    floor = np.concatenate([none, some], axis=-1)
    shift = np.array(prior.shift_weights)
    mass = shift[:, None, None] * np.maximum(rate, _TINY)[None, :, None] * np.maximum(floor, _TINY)
    return np.asarray(np.log(mass))


def _heaviest(
    weighed: list[_Weighed], pilot: _Pilot, walks: tuple[_Walk, ...], prior: Prior
) -> Posterior:
    def together(name: str) -> Array:
        return np.concatenate([getattr(part, name).ravel() for part in weighed])

    log_weight = together("log_weight")
    walk = np.repeat(np.arange(len(walks)), weighed[0].level.size)
    order = np.argsort(-log_weight, kind="stable")[:_KEPT]
    with np.errstate(under="ignore"):
        weight = np.exp(log_weight[order] - log_weight.max())
        total = np.exp(log_weight - log_weight.max()).sum()
    enough = 1 + int(np.searchsorted(np.cumsum(weight), _MASS * total))
    order, weight = order[:enough], weight[:enough]
    return Posterior(
        pilot.last,
        weight / weight.sum(),
        together("level")[order],
        together("rate")[order],
        together("floor")[order],
        together("shift")[order],
        walk[order],
        pilot,
        walks,
        prior,
        float(log_weight.max() + np.log(total)),
    )
