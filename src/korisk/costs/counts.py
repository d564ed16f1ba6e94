"""What a cell of a study computes and keeps, counted from its spec: operations and bytes.

Counts follow the code in `cells` and below it, call by call. What only data decide is taken as
fits to more than a few images have it. `known_counts` and `dense_counts` have the fits, this file
what they share. Nothing here needs PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from korisk.costs.scans import Scan

Kind = Literal[
    "matmul32",
    "matmul64",
    "matvec32",
    "eigh64",
    "cholesky32",
    "cholesky64",
    "rays",
    "sparse",
    "listed",
    "on_the_fly",
    "paint",
    "measure",
    "stream",
]

# What a call of each kind is counted in.
UNITS: dict[Kind, str] = {
    "matmul32": "floating point operations of a product of float32 matrices",
    "matmul64": "floating point operations of a product of float64 matrices",
    "matvec32": "bytes of a float32 matrix that is multiplied by a vector",
    "eigh64": "n^3 of a symmetric float64 matrix that is decomposed",
    "cholesky32": "n^3 / 3 of a float32 matrix that is factored",
    "cholesky64": "n^3 / 3 of a float64 matrix that is factored",
    "rays": "entries of a projector by Joseph, times images",
    "sparse": "entries of another projector, times images",
    "listed": "entries that are listed to make an operator's matrix",
    "on_the_fly": "entries of a projector that stores none, times images",
    "paint": "pixels of phantoms",
    "measure": "pixels of images that every metric is taken of",
    "stream": "bytes read or written, entry by entry",
}
KINDS: tuple[Kind, ...] = tuple(UNITS)

# These are the fits' own limits, which tests hold against theirs.
COLUMNS = 32  # images that are multiplied by a sparse matrix at once on a CPU
ENTRIES = 2**26  # of images and sinograms that a known-operator fit works on at once
WORTH_STORING, FITS = 0.25, 0.8  # of the free memory: a projector's matrix, a normal matrix
LISTED = 2**22  # entries of a projector that are listed at once
MEASURED = 2**20  # pixels measured at once
PAINTED = 2**22  # pixels painted at once
PROJECTED = 2**24  # pixels projected at once
LARGEST_FILTER = 1024  # bins up to which the filter is a matrix

WORKSPACE = 2**25  # bytes that products take on CUDA for each stream, on recent cards

# Bytes of temporaries for each entry or pixel that is worked on at once.
_LISTING = 80  # indices and weights in 64 bits
_METRICS = 16 * 8  # images, blurred images and their products in float64
_PAINTING = 24  # lists of pixels


@dataclass(frozen=True, kw_only=True)
class Operations:
    """So many calls of one kind, each of so much work in the kind's unit."""

    kind: Kind
    work: float
    calls: float = 1.0

    @property
    def total(self) -> float:
        """The work of all calls."""
        return self.work * self.calls


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One part of a cell: what it computes, and the bytes that it takes."""

    name: str
    operations: tuple[Operations, ...] = ()
    keeps: float = 0.0  # bytes, from this stage on
    works: float = 0.0  # bytes more while it runs
    once: bool = False  # for a point and a worker, not for every seed


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way of fitting one model, alone in its cell."""

    model: str
    name: str
    weights: int
    stages: tuple[Stage, ...]
    used: bool = False  # whether the study does it so


