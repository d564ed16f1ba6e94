"""Related curves: the same network on other data gives the shape, the pilot gives the level.

With h_j(u) the log error of relative j at u = log2 N, by its posterior, the model is

    log error(N) = level + s h(u) + misfit(u),   Eq. (eq:related)

with h the mean of the h_j. The stretch s is normal around one, the misfit is a random walk over
doublings, zero at the pilot's last N. The pilot may have another floor than its relatives.
Everything but the floor is Gaussian, and the level is free, as in the pilot's own posterior, so
that the evidence of both can be compared. Every relative is tried alone and all are tried together:
those that do not explain the pilot better than its own posterior are not used.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import mean_variance
from korisk.planning.futures.law import Law, normals
from korisk.planning.futures.posterior import Posterior, posterior

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Kinship:
    """The prior of the relation between a pilot and its relatives.

    Chosen on the tuning part of benchmarks/planner/related.py.
    """

    believed: float = 0.5  # prior probability that the pilot has the relatives' shape
    stretch: float = 0.2  # standard deviation of the stretch around one
    step: float = 0.01  # of the misfit, per doubling of N
    floors: tuple[float, ...] = (0.0, 0.15, 0.4)  # of the error at the pilot's last N
    floor_weights: tuple[float, ...] = (0.7, 0.2, 0.1)
    least_noise: float = 0.005  # of a mean, relative: no relative predicts better


KINSHIP = Kinship()


@dataclass(frozen=True)
class _Case:
    """One hypothesis: a group of relatives and a floor; and its fit."""

    group: list[int]
    floor: float
    mean_shape: Array  # (K,) the mean shape of its relatives with its floor
    inverse: Array  # (K, K) inverse Cholesky factor of the covariance of the pilot's means
    ones: Array  # (K,) `inverse` times a vector of ones
    white: Array  # (K,) whitened log means minus shape and level
    level: float
    evidence: float


@dataclass(frozen=True, eq=False)
class Relatives:
    """The law of a pilot's error by the shape of its relatives, Eq. (eq:related), and its trust."""

    n: Array  # (K,) of the pilot
    y: Array  # (K,) log means
    variance: Array  # (K,)
    shapes: tuple[Posterior, ...]
    alone: Posterior  # of the pilot without relatives
    kinship: Kinship

    @property
    def last(self) -> float:
        """The pilot's largest N."""
        return float(self.n[-1])

    def _shape(self, n: Array) -> tuple[Array, Array]:
        """(J, M) log error of each relative minus that at the pilot's last N, and variances."""
        sizes = np.append(n, self.last)
        means, variances = np.empty((2, len(self.shapes), len(sizes)))
        for index, relative in enumerate(self.shapes):
            mean, variance = relative.moments(sizes)
            means[index] = relative.weight @ mean
            spread = variance + relative.drift[:, None] ** 2 * relative.ahead(sizes)
            variances[index] = relative.weight @ (spread + (mean - means[index]) ** 2)
        return means[:, :-1] - means[:, -1:], variances[:, :-1]

    @staticmethod
    def _part(shape: tuple[Array, Array], group: list[int], floor: float) -> tuple[Array, Array]:
        """(M,) the mean shape of a group of relatives with a floor, and its variance."""
        # With a floor phi, the error is phi + (1 - phi) times the relative's, both over the last.
        fall = (1 - floor) * np.exp(shape[0][group])
        parts = np.log(fall + floor)
        # A floor scales a relative's share of the error, and its deviation with it.
        visible_variance = (fall / np.exp(parts)) ** 2 * shape[1][group]
        return parts.mean(axis=0), visible_variance.mean(axis=0) / len(parts)

    def _shared(self, u: Array, mean_shape: Array, v: Array, other_shape: Array) -> Array:
        """(M, L) covariance of log errors at u and v: walk and stretch."""
        # The walk starts at the pilot's last N (u = 0): its two sides are independent.
        same = np.sign(u)[:, None] * np.sign(v)[None, :] > 0
        nearer = np.minimum(np.abs(u)[:, None], np.abs(v)[None, :])
        walk = self.kinship.step**2 * np.where(same, nearer, 0.0)
        return np.asarray(walk + self.kinship.stretch**2 * np.outer(mean_shape, other_shape))

    @cached_property
    def _cases(self) -> list[_Case]:
        kin, count, u = self.kinship, len(self.shapes), np.log2(self.n / self.last)
        groups = [[index] for index in range(count)] + ([[*range(count)]] if count > 1 else [])
        floors = zip(kin.floors, kin.floor_weights, strict=True)
        noise, shape = np.maximum(self.variance, kin.least_noise**2), self._shape(self.n)
        cases = []
        for group, (floor, share) in product(groups, floors):
            mean_shape, variance = self._part(shape, group, floor)
            covariance = np.diag(noise + variance) + self._shared(u, mean_shape, u, mean_shape)
            # Generalised least squares for the level, which has a flat prior.
            inverse = np.linalg.inv(np.linalg.cholesky(covariance))
            ones = inverse.sum(axis=1)
            white = inverse @ (self.y - mean_shape)
            precision = float(ones @ ones)
            level = float(ones @ white) / precision
            misfit = float(white @ white) - level**2 * precision
            density = np.log(np.diag(inverse)).sum() - 0.5 * np.log(precision) - 0.5 * misfit
            evidence = float(np.log(share / len(groups))) + float(density)
            residual = white - level * ones
            cases.append(_Case(group, floor, mean_shape, inverse, ones, residual, level, evidence))
        return cases

    @cached_property
    def evidence(self) -> float:
        """Log marginal likelihood of the pilot, up to the constant of `Posterior.evidence`."""
        return float(np.logaddexp.reduce([case.evidence for case in self._cases]))

    @cached_property
    def trust(self) -> float:
        """The weight of the relatives against the pilot's posterior; 0 without evidence."""
        odds = self.evidence - self.alone.evidence
        return trust(odds, self.kinship.believed) if odds > 0 else 0.0

    def _moments(self, n: Array) -> tuple[Array, Array, Array]:
        """Weights (C,), means (C, M) and deviations (C, M) of the log error at each N."""
        u, u_new = np.log2(self.n / self.last), np.log2(n / self.last)
        shape = self._shape(n)
        means, deviations = np.empty((2, len(self._cases), len(n)))
        for index, case in enumerate(self._cases):
            mean_shape, variance = self._part(shape, case.group, case.floor)
            pull = case.inverse @ self._shared(u, case.mean_shape, u_new, mean_shape)  # (K, M)
            prior_variance = np.diag(self._shared(u_new, mean_shape, u_new, mean_shape)) + variance
            # Gaussian conditioning on the pilot's means, with the level estimated from them.
            free = 1.0 - case.ones @ pull
            means[index] = mean_shape + case.level + case.white @ pull
            spread = prior_variance - (pull**2).sum(axis=0) + free**2 / float(case.ones @ case.ones)
            deviations[index] = np.sqrt(np.maximum(spread, 1e-8))
        # Posterior weights of the hypotheses: their evidence over the sum of all.
        weight = np.exp(np.array([case.evidence for case in self._cases]) - self.evidence)
        return weight, means, deviations

    def law(self, n: Array) -> Law:
        """The law of the log error at each N by the relatives alone."""
        return normals(*self._moments(n))

    def centre(self, n: Array) -> Array:
        """(M,) the mean of the log error at each N."""
        weight, means, _ = self._moments(n)
        return np.asarray(weight @ means)


def trust(log_odds: float, believed: float) -> float:
    """Posterior probability of one of two hypotheses, by its log odds and prior probability."""
    from scipy.special import expit

    return float(expit(log_odds + np.log(believed / (1 - believed))))


@lru_cache(maxsize=32)
def relatives(curve: Curve, related: tuple[Curve, ...], kinship: Kinship = KINSHIP) -> Relatives:
    """The law of a pilot's error implied by related curves."""
    shapes = tuple(posterior(relative) for relative in related)
    n, logs = curve.sizes.astype(float), np.log(curve.means)
    return Relatives(n, logs, mean_variance(curve), shapes, posterior(curve), kinship)
