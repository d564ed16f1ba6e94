"""How far a computed curve is off, from errors that were measured beside it.

Some are simulated: a rehearsal fits the dense layer to some of the examples and tests it on the
others. That shows how far the theory is off for these images at N up to 7/8 of them; features
that the examples lack, it cannot show. Others are real: those of a pilot.

The model, over u = log2 N: the logarithm of the true error is that of the computed one plus a
misfit, which is a stationary process with deviation a and correlation exp(-|u - u'| / l), plus an
offset that all real measurements share, since examples and simulation are not the reality. Both
deviations and l are weighed on a small grid by how well they explain what was measured. What n
examples do not show adds a deviation d(N) beyond them, which falls as 1 / sqrt(n), and raises the
error by a part of d(N) on average, since features that they lack can only be added. It grows with
N, since larger N bring rarer features: what a pilot shows of it at M tells only a part of that at
N > M, by a correlation of sqrt(d(M) / d(N)).
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from korisk.planning.futures.law import Law, normals

Array = NDArray[np.float64]
Grid = tuple[tuple[float, float], ...]  # values, each with its probability

MOST_REHEARSED = 1024  # examples: more would take minutes
_SPLITS = 4  # at least, into examples to fit and examples to test
_SMALLEST = 4  # smallest N
_PENALTIES = np.logspace(-9, 1, 21)  # over the mean eigenvalue of the kernel
ENTRIES = 2**20  # of targets behind a ReLU; with more, a sample of the pixels is used
PIXELS = 256  # smallest sample of them
_NOISE = 0.03  # least deviation of a log error


@dataclass(frozen=True, eq=False)
class LogErrors:
    """Measured errors that a theory is compared with: logarithms, with their variances."""

    n: Array  # (K,)
    log_error: Array  # (K,)
    variance: Array  # (K,)
    level: float = 0.0  # the standard error of all of them together: examples are only some images

    def __len__(self) -> int:
        return len(self.n)


NOTHING_MEASURED = LogErrors(*np.zeros((3, 0)))


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Prior of the misfit, before anything is measured; chosen on some populations of images.

    benchmarks/prediction/draws.py, real.py and predict.py report on others.
    """

    shapes: Grid = ((0.03, 0.35), (0.1, 0.35), (0.25, 0.2), (0.6, 0.1))  # a
    lengths: Grid = ((3.0, 0.5), (30.0, 0.5))  # l, in doublings of N
    offsets: Grid = ((0.02, 0.92), (0.1, 0.05), (0.4, 0.03))  # of reality from its simulation
    unseen: float = 0.5  # deviation by what n examples do not show, over 1 / sqrt(n),
    raised: float = 0.7  # and by how much of that deviation it raises the error


BELIEF = Belief()
# Learned weights before known operators have flat curves, and the theory is closer to their shape.
KNOWN_BELIEF = Belief(
    shapes=((0.005, 0.35), (0.02, 0.35), (0.08, 0.2), (0.3, 0.1)),
    lengths=((2.0, 0.5), (8.0, 0.5)),
    offsets=((0.02, 0.4), (0.06, 0.4), (0.2, 0.2)),
    unseen=0.0,
)


