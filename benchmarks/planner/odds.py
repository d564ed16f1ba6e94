"""Do the planner's odds come true, by database? And do other estimators do better?

Pilots of `curves.DATABASES`, their metric named as users name it. Asked at 2, 4, 8 and 16 times the
pilot's largest N, as far as the curve was measured:

- Brier score of P(target met by N), for targets of 0.95 to 0.5 times the pilot's last error, which
  are set without the truth; how often each tenth of the odds came true.
- CRPS of the log error, and the coverage of the 90% band.
- The N that is called 90% sure, at most 16 times the pilot: for how many of these targets there is
  one within the data, and how often the target was met there.
- The same for true errors at 2, 4 and 8 times a pilot beyond N = 32, taken as targets. The truth
  sets these: of right odds one in ten is too small, and always there, so that where 40% are there,
  three in four of them would be enough.
- Ratios of dense over known networks: how often the 90% interval holds the true ratio, as it is
  widened now and by other factors; and by the factor at which 90% of all other databases' held.
- Published curves: the log error of the median at held-out points.

    python -m benchmarks.planner.odds [--databases lcdb,neural] [--rivals] [--save VERSION]
    python -m benchmarks.planner.odds --tables      # of what is kept: results/planner.txt
    python -m benchmarks.planner.odds --noise       # of a single seed, by database
    python -m benchmarks.planner.odds --same        # do names, units or orders matter?
    python -m benchmarks.planner.odds --search --prior NAME  # results/planner_search.json

--save keeps the figures in results/planner.json under a version, "rivals", "noise" or "same". With
another version's `src` on PYTHONPATH it asks that version the same, and with a name of `priors.py`
this version with that prior:

    PYTHONPATH=OTHER/src:. python -m benchmarks.planner.odds --save 0.3.0
    python -m benchmarks.planner.odds --prior TWO --save TWO
"""

import argparse
import importlib
import json
import math
import multiprocessing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import korisk as kr
from benchmarks.markdown import header, line
from benchmarks.planner import curves, rivals
from benchmarks.planner.curves import DATABASES, Case, Pair
from korisk.curves.curve import Curve
from korisk.planning.futures.posterior import posterior

comparing: Any = importlib.import_module("korisk.planning.compare")
Array = NDArray[np.float64]

RESULTS = Path(__file__).parents[1] / "results"
KEPT, TEXT = RESULTS / "planner.json", RESULTS / "planner.txt"
SEARCHED = RESULTS / "planner_search.json"
RECORD = Path(__file__).parents[2] / "src" / "korisk" / "planning" / "record.json"
TARGETS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)  # of the pilot's last error
FACTORS = (2, 4, 8, 16)  # times the pilot's largest N
GRID = 2.0 ** (np.arange(1, 33) / 8)  # ... at which an N that is 90% sure is sought
SURE = 0.9
SCORES = ("Brier", "CRPS")
VERSIONS = ("0.3.0", "TWO", "now")
NO_WORSE = 1.0005  # a score over that of TWO, up to rounding
LABELS = {"posterior": "**posterior**"}
# Imaging networks, with the prior that is chosen without them: long trainings lead to today's.
RECORDED = {"imaging, long": "now", "imaging, short": "imaging, short, left out"}
LEAST = 100  # statements of a tenth of the odds that is judged
SHORT = 32  # a pilot to this N is a short one
EVERY = 3  # rivals are asked about each third pilot
MANY = 400  # pilots of a database, of which the search sees every second one
SAME = 20  # one pilot in so many is asked again in other words
NAMES = ("", "mse", "error rate", "val_loss", "x")  # of the same metric
SCALES = (1e-6, 100.0)  # of its unit
WIDTHS = tuple(1 + step / 4 for step in range(9))  # factors of the logarithm of an interval
HOLDS = 0.9  # of the true ratios, at the factor that is chosen
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
FAR = 1e4  # times the pilot; a rival's answer beyond it is a refusal
MISSED = 5.0  # log error of a rival whose prediction is no number


