"""Sets of images with their patients, and splits into pools that share no patient."""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple, cast, overload

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import Argument, KoriskError, Message, invalid, shown
from korisk.files import read_text
from korisk.seeds import TEST_SEED, stream_key
from korisk.texts import counted

Patients = str | PathLike[str] | Callable[[str], object] | Mapping[str, object]
RULES = ("auto", "folder", "file", "image")
Indices = NDArray[np.int64]
_LARGEST_TABLE = 64_000_000  # bytes
_SHARE = 10  # a pool is drawn from a tenth of the patients, unless they have too few images
_BLANK = 0.05  # standard deviation of a blank image, relative to that of a typical one
_VERSION = "korisk images 1"  # changes whenever the same files would give other values


class Skipped(NamedTuple):
    """A file, or a page of one, that was left out.

    Parameters
    ----------
    file : str
        Its name, as in `ImageSet.files`.
    reason : str
        Why it was left out.
    blank : bool, default False
        Whether it is a constant or nearly constant image.

    Examples
    --------
    >>> from korisk.images import Skipped
    >>> Skipped("ann/1.dcm", "is a localizer").file
    'ann/1.dcm'
    """

    file: str
    reason: str
    blank: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageSet:
    """Images of one size and one unit, in the order of their files; `read_images` returns one.

    `images[i]` is one image; a slice, a list of indices or a mask gives another `ImageSet`.

    Parameters
    ----------
    images : ndarray of float32, shape (count, rows, columns)
        The images, read-only.
    patients : tuple of str
        The patient of each image.
    files : tuple of str
        "folder/file" of each image, with "#page" counted from 0 where a file has several.
    unit : {"1/mm", "plain"}
        Linear attenuation, or plain values.
    spacings : tuple of (float, float) or None
        Pixel size of each image in mm, row to row and column to column; None if not known.
    mu_water : float
        Attenuation of water in 1/mm.
    scaling : tuple of str
        How values were converted from those of the files, in words.
    digests : tuple of str
        Hashes of the images as stored, before any conversion.
    settings : str
        The options of the conversion, for `fingerprint`.
    skipped : tuple of Skipped, default ()
        Files and pages that were left out.
    shapes : tuple of (int, int), default ()
        The different sizes in the files, as (rows, columns).

    Examples
    --------
    >>> import numpy as np
    >>> from korisk.images import read_images
    >>> np.save("set.npy", np.random.default_rng(0).random((3, 8, 8)))
    >>> images = read_images("set.npy")
    >>> len(images), images[0].shape, images[1:].files
    (3, (8, 8), ('set.npy#1', 'set.npy#2'))
    """

    images: NDArray[np.float32]
    patients: tuple[str, ...]
    files: tuple[str, ...]
    unit: str
    spacings: tuple[tuple[float, float] | None, ...]
    mu_water: float
    scaling: tuple[str, ...]
    digests: tuple[str, ...]
    settings: str
    skipped: tuple[Skipped, ...] = ()
    shapes: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        self.images.setflags(write=False)

    def __len__(self) -> int:
        return len(self.images)

    @overload
    def __getitem__(self, selection: int) -> NDArray[np.float32]: ...
    @overload
    def __getitem__(self, selection: Any) -> ImageSet: ...
    def __getitem__(self, selection: Any) -> NDArray[np.float32] | ImageSet:
        if isinstance(selection, int | np.integer):
            return cast(NDArray[np.float32], self.images[selection])
        indices = np.arange(len(self))[selection]
        columns: dict[str, Any] = {
            name: tuple(getattr(self, name)[index] for index in indices)
            for name in ("patients", "files", "spacings", "digests")
        }
        return replace(self, images=self.images[indices], **columns)

    @property
    def spacing(self) -> tuple[float, float] | None:
        """Pixel size in mm (row to row, column to column) if all images share it, else None."""
        spacings = set(self.spacings)
        return spacings.pop() if len(spacings) == 1 else None

    @property
    def fingerprint(self) -> str:
        """A hash of contents, patients and settings, independent of where the files are."""
        hasher = hashlib.blake2b(digest_size=16)
        for text in (_VERSION, self.settings, *self.digests, "patients", *self.patients):
            # With lengths, so that no two different lists give the same bytes.
            hasher.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
        return hasher.hexdigest()

    def summary(self) -> str:
        """Describe the set in two to four lines.

        Returns
        -------
        str
            Number, size and patients; unit and range of values; pixel size; what was left out.

        Examples
        --------
        >>> import numpy as np
        >>> from korisk.images import read_images
        >>> np.save("summary.npy", np.arange(64.0).reshape(8, 8) / 63)
        >>> print(read_images("summary.npy").summary())
        1 image of 8 x 8 pixels from 1 patient (1 each).
        Plain values from 0 to 1, as they are.
        """
        rows, columns = self.images.shape[1:]
        patients = Counter(self.patients).values()
        count = counted(len(patients), "patient")
        owners = f"{count} ({_span(patients, '')} each)" if patients else "no patient"
        name = "Linear attenuation in 1/mm" if self.unit == "1/mm" else "Plain values"
        if len(self):
            name += f" from {self.images.min():.4g} to {self.images.max():.4g}"
        lines = [f"{counted(len(self), 'image')} of {rows} x {columns} pixels from {owners}."]
        lines.append(f"{name}, {'; '.join(self.scaling)}.")
        if sizes := [size for spacing in self.spacings if spacing for size in spacing]:
            unknown = sum(spacing is None for spacing in self.spacings)
            exception = f" (not known for {unknown:,})" if unknown else ""
            lines.append(f"Pixels of {_span(sizes, '.3g')} mm{exception}.")
        if self.skipped:
            lines.append(f"Left out: {in_words(self.skipped)}.")
        return "\n".join(lines)

    def without_blank(self) -> ImageSet:
        """Leave out nearly constant images, such as slices of air beside a patient.

        Their standard deviation is below 5% of the upper quartile of all.

        Returns
        -------
        ImageSet
            The remaining images; `skipped` lists those left out.

        Examples
        --------
        >>> import numpy as np
        >>> from korisk.images import read_images
        >>> values = np.random.default_rng(0).random((4, 8, 8))
        >>> values[1] *= 0.01
        >>> np.save("slices.npy", values)
        >>> images = read_images("slices.npy").without_blank()
        >>> images.files, images.skipped[0].file
        (('slices.npy#0', 'slices.npy#2', 'slices.npy#3'), 'slices.npy#1')
        """
        deviation = self.images.std(axis=(1, 2), dtype=np.float64)
        # The upper quartile, so that many blank slices do not lower the threshold.
        blank = deviation < _BLANK * np.quantile(deviation, 0.75)
        why, names = "is nearly the same everywhere", np.asarray(self.files)[blank].tolist()
        left_out = [Skipped(name, why, blank=True) for name in names]
        remaining: ImageSet = self[~blank]
        return replace(remaining, skipped=(*self.skipped, *left_out))

    def mixture(self) -> str | None:
        """Describe the sizes in the files, if there are several, or other ratios of the sides.

        Returns
        -------
        str or None
            One sentence; None if all files have one size, of the images' ratio of the sides.
        """
        rows, columns = self.images.shape[1:]
        if len(self.shapes) < 2 and all(columns * h == rows * w for h, w in self.shapes):
            return None
        listed = [f"{height} x {width}" for height, width in sorted(self.shapes)]
        ends = listed[0] if len(listed) == 1 else f"from {listed[0]} to {listed[-1]}"
        sizes = f"The files hold images of {counted(len(listed), 'size')}, {ends} pixels"
        common = f"{rows} x {columns}, whatever the size of their pixels in mm"
        return f"{sizes}; all were brought to {common}."


