"""The floor of each network at five image sizes from four origins: the released files and our run
of the released code coincide where both exist, the printed table differs from them up to 32
pixels, and our rigorous run differs from all."""

import json
from pathlib import Path

from _chart import BLUE, GREEN, PURPLE, RED, TYPE, chart

MARKS = {
    "paper": (RED, "s", 8),
    "released": (PURPLE, "o", 9),
    "ours, released": (BLUE, "x", 6),
    "ours, rigorous": (GREEN, "^", 6),
}
found = json.loads(Path("benchmarks/results/reproduction.json").read_text())["calibration"]
figure, (axes,) = chart(height=4.0, xscale="log", xlabel="floor of the calibrated curve")
for row, each in enumerate(found):
    for origin, (colour, marker, size) in MARKS.items():
        made = each["origins"].get(origin)
        if made:
            fill = "none" if marker == "o" else colour
            label = origin if row == 0 else None
            axes.plot(made["floor"], row, marker, color=colour, mfc=fill, ms=size, label=label)
axes.set_yticks(range(len(found)), [f"H = {each['side']}, {each['model']}" for each in found])
axes.set_xticks([1e-3, 3e-3, 1e-2], ["0.001", "0.003", "0.01"])
axes.minorticks_off()
axes.legend(fontsize=TYPE, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.4, 1))
