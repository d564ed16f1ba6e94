"""The tables of a study as values, not yet as text.

Numbers keep all their digits; `text` writes a table as CSV or HTML.
"""

from collections.abc import Mapping
from contextlib import suppress

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.compare import mean_at
from korisk.planning.fit import calibrate
from korisk.report.contents import SUPPLEMENTS, Contents
from korisk.report.tables.table import ReportTable, Row, Value, worded
from korisk.texts import number

_SCAN_CAPTION = (
    "Image side H, views V and detector bins B; parameters p of the known-operator and the dense "
    "network; memory of their weights in single precision, and with Adam (16 bytes a weight). {}"
)
_ROW_DETAILS = ("lambda", "seconds")  # keys of a row's detail that are shown


def study_tables(contents: Contents) -> list[ReportTable]:
    """Build all tables of a study that have rows."""
    builders = status_table, calibration_table, comparison_table, parameters_table, cells_table
    tables = [build(contents) for build in builders]
    for supplement in SUPPLEMENTS:
        tables = supplement.tables(contents, tables)
    return [table for table in tables if table.rows]


# --- Status and results --------------------------------------------------------------------------


def status_table(contents: Contents) -> ReportTable:
    """Missing and failed cells of each point; no rows if every point is complete."""
    rows: list[Row] = []
    if not contents.complete or any(point.left_out for point in contents.points):
        for point in contents.points:
            done, failed = len(point.cells), len(point.failures)
            reason = point.failures[0].reason if failed else None
            missing, left_out = ", ".join(map(str, point.missing)), "; ".join(point.left_out)
            total = done + failed + len(point.missing)
            row = (point.name, total, done, failed, reason, missing or None, left_out or None)
            rows.append(row)
    attempted = "{} The store does not record which were requested: those that were tried count."
    caption = "{}" if contents.known else attempted
    return worded("status", rows, caption=caption).without_empty_columns()


def cells_table(contents: Contents) -> ReportTable:
    """Every row of every finished cell."""
    # Columns are all metrics and details that any row has.
    entries = [row for point in contents.points for row in point.rows]
    points = [point.name for point in contents.points for _ in point.rows]
    metrics = list(dict.fromkeys(name for entry in entries for name in entry.row.metrics))
    details = [name for name in _ROW_DETAILS if any(name in entry.row.detail for entry in entries)]
    # A metric may have the name of another column.
    reserved = ("point", "seed", "model", "n", *_ROW_DETAILS)
    titles = [f"metric {name}" if name in reserved else name for name in metrics]
    rows: list[Row] = []
    for name, entry in zip(points, entries, strict=True):
        task, row = entry.task, entry.row
        numbers = [*map(row.metrics.get, metrics), *map(row.detail.get, details)]
        is_number = [isinstance(v, int | float) and not isinstance(v, bool) for v in numbers]
        values = [v if ok else None for v, ok in zip(numbers, is_number, strict=True)]
        rows.append((name, task.seed, row.model, row.n, *values))
    return worded("cells", rows, more=[*titles, *details])


# --- Calibration, comparison, parameters and costs ----------------------------------------------


def calibration_table(contents: Contents) -> ReportTable:
    """Floor and sigma of each model by the paper's calibration, and its error before training."""
    rows: list[Row] = []
    for point in contents.points:
        # The paper fits its lines to squared errors, and RMSE / max is a root.
        metric = "(RMSE / max)^2" if point.metric == "rmse_over_max" else point.metric
        for curve in point.curves:
            power = 1 if metric == point.metric else 2
            means = curve.means**power
            # A single size, or squares too small to fit, have no line.
            with suppress(KoriskError):
                line = calibrate(Curve(curve.sizes, means))
                key = point.name, curve.model, metric
                rows += [(*key, "floor", line.floor), (*key, "sigma", line.slope)]
                if curve.model in point.untrained:
                    rows.append((*key, "N = 0", point.untrained[curve.model] ** power))
    return worded("calibration", rows)


def comparison_table(contents: Contents) -> ReportTable:
    """The better model at the first and at the last N, and where that changes."""
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
            equal = errors[better] == errors[worse]
            row += [n, "neither" if equal else better, errors[worse] / errors[better]]
        sentences = [
            _untrained(curve, rival, point.untrained[curve.model])
            for curve, rival in ((first, second), (second, first))
            if curve.model in point.untrained
        ]
        crossing = contents.crossings.get(point.name)
        row += ["; ".join(sentences) or None, None if crossing is None else crossing.explain()]
        rows.append(tuple(row))
    return worded("comparison", rows)


def _untrained(curve: Curve, rival: Curve, error: float) -> str:
    """The error of a model before training, and the N at which its rival reaches it."""
    sufficient = rival.sizes[rival.means <= error].tolist()
    needed = f"N > {rival.sizes[-1]:,}"
    if sufficient:
        # The true N lies between two measured sizes.
        smaller = rival.sizes[rival.sizes < sufficient[0]].tolist()
        needed = f"N <= {sufficient[0]:,}"
        if smaller:
            needed = f"N = {smaller[-1] + 1:,} to {sufficient[0]:,}"
    return f"{curve.model} {number(error)}, as {rival.model} with {needed}"


def parameters_table(contents: Contents) -> ReportTable:
    """Parameters and memory of both networks at each point of CT, and the costs of its cells."""
    rows: list[Row] = []
    has_scans = False
    for point in contents.points:
        problem = point.spec.get("problem")
        networks: Row = (None,) * 10
        is_ct = isinstance(problem, Mapping) and problem.get("kind", "ct") == "ct"
        if isinstance(problem, Mapping) and is_ct and problem.get("beam") != "cone":
            side, views, bins = lengths = [
                problem.get(name, 0) for name in ("side", "views", "bins")
            ]
            if all(type(value) is int and value >= 1 for value in lengths):
                known, ratio = views * bins, side**2
                dense = ratio * known
                # 4 bytes a weight in single precision, 16 with Adam's gradient and two moments.
                memory = (4 * known, 4 * dense, 16 * known, 16 * dense)
                networks = (side, views, bins, known, dense, ratio, *memory)
                has_scans = True
        # A point without networks of CT and without cells would be an empty row.
        if networks[0] is None and not point.cells:
            continue
        usages = [cell.usage for cell in point.cells]
        memory_peaks = [usage.peak_memory for usage in usages if usage.peak_memory is not None]
        device_peaks = [usage.device_memory for usage in usages if usage.device_memory is not None]
        peaks = max(memory_peaks, default=None), max(device_peaks, default=None)
        mean_seconds = sum(usage.seconds for usage in usages) / len(usages) if usages else None
        rows.append((point.name, *networks, len(usages), *peaks, mean_seconds))
    caption = _SCAN_CAPTION if has_scans else "{}"
    return worded("parameters", rows, caption=caption).without_empty_columns()
