"""Cone beams on the CPU without a matrix: the factors of a view are applied one after the other.

Volumes are stored with z as the last axis, so that the voxels above one pixel, a line, are
contiguous. A view first interpolates in the slice's plane: each of its points combines the lines of
two pixels, a sparse product. It then interpolates along z between two entries of the combined line,
another sparse product. The matrix of the second one is built for a few targets at a time, so that
it stays in the cache, and serves all volumes of the batch and their rotations by quarter turns.

Source, target, point and entry are those of `cone_stencils.Factors`. Where targets are rays,
projection gathers and backprojection scatters; pixel-driven, it is the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from torch import Tensor

from korisk.operators.ct.cone_stencils import ConeStencil
from korisk.operators.ct.engines import Engine, in_threads
from korisk.operators.inputs import Array

_CHUNK = 2**17  # interpolations along z at once: index and weight of each stay in the cache
_COPIES = 2**26  # values of a batch and its rotations at once, 256 MB in float32
_POINTS = 2**25  # values on lines of points that are collected before they are added to a volume
# A line is padded with one zero before it and two after it, so that positions beyond its ends read
# zeros: the number before, and in all.
BEFORE, AROUND = 1, 3


class FactorTable(NamedTuple):
    """The `Factors` of a view in an engine's precision."""

    source: NDArray[np.int32]  # (targets, points, 2)
    weight: Array  # (targets, points, 2)
    start: Array  # (targets, points)
    slope: Array  # (targets, points)
    ends: NDArray[np.intp]  # (2, targets): points [first, last) with weights above zero


def factor_table(stencil: ConeStencil, view: int, real: np.dtype[Any]) -> FactorTable:
    """The factors of a view in the precision `real`."""
    source, *floats = (factor.numpy() for factor in stencil.factors(view))
    weight, start, slope = (factor.astype(real) for factor in floats)
    # Points outside the volume have zero weight: only [first, last) are used.
    inside: Array = np.any(weight, axis=2)
    last = inside.shape[1] - inside[:, ::-1].argmax(axis=1)
    ends = np.stack([inside.argmax(axis=1), np.where(inside.any(axis=1), last, 0)])
    return FactorTable(source.astype(np.int32), weight, start, slope, ends)


class _Piece(NamedTuple):
    """Some targets of a view as matrices: interpolation in the plane, then along z.

    `below` and `above` have the weights of both neighbours along z in one sparsity pattern: `above`
    is applied to the array shifted by one. The next piece overwrites their memory.
    """

    targets: slice
    plane: csr_array  # (targets * points, sources)
    below: csr_array  # (targets * entries, flat lines of the points, without their last value)
    above: csr_array  # as `below`


