"""Joseph's projector on a CUDA card without a matrix: Triton kernels with one set of weights.

A product with a stored matrix reads an index and a weight for every entry and gets each pixel
through the second-level cache. Here a program holds a tile of rays (or pixels) and a few dozen
images: the weights are computed from four numbers a ray, once for all images, and neighbouring
rays find their pixels in the first-level cache. Images lie side by side in memory (pixel, image),
so that every load is a whole cache line, with a margin of zeros so that none needs a mask.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from korisk.operators.ct.engines import DeviceMatrix, Engine, entry_count
from korisk.operators.ct.geometry import FanBeam
from korisk.operators.ct.stencils import Joseph, nearer_to_x

_LANES = 32  # images a program works on at once
_SMALL_MATRIX = 2e7  # entries: 0.3 GB with the transpose
_SMALL_PRODUCT = 1.2e8  # entries times images
_MARGIN = 2  # pixels of zeros around an image: both neighbours of a tap outside lie in it


@triton.jit
def _interleave(  # type: ignore[no-untyped-def]
    source,  # (batch, rows, columns)
    target,  # (rows + 2 margin_rows, columns + 2 margin_columns, lanes)
    batch,
    lanes,
    rows,
    columns,
    margin_rows,
    margin_columns,
    ITEMS: tl.constexpr,
    LANES: tl.constexpr,
):
    wide = columns + 2 * margin_columns
    item = tl.program_id(0) * ITEMS + tl.arange(0, ITEMS)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    row = item // wide - margin_rows
    column = item % wide - margin_columns
    inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    at = lane.to(tl.int64)[:, None] * (rows * columns) + (row * columns + column)[None, :]
    value = tl.load(source + at, mask=(lane < batch)[:, None] & inside[None, :], other=0.0)
    out = item.to(tl.int64)[:, None] * lanes + lane[None, :]
    in_target = (item < (rows + 2 * margin_rows) * wide)[:, None] & (lane < lanes)[None, :]
    tl.store(target + out, tl.trans(value), mask=in_target)


@triton.jit
def _separate(  # type: ignore[no-untyped-def]
    source,  # (items, lanes)
    target,  # (batch, items)
    batch,
    lanes,
    items,
    ITEMS: tl.constexpr,
    LANES: tl.constexpr,
):
    item = tl.program_id(0) * ITEMS + tl.arange(0, ITEMS)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    exists = (item < items)[:, None] & (lane < batch)[None, :]
    value = tl.load(source + item.to(tl.int64)[:, None] * lanes + lane[None, :], mask=exists)
    out = lane.to(tl.int64)[:, None] * items + item[None, :]
    tl.store(target + out, tl.trans(value), mask=tl.trans(exists))


@triton.jit
def _project(  # type: ignore[no-untyped-def]
    images,  # (rows + 2 MARGIN, columns + 2 MARGIN, lanes)
    sinograms,  # (rays, lanes)
    start,  # position across at the middle step, pixels from the middle, (rays,)
    slope,
    length,
    along_x,  # 1 where a ray steps along x
    first_step,  # of the steps at which a ray of the tile is inside, (tiles,)
    last_step,
    lanes,
    rows,
    columns,
    views,
    bins,
    MARGIN: tl.constexpr,
    VIEWS: tl.constexpr,
    BINS: tl.constexpr,
    LANES: tl.constexpr,
):
    tiles = tl.cdiv(bins, BINS)
    tile = tl.program_id(0)
    place = tl.arange(0, VIEWS * BINS)
    view = (tile // tiles) * VIEWS + place // BINS
    bin = (tile % tiles) * BINS + place % BINS
    exists = (view < views) & (bin < bins)
    ray = tl.minimum(view, views - 1) * bins + tl.minimum(bin, bins - 1)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    slope_ = tl.load(slope + ray)
    stepping_x = tl.load(along_x + ray) != 0
    n_along = tl.where(stepping_x, columns, rows)
    n_across = tl.where(stepping_x, rows, columns)
    wide = columns + 2 * MARGIN
    stride_along = tl.where(stepping_x, 1, wide)
    stride_across = tl.where(stepping_x, wide, 1)
    corner = MARGIN * wide + MARGIN
    middle = (n_across - 1).to(slope_.dtype) * 0.5
    position_0 = tl.load(start + ray) - (n_along - 1).to(slope_.dtype) * 0.5 * slope_ + middle
    total = tl.zeros((VIEWS * BINS, LANES), dtype=images.dtype.element_ty)
    for step in range(tl.load(first_step + tile), tl.load(last_step + tile)):
        position = position_0 + step * slope_
        below = tl.floor(position)
        share = position - below
        k = tl.minimum(tl.maximum(below.to(tl.int32), -2), n_across)
        # Beyond the end of a shorter side, the margin would run out: stay on its first zeros.
        along = tl.minimum(step, n_along)
        pixel = corner + along * stride_along + k * stride_across
        at = images + pixel.to(tl.int64)[:, None] * lanes + lane[None, :]
        total += tl.load(at) * (1 - share)[:, None]
        total += tl.load(at + (stride_across * lanes)[:, None]) * share[:, None]
    out = sinograms + ray.to(tl.int64)[:, None] * lanes + lane[None, :]
    tl.store(out, total * tl.load(length + ray)[:, None], mask=exists[:, None])


@triton.jit
def _backproject(  # type: ignore[no-untyped-def]
    images,  # (pixels, lanes)
    sinograms,  # (views, bins + 2 CANDIDATES, lanes)
    start,  # (views, bins + 2 CANDIDATES), as the next three
    slope,
    length,  # zero in the margin
    along_x,
    cosine,  # of each view's angle, (views,)
    sine,
    scanner,  # four numbers, see TritonJoseph
    lanes,
    rows,
    columns,
    views,
    bins,
    CANDIDATES: tl.constexpr,
    FAN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LANES: tl.constexpr,
):
    tiles = tl.cdiv(columns, COLUMNS)
    tile = tl.program_id(0)
    place = tl.arange(0, ROWS * COLUMNS)
    row = (tile // tiles) * ROWS + place // COLUMNS
    column = (tile % tiles) * COLUMNS + place % COLUMNS
    exists = (row < rows) & (column < columns)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    real = start.dtype.element_ty
    reach = tl.load(scanner)
    bins_a_pixel = tl.load(scanner + 1)
    source = tl.load(scanner + 2)
    middle = tl.load(scanner + 3)
    x = column.to(real) - (columns - 1) * 0.5
    y = row.to(real) - (rows - 1) * 0.5
    wide = bins + 2 * CANDIDATES
    total = tl.zeros((ROWS * COLUMNS, LANES), dtype=images.dtype.element_ty)
    for view in range(views):
        c = tl.load(cosine + view)
        s = tl.load(sine + view)
        arrived = (c * x + s * y) * bins_a_pixel
        if FAN:
            arrived = arrived * (source / (source + s * x - c * y))
        first = tl.floor(arrived + middle - reach).to(tl.int32) + 1
        first = tl.minimum(tl.maximum(first, -CANDIDATES), bins)
        ray_0 = view * wide + CANDIDATES
        if not FAN:  # all rays of a view are parallel: one length, one axis, one slope
            stepping_x = tl.load(along_x + ray_0) != 0
            slope_ = tl.load(slope + ray_0)
            length_ = tl.load(length + ray_0)
            on_line = slope_ * tl.where(stepping_x, x, y) - tl.where(stepping_x, y, x)
        for candidate in tl.static_range(CANDIDATES):
            ray = ray_0 + first + candidate
            if FAN:
                stepping_x = tl.load(along_x + ray) != 0
                length_ = tl.load(length + ray)
                on_line = tl.load(slope + ray) * tl.where(stepping_x, x, y)
                on_line -= tl.where(stepping_x, y, x)
            far = tl.abs(tl.load(start + ray) + on_line)
            weight = tl.maximum(1 - far, 0.0) * length_
            at = sinograms + ray.to(tl.int64)[:, None] * lanes + lane[None, :]
            total += tl.load(at) * weight[:, None]
    out = images + (row * columns + column).to(tl.int64)[:, None] * lanes + lane[None, :]
    tl.store(out, total, mask=exists[:, None])


class TritonJoseph(Engine):
    """An engine for Joseph's stencil; tensors are (batch, elements), contiguous.

    Launching three kernels takes some 200 microseconds of Python. Where the whole product is
    quicker than that with a matrix which is small itself, the matrix is used.
    """

    def __init__(self, stencil: Joseph, device: torch.device, dtype: torch.dtype) -> None:
        self.stencil, self.device, self.dtype = stencil, device, dtype
        self.entries = entry_count(stencil)
        self._matrix: DeviceMatrix | None = None
        self._steps: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        geometry = stencil.geometry
        point, direction = geometry.rays()
        along_x = nearer_to_x(torch.tensor(direction)).numpy()
        (along, across), (along_0, across_0) = (
            np.moveaxis(np.where(along_x[..., None], part, part[..., ::-1]), -1, 0)
            for part in (direction, point)
        )
        slope = across / along
        spacing = geometry.pixel_spacing
        start = (across_0 - along_0 * slope) / spacing
        length = spacing / np.abs(along)
        self.inside = _steps_inside(start, slope, along_x, stencil.image_shape)
        rays = start, slope, length, along_x
        self.rays = [self._here(part) for part in rays]
        fan = geometry if isinstance(geometry, FanBeam) else None
        self.fan = fan is not None
        magnification = fan.magnification if fan else 1.0
        self.bins_a_pixel = spacing * magnification / geometry.bin_spacing
        reach = self._reach()
        self.candidates = max(1, math.ceil(2 * reach))
        pad = (0, 0), (self.candidates, self.candidates)
        # Beyond the detector weights are zero; for parallel rays those follow from `far` instead,
        # so the margin's rays lie far from everything.
        self.padded_rays = [
            self._here(np.pad(part, pad, constant_values=value))
            for part, value in zip(rays, (1e6, 0.0, 0.0, False), strict=True)
        ]
        self.cosine = self._here(np.cos(geometry.angle_array))
        self.sine = self._here(np.sin(geometry.angle_array))
        # Half the width in which a pixel's rays arrive and the size of a pixel, both in bins at
        # the centre; the source's distance in pixels; the bin that the central ray meets.
        source = fan.source_to_center / spacing if fan else 0.0
        middle = (geometry.bins - 1) / 2 - geometry.detector_offset / geometry.bin_spacing
        self.scanner = self._here([reach, self.bins_a_pixel, source, middle])

    def _here(self, array: Any) -> Tensor:
        found = np.asarray(array)
        if found.dtype == np.bool_:
            return torch.from_numpy(found.astype(np.int8)).to(self.device)
        return torch.from_numpy(found.astype(np.float64)).to(self.device, self.dtype)

    def _reach(self) -> float:
        """How far, in bins, a ray that touches a pixel can arrive from the pixel's own ray.

        Such a ray passes the pixel's row or column within one pixel of its centre, so half of
        what four neighbours span on the detector bounds it; at the worst place, the image's edge.
        """
        geometry = self.stencil.geometry
        if not isinstance(geometry, FanBeam):
            angle = geometry.angle_array
            nearer = np.maximum(np.abs(np.cos(angle)), np.abs(np.sin(angle)))
            return float(nearer.max()) * self.bins_a_pixel
        across, down = geometry.pixel_centres  # and of these the outermost pixels
        ends = [
            np.repeat(line[[0, -1]], len(other)) for line, other in ((across, down), (down, across))
        ]
        x, y = np.concatenate([ends[0], across, across]), np.concatenate([down, down, ends[1]])
        centre = geometry.detector_position(x, y)
        step = geometry.pixel_spacing
        spread = [
            np.abs(geometry.detector_position(x + dx, y + dy) - centre).max()
            for dx, dy in ((step, 0), (-step, 0), (0, step), (0, -step))
        ]
        return float(max(spread)) / geometry.bin_spacing * (1 + 1e-5)

    def _small(self, batch: int) -> DeviceMatrix | None:
        """The matrix, where so few images are quicker with it."""
        if self.entries > _SMALL_MATRIX or self.entries * batch > _SMALL_PRODUCT:
            return None
        if self._matrix is None:
            self._matrix = DeviceMatrix(self.stencil, self.device, self.dtype)
        return self._matrix

    def project(self, images: Tensor) -> Tensor:
        """(batch, pixels) -> (batch, views bins)."""
        if matrix := self._small(len(images)):
            return matrix.project(images)
        views, bins = self.stencil.sinogram_shape
        rows, columns = self.stencil.image_shape
        batch = len(images)
        tile_views, tile_bins, lanes, warps = _tile(batch, rays=True)
        with torch.cuda.device(self.device):
            source = _interleaved(images, (rows, columns), (_MARGIN, _MARGIN), lanes)
            beside = source.shape[-1]
            result = source.new_empty(views * bins, beside)
            tiles = triton.cdiv(views, tile_views) * triton.cdiv(bins, tile_bins)
            sizes = beside, rows, columns, views, bins
            steps = self._steps_of(tile_views, tile_bins)
            tile = {"VIEWS": tile_views, "BINS": tile_bins, "LANES": lanes, "num_warps": warps}
            _project[(tiles, beside // lanes)](
                source, result, *self.rays, *steps, *sizes, MARGIN=_MARGIN, **tile
            )
            return _separated(result, batch)

    def backproject(self, sinograms: Tensor) -> Tensor:
        """(batch, views bins) -> (batch, pixels)."""
        if matrix := self._small(len(sinograms)):
            return matrix.backproject(sinograms)
        views, bins = self.stencil.sinogram_shape
        rows, columns = self.stencil.image_shape
        batch = len(sinograms)
        tile_rows, tile_columns, lanes, warps = _tile(batch, rays=False)
        with torch.cuda.device(self.device):
            source = _interleaved(sinograms, (views, bins), (0, self.candidates), lanes)
            beside = source.shape[-1]
            result = source.new_empty(rows * columns, beside)
            tiles = triton.cdiv(rows, tile_rows) * triton.cdiv(columns, tile_columns)
            sizes = beside, rows, columns, views, bins
            view = *self.padded_rays, self.cosine, self.sine, self.scanner
            scan = {"CANDIDATES": self.candidates, "FAN": self.fan}
            tile = {"ROWS": tile_rows, "COLUMNS": tile_columns, "LANES": lanes, "num_warps": warps}
            _backproject[(tiles, beside // lanes)](result, source, *view, *sizes, **scan, **tile)
            return _separated(result, batch)

    def _steps_of(self, tile_views: int, tile_bins: int) -> tuple[Tensor, Tensor]:
        """For each tile of rays the first and the last step at which one of them is inside."""
        key = tile_views, tile_bins
        if key not in self._steps:
            pads = [(0, -n % side) for n, side in zip(self.inside[0].shape, key, strict=True)]
            padded = [np.pad(part, pads, mode="edge") for part in self.inside]
            views, bins = padded[0].shape[0] // tile_views, padded[0].shape[1] // tile_bins
            first, last = (part.reshape(views, tile_views, bins, tile_bins) for part in padded)
            ends = first.min(axis=(1, 3)), last.max(axis=(1, 3))
            begin, end = (torch.from_numpy(part.ravel()).to(self.device) for part in ends)
            self._steps[key] = begin, end
        return self._steps[key]


def _steps_inside(start: Any, slope: Any, along_x: Any, shape: tuple[int, int]) -> tuple[Any, Any]:
    """The steps [first, last) at which a ray has a neighbour inside, generously, (views, bins)."""
    rows, columns = shape
    n_along = np.where(along_x, columns, rows)
    reach = np.where(along_x, rows, columns) / 2 + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(-reach - start) / slope, (reach - start) / slope])
    level = np.abs(slope) < 1e-9
    never = level & (np.abs(start) > reach)
    low = np.where(level, -n_along, ends.min(0)) + (n_along - 1) / 2
    high = np.where(level, n_along, ends.max(0)) + (n_along - 1) / 2
    first = np.where(never, n_along, np.clip(np.floor(low) - 1, 0, n_along))
    last = np.where(never, 0, np.clip(np.ceil(high) + 2, 0, n_along))
    return first.astype(np.int32), last.astype(np.int32)


def _interleaved(
    source: Tensor, shape: tuple[int, int], margins: tuple[int, int], lanes: int
) -> Tensor:
    """(batch, rows columns) as (rows, columns, batch) with margins of zeros and whole lanes."""
    batch = len(source)
    rows, columns = shape
    if batch == 1:  # already side by side, and one launch fewer
        down, right = margins
        padded = torch.nn.functional.pad(source.view(rows, columns), (right, right, down, down))
        return padded.view(-1, 1)
    beside = triton.cdiv(batch, lanes) * lanes
    items = (rows + 2 * margins[0]) * (columns + 2 * margins[1])
    target = source.new_empty(items, beside)
    block = 64 if lanes >= 16 else 256
    _interleave[(triton.cdiv(items, block), triton.cdiv(beside, lanes))](
        source, target, batch, beside, rows, columns, *margins, ITEMS=block, LANES=lanes
    )
    return target


def _separated(source: Tensor, batch: int) -> Tensor:
    """(items, lanes) as (batch, items)."""
    items, beside = source.shape
    if beside == 1:
        return source.view(1, items)
    target = source.new_empty(batch, items)
    lanes = min(_LANES, beside)
    block = 64 if lanes >= 16 else 256
    _separate[(triton.cdiv(items, block), triton.cdiv(beside, lanes))](
        source, target, batch, beside, items, ITEMS=block, LANES=lanes
    )
    return target


def _tile(batch: int, *, rays: bool) -> tuple[int, int, int, int]:
    """The tile, how many images beside each other, and the warps that share them.

    Measured on an H200: few rays a program hide the latency of their loads best, while pixels
    gain from a larger tile, whose rays then stay in the first-level cache.
    """
    lanes = min(_LANES, triton.next_power_of_2(batch))
    return (2, 16, lanes, 1) if rays or lanes < _LANES else (8, 16, lanes, 4)
