"""
The bound of a network
======================

A network is a chain of layers. Some are learned and err; some are known and do not. What a layer
gets wrong is stretched by everything behind it, and the bound adds that up. There are three ways
to do so, and they differ by more than a factor of a hundred.
"""

# %%
# A network from a file
# ---------------------
# CT at 128 x 128 pixels: learned weights W, the known filter K, the known backprojection A^T and a
# ReLU. The file states how far each layer stretches distances, and what is assumed of the learned
# one.

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import korisk as kr

here = Path(__file__).parent
net = kr.Network.read(here.parent / "ct_h128_ko.yaml")
for layer in net.layers[1:]:
    print(f"{layer.name:5} is {layer.kind} and stretches by at most {layer.bracket.upper:.4g}")

# %%
# Three bounds
# ------------
# All are proved, and here all have the same C and kappa. (Calibrated with a pilot, each has its
# own, and all are the same line.) *Paper* splits a sum of squares once for every layer, and pays a
# factor of two each time. *Minkowski* adds roots instead and pays nothing. *Composed* also knows
# that K and A^T follow each other, and that together they stretch much less than one after the
# other could. ``amplification`` is the factor from a layer's squared error to the bound.

BOUNDS: tuple[kr.theory.BoundForm, ...] = ("paper", "minkowski", "composed")
net = replace(net, calibrated=None)  # constants of the layer, whatever the form
sizes = np.geomspace(16, 2**16, 60)
amplification = {form: net.amplification(form) for form in BOUNDS}
bounds = {form: [kr.barron_bound(net, n, bound=form).total for n in sizes] for form in BOUNDS}
floors = {form: kr.barron_bound(net, 64, bound=form).floor for form in BOUNDS}

# %%
# The figure
# ----------
# On the left, how far an error of each layer grows on its way out. Only W errs here, but the
# others would matter as soon as they are only approximately known. On the right, what follows for
# the error at N training images; the dotted floors are what no data removes.

plt.style.use(here / "gallery.mplstyle")
figure, (left, right) = plt.subplots(1, 2, width_ratios=(1, 1.25))
looks = {"paper": ("C1", "s"), "minkowski": ("C0", "^"), "composed": ("C6", "o")}
places = np.arange(len(net))
for shift, form in zip((-0.2, 0.0, 0.2), BOUNDS, strict=True):
    colour, marker = looks[form]
    left.plot(places + shift, amplification[form], marker, color=colour)
    right.plot(sizes, bounds[form], color=colour)
    right.text(sizes[-1], 1.15 * floors[form], form, color=colour, ha="right", va="bottom")
    right.plot(sizes[[0, -1]], [floors[form]] * 2, color=colour, linestyle=":", linewidth=1)
    right.plot(sizes[::10], bounds[form][::10], marker, color=colour)
left.set_xticks(places, ["W\nlearned", "K\nknown", "$A^T$\nknown", "ReLU\nknown"])
left.set(yscale="log", title="How far a layer's error grows")
left.set_ylabel("factor on the squared error")
left.grid(axis="x", visible=False)
right.set(xscale="log", yscale="log", title="Bound on the network's error")
right.set(xlabel="training images N", ylabel="squared error, bound")

looser = bounds["paper"][0] / bounds["composed"][0]
figure.savefig("01_bound_of_a_network.png")
print(f"wrote 01_bound_of_a_network.png: the paper's form is {looser:.0f} times the composed one")
