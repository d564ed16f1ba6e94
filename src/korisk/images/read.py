"""Files read one after the other into one set of images, or told apart in words."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError, KoriskWarning, MissingExtraError
from korisk.images.files import ImageFile, Search
from korisk.images.formats.page import NotAnImageError, Page, memory_without
from korisk.images.image_set import ImageSet, Skipped, counted, digest, in_words
from korisk.images.patients import Patients, name_patients
from korisk.images.resample import Crop, Resample, cut, cut_shape, resampled
from korisk.images.values import Values

OnError = Literal["stop", "skip"]
_LONGEST = 160  # characters of another package's message
_MOST_UNUSABLE = 1000  # images of one file; more are no accident


@dataclass(frozen=True)
class Shape:
    """How images are cut and resampled."""

    side: int | None
    crop: Crop
    resample: Resample

    def of(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """The image as it is kept."""
        rows, columns = cut_shape((values.shape[0], values.shape[1]), self.crop)
        if (rows, columns) != values.shape:
            values = cut(values, rows, columns)
        if self.side is not None:
            if rows != columns:
                raise KoriskError(
                    f"is {rows} x {columns} and would be squeezed to {self.side} x {self.side}; "
                    "use crop='square' or crop='pad'"
                )
            values = resampled(values, self.side, self.side, method=self.resample)
            values = np.maximum(values, 0)  # a spline swings below what it joins
        return values.astype(np.float32)

    def words(self) -> str:
        """What a fingerprint keeps of it."""
        return f"side={self.side} crop={self.crop} resample={self.resample}"

    def spacing(self, page: Page) -> tuple[float, float] | None:
        """Size of a pixel afterwards: the field of view is that of what was cut out."""
        if page.spacing is None or self.side is None:
            return page.spacing
        rows, columns = cut_shape((page.values.shape[0], page.values.shape[1]), self.crop)
        return page.spacing[0] * rows / self.side, page.spacing[1] * columns / self.side


class TooLargeError(KoriskError):
    """All images together are more than the machine holds: no file's fault."""


class UnreadableError(KoriskError):
    """A file that cannot be used ended the reading; the message names it."""


class _Image(NamedTuple):
    """One image that was read."""

    values: NDArray[np.float32]
    name: str
    unit: str
    scaling: str
    spacing: tuple[float, float] | None
    shape: tuple[int, int]  # in the file
    stated: str | None  # its patient, as the file says
    note: str | None
    digest: str


