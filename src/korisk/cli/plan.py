"""`korisk plan`: from the errors of a pilot to a sample size, how sure it is, and what next."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from korisk import _checks
from korisk._checks import LARGEST_N
from korisk.cli import pilot
from korisk.cli.output import (
    cells,
    console,
    number,
    print_json,
    table,
    whole,
    with_options,
    write_page,
)
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, OutOfReachError
from korisk.planning.explain import chance
from korisk.planning.fit import DEFAULT_FIT, check_target
from korisk.planning.forecast import Expectation, Forecast, forecast
from korisk.planning.plan import LEVELS, plan_from

_LEAST, _MOST = 0.5, 0.99  # of --probability


def plan(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PILOT",
            help="Errors over N: a table (CSV, Excel, JSON, Parquet, NumPy ...) with n and error, "
            "or one column for each seed or model; or the store of a pilot or study.",
        ),
    ],
    target: pilot.Target = None,
    at: Annotated[
        list[float] | None,
        typer.Option(metavar="N", help="Show the expected error at N. Repeatable."),
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help=f"Show the N that is enough with probability P, {_LEAST:g} to {_MOST:g}.",
        ),
    ] = None,
    related: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Curves of the same network on other data, such as simulated ones, in the pilot's "
            "metric and unit: the model of the pilot's name, or all in the file. Repeatable.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which model. [default: every one]")
    ] = None,
    metric: pilot.MetricOption = None,
    unit: pilot.UnitOption = None,
    column: pilot.ColumnOption = None,
    point: pilot.PointOption = None,
    sheet: pilot.SheetOption = None,
    fit: pilot.FitOption = DEFAULT_FIT,
    plot: pilot.PlotOption = None,
    html: pilot.HtmlOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """How many samples does a target need, according to a small pilot?

    Give the errors of at least three training set sizes, better five, each with several seeds. The
    chance beside a number is the probability that it is enough.
    """
    _refuse(path, target, at, probability, related, fit, html)
    reading = pilot.Reading(metric, unit, column, point, sheet)
    curves = reading.curves(path, model)
    if plot is not None:
        if target is None:
            raise KoriskError("--plot needs --target; give the value to reach")
        pilot.check_plot(plot)
    if target is not None:
        check_target(curves, target)
    relatives = _relatives(curves, related or [], reading)
    if html is not None:
        from korisk.report.page.page import pilot_page

        write_page(html, pilot_page(curves, title=path.name, target=target))
        if target is None and not at:
            if as_json:
                print_json({"plans": [], "written": [str(html)]})
            return
    answers = [
        _Answer(curve, target, at or [], probability, fit, found)
        for curve, found in zip(curves, relatives, strict=True)
    ]
    if as_json:
        print_json({"plans": [answer.to_dict() for answer in answers]})
    else:
        _show(answers)
    if plot is not None:
        from korisk.report.figures.pilot import plans_figure

        plans = [answer.plan for answer in answers if answer.plan is not None]
        pilot.save_plot(plans_figure(plans), plot)
    for answer in answers:
        answer.require()


def _refuse(
    path: Path,
    target: float | None,
    at: list[float] | None,
    probability: float | None,
    related: Sequence[Path] | None,
    fit: str,
    html: Path | None,
) -> None:
    """Refuse options that do not go together, before anything is read or computed."""
    if target is None and not at and html is None:
        raise KoriskError("plan needs a question; give --target E, or --at N, or both")
    if html is not None:
        pilot.check_page(html, fit)
    if probability is not None:
        if target is None:
            raise KoriskError("--probability needs --target; give the value to reach")
        if not _LEAST <= probability <= _MOST:
            raise KoriskError(
                f"--probability must be from {_LEAST:g} to {_MOST:g}, got {probability:g}; "
                "give 0.9, for example"
            )
    if not related:
        return
    if fit != DEFAULT_FIT:
        raise KoriskError(
            f"--related needs fit {DEFAULT_FIT!r}, got --fit {fit}; leave one of them out"
        )
    if html is not None:
        raise KoriskError(
            "--related cannot be used with --html: the page plans from the pilot alone; leave one "
            "of them out"
        )
    for file in related:
        if file.resolve() == path.resolve():
            raise KoriskError(
                f"--related must name another file than the pilot, got {file}; the pilot says "
                "nothing new about itself"
            )


def _relatives(
    curves: Sequence[Curve], files: Sequence[Path], reading: pilot.Reading
) -> list[tuple[Curve, ...]]:
    """The related curves of each pilot, named by model and file.

    From a file that names models of the pilot, each pilot gets its own; from another, all of them.
    """
    found: list[list[Curve]] = [[] for _ in curves]
    own = {curve.model for curve in curves}
    for file in files:
        metric = reading.metric or curves[0].metric or None
        listed = replace(reading, metric=metric, point=None, sheet=None).curves(file)
        matched = any(each.model in own for each in listed if each.model)
        for curve, relatives in zip(curves, found, strict=True):
            for each in listed:
                if not matched or each.model == curve.model:
                    name = f"{each.model} of {file.name}" if each.model else file.name
                    relatives.append(
                        Curve(each.n, each.error, each.seed, name, each.metric, each.unit)
                    )
    return [tuple(each) for each in found]


class _Answer:
    """Everything that is said about one model."""

    def __init__(
        self,
        curve: Curve,
        target: float | None,
        at: list[float],
        probability: float | None,
        fit: str,
        related: tuple[Curve, ...],
    ) -> None:
        self.curve = curve
        self.related = related
        self.forecast: Forecast = forecast(curve, fit=fit, related=related)
        self.plan = None if target is None else plan_from(self.forecast, target)
        self.probability = probability
        self.expected: list[tuple[int, Expectation | None, float | None]] = []  # N, value, chance
        for n in at:
            if self.forecast.doubt and n > self.forecast.last:  # not to be extrapolated
                remedy = f"ask for N up to {self.forecast.last:,}"
                size = _checks.count("n", n, at_least=2, at_most=LARGEST_N, remedy=remedy)
                self.expected.append((size, None, None))
            else:
                met = self.plan.probability(n) if self.plan else None
                found = self.forecast.at(n)
                self.expected.append((found.n, found, met))

    def require(self) -> None:
        """Raise `OutOfReachError` where what was asked has no answer."""
        if self.plan is not None:
            self.plan.require()
        for n, found, _ in self.expected:
            if found is None:
                doubt = self.forecast.doubt
                raise OutOfReachError(
                    f"the {self.curve.unit.noun} at N = {n:,} is not known; "
                    f"{doubt[0].lower()}{doubt[1:].rstrip('.')}; ask for N up to "
                    f"{self.forecast.last:,}, or measure there"
                )

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "read_as": self.curve.read_as,
            "unit": self.curve.unit.name,
            "fit": self.forecast.fit,
        }
        plan, p = self.plan, self.probability
        if plan is not None:
            content |= plan.to_dict()
        content["related"] = [each.model for each in self.related]
        if plan is not None and p is not None:
            reached = None
            if plan.samples is not None:
                by = plan.before_long
                reached = {"by": by, "chance": plan.probability(by), "samples": plan.if_reached(p)}
            samples = None if plan.doubt else plan.safe(p)
            content["enough"] = {"probability": p, "samples": samples, "if_reached": reached}
        content["at"] = [
            {
                "n": n,
                "value": found.value if found else None,
                "lower": found.lower if found else None,
                "upper": found.upper if found else None,
                "probability_of_target": met,
            }
            for n, found, met in self.expected
        ]
        return content

    def sentences(self, *, several: bool) -> list[str]:
        """What the tables do not say."""
        said = []
        if self.plan is not None:
            name = f"{self.curve.name}: " if several else ""
            said.append(("" if self.curve.model else name) + self.plan.explain())
            if self.probability is not None:
                sentence = self.plan.enough(self.probability)
                said += [name + sentence] if sentence not in said[0] else []
        elif self.forecast.relatives is not None:
            names = ", ".join(each.model for each in self.related)
            said.append(f"Related: {names} (trust {chance(self.forecast.relatives.trust)}).")
        return said


def _show(answers: list[_Answer]) -> None:
    """Print a table of sample sizes, a table of expected errors, and sentences."""
    out = console()
    plans = [answer.plan for answer in answers if answer.plan is not None]
    if plans:
        shown = table(
            f"Samples for {number(plans[0].target)} (fit {plans[0].fit})",
            "model",
            "N",
            "chance",
            "from",
            "to",
            *(f"safe\nat {level:.0%}" for level in LEVELS),
            "chance\nat most",
            "next\nround",
        )
        for plan in plans:
            following = "-" if plan.next_round is None else whole(plan.next_round)
            shown.add_row(*cells(plan.curve.model or "-", *pilot.answer(plan, LEVELS), following))
        out.print(shown)
    if any(answer.expected for answer in answers):
        noun = answers[0].curve.unit.noun
        columns = ["model", "N", noun, "90% from", "to"]
        columns += ["chance of\nthe target"] if plans else []
        shown = table(f"Expected {noun}", *columns)
        for answer in answers:
            for n, found, met in answer.expected:
                row = ["-", "-", "-"]
                if found is not None:
                    row = [number(found.value), number(found.lower), number(found.upper)]
                if plans:
                    row.append("-" if met is None else chance(met))
                shown.add_row(*cells(answer.curve.model or "-", whole(n), *row))
        out.print(shown)
    related = any(answer.related for answer in answers)
    if how := pilot.read_as([answer.curve for answer in answers]):
        out.print(how, highlight=False, markup=False)
    for answer in answers:
        said = answer.sentences(several=len(answers) > 1)
        if related and not answer.related:
            said.append(f"No related curve is named {answer.curve.name}.")
        for sentence in said:
            out.print(with_options(sentence), highlight=False, markup=False)
