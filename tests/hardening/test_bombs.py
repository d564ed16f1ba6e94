"""Small files that claim to be large, or that lead elsewhere: refused before they can do harm."""

import json
import os
import sqlite3
import struct
import threading
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korisk import files
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.files import read_text
from korisk.images import read_images
from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import Usage
from korisk.theory import Network

MEMORY = 2**26


@pytest.fixture
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def refused(path: Path, **settings: Any) -> str:
    with pytest.raises(KoriskError) as caught:
        read_images(path, **settings)
    said = str(caught.value)
    assert path.name in said
    assert "\n" not in said
    return said


def npy_header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


# --- Images that are larger than they look -------------------------------------------------------


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("start", "size", "says"),
    [
        (npy_header((10**6, 10**6)), 128 + 8 * 10**12, "needs about"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**30), 2**30 + 12, "save it again with numpy"),
    ],
)
def test_npy_of_more_pixels_or_a_longer_header_than_memory(
    tmp_path: Path, start: bytes, size: int, says: str
) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)
    assert says in refused(path)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy_header((10**6, 10**6)) + b"x" * 100, "save it again with numpy.save"),
        *((junk, "") for junk in (b"\x80\x04cos\nsystem\n", b"junk" * 100, b"\x93NUMPY\x09\x00")),
    ],
)
def test_npy_of_less_than_it_claims_or_anything_else(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    assert says in refused(path)
    assert "pickle" not in refused(path)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_arrays_of_objects_are_not_unpickled(tmp_path: Path, name: str) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    array = np.full((4, 4), Trap(), dtype=object)
    (np.save if name == "a.npy" else np.savez)(tmp_path / name, array, allow_pickle=True)
    refused(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.usefixtures("little_memory")
def test_npz_whose_header_unpacks_to_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    start = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", start + b" " * 2**27)
    tracemalloc.reset_peak()
    refused(path)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz_of_less_than_it_claims(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", npy_header((8192, 8192)) + bytes(100))
    refused_as_cut(path)
    content, size = path.read_bytes(), archive.getinfo("x.npy").file_size
    lie = content.replace(struct.pack("<I", size), struct.pack("<I", 8 * 8192**2 + 128))
    path.write_bytes(lie)  # of its unpacked length, in both places where an archive states it
    assert lie != content
    refused(path)


def test_npz_with_an_array_twice(tmp_path: Path) -> None:
    first, second = (npy_header((2, 2)) + bytes(31) + bytes([mark]) for mark in (1, 2))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", first)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x.npy", second)
    with pytest.raises(KoriskError, match=r"a\.npz: has the array 'x' twice"):
        read_images(f"{tmp_path}/a.npz:x")


@pytest.mark.usefixtures("little_memory")
def test_png_of_more_pixels_than_pillow_takes(tmp_path: Path, monkeypatch: Any) -> None:
    from PIL import Image

    path = tmp_path / "a.png"
    Image.fromarray(np.arange(400, dtype=np.uint8).reshape(20, 20)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert "cut it into smaller ones, or save it as .npy" in refused(path)


@pytest.mark.usefixtures("little_memory")
def test_png_that_claims_to_be_vast(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 10**6, 10**6, 8, 0, 0, 0, 0)
    chunk = (
        struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    )
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    assert "1,000,000 x 1,000,000 pixels needs about" in refused(path)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("side", "compression", "says"),
    [
        *((16_384, packed, "more than its bytes can hold; is it whole?") for packed in (1, 5, 8)),
        (10**6, 50_000, "needs about"),  # Zstandard makes any number of bytes of one
    ],
)
def test_tiff_that_claims_to_be_vast(
    tmp_path: Path, side: int, compression: int, says: str
) -> None:
    tags = [(256, 4, side), (257, 4, side), (258, 3, 8), (259, 3, compression), (262, 3, 1)]
    tags += [(273, 4, 200), (277, 3, 1), (278, 4, side), (279, 4, 100)]
    body = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\0" + struct.pack("<IH", 8, len(tags)) + body + bytes(200))
    assert says in refused(path)


def test_tiff_whose_pages_go_round_in_a_circle(tmp_path: Path) -> None:
    import tifffile

    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.arange(200, dtype=np.uint8).reshape(2, 10, 10), metadata=None)
    content = bytearray(path.read_bytes())
    (first,) = struct.unpack_from("<I", content, 4)
    (count,) = struct.unpack_from("<H", content, first)
    (second,) = struct.unpack_from("<I", content, first + 2 + 12 * count)
    (count,) = struct.unpack_from("<H", content, second)
    struct.pack_into("<I", content, second + 2 + 12 * count, first)
    path.write_bytes(content)
    assert "lead back to each other" in refused(path)


LARGE_CHUNKS = {"maxshape": (None, 8, 8), "chunks": (2**19, 8, 8), "compression": "gzip"}


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("shape", "about", "on_error", "says"),
    [
        ((10**6, 10**6), {"chunks": (100, 100)}, "stop", "more than its bytes can"),
        ((2, 8, 8), LARGE_CHUNKS, "stop", "a chunk of /x needs about"),
        ((10**9, 8, 8), {"chunks": (100, 8, 8)}, "skip", "more than its bytes can"),
        (
            (1100, 8, 8),
            {"data": np.full((1100, 8, 8), np.nan)},
            "skip",
            "holds more than 1,000 images that cannot",
        ),
    ],
)
def test_hdf5_of_vast_images_vast_chunks_or_countless_empty_images(
    tmp_path: Path, monkeypatch: Any, shape: Any, about: Any, on_error: str, says: str
) -> None:
    h5py: Any = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", shape=shape, dtype="f4", **about)
    if about is LARGE_CHUNKS:
        monkeypatch.setattr("korisk._memory.free_memory", lambda device: 2**27)
    assert says in refused(path, on_error=on_error)


