"""Room is made for what a file holds, not for what it says or for what it might hold."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from korisk.errors import KoriskError
from korisk.files import read_text
from korisk.problems.images import read_images


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


def test_a_length_in_a_dicom_header_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.dcm"
    length = b"\x02\x00\x01\x00OB\x00\x00\xff\xff\xff\x7f"  # two bytes that claim to be 2 GiB
    path.write_bytes(bytes(128) + b"DICM" + length + b"\x00\x01")

    def read() -> None:
        with pytest.raises(KoriskError, match=r"a\.dcm"):
            read_images(path, side=8)

    read()  # imports
    assert peak_of(read) < 2**26
