"""The law of the error from a rehearsal and a pilot: which of them it follows, and how surely."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from korisk.curves.noise import ONE_SEED
from korisk.errors import KoriskError
from korisk.planning.compare import Comparison
from korisk.planning.futures.law import Law
from korisk.planning.futures.posterior import posterior
from korisk.planning.futures.prior import PRIOR
from korisk.planning.pilot import Longer
from korisk.planning.plan import Forecast
from korisk.planning.words import SIMULATED_ALONE
from korisk.prediction.law import RehearsedLaw
from korisk.prediction.misfit import UNLIKE
from pilots import power_pilot

Array = NDArray[Any]

SIZES = 2.0 ** np.arange(2, 13)  # 4 to 4,096


def power(n: Array, floor: float = 0.02, scale: float = 0.5, rate: float = 0.5) -> Array:
    return np.asarray(floor + scale * np.asarray(n, float) ** -rate)


def rehearsal(
    errors: Array | None = None, sizes: Array = SIZES, *, level: float = 0.02, seeds: int = 2
) -> kr.Rehearsal:
    """Of a power law by default, with almost no noise."""
    means = power(sizes) if errors is None else errors
    spread = np.linspace(0.99, 1.01, seeds)
    curve = kr.Curve(
        np.tile(sizes, seeds),
        np.concatenate([factor * means for factor in spread]),
        np.repeat(range(seeds), len(sizes)),
        "FC",
        "mse",
    )
    return kr.Rehearsal(
        curve=curve,
        simulated="examples",
        unaltered=int(sizes[-1]),
        level=level,
        parameters=640,
        notes=("A note.",),
    )


PLAIN = rehearsal()
FLAT = power_pilot(0.3, 1e-9, noise=0.01)
STEEP = power_pilot(0.001, 40.0, 1.2, noise=0.02)


def law(made: kr.Rehearsal, pilot: kr.Curve | None = None) -> RehearsedLaw:
    source = made.forecast(pilot).source
    assert isinstance(source, RehearsedLaw)
    return source


def met(made: Forecast, n: list[float] | float, target: float) -> Array:
    sizes = np.atleast_1d(np.asarray(n, float))
    return made.law(sizes).under(np.full(len(sizes), math.log(target)))


def width(made: Forecast, n: int) -> float:
    then = made.at(n)
    return math.log(then.upper / then.lower)


def scaled(factor: float, *sizes: int) -> kr.Curve:
    """A pilot of two seeds that measured a multiple of the rehearsed curve."""
    errors = np.concatenate([factor * seed * power(np.array(sizes)) for seed in (0.99, 1.01)])
    return kr.Curve(np.tile(sizes, 2), errors, np.repeat([0, 1], len(sizes)), "FC")


@pytest.mark.parametrize("pilot", [None, scaled(1.2, 16, 32, 64), FLAT], ids=["no", "near", "far"])
def test_bands_hold_their_middle_and_are_quantiles_of_the_probability(
    pilot: kr.Curve | None,
) -> None:
    made = PLAIN.forecast(pilot)
    for n in (16, 500, 4000, 10**6):
        then = made.at(n)
        assert then.lower < then.value < then.upper
        for end, p in ((then.lower, 0.05), (then.value, 0.5), (then.upper, 0.95)):
            assert met(made, n, end)[0] == pytest.approx(p, abs=1e-3)


def test_without_a_pilot_it_is_the_simulated_curve() -> None:
    n = np.array([4.0, 64, 4096])
    assert law(PLAIN).quantile(n, 0.5) == pytest.approx(power(n), rel=1e-3)
    assert law(PLAIN).simulated(n) == pytest.approx(power(n), rel=1e-6)
    assert (law(PLAIN).trust, law(PLAIN).doubted) == (1.0, False)
    assert width(replace(PLAIN, level=0.5).forecast(), 64) > 3 * width(PLAIN.forecast(), 64)


def test_a_pilot_above_the_curve_lifts_it_far_beyond_its_sizes() -> None:
    pilot = scaled(1.15, 16, 32, 64)
    lifted = PLAIN.forecast(pilot)
    for n in (64, 512, 4096):
        assert lifted.at(n).value == pytest.approx(1.15 * power(np.array(n)), rel=0.06)
    assert not law(PLAIN, pilot).doubted
    assert "is within a factor of 1.2 of the rehearsal of FC" in " ".join(lifted.notes)


@pytest.mark.parametrize("pilot", [FLAT, STEEP], ids=["flat", "steep"])
def test_a_pilot_of_another_curve_is_followed_instead(pilot: kr.Curve) -> None:
    made = PLAIN.forecast(pilot)
    assert law(PLAIN, pilot).trust < 0.1
    assert law(PLAIN, pilot).doubted
    for n in (512, 2048):
        expected = posterior(pilot).quantile(np.array([float(n)]), 0.5)[0]
        assert made.at(n).value == pytest.approx(expected, rel=0.15)
    assert "contradicts the rehearsal of FC" in " ".join(made.notes)


def test_one_scale_between_all_errors_is_called_another_unit() -> None:
    for factor, words in ((3.2, "about 3.2 times"), (1 / 3.2, "about 0.3125 times")):
        notes = PLAIN.forecast(scaled(factor, 16, 64, 256)).notes
        assert f"{words} the simulated ones" in " ".join(notes)
    assert "another unit" not in " ".join(PLAIN.forecast(scaled(2.8, 16, 64, 256)).notes)


def test_two_sizes_move_the_curve_or_contradict_it() -> None:
    pilot = scaled(1.05, 16, 64)
    assert (law(PLAIN, pilot).tested, law(PLAIN, pilot).doubted) == (False, False)
    assert "cannot tell whether its shape is right" in " ".join(PLAIN.forecast(pilot).notes)
    assert law(PLAIN, scaled(10, 16, 64)).doubted


@pytest.mark.parametrize("share", [0.005, 0.995])
def test_short_pilots_doubt_what_happens_once_in_a_hundred(share: float) -> None:
    # Operator and noise are no assumption of what a pilot is held against.
    unassumed = replace(law(PLAIN, scaled(1.0, 16)), pilot=None)
    end = float(unassumed.quantile(np.array([16.0]), share)[0])
    for factor in (0.99, 1.01):
        outside = factor < 1 if share < 0.5 else factor > 1
        assert law(PLAIN, kr.Curve([16], [factor * end])).doubted == outside


def test_trust_is_three_to_one_times_how_much_better_the_rehearsal_explains_the_pilot() -> None:
    """Densities of K errors; the fitted curve's level is free in a width of four."""
    pilot = power_pilot(floor=0.03, noise=0.02)
    one = RehearsedLaw(curve=PLAIN.curve, unaltered=0, level=0.0, belief=UNLIKE, pilot=pilot)
    rival = posterior(pilot, replace(PRIOR, least_noise=0.01, noises=(ONE_SEED,)))
    (misfit,) = one._misfits_with(0.01)
    log_odds = misfit.evidence - rival.evidence
    log_odds += 0.5 * (len(pilot.sizes) - 1) * math.log(2 * math.pi) + math.log(4) + math.log(3)
    assert math.log(one.trust / (1 - one.trust)) == pytest.approx(log_odds)


