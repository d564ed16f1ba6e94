"""`korisk predict`: learning curves from an operator, a handful of images and the noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from korisk import _checks
from korisk.cli import pilot, rehearsal
from korisk.cli.compute import Device, chosen_device
from korisk.cli.output import (
    cells,
    console,
    duration,
    number,
    print_json,
    table,
    warnings_as_lines,
    whole,
)
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, OutOfReachError
from korisk.files import make_folder
from korisk.planning.explain import chance, count

_LONG = 10.0  # seconds, from which on time and memory are told before a run

if TYPE_CHECKING:
    from korisk.prediction.study import PointPrediction


def predict(
    path: Annotated[
        Path, typer.Argument(metavar="STUDY.yaml", help="A study; problem and points are enough.")
    ],
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Your own example images, not the study's.")
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="stop or skip at unreadable images. [default: the study's, or stop]",
        ),
    ] = None,
    patients: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="Whose images: auto, folder, file, image, or a .csv of file and patient. "
            "[default: the study's, or auto]",
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            metavar="UNIT",
            help="Unit of pixels that state none: HU, 1/mm, 1/cm, 1/m or plain. "
            "[default: the study's, or plain]",
        ),
    ] = None,
    blank: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="skip or keep images that show next to nothing. [default: the study's, or skip]",
        ),
    ] = None,
    examples: Annotated[
        int, typer.Option(metavar="N", help="Number of example images, at least 8.")
    ] = 256,
    seed: Annotated[int, typer.Option(metavar="S", help="Random seed for the images.")] = 0,
    noise: Annotated[
        float | None,
        typer.Option(metavar="L", help="Gaussian noise over the input's RMS, not the study's."),
    ] = None,
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="One point alone. [default: every one]")
    ] = None,
    pilot_file: Annotated[
        Path | None,
        typer.Option("--pilot", metavar="FILE", help="Measured errors: n, error, model, seed."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:BUILD",
            help="Rehearse your own network, which BUILD() returns, on simulated pairs instead.",
        ),
    ] = None,
    training: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Of --network: steps, batch, rate, seeds, or largest (N). Repeatable.",
        ),
    ] = None,
    target: Annotated[
        list[float] | None,
        typer.Option(metavar="E", help="A mean squared error to reach. Repeatable."),
    ] = None,
    at: Annotated[
        list[float] | None,
        typer.Option(metavar="N", help="Show the error at N. Repeatable. [default: doublings]"),
    ] = None,
    device: Device = "auto",
    pilot_unit: Annotated[
        str, typer.Option(metavar="UNIT", help="Unit of the pilot: error (the mse) or rmse.")
    ] = "error",
    column: pilot.ColumnOption = None,
    plot: pilot.PlotOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write prediction.json there, for the study's report."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Predict the learning curves of KO and FC before anything is trained.

    Needs the geometry, the noise and some images, about 256; a pilot narrows the intervals.
    """
    # Imported here, since SciPy takes longer to load than the command itself.
    from korisk.prediction import study as predicted

    remedy = "give the mean squared error to reach"
    targets = [_checks.real("--target", each, above=0, remedy=remedy) for each in target or []]
    remedy = "count training samples"
    counts = [_checks.count("--at", n, at_least=1, at_most=10**7, remedy=remedy) for n in at or []]
    _checks.one_of("--pilot-unit", pilot_unit, ("error", "rmse"))
    if unit in ("error", "rmse"):
        raise KoriskError(f"--unit is of the images' pixels; say --pilot-unit {unit} of a pilot")
    settings: dict[str, Any] = {}  # of the images, beyond the study's
    for key, given, allowed in (
        ("on_error", on_error, ("stop", "skip")),
        ("patients", patients, ()),
        ("unit", unit, ("HU", "1/mm", "1/cm", "1/m", "plain")),
        ("blank", blank, ("skip", "keep")),
    ):
        option = f"--{key.replace('_', '-')}"
        if given is None:
            continue
        if images is None:
            raise KoriskError(
                f"{option} is for the images of --images; a study says images: {{{key}: {given}}}"
            )
        if allowed:
            _checks.one_of(option, given, allowed)
        settings[key] = given
    if column and pilot_file is None:
        raise KoriskError("--column names columns of a pilot; give --pilot FILE, or leave it out")
    study = predicted.study_to_predict(path)
    names = {task.point for task in study.tasks}
    if plot is not None:
        pilot.check_plot(plot)
        if point is None and len(names) > 1:
            raise KoriskError(
                f"--plot is for one point, and the study has {len(names)}; name it with --point"
            )
    if out is not None:
        make_folder(out)
    source = None
    if images is not None:  # read with the settings of the study's images
        from korisk.problems.sources import FileSource
        from korisk.studies.spec.entries import is_table

        of_study = dict((study.content.get("problem") or {}).get("images") or {})
        if is_table(of_study.get("patients", "")):  # which names other files
            del of_study["patients"]
        source = FileSource(**of_study | settings | {"path": str(images.resolve())})
    screen = Console(stderr=True, quiet=as_json)
    if network is not None or training:
        if plot is not None or out is not None:
            raise KoriskError("--plot and --out do not go with --network; use --json")
        with warnings_as_lines(), screen.status("reading") as status:
            answer = rehearsal.rehearse_point(
                network,
                training or [],
                {task.point: task.spec for task in study.tasks},
                point,
                source=source,
                noise=noise,
                pilots=() if pilot_file is None else read_pilot(pilot_file, pilot_unit, column),
                targets=targets,
                at=counts,
                examples=examples,
                seed=seed,
                device=chosen_device(device),
                say=lambda text: status.update(Text(text)),
            )
        rehearsal.show(answer, targets, sorted(set(counts)), as_json=as_json)
        return
    place = chosen_device(device)
    seconds, needed = predicted.expected_cost(study, examples=examples, point=point, device=place)
    if seconds > _LONG:
        typer.echo(
            f"korisk: this takes about {duration(seconds)} and {needed / 2**30:.1f} GiB of memory, "
            "going by earlier runs on two CPU cores or a GPU",
            err=True,
        )
    with warnings_as_lines(), screen.status("reading") as status:

        def progress(what: str, share: float) -> None:
            status.update(Text(f"{what} {share:.0%}" if share else what))

        made = predicted.predict_study(
            study,
            examples=examples,
            seed=seed,
            point=point,
            source=source,
            noise=noise,
            pilots=() if pilot_file is None else read_pilot(pilot_file, pilot_unit, column),
            device=place,
            progress=progress,
        )
    if as_json or plot is not None or out is not None:
        points = [each.to_dict(targets or each.targets, sorted(set(counts))) for each in made]
        content = predicted.prediction_content(study.name, points)
    if as_json:
        print_json(content)
    else:
        for each in made:
            _show(each, targets, sorted(set(counts)))
    if plot is not None:
        from korisk.report.figures.prediction import prediction_figure

        pilot.save_plot(prediction_figure(predicted.point_record(points[0])), plot)
    if out is not None:
        typer.echo(f"korisk: wrote {predicted.write_prediction(out, content)}", err=True)
    lost = [
        f"{goal:.6g} at {each.name}"
        for each in made
        for goal in dict.fromkeys(targets)
        if all(found.samples is None for found in each.samples(goal))
    ]
    if lost:
        raise OutOfReachError(
            f"no model is expected to reach {', '.join(lost)}; allow a larger error, or reduce the "
            "noise"
        )


