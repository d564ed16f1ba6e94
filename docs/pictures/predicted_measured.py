"""Predicted over measured mean squared error on simulated images, for the structured layer KO and
the dense layer FC: the points follow the diagonal."""

import json
from pathlib import Path

import numpy as np
from _chart import BLUE, GREY, RED, TYPE, chart

from korisk.report.figures.panels import ticks

ratios = json.loads(Path("benchmarks/results/predict.json").read_text())["ratios"]
studies = json.loads(Path("benchmarks/results/predict_measured.json").read_text())["studies"]
figure, (axes,) = chart(height=4.0, xscale="log", yscale="log")
for model, colour, marker in (("FC", RED, "s"), ("KO", BLUE, "o")):
    pairs = [
        (
            measured := np.mean(studies[each["study"]][each["point"]][model][str(n)]),
            ratio * measured,
        )
        for each in ratios
        if each["model"] == model and each["images"] == 64
        for n, ratio in zip(each["n"], each["ratio"], strict=True)
        if (each["valid_from"] or 0) <= n <= (each["valid_to"] or np.inf)
    ]
    name = f"{model}, {len(pairs)} errors"
    style = {"color": colour, "markersize": 4, "alpha": 0.6, "markeredgewidth": 0}
    axes.plot(*np.transpose(pairs), marker, label=name, **style)
ends = axes.get_xlim()
axes.plot(ends, ends, color=GREY, linewidth=1, zorder=1)
axes.set(xlabel="measured", ylabel="predicted from 64 images", xlim=ends, ylim=ends)
ticks(axes.xaxis)
ticks(axes.yaxis)
axes.legend(fontsize=TYPE, frameon=False)
