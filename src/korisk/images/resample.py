"""Images cut and brought to another number of pixels, without losing what they weigh."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.sparse import csr_array

from korisk import _checks
from korisk.errors import KoriskError, shown

Array = NDArray[np.float64]
Resample = Literal["area", "spline"]
RESAMPLE: tuple[Resample, ...] = ("area", "spline")
Crop = Literal["square", "pad", "none"] | tuple[int, int]
CROP = ("square", "pad", "none")
_LARGEST = 65536


def resampled(image: Array, rows: int, columns: int, *, method: Resample = "area") -> Array:
    """The image with other numbers of rows and columns, over the same field of view.

    An axis that shrinks is averaged over areas, y_i = (m / n) sum_j |I_i ∩ J_j| x_j, where pixel j
    covers J_j = [j, j + 1] and the new pixel i covers I_i = [i n / m, (i + 1) n / m]; so the mean
    stays. An axis that grows is interpolated between pixel centres, linearly ("area") or by a
    cubic spline ("spline"), and continued by its outermost value.
    """
    _checks.one_of("resample", method, RESAMPLE)
    return _along_rows(_along_rows(image, rows, method).T, columns, method).T


def cut(image: Array, rows: int, columns: int) -> Array:
    """The middle of an image, with zeros around it where it is smaller."""
    result = np.zeros((rows, columns))
    inside, outside = [], []
    for have, want in zip(image.shape, (rows, columns), strict=True):
        kept = min(have, want)
        inside.append(slice((have - kept) // 2, (have - kept) // 2 + kept))
        outside.append(slice((want - kept) // 2, (want - kept) // 2 + kept))
    result[tuple(outside)] = image[tuple(inside)]
    return result


def cut_shape(shape: tuple[int, int], crop: Crop) -> tuple[int, int]:
    """Rows and columns of what is cut out of an image."""
    if crop == "square":
        return (min(shape),) * 2
    if crop == "pad":
        return (max(shape),) * 2
    return shape if isinstance(crop, str) else crop


def checked_crop(crop: object, side: int | None) -> Crop:
    """`crop`, if it is one that images can be cut by."""
    if isinstance(crop, str) and crop in CROP:
        return crop  # type: ignore[return-value]
    if not isinstance(crop, tuple | list) or len(crop) != 2:
        raise KoriskError(
            f"crop must be one of {', '.join(CROP)}, or (rows, columns), got {shown(crop)}; "
            "'square' keeps the middle, 'pad' keeps all"
        )
    remedy = "count the pixels that are kept"
    rows, columns = (
        _checks.count("crop", each, at_least=2, at_most=_LARGEST, remedy=remedy) for each in crop
    )
    if side is not None and rows != columns:
        raise KoriskError(
            f"crop must be as high as wide where side= is given, got {rows} x {columns}; images of "
            f"{side} x {side} would be squeezed"
        )
    return rows, columns


def checked_side(side: object) -> int | None:
    """`side`, if images can have it."""
    if side is None:
        return None
    remedy = "count the pixels along an edge"
    return _checks.count("side", side, at_least=2, at_most=_LARGEST, remedy=remedy)


def _along_rows(image: Array, want: int, method: Resample) -> Array:
    have = image.shape[0]
    if want == have:
        return image
    if want > have > 1 and method == "spline":
        curve = make_interp_spline(np.arange(have), image, k=min(3, have - 1))
        return np.asarray(curve(_centres(have, want)), dtype=np.float64)
    weights = _overlaps(have, want) if want < have else _linear(have, want)
    return np.asarray(weights @ image, dtype=np.float64)


@lru_cache(maxsize=64)
def _overlaps(have: int, want: int) -> Any:
    """The sparse matrix (want, have) of areas; its rows add up to 1."""
    # In units of 1 / want of a pixel all edges are whole numbers, so nothing is rounded before
    # the division. Between two edges lies a piece of one new pixel and of one old.
    edges = np.union1d(
        np.arange(want + 1, dtype=np.int64) * have, np.arange(have + 1, dtype=np.int64) * want
    )
    start = edges[:-1]
    return csr_array((np.diff(edges) / have, (start // have, start // want)), shape=(want, have))


@lru_cache(maxsize=64)
def _linear(have: int, want: int) -> Any:
    """The sparse matrix (want, have) of linear interpolation; its rows add up to 1."""
    centres = _centres(have, want)
    left = np.minimum(centres.astype(np.int64), max(have - 2, 0))
    right = np.minimum(left + 1, have - 1)
    part = centres - left
    new = np.arange(want)
    entries = np.concatenate([1 - part, part])
    places = np.concatenate([new, new]), np.concatenate([left, right])
    return csr_array((entries, places), shape=(want, have))


def _centres(have: int, want: int) -> Array:
    """Where the new pixels' centres lie among the old ones'."""
    return np.clip((np.arange(want) + 0.5) * have / want - 0.5, 0, have - 1)
