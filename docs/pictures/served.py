"""A table goes into the page of korisk serve, in the browser; a process on the same machine plans
it, and the page with N, its chance and the curve comes back."""

from _chart import DARK, GREY, arrow, box, canvas, text
from matplotlib.patches import FancyBboxPatch

figure, axes = canvas(height=2.2)
frame = FancyBboxPatch(
    (0.15, 0.2),
    *(4.9, 1.65),
    boxstyle="round,pad=0,rounding_size=0.1",
    facecolor="none",
    edgecolor=GREY,
    linestyle="--",
)
axes.add_patch(frame)
text(axes, 2.6, 2.03, "this machine, 127.0.0.1", color=GREY)
box(axes, 0.9, 1.0, 1.15, 0.85, "table\nn, error,\nseed, model")
box(axes, 2.6, 1.0, 1.15, 0.6, "korisk\nserve")
box(axes, 4.3, 1.0, 1.15, 0.85, "page\nN, chance,\ncurve")
arrow(axes, (1.48, 1.0), (2.02, 1.0))
arrow(axes, (3.18, 1.0), (3.72, 1.0))
text(axes, 1.75, 1.22, "drop", color=GREY)
text(axes, 2.6, 0.45, "asks where the table is not clear", color=DARK)
