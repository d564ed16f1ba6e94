"""A rehearsal: the dense layer fitted to some of the examples and judged on the others.

It costs some small eigenproblems, and tells how far the theory is off for these images
at N up to half their number. What examples lack, a rehearsal on them cannot tell.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SPLITS = 4
MOST_REHEARSED = 1024  # examples: more would take minutes
_SMALLEST = 4
_PENALTIES = np.logspace(-9, 1, 21)  # over the mean eigenvalue of the kernel
_ENTRIES = 2**20  # of targets behind a ReLU, beyond which a sample of their pixels will do,
_PIXELS = 256  # at least so many
_NOISE = 0.03  # of a logarithm, at least


@dataclass(frozen=True, eq=False)
class Checks:
    """Errors that a theory is held against: logarithms, with their variances."""

    n: Array  # (K,)
    log_error: Array  # (K,)
    variance: Array  # (K,)

    def __len__(self) -> int:
        return len(self.n)


def rehearse(inputs: Array, targets: Array, *, relu: bool) -> Checks:
    """Mean squared errors of an entry at N = 4, 8, ... up to half the examples, 512 at most.

    `inputs` (n, ...) with noise and `targets` (n, ...), flattened here. The penalty is the best one
    on the examples that are left out, as the theory's is.
    """
    rng = np.random.default_rng(0)
    inputs, targets = inputs[:MOST_REHEARSED], targets[:MOST_REHEARSED]
    samples, wanted = inputs.reshape(len(inputs), -1), targets.reshape(len(targets), -1)
    pixels = max(_PIXELS, _ENTRIES // len(samples))
    if relu and wanted.shape[1] > pixels:
        wanted = wanted[:, rng.choice(wanted.shape[1], pixels, replace=False)]
    half = len(samples) // 2
    sizes = [n for n in 2 ** np.arange(2, 40) if _SMALLEST <= n <= half]
    if not sizes:
        return Checks(*np.zeros((3, 0)))
    kernel = samples @ samples.T
    products = wanted @ wanted.T
    found = np.empty((_SPLITS, len(sizes)))
    for split in range(_SPLITS):
        order = rng.permutation(len(samples))
        left = order[half:]
        for at, n in enumerate(sizes):
            fitted = order[:n]
            maps = _maps(kernel[np.ix_(fitted, fitted)], kernel[np.ix_(left, fitted)])
            if relu:
                made = (np.maximum(each @ wanted[fitted], 0.0) - wanted[left] for each in maps)
                errors = [float(np.square(each).mean()) for each in made]
            else:
                errors = [_error(each, products, fitted, left) / wanted.shape[1] for each in maps]
            found[split, at] = max(min(errors), 1e-300)
    logs = np.log(found)
    spread = logs.std(axis=0, ddof=1) ** 2  # splits of one set of images are no new images
    return Checks(np.array(sizes, dtype=float), logs.mean(axis=0), spread + _NOISE**2)


def _maps(kernel: Array, across: Array) -> list[Array]:
    """(left, fitted): what each penalty makes of the targets that were fitted."""
    values, vectors = np.linalg.eigh(kernel)
    scale = max(float(values.mean()), 1e-300)
    rotated = across @ vectors
    shifted = np.maximum(values, 0.0) + scale * _PENALTIES[:, None]
    return [rotated / each @ vectors.T for each in shifted]


def _error(made: Array, products: Array, fitted: NDArray[np.intp], left: NDArray[np.intp]) -> float:
    """The mean of |y - sum_k m_k y_k|^2 over those left, from products of targets alone."""
    inner = (made @ products[np.ix_(fitted, fitted)] * made).sum()
    mixed = (made * products[np.ix_(left, fitted)]).sum()
    return float((inner - 2 * mixed + products[left, left].sum()) / len(left))
