"""Priors over learning curves: shares, weights and grids.

The module is imported inside the tests, so that what it computes on import belongs to them.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import korisk as kr


def test_every_prior_has_a_share_of_plain_power_laws_beside_what_was_learned() -> None:
    from korisk.planning.futures.prior import LEARNED, PLAIN, PRIOR, PRIORS, RECALIBRATION, SHARES

    for name, prior in {**PRIORS, "mixture": PRIOR}.items():
        *learned, plain = prior.kinds
        assert plain == replace(PLAIN, weight=SHARES[name])
        assert sum(kind.weight for kind in learned) == pytest.approx(1 - SHARES[name])
        assert prior.recalibration == RECALIBRATION[name]
        # A recalibration of odds moves them by a few per cent, never over to the other side.
        offset, slope = prior.recalibration
        assert abs(offset) <= 0.15
        assert 0.9 <= slope <= 1.1
        for kind in prior.kinds:
            assert isinstance(hash(kind), int), "values can be keys of a cache"
    for kinds in LEARNED.values():
        assert sum(kind.weight for kind in kinds) == pytest.approx(1)
    assert SHARES == {"squares": 0.15, "rates": 0.25, "losses": 0.25, "mixture": 0.25}
    # Squared errors count twice in the mixture.
    mixed = iter(PRIOR.kinds)
    for name, weight in (("squares", 2), ("rates", 1), ("losses", 1)):
        for kind in LEARNED[name]:
            assert next(mixed).weight == pytest.approx(0.75 * weight * kind.weight / 4)


def test_plain_power_laws_mostly_have_no_floor() -> None:
    from korisk.planning.futures.posterior import posterior
    from korisk.planning.futures.prior import PLAIN, PRIOR

    assert posterior(kr.Curve([16, 32], [0.2, 0.1])).prior is PRIOR
    assert PLAIN.weight == 1
    assert PLAIN.floor_shape == (1.0, 1.0), "any floor is as likely"
    assert sum(PLAIN.drift_weights) == pytest.approx(1)
    assert sum(PLAIN.shift_weights + PLAIN.cap_weights) == pytest.approx(1)
    assert PLAIN.no_floor > 0.5
    assert PLAIN.rate_median * math.exp(2 * PLAIN.rate_spread) < 2


def test_grids_of_a_prior_have_steps_of_about_a_factor_of_three() -> None:
    """No two neighbours differ by more than a factor of ten, none by less than a fifth."""
    from korisk.planning.futures.posterior import posterior
    from korisk.planning.futures.prior import PLAIN, PRIOR, Prior

    assert posterior(kr.Curve([16, 32], [0.2, 0.1])).prior is PRIOR
    grid = Prior(kinds=(PLAIN,))
    for values in (grid.drifts, grid.shifts[1:], grid.noises):
        steps = np.diff(np.log10(values))
        assert ((steps > 0.25) & (steps < 1.01)).all()
    assert np.diff(grid.caps).max() <= 0.2
    assert grid.caps[0] == pytest.approx(0.1)
    assert grid.caps[-1] < 1
    assert grid.shifts[0] == 0
    assert grid.shifts[-1] == 1
    assert grid.recalibration == (0.0, 1.0), "none, unless a metric has one"
    assert grid.least_noise < grid.noises[0]
    assert sum(grid.stretch_weights) == pytest.approx(1)
    assert grid.stretches[0] == 1


@pytest.mark.parametrize(
    ("metric", "unit", "name"),
    [("psnr", "psnr", "squares"), ("accuracy", "accuracy", "rates"), ("loss", "error", "losses")],
)
def test_a_metric_has_the_prior_of_its_kind(metric: str, unit: str, name: str) -> None:
    from korisk.planning.futures.posterior import posterior
    from korisk.planning.futures.prior import PRIOR, PRIORS

    values: list[float] = {"psnr": [20.0, 22.0, 23.5], "accuracy": [0.5, 0.7, 0.8]}.get(
        metric, [0.3, 0.2, 0.1]
    )
    assert posterior(kr.Curve([16, 32, 64], values, metric=metric, unit=unit)).prior is PRIORS[name]
    assert posterior(kr.Curve([16, 32, 64], [0.3, 0.2, 0.1], metric="thing")).prior is PRIOR
