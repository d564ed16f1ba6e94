"""How far seeds scatter, which of them have collapsed, and what other seeds might have given."""

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve

Array = NDArray[np.float64]

PRIOR_SEEDS = 4.0  # how many seeds the pooled spread counts for at each N
NEARBY = 1.5  # doublings of N over which a spread counts half for another N's
RESAMPLES = 2_000
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of the largest mean; errors below are rounding
MOST_LASTING = 0.95  # of the seeds' variance
_WIDEST = 3.0  # variance of log errors, where seeds differ by orders of magnitude


def collapsed(curve: Curve) -> NDArray[np.bool_]:
    """Which measurements have fallen to rounding: below `ROUNDING` of the largest mean."""
    return np.asarray(curve.error < ROUNDING * curve.means.max())


def collapsed_sizes(curve: Curve) -> NDArray[np.bool_]:
    """(K,) which sizes have only collapsed measurements."""
    return np.asarray(curve.means < ROUNDING * curve.means.max())


def relative_variance(curve: Curve) -> Array | None:
    """(K,) the variance of each mean over its square, or None where no N has two seeds.

    A few seeds tell a spread within a factor of two only, so each N's is drawn toward that of the N
    around it, since seeds often agree better where there are more data. Where the log errors of all
    scatter more, by their median deviation, than coefficients of variation tell, the spread is
    raised to that of a log-normal law: seeds with heavy tails do not look as if they agreed.

    Where some seeds have collapsed to rounding and others not, the mean hangs on the share of those
    that have, which m of n seeds tell as a beta law does.
    """
    freedom = curve.counts - 1.0
    if not freedom.any():
        return None
    relative = (np.nan_to_num(curve.deviations) / curve.means) ** 2  # one seed tells no spread
    doublings = np.log2(curve.sizes)
    near = np.exp2(-np.abs(doublings[:, None] - doublings[None, :]) / NEARBY) * freedom
    pooled = near @ relative / near.sum(axis=1)
    overall = float(freedom @ relative / freedom.sum())
    if overall > 0:
        pooled = pooled * max(1.0, _log_spread(curve) / overall)
    shrunk = (freedom * relative + PRIOR_SEEDS * pooled) / (freedom + PRIOR_SEEDS)
    variance = shrunk / curve.counts
    gone = np.array([int(collapsed(curve)[curve.n == n].sum()) for n in curve.sizes])
    mixed = (gone > 0) & (gone < curve.counts)
    if mixed.any():
        from scipy.special import polygamma

        left = polygamma(1, curve.counts - gone + 0.5) - polygamma(1, curve.counts + 1.0)
        variance = np.where(mixed, np.maximum(variance, left + pooled / curve.counts), variance)
    return np.asarray(variance)


def lasting_share(curve: Curve) -> float:
    """The share of the seeds' variance that lasts over N: a seed that is worse is so everywhere.

    By an analysis of variance of log errors over sizes and seeds. Zero where seeds have no names,
    or were not all measured at every N.
    """
    table = curve.table
    sizes, seeds = table.shape
    if sizes < 3 or seeds < 2 or "" in curve.seed or np.isnan(table).any():
        return 0.0
    logs = np.log(table)
    away = logs - logs.mean(axis=1, keepdims=True)
    between = sizes * float((away.mean(axis=0) ** 2).sum())
    of_seeds = between / (seeds - 1)
    left = (float((away**2).sum()) - between) / ((seeds - 1) * (sizes - 1))
    lasting = max(of_seeds - left, 0.0) / sizes
    if lasting == 0.0:
        return 0.0
    return float(min(lasting / (lasting + left), MOST_LASTING))


def paired_correlation(first: Curve, second: Curve) -> float:
    """How far the seeds of two curves scatter together, where they share names; else zero.

    From log errors less the mean of their N, drawn toward zero where they are few.
    """
    places = {(n, seed): row for row, (n, seed) in enumerate(_rows(first))}
    shared = [(places[key], row) for row, key in enumerate(_rows(second)) if key in places]
    if "" in first.seed or len(shared) < 4:
        return 0.0
    rows = np.array(shared).T
    away = []
    for curve, chosen in zip((first, second), rows, strict=True):
        logs, n = np.log(curve.error[chosen]), curve.n[chosen]
        for size in np.unique(n):
            logs[n == size] -= logs[n == size].mean()
        away.append(logs)
    norms = np.sqrt((away[0] ** 2).sum() * (away[1] ** 2).sum())
    if norms == 0.0:
        return 0.0
    freedom = rows.shape[1] - len(np.unique(first.n[rows[0]]))
    return float(away[0] @ away[1] / norms * freedom / (freedom + PRIOR_SEEDS))


def _rows(curve: Curve) -> list[tuple[int, str]]:
    return list(zip(curve.n.tolist(), curve.seed, strict=True))


def _log_spread(curve: Curve) -> float:
    """The variance of one error over its squared mean, by the median deviation of log errors."""
    away = []
    for n, count in zip(curve.sizes, curve.counts, strict=True):
        if count > 1:
            logs = np.log(curve.error[curve.n == n])
            away.append((logs - np.median(logs)) * np.sqrt(count / (count - 1.0)))
    deviation = 1.4826 * float(np.median(np.abs(np.concatenate(away))))
    return float(np.expm1(min(deviation**2, _WIDEST)))


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