# --- One pilot -----------------------------------------------------------------------------------


def asked(case: Case) -> dict[str, Any]:
    """What the planner says of a pilot, beside the truth."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        future, n, truth = posterior(case.curve), case.hidden_n, np.log(case.hidden_error)
        law = future.law(n)
        low, high = law.quantile(0.05), law.quantile(0.95)
        factors = [min(FACTORS, key=lambda f: abs(math.log(size / case.last / f))) for size in n]
        rows = zip(factors, crps(law, truth), (low <= truth) & (truth <= high),
                   law.quantile(0.5) - truth, strict=True)  # fmt: skip
        reached = np.minimum.accumulate(case.hidden_error)
        grid = future.law(case.last * GRID)
        statements: list[tuple[float, bool]] = []
        sure: list[tuple[float, bool]] = []  # times the pilot's last N, and whether it was enough
        for share in TARGETS:
            goal = share * case.last_error
            odds = np.maximum.accumulate(law.under(np.full(len(n), math.log(goal))))
            statements += zip(odds.tolist(), (reached <= goal).tolist(), strict=True)
            size = first_sure(grid.under(np.full(len(GRID), math.log(goal))))
            if size * case.last > n[-1]:
                size = math.inf
            sure.append((size, met(case, size * case.last, goal)))
        true_targets = []
        for size, error in zip(n / case.last, reached, strict=True):
            if size < 11 and error < 0.97 * case.last_error:
                answer = first_sure(grid.under(np.full(len(GRID), math.log(error))))
                true_targets.append((float(size), answer))
    return {
        "short": case.last <= SHORT,
        "rows": [[float(value) for value in row] for row in rows],
        "statements": statements,
        "sure": sure,
        "true targets": true_targets,
    }


def crps(law: Any, truth: Array) -> Array:
    """Continuous ranked probability score of the log error: the integral of (F - step)^2."""
    score = np.zeros(len(truth))
    for end, above in ((law.quantile(0.001), False), (law.quantile(0.999), True)):
        start, stop = (truth, np.maximum(end, truth)) if above else (np.minimum(end, truth), truth)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            under = law.under(0.5 * (start + stop) + 0.5 * (stop - start) * node)
            score += 0.5 * (stop - start) * weight * (1 - under if above else under) ** 2
    return score


def first_sure(odds: Array) -> float:
    """The smallest of the grid's N, over the pilot's last, that is 90% sure; or infinity."""
    return float(GRID[np.argmax(odds >= SURE)]) if (odds >= SURE).any() else math.inf


def met(case: Case, n: float, error: float) -> bool:
    """Whether the truth meets an error by N; between hidden N in a straight line of logarithms."""
    sizes = np.append(case.last, case.hidden_n)
    errors = np.minimum.accumulate(np.append(case.last_error, case.hidden_error))
    return bool(np.interp(math.log(n), np.log(sizes), np.log(errors)) <= math.log(error) + 1e-9)


# --- One database --------------------------------------------------------------------------------


def figures(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a database."""
    rows = np.array([row for answer in answers for row in answer["rows"]])
    said = statements(answers)
    sure = np.array([pair for answer in answers for pair in answer["sure"]], float)
    short = [answer for answer in answers if answer["short"]]
    longer = [answer for answer in answers if not answer["short"]]
    true = np.array([pair for a in longer for pair in a["true targets"]], float).reshape(-1, 2)
    exists, needed = np.isfinite(sure[:, 0]), np.isfinite(true[:, 1])
    by_distance = {}
    for before, factor in zip((1, *FACTORS), FACTORS, strict=False):
        near = (sure[:, 0] > before * 1.001) & (sure[:, 0] <= factor * 1.001)
        by_distance[str(factor)] = [int(near.sum()), int(sure[near, 1].sum())]
    return {
        "pilots": len(answers),
        "Brier": brier(said),
        "CRPS": float(rows[:, 1].mean()),
        "Brier, pilots to 32": brier(statements(short)),
        "Brier, longer pilots": brier(statements(longer)),
        "coverage": {
            str(f): float(rows[rows[:, 0] == f, 2].mean())
            for f in FACTORS
            if (rows[:, 0] == f).any()
        },
        "mean log error at 8x": float(rows[rows[:, 0] == 8, 3].mean()),
        "targets": len(sure),
        "90% sure": int(exists.sum()),
        "enough": int(sure[exists, 1].sum()),
        "enough by distance": by_distance,
        "true targets": len(true),
        "true targets, 90% sure": int(needed.sum()),
        "true targets, enough": int((true[:, 1] >= true[:, 0] * 0.999)[needed].sum()),
    }


