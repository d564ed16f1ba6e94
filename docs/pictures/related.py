"""Error over N, planned twice from a pilot up to N = 64: alone, with a wide 90% band, and with a
simulated curve beside it, with a narrower one; errors measured later lie in both bands."""

import csv
from pathlib import Path

import numpy as np
from _chart import BLUE, GREEN, GREY, TYPE, chart, sizes

import korisk as kr

rows = list(csv.DictReader(Path("benchmarks/data/image_networks.csv").read_text().splitlines()))


def curve(population):
    """What was measured on one kind of images."""
    found = [
        row
        for row in rows
        if (row["network"], row["population"]) == ("ct-fbp-unet-long", population)
    ]
    columns = zip(
        *((int(row["n"]), float(row["error"]), row["seed"]) for row in found), strict=True
    )
    return kr.Curve(*columns)


whole, simulated = curve("mnist"), curve("ellipses")
small = whole.n <= 64
pilot = kr.Curve(whole.n[small], whole.error[small], whole.seed[: small.sum()])
plan = kr.plan(pilot, 0.00045, related=[simulated])
n = np.geomspace(4, 4096, 60)
figure, panels = chart(height=5.0, rows=2, xscale="log", yscale="log", ylabel="mean squared error")
alone = kr.plan(pilot, plan.target)
for axes, answer in zip(panels, (alone, plan), strict=True):
    band = (answer.forecast.quantile(n, p) for p in (0.05, 0.95))
    axes.fill_between(n, *band, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(n, answer.forecast.quantile(n, 0.5), color=BLUE)
    axes.plot(whole.sizes, whole.means, "o", color=BLUE, mfc="white", ms=5, label="measured later")
    axes.plot(answer.curve.sizes, answer.curve.means, "o", color=BLUE, ms=5, label="pilot")
    axes.axhline(plan.target, color=GREY, linewidth=1)
    name = "with the simulated curve" if answer is plan else "the pilot alone"
    words = f"{name}: 50% sure at {answer.even}"
    axes.set_title(words, fontsize=TYPE, loc="left")
    axes.set(ylim=(8e-5, 2.5e-3))
    axes.set_yticks([1e-4, 3e-4, 1e-3], ["0.0001", "0.0003", "0.001"])
    sizes(axes, [4, 16, 64, 256, 1024, 4096])
axes.plot(simulated.sizes, simulated.means, "^", color=GREEN, ms=4, label="simulated")
axes.legend(fontsize=TYPE, frameon=False)
axes.set_xlabel("training samples N")
