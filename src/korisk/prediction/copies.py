"""Near-copies among images: the same with other noise, turned by quarters, mirrored or brighter.

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

Array = NDArray[np.float64]

SMALLEST = 16  # pixels along an edge, from which on copies are looked for
_NEAR = 0.05  # distance of copies
_GROWTH = 4.0  # of the neighbours of independent images within twice the distance
_MOSTLY = 0.6  # A / N(t) from which on images are copies
_FEW = 0.2  # neighbours of an image, below which nothing is said


def near_copies(images: Array) -> NDArray[np.int64] | None:
    """(n,) groups of near-copies among images (n, h, h); None where there are none."""
    rows = _units(images)
    turns = [turn for plane in (images, images.swapaxes(1, 2)) for turn in _mirrored(plane)]
    similar = np.max([rows @ _units(turn).T for turn in turns], axis=0)
    distance = np.maximum(1 - np.maximum(similar, similar.T), 0.0)
    np.fill_diagonal(distance, 0.0)
    near, farther = ((distance <= limit).sum() / len(rows) - 1 for limit in (_NEAR, 2 * _NEAR))
    if near < _FEW or near - (farther - near) / (_GROWTH - 1) < _MOSTLY * near:
        return None
    tree = linkage(squareform(distance, checks=False), "average")
    return np.asarray(fcluster(tree, 2 * _NEAR, "distance"), dtype=np.int64)


def _mirrored(images: Array) -> tuple[Array, ...]:
    return images, images[:, ::-1], images[:, :, ::-1], images[:, ::-1, ::-1]


def _units(images: Array) -> Array:
    """Images (n, h, w) as rows without their means, of length one; blank ones are zero."""
    rows = images.reshape(len(images), -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))
