"""Spectra of dense layers from examples, against moments of many draws."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.fitting import DenseRidge
from korisk.fitting.scores import Scorer
from korisk.operators import Matrix
from korisk.prediction.dense.from_examples import brightness, dense_spectrum, moment_of
from korisk.prediction.dense.moments import Moment
from korisk.problems import CtProblem, CtScanner, Gaussian, HeatProblem
from korisk.problems.examples import Examples

Array = NDArray[np.float64]

PIXELS, INPUTS = 16, 20


def moment(images: Array) -> Moment:
    """The sample moment, not shrunk."""
    pixels = images.shape[1]
    return Moment(images, (pixels,), np.ones(pixels), np.ones(2 * pixels), 0.0)


def drawn(count: int, *, wanted: bool, dtype: torch.dtype = torch.float64) -> Examples:
    """Inputs with uneven noise, and targets that are the images or another map of them."""
    rng = np.random.default_rng(0)
    forward = Matrix(torch.from_numpy(rng.standard_normal((INPUTS, PIXELS))).to(dtype))
    onward = Matrix(torch.from_numpy(rng.standard_normal((4, PIXELS))).to(dtype))
    images = torch.from_numpy(rng.exponential(size=(count, PIXELS))).to(dtype)
    noise = torch.linspace(0.1, 0.9, INPUTS, dtype=dtype)
    inputs = forward(images) + noise.sqrt() * torch.from_numpy(
        rng.standard_normal((count, INPUTS))
    ).to(dtype)
    targets = onward(images) if wanted else images
    return Examples(images, forward, onward if wanted else None, inputs, targets, noise)


def least_squares(examples: Examples) -> float:
    """The mean squared error of the best linear map, on the very examples."""
    x, y = examples.inputs.double().numpy(), examples.targets.double().numpy()
    left = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return float(np.square(left).mean())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("wanted", [False, True])
def test_it_is_the_spectrum_of_inputs_with_their_noise(wanted: bool, dtype: torch.dtype) -> None:
    examples = drawn(30_000, wanted=wanted, dtype=dtype)
    made = dense_spectrum(examples, moment(examples.latents.double().numpy()), relu=False)
    inputs, targets = examples.inputs.double().numpy(), examples.targets.double().numpy()
    sampled = np.linalg.eigvalsh(inputs.T @ inputs / len(inputs))
    assert made.values == pytest.approx(sampled, rel=0.03)
    assert made.entries == targets.shape[1]
    assert made.parameters == INPUTS * targets.shape[1]
    assert made.energy / made.entries == pytest.approx(np.square(targets).mean(), rel=1e-4)
    assert made.floor == pytest.approx(least_squares(examples), rel=0.02)


def test_the_curve_is_that_of_training() -> None:
    examples = drawn(8_000, wanted=True)
    made = dense_spectrum(examples, moment(examples.latents.numpy()), relu=False)
    test = examples.inputs[:2000], examples.targets[:2000]
    for n in (100, 200):
        found = []
        for first in range(4000, 4000 + 20 * n, n):
            part = slice(first, first + n)
            ridge = DenseRidge(examples.inputs[part], examples.targets[part], relu=False)
            training = ridge.training(n)
            score = training.scores(Scorer(*test))
            found.append(
                score([training.scale * 10.0**e for e in (-4, -3.5, -3, -2.5, -2, -1.5, -1)])
            )
        assert made.errors(n)[0] == pytest.approx(np.mean(found, axis=0).min(), rel=0.06)


def test_brightness_is_that_of_the_clean_input() -> None:
    examples = drawn(20, wanted=False)
    clean = examples.latents @ examples.forward.as_matrix().T
    expected = clean.square().mean(1).numpy()
    assert brightness(examples) == pytest.approx(expected)
    made = dense_spectrum(examples, moment_of(examples), relu=False)
    assert made.scales == pytest.approx(expected / expected.mean())


def test_a_relu_is_reckoned_with_where_one_follows() -> None:
    problem = CtProblem(
        scanner=CtScanner(side=8, views=10, bins=8, beam="surrogate"), noise=Gaussian(0.1)
    )
    examples = problem.examples(seed=0, count=64)
    found = moment_of(examples)
    plain, clipped = (dense_spectrum(examples, found, relu=relu) for relu in (False, True))
    ratio = clipped.errors([4, 64, 4096]) / plain.errors([4, 64, 4096])
    assert (ratio < 0.999).all()
    assert (ratio > 0.5).all()
    below = Examples(
        -examples.latents,
        examples.forward,
        None,
        -examples.inputs,
        -examples.targets,
        examples.noise,
    )
    harmed = dense_spectrum(below, moment_of(below), relu=True)
    # All targets are below zero: what a ReLU leaves of any prediction is worse than nothing.
    energy = float(below.targets.double().square().mean())
    assert harmed.errors(4096)[0] == pytest.approx(energy, rel=0.15)


def test_fields_on_a_line_and_what_flows_from_them() -> None:
    problem = HeatProblem(points=16, noise=0.2)
    examples = problem.examples(seed=0, count=2000)
    made = dense_spectrum(examples, moment_of(examples), relu=False)
    assert made.floor == pytest.approx(least_squares(examples), rel=0.1)
    assert made.rank == 16


def test_what_examples_hold_is_not_changed() -> None:
    examples = drawn(16, wanted=True)
    kept: list[Tensor] = [examples.noise.clone(), examples.inputs.clone()]
    dense_spectrum(examples, moment_of(examples), relu=True)
    assert torch.equal(examples.noise, kept[0])
    assert torch.equal(examples.inputs, kept[1])
