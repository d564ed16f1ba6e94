"""Which pixel meets which bin with which weight: the discretisations, once for every engine.

A stencil gives its taps view by view. Engines turn them into a sparse matrix or apply them on the
fly; either way forward and adjoint use the same weights, so the adjoint is exact.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from korisk.errors import Argument, KoriskError
from korisk.operators.ct.cone import ConeBeam
from korisk.operators.ct.geometry import FanBeam, Geometry, ParallelBeam

Scan = TypeVar("Scan", bound=Geometry | ConeBeam, covariant=True)

_NOTHING = 1e-12  # of a pixel: an interpolation weight below it is rounding


@dataclass(frozen=True)
class Taps:
    """Entries of some views, in arrays that broadcast to (views, elements, taps).

    `pixel` counts over the whole image or volume, `bin` within its view. An entry whose weight is
    zero lies outside; its indices are valid all the same.
    """

    pixel: Tensor
    bin: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Stencil(ABC, Generic[Scan]):
    """One way to discretise the line integrals of a geometry."""

    geometry: Scan
    # What taps are listed for: the rays of a view, each with its pixels, or the pixels, each with
    # its bins. Sums over what is listed need no scattering.
    listed: ClassVar[Literal["rays", "pixels"]]

    @abstractmethod
    def taps(self, views: slice, device: torch.device, elements: slice = slice(None)) -> Taps:
        """The entries of some views, and of some of what is listed for them, float64."""

    @property
    @abstractmethod
    def taps_per_view(self) -> int:
        """How many entries `taps` lists for a view, zeros included."""

    @property
    def bins(self) -> int:
        """How many bins a view has, in all rows of a detector."""
        return math.prod(self.geometry.sinogram_shape[1:])


AnyStencil: TypeAlias = Stencil[Geometry | ConeBeam]


@dataclass(frozen=True)
class Joseph(Stencil[Geometry]):
    """Line integrals with one sample a row or column, interpolated linearly across (Joseph 1982).

    A ray is sampled along its dominant axis, from pixel centre to pixel centre. Each step covers
    pixel_spacing / |cos| millimetres of the ray, for its angle to that axis.
    """

    listed = "rays"

    @property
    def taps_per_view(self) -> int:
        """How many entries `taps` lists for a view, zeros included."""
        return self.geometry.bins * 2 * max(self.geometry.image_shape)

    def taps(self, views: slice, device: torch.device, elements: slice = slice(None)) -> Taps:
        """The entries of some views: pixel and weight (views, bins, 2 steps)."""
        pixel, weight, _ = self.samples(views, device, elements)
        bins = torch.arange(self.geometry.bins, device=device)[elements]
        return Taps(pixel.flatten(2), bins[None, :, None], weight.flatten(2))

    def samples(
        self, views: slice, device: torch.device, elements: slice = slice(None)
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Both pixels of each step and their weights, (views, bins, steps, 2), and its distance.

        The distance, (views, bins, steps), is that along the ray from the geometry's point.
        """
        rows, columns = self.geometry.image_shape
        spacing = self.geometry.pixel_spacing
        # Rays are made on the CPU: their sines and cosines then agree on every device.
        point, direction = (
            torch.from_numpy(np.array(vectors[:, elements])).to(device)
            for vectors in self.geometry.rays(views)
        )
        # Joseph: one sample a column where the ray runs along x, one a row otherwise.
        steps_x = nearer_to_x(direction)
        (along, across), (along_0, across_0) = (
            torch.where(steps_x.unsqueeze(-1), vectors, vectors.flip(-1)).unbind(-1)
            for vectors in (direction, point)
        )
        slope = (across / along).unsqueeze(-1)
        along_0, across_0 = along_0.unsqueeze(-1), across_0.unsqueeze(-1)
        n_along = torch.where(steps_x, columns, rows).unsqueeze(-1)
        n_across = torch.where(steps_x, rows, columns).unsqueeze(-1)
        step = torch.arange(max(rows, columns), device=device)
        coordinate = (step.double() - (n_along.double() - 1) / 2) * spacing
        middle = (n_across.double() - 1) / 2
        # Where the ray crosses each column or row, in pixels.
        position = (across_0 + (coordinate - along_0) * slope) / spacing + middle
        # Length of the ray between two samples; none beyond the shorter side.
        length = (spacing / along.abs()).unsqueeze(-1) * (step < n_along)
        index, weight = linear(position, n_across.unsqueeze(-1))
        weight = weight * length.unsqueeze(-1)
        here = torch.minimum(step, n_along - 1).unsqueeze(-1)
        pixel = torch.where(
            steps_x[..., None, None], index * columns + here, here * columns + index
        )
        return pixel, weight, (coordinate - along_0) / along.unsqueeze(-1)


