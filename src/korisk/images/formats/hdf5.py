"""Reader of HDF5 files: one dataset, or the ground truth of LoDoPaB-CT with its patients."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from korisk.errors import KoriskError, did_you_mean, invalid
from korisk.files import read_text
from korisk.images.formats import page as checks
from korisk.images.formats.page import NotAnImageError, Page, Untyped, package, pages_of

LODOPAB_MU_MAX = 81.35858  # 1/m: attenuation that its images have as 1
LODOPAB_WIDTH = 260.0  # mm along an edge
_LODOPAB = re.compile(r"(ground_truth|observation)_(train|validation|test)_(\d{3,})\.hdf5")
_LODOPAB_SLICES = 128  # of a file
_LARGEST_LIST = 10_000_000  # bytes
_WHOLE = re.compile(r"[0-9]{1,18}")  # a patient in its list


def read_hdf5(path: Path, member: str | None = None) -> Iterator[Page]:
    """The slices of the file's only dataset of images, or of the named one."""
    h5py = package("h5py", "reading HDF5")
    lodopab = _LODOPAB.fullmatch(path.name)
    if lodopab and lodopab[1] == "observation":
        raise NotAnImageError("holds sinograms of LoDoPaB-CT, not images")
    with h5py.File(path, "r") as file:
        dataset = _chosen(h5py, file, member)
        # Values in other files are not read: a malicious file could name any file of this machine.
        if dataset.file.filename != file.filename or dataset.external or dataset.is_virtual:
            remedy = "copy them into one, e.g. with h5repack"
            raise KoriskError(f"has the values of {dataset.name} in other files; {remedy}")
        # A chunk is unpacked as a whole, however few slices of it are read.
        chunk = math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
        checks.check_fits(chunk, f"a chunk of {dataset.name}", "save it in smaller chunks")
        # Chunks that were never written take no bytes and read as zeros, without end.
        written = checks.DEFLATE * dataset.id.get_storage_size()
        checks.refuse_hollow(dataset.shape, dataset.size * dataset.dtype.itemsize, written)
        if not lodopab or dataset.name != "/data":
            yield from pages_of(dataset, dataset.name)
            return
        slices, width = dataset.shape[0], LODOPAB_WIDTH / dataset.shape[-1]
        patients = _lodopab_patients(h5py, path, lodopab, slices) or [None] * slices
        # The last file is padded with slices without a patient, which are left out.
        for patient, page in zip(patients, pages_of(dataset, dataset.name), strict=False):
            yield Page(
                page.values.astype(np.float64) * (LODOPAB_MU_MAX / 1000),
                count=len(patients),
                unit="1/mm",
                spacing=(width, width),
                patient=patient,
            )


def _chosen(h5py: Untyped, file: Untyped, member: str | None) -> Untyped:
    """The named dataset, or the only one that may contain images."""
    if member is not None and isinstance(dataset := file.get(member), h5py.Dataset):
        return dataset
    items: list[tuple[str, Untyped]] = []
    file.visititems(lambda name, item: items.append((f"/{name}", item)))
    datasets = {name: item for name, item in items if isinstance(item, h5py.Dataset)}
    if member is not None:
        raise KoriskError(f"has no dataset {member!r}{did_you_mean(member, datasets)}")
    stacks = {
        name: item
        for name, item in datasets.items()
        if item.ndim in (2, 3) and item.dtype.kind in "biuf" and min(item.shape[-2:]) > 1
    }
    if len(stacks) != 1:
        names, first = ", ".join(list(stacks)[:5]) or "none", next(iter(stacks), "/images")
        rule = f"must hold one dataset of images (2 or 3 axes), got {len(stacks)} ({names})"
        raise KoriskError(f"{rule}; name one, as in FILE:{first}")
    return next(iter(stacks.values()))


def _lodopab_patients(
    h5py: Untyped, path: Path, name: re.Match[str], slices: int
) -> Sequence[str | None]:
    """The patients of the slices, if their list is in the file's folder or its parent."""
    subset, number = name[2], name[3]
    list_name = f"patient_ids_rand_{subset}.csv"
    tables = path.with_name(list_name), path.parent.parent / list_name
    table = next((path for path in tables if path.exists()), None)
    if table is None:
        return ()
    # One list covers all files in order; all have as many slices as the first.
    slices_per_file = _LODOPAB_SLICES
    first_file = path.with_name(f"ground_truth_{subset}_{'0' * len(number)}.hdf5")
    if first_file.exists():
        with h5py.File(first_file, "r") as file:
            slices_per_file = int(file["data"].shape[0])
    lines = read_text(table, max_bytes=_LARGEST_LIST).split()
    first = int(number) * slices_per_file
    patients = lines[first : first + slices]
    if not patients or not all(_WHOLE.fullmatch(patient) for patient in patients):
        rule = f"have one whole number a slice, from line {first + 1} on for this file"
        remedy, got = "use the list that belongs to the data", f"{len(lines)} lines"
        raise invalid(list_name, rule, lines, remedy, got=got)
    return [str(int(patient)) for patient in patients]
