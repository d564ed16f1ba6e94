"""Error over N of KO and FC in four problems: KO is flat or nearly so from the start, FC falls,
and passes KO within the measured sizes where its floor is the lower one."""

import json
from pathlib import Path

from _chart import BLUE, RED, TYPE, chart, sizes

from korisk.report.figures.panels import ticks

PANELS = {
    "MRI": ("mri_h32", "18 of 32 lines"),
    "advection": ("advection_diffusion", "exact viscosity"),
    "viscosity 20% wrong": ("advection_diffusion", "viscosity 20% too large"),
    "CT, 120 degrees": ("limited_angle", "fan, 120 degrees"),
}
studies = json.loads(Path("benchmarks/results/problems_h200.json").read_text())["studies"]
figure, panels = chart(height=4.6, rows=2, columns=2, xscale="log", yscale="log")
for axes, (title, (study, point)) in zip(panels, PANELS.items(), strict=True):
    means = studies[study]["points"][point]["means"]
    for model, colour, mark in (("KO", BLUE, "o-"), ("FC", RED, "s-")):
        n = [int(size) for size in means[model]]
        axes.plot(n, list(means[model].values()), mark, color=colour, markersize=4, label=model)
    axes.set_title(title, fontsize=TYPE, loc="left")
    sizes(axes, [4, 32, 256, 2048])
    ticks(axes.yaxis)
panels[0].legend(fontsize=TYPE, frameon=False)
figure.supxlabel("training samples N", fontsize=TYPE)
figure.supylabel("mean squared error", fontsize=TYPE)
