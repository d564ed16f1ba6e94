"""`korisk plan`: from the errors of a pilot to a sample size, how sure it is, and what next."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from korisk import _checks
from korisk.cli import pilot
from korisk.cli.output import cells, console, number, print_json, table, whole, write_page
from korisk.curves.curve import LARGEST_N, Curve
from korisk.errors import KoriskError, OutOfReachError
from korisk.planning.explain import chance, enough, quantity
from korisk.planning.forecast import DEFAULT_METHOD, Expectation, Forecast, forecast
from korisk.planning.plan import LEVELS, Plan
from korisk.planning.plan import plan as make_plan

_LEAST, _MOST = 0.5, 0.99  # of --probability


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
    unit: pilot.UnitOption = "error",
    column: pilot.ColumnOption = None,
    method: pilot.MethodOption = DEFAULT_METHOD,
    plot: pilot.PlotOption = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a page on which the target can be changed: FILE.html "
            "(needs korisk[report]).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """How many samples does a target need, according to a small pilot?

    Give the errors of at least three training set sizes, better five, each with several seeds. The
    chance beside a number is the probability that it is enough.
    """
    if target is None and not at and html is None:
        raise KoriskError("plan needs a question; give --target E, or --at N, or both")
    if html is not None:
        _check_page(html, method)
    _check_probability(probability, target)
    _check_related(related, path, method, html)
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
    relatives = _relatives(curves, related or [], metric, unit, column)
    if html is not None:
        _write_page(curves, html, path, target)
        if target is None and not at:
            if as_json:
                print_json({"plans": [], "written": [str(html)]})
            return
    answers = [
        _Answer(curve, target, at or [], probability, method, found)
        for curve, found in zip(curves, relatives, strict=True)
    ]
    if as_json:
        print_json({"plans": [answer.to_dict() for answer in answers]})
    else:
        _show(answers)
    if plot is not None and answers[0].plan is not None:
        from korisk.report.figures.pilot import plan_figure

        pilot.save_plot(plan_figure(answers[0].plan), plot)
    for answer in answers:
        answer.require()


# --- What was asked ------------------------------------------------------------------------------


def _curves(
    path: Path, model: str | None, metric: str | None, unit: str, column: list[str] | None
) -> tuple[Curve, ...]:
    if model is None:
        return pilot.read(path, metric=metric, unit=unit, column=column)
    named = pilot.columns(column)
    return (Curve.read(path, model=model, metric=metric, unit=unit, columns=named),)


def _relatives(
    curves: Sequence[Curve],
    files: Sequence[Path],
    metric: str | None,
    unit: str,
    column: list[str] | None,
) -> list[tuple[Curve, ...]]:
    """The related curves of each pilot, named by model and file.

    Of a file that names models of the pilot, each pilot gets its own; of another, all of them.
    """
    found: list[list[Curve]] = [[] for _ in curves]
    own = {curve.model for curve in curves}
    for file in files:
        listed = pilot.read(
            file, metric=metric or curves[0].metric or None, unit=unit, column=column
        )
        matched = any(each.model in own for each in listed if each.model)
        for curve, relatives in zip(curves, found, strict=True):
            relatives.extend(
                _labelled(each, file) for each in listed if not matched or each.model == curve.model
            )
    return [tuple(each) for each in found]


def _labelled(curve: Curve, file: Path) -> Curve:
    name = f"{curve.model} of {file.name}" if curve.model else file.name
    return Curve(curve.n, curve.error, curve.seed, name, curve.metric, curve.unit)


def _check_probability(probability: float | None, target: float | None) -> None:
    if probability is None:
        return
    if target is None:
        raise KoriskError("--probability needs --target; give the value to reach")
    if not _LEAST <= probability <= _MOST:
        raise KoriskError(
            f"--probability must be from {_LEAST:g} to {_MOST:g}, got {probability:g}; "
            "give 0.9, for example"
        )


def _check_related(
    files: Sequence[Path] | None, path: Path, method: str, html: Path | None
) -> None:
    """Refuse related curves where they cannot be used."""
    if not files:
        return
    if method != DEFAULT_METHOD:
        raise KoriskError(
            f"--related needs method {DEFAULT_METHOD!r}, got --method {method}; leave one of them "
            "out"
        )
    if html is not None:
        raise KoriskError(
            "--related cannot be used with --html: the page plans from the pilot alone; leave one "
            "of them out"
        )
    for file in files:
        if file.resolve() == path.resolve():
            raise KoriskError(
                f"--related must name another file than the pilot, got {file}; the pilot says "
                "nothing new about itself"
            )


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
    from korisk.report.page.pilot import pilot_page

    write_page(file, pilot_page(curves, title=path.name, target=target))


# --- What is answered ----------------------------------------------------------------------------


class _Answer:
    """Everything that is said of one model."""

    def __init__(
        self,
        curve: Curve,
        target: float | None,
        at: list[float],
        probability: float | None,
        method: str,
        related: tuple[Curve, ...],
    ) -> None:
        self.curve = curve
        self.related = related
        self.plan: Plan | None = None
        if target is not None:
            self.plan = make_plan(curve, target, method=method, related=related)
        self.forecast: Forecast = (
            self.plan.forecast if self.plan else forecast(curve, method=method, related=related)
        )
        self.probability = probability
        self.unknown: list[int] = []  # N beyond a pilot that cannot be extrapolated
        self.expected: list[tuple[Expectation, float | None]] = []
        for n in at:
            if self.forecast.doubt and n > self.forecast.last:
                remedy = f"ask for N up to {self.forecast.last:,}"
                self.unknown.append(
                    _checks.count("n", n, at_least=2, at_most=LARGEST_N, remedy=remedy)
                )
                continue
            met = self.plan.probability(n) if self.plan else None
            self.expected.append((self.forecast.at(n), met))

    def require(self) -> None:
        """Raise `OutOfReachError` where what was asked has no answer."""
        if self.plan is not None:
            self.plan.require()
        if self.unknown:
            doubt = self.forecast.doubt
            raise OutOfReachError(
                f"the {quantity(self.curve)} at N = {self.unknown[0]:,} is not known; "
                f"{doubt[0].lower()}{doubt[1:].rstrip('.')}; ask for N up to "
                f"{self.forecast.last:,}, or measure there"
            )

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "unit": self.curve.unit.name,
            "method": self.forecast.method,
        }
        if self.plan is not None:
            content |= self.plan.to_dict()
        content["related"] = [each.model for each in self.related]
        if self.plan is not None and self.probability is not None:
            content["enough"] = _enough(self.plan, self.probability)
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
        keys = ("error", "lower", "upper", "probability_of_target")
        content["at"] += [{"n": n, **dict.fromkeys(keys)} for n in self.unknown]
        return content


def _enough(plan: Plan, p: float) -> dict[str, Any]:
    """The N for --probability: over all futures, and if the target is reachable by some N."""
    reached = None
    if plan.samples is not None:
        by = plan.before_long
        reached = {"by": by, "chance": plan.probability(by), "samples": plan.if_reached(p)}
    samples = None if plan.doubt else plan.safe(p)
    return {"probability": p, "samples": samples, "if_reached": reached}


def _show(answers: list[_Answer]) -> None:
    out = console()
    plans = [answer.plan for answer in answers if answer.plan is not None]
    if plans:
        out.print(_plan_table(plans))
    if any(answer.expected or answer.unknown for answer in answers):
        out.print(_error_table(answers))
    related = any(answer.related for answer in answers)
    for answer in answers:
        said = _words(answer, several=len(answers) > 1)
        if related and not answer.related:
            said.append(f"No related curve is named {answer.curve.name}.")
        for sentence in said:
            out.print(sentence, highlight=False, markup=False)


def _plan_table(plans: list[Plan]) -> Table:
    shown = table(
        f"Samples for {number(plans[0].target)} (method {plans[0].method})",
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
        shown.add_row(
            *cells(
                plan.curve.model or "-",
                *pilot.answer(plan),
                *(pilot.safe(plan, level) for level in LEVELS),
                pilot.reach(plan),
                "-" if plan.next_round is None else whole(plan.next_round),
            )
        )
    return shown


def _error_table(answers: list[_Answer]) -> Table:
    noun = quantity(answers[0].curve)
    columns = ["model", "N", noun, "90% from", "to"]
    columns += ["chance of\nthe target"] if any(answer.plan for answer in answers) else []
    shown = table(f"Expected {noun}", *columns)
    for answer in answers:
        name = answer.curve.model or "-"
        for expected, met in answer.expected:
            row = [name, whole(expected.n), number(expected.error)]
            row += [number(expected.lower), number(expected.upper)]
            row += [chance(met)] if met is not None else []
            shown.add_row(*cells(*row))
        for n in answer.unknown:
            shown.add_row(*cells(name, whole(n), *["-"] * (len(columns) - 2)))
    return shown


def _words(answer: _Answer, *, several: bool) -> list[str]:
    said = []
    if answer.plan is not None:
        name = f"{answer.curve.name}: " if several else ""
        said.append(("" if answer.curve.model else name) + answer.plan.explain())
        if answer.probability is not None:
            sentence = enough(answer.plan, answer.probability)
            said += [name + sentence] if sentence not in said[0] else []
    elif answer.forecast.relatives is not None:
        names = ", ".join(each.model for each in answer.related)
        said.append(f"Related: {names} (trust {chance(answer.forecast.relatives.trust)}).")
    if answer.forecast.calibration.note:
        said.append(f"The {answer.forecast.method} {answer.forecast.calibration.note}.")
    return said
