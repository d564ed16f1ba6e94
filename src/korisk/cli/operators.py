"""`korisk operators`: known operators of a CT scanner, their norms, and the size of networks."""

from __future__ import annotations

import math
from typing import Annotated

import typer
from rich.console import Console

from korisk import _checks
from korisk._json import JsonDict
from korisk.cli.common.command import command
from korisk.cli.common.options import Json, Plot
from korisk.cli.common.output import print_json, refuse_extra, show, tell, warnings_as_lines
from korisk.errors import KoriskError, MissingExtraError
from korisk.theory.footprint import Footprint

Millimetres = Annotated[float, "MM"]


@command(
    "operators.ct.scanner.scanner",
    "operators.ct.geometry.FanBeam",
    pixel_spacing="pixel",
    bin_spacing="bin",
    detector_offset="offset",
)
def operators(
    context: typer.Context,
    side: Annotated[int, "H", "Image side in pixels."],
    views: Annotated[int, "V", "Number of views."],
    bins: Annotated[int, "B", "Number of detector bins."],
    fan: Annotated[bool, "A fan beam; needs both distances. [default: parallel]"] = False,
    source_to_center: Annotated[float | None, "MM"] = None,
    source_to_detector: Annotated[float | None, "MM"] = None,
    arc: Annotated[
        float | None, "DEGREES", "Arc of the views. [default: 180, and 360 for a fan beam]"
    ] = None,
    pixel: Millimetres = 1.0,
    bin: Millimetres = 1.0,
    offset: Millimetres = 0.0,
    window: str = "ramp",
    mu: Annotated[float | None, "MU"] = None,
    width: Annotated[float, "W"] = 0.01,
    footprint: Annotated[bool, "Parameters and memory alone, which needs no PyTorch."] = False,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """List the known operators of a CT scanner with their norms, and the size of networks.

    A norm is a bracket: the true one lies between lower and upper. It is the Lipschitz constant
    that `korisk bound` asks for.
    """
    # Needs no PyTorch, and so comes before the imports below.
    size = Footprint(side, views, bins)
    if footprint:
        rule = "--footprint shows what depends on H, V and B alone"
        refuse_extra(context, "side", "views", "bins", "footprint", "json", why=rule)
        if json:
            print_json({"footprint": size.to_dict()})
        else:
            show(size.table(), f"FC : KO = H^2 = {size.ratio:,} : 1")
        return
    try:
        from korisk.operators import FanBeam, ParallelBeam
        from korisk.operators.ct.scanner import scanner
    except MissingExtraError:
        raise MissingExtraError(
            "korisk operators needs PyTorch for norms; pip install 'korisk[torch]', or use "
            "--footprint"
        ) from None
    if {source_to_center is not None, source_to_detector is not None} != {fan}:
        raise KoriskError(
            "--fan, --source-to-center and --source-to-detector belong together: give all three, "
            "or none of them for a parallel beam"
        )
    settings: JsonDict = {"views": views, "bins": bins, "pixel_spacing": pixel}
    settings |= {"bin_spacing": bin, "detector_offset": offset}
    if fan:
        settings |= {"source_to_center": source_to_center, "source_to_detector": source_to_detector}
    if arc is not None:
        degrees = _checks.real("--arc", arc, above=0, at_most=360, remedy="give degrees")
        settings["arc"] = math.radians(degrees)
    with warnings_as_lines():
        geometry = (FanBeam if fan else ParallelBeam)(side, **settings)
    # Drawn first: norms take long, and a path that cannot be written should fail before.
    if plot is not None:
        geometry.plot(plot)
        tell(f"wrote {plot}")
    with Console(stderr=True).status("building the operators") as status:
        result = scanner(geometry, window=window, mu=mu, width=width, progress=status.update)
    if json:
        print_json(result.to_dict())
    else:
        show(*result.tables())
