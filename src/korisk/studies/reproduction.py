"""The paper's study: which cells it has, and what their results say about its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from korisk import published
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.fit import calibrate
from korisk.studies.results import Crossing, by_point, crossing, curve_of, mean_at
from korisk.studies.spec.study import PROTOCOLS, Protocol, Study
from korisk.studies.store.store import FlatRow
from korisk.theory import RiskLine

SIDES = (8, 16, 32, 128, 256, 512)
MODELS = ("KO", "FC")
NAME = "the paper's study"

_SMALL = (8, 16, 32)
_ON_CPU = (*_SMALL, 128)
_OF_PAPER = (8, 16, 32, 128, 256)
_SEEDS = {True: [1, 2, 3, 4, 5], False: [1, 2, 3]}  # by whether the side is small
_RIGOROUS_SIZES = {
    True: [4, 8, 16, 32, 64, 128, 256, 512, 1024],
    False: [4, 16, 64, 256, 1024, 2048],
}
_REDUCED_SIZES = [4, 16, 64, 256]
_REDUCED_SEEDS = [1, 2]
_PAPER_LAST = {True: 64, False: 2048}  # the largest N of the paper's sweeps
_MATCHES = 1.05  # times the error of KO, up to which FC is said to match it


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
    if points is not None and len(set(points)) < len(points):
        raise KoriskError(f"points must differ, got {list(points)}; name each once")
    for side in points or ():
        if side not in SIDES:
            known = ", ".join(map(str, SIDES))
            raise KoriskError(f"points must be among {known}, got {side}; see korisk run for more")
    whole = full or on_gpu
    made: dict[tuple[Protocol, tuple[int, ...]], list[dict[str, Any]]] = {}
    for protocol in protocols:
        for side in points or (_OF_PAPER if whole else _ON_CPU):
            if protocol == "released" and (side == 512 or (side > 32 and not (whole or points))):
                continue  # the released code fits no dense network at 512
            point, own = _point(protocol, side, reduced=not whole and side > 32)
            made.setdefault((protocol, tuple(seeds or own)), []).append(point)
    if not made:
        raise KoriskError("the released protocol has no point at 512; ask for another or rigorous")
    return [_study(protocol, list(chosen), parts) for (protocol, chosen), parts in made.items()]


def _point(protocol: Protocol, side: int, *, reduced: bool) -> tuple[dict[str, Any], list[int]]:
    small = side in _SMALL
    point: dict[str, Any] = {"side": side, "name": f"{protocol}-{side}"}
    if protocol == "released":
        return point, _SEEDS[small]
    point["beam"] = "surrogate" if small else "fan"
    point["sizes"] = _RIGOROUS_SIZES[small]
    if reduced:
        point |= {"name": f"{protocol}-{side}-reduced", "sizes": _REDUCED_SIZES}
        return point, _REDUCED_SEEDS
    return point, _SEEDS[small]


def _study(protocol: Protocol, seeds: list[int], points: list[dict[str, Any]]) -> Study:
    return Study({"name": NAME, "protocol": protocol, "points": points, "seeds": seeds})


# --- What the results say ------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """The curves of both models at one point under one protocol, in the paper's metric."""

    side: int
    protocol: Protocol
    reduced: bool
    known: Curve
    dense: Curve
    untrained: float | None  # mean error of KO with its analytic weights

    @property
    def small(self) -> bool:
        """Whether it is one of the CPU surrogate's scales."""
        return self.side in _SMALL

    def line(self, model: str) -> RiskLine:
        """The paper's calibration over the paper's N, on squared errors at the large scales."""
        curve = self.within_paper(model)
        values = curve.means if self.small else curve.means**2
        fitted = calibrate(Curve(curve.sizes, values), "paper")
        return RiskLine(fitted.floor, fitted.slope or 0.0)

    def curve(self, model: str) -> Curve:
        """The curve of KO or FC."""
        return self.known if model == "KO" else self.dense

    def within_paper(self, model: str) -> Curve:
        """The curve of KO or FC up to the largest N of the paper's sweep."""
        return self.curve(model).up_to(_PAPER_LAST[self.small])


def sweeps(rows: Iterable[FlatRow]) -> list[Sweep]:
    """The sweeps in stored rows that have both models, by side and protocol."""
    found = [_sweep(part) for part in by_point(rows).values()]
    return sorted(
        (each for each in found if each is not None),
        key=lambda each: (each.side, PROTOCOLS.index(each.protocol), each.reduced),
    )


def _sweep(rows: list[FlatRow]) -> Sweep | None:
    spec = rows[0].task.spec
    side = spec["problem"]["side"]
    metric = "mse" if side in _SMALL else "rmse_over_max"
    known, dense = (curve_of(rows, model, metric) for model in MODELS)
    if known is None or dense is None:
        return None
    start = [each.row.metrics[metric] for each in rows if each.row.n == 0]
    return Sweep(
        side,
        spec["protocol"],
        rows[0].task.point.endswith("-reduced"),
        known,
        dense,
        sum(start) / len(start) if start else None,
    )


Origin = Literal["paper", "released", "ours, released", "ours, rigorous"]
ORIGINS: tuple[Origin, ...] = ("paper", "released", "ours, released", "ours, rigorous")


@dataclass(frozen=True)
class CalibrationLine:
    """Floor and sigma of one model at one point, by where they come from; None where unknown."""

    side: int
    model: str
    metric: str
    by_origin: dict[Origin, RiskLine | None]
    reduced: bool  # whether ours, rigorous is from a reduced grid