@dataclass
class Reading:
    """What was read so far."""

    shape: Shape
    values: Values
    on_error: OnError
    limit: int | None
    images: list[_Image] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    failed: list[Skipped] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether there are as many as were asked for."""
        return self.limit is not None and len(self.images) >= self.limit

    def closed(self, search: Search) -> None:
        """Folders that could not be opened."""
        for name, reason in search.closed:
            self._fail(name, reason)

    def take(self, file: ImageFile) -> None:
        """Read a file whole or not at all; pages that say nothing are left out by themselves."""
        before = len(self.images)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of other packages, about odd headers
                self._read(file)
        except (MissingExtraError, TooLargeError, UnreadableError):
            raise
        except NotAnImageError as error:
            del self.images[before:]
            if file.given:
                self._fail(file.name, str(error))
            else:
                self.skipped.append(Skipped(file.name, str(error)))
        except KoriskError as error:
            del self.images[before:]
            self._fail(file.name, str(error))
        except Exception as error:  # a broken file makes a reader raise anything
            del self.images[before:]
            self._fail(file.name, f"cannot be read: {_short(error)}")

    def _read(self, file: ImageFile) -> None:
        _refuse_odd_file(file)
        unusable = 0
        for number, page in enumerate(file.read(file.path, file.member)):
            if self.full:
                return
            name = file.name if page.count == 1 else f"{file.name}#{number}"
            try:
                image = self._image(page, name)
            except KoriskError as error:
                self._fail(name, str(error))
                unusable += 1
                if unusable > _MOST_UNUSABLE:
                    del self.failed[-unusable:]
                    raise KoriskError(
                        f"holds more than {_MOST_UNUSABLE:,} images of which none can be used "
                        f"({error}); remove it"
                    ) from None
                continue
            self._refuse_too_much(image, page.count if number == 0 else 1)
            self.images.append(image)

    def _image(self, page: Page, name: str) -> _Image:
        if min(page.values.shape) < 2:
            rows, columns = page.values.shape
            raise KoriskError(f"is {rows} x {columns}, too small for an image; remove it")
        values, scaling, unit = self.values.of(page)
        image = self.shape.of(values)
        if float(image.min()) == float(image.max()):
            raise KoriskError(f"is {image.flat[0]:g} everywhere and shows nothing; remove it")
        if not np.isfinite(image.max()):
            raise KoriskError("has values beyond 3e38, which float32 does not hold; scale them")
        mark = digest(page.values, page.unit, page.full)
        spacing = self.shape.spacing(page)
        rows, columns = page.values.shape
        kept = (image, name, unit, scaling, spacing, (rows, columns))
        return _Image(*kept, page.patient, page.note, mark)

    def _refuse_too_much(self, image: _Image, coming: int) -> None:
        if self.limit is not None:
            coming = min(coming, self.limit - len(self.images))
        # What was read is copied once, into one array; so it must fit again.
        needed = (len(self.images) + 2 * coming) * image.values.nbytes
        if (free := memory_without(needed, 0.9)) is not None:
            raise TooLargeError(
                f"{image.name}: with it, {len(self.images) + coming:,} images take "
                f"{needed / 2**30:.3g} GiB, of {free / 2**30:.3g} GiB free; give side= for smaller "
                "ones, or limit= for fewer"
            )

    def _fail(self, name: str, reason: str) -> None:
        reason = " ".join(reason.split())  # another package's words may take several lines
        if self.on_error == "stop":
            raise UnreadableError(
                f"{name}: {reason} (or leave out such files with on_error='skip', in a study with "
                "images: {on_error: skip}, in korisk predict with --on-error skip)"
            )
        self.failed.append(Skipped(name, reason))

    def finished(self, rule: Patients, files: int) -> ImageSet:
        """All of it as one set, if it fits together."""
        skipped = (*self.failed, *self.skipped)
        if not self.images:
            raise KoriskError(f"no image is left of {files:,} files; left out: {in_words(skipped)}")
        _refuse_mixture(self.images)
        names = [image.name for image in self.images]
        labels = name_patients(rule, names, [image.stated for image in self.images])
        self._warn(labels)
        return ImageSet(
            images=self._stacked(),
            patients=labels,
            files=tuple(names),
            unit=self.images[0].unit,
            spacings=tuple(image.spacing for image in self.images),
            mu_water=self.values.mu_water,
            scaling=tuple(sorted({image.scaling for image in self.images})),
            digests=tuple(image.digest for image in self.images),
            settings=f"{self.shape.words()} {self.values.words()}",
            skipped=skipped,
            shapes=tuple(sorted({image.shape for image in self.images})),
        )

    def _stacked(self) -> NDArray[np.float32]:
        first = self.images[0].values
        stack = np.empty((len(self.images), *first.shape), dtype=np.float32)
        for place, image in zip(stack, self.images, strict=True):
            place[:] = image.values
        return stack

    def _warn(self, labels: Sequence[str]) -> None:
        if self.failed:
            _tell(f"left out what cannot be read: {in_words(tuple(self.failed))}")
        noted = [image for image in self.images if image.note is not None]
        if noted and self.values.unit is None:
            kinds = ", ".join(sorted({str(image.note) for image in noted}))
            _tell(
                f"DICOM without Hounsfield units ({kinds}) in {counted(len(noted), 'image')}, the "
                f"first is {noted[0].name}; their values are no attenuation and are taken as plain "
                "ones; unit='plain' says that this is meant"
            )
        seen: dict[str, tuple[str, str]] = {}
        for image, label in zip(self.images, labels, strict=True):
            name, other = seen.setdefault(image.digest, (image.name, label))
            if other != label:
                _tell(
                    f"{image.name} and {name} are the same image, under two patients; one may be "
                    "tested on what was learned from the other: remove one, or name one patient"
                )
                return


def _tell(text: str) -> None:
    warnings.warn(text, KoriskWarning, stacklevel=5)


def _refuse_odd_file(file: ImageFile) -> None:
    if not file.path.is_file():
        raise KoriskError("is a link that leads nowhere, or no file; mend or remove it")
    if file.path.stat().st_size == 0:
        raise KoriskError("is empty; remove it")


def _refuse_mixture(images: list[_Image]) -> None:
    units = {image.unit: image.name for image in images}
    if len(units) > 1:
        named = ", ".join(f"{unit} in {name}" for unit, name in sorted(units.items()))
        raise KoriskError(
            f"images must be of one unit, got {named}; read one kind with pattern=, or say unit="
        )
    sizes = Counter(image.values.shape for image in images)
    if len(sizes) > 1:
        names = {image.values.shape: image.name for image in reversed(images)}
        listed = "; ".join(
            f"{rows} x {columns} in {count:,} images such as {names[rows, columns]}"
            for (rows, columns), count in sizes.most_common(3)
        )
        more = f"; and {len(sizes) - 3} more sizes" if len(sizes) > 3 else ""
        raise KoriskError(
            f"images must be of one size, got {listed}{more}; give side= to bring them to one"
        )


def _short(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
