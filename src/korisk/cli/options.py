"""Options that only the command line has, or that several commands share; see `command.Command`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from korisk.curves.curve import Curve
from korisk.errors import KoriskError, shown
from korisk.planning.fit import DEFAULT_FIT

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
Targets = Annotated[list[float] | None, "E"]
Unit = Annotated[str | None, "UNIT"]
Column = Annotated[
    list[str] | None,
    "OURS=YOURS",
    "Name a column: --column n=train_size --column error=test_mse. Repeatable.",
]
Training = Annotated[list[str] | None, "KEY=VALUE"]
Folder = Annotated[Path, "DIR", "The folder of a study, or its store."]

# --- Where and how a study runs ---
Device = Annotated[str, "NAME"]
Workers = Annotated[int | None, "W"]
Wait = Annotated[float, "SECONDS", "How long to wait while another run uses the store."]
Full = Annotated[bool, "Print the tables as well."]
WithPage = Annotated[bool, "Write report.html into the folder too (needs korisk[report])."]
Live = Annotated[
    bool,
    "Serve the page while it runs, at http://127.0.0.1 (this machine alone), and write it at the "
    "end as --page does.",
]
Port = Annotated[int | None, "PORT", "Port of --live. [default: a free one]"]


def columns(options: list[str] | None) -> dict[str, str]:
    """The --column options as a mapping from our names to the file's."""
    pairs = {}
    for option in options or []:
        ours, _, theirs = option.partition("=")
        if not ours or not theirs:
            raise KoriskError(
                f"--column must be OURS=YOURS, got {shown(option)}; write --column n=train_size, "
                "for example"
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
    worksheet: str | None

    def curves(self, path: Path, model: str | None = None) -> tuple[Curve, ...]:
        """The curves in one file or store, one for each model, or that of the named one."""
        options = dict(vars(self))
        options["columns"] = columns(options.pop("column"))
        if model is not None:
            return (Curve.read(path, model=model, **options),)
        return Curve.read_all(path, **options)


def renamed(curve: Curve, name: str) -> Curve:
    """The curve of a model under another name."""
    return Curve.of_errors(curve.n, curve.error, curve.seed, name, curve.metric, curve.unit)


def read_as(curves: Sequence[Curve]) -> list[str]:
    """How the table was read, in a sentence; nothing where that is a matter of course."""
    sentences = dict.fromkeys(f"Read: {curve.read_as}." for curve in curves if curve.read_as)
    return [" ".join(sentences)] if sentences else []


def one_target(targets: Sequence[float], path: Path | None, option: str = "--plot") -> None:
    """Refuse a figure of several targets."""
    if path is not None and len(targets) > 1:
        raise KoriskError(f"{option} draws one --target, got {len(targets)}; leave the others out")


def check_page(path: Path | None, fit: str) -> None:
    """Refuse a page that could not be written, or not with this fit, before anything is read."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        suffix = path.suffix or "none"
        raise KoriskError(f"{path}: the suffix of a page must be .html, got {suffix}; rename it")
    if not path.parent.is_dir():
        raise KoriskError(f"{path}: cannot be written: no such folder; make it first")
    if fit != DEFAULT_FIT:
        raise KoriskError(
            f"--html needs fit {DEFAULT_FIT!r}, got {fit!r}; leave --fit out, or use --plot"
        )
