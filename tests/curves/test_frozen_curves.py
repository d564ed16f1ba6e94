"""What holds for every value of a package, whatever it is."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest

import korisk.curves


def test_values_are_frozen() -> None:
    names = [module.name for module in pkgutil.iter_modules(korisk.curves.__path__)]
    modules = [importlib.import_module(f"korisk.curves.{name}") for name in names]
    values = [
        value
        for module in modules
        for _, value in inspect.getmembers(module, inspect.isclass)
        if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    ]
    assert len(values) > 5
    for value in values:
        with pytest.raises(dataclasses.FrozenInstanceError):
            object.__new__(value).anything = 1  # type: ignore[attr-defined]
