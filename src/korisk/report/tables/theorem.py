"""Tables and words of a check of the theorem: bounds, layers, and the order of sample sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from korisk.report.contents import Contents
from korisk.report.tables.tables import Column, ReportTable, Row
from korisk.studies.theorem.check import MEASURED, Check, Group
from korisk.studies.theorem.explain import (
    answer,
    number,
    order_sentences,
    remarks,
    shares,
)
from korisk.studies.theorem.order import Order
from korisk.studies.theorem.theorem import PointTheorem, point_theorem
from korisk.theory import BOUNDS, Known

NAMES = ("theorem", "theorem_layers", "theorem_order")


def theorems_of(contents: Contents) -> list[PointTheorem]:
    """The points of a study that tell errors of layers."""
    made = (point_theorem(point.name, point.cells, point.failures) for point in contents.points)
    return [each for each in made if each is not None]


def theorem_tables(points: Sequence[PointTheorem]) -> list[ReportTable]:
    """The tables that have rows, in the order of `NAMES`."""
    made = (theorem_table(points), layers_table(points), order_table(points))
    return [table for table in made if table.rows]


def theorem_sentences(points: Sequence[PointTheorem]) -> list[str]:
    """The answer first, then what a reader should know, then each point for itself."""
    checks: list[Check] = [check for point in points for check in point.checks]
    if not checks:
        return []
    said = [answer(checks), *remarks(checks)]
    for point in points:
        own = [f"{note}." for note in point.notes] + shares(point)
        if len(points) > 1:
            own = [answer(point.checks), *own]
        for order in point.orders:
            own.append(f"{' against '.join(order.models)}: {' '.join(order_sentences(order))}")
        said += [f"{point.name}: {sentence}" for sentence in own]
    return said


# --- Bounds --------------------------------------------------------------------------------------


def theorem_table(points: Iterable[PointTheorem]) -> ReportTable:
    """Errors and bounds of each model at each N, and in how many networks the theorem holds."""
    return ReportTable(
        name="theorem",
        title="Does the theorem hold?",
        caption="Means over seeds of E||y - f(x)||^2 of the network f, summed over the entries of "
        "an output, and of the three bounds that its layers' measured errors give. Loose by: bound "
        "/ error, composed: the smallest, the mean and the largest of the seeds. It holds where "
        f"error <= composed <= minkowski <= paper up to a relative {MEASURED:g} of rounding.",
        columns=(
            *(Column("point"), Column("model"), Column("N", "integer"), Column("holds")),
            *(Column("error", "number"), *(Column(form, "number") for form in BOUNDS)),
            *(Column(f"loose by, {which}", "number") for which in ("least", "mean", "most")),
            *(Column("seeds", "integer"), Column("judged", "integer"), Column("held", "integer")),
        ),
        rows=tuple(_bounds_row(point, group) for point in points for group in point.groups),
    )


def _bounds_row(point: PointTheorem, group: Group) -> Row:
    loose = group.looseness("composed")
    return (
        *(point.name, group.model, group.n),
        {True: "yes", False: "VIOLATED", None: "not known"}[group.holds],
        None if math.isnan(group.error) else group.error,
        *(group.bound(form) for form in BOUNDS),
        *((loose.least, loose.mean, loose.worst) if loose else (None, None, None)),
        *(len(group.checks), len(group.judged), group.held),
    )


# --- Layers --------------------------------------------------------------------------------------


def layers_table(points: Iterable[PointTheorem]) -> ReportTable:
    """What each erring layer measures and adds, of networks in which several err."""
    return ReportTable(
        name="theorem_layers",
        title="What each layer adds to the bound",
        caption="Means over seeds of E||e_l||^2, the error of a layer at the inputs that the "
        "network hands it, and of its part of each bound; parts add up to the bound. Networks with "
        "one erring layer are left out.",
        columns=(
            *(Column("point"), Column("model"), Column("N", "integer")),
            *(Column("layer"), Column("kind"), Column("layer error", "number")),
            *(Column(f"part of {form}", "number") for form in BOUNDS),
            Column("share of composed", "number", "%"),
        ),
        rows=tuple(
            row for point in points for group in point.groups for row in _layer_rows(point, group)
        ),
    )


def _layer_rows(point: PointTheorem, group: Group) -> list[Row]:
    errors, net = group.layer_errors, group.network
    if net is None or len(errors) < 2:
        return []
    parts = {form: group.contributions(form) for form in BOUNDS}
    total = group.bound("composed")
    rows: list[Row] = []
    for name, error in errors.items():
        kind = "known" if isinstance(net[name], Known) else "learned"
        own = [parts[form].get(name, 0.0) if parts[form] else None for form in BOUNDS]
        share = 100 * parts["composed"].get(name, 0.0) / total if total else None
        rows.append((point.name, group.model, group.n, name, kind, error, *own, share))
    return rows


# --- The order of sample sizes -------------------------------------------------------------------


def order_table(points: Iterable[PointTheorem]) -> ReportTable:
    """For each pair of models and each form, the predicted order and what came out."""
    return ReportTable(
        name="theorem_order",
        title="The order of sample sizes",
        caption="A p with matched constants (C = 0, kappa = 1) of both models; the one with the "
        "smaller should need fewer samples. Measured at targets from the largest mean error down "
        "to the lowest that either model stays below: at how many the predicted one needed fewer, "
        "the other did, or it is open, and where the order turns.",
        columns=(
            *(Column("point"), Column("models"), Column("bound")),
            *(Column("A p, first", "number"), Column("A p, second", "number")),
            Column("predicted"),
            *(Column(title, "integer") for title in ("came out", "reversed", "open")),
            *(Column("turns at"), Column("neither below", "number")),
        ),
        rows=tuple(
            row for point in points for order in point.orders for row in _order_rows(point, order)
        ),
    )


def _order_rows(point: PointTheorem, order: Order) -> list[Row]:
    turns = "; ".join(
        f"error {number(each.target)}, N = {each.n:,.0f}: {each.model}" for each in order.crossovers
    )
    rows: list[Row] = []
    for form in BOUNDS:
        model = order.predicted(form)
        strengths = order.strengths.get(form, (None, None))
        came = reverse = None
        if model is not None:
            came = len(order.targets(model))
            reverse = len(order.targets(order.other(model)))
        rows.append(
            (
                *(point.name, " against ".join(order.models), form, *strengths),
                model or ("neither" if form in order.strengths else "not known"),
                *(came, reverse, len(order.targets(None)), turns or None, order.lowest),
            )
        )
    return rows
