"""`korisk rehearse`: learning curves before any scan, from an operator, images and noise."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text
from typer import Argument as Positional
from typer import Option

from korisk import _checks
from korisk._json import JsonDict, JsonMapping
from korisk.cli.common import options, output, own_code
from korisk.cli.common.command import command
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError
from korisk.files import make_folder
from korisk.planning.forecast import level_of
from korisk.studies.run.compute import chosen_device
from korisk.texts import duration

if TYPE_CHECKING:
    from korisk.problems.sources import FileSource
    from korisk.studies.spec.study import Study

_LONG = 10.0  # seconds; longer runs print expected time and memory first
_TOO_LONG = 600.0  # seconds; longer runs are started only if the user agrees


@command(
    "prediction.study.Question",
    "studies.run.compute.Compute",
    "prediction.study.Request",
    "prediction.study.rehearse_study",
    "prediction.rehearsal.rehearse.rehearse",
    "prediction.rehearsal.simulation.Training",
    columns="column",
    data_range="range",
    build="network",
    folder="resume",
)
def rehearse(
    path: Annotated[
        Path | None,
        Positional(),
        "STUDY.yaml",
        "A study; problem and points are enough.",
    ] = None,
    network: Annotated[
        str | None,
        "FILE.py:BUILD",
        "Your own network: BUILD() in FILE.py returns it. Without a study, FILE.py also defines "
        "operator, and optionally images and noise.",
    ] = None,
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
        "skip or keep nearly empty images. [default: the study's, or skip]",
    ] = None,
    examples: int = 256,
    seed: Annotated[int, "S"] = 0,
    noise: Annotated[
        float | None,
        "L",
        "Level of Gaussian noise relative to the input's root mean square. [default: the study's]",
    ] = None,
    point: str | None = None,
    model: Annotated[str | None, "Which model of the study. [default: every one]"] = None,
    pilot_file: Annotated[
        Path | None, Option("--pilot"), "FILE", "Measured errors: n, error, model, seed."
    ] = None,
    *,
    recipe: options.Recipe,
    resume: Annotated[Path | None, "DIR"] = None,
    target: Annotated[
        list[float] | None, "E", "A value of the metric to reach. Repeatable."
    ] = None,
    metric: Annotated[str, "mse|rmse|nmse|psnr", "Of targets and answers."] = "mse",
    data_range: Annotated[float | None, Option("--range"), "X"] = None,
    at: Annotated[
        list[float] | None, "N", "Show the error at N. Repeatable. [default: the rehearsed N]"
    ] = None,
    sure: Annotated[float, "P"] = 0.9,
    cost: Annotated[float | None, "PRICE"] = None,
    yes: options.Yes = False,
    device: options.Device = "auto",
    column: options.Column = None,
    plot: options.Plot = None,
    html: Annotated[
        Path | None, "FILE", "Write a page with all of it: FILE.html (needs korisk[report])."
    ] = None,
    out: Annotated[
        Path | None, "DIR", "Write prediction.json there, for the study's report."
    ] = None,
    json: options.Json = False,
) -> None:
    """How many samples will a target need? The learning curve before a scan is made.

    From an operator, its noise and some example images, which simulate pairs: linear models of a
    study are fitted to them exactly, networks are trained. A small real pilot narrows it.
    """
    # Imported here: SciPy takes longer to load than the command line itself.
    from korisk.prediction import answer
    from korisk.prediction.record import prediction_content, write_prediction
    from korisk.prediction.rehearsal.callbacks import Callbacks
    from korisk.prediction.rehearsal.rehearsal import UNIT_OF, far_from
    from korisk.prediction.study import (
        Question,
        Request,
        rehearse_own,
        rehearse_study,
        study_to_rehearse,
    )

    _checks.one_of("metric", metric, tuple(UNIT_OF))
    if data_range is not None and metric != "psnr":
        raise KoriskError(f"--range is of psnr, and the metric is {metric}; leave it out")
    if out is not None and metric != "mse":
        raise KoriskError("--out is for reports, which are of the mse; leave --metric out")
    remedy = f"give the {metric} to reach"
    targets = [_checks.real("target", goal, above=0, remedy=remedy) for goal in target or []]
    remedy = "count training samples"
    counts = {_checks.count("at", n, at_least=1, at_most=10**7, remedy=remedy) for n in at or []}
    _checks.count("seed", seed, at_least=0, at_most=2**31, remedy="give one such as 1")
    if cost is not None:
        _checks.real("cost", cost, above=0, remedy="give the price of one sample")
    targets, sizes_asked = list(dict.fromkeys(targets)), sorted(counts)
    unit_of: JsonDict = {"metric": metric, "data_range": data_range}
    question = Question(targets=targets, at=sizes_asked, sure=level_of(sure), cost=cost, **unit_of)
    if column and pilot_file is None:
        raise KoriskError("--column names columns of a pilot; give --pilot FILE, or leave it out")
    if path is None and network is None:
        network_option = "your own network with --network FILE.py:BUILD"
        raise KoriskError(f"give a study STUDY.yaml, or {network_option}")
    for option, value in (("--point", point), ("--model", model), ("--out", out)):
        if path is None and value is not None:
            raise KoriskError(f"{option} belongs to a study; give STUDY.yaml, or leave it out")
    if network is not None and model is not None:
        raise KoriskError("--model is one of the study's, and --network your own; leave one out")
    # Before any training: a file that cannot be written should fail at once.
    options.check_page(html)
    output.check_plot(plot)
    options.one_target(question.targets, plot)
    settings = {"on_error": on_error, "patients": patients, "unit": unit, "blank": blank}
    device_name = chosen_device(device)
    study = None if path is None else study_to_rehearse(path)
    point_count = 1 if study is None else len({task.point for task in study.tasks})
    if plot is not None and point is None and point_count > 1:
        reason = f"is for one point, and the study has {point_count}"
        raise KoriskError(f"--plot {reason}; name it with --point")
    source = source_of(images, study, settings)
    if out is not None:
        make_folder(out)
    screen = Console(stderr=True, quiet=json)
    with (
        warnings_as_lines(),
        screen.status("reading") as status,
        own_code.failures_named("--network", network),
        _tell_interruption(),
    ):
        request = Request(
            question=question,
            source=source,
            noise=noise,
            pilots=read_pilot(pilot_file, metric, column),
            examples=examples,
            seed=seed,
            callbacks=Callbacks(
                progress=time_left(lambda text: status.update(Text(text))),
                estimate=agreed(yes, status),
            ),
        )

        def with_recipe(of_study: JsonMapping) -> JsonDict:
            place: JsonDict = {"examples": examples, "device": device_name}
            return recipe.arguments(of_study, seed=seed, **place) | {"folder": resume}

        user_network = None
        data: JsonMapping = {}
        if network is not None:
            build, data = own_code.read_build("--network", network)
            user_network = network.rpartition(":")[2], build
        if study is not None:
            chosen: JsonDict = {"point": point, "model": model, "device": device_name}
            chosen |= {"options": with_recipe, "user_network": user_network}
            points = rehearse_study(study, request, **chosen)
        else:
            assert user_network is not None
            points = [rehearse_own(*user_network, data, request, with_recipe({}))]
    far = (far_from(point.forecasts, goal) for point in points for goal in targets)
    far_off = next(filter(None, far), "")
    if far_off:  # shown as without a target, and asked at the end
        question = dataclasses.replace(question, targets=())
    # Not for tables alone: a record evaluates every forecast once more.
    content: JsonDict = {}
    name = points[0].name if study is None else study.name
    if json or out is not None:
        content = prediction_content(name, [result.to_dict(question) for result in points])
    if json:
        output.print_json(content)
    else:
        for result in points:
            output.show(*answer.point_lines(result, question))
            output.show(*answer.point_tables(result, question))
        output.show_numbers(t for point in points for t in answer.point_numbers(point, question))
        output.show(*(text for point in points for text in answer.point_sentences(point)))
    if plot is not None:
        from korisk.report.figures.forecast import plans_figure

        goal = next(iter(question.targets), points[0].targets[0])
        output.save_plot(plans_figure(points[0].plans(goal), sure=sure), plot)
    if html is not None:
        from korisk.report.page.prediction import rehearsal_page

        output.write_page(html, lambda: rehearsal_page(points, question, title=name))
    if out is not None:
        tell(f"wrote {write_prediction(out, content)}")
    # Last: these set the exit code, and the answers are shown all the same.
    if far_off:
        raise KoriskError(far_off)
    output.exit_if(not answer.reaches(points, question))


def source_of(
    images: Path | None, study: Study | None, settings: Mapping[str, str | None]
) -> FileSource | None:
    """The user's own images, read with the study's settings unless an option replaces them."""
    overrides = {key: value for key, value in settings.items() if value is not None}
    if images is None:
        for key, value in overrides.items():
            option, its_own = f"--{key.replace('_', '-')}", f"images: {{{key}: {value}}}"
            raise KoriskError(f"{option} is for the images of --images; a study says {its_own}")
        return None
    from korisk.problems.sources import FileSource
    from korisk.studies.spec.entries import is_table

    problem = {} if study is None else study.content.get("problem") or {}
    study_settings = dict(problem.get("images") or {})
    # A table of patients lists the study's images, not those of --images.
    if is_table(study_settings.get("patients", "")):
        del study_settings["patients"]
    return FileSource(**study_settings | overrides | {"path": str(images.resolve())})


def agreed(yes: bool, status: Status) -> Callable[[float, float], None]:
    """Callback that prints what a training takes, and asks before one of more than ten minutes."""

    def estimate(seconds: float, memory: float) -> None:
        if seconds <= _LONG:
            return
        needed = f"{max(memory / 2**30, 0.1):.1f} GiB of memory"  # never 0.0
        text = f"training takes about {duration(seconds)} and {needed}, going by a few steps"
        fewer = "fewer --steps, --seeds or --sizes take less"
        if yes or seconds <= _TOO_LONG:
            tell(text)
        elif not sys.stdin.isatty():
            raise KoriskError(f"{text}; add --yes to start it; {fewer}")
        else:
            status.stop()
            if not typer.confirm(f"korisk: {text}; {fewer}. Start it?", err=True):
                raise KoriskError(f"not started; {fewer}")
            status.start()

    return estimate


@contextmanager
def _tell_interruption() -> Iterator[None]:
    """Print what an interrupted rehearsal keeps, which the library says in the exception."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        if interruption.args:
            tell(str(interruption))
        raise


def read_pilot(path: Path | None, metric: str, column: list[str] | None = None) -> Sequence[Curve]:
    """Read the curves of a pilot; of several metrics, take the one that is asked for."""
    if path is None:
        return ()
    read = partial(Curve.read_all, path, columns=options.columns(column))
    try:
        return read()
    except KoriskError:
        # Naming the metric helps where there are several; any other error is raised again.
        try:
            return read(metric=metric)
        except KoriskError as error:
            # The library says `unit`, which is the unit of images in this command.
            if not any(isinstance(x, Argument) and x.name == "unit" for x in error.message.parts):
                raise
            remedy = "name the column of errors mse, rmse, nmse or psnr, with --column error=NAME"
            raise KoriskError(f"{path}: the metric is not clear; {remedy}") from None


def time_left(say: Callable[[str], None]) -> Callable[[str, float], None]:
    """Progress callback that adds the time left, by the share of the work that is done."""
    start = time.monotonic()

    def progress(step: str, share: float) -> None:
        seconds = (time.monotonic() - start) * (1 - share) / share if share else 0.0
        say(f"{step} {share:.0%}, about {duration(seconds)} left" if share else step)

    return progress