def read_pilot(path: Path, unit: str, column: list[str] | None = None) -> tuple[Curve, ...]:
    """The curves of a pilot as mean squared errors; of several metrics, those of that one."""
    read = partial(Curve.read_all, path, unit=unit, columns=pilot.columns(column))
    try:
        found = read()
    except KoriskError:
        # Naming a metric helps where there are several; any other error is raised again.
        try:
            found = read(metric="mse" if unit == "error" else unit)
        except KoriskError as error:  # `--unit` is of images here
            raise type(error)(str(error).replace("unit=", "pilot_unit=")) from None
    if unit == "error":
        return found
    return tuple(Curve(each.n, each.error, each.seed, each.model, "mse") for each in found)


def _show(point: PointPrediction, asked: Sequence[float], at: Sequence[float]) -> None:
    """Print the tables of a point, then sentences."""
    from korisk.prediction.pair import error_rows
    from korisk.prediction.prediction import outlook, size_words, trust_words

    out, models, n = console(), point.predictions, point.examples
    targets = asked or point.targets
    heads = ("computed", "expected", "90% from", "to")
    columns = [f"{made.model}\n{head}" for made in models for head in heads]
    title = f"{point.name}: expected mse, from {point.images} and nothing trained"
    shown = table(title, "N", *columns, text=0)
    for rows in zip(*(error_rows(made, at) for made in models), strict=True):
        values = [number(value, 3) for row in rows for value in list(row.values())[1:]]
        shown.add_row(*cells(whole(int(rows[0]["n"])), *values))
    out.print(shown)

    title = "Samples for a target" if asked else "Samples for targets, as examples"
    shown = table(title, "model", "target", "N", "chance", "90% from", "to", "chance\nat most")
    for target in targets:
        for made, found in zip(models, point.samples(target), strict=True):
            answer = ["-"] * 4
            if found.samples is not None and found.chance is not None:
                ends = count(found.lower), count(found.upper)
                answer = [whole(found.samples), chance(found.chance), *ends]
            shown.add_row(*cells(made.model, number(target), *answer, chance(found.reach)))
    out.print(shown)

    title = f"What {n:,} samples determine"
    shown = table(title, "model", "weights", "directions", "as weights", "share")
    for made in models:
        used, weights = point.effective(made, n), made.parameters or 0
        share = f"{used / weights:.0%}" if weights else "-"
        directions = number(made.effective(n))
        shown.add_row(*cells(made.model, whole(weights), directions, whole(round(used)), share))
    out.print(shown)

    for made in models:
        if made.checks:
            trust = chance(made.trust) if made.tested else "not tested"
            title = f"{made.model} inside the pilot (trust in the theory: {trust})"
            shown = table(title, "N", "computed", "measured", "ratio", text=0)
            for check in made.checks:
                errors = number(check.computed), number(check.measured)
                shown.add_row(*cells(whole(check.n), *errors, number(check.ratio, 3)))
            out.print(shown)

    sentences: list[str] = []
    for made in models:
        said = [size_words(made, target) for target in asked] or [outlook(made)]
        new = [note for note in made.notes if not any(note in each for each in sentences)]
        sentences.append(" ".join([*said, *trust_words(made), *new]))
    if point.pair is not None:
        sentences.append(point.pair.explain())
        factors = list(map(point.pair.factors_or_reason, targets))
        known = [each for each in factors if "unknown" not in each]
        if known:
            heads = ("target", "sigma\nfactor", "floor\nfactor", "ratio of\nN / log N")
            shown = table("Proposition 1, from lines through both", *heads, text=0)
            for each in known:
                parts = ["-" if part is None else number(part, 3) for part in each.values()]
                shown.add_row(*cells(number(each["target"]), *parts[1:]))
            out.print(shown)
        lacking = [number(each["target"]) for each in factors if "unknown" in each]
        if lacking:
            sentences.append(
                f"Proposition 1 has no factors at {', '.join(lacking)}: the line through one of "
                "the curves is level, or does not reach the target."
            )
    usage = point.usage
    cost = f"{point.name}: {duration(usage.seconds)}"
    for size, where in ((usage.peak_memory, "of memory"), (usage.device_memory, "on the GPU")):
        cost += f", at most {size / 2**30:.2f} GiB {where}" if size else ""
    for sentence in [*sentences, *point.notes, *point.caveats, f"{cost}.\n"]:
        out.print(sentence, highlight=False, markup=False)
