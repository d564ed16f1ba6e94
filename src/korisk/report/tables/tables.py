"""The tables of a study as values: what is in them, not how they look.

A table keeps its numbers whole; `table_text` writes it as Markdown, LaTeX, CSV or HTML. A point of
the paper's own study stands beside the paper's tables, any other one for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.fit import calibrate
from korisk.report.contents import Contents, Point
from korisk.studies.export import Value
from korisk.studies.reproduction import NAME, ORIGINS, SIDES, Sweep, calibration, verdicts
from korisk.studies.results import LEAST_SIZES, Crossing, group_of, mean_at
from korisk.studies.spec.study import PROTOCOLS
from korisk.theory import Footprint, RiskLine
from korisk.theory.footprint import MOST, adam_bytes, weight_bytes

Kind = Literal["text", "number", "integer"]
Row = tuple[Value, ...]

BYTES = "bytes"  # the unit that is shown as KiB, MiB or GiB

_LEAST_SIZES_OF_A_LINE = 2
_OF_THE_ROW = ("lambda", "seconds")  # what a row's detail tells, if it does


@dataclass(frozen=True)
class Column:
    """What one column of a table holds."""

    title: str
    kind: Kind = "text"
    unit: str = ""

    @property
    def align(self) -> Literal["left", "right"]:
        """Words begin at the left; numbers end at the right."""
        return "left" if self.kind == "text" else "right"


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """A table of plain values; None is what is missing."""

    name: str  # the stem of its file
    title: str
    caption: str  # what the numbers are
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def study_tables(contents: Contents) -> list[ReportTable]:
    """Every table that has something to say about the study."""
    builders: tuple[Callable[[Contents], ReportTable], ...] = (
        status_table,
        calibration_table,
        outcomes_table,
        comparison_table,
        parameters_table,
        cells_table,
    )
    made = [build(contents) for build in builders]
    from korisk.report.tables.theorem import theorem_tables, theorems_of  # made of what is here

    made[-1:-1] = theorem_tables(theorems_of(contents))
    return [table for table in made if table.rows]


def _without_empty_columns(table: ReportTable) -> ReportTable:
    """The table without the columns in which everything is missing."""
    kept = [
        place
        for place in range(len(table.columns))
        if any(row[place] is not None for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
    )


# --- What was asked and what is there ------------------------------------------------------------


def status_table(contents: Contents) -> ReportTable:
    """What each point lacks; no rows where every point is complete."""
    whole = contents.complete and not any(point.left_out for point in contents.points)
    caption = "Cells are pairs of a point and a seed."
    if not contents.known:
        caption += " The store does not tell which were asked for: those that were tried count."
    table = ReportTable(
        name="status",
        title="What is missing",
        caption=caption,
        columns=(
            Column("point"),
            Column("cells asked", "integer"),
            Column("done", "integer"),
            Column("failed", "integer"),
            Column("first error"),
            Column("missing seeds"),
            Column("values left out"),
        ),
        rows=() if whole else tuple(_status(point) for point in contents.points),
    )
    return _without_empty_columns(table)


def _status(point: Point) -> Row:
    done, failed = len(point.cells), len(point.failures)
    return (
        point.name,
        done + failed + len(point.missing),
        done,
        failed,
        point.failures[0].reason if failed else None,
        ", ".join(map(str, point.missing)) or None,
        "; ".join(point.left_out) or None,
    )


# --- Calibration ---------------------------------------------------------------------------------


def calibration_table(contents: Contents) -> ReportTable:
    """Floor and sigma of each model: from the four origins in the paper's study, else our own."""
    found = _paper_sweeps(contents)
    lines = calibration(list(found.values()))
    others = [point for point in contents.points if point.name not in found]
    origins = [name for name in ORIGINS if any(line.by_origin[name] for line in lines)]
    rows: list[Row] = []
    for line in lines:
        label = f"H = {line.side}" + ("*" if line.reduced else "")
        pairs = [line.by_origin[name] for name in origins]
        rows += _two_rows((label, line.model, line.metric), [*pairs, None] if others else pairs)
    fitted = [(point, curve, line) for point in others for curve, line in _own_lines(point)]
    for point, curve, own in fitted:
        pairs = [*(None for _ in origins), own]
        rows += _two_rows((point.name, curve.model, _squared_name(point.metric)), pairs)
    titles = [*origins, *(["this study"] if others else [])]
    return ReportTable(
        name="calibration",
        title="Calibration",
        caption=_calibration_caption(bool(lines), any(line.reduced for line in lines)),
        columns=(
            *(Column("point"), Column("model"), Column("error"), Column("quantity")),
            *(Column(title, "number") for title in titles),
        ),
        rows=tuple(rows),
    )


