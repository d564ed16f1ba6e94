"""Which files are images: folders searched, in one order on every machine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from korisk.errors import KoriskError, shown
from korisk.images.formats.arrays import read_npy, read_npz
from korisk.images.formats.dicom import is_dicom, read_dicom
from korisk.images.formats.hdf5 import read_hdf5
from korisk.images.formats.page import Page
from korisk.images.formats.pictures import read_png, read_tiff

Reader = Callable[[Path, str | None], Iterator[Page]]
Source = str | PathLike[str]
READERS: dict[str, Reader] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".png": read_png,
    ".tif": read_tiff,
    ".tiff": read_tiff,
    ".dcm": read_dicom,
    ".dicom": read_dicom,
    ".ima": read_dicom,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
}
KINDS = ".npy, .npz, .png, .tif, .h5, .hdf5, and DICOM under any name"
_INDEX = "DICOMDIR"  # a table of contents


class ImageFile(NamedTuple):
    """A file to be read, under the name that messages and `ImageSet.files` have for it."""

    path: Path
    name: str  # relative to what was searched
    read: Reader
    member: str | None = None  # the array of an archive
    given: bool = True  # by name, not found in a folder


@dataclass
class Search:
    """What was searched: image files in order, folders that could not be opened, other files."""

    files: list[ImageFile]
    closed: list[tuple[str, str]]
    others: Counter[str]


def find_images(source: Source | Sequence[Source], pattern: str | None) -> Search:
    """The image files of a folder, of one file, or of a list of both."""
    given = [source] if isinstance(source, str | PathLike) else list(source)
    if not given:
        raise KoriskError("source must name a folder or files, got an empty list; name one")
    places = [_place(each) for each in given]
    root = _root([path for path, _ in places])
    search = Search([], [], Counter())
    seen: set[str] = set()
    for path, member in places:
        candidates = _below(path, root, search) if path.is_dir() else [path]
        for each in candidates:
            key = f"{each.resolve()}:{member}"  # a file that is named twice is read once
            if key not in seen and (path == each or _matches(each, path, pattern)):
                seen.add(key)
                _sort_in(search, each, root, member, given=path == each)
    return search


def _place(source: Source) -> tuple[Path, str | None]:
    """A path that exists, and the member behind its colon: "file.h5:/path"."""
    given: object = source
    if not isinstance(given, str | PathLike) or not os.fspath(source):
        raise KoriskError(f"source must be a path or a list of paths, got {shown(source)}")
    text = os.fspath(source)
    path = Path(os.path.abspath(text))  # noqa: PTH100 (links keep their names)
    member = None
    try:
        if not path.exists() and ":" in text:
            before, _, member = text.rpartition(":")
            path = Path(os.path.abspath(before))  # noqa: PTH100
        there = path.is_dir() or path.is_file()
    except (OSError, ValueError):  # too long a name, a null byte
        there = False
    if not there:
        kind = "is neither a file nor a folder" if os.path.lexists(text) else "does not exist"
        raise KoriskError(f"{shown(text, limit=200)}: {kind}; check the path")
    return path, member


def _root(paths: list[Path]) -> Path:
    """What names are relative to, so that they stay when all is moved elsewhere."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    return Path(os.path.commonpath(folders))


def _below(folder: Path, root: Path, search: Search) -> list[Path]:
    """All files that are not hidden; linked folders too, each once, so that loops end."""

    def closed(error: OSError) -> None:
        name = _name(Path(error.filename or folder), root)
        search.closed.append((name, f"cannot be opened: {(error.strerror or 'error').lower()}"))

    found = []
    visited: set[tuple[int, int]] = set()
    for here, folders, names in os.walk(folder, followlinks=True, onerror=closed):
        status = Path(here).stat()
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(here, name) for name in names if not name.startswith(".")]
    return sorted(found, key=lambda path: path.relative_to(folder).parts)


def _matches(path: Path, folder: Path, pattern: str | None) -> bool:
    if pattern is None:
        return True
    name = path.relative_to(folder).as_posix() if "/" in pattern else path.name
    return fnmatchcase(name, pattern)


def _sort_in(search: Search, path: Path, root: Path, member: str | None, *, given: bool) -> None:
    reader = READERS.get(path.suffix.lower())
    if reader is None and (given or path.name != _INDEX) and path.is_file() and is_dicom(path):
        reader = read_dicom
    if reader is not None:
        search.files.append(ImageFile(path, _name(path, root), reader, member, given))
    elif given:
        raise KoriskError(f"{_name(path, root)}: is none of the kinds that are read: {KINDS}")
    else:
        search.others[path.suffix.lower() or "no ending"] += 1


def _name(path: Path, root: Path) -> str:
    """One line of plain text, whatever bytes the name has."""
    text = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if clean.isprintable() else clean.encode("unicode_escape").decode()
