"""What every problem has: samples to learn from, and a known way from inputs to targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators.linear import LinearOperator
from korisk.seeds import TEST_SEED as TEST_SEED

POOLS = ("train", "validation", "test")

Device = torch.device | str | None
Counts = Mapping[str, int]  # samples of each of POOLS


class Reconstruction(NamedTuple):
    """A known reconstruction: inputs are multiplied by `weights`, then pass through `tail`.

    `weights` has the shape of one input; `tail` holds operators in the order in which they act.

    >>> from korisk.problems import CtScanner
    >>> found = CtScanner(side=8, views=6, bins=12, beam="parallel").reconstruction()
    >>> found.weights.shape, [operator.name for operator in found.tail]
    (torch.Size([6, 12]), ['K', 'A^T'])
    """

    weights: Tensor  # of an input's shape, such as (views, bins): W before training
    tail: tuple[LinearOperator, ...]  # in order of application; the last one gives the output


class Pairs(NamedTuple):
    """Inputs, such as sinograms, and the targets that belong to them.

    (samples, *input) and (samples, *target).

    >>> from korisk.problems import HeatProblem
    >>> inputs, targets = HeatProblem(points=8).pools(seed=1, train=4, validation=2, test=3).train
    >>> inputs.shape, targets.shape
    (torch.Size([4, 8]), torch.Size([4, 8]))
    """

    inputs: Tensor  # (count, *input shape)
    targets: Tensor  # (count, *target shape)


class Pools(NamedTuple):
    """Samples to learn from, to choose by, and to judge with.

    Each is `Pairs`.

    >>> from korisk.problems import HeatProblem
    >>> pools = HeatProblem(points=8).pools(seed=1, train=4, validation=2, test=3)
    >>> [len(pool.inputs) for pool in pools]
    [4, 2, 3]
    """

    train: Pairs
    validation: Pairs
    test: Pairs


class Truth(NamedTuple):
    """The layers that an estimated network stands for, where the problem knows them.

    Shapes are those of `Reconstruction`.

    >>> from korisk.problems import HeatProblem
    >>> problem = HeatProblem(points=8)
    >>> (problem.truth().weights.numpy() * problem.gains).round(6).max().item()
    1.0
    """

    weights: Tensor  # of an input's shape
    tail: tuple[LinearOperator, ...]  # one for each operator of the reconstruction


@dataclass(frozen=True, eq=False)
class Examples:
    """Images behind a linear operator with noise: inputs = forward(latents) + noise.

    Targets are `wanted(latents)`, or the latents themselves where `wanted` is None.
    """

    latents: Tensor  # (n, ...) images, or fields on a line
    forward: LinearOperator
    wanted: LinearOperator | None
    inputs: Tensor  # (n, ...) with noise
    targets: Tensor  # (n, ...)
    noise: Tensor  # (...) of an input's shape: the mean variance of the noise at each entry

    def __len__(self) -> int:
        return len(self.latents)


class Problem(ABC):
    """Something to learn. A frozen value: equal problems give equal samples.

    Abstract: `CtProblem`, `MriProblem`, `HeatProblem` and `DeepProblem` are problems, and so is a
    subclass of one's own.

    >>> from korisk.problems import HeatProblem
    >>> pools = HeatProblem(points=8).pools(seed=1, train=4, validation=2, test=3)
    >>> pools.train.inputs.shape, pools.test.targets.shape
    (torch.Size([4, 8]), torch.Size([3, 8]))
    """

    @abstractmethod
    def reconstruction(self, device: Device = None) -> Reconstruction:
        """W before training, and the known operators behind it."""

    def pools(
        self,
        *,
        seed: int,
        train: int,
        validation: int,
        test: int,
        device: Device = None,
    ) -> Pools:
        """Samples; sample i of a pool is the same for any pool size, the test set for any seed."""
        return self._draw(seed, dict(zip(POOLS, (train, validation, test), strict=True)), device)

    @abstractmethod
    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """The pools, of as many samples each as `counts` says by their names."""

    def examples(self, *, seed: int, count: int, device: Device = None) -> Examples:
        """A handful of samples with the operator they come from, where that is linear."""
        raise KoriskError(
            f"{type(self).__name__} is not linear in its images, and curves before training are of "
            "linear layers behind linear operators; run a pilot instead"
        )

    def truth(self, device: Device = None) -> Truth | None:
        """The true layers; None where nobody knows them, as behind a scanner."""
        return None

    def prepared(self, device: Device = None) -> object:
        """What all pools share and should be kept between them."""
        return None
