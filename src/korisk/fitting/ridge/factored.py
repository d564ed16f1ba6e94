"""Small ridge systems in float64, by factors in float32 and a few steps of conjugate gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from scipy.linalg import lapack
from torch import Tensor

_WORTH_POLISHING = 512  # unknowns from which a factor in float32 and some steps are quicker
_MOST_STEPS = 12
# Relative residuals: to compare lambdas by, which differ in the second digit, and to keep.
_ROUGH, _EXACT = 1e-8, 1e-13


class FactoredSystem:
    """(G + lambda I) x = b for many lambdas, each factored once; x is nan where that fails.

    A factor in float32 costs half of one in float64 and leads conjugate gradients in float64 to
    the solution in three or four steps. Where it does not, the factor is made in float64.
    """

    def __init__(self, matrix: Tensor, right: Tensor) -> None:
        self.matrix, self.right = matrix, right
        self._worth = matrix.dtype == torch.float64 and len(right) >= _WORTH_POLISHING
        self._single = matrix.float() if self._worth else None
        self._factors: dict[float, Solve | None] = {}
        self._found: dict[tuple[float, bool], Tensor] = {}

    def solve(self, shift: float, *, rough: bool = False) -> Tensor:
        """The solution for one lambda; rough ones are good enough to compare lambdas by."""
        exact = self._found.get((shift, False))
        if exact is not None:
            return exact
        key = shift, rough
        if key not in self._found:
            self._found[key] = self._solved(shift, _ROUGH if rough else _EXACT)
        return self._found[key]

    def _solved(self, shift: float, tolerance: float) -> Tensor:
        if self._single is not None:
            if shift not in self._factors:
                self._factors[shift] = _factored(self._single, shift)
            factor = self._factors[shift]
            found = None if factor is None else self._polished(shift, factor, tolerance)
            if found is not None:
                return found
        shifted = self.matrix.clone()
        shifted.diagonal().add_(shift)
        lower, failed = torch.linalg.cholesky_ex(shifted)
        if int(failed):
            return torch.full_like(self.right, math.nan)
        return torch.cholesky_solve(self.right[:, None], lower)[:, 0]

    def _polished(self, shift: float, factor: Solve, tolerance: float) -> Tensor | None:
        goal = tolerance * float(torch.linalg.vector_norm(self.right))
        found, residual = torch.zeros_like(self.right), self.right.clone()
        direction = preconditioned = factor(residual)
        size = residual @ preconditioned
        for _ in range(_MOST_STEPS):
            product = self.matrix @ direction + shift * direction
            length = size / (direction @ product)
            found += length * direction
            residual -= length * product
            if float(torch.linalg.vector_norm(residual)) <= goal:
                return found
            preconditioned = factor(residual)
            new = residual @ preconditioned
            direction = preconditioned + (new / size) * direction
            size = new
        return None


Solve = Callable[[Tensor], Tensor]  # x in float64 -> about (G + lambda I)^-1 x in float64


def _factored(single: Tensor, shift: float) -> Solve | None:
    """A factor in float32, by LAPACK on the CPU: quicker than PyTorch's for one right side."""
    shifted = single.clone()
    shifted.diagonal().add_(shift)
    if not shifted.is_cpu:
        lower, failed = torch.linalg.cholesky_ex(shifted)
        if int(failed):
            return None
        return lambda x: torch.cholesky_solve(x.float()[:, None], lower)[:, 0].double()
    # The matrix is symmetric, so its transpose is itself in the order that LAPACK wants.
    factor, failed = lapack.spotrf(shifted.numpy().T, lower=1, clean=0, overwrite_a=1)
    if failed:
        return None

    def solve(x: Tensor) -> Tensor:
        found, _ = lapack.spotrs(factor, x.float().numpy(), lower=1)
        return torch.from_numpy(found).double()

    return solve
