"""The tables of a study as values: what is in them, not how they look.

A table keeps its numbers whole; `text` writes it as Markdown, LaTeX, CSV or HTML. A point of the
paper's own study stands beside the paper's tables, any other one for itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.paper.theorem.check import MEASURED, PointTheorem
from korisk.paper.theorem.explain import number
from korisk.planning.explain import crossing as crossing_words
from korisk.planning.fit import fitted_line
from korisk.report.contents import Contents
from korisk.studies.reproduction import NAME, ORIGINS, SIDES, Sweep, calibration, sweeps, verdicts
from korisk.studies.results import mean_at
from korisk.studies.spec.study import PROTOCOLS
from korisk.theory import BOUNDS, Footprint, Known, RiskLine
from korisk.theory.footprint import MOST, adam_bytes, weight_bytes

Kind = Literal["text", "number", "integer"]
Value = str | int | float | bool | None
Row = tuple[Value, ...]

BYTES = "bytes"  # the unit that is shown as KiB, MiB or GiB
THEOREM = ("theorem", "theorem_layers", "theorem_order")  # names of the theorem's tables

_OF_THE_ROW = ("lambda", "seconds")  # what a row's detail tells, if it does
_PAPER_METRICS = ("mse", "rmse_over_max")
_MEMORY = (
    *("KO weights", "FC weights", "KO with Adam", "FC with Adam"),
    *("peak memory", "device memory"),
)


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """A table of plain values; None is what is missing."""

    name: str  # the stem of its file
    title: str
    caption: str  # what the numbers are
    columns: Sequence[str]  # their titles
    rows: Sequence[Row]
    units: Mapping[str, str] = field(default_factory=dict)  # by column, where there is one

    @property
    def kinds(self) -> list[Kind]:
        """What each column holds: text, numbers, or whole numbers."""
        found: list[Kind] = []
        for place in range(len(self.columns)):
            values = [row[place] for row in self.rows if row[place] is not None]
            if not values or any(isinstance(value, str | bool) for value in values):
                found.append("text")
            else:
                whole = all(isinstance(value, int) for value in values)
                found.append("integer" if whole else "number")
        return found

    def without_empty_columns(self) -> ReportTable:
        """The table without the columns in which everything is missing."""
        kept = [k for k in range(len(self.columns)) if any(row[k] is not None for row in self.rows)]
        return replace(
            self,
            columns=[self.columns[k] for k in kept],
            rows=[tuple(row[k] for k in kept) for row in self.rows],
        )


def study_tables(contents: Contents) -> list[ReportTable]:
    """Every table of a study that has rows.

    Parameters
    ----------
    contents : Contents
        What `read_contents` returns.

    Returns
    -------
    list of ReportTable
        What is missing, calibration, the paper's outcomes, comparison of models, parameters and
        costs, the theorem's tables, and every result; those without rows are left out.
    """
    made = [
        status_table(contents),
        calibration_table(contents),
        outcomes_table(contents),
        comparison_table(contents),
        parameters_table(contents),
        theorem_table(contents.theorems),
        layers_table(contents.theorems),
        order_table(contents.theorems),
        cells_table(contents),
    ]
    return [table for table in made if table.rows]


# --- What was asked and what is there ------------------------------------------------------------


def status_table(contents: Contents) -> ReportTable:
    """What each point lacks; no rows where every point is complete."""
    caption = "Cells are pairs of a point and a seed."
    if not contents.known:
        caption += " The store does not tell which were asked for: those that were tried count."
    rows: list[Row] = []
    if not contents.complete or any(point.left_out for point in contents.points):
        for point in contents.points:
            done, failed = len(point.cells), len(point.failures)
            rows.append(
                (
                    *(point.name, done + failed + len(point.missing), done, failed),
                    point.failures[0].reason if failed else None,
                    ", ".join(map(str, point.missing)) or None,
                    "; ".join(point.left_out) or None,
                )
            )
    return ReportTable(
        name="status",
        title="What is missing",
        caption=caption,
        columns=[
            *("point", "cells asked", "done", "failed"),
            *("first error", "missing seeds", "values left out"),
        ],
        rows=rows,
    ).without_empty_columns()


def cells_table(contents: Contents) -> ReportTable:
    """Every row of every finished cell."""
    flat = [row for point in contents.points for row in point.rows]
    points = [point.name for point in contents.points for _ in point.rows]
    metrics = list(dict.fromkeys(name for each in flat for name in each.row.metrics))
    told = [name for name in _OF_THE_ROW if any(name in each.row.detail for each in flat)]
    taken = ("point", "seed", "model", "n", *_OF_THE_ROW)
    titles = [f"metric {name}" if name in taken else name for name in metrics]
    rows: list[Row] = []
    for name, each in zip(points, flat, strict=True):
        task, row = each.task, each.row
        numbers = [*map(row.metrics.get, metrics), *map(row.detail.get, told)]
        known = [isinstance(v, int | float) and not isinstance(v, bool) for v in numbers]
        kept = [v if ok else None for v, ok in zip(numbers, known, strict=True)]
        rows.append((name, task.seed, row.model, row.n, *kept))
    return ReportTable(
        name="cells",
        title="Every result",
        caption="One row for each point, seed, model and number n of training samples; n = 0 is "
        "before training. Seconds are of the fit alone.",
        columns=["point", "seed", "model", "n", *titles, *told],
        rows=rows,
    )


# --- Calibration and the paper's outcomes --------------------------------------------------------


def calibration_table(contents: Contents) -> ReportTable:
    """Floor and sigma of each model: from the four origins in the paper's study, else our own."""
    found = _paper_sweeps(contents)
    lines = calibration(list(found.values()))
    others = [point for point in contents.points if point.name not in found]
    origins = [name for name in ORIGINS if any(line.by_origin[name] for line in lines)]
    pairs: list[tuple[tuple[str, str, str], list[RiskLine | None]]] = []
    for line in lines:
        label = f"H = {line.side}" + ("*" if line.reduced else "")
        of_study = [None] if others else []
        by_origin = [line.by_origin[name] for name in origins]
        pairs.append(((label, line.model, line.metric), [*by_origin, *of_study]))
    for point in others:
        # Lines are of squared errors, as in the paper: the one metric that is a root is squared.
        metric = "(RMSE / max)^2" if point.metric == "rmse_over_max" else point.metric
        for curve in point.curves:
            means = curve.means if metric == point.metric else curve.means**2
            with suppress(KoriskError):  # a single size, or squares too small to fit
                own = fitted_line(Curve(curve.sizes, means), "paper")
                about = (point.name, curve.model, metric)
                pairs.append((about, [*(None for _ in origins), own]))
    rows: list[Row] = []
    for about, each in pairs:  # what is compared stands side by side
        rows.append((*about, "floor", *(None if line is None else line.floor for line in each)))
        rows.append((*about, "sigma", *(None if line is None else line.slope for line in each)))
    caption = (
        "Floor and sigma of the line floor + sigma log N / N by the paper's calibration: the floor "
        "is the lowest mean error, and sigma the least-squares slope through it."
    )
    if lines:
        caption += (
            " The paper's Table 2 and the authors' released results stand beside our run of their "
            "protocol and our rigorous one, whose images, rays and fits are others. All are fitted "
            "over the paper's N (up to 64 for H up to 32, 2048 beyond) in the paper's metric; "
            "figures and planner take every N that was run, in the study's metric."
        )
    if any(line.reduced for line in lines):
        caption += " * Ours, rigorous, is from a reduced grid of N."
    return ReportTable(
        name="calibration",
        title="Calibration",
        caption=caption,
        columns=[
            *("point", "model", "error", "quantity", *origins),
            *(["this study"] if others else []),
        ],
        rows=rows,
    )


