"""Predictions from a user's inputs: an operator in any form, images and noise."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import korisk as kr
from korisk.errors import KoriskError
from korisk.operators import Matrix
from korisk.prediction import predict_dense, predict_structured
from korisk.prediction.api import examples_of
from korisk.prediction.misfit import BELIEF
from korisk.problems import CtProblem, CtScanner, Gaussian, Poisson

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
    "float32": FORWARD.astype(np.float32), "tensor": torch.from_numpy(FORWARD),
    "operator": Matrix(FORWARD, SHAPE, (14,)), "function": linear, "module": Convolved(),
}  # fmt: skip
IMAGES: list[Any] = [images().astype(np.float32), torch.from_numpy(images()), images().tolist()]


def test_operators_and_images_are_the_same_in_every_form() -> None:
    expected = predict_dense(FORWARD, images(), 0.1)
    assert (expected.parameters, expected.model, expected.examples) == (14 * 20, "FC", 40)
    for operator in OPERATORS.values():
        made = predict_dense(operator, images(), 0.1)
        assert made.computed(N) == pytest.approx(expected.computed(N), rel=1e-4)
        assert made.errors(N) == pytest.approx(expected.errors(N), rel=1e-3)
    for values in IMAGES:
        made = predict_dense(FORWARD, values, 0.1)
        assert made.computed(N) == pytest.approx(expected.computed(N), rel=1e-4)


def test_a_number_is_the_level_of_white_noise() -> None:
    level, kind = (examples_of(FORWARD, images(), noise) for noise in (0.2, Gaussian(0.2)))
    assert torch.equal(level.inputs, kind.inputs)
    assert torch.equal(level.noise, kind.noise)
    clean = level.forward(level.latents)
    assert float(level.noise.mean()) == pytest.approx(0.04 * float(clean.square().mean()))
    for none in (None, 0, 0.0, Gaussian(0.0)):
        assert not examples_of(FORWARD, images(), none).noise.any()
    assert (examples_of(np.abs(FORWARD), images(), Poisson(1e6)).noise > 0).all()
    again, other = (examples_of(FORWARD, images(), 0.2, seed=seed) for seed in (0, 1))
    assert torch.equal(level.inputs, again.inputs)
    assert not torch.equal(level.inputs, other.inputs)


@pytest.mark.parametrize(
    "function",
    [lambda batch: linear(batch).relu(), torch.square, lambda batch: linear(batch) + 1.0],
    ids=["relu", "x2", "+1"],
)
def test_operators_that_are_not_linear_are_refused(function: Any) -> None:
    centred = images() - 5.0
    centred[:20] = 0.0  # blank images are in many a folder
    with pytest.raises(KoriskError, match=r"operator is not linear: .*run a pilot instead"):
        predict_dense(function, centred, 0.1)


def rows(which: int, value: float) -> Array:
    return np.where(np.arange(9)[:, None] == which, value, 1.0)


@pytest.mark.parametrize(
    ("operator", "pictures", "noise", "words"),
    [
        (FORWARD, images(7), 0.1, "at least 8 example images, got 7"),
        (FORWARD[:, :19], images(), 0.1, "must have 19 entries for a matrix"),
        (FORWARD[0], images(), 0.1, "matrix must have two dimensions"),
        (Matrix(FORWARD, (5, 4), (14,)), images(), 0.1, "images must have the operator's shape"),
        (FORWARD, np.ones(8), 0.1, r"got \(8,\); convert and stack them"),
        (FORWARD, rows(3, np.nan), 0.1, "image 3 contains NaN"),
        (FORWARD, images() * 0, 0.1, "bring images that are not empty"),
        (FORWARD, np.full((8, 4, 5), 1e200), 0.1, "got 1e.200; scale them"),
        (FORWARD, images() + 1j, 0.1, "images must be real numbers"),
        (FORWARD, [[1.0], [1.0, 2.0]] * 4, 0.1, "images must be real numbers"),
        (FORWARD * np.nan, images(), 0.1, "finite"),
        (np.zeros((3, 20)), images(), 0.1, "inputs .* not all zero, got values up to 0"),
        (Matrix(FORWARD.astype(np.float32), SHAPE, (14,)), images() * 1e25, 0.1, "can square"),
        ("radon", images(), 0.1, "operator must be a LinearOperator, a matrix or a function"),
        (FORWARD, images(), -0.1, "level must be"),
        (FORWARD, images(), "much", "noise must be"),
        (linear, np.ones((8, 65, 65)), 0.1, "4,225 pixels, which would be called for each"),
        (lambda batch: batch[0], images(), 0.1, "one output for each image"),
        (lambda batch: "none", images(), 0.1, "real tensor .* got 'none'"),
        (FORWARD + 0j, images(), 0.1, "matrix must be real"),
        (torch.fft.fft2, images(), 0.1, "stack real and imaginary parts"),
    ],
)
def test_wrong_inputs_are_refused(operator: Any, pictures: Any, noise: Any, words: str) -> None:
    with pytest.raises(KoriskError, match=words) as refused:
        predict_dense(operator, pictures, noise)
    assert "\n" not in str(refused.value)


BACK = FORWARD.T


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tail": ()}, "got 0 operators"),
        ({"tail": [FORWARD]}, "must have 20 entries for a matrix of 14 x 20"),
        ({"tail": ["fbp"]}, "tail must contain LinearOperators or matrices, got 'fbp'"),
        ({"tail": np.eye(14)}, r"tail must map inputs \(14,\) to images \(4, 5\)"),
        ({"tail": BACK, "weights": np.ones(13)}, r"shape \(14\), got .* of shape \(13\)"),
        ({"tail": BACK, "weights": np.full(14, np.nan)}, "weights must be finite numbers"),
        ({"tail": BACK, "toward": "analytical"}, "toward must be one of analytic, zero"),
    ],
)
def test_wrong_tails_and_weights_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        predict_structured(FORWARD, images(), 0.1, **settings)


def test_without_noise_it_levels_off_at_the_part_that_is_not_seen() -> None:
    """Of independent pixels of variance one, an operator of rank 14 leaves 6 of 20 unseen."""
    rng = np.random.default_rng(2)
    white = rng.standard_normal((4000, *SHAPE))
    made = predict_dense(FORWARD, white, rehearsal=False)
    assert made.floor == pytest.approx(6 / 20, rel=0.02)
    assert made.valid_to == pytest.approx(0.75 * 14)
    assert "rank 14 of 14 inputs" in made.notes[0]
    assert f"levels off at {made.floor:.3g}" in made.notes[0]
    doubled = predict_dense(np.concatenate([FORWARD, FORWARD]), white, rehearsal=False)
    assert doubled.floor == pytest.approx(6 / 20, rel=0.02)
    assert "rank 14 of 28 inputs" in doubled.notes[0]
    whole = predict_dense(np.eye(20), white, rehearsal=False)
    assert whole.floor == pytest.approx(0.0, abs=1e-9)
    noisy = predict_dense(FORWARD, white, 0.1, rehearsal=False)
    assert (noisy.valid_to, noisy.notes) == (math.inf, ())
    assert noisy.floor > made.floor


def test_notes_tell_of_few_images_and_of_images_that_the_theory_does_not_fit() -> None:
    few = predict_dense(FORWARD, images(8), 0.1)
    assert "8 images leave the errors' size uncertain" in few.notes[0]
    assert not predict_dense(FORWARD, images(64), 0.1, rehearsal=False).notes
    copies = predict_dense(FORWARD, np.stack([images(1)[0]] * 8), 0.1)
    assert "equally bright" in copies.notes[0]
    rng = np.random.default_rng(4)  # a pixel that few images light makes fits to them differ
    pictures = rng.random((128, 6, 6))
    pictures[rng.permutation(128)[:6], 0, 0] = 40.0
    lit = predict_dense(np.eye(36), pictures, 0.01)
    assert any("few images have the features that matter" in note for note in lit.notes)
    # Images of which one in ten is a hundred times as bright are no field with one moment.
    rng = np.random.default_rng(3)
    rare = np.where(np.arange(256) % 10 == 0, 100.0, 1.0)[:, None, None]
    odd = rng.standard_normal((256, 20, 1)) ** 3 * rng.standard_normal((256, 1, 20)) ** 3 * rare
    made = predict_dense(np.eye(400), odd, 0.02)
    assert any("the theory does not fit these images well" in note for note in made.notes)


def test_patients_widen_the_bands_and_one_is_refused() -> None:
    rng = np.random.default_rng(0)
    whose = np.repeat(np.arange(3), 20)
    seen = images(3)[whose] + 0.1 * rng.standard_normal((60, *images(1).shape[1:]))
    tail: Array = np.asarray(np.linalg.pinv(FORWARD))
    dense = partial(predict_dense, rehearsal=False)
    for predicted in (dense, partial(predict_structured, tail=tail)):
        told, untold = (predicted(FORWARD, seen, 0.1, patients=each) for each in (whose, None))
        assert untold.independent == 60
        assert (told.independent or 60) < 6
        assert any("60 images of 3 patients are worth about" in note for note in told.notes)
        widths = [np.log(high / low) for low, high in (each.band(N) for each in (told, untold))]
        assert (widths[0] > widths[1]).all()
        own = predicted(FORWARD, seen, 0.1, patients=range(60))
        assert own.errors(N) == pytest.approx(untold.errors(N))
        with pytest.raises(KoriskError, match="two patients or more, got 60 images of one, 'a'"):
            predicted(FORWARD, seen, 0.1, patients=["a"] * 60)
        with pytest.raises(KoriskError, match="patient of each of 60 images, got 3"):
            predicted(FORWARD, seen, 0.1, patients=range(3))


def test_level_rehearsal_relu_and_pilot_reach_the_prediction() -> None:
    energies = np.square(images()).sum(axis=(1, 2))
    alone = predict_dense(FORWARD, images(), 0.1, rehearsal=False)
    assert alone.level == pytest.approx(energies.std(ddof=1) / energies.mean() / math.sqrt(40))
    assert not len(alone.rehearsal)
    made = predict_dense(FORWARD, images(), 0.1)
    assert made.level == max(alone.level, made.rehearsal.level) > 0
    assert len(made.rehearsal)
    raised = BELIEF.raised * BELIEF.unseen * N / (N + 40) / math.sqrt(40)
    assert alone.errors(N) == pytest.approx(alone.computed(N) * np.exp(raised), rel=1e-6)
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


def test_known_operators_behind_weights_have_a_curve() -> None:
    scanner = CtScanner(side=8, views=10, bins=8, beam="surrogate")
    latents = CtProblem(scanner=scanner, noise=Gaussian(0.1)).examples(seed=0, count=48).latents
    weights, tail = scanner.reconstruction()
    made = predict_structured(scanner.projector(), latents, 0.1, tail=tail, weights=weights)
    assert (made.model, made.parameters) == ("KO", 80)
    assert (np.diff(made.computed(N)) <= 0).all()
    assert made.computed(1e7)[0] == pytest.approx(made.floor, rel=0.01)
    ones = predict_structured(scanner.projector(), latents, 0.1, tail=tail[0])
    assert ones.computed(N) == pytest.approx(made.computed(N))  # the surrogate's weights are ones
    alone = predict_structured(FORWARD, images(), 0.02, tail=BACK)
    both = predict_structured(FORWARD, images(), 0.02, tail=[np.eye(14), BACK])
    assert both.errors([64]) == pytest.approx(alone.errors([64]))


def test_weights_that_are_exact_leave_rounding_and_no_zero() -> None:
    """An error of zero has no logarithm, and no place in a figure or a file."""
    tail = Matrix(np.eye(20), (20,), SHAPE)
    made = predict_structured(np.eye(20), images(), tail=tail)
    energy = float(np.square(images()).mean())
    assert made.floor == 0
    assert (made.computed(N) > 0).all()
    assert (made.errors(N) < 1e-12 * energy).all()
    assert made.samples(1e-6) == 2
