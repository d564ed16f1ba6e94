"""How often an N called 90% sure was enough, by how far beyond the pilot it lies: less often at a
distance, least for networks whose training was cut short."""

import json
from pathlib import Path

from _chart import BLUE, GREEN, RED, TYPE, chart

NAMES = {"imaging, long": "imaging, long", "imaging, short": "short trainings", "lcdb": "LCDB"}
kept = json.loads(Path("benchmarks/results/planner.json").read_text())["now"]["databases"]
figure, (axes,) = chart(height=2.8, xscale="log", xlabel="N over the pilot's largest N, at most")
for (key, name), colour, mark in zip(NAMES.items(), (BLUE, RED, GREEN), "os^", strict=True):
    counts = [kept[key]["enough by distance"][factor] for factor in ("2", "4", "8")]
    shares = [right / count for count, right in counts]
    axes.plot([2, 4, 8], shares, f"{mark}-", color=colour, label=name)
axes.set(ylabel="was enough", ylim=(0, 1.02), xlim=(1.8, 9))
axes.set_xticks([2, 4, 8], ["2", "4", "8"])
axes.minorticks_off()
axes.legend(fontsize=TYPE, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 1))
