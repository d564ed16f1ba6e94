"""`korisk operators`: the known operators of a CT scanner, and what the networks on them weigh."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from korisk import _checks
from korisk.cli.output import (
    cells,
    console,
    number,
    print_json,
    refuse_extra,
    table,
    warnings_as_lines,
    whole,
)
from korisk.cli.pilot import PlotOption
from korisk.errors import KoriskError, MissingExtraError
from korisk.theory.footprint import Footprint, adam_bytes, format_bytes, weight_bytes

if TYPE_CHECKING:
    from korisk.operators import Geometry, LinearOperator
    from korisk.theory.bracket import NormBracket

LARGEST_FACTORED = 4096  # rows of A^T A that are factored; larger ones are solved by iteration
WINDOWS = ("ramp", "shepp-logan", "cosine", "hamming", "hann")
NOT_ADJOINT = (
    "The A^T of this filtered backprojection is pixel-driven, which has the smaller error: it is "
    "not the adjoint of A, and its norm differs."
)
Millimetres = Annotated[float | None, typer.Option(metavar="MM", help="Fan beam: millimetres.")]


def operators(
    context: typer.Context,
    side: Annotated[int, typer.Argument(metavar="H", help="Image side in pixels.")],
    views: Annotated[int, typer.Argument(metavar="V", help="Number of views.")],
    bins: Annotated[int, typer.Argument(metavar="B", help="Number of detector bins.")],
    fan: Annotated[
        bool, typer.Option("--fan", help="A fan beam; needs both distances. [default: parallel]")
    ] = False,
    source_to_center: Millimetres = None,
    source_to_detector: Millimetres = None,
    arc: Annotated[
        float | None,
        typer.Option(
            metavar="DEGREES", help="Arc of the views. [default: 180, and 360 for a fan beam]"
        ),
    ] = None,
    pixel: Annotated[float, typer.Option(metavar="MM", help="Pixel spacing.")] = 1.0,
    bin_spacing: Annotated[float, typer.Option("--bin", metavar="MM", help="Bin spacing.")] = 1.0,
    offset: Annotated[float, typer.Option(metavar="MM", help="Shift of the detector.")] = 0.0,
    window: Annotated[
        str, typer.Option(metavar="NAME", help=f"Window of K: {', '.join(WINDOWS)}.")
    ] = "ramp",
    mu: Annotated[
        float | None,
        typer.Option(
            "--mu", metavar="MU", help="Add the regularised inverse (A^T A + MU I)^-1 A^T."
        ),
    ] = None,
    width: Annotated[
        float, typer.Option(metavar="W", help="Relative width to aim for in a norm's bracket.")
    ] = 0.01,
    footprint: Annotated[
        bool,
        typer.Option("--footprint", help="Parameters and memory alone, which needs no PyTorch."),
    ] = False,
    plot: PlotOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """List the known operators of a CT scanner with their norms, and what networks on them weigh.

    A norm is a bracket: the true one lies between lower and upper. It is the Lipschitz constant
    that `korisk bound` asks for.
    """
    out = console()
    size = Footprint(side, views, bins)
    if footprint:
        why = "--footprint shows what depends on H, V and B alone"
        refuse_extra(context, "side", "views", "bins", "footprint", "as_json", why=why)
        if as_json:
            print_json({"footprint": _footprint_json(size)})
        else:
            out.print(_footprint_table(size))
            out.print(f"FC : KO = H^2 = {size.ratio:,} : 1", highlight=False)
        return
    try:
        from korisk.operators import FanBeam, ParallelBeam
    except MissingExtraError:
        raise MissingExtraError(
            "korisk operators needs PyTorch for norms; pip install 'korisk[torch]', or use "
            "--footprint"
        ) from None
    _checks.one_of("--window", window, WINDOWS)
    distances = {"source_to_center": source_to_center, "source_to_detector": source_to_detector}
    if {each is not None for each in distances.values()} != {fan}:
        raise KoriskError(
            "--fan, --source-to-center and --source-to-detector belong together: give all three, "
            "or none of them for a parallel beam"
        )
    scan: dict[str, Any] = {"views": views, "bins": bins, **(distances if fan else {})}
    scan |= {"pixel_spacing": pixel, "bin_spacing": bin_spacing, "detector_offset": offset}
    if arc is not None:
        degrees = _checks.real("--arc", arc, above=0, at_most=360, remedy="give degrees")
        scan["arc"] = math.radians(degrees)
    with warnings_as_lines():
        geometry = (FanBeam if fan else ParallelBeam)(side, **scan)
    if plot is not None:  # first: it is quick, and a wrong path should not cost the norms
        geometry.plot(plot)
        typer.echo(f"korisk: wrote {plot}", err=True)
    scanner, others = scanner_operators(geometry, window, mu)
    listed, beside = _with_norms(scanner, width), _with_norms(others, width)
    if as_json:
        told = {"geometry": repr(geometry), "truncation": geometry.truncation}
        told |= {"window": window, "mu": mu, "operators": _rows_json(listed)}
        told |= {"beside_ct": _rows_json(beside), "footprint": _footprint_json(size)}
        print_json(told)
        return
    beam = type(geometry).__name__.replace("Beam", " beam").lower()
    title = f"{beam}, {side} x {side} pixels, {views} views, {bins} bins, {window} window"
    out.print(_norm_table(title, listed))
    if scanner["A^T"].T is not scanner["A"]:
        out.print(NOT_ADJOINT, highlight=False, end="\n\n")
    out.print(_norm_table("beside CT", beside))
    out.print(_footprint_table(size))


def scanner_operators(
    geometry: Geometry, window: Any, mu: float | None
) -> tuple[dict[str, LinearOperator], dict[str, LinearOperator]]:
    """The operators of a scanner by name, and two known operators of other fields beside them."""
    import torch

    from korisk.operators import Adjoint, Diffusion, Fourier, Projector, Tikhonov, fbp

    # In double precision from the start: norms are computed there, and share what they build.
    whole = fbp(geometry, window=window, dtype=torch.float64)
    weights, kernel, back = whole["W"], whole["K"], whole["A^T"]
    projector = back.T if isinstance(back, Adjoint) else Projector(geometry, dtype=torch.float64)
    named = {
        "W": weights,
        "K": kernel,
        "A": projector,
        "A^T": back,
        "A^T K": back @ kernel,
        "A^T K W": whole,
    }
    if mu is not None:
        shorter = min(math.prod(projector.domain), math.prod(projector.range))
        solver = "factor" if shorter <= LARGEST_FACTORED else "cg"
        named["A^+"] = Tikhonov(projector, mu, solver=solver)
    side = geometry.image_shape[0]
    others: dict[str, LinearOperator] = {
        "Fourier": Fourier((side, side), dtype=torch.float64),
        "Diffusion": Diffusion(side, viscosity=0.01, time=0.1, dtype=torch.float64),
    }
    return named, others


def _with_norms(
    named: dict[str, LinearOperator], width: float
) -> dict[str, tuple[LinearOperator, NormBracket]]:
    """Each operator with its norm; an operator and its adjoint share one."""
    from korisk.operators import Adjoint

    err = Console(stderr=True)
    norms: dict[LinearOperator, NormBracket] = {}
    found = {}
    for name, operator in named.items():
        same = operator.T if isinstance(operator, Adjoint) else operator
        if same not in norms:
            shown = err.status(f"bracketing the norm of {name}")
            with shown if err.is_terminal else nullcontext():
                norms[same] = operator.norm(width=width)
        found[name] = operator, norms[same]
    return found


def _rows_json(rows: dict[str, tuple[LinearOperator, NormBracket]]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "from": list(operator.domain),
            "to": list(operator.range),
            "norm": {"lower": norm.lower, "upper": norm.upper, "how": norm.how},
        }
        for name, (operator, norm) in rows.items()
    ]


def _norm_table(title: str, rows: dict[str, tuple[LinearOperator, NormBracket]]) -> Table:
    shown = table(title, "operator", "from", "to", "norm lower", "norm upper", "how", text=3)
    shown.columns[-1].justify = "left"
    for name, (operator, norm) in rows.items():
        shapes = [" x ".join(map(str, shape)) for shape in (operator.domain, operator.range)]
        shown.add_row(*cells(name, *shapes, number(norm.lower, 5), number(norm.upper, 5), norm.how))
    return shown


def _footprint_json(size: Footprint) -> dict[str, Any]:
    networks = {
        name: {"parameters": n, "weight_bytes": weight_bytes(n), "adam_bytes": adam_bytes(n)}
        for name, n in (("KO", size.known_parameters), ("FC", size.dense_parameters))
    }
    return {"H": size.H, "V": size.V, "B": size.B, "ratio": size.ratio, "networks": networks}


def _footprint_table(size: Footprint) -> Table:
    shown = table("networks on this scanner", "network", "parameters", "FP32 weights", "Adam state")
    for name, n in (("KO", size.known_parameters), ("FC", size.dense_parameters)):
        memory = map(format_bytes, (weight_bytes(n), adam_bytes(n)))
        shown.add_row(*cells(name, whole(n), *memory))
    return shown
