"""Fits to the last digit, at their limits, and what a target may mean."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.errors import UnreachableError
from korisk.planning.fit import (
    FAMILIES,
    FITS,
    Fits,
    calibrate,
    check_target,
    fitted_line,
    least_sizes,
    least_squares,
    other_unit,
    pooled_band,
    sample_counts,
)

N = np.array([8.0, 16, 32, 64, 128, 256, 512])
FAR = np.array([1024.0, 4096, 16384])


def fits_of(name: str, rates: Sequence[float], shift: float | None = None) -> Fits:
    """Curves 0.02 + 0.1 basis(N) of several rates."""
    rate, count = np.array(rates), len(rates)
    shape = (rate,) if shift is None else (rate, np.full(count, shift))
    family = FAMILIES[name]
    return Fits(family, 512.0, np.full(count, 0.02), np.full(count, 0.1), shape, np.zeros(count))


@pytest.mark.parametrize("shift", [0.05, 0.3, 1.0])
def test_two_shape_parameters_are_found_to_the_last_digits(shift: float) -> None:
    truth = fits_of("shifted-power", (0.3, 0.5, 0.9, 1.5), shift)
    errors = truth.predict(N)
    fitted = least_squares(truth.family, N, errors, 1 / errors[0] ** 2)
    np.testing.assert_allclose(fitted.predict(FAR), truth.predict(FAR), rtol=1e-11)
    np.testing.assert_allclose(fitted.shape[0], truth.shape[0], rtol=1e-9)
    np.testing.assert_allclose(fitted.shape[1], truth.shape[1], rtol=1e-9)
    assert fitted.loss.max() < 1e-28


@pytest.mark.parametrize("name", ["power", "log-power"])
def test_one_shape_parameter_is_found_to_seven_digits(name: str) -> None:
    truth = fits_of(name, (0.0331, 0.27, 0.5, 0.93))
    errors = truth.predict(N)
    fitted = least_squares(truth.family, N, errors, np.ones(len(N)))
    np.testing.assert_allclose(fitted.shape[0], truth.shape[0], rtol=2e-7)
    np.testing.assert_allclose(fitted.floor, 0.02, rtol=1e-5)


def test_a_basis_is_one_at_the_last_size_and_has_its_formula() -> None:
    x, log_last = np.log(N / 512), math.log(512)
    rate, shift = np.array(0.7), np.array(0.4)
    line = np.log(N) / N / (math.log(512) / 512)
    for name, shape, expected in (
        ("power", (rate,), (N / 512) ** -0.7),
        ("no-floor", (rate,), (N / 512) ** -0.7),
        ("line", (), line),
        ("log-power", (rate,), line**0.7),
        ("shifted-power", (rate, shift), ((N / 512 + 0.4) / 1.4) ** -0.7),
    ):
        basis = FAMILIES[name].basis(x, log_last, shape)
        np.testing.assert_allclose(basis, expected, rtol=1e-12)
        assert basis[-1] == pytest.approx(1)
    parameters = {name: family.parameters for name, family in FAMILIES.items()}
    assert parameters == {
        **{"power": 3, "line": 2, "log-power": 3, "no-floor": 2},
        "shifted-power": 4,
    }


@pytest.mark.parametrize(
    ("name", "limit"),
    [("power", 1.0), ("no-floor", 3.0), ("log-power", 3.0), ("shifted-power", 3.0)],
)
def test_rates_end_at_their_limits(name: str, limit: float) -> None:
    """A fall faster than any rate is fitted by the largest one."""
    steep = least_squares(FAMILIES[name], N, ((N / 8) ** -6.0)[None, :], np.ones(len(N)))
    assert steep.shape[0][0] == pytest.approx(limit)


def test_pilots_in_many_chunks_are_fitted_as_alone() -> None:
    rng = np.random.default_rng(0)
    errors = 0.1 + rng.uniform(0.5, 1.5, (501, 1)) * (np.log(N) / N) * rng.uniform(
        0.9, 1.1, (501, 7)
    )
    weights = rng.uniform(1, 2, 7)
    together = least_squares(FAMILIES["line"], N, errors, weights)
    for index in (0, 249, 250, 499, 500):
        alone = least_squares(FAMILIES["line"], N, errors[index : index + 1], weights)
        assert together.floor[index] == pytest.approx(alone.floor[0])
        assert together.scale[index] == pytest.approx(alone.scale[0])
    assert len(together.floor) == 501


def test_lines_need_two_sizes_and_other_curves_three() -> None:
    assert [least_sizes(fit) for fit in ("paper", "line", "power", "posterior")] == [2, 2, 3, 3]
    two = kr.Curve([16, 64], 0.01 + 0.5 * np.log([16, 64]) / np.array([16, 64]))
    line = fitted_line(two)
    assert (line.floor, line.slope) == pytest.approx((0.01, 0.5))
    with pytest.raises(kr.KoriskError, match="needs at least 2"):
        fitted_line(kr.Curve([16], [0.1]))
    paper = fitted_line(two, "paper")
    rate = np.log([16, 64]) / np.array([16, 64])
    assert paper.floor == two.means[-1]
    assert paper.slope == pytest.approx((two.means[0] - two.means[1]) * rate[0] / (rate @ rate))
    assert set(FITS) == {"posterior", "power", "shifted-power", "paper"}


def test_parameters_are_those_of_a_curve_that_fits_exactly() -> None:
    n = N.astype(int)
    power = calibrate(kr.Curve(n, 0.02 + 3.0 * N**-0.6))
    assert power.parameters == pytest.approx({"c": 0.02, "a": 3.0, "b": 0.6}, rel=1e-4)
    assert power.floor == power.parameters["c"]
    shifted = calibrate(kr.Curve(n, 0.02 + 3.0 * (N + 100) ** -0.6), "shifted-power")
    assert shifted.parameters == pytest.approx({"c": 0.02, "a": 3.0, "b": 0.6, "s": 100}, rel=1e-6)
    assert shifted.slope == shifted.parameters["a"]
    paper = calibrate(kr.Curve(n, 0.02 + 3.0 * np.log(N) / N), "paper")
    assert paper.parameters["c"] == pytest.approx(0.02 + 3.0 * math.log(512) / 512)
    assert calibrate(kr.Curve(n, 0.02 + 3.0 * N**-0.6), "posterior").slope is None
    assert isinstance(power.predict(64), float)
    assert power.predict([64, 128]).shape == (2,)


def test_the_smallest_n_of_a_fitted_curve_is_exact() -> None:
    power = calibrate(kr.Curve(N.astype(int), 0.02 + 3.0 * N**-0.6))
    for target in (0.5, 0.1, 0.03, 0.0200003):
        n = power.samples(target)
        assert power.predict(n) <= target < power.predict(n - 1)
    assert power.samples(5.0) == 3
    assert power.samples(power.predict(3)) == 3
    assert power.samples(0.999 * power.predict(3)) == 4
    for target in (0.0199, power.floor):
        with pytest.raises(UnreachableError):
            power.samples(target)
    with pytest.raises(kr.KoriskError, match="target must be"):
        power.samples(0.0)
    paper = calibrate(kr.Curve(N.astype(int), 0.02 + 3.0 * np.log(N) / N), "paper")
    with pytest.raises(UnreachableError):
        paper.samples(paper.floor)
    assert paper.samples(9.9) == 2
    at_last = calibrate(kr.Curve(N.astype(int), 3.0 * N**-0.6))
    assert at_last.samples(at_last.predict(LARGEST_N)) <= LARGEST_N


def test_sizes_are_numbers_from_2_to_the_largest() -> None:
    assert sample_counts(2).shape == ()
    assert sample_counts([2, LARGEST_N]).tolist() == [2, LARGEST_N]
    for wrong in (1.999, 1.001 * LARGEST_N, [], [[2, 3]], [2, math.nan], "x", None, [1, 2], [2, 1]):
        with pytest.raises(kr.KoriskError, match="n must be a number from 2"):
            sample_counts(wrong)


def test_the_band_of_single_seeds_is_stretched_and_widens_with_every_doubling() -> None:
    """Families that agree exactly leave 2.1 times 2% of the log error for every doubling."""
    n = N.astype(int)
    fitted = calibrate(kr.Curve(n, 0.3 * N**-0.5))
    low, high = pooled_band(fitted, FAR)
    middle = fitted.predict(FAR)
    np.testing.assert_allclose(low * high, middle**2)
    inside_low, inside_high = pooled_band(fitted, np.array([512.0]))
    inside = math.log(inside_high[0] / inside_low[0])
    assert inside < 1e-4 + 2.1
    widths = np.log(high / low)
    assert (np.diff(widths) >= 2 * 2.1 * 2 * 0.02 - 1e-9).all(), "two doublings"
    two = pooled_band(
        calibrate(kr.Curve([16, 64, 256], [0.3, 0.2, 0.15]), "paper"), np.array([99.0])
    )
    assert two[0] < two[1]


def test_two_seeds_are_resampled() -> None:
    sizes, means = np.array([16, 32, 64, 128, 256]), np.array([0.4, 0.25, 0.16, 0.11, 0.08])
    scatter = np.tile([0.8, 1.2], 5)
    twice = kr.Curve(np.repeat(sizes, 2), np.repeat(means, 2) * scatter, ["1", "2"] * 5)
    bands = [pooled_band(calibrate(curve), FAR) for curve in (twice, kr.Curve(sizes, twice.means))]
    widths = [np.log(high / low) for low, high in bands]
    assert (widths[0] > widths[1] + 0.1).all()
    np.testing.assert_array_equal(pooled_band(calibrate(twice), FAR), bands[0])


# --- Targets -------------------------------------------------------------------------------------

ERRORS = kr.Curve([16, 64, 256], [0.4, 0.2, 0.1])
SCORES = kr.Curve([16, 64, 256], [0.6, 0.8, 0.9], unit="accuracy")
DECIBELS = kr.Curve([16, 64, 256], [20.0, 25.0, 30.0], unit="psnr")


@pytest.mark.parametrize(
    ("curve", "target", "hint"),
    [
        (ERRORS, 0.0101, ""),  # a tenth of the smallest: plausible
        (ERRORS, 0.4, ""),
        (ERRORS, 1.2, ""),  # three times the largest
        (ERRORS, 20.0, "in percent? then ask for 0.2"),
        (ERRORS, 0.0021, "as a fraction of one? then ask for 0.21"),
        (ERRORS, 0.0011, "as a fraction of one? then ask for 0.11"),
        (ERRORS, 7.0, "in percent? then ask for 0.07"),
        (ERRORS, 2.99, ""),  # 0.0299 as percent, below 0.3 times the smallest
        (ERRORS, 3.01, "in percent? then ask for 0.0301"),
        (ERRORS, 40.0, "in percent? then ask for 0.4"),
        (ERRORS, 85.0, "as a score in percent? then ask for 0.15"),
        (SCORES, 0.7, ""),
        (SCORES, 85.0, "in percent? then ask for 0.85"),
        (SCORES, 0.0085, "as a fraction of one? then ask for 0.85"),
        (SCORES, 0.059, "as an error? then ask for 0.941"),
        (SCORES, 0.061, ""),  # a tenth of the worst
        (SCORES, 0.999, ""),
        (SCORES, -0.25, ""),
        (DECIBELS, 0.25, "as a fraction of one? then ask for 25"),
        (DECIBELS, 0.003, "as an error? then ask for 25.23"),
        (DECIBELS, 2500.0, "in percent? then ask for 25"),
    ],
)
def test_a_target_far_from_the_pilot_may_be_meant_otherwise(
    curve: kr.Curve, target: float, hint: str
) -> None:
    words = other_unit(curve, target)
    assert words.endswith(hint)
    assert (words == "") == (hint == "")
    ends = {"error": "0.1 to 0.4", "accuracy": "0.6 to 0.9", "psnr": "20 to 30"}[curve.unit.name]
    assert hint == "" or f"the pilot runs from {ends}: was the target given " in words


def test_up_to_three_times_worse_and_ten_times_better_a_target_is_taken_at_its_word() -> None:
    worse = kr.Curve([16, 64, 256], [0.5, 0.2, 0.04])
    assert (other_unit(worse, 1.5), other_unit(worse, 1.501) != "") == ("", True)
    better = kr.Curve([16, 64, 256], [8.0, 2.0, 0.5])
    assert (other_unit(better, 0.05), other_unit(better, 0.0499) != "") == ("", True)
    # A tenth of the worst score, where that is above zero.
    scores = kr.Curve([16, 64, 256], [0.5, 0.7, 0.9], unit="accuracy")
    assert (other_unit(scores, 0.05), other_unit(scores, 0.0499) != "") == ("", True)


def test_a_target_is_refused_outside_its_unit_or_where_it_is_worse_than_all() -> None:
    for target in (1e-100, 1e-50, 0.2):
        check_target([ERRORS], target)
    for target in (0.99e-100, 0.0, -1.0, 1.01e100):
        with pytest.raises(kr.KoriskError, match="target must be above 0"):
            check_target([ERRORS], target)
    check_target([kr.Curve([16, 64, 256], [1e98, 1e97, 1e96])], 1e100 / 40)
    with pytest.raises(kr.KoriskError, match="target 20 is worse than all that was measured; the"):
        check_target([ERRORS], 20.0)
    check_target([ERRORS, kr.Curve([16, 64, 256], [40.0, 20.0, 10.0])], 20.0)
    check_target([ERRORS], 0.0021)  # too hard is a question
    with pytest.raises(kr.KoriskError, match="one target at a time"):
        check_target([ERRORS], [0.1, 0.2])
    with pytest.raises(kr.KoriskError, match="give the error that you want to reach"):
        check_target([ERRORS], "low")
    with pytest.raises(kr.KoriskError, match="curve must be a Curve"):
        check_target(["pilot.csv"], 0.1)  # type: ignore[list-item]
