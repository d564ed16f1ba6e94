"""What describe finds in a network with a skip connection: a learned layer with its 20
parameters, a known ReLU, and a known sum that takes the input too, each with its Lipschitz
constant."""

import torch
from _chart import arrow, box, canvas, text
from torch import nn

import korisk as kr


class Block(nn.Module):
    """A layer with a way past it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        """The input, and what the layer makes of it."""
        return x + torch.relu(self.inner(x))


torch.manual_seed(0)
net = kr.describe(Block(), torch.rand(1, 4))
figure, axes = canvas(height=1.9)
places = {"input": 0.15} | {layer.name: 1.2 + 1.55 * at for at, layer in enumerate(net)}
for layer in net:
    learned = isinstance(layer, kr.Learned)
    counted = f"{layer.parameters} parameters" if learned else "known"
    words = f"{layer.name}\n{counted}\n\N{SCRIPT SMALL L} \u2264 {layer.bracket.upper:.3g}"
    box(axes, places[layer.name], 0.85, 1.25, 0.85, words, learned=learned)
    for source in net.inputs_of(layer.name):
        start, end = places[source], places[layer.name]
        if end - start < 2:
            arrow(axes, (start + (0.63 if source != "input" else 0.1), 0.85), (end - 0.63, 0.85))
        else:  # over what lies between
            axes.plot([start, start, end], [1.0, 1.6, 1.6], color="#666666", linewidth=1)
            arrow(axes, (end, 1.6), (end, 1.28))
text(axes, places["input"], 0.85, "x")
arrow(axes, (places["add"] + 0.63, 0.85), (5.15, 0.85))
