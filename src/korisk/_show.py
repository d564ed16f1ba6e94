"""The one arrow up: values draw themselves with `korisk.report`, loaded when something is shown."""

from importlib import import_module
from typing import Any


def from_report(module: str, name: str) -> Any:
    """A name of `korisk.report.<module>`; `MissingExtraError` where matplotlib is missing."""
    return getattr(import_module(f"korisk.report.{module}"), name)
