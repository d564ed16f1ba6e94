"""Spectra without matrices, against those with them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators.diagonal import Diagonal
from korisk.prediction.dense import large_spectrum as large
from korisk.prediction.dense.from_examples import dense_spectrum, moment_of
from korisk.prediction.dense.large_clipping import Leading
from korisk.prediction.dense.large_krylov import leading_vectors
from korisk.prediction.dense.large_products import Products
from korisk.prediction.dense.large_spectrum import large_spectrum, resolution_note
from korisk.prediction.dense.moments import Moment, image_moment
from korisk.prediction.dense.spectral import Spectrum
from korisk.prediction.lanczos import lanczos
from korisk.problems.ct import CtProblem, CtScanner
from korisk.problems.examples import Examples
from korisk.problems.heat import HeatProblem
from korisk.problems.mri import MriProblem
from korisk.problems.noise import Gaussian

N = 2.0 ** np.arange(2, 13)
SIDE = 16


@cache
def ct(level: float) -> tuple[Examples, Moment]:
    scanner = CtScanner(side=SIDE, views=SIDE + SIDE // 4, bins=SIDE, beam="fan")
    noise = Gaussian(level) if level else None
    examples = CtProblem(scanner=scanner, noise=noise).examples(seed=5, count=128)
    moment = moment_of(examples)
    # As many inputs and targets as the large route clips, so that both clip the same.
    few = replace(examples, inputs=examples.inputs[:32], targets=examples.targets[:32])
    return few, moment


@cache
def clipped(level: float) -> tuple[Spectrum, Spectrum]:
    """Without and with the matrix, with a ReLU at one level of noise."""
    relu = level == 0.02
    return large_spectrum(*ct(level), relu=relu), dense_spectrum(*ct(level), relu=relu)


def both(level: float) -> tuple[Spectrum, Spectrum]:
    found, exact = clipped(level)
    return replace(found, gain=None), replace(exact, gain=None)


def effective(made: Spectrum) -> list[float]:
    return [made.effective(n) for n in N]


@pytest.mark.parametrize(("level", "apart"), [(0.02, 0.015), (0.1, 0.005)])
def test_the_curve_is_that_of_the_matrix(level: float, apart: float) -> None:
    found, exact = both(level)
    np.testing.assert_allclose(found.errors(N), exact.errors(N), rtol=apart)
    np.testing.assert_allclose(found.errors(N[:4]), exact.errors(N[:4]), rtol=1e-3)
    # Thresholds come in steps, and where the error is flat a neighbour may be the best.
    np.testing.assert_allclose(effective(found), effective(exact), rtol=0.04)


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


def test_no_eigenvalue_is_below_the_noise() -> None:
    assert both(0.02)[0].values.min() >= 0.999 * float(ct(0.02)[0].noise.min())


def test_what_a_relu_takes_off_is_that_of_the_matrix() -> None:
    found, exact = (made.gain for made in clipped(0.02))
    assert found is not None
    assert exact is not None
    np.testing.assert_array_equal(found.n, exact.n)
    np.testing.assert_allclose(found.factor, exact.factor, atol=0.008)


def test_without_noise_the_curve_is_known_until_directions_run_out_and_a_note_says_where() -> None:
    found, exact = both(0.0)
    np.testing.assert_allclose(found.errors(N[:6]), exact.errors(N[:6]), rtol=0.02)
    assert resolution_note(found, N[:6]) is None
    assert "from N = 256 on" in str(resolution_note(found, N))
    assert (found.errors(N[6:]) >= exact.errors(N[6:])).all()
    assert resolution_note(exact, N) is None
    assert resolution_note(both(0.02)[0], N) is None


def test_a_line_of_sensors_with_an_operator_before_the_targets() -> None:
    examples = HeatProblem(points=64, noise=0.05).examples(seed=3, count=40)
    moment = image_moment(examples.latents.numpy(), shrinkage=0.3)
    few = replace(examples, inputs=examples.inputs[:32], targets=examples.targets[:32])
    found, exact = (route(few, moment, relu=True) for route in (large_spectrum, dense_spectrum))
    assert found.gain is not None
    assert exact.gain is not None
    np.testing.assert_allclose(found.gain.factor[:4], exact.gain.factor[:4], rtol=0.04)
    found, exact = replace(found, gain=None), replace(exact, gain=None)
    np.testing.assert_allclose(found.errors(N), exact.errors(N), rtol=0.1)  # 64 inputs are few
    np.testing.assert_allclose(effective(found), effective(exact), rtol=0.05)


def test_the_same_call_gives_the_same_numbers_and_tells_how_far_it_is() -> None:
    examples, moment = ct(0.02)
    told: list[float] = []
    again = large_spectrum(examples, moment, relu=False, progress=told.append)
    first = both(0.02)[0]
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(again.signal, first.signal)
    assert told == sorted(told)
    assert told[0] < 0.05
    assert 0.8 < told[-2] <= told[-1] == 1.0


def small_products(shrinkage: float) -> tuple[Products, np.ndarray, np.ndarray]:
    """Products in double precision, and A and S as matrices."""
    scanner = CtScanner(side=6, views=5, bins=7, beam="parallel")
    made = CtProblem(scanner=scanner, noise=Gaussian(0.1)).examples(seed=1, count=9)
    moment = image_moment(made.latents.numpy(), shrinkage=shrinkage)
    gains = torch.linspace(0.5, 2.0, 36, dtype=torch.float64).reshape(6, 6)
    noise = torch.linspace(0.1, 0.4, 35, dtype=torch.float64).reshape(5, 7)
    forward = made.forward.in_double()
    examples = replace(made, forward=forward, wanted=Diagonal(gains), noise=noise)
    return Products(examples, moment), forward.as_matrix().numpy(), moment.matrix()


@pytest.mark.parametrize("shrinkage", [0.0, 0.4, 1.0])
def test_products_are_those_of_the_matrices(shrinkage: float) -> None:
    products, forward, second = small_products(shrinkage)
    unit = torch.eye(35, dtype=torch.float64)
    seen = forward @ second @ forward.T + np.diag(np.linspace(0.1, 0.4, 35))
    wanted = np.linspace(0.5, 2.0, 36)[:, None] * second @ forward.T
    np.testing.assert_allclose(products.apply(unit), seen, atol=1e-10)
    np.testing.assert_allclose(products.cross(unit), wanted.T, atol=1e-10)
    for found, same in zip(products.both(unit), (seen, wanted.T), strict=True):
        np.testing.assert_allclose(found, same, atol=1e-10)
    towards, energies = products.cross_back(torch.eye(36, dtype=torch.float64))
    np.testing.assert_allclose(towards, wanted, atol=1e-10)
    np.testing.assert_allclose(
        energies, np.linspace(0.5, 2.0, 36) ** 2 * np.diag(second), atol=1e-10
    )


@pytest.mark.parametrize(("energy", "rest"), [(None, 0.0), (4.5, 0.0), (None, 1.0)])
def test_no_more_is_explained_than_there_is(energy: float | None, rest: float) -> None:
    one = torch.ones(1, dtype=torch.float64)
    leading = Leading(torch.eye(35)[:1].double(), 2 * one, 3 * one, one[:, None], one.long())
    beyond = large.Beyond(one, one * 34, one * 5 if rest == 0 else one, left=2.0)
    made = large._assembled(small_products(1.0)[0], leading, beyond, energy, np.ones(2))
    assert made.energy == pytest.approx(5.0 if energy is None else energy)
    assert made.rest == pytest.approx(rest)
    assert made.rest >= 0


def diagonal(values: Tensor) -> Tensor:
    turned: Tensor = torch.linalg.qr(torch.randn(len(values), len(values)).double())[0]
    return turned @ torch.diag(values) @ turned.t()


def test_leading_vectors_are_eigenvectors() -> None:
    torch.manual_seed(0)
    matrix = diagonal(torch.arange(1, 121, dtype=torch.float64) ** -2.0)
    start = torch.randn(4, 120, dtype=torch.float64)
    vectors = leading_vectors(lambda rows: rows @ matrix, start, blocks=12, tolerance=1e-3)
    assert 8 <= len(vectors) < 48
    np.testing.assert_allclose(vectors @ vectors.t(), np.eye(len(vectors)), atol=1e-12)
    images = vectors @ matrix
    values = (images * vectors).sum(1)
    away = torch.linalg.vector_norm(images - values[:, None] * vectors, dim=1)
    assert bool((away <= 1.01e-3 * values).all())
    assert float(values.max()) == pytest.approx(1.0)


def test_lanczos_integrates_polynomials_and_solves_beside_what_was_taken_out() -> None:
    torch.manual_seed(1)
    values = torch.linspace(1, 3, 30, dtype=torch.float64)
    matrix = torch.diag(values)
    off = torch.eye(30, dtype=torch.float64)[-5:]
    starts = torch.randn(3, 30, dtype=torch.float64)
    starts[2] = torch.eye(30, dtype=torch.float64)[2] * 2  # an eigenvector: exhausted at once
    seen = lanczos(lambda rows: rows @ matrix, starts, steps=20, off=off)
    inside = starts.clone()
    inside[:, -5:] = 0
    for power in range(12):
        found = (seen.weights * seen.nodes**power).sum(1)
        np.testing.assert_allclose(found, inside.square() @ values**power, rtol=1e-9)
    np.testing.assert_allclose(seen.solved(0.3), inside / (values + 0.3), atol=1e-8)


def test_what_does_not_fit_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    examples, moment = ct(0.02)
    monkeypatch.setattr(large, "free_memory", lambda device: 2**20)
    with pytest.raises(KoriskError, match=r"320 inputs takes .* GiB on cpu, of 0.0 GiB free; use"):
        large_spectrum(examples, moment, relu=False)


def test_wrong_input_is_refused_in_words() -> None:
    examples, moment = ct(0.02)
    with pytest.raises(KoriskError, match=r"images \(16, 16\).*got \(8, 32\); take it of these"):
        large_spectrum(examples, replace(moment, shape=(8, 32)), relu=False)
    with pytest.raises(KoriskError, match=r"320 variances >= 0"):
        large_spectrum(replace(examples, noise=-examples.noise), moment, relu=False)
    with pytest.raises(KoriskError, match=r"320 variances >= 0"):
        large_spectrum(replace(examples, noise=examples.noise[0]), moment, relu=False)
    nothing = replace(examples, forward=0.0 * examples.forward, noise=0 * examples.noise)
    with pytest.raises(KoriskError, match="all inputs are zero"):
        large_spectrum(nothing, moment, relu=False)


@pytest.mark.parametrize("lines", [3, 5, 8])
def test_inputs_that_are_never_measured_explain_nothing(lines: int) -> None:
    problem = MriProblem(side=16, lines=lines, noise=Gaussian(0.05))
    examples = problem.examples(seed=3, count=64)
    moment = moment_of(examples)
    exact = dense_spectrum(examples, moment, relu=False)
    made = large_spectrum(examples, moment, relu=False)
    n = [4, 64, 1024, 4096]
    assert made.errors(n) == pytest.approx(exact.errors(n), rel=0.01)
    assert made.floor == pytest.approx(exact.floor, rel=0.01)
