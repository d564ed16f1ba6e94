"""Norms of linear maps that are given as functions: their adjoint comes from autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from korisk.operators.linear import LinearOperator
from korisk.theory.bracket import NormBracket

_ROUNDING = 1e-12  # relative; above what a float64 singular value loses
_LARGEST_DECOMPOSED = 1024  # short side up to which all singular values take no time to speak of
_MOST_BYTES = 2**28  # of the vectors that Lanczos keeps
_WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of a bracket, relative: the first that fits is taken


class LinearPart(LinearOperator):
    """x -> f(x) - f(0) for an affine f, in float64; the adjoint is f's vector-Jacobian product."""

    def __init__(
        self, function: Callable[[Tensor], Tensor], example: Tensor, *, nonnegative: bool = False
    ) -> None:
        self._origin = torch.zeros_like(example, dtype=torch.float64).requires_grad_()
        with torch.enable_grad():
            value = function(self._origin)
        super().__init__(
            example.shape, value.shape, name="f", device=example.device, dtype=torch.float64
        )
        self._function = function
        self._value, self._at_zero = value, value.detach()
        self.nonnegative = nonnegative

    def _map(self, x: Tensor) -> Tensor:
        return self._function(x) - self._at_zero

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return pulled_back(self._value, self._origin, y)

    def is_linear(self) -> bool:
        """Whether two random vectors and their sum say so.

        Measured by the linear part alone, and against the adjoint, which no offset enters: where
        f(0) is so large that it drowns the rest, f(x) - f(0) says nothing, and the answer is no.
        """
        generator = torch.Generator().manual_seed(1)
        one, two = (
            torch.randn(self.domain, generator=generator, dtype=torch.float64).to(self.device)
            for _ in range(2)
        )
        with torch.no_grad():
            whole, parts = self._map(one - 3 * two), self._map(one) - 3 * self._map(two)
            scale = float(parts.abs().max()) if parts.numel() else 0.0
            additive = bool(((whole - parts).abs() <= 1e-9 * scale).all())
        return additive and self._agrees_with_its_adjoint(one, generator)

    def _agrees_with_its_adjoint(self, x: Tensor, generator: torch.Generator) -> bool:
        y = torch.randn(self.range, generator=generator, dtype=torch.float64).to(self.device)
        with torch.no_grad():
            there = self._map(x)
        back = self._map_adjoint(y)
        slack = 1e-7 * float(there.norm() * y.norm() + x.norm() * back.norm())
        return abs(float((there * y).sum() - (x * back).sum())) <= slack

    def bracket(self) -> NormBracket:
        """The norm, as narrow as the memory for Lanczos allows."""
        size = min(math.prod(self.domain), math.prod(self.range))
        return self.norm(width=next((w for w in _WIDTHS if _bytes(size, w) <= _MOST_BYTES), 0.5))


def pulled_back(value: Tensor, at: Tensor, y: Tensor) -> Tensor:
    """The vector-Jacobian product J^T y of a value that was computed from `at`.

    Not by torch.func, whose first use loads torch's compiler.
    """
    if not value.requires_grad:  # it does not depend on `at`
        return torch.zeros_like(at)
    images = torch.autograd.grad(value, at, y, retain_graph=True, allow_unused=True)
    image = cast(Tensor | None, images[0])
    return torch.zeros_like(at) if image is None else image


def function_norm(
    function: Callable[[Tensor], Tensor], example: Tensor, *, nonnegative: bool = False
) -> NormBracket | None:
    """The norm of an affine function's linear part; None where it is not affine after all."""
    part = LinearPart(function, example, nonnegative=nonnegative)
    return part.bracket() if part.is_linear() else None


def matrix_norm(matrix: Tensor) -> NormBracket:
    """The largest singular value of a matrix, whatever its precision."""
    matrix = matrix.detach()
    if matrix.is_complex():  # the same map of real and imaginary parts
        real, imaginary = matrix.real, matrix.imag
        rows = torch.cat([real, -imaginary], 1), torch.cat([imaginary, real], 1)
        matrix = torch.cat(rows)
    matrix = matrix.to(torch.float64)
    if min(matrix.shape) <= _LARGEST_DECOMPOSED:
        # The Gram matrix would square the condition, but the largest value is what is asked for.
        largest = float(torch.linalg.matrix_norm(matrix, 2))
        ends = largest * (1 - _ROUNDING), largest * (1 + _ROUNDING)
        return NormBracket(*ends, how="largest singular value")
    part = LinearPart(lambda x: matrix @ x, matrix.new_zeros(matrix.shape[1]))
    return part.bracket()


def _bytes(size: int, width: float) -> float:
    eps = 1 - (1 + 0.98 * width) ** -2
    steps = math.log(1.648 * math.sqrt(size) / 1e-6) / math.sqrt(eps) / 2 + 1
    return min(steps, size) * size * 8
