"""Copies among images: equal ones, and the same with other noise, turned, mirrored or brighter.

All of it is computed on images of at most 16 x 16 pixels: noise and fine detail differ between
images of the same object. Of smaller images and of fields on a line, only equal ones are found.
The distance of two images is 1 - r, where r is their correlation at the best of the eight turns and
mirrorings. Copies are within `_NEAR`; so are independent images of a narrow population, but their
number grows steadily: by a factor of 2^(d/2) within twice the distance, in d dimensions. N(t), the
mean number of neighbours within t, is taken for A + B t^(d/2) with 2^(d/2) = `_GROWTH`, and images
are copies if A is most of N(t).

What goes unnoticed: copies that were shifted, turned by other angles, scaled or bent; copies of
fewer than a fifth of the images. Planes of one scan, or images of one patient, are no copies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from korisk.images.pixels import weights

Array = NDArray[np.float64]

_SIDE = 16  # pixels along an edge to which images are reduced
_MOST = 1024  # images that are compared, all pairs of them
_NEAR = 0.05  # distance of copies
_GROWTH = 4.0  # of the neighbours of independent images within twice the distance
_MOSTLY = 0.6  # A / N(t) from which on images are copies
_FEW = 0.2  # neighbours of an image, below which nothing is said


def copies(images: Array) -> NDArray[np.int64] | None:
    """(compared,) groups of copies among the first images (n, h, w); None where no two are."""
    first = np.asarray(images[:_MOST], dtype=float)
    # Means of a blank image differ by rounding, which is no pattern.
    varies = np.ptp(first, axis=tuple(range(1, first.ndim)), keepdims=True) > 0
    compared, groups = np.where(varies, _small(first), 0.0), None
    if compared.ndim == 3 and min(images.shape[1:]) >= _SIDE:
        groups = _near(compared)
    if groups is None:  # equal images, of which blank ones are no copies
        texts = [row.tobytes() if np.ptp(row) > 0 else b"%d" % k for k, row in enumerate(compared)]
        groups = np.unique([hash(text) for text in texts], return_inverse=True)[1].astype(np.int64)
    return groups if len(np.unique(groups)) < len(groups) else None


def _near(images: Array) -> NDArray[np.int64] | None:
    """(n,) groups of near-copies among images (n, h, h); None where there are none."""
    rows = _units(images)
    planes, ways = (images, images.swapaxes(1, 2)), (1, -1)  # turned and mirrored
    turns = [plane[:, ::down, ::across] for plane in planes for down in ways for across in ways]
    similar = np.max([rows @ _units(turn).T for turn in turns], axis=0)
    distance = np.maximum(1 - np.maximum(similar, similar.T), 0.0)
    np.fill_diagonal(distance, 0.0)
    near, farther = ((distance <= limit).sum() / len(rows) - 1 for limit in (_NEAR, 2 * _NEAR))
    if near < _FEW or near - (farther - near) / (_GROWTH - 1) < _MOSTLY * near:
        return None
    tree = linkage(squareform(distance, checks=False), "average")
    return np.asarray(fcluster(tree, 2 * _NEAR, "distance"), dtype=np.int64)


def _units(images: Array) -> Array:
    """Images (n, h, w) as rows without their means, of length one; blank ones are zero."""
    rows = images.reshape(len(images), -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))


def _small(images: Array) -> Array:
    """Images of at most `_SIDE` pixels along every edge, by means over areas."""
    reduced = np.asarray(images, dtype=float)
    for axis in range(1, reduced.ndim):
        if (have := reduced.shape[axis]) > _SIDE:
            moved = np.moveaxis(reduced, axis, 0)
            means = weights(have, _SIDE) @ moved.reshape(have, -1)
            reduced = np.moveaxis(means.reshape(_SIDE, *moved.shape[1:]), 0, axis)
    return reduced
