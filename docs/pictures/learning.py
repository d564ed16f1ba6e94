"""Error over N of the known operator and of the dense matrix at six points of CT, with the errors
before training as lines: the known operator starts low and stays near there, but where gains are
wrong, which its weights learn from few samples; the dense matrix starts high, falls, and passes."""

from pathlib import Path

from _chart import BLUE, GREEN, PURPLE, RED, TYPE, chart, sizes

from benchmarks.paper.learning import kept_errors
from korisk.report.figures.panels import ticks

LOOKS = {
    "KO": (BLUE, "o-"),
    "FC": (RED, "s-"),
    "KO + U-Net": (GREEN, "D-"),
    "FC + U-Net": (PURPLE, "^-"),
}
points = kept_errors(Path("benchmarks/results/learning.csv"))
figure, panels = chart(height=6.6, rows=3, columns=2, xscale="log", yscale="log")
for axes, (title, models) in zip(panels, points.items(), strict=True):
    for model, (n, errors) in models.items():
        colour, mark = LOOKS[model]
        means = errors.mean(1)
        axes.plot(n[1:], means[1:], mark, color=colour, markersize=3.5, label=model)
        axes.axhline(means[0], color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_title(title, fontsize=TYPE, loc="left")
    sizes(axes, [1, 8, 64, 512])
    ticks(axes.yaxis)
handles, names = panels[0].get_legend_handles_labels()
figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=TYPE, frameon=False)
figure.supxlabel("training samples N (dashed: before training)", fontsize=TYPE)
figure.supylabel("mean squared error", fontsize=TYPE)
