"""What `korisk plan` and `korisk compare` share: options that name a pilot, and table cells."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from korisk.cli.output import whole
from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError, shown
from korisk.figure_file import figure_kind
from korisk.planning.calibrate import CURVE_METHODS
from korisk.planning.explain import chance, count
from korisk.planning.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Target = Annotated[
    float | None, typer.Option(metavar="E", help="The value to reach, in the pilot's unit.")
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method", metavar="METHOD", help=f"Extrapolation method: {', '.join(CURVE_METHODS)}."
    ),
]
UnitOption = Annotated[
    str,
    typer.Option("--unit", metavar="UNIT", help=f"Unit of the values: {', '.join(UNITS)}."),
]
MetricOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which metric, if the file holds several.")
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OURS=YOURS",
        help="Name a column: --column n=train_size --column error=test_mse. Repeatable.",
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Draw a figure: FILE.png, .svg or .pdf (needs korisk[report])."
    ),
]


def columns(options: list[str] | None) -> dict[str, str]:
    """The --column options as a mapping from our names to the file's."""
    pairs = {}
    for option in options or []:
        ours, separator, theirs = option.partition("=")
        if not separator or not ours or not theirs:
            raise KoriskError(
                f"--column must be OURS=YOURS, got {shown(option)}; "
                "write --column n=train_size, for example"
            )
        pairs[ours.strip()] = theirs.strip()
    return pairs


def read(
    path: Path, *, metric: str | None, unit: str, column: list[str] | None
) -> tuple[Curve, ...]:
    """The curves in one file, one for each model."""
    return Curve.read_all(path, metric=metric, unit=unit, columns=columns(column))


def check_plot(path: Path) -> None:
    """Refuse a plot that could not be written before anything is computed."""
    import korisk.report.figures.pilot  # noqa: F401 (says so where matplotlib is missing)

    figure_kind(path)


def end(value: float) -> str:
    """The end of an interval of N."""
    return count(value) if math.isinf(value) else whole(int(value))


def answer(plan: Plan) -> list[str]:
    """Cells on N: the number, the chance that it is enough, and the ends of its interval."""
    samples = "-" if plan.samples is None else whole(plan.samples)
    odds = "-" if plan.chance is None else chance(plan.chance)
    ends = ["-", "-"] if plan.doubt else [end(plan.lower), end(plan.upper)]
    return [samples, odds, *ends]


def safe(plan: Plan, level: float) -> str:
    """The N that is enough with a probability; `none` where no N is."""
    found = None if plan.doubt else plan.safe(level)
    if found is None:
        return "-" if plan.doubt else "none"
    return whole(found)


def reach(plan: Plan) -> str:
    """The most that any N has."""
    return "-" if math.isnan(plan.reach) else chance(plan.reach)


def save_plot(figure: "Figure", path: Path) -> None:
    """Write a figure and say so on stderr, where it disturbs no machine that reads stdout."""
    from korisk.report.figures.pilot import save

    save(figure, path)
    typer.echo(f"korisk: wrote {path}", err=True)
