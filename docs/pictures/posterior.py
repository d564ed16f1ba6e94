"""Error over N: the pilot's means up to N = 64, the expected curve beyond with its 50% and 90%
bands, the target line; and below it the chance that N samples are enough."""

import numpy as np
from _chart import GREY, RED, TYPE, chart, sizes

import korisk as kr

curve = kr.Curve.read("examples/pilot_h8.csv", model="FC")
plan = kr.plan(curve, target=0.003)
n = np.geomspace(curve.sizes[0], 1024, 60)
figure, (top, bottom) = chart(height=4.4, rows=2, xscale="log")
bottom.sharex(top)
for level, shade in ((0.9, 0.18), (0.5, 0.3)):
    ends = [plan.forecast.quantile(n, (1 + side * level) / 2) for side in (-1, 1)]
    top.fill_between(n, *ends, color=RED, alpha=shade, linewidth=0, label=f"{level:.0%} band")
top.plot(n, plan.forecast.quantile(n, 0.5), color=RED)
top.plot(curve.sizes, curve.means, "s", color=RED, markersize=4.5, label="measured")
top.axhline(plan.target, color=GREY, linewidth=1)
top.set(yscale="log", ylabel="error of FC", ylim=(4e-4, 0.04))
top.set_yticks([0.001, 0.003, 0.01, 0.03], ["0.001", "0.003", "0.01", "0.03"])
top.minorticks_off()
top.legend(fontsize=TYPE, frameon=False)
bottom.plot(n, [plan.probability(int(size)) for size in n], color=RED)
for p, words in ((0.5, "50% sure"), (0.9, "90% sure")):
    place = plan.samples(p), p
    bottom.plot(*place, "D", color=RED)
    words = f"{words}: N = {place[0]}"
    bottom.annotate(words, place, (8, -12), textcoords="offset points", fontsize=TYPE)
bottom.set(xlabel="training samples N", ylabel="chance", ylim=(-0.03, 1.03))
sizes(bottom, [4, 16, 64, 256, 1024])
top.tick_params(labelbottom=False)
