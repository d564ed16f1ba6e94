"""Files that figures are written to: which kinds there are, and writing them whole."""

from os import PathLike
from pathlib import Path

from korisk.errors import KoriskError, shown

KINDS = ("png", "svg", "pdf")


def figure_kind(path: str | PathLike[str]) -> str:
    """The kind of a figure's file, if its suffix names one and its folder is there."""
    if not isinstance(path, str | PathLike):
        raise KoriskError(f"path must be the name of a picture, got {shown(path)}")
    file = Path(path)
    kind = file.suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise KoriskError(
            f"{path}: the suffix of a figure must be .png, .svg or .pdf, "
            f"got {file.suffix or 'none'}; rename the file"
        )
    if "\0" not in str(path) and not file.parent.is_dir():
        raise KoriskError(f"{path}: cannot be written: no such folder; make it first")
    return kind


def write_figure(path: str | PathLike[str], content: bytes) -> None:
    """Write a figure whole or not at all."""
    from korisk.files import write_bytes  # imports pydantic and yaml

    write_bytes(path, content)
