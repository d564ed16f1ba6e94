"""How far seeds scatter, and what other seeds might have given."""

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve

Array = NDArray[np.float64]

PRIOR_SEEDS = 4.0  # how many seeds the pooled spread counts for at each N
RESAMPLES = 2_000


def relative_variance(curve: Curve) -> Array | None:
    """(K,) the variance of each mean over its square, or None where no N has two seeds.

    Five seeds tell a spread within a factor of two only, so each is drawn toward the pooled
    coefficient of variation.
    """
    freedom = curve.counts - 1.0
    if not freedom.any():
        return None
    relative = (np.nan_to_num(curve.deviations) / curve.means) ** 2  # one seed tells no spread
    pooled = freedom @ relative / freedom.sum()
    shrunk = (freedom * relative + PRIOR_SEEDS * pooled) / (freedom + PRIOR_SEEDS)
    return np.asarray(shrunk / curve.counts)


def weights(curve: Curve) -> Array:
    """(K,) least-squares weights of the means: one over the variance, up to a common factor."""
    variance = relative_variance(curve)
    if variance is None or not variance.any():  # one seed, or seeds that agree: equal precision
        return np.asarray(1.0 / curve.means**2)
    return np.asarray(1.0 / (np.maximum(variance, 1e-6 * variance.max()) * curve.means**2))


def resampled_means(curve: Curve, resamples: int, rng: np.random.Generator) -> Array:
    """(resamples, K) means of seeds drawn with replacement.

    Whole seeds are drawn where each was measured at every N, so that what they share stays
    together; else each N draws its own. The seeds' names and order play no part.
    """
    table = curve.table
    if not np.isnan(table).any():
        table = table[:, np.lexsort(table[::-1])]
        seeds = table.shape[1]
        drawn = rng.integers(seeds, size=(resamples, seeds))
        counts = np.zeros((resamples, seeds))
        np.add.at(counts, (np.arange(resamples)[:, None], drawn), 1.0)
        return np.asarray(counts @ table.T / seeds)
    means = np.empty((resamples, len(curve.sizes)))
    for column, n in enumerate(curve.sizes):
        errors = np.sort(curve.error[curve.n == n])
        means[:, column] = errors[rng.integers(errors.size, size=(resamples, errors.size))].mean(1)
    return means
