"""What is said of a pilot: every stated threshold is met from both sides, with its own numbers."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import median_abs_deviation

import korisk as kr
from korisk.curves.noise import ONE_SEED, relative_variance
from korisk.planning.futures.posterior import ROUGHEST, posterior
from korisk.planning.pilot import doubt, findings, no_learning, outliers, rises, shows_floor

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
def test_a_rise_exceeds_two_standard_errors(excess: float, risen: list[int]) -> None:
    step = np.array([0.0, -0.5, -0.5 + excess * 2 * ONE_SEED * math.sqrt(2), -1.0])
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
    assert ("with more data the error gets worse" in why) == doubted
    single = kr.Curve(N, 0.1 * np.exp(np.linspace(0, excess * 2 * ONE_SEED * math.sqrt(2), 4)))
    why = doubt(single, posterior(single))
    assert ("with more data the error gets worse" in why) == doubted
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
    rows = outliers(curve)
    if factor < 1:
        assert rows == {}
        return
    ((row, times),) = rows.items()
    assert (curve.n[row], curve.seed[row]) == (16, "abcdefg"[3 + 3 * side])
    assert times == pytest.approx(math.exp(side * factor * 4 * deviation), rel=1e-9)
    (sentence,) = [text for text in findings(curve) if "outlier" in text]
    assert f"Seed {curve.seed[row]} is an outlier at N = 16" in sentence
    assert f"its error is {times:.2g} times the median" in sentence


@pytest.mark.parametrize(("factor", "count"), [(1.49, 0), (1.51, 1), (1 / 1.49, 0), (1 / 1.51, 1)])
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
    variance = np.full(len(curve.sizes), ONE_SEED**2) if noise is None else noise
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
    assert shows_floor(curve) == shown


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
    variance = np.full(4, ONE_SEED**2) if noise is None else noise
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
    assert not shows_floor(line)


def test_findings_name_sizes_means_and_remedies() -> None:
    narrow = " ".join(findings(kr.Curve([16, 32, 63], [0.4, 0.2, 0.1])))
    assert "With one seed at every N" in narrow
    assert "spans a factor of 3.9 in N only" in narrow
    wide = " ".join(findings(kr.Curve([16, 32, 64], [0.4, 0.2, 0.1])))
    assert "spans a factor" not in wide
    for seeds, poor in ((2, True), (3, False)):
        errors = np.repeat([0.4, 0.3, 0.2], seeds) * np.tile([1.0, 1.1, 0.9][:seeds], 3)
        curve = kr.Curve(np.repeat([10, 20, 40], seeds), errors, list(range(seeds)) * 3)
        text = " ".join(findings(curve))
        assert ("fewer than three seeds" in text) == poor
        assert "With one seed" not in text
    flat = findings(kr.Curve([16, 64, 1024], [0.1, 0.1, 0.1]))[0]
    assert flat.startswith("No learning from N = 16 to 1,024 may mean")
    assert flat.count("N = 16") == 2
    assert "name its unit" in flat


def test_three_are_told_in_full_and_the_rest_counted() -> None:
    n = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    zigzag = kr.Curve(n, [1.0, 1.2, 0.8, 1.0, 0.6, 0.7, 0.4, 0.5, 0.2])
    assert rises(zigzag) == [1, 3, 5, 7]
    sentences = findings(zigzag)
    assert [text for text in sentences if "not monotone at N = " in text] == list(sentences[:3])
    assert "at N = 32: the mean there, 1.2, is worse than 1 at N = 16." in sentences[0]
    assert sentences[3] == "There are 1 more rises."
    three = kr.Curve(n[:7], [1.0, 1.2, 0.8, 1.0, 0.6, 0.7, 0.4])
    assert not any("more rises" in text for text in findings(three))
    odd = [1.0, 1.0, 1.0, 1.0, 5.0]
    for sizes in (3, 5):
        errors = odd * sizes
        seeded_odd = kr.Curve(np.repeat(n[:sizes], 5), errors, list("abcde") * sizes)
        sentences = findings(seeded_odd)
        assert sum("is an outlier" in text for text in sentences) == 3
        assert ("There are 2 more outliers." in sentences) == (sizes == 5)
        assert any("more outliers" in text for text in sentences) == (sizes == 5)


def test_seeds_that_are_copies_are_named() -> None:
    def sentences(table: list[list[float]]) -> list[str]:
        """Findings on copies in a pilot of N = 4, 8, 16 with one list of errors for each seed."""
        n, seeds = [4, 8, 16] * len(table), [str(k) for k in range(len(table)) for _ in range(3)]
        curve = kr.Curve(n, [error for run in table for error in run], seed=seeds)
        return [text for text in findings(curve) if "same error" in text]

    run, another = [0.3, 0.2, 0.1], [0.31, 0.2, 0.1]
    assert sentences([run, another]) == []  # one N tells them apart
    (pasted,) = sentences([another, run, run])
    assert pasted.startswith("Seeds 1, 2 have the same error")
    (unused,) = sentences([run] * 5)
    assert unused.startswith("Seeds 0, 1, 2, ... have")
    # Two sizes may agree by chance, as rates of a small test set do.
    few = kr.Curve([4, 8, 4, 8, 16], [0.3, 0.2, 0.3, 0.2, 0.1], seed=["1", "1", "2", "2", "3"])
    assert not any("same error" in text for text in findings(few))


# --- Exact places and counts --------------------------------------------------------------------


def smooth(curve: kr.Curve, roughness: float = 0.01) -> Any:
    """A posterior that fits the means exactly."""
    log_means, sizes = np.log(curve.means), curve.sizes.astype(float)

    def moments(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.interp(np.log(n), np.log(sizes), log_means)[None, :]
        return mean, np.zeros_like(mean)

    return SimpleNamespace(roughness=roughness, weight=np.ones(1), moments=moments)


def test_a_collapse_is_told_with_its_first_size_and_its_seeds() -> None:
    """At the last size it counts its seeds; before it, the first size at which all collapsed."""
    n, seeds = np.repeat(N, 3), ["1", "2", "3"] * 4
    errors = np.array([1.0, 1.1, 0.9, 0.5, 0.5, 0.5, 0.2, 0.2, 0.2, 1e-17, 0.1, 1e-17])
    last = kr.Curve(n, errors, seeds)
    assert "at N = 128, 2 of 3 seeds fell to rounding" in doubt(last, smooth(last))
    errors[3:9], errors[9:] = 1e-17, 0.1
    middle = kr.Curve(n, errors, seeds)
    why = doubt(middle, smooth(middle))
    assert "at N = 32 every seed fell to rounding, and at N = 128 none did" in why
    assert why.startswith("The curve cannot be extrapolated: ")
    assert why.endswith(".")


def test_a_step_is_told_where_it_departs_most_from_the_others() -> None:
    curve = kr.Curve([16, 32, 64, 128, 256], [0.9, 0.7, 0.1, 0.08, 0.06])
    assert doubt(curve, smooth(curve, ROUGHEST)) == ""
    why = doubt(curve, smooth(curve, ROUGHEST + 1e-9))
    assert "from N = 32 to 64 the mean goes from 0.7 to 0.1, which" in why
    flat = kr.Curve([16, 32, 64, 128, 256], [0.9, 0.45, 0.43, 0.2, 0.1])
    assert "from N = 32 to 64" in doubt(flat, smooth(flat, 1.0)), "the flat one among steep ones"


@pytest.mark.parametrize(
    ("deviations", "sizes", "doubted"), [(1.63, 3, False), (1.66, 3, True), (1.66, 2, False)]
)
def test_more_than_half_of_seeds_beyond_their_90_percent_range_are_a_doubt(
    deviations: float, sizes: int, doubted: bool
) -> None:
    """A posterior that lies above all seeds of some sizes of four, by just over their range."""
    curve = kr.Curve(np.repeat(N, 4), np.repeat([0.4, 0.2, 0.1, 0.05], 4), list("abcd") * 4)
    noise = 1e-4  # of a mean of four: one seed's is four times that
    spread = math.log1p(4 * noise)
    expected = smooth(curve)
    shift = (np.arange(4) >= 4 - sizes) * deviations * math.sqrt(spread) + 0.5 * spread

    def moments(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = expected.moments(sizes)
        return mean + shift, variance

    above: Any = SimpleNamespace(roughness=0.0, weight=np.ones(1), moments=moments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("korisk.planning.pilot.relative_variance", lambda c: np.full(4, noise))
        why = doubt(curve, above)
    assert ("most single seeds lie outside" in why) == doubted


def test_outliers_are_judged_where_four_seeds_are() -> None:
    """Three seeds at one size are not judged, and do not set the scale."""
    n = [16] * 4 + [32] * 3
    errors = [1.0, 1.0, 1.0, 1.6, 1.0, 1.0, 9.0]
    curve = kr.Curve(n, errors, ["1", "2", "3", "4", "1", "2", "3"])
    assert outliers(curve) == {3: pytest.approx(1.6)}
    assert outliers(kr.Curve(n[1:], errors[1:], ["1", "2", "3", "1", "2", "3"])) == {}
    (sentence,) = [text for text in findings(curve) if "outlier" in text]
    assert "Seed 4 is an outlier at N = 16: its error is 1.6 times the median" in sentence


@pytest.mark.parametrize(("single", "told"), [(1, False), (2, True)])
def test_a_floor_shows_where_more_than_half_of_the_sizes_have_two_seeds(
    single: int, told: bool
) -> None:
    sizes, means = [16, 32, 64, 128], [0.8, 0.4, 0.3, 0.29]
    n = [size for k, size in enumerate(sizes) for _ in range(1 if k < single else 2)]
    errors = [mean for k, mean in enumerate(means) for _ in range(1 if k < single else 2)]
    names = [name for k in range(4) for name in (["1"] if k < single else ["1", "2"])]
    factors = [{"1": 0.999, "2": 1.001}[name] for name in names]
    curve = kr.Curve(n, np.array(errors) * factors, names)
    assert shows_floor(curve) != told
    two = kr.Curve([16, 16, 32, 32], [0.8, 0.81, 0.4, 0.41], ["1", "2"] * 2)
    assert not shows_floor(two), "two sizes have no bend"
    three = kr.Curve([16, 16, 32, 32, 64, 64], [0.8, 0.81, 0.4, 0.41, 0.38, 0.39], ["1", "2"] * 3)
    assert shows_floor(three), "three have one"
    assert not shows_floor(kr.Curve([*three.n, 128], [*three.error, 0.38], ["1", "2"] * 3 + ["1"]))
