"""Whose image each is, and splits into pools that share no patient."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.files import read_text
from korisk.images.image_set import ImageSet
from korisk.seeds import TEST_SEED, stream_key

Patients = str | PathLike[str] | Callable[[str], object] | Mapping[str, object]
RULES = ("auto", "folder", "file", "image")
Indices = NDArray[np.int64]
Order = Literal["mixed", "patients"]
ORDERS: tuple[Order, ...] = ("mixed", "patients")
Parts = Mapping[str, object] | Callable[[str], object]
_LARGEST_TABLE = 64_000_000  # bytes
_SHARE = 10  # a pool is drawn from a tenth of the patients, unless they have too few images


class ImagePools(NamedTuple):
    """Which images to train on, to choose settings with, and to measure errors on.

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
    """`rule` if it can name patients, checked before anything is read; a .csv file is read."""
    if callable(rule) or isinstance(rule, Mapping) or (isinstance(rule, str) and rule in RULES):
        return rule
    if isinstance(rule, PathLike) or (isinstance(rule, str) and rule.lower().endswith(".csv")):
        return read_table(rule)
    raise KoriskError(
        f"patients must be one of {', '.join(RULES)}, a function, a mapping or a .csv file with "
        f"the columns file and patient, got {shown(rule)}"
    )


def read_table(path: str | PathLike[str]) -> dict[str, str]:
    """File to patient, from a table with these two columns."""
    text = read_text(path, max_bytes=_LARGEST_TABLE)
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=None)))  # any line ends
    except csv.Error as error:
        raise KoriskError(f"{path}: is not a table: {error}; save it as CSV again") from None
    table: dict[str, str] = {}
    for number, row in enumerate(rows, start=2):
        file, patient = row.get("file"), row.get("patient")
        if not file or not patient or not patient.strip():
            raise KoriskError(
                f"{path}, line {number}: must have a file and a patient, under a first line "
                "'file,patient'; complete it"
            )
        if table.setdefault(file, patient) != patient:
            raise KoriskError(
                f"{path}, line {number}: {file} is of {shown(patient)} here and of "
                f"{shown(table[file])} above; keep one"
            )
    return table


def name_patients(
    rule: Patients, names: Sequence[str], stated: Sequence[str | None]
) -> tuple[str, ...]:
    """The patient of each image, from its name ("folder/file#page") and what its file states.

    `rule` comes from `checked_rule`.
    """
    if rule == "image":
        return tuple(names)
    if rule == "file":
        return tuple(_file_of(name) for name in names)
    if isinstance(rule, str | PathLike):
        # The first folder, so that all series of a patient stay together; with "auto" what the
        # file states goes first.
        folders = [name.split("/", 1)[0] if "/" in name else "." for name in names]
        pairs = zip(folders, stated, strict=True)
        return tuple(folder if rule == "folder" or own is None else own for folder, own in pairs)
    if isinstance(rule, Mapping):
        keys = [name if name in rule else _file_of(name) for name in names]
        missing = [name for name, key in zip(names, keys, strict=True) if key not in rule]
        if missing:
            raise KoriskError(
                f"patients has no entry for {len(missing):,} of {len(names):,} images, the first "
                f"is {missing[0]}; name files as in ImageSet.files"
            )
        found = [rule[key] for key in keys]
    else:
        found = [rule(name) for name in names]
    labels = tuple("" if value is None else str(value).strip() for value in found)
    if "" in labels:
        index = labels.index("")
        raise KoriskError(
            f"{names[index]}: must have a patient, got {shown(found[index])}; name one"
        )
    return labels


