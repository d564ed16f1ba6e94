"""One Krylov space for a whole grid of lambdas: (G + lambda I) x = b for every lambda at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # x (n,) -> G x (n,)

_PIECE = 32  # steps between looks at the residuals, and by which the basis grows


class Krylov:
    """Lanczos' basis of the space b, G b, G^2 b, ... of a symmetric G >= 0.

    The space does not change when a multiple of I is added to G, so the basis that solves one
    lambda solves all, and a smaller lambda only asks for more of it. Vectors are made orthogonal to
    all before them, twice, because short recurrences lose that in rounding.
    """

    def __init__(self, product: Product, right: Tensor) -> None:
        self.product = product
        self.size = float(torch.linalg.vector_norm(right))
        self.steps = 0
        self.exhausted = self.size == 0.0
        self._basis = right.new_empty(min(_PIECE, len(right)) + 1, len(right))
        if self.size:
            self._basis[0] = right / self.size
        self._diagonal: list[float] = []
        self._beside: list[float] = []

    def extend(self, steps: int) -> None:
        """Take more steps, fewer where the space is exhausted."""
        for _ in range(steps):
            if self.exhausted or self.steps == self._basis.shape[1]:
                self.exhausted = True
                return
            self._step()

    def _step(self) -> None:
        at = self.steps
        if at + 1 == len(self._basis):
            more = self._basis.new_empty(_PIECE, self._basis.shape[1])
            self._basis = torch.cat([self._basis, more])
        vector = self.product(self._basis[at])
        before = self._basis[: at + 1]
        along = before @ vector
        vector = vector - along @ before
        vector -= (before @ vector) @ before
        diagonal, length = torch.stack([along[at], torch.linalg.vector_norm(vector)]).tolist()
        self._diagonal.append(diagonal)
        self._beside.append(length)
        self.steps = at + 1
        # What is left is rounding: the space holds the solutions for every lambda.
        if length <= 10 * torch.finfo(vector.dtype).eps * max(self._diagonal):
            self.exhausted = True
        else:
            self._basis[at + 1] = vector / length

    def residuals(self, shifts: Sequence[float]) -> NDArray[np.float64]:
        """|b - (G + lambda I) x| / |b| of the present solutions, for each lambda."""
        if not self.size:
            return np.zeros(len(shifts))
        if not self.steps:
            return np.ones(len(shifts))
        last = abs(self._coordinates(shifts)[:, -1]) * self._beside[-1]
        return np.zeros(len(shifts)) if self.exhausted else np.asarray(last)

    def solve(self, shifts: Sequence[float]) -> Tensor:
        """The present solutions, (shifts, n)."""
        if not self.steps:
            return self._basis.new_zeros(len(shifts), self._basis.shape[1])
        coordinates = torch.from_numpy(self._coordinates(shifts) * self.size)
        return coordinates.to(self._basis) @ self._basis[: self.steps]

    def converge(self, shifts: Sequence[float], *, tolerance: float, most: int) -> bool:
        """Take steps, `most` in all, until every lambda's residual is small; whether it is."""
        while True:
            if self.exhausted or self.residuals(shifts).max(initial=0.0) <= tolerance:
                return True
            if self.steps >= most:
                return False
            self.extend(min(_PIECE, most - self.steps))

    def _coordinates(self, shifts: Sequence[float]) -> NDArray[np.float64]:
        """(shifts, steps) of x / |b| in the basis: the tridiagonal systems."""
        first = np.zeros(self.steps)
        first[0] = 1.0
        bands = np.zeros((2, self.steps))
        bands[0, 1:] = self._beside[:-1]
        found = np.empty((len(shifts), self.steps))
        for row, shift in enumerate(shifts):
            bands[1] = np.array(self._diagonal) + shift
            found[row] = _tridiagonal(bands, first)
        return found


def _tridiagonal(bands: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(right) == 1:
        return np.asarray(right / bands[1])
    try:
        return np.asarray(scipy.linalg.solveh_banded(bands, right, check_finite=False))
    except np.linalg.LinAlgError:  # not positive definite in rounding: lambda is too small for it
        return np.full(len(right), math.nan)
