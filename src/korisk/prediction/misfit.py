"""How far a rehearsed curve is off, from errors that were measured beside it.

The model, over u = log2 N: the logarithm of the true error is that of the simulated one plus a
misfit, which is a stationary process with deviation a and correlation exp(-|u - u'| / l), plus an
offset that all real measurements share, since the simulation is not the reality. Sizes whose
training images are examples as they are count as measured without the offset; others, and those of
a pilot, tell the rest. Both deviations and l are weighed on a small grid by how well they explain
what was measured.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from korisk.planning.futures.law import Law, normals

Array = NDArray[np.float64]
Grid = tuple[tuple[float, float], ...]  # values, each with its probability


@dataclass(frozen=True, eq=False)
class LogErrors:
    """Measured errors over the simulated ones: logarithms, with their variances."""

    n: Array  # (K,)
    log_error: Array  # (K,)
    variance: Array  # (K,)

    def __len__(self) -> int:
        return len(self.n)


NOTHING_MEASURED = LogErrors(*np.zeros((3, 0)))


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Prior of the misfit, before anything is measured."""

    shapes: Grid = ((0.03, 0.5), (0.09, 0.5))  # a
    lengths: Grid = ((3.0, 0.5), (12.0, 0.5))  # l, in doublings of N
    offsets: Grid  # of reality from its simulation


# Without a pilot an answer assumes operator and noise; what is measured may be off by a third.
ASSUMED = Belief(offsets=((0.0, 1.0),))
BELIEF = Belief(offsets=((0.0, 1 / 3), (0.1, 1 / 3), (0.3, 1 / 3)))
# Ellipses give the shape; their level may be another.
UNLIKE = Belief(shapes=((0.1, 0.5), (0.3, 0.5)), offsets=((0.4, 0.4), (1.2, 0.6)))


class Misfit:
    """The misfit's law after `simulated` and `real` errors; logarithms over the simulated curve.

    `level` is the relative standard error of all of them together, since few images are tested.
    `evidence` is the log density of the real errors, conditional on the simulated ones.
    """

    def __init__(
        self, simulated: LogErrors, real: LogErrors, level: float, belief: Belief = BELIEF
    ) -> None:
        self._where = np.log2(np.concatenate([simulated.n, real.n]))
        self._is_real = np.concatenate([np.zeros(len(simulated)), np.ones(len(real))])
        # (K,) simulated then real errors, as logarithms over the simulated curve.
        data = np.concatenate([simulated.log_error, real.log_error])
        noise = np.diag(np.concatenate([simulated.variance, real.variance]))
        both_real = np.outer(self._is_real, self._is_real)
        first = slice(len(simulated))
        self._cases, logs, before = [], [], []
        for (a, p), (length, q), (offset, r) in product(
            belief.shapes, belief.lengths, belief.offsets
        ):
            # One case of the grid: normal errors with the covariance of shape, offset and noise.
            shared = offset**2 + level**2  # the variance of the offset that real errors share
            covariance = _covariance(a, length, self._where, self._where)
            covariance = covariance + shared * both_real + noise
            inverse, solved, density = _gaussian(covariance, data)
            self._cases.append((a, length, shared, inverse, solved))
            prior = float(np.log(p * q * r))
            logs.append(prior + density)
            before.append(prior + _gaussian(covariance[first, first], data[first])[2])
        total = float(logsumexp(logs))
        self._weights = np.exp(np.array(logs) - total)
        self.evidence = total - float(logsumexp(before))

    def law(self, n: Array) -> Law:
        """The distribution of log(true error / simulated error) at each N."""
        # Conditional normal laws (kriging), one for each case (C,) of the grid.
        u = np.log2(n)
        means, deviations = np.empty((2, len(self._cases), len(u)))
        for index, (shape, length, shared, inverse, solved) in enumerate(self._cases):
            across = _covariance(shape, length, self._where, u) + shared * self._is_real[:, None]
            means[index] = across.T @ solved
            variance = shape**2 + shared - np.einsum("km,kl,lm->m", across, inverse, across)
            deviations[index] = np.sqrt(np.maximum(variance, 1e-8))
        return normals(self._weights, means, deviations)


def _covariance(shape: float, length: float, u: Array, v: Array) -> Array:
    """(K, M) covariance of the misfit's shape between u (K,) and v (M,)."""
    return np.asarray(shape**2 * np.exp(-np.abs(u[:, None] - v[None, :]) / length))


def _gaussian(covariance: Array, data: Array) -> tuple[Array, Array, float]:
    """The inverse, the inverse times the data, and the log density, of a centred normal law."""
    if not len(data):
        return np.zeros((0, 0)), np.zeros(0), 0.0
    # With covariance = L L^T: the density needs L^-1 data and the diagonal of L^-1.
    factor = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(factor)
    white = inverse @ data
    density = -0.5 * float(white @ white) + float(np.log(np.diag(inverse)).sum())
    return inverse.T @ inverse, inverse.T @ white, density - 0.5 * len(data) * np.log(2 * np.pi)