def outcomes_table(contents: Contents) -> ReportTable:
    """The paper's claims about who is better, and whether they hold in the sweeps that were run."""
    says = {True: "yes", False: "no", None: "open"}
    return ReportTable(
        name="outcomes",
        title="The paper's outcomes",
        caption="The claims of the paper's Table 3, held against our sweeps over the paper's N (up "
        "to 64 for H up to 32, 2048 beyond) in its metric: mse up to H = 32, RMSE / max beyond. "
        "Open: the N that were run cannot decide. All claims of the paper: korisk reproduce "
        "--claims.",
        columns=["point", "claim", "protocol", "holds", "evidence"],
        rows=[
            (f"H = {each.side}", each.claim, each.protocol, says[each.holds], each.evidence)
            for each in verdicts(list(_paper_sweeps(contents).values()))
        ],
    )


def _paper_sweeps(contents: Contents) -> dict[str, Sweep]:
    """The sweeps of the paper's own study, by point.

    The released protocol is the paper's wherever it is run; a rigorous point is in its study alone,
    because elsewhere noise, images and fits may be anything.
    """
    found: dict[str, Sweep] = {}
    for point in contents.points:
        protocol, problem = point.spec.get("protocol"), point.spec.get("problem")
        own = protocol == "released" or (contents.name == NAME and protocol in PROTOCOLS)
        errors = [each.row.metrics.get(name, 0.0) for each in point.rows for name in _PAPER_METRICS]
        if own and isinstance(problem, Mapping) and "side" in problem and not point.left_out:
            made = sweeps(point.rows) if all(0 < error < math.inf for error in errors) else []
            if made and made[0].side in SIDES:
                found[point.name] = made[0]
    return found


