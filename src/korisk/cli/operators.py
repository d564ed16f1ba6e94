"""`korisk operators`: the known operators of one scanner, with their shapes and norms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from korisk import _checks
from korisk.cli.output import cells, console, number, print_json, table, warnings_as_lines
from korisk.cli.pilot import PlotOption
from korisk.errors import KoriskError

if TYPE_CHECKING:
    from korisk.operators import Geometry, LinearOperator
    from korisk.theory.bracket import NormBracket

LARGEST_FACTORED = 4096  # rows of A^T A that are factored; larger ones are solved by iteration
WINDOWS = ("ramp", "shepp-logan", "cosine", "hamming", "hann")
NOT_ADJOINT = (
    "The A^T of this filtered backprojection is pixel-driven, as a fan beam and bins wider than "
    "pixels need: it is not the adjoint of A, and its norm is another."
)


@dataclass(frozen=True)
class Row:
    """One operator and what is known of it."""

    name: str
    source: tuple[int, ...]
    target: tuple[int, ...]
    bracket: NormBracket

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "name": self.name,
            "from": list(self.source),
            "to": list(self.target),
            "norm": {
                "lower": self.bracket.lower,
                "upper": self.bracket.upper,
                "how": self.bracket.how,
            },
        }


Millimetres = Annotated[float | None, typer.Option(metavar="MM", help="Fan beam: millimetres.")]


def operators(
    H: Annotated[int, typer.Argument(metavar="H", help="Image side in pixels.")],
    V: Annotated[int, typer.Argument(metavar="V", help="Number of views.")],
    B: Annotated[int, typer.Argument(metavar="B", help="Number of detector bins.")],
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
    plot: PlotOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """List the known operators of a CT scanner with their shapes and norms.

    Norms are brackets: the true one lies between lower and upper. They are the Lipschitz constants
    that `korisk bound` asks for.
    """
    _require_torch()
    _checks.one_of("--window", window, WINDOWS)
    distances = _distances(fan, source_to_center, source_to_detector)
    with warnings_as_lines():
        geometry = _geometry(
            (H, H),
            views=V,
            bins=B,
            arc=_radians(arc),
            pixel_spacing=pixel,
            bin_spacing=bin_spacing,
            detector_offset=offset,
            **distances,
        )
    if plot is not None:  # first: it is quick, and a wrong path should not cost the norms
        _draw(geometry, plot)
    operators = _scanner_operators(geometry, window, mu)
    scanner = _rows(operators, width)
    beside = _rows(_others(H), width)
    if as_json:
        print_json(_as_json(geometry, window, mu, scanner, beside))
        return
    out = console()
    out.print(_table(_title(geometry, window), scanner))
    if not _is_adjoint(operators["A^T"]):
        out.print(NOT_ADJOINT, highlight=False)
        out.print()
    out.print(_table("beside CT", beside))


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise KoriskError("korisk operators needs PyTorch; pip install 'korisk[torch]'") from None


# --- The scanner ---------------------------------------------------------------------------------


def _distances(fan: bool, to_center: float | None, to_detector: float | None) -> dict[str, float]:
    if not fan:
        if to_center is not None or to_detector is not None:
            raise KoriskError(
                "--source-to-center and --source-to-detector belong to a fan beam; add --fan"
            )
        return {}
    if to_center is None or to_detector is None:
        raise KoriskError(
            "--fan needs --source-to-center and --source-to-detector; give both in millimetres"
        )
    return {"source_to_center": to_center, "source_to_detector": to_detector}


def _radians(arc: float | None) -> float | None:
    if arc is None:
        return None
    remedy = "give degrees, up to 360"
    degrees = _checks.real("--arc", arc, above=0, remedy=remedy)
    if degrees > 360:
        raise KoriskError(f"--arc must be at most 360, got {degrees:g}; {remedy}")
    return math.radians(degrees)


def _geometry(shape: tuple[int, int], **options: Any) -> Geometry:
    from korisk.operators import FanBeam, ParallelBeam

    return (FanBeam if "source_to_center" in options else ParallelBeam)(shape, **options)


def _draw(geometry: Geometry, path: Path) -> None:
    geometry.plot(path)
    typer.echo(f"korisk: wrote {path}", err=True)


# --- Its operators -------------------------------------------------------------------------------


def _is_adjoint(operator: LinearOperator) -> bool:
    from korisk.operators import Adjoint

    return isinstance(operator, Adjoint)


def _scanner_operators(
    geometry: Geometry, window: Any, mu: float | None
) -> dict[str, LinearOperator]:
    import torch

    from korisk.operators import Adjoint, Projector, Tikhonov, fbp

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
    return named


def _others(side: int) -> dict[str, LinearOperator]:
    import torch

    from korisk.operators import Diffusion, Fourier

    return {
        "Fourier": Fourier((side, side), dtype=torch.float64),
        "Diffusion": Diffusion(side, viscosity=0.01, time=0.1, dtype=torch.float64),
    }


def _rows(named: dict[str, LinearOperator], width: float) -> list[Row]:
    from korisk.operators import Adjoint

    known: dict[LinearOperator, NormBracket] = {}
    rows = []
    for name, operator in named.items():
        same = operator.T if isinstance(operator, Adjoint) else operator  # of one norm
        if same not in known:
            with _status(f"bracketing the norm of {name}"):
                known[same] = operator.norm(width=width)
        rows.append(Row(name, operator.domain, operator.range, known[same]))
    return rows


@contextmanager
def _status(words: str) -> Iterator[None]:
    """A line that moves while work goes on, where somebody watches."""
    err = Console(stderr=True)
    if err.is_terminal:
        with err.status(words):
            yield
    else:
        yield


# --- What is printed -----------------------------------------------------------------------------


def _title(geometry: Geometry, window: str) -> str:
    rows, columns = geometry.image_shape
    beam = type(geometry).__name__.replace("Beam", " beam").lower()
    return (
        f"{beam}, {rows} x {columns} pixels, {geometry.views_count} views, {geometry.bins} bins, "
        f"{window} window"
    )


def _table(title: str, rows: list[Row]) -> Table:
    shown = table(title, "operator", "from", "to", "norm lower", "norm upper", "how", text=3)
    shown.columns[-1].justify = "left"
    for row in rows:
        low, high = row.bracket.lower, row.bracket.upper
        shapes = _shape(row.source), _shape(row.target)
        shown.add_row(*cells(row.name, *shapes, number(low, 5), number(high, 5), row.bracket.how))
    return shown


def _shape(lengths: tuple[int, ...]) -> str:
    return " x ".join(str(length) for length in lengths)


def _as_json(
    geometry: Geometry, window: str, mu: float | None, scanner: list[Row], beside: list[Row]
) -> dict[str, Any]:
    return {
        "geometry": repr(geometry),
        "truncation": geometry.truncation,
        "window": window,
        "mu": mu,
        "operators": [row.as_json() for row in scanner],
        "beside_ct": [row.as_json() for row in beside],
    }
