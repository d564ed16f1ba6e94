"""The 90% interval of N for one target, after three, four, five and six measured sizes: open above
at first, then it closes around the N that the target takes in truth."""

import numpy as np
from _chart import BLUE, GREY, TYPE, chart

import korisk as kr

SIZES, SEEDS, TARGET = [8, 16, 32, 64, 128, 256], range(5), 0.07
TOP = 600  # N up to which it is drawn
TRUTH = (0.5 / (TARGET - 0.02)) ** 2


def error(n, seed):
    """0.02 + 0.5 / sqrt(N), with 3% of noise."""
    noise = np.random.default_rng([n, seed]).standard_normal()
    return (0.02 + 0.5 * n**-0.5) * np.exp(0.03 * noise)


figure, (axes,) = chart(height=2.8, yscale="log", ylabel="N to reach the target")
for count in range(3, len(SIZES) + 1):
    cells = [(n, error(n, seed), seed) for n in SIZES[:count] for seed in SEEDS]
    plan = kr.plan(kr.Curve(*zip(*cells, strict=True)), TARGET)
    ends = plan.lower, min(plan.upper, TOP)
    axes.plot([count] * 2, ends, color=BLUE, linewidth=6, alpha=0.35, solid_capstyle="butt")
    axes.plot(count, plan.middle, "o", color=BLUE, ms=7)
    if plan.upper > TOP:
        axes.plot(count, TOP, "^", color=BLUE, ms=8, clip_on=False)
axes.axhline(TRUTH, color=GREY, linewidth=1)
axes.text(6.4, TRUTH * 1.12, "truth", ha="right", fontsize=TYPE, color=GREY)
axes.set(xlim=(2.5, 6.5), ylim=(50, TOP), xlabel="sizes measured so far")
axes.set_xticks(range(3, 7))
axes.minorticks_off()
axes.set_yticks([60, 100, 200, 400], ["60", "100", "200", "400"])
