"""Predictions from what a user brings: an operator in any form, images and noise."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import korisk as kr
from korisk.errors import KoriskError
from korisk.operators import Matrix
from korisk.prediction.api import (
    dense_prediction,
    known_prediction,
    predict_dense,
    predict_structured,
)
from korisk.prediction.user_inputs import examples_of
from korisk.problems import CtProblem, CtScanner, Gaussian, HeatProblem, MriProblem, Poisson

Array = NDArray[np.float64]

SHAPE = (4, 5)  # not square, so that rows and columns cannot be mistaken
N = np.array([2.0, 8, 30, 200, 5000])
FORWARD = np.random.default_rng(0).standard_normal((14, 20))


def images(count: int = 40, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.exponential(size=(count, *SHAPE)).cumsum(axis=2))


def linear(batch: Tensor) -> Tensor:
    return batch.flatten(1) @ torch.from_numpy(FORWARD).T


class Convolved(nn.Module):
    """A linear map that was written as a network, in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(20, 14, bias=False)
        self.inner.weight.data = torch.from_numpy(FORWARD).float()

    def forward(self, batch: Tensor) -> Tensor:
        return self.inner(batch.flatten(1)).reshape(-1, 2, 7)  # type: ignore[no-any-return]


OPERATORS: dict[str, Any] = {
    "matrix": FORWARD,
    "float32": FORWARD.astype(np.float32),
    "tensor": torch.from_numpy(FORWARD),
    "operator": Matrix(FORWARD, SHAPE, (14,)),
    "function": linear,
    "module": Convolved(),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())
def test_an_operator_is_the_same_in_every_form(operator: Any) -> None:
    expected = predict_dense(FORWARD, images(), 0.1)
    made = predict_dense(operator, images(), 0.1)
    assert made.computed(N) == pytest.approx(expected.computed(N), rel=1e-4)
    assert made.errors(N) == pytest.approx(expected.errors(N), rel=1e-3)
    assert made.parameters == 14 * 20
    assert (made.model, made.examples) == ("FC", 40)


@pytest.mark.parametrize(
    "given",
    [images().astype(np.float32), torch.from_numpy(images()), images().tolist()],
    ids=["float32", "tensor", "lists"],
)
def test_images_may_come_as_arrays_tensors_or_lists(given: Any) -> None:
    expected = predict_dense(FORWARD, images(), 0.1).computed(N)
    assert predict_dense(FORWARD, given, 0.1).computed(N) == pytest.approx(expected, rel=1e-4)


def test_a_number_is_the_level_of_white_noise() -> None:
    level, kind = (examples_of(FORWARD, images(), noise) for noise in (0.2, Gaussian(0.2)))
    assert torch.equal(level.inputs, kind.inputs)
    assert torch.equal(level.noise, kind.noise)
    clean = level.forward(level.latents)
    assert float(level.noise.mean()) == pytest.approx(0.04 * float(clean.square().mean()))
    for none in (None, 0, 0.0, Gaussian(0.0)):
        assert not examples_of(FORWARD, images(), none).noise.any()
    photons = examples_of(np.abs(FORWARD), images(), Poisson(1e6))
    assert (photons.noise > 0).all()


