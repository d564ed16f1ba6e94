"""The tables of a study as values: what is in them, not how they look.

A table keeps its numbers whole; `text` writes it as Markdown, LaTeX, CSV or HTML.
"""

from collections.abc import Mapping
from contextlib import suppress

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.compare import mean_at
from korisk.planning.fit import fitted_line
from korisk.report.contents import Contents
from korisk.report.tables.table import ReportTable, Row, Value, worded
from korisk.texts import number
from korisk.theory import Footprint
from korisk.theory.footprint import MOST, adam_bytes, weight_bytes

_OF_SCANS = (
    "Image side H, views V and detector bins B; parameters p of the known-operator and the dense "
    "network; memory of their weights in single precision, and with Adam (16 bytes a weight). {}"
)
_OF_THE_ROW = ("lambda", "seconds")  # what a row's detail tells, if it does


def study_tables(contents: Contents) -> list[ReportTable]:
    """Every table of a study that has rows.

    Parameters
    ----------
    contents : Contents
        What `read_contents` returns.

    Returns
    -------
    list of ReportTable
        What is missing, calibration, comparison of models, parameters and costs, every result, and
        what supplements add; those without rows are left out.
    """
    made = [
        status_table(contents),
        calibration_table(contents),
        comparison_table(contents),
        parameters_table(contents),
        cells_table(contents),
    ]
    for supplement in contents.supplements:
        made = supplement.tables(made)
    return [table for table in made if table.rows]


# --- What was asked and what is there ------------------------------------------------------------


def status_table(contents: Contents) -> ReportTable:
    """What each point lacks; no rows where every point is complete."""
    rows: list[Row] = []
    if not contents.complete or any(point.left_out for point in contents.points):
        for point in contents.points:
            done, failed = len(point.cells), len(point.failures)
            reason = point.failures[0].reason if failed else None
            missing, left_out = ", ".join(map(str, point.missing)), "; ".join(point.left_out)
            asked = done + failed + len(point.missing)
            row = (point.name, asked, done, failed, reason, missing or None, left_out or None)
            rows.append(row)
    tried = "{} The store does not tell which were asked for: those that were tried count."
    caption = "{}" if contents.known else tried
    return worded("status", rows, caption=caption).without_empty_columns()


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
    return worded("cells", rows, more=[*titles, *told])


# --- Calibration, comparison, parameters and costs ----------------------------------------------


def calibration_table(contents: Contents) -> ReportTable:
    """Floor and sigma of each model by the paper's calibration."""
    rows: list[Row] = []
    for point in contents.points:
        # Lines are of squared errors, as in the paper: the one metric that is a root is squared.
        metric = "(RMSE / max)^2" if point.metric == "rmse_over_max" else point.metric
        for curve in point.curves:
            means = curve.means if metric == point.metric else curve.means**2
            with suppress(KoriskError):  # a single size, or squares too small to fit
                line = fitted_line(Curve(curve.sizes, means), "paper")
                about = point.name, curve.model, metric
                rows += [(*about, "floor", line.floor), (*about, "sigma", line.slope)]
    return worded("calibration", rows)


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
        said = [
            _untrained(curve, other, point.untrained[curve.model])
            for curve, other in ((first, second), (second, first))
            if curve.model in point.untrained
        ]
        cross = contents.crossings.get(point.name)
        about = "; ".join(said) or None, None if cross is None else cross.explain()
        rows.append((*row, *about))
    return worded("comparison", rows)


def _untrained(curve: Curve, other: Curve, error: float) -> str:
    """The error of a model before training, and the N at which the other has it too."""
    enough = other.sizes[other.means <= error].tolist()
    needs = f"N > {other.sizes[-1]:,}"
    if enough:
        short = other.sizes[other.sizes < enough[0]].tolist()
        needs = f"N = {short[-1] + 1:,} to {enough[0]:,}" if short else f"N <= {enough[0]:,}"
    return f"{curve.model} {number(error)}, as {other.model} with {needs}"


def parameters_table(contents: Contents) -> ReportTable:
    """Parameters and memory of both networks at each point of CT, and what its cells cost."""
    rows: list[Row] = []
    scans = False
    for point in contents.points:
        problem = point.spec.get("problem")
        networks: Row = (None,) * 10
        scanned = isinstance(problem, Mapping) and problem.get("kind", "ct") == "ct"
        if isinstance(problem, Mapping) and scanned and problem.get("beam") != "cone":
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
    caption = _OF_SCANS if scans else "{}"
    return worded("parameters", rows, caption=caption).without_empty_columns()
