"""What `korisk plan` and `korisk compare` share: how a pilot is named on the command line."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from korisk.cli.output import whole
from korisk.curves.calibrate import CURVE_METHODS
from korisk.curves.curve import Curve
from korisk.curves.forecast import DEFAULT_METHOD
from korisk.curves.plan import Plan
from korisk.curves.unit import UNITS
from korisk.curves.words import chance
from korisk.errors import KoriskError, shown
from korisk.figure_file import figure_kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Target = Annotated[
    float | None, typer.Option(metavar="E", help="The value to reach, in the pilot's own unit.")
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method", metavar="METHOD", help=f"How to carry the curve on: {', '.join(CURVE_METHODS)}."
    ),
]
UnitOption = Annotated[
    str,
    typer.Option("--unit", metavar="UNIT", help=f"What the values are: {', '.join(UNITS)}."),
]
MetricOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which metric, where the file holds several.")
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
    typer.Option(metavar="FILE", help="Draw it: FILE.png, .svg or .pdf (needs korisk[report])."),
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
    import korisk.report.pilot_figure  # noqa: F401 (says so where matplotlib is missing)

    figure_kind(path)


def end(value: float) -> str:
    """The end of an interval of N."""
    return "no end" if math.isinf(value) else whole(int(value))


def safe(plan: Plan, level: float) -> str:
    """An N to budget for, with a star where not all futures count."""
    found = plan.safe(level)
    if found is None:
        return "-"
    return whole(found) if math.isfinite(plan.upper) else f"{whole(found)}*"


def star(named: Sequence[tuple[str, Plan]]) -> str | None:
    """What the star of `safe` means in a table of these plans; None where no number has one."""
    marked = [
        (name, plan) for name, plan in named if plan.samples is not None and math.isinf(plan.upper)
    ]
    if not marked:
        return None
    if marked[0][1].method != DEFAULT_METHOD:
        return "* a multiple of N, because its band has no upper end."
    until = [
        f"{name} by N = {plan.before_long:,} ".lstrip()
        + f"(chance {chance(plan.probability(plan.before_long))})"
        for name, plan in marked
    ]
    return f"* if the target is met before long: {', '.join(until)}."


def save_plot(figure: "Figure", path: Path) -> None:
    """Write a figure and say so on stderr, where it disturbs no machine that reads stdout."""
    from korisk.report.pilot_figure import save

    save(figure, path)
    typer.echo(f"korisk: wrote {path}", err=True)
