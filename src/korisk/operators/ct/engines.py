"""How a stencil is applied: as a sparse matrix, or on the fly view by view."""

from __future__ import annotations

import importlib.util
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk._memory import free_memory
from korisk.errors import KoriskError
from korisk.operators.ct.stencils import Joseph, Stencil, Taps

EngineName = Literal["auto", "matrix", "on_the_fly"]
ENGINES: tuple[EngineName, ...] = ("auto", "matrix", "on_the_fly")

_FEW = 4  # images up to which one by one is quicker: SciPy has a loop for single columns
_MKL_LEAST = 4
_COLUMNS = 32  # images multiplied at once: one row of them is two cache lines in float32
_PIXEL_TILE = (16, 16)
_RAY_TILE = (16, 8)  # views, bins
_CHUNK = 2**22  # taps listed at once
_WORTH_STORING = 0.25  # of the free memory, for a matrix that nobody asked for by name
_FITS = 0.75


class Engine(ABC):
    """A pair of products with one set of weights; tensors are (batch, elements), contiguous."""

    @abstractmethod
    def project(self, images: Tensor) -> Tensor:
        """(batch, pixels) -> (batch, views bins)."""

    @abstractmethod
    def backproject(self, sinograms: Tensor) -> Tensor:
        """(batch, views bins) -> (batch, pixels)."""


_live: WeakValueDictionary[tuple[object, ...], Engine] = WeakValueDictionary()


def engine_for(
    stencil: Stencil, name: EngineName, device: torch.device, dtype: torch.dtype
) -> Engine:
    """The engine of a stencil; operators of the same geometry share one while any of them lives."""
    if name == "auto":
        name = _best_engine(stencil, device, dtype)
    key = stencil, name, device, dtype
    engine = _live.get(key)
    if engine is None:
        engine = _live[key] = _make(stencil, name, device, dtype)
    return engine


def _best_engine(stencil: Stencil, device: torch.device, dtype: torch.dtype) -> EngineName:
    if device.type == "cuda" and isinstance(stencil, Joseph) and _has_triton():
        return "on_the_fly"  # faster than the product with a matrix, see benchmarks/operators.py
    needed = matrix_bytes(stencil, dtype)
    small = needed <= _WORTH_STORING * free_memory(device)
    return "matrix" if small and entry_count(stencil) < 2**31 else "on_the_fly"


def _make(stencil: Stencil, name: EngineName, device: torch.device, dtype: torch.dtype) -> Engine:
    if name == "on_the_fly":
        kernels = _kernels(stencil, device, dtype)
        return OnTheFly(stencil, device, dtype) if kernels is None else kernels
    refuse_what_does_not_fit(stencil, device, dtype)
    if device.type == "cpu":
        return CpuMatrix(stencil, dtype)
    return DeviceMatrix(stencil, device, dtype)


def _kernels(stencil: Stencil, device: torch.device, dtype: torch.dtype) -> Engine | None:
    if device.type != "cuda" or not isinstance(stencil, Joseph) or not _has_triton():
        return None
    from korisk.operators.ct.triton_joseph import TritonJoseph

    return TritonJoseph(stencil, device, dtype)


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def _has_mkl() -> bool:
    return bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]


# Sizes


def entry_count(stencil: Stencil) -> int:
    """About how many entries the matrix has: counted in a few views, or bounded where these are
    large themselves.
    """
    views = stencil.geometry.views_count
    if stencil.taps_per_view > _CHUNK:
        return stencil.taps_per_view * views
    looked_at = sorted({round(at) for at in np.linspace(0, views - 1, min(views, 5))})
    cpu = torch.device("cpu")
    found = [
        int(torch.count_nonzero(stencil.taps(slice(view, view + 1), cpu).weight))
        for view in looked_at
    ]
    return math.ceil(np.mean(found) * views)


def matrix_bytes(stencil: Stencil, dtype: torch.dtype) -> int:
    """About what the matrix and its stored transpose take."""
    return 2 * entry_count(stencil) * (4 + dtype.itemsize)


