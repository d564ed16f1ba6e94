"""Whose image it is: as the file says, by folder, by file, or as its user says."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Literal

from korisk.errors import KoriskError, shown
from korisk.files import read_text

Patients = (
    Literal["auto", "folder", "file", "image"]
    | str
    | PathLike[str]
    | Callable[[str], object]
    | Mapping[str, object]
)
RULES = ("auto", "folder", "file", "image")
_LARGEST = 64_000_000  # bytes of a table


def name_patients(
    rule: Patients, names: Sequence[str], stated: Sequence[str | None]
) -> tuple[str, ...]:
    """The patient of each image, from its name ("folder/file#page") and what its file states.

    `rule` is one that `checked_rule` gave back.
    """
    if isinstance(rule, Mapping):
        return _looked_up(rule, names)
    if not isinstance(rule, str | PathLike):
        return tuple(_label(rule(name), name) for name in names)
    if rule == "auto":  # what a file states goes first
        return tuple(
            _folder(name) if said is None else said
            for name, said in zip(names, stated, strict=True)
        )
    by: dict[str, Callable[[str], str]] = {"folder": _folder, "file": file_of, "image": str}
    return tuple(by[str(rule)](name) for name in names)


def checked_rule(rule: object) -> Patients:
    """`rule`, if patients can be named by it; so that nothing is read in vain."""
    if callable(rule) or isinstance(rule, Mapping) or (isinstance(rule, str) and rule in RULES):
        return rule
    if isinstance(rule, PathLike) or (isinstance(rule, str) and rule.lower().endswith(".csv")):
        return read_table(rule)
    raise KoriskError(
        f"patients must be one of {', '.join(RULES)}, a function, a mapping or a .csv file with "
        f"the columns file and patient, got {shown(rule)}"
    )


def file_of(name: str) -> str:
    """The file of an image: its name without the page."""
    before, mark, page = name.rpartition("#")
    return before if mark and page.isdigit() else name


def read_table(path: str | PathLike[str]) -> dict[str, str]:
    """File to patient, from a table with these two columns."""
    text = read_text(path, max_bytes=_LARGEST)
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=None)))  # any ends of lines
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


def _folder(name: str) -> str:
    """The first folder below what was searched: a patient's series never come apart."""
    return name.split("/", 1)[0] if "/" in name else "."


def _looked_up(table: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    labels = []
    missing = []
    for name in names:
        key = name if name in table else file_of(name)
        if key in table:
            labels.append(_label(table[key], name))
        else:
            missing.append(name)
    if missing:
        raise KoriskError(
            f"patients says nothing of {len(missing):,} of {len(names):,} images, the first is "
            f"{missing[0]}; name files as ImageSet.files does"
        )
    return tuple(labels)


def _label(value: object, name: str) -> str:
    text = "" if value is None else str(value).strip()
    if not text:
        raise KoriskError(f"{name}: must have a patient, got {shown(value)}; name one")
    return text
