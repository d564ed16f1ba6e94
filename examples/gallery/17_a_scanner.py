"""
A scanner from above
====================

Where source, object and detector are in a fan beam, read off the geometry itself: ``rays`` gives a
point and a direction for every ray, in millimetres. One detector sees the whole object, the other
is too short.
"""

# %%
# Two detectors
# -------------
# The short one misses the rim of the disc in the image. korisk warns of it, and ``truncation`` is
# the share that is missed.

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from korisk.operators import FanBeam


def scan(bins: int) -> FanBeam:
    """A fan beam of 64 x 64 pixels with that many bins."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the object that the short one cuts off
        return FanBeam(64, views=40, bins=bins, source_to_center=120.0, source_to_detector=200.0)


scanners = [scan(120), scan(70)]

# %%
# The figure
# ----------
# Dots are the source at every view. The shaded fan and the bar, the detector, are the first view's.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, panels = plt.subplots(1, 2, figsize=(7.0, 4.2), sharey=True)
for axes, geometry in zip(panels, scanners, strict=True):
    angles, radius = geometry.angle_array, geometry.source_to_center
    axes.plot(-radius * np.sin(angles), radius * np.cos(angles), ".", color="0.6")
    source = np.array([-np.sin(angles[0]), np.cos(angles[0])]) * radius
    axes.plot(*source, "o", color="C1")
    points, directions = (values[0] for values in geometry.rays())  # of the first view
    # Follow each ray from the source to the detector, which is flat.
    along = -np.array([-np.sin(angles[0]), np.cos(angles[0])])
    reach = geometry.source_to_detector / np.abs(directions @ along)
    toward = directions * np.sign(directions @ along)[:, None]
    ends = source + reach[:, None] * toward
    for end in ends[np.linspace(0, len(ends) - 1, 10, dtype=int)]:
        axes.plot(*np.transpose([source, end]), color="C1", linewidth=0.6)
    axes.fill(*np.transpose([source, ends[0], ends[-1]]), color="C1", alpha=0.12)
    axes.plot(*ends[[0, -1]].T, color="black", linewidth=3, solid_capstyle="butt")
    height, width = geometry.image_size
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]) / 2
    axes.plot(*(corners * (width, height)).T, color="0.2", linewidth=1)
    circle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(width / 2 * np.cos(circle), height / 2 * np.sin(circle), "--", color="C0")
    axes.set(aspect="equal", ylim=(135, -135), xlabel="x in mm")
    axes.set_title(f"{geometry.bins} bins: misses {geometry.truncation:.1%} of the disc")
panels[0].set_ylabel("y in mm, down as in an image")
figure.savefig("17_a_scanner.png")

share = scanners[1].truncation
print(f"wrote 17_a_scanner.png: the short detector misses {share:.1%} of the disc")
