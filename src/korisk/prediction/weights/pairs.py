"""Pairs behind known operators: predictions, losses and gradients of weights, in pieces."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from korisk.fitting.ridge.diagonal import parts
from korisk.fitting.scores import flat
from korisk.operators import LinearOperator
from korisk.prediction.weights.resolvent import Normal, Resolvent


class Pairs:
    """Inputs and targets of a tail, worked on in pieces."""

    def __init__(self, tail: LinearOperator, inputs: Tensor, targets: Tensor, relu: bool) -> None:
        self.tail, self.inputs, self.targets, self.relu = tail, inputs, targets, relu

    def __len__(self) -> int:
        return len(self.inputs)

    def some(self, which: slice) -> Pairs:
        """Some of them."""
        return Pairs(self.tail, self.inputs[which], self.targets[which], self.relu)

    def images(self, weights: Tensor) -> Tensor:
        """B (w ∘ x_k), (n, *range), before the ReLU."""
        found = torch.empty_like(self.targets)
        for part in self._parts():
            found[part] = self.tail._map(self.inputs[part] * weights)
        return found

    def residuals(self, weights: Tensor) -> Tensor:
        """B (w ∘ x_k) - y_k, (n, *range), as the fit sees them, without the ReLU."""
        return self.images(weights).sub_(self.targets)

    def losses(self, weights: Tensor) -> Tensor:
        """The squared errors of the predictions, (n,)."""
        images = self.images(weights)
        if self.relu:
            images.relu_()
        return flat(images.sub_(self.targets)).double().square().sum(1)

    def gradients(self, residuals: Tensor) -> Tensor:
        """x_k ∘ B^T r_k, (n, *domain)."""
        found = torch.empty_like(self.inputs)
        for part in self._parts():
            found[part] = self.inputs[part] * self.tail._map_adjoint(residuals[part])
        return found

    def passed(
        self, weights: Tensor, normal: Normal, resolvent: Resolvent, gradients: Tensor
    ) -> float:
        """The share of a change's square that the ReLU passes, for changes as chance makes them."""
        if not self.relu:
            return 1.0
        generator = torch.Generator().manual_seed(3)
        signs = torch.randint(0, 2, (resolvent.probes, len(self)), generator=generator) * 2 - 1
        changes = normal.spread(resolvent.solve(signs.to(gradients) @ gradients))
        active = self.images(weights) > 0
        passed = total = 0.0
        for change in changes:
            squares = self.images(change).double().square()
            passed += float((squares * active).sum())
            total += float(squares.sum())
        return passed / total if total else 1.0

    def _parts(self) -> list[slice]:
        return list(parts(len(self), math.prod(self.tail.domain) + math.prod(self.tail.range)))
