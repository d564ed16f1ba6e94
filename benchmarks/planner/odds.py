"""Do the planner's odds come true? Proper scores of its forecasts on curves kept apart.

Sets of pilots: imaging networks (data/imaging.csv), LCDB, neural networks (data/neural_*.csv), and
simulated power laws with and without floors; each has a tuning and a reporting part. Asked at 2, 4,
8 and 16 times the pilot's largest N (as far as the curve was measured):

- CRPS of the log error, by 20 quantiles; the coverage of the 90% band; the mean signed log error.
- P(target met by N) for targets of 0.95 to 0.5 times the pilot's last error, whether met or not:
  Brier score, and how often each tenth of the odds came true.
- For targets that the truth meets within 8 times the pilot: how often `safe(.9)` exists, and how
  often it suffices where it lies within the data; the probability at the true N.
- Ratios of known against dense networks (imaging): how often the 90% interval holds the true ratio.

    python -m benchmarks.planner.odds [--part report|tune] [--sets imaging,lcdb] [--every 1]
        [--first 0] [--no-metric] [--rivals] [--json FILE] [--table] [--held]

"recalibration" is the offset and the slope of normal scores under which the odds of a set would
have come true best. With --no-metric pilots do not name their metric, so that korisk takes the
mixture of its priors. results/planner_odds.json holds what --json wrote for two versions, and
--table prints it as results/planner_odds.txt. --held writes how often answers held, for the pages,
into the package, src/korisk/report/held.json.

Run with another version's `src` on PYTHONPATH, it asks that version the same.
"""

import argparse
import json
import math
import multiprocessing
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from benchmarks.planner import curves as curves
from benchmarks.planner import rivals as rivals
from benchmarks.planner.curves import Case
from korisk.curves.curve import Curve
from korisk.planning.compare import compare
from korisk.planning.forecast import forecast
from korisk.planning.plan import plan_from

Array = NDArray[np.float64]

RESULTS = Path(__file__).parents[1] / "results"
HELD = Path(__file__).parents[2] / "src" / "korisk" / "report" / "held.json"
SETS = ("imaging", "lcdb", "neural", "power", "no floor")
LEVELS = (np.arange(20) + 0.5) / 20
TARGETS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)  # of the pilot's last error
FACTORS = (2, 4, 8, 16)
RIVALS = ("M2", "M4", "BNSL", "tutorial curve_fit c + a N^-b")
LEAST = 100  # statements of a tenth of the odds that is judged


def cases(name: str, part: str, every: int, first: int = 0) -> list[Case]:
    """The pilots of a set."""
    if name == "imaging":
        found = curves.imaging_cases(part)
    elif name == "lcdb":
        found = curves.lcdb(part, 3 if part == "tune" else 12)
    elif name == "neural":
        found = [neural_case(curve) for curve in curves.neural(part)]
    else:
        found = curves.power_laws(part, floors=name == "power")
    return found[first::every]


def neural_case(curve: curves.NeuralCurve) -> Case:
    """A published curve with a pilot to an eighth of its largest N, as one of the others."""
    cut = curve.cut(8) if (curve.cut(8).pilot_n.size >= 4) else curve
    places = [int(np.argmin(np.abs(np.log(cut.hidden_n / (f * cut.last))))) for f in FACTORS]
    kept = sorted({p for p, f in zip(places, FACTORS, strict=True)
                   if abs(math.log(cut.hidden_n[p] / (f * cut.last))) < 0.3})  # fmt: skip
    n, error = cut.hidden_n[kept], np.minimum.accumulate(cut.hidden_error)[kept]
    targets = tuple((float(e), float(m)) for m, e in zip(n, error, strict=True)
                    if e < 0.97 * cut.pilot_error[-1])  # fmt: skip
    return Case(cut.name, cut.domain, cut.curve, n, error, targets)


def unnamed(curve: Curve) -> Curve:
    """The same without the name of its metric."""
    return Curve(curve.n, curve.error, curve.seed, curve.model)


def factor(case: Case, n: float) -> int:
    """Which of the factors N is nearest to."""
    return min(FACTORS, key=lambda f: abs(math.log(n / case.last / f)))


