"""`Page`, one image as stored in a file, the readers of NumPy files, and checks of all readers."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from korisk._memory import check_memory
from korisk.errors import KoriskError, did_you_mean, invalid, needed_by

Untyped = Any  # of a package that has no types
Numbers = NDArray[Any]
# Errors of NumPy for broken files; its messages are about its arguments, so they are replaced.
_BROKEN = (ValueError, EOFError, SyntaxError, OverflowError, TokenError)
DEFLATE = 1032  # largest compression ratio of deflate
FITS = 0.5  # share of the free memory that one image and its temporaries may take
SMALL = 2**24  # bytes below which the free memory is not checked, which takes a while
_TEMPORARIES = 24  # bytes a pixel: in float64, converted, cropped
_BLOCK = 2**21  # pixels of a stack read at once: few enough to be small, many enough to be fast
_WIDEST_COLOUR = 4  # channels: a shorter last axis is colour, not a row of pixels
_LONGEST_HEADER = 2**16  # bytes; a longer one could be gigabytes of blanks


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    """Shape, type and bytes of the array in an open .npy file; only the header is read."""
    header = io.BytesIO(file.read(_LONGEST_HEADER))
    if np.lib.format.read_magic(header) == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(header)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(header)
    return shape, dtype, header.tell() + math.prod(shape) * dtype.itemsize


def read_npy(path: Path) -> Iterator[Page]:
    """The slices of one array, which is mapped into memory instead of loaded."""
    try:
        with path.open("rb") as file:
            array_header(file)  # NumPy would read a header of gigabytes
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _BROKEN:
        reason = "its header is damaged, it ends too soon, or it holds objects"
        remedy = "save it again with numpy.save"
        raise KoriskError(f"is not a complete .npy file of numbers: {reason}; {remedy}") from None
    yield from pages_of(array, "the array")


def read_npz(path: Path, member: str | None = None) -> Iterator[Page]:
    """The slices of the archive's only array, or of the named one."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if member is None and len(names) != 1:
            listed = ", ".join(names[:5]) or "none"
            got, remedy = f"{len(names)} ({listed})", "name one, as in FILE.npz:NAME"
            raise KoriskError(f"must hold one array, got {got}; {remedy}")
        array_name = names[0] if member is None else member.strip("/")
        if array_name not in names:
            raise KoriskError(f"has no array {member!r}{did_you_mean(array_name, names)}")
        if names.count(array_name) > 1:
            raise KoriskError(f"has the array {array_name!r} twice; save it again with one of them")
        info = archive.getinfo(f"{array_name}.npy")
        with archive.open(info) as file:
            shape, dtype, claimed = array_header(file)
    # The header is checked before anything is unpacked: a few bytes can contain gigabytes of zeros.
    count, rows, columns = stack_of(shape, f"the array {array_name!r}")
    full_scale(dtype, f"the array {array_name!r}")
    packed = DEFLATE if info.compress_type == zipfile.ZIP_DEFLATED else math.inf
    refuse_hollow(shape, claimed, min(info.file_size, packed * info.compress_size))
    refuse_large(rows, columns, dtype.itemsize, at_once=count)
    with np.load(path, allow_pickle=False) as arrays:
        yield from pages_of(arrays[array_name], "the array")


class NotAnImageError(KoriskError):
    """A valid file without an image: skipped in a folder, an error if it is named."""


@dataclass(frozen=True)
class Page:
    """One image of a file."""

    values: Numbers  # (rows, columns)
    count: int = 1  # images in the file
    full: float | None = 1.0  # divisor of plain values; None: not known
    unit: str | None = None  # "HU", "1/mm"; None if the file does not state it
    spacing: tuple[float, float] | None = None  # mm from row to row, from column to column
    patient: str | None = None
    note: str | None = None  # for a warning


def package(name: str, what: str) -> Untyped:
    """Import a package that reads one format, at the first such file."""
    with needed_by(what, name, "'korisk[io]'"):
        return import_module(name)


def stack_of(shape: tuple[int, ...], what: str) -> tuple[int, int, int]:
    """(count, rows, columns) of an array with one image or a stack of images."""
    if len(shape) not in (2, 3) or 0 in shape:
        rule = "have 2 axes (rows, columns) or 3 (slices, rows, columns), and at least one image"
        raise invalid(what, rule, shape, "save one such array", got=f"the shape {shape}")
    if len(shape) == 3 and shape[-1] <= _WIDEST_COLOUR < shape[-2]:
        problem = f"has the shape {shape}, which looks like colours in the last axis"
        remedy = "save grey images as (rows, columns) or (slices, rows, columns)"
        raise KoriskError(f"{what} {problem}; {remedy}")
    return shape[0] if len(shape) == 3 else 1, int(shape[-2]), int(shape[-1])


def full_scale(dtype: np.dtype[np.generic], what: str, *, bits: int | None = None) -> float | None:
    """The value that becomes 1: the largest of the type, 1 for fractions, None if unknown."""
    if dtype.kind in "fb":
        return 1.0
    if dtype.kind not in "iu":
        raise KoriskError(f"{what} holds {dtype}; save real numbers, one a pixel")
    width = bits or 8 * dtype.itemsize
    # Wider integers hardly ever use their full range.
    return float(2 ** (width - (dtype.kind == "i")) - 1) if width <= 16 else None


def check_fits(needed: int, what: str, remedy: str, *, share: float = FITS) -> None:
    """Raise if reading `what` would take more bytes than this share of the free memory."""
    if needed >= SMALL:
        # Most images are far smaller, and reading /proc for each of them would take a while.
        check_memory(needed, torch.device("cpu"), what, remedy, share=share)


def refuse_large(rows: int, columns: int, itemsize: int, *, at_once: int = 1) -> None:
    """Raise if `at_once` images of this size would not fit into memory."""
    needed = rows * columns * (itemsize * at_once + _TEMPORARIES)
    purpose = f"reading {at_once:,} x {rows:,} x {columns:,} pixels"
    check_fits(needed, purpose, "cut it into smaller ones")


def refuse_hollow(shape: tuple[int, ...], claimed: float, most: float) -> None:
    """Raise if an array claims more bytes than the file can be unpacked to."""
    if claimed > most:
        pixels = " x ".join(f"{length:,}" for length in shape)
        problem = "more than its bytes can hold; is it whole?"
        raise KoriskError(f"says that it has {pixels} pixels, {problem}")


def pages_of(array: Untyped, what: str) -> Iterator[Page]:
    """The images of an array or a dataset, read a few at a time."""
    count, rows, columns = stack_of(array.shape, what)
    full = full_scale(array.dtype, what)
    refuse_large(rows, columns, array.dtype.itemsize)
    if len(array.shape) == 2:
        yield Page(np.asarray(array[()]), full=full)
        return
    step = max(1, _BLOCK // (rows * columns))
    for first in range(0, count, step):
        for values in np.asarray(array[first : first + step]):
            yield Page(values, count=count, full=full)
