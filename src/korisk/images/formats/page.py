"""One image as a file holds it, and what every reader of files needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from korisk.errors import KoriskError, MissingExtraError
from korisk.operators.ct.engines import free_memory

_FITS = 0.5  # of the free memory may be taken by one image and its temporaries
_SMALL = 2**24  # bytes that are there without asking, which takes a while
_TEMPORARIES = 24  # bytes a pixel: in float64, converted, cropped
_WIDEST_COLOUR = 4  # channels: a last axis as short as that is colour, not a row of pixels


class NotAnImageError(KoriskError):
    """A sound file that is no image: it is left out of a folder, and refused where it is named."""


@dataclass(frozen=True)
class Page:
    """One image of a file. `full` is what a plain value is divided by; None: not known."""

    values: NDArray[Any]  # (rows, columns)
    count: int = 1  # images that the file holds
    full: float | None = 1.0
    unit: str | None = None  # "HU", "1/mm"; None where the file does not say
    spacing: tuple[float, float] | None = None  # mm from row to row, from column to column
    patient: str | None = None
    note: str | None = None  # what its user should know


def package(name: str, what: str) -> Any:
    """A package that reads one format, imported when the first such file is met."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{what} needs {name}, which is not installed; pip install 'korisk[io]'"
        ) from error


def stack_of(shape: tuple[int, ...], what: str) -> tuple[int, int, int]:
    """(count, rows, columns) of an array of one image or of a stack of them."""
    if len(shape) not in (2, 3):
        raise KoriskError(
            f"{what} must have 2 axes (rows, columns) or 3 (slices, rows, columns), got the shape "
            f"{shape}; save one such array"
        )
    if len(shape) == 3 and shape[-1] <= _WIDEST_COLOUR < shape[-2]:
        raise KoriskError(
            f"{what} has the shape {shape}, which looks like colours in the last axis; save grey "
            "images as (rows, columns) or (slices, rows, columns)"
        )
    if 0 in shape:
        raise KoriskError(f"{what} has the shape {shape} and holds no image; remove it")
    count = shape[0] if len(shape) == 3 else 1
    return count, int(shape[-2]), int(shape[-1])


def full_scale(dtype: np.dtype[Any], what: str, *, bits: int | None = None) -> float | None:
    """What 1 is in images of a type: its maximum, 1 for fractions, None where only a user knows."""
    if dtype.kind == "f" or dtype.kind == "b":
        return 1.0
    if dtype.kind not in "iu":
        raise KoriskError(f"{what} holds {dtype}; save real numbers, one a pixel")
    width = bits or 8 * dtype.itemsize
    if width > 16:
        return None
    return float(2 ** (width - (dtype.kind == "i")) - 1)


def memory_without(needed: int, share: float) -> int | None:
    """The bytes that are free, where `needed` are more than this share of them; None: they fit."""
    if needed < _SMALL:
        return None
    free = free_memory(torch.device("cpu"))
    return free if needed > share * free else None


def refuse_large(rows: int, columns: int, itemsize: int, *, at_once: int = 1) -> None:
    """Say what an image would take before the machine finds out."""
    needed = rows * columns * (itemsize * at_once + _TEMPORARIES)
    if (free := memory_without(needed, _FITS)) is not None:
        several = f"{at_once:,} images" if at_once > 1 else "one image"
        raise KoriskError(
            f"{several} of {rows:,} x {columns:,} pixels would take {needed / 2**30:.3g} GiB to "
            f"read, of {free / 2**30:.3g} GiB free; cut it into smaller ones"
        )


def refuse_large_file(path: Path) -> None:
    """The same of a file that is read whole."""
    size = path.stat().st_size
    if (free := memory_without(size, _FITS)) is not None:
        raise KoriskError(
            f"is a file of {size / 2**30:.3g} GiB, which is read whole, of {free / 2**30:.3g} GiB "
            "free; split it"
        )


def blocks(count: int, rows: int, columns: int) -> Iterator[slice]:
    """Runs of images that are read at once: few enough to be small, many enough to be fast."""
    step = max(1, 2**21 // (rows * columns))
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def positive(values: object, *, count: int) -> tuple[float, ...] | None:
    """`count` finite numbers above 0, or None: what stands in a header may be anything."""
    try:
        numbers = tuple(float(value) for value in values)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return None
    good = len(numbers) == count and all(0 < each < math.inf for each in numbers)
    return numbers if good else None
