"""The targets of a page's slider: from the easiest to the hardest, evenly, and round ones."""

import math
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

import korisk as kr
from korisk.curves.noise import ROUNDING
from korisk.planning.futures.law import Law, normals
from korisk.planning.measured import Measured
from korisk.planning.targets import plans_over_targets
from pilots import known_forecast

Array = NDArray[np.float64]

SIZES = [16, 32, 64, 128]
MEANS = [0.217391, 0.131313, 0.0234567, 0.0171717]
NOISE = 0.03


@dataclass(frozen=True)
class Hardest(Measured):
    """The pilot's means with a known deviation; at the horizon, the hardest error."""

    hardest: float
    floor = 0.0

    def law(self, n: Array) -> Law:
        """An error that is met at the horizon with a probability of 1%."""
        assert n.tolist() == [5_000]
        deviation = 1e-9
        mean = np.full((1, 1), math.log(self.hardest) - norm.ppf(0.01) * deviation)
        return normals(np.ones(1), mean, np.full((1, 1), deviation))


def asked(
    monkeypatch: pytest.MonkeyPatch,
    curve: kr.Curve,
    hardest: float,
    exactly: tuple[float, ...] = (),
) -> tuple[list[float], list[float]]:
    """The errors of the stops and of the other targets, as they are planned, in their order."""

    def bare_plan(outlook: kr.Forecast, target: float) -> SimpleNamespace:
        assert outlook.curve is curve
        return SimpleNamespace(target=target, goal=float(curve.unit.to_error(target)))

    monkeypatch.setattr("korisk.planning.targets.Plan", bare_plan)
    sizes = np.array([*curve.sizes.tolist(), 5_000.0])
    outlook = known_forecast(curve, Hardest(curve, NOISE, hardest), sizes=sizes)
    plans, places = plans_over_targets(outlook, exactly)
    assert [plan.goal for plan in plans] == sorted((plan.goal for plan in plans), reverse=True)
    assert places == sorted(set(places))
    stops = [plans[place].target for place in places]
    return stops, [plan.target for place, plan in enumerate(plans) if place not in places]


def even_stops(edges: list[float]) -> list[float]:
    """About 80 errors: as many in every gap as its fall, which counts up to a factor of 16."""
    falls = [min(math.log(high / low), math.log(16)) for high, low in pairwise(edges)]
    errors = [edges[-1]]
    for (high, low), fall in zip(pairwise(edges), falls, strict=True):
        number = math.ceil(80 * fall / sum(falls))
        errors += [high * (low / high) ** (step / number) for step in range(number)]
    return errors


def round_numbers(low: float, high: float) -> set[float]:
    """Round numbers from low to high: thirteen per decade, or three over more than four."""
    fine = ["1", "1.2", "1.5", "1.8", "2", "2.5", "3", *"456789"]
    mantissas = fine if high / low <= 1e4 else ["1", "2", "5"]
    numbers = {float(f"{m}e{power}") for m in mantissas for power in range(-20, 5)}
    return {number for number in numbers if low <= number <= high}


@pytest.mark.parametrize(
    ("hardest", "low"), [(1e-9, 0.05), (0.2, 0.2), (0.69, 0.69), (0.71, 0.7), (5.0, 0.7)]
)
def test_stops_run_evenly_from_half_beyond_the_worst_mean_to_the_hardest_error(
    monkeypatch: pytest.MonkeyPatch, hardest: float, low: float
) -> None:
    """The hardest is what futures reach, between 5% and 70% of the last mean."""
    curve = kr.Curve(SIZES, MEANS)
    stops, _ = asked(monkeypatch, curve, hardest * MEANS[-1])
    last, first = low * MEANS[-1], 1.5 * MEANS[0]
    even = {float(f"{error:.4g}") for error in even_stops([first, *MEANS, last])}
    assert set(stops) == even | round_numbers(last, first)
    assert 80 <= len(even) <= 86


def test_a_wide_gap_gets_no_more_stops_than_one_of_a_factor_of_16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    means = [0.217391, 0.19191, 1.71717e-5]
    stops, _ = asked(monkeypatch, kr.Curve(SIZES[:3], means), 1e-6)
    last, first = 1e-6, 1.5 * means[0]
    even = {float(f"{error:.4g}") for error in even_stops([first, *means, last])}
    assert set(stops) == even | round_numbers(last, first)
    assert {0.05, 0.02} <= set(stops), "three round numbers in every decade"
    assert not {0.03, 0.025} & set(stops), "of more than four"


@pytest.mark.parametrize("decades", [3.99, 4.01])
def test_over_more_than_four_decades_round_numbers_are_fewer(
    monkeypatch: pytest.MonkeyPatch, decades: float
) -> None:
    high = 1.5 * MEANS[0]
    low = high / 10**decades  # 5% of the last mean, unless futures end before
    stops, _ = asked(monkeypatch, kr.Curve(SIZES[:3], [*MEANS[:2], 20 * low]), 1e-9)
    assert (3e-4 in stops) == (decades < 4)
    assert {5e-4, 0.02, 0.1} <= round_numbers(low, high) <= set(stops)


def test_no_stop_lies_below_half_of_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    means = [3.0, 0.3, 1e-16]
    stops, others = asked(monkeypatch, kr.Curve(SIZES[:3], means), 1e-30)
    assert min(stops) == pytest.approx(0.5 * ROUNDING * 3.0, rel=1e-3)
    assert min(others) == pytest.approx(1e-16), "the mean itself is a target all the same"


