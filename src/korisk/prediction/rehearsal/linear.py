"""Networks without hidden layers, fitted exactly instead of trained: by ridge regression.

Many N share one matrix: B^T B of the known operators behind weights; the inner products of a
seed's inputs for a dense layer. The penalty is the best on the validation pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.fitting.ridge.choice import Scorer, flat
from korisk.fitting.ridge.dense import DenseRidge, DenseTraining
from korisk.fitting.ridge.diagonal import DiagonalRidge, DiagonalTraining, gram_fits, tail_gram
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.operators.inputs import shape_text
from korisk.problems.problem import Pairs, Pools

Linear = DenseNet | KnownOperatorNet


def as_linear(network: nn.Module) -> Linear | None:
    """The network if it is linear in its weights up to a last ReLU, in a form that is fitted."""
    if isinstance(network, DenseNet):
        # Factors are fixed; empty ones stand for a matrix that need not be held.
        return network if network.right is None or not len(network.right) else None
    if isinstance(network, KnownOperatorNet) and network.weights.shape == network.domain:
        return network
    return None


def weights_of(network: nn.Module) -> int:
    """Number of weights that are learned; a dense layer in factors holds none of its own."""
    if isinstance(network, DenseNet) and network.weight is None:
        return math.prod(network.range) * math.prod(network.domain)
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


class _Rotated(DenseTraining):
    """A training set of many pairs, by as many rows as there are inputs.

    With inputs X = Q R, |X M - Y|^2 is |R M - Q^T Y|^2 and a constant, for every M.
    """

    def __init__(self, inputs: Tensor, targets: Tensor, *, relu: bool) -> None:
        rotation, rows = torch.linalg.qr(inputs)
        super().__init__(DenseRidge(rows, rotation.T @ targets, relu=relu), len(rows))
        self._pairs = len(inputs)

    @property
    def scale(self) -> float:
        """The mean eigenvalue over all pairs, most of which have none."""
        return super().scale * self.n / self._pairs


class ExactFits:
    """Fits of one network to nested training sets of several pools.

    Weights in front of known operators shrink to those that the network starts with, a dense layer
    to zero. A last ReLU is left out of the fit and applied to its predictions.
    """

    def __init__(self, name: str, network: Linear, pairs: Pairs) -> None:
        shapes = [tuple(values.shape[1:]) for values in pairs]
        if shapes != [network.domain, network.range]:
            maps, got = (
                f"{shape_text(domain)} -> {shape_text(image)}"
                for domain, image in (shapes, (network.domain, network.range))
            )
            raise KoriskError(f"{name} must map inputs to images, {maps}, got {got}")
        self.network = network
        self._gram: Tensor | None = None
        if isinstance(network, KnownOperatorNet) and gram_fits(network.linear_tail):
            self._gram = tail_gram(network.linear_tail)

    def errors(self, pools: Pools, sizes: Sequence[int]) -> Iterator[Tensor]:
        """The mean squared error of each test pair, for every N."""
        scorer, test = Scorer(*pools.validation), pools.test
        trainings: Iterator[DenseTraining | DiagonalTraining]
        if isinstance(self.network, DenseNet):
            trainings = self._dense(pools.train, sizes, relu=self.network.relu)
        else:
            tail, start, relu = self.network.linear_tail, self.network.weights, self.network.relu
            ridge = DiagonalRidge(tail, *pools.train, toward=start, relu=relu, gram=self._gram)
            trainings = map(ridge.training, sizes)
        for training in trainings:
            predictions = training.fit(scorer=scorer).predict(test.inputs)
            off = predictions.reshape(test.targets.shape) - test.targets
            yield off.square().flatten(1).mean(1).double().cpu()

    @staticmethod
    def _dense(train: Pairs, sizes: Sequence[int], *, relu: bool) -> Iterator[DenseTraining]:
        """Training sets of a dense layer, ascending."""
        inputs, targets = map(flat, train)
        few = [n for n in sizes if n <= inputs.shape[1]]
        if few:
            ridge = DenseRidge(inputs[: few[-1]], targets[: few[-1]], relu=relu)
            yield from map(ridge.training, few)
        for n in sizes[len(few) :]:
            yield _Rotated(inputs[:n], targets[:n], relu=relu)
