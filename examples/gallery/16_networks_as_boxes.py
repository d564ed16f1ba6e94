"""
Networks as boxes and arrows
============================

The paper's Figures 1 and 2: a network in which known and learned layers alternate, and the two
networks for CT that it compares. Both are drawn from the networks as korisk holds them, so the
number above a box is the one that the bound uses.
"""

# %%
# The networks
# ------------
# Figure 1 is a pipeline of any layers. Figure 2 has the sizes of a fan beam with 90 views and 256
# bins of a slice of 256 x 256 pixels: with known operators only the weights W are trained, and
# without them one dense matrix M.

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

import korisk as kr

SIDE, VIEWS, BINS = 256, 90, 256
rays = VIEWS * BINS
known = [kr.Known("$K$"), kr.Known("$A^T$"), kr.Known("ReLU", lipschitz=1)]
pipeline = kr.Network(
    [
        kr.Learned(r"$\hat{u}_1$"),
        kr.Known("$u_2$"),
        kr.Learned(r"$\hat{u}_3$"),
        kr.Known("$u_L$"),
    ],
    name="Figure 1: known operators in a network",
)
ko = kr.Network([kr.Learned("$W$", parameters=rays), *known], name="Figure 2: known operators (KO)")
fc = kr.Network(
    [kr.Learned("$M$", parameters=SIDE**2 * rays), known[-1]],
    name="Figure 2: one dense matrix (FC)",
)

# %%
# The figure
# ----------
# Grey boxes are known, green ones learned.

WIDTH, HEIGHT, GAP = 1.4, 0.8, 0.5  # of a box, and between two


def draw(axes: Axes, net: kr.Network, output: str, dots: int = -1) -> None:
    """Draw a chain of layers; `dots` is the arrow that stands for layers left out."""
    axes.text(0, HEIGHT / 2, "$x$", ha="right", va="center")
    arrow = {"arrowstyle": "-|>", "color": "0.2", "linewidth": 1.2, "shrinkA": 2, "shrinkB": 1}
    for place, layer in enumerate(net):
        x = GAP + place * (WIDTH + GAP)
        colour = "#d9ecd9" if layer.kind == "learned" else "#ececec"
        box = FancyBboxPatch((x, 0), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08")
        box.set(facecolor=colour, edgecolor="0.35")
        axes.add_patch(box)
        axes.text(x + WIDTH / 2, 0.62 * HEIGHT, layer.name, ha="center", va="center", size=11)
        axes.text(x + WIDTH / 2, 0.24 * HEIGHT, layer.kind, ha="center", va="center", size=8)
        if parameters := getattr(layer, "parameters", None):
            text = f"p = {parameters:,}"
            axes.text(x + WIDTH / 2, 1.12 * HEIGHT, text, ha="center", size=8.5)
        axes.annotate("", (x, HEIGHT / 2), (x - GAP, HEIGHT / 2), arrowprops=arrow)
        if place == dots:
            axes.text(x - GAP / 2, 0.56 * HEIGHT, "⋯", ha="center")
    end = len(net) * (WIDTH + GAP)
    axes.annotate("", (end + GAP, HEIGHT / 2), (end, HEIGHT / 2), arrowprops=arrow)
    axes.text(end + GAP + 0.05, HEIGHT / 2, output, va="center")
    axes.set(xlim=(-0.3, 8.9), ylim=(-0.1, 1.5 * HEIGHT), aspect="equal")
    axes.set_title(net.name)
    axes.set_axis_off()


plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, panels = plt.subplots(3, 1, figsize=(7.0, 4.3))
draw(panels[0], pipeline, r"$\hat{f}_L(x)$", dots=3)
draw(panels[1], ko, "$y$")
draw(panels[2], fc, "$y$")
figure.savefig("16_networks_as_boxes.png")

ratio = (fc.parameters or 0) / (ko.parameters or 1)
print(f"wrote 16_networks_as_boxes.png: FC learns {ratio:,.0f} = {SIDE}^2 times as many weights")
