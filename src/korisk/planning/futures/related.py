"""Related curves: the same network on other data gives the shape, the pilot gives the level.

With h_j(u) the log error of relative j at u = log2 N, as its own posterior has it, the model is

    log error(N) = level + sum_j s_j h_j(u) + misfit(u),   Eq. (eq:related)

sum_j s_j is the stretch, normal around one; the s_j differ from their mean by a normal law, too.
The misfit is a random walk over doublings, zero at the pilot's last N. A floor of its own may be
added to the shape. Everything but the walk's steps and the floor is Gaussian, and the level is
free, as in the pilot's own posterior, so that the evidence of both can be compared. Every relative
is tried alone and all are tried together: those that do not explain the pilot better than its own
curves do are not used.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.planning.futures.law import Law, normals
from korisk.planning.futures.posterior import Posterior, posterior

Array = NDArray[np.float64]

_ONE_SEED = 0.04  # relative deviation of a mean where no seed tells it


@dataclass(frozen=True, kw_only=True)
class Kinship:
    """What is held likely of relatives before the pilot is seen.

    Chosen on the tuning part of benchmarks/planner/related.py.
    """

    believed: float = 0.5  # probability that the pilot has the relatives' shape
    least_odds: float = 0.0  # log odds of the pilot's shape, below which relatives are not used
    stretch: float = 0.2  # deviation of the stretch from one
    contrast: float = 0.1  # deviation of each relative's part from their mean
    walks: tuple[float, ...] = (0.005, 0.015)  # the misfit's step for a doubling of N
    walk_weights: tuple[float, ...] = (0.5, 0.5)
    floors: tuple[float, ...] = (0.0, 0.15, 0.4)  # of the error at the pilot's last N
    floor_weights: tuple[float, ...] = (0.7, 0.2, 0.1)
    least_noise: float = 0.005  # of a mean: what relatives cannot be expected to tell


KINSHIP = Kinship()


@dataclass(frozen=True)
class _Case:
    """Some of the relatives, a step of the walk and a floor, and what they say of the pilot."""

    group: list[int]
    step: float
    floor: float
    parts: Array  # (J, K) the shapes of its relatives with its floor
    inverse: Array  # (K, K) of the Cholesky factor of the means' covariance
    ones: Array  # (K,) inverse times ones
    white: Array  # (K,) whitened means less mean shape and level
    level: float
    evidence: float


@dataclass(frozen=True, eq=False)
class Relatives:
    """The law of a pilot's future by its relatives' shape, Eq. (eq:related), and its trust."""

    n: Array  # (K,) of the pilot
    y: Array  # (K,) log means
    variance: Array  # (K,)
    shapes: tuple[Posterior, ...]
    own: Posterior
    kinship: Kinship

    @property
    def last(self) -> float:
        """The pilot's largest N."""
        return float(self.n[-1])

    def _shape(self, n: Array) -> tuple[Array, Array]:
        """(J, M) log error of each relative over its own at the pilot's last N, and variances."""
        at = np.append(n, self.last)
        means, variances = np.empty((2, len(self.shapes), len(at)))
        for index, made in enumerate(self.shapes):
            mean, variance = made.moments(at)
            means[index] = made.weight @ mean
            spread = variance + made.drift[:, None] ** 2 * made.ahead(at)
            variances[index] = made.weight @ (spread + (mean - means[index]) ** 2)
        return means[:, :-1] - means[:, -1:], variances[:, :-1]

    @staticmethod
    def _parts(shape: tuple[Array, Array], group: list[int], floor: float) -> tuple[Array, Array]:
        """(J, M) the shapes of a group of relatives with a floor; (M,) their mean's variance."""
        fall = (1 - floor) * np.exp(shape[0][group])
        parts = np.log(fall + floor)
        # What a floor hides of a relative's error, it hides of its noise.
        seen = (fall / np.exp(parts)) ** 2 * shape[1][group]
        return parts, seen.mean(axis=0) / len(parts)

    def _shared(self, step: float, u: Array, parts: Array, v: Array, other: Array) -> Array:
        """(M, L) covariance of log errors at u and v: the walk, the stretch, each one's part."""
        same = np.sign(u)[:, None] * np.sign(v)[None, :] > 0
        nearer = np.minimum(np.abs(u)[:, None], np.abs(v)[None, :])
        found = step**2 * np.where(same, nearer, 0.0)
        mean, other_mean = parts.mean(axis=0), other.mean(axis=0)
        found += self.kinship.stretch**2 * np.outer(mean, other_mean)
        if len(parts) > 1:
            found += self.kinship.contrast**2 * (parts - mean).T @ (other - other_mean)
        return np.asarray(found)

    @cached_property
    def _cases(self) -> list[_Case]:
        kin, count, u = self.kinship, len(self.shapes), np.log2(self.n / self.last)
        groups = [[index] for index in range(count)] + ([[*range(count)]] if count > 1 else [])
        steps = zip(kin.walks, kin.walk_weights, strict=True)
        floors = zip(kin.floors, kin.floor_weights, strict=True)
        noise, shape = np.maximum(self.variance, kin.least_noise**2), self._shape(self.n)
        found = []
        for group, (step, p), (floor, q) in product(groups, steps, floors):
            parts, variance = self._parts(shape, group, floor)
            covariance = np.diag(noise + variance) + self._shared(step, u, parts, u, parts)
            inverse = np.linalg.inv(np.linalg.cholesky(covariance))
            ones = inverse.sum(axis=1)
            white = inverse @ (self.y - parts.mean(axis=0))
            precision = float(ones @ ones)
            level = float(ones @ white) / precision
            misfit = float(white @ white) - level**2 * precision
            density = np.log(np.diag(inverse)).sum() - 0.5 * np.log(precision) - 0.5 * misfit
            evidence = float(np.log(p * q / len(groups))) + float(density)
            left = white - level * ones
            found.append(_Case(group, step, floor, parts, inverse, ones, left, level, evidence))
        return found

    @cached_property
    def evidence(self) -> float:
        """Log of how likely the pilot is, but for its level and for constants."""
        return float(np.logaddexp.reduce([each.evidence for each in self._cases]))

    @cached_property
    def trust(self) -> float:
        """The weight of the relatives against the pilot's own posterior.

        None where the pilot's shape does not speak for them: what a short pilot cannot tell from an
        invented curve is not used.
        """
        odds = self.evidence - self.own.evidence
        return trust(odds, self.kinship.believed) if odds > self.kinship.least_odds else 0.0

    def _moments(self, n: Array) -> tuple[Array, Array, Array]:
        """Weights (C,), means (C, M) and deviations (C, M) of the log error at each N."""
        u, at = np.log2(self.n / self.last), np.log2(n / self.last)
        shape = self._shape(n)
        means, deviations = np.empty((2, len(self._cases), len(n)))
        for index, made in enumerate(self._cases):
            there, variance = self._parts(shape, made.group, made.floor)
            pull = made.inverse @ self._shared(made.step, u, made.parts, at, there)  # (K, M)
            own = np.diag(self._shared(made.step, at, there, at, there)) + variance
            free = 1.0 - made.ones @ pull
            means[index] = there.mean(axis=0) + made.level + made.white @ pull
            spread = own - (pull**2).sum(axis=0) + free**2 / float(made.ones @ made.ones)
            deviations[index] = np.sqrt(np.maximum(spread, 1e-8))
        weight = np.exp(np.array([each.evidence for each in self._cases]) - self.evidence)
        return weight, means, deviations

    def law(self, n: Array) -> Law:
        """The law of the log error at each N by the relatives alone."""
        return normals(*self._moments(n))

    def centre(self, n: Array) -> Array:
        """(M,) the mean of the log error at each N."""
        weight, means, _ = self._moments(n)
        return np.asarray(weight @ means)


def trust(log_odds: float, believed: float) -> float:
    """The probability of one of two explanations, from its evidence and what was held before."""
    from scipy.special import expit

    return float(expit(log_odds + np.log(believed / (1 - believed))))


@lru_cache(maxsize=32)
def relatives(curve: Curve, related: tuple[Curve, ...], kinship: Kinship = KINSHIP) -> Relatives:
    """What related curves say of a pilot."""
    variance = relative_variance(curve)
    if variance is None:
        variance = np.full(len(curve.sizes), _ONE_SEED**2)
    shapes = tuple(posterior(each) for each in related)
    n, logs = curve.sizes.astype(float), np.log(curve.means)
    return Relatives(n, logs, variance, shapes, posterior(curve), kinship)
