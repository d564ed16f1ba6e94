"""For seven kinds of networks, the measured error and the three bounds on it, medians with ranges
on a logarithmic scale: no bound lies below its error, the composed one is nearest, the paper's is
highest, for the learned primal-dual by fifteen powers of ten."""

import json
from pathlib import Path

import numpy as np
from _chart import BLUE, PURPLE, RED, TYPE, chart, powers

kept = json.loads(Path("benchmarks/results/theorem.json").read_text())["networks"]
found = [each for each in kept if each["test"] == "trained"]
kinds = sorted({each["network"] for each in found})
marks = {"error": ("black", "o"), "composed": (PURPLE, "D"), "minkowski": (BLUE, "^")}
marks["paper"] = (RED, "s")
figure, (axes,) = chart(height=3.6, xscale="log", xlabel="squared error, and bounds on it")
for row, kind in enumerate(kinds):
    for name, (colour, marker) in marks.items():
        rows = [each for each in found if each["network"] == kind]
        values = [each["error"] if name == "error" else each["bounds"][name] for each in rows]
        low, middle, high = np.quantile(values, (0, 0.5, 1))
        axes.plot([low, high], [row, row], color=colour, linewidth=1)
        label = name if row == 0 else None
        axes.plot(middle, row, marker, color=colour, markersize=5.5, label=label)
powers(axes, range(-3, 13, 3))
axes.set_yticks(range(len(kinds)), kinds)
axes.legend(fontsize=TYPE, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.4, 1.0))
