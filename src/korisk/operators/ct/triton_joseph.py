"""Joseph's projector on a CUDA card without a matrix: Triton kernels with one set of weights.

And the pixel-driven backprojection, whose kernels differ in the weight alone.

A product with a stored matrix reads an index and a weight for every entry and gets each pixel
through the second-level cache. Here a program holds a tile of rays (or pixels), and the weights are
computed from four numbers a ray.

Few images are read as they lie: one launch, whose programs share the steps along a ray (or the
views) among their threads, so that even one image fills the card. Many lie side by side in memory
(pixel, image) while they are worked on: the weights then are computed once for a few dozen images,
and every load is a whole cache line, with a margin of zeros so that none needs a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import ArrayLike
from torch import Tensor

from korisk.operators.ct.engines import DeviceMatrix, Engine, OnTheFly, worth_storing
from korisk.operators.ct.geometry import FanBeam, Geometry
from korisk.operators.ct.stencils import Stencil, nearer_to_x
from korisk.operators.inputs import Array, Shape

_LANES = 32  # images a program works on at once, where they lie side by side
_FEW = {True: 3.2e7, False: 1.6e7}  # rays, steps, images: a product quicker as they lie
_KEEPS_COMPILED = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 3)
# As Triton asks for a device's current stream, and torch.cuda for the device: without checks.
_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_MARGIN = 2  # pixels of zeros around an image: both neighbours of a tap outside lie in it


@triton.jit
def _tile(wide, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Row and column of each element of this program's tile, in a grid `wide` columns wide."""
    tiles = tl.cdiv(wide, COLUMNS)
    place = tl.arange(0, ROWS * COLUMNS)
    row = (tl.program_id(0) // tiles) * ROWS + place // COLUMNS
    return row, (tl.program_id(0) % tiles) * COLUMNS + place % COLUMNS


@triton.jit
def _through(rays, ray, count, rows, columns, wide):  # type: ignore[no-untyped-def]
    """Position at step 0, slope, steps, pixels across, and strides of rays through an image."""
    slope = tl.load(rays + count + ray)
    stepping_x = tl.load(rays + 3 * count + ray) != 0
    n_along = tl.where(stepping_x, columns, rows)
    n_across = tl.where(stepping_x, rows, columns)
    # Positions are counted from the first pixel, in pixels.
    middle = (n_across - 1).to(slope.dtype) * 0.5
    position = tl.load(rays + ray) - (n_along - 1).to(slope.dtype) * 0.5 * slope + middle
    stride_along = tl.where(stepping_x, 1, wide)
    stride_across = tl.where(stepping_x, wide, 1)
    return position, slope, n_along, n_across, stride_along, stride_across


# Few images, as they lie


@triton.jit(do_not_specialize_on_alignment=["images", "sinograms"])
def _project_few(  # type: ignore[no-untyped-def]
    images,  # (batch, rows, columns)
    sinograms,  # (batch, views, bins)
    rays,  # (4, views, bins): position across at the middle step in pixels, slope, length, axis
    steps,  # (2, tiles): the steps [first, last) at which a ray of a tile is inside
    rows,
    columns,
    views,
    bins,
    STEPS: tl.constexpr,
    BINS: tl.constexpr,
):
    view, bin = _tile(bins, 1, BINS)
    ray = view * bins + tl.minimum(bin, bins - 1)
    count = views * bins
    position_0, slope, n_along, n_across, stride_along, stride_across = _through(
        rays, ray, count, rows, columns, columns
    )
    image = tl.program_id(1).to(tl.int64)
    here = images + image * (rows * columns)
    total = tl.zeros((STEPS, BINS), dtype=images.dtype.element_ty)
    first = tl.load(steps + tl.program_id(0))
    last = tl.load(steps + tl.num_programs(0) + tl.program_id(0))
    for begin in range(first, last, STEPS):
        step = (begin + tl.arange(0, STEPS))[:, None]
        position = position_0[None, :] + step * slope[None, :]
        below = tl.floor(position)
        share = position - below
        k = below.to(tl.int32)
        pointer = here + step * stride_along[None, :] + k * stride_across[None, :]
        inside = step < n_along[None, :]
        # Both neighbours across the ray, each only where it is a pixel.
        lower = inside & (k >= 0) & (k < n_across[None, :])
        upper = inside & (k >= -1) & (k < n_across[None, :] - 1)
        total += tl.load(pointer, mask=lower, other=0.0) * (1 - share)
        total += tl.load(pointer + stride_across[None, :], mask=upper, other=0.0) * share
    out = sinograms + image * count + ray
    length = tl.load(rays + 2 * count + ray)
    tl.store(out, tl.sum(total, axis=0) * length, mask=bin < bins)


@triton.jit(do_not_specialize_on_alignment=["images", "sinograms"])
def _backproject_few(  # type: ignore[no-untyped-def]
    images,  # (batch, rows, columns)
    sinograms,  # (batch, views, bins)
    rays,  # (4, views, bins), as above
    scanner,  # cosines and sines of the views, (2 views,), then four numbers, see TritonJoseph
    rows,
    columns,
    views,
    bins,
    CANDIDATES: tl.constexpr,
    FAN: tl.constexpr,
    PIXEL: tl.constexpr,  # each pixel takes what the detector shows where its ray arrives
    VIEWS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row, column = _tile(columns, ROWS, COLUMNS)
    real = rays.dtype.element_ty
    reach = tl.load(scanner + 2 * views)
    bins_a_pixel = tl.load(scanner + 2 * views + 1)
    source = tl.load(scanner + 2 * views + 2)
    middle = tl.load(scanner + 2 * views + 3)
    x = (column.to(real) - (columns - 1) * 0.5)[None, :]
    y = (row.to(real) - (rows - 1) * 0.5)[None, :]
    count = views * bins
    image = tl.program_id(1).to(tl.int64)
    here = sinograms + image * count
    total = tl.zeros((VIEWS, ROWS * COLUMNS), dtype=images.dtype.element_ty)
    for begin in range(0, views, VIEWS):
        view = (begin + tl.arange(0, VIEWS))[:, None]
        exists = view < views
        view = tl.minimum(view, views - 1)
        c = tl.load(scanner + view)
        s = tl.load(scanner + views + view)
        arrived = (c * x + s * y) * bins_a_pixel
        if FAN:
            nearness = source / (source + s * x - c * y)
            arrived = arrived * nearness
        first = tl.floor(arrived + middle - reach).to(tl.int32) + 1
        ray_0 = view * bins
        if not (FAN or PIXEL):  # all rays of a view are parallel: one length, one axis, one slope
            stepping_x = tl.load(rays + 3 * count + ray_0) != 0
            slope = tl.load(rays + count + ray_0)
            length = tl.load(rays + 2 * count + ray_0)
            on_line = slope * tl.where(stepping_x, x, y) - tl.where(stepping_x, y, x)
        for candidate in tl.static_range(CANDIDATES):
            bin = first + candidate
            hit = (bin >= 0) & (bin < bins) & exists
            ray = ray_0 + bin
            if PIXEL:
                weight = tl.maximum(1 - tl.abs(arrived + middle - bin), 0.0)
                if FAN:
                    weight = weight * nearness * nearness
            else:
                if FAN:
                    stepping_x = tl.load(rays + 3 * count + ray, mask=hit, other=0.0) != 0
                    slope = tl.load(rays + count + ray, mask=hit, other=0.0)
                    length = tl.load(rays + 2 * count + ray, mask=hit, other=0.0)
                    on_line = slope * tl.where(stepping_x, x, y) - tl.where(stepping_x, y, x)
                far = tl.abs(tl.load(rays + ray, mask=hit, other=0.0) + on_line)
                weight = tl.maximum(1 - far, 0.0) * length
            total += tl.load(here + ray, mask=hit, other=0.0) * weight
    out = images + image * (rows * columns) + row * columns + column
    tl.store(out, tl.sum(total, axis=0), mask=(row < rows) & (column < columns))


# Many images, side by side


@triton.jit(do_not_specialize_on_alignment=["source"])
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
    offset = lane.to(tl.int64)[:, None] * (rows * columns) + (row * columns + column)[None, :]
    value = tl.load(source + offset, mask=(lane < batch)[:, None] & inside[None, :], other=0.0)
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
    rays,  # (4, views, bins), as above
    steps,  # (2, tiles)
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
    view, bin = _tile(bins, VIEWS, BINS)
    exists = (view < views) & (bin < bins)
    ray = tl.minimum(view, views - 1) * bins + tl.minimum(bin, bins - 1)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    count = views * bins
    wide = columns + 2 * MARGIN
    corner = MARGIN * wide + MARGIN
    position_0, slope, n_along, n_across, stride_along, stride_across = _through(
        rays, ray, count, rows, columns, wide
    )
    total = tl.zeros((VIEWS * BINS, LANES), dtype=images.dtype.element_ty)
    first = tl.load(steps + tl.program_id(0))
    last = tl.load(steps + tl.num_programs(0) + tl.program_id(0))
    for step in range(first, last):
        position = position_0 + step * slope
        below = tl.floor(position)
        share = position - below
        k = tl.minimum(tl.maximum(below.to(tl.int32), -2), n_across)
        # Beyond the end of a shorter side, the margin would run out: stay on its first zeros.
        along = tl.minimum(step, n_along)
        pixel = corner + along * stride_along + k * stride_across
        pointer = images + pixel.to(tl.int64)[:, None] * lanes + lane[None, :]
        total += tl.load(pointer) * (1 - share)[:, None]
        total += tl.load(pointer + (stride_across * lanes)[:, None]) * share[:, None]
    out = sinograms + ray.to(tl.int64)[:, None] * lanes + lane[None, :]
    tl.store(out, total * tl.load(rays + 2 * count + ray)[:, None], mask=exists[:, None])


@triton.jit
def _backproject(  # type: ignore[no-untyped-def]
    images,  # (pixels, lanes)
    sinograms,  # (views, bins + 2 CANDIDATES, lanes)
    rays,  # (4, views, bins + 2 CANDIDATES), lengths zero in the margin
    scanner,  # as above
    lanes,
    rows,
    columns,
    views,
    bins,
    CANDIDATES: tl.constexpr,
    FAN: tl.constexpr,
    PIXEL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LANES: tl.constexpr,
):
    row, column = _tile(columns, ROWS, COLUMNS)
    exists = (row < rows) & (column < columns)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    real = rays.dtype.element_ty
    reach = tl.load(scanner + 2 * views)
    bins_a_pixel = tl.load(scanner + 2 * views + 1)
    source = tl.load(scanner + 2 * views + 2)
    middle = tl.load(scanner + 2 * views + 3)
    x = column.to(real) - (columns - 1) * 0.5
    y = row.to(real) - (rows - 1) * 0.5
    wide = bins + 2 * CANDIDATES
    count = views * wide
    total = tl.zeros((ROWS * COLUMNS, LANES), dtype=images.dtype.element_ty)
    for view in range(views):
        c = tl.load(scanner + view)
        s = tl.load(scanner + views + view)
        arrived = (c * x + s * y) * bins_a_pixel
        if FAN:
            nearness = source / (source + s * x - c * y)
            arrived = arrived * nearness
        first = tl.floor(arrived + middle - reach).to(tl.int32) + 1
        first = tl.minimum(tl.maximum(first, -CANDIDATES), bins)
        ray_0 = view * wide + CANDIDATES
        if not (FAN or PIXEL):  # all rays of a view are parallel: one length, one axis, one slope
            stepping_x = tl.load(rays + 3 * count + ray_0) != 0
            slope = tl.load(rays + count + ray_0)
            length = tl.load(rays + 2 * count + ray_0)
            on_line = slope * tl.where(stepping_x, x, y) - tl.where(stepping_x, y, x)
        for candidate in tl.static_range(CANDIDATES):
            ray = ray_0 + first + candidate
            if PIXEL:
                weight = tl.maximum(1 - tl.abs(arrived + middle - (first + candidate)), 0.0)
                if FAN:
                    weight = weight * nearness * nearness
            else:
                if FAN:
                    stepping_x = tl.load(rays + 3 * count + ray) != 0
                    slope = tl.load(rays + count + ray)
                    length = tl.load(rays + 2 * count + ray)
                    on_line = slope * tl.where(stepping_x, x, y) - tl.where(stepping_x, y, x)
                far = tl.abs(tl.load(rays + ray) + on_line)
                weight = tl.maximum(1 - far, 0.0) * length
            pointer = sinograms + ray.to(tl.int64)[:, None] * lanes + lane[None, :]
            total += tl.load(pointer) * weight[:, None]
    out = images + (row * columns + column).to(tl.int64)[:, None] * lanes + lane[None, :]
    tl.store(out, total, mask=exists[:, None])


class Launch:
    """A kernel with its grid and all arguments fixed except the first two, which are tensors.

    Triton looks up the kinds of arguments at every launch, which takes longer than a small product:
    here they are looked up once, and the tensors may lie anywhere.
    """

    def __init__(self, kernel: Any, grid: tuple[int, ...], *fixed: object, warps: int) -> None:
        self.kernel, self.grid, self.fixed, self.warps = kernel, (*grid, 1)[:3], fixed, warps
        # Addresses in place of tensors, which Triton would look up and check.
        self._numbers = [n.data_ptr() if isinstance(n, Tensor) else n for n in fixed]
        self._run: Callable[..., None] | None = None
        self._compiled: tuple[object, ...] = ()

    def __call__(self, first: Tensor, second: Tensor) -> None:
        """Launch it on the current stream."""
        if self._run is not None:
            stream = _stream(first.get_device())
            ends = first.data_ptr(), second.data_ptr()
            self._run(*self.grid, stream, *self._compiled, *ends, *self._numbers)
            return
        compiled = self.kernel[self.grid](first, second, *self.fixed, num_warps=self.warps)
        if _KEEPS_COMPILED and compiled is not None:  # None from Triton's interpreter
            # As triton.JITFunction.run calls it, without metadata and hooks.
            self._compiled = compiled.function, compiled.packed_metadata, None, None, None
            self._run = compiled.run


class _Kernels(Engine):
    """What both engines share; tensors are (batch, elements), contiguous."""

    pixel: bool  # whether backprojection is pixel-driven
    rays: Tensor  # see _project_few
    padded_rays: Tensor  # the same with a margin on either side
    inside: tuple[Array, Array]  # see _steps_inside

    def __init__(
        self, stencil: Stencil[Geometry], device: torch.device, dtype: torch.dtype, reach: float
    ) -> None:
        super().__init__(stencil, device, dtype)
        self._plans: dict[tuple[bool, int], Callable[[Tensor, Shape], Tensor]] = {}
        self.shapes = stencil.geometry.image_shape, stencil.geometry.sinogram_shape
        self._samples = math.prod(self.shapes[1]) * max(self.shapes[0])
        self.candidates = max(1, math.ceil(2 * reach))
        geometry = stencil.geometry
        self.fan = isinstance(geometry, FanBeam)
        # Half the width in which a pixel's rays arrive and the size of a pixel, both in bins at
        # the centre; the source's distance in pixels; the bin that the central ray meets.
        source = geometry.source_to_center if isinstance(geometry, FanBeam) else 0.0
        middle = (geometry.bins - 1) / 2 - geometry.detector_offset / geometry.bin_spacing
        numbers = reach, _bins_a_pixel(geometry), source / geometry.pixel_spacing, middle
        angle = geometry.angle_array
        self.scanner = self._here(np.concatenate([np.cos(angle), np.sin(angle), numbers]))

    def _here(self, array: ArrayLike) -> Tensor:
        return torch.from_numpy(np.asarray(array, dtype=np.float64)).to(self.device, self.dtype)

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, pixels) -> (batch, views * bins), or from there back to pixels."""
        return self.product(x, project, len(x), (len(x), math.prod(self.shapes[project])))

    def product(self, x: Tensor, project: bool, batch: int, shape: Shape) -> Tensor:
        """The same from a contiguous tensor of any shape to one of the given shape."""
        key = project, batch
        if (plan := self._plans.get(key)) is None:
            few = batch * self._samples <= _FEW[project] or (batch == 1 and not project)
            plan = self._plans[key] = (self._few if few else self._many)(*key)
        if _device() == self.device.index:  # to enter a device takes a while
            return plan(x, shape)
        with torch.cuda.device(self.device):
            return plan(x, shape)

    def _few(self, project: bool, batch: int) -> Callable[[Tensor, Shape], Tensor]:
        """One launch on images as they lie; the tiles are those measured best on an H200."""
        (rows, columns), (views, bins) = self.shapes
        work = batch * self._samples
        if project:
            wide = 16
            tall, warps = (16, 4) if work < 1e6 else (16, 2) if work < 1e7 else (8, 1)
            grid = views * triton.cdiv(bins, wide), batch
            steps = self._steps(1, wide)
            fixed: tuple[object, ...] = self.rays, steps, rows, columns, views, bins, tall, wide
            launch = Launch(_project_few, grid, *fixed, warps=warps)
        else:
            views_at_once, tall, wide, warps = (16, 2, 16, 4) if work < 1e6 else (4, 4, 8, 1)
            grid = triton.cdiv(rows, tall) * triton.cdiv(columns, wide), batch
            tile = self.candidates, self.fan, self.pixel, views_at_once, tall, wide
            fixed = self.rays, self.scanner, rows, columns, views, bins, *tile
            launch = Launch(_backproject_few, grid, *fixed, warps=warps)

        def run(x: Tensor, shape: Shape) -> Tensor:
            result = x.new_empty(shape)
            if project:
                launch(x, result)
            else:  # images come first
                launch(result, x)
            return result

        return run

    def _many(self, project: bool, batch: int) -> Callable[[Tensor, Shape], Tensor]:
        """Three launches: images side by side, the product, and images one after another."""
        (rows, columns), (views, bins) = self.shapes
        # Images lie side by side in memory, so that one load serves all of them.
        lanes = min(_LANES, triton.next_power_of_2(batch))
        beside = triton.cdiv(batch, lanes) * lanes
        groups = beside // lanes
        sizes = beside, rows, columns, views, bins
        # Measured on an H200: few rays a program hide the latency of their loads best, while pixels
        # gain from a larger tile, whose rays then stay in the first-level cache.
        high, wide, warps = (2, 16, 1) if project or lanes < _LANES else (8, 16, 4)
        order = 1 if project else -1  # images come first
        source, target = ((rows, columns), (views, bins))[::order]
        tiles = triton.cdiv(target[0], high) * triton.cdiv(target[1], wide)
        tile = high, wide, lanes
        if project:
            margins = _MARGIN, _MARGIN
            fixed: tuple[object, ...] = self.rays, self._steps(high, wide), *sizes, _MARGIN, *tile
            product = Launch(_project, (tiles, groups), *fixed, warps=warps)
        else:
            margins = 0, self.candidates
            scan = self.candidates, self.fan, self.pixel
            fixed = self.padded_rays, self.scanner, *sizes, *scan, *tile
            product = Launch(_backproject, (tiles, groups), *fixed, warps=warps)
        block = 64 if lanes >= 16 else 256
        items = (source[0] + 2 * margins[0]) * (source[1] + 2 * margins[1])
        elements = math.prod(target)
        layout = batch, beside, *source, *margins, block, lanes
        grid = triton.cdiv(items, block), groups
        interleave = Launch(_interleave, grid, *layout, warps=4)
        grid = triton.cdiv(elements, block), groups
        separate = Launch(_separate, grid, batch, beside, elements, block, lanes, warps=4)

        def run(x: Tensor, shape: Shape) -> Tensor:
            together = x.new_empty(items, beside)
            interleave(x, together)
            sums = x.new_empty(elements, beside)
            product(*(together, sums)[::order])
            result = x.new_empty(shape)
            separate(sums, result)
            return result

        return run

    def _steps(self, tile_views: int, tile_bins: int) -> Tensor:
        """For each tile of rays the first and the last step at which one of them is inside."""
        sides = zip(self.inside[0].shape, (tile_views, tile_bins), strict=True)
        # Tiles beyond the edge repeat it: they start and end as the last one does.
        pads = [(0, -n % side) for n, side in sides]
        padded = [np.pad(bound, pads, mode="edge") for bound in self.inside]
        views, bins = padded[0].shape[0] // tile_views, padded[0].shape[1] // tile_bins
        first, last = (bound.reshape(views, tile_views, bins, tile_bins) for bound in padded)
        ends = np.stack([first.min(axis=(1, 3)).ravel(), last.max(axis=(1, 3)).ravel()])
        return torch.from_numpy(ends).to(self.device)


class TritonJoseph(_Kernels):
    """An engine for Joseph's stencil."""

    pixel = False

    def __init__(
        self, stencil: Stencil[Geometry], device: torch.device, dtype: torch.dtype
    ) -> None:
        geometry = stencil.geometry
        super().__init__(stencil, device, dtype, _reach(geometry))
        point, direction = geometry.rays()
        along_x = nearer_to_x(torch.tensor(direction)).numpy()
        (along, across), (along_0, across_0) = (
            np.moveaxis(np.where(along_x[..., None], vectors, vectors[..., ::-1]), -1, 0)
            for vectors in (direction, point)
        )
        slope = across / along
        spacing = geometry.pixel_spacing
        # Where the ray crosses the middle of the image, in pixels across.
        start = (across_0 - along_0 * slope) / spacing
        self.inside = _steps_inside(start, slope, along_x, geometry.image_shape)
        rays = np.stack([start, slope, spacing / np.abs(along), along_x])
        self.rays = self._here(rays)
        # Beyond the detector weights are zero; for parallel rays those follow from the distance
        # instead, so the margin's rays lie far from everything.
        pad = (0, 0), (self.candidates, self.candidates)
        margin = zip(rays, (1e6, 0.0, 0.0, 0.0), strict=True)
        padded = [np.pad(quantity, pad, constant_values=value) for quantity, value in margin]
        self.padded_rays = self._here(np.stack(padded))


class TritonPixelDriven(_Kernels):
    """An engine for the pixel-driven backprojection; its adjoint goes through a matrix if it fits.

    The adjoint is used for gradients alone.
    """

    pixel = True

    def __init__(
        self, stencil: Stencil[Geometry], device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(stencil, device, dtype, 1.0)
        self.rays = self.padded_rays = self.scanner  # not read
        self._adjoint: Engine | None = None

    def product(self, x: Tensor, project: bool, batch: int, shape: Shape) -> Tensor:
        """The same from a contiguous tensor of any shape to one of the given shape."""
        if not project:
            return super().product(x, project, batch, shape)
        if self._adjoint is None:
            fits = worth_storing(self.stencil, self.device, self.dtype)
            engine = DeviceMatrix if fits else OnTheFly
            self._adjoint = engine(self.stencil, self.device, self.dtype)
        return self._adjoint.product(x, project, batch, shape)


def _bins_a_pixel(geometry: Geometry) -> float:
    """Size of a pixel at the centre, in bins."""
    magnification = geometry.magnification if isinstance(geometry, FanBeam) else 1.0
    return geometry.pixel_spacing * magnification / geometry.bin_spacing


def _reach(geometry: Geometry) -> float:
    """Largest distance, in bins, between a ray that touches a pixel and the pixel's central ray.

    Such a ray passes the pixel's row or column within one pixel of its centre, so half of
    what four neighbours span on the detector bounds it; at the worst place, the image's edge.
    """
    if not isinstance(geometry, FanBeam):
        angle = geometry.angle_array
        nearer = np.maximum(np.abs(np.cos(angle)), np.abs(np.sin(angle)))
        return float(nearer.max()) * _bins_a_pixel(geometry)
    across, down = geometry.pixel_centres  # and of these the outermost pixels
    ends = [
        np.repeat(line[[0, -1]], len(crossing))
        for line, crossing in ((across, down), (down, across))
    ]
    x, y = np.concatenate([ends[0], across, across]), np.concatenate([down, down, ends[1]])
    centre = geometry.detector_position(x, y)
    step = geometry.pixel_spacing
    # Neighbours of the outermost pixels: a ray that touches a pixel passes within one of it.
    spread = [
        np.abs(geometry.detector_position(x + dx, y + dy) - centre).max()
        for dx, dy in ((step, 0), (-step, 0), (0, step), (0, -step))
    ]
    return float(max(spread)) / geometry.bin_spacing * (1 + 1e-5)


def _steps_inside(
    start: Array, slope: Array, along_x: Array, shape: tuple[int, int]
) -> tuple[Array, Array]:
    """Steps [first, last) at which a ray can have a neighbour inside the image, (views, bins)."""
    rows, columns = shape
    n_along = np.where(along_x, columns, rows)
    reach = np.where(along_x, rows, columns) / 2 + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        # Steps at which the ray enters and leaves the image, from its middle.
        ends = np.stack([(-reach - start) / slope, (reach - start) / slope])
    level = np.abs(slope) < 1e-9
    never = level & (np.abs(start) > reach)
    low = np.where(level, -n_along, ends.min(0)) + (n_along - 1) / 2
    high = np.where(level, n_along, ends.max(0)) + (n_along - 1) / 2
    first = np.where(never, n_along, np.clip(np.floor(low) - 1, 0, n_along))
    last = np.where(never, 0, np.clip(np.ceil(high) + 2, 0, n_along))
    return first.astype(np.int32), last.astype(np.int32)
