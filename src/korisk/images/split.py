"""Images shared out so that no patient stands on both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.images.image_set import ImageSet
from korisk.images.patients import file_of
from korisk.problems.problem import TEST_SEED
from korisk.seeds import stream_key

Indices = NDArray[np.int64]
Order = Literal["mixed", "patients"]
ORDERS: tuple[Order, ...] = ("mixed", "patients")
Parts = Mapping[str, object] | Callable[[str], object]
_SHARE = 10  # a pool is drawn from one patient in so many, unless they have too few images


class ImagePools(NamedTuple):
    """Which images to learn from, to choose by, and to judge with."""

    train: Indices
    validation: Indices
    test: Indices


def image_pools(
    images: ImageSet,
    *,
    seed: int,
    train: int,
    validation: int,
    test: int,
    split: Parts | None = None,
    order: Order = "mixed",
) -> ImagePools:
    """Pools of images by number; slices of one patient never stand in two of them.

    Without `split`, as `split_patients` does it. With one, the parts are its user's: a mapping of
    files to "train", "validation" or "test", a mapping of these words to lists of files, or a
    function of a file's name; a patient in two parts is refused.
    """
    if not isinstance(images, ImageSet):
        raise KoriskError(
            f"images must be an ImageSet, got {type(images).__name__}; read_images gives one"
        )
    if split is None:
        return split_patients(
            images.patients, test=test, validation=validation, train=train, seed=seed, order=order
        )
    request = _Request.checked(train, validation, test, seed, order)
    parts = given_parts(images, split)
    labels = np.asarray(images.patients)
    pools = {}
    for part, wanted in (("train", train), ("validation", validation), ("test", test)):
        inside = np.flatnonzero(parts == part)
        if len(inside) < wanted:
            raise KoriskError(
                f"{part} must be at most {len(inside):,}, the images that split= has there, got "
                f"{wanted:,}; ask for fewer, or add images"
            )
        everyone = len(labels) if part != "train" or order == "mixed" else 1
        pools[part] = request.queue(part, inside, labels, mixed=everyone)[:wanted]
    return ImagePools(**pools)


def split_patients(
    patients: Sequence[str],
    *,
    test: int,
    validation: int,
    train: int | None = None,
    seed: int,
    order: Order = "mixed",
) -> ImagePools:
    """Images by number for three pools, given the patient of each image.

    The test pool is drawn from one patient in ten, mixed, and where they have too few images from
    more, one after the other, in an order that is the same for all seeds (`TEST_SEED`); the
    validation pool likewise from those who are left, in the seed's order. Whoever has an image in
    one of them is held out whole; all others are for training, "mixed" or one of the "patients"
    after the other. N counts images. The first n of a pool are the same however large it is, and
    `train` changes neither of the other pools; None takes all that are left.
    """
    request = _Request.checked(train, validation, test, seed, order)
    labels = np.asarray([str(each) for each in patients], dtype=str)
    _refuse_one_patient(labels, test, validation)
    names = sorted(set(labels.tolist()))
    share = -(-len(names) // _SHARE)
    free = np.ones(len(labels), dtype=bool)
    pools = {}
    for part, wanted in (("test", test), ("validation", validation)):
        pools[part] = request.queue(part, np.flatnonzero(free), labels, mixed=share)[:wanted]
        if len(pools[part]) < wanted:
            raise _too_few(labels, request, left=0)
        free &= ~np.isin(labels, labels[pools[part]])
    everyone = len(names) if order == "mixed" else 1
    pools["train"] = request.queue("train", np.flatnonzero(free), labels, mixed=everyone)[:train]
    if train is not None and len(pools["train"]) < train:
        raise _too_few(labels, request, left=len(pools["train"]))
    return ImagePools(**pools)


def given_parts(images: ImageSet, split: Parts) -> NDArray[np.str_]:
    """The part of each image in a user's split ("" for none), if no patient is in two."""
    part_of = split if callable(split) else _by_file(split, images.files).get
    words = [part_of(name) for name in images.files]
    parts = np.asarray(["" if word is None else str(word) for word in words], dtype=str)
    for name, part in zip(images.files, parts.tolist(), strict=True):
        if part not in ("", *ImagePools._fields):
            raise KoriskError(
                f"split must say {', '.join(ImagePools._fields)} or nothing of a file, got "
                f"{shown(part)} for {name}"
            )
    first: dict[str, tuple[str, str]] = {}
    for patient, name, part in zip(images.patients, images.files, parts.tolist(), strict=True):
        there, where = first.setdefault(patient, (name, part)) if part else (name, part)
        if where != part:
            raise KoriskError(
                f"patient {shown(patient)} stands on both sides of the split: {there} is for "
                f"{where}, {name} for {part}; put a patient's images into one part"
            )
    return parts