def peak(stages: tuple[Stage, ...]) -> float:
    """The most bytes that are alive at once while stages run one after the other."""
    held = largest = 0.0
    for stage in stages:
        held += stage.keeps
        largest = max(largest, held + stage.works)
    return largest


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A cell on a kind of device with so much memory: its scan, its parts, and what they cost."""

    spec: Mapping[str, Any]
    device: str  # "cpu" or "cuda"
    memory: float  # bytes that are free before the cell

    @cached_property
    def scan(self) -> Scan:
        """The scanner's sizes."""
        return Scan.of(self.spec["problem"])

    @property
    def images(self) -> tuple[int, int, int]:
        """How many images there are to learn from, to choose by and to judge with."""
        pools = self.spec["pools"]
        return self.spec["sizes"][-1], pools["validation"], pools["test"]

    # --- Parts that models share -----------------------------------------------------------------

    def shared(self) -> tuple[Stage, ...]:
        """The projector and the pools."""
        scan = self.scan
        count = sum(self.images)
        pixels = count * scan.pixels
        pools = Stage(
            name="pools",
            operations=(
                *pieces("paint", pixels, PAINTED),
                *self.projections(count),
                *self.noise(count),
            ),
            keeps=count * (scan.pixels + scan.rays) * scan.itemsize,
            works=_PAINTING * min(pixels, PAINTED)
            + min(count, max(1, PROJECTED // scan.pixels)) * scan.rays * scan.itemsize,
        )
        return (self.engine("projector", scan.projector_entries, scan.projector_listed), pools)

    def noise(self, count: int) -> tuple[Operations, ...]:
        """Noise on the sinograms, drawn and added entry by entry."""
        if self.spec["problem"]["noise"] is None:
            return ()
        return (stream(10 * count * self.scan.rays * self.scan.itemsize),)

    def engine(self, name: str, entries: float, listed: float) -> Stage:
        """A projector made ready: a matrix and its transpose, or nothing that is kept."""
        stored = self.stores(entries, joseph=self._joseph(name))
        if not stored:
            return Stage(name=name, once=True, works=_LISTING * min(listed, LISTED))
        size = entries * (4 + self.scan.itemsize)
        return Stage(
            name=name,
            operations=(Operations(kind="listed", work=listed),),
            keeps=2 * size,
            works=max(size, _LISTING * min(listed, LISTED)) if self.device == "cpu" else 0.0,
            once=True,
        )

    def _joseph(self, name: str) -> bool:
        return self.scan.joseph if name == "projector" else self.scan.adjoint

    def stores(self, entries: float, *, joseph: bool) -> bool:
        """Whether a projector is kept as a matrix; on CUDA, Joseph's never is."""
        if joseph and self.device == "cuda":
            return False
        fits = 2 * entries * (4 + self.scan.itemsize) <= WORTH_STORING * self.memory
        return fits and entries < 2**31

    def products(
        self, entries: float, listed: float, images: float, *, joseph: bool
    ) -> tuple[Operations, ...]:
        """Images through a projector, in either direction.

        As many at once as a sparse matrix takes on a CPU; that is how rates are measured too.
        """
        kind: Kind = "rays" if joseph else "sparse"
        if not (joseph and self.device == "cuda") and not self.stores(entries, joseph=joseph):
            return pieces("on_the_fly", listed * images, listed * COLUMNS)
        return pieces(kind, entries * images, entries * COLUMNS)

    def projections(self, images: float) -> tuple[Operations, ...]:
        """Images to sinograms."""
        scan = self.scan
        given = scan.projector_entries, scan.projector_listed
        return self.products(*given, images, joseph=scan.joseph)

    def tail(self, images: float) -> tuple[Operations, ...]:
        """Sinograms through the known operators behind the weights, or back."""
        scan = self.scan
        if scan.dense_tail:
            return (self.matmul(2 * scan.rays * scan.pixels * images),)
        given = scan.tail_entries, scan.tail_listed
        if scan.tikhonov:
            side = min(scan.rays, scan.pixels)
            return (*self.products(*given, images, joseph=False), self.matmul(2 * side**2 * images))
        return (self.filtered(images), *self.products(*given, images, joseph=scan.adjoint))

    def filtered(self, images: float) -> Operations:
        """The ramp filter on sinograms: a matrix up to 1024 bins, then two Fourier transforms."""
        scan = self.scan
        if scan.bins <= LARGEST_FILTER:
            return self.matmul(2 * scan.rays * scan.bins * images)
        padded = scan.views * 2 ** math.ceil(math.log2(2 * scan.bins))
        return stream(images * padded * scan.itemsize * 12)

    def matmul(self, work: float, calls: float = 1.0) -> Operations:
        """A product of matrices in the cell's precision."""
        kind: Kind = "matmul32" if self.scan.itemsize == 4 else "matmul64"
        return Operations(kind=kind, work=work, calls=calls)

    def tail_engine(self) -> tuple[Stage, ...]:
        """What stands behind the weights, made ready."""
        scan = self.scan
        if scan.dense_tail or scan.tikhonov:
            return (self._inverse(),)
        if scan.adjoint:  # shares the projector's
            return ()
        return (self.engine("backprojector", scan.tail_entries, scan.tail_listed),)

    def _inverse(self) -> Stage:
        """Tikhonov's inverse on its shorter side, and as one matrix where that is small."""
        scan = self.scan
        side = min(scan.rays, scan.pixels)
        made = [
            *self.projections(2 * side),
            Operations(kind="cholesky64", work=side**3 / 3),
            Operations(kind="matmul64", work=2 * side**3),
        ]
        kept = 8 * side**2
        if scan.dense_tail:
            made.append(self.matmul(2 * side * scan.rays * scan.pixels))
            kept += scan.rays * scan.pixels * scan.itemsize
        return Stage(name="inverse", operations=tuple(made), keeps=kept, works=kept, once=True)

    def metrics(self) -> tuple[Operations, ...]:
        """Every metric of every test image."""
        pixels = self.images[2] * self.scan.pixels
        return pieces("measure", pixels, max(MEASURED, self.scan.pixels))

    def metrics_bytes(self) -> float:
        """What predictions of the test set and their metrics take."""
        pixels = self.images[2] * self.scan.pixels
        return pixels * self.scan.itemsize + _METRICS * min(pixels, max(MEASURED, self.scan.pixels))

    def part(self, samples: int) -> int:
        """How many samples a known-operator fit works on at once."""
        return min(samples, max(1, ENTRIES // (self.scan.rays + self.scan.pixels)))

    @property
    def gram_fits(self) -> bool:
        """Whether B^T B and a normal matrix have room."""
        needed = 2 * self.scan.rays**2 * self.scan.itemsize
        return needed <= FITS * self.memory


def stream(size: float, calls: float = 1.0) -> Operations:
    """Bytes that are read or written, entry by entry."""
    return Operations(kind="stream", work=size, calls=calls)


def pieces(kind: Kind, work: float, piece: float) -> tuple[Operations, ...]:
    """Work in pieces of a given size, the last of them smaller."""
    calls = max(1, math.ceil(work / piece)) if piece else 1
    return (Operations(kind=kind, work=work / calls, calls=float(calls)),)


def repeated(operations: Iterable[Operations], times: float) -> tuple[Operations, ...]:
    """The same operations so many times."""
    return tuple(
        Operations(kind=each.kind, work=each.work, calls=each.calls * times) for each in operations
    )
