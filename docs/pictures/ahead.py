"""Share of planned N within a factor of two of the true one, by how far beyond the pilot the
target lies: it falls with the distance on all three sets of curves."""

import re
from pathlib import Path

from _chart import BLUE, GREEN, RED, TYPE, chart

NAMES = {
    "LCDB, report": "LCDB",
    "scikit-learn:": "scikit-learn",
    "image networks": "image networks",
}
text = Path("benchmarks/results/planner.txt").read_text()
figure, (axes,) = chart(height=2.8, xscale="log", xlabel="true N over the pilot's largest N")
for (head, name), colour, mark in zip(NAMES.items(), (BLUE, RED, GREEN), "os^", strict=True):
    row = re.search(rf"^{head}.*\n.*\nposterior +(.*)", text, re.MULTILINE)
    shares = [float(cell) for cell in row[1].split()[3:6]]
    axes.plot([2, 4, 8], shares, f"{mark}-", color=colour, label=name)
axes.set(ylabel="within a factor of 2", ylim=(0, 1.02), xlim=(1.8, 9))
axes.set_xticks([2, 4, 8], ["2", "4", "8"])
axes.minorticks_off()
axes.legend(fontsize=TYPE, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 1))