class Factored(Engine):
    """The two factors of a `ConeStencil`, in as many threads as PyTorch uses.

    Forward and adjoint use the same matrices, transposed in one of them. Each thread sums its own
    views, so the number of threads may change the last digits.
    """

    def __init__(self, stencil: ConeStencil, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(stencil, device, dtype)
        self.cone, self.quarters = stencil, stencil.quarters
        self.real = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        # All tables are computed here, because a forked process must not call PyTorch.
        self.lengths = stencil.lengths.astype(self.real)
        views = stencil.geometry.views // self.quarters
        self.tables = [factor_table(stencil, view, self.real) for view in range(views)]

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, voxels) -> (batch, views * bins), or from there back to voxels."""
        cone = self.cone
        shapes = cone.geometry.sinogram_shape, cone.geometry.image_shape
        result = np.empty((len(x), *shapes[not project]), dtype=self.real)
        arrays = x.numpy().reshape(-1, *shapes[project])
        run = self._project if project else self._backproject
        step = max(1, _COPIES // (self.quarters * math.prod(shapes[1])))
        for first in range(0, len(x), step):
            result[first : first + step] = run(arrays[first : first + step])
        return torch.from_numpy(result.reshape(len(x), -1))

    def _project(self, volumes: Array) -> Array:
        """(batch, slices, rows, columns) -> (batch, views, rows, columns)."""
        turns, batch = self.quarters, len(volumes)
        # A quarter turn maps the scan to itself: one view of four rotated copies is four views.
        copies = np.stack([np.rot90(volumes, turn, axes=(2, 3)) for turn in range(turns)])
        by_rays = self.cone.listed == "rays"
        lines = copies.transpose((3, 4, 0, 1, 2) if by_rays else (0, 1, 3, 4, 2))
        if by_rays:  # (pixels, copies, padded slices)
            lines = _padded(lines).reshape(-1, turns * batch, volumes.shape[1] + AROUND)
        else:  # (copies, pixels, slices)
            lines = np.ascontiguousarray(lines).reshape(turns * batch, -1, volumes.shape[1])
        views, rows, columns = self.cone.geometry.sinogram_shape
        sums = np.zeros((views // turns, turns * batch, columns, rows), self.real)
        apply_view = self._gather if by_rays else self._scatter

        def work(views: range) -> None:
            for view in views:
                apply_view(view, lines, sums[view])

        self._over_views(work)
        # (views of a quarter, turns, batch, columns, rows) to (batch, views, rows, columns).
        projections = sums.reshape(-1, turns, batch, columns, rows).transpose(2, 1, 0, 4, 3)
        projections = projections.reshape(batch, views, rows, columns)
        return projections * self.lengths

    def _backproject(self, sinograms: Array) -> Array:
        """(batch, views, rows, columns) -> (batch, slices, rows, columns)."""
        turns, (batch, _, rows, columns) = self.quarters, sinograms.shape
        slices, *plane = self.cone.geometry.image_shape
        # The adjoint of the factor `lengths` at the end of a projection.
        weighted = (sinograms * self.lengths).reshape(batch, turns, -1, rows, columns)
        # (copies, views of a quarter, columns, rows): detector rows are contiguous.
        lines = weighted.transpose(1, 0, 2, 4, 3).reshape(turns * batch, -1, columns, rows)
        by_rays = self.cone.listed == "rays"
        thread_sums: list[Array] = []  # (copies, pixels, slices) of each thread

        def work(views: range) -> None:
            volumes = np.zeros((turns * batch, math.prod(plane), slices), self.real)
            for view in views:
                if by_rays:
                    self._scatter(view, np.ascontiguousarray(lines[:, view]), volumes)
                else:
                    self._gather(view, _padded(lines[:, view].transpose(1, 0, 2)), volumes)
            thread_sums.append(volumes)

        self._over_views(work)
        total = sum(thread_sums[1:], start=thread_sums[0])
        copies = total.reshape(turns, batch, *plane, slices).transpose(0, 1, 4, 2, 3)
        rotated = [np.rot90(copy, -turn, axes=(2, 3)) for turn, copy in enumerate(copies)]
        return np.asarray(sum(rotated[1:], start=rotated[0]))

    def _over_views(self, work: Callable[[range], None]) -> None:
        """Distribute the views of the tables over the threads."""
        views = len(self.tables)
        # Thread k takes the views k, k + threads, ...: neighbours take equally long.
        threads = min(torch.get_num_threads(), views)
        calls = [partial(work, range(first, views, threads)) for first in range(threads)]
        in_threads(calls, threads)

    def _gather(self, view: int, lines: Array, result: Array) -> None:
        """Interpolate a view: add lines (sources, copies, padded) to (copies, targets, entries)."""
        sources, copies, padded_length = lines.shape
        flat = lines.reshape(sources, -1)
        for piece in self._pieces(view, copies * padded_length):
            # First in the plane: the line of every point; then between two values of each line.
            point_lines = (piece.plane @ flat).ravel()  # targets, points, copies, padded
            span = piece.below.shape[1]
            for copy, out in enumerate(result):
                first = copy * padded_length
                total = piece.below @ point_lines[first : first + span]
                total += piece.above @ point_lines[first + 1 : first + 1 + span]
                out[piece.targets] += total.reshape(-1, out.shape[1])

    def _scatter(self, view: int, lines: Array, result: Array) -> None:
        """The transpose of `_gather`: add (copies, targets, entries) to (copies, sources, line)."""
        length = self.cone.sources[1]
        padded_length = length + AROUND
        # Collected over several pieces, since every addition goes through the whole volume.
        planes: list[csr_array] = []
        collected: list[list[Array]] = [[] for _ in lines]  # of each copy: lines of points

        def add() -> None:
            interpolation = vstack(planes, format="csr").T
            for out, point_lines in zip(result, collected, strict=True):
                out += (interpolation @ np.concatenate(point_lines))[:, BEFORE : BEFORE + length]
                point_lines.clear()
            planes.clear()

        points = 0
        for piece in self._pieces(view, padded_length):
            below, above = piece.below.T, piece.above.T
            planes.append(piece.plane)
            points += piece.plane.shape[0]
            for copy, point_lines in zip(lines, collected, strict=True):
                values = copy[piece.targets].ravel()
                flat = np.zeros(piece.plane.shape[0] * padded_length, self.real)
                flat[: below.shape[0]] = below @ values
                flat[1 : 1 + above.shape[0]] += above @ values
                point_lines.append(flat.reshape(-1, padded_length))
            if points * padded_length * len(lines) > _POINTS:
                add()
                points = 0
        if planes:
            add()

    def _pieces(self, view: int, stride: int) -> Iterator[_Piece]:
        """Matrices of a view, for a few targets at a time.

        In the flat array that `below` and `above` are applied to, the lines of neighbouring points
        start `stride` values apart.
        """
        table, (targets, entries) = self.tables[view], self.cone.targets
        sources, length = self.cone.sources
        padded_length = length + AROUND
        entry = np.arange(entries, dtype=self.real)[:, None]
        most_points = max(1, int((table.ends[1] - table.ends[0]).max()))
        step = max(1, _CHUNK // (entries * most_points))  # targets of a piece
        # Reused memory stays in the cache, and allocating takes longer than filling it.
        largest = step * entries * table.start.shape[1]
        above_buffer, below_buffer = (np.empty(largest, self.real) for _ in range(2))
        index_buffer = np.empty(largest, np.int32)
        for first in range(0, targets, step):
            chosen = slice(first, min(first + step, targets))
            low, high = int(table.ends[0, chosen].min()), int(table.ends[1, chosen].max())
            if high <= low:
                continue
            window = chosen, slice(low, high)
            count, points = chosen.stop - first, high - low
            rows = count * points
            flat = table.weight[window].ravel(), table.source[window].ravel()
            starts = np.arange(0, 2 * rows + 1, 2, dtype=np.int32)
            plane = csr_array((*flat, starts), shape=(rows, sources))
            used = count * entries * points
            shape = count, entries, points
            above = above_buffer[:used].reshape(shape)
            below = below_buffer[:used].reshape(shape)
            index = index_buffer[:used].reshape(shape)
            # `above` first holds the position on the padded line, start + slope * entry. Its whole
            # part is the index of the value below, its fraction the weight of the value above.
            np.multiply(table.slope[window][:, None], entry, out=above)
            np.add(above, table.start[window][:, None] + BEFORE, out=above)
            np.clip(above, 0, length + BEFORE, out=above)
            np.floor(above, out=below)
            np.subtract(above, below, out=above)
            np.copyto(index, below, casting="unsafe")
            line_start = np.arange(0, rows * stride, stride, dtype=np.int32)
            np.add(index, line_start.reshape(count, 1, points), out=index)
            np.subtract(1, above, out=below)
            starts = np.arange(0, used + 1, points, dtype=np.int32)
            size = count * entries, (rows - 1) * stride + padded_length - 1
            matrices = (
                csr_array((weight[:used], index_buffer[:used], starts), shape=size)
                for weight in (below_buffer, above_buffer)
            )
            yield _Piece(chosen, plane, *matrices)


def _padded(lines: Array) -> Array:
    """Lines with `BEFORE` zeros before and the rest of `AROUND` after them."""
    return np.pad(lines, [(0, 0)] * (lines.ndim - 1) + [(BEFORE, AROUND - BEFORE)])