def relative(images: ImageSet) -> NDArray[np.float32]:
    """Values for studies, at least 0, as a new array.

    Attenuation is divided by that of water, so that 1 is water. Plain values stay as they were
    read: fractions of `scale=`, or of the largest value of their type, or unchanged if the files
    contain fractions.

    Parameters
    ----------
    images : ImageSet
        What `read_images` returned.

    Returns
    -------
    ndarray of float32, shape (count, rows, columns)
        The values.

    Raises
    ------
    KoriskError
        If `images` is not an `ImageSet`.

    Examples
    --------
    >>> import numpy as np
    >>> from korisk.images import read_images, relative
    >>> np.save("hounsfield.npy", np.array([[-1000.0, 0.0], [0.0, 1000.0]]))
    >>> relative(read_images("hounsfield.npy", unit="HU"))[0].tolist()
    [[0.0, 1.0], [1.0, 2.0]]
    """
    require_images(images)
    water = np.float32(images.mu_water)
    return images.images / water if images.unit == "1/mm" else images.images.copy()


def require_images(images: object) -> None:
    """Raise unless the argument is an `ImageSet`."""
    valid, kind = isinstance(images, ImageSet), type(images).__name__
    _checks.require(valid, "images", "be an ImageSet", images, "read_images returns one", got=kind)


def in_words(skipped: Sequence[Skipped]) -> Message:
    """The number of skipped pages, and the first three with their reasons."""
    listed = Message(f"{len(skipped):,}, ")
    for position, page in enumerate(skipped[:3]):
        listed = Message(listed, "; " * (position > 0), f"{page.file} (", page.reason, ")")
    return Message(listed, f"; and {len(skipped) - 3:,} more" if len(skipped) > 3 else "")


