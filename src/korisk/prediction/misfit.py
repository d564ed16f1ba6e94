"""How far a computed curve is off, from errors that were measured beside it.

Some are simulated: a rehearsal fits the dense layer to some of the examples and tests it on the
others. That shows how far the theory is off for these images at N up to half their number; features
that the examples lack, it cannot show. Others are real: those of a pilot.

The model, over u = log2 N: the logarithm of the true error is that of the computed one plus a
misfit, which is a stationary process with deviation a and correlation exp(-|u - u'| / l), plus an
offset that all real measurements share, since examples and simulation are not the reality. Both
deviations and l are weighed on a small grid by how well they explain what was measured.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from korisk.planning.posterior import Law, normals

Array = NDArray[np.float64]

MOST_REHEARSED = 1024  # examples: more would take minutes
_SPLITS = 4
_SMALLEST = 4
_PENALTIES = np.logspace(-9, 1, 21)  # over the mean eigenvalue of the kernel
ENTRIES = 2**20  # of targets behind a ReLU, beyond which a sample of their pixels will do,
PIXELS = 256  # at least so many
_NOISE = 0.03  # of a logarithm, at least


@dataclass(frozen=True, eq=False)
class LogErrors:
    """Measured errors that a theory is compared with: logarithms, with their variances."""

    n: Array  # (K,)
    log_error: Array  # (K,)
    variance: Array  # (K,)

    def __len__(self) -> int:
        return len(self.n)


NOTHING_MEASURED = LogErrors(*np.zeros((3, 0)))


def rehearse(
    inputs: Array, targets: Array, *, relu: bool, groups: NDArray[np.int64] | None = None
) -> LogErrors:
    """Mean squared errors of an entry at N = 4, 8, ... up to half the examples, 512 at most.

    `inputs` (n, ...) with noise and `targets` (n, ...), flattened here. The penalty is the best one
    on the examples that are left out, as the theory's is. `groups` (n,) numbers whose each example
    is, or of what it is a copy: no group is fitted and left out at once, and N is at most the
    number of groups that are fitted, since N counts independent images.
    """
    rng = np.random.default_rng(0)
    samples, wanted = inputs.reshape(len(inputs), -1), targets.reshape(len(targets), -1)
    pixels = max(PIXELS, ENTRIES // len(samples))
    if relu and wanted.shape[1] > pixels:
        wanted = wanted[:, rng.choice(wanted.shape[1], pixels, replace=False)]
    whose = np.arange(len(samples)) if groups is None else np.unique(groups, return_inverse=True)[1]
    half = (int(whose.max()) + 1) // 2  # of the groups are fitted
    sizes = [n for n in 2 ** np.arange(2, 40) if _SMALLEST <= n <= half]
    if not sizes:
        return NOTHING_MEASURED
    kernel = samples @ samples.T
    products = wanted @ wanted.T
    found = np.empty((_SPLITS, len(sizes)))
    for split in range(_SPLITS):
        order = rng.permutation(len(samples))
        firsts = np.sort(np.unique(whose[order], return_index=True)[1])[:half]
        left = order[~np.isin(whose[order], whose[order[firsts]])]
        order = order[firsts]  # one example of each group that is fitted
        for at, n in enumerate(sizes):
            fitted = order[:n]
            values, vectors = np.linalg.eigh(kernel[np.ix_(fitted, fitted)])
            rotated = kernel[np.ix_(left, fitted)] @ vectors
            scale = max(float(values.mean()), 1e-300)
            shifted = np.maximum(values, 0.0) + scale * _PENALTIES[:, None]
            errors = []
            for each in shifted:
                made = rotated / each @ vectors.T  # (left, fitted), times the fitted targets
                if relu:
                    off = np.maximum(made @ wanted[fitted], 0.0) - wanted[left]
                    errors.append(float(np.square(off).mean()))
                else:  # |y - sum_k m_k y_k|^2 from products of targets alone
                    inner = (made @ products[np.ix_(fitted, fitted)] * made).sum()
                    mixed = (made * products[np.ix_(left, fitted)]).sum()
                    total = (inner - 2 * mixed + products[left, left].sum()) / len(left)
                    errors.append(float(total) / wanted.shape[1])
            found[split, at] = max(min(errors), 1e-300)
    logs = np.log(found)
    spread = logs.std(axis=0, ddof=1) ** 2  # splits of one set of images are no new images
    return LogErrors(np.array(sizes, dtype=float), logs.mean(axis=0), spread + _NOISE**2)


Grid = tuple[tuple[float, float], ...]  # values, each with its probability


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Prior of the misfit, before anything is measured; chosen on curves of other scanners.

    See benchmarks/predict.py, which reports on curves that had no part in the choice.
    """

    shapes: Grid = ((0.1, 0.4), (0.25, 0.4), (0.6, 0.2))  # a
    lengths: Grid = ((1.5, 0.5), (5.0, 0.5))  # l, in doublings of N
    offsets: Grid = ((0.02, 0.7), (0.15, 0.2), (0.6, 0.1))  # of reality from its simulation


