"""Words on a plan change where its numbers say so, and not before."""

from dataclasses import replace

import pytest
from pilots import power_pilot

import korisk as kr
from korisk.curves import words


@pytest.fixture(scope="module")
def plan() -> kr.Plan:
    """A pilot from 16 to 512 and a target beyond it."""
    made = kr.plan(power_pilot(floor=0.0, noise=0.02), 0.012)
    assert made.samples is not None
    assert made.last == 512
    return replace(made, reach=0.99, lower=1000.0, upper=2000.0)


@pytest.mark.parametrize(
    ("p", "said"),
    [(0.0, "below 1%"), (0.0099, "below 1%"), (0.01, "1%"), (0.5, "50%"), (0.99, "99%"),
     (0.9901, "above 99%")],
)  # fmt: skip
def test_no_chance_is_called_certain(p: float, said: str) -> None:
    assert words.chance(p) == said


@pytest.mark.parametrize(
    ("factor", "said"),
    [(0.123, "0.12"), (9.44, "9.4"), (10, "10"), (12.3, "12"), (1236, "1,236")],
)
def test_factors_have_two_digits_where_these_are_few(factor: float, said: str) -> None:
    assert words.times(factor) == said


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (16, "already at the pilot's smallest"),
        (17, "within the pilot, at about N = 17"),
        (32, "within the pilot, at about N = 32"),
        (512, "within the pilot, at about N = 512"),
        (513, "needs about 513 samples, 1 times the pilot's largest N of 512."),
        (1536, "needs about 1,536 samples, 3 times the pilot's largest N of 512."),
    ],
)
def test_the_answer_says_where_it_lies(plan: kr.Plan, samples: int, said: str) -> None:
    assert said in words.headline(replace(plan, samples=samples))


@pytest.mark.parametrize(("samples", "far"), [(64 * 512, False), (64 * 512 + 1, True)])
def test_far_out_only_the_order_means_much(plan: kr.Plan, samples: int, far: bool) -> None:
    said = words.headline(replace(plan, samples=samples))
    assert ("order of magnitude" in said) == far


@pytest.mark.parametrize(
    ("reach", "doubt", "against"),
    [(0.951, False, False), (0.95, True, False), (0.5, True, False), (0.499, False, True)],
)
def test_doubt_grows_as_the_chance_falls(
    plan: kr.Plan, reach: float, doubt: bool, against: bool
) -> None:
    said = words.headline(replace(plan, samples=1000, reach=reach))
    assert ("if it can reach it at all" in said) == doubt
    assert ("probably does not reach" in said) == against


def test_an_end_is_told_where_there_is_one(plan: kr.Plan) -> None:
    said = words.explain(replace(plan, samples=1200))
    assert "With 90% certainty it is between 1,000 and 2,000" in said
    open_end = words.explain(replace(plan, samples=1200, upper=float("inf")))
    assert "It may be as few as 1,000, and there is no upper end" in open_end
    assert "levels off above the target" in open_end
    within = words.explain(replace(plan, samples=512))
    assert "certainty" not in within


def test_nine_in_ten_are_told_by_the_default_method_alone(plan: kr.Plan) -> None:
    told = "Of the futures that meet it"
    assert told in words.explain(replace(plan, samples=1200, upper=float("inf")))
    other = kr.plan(plan.curve, plan.target, method="power")
    assert told not in words.explain(replace(other, samples=1200, upper=float("inf"), lower=900.0))


@pytest.mark.parametrize(("samples", "said"), [(16, "at most 16"), (17, "about 17")])
def test_a_pilot_that_meets_the_target_at_once_may_need_fewer(
    plan: kr.Plan, samples: int, said: str
) -> None:
    first = replace(plan, samples=samples)
    told = words.comparison_headline(kr.Comparison(first, replace(plan, samples=1600)))
    assert f"first needs {said} samples and second about 1,600" in told
    assert ("or more" in told) == (samples == 16)
    assert f"a ratio of {words.times(1600 / samples)}" in told


def test_one_that_does_not_reach_the_target_is_told_apart(plan: kr.Plan) -> None:
    never = replace(plan, samples=None, reach=0.2)
    told = words.comparison_headline(kr.Comparison(replace(plan, samples=1600), never))
    assert "first reaches 0.012 with about 1,600 samples." in told
    assert "second does not reach 0.012 according to its pilot (chance 20%)." in told


def test_a_method_that_levels_off_says_where() -> None:
    curve = power_pilot(floor=0.1)
    for method in ("paper", "line"):
        told = words.headline(kr.plan(curve, 0.05, method=method))
        floor = kr.calibrate(curve, method).floor
        assert f"not reachable: its curve levels off at {floor:.4g}. " in told
        assert ("lowest error seen" in told) == (method == "paper")
        assert "By the default method the chance to meet it by N = 5,120,000 is" in told


def test_a_hard_target_is_questioned_in_a_sentence() -> None:
    told = words.headline(kr.plan(kr.Curve([16, 32, 64], [20.0, 15.0, 10.0]), 0.12))
    assert ". The pilot runs from 10 to 20: was the target given as a fraction of one?" in told
    assert told.endswith("then ask for 12.")


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (1024, "Collect up to N = 1,024, then plan again."),
        (2048, "Collect up to N = 2,048, then plan again."),
        (2049, "Do not collect it all at once: go to N = 2,048 first, four times the pilot"),
        (512, ""),
    ],
)
def test_what_to_collect_next(plan: kr.Plan, samples: int, said: str) -> None:
    told = words.explain(replace(plan, samples=samples))
    assert said in told
    assert ("ollect" in told) == bool(said)


def test_a_ratio_is_told_with_its_range() -> None:
    first, second = (
        kr.plan(power_pilot(floor=0.0, scale=scale, noise=0.02), 0.015) for scale in (0.4, 0.6)
    )
    compared = kr.Comparison(first, second)
    assert compared.ratio_range is not None
    low, high = (words.times(end) for end in compared.ratio_range)
    assert low != high
    assert f"(90%: {low} to {high}, if both do)." in words.comparison_headline(compared)