def _calibration_caption(of_paper: bool, reduced: bool) -> str:
    said = [
        "Floor and sigma of the line floor + sigma log N / N by the paper's calibration: the floor "
        "is the lowest mean error, and sigma the least-squares slope through it."
    ]
    if of_paper:
        said.append(
            "The paper's Table 2 and the authors' released results stand beside our run of their "
            "protocol and our rigorous one, whose images, rays and fits are others. All are fitted "
            "over the paper's N (up to 64 for H up to 32, 2048 beyond) in the paper's metric; "
            "figures and planner take every N that was run, in the study's metric."
        )
    if reduced:
        said.append("* Ours, rigorous, is from a reduced grid of N.")
    return " ".join(said)


def _two_rows(about: tuple[str, ...], pairs: Iterable[RiskLine | None]) -> list[Row]:
    """The floors in one row and the sigmas below: what is compared stands side by side."""
    kept = list(pairs)
    floors = [None if pair is None else float(pair.floor) for pair in kept]
    sigmas = [None if pair is None else float(pair.slope) for pair in kept]
    return [(*about, "floor", *floors), (*about, "sigma", *sigmas)]


def _own_lines(point: Point) -> list[tuple[Curve, RiskLine]]:
    """Lines are of squared errors, as in the paper: the one metric that is a root is squared."""
    made = []
    for curve in point.curves:
        if len(curve.sizes) < _LEAST_SIZES_OF_A_LINE:
            continue
        means = curve.means**2 if _is_root(point.metric) else curve.means
        with suppress(KoriskError):  # squares may be too small to fit
            fitted = calibrate(Curve(curve.sizes, means), "paper")
            made.append((curve, RiskLine(fitted.floor, fitted.slope or 0.0)))
    return made


def _is_root(metric: str) -> bool:
    return metric == "rmse_over_max"


def _squared_name(metric: str) -> str:
    return "(RMSE / max)^2" if _is_root(metric) else metric


# --- Outcomes ------------------------------------------------------------------------------------


def outcomes_table(contents: Contents) -> ReportTable:
    """The paper's claims about who is better, and whether they hold in the sweeps that were run."""
    says = {True: "yes", False: "no", None: "open"}
    judged = verdicts(list(_paper_sweeps(contents).values()))
    return ReportTable(
        name="outcomes",
        title="The paper's outcomes",
        caption="The claims of the paper's Table 3, held against our sweeps over the paper's N (up "
        "to 64 for H up to 32, 2048 beyond) in its metric: MSE up to H = 32, RMSE / max beyond. "
        "Open is what the N that were run cannot decide.",
        columns=tuple(map(Column, ("point", "claim", "protocol", "holds", "evidence"))),
        rows=tuple(
            (f"H = {each.side}", each.claim, each.protocol, says[each.holds], each.evidence)
            for each in judged
        ),
    )


def comparison_table(contents: Contents) -> ReportTable:
    """Who is better at the first and at the last N, and where that changes."""
    pairs = [point for point in contents.points if len(point.curves) == 2]
    rows = [_comparison(point, contents.crossings.get(point.name)) for point in pairs]
    return ReportTable(
        name="comparison",
        title="Who is better",
        caption="Of the models' mean errors at the smallest and at the largest N that both were "
        "trained with: the better model, and how many times the other's error is as large.",
        columns=(
            *(Column("point"), Column("error")),
            *(
                Column("first N", "integer"),
                Column("better at first"),
                Column("factor at first", "number"),
            ),
            *(
                Column("last N", "integer"),
                Column("better at last"),
                Column("factor at last", "number"),
            ),
            Column("crossover"),
        ),
        rows=tuple(row for row in rows if row is not None),
    )


def _comparison(point: Point, crossed: Crossing | None) -> Row | None:
    first, second = point.curves
    shared = sorted(set(first.sizes.tolist()) & set(second.sizes.tolist()))
    if not shared:
        return None
    start, end = shared[0], shared[-1]
    return (
        *(point.name, point.metric),
        *(start, *_ahead(first, second, start)),
        *(end, *_ahead(first, second, end)),
        None if crossed is None else _in_words(crossed),
    )


def _ahead(first: Curve, second: Curve, n: int) -> tuple[str, float]:
    errors = {curve.model: mean_at(curve, n) for curve in (first, second)}
    if errors[first.model] == errors[second.model]:
        return "neither", 1.0
    better, worse = sorted(errors, key=lambda model: errors[model])
    return better, errors[worse] / errors[better]


def _in_words(crossed: Crossing) -> str:
    found = crossed.found
    if found is not None:
        how = "extrapolated"
        if found.measured:
            how = "measured" if crossed.measured else "by the fitted curves"
        text = f"{found.better_after} is better from N = {found.n:,} on ({how}"
        if math.isnan(found.lower):
            return text + ")"
        upper = "∞" if math.isinf(found.upper) else f"{found.upper:,.0f}"
        return f"{text}; 90%: {found.lower:,.0f} to {upper})"
    if crossed.means is not None:
        before, after = crossed.means
        return f"the means change their order between N = {before:,} and {after:,}"
    if crossed.sizes < LEAST_SIZES:
        return f"none measured; {LEAST_SIZES} N are needed to look beyond"
    return "none measured; none expected with odds of three to one"