def refuse_what_does_not_fit(stencil: Stencil, device: torch.device, dtype: torch.dtype) -> None:
    """Say what a matrix would take before the machine finds out."""
    entries, needed, free = entry_count(stencil), matrix_bytes(stencil, dtype), free_memory(device)
    if entries >= 2**31 or needed > _FITS * free:
        raise KoriskError(
            f"the matrix of {stencil.geometry!r} would have {entries / 1e6:,.0f} million entries "
            f"and take {needed / 2**30:.1f} GiB with its transpose, of {free / 2**30:.1f} GiB "
            "free; use engine='on_the_fly', which stores none"
        )


# Matrices


class CpuMatrix(Engine):
    """Sparse rows for both directions, multiplied in as many threads as PyTorch uses.

    Several images at once go through MKL where PyTorch has it, and through SciPy elsewhere, since
    PyTorch's own product without MKL is far slower. Pixels and rays are numbered tile by tile, so
    that neighbouring rows of the matrix read the same few kilobytes of a batch; that alone makes
    the products up to three times faster.
    """

    def __init__(self, stencil: Stencil, dtype: torch.dtype) -> None:
        self.pixels = _Numbering(stencil.image_shape, _PIXEL_TILE)
        self.rays = _Numbering(stencil.sinogram_shape, _RAY_TILE)
        self.stencil, self.dtype = stencil, dtype
        self._folded: Engine | None = None
        matrix = _tiled_matrix(stencil, dtype, self.pixels, self.rays)
        self.forward = _Rows(matrix)
        self.backward = _Rows(matrix.T.tocsr())

    def project(self, images: Tensor) -> Tensor:
        """(batch, pixels) -> (batch, views bins)."""
        if folded := self._for_few(len(images)):
            return folded.project(images)
        return self._product(self.forward, images, self.pixels, self.rays)

    def backproject(self, sinograms: Tensor) -> Tensor:
        """(batch, views bins) -> (batch, pixels)."""
        if folded := self._for_few(len(sinograms)):
            return folded.backproject(sinograms)
        return self._product(self.backward, sinograms, self.rays, self.pixels)

    def _for_few(self, batch: int) -> Engine | None:
        """A quarter of the matrix, where the scan folds and so few images are quicker with it."""
        if batch > _FEW or self.forward.mkl is None:
            return None
        if self._folded is None:
            from korisk.operators.ct.folded import FoldedMatrix, folds

            if not folds(self.stencil):
                return None
            self._folded = FoldedMatrix(self.stencil, self.dtype)
        return self._folded

    @staticmethod
    def _product(rows: _Rows, x: Tensor, source: _Numbering, target: _Numbering) -> Tensor:
        result = x.new_empty(len(x), target.count)
        if rows.mkl is None and len(x) <= _FEW:
            for vector, out in zip(x, result, strict=True):
                product = rows.times(vector.index_select(0, source.order).numpy())
                torch.index_select(torch.from_numpy(product), 0, target.place, out=out)
            return result
        parts = torch.split(x, _COLUMNS), torch.split(result, _COLUMNS)
        for part, out in zip(*parts, strict=True):
            target.restore(rows.times_columns(source.columns(part)), out)
        return result


