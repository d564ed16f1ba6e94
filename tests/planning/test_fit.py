"""Lines through pilots: the paper's numbers, least squares, and what a target may mean."""

import math

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import relative_variance
from korisk.paper import published
from korisk.planning.calibration import paper_line
from korisk.planning.forecast import check_target, other_unit, target_error
from pilots import FC_128, KO_128, N_128, power_pilot, released_h8, scaled

# The summary that the authors released with their CPU runs at H = 8.
RELEASED_H8 = {"KO": (2.340e-3, 9.986e-3), "FC": (4.500e-3, 7.533e-2)}


@pytest.mark.parametrize("model", ["KO", "FC"])
def test_the_papers_calibration_of_released_errors_and_of_the_squared_gpu_means(model: str) -> None:
    line = paper_line(released_h8(model))
    assert (line.floor, line.slope) == pytest.approx(RELEASED_H8[model], rel=5e-4)
    row = next(row for row in published.CALIBRATION if row.H == 128)
    printed, means = (row.known, KO_128) if model == "KO" else (row.dense, FC_128)
    line = paper_line(kr.Curve(N_128, np.square(means)))
    assert f"{line.floor:.2e}, {line.slope:.2e}" == f"{printed.floor:.2e}, {printed.slope:.2e}"


def test_what_the_dense_pilot_predicts_and_the_papers_line_does_not() -> None:
    pilot = kr.Curve(N_128[:4], np.square(FC_128[:4]))
    truth = FC_128[-1] ** 2
    line = paper_line(pilot).predict(2048)
    assert line / truth - 1 == pytest.approx(1.31, abs=0.01)
    expected = kr.forecast(pilot).at(2048).value
    assert abs(math.log(expected / truth)) < 0.7 * math.log(line / truth)


def test_the_papers_floor_is_the_lowest_mean_and_its_line_no_upper_bound() -> None:
    curve = kr.Curve(N_128, np.square(KO_128))
    line = paper_line(curve)
    assert line.floor == curve.means.min()
    lies_below = [line.predict(n) < mean for n, mean in zip(curve.sizes, curve.means, strict=True)]
    assert any(lies_below)
    with pytest.raises(kr.errors.UnreachableError):
        line.samples(line.floor)


def test_scale_names_and_order_of_seeds_change_nothing_else() -> None:
    curve = power_pilot()
    line = paper_line(curve)
    target = 0.6 * line.predict(512) + 0.4 * line.floor
    n = line.samples(target)
    assert line.predict(n) <= target < line.predict(n - 1)
    for factor in (1e-30, 7.0):
        larger = paper_line(scaled(curve, factor))
        expected = (factor * line.floor, factor * line.slope)
        assert (larger.floor, larger.slope) == pytest.approx(expected)
        assert larger.samples(factor * target) == pytest.approx(n, rel=1e-3)
    renamed = {"0": "z", "1": "3", "2": "b", "3": "0", "4": "11"}
    order = np.random.default_rng(0).permutation(len(curve))
    seeds = [renamed[curve.seed[row]] for row in order]
    other = paper_line(kr.Curve(curve.n[order], curve.error[order], seeds))
    assert (other.floor, other.slope) == pytest.approx((line.floor, line.slope))


def test_lines_need_two_sizes() -> None:
    two = kr.Curve([16, 64], 0.01 + 0.5 * np.log([16, 64]) / np.array([16, 64]))
    with pytest.raises(kr.KoriskError, match="needs at least 2"):
        paper_line(kr.Curve([16], [0.1]))
    paper = paper_line(two)
    rate = np.log([16, 64]) / np.array([16, 64])
    assert paper.floor == two.means[-1]
    assert paper.slope == pytest.approx((two.means[0] - two.means[1]) * rate[0] / (rate @ rate))


def test_a_noisier_size_weighs_less() -> None:
    rng = np.random.default_rng(0)
    errors = np.concatenate([1 + 0.01 * rng.standard_normal(20), 1 + 0.3 * rng.standard_normal(20)])
    curve = kr.Curve(np.repeat([4, 8], 20), np.abs(errors), list(range(20)) * 2)
    spread = relative_variance(curve)
    assert spread is not None
    assert spread[1] > 8 * spread[0]  # less than the 900 of their variances: spreads are pooled
    assert relative_variance(kr.Curve([4, 8], [1.0, 0.5])) is None


# --- Targets -------------------------------------------------------------------------------------


def _pilot(values: tuple[float, float, float], unit: str) -> kr.Curve:
    return kr.Curve([16, 32, 64], values, unit=unit)


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
        (
            _pilot((0.2, 0.15, 0.1), "error"),
            0.88,
            "as a score of which larger is better? then ask for 0.12",
        ),
        (_pilot((2e-4, 1.5e-4, 1e-4), "error"), 40, "in decibels? then ask for 0.0001"),
        (
            _pilot((2e-6, 1.5e-6, 1e-6), "error"),
            0.0012,
            "as a root of the metric? then ask for 1.44e-06",
        ),
        (
            _pilot((0.05, 0.04, 0.03), "error"),
            0.0016,
            "as a square of the metric? then ask for 0.04",
        ),
        (_pilot((-0.2, -0.15, -0.1), "negated"), 0.15, "as an error? then ask for -0.15"),
        (_pilot((80, 85, 90), "percent"), 12, "as an error? then ask for 88"),
        (_pilot((80, 85, 90), "percent"), 0.85, "as a fraction of one? then ask for 85"),
    ],
)
def test_a_target_far_from_the_pilot_may_be_meant_otherwise(
    curve: kr.Curve, target: float, hint: str
) -> None:
    words = other_unit(curve, target)
    assert words.endswith(hint)
    assert (words == "") == (hint == "")
    low, high = sorted(curve.unit.from_error(curve.means[[0, -1]]))
    ends = f"{low:.4g} to {high:.4g}"
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


def test_a_target_in_its_unit_is_returned_as_an_error() -> None:
    curve = _pilot((0.2, 0.15, 0.1), "error")
    for target in (0.2, 0.1, 0.011, 0.21, 0.44):
        assert target_error(curve, target) == target
    below = _pilot((-1.0, -0.5, -0.2), "complement")  # a score below zero, a little worse
    assert (other_unit(below, -1.5), target_error(below, -1.5)) == ("", 2.5)
    for pilot, target, message in (
        (curve, 12, "target 12 is worse than all that was measured"),
        (_pilot((0.8, 0.85, 0.9), "complement"), 88, "must be below 1, got 88"),
    ):
        with pytest.raises(kr.KoriskError, match=message):
            target_error(pilot, target)