def asked(case: Case) -> dict[str, Any]:
    """What the planner says of one case, beside the truth."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made, truth = forecast(case.curve), np.log(case.hidden_error)
        inside = case.hidden_n <= made.horizon
        if not inside.all():
            return {"doubt": True}
        law = made.law(case.hidden_n)
        quantiles = np.array([law.quantile(float(p)) for p in LEVELS])
        above = truth - quantiles
        crps = 2 * np.maximum(LEVELS[:, None] * above, (LEVELS[:, None] - 1) * above).mean(axis=0)
        low, high = law.quantile(0.05), law.quantile(0.95)
        away = law.quantile(0.5) - truth
        order = np.minimum.accumulate(case.hidden_error)
        said: list[tuple[float, bool]] = []
        for part in TARGETS:
            goal = part * case.last_error
            odds = np.maximum.accumulate(made.met(case.hidden_n, goal))
            said += zip(odds.tolist(), (order <= goal).tolist(), strict=True)
        met = []
        for target, n in case.targets:
            answer = plan_from(made, target)
            safe = answer.samples(0.9)
            within = safe is not None and safe <= case.hidden_n[-1]
            enough = (safe or math.inf) >= n
            met.append((n / case.last, answer.chances.at(n), safe is not None, within, enough))
        rows = zip([factor(case, n) for n in case.hidden_n], crps, (low <= truth) & (truth <= high),
                   away, high - low, strict=True)  # fmt: skip
        return {"dense": "dense" in case.learner, "rows": [[float(v) for v in row] for row in rows],
                "said": said, "met": met}  # fmt: skip


def rival_scores(work: tuple[str, Case]) -> list[float]:
    """|log error| of a rival, which is the CRPS of a forecast without a band."""
    name, case = work
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fitted = rivals.RIVALS[name](case.curve.sizes.astype(float), case.curve.means)
        predicted = fitted(case.hidden_n)
        away = np.abs(np.log(predicted / case.hidden_error))
    return [float(each) for each in np.where(np.isfinite(away), away, 5.0)]


def show(name: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Print the figures of a set, and return them."""
    known = [a for a in answers if "rows" in a]
    rows = np.array([row for a in known for row in a["rows"]])
    said = np.array([pair for a in known for pair in a["said"]], float)
    met = np.array([row for a in known for row in a["met"]], float).reshape(-1, 5)
    near = met[met[:, 0] <= 8.01]
    far = {f: rows[rows[:, 0] == f] for f in FACTORS}
    dense = np.array([row for a in known if a["dense"] for row in a["rows"]]).reshape(-1, 5)
    figures = {
        "pilots": len(answers),
        "without answer": len(answers) - len(known),
        "CRPS": float(rows[:, 1].mean()),
        "coverage": {f: float(r[:, 2].mean()) for f, r in far.items() if len(r)},
        "signed": {f: float(r[:, 3].mean()) for f, r in far.items() if len(r)},
        "width": {f: float(np.median(r[:, 4])) for f, r in far.items() if len(r)},
        "dense signed at 8x": float(dense[dense[:, 0] == 8, 3].mean()) if len(dense) else math.nan,
        "Brier": float(np.mean((said[:, 0] - said[:, 1]) ** 2)),
        "P at true N, 4x": float(met[np.abs(met[:, 0] - 4) < 0.5, 1].mean()),
        "safe(.9) exists": float(near[:, 2].mean()),
        "safe(.9) suffices": float(near[near[:, 3] > 0, 4].mean())
        if near[:, 3].any()
        else math.nan,
        "odds": tenths(said),
        "recalibration": recalibration(said),
    }
    print(f"\n{name}")
    for key, value in figures.items():
        print(f"  {key}: {value if not isinstance(value, float) else round(value, 4)}")
    return figures | {"said": said.round(4).tolist()}


def tenths(said: Array) -> list[tuple[float, float, int]]:
    """Mean odds said, how often they came true, and how many: for every tenth."""
    found = []
    for low in np.arange(10) / 10:
        chosen = said[(said[:, 0] >= low) & ((said[:, 0] < low + 0.1) | (low > 0.85))]
        if len(chosen) >= LEAST:
            mean = chosen.mean(axis=0).round(3).tolist()
            found.append((mean[0], mean[1], len(chosen)))
    return found


