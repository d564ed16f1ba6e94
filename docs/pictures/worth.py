"""Error over N of FBP and a U-Net on ellipses: lowest with the known backprojection, nearly the
same with one that is 1% wrong, far higher with one that is 20% wrong; a dense layer that learns
it begins highest and ends where the 20% wrong one does."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from _chart import BLUE, GREEN, PURPLE, RED, TYPE, chart, sizes

ARMS = {"dense": RED, "20% wrong": PURPLE, "1% wrong": GREEN, "known": BLUE}
found = defaultdict(list)
for row in csv.DictReader(Path("benchmarks/results/worth.csv").read_text().splitlines()):
    if (row["problem"], row["network"], row["images"]) == ("ct", "inverse-unet", "ellipses"):
        found[row["arm"], int(row["n"])].append(float(row["error"]))
figure, (axes,) = chart(xscale="log", yscale="log", xlabel="training samples N")
for (arm, colour), marker in zip(ARMS.items(), "s^Do", strict=True):
    n = sorted(size for name, size in found if name == arm)
    means = [np.mean(found[arm, size]) for size in n]
    axes.plot(n, means, f"{marker}-", color=colour, markersize=4, label=arm)
axes.set(ylabel="mean squared error", xlim=(7, 2500))
axes.set_yticks([3e-4, 1e-3, 3e-3, 1e-2, 3e-2], ["0.0003", "0.001", "0.003", "0.01", "0.03"])
sizes(axes, [8, 32, 128, 512, 2048])
axes.legend(fontsize=TYPE, frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
