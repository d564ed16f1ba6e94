"""The prior over learning curves, and what an answer must not depend on.

The module is imported inside the tests, so that what it computes on import belongs to them.
"""

import json
import math

import numpy as np
import pytest

import korisk as kr
from benchmarks.planner import odds, priors
from korisk.curves.noise import ONE_SEED

SIZES = [8, 16, 32, 64, 128]
TABLE = np.array([[0.52, 0.47], [0.41, 0.44], [0.29, 0.31], [0.24, 0.22], [0.17, 0.18]])


def pilot(metric: str = "", scale: float = 1.0, unit: str = "error") -> kr.Curve:
    """Two seeds at five sizes."""
    errors = scale * TABLE.ravel()
    return kr.Curve.of_errors(np.repeat(SIZES, 2), errors, ["a", "b"] * 5, "net", metric, unit)


def answers(curve: kr.Curve, scale: float = 1.0) -> list[float]:
    """Errors with bands, odds and numbers of samples; errors over the scale."""
    plan = kr.plan(curve, float(curve.unit.from_error(0.1 * scale)))
    expected = [kr.forecast(curve).at(n) for n in (100, 512, 4096)]
    ends = [value for e in expected for value in (e.value, e.lower, e.upper)]
    errors = sorted((curve.unit.to_error(ends) / scale).tolist())
    odds = [plan.probability(n) for n in (128, 512, 4096)]
    return [*errors, *odds, plan.samples(0.5) or math.inf, plan.samples(0.9) or math.inf]


@pytest.mark.parametrize("metric", ["mse", "error rate", "val_loss", "perplexity", "x"])
def test_an_answer_does_not_depend_on_the_name_of_its_column(metric: str) -> None:
    assert answers(pilot(metric)) == answers(pilot())


@pytest.mark.parametrize("scale", [1e-6, 0.01, 100.0, 1e12])
def test_an_answer_does_not_depend_on_the_scale_of_the_errors(scale: float) -> None:
    assert answers(pilot(scale=scale), scale) == pytest.approx(answers(pilot()), rel=1e-6)


@pytest.mark.parametrize(
    ("unit", "scale"), [("percent", 100.0), ("accuracy", 1.0), ("psnr", 1.0), ("rmse", 1.0)]
)
def test_an_answer_does_not_depend_on_the_unit_of_the_same_errors(unit: str, scale: float) -> None:
    in_unit = answers(pilot(scale=scale, unit=unit), scale)
    assert in_unit == pytest.approx(answers(pilot()), rel=1e-6)


def test_an_answer_does_not_depend_on_the_order_of_rows() -> None:
    curve = pilot()
    order = np.random.default_rng(0).permutation(len(curve.n))
    seeds = [curve.seed[row] for row in order]
    mixed = kr.Curve(curve.n[order], curve.error[order], seeds, "net")
    assert answers(mixed) == answers(curve)


def test_a_row_that_is_there_twice_is_refused() -> None:
    """A copy is no second measurement: it would count as a seed that agrees exactly."""
    n, error = np.append(pilot().n, 64), np.append(pilot().error, 0.24)
    for seed in (None, [*pilot().seed, "a"]):
        with pytest.raises(kr.KoriskError, match=r"N = \d+ is given twice"):
            kr.Curve(n, error, seed)


def test_plain_power_laws_mostly_have_no_floor_and_broad_curves_mostly_have_one() -> None:
    from korisk.planning.futures.prior import BROAD, PLAIN, PRIOR

    assert PRIOR.kinds == (BROAD, PLAIN)
    assert BROAD.no_floor < 0.5 < PLAIN.no_floor
    assert PLAIN.floor_shape == (1.0, 1.0), "any floor is as likely"
    for kind in PRIOR.kinds:
        assert sum(kind.drift_weights) == pytest.approx(1)
        assert isinstance(hash(kind), int), "values can be keys of a cache"


def test_the_prior_is_what_the_search_chooses_without_the_networks_of_the_record() -> None:
    """For which `odds.RECORDED` says "now"; the others are asked with the prior they leave."""
    from korisk.planning.futures.prior import BROAD, PRIOR, SLOW

    scores = json.loads(odds.SEARCHED.read_text(encoding="utf-8"))
    made = {name: (broad, slow, rest) for name, broad, slow, rest in priors.tried()}
    for database, version in odds.RECORDED.items():
        found = made[odds.chosen(scores, database)]
        assert (found == (BROAD, SLOW, PRIOR)) == (version == "now")


@pytest.mark.parametrize(
    ("last", "shares"),
    [(2, [0.7, 0.3]), (4096, [0.7, 0.3]), (2**16, [0.35, 0.35, 0.3]), (10**9, [0.7, 0.3])],
)
def test_rates_are_slower_where_n_is_large(last: int, shares: list[float]) -> None:
    from korisk.planning.futures.posterior import posterior
    from korisk.planning.futures.prior import BROAD, PLAIN, prior_at

    prior = prior_at(float(last))
    assert [kind.weight for kind in prior.kinds] == pytest.approx(shares)
    assert prior.kinds[-1] == PLAIN
    assert (prior.kinds[0].rate_median < BROAD.rate_median) == (last > 2**20)
    sizes = [max(last // 2, 2), max(last, 3)]
    assert posterior(kr.Curve(sizes, [0.2, 0.1])).prior == prior_at(float(sizes[-1]))


def test_an_answer_moves_smoothly_past_the_n_where_rates_begin_to_slow_down() -> None:
    curves = [kr.Curve([n // 8, n // 4, n // 2, n], [0.4, 0.3, 0.23, 0.19]) for n in (4096, 4104)]
    before, after = (kr.forecast(curve).at(8 * int(curve.sizes[-1])) for curve in curves)
    assert after.value == pytest.approx(before.value, rel=2e-3)


def test_grids_of_a_prior_have_steps_of_about_a_factor_of_three() -> None:
    """No two neighbours differ by more than a factor of ten, none by less than a fifth."""
    from korisk.planning.futures.prior import PRIOR as grid

    for values in (grid.drifts, grid.shifts[1:], grid.noises):
        steps = np.diff(np.log10(values))
        assert ((steps > 0.25) & (steps < 1.01)).all()
    assert np.diff(grid.caps).max() <= 0.2
    assert grid.caps[0] == pytest.approx(0.1)
    assert grid.caps[-1] < 1
    assert grid.shifts[0] == 0
    assert grid.shifts[-1] == 1
    assert grid.least_noise < grid.noises[0] < ONE_SEED < grid.noises[-1]
    assert sum(grid.stretch_weights) == pytest.approx(1)


def test_an_exact_pilot_of_one_seed_is_not_taken_for_a_noiseless_one() -> None:
    """Five points on a power law: the interval of N is far from one per cent."""
    n = 16 * 2 ** np.arange(5)
    plan = kr.plan(kr.Curve(n, 3 * n**-0.5), 3 * 1024**-0.5)
    assert plan.lower < 0.95 * 1024
    assert plan.upper > 1.3 * 1024
