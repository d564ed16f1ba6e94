"""
Filtered backprojection as a network
====================================

A CT image is reconstructed in three linear steps: rays are weighted, every view is filtered, and
what is left is smeared back over the image. Each step is a layer. Two of them follow from geometry
alone and need no training; only the weights are worth learning.
"""

# %%
# The scanner
# -----------
# A fan beam with a flat detector that turns by 200 degrees. That is more than half a turn, so some
# rays are measured twice and some once; the weights make up for it. Distances are in millimetres.

import math
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from korisk.operators import FanBeam, Projector, fbp
from korisk.problems import random_ellipses

SIDE = 80

geometry = FanBeam(
    SIDE,
    views=128,
    bins=128,
    bin_spacing=1.6,
    arc=math.radians(200),
    source_to_center=300.0,
    source_to_detector=450.0,
)
image = random_ellipses(1, seed=4, stream="gallery", fewest=5, most=5).images(SIDE).float()[0]
sinogram = Projector(geometry)(image)

# %%
# Layer by layer
# --------------
# ``fbp`` is a chain whose layers have names. With ``trainable=True`` the weights W would be
# parameters, and this chain with a ReLU behind it is the network that the paper trains.

network = fbp(geometry)
weighted = network["W"](sinogram)
filtered = network["K"](weighted)
reconstruction = network["A^T"](filtered)
error = float((reconstruction - image).norm() / image.norm())

# %%
# The figure
# ----------
# Sinograms have one row for each view. The weights fade out where a ray comes a second time, the
# filter makes edges of everything, and the backprojection turns these edges into an image.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
plt.rcParams["axes.grid"] = False
figure, axes = plt.subplots(2, 3, figsize=(7.0, 4.3))
top, high = float(image.max()), float(filtered.abs().max())
pictures = [
    ("image x", image, "gray", 0.0, top),
    ("measured, y = A x (mm)", sinogram, "gray", 0.0, None),
    ("weights of rays, W", network["W"].weights, "viridis", 0.0, 1.0),
    ("weighted, W y (mm)", weighted, "gray", 0.0, None),
    ("filtered, K W y", filtered, "RdBu_r", -high, high),
    ("backprojected, $A^T$K W y", reconstruction, "gray", 0.0, top),
]
for panel, (title, values, colours, low, most) in zip(axes.flat, pictures, strict=True):
    drawn = panel.imshow(values.numpy(), cmap=colours, vmin=low, vmax=most)
    bar = figure.colorbar(drawn, ax=panel, fraction=0.046, pad=0.04)
    bar.locator = MaxNLocator(4)
    is_image = values.shape == image.shape
    panel.set(xlabel="column" if is_image else "bin", ylabel="row" if is_image else "view")
    panel.set_title(title)
    panel.locator_params(nbins=4)
    panel.spines[["top", "right"]].set_visible(True)

figure.savefig("02_fbp_as_a_network.png")
print(f"wrote 02_fbp_as_a_network.png: relative error {error:.3f}")
