"""Comparisons: ratios in closed form, the paper's two factors, and what is said of both."""

import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

import korisk as kr
from korisk.curves.noise import paired_correlation
from korisk.planning import words
from korisk.planning.compare import WIDER
from pilots import KnownLaw, known_forecast, known_plan, released_h8

Array = NDArray[np.float64]
N = np.array([16, 32, 64, 128, 256, 512])
RATE = np.log(N) / N
KO, FC = (kr.Curve(N, a * N**-0.5, model=model) for a, model in ((0.5, "KO"), (1.0, "FC")))
SPREADS = (0.2, 0.3)


def compared(
    medians: tuple[float, float] = (4000, 16_000),
    reach: tuple[float, float] = (1.0, 1.0),
    curves: tuple[kr.Curve, kr.Curve] = (KO, FC),
    target: float = 0.01,
) -> kr.Comparison:
    """Two plans whose N are log-normal around their medians."""
    plans = (
        known_plan(curve, median, target, spread=spread, reach=share)
        for curve, median, spread, share in zip(curves, medians, SPREADS, reach, strict=True)
    )
    return kr.Comparison(*plans)


# --- Ratios --------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [4.0, 0.25, 1.02, 0.99, 40.0])
def test_the_ratio_of_two_lognormal_numbers_is_lognormal(factor: float) -> None:
    pair = compared((4000, 4000 * factor))
    assert pair.ratio is not None
    assert pair.ratio_range is not None
    deviation = math.hypot(0.2, 0.3)
    # Widened beyond pilots, as measured.
    ends = [factor * math.exp(score * WIDER * deviation) for score in ndtri([0.05, 0.95])]
    assert pair.ratio == (pair.second.even or 0) / (pair.first.even or 1)
    assert pair.ratio == pytest.approx(factor, rel=0.01)
    assert pair.ratio_range == pytest.approx(ends, rel=0.02)
    # The model that needs fewer is named first, with a factor above one, and how sure that is.
    saving, (low, high) = pair.saving(), pair.ratio_range
    names = ("KO", "FC") if factor > 1 else ("FC", "KO")
    low, high = (low, high) if factor > 1 else (1 / high, 1 / low)
    assert saving.startswith(names[0])
    assert f"(90% range: {words.times(low)} to {words.times(high)} times)" in saving
    ratio = words.times(max(pair.ratio, 1 / pair.ratio))
    alike = ratio == "1"
    assert ("about as many samples" in saving) == alike
    assert alike or f"{ratio} times fewer samples than {names[1]} for 0.01" in saving
    back = kr.Comparison(pair.second, pair.first)
    assert back.ratio == pytest.approx(1 / pair.ratio)
    assert back.ratio_range == pytest.approx([1 / end for end in pair.ratio_range[::-1]], rel=1e-6)
    assert alike or back.saving() == saving


@pytest.mark.parametrize(("reach", "known"), [(0.97, True), (0.93, False)])
def test_futures_without_an_answer_leave_an_end_open(reach: float, known: bool) -> None:
    """An end of the range is open where one in twenty futures has no answer."""
    forward, backward = compared(reach=(1.0, reach)), compared(reach=(reach, 1.0))
    assert forward.ratio_range is not None
    assert backward.ratio_range is not None
    assert 1 < forward.ratio_range[0] < 4 < forward.ratio_range[1]
    assert backward.ratio_range[0] < 4 < backward.ratio_range[1] < math.inf
    ends = math.isfinite(forward.ratio_range[1]), backward.ratio_range[0] > 0
    assert ends == (known, known)
    assert (compared(reach=(reach, reach)).ratio_range is not None) == known
    assert ("95% sure: at least " in forward.saving()) != known
    assert ("95% sure: at most " in backward.saving()) != known
    unclear = compared(reach=(reach, reach)).saving()
    assert ("is not clear" in unclear) != known


def test_a_model_without_an_answer_leaves_a_bound() -> None:
    """The second meets the target in four of ten futures: it needs at least its 5% quantile."""
    pair = compared(reach=(1.0, 0.4))
    assert (pair.second.even, pair.ratio, pair.likely) == (None, None, False)
    assert pair.ratio_range is not None
    least, most = pair.ratio_range
    assert most == math.inf
    assert 2.0 < least < 4.0
    saving = pair.saving()
    assert saving.startswith(f"KO needs at least {words.times(least)} times fewer samples than FC")
    assert "95% sure" in saving
    swapped = kr.Comparison(pair.second, pair.first)
    assert swapped.ratio_range == pytest.approx((0, 1 / least))
    assert swapped.saving() == saving
    assert compared(reach=(0.4, 0.4)).ratio_range is None
    for unknown in (compared(reach=(0.4, 0.4)), compared((4000, 1500), (1.0, 0.4))):
        assert "not known" in unknown.saving()


