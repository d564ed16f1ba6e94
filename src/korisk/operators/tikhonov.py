"""Tikhonov: the regularised inverse (A^T A + mu I)^-1 A^T of an operator, itself an operator."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import Argument, KoriskError
from korisk.operators import linear, norms
from korisk.operators.caching import version
from korisk.operators.inputs import PLAIN
from korisk.operators.linear import SOLVED, UNCHECKED, LinearOperator, Wrapped, require_operator
from korisk.operators.opaque import Opaque
from korisk.theory.bracket import NormBracket

_LARGEST_SIDE = 20_000  # of the Gram matrix: 3 GiB in float64, and minutes to factor
_SOLVERS = ("factor", "cg")
# Relative residuals in float64: what is aimed for, a digit below 1e-12 because the solution is less
# accurate than its residual, and what is accepted where rounding allows no more.
_RESIDUAL, _ACCEPTED = 1e-13, 1e-8
_MOST_STEPS = 10_000
_STARTS = 3
# Rows of a Gram matrix whose eigenvalues are computed for the norm with "cg" too: at once, and
# where Lanczos leaves a wide bracket.
_DECOMPOSED, _DECOMPOSED_LATER = 1024, 4096
_MOST_LANCZOS, _MOST_BYTES = 250, 2**30  # steps for the norm, and the vectors that they keep
_CHECKS = 16  # at most, on the way to that many steps
_ROUNDING = 1e-12  # of an eigenvalue, relative to the largest
_CHANCE = norms.CHANCE / 2  # that either of two iterations fails


class Tikhonov(Wrapped, Opaque):
    """The regularised inverse: y -> argmin_x |A x - y|^2 + mu |x|^2.

    It maps from the range of A back to its domain. A change of A's weights is noticed, except one
    that autograd does not see (`weights.data`) or of what the functions of an adapted operator hold
    outside of modules: create the inverse again after that. Gradients pass to the input, not to A's
    weights, which must not be trainable.

    Parameters
    ----------
    operator : LinearOperator
        A.
    mu : float
        Weight of |x|^2, > 0, in the square of A's unit; 1e-3 ||A||^2 is a start.
    solver : {"factor", "cg"}, default "factor"
        "factor" factors the smaller of A^T A + mu I and A A^T + mu I in float64 when it is first
        used on a device and in a precision; at most 20,000 rows. "cg" stores no matrix and runs
        conjugate gradients in float64 on every call. Its norm may take some 140 solves for a width
        of 1% where few singular values of A are near sqrt(mu); the bracket is wider than asked for
        only where the system cannot be solved, and `how` says so.

    Raises
    ------
    KoriskError
        If the Gram matrix is too large to factor, A is trainable, mu is lost in rounding, or
        conjugate gradients do not converge.

    Notes
    -----
    (A^T A + mu I)^-1 A^T = A^T (A A^T + mu I)^-1, so the system is solved on the shorter side. A
    singular value s of A becomes s / (s^2 + mu), which is never above 1 / (2 sqrt(mu)).

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Diagonal, Tikhonov
    >>> inverse = Tikhonov(Diagonal([1.0, 3.0]), mu=1.0)
    >>> inverse(torch.tensor([2.0, 10.0])).round(decimals=5).tolist()
    [1.0, 3.0]
    >>> 0.5 <= inverse.norm().upper < 0.5001
    True
    """

    def __init__(self, operator: LinearOperator, mu: float, *, solver: str = "factor") -> None:
        require_operator(operator)
        super().__init__(operator, operator.range, operator.domain, f"{operator.name}^+")
        remedy = "start from 1e-3 ||A||^2; without regularisation the inverse may not exist"
        self.mu = _checks.real("mu", mu, above=0, remedy=remedy)
        _checks.one_of("solver", solver, _SOLVERS)
        self.solver = solver
        # Whether A^T A is the smaller Gram matrix, or A A^T is.
        self._inner = math.prod(operator.domain) <= math.prod(operator.range)
        self._side = operator.domain if self._inner else operator.range
        self._check_fixed()
        rows = math.prod(self._side)
        subject, rule = f"{self.name}: the Gram matrix", f"have at most {_LARGEST_SIDE:,} rows"
        got = f"{rows:,} ({rows**2 * 8 / 2**30:.1f} GiB)"
        remedy = "use a smaller image or solver='cg'"
        fits = solver != "factor" or rows <= _LARGEST_SIDE
        _checks.require(fits, subject, rule, rows, remedy, got=got)

    def extra_repr(self) -> str:
        """The shapes, mu and the solver, as nn.Module prints them."""
        return f"{super().extra_repr()}, mu={self.mu:g}, solver={self.solver!r}"

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        # Iterated in float64: in float32 the residual of the iteration is not true.
        if self.solver == "cg" and x.dtype != torch.float64:
            double: Tikhonov = self._once("in_double")
            return double._product(x.double(), adjoint).to(x.dtype)
        # (A^T A + mu)^-1 A^T = A^T (A A^T + mu)^-1: the smaller matrix is solved.
        map_ = self.of._map if adjoint else self.of._map_adjoint
        return map_(self._solved(x)) if adjoint == self._inner else self._solved(map_(x))

    @property
    def inlined(self) -> bool:  # type: ignore[override]
        """Whether an exported program has the operations themselves, and needs no operator."""
        return self.solver == "factor"

    def _check_fixed(self) -> None:
        remedy = "freeze it with operator.requires_grad_(False)"
        self._require_frozen(self.of, "the operator", remedy)

    def _solved(self, b: Tensor) -> Tensor:
        """(Gram + mu I)^-1 b, on the shorter side."""
        self._check_fixed()
        flat = self._flat(b)
        if self.solver == "cg":
            return _conjugate_gradients(self._system, flat).reshape(b.shape)
        inverse: Tensor = self._once("_inverse")
        return (flat @ inverse).reshape(b.shape)

    def _flat(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.ndim - len(self._side)], math.prod(self._side))

    def _gram(self, flat: Tensor) -> Tensor:
        """Gram x for x of shape (..., side)."""
        maps = self.of._map, self.of._map_adjoint
        forward, adjoint = maps if self._inner else reversed(maps)
        return self._flat(adjoint(forward(flat.reshape(*flat.shape[:-1], *self._side))))

    def _system(self, flat: Tensor) -> Tensor:
        return self._gram(flat) + self.mu * flat

    def _gram_matrix(self) -> Tensor:
        """The Gram matrix, from unit vectors in pieces that stay small."""
        unit = torch.eye(math.prod(self._side), dtype=self.dtype, device=self.device)
        # Numbers of one unit vector and its image.
        both = len(unit) + math.prod(self.range if self._inner else self.domain)
        gram = torch.cat([self._gram(block) for block in torch.split(unit, max(1, 2**26 // both))])
        return (gram + gram.t()) / 2

    def _versions(self) -> tuple[object, ...]:
        tensors = [*self.of.named_parameters(), *self.of.named_buffers()]
        weights = [tensor for name, tensor in tensors if not name.endswith("_anchor")]
        if any(type(tensor) not in PLAIN for tensor in weights):
            rule = "exporters hide the weights of A, which its factor is computed from"
            remedy = "use torch.export.export(..., strict=True)"
            raise KoriskError(f"{self.name}: {rule}; {remedy}")
        return self.of.dtype, self.of.device, *(version(tensor) for tensor in weights)

    def _inverse(self) -> Tensor:
        """(Gram + mu I)^-1, formed: a product with it loses far less in float32 than two solves."""
        gram = self.in_double()._gram_matrix()
        gram.diagonal().add_(self.mu)
        factor, failed = torch.linalg.cholesky_ex(gram)
        if int(failed) or not bool(torch.isfinite(factor).all()):
            enough = f"{1e-12 * float(gram.diagonal().max()):.1g}"
            rule = f" must be above the rounding of A^T A, got {self.mu:g}"
            remedy = f"; raise it, for example to {enough}"
            raise KoriskError(f"{self.name}: ", Argument("mu"), rule, remedy)
        inverse = torch.cholesky_inverse(factor)
        return ((inverse + inverse.t()) / 2).to(self.dtype)

    @property
    def inexact(self) -> str:  # type: ignore[override]
        """Why products of A are known to float32 alone, even in float64."""
        return SOLVED if self.of.inexact == linear.ROUNDED else self.of.inexact

    def _gross_norm(self, upper: float | None = None) -> float:
        return 0.5 / math.sqrt(self.mu) if self.inexact else super()._gross_norm()

    def _norm(self, width: float, seed: int) -> NormBracket:
        """max of s / (s^2 + mu), which rises up to s = sqrt(mu) and falls after it."""
        rows = math.prod(self._side)
        if self.inexact == UNCHECKED:
            return super()._norm(width, seed)
        if self.of.inexact == SOLVED or (self.inexact and rows > _DECOMPOSED):
            how = f"never above 1 / (2 sqrt(mu)); {self.inexact}"
            return NormBracket(0.0, 0.5 / math.sqrt(self.mu), how=how)
        if self.solver == "cg" and rows > _DECOMPOSED:
            bracket = self._iterated_norm(width, seed)
            if bracket.upper <= bracket.lower * (1 + width) * (1 + 2 * _ROUNDING):
                return bracket
            if rows > _DECOMPOSED_LATER:
                return self._solved_norm(bracket, width, seed)
        squares = torch.linalg.eigvalsh(self._gram_matrix())
        # Each eigenvalue is known up to rounding of the largest; small ones feel that most.
        rounding = rows * 2.3e-16 * float(squares[-1].abs())
        how = "eigenvalues of A^T A"
        if self.inexact:  # two products that are off by 1e-5 each move a column by 2e-5
            rounding = 2e-5 * math.sqrt(rows) * self.of._gross_norm() ** 2
            how += f"; {self.inexact}"
        low, high = (squares - rounding).clamp_min(0), (squares + rounding).clamp_min(0)
        # s / (s^2 + mu) is largest at s^2 = mu: the point of each interval that is nearest to it.
        nearest = torch.full_like(low, self.mu).clamp(low, high)
        at_low, at_high, at_peak = (s.sqrt() / (s + self.mu) for s in (low, high, nearest))
        lower = float(torch.minimum(at_low, at_high).max())
        return NormBracket(lower, float(at_peak.max()), how=how)

    def _iterated_norm(self, width: float, seed: int) -> NormBracket:
        """The same from Lanczos on the Gram matrix G of A / ||A||, as narrow as a few steps allow.

        From below: y = (G + mu) z is mapped to A z by the adjoint, so |A z| / |(G + mu) z| is below
        the norm for every z; the largest of a Krylov space V, where G V = V T + length v e_k^T, is
        a singular value of a k x k matrix. From above: s is at least the root of the smallest
        eigenvalue, which the theorem of `norms.random_start_norm` bounds for I - G. It
        is wide where no singular value is near sqrt(mu), or too few are for so few steps.
        """
        of = self.of._norm(width, seed)
        top, n = of.upper, math.prod(self._side)
        if top**2 < self.mu:  # the peak is not reached
            low, high = (end / (end**2 + self.mu) for end in (of.lower, top))
            return NormBracket(low, high, how=f"from ||A||: {of.how}")
        # Of A / ||A||, whose Gram matrix has eigenvalues up to 1.
        mu = (math.sqrt(self.mu) / top) ** 2

        def gain(square: float) -> float:
            return 1 / (math.sqrt(square) + mu / math.sqrt(square)) if square > 0 else 0.0

        def gram(flat: Tensor) -> Tensor:
            return self._gram(flat / top) / top

        lower, upper, due = 0.0, 0.5 / math.sqrt(mu), 1
        start = norms.start((n,), seed).to(self.device)
        most = min(_MOST_LANCZOS, max(50, _MOST_BYTES // (8 * n)))
        for space in norms.krylov(gram, start, most):
            steps = len(space.tridiagonal)
            if steps not in (due, most) and not space.exhausted:
                continue
            due = math.ceil(1.6 * steps)
            values, vectors = torch.linalg.eigh(space.tridiagonal)
            # On the Krylov space G + mu is (T + mu; length e_k^T), a tall matrix.
            shifted = space.tridiagonal + mu * torch.eye(steps, dtype=torch.float64)
            below = torch.zeros(1, steps, dtype=torch.float64)
            below[0, -1] = space.length
            triangle = torch.linalg.qr(torch.cat([shifted, below])).R
            root = vectors.t() * values.clamp_min(0).sqrt()[:, None]
            quotients = torch.linalg.solve_triangular(triangle, root, upper=True, left=False)
            # The vector of the space for which sqrt(z^T G z) / |(G + mu) z| is largest.
            # By NumPy: the SVD of PyTorch may fail, see norms.largest_singular_value.
            best = torch.from_numpy(np.linalg.svd(quotients.numpy())[2][:1]).t()
            inside = torch.linalg.solve_triangular(triangle, best, upper=True)[:, 0]
            z = inside.to(self.device) @ space.basis
            image = gram(z)
            away = float((image + mu * z).norm()) + _ROUNDING * float(z.norm())
            lower = max(lower, math.sqrt(max(float(z @ image), 0.0)) / away)
            # Eq. eq:lanczos for I - G: a lower bound on the smallest eigenvalue of G.
            eps = math.log(1.648 * math.sqrt(n) * _CHECKS / _CHANCE) / (2 * steps - 1)
            far = 1 - float(values[0])
            smallest = 1 - far / (1 - eps**2) - _ROUNDING if eps < 1 else 0.0
            if space.exhausted:
                off = norms.missed(space, _CHANCE)
                smallest = 1 - far - off
                if smallest <= mu:  # every eigenvalue is known up to `off`
                    near = torch.full_like(values, mu).clamp(values - off, values + off)
                    upper = min(upper, max(gain(float(value)) for value in near))
            if smallest > mu:
                upper = min(upper, gain(min(smallest, 1.0)))
            if upper <= lower * (1 + width):
                break
        how = f"Lanczos, {steps} step{'s' * (steps > 1)}"
        if upper < 0.5 / math.sqrt(mu):
            how += f"; the upper end fails with probability < {norms.CHANCE:g}"
        return NormBracket(lower / top, max(upper * (1 + _ROUNDING), lower) / top, how=how)

    def _solved_norm(self, so_far: NormBracket, width: float, seed: int) -> NormBracket:
        """The same by solving: with B = mu (G + mu)^-1, 4 (B - B B) has 4 mu s^2 / (s^2 + mu)^2.

        Its steps need two solves each, and their number depends on the width alone. A relative
        residual r of a solve is at most an error r of B x, so 12 r of the product.
        """
        residuals = []

        def shrunk(x: Tensor) -> Tensor:
            solved = _conjugate_gradients(self._system, x)
            residuals.append(float((x - self._system(solved)).norm() / x.norm()))
            return self.mu * solved

        def gram(x: Tensor) -> Tensor:
            # 4 (B - B^2) with B = mu (G + mu)^-1 has the eigenvalues 4 mu s^2 / (s^2 + mu)^2, 1 at
            # the peak.
            once = shrunk(x)
            return 4 * (once - shrunk(once))

        start = norms.start((math.prod(self._side),), seed).to(self.device)
        peak = 0.5 / math.sqrt(self.mu)
        try:
            bracket = norms.random_start_norm(gram, start, width=width, chance=_CHANCE, most=1.0)
        except KoriskError:  # conjugate gradients do not converge
            how = "Lanczos; wider than asked, conjugate gradients do not converge"
            return NormBracket(so_far.lower, so_far.upper, how=how)
        # An error of each step is one of the matrix, of at most 3 sqrt(steps) times its size.
        error = 36 * math.sqrt(len(residuals) / 2) * max(residuals)
        lower = max(math.sqrt(max(bracket.lower**2 - error, 0.0)) * peak, so_far.lower)
        upper = min(math.sqrt(bracket.upper**2 + 3 * error), 1.0) * peak * (1 + _ROUNDING)
        how = f"Lanczos, {len(residuals)} solves; fails with probability < {norms.CHANCE:g}"
        if upper > lower * (1 + width):
            how = "Lanczos; wider than asked, mu is near the rounding of A^T A"
        return NormBracket(lower, max(lower, upper), how=how)


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
    rule = f"reach a relative residual of {_ACCEPTED:g} within {_MOST_STEPS:,} steps"
    remedy = "raise mu, or use solver='factor'"
    raise KoriskError(f"conjugate gradients must {rule}, and did not; {remedy}")


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
        # The next direction is conjugate to all before it.
        before, square = square, (residual * residual).sum(-1, keepdim=True)
        direction = residual + torch.where(active, square / before, 0.0) * direction
    return x
