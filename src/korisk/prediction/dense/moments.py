"""The second moment of images, estimated from few examples.

A few hundred images do not determine a covariance of thousands of pixels: their sample covariance
has no more directions than there are images, and a learning curve from it is far too optimistic.
What few images do determine is their mean, the variance D^2 of every pixel, and the correlation rho
of two pixels as a function of their distance, since that is a mean over the whole image. The sample
covariance is shrunk towards D rho D. The shrinkage follows from the variance of the sample
covariance, or from fits to the examples where these determine it better
(`from_examples.matched_moment`).
"""

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import scipy.fft
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TOGETHER = 2**23  # numbers that are transformed at once
_WORKERS = os.cpu_count() or 1  # threads of Fourier transforms
_FINEST = 32  # an image is shifted by its edge divided by this
_BLUR = 0.7  # deviation, in shifts, of the normal law that weights shifts
_LARGEST_SHIFTED = 2**26  # entries of images with all their shifts


@dataclass(frozen=True, eq=False)
class Moment:
    """S = m m^T + (1 - shrinkage) Y^T Y / n + shrinkage D rho D, Eq. (eq:moment), of images."""

    images: Array  # (n, pixels) Y: less their mean, times sqrt(K / (K - 1)) for K independent
    mean: Array  # (pixels,) m: the images' mean, shrunk so that m m^T is unbiased on the whole
    shape: tuple[int, ...]
    deviation: Array  # (pixels,) D: the standard deviation of each pixel
    density: Array  # (2 h, 2 w) or (2 h,): the Fourier transform of rho, real and >= 0
    shrinkage: float

    @cached_property
    def energies(self) -> Array:
        """(pixels,) the diagonal: the mean square of every pixel."""
        sample = np.einsum("ij,ij->j", self.images, self.images) / len(self.images)
        mixed = (1 - self.shrinkage) * sample + self.shrinkage * np.square(self.deviation)
        return np.asarray(np.square(self.mean) + mixed)

    @property
    def energy(self) -> float:
        """The trace: the mean squared norm of an image."""
        return float(self.energies.sum())

    def apply(self, vectors: Array) -> Array:
        """S times each row of (k, pixels), without storing S.

        D rho D is a convolution on twice the grid.
        """
        # The mean, the sample covariance, then the smooth covariance in blocks of images.
        products = np.outer(vectors @ self.mean, self.mean)
        if self.shrinkage < 1:
            share = (1 - self.shrinkage) / len(self.images)
            products += share * (vectors @ self.images.T @ self.images)
        if self.shrinkage > 0:
            axes = tuple(range(1, 1 + len(self.shape)))
            padded = [2 * length for length in self.shape]
            inside = (slice(None), *(slice(length) for length in self.shape))
            step = max(1, _TOGETHER // self.density.size)
            for first in range(0, len(vectors), step):
                rows = slice(first, first + step)
                spread = (vectors[rows] * self.deviation).reshape(-1, *self.shape)
                waves = scipy.fft.rfftn(spread, s=padded, axes=axes, workers=_WORKERS)
                waves *= self.density[..., : waves.shape[-1]]
                back = scipy.fft.irfftn(waves, s=padded, axes=axes, workers=_WORKERS)[inside]
                products[rows] += self.shrinkage * (back.reshape(len(back), -1) * self.deviation)
        return products


def image_moment(
    images: Array, *, shrinkage: float | None = None, independent: float | None = None
) -> Moment:
    """The second moment of images (n, h, w), or of fields on a line (n, h).

    Without `shrinkage` it is the one of least expected squared error: the summed variance of the
    sample covariance's entries over their summed squared distance from the target, at most one.
    `independent` images are what all of them are worth, as many as there are unless it is given;
    their mean has that part of the variance.
    """
    number, shape = len(images), images.shape[1:]
    flat = images.reshape(number, -1)
    mean = flat.mean(axis=0)
    # K independent images: their sample covariance is too small by (K - 1) / K.
    worth = max(number if independent is None else independent, 2.0)
    centred = (flat - mean) * math.sqrt(worth / (worth - 1))
    squares = np.einsum("ij,ij->j", centred, centred)
    # The mean has a part of the images' variance, which is counted there already.
    energy = float(mean @ mean)
    mean_share = max(1 - float(squares.sum()) / number / worth / energy, 0.0) if energy > 0 else 0.0
    # As if one more image of mean variance had been seen, so that no pixel has none.
    deviation = np.sqrt((worth * squares + squares.mean()) / number / (worth + 1))
    if not squares.any():  # copies of one image
        density = np.ones([2 * length for length in shape])
        return Moment(centred, mean, shape, deviation, density, 1.0)
    density = _density(centred.reshape(images.shape), deviation.reshape(shape))
    if shrinkage is None:
        # Half way, in logarithms, to that of as many images as these are worth: see
        # benchmarks/prediction/patients.py.
        shrinkage = _shrinkage(centred, shape, deviation, density)
        shrinkage = min(shrinkage * math.sqrt((number - 1) / (worth - 1)), 1.0)
    mean = math.sqrt(mean_share) * mean
    return Moment(centred, mean, shape, deviation, density, float(shrinkage))


def shifted(moment: Moment) -> Moment:
    """The moment with a sample covariance averaged over slightly shifted images.

    By a 32nd of their size at most, in all directions; variances of pixels stay as they are. What
    two pixels have in common changes slowly over an image, so neighbours serve as more examples.
    Images below 24 pixels, and more of them than memory should hold, stay alone.
    """
    step = (min(moment.shape) + _FINEST // 4) // _FINEST
    offsets = list(product((0, -step, step), repeat=len(moment.shape)))
    if step < 1 or len(offsets) * moment.images.size > _LARGEST_SHIFTED:
        return moment
    # (offsets, n, *shape) images of unit variance, each moved by one offset and weighted by it.
    plain = (moment.images / moment.deviation).reshape(-1, *moment.shape)
    rows = np.zeros((len(offsets), *plain.shape))
    for row, offset in zip(rows, offsets, strict=True):
        moves = list(zip(offset, moment.shape, strict=True))
        inside = tuple(slice(max(by, 0), length + min(by, 0)) for by, length in moves)
        source = tuple(slice(max(-by, 0), length - max(by, 0)) for by, length in moves)
        weight = math.exp(-0.5 * sum((by / step) ** 2 for by in offset) / _BLUR**2)
        row[:, *inside] = math.sqrt(weight) * plain[:, *source]
    # Moving leaves pixels at an edge empty: every pixel gets its variance back.
    flat = rows.reshape(len(offsets) * len(plain), -1)
    size = np.sqrt(np.einsum("ij,ij->j", flat, flat) / len(flat))
    flat *= np.divide(moment.deviation, size, out=np.zeros_like(size), where=size > 0)
    return replace(moment, images=flat)


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
        batch = values[first : first + step]
        waves = scipy.fft.rfftn(batch, s=padded, axes=axes, workers=_WORKERS)
        power = power + (np.square(waves.real) + np.square(waves.imag)).sum(axis=0)
    return np.asarray(power / len(values))


def _overlap(field: Array) -> Array:
    """The autocorrelation of a field at every distance, on twice its grid."""
    padded, axes = [2 * length for length in field.shape], tuple(range(field.ndim))
    waves = np.fft.fftn(field, s=padded, axes=axes)
    return np.asarray(np.fft.ifftn(np.square(np.abs(waves))).real)
