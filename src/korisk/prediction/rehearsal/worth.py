"""What a known operator saves on real images, from two rehearsals: before a scan is made.

The ratio is N of the one network over N of the other, for the same target. The errors of both are
expected on the same real images, so that what few examples do not show of their level moves both
curves alike: it is drawn once. How far each rehearsal is off beyond that is drawn for each.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from korisk.planning.chances import TAIL
from korisk.planning.explain import times
from korisk.prediction.prediction import FARTHEST_N, Prediction

Array = NDArray[np.float64]

_DRAWS = (np.arange(20) + 0.5) / 20  # quantiles of each curve
_LEVELS = (np.arange(9) + 0.5) / 9  # quantiles of the level that both share
_PER_DOUBLING = 2  # sizes per doubling of N


class Worth(NamedTuple):
    """Samples of one network over samples of another, for the same target."""

    target: float
    lower: float
    ratio: float
    upper: float

    @property
    def words(self) -> str:
        """The ratio in words."""
        if math.isnan(self.ratio):
            return "is not known: neither is expected to reach the target"
        return f"is {times(self.ratio)} (90%: {times(self.lower)} to {times(self.upper)})"


def worth(known: Prediction, learned: Prediction, target: float, *, shared: bool) -> Worth:
    """N that `learned` needs for a target over N that `known` needs."""
    first = _sizes_needed(known, target)
    second = _sizes_needed(learned, target)
    with np.errstate(invalid="ignore"):  # infinite over infinite is not a number
        if shared:  # (levels, draws of one, draws of the other)
            ratios = second[:, None, :] - first[:, :, None]
        else:
            ratios = second.reshape(1, -1) - first.reshape(-1, 1)
    # Infinite minus infinite is NaN: neither curve reaches the target in that draw.
    logs = ratios[~np.isnan(ratios)]
    if 2 * len(logs) < ratios.size:
        return Worth(target, math.nan, math.nan, math.nan)
    ends = np.quantile(logs, (TAIL, 0.5, 1 - TAIL), method="inverted_cdf")
    return Worth(target, *(float(np.exp(end)) for end in ends))


def _sizes_needed(prediction: Prediction, target: float) -> Array:
    """(levels, draws) log N at which a drawn curve meets the target; infinite where it does not."""
    start = prediction.valid_from
    steps = math.ceil(_PER_DOUBLING * math.log2(FARTHEST_N / start))
    sizes = np.geomspace(start, FARTHEST_N, 1 + steps)
    # The level is drawn below, for both curves together.
    shapes = replace(prediction, level=0.0)
    logs = np.log([shapes.quantile(sizes, draw) for draw in _DRAWS])  # (draws, sizes)
    lowest = np.minimum.accumulate(logs, axis=1)
    needed = np.empty((len(_LEVELS), len(_DRAWS)))
    for row, level in enumerate(ndtri(_LEVELS) * prediction.level):
        goal = math.log(target) - level
        for column, curve in enumerate(lowest):
            index = int(np.searchsorted(-curve, -goal))  # the first size that meets it
            if index == len(sizes):
                needed[row, column] = math.inf
            elif index == 0:
                needed[row, column] = math.log(sizes[0])
            else:  # linear in log N and log error between two sizes
                between = (curve[index - 1] - goal) / (curve[index - 1] - curve[index])
                ends = np.log(sizes[index - 1 : index + 1])
                needed[row, column] = ends[0] + between * (ends[1] - ends[0])
    return needed
