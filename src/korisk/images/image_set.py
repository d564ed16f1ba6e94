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
    """A file, or a page of one, that was left out."""

    file: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageSet:
    """Images of one size and one unit, in the order of their files.

    `unit` is "1/mm" (linear attenuation) or "plain". `images[i]` is one image; slices, lists of
    numbers and masks give a set. `digests` are of what the files hold, before anything was done
    to it, and `settings` say what was done.
    """

    images: NDArray[np.float32]  # (count, rows, columns), read only
    patients: tuple[str, ...]
    files: tuple[str, ...]  # "folder/file", with "#page" from 0 on where there are several
    unit: str
    spacings: tuple[tuple[float, float] | None, ...]  # mm from row to row, column to column
    mu_water: float
    scaling: tuple[str, ...]  # how values were made, in words
    digests: tuple[str, ...]
    settings: str
    skipped: tuple[Skipped, ...] = ()
    shapes: tuple[tuple[int, int], ...] = ()  # rows and columns in the files, each pair once

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
        return replace(
            self,
            images=self.images[chosen],
            patients=tuple(self.patients[index] for index in chosen),
            files=tuple(self.files[index] for index in chosen),
            spacings=tuple(self.spacings[index] for index in chosen),
            digests=tuple(self.digests[index] for index in chosen),
        )

    @property
    def spacing(self) -> tuple[float, float] | None:
        """Size of a pixel in mm (row to row, column to column), where all images share it."""
        known = set(self.spacings)
        return known.pop() if len(known) == 1 else None

    @property
    def fingerprint(self) -> str:
        """The same for the same contents, patients and settings, wherever the files lie."""
        whole = hashlib.blake2b(digest_size=16)
        for part in (_VERSION, self.settings, *self.digests, "patients", *self.patients):
            whole.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
        return whole.hexdigest()

    def summary(self) -> str:
        """What was read, in words."""
        rows, columns = self.images.shape[1:]
        lines = [
            f"{counted(len(self), 'image')} of {rows} x {columns} pixels from "
            f"{self._patients_in_words()}.",
            f"{self._values_in_words()}.",
        ]
        if (pixels := self._pixels_in_words()) is not None:
            lines.append(pixels)
        if self.skipped:
            lines.append(f"Left out: {in_words(self.skipped)}.")
        return "\n".join(lines)

    def mixture(self) -> str | None:
        """That files of several sizes were brought to one, in words; None where all had one."""
        if len(self.shapes) < 2:
            return None
        first, *_, last = (f"{rows} x {columns}" for rows, columns in sorted(self.shapes))
        rows, columns = self.images.shape[1:]
        return (
            f"The files hold images of {len(self.shapes)} sizes, from {first} to {last} pixels; "
            f"all were brought to {rows} x {columns}, whatever the size of their pixels in mm."
        )

    def _patients_in_words(self) -> str:
        counts = Counter(self.patients).values()
        if not counts:
            return "nobody"
        few, many = min(counts), max(counts)
        each = f"{few}" if few == many else f"{few} to {many}"
        return f"{counted(len(counts), 'patient')} ({each} each)"

    def _values_in_words(self) -> str:
        name = "Linear attenuation in 1/mm" if self.unit == "1/mm" else "Plain values"
        how = "; ".join(self.scaling)
        if not len(self):
            return f"{name}, {how}"
        return f"{name} from {self.images.min():.4g} to {self.images.max():.4g}, {how}"

    def _pixels_in_words(self) -> str | None:
        sizes = [size for spacing in self.spacings if spacing for size in spacing]
        if not sizes:
            return None
        few, many = f"{min(sizes):.3g}", f"{max(sizes):.3g}"
        unknown = sum(spacing is None for spacing in self.spacings)
        rest = f" (not known of {unknown:,})" if unknown else ""
        return f"Pixels of {few if few == many else f'{few} to {many}'} mm{rest}."


def relative(images: ImageSet) -> NDArray[np.float32]:
    """Values for studies, >= 0, as a new array: attenuation in units of water, so that 1 is water.

    Plain values are as they were read: fractions of `scale=`, or of the largest value of their
    type, or as they are where the files hold fractions.
    """
    if not isinstance(images, ImageSet):
        raise KoriskError(
            f"images must be an ImageSet, got {type(images).__name__}; read_images gives one"
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
    """Of an image as stored, the same on machines of either byte order."""
    same = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    whole = hashlib.blake2b(digest_size=16)
    whole.update(f"{same.dtype.str} {same.shape} {context!r}".encode())
    whole.update(same.data)
    return whole.hexdigest()


def counted(count: int, noun: str) -> str:
    """The number with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
