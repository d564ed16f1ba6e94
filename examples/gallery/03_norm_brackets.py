"""
Norms with two ends
===================

A bound on a network's error needs to know how far each layer stretches distances: its operator
norm. Iterations find such a norm from below only. korisk gives two ends, one that is never too
large and one that is never too small, and they close as more work is allowed.
"""

# %%
# Two layers, and both at once
# ----------------------------
# K filters and A^T backprojects. An error in front of them passes through both. The paper
# multiplies the two norms. That is safe and far from tight: what K lets through most, fine detail,
# is what A^T damps most. So the norm of the product is the one to use.

from pathlib import Path

import matplotlib.pyplot as plt

from korisk.operators import ParallelBeam, fbp

WIDTHS = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005]

network = fbp(ParallelBeam(48, views=45, bins=48))
K, back = network["K"], network["A^T"]
product = back @ K

# %%
# Closing in
# ----------
# ``width`` is how far apart the ends may be, relative to the norm. A random start of Lanczos'
# iteration gives the lower end, and a theorem about random starts the upper one: it fails with a
# probability below one in a million. The norm of K is exact, and that of A^T certified, with no
# chance in it.

brackets = [product.norm(width=width) for width in WIDTHS]
separate = [(K.norm(width=width), back.norm(width=width)) for width in WIDTHS]
for width, bracket in zip(WIDTHS, brackets, strict=True):
    print(f"width {width:5}: {bracket.lower:.4f} to {bracket.upper:.4f}  {bracket.how}")

# %%
# The figure
# ----------
# Both scales are logarithmic. The gap between the two brackets is what a bound gains when it knows
# that two layers follow each other.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, axes = plt.subplots()
lower, upper = [each.lower for each in brackets], [each.upper for each in brackets]
low = [one.lower * two.lower for one, two in separate]
high = [one.upper * two.upper for one, two in separate]
names = [r"$\|A^T\| \, \|K\|$, the product of norms", r"$\|A^T K\|$, the norm of the product"]
for start, end, name, colour in ((low, high, names[0], "C1"), (lower, upper, names[1], "C0")):
    axes.fill_between(WIDTHS, start, end, color=colour, alpha=0.2, linewidth=0)
    axes.plot(WIDTHS, start, color=colour, marker="^", markersize=4, linewidth=1)
    axes.plot(WIDTHS, end, color=colour, marker="v", markersize=4, linewidth=1, label=name)
looser = high[-1] / upper[-1]
middle = (low[-1] * upper[-1]) ** 0.5
axes.annotate(
    "", (0.0056, high[-1]), (0.0056, upper[-1]), arrowprops={"arrowstyle": "<->", "color": "0.3"}
)
axes.text(0.006, middle, f"{looser:.1f} times", va="center", ha="right", color="0.3")
axes.set(xscale="log", yscale="log", xlabel="asked width of the bracket, relative to the norm")
axes.set(ylabel="operator norm", xlim=(0.6, 0.0045))
axes.set_xticks(WIDTHS, [f"{width:g}" for width in WIDTHS])
axes.minorticks_off()
axes.set_yticks([0.3, 0.5, 1, 2], ["0.3", "0.5", "1", "2"])
axes.set_title("Brackets close as iterations go on; triangles point to the norm")
axes.legend(loc="center left", bbox_to_anchor=(0.02, 0.5))

figure.savefig("03_norm_brackets.png")
print(f"wrote 03_norm_brackets.png: the product of norms is {looser:.1f} times too large")
