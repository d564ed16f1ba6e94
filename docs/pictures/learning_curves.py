"""Error over N of KO and FC, image sides of 8 and 128, as released and as rigorous runs: released
KO starts higher than rigorous KO, which is flat; rigorous FC falls below KO at 8 pixels."""

import json
from pathlib import Path

import numpy as np
from _chart import BLUE, RED, TYPE, chart, sizes

from korisk.report.figures.panels import ticks

found = json.loads(Path("benchmarks/results/reproduction.json").read_text())["curves"]
figure, panels = chart(height=5.0, rows=2, xscale="log", yscale="log")
for axes, side in zip(panels, (8, 128), strict=True):
    for made in (each for each in found if each["side"] == side):
        for model, colour, mark in (("KO", BLUE, "o"), ("FC", RED, "s")):
            n = sorted({row["n"] for row in made[model]})
            means = [np.mean([row["error"] for row in made[model] if row["n"] == k]) for k in n]
            line = "-" if made["protocol"] == "rigorous" else "--"
            name = f"{model}, {made['protocol']}"
            axes.plot(n, means, mark + line, color=colour, markersize=4, label=name)
    words = "mean squared error" if side == 8 else "RMSE / max"
    axes.set_title(f"{side} \N{MULTIPLICATION SIGN} {side} pixels", fontsize=TYPE, loc="left")
    axes.set_ylabel(words)
    sizes(axes, [4, 16, 64, 256, 1024])
    ticks(axes.yaxis)
axes.set_xlabel("training samples N")
panels[0].legend(fontsize=TYPE, frameon=False)
