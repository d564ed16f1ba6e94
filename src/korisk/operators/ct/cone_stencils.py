"""Which voxel meets which bin of a cone beam: in the plane of a slice as a fan, then along z.

All rays of a detector's column pass the same points of a slice's plane, and only their heights
differ. So the weights of a view are two factors: each point of the plane takes two pixels of every
slice, and each row of the detector meets the line of voxels above that point at a height that is
linear in the row's number, between two slices. Pixel-driven backprojection is the same with image
and detector exchanged. Engines use either the factors or, as for a fan, single taps.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from korisk.operators.ct.cone import ConeBeam
from korisk.operators.ct.scan import FloatArray
from korisk.operators.ct.stencils import Joseph, PixelDriven, Stencil, Taps, linear

_CPU = torch.device("cpu")


class Factors(NamedTuple):
    """Interpolation of one view, split into a part in the slice's plane and a part along z.

    Each target reads several points of the plane; each point lies between two sources. For rays,
    targets are detector columns and sources are pixels of a slice; for pixel-driven
    backprojection, the reverse. Entry j along a target (a detector row, or a slice) reads its
    sources at the position start + slope * j, in slices (or in detector rows).
    """

    source: Tensor  # (targets, points, 2): flat indices of the two sources
    weight: Tensor  # (targets, points, 2): interpolation weights, float64; zero outside
    start: Tensor  # (targets, points): position of entry 0, float64
    slope: Tensor  # (targets, points): positions per entry, float64, > 0


@dataclass(frozen=True)
class ConeStencil(Stencil[ConeBeam]):
    """One way to discretise a cone beam."""

    @abstractmethod
    def factors(self, view: int) -> Factors:
        """The factors of one view, on the CPU."""

    @property
    def sources(self) -> tuple[int, int]:
        """Number of sources of a view, and of entries along z for each."""
        slices, *plane = self.geometry.image_shape
        rows, columns = self.geometry.detector_shape
        return (math.prod(plane), slices) if self.listed == "rays" else (columns, rows)

    @property
    def targets(self) -> tuple[int, int]:
        """Number of targets of a view, and of entries along z for each."""
        slices, *plane = self.geometry.image_shape
        rows, columns = self.geometry.detector_shape
        return (columns, rows) if self.listed == "rays" else (math.prod(plane), slices)

    @cached_property
    def lengths(self) -> FloatArray:
        """Weight of each detector bin beside the factors, (rows, columns)."""
        return np.ones(self.geometry.detector_shape)

    @property
    def quarters(self) -> int:
        """4 if a quarter turn maps the scan to itself, else 1.

        If so, the views at 0, 90, 180 and 270 degrees share one set of factors: the volume is
        rotated with `numpy.rot90` instead.
        """
        scan = self.geometry
        full_turn = not scan.angles and not scan.pitch and scan.arc is None
        return 4 if full_turn and scan.views % 4 == 0 and scan.shape[1] == scan.shape[2] else 1  # type: ignore[index]

    def taps(self, views: slice, device: torch.device, elements: slice = slice(None)) -> Taps:
        """The entries of some views: (views, rays or voxels, 4 points)."""
        targets, lines = self.targets
        sources, length = self.sources
        element = torch.arange(targets * lines)[elements]
        target, entry = element % targets, element // targets  # as they lie in memory
        indices, weight = [], []
        for view in range(*views.indices(self.geometry.views)):
            source, share, start, slope = (factor[target] for factor in self.factors(view))
            place = start + slope * entry[:, None]  # (elements, points)
            # Two heights on the lines of two sources: four taps for each point.
            along, weight_along = linear(place, torch.tensor(length))  # (elements, points, 2)
            indices.append((along.unsqueeze(-1) * sources + source.unsqueeze(-2)).flatten(1))
            weight.append((weight_along.unsqueeze(-1) * share.unsqueeze(-2)).flatten(1))
        taps, weights = torch.stack(indices).to(device), torch.stack(weight).to(device)
        listed = element.to(device)[None, :, None]
        if self.listed == "rays":
            scale = torch.from_numpy(self.lengths).to(device).flatten()[listed]
            return Taps(taps, listed, weights * scale)
        return Taps(listed, taps, weights)


@dataclass(frozen=True)
class ConeJoseph(ConeStencil):
    """Joseph's method in three dimensions: one sample a row or column, interpolated bilinearly.

    Rays are sampled along x or y, whichever they follow more closely, and never along z, since they
    rise by less than 45 degrees.
    """

    listed = "rays"

    @property
    def taps_per_view(self) -> int:
        """How many entries `taps` lists for a view, zeros included."""
        return self.bins * 4 * max(self.geometry.image_shape[1:])

    def factors(self, view: int) -> Factors:
        """The factors of one view: points are the steps of a column's rays, (columns, steps)."""
        scan, views = self.geometry, slice(view, view + 1)
        source, weight, distance = (array[0] for array in Joseph(scan.fan).samples(views, _CPU))
        # A ray v above the source's height at its end is v t above it at the fraction t of its way.
        fraction = distance / torch.from_numpy(np.array(scan.fan.bin_distances))[:, None]
        middle = (scan.image_shape[0] - 1) / 2
        height = float(scan.source_heights[view])
        start = (height + float(scan.row_offsets[0]) * fraction) / scan.slice_spacing + middle
        return Factors(source, weight, start, fraction * (scan.row_spacing / scan.slice_spacing))

    @cached_property
    def lengths(self) -> FloatArray:
        """Length of a step along an oblique ray over that in the plane, (rows, columns)."""
        scan = self.geometry
        return np.asarray(np.hypot(1.0, scan.row_offsets[:, None] / scan.fan.bin_distances))


@dataclass(frozen=True)
class ConePixelDriven(ConeStencil):
    """Each voxel takes from each view what the detector shows where its ray arrives.

    Bilinear between bins, nothing beyond them, times the square of `FanBeam.nearness`.
    """

    listed = "pixels"

    @property
    def taps_per_view(self) -> int:
        """How many entries `taps` lists for a view, zeros included."""
        return 4 * math.prod(self.geometry.image_shape)

    def factors(self, view: int) -> Factors:
        """The factors of one view: one point for each pixel of a slice, (pixels, 1)."""
        scan, views = self.geometry, slice(view, view + 1)
        taps = PixelDriven(scan.fan).taps(views, _CPU)
        across, down = scan.fan.pixel_centres
        x, y = (coordinate.ravel() for coordinate in np.meshgrid(across, down))
        # Magnification D / U of a pixel: rows of the detector per millimetre of height.
        magnified = torch.from_numpy(scan.fan.nearness(x, y, views)[0]) * scan.fan.magnification
        # Height of the lowest slice above the source.
        first = -(scan.image_shape[0] - 1) / 2 * scan.slice_spacing - scan.source_heights[view]
        start = (float(first) * magnified - float(scan.row_offsets[0])) / scan.row_spacing
        slope = magnified * (scan.slice_spacing / scan.row_spacing)
        plane = taps.bin[0].unsqueeze(1), taps.weight[0].unsqueeze(1)
        return Factors(*plane, start.unsqueeze(1), slope.unsqueeze(1))
