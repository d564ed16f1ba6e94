"""Images read from files, with what is known about them."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError

_VERSION = "korisk images 1"  # another one wherever the same files would give other values


class Skipped(NamedTuple):
    """A file, or a page of one, that was left out.

    Parameters
    ----------
    file : str
        Its name, as in `ImageSet.files`.
    reason : str
        Why it was left out.

    Examples
    --------
    >>> from korisk.images import Skipped
    >>> Skipped("ann/1.dcm", "is a localizer").file
    'ann/1.dcm'
    """

    file: str
    reason: str


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
        How values were made from those of the files, in words.
    digests : tuple of str
        Hashes of what the files hold, before any conversion.
    settings : str
        The options of the conversion, for `fingerprint`.
    skipped : tuple of Skipped, default ()
        What was left out.
    shapes : tuple of (int, int), default ()
        Rows and columns in the files, each pair once.

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
    def __getitem__(self, part: int) -> NDArray[np.float32]: ...
    @overload
    def __getitem__(self, part: Any) -> ImageSet: ...
    def __getitem__(self, part: Any) -> NDArray[np.float32] | ImageSet:
        if isinstance(part, int | np.integer):
            one: NDArray[np.float32] = self.images[part]
            return one
        chosen = np.arange(len(self))[part]
        columns: dict[str, Any] = {
            name: tuple(getattr(self, name)[index] for index in chosen)
            for name in ("patients", "files", "spacings", "digests")
        }
        return replace(self, images=self.images[chosen], **columns)

    @property
    def spacing(self) -> tuple[float, float] | None:
        """Pixel size in mm (row to row, column to column) if all images share it, else None."""
        known = set(self.spacings)
        return known.pop() if len(known) == 1 else None

    @property
    def fingerprint(self) -> str:
        """A hash of contents, patients and settings that does not depend on where the files are."""
        whole = hashlib.blake2b(digest_size=16)
        for part in (_VERSION, self.settings, *self.digests, "patients", *self.patients):
            whole.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
        return whole.hexdigest()

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
        whose = "no patient"
        if patients:
            whose = f"{counted(len(patients), 'patient')} ({_span(patients, '')} each)"
        name = "Linear attenuation in 1/mm" if self.unit == "1/mm" else "Plain values"
        if len(self):
            name += f" from {self.images.min():.4g} to {self.images.max():.4g}"
        lines = [
            f"{counted(len(self), 'image')} of {rows} x {columns} pixels from {whose}.",
            f"{name}, {'; '.join(self.scaling)}.",
        ]
        if sizes := [size for spacing in self.spacings if spacing for size in spacing]:
            unknown = sum(spacing is None for spacing in self.spacings)
            rest = f" (not known for {unknown:,})" if unknown else ""
            lines.append(f"Pixels of {_span(sizes, '.3g')} mm{rest}.")
        if self.skipped:
            lines.append(f"Left out: {in_words(self.skipped)}.")
        return "\n".join(lines)

    def mixture(self) -> str | None:
        """Say that files of several sizes were brought to one.

        Returns
        -------
        str or None
            One sentence; None where all files have one size.
        """
        if len(self.shapes) < 2:
            return None
        first, *_, last = (f"{rows} x {columns}" for rows, columns in sorted(self.shapes))
        rows, columns = self.images.shape[1:]
        return (
            f"The files hold images of {len(self.shapes)} sizes, from {first} to {last} pixels; "
            f"all were brought to {rows} x {columns}, whatever the size of their pixels in mm."
        )


def relative(images: ImageSet) -> NDArray[np.float32]:
    """Values for studies, at least 0, as a new array.

    Attenuation is divided by that of water, so that 1 is water. Plain values are as they were
    read: fractions of `scale=`, or of the largest value of their type, or unchanged where the
    files hold fractions.

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
    if not isinstance(images, ImageSet):
        raise KoriskError(
            f"images must be an ImageSet, got {type(images).__name__}; read_images returns one"
        )
    if images.unit == "1/mm":
        return images.images / np.float32(images.mu_water)
    return images.images.copy()


def in_words(skipped: tuple[Skipped, ...]) -> str:
    """How many were left out, and the first three with their reasons."""
    names = "; ".join(f"{each.file} ({each.reason})" for each in skipped[:3])
    more = f"; and {len(skipped) - 3:,} more" if len(skipped) > 3 else ""
    return f"{len(skipped):,}, {names}{more}"


def digest(values: NDArray[Any], *context: object) -> str:
    """Hash of an image as stored, the same on machines of either byte order."""
    same = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    whole = hashlib.blake2b(digest_size=16)
    whole.update(f"{same.dtype.str} {same.shape} {context!r}".encode())
    whole.update(same.data)
    return whole.hexdigest()


def counted(count: int, noun: str) -> str:
    """The number with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _span(numbers: Any, form: str) -> str:
    few, many = format(min(numbers), form), format(max(numbers), form)
    return few if few == many else f"{few} to {many}"
