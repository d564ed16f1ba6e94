"""Room is made for what a file holds, not for what it says or for what it might hold."""

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from korisk.errors import KoriskError
from korisk.files import read_text
from korisk.images.api import read_images


def peak_of(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_text_takes_little_room_whatever_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("small")
    assert peak_of(lambda: read_text(path, max_bytes=10**9)) < 2**24


def test_texts_are_read_up_to_the_limit_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" * 3_000_000)
    assert read_text(path, max_bytes=3_000_000) == "x" * 3_000_000
    with pytest.raises(KoriskError, match=r"a\.txt: is larger than"):
        read_text(path, max_bytes=2_999_999)


def refused(path: Path) -> None:
    with pytest.raises(KoriskError, match=rf"{path.name}: says that .*; is it whole\?"):
        read_images(path, side=8)


def test_a_small_picture_is_not_large(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "a.png"
    image.new("1", (10, 10)).save(path)
    content = path.read_bytes()
    header = b"IHDR" + struct.pack(">II", 10, 800_000) + content[24:29]
    total = struct.pack(">I", zlib.crc32(header))
    path.write_bytes(content[:12] + header + total + content[33:])
    assert peak_of(lambda: refused(path)) < 2**24


def test_a_picture_of_one_colour_is_read_however_well_it_packs(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = image.new("L", (4096, 4096))
    picture.putpixel((0, 0), 255)
    picture.save(tmp_path / "a.png", compress_level=9)
    assert len(read_images(tmp_path / "a.png", side=8)) == 1


def test_a_length_in_a_tiff_asks_for_nothing(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.arange(1024, dtype="uint8").reshape(32, 32), compression="zlib")
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages[0].tags["StripByteCounts"].overwrite(2**31 - 1, dtype="I")
    refused(path)  # imports
    assert peak_of(lambda: refused(path)) < 2**24


def test_a_length_in_a_dicom_header_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.dcm"
    length = b"\x02\x00\x01\x00OB\x00\x00\xff\xff\xff\x7f"  # two bytes that claim to be 2 GiB
    path.write_bytes(bytes(128) + b"DICM" + length + b"\x00\x01")

    def read() -> None:
        with pytest.raises(KoriskError, match=r"a\.dcm"):
            read_images(path, side=8)

    read()  # imports
    assert peak_of(read) < 2**26
