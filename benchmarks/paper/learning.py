"""A study in which the known operator has something to learn, counted from N = 0.

    korisk run examples/learning.yaml --out build/learning
    python -m benchmarks.paper.learning build/learning   # keeps results/learning.csv
    python -m benchmarks.paper.learning                  # what results/learning.txt keeps

Five points of 32 x 32 pixels: few views, part of the angles, noise. KO has weights in front of
filtered backprojection, which start as the analytic ones, FC a dense matrix; both are fitted in
closed form, lambda chosen on other images. For KO's error untrained, with 4 and with 64 samples:
the N at which FC has it too, with a 90% interval over resampled seeds.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.networks.saved import Array, saved, text
from korisk.store.store import Store, store_path

KEPT = Path(__file__).parents[1] / "results" / "learning.csv"
WITH = (0, 4, 64)
COLUMNS = ("point", "model", "n", "seed", "mse")


def keep(folder: Path) -> None:
    """The errors of a run, as a file."""
    with Store.read(store_path(folder)) as store:
        rows = [
            (each.task.point, each.row.model, each.row.n, each.task.seed, each.row.metrics["mse"])
            for each in store.rows()
        ]
    with KEPT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(sorted((*row[:4], f"{row[4]:.6g}") for row in rows))


def kept_errors() -> dict[str, dict[str, tuple[Array, Array]]]:
    """Sizes, and errors (sizes, seeds), of both models at every point."""
    errors: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    with KEPT.open(newline="") as file:
        for row in csv.DictReader(file):
            errors[row["point"]][row["model"]][int(row["n"])].append(float(row["mse"]))
    return {
        point: {
            model: (np.array(sorted(by_n), float), np.array([by_n[n] for n in sorted(by_n)]))
            for model, by_n in models.items()
        }
        for point, models in errors.items()
    }


def tables() -> Iterator[str]:
    """What was learned, and what FC needs for it."""
    curves, samples = [], []
    for point, models in kept_errors().items():
        known, dense = models["KO"], models["FC"]
        means = dict(zip(known[0].astype(int).tolist(), known[1].mean(1).tolist(), strict=True))
        last = max(means)
        values = [means[n] for n in (*WITH, last)]
        gained = 1 - values[-1] / values[0]
        cells = [f"{value:.3g}" for value in (*values, dense[1][-1].mean())]
        curves.append([point, *cells, f"{gained:.0%}"])
        largest = float(dense[0][-1])
        samples.append([point, *(text(saved(known, dense, n, largest), largest) for n in WITH)])
    yield "### Errors\n"
    heads = ["", "KO, N = 0", *(f"KO, {n}" for n in WITH[1:]), f"KO, {last:,}", f"FC, {last:,}"]
    yield tabulate(curves, [*heads, "training lowers KO's by"], "pipe", disable_numparse=True)
    yield "\n### Samples\n"
    heads = ["", "as KO untrained", *(f"as KO with {n}" for n in WITH[1:])]
    yield tabulate(samples, heads, "pipe", disable_numparse=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]))
    print("\n".join(tables()))
