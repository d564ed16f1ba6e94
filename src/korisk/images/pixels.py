"""From a page of a file to an image: values in one unit, cut and resampled to one size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import Argument, KoriskError, invalid
from korisk.images.formats.page import Page
from korisk.images.patients import digest

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
PixelUnit = Literal["HU", "1/mm", "1/cm", "1/m", "plain"]
PIXEL_UNITS: tuple[PixelUnit, ...] = ("HU", "1/mm", "1/cm", "1/m", "plain")
MU_WATER = 0.0192  # 1/mm, at 70 keV
_PER_MM = {"1/mm": 1.0, "1/cm": 0.1, "1/m": 0.001}
Resample = Literal["area", "spline"]
RESAMPLE: tuple[Resample, ...] = ("area", "spline")
Crop = Literal["square", "pad", "none"] | tuple[int, int]
CROP = ("square", "pad", "none")
_UNIT, _SCALE = Argument("unit", ...), Argument("scale", ...)  # for messages
_LARGEST_SIDE = 65536
_LARGEST = float(np.finfo(np.float32).max)  # 3.4e38


class BlankError(KoriskError):
    """An image that shows nothing, which is left out."""


class Image(NamedTuple):
    """An image as it is kept, and what is known about it."""

    name: str
    values: NDArray[np.float32]
    unit: str  # "1/mm" or "plain"
    scaling: str  # how values were made, in words
    spacing: tuple[float, float] | None  # mm from row to row, from column to column
    shape: tuple[int, int]  # in the file
    stated: str | None  # its patient, as stated in the file
    note: str | None  # what to warn about
    digest: str  # of what the file holds


@dataclass(kw_only=True)
class Conversion:
    """How every page becomes an image: the options of `read_images`, checked here."""

    side: int | None = None
    crop: Crop = "square"
    resample: Resample = "area"
    unit: PixelUnit | None = None  # of files that do not say theirs
    mu_water: float = MU_WATER
    scale: float | None = None

    def __post_init__(self) -> None:
        _checks.one_of("resample", self.resample, RESAMPLE)
        if self.side is not None:
            self.side = _pixel_count("side", self.side)
        crop: object = self.crop
        if isinstance(crop, tuple | list) and len(crop) == 2:
            self.crop = (_pixel_count("crop", crop[0]), _pixel_count("crop", crop[1]))
        elif crop not in CROP:
            rule = f"be one of {', '.join(CROP)}, or (rows, columns)"
            raise invalid("crop", rule, crop, "'square' keeps the middle, 'pad' keeps all")
        if self.unit is not None:
            _checks.one_of("unit", self.unit, PIXEL_UNITS)
        remedy = "0.0192 is water in 1/mm"
        self.mu_water = _checks.real("mu_water", self.mu_water, above=0, remedy=remedy)
        if self.scale is not None:
            remedy = "give the value that becomes 1"
            self.scale = _checks.real("scale", self.scale, above=0, remedy=remedy)

    def key(self) -> str:
        """The options as a fingerprint has them."""
        return " ".join(f"{name}={value}" for name, value in vars(self).items())

    def __call__(self, page: Page, name: str) -> Image:
        """The image of a page, under the name that messages use."""
        high, wide = page.values.shape
        if min(high, wide) < 2:
            raise KoriskError(f"is {high} x {wide}, too small for an image; remove it")
        with np.errstate(over="ignore"):
            values, unit, scaling = self._in_unit(page)
        largest = float(values.max())
        # `relative` divides attenuation by that of water.
        if largest > _LARGEST * (min(1.0, self.mu_water) if unit == "1/mm" else 1.0):
            raw = page.values.max()
            stated = f"{float(raw):.4g}" if np.isfinite(float(raw)) else str(raw)
            made = "" if float(raw) == largest else f", read as {largest:.4g},"
            start = f"pixel value {stated}{made} does not fit single precision (up to 3.4e+38)"
            remedy = "; divide the values, or correct "
            raise KoriskError(start, remedy, _UNIT, " or ", _SCALE)
        rows, columns = cut_shape((high, wide), self.crop)
        if (rows, columns) != (high, wide):
            values = cut(values, rows, columns)
        spacing = page.spacing
        if self.side is not None:
            if rows != columns:
                square, pad = Argument("crop", "square"), Argument("crop", "pad")
                start = f"is {rows} x {columns} and would be distorted to {self.side} x {self.side}"
                raise KoriskError(start, "; use ", square, " or ", pad)
            values = resampled(values, self.side, self.side, method=self.resample)
            values = np.clip(values, 0, _LARGEST)  # a spline may go beyond
            if spacing is not None:  # the field of view is that of what was cut out
                spacing = spacing[0] * rows / self.side, spacing[1] * columns / self.side
        image = values.astype(np.float32)
        if float(image.min()) == float(image.max()):
            low, high = float(values.min()), float(values.max())
            if low < high:
                why = f"varies from {low!r} to {high!r}, which single precision does not tell apart"
                raise KoriskError(f"{why}; scale or shift its values")
            raise BlankError(f"is {low:g} everywhere")
        mark = digest(page.values, page.unit, page.full)
        known = (spacing, (high, wide), page.patient, page.note, mark)
        return Image(name, image, unit, scaling, *known)

    def _in_unit(self, page: Page) -> tuple[Array, str, str]:
        """The values in float64, their unit ("1/mm" or "plain"), and what was done in words."""
        values = np.asarray(page.values, dtype=np.float64)
        if bad := values.size - int(np.isfinite(page.values).sum()):
            raise KoriskError(f"has {bad:,} values that are NaN or infinite; replace them")
        if page.unit is not None and self.unit not in (None, "plain", page.unit):
            start = f"has its values in {page.unit}, which contradicts "
            remedy = ", or read the two kinds of files separately with "
            given, pattern = Argument("unit", self.unit), Argument("pattern", ...)
            raise KoriskError(start, given, "; leave out ", _UNIT, remedy, pattern)
        unit = self.unit or page.unit or "plain"
        if unit != "plain":
            if self.scale is not None:
                end = f"{self.scale:g} is for plain values; leave it out"
                raise KoriskError("holds attenuation, and ", _SCALE, end)
            if unit == "HU":
                attenuation = self.mu_water * (1 + values / 1000)
                words = f"from Hounsfield units with water at {self.mu_water:g} 1/mm"
            else:
                attenuation = values * _PER_MM[unit]
                words = f"as attenuation in {unit}"
            return np.maximum(attenuation, 0), "1/mm", words
        if (lowest := float(values.min())) < 0:
            why = f"has values below 0 (the lowest is {lowest:g}), which plain images must not have"
            end = " if they are Hounsfield units, or shift or clip them"
            raise KoriskError(why, "; use ", Argument("unit", "HU"), end)
        full = self.scale or page.full
        if full is None:
            start = "holds whole numbers beyond 16 bits or rescaled ones, whose full scale is not "
            raise KoriskError(start, "known; give ", _SCALE, ", the value that becomes 1")
        return values / full, "plain", "as they are" if full == 1 else f"divided by {full:g}"


def _pixel_count(field: str, value: object) -> int:
    remedy = "count the pixels along an edge"
    return _checks.count(field, value, at_least=2, at_most=_LARGEST_SIDE, remedy=remedy)


def cut_shape(shape: tuple[int, int], crop: Crop) -> tuple[int, int]:
    """Rows and columns of what is cut out of an image."""
    if crop == "square":
        return (min(shape),) * 2
    if crop == "pad":
        return (max(shape),) * 2
    return shape if isinstance(crop, str) else crop


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


def resampled(image: Array, rows: int, columns: int, *, method: Resample = "area") -> Array:
    """The image with other numbers of rows and columns, over the same field of view.

    An axis that shrinks is averaged over areas, y_i = (m / n) sum_j |I_i ∩ J_j| x_j, where pixel j
    covers J_j = [j, j + 1] and the new pixel i covers I_i = [i n / m, (i + 1) n / m]; so the mean
    stays. An axis that grows is interpolated between pixel centres, linearly ("area") or by a
    cubic spline ("spline"), and continued by its outermost value.
    """
    return _along_rows(_along_rows(image, rows, method).T, columns, method).T


def _along_rows(image: Array, want: int, method: Resample) -> Array:
    have = image.shape[0]
    if want == have:
        return image
    if want > have > 1 and method == "spline":
        from scipy.interpolate import make_interp_spline

        curve = make_interp_spline(np.arange(have), image, k=min(3, have - 1))
        return np.asarray(curve(_centres(have, want)), dtype=np.float64)
    return np.asarray(weights(have, want) @ image, dtype=np.float64)


@lru_cache(maxsize=64)
def weights(have: int, want: int) -> csr_array:
    """The sparse matrix (want, have) of areas or of linear interpolation; rows add up to 1."""
    from scipy.sparse import csr_array

    if want < have:
        # In units of 1 / want of a pixel all edges are whole numbers, so nothing is rounded before
        # the division. Between two edges lies a piece of one new pixel and of one old.
        new, old = (np.arange(count + 1, dtype=np.int64) for count in (want, have))
        edges = np.union1d(new * have, old * want)
        start, entries = edges[:-1], np.diff(edges) / have
        return csr_array((entries, (start // have, start // want)), shape=(want, have))
    centres = _centres(have, want)
    left = np.minimum(centres.astype(np.int64), max(have - 2, 0))
    part = centres - left
    entries = np.concatenate([1 - part, part])
    places = np.tile(np.arange(want), 2), np.concatenate([left, np.minimum(left + 1, have - 1)])
    return csr_array((entries, places), shape=(want, have))


def _centres(have: int, want: int) -> Array:
    """Where the centres of the new pixels lie among the old ones."""
    return np.clip((np.arange(want) + 0.5) * have / want - 0.5, 0, have - 1)
