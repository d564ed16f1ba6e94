"""
An operator that is only nearly known
=====================================

Known operators come from physics, and physics has constants that somebody measured. With a wrong
one the known layer errs, and no training set removes that. The theory has a term for it, the
mismatch.
"""

# %%
# The wrong viscosity
# -------------------
# Sensors of unknown gain show a field on a line, which then drifts and spreads. The gains are
# learned; what follows is the exact solution of the equation, with the viscosity that we assume.
# Errors are sums over the 64 points of the line, means over fields.

from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import korisk as kr
from korisk.fitting import DiagonalRidge, Scorer, tail_gram
from korisk.problems import PdeProblem

SIZES = [4, 8, 16, 32, 64, 128, 256]
SEEDS = [1, 2, 3]
TRUE = 0.01  # viscosity
EXCESS = [0.0, 0.05, 0.1, 0.2, 0.4]


class Judged(NamedTuple):
    """What came out of one assumed viscosity."""

    errors: NDArray[np.float64]  # (sizes,) measured, mean over seeds
    mismatch: float
    bound: float  # at the largest size


def mean_square(errors: Tensor) -> float:
    """The sum over a field's points, averaged over fields."""
    return float(errors.square().sum(1).mean())


# %%
# The mismatch, and the bound with it
# -----------------------------------
# The problem knows its own truth. So the mismatch can be computed: what the assumed flow E gets
# wrong of the fields that it meets. It enters the network as ``Known(..., mismatch=)``. The error
# of the learned gains is measured, and sensor noise, which no network can remove, stands as a last
# layer.


def judge(excess: float) -> Judged:
    """Fit the gains with a viscosity that is too large by `excess`."""
    problem = PdeProblem(viscosity=TRUE, assumed=TRUE * (1 + excess), noise=0.005)
    start, (assumed,) = problem.reconstruction()
    gains, (flow,) = problem.truth()
    gram = tail_gram(assumed)
    scores = []
    for seed in SEEDS:
        train, validation, test = problem.pools(seed=seed, train=256, validation=64, test=128)
        ridge = DiagonalRidge(assumed, *train, toward=start, relu=False, gram=gram)
        fits = [ridge.training(n).fit(scorer=Scorer(*validation)) for n in SIZES]
        scores.append([mean_square(fit.predict(test.inputs) - test.targets) for fit in fits])
    fields = gains * test.inputs
    mismatch = mean_square(assumed(fields) - flow(fields))
    noise = mean_square(flow(fields) - test.targets)
    net = kr.Network(
        [
            kr.Learned("W"),
            kr.Known("E", lipschitz=assumed, mismatch=mismatch),
            kr.Known("noise", lipschitz=1.0, mismatch=noise),
        ]
    )
    learned = mean_square(fits[-1].weights * test.inputs - fields)
    return Judged(np.mean(scores, axis=0), mismatch, kr.theory.deep_risk(net, {"W": learned}).total)


judged = {excess: judge(excess) for excess in EXCESS}

# %%
# The figure
# ----------
# On the left, every wrong viscosity has its floor, reached with a handful of fields. On the right,
# at the largest N: the measured error follows the mismatch and stays a little below it, since
# training bends the gains to make up for the wrong flow. The bound lies above both.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, (left, right) = plt.subplots(1, 2, width_ratios=(1.15, 1), sharey=True)
shades = plt.colormaps["cividis"](np.linspace(0.0, 0.85, len(EXCESS)))
for (excess, made), shade in zip(judged.items(), shades, strict=True):
    left.plot(SIZES, made.errors, marker="o", markersize=4, color=shade)
    name = "exact" if excess == 0 else f"+{excess:.0%}"
    left.text(SIZES[-1] * 1.12, made.errors[-1], name, va="center", fontsize=8.5)
left.set(xscale="log", yscale="log", xlabel="training fields N", xlim=(3.5, 600))
left.set(ylabel="squared error", title="Viscosity exact and too large")
left.set_xticks(SIZES, [str(size) for size in SIZES])
left.minorticks_off()
percent = [100 * excess for excess in EXCESS[1:]]
wrong = [judged[excess] for excess in EXCESS[1:]]
right.plot(percent, [made.bound for made in wrong], "^-", color="C6", label="bound")
right.plot(percent, [made.mismatch for made in wrong], "D--", color="C2", label="mismatch m")
right.plot(percent, [made.errors[-1] for made in wrong], "o-", color="C0", label="measured")
right.set(xscale="log", yscale="log", xlabel="viscosity too large by (%)")
right.set(title=f"At N = {SIZES[-1]}")
right.set_xticks(percent, [f"{value:g}" for value in percent])
right.minorticks_off()
right.legend(loc="lower right")

chosen = judged[0.2]
figure.savefig("08_mismatch.png")
share = chosen.errors[-1] / chosen.mismatch
print(f"wrote 08_mismatch.png: at +20% the error is {share:.0%} of m, which no data removes")
