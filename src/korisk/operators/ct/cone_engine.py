"""Cone beams on the CPU without a matrix: the factors of a view are multiplied one after the other.

Lines along z lie one after another in memory. A view first combines the lines of two pixels for
each of its points, a sparse product with long rows. What follows, between the heights of a line, is
a sparse product again, whose matrix is made for a few columns at a time, so that it stays in the
cache, and used for all copies of a volume: those of a batch, and the four quarters of an even turn.
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

_CHUNK = 2**17  # samples between heights at once: index and weight of each stay in the cache
_COPIES = 2**26  # values of a volume's copies at once, 256 MB in float32
_POINTS = 2**25  # values on lines above points that wait to be added to a volume
# A line has one zero before it and two after it, in which all that lies beyond its ends is found.
BEFORE, AROUND = 1, 3


class FactorTable(NamedTuple):
    """The `Factors` of a view in an engine's precision."""

    source: NDArray[np.int32]  # (targets, points, 2)
    weight: Array  # (targets, points, 2)
    start: Array  # (targets, points)
    slope: Array  # (targets, points)
    ends: NDArray[np.intp]  # (2, targets): points [first, last) with weights above zero


def factor_table(stencil: ConeStencil, view: int, real: np.dtype[Any]) -> FactorTable:
    """The factors of a view in a precision."""
    source, *numbers = (factor.numpy() for factor in stencil.factors(view))
    weight, start, slope = (factor.astype(real) for factor in numbers)
    # Points outside the volume weigh nothing: only [first, last) are kept.
    inside: Array = np.any(weight, axis=2)
    last = inside.shape[1] - inside[:, ::-1].argmax(axis=1)
    ends = np.stack([inside.argmax(axis=1), np.where(inside.any(axis=1), last, 0)])
    return FactorTable(source.astype(np.int32), weight, start, slope, ends)


class _Piece(NamedTuple):
    """Some targets of a view as matrices: interpolation in the plane, and along lines.

    Both matrices of heights have one entry for each target, entry and point, at the same places:
    `below` for the slice below, `above` for the next one, which lies one further in memory. They
    are overwritten by the next piece.
    """

    targets: slice
    plane: csr_array  # (points, sources)
    below: csr_array  # (targets x entries, points x stride, up to the last line's last but one)
    above: csr_array