def _file_of(name: str) -> str:
    """The file of an image: its name without the page."""
    before, mark, page = name.rpartition("#")
    return before if mark and page.isdigit() else name


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
    """Split a set of images into three pools that share no patient.

    Parameters
    ----------
    images : ImageSet
        What `read_images` returned.
    seed : int
        Random seed of the training and validation pools. The test pool is the same for all seeds.
    train, validation, test : int
        Images in each pool.
    split : mapping or callable, optional
        A split of your own: a mapping of files to "train", "validation" or "test", a mapping of
        these words to lists of files, or a function of a file's name. Default: as
        `split_patients` does it.
    order : {"mixed", "patients"}, default "mixed"
        Whether training images are mixed over all patients, or follow patient by patient.

    Returns
    -------
    ImagePools
        Indices into `images`.

    Raises
    ------
    KoriskError
        If there are too few images or patients, or a patient is in two parts of `split`.

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
    if not isinstance(images, ImageSet):
        raise KoriskError(
            f"images must be an ImageSet, got {type(images).__name__}; read_images returns one"
        )
    counts = {"train": train, "validation": validation, "test": test}
    parts: list[object] | None = None
    if callable(split):
        parts = [split(name) for name in images.files]
    elif split is not None:
        pairs: list[tuple[object, object]] = list(split.items())
        if all(isinstance(each, list | tuple) for each in split.values()):  # lists of files
            pairs = [(name, part) for part, names in pairs for name in names]  # type: ignore[attr-defined]
        words: dict[object, object] = {}
        read = {key for name in images.files for key in (name, _file_of(name))}
        for file, word in pairs:
            if file not in read or words.setdefault(file, word) != word:
                raise KoriskError(
                    f"split must name files that were read, each in one part, got {file} for "
                    f"{word}; name files as in ImageSet.files"
                )
        parts = [words.get(name, words.get(_file_of(name))) for name in images.files]
    return split_patients(images.patients, **counts, seed=seed, order=order, parts=parts)


def split_patients(
    patients: Sequence[str],
    *,
    test: int,
    validation: int,
    train: int | None = None,
    seed: int,
    order: Order = "mixed",
    parts: Sequence[object] | None = None,
) -> ImagePools:
    """Split images into three pools that share no patient.

    The test pool is drawn from one patient in ten, mixed, and from more, one after the other, if
    these have too few images; this order is the same for all seeds. The validation pool is drawn
    likewise from the remaining patients, in the seed's order. All images of a patient with an
    image in one of these two pools are kept out of training; all others are for training. The
    first n images of a pool are the same however large it is, and `train` changes neither of the
    other pools.

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
    order : {"mixed", "patients"}, default "mixed"
        Whether training images are mixed over all patients, or follow patient by patient.
    parts : sequence of {"train", "validation", "test", None}, optional
        The part of each image in a split of your own; None leaves an image out.

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
    _checks.one_of("order", order, ORDERS)
    for part, wanted in counts.items():
        if wanted is not None or part != "train":
            remedy = "count the pool's images"
            _checks.count(part, wanted, at_least=0, at_most=2**31, remedy=remedy)
    labels = np.asarray([str(each) for each in patients], dtype=str)
    if not len(labels):
        raise KoriskError("patients must name the patient of each image, got none; read images")
    first: dict[str, object] = {}
    for label, word in zip(labels.tolist(), parts or [None] * len(labels), strict=True):
        if word not in (None, *counts):
            raise KoriskError(
                f"split must be train, validation, test or None for a file, got {shown(word)}"
            )
        if word is not None and first.setdefault(label, word) != word:
            raise KoriskError(
                f"patient {shown(label)} is in two parts of the split, {first[label]} and {word}; "
                "put all images of a patient into one part"
            )
    names, whose = np.unique(labels, return_inverse=True)
    free = np.ones(len(labels), dtype=bool)
    pools = {}
    for part, wanted in counts.items():
        # A part takes images of `mixed` patients mixed, then those of each other patient. Sorted by
        # keys, not shuffled: those who are left keep their order when others go.
        mixed = len(names) if parts is not None else -(-len(names) // _SHARE)
        if part == "train":
            mixed = len(names) if order == "mixed" else 1
        inside = np.flatnonzero(free if parts is None else np.asarray(parts) == part)
        keys = []
        for what, count in (("patients", len(names)), ("images", len(labels))):
            key = stream_key(TEST_SEED if part == "test" else seed, f"order of {part} {what}")
            keys.append(np.random.Generator(np.random.Philox(key=key)).random(count))
        present = np.unique(whose[inside])
        wait = np.empty(len(names), dtype=np.int64)
        wait[present[np.argsort(keys[0][present])]] = np.maximum(
            np.arange(len(present)) - mixed + 1, 0
        )
        pools[part] = inside[np.lexsort((keys[1][inside], wait[whose[inside]]))][:wanted]
        if len(inside) < (least := 1 if wanted is None else wanted):
            asked = ", ".join(f"{each} {number}" for each, number in counts.items() if number)
            raise KoriskError(
                f"{part} must be at most {len(inside):,}, got {least:,}: no patient may be in two "
                f"pools, and there are {len(labels):,} images of {len(names):,} patients for "
                f"{asked}, with seed {seed}; ask for fewer, add patients, or read images with "
                "patients='file' or 'image' if every file or image is a patient of its own"
            )
        free &= ~np.isin(labels, labels[pools[part]])
    return ImagePools(**pools)