def statements(answers: list[dict[str, Any]]) -> Array:
    """(S, 2) odds and whether they came true."""
    return np.array([s for answer in answers for s in answer["statements"]], float).reshape(-1, 2)


def brier(said: Array) -> float:
    """Brier score of odds; nan without any."""
    return float(np.mean((said[:, 0] - said[:, 1]) ** 2)) if len(said) else math.nan


def tenths(said: Array) -> list[tuple[float, float, int]]:
    """Mean odds said, how often they came true, and how many: for every tenth."""
    judged = []
    for low in np.arange(10) / 10:
        chosen = said[(said[:, 0] >= low) & ((said[:, 0] < low + 0.1) | (low > 0.85))]
        if len(chosen) >= LEAST:
            judged.append((*chosen.mean(axis=0).round(3).tolist(), len(chosen)))
    return judged


# --- Published curves, ratios, rivals ------------------------------------------------------------


def predicted(name: str, curve: Curve) -> rivals.Predict:
    """What an estimator expects at other N: the planner's median, or a rival's fit."""
    if name == "posterior":
        return lambda at: posterior(curve).quantile(at, 0.5)
    return rivals.RIVALS[name](curve.sizes.astype(float), curve.means)


def rival(work: tuple[str, Case]) -> list[list[float]]:
    """An estimator's |log error| at hidden N, and the log of its N over the true one."""
    name, case = work
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        predict = predicted(name, case.curve)
        away = np.abs(np.log(predict(case.hidden_n) / case.hidden_error))
        grid: Array = case.last * np.geomspace(1, FAR, 400)
        errors, reached = predict(grid), np.minimum.accumulate(case.hidden_error)
    ratios = []
    for n, error in zip(case.hidden_n, reached, strict=True):
        if n < 11 * case.last and error < 0.97 * case.last_error:
            at = grid[np.argmax(errors <= error)] if (errors <= error).any() else math.inf
            ratios.append(float(np.log(at / n)))
    return [np.where(np.isfinite(away), np.minimum(away, MISSED), MISSED).tolist(), ratios]


def published(work: tuple[str, curves.NeuralCurve]) -> float:
    """Root mean square of an estimator's log error at the held-out points of a published curve."""
    name, curve = work
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        pilot = Curve(curve.pilot_n.astype(np.int64), curve.pilot_error, metric="loss")
        away = np.log(predicted(name, pilot)(curve.hidden_n) / curve.hidden_error)
    return float(np.sqrt(np.mean(np.where(np.isfinite(away), away, MISSED) ** 2)))


def ratios(work: tuple[Pair, int]) -> list[list[float]]:
    """For each target: log of said over true, and whether intervals of each width hold the true."""
    pair, last = work
    first, second = (curves.pilot_to(*curve, last) for curve in pair)
    truths = [np.minimum.accumulate(table.mean(axis=1)) for _, table in pair]
    (known_n, _), (dense_n, _) = pair
    rows = []
    for target in np.unique(truths[1][dense_n > last]):
        passed = [np.flatnonzero(truth <= target) for truth in truths]
        # Where the first size meets the target already, the true N is not known.
        if not all(len(at) and at[0] for at in passed) or known_n[passed[0][0]] < 4:
            continue
        needed = [crossed(n, truth, target) for (n, _), truth in zip(pair, truths, strict=True)]
        ranges = []
        for width in (1.0, 2.0):
            comparing.WIDER = width
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                comparison = comparing.compare(first, second, float(target))
                ranges.append(np.log(comparison.ratio_range or (math.nan, math.nan)))
        if np.isnan(ranges).any():
            continue
        # Ends of other widths lie on a line; an infinite one, or one inside the pilot, stays.
        with np.errstate(invalid="ignore"):
            steps = np.where(np.isfinite(ranges[0]), ranges[1] - ranges[0], 0.0)
        true = math.log(needed[1] / needed[0])
        ends = [ranges[0] + (width - 1) * steps for width in WIDTHS]
        held = [float(low - 1e-9 <= true <= high + 1e-9) for low, high in ends]
        rows.append([math.log(comparison.ratio) - true if comparison.ratio else math.nan, *held])
    return rows


