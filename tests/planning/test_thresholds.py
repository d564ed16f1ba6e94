"""What is said of a pilot: every stated threshold is met from both sides, with its own numbers."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import median_abs_deviation

import korisk as kr
from korisk.curves.noise import relative_variance
from korisk.planning.explain import doubt, findings, no_floor, no_learning, outliers, rises
from korisk.planning.futures.posterior import posterior

Array = NDArray[np.float64]

N = np.array([16, 32, 64, 128])
SEEDS = np.array([-1.3, -0.4, 0.1, 0.5, 1.1])


def seeded(means: Array, noise: float = 0.05, n: Array = N) -> kr.Curve:
    """Five seeds at every N, with exact means; relative variances do not depend on the means."""
    factors = np.exp(noise * (1 + 0.3 * np.arange(len(n)))[:, None] * SEEDS)
    errors = means[:, None] * factors / factors.mean(axis=1, keepdims=True)
    return kr.Curve(np.repeat(n, 5), errors.ravel(), list("abcde") * len(n))


def variances(curve: kr.Curve) -> Array:
    variance = relative_variance(curve)
    assert variance is not None
    return variance


@pytest.mark.parametrize(("excess", "risen"), [(0.98, []), (1.02, [2])])
def test_a_rise_exceeds_two_standard_errors_or_two_percent(excess: float, risen: list[int]) -> None:
    step = np.array([0.0, -0.5, -0.5 + 0.02 * excess, -1.0])
    assert rises(kr.Curve(N, np.exp(step))) == risen
    variance = variances(seeded(np.exp(-0.5 * np.arange(4))))
    least = 2 * math.sqrt(variance[1] + variance[2])
    step = np.array([0.0, -0.5, -0.5 + excess * least, -1.0])
    assert rises(seeded(np.exp(step))) == risen


@pytest.mark.parametrize(("excess", "doubted"), [(0.98, False), (1.02, True)])
def test_a_curve_that_ends_higher_than_noise_explains_is_not_extrapolated(
    excess: float, doubted: bool
) -> None:
    variance = variances(seeded(np.ones(4)))
    least = 2 * math.sqrt(variance[0] + variance[-1])
    assert least > 0.02
    curve = seeded(0.1 * np.exp(np.linspace(0, excess * least, 4)))
    why = doubt(curve, posterior(curve))
    assert ("with more data it gets worse" in why) == doubted
    # Single seeds are taken to deviate by 2%.
    single = kr.Curve(N, 0.1 * np.exp(np.linspace(0, excess * 2 * 0.02 * math.sqrt(2), 4)))
    why = doubt(single, posterior(single))
    assert ("with more data it gets worse" in why) == doubted
    if doubted:
        ends = f"from 0.1 at N = 16 to {single.means[-1]:.4g} at N = 128"
        assert ends in why


@pytest.mark.parametrize("factor", [0.98, 1.02])
@pytest.mark.parametrize("side", [-1, 1])
def test_an_outlier_lies_four_robust_deviations_from_the_median(factor: float, side: int) -> None:
    spread = 0.2 * np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])
    logs = np.tile(spread, (3, 1))
    logs[1, 3 + 3 * side] = side * 3.0  # beyond all others, so that medians do not depend on it
    deviation = median_abs_deviation(logs.ravel(), scale="normal")
    logs[1, 3 + 3 * side] = side * factor * 4 * deviation
    errors = np.array([0.5, 0.4, 0.3])[:, None] * np.exp(logs)
    curve = kr.Curve(np.repeat([8, 16, 32], 7), errors.ravel(), list("abcdefg") * 3)
    found = outliers(curve)
    if factor < 1:
        assert found == {}
        return
    ((row, times),) = found.items()
    assert (curve.n[row], curve.seed[row]) == (16, "abcdefg"[3 + 3 * side])
    assert times == pytest.approx(math.exp(side * factor * 4 * deviation), rel=1e-9)
    (said,) = [text for text in findings(curve) if "outlier" in text]
    assert f"Seed {curve.seed[row]} is an outlier at N = 16" in said
    assert f"its error is {times:.2g} times the median" in said


@pytest.mark.parametrize(("factor", "count"), [(1.49, 0), (1.51, 1)])
@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_seeds_that_agree_have_outliers_from_a_factor_of_one_and_a_half(
    factor: float, count: int, seeds: int
) -> None:
    errors = np.ones((3, seeds))
    errors[1, 0] = factor
    curve = kr.Curve(np.repeat([8, 16, 32], seeds), errors.ravel(), list(range(seeds)) * 3)
    assert len(outliers(curve)) == (count if seeds >= 4 else 0)


def standard_error(curve: kr.Curve, degree: int, least: float) -> float:
    """Of the leading coefficient of a weighted polynomial of log error in log N."""
    noise = relative_variance(curve)
    variance = np.full(len(curve.sizes), 0.02**2) if noise is None else noise
    design = np.vander(np.log(curve.sizes / curve.sizes[-1]), degree + 1)
    weights = np.diag(1 / np.maximum(variance, least**2))
    return float(np.sqrt(np.linalg.inv(design.T @ weights @ design)[0, 0]))


@pytest.mark.parametrize(("noise", "least"), [(0.05, 0.0), (0.001, 0.01)])
@pytest.mark.parametrize(("excess", "shown"), [(1.95, False), (2.05, True)])
def test_a_floor_shows_where_the_curve_bends_by_two_standard_errors(
    noise: float, least: float, excess: float, shown: bool
) -> None:
    """The bend of a parabola; means fit no better than a percent."""
    x = np.log(N / N[-1])
    error = standard_error(seeded(np.exp(-x), noise), 2, least)
    curve = seeded(0.1 * np.exp(-0.8 * x + excess * error * x**2), noise)
    why = no_floor(curve)
    assert (why == "") == shown
    assert shown or "falls as fast at its end" in why
    single = kr.Curve(N, curve.means)
    assert "single seed" in no_floor(single)
    half = kr.Curve([*N, 16, 32], [*curve.means, *curve.means[:2]], list("aaaabb"))
    assert "single seed" in no_floor(half)  # two seeds at half of the sizes are not most


@pytest.mark.parametrize(("excess", "learned"), [(0.97, False), (1.03, True)])
@pytest.mark.parametrize("kind", ["seeds", "single", "exact"])
def test_learning_shows_in_the_ends_or_in_the_trend(
    kind: str, excess: float, learned: bool
) -> None:
    """A fall of two standard errors and of 2%, from end to end or along a line."""

    def flat(means: Array) -> kr.Curve:
        return kr.Curve(N, means) if kind == "single" else seeded(means, noises[kind])

    noises = {"seeds": 0.05, "exact": 1e-7}
    x = np.log(N / N[-1])
    span = float(x[-1] - x[0])
    curve = flat(np.ones(4))
    noise = relative_variance(curve)
    variance = np.full(4, 0.02**2) if noise is None else noise
    ends = max(2 * math.sqrt(variance[0] + variance[-1]), 0.02)
    trend = max(2 * standard_error(curve, 1, 1e-6) * span, 0.02)
    # A straight line shows a fall by its trend before its ends do.
    assert trend <= ends
    line = flat(0.1 * np.exp(-excess * trend * (x - x[0]) / span))
    assert no_learning(line) != learned
    if kind == "single":
        # A fall after which the error is as high again has a trend of nothing, and ends that agree.
        assert no_learning(flat(np.array([0.1, 0.09, 0.09, 0.1])))
        # Ends that differ while the trend does not.
        falls = 0.1 * np.exp([0.0, -excess * ends - 0.02, 0.02, -excess * ends])
        slope = np.polyfit(x, np.log(falls), 1)[0]
        assert no_learning(flat(falls)) == (not learned and -slope * span <= trend)
    words = no_floor(line) if not learned else ""
    assert (
        learned or f"from {line.means[0]:.4g} at N = 16 to {line.means[-1]:.4g} at N = 128" in words
    )


def test_findings_name_sizes_means_and_remedies() -> None:
    n = [10, 11, 12, 13, 14, 39]
    many = kr.Curve(n, [0.1, 0.2, 0.3, 0.4, 0.5, 0.05])
    said = " ".join(findings(many))
    assert "not monotone at N = 11: the mean there, 0.2, is worse than 0.1 at N = 10." in said
    assert said.count("not monotone") == 3
    assert "There are 1 more rises." in said
    assert "With one seed at every N" in said
    assert "spans a factor of 3.9 in N only" in said
    wide = " ".join(findings(kr.Curve([10, 20, 40], [0.4, 0.3, 0.2])))
    assert "spans a factor" not in wide
    for seeds, poor in ((2, True), (3, False)):
        errors = np.repeat([0.4, 0.3, 0.2], seeds) * np.tile([1.0, 1.1, 0.9][:seeds], 3)
        curve = kr.Curve(np.repeat([10, 20, 40], seeds), errors, list(range(seeds)) * 3)
        said = " ".join(findings(curve))
        assert ("fewer than three seeds" in said) == poor
        assert "With one seed" not in said
    flat = findings(kr.Curve([16, 64, 1024], [0.1, 0.1, 0.1]))[0]
    assert flat.startswith("No learning from N = 16 to 1,024 may mean")
    assert flat.count("N = 16") == 2


def test_a_step_that_no_curve_explains_is_named_with_its_sizes_and_means() -> None:
    n = [4, 8, 16, 32, 64, 128, 1024, 2048]
    curve = kr.Curve(n, [1.0, 0.98, 0.96, 0.94, 0.92, 0.9, 0.01, 0.0098])
    why = doubt(curve, posterior(curve))
    assert "from N = 128 to 1,024 the mean goes from 0.9 to 0.01, which" in why


def test_means_that_most_seeds_do_not_explain_are_a_doubt() -> None:
    """One seed in ten is many times the others; scores beyond 1.645 lie outside of 90%."""
    n = np.array([16, 32, 64, 128, 256])
    verdicts = []
    for factor in (2.0, 10.0, 100.0, 200.0, 400.0, 1000.0):
        seeds = np.where(np.arange(10) < 1, factor, 1.0)
        errors = (n[:, None] ** -0.5 * seeds / seeds.mean()).ravel()
        curve = kr.Curve(np.repeat(n, 10), errors, list("abcdefghij") * 5)
        grid = posterior(curve)
        seed = np.log1p(variances(curve) * 10)
        mean, variance = grid.moments(n.astype(float))
        centre = grid.weight @ mean
        spread = np.sqrt(grid.weight @ (variance + (mean - centre) ** 2) + seed)
        place = np.searchsorted(n, curve.n)
        score = np.abs(np.log(curve.error) - (centre - seed / 2)[place]) / spread[place]
        verdicts.append(bool(np.mean(score > 1.645) > 0.5))
        assert ("most single seeds" in doubt(curve, grid)) == verdicts[-1]
    assert set(verdicts) == {True, False}
