"""Options that several commands share, or that only the command line has; see `Command`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter, Option

from korisk import _checks
from korisk._json import JsonDict, JsonMapping
from korisk.cli.common.output import print_json, show
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, shown
from korisk.files import page_file
from korisk.texts import counted, number, whole

MOST_SHOWN = 10  # curves of one file

Json = Annotated[bool, "Print JSON instead."]
Plot = Annotated[
    Path | None, "FILE", "Draw a figure: FILE.png, .svg or .pdf (needs korisk[report])."
]
Html = Annotated[
    Path | None,
    "FILE",
    "Write a page on which the target can be changed: FILE.html (needs korisk[report]).",
]
Target = Annotated[float | None, "E"]
# A lambda, because the parser is defined further down.
Targets = Annotated[list[float] | None, Option(parser=lambda text: _target(text)), "E"]
Column = Annotated[
    list[str] | None,
    "OURS=YOURS",
    "Name a column: --column n=train_size --column error=test_mse. Repeatable.",
]
Folder = Annotated[Path, "DIR", "The folder of a study, or its store."]

# --- Where and how a study runs ---
Device = Annotated[str, "NAME"]
Workers = Annotated[int | None, "W"]
Full = Annotated[bool, "Print the tables as well."]


Yes = Annotated[bool, Option("--yes"), "Start trainings of more than ten minutes unasked."]


@dataclass(frozen=True)
class Running:
    """The options that say how cells of a study are run."""

    retry_failed: bool = False
    wait: Annotated[float, "SECONDS", "How long to wait while another run uses the store."] = 0.0
    page: Annotated[bool, "Write report.html into the folder too (needs korisk[report])."] = False


@dataclass(frozen=True)
class Recipe:
    """The options that say how networks are trained; a study has them otherwise."""

    sizes: Annotated[str | None, "N,N,N"] = None
    seeds: Annotated[
        int | None,
        "How many networks for each size, counted up from --seed. [default: the study's, or 3]",
    ] = None
    steps: int | None = None
    batch: int | None = None
    rate: float | None = None

    def arguments(
        self, of_study: JsonMapping, *, seed: int, examples: int, device: str
    ) -> JsonDict:
        """Replace those of a study; arguments of `rehearse` and `ablate`."""
        from korisk.prediction.rehearsal.simulation import Training

        overrides = {key: value for key, value in vars(self).items() if value is not None}
        options: JsonDict = {"seeds": 3, **of_study, **overrides}
        if self.sizes is not None:
            try:
                options["sizes"] = [int(n) for n in self.sizes.split(",")]
            except ValueError:
                rule = f"--sizes must be whole numbers, got {shown(self.sizes)}"
                raise KoriskError(f"{rule}; write --sizes 16,64,256, for example") from None
        if isinstance(options["seeds"], int):
            _checks.count("seeds", options["seeds"], at_least=1, at_most=1000, remedy="try 3")
            # A number of seeds counts up from the study's first seed, or from --seed.
            first = of_study.get("seeds", [seed])[0]
            options["seeds"] = range(first, first + options["seeds"])
        recipe = {key: options.pop(key) for key in ("steps", "batch", "rate") if key in options}
        return options | {"training": Training(**recipe, examples=examples, device=device)}


class Percent(float):
    """A target typed with a percent sign."""


def _target(text: str) -> float:
    """Parse a target such as 0.01 or 88%."""
    try:
        return Percent(float(text[:-1])) if text.endswith("%") else float(text)
    except ValueError:
        raise BadParameter(f"{text!r} is not a valid float.") from None


def in_unit(targets: Sequence[float], curves: Sequence[Curve]) -> list[float]:
    """Convert targets to the unit of the curves: 88% is 88 for scores up to 100, else 0.88."""
    unit, values = curves[0].unit, []
    for target in targets:
        percent = unit.law == "percent" or unit.name in ("error_percent", "rmse_percent")
        known = percent or unit.law in ("error", "complement")
        if isinstance(target, Percent) and not known:
            problem = f"--target {target:g}% needs a metric up to 1 or 100, and this is"
            raise KoriskError(f"{problem} {unit.name}; write the value to reach")
        up_to_100 = percent or (unit.law == "error" and curves[0].error.max() > 1)
        is_fraction = isinstance(target, Percent) and not up_to_100
        values.append(float(target) / 100 if is_fraction else float(target))
    return list(dict.fromkeys(values))


def pairs(option: str, texts: list[str] | None, form: str, example: str) -> dict[str, list[str]]:
    """Parse the KEY=VALUE texts of a repeated option into lists by key."""
    values: dict[str, list[str]] = {}
    for text in texts or []:
        key, separator, value = text.partition("=")
        if not key.strip() or not separator:
            rule = f"{option} must be {form}, got {shown(text)}"
            raise KoriskError(f"{rule}; write {option} {example}, for example")
        values.setdefault(key.strip(), []).append(value.strip())
    return values


def columns(texts: list[str] | None) -> dict[str, str]:
    """Parse the --column options: a mapping from our names to the file's."""
    names_by_column = pairs("--column", texts, "OURS=YOURS", "n=train_size")
    for ours, file_names in names_by_column.items():
        if not file_names[-1]:
            problem = f"--column must be OURS=YOURS, got '{ours}='"
            raise KoriskError(f"{problem}; write --column n=train_size, for example")
    return {ours: file_names[-1] for ours, file_names in names_by_column.items()}


