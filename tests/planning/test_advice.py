"""Advice: which action, which number and which price, at every stated threshold."""

from dataclasses import replace

import numpy as np
import pytest

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.planning.chances import Chances
from korisk.planning.limits import Limit, Longer
from korisk.planning.recommend import collectable
from pilots import power_pilot


@pytest.fixture(scope="module")
def plan() -> kr.Plan:
    """A pilot up to N = 512 and a target at about 900."""
    return kr.plan(power_pilot(0.0, 0.5, 0.5, noise=0.02), 0.0167)


def answered(plan: kr.Plan, n: int, reach: float = 1.0) -> kr.Plan:
    """The plan with odds that jump to `reach` at n."""
    odds = Chances(np.array([16.0, n - 1.0, n, 1e6]), np.array([0.0, 0.0, reach, reach]))
    return replace(plan, chances=odds, reach=reach)


@pytest.mark.parametrize(("n", "action"), [(16 * 512, "collect"), (16 * 512 + 1, "measure")])
def test_numbers_are_given_up_to_sixteen_times_the_pilot(
    plan: kr.Plan, n: int, action: str
) -> None:
    made = answered(plan, n)
    assert collectable(made, n) == (action == "collect")
    advice = made.recommend(cost=3.0)
    assert advice.action == action
    if action == "collect":
        assert (advice.n, advice.chance, advice.cost) == (n, 1.0, 3.0 * (n - 512))
        assert "That is 16 times the pilot's largest N of 512." in advice.reasons
        assert f"{n - 512:,} more samples than the pilot's 512 cost" in advice.reasons[-1]
    else:
        assert (advice.n, advice.seeds) == (1024, 3)
        assert f"{n:,} samples would be enough with 90%, but lie more than 16" in advice.reasons[0]
        assert advice.cost == 3.0 * ((advice.n or 0) - 512)


@pytest.mark.parametrize(("reach", "action"), [(0.149, "stop"), (0.15, "measure")])
def test_below_fifteen_percent_the_search_ends(plan: kr.Plan, reach: float, action: str) -> None:
    made = answered(plan, 1000, reach)
    advice = made.recommend()
    assert advice.action == action
    assert ("will not reach 0.0167 (chance 15% by N = 5,120,000)" in advice.sentence) == (
        action == "stop"
    )
    single = kr.plan(power_pilot(0.0, 0.5, 0.5, noise=0.02, seeds=1), 0.0167)
    unlucky = answered(single, 1000, reach).recommend()
    assert (unlucky.action, unlucky.seeds) == ("measure", 3)
    assert ("single seeds cannot tell" in unlucky.sentence) == (reach < 0.15)


@pytest.mark.parametrize(
    ("kind", "action"),
    [("training", "train"), ("unknown", "collect"), ("data", "collect")],
)
def test_what_limits_the_error_comes_before_data(plan: kr.Plan, kind: str, action: str) -> None:
    made = answered(plan, 1000)
    longer = Longer(n=512, factor=3, errors=[0.01], before=[0.02])
    made = replace(made, longer=longer)
    made.__dict__["limit"] = Limit(kind, f"{kind} limits it.")
    assert made.recommend().action == action
    assert collectable(made, 1000) == (action == "collect")


def test_a_mean_that_meets_the_target_too_uncertainly_is_measured_again() -> None:
    """The first N from which on every mean meets it, with twice its seeds."""
    n = [16, 32, 64, 128]
    rows = {16: [0.5, 0.6], 32: [0.18, 0.3], 64: [0.21, 0.17], 128: [0.15, 0.23]}
    curve = kr.Curve(np.repeat(n, 2), [e for k in n for e in rows[k]], list("ab") * 4)
    made = kr.plan(curve, 0.2)
    assert made.met_in_pilot
    assert made.samples(0.9) is None or made.recommend().action == "collect"
    advice = replace(made, chances=Chances(np.array([16.0, 128.0]), np.array([0, 0.7]))).recommend()
    assert (advice.action, advice.n, advice.seeds) == ("measure", 64, 4)
    assert "easure N = 64 again, with 4 seeds: its mean meets 0.2" in advice.sentence
    below = replace(kr.plan(curve, 0.9), chances=Chances(np.array([16.0]), np.array([0.2])))
    assert below.recommend().n == 16


def test_far_easier_targets_and_the_largest_n_are_named() -> None:
    curve = power_pilot(0.0, 0.5, 0.5, noise=0.02)
    top = float(curve.means.max())
    for factor, easy in ((9.9, False), (10.1, True)):
        try:
            reasons = kr.plan(curve, factor * top).recommend().reasons
        except kr.KoriskError:  # plausible in another unit
            continue
        assert any("far better" in reason for reason in reasons) == easy
    n = [LARGEST_N // 8, LARGEST_N // 4, LARGEST_N // 2, LARGEST_N]
    made = kr.plan(kr.Curve(n, [0.4, 0.3, 0.22, 0.16]), 0.01)
    advice = made.recommend()
    assert advice.action == "unknown"
    assert advice.n is None
    assert "easier target" in " ".join(advice.reasons)
