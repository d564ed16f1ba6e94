"""The released CPU protocol as one would write it from the paper, in NumPy and SciPy alone.

It is what benchmarks/paper/study.py compares korisk with, written for that from the protocol's
description; no code of the authors is in it. Everything is dense and in float64:

- the forward matrix A has the projections of all unit images as its columns, and a projection
  rotates the image to every view with scipy.ndimage.rotate and sums it along axis 0;
- phantoms are projected the same way, one by one;
- B = (A^T A + 0.1 I)^-1 A^T, made once for a scale, as is B^T B;
- KO: the normal matrix (B^T B) * (X^T X) once for a training set, and np.linalg.inv of it with
  lambda on its diagonal for every lambda;
- FC: X^T X once for a training set, and for every lambda np.linalg.inv of it, of V B rows, with
  lambda on its diagonal, and the whole matrix M;
- lambda is the first with the smallest error on the validation set, and that network is tested.

What serves several lambdas is made once and products are matrix products, in the cheaper order:
nothing is slowed down, and nothing is turned into something cleverer than the formula. The authors'
own script took 94 CPU seconds on a Neoverse N1 where this one takes about 120; most of them go into
250 inverses of 1280 rows at H = 32.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.floating[Any]]
Key = tuple[int, str, int, int]  # H, model, N, seed
Chosen = tuple[float, float]  # test MSE, lambda

SEEDS = (1, 2, 3, 4, 5)
SIZES = (4, 8, 16, 32, 64)
LAMBDAS = (1e-6, 1e-4, 1e-2, 1.0, 1e2)
TRAIN, VALIDATION, TEST = 128, 32, 128
MU = 0.1  # of the regularised inverse


class Pairs(NamedTuple):
    """Sinograms in the rows of `x`, images in those of `y`."""

    x: Array  # (count, V B)
    y: Array  # (count, H H)


def scale(
    side: int, seeds: Iterable[int] = SEEDS, sizes: Iterable[int] = SIZES
) -> Iterator[tuple[Key, Chosen]]:
    """The whole sweep at one H."""
    forward = forward_matrix(side)
    inverse = np.linalg.inv(forward.T @ forward + MU * np.eye(side * side)) @ forward.T
    gram = inverse.T @ inverse
    sizes = tuple(sizes)
    for seed in seeds:
        train, validation, test = pools(side, seed)
        for n in sizes:
            part = Pairs(train.x[:n], train.y[:n])
            yield (side, "KO", n, seed), known_operator(part, validation, test, inverse, gram)
            yield (side, "FC", n, seed), fully_connected(part, validation, test)


# Projection


def angles(side: int) -> Array:
    """The 1.25 H views in degrees."""
    return np.linspace(0, 180, side + side // 4, endpoint=False)


def project(image: Array) -> Array:
    """The sinogram of an image, (views, bins)."""
    rotated = (
        ndimage.rotate(
            image, angle, reshape=False, order=1, mode="constant", cval=0.0, prefilter=False
        )
        for angle in angles(len(image))
    )
    return np.stack([each.sum(axis=0) for each in rotated])


def forward_matrix(side: int) -> Array:
    """A, (V B, H H), from unit images."""
    columns = []
    for pixel in range(side * side):
        unit = np.zeros(side * side)
        unit[pixel] = 1
        columns.append(project(unit.reshape(side, side)).ravel())
    return np.stack(columns, axis=1)


# Phantoms


def phantom(rng: np.random.Generator, side: int) -> Array:
    """An image of 1 to 4 ellipses, (side, side), in [0, 1.5]."""
    centres = np.linspace(-1, 1, side)
    x, y = np.meshgrid(centres, centres)
    image = np.zeros((side, side))
    for _ in range(rng.integers(1, 5)):
        amplitude = rng.uniform(0.2, 1.0)
        x0, y0 = rng.uniform(-0.5, 0.5, size=2)
        a, b = rng.uniform(0.08, 0.4, size=2)
        t = rng.uniform(0, math.pi)
        along = math.cos(t) * (x - x0) + math.sin(t) * (y - y0)
        across = -math.sin(t) * (x - x0) + math.cos(t) * (y - y0)
        image[(along / a) ** 2 + (across / b) ** 2 <= 1] += amplitude
    return np.clip(image, 0, 1.5)


def pools(side: int, seed: int) -> tuple[Pairs, Pairs, Pairs]:
    """Training, validation and test pools, in that order from one generator."""
    rng = np.random.default_rng(seed)
    train, validation, test = (_pool(rng, side, count) for count in (TRAIN, VALIDATION, TEST))
    return train, validation, test


def _pool(rng: np.random.Generator, side: int, count: int) -> Pairs:
    images = [phantom(rng, side) for _ in range(count)]
    x = np.stack([project(image).ravel() for image in images])
    return Pairs(x, np.stack([image.ravel() for image in images]))


# The two models


def known_operator(
    train: Pairs, validation: Pairs, test: Pairs, inverse: Array, gram: Array
) -> Chosen:
    """w = argmin sum |B (w x) - y|^2 + lambda |w|^2; a prediction is B (w x)."""
    normal = gram * (train.x.T @ train.x)
    right = (train.x * (train.y @ inverse)).sum(axis=0)

    def solve(inverted: Array) -> Array:
        return np.asarray(inverted @ right)

    def predict(weights: Array, x: Array) -> Array:
        return (x * weights) @ inverse.T

    return _chosen(normal, solve, predict, validation, test)


def fully_connected(train: Pairs, validation: Pairs, test: Pairs) -> Chosen:
    """M^T = (X^T X + lambda I)^-1 X^T Y; a prediction is M x."""
    normal = train.x.T @ train.x

    def solve(inverted: Array) -> Array:
        return inverted @ train.x.T @ train.y

    def predict(matrix: Array, x: Array) -> Array:
        return x @ matrix

    return _chosen(normal, solve, predict, validation, test)


def _chosen(
    normal: Array,
    solve: Callable[[Array], Array],
    predict: Callable[[Array, Array], Array],
    validation: Pairs,
    test: Pairs,
) -> Chosen:
    """The first lambda with the smallest validation error, and its test error."""
    best, smallest = (math.nan, math.nan), math.inf
    for penalty in LAMBDAS:
        fitted = solve(np.linalg.inv(normal + penalty * np.eye(len(normal))))
        error = _mse(predict(fitted, validation.x), validation.y)
        if error < smallest:
            best, smallest = (_mse(predict(fitted, test.x), test.y), penalty), error
    return best


def _mse(prediction: Array, target: Array) -> float:
    return float(np.mean((prediction - target) ** 2))
