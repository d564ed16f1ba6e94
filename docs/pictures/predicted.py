"""Predicted error over N of KO and FC for one scanner, with 90% bands: KO nearly flat, FC falling
and below KO from about N = 150 on."""

import numpy as np
from _chart import BLUE, RED, TYPE, chart, sizes

import korisk as kr
from korisk.operators import ParallelBeam, Projector, fbp
from korisk.problems import random_ellipses

geometry = ParallelBeam(16, views=16, bins=24)
scanner, layers = Projector(geometry), fbp(geometry)
images = random_ellipses(256, seed=1, stream="examples").images(16)
tail = [layers["K"], layers["A^T"]]
dense = kr.prediction.predict_dense(scanner, images, noise=0.02)
known = kr.prediction.predict_structured(
    scanner, images, noise=0.02, tail=tail, weights=layers["W"].weights
)
n = np.geomspace(4, 1024, 40)
figure, (axes,) = chart(height=3.0, xscale="log", yscale="log", xlabel="training samples N")
for made, colour, name in ((known, BLUE, "KO"), (dense, RED, "FC")):
    axes.fill_between(n, *made.band(n), color=colour, alpha=0.2, linewidth=0)
    axes.plot(n, made.errors(n), color=colour, label=name)
axes.set(ylabel="predicted error")
axes.set_yticks([1e-3, 3e-3, 1e-2, 3e-2], ["0.001", "0.003", "0.01", "0.03"])
sizes(axes, [4, 16, 64, 256, 1024])
axes.legend(fontsize=TYPE, frameon=False)
