"""Even parallel scans of square images, four views from one: single images in less time.

Mirrored left to right, an image at angle b looks as the image itself at pi - b; transposed, as at
pi/2 - b; both, as at pi/2 + b. So a quarter of the matrix serves four copies of the image. One
image then is four columns of a product, which libraries multiply faster than one column, and the
matrix fits a cache. For batches the copies would cost more than they save.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from korisk.errors import KoriskWarning
from korisk.operators.ct.engines import CpuMatrix, Engine
from korisk.operators.ct.geometry import Geometry, ParallelBeam
from korisk.operators.ct.stencils import Joseph, Stencil


def folds(stencil: Stencil) -> bool:
    """Whether the views of a scan come in fours that are one view of four copies."""
    geometry = stencil.geometry
    rows, columns = geometry.image_shape
    return (
        isinstance(stencil, Joseph)
        and isinstance(geometry, ParallelBeam)
        and not geometry.angles
        and geometry.start == 0
        and geometry.arc in {None, math.pi}
        and geometry.detector_offset == 0
        and geometry.views_count % 2 == 0
        and rows == columns
    )


class FoldedMatrix(Engine):
    """The matrix of a quarter of the views, applied to an image and its three copies."""

    def __init__(self, stencil: Stencil, dtype: torch.dtype) -> None:
        geometry = stencil.geometry
        self.side = geometry.image_shape[0]
        self.views, self.bins = geometry.sinogram_shape
        self.inner = CpuMatrix(Joseph(_first_quarter(geometry)), dtype)
        self.copy, self.source, self.target = _origins(self.views)

    def project(self, images: Tensor) -> Tensor:
        """(batch, pixels) -> (batch, views bins)."""
        x = images.view(-1, self.side, self.side)
        mirrored = x.flip(-1)
        copies = torch.stack([x, mirrored, x.mT, mirrored.mT])
        seen = self.inner.project(copies.reshape(4 * len(x), -1))
        seen = seen.view(4, len(x), -1, self.bins)
        result = images.new_empty(len(x), self.views, self.bins)
        result[:, self.target] = seen[self.copy, :, self.source].transpose(0, 1)
        return result.flatten(1)

    def backproject(self, sinograms: Tensor) -> Tensor:
        """(batch, views bins) -> (batch, pixels)."""
        y = sinograms.view(-1, self.views, self.bins)
        parts = y.new_zeros(4, len(y), self.views // 4 + 1, self.bins)
        parts[self.copy, :, self.source] = y[:, self.target].transpose(0, 1)
        spread = self.inner.backproject(parts.view(4 * len(y), -1))
        plain, mirrored, turned, both = spread.view(4, len(y), self.side, self.side)
        image: Tensor = plain + turned.mT + (mirrored + both.mT).flip(-1)
        return image.flatten(1)


def _first_quarter(geometry: Geometry) -> Geometry:
    angles = geometry.angle_array[: geometry.views_count // 4 + 1]
    with warnings.catch_warnings():  # what there is to say was said of the whole scan
        warnings.simplefilter("ignore", KoriskWarning)
        return replace(geometry, angles=tuple(angles.tolist()), views=None, arc=None)


def _origins(views: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each view: which copy shows it, in which view of the first quarter; and the view."""
    v = np.arange(views // 4 + 1)
    inner = v[(v > 0) & (4 * v < views)]  # what is its own mirror image is needed once
    sources = [v, v[1:], v[4 * v < views], inner]
    targets = [sources[0], views - sources[1], views // 2 - sources[2], views // 2 + sources[3]]
    copies = np.repeat(np.arange(4), [len(part) for part in sources])
    found = copies, np.concatenate(sources), np.concatenate(targets)
    copy, source, target = (torch.from_numpy(part) for part in found)
    return copy, source, target
