"""
A curve before a scan
=====================

With operator, noise and some example images, pairs can be simulated. Networks that are linear in
their weights are fitted to them exactly, for every N. Here two curves are rehearsed first and then
measured on other images.
"""

# %%
# Rehearsed
# ---------
# A small CT scanner with 2% noise, and 128 phantoms that stand for images to come. KO knows the
# operators and learns a weight for each ray; FC learns one matrix. The band says how sure the
# curve is for real images.

from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import korisk as kr
from korisk.fitting import DenseRidge, DiagonalRidge, Scorer, tail_gram
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.operators import Composed
from korisk.problems import CtProblem, CtScanner, Gaussian, random_ellipses

SIZES, SEEDS = [4, 16, 64, 256, 512], [1, 2]
problem = CtProblem(scanner=CtScanner.of_paper(16), noise=Gaussian(0.02))
weights, operators = problem.reconstruction()
images = random_ellipses(128, seed=5, stream="examples").images(16)
zeros = torch.zeros(16 * 16, weights.numel(), dtype=torch.float64)
builds: dict[str, Callable[[], torch.nn.Module]] = {
    "KO": partial(KnownOperatorNet, weights, operators),
    "FC": partial(DenseNet, weights.shape, (16, 16), matrix=zeros),
}
rehearsals = [
    kr.rehearse(build, problem, images, sizes=SIZES, model=name) for name, build in builds.items()
]

# %%
# Measured
# --------
# Now fit both to pairs of other phantoms, at the same sizes and with two seeds.

tail = Composed(operators)
gram = tail_gram(tail)
errors = np.zeros((2, len(SEEDS), len(SIZES)))
for row, seed in enumerate(SEEDS):
    train, validation, test = problem.pools(seed=seed, train=SIZES[-1], validation=64, test=128)
    scorer, judge = Scorer(*validation), Scorer(*test)
    diagonal = DiagonalRidge(tail, *train, toward=weights, gram=gram)
    matrix = DenseRidge(*train)
    for column, size in enumerate(SIZES):
        fits = [ridge.training(size).fit(scorer=scorer) for ridge in (diagonal, matrix)]
        errors[:, row, column] = [judge(fit.predict(test.inputs)) for fit in fits]
means = errors.mean(1)

# %%
# The figure
# ----------
# Lines and bands were there first. KO is flat: its known inverse leaves little to be learned, and
# the rehearsal says so. FC passes it where the lines cross.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, axes = plt.subplots()
inside = 0
n = np.geomspace(SIZES[0], 2048, 40).round()
for made, measured, colour, marker in zip(rehearsals, means, ("C0", "C1"), "os", strict=True):
    forecast = made.forecast()
    curve = [forecast.at(size) for size in n]
    lower, upper = [then.lower for then in curve], [then.upper for then in curve]
    name = made.curve.model
    axes.fill_between(n, lower, upper, color=colour, alpha=0.2, linewidth=0)
    axes.plot(n, [then.value for then in curve], color=colour, label=f"{name}, rehearsed, 90% band")
    axes.plot(SIZES, measured, marker, color=colour, label=f"{name}, measured")
    bands = [forecast.at(size) for size in SIZES]
    inside += sum(
        then.lower <= error <= then.upper for then, error in zip(bands, measured, strict=True)
    )
axes.set(xscale="log", yscale="log", xlabel="training images N", ylabel="mean squared error")
axes.set_xticks([*SIZES, 2048], [str(size) for size in [*SIZES, 2048]])
axes.minorticks_off()
axes.set_title("CT, 16 \u00d7 16 pixels, 2% noise: rehearsed from 128 images, then measured")
axes.legend()
figure.savefig("12_rehearse_before_training.png")
print(
    f"wrote 12_rehearse_before_training.png: {inside} of {means.size} measured errors in the bands"
)
