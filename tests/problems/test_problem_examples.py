"""Examples of every problem: the operator, noise and targets they say they have."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.problems import (
    CtProblem,
    CtScanner,
    DeepProblem,
    EllipseSource,
    FileSource,
    Gaussian,
    HeatProblem,
    MriProblem,
    Noise,
    Poisson,
    Problem,
)
from korisk.problems.noise import noise_variance

FAN = CtScanner(side=8, views=10, bins=8, beam="fan")
SURROGATE = CtScanner(side=16, views=6, bins=16, beam="surrogate")
PROBLEMS: dict[str, Problem] = {
    "fan": CtProblem(scanner=FAN, noise=Gaussian(0.1)),
    "photons": CtProblem(scanner=SURROGATE, noise=Poisson(1e4)),
    "released": CtProblem(scanner=SURROGATE, population="released", noise=Gaussian(0.1)),
    "surrogate": CtProblem(scanner=SURROGATE, population="released-surrogate", noise=Gaussian(0.1)),
    "mri": MriProblem(side=8, lines=5, noise=Gaussian(0.2)),
    "heat": HeatProblem(points=16, noise=0.1),
}
EVERY = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())


@EVERY
def test_inputs_are_measured_of_the_latents_with_the_noise_that_is_stated(
    problem: Problem,
) -> None:
    made = problem.examples(seed=3, count=128)
    added = (made.inputs - made.forward(made.latents)).double()
    assert made.noise.shape == made.inputs.shape[1:]
    noisy = made.noise > 0
    assert not added[:, ~noisy].any()
    # The mean of 128 squares of a normal number is right within an eighth, of many together closer.
    ratio = added.square().mean(0)[noisy] / made.noise.double()[noisy]
    assert float(ratio.mean()) == pytest.approx(1.0, abs=0.1)
    assert float(ratio.min()) > 0.3
    assert float(ratio.max()) < 3
    mean = added.mean(0)[noisy] / made.noise.double()[noisy].sqrt()
    assert float(mean.abs().max()) < 5 / math.sqrt(128)


@EVERY
def test_targets_are_what_is_wanted_of_the_latents(problem: Problem) -> None:
    made = problem.examples(seed=0, count=4)
    wanted = made.latents if made.wanted is None else made.wanted(made.latents)
    assert torch.equal(made.targets, wanted)
    assert made.inputs.dtype == made.targets.dtype == made.forward.dtype
    assert len(made) == 4
    pools = problem.pools(seed=0, train=1, validation=0, test=1)
    assert pools.train.inputs.shape[1:] == made.inputs.shape[1:]
    assert pools.train.targets.shape[1:] == made.targets.shape[1:]


@EVERY
def test_a_seed_gives_its_examples_and_another_gives_others(problem: Problem) -> None:
    made, again, other = (problem.examples(seed=seed, count=6) for seed in (1, 1, 2))
    few = problem.examples(seed=1, count=3)
    assert torch.equal(made.inputs, again.inputs)
    assert torch.equal(made.targets, again.targets)
    torch.testing.assert_close(made.targets[:3], few.targets)
    assert not torch.equal(made.targets, other.targets)
    noise = [(each.inputs - each.forward(each.latents)).flatten() for each in (made, other)]
    assert abs(float(torch.corrcoef(torch.stack(noise))[0, 1])) < 0.5


def rows(targets: Tensor) -> set[bytes]:
    """Those with anything on them."""
    return {each.numpy().tobytes() for each in targets if each.any()}


@EVERY
def test_examples_are_in_none_of_the_pools(problem: Problem) -> None:
    validation = 0 if isinstance(problem, CtProblem) and problem.population == "released" else 4
    made = [problem.examples(seed=seed, count=8).targets for seed in range(4)]
    assert len(rows(torch.cat(made))) >= 30
    for seed in range(4):
        for pool in problem.pools(seed=seed, train=8, validation=validation, test=8):
            assert not rows(torch.cat(made)) & rows(pool.targets)


def test_the_surrogate_population_has_128_images_and_no_more() -> None:
    assert len(PROBLEMS["surrogate"].examples(seed=0, count=500)) == 128


def test_a_source_draws_what_it_is_told_to() -> None:
    one = EllipseSource(fewest=1, most=1).examples(16, seed=0, count=20, device=None)
    assert one.dtype == torch.float64
    assert one.shape == (20, 16, 16)
    values = {len(set(image.ravel().tolist())) for image in one.numpy()}
    assert max(values) == 2  # one ellipse, and nothing


def folder(path: Path, count: int) -> FileSource:
    rng = np.random.default_rng(0)
    np.save(path / "images.npy", rng.random((count, 8, 8)).astype(np.float32))
    return FileSource(path=str(path), unit="plain")


def test_files_give_all_they_have_and_each_once(tmp_path: Path) -> None:
    source = folder(tmp_path, 20)
    every = source.examples(8, seed=0, count=64, device=None)
    assert len(every) == len(rows(every)) == 20
    some = source.examples(8, seed=0, count=5, device=None)
    assert torch.equal(some, every[:5])
    other = source.examples(8, seed=1, count=64, device=None)
    assert rows(other) == rows(every)
    assert not torch.equal(other, every)
    problem = MriProblem(side=8, lines=4, source=source)
    assert len(problem.examples(seed=0, count=64)) == 20
    assert len(CtProblem(scanner=FAN, source=source).examples(seed=0, count=64)) == 20


def test_files_that_changed_are_refused(tmp_path: Path) -> None:
    source = FileSource(path=folder(tmp_path, 20).path, unit="plain", fingerprint="another")
    with pytest.raises(KoriskError, match="have changed since the study was made"):
        source.examples(8, seed=0, count=5, device=None)


def test_problems_that_are_not_linear_say_so() -> None:
    with pytest.raises(KoriskError, match=r"DeepProblem is not linear .*; run a pilot instead"):
        DeepProblem(scanner=FAN).examples(seed=0, count=8)


def test_problems_without_noise_have_none() -> None:
    for problem in (CtProblem(scanner=FAN), MriProblem(side=8, lines=5), HeatProblem(noise=0.0)):
        made = problem.examples(seed=0, count=8)
        assert not made.noise.any()
        torch.testing.assert_close(made.inputs, made.forward(made.latents))


@pytest.mark.parametrize("noise", [Gaussian(0.3), Poisson(2e4), None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_variance_is_that_of_many_draws(noise: Noise | None, dtype: torch.dtype) -> None:
    clean = torch.linspace(0.1, 2.0, 12, dtype=dtype).reshape(2, 2, 3)
    found = noise_variance(clean, noise, width=4.0)
    assert found.shape == (2, 3)
    assert found.dtype == dtype
    if noise is None:
        assert not found.any()
        return
    rng = np.random.default_rng(0)
    drawn = [
        noise.sample(each, rng, width=4.0) - each
        for _ in range(1500)
        for each in clean.double().numpy()
    ]
    expected = np.square(drawn).mean(axis=0)
    assert found.numpy() == pytest.approx(expected, rel=0.15)
