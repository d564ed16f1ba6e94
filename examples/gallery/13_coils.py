"""
MRI with several coils
======================

A scanner that leaves out lines of k-space is faster, and a single coil cannot tell what they held.
Several coils around the body each see the image through a sensitivity of their own. Where these are
known, the lines that were taken tell what the others held: parallel imaging.
"""

# %%
# The same lines, with and without coils
# --------------------------------------
# Ten of 24 lines, 2% of noise. With one coil the known inverse puts zeros where nothing was
# measured; with several it is the regularised inverse of ``Sense``.

from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from korisk.operators import birdcage_sensitivities
from korisk.problems import Gaussian, MriProblem

SIDE, SHOWN, FEW = 24, 2, 10
LINES = [6, 8, 10, 12, 16, 20, 24]
COILS = {None: "one coil", 2: "2 coils", 4: "4 coils", 8: "8 coils"}


@cache
def images(lines: int, coils: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Test images by the known inverse alone, and the true ones."""
    problem = MriProblem(side=SIDE, lines=lines, coils=coils, noise=Gaussian(0.02))
    inputs, targets = problem.pools(seed=1, train=0, validation=0, test=32).test
    weights, (inverse,) = problem.reconstruction()
    return inverse(weights * inputs), targets


errors: dict[int | None, list[float]] = {coils: [] for coils in COILS}
for coils, found in errors.items():
    for lines in LINES:
        made, true = images(lines, coils)
        found.append(float((made - true).square().mean()))
gain = errors[None][LINES.index(FEW)] / errors[4][LINES.index(FEW)]

# %%
# The figure
# ----------
# Above: how strongly each of four coils sees a pixel. Below: an image, and what is made of ten
# lines of it. Right: more coils allow fewer lines.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure = plt.figure(figsize=(7.0, 3.0))
grid = figure.add_gridspec(2, 6, width_ratios=(1, 1, 1, 1, 0.1, 3.0))
maps = birdcage_sensitivities((SIDE, SIDE), 4).square().sum(-1).sqrt()
truth = images(FEW, None)[1][SHOWN]
panels = [(f"coil {number}", picture, 1.0) for number, picture in enumerate(maps, 1)]
panels.append(("image", truth, float(truth.max())))
panels += [
    (COILS[coils], images(FEW, coils)[0][SHOWN], float(truth.max())) for coils in (None, 2, 4)
]
for place, (title, picture, top) in enumerate(panels):
    panel = figure.add_subplot(grid[divmod(place, 4)])
    panel.imshow(picture.numpy(), vmin=0, vmax=top)
    panel.set_title(title)
    panel.set_axis_off()
axes = figure.add_subplot(grid[:, 5])
for (coils, label), marker in zip(COILS.items(), "osD^", strict=True):
    axes.plot(LINES, errors[coils], marker=marker, label=label)
axes.set(yscale="log", xlabel=f"lines of {SIDE} that are taken", ylabel="mean squared error")
axes.set_xticks(LINES, [str(lines) for lines in LINES])
axes.minorticks_off()
axes.set_title("Known inverse, nothing learned")
axes.legend()

figure.savefig("13_coils.png")
print(f"wrote 13_coils.png: at {FEW} lines, four coils have {gain:.0f} times less error than one")
