"""`korisk predict`: learning curves from an operator, a handful of images and the noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from korisk import _checks
from korisk.cli import pilot
from korisk.cli.output import print_json, warnings_as_lines
from korisk.cli.places import Device, chosen_device
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, OutOfReachError, did_you_mean
from korisk.files import make_folder
from korisk.prediction.file import (
    NAME,
    point_record,
    prediction_content,
    write_prediction,
)
from korisk.studies.spec.study import Study

if TYPE_CHECKING:
    from korisk.prediction.point import PointPrediction
    from korisk.prediction.study import Progress
    from korisk.problems.sources import FileSource

_METRIC = "mse"
_UNITS = ("error", "rmse")  # what mean squared errors can be made of


def predict(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY.yaml",
            help="A study, or its problem and points alone; docs/reference/study.md.",
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Your own example images instead of the study's."),
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="skip leaves out images that cannot be read, stop raises an error. "
            "[default: as the study says, else stop]",
        ),
    ] = None,
    examples: Annotated[
        int, typer.Option(metavar="N", help="Number of example images, at least 8.")
    ] = 256,
    seed: Annotated[int, typer.Option(metavar="S", help="Random seed for the images.")] = 0,
    noise: Annotated[
        float | None,
        typer.Option(
            metavar="L", help="Gaussian noise over the input's RMS instead of the study's."
        ),
    ] = None,
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="One point alone. [default: every one]")
    ] = None,
    pilot_file: Annotated[
        Path | None,
        typer.Option(
            "--pilot",
            metavar="FILE",
            help="Measured mean squared errors: columns n, error, model, maybe seed.",
        ),
    ] = None,
    target: Annotated[
        list[float] | None,
        typer.Option(metavar="E", help="A mean squared error to reach. Repeatable."),
    ] = None,
    at: Annotated[
        list[float] | None,
        typer.Option(
            metavar="N", help="Show the expected error at N. Repeatable. [default: doublings]"
        ),
    ] = None,
    device: Device = "auto",
    unit: Annotated[
        str,
        typer.Option(
            "--unit", metavar="UNIT", help="Unit of the pilot: error, which is the mse, or rmse."
        ),
    ] = "error",
    column: pilot.ColumnOption = None,
    plot: pilot.PlotOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"Write {NAME} there; in a study's folder its report shows it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Predict the learning curves of KO and FC before anything is trained.

    Needs the geometry, the noise and some images, 256 or so; a pilot makes it surer.
    """
    # Here, since they bring SciPy along, which takes longer to load than the command itself.
    from korisk.prediction.point import checked_at
    from korisk.prediction.study import predict_study, study_to_predict

    remedy = "give the mean squared error to reach"
    targets = [_checks.real("--target", each, above=0, remedy=remedy) for each in target or []]
    sizes = checked_at(at or [])
    _checks.count("--examples", examples, at_least=8, at_most=10**4, remedy="256 are plenty")
    if noise is not None:
        _checks.real("--noise", noise, at_least=0, remedy="give it over the input's RMS")
    study = study_to_predict(path)
    _check_points(study, point, pilot_file, plot)
    if plot is not None:
        pilot.check_plot(plot)
    if out is not None:
        make_folder(out)
    _checks.count("--seed", seed, at_least=0, at_most=2**31, remedy="give one such as 1")
    _checks.one_of("--unit", unit, _UNITS)
    if on_error is not None:
        _checks.one_of("--on-error", on_error, ("stop", "skip"))
        if images is None:
            raise KoriskError(
                "--on-error is of the images of --images; a study says images: {on_error: skip}"
            )
    if column and pilot_file is None:
        raise KoriskError("--column names columns of a pilot; give --pilot FILE, or leave it out")
    pilots = [] if pilot_file is None else _pilots(pilot_file, unit, pilot.columns(column))
    with warnings_as_lines(), _watched(quiet=as_json) as progress:
        made = predict_study(
            study,
            images=examples,
            seed=seed,
            point=point,
            source=None if images is None else _source(study, images, on_error),
            noise=noise,
            pilots=pilots,
            device=chosen_device(device),
            progress=progress,
        )
    _answer(study, made, targets, sizes, plot=plot, out=out, as_json=as_json)
    _leave(made, targets)


def _answer(
    study: Study,
    made: list[PointPrediction],
    targets: list[float],
    sizes: list[float],
    *,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print it, draw it, write it."""
    if as_json or plot is not None or out is not None:
        told = [each.to_dict(targets or each.targets, sizes) for each in made]
        content = prediction_content(study.name, told)
    if as_json:
        print_json(content)
    else:
        from korisk.cli.predict_text import show

        show(made, targets, sizes)
    if plot is not None:
        from korisk.report.figures.prediction import prediction_figure

        pilot.save_plot(prediction_figure(point_record(told[0])), plot)
    if out is not None:
        typer.echo(f"korisk: wrote {write_prediction(out, content)}", err=True)


# --- What was asked ------------------------------------------------------------------------------


def _check_points(study: Study, point: str | None, pilot: Path | None, plot: Path | None) -> None:
    """Refuse what is of one point where there are several, before anything is computed."""
    names = list(dict.fromkeys(task.point for task in study.tasks))
    if point is not None and point not in names:
        raise KoriskError(f"--point: the study has no {point!r}{did_you_mean(point, names)}")
    for option, given in (("--pilot", pilot), ("--plot", plot)):
        if given is not None and point is None and len(names) > 1:
            raise KoriskError(
                f"{option} is of one point, and the study has {len(names)}; name one of "
                f"{', '.join(names)} with --point"
            )


def _pilots(path: Path, unit: str, columns: dict[str, str]) -> tuple[Curve, ...]:
    """The curves of a pilot as mean squared errors; of a file with several metrics those of it."""
    read = partial(Curve.read_all, path, unit=unit, columns=columns)
    try:
        found = read()
    except KoriskError:
        # Several metrics are the one thing that naming one mends; all else is said again.
        found = read(metric=_METRIC if unit == "error" else unit)
    if unit == "error":
        return found
    return tuple(Curve(each.n, each.error, each.seed, each.model, _METRIC) for each in found)


def _source(study: Study, folder: Path, on_error: str | None) -> FileSource:
    """One's own images, read as the study reads its."""
    from korisk.problems.sources import FileSource
    from korisk.studies.spec.entries import is_table

    problem = study.content.get("problem") or {}
    settings = {**(problem.get("images") or {}), "path": str(folder.resolve())}
    if is_table(settings.get("patients", "")):  # which names other files
        del settings["patients"]
    if on_error is not None:
        settings["on_error"] = on_error
    return FileSource(**settings)


@contextmanager
def _watched(*, quiet: bool) -> Iterator[Progress | None]:
    """What is being computed, on stderr, where somebody watches."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield None
        return
    with screen.status(Text("reading")) as status:
        yield lambda what, share: status.update(Text(f"{what} {share:.0%}" if share else what))


def _leave(made: Sequence[PointPrediction], targets: Sequence[float]) -> None:
    """Say on stderr, and by the exit code, that no model reaches a target that was asked for."""
    lost: dict[str, Any] = {}
    for each in made:
        for target in targets:
            if all(found.samples is None for found in each.samples(target)):
                lost[f"{target:.6g} at {each.name}"] = None
    if lost:
        raise OutOfReachError(
            f"no model is expected to reach {', '.join(lost)}; allow a larger error, or take the "
            "noise down"
        )
