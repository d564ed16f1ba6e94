"""Copies against look-alikes among examples, and the error of a mean of few groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from korisk.prediction.copies import copies
from korisk.prediction.rehearsal.rehearse import relative_error
from korisk.problems import random_ellipses

Array = NDArray[np.float64]


def phantoms(count: int, side: int, seed: int = 0) -> Array:
    drawn = random_ellipses(count, seed=seed, stream="examples").images(side)
    return np.asarray(drawn.double().numpy())


def distinct(images: Array) -> int:
    """How many images are left if one of each group counts."""
    groups = copies(images)
    return len(images) if groups is None else len(np.unique(groups))


@pytest.mark.parametrize("side", [8, 16, 32])
def test_images_drawn_independently_are_no_copies(side: int) -> None:
    for images in (phantoms(64, side), phantoms(300, side), np.zeros((12, side, side))):
        assert copies(images) is None
    # Few images a hundred times as bright as the others make no copies of these.
    bright = phantoms(200, side) * np.where(np.arange(200) % 10, 1.0, 100.0)[:, None, None]
    assert copies(bright) is None


def altered(originals: Array, times: int, *, noise: float, seed: int) -> Array:
    """Copies of images: turned by quarters, mirrored, brighter, and noisy."""
    rng = np.random.default_rng(seed)
    made = []
    for image in np.tile(originals, (times, 1, 1)):
        turned = np.rot90(image[:, :: int(rng.choice([-1, 1]))], int(rng.integers(4)))
        made.append(rng.uniform(0.8, 1.2) * turned + noise * rng.standard_normal(image.shape))
    return np.array(made)


@settings(max_examples=6, deadline=None)
@given(
    noise=st.sampled_from([0.0, 0.02, 0.05]),
    times=st.sampled_from([8, 16]),
    seed=st.integers(0, 1000),
)
def test_turned_and_noisy_copies_of_eight_images_count_about_eight_times(
    noise: float, times: int, seed: int
) -> None:
    assert 4 <= distinct(altered(phantoms(8, 32, seed=seed), times, noise=noise, seed=seed)) <= 24


@settings(max_examples=6, deadline=None)
@given(noise=st.sampled_from([0.0, 0.05]), count=st.integers(16, 100), seed=st.integers(0, 1000))
def test_noisy_images_drawn_independently_are_no_copies(
    noise: float, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    images = phantoms(count, 32, seed=seed)
    assert distinct(images + noise * rng.standard_normal(images.shape)) >= 0.9 * count


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000))
def test_neither_order_nor_brightness_nor_quarter_turns_of_all_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = np.concatenate(
        [altered(phantoms(6, 32, seed=seed), 8, noise=0.03, seed=seed), phantoms(20, 32, seed=seed)]
    )
    order = rng.permutation(len(images))
    groups = copies(images)
    assert groups is not None
    for others in (images[order], 7 * images[order], np.rot90(images[order], axes=(1, 2))):
        again = copies(others)
        assert again is not None
        together = groups[order][:, None] == groups[order]
        assert np.mean(together != (again[:, None] == again)) < 0.01


def test_copies_of_half_of_the_images_count_once_beside_the_others() -> None:
    half = altered(phantoms(8, 32, seed=1), 8, noise=0.05, seed=1)
    assert distinct(np.concatenate([half, phantoms(64, 32, seed=2)])) == pytest.approx(72, rel=0.1)


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 0.9])
def test_blank_images_are_no_copies_of_each_other(value: float) -> None:
    images = phantoms(40, 50)
    images[:8] = value
    assert copies(images) is None


def test_images_that_are_mostly_noise_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    assert copies(0.02 * phantoms(40, 32) + rng.standard_normal((40, 32, 32))) is None


def test_equal_images_count_once_at_any_size() -> None:
    images = phantoms(40, 6, seed=1)
    images = images[np.ptp(images, axis=(1, 2)) > 0][:20]
    groups = copies(np.repeat(images, 3, axis=0))
    assert groups is not None
    assert np.bincount(groups).tolist() == [3] * 20


@pytest.mark.parametrize("groups", [3, 8])
def test_the_error_of_a_mean_of_few_groups_covers_nine_in_ten(groups: int) -> None:
    rng = np.random.default_rng(0)
    whose = np.repeat(np.arange(groups), 10)
    inside = 0
    for _ in range(2000):
        values = 5 + rng.standard_normal(groups)[whose] + rng.standard_normal(len(whose))
        inside += abs(values.mean() - 5) <= 1.645 * relative_error(values, whose) * values.mean()
    assert inside / 2000 == pytest.approx(0.9, abs=0.03)
    alone = rng.exponential(size=500)
    expected = alone.std(ddof=1) / np.sqrt(500) / alone.mean()
    assert relative_error(alone, np.arange(500)) == pytest.approx(expected, rel=0.01)
    assert relative_error(np.zeros(9), np.arange(9)) == 0