def test_without_examples_the_pilot_decides_the_level() -> None:
    ellipses = replace(PLAIN, belief=UNLIKE, unaltered=0, population="random ellipses")
    pilot = scaled(2.0, 16, 32, 64, 128)
    near = ellipses.forecast(pilot).at(1024).value
    assert near == pytest.approx(2 * power(np.array(1024)), rel=0.2)
    assert law(ellipses, pilot).rivals
    one = ellipses.forecast(scaled(2.0, 16))
    assert width(one, 1024) > 2 * width(PLAIN.forecast(scaled(2.0, 16)), 1024)
    assert one.population == ""


def test_without_examples_and_pilot_it_is_of_simulated_images_and_promises_no_others() -> None:
    ellipses = replace(PLAIN, belief=UNLIKE, unaltered=0, population="random ellipses").forecast()
    assert width(ellipses, 64) == pytest.approx(width(PLAIN.forecast(), 64))
    advice, alike = (made.plan(0.1).recommend() for made in (ellipses, PLAIN.forecast()))
    assert (advice.action, advice.n) == (alike.action, alike.n)
    for sentence in (advice.sentence, ellipses.summary()):
        assert "on simulated images alone (random ellipses)" in sentence
    assert "simulated" not in alike.sentence
    # What would speak of real images is left out: their first measurement, and a record.
    assert (alike.reasons[-1] in advice.reasons, advice.record) == (False, SIMULATED_ALONE)
    pair = Comparison(ellipses.plan(0.1), ellipses.renamed("Other").plan(0.1))
    assert pair.saving().startswith("On simulated images alone (random ellipses): ")
    alike_pair = Comparison(PLAIN.forecast().plan(0.1), PLAIN.forecast().renamed("Other").plan(0.1))
    assert alike_pair.saving().startswith("Simulated: ")


