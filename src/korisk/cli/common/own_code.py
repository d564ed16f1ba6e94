"""Networks in the user's Python code: `package.module:factory` and `FILE.py:BUILD`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from korisk._json import JsonMapping
from korisk.cli.common.output import warnings_as_lines
from korisk.errors import KoriskError, MissingExtraError, did_you_mean, shown
from korisk.theory import Network

if TYPE_CHECKING:
    from torch import nn

FACTORY = "write package.module:factory, such as models.unet:example"
_DATA = ("operator", "images", "noise", "patients")  # that the file of a network may define


def described(place: str) -> Network:
    """Describe the PyTorch module that a factory returns, with the example input it returns."""
    search_path = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` would
    try:
        # The user's code may print: to stderr, so that the output of --json stays valid.
        with contextlib.redirect_stdout(sys.stderr), warnings_as_lines():
            return _described(place)
    finally:
        sys.path[:] = search_path


def _described(place: str) -> Network:
    name, _, attribute = place.partition(":")
    if not (name and attribute):
        raise KoriskError(f"--module names a factory, got {shown(place)}; {FACTORY}")
    if importlib.util.find_spec("torch") is None:
        missing = "--module needs PyTorch, which is not installed"
        raise MissingExtraError(f"{missing}; pip install 'korisk[torch]'")
    # The file may have been written after Python listed its folder.
    importlib.invalidate_caches()
    try:
        result = attrgetter(attribute)(importlib.import_module(name))()
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        cause = shorten(f"{type(error).__name__}: {error}", 300, placeholder="...")
        raise KoriskError(
            f"--module {place} failed: {cause} ({Path(frame.filename).name}, line {frame.lineno}); "
            f"try it in Python first; {FACTORY}"
        ) from error
    if not isinstance(result, tuple | list) or len(result) != 2:
        rule = "must return (module, example), an nn.Module and an input tensor, batches first"
        raise KoriskError(f"--module {place} {rule}, got {shown(result)}")
    from korisk.networks.describe.describe import describe

    module, example = result
    return describe(module, example, name=place[-80:])


def read_build(option: str, place: str) -> tuple[Callable[[], nn.Module], JsonMapping]:
    """Import the function that `FILE.py:BUILD` names; return it with the data of its file."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise KoriskError(f"{option} must be a function FILE.py:BUILD, got {shown(place)}")
    file = Path(path)
    # Inside a package the file is a module of it, so that `from .blocks import Block` works.
    names, folders = [file.stem], [file.resolve().parent]
    while (folders[-1] / "__init__.py").is_file():
        names.append(folders[-1].name)
        folders.append(folders[-1].parent)
    spec = importlib.util.spec_from_file_location(".".join(reversed(names)), file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise KoriskError(f"{option} {file}: there is no such Python file; check the path")
    module = importlib.util.module_from_spec(spec)
    # Modules next to the file can be imported, also later, while the network is built.
    for folder in (str(folders[-1]), str(folders[0])):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    # Dataclasses and pickle look the module up by its name.
    registered = sys.modules.setdefault(module.__name__, module)
    try:
        # The user's code may print: to stderr, so that the output of --json stays valid.
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except Exception as error:
        if registered is module:
            del sys.modules[module.__name__]
        raise KoriskError(
            f"{option} {file} cannot be imported: {_first_line(error)}; run it with Python first"
        ) from error
    build: Callable[[], nn.Module] | None = getattr(module, name, None)
    if not callable(build):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise KoriskError(f"{file} has no function {name!r}{did_you_mean(name, names)}")
    return build, {key: getattr(module, key) for key in _DATA if hasattr(module, key)}


@contextlib.contextmanager
def failures_named(option: str, place: str | None) -> Iterator[None]:
    """Report errors of the user's network during training as one line that names the option."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (KoriskError, MemoryError, OSError):  # not the network's fault; app.run explains them
        raise
    except Exception as error:
        if place is None:
            raise
        raise KoriskError(
            f"{option} {place} failed: {_first_line(error)}; try it on a batch of inputs first"
        ) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
