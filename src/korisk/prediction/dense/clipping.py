"""What a ReLU behind a linear layer takes off its error: predictions below zero come back up."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from korisk.prediction.dense.spectral import Clipping, Spectrum

Array = NDArray[np.float64]

SIZES: Array = 2.0 ** np.arange(0.0, 16.0)  # N at which the factor is computed
_LEAST = 1e-12  # of a deviation, over the targets' root mean square


def clipped_share(mean: Array, variance: Array, targets: Array) -> float:
    """The squared error of ReLU(f) over that of f, for normal f around `mean`, all (images, p)."""
    least = _LEAST * float(np.sqrt(np.square(targets).mean()))
    deviation = np.maximum(np.sqrt(variance), max(least, 1e-150))
    away = mean / deviation
    above = ndtr(away)
    bell = np.exp(-0.5 * np.minimum(away**2, 1400.0)) / np.sqrt(2 * np.pi)
    # All in differences from the targets: errors far below these are no rounding.
    off = mean - targets
    kept = (off**2 + deviation**2) * above + (2 * off - mean) * deviation * bell
    clipped = float((kept + targets**2 * ndtr(-away)).sum())
    linear = float(((mean - targets) ** 2 + deviation**2).sum())
    return max(clipped, 0.0) / linear if linear > 0 else 1.0


def clipping(
    made: Spectrum,
    vectors: Array,  # (inputs, K) eigenvectors of the inputs' second moment
    cross: Array,  # (outputs, inputs) E[y x^T]
    energies: Array,  # (outputs,) E[y^2] of every output
    inputs: Array,  # (images, inputs) examples with noise
    targets: Array,  # (images, outputs)
) -> Clipping:
    """The factor at `SIZES`: of predictions as training sets of N would scatter them.

    At an example x the prediction's mean is M* L x, and its variance at output p is E_p / N_eff
    times sum_i L_i^2 (u_i x)^2 / lambda_i, where E_p is the error at p.
    """
    there = made.values > 1e-13 * made.values.max()
    values = made.values[there]
    best = cross @ vectors[:, there] / values  # M* in the eigenbasis
    along = inputs @ vectors[:, there]
    rest = np.maximum(energies - np.square(best) @ values, 0.0)
    factors = []
    for n in SIZES:
        threshold, effective, room = made.filter(float(n))
        kept = values / (values + threshold)
        error = (np.square(best) @ ((1 - kept) ** 2 * values) + rest) / room
        scatter = np.square(along) @ (kept**2 / values) / effective
        mean = (along * kept) @ best.T
        factors.append(clipped_share(mean, np.outer(scatter, error), targets))
    return Clipping(SIZES, np.array(factors))
