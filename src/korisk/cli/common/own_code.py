"""Networks in the user's Python code: `--network FILE.py:BUILD`."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from korisk._json import JsonDict
from korisk.cli.common.messages import warnings_as_lines
from korisk.cli.common.output import working
from korisk.errors import KoriskError, did_you_mean, needed_by, shown
from korisk.theory import Network

if TYPE_CHECKING:
    from torch import nn

_DATA = ("operator", "images", "noise", "patients")  # that the file of a network may define


def described(place: str) -> Network:
    """Describe the PyTorch module that BUILD returns, alone or with an example input."""
    with needed_by("--network", "PyTorch", "'korisk[torch]'"):
        from torch import nn
    from korisk.ablation.ablation import example_inputs
    from korisk.networks.describe.describe import describe

    with failures_named(place), warnings_as_lines():
        build, data = read_build(place)
        result: Any = build()
        if isinstance(result, nn.Module) and "operator" in data:
            result = result, example_inputs(data["operator"], result)
        if not isinstance(result, tuple | list) or len(result) != 2:
            rule = "must return (module, example), an nn.Module and an input tensor, batches first"
            module = f"--network {place} {rule}; or the module alone, with operator = ... beside it"
            raise KoriskError(f"{module}, got {shown(result)}")
        with working("describing the network"):
            return describe(*result, name=place[-80:])


def read_build(place: str) -> tuple[Callable[[], nn.Module], JsonDict]:
    """Import the function that `FILE.py:BUILD` names; return it with the data of its file."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise KoriskError(f"--network must be a function FILE.py:BUILD, got {shown(place)}")
    file = Path(path)
    # Inside a package the file is a module of it, so that `from .blocks import Block` works.
    names, folders = [file.stem], [file.resolve().parent]
    while (folders[-1] / "__init__.py").is_file():
        names.append(folders[-1].name)
        folders.append(folders[-1].parent)
    spec = importlib.util.spec_from_file_location(".".join(reversed(names)), file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise KoriskError(f"--network {file}: there is no such Python file; check the path")
    module = importlib.util.module_from_spec(spec)
    # Modules next to the file can be imported, also later, while the network is built.
    for folder in (str(folders[-1]), str(folders[0])):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    # Dataclasses and pickle look the module up by its name.
    registered = sys.modules.setdefault(module.__name__, module)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if registered is module:
            del sys.modules[module.__name__]
        raise _failed(file, "cannot be imported", error, "run it with Python first") from error
    build: Callable[[], nn.Module] | None = getattr(module, name, None)
    if not callable(build):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise KoriskError(f"{file} has no function {name!r}{did_you_mean(name, names)}")
    return build, {key: getattr(module, key) for key in _DATA if hasattr(module, key)}


@contextlib.contextmanager
def failures_named(place: str | None) -> Iterator[None]:
    """Report errors of the user's network as one line; what it prints goes to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # so that the output of --json stays valid
            yield
    except (KoriskError, MemoryError, OSError):  # not the network's fault; app.run explains them
        raise
    except (Exception, SystemExit) as error:
        if place is None or not _in_network(error, Path(place.rpartition(":")[0])):
            raise
        raise _failed(place, "failed", error, "try it in Python first") from error


def _in_network(error: BaseException, file: Path) -> bool:
    """Whether an error passed through the user's code or through a module that is not korisk's."""
    folder = file.resolve().parent
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if folder in Path(frame.f_code.co_filename).parents:
            return True
        module = type(frame.f_locals.get("self")).__module__
        if frame.f_code.co_name == "_call_impl" and not module.startswith("korisk."):
            return True
    return False


def _failed(place: str | Path, what: str, error: BaseException, remedy: str) -> KoriskError:
    """The kind of an error of the user's code, its first line, and where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    line = f"{Path(frame.filename).name}, line {frame.lineno}"
    return KoriskError(f"--network {place} {what}: {text} ({line}); {remedy}")
