"""`korisk plan`: from the errors of a pilot to a sample size, its probability, and advice."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from korisk._checks import LARGEST_N, count
from korisk._json import JsonDict
from korisk.cli.common import options, output
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, Message, UnreachableError
from korisk.planning import words
from korisk.planning.forecast import check_target, level_of
from korisk.planning.pilot import read_training
from korisk.planning.plan import Forecast, Plan, forecast, plan_tables
from korisk.texts import Table, counted, number, whole

_MOST_SHOWN = 10  # curves of one file
_ENDS = ("value", "lower", "upper")  # of an expected error


def plan(
    path: Annotated[Path, "PILOT", "A table of errors over N, or the store of a study."],
    asked: options.Asked,
    *,
    related: Annotated[list[Path] | None, "Curves of the same network on other data."] = None,
    model: Annotated[str | None, "Which one, or a name for the only one. [default: all]"] = None,
    reading: options.Reading,
    answer: options.Answer,
    full: options.Full = False,
) -> None:
    """What to do to reach a target: collect samples, measure one more size, train longer, or stop?

    Give the errors of at least three training set sizes, better five, each with several seeds.
    Without --target, --at and --html, it shows how the file is read.
    """
    targets, sizes, sure = asked.target or [], asked.at or [], asked.sure
    if not targets and answer.plot is not None:
        raise KoriskError("--plot needs --target; give the value to reach")
    level_of(sure)
    answer.check(targets)
    curves = reading.curves(path, model)
    relatives = _relatives(path, curves, related or [], reading)
    if not targets and not sizes and answer.html is None:
        _show_reading(curves, json=answer.json)
        return
    targets = options.in_unit(targets, curves)
    for value in targets:
        check_target(curves, value)
    trained = [read_training(path, curve) for curve in curves]
    # A page alone also draws curves with too few sizes for a forecast.
    pairs = zip(curves, relatives, strict=True) if targets or sizes else ()
    forecasts = [forecast(curve, related=similar) for curve, similar in pairs]
    views = zip(forecasts, trained, strict=False)
    plans = [[Plan(view, value, *about) for value in targets] for view, about in views]
    all_plans = [item for answers in plans for item in answers]
    at_sizes = [_expected(*both, sizes) for both in zip(forecasts, plans, strict=True)]
    if answer.html is not None:
        from korisk.report.page.page import curves_page

        goal = next(iter(targets), None)
        about: dict[str, Any] = {"title": path.name, "target": goal, "sure": sure}
        output.write_page(answer.html, lambda: curves_page(curves, trained, relatives, **about))
    if answer.json:
        content = [
            {"read_as": view.evidence.read_as, **item, "at": rows}
            for view, answers, rows in zip(forecasts, plans, at_sizes, strict=True)
            for item in [plan.to_dict(sure) for plan in answers]
            or [{"model": view.model, "metric": view.metric, "unit": view.unit.name}] * bool(sizes)
        ]
        written = {} if answer.html is None else {"written": [str(answer.html)]}
        output.print_json({"plans": content} | written)
    elif targets or sizes:
        output.show(*options.read_as(curves))
        output.show(*_lines(all_plans, sure, several=len(plans) > 1, full=full))
        for view, similar in zip(forecasts, relatives, strict=True):
            if any(relatives) and not similar:
                output.show(f"No related curve is named {view.evidence.name}.")
        output.show_numbers(plan_tables(all_plans, sure, full=full))
        if sizes:
            output.show(_error_table(forecasts, at_sizes, targets))
    if answer.plot is not None:
        from korisk.report.figures.forecast import plans_figure

        output.save_plot(plans_figure(all_plans, sure=sure), answer.plot)
    # Last: a target out of reach sets the exit code, and the answers are shown all the same.
    output.exit_if(not all(item.recommend(sure).helps for item in all_plans))
    for rows, view in zip(at_sizes, forecasts, strict=True):
        if n := next((row["n"] for row in rows if row["value"] is None), 0):
            raise UnreachableError(
                f"the {view.unit.noun} at N = {n:,} is not known; {view.doubt[0].lower()}"
                f"{view.doubt[1:].rstrip('.')}; ask for N up to {view.last:,}, or measure there"
            )


def _show_reading(curves: Sequence[Curve], *, json: bool) -> None:
    """Print how a table was read, in five lines: models, N, values, columns, and what to add."""
    contents = [_reading(curve) for curve in curves]
    if json:
        output.print_json({"curves": contents})
        return
    unit, listed = curves[0].unit, contents[:_MOST_SHOWN]
    names = [content["model"] for content in listed if content["model"]] or ["one, without a name"]
    further = len(contents) - len(listed)
    rest = f"; {counted(further, 'further model')}; all with --json" if further else ""
    sizes = sorted({n for content in contents for n in content["sizes"]})
    counts = sorted({count for content in contents for count in content["seeds"]})
    labels = ", ".join(filter(None, [curves[0].metric, f"unit {unit.name}"]))
    direction, ends = "larger" if unit.larger_is_better else "smaller", []
    for content in listed:
        errors = dict(zip(content["sizes"], content["values"], strict=True))
        texts = [f"{number(errors[n])} at N = {whole(n)}" for n in _ends(content["sizes"])]
        name = content["model"] if len(curves) > 1 else ""
        ends.append(f"{name} {', '.join(texts)}".strip())
    output.show(
        f"Models: {', '.join(names)}{rest}.",
        f"N: {counted(len(sizes), 'size')}, {' to '.join(map(whole, _ends(sizes)))}; "
        f"seeds: {' to '.join(map(str, _ends(counts)))}.",
        f"Values: {labels}, {direction} is better; {'; '.join(ends)}.",
        *(options.read_as(curves) or ["Read: as its columns are named."]),
        "For a plan, add --target E.",
    )


def _ends(values: Sequence[int]) -> Sequence[int]:
    """The first and the last value, or the only one."""
    return values[:1] if values[0] == values[-1] else [values[0], values[-1]]


def _reading(curve: Curve) -> JsonDict:
    labels = {"model": curve.model, "metric": curve.metric, "unit": curve.unit.name}
    return labels | {
        "larger_is_better": curve.unit.larger_is_better,
        "sizes": curve.sizes.tolist(),
        "values": curve.unit.from_error(curve.means).tolist(),
        "seeds": curve.counts.tolist(),
        "read_as": curve.read_as,
    }


def _expected(view: Forecast, plans: Sequence[Plan], at: Sequence[float]) -> list[JsonDict]:
    """Expected errors at some N with the chance of each target; None where they are not known."""
    rows: list[JsonDict] = []
    for n in at:
        if view.doubt and n > view.last:  # N is checked, but there is no forecast for it
            remedy = f"ask for N up to {view.last:,}"
            size = count("n", n, at_least=2, at_most=LARGEST_N, remedy=remedy)
            rows.append({"n": size, **dict.fromkeys(_ENDS), "chances": [None] * len(plans)})
        else:
            rows.append(vars(view.at(n)) | {"chances": [item.probability(n) for item in plans]})
    return rows


def _error_table(
    forecasts: Sequence[Forecast], at_sizes: Sequence[list[JsonDict]], targets: Sequence[float]
) -> Table:
    """The expected errors of several models at some N, with the chance of each target."""
    noun = forecasts[0].unit.noun
    rows = []
    for view, of_model in zip(forecasts, at_sizes, strict=True):
        for row in of_model:
            chances = ["-" if p is None else words.chance(p) for p in row["chances"]]
            values = [number(row[name]) for name in _ENDS]
            rows.append([view.model or "-", whole(row["n"]), *values, *chances])
    goals = ["the target"] if len(targets) == 1 else map(number, targets)
    heads = [f"chance of\n{goal}" for goal in goals]
    return Table(f"Expected {noun}", ["model", "N", noun, "90% from", "to", *heads], rows)


def _lines(plans: Sequence[Plan], sure: float, *, several: bool, full: bool) -> list[str]:
    """The answers of all models; a line that stands already, such as a record, is left out."""
    lines: dict[str, None] = {}
    for item in plans:
        first, *rest = item.lines(sure, full=full)
        if several and not item.forecast.model:
            first = Message(f"{item.forecast.evidence.name}: ", first)
        lines |= dict.fromkeys([first, *rest])
    return list(lines)


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