@pytest.mark.usefixtures("little_memory")
def test_deflated_dicom_is_not_unpacked(tmp_path: Path) -> None:
    pydicom: Any = pytest.importorskip("pydicom")
    meta = pydicom.dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID = pydicom.uid.CTImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    scan = pydicom.Dataset()
    scan.file_meta = meta
    scan.Rows = scan.Columns = 4096
    scan.BitsAllocated, scan.PixelRepresentation = 16, 0
    scan.PixelData = bytes(2**27)
    path = tmp_path / "a.dcm"
    pydicom.dcmwrite(path, scan, enforce_file_format=True)
    del scan
    tracemalloc.reset_peak()
    assert path.stat().st_size < 10**6
    assert "decompress the files" in refused(path)
    plain, length = path.read_bytes(), struct.pack("<I", 22)
    tag = plain.index(b"\x02\x00\x10\x00UI")
    disguised = plain[:tag] + b"\x02\x00\x10\x00UN\x00\x00" + length + plain[tag + 8 :]
    path.write_bytes(disguised)  # a value of unknown kind is taken for what its tag says
    assert "decompress the files" in refused(path)


# --- Images that lie elsewhere -------------------------------------------------------------------


@pytest.mark.usefixtures("little_memory")
def test_hdf5_leads_to_no_other_file(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    secret = np.random.default_rng(0).random((8, 8))
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = secret
    (tmp_path / "raw").write_bytes(secret.tobytes())
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["linked"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/x")
        place = [(str(tmp_path / "raw"), 0, secret.nbytes)]
        file.create_dataset("outside", shape=(8, 8), dtype="f8", external=place)
        layout = h5py.VirtualLayout(shape=(8, 8), dtype="f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", shape=(8, 8))
        file.create_virtual_dataset("virtual", layout)
    for member in ("linked", "outside", "virtual"):
        with pytest.raises(KoriskError, match="in other files; copy them into one"):
            read_images(f"{path}:{member}")


# --- Texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nlayers: [*b, *b]\n",
        "layers: &a [*a]\n",
        "layers: " + "1:" * 90_000 + "1\n",
        "layers: 0x" + "f" * 150_000 + "\n",
        "[" * 190_000,
        "- " * 90_000,
        "{a: " * 40_000,
    ],
)
def test_yaml_that_grows_without_limit(tmp_path: Path, text: str) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(text)
    with pytest.raises(KoriskError, match=r"net\.yaml"):
        Network.read(path)


