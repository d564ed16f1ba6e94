"""Examples in docstrings can be pasted as they stand, and every public name has one."""

import doctest
import inspect
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import korisk

SOURCE = Path(korisk.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PROMPT = re.compile(r"^ *>>> ", re.MULTILINE)
NEED_TORCH = re.compile(r"korisk\.(ablation|networks|prediction|pilots\.adapters)")
TORCH = re.compile(r"(torch|korisk\.(fitting|networks|operators|problems))(\.|$)")
PACKAGES = [f"korisk.{name}" for name in dir(korisk) if name not in korisk.__all__]


def _with_examples() -> list[str]:
    files = (file for file in SOURCE.rglob("*.py") if PROMPT.search(file.read_text("utf-8")))
    parts = (file.relative_to(SOURCE.parent).with_suffix("").parts for file in files)
    return sorted(".".join(part).removesuffix(".__init__") for part in parts)


class _NoTorch(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == "torch":
            raise ModuleNotFoundError("an example of the core asks for PyTorch", name=fullname)


@pytest.mark.parametrize("name", _with_examples())
def test_examples_print_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(name)
    homes = {getattr(getattr(korisk, each), "__module__", "") for each in korisk.__all__}
    if name in homes and not NEED_TORCH.match(name):
        for each in filter(TORCH.match, list(sys.modules)):  # the core works without PyTorch
            monkeypatch.delitem(sys.modules, each)
        monkeypatch.setattr(sys, "meta_path", [_NoTorch(), *sys.meta_path])
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


@pytest.mark.parametrize("home", ["korisk", *PACKAGES])
def test_every_public_name_has_an_example(home: str) -> None:
    module = import_module(home)
    values = {name: getattr(module, name) for name in module.__all__}
    # Constants have no docstring, and types such as Literal not one of their own.
    named = {
        name: value.__doc__
        for name, value in values.items()
        if isinstance(value, type | FunctionType)
    }
    assert named
    assert sorted(name for name, doc in named.items() if not PROMPT.search(doc or "")) == []
