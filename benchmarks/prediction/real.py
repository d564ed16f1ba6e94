"""Predictions from a few real images, judged on learning curves that were measured.

    python -m benchmarks.prediction.real judge --images DIR --part report --json FILE [--workers 16]
    python -m benchmarks.prediction.real score FILE      # beliefs, on the part to choose on
    python -m benchmarks.prediction.real tables FILE [FILE]  # an earlier judgement beside it

DIR has the populations of benchmarks/prediction/real_images.py; curves are in data/real_curves.csv.
Examples are images that no measured fit has seen: two sets each of 256, 64, 32 and 16. Constants
were chosen on the populations `CHOOSE` alone. The others had been looked at once before the last
change of the estimator (one standard error of a rehearsal instead of a constant), which was chosen
on `CHOOSE` and on ellipses of 128 pixels. Deviations are means of |log(expected / measured)| over
all N up to 16 times the examples; a factor is the geometric mean of expected over measured error
beyond the examples; sample sizes are asked for the error that was measured at 2 to 16 times the
examples.
"""

import argparse
import csv
import json
import math
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.prediction.real_images import CHOOSE, POINTS, REPORT
from korisk.planning.compare import first_above
from korisk.prediction.api import dense_prediction, known_prediction
from korisk.prediction.misfit import BELIEF, NOTHING_MEASURED, Belief, LogErrors, Misfit
from korisk.prediction.pair import PredictedPair
from korisk.studies import Study
from korisk.studies.spec.study import problem_of

CURVES = Path(__file__).parents[1] / "data/real_curves.csv"
IMAGES = (256, 64, 32, 16)
DRAWS = 2
AHEAD = (2, 4, 8, 16)
Record = dict[str, Any]


def measured(populations: Sequence[str]) -> dict[tuple[str, str], dict[str, dict[int, float]]]:
    """Mean errors over seeds by population and point, then model and N."""
    found: dict[Any, Any] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    with CURVES.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["population"] in populations:
                key = row["population"], row["point"]
                found[key][row["model"]][int(row["n"])].append(float(row["mse"]))
    return {
        key: {model: {n: float(np.mean(v)) for n, v in sizes.items()} for model, sizes in m.items()}
        for key, m in found.items()
    }


def judged(folder: Path, case: tuple[str, str, dict[str, dict[int, float]]]) -> list[Record]:
    """All predictions of one population at one point, beside what was measured."""
    population, point, curves = case
    kind, noise = point.rstrip("%").split()
    problem, values = POINTS[kind]
    with np.load(folder / f"{population}.npz") as file:
        every = file["examples"]
    records = []
    for count in IMAGES:
        for draw in range(DRAWS):
            order = np.random.default_rng(draw if count < 256 else 0).permutation(len(every))
            first = draw * count if count == 256 else 0
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch) / "images.npy"
                np.save(path, every[order[first : first + count]])
                given = {"path": str(path), "patients": "image"}
                content = {
                    "name": population,
                    "problem": problem | {"images": given, "noise": {"gaussian": int(noise) / 100}},
                    "points": [values | {"name": point}],
                    "models": {"KO": {"relu": False, "refine": 0}, "FC": {"relu": False}},
                    "seeds": [1],
                    "sizes": [4],
                }
                spec = Study(content, ran=True).tasks[0].spec
                made = problem_of(spec)
                examples = made.examples(seed=draw, count=count)
            toward = spec["models"]["KO"]["toward"]
            known = known_prediction(examples, made.reconstruction(), toward=toward)
            dense = dense_prediction(examples, relu=False)
            shared = {"population": population, "point": point, "images": count, "draw": draw}
            for prediction in (known, dense):
                sizes = curves[prediction.model]
                n = np.array([each for each in sizes if each <= 16 * count], dtype=float)
                lower, upper = prediction.band(n)
                checks = prediction.rehearsal
                asked = [
                    {"ahead": ahead, **prediction.plan(sizes[ahead * count]).to_dict()}
                    for ahead in AHEAD
                    if ahead * count in sizes
                ]
                computed = prediction.computed(checks.n).tolist() if len(checks) else []
                records.append(
                    {
                        **shared,
                        "model": prediction.model,
                        "n": n.tolist(),
                        "measured": [sizes[int(each)] for each in n],
                        "computed": prediction.computed(n).tolist(),
                        "expected": prediction.errors(n).tolist(),
                        "lower": lower.tolist(),
                        "upper": upper.tolist(),
                        "level": prediction.level,
                        "rehearsed": {
                            "n": checks.n.tolist(),
                            "log_error": checks.log_error.tolist(),
                            "variance": checks.variance.tolist(),
                            "computed": computed,
                        },
                        "samples": asked,
                    }
                )
            crossover = PredictedPair(known, dense).crossover
            n = np.array(sorted(curves["FC"]), dtype=float)
            ahead_at = [curves["KO"][int(each)] / curves["FC"][int(each)] for each in n]
            records[-1]["crossover"] = {
                "predicted": None if crossover is None else crossover.n,
                "lower": None if crossover is None else crossover.lower,
                "upper": None if crossover is None else crossover.upper,
                "measured": _finite(first_above(n, np.array(ahead_at), 1.0)),
                "last": float(n[-1]),
            }
    print(population, point, file=sys.stderr, flush=True)
    return records


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def judge(folder: Path, part: str, workers: int) -> list[Record]:
    """All records of a part."""
    populations = CHOOSE if part == "choose" else REPORT
    there = [name for name in populations if (folder / f"{name}.npz").exists()]
    cases = [(*key, curves) for key, curves in measured(there).items()]
    os.environ["OMP_NUM_THREADS"] = "1"
    with get_context("spawn").Pool(workers) as pool:
        found = pool.map(partial(judged, folder), cases, chunksize=1)
    return [record for records in found for record in records]


