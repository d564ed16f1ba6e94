"""How seeds scatter: closed forms, and what resampling must keep."""

import math
import statistics

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import korisk as kr
from korisk.curves.noise import (
    lasting_share,
    paired_correlation,
    relative_variance,
)

# Most seeds agree, so that no heavy tail is seen; one N has a single seed.
SEEDS = {4: [1.0, 1.0, 1.0, 1.4, 0.9], 16: [0.5], 64: [0.25, 0.25, 0.25, 0.3]}
ROWS = [(n, e, str(s)) for n, each in SEEDS.items() for s, e in enumerate(each)]
CURVE = kr.Curve([r[0] for r in ROWS], [r[1] for r in ROWS], [r[2] for r in ROWS])


def _expected() -> list[float]:
    """Each squared coefficient of variation drawn to the pooled one, which counts as 4 seeds.

    A degree of freedom counts half for the pool of an N one and a half doublings away.
    """
    free = {n: len(each) - 1 for n, each in SEEDS.items()}
    own = {
        n: statistics.variance(each) / statistics.mean(each) ** 2 if free[n] else 0.0
        for n, each in SEEDS.items()
    }
    near = {n: {m: free[m] * 2 ** (-abs(math.log2(m / n)) / 1.5) for m in SEEDS} for n in SEEDS}
    pooled = {n: sum(near[n][m] * own[m] for m in SEEDS) / sum(near[n].values()) for n in SEEDS}
    return [(free[n] * own[n] + 4 * pooled[n]) / (free[n] + 4) / (free[n] + 1) for n in SEEDS]


def test_spreads_are_drawn_to_those_around() -> None:
    assert relative_variance(CURVE) == pytest.approx(_expected(), rel=1e-12)


def _scattered(deviations: list[float], seeds: int, draw: int) -> kr.Curve:
    """Log-normal seeds around a power law, one deviation for each doubling of N."""
    rng = np.random.default_rng(draw)
    n = 8 * 2 ** np.arange(len(deviations))
    logs = np.array(deviations)[:, None] * rng.standard_normal((len(n), seeds))
    errors = (n**-0.5)[:, None] * np.exp(logs)
    return kr.Curve(np.repeat(n, seeds), errors.ravel(), list(range(seeds)) * len(n))


def _spread(deviations: list[float], seeds: int = 3) -> NDArray[np.float64]:
    """(K,) the relative deviation of one seed that is found at each N, in the middle of draws."""
    found = [relative_variance(_scattered(deviations, seeds, draw)) for draw in range(60)]
    return np.asarray(np.sqrt(seeds * np.median(np.array(found, float), axis=0)))


@pytest.mark.parametrize("deviation", [0.02, 0.2, 0.8])
def test_the_spread_is_that_of_the_seeds_also_with_heavy_tails(deviation: float) -> None:
    """A log-normal law has the squared coefficient of variation exp(s^2) - 1."""
    truth = math.sqrt(math.expm1(deviation**2))
    assert _spread([deviation] * 6) == pytest.approx(truth, rel=0.35)


def test_seeds_that_agree_where_there_are_more_data_are_taken_at_their_word() -> None:
    found = _spread([0.2, 0.14, 0.1, 0.07, 0.05, 0.035])
    assert (np.diff(found) < 0).all()
    assert found[-1] < 0.5 * found[0]


def test_one_seed_tells_no_spread() -> None:
    assert relative_variance(kr.Curve([4, 8, 16], [0.4, 0.2, 0.1])) is None


