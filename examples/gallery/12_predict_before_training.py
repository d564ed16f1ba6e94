"""
A curve before training
=======================

For layers that are linear in their parameters, the learning curve follows from the operator, a
handful of images and the noise. Nothing is trained for it. Here two curves are computed first and
then measured.
"""

# %%
# Predicted
# ---------
# The study is a file: a small CT scanner with 2% noise. 128 images stand for those to come, and no
# pair of sinogram and image is used. The band says how sure a prediction is.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import korisk as kr
from korisk.fitting import DenseRidge, DiagonalRidge, Scorer, tail_gram
from korisk.operators import Composed
from korisk.problems import CtProblem, CtScanner, Gaussian

here = Path(__file__).parent
(point,) = kr.prediction.predict_study(here.parent / "predict_ct.yaml", examples=128)
known, dense = point.predictions
n = np.geomspace(4, 2048, 40)

# %%
# Measured
# --------
# Now train both, at a few sizes and two seeds. The networks end with a ReLU, which the predictions
# know of.

SIZES, SEEDS = [4, 16, 64, 256, 512], [1, 2]
problem = CtProblem(scanner=CtScanner.of_paper(16), noise=Gaussian(0.02))
weights, operators = problem.reconstruction()
tail = Composed(operators)
gram = tail_gram(tail)
errors = np.zeros((2, len(SEEDS), len(SIZES)))
for row, seed in enumerate(SEEDS):
    train, validation, test = problem.pools(seed=seed, train=SIZES[-1], validation=64, test=128)
    scorer, judge = Scorer(*validation), Scorer(*test)
    diagonal = DiagonalRidge(tail, *train, toward=weights, gram=gram)
    matrix = DenseRidge(*train)
    for column, size in enumerate(SIZES):
        fits = [each.training(size).fit(scorer=scorer) for each in (diagonal, matrix)]
        errors[:, row, column] = [judge(fit.predict(test.inputs)) for fit in fits]
means = errors.mean(1)

# %%
# The figure
# ----------
# Lines and bands were there first. KO is flat: its known inverse leaves little to be learned, and
# the prediction says so. FC passes it where the lines cross.

plt.style.use(here / "gallery.mplstyle")
figure, axes = plt.subplots()
for made, measured, colour, marker in (
    (known, means[0], "C0", "o"),
    (dense, means[1], "C1", "s"),
):
    axes.fill_between(n, *made.band(n), color=colour, alpha=0.2, linewidth=0)
    axes.plot(n, made.errors(n), color=colour, label=f"{made.model}, predicted with 90% band")
    axes.plot(SIZES, measured, marker, color=colour, label=f"{made.model}, measured")
axes.set(xscale="log", yscale="log", xlabel="training images N", ylabel="mean squared error")
axes.set_xticks([*SIZES, 2048], [str(size) for size in [*SIZES, 2048]])
axes.minorticks_off()
axes.set_title("CT, 16 \u00d7 16 pixels, 2% noise: predicted from 128 images, then measured")
axes.legend()

low, high = np.array([made.band(SIZES) for made in (known, dense)]).transpose(1, 0, 2)
inside = int(((low <= means) & (means <= high)).sum())
figure.savefig("12_predict_before_training.png")
print(
    f"wrote 12_predict_before_training.png: {inside} of {means.size} measured errors in the bands"
)