def digest(values: NDArray[np.generic], *context: object) -> str:
    """Hash of an image as stored, the same on machines of either byte order."""
    # Little-endian on every machine.
    portable = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    hasher = hashlib.blake2b(digest_size=16)
    hasher.update(f"{portable.dtype.str} {portable.shape} {context!r}".encode())
    hasher.update(portable.data)
    return hasher.hexdigest()


def _span(numbers: Collection[float], form: str) -> str:
    lowest, highest = format(min(numbers), form), format(max(numbers), form)
    return lowest if lowest == highest else f"{lowest} to {highest}"


class ImagePools(NamedTuple):
    """Indices of the training, validation and test images.

    Parameters
    ----------
    train, validation, test : ndarray of int64, shape (count,)
        Indices into an `ImageSet`; no patient is in two of them.

    Examples
    --------
    >>> from korisk.images import split_patients
    >>> pools = split_patients(["a", "a", "b", "c", "d"], test=1, validation=1, seed=0)
    >>> [len(pool) for pool in (pools.validation, pools.test)]
    [1, 1]
    """

    train: Indices
    validation: Indices
    test: Indices


def checked_rule(rule: object) -> Patients:
    """Check a rule for patients before images are read; a .csv file becomes a mapping."""
    if callable(rule) or isinstance(rule, Mapping) or (isinstance(rule, str) and rule in RULES):
        return rule
    if isinstance(rule, PathLike) or (isinstance(rule, str) and rule.lower().endswith(".csv")):
        return read_table(rule)
    choices = f"be one of {', '.join(RULES)}, a function, a mapping or a .csv file"
    raise invalid("patients", f"{choices} with the columns file and patient", rule)


def read_table(path: str | PathLike[str]) -> dict[str, str]:
    """A mapping of files to patients, from a table with the columns file and patient."""
    text = read_text(path, max_bytes=_LARGEST_TABLE)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=None))  # any line ends
        rows = list(reader)
    except csv.Error as error:
        raise KoriskError(f"{path}: is not a table: {error}; save it as CSV again") from None
    for name in ("file", "patient"):
        if (reader.fieldnames or []).count(name) > 1:
            raise KoriskError(f"{path}: the column {name!r} is there twice; remove one")
    table: dict[str, str] = {}
    for number, row in enumerate(rows, start=2):
        file, patient = row.get("file"), row.get("patient")
        if not file or not patient or not patient.strip():
            rule = "must have a file and a patient, under a first line 'file,patient'"
            raise KoriskError(f"{path}, line {number}: {rule}; complete it")
        # A file may be listed twice, but not for two patients.
        if table.setdefault(file, patient) != patient:
            owners = f"{shown(patient)} here and of {shown(table[file])} above"
            raise KoriskError(f"{path}, line {number}: {file} is of {owners}; keep one")
    return table


def patients_of(
    rule: Patients, names: Sequence[str], in_files: Sequence[str | None]
) -> tuple[str, ...]:
    """The patient of each image, from its name ("folder/file#page") and the file's header.

    `rule` comes from `checked_rule`.
    """
    if rule in ("image", "file"):
        return tuple(name if rule == "image" else _file_of(name) for name in names)
    if isinstance(rule, str | PathLike):
        # The first folder, so that all series of a patient stay together; with "auto" the patient
        # that the file states has priority.
        folders = [name.split("/", 1)[0] if "/" in name else "." for name in names]
        pairs = zip(folders, folders if rule == "folder" else in_files, strict=True)
        return tuple(folder if owner is None else owner for folder, owner in pairs)
    if isinstance(rule, Mapping):
        keys = [name if name in rule else _file_of(name) for name in names]
        missing = [name for name, key in zip(names, keys, strict=True) if key not in rule]
        if missing:
            lacking = f"{len(missing):,} of {len(names):,} images, the first is {missing[0]}"
            text = f" has no entry for {lacking}; name files as in ImageSet.files"
            raise KoriskError(Argument("patients"), text)
        values = [rule[key] for key in keys]
    else:
        values = [rule(name) for name in names]
    labels = tuple("" if value is None else str(value).strip() for value in values)
    if "" in labels:
        index = labels.index("")
        raise invalid(f"{names[index]}:", "have a patient", values[index], "name one")
    return labels


def _file_of(name: str) -> str:
    """The file of an image: its name without the page."""
    before, mark, page = name.rpartition("#")
    return before if mark and page.isdigit() else name


