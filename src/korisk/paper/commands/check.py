"""`korisk check`: do measured errors stay within the bounds of the theorem?"""

from typing import Annotated

import typer

from korisk._json import JsonDict
from korisk.cli.common.command import command
from korisk.cli.common.options import Folder, Json
from korisk.cli.common.output import print_json, show
from korisk.paper.theorem.check import MEASURED, PointTheorem, Theorem, read_theorem
from korisk.paper.theorem.explain import answer, order_sentences, point_sentences, remarks
from korisk.texts import Table, number, whole
from korisk.theory import BOUNDS

# Exit codes.
VIOLATED = 1
NOT_KNOWN = 3


@command()
def check(
    path: Folder,
    point: Annotated[str | None, "Only this point. [default: all]"] = None,
    json: Json = False,
) -> None:
    """Does the theorem hold? Compare measured errors with the bounds from their layers' errors.

    The study must have been run with `theorem: true`. Nothing is fitted. Exit code 0: it holds in
    every network with a bound; 1: it is violated; 3: there is no bound for any network.
    """
    # The answer first, then what limits it, then a table for each point.
    theorem = read_theorem(path, point=point)
    if json:
        content: JsonDict = {"study": theorem.name, "store": str(theorem.store)}
        content |= {"remarks": remarks(theorem.checks), "tolerance": MEASURED, **_summary(theorem)}
        content["without_layer_errors"] = list(theorem.unmeasured)
        print_json(content | {"points": [_point_json(result) for result in theorem.points]})
    else:
        unmeasured = [f"{name}: no row has errors of layers." for name in theorem.unmeasured]
        show(answer(theorem.checks), *remarks(theorem.checks), *unmeasured)
        for point_theorem in theorem.points:
            show("", _table(point_theorem), *point_sentences(point_theorem))
    if theorem.holds is not True:
        raise typer.Exit(NOT_KNOWN if theorem.holds is None else VIOLATED)


def _table(point: PointTheorem) -> Table:
    per = "" if point.pixels is None else f", sums of {point.pixels:,} entries"
    rows = []
    for group in point.groups:
        loose = group.looseness("composed")
        judged, unknown = len(group.judged), len(group.checks) - len(group.judged)
        holds = f"{group.held} of {judged}" if judged else "not known"
        holds += " VIOLATED" if group.holds is False else ""
        holds += f", {unknown} open" if judged and unknown else ""
        # Looseness is bound over error, its mean and its largest value over the seeds.
        row = [group.model, whole(group.n), number(group.error)]
        row += ["?" if (b := group.bound(form)) is None else number(b) for form in BOUNDS]
        row += [number(loose.mean, 3), number(loose.worst, 3)] if loose else ["-", "-"]
        rows.append([*row, holds])
    heads = ["model", "N", "error", *BOUNDS, "loose by", "at most", "holds"]
    return Table(f"{point.name}: squared errors and bounds{per}", heads, rows)


def _picked(value: object, *names: str) -> JsonDict:
    return {name: getattr(value, name) for name in names}


def _summary(theorem: Theorem | PointTheorem) -> JsonDict:
    outcomes = [network.holds for network in theorem.checks]
    return {
        "holds": theorem.holds,
        "answer": answer(theorem.checks),
        "networks": len(outcomes),
        "held": outcomes.count(True),
        "violated": outcomes.count(False),
        "unknown": outcomes.count(None),
    }


def _point_json(point: PointTheorem) -> JsonDict:
    groups = []
    for group in point.groups:
        loose = {form: group.looseness(form) for form in BOUNDS}
        groups.append(
            _picked(group, "model", "n", "held", "holds", "error")
            | {
                "seeds": len(group.checks),
                "judged": len(group.judged),
                "layers": group.layer_errors,
                "bounds": {form: group.bound(form) for form in BOUNDS},
                "looseness": {form: spread and vars(spread) for form, spread in loose.items()},
                "contributions": {form: group.contributions(form) for form in BOUNDS},
            }
        )
    checks = [
        _picked(network, "model", "n", "seed", "holds", "error")
        | {
            "layers": dict(network.layers),
            "bounds": dict.fromkeys(BOUNDS) | {k: v.total for k, v in network.bounds.items()},
            "looseness": {form: network.looseness(form) for form in BOUNDS},
            "reason": network.reason or None,
        }
        for network in point.checks
    ]
    orders = [
        {
            "models": list(order.models),
            "predicted": {form: order.predicted(form) for form in BOUNDS},
            "confirmed": {form: order.confirmed(form) for form in BOUNDS},
            "strengths": {form: list(order.strengths.get(form, ())) for form in BOUNDS},
            "reasons": dict(order.reasons),
            "leaves_out": [list(pair) for pair in order.erring],
            "targets": [
                {
                    "target": rung.target,
                    "fewer": None if rung.smaller is None else order.models[rung.smaller],
                    # An upper end of null is above the largest N.
                    "needed": [
                        {"reached": needed.reached, **vars(needed)} for needed in rung.needed
                    ],
                }
                for rung in order.rungs
            ],
            "changes": [vars(change) for change in order.changes],
            "neither_below": order.lowest,
            "sentences": order_sentences(order),
        }
        for order in point.orders
    ]
    about: JsonDict = {"point": point.name} | _summary(point)
    about |= {"pixels": point.pixels, "notes": list(point.notes)}
    return about | {"groups": groups, "checks": checks, "orders": orders}
