"""An image of ellipses; its differences down and across, light and dark at edges; and what the
adjoint makes of the two: edges of all directions in one image."""

import numpy as np
from _chart import TYPE, chart

from korisk.problems import random_ellipses

u = random_ellipses(1, seed=4, stream="gallery", fewest=5, most=5).images(48).numpy()[0]
down, across = (np.roll(u, -1, axis) - u for axis in (0, 1))
back = np.roll(down, 1, 0) - down + np.roll(across, 1, 1) - across
figure, panels = chart(height=5.0, rows=2, columns=2)
pictures = {"u": u, "(D u)\N{SUBSCRIPT ZERO}, down": down}
pictures |= {"(D u)\N{SUBSCRIPT ONE}, across": across, "D\N{MODIFIER LETTER CAPITAL T} D u": back}
for axes, (title, image) in zip(panels, pictures.items(), strict=True):
    most = abs(image).max()
    low, colours = (0, "gray") if image is u else (-most, "RdBu_r")
    axes.imshow(image, cmap=colours, vmin=low, vmax=most)
    axes.set_title(title, fontsize=TYPE)
    axes.axis("off")
