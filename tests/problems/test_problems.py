"""Laws of every problem, its pools and examples; MRI, blur, heat and that with two unknowns."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import Warp
from korisk.problems import (
    HANDLED,
    BlurProblem,
    CtProblem,
    CtScanner,
    EllipseSource,
    FileSource,
    Gaussian,
    Motion,
    MriProblem,
    Noise,
    PdeProblem,
    Poisson,
    Problem,
)
from korisk.problems.imaging import ImageProblem
from korisk.problems.pde import wave_series

FAN = CtScanner(side=8, views=10, bins=8, beam="fan")
SURROGATE = CtScanner(side=16, views=6, bins=16, beam="surrogate")
PROBLEMS: dict[str, Problem] = {
    "fan": CtProblem(scanner=FAN, noise=Gaussian(0.1)),
    "photons": CtProblem(scanner=SURROGATE, noise=Poisson(1e4)),
    "released": CtProblem(scanner=SURROGATE, population="released", noise=Gaussian(0.1)),
    "surrogate": CtProblem(scanner=SURROGATE, population="released-surrogate", noise=Gaussian(0.1)),
    "mri": MriProblem(side=8, lines=5, noise=Gaussian(0.2)),
    "coils": MriProblem(side=8, lines=5, coils=3, noise=Gaussian(0.2)),
    "radial": MriProblem(side=8, lines=6, trajectory="radial", noise=Gaussian(0.2)),
    "spiral": MriProblem(side=8, lines=2, trajectory="spiral", coils=2, noise=Gaussian(0.2)),
    "moving": CtProblem(
        scanner=CtScanner(side=8, views=10, bins=8, beam="fan", motion=Motion(turn=5)),
        noise=Gaussian(0.1),
    ),
    "blur": BlurProblem(side=8, noise=Gaussian(0.2)),
    "plane": PdeProblem(dimension=2, points=6, noise=0.1),
    "heat": PdeProblem(points=16, noise=0.1),
}
BURGERS = PdeProblem(equation="burgers", points=8, fine=2, decay=1.5, amplitude=0.5)


@pytest.mark.parametrize("problem", [*PROBLEMS.values(), BURGERS], ids=[*PROBLEMS, "burgers"])
def test_samples_do_not_depend_on_the_pools_size_nor_the_test_set_on_the_seed(
    problem: Problem,
) -> None:
    sizes: dict[str, Any] = {"validation": 0, "test": 2}
    few = problem.pools(seed=1, train=2, **sizes)
    many = problem.pools(seed=1, train=5, **sizes)
    other = problem.pools(seed=2, train=2, **sizes)
    # A product with more columns may round the last bit otherwise, in the inputs' own precision.
    last_bits = 8 * torch.finfo(few.train.inputs.dtype).eps
    torch.testing.assert_close(
        few.train.inputs, many.train.inputs[:2], rtol=last_bits, atol=last_bits
    )
    torch.testing.assert_close(few.train.targets, many.train.targets[:2])
    assert not torch.equal(few.train.targets, other.train.targets)
    surrogate = isinstance(problem, CtProblem) and problem.population == "released-surrogate"
    assert torch.equal(few.test.targets, other.test.targets) != surrogate


@pytest.mark.parametrize("name", ["fan", "released", "surrogate", "mri", "coils", "spiral", "blur"])
def test_inputs_are_measured_of_the_targets_with_the_noise_that_is_stated(name: str) -> None:
    problem = PROBLEMS[name]
    assert isinstance(problem, ImageProblem)
    inputs, targets = problem.pools(seed=3, train=128, validation=0, test=0).train
    clean = problem.operator()(targets)
    added = (inputs - clean).double()
    if isinstance(problem, MriProblem) and problem.trajectory is None:
        measured = torch.from_numpy(problem.mask)
        assert not added[..., ~measured, :].any()  # neither signal nor noise
        added, clean = added[..., measured, :], clean[..., measured, :]
    size, rms = (x.double().square().flatten(1).mean(1).sqrt() for x in (added, clean))
    assert isinstance(problem.noise, Gaussian)
    assert float(size.sum() / rms.sum()) == pytest.approx(problem.noise.level, rel=0.05)


def rows(targets: Tensor) -> set[bytes]:
    """Those with anything on them."""
    return {each.numpy().tobytes() for each in targets if each.any()}


def test_sources_draw_what_they_are_told_to_and_problems_without_noise_have_none() -> None:
    counts = {"train": 20}
    one = EllipseSource(fewest=1, most=1).draw(16, seed=0, counts=counts, device=None)["train"]
    assert (one.dtype, one.shape) == (torch.float64, (20, 16, 16))
    values = {len(set(image.ravel().tolist())) for image in one.numpy()}
    assert max(values) == 2  # one ellipse, and nothing
    coils = MriProblem(side=8, lines=5, coils=2)
    for problem in (CtProblem(scanner=FAN), coils, BlurProblem(side=8)):
        inputs, targets = problem.pools(seed=0, train=8, validation=0, test=0).train
        torch.testing.assert_close(inputs, problem.operator()(targets))


def folder(path: Path, count: int) -> FileSource:
    rng = np.random.default_rng(0)
    np.save(path / "images.npy", rng.random((count, 8, 8)).astype(np.float32))
    return FileSource(path=str(path), unit="plain")


def test_files_give_all_they_have_and_each_once(tmp_path: Path) -> None:
    source = folder(tmp_path, 20)
    every, _ = source.examples(8, seed=0, count=64)
    assert len(every) == len(rows(every)) == 20
    assert torch.equal(source.examples(8, seed=0, count=5)[0], every[:5])
    other, _ = source.examples(8, seed=1, count=64)
    assert rows(other) == rows(every)
    assert not torch.equal(other, every)
    single = replace(source, patients="image")
    pools = single.draw(8, seed=1, counts={"train": 3, "test": 2}, device=None)
    assert {name: len(pool) for name, pool in pools.items()} == {"train": 3, "test": 2}
    changed = FileSource(path=source.path, unit="plain", fingerprint="another")
    with pytest.raises(KoriskError, match="have changed since the study was made"):
        changed.examples(8, seed=0, count=5)


def test_patients_take_turns_as_examples(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("ann", 9), ("bob", 2), ("eve", 4)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "1.npy", rng.random((count, 8, 8)))
    source = FileSource(path=str(tmp_path))
    images, order = source.examples(8, seed=0, count=64)
    assert [len(set(order[at : at + 3])) for at in (0, 3)] == [3, 3]
    assert set(order[6:8]) == {"ann", "eve"}
    whole = source.read(8)
    for image, patient in zip(images.numpy(), order, strict=True):
        (at,) = np.flatnonzero((whole.images == image).all(axis=(1, 2)))
        assert whole.patients[at] == patient  # labels stay with their images


def test_examples_are_drawn_without_blank_images_and_pools_with_them(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((12, 8, 8))
    values[:4] *= 0.001
    np.save(tmp_path / "a.npy", values)
    counts = {"train": 12, "validation": 0, "test": 0}
    for blank, examples, pool in ((None, 8, 12), ("skip", 8, 8), ("keep", 12, 12)):
        source = FileSource(path=str(tmp_path), patients="image", blank=blank)  # type: ignore[arg-type]
        assert len(source.examples(8, seed=0, count=64)[0]) == examples
        drawn = source.draw(8, seed=0, counts=counts | {"train": pool}, device=None)
        assert len(drawn["train"]) == pool


@pytest.mark.parametrize("noise", [Gaussian(0.3), Poisson(2e4)])
def test_noise_has_the_variance_that_its_definition_says(noise: Noise) -> None:
    clean, width = np.linspace(0.1, 2.0, 12).reshape(4, 3), 4.0
    rng = np.random.default_rng(0)
    drawn = [noise.sample(clean, rng, width=width) - clean for _ in range(3000)]
    if isinstance(noise, Gaussian):
        expected = np.full(clean.shape, noise.level**2 * np.mean(clean**2))
    else:  # log of Poisson counts: 1 / mean, to first order
        scale = noise.attenuation / width
        expected = np.exp(scale * clean) / noise.photons / scale**2
    assert np.square(drawn).mean(axis=0) == pytest.approx(expected, rel=0.15)


def test_without_noise_the_true_layers_give_the_targets() -> None:
    whole = MriProblem(side=8, lines=8)
    heat = PdeProblem(points=16, noise=0.0, assumed=0.5)
    for problem, layers in ((whole, whole.reconstruction()), (heat, heat.truth())):
        weights, (operator,) = layers
        for inputs, targets in problem.pools(seed=1, train=3, validation=2, test=2):
            torch.testing.assert_close(operator(weights * inputs), targets)


@st.composite
def problems(draw: st.DrawFn) -> MriProblem:
    side = 2 * draw(st.integers(2, 40))
    lines = draw(st.integers(1, side))
    centre = draw(st.none() | st.integers(1, lines))
    return MriProblem(side=side, lines=lines, centre=centre)


@given(problems())
def test_a_mask_has_its_lines_its_centre_and_the_mirror_image_of_each(problem: MriProblem) -> None:
    mask, middle = problem.mask, problem.side // 2
    assert mask.sum() == problem.lines
    assert problem.centre is not None
    reach = (problem.centre - 1) // 2
    assert mask[middle - reach : middle + reach + 1].all()
    assert np.array_equal(mask[1:], mask[1:][::-1])  # index 0 is its own mirror


def test_outer_lines_are_spread_evenly_and_samples_are_numpys_transform() -> None:
    taken = np.flatnonzero(MriProblem(side=32, lines=18, centre=9).mask) - 16
    outer = taken[taken > 4]
    assert len(outer) == 4
    assert set(np.diff(outer)) <= {2, 3}
    assert outer[0] > 5  # the first gap is not swallowed by the centre
    problem = MriProblem(side=8, lines=5, centre=3)
    inputs, targets = problem.pools(seed=1, train=1, validation=0, test=0).train
    centred = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(targets[0].numpy()), norm="ortho"))
    expected = centred * problem.mask
    np.testing.assert_allclose(inputs[0, ..., 0], expected.real, atol=1e-12)
    np.testing.assert_allclose(inputs[0, ..., 1], expected.imag, atol=1e-12)


def test_noise_falls_on_the_lines_that_were_taken_and_has_its_size() -> None:
    before, after = (
        MriProblem(side=32, lines=16, noise=noise).pools(seed=1, train=20, validation=0, test=0)
        for noise in (None, Gaussian(0.5))
    )
    added = after.train.inputs - before.train.inputs
    mask = torch.from_numpy(MriProblem(side=32, lines=16).mask)
    assert not added[:, :, ~mask].any()
    taken, signal = added[:, :, mask], before.train.inputs[:, :, mask]
    levels = 0.5 * signal.square().mean((1, 2, 3)).sqrt()
    ratio = taken.square().mean((1, 2, 3)).sqrt() / levels
    assert ((ratio - 1).abs() < 0.15).all()


def test_coils_tell_what_lines_leave_out() -> None:
    errors = []
    for coils in (None, 2, 6):
        known: dict[str, Any] = {} if coils is None else {"coils": coils, "mu": 1e-6}
        problem = MriProblem(side=16, lines=8, **known)
        inputs, targets = problem.pools(seed=1, train=4, validation=0, test=0).train
        weights, (inverse,) = problem.reconstruction()
        assert weights.shape == inputs.shape[1:]
        errors.append(float((inverse(weights * inputs) - targets).square().mean()))
    assert errors[2] < errors[1] < 0.2 * errors[0]
    assert errors[2] < 1e-8


def test_a_camera_shows_a_blurred_image_times_its_gains_which_can_be_learned() -> None:
    problem = BlurProblem(side=16, deviation=0.7, gain=0.5, mu=1e-9)
    inputs, targets = problem.pools(seed=1, train=3, validation=0, test=0).train
    blurred = [scipy.ndimage.gaussian_filter(x, 0.7, mode="constant") for x in targets.numpy()]
    np.testing.assert_allclose(inputs, problem.gains * np.array(blurred), atol=1e-3)
    _, (inverse,) = problem.reconstruction()
    weights = torch.from_numpy(1 / problem.gains)
    torch.testing.assert_close(inverse(weights * inputs), targets, atol=1e-3, rtol=0)
    wrong = BlurProblem(side=16, deviation=0.7, assumed=1.0, mu=1e-9).reconstruction().tail[0]
    assert float((wrong(weights * inputs) - targets).abs().max()) > 0.1
    assert problem.gains.min() >= math.exp(-0.5)
    assert problem.gains.max() <= math.exp(0.5)


def test_the_reconstruction_has_the_assumed_viscosity() -> None:
    problem = PdeProblem(points=32, viscosity=0.01, assumed=0.03, speed=0.0, time=0.5)
    for (_, (flow,)), viscosity in ((problem.reconstruction(), 0.03), (problem.truth(), 0.01)):
        wave = torch.cos(2 * math.pi * torch.arange(32, dtype=torch.float64) / 32)
        decay = math.exp(-viscosity * (2 * math.pi) ** 2 * 0.5)
        torch.testing.assert_close(flow(wave), decay * wave)


def test_fields_sensors_and_noise_have_the_sizes_they_claim() -> None:
    problem = PdeProblem(points=33, noise=0.2, gain=0.5, amplitude=2.0, time=0.0)
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


@pytest.mark.parametrize("points", [2, 3, 8, 9])
def test_fields_are_the_series_that_the_docs_write_down(points: int) -> None:
    rng = np.random.default_rng(0)
    cosine, sine = rng.standard_normal((2, points // 2))
    x = np.arange(points) / points
    waves = np.arange(1, points // 2 + 1)[:, None]
    expected = cosine @ np.cos(2 * np.pi * waves * x) + sine @ np.sin(2 * np.pi * waves * x)
    np.testing.assert_allclose(wave_series(cosine, sine, points), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MriProblem(side=9, lines=4), "side must be even"),
        (lambda: MriProblem(side=8, lines=9), "lines must be"),
        (lambda: MriProblem(side=8, lines=4, centre=5), "centre must be"),
        (lambda: MriProblem(side=8, lines=4, coils=0), "coils must be"),
        (lambda: MriProblem(side=8, lines=4, mu=5.0), "belongs to several coils"),
        (lambda: BlurProblem(side=8, assumed=0.0), "assumed must be"),
        (lambda: BlurProblem(side=8, gain=6.0), "gain must be .* <= 5, got 6"),
        (lambda: BlurProblem(side=8, mu=0.0), "mu must be"),
        (lambda: PdeProblem(points=1), "points must be"),
        (lambda: PdeProblem(viscosity=-1.0), "viscosity must be"),
        (lambda: PdeProblem(gain=6.0), "gain must be .* <= 5, got 6"),
        (lambda: PdeProblem(amplitude=0.0), "amplitude must be"),
        (lambda: PdeProblem().pools(seed=-1, train=1, validation=0, test=0), "seed must be"),
        (lambda: Motion(), "motion must move something"),
        (lambda: Motion(turn=400), "turn must be"),
        (lambda: Motion(turn=1, states=1), "states must be"),
        (lambda: Motion(shift=(1,)), "shift must be two numbers"),  # type: ignore[arg-type]
        (lambda: Motion(shift=3), "shift must be two numbers"),  # type: ignore[arg-type]
        (lambda: Motion(turn=1, handled="guessed"), "handled must be"),  # type: ignore[arg-type]
        (lambda: MriProblem(side=8, lines=4, trajectory="rosette"), "trajectory must be"),  # type: ignore[arg-type]
        (lambda: MriProblem(side=8, lines=4, trajectory="radial", centre=3), "centre must"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        make()


def moving(kind: str, handled: Any, **drift: Any) -> Problem:
    motion = Motion(states=3, handled=handled, **drift)
    noise = Gaussian(0.02)
    if kind in ("parallel", "surrogate", "fan"):
        bins = 24 if kind == "surrogate" else 36
        scanner = CtScanner(side=24, views=24, bins=bins, beam=kind, motion=motion)  # type: ignore[arg-type]
        return CtProblem(scanner=scanner, noise=noise)
    scans: dict[str, Any] = {"radial": {"trajectory": "radial"}, "coils": {"coils": 3}}
    return MriProblem(side=24, lines=24, motion=motion, noise=noise, **scans.get(kind, {}))


@pytest.mark.parametrize("kind", ["parallel", "surrogate", "radial", "lines", "coils"])
def test_motion_that_is_known_is_compensated(kind: str) -> None:
    errors = {}
    for handled in HANDLED:
        problem = moving(kind, handled, turn=8.0, shift=(2.0, -1.0))
        inputs, targets = problem.pools(seed=1, train=0, validation=0, test=4).test
        weights, tail = problem.reconstruction()
        image = weights * inputs
        for operator in tail:
            image = operator(image)
        errors[handled] = float((image - targets).square().mean())
    assert errors["known"] < 0.8 * errors["ignored"]


def test_a_fan_that_ignores_motion_is_that_of_rest_and_a_stretch_is_affine() -> None:
    still = CtScanner(side=24, views=24, bins=36, beam="fan")
    ignored = moving("fan", "ignored", stretch=0.1).reconstruction()
    x = torch.rand(24, 36)
    for first, second in zip(ignored.tail, still.reconstruction().tail, strict=True):
        x = x.to(first.dtype)
        assert torch.equal(first(x), second(x))
        x = first(x)
    motion = Motion(states=3, turn=90.0, shift=(1.0, 0.0), stretch=0.5)
    rigid = Motion(states=3, turn=90.0, shift=(1.0, 0.0))
    warped = Warp((9, 9), motion.poses(2), dtype=torch.float64)
    image = torch.zeros(9, 9, dtype=torch.float64)
    image[4, 6] = 1  # two columns from the centre: turned, three rows from it, and shifted by one
    assert float(warped(image)[2][8, 4]) == pytest.approx(1)
    assert motion.poses(2).shape == (3, 2, 3)
    assert rigid.poses(2).shape == (3, 3)
    assert rigid.poses(3).shape == (3, 6)
    # In a volume the slices turn and shift alike.
    volume = Warp((2, 9, 9), rigid.poses(3), dtype=torch.float64)(image.expand(2, 9, 9))
    planes = Warp((9, 9), rigid.poses(2), dtype=torch.float64)(image)
    assert torch.allclose(volume, planes[:, None].expand(3, 2, 9, 9), atol=1e-12)