# --- Parameters and costs ------------------------------------------------------------------------


def parameters_table(contents: Contents) -> ReportTable:
    """What both networks weigh at each point of CT, and what its cells cost."""
    sizes = {point.name: _footprint(point) for point in contents.points}
    table = ReportTable(
        name="parameters",
        title="Parameters and costs",
        caption=(_OF_NETWORKS if any(sizes.values()) else "") + _OF_CELLS,
        columns=(
            Column("point"),
            *(Column(title, "integer") for title in ("H", "V", "B", "p_KO", "p_FC", "ratio")),
            *(Column(title, "integer", BYTES) for title in _MEMORY),
            Column("cells", "integer"),
            Column("peak memory", "integer", BYTES),
            Column("device memory", "integer", BYTES),
            Column("time", "number", "s"),
        ),
        rows=tuple(
            (point.name, *_weights(sizes[point.name]), *_costs(point))
            for point in contents.points
            if sizes[point.name] is not None or point.cells
        ),
    )
    return _without_empty_columns(table)


_OF_NETWORKS = (
    "Image side H, views V and detector bins B; parameters p of the known-operator and the dense "
    "network; memory of their weights in single precision, and with Adam (16 bytes a weight). "
)
_OF_CELLS = (
    "Measured: the largest peak memory of a cell's process, and on the device where there was one; "
    "the mean time of a cell."
)
_MEMORY = ("KO weights", "FC weights", "KO with Adam", "FC with Adam")


def _footprint(point: Point) -> Footprint | None:
    problem = point.spec.get("problem")
    if not isinstance(problem, Mapping) or problem.get("kind", "ct") != "ct":
        return None
    size = [problem.get(name) for name in ("side", "views", "bins")]
    counts = [value for value in size if type(value) is int and 1 <= value <= MOST]
    return Footprint(*counts) if len(counts) == len(size) else None


def _weights(size: Footprint | None) -> Row:
    if size is None:
        return (None,) * 10
    both = size.known_parameters, size.dense_parameters
    memory = (*map(weight_bytes, both), *map(adam_bytes, both))
    return (size.H, size.V, size.B, *both, size.ratio, *memory)


def _costs(point: Point) -> Row:
    usages = [cell.usage for cell in point.cells]
    memory = [each.peak_memory for each in usages if each.peak_memory is not None]
    device = [each.device_memory for each in usages if each.device_memory is not None]
    times = [each.seconds for each in usages]
    return (
        len(usages),
        max(memory, default=None),
        max(device, default=None),
        sum(times) / len(times) if times else None,
    )


# --- Every row -----------------------------------------------------------------------------------


def cells_table(contents: Contents) -> ReportTable:
    """Every row of every finished cell."""
    flat = contents.rows
    metrics = list(dict.fromkeys(name for each in flat for name in each.row.metrics))
    told = [name for name in _OF_THE_ROW if any(name in each.row.detail for each in flat)]
    return ReportTable(
        name="cells",
        title="Every result",
        caption="One row for each point, seed, model and number n of training samples; n = 0 is "
        "before training. Seconds are of the fit alone.",
        columns=(
            *(Column("point"), Column("seed", "integer"), Column("model"), Column("n", "integer")),
            *(Column(_apart(name), "number") for name in metrics),
            *(Column(name, "number") for name in told),
        ),
        rows=tuple(
            (
                *(group_of(each.task), each.task.seed, each.row.model, each.row.n),
                *(_number(each.row.metrics.get(name)) for name in metrics),
                *(_number(each.row.detail.get(name)) for name in told),
            )
            for each in flat
        ),
    )


def _apart(metric: str) -> str:
    """A metric's title, which is not that of another column."""
    return f"metric {metric}" if metric in ("point", "seed", "model", "n", *_OF_THE_ROW) else metric


def _number(value: object) -> float | int | None:
    """What a program of someone's own wrote, if it is a number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# --- Which points are the paper's ----------------------------------------------------------------


def _paper_sweeps(contents: Contents) -> dict[str, Sweep]:
    """The sweeps of the paper's own study, by point.

    The released protocol is the paper's wherever it is run; a rigorous point is in its study alone,
    because elsewhere noise, images and fits may be anything.
    """
    found: dict[str, Sweep] = {}
    for point in contents.points:
        protocol = point.spec.get("protocol")
        own = protocol == "released" or (contents.name == NAME and protocol in PROTOCOLS)
        made = replace(contents, points=(point,)).sweeps if own else []
        if made and made[0].side in SIDES:
            found[point.name] = made[0]
    return found