def crossed(n: Array, truth: Array, target: float) -> float:
    """Where a falling curve passes a target, logarithm over logarithm."""
    at = int(np.argmax(truth <= target))
    logs, sizes = np.log(truth[at - 1 : at + 1]), np.log(n[at - 1 : at + 1])
    part = (logs[0] - math.log(target)) / (logs[0] - logs[1])
    return float(np.exp(sizes[0] + part * (sizes[1] - sizes[0])))


# --- The same question in other words ------------------------------------------------------------


def same(case: Case) -> dict[str, bool]:
    """Whether an answer stays with another name, unit or order; and whether copies are refused."""
    n, error, seed = case.curve.n, case.curve.error, case.curve.seed
    goal = 0.8 * case.last_error

    def answers(curve: Curve, scale: float = 1.0) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan = kr.plan(curve, goal * scale)
            errors = plan.forecast.law(case.hidden_n)
        quantiles = [errors.quantile(p) - math.log(scale) for p in (0.05, 0.5, 0.95)]
        sizes = [plan.lower, plan.upper, plan.even, plan.samples(SURE)]
        logs = [math.log(size) if size else math.inf for size in sizes]
        odds = errors.under(np.full(len(case.hidden_n), math.log(goal * scale)))
        return np.concatenate([*quantiles, logs, odds, [bool(plan.doubt)]])

    def close(one: Array, other: Array) -> bool:
        return bool(np.allclose(one, other, rtol=0, atol=1e-5))

    said = answers(case.curve)
    order = np.random.default_rng(0).permutation(len(n))
    mixed = Curve(n[order], error[order], [seed[row] for row in order])
    try:
        Curve([*n, n[0]], [*error, error[0]], [*seed, seed[0]])
        refused = False
    except kr.KoriskError:
        refused = True
    return {
        "name": all(close(answers(Curve(n, error, seed, metric=name)), said) for name in NAMES),
        "unit": all(close(answers(Curve(n, s * error, seed), s), said) for s in SCALES),
        "order": close(answers(mixed), said),
        "copy": refused,
    }


# --- The noise of a single seed ------------------------------------------------------------------


def noise() -> dict[str, float]:
    """Median over curves and sizes of the relative deviation of seeds, by database."""
    tables = {recipe: [c.table for c in curves.imaging() if c.recipe == recipe]
              for recipe in ("long", "short")}  # fmt: skip
    tables["image networks"] = [curve.table for curve in curves.image_curves().values()]
    for name in ("lcdb", "scikit-learn"):
        tables[name] = [case.curve.table for case in DATABASES[name]()]
    medians = {}
    for name, of_database in tables.items():
        spreads = [np.nanstd(t, axis=1, ddof=1) / np.nanmean(t, axis=1) for t in of_database]
        medians[name] = float(np.median(np.concatenate(spreads)))
    return medians | {"geometric mean": float(np.exp(np.mean(np.log([*medians.values()]))))}


# --- Tables --------------------------------------------------------------------------------------


def short(value: float, digits: int = 3) -> str:
    """A figure without its leading zero."""
    text = "-" if math.isnan(value) else f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def head(*cells: str) -> list[str]:
    """A blank line and the first two lines of a table."""
    return ["", *header(*cells)]


