"""Forecasts: the error between measured sizes by sums over its parts, and what lies beyond."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, norm

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.curves.noise import relative_variance
from korisk.planning.forecast import Measured, PilotLaw

Array = NDArray[np.float64]
SIZES = np.array([16, 32, 64, 256, 300])
MEANS = np.array([0.8, 0.5, 0.49, 0.1, 0.02])
PILOT = kr.Curve(SIZES, MEANS)


def mixture(n: float, sizes: Array, logs: Array, variance: Array, errors: Sequence[float]) -> Array:
    """P(log error <= each of errors) between two sizes, by 16 quantiles of the beta law of F."""
    place = min(int(np.searchsorted(sizes, n, side="right")) - 1, len(sizes) - 2)
    ends = np.log(sizes[[place, place + 1]])
    share = (math.log(n) - ends[0]) / (ends[1] - ends[0])
    slopes = np.diff(logs) / np.diff(np.log(sizes))
    others = [slopes[k] for k in (place - 1, place + 1) if 0 <= k < len(slopes)]
    bend = max(abs(slopes[place] - slope) for slope in others)
    rough = bend / abs(slopes[place]) if bend else 0.0
    # Half way, F deviates by half the roughness, from a thousandth to one half.
    deviation = min(max(0.5 * rough, 1e-3), 0.5)
    concentration = min(max(0.25 / deviation**2 - 1, 0.02), 400.0)
    step = 1 / (1 + concentration)
    share = (1 - step) * share + step * 2 / math.pi * math.asin(math.sqrt(share))
    total = np.zeros(len(errors))
    for level in (np.arange(16) + 0.5) / 16:
        if 0 < share < 1:
            fallen = float(beta.ppf(level, concentration * share, concentration * (1 - share)))
        else:
            fallen = share
        mean = (1 - fallen) * logs[place] + fallen * logs[place + 1]
        square = (1 - fallen) ** 2 * variance[place] + fallen**2 * variance[place + 1]
        total += norm.cdf((np.array(errors) - mean) / math.sqrt(square)) / 16
    return total


@pytest.mark.parametrize("n", [16.0, 18.0, 31.0, 32.0, 40.0, 63.9, 100.0, 200.0, 280.0, 300.0])
def test_every_gap_has_its_own_roughness(n: float) -> None:
    law = Measured(PILOT, 0.03).law(np.array([n]))
    logs = np.log(MEANS)
    errors = np.log([0.9, 0.7, 0.52, 0.495, 0.48, 0.3, 0.11, 0.05, 0.0201, 0.019])
    under = [law.under(np.array([error]))[0] for error in errors]
    expected = mixture(n, SIZES.astype(float), logs, np.full(5, 0.03**2), errors.tolist())
    np.testing.assert_allclose(under, expected, atol=1e-7)


def test_a_straight_line_is_as_smooth_as_any_curve_gets() -> None:
    """Concentration 400 for an exact power law, whose gaps have equal slopes."""
    sizes = np.array([16.0, 32, 64, 128])
    curve = kr.Curve(sizes.astype(int), 3.0 / sizes)
    law = Measured(curve, 0.001).law(np.array([45.0]))
    errors = np.log(3.0 / 45) + np.linspace(-0.05, 0.05, 7)
    under = [law.under(np.array([error]))[0] for error in errors]
    expected = mixture(45.0, sizes, np.log(3.0 / sizes), np.full(4, 1e-6), errors.tolist())
    np.testing.assert_allclose(under, expected, atol=1e-6)
    # Seeds that agree exactly still have rounding, of 1e-5.
    exact = Measured(curve, 0.0).law(np.array([32.0]))
    score = (exact.quantile(0.9)[0] - math.log(3 / 32)) / norm.ppf(0.9)
    assert score == pytest.approx(1e-5, rel=0.02)


def test_each_size_has_the_noise_of_its_seeds() -> None:
    scatter = np.array([0.9, 1.1, 0.99, 1.01, 0.8, 1.2, 0.95, 1.05])
    sizes = np.array([16.0, 32, 64, 128])
    means = np.array([0.8, 0.4, 0.2, 0.15])
    curve = kr.Curve(np.repeat(sizes, 2).astype(int), np.repeat(means, 2) * scatter, ["1", "2"] * 4)
    variance = relative_variance(curve)
    assert variance is not None
    for n in (16.0, 45.0, 128.0):
        errors = np.log([0.9, 0.75, 0.3, 0.28, 0.25, 0.16, 0.14])
        law = Measured(curve, 9.0).law(np.array([n]))
        under = [law.under(np.array([error]))[0] for error in errors]
        expected = mixture(n, sizes, np.log(curve.means), variance, errors.tolist())
        np.testing.assert_allclose(under, expected, atol=1e-7)


def test_a_target_stays_met_from_the_largest_mean_on() -> None:
    """Of equal means, each size has its own noise; of a later rise, the later one."""
    scatter = np.array([0.9, 1.1, 0.99, 1.01, 0.8, 1.2, 0.95, 1.05])
    curve = kr.Curve(
        np.repeat([16, 32, 64, 128], 2),
        np.repeat([0.4, 0.2, 0.2, 0.1], 2) * scatter,
        ["1", "2"] * 4,
    )
    variance = relative_variance(curve)
    assert variance is not None
    lasting = Measured(curve, 0.0).lasting(np.array([16.0, 32.0, 64.0, 128.0]))
    spread = (lasting.quantile(norm.cdf(1.0)) - np.log([0.4, 0.2, 0.2, 0.1])) ** 2
    np.testing.assert_allclose(spread, variance, rtol=1e-4)
    rising = Measured(kr.Curve([16, 32, 64, 128], [0.4, 0.1, 0.3, 0.2]), 0.01)
    sizes = np.array([16.0, 32.0, 64.0, 128.0])
    np.testing.assert_allclose(rising.lasting(sizes).quantile(0.5), np.log([0.4, 0.3, 0.3, 0.2]))
    np.testing.assert_allclose(rising.law(sizes).quantile(0.5), np.log([0.4, 0.1, 0.3, 0.2]))


# --- Beyond the pilot ----------------------------------------------------------------------------

CURVE = kr.Curve([16, 32, 64, 128, 256], [0.8, 0.42, 0.2, 0.11, 0.06], model="KO")
SOURCE, FORECAST = PilotLaw(CURVE), kr.forecast(CURVE)


def test_futures_start_at_the_last_mean_and_settle_on_the_fitted_curves() -> None:
    """The last mean's weight halves four times per doubling; it falls with the fitted curves."""
    n = np.array([260.0, 300.0, 512.0, 4096.0])
    posterior, last = SOURCE.posterior, np.array([256.0])
    fall = posterior.centre(n) - posterior.centre(last)
    weight = (256 / n) ** 4.0
    law, fitted = SOURCE.law(n), posterior.law(n)
    for shift in (-0.1, 0.0, 0.05):
        errors = np.log(0.06) + fall + shift
        start = norm.cdf(shift / posterior.noise)
        expected = weight * start + (1 - weight) * fitted.under(errors)
        np.testing.assert_allclose(law.under(errors), expected, atol=1e-6)
    start_law = SOURCE.measured.law(last)
    assert (law.low <= np.minimum(fitted.low, start_law.low + fall)).all()
    assert (law.high >= np.maximum(fitted.high, start_law.high + fall)).all()
    below, errors = np.array([8.0]), np.array([0.3])  # nothing was measured there
    np.testing.assert_allclose(SOURCE.law(below).under(errors), posterior.law(below).under(errors))


