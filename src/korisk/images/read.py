"""`read_images`: find image files, read their pages, and combine them into one set."""

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import Literal, NamedTuple

import numpy as np

from korisk import _checks, errors
from korisk._group import grouped
from korisk.errors import Argument, KoriskError, KoriskWarning, Message, MissingExtraError, invalid
from korisk.images.formats.dicom import is_dicom, read_dicom
from korisk.images.formats.hdf5 import read_hdf5
from korisk.images.formats.page import NotAnImageError, Page, check_fits, read_npy, read_npz
from korisk.images.formats.pictures import read_png, read_tiff
from korisk.images.patients import ImageSet, Patients, Skipped, checked_rule, in_words, patients_of
from korisk.images.pixels import MU_WATER, BlankError, Conversion, Crop, Image, PixelUnit, Resample
from korisk.texts import counted

Source = str | PathLike[str]
OnError = Literal["stop", "skip"]
Reader = Callable[..., Iterator[Page]]
READERS: dict[str, Reader] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".png": read_png,
    **dict.fromkeys((".tif", ".tiff"), read_tiff),
    **dict.fromkeys((".dcm", ".dicom", ".ima"), read_dicom),
    **dict.fromkeys((".h5", ".hdf5"), read_hdf5),
}
_SIDE, _UNIT = Argument("side", ...), Argument("unit", ...)  # for messages
_OR_SKIP = Message(" (or leave out such files with ", Argument("on_error", "skip"), ")")
_FEWER = Message("give ", _SIDE, " for smaller ones, or read fewer files")
KINDS = ".npy, .npz, .png, .tif, .h5, .hdf5, and DICOM under any name"
_DIRECTORY = "DICOMDIR"  # a table of contents, without images
_LONGEST = 160  # characters of another package's message
_MOST_UNUSABLE = 1000  # images of one file, before the file is given up


def read_images(
    source: Source | Sequence[Source],
    *,
    side: int | None = None,
    pattern: str | None = None,
    crop: Crop = "square",
    resample: Resample = "area",
    on_error: OnError = "stop",
    patients: Patients = "auto",
    unit: PixelUnit | None = None,
    mu_water: float = MU_WATER,
    scale: float | None = None,
) -> ImageSet:
    """Read the images of a folder and all folders below it, of one file, or of a list of both.

    Formats, units and rules are in docs/reference/images.md.

    Parameters
    ----------
    source : path or sequence of paths
        Folders and files. An array in an archive is named behind a colon: "file.h5:/path".
    side : int, optional
        Bring every image to side x side pixels. Default: sizes stay, and must be equal.
    pattern : str, optional
        Read only files of a folder whose names match, such as "*.dcm"; with a slash, whose paths
        match, such as "series1/*".
    crop : {"square", "pad", "none"}, default "square"
        Keep the middle square, add zeros to a square, or keep all.
    resample : {"area", "spline"}, default "area"
        Enlarge images linearly or by a cubic spline. Shrinking averages areas.
    on_error : {"stop", "skip"}, default "stop"
        Raise at the first file that cannot be used, or leave such files out and warn.
    patients : str, path, callable or mapping, default "auto"
        The patient of an image: stated by the file or else its first folder ("auto"), "folder",
        "file", "image", a function of a name, a mapping of names, or a .csv file.
    unit : {"HU", "1/mm", "1/cm", "1/m", "plain"}, optional
        Unit of files that do not state theirs. Default: plain.
    mu_water : float, default 0.0192
        Attenuation of water in 1/mm.
    scale : float, optional
        The plain value that becomes 1. Default: the largest value of a file's number type.

    Returns
    -------
    ImageSet
        The images in the order of their names.

    Raises
    ------
    KoriskError
        If an option is wrong, no image is found, sizes or units differ, the images do not fit
        into memory, or (`on_error="stop"`) a file cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from korisk.images import read_images
    >>> np.save("scans.npy", np.random.default_rng(0).random((4, 20, 16)))
    >>> images = read_images("scans.npy", side=8, patients="image")
    >>> images.images.shape, images.patients[0]
    ((4, 8, 8), 'scans.npy#0')
    """
    _checks.one_of("on_error", on_error, ("stop", "skip"))
    convert = Conversion(
        side=side, crop=crop, resample=resample, unit=unit, mu_water=mu_water, scale=scale
    )
    rule = checked_rule(patients)
    reading = Reading(convert, on_error)
    for file in find_images(source, pattern, reading.fail):
        reading.take(file)
    images, skipped = reading.images, (*reading.failed, *reading.skipped)
    if not images:
        matching = f" that match {pattern!r}" if pattern is not None else ""
        left_out = Message("; left out: ", in_words(skipped)) if skipped else ""
        start = f"no images{matching} were found, in {KINDS}"
        where = errors.shown(source, limit=200)
        raise KoriskError(f"{where}: {start}", left_out, "; check the path")
    shapes = (" x ".join(map(str, image.values.shape)) for image in images)
    kinds = grouped(((s, i.unit), i.name) for s, i in zip(shapes, images, strict=True))
    if len(kinds) > 1:
        listed = [
            f"{shape} {unit} in {len(names):,} images such as {names[0]}"
            for (shape, unit), names in sorted(kinds.items(), key=lambda kind: -len(kind[1]))
        ]
        rest = f"; and {len(listed) - 3} more kinds" if len(listed) > 3 else ""
        start = f"images must be of one size and one unit, got {'; '.join(listed[:3])}{rest}; give "
        one_kind = ", or read one kind with ", Argument("pattern", ...)
        raise KoriskError(start, _SIDE, " or ", _UNIT, *one_kind)
    names = [image.name for image in images]
    labels = patients_of(rule, names, [image.patient for image in images])
    noted = [image for image in images if image.note is not None]
    # The same image under two patients could be in training and in the test.
    first_uses: dict[str, tuple[str, str]] = {}
    duplicates = [
        (image.name, first_uses[image.digest][0])
        for image, label in zip(images, labels, strict=True)
        if first_uses.setdefault(image.digest, (image.name, label))[1] != label
    ]
    texts: list[str] = []
    if blank := [page for page in skipped if page.blank]:
        many = f"{counted(len(blank), 'blank image')} left out, with one value everywhere"
        texts.append(f"{many}; the first is {blank[0].file}")
    if reading.failed:
        texts.append(Message("left out what cannot be read: ", in_words(reading.failed)))
    if noted and unit is None:
        notes = ", ".join(sorted({str(image.note) for image in noted}))
        which = f"({notes}) in {counted(len(noted), 'image')}, the first is {noted[0].name}"
        reason = "their values are not attenuation and are read as plain values; confirm this with "
        start = f"DICOM without Hounsfield units {which}; {reason}"
        texts.append(Message(start, Argument("unit", "plain")))
    if duplicates:
        reason = "one may be tested on what was learned from the other"
        names_text = f"{' and '.join(duplicates[0])} are the same image, under two patients"
        texts.append(f"{names_text}; {reason}: remove one, or name one patient")
    for text in texts:
        warnings.warn(text, KoriskWarning, stacklevel=2)
    return ImageSet(
        images=np.stack([image.values for image in images]),
        patients=labels,
        files=tuple(names),
        unit=images[0].unit,
        spacings=tuple(image.spacing for image in images),
        mu_water=convert.mu_water,
        scaling=tuple(sorted({image.scaling for image in images})),
        digests=tuple(image.digest for image in images),
        settings=convert.key(),
        skipped=skipped,
        shapes=tuple(sorted({image.shape for image in images})),
    )


