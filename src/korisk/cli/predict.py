"""`korisk predict`: learning curves from an operator, a handful of images and the noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.text import Text
from typer import Option

from korisk import _checks
from korisk._json import JsonMapping
from korisk.cli.common import own_code
from korisk.cli.common.command import command
from korisk.cli.common.options import Column, Device, Json, Plot, Training, columns, one_target
from korisk.cli.common.output import (
    check_plot,
    print_json,
    save_plot,
    show,
    tell,
    warnings_as_lines,
)
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, did_you_mean, shown
from korisk.files import make_folder
from korisk.studies.run.compute import chosen_device
from korisk.texts import duration

if TYPE_CHECKING:
    from korisk.prediction.answer import RehearsalAnswer
    from korisk.problems.sources import FileSource
    from korisk.studies.spec.study import Study

_LONG = 10.0  # seconds, from which on time and memory are told before a run


@command(
    "studies.run.compute.Compute",
    "prediction.study.predict_study",
    columns="column",
    build="network",
    sizes="training largest",
    steps="training steps",
    batch="training batch",
    rate="training rate",
    seeds="training seeds",
)
def predict(
    path: Annotated[Path, "STUDY.yaml", "A study; problem and points are enough."],
    images: Annotated[Path | None, "DIR", "Your own example images, not the study's."] = None,
    on_error: Annotated[
        str | None, "WHAT", "stop or skip at unreadable images. [default: the study's, or stop]"
    ] = None,
    patients: Annotated[
        str | None,
        "RULE",
        "Whose images: auto, folder, file, image, or a .csv of file and patient. "
        "[default: the study's, or auto]",
    ] = None,
    unit: Annotated[
        str | None,
        "UNIT",
        "Unit of pixels that state none: HU, 1/mm, 1/cm, 1/m or plain. "
        "[default: the study's, or plain]",
    ] = None,
    blank: Annotated[
        str | None,
        "WHAT",
        "skip or keep images that show next to nothing. [default: the study's, or skip]",
    ] = None,
    examples: int = 256,
    seed: Annotated[int, "S"] = 0,
    noise: Annotated[float | None, "L"] = None,
    point: str | None = None,
    pilot_file: Annotated[
        Path | None, Option("--pilot"), "FILE", "Measured errors: n, error, model, seed."
    ] = None,
    network: Annotated[
        str | None,
        "FILE.py:BUILD",
        "Rehearse your own network, which BUILD() returns, on simulated pairs instead.",
    ] = None,
    training: Annotated[
        Training, "Of --network: steps, batch, rate, seeds, or largest (N). Repeatable."
    ] = None,
    target: Annotated[list[float] | None, "E", "A mean squared error to reach. Repeatable."] = None,
    at: Annotated[
        list[float] | None, "N", "Show the error at N. Repeatable. [default: doublings]"
    ] = None,
    device: Device = "auto",
    pilot_unit: Annotated[str, "UNIT", "Unit of the pilot: error (the mse) or rmse."] = "error",
    column: Column = None,
    plot: Plot = None,
    out: Annotated[
        Path | None, "DIR", "Write prediction.json there, for the study's report."
    ] = None,
    json: Json = False,
) -> None:
    """Predict the learning curves of KO and FC before anything is trained.

    Needs the geometry, the noise and some images, about 256; a pilot narrows the intervals.
    """
    # Imported here, since SciPy takes longer to load than the command itself.
    from korisk.prediction import study as predicted

    remedy = "give the mean squared error to reach"
    targets = [_checks.real("target", goal, above=0, remedy=remedy) for goal in target or []]
    remedy = "count training samples"
    counts = {_checks.count("at", n, at_least=1, at_most=10**7, remedy=remedy) for n in at or []}
    _checks.one_of("pilot_unit", pilot_unit, ("error", "rmse"))
    if unit in ("error", "rmse"):
        raise KoriskError(f"--unit is of the images' pixels; say --pilot-unit {unit} of a pilot")
    if column and pilot_file is None:
        raise KoriskError("--column names columns of a pilot; give --pilot FILE, or leave it out")
    study = predicted.study_to_predict(path)
    specs = {task.point: task.spec for task in study.tasks}
    check_plot(plot)
    one_target(targets, plot)
    if plot is not None and point is None and len(specs) > 1:
        raise KoriskError(
            f"--plot is for one point, and the study has {len(specs)}; name it with --point"
        )
    if network is None and training:
        raise KoriskError("--training is for --network; name the network, or leave it out")
    if network is not None and (plot is not None or out is not None):
        raise KoriskError("--plot and --out do not go with --network; use --json")
    if out is not None:
        make_folder(out)
    settings = {"on_error": on_error, "patients": patients, "unit": unit, "blank": blank}
    source = _source(images, study, settings)
    place = chosen_device(device)
    screen = Console(stderr=True, quiet=json)
    measured = partial(read_pilot, pilot_file, pilot_unit, column)
    if network is not None:
        with warnings_as_lines(), screen.status("reading") as status:
            answer = _rehearsed(
                network,
                training,
                specs,
                point,
                source=source,
                noise=noise,
                pilots=measured(),
                targets=targets,
                at=sorted(counts),
                examples=examples,
                seed=seed,
                device=place,
                say=lambda text: status.update(Text(text)),
            )
        if json:
            print_json(answer.to_dict())
        else:
            show(*answer.tables(), answer.explain())
        answer.require()
        return
    seconds, needed = predicted.expected_cost(study, examples=examples, point=point, device=place)
    if seconds > _LONG:
        tell(
            f"this takes about {duration(seconds)} and {needed / 2**30:.1f} GiB of memory, going "
            "by earlier runs on two CPU cores or a GPU"
        )
    with warnings_as_lines(), screen.status("reading") as status:
        points = predicted.predict_study(
            study,
            examples=examples,
            seed=seed,
            point=point,
            source=source,
            noise=noise,
            pilots=measured(),
            device=place,
            progress=lambda what, share: status.update(
                Text(f"{what} {share:.0%}" if share else what)
            ),
        )
    from korisk.prediction.answer import point_sentences, point_tables, require_targets

    if json or plot is not None or out is not None:
        plain = [each.to_dict(targets or each.targets, sorted(counts)) for each in points]
        content = predicted.prediction_content(study.name, plain)
    if json:
        print_json(content)
    else:
        for each in points:
            show(*point_tables(each, targets, sorted(counts)), *point_sentences(each, targets))
    if plot is not None:
        from korisk.report.figures.prediction import prediction_figure

        of_target = points[0].plans(targets[0]) if targets else ()
        save_plot(prediction_figure(predicted.point_record(plain[0]), needed=of_target), plot)
    if out is not None:
        tell(f"wrote {predicted.write_prediction(out, content)}")
    require_targets(points, targets)


def _source(
    images: Path | None, study: Study, settings: Mapping[str, str | None]
) -> FileSource | None:
    """The user's own images, read with the settings of the study's where no option says other."""
    given = {key: value for key, value in settings.items() if value is not None}
    if images is None:
        for key, value in given.items():
            option = f"--{key.replace('_', '-')}"
            raise KoriskError(
                f"{option} is for the images of --images; a study says images: {{{key}: {value}}}"
            )
        return None
    from korisk.problems.sources import FileSource
    from korisk.studies.spec.entries import is_table

    of_study = dict((study.content.get("problem") or {}).get("images") or {})
    if is_table(of_study.get("patients", "")):  # which names other files
        del of_study["patients"]
    return FileSource(**of_study | given | {"path": str(images.resolve())})


def read_pilot(path: Path | None, unit: str, column: list[str] | None = None) -> tuple[Curve, ...]:
    """The curves of a pilot as mean squared errors; of several metrics, those of that one."""
    if path is None:
        return ()
    read = partial(Curve.read_all, path, unit=unit, columns=columns(column))
    try:
        curves = read()
    except KoriskError:
        # Naming a metric helps where there are several; any other error is raised again.
        try:
            curves = read(metric="mse" if unit == "error" else unit)
        except KoriskError as error:  # `unit` is that of images here
            renamed = (
                Argument("pilot_unit", part.value)
                if isinstance(part, Argument) and part.name == "unit"
                else part
                for part in error.message.parts
            )
            raise type(error)(*renamed) from None
    if unit == "error":
        return curves
    return tuple(Curve(each.n, each.error, each.seed, each.model, "mse") for each in curves)


def _rehearsed(
    network: str,
    training: Sequence[str] | None,
    specs: Mapping[str, JsonMapping],
    point: str | None,
    *,
    source: FileSource | None,
    noise: float | None,
    pilots: Sequence[Curve],
    targets: Sequence[float],
    at: Sequence[int],
    examples: int,
    seed: int,
    device: str,
    say: Callable[[str], None],
) -> RehearsalAnswer:
    """Rehearse the network of a file for one point of a study."""
    from korisk.planning.fit import check_target
    from korisk.planning.forecast import forecast
    from korisk.prediction.answer import RehearsalAnswer
    from korisk.prediction.prediction import FARTHEST_N
    from korisk.prediction.rehearse import SIZES, rehearse
    from korisk.prediction.study import image_notes, point_problem

    build, _ = own_code.read_build("--network", network)
    options = own_code.training_options(training, seed=seed, examples=examples, device=device)
    sizes = options.get("sizes", SIZES)
    if point is None and len(specs) > 1:
        raise KoriskError(
            f"--network is for one point, and the study has {len(specs)}: {', '.join(specs)}; name "
            "it with --point"
        )
    name = next(iter(specs)) if point is None else point
    if name not in specs:
        raise KoriskError(f"the study has no point {shown(name)}{did_you_mean(name, specs)}")
    label = network.rpartition(":")[2]
    curves = [curve for curve in pilots if curve.model == label] or list(pilots)
    if len(curves) > 1:
        named = ", ".join(curve.model for curve in pilots)
        raise KoriskError(
            f"--pilot must have one curve, or one of model {label!r}, got {named}; remove the "
            "others"
        )
    # What the answer would refuse, before hours of training.
    least, most, remedy = sizes[0], FARTHEST_N, "smaller N are not rehearsed; give a --pilot"
    if curves:
        least, most, remedy = 2, forecast(curves[0]).horizon, "measure a larger pilot"
        for target in targets:
            check_target(curves, target)
    for n in at:
        _checks.count("at", n, at_least=least, at_most=most, remedy=remedy)
    problem, _ = point_problem(specs[name], source=source, noise=noise)
    notes = tuple(image_notes(problem, specs[name], examples))
    with own_code.failures_named("--network", network):
        made = rehearse(build, problem, model=label, progress=time_left(say), **options)
    return RehearsalAnswer(name, made, curves[0] if curves else None, notes, targets, at)


def time_left(say: Callable[[str], None]) -> Callable[[str, float], None]:
    """A watch of the library's progress that also says how long it will take."""
    begun = time.monotonic()

    def progress(what: str, share: float) -> None:
        left = (time.monotonic() - begun) * (1 - share) / share if share else 0.0
        say(f"{what} {share:.0%}, about {duration(left)} left" if share else what)

    return progress
