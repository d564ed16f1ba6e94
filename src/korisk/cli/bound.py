"""`korisk bound`: the deep risk of a network, layer by layer, and the sample size it implies."""

from pathlib import Path
from typing import Annotated

import typer

from korisk.cli.common import own_code
from korisk.cli.common.command import command
from korisk.cli.common.options import Json, Plot, Target
from korisk.cli.common.output import check_plot, print_json, save_plot, show, tell
from korisk.errors import Argument, KoriskError
from korisk.theory import Network
from korisk.theory.overview import overview


@command("theory.overview.overview")
def bound(
    network: Annotated[
        Path | None, typer.Argument(), "NETWORK.yaml", "The network; see examples/ for some."
    ] = None,
    module: Annotated[
        str | None,
        "PACKAGE.MODULE:FACTORY",
        "Describe a PyTorch module instead: the function returns (module, example).",
    ] = None,
    n: Annotated[float | None, typer.Option("-n"), "N"] = None,
    target: Target = None,
    replace: str | None = None,
    bound: str = "composed",
    effective: bool = False,
    write: Annotated[Path | None, "FILE.yaml", "Save the network that --module describes."] = None,
    plot: Plot = None,
    diagram: Annotated[Path | None, "FILE", "Draw the layers: FILE.png, .svg or .pdf."] = None,
    json: Json = False,
) -> None:
    """Bound the expected squared error of a network, layer by layer.

    Known layers add nothing; a learned layer adds an approximation part that stays and an
    estimation part that falls as log N / N. Amplification A_l says how far a layer's squared error
    can grow on its way to the output. Where a layer states its effective dimension, the bound is
    shown with it too. --plot draws the bound over N, with its floor and the target.
    """
    check_plot(plot)
    check_plot(diagram)
    if (network is None) == (module is None):
        raise KoriskError(
            "give a file NETWORK.yaml or a PyTorch module with --module, one of them; "
            f"{own_code.FACTORY}"
        )
    if network is not None and write is not None:
        raise KoriskError(
            f"--write keeps what --module describes, and {network} is a file; copy it"
        )
    net = own_code.described(module) if module is not None else Network.read(network or "")
    # Written before the bound, which may be refused for a constant to add to this file.
    if write is not None:
        net.write(write)
        tell(f"wrote {write}")
    try:
        result = overview(net, n, target, bound=bound, effective=effective, replace=replace)
    except KoriskError as error:
        # Say where the constant can be given: a described module has no file to edit.
        if Argument("lipschitz", ...) not in error.message.parts:
            raise
        place = f" to that layer in {network}"
        if module is not None:
            place = (
                " to its mark in the code (kr.mark_known or kr.mark_learned), or in the file that "
                "--write FILE.yaml keeps"
            )
        raise KoriskError(error.message, place) from None
    if plot is not None:
        from korisk.report.figures.bound import overview_figure

        save_plot(overview_figure(result), plot)
    if diagram is not None:
        from korisk.report.figures.networks import architecture_figure
        from korisk.studies.networks import TitledNetwork

        save_plot(architecture_figure([TitledNetwork(net.name or "network", net)]), diagram)
    if json:
        print_json(result.to_dict())
    else:
        show(*result.tables(), result.explain())
    result.require()
