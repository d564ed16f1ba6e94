"""MRI: which lines are taken, what they hold, and that pools do not depend on each other."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from korisk.errors import KoriskError
from korisk.problems import EllipseSource, Gaussian, MriProblem


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


def test_outer_lines_are_spread_evenly() -> None:
    taken = np.flatnonzero(MriProblem(side=32, lines=18, centre=9).mask) - 16
    outer = taken[taken > 4]
    assert len(outer) == 4
    assert set(np.diff(outer)) <= {2, 3}
    assert outer[0] > 5  # the first gap is not swallowed by the centre


def test_all_lines_without_noise_give_the_image_back() -> None:
    problem = MriProblem(side=8, lines=8)
    weights, tail = problem.reconstruction()
    pools = problem.pools(seed=1, train=3, validation=1, test=2)
    for inputs, targets in pools:
        torch.testing.assert_close(tail[0](weights * inputs), targets)


def test_samples_are_numpy_s_transform_of_the_image() -> None:
    problem = MriProblem(side=8, lines=5, centre=3)
    inputs, targets = problem.pools(seed=1, train=1, validation=0, test=0).train
    centred = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(targets[0].numpy()), norm="ortho"))
    expected = centred * problem.mask
    np.testing.assert_allclose(inputs[0, ..., 0], expected.real, atol=1e-12)
    np.testing.assert_allclose(inputs[0, ..., 1], expected.imag, atol=1e-12)


def test_noise_falls_on_the_lines_that_were_taken_and_has_its_size() -> None:
    clean = MriProblem(side=32, lines=16)
    noisy = MriProblem(side=32, lines=16, noise=Gaussian(0.5))
    before = clean.pools(seed=1, train=20, validation=0, test=0).train.inputs
    after = noisy.pools(seed=1, train=20, validation=0, test=0).train.inputs
    added = after - before
    assert not added[:, :, ~torch.from_numpy(noisy.mask)].any()
    taken = added[:, :, torch.from_numpy(noisy.mask)]
    signal = before[:, :, torch.from_numpy(noisy.mask)]
    levels = 0.5 * signal.square().mean((1, 2, 3)).sqrt()
    ratio = taken.square().mean((1, 2, 3)).sqrt() / levels
    assert ((ratio - 1).abs() < 0.15).all()


def test_samples_do_not_depend_on_the_pool_s_size_nor_the_test_set_on_the_seed() -> None:
    problem = MriProblem(side=8, lines=4, noise=Gaussian(0.1), source=EllipseSource(most=2))
    few = problem.pools(seed=1, train=2, validation=1, test=2)
    many = problem.pools(seed=1, train=5, validation=1, test=2)
    other = problem.pools(seed=2, train=2, validation=1, test=2)
    assert torch.equal(few.train.inputs, many.train.inputs[:2])
    assert torch.equal(few.test.inputs, other.test.inputs)
    assert not torch.equal(few.train.inputs, other.train.inputs)
    assert not torch.equal(few.validation.inputs, other.validation.inputs)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"side": 9, "lines": 4}, "side must be even"),
        ({"side": 8, "lines": 9}, "lines must be"),
        ({"side": 8, "lines": 4, "centre": 5}, "centre must be"),
        ({"side": 2, "lines": 1}, "side must be"),
    ],
)
def test_wrong_sizes_are_refused(settings: dict[str, int], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        MriProblem(**settings)  # type: ignore[arg-type]