def nearer_to_x(direction: Tensor) -> Tensor:
    """Whether rays of these directions (..., 2) step along x; at 45 degrees, all along y."""
    # With a margin, so that rounding does not let rays that are mirror images differ.
    return direction[..., 0].abs() > direction[..., 1].abs() * (1 + 1e-9)


@dataclass(frozen=True)
class RotateAndSum(Stencil[Geometry]):
    """The paper's surrogate on the CPU: rotate the image bilinearly, then sum its columns.

    The rotation is that of scipy.ndimage.rotate with order 1 and zeros outside, angles in degrees
    there; a rotated sample beyond the outermost pixel centres counts as nothing.
    """

    listed = "rays"

    def __post_init__(self) -> None:
        geometry = self.geometry
        bins = geometry.bins, geometry.bin_spacing, geometry.detector_offset
        columns = geometry.image_shape[1], geometry.pixel_spacing, 0
        if not isinstance(geometry, ParallelBeam) or bins != columns:
            raise KoriskError(
                "kind='rotate' sums the columns of the rotated image, so it needs a ParallelBeam "
                "with one bin for each column, bin_spacing equal to pixel_spacing and no "
                f"detector_offset, got {geometry!r}; use kind='joseph'"
            )

    @property
    def taps_per_view(self) -> int:
        """How many entries `taps` lists for a view, zeros included."""
        return 4 * math.prod(self.geometry.image_shape)

    def taps(self, views: slice, device: torch.device, elements: slice = slice(None)) -> Taps:
        """The entries of some views: pixel and weight (views, bins, 4 rows)."""
        from scipy.special import cosdg, sindg

        rows, columns = self.geometry.image_shape
        # cosdg and sindg are exact at multiples of 90 degrees, as scipy.ndimage.rotate is.
        degrees = np.rad2deg(self.geometry.angle_array[views])[:, None, None]
        cosine, sine = cosdg(degrees), sindg(degrees)
        centre = np.array([(rows - 1) / 2, (columns - 1) / 2])
        j, i = np.meshgrid(np.arange(columns)[elements], np.arange(rows), indexing="ij")
        # Shift written as ndimage does, so that edges round the same way.
        shift_y = centre[0] - (cosine * centre[0] + sine * centre[1])
        shift_x = centre[1] - (-sine * centre[0] + cosine * centre[1])
        y = torch.from_numpy(cosine * i + sine * j + shift_y)
        x = torch.from_numpy(-sine * i + cosine * j + shift_x)
        hit = (y >= 0) & (y <= rows - 1) & (x >= 0) & (x <= columns - 1)
        pixel, weight = _bilinear(y, x, rows, columns)
        weight = torch.where(hit.unsqueeze(-1), weight * self.geometry.pixel_spacing, 0.0)
        bins = torch.arange(columns, device=device)[elements]
        return Taps(pixel.flatten(2).to(device), bins[None, :, None], weight.flatten(2).to(device))