def test_another_seed_draws_other_noise() -> None:
    first, again, other = (examples_of(FORWARD, images(), 0.2, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)


def test_more_noise_makes_every_error_larger() -> None:
    found = [predict_dense(FORWARD, images(), noise).computed(N) for noise in (0.01, 0.1, 1.0)]
    assert (np.diff(found, axis=0) > 0).all()


# --- Refused in words ----------------------------------------------------------------------------


def shifted(batch: Tensor) -> Tensor:
    return linear(batch) + 1.0


@pytest.mark.parametrize(
    "function",
    [lambda batch: linear(batch).relu(), torch.square, shifted],
    ids=["relu", "x2", "+1"],
)
def test_operators_that_are_not_linear_are_refused(function: Any) -> None:
    centred = images() - 5.0
    centred[:20] = 0.0  # blank images are in many a folder
    with pytest.raises(KoriskError, match=r"the operator is not linear: .*run a pilot instead"):
        predict_dense(function, centred, 0.1)


@pytest.mark.parametrize(
    ("operator", "given", "noise", "words"),
    [
        (FORWARD, images(7), 0.1, "at least 8 example images, got 7"),
        (FORWARD[:, :19], images(), 0.1, "must have 20 columns, got shape"),
        (FORWARD[0], images(), 0.1, "must have 20 columns, got shape"),
        (Matrix(FORWARD, (5, 4), (14,)), images(), 0.1, "images must have the operator's shape"),
        (FORWARD, images()[:, None], 0.1, "images must have the shape"),
        (FORWARD, images() * np.nan, 0.1, "image 0 holds NaN"),
        (FORWARD * np.nan, images(), 0.1, "finite"),
        (np.zeros((3, 20)), images(), 0.1, "all inputs are zero"),
        ("radon", images(), 0.1, "operator must be a LinearOperator, a matrix or a function"),
        (FORWARD, images(), -0.1, "level must be"),
        (FORWARD, images(), math.nan, "level must be"),
        (FORWARD, images(), "much", "noise must be"),
        (linear, np.ones((8, 65, 65)), 0.1, "of 4,225 pixels would have to be called for each"),
        (lambda batch: batch[0], images(), 0.1, "one output for each image"),
        (lambda batch: "none", images(), 0.1, "must give a tensor"),
        (lambda batch: batch.sum((1, 2)), images(), 0.1, "must give a tensor"),
        (FORWARD + 0j, images(), 0.1, "stack real and imaginary parts"),
        (torch.fft.fft2, images(), 0.1, "stack real and imaginary parts"),
        (linear, images(), True, "noise must be"),
    ],
)
def test_what_cannot_be_used_is_refused(operator: Any, given: Any, noise: Any, words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        predict_dense(operator, given, noise)


# --- What it says --------------------------------------------------------------------------------


def test_without_noise_it_levels_off_at_what_is_not_seen() -> None:
    """Of independent pixels of variance one, an operator of rank 14 leaves 6 of 20 unseen."""
    rng = np.random.default_rng(2)
    white = rng.standard_normal((4000, *SHAPE))
    made = predict_dense(FORWARD, white, rehearsal=False)
    assert made.floor == pytest.approx(6 / 20, rel=0.02)
    assert made.valid_to == pytest.approx(0.75 * 14)
    assert "rank 14 of 14 inputs" in made.notes[0]
    assert "does not see all of the image" in made.notes[1]
    doubled = predict_dense(np.concatenate([FORWARD, FORWARD]), white, rehearsal=False)
    assert doubled.floor == pytest.approx(6 / 20, rel=0.02)
    assert "rank 14 of 28 inputs" in doubled.notes[0]
    whole = predict_dense(np.eye(20), white, rehearsal=False)
    assert whole.floor == pytest.approx(0.0, abs=1e-9)
    assert len(whole.notes) == 1
    noisy = predict_dense(FORWARD, white, 0.1, rehearsal=False)
    assert (noisy.valid_to, noisy.notes) == (math.inf, ())
    assert noisy.floor > made.floor


def test_few_images_are_told_that_they_are() -> None:
    assert (
        "8 images leave the errors' size uncertain"
        in predict_dense(FORWARD, images(8), 0.1).notes[0]
    )
    assert not predict_dense(FORWARD, images(64), 0.1, rehearsal=False).notes


def test_a_theory_that_does_not_fit_the_images_says_so() -> None:
    """Images of which one in ten is a hundred times as bright are no field with one moment."""
    rng = np.random.default_rng(3)
    rare = np.where(np.arange(256) % 10 == 0, 100.0, 1.0)[:, None, None]
    odd = rng.standard_normal((256, 20, 1)) ** 3 * rng.standard_normal((256, 1, 20)) ** 3 * rare
    made = predict_dense(np.eye(400), odd, 0.02)
    assert any("the theory does not fit these images well" in note for note in made.notes)


def test_the_band_knows_how_much_images_differ_in_energy() -> None:
    energies = np.square(images()).sum(axis=(1, 2))
    made = predict_dense(FORWARD, images(), 0.1)
    assert made.level == pytest.approx(energies.std(ddof=1) / energies.mean() / math.sqrt(40))


def test_a_rehearsal_can_be_left_out() -> None:
    made = predict_dense(FORWARD, images(), 0.1, rehearsal=False)
    assert made.rehearsal is None
    assert made.errors(N) == pytest.approx(made.computed(N), rel=1e-6)
    assert predict_dense(FORWARD, images(), 0.1).rehearsal is not None


def test_a_relu_and_a_pilot_are_passed_on() -> None:
    plain, clipped = (
        predict_dense(FORWARD, images() - 3.5, 0.3, relu=relu, rehearsal=False)
        for relu in (False, True)
    )
    assert (clipped.computed(N) != plain.computed(N)).all()
    pilot = kr.Curve([8, 16, 32], plain.computed([8, 16, 32]) * 1.5)
    held = predict_dense(FORWARD, images() - 3.5, 0.3, pilot=pilot, rehearsal=False)
    assert held.pilot is pilot
    assert held.errors(16)[0] > 1.2 * plain.errors(16)[0]


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_units_do_not_matter(factor: float) -> None:
    plain = predict_dense(FORWARD, images(), 0.1, relu=True)
    bright = predict_dense(FORWARD, factor * images(), 0.1, relu=True)
    assert bright.errors(N) / factor**2 == pytest.approx(plain.errors(N), rel=1e-4)
    loud = predict_dense(factor * FORWARD, images(), 0.1, relu=True)
    assert loud.errors(N) == pytest.approx(plain.errors(N), rel=1e-4)


def test_one_pixel_is_an_image() -> None:
    rng = np.random.default_rng(0)
    made = predict_dense(np.ones((1, 1)), rng.standard_normal((5000, 1, 1)), 1.0, rehearsal=False)
    assert made.floor == pytest.approx(0.5, rel=0.02)  # of y from y + noise of equal size
    assert made.effective(1e6) == pytest.approx(1.0, rel=1e-3)


# --- Problems ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        CtProblem(scanner=CtScanner(side=8, views=10, bins=8, beam="fan"), noise=Gaussian(0.1)),
        MriProblem(side=8, lines=5, noise=Gaussian(0.1)),
        HeatProblem(points=16),
    ],
    ids=["ct", "mri", "heat"],
)
def test_problems_have_curves_of_both_models(problem: Any) -> None:
    examples = problem.examples(seed=0, count=64)
    dense = dense_prediction(examples, relu=False)
    known = known_prediction(examples, problem.reconstruction())
    for made in (dense, known):
        errors = made.errors(N)
        assert np.isfinite(errors).all()
        assert (np.diff(errors) <= 1e-12).all()
    energy = float(examples.targets.double().square().mean())
    assert dense.computed(1)[0] <= 1.01 * energy
    assert known.parameters == math.prod(examples.inputs.shape[1:])


