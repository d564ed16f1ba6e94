"""How far measured errors lie from a computed curve, and what that says of other N.

The model, over u = log2 N: the logarithm of the true error is that of the computed one plus a
misfit, which is a stationary process with deviation a and correlation exp(-|u - u'| / l), plus an
offset that all real measurements share, since examples and simulation are not the reality. Both
deviations and l are weighed on a small grid by what was measured.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from korisk.planning.law import Law, normals
from korisk.prediction.rehearsal import Checks

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What is held likely before anything is measured; chosen on curves of other scanners.

    See benchmarks/predict.py, which reports on curves that had no part in the choice.
    """

    shapes: tuple[float, ...] = (0.1, 0.25, 0.6)  # a
    shape_weights: tuple[float, ...] = (0.4, 0.4, 0.2)
    lengths: tuple[float, ...] = (1.5, 5.0)  # l, in doublings of N
    length_weights: tuple[float, ...] = (0.5, 0.5)
    offsets: tuple[float, ...] = (0.02, 0.15, 0.6)  # of reality from its simulation
    offset_weights: tuple[float, ...] = (0.7, 0.2, 0.1)


BELIEF = Belief()
# Learned weights before known operators have flat curves, and the theory is closer to their shape.
KNOWN_BELIEF = Belief(
    shapes=(0.005, 0.02, 0.08, 0.3),
    shape_weights=(0.35, 0.35, 0.2, 0.1),
    lengths=(2.0, 8.0),
    offsets=(0.02, 0.06, 0.2),
    offset_weights=(0.4, 0.4, 0.2),
)


@dataclass(frozen=True)
class _Case:
    shape: float
    length: float
    offset: float
    log_weight: float

    def covariance(self, u: Array, v: Array) -> Array:
        """Of the misfit's shape at u (K,) and v (M,)."""
        apart = np.abs(u[:, None] - v[None, :])
        return np.asarray(self.shape**2 * np.exp(-apart / self.length))


@dataclass(frozen=True, eq=False)
class Misfit:
    """The misfit's law after `simulated` and `real` errors; logarithms over the computed curve."""

    simulated: Checks
    real: Checks
    level: float  # deviation of the examples' energy from the population's, relative
    belief: Belief = BELIEF

    @cached_property
    def _cases(self) -> list[_Case]:
        grid = product(
            zip(self.belief.shapes, self.belief.shape_weights, strict=True),
            zip(self.belief.lengths, self.belief.length_weights, strict=True),
            zip(self.belief.offsets, self.belief.offset_weights, strict=True),
        )
        return [
            _Case(a, length, offset, float(np.log(p * q * r)))
            for (a, p), (length, q), (offset, r) in grid
        ]

    @cached_property
    def _where(self) -> Array:
        return np.asarray(np.log2(np.concatenate([self.simulated.n, self.real.n])))

    @cached_property
    def _is_real(self) -> Array:
        return np.concatenate([np.zeros(len(self.simulated)), np.ones(len(self.real))])

    def _joint(self, case: _Case) -> tuple[Array, Array, float]:
        """The inverse covariance of all that was measured, times it too, and its log density."""
        data = np.concatenate([self.simulated.log_error, self.real.log_error])
        variance = np.concatenate([self.simulated.variance, self.real.variance])
        shared = (case.offset**2 + self.level**2) * np.outer(self._is_real, self._is_real)
        covariance = case.covariance(self._where, self._where) + shared + np.diag(variance)
        return _gaussian(covariance, data)

    @cached_property
    def _weighed(self) -> tuple[Array, list[tuple[Array, Array]], float]:
        """Weights of the cases, what each concludes, and the log evidence of what is real."""
        found = [self._joint(case) for case in self._cases]
        priors = np.array([case.log_weight for case in self._cases])
        logs = priors + np.array([density for _, _, density in found])
        total = float(logsumexp(logs))
        before = priors + np.array([self._simulated(case) for case in self._cases])
        evidence = total - float(logsumexp(before))
        kept = [(inverse, solved) for inverse, solved, _ in found]
        return np.exp(logs - total), kept, evidence

    def _simulated(self, case: _Case) -> float:
        where = np.log2(self.simulated.n)
        covariance = case.covariance(where, where) + np.diag(self.simulated.variance)
        return _gaussian(covariance, self.simulated.log_error)[2]

    @property
    def evidence(self) -> float:
        """The log density of the real errors, given the simulated ones."""
        return self._weighed[2]

    def moments(self, n: Array) -> tuple[Array, Array, Array]:
        """Weights (C,), means (C, M) and deviations (C, M) of the misfit of a real error at N."""
        weights, kept, _ = self._weighed
        u = np.log2(n)
        means, deviations = np.empty((2, len(self._cases), len(u)))
        for at, (case, (inverse, solved)) in enumerate(zip(self._cases, kept, strict=True)):
            shared = case.offset**2 + self.level**2
            across = case.covariance(self._where, u) + shared * self._is_real[:, None]
            means[at] = across.T @ solved
            variance = case.shape**2 + shared - np.einsum("km,kl,lm->m", across, inverse, across)
            deviations[at] = np.sqrt(np.maximum(variance, 1e-8))
        return weights, means, deviations

    def law(self, n: Array) -> Law:
        """The law of the logarithm of true over computed error at each N."""
        weights, means, deviations = self.moments(n)
        return normals(weights, means, deviations)


def no_checks() -> Checks:
    """Nothing measured."""
    return Checks(*np.zeros((3, 0)))


def _gaussian(covariance: Array, data: Array) -> tuple[Array, Array, float]:
    """The inverse, the inverse times the data, and the log density, of a centred normal law."""
    if not len(data):
        return np.zeros((0, 0)), np.zeros(0), 0.0
    factor = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(factor)
    white = inverse @ data
    density = -0.5 * float(white @ white) + float(np.log(np.diag(inverse)).sum())
    return inverse.T @ inverse, inverse.T @ white, density - 0.5 * len(data) * np.log(2 * np.pi)
