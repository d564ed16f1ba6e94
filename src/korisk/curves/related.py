"""Related curves: the same network on other data gives the shape, the pilot gives the level.

With h_j(u) the log error of relative j at u = log2 N, as its own posterior has it, the model is

    log error(N) = level + sum_j s_j h_j(u) + misfit(u),   Eq. (eq:related)

sum_j s_j is the stretch, normal around one; the s_j differ from their mean by a normal law, too.
The misfit is a random walk over doublings, zero at the pilot's last N, plus a stationary part. A
floor of its own may be added to the shape. Everything but the walk's steps and the floor is
Gaussian, and the level is free, as in the pilot's own posterior, so that the evidence of both can
be compared: relatives that do not explain the pilot lose their weight.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.law import Law, normals
from korisk.curves.noise import relative_variance
from korisk.curves.posterior import Posterior, posterior

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Kinship:
    """What is held likely of relatives before the pilot is seen; see benchmarks/planner_prior.py."""

    believed: float = 0.5  # probability that the pilot has the relatives' shape
    stretch: float = 0.3  # deviation of the stretch from one
    contrast: float = 0.3  # deviation of each relative's part from their mean
    walks: tuple[float, ...] = (0.01, 0.03, 0.08)  # the misfit's step for a doubling of N
    walk_weights: tuple[float, ...] = (0.4, 0.4, 0.2)
    floors: tuple[float, ...] = (0.0, 0.15, 0.4)  # of the error at the pilot's last N
    floor_weights: tuple[float, ...] = (0.7, 0.2, 0.1)
    least_noise: float = 0.005  # of a mean: what relatives cannot be expected to tell


KINSHIP = Kinship()
_ONE_SEED = 0.04  # relative deviation of a mean where no seed tells it


@dataclass(frozen=True, eq=False)
class Relatives:
    """The law of a pilot's future by the shape of its relatives, and how far it is trusted."""

    last: float
    n: Array  # (K,) of the pilot
    y: Array  # (K,) log means
    variance: Array  # (K,)
    shapes: tuple[Posterior, ...]
    own: Posterior
    kinship: Kinship

    def _shape(self, n: Array) -> tuple[Array, Array]:
        """(J, M) log error of each relative over its own at the pilot's last N, and variances."""
        at = np.append(n, self.last)
        means, variances = np.empty((2, len(self.shapes), len(at)))
        for index, made in enumerate(self.shapes):
            mean, variance = made.moments(at)
            drift = made.drift[:, None] ** 2 * made.ahead(at)
            means[index] = made.weight @ mean
            spread = variance + drift + (mean - means[index]) ** 2
            variances[index] = made.weight @ spread
        return means[:, :-1] - means[:, -1:], variances[:, :-1]

    @cached_property
    def _cases(self) -> list[tuple[float, float, float]]:
        """The walk's step, the floor, and the log of their prior weight."""
        kin = self.kinship
        grid = product(
            zip(kin.walks, kin.walk_weights, strict=True),
            zip(kin.floors, kin.floor_weights, strict=True),
        )
        return [(step, floor, float(np.log(p * q))) for (step, p), (floor, q) in grid]

    def _parts(self, n: Array, floor: float) -> tuple[Array, Array, Array]:
        """Mean shape (M,), its parts (J, M) with the floor in them, and their variance (M,)."""
        shape, variance = self._shape(n)
        parts = np.log((1 - floor) * np.exp(shape) + floor)
        # What a floor hides of a relative's error, it hides of its noise.
        seen = (1 - floor) * np.exp(shape) / np.exp(parts)
        return parts.mean(axis=0), parts, (seen**2 * variance).mean(axis=0) / len(parts)

    def _slack(self, parts: Array, other: Array) -> Array:
        """(M, L) covariance from the stretch and from how much each relative counts."""
        count, kin = len(parts), self.kinship
        mean = kin.stretch**2 * np.outer(parts.mean(axis=0), other.mean(axis=0))
        if count == 1:
            return np.asarray(mean)
        apart, apart_other = parts - parts.mean(axis=0), other - other.mean(axis=0)
        return np.asarray(mean + kin.contrast**2 * apart.T @ apart_other)

    @staticmethod
    def _walk(step: float, u: Array, v: Array) -> Array:
        """Covariance of a walk that is zero at u = 0."""
        same = np.sign(u)[:, None] * np.sign(v)[None, :] > 0
        nearer = np.minimum(np.abs(u)[:, None], np.abs(v)[None, :])
        return np.asarray(step**2 * np.where(same, nearer, 0.0))

    @cached_property
    def _solved(self) -> tuple[list[tuple[Array, Array, Array, float]], Array, float]:
        """For each case what prediction needs; the cases' weights; the log evidence of all."""
        u = np.log2(self.n / self.last)
        solved, logs = [], []
        for step, floor, prior in self._cases:
            mean, parts, variance = self._parts(self.n, floor)
            noise = np.diag(np.maximum(self.variance, self.kinship.least_noise**2) + variance)
            covariance = noise + self._walk(step, u, u) + self._slack(parts, parts)
            inverse = np.linalg.inv(np.linalg.cholesky(covariance))
            ones = inverse.sum(axis=1)
            white = inverse @ (self.y - mean)
            precision = float(ones @ ones)
            level = float(ones @ white) / precision
            misfit = float(white @ white) - level**2 * precision
            density = np.log(np.diag(inverse)).sum() - 0.5 * np.log(precision) - 0.5 * misfit
            solved.append((inverse, ones, white - level * ones, level))
            logs.append(prior + float(density))
        top = max(logs)
        weight = np.exp(np.array(logs) - top)
        return solved, weight / weight.sum(), top + float(np.log(weight.sum()))

    @property
    def evidence(self) -> float:
        """Log of how likely the pilot is, but for its level and for constants."""
        return self._solved[2]

    @cached_property
    def trust(self) -> float:
        """The weight of the relatives against the pilot's own posterior."""
        return trust(self.evidence - self.own.evidence, self.kinship.believed)

    def law(self, n: Array) -> Law:
        """The law of the log error at each N by the relatives alone."""
        solved, weight, _ = self._solved
        u, at = np.log2(self.n / self.last), np.log2(n / self.last)
        means, deviations = np.empty((2, len(solved), len(n)))
        for index, ((step, floor, _), (inverse, ones, rest, level)) in enumerate(
            zip(self._cases, solved, strict=True)
        ):
            _, parts, _ = self._parts(self.n, floor)
            mean, there, variance = self._parts(n, floor)
            across = self._walk(step, u, at) + self._slack(parts, there)
            pull = inverse @ across  # (K, M)
            own = np.abs(at) * step**2 + np.einsum("mm->m", self._slack(there, there)) + variance
            free = 1.0 - ones @ pull
            means[index] = mean + level + rest @ pull
            spread = own - (pull**2).sum(axis=0) + free**2 / float(ones @ ones)
            deviations[index] = np.sqrt(np.maximum(spread, 1e-8))
        return normals(weight, means, deviations)


def trust(log_odds: float, believed: float) -> float:
    """The probability of one of two explanations, from its evidence and what was held before."""
    return float(1.0 / (1.0 + np.exp(-np.clip(log_odds + np.log(believed / (1 - believed)), -700, 700))))


@lru_cache(maxsize=32)
def relatives(
    curve: Curve, related: tuple[Curve, ...], kinship: Kinship = KINSHIP
) -> Relatives:
    """What related curves say of a pilot."""
    variance = relative_variance(curve)
    if variance is None:
        variance = np.full(len(curve.sizes), _ONE_SEED**2)
    n = curve.sizes.astype(float)
    shapes = tuple(posterior(each) for each in related)
    return Relatives(
        float(n[-1]), n, np.log(curve.means), variance, shapes, posterior(curve), kinship
    )
