"""The target with which a page opens."""

import numpy as np
import pytest

import korisk as kr
from korisk.planning.targets import Group


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("models", [1, 2])
def test_the_first_target_lies_outside_the_noise_of_what_was_measured(
    seed: int, models: int
) -> None:
    """Not within two standard errors of a mean: there, chance decides which side it is on."""
    rng = np.random.default_rng(seed)
    n, curves = np.array([8, 16, 32, 64, 128]), []
    for model in ("KO", "FC")[:models]:
        floor, rate, noise = rng.uniform(0, 0.5), rng.uniform(0.3, 1.2), rng.uniform(0.02, 0.15)
        means = floor + (1 - floor) * (n / 8.0) ** -rate
        errors = means[:, None] * np.exp(noise * rng.standard_normal((5, 4)))
        names = [str(each) for each in range(4)] * 5
        curves.append(kr.Curve(np.repeat(n, 4), errors.ravel(), names, model))
    group = Group("pilot", tuple(curves))
    for curve in curves:
        deviations = curve.deviations / np.sqrt(curve.counts)
        # The planner draws each spread toward its neighbours', so that two may come to be one.
        assert np.all(np.abs(curve.means - group.target) > deviations)
