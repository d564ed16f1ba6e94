"""Cone beams on a CUDA card: the factors of a view in two Triton kernels, one for each direction.

Both read the same table of points, which is also the CPU's. Lines along z lie one after another in
memory and are worked on by neighbouring threads, so that every load is of neighbours, whichever way
the rays run. To gather, a program sums over the points of one target. To go back, it sums over the
points that take one source, from a list that is sorted once: weights are those of gathering, and no
two programs add to the same number, which would cost more than to find each point twice.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from korisk.operators.ct.cone_engine import AROUND, BEFORE, factor_table
from korisk.operators.ct.cone_stencils import ConeStencil
from korisk.operators.ct.engines import Engine
from korisk.operators.ct.triton_joseph import Launch

# Entries of a line that a program works on, in one warp: to gather 128 are the quickest on an H200,
# and on the way back, which computes more, those of both that leave fewer threads idle.
_GATHER, _BACK = (128,), (128, 64)


@triton.jit(do_not_specialize_on_alignment=["lines", "sums"])
def _gather(  # type: ignore[no-untyped-def]
    lines,  # (batch, sources, length + AROUND)
    sums,  # (batch, targets, entries)
    source,  # (points, 2)
    numbers,  # (4, points): both weights, start and slope
    span,  # (2, targets): first point, number of points
    points,
    stride,  # from one point of a target to the next
    sources,
    length,
    targets,
    entries,
    BEFORE: tl.constexpr,
    AROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    target = tl.program_id(0)
    batch = tl.program_id(2).to(tl.int64)
    entry = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = length + AROUND
    here = lines + batch * sources * wide
    first = tl.load(span + target)
    total = tl.zeros((BLOCK,), dtype=lines.dtype.element_ty)
    for step in range(tl.load(span + targets + target)):
        point = first + step * stride
        start = tl.load(numbers + 2 * points + point)
        slope = tl.load(numbers + 3 * points + point)
        # Heights beyond the line are moved into its zeros.
        place = tl.minimum(tl.maximum(start + slope * entry + BEFORE, 0.0), length + BEFORE)
        below = tl.floor(place)
        share = place - below
        index = below.to(tl.int32)
        for pair in tl.static_range(2):
            line = here + tl.load(source + 2 * point + pair).to(tl.int64) * wide
            weight = tl.load(numbers + pair * points + point)
            lower = tl.load(line + index)
            total += (lower + share * (tl.load(line + index + 1) - lower)) * weight
    out = sums + (batch * targets + target) * entries + entry
    tl.store(out, total, mask=entry < entries)


@triton.jit(do_not_specialize_on_alignment=["lines", "sums"])
def _back(  # type: ignore[no-untyped-def]
    lines,  # (batch, sources, length)
    sums,  # (batch, targets, entries)
    takers,  # twice a point's number, and 1 for its second source; those of a source in a row
    first,  # (sources + 1,): where those of each source begin
    numbers,  # as above
    points,
    per_target,  # points of a target in a row, or targets that take turns
    sources,
    length,
    targets,
    entries,
    IN_A_ROW: tl.constexpr,  # whether points of a target are numbered one after another
    CANDIDATES: tl.constexpr,  # entries of a target that can be within one height of another
    BLOCK: tl.constexpr,
):
    source = tl.program_id(0)
    batch = tl.program_id(2).to(tl.int64)
    height = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=lines.dtype.element_ty)
    for place in range(tl.load(first + source), tl.load(first + source + 1)):
        taker = tl.load(takers + place)
        point = taker // 2
        target = point // per_target if IN_A_ROW else point % per_target
        sums_here = sums + (batch * targets + target) * entries
        start = tl.load(numbers + 2 * points + point)
        slope = tl.load(numbers + 3 * points + point)
        # Entries of the target whose place is within one of this height.
        lowest = tl.floor((height - 1 - start) / slope)
        arrived = tl.zeros((BLOCK,), dtype=lines.dtype.element_ty)
        for candidate in tl.static_range(CANDIDATES):
            nearest = tl.minimum(tl.maximum(lowest + (1 + candidate), -1.0), entries)
            entry = nearest.to(tl.int32)
            weight = tl.maximum(1 - tl.abs(start + slope * entry - height), 0.0)
            exists = (entry >= 0) & (entry < entries)
            arrived += tl.load(sums_here + entry, mask=exists, other=0.0) * weight
        total += arrived * tl.load(numbers + (taker % 2) * points + point)
    out = lines + (batch * sources + source) * length + height
    tl.store(out, total, mask=height < length)


class TritonCone(Engine):
    """An engine for both stencils of a cone beam."""

    def __init__(self, stencil: ConeStencil, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(stencil, device, dtype)
        self.cone, views = stencil, stencil.geometry.views
        self.by_rays = stencil.listed == "rays"
        real = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        self.lengths = torch.from_numpy(stencil.lengths.T.copy()).to(device, dtype)
        sources, numbers, ends = [], [], []
        for view in range(views):
            table = factor_table(stencil, view, real)
            source = table.source if self.by_rays else table.source + view * stencil.sources[0]
            sources.append(torch.from_numpy(source.reshape(-1, 2)).to(device))
            rows = *table.weight.reshape(-1, 2).T, table.start.ravel(), table.slope.ravel()
            numbers.append(torch.from_numpy(np.stack(rows)).to(device))
            ends.append(table.ends)
        self.source, self.numbers = torch.cat(sources), torch.cat(numbers, dim=1)
        self.points = len(self.source)
        # Where many targets of one view share nothing, each has its points one after another; a
        # pixel has one point in each view.
        shared, steps_per_ray = stencil.targets[0], self.points // views // stencil.targets[0]
        if self.by_rays:
            low, high = np.concatenate(ends, axis=1)
            span = np.stack(
                [np.arange(views * shared) * steps_per_ray + low, np.maximum(high - low, 0)]
            )
        else:
            span = np.stack([np.arange(shared), np.full(shared, views)])
        self.span = torch.from_numpy(span.astype(np.int32)).to(device)
        self.stride = 1 if self.by_rays else shared
        # An interval of 2 heights holds that many entries, slope apart.
        self.candidates = math.ceil(2 / float(self.numbers[3].min()))
        factor = 1 if self.by_rays else views
        self.sources = stencil.sources[0] * factor, stencil.sources[1]
        self.targets = self.span.shape[1], stencil.targets[1]
        self.per_target = steps_per_ray if self.by_rays else shared
        # The points that take each source, with weights above zero alone.
        used = torch.where(self.numbers[:2].t() != 0, self.source, self.sources[0]).flatten()
        by_source, order = torch.sort(used, stable=True)
        every = torch.arange(self.sources[0] + 1, device=device, dtype=used.dtype)
        self.first = torch.searchsorted(by_source, every, out_int32=True)
        self.takers = order[: int(self.first[-1])].int()
        self._launches: dict[tuple[bool, int], Launch] = {}

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, voxels) -> (batch, views * bins), or from there back to voxels."""
        cone, batch = self.cone, len(x)
        views, rows, columns = cone.geometry.sinogram_shape
        if project:
            lines = x.view(batch, cone.geometry.image_shape[0], -1).transpose(1, 2)
            projections = self._product(lines, self.by_rays).view(batch, views, columns, rows)
            return (projections * self.lengths).transpose(2, 3).reshape(batch, -1)
        projections = x.view(batch, views, rows, columns).transpose(2, 3) * self.lengths
        lines = self._product(projections.reshape(batch, -1, rows), not self.by_rays)
        return lines.transpose(1, 2).reshape(batch, -1)

    def _product(self, x: Tensor, gather: bool) -> Tensor:
        """(batch, sources, line) -> (batch, targets, entries), or back."""
        if (launch := self._launches.get((gather, len(x)))) is None:
            launch = self._launches[gather, len(x)] = self._launch(gather, len(x))
        on_card = self.device.type == "cuda"
        with torch.cuda.device(self.device) if on_card else nullcontext():
            if gather:
                padded = torch.nn.functional.pad(x, (BEFORE, AROUND - BEFORE)).contiguous()
                result = x.new_empty(len(x), *self.targets)
                launch(padded, result)
            else:
                result = x.new_empty(len(x), *self.sources)
                launch(result, x.contiguous())
        return result

    def _launch(self, gather: bool, batch: int) -> Launch:
        sizes = *self.sources, *self.targets
        programs, lines = self.targets if gather else self.sources
        sides = _GATHER if gather else _BACK
        block = min(sides, key=lambda side: triton.cdiv(lines, side) * side)
        grid = programs, triton.cdiv(lines, block), batch
        if gather:
            points = self.source, self.numbers, self.span, self.points, self.stride
            return Launch(_gather, grid, *points, *sizes, BEFORE, AROUND, block, warps=1)
        points = self.takers, self.first, self.numbers, self.points, self.per_target
        fixed = self.by_rays, self.candidates, block
        return Launch(_back, grid, *points, *sizes, *fixed, warps=1)
