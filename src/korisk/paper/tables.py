"""The paper's tables beside those of a study, and the tables of the theorem's check."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from korisk.paper.reproduction import NAME, ORIGINS, SIDES, Sweep, calibration, sweeps, verdicts
from korisk.paper.theorem.check import PointTheorem
from korisk.paper.theorem.explain import number
from korisk.report.contents import Contents
from korisk.report.tables.table import ReportTable, Row, worded, words
from korisk.studies.spec.study import PROTOCOLS
from korisk.theory import BOUNDS, Known

_METRICS = ("mse", "rmse_over_max")
_worded = partial(worded, package="korisk.paper")


def paper_sweeps(contents: Contents) -> dict[str, Sweep]:
    """The sweeps of the paper's own study, by point.

    The released protocol is the paper's wherever it is run; a rigorous point is in its study alone,
    because elsewhere noise, images and fits may be anything.
    """
    by_point: dict[str, Sweep] = {}
    for point in contents.points:
        protocol, problem = point.spec.get("protocol"), point.spec.get("problem")
        of_paper = protocol == "released" or (contents.name == NAME and protocol in PROTOCOLS)
        errors = [flat.row.metrics.get(name, 0.0) for flat in point.rows for name in _METRICS]
        if of_paper and isinstance(problem, Mapping) and "side" in problem and not point.left_out:
            point_sweeps = (
                sweeps(point.rows) if all(0 < error < math.inf for error in errors) else []
            )
            if point_sweeps and point_sweeps[0].side in SIDES:
                by_point[point.name] = point_sweeps[0]
    return by_point


def calibration_table(
    general: ReportTable, found: Mapping[str, Sweep], *, others: bool
) -> ReportTable:
    """Floor and sigma from the four origins for the paper's sweeps, above those of other points."""
    lines = calibration(list(found.values()))
    if not lines:
        return general
    origins = [name for name in ORIGINS if any(line.by_origin[name] for line in lines)]
    rows: list[Row] = []
    for line in lines:
        about = f"H = {line.side}" + ("*" if line.reduced else ""), line.model, line.metric
        by_origin = [*(line.by_origin[name] for name in origins), *([None] if others else [])]
        floors = [None if pair is None else pair.floor for pair in by_origin]
        slopes = [None if pair is None else pair.slope for pair in by_origin]
        rows += [(*about, "floor", *floors), (*about, "sigma", *slopes)]
    unknown = [None] * len(origins)
    rows += [(*row[:4], *unknown, row[4]) for row in general.rows if row[0] not in found]
    caption = f"{general.caption} {words('korisk.paper')['calibration']['caption']}"
    if any(line.reduced for line in lines):
        caption += " * Ours, rigorous, is from a reduced grid of N."
    columns = [*general.columns[:4], *origins, *(general.columns[4:] if others else ())]
    return replace(general, caption=caption, columns=columns, rows=rows)


def outcomes_table(found: Iterable[Sweep]) -> ReportTable:
    """The paper's claims about who is better, and whether they hold in the sweeps that were run."""
    says = {True: "yes", False: "no", None: "open"}
    judged = verdicts(list(found))
    rows = [(f"H = {v.side}", v.claim, v.protocol, says[v.holds], v.evidence) for v in judged]
    return _worded("outcomes", rows)


def theorem_table(points: Iterable[PointTheorem]) -> ReportTable:
    """Errors and bounds of each model at each N, and in how many networks the theorem holds."""
    says = {True: "yes", False: "VIOLATED", None: "not known"}
    rows: list[Row] = []
    for point in points:
        for group in point.groups:
            loose = group.looseness("composed")
            error = None if math.isnan(group.error) else group.error
            bounds = [group.bound(form) for form in BOUNDS]
            spread = (loose.least, loose.mean, loose.worst) if loose else (None, None, None)
            counts = len(group.checks), len(group.judged), group.held
            about = point.name, group.model, group.n, says[group.holds]
            rows.append((*about, error, *bounds, *spread, *counts))
    return _worded("theorem", rows)


def layers_table(points: Iterable[PointTheorem]) -> ReportTable:
    """The error of each layer and what it adds, of networks in which several have errors."""
    rows: list[Row] = []
    for point in points:
        for group in point.groups:
            errors, net = group.layer_errors, group.network
            if net is None or len(errors) < 2:
                continue
            parts = [group.contributions(form) for form in BOUNDS]
            total = group.bound("composed")
            for name, error in errors.items():
                kind = "known" if isinstance(net[name], Known) else "learned"
                contributions = [
                    by_layer.get(name, 0.0) if by_layer else None for by_layer in parts
                ]
                composed = group.contributions("composed").get(name, 0.0)
                share = 100 * composed / total if total else None
                rows.append(
                    (point.name, group.model, group.n, name, kind, error, *contributions, share)
                )
    return _worded("theorem_layers", rows)


def order_table(points: Iterable[PointTheorem]) -> ReportTable:
    """For each pair of models and each form of the bound, the predicted and the measured order."""
    rows: list[Row] = []
    for point in points:
        for order in point.orders:
            turns = [f"error {number(t.target)}, N = {t.n:,.0f}: {t.model}" for t in order.changes]
            for form in BOUNDS:
                model = order.predicted(form)
                confirmed = reverse = None
                if model is not None:
                    confirmed = len(order.targets(model))
                    reverse = len(order.targets(order.other(model)))
                strengths = order.strengths.get(form, (None, None))
                predicted = model or ("neither" if form in order.strengths else "not known")
                about = point.name, " against ".join(order.models), form
                counts = confirmed, reverse, len(order.targets(None))
                last = "; ".join(turns) or None, order.lowest
                rows.append((*about, *strengths, predicted, *counts, *last))
    return _worded("theorem_order", rows)