def recalibration(said: Array) -> tuple[float, float]:
    """Offset and slope of normal scores that make odds come true, by their likelihood."""
    score, true = ndtri(np.clip(said[:, 0], 1e-4, 1 - 1e-4)), said[:, 1] > 0.5

    def loss(line: Array) -> float:
        right = ndtr((line[0] + line[1] * score) * np.where(true, 1, -1))
        return -float(np.mean(np.log(np.maximum(right, 1e-6))))

    found = minimize(loss, [0.0, 1.0], method="Nelder-Mead").x
    return round(float(found[0]), 3), round(float(found[1]), 3)


def ratios(part: str) -> dict[str, float]:
    """True and said ratios of samples, dense over known, at targets that both meet."""
    settings: dict[tuple[str, str], dict[str, curves.ImagingCurve]] = {}
    for curve in curves.imaging():
        if curve.part == part:
            settings.setdefault(curve.setting, {})[curve.network] = curve
    pairs = [(of[k], of[d], last)
             for of in settings.values()
             for k, d in (("unet", "dense-unet"), ("cnn", "dense"), ("unrolled", "dense-unet"))
             if k in of and d in of
             for last in (64, 256)]  # fmt: skip
    with multiprocessing.Pool() as pool:
        found = [row for rows in pool.map(ratio, pairs) for row in rows]
        scores = np.array([pair for pairs in pool.map(missed, pairs) for pair in pairs])
    table = np.array(found, float)
    figures = {
        "misses go together": float(np.corrcoef(scores.T)[0, 1]),
        "ratios": len(table),
        "interval holds": float(table[:, 0].mean()),
        "with a number": float(np.isfinite(table[:, 1]).mean()),
        "median of said over true": float(np.exp(np.nanmedian(table[:, 1]))),
        "median of the lower end over true": float(np.exp(np.median(table[:, 2]))),
    }
    print("\nratios of dense over known")
    for key, value in figures.items():
        print(f"  {key}: {round(value, 3)}")
    return figures


def missed(work: tuple[curves.ImagingCurve, curves.ImagingCurve, int]) -> list[list[float]]:
    """Normal scores of both truths under their forecasts, beyond the pilot."""
    scores = []
    for curve in work[:2]:
        case = curve.case(4, work[2])
        made = forecast(case.curve)
        if made.doubt:
            return []
        under = made.law(case.hidden_n).under(np.log(case.hidden_error))
        scores.append(ndtri(np.clip(under, 1e-3, 1 - 1e-3)))
    return [[float(first), float(second)] for first, second in zip(*scores, strict=True)]


def ratio(work: tuple[curves.ImagingCurve, curves.ImagingCurve, int]) -> list[list[float]]:
    """For each target: whether the interval holds the truth, log of said and of lower over true."""
    known, dense, last = work
    both = [curve.case(4, last) for curve in (known, dense)]
    truths = [np.minimum.accumulate(curve.table.mean(axis=1)) for curve in (known, dense)]
    rows = []
    for target in np.unique(truths[1][known.n > last]):
        passed = [np.flatnonzero(truth <= target) for truth in truths]
        if not all(map(len, passed)) or min(p[0] for p in passed) < 1:
            continue
        if known.n[passed[0][0]] < 4:
            continue
        needed = [_crossed(curve.n, truth, target)
                  for curve, truth in zip((known, dense), truths, strict=True)]  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = compare(both[0].curve, both[1].curve, float(target))
        true = math.log(needed[1] / needed[0])
        ends = said.ratio_range
        if ends is None:
            continue
        low, high = (math.log(e) if e > 0 else -math.inf for e in ends)
        point = math.log(said.ratio) - true if said.ratio else math.nan
        rows.append([float(low - 1e-9 <= true <= high + 1e-9), point, low - true])
    return rows


def _crossed(n: Array, truth: Array, target: float) -> float:
    """Where a falling curve passes a target, logarithm over logarithm."""
    at = int(np.argmax(truth <= target))
    logs, sizes = np.log(truth[at - 1 : at + 1]), np.log(n[at - 1 : at + 1])
    part = (logs[0] - math.log(target)) / (logs[0] - logs[1])
    return float(np.exp(sizes[0] + part * (sizes[1] - sizes[0])))