@dataclass(frozen=True)
class Reading:
    """The options that say how files are read; none of them has a default but None."""

    metric: str | None
    unit: Annotated[str | None, "UNIT"]
    column: Column
    filter: Annotated[
        list[str] | None,
        "COLUMN=VALUE",
        "Read rows with that value: --filter set=test; set=!train leaves rows out. Repeatable.",
    ]
    ignore: Annotated[list[str] | None, "COLUMN"]
    last: Annotated[str | None, "COLUMN"]
    scale: Annotated[
        list[str] | None, "OURS=FACTOR", "Multiply n or error: --scale n=1000. Repeatable."
    ]
    wide: Annotated[str | None, "seed|model|n"]
    seeds: int | None
    point: str | None
    worksheet: str | None

    def arguments(self) -> dict[str, Any]:
        """Convert the options to arguments of `Curve.read`."""
        options = dict(vars(self))
        options["columns"] = columns(options.pop("column"))
        options["filter"] = pairs("--filter", self.filter, "COLUMN=VALUE", "set=test")
        options["scale"] = {}
        for ours, factors in pairs("--scale", self.scale, "OURS=FACTOR", "n=1000").items():
            try:
                options["scale"][ours] = float(factors[-1])
            except ValueError:
                problem = f"--scale {ours} must be a number, got {shown(factors[-1])}"
                raise KoriskError(f"{problem}; write --scale n=1000") from None
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


def show_reading(curves: Sequence[Curve], *, json: bool) -> None:
    """Print how a table was read, in five lines: models, N, values, columns, and what to add."""
    if json:
        print_json({"curves": [_reading(curve) for curve in curves]})
        return
    listed, unit = curves[:MOST_SHOWN], curves[0].unit
    names = [curve.model for curve in listed if curve.model]
    further = len(curves) - len(listed)
    rest = f"; {counted(further, 'further model')}; all with --json" if further else ""
    sizes = sorted({int(n) for curve in curves for n in curve.sizes})
    counts = sorted({int(count) for curve in curves for count in curve.counts})
    direction = "larger" if unit.larger_is_better else "smaller"
    labels = ", ".join(filter(None, dict.fromkeys([curves[0].metric, f"unit {unit.name}"])))
    ends = []
    for curve in listed:
        values, n = curve.unit.from_error(curve.means), curve.sizes
        model = f"{curve.model} " if curve.model and len(curves) > 1 else ""
        first, last = (f"{number(values[k])} at N = {whole(n[k])}" for k in (0, -1))
        ends.append(f"{model}{first}" + (f", {last}" if len(n) > 1 else ""))
    show(
        f"Models: {', '.join(names) or 'one, without a name'}{rest}.",
        f"N: {counted(len(sizes), 'size')}, {whole(sizes[0])} to {whole(sizes[-1])}; "
        f"seeds: {' to '.join(map(str, dict.fromkeys([counts[0], counts[-1]])))}.",
        f"Values: {labels}, {direction} is better; {'; '.join(ends)}.",
        *(read_as(curves) or ["Read: as its columns are named."]),
        "For a plan, add --target E.",
    )


def _reading(curve: Curve) -> JsonDict:
    labels = {"model": curve.model, "metric": curve.metric, "unit": curve.unit.name}
    return labels | {
        "larger_is_better": curve.unit.larger_is_better,
        "sizes": curve.sizes.tolist(),
        "values": curve.unit.from_error(curve.means).tolist(),
        "seeds": curve.counts.tolist(),
        "read_as": curve.read_as,
    }


def one_target(targets: Sequence[float], path: Path | None) -> None:
    """Raise if a figure is asked for several targets."""
    if path is not None and len(targets) > 1:
        raise KoriskError(f"--plot draws one --target, got {len(targets)}; leave the others out")


def check_page(path: Path | None) -> None:
    """Raise if a page could not be written, before anything is read."""
    if path is not None:
        page_file(path)
