"""
KO against FC
=============

A network that keeps the known operator learns one weight a ray. A dense matrix learns everything.
Which of the two is better depends on how many images there are, and here both are fitted, in
closed form, to find out.
"""

# %%
# The problem
# -----------
# Images of a few ellipses, 16 pixels a side, scanned by a fan beam over half a turn with 1% noise.
# Filter and backprojection are known; ``weights`` are those in front of them, before training.
# Every seed has a training set of its own, and all are judged on the same test set.

from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt

import korisk as kr
from korisk.fitting import DenseRidge, DiagonalRidge, Scorer, tail_gram
from korisk.operators import Composed
from korisk.problems import CtProblem, CtScanner, Gaussian, Pools

SIZES = [4, 16, 64, 128, 256]
SEEDS = [1, 2, 3]

scanner = CtScanner(side=16, views=20, bins=24, beam="fan")
problem = CtProblem(scanner=scanner, noise=Gaussian(0.01))
weights, known_operators = problem.reconstruction()
tail = Composed(known_operators)
gram = tail_gram(tail)


@cache
def pools(seed: int) -> Pools:
    """Samples to learn from, to choose the penalty by, and to judge with."""
    return problem.pools(seed=seed, train=SIZES[-1], validation=64, test=128)


# %%
# Two fits
# --------
# Both are ridge regressions with the penalty chosen on the validation set: the weights shrink
# towards the analytic ones, the matrix towards zero.


def fit_ko(n: int, seed: int) -> float:
    """The mean squared error of the weights that n images give."""
    train, validation, test = pools(seed)
    ridge = DiagonalRidge(tail, train.inputs[:n], train.targets[:n], toward=weights, gram=gram)
    fitted = ridge.training(n).fit(scorer=Scorer(*validation))
    return Scorer(*test)(fitted.predict(test.inputs))


def fit_fc(n: int, seed: int) -> float:
    """The mean squared error of the dense matrix that n images give."""
    train, validation, test = pools(seed)
    ridge = DenseRidge(train.inputs[:n], train.targets[:n])
    fitted = ridge.training(n).fit(scorer=Scorer(*validation))
    return Scorer(*test)(fitted.predict(test.inputs))


ko = kr.run_pilot(fit_ko, SIZES, SEEDS, model="KO", metric="mse", quiet=True).curve
fc = kr.run_pilot(fit_fc, SIZES, SEEDS, model="FC", metric="mse", quiet=True).curve

# %%
# Where they cross
# ----------------
# Weights are learned from a handful of images, but what they cannot mend stays: KO levels off. FC
# starts at more than ten times its error and goes on falling. ``kr.compare`` says at which N it is
# ahead, and how sure that is.

crossover = kr.compare(ko, fc, target=float(ko.means[-1])).crossover
assert crossover is not None

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, axes = plt.subplots()
numbers = {"KO": weights.numel(), "FC": weights.numel() * scanner.side**2}
for curve, marker in ((ko, "o"), (fc, "s")):
    errors = curve.error.reshape(len(SIZES), len(SEEDS))
    name = f"{curve.model}: {numbers[curve.model]:,} weights"
    (line,) = axes.plot(curve.sizes, curve.means, marker=marker, label=name)
    axes.fill_between(curve.sizes, errors.min(1), errors.max(1), color=line.get_color(), alpha=0.25)
axes.axvspan(crossover.lower, crossover.upper, color="0.85", linewidth=0, zorder=0.5)
interval = f"(90%: {crossover.lower:.0f} to {crossover.upper:.0f})"
axes.annotate(
    f"FC passes KO at N \u2248 {crossover.n}\n{interval}",
    (crossover.lower, 2.3e-2),
    (-6, 0),
    textcoords="offset points",
    ha="right",
    va="center",
)
axes.set(xscale="log", yscale="log", xlabel="training images N", ylabel="mean squared error")
axes.set_xticks(SIZES, [str(size) for size in SIZES])
axes.minorticks_off()
axes.set_title("CT, 16 \u00d7 16 pixels: mean of three seeds, and the band from best to worst")
axes.legend(loc="lower left")

figure.savefig("04_ko_against_fc.png")
print(f"wrote 04_ko_against_fc.png: FC passes KO at N = {crossover.n}")
