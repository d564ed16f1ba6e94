"""NumPy's own files as images: .npy, read as far as it is needed, and .npz."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError

import numpy as np

from korisk.errors import KoriskError, did_you_mean
from korisk.images.formats.page import Page, pages_of, refuse_large, stack_of

# NumPy's own messages speak of its arguments.
_BROKEN = (ValueError, EOFError, SyntaxError, OverflowError, TokenError)
_LONGEST_HEADER = 2**16  # bytes; a longer one could be gigabytes of blanks


def read_npy(path: Path) -> Iterator[Page]:
    """The slices of one array, which is mapped and not loaded."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _BROKEN:
        raise KoriskError(
            "is not a complete .npy file of numbers: its header is damaged, it ends too soon, or "
            "it holds objects; save it again with numpy.save"
        ) from None
    yield from pages_of(array, "the array")


def read_npz(path: Path, member: str | None = None) -> Iterator[Page]:
    """The slices of the archive's only array, or of the named one."""
    with zipfile.ZipFile(path) as archive:
        inside = [name.removesuffix(".npy") for name in archive.namelist()]
        if member is None and len(inside) != 1:
            names = ", ".join(inside[:5]) or "none"
            raise KoriskError(
                f"must hold one array, got {len(inside)} ({names}); name one, as in FILE.npz:NAME"
            )
        chosen = inside[0] if member is None else member.strip("/")
        if chosen not in inside:
            raise KoriskError(f"has no array {member!r}{did_you_mean(chosen, inside)}")
        with archive.open(f"{chosen}.npy") as member_file:
            file = io.BytesIO(member_file.read(_LONGEST_HEADER))
        if np.lib.format.read_magic(file) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    # The header decides before anything is unpacked: a few bytes can hold gigabytes of zeros.
    count, rows, columns = stack_of(shape, f"the array {chosen!r}")
    refuse_large(rows, columns, dtype.itemsize, at_once=count)
    with np.load(path, allow_pickle=False) as arrays:
        yield from pages_of(arrays[chosen], "the array")
