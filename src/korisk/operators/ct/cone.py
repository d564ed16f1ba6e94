"""Cone beams: a point source and a detector of rows and columns, on a circle or a helix.

The volume has `shape` (slices, rows, columns) voxels, centred on the origin: x runs along the
columns, y along the rows and z, the axis of rotation, along the slices, all with the index. Seen
from above, in a slice, everything is as for a `FanBeam`: its columns are the detector's columns.
The detector's rows are stacked along z.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import numpy as np

from korisk import _checks
from korisk.errors import Argument, KoriskError, KoriskWarning, Message, invalid
from korisk.operators.ct.geometry import FanBeam
from korisk.operators.ct.scan import FloatArray, Scan, centres, disc_points, frozen, plain, sides

_TURN = 2 * math.pi
# Fields that the fan of a slice has too.
_OF_FAN: tuple[str, ...] = ("pixel_spacing", "bin_spacing", "detector_offset", "curved")
_OF_FAN += ("source_to_center", "source_to_detector")
# A scan from the volume's size alone: distances in widths of the volume and views of a turn for
# each pixel of its width, about those of a C-arm; a bin is one voxel wide at the axis.
_SOURCE_TO_CENTER, _MAGNIFICATION = 3.0, 1.5
_VIEWS_PER_PIXEL, _VIEWS_MULTIPLE = 1.5, 4  # turns of four equal quarters are projected fastest
_STEEPEST = 1.0  # rise of a ray over its run: beyond 45 degrees steps in a slice skip slices
_SAMPLED = 48, 15, 30  # points across and along the cylinder, and views, to see what is missed


@dataclass(frozen=True, repr=False)
class ConeBeam(Scan):
    """A point source opposite a detector of rows and columns, turning about the z axis.

    A frozen value, as other geometries are: `ConeBeam(64)` is a whole scan of 64 x 64 x 64 voxels.
    At angle b the source is at (-R sin b, R cos b, h) with R = `source_to_center`. The bin in row v
    and column u, both in millimetres from where the central ray arrives, is at
    u (cos b, sin b, 0) - D (-sin b, cos b, 0) + v (0, 0, 1) from the source, with
    D = `source_to_detector`; on a curved detector, a cylinder about the source, u is a length along
    the arc. The height h of the source is 0 on a circle and pitch (b - mean b) / 2 pi on a helix.

    Parameters
    ----------
    shape : int or (int, int, int)
        Slices, rows and columns of voxels; one number for a cube.
    bins : int or (int, int), default: enough to see the cylinder inscribed in the volume
        Rows and columns of the detector; one number for a square.
    views : int, default: 1.5 a turn for each pixel of the volume's width
        Number of equally spaced views.
    angles : sequence of float, optional
        Angles of the views in radians, instead of `views`, `start` and `arc`; on a helix they go on
        growing turn after turn.
    start : float, default 0
        First angle in radians.
    arc : float, default: a full turn, and on a helix as many as pass the whole volume
        Arc of the views in radians.
    pitch : float, default 0
        Millimetres along z in one turn: 0 for a circle, else a helix.
    pixel_spacing : float, default 1
        Millimetres between voxels of a slice.
    slice_spacing : float, default: `pixel_spacing`
        Millimetres between slices.
    bin_spacing : float, default: a pixel, magnified
        Millimetres between the detector's columns.
    row_spacing : float, default: `bin_spacing`
        Millimetres between the detector's rows.
    detector_offset, row_offset : float, default 0
        Shift of the detector's centre along its rows and along z in millimetres.
    source_to_center : float, default: 3 widths of the volume
        Distance of the source from the axis of rotation in millimetres.
    source_to_detector : float, default: 1.5 `source_to_center`
        Distance of the source from the detector in millimetres.
    curved : bool, default False
        Whether the detector is a cylinder about the source instead of a plane.

    Raises
    ------
    KoriskError
        If no scanner can be so, or rays rise by more than 45 degrees.

    Warns
    -----
    KoriskWarning
        If the detector misses part of the volume, or angles look like degrees.

    Examples
    --------
    >>> from korisk.operators import ConeBeam
    >>> scan = ConeBeam(64)
    >>> scan.image_shape, scan.sinogram_shape, scan.source_to_center
    ((64, 64, 64), (96, 78, 66), 192.0)
    >>> helix = ConeBeam((40, 16, 16), pitch=10.0, bins=(24, 24))
    >>> helix.source_heights[[0, -1]].round(2).tolist()
    [-24.79, 24.79]
    """

    shape: int | tuple[int, int, int]
    _: KW_ONLY
    bins: int | tuple[int, int] = cast(Any, None)
    views: int = cast(Any, None)
    angles: tuple[float, ...] = ()
    start: float = 0.0
    arc: float | None = None
    pitch: float = 0.0
    pixel_spacing: float = 1.0
    slice_spacing: float = cast(Any, None)
    bin_spacing: float = cast(Any, None)
    row_spacing: float = cast(Any, None)
    detector_offset: float = 0.0
    row_offset: float = 0.0
    source_to_center: float = cast(Any, None)
    source_to_detector: float = cast(Any, None)
    curved: bool = False

    _full_arc: ClassVar[float] = _TURN

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "count slices, rows and columns of voxels"
        self._set("shape", sides("shape", self.shape, 3, 65536, remedy))
        for name in ("pitch", "row_offset", "detector_offset", "start"):
            remedy = "give radians" if name == "start" else "give millimetres"
            self._set(name, _checks.real(name, getattr(self, name), remedy=remedy))
        self._set_lengths()
        self._set_bins()
        self._set_views()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", KoriskWarning)
            _ = self.fan
        for warning in caught:  # again, from where the scan was made
            warnings.warn(warning.message, KoriskWarning, stacklevel=3)
        if self.pitch == 0:  # as the fan says it, so that equal scans are equal
            self._set("angles", self.fan.angles)
            self._set("arc", self.fan.arc)
        self._check_size("a volume or its projections", "voxels")
        rise = float(np.abs(self.row_offsets).max() / self.fan.bin_distances.min())
        if rise > _STEEPEST:
            rule = "rise by at most 45 degrees"
            remedy = Message("use fewer rows in ", Argument("bins", ...))
            got = f"{math.degrees(math.atan(rise)):.0f} degrees"
            raise invalid("the cone's rays", rule, rise, remedy, got=got)
        extent = self.detector_shape[0] * self.row_spacing
        higher = "the rows of ", Argument("bins", ...), " or ", Argument("row_spacing")
        self._warn_truncated("low", extent, "cylinder inscribed in the volume", *higher)

    def _set_lengths(self) -> None:
        """Check and set spacings and distances; defaults follow from the size of the volume."""

        def length(name: str, otherwise: float) -> float:
            value: Any = getattr(self, name)
            chosen = otherwise if value is None else value
            checked = _checks.real(name, chosen, above=0, at_most=1e9, remedy="give millimetres")
            self._set(name, checked)
            return checked

        pixel = length("pixel_spacing", 1.0)
        length("slice_spacing", pixel)
        source = _SOURCE_TO_CENTER * (max(self.image_shape[1:]) * pixel)
        distance: Any = self.source_to_detector
        if isinstance(distance, int | float) and not isinstance(distance, bool):
            source = distance / _MAGNIFICATION
        source = length("source_to_center", source)
        detector = length("source_to_detector", _MAGNIFICATION * source)
        length("row_spacing", length("bin_spacing", pixel * detector / source))

    def _set_bins(self) -> None:
        """Check and set the detector's rows and columns; by default they cover the cylinder."""
        bins: Any = self.bins
        if bins is not None:
            remedy = "count rows and columns of the detector"
            self._set("bins", sides("bins", bins, 2, 1_000_000, remedy))
            return
        height, *plane = self.image_size
        radius = max(plane) / 2  # of the cylinder inscribed in the volume
        self._refuse_source_inside(self.source_to_center, radius, "volume")
        nearest = self.source_to_center - radius
        # The outermost ray touches the cylinder: sin(angle) = radius / source_to_center.
        angle = math.asin(radius / self.source_to_center)
        across = self.source_to_detector * (angle if self.curved else math.tan(angle))
        # On a helix every point is seen while the source passes it, half a turn to either side.
        height_seen = min(height, abs(self.pitch)) if self.pitch else height
        along = height_seen / 2 * self.source_to_detector / nearest
        halves = along + abs(self.row_offset), across + abs(self.detector_offset)
        spacings = self.row_spacing, self.bin_spacing
        counts = (2 * math.ceil(h / s - 1e-9) for h, s in zip(halves, spacings, strict=True))
        self._set("bins", tuple(counts))

    def _set_views(self) -> None:
        """Set the default arc and number of views; the fan checks them."""
        views: Any = self.views
        if np.ndim(self.angles) == 1 and len(self.angles):
            checked = partial(_checks.real, "angles", remedy="give radians")
            self._set("angles", tuple(checked(plain(angle)) for angle in self.angles))
            if views is None:
                self._set("views", len(self.angles))
            return
        if self.pitch:
            turns = self.image_size[0] / abs(self.pitch) + 1
            arc = _TURN * turns if self.arc is None else self.arc
            self._set("arc", _checks.real("arc", arc, above=0, remedy="give radians"))
        if views is None:
            arc = _checks.real("arc", self.scanned_arc, above=0, remedy="give radians")
            per_turn = _VIEWS_PER_PIXEL * max(self.image_shape[1:])
            parts = math.ceil(per_turn * arc / _TURN / _VIEWS_MULTIPLE)
            self._set("views", parts * _VIEWS_MULTIPLE)

    @cached_property
    def fan(self) -> FanBeam:
        """The scan of a slice: the source's circle, and the detector's columns as bins."""
        lengths = {name: getattr(self, name) for name in _OF_FAN}
        plane = partial(FanBeam, self.image_shape[1:], bins=self.detector_shape[1], **lengths)
        if self.pitch:  # whose turns are one circle here
            return plane(angles=tuple(np.mod(self.angle_array, _TURN).tolist()))
        return plane(views=self.views, angles=self.angles, start=self.start, arc=self.arc)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(slices, rows, columns)."""
        assert isinstance(self.shape, tuple)
        return self.shape

    @property
    def detector_shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        assert isinstance(self.bins, tuple)
        return self.bins

    @property
    def sinogram_shape(self) -> tuple[int, int, int]:
        """(views, rows, columns) of the detector's pictures."""
        return self.views, *self.detector_shape

    @property
    def image_size(self) -> tuple[float, float, float]:
        """Extent along z, y and x in millimetres, outer edges."""
        slices, rows, columns = self.image_shape
        plane = rows * self.pixel_spacing, columns * self.pixel_spacing
        return slices * self.slice_spacing, *plane

    @cached_property
    def row_offsets(self) -> FloatArray:
        """Where the rows' centres lie along z, from the central ray, millimetres, (rows,)."""
        return centres(self.detector_shape[0], self.row_spacing, self.row_offset)

    @cached_property
    def source_heights(self) -> FloatArray:
        """z of the source at each view, millimetres, (views,)."""
        return frozen(self.pitch * (self.angle_array - self.angle_array.mean()) / _TURN)

    def rays(self, views: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """The source and the unit direction (x, y, z) of each ray.

        Parameters
        ----------
        views : slice, default: all
            Which views.

        Returns
        -------
        point, direction : ndarray, shape (views, rows, columns, 3)
        """
        source, across = (vectors[:, None] for vectors in self.fan.rays(views))
        heights = self.source_heights[views][:, None, None]
        rise = self.row_offsets[:, None] / self.fan.bin_distances
        direction = np.empty((len(heights), *self.detector_shape, 3))
        # In the plane of a slice a ray has length 1, and rises by its row over its way.
        direction[..., :2], direction[..., 2] = across, rise
        point = np.empty_like(direction)
        point[..., :2], point[..., 2] = source, heights
        return point, direction / np.linalg.norm(direction, axis=-1, keepdims=True)

    @cached_property
    def truncation(self) -> float:
        """Share of the cylinder inscribed in the volume that lies above or below the detector.

        Averaged over views; none on a helix, which sees each slice for a while alone.
        """
        if self.pitch:
            return 0.0
        across, along, views = _SAMPLED
        x, y = disc_points(across)
        depth, height, width = self.image_size
        every = slice(None, None, -(-self.views // views))
        nearness = self.fan.nearness(x * width / 2, y * height / 2, every)
        # Points in a slice at z are seen magnified by D / U, so their row is z D / U.
        magnified = nearness * self.source_to_detector / self.source_to_center
        z = ((np.arange(along) + 0.5) / along - 0.5) * depth
        row = magnified[..., None] * z - self.row_offset
        return float(np.mean(np.abs(row) > self.detector_shape[0] * self.row_spacing / 2))


def require_circle(geometry: ConeBeam) -> None:
    """Raise for a helix, which filtered backprojection along circles does not invert."""
    if geometry.pitch:
        remedy = "use Tikhonov(Projector(geometry), mu, solver='cg')"
        raise KoriskError(f"FDK is for a circle, got pitch={geometry.pitch:g}; {remedy}")
