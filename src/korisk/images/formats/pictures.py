"""Pictures as images: PNG by Pillow, TIFF by tifffile."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError
from korisk.images.formats.page import Page, full_scale, package, refuse_large, stack_of

_PNG = b"\x89PNG\r\n\x1a\n"
_GREY = 0  # PNG's colour type
_WHITE_IS_ZERO, _BLACK_IS_ZERO = 0, 1  # TIFF's photometric interpretations
_REMEDY = "save it in grey"
_DENSEST = 1032  # bytes that PNG's compression can make of one


def read_png(path: Path, member: str | None) -> Iterator[Page]:
    """The picture, in grey of 1 to 16 bits; colours are taken where all of them are greys."""
    _no_member(member)
    image = package("PIL.Image", "reading PNG")
    rows, columns, depth, colour = _png_header(path)
    refuse_large(rows, columns, 8)
    if rows * columns > 2 * (image.MAX_IMAGE_PIXELS or rows * columns):
        raise KoriskError(
            f"has {rows:,} x {columns:,} pixels, more than the {2 * image.MAX_IMAGE_PIXELS:,} that "
            "a PNG is read with here; cut it into smaller ones, or save it as .npy"
        )
    if rows * columns * depth // 8 > _DENSEST * path.stat().st_size:
        raise KoriskError(
            f"says that it has {rows:,} x {columns:,} pixels, more than its bytes can hold; is it "
            "whole?"
        )
    if depth == 16 and colour != _GREY:
        raise KoriskError(f"holds colours or transparency of 16 bits; {_REMEDY}")
    with image.open(path, formats=("PNG",)) as picture:
        if picture.mode in ("1", "L", "I", "I;16", "I;16B"):
            values = np.asarray(picture)
        else:
            values = _as_grey(np.asarray(picture.convert("RGBA")))
    full = {1: 1.0, 16: 65535.0}.get(depth, 255.0)  # 2 and 4 bits are spread over 8
    yield Page(values, full=full)


def _png_header(path: Path) -> tuple[int, int, int, int]:
    with path.open("rb") as file:
        start = file.read(26)
    if len(start) < 26 or not start.startswith(_PNG):
        raise KoriskError("is not a PNG file, whatever its name says")
    columns, rows, depth, colour = struct.unpack(">IIBB", start[16:26])
    return rows, columns, depth, colour


def _as_grey(colours: NDArray[Any]) -> NDArray[Any]:
    red, green, blue, opacity = np.moveaxis(colours, -1, 0)
    if not (np.array_equal(red, green) and np.array_equal(red, blue)):
        raise KoriskError(f"holds colours, which are no attenuation; {_REMEDY}")
    if opacity.min() < 255:
        raise KoriskError(f"is transparent in places; {_REMEDY}, without an alpha channel")
    return np.ascontiguousarray(red)


def read_tiff(path: Path, member: str | None) -> Iterator[Page]:
    """The pages, in grey of any type; previews are left out."""
    _no_member(member)
    tifffile = package("tifffile", "reading TIFF")
    with _silent("tifffile"), tifffile.TiffFile(path) as file:
        pages = [page for page in _each_once(file.pages) if not page.is_reduced]
        series = file.series[0]
        if len(pages) == 1 and series.ndim == 3 and series.shape[0] > 1:
            pages = [_Volume(series, pages[0])]  # one header for a whole stack, as ImageJ writes
        count = sum(getattr(page, "count", 1) for page in pages)
        for page in pages:
            yield from _tiff_page(page, count)


def _each_once(pages: Any) -> Iterator[Any]:
    """The pages of a file, each of which says where the next one is: that may be a circle."""
    seen: set[int] = set()
    for page in pages:
        if page.offset in seen:
            raise KoriskError("has pages that lead back to each other; save it again")
        seen.add(page.offset)
        yield page


class _Volume:
    """Several images behind one header, which is that of the first."""

    def __init__(self, series: Any, page: Any) -> None:
        self.count, self.shape = int(series.shape[0]), tuple(series.shape)
        self.asarray = series.asarray
        self._page = page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._page, name)


def _tiff_page(page: Any, count: int) -> Iterator[Page]:
    if page.samplesperpixel != 1 or page.photometric not in (_WHITE_IS_ZERO, _BLACK_IS_ZERO):
        raise KoriskError(f"holds colours ({page.samplesperpixel} a pixel); {_REMEDY}")
    several, rows, columns = stack_of(tuple(page.shape), "a page")
    if page.dtype is None:
        raise KoriskError(f"holds numbers of {page.bitspersample} bits; save 8, 16 or 32")
    dtype = np.dtype(page.dtype)
    refuse_large(rows, columns, dtype.itemsize, at_once=several)
    full = full_scale(dtype, "a page", bits=page.bitspersample if dtype.kind in "iu" else None)
    if max(page.databytecounts, default=0) > page.parent.filehandle.size:
        raise KoriskError("says that its pixels take more bytes than it has; is it whole?")
    values = np.asarray(_decoded(page)).reshape(several, rows, columns)
    if page.photometric == _WHITE_IS_ZERO:
        if full is None or dtype.kind not in "bu":
            raise KoriskError(f"says that 0 is white, in {dtype}; save it with black as 0")
        values = (full - values).astype(np.uint16)
    for each in values:
        yield Page(each, count=count, full=full)


def _decoded(page: Any) -> Any:
    try:
        return page.asarray()
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
        name = getattr(page.compression, "name", page.compression)
        raise KoriskError(
            f"is compressed as {name}, and no decoder for it is installed; pip install "
            "imagecodecs, or save it uncompressed"
        ) from None


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """What a package logs about a broken file is in the error already."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _no_member(member: str | None) -> None:
    if member is not None:
        raise KoriskError(f"has no members such as {member!r}; leave out ':{member}'")
