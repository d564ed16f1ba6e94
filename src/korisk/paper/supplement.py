"""What the paper adds to the report of a study: its tables beside ours."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from korisk.paper import reproduction as paper
from korisk.planning.compare import crossing
from korisk.planning.words import NEXT, SURE
from korisk.report.contents import SUPPLEMENTS, Contents, Supplement
from korisk.report.tables.table import ReportTable, Row, worded, words
from korisk.studies.spec.study import PROTOCOLS
from korisk.texts import counted

QUESTION = (
    "Do the paper's results on known operators (KO) and dense networks (FC) hold when run again?"
)
_SAME = 5e-4  # relative: less is rounding of four digits
_ROUNDED = 0.01  # and less than this is rounding of three
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


def paper_sweeps(contents: Contents) -> dict[str, paper.Sweep]:
    """The sweeps of the paper's own study, by point.

    The released protocol is the paper's wherever it is run; a rigorous point is in its study alone,
    because elsewhere noise, images and fits may be anything.
    """
    by_point: dict[str, paper.Sweep] = {}
    for point in contents.points:
        protocol, problem = point.spec.get("protocol"), point.spec.get("problem")
        of_paper = protocol == "released" or (contents.name == paper.NAME and protocol in PROTOCOLS)
        errors = [flat.row.metrics.get(name, 0.0) for flat in point.rows for name in _METRICS]
        if of_paper and isinstance(problem, Mapping) and "side" in problem and not point.left_out:
            # A line through logarithms needs errors above 0.
            usable = all(0 < error < math.inf for error in errors)
            for sweep in paper.sweeps(point.rows)[:1] if usable else ():
                if sweep.side in paper.SIDES:
                    by_point[point.name] = sweep
    return by_point


def calibration_table(
    general: ReportTable, by_point: Mapping[str, paper.Sweep], *, others: bool
) -> ReportTable:
    """Floor and sigma from the four origins for the paper's sweeps, above those of other points."""
    lines = paper.calibration(list(by_point.values()))
    if not lines:
        return general
    origins = [name for name in paper.ORIGINS if any(line.by_origin[name] for line in lines)]
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


def outcomes_table(runs: Iterable[paper.Sweep]) -> ReportTable:
    """The paper's claims about who is better, and whether they hold in the sweeps that were run."""
    says = {True: "yes", False: "no", None: "open"}
    judged = paper.verdicts(list(runs))
    rows = [(f"H = {v.side}", v.claim, v.protocol, says[v.holds], v.evidence) for v in judged]
    return _worded("outcomes", rows)