def test_means_that_stay_met_are_targets_and_so_is_what_lies_just_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not the mean of 0.05, above which the pilot rises again; and three at the first size."""
    curve = kr.Curve([16, 32, 64, 128, 256], [0.4, 0.05, 0.2, 0.1, 0.03])
    _, others = asked(monkeypatch, curve, 1e-4)
    means = [0.4, 0.2, 0.1, 0.03]
    first = [0.4 * math.exp(NOISE * norm.ppf(p)) for p in (0.8, 0.95, 0.995)]
    expected = [*means, *(mean * (1 - 1e-9) for mean in means), *first]
    # Means that are round numbers are stops themselves.
    expected = [error for error in expected if error not in means]
    np.testing.assert_allclose(others, sorted(expected, reverse=True), rtol=2e-7)
    below = [error for error in others if any(0 < mean - error < 1e-6 * mean for mean in means)]
    np.testing.assert_allclose(
        [1 - error / mean for error, mean in zip(below, means, strict=True)], 1e-9, rtol=1e-5
    )


def test_of_many_means_sixteen_are_targets_the_first_and_the_last_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = np.arange(10, 50)
    means = 3.14159 * sizes**-0.7123456
    _, others = asked(monkeypatch, kr.Curve(sizes, means), 1e-4)
    exact = [mean for mean in means if mean in others]
    assert len(exact) == 16
    assert {means[0], means[-1]} <= set(exact)
    places = np.array([means.tolist().index(mean) for mean in exact])
    assert set(np.diff(places)) == {2, 3}, "spread over the pilot"


@pytest.mark.parametrize("unit", ["psnr", "log10", "log2", "ln", "error_db"])
def test_of_logarithms_whole_numbers_are_round(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    errors = np.array(MEANS)
    curve = kr.Curve(SIZES, kr.curves.UNITS[unit].from_error(errors), unit=unit)
    stops, _ = asked(monkeypatch, curve, 1e-4)
    low, high = 0.05 * errors[-1], 1.5 * errors[0]
    convert = curve.unit.to_error
    whole = {float(n) for n in range(-60, 60) if low <= float(convert(float(n))) <= high}
    even = {round(float(curve.unit.from_error(e)), 2) for e in even_stops([high, *errors, low])}
    assert set(stops) == whole | even
    assert len(whole) > 1


@pytest.mark.parametrize(("unit", "best"), [("accuracy", 1.0), ("percent", 100.0)])
def test_of_scores_every_percent_is_round_and_near_the_best_every_round_error(
    monkeypatch: pytest.MonkeyPatch, unit: str, best: float
) -> None:
    errors = best * np.array(MEANS)
    curve = kr.Curve(SIZES, kr.curves.UNITS[unit].from_error(errors), unit=unit)
    stops, _ = asked(monkeypatch, curve, 1e-4 * best)
    low, high = 0.05 * errors[-1], 1.5 * errors[0]
    percents = {best * step / 100 for step in range(1, 100)}
    near = {best - error for error in round_numbers(low, high) if error < 0.1 * best}
    fitting = [score for score in percents | near if low <= best - score <= high]
    even = [best - float(f"{error:.3g}") for error in even_stops([high, *errors, low])]
    expected = {float(f"{score:.12g}") for score in [*fitting, *even]}
    assert set(stops) == expected
    assert {float(f"{best * score:.12g}") for score in (0.9985, 0.93, 0.92)} <= expected


def test_of_roots_and_negated_errors_round_values_are_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roots = kr.Curve(SIZES, np.sqrt(MEANS), unit="rmse")
    low, high = 0.05 * MEANS[-1], 1.5 * MEANS[0]
    stops, _ = asked(monkeypatch, roots, 1e-9)
    even = {float(f"{math.sqrt(error):.4g}") for error in even_stops([high, *MEANS, low])}
    assert set(stops) == even | round_numbers(math.sqrt(low), math.sqrt(high))
    negated = kr.Curve(SIZES, [-mean for mean in MEANS], unit="negated")
    stops, _ = asked(monkeypatch, negated, 1e-9)
    even = {-float(f"{error:.4g}") for error in even_stops([high, *MEANS, low])}
    assert set(stops) == even | {-number for number in round_numbers(low, high)}


def test_a_target_that_looks_like_another_unit_is_answered_only_if_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An accuracy of 0.005 in a pilot from 0.1 on is refused: 0.5 was probably meant."""
    curve = kr.Curve(SIZES, [0.1, 0.3, 0.6, 0.9], unit="accuracy")
    stops, _ = asked(monkeypatch, curve, 0.01)
    refused = [score for score in stops if 0 < score < 0.01]
    assert not refused
    assert min(stops) < 0, "an error of 1.35"
    with pytest.raises(kr.KoriskError, match="fraction of one"):
        kr.plan(curve, 0.005)
    stops, others = asked(monkeypatch, curve, 0.01, (0.005, 0.654321))
    assert {0.005, 0.654321} <= set(stops)
    assert not {0.005, 0.654321} & set(others)


def test_plans_over_targets_are_those_of_the_forecast() -> None:
    forecast = kr.forecast(kr.Curve(SIZES, MEANS))
    plans, stops = plans_over_targets(forecast, [0.0123])
    assert 0.0123 in [plans[stop].target for stop in stops]
    for plan in plans[::40]:
        alone = forecast.plan(plan.target)
        assert (plan.samples(), plan.interval) == (alone.samples(), alone.interval)
    n = np.array([50.0, 500.0])  # no sizes of the table
    singly = [forecast.met(n[k : k + 1], 0.02)[0] for k in range(2)]
    np.testing.assert_allclose(forecast.met(n, 0.02), singly)
