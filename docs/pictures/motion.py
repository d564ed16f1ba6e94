"""Error over N of a U-Net behind a known inverse, in CT and MRI, on heads and on real slices: alike
where the motion is known and where it is estimated, and higher at every N where it is ignored."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from _chart import BLUE, GREEN, RED, TYPE, chart, sizes

from korisk.report.figures.panels import ticks

STEPS = "3000"
MARKS = {"ignored": (RED, "s", 4), "estimated": (GREEN, "D", 8), "known": (BLUE, "o", 4)}
errors = defaultdict(list)
for row in csv.DictReader(Path("benchmarks/results/motion.csv").read_text().splitlines()):
    if row["steps"] == STEPS:
        key = row["scan"], row["images"], row["motion"], int(row["n"])
        errors[key].append(float(row["mse"]))
groups = list(dict.fromkeys(key[:2] for key in errors))
figure, panels = chart(height=5.0, rows=2, columns=2, xscale="log", yscale="log")
for axes, group in zip(panels, sorted(groups), strict=True):
    for motion, (colour, marker, size) in MARKS.items():
        n = sorted(key[3] for key in errors if key[:3] == (*group, motion))
        means = [np.mean(errors[*group, motion, count]) for count in n]
        look = {"color": colour, "marker": marker, "markersize": size, "label": motion}
        axes.plot(n, means, **look)
    axes.set_title(", ".join(group), fontsize=TYPE, loc="left")
    sizes(axes, [4, 16, 64, 256])
    ticks(axes.yaxis)
for axes in panels[::2]:
    axes.set_ylabel("mean squared error")
for axes in panels[2:]:
    axes.set_xlabel("training samples N")
figure.legend(
    *panels[0].get_legend_handles_labels(),
    fontsize=TYPE,
    frameon=False,
    ncols=3,
    loc="outside upper center",
)