def short(value: float) -> str:
    """A figure without its leading zero."""
    return "-" if math.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)


def table() -> str:
    """The kept figures of two versions, as a page shows them."""
    kept = json.loads((RESULTS / "planner_odds.json").read_text("utf-8"))
    old, new = kept["0.2.0"], kept["now"]
    command = "python -m benchmarks.planner.odds --part report --every 2 --first 1"
    heads = ("CRPS", "Brier", "P at true N, 4x", "safe(.9) exists", "safe(.9) suffices")
    lines = [f"Version 0.2.0 → now. `{command}` (power laws: every 4).", ""]
    columns = ("pilots", *heads, "coverage at 2/4/8/16x", "mean log error at 8x")
    lines += [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    for name in SETS:
        pair = old[name], new[name]
        cells = [f"{name} ({pair[1]['pilots']})"]
        cells += [" → ".join(short(each[head]) for each in pair) for head in heads]
        cells.append(" → ".join("/".join(map(short, each["coverage"].values())) for each in pair))
        cells.append(" → ".join(short(each["signed"]["8"]) for each in pair))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Odds of imaging, lcdb and neural together, said → came true (statements):", ""]
    for version, figures in kept.items():
        odds = [f"{short(p)} → {short(true)} ({count})" for p, true, count in figures["pooled"]]
        lines.append(f"- {version}: {', '.join(odds)}")
    lines.append("")
    for head in ("interval holds", "median of said over true"):
        values = " → ".join(short(each["ratios"][head]) for each in (old, new))
        lines.append(f"- Ratios of dense over known networks, {head}: {values}")
    signed = " → ".join(short(each["imaging"]["dense signed at 8x"]) for each in (old, new))
    return "\n".join([*lines, f"- Dense networks at 8x, mean log error: {signed}"])


def held() -> dict[str, Any]:
    """How often answers held, as pages say it: the part of the kept figures that travels."""
    kept = json.loads((RESULTS / "planner_odds.json").read_text("utf-8"))["now"]
    sets = {
        name: {"pilots": kept[name]["pilots"], "enough": round(kept[name]["safe(.9) suffices"], 3)}
        for name in ("imaging", "neural", "lcdb")
    }
    return {"sets": sets}


def main(arguments: Iterable[str] | None = None) -> None:
    """Ask, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--part", choices=("report", "tune"), default="report")
    parser.add_argument("--sets", default=",".join((*SETS, "ratios")))
    parser.add_argument("--every", type=int, default=1, help="ask about every so many pilots")
    parser.add_argument("--first", type=int, default=0, help="from which pilot on")
    parser.add_argument("--no-metric", action="store_true", help="do not name the metric")
    parser.add_argument("--rivals", action="store_true", help="ask other estimators, too")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--table", action="store_true", help="print the kept figures, ask nothing")
    parser.add_argument(
        "--held", action="store_true", help="write those that the package shows, ask nothing"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.table:
        print(table())
        return
    if options.held:
        HELD.write_text(json.dumps(held(), indent=1) + "\n", "utf-8")
        return
    found: dict[str, Any] = {}
    with multiprocessing.Pool() as pool:
        for name in options.sets.split(","):
            if name == "ratios":
                continue
            pilots = cases(name, options.part, options.every, options.first)
            if options.no_metric:
                pilots = [replace(case, curve=unnamed(case.curve)) for case in pilots]
            found[name] = show(name, pool.map(asked, pilots, chunksize=4))
            for rival in RIVALS if options.rivals else ():
                scores = pool.map(rival_scores, [(rival, case) for case in pilots], chunksize=4)
                found[name][rival] = float(np.mean([s for each in scores for s in each]))
                print(f"  {rival}: |log error| {found[name][rival]:.4f}")
    pooled = np.array([pair for f in found.values() for pair in f.pop("said")])
    if len(pooled):
        print("\nodds of all sets:", *tenths(pooled), sep="\n  ")
        found["pooled"] = tenths(pooled)
    if "ratios" in options.sets:
        found["ratios"] = ratios(options.part)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
