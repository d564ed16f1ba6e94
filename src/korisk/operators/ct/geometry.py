"""Scanner geometries as frozen values in millimetres and radians; NumPy alone, no backend.

The image has `shape` (rows, columns) pixels, centred on the axis of rotation; x runs along the
columns and y along the rows, both with the index. At angle b the detector runs along
(cos b, sin b), and bin i sits at (i - (bins - 1) / 2) * bin_spacing + detector_offset.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import Argument, KoriskError, KoriskWarning, Message, invalid, shown
from korisk.operators.ct.scan import FloatArray, Scan, centres, disc_points, frozen, plain, sides

_VIEWS_SAMPLED, _POINTS_ACROSS = 90, 48  # views and points, for how much the detector misses
_MISSING_WEDGE = 2.0  # a gap so many times the next widest one was left out on purpose
_WARN_TURNS = 3
_ALL = slice(None)  # views
_COUNTS = {"at_least": 1, "at_most": 1_000_000}  # of views and bins
_VIEWS_OR_ANGLES = Message("pass ", Argument("views", ...), " or ", Argument("angles", ...))
_SPACING = "give millimetres", 1e-9, 1e9
_NUMBERS: dict[str, tuple[str, float | None, float | None]] = {  # remedy, least and most
    "pixel_spacing": _SPACING,
    "bin_spacing": _SPACING,
    "detector_offset": ("give the shift of the detector's centre in millimetres", None, None),
    "start": ("give radians", None, None),
}


@dataclass(frozen=True, repr=False)
class Geometry(Scan):
    """What the beams share: image, views and detector.

    Abstract: a geometry is a `ParallelBeam` or a `FanBeam`. A frozen value; equal geometries are
    equal and hash alike. Either `views` angles, equally spaced over `arc` from `start` with the end
    left out, or explicit `angles` in any order and over any range: limited, sparse or uneven.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns of pixels; one number for a square.
    bins : int
        Detector bins.
    views : int, optional
        Number of equally spaced views.
    angles : sequence of float, optional
        Angles of the views in radians, instead of `views`, `start` and `arc`.
    start : float, default 0
        First angle in radians.
    arc : float, default: half a turn for parallel rays, a full one for a fan
        Arc of the views in radians.
    pixel_spacing, bin_spacing : float, default 1
        Millimetres.
    detector_offset : float, default 0
        Shift of the detector's centre in millimetres.

    Warns
    -----
    KoriskWarning
        If the detector misses part of the image, or angles look like degrees.

    Examples
    --------
    >>> from korisk.operators import ParallelBeam
    >>> scan = ParallelBeam((16, 8), views=12, bins=24, pixel_spacing=0.5)
    >>> scan.image_shape, scan.image_size, scan.sinogram_shape
    ((16, 8), (8.0, 4.0), (12, 24))
    """

    shape: int | tuple[int, int]  # rows and columns; one number for a square
    _: KW_ONLY
    bins: int
    views: int | None = None
    angles: tuple[float, ...] = ()
    start: float = 0.0
    arc: float | None = None
    pixel_spacing: float = 1.0
    bin_spacing: float = 1.0
    detector_offset: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "count the rows and columns of pixels"
        self._set("shape", sides("shape", self.shape, 2, 65536, remedy))
        self._set("bins", _checks.count("bins", self.bins, "count the detector's bins", **_COUNTS))
        for name, (remedy, least, most) in _NUMBERS.items():
            value = getattr(self, name)
            number = _checks.real(name, value, remedy=remedy, at_least=least, at_most=most)
            self._set(name, number)
        self._set_views()
        self._check_size("an image or a sinogram", "pixels")
        self._check_distances()
        rows, columns = self.image_shape
        region = f"{'disc' if rows == columns else 'ellipse'} inscribed in the image"
        wider = Argument("bins", ...), " or ", Argument("bin_spacing", ...)
        self._warn_truncated("short", self.bins * self.bin_spacing, region, *wider)

    def _set_views(self) -> None:
        """Check and set `angles`, or `views` and `arc`, whichever was passed."""
        if np.ndim(self.angles) != 1:
            raise invalid("angles", "be a sequence of radians", self.angles)
        angles = tuple(
            _checks.real(f"angles[{index}]", plain(angle), remedy="give radians")
            for index, angle in enumerate(self.angles)
        )
        self._set("angles", angles)
        views = len(angles) if angles else self.views
        count = _checks.count("views", views, **_COUNTS, remedy=_VIEWS_OR_ANGLES)
        if angles:
            if self.arc is not None or self.start or self.views not in (None, len(angles)):
                either = "pass either ", Argument("angles", ...), " or ", Argument("views", ...)
                spaced = " with ", Argument("start", ...), " and ", Argument("arc", ...)
                got = f"{len(angles):,} angles with views={shown(self.views)}"
                raise KoriskError(*either, *spaced, f", not both, got {got}")
            largest = max(map(abs, angles))
            if largest > _WARN_TURNS * 2 * math.pi:
                text = f"angles go up to {largest:g}, which is many turns in radians"
                text += "; convert degrees with numpy.deg2rad"
                warnings.warn(text, KoriskWarning, stacklevel=4)
        elif self.arc is not None:
            most = 2 * math.pi * (1 + 1e-12)
            remedy = "give radians, up to a full turn of 2 pi"
            arc = _checks.real("arc", self.arc, above=0, at_most=most, remedy=remedy)
            self._set("arc", None if arc == self._full_arc else arc)  # so that equal scans are
        self._set("views", count)

    def _check_distances(self) -> None:
        """Raise for distances that no scanner can have."""

    @property
    def image_shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        assert isinstance(self.shape, tuple)
        return self.shape

    @property
    def sinogram_shape(self) -> tuple[int, int]:
        """(views, bins)."""
        return self.views_count, self.bins

    @property
    def image_size(self) -> tuple[float, float]:
        """Height and width in millimetres, outer edges."""
        return self.image_shape[0] * self.pixel_spacing, self.image_shape[1] * self.pixel_spacing

    @cached_property
    def offsets(self) -> FloatArray:
        """Where the bins' centres lie along the detector, millimetres, (bins,)."""
        return centres(self.bins, self.bin_spacing, self.detector_offset)

    @cached_property
    def pixel_centres(self) -> tuple[FloatArray, FloatArray]:
        """x of the columns and y of the rows, millimetres: (columns,), (rows,)."""
        rows, columns = self.image_shape
        return centres(columns, self.pixel_spacing), centres(rows, self.pixel_spacing)

    @abstractmethod
    def rays(self, views: slice = _ALL) -> tuple[FloatArray, FloatArray]:
        """A point and the unit direction (x, y) of each ray.

        Parameters
        ----------
        views : slice, default: all
            Which views.

        Returns
        -------
        point, direction : ndarray, shape (views, bins, 2)
        """

    @abstractmethod
    def detector_position(self, x: FloatArray, y: FloatArray, views: slice = _ALL) -> FloatArray:
        """Where the ray through (x, y) meets the detector.

        Parameters
        ----------
        x, y : ndarray
            Points in millimetres.
        views : slice, default: all
            Which views.

        Returns
        -------
        ndarray, shape (views, *x.shape)
            Millimetres along the detector.
        """

    def _across(self, x: FloatArray, y: FloatArray, views: slice) -> FloatArray:
        """Coordinate of (x, y) along the detector, millimetres, (views, *x.shape)."""
        angle = self.angle_array[views].reshape(-1, *([1] * np.ndim(x)))
        return np.cos(angle) * x + np.sin(angle) * y

    @cached_property
    def view_weights(self) -> FloatArray:
        """The part of the arc that each view stands for, radians, (views,).

        Each view takes half of the gap to either neighbour, on the circle after which rays
        repeat. One gap far wider than all others is a wedge that was not measured: the views at
        its edges stand for as much on that side as on the other.
        """
        if not self.angles and self.scanned_arc <= self._full_arc:
            return frozen(np.full(self.views_count, self.scanned_arc / self.views_count))
        cell, sharers, gaps, wedge = self._cells
        if len(gaps) == 1:
            return frozen(np.full(self.views_count, self._full_arc / self.views_count))
        before = np.roll(gaps, 1)  # the gap before each cell; `gaps` has the one after it
        to_previous, to_next = before.copy(), gaps.copy()
        if wedge is not None:  # not measured: its edges do not stand for half of it
            to_next[wedge] = before[wedge]
            after = (wedge + 1) % len(gaps)
            to_previous[after] = gaps[after]
        return frozen(((to_previous + to_next) / 2 / sharers)[cell])

    @cached_property
    def _cells(self) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray, int | None]:
        """Different angles on the circle, sorted, are cells: the cell of each view, how many views
        share each cell, the gap after it, and which gap is a wedge that was not measured.
        """
        # Rounded, so that views which see the same rays (one turn on, or twice) share one cell.
        period = self._full_arc
        turned = np.mod(self.angle_array, period)
        rounded = np.round(turned, 9) % round(period, 9)
        _, chosen, cell, sharers = np.unique(rounded, True, True, True)  # index, inverse, counts
        angles = turned[chosen]
        gaps = np.mod(np.diff(angles, append=angles[0] + period), period)
        widest = int(np.argmax(gaps))
        apart = len(gaps) >= 3 and gaps[widest] > _MISSING_WEDGE * np.delete(gaps, widest).max()
        return cell, sharers, gaps, widest if apart else None

    @cached_property
    def coverage(self) -> tuple[float, float]:
        """First angle and length of the arc that the views cover, each view with its cell."""
        total = float(self.view_weights.sum())
        if not self.angles:
            return self.start - float(self.view_weights[0]) / 2, total
        cell, _, gaps, wedge = self._cells
        members = cell == (0 if wedge is None else (wedge + 1) % len(gaps))
        shown_angle = float(self.angle_array[members].min())
        return shown_angle - float(self.view_weights[members].sum()) / 2, total

    @cached_property
    def truncation(self) -> float:
        """Share of the ellipse inscribed in the image that the detector misses, over all views."""
        # Measured on a coarse grid and some views: the share matters to a digit or two.
        x, y = disc_points(_POINTS_ACROSS)
        height, width = self.image_size
        every = -(-self.views_count // _VIEWS_SAMPLED)
        position = self.detector_position(x * width / 2, y * height / 2, slice(None, None, every))
        beyond = np.abs(position - self.detector_offset) > self.bins * self.bin_spacing / 2
        return float(np.mean(beyond))


@dataclass(frozen=True, repr=False)
class ParallelBeam(Geometry):
    """Parallel rays: at angle b, bin s integrates the line x cos b + y sin b = s.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns of pixels; one number for a square.
    bins : int
        Detector bins.
    views : int, optional
        Number of equally spaced views.
    angles : sequence of float, optional
        Angles of the views in radians, instead of `views`, `start` and `arc`.
    start : float, default 0
        First angle in radians.
    arc : float, default pi
        Arc of the views in radians.
    pixel_spacing, bin_spacing : float, default 1
        Millimetres.
    detector_offset : float, default 0
        Shift of the detector's centre in millimetres.

    Examples
    --------
    >>> from korisk.operators import ParallelBeam
    >>> scan = ParallelBeam(128, views=60, bins=128)
    >>> scan
    ParallelBeam(128, bins=128, views=60)
    >>> scan.angle_array[[0, 30]].round(4).tolist()
    [0.0, 1.5708]
    """

    _full_arc: ClassVar[float] = math.pi

    def rays(self, views: slice = _ALL) -> tuple[FloatArray, FloatArray]:
        """A point and the unit direction (x, y) of each ray, both (views, bins, 2)."""
        angle = self.angle_array[views][:, None]
        point = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * self.offsets[None, :, None]
        direction = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
        return point, np.broadcast_to(direction, point.shape)

    def detector_position(self, x: FloatArray, y: FloatArray, views: slice = _ALL) -> FloatArray:
        """Where the ray through (x, y) meets the detector, millimetres, (views, *x.shape)."""
        return self._across(x, y, views)


@dataclass(frozen=True, repr=False)
class FanBeam(Geometry):
    """A point source opposite a detector, both turning about the centre.

    At angle b the source is at R (-sin b, cos b) with R = `source_to_center`, and the detector's
    centre at D = `source_to_detector` from it, on the other side. A curved detector is an arc about
    the source, and its bins' spacing and offset are lengths along that arc.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns of pixels; one number for a square.
    bins : int
        Detector bins.
    views : int, optional
        Number of equally spaced views.
    angles : sequence of float, optional
        Angles of the views in radians, instead of `views`, `start` and `arc`.
    start : float, default 0
        First angle in radians.
    arc : float, default 2 pi
        Arc of the views in radians; `short_scan` is the least that sees every ray.
    pixel_spacing : float, default 1
        Pixel spacing in millimetres.
    bin_spacing : float, default 1
        Bin spacing in millimetres.
    detector_offset : float, default 0
        Shift of the detector's centre in millimetres.
    source_to_center : float
        Distance of a fan beam's source from the centre of rotation in millimetres.
    source_to_detector : float
        Distance of a fan beam's source from the detector in millimetres.
    curved : bool, default False
        Whether the detector is an arc about the source instead of a line.

    Examples
    --------
    >>> from korisk.operators import FanBeam
    >>> scan = FanBeam(16, views=12, bins=32, source_to_center=40, source_to_detector=60)
    >>> scan.magnification, round(scan.short_scan, 3), scan.fan_angles.shape
    (1.5, 3.664, (32,))
    """

    _: KW_ONLY
    source_to_center: float = None  # type: ignore[assignment]
    source_to_detector: float = None  # type: ignore[assignment]
    curved: bool = False

    _full_arc: ClassVar[float] = 2 * math.pi

    def _check_distances(self) -> None:
        _checks.require(isinstance(self.curved, bool), "curved", "be True or False", self.curved)
        for name in ("source_to_center", "source_to_detector"):
            remedy = "a fan beam needs both distances in millimetres"
            self._set(name, _checks.real(name, getattr(self, name), above=0, remedy=remedy))
        self._refuse_source_inside(self.source_to_center, self.reach, "image")
        widest = float(np.abs(self.fan_angles).max())
        if widest >= math.pi / 2:
            rule, got = "see less than half a turn", f"bins at {math.degrees(widest):.4g} degrees"
            raise invalid("a curved detector", rule, widest, "use fewer bins", got=got)

    @property
    def reach(self) -> float:
        """How far the image reaches towards the source, or away from it, at some view."""
        height, width = self.image_size
        angle = self.angle_array
        # The projection of a rectangle onto the direction towards the source.
        return float(np.max(np.abs(np.sin(angle)) * width + np.abs(np.cos(angle)) * height) / 2)

    @property
    def magnification(self) -> float:
        """Magnification of an object at the centre of rotation."""
        return self.source_to_detector / self.source_to_center

    @cached_property
    def fan_angles(self) -> FloatArray:
        """The angle of each bin's ray against the central one, radians, (bins,)."""
        if self.curved:
            return frozen(self.offsets / self.source_to_detector)
        return frozen(np.arctan2(self.offsets, self.source_to_detector))

    @cached_property
    def bin_distances(self) -> FloatArray:
        """How far the bins lie from the source, millimetres, (bins,)."""
        distance = np.hypot(self.source_to_detector, 0.0 if self.curved else self.offsets)
        return frozen(np.broadcast_to(distance, self.bins))

    @property
    def short_scan(self) -> float:
        """The least arc that sees every ray at least once: pi + 2 max |fan angle|."""
        # fan_angles are of the bins' centres; rays reach half a bin beyond the outermost one.
        half_bin = math.atan2(self.bin_spacing / 2, self.source_to_detector)
        return math.pi + 2 * (float(np.abs(self.fan_angles).max()) + half_bin)

    def rays(self, views: slice = _ALL) -> tuple[FloatArray, FloatArray]:
        """A point (the source) and the unit direction (x, y) of each ray, both (views, bins, 2)."""
        angle = self.angle_array[views][:, None]
        # Unit vectors from the centre to the source, and along the detector: (views, 1, 2).
        outward = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
        along = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        if self.curved:
            fan = self.fan_angles[None, :, None]
            to_bin = np.sin(fan) * along - np.cos(fan) * outward
        else:
            to_bin = self.offsets[None, :, None] * along - self.source_to_detector * outward
        direction = to_bin / np.linalg.norm(to_bin, axis=-1, keepdims=True)
        return np.broadcast_to(self.source_to_center * outward, direction.shape), direction

    def depth(self, x: FloatArray, y: FloatArray, views: slice = _ALL) -> FloatArray:
        """U: how far (x, y) lies from the source along the central ray.

        Parameters
        ----------
        x, y : ndarray
            Points in millimetres.
        views : slice, default: all
            Which views.

        Returns
        -------
        ndarray, shape (views, *x.shape)
            Millimetres.
        """
        angle = self.angle_array[views].reshape(-1, *([1] * np.ndim(x)))
        return self.source_to_center + np.sin(angle) * x - np.cos(angle) * y

    def detector_position(self, x: FloatArray, y: FloatArray, views: slice = _ALL) -> FloatArray:
        """Where the ray through (x, y) meets the detector, millimetres, (views, *x.shape)."""
        across, depth = self._across(x, y, views), self.depth(x, y, views)
        if self.curved:
            return self.source_to_detector * np.arctan2(across, depth)
        return self.source_to_detector * across / depth

    def nearness(self, x: FloatArray, y: FloatArray, views: slice = _ALL) -> FloatArray:
        """Distance of the centre from the source divided by that of (x, y).

        Parameters
        ----------
        x, y : ndarray
            Points in millimetres.
        views : slice, default: all
            Which views.

        Returns
        -------
        ndarray, shape (views, *x.shape)
            R / U with the `depth` U; for a curved detector U is the distance from the source.
        """
        depth = self.depth(x, y, views)
        if self.curved:
            depth = np.hypot(depth, self._across(x, y, views))
        return self.source_to_center / depth


def require_fan(geometry: object, what: str) -> None:
    """Raise if the geometry is not a FanBeam."""
    if not isinstance(geometry, FanBeam):
        raise KoriskError(f"{what} are for a FanBeam, got {shown(geometry)}")
