"""The targets of a page's slider: from the easiest to the hardest, evenly, and round ones."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from korisk.curves.noise import ROUNDING
from korisk.planning.targets import STOPS, Group

Array = NDArray[np.float64]

SIZES = [16, 32, 64, 128]
MEANS = np.array([0.217391, 0.131313, 0.0234567, 0.0171717])


def errors(values: Array, asked: float | None = None) -> Array:
    """The stops of a page of one curve, as errors."""
    curve = kr.Curve(SIZES[: len(values)], values)
    stops = Group.of_curves("pilot", [curve], requested=asked).stops
    assert len(stops) == len(set(stops))
    return np.array(stops)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 300.0])
def test_stops_run_from_half_beyond_the_worst_mean_to_what_futures_reach(scale: float) -> None:
    """No gap is wider than one of the evenly spaced ones, rounding aside."""
    stops = errors(scale * MEANS)
    assert np.all(np.diff(stops) < 0), "from the easiest to the hardest"
    assert stops[0] == pytest.approx(1.5 * scale * MEANS[0], rel=1e-3)
    assert 0.049 <= stops[-1] / (scale * MEANS[-1]) <= 0.71
    widest = math.log(stops[0] / stops[-1]) / (STOPS - 1)
    assert np.diff(-np.log(stops)).max() <= widest + 0.002
    assert STOPS <= len(stops) <= 3 * STOPS


def test_the_stops_of_several_models_cover_those_of_each() -> None:
    curves = [kr.Curve(SIZES, factor * MEANS, model=str(factor)) for factor in (1.0, 30.0)]
    group = Group.of_curves("pilot", curves)
    alone = [Group.of_curves("pilot", [curve]).stops for curve in curves]
    assert group.stops[0] == pytest.approx(max(stops[0] for stops in alone), rel=1e-3)
    assert group.stops[-1] == pytest.approx(min(stops[-1] for stops in alone), rel=1e-3)
    for plans, forecast in zip(group.answers, group.forecasts, strict=True):
        assert [plan.target for plan in plans] == group.stops
        target = group.target
        plan = plans[group.stops.index(target)]
        assert plan.samples() == forecast.plan(target).samples()


@pytest.mark.parametrize("asked", [0.0123456, 1.2345678e-5])
def test_the_target_that_is_asked_for_is_a_stop_however_hard(asked: float) -> None:
    assert asked in errors(MEANS, asked)


def test_no_stop_lies_below_half_of_rounding() -> None:
    assert errors(np.array([3.0, 0.3, 1e-16]))[-1] >= 0.499 * 3.0 * ROUNDING


@pytest.mark.parametrize(
    ("unit", "scores", "typed"),
    [
        ("error", MEANS, [0.2, 0.1, 0.05, 0.025, 0.018, 0.015]),
        ("rmse", np.sqrt(MEANS), [0.5, 0.4, 0.3, 0.2, 0.15, 0.12]),
        ("negated", -MEANS, [-0.2, -0.05, -0.02, -0.015]),
        ("psnr", -10 * np.log10(MEANS), [5.0, 8.0, 13.0, 17.0, 19.0]),
        ("accuracy", 1 - MEANS, [0.7, 0.75, 0.8, 0.93, 0.97, 0.985]),
        ("percent", 100 - 100 * MEANS, [70.0, 75.0, 80.0, 93.0, 97.0, 98.5]),
    ],
)
def test_round_targets_that_people_type_are_stops(
    unit: str, scores: Array, typed: list[float]
) -> None:
    curve = kr.Curve(SIZES, scores, unit=unit)
    assert set(typed) <= set(Group.of_curves("pilot", [curve]).stops)
