"""The second moment of images, estimated from few examples.

A few hundred images do not determine a covariance of thousands of pixels: their sample moment has
no more directions than there are images, and a learning curve from it is far too optimistic. What
few images do determine is the mean square D^2 of every pixel, and the correlation rho of two pixels
as a function of their distance, since that is a mean over the whole image. The sample moment is
shrunk towards D rho D, by as much as its own variance asks for.
"""

import math
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.fft
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TOGETHER = 2**23  # numbers that are transformed at once
_WORKERS = os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class Moment:
    """S = (1 - shrinkage) Y^T Y / n + shrinkage D rho D, of images on a line or a grid."""

    images: Array  # (n, pixels) Y
    shape: tuple[int, ...]
    deviation: Array  # (pixels,) D: the root mean square of each pixel
    density: Array  # (2 h, 2 w) or (2 h,): the Fourier transform of rho, real and >= 0
    shrinkage: float

    @cached_property
    def energies(self) -> Array:
        """(pixels,) the diagonal: the mean square of every pixel."""
        sample = np.einsum("ij,ij->j", self.images, self.images) / len(self.images)
        mixed = (1 - self.shrinkage) * sample + self.shrinkage * np.square(self.deviation)
        return np.asarray(mixed)

    @property
    def energy(self) -> float:
        """The trace: the mean squared norm of an image."""
        return float(self.energies.sum())

    @cached_property
    def uncertainty(self) -> float:
        """The relative standard error of the energy, from the spread between images."""
        energies = np.einsum("ij,ij->i", self.images, self.images)
        return float(energies.std(ddof=1) / energies.mean() / math.sqrt(len(energies)))

    def apply(self, vectors: Array) -> Array:
        """S times each row of (k, pixels), without storing S.

        D rho D is a convolution on twice the grid.
        """
        found = np.zeros(vectors.shape)
        if self.shrinkage < 1:
            found += (1 - self.shrinkage) * (vectors @ self.images.T @ self.images)
            found /= len(self.images)
        if self.shrinkage > 0:
            axes = tuple(range(1, 1 + len(self.shape)))
            padded = [2 * length for length in self.shape]
            inside = (slice(None), *(slice(length) for length in self.shape))
            step = max(1, _TOGETHER // self.density.size)
            for first in range(0, len(vectors), step):
                part = slice(first, first + step)
                spread = (vectors[part] * self.deviation).reshape(-1, *self.shape)
                waves = np.fft.fftn(spread, s=padded, axes=axes) * self.density
                back = np.fft.ifftn(waves, axes=axes).real[inside]
                found[part] += self.shrinkage * (back.reshape(len(back), -1) * self.deviation)
        return found


def image_moment(images: Array, *, shrinkage: float | None = None) -> Moment:
    """The second moment of images (n, h, w), or of fields on a line (n, h).

    Without `shrinkage` it is the one of least expected squared error: the summed variance of the
    sample moment's entries over their summed squared distance from the target, at most one.
    """
    shape, flat = images.shape[1:], images.reshape(len(images), -1)
    squares = np.einsum("ij,ij->j", flat, flat)
    # As if one more image of mean brightness had been seen, so that no pixel has a zero variance.
    deviation = np.sqrt((squares + squares.mean() / len(flat)) / (len(flat) + 1))
    density = _density(images, deviation.reshape(shape))
    if shrinkage is None:
        shrinkage = _shrinkage(flat, shape, deviation, density)
    return Moment(flat, shape, deviation, density, float(shrinkage))


def _density(values: Array, deviation: Array) -> Array:
    """The Fourier transform of rho, clipped at zero so that rho is a correlation."""
    padded = [2 * length for length in deviation.shape]
    products = scipy.fft.irfftn(_power(values), s=padded, workers=_WORKERS)
    weights = _overlap(deviation)
    known = weights > 1e-9 * weights.max()
    rho = np.divide(products, weights, out=np.zeros(padded), where=known)
    for axis, length in enumerate(deviation.shape):
        # No two pixels are that far apart, so the value is free; a gap would be clipped.
        along = np.moveaxis(rho, axis, 0)
        along[length] = 0.5 * (along[length - 1] + along[(length + 1) % (2 * length)])
    density = np.maximum(np.fft.fftn(rho).real, 0.0)
    return np.asarray(density / density.mean())  # rho at distance zero is one


def _shrinkage(images: Array, shape: tuple[int, ...], deviation: Array, density: Array) -> float:
    """Summed variances of the sample moment's entries over squared distances to the target."""
    number = len(images)
    wide = number <= images.shape[1]
    products = images @ images.T if wide else images.T @ images  # of equal norm; the smaller one
    sample = float(np.square(products).sum()) / number**2  # |S|^2 of the sample moment
    fourth = float(np.square(np.einsum("ij,ij->i", images, images)).mean())
    spread = (fourth - sample) / (number - 1)
    # <sample, target> = mean_k y_k^T D rho D y_k, in waves; all but the edges stand for two.
    power = _power((images * deviation).reshape(number, *shape))
    twice = np.full(power.shape[-1], 2.0)
    twice[[0, -1]] = 1.0
    half = density[..., : power.shape[-1]]
    towards = float((power * half * twice).sum()) / density.size
    # |D rho D|^2 = sum over distances of rho^2 times the autocorrelation of D^2.
    rho = np.fft.ifftn(density).real
    target = float((np.square(rho) * _overlap(np.square(deviation).reshape(shape))).sum())
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
        waves = scipy.fft.rfftn(part, s=padded, axes=axes, workers=_WORKERS)
        power = power + (np.square(waves.real) + np.square(waves.imag)).sum(axis=0)
    return np.asarray(power / len(values))


def _overlap(field: Array) -> Array:
    """The autocorrelation of a field at every distance, on twice its grid."""
    padded, axes = [2 * length for length in field.shape], tuple(range(field.ndim))
    waves = np.fft.fftn(field, s=padded, axes=axes)
    return np.asarray(np.fft.ifftn(np.square(np.abs(waves))).real)
