"""How many independent images some examples are worth, and which of them belong together.

Images of one patient look alike, and so do copies of an image that were shifted, turned or made
noisy. A mean over n images, such as a second moment, is then as uncertain as one over

    K = n / (1 + (n - 1) q),    Eq. (eq:independent)

independent images, where q is the mean correlation of two different ones. Of images of the same
patient it is the intraclass correlation, which compares the scatter of patients' mean images with
the scatter around them; of near-copies it is one, and of all others zero. For n images in equal
parts of m this is the design effect n / (1 + (m - 1) rho) of cluster samples.

All of it is computed on images of at most 16 x 16 pixels: noise and fine detail differ between
images of the same object, and do not make them independent.

Near-copies are looked for where no two images are known to be of one patient. Two images are
neighbours if the correlation of what sets them apart from the mean image, at the best shift by one
of these pixels, is at least .9 (distance sqrt(.2)) or .8 (distance sqrt(.4)). Images that are drawn
independently from a population of d dimensions have 2^(d/2) times as many neighbours within the
larger distance; digits have 4.7 times as many, clothing, heads, chests, brains and ellipses 6.7 or
more. Copies are neighbours already within the smaller one, and few more come: of eight images in
256 copies, 3.4 times as many at most. Fewer and weaker copies of similar images may go unnoticed.
Images below 16 x 16 pixels have too few dimensions for that, and fields on a line too; of these,
only equal ones are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm, t

from korisk.images.pixels import weights

Array = NDArray[np.float64]

_SIDE = 16  # pixels
_MOST = 2048  # images that are compared, each with each
_CLOSE, _NEAR = 0.9, 0.8  # correlation of neighbours
_GROWTH = 4.0  # as many neighbours at `_NEAR` as at `_CLOSE`, from which on images are independent
_FEW = 16  # patients, below which a sentence says so
_TELLING = 0.7  # of the images; a number of independent ones below that is worth a sentence


class Independence(NamedTuple):
    """What examples are worth."""

    examples: int
    number: float  # of independent images that are worth as much, Eq. (eq:independent)
    groups: NDArray[np.int64] | None  # (compared,) of images that belong together; None: no two do
    patients: int | None
    copies: bool  # whether most images are near-copies of others

    @property
    def notes(self) -> list[str]:
        """A sentence, where images are worth clearly fewer, or are of few patients."""
        if self.number >= _TELLING * self.examples and (self.patients or _FEW) >= _FEW:
            return []
        whose = "" if self.patients is None else f" of {self.patients:,} patients"
        copies = ", many of them nearly copies of others," if self.copies else ""
        more = "images that differ as those to come will" if self.copies else "more patients"
        return [
            f"{self.examples:,} images{whose}{copies} are worth about {self.number:,.0f} "
            f"independent ones, and bands are wider for it; bring {more}."
        ]


def independence(images: Array, patients: Sequence[str] | None = None) -> Independence:
    """What images (n, h, w), or fields on a line (n, h), are worth.

    `patients` names whose each is; without it no two are of the same.
    """
    count = len(images)
    small = _small(images[:_MOST])
    compared = len(small)
    names = np.arange(count) if patients is None else np.unique(patients, return_inverse=True)[1]
    whose = names[:compared]
    shared = whose[:, None] == whose
    copies = False
    if small.shape[1:] == (_SIDE, _SIDE) and shared.sum() == compared:
        similar = _similarity(small)
        close, near = ((similar >= least).sum() / compared - 1 for least in (_CLOSE, _NEAR))
        copies = bool(close >= 1 and near < _GROWTH * close)
    if copies:
        linked = connected_components(similar >= _CLOSE, directed=False)[1]
        same = linked[:, None] == linked  # to be counted once
        alike = same | (similar >= _NEAR)  # to be kept together
    else:  # equal images, of which blank ones are no copies
        texts = [
            each.tobytes() if np.ptp(each) > 0 else b"%d" % at for at, each in enumerate(small)
        ]
        equal = np.unique([hash(text) for text in texts], return_inverse=True)[1]
        same = alike = equal[:, None] == equal
    correlation = np.where(shared, _intraclass(small.reshape(compared, -1), whose), 0.0)
    correlation[same] = 1.0
    np.fill_diagonal(correlation, 0.0)
    mean = float(correlation.sum()) / (compared * (compared - 1))
    groups = connected_components(csr_array(shared | alike), directed=False)[1]
    return Independence(
        count,
        count / (1 + (count - 1) * mean),
        groups.astype(np.int64) if groups.max() < compared - 1 else None,
        None if patients is None else int(names.max()) + 1,
        copies,
    )


def relative_error(values: Array, groups: NDArray[np.int64] | None) -> float:
    """The standard error of the mean of values (n,) over that mean; zero where the mean is.

    It comes from the scatter between groups, of those images that were compared. Few groups do not
    determine it well, so it is as much larger then as Student's law is wider than the normal one;
    of a single group, it comes from the scatter inside.
    """
    if groups is not None and groups.max() == 0:
        groups = None
    some = values if groups is None else values[: len(groups)]
    mean, number = float(some.mean()), len(some)
    sums = some - mean if groups is None else np.bincount(groups, some - mean)
    if not mean:
        return 0.0
    error = math.sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) / number / mean
    return error * (1.0 if groups is None else float(t.ppf(0.95, len(sums) - 1) / norm.ppf(0.95)))


def _small(images: Array) -> Array:
    """Images of at most `_SIDE` pixels along every edge, by means over areas."""
    found = np.asarray(images, dtype=float)
    for axis in range(1, found.ndim):
        if (have := found.shape[axis]) > _SIDE:
            moved = np.moveaxis(found, axis, 0)
            means = weights(have, _SIDE) @ moved.reshape(have, -1)
            found = np.moveaxis(means.reshape(_SIDE, *moved.shape[1:]), 0, axis)
    return found


def _similarity(images: Array) -> Array:
    """(n, n) correlations of images (n, h, w) less their mean, at the best shift by a pixel."""
    number, height, width = images.shape
    sizes = np.sqrt(np.square(images).mean(axis=(1, 2), keepdims=True))
    images = images / np.where(sizes > 0, sizes, 1.0)  # else few bright ones would be the mean
    mean = images[:, 1:-1, 1:-1].mean(axis=0)
    rows = {}
    for down, right in product(range(3), repeat=2):
        moved = images[:, down : down + height - 2, right : right + width - 2]
        values = (moved - mean).reshape(number, -1)
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        rows[down, right] = np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)
    found = np.eye(number)
    for moved in rows.values():
        np.maximum(found, rows[1, 1] @ moved.T, out=found)
    return np.maximum(found, found.T)


def _intraclass(rows: Array, whose: NDArray[np.int64]) -> float:
    """The share of the scatter of rows (n, pixels) that is between groups, from one-way ANOVA."""
    number, groups = len(rows), int(whose.max()) + 1
    sizes = np.bincount(whose, minlength=groups).astype(float)
    present = sizes > 0
    groups = int(present.sum())
    if groups in (1, number):
        return 1.0
    sums = np.zeros((len(sizes), rows.shape[1]))
    np.add.at(sums, whose, rows)
    means = sums / np.maximum(sizes, 1.0)[:, None]
    between = float(sizes @ np.square(means - rows.mean(axis=0)).sum(axis=1)) / (groups - 1)
    within = float(np.square(rows - means[whose]).sum()) / (number - groups)
    typical = (number - float(sizes @ sizes) / number) / (groups - 1)  # images of a group
    total = between + (typical - 1) * within
    return float(np.clip((between - within) / total, 0.0, 1.0)) if total > 0 else 1.0
