"""What holds for every value of theory, curves, planning and prediction, whatever it is."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="predictions need it")
PACKAGES = ("theory", "curves", "planning", "prediction")


def _values() -> Iterator[type]:
    for name in PACKAGES:
        package = importlib.import_module(f"korisk.{name}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(found.name)).values():
                if isinstance(value, type) and value.__module__ == found.name:
                    yield value


# A name with an underscore is a step of its module, not a value that is handed out.
VALUES = {
    value.__name__: value
    for value in _values()
    if dataclasses.is_dataclass(value) and value.__name__[0] != "_"
}


def test_values_are_frozen() -> None:
    assert len(VALUES) > 30
    for value in VALUES.values():
        if not inspect.isabstract(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                object.__new__(value).anything = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    [
        *("Bound", "BarronBound", "Law", "Chances", "Relatives", "Measured"),
        "RehearsedLaw",
    ],
)
def test_values_with_arrays_are_keys_by_identity(name: str) -> None:
    """They hold arrays, which have no single answer to ==, and are looked up by what they are."""
    made, same = (object.__new__(VALUES[name]) for _ in range(2))
    assert made != same
    assert len({made, same}) == 2