class _Numbering:
    """A grid counted tile by tile: `order` lists flat indices so, `place` finds one in it."""

    def __init__(self, shape: tuple[int, int], tile: tuple[int, int]) -> None:
        rows, columns = np.divmod(np.arange(math.prod(shape)), shape[1])
        keys = columns, rows, columns // tile[1], rows // tile[0]
        order = np.lexsort(keys)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self.order, self.place = torch.from_numpy(order), torch.from_numpy(place)
        self.count = len(order)
        whole = shape[0] % tile[0] == 0 and shape[1] % tile[1] == 0
        # Where tiles fill the grid, renumbering is a permutation of axes, twice as quick.
        self.split = (shape[0] // tile[0], tile[0], shape[1] // tile[1], tile[1]) if whole else None

    def columns(self, x: Tensor) -> Tensor:
        """(batch, count) in natural order as (count, batch) in this one."""
        if self.split is None:
            return x.t()[self.order]
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


def _tiled_matrix(
    stencil: Stencil, dtype: torch.dtype, pixels: _Numbering, rays: _Numbering
) -> scipy.sparse.csr_array:
    natural = sparse_matrix(stencil, dtype, column=pixels.place.numpy().astype(np.int32))
    return scipy.sparse.csr_array(natural[rays.order.numpy()])


def sparse_matrix(
    stencil: Stencil, dtype: torch.dtype, column: NDArray[np.int32] | None = None
) -> scipy.sparse.csr_array:
    """The matrix (views bins, pixels), one row a ray; `column` renumbers the pixels."""
    bins = stencil.geometry.bins
    pixels = math.prod(stencil.image_shape)
    renumber = np.arange(pixels, dtype=np.int32) if column is None else column
    real = np.float32 if dtype == torch.float32 else np.float64
    cpu = torch.device("cpu")
    blocks = []
    for part in view_chunks(stencil):
        taps = stencil.taps(part, cpu)
        kept = taps.weight != 0
        shape = taps.weight.shape
        pixel = renumber[taps.pixel.expand(shape)[kept].numpy()]
        value = taps.weight[kept].numpy().astype(real)
        rows = (part.stop - part.start) * bins
        if stencil.listed == "rays":  # already row by row: only the row lengths are to be counted
            lengths = kept.sum(-1).flatten().numpy()
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            block = scipy.sparse.csr_array((value, pixel, starts), shape=(rows, pixels))
        else:
            view = torch.arange(part.stop - part.start)[:, None, None]
            ray = (view * bins + taps.bin).expand(shape)[kept].numpy().astype(np.int32)
            entries: Any = value, (ray, pixel)
            block = scipy.sparse.coo_array(entries, shape=(rows, pixels)).tocsr()
        blocks.append(block)
    return scipy.sparse.csr_array(scipy.sparse.vstack(blocks, format="csr"))


def view_chunks(stencil: Stencil) -> Iterator[slice]:
    """Runs of views whose taps can be listed at once."""
    views = stencil.geometry.views_count
    step = max(1, _CHUNK // stencil.taps_per_view)
    for first in range(0, views, step):
        yield slice(first, min(first + step, views))


class _Rows:
    """A sparse matrix cut into blocks of rows with equally many entries."""

    def __init__(self, matrix: Any) -> None:
        pieces = 2 * max(1, os.cpu_count() or 1)
        goals = np.linspace(0, matrix.nnz, pieces + 1)[1:-1]
        cuts = np.searchsorted(matrix.indptr, goals)
        bounds = np.unique(np.concatenate([[0], cuts, [matrix.shape[0]]]))
        self.blocks = [_row_block(matrix, *pair) for pair in pairwise(bounds)]
        self.bounds = list(pairwise(bounds.tolist()))
        self.rows = matrix.shape[0]
        self.mkl = _as_torch(matrix) if _has_mkl() else None

    def times_columns(self, columns: Tensor) -> Tensor:
        """The product with (source, batch), by MKL where there is one."""
        if self.mkl is None:
            return torch.from_numpy(self.times(columns.numpy()))
        batch = columns.shape[1]
        if batch < _MKL_LEAST:  # one column takes MKL longer than four
            columns = torch.nn.functional.pad(columns, (0, _MKL_LEAST - batch))
        return (self.mkl @ columns)[:, :batch]

    def times(self, columns: NDArray[Any]) -> NDArray[Any]:
        """The product with an array (source,) or (source, batch)."""
        result = np.empty((self.rows, *columns.shape[1:]), dtype=columns.dtype)

        def block_product(at: int) -> None:
            first, last = self.bounds[at]
            result[first:last] = self.blocks[at] @ columns

        _in_threads(block_product, len(self.blocks))
        return result


def _row_block(matrix: Any, first: int, last: int) -> scipy.sparse.csr_array:
    """Rows first to last, sharing the memory of the whole."""
    start, stop = matrix.indptr[first], matrix.indptr[last]
    parts = matrix.data[start:stop], matrix.indices[start:stop]
    starts = matrix.indptr[first : last + 1] - start
    return scipy.sparse.csr_array((*parts, starts), shape=(last - first, matrix.shape[1]))


_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # a forked process has none of the threads


def _in_threads(work: Callable[[int], None], items: int) -> None:
    """Do items 0, 1, ...; this thread takes its share, so one thread needs no other."""
    threads = min(torch.get_num_threads(), items)

    def share(first: int) -> None:
        for item in range(first, items, threads):
            work(item)

    if threads > 1 and threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="korisk")
    others = [_pools[threads].submit(share, first) for first in range(1, threads)]
    share(0)
    for other in others:
        other.result()


class DeviceMatrix(Engine):
    """Compressed rows for both directions on an accelerator, multiplied by its own library."""

    def __init__(self, stencil: Stencil, device: torch.device, dtype: torch.dtype) -> None:
        matrix = sparse_matrix(stencil, dtype)
        self.forward = _as_torch(matrix, device)
        self.backward = _as_torch(matrix.T.tocsr(), device)

    def project(self, images: Tensor) -> Tensor:
        """(batch, pixels) -> (batch, views bins)."""
        return (self.forward @ images.t().contiguous()).t().contiguous()

    def backproject(self, sinograms: Tensor) -> Tensor:
        """(batch, views bins) -> (batch, pixels)."""
        return (self.backward @ sinograms.t().contiguous()).t().contiguous()


def _as_torch(matrix: Any, device: torch.device | str = "cpu") -> Tensor:
    starts, indices, values = (
        torch.from_numpy(part).to(device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(starts, indices, values, size=matrix.shape)


class OnTheFly(Engine):
    """Nothing stored: the taps of a few views, or of a part of one, are made, used and dropped."""

    def __init__(self, stencil: Stencil, device: torch.device, dtype: torch.dtype) -> None:
        self.stencil, self.device, self.dtype = stencil, device, dtype

    def project(self, images: Tensor) -> Tensor:
        """(batch, pixels) -> (batch, views bins)."""
        views, bins = self.stencil.sinogram_shape
        result = images.new_zeros(len(images), views, bins)
        for part, elements, taps in self._chunks():
            for image, sinogram in zip(images, result[:, part], strict=True):
                if self.stencil.listed == "rays":
                    sinogram[:, elements] = (image[taps.pixel] * taps.weight).sum(-1)
                else:
                    values = image[elements, None] * taps.weight
                    sinogram.scatter_add_(1, taps.bin.flatten(1), values.flatten(1))
        return result.flatten(1)

    def backproject(self, sinograms: Tensor) -> Tensor:
        """(batch, views bins) -> (batch, pixels)."""
        views, bins = self.stencil.sinogram_shape
        result = sinograms.new_zeros(len(sinograms), math.prod(self.stencil.image_shape))
        for part, elements, taps in self._chunks():
            piece = sinograms.view(-1, views, bins)[:, part]
            for sinogram, image in zip(piece, result, strict=True):
                if self.stencil.listed == "rays":
                    values = sinogram[:, elements].unsqueeze(-1) * taps.weight
                    image.index_add_(0, taps.pixel.flatten(), values.flatten())
                else:
                    taken = sinogram.gather(1, taps.bin.flatten(1)).view(taps.weight.shape)
                    image[elements] += (taken * taps.weight).sum((0, -1))
        return result

    def _chunks(self) -> Iterator[tuple[slice, slice, Taps]]:
        listed = self.stencil.listed_count
        step = max(1, listed * _CHUNK // max(self.stencil.taps_per_view, _CHUNK))
        for part in view_chunks(self.stencil):
            for first in range(0, listed, step):
                elements = slice(first, min(first + step, listed))
                taps = self.stencil.taps(part, self.device, elements)
                yield part, elements, Taps(taps.pixel, taps.bin, taps.weight.to(self.dtype))