def test_known_operators_behind_weights_have_a_curve() -> None:
    scanner = CtScanner(side=8, views=10, bins=8, beam="surrogate")
    problem = CtProblem(scanner=scanner, noise=Gaussian(0.1))
    latents = problem.examples(seed=0, count=48).latents
    weights, tail = scanner.reconstruction()
    made = predict_structured(scanner.projector(), latents, 0.1, tail=tail, weights=weights)
    assert (made.model, made.parameters) == ("KO", 80)
    assert (np.diff(made.computed(N)) <= 0).all()
    assert made.computed(1e7)[0] == pytest.approx(made.floor, rel=0.01)
    ones = predict_structured(scanner.projector(), latents, 0.1, tail=tail[0])
    assert ones.computed(N) == pytest.approx(made.computed(N))  # the surrogate's weights are ones
    with pytest.raises(KoriskError, match="tail must hold at least one known operator"):
        predict_structured(scanner.projector(), latents, 0.1, tail=())


def test_weights_that_are_exact_leave_rounding_and_no_zero() -> None:
    """An error of zero has no logarithm, and no place in a figure or a file."""
    tail = Matrix(np.eye(20), (20,), SHAPE)
    made = predict_structured(np.eye(20), images(), tail=tail)
    energy = float(np.square(images()).mean())
    assert made.floor == 0
    assert (made.computed(N) > 0).all()
    assert (made.errors(N) < 1e-12 * energy).all()
    assert made.samples(1e-6).samples == 2


def test_matrices_serve_as_a_tail_and_functions_that_fail_are_named() -> None:
    rng = np.random.default_rng(0)
    matrix, images = rng.normal(size=(40, 64)), rng.random((16, 8, 8))
    alone = kr.predict_structured(matrix, images, 0.02, tail=matrix.T)
    both = kr.predict_structured(matrix, images, 0.02, tail=[np.eye(40), matrix.T])
    assert both.errors([64]) == pytest.approx(alone.errors([64]))
    with pytest.raises(KoriskError, match="must have 40 columns"):
        kr.predict_structured(matrix, images, 0.02, tail=[matrix])
    with pytest.raises(KoriskError, match="fails on a batch"):
        kr.predict_dense(torch.nn.Linear(64, 40, bias=False), images, 0.02)


def test_features_that_few_images_have_are_named() -> None:
    """A pixel that one image in twenty lights makes fits to different images differ."""
    rng = np.random.default_rng(4)
    images = rng.random((128, 6, 6))
    common = predict_dense(np.eye(36), images, 0.01)
    assert not any("few images have" in note for note in common.notes)
    images[rng.permutation(128)[:6], 0, 0] = 40.0
    rare = predict_dense(np.eye(36), images, 0.01)
    assert any("few images have what matters" in note for note in rare.notes)
