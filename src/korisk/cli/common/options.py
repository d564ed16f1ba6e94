"""Options that several commands share, or that only the command line has; see `Command`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter, Option

from korisk._checks import require
from korisk.cli.common.output import check_plot
from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError, invalid
from korisk.files import page_file

Json = Annotated[bool, "Print JSON instead."]
Plot = Annotated[Path | None, "FILE", "Draw a figure, .png, .svg or .pdf (needs korisk[report])."]
Metric = Annotated[str, "mse|rmse|nmse|psnr", "Of targets and answers."]
Range = Annotated[
    float | None, Option("--range"), "X", "Range of image values, for psnr. [default: their own]"
]
Column = Annotated[list[str] | None, "OURS=YOURS", "Name a column: --column n=train_size."]
Folder = Annotated[Path, "DIR", "The folder of a study, or its store."]
Device = Annotated[str, "cpu, cuda, cuda:1, or auto: a GPU if there is one."]
Full = Annotated[bool, "Print everything: more levels, all that is odd, tables."]


class Percent(float):
    """A target typed with a percent sign."""


def _target(text: str) -> float:
    """Parse a target such as 0.01 or 88%."""
    try:
        return Percent(float(text[:-1])) if text.endswith("%") else float(text)
    except ValueError:
        raise BadParameter(f"{text!r} is not a valid float.") from None


_TARGET = "The value to reach, in the unit of the metric, such as 0.003, 30 or 88%."
Targets = Annotated[list[float] | None, Option(parser=_target), "E", _TARGET]


@dataclass(frozen=True)
class Asked:
    """The targets and sizes that are asked about, and how sure the answer is to be."""

    target: Targets = None
    at: Annotated[list[float] | None, "N", "Show the expected error at N."] = None
    sure: Annotated[float, "P", "Chance that the samples are enough, 0.5 to 0.99."] = 0.9


@dataclass(frozen=True)
class Answer:
    """Where the answer is written, besides sentences and tables on the terminal."""

    plot: Plot = None
    html: Annotated[Path | None, "FILE", "Write a page, FILE.html (needs korisk[report])."] = None
    json: Json = False

    def check(self, targets: Sequence[float]) -> None:
        """Raise if a file could not be written, before anything is computed."""
        count = len(set(targets))
        drawable, remedy = self.plot is None or count < 2, "leave the others out"
        require(drawable, "--plot", "draw one --target", count, remedy)
        check_plot(self.plot)
        if self.html is not None:
            page_file(self.html)


@dataclass(frozen=True)
class Running:
    """Where and how cells of a study are run."""

    device: Device = "auto"
    workers: Annotated[
        int | None, "W", "Processes; 0 is this one. [default: one a core for small images, else 1]"
    ] = None
    retry_failed: Annotated[bool, "Also run cells that failed in an earlier run."] = False
    wait: Annotated[float, "SECONDS", "How long to wait while another run uses the store."] = 0.0
    page: Annotated[bool, "Write report.html into the folder too (needs korisk[report])."] = False


def in_unit(targets: Sequence[float], curves: Sequence[Curve]) -> list[float]:
    """Each target once, in the unit of the curves: 88% is 88 for scores up to 100, else 0.88."""
    unit = curves[0].unit
    percent = unit.law == "percent" or unit.name in ("error_percent", "rmse_percent")
    up_to_100 = percent or (unit.law == "error" and curves[0].error.max() > 1)
    values: dict[float, None] = {}
    for target in targets:
        is_share = isinstance(target, Percent) and not up_to_100
        if is_share and unit.law not in ("error", "complement"):
            problem = f"--target {target:g}% needs a metric up to 1 or 100, not {unit.name}"
            raise KoriskError(f"{problem}; write the value to reach")
        values[float(target) / 100 if is_share else float(target)] = None
    return list(values)


def pairs(option: str, texts: list[str] | None, form: str, example: str) -> dict[str, list[str]]:
    """Parse the KEY=VALUE texts of a repeated option into lists by key."""
    values: dict[str, list[str]] = {}
    for text in texts or []:
        key, separator, value = text.partition("=")
        require(bool(key.strip() and separator), option, f"be {form}", text, example)
        values.setdefault(key.strip(), []).append(value.strip())
    return values


def columns(texts: list[str] | None) -> dict[str, str]:
    """Parse the --column options: a mapping from our names to the file's."""
    names_by_column = pairs("--column", texts, "OURS=YOURS", "write n=train_size")
    return {ours: file_names[-1] for ours, file_names in names_by_column.items()}


def whole_numbers(option: str, text: str) -> list[int]:
    """Parse `8,16,32`."""
    try:
        return [int(entry) for entry in text.split(",")]
    except ValueError:
        raise invalid(option, "be whole numbers, as in 8,16,32", text) from None


@dataclass(frozen=True)
class Reading:
    """The options that say how files are read; none of them has a default but None."""

    metric: Annotated[str | None, "Which metric; where none is named, what to call it."]
    unit: Annotated[str | None, "UNIT", f"{', '.join(UNITS)}. [default: by the metric's name]"]
    column: Column
    filter: Annotated[list[str] | None, "COLUMN=VALUE", "Rows: set=test, or set=!train for others."]
    ignore: Annotated[list[str] | None, "COLUMN", "Columns without a role."]
    wide: Annotated[str | None, "seed|model", "What columns with unknown names are."]
    point: Annotated[str | None, "Which point, if a study has several."]
    worksheet: Annotated[str | None, "Which sheet, if a spreadsheet has several."]

    def arguments(self) -> dict[str, Any]:
        """Convert the options to arguments of `Curve.read`."""
        options = dict(vars(self))
        options["columns"] = columns(options.pop("column"))
        options["filter"] = pairs("--filter", self.filter, "COLUMN=VALUE", "write set=test")
        return options

    def curves(self, path: Path, model: str | None = None) -> tuple[Curve, ...]:
        """Read the curves of a file or store: one for each model, or the one that is named."""
        if model is not None:
            return (Curve.read(path, model=model, **self.arguments()),)
        return Curve.read_all(path, **self.arguments())


def read_as(curves: Sequence[Curve]) -> list[str]:
    """How the table was read, in one sentence; nothing if that needs no mention."""
    sentences = dict.fromkeys(f"Read: {curve.read_as}." for curve in curves if curve.read_as)
    return [" ".join(sentences)] if sentences else []
