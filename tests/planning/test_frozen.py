"""Results are values: no field of one can be changed behind a report that was made of it."""

import importlib
import inspect
import pkgutil

import pytest

# Modules are imported inside the test, so that what runs on import belongs to it.


@pytest.mark.parametrize("package", ["korisk.theory", "korisk.curves", "korisk.planning"])
def test_every_dataclass_is_frozen(package: str) -> None:
    root = importlib.import_module(package)
    count = 0
    for info in pkgutil.walk_packages(root.__path__, f"{package}."):
        module = importlib.import_module(info.name)
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == info.name and "__dataclass_params__" in vars(kind):
                count += 1
                assert vars(kind)["__dataclass_params__"].frozen, f"{info.name}.{name}"
    assert count > 3
