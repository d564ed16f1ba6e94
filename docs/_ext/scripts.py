"""What the site makes of the gallery's folder before its scripts run."""

import builtins
from pathlib import Path
from typing import Any


def name_file(settings: dict[str, Any], name: str) -> None:
    """Give a script its `__file__`, which sphinx-gallery keeps from it."""
    path = Path(settings["examples_dirs"]) / Path(name).name
    builtins.__file__ = str(path)


def without_list(readme: str) -> str:
    """The gallery's opening words; its list of files is for readers without thumbnails."""
    words, mark, _ = readme.partition("\n.. On the site")
    if not mark:
        raise ValueError("README.rst: has no line '.. On the site' before its list of scripts")
    return words + "\n"
