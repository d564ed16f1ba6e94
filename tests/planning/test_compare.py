"""Comparisons: the paper's two factors, ratios, and where curves cross."""

import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from pilots import FC_128, KO_128, N_128, power_pilot, released_h8

Array = NDArray[np.float64]
N = np.array([16, 32, 64, 128, 256, 512])
RATE = np.log(N) / N
FLAT = kr.Curve(N[:-1], [0.1, 0.09, 0.08, 0.075, 0.072], model="KO")
STEEP = kr.Curve(N[:-1], [0.8, 0.4, 0.2, 0.1, 0.05], model="FC")


def test_two_factors_of_exact_lines_are_those_of_the_theory() -> None:
    known, dense = kr.theory.RiskLine(0.02, 0.1), kr.theory.RiskLine(0.01, 0.8)
    first, second = (kr.Curve(N, line.floor + line.slope * RATE) for line in (known, dense))
    found = kr.compare(first, second, 0.025).factors()
    expected = kr.theory.two_factors(known, dense, 0.025)
    assert found.structural == pytest.approx(expected.structural, rel=1e-9)
    assert found.approximation_budget == pytest.approx(expected.approximation_budget, rel=1e-9)


def test_the_papers_factors_from_its_own_sweep() -> None:
    """Squared means at H = 128: sigma ratio 9.45e-2 / 1.11e-2 of the calibration table."""
    known, dense = (kr.Curve(N_128, np.square(means)) for means in (KO_128, FC_128))
    found = kr.compare(known, dense, 0.004).factors("paper")
    assert found.structural == pytest.approx(9.45e-2 / 1.11e-2, rel=0.01)


def test_the_ratio_is_that_of_the_plans_and_inverts_when_swapped() -> None:
    ko, fc = released_h8("KO"), released_h8("FC")
    there, back = kr.compare(ko, fc, 0.003), kr.compare(fc, ko, 0.003)
    assert there.ratio is not None
    assert back.ratio is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.ratio_range is not None
    assert back.ratio_range is not None
    assert there.ratio_range[0] < there.ratio < there.ratio_range[1]
    assert there.ratio_range[0] == pytest.approx(1 / back.ratio_range[1], rel=0.02)


@pytest.fixture(scope="module")
def released() -> kr.Comparison:
    """The released sweep at a target that KO does not reach."""
    known, dense = kr.Curve(N_128, KO_128, model="KO"), kr.Curve(N_128, FC_128, model="FC")
    return kr.compare(known, dense, 0.042)


def test_the_released_sweep_crosses_where_its_means_do(released: kr.Comparison) -> None:
    """KO leads at N = 256 and FC at N = 1024, so the crossover lies between."""
    found = released.crossover
    assert found is not None
    assert 256 < found.n < 1024
    assert found.lower <= found.n <= found.upper
    assert found.better_after == "FC"
    assert found.measured


def test_exact_curves_cross_where_they_must() -> None:
    first, second = kr.Curve(N, 0.5 * N**-0.25), kr.Curve(N, 4.0 * N**-0.5)  # cross at 8^4
    found = kr.compare(first, second, 0.1).crossover
    assert found is not None
    # Eight times the pilot, by one seed of unknown noise.
    assert found.lower < 4096 < found.upper
    assert found.n == pytest.approx(4096, rel=0.5)
    assert not found.measured
    assert found.better_after == "second"


def test_parallel_curves_do_not_cross() -> None:
    first, second = kr.Curve(N, 0.5 * N**-0.5), kr.Curve(N, 1.5 * N**-0.5)
    comparison = kr.compare(first, second, 0.05)
    assert comparison.crossover is None
    assert "do not clearly cross" in comparison.explain()
    assert comparison.ratio == pytest.approx(9, rel=0.02)  # N^-1/2: three times the error
    assert comparison.ratio is not None
    assert comparison.ratio_range is not None
    assert comparison.ratio_range[0] < comparison.ratio < comparison.ratio_range[1]


def test_odds_are_even_for_a_curve_against_itself() -> None:
    curve = power_pilot()
    comparison = kr.compare(curve, curve, 0.04)
    assert comparison.odds(np.array([512.0, 4096.0])) == pytest.approx([0.5, 0.5], abs=0.02)
    assert comparison.crossover is None


def test_where_one_has_no_answer_the_other_still_has(released: kr.Comparison) -> None:
    assert released.ratio is None
    assert released.ratio_range is None or released.ratio_range[1] < 1
    assert released.second.middle is not None
    words = released.explain()
    assert "KO: It is not known whether KO reaches 0.042" in words
    assert "FC needs about" in words
    content = json.loads(json.dumps(released.to_dict()))
    assert content["ratio"] is None
    assert "unknown" in content["two_factors"]["paper"]


def test_like_is_compared_with_like() -> None:
    mse, mae = (kr.Curve(N, RATE, metric=metric) for metric in ("MSE", "MAE"))
    with pytest.raises(kr.KoriskError, match="same metric"):
        kr.compare(mse, mae, 0.01)
    with pytest.raises(kr.KoriskError, match="same unit"):
        kr.compare(kr.Curve(N, RATE), kr.Curve(N, RATE, unit="rmse"), 0.01)


def test_the_factors_need_lines() -> None:
    comparison = kr.compare(released_h8("KO"), released_h8("FC"), 0.003)
    with pytest.raises(kr.KoriskError, match="fit must be one of paper, line"):
        comparison.factors("power")
    assert math.isfinite(comparison.factors().product)


