"""The paper's study: its cells, and its tables recomputed from their results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from korisk._checks import require
from korisk._group import grouped
from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.curves.stored import Chosen, by_point
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError
from korisk.paper import published
from korisk.planning.calibration import paper_line
from korisk.planning.compare import Crossing, crossing, mean_at
from korisk.store.store import FlatRow
from korisk.studies.results import curve_from
from korisk.studies.spec.study import PROTOCOLS, Protocol, Study
from korisk.texts import counted
from korisk.theory import RiskLine

Origin = Literal["paper", "released", "ours, released", "ours, rigorous"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
SIDES = (8, 16, 32, 128, 256, 512)  # image sides in pixels
MODELS = ("KO", "FC")
NAME = "the paper's study"

_SMALL = (8, 16, 32)  # scales of the CPU surrogate, in MSE; the others are in RMSE / max
OF_PAPER = (*_SMALL, 128, 256)
_LEARNS = 1.1  # an untrained KO above this multiple of its lowest error has something to learn
_MATCHES = 1.05  # FC matches KO up to this multiple of its error


def studies(
    *,
    points: Sequence[int] | None = None,
    protocols: Sequence[Protocol] = PROTOCOLS,
    seeds: Sequence[int] | None = None,
    full: bool = False,
    on_gpu: bool = False,
) -> list[Study]:
    """The studies that a reproduction runs, one for each protocol and list of seeds.

    Without `points`: on a CPU the paper's three small scales under both protocols and H = 128 under
    the rigorous one with a reduced grid; on a GPU, or with `full`, all five operating points.
    """
    rule = f"be among {', '.join(map(str, SIDES))}, each once"
    listed = list(points or ())
    valid = not set(listed) - set(SIDES) and len(set(listed)) == len(listed)
    require(valid, "points", rule, listed, "see korisk run for more")
    all_points = full or on_gpu
    grouped_points: dict[tuple[Protocol, tuple[int, ...]], list[JsonDict]] = {}
    for protocol in protocols:
        for side in points or (OF_PAPER if all_points else (*_SMALL, 128)):
            small = side in _SMALL
            if protocol == "released" and (side == 512 or not (small or all_points or points)):
                continue  # the released code fits no dense network at 512
            point: JsonDict = {"side": side, "name": f"{protocol}-{side}"}
            default_seeds = [1, 2, 3, 4, 5] if small else [1, 2, 3]
            # The released protocol fixes its own sizes; the rigorous one goes beyond the paper's.
            if protocol == "rigorous":
                point["beam"] = "surrogate" if small else "fan"
                point["sizes"] = [4, 16, 64, 256, 1024, 2048]
                if small:
                    point["sizes"] = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
                elif not all_points:
                    point |= {"name": f"{protocol}-{side}-reduced", "sizes": [4, 16, 64, 256]}
                    default_seeds = [1, 2]
            grouped_points.setdefault((protocol, tuple(seeds or default_seeds)), []).append(point)
    if not grouped_points:
        raise KoriskError("the released protocol has no point at 512; ask for another or rigorous")
    return [
        Study({"name": NAME, "protocol": protocol, "points": parts, "seeds": list(chosen)})
        for (protocol, chosen), parts in grouped_points.items()
    ]


# --- Sweeps --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """The curves of both models at one point under one protocol, in the paper's metric."""

    side: int
    protocol: Protocol
    reduced: bool
    known: Curve
    dense: Curve
    untrained: float | None  # rigorous: mean error of KO with its analytic weights

    @property
    def learns(self) -> bool:
        """Whether training lowers KO's error by a tenth or more; with an unknown start it does."""
        return self.untrained is None or self.untrained > _LEARNS * float(self.known.means.min())

    @property
    def small(self) -> bool:
        """Whether it is one of the CPU surrogate's scales."""
        return self.side in _SMALL

    @property
    def paper_last(self) -> int:
        """The largest N of the paper's sweep."""
        return 64 if self.small else 2048

    def within_paper(self, model: str) -> Curve:
        """The curve of KO or FC up to the largest N of the paper's sweep."""
        return (self.known if model == "KO" else self.dense).up_to(self.paper_last)

    def line(self, model: str) -> RiskLine:
        """The paper's calibration over the paper's N, on squared errors at the large scales."""
        curve = self.within_paper(model)
        squares = curve.means if self.small else curve.means**2
        return paper_line(Curve(curve.sizes, squares))


def sweeps(rows: Iterable[FlatRow]) -> list[Sweep]:
    """The sweeps in stored rows that have both models, by side and protocol."""
    paired_sweeps = []
    # N = 0 is KO with its analytic weights: no part of a curve, but a reference for it.
    for point_rows in by_point(rows).values():
        spec = point_rows[0].task.spec
        side = spec["problem"]["side"]
        metric = "mse" if side in _SMALL else "rmse_over_max"
        values = grouped(
            (flat.row.model, (flat.row.n, flat.row.metrics[metric], flat.task.seed))
            for flat in point_rows
            if flat.row.n > 0
        )
        choice = Chosen(metric, UNITS["error"])
        known, dense = (curve_from(values.get(model, ()), model, choice)[0] for model in MODELS)
        if known is None or dense is None:
            continue
        start = [flat.row.metrics[metric] for flat in point_rows if flat.row.n == 0]
        # The released KO does not begin at its analytic weights: at H <= 32 it begins at zero.
        untrained = sum(start) / len(start) if start and spec["protocol"] == "rigorous" else None
        reduced = point_rows[0].task.point.endswith("-reduced")
        paired_sweeps.append(Sweep(side, spec["protocol"], reduced, known, dense, untrained))
    return sorted(
        paired_sweeps,
        key=lambda sweep: (sweep.side, PROTOCOLS.index(sweep.protocol), sweep.reduced),
    )


