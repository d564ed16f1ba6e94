"""What the paper adds to the report of a study: its tables beside ours, and the theorem's check.

`PaperSupplement` is what reports call; the tables that it adds follow.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import ClassVar

from korisk.paper.reproduction import NAME, ORIGINS, SIDES, Sweep, calibration, sweeps, verdicts
from korisk.paper.theorem.check import PointTheorem, point_theorem
from korisk.paper.theorem.explain import answer, number, point_sentences, remarks
from korisk.report.contents import SUPPLEMENTS, Contents, Draw, Point, Supplement
from korisk.report.tables.table import ReportTable, Row, worded, words
from korisk.studies.spec.study import PROTOCOLS
from korisk.theory import BOUNDS, Known, Network

_METRICS = ("mse", "rmse_over_max")  # of the paper's small and large scales
_worded = partial(worded, package="korisk.paper")


class PaperSupplement(Supplement):
    """Tables of the paper's own study, and the theorem at points that hold errors of layers."""

    name = "theorem"
    title = "Does the theorem hold?"
    words: ClassVar[Mapping[str, str]] = {
        name: "Measured errors and the three bounds over N, and what each layer adds to a bound"
    }

    @cached_property
    def theorems(self) -> list[PointTheorem]:
        """The theorem at the points that hold errors of layers."""
        points = self.contents.points
        checked = (point_theorem(point.name, point.cells, point.failures) for point in points)
        return [theorem for theorem in checked if theorem is not None]

    def notes(self) -> list[str]:
        """Where it is violated."""
        names = ", ".join(point.name for point in self.theorems if point.holds is False)
        above = f"Errors lie above a bound of the theorem, which is VIOLATED: {names}."
        return [above] if names else []

    def sentences(self) -> list[str]:
        """Whether the theorem holds."""
        return theorem_sentences(self.theorems)

    def networks(self) -> Iterator[tuple[Point, str, Network]]:
        """Stored ones that are no chain, a model's last."""
        points = {point.name: point for point in self.contents.points}
        for theorem in self.theorems:
            for model, net in {group.model: group.network for group in theorem.groups}.items():
                if net is not None and not net.is_chain:
                    yield points[theorem.name], model, net

    def figures(self) -> Iterator[tuple[str, Draw]]:
        """Measured errors below the bounds."""
        from korisk.paper.figure import theorem_figure  # loads Matplotlib

        yield self.name, partial(theorem_figure, self.theorems)

    def tables(self, tables: list[ReportTable]) -> list[ReportTable]:
        """The paper's calibration beside ours, its outcomes, and the theorem's before the last."""
        by_point = paper_sweeps(self.contents)
        others = any(point.name not in by_point for point in self.contents.points)
        *first, last = tables
        index = [table.name for table in first].index("calibration")
        first[index : index + 1] = [
            calibration_table(first[index], by_point, others=others),
            outcomes_table(by_point.values()),
        ]
        builders = theorem_table, layers_table, order_table
        return [*first, *(build(self.theorems) for build in builders), last]


def theorem_sentences(points: Sequence[PointTheorem]) -> list[str]:
    """The answer first, then remarks, then each point for itself; empty without any check."""
    checks = [check for point in points for check in point.checks]
    if not checks:
        return []
    sentences = [answer(checks), *remarks(checks)]
    for point in points:
        answers = [answer(point.checks)] if len(points) > 1 else []
        sentences += [
            f"{point.name}: {sentence}" for sentence in [*answers, *point_sentences(point)]
        ]
    return sentences


# --- Tables --------------------------------------------------------------------------------------


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
            # A line through logarithms needs errors above 0.
            usable = all(0 < error < math.inf for error in errors)
            for sweep in sweeps(point.rows)[:1] if usable else ():
                if sweep.side in SIDES:
                    by_point[point.name] = sweep
    return by_point


def calibration_table(
    general: ReportTable, by_point: Mapping[str, Sweep], *, others: bool
) -> ReportTable:
    """Floor and sigma from the four origins for the paper's sweeps, above those of other points."""
    lines = calibration(list(by_point.values()))
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
    # Other points of the study have one origin alone: its column is the last.
    unknown = [None] * len(origins)
    rows += [(*row[:4], *unknown, row[4]) for row in general.rows if row[0] not in by_point]
    caption = f"{general.caption} {words('korisk.paper')['calibration']['caption']}"
    if any(line.reduced for line in lines):
        caption += " * Ours, rigorous, is from a reduced grid of N."
    columns = [*general.columns[:4], *origins, *(general.columns[4:] if others else ())]
    return replace(general, caption=caption, columns=columns, rows=rows)


def outcomes_table(runs: Iterable[Sweep]) -> ReportTable:
    """The paper's claims about who is better, and whether they hold in the sweeps that were run."""
    says = {True: "yes", False: "no", None: "open"}
    judged = verdicts(list(runs))
    rows = [(f"H = {v.side}", v.claim, v.protocol, says[v.holds], v.evidence) for v in judged]
    return _worded("outcomes", rows)


def theorem_table(points: Iterable[PointTheorem]) -> ReportTable:
    """Errors and bounds of each model at each N, and in how many networks the theorem holds."""
    says = {True: "yes", False: "VIOLATED", None: "not known"}
    rows: list[Row] = []
    for point in points:
        for group in point.groups:
            # Means over seeds; bounds without a value stay empty.
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
            parts = {form: group.contributions(form) for form in BOUNDS}
            total = group.bound("composed")
            for name, error in errors.items():
                kind = "known" if isinstance(net[name], Known) else "learned"
                # None where a form has no bound at all, 0 where the layer adds nothing to it.
                added = [terms.get(name, 0.0) if terms else None for terms in parts.values()]
                share = 100 * parts["composed"].get(name, 0.0) / total if total else None
                about = point.name, group.model, group.n, name, kind
                rows.append((*about, error, *added, share))
    return _worded("theorem_layers", rows)


def order_table(points: Iterable[PointTheorem]) -> ReportTable:
    """For each pair of models and each form of the bound, the predicted and the measured order."""
    rows: list[Row] = []
    for point in points:
        for order in point.orders:
            turns = [f"error {number(t.target)}, N = {t.n:,.0f}: {t.model}" for t in order.changes]
            for form in BOUNDS:
                model = order.predicted(form)
                # Counts of targets exist only where an order is predicted.
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


SUPPLEMENTS.append(PaperSupplement)
