"""A CT scan goes through four layers: learned weights W, then a known filter K, a known
backprojection A transposed and a ReLU, and comes out as an image. The learned layer is green and
its parameters are counted; known layers are grey and have none, only a Lipschitz constant."""

import math

from _chart import GREY, LEARNED_TEXT, arrow, box, canvas, text

import korisk as kr
from korisk.operators import FanBeam, Projector, fbp
from korisk.problems import random_ellipses

geometry = FanBeam(
    64,
    views=96,
    bins=96,
    bin_spacing=1.6,
    arc=math.radians(200),
    source_to_center=300.0,
    source_to_detector=450.0,
)
image = random_ellipses(1, seed=4, stream="gallery", fewest=5, most=5).images(64).float()[0]
scan = Projector(geometry)(image)
chain = fbp(geometry)
weighted = chain["W"](scan)
filtered = chain["K"](weighted)
made = chain["A^T"](filtered).clamp(min=0)
net = kr.Network.read("examples/ct_h128_ko.yaml")
NAMES = {"W": "W", "K": "K", "A^T": "A\N{MODIFIER LETTER CAPITAL T}, ReLU"}


def picture(axes, data, x, y, side):
    """An image around a place: grey, or red and blue where it has both signs."""
    most = float(data.abs().max())
    low, colours = (-most, "RdBu_r") if data.min() < -0.1 * most else (0, "gray")
    place = (x - side / 2, x + side / 2, y - side / 2, y + side / 2)
    axes.imshow(data.numpy(), cmap=colours, vmin=low, vmax=most, extent=place, aspect="auto")


def counted(layer):
    """What the theory counts of a layer."""
    if isinstance(layer, kr.Learned):
        return f"learned\n{layer.parameters:,} parameters"
    return f"known, \N{SCRIPT SMALL L} = {layer.bracket.upper:.3g}"


def drawn(*, narrow):
    """Across the page, or down it: scan, three layers with what each makes, and the image."""
    size = (3.6, 5.3) if narrow else (7.2, 2.3)
    figure, axes = canvas(*size)
    across, down = (0.0, -1.4) if narrow else (1.92, 0.0)
    x, y = (0.65, size[1] - 0.55) if narrow else (0.65, 1.6)
    pictures = {"": scan, "W": weighted, "K": filtered, "A^T": made}
    for at, (name, data) in enumerate(pictures.items()):
        here = x + at * across, y + at * down
        picture(axes, data, *here, 1.0)
        words = ("scan", "weighted", "filtered", "image")[at]
        aside = (here[0] + 0.65, here[1], "left") if narrow else (here[0], here[1] - 0.65, "center")
        text(axes, *aside[:2], words, color=GREY, ha=aside[2])
        if not name:
            continue
        before = here[0] - across, here[1] - down
        if narrow:
            arrow(axes, (before[0], before[1] - 0.52), (here[0], here[1] + 0.52))
            middle = (here[0] + 0.45, (here[1] + before[1]) / 2)
        else:
            arrow(axes, (before[0] + 0.52, y), (here[0] - 0.52, y))
            middle = ((here[0] + before[0]) / 2, y + 0.0)
        box(axes, *middle, 0.75, 0.34, NAMES[name], learned=name == "W")
        layer = net[name]
        place = (middle[0] + 0.46, middle[1]) if narrow else (middle[0], y - 0.98)
        side = {"ha": "left"} if narrow else {}
        colour = LEARNED_TEXT if name == "W" else GREY
        text(axes, *place, counted(layer), color=colour, fontsize=9, **side)
    axes.set(xlim=(0, size[0]), ylim=(0, size[1]))
    return figure


figure, narrow = drawn(narrow=False), drawn(narrow=True)