def test_sizes_inside_and_outside_keep_their_order() -> None:
    n = np.array([8.0, 16.0, 100.0, 256.0, 1000.0])
    alone = [SOURCE.law(n[k : k + 1]).quantile(0.3)[0] for k in range(5)]
    np.testing.assert_allclose(SOURCE.law(n).quantile(0.3), alone, atol=1e-6)
    singly = [FORECAST.met(n[k : k + 1], 0.15)[0] for k in range(5)]
    np.testing.assert_allclose(FORECAST.met(n, 0.15), singly, atol=1e-9)


def test_the_horizon_is_ten_thousand_times_the_pilot_or_the_largest_n() -> None:
    assert (FORECAST.measured, FORECAST.last, FORECAST.horizon) == (256, 256, 2_560_000)
    assert kr.forecast(kr.Curve([10**12, 10**13, 10**14], [0.8, 0.4, 0.3])).horizon == LARGEST_N
    assert kr.forecast(kr.Curve([16, 32, 64], [0.1, 0.2, 0.4])).horizon == 64, "it rises"
    for n in (2, 2_560_000):
        assert FORECAST.at(n).n == n
    for wrong in (1, 2_560_001, 2.5, math.inf, math.nan, [64, 2.5], "64"):
        for ask in (FORECAST.at, FORECAST.plan(0.01).probability):
            with pytest.raises(kr.KoriskError, match="n must be a whole number"):
                ask(wrong)  # type: ignore[arg-type]