def test_what_to_measure_for_an_unlikely_target_is_at_most_twice_what_was_rehearsed() -> None:
    outlook = PLAIN.forecast()
    hard = float(outlook.quantile([outlook.horizon], 0.03).item())  # no N has a chance of 5%
    advice = outlook.plan(hard).recommend()
    assert (advice.action, advice.n) == ("unlikely", 2 * outlook.last)
    assert f"measure N = {2 * outlook.last:,} with 3 seeds" in advice.sentence


def test_beyond_the_rehearsal_its_fall_comes_or_does_not() -> None:
    """With even odds; and what was met at its end stays met."""
    cut = rehearsal(sizes=2.0 ** np.arange(2, 8)).forecast()
    (end,), _ = met(cut, [128.0], 0.06), None
    far = met(cut, [1e4], 0.04)[0]
    assert met(cut, [128.0], 0.04)[0] < 0.05
    assert 0.3 < far <= 0.55
    assert met(cut, [1e4], 0.06)[0] >= end - 1e-9
    assert cut.plan(0.03).upper == math.inf


@pytest.mark.parametrize("sizes", [[128], [32, 64, 128, 256, 512]])
def test_no_error_is_below_what_was_measured_beyond_the_rehearsal(sizes: list[int]) -> None:
    """A curve of 1 / N against a pilot that stays at 1 / 20, whose later sizes it does not see."""
    pilot = kr.Curve(np.repeat(sizes, 2), [0.0495, 0.0505] * len(sizes), ["a", "b"] * len(sizes))
    n = 2.0 ** np.arange(2, 7)
    short = rehearsal(1 / n, n)
    assert met(short.forecast(), [60.0], 0.04)[0] > 0.85
    told = short.forecast(pilot)
    assert met(told, [4, 30, 60, 128], 0.04).max() < 0.01
    assert told.plan(0.04).lower >= 128


def test_smaller_targets_need_more() -> None:
    for made in (PLAIN.forecast(), PLAIN.forecast(scaled(1.1, 16, 32, 64))):
        plans = [made.plan(target) for target in (0.2, 0.1, 0.06, 0.04)]
        sizes = [plan.even or 0 for plan in plans]
        assert sizes == sorted(set(sizes))
        for plan in plans:
            assert plan.even is not None
            assert plan.lower <= plan.even <= plan.upper
            before, here = met(made, [plan.even - 1, plan.even], plan.target)
            assert before - 0.01 < 0.5 < here + 0.01


def test_the_smallest_size_and_targets_out_of_reach() -> None:
    easy, hard = (PLAIN.forecast().plan(target) for target in (50.0, 1e-4))
    assert (easy.even, easy.lower, easy.upper) == (4, 4.0, 4.0)
    assert (hard.even, hard.lower, hard.upper) == (None, math.inf, math.inf)
    assert hard.recommend().action == "stop"
    written = hard.to_dict()
    assert set(written["samples"].values()) == {None}
    assert written["lower"] is written["upper"] is None


@pytest.mark.parametrize(
    ("reach", "even", "lower", "upper"),
    [
        (1.0, 0.5, 0.05, 0.95),
        (0.94, 0.5, 0.05, None),  # the last in twenty never get there
        (0.49, None, 0.05, None),
        (0.04, None, None, None),
    ],
)
def test_sizes_are_read_off_the_chances(
    monkeypatch: pytest.MonkeyPatch,
    reach: float,
    even: float | None,
    lower: float | None,
    upper: float | None,
) -> None:
    """Each has its level, where chances grow with log N to one at a million, or to `reach`."""

    def even_odds(self: RehearsedLaw, n: Array) -> Law:
        p = np.asarray(np.minimum(np.log(n) / math.log(1e6), reach))
        return Law(lambda error: p, np.zeros(len(n)), np.ones(len(n)))

    made = rehearsal().forecast()  # a new one: others keep their laws
    monkeypatch.setattr(RehearsedLaw, "law", even_odds)
    found = made.plan(0.3)
    told = found.to_dict() | {"even": found.even}
    for name, level in (("even", even), ("lower", lower), ("upper", upper)):
        assert told[name] == (None if level is None else pytest.approx(1e6**level, abs=4))
    assert found.reach == reach


