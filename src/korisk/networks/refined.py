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

    W is diagonal, B is `tail`, and S is two convolutions of 3 x 3 with a ReLU between them, zeros
    beyond the edges. S starts as the identity on images >= 0 in its first channel, with small
    random kernels in all of them.

    Parameters
    ----------
    weights : tensor or array of shape domain
        Start of W, as in `KnownOperatorNet`.
    tail : LinearOperator or sequence of LinearOperator
        B, as in `KnownOperatorNet`; its range is (rows, columns).
    channels : int
        Images between the two convolutions, 1 to 1024.
    generator : torch.Generator, optional
        Draws the random kernels. Default: one seeded with 0.
    spread : float, default 0.1
        Standard deviation of the random kernels.

    Raises
    ------
    KoriskError
        As `KnownOperatorNet`, and if `channels` is out of range.

    Examples
    --------
    >>> import torch
    >>> from korisk.networks import RefinedNet
    >>> from korisk.operators import ParallelBeam, fbp
    >>> first, *tail = fbp(ParallelBeam(8, views=6, bins=12))
    >>> RefinedNet(first.weights, tail, channels=2)(torch.ones(3, 6, 12)).shape
    torch.Size([3, 8, 8])
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
        drawn_by = generator or torch.Generator().manual_seed(0)
        with torch.no_grad():
            for convolution in (self.refinement[0], self.refinement[2]):
                assert isinstance(convolution, nn.Conv2d)
                drawn = spread * torch.randn(convolution.weight.shape, generator=drawn_by)
                convolution.weight.copy_(drawn)
                convolution.weight[0, 0, _WIDTH // 2, _WIDTH // 2] += 1
                assert convolution.bias is not None
                convolution.bias.zero_()

    @property
    def weights(self) -> nn.Parameter:
        """W, of the shape of an input."""
        return self.front.weights

    def forward(self, x: Tensor) -> Tensor:
        """S(B W x).

        Parameters
        ----------
        x : tensor of shape (..., *domain)
            Inputs.

        Returns
        -------
        tensor of shape (..., rows, columns)
            Outputs.
        """
        return self.refine(self.front(x))

    def refine(self, images: Tensor) -> Tensor:
        """S alone.

        Parameters
        ----------
        images : tensor of shape (..., rows, columns)
            Images.

        Returns
        -------
        tensor of shape (..., rows, columns)
            Refined images.
        """
        rows, columns = images.shape[-2:]
        refined: Tensor = self.refinement(images.reshape(-1, 1, rows, columns))
        return refined.reshape(images.shape)
