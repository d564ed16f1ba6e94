"""
A plan with an interval
=======================

How many training samples does a target need? A pilot of small training sets answers with one
number to collect, which is enough with 90% probability, and with even odds and a 90% range.
Here the truth is measured as well, so that the plan can be judged.
"""

# %%
# A pilot
# -------
# The network is one dense matrix that learns to invert MRI samples. Training is a ridge
# regression, so that even the large training sets take a moment. ``kr.run_pilot`` calls a function
# of your own with a training set size and a seed.

from functools import cache

import matplotlib.pyplot as plt

import korisk as kr
from korisk.fitting import DenseRidge, Scorer
from korisk.problems import Gaussian, MriProblem, Pools
from korisk.report.figures.forecast import plan_figure

LATER = [192, 256, 384, 512]
problem = MriProblem(side=16, lines=10, noise=Gaussian(0.05))


@cache
def pools(seed: int) -> Pools:
    """Samples to learn from, to choose the penalty by, and to judge with."""
    return problem.pools(seed=seed, train=LATER[-1], validation=64, test=128)


def fit(n: int, seed: int) -> float:
    """The mean squared error of the dense matrix that n samples give."""
    train, validation, test = pools(seed)
    trained = DenseRidge(train.inputs[:n], train.targets[:n], relu=False).training(n)
    return Scorer(*test)(trained.fit(scorer=Scorer(*validation)).predict(test.inputs))


MODEL, METRIC = "A dense network for MRI", "mean squared error"
pilot = kr.run_pilot(fit, [8, 16, 32, 64, 128], seeds=3, model=MODEL, metric=METRIC, quiet=True)

# %%
# The plan
# --------
# The target is half of the pilot's last error. ``samples(0.9)`` is the smallest number that is
# enough with 90% probability: the one for a budget.

target = round(float(pilot.curve.means[-1]) / 2, 4)
plan = kr.plan(pilot.curve, target)
print(plan.explain())

# %%
# The truth
# ---------
# Now the training sets that the pilot did not have. The open points are drawn over the plan.

truth = kr.run_pilot(fit, LATER, seeds=3, model=MODEL, metric=METRIC, quiet=True).curve

figure = plan_figure(plan)
axes = figure.axes[0]
axes.plot(truth.sizes, truth.means, "o", color="black", markerfacecolor="white", zorder=5)
axes.annotate(
    "measured later",
    (truth.sizes[1], truth.means[1]),
    (0, 42),
    textcoords="offset points",
    ha="center",
    fontsize=9,
    arrowprops={"arrowstyle": "-", "color": "0.4", "shrinkB": 5},
)

met = truth.sizes[truth.means <= target][0]
figure.savefig("06_plan_with_interval.png")
# korisk draws without pyplot, which shows the picture here, pixel by pixel.
plt.figure().figimage(plt.imread("06_plan_with_interval.png"), resize=True)
advice = plan.recommend()
print(f"wrote 06_plan_with_interval.png: {advice} {advice.odds} It was met by N = {met}.")
