"""What the paper adds to the report of a study: its tables beside ours."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from korisk.paper.reproduction import NAME, ORIGINS, SIDES, Sweep, calibration, sweeps, verdicts
from korisk.report.contents import SUPPLEMENTS, Contents
from korisk.report.tables.table import ReportTable, Row, worded, words
from korisk.studies.spec.study import PROTOCOLS

_METRICS = ("mse", "rmse_over_max")  # of the paper's small and large scales
_worded = partial(worded, package="korisk.paper")


def paper_tables(contents: Contents, tables: list[ReportTable]) -> list[ReportTable]:
    """The tables of a study, with the paper's calibration beside ours and its outcomes."""
    by_point = paper_sweeps(contents)
    others = any(point.name not in by_point for point in contents.points)
    place = [table.name for table in tables].index("calibration")
    added = [
        calibration_table(tables[place], by_point, others=others),
        outcomes_table(by_point.values()),
    ]
    return [*tables[:place], *added, *tables[place + 1 :]]


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


SUPPLEMENTS.append(paper_tables)
