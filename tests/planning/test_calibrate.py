"""Calibrations against the paper, the released numbers, and what any curve must satisfy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import korisk as kr
from korisk import published
from korisk.planning.fit import ENVELOPE_NOTE
from pilots import FC_128, KO_128, N_128, power_pilot, released_h8, scaled

# The summary that the authors released with their CPU runs at H = 8.
RELEASED_H8 = {"KO": (2.340e-3, 9.986e-3), "FC": (4.500e-3, 7.533e-2)}


@pytest.mark.parametrize("model", ["KO", "FC"])
def test_paper_calibration_of_the_released_errors(model: str) -> None:
    found = kr.calibrate(released_h8(model), "paper")
    assert (found.floor, found.slope) == pytest.approx(RELEASED_H8[model], rel=5e-4)


@pytest.mark.parametrize(("model", "means"), [("known", KO_128), ("dense", FC_128)])
def test_paper_calibration_of_the_squared_gpu_means(model: str, means: list[float]) -> None:
    row = next(row for row in published.CALIBRATION if row.H == 128)
    printed: kr.RiskLine = getattr(row, model)
    found = kr.calibrate(kr.Curve(N_128, np.square(means)), "paper")
    assert f"{found.floor:.2e}" == f"{printed.floor:.2e}"
    assert f"{found.slope:.2e}" == f"{printed.slope:.2e}"


def test_what_the_dense_pilot_foretells_and_the_papers_line_does_not() -> None:
    pilot = kr.Curve(N_128[:4], np.square(FC_128[:4]))
    truth = FC_128[-1] ** 2
    line = kr.calibrate(pilot, "paper").predict(2048)
    assert line / truth - 1 == pytest.approx(1.31, abs=0.01)
    assert kr.calibrate(pilot).predict(2048) == pytest.approx(truth, rel=0.2)
    expected = kr.calibrate(pilot, "posterior").predict(2048)
    assert abs(math.log(expected / truth)) < 0.7 * math.log(line / truth)


def test_the_papers_floor_is_the_lowest_mean_and_its_line_no_upper_bound() -> None:
    curve = kr.Curve(N_128, np.square(KO_128))
    found = kr.calibrate(curve, "paper")
    assert found.floor == curve.means.min()
    assert (found.predict(curve.sizes) < curve.means).any()
    with pytest.raises(kr.UnreachableError):
        found.samples(0.99 * found.floor)


def test_two_sizes_are_enough_for_the_paper_and_three_for_the_default() -> None:
    two = kr.Curve([4, 16], [0.3, 0.2])
    assert kr.calibrate(two, "paper").floor == 0.2
    with pytest.raises(kr.KoriskError, match="at least three distinct N, got two"):
        kr.calibrate(two)


@pytest.mark.parametrize("fit", kr.FITS)
def test_samples_inverts_predict(fit: str) -> None:
    found = kr.calibrate(power_pilot(), fit)
    target = 0.6 * found.predict(512) + 0.4 * found.floor
    n = found.samples(target)
    assert found.predict(n) <= target < found.predict(n - 1)


@pytest.mark.parametrize("fit", kr.FITS)
@pytest.mark.parametrize("factor", [1e-30, 7.0])
def test_scaling_errors_leaves_samples_and_scales_the_rest(fit: str, factor: float) -> None:
    curve = power_pilot()
    plain, larger = kr.calibrate(curve, fit), kr.calibrate(scaled(curve, factor), fit)
    assert larger.floor == pytest.approx(factor * plain.floor, rel=1e-4)
    if plain.slope is not None and larger.slope is not None:
        assert larger.slope == pytest.approx(factor * plain.slope, rel=1e-3)
    target = plain.predict(2000)
    assert larger.samples(factor * target) == pytest.approx(plain.samples(target), rel=1e-3)


@pytest.mark.parametrize("fit", kr.FITS)
def test_names_and_order_of_seeds_play_no_part(fit: str) -> None:
    curve = power_pilot()
    renamed = {"0": "z", "1": "3", "2": "b", "3": "0", "4": "11"}
    order = np.random.default_rng(0).permutation(len(curve))
    other = kr.Curve(
        curve.n[order], curve.error[order], [renamed[curve.seed[row]] for row in order]
    )
    n = [600, 5000]
    mine, theirs = (kr.calibrate(c, fit).predict(n) for c in (curve, other))
    assert np.array_equal(mine, theirs)


@given(st.integers(0, 10**6))
def test_the_envelope_touches_the_means_and_lies_nowhere_below(draw: int) -> None:
    rng = np.random.default_rng(draw)
    curve = kr.Curve([4, 8, 16, 32, 64], rng.uniform(0.1, 1.0, 5))
    found = kr.calibrate(curve, "envelope")
    spare = found.predict([4, 8, 16, 32, 64]) - curve.means
    assert spare.min() == pytest.approx(0, abs=1e-9)
    assert found.note == ENVELOPE_NOTE


def test_the_envelope_has_the_least_to_spare_of_many_lines() -> None:
    curve = kr.Curve([4, 8, 16, 32, 64], [0.9, 0.7, 0.65, 0.3, 0.35])
    rate = np.log(curve.sizes) / curve.sizes
    best = (kr.calibrate(curve, "envelope").predict([4, 8, 16, 32, 64]) - curve.means).sum()
    for slope in np.linspace(0, 5, 400):
        floor = max(0.0, float((curve.means - slope * rate).max()))
        assert best <= (floor + slope * rate - curve.means).sum() + 1e-9


def test_parameters_are_those_of_the_formula() -> None:
    n = np.array([16, 32, 64, 128, 256])
    found = kr.calibrate(kr.Curve(n, 0.02 + 0.5 * n**-0.5)).parameters
    assert found == pytest.approx({"c": 0.02, "a": 0.5, "b": 0.5}, rel=1e-6)
    shifted = kr.calibrate(kr.Curve(n, 0.02 + 0.5 * (n + 40.0) ** -0.5), "shifted-power")
    assert shifted.parameters == pytest.approx({"c": 0.02, "a": 0.5, "b": 0.5, "s": 40}, rel=0.05)
    for fit in kr.FITS:
        assert all(
            math.isfinite(value) for value in kr.calibrate(power_pilot(), fit).parameters.values()
        )


def test_a_curve_of_one_averaged_family_is_averaged_to_itself() -> None:
    n = np.array([16, 32, 64, 128, 256, 512])
    line = kr.Curve(n, 0.02 + 3 * np.log(n) / n)
    assert kr.calibrate(line, "aic").predict(4096) == pytest.approx(
        0.02 + 3 * math.log(4096) / 4096, rel=1e-3
    )


@pytest.mark.parametrize("n", [1, 0, -4, math.nan, "many", [], [[2, 3]], [4, 1]])
def test_predict_refuses_what_is_no_number_of_samples(n: object) -> None:
    with pytest.raises(kr.KoriskError, match="n must be"):
        kr.calibrate(power_pilot()).predict(n)  # type: ignore[call-overload]


def test_an_unknown_method_is_refused_with_a_suggestion() -> None:
    with pytest.raises(kr.KoriskError, match="did you mean 'power'"):
        kr.calibrate(power_pilot(), "powr")


def test_averages_of_long_clean_pilots_follow_the_law() -> None:
    n = 2.0 ** np.arange(2, 22)
    found = kr.calibrate(kr.Curve(n, 0.01 + n**-0.5), "aic").predict([2**22, 2**23])
    np.testing.assert_allclose(found, 0.01 + np.array([2.0**-11, 2.0**-11.5]), rtol=1e-3)
