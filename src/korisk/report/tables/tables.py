"""The tables of a study as values, not yet as text.

Numbers keep all their digits; `text` writes a table as CSV or HTML.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning import words
from korisk.planning.calibration import paper_line
from korisk.report.contents import SUPPLEMENTS, Contents
from korisk.report.tables.table import ReportTable, Row, worded

_SCAN_CAPTION = (
    "Image side H, views V and detector bins B; parameters p of the known-operator and the dense "
    "network; memory of their weights in single precision, and with Adam (16 bytes a weight). {}"
)


def study_tables(contents: Contents) -> list[ReportTable]:
    """Build all tables of a study that have rows."""
    measured = measured_table((p.name, curve) for p in contents.points for curve in p.curves)
    tables = [calibration_table(contents), measured, parameters_table(contents)]
    for supplement in SUPPLEMENTS:
        tables = supplement.tables(contents, tables)
    return [table for table in tables if table.rows]


def measured_table(curves: Iterable[tuple[str | None, Curve]]) -> ReportTable:
    """Means over seeds of some curves, with the points that they belong to."""
    rows: list[Row] = []
    for point, curve in curves:
        columns = curve.sizes, curve.counts, curve.unit.from_error(curve.means)
        for n, seeds, mean in zip(*(column.tolist() for column in columns), strict=True):
            metric = words.quantity(curve.metric, curve.unit.noun)
            rows.append((point, curve.name, metric, n, seeds, mean))
    return worded("measured", rows).without_empty_columns()


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
                line = paper_line(Curve(curve.sizes, means))
                key = point.name, curve.model, words.quantity(metric, "")
                rows += [(*key, "floor", line.floor), (*key, "sigma", line.slope)]
                if curve.model in point.untrained:
                    rows.append((*key, "N = 0", point.untrained[curve.model] ** power))
    return worded("calibration", rows)


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
