"""Targets that look like another unit: every way in which they are meant, and the limits."""

import pytest

import korisk as kr
from korisk.curves.unit import UNITS
from korisk.planning.fit import other_unit, target_error

N = [16, 32, 64]


def _pilot(values: tuple[float, float, float], unit: str) -> kr.Curve:
    return kr.Curve(N, UNITS[unit].to_error(values), unit=unit)


@pytest.mark.parametrize(
    ("unit", "values", "target", "meant", "instead"),
    [
        ("error", (0.2, 0.15, 0.1), 12, "in percent", 0.12),
        ("error", (20, 15, 10), 0.12, "as a fraction of one", 12),
        ("error", (0.2, 0.15, 0.1), 0.88, "as a score of which larger is better", 0.12),
        ("error", (0.3, 0.2, 0.1), 0.95, "as a score of which larger is better", 0.05),
        ("error", (0.2, 0.15, 0.1), 88, "as a score in percent", 0.12),
        ("error", (2e-4, 1.5e-4, 1e-4), 40, "in decibels", 1e-4),
        ("error", (2e-6, 1.5e-6, 1e-6), 0.0012, "as a root of the metric", 1.44e-6),
        ("error", (0.05, 0.04, 0.03), 0.0016, "as a square of the metric", 0.04),
        ("negated", (-0.2, -0.15, -0.1), 0.15, "with the sign of an error", -0.15),
        ("accuracy", (0.8, 0.85, 0.9), 0.12, "as an error", 0.88),
        ("accuracy", (0.5, 0.6, 0.7), 0.006, "as a fraction of one", 0.6),
        ("percent", (80, 85, 90), 12, "as an error", 88),
        ("percent", (80, 85, 90), 0.85, "as a fraction of one", 85),
        ("psnr", (30, 32, 33), 1e-3, "as an error", 30),
    ],
)
def test_what_a_target_far_from_the_pilot_was_meant_as(
    unit: str, values: tuple[float, float, float], target: float, meant: str, instead: float
) -> None:
    said = other_unit(_pilot(values, unit), target)
    assert said.endswith(f"was the target given {meant}? then ask for {instead:.4g}")
    low, high = sorted((values[0], values[-1]))
    assert f"the pilot runs from {low:.4g} to {high:.4g}" in said


@pytest.mark.parametrize("target", [0.2, 0.1, 0.011, 0.21, 0.44])
def test_a_target_near_the_pilot_is_taken_at_its_word(target: float) -> None:
    curve = _pilot((0.2, 0.15, 0.1), "error")
    assert other_unit(curve, target) == ""
    assert target_error(curve, target) == target


def test_a_score_below_zero_may_be_a_little_worse() -> None:
    curve = _pilot((-1.0, -0.5, -0.2), "complement")
    assert other_unit(curve, -1.5) == ""
    assert target_error(curve, -1.5) == 2.5


def test_what_is_too_easy_is_refused_and_what_is_too_hard_is_not() -> None:
    curve = _pilot((0.2, 0.15, 0.1), "error")
    with pytest.raises(kr.KoriskError, match="target 12 is worse than all that was measured"):
        target_error(curve, 12)
    assert target_error(_pilot((20, 15, 10), "error"), 0.12) == 0.12
    with pytest.raises(kr.KoriskError, match="target must be a score below 1, got 88"):
        target_error(_pilot((0.8, 0.85, 0.9), "complement"), 88)
    with pytest.raises(kr.KoriskError, match="target must be an accuracy"):
        target_error(_pilot((0.8, 0.85, 0.9), "accuracy"), 88)
