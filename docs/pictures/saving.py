"""Error over N of the known operator with a U-Net behind it and of the best dense network: CT with
a wrong geometry, and with the right one. An arrow leads from the dense network with its most
samples to those with which the known operator has the same error."""

from _chart import BLUE, DARK, RED, TYPE, chart, sizes

from benchmarks.networks.saved import matched
from benchmarks.paper.learning import best_dense, errors_of, kept_cells
from korisk.report.figures.panels import ticks

DATA = "benchmarks/data/learning.csv"  # named here, so that it is drawn anew when this changes
figure, panels = chart(height=2.7, columns=2, xscale="log", yscale="log")
points = kept_cells()
for axes, point in zip(panels, ("geometry wrong", "CT"), strict=True):
    known = errors_of(points[point]["KO + U-Net"])
    dense = errors_of(best_dense(points[point]))
    looks = (known, BLUE, "o-", "known operator + U-Net"), (dense, RED, "s-", "best dense network")
    for (n, errors), colour, mark, label in looks:
        n, errors = n[n > 0], errors[n > 0]
        axes.plot(n, errors.mean(1), mark, color=colour, markersize=3.5, label=label)
        ends = errors.min(1), errors.max(1)
        axes.fill_between(n, *ends, color=colour, alpha=0.15, linewidth=0)
    few, end = matched(known, dense).n, dense[1][-1].mean()
    arrow = {"arrowstyle": "-|>", "color": DARK, "shrinkA": 4, "shrinkB": 0}
    axes.annotate("", (few, end), (dense[0][-1], end), arrowprops=arrow)
    place = {"textcoords": "offset points", "ha": "right", "fontsize": TYPE}
    axes.annotate(f"{few:.0f}", (few, end), (-2, -10), **place)
    axes.set_title(point, fontsize=TYPE, loc="left")
    sizes(axes, [4, 64, 1024])
    ticks(axes.yaxis)
figure.legend(
    *panels[0].get_legend_handles_labels(),
    loc="outside upper center",
    ncols=2,
    fontsize=TYPE,
    frameon=False,
)
figure.supxlabel("training samples N", fontsize=TYPE)
figure.supylabel("mean squared error", fontsize=TYPE)
