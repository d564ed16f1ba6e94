"""Examples in docstrings can be pasted as they stand, and every public name has one."""

import doctest
import inspect
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

import pytest

import korisk

SOURCE = Path(korisk.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PROMPT = re.compile(r"^ *>>> ", re.MULTILINE)
ADAPTERS = "korisk.pilots.adapters"  # to PyTorch and scikit-learn, which they need
TORCH = re.compile(r"(torch|korisk\.(fitting|networks|operators|problems))(\.|$)")
HOMES = ("korisk", "korisk.operators.testing", *(f"korisk.{room}" for room in korisk._ROOMS))


def _with_examples() -> list[str]:
    files = (file for file in SOURCE.rglob("*.py") if PROMPT.search(file.read_text("utf-8")))
    parts = (file.relative_to(SOURCE.parent).with_suffix("").parts for file in files)
    return sorted(".".join(part).removesuffix(".__init__") for part in parts)


def _core() -> set[str]:
    """Where names live that promise to work without PyTorch."""
    values = (getattr(korisk, name) for name in korisk.__all__)
    return {getattr(value, "__module__", "") for value in values} - {ADAPTERS}


class _NoTorch(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == "torch":
            raise ModuleNotFoundError("an example of the core asks for PyTorch", name=fullname)


def _hide_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in filter(TORCH.match, list(sys.modules)):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_NoTorch(), *sys.meta_path])


@pytest.mark.parametrize("name", _with_examples())
def test_examples_print_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(name)
    if name in _core():
        _hide_torch(monkeypatch)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    # Without the module's own names: what an example uses, it imports.
    found = doctest.DocTestFinder().find(module, name, globs={})
    for example in (each for each in found if each.examples):
        folder = tmp_path / example.name
        folder.mkdir()
        monkeypatch.chdir(folder)
        runner.run(example, out=said.append)
    assert not said, "".join(said)
    assert runner.tries == len(PROMPT.findall(inspect.getsource(module))), "some were not found"


@pytest.mark.parametrize("home", HOMES)
def test_every_public_name_has_an_example(home: str) -> None:
    module = import_module(home)
    names = {*_public(module), *(korisk._NAMES if module is korisk else ())}
    values = {name: getattr(module, name) for name in names}
    # Constants have no docstring, and types such as Literal not one of their own.
    kinds = (type, type(_public))
    named = {name: value.__doc__ for name, value in values.items() if isinstance(value, kinds)}
    assert named
    assert sorted(name for name, doc in named.items() if not PROMPT.search(doc or "")) == []


def _public(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = (name for name, value in vars(module).items() if _home(value) == module.__name__)
    return [name for name in own if not name.startswith("_")]


def _home(value: object) -> str:
    return getattr(value, "__module__", "")
