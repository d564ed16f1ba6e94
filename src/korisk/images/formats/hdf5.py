"""HDF5 files as images: one dataset, or the ground truth of LoDoPaB-CT with its patients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from korisk.errors import KoriskError, did_you_mean
from korisk.files import read_text
from korisk.images.formats.page import (
    NotAnImageError,
    Page,
    blocks,
    full_scale,
    package,
    refuse_large,
    stack_of,
)

LODOPAB_MU_MAX = 81.35858  # 1/m: what its images are divided by
LODOPAB_WIDTH = 260.0  # mm along an edge
_LODOPAB = re.compile(r"(ground_truth|observation)_(train|validation|test)_(\d{3,})\.hdf5")
_LODOPAB_SLICES = 128  # of a file
_LARGEST_LIST = 10_000_000  # bytes
_WHOLE = re.compile(r"[0-9]{1,18}")  # a patient of its list


def read_hdf5(path: Path, member: str | None) -> Iterator[Page]:
    """The slices of the file's only dataset of images, or of the one that is named."""
    h5py = package("h5py", "reading HDF5")
    lodopab = _LODOPAB.fullmatch(path.name)
    if lodopab and lodopab[1] == "observation":
        raise NotAnImageError("holds sinograms of LoDoPaB-CT, not images")
    with h5py.File(path, "r") as file:
        dataset = _named(h5py, file, member) if member is not None else _only(h5py, file)
        _refuse_other_files(dataset, file)
        if lodopab and dataset.name == "/data":
            yield from _lodopab_slices(h5py, path, lodopab, dataset)
        else:
            yield from _slices(dataset, full_scale(dataset.dtype, dataset.name))


def _refuse_other_files(dataset: Any, file: Any) -> None:
    """What lies in other files is not read: a stranger's file could name any of this machine."""
    if dataset.file.filename != file.filename or dataset.external or dataset.is_virtual:
        raise KoriskError(
            f"has the values of {dataset.name} in other files; copy them into one, e.g. with "
            "h5repack"
        )


def _slices(dataset: Any, full: float | None) -> Iterator[Page]:
    count, rows, columns = stack_of(dataset.shape, dataset.name)
    refuse_large(rows, columns, dataset.dtype.itemsize)
    if dataset.ndim == 2:
        yield Page(np.asarray(dataset[()]), full=full)
        return
    for block in blocks(count, rows, columns):
        for values in np.asarray(dataset[block]):
            yield Page(values, count=count, full=full)


def _named(h5py: Any, file: Any, member: str) -> Any:
    found = file.get(member)
    if not isinstance(found, h5py.Dataset):
        known = list(_datasets(h5py, file))
        raise KoriskError(f"has no dataset {member!r}{did_you_mean(member, known)}")
    return found


def _only(h5py: Any, file: Any) -> Any:
    found = {
        name: each
        for name, each in _datasets(h5py, file).items()
        if each.ndim in (2, 3) and each.dtype.kind in "biuf" and min(each.shape[-2:]) > 1
    }
    if len(found) != 1:
        names = ", ".join(list(found)[:5]) or "none"
        raise KoriskError(
            f"must hold one dataset of images (2 or 3 axes), got {len(found)} ({names}); name one, "
            f"as in FILE:{next(iter(found), '/images')}"
        )
    return next(iter(found.values()))


def _datasets(h5py: Any, file: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[f"/{name}"] = item

    file.visititems(visit)
    return found


class _Place(NamedTuple):
    """Where a file of LoDoPaB-CT stands in its part."""

    part: str
    number: int


def _lodopab_slices(h5py: Any, path: Path, name: re.Match[str], dataset: Any) -> Iterator[Page]:
    place = _Place(name[2], int(name[3]))
    width = LODOPAB_WIDTH / dataset.shape[-1]
    patients = _lodopab_patients(h5py, path, place, dataset.shape[0])
    count = dataset.shape[0] if patients is None else len(patients)
    for number, page in enumerate(_slices(dataset, 1.0)):
        if number == count:  # what fills up the last file belongs to nobody
            return
        yield Page(
            page.values.astype(np.float64) * (LODOPAB_MU_MAX / 1000),
            count=count,
            unit="1/mm",
            spacing=(width, width),
            patient=None if patients is None else patients[number],
        )


def _lodopab_patients(h5py: Any, path: Path, place: _Place, slices: int) -> list[str] | None:
    """Of each slice: the list of a part counts on from file to file."""
    listed = f"patient_ids_rand_{place.part}.csv"
    found = [
        each / listed for each in (path.parent, path.parent.parent) if (each / listed).exists()
    ]
    if not found:
        return None
    lines = read_text(found[0], max_bytes=_LARGEST_LIST).split()
    first = place.number * _slices_a_file(h5py, path, place)
    patients = lines[first : first + slices]
    if not patients or not all(_WHOLE.fullmatch(each) for each in patients):
        raise KoriskError(
            f"{listed} must have one whole number a slice, from line {first + 1} on for this file, "
            f"got {len(lines)} lines; take the list that belongs to the data"
        )
    return [str(int(each)) for each in patients]


def _slices_a_file(h5py: Any, path: Path, place: _Place) -> int:
    """As many as the first file has; the last may have fewer."""
    digits = "0".zfill(len(path.stem.rsplit("_", 1)[1]))
    first = path.with_name(f"ground_truth_{place.part}_{digits}.hdf5")
    if not first.exists():
        return _LODOPAB_SLICES
    with h5py.File(first, "r") as file:
        return int(file["data"].shape[0])
