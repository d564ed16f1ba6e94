"""`korisk plan`: from the errors of a pilot to a sample size, how sure it is, and what next."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from korisk.cli import pilot
from korisk.cli.output import cells, console, number, print_json, table, whole, write_page
from korisk.curves.curve import Curve
from korisk.curves.forecast import DEFAULT_METHOD, Expectation, Forecast, forecast
from korisk.curves.plan import LEVELS, Plan
from korisk.curves.plan import plan as make_plan
from korisk.curves.words import chance, quantity
from korisk.errors import KoriskError


def plan(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PILOT.csv",
            help="Errors over N: columns n, error and maybe seed, model, metric; or JSON records.",
        ),
    ],
    target: pilot.Target = None,
    at: Annotated[
        list[float] | None,
        typer.Option(metavar="N", help="Show the error to expect at N. Repeatable."),
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option(metavar="P", help="Show the N that suffices with probability P, 0.5 to 0.95."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which model. [default: every one]")
    ] = None,
    metric: pilot.MetricOption = None,
    unit: pilot.UnitOption = "error",
    column: pilot.ColumnOption = None,
    method: pilot.MethodOption = DEFAULT_METHOD,
    plot: pilot.PlotOption = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a page with the planner in it, to move the target there: FILE.html "
            "(needs korisk[report]).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """How many samples does a target ask for, according to a small pilot?

    Give the errors of at least three training set sizes, better five, each with several seeds.
    """
    if target is None and not at and html is None:
        raise KoriskError("plan needs a question; give --target E, or --at N, or both")
    if html is not None:
        _check_page(html, method)
    if probability is not None and target is None:
        raise KoriskError("--probability needs --target; give the value to reach")
    curves = _curves(path, model, metric, unit, column)
    if plot is not None and (target is None or len(curves) > 1):
        names = ", ".join(curve.name for curve in curves)
        raise KoriskError(
            "--plot needs --target"
            if target is None
            else f"--plot draws one model; name one of {names} with --model, or use korisk compare"
        )
    if plot is not None:
        pilot.check_plot(plot)
    if html is not None:
        _write_page(curves, html, path, target)
        if target is None and not at:
            if as_json:
                print_json({"plans": [], "written": [str(html)]})
            return
    answers = [_Answer(curve, target, at or [], probability, method) for curve in curves]
    if as_json:
        print_json({"plans": [answer.to_dict() for answer in answers]})
    else:
        _show(answers)
    if plot is not None and answers[0].plan is not None:
        from korisk.report.pilot_figure import plan_figure

        pilot.save_plot(plan_figure(answers[0].plan), plot)
    _leave(answers)


def _curves(
    path: Path, model: str | None, metric: str | None, unit: str, column: list[str] | None
) -> tuple[Curve, ...]:
    if model is None:
        return pilot.read(path, metric=metric, unit=unit, column=column)
    named = pilot.columns(column)
    return (Curve.read(path, model=model, metric=metric, unit=unit, columns=named),)


def _check_page(file: Path, method: str) -> None:
    """Refuse a page that could not be written before anything is computed."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise KoriskError(
            f"{file}: the suffix of a page must be .html, got {file.suffix or 'none'}; rename it"
        )
    if not file.parent.is_dir():
        raise KoriskError(f"{file}: cannot be written: no such folder; make it first")
    if method != DEFAULT_METHOD:
        raise KoriskError(
            f"--html computes in the page by method {DEFAULT_METHOD!r}, got {method!r}; leave "
            "--method out, or use --plot"
        )


def _write_page(curves: tuple[Curve, ...], file: Path, path: Path, target: float | None) -> None:
    from korisk.report.pilot_page import pilot_page

    write_page(file, pilot_page(curves, title=path.name, target=target))


class _Answer:
    """Everything that is said of one model."""

    def __init__(
        self,
        curve: Curve,
        target: float | None,
        at: list[float],
        probability: float | None,
        method: str,
    ) -> None:
        self.curve = curve
        self.plan: Plan | None = None
        if target is not None:
            self.plan = make_plan(curve, target, method=method)
        self.forecast: Forecast = (
            self.plan.forecast if self.plan else forecast(curve, method=method)
        )
        self.expected: list[tuple[Expectation, float | None]] = [
            (self.forecast.at(n), self.plan.probability(n) if self.plan else None) for n in at
        ]
        self.probability = probability
        self.enough = self.plan.safe(probability) if self.plan and probability is not None else None

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "unit": self.curve.unit.name,
            "method": self.forecast.method,
        }
        if self.plan is not None:
            content |= self.plan.to_dict()
        if self.probability is not None:
            content["enough"] = {"probability": self.probability, "samples": self.enough}
        content["at"] = [
            {
                "n": expected.n,
                "error": expected.error,
                "lower": expected.lower,
                "upper": expected.upper,
                "probability_of_target": met,
            }
            for expected, met in self.expected
        ]
        return content


def _show(answers: list[_Answer]) -> None:
    out = console()
    plans = [answer.plan for answer in answers if answer.plan is not None]
    if plans:
        out.print(_plan_table(plans))
        if note := pilot.star([(plan.curve.model, plan) for plan in plans]):
            out.print(f"{note}\n", highlight=False)
    if any(answer.expected for answer in answers):
        out.print(_error_table(answers))
    for answer in answers:
        for sentence in _words(answer, len(answers) > 1):
            out.print(sentence, highlight=False, markup=False)


def _plan_table(plans: list[Plan]) -> Table:
    shown = table(
        f"Samples for {number(plans[0].target)} (method {plans[0].method})",
        "model",
        "N",
        "90% from",
        "to",
        *(f"safe\nat {level:.0%}" for level in LEVELS),
        "chance",
        "next\nround",
    )
    for plan in plans:
        shown.add_row(
            *cells(
                plan.curve.model or "-",
                _count(plan.samples),
                pilot.end(plan.lower),
                pilot.end(plan.upper),
                *(pilot.safe(plan, level) for level in LEVELS),
                chance(plan.reach),
                _count(plan.next_round),
            )
        )
    return shown


def _error_table(answers: list[_Answer]) -> Table:
    columns = ["model", "N", quantity(answers[0].curve), "90% from", "to"]
    with_target = any(answer.plan for answer in answers)
    shown = table("To expect", *columns, *(["chance of\nthe target"] if with_target else []))
    for answer in answers:
        for expected, met in answer.expected:
            row = [answer.curve.model or "-", whole(expected.n), number(expected.error)]
            row += [number(expected.lower), number(expected.upper)]
            row += [chance(met)] if met is not None else []
            shown.add_row(*cells(*row))
    return shown


def _words(answer: _Answer, several: bool) -> list[str]:
    if answer.plan is None:
        return []
    name = f"{answer.curve.name}: " if several and not answer.curve.model else ""
    said = [name + answer.plan.explain()]
    if answer.probability is not None and answer.enough is not None:
        said.append(
            f"{whole(answer.enough)} samples suffice with probability {answer.probability:g}"
            + (
                "."
                if math.isfinite(answer.plan.upper)
                else f", if it is met before long, by N = {whole(answer.plan.before_long)}."
            )
        )
    if answer.forecast.calibration.note:
        said.append(f"The {answer.forecast.method} {answer.forecast.calibration.note}.")
    return said


def _count(value: int | None) -> str:
    return "-" if value is None else whole(value)


def _leave(answers: list[_Answer]) -> None:
    """Say on stderr, and by the exit code, that a target has no answer."""
    for answer in answers:
        if answer.plan is not None:
            answer.plan.require()
