"""The noise of seeds: its variance, collapsed seeds, and correlations.

Shapes: a curve has K sizes N; `curve.table` is (K, seeds), with NaN where a seed was not measured.
"""

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve

Array = NDArray[np.float64]

# Relative deviation of one training's error, where no size has two seeds: the median over curves
# and sizes, its geometric mean over databases (`python -m benchmarks.planner.odds --noise`).
ONE_SEED = 0.04
PRIOR_SEEDS = 4.0  # weight of the pooled spread at each N, as a number of seeds
NEARBY = 1.5  # doublings of N over which the weight of another N's spread halves
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of the largest mean: smaller errors are rounding
MOST_LASTING = 0.95  # of the seeds' variance: some of it always varies with N
_WIDEST = 3.0  # cap of the variance of log errors, where seeds differ by orders of magnitude


def collapsed(curve: Curve) -> NDArray[np.bool_]:
    """Mask of measurements at rounding level: below `ROUNDING` times the largest mean."""
    return np.asarray(curve.error < ROUNDING * curve.means.max())


def collapsed_sizes(curve: Curve) -> NDArray[np.bool_]:
    """(K,) mask of sizes at which all measurements have collapsed."""
    return np.asarray(curve.means < ROUNDING * curve.means.max())


def relative_variance(curve: Curve) -> Array | None:
    """(K,) the variance of each mean over its square, or None if no N has two seeds.

    A few seeds determine a spread only within a factor of two, so that the estimate at each N is
    shrunk toward that of neighbouring N; not toward all, because seeds often agree better with more
    data. Where the median absolute deviation of log errors exceeds the coefficients of variation,
    the spread is raised to that of a log-normal law, so that heavy tails do not pass for agreement.

    Where only some seeds have collapsed to rounding, the mean depends on their share, whose
    uncertainty, given m of n seeds, is that of a beta law.
    """
    freedom = curve.counts - 1.0  # (K,) degrees of freedom
    if not freedom.any():
        return None
    relative = (np.nan_to_num(curve.deviations) / curve.means) ** 2  # one seed tells no spread
    doublings = np.log2(curve.sizes)
    # Each N weighs another one's spread by its degrees of freedom and its distance in doublings.
    near = np.exp2(-np.abs(doublings[:, None] - doublings[None, :]) / NEARBY) * freedom
    pooled = near @ relative / near.sum(axis=1)
    # Raise all by one factor, so that larger spreads at some N stay larger.
    overall = float(freedom @ relative / freedom.sum())
    if overall > 0:
        pooled = pooled * max(1.0, _log_spread(curve) / overall)
    shrunk = (freedom * relative + PRIOR_SEEDS * pooled) / (freedom + PRIOR_SEEDS)
    variance = shrunk / curve.counts
    # (K,) how many seeds have collapsed at each N.
    fallen = np.array([int(collapsed(curve)[curve.n == n].sum()) for n in curve.sizes])
    if (mixed := (fallen > 0) & (fallen < curve.counts)).any():
        from scipy.special import polygamma

        # Variance of the log share of seeds that have not collapsed, under Jeffreys' beta law.
        by_share = polygamma(1, curve.counts - fallen + 0.5) - polygamma(1, curve.counts + 1.0)
        by_share = by_share + pooled / curve.counts
        variance = np.where(mixed, np.maximum(variance, by_share), variance)
    return np.asarray(variance)


def mean_variance(curve: Curve) -> Array:
    """(K,) the relative variance of each mean, also where no N has two seeds."""
    variance = relative_variance(curve)
    return np.full(len(curve.sizes), ONE_SEED**2) if variance is None else variance


def lasting_share(curve: Curve) -> float:
    """The share of the seeds' variance that persists over N: a worse seed is worse at every N.

    By a two-way analysis of variance of log errors over sizes and seeds. Zero where seeds have no
    labels, or were not all measured at every N.
    """
    table = curve.table
    sizes, seeds = table.shape
    if sizes < 3 or seeds < 2 or "" in curve.seed or np.isnan(table).any():
        return 0.0
    logs = np.log(table)
    residuals = logs - logs.mean(axis=1, keepdims=True)
    # Sums of squares between seeds and within them; sizes have their means removed already.
    between = sizes * float((residuals.mean(axis=0) ** 2).sum())
    seed_variance = between / (seeds - 1)
    residual_variance = (float((residuals**2).sum()) - between) / ((seeds - 1) * (sizes - 1))
    lasting = max(seed_variance - residual_variance, 0.0) / sizes
    return float(min(lasting / (lasting + residual_variance), MOST_LASTING)) if lasting else 0.0


def paired_correlation(first: Curve, second: Curve) -> float:
    """Correlation of two curves over seeds with the same labels; zero without such seeds.

    Of log errors minus the mean of their N, shrunk toward zero where there are few.
    """
    places = {(n, seed): row for row, (n, seed) in enumerate(_rows(first))}
    shared = [(places[key], row) for row, key in enumerate(_rows(second)) if key in places]
    if "" in first.seed or len(shared) < 4:
        return 0.0
    rows = np.array(shared).T
    residuals = []
    for curve, shared_rows in zip((first, second), rows, strict=True):
        logs, n = np.log(curve.error[shared_rows]), curve.n[shared_rows]
        for size in np.unique(n):
            logs[n == size] -= logs[n == size].mean()
        residuals.append(logs)
    norms = np.sqrt((residuals[0] ** 2).sum() * (residuals[1] ** 2).sum())
    correlation = residuals[0] @ residuals[1] / norms if norms else 0.0
    # Each N takes one degree of freedom for its mean. Shrunk as if PRIOR_SEEDS more had shown no
    # correlation.
    freedom = rows.shape[1] - len(np.unique(first.n[rows[0]]))
    return float(correlation * freedom / (freedom + PRIOR_SEEDS))


def _rows(curve: Curve) -> list[tuple[int, str]]:
    return list(zip(curve.n.tolist(), curve.seed, strict=True))


def _log_spread(curve: Curve) -> float:
    """Robust relative variance of one error, by the median absolute deviation of log errors."""
    residuals = []
    for n, count in zip(curve.sizes, curve.counts, strict=True):
        if count > 1:
            logs = np.log(curve.error[curve.n == n])
            residuals.append((logs - np.median(logs)) * np.sqrt(count / (count - 1.0)))
    # 1.4826 makes the median absolute deviation that of a normal law; expm1 is the relative
    # variance of a log-normal law.
    deviation = 1.4826 * float(np.median(np.abs(np.concatenate(residuals))))
    return float(np.expm1(min(deviation**2, _WIDEST)))