# --- Comparison, parameters and costs ------------------------------------------------------------


def comparison_table(contents: Contents) -> ReportTable:
    """Who is better at the first and at the last N, and where that changes."""
    rows: list[Row] = []
    for point in contents.points:
        if len(point.curves) != 2:
            continue
        first, second = point.curves
        shared = sorted(set(first.sizes.tolist()) & set(second.sizes.tolist()))
        if not shared:
            continue
        row: list[Value] = [point.name, point.metric]
        for n in (shared[0], shared[-1]):
            errors = {curve.model: mean_at(curve, n) for curve in point.curves}
            better, worse = sorted(errors, key=lambda model: errors[model])
            same = errors[better] == errors[worse]
            row += [n, "neither" if same else better, errors[worse] / errors[better]]
        found = contents.crossings.get(point.name)
        said = None
        if found is not None:
            said = crossing_words(found.found, found.means, found.better, found.last)
        rows.append((*row, said))
    return ReportTable(
        name="comparison",
        title="Who is better",
        caption="Of the models' mean errors at the smallest and at the largest N that both were "
        "trained with: the better model, and how many times the other's error is as large.",
        columns=[
            *("point", "error"),
            *("first N", "better at first", "factor at first"),
            *("last N", "better at last", "factor at last", "crossover"),
        ],
        rows=rows,
    )


def parameters_table(contents: Contents) -> ReportTable:
    """Parameters and memory of both networks at each point of CT, and what its cells cost."""
    rows: list[Row] = []
    scans = False
    for point in contents.points:
        problem = point.spec.get("problem")
        networks: Row = (None,) * 10
        if isinstance(problem, Mapping) and problem.get("kind", "ct") == "ct":
            size = [problem.get(name) for name in ("side", "views", "bins")]
            if all(type(value) is int and 1 <= value <= MOST for value in size):
                scan = Footprint(*size)  # type: ignore[arg-type]
                both = scan.known_parameters, scan.dense_parameters
                memory = (*map(weight_bytes, both), *map(adam_bytes, both))
                networks = (scan.H, scan.V, scan.B, *both, scan.ratio, *memory)
                scans = True
        if networks[0] is None and not point.cells:
            continue
        usages = [cell.usage for cell in point.cells]
        memory_used = [each.peak_memory for each in usages if each.peak_memory is not None]
        device = [each.device_memory for each in usages if each.device_memory is not None]
        peaks = max(memory_used, default=None), max(device, default=None)
        time = sum(each.seconds for each in usages) / len(usages) if usages else None
        rows.append((point.name, *networks, len(usages), *peaks, time))
    caption = (
        "Measured: the largest peak memory of a cell's process, and on the device where there was "
        "one; the mean time of a cell."
    )
    if scans:
        caption = (
            "Image side H, views V and detector bins B; parameters p of the known-operator and the "
            "dense network; memory of their weights in single precision, and with Adam (16 bytes a "
            f"weight). {caption}"
        )
    return ReportTable(
        name="parameters",
        title="Parameters and costs",
        caption=caption,
        columns=[
            *("point", "H", "V", "B", "p_KO", "p_FC", "ratio", *_MEMORY[:4]),
            *("cells", *_MEMORY[4:], "time"),
        ],
        units=dict.fromkeys(_MEMORY, BYTES) | {"time": "s"},
        rows=rows,
    ).without_empty_columns()


