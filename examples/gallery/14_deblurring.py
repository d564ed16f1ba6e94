"""
Deblurring with uncalibrated pixels
===================================

A camera shows a blurred image, each pixel with a gain that nobody has measured. The blur is known,
so its inverse is a known layer, and a network learns one weight for each pixel before it. A dense
matrix learns gains, inverse and images from the same examples.
"""

# %%
# Three networks
# --------------
# The known inverse is regularised, ``Tikhonov(Convolution(...), mu)``, once of the true blur and
# once of one that is 30% too wide. All fits are linear and in closed form.

from dataclasses import replace
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from torch import Tensor

from korisk.fitting import DenseRidge, DiagonalRidge, Scorer, tail_gram
from korisk.problems import BlurProblem, Gaussian, Pools

SIZES = [4, 16, 64, 256, 1024]
SEEDS = [1, 2, 3]
SHOWN, FEW = 3, 16  # the test image that is drawn, and the N of the networks that draw it

exact = BlurProblem(side=16, deviation=1.0, gain=0.5, noise=Gaussian(0.02))
wrong = replace(exact, assumed=1.3)


@cache
def pools(seed: int) -> Pools:
    """Samples to learn from, to choose the penalty by, and to judge with."""
    return exact.pools(seed=seed, train=SIZES[-1], validation=64, test=128)


@cache
def known(problem: BlurProblem, n: int, seed: int) -> Tensor:
    """Test images by learned gains and the inverse that the problem assumes."""
    train, validation, test = pools(seed)
    start, (inverse,) = problem.reconstruction()
    inputs, targets = train.inputs[:n], train.targets[:n]
    gram = tail_gram(inverse)
    ridge = DiagonalRidge(inverse, inputs, targets, toward=start, relu=False, gram=gram)
    return ridge.training(n).fit(scorer=Scorer(*validation)).predict(test.inputs)


@cache
def dense(n: int, seed: int) -> Tensor:
    """Test images by one matrix from pixels to pixels."""
    train, validation, test = pools(seed)
    ridge = DenseRidge(train.inputs[:n], train.targets[:n], relu=False)
    return ridge.training(n).fit(scorer=Scorer(*validation)).predict(test.inputs)


names = ("true blur", "blur +30%", "dense")
errors = np.zeros((len(names), len(SIZES)))
for column, n in enumerate(SIZES):
    for seed in SEEDS:
        made = known(exact, n, seed), known(wrong, n, seed), dense(n, seed)
        score = Scorer(*pools(seed).test)
        errors[:, column] += [score(each) / len(SEEDS) for each in made]
passed = SIZES[int(np.argmax(errors[2] < errors[0]))]

# %%
# The figure
# ----------
# With 16 images the gains are known well enough for a sharper image; the dense matrix is not there
# yet. What the blur took away is a floor for the known inverse, higher where it assumes a wrong
# blur. In the end the dense matrix, which has learned what the images have in common, is below it.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure = plt.figure(figsize=(7.0, 3.7))
grid = figure.add_gridspec(2, 4, width_ratios=(1, 1, 0.05, 2.4))
test = pools(SEEDS[0]).test
panels = [
    ("image", test.targets[SHOWN]),
    ("camera", test.inputs[SHOWN]),
    (f"true blur, N = {FEW}", known(exact, FEW, SEEDS[0])[SHOWN]),
    (f"dense, N = {FEW}", dense(FEW, SEEDS[0])[SHOWN]),
]
for place, (title, picture) in enumerate(panels):
    panel = figure.add_subplot(grid[divmod(place, 2)])
    panel.imshow(picture.numpy(), vmin=0, vmax=float(test.targets[SHOWN].max()))
    panel.set_title(title)
    panel.set_axis_off()
axes = figure.add_subplot(grid[:, 3])
looks = (("C0", "-", "o"), ("C2", "--", "^"), ("C1", "-.", "s"))
for name, row, (colour, line, marker) in zip(names, errors, looks, strict=True):
    axes.plot(SIZES, row, color=colour, linestyle=line, marker=marker, label=name)
axes.set(xscale="log", yscale="log", xlabel="training images N", ylabel="mean squared error")
axes.set_xticks(SIZES, [str(size) for size in SIZES])
axes.set_yticks([0.003, 0.01, 0.03], ["0.003", "0.01", "0.03"])
axes.minorticks_off()
axes.set_title("Error over N")
axes.legend()

figure.savefig("14_deblurring.png")
print(f"wrote 14_deblurring.png: dense passes the true blur by N = {passed}")