def calibration(found: Sequence[Sweep]) -> list[CalibrationLine]:
    """The paper's Table 2 from four origins, for the points that were run."""
    lines = []
    for side in sorted({sweep.side for sweep in found}):
        best = {sweep.protocol: sweep for sweep in _best(found, side)}
        for model in MODELS:
            by_origin: dict[Origin, RiskLine | None] = {
                "paper": _printed(published.CALIBRATION, side, model),
                "released": _released_line(side, model),
                "ours, released": _line(best.get("released"), model),
                "ours, rigorous": _line(best.get("rigorous"), model),
            }
            metric = "MSE" if side in _SMALL else "(RMSE / max)^2"
            reduced = "rigorous" in best and best["rigorous"].reduced
            lines.append(CalibrationLine(side, model, metric, by_origin, reduced))
    return lines


def _best(found: Sequence[Sweep], side: int) -> list[Sweep]:
    """A point's sweep under each protocol; where there are two, the one that is not reduced."""
    full_last = sorted((each for each in found if each.side == side), key=lambda s: not s.reduced)
    best = {each.protocol: each for each in full_last}
    return [best[protocol] for protocol in ("released", "rigorous") if protocol in best]


def _line(sweep: Sweep | None, model: str) -> RiskLine | None:
    if sweep is None or len(sweep.within_paper(model).sizes) < 2:
        return None
    return sweep.line(model)


def _printed(table: Sequence[published.CalibrationRow], side: int, model: str) -> RiskLine | None:
    for row in table:
        if side == row.H:
            return row.known if model == "KO" else row.dense
    return None


def _released_line(side: int, model: str) -> RiskLine | None:
    sweep = published.RELEASED_SWEEP
    if side != sweep.H:
        return _printed(published.RELEASED_CALIBRATION, side, model)
    means = sweep.known if model == "KO" else sweep.dense
    fitted = calibrate(Curve(sweep.sizes, [mean**2 for mean in means]), "paper")
    return RiskLine(fitted.floor, fitted.slope or 0.0)


@dataclass(frozen=True)
class Verdict:
    """Whether an outcome of the paper's Table 3 holds in a sweep, and by what."""

    side: int
    protocol: Protocol
    claim: str
    holds: bool | None  # None where the sweep does not reach far enough to say
    evidence: str


def verdicts(found: Sequence[Sweep]) -> list[Verdict]:
    """The outcomes of the paper's Table 3, judged on each sweep of their point."""
    claims = {row.size.H: row.outcome for row in published.OUTCOMES}
    return [_verdict(sweep, claims[side]) for side in _OF_PAPER for sweep in _best(found, side)]


def _verdict(sweep: Sweep, claim: str) -> Verdict:
    known, dense = (sweep.within_paper(model) for model in MODELS)
    sizes = sorted(set(known.sizes.tolist()) & set(dense.sizes.tolist()))
    ratio = {n: mean_at(dense, n) / mean_at(known, n) for n in sizes}
    holds, words = (_matched if "matches" in claim else _dominated)(ratio, _PAPER_LAST[sweep.small])
    seeds = min(int(curve.counts.min()) for curve in (known, dense))
    of_seeds = f"; {seeds} seed{'s' if seeds > 1 else ''}"
    return Verdict(sweep.side, sweep.protocol, claim, holds, words + of_seeds)


def _matched(ratio: dict[int, float], last: int) -> tuple[bool | None, str]:
    """Whether FC begins above KO and is within `_MATCHES` of it at the paper's last N."""
    first, final = min(ratio), max(ratio)
    words = f"FC has {ratio[first]:.2f} times the error of KO at N = {first} and "
    words += f"{ratio[final]:.3f} times at N = {final}"
    if final < last:
        return None, f"{words}; N = {last} was not measured"
    return ratio[first] > 1 and ratio[last] <= _MATCHES, words


def _dominated(ratio: dict[int, float], last: int) -> tuple[bool | None, str]:
    """Whether KO is below FC at every N."""
    worst = min(ratio, key=lambda n: ratio[n])
    words = f"FC has {ratio[worst]:.3f} times the error of KO or more (least at N = {worst})"
    if ratio[worst] > 1 and max(ratio) < last:
        return None, f"{words}; N = {last} was not measured"
    return ratio[worst] > 1, words


@dataclass(frozen=True)
class Finding:
    """What a rigorous sweep shows beyond the paper's tables."""

    side: int
    untrained: float | None  # KO's analytic start
    worst_training: float | None  # the largest mean error of KO over that of its start
    passed_floor: tuple[int, float, float] | None  # N, FC's error, its lowest over the paper's N
    crossing: Crossing | None


def findings(found: Sequence[Sweep]) -> list[Finding]:
    """What the rigorous sweeps show beyond the paper's tables."""
    sides = sorted({each.side for each in found})
    best = [sweep for side in sides for sweep in _best(found, side)]
    return [_finding(sweep) for sweep in best if sweep.protocol == "rigorous"]


def _finding(sweep: Sweep) -> Finding:
    start = sweep.untrained
    worst = None if start is None else float(max(sweep.known.means)) / start
    floor = float(min(sweep.within_paper("FC").means))
    lowest = float(min(sweep.dense.means))
    passed = None
    if lowest < floor:
        at = int(sweep.dense.sizes[sweep.dense.means.argmin()])
        passed = (at, lowest, floor)
    return Finding(sweep.side, start, worst, passed, crossing(sweep.known, sweep.dense))
