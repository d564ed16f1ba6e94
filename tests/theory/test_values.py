"""What holds for every value of theory and curves, whatever it is."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import korisk.curves
import korisk.theory


def _values() -> Iterator[type]:
    for room in (korisk.theory, korisk.curves):
        for found in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            module = importlib.import_module(found.name)
            for value in vars(module).values():
                if isinstance(value, type) and value.__module__ == found.name:
                    yield value


VALUES = {value.__name__: value for value in _values() if dataclasses.is_dataclass(value)}

# They hold arrays, which have no single answer to ==, and are looked up by what they are.
BY_IDENTITY = (
    "Bound", "BarronBound", "Law", "Misfit", "Moment", "PredictedPair", "PredictedTrack",
    "Prediction", "Spectrum", "Structured",
)  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_are_frozen(name: str) -> None:
    if inspect.isabstract(VALUES[name]):
        return  # Python wants all that derive from a frozen one to be frozen
    made = object.__new__(VALUES[name])
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.anything = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", BY_IDENTITY)
def test_values_with_arrays_are_keys_by_identity(name: str) -> None:
    made, same = (object.__new__(VALUES[name]) for _ in range(2))
    assert made != same
    assert len({made, same}) == 2
