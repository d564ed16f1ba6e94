"""`korisk bound`: the deep risk of a network, layer by layer, and the data it asks for.

The network comes from a file, or from the user's own Python, `package.module:factory`.
"""

import contextlib
import importlib
import sys
import traceback
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer

from korisk._checks import one_of, target_error
from korisk.cli.bound_answer import DEFAULT_N, answer, as_json, show
from korisk.cli.output import print_json, warnings_as_lines
from korisk.errors import KoriskError, UnreachableError, shown
from korisk.theory import BOUNDS, Network
from korisk.theory.bound import states_effective

_FORM = "write package.module:factory, such as models.unet:example"


def bound(
    network: Annotated[
        Path | None,
        typer.Argument(metavar="NETWORK.yaml", help="The network; see examples/ for some."),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            metavar="PACKAGE.MODULE:FACTORY",
            help="Describe a PyTorch module instead: the function returns (module, example).",
        ),
    ] = None,
    n: Annotated[
        float | None,
        typer.Option(
            "-n",
            metavar="N",
            help=f"Training samples. [default: what --target needs, else {DEFAULT_N}]",
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(metavar="E", help="Squared error to reach; shows the N from which it holds."),
    ] = None,
    replace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show what making this layer known would save."),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--bound", metavar="FORM", help="composed (tightest), minkowski or paper."),
    ] = "composed",
    effective: Annotated[
        bool,
        typer.Option(
            "--effective",
            help="Let the layers' effective dimensions decide, an estimate, instead of p.",
        ),
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Save the network that --module describes."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Bound the expected squared error of a network, layer by layer.

    Known layers add nothing; a learned layer adds an approximation part that stays and an
    estimation part that falls as log N / N. Amplification A_l says how far a layer's squared error
    can grow on its way to the output. Where a layer states its effective dimension, the bound is
    shown with it too.
    """
    one_of("bound", form, BOUNDS)
    asked = next(each for each in BOUNDS if each == form)
    net = _network(network, module, write)
    both = states_effective(net)
    if effective and not both:
        raise KoriskError(
            "--effective needs a learned layer that states its effective dimension, and this "
            "network has none; add `effective:` to a layer of the file, or leave --effective out"
        )
    wanted = None if target is None else target_error(target)
    try:
        found = answer(net, asked, n, wanted, effective=effective, both=both)
    except KoriskError as error:
        if module is None or "no upper end" not in str(error):
            raise
        raise KoriskError(
            f"{error} to its mark in the code (kr.known or kr.learned), or in the file that "
            "--write FILE.yaml keeps"
        ) from None
    after = None
    if replace is not None:
        less = net.replace(replace)
        after = answer(less, asked, found.chosen.n, wanted, effective=effective, both=both)
    if json:
        print_json(as_json(found, replace, after))
    else:
        show(found, replace, after)
    if wanted is not None and not found.reached:
        raise UnreachableError(target=wanted, floor=found.chosen.floor, what=f"the {form} bound")


def _network(path: Path | None, module: str | None, write: Path | None) -> Network:
    """The network of a file, or of a module, which may be kept as a file."""
    if (path is None) == (module is None):
        raise KoriskError(
            f"name either a file NETWORK.yaml or a PyTorch module with --module, not both; {_FORM}"
        )
    if path is not None and write is not None:
        raise KoriskError(f"--write keeps what --module describes, and {path} is a file; copy it")
    if module is None:
        return Network.read(path or "")
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` would
    try:
        # What the user's code prints goes to stderr, so that --json stays readable.
        with contextlib.redirect_stdout(sys.stderr), warnings_as_lines():
            net = _described(module)
    finally:
        sys.path[:] = before
    if write is not None:
        net.write(write)
        typer.echo(f"korisk: wrote {write}", err=True)
    return net


def _described(place: str) -> Network:
    """The network of the module that a factory gives, described on its example."""
    name, _, attribute = place.partition(":")
    if not (name and attribute):
        raise KoriskError(f"--module names a factory, got {shown(place)}; {_FORM}")
    importlib.invalidate_caches()
    try:
        made = attrgetter(attribute)(importlib.import_module(name))()
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = shorten(f"{type(error).__name__}: {error}", 300, placeholder="...")
        raise KoriskError(
            f"--module {place} failed: {said} ({Path(last.filename).name}, line {last.lineno}); "
            f"try it in Python first; {_FORM}"
        ) from error
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise KoriskError(
            f"--module {place} must return (module, example), an nn.Module and an input tensor, "
            f"batches first, got {shown(made)}"
        )
    from korisk.networks.describe.describe import describe

    return describe(*made, name=place[-80:])
