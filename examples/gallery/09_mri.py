"""
MRI from too few lines
======================

An MRI scanner samples the Fourier transform of an image, line by line. Ten of
sixteen lines make a scan 1.6 times as fast, and leave the network to make up for the rest. The
known inverse is as good with four images as it will ever be. A dense matrix needs about a hundred,
and is the better one from there on.
"""

# %%
# The scan
# --------
# The ten are those about the origin, and a few further out with their mirror images.
# Both networks are linear and fitted in closed form.

from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
from torch import Tensor

import korisk as kr
from korisk.fitting import DenseRidge, DiagonalRidge, Scorer, tail_gram
from korisk.operators import Composed
from korisk.problems import MriProblem, Pools

SIZES = [4, 16, 64, 128, 512]
SEEDS = [1, 2, 3]
SHOWN = 3  # the test image that is drawn

problem = MriProblem(side=16, lines=10)
weights, operators = problem.reconstruction()
inverse = Composed(operators)
gram = tail_gram(inverse)


@cache
def pools(seed: int) -> Pools:
    """Samples to learn from, to choose the penalty by, and to judge with."""
    return problem.pools(seed=seed, train=SIZES[-1], validation=64, test=128)


@cache
def images_ko(n: int, seed: int) -> Tensor:
    """Test images by one weight a sample and the known inverse transform."""
    train, validation, test = pools(seed)
    inputs, targets = train.inputs[:n], train.targets[:n]
    ridge = DiagonalRidge(inverse, inputs, targets, toward=weights, relu=False, gram=gram)
    return ridge.training(n).fit(scorer=Scorer(*validation)).predict(test.inputs)


@cache
def images_fc(n: int, seed: int) -> Tensor:
    """Test images by one matrix from all samples to all pixels."""
    train, validation, test = pools(seed)
    ridge = DenseRidge(train.inputs[:n], train.targets[:n], relu=False)
    return ridge.training(n).fit(scorer=Scorer(*validation)).predict(test.inputs)


def error_ko(n: int, seed: int) -> float:
    """The mean squared error of the known inverse with learned weights."""
    return Scorer(*pools(seed).test)(images_ko(n, seed))


def error_fc(n: int, seed: int) -> float:
    """The mean squared error of the dense matrix."""
    return Scorer(*pools(seed).test)(images_fc(n, seed))


ko = kr.run_pilot(error_ko, SIZES, SEEDS, model="KO", metric="mse", quiet=True).curve
fc = kr.run_pilot(error_fc, SIZES, SEEDS, model="FC", metric="mse", quiet=True).curve
crossover = kr.compare(ko, fc, target=float(ko.means[-1])).crossover
assert crossover is not None

# %%
# The figure
# ----------
# What was not measured is missing from KO's image at any N. FC blurs everything at first; later it
# has seen what images have in common, and fills the gaps.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure = plt.figure(figsize=(7.0, 3.9))
pictures = figure.add_gridspec(2, 5, width_ratios=(1, 1, 0.05, 1.7, 1.7))
truth = pools(SEEDS[0]).test.targets[SHOWN]
panels = [
    ("image", truth),
    ("KO, N = 4", images_ko(4, SEEDS[0])[SHOWN]),
    ("FC, N = 4", images_fc(4, SEEDS[0])[SHOWN]),
    ("FC, N = 512", images_fc(512, SEEDS[0])[SHOWN]),
]
for place, (title, picture) in enumerate(panels):
    panel = figure.add_subplot(pictures[place // 2, place % 2])
    panel.imshow(picture.numpy(), vmin=0, vmax=float(truth.max()))
    panel.set_title(title)
    panel.set_axis_off()
axes = figure.add_subplot(pictures[:, 3:])
for curve, marker in ((ko, "o"), (fc, "s")):
    axes.plot(curve.sizes, curve.means, marker=marker, label=curve.model)
crossed = axes.axvspan(crossover.lower, crossover.upper, color="0.85", linewidth=0, zorder=0.5)
crossed.set_label("90% interval of the crossing")
axes.set(xscale="log", yscale="log", xlabel="training images N", ylabel="mean squared error")
axes.set_xticks(SIZES, [str(size) for size in SIZES])
axes.set_yticks([0.002, 0.005, 0.01, 0.02], ["0.002", "0.005", "0.01", "0.02"])
axes.minorticks_off()
axes.set_title(f"FC passes KO at N \u2248 {crossover.n}")
axes.legend()

figure.savefig("09_mri.png")
print(f"wrote 09_mri.png: FC passes KO at N = {crossover.n}")