def rehearse(
    inputs: Array, targets: Array, *, relu: bool, groups: NDArray[np.int64] | None = None
) -> LogErrors:
    """Mean squared errors of an entry at N = 4, 8, ... up to half, 3/4 and 7/8 of the examples.

    `inputs` (n, ...) with noise and `targets` (n, ...), flattened here. The penalty at an N is the
    best one on examples that are left out, as the theory's is; all are left out in turn. `groups`
    (n,) numbers whose each example is, or of what it is a copy: no group is fitted and left out at
    once, and one example of a group is fitted, since N counts independent images.
    """
    rng = np.random.default_rng(0)
    samples, outputs = inputs.reshape(len(inputs), -1), targets.reshape(len(targets), -1)
    pixels = max(PIXELS, ENTRIES // len(samples))
    if relu and outputs.shape[1] > pixels:
        outputs = outputs[:, rng.choice(outputs.shape[1], pixels, replace=False)]
    whose = np.arange(len(samples)) if groups is None else np.unique(groups, return_inverse=True)[1]
    number = int(whose.max()) + 1
    sizes = [int(n) for n in 2 ** np.arange(2, 40) if _SMALLEST <= n <= number // 2]
    if not sizes:
        return NOTHING_MEASURED
    sizes += [n for n in (number * 3 // 4, number * 7 // 8) if n > sizes[-1]]
    # Ridge regression in dual form: inner products of inputs and of targets are all it needs.
    kernel = samples @ samples.T
    products = outputs @ outputs.T
    order = rng.permutation(number)  # of the groups
    mixed = rng.permutation(len(samples))
    firsts = mixed[np.unique(whose[mixed], return_index=True)[1]]  # an example of each group
    logs, variances, level = [], [], 0.0
    for n in sizes:
        split_errors = []
        splits = max(_SPLITS, round(number / (number - n)))
        for split in range(splits):
            # As in cross-validation: n rotating groups are fitted, at most half of all are tested.
            turned = np.roll(order, -(split * number // splits))
            fitted = firsts[turned[:n]]
            tested = np.flatnonzero(np.isin(whose, turned[max(n, number // 2) :]))
            values, vectors = np.linalg.eigh(kernel[np.ix_(fitted, fitted)])
            rotated = kernel[np.ix_(tested, fitted)] @ vectors
            scale = max(float(values.mean()), 1e-140)
            shifted = np.maximum(values, 0.0) + scale * _PENALTIES[:, None]
            errors: Any
            if relu:
                along = vectors.T @ outputs[fitted]
                errors = [
                    np.square(np.maximum(rotated / row @ along, 0.0) - outputs[tested]).mean()
                    for row in shifted
                ]
            else:  # |y - sum_k m_k y_k|^2 from products of targets alone, for all penalties at once
                inner = (rotated.T @ rotated) * (
                    vectors.T @ products[np.ix_(fitted, fitted)] @ vectors
                )
                across = (rotated * (products[np.ix_(tested, fitted)] @ vectors)).sum(axis=0)
                total = ((1 / shifted) @ inner / shifted).sum(axis=1) - 2 / shifted @ across
                errors = (total + products[tested, tested].sum()) / len(tested) / outputs.shape[1]
            split_errors.append(errors)
        # One penalty for all splits: chosen per split, on few test examples, it would overfit them.
        best = int(np.argmin(np.sum(split_errors, axis=0)))
        chosen = np.log(np.maximum(np.array(split_errors)[:, best], 1e-300))
        logs.append(float(chosen.mean()))
        variances.append(float(chosen.var(ddof=1)) + _NOISE**2)
        # The value of the largest N is returned: its splits share no test example.
        level = math.sqrt(float(chosen.var(ddof=1)) / splits)
    return LogErrors(np.array(sizes, dtype=float), np.array(logs), np.array(variances), level)


class Misfit:
    """The misfit's law after `simulated` and `real` errors; logarithms over the computed curve.

    `level` is the relative deviation of the examples' energy from the population's, `examples` the
    number of independent images. `evidence` is the log density of the real errors, conditional on
    the simulated ones.
    """

    def __init__(
        self,
        simulated: LogErrors,
        real: LogErrors,
        level: float,
        belief: Belief = BELIEF,
        *,
        examples: float = math.inf,
    ) -> None:
        self._unseen, self._raised, self._examples = belief.unseen, belief.raised, examples
        self.simulated, self.real = simulated, real
        self._where = np.log2(np.concatenate([simulated.n, real.n]))
        self._is_real = np.concatenate([np.zeros(len(simulated)), np.ones(len(real))])
        # (K,) simulated then real errors, as logarithms over the computed curve.
        data = np.concatenate([simulated.log_error, real.log_error])
        self._missed = missed = np.concatenate([np.zeros(len(simulated)), self._missing(real.n)])
        data = data - self._raised * missed
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
            covariance = covariance + shared * both_real + _unseen(missed, missed) + noise
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
        # Conditional normal laws (kriging), one for each case (C,) of the grid.
        u, missed = np.log2(n), self._missing(n)
        means, deviations = np.empty((2, len(self._cases), len(u)))
        for index, (shape, length, shared, inverse, solved) in enumerate(self._cases):
            across = _covariance(shape, length, self._where, u) + shared * self._is_real[:, None]
            across = across + _unseen(self._missed, missed)
            means[index] = across.T @ solved + self._raised * missed
            variance = shape**2 + shared + missed**2
            variance = variance - np.einsum("km,kl,lm->m", across, inverse, across)
            deviations[index] = np.sqrt(np.maximum(variance, 1e-8))
        return self._weights, means, deviations

    def _missing(self, n: Array) -> Array:
        """(M,) deviation at N due to features that the examples lack; it grows with N."""
        if math.isinf(self._examples):
            return np.zeros(len(n))
        return np.asarray(self._unseen * n / (n + self._examples) / math.sqrt(self._examples))

    def law(self, n: Array) -> Law:
        """The distribution of log(true error / computed error) at each N."""
        return normals(*self.moments(n))


def _covariance(shape: float, length: float, u: Array, v: Array) -> Array:
    """(K, M) covariance of the misfit's shape between u (K,) and v (M,)."""
    return np.asarray(shape**2 * np.exp(-np.abs(u[:, None] - v[None, :]) / length))


def _unseen(first: Array, second: Array) -> Array:
    """(K, M) covariance of features that examples lack, from deviations (K,) and (M,)."""
    low = np.minimum.outer(first, second)
    return np.asarray(low * np.sqrt(np.outer(first, second)))


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
