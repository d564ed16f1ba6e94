"""Reader of DICOM files: Hounsfield units if the file has them, plain values otherwise."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from korisk.errors import Argument, KoriskError, invalid
from korisk.images.formats import page
from korisk.images.formats.page import NotAnImageError, Page, check_fits, full_scale, package

if TYPE_CHECKING:
    from pydicom import Dataset

AIR = -1000.0  # Hounsfield units
_MARK_AT, _MARK = 128, b"DICM"
_DEFLATED = "1.2.840.10008.1.2.1.99"  # transfer syntax
_META = 2  # the group of file meta information
_PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
_INSTALL = "pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg"
_RAW = "decompress the files, e.g. with gdcmconv --raw"


def is_dicom(path: Path) -> bool:
    """Whether the content is DICOM, whatever the name is."""
    try:
        with path.open("rb") as file:
            return file.read(_MARK_AT + 4)[_MARK_AT:] == _MARK
    except OSError:
        return False


def read_dicom(path: Path) -> Iterator[Page]:
    """The frames of one file."""
    pydicom = package("pydicom", "reading DICOM")
    if not is_dicom(path):
        raise KoriskError("has no DICOM header; rename it, or replace it with a complete copy")
    check_fits(path.stat().st_size, "reading the whole file", "split it")
    # Read into memory first, so that no length in it can exceed the file.
    content = path.read_bytes()
    with contextlib.suppress(AttributeError, NotImplementedError):  # no transfer syntax
        header = io.BytesIO(content)
        header.seek(_MARK_AT + len(_MARK))
        meta = package("pydicom.filereader", "reading DICOM").read_dataset(
            header, False, True, stop_when=lambda tag, *_: tag.group != _META
        )
        # pydicom would unpack it, to any size, before its header can be checked.
        if meta.TransferSyntaxUID == _DEFLATED:
            raise KoriskError(f"is deflated as a whole, header and all; {_RAW}")
    dataset = pydicom.dcmread(io.BytesIO(content))
    modality = str(dataset.get("Modality") or "unknown")
    if "Rows" not in dataset or "Columns" not in dataset:
        raise NotAnImageError(f"is a DICOM file without an image (modality {modality})")
    if "LOCALIZER" in str(dataset.get("ImageType") or ""):
        raise NotAnImageError("is a localizer, a view for planning and not a slice")
    if not any(name in dataset for name in _PIXELS):
        raise KoriskError("has a header and no pixels; replace it with a complete copy")
    colours = dataset.PhotometricInterpretation
    if dataset.get("SamplesPerPixel", 1) != 1 or colours not in ("MONOCHROME1", "MONOCHROME2"):
        raise KoriskError(f"holds colours ({colours}); save it in grey")
    names = "NumberOfFrames", "Rows", "Columns"
    frames, rows, columns = (int(dataset.get(name) or 1) for name in names)
    page.refuse_large(rows, columns, 4, at_once=frames)
    syntax, decoded = dataset.file_meta.TransferSyntaxUID, None
    try:
        if package("pydicom.pixels", "reading DICOM").get_decoder(syntax).is_available:
            decoded = np.asarray(dataset.pixel_array).reshape(frames, rows, columns)
    except (NotImplementedError, RuntimeError):
        if not syntax.is_compressed:
            raise
    if decoded is None:
        why = f"is compressed as {syntax.name} ({syntax}), which no installed decoder reads"
        raise KoriskError(f"{why}; if it is not damaged, {_INSTALL}, or {_RAW}")
    for number, stored in enumerate(decoded):
        # In Hounsfield units, or in plain values with a note on the reason.
        kind = str(_of_frame(dataset, number, "RescaleType") or "").strip().upper()
        # A CT image need not state RescaleType where its values are HU (PS3.3, C.8.2.1).
        hounsfield = kind == "HU" or (modality == "CT" and not kind)
        tags = ("RescaleSlope", "RescaleIntercept")
        rescaling = [_of_frame(dataset, number, name) for name in tags]
        if None in rescaling and hounsfield:
            why = "is a CT image without RescaleSlope and RescaleIntercept, so that its Hounsfield "
            remedy = "units are not known; complete the header, or save the values as .npy and use "
            raise KoriskError(why, remedy, Argument("unit", ...))
        slope, intercept = (1.0, 0.0) if None in rescaling else map(float, rescaling)
        if not np.isfinite([slope, intercept]).all() or slope == 0:
            rule, got = "be finite, and the first not 0", f"{slope:g} and {intercept:g}"
            raise invalid(" and ".join(tags), rule, rescaling, "complete the header", got=got)
        bits = int(dataset.get("BitsStored") or 0)
        plain = (slope, intercept) == (1.0, 0.0)  # rescaled values have no known full scale
        full = full_scale(stored.dtype, "the file", bits=bits or None) if plain else None
        values = stored.astype(np.float64)
        if not hounsfield and dataset.PhotometricInterpretation == "MONOCHROME1":
            # The smallest stored value is white: invert within the stored bits.
            white = -1.0 if dataset.get("PixelRepresentation") else 2.0 ** (bits or 16) - 1
            values = white - values
        values = values * slope + intercept
        # Pixels outside the scan have a padding value, or one of a range of values.
        signed = stored.dtype.kind == "i"
        first = _stored_value(dataset, signed, "PixelPaddingValue")
        if first is not None:
            last = _stored_value(dataset, signed, "PixelPaddingRangeLimit")
            low, high = sorted((first, first if last is None else last))
            values[(stored >= low) & (stored <= high)] = AIR if hounsfield else 0.0
        try:
            down, across = map(float, _of_frame(dataset, number, "PixelSpacing") or ())
            spacing = (down, across) if 0 < down < math.inf and 0 < across < math.inf else None
        except (TypeError, ValueError):  # a header may hold anything
            spacing = None
        note = f"modality {modality}, values in {kind}" if kind else f"modality {modality}"
        yield Page(
            values,
            count=frames,
            full=full,
            unit="HU" if hounsfield else None,
            spacing=spacing,
            patient=str(dataset.get("PatientID") or "").strip() or None,
            note=None if hounsfield else note,
        )


def _of_frame(dataset: Dataset, number: int, name: str) -> Any:
    """A value of the frame, else of all frames, else of the file."""
    for groups, index in (("PerFrameFunctionalGroups", number), ("SharedFunctionalGroups", 0)):
        sequence = dataset.get(f"{groups}Sequence") or []
        if index < len(sequence):
            for group in ("PixelMeasures", "PixelValueTransformation"):
                inner = sequence[index].get(f"{group}Sequence") or []
                if len(inner) and inner[0].get(name) is not None:
                    return inner[0].get(name)
    return dataset.get(name)


def _stored_value(dataset: Dataset, signed: bool, name: str) -> int | None:
    value = dataset.get(name)
    if not isinstance(value, int):
        return None
    # Some files have a signed value that was written as unsigned by mistake.
    return value - 2**16 if signed and value >= 2**15 else value
