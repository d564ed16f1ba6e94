"""`korisk bound`: the deep risk of a network, layer by layer, and the data it asks for."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from korisk._checks import one_of
from korisk.cli.bound_answer import DEFAULT_N, answer, asked
from korisk.cli.bound_json import as_json as json_of
from korisk.cli.bound_text import show
from korisk.cli.module_source import chosen_network
from korisk.cli.output import print_json
from korisk.errors import KoriskError, UnreachableError
from korisk.theory import BOUNDS, BoundForm


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
    bound_form: Annotated[
        str,
        typer.Option("--bound", metavar="BOUND", help="composed (tightest), minkowski or paper."),
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Bound the expected squared error of a network, layer by layer.

    Known layers add nothing; a learned layer adds an approximation part that stays and an
    estimation part that falls as log N / N. Amplification A_l says how far a layer's squared error
    can grow on its way to the output. Where a layer states its effective dimension, the bound is
    shown with it too.
    """
    form = _form(bound_form)
    net = chosen_network(network, module, write)
    with _completable(described=module is not None):
        question = asked(net, form, n, target, effective=effective)
        found = answer(net, question)
    replaced = None
    if replace is not None:
        same = dataclasses.replace(question, n=found.chosen.n)
        replaced = replace, answer(net.replace(replace), same)
    if as_json:
        print_json(json_of(found, replaced))
    else:
        show(found, replaced)
    if target is not None and not found.reached:
        raise UnreachableError(target=target, floor=found.chosen.floor, what=f"the {form} bound")


@contextmanager
def _completable(*, described: bool) -> Iterator[None]:
    """Say how a described network can be completed where a constant was only sampled."""
    try:
        yield
    except KoriskError as error:
        if not described or "no upper end" not in str(error):
            raise
        raise KoriskError(
            f"{error} to its mark in the code (kr.known or kr.learned), or in the file that "
            "--write FILE.yaml keeps"
        ) from None


def _form(word: str) -> BoundForm:
    one_of("--bound", word, BOUNDS)
    return next(form for form in BOUNDS if form == word)
