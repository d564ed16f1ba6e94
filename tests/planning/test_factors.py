"""The two factors over targets, and the planner's ratios beside them."""

import math

import numpy as np
import pytest

import korisk as kr
from korisk.planning.factors import Factors, factors
from korisk.theory import RiskLine, two_factors

SIZES = np.array([16, 32, 64, 128, 256])
RATE = np.log(SIZES) / SIZES


def line(floor: float, slope: float, model: str) -> kr.Curve:
    """A pilot on a line floor + slope log N / N, with its floor measured at the last size."""
    means = floor + slope * RATE
    means[-1] = floor
    return kr.Curve(SIZES, means, model=model)


KNOWN, DENSE = line(0.01, 0.5, "KO"), line(0.02, 2.0, "FC")


@pytest.fixture(scope="module")
def over_targets() -> Factors:
    return factors(KNOWN, DENSE, name="point")


def slope(curve: kr.Curve) -> float:
    """The paper's slope: regression of error - floor on log N / N, without an intercept."""
    above = curve.means - curve.means.min()
    return float(above @ RATE / (RATE @ RATE))


def test_factors_are_those_of_the_papers_lines_from_just_above_the_floor_to_the_top(
    over_targets: Factors,
) -> None:
    low, top = 0.02, DENSE.means.max()
    assert over_targets.floors == (0.01, 0.02)
    assert over_targets.top == top
    assert (over_targets.name, over_targets.reason) == ("point", "")
    targets = [point.target for point in over_targets.factors]
    assert len(targets) == 33
    assert targets[0] == pytest.approx(low * 1.01)
    assert targets[-1] == pytest.approx(top)
    above = np.array(targets) / low - 1
    np.testing.assert_allclose(above[1:] / above[:-1], above[1] / above[0], rtol=1e-9)
    lines = RiskLine(0.01, slope(KNOWN)), RiskLine(0.02, slope(DENSE))
    for kind in ("structural", "approximation_budget", "product", "ratio"):
        expected = [getattr(two_factors(*lines, target), kind) for target in targets]
        np.testing.assert_allclose(over_targets.lines[kind], expected, rtol=1e-9)
    assert over_targets.lines.keys() == {"structural", "approximation_budget", "product", "ratio"}


def test_the_planner_answers_five_targets_above_the_floor(over_targets: Factors) -> None:
    goals = np.geomspace(1.02 * 0.02, 0.95 * over_targets.top, 5)
    expected = []
    for goal in goals:
        comparison = kr.compare(KNOWN, DENSE, goal)
        first, second = comparison.first, comparison.second
        if comparison.ratio is not None and not second.met_at_smallest:
            chance = min(first.chance or 0, second.chance or 0)
            expected.append((goal, comparison.ratio, chance, first.met_at_smallest))
    assert len(expected) >= 3
    assert {lower_bound for *_, lower_bound in expected} == {True, False}
    assert len(over_targets.planned) == len(expected)
    for answered, known in zip(over_targets.planned, expected, strict=True):
        assert answered == pytest.approx(known)


def test_nearly_equal_errors_leave_a_narrow_range_of_targets() -> None:
    """Never narrower than 1% above the floor, and no plan where nothing falls by 2%."""
    for top, widest in ((1.005, 0.01), (1.019, 0.019), (1.3, 0.3)):
        means = [top, 1.003, 1.002, 1.001, 1.0]
        narrow = factors(kr.Curve(SIZES, means, model="a"), kr.Curve(SIZES, means, model="b"))
        above = [point.target - 1 for point in narrow.factors]
        assert above[-1] == pytest.approx(widest)
        assert above[0] == pytest.approx(min(0.01, 0.1 * widest))
        if top < 1.02:
            assert narrow.planned == []


def test_a_factor_that_diverges_at_the_floor_is_capped() -> None:
    lines = Factors(
        name="",
        known=KNOWN,
        dense=DENSE,
        factors=[two_factors(RiskLine(0.01, 1.0), RiskLine(0.02, 3.0), 0.02 * (1 + 1e-15))],
        planned=(),
        reason="",
    ).lines
    assert lines["approximation_budget"].tolist() == [1e12]
    assert lines["product"].tolist() == [1e12]
    assert lines["structural"].tolist() == [3.0]


def test_without_two_falling_lines_a_reason_replaces_the_factors() -> None:
    flat = kr.Curve(SIZES, [0.1] * 5, model="flat")
    without = factors(KNOWN, flat)
    assert without.factors == ()
    assert without.name == ""
    assert without.reason.startswith("no factors: ")
    assert ";" not in without.reason
    assert len(without.reason) > len("no factors: ")
    single = factors(kr.Curve([16], [0.1]), kr.Curve([16], [0.2]))
    assert single.planned == []
    assert single.reason.startswith("no factors: ")
    assert math.isclose(single.top, 0.2)
