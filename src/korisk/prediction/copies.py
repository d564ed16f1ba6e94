"""Near-copies among images: the same with other noise, turned, mirrored, shifted or brighter.

Every image is brought to 32 x 32 pixels (16 x 16 below that), its mean is taken off, and it is
divided by its contrast, so that brightness does not matter. Its white noise is estimated from the
smallest quarter of its diagonal second differences, since edges and texture are in the others. A
filter then weighs every wave f by how much it says about whether two images show the same,

    w(f) = S / (N (2 S + N)),    N = noise + (.3 + (2 pi f / 2)^2) S,    Eq. (eq:same-image)

where S is the mean power of the images' differences from their mean image. That is the weight of a
wave in the likelihood ratio of equal against independent signals with differences of power N:
noise, what brightness and interpolation change, and a shift by half a pixel. Coarse waves, which
similar images share, count no more than others, and those that noise covers count for nothing.

Two images are compared by the correlation of what sets them apart from the mean image, at the best
of the eight turns and mirrorings and of all shifts by a sixth of the image at most. Noise takes
from that correlation a share that is known, and is given back; the largest of many correlations is
too large by chance, and that is taken off.

Independent images of a narrow population are similar, too, but their number within a distance
grows steadily: by a factor of 2^(d/2) within twice the squared distance, in d dimensions. Copies
are within a small distance, and few more come. N(t), the mean number of neighbours within the
squared distance t = 1 - correlation, is taken for A + B t^(d/2) with 2^(d/2) = 4. There are copies
if A is most of N(t), at t = .1 or .05.

What goes unnoticed: copies turned by more than some five degrees, scaled or bent; copies of fewer
than a fifth of the images; copies of images that show less than noise (`unclear`). Planes of one
scan, or images of one patient, are no copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from korisk.images.pixels import weights

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Fields = TypeVar("Fields", Array, Single)

SMALLEST = 16  # pixels along an edge, from which on copies are looked for
_FINE = 32  # pixels that larger images are reduced to
_SHIFT = 5  # of these, at most
_ALIGNMENTS = 5  # rounds in which images are turned towards their mean
_QUARTER = 0.3186  # 25% quantile of the absolute value of a standard normal variable
_UNLIKE, _MISPLACED = 0.3, 0.5  # what copies differ by: a share of the power, and pixels
_CLEAR = 0.6  # share of an image's filtered power that is no noise, from which on it is compared
_BY_CHANCE = 1.5  # standard errors by which the largest of many correlations is too large
_BLANK = 0.1  # of the median contrast: less shows nothing
_NEAR = (0.1, 0.05)  # squared distances t at which neighbours are counted
_GROWTH = 4.0  # of the neighbours of independent images within 2 t; 8 or more is usual
_MOSTLY = 0.6  # A / N(t) from which on images are copies; below .55 for all independent ones seen
_PREFERENCE = 0.1  # by which the smaller t must be better
_FEW = 0.2  # neighbours of an image, below which nothing is said
_TOGETHER = 1.5  # times t: the mean squared distance up to which groups are joined


class Copies(NamedTuple):
    """Which images are near-copies of each other."""

    groups: NDArray[np.int64] | None  # (n,) images with equal numbers are copies; None: no copies
    number: float  # of independent images that are worth as much
    unclear: int  # images that show too little beside their noise


def near_copies(images: Array) -> Copies:
    """Near-copies among images (n, h, w), both edges of `SMALLEST` pixels or more."""
    similar, reliable, pixels = _similarity(images)
    count = len(images)
    clear = reliable >= _CLEAR
    compared = int(clear.sum())
    unclear = int((~clear & np.isfinite(reliable)).sum())
    nothing = Copies(None, float(count), unclear)
    if compared < 2:
        return nothing
    share = reliable[clear]
    by_chance = _BY_CHANCE * np.sqrt(((1 - share)[:, None] + (1 - share)) / pixels)
    same = (similar[np.ix_(clear, clear)] - by_chance) / np.sqrt(np.outer(share, share))
    distance = np.maximum(1 - same, 0.0)
    np.fill_diagonal(distance, 0.0)

    def neighbours(limit: float) -> float:
        return float((distance <= limit).sum()) / compared - 1

    # N(t) = A + B t^(d/2): `copies` is A, from the neighbours within t and within 2 t.
    chosen, least = None, _MOSTLY
    for limit in _NEAR:
        near = neighbours(limit)
        if near < _FEW:
            continue
        copies = near - (neighbours(2 * limit) - near) / (_GROWTH - 1)
        if copies / near >= least:
            chosen, least = limit, copies / near + _PREFERENCE
    if chosen is None:
        return nothing
    # Groups of copies; the pairs inside them are q of Eq. (eq:independent).
    tree = linkage(squareform(distance, checks=False), "average")
    labels = fcluster(tree, _TOGETHER * chosen, "distance")
    sizes = np.bincount(labels)
    # Share of pairs of images inside one group.
    correlation = float((sizes * (sizes - 1)).sum()) / compared / (compared - 1)
    # Unclear images may be copies of clear ones or of each other: half way, in logarithms.
    number = count / (1 + (count - 1) * correlation) * math.sqrt(count / compared)
    groups = np.empty(count, dtype=np.int64)
    groups[clear] = labels
    if compared < count:  # with the most similar image
        groups[~clear] = labels[similar[np.ix_(~clear, clear)].argmax(axis=1)]
    numbered = np.unique(groups, return_inverse=True)[1]
    return Copies(numbered, min(number, float(count)), unclear)


def _similarity(images: Array) -> tuple[Single, Array, int]:
    """(n, n) correlations at the best rotation and shift, (n,) signal shares, and pixels.

    The share of a blank image is minus infinity.
    """
    fine = min(images.shape[1:]) >= _FINE
    plain = _reduced(images, _FINE if fine else SMALLEST)
    plain -= plain.mean(axis=(1, 2), keepdims=True)
    contrast = np.sqrt(np.square(plain).mean(axis=(1, 2), keepdims=True))
    blank = contrast.ravel() <= _BLANK * np.median(contrast)
    plain = _turned_alike(np.divide(plain, contrast, out=plain, where=contrast > 0))
    noise = _noise(plain)
    filtered, noise_share = _filtered(plain, float(np.median(noise)), fine)
    # At 32 pixels, means of 2 x 2 of them at every position; compared at every second position.
    step, shift = (2, _SHIFT) if fine else (1, (_SHIFT + 1) // 2)
    length = filtered.shape[1] - 2 * shift

    def cut(fields: Single, down: int, right: int) -> Single:
        """(..., pixels) the crop of fields whose corner is (down, right)."""
        crop = fields[..., down : down + length : step, right : right + length : step]
        return np.asarray(crop.reshape(*crop.shape[:-2], -1), dtype=np.float32)

    mean = cut(filtered.mean(axis=0), shift, shift)
    centre = cut(filtered, shift, shift) - mean
    power = np.square(centre).mean(axis=1).astype(float)
    reliable = 1 - np.divide(noise_share * noise, power, out=np.ones_like(power), where=power > 0)
    reliable[blank] = -np.inf
    rows = _units(centre)
    correlations = np.zeros((len(images), len(images)), dtype=np.float32)
    for turned in _turns(filtered):
        for down in range(2 * shift + 1):  # one product for all shifts along the other axis
            moved = [_units(cut(turned, down, right) - mean) for right in range(2 * shift + 1)]
            products = (rows @ np.concatenate(moved).T).reshape(len(rows), len(moved), -1)
            np.maximum(correlations, products.max(axis=1), out=correlations)
    return np.maximum(correlations, correlations.T), reliable, centre.shape[1]


def _filtered(plain: Array, noise: float, fine: bool) -> tuple[Single, float]:
    """Images filtered by the root of Eq. (eq:same-image), and the share of noise that passes."""
    side = plain.shape[1]
    # A window that falls to zero over an eighth of the edge: no jump at the periodic boundary.
    ramp = np.minimum(1.0, (np.arange(side) + 0.5) / (side / 8))
    taper = np.sin(np.pi / 2 * np.minimum(ramp, ramp[::-1])) ** 2
    window = np.outer(taper, taper)
    # S: the radial mean power of the images' differences from their mean, without the noise.
    waves = np.fft.fft2((plain - plain.mean(axis=0)) * window)
    power = np.square(np.abs(waves)).mean(axis=0) / np.square(window).sum()
    lines = np.fft.fftfreq(side)
    frequency = np.hypot(lines[:, None], lines)
    rings = np.round(frequency * side).astype(int)
    radial = np.bincount(rings.ravel(), power.ravel()) / np.bincount(rings.ravel())
    signal = np.maximum(radial[rings] - noise, 0.0)
    # w(f) of Eq. (eq:same-image), with N = `differing`; scaled to a largest weight of one.
    differing = noise + (_UNLIKE + (2 * np.pi * frequency * _MISPLACED) ** 2) * signal
    spread = differing * (2 * signal + differing)
    weight = np.divide(signal, spread, out=np.zeros_like(signal), where=spread > 0)
    weight /= max(float(weight.max()), 1e-300)
    filtered = np.fft.ifft2(np.fft.fft2(plain) * np.sqrt(weight)).real
    if not fine:
        return filtered.astype(np.float32), float(weight.mean())
    means = (
        filtered[:, :-1, :-1] + filtered[:, 1:, :-1] + filtered[:, :-1, 1:] + filtered[:, 1:, 1:]
    ) / 4
    # Means of 2 x 2 pixels pass cos^2 of the noise of each wave.
    averaged = np.square(np.outer(np.cos(np.pi * lines), np.cos(np.pi * lines)))
    return means.astype(np.float32), float((weight * averaged).mean())


def _noise(plain: Array) -> Array:
    """(n,) the variance of white noise in images, from their smallest diagonal differences."""
    rows = plain[:, 1:] - plain[:, :-1]
    differences = np.abs(rows[:, :, 1:] - rows[:, :, :-1]).reshape(len(plain), -1) / 2
    return np.asarray(np.square(np.quantile(differences, 0.25, axis=1) / _QUARTER))


def _turned_alike(plain: Array) -> Array:
    """Images, each rotated and mirrored to match the mean image, which is then informative.

    The iteration starts at the image most similar to the mean of all images.
    """
    # (8, n, side, side) all rotations and reflections, then (8, n, pixels) as unit rows.
    turns = np.array(list(_turns(plain)))
    rows = _units(turns.reshape(len(turns) * len(plain), -1)).reshape(*turns.shape[:2], -1)
    towards = rows[0, np.argmax(rows[0] @ rows[0].mean(axis=0))]
    every = np.arange(len(plain))
    for _ in range(_ALIGNMENTS):
        best = (rows @ towards).argmax(axis=0)
        towards = rows[best, every].mean(axis=0)
    return np.asarray(turns[best, every])


def _turns(fields: Fields) -> Iterator[Fields]:
    """The eight rotations and reflections of square fields (n, h, h)."""
    for flipped in (fields, fields.swapaxes(1, 2)):
        yield from (flipped, flipped[:, ::-1], flipped[:, :, ::-1], flipped[:, ::-1, ::-1])


def _units(rows: Fields) -> Fields:
    """Rows divided by their norms; zero rows stay zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Fields = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return units


def _reduced(images: Array, side: int) -> Array:
    """(n, side, side) means over areas."""
    rows, columns = (weights(length, side) for length in images.shape[1:])
    across = (columns @ np.asarray(images, dtype=float).reshape(-1, images.shape[2]).T).T
    across = across.reshape(len(images), images.shape[1], side).swapaxes(1, 2)
    down = (rows @ across.reshape(-1, images.shape[1]).T).T
    return np.asarray(down.reshape(len(images), side, side).swapaxes(1, 2)).copy()