def test_a_pipe_is_read_but_not_waited_for_without_a_writer(
    tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    for read in (Network.read, Curve.read_all):
        with pytest.raises(KoriskError, match="it is a pipe, and nothing came"):
            read(path)
    monkeypatch.undo()
    text = "layers:\n- {known: K, lipschitz: 2}\n"
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    assert Network.read(path).names == ("K",)
    writer.join()


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full"])
def test_devices_without_end_are_left(name: str) -> None:
    with pytest.raises(KoriskError, match="is larger than"):
        Network.read(name)


# --- Stores --------------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.db"
    task = Task(point="p", seed=1, spec={"metric": "mse"})
    with Store.create_or_open(path, {"name": "s"}) as store:
        rows = (Row(model="KO", n=4, metrics={"mse": 0.1}),)
        result = Result(rows=rows, arrays={"x": np.zeros(10)})
        store.record(task, result, Usage(started="2026-01-01T00:00:00+00:00", seconds=1.0))
    return path


def read_all(path: Path) -> None:
    with Store.read(path) as store:
        for cell in store.results():
            store.arrays(cell.task.key)
        store.failures()
        assert store.study


ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t) SELECT x FROM t"


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("script", "value"),
    [
        (f"CREATE VIEW v AS {ENDLESS}", None),
        ("CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM cells; END", None),
        ("UPDATE arrays SET shape = ?", json.dumps([10**12])),
        ("UPDATE arrays SET dtype = ?", "|O"),
        ("UPDATE arrays SET dtype = ?", "f8,(2,)i4"),
        ("UPDATE arrays SET content = ?", zlib.compress(bytes(2**20))),
        ("UPDATE cells SET spec = ?", "[" * 100_000),
        ("UPDATE cells SET detail = ?", '{"a": ' * 50_000),
        ("UPDATE cells SET seed = ?", b"\0"),
        ("UPDATE cells SET point = ?", b"\0"),
        ("UPDATE rows SET metrics = ?", '{"mse": "x"}'),
        ("UPDATE rows SET model = ?", "x" * 1000),
        ("UPDATE rows SET model = ?", "\x1b[31m"),
        ("UPDATE rows SET n = ?", "many"),
        ("UPDATE meta SET value = ? WHERE name = 'study'", "[]"),
    ],
)
def test_hostile_stores_are_refused(study: Path, script: str, value: object) -> None:
    read_all(study)
    connection = sqlite3.connect(study)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(script, () if value is None else (value,))
    connection.commit()
    connection.close()
    with pytest.raises(KoriskError, match=r"damaged|is not a store") as caught:
        read_all(study)
    assert str(caught.value).startswith(str(study))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


# --- Lengths that a file claims -------------------------------------------------------------------


def peak_of(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_texts_are_read_up_to_the_limit_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("small")
    assert peak_of(lambda: read_text(path, max_bytes=10**9)) < 2**24
    path.write_text("x" * 3_000_000)
    assert read_text(path, max_bytes=3_000_000) == "x" * 3_000_000
    with pytest.raises(KoriskError, match=r"a\.txt: is larger than"):
        read_text(path, max_bytes=2_999_999)


def refused_as_cut(path: Path) -> None:
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
    assert peak_of(lambda: refused_as_cut(path)) < 2**24


def test_a_picture_of_one_colour_is_read_however_well_it_packs(tmp_path: Path) -> None:
    image, tifffile = pytest.importorskip("PIL.Image"), pytest.importorskip("tifffile")
    values = np.zeros((4096, 4096), np.uint8)
    values[0, 0] = 255
    image.fromarray(values).save(tmp_path / "a.png", compress_level=9)
    for name, packed in (("b.tif", None), ("c.tif", "zlib")):
        tifffile.imwrite(tmp_path / name, values, compression=packed, rowsperstrip=4096)
    for name in ("a.png", "b.tif", "c.tif"):
        assert len(read_images(tmp_path / name, side=8)) == 1


def test_a_length_in_a_tiff_asks_for_nothing(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.arange(1024, dtype="uint8").reshape(32, 32), compression="zlib")
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages[0].tags["StripByteCounts"].overwrite(2**31 - 1, dtype="I")
    refused_as_cut(path)  # imports
    assert peak_of(lambda: refused_as_cut(path)) < 2**24


def test_a_length_in_a_dicom_header_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.dcm"
    length = b"\x02\x00\x01\x00OB\x00\x00\xff\xff\xff\x7f"  # two bytes that claim to be 2 GiB
    path.write_bytes(bytes(128) + b"DICM" + length + b"\x00\x01")

    def read() -> None:
        with pytest.raises(KoriskError, match=r"a\.dcm"):
            read_images(path, side=8)

    read()  # imports
    assert peak_of(read) < 2**26
