"""Second moments of images: close to the truth from few of them, and always a covariance."""

import numpy as np
import pytest
from numpy.typing import NDArray

from korisk.prediction.dense.moments import Moment, image_moment, shifted

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


def matrix(moment: Moment) -> Array:
    """S, as it is applied."""
    return moment.apply(np.eye(len(moment.deviation)))


def by_hand(moment: Moment) -> tuple[Array, Array]:
    """S and D rho D, entry by entry."""
    rho = np.fft.ifftn(moment.density).real
    grid = np.indices(moment.shape).reshape(len(moment.shape), -1)
    doubled = 2 * np.array(moment.shape)[:, None, None]
    apart = tuple((grid[:, :, None] - grid[:, None, :]) % doubled)
    target = moment.deviation[:, None] * rho[apart] * moment.deviation
    sample = moment.images.T @ moment.images / len(moment.images)
    mean = np.outer(moment.mean, moment.mean)
    return mean + (1 - moment.shrinkage) * sample + moment.shrinkage * target, target


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
    expected, target = by_hand(moment)
    assert expected == pytest.approx(expected.T)
    assert np.linalg.eigvalsh(expected)[0] >= -1e-12 * np.trace(expected)
    vectors = rng.standard_normal((3, len(expected)))
    assert moment.apply(vectors) == pytest.approx(vectors @ expected)
    assert matrix(moment) == pytest.approx(expected)
    assert np.trace(expected) == pytest.approx(moment.energy)
    assert moment.energy == pytest.approx(np.square(images).sum() / 12)
    assert np.diag(target) == pytest.approx(moment.deviation**2)


@pytest.mark.parametrize("shape", [(24, 30), (64,)])
def test_shifts_keep_variances_and_fill_in_what_neighbours_share(shape: tuple[int, ...]) -> None:
    truth = covariance(shape, uneven(shape))
    plain = image_moment(5.0 + drawn(truth, 12, shape), shrinkage=0.0)
    found = shifted(plain)
    assert found.energies == pytest.approx(np.square(plain.mean) + plain.deviation**2)
    assert off(matrix(found) - np.outer(found.mean, found.mean), truth) < 0.9 * off(
        matrix(plain) - np.outer(plain.mean, plain.mean), truth
    )
    small = image_moment(drawn(covariance((4, 4), uneven((4, 4))), 12, (4, 4)))
    assert shifted(small) is small  # a 32nd of it is no pixel


@pytest.mark.parametrize("shape", [(40,), (8, 9)])
def test_fields_that_are_alike_everywhere_are_found_from_few(shape: tuple[int, ...]) -> None:
    truth = covariance(shape, uneven(shape))
    few, many = (drawn(truth, count, shape) for count in (60, 400))
    for images, close in ((few, 0.25), (many, 0.12)):
        found = image_moment(images)
        sample = matrix(image_moment(images, shrinkage=0.0))
        assert off(matrix(found), truth) < close
        assert off(matrix(found), truth) < 0.75 * off(sample, truth)
        assert found.shrinkage > 0.6


def test_the_correlation_is_that_of_the_distance() -> None:
    """Also between pixels one way apart and the other, which a transform may mix up."""
    shape = (4, 5)
    images = drawn(np.eye(20), 4000, shape)
    images[:, 1:, 1:] += 0.8 * images[:, :-1, :-1]  # along one diagonal, not the other
    target = matrix(image_moment(images, shrinkage=1.0)).reshape(4, 5, 4, 5)
    sample = matrix(image_moment(images, shrinkage=0.0)).reshape(4, 5, 4, 5)
    assert target[1, 1, 2, 2] == pytest.approx(sample[1, 1, 2, 2], rel=0.15)
    assert abs(target[1, 2, 2, 1]) < 0.1
    assert abs(target[0, 0, 3, 4]) < 0.1
    bright = np.random.default_rng(2).exponential(size=(40, 1, 1))  # alike from edge to edge
    alike = matrix(image_moment(bright * np.ones((40, 6, 7)), shrinkage=1.0))
    assert alike / alike[0, 0] == pytest.approx(1.0, abs=0.15)


def test_images_like_no_field_are_shrunk_less_and_less() -> None:
    truth = pattern(30)
    found = [image_moment(drawn(truth, count, (5, 6))).shrinkage for count in (8, 100, 20_000)]
    assert found[0] > found[1] > found[2]
    assert found[1] < 0.1
    assert found[2] < 0.001
    assert image_moment(drawn(np.eye(30), 8, (5, 6))).shrinkage > 0.9  # white
    image = np.random.default_rng(0).exponential(size=(4, 4))
    equal = image_moment(np.stack([image] * 8))
    assert matrix(equal) == pytest.approx(np.outer(image, image))  # the mean alone


@pytest.mark.parametrize("shape", [(12, 6), (40, 6), (9, 3, 4)], ids=["few", "many", "flat"])
def test_the_shrinkage_is_variance_over_distance(shape: tuple[int, ...]) -> None:
    """From matrices: the variance of the sample moment over its squared distance to the target."""
    rng = np.random.default_rng(3)
    images = 30 * rng.normal(size=shape) * np.linspace(1, 4, shape[-1])
    made = image_moment(images)
    flat = images.reshape(len(images), -1)
    flat = (flat - flat.mean(axis=0)) * np.sqrt(len(flat) / (len(flat) - 1))
    each = np.einsum("ki,kj->kij", flat, flat)
    variance = each.var(axis=0, ddof=1).sum() / len(flat)
    target = by_hand(made)[1]
    distance = np.square(each.mean(axis=0) - target).sum()
    assert made.shrinkage == pytest.approx(min(variance / distance, 1.0))