BELIEF = Belief()
# Learned weights before known operators have flat curves, and the theory is closer to their shape.
KNOWN_BELIEF = Belief(
    shapes=((0.005, 0.35), (0.02, 0.35), (0.08, 0.2), (0.3, 0.1)),
    lengths=((2.0, 0.5), (8.0, 0.5)),
    offsets=((0.02, 0.4), (0.06, 0.4), (0.2, 0.2)),
)


class Misfit:
    """The misfit's law after `simulated` and `real` errors; logarithms over the computed curve.

    `level` is the relative deviation of the examples' energy from the population's. `evidence` is
    the log density of the real errors, conditional on the simulated ones.
    """

    def __init__(
        self, simulated: LogErrors, real: LogErrors, level: float, belief: Belief = BELIEF
    ) -> None:
        self.simulated, self.real = simulated, real
        self._where = np.log2(np.concatenate([simulated.n, real.n]))
        self._is_real = np.concatenate([np.zeros(len(simulated)), np.ones(len(real))])
        data = np.concatenate([simulated.log_error, real.log_error])
        noise = np.diag(np.concatenate([simulated.variance, real.variance]))
        both_real = np.outer(self._is_real, self._is_real)
        first = slice(len(simulated))
        self._cases, logs, before = [], [], []
        for (a, p), (length, q), (offset, r) in product(
            belief.shapes, belief.lengths, belief.offsets
        ):
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

    def moments(self, n: Array) -> tuple[Array, Array, Array]:
        """Weights (C,), means (C, M) and deviations (C, M) of the misfit of a real error at N."""
        u = np.log2(n)
        means, deviations = np.empty((2, len(self._cases), len(u)))
        for at, (shape, length, shared, inverse, solved) in enumerate(self._cases):
            across = _covariance(shape, length, self._where, u) + shared * self._is_real[:, None]
            means[at] = across.T @ solved
            variance = shape**2 + shared - np.einsum("km,kl,lm->m", across, inverse, across)
            deviations[at] = np.sqrt(np.maximum(variance, 1e-8))
        return self._weights, means, deviations

    def law(self, n: Array) -> Law:
        """The law of the logarithm of true over computed error at each N."""
        return normals(*self.moments(n))


def _covariance(shape: float, length: float, u: Array, v: Array) -> Array:
    """Of the misfit's shape at u (K,) and v (M,)."""
    return np.asarray(shape**2 * np.exp(-np.abs(u[:, None] - v[None, :]) / length))


def _gaussian(covariance: Array, data: Array) -> tuple[Array, Array, float]:
    """The inverse, the inverse times the data, and the log density, of a centred normal law."""
    if not len(data):
        return np.zeros((0, 0)), np.zeros(0), 0.0
    factor = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(factor)
    white = inverse @ data
    density = -0.5 * float(white @ white) + float(np.log(np.diag(inverse)).sum())
    return inverse.T @ inverse, inverse.T @ white, density - 0.5 * len(data) * np.log(2 * np.pi)