def of_scores(kept: dict[str, Any]) -> Iterator[str]:
    """Brier, CRPS and coverage of three versions."""
    tables = [kept[version]["databases"] for version in VERSIONS]
    columns = (f"{score}: {', '.join(VERSIONS)}" for score in SCORES)
    yield from head("database (pilots)", *columns, "90% bands at 2/4/8/16x, now")
    for name, row in tables[-1].items():
        cells = [", ".join(short(table[name][score]) for table in tables) for score in SCORES]
        coverage = "/".join(short(value, 2) for value in row["coverage"].values())
        yield line(f"{name} ({row['pilots']})", *cells, coverage)
    for label, summary in (("**mean**", np.mean), ("**worst**", max)):
        cells = []
        for score in SCORES:
            scores = [[row[score] for row in table.values()] for table in tables]
            cells.append(", ".join(short(float(summary(values))) for values in scores))
        yield line(label, *cells, "")


def of_sure(kept: dict[str, Any]) -> Iterator[str]:
    """How often an N is called 90% sure, and how often it was enough, of three versions."""
    tables = [kept[version]["databases"] for version in VERSIONS]

    def shares(name: str, part: str, whole: str) -> str:
        pairs = [(table[name][part], table[name][whole]) for table in tables]
        return ", ".join(short(count / of if of else math.nan, 2) for count, of in pairs)

    columns = ("an N is 90% sure", "and was enough")
    near = "enough at most 2/4/8/16x, now"
    yield from head("database", "targets", *columns, near, "true targets", *columns)
    for name, row in tables[-1].items():
        counts = row["enough by distance"].values()
        yield line(
            name,
            f"{row['targets']:,}",
            shares(name, "90% sure", "targets"),
            shares(name, "enough", "90% sure"),
            "/".join(short(right / of if of else math.nan, 2) for of, right in counts),
            f"{row['true targets']:,}",
            shares(name, "true targets, 90% sure", "true targets"),
            shares(name, "true targets, enough", "true targets, 90% sure"),
        )


def of_odds(kept: dict[str, Any]) -> Iterator[str]:
    """Said and true odds in tenths, and ratios."""
    yield ""
    for version in VERSIONS:
        odds = [f"{short(p)} → {short(true)} ({n:,})" for p, true, n in kept[version]["odds"]]
        yield f"- {version}: {', '.join(odds)}"


def of_same(kept: dict[str, Any]) -> Iterator[str]:
    """How many pilots are answered alike whatever they are called."""
    yield from head("database (pilots)", "another name", "another unit", "another order", "a copy")
    for name, row in kept["same"].items():
        stay = (f"{row[key]:,} stay" for key in ("name", "unit", "order"))
        yield line(f"{name} ({row['pilots']})", *stay, f"{row['copy']:,} refused")


def of_ratios(kept: dict[str, Any]) -> Iterator[str]:
    """Ratios of samples, dense over known networks, of three versions; and left out."""
    columns = ("left out: widened by, holds", "middle over true ratio: 0.3.0, TWO, now")
    yield from head("networks (ratios)", "interval holds: 0.3.0, TWO, now", *columns)
    rows = kept["now"]["ratios"]
    for name, row in rows.items():
        of_versions = [kept[version]["ratios"][name] for version in VERSIONS]
        holds, middles = (
            ", ".join(short(of[key], 2) for of in of_versions) for key in ("holds", "median")
        )
        width, held = left_out(rows, name)
        yield line(f"{name} ({row['ratios']})", holds, f"{width:g}, {short(held, 2)}", middles)


def left_out(rows: dict[str, dict[str, Any]], name: str) -> tuple[float, float]:
    """The least of `WIDTHS` at which 90% of all others' ratios held, and what it holds here."""
    others = [row for key, row in rows.items() if key != name]
    counts = [row["ratios"] for row in others]
    held = np.average([row["by width"] for row in others], axis=0, weights=counts)
    index = int(np.argmax(held >= min(HOLDS, held.max())))
    return WIDTHS[index], rows[name]["by width"][index]


