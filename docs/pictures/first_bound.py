"""The bound of the tutorial's network over N in three forms: the paper's highest, Minkowski's
eight times lower, the composed one another 50 times lower; each falls to a floor that data do not
lower."""

from dataclasses import replace

import numpy as np
from _chart import BLUE, PURPLE, RED, TYPE, chart

import korisk as kr

net = replace(kr.Network.read("examples/ct_h128_ko.yaml"), calibrated=None)  # the same constants
n = np.geomspace(2, 2**13, 80)
figure, (axes,) = chart(xscale="log", yscale="log", xlabel="training samples N", ylabel="bound")
for form, colour in {"paper": RED, "minkowski": BLUE, "composed": PURPLE}.items():
    bounds = [kr.barron_bound(net, size, bound=form) for size in n]
    axes.plot(n, [each.total for each in bounds], color=colour)
    axes.axhline(bounds[0].floor, color=colour, linestyle=":", linewidth=1)
    axes.text(n[-1], 1.25 * bounds[-1].total, form, color=colour, ha="right", fontsize=TYPE)
axes.set_xticks([2, 10, 100, 1000, 8192], ["2", "10", "100", "1,000", "8,192"])
axes.set_yticks([1e-3, 1e-2, 1e-1, 1], ["0.001", "0.01", "0.1", "1"])
axes.minorticks_off()
