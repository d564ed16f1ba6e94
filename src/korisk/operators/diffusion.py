"""Diffusion: the exact flow of advection and diffusion on a periodic line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.operators.linear import LinearOperator
from korisk.theory.bracket import NormBracket


class Diffusion(LinearOperator):
    """u(0) -> u(t) for u_t = nu u_xx - c u_x, on `points` equal steps of a periodic line.

    `viscosity` is nu, `speed` is c, `time` is t and `length` the line's, in units that agree.

    Notes
    -----
    Each wave exp(i k x), k = 2 pi j / length, is multiplied by exp(-(nu k^2 + i c k) t): exact in
    time, and in space for every function that the points resolve.

    >>> import torch
    >>> from korisk.operators import Diffusion
    >>> flow = Diffusion(4, viscosity=0.0, speed=1.0, time=0.25)
    >>> flow(torch.tensor([1.0, 2.0, 3.0, 2.0])).round(decimals=4).tolist()
    [2.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        points: int,
        *,
        viscosity: float,
        speed: float = 0.0,
        time: float,
        length: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        n = _checks.count("points", points, at_least=1, remedy="count the points of the line")
        super().__init__((n,), (n,), name="E", device=device, dtype=dtype)
        remedy = "a line that sharpens with time has no bounded solution"
        self.viscosity = _checks.real("viscosity", viscosity, at_least=0, remedy=remedy)
        self.speed = _checks.real("speed", speed, remedy="give length per time, of either sign")
        remedy = "the flow cannot be run backwards"
        self.time = _checks.real("time", time, at_least=0, remedy=remedy)
        self.length = _checks.real("length", length, above=0, remedy="give the period")

    def _map(self, x: Tensor) -> Tensor:
        return self._filtered(x, self._multiplier())

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self._filtered(y, self._multiplier().conj())

    def _filtered(self, x: Tensor, multiplier: Tensor) -> Tensor:
        moved: Tensor = torch.fft.irfft(torch.fft.rfft(x) * multiplier, n=self.domain[0])
        return moved

    def _multiplier(self) -> Tensor:
        return self._once("multiplier", self._here)

    def _here(self) -> Tensor:
        precision = torch.complex64 if self.dtype == torch.float32 else torch.complex128
        return torch.from_numpy(self._waves()).to(self.device, precision)

    def _waves(self) -> np.ndarray[Any, np.dtype[np.complex128]]:
        """exp(-(nu k^2 + i c k) t) for j = 0 ... points // 2."""
        n = self.domain[0]
        k = 2 * math.pi / self.length * np.arange(n // 2 + 1)
        waves: np.ndarray[Any, np.dtype[np.complex128]] = np.exp(
            -(self.viscosity * self.time * k**2 + 1j * self.speed * self.time * k)
        )
        if n % 2 == 0:
            # The points see of the last wave only cos(k x). Moved by c t it is cos(k x) cos(k c t)
            # plus sin(k x) sin(k c t), and that second part is zero at every point.
            waves[-1] = waves[-1].real
        return waves

    def _norm(self, width: float, seed: int) -> NormBracket:
        # A circulant matrix is normal: its norm is its largest |eigenvalue|, at k = 0 if no other.
        largest = float(np.abs(self._waves()).max())
        return NormBracket(largest, largest, how="largest |multiplier|")