@pytest.mark.parametrize(("level", "rate"), [(0.001, 0.6), (0.001, 0.9), (1e-5, 0.6)])
def test_what_one_met_at_once_is_answered_for_the_other(level: float, rate: float) -> None:
    """Fewer than 4 might be enough for the first, so that the ratio has one end alone.

    The third is worse by far than all that the first measured, and a root of it would not be.
    """
    n = np.repeat([4, 16, 64, 256], 3)
    noise = np.tile([0.98, 1.0, 1.02], 4)
    flat = kr.Curve(n, level * noise, [1, 2, 3] * 4, "flat")
    steep = kr.Curve(n, 0.08 / n**rate * noise, [1, 2, 3] * 4, "steep")
    made, back = kr.compare(flat, steep, 0.002), kr.compare(steep, flat, 0.002)
    assert made.first.met_at_smallest
    assert made.first.middle == 4
    assert made.second.middle == kr.plan(steep, 0.002).middle
    assert made.ratio is not None
    assert made.ratio_range is not None
    low, high = made.ratio_range
    assert 0.9 * made.second.lower / 4 <= low <= made.ratio
    assert math.isinf(high)
    assert list(back.ratio_range or ()) == pytest.approx([0.0, 1 / low])
    for words, side in ((made.explain(), "at least"), (back.explain(), "at most")):
        assert "at most 4" in words
        assert f"{side} " in words.partition("a ratio of")[2].partition("95%")[0]


def test_the_ratio_has_one_end_where_one_model_has_no_number() -> None:
    """0.06 is out of reach of a curve that levels off at 0.1; the other meets it at once."""
    rng = np.random.default_rng(1)
    n = np.repeat([4, 16, 64, 256], 3)
    noise = np.exp(0.01 * rng.standard_normal(n.size))
    good = kr.Curve(n, 0.03 * n**-0.1 * noise, [1, 2, 3] * 4, "good")
    stuck = kr.Curve(n, (0.1 + 1.0 / n) * noise, [1, 2, 3] * 4, "stuck")
    made = kr.compare(good, stuck, 0.06)
    assert (made.second.middle, made.ratio) == (None, None)
    assert made.ratio_range is not None
    assert made.ratio_range[0] >= 256 / 4  # missed at every measured N
    words = made.explain()
    assert "good needs at most 4 samples" in words
    assert "not reachable" in words
    assert "at least" in words
    # What is far too easy for both is refused as ever.
    with pytest.raises(kr.KoriskError, match="worse than all that was measured"):
        kr.compare(good, stuck, 6.0)


@pytest.mark.parametrize(
    ("odds", "after", "share"),
    [
        ([0.0, 1.0], "second", 0.5),
        ([1.0, 0.0], "first", 0.5),
        ([0.25, 0.75], "second", 0.5),
        ([0.26, 1.0], None, 0),
        ([0.25, 0.74], None, 0),
        ([0.75, 0.26], None, 0),
        ([0.6, 0.0, 1.0], "second", 0.75),  # even odds at first are no crossover
        ([0.4, 1.0, 0.0], "first", 0.75),
    ],
)
def test_a_crossover_is_clear_before_and_after(
    monkeypatch: pytest.MonkeyPatch, odds: list[float], after: str | None, share: float
) -> None:
    """Odds that run through some values, evenly over the doublings from 16 to 64 times 256."""

    def made_up(self: kr.Comparison, n: Array) -> Array:
        assert (n[0], n[-1]) == (16, pytest.approx(64 * 256))
        return np.interp(np.log2(n / 16), np.linspace(0, 10, len(odds)), odds)

    sizes = N[:-1]
    monkeypatch.setattr(kr.Comparison, "odds", made_up)
    found = kr.Comparison(*[kr.plan(kr.Curve(sizes, 1.0 / sizes), 1e-3)] * 2).crossover
    assert (found.better_after if found else None) == after
    if found is not None:
        assert found.n == pytest.approx(16 * 2 ** (10 * share), rel=0.15)
        assert found.lower <= found.n <= found.upper
        assert found.measured == (found.n <= 256)


def test_curves_that_rise_have_no_slope_and_no_factors() -> None:
    rising, falling = kr.Curve(N, 0.01 * N**0.2), kr.Curve(N, 0.01 + 1.0 / N)
    for first, second in ((rising, falling), (falling, rising)):
        with pytest.raises(kr.KoriskError, match="must be > 0, got 0"):
            kr.compare(first, second, 0.03).factors()


@pytest.mark.parametrize(("first", "second"), [(FLAT, STEEP), (STEEP, FLAT)])
def test_the_papers_lines_cross_without_odds(first: kr.Curve, second: kr.Curve) -> None:
    """Where the lines have the same error, whichever is named first."""
    pair = kr.compare(first, second, 0.08, fit="paper")
    crossing = pair.crossover
    assert crossing is not None
    errors = [kr.planning.calibrate(curve).predict(crossing.n) for curve in (first, second)]
    assert errors[0] == pytest.approx(errors[1], rel=0.01)
    assert crossing.better_after == "FC"
    assert math.isnan(crossing.lower)
    assert math.isnan(crossing.upper)
    assert pair.ratio_range is None


def test_sizes_that_one_pilot_lacks_are_interpolated() -> None:
    """Means at 16, 64, 256 and at 32, 128, 512 cross at 90 without a common N."""
    n = np.array([8, 16, 32, 64, 128, 256, 512, 1024])
    flat = kr.Curve(n[::2], 0.1 * (n[::2] / 90) ** -0.1, model="flat")
    steep = kr.Curve(n[1::2], 0.1 * (n[1::2] / 90) ** -0.7, model="steep")
    both = kr.compare(flat, steep, 0.1)
    assert both.crossover is not None
    assert f"cross at about N = {both.crossover.n}" in both.explain()
    assert both.crossover.n == pytest.approx(90, rel=0.15)