def test_targets_are_above_zero_and_pilots_in_a_metric_of_rehearsals() -> None:
    for target in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(KoriskError, match="target must be"):
            PLAIN.forecast().plan(target)
    for n in (0, 3, math.nan, "many"):
        with pytest.raises(KoriskError, match="n must be"):
            PLAIN.forecast().at(n)  # type: ignore[arg-type]
    others = [("accuracy", "accuracy"), ("relative", "error"), ("", "percent")]
    for metric, unit in (*others, ("nrmse", "rmse"), ("mse", "error_percent")):
        pilot = kr.Curve([4, 8, 16], [0.5, 0.7, 0.8], metric=metric, unit=unit)
        with pytest.raises(KoriskError, match=r"mse, rmse, nmse, psnr, and the pilot is of"):
            PLAIN.forecast(pilot)
    with pytest.raises(KoriskError, match="pilot must be a korisk Curve"):
        PLAIN.forecast([0.1, 0.2])  # type: ignore[arg-type]


def test_a_rehearsal_alone_names_the_measurement_that_checks_it_and_its_notes() -> None:
    made = PLAIN.forecast()
    check = made.at(16)
    advice = made.plan(0.1).recommend().reasons[-1]
    for fact in (f"N = 16: expect {check.value:.4g}", f"{check.lower:.4g} to {check.upper:.4g}"):
        assert fact in advice
    assert "A note." in made.notes
    assert (made.basis, made.measured) == ("rehearsal", 0)
    both = PLAIN.forecast(scaled(1.0, 16, 32, 64))
    assert (both.basis, both.measured) == ("both", 64)
    assert "N = 16" not in " ".join(both.plan(0.1).recommend().reasons)


def test_the_ratio_of_two_rehearsals_counts_their_images_once() -> None:
    """What few test images leave open of the level moves both curves alike."""
    n = SIZES
    first, second = rehearsal(level=0.2), rehearsal(power(n / 3), level=0.2)
    other = replace(second, simulated="other images")
    target = float(power(np.array(64)))

    def ends(made: kr.Rehearsal) -> tuple[float, float]:
        pair = Comparison(first.forecast().plan(target), made.forecast().plan(target))
        assert pair.ratio == pytest.approx(3, rel=0.05)
        assert pair.ratio_range is not None
        return pair.ratio_range

    (low, high), (lowest, highest) = ends(second), ends(other)
    assert lowest < low < 3 < high < highest
    assert math.log(high / low) < 0.7 * math.log(highest / lowest)


METRICS = {"mse": 1.0, "rmse": 1.0, "nmse": 0.3, "psnr": 25.0}  # mean squared errors that are one


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_gives_the_same_answer_in_its_unit(metric: str) -> None:
    made = replace(PLAIN, power=0.3, data_range=5.0)
    unit = {"rmse": kr.curves.UNITS["rmse"], "psnr": kr.curves.UNITS["psnr"]}.get(metric)
    to_unit = unit.from_error if unit else np.copy
    other, factor = made.in_metric(metric), 1 / METRICS[metric]
    pilot = scaled(1.2, 16, 32, 64)
    values = to_unit(factor * pilot.error)
    in_unit = kr.Curve(pilot.n, values, pilot.seed, "FC", metric, unit or "error")
    for measured, the_same in ((None, None), (pilot, in_unit), (pilot, pilot)):
        squares, forecast = made.forecast(measured), other.forecast(the_same)
        assert (forecast.metric, forecast.unit.larger_is_better) == (metric, metric == "psnr")
        plan = forecast.plan(float(to_unit(factor * 0.05)))
        assert plan.samples() == squares.plan(0.05).samples()
        assert to_unit(factor * squares.at(512).value) == pytest.approx(forecast.at(512).value)
    assert other.in_metric("mse").curve.error == pytest.approx(made.curve.error)
    peak = other.in_metric("psnr", data_range=50.0).curve.means
    assert peak == pytest.approx(made.curve.means / 2500)


def test_a_network_that_longer_training_improves_comes_first_in_what_to_do_next() -> None:
    dense = rehearsal(power(SIZES, scale=50))
    last = float(dense.curve.means[-1])
    more = Longer(n=int(SIZES[-1]), factor=2, errors=[0.5 * last], before=[last])
    target = 0.7 * last
    for other, first in ((dense, 0), (replace(dense, longer=more), 1)):
        pair = Comparison(PLAIN.forecast().plan(target), other.forecast().plan(target))
        assert pair.better == first
    assert "train 2 times as long" in pair.steps()[0]