@pytest.mark.parametrize(("level", "rate"), [(0.001, 0.6), (0.001, 0.9), (1e-5, 0.6)])
def test_what_one_met_at_once_is_answered_for_the_other(level: float, rate: float) -> None:
    """Fewer than 4 might be enough for the first, so that the ratio has one end alone."""
    n = np.repeat([4, 16, 64, 256], 3)
    noise = np.tile([0.98, 1.0, 1.02], 4)
    flat = kr.Curve(n, level * noise, [1, 2, 3] * 4, "flat")
    steep = kr.Curve(n, 0.08 / n**rate * noise, [1, 2, 3] * 4, "steep")
    pair, back = kr.compare(flat, steep, 0.002), kr.compare(steep, flat, 0.002)
    assert pair.first.met_at_smallest
    assert (pair.first.even, pair.second.even) == (4, kr.plan(steep, 0.002).even)
    assert pair.ratio is not None
    assert pair.ratio_range is not None
    low, high = pair.ratio_range
    assert 0.9 * pair.second.lower / 4 <= low <= pair.ratio
    assert math.isinf(high)
    assert list(back.ratio_range or ()) == pytest.approx([0.0, 1 / low])
    for saving in (pair.saving(), back.saving()):  # of a bound the sure end alone is said
        goal = f"{words.at_least(low)} times fewer samples than steep for 0.002 (95% sure)."
        assert saving == f"flat needs at least {goal}"
    both = compared((3, 3), target=0.9)
    assert both.first.met_at_smallest
    assert (both.ratio, both.ratio_range) == (None, None)


def test_the_ratio_has_one_end_where_one_model_has_no_number() -> None:
    """0.06 is out of reach of a curve that levels off at 0.1; the other meets it at once."""
    n = np.repeat([4, 16, 64, 256], 3)
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal(n.size))
    good = kr.Curve(n, 0.03 * n**-0.1 * noise, [1, 2, 3] * 4, "good")
    stuck = kr.Curve(n, (0.1 + 1.0 / n) * noise, [1, 2, 3] * 4, "stuck")
    pair = kr.compare(good, stuck, 0.06)
    assert (pair.second.even, pair.ratio) == (None, None)
    assert pair.ratio_range is not None
    assert pair.ratio_range[0] >= 256 / 4  # missed at every measured N
    assert "good: 0.06 is met already at N = 4" in pair.explain()
    assert "stuck: unlikely to reach 0.06" in pair.explain()
    # What is far too easy for both is refused as ever.
    with pytest.raises(kr.KoriskError, match="worse than all that was measured"):
        kr.compare(good, stuck, 6.0)


@pytest.mark.parametrize("medians", [(600, 600), (600, 1e9), (500, 600), (600, 500)])
def test_beyond_the_pilots_forecasts_are_independent(medians: tuple[float, float]) -> None:
    assert compared(medians).together == 0


def noisy_pair(seeds: int = 4) -> tuple[kr.Curve, kr.Curve]:
    """Two pilots whose seeds are off by common factors."""
    rng = np.random.default_rng(0)
    shared, curves = 0.1 * rng.standard_normal((6, seeds)), []
    for factor, model in ((1, "KO"), (4, "FC")):
        scatter = np.exp(shared + 0.05 * rng.standard_normal((6, seeds)))
        errors = (factor / N[:, None] * scatter).ravel()
        curves.append(kr.Curve(np.repeat(N, seeds), errors, [*range(seeds)] * 6, model))
    return curves[0], curves[1]


def test_inside_the_pilots_shared_seeds_say_how_forecasts_err() -> None:
    first, second = noisy_pair()
    paired = paired_correlation(first, second)
    assert 0.3 < paired < 1
    assert kr.compare(first, second, 0.03).together == paired
    nameless = kr.Curve(N, 1.0 / N)
    assert paired_correlation(nameless, nameless) == 0


def test_parallel_curves_have_the_ratio_of_their_law_and_do_not_cross() -> None:
    pair = kr.compare(kr.Curve(N, 0.5 * N**-0.5), kr.Curve(N, 1.5 * N**-0.5), 0.05)
    assert pair.crossover is None
    assert "do not clearly cross" in pair.explain()
    assert pair.ratio == pytest.approx(9, rel=0.02)  # N^-1/2: three times the error
    assert pair.ratio_range is not None
    assert pair.ratio_range[0] < 9 < pair.ratio_range[1]


# --- What is said --------------------------------------------------------------------------------


def test_like_is_compared_with_like() -> None:
    mse, mae = (kr.Curve(N, RATE, metric=metric) for metric in ("MSE", "MAE"))
    with pytest.raises(kr.KoriskError, match="same metric"):
        kr.compare(mse, mae, 0.01)
    with pytest.raises(kr.KoriskError, match="same unit"):
        kr.compare(kr.Curve(N, RATE), kr.Curve(N, RATE, unit="rmse"), 0.01)


