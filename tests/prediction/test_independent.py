"""What examples are worth: the design effect of cluster samples, and copies against look-alikes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from korisk.prediction.independent import independence, relative_error
from korisk.problems import random_ellipses

Array = NDArray[np.float64]


def phantoms(count: int, side: int, seed: int = 0) -> Array:
    drawn = random_ellipses(count, seed=seed, stream="examples").images(side)
    return np.asarray(drawn.double().numpy())


def correlated(sizes: list[int], rho: float, seed: int = 0) -> tuple[Array, tuple[str, ...]]:
    """Fields of groups of these sizes, two of a group with the correlation rho."""
    rng = np.random.default_rng(seed)
    rows = [
        np.sqrt(rho) * rng.standard_normal((1, 64))
        + np.sqrt(1 - rho) * rng.standard_normal((size, 64))
        for size in sizes
    ]
    names = tuple(f"p{at}" for at, size in enumerate(sizes) for _ in range(size))
    return np.concatenate(rows), names


@pytest.mark.parametrize("rho", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("sizes", [[8] * 40, [1, 4, 40] * 12])
def test_groups_have_the_design_effect_of_cluster_samples(sizes: list[int], rho: float) -> None:
    fields, names = correlated(sizes, rho)
    n = sum(sizes)
    expected = n**2 / (n + rho * sum(size * (size - 1) for size in sizes))
    found = independence(fields, names)
    assert found.number == pytest.approx(expected, rel=0.15)
    assert found.groups is not None
    assert len(set(zip(names, found.groups, strict=True))) == len(sizes)
    assert bool(found.notes) == (rho > 0)
    for note in found.notes:
        assert all(f"{each:,.0f}" in note for each in (n, len(sizes), found.number))


@pytest.mark.parametrize("side", [8, 16, 32])
def test_images_drawn_independently_are_worth_as_many(side: int) -> None:
    for images in (phantoms(64, side), phantoms(300, side), np.zeros((12, side, side))):
        found = independence(images)
        assert (found.number, found.groups, found.notes) == (len(images), None, [])
    # Few images a hundred times as bright as the others make no copies of these.
    bright = phantoms(200, side) * np.where(np.arange(200) % 10, 1.0, 100.0)[:, None, None]
    assert independence(bright).number == 200
    own = tuple(str(each) for each in range(64))
    assert independence(phantoms(64, side), own).number == 64


def altered(distinct: Array, copies: int, *, noise: float, seed: int) -> Array:
    """Copies of images: turned by quarters, mirrored, brighter, and noisy."""
    rng = np.random.default_rng(seed)
    made = []
    for image in np.tile(distinct, (copies, 1, 1)):
        turned = np.rot90(image[:, :: int(rng.choice([-1, 1]))], int(rng.integers(4)))
        made.append(rng.uniform(0.8, 1.2) * turned + noise * rng.standard_normal(image.shape))
    return np.array(made)


@settings(max_examples=6, deadline=None)
@given(
    noise=st.sampled_from([0.0, 0.02, 0.05]),
    copies=st.sampled_from([8, 16]),
    seed=st.integers(0, 1000),
)
def test_turned_and_noisy_copies_of_eight_images_are_worth_about_eight(
    noise: float, copies: int, seed: int
) -> None:
    distinct = phantoms(8, 32, seed=seed)
    worth = independence(altered(distinct, copies, noise=noise, seed=seed))
    assert worth.copies
    assert 4 <= worth.number <= 16
    assert f"worth about {worth.number:.0f} independent" in worth.notes[0]


@settings(max_examples=6, deadline=None)
@given(noise=st.sampled_from([0.0, 0.05]), count=st.integers(16, 100), seed=st.integers(0, 1000))
def test_noisy_images_drawn_independently_are_worth_as_many(
    noise: float, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    images = phantoms(count, 32, seed=seed)
    found = independence(images + noise * rng.standard_normal(images.shape))
    assert found.number >= 0.9 * count
    assert not found.copies


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000))
def test_neither_order_nor_brightness_nor_quarter_turns_of_all_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = np.concatenate(
        [altered(phantoms(6, 32, seed=seed), 8, noise=0.03, seed=seed), phantoms(20, 32, seed=seed)]
    )
    order = rng.permutation(len(images))
    found = independence(images)
    assert found.groups is not None
    for others in (images[order], 7 * images[order], np.rot90(images[order], axes=(1, 2))):
        again = independence(others)
        assert again.number == pytest.approx(found.number, rel=0.02)
        assert again.groups is not None
        together = found.groups[order][:, None] == found.groups[order]
        assert np.mean(together != (again.groups[:, None] == again.groups)) < 0.01


def test_copies_of_half_of_the_images_count_once_beside_the_others() -> None:
    half = altered(phantoms(8, 32, seed=1), 8, noise=0.05, seed=1)
    found = independence(np.concatenate([half, phantoms(64, 32, seed=2)]))
    assert found.number == pytest.approx(128**2 / (8 * 8**2 + 64), rel=0.25)


def test_images_that_are_mostly_noise_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    worth = independence(0.02 * phantoms(40, 32) + rng.standard_normal((40, 32, 32)))
    assert (worth.number, worth.copies) == (40, False)


def test_equal_images_count_once_at_any_size() -> None:
    images = phantoms(40, 6, seed=1)
    images = images[np.ptp(images, axis=(1, 2)) > 0][:20]
    found = independence(np.repeat(images, 3, axis=0))
    assert found.number == pytest.approx(20)
    assert found.groups is not None
    assert np.bincount(found.groups).tolist() == [3] * 20


@pytest.mark.parametrize("groups", [3, 8])
def test_the_error_of_a_mean_of_few_groups_covers_nine_in_ten(groups: int) -> None:
    rng = np.random.default_rng(0)
    whose = np.repeat(np.arange(groups), 10)
    inside = 0
    for _ in range(2000):
        values = 5 + rng.standard_normal(groups)[whose] + rng.standard_normal(len(whose))
        inside += abs(values.mean() - 5) <= 1.645 * relative_error(values, whose) * values.mean()
    assert inside / 2000 == pytest.approx(0.9, abs=0.03)
    alone = rng.exponential(size=50)
    expected = alone.std(ddof=1) / np.sqrt(50) / alone.mean()
    assert relative_error(alone, None) == pytest.approx(expected)
    assert relative_error(alone, np.zeros(50, dtype=np.int64)) == pytest.approx(expected)
    assert relative_error(np.zeros(9), None) == 0


def test_more_images_than_are_compared_go_by_the_correlation_of_those() -> None:
    fields, names = correlated([30] * 100, 0.3)
    order = np.random.default_rng(0).permutation(3000)
    found = independence(fields[order], [names[each] for each in order])
    assert found.number == pytest.approx(3000 / (1 + 29 * 0.3), rel=0.15)
