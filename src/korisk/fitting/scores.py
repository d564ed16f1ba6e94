"""Scores that lambdas and other choices are judged by, on samples that no fit has seen."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from korisk import _checks

By = Literal["mse", "rmse_over_max"]
BY: tuple[By, ...] = ("mse", "rmse_over_max")


def flat(samples: Tensor) -> Tensor:
    """(samples, ...) as (samples, entries)."""
    return samples.reshape(len(samples), -1)


class Scorer:
    """The error of predictions for `inputs` against `targets`: smaller is better.

    `by` is "mse", over all pixels, or "rmse_over_max", each image's root mean squared error over
    its target's maximum, which the released sweeps choose by. Images without anything on them have
    no such maximum and are left out of the latter.

    Both are (samples, ...). Called with predictions of the targets' shape, it returns their score.

    >>> import torch
    >>> from korisk.fitting import Scorer
    >>> targets = torch.ones(4, 2, 2)
    >>> scorer = Scorer(torch.zeros(4, 3), targets)
    >>> scorer(targets), scorer(targets + 0.5)
    (0.0, 0.25)
    """

    def __init__(self, inputs: Tensor, targets: Tensor, *, by: By = "mse") -> None:
        _checks.one_of("by", by, BY)
        self.inputs, self.targets, self.by = inputs, flat(targets), by

    def __call__(self, predictions: Tensor) -> float:
        """The score of (samples, ...) predictions."""
        squared = (flat(predictions) - self.targets).square_()
        per_image = squared.mean(1, dtype=torch.float64)
        if self.by == "rmse_over_max":
            highest = self.targets.amax(1).double()
            per_image = (per_image.sqrt() / highest)[highest > 0]
        return float(per_image.mean())
