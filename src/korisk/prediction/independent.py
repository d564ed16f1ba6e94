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

Near-copies are looked for by `near_copies` where no two images are known to be of one patient, from
16 x 16 pixels on. Of smaller images and of fields on a line, only equal ones are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm, t

from korisk.images.pixels import weights
from korisk.prediction.copies import SMALLEST, near_copies

Array = NDArray[np.float64]

_SIDE = 16  # pixels along an edge to which images are reduced
_MOST = 1024  # images that are compared, all pairs of them
# Thresholds of the notes.
_FEW = 16  # patients
_TELLING = 0.7  # number of independent images over all images


class Independence(NamedTuple):
    """The number of independent images that examples are worth, and their groups."""

    examples: int
    number: float  # of independent images that are worth as much, Eq. (eq:independent)
    groups: NDArray[np.int64] | None  # (compared,) of images that belong together; None: no two do
    patients: int | None
    copies: bool  # whether many images are near-copies of others

    @property
    def notes(self) -> list[str]:
        """Sentences if images are worth clearly fewer, or are of few patients."""
        sentences = []
        if self.number < _TELLING * self.examples or (self.patients or _FEW) < _FEW:
            whose = "" if self.patients is None else f" of {self.patients:,} patients"
            copies = ", many of them nearly copies of others," if self.copies else ""
            more = "images that differ as those to come will" if self.copies else "more patients"
            sentences.append(
                f"{self.examples:,} images{whose}{copies} are worth about {self.number:,.0f} "
                f"independent ones, and bands are wider for it; bring {more}."
            )
        return sentences


def independence(images: Array, patients: Sequence[str] | None = None) -> Independence:
    """Count the independent images among (n, h, w), or fields on a line (n, h).

    `patients` names the patient of each image; without it, every image has its own.
    """
    count = len(images)
    small = _small(images[:_MOST])
    compared = len(small)
    names = np.arange(count) if patients is None else np.unique(patients, return_inverse=True)[1]
    whose = names[:compared]
    shared = whose[:, None] == whose
    # Equal images, of which blank ones are no copies.
    texts = [image.tobytes() if np.ptp(image) > 0 else b"%d" % k for k, image in enumerate(small)]
    same = np.unique([hash(text) for text in texts], return_inverse=True)[1]
    copies = None
    if shared.sum() == compared and small.ndim == 3 and min(images.shape[1:]) >= SMALLEST:
        copies = near_copies(small)
    groups = same if copies is None else copies
    equal = groups[:, None] == groups
    correlation = np.where(shared, _intraclass(small.reshape(compared, -1), whose), 0.0)
    correlation[equal] = 1.0
    np.fill_diagonal(correlation, 0.0)
    mean = float(correlation.sum()) / (compared * (compared - 1))
    labels = connected_components(csr_array(shared | equal), directed=False)[1]
    together = labels.astype(np.int64) if labels.max() < compared - 1 else None
    of_patients = None if patients is None else int(names.max()) + 1
    # Eq. (eq:independent); what was compared stands for all.
    number = count / (1 + (count - 1) * mean)
    return Independence(count, number, together, of_patients, copies is not None)


def relative_error(values: Array, groups: NDArray[np.int64] | None) -> float:
    """Standard error of the mean of `values` (n,), over the mean; zero where the mean is zero.

    From the scatter between groups, such as patients, of the first len(groups) values. With few
    groups it is multiplied by the ratio of Student's to normal quantiles; a single group counts as
    independent values.
    """
    if groups is not None and groups.max() == 0:
        groups = None
    some = values if groups is None else values[: len(groups)]
    mean, number = float(some.mean()), len(some)
    sums = some - mean if groups is None else np.bincount(groups, some - mean)
    if not mean:
        return 0.0
    # Sums over groups, or single values: their scatter gives the standard error of the mean.
    error = math.sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) / number / mean
    return error * (1.0 if groups is None else float(t.ppf(0.95, len(sums) - 1) / norm.ppf(0.95)))


def _small(images: Array) -> Array:
    """Images of at most `_SIDE` pixels along every edge, by means over areas."""
    reduced = np.asarray(images, dtype=float)
    for axis in range(1, reduced.ndim):
        if (have := reduced.shape[axis]) > _SIDE:
            moved = np.moveaxis(reduced, axis, 0)
            means = weights(have, _SIDE) @ moved.reshape(have, -1)
            reduced = np.moveaxis(means.reshape(_SIDE, *moved.shape[1:]), 0, axis)
    return reduced


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
    # Mean squares between and within groups, for groups of unequal size.
    between = float(sizes @ np.square(means - rows.mean(axis=0)).sum(axis=1)) / (groups - 1)
    within = float(np.square(rows - means[whose]).sum()) / (number - groups)
    typical = (number - float(sizes @ sizes) / number) / (groups - 1)  # images of a group
    total = between + (typical - 1) * within
    return float(np.clip((between - within) / total, 0.0, 1.0)) if total > 0 else 1.0
