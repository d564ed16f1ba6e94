"""Conversion of pages to images: one unit, cropped and resampled to one size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import Argument, KoriskError
from korisk.images.formats.page import Page
from korisk.images.patients import digest

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
PixelUnit = Literal["HU", "1/mm", "1/cm", "1/m", "plain"]
MU_WATER = 0.0192  # 1/mm, at 70 keV
_PER_MM = {"1/mm": 1.0, "1/cm": 0.1, "1/m": 0.001}
Resample = Literal["area", "spline"]
Crop = Literal["square", "pad", "none"]
_UNIT, _SCALE = Argument("unit", ...), Argument("scale", ...)  # for messages
_LARGEST_SIDE = 65536
_LARGEST = float(np.finfo(np.float32).max)  # 3.4e38


class BlankError(KoriskError):
    """A constant image, which is left out."""


class Image(NamedTuple):
    """A converted image with its properties."""

    name: str
    values: NDArray[np.float32]
    unit: str  # "1/mm" or "plain"
    scaling: str  # how values were converted, in words
    spacing: tuple[float, float] | None  # mm from row to row, from column to column
    shape: tuple[int, int]  # in the file
    patient: str | None  # as stated in the file
    note: str | None  # for a warning
    digest: str  # of the stored values


@dataclass(kw_only=True)
class Conversion:
    """Converts pages to images, by the options of `read_images`, which are checked here."""

    side: int | None = None
    crop: Crop = "square"
    resample: Resample = "area"
    unit: PixelUnit | None = None  # of files that do not state theirs
    mu_water: float = MU_WATER
    scale: float | None = None

    def __post_init__(self) -> None:
        _checks.one_of("resample", self.resample, get_args(Resample))
        _checks.one_of("crop", self.crop, get_args(Crop))
        if self.side is not None:
            remedy, most = "count its pixels", _LARGEST_SIDE
            self.side = _checks.count("side", self.side, remedy, at_least=2, at_most=most)
        if self.unit is not None:
            _checks.one_of("unit", self.unit, get_args(PixelUnit))
        self.mu_water = _checks.real("mu_water", self.mu_water, "0.0192 is water in 1/mm", above=0)
        if self.scale is not None:
            self.scale = _checks.real("scale", self.scale, "give the value that becomes 1", above=0)

    def key(self) -> str:
        """The options as text, for a fingerprint."""
        return " ".join(f"{name}={value}" for name, value in vars(self).items())

    def __call__(self, page: Page, name: str) -> Image:
        """Convert a page; `name` is its name in messages."""
        high, wide = page.values.shape
        if min(high, wide) < 2:
            raise KoriskError(f"is {high} x {wide}, too small for an image; remove it")
        with np.errstate(over="ignore"):
            values, unit, scaling = self._in_unit(page)
        largest = float(values.max())
        # `relative` divides attenuation by that of water.
        if largest > _LARGEST * (min(1.0, self.mu_water) if unit == "1/mm" else 1.0):
            raw = page.values.max()
            text = f"{float(raw):.4g}" if np.isfinite(float(raw)) else str(raw)
            converted = "" if float(raw) == largest else f", read as {largest:.4g},"
            start = f"pixel value {text}{converted} does not fit single precision (up to 3.4e+38)"
            raise KoriskError(start, "; divide the values, or correct ", _UNIT, " or ", _SCALE)
        rows, columns = high, wide
        if self.crop != "none" and high != wide:
            rows = columns = min(high, wide) if self.crop == "square" else max(high, wide)
            values = cut(values, rows, columns)
        spacing = page.spacing
        if self.side is not None:
            if rows != columns:
                square, pad = Argument("crop", "square"), Argument("crop", "pad")
                start = f"is {rows} x {columns} and would be distorted to {self.side} x {self.side}"
                raise KoriskError(start, "; use ", square, " or ", pad)
            values = resampled(values, self.side, self.side, method=self.resample)
            values = np.clip(values, 0, _LARGEST)  # a spline may overshoot
            if spacing is not None:  # the cropped field of view stays the same
                spacing = spacing[0] * rows / self.side, spacing[1] * columns / self.side
        image = values.astype(np.float32)
        if float(image.min()) == float(image.max()):
            low, high = float(values.min()), float(values.max())
            if low < high:
                why = f"varies from {low!r} to {high!r}, which are equal in single precision"
                raise KoriskError(f"{why}; scale or shift its values")
            raise BlankError(f"is {low:g} everywhere")
        # Of the stored values: the same image has one digest whatever the options are.
        about = page.patient, page.note, digest(page.values, page.unit, page.full)
        return Image(name, image, unit, scaling, spacing, page.values.shape, *about)

    def _in_unit(self, page: Page) -> tuple[Array, str, str]:
        """Values in float64, their unit ("1/mm" or "plain"), and the conversion in words."""
        values = np.asarray(page.values, dtype=np.float64)
        if count := values.size - int(np.isfinite(page.values).sum()):
            raise KoriskError(f"has {count:,} values that are NaN or infinite; replace them")
        if page.unit is not None and self.unit not in (None, "plain", page.unit):
            start = f"has its values in {page.unit}, which contradicts "
            remedy = ", or read the two kinds of files separately with "
            stated_unit, pattern = Argument("unit", self.unit), Argument("pattern", ...)
            raise KoriskError(start, stated_unit, "; leave out ", _UNIT, remedy, pattern)
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


def cut(image: Array, rows: int, columns: int) -> Array:
    """The centre of an image, padded with zeros where it is smaller."""
    result = np.zeros((rows, columns))
    inside, outside = [], []
    for have, want in zip(image.shape, (rows, columns), strict=True):
        count = min(have, want)
        inside.append(slice((have - count) // 2, (have - count) // 2 + count))
        outside.append(slice((want - count) // 2, (want - count) // 2 + count))
    result[tuple(outside)] = image[tuple(inside)]
    return result


def resampled(image: Array, rows: int, columns: int, *, method: Resample = "area") -> Array:
    """Resample an image to other numbers of rows and columns, over the same field of view.

    An axis that shrinks is averaged over areas, y_i = (m / n) sum_j |I_i ∩ J_j| x_j, where pixel j
    covers J_j = [j, j + 1] and the new pixel i covers I_i = [i n / m, (i + 1) n / m]; this keeps
    the mean. An axis that grows is interpolated between pixel centres, linearly ("area") or by a
    cubic spline ("spline"), and extended by its outermost value.
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


# All slices of a scan have the same size, and so the same matrices.
@lru_cache(maxsize=64)
def weights(have: int, want: int) -> csr_array:
    """The sparse matrix (want, have) of areas or of linear interpolation; rows add up to 1."""
    from scipy.sparse import csr_array

    if want < have:
        # In units of 1 / want of a pixel all edges are whole numbers, so nothing is rounded before
        # the division. Between two edges is the overlap of one new and one old pixel.
        new, old = (np.arange(count + 1, dtype=np.int64) for count in (want, have))
        edges = np.union1d(new * have, old * want)
        start, entries = edges[:-1], np.diff(edges) / have
        return csr_array((entries, (start // have, start // want)), shape=(want, have))
    centres = _centres(have, want)
    below = np.minimum(centres.astype(np.int64), max(have - 2, 0))
    fraction = centres - below
    entries = np.concatenate([1 - fraction, fraction])
    columns = np.concatenate([below, np.minimum(below + 1, have - 1)])
    return csr_array((entries, (np.tile(np.arange(want), 2), columns)), shape=(want, have))


def _centres(have: int, want: int) -> Array:
    """Centres of the new pixels, as positions among the old ones."""
    return np.clip((np.arange(want) + 0.5) * have / want - 0.5, 0, have - 1)