def image_pools(
    images: ImageSet, *, seed: int, train: int, validation: int, test: int
) -> ImagePools:
    """Split a set of images into three pools that share no patient.

    Parameters
    ----------
    images : ImageSet
        What `read_images` returned.
    seed : int
        Random seed of the training and validation pools. The test pool is the same for all seeds.
    train, validation, test : int
        Images in each pool.

    Returns
    -------
    ImagePools
        Indices into `images`.

    Raises
    ------
    KoriskError
        If there are too few images or patients.

    Examples
    --------
    >>> import numpy as np
    >>> from korisk.images import image_pools, read_images
    >>> np.save("pools.npy", np.random.default_rng(0).random((10, 8, 8)))
    >>> images = read_images("pools.npy", patients="image")
    >>> pools = image_pools(images, seed=1, train=4, validation=2, test=2)
    >>> images[pools.train].images.shape
    (4, 8, 8)
    """
    require_images(images)
    counts = {"train": train, "validation": validation, "test": test}
    return split_patients(images.patients, **counts, seed=seed)


def split_patients(
    patients: Sequence[str], *, test: int, validation: int, train: int | None = None, seed: int
) -> ImagePools:
    """Split images into three pools that share no patient.

    The test pool is drawn from a tenth of the patients, mixed, and, if these have too few images,
    from further patients, one after another; this order is the same for all seeds. The validation
    pool is drawn likewise from the remaining patients, in an order that depends on the seed. All
    images of patients in these two pools are excluded from training. The first n images of a pool
    are the same for any pool size, and `train` does not change the other pools.

    Parameters
    ----------
    patients : sequence of str
        The patient of each image.
    test, validation : int
        Images in these pools.
    train : int, optional
        Images in the training pool. Default: all that are left.
    seed : int
        Random seed of the training and validation pools.

    Returns
    -------
    ImagePools
        Indices into `patients`.

    Raises
    ------
    KoriskError
        If there are too few images or patients.

    Examples
    --------
    >>> from korisk.images import split_patients
    >>> patients = ["ann", "ann", "bob", "bob", "eve", "eve"]
    >>> pools = split_patients(patients, test=2, validation=1, seed=0)
    >>> len({patients[i] for i in pools.train} & {patients[i] for i in pools.test})
    0
    """
    counts = {"test": test, "validation": validation, "train": train}
    _checks.count("seed", seed, at_least=0, at_most=2**63 - 2, remedy="give a whole number")
    for pool, size in counts.items():
        if size is not None or pool != "train":
            _checks.count(pool, size, at_least=0, at_most=2**31, remedy="count the pool's images")
    # As texts, so that patients of any type can be sorted.
    labels = np.asarray([str(patient) for patient in patients], dtype=str)
    if not len(labels):
        raise invalid("patients", "name the patient of each image", patients, "read images")
    names, owners = np.unique(labels, return_inverse=True)
    available = np.ones(len(labels), dtype=bool)
    pools = {}
    for pool, size in counts.items():
        # A pool takes the images of `mixed` patients in mixed order, then those of further patients
        # one by one. Random keys are sorted instead of shuffling the list: if some patients go, the
        # others keep their order.
        mixed = -(-len(names) // _SHARE)
        if pool == "train":
            mixed = len(names)
        inside = np.flatnonzero(available)
        keys = []
        for kind, count in (("patients", len(names)), ("images", len(labels))):
            key = stream_key(TEST_SEED if pool == "test" else seed, f"order of {pool} {kind}")
            keys.append(np.random.Generator(np.random.Philox(key=key)).random(count))
        present = np.unique(owners[inside])
        turn = np.empty(len(names), dtype=np.int64)
        # Turn 0 has the first `mixed` patients together; every later turn has one patient.
        turns = np.maximum(np.arange(len(present)) - mixed + 1, 0)
        turn[present[np.argsort(keys[0][present])]] = turns
        pools[pool] = inside[np.lexsort((keys[1][inside], turn[owners[inside]]))][:size]
        if len(inside) < (least := 1 if size is None else size):
            sizes = ", ".join(f"{name} {number}" for name, number in counts.items() if number)
            why = f"{len(labels):,} images of {len(names):,} patients for {sizes}, with seed {seed}"
            got = f"{least:,}: no patient may be in two pools, and there are {why}"
            by_file = " or 'image' if every file or image is a patient of its own"
            advice = Message("ask for fewer, or read with ", Argument("patients", "file"), by_file)
            raise invalid(pool, f"be at most {len(inside):,}", size, advice, got=got)
        # All images of a drawn patient, not only the drawn ones, are closed to the other pools.
        available &= ~np.isin(labels, labels[pools[pool]])
    return ImagePools(**pools)
