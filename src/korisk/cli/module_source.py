"""Networks from files, and from the user's own Python: `package.module:factory`."""

from __future__ import annotations

import contextlib
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from korisk.cli.output import warnings_as_lines
from korisk.errors import KoriskError, shown
from korisk.theory import Network

_FORM = "write package.module:factory, such as models.unet:example"
_RETURNS = "it must return (module, example), an nn.Module and an input tensor, batches first"


def chosen_network(path: Path | None, module: str | None, write: Path | None) -> Network:
    """The network of a file, or of a module, which may be kept as a file."""
    if path is not None and module is not None:
        raise KoriskError(
            f"the network comes from {path} or from --module {module}; leave one of them out"
        )
    if module is None:
        if path is None:
            raise KoriskError(
                "Missing argument 'NETWORK.yaml'; name a file, or a PyTorch module with --module "
                "package.module:factory"
            )
        if write is not None:
            raise KoriskError(
                f"--write keeps what --module describes, and {path} is a file already; copy it"
            )
        return Network.read(path)
    net = described(module)
    if write is not None:
        net.write(write)
        typer.echo(f"korisk: wrote {write}", err=True)
    return net


def described(place: str) -> Network:
    """The network of the module that a factory gives, described on its example.

    What the user's code prints goes to stderr, so that --json stays readable.
    """
    with _importable(Path.cwd()), contextlib.redirect_stdout(sys.stderr), warnings_as_lines():
        module, example = _made(place, _factory(place))
        from korisk.networks.describe.describe import describe

        return describe(module, example, name=place if len(place) <= 80 else place[-80:])


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let modules of the folder be imported, as `python -m` would."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def _factory(place: str) -> Callable[[], Any]:
    name, colon, attribute = place.partition(":")
    parts = [*name.split("."), *attribute.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise KoriskError(f"--module names a factory, got {shown(place)}; {_FORM}")
    importlib.invalidate_caches()
    with _blamed(f"importing {name}"):
        try:
            found: Any = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
                raise
            raise KoriskError(
                f"--module {place}: there is no module {missing.name!r} in this folder or among "
                f"the installed packages; {_FORM}"
            ) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise KoriskError(f"--module {place}: {name} has no {attribute!r}; {_FORM}")
        found = getattr(found, part)
    if not callable(found):
        raise KoriskError(
            f"--module {place}: {attribute} must be a function without arguments, got "
            f"{shown(found)}; {_RETURNS}"
        )
    return found  # type: ignore[no-any-return]


def _made(place: str, factory: Callable[[], Any]) -> tuple[Any, Any]:
    with _blamed(f"{place} "):
        given = factory()
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise KoriskError(f"--module {place}: {_RETURNS}, got {shown(given)}")
    return given[0], given[1]


@contextlib.contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Turn what the user's code raises into one line that says what, and where."""
    try:
        yield
    except KoriskError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())
        raise KoriskError(
            f"{what.strip()} failed: {type(error).__name__}{': ' if said else ''}"
            f"{said if len(said) <= 300 else said[:297] + '...'} "
            f"({Path(last.filename).name}, line {last.lineno}); try it in Python first"
        ) from error
