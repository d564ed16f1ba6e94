"""What a script of the gallery may expect when the site runs it: to know its own place."""

import builtins
from pathlib import Path
from typing import Any


def name_file(settings: dict[str, Any], name: str) -> None:
    """Give a script its `__file__`, which sphinx-gallery keeps from it."""
    path = Path(settings["examples_dirs"]) / Path(name).name
    builtins.__file__ = str(path)
