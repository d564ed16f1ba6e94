"""
Advection and diffusion
=======================

A field on a line drifts and spreads. Sensors of unknown gain show it at time zero, and wanted is
the field a little later. With the differential equation inside, a network learns the gains from a
few fields; it is a hybrid of physics and learning. Without it, everything has to be learned.
"""

# %%
# Three networks
# --------------
# The flow of ``u_t = nu u_xx - c u_x`` is a known layer, once with the true viscosity nu and once
# with one that is 50% too large. The third network is a dense matrix.

from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from torch import Tensor

from korisk.fitting import DenseRidge, DiagonalRidge, Scorer, tail_gram
from korisk.problems import PdeProblem, Pools

SIZES = [4, 8, 16, 32, 64, 128, 256]
SEEDS = [1, 2, 3]
SHOWN, FEW = 5, 16  # the test field that is drawn, and the N of the networks that draw it

exact = PdeProblem(viscosity=0.01)
wrong = PdeProblem(viscosity=0.01, assumed=0.015)


@cache
def pools(seed: int) -> Pools:
    """Samples to learn from, to choose the penalty by, and to judge with."""
    return exact.pools(seed=seed, train=SIZES[-1], validation=64, test=128)


def hybrid(problem: PdeProblem, n: int, seed: int) -> Tensor:
    """Test fields by learned gains and the flow that the problem assumes."""
    train, validation, test = pools(seed)
    start, (flow,) = problem.reconstruction()
    ridge = DiagonalRidge(
        *(flow, train.inputs[:n], train.targets[:n]),
        toward=start,
        relu=False,
        gram=tail_gram(flow),
    )
    return ridge.training(n).fit(scorer=Scorer(*validation)).predict(test.inputs)


def dense(n: int, seed: int) -> Tensor:
    """Test fields by one matrix from sensors to field."""
    train, validation, test = pools(seed)
    ridge = DenseRidge(train.inputs[:n], train.targets[:n], relu=False)
    return ridge.training(n).fit(scorer=Scorer(*validation)).predict(test.inputs)


# %%
# What they make of it
# --------------------
# Errors are mean squares on one test set, averaged over three training sets.

names = ("exact flow", "viscosity +50%", "dense")
errors = np.zeros((len(names), len(SIZES)))
for column, n in enumerate(SIZES):
    for seed in SEEDS:
        fields = hybrid(exact, n, seed), hybrid(wrong, n, seed), dense(n, seed)
        score = Scorer(*pools(seed).test)
        errors[:, column] += [score(each) / len(SEEDS) for each in fields]
better = int(np.argmax(errors[2] < errors[1]))

# %%
# The figure
# ----------
# With 16 fields the hybrid with the exact flow is on the truth, the one with the wrong viscosity a
# little too flat, and the dense matrix nowhere near. It has the last word only against wrong
# physics, and needs about as many fields as there are sensors for it.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, (left, right) = plt.subplots(1, 2, width_ratios=(1.1, 1))
test = pools(SEEDS[0]).test
x = np.arange(exact.points) / exact.points
left.plot(x, test.inputs[SHOWN], ".", color="0.6", markersize=4, label="sensors, time 0")
left.plot(x, test.targets[SHOWN], color="black", linewidth=3, alpha=0.35, label="truth, time 0.1")
looks = (("C0", "-", "o"), ("C2", "--", "^"), ("C1", "-.", "s"))
drawn = hybrid(exact, FEW, 1), hybrid(wrong, FEW, 1), dense(FEW, 1)
for name, field, row, (colour, line, marker) in zip(names, drawn, errors, looks, strict=True):
    left.plot(x, field[SHOWN], color=colour, linestyle=line, linewidth=1.2, label=name)
    right.plot(SIZES, row, color=colour, linestyle=line, marker=marker, label=name)
left.set(xlabel="place on the line, of length 1", ylabel="field u")
left.set_title(f"One test field, by networks of {FEW} fields")
right.set(xscale="log", yscale="log", xlabel="training fields N", ylabel="mean squared error")
right.set_xticks(SIZES, [str(size) for size in SIZES])
right.minorticks_off()
right.set_title("Error over N")
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)

figure.savefig("10_advection_diffusion.png")
print(f"wrote 10_advection_diffusion.png: dense passes the wrong viscosity by N = {SIZES[better]}")
