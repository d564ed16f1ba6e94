"""The parts of the grid posterior, each by its own law."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

import korisk as kr
from korisk.planning.compare import _spread, first_above
from korisk.planning.posterior import MOST_SIZES, PRIOR, Posterior, heavy, posterior, thinned
from korisk.prediction.misfit import BELIEF, KNOWN_BELIEF, Belief
from pilots import power_pilot


@pytest.fixture(scope="module")
def made() -> Posterior:
    return posterior(power_pilot())


def test_the_prior_is_a_law() -> None:
    assert sum(kind.weight for kind in PRIOR.kinds) == pytest.approx(1, abs=0.01)
    assert sum(PRIOR.stretch_weights) == pytest.approx(1, abs=0.01)
    assert len(PRIOR.stretches) == len(PRIOR.stretch_weights)
    for kind in PRIOR.kinds:
        for values, weights in (
            (PRIOR.shifts + PRIOR.caps, kind.shift_weights + kind.cap_weights),
            (PRIOR.drifts, kind.drift_weights),
        ):
            assert len(values) == len(weights)
            assert sum(weights) == pytest.approx(1, abs=0.02)
            assert min(weights) > 0
        assert 0 < kind.no_floor < 1
    scales = (PRIOR.shifts[1:], PRIOR.caps, PRIOR.drifts, PRIOR.stretches, PRIOR.noises)
    for scale in scales:  # from small to large
        assert all(0 < small < large for small, large in pairwise(scale))
    assert PRIOR.shifts[0] == 0
    assert PRIOR.caps[-1] < 1
    assert PRIOR.drifts[-1] < 0.5
    assert PRIOR.noises[0] >= PRIOR.least_noise
    assert PRIOR.noises[-1] < 0.5
    assert PRIOR.stretches[0] == 1


@pytest.mark.parametrize("belief", [BELIEF, KNOWN_BELIEF], ids=["plain", "known"])
def test_beliefs_are_laws(belief: Belief) -> None:
    content = {field.name: getattr(belief, field.name) for field in fields(belief)}
    for name, weights in content.items():
        if name.endswith("_weights"):
            assert sum(weights) == pytest.approx(1)
            assert min(weights) > 0
        else:
            assert all(0 < a < b for a, b in pairwise(weights))
    assert max(belief.shapes + belief.offsets) < 1
    assert max(KNOWN_BELIEF.shapes) < max(BELIEF.shapes)


def test_weights_are_a_law(made: Posterior) -> None:
    assert made.weight.sum() == pytest.approx(1)
    assert (np.diff(made.weight) <= 0).all()
    assert ((made.floor >= 0) & (made.floor <= 1)).all()


@pytest.mark.parametrize("p", [1e-4, 0.05, 0.5, 0.95, 0.9999])
def test_a_quantile_is_undercut_with_its_probability(made: Posterior, p: float) -> None:
    n = np.array([40.0, 512.0, 4000.0, 1e6])
    errors = made.quantile(n, p)
    law = made.law(n)
    assert law.under(np.log(errors)) == pytest.approx(p, rel=1e-4)
    assert law.under(law.low) == pytest.approx(0, abs=1e-12)
    assert law.under(law.high) == pytest.approx(1, abs=1e-12)


def test_quantiles_of_the_floor_run_over_all_of_it(made: Posterior) -> None:
    floors, weight = made.floors
    assert made.floor_quantile(0.0) == floors[0]
    assert made.floor_quantile(1.0) == floors[-1]
    middle = made.floor_quantile(0.5)
    assert weight[floors < middle].sum() < 0.5 <= weight[floors <= middle].sum()


def test_neighbours_are_averaged_by_their_precision_and_the_last_is_left_alone() -> None:
    """Three sizes in one group: means weigh one over the variance, and precisions add up."""
    doublings = np.array([MOST_SIZES - 1.0, 0.99, 0.5, 0.3, 0.0])
    logs = np.array([4.0, 3.0, 2.0, 1.0, 0.0])
    variance = np.array([1.0, 1.0, 0.5, 0.25, 2.0])
    found = thinned(doublings, logs, variance)
    assert found[0] == pytest.approx([MOST_SIZES - 1.0, (0.99 + 2 * 0.5 + 4 * 0.3) / 7, 0.0])
    assert found[1] == pytest.approx([4.0, (3 + 2 * 2 + 4 * 1) / 7, 0.0])
    assert found[2] == pytest.approx([1.0, 1 / 7, 2.0])


@pytest.mark.parametrize(
    ("mass", "ends"),
    [
        ([0, 0, 1, 1, 0, 0], (1, 5)),  # one cell to spare on either side
        ([1, 0, 0, 0, 0, 0], (0, 2)),
        ([0, 0, 0, 0, 0, 1], (4, 6)),
        ([0, 0, 1, 0.0019, 0, 0], (1, 4)),  # too light to count
        ([0, 0, 1, 0.0021, 0, 0], (1, 5)),
    ],
)
def test_the_grid_closes_in_on_what_is_heavy(mass: list[float], ends: tuple[int, int]) -> None:
    first, last = heavy(np.array(mass, float))
    assert (int(first), int(last)) == ends


@pytest.mark.parametrize(
    ("rising", "level", "where"),
    [
        ([0.0, 0.5, 1.0], 0.5, 16.0),
        ([0.0, 0.5, 1.0], 0.75, 32.0),  # half way between 16 and 64 in the logarithm
        ([0.6, 0.5, 1.0], 0.5, 4.0),
        ([0.0, 0.1, 0.2], 0.5, np.inf),
        ([0.0, 0.9, 0.0], 0.45, 8.0),
    ],
)
def test_where_odds_pass_a_level(rising: list[float], level: float, where: float) -> None:
    n = np.array([4.0, 16.0, 64.0])
    assert first_above(n, np.array(rising), level) == pytest.approx(where)


def test_the_spread_of_n_has_the_shares_that_it_says() -> None:
    plan = kr.plan(power_pilot(floor=0.0), 0.012)
    spread = _spread(plan)
    assert spread is not None
    assert len(spread) == 100
    assert (np.diff(spread) > 0).all()
    total = plan.probability(plan.before_long)
    shares = [plan.chances.at(n) / total for n in spread]
    assert shares == pytest.approx(np.arange(0.005, 1, 0.01), abs=0.005)
