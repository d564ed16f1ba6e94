"""
A calibration, and how it fails
===============================

The paper calibrates its bound with a pilot: the lowest error that was measured is taken for the
floor, and a line in log N / N is laid through the rest. Then no target below the best pilot error
can ever be reached, whatever the data say. Here a pilot is cut short, and what came next is the
judge.
"""

# %%
# A pilot of which the end is hidden
# ----------------------------------
# Errors of a dense network on CT images, as the paper's authors released them. The first four
# sizes are the pilot, the last two are kept back.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import korisk as kr

here = Path(__file__).parent
whole = kr.Curve.read(here.parent / "pilot_h128.csv", model="FC")
pilot = kr.Curve(whole.n[:4], whole.error[:4], model="FC", metric="rRMSE")
rest = slice(4, None)

# %%
# The paper's line and the planner
# --------------------------------
# The line levels off where the pilot ended. The planner weighs all curves that fit the pilot by
# how well they do, and says how sure it is. For a target just below the pilot's best error, the
# line says that it cannot be reached. The planner says what to do, and gives the N with even odds
# and the interval; with four sizes and one seed it cannot rule out a floor, so the interval has no
# upper end.

target = 0.06
line = kr.calibrate(pilot)
try:
    line.samples(target)
except kr.errors.UnreachableError as error:
    print(f"paper: {error}")
plan = kr.plan(pilot, target)
advice = plan.recommend()
print(f"planner: {advice} {advice.odds}")

# %%
# The figure
# ----------
# Filled points are the pilot, open ones are what came next. The line misses these, and the target
# that it refuses was met. The planner's band contains them; it is wide because four sizes say
# little. Inside the pilot the planner follows the measured means.

plt.style.use(here / "gallery.mplstyle")
figure, axes = plt.subplots()
n = np.unique(np.geomspace(4, 4096, 80).astype(int))
expected = [plan.forecast.at(int(size)) for size in n]
axes.fill_between(
    n, [e.lower for e in expected], [e.upper for e in expected], color="C0", alpha=0.2, linewidth=0
)
axes.plot(n, [e.value for e in expected], color="C0", label="planner, with its 90% band")
axes.plot(n, [line.predict(size) for size in n], color="C1", linestyle="--", label="paper's line")
axes.plot(pilot.sizes, pilot.means, "o", color="black", label="pilot", zorder=4)
axes.plot(
    *(whole.sizes[rest], whole.means[rest], "o"),
    color="black",
    markerfacecolor="white",
    markersize=6.5,
    label="measured later",
    zorder=4,
)
axes.axhline(target, color="0.35", linewidth=1)
axes.text(4, target * 0.985, "target, refused by the paper's line", va="top", color="0.35")
axes.axvline(pilot.sizes[-1], color="0.35", linewidth=0.6)
axes.set(xscale="log", yscale="log", xlabel="training images N", ylabel="relative RMSE")
axes.set_xticks(whole.sizes, [str(size) for size in whole.sizes])
axes.set_yticks([0.04, 0.06, 0.1, 0.2], ["0.04", "0.06", "0.1", "0.2"])
axes.minorticks_off()
axes.set_title("FC at 128 \u00d7 128 pixels: a pilot up to N = 256, and what came next")
axes.legend(loc="upper right")

off = line.predict(2048) / whole.means[-1] - 1
figure.savefig("05_calibration_and_its_failure.png")
print(
    f"wrote 05_calibration_and_its_failure.png: the paper's line is {off:.0%} too high at N = 2048"
)
