"""(G + lambda I) x = b for many lambdas: by factors where G is small, by a Krylov space elsewhere.

Both take a symmetric G >= 0 and give nan where a lambda is too small for G in rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # x (n,) -> G x (n,), or another linear map of it

_WORTH_POLISHING = 512  # unknowns from which a factor in float32 and some steps are quicker
_POLISHING_STEPS = 12
# Relative residuals: to compare lambdas by, which differ in the second digit, and to keep.
_ROUGH, _EXACT = 1e-8, 1e-13
_PIECE = 32  # Lanczos steps between checks of the residuals, and by which the basis grows


class FactoredSystem:
    """Each lambda is factored once; for systems of up to some thousand unknowns.

    A factor in float32 costs half of one in float64 and leads conjugate gradients in float64 to
    the solution in three or four steps. Where it does not, the factor is made in float64.
    """

    def __init__(self, matrix: Tensor, right: Tensor) -> None:
        self.matrix, self.right = matrix, right
        worth = matrix.dtype == torch.float64 and len(right) >= _WORTH_POLISHING
        self._single = matrix.float() if worth else None
        self._factors: dict[float, Product | None] = {}
        self._found: dict[tuple[float, bool], Tensor] = {}

    def solve(self, shift: float, *, rough: bool = False) -> Tensor:
        """The solution for one lambda; rough ones are good enough to compare lambdas by."""
        for known in ((shift, False), (shift, rough)):
            if known in self._found:
                return self._found[known]
        found = None
        if self._single is not None:
            if shift not in self._factors:
                self._factors[shift] = _factored(self._single, shift)
            factor = self._factors[shift]
            if factor is not None:
                tolerance = _ROUGH if rough else _EXACT
                found = conjugate_gradients(self.matrix, self.right, shift, factor, tolerance)
        if found is None:
            shifted = self.matrix.clone()
            shifted.diagonal().add_(shift)
            lower, failed = torch.linalg.cholesky_ex(shifted)
            if int(failed):
                found = torch.full_like(self.right, math.nan)
            else:
                found = torch.cholesky_solve(self.right[:, None], lower)[:, 0]
        self._found[shift, rough] = found
        return found


def conjugate_gradients(
    matrix: Tensor, right: Tensor, shift: float, preconditioner: Product, tolerance: float
) -> Tensor | None:
    """The solution of one system to a relative residual; None if a few steps do not suffice."""
    goal = tolerance * float(torch.linalg.vector_norm(right))
    found, residual = torch.zeros_like(right), right.clone()
    direction = preconditioned = preconditioner(residual)
    size = residual @ preconditioned
    for _ in range(_POLISHING_STEPS):
        product = matrix @ direction + shift * direction
        length = size / (direction @ product)
        found += length * direction
        residual -= length * product
        if float(torch.linalg.vector_norm(residual)) <= goal:
            return found
        preconditioned = preconditioner(residual)
        new = residual @ preconditioned
        direction = preconditioned + (new / size) * direction
        size = new
    return None


def _factored(single: Tensor, shift: float) -> Product | None:
    """x -> (G + lambda I)^-1 x by a factor in float32; None where G is not positive definite."""
    shifted = single.clone()
    shifted.diagonal().add_(shift)
    if not shifted.is_cpu:
        lower, failed = torch.linalg.cholesky_ex(shifted)
        if int(failed):
            return None
        return lambda x: torch.cholesky_solve(x.float()[:, None], lower)[:, 0].double()
    # LAPACK is quicker than PyTorch for one right side. The matrix is symmetric, so its transpose
    # is itself in the order that LAPACK wants.
    factor, failed = lapack.spotrf(shifted.numpy().T, lower=1, clean=0, overwrite_a=1)
    if failed:
        return None
    return lambda x: torch.from_numpy(lapack.spotrs(factor, x.float().numpy(), lower=1)[0]).double()


class Krylov:
    """Lanczos' basis of the space b, G b, G^2 b, ...: one for all lambdas.

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
            at = self.steps
            self.exhausted = self.exhausted or at == self._basis.shape[1]
            if self.exhausted:
                return
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
        if self.exhausted:
            return np.zeros(len(shifts))
        if not self.steps:
            return np.ones(len(shifts))
        return np.asarray(abs(self._coordinates(shifts)[:, -1]) * self._beside[-1])

    def solve(self, shifts: Sequence[float]) -> Tensor:
        """The present solutions, (shifts, n)."""
        if not self.steps:
            return self._basis.new_zeros(len(shifts), self._basis.shape[1])
        coordinates = torch.from_numpy(self._coordinates(shifts) * self.size)
        return coordinates.to(self._basis) @ self._basis[: self.steps]

    def converge(self, shifts: Sequence[float], *, tolerance: float, most: int) -> bool:
        """Take steps, `most` in all, until every lambda's residual is small; whether it is."""
        while True:
            if self.residuals(shifts).max(initial=0.0) <= tolerance:
                return True
            if self.steps >= most:
                return False
            self.extend(min(_PIECE, most - self.steps))

    def _coordinates(self, shifts: Sequence[float]) -> NDArray[np.float64]:
        """(shifts, steps) of x / |b| in the basis: tridiagonal systems, nan where one fails."""
        first = np.zeros(self.steps)
        first[0] = 1.0
        bands = np.zeros((2, self.steps))
        bands[0, 1:] = self._beside[:-1]
        found = np.full((len(shifts), self.steps), math.nan)
        for row, shift in enumerate(shifts):
            bands[1] = np.array(self._diagonal) + shift
            if self.steps == 1:
                found[row] = first / bands[1]
                continue
            try:
                found[row] = scipy.linalg.solveh_banded(bands, first, check_finite=False)
            except np.linalg.LinAlgError:  # not positive definite in rounding
                continue
        return found
