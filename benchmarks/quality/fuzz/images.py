"""Sound images of every kind that is read, small ones, and lists of their patients, as bytes."""

import io
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np


def _picture(kind: str = "uint8", *shape: int) -> Any:
    values = np.random.default_rng(1).random(shape or (12, 10)) * (255 if kind != "float32" else 1)
    return values.astype(kind)


def _written(save: Callable[[Path], object], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        save(path)
        return path.read_bytes()


@cache
def npy() -> list[bytes]:
    """Arrays of several types, in both orders of bytes and of axes."""
    arrays = [_picture(), _picture("float32", 3, 9, 9), _picture(">i2", 2, 8, 8)]
    arrays.append(np.asfortranarray(_picture("float64", 7, 9)))
    return [_written(partial(np.save, arr=array), "a.npy") for array in arrays]


@cache
def npz() -> list[bytes]:
    """Archives of one array, packed and not."""
    return [
        _written(lambda path: np.savez(path, _picture()), "a.npz"),
        _written(lambda path: np.savez_compressed(path, x=_picture("float32", 3, 8, 8)), "a.npz"),
    ]


@cache
def png() -> list[bytes]:
    """Pictures in grey, in colours that are greys, and with a palette."""
    from PIL import Image

    pictures = [Image.fromarray(_picture()), Image.fromarray(_picture("uint16"))]
    pictures += [pictures[0].convert("RGB"), pictures[0].convert("1"), pictures[0].convert("P")]
    return [_written(picture.save, "a.png") for picture in pictures]


_TIFF_SETTINGS: list[dict[str, Any]] = [
    {},
    {"compression": "zlib"},
    {"bigtiff": True},
    {"tile": (16, 16)},
    {"imagej": True},
    {"byteorder": ">"},
]


@cache
def tiff() -> list[bytes]:
    """Stacks in strips and in tiles, packed and not, of both orders of bytes."""
    import tifffile

    settings: list[dict[str, Any]] = [
        {"photometric": "miniswhite"},
        *({"photometric": "minisblack", **each} for each in _TIFF_SETTINGS),
    ]
    stack = _picture("uint8", 3, 32, 32)
    return [_written(partial(tifffile.imwrite, data=stack, **each), "a.tif") for each in settings]


@cache
def dicom() -> list[bytes]:
    """Scans of one frame and of several."""
    import pydicom
    from pydicom.dataset import Dataset, FileMetaDataset

    made = []
    for frames, syntax in (
        (1, pydicom.uid.ExplicitVRLittleEndian),
        (3, pydicom.uid.ImplicitVRLittleEndian),
    ):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = pydicom.uid.CTImageStorage
        meta.MediaStorageSOPInstanceUID = pydicom.uid.UID("1.2.3")
        meta.TransferSyntaxUID = syntax
        scan = Dataset()
        scan.file_meta = meta
        scan.Modality, scan.PatientID, scan.ImageType = "CT", "p1", ["ORIGINAL", "PRIMARY", "AXIAL"]
        scan.Rows, scan.Columns, scan.NumberOfFrames = 12, 10, frames
        scan.BitsAllocated, scan.BitsStored, scan.HighBit = 16, 12, 11
        scan.SamplesPerPixel, scan.PixelRepresentation = 1, 0
        scan.PhotometricInterpretation = "MONOCHROME2"
        scan.RescaleSlope, scan.RescaleIntercept, scan.PixelSpacing = "1", "-1024", [0.5, 0.5]
        scan.PixelPaddingValue = 0
        scan.PixelData = _picture("uint16", frames, 12, 10).tobytes()
        content = io.BytesIO()
        pydicom.dcmwrite(content, scan, enforce_file_format=True)
        made.append(content.getvalue())
    return made


@cache
def hdf5() -> list[bytes]:
    """One dataset, whole and in packed blocks, with links beside it."""
    import h5py  # type: ignore[import-untyped]

    def save(path: Path, **settings: Any) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("images", data=_picture("float32", 3, 12, 12), **settings)
            file["link"] = h5py.SoftLink("/images")
            file["else"] = h5py.ExternalLink("other.h5", "/images")
            file.attrs["about"] = "x" * 50

    packed: dict[str, Any] = {"chunks": (1, 6, 6), "compression": "gzip"}
    return [_written(save, "a.h5"), _written(partial(save, **packed), "a.h5")]


@cache
def lodopab() -> bytes:
    """Three slices as LoDoPaB-CT has them."""
    import h5py

    def save(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["data"] = _picture("float32", 3, 12, 12)

    return _written(save, "a.hdf5")


def listed() -> list[bytes]:
    """Patients as LoDoPaB-CT lists them, one a slice."""
    return [b"17\n17\n23\n", b"1\n2\n3\n4\n5\n"]


def patients() -> list[bytes]:
    """Tables of files and patients."""
    return [b"file,patient\na.npy,p1\nb.npy,p2\n", b'patient,file,age\n"p 1","a.npy",\n']
