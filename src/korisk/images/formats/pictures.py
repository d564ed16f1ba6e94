"""Readers of PNG, by Pillow, and of TIFF, by tifffile."""

import math
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from korisk.errors import KoriskError
from korisk.images.formats import page as checks
from korisk.images.formats.page import DEFLATE, Page, Untyped, full_scale, package, refuse_hollow

_PNG = b"\x89PNG\r\n\x1a\n"
_GREY = 0  # PNG's colour type
_WHITE_IS_ZERO, _BLACK_IS_ZERO = 0, 1  # TIFF's photometric interpretations
_REMEDY = "save it in grey"
# TIFF's compressions with their largest ratio; for others it is not known.
_DENSEST = {1: 1, 5: 4096, 8: DEFLATE, 32946: DEFLATE, 32773: 64}


def read_png(path: Path) -> Iterator[Page]:
    """The picture, in grey of 1 to 16 bits; colours are accepted if all of them are greys."""
    image = package("PIL.Image", "reading PNG")
    with path.open("rb") as file:
        header = file.read(26)
    if len(header) < 26 or not header.startswith(_PNG):
        raise KoriskError("is not a PNG file; rename it, or remove it")
    columns, rows, depth, colour = struct.unpack(">IIBB", header[16:26])
    checks.refuse_large(rows, columns, 8)
    # Pillow refuses more than twice this number, with a message without a remedy.
    if rows * columns > 2 * (image.MAX_IMAGE_PIXELS or rows * columns):
        most, remedy = 2 * image.MAX_IMAGE_PIXELS, "cut it into smaller ones, or save it as .npy"
        limit = f"more than the {most:,} that a PNG may have here"
        raise KoriskError(f"has {rows:,} x {columns:,} pixels, {limit}; {remedy}")
    refuse_hollow((rows, columns), rows * columns * depth // 8, DEFLATE * path.stat().st_size)
    if depth == 16 and colour != _GREY:
        raise KoriskError(f"holds colours or transparency of 16 bits; {_REMEDY}")
    # Mapped: with an open file, Pillow would allocate any length that a chunk claims.
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        image.open(content, formats=("PNG",)) as picture,
    ):
        if picture.mode in ("1", "L", "I", "I;16", "I;16B"):
            values = np.asarray(picture)
        else:
            red, green, blue, opacity = np.moveaxis(np.asarray(picture.convert("RGBA")), -1, 0)
            if not (np.array_equal(red, green) and np.array_equal(red, blue)):
                raise KoriskError(f"holds colours; {_REMEDY}")
            if opacity.min() < 255:
                raise KoriskError(f"is transparent in places; {_REMEDY}, without an alpha channel")
            values = np.ascontiguousarray(red)
    # Pillow spreads 2 and 4 bits over 8.
    yield Page(values, full={1: 1.0, 16: 65535.0}.get(depth, 255.0))


def read_tiff(path: Path) -> Iterator[Page]:
    """The pages, in grey of any type; previews are left out."""
    tifffile = package("tifffile", "reading TIFF")
    with tifffile.TiffFile(path) as file:
        pages: list[Untyped] = []
        offsets: set[int] = set()
        for page in file.pages:  # linked by offsets, which may form a loop
            if page.offset in offsets:
                raise KoriskError("has pages that lead back to each other; save it again")
            offsets.add(page.offset)
            if not page.is_reduced:
                pages.append(page)
        series = file.series[0]
        if len(pages) == 1 and series.ndim == 3 and series.shape[0] > 1:
            # One header for a whole stack, as ImageJ writes.
            yield from _tiff_images(pages[0], series, int(series.shape[0]))
            return
        for page in pages:
            yield from _tiff_images(page, page, len(pages))


def _tiff_images(page: Untyped, data: Untyped, count: int) -> Iterator[Page]:
    """The images of `data`, a page or a series of pages, under the header of `page`."""
    if page.samplesperpixel != 1 or page.photometric not in (_WHITE_IS_ZERO, _BLACK_IS_ZERO):
        raise KoriskError(f"holds colours ({page.samplesperpixel} a pixel); {_REMEDY}")
    slices, rows, columns = checks.stack_of(tuple(data.shape), "a page")
    if page.dtype is None:
        raise KoriskError(f"holds numbers of {page.bitspersample} bits; save 8, 16 or 32")
    dtype = np.dtype(page.dtype)
    size = page.parent.filehandle.size
    claimed = slices * rows * columns * page.bitspersample // 8
    refuse_hollow(tuple(data.shape), claimed, _DENSEST.get(page.compression, math.inf) * size)
    checks.refuse_large(rows, columns, dtype.itemsize, at_once=slices)
    full = full_scale(dtype, "a page", bits=page.bitspersample if dtype.kind in "iu" else None)
    if max(page.databytecounts, default=0) > size:
        raise KoriskError("says that its pixels take more bytes than it has; is it whole?")
    try:
        values = np.asarray(data.asarray()).reshape(slices, rows, columns)
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
        name = getattr(page.compression, "name", page.compression)
        problem = f"is compressed as {name}, and no decoder for it is installed"
        raise KoriskError(f"{problem}; pip install imagecodecs, or save it uncompressed") from None
    if page.photometric == _WHITE_IS_ZERO:
        if full is None or dtype.kind not in "bu":
            raise KoriskError(f"has 0 as white, in {dtype}; save it with black as 0")
        values = (full - values).astype(np.uint16)
    for pixels in values:
        yield Page(pixels, count=count, full=full)