# --- What it says --------------------------------------------------------------------------------


def score(records: Sequence[Record], belief: Belief) -> tuple[float, float, float]:
    """Mean log density of the measured errors under a belief; cover of its bands; width beyond."""
    from scipy.stats import norm

    densities, covered, widths = [], [], []
    for record in records:
        n = np.array(record["n"])
        away = np.log(np.array(record["measured"]) / np.array(record["computed"]))
        seen = record["rehearsed"]
        logs = np.array(seen["log_error"]) - np.log(np.array(seen["computed"]))
        checks = NOTHING_MEASURED
        if len(logs):
            checks = LogErrors(np.array(seen["n"]), logs, np.array(seen["variance"]))
        examples = record["images"]
        misfit = Misfit(checks, NOTHING_MEASURED, record["level"], belief, examples=examples)
        weights, means, deviations = misfit.moments(n)
        density = weights @ norm.pdf(away, means, np.hypot(deviations, 0.02))
        law = misfit.law(n)
        low, high = law.quantile(0.05), law.quantile(0.95)
        densities += np.log(density).tolist()
        covered += ((away >= low) & (away <= high)).tolist()
        widths += (high - low)[n > record["images"]].tolist()
    return float(np.mean(densities)), float(np.mean(covered)), float(np.mean(widths))


def summary(records: Sequence[Record]) -> Record:
    """Deviations, factors and covers of some records of one model."""
    deviations, factors, covered, beyond = [], [], [], []
    for record in records:
        n = np.array(record["n"])
        off = np.log(np.array(record["expected"]) / np.array(record["measured"]))
        inside = (np.array(record["lower"]) <= record["measured"]) & (
            np.array(record["upper"]) >= record["measured"]
        )
        deviations.append(float(np.exp(np.abs(off).mean()) - 1))
        later = n > record["images"]
        if later.any():
            factors.append(float(np.exp(off[later].mean())))
            beyond += inside[later].tolist()
        covered += inside.tolist()
    sizes: Record = {}
    for ahead in AHEAD:
        asked = [
            (each, ahead * record["images"])
            for record in records
            for each in record["samples"]
            if each["ahead"] == ahead
        ]
        if not asked:
            continue
        even = [(each["samples"]["0.5"], n) for each, n in asked]
        near = [size is not None and 0.5 <= size / n <= 2 for size, n in even]
        ends = [(e["lower"] or math.inf, e["upper"] or math.inf, n) for e, n in asked]
        held = [lower <= n <= upper for lower, upper, n in ends]
        sizes[str(ahead)] = {"within 2x": np.mean(near), "held": np.mean(held), "asked": len(asked)}
    return {
        "curves": len(records),
        "median": float(np.median(deviations)),
        "worst": max(deviations),
        "factors": [min(factors, default=1.0), max(factors, default=1.0)],
        "factor": float(np.exp(np.mean(np.log(factors)))) if factors else 1.0,
        "cover": float(np.mean(covered)),
        "cover beyond": float(np.mean(beyond)) if beyond else math.nan,
        "sizes": sizes,
    }


