"""Advection and diffusion behind sensors: samples obey their equation, and truth is the truth."""

import math

import numpy as np
import pytest
import torch

from korisk.errors import KoriskError
from korisk.problems import HeatProblem
from korisk.problems.heat import wave_series


def test_without_noise_the_true_layers_give_the_target() -> None:
    problem = HeatProblem(points=16, noise=0.0, assumed=0.5)
    weights, (flow,) = problem.truth()
    for inputs, targets in problem.pools(seed=1, train=3, validation=2, test=2):
        torch.testing.assert_close(flow(weights * inputs), targets)


def test_the_reconstruction_has_the_assumed_viscosity() -> None:
    """Of two equal waves, the one of twice the wave number decays by the fourth power."""
    problem = HeatProblem(points=32, viscosity=0.01, assumed=0.03, speed=0.0, time=0.5)
    _, (assumed,) = problem.reconstruction()
    _, (true,) = problem.truth()
    x = torch.arange(32, dtype=torch.float64) / 32
    wave = torch.cos(2 * math.pi * x)
    decay = math.exp(-0.01 * (2 * math.pi) ** 2 * 0.5)
    torch.testing.assert_close(true(wave), decay * wave)
    torch.testing.assert_close(assumed(wave), decay**3 * wave)
    torch.testing.assert_close(
        true(torch.cos(4 * math.pi * x)), decay**4 * torch.cos(4 * math.pi * x)
    )


def test_fields_sensors_and_noise_have_the_sizes_they_claim() -> None:
    problem = HeatProblem(points=33, noise=0.2, gain=0.5, amplitude=2.0, time=0.0)
    inputs, fields = problem.pools(seed=1, train=4000, validation=0, test=0).train
    # At time 0 the target is the field: its own variance, and that of its mean along the line.
    assert float(fields.var()) == pytest.approx(2.0**2 + 0.5**2, rel=0.03)
    assert float(fields.mean(1).std()) == pytest.approx(0.5, rel=0.05)
    spectrum = torch.fft.rfft(fields)[:, 1:].abs().square().mean(0)
    waves = torch.arange(1, len(spectrum) + 1)
    assert ((spectrum * waves / (spectrum * waves).mean() - 1).abs() < 0.15).all()
    noise = inputs / torch.from_numpy(problem.gains) - fields
    assert float(noise.std()) == pytest.approx(0.2, rel=0.02)
    assert problem.gains.min() >= math.exp(-0.5)
    assert problem.gains.max() <= math.exp(0.5)
    assert np.log(problem.gains).std() > 0.15


def test_samples_do_not_depend_on_the_pool_s_size_nor_the_test_set_on_the_seed() -> None:
    problem = HeatProblem(points=8)
    few = problem.pools(seed=1, train=2, validation=2, test=2)
    many = problem.pools(seed=1, train=5, validation=2, test=2)
    other = problem.pools(seed=2, train=2, validation=2, test=2)
    assert torch.equal(few.train.inputs, many.train.inputs[:2])
    assert torch.equal(few.test.targets, other.test.targets)
    assert not torch.equal(few.train.targets, other.train.targets)
    assert not torch.equal(few.train.targets, few.validation.targets)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"points": 1}, "points must be"),
        ({"viscosity": -1.0}, "viscosity must be"),
        ({"assumed": -1.0}, "viscosity must be"),
        ({"time": math.nan}, "time must be"),
        ({"gain": 6.0}, "gain must be at most"),
        ({"noise": -0.1}, "noise must be"),
        ({"amplitude": 0.0}, "amplitude must be"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        HeatProblem(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("points", [2, 3, 8, 9])
def test_fields_are_the_series_that_the_docs_write_down(points: int) -> None:
    rng = np.random.default_rng(0)
    cosine, sine = rng.standard_normal((2, points // 2))
    x = np.arange(points) / points
    waves = np.arange(1, points // 2 + 1)[:, None]
    expected = cosine @ np.cos(2 * np.pi * waves * x) + sine @ np.sin(2 * np.pi * waves * x)
    np.testing.assert_allclose(wave_series(cosine, sine, points), expected, atol=1e-12)
