"""`korisk check`: do measured errors stay within the bounds of the theorem?"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from korisk.cli.output import cells, console, number, print_json, table, whole
from korisk.studies.theorem.check import MEASURED, Check, Group
from korisk.studies.theorem.explain import (
    answer,
    order_sentences,
    remarks,
    shares,
)
from korisk.studies.theorem.order import Needed, Order
from korisk.studies.theorem.theorem import PointTheorem, Theorem, read_theorem
from korisk.theory import BOUNDS, BoundForm

VIOLATED = 1
NOT_KNOWN = 3


def check(
    path: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a study, or its store.")
    ],
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="One point alone. [default: every one]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Does the theorem hold? Hold measured errors against the bounds of their layers' errors.

    The study must have been run with `theorem: true`. Nothing is fitted. Exit code 0: it holds in
    every network that can be judged; 1: it is violated; 3: no bound can be told.
    """
    found = read_theorem(path, point=point)
    if as_json:
        print_json(_as_json(found))
    else:
        _show(found)
    if found.holds is not True:
        raise typer.Exit(NOT_KNOWN if found.holds is None else VIOLATED)


# --- Words and tables ----------------------------------------------------------------------------


def _show(found: Theorem) -> None:
    out = console()
    _say(out, answer(found.checks))
    for sentence in remarks(found.checks):
        _say(out, sentence)
    for name in found.untold:
        _say(out, f"{name}: no row tells errors of layers.")
    for point in found.points:
        out.print()
        out.print(_table(point))
        for note in point.notes:
            _say(out, f"{note}.")
        for sentence in shares(point):
            _say(out, sentence)
        for order in point.orders:
            _say(out, f"{' against '.join(order.models)}: {' '.join(order_sentences(order))}")


def _say(out: Console, text: str) -> None:
    out.print(text, highlight=False, markup=False)


def _table(point: PointTheorem) -> Table:
    per = "" if point.pixels is None else f", sums of {point.pixels:,} entries"
    made = table(
        f"{point.name}: squared errors and bounds{per}",
        *("model", "N", "error", *BOUNDS, "loose by", "at most", "holds"),
    )
    for group in point.groups:
        loose = group.looseness("composed")
        made.add_row(
            *cells(
                *(group.model, whole(group.n), number(group.error)),
                *(_number(group.bound(form)) for form in BOUNDS),
                *((number(loose.mean, 3), number(loose.worst, 3)) if loose else ("-", "-")),
                _holds(group),
            )
        )
    return made


def _number(value: float | None) -> str:
    return "?" if value is None else number(value)


def _holds(group: Group) -> str:
    judged = len(group.judged)
    if not judged:
        return "not known"
    said = f"{group.held} of {judged}" + (" VIOLATED" if group.holds is False else "")
    return said if judged == len(group.checks) else f"{said}, {len(group.checks) - judged} open"


# --- JSON ----------------------------------------------------------------------------------------


def _as_json(found: Theorem) -> dict[str, Any]:
    return {
        "study": found.name,
        "store": str(found.store),
        "holds": found.holds,
        "answer": answer(found.checks),
        "remarks": remarks(found.checks),
        "tolerance": MEASURED,
        **_counts(found.checks),
        "without_layer_errors": list(found.untold),
        "points": [_point_json(point) for point in found.points],
    }


def _counts(checks: tuple[Check, ...]) -> dict[str, int]:
    return {
        "networks": len(checks),
        "held": sum(each.holds is True for each in checks),
        "violated": sum(each.holds is False for each in checks),
        "unknown": sum(each.holds is None for each in checks),
    }


def _point_json(point: PointTheorem) -> dict[str, Any]:
    return {
        "point": point.name,
        "holds": point.holds,
        "answer": answer(point.checks),
        **_counts(point.checks),
        "pixels": point.pixels,
        "notes": list(point.notes),
        "groups": [_group_json(group) for group in point.groups],
        "checks": [_check_json(each) for each in point.checks],
        "orders": [_order_json(order) for order in point.orders],
    }


def _group_json(group: Group) -> dict[str, Any]:
    loose = {form: group.looseness(form) for form in BOUNDS}
    return {
        "model": group.model,
        "n": group.n,
        "seeds": len(group.checks),
        "judged": len(group.judged),
        "held": group.held,
        "holds": group.holds,
        "error": group.error,
        "layers": group.layer_errors,
        "bounds": {form: group.bound(form) for form in BOUNDS},
        "looseness": {form: each and vars(each) for form, each in loose.items()},
        "contributions": {form: group.contributions(form) for form in BOUNDS},
    }


def _check_json(each: Check) -> dict[str, Any]:
    return {
        "model": each.model,
        "n": each.n,
        "seed": each.seed,
        "holds": each.holds,
        "error": each.error,
        "layers": dict(each.layers),
        "bounds": {form: _total(each, form) for form in BOUNDS},
        "looseness": {form: each.looseness(form) for form in BOUNDS},
        "reason": each.reason or None,
    }


def _total(each: Check, form: BoundForm) -> float | None:
    return each.bounds[form].total if form in each.bounds else None


def _order_json(order: Order) -> dict[str, Any]:
    return {
        "models": list(order.models),
        "predicted": {form: order.predicted(form) for form in BOUNDS},
        "came_out": {form: order.came_out(form) for form in BOUNDS},
        "strengths": {form: list(order.strengths.get(form, ())) for form in BOUNDS},
        "reasons": dict(order.reasons),
        "leaves_out": [list(pair) for pair in order.erring],
        "targets": [
            {
                "target": rung.target,
                "fewer": None if rung.smaller is None else order.models[rung.smaller],
                "needed": [_needed_json(each) for each in rung.needed],
            }
            for rung in order.rungs
        ],
        "crossovers": [vars(each) for each in order.crossovers],
        "neither_below": order.lowest,
        "sentences": order_sentences(order),
    }


def _needed_json(found: Needed) -> dict[str, Any]:
    """Both ends; an upper end of null is beyond the largest N."""
    return {"reached": found.reached, "lower": found.lower, "upper": found.upper}
