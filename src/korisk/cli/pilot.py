"""What `korisk plan` and `korisk compare` share: options that name a pilot, and table cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from korisk.cli.output import whole
from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError, shown
from korisk.files import figure_kind
from korisk.planning.explain import chance, count
from korisk.planning.fit import DEFAULT_FIT, FITS
from korisk.planning.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Target = Annotated[
    float | None, typer.Option(metavar="E", help="The value to reach, in the pilot's unit.")
]
FitOption = Annotated[
    str, typer.Option("--fit", metavar="FIT", help=f"Extrapolation fit: {', '.join(FITS)}.")
]
UnitOption = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="UNIT",
        help=f"Unit of the values: {', '.join(UNITS)}. [default: by the metric's name]",
    ),
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
PointOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which point, if a study has several.")
]
SheetOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which sheet, if a spreadsheet has several.")
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a page on which the target can be changed: FILE.html (needs korisk[report]).",
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


@dataclass(frozen=True)
class Reading:
    """How files are read: what the options say."""

    metric: str | None
    unit: str | None
    column: list[str] | None
    point: str | None
    sheet: str | None

    def curves(self, path: Path, model: str | None = None) -> tuple[Curve, ...]:
        """The curves in one file or store, one for each model, or that of the named one."""
        options: dict[str, Any] = {
            **{"metric": self.metric, "unit": self.unit, "columns": columns(self.column)},
            **{"point": self.point, "sheet": self.sheet},
        }
        if model is not None:
            return (Curve.read(path, model=model, **options),)
        return Curve.read_all(path, **options)


def read_as(curves: Sequence[Curve]) -> str:
    """How the table was read, in a sentence; nothing where that is a matter of course."""
    found = dict.fromkeys(curve.read_as for curve in curves if curve.read_as)
    return "".join(f"Read: {each}. " for each in found).strip()


def check_plot(path: Path) -> None:
    """Refuse a plot that could not be written before anything is computed."""
    import korisk.report.figures.pilot  # noqa: F401 (says so where matplotlib is missing)

    figure_kind(path)


def answer(plan: Plan, levels: Sequence[float]) -> list[str]:
    """Cells on N: number, its chance, ends of its interval, safe numbers, the largest chance."""
    samples = "-" if plan.samples is None else f"{'≤ ' * plan.at_once}{whole(plan.samples)}"
    odds = "-" if plan.chance is None else chance(plan.chance)
    reach = "-" if math.isnan(plan.reach) else chance(plan.reach)
    if plan.doubt:
        return [samples, odds, *["-"] * (2 + len(levels)), reach]
    ends = [count(end) if math.isinf(end) else whole(int(end)) for end in (plan.lower, plan.upper)]
    ends = ["-", ends[1]] if plan.at_once else ends
    safe = [plan.safe(level) for level in levels]
    return [samples, odds, *ends, *("none" if n is None else whole(n) for n in safe), reach]


def check_page(path: Path, fit: str) -> None:
    """Refuse a page that could not be written, or not with this fit, before anything is read."""
    if path.suffix.lower() not in (".html", ".htm"):
        suffix = path.suffix or "none"
        raise KoriskError(f"{path}: the suffix of a page must be .html, got {suffix}; rename it")
    if not path.parent.is_dir():
        raise KoriskError(f"{path}: cannot be written: no such folder; make it first")
    if fit != DEFAULT_FIT:
        raise KoriskError(
            f"--html needs fit {DEFAULT_FIT!r}, got {fit!r}; leave --fit out, or use --plot"
        )


def save_plot(figure: "Figure", path: Path) -> None:
    """Write a figure and say so on stderr, where it disturbs no machine that reads stdout."""
    from korisk.report.figures.style import save

    save(figure, path)
    typer.echo(f"korisk: wrote {path}", err=True)
