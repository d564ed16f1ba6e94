"""Error over N of two networks with a target: KO, with known operators, has even odds at N = 19;
FC, which learns everything, at N = 106, beyond the pilot; bars are 90% ranges of N."""

import numpy as np
from _chart import BLUE, GREY, RED, TYPE, chart, sizes

import korisk as kr

figure, (axes,) = chart(xscale="log", yscale="log", xlabel="training samples N", ylabel="error")
n = np.geomspace(4, 400, 60)
for model, colour, mark, at in (("KO", BLUE, "o", 0.0012), ("FC", RED, "s", 0.02)):
    plan = kr.plan(kr.Curve.read("examples/pilot_h8.csv", model=model), target=0.003)
    band = (plan.forecast.quantile(n, p) for p in (0.05, 0.95))
    axes.fill_between(n, *band, color=colour, alpha=0.18, linewidth=0)
    beyond = n > plan.forecast.last
    for part, line in ((~beyond, "-"), (beyond, "--")):
        axes.plot(n[part], plan.forecast.quantile(n[part], 0.5), line, color=colour)
    axes.plot(plan.curve.sizes, plan.curve.means, mark, color=colour, markersize=4.5)
    axes.plot([plan.lower, plan.upper], [plan.target] * 2, color=colour, linewidth=3, alpha=0.6)
    axes.plot(plan.even, plan.target, "D", color=colour, markersize=8)
    words = f"{model}: 50% sure at {plan.even}\n(90% range {plan.lower:.0f} to {plan.upper:.0f})"
    axes.text(plan.even, at, words, color=colour, ha="center", va="center", fontsize=TYPE)
axes.axhline(plan.target, color=GREY, linewidth=1)
axes.text(4, 0.00285, "target", color=GREY, va="top", fontsize=TYPE)
axes.set(ylim=(8e-4, 0.045))
axes.set_yticks([0.001, 0.003, 0.01, 0.03], ["0.001", "0.003", "0.01", "0.03"])
sizes(axes, [4, 8, 16, 32, 64, 128, 256])
