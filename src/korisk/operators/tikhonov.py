"""Tikhonov: the regularised inverse (A^T A + mu I)^-1 A^T of an operator, itself an operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.operators.linear import LinearOperator, Shape
from korisk.theory.bracket import NormBracket

_LARGEST_SIDE = 20_000  # of the Gram matrix: 3 GiB in float64, and minutes to factor
_SOLVERS = ("factor", "cg")
# Relative residuals in float64: what is aimed for, a digit below 1e-12 because the solution is less
# accurate than its residual, and what is accepted where rounding allows no more.
_RESIDUAL, _ACCEPTED = 1e-13, 1e-8
_MOST_STEPS = 10_000
_STARTS = 3


class Tikhonov(LinearOperator):
    """y -> argmin_x |A x - y|^2 + mu |x|^2, from the range of `operator` back to its domain.

    `solver="factor"` factors the smaller of A^T A + mu I and A A^T + mu I in float64 when first
    used on a device and in a precision; `solver="cg"` keeps no such matrix and runs conjugate
    gradients in float64 on every call, and its norm is bracketed widely, from that of A. A change
    of A's weights is noticed, except behind autograd's back (`weights.data`). Gradients pass to
    the input, not to weights of A, which must not be trainable.

    Notes
    -----
    (A^T A + mu I)^-1 A^T = A^T (A A^T + mu I)^-1, so that the shorter side is the one to solve
    on. The singular values are s / (s^2 + mu) and never above 1 / (2 sqrt(mu)).

    >>> import torch
    >>> from korisk.operators import Diagonal, Tikhonov
    >>> inverse = Tikhonov(Diagonal([1.0, 3.0]), mu=1.0)
    >>> inverse(torch.tensor([2.0, 10.0])).round(decimals=5).tolist()
    [1.0, 3.0]
    >>> 0.5 <= inverse.norm().upper < 0.5001
    True
    """

    def __init__(self, operator: LinearOperator, mu: float, *, solver: str = "factor") -> None:
        if not isinstance(operator, LinearOperator):
            raise KoriskError(f"operator must be a LinearOperator, got {shown(operator)}")
        super().__init__(
            operator.range,
            operator.domain,
            name=f"{operator.name}^+",
            device=operator.device,
            dtype=operator.dtype,
        )
        remedy = "start from 1e-3 ||A||^2; without regularisation the inverse may not exist"
        self.mu = _checks.real("mu", mu, above=0, remedy=remedy)
        _checks.one_of("solver", solver, _SOLVERS)
        self.solver = solver
        self.operator = operator
        self._refuse_trainable()
        if solver == "factor":
            self._refuse_large()

    def _first_part(self) -> LinearOperator:
        return self.operator

    def extra_repr(self) -> str:
        """The shapes, the weight and the solver, as nn.Module prints them."""
        return f"{super().extra_repr()}, mu={self.mu:g}, solver={self.solver!r}"

    @property
    def _inner(self) -> bool:
        """Whether A^T A is the smaller Gram matrix."""
        return math.prod(self.operator.domain) <= math.prod(self.operator.range)

    @property
    def _needs_double(self) -> bool:
        """Whether to iterate in float64: in float32 the residual of the iteration is not true."""
        return self.solver == "cg" and self.dtype != torch.float64

    @property
    def _side(self) -> Shape:
        return self.operator.domain if self._inner else self.operator.range

    def _map(self, x: Tensor) -> Tensor:
        if self._needs_double:
            return self._doubled()._map(x.double()).to(x.dtype)
        if self._inner:
            return self._solved(self.operator._map_adjoint(x))
        return self.operator._map_adjoint(self._solved(x))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        if self._needs_double:
            return self._doubled()._map_adjoint(y.double()).to(y.dtype)
        if self._inner:
            return self.operator._map(self._solved(y))
        return self._solved(self.operator._map(y))

    def _solved(self, b: Tensor) -> Tensor:
        """(Gram + mu I)^-1 b, on the shorter side."""
        self._refuse_trainable()
        flat = _flat(b, self._side)
        if self.solver == "cg":
            return _solved_by_iteration(self._system, flat).reshape(b.shape)
        return (flat @ self._inverse()).reshape(b.shape)

    def _gram(self, flat: Tensor) -> Tensor:
        """Gram x for x of shape (..., side)."""
        x = flat.reshape(*flat.shape[:-1], *self._side)
        if self._inner:
            return _flat(self.operator._map_adjoint(self.operator._map(x)), self._side)
        return _flat(self.operator._map(self.operator._map_adjoint(x)), self._side)

    def _system(self, flat: Tensor) -> Tensor:
        return self._gram(flat) + self.mu * flat

    def _inverse(self) -> Tensor:
        """(Gram + mu I)^-1 in the operator's precision, kept until a weight of A changes."""
        versions = _versions(self.operator)
        factored = self._once("factored", lambda: self._factor(versions))
        if factored.versions != versions:
            del self._made["factored"]
            return self._inverse()
        return factored.inverse

    def _doubled(self) -> Tikhonov:
        """This operator in float64, in which it is iterated; kept until a weight of A changes."""
        versions = _versions(self.operator)
        kept, double = self._once("doubled", lambda: (versions, self.in_double()))
        if kept != versions:
            del self._made["doubled"]
            return self._doubled()
        assert isinstance(double, Tikhonov)
        return double

    def _factor(self, versions: tuple[Any, ...]) -> _Factored:
        double = self.in_double()
        assert isinstance(double, Tikhonov)
        inverse = _inverse_of(double._gram_matrix(), self.mu, self.name)
        return _Factored(versions, inverse.to(self.dtype))

    def _gram_matrix(self) -> Tensor:
        """The Gram matrix, from unit vectors in pieces that stay small."""
        side = math.prod(self._side)
        both = side + math.prod(self.range if self._inner else self.domain)
        unit = torch.eye(side, dtype=self.dtype, device=self.device)
        pieces = torch.split(unit, max(1, 2**26 // both))
        gram = torch.cat([self._gram(part) for part in pieces])
        return (gram + gram.t()) / 2

    def _norm(self, width: float, seed: int) -> NormBracket:
        if self.solver == "cg":
            # Iterating on what is itself iterated would take minutes: the largest singular value
            # of A gives one of this operator's, and s / (s^2 + mu) has a largest value.
            of = self.operator._norm(width, seed)
            lower = min(end / (end**2 + self.mu) for end in (of.lower, of.upper))
            highest = _highest(self.mu, of.upper)
            return NormBracket(min(lower, highest), highest, how="from ||A||; wide, see Tikhonov")
        return _norm_from(torch.linalg.eigvalsh(self._gram_matrix()), self.mu)

    def _refuse_trainable(self) -> None:
        if any(weights.requires_grad for weights in self.operator.parameters()):
            raise KoriskError(
                f"{self.name}: the operator must not be trainable, got weights that require "
                "gradients, which would be lost; freeze it with operator.requires_grad_(False)"
            )

    def _refuse_large(self) -> None:
        side = math.prod(self._side)
        if side > _LARGEST_SIDE:
            raise KoriskError(
                f"{self.name}: the Gram matrix must have at most {_LARGEST_SIDE:,} rows, got "
                f"{side:,} ({side**2 * 8 / 2**30:.1f} GiB); use a smaller image or solver='cg'"
            )


class _Factored(NamedTuple):
    versions: tuple[Any, ...]
    inverse: Tensor


class _ConjugateGradients(torch.autograd.Function):
    """b -> M^-1 b for a symmetric M > 0: its own adjoint, so no iteration is recorded."""

    @staticmethod
    def forward(system: Callable[[Tensor], Tensor], b: Tensor) -> Tensor:
        with torch.no_grad():
            return _conjugate_gradients(system, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.system = inputs[0]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        (cotangent,) = cotangents
        return None, _solved_by_iteration(ctx.system, cotangent)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _solved_by_iteration(ctx.system, tangents[1])

    @staticmethod
    def vmap(info: Any, in_dims: Any, system: Any, b: Tensor) -> Any:
        return _solved_by_iteration(system, b.movedim(in_dims[1], 0)), 0


def _solved_by_iteration(system: Callable[[Tensor], Tensor], b: Tensor) -> Tensor:
    return cast(Tensor, _ConjugateGradients.apply(system, b))  # type: ignore[no-untyped-call]


def _conjugate_gradients(system: Callable[[Tensor], Tensor], b: Tensor) -> Tensor:
    """M x = b in float64 for b of shape (..., n), each item on its own, and checked at the end."""
    scale = b.abs().amax(-1, keepdim=True)  # so that squares neither overflow nor vanish
    target = b / torch.where(scale == 0, 1.0, scale)
    size = target.norm(dim=-1, keepdim=True)
    x: Tensor = torch.zeros_like(b) + 0 * scale  # NaN and infinities in b are NaN in x
    residual = target
    for _ in range(_STARTS):  # the residual that the iteration carries along drifts from the true
        x = x + _descent(system, residual, _RESIDUAL * size)
        residual = target - system(x)
        reached = residual.norm(dim=-1, keepdim=True) <= _ACCEPTED * size
        if bool((reached | ~torch.isfinite(size)).all()):
            return x * scale
    raise KoriskError(
        f"conjugate gradients must reach a relative residual of {_ACCEPTED:g} within "
        f"{_MOST_STEPS:,} steps, and did not; raise mu, or use solver='factor'"
    )


def _descent(system: Callable[[Tensor], Tensor], b: Tensor, limit: Tensor) -> Tensor:
    """Steps of conjugate gradients from zero, until the carried residual is below the limit."""
    residual = direction = b
    x = torch.zeros_like(b)
    square = (residual * residual).sum(-1, keepdim=True)
    for _ in range(_MOST_STEPS):
        active = square.sqrt() > limit
        if not bool(active.any()):
            break
        image = system(direction)
        # Where an item is done, its quotients would be 0 / 0: it takes steps of length zero.
        curvature = (direction * image).sum(-1, keepdim=True)
        step = torch.where(active, square / curvature, 0.0)
        x = x + step * direction
        residual = residual - step * image
        before, square = square, (residual * residual).sum(-1, keepdim=True)
        direction = residual + torch.where(active, square / before, 0.0) * direction
    return x


def _inverse_of(gram: Tensor, mu: float, name: str) -> Tensor:
    """(G + mu I)^-1, formed: a product with it loses far less in float32 than two solves do."""
    gram.diagonal().add_(mu)
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        raise KoriskError(
            f"{name}: mu must stand above the rounding of A^T A, got {mu:g}; raise it, for example "
            f"to {1e-12 * float(gram.diagonal().max()):.1g}"
        )
    inverse = torch.cholesky_inverse(factor)
    return (inverse + inverse.t()) / 2


def _norm_from(eigenvalues: Tensor, mu: float) -> NormBracket:
    """max of sqrt(e) / (e + mu), which rises up to e = mu and falls after it."""
    # Each eigenvalue is known up to rounding of the largest; small ones feel that most.
    rounding = len(eigenvalues) * 2.3e-16 * float(eigenvalues[-1].abs())
    low, high = (eigenvalues - rounding).clamp_min(0), (eigenvalues + rounding).clamp_min(0)
    nearest = torch.full_like(low, mu).clamp(low, high)
    lower = torch.minimum(_singular_value(low, mu), _singular_value(high, mu)).max()
    upper = _singular_value(nearest, mu).max()
    return NormBracket(float(lower), float(upper), how="eigenvalues of A^T A")


def _singular_value(square: Tensor, mu: float) -> Tensor:
    return square.sqrt() / (square + mu)


def _highest(mu: float, largest: float) -> float:
    """max of s / (s^2 + mu) over 0 <= s <= largest."""
    return largest / (largest**2 + mu) if largest**2 < mu else 1 / (2 * math.sqrt(mu))


def _flat(x: Tensor, shape: Shape) -> Tensor:
    return x.reshape(*x.shape[: x.ndim - len(shape)], math.prod(shape))


def _versions(operator: LinearOperator) -> tuple[Any, ...]:
    """What changes when a weight of the operator is written to or replaced."""
    held = [*operator.parameters(), *operator.buffers()]
    places = operator.dtype, operator.device
    return *places, *((t.data_ptr(), 0 if t.is_inference() else t._version) for t in held)