class ImageFile(NamedTuple):
    """A file to read, with its name in messages and in `ImageSet.files`."""

    path: Path
    name: str  # relative to the common folder of all sources
    read: Callable[[], Iterator[Page]]
    by_name: bool  # named by the user, not found in a folder


def find_images(
    source: Source | Sequence[Source], pattern: str | None, fail: Callable[[str, str], None]
) -> list[ImageFile]:
    """Image files, in the same order on every machine.

    Folders are searched for files that are not hidden, linked folders included; each file is listed
    once. `fail` is called with the name of a folder that cannot be opened, and the reason.
    """
    places: list[tuple[Path, str | None]] = []
    for entry in [source] if isinstance(source, str | PathLike) else list(source):
        checked: object = entry
        if not isinstance(checked, str | PathLike) or not os.fspath(entry):
            raise invalid("source", "be a path or a list of paths", entry)
        text, member = os.fspath(entry), None
        path = Path(os.path.abspath(text))  # noqa: PTH100 (links keep their names)
        try:
            if not path.exists() and ":" in text:  # "file.h5:/path"
                file_part, _, member = text.rpartition(":")
                path = Path(os.path.abspath(file_part))  # noqa: PTH100
            exists = path.is_dir() or path.is_file()
        except (OSError, ValueError):  # too long a name, a null byte
            exists = False
        if not exists:
            raise KoriskError(f"{errors.shown(text, limit=200)}: does not exist; check the path")
        places.append((path, member))
    if not places:
        raise invalid("source", "name a folder or files", source, "name one", got="an empty list")
    folders = [path if path.is_dir() else path.parent for path, _ in places]
    # Names relative to it stay the same when the folder is moved.
    root = Path(os.path.commonpath(folders))
    files: dict[str, ImageFile] = {}
    for place, member in places:
        for path in _below(place, root, fail) if place.is_dir() else [place]:
            by_name = path == place
            if not by_name and pattern is not None:
                relative = path.relative_to(place).as_posix() if "/" in pattern else path.name
                if not fnmatchcase(relative, pattern):
                    continue
            name = _name(path, root)
            reader = READERS.get(path.suffix.lower())
            listed = by_name or path.name != _DIRECTORY
            if reader is None and listed and path.is_file() and is_dicom(path):
                reader = read_dicom
            if reader is None and by_name:
                raise KoriskError(f"{name}: is not of a supported format: {KINDS}; convert it")
            if member is not None and reader not in (read_npz, read_hdf5):
                raise KoriskError(f"{name}: has no members such as {member!r}; name the file alone")
            if reader is not None:
                read = partial(reader, path, *([] if member is None else [member]))
                # By the resolved path: a file that is reached through two links is read once.
                files.setdefault(f"{path.resolve()}:{member}", ImageFile(path, name, read, by_name))
    return list(files.values())


