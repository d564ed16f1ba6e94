"""Spectra of dense layers from examples: against draws, and without matrices against with them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from korisk.errors import KoriskError
from korisk.operators import Diagonal, Matrix
from korisk.prediction.dense import from_examples as module
from korisk.prediction.dense.from_examples import (
    Products,
    dense_spectrum,
    large_spectrum,
    leading_vectors,
    resolution_note,
)
from korisk.prediction.dense.moments import Moment, image_moment
from korisk.prediction.dense.spectral import Spectrum
from korisk.prediction.lanczos import lanczos
from korisk.problems import CtProblem, CtScanner, Gaussian, MriProblem, PdeProblem
from korisk.problems.problem import Examples

Array = NDArray[np.float64]

PIXELS, INPUTS, SIDE = 16, 20, 16
N = 2.0 ** np.arange(2, 13)


def moment_of(examples: Examples, shrinkage: float | None = None) -> Moment:
    return image_moment(examples.latents.double().numpy(), shrinkage=shrinkage)


def drawn(count: int, *, wanted: bool, dtype: torch.dtype = torch.float64) -> Examples:
    """Inputs with uneven noise, and targets that are the images or another map of them."""
    rng = np.random.default_rng(0)
    forward = Matrix(torch.from_numpy(rng.standard_normal((INPUTS, PIXELS))).to(dtype))
    onward = Matrix(torch.from_numpy(rng.standard_normal((4, PIXELS))).to(dtype))
    images = torch.from_numpy(rng.exponential(size=(count, PIXELS))).to(dtype)
    noise = torch.linspace(0.1, 0.9, INPUTS, dtype=dtype)
    chance = torch.from_numpy(rng.standard_normal((count, INPUTS))).to(dtype)
    inputs = forward(images) + noise.sqrt() * chance
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
    made = dense_spectrum(examples, moment_of(examples, 0.0), relu=False)
    inputs, targets = examples.inputs.double().numpy(), examples.targets.double().numpy()
    sampled = np.linalg.eigvalsh(inputs.T @ inputs / len(inputs))
    assert made.values == pytest.approx(sampled, rel=0.03)
    assert (made.entries, made.parameters) == (targets.shape[1], INPUTS * targets.shape[1])
    assert made.energy / made.entries == pytest.approx(np.square(targets).mean(), rel=1e-4)
    assert made.floor == pytest.approx(least_squares(examples), rel=0.02)


def test_a_relu_lowers_errors_of_positive_targets_alone() -> None:
    scanner = CtScanner(side=8, views=10, bins=8, beam="surrogate")
    examples = CtProblem(scanner=scanner, noise=Gaussian(0.1)).examples(seed=0, count=64)
    found = moment_of(examples)
    plain, clipped = (dense_spectrum(examples, found, relu=relu) for relu in (False, True))
    ratio = clipped.errors([4, 64, 4096]) / plain.errors([4, 64, 4096])
    assert (ratio < 0.999).all()
    assert (ratio > 0.5).all()
    # All targets below zero: a ReLU makes zeros of the predictions.
    flipped = {name: -getattr(examples, name) for name in ("latents", "inputs", "targets")}
    below = replace(examples, **flipped)
    harmed = dense_spectrum(below, moment_of(below), relu=True)
    energy = float(below.targets.double().square().mean())
    assert harmed.errors(4096)[0] == pytest.approx(energy, rel=0.15)


@cache
def ct(level: float) -> tuple[Examples, Moment]:
    scanner = CtScanner(side=SIDE, views=SIDE + SIDE // 4, bins=SIDE, beam="fan")
    noise = Gaussian(level) if level else None
    examples = CtProblem(scanner=scanner, noise=noise).examples(seed=5, count=128)
    # As many inputs and targets as the large route clips, so that both clip the same.
    few = replace(examples, inputs=examples.inputs[:32], targets=examples.targets[:32])
    return few, moment_of(examples)


@cache
def clipped(level: float) -> tuple[Spectrum, Spectrum]:
    """Without and with the matrix, with a ReLU at one level of noise."""
    relu = level == 0.02
    return large_spectrum(*ct(level), relu=relu), dense_spectrum(*ct(level), relu=relu)


def both(level: float) -> tuple[Spectrum, Spectrum]:
    found, exact = clipped(level)
    return replace(found, gain=None), replace(exact, gain=None)


@pytest.mark.parametrize(("level", "apart"), [(0.02, 0.015), (0.1, 0.005)])
def test_the_curve_is_that_of_the_matrix(level: float, apart: float) -> None:
    found, exact = both(level)
    np.testing.assert_allclose(found.errors(N), exact.errors(N), rtol=apart)
    np.testing.assert_allclose(found.errors(N[:4]), exact.errors(N[:4]), rtol=1e-3)


def test_directions_trace_and_energy_are_those_of_the_matrix() -> None:
    found, exact = both(0.02)
    assert found.counts is not None
    assert found.counts.sum() == pytest.approx(20 * 16, rel=1e-9)
    assert found.counts @ found.values == pytest.approx(exact.values.sum(), rel=1e-4)
    assert found.energy == pytest.approx(exact.energy, rel=1e-5)
    assert found.rest == pytest.approx(exact.rest, rel=0.02)
    assert (found.entries, found.parameters) == (exact.entries, exact.parameters)
    np.testing.assert_allclose(found.scales, exact.scales)
    top = np.sort(found.values[found.counts == 1])[::-1][:60]
    np.testing.assert_allclose(top, np.sort(exact.values)[::-1][:60], rtol=1e-4)
    assert found.values.min() >= 0.999 * float(ct(0.02)[0].noise.min())
    behind, exactly = (made.gain for made in clipped(0.02))  # the effect of a ReLU
    assert behind is not None
    assert exactly is not None
    np.testing.assert_allclose(behind, exactly, atol=0.008)


def test_without_noise_the_curve_is_known_until_directions_run_out_and_a_note_says_where() -> None:
    found, exact = both(0.0)
    np.testing.assert_allclose(found.errors(N[:6]), exact.errors(N[:6]), rtol=0.02)
    assert resolution_note(found, N[:6]) == []
    assert "From N = 256 on" in resolution_note(found, N)[0]
    assert (found.errors(N[6:]) >= exact.errors(N[6:])).all()
    assert resolution_note(exact, N) == resolution_note(both(0.02)[0], N) == []
    # No more is explained than there is.
    assert found.rest >= 0
    assert found.energy == pytest.approx(exact.energy, rel=1e-5)


def test_a_line_of_sensors_with_an_operator_before_the_targets() -> None:
    examples = PdeProblem(points=64, noise=0.05).examples(seed=3, count=40)
    few = replace(examples, inputs=examples.inputs[:32], targets=examples.targets[:32])
    moment = moment_of(examples, 0.3)
    found, exact = (route(few, moment, relu=True) for route in (large_spectrum, dense_spectrum))
    assert found.gain is not None
    assert exact.gain is not None
    np.testing.assert_allclose(found.gain[:4], exact.gain[:4], rtol=0.04)
    found, exact = replace(found, gain=None), replace(exact, gain=None)
    np.testing.assert_allclose(found.errors(N), exact.errors(N), rtol=0.1)  # 64 inputs are few
    assert found.rest >= 0


def test_the_same_call_gives_the_same_numbers_and_reports_its_progress() -> None:
    told: list[float] = []
    again = large_spectrum(*ct(0.02), relu=False, progress=told.append)
    first = both(0.02)[0]
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(again.signal, first.signal)
    assert told == sorted(told)
    assert told[0] < 0.05
    assert 0.8 < told[-2] <= told[-1] == 1.0


@pytest.mark.parametrize("shrinkage", [0.0, 0.4, 1.0])
def test_products_are_those_of_the_matrices(shrinkage: float) -> None:
    scanner = CtScanner(side=6, views=5, bins=7, beam="parallel")
    made = CtProblem(scanner=scanner, noise=Gaussian(0.1)).examples(seed=1, count=9)
    moment = moment_of(made, shrinkage)
    gains = torch.linspace(0.5, 2.0, 36, dtype=torch.float64).reshape(6, 6)
    noise = torch.linspace(0.1, 0.4, 35, dtype=torch.float64).reshape(5, 7)
    operator = made.forward.in_double()
    examples = replace(made, forward=operator, wanted=Diagonal(gains), noise=noise)
    products = Products(examples, moment)
    forward, second = operator.as_matrix().numpy(), moment.apply(np.eye(36))
    unit = torch.eye(35, dtype=torch.float64)
    seen = forward @ second @ forward.T + np.diag(noise.flatten().numpy())
    wanted = gains.flatten().numpy()[:, None] * second @ forward.T
    np.testing.assert_allclose(products.apply(unit), seen, atol=1e-10)
    np.testing.assert_allclose(products.cross(unit), wanted.T, atol=1e-10)
    for found, same in zip(products.both(unit), (seen, wanted.T), strict=True):
        np.testing.assert_allclose(found, same, atol=1e-10)
    towards, energies = products.cross_back(torch.eye(36, dtype=torch.float64))
    np.testing.assert_allclose(towards, wanted, atol=1e-10)
    expected = gains.flatten().numpy() ** 2 * np.diag(second)
    np.testing.assert_allclose(energies, expected, atol=1e-10)


def test_leading_vectors_are_eigenvectors() -> None:
    generator = torch.Generator().manual_seed(0)
    turned = torch.linalg.qr(torch.randn(120, 120, generator=generator).double())[0]
    matrix = turned @ torch.diag(torch.arange(1, 121, dtype=torch.float64) ** -2.0) @ turned.t()
    start = torch.randn(4, 120, generator=generator, dtype=torch.float64)
    vectors = leading_vectors(lambda rows: rows @ matrix, start, blocks=12, tolerance=1e-3)
    assert 8 <= len(vectors) < 48
    np.testing.assert_allclose(vectors @ vectors.t(), np.eye(len(vectors)), atol=1e-12)
    images = vectors @ matrix
    values = (images * vectors).sum(1)
    away = torch.linalg.vector_norm(images - values[:, None] * vectors, dim=1)
    assert bool((away <= 1.01e-3 * values).all())
    assert float(values.max()) == pytest.approx(1.0)


def test_lanczos_integrates_polynomials_and_solves_beside_the_directions_taken_out() -> None:
    values = torch.linspace(1, 3, 30, dtype=torch.float64)
    unit = torch.eye(30, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    starts = torch.randn(3, 30, generator=generator, dtype=torch.float64)
    starts[2] = unit[2] * 2  # an eigenvector: exhausted at once
    seen = lanczos(lambda rows: rows * values, starts, steps=20, off=unit[-5:])
    inside = starts.clone()
    inside[:, -5:] = 0
    for power in range(12):
        found = (seen.weights * seen.nodes**power).sum(1)
        np.testing.assert_allclose(found, inside.square() @ values**power, rtol=1e-9)
    np.testing.assert_allclose(seen.solved(0.3), inside / (values + 0.3), atol=1e-8)
    np.testing.assert_allclose(seen.solved_above(1e-14), inside / values, atol=1e-8)


def test_layers_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korisk._memory.free_memory", lambda device: 2**20)
    with pytest.raises(KoriskError, match=r"320 inputs needs .*, of 0.0 GiB free on cpu; use"):
        large_spectrum(*ct(0.02), relu=False)


def test_inputs_that_are_never_measured_explain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = MriProblem(side=16, lines=5, noise=Gaussian(0.05)).examples(seed=3, count=64)
    moment = moment_of(examples)
    exact = dense_spectrum(examples, moment, relu=False)
    monkeypatch.setattr(module, "LARGEST_INPUTS", 100)
    made = dense_spectrum(examples, moment, relu=False)
    assert made.counts is not None  # it came without the matrix
    n = [4, 64, 1024, 4096]
    assert made.errors(n) == pytest.approx(exact.errors(n), rel=0.01)
    assert made.floor == pytest.approx(exact.floor, rel=0.01)
