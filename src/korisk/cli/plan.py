"""`korisk plan`: from the errors of a pilot to a sample size, its probability, and advice."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated

from korisk._checks import one_of
from korisk.cli.common import options
from korisk.cli.common.command import command
from korisk.cli.common.output import check_plot, print_json, save_plot, show, write_page
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.answer import answer, answer_tables
from korisk.planning.fit import DEFAULT_FIT, FITS, check_target, level_of
from korisk.planning.limits import read_training


@command(
    "planning.answer.answer",
    "curves.curve.Curve.read",
    "curves.columns.Options",
    columns="column",
    n="at",
)
def plan(
    path: Annotated[Path, "PILOT"],
    *,
    target: options.Targets = None,
    at: Annotated[list[float] | None, "N"] = None,
    sure: Annotated[float, "P"] = 0.9,
    cost: Annotated[float | None, "PRICE"] = None,
    related: list[Path] | None = None,
    model: Annotated[
        str | None,
        "Which model; where the file names none, what to call it. [default: every one]",
    ] = None,
    reading: options.Reading,
    fit: Annotated[str, "FIT"] = DEFAULT_FIT,
    plot: options.Plot = None,
    html: options.Html = None,
    full: Annotated[bool, "Print everything: more levels, conditions, findings."] = False,
    json: options.Json = False,
) -> None:
    """What to do to reach a target: collect samples, measure one more size, train longer, or stop?

    Give the errors of at least three training set sizes, better five, each with several seeds.
    Without --target, --at and --html, it shows how the file is read.
    """
    targets = list(dict.fromkeys(target or []))
    if not targets and plot is not None:
        raise KoriskError("--plot needs --target; give the value to reach")
    options.one_target(targets, plot)
    if not targets and cost is not None:
        raise KoriskError("--cost needs --target; give the value to reach")
    if html is not None and related:
        why = "the page plans from the pilot alone; leave one of them out"
        raise KoriskError(f"--related cannot be used with --html: {why}")
    # Before the pilot is read: a file that cannot be written should fail at once.
    options.check_page(html, fit)
    check_plot(plot)
    curves = reading.curves(path, model)
    if not targets and not at and html is None:
        level_of(sure)  # what is not used must be right, too
        one_of("fit", fit, FITS)
        _relatives(path, curves, related or [], reading)
        options.show_reading(curves, json=json)
        return
    targets = options.in_unit(targets, curves)
    for value in targets:
        check_target(curves, value)
    relatives = _relatives(path, curves, related or [], reading)
    trained = [read_training(path, curve) for curve in curves]
    questions: list[float | None] = [*targets] or [None]
    by_model = [
        [
            answer(curve, value, at or (), sure, cost, fit=fit, related=similar, trained=about)
            for value in questions
        ]
        for curve, similar, about in zip(curves, relatives, trained, strict=True)
        if targets or at
    ]
    if html is not None:
        from korisk.report.page.answers import refuse_longer_training
        from korisk.report.page.page import pilot_page

        for curve, (training, longer) in zip(curves, trained, strict=True):
            refuse_longer_training(curve, next(iter(targets), None), training, longer)
        write_page(html, pilot_page(curves, title=path.name, target=next(iter(targets), None)))
        if not by_model:  # the page asks for the target itself
            if json:
                print_json({"plans": [], "written": [str(html)]})
            return
    answers = list(chain.from_iterable(by_model))
    if json:
        print_json({"plans": [result.to_dict() for result in answers]})
    else:
        show(*options.read_as(curves))
        several = len(curves) > 1
        for (first, *further), similar in zip(by_model, relatives, strict=True):
            if text := first.explain(full=full, with_name=several):
                show(text)
            show(*(result.explain(full=full, with_name=several, again=True) for result in further))
            if any(relatives) and not similar:
                show(f"No related curve is named {first.curve.name}.")
        show(*answer_tables(answers, full=full))
    if plot is not None:
        from korisk.report.figures.pilot import plans_figure

        plans = [result.plan for result in answers if result.plan is not None]
        save_plot(plans_figure(plans, sure=sure), plot)
    # Last: a target out of reach sets the exit code, and the answers are shown all the same.
    for result in answers:
        result.require()


def _relatives(
    path: Path, curves: Sequence[Curve], files: Sequence[Path], reading: options.Reading
) -> list[list[Curve]]:
    """Related curves for each curve of the pilot, named by model and file.

    If a file names models of the pilot, each curve gets those of its own model; else all of them.
    """
    relatives: list[list[Curve]] = [[] for _ in curves]
    models = {curve.model for curve in curves}
    for file in files:
        if file.resolve() == path.resolve():
            raise KoriskError(f"--related must name another file than the pilot, got {file}")
        # The pilot's metric, so that a related file with several asks no question; its points and
        # worksheets have names of their own.
        metric = reading.metric or curves[0].metric or None
        candidates = replace(reading, metric=metric, point=None, worksheet=None).curves(file)
        by_name = any(related.model in models for related in candidates if related.model)
        for curve, matches in zip(curves, relatives, strict=True):
            for related in candidates:
                if not by_name or related.model == curve.model:
                    name = f"{related.model} of {file.name}" if related.model else file.name
                    matches.append(related.renamed(name))
    return relatives
