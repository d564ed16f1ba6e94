"""Second moments of images: close to the truth from few of them, and always a covariance."""

import numpy as np
import pytest
from numpy.typing import NDArray

from korisk.errors import KoriskError
from korisk.prediction.dense.moments import LEAST_IMAGES, Moment, checked_images, image_moment

Array = NDArray[np.float64]

SHAPES = [(7,), (5, 6), (1, 1), (1, 9)]


def covariance(shape: tuple[int, ...], deviation: Array) -> Array:
    """D rho D with a correlation that falls with the distance along each axis."""
    grid = np.indices(shape).reshape(len(shape), -1)
    apart = np.abs(grid[:, :, None] - grid[:, None, :])
    reach = np.array([3.0, 1.5])[: len(shape), None, None]
    return np.asarray(deviation[:, None] * np.exp(-(apart / reach).sum(axis=0)) * deviation)


def uneven(shape: tuple[int, ...]) -> Array:
    return np.linspace(0.5, 2.0, int(np.prod(shape)))


def drawn(truth: Array, count: int, shape: tuple[int, ...], seed: int = 0) -> Array:
    noise = np.random.default_rng(seed).standard_normal((count, len(truth)))
    return (noise @ np.linalg.cholesky(truth).T).reshape(count, *shape)


def off(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def pattern(pixels: int) -> Array:
    """A correlation of pixels that has nothing to do with how far apart they are."""
    rng = np.random.default_rng(5)
    mixing = rng.standard_normal((pixels, 3))
    return np.asarray(mixing @ mixing.T + 0.1 * np.eye(pixels))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shrinkage", [None, 0.0, 0.3, 1.0])
def test_it_is_a_covariance_however_it_is_asked_for(
    shape: tuple[int, ...], shrinkage: float | None
) -> None:
    rng = np.random.default_rng(1)
    images = rng.exponential(size=(12, *shape)) - 0.3
    moment = image_moment(images, shrinkage=shrinkage)
    matrix = moment.matrix()
    assert matrix == pytest.approx(matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.trace(matrix)
    vectors = rng.standard_normal((3, len(matrix)))
    assert moment.apply(vectors) == pytest.approx(vectors @ matrix)
    assert np.trace(matrix) == pytest.approx(moment.energy)
    assert moment.energy == pytest.approx(np.square(images).sum() / 12)
    assert np.diag(moment.target()) == pytest.approx(moment.deviation**2)


def test_no_pixel_is_dark_for_ever() -> None:
    images = np.ones((15, 4, 4))
    images[:, 0, 0] = 0.0
    deviation = image_moment(images).deviation.reshape(4, 4)
    assert deviation[0, 0] == pytest.approx(np.sqrt(15 / 16 / 16))
    assert deviation[1, 1] == pytest.approx(np.sqrt((15 + 15 / 16) / 16))


@pytest.mark.parametrize("shape", [(40,), (8, 9)])
def test_fields_that_are_alike_everywhere_are_found_from_few(shape: tuple[int, ...]) -> None:
    truth = covariance(shape, uneven(shape))
    few, many = (drawn(truth, count, shape) for count in (60, 400))
    for images, close in ((few, 0.25), (many, 0.12)):
        found = image_moment(images)
        sample = image_moment(images, shrinkage=0.0).matrix()
        assert off(found.matrix(), truth) < close
        assert off(found.matrix(), truth) < 0.75 * off(sample, truth)
        assert found.shrinkage > 0.6


def test_the_correlation_is_that_of_the_distance() -> None:
    """Also between pixels one way apart and the other, which a transform may mix up."""
    shape = (4, 5)
    images = drawn(np.eye(20), 4000, shape)
    images[:, 1:, 1:] += 0.8 * images[:, :-1, :-1]  # along one diagonal, not the other
    target = image_moment(images, shrinkage=1.0).target().reshape(4, 5, 4, 5)
    sample = image_moment(images, shrinkage=0.0).matrix().reshape(4, 5, 4, 5)
    assert target[1, 1, 2, 2] == pytest.approx(sample[1, 1, 2, 2], rel=0.15)
    assert abs(target[1, 2, 2, 1]) < 0.1
    assert abs(target[0, 0, 3, 4]) < 0.1


def test_what_goes_along_from_edge_to_edge_is_seen() -> None:
    bright = np.random.default_rng(2).exponential(size=(40, 1, 1))
    target = image_moment(bright * np.ones((40, 6, 7)), shrinkage=1.0).target()
    assert target / target[0, 0] == pytest.approx(1.0, abs=0.15)


def test_images_like_no_field_are_shrunk_less_and_less() -> None:
    truth = pattern(30)
    found = [image_moment(drawn(truth, count, (5, 6))).shrinkage for count in (8, 100, 20_000)]
    assert found[0] > found[1] > found[2]
    assert found[1] < 0.1
    assert found[2] < 0.001
    white = image_moment(drawn(np.eye(30), 8, (5, 6)))
    assert white.shrinkage > 0.9


@pytest.mark.parametrize("blend", [0.0, 0.3])
def test_the_shrinkage_is_about_the_best_there_is(blend: float) -> None:
    shape = (5, 6)
    mixed = (1 - blend) * covariance(shape, uneven(shape)) + blend * pattern(30)
    tried = np.linspace(0, 1, 11)
    chosen, fixed = [], []
    for seed in range(12):
        images = drawn(mixed, 24, shape, seed)
        chosen.append(off(image_moment(images).matrix(), mixed) ** 2)
        fixed.append([off(image_moment(images, shrinkage=s).matrix(), mixed) ** 2 for s in tried])
    errors = np.mean(fixed, axis=0)
    assert np.mean(chosen) < 1.25 * errors.min()
    assert np.mean(chosen) < 1.01 * min(errors[0], errors[-1])


def test_the_energy_is_as_uncertain_as_it_says() -> None:
    rng = np.random.default_rng(3)
    made = [
        image_moment(rng.exponential(size=(50, 1, 1)) * rng.standard_normal((50, 3, 3)))
        for _ in range(200)
    ]
    energies = np.array([each.energy for each in made])
    stated = np.mean([each.uncertainty for each in made])
    assert stated == pytest.approx(energies.std() / energies.mean(), rel=0.2)


@pytest.mark.parametrize("factor", [1e-55, 1e-3, 1e55])
def test_units_do_not_matter(factor: float) -> None:
    images = drawn(covariance((5, 6), uneven((5, 6))), 20, (5, 6))
    plain, other = image_moment(images), image_moment(factor * images)
    assert other.shrinkage == pytest.approx(plain.shrinkage)
    assert other.matrix() / factor**2 == pytest.approx(plain.matrix())
    assert other.uncertainty == pytest.approx(plain.uncertainty)


def test_equal_images_leave_nothing_to_shrink() -> None:
    image = np.random.default_rng(0).exponential(size=(4, 4))
    moment = image_moment(np.stack([image] * LEAST_IMAGES))
    assert moment.shrinkage < 1e-9
    assert moment.uncertainty < 1e-9


def test_large_moments_are_applied_and_not_made() -> None:
    moment = Moment(np.ones((8, 12_000)), (12_000,), np.ones(12_000), np.ones(24_000), 0.5)
    with pytest.raises(KoriskError, match=r"has 144,000,000 entries; use apply\(\)"):
        moment.matrix()
    applied = moment.apply(np.eye(1, 12_000))  # white, beside images of ones
    assert applied[0, :2] == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.ones((7, 4, 4)), "at least 8 example images, got 7"),
        (np.ones((8, 1, 4, 4)), r"shape \(images, height, width\), got \(8, 1, 4, 4\)"),
        (np.ones(8), r"got \(8,\); stack them"),
        (np.zeros((8, 4, 4)), "all images are empty"),
        (np.zeros((8, 0, 4)), "all images are empty"),
        (np.where(np.arange(9)[:, None] == 3, np.nan, 1.0), "image 3 holds NaN"),
        (np.where(np.arange(9)[:, None] == 8, np.inf, 1.0), "image 8 holds NaN or infinities"),
        (np.ones((8, 4)) + 1j, "images must be real numbers"),
        ([["a", "b"]] * 8, "images must be real numbers"),
        ([[1.0], [1.0, 2.0]] * 4, "images must be real numbers"),
    ],
)
def test_images_that_are_none_are_refused(images: object, words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        checked_images(images)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_images_whose_squares_are_no_numbers_are_refused(size: float) -> None:
    with pytest.raises(KoriskError, match="scale them"):
        checked_images(np.full((8, 4, 4), size))


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, float("nan")])
def test_a_shrinkage_is_a_share(shrinkage: float) -> None:
    with pytest.raises(KoriskError, match="shrinkage must be from 0 to 1"):
        image_moment(np.ones((8, 4, 4)), shrinkage=shrinkage)
