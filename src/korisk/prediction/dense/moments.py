"""The second moment of images from few examples: pixels' brightness, and how far they go along.

A few hundred images cannot tell a covariance of thousands of pixels; their sample moment has no
more directions than images, and a learning curve from it comes out far too good. What few images do
tell is the mean square of every pixel, and the correlation of pixels that lie a given way apart,
since that is a mean over the whole image. Their product D rho D is the target that the sample
moment is shrunk to, by as much as its own uncertainty asks for.
"""

import math
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray

from korisk.errors import KoriskError

Array = NDArray[np.float64]

LEAST_IMAGES = 8
_BRIGHTEST = 1e60  # fourth powers are summed up
_LARGEST = 2**27  # entries of a moment that is made as a matrix
_TOGETHER = 2**23  # numbers that are transformed at once


@dataclass(frozen=True, eq=False)
class Moment:
    """S = (1 - shrinkage) Y^T Y / n + shrinkage D rho D, of images on a line or a grid."""

    images: Array  # (n, pixels) Y
    shape: tuple[int, ...]
    deviation: Array  # (pixels,) D: the root mean square of each pixel
    density: Array  # (2 h, 2 w) or (2 h,): the Fourier transform of rho, real and >= 0
    shrinkage: float

    @property
    def energy(self) -> float:
        """The trace: the mean squared norm of an image."""
        return float(self.energies.sum())

    @property
    def energies(self) -> Array:
        """(pixels,) the diagonal: the mean square of every pixel."""
        sample = np.einsum("ij,ij->j", self.images, self.images) / len(self.images)
        mixed = (1 - self.shrinkage) * sample + self.shrinkage * np.square(self.deviation)
        return np.asarray(mixed)

    def matrix(self) -> Array:
        """S itself, (pixels, pixels)."""
        pixels = len(self.deviation)
        if pixels**2 > _LARGEST:
            raise KoriskError(
                f"a second moment of {pixels:,} pixels has {pixels**2:,} entries; use apply()"
            )
        sample = self.images.T @ self.images / len(self.images)
        return (1 - self.shrinkage) * sample + self.shrinkage * self.target()

    def target(self) -> Array:
        """D rho D, (pixels, pixels)."""
        rho = np.fft.ifftn(self.density).real
        grid = np.indices(self.shape).reshape(len(self.shape), -1)
        apart = tuple(
            (axis[:, None] - axis[None, :]) % (2 * length)
            for axis, length in zip(grid, self.shape, strict=True)
        )
        return np.asarray(self.deviation[:, None] * rho[apart] * self.deviation)

    def apply(self, vectors: Array) -> Array:
        """(k, pixels) times S, without making it."""
        found = np.zeros(vectors.shape)
        if self.shrinkage < 1:
            found += (1 - self.shrinkage) * (vectors @ self.images.T @ self.images)
            found /= len(self.images)
        if self.shrinkage > 0:
            step = max(1, _TOGETHER // self.density.size)
            for first in range(0, len(vectors), step):
                part = slice(first, first + step)
                found[part] += self.shrinkage * self._target_times(vectors[part])
        return found

    def _target_times(self, vectors: Array) -> Array:
        """(k, pixels) times D rho D, by a convolution on twice the grid."""
        spread = (vectors * self.deviation).reshape(len(vectors), *self.shape)
        axes = tuple(range(1, spread.ndim))
        padded = [2 * length for length in self.shape]
        waves = np.fft.fftn(spread, s=padded, axes=axes) * self.density
        back = np.fft.ifftn(waves, axes=axes).real
        inside = back[(slice(None), *(slice(length) for length in self.shape))]
        return np.asarray(inside.reshape(vectors.shape) * self.deviation)

    @cached_property
    def uncertainty(self) -> float:
        """The relative standard deviation of the energy, from images that differ in theirs."""
        energies = np.einsum("ij,ij->i", self.images, self.images)
        return float(energies.std(ddof=1) / energies.mean() / math.sqrt(len(energies)))


def image_moment(images: ArrayLike, *, shrinkage: float | None = None) -> Moment:
    """The second moment of images (n, h, w), or of fields on a line (n, h).

    Without `shrinkage` it is the one of least expected squared error: the summed variance of the
    sample moment's entries over their summed squared distance from the target, at most one.
    """
    values = checked_images(images)
    shape, flat = values.shape[1:], values.reshape(len(values), -1)
    squares = np.einsum("ij,ij->j", flat, flat)
    # As if one more image of mean brightness had been seen: no pixel is dark for ever.
    deviation = np.sqrt((squares + squares.mean() / len(flat)) / (len(flat) + 1))
    density = _density(values, deviation.reshape(shape))
    made = Moment(flat, shape, deviation, density, 1.0)
    if shrinkage is None:
        shrinkage = _shrinkage(made)
    elif not 0 <= shrinkage <= 1:
        raise KoriskError(f"shrinkage must be from 0 to 1, got {shrinkage!r}; leave it out")
    return Moment(flat, shape, deviation, density, float(shrinkage))


def checked_images(images: ArrayLike) -> Array:
    """Example images as an array, refused in words where they are none."""
    values = _as_numbers(images)
    if values.ndim not in (2, 3):
        raise KoriskError(
            f"images must have the shape (images, height, width), got {values.shape}; stack them"
        )
    if len(values) < LEAST_IMAGES:
        raise KoriskError(
            f"a prediction needs at least {LEAST_IMAGES} example images, got {len(values)}; "
            "64 give a first idea, 256 a good one"
        )
    if not np.isfinite(values).all():
        bad = int(np.argmin(np.isfinite(values.reshape(len(values), -1)).all(axis=1)))
        raise KoriskError(f"image {bad} holds NaN or infinities; leave it out or mend it")
    if not values.any():
        raise KoriskError("all images are empty; bring images with something on them")
    largest = float(np.abs(values).max())
    if not 1 / _BRIGHTEST <= largest <= _BRIGHTEST:
        raise KoriskError(
            f"images must have values from {1 / _BRIGHTEST:g} to {_BRIGHTEST:g} at their "
            f"brightest, got {largest:.3g}; scale them"
        )
    return values


def _as_numbers(images: ArrayLike) -> Array:
    try:
        values = np.asarray(images)
        if np.iscomplexobj(values):
            raise TypeError("complex")
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise KoriskError(
            "images must be real numbers in an array (images, height, width), and all of one "
            "size; convert them first"
        ) from None


def _density(values: Array, deviation: Array) -> Array:
    """The Fourier transform of rho, clipped to be a covariance's."""
    padded = [2 * length for length in deviation.shape]
    products = scipy.fft.irfftn(_power(values), s=padded, workers=_workers())
    weights = _overlap(deviation)
    known = weights > 1e-9 * weights.max()
    rho = np.divide(products, weights, out=np.zeros(padded), where=known)
    for axis, length in enumerate(deviation.shape):
        # Pixels are never that far apart: what stands there is free, and a gap would be clipped.
        along = np.moveaxis(rho, axis, 0)
        along[length] = 0.5 * (along[length - 1] + along[(length + 1) % (2 * length)])
    density = np.maximum(np.fft.fftn(rho).real, 0.0)
    return np.asarray(density / density.mean())  # rho of no distance is one


def _shrinkage(made: Moment) -> float:
    """Summed variances of the sample moment's entries over squared distances to the target."""
    images, number = made.images, len(made.images)
    wide = number <= images.shape[1]
    products = images @ images.T if wide else images.T @ images  # of equal norm; the smaller one
    sample = float(np.square(products).sum()) / number**2  # |S|^2 of the sample moment
    fourth = float(np.square(np.einsum("ij,ij->i", images, images)).mean())
    spread = (fourth - sample) / (number - 1)
    # <sample, target> = mean_k y_k^T D rho D y_k, in waves; all but the edges stand for two.
    power = _power((images * made.deviation).reshape(number, *made.shape))
    twice = np.full(power.shape[-1], 2.0)
    twice[[0, -1]] = 1.0
    half = made.density[..., : power.shape[-1]]
    towards = float((power * half * twice).sum()) / made.density.size
    target = _squared_norm(made)
    distance = sample - 2 * towards + target
    return float(np.clip(spread / distance, 0.0, 1.0)) if distance > 0 else 1.0


def _power(values: Array) -> Array:
    """The mean squared size of every wave in (n, ...) images, each on twice its grid."""
    axes = tuple(range(1, values.ndim))
    padded = [2 * length for length in values.shape[1:]]
    power: Array | float = 0.0
    step = max(1, _TOGETHER // math.prod(padded))
    for first in range(0, len(values), step):
        part = values[first : first + step]
        waves = scipy.fft.rfftn(part, s=padded, axes=axes, workers=_workers())
        power = power + (np.square(waves.real) + np.square(waves.imag)).sum(axis=0)
    return np.asarray(power / len(values))


def _workers() -> int:
    return os.cpu_count() or 1


def _squared_norm(made: Moment) -> float:
    """|D rho D|^2 = sum over distances of rho^2 times how D^2 goes along with itself."""
    overlap = _overlap(np.square(made.deviation).reshape(made.shape))
    rho = np.fft.ifftn(made.density).real
    return float((np.square(rho) * overlap).sum())


def _overlap(field: Array) -> Array:
    """How a field goes along with itself at every distance, on twice its grid."""
    padded, axes = [2 * length for length in field.shape], tuple(range(field.ndim))
    waves = np.fft.fftn(field, s=padded, axes=axes)
    return np.asarray(np.fft.ifftn(np.square(np.abs(waves))).real)