def verdict_sentences(runs: list[paper.Sweep], lines: list[paper.CalibrationLine]) -> Iterator[str]:
    """What was reproduced, what to do next, how sure it is, what holds, and KO against FC."""
    judged = paper.verdicts(runs)
    seeds = min(int(curve.counts.min()) for run in runs for curve in (run.known, run.dense))
    ran = sorted({run.side for run in runs})
    missing = [side for side in paper.OF_PAPER if side not in ran]
    share = f"{len(paper.OF_PAPER) - len(missing)} of {len(paper.OF_PAPER)} sizes"
    failed, unclear = (sum(v.holds is holds for v in judged) for holds in (False, None))
    outcomes = []
    for protocol in reversed(PROTOCOLS):
        parts = []
        for holds, says in ((True, "holds"), (False, "does NOT hold"), (None, "is open")):
            sides = [v.side for v in judged if v.protocol == protocol and v.holds is holds]
            parts += [f"{says} at H = {_sides(sides)}"] if sides else []
        outcomes += [f"{', '.join(parts)} ({protocol})"] if parts else []
    table = f"Table 3 {'; '.join(outcomes)}"
    ours, printed = (_apart(lines, origin) for origin in ("ours, released", "paper"))
    reduced = {line.side for line in lines if line.reduced}
    points = ",".join(map(str, sorted({*missing, *reduced})))
    steps = [f"run korisk reproduce {'--whole ' * bool(reduced)}--points {points}"] * bool(points)
    misprinted = bool(printed and printed[0] > _ROUNDED)
    sure = f"image side H = {_sides(ran)}"
    if ours:
        most, farthest = ours
        agreement = f"is within {most:.1%} of the released numbers (farthest: {farthest})"
        if most < _SAME:
            agreement = "meets the authors' released numbers to four digits"
        again = {line.side: line.by_origin for line in lines if line.by_origin["ours, released"]}
        compared = sorted(side for side, origins in again.items() if origins["released"])
        sure = f"our run of their protocol {agreement} at image side H = {_sides(compared)}"
        if alone := [side for side in ran if side not in again]:
            sure += f"; H = {_sides(alone)} was run in our own protocol alone"
    if printed and misprinted:
        table += f"; printed Table 2 does NOT match (up to {printed[0]:.0%} off)"
        steps.insert(0, "use the released numbers, not the printed ones")
    if ours or judged:
        verdict = "Partly" if failed else "Mostly yes" if unclear or misprinted else "Yes"
        verdict = "Open" if judged and unclear == len(judged) else verdict
        verdict += f" ({share} run)" * bool(missing)
        yield f"{verdict}: {table}."
    if steps:
        yield f"{NEXT}{'; '.join(steps)}."
    yield f"{SURE}{sure}; {counted(seeds, 'seed')} or more."
    # The last entry of a side stays: its rigorous sweep, the whole one before the reduced one.
    for side, sweep in sorted({sweep.side: sweep for sweep in runs[::-1]}.items()):
        known, dense = sweep.known, sweep.dense
        n, last = int(known.sizes[0]), int(dense.sizes[-1])
        # The N at which FC is as good as KO at its smallest N, between two measured sizes.
        enough = dense.sizes[dense.means <= known.means[0]].tolist()
        needs = f"more than {last:,}"
        if enough:
            short = dense.sizes[dense.sizes < enough[0]].tolist()
            needs = f"{short[-1] + 1:,} to {enough[0]:,}" if short else f"at most {enough[0]:,}"
        crossed = crossing(known, dense)
        cross = None if crossed is None else crossed.crossover
        where = "no clear crossing"
        if cross:
            ends = f"at least {cross.lower:,.0f}"
            if math.isfinite(cross.upper):
                ends = f"{cross.lower:,.0f} to {cross.upper:,.0f}"
            beyond = "" if cross.measured else "extrapolated, "
            where = f"crossing at about N = {cross.n:,} ({beyond}90%: {ends})"
            if cross.n > sweep.paper_last:
                where += f", past the paper's last N of {sweep.paper_last:,}"
        equals = f"KO with {n:,} samples equals FC with {needs}"
        yield f"H = {side}, {sweep.protocol}: {equals}; {where}."
    gains = [
        1 - float(sweep.known.means.min()) / sweep.untrained
        for sweep in runs
        if sweep.untrained and not sweep.learns
    ]
    if gains:
        yield (
            "In the rigorous protocol KO knows this before training: compared with N = 0, no N "
            f"lowers its error by more than {max(gains):.1%}. Read its samples in these lines as "
            "none."
        )


def _sides(sides: Iterable[int]) -> str:
    return ", ".join(map(str, sides))


def _apart(lines: list[paper.CalibrationLine], origin: paper.Origin) -> tuple[float, str] | None:
    """The largest relative deviation of an origin from the released numbers, and where it is."""
    apart = [
        (
            abs(getattr(pair, name) / getattr(released, name) - 1),
            f"{name} of {line.model} at H = {line.side}",
        )
        for line in lines
        for name in ("floor", "slope")
        if (pair := line.by_origin.get(origin)) and (released := line.by_origin.get("released"))
    ]
    return max(apart, default=None)


def opening(contents: Contents) -> tuple[str, list[str], Sequence[str]]:
    """The question of the paper's own study, and what was reproduced."""
    names = paper_sweeps(contents) if contents.name == paper.NAME else {}
    rows = [row for point in contents.points if point.name in names for row in point.rows]
    runs = paper.sweeps(rows)
    sentences = list(verdict_sentences(runs, paper.calibration(runs))) if runs else []
    return QUESTION, sentences, ("calibration", "outcomes")


SUPPLEMENTS.append(Supplement(paper_tables, opening))