def test_equal_or_missing_names_are_first_and_second() -> None:
    bare = kr.Curve(N, RATE)
    assert kr.compare(KO, FC, 0.05).names == ("KO", "FC")
    for first, second in ((bare, bare), (KO, bare), (bare, KO), (KO, KO)):
        assert kr.compare(first, second, 0.05).names == ("first", "second")


def test_a_comparison_has_a_line_for_every_model_and_those_of_its_plans() -> None:
    pair = kr.compare(*noisy_pair(), 0.001)
    lines = pair.explain().split("\n")
    assert lines[0] == pair.saving()
    for name, plan in zip(pair.names, (pair.first, pair.second), strict=True):
        advice = plan.recommend()
        answer, step = words.parts(advice.sentence)
        (line,) = [line for line in lines if answer in line]
        assert advice.odds in line
        assert line.startswith(f"{name}: ")
        chosen = step.replace(words.NEXT, words.IF_CHOSEN)
        assert chosen in line or step.replace(":", f", with {name}:", 1) in lines[1]
    assert pair.crossing.explanation in lines
    assert (pair.record in lines) == (pair.record != "")
    full = pair.explain(full=True)
    assert all(text in full for plan in (pair.first, pair.second) for text in plan.findings)
    bare = [kr.Curve(N, a * N**-0.5) for a in (0.5, 1.0)]
    nameless = kr.compare(bare[0], bare[1], 0.02).explain()
    assert "samples are enough for 0.02" in nameless
    assert "second: " in nameless


def test_the_next_step_is_with_the_model_that_needs_fewer_samples() -> None:
    pair = kr.compare(released_h8("KO"), released_h8("FC"), 0.003)
    back = kr.Comparison(pair.second, pair.first)
    assert (pair.better, back.better) == (0, 1)
    step, first, other = pair.steps(0.8)
    assert step == "Do next, with KO: collect no more: the pilot has enough."
    assert str(pair.first.samples(0.8)) in first
    assert "Do next" not in first
    assert other.startswith("FC: ")
    assert back.steps(0.8) == [step, first, other]
    alike = kr.compare(released_h8("KO"), released_h8("KO").renamed("other"), 0.003)
    assert alike.better is None
    assert [line.partition(":")[0] for line in alike.steps()] == ["Do next", "KO", "other"]


def test_plain_values_have_both_plans() -> None:
    pair = kr.compare(released_h8("KO"), released_h8("FC"), 0.003)
    content = json.loads(json.dumps(pair.to_dict()))
    for name, plan in (("first", pair.first), ("second", pair.second)):
        plain = json.loads(json.dumps(plan.to_dict()))
        assert content[name] == {"name": plan.forecast.model, **plain}
    assert content["ratio"] == pair.ratio == (pair.second.even or 0) / (pair.first.even or 1)
    assert content["ratio_range"] == list(pair.ratio_range or ())
    assert content["saving"] == pair.saving()
    assert content["explanation"] == pair.explain(full=True)
    assert content["record"] == pair.record


def test_an_unreachable_target_is_told_by_the_name_of_the_model() -> None:
    rising = [0.05, 0.06, 0.08, 0.1, 0.2, 0.3]
    for model, name in (("FC", "FC"), ("", "second")):
        lines = kr.compare(KO, kr.Curve(N, rising, model=model), 0.02).explain().splitlines()
        assert any(line.startswith(f"{name}: not known") and "gets worse" in line for line in lines)


@pytest.mark.parametrize(("factor", "doubted"), [(150.0, True), (15.0, False), (1.5, False)])
def test_percent_beside_fractions_is_asked_about(factor: float, doubted: bool) -> None:
    n, errors = [8, 16, 32, 64], np.array([0.4, 0.3, 0.2, 0.15])
    known = kr.Curve(n, errors, model="KO")
    dense = kr.Curve(n, factor * errors, model="FC")
    for pair in ((known, dense), (dense, known)):
        comparison = kr.compare(*pair, target=0.1)
        for text in (comparison.explain(), comparison.saving()):
            # The question comes first: the number after it may be wrong.
            assert text.startswith("All errors of FC are above 1 and all of KO below") is doubted


def test_rehearsals_are_compared_like_pilots() -> None:
    forecasts = (
        known_forecast(curve, KnownLaw(0.01 * median), simulated=True)
        for curve, median in ((KO, 4000), (FC, 16_000))
    )
    pair = kr.Comparison(*(forecast.plan(0.01) for forecast in forecasts))
    assert pair.ratio == pytest.approx(4, rel=0.01)
    assert "KO needs 4 times fewer samples than FC" in pair.saving()
