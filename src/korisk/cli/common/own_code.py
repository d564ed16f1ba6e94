"""The user's own Python: networks from `package.module:factory` and from `FILE.py:BUILD`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from korisk import _checks
from korisk._json import JsonDict, JsonMapping
from korisk.cli.common.output import warnings_as_lines
from korisk.errors import KoriskError, MissingExtraError, did_you_mean, shown
from korisk.theory import Network

if TYPE_CHECKING:
    from torch import Tensor, nn

FACTORY = "write package.module:factory, such as models.unet:example"
_TRAINING = ("steps", "batch", "rate", "seeds", "largest")


def described(place: str, *, ball: float | None = None, inputs: Path | None = None) -> Network:
    """The network of the module that a factory gives, described on its example.

    On a ball of this radius around the example, or on the hull of the inputs of a file, if asked.
    """
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` would
    try:
        # What the user's code prints goes to stderr, so that --json stays readable.
        with contextlib.redirect_stdout(sys.stderr), warnings_as_lines():
            return _described(place, ball, inputs)
    finally:
        sys.path[:] = before


def _described(place: str, ball: float | None, inputs: Path | None) -> Network:
    name, _, attribute = place.partition(":")
    if not (name and attribute):
        raise KoriskError(f"--module names a factory, got {shown(place)}; {FACTORY}")
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(
            "--module needs PyTorch, which is not installed; pip install 'korisk[torch]'"
        )
    importlib.invalidate_caches()
    try:
        made = attrgetter(attribute)(importlib.import_module(name))()
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = shorten(f"{type(error).__name__}: {error}", 300, placeholder="...")
        raise KoriskError(
            f"--module {place} failed: {said} ({Path(last.filename).name}, line {last.lineno}); "
            f"try it in Python first; {FACTORY}"
        ) from error
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise KoriskError(
            f"--module {place} must return (module, example), an nn.Module and an input tensor, "
            f"batches first, got {shown(made)}"
        )
    from korisk.networks.describe.describe import describe
    from korisk.networks.describe.sets import Ball

    module, example = made
    title = place[-80:]
    if inputs is not None:
        return describe(module, example, inputs=_inputs(inputs), name=title)
    if ball is not None:
        _checks.real("--ball", ball, above=0, remedy="give the radius around the example")
        return describe(module, example, inputs=Ball(example[0], ball), name=title)
    return describe(module, example, name=title)


def _inputs(path: Path) -> Tensor:
    """The inputs that a file holds, batch first."""
    import torch

    from korisk.images.formats.page import check_fits, mapped_npy

    if not path.is_file():
        raise KoriskError(f"--inputs {path}: there is no such file; check the path")
    try:
        array = mapped_npy(path)
        check_fits(8 * array.size, "reading the inputs", "give fewer of them")
        return torch.from_numpy(array.astype("float64"))
    except (KoriskError, TypeError, ValueError) as error:
        raise KoriskError(
            f"--inputs {path}: {_first_line(error)}; save floats, batch first"
        ) from None


def read_build(option: str, place: str) -> tuple[Callable[[], nn.Module], JsonMapping]:
    """The function that `FILE.py:BUILD` names, and everything that its file defines."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise KoriskError(
            f"{option} must be FILE.py:BUILD, a function in a file, got {shown(place)}"
        )
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
    for folder in (str(folders[-1]), str(folders[0])):  # its neighbours, also while it runs
        if folder not in sys.path:
            sys.path.insert(0, folder)
    registered = sys.modules.setdefault(module.__name__, module)  # where dataclasses look it up
    try:
        # What the user's code prints goes to stderr, so that --json stays readable.
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
        known = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise KoriskError(f"{file} has no function {name!r}{did_you_mean(name, known)}")
    return build, vars(module)


@contextlib.contextmanager
def failures_named(option: str, place: str | None) -> Iterator[None]:
    """Errors of the user's own network, while it is trained, as one line that names its option."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (KoriskError, MemoryError, OSError):
        raise
    except Exception as error:
        if place is None:
            raise
        raise KoriskError(
            f"{option} {place} failed: {_first_line(error)}; try it on a batch of inputs first"
        ) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def training_options(
    training: Sequence[str] | None,
    of_study: JsonMapping | None = None,
    *,
    seed: int,
    examples: int,
    device: str,
) -> JsonDict:
    """The --training options, and a study's where they say nothing, for `rehearse` and `ablate`."""
    from korisk.prediction.rehearsal.rehearse import SIZES
    from korisk.prediction.rehearsal.simulation import Training

    options: JsonDict = {"seeds": 3, **(of_study or {})}
    for option in training or ():
        key, _, text = option.partition("=")
        _checks.one_of("--training", key, _TRAINING)
        try:
            options[key] = float(text) if key == "rate" else int(text)
        except ValueError:
            raise KoriskError(
                f"--training {key} must be a number, got {shown(text)}; say {key}=16, for example"
            ) from None
    if "largest" in options:
        largest, least = options.pop("largest"), 4 * SIZES[0]
        remedy = "try 2048"
        _checks.count("--training largest", largest, at_least=least, at_most=10**6, remedy=remedy)
        doubled = [SIZES[0] * 2**k for k in range(20)]
        options["sizes"] = [*(n for n in doubled if n < largest), largest]
    if isinstance(options["seeds"], int):
        _checks.count("seeds", options["seeds"], at_least=1, at_most=1000, remedy="try 3")
        first = (of_study or {}).get("seeds", [seed])[0]
        options["seeds"] = range(first, first + options["seeds"])
    named = {key: options.pop(key) for key in ("steps", "batch", "rate") if key in options}
    return options | {"training": Training(**named, examples=examples, device=device)}