# --- The theorem ---------------------------------------------------------------------------------


def theorem_table(points: Iterable[PointTheorem]) -> ReportTable:
    """Errors and bounds of each model at each N, and in how many networks the theorem holds."""
    says = {True: "yes", False: "VIOLATED", None: "not known"}
    rows: list[Row] = []
    for point in points:
        for group in point.groups:
            loose = group.looseness("composed")
            rows.append(
                (
                    *(point.name, group.model, group.n, says[group.holds]),
                    None if math.isnan(group.error) else group.error,
                    *(group.bound(form) for form in BOUNDS),
                    *((loose.least, loose.mean, loose.worst) if loose else (None, None, None)),
                    *(len(group.checks), len(group.judged), group.held),
                )
            )
    return ReportTable(
        name="theorem",
        title="Does the theorem hold?",
        caption="Means over seeds of E||y - f(x)||^2 of the network f, summed over the entries of "
        "an output, and of the three bounds that its layers' measured errors give. Loose by: bound "
        "/ error, composed: the smallest, the mean and the largest of the seeds. It holds where "
        f"error <= composed <= minkowski <= paper up to a relative {MEASURED:g} of rounding.",
        columns=[
            *("point", "model", "N", "holds", "error", *BOUNDS),
            *("loose by, least", "loose by, mean", "loose by, most"),
            *("seeds", "judged", "held"),
        ],
        rows=rows,
    )


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
                own = [part.get(name, 0.0) if part else None for part in parts]
                composed = group.contributions("composed").get(name, 0.0)
                share = 100 * composed / total if total else None
                rows.append((point.name, group.model, group.n, name, kind, error, *own, share))
    return ReportTable(
        name="theorem_layers",
        title="What each layer adds to the bound",
        caption="Means over seeds of E||e_l||^2, the error of a layer at the inputs that the "
        "network hands it, and of its part of each bound; parts add up to the bound. Networks with "
        "errors in one layer alone are left out.",
        columns=[
            *("point", "model", "N", "layer", "kind", "layer error"),
            *(f"part of {form}" for form in BOUNDS),
            "share of composed",
        ],
        units={"share of composed": "%"},
        rows=rows,
    )


def order_table(points: Iterable[PointTheorem]) -> ReportTable:
    """For each pair of models and each form of the bound, the predicted and the measured order."""
    rows: list[Row] = []
    for point in points:
        for order in point.orders:
            turns = "; ".join(
                f"error {number(each.target)}, N = {each.n:,.0f}: {each.model}"
                for each in order.changes
            )
            for form in BOUNDS:
                model = order.predicted(form)
                confirmed = reverse = None
                if model is not None:
                    confirmed = len(order.targets(model))
                    reverse = len(order.targets(order.other(model)))
                rows.append(
                    (
                        *(point.name, " against ".join(order.models), form),
                        *order.strengths.get(form, (None, None)),
                        model or ("neither" if form in order.strengths else "not known"),
                        *(confirmed, reverse, len(order.targets(None))),
                        *(turns or None, order.lowest),
                    )
                )
    return ReportTable(
        name="theorem_order",
        title="The order of sample sizes",
        caption="A p with matched constants (C = 0, kappa = 1) of both models; the one with the "
        "smaller should need fewer samples. Measured at targets from the largest mean error down "
        "to the lowest that either model stays below: at how many targets the predicted one needed "
        "fewer, the other did, or it is open, and where the order changes.",
        columns=[
            *("point", "models", "bound", "A p, first", "A p, second", "predicted"),
            *("confirmed", "reversed", "open", "changes at", "neither below"),
        ],
        rows=rows,
    )
