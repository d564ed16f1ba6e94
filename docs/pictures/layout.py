"""The packages of korisk in thirteen layers, from the command line at the top to store and theory
at the bottom; imports go downwards, and the lowest three layers need NumPy and SciPy alone."""

from _chart import GREY, arrow, box, canvas, text

LAYERS = [
    ["cli"],
    ["paper"],
    ["report"],
    ["ablation"],
    ["pilots", "prediction"],
    ["studies"],
    ["problems"],
    ["images", "fitting"],
    ["networks"],
    ["operators"],
    ["planning"],
    ["curves"],
    ["store", "theory"],
]
STEP, CORE = 0.47, 3
figure, axes = canvas(height=STEP * len(LAYERS))
for row, names in enumerate(LAYERS):
    y = STEP * (len(LAYERS) - row - 0.5)
    for place, name in enumerate(names):
        box(axes, 1.7 + 1.5 * (place - (len(names) - 1) / 2), y, 1.35, 0.32, name)
    if row:
        arrow(axes, (1.7, y + STEP - 0.16), (1.7, y + 0.16))
axes.axhline(CORE * STEP, color=GREY, linewidth=0.8, linestyle=":")
text(axes, 4.3, (CORE - 0.5) * STEP, "NumPy and SciPy", color=GREY)
text(axes, 4.3, (CORE + 0.5) * STEP, "PyTorch and extras", color=GREY)
