"""`korisk footprint`: what the two CT networks weigh at one scale."""

from typing import Annotated

import typer

from korisk.cli.output import cells, console, print_json, table, whole
from korisk.theory.footprint import Footprint, adam_bytes, format_bytes, weight_bytes


def footprint(
    H: Annotated[int, typer.Argument(metavar="H", help="Image side in pixels.")],
    V: Annotated[int, typer.Argument(metavar="V", help="Number of views.")],
    B: Annotated[int, typer.Argument(metavar="B", help="Number of detector bins.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Show the parameters and memory of the known-operator and the dense CT network."""
    size = Footprint(H, V, B)
    counts = {"KO": size.known_parameters, "FC": size.dense_parameters}
    if as_json:
        networks = {
            name: {
                "parameters": count,
                "weight_bytes": weight_bytes(count),
                "adam_bytes": adam_bytes(count),
            }
            for name, count in counts.items()
        }
        print_json({"H": H, "V": V, "B": B, "ratio": size.ratio, "networks": networks})
        return
    shown = table(
        f"CT at {H} x {H} pixels, {V} views, {B} bins",
        "network",
        "parameters",
        "FP32 weights",
        "Adam state",
    )
    for name, count in counts.items():
        weights, adam = format_bytes(weight_bytes(count)), format_bytes(adam_bytes(count))
        shown.add_row(*cells(name, whole(count), weights, adam))
    out = console()
    out.print(shown)
    out.print(f"FC : KO = H^2 = {size.ratio:,} : 1", highlight=False)
