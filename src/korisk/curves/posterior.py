"""The grid posterior: what a pilot says about the rest of its curve, and how surely.

The model, in logarithms and with x = N / N_last:

    log error(N) = level + log(phi + (1 - phi) ((x + s) / (1 + s))^-b) + drift(N)
    log of a pilot's mean = log error(N) + noise of the seeds

b is the rate, phi the part of the last error that no data removes, s a shift for curves that start
late. Real curves are of no family: the drift is a random walk over doublings of N, zero at N_last,
with step tau. It lets old points count for less than recent ones, and it is what widens the answer
with every doubling beyond the pilot, where in some futures it also grows: curves surprise.

The level is integrated out; b, phi, s and tau are weighed on a grid, which closes in on the part
that the pilot leaves possible. No random numbers, no starting values. The prior's constants were
chosen on learning curves that no reported figure uses; see benchmarks/planner.py.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr

from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance

Array = NDArray[np.float64]

HORIZON = 1e4  # the posterior speaks of N up to so many times the pilot's last
_CELLS = 14  # of the grid, along the rate and along the floor
_ZOOMS = 8
_KEPT = 1_500  # grid points kept, the heaviest
_LEAST_NOISE = 1e-5  # of a mean, relative: seeds that agree exactly are still rounded numbers
_BISECTIONS = 28  # to some 1e-7 of an error
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
    """Weights of every combination, and what each says of the level."""

    weight: Array  # (T, G) over drift and noise, and over the grid
    level: Array  # (T, G)
    rate: Array  # (G,)
    floor: Array  # (G,)
    shift: Array  # (G,)
    shape: tuple[int, int, int]  # of the grid: shifts, rates, floors


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
    """(G, M) the logarithm of the curve over its value at N_last."""
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
        """(M,) the error at each N that is undercut with probability p."""
        moments = self._moments(n)
        mean, _, widest = moments
        low = (mean - 9 * widest).min(axis=0)
        high = (mean + 9 * widest).max(axis=0)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            under = self._under(middle, moments) < p
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.asarray(np.exp(0.5 * (low + high)))

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


def posterior(curve: Curve, prior: Prior = PRIOR) -> Posterior:
    """Weigh every curve of the grid by the pilot."""
    pilot = _pilot(curve, prior)
    walks = _walks(pilot, prior)
    rate_edges = np.linspace(*_RATES, _CELLS + 1)
    for _ in range(_ZOOMS):
        weighed = _floors_closed_in(pilot, walks, prior, rate_edges)
        first, last = _heavy(weighed.weight.sum(axis=0).reshape(weighed.shape).sum(axis=(0, 2)))
        if _gains_little(first, last):
            break
        rate_edges = np.linspace(rate_edges[first], rate_edges[last], _CELLS + 1)
    return _heaviest(weighed, pilot, walks, prior)


def _floors_closed_in(
    pilot: _Pilot, walks: tuple[_Walk, ...], prior: Prior, rate_edges: Array
) -> _Weighed:
    """For every shift and rate, its own grid of floors: a rate leaves only few of them possible."""
    steps = np.linspace(0.0, 1.0, _CELLS + 1)
    low = np.zeros((len(prior.shifts), _CELLS, 1))
    high = np.ones_like(low)
    for _ in range(_ZOOMS):
        edges = low + (high - low) * steps
        weighed = _weigh(pilot, walks, prior, rate_edges, edges)
        mass = weighed.weight.sum(axis=0).reshape(weighed.shape)[:, :, 1:]
        first, last = _heavy(mass)
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
    x = n / n[-1]
    variance = relative_variance(curve)
    if variance is None:
        noises = tuple(np.full(len(n), noise**2) for noise in prior.noises)
    else:
        noises = (np.maximum(variance, _LEAST_NOISE**2),)
    return _Pilot(float(n[-1]), x, np.log(curve.means), -np.log2(x), noises)


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
    walks: tuple[_Walk, ...],
    prior: Prior,
    rate_edges: Array,  # (R + 1,)
    floor_edges: Array,  # (S, R, C + 1)
) -> _Weighed:
    cells = 0.5 * (floor_edges[..., 1:] + floor_edges[..., :-1])
    floors = np.concatenate([np.zeros((*cells.shape[:2], 1)), cells], axis=-1)
    rates = np.exp(0.5 * (rate_edges[1:] + rate_edges[:-1]))
    rate = np.broadcast_to(rates[None, :, None], floors.shape).ravel()
    shift = np.broadcast_to(np.array(prior.shifts)[:, None, None], floors.shape).ravel()
    floor = floors.ravel()
    believed = _log_prior(prior, rate_edges, floor_edges).ravel()
    residual = pilot.y - log_shape(rate, floor, shift, pilot.x)  # (G, K)
    level, log_weight = [], []
    for walk in walks:
        white = residual @ walk.inverse.T
        mean = white @ walk.ones / walk.precision
        misfit = (white**2).sum(axis=1) - mean**2 * walk.precision
        level.append(mean)
        log_weight.append(walk.log_weight + walk.log_determinant - 0.5 * misfit + believed)
    stacked = np.array(log_weight)
    with np.errstate(under="ignore"):
        weight = np.exp(stacked - stacked.max())
    return _Weighed(weight / weight.sum(), np.array(level), rate, floor, shift, floors.shape)


def _log_prior(prior: Prior, rate_edges: Array, floor_edges: Array) -> Array:
    """(S, R, 1 + C) the logarithm of each cell's prior mass; the first has no floor."""
    rate = np.diff(ndtr((rate_edges - np.log(prior.rate_median)) / prior.rate_spread))
    some = (1 - prior.no_floor) * np.diff(betainc(*prior.floor_shape, floor_edges), axis=-1)
    none = np.full((*some.shape[:2], 1), prior.no_floor)
    floor = np.concatenate([none, some], axis=-1)
    shift = np.array(prior.shift_weights)
    mass = shift[:, None, None] * np.maximum(rate, _TINY)[None, :, None] * np.maximum(floor, _TINY)
    return np.asarray(np.log(mass))


def _heaviest(
    weighed: _Weighed, pilot: _Pilot, walks: tuple[_Walk, ...], prior: Prior
) -> Posterior:
    walk, point = np.nonzero(weighed.weight > 1e-4 * weighed.weight.max())
    weight = weighed.weight[walk, point]
    order = np.argsort(-weight, kind="stable")[:_KEPT]
    walk, point, weight = walk[order], point[order], weight[order]
    return Posterior(
        pilot.last,
        weight / weight.sum(),
        weighed.level[walk, point],
        weighed.rate[point],
        weighed.floor[point],
        weighed.shift[point],
        walk,
        pilot,
        walks,
        prior,
    )
