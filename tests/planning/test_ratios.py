"""Ratios of two models: closed forms where both numbers of samples are log-normal."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import korisk as kr
from korisk.planning.chances import Chances
from korisk.planning.compare import Crossing, crossing

FIRST, SECOND = math.log(3_999.5), math.log(15_999.5)  # medians of log N, rounded up to whole N
SPREADS = (0.2, 0.3)
GRID = np.geomspace(100, 10_000_000, 3_000)


@pytest.fixture(scope="module")
def plans() -> tuple[kr.Plan, kr.Plan]:
    n = np.array([16, 32, 64, 128, 256, 512])
    known, dense = (kr.Curve(n, a * n**-0.5, model=m) for a, m in ((0.5, "KO"), (1.0, "FC")))
    made = kr.compare(known, dense, 0.01)
    return made.first, made.second


def with_answer(plan: kr.Plan, centre: float, spread: float, reach: float = 1.0) -> kr.Plan:
    """The plan with a log-normal N, met at all with a probability of `reach`."""
    odds = Chances(GRID, reach * ndtr((np.log(GRID) - centre) / spread))
    lower, upper = odds.interval()
    return replace(
        plan, chances=odds, reach=reach, lower=lower, upper=upper, middle=round(math.exp(centre))
    )


def compared(
    plans: tuple[kr.Plan, kr.Plan],
    centres: tuple[float, float] = (FIRST, SECOND),
    reach: tuple[float, float] = (1.0, 1.0),
) -> kr.Comparison:
    return kr.Comparison(
        with_answer(plans[0], centres[0], SPREADS[0], reach[0]),
        with_answer(plans[1], centres[1], SPREADS[1], reach[1]),
    )


def test_the_ratio_of_two_lognormal_numbers_is_lognormal(
    plans: tuple[kr.Plan, kr.Plan],
) -> None:
    made = compared(plans)
    deviation = math.sqrt(0.2**2 + 0.3**2 - 2 * 0.2 * 0.2 * 0.3)  # correlated by 0.2
    ends = [math.exp(SECOND - FIRST + score * deviation) for score in ndtri([0.05, 0.95])]
    assert made.numbers == (4000, 16_000)
    assert made.ratio == 4
    assert made.ratio_range == pytest.approx(ends, rel=0.02)
    assert made.ratio_words() == f"4 (90%: {ends[0]:.2g} to {ends[1]:.2g})"


@pytest.mark.parametrize(("reach", "known"), [(0.97, True), (0.93, False)])
def test_futures_without_an_answer_leave_an_end_open(
    plans: tuple[kr.Plan, kr.Plan], reach: float, known: bool
) -> None:
    """An end of the 90% interval is open where one in twenty futures has no answer."""
    forward = compared(plans, reach=(1.0, reach)).ratio_range
    backward = compared(plans, reach=(reach, 1.0)).ratio_range
    assert forward is not None
    assert backward is not None
    assert 1 < forward[0] < 4 < forward[1]
    assert (math.isfinite(forward[1]), backward[0] > 0) == (known, known)
    assert backward[0] < 4 < backward[1] < math.inf
    both = compared(plans, reach=(reach, reach))
    assert (both.ratio_range is not None) == known
    words = compared(plans, reach=(1.0, reach)).ratio_words()
    assert ("with 95% probability" in words) != known
    assert f"at least {forward[0]:.2g}" in words or known
    words = compared(plans, reach=(reach, 1.0)).ratio_words()
    assert f"at most {backward[1]:.2g}" in words or known


def test_a_model_without_an_answer_leaves_a_bound(plans: tuple[kr.Plan, kr.Plan]) -> None:
    """The second meets the target in four of ten futures: it needs at least its 5% quantile."""
    made = compared(plans, reach=(1.0, 0.4))
    assert made.numbers == (4000, None)
    assert made.ratio is None
    assert made.ratio_range is not None
    least, most = made.ratio_range
    # P(N2 / N1 <= least) = 5%, of which N2 has a law of mass 0.4; nearly 12.5% of that.
    assert most == math.inf
    assert 2.0 < least < 4.0
    back = compared((plans[1], plans[0]), (SECOND, FIRST), (0.4, 1.0)).ratio_range
    assert back is not None
    assert back[0] == 0
    assert 1 / back[1] == pytest.approx(least, rel=0.15)  # the spreads are swapped
    assert compared(plans, reach=(0.4, 0.4)).ratio_range is None
    said = made.saving()
    assert said == f"KO needs at least {least:.2g} times fewer samples than FC for 0.01 (95% sure)."
    near = compared(plans, (FIRST, FIRST - 1.0), (1.0, 0.4)).saving()
    assert near.endswith("needs fewer samples for 0.01 is not known.")


@pytest.mark.parametrize(
    ("factor", "facts"),
    [
        (4.0, "KO needs 4 times fewer samples than FC for 0.01 (90%: "),
        (0.25, "FC needs 4 times fewer samples than KO for 0.01 (90%: "),
        (1.02, "KO and FC need about as many samples for 0.01 (90%: "),
        (0.99, "FC and KO need about as many samples for 0.01 (90%: "),
        (40.0, "KO needs 40 times fewer samples than FC for 0.01 (90%: "),
    ],
)
def test_the_model_that_needs_fewer_is_named_with_a_factor_above_one(
    plans: tuple[kr.Plan, kr.Plan], factor: float, facts: str
) -> None:
    made = compared(plans, (FIRST, FIRST + math.log(factor)))
    said = made.saving()
    assert said.startswith(facts)
    assert made.ratio_range is not None
    low, high = made.ratio_range
    ends = (1 / high, 1 / low) if factor < 1 else (low, high)
    numbers = [f"{end:,.0f}" if end >= 10 else f"{end:.2g}" for end in ends]
    assert f"(90%: {numbers[0]} to {numbers[1]})" in said
    back = kr.Comparison(made.second, made.first)
    if said.split()[1] == "needs":
        assert back.saving().split(" (")[0] == said.split(" (")[0]


def test_curves_cross_between_common_sizes() -> None:
    n = [8, 16, 32]
    first = kr.Curve(n[:2], [0.3, 0.25], model="KO")
    second = kr.Curve(n[:2], [0.5, 0.1], model="FC")
    found = crossing(first, second)
    assert found == Crossing(None, (8, 16), "FC", 16, 2)
    assert found is not None
    assert "At least 3 sizes are needed" in found.explain(sizes=True)
    assert "At least" not in found.explain()
    assert "between N = 8 and 16, and FC is better at N = 16" in found.explain()
    assert crossing(first, kr.Curve([4, 64], [0.5, 0.1])) is None
    worse = crossing(first, kr.Curve(n, [0.6, 0.5, 0.4], model="FC"))
    assert worse is not None
    assert (worse.means, worse.better, worse.last, worse.sizes) == (None, "KO", 16, 2)
    assert "KO is better at every measured N, up to 16" in worse.explain()
    known = kr.Curve(n, [0.3, 0.2, 0.15], model="KO")
    third = crossing(known, kr.Curve(n, [0.9, 0.3, 0.05], model="FC"))
    assert third is not None
    assert third.found is not None
    assert 16 <= third.found.n <= 32
    assert third.found.better_after == "FC"
    assert third.to_dict()["found"]["n"] == third.found.n
    assert replace(third, means=(8, 16)).to_dict()["found"] is None
    assert Crossing(None).explain().startswith("The curves do not clearly cross")
    assert (Crossing(None).last, Crossing(None).sizes, Crossing(None).agrees) == (0, 0, False)