class Factored(Engine):
    """The two factors of a `ConeStencil`, in as many threads as PyTorch uses.

    Forward and adjoint multiply by the same matrices, one of them transposed. Sums over views have
    the order of the threads, so that another number of them may round otherwise.
    """

    def __init__(self, stencil: ConeStencil, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(stencil, device, dtype)
        self.cone, self.quarters = stencil, stencil.quarters
        self.real = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        # All made here: a forked process can use NumPy alone.
        self.lengths = stencil.lengths.astype(self.real)
        views = stencil.geometry.views // self.quarters
        self.tables = [factor_table(stencil, view, self.real) for view in range(views)]

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, voxels) -> (batch, views bins), or back from there to voxels."""
        cone = self.cone
        shapes = cone.sinogram_shape, cone.image_shape
        result = np.empty((len(x), *shapes[not project]), dtype=self.real)
        arrays = x.numpy().reshape(-1, *shapes[project])
        run = self._project if project else self._backproject
        step = max(1, _COPIES // (self.quarters * math.prod(cone.image_shape)))
        for first in range(0, len(x), step):
            result[first : first + step] = run(arrays[first : first + step])
        return torch.from_numpy(result.reshape(len(x), -1))

    def _project(self, volumes: Array) -> Array:
        """(batch, slices, rows, columns) -> (batch, views, rows, columns)."""
        turns, batch = self.quarters, len(volumes)
        # A turn by a quarter maps the scan to itself: one view of four turned copies is four views.
        copies = np.stack([np.rot90(volumes, turn, axes=(2, 3)) for turn in range(turns)])
        by_rays = self.cone.listed == "rays"
        lines = copies.transpose((3, 4, 0, 1, 2) if by_rays else (0, 1, 3, 4, 2))
        if by_rays:
            lines = _padded(lines).reshape(-1, turns * batch, volumes.shape[1] + AROUND)
        else:
            lines = np.ascontiguousarray(lines).reshape(turns * batch, -1, volumes.shape[1])
        views, rows, columns = self.cone.geometry.sinogram_shape
        sums = np.zeros((views // turns, turns * batch, columns, rows), self.real)
        step = self._gather if by_rays else self._scatter

        def work(chosen: range) -> None:
            for view in chosen:
                step(view, lines, sums[view])

        self._share(work)
        # (views of a quarter, turns, batch, columns, rows) to (batch, views, rows, columns).
        projections = sums.reshape(-1, turns, batch, columns, rows).transpose(2, 1, 0, 4, 3)
        projections = projections.reshape(batch, views, rows, columns)
        return projections * self.lengths

    def _backproject(self, sinograms: Array) -> Array:
        """(batch, views, rows, columns) -> (batch, slices, rows, columns)."""
        turns, (batch, _, rows, columns) = self.quarters, sinograms.shape
        slices, *plane = self.cone.geometry.image_shape
        # Steps of an oblique ray are longer: its value weighs more.
        weighted = (sinograms * self.lengths).reshape(batch, turns, -1, rows, columns)
        lines = weighted.transpose(1, 0, 2, 4, 3).reshape(turns * batch, -1, columns, rows)
        by_rays = self.cone.listed == "rays"
        parts: list[Array] = []

        def work(chosen: range) -> None:
            total = np.zeros((turns * batch, math.prod(plane), slices), self.real)
            for view in chosen:
                if by_rays:
                    self._scatter(view, np.ascontiguousarray(lines[:, view]), total)
                else:
                    self._gather(view, _padded(lines[:, view].transpose(1, 0, 2)), total)
            parts.append(total)

        self._share(work)
        total = sum(parts[1:], start=parts[0])
        copies = total.reshape(turns, batch, *plane, slices).transpose(0, 1, 4, 2, 3)
        turned = [np.rot90(copy, -turn, axes=(2, 3)) for turn, copy in enumerate(copies)]
        return np.asarray(sum(turned[1:], start=turned[0]))

    def _share(self, work: Callable[[range], None]) -> None:
        """Distribute the views over the threads."""
        views = len(self.tables)
        # Views are dealt out in turn, since neighbours take equally long.
        threads = min(torch.get_num_threads(), views)
        calls = [partial(work, range(first, views, threads)) for first in range(threads)]
        in_threads(calls, threads)

    def _gather(self, view: int, lines: Array, result: Array) -> None:
        """Add (sources, copies, padded line), seen by a view, to (copies, targets, entries)."""
        sources, copies, wide = lines.shape
        flat = lines.reshape(sources, -1)
        for piece in self._pieces(view, copies * wide):
            # First the plane: lines along z above every point; then two entries of each line.
            above = (piece.plane @ flat).ravel()
            length = piece.below.shape[1]
            for copy, out in enumerate(result):
                first = copy * wide
                total = piece.below @ above[first : first + length]
                total += piece.above @ above[first + 1 : first + 1 + length]
                out[piece.targets] += total.reshape(-1, out.shape[1])

    def _scatter(self, view: int, lines: Array, result: Array) -> None:
        """Add (copies, targets, entries) to (copies, sources, line): the transpose of the above."""
        length = self.cone.sources[1]
        wide = length + AROUND
        planes: list[csr_array] = []
        waiting: list[list[Array]] = [[] for _ in lines]

        def add() -> None:
            interpolation = vstack(planes, format="csr").T
            for out, spread in zip(result, waiting, strict=True):
                out += (interpolation @ np.concatenate(spread))[:, BEFORE : BEFORE + length]
                spread.clear()
            planes.clear()

        points = 0
        for piece in self._pieces(view, wide):
            below, above = piece.below.T, piece.above.T
            planes.append(piece.plane)
            points += piece.plane.shape[0]
            for copy, spread in zip(lines, waiting, strict=True):
                values = copy[piece.targets].ravel()
                flat = np.zeros(piece.plane.shape[0] * wide, self.real)
                flat[: below.shape[0]] = below @ values
                flat[1 : 1 + above.shape[0]] += above @ values
                spread.append(flat.reshape(-1, wide))
            if points * wide * len(lines) > _POINTS:
                add()
                points = 0
        if planes:
            add()

    def _pieces(self, view: int, stride: int) -> Iterator[_Piece]:
        """Matrices of a view, for a few targets at a time; lines of points start `stride` apart."""
        table, (targets, entries) = self.tables[view], self.cone.targets
        sources, length = self.cone.sources
        wide = length + AROUND
        entry = np.arange(entries, dtype=self.real)[:, None]
        longest = max(1, int((table.ends[1] - table.ends[0]).max()))
        step = max(1, _CHUNK // (entries * longest))
        # Memory that is used again stays in the cache, and to ask for more takes longer than to
        # fill it.
        most = step * entries * table.start.shape[1]
        scratch, spare, places = (np.empty(most, kind) for kind in (self.real, self.real, np.int32))
        for first in range(0, targets, step):
            some = slice(first, min(first + step, targets))
            low, high = int(table.ends[0, some].min()), int(table.ends[1, some].max())
            if high <= low:
                continue
            window = some, slice(low, high)
            count, points = some.stop - first, high - low
            rows = count * points
            flat = table.weight[window].ravel(), table.source[window].ravel()
            starts = np.arange(0, 2 * rows + 1, 2, dtype=np.int32)
            plane = csr_array((*flat, starts), shape=(rows, sources))
            used = count * entries * points
            share, below = (
                buffer[:used].reshape(count, entries, points) for buffer in (scratch, spare)
            )
            # Height on the line of each point, start + slope entry, split into index and share.
            np.multiply(table.slope[window][:, None], entry, out=share)
            np.add(share, table.start[window][:, None] + BEFORE, out=share)
            np.clip(share, 0, length + BEFORE, out=share)
            np.floor(share, out=below)
            np.subtract(share, below, out=share)
            place = places[:used].reshape(share.shape)
            np.copyto(place, below, casting="unsafe")
            # Where each point's line begins in the flat array.
            line = np.arange(0, rows * stride, stride, dtype=np.int32)
            np.add(place, line.reshape(count, 1, points), out=place)
            np.subtract(1, share, out=below)
            starts = np.arange(0, used + 1, points, dtype=np.int32)
            shape = count * entries, (rows - 1) * stride + wide - 1
            matrices = (
                csr_array((weight[:used], places[:used], starts), shape=shape)
                for weight in (spare, scratch)
            )
            yield _Piece(some, plane, *matrices)


def _padded(lines: Array) -> Array:
    """Lines with zeros around them."""
    pads = [(0, 0)] * (lines.ndim - 1) + [(BEFORE, AROUND - BEFORE)]
    return np.pad(lines, pads)