class _Request(NamedTuple):
    """What was asked for, and the orders that follow from it."""

    train: int | None
    validation: int
    test: int
    seed: int
    order: Order

    @staticmethod
    def checked(train: int | None, validation: int, test: int, seed: int, order: Order) -> _Request:
        _checks.count("seed", seed, at_least=0, at_most=2**63 - 2, remedy="give a whole number")
        _checks.one_of("order", order, ORDERS)
        for name, number in (("train", train), ("validation", validation), ("test", test)):
            if number is not None or name != "train":
                remedy = "count the pool's images"
                _checks.count(name, number, at_least=0, at_most=2**31, remedy=remedy)
        return _Request(train, validation, test, seed, order)

    def queue(self, part: str, inside: Indices, labels: NDArray[np.str_], *, mixed: int) -> Indices:
        """Images in the order in which a part takes them: of `mixed` patients, then of each."""
        names, whose = np.unique(labels, return_inverse=True)
        wait = np.empty(len(names), dtype=np.int64)
        present = np.unique(whose[inside])
        keys = self._keys(part, "patients", len(names))[present]
        wait[present[np.argsort(keys)]] = np.maximum(np.arange(len(present)) - mixed + 1, 0)
        order = np.lexsort((self._keys(part, "images", len(labels))[inside], wait[whose[inside]]))
        return inside[order]

    def _keys(self, part: str, what: str, count: int) -> NDArray[np.float64]:
        # Sorted by keys, not shuffled: those who are left keep their order when others go.
        seed = TEST_SEED if part == "test" else self.seed
        key = stream_key(seed, f"order of {part} {what}")
        return np.random.Generator(np.random.Philox(key=key)).random(count)


def _refuse_one_patient(labels: NDArray[np.str_], test: int, validation: int) -> None:
    names = sorted(set(labels.tolist()))
    if not names:
        raise KoriskError("patients must name the patient of each image, got none; read images")
    if len(names) == 1 and (test or validation):
        raise KoriskError(
            f"all {len(labels):,} images are of one patient, {shown(names[0])}, and cannot be "
            "split; read them with patients='file' if every file is a patient of its own, "
            "'image' if every image is, or say whose they are (a mapping, a .csv)"
        )


def _too_few(labels: NDArray[np.str_], request: _Request, *, left: int) -> KoriskError:
    asked = f"{request.test:,} for test, {request.validation:,} for validation"
    if request.train is not None:
        asked += f" and {request.train:,} for training"
    return KoriskError(
        f"there are {len(labels):,} images of {len(set(labels.tolist())):,} patients, and patients "
        f"are not divided: {asked} were asked for, and {left:,} are left for training with seed "
        f"{request.seed}; ask for fewer, or add patients"
    )


def _by_file(split: Mapping[str, object], files: Sequence[str]) -> dict[str, object]:
    """Image to part, from a mapping of files to parts or of parts to lists of files."""
    parts: dict[str, object] = {}
    if set(split) <= set(ImagePools._fields):
        for part, names in split.items():
            if isinstance(names, str) or not isinstance(names, Sequence):
                raise KoriskError(f"split[{part!r}] must be a list of files, got {shown(names)}")
            for name in names:
                if parts.setdefault(str(name), part) != part:
                    raise KoriskError(
                        f"{name} stands on both sides of the split, in {parts[str(name)]} and "
                        f"{part}; keep one"
                    )
    else:
        parts.update(split)
    known = {key for name in files for key in (name, file_of(name))}
    if unknown := [name for name in parts if name not in known]:
        raise KoriskError(
            f"split names {len(unknown):,} files that were not read, the first is {unknown[0]}; "
            "name files as ImageSet.files does"
        )
    return {name: parts.get(name, parts.get(file_of(name))) for name in files}