def _below(folder: Path, root: Path, fail: Callable[[str, str], None]) -> list[Path]:
    """All files that are not hidden, also in linked folders; each folder is visited once."""

    def cannot_open(error: OSError) -> None:
        name = _name(Path(error.filename or folder), root)
        fail(name, f"cannot be opened: {(error.strerror or 'error').lower()}")

    paths = []
    visited: set[tuple[int, int]] = set()
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=cannot_open):
        status = Path(parent).stat()
        # Links may form loops.
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(parent, name) for name in names if not name.startswith(".")]
    return sorted(paths, key=lambda path: path.relative_to(folder).parts)


def _name(path: Path, root: Path) -> str:
    """The relative name of a file as one printable line."""
    text = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if clean.isprintable() else clean.encode("unicode_escape").decode()


class ReadingStoppedError(KoriskError):
    """Reading stops: a file cannot be used, or the images do not fit into memory."""


@dataclass
class Reading:
    """The state of reading: images, skipped pages and failures so far."""

    convert: Conversion
    on_error: OnError
    images: list[Image] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    failed: list[Skipped] = field(default_factory=list)

    def fail(self, name: str, reason: str) -> None:
        """Raise for a file that cannot be used, or skip it, as `on_error` says."""
        # Names inside files and messages of other packages may have several lines.
        parts = Message(reason).parts
        texts = (re.sub(r"\s+", " ", piece) if isinstance(piece, str) else piece for piece in parts)
        reason = Message(*texts)
        if self.on_error == "stop":
            raise ReadingStoppedError(f"{name}: ", reason, _OR_SKIP)
        self.failed.append(Skipped(name, reason))

    def take(self, file: ImageFile) -> None:
        """Read a file completely or not at all, except for its blank pages."""
        image_count, skipped, failed = len(self.images), len(self.skipped), len(self.failed)
        tifffile = logging.getLogger("tifffile")
        with warnings.catch_warnings():
            # Packages warn of odd headers that do not matter here.
            warnings.simplefilter("ignore")
            was_disabled, tifffile.disabled = tifffile.disabled, True
            try:
                if not file.path.is_file() or file.path.stat().st_size == 0:
                    raise KoriskError("is empty, a broken link, or not a regular file; remove it")
                for number, page in enumerate(file.read()):
                    name = file.name if page.count == 1 else f"{file.name}#{number}"
                    try:
                        image = self.convert(page, name)
                    except KoriskError as error:
                        if isinstance(error, BlankError):
                            self.skipped.append(Skipped(name, str(error), blank=True))
                        else:
                            self.fail(name, error.message)
                        unusable = len(self.skipped) - skipped + len(self.failed) - failed
                        if unusable > _MOST_UNUSABLE:
                            del self.failed[failed:]
                            rule = f"holds more than {_MOST_UNUSABLE:,} images that cannot be used"
                            raise KoriskError(rule, " (", error.message, "); remove it") from None
                        continue
                    expected = page.count if number == 0 else 1
                    # All images are copied into one array in the end, so they must fit twice.
                    needed = (len(self.images) + 2 * expected) * image.values.nbytes
                    purpose = f"{name}: with it, a set of {len(self.images) + expected:,} images"
                    try:
                        check_fits(needed, purpose, _FEWER, share=0.9)
                    except KoriskError as error:
                        raise ReadingStoppedError(error.message) from None
                    self.images.append(image)
                return
            except (MissingExtraError, ReadingStoppedError):
                raise
            except KoriskError as error:
                reason = error.message
                if isinstance(error, NotAnImageError) and not file.by_name:
                    self.skipped.append(Skipped(file.name, reason))
                    return
            except Exception as error:  # readers of broken files may raise anything
                text = shorten(f"{type(error).__name__}: {error}", _LONGEST, placeholder="...")
                reason = Message(f"cannot be read: {text}")
            finally:
                tifffile.disabled = was_disabled
        # A file that fails halfway contributes nothing: its images may be wrong, too.
        del self.images[image_count:], self.skipped[skipped:]
        self.fail(file.name, reason)