def of_others(kept: dict[str, Any]) -> Iterator[str]:
    """The planner's median beside other estimators."""
    figures = {
        "mean error of log error": ("error", 3),
        "N within a factor of two": ("2x", 2),
        "no N within 10,000 times the pilot": ("none", 2),
    }
    for heading, (figure, digits) in figures.items():
        yield from head(heading, *DATABASES)
        for name, rows in kept["rivals"].items():
            cells = (short(row[figure], digits) for row in rows["databases"].values())
            yield line(LABELS.get(name, name), *cells)
    yield from head("published curves: RMSE of log error", "mean", "geometric mean")
    means = {
        f"{LABELS['posterior']}, {version}": kept[version]["published"] for version in VERSIONS
    }
    means |= {name: rows["neural"] for name, rows in kept["rivals"].items() if name not in LABELS}
    for name, pair in means.items():
        yield line(name, *(short(value, 4) for value in pair))


def of_search(kept: dict[str, Any]) -> Iterator[str]:
    """What is chosen with each database left out, and how it does there beside TWO."""
    tried = json.loads(SEARCHED.read_text("utf-8"))
    yield from head(f"left out, of {len(tried) - 1} priors", "the choice: Brier, CRPS over TWO", "")
    for database in DATABASES:
        name = chosen(tried, database)
        over = np.divide(tried[name][database], tried["TWO"][database])
        yield line(database, ", ".join(short(v, 2) for v in over), name)


def chosen(tried: dict[str, Any], left_out: str) -> str:
    """The best prior, by its scores over TWO's, of those no worse on any other database."""
    names, others = [*tried], [name for name in DATABASES if name != left_out]
    table = np.array([[tried[name][database] for database in others] for name in names])
    over = (table / table[names.index("TWO")]).mean(axis=2)  # (priors, databases)
    means = np.where((over <= NO_WORSE).all(axis=1), over.mean(axis=1), np.inf)
    return names[int(np.argmin(means))]


TABLES = {
    "search": of_search,
    "scores": of_scores,
    "sure": of_sure,
    "odds": of_odds,
    "same": of_same,
    "ratios": of_ratios,
    "rivals": of_others,
}


def tables(kept: dict[str, Any]) -> Iterator[str]:
    """Every table below its name, by which pages include it."""
    for name, table in TABLES.items():
        yield f"### {name}"
        yield from table(kept)
        yield ""


def record() -> dict[str, Any]:
    """How often answers of pilots held on curves that were left out, for `planner.record`."""
    kept = json.loads(KEPT.read_text("utf-8"))
    rows = [kept[as_]["databases"][at]["enough by distance"] for at, as_ in RECORDED.items()]
    counts = {factor: np.sum([row[factor] for row in rows], axis=0) for factor in rows[0]}
    of_pilots = [
        {"times": int(factor), "asked": int(asked), "held": held / asked}
        for factor, (asked, held) in counts.items()
    ]
    pairs = kept["now"]["ratios"]
    total = sum(row["ratios"] for row in pairs.values())
    held = sum(row["ratios"] * left_out(pairs, name)[1] for name, row in pairs.items()) / total
    return {"pilot": of_pilots, "ratio": [{"times": 1e99, "asked": total, "held": held}]}


# --- The command ---------------------------------------------------------------------------------


def of_version(pool: Any, names: list[str]) -> dict[str, Any]:
    """The figures of the version of korisk that is imported."""
    answers = {name: pool.map(asked, DATABASES[name](), chunksize=4) for name in names}
    result: dict[str, Any] = {}
    if answers:
        result["databases"] = {name: figures(rows) for name, rows in answers.items()}
        result["odds"] = tenths(np.concatenate([statements(rows) for rows in answers.values()]))
    if names not in ([], [*DATABASES]):
        return result
    result["ratios"], width = {}, WIDTHS.index(getattr(comparing, "WIDER", 1.0))
    for name, of_name in curves.pairs().items():
        work = [(pair, last) for pair in of_name for last in curves.PILOTS[1:]]
        rows = np.array([row for found in pool.map(ratios, work) for row in found])
        held = rows[:, 1:].mean(axis=0).tolist()
        result["ratios"][name] = {
            "ratios": len(rows),
            "holds": held[width],
            "by width": held,
            "median": float(np.exp(np.nanmedian(rows[:, 0]))),
        }
    result["published"] = of_published(pool, "posterior")
    return result


