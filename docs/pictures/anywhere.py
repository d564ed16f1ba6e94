"""The matrix of an operator made of two functions, a cumulative sum: ones on and below the
diagonal; and that of its adjoint, the transpose: ones on and above it."""

import torch
from _chart import TYPE, chart

from korisk.operators import from_callables

A = from_callables(
    lambda x: x.cumsum(-1), lambda y: y.flip(-1).cumsum(-1).flip(-1), domain=8, range=8
)
figure, panels = chart(height=2.8, columns=2)
for axes, operator, name in zip(panels, (A, A.T), ("A", "A.T"), strict=True):
    axes.imshow(operator(torch.eye(8)).T, cmap="Blues", vmin=0, vmax=1.3)
    axes.set_title(f"{name}, found by applying it", fontsize=TYPE)
    axes.axis("off")
