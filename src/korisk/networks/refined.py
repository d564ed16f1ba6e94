"""RefinedNet: learned weights, known operators behind them, and learned convolutions at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.networks.known_operator import KnownOperatorNet
from korisk.operators.linear import LinearOperator

_WIDTH = 3  # of a convolution's kernel


class RefinedNet(nn.Module):
    """S(B W x): (..., *domain) -> (..., rows, columns), with two learned parts around a known one.

    W is diagonal, B is `tail`, and S is two convolutions of 3 x 3 with a ReLU between them and
    `channels` images there, zeros beyond the edges. S begins as the identity on images >= 0, in
    its first channel, and small random kernels in the others.
    """

    def __init__(
        self,
        weights: Any,
        tail: LinearOperator | Sequence[LinearOperator],
        *,
        channels: int,
        generator: torch.Generator | None = None,
        spread: float = 0.1,
    ) -> None:
        super().__init__()
        self.front = KnownOperatorNet(weights, tail, relu=False)
        remedy = "count the images between the two convolutions"
        number = _checks.count("channels", channels, at_least=1, at_most=1024, remedy=remedy)
        operator = self.front.linear_tail
        self.refinement = nn.Sequential(
            nn.Conv2d(1, number, _WIDTH, padding="same"),
            nn.ReLU(),
            nn.Conv2d(number, 1, _WIDTH, padding="same"),
        ).to(operator.device, operator.dtype)
        self._begin(generator or torch.Generator().manual_seed(0), spread)

    @torch.no_grad()
    def _begin(self, generator: torch.Generator, spread: float) -> None:
        for convolution in (self.refinement[0], self.refinement[2]):
            assert isinstance(convolution, nn.Conv2d)
            drawn = spread * torch.randn(convolution.weight.shape, generator=generator)
            convolution.weight.copy_(drawn)
            convolution.weight[0, 0, _WIDTH // 2, _WIDTH // 2] += 1
            assert convolution.bias is not None
            convolution.bias.zero_()

    @property
    def weights(self) -> nn.Parameter:
        """W, of the shape of an input."""
        return self.front.weights

    def forward(self, x: Tensor) -> Tensor:
        """S(B W x); x has shape (..., *domain)."""
        return self.refine(self.front(x))

    def refine(self, images: Tensor) -> Tensor:
        """S of (..., rows, columns)."""
        rows, columns = images.shape[-2:]
        refined: Tensor = self.refinement(images.reshape(-1, 1, rows, columns))
        return refined.reshape(images.shape)
