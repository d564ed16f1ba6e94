"""Images of one's own: read from files, brought to one size, and split by patients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from korisk import _checks
from korisk.errors import KoriskError
from korisk.images.files import KINDS, Search, Source, find_images
from korisk.images.image_set import ImageSet, Skipped, relative
from korisk.images.patients import Patients, checked_rule
from korisk.images.read import OnError, Reading, Shape
from korisk.images.resample import RESAMPLE, Crop, Resample, checked_crop, checked_side
from korisk.images.split import ImagePools, image_pools, split_patients
from korisk.images.values import MU_WATER, Unit, Values

__all__ = [
    "ImagePools",
    "ImageSet",
    "Skipped",
    "image_pools",
    "read_images",
    "relative",
    "split_patients",
]


def read_images(
    source: Source | Sequence[Source],
    *,
    side: int | None = None,
    pattern: str | None = None,
    crop: Crop = "square",
    resample: Resample = "area",
    on_error: OnError = "stop",
    patients: Patients = "auto",
    unit: Unit | None = None,
    mu_water: float = MU_WATER,
    scale: float | None = None,
    limit: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> ImageSet:
    """The images of a folder (with all below it), of one file, or of a list of both.

    `side` brings them to side x side pixels; `crop` is "square" (the middle is kept), "pad" (zeros
    are added), "none" or (rows, columns). `pattern` is of names, such as "*.dcm", or of paths if
    it has a slash. `unit` is that of files that do not say theirs, `scale` the plain value that
    becomes 1. `on_error="skip"` leaves out what cannot be read and warns. `patients` says whose
    image it is: what the file states or else its first folder ("auto"), "folder", "file",
    "image", a function of a name, a mapping, or a .csv file. `limit` stops after so many images;
    `progress(done, files)` is called after each file. See docs/reference/images.md.
    """
    _checks.one_of("on_error", on_error, ("stop", "skip"))
    _checks.one_of("resample", resample, RESAMPLE)
    edge = checked_side(side)
    shape = Shape(edge, checked_crop(crop, edge), resample)
    values = Values(unit=unit, mu_water=mu_water, scale=scale)
    rule = checked_rule(patients)
    if limit is not None:
        limit = _checks.count("limit", limit, at_least=1, remedy="count the images to read")
    search = find_images(source, pattern)
    _refuse_nothing(search, pattern)
    reading = Reading(shape, values, on_error, limit)
    reading.closed(search)
    for done, file in enumerate(search.files, start=1):
        reading.take(file)
        if progress is not None:
            progress(done, len(search.files))
        if reading.full:
            break
    return reading.finished(rule, len(search.files))


def _refuse_nothing(search: Search, pattern: str | None) -> None:
    if search.files or search.closed:
        return
    seen = ", ".join(f"{count:,} {kind}" for kind, count in search.others.most_common(4))
    matching = f" that match {pattern!r}" if pattern is not None else ""
    raise KoriskError(
        f"no images{matching} were found (other files: {seen or 'none'}); what is read: {KINDS}"
    )
