"""How a stencil is applied: as a sparse matrix, or on the fly view by view.

`Projector` chooses the engine. `CpuMatrix` and `DeviceMatrix` store the matrix and its transpose,
`OnTheFly` stores nothing, and `FoldedMatrix` stores a quarter for single images of even scans.
"""

from __future__ import annotations

import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk._memory import free_memory
from korisk.errors import KoriskError, KoriskWarning
from korisk.operators.ct.geometry import ParallelBeam
from korisk.operators.ct.stencils import AnyStencil, Joseph, Taps
from korisk.operators.inputs import Array, Shape

if TYPE_CHECKING:
    from scipy.sparse import csr_array

EngineName = Literal["auto", "matrix", "on_the_fly"]
Made = TypeVar("Made")

_FEW = 4  # images up to which the folded matrix is quicker
_SMALL = 3e6  # entries up to which one image by the whole matrix is quicker
_LEAST = 4  # columns from which libraries multiply them at once quickly
_COLUMNS = 32  # images multiplied at once: one row of them is two cache lines in float32
_PIXEL_TILE = (16, 16)
_RAY_TILE = (16, 8)  # views, bins
_WORTH_A_THREAD = 1e5  # entries times images from which other threads are waited for
_CHUNK = 2**22  # taps listed at once
_WORTH_STORING = 0.25  # of the free memory, for a matrix that nobody asked for by name
_FITS = 0.75  # of the free memory, for one that was

_pools: dict[int, ThreadPoolExecutor] = {}
_forked: list[int] = []  # this process, if it was forked


class Engine(ABC):
    """Forward and adjoint product with the same weights; tensors are (batch, elements)."""

    def __init__(self, stencil: AnyStencil, device: torch.device, dtype: torch.dtype) -> None:
        self.stencil, self.device, self.dtype = stencil, device, dtype

    @abstractmethod
    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, pixels) -> (batch, views * bins), or from there back to pixels."""

    def product(self, x: Tensor, project: bool, batch: int, shape: Shape) -> Tensor:
        """The same from a contiguous tensor of any shape to one of the given shape."""
        return self.apply(x.view(batch, -1), project).reshape(shape)


# Sizes


@lru_cache(64)
def entry_count(stencil: AnyStencil) -> int:
    """Number of matrix entries, estimated from a few views; an upper bound for large views."""
    views = stencil.geometry.views_count
    if stencil.taps_per_view > _CHUNK:
        return stencil.taps_per_view * views
    # Views differ in how many taps they have, fewest along the axes, where an arc often begins.
    count = min(views, 5)
    chosen = [int((k + 0.5) * views / count) for k in range(count)]
    taps = [stencil.taps(slice(view, view + 1), torch.device("cpu")) for view in chosen]
    return math.ceil(np.mean([int(torch.count_nonzero(tap.weight)) for tap in taps]) * views)


def worth_storing(stencil: AnyStencil, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the matrix and its transpose take at most a quarter of the free memory."""
    needed, entries = _matrix_bytes(stencil, dtype), entry_count(stencil)
    return needed <= _WORTH_STORING * free_memory(device) and entries < 2**31


def _matrix_bytes(stencil: AnyStencil, dtype: torch.dtype) -> int:
    """Bytes of the matrix with its transpose."""
    return 2 * entry_count(stencil) * (4 + dtype.itemsize)


def check_matrix_fits(stencil: AnyStencil, device: torch.device, dtype: torch.dtype) -> None:
    """Raise if the matrix would not fit into memory."""
    entries, free = entry_count(stencil), free_memory(device)
    needed = _matrix_bytes(stencil, dtype)
    if entries >= 2**31 or needed > _FITS * free:
        size = f"{entries / 1e6:,.0f} million entries and take {needed / 2**30:.1f} GiB"
        size += f" with its transpose, of {free / 2**30:.1f} GiB free"
        remedy = "use engine='on_the_fly', which stores no matrix"
        raise KoriskError(f"the matrix of {stencil.geometry!r} would have {size}; {remedy}")