def of_published(pool: Any, name: str) -> list[float]:
    """An estimator's error on published curves: its mean and geometric mean."""
    misses = np.array(pool.map(published, [(name, curve) for curve in curves.neural()]))
    return [float(misses.mean()), float(np.exp(np.log(misses).mean()))]


def of_same_questions(pool: Any, names: list[str]) -> dict[str, Any]:
    """By database, of how many pilots the answer stays in other words."""
    result = {}
    for name in names:
        rows = pool.map(same, DATABASES[name]()[::SAME])
        result[name] = {"pilots": len(rows)} | {
            key: sum(row[key] for row in rows) for key in rows[0]
        }
    return result


def search(pool: Any, names: list[str]) -> dict[str, list[float]]:
    """Brier score and CRPS by database, of every second pilot where there are many."""
    scores = {}
    for name in names:
        pilots = DATABASES[name]()
        found = figures(pool.map(asked, pilots[:: 1 + (len(pilots) > MANY)], chunksize=4))
        scores[name] = [round(found[score], 5) for score in SCORES]
    return scores


def of_rivals(pool: Any, names: list[str]) -> dict[str, Any]:
    """Errors and N of all estimators, and their errors on published curves."""
    result = {}
    for name in ("posterior", *rivals.RIVALS):
        of_database = {}
        for database in names:
            work = [(name, case) for case in DATABASES[database]()[::EVERY]]
            away, ratio = zip(*pool.map(rival, work, chunksize=4), strict=True)
            logs = np.abs(np.concatenate(ratio))
            of_database[database] = {
                "error": float(np.mean(np.concatenate(away))),
                "2x": float((logs <= math.log(2) + 1e-9).mean()),
                "none": float(np.isinf(logs).mean()),
            }
        result[name] = {"databases": of_database, "neural": of_published(pool, name)}
    return result


def main() -> None:
    """Ask, print and keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--databases",
        default=";".join(DATABASES),
        help="with semicolons between; '' asks for ratios and published curves alone",
    )
    parser.add_argument("--prior", help="answer with another prior, a name of priors.py")
    asks = {"rivals": of_rivals, "same": of_same_questions, "search": search}
    parser.add_argument("--rivals", action="store_true", help="ask other estimators instead")
    parser.add_argument("--same", action="store_true", help="ask again with other names and units")
    parser.add_argument("--search", action="store_true", help="score priors, keep their scores")
    parser.add_argument("--save", help="keep the figures under this name")
    parser.add_argument("--tables", action="store_true", help="write tables of what is kept")
    parser.add_argument("--noise", action="store_true", help="print the deviation of seeds")
    parser.add_argument("--processes", type=int, help="default: one for each core")
    options = parser.parse_args()
    if options.search and not options.prior:
        parser.error("--search needs a --prior")
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    if options.tables:
        TEXT.write_text("\n".join(tables(kept)), "utf-8")
        return
    if options.prior:
        from benchmarks.planner import priors  # other versions have no such priors

        priors.use(options.prior)
    if options.noise:
        result: dict[str, Any] = noise()
    else:
        with multiprocessing.Pool(options.processes) as pool:
            ask = next((asks[name] for name in asks if getattr(options, name)), of_version)
            result = ask(pool, [name for name in options.databases.split(";") if name])
    print(json.dumps(result, indent=1))
    if options.search:
        found = json.loads(SEARCHED.read_text("utf-8"))
        rows = (found | {options.prior: found.get(options.prior, {}) | result}).items()
        lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows)
        SEARCHED.write_text("{" + ",\n ".join(lines) + "}\n", "utf-8")
    if options.save:
        kept[options.save] = kept.get(options.save, {}) | result
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