def _best(all_sweeps: Sequence[Sweep], side: int) -> dict[Protocol, Sweep]:
    """A point's sweep under each protocol; of two the one that is not reduced."""
    candidates = sorted(
        (sweep for sweep in all_sweeps if sweep.side == side), key=lambda sweep: not sweep.reduced
    )
    best = {sweep.protocol: sweep for sweep in candidates}
    return {protocol: best[protocol] for protocol in reversed(PROTOCOLS) if protocol in best}


# --- The paper's tables --------------------------------------------------------------------------


@dataclass(frozen=True)
class CalibrationLine:
    """Floor and sigma of one model at one point, by origin; None where unknown."""

    side: int
    model: str
    metric: str
    by_origin: dict[Origin, RiskLine | None]
    reduced: bool  # whether ours, rigorous is from a reduced grid


def calibration(all_sweeps: Sequence[Sweep]) -> list[CalibrationLine]:
    """The paper's Table 2 from four origins, for the points that were run."""
    lines = []
    for side in sorted({sweep.side for sweep in all_sweeps}):
        best = _best(all_sweeps, side)
        for model in MODELS:
            by_origin: dict[Origin, RiskLine | None] = {
                "paper": _printed(published.CALIBRATION, side, model),
                "released": _printed(published.RELEASED_CALIBRATION, side, model),
            }
            # One released point has its sweep instead of a fitted line: fit it as the paper does.
            sweep = published.RELEASED_SWEEP
            if side == sweep.H:
                means = sweep.known if model == "KO" else sweep.dense
                squares = [mean**2 for mean in means]
                by_origin["released"] = paper_line(Curve(sweep.sizes, squares))
            for origin, protocol in zip(ORIGINS[2:], reversed(PROTOCOLS), strict=True):
                run = best.get(protocol)
                several = run is not None and len(run.within_paper(model).sizes) > 1
                by_origin[origin] = run.line(model) if run is not None and several else None
            metric = "MSE" if side in _SMALL else "(RMSE / max)^2"
            reduced = "rigorous" in best and best["rigorous"].reduced
            lines.append(CalibrationLine(side, model, metric, by_origin, reduced))
    return lines


def _printed(table: Sequence[published.CalibrationRow], side: int, model: str) -> RiskLine | None:
    lines = [row.known if model == "KO" else row.dense for row in table if side == row.H]
    return lines[0] if lines else None


@dataclass(frozen=True)
class Verdict:
    """Whether an outcome of the paper's Table 3 holds in a sweep, and the evidence."""

    side: int
    protocol: Protocol
    claim: str
    holds: bool | None  # None if the sweep ends too early to say
    evidence: str


def verdicts(all_sweeps: Sequence[Sweep]) -> list[Verdict]:
    """The outcomes of the paper's Table 3, judged on each sweep of their point."""
    claims = {row.size.H: row.outcome for row in published.OUTCOMES}
    outcomes = []
    for side in OF_PAPER:
        for sweep in _best(all_sweeps, side).values():
            known, dense = (sweep.within_paper(model) for model in MODELS)
            sizes = sorted(set(known.sizes.tolist()) & set(dense.sizes.tolist()))
            ratio = {n: mean_at(dense, n) / mean_at(known, n) for n in sizes}
            first, last, paper_last = sizes[0], sizes[-1], sweep.paper_last
            claim = claims[side]
            if "matches" in claim:  # FC begins above KO, and is close to it at the end
                holds = ratio[first] > 1 and ratio[last] <= _MATCHES
                too_short = last < paper_last
                evidence = f"FC has {ratio[first]:.2f} times the error of KO at N = {first}"
                evidence += f" and {ratio[last]:.3f} times at N = {last}"
            else:  # KO is below FC at every N
                worst = min(sizes, key=ratio.__getitem__)
                holds = ratio[worst] > 1
                too_short = holds and last < paper_last
                evidence = f"FC has {ratio[worst]:.3f} times the error of KO or more"
                evidence += f" (least at N = {worst})"
                claim = f"{claim}, up to N = {paper_last}"
            # A claim that fails does so at any N; one that holds needs the paper's largest N.
            if too_short:
                evidence += f"; N = {paper_last} was not measured"
            seeds = min(int(curve.counts.min()) for curve in (known, dense))
            evidence += f"; {counted(seeds, 'seed')}"
            judged = None if too_short else holds
            outcomes.append(Verdict(side, sweep.protocol, claim, judged, evidence))
    return outcomes


@dataclass(frozen=True)
class Finding:
    """What a rigorous sweep shows beyond the paper's tables."""

    side: int
    untrained: float | None  # KO's analytic start
    worst_training: float | None  # the largest mean error of KO over that of its start
    passed_floor: tuple[int, float, float] | None  # N, FC's error, its lowest over the paper's N
    crossing: Crossing | None


def findings(all_sweeps: Sequence[Sweep]) -> list[Finding]:
    """What the rigorous sweeps show beyond the paper's tables."""
    results = []
    for side in sorted({sweep.side for sweep in all_sweeps}):
        sweep = _best(all_sweeps, side).get("rigorous")
        if sweep is None:
            continue
        start, dense = sweep.untrained, sweep.dense
        worst = None if start is None else float(max(sweep.known.means)) / start
        # The paper's floor of FC is its lowest error over the paper's N: more data may pass it.
        floor = float(min(sweep.within_paper("FC").means))
        lowest = float(min(dense.means))
        lowest_n = int(dense.sizes[dense.means.argmin()])
        passed = (lowest_n, lowest, floor) if lowest < floor else None
        results.append(Finding(side, start, worst, passed, crossing(sweep.known, dense)))
    return results
