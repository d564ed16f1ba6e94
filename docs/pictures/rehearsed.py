"""How far rehearsed errors are off, by network: at most 16% in the median from 64 examples of
clothing and photographs, and up to a factor of 4.5 where ellipses stand in for the examples."""

import re
from pathlib import Path

from _chart import BLUE, GREEN, RED, TYPE, chart

text = Path("benchmarks/results/rehearse.txt").read_text()
found = re.findall(r"^report (ct-[\w-]+) +(\d+) +([\d.]+)", text, re.MULTILINE)
networks = list(dict.fromkeys(name for name, *_ in found))
looks = {"0": ("s", RED, "ellipses instead"), "64": ("^", GREEN, "64 examples")}
looks["256"] = ("o", BLUE, "256 examples")
figure, (axes,) = chart(height=3.0, xscale="log", xlabel="median |log(predicted / measured)|")
for count, (marker, colour, name) in looks.items():
    off = {network: float(value) for network, examples, value in found if examples == count}
    axes.plot([off[each] for each in networks], networks, marker, color=colour, label=name)
axes.set_xticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
axes.minorticks_off()
axes.legend(fontsize=TYPE, frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
axes.legend_.set_in_layout(True)
