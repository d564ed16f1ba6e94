"""
Motion: known or ignored
========================

An object that moves during a scan is in another pose at each view. ``Moving`` has this motion in
the forward operator: a network that knows it is a network with one more known operator, and one
that ignores it has a wrong one.
"""

# %%
# Two networks of the same scan
# -----------------------------
# The object turns by up to twelve degrees and shifts by up to four pixels in four steps, with 2% of
# noise. Nothing is learned here: filtered backprojection sums the views as they are (ignored), or
# each moved back by its true pose (known).

from pathlib import Path

import matplotlib.pyplot as plt
import torch

from korisk.problems import HANDLED, CtProblem, CtScanner, Gaussian, Handled, Motion

SIDE, SHOWN = 32, 4
AMOUNTS = [0.25, 0.5, 0.75, 1.0]  # of the whole motion
MARKS = {"ignored": ("C1", "s"), "known": ("C0", "o")}


def images(amount: float, handled: Handled) -> tuple[torch.Tensor, torch.Tensor]:
    """Test images by filtered backprojection, and the true ones."""
    shift = 4.0 * amount, -3.0 * amount
    motion = Motion(turn=12.0 * amount, shift=shift, handled=handled)
    scanner = CtScanner(side=SIDE, views=48, bins=48, beam="parallel", motion=motion)
    problem = CtProblem(scanner=scanner, noise=Gaussian(0.02))
    inputs, targets = problem.pools(seed=1, train=0, validation=0, test=32).test
    weights, tail = problem.reconstruction()
    found = weights * inputs
    for operator in tail:
        found = operator(found)
    return found, targets


pictures: dict[str, torch.Tensor] = {}
errors: dict[str, list[float]] = {handled: [] for handled in HANDLED}
for handled in HANDLED:
    for amount in AMOUNTS:
        reconstructed, true = images(amount, handled)
        errors[handled].append(float((reconstructed - true).square().mean()))
    pictures[handled] = reconstructed[SHOWN]
ratio = errors["ignored"][-1] / errors["known"][-1]

# %%
# The figure
# ----------
# Left: an image, and what comes of its scan with the whole motion. Right: errors against the amount
# of motion.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure = plt.figure(figsize=(7.0, 3.0))
grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 2.4))
shown = {"image": true[SHOWN], **{name: pictures[name] for name in MARKS}}
for place, (title, picture) in enumerate(shown.items()):
    panel = figure.add_subplot(grid[divmod(place, 2)])
    panel.imshow(picture.numpy(), vmin=0, vmax=float(true[SHOWN].max()))
    panel.set_title(title)
    panel.set_axis_off()
axes = figure.add_subplot(grid[:, 2])
for name, (colour, marker) in MARKS.items():
    shifts = [4 * amount for amount in AMOUNTS]
    axes.plot(shifts, errors[name], colour, marker=marker, label=name)
axes.set(yscale="log", xlabel="shift at the end of the scan, pixels", ylabel="mean squared error")
axes.set_title("Filtered backprojection, nothing learned")
axes.legend(title="motion")

figure.savefig("15_motion.png")
print(f"wrote 15_motion.png: ignored motion has {ratio:.0f} times the error of known motion")