@pytest.mark.parametrize("deviation", [0.3, 3.0])
def test_heavy_tails_raise_the_spread_to_that_of_a_lognormal_law(deviation: float) -> None:
    """Half of the seeds lie a factor above the median, and half as far below; one N has one."""
    logs = deviation * np.array([-1.0, -1.0, 1.0, 1.0])
    errors = [*np.exp(logs), *0.5 * np.exp(logs), 0.3]
    curve = kr.Curve([4] * 4 + [8] * 4 + [16], errors, [*"abcdabcda"])
    found = relative_variance(curve)
    plain = float(np.var(np.exp(logs), ddof=1) / np.mean(np.exp(logs)) ** 2)
    # The median absolute deviation of a normal law is its 75% quantile; residuals of four seeds
    # lack one degree of freedom. The variance of log errors counts up to 3.
    robust = (deviation * math.sqrt(4 / 3) / statistics.NormalDist().inv_cdf(0.75)) ** 2
    heavy = max(plain, math.expm1(min(robust, 3.0)))
    expected = [(3 * plain + 4 * heavy) / 7 / 4] * 2 + [heavy]
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_where_some_seeds_collapse_the_share_of_the_others_is_uncertain(gone: int) -> None:
    """The variance of the log of a share with Jeffreys' beta law, by SciPy's integration."""
    errors = np.repeat([0.4, 0.2, 0.1], 4)
    errors[-gone:] = 1e-30
    curve = kr.Curve(np.repeat([4, 8, 16], 4), errors, [*"abcd"] * 3)
    share = stats.beta(4 - gone + 0.5, gone + 0.5)
    first = float(share.expect(np.log))
    second = float(share.expect(lambda x: np.log(x) ** 2))
    # Seeds agree but for those that are gone: only the last N has a spread.
    spread = float(np.var(errors[-4:], ddof=1) / np.mean(errors[-4:]) ** 2)
    pooled = spread / (1 + 2 ** (-1 / 1.5) + 2 ** (-2 / 1.5))
    plain = (3 * spread + 4 * pooled) / 7 / 4
    found = relative_variance(curve)
    assert found is not None
    assert found[-1] == pytest.approx(max(second - first**2 + pooled / 4, plain), rel=1e-5)


def test_what_lasts_of_a_seed_is_the_covariance_between_sizes() -> None:
    """Over the variance, both of log errors over seeds; 0.95 at most, and 0 at least."""
    for effect, draw in ((0.0, 0), (0.05, 1), (0.1, 2), (0.3, 3), (3.0, 4)):
        rng = np.random.default_rng(draw)
        logs = effect * rng.standard_normal(6) + 0.1 * rng.standard_normal((4, 6))
        n = np.repeat([4, 8, 16, 32], 6)
        curve = kr.Curve(n, np.exp(logs).ravel(), [*"abcdef"] * 4)
        covariance = np.cov(logs)
        between = covariance[~np.eye(4, dtype=bool)].mean()
        share = min(max(between / np.diag(covariance).mean(), 0.0), 0.95)
        assert lasting_share(curve) == pytest.approx(share, abs=1e-9)
        assert lasting_share(curve.up_to(8)) == 0  # of two sizes nothing is told
    assert lasting_share(kr.Curve([4, 8, 16], [0.3, 0.2, 0.1], [*"aaa"])) == 0
    agreeing = np.repeat([0.3, 0.2, 0.1], 2)
    assert lasting_share(kr.Curve(np.repeat([4, 8, 16], 2), agreeing, [*"ababab"])) == 0


def test_paired_seeds_are_correlated_as_their_residuals_are() -> None:
    rng = np.random.default_rng(0)
    common = rng.standard_normal((3, 5))
    logs = [0.1 * (common + rng.standard_normal((3, 5))) for _ in range(2)]
    n = np.repeat([4, 8, 16], 5)
    first, second = (kr.Curve(n, np.exp(x).ravel(), [*"abcde"] * 3) for x in logs)
    residuals = [(x - x.mean(axis=1, keepdims=True)).ravel() for x in logs]
    plain = np.corrcoef(*residuals)[0, 1]
    # Fifteen pairs less one for each mean, drawn to zero as if four more had shown nothing.
    assert paired_correlation(first, second) == pytest.approx(plain * 12 / 16, rel=1e-9)
    few = kr.Curve([4, 4, 4], [0.1, 0.2, 0.3], [*"abc"])
    assert paired_correlation(first, few) == 0  # fewer than four pairs
    four = kr.Curve([4, 4, 4, 4], [0.1, 0.2, 0.3, 0.4], [*"abcd"])
    assert paired_correlation(first, four) != 0
    same = kr.Curve([4, 4, 4, 4], [0.1, 0.1, 0.1, 0.1], [*"abcd"])
    assert paired_correlation(first, same) == 0