def rows(records: Sequence[Record]) -> Iterator[list[str]]:
    """The table's rows: by model and number of images, over all and by population."""
    names = list(dict.fromkeys(record["population"] for record in records))
    for model in ("FC", "KO"):
        for count in IMAGES:
            for name in (None, *names):
                some = [
                    record
                    for record in records
                    if (record["model"], record["images"]) == (model, count)
                    and name in (None, record["population"])
                ]
                if not some or (name is not None and model == "KO"):
                    continue
                made = summary(some)
                low, high = made["factors"]
                shares = "/".join(
                    f"{100 * made['sizes'][str(a)]['within 2x']:.0f}"
                    if str(a) in made["sizes"]
                    else "-"
                    for a in AHEAD
                )
                held = [each["held"] for each in made["sizes"].values()]
                yield [
                    model,
                    str(count),
                    name or "all",
                    str(made["curves"]),
                    f"{made['median']:.1%}",
                    f"{made['worst']:.1%}",
                    f"{made['factor']:.2f} ({low:.2f} to {high:.2f})",
                    f"{made['cover']:.2f}",
                    f"{made['cover beyond']:.2f}",
                    shares,
                    f"{np.mean(held):.2f}" if held else "-",
                ]


def crossovers(records: Sequence[Record]) -> str:
    """How near predicted crossovers are to the measured ones."""
    both, lost, extra, held = [], 0, 0, []
    for record in records:
        found = record.get("crossover")
        if found is None:
            continue
        if found["measured"] is None or found["predicted"] is None:
            lost += found["measured"] is not None
            extra += found["predicted"] is not None and found["predicted"] < found["last"] / 2
            continue
        both.append(abs(math.log(found["predicted"] / found["measured"])))
        upper = math.inf if found["upper"] is None else found["upper"]
        held.append(found["lower"] <= found["measured"] <= upper)
    near = np.mean(np.array(both) <= math.log(1.5)) if both else math.nan
    return (
        f"Crossovers: {len(both)} predicted and measured, {near:.2f} within 1.5x, "
        f"{np.mean(held):.2f} in their 90% intervals; {lost} measured alone, {extra} predicted "
        "alone."
    )


def tables(records: Sequence[Record]) -> str:
    """A Markdown table, and the crossovers."""
    heads = ["model", "images", "population", "curves", "median off", "worst", "factor beyond"]
    heads += ["cover", "beyond", "% of N within 2x at 2/4/8/16x", "held"]
    lines = [heads, ["---"] * len(heads), *rows(records)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    for count in IMAGES:
        text += f"\n\n{count} images. " + crossovers([r for r in records if r["images"] == count])
    return text


def main() -> None:
    """Judge, score or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("judge", "score", "tables"))
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--part", choices=("choose", "report"), default="report")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.what == "judge":
        found = judge(options.images, options.part, options.workers)
        options.json.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        return
    for file in options.files:
        records = json.loads(file.read_text())
        if options.what == "tables":
            print(tables(records))
            continue
        for count in IMAGES:
            some = [r for r in records if r["model"] == "FC" and r["images"] == count]
            print(
                count,
                "images: score {:.3f}, cover {:.2f}, width {:.2f}".format(*score(some, BELIEF)),
            )


if __name__ == "__main__":
    main()
