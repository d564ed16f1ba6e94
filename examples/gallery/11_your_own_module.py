"""
Your own module
===============

A network that is written in PyTorch need not be described by hand. ``kr.describe`` runs it once,
finds its layers, and says of each whether it is learned, how far it stretches distances, and how
that is known.
"""

# %%
# A module
# --------
# Learned weights, the known filter and backprojection, and two small convolutions that clean up.
# The operators of korisk are modules, so they stand beside those of PyTorch.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor, nn

import korisk as kr
from korisk.operators import ParallelBeam, fbp

geometry = ParallelBeam(24, views=30, bins=36)


class Reconstruction(nn.Module):
    """Sinograms (batch, views, bins) to images (batch, 1, rows, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.fbp = fbp(geometry, trainable=True)
        self.first = nn.Conv2d(1, 6, 3, padding=1)
        self.last = nn.Conv2d(6, 1, 3, padding=1)

    def forward(self, sinogram: Tensor) -> Tensor:
        """The image, backprojected and cleaned."""
        hidden = torch.relu(self.first(self.fbp(sinogram).unsqueeze(1)))
        cleaned: Tensor = self.last(hidden)
        return cleaned


# %%
# Its description
# ---------------
# Constants of learned layers are those of their present weights, here the random ones of the
# start. After training, describe the network again.

torch.manual_seed(0)
net = kr.describe(Reconstruction(), torch.randn(1, *geometry.sinogram_shape))
for layer in net:
    print(f"{layer.name:8} {layer.kind:8} {layer.bracket.how}")

# %%
# The figure
# ----------
# On the left, the bracket of each layer's norm. On the right, the factor from a layer's squared
# error to that of the image: the product of all norms behind it, squared. Where known layers
# follow each other their product is taken as one, and errors of W are damped rather than
# amplified.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, (left, right) = plt.subplots(1, 2, sharey=True)
places = np.arange(len(net))
colours = {"learned": "C2", "known": "0.45"}
for place, layer in zip(places, net, strict=True):
    low, high = layer.bracket.lower, layer.bracket.upper
    told = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
    left.plot([low, high], [place, place], "o-", color=colours[layer.kind])
    left.annotate(told, (low, place), (0, 6), textcoords="offset points", ha="center", fontsize=8)
for kind, colour in colours.items():
    left.plot([], [], "o", color=colour, label=kind)
looks: dict[kr.theory.BoundForm, tuple[str, str]] = {"paper": ("C1", "s"), "composed": ("C6", "o")}
for form, (colour, marker) in looks.items():
    right.plot(net.amplification(form), places, marker, color=colour, label=form)
right.axvline(1, color="0.4", linewidth=0.8)
left.set_yticks(places, [layer.name.replace("A^T", "$A^T$") for layer in net])
left.set_ylim(len(net) - 0.6, -0.6)
left.set(xscale="log", xlabel="operator norm, from and to", title="How far a layer stretches")
left.set_xlim(0.01, 200)
right.set(xscale="log", xlabel="factor on the squared error", title="How far its error grows")
left.legend(loc="lower right")
right.legend()

tight, loose = (net.amplification(form)[0] for form in ("composed", "paper"))
figure.savefig("11_your_own_module.png")
print(
    f"wrote 11_your_own_module.png: errors of W count {tight:.2f} times, {loose:.0f} by the paper"
)