def view_chunks(stencil: AnyStencil) -> Iterator[slice]:
    """Runs of views whose taps can be listed at once."""
    views = stencil.geometry.views_count
    step = max(1, _CHUNK // stencil.taps_per_view)
    for first in range(0, views, step):
        yield slice(first, min(first + step, views))


# Matrices


def sparse_matrix(
    stencil: AnyStencil, dtype: torch.dtype, column: NDArray[np.int32] | None = None
) -> csr_array:
    """The matrix (views * bins, pixels), one row for each ray; `column` renumbers the pixels."""
    from scipy.sparse import coo_array, csr_array, vstack

    bins = stencil.bins
    pixels = math.prod(stencil.geometry.image_shape)
    # 32-bit indices: a matrix has fewer than 2^31 entries.
    renumber = np.arange(pixels, dtype=np.int32) if column is None else column
    real = np.float32 if dtype == torch.float32 else np.float64
    blocks = []
    for views in view_chunks(stencil):
        taps = stencil.taps(views, torch.device("cpu"))
        nonzero = taps.weight != 0
        shape = taps.weight.shape
        pixel = renumber[taps.pixel.expand(shape)[nonzero].numpy()]
        value = taps.weight[nonzero].numpy().astype(real)
        rows = (views.stop - views.start) * bins
        if stencil.listed == "rays":  # already row by row: only the row lengths are to be counted
            # CSR directly, without sorting: (values, columns, starts of rows).
            lengths = nonzero.sum(-1).flatten().numpy()
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            block = csr_array((value, pixel, starts), shape=(rows, pixels))
        else:
            view = torch.arange(views.stop - views.start)[:, None, None]
            ray = (view * bins + taps.bin).expand(shape)[nonzero].numpy().astype(np.int32)
            block = coo_array((value, (ray, pixel)), shape=(rows, pixels)).tocsr()  # type: ignore[type-var]
        blocks.append(block)
    return csr_array(vstack(blocks, format="csr"))


class CpuMatrix(Engine):
    """Sparse rows for both directions, multiplied in as many threads as PyTorch uses.

    Several images at once go through MKL where PyTorch has it, else through SciPy. Pixels and rays
    are numbered tile by tile, so that neighbouring rows of the matrix read the same few kilobytes
    of a batch. A matrix is built when a batch first needs it: single images may need the folded one
    alone.
    """

    def __init__(self, stencil: AnyStencil, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(stencil, device, dtype)
        *rows, columns = stencil.geometry.image_shape
        self.pixels = _Numbering((math.prod(rows), columns), _PIXEL_TILE)
        self.rays = _Numbering((stencil.geometry.views_count, stencil.bins), _RAY_TILE)
        self._folds = folds(stencil)
        self._large = self._folds and entry_count(stencil) >= _SMALL

    @cached_property
    def _rows(self) -> tuple[_Rows, _Rows]:
        """The rows of the matrix, and those of its transpose."""
        return _made_apart(self._ordered)

    def _ordered(self) -> tuple[_Rows, _Rows]:
        column = self.pixels.place.numpy().astype(np.int32)
        matrix = sparse_matrix(self.stencil, self.dtype, column)
        # Rays and pixels tile by tile, so that neighbouring rows read neighbouring columns. The
        # matrix in natural order is released before the transpose is made.
        matrix = type(matrix)(matrix[self.rays.order.numpy()])
        return _Rows(matrix), _Rows(matrix.T.tocsr())

    @cached_property
    def _folded(self) -> FoldedMatrix:
        """The folded matrix."""
        return _made_apart(partial(FoldedMatrix, self.stencil, self.device, self.dtype))

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, pixels) -> (batch, views * bins), or from there back to pixels."""
        if self._folds and not _forked and (self._large if len(x) == 1 else len(x) <= _FEW):
            return self._folded.apply(x, project)
        rows, source, target = self._rows[1], self.rays, self.pixels
        if project:
            rows, source, target = self._rows[0], self.pixels, self.rays
        if _forked:
            columns = np.ascontiguousarray(x.numpy()[:, source.order.numpy()].T)
            product = rows.times(columns)[target.place.numpy()]
            return torch.from_numpy(np.ascontiguousarray(product.T))
        result = x.new_empty(len(x), target.count)
        if len(x) < (_LEAST if rows.mkl is None else 2):
            for vector, out in zip(x, result, strict=True):
                image = rows.times_vector(vector.index_select(0, source.order))
                torch.index_select(image, 0, target.place, out=out)
            return result
        # Batches of columns that fit the cache.
        parts = torch.split(x, _COLUMNS), torch.split(result, _COLUMNS)
        for batch, out in zip(*parts, strict=True):
            target.restore(rows.times_columns(source.columns(batch)), out)
        return result


class _Numbering:
    """A grid numbered tile by tile: `order` maps to flat indices, `place` is its inverse."""

    def __init__(self, shape: tuple[int, int], tile: tuple[int, int]) -> None:
        rows, columns = np.divmod(np.arange(math.prod(shape)), shape[1])
        order = np.lexsort((columns, rows, columns // tile[1], rows // tile[0]))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self.order, self.place = torch.from_numpy(order), torch.from_numpy(place)
        self.count = len(order)
        # Where tiles fill the grid, renumbering is a permutation of axes, twice as quick.
        (down, below), (right, beside) = map(divmod, shape, tile)
        self.split = None if below or beside else (down, tile[0], right, tile[1])

    def columns(self, x: Tensor) -> Tensor:
        """(batch, count) in natural order as (count, batch) in this one."""
        if self.split is None:
            return x.t()[self.order]
        # (batch, tiles down, rows, tiles across, columns) to tiles first, batch last.
        tiles = x.reshape(len(x), *self.split).permute(1, 3, 2, 4, 0)
        return tiles.reshape(self.count, len(x))

    def restore(self, columns: Tensor, out: Tensor) -> None:
        """(count, batch) in this order into `out`, (batch, count) in natural order."""
        batch = columns.shape[1]
        if self.split is None:
            out.copy_(columns[self.place].t())
            return
        down, high, right, wide = self.split
        tiles = columns.reshape(down, right, high, wide, batch)
        out.view(batch, *self.split).copy_(tiles.permute(4, 0, 2, 1, 3))


def _made_apart(make: Callable[[], Made]) -> Made:
    """The result of a call in a new thread, which no mode of PyTorch reaches, nor a fork."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def _after_fork() -> None:
    # A forked process has none of the threads, and MKL and PyTorch wait for theirs for ever: there
    # NumPy and SciPy do everything.
    _pools.clear()
    _forked[:] = [os.getpid()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Rows:
    """A sparse matrix cut into blocks of rows with equally many entries, one for each thread."""

    def __init__(self, matrix: csr_array) -> None:
        self.matrix = matrix
        self._blocks: dict[int, list[tuple[slice, csr_array]]] = {}
        has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        self.mkl = _as_torch(matrix) if has_mkl else None

    def _cut(self, pieces: int) -> list[tuple[slice, csr_array]]:
        """Split the matrix into blocks of rows that share its memory."""
        if pieces not in self._blocks:
            matrix, (rows, columns) = self.matrix, self.matrix.shape
            # Blocks of equally many entries, not rows: outer rays are shorter.
            cuts = np.searchsorted(matrix.indptr, np.linspace(0, matrix.nnz, pieces + 1)[1:-1])
            bounds = np.unique(np.concatenate([[0], cuts, [rows]])).tolist()
            blocks = []
            for first, last in pairwise(bounds):
                start, stop = matrix.indptr[first], matrix.indptr[last]
                parts = matrix.data[start:stop], matrix.indices[start:stop]
                starts = matrix.indptr[first : last + 1] - start
                block = type(matrix)((*parts, starts), shape=(last - first, columns))
                blocks.append((slice(first, last), block))
            self._blocks[pieces] = blocks
        return self._blocks[pieces]

    def times_columns(self, columns: Tensor) -> Tensor:
        """The product with (source, batch), by MKL where there is one."""
        if self.mkl is None:
            return torch.from_numpy(self.times(columns.numpy()))
        batch = columns.shape[1]
        if batch < _LEAST:  # one column takes MKL longer than four
            columns = torch.nn.functional.pad(columns, (0, _LEAST - batch))
        return (self.mkl @ columns)[:, :batch]

    def times_vector(self, vector: Tensor) -> Tensor:
        """The product with (source,), by MKL where there is one."""
        if self.mkl is None:
            return torch.from_numpy(self.times(vector.numpy()))
        return self.mkl @ vector

    def times(self, columns: Array) -> Array:
        """The product with an array (source,) or (source, batch)."""
        threads = torch.get_num_threads()
        if threads == 1 or self.matrix.nnz * math.prod(columns.shape[1:]) < _WORTH_A_THREAD:
            return np.asarray(self.matrix @ columns)
        result = np.empty((self.matrix.shape[0], *columns.shape[1:]), dtype=columns.dtype)

        def share(rows: slice, block: csr_array) -> None:
            result[rows] = block @ columns

        in_threads([partial(share, *piece) for piece in self._cut(threads)], threads)
        return result


def in_threads(calls: Sequence[Callable[[], None]], threads: int) -> None:
    """Run calls in parallel, the first in this thread, and wait for all of them."""
    first, *others = calls
    if others and threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="korisk")
    waiting = [_pools[threads].submit(call) for call in others]
    first()
    for future in waiting:
        future.result()


def _as_torch(matrix: csr_array, device: torch.device | str = "cpu") -> Tensor:
    arrays = matrix.indptr, matrix.indices, matrix.data
    starts, indices, values = (torch.from_numpy(array).to(device) for array in arrays)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(starts, indices, values, size=matrix.shape)


def folds(stencil: AnyStencil) -> bool:
    """Whether four views at a time are one view of the image, mirrored and transposed."""
    geometry = stencil.geometry
    if not (isinstance(stencil, Joseph) and isinstance(geometry, ParallelBeam)):
        return False
    rows, columns = geometry.image_shape
    centred = rows == columns and geometry.start == 0 and geometry.detector_offset == 0
    half_turn = not geometry.angles and geometry.arc in {None, math.pi}
    return centred and half_turn and geometry.views_count % 2 == 0


class FoldedMatrix(Engine):
    """Parallel scans with an even number of views: a quarter of the matrix, four image copies.

    Mirrored left to right, an image at angle b looks as the image itself at pi - b; transposed, as
    at pi/2 - b; both, as at pi/2 + b. One image then is four columns of a product with a matrix
    that fits a cache; for batches the copies would cost more than they save.
    """

    def __init__(self, stencil: AnyStencil, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(stencil, device, dtype)
        geometry = stencil.geometry
        assert isinstance(geometry, ParallelBeam)  # by `folds`
        self.side = geometry.image_shape[0]
        self.views, self.bins = geometry.sinogram_shape
        # Views from 0 to 45 degrees; the others are those of mirrored and transposed images.
        angles = tuple(geometry.angle_array[: self.views // 4 + 1].tolist())
        with warnings.catch_warnings():  # the whole scan has warned already
            warnings.simplefilter("ignore", KoriskWarning)
            quarter = replace(geometry, angles=angles, views=None, arc=None)
        self.inner = CpuMatrix(Joseph(quarter), device, dtype)
        # For each view: which copy shows it, in which view of the first quarter; and the view.
        v = np.arange(self.views // 4 + 1)
        below = v[4 * v < self.views]
        sources = [v, v[1:], below, below[1:]]  # what is its own mirror image is needed once
        half = self.views // 2
        targets = [v, self.views - v[1:], half - below, half + below[1:]]
        self.copy = torch.from_numpy(np.repeat(np.arange(4), list(map(len, sources))))
        self.source = torch.from_numpy(np.concatenate(sources))
        self.target = torch.from_numpy(np.concatenate(targets))

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, pixels) -> (batch, views * bins), or from there back to pixels."""
        return self._project(x) if project else self._backproject(x)

    def _project(self, images: Tensor) -> Tensor:
        x = images.view(-1, self.side, self.side)
        mirrored = x.flip(-1)
        # Four copies show all views through the first quarter of the matrix.
        copies = torch.stack([x, mirrored, x.mT, mirrored.mT])
        projections = self.inner.apply(copies.reshape(4 * len(x), -1), True)
        projections = projections.view(4, len(x), -1, self.bins)
        result = images.new_empty(len(x), self.views, self.bins)
        result[:, self.target] = projections[self.copy, :, self.source].transpose(0, 1)
        return result.flatten(1)

    def _backproject(self, sinograms: Tensor) -> Tensor:
        y = sinograms.view(-1, self.views, self.bins)
        parts = y.new_zeros(4, len(y), self.views // 4 + 1, self.bins)
        parts[self.copy, :, self.source] = y[:, self.target].transpose(0, 1)
        spread = self.inner.apply(parts.view(4 * len(y), -1), False)
        plain, mirrored, turned, both = spread.view(4, len(y), self.side, self.side)
        # The adjoint: each copy is turned back and added.
        image: Tensor = plain + turned.mT + (mirrored + both.mT).flip(-1)
        return image.flatten(1)


class DeviceMatrix(Engine):
    """Compressed rows for both directions on an accelerator, multiplied by its own library."""

    def __init__(self, stencil: AnyStencil, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(stencil, device, dtype)
        matrix = sparse_matrix(stencil, dtype)
        self.forward = _as_torch(matrix, device)
        self.backward = _as_torch(matrix.T.tocsr(), device)

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, pixels) -> (batch, views * bins), or from there back to pixels."""
        matrix = self.forward if project else self.backward
        return (matrix @ x.t().contiguous()).t().contiguous()


class OnTheFly(Engine):
    """No stored matrix: taps are computed for a few views at a time and discarded."""

    def apply(self, x: Tensor, project: bool) -> Tensor:
        """(batch, pixels) -> (batch, views * bins), or from there back to pixels."""
        shape = self.stencil.geometry.views_count, self.stencil.bins
        sinograms = x.new_zeros(len(x), *shape) if project else x
        images = x if project else x.new_zeros(len(x), math.prod(self.stencil.geometry.image_shape))
        sinograms = sinograms.view(-1, *shape)
        by_rays = self.stencil.listed == "rays"
        for views, elements, taps in self.chunks():
            for image, sinogram in zip(images, sinograms[:, views], strict=True):
                if project and by_rays:
                    sinogram[:, elements] = (image[taps.pixel] * taps.weight).sum(-1)
                elif project:
                    values = image[elements, None] * taps.weight
                    sinogram.scatter_add_(1, taps.bin.flatten(1), values.flatten(1))
                elif by_rays:
                    values = sinogram[:, elements].unsqueeze(-1) * taps.weight
                    image.index_add_(0, taps.pixel.flatten(), values.flatten())
                else:
                    values = sinogram.gather(1, taps.bin.flatten(1)).view(taps.weight.shape)
                    image[elements] += (values * taps.weight).sum((0, -1))
        return sinograms.flatten(1) if project else images

    def chunks(self) -> Iterator[tuple[slice, slice, Taps]]:
        """Views, elements of them, and their taps, a piece at a time."""
        pixels = math.prod(self.stencil.geometry.image_shape)
        listed = self.stencil.bins if self.stencil.listed == "rays" else pixels
        # As many rays or pixels of a view as taps fit into a chunk.
        step = max(1, listed * _CHUNK // max(self.stencil.taps_per_view, _CHUNK))
        for views in view_chunks(self.stencil):
            for first in range(0, listed, step):
                elements = slice(first, min(first + step, listed))
                taps = self.stencil.taps(views, self.device, elements)
                yield views, elements, Taps(taps.pixel, taps.bin, taps.weight.to(self.dtype))
