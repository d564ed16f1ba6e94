"""Where to measure next: laws of information, and agreement with what measuring there then does."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from korisk.curves.noise import relative_variance
from korisk.planning.forecast import forecast
from korisk.planning.next_size import NextSize, Outlook, next_size, open_sizes
from pilots import power_pilot, scaled

Array = NDArray[np.float64]

TARGET = 0.035  # of a curve 0.02 + 0.5 N^-0.5, whose pilot ends at N = 512, 0.042
CANDIDATES = [64, 512, 724, 1448]


def narrowing(curve: kr.Curve, target: float = TARGET, **options: Any) -> Array:
    found = next_size(curve, target, **({"candidates": CANDIDATES} | options))
    return np.array([each.narrowing for each in found.candidates])


def test_no_noise_and_more_seeds_narrow_more() -> None:
    pilot = power_pilot()
    where = [64, 724, 1448]
    one, five, many = (narrowing(pilot, seeds=k, candidates=where) for k in (1, 5, 500))
    exact = narrowing(pilot, noise=0.0, candidates=where)
    slack = 0.06  # intervals are read off a few outcomes
    assert (five >= one - slack).all()
    assert (many >= five - slack).all()
    assert (exact >= many - slack).all()
    assert (five > one + 0.03)[1:].all()  # and it matters beyond the pilot
    endless = narrowing(pilot, seeds=100_000, candidates=where)
    np.testing.assert_allclose(endless, exact, atol=0.01)


def test_noise_and_seeds_are_one_thing() -> None:
    pilot = power_pilot()
    np.testing.assert_allclose(
        narrowing(pilot, noise=0.1, seeds=16), narrowing(pilot, noise=0.05, seeds=4), rtol=1e-9
    )


def test_endless_noise_tells_nothing() -> None:
    assert np.abs(narrowing(power_pilot(), noise=1e4)).max() < 0.01


def test_the_noise_is_the_pilots() -> None:
    pilot = power_pilot(noise=0.05, seeds=40)
    variance = relative_variance(pilot)
    assert variance is not None
    known = math.sqrt(float(np.mean(variance * 40)))
    assert known == pytest.approx(0.05, rel=0.2)
    same = narrowing(pilot, noise=known, seeds=40, candidates=[1024])
    np.testing.assert_allclose(narrowing(pilot, candidates=[1024]), same, rtol=1e-9)


def test_a_size_that_is_known_well_narrows_least() -> None:
    calm = power_pilot(noise=0.002, seeds=20)
    found = narrowing(calm, seeds=5)
    assert found[:2].max() < 0.1 * found[2:].max()  # 64 and 512 have twenty seeds


def test_the_suggestion_is_the_best_candidate_and_costs_change_it() -> None:
    pilot = power_pilot()
    found = next_size(pilot, TARGET, candidates=CANDIDATES)
    best = max(found.candidates, key=lambda each: each.narrowing)
    assert (found.n, found.expected, found.narrowing) == (best.n, best.expected, best.narrowing)
    assert found.seeds == 5
    for each in found.candidates:
        assert each.cost is None
        assert each.narrowing == pytest.approx(math.log2(found.now / each.expected), abs=1e-9)
    paid = next_size(pilot, TARGET, candidates=CANDIDATES, cost=lambda n: n**3)
    worth = {each.n: each.narrowing / (5 * each.n**3) for each in paid.candidates}
    assert paid.n == max(worth, key=lambda n: worth[n])
    assert paid.n < found.n
    assert [each.cost for each in paid.candidates] == [5 * n**3 for n in CANDIDATES]
    assert [each.narrowing for each in paid.candidates] == [
        each.narrowing for each in found.candidates
    ]


def test_the_width_now_is_the_plans() -> None:
    """Well beyond the pilot; inside and near it, plans go by the measured means."""
    calm = power_pilot(noise=0.002, seeds=20)
    for target in (0.037, TARGET):
        plan = kr.plan(calm, target)
        assert math.isfinite(plan.upper)
        found = next_size(calm, target, candidates=[1024])
        assert math.log(found.now) == pytest.approx(math.log(plan.upper / plan.lower), abs=0.08)
        assert found.counted_to is None
    pilot = power_pilot()
    harder = 0.8 * TARGET
    plan = kr.plan(pilot, harder)
    assert plan.upper == math.inf
    found = next_size(pilot, harder, candidates=[1024])
    assert found.counted_to == plan.near_horizon
    assert math.log(found.now) == pytest.approx(math.log(plan.near_horizon / plan.lower), abs=0.08)


@pytest.mark.parametrize(
    ("n", "target", "ratio"),
    [(181, 0.038, 1.15), (724, 0.035, 1.35)],  # within the pilot it is the same model
)
def test_widths_after_an_outcome_are_those_of_a_plan_with_it(
    n: int, target: float, ratio: float
) -> None:
    """For targets that lie beyond the pilot also when it has grown."""
    pilot = power_pilot(noise=0.02)
    made = forecast(pilot)
    end = kr.plan(pilot, target).near_horizon
    outlook = Outlook(made, target, end)
    variance = outlook.seed_variance() / 5
    means = [factor * (0.02 + 0.5 * n**-0.5) for factor in (0.99, 1.0)]
    found = outlook.widths_after(n, variance, outcomes=np.log(means))
    for mean, width in zip(means, found, strict=True):
        scatter = np.exp(0.02 * np.array([-1.2, -0.6, 0.0, 0.6, 1.2]))  # like the pilot's
        errors = mean * scatter / scatter.mean()
        plan = kr.plan(pilot.merged(kr.Curve([n] * 5, errors, list("01234"))), target)
        real = math.log(min(plan.upper, end) / min(plan.lower, end))
        assert 1 / ratio < width / real < ratio


def test_scale_names_and_order_change_nothing() -> None:
    pilot = power_pilot()
    found = narrowing(pilot)
    np.testing.assert_allclose(narrowing(scaled(pilot, 0.125), TARGET / 8), found, atol=1e-6)
    renamed = kr.Curve(pilot.n, pilot.error, [f"run {seed}" for seed in pilot.seed])
    assert (narrowing(renamed, candidates=reversed(CANDIDATES)) == found).all()


def test_units_are_the_users() -> None:
    pilot = power_pilot()
    pilot = kr.Curve(pilot.n, pilot.error, pilot.seed, metric="error rate")
    scores = kr.Curve.of_errors(pilot.n, pilot.error, pilot.seed, unit="accuracy")
    asked: dict[str, Any] = {"candidates": [724]}
    expected = narrowing(pilot, **asked)
    np.testing.assert_allclose(narrowing(scores, 1 - TARGET, **asked), expected, atol=1e-9)


def test_a_single_seed_leaves_the_noise_open_and_still_gives_an_answer() -> None:
    found = next_size(power_pilot(seeds=1), TARGET, candidates=[1024])
    assert found.seeds == 1
    assert found.narrowing > 0.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"candidates": []}, "at least one size"),
        ({"candidates": [1]}, "candidates must be a whole number from 2"),
        ({"candidates": [4000], "largest": 100}, "at least one size to measure, got none"),
        ({"seeds": 0}, "seeds must be"),
        ({"noise": -1.0}, "noise must be"),
        ({"largest": 1}, "largest must be"),
        ({"cost": lambda n: 0.0}, r"cost\(64\) must be a finite number > 0"),
    ],
)
def test_wrong_questions_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(kr.KoriskError, match=said):
        narrowing(power_pilot(), **options)
    with pytest.raises(kr.KoriskError, match="at least 3 distinct N"):
        next_size(power_pilot(sizes=(8, 16)), 0.05)


def test_words() -> None:
    told = NextSize(2048, 1, 30.0, 3.5, 3.1, ())
    assert str(told) == (
        "Measure N = 2,048 next, with 1 seed: the 90% interval of the answer spans a factor of 30 "
        "now and is expected to span 3.5 then."
    )
    endless = NextSize(2048, 1, 30.0, 3.5, 3.1, (), counted_to=10_240)
    assert "30 now (up to N = 10,240; it has no upper end) and is" in str(endless)
    assert "not expected to narrow" in str(NextSize(20, 2, 1.0, 1.0, 0.0, ()))


def test_measuring_there_narrows_more_than_elsewhere() -> None:
    """An outside check: real plans after real measurements; benchmarks/planner has more."""
    gains = []
    for draw in range(2):
        pilot = power_pilot(sizes=(16, 32, 64, 128), draw=draw, noise=0.03)
        target = 0.02 + 0.5 * 400**-0.5
        end = kr.plan(pilot, target).near_horizon
        offered = [23, 181, 362]
        found = next_size(pilot, target, candidates=offered)
        widths = {}
        for n in offered:
            more = pilot.merged(power_pilot(sizes=(n,), draw=100 + draw, noise=0.03))
            plan = kr.plan(more, target)
            widths[n] = math.log(min(plan.upper, end) / min(plan.lower, end))
        others = [width for n, width in widths.items() if n != found.n]
        gains.append(float(np.median(others)) - widths[found.n])
    assert np.mean(gains) > 0.3


def test_what_is_open_is_two_to_a_doubling_up_to_the_largest() -> None:
    curve = kr.Curve([16, 32, 64], [0.3, 0.2, 0.1])
    assert open_sizes(curve) == [23, 45, 91, 128, 181, 256]
    assert open_sizes(curve, 200) == [23, 45, 91, 128, 181, 200]
    assert (open_sizes(curve, 181), open_sizes(curve, 16)) == ([23, 45, 91, 128, 181], [])
    assert open_sizes(curve, 10) == [10]
    assert open_sizes(kr.Curve([2, 4, 8], [0.3, 0.2, 0.1]), 6) == [3, 6]
