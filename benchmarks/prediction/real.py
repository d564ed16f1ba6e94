"""KO and FC rehearsed from a few real images, judged on learning curves that were measured.

    python -m benchmarks.prediction.real judge --images DIR --json FILE [--populations a b]
        [--points par16 fan32] [--examples 256 64] [--curves FILE.csv] [--seeds 3]
    python -m benchmarks.prediction.real tables FILE

DIR has NAME.npz (or NAME_32.npz) of benchmarks/prediction/real_images.py, which also measures
curves; those of ten populations are in data/real_curves.csv. Examples are images that no measured
fit has seen: two sets each. Deviations are means of |log(expected / measured)| over all N up to 16
times the examples, and a factor is the geometric mean of expected over measured error beyond the
examples. Constants of rehearsals were chosen on other networks (benchmarks/prediction/rehearse.py).
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.markdown import table
from benchmarks.prediction.real_images import CHOOSE, POINTS, REPORT
from benchmarks.rows import read
from korisk.planning.recommend import TAIL
from korisk.prediction.rehearsal.simulation import Training
from korisk.prediction.study import Request, rehearse_study
from korisk.studies import Study

CURVES = Path(__file__).parents[1] / "data/real_curves.csv"
SIZES = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
DRAWS, BEYOND = 2, 16
Record = dict[str, Any]


def measured(path: Path, populations: Sequence[str], points: Sequence[str]) -> dict[Any, Any]:
    """Mean errors over seeds by population and point, then model and N."""
    errors: dict[Any, Any] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in read(path):
        if row["population"] in populations and row["point"].split()[0] in points:
            key = row["population"], row["point"]
            errors[key][row["model"]][int(row["n"])].append(float(row["mse"]))
    return {
        key: {
            model: {n: statistics.fmean(v) for n, v in sizes.items()} for model, sizes in m.items()
        }
        for key, m in errors.items()
    }


def judged(
    images: np.ndarray, population: str, point: str, curves: dict[str, Any], seeds: int
) -> Iterator[Record]:
    """Both models rehearsed from some images, beside what was measured."""
    kind, noise = point.rstrip("%").split()
    problem, values = POINTS[kind]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "images.npy"
        np.save(path, images)
        given = {"images": {"path": str(path), "patients": "image"}}
        content = {
            "name": population,
            "problem": problem | given | {"noise": {"gaussian": int(noise) / 100}},
            "points": [values | {"name": point}],
            "models": {"KO": {"relu": False, "refine": 0}, "FC": {"relu": False}},
        }
        start = time.process_time()
        arguments = {"sizes": SIZES, "seeds": seeds, "training": Training(examples=len(images))}
        (made,) = rehearse_study(
            Study(content, ran=True), Request(examples=len(images)), options=lambda _: arguments
        )
        seconds = time.process_time() - start
    for prediction in made.forecasts:
        truth = curves[prediction.model]
        n = np.array([size for size in truth if size <= BEYOND * len(images)], float)
        law = prediction.law(n)
        lower, expected, upper = (np.exp(law.quantile(p)).tolist() for p in (TAIL, 0.5, 1 - TAIL))
        yield {
            "population": population,
            "point": point,
            "model": prediction.model,
            "images": len(images),
            "n": n.tolist(),
            "measured": [truth[int(size)] for size in n],
            "lower": lower,
            "expected": expected,
            "upper": upper,
            "seconds": seconds,
        }


def judge(options: argparse.Namespace) -> list[Record]:
    """All records of the populations whose images are there."""
    records: list[Record] = []
    truth = measured(options.curves, options.populations, options.points)
    for (population, point), curves in truth.items():
        files = [options.images / f"{population}{end}.npz" for end in ("", "_32")]
        file = next((path for path in files if path.exists()), None)
        if file is None:
            continue
        with np.load(file) as arrays:
            every = arrays["examples"]
        for count in options.examples:
            order = np.random.default_rng(0).permutation(len(every))
            for draw in range(DRAWS):
                chosen = every[order[draw * count : (draw + 1) * count]]
                records += judged(chosen, population, point, curves, options.seeds)
        print(population, point, file=sys.stderr, flush=True)
    return records


def rows(records: Sequence[Record]) -> Iterator[list[str]]:
    """The table's rows: by model and number of images, over all and by population."""
    for model in ("FC", "KO"):
        for count in sorted({record["images"] for record in records}, reverse=True):
            for name in (None, *dict.fromkeys(record["population"] for record in records)):
                some = [
                    record
                    for record in records
                    if (record["model"], record["images"]) == (model, count)
                    and name in (None, record["population"])
                ]
                if not some:
                    continue
                deviations, factors, inside, beyond = [], [], [], []
                for record in some:
                    n, truth = np.array(record["n"]), np.array(record["measured"])
                    off = np.log(np.array(record["expected"]) / truth)
                    held = (record["lower"] <= truth) & (truth <= record["upper"])
                    deviations.append(math.exp(np.abs(off).mean()) - 1)
                    inside += held.tolist()
                    if (later := n > count).any():
                        factors.append(math.exp(off[later].mean()))
                        beyond += held[later].tolist()
                yield [
                    *(model, str(count), name or "all", str(len(some))),
                    f"{statistics.median(deviations):.1%}",
                    f"{max(deviations):.1%}",
                    f"{statistics.geometric_mean(factors):.2f} "
                    f"({min(factors):.2f} to {max(factors):.2f})",
                    *(f"{statistics.fmean(held):.2f}" for held in (inside, beyond)),
                ]


def tables(records: Sequence[Record]) -> str:
    """A Markdown table."""
    heads = ["model", "images", "population", "curves", "median off", "worst", "factor beyond"]
    return table([*rows(records)], [*heads, "bands hold", "beyond"])


def main() -> None:
    """Judge or print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("judge", "tables"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--curves", type=Path, default=CURVES)
    parser.add_argument("--populations", nargs="+", default=(*CHOOSE, *REPORT))
    parser.add_argument("--points", nargs="+", default=POINTS, choices=POINTS)
    parser.add_argument("--examples", type=int, nargs="+", default=(256, 64))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "tables":
        print(tables(json.loads(options.file.read_text())))
        return
    records = judge(options)
    if options.json is not None:
        options.json.write_text(json.dumps(records, separators=(",", ":")) + "\n")
    print(tables(records))


if __name__ == "__main__":
    main()
