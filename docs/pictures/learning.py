"""Error over N at six points of CT, with the errors before training as lines. Alone, the known
operator stays near its start, but where gains are wrong, and the dense matrix passes it; with a
U-Net behind it, it falls by more than a factor of ten and stays ahead of every dense network."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from _chart import BLUE, GREEN, PURPLE, RED, TYPE, chart, sizes

from korisk.report.figures.panels import ticks

LOOKS = {
    "KO": (BLUE, "o-"),
    "FC": (RED, "s-"),
    "KO + U-Net": (GREEN, "D-"),
    "FC + U-Net": (PURPLE, "^-"),
}
# Of every network the run that is best on validation images: (validation, test) by size and seed.
best: dict[tuple[str, str], dict[tuple[int, str], tuple[float, float]]] = defaultdict(dict)
for row in csv.DictReader(Path("benchmarks/data/learning.csv").read_text().splitlines()):
    cells, cell = best[row["point"], row["model"]], (int(row["n"]), row["seed"])
    errors = float(row["validation"]), float(row["mse"])
    cells[cell] = min(cells.get(cell, errors), errors)
points: dict[str, dict[str, tuple[list[int], list[float]]]] = defaultdict(dict)
for (point, model), cells in best.items():
    seeds = defaultdict(list)
    for (n, seed), (_, error) in sorted(cells.items()):
        if seed != "tuning":
            seeds[n].append(error)
    points[point][model] = list(seeds), [float(np.mean(values)) for values in seeds.values()]
figure, panels = chart(height=6.6, rows=3, columns=2, xscale="log", yscale="log")
for axes, (title, models) in zip(panels, points.items(), strict=True):
    for model, (colour, mark) in LOOKS.items():
        n, means = models[model]
        axes.plot(n[1:], means[1:], mark, color=colour, markersize=3.5, label=model)
        axes.axhline(means[0], color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_title(title, fontsize=TYPE, loc="left")
    sizes(axes, [1, 8, 64, 512])
    ticks(axes.yaxis)
handles, names = panels[0].get_legend_handles_labels()
figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=TYPE, frameon=False)
figure.supxlabel("training samples N (dashed: before training)", fontsize=TYPE)
figure.supylabel("mean squared error", fontsize=TYPE)