def test_expected_errors_are_medians_with_their_90_percent_band() -> None:
    low, middle, high = (FORECAST.quantile([1000], p).item() for p in (0.05, 0.5, 0.95))
    expected = FORECAST.at(1000)
    assert (expected.lower, expected.value, expected.upper) == pytest.approx((low, middle, high))
    then = FORECAST.at(512)
    summary = FORECAST.summary()
    assert all(f"{number:.4g}" in summary for number in (512, then.value, then.lower, then.upper))
    assert "KO" in summary
    assert FORECAST.renamed("FC").plan(0.01).recommend().sentence.startswith("FC: ")


def test_larger_is_better_in_the_users_unit() -> None:
    errors = np.array([0.4, 0.3, 0.22, 0.17])
    plain = kr.forecast(kr.Curve([16, 32, 64, 128], errors, metric="error rate"))
    scores = kr.Curve([16, 32, 64, 128], 1 - errors, metric="accuracy", unit="accuracy")
    score, mirrored = kr.forecast(scores).at(256), plain.at(256)
    assert (score.value, score.lower) == pytest.approx((1 - mirrored.value, 1 - mirrored.upper))
    assert score.lower < score.value < score.upper
    plan = kr.forecast(scores).plan(0.88)
    assert plan.even == pytest.approx(plain.plan(0.12).even, rel=1e-6)
    assert plan.forecast.floor > 0.88


def test_a_related_curve_is_another_one_in_the_same_unit() -> None:
    longer = kr.Curve([16, 32, 64, 128, 256, 512], [0.8, 0.42, 0.2, 0.11, 0.06, 0.03])
    nearly = kr.Curve(CURVE.sizes, CURVE.means * (1 + 1e-7))
    for same in (CURVE, longer, kr.Curve(CURVE.sizes, CURVE.means * (1 + 1e-11))):
        with pytest.raises(kr.KoriskError, match="another measurement than the pilot"):
            kr.forecast(CURVE, related=[same])
    assert kr.forecast(CURVE, related=[nearly, nearly]).related == (nearly,)
    with pytest.raises(kr.KoriskError, match="pilot's unit, 'error'"):
        kr.plan(CURVE, 0.01, related=[kr.Curve([16, 32, 64], [10.0, 13.0, 16.0], unit="psnr")])
    with pytest.raises(kr.KoriskError, match="a related curve needs at least 3"):
        kr.forecast(CURVE, related=[kr.Curve([16, 32], [0.8, 0.5])])
    rising = kr.forecast(CURVE, related=[kr.Curve([16, 32, 64], [0.1, 0.2, 0.4])])
    assert (rising.trust, FORECAST.trust) == (0, None)
