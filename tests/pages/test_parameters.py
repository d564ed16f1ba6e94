"""Every public function, class and method documents its parameters and what it returns."""

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import korisk

validate = pytest.importorskip("numpydoc.validate").validate

PACKAGES = ("korisk", *(f"korisk.{name}" for name in dir(korisk) if name not in korisk.__all__))
# No parameter section, one that names others, no type, no description; no Returns;
# sections in another order, or unknown ones.
RULES = {"PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "GL06", "GL07"}


def public() -> Iterator[tuple[str, Any]]:
    """Each public function, class and method that overrides none, by its dotted name."""
    seen = set()
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.isclass(value) and not inspect.isfunction(value):
                continue
            home = f"{value.__module__}.{value.__qualname__}"
            if home in seen or not value.__module__.startswith("korisk"):
                continue
            seen.add(home)
            yield home, value
            if inspect.isclass(value):
                for member, method in vars(value).items():
                    plain = inspect.unwrap(getattr(method, "__func__", method))
                    inherited = any(hasattr(base, member) for base in value.__mro__[1:])
                    if member[0] != "_" and inspect.isfunction(plain) and not inherited:
                        yield f"{home}.{member}", plain


def faults(name: str, value: Any) -> list[str]:
    found = [f"{code} {text}" for code, text in validate(name)["errors"] if code in RULES]
    if (
        inspect.isclass(value)
        and not dataclasses.is_dataclass(value)
        and "__init__" not in vars(value)
    ):
        found = [each for each in found if not each.startswith("PR")]
    return found


def test_every_parameter_is_documented() -> None:
    found = {name: told for name, value in public() if (told := faults(name, value))}
    assert not found, "\n".join(f"{name}: {'; '.join(told)}" for name, told in found.items())