@dataclass(frozen=True)
class Sampled(Stencil[Geometry]):
    """The released code's fan projector: `samples` points from source to detector, bilinear.

    The points are spread over the whole way, so few fall into the image: a step is many pixels
    long where `samples` is small. Each counts for ray length / samples.
    """

    samples: int
    listed = "rays"

    def __post_init__(self) -> None:
        if not isinstance(self.geometry, FanBeam):
            why = "kind='sampled' walks from source to detector, so it needs a FanBeam"
            raise KoriskError(f"{why}, got {self.geometry!r}; use kind='joseph'")
        behind = self.geometry.source_to_detector - self.geometry.source_to_center
        if behind < self.geometry.reach:
            why = "kind='sampled' ends at the detector, which must lie behind the image"
            rule = f": at least {self.geometry.reach:g} mm from the centre, got {behind:g}; raise "
            raise KoriskError(why, rule, Argument("source_to_detector", ...))

    @property
    def taps_per_view(self) -> int:
        """How many entries `taps` lists for a view, zeros included."""
        return self.geometry.bins * 4 * self.samples

    def taps(self, views: slice, device: torch.device, elements: slice = slice(None)) -> Taps:
        """The entries of some views: pixel and weight (views, bins, 4 samples)."""
        geometry = self.geometry
        assert isinstance(geometry, FanBeam)
        rows, columns = self.geometry.image_shape
        source, direction = (vectors[:, elements] for vectors in geometry.rays(views))
        length = geometry.bin_distances[elements]
        # From source to bin, both ends included, as released.
        way = np.linspace(0.0, 1.0, self.samples)
        reach = direction * length[None, :, None]
        points = source[:, :, None, :] + way[None, None, :, None] * reach[:, :, None, :]
        x = torch.from_numpy(points[..., 0] / geometry.pixel_spacing + (columns - 1) / 2)
        y = torch.from_numpy(points[..., 1] / geometry.pixel_spacing + (rows - 1) / 2)
        pixel, weight = _bilinear(y, x, rows, columns)
        weight = weight * torch.from_numpy(length / self.samples)[None, :, None, None]
        bins = torch.arange(geometry.bins, device=device)[elements]
        return Taps(pixel.flatten(2).to(device), bins[None, :, None], weight.flatten(2).to(device))


@dataclass(frozen=True)
class PixelDriven(Stencil[Geometry]):
    """Each pixel takes from each view what the detector shows where its ray arrives.

    Linear interpolation between bins, nothing beyond them. For a fan the value counts
    (source_to_center / U)^2, U being the pixel's distance from the source along the central ray, or
    along its own where the detector is curved.
    """

    listed = "pixels"

    @property
    def taps_per_view(self) -> int:
        """How many entries `taps` lists for a view, zeros included."""
        return 2 * math.prod(self.geometry.image_shape)

    def taps(self, views: slice, device: torch.device, elements: slice = slice(None)) -> Taps:
        """The entries of some views: bin and weight (views, pixels, 2)."""
        geometry = self.geometry
        columns = geometry.image_shape[1]
        pixels = torch.arange(math.prod(geometry.image_shape))[elements]
        across, down = geometry.pixel_centres
        x, y = across[(pixels % columns).numpy()], down[(pixels // columns).numpy()]
        arrived = torch.from_numpy(geometry.detector_position(x, y, views)).to(device)
        # From millimetres along the detector to bins.
        position = (arrived - geometry.detector_offset) / geometry.bin_spacing
        position = position + (geometry.bins - 1) / 2
        index, weight = linear(position, torch.tensor(geometry.bins, device=device))
        if isinstance(geometry, FanBeam):
            # The weight R^2 / U^2 of a fan's backprojection.
            nearness = torch.from_numpy(geometry.nearness(x, y, views)).to(device)
            weight = weight * nearness.square().unsqueeze(-1)
        return Taps(pixels.to(device)[None, :, None], index, weight)


def linear(position: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and weights of both neighbours among `count`, (..., 2); zero weight outside."""
    below = position.floor()
    share = position - below
    index = torch.stack([below, below + 1], dim=-1)
    weight = torch.stack([1 - share, share], dim=-1)
    inside = (index >= 0) & (index < count) & (weight > _NOTHING)
    index = torch.minimum(index.clamp_min(0), (count - 1).double())
    return index.long(), torch.where(inside, weight, 0.0)


def _bilinear(y: Tensor, x: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Flat pixel indices and weights of the four neighbours, (..., 4); zero weight outside."""
    pixels, weights = [], []
    for down in (0, 1):
        for right in (0, 1):
            row, column = y.floor() + down, x.floor() + right
            weight = (1 - (y - row).abs()) * (1 - (x - column).abs())
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            weights.append(torch.where(inside & (weight > _NOTHING), weight, 0.0))
            pixels.append(row.clamp(0, rows - 1) * columns + column.clamp(0, columns - 1))
    return torch.stack(pixels, dim=-1).long(), torch.stack(weights, dim=-1)
