"""Error over N at six points of CT, with the errors before training as lines. Alone, the known
operator stays near its start, but where gains are wrong, and the dense matrix passes it; with a
U-Net behind it, it falls by more than a factor of ten and stays ahead of the best dense network,
which comes closer."""

from _chart import BLUE, GREEN, PURPLE, RED, TYPE, chart, sizes

from benchmarks.paper.learning import POINTS, errors_of, kept_cells
from korisk.report.figures.panels import ticks

DATA = "benchmarks/data/learning.csv"  # named here, so that it is drawn anew when this changes
LOOKS = {
    "KO": (BLUE, "o-"),
    "FC": (RED, "s-"),
    "KO + U-Net": (GREEN, "D-"),
    "left-out FC + U-Net": (PURPLE, "^-"),
}
figure, panels = chart(height=6.6, rows=3, columns=2, xscale="log", yscale="log")
cells = kept_cells()
for axes, title in zip(panels, POINTS, strict=True):
    for model, (colour, mark) in LOOKS.items():
        n, errors = errors_of(cells[title][model])
        means, trained = errors.mean(1), n > 0
        axes.plot(n[trained], means[trained], mark, color=colour, markersize=3.5, label=model)
        if not trained[0]:
            axes.axhline(means[0], color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_title(title, fontsize=TYPE, loc="left")
    sizes(axes, [1, 8, 64, 512])
    ticks(axes.yaxis)
handles, names = panels[0].get_legend_handles_labels()
figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=TYPE, frameon=False)
figure.supxlabel("training samples N (dashed: before training)", fontsize=TYPE)
figure.supylabel("mean squared error", fontsize=TYPE)
