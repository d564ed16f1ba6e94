"""DICOM files as images: Hounsfield units where the file has them, plain values elsewhere."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError, shown
from korisk.images.formats.page import (
    NotAnImageError,
    Page,
    package,
    positive,
    refuse_large,
    refuse_large_file,
)

AIR = -1000.0  # Hounsfield units
_GREYS = ("MONOCHROME1", "MONOCHROME2")
_MARK_AT, _MARK = 128, b"DICM"
_ABOUT = 2  # the group of what is said about the file itself


def is_dicom(path: Path) -> bool:
    """Whether the content is DICOM, whatever the name is."""
    try:
        with path.open("rb") as file:
            return file.read(_MARK_AT + 4)[_MARK_AT:] == _MARK
    except OSError:
        return False


def read_dicom(path: Path, member: str | None) -> Iterator[Page]:
    """The frames of one file."""
    if member is not None:
        raise KoriskError(f"has no members such as {member!r}; leave out ':{member}'")
    pydicom = package("pydicom", "reading DICOM")
    if not is_dicom(path):
        raise KoriskError("has no DICOM header; is it whole, and named rightly?")
    refuse_large_file(path)
    content = path.read_bytes()  # whole, so that no length in it can ask for more than there is
    _refuse_deflated(content)
    dataset = pydicom.dcmread(io.BytesIO(content))
    _refuse_what_is_no_slice(dataset)
    frames = _frame_count(dataset)
    rows, columns = int(dataset.Rows), int(dataset.Columns)
    refuse_large(rows, columns, 4, at_once=frames)
    stored = _decoded(dataset).reshape(frames, rows, columns)
    for number, values in enumerate(stored):
        yield _page(dataset, values, number, frames)


def _refuse_deflated(content: bytes) -> None:
    """Such a file is unpacked before its header is known, to whatever size."""
    from pydicom.filereader import read_dataset
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    with contextlib.suppress(AttributeError, NotImplementedError):  # it says nothing of it
        header = io.BytesIO(content)
        header.seek(_MARK_AT + len(_MARK))
        about = read_dataset(header, False, True, stop_when=lambda tag, *_: tag.group != _ABOUT)
        if about.TransferSyntaxUID == DeflatedExplicitVRLittleEndian:
            raise KoriskError(f"is deflated as a whole, header and all; {_RAW}")


def _refuse_what_is_no_slice(dataset: Any) -> None:
    modality = dataset.get("Modality") or "no modality"
    if "Rows" not in dataset or "Columns" not in dataset:
        raise NotAnImageError(f"is a DICOM file without an image ({modality})")
    if "LOCALIZER" in _texts(dataset.get("ImageType")):
        raise NotAnImageError("is a localizer, a view for planning and no slice")
    if not any(name in dataset for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise KoriskError("has a header and no pixels; is it whole?")
    if dataset.get("SamplesPerPixel", 1) != 1 or dataset.PhotometricInterpretation not in _GREYS:
        raise KoriskError(f"holds colours ({dataset.PhotometricInterpretation}); save it in grey")


def _decoded(dataset: Any) -> NDArray[Any]:
    syntax = dataset.file_meta.get("TransferSyntaxUID")
    if syntax is None:
        raise KoriskError("does not say its transfer syntax; save it again with a whole header")
    name = f"{syntax.name} ({syntax})"
    try:
        decoder = package("pydicom.pixels", "reading DICOM").get_decoder(syntax)
    except NotImplementedError:
        raise KoriskError(f"is compressed as {name}, which nothing here decodes; {_RAW}") from None
    if not decoder.is_available:
        raise KoriskError(
            f"is compressed as {name}, and no decoder for it is installed; {_INSTALL}, or {_RAW}"
        )
    try:
        return np.asarray(dataset.pixel_array)
    except RuntimeError:
        if not syntax.is_compressed:
            raise
        raise KoriskError(
            f"is compressed as {name}, and the decoders that are installed fail on it; {_INSTALL}, "
            f"or {_RAW}, if it is whole"
        ) from None


_INSTALL = "pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg"
_RAW = "decompress the files, e.g. with gdcmconv --raw"


def _frame_count(dataset: Any) -> int:
    given = dataset.get("NumberOfFrames") or 1
    try:
        count = int(given)
    except ValueError:
        count = 0
    if count < 1:
        raise KoriskError(f"NumberOfFrames must be a whole number >= 1, got {shown(given)}")
    return count


def _page(dataset: Any, stored: NDArray[Any], number: int, count: int) -> Page:
    spacing = positive(_of_frame(dataset, number, "PixelSpacing") or (), count=2)
    patient = str(dataset.get("PatientID") or "").strip() or None
    unit, note = _unit(dataset, number)
    slope, intercept = _rescaling(dataset, number, required=unit == "HU")
    full: float | None = None
    if (slope, intercept) == (1.0, 0.0):
        full = _largest(dataset, stored)
    values = stored.astype(np.float64)
    if unit is None and dataset.PhotometricInterpretation == "MONOCHROME1":
        values = _mirrored(dataset, values)
    values = values * slope + intercept
    values[_padding(dataset, stored)] = AIR if unit == "HU" else 0.0
    return Page(
        values,
        count=count,
        full=full,
        unit=unit,
        spacing=cast(tuple[float, float] | None, spacing),
        patient=patient,
        note=note,
    )


def _unit(dataset: Any, number: int) -> tuple[str | None, str | None]:
    """ "HU", or None with the reason why not.

    A CT image need not say RescaleType where its values are Hounsfield units (PS3.3, C.8.2.1).
    """
    modality = str(dataset.get("Modality") or "unknown")
    kind = str(_of_frame(dataset, number, "RescaleType") or "").strip().upper()
    if kind == "HU" or (modality == "CT" and not kind):
        return "HU", None
    stated = f", values in {kind}" if kind else ""
    return None, f"modality {modality}{stated}"


def _rescaling(dataset: Any, number: int, *, required: bool) -> tuple[float, float]:
    slope = _of_frame(dataset, number, "RescaleSlope")
    intercept = _of_frame(dataset, number, "RescaleIntercept")
    if slope is None or intercept is None:
        if required:
            raise KoriskError(
                "is a CT image without RescaleSlope and RescaleIntercept, so that its Hounsfield "
                "units are not known; complete the header, or give the values as .npy with unit="
            )
        return 1.0, 0.0
    try:
        numbers = float(slope), float(intercept)
    except (TypeError, ValueError):
        numbers = 0.0, 0.0
    if not np.isfinite(numbers).all() or numbers[0] == 0:
        raise KoriskError(
            f"RescaleSlope and RescaleIntercept must be numbers, the first not 0, got "
            f"{shown(slope)} and {shown(intercept)}; complete the header"
        )
    return numbers


def _of_frame(dataset: Any, number: int, name: str) -> Any:
    """A value as the frame has it, as all frames share it, or as the file has it."""
    places: list[Any] = []
    for groups, index in (("PerFrameFunctionalGroups", number), ("SharedFunctionalGroups", 0)):
        sequence: Any = dataset.get(f"{groups}Sequence") or ()
        if index < len(sequence):
            places += [sequence[index].get(f"{part}Sequence") or () for part in _PARTS]
    for inner in places:
        if len(inner) and inner[0].get(name) is not None:
            return inner[0].get(name)
    return dataset.get(name)


_PARTS = ("PixelMeasures", "PixelValueTransformation")


def _largest(dataset: Any, stored: NDArray[Any]) -> float | None:
    """The largest value that its bits can hold."""
    if stored.dtype.kind == "f":
        return 1.0
    bits = int(dataset.get("BitsStored") or 8 * stored.dtype.itemsize)
    return float(2 ** (bits - (stored.dtype.kind == "i")) - 1) if bits <= 16 else None


def _mirrored(dataset: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stored values whose smallest is white, turned round within their bits."""
    bits = int(dataset.get("BitsStored") or 16)
    return (-1.0 if dataset.get("PixelRepresentation") else 2.0**bits - 1) - values


def _padding(dataset: Any, stored: NDArray[Any]) -> NDArray[np.bool_]:
    """Pixels outside of what was scanned: one stored value, or all up to a limit."""
    first = _stored_value(dataset, stored, "PixelPaddingValue")
    if first is None:
        return np.zeros(stored.shape, dtype=bool)
    last = _stored_value(dataset, stored, "PixelPaddingRangeLimit")
    low, high = sorted((first, first if last is None else last))
    return (stored >= low) & (stored <= high)


def _stored_value(dataset: Any, stored: NDArray[Any], name: str) -> int | None:
    value = dataset.get(name)
    if not isinstance(value, int):
        return None
    if stored.dtype.kind == "i" and value >= 2**15:  # written as unsigned by mistake
        return int(value) - 2**16
    return int(value)


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(str(each) for each in value or ())
