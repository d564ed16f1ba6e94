"""Operator norms by iteration, each with the direction in which it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.seeds import stream_key
from korisk.theory.bracket import NormBracket

Map = Callable[[Tensor], Tensor]
Gram = Map

CHANCE = 1e-6  # that the upper end of a random start fails
EXHAUSTED = 1e-13  # of the largest value: what M may leave of a space that it maps to itself
_MOST_STEPS = 200
STARTS = 4  # random starts that are tried where a witness contradicts an upper end
_WITNESS_STEPS = 4  # of power iteration
_UNIT = 2.3e-16  # of float64
ROUNDING = 1e-10  # relative; far above what float64 loses in these sums


def drawn(shape: tuple[int, ...], seed: int, stream: str) -> Tensor:
    """Standard normal numbers of korisk's own stream, which nobody else draws.

    Not of torch's generator: an operator made from what a user draws after `torch.manual_seed(0)`,
    such as the projection onto its complement, would map the same numbers to zero.
    """
    generator = np.random.Generator(np.random.Philox(key=stream_key(seed, stream)))
    return torch.from_numpy(generator.standard_normal(shape))


def start(shape: tuple[int, ...], seed: int, attempt: int = 0) -> Tensor:
    """A random start of Lanczos, another one for each attempt."""
    return drawn(shape, seed, f"norm start {attempt}")


def largest_singular_value(matrices: Tensor) -> Tensor:
    """(...) spectral norms of (..., m, n) matrices.

    PyTorch with NVIDIA's LAPACK for ARM gives NaN for matrices of rank one, such as those of means.
    """
    largest: Tensor = torch.linalg.matrix_norm(matrices, 2)
    failed = largest.isnan()
    if bool(failed.any()) and bool(matrices.isfinite().all()):
        # The Gram matrix squares small values away, and keeps the largest one.
        # Squares neither over- nor underflow, and a zero matrix stays one.
        scale = matrices.abs().amax((-2, -1), keepdim=True)
        scale = torch.where(scale > 0, scale, 1)
        unit = (matrices if matrices.shape[-2] > matrices.shape[-1] else matrices.mT) / scale
        square = torch.linalg.eigvalsh(unit.mH @ unit)[..., -1].clamp_min(0)
        largest = torch.where(failed, square.sqrt() * scale[..., 0, 0], largest)
    return largest


def is_contradicted(upper: float, forward: Map, adjoint: Map, witness: Tensor) -> bool:
    """Whether a few steps of power iteration exceed an upper end of the norm.

    The vector has nothing to do with the start that the upper end comes from. What it contradicts
    is wrong for certain, so asking can only lower the probability that an upper end fails.
    """
    # A Rayleigh quotient above the upper end, eq:rayleigh, proves that end wrong.
    vector = witness / witness.norm()
    for _ in range(_WITNESS_STEPS):
        image = forward(vector)
        if (largest := size(image)) == 0:
            return False
        image = image / largest  # so that squares neither over- nor underflow
        if largest * float(image.norm()) > upper:
            return True
        vector = adjoint(image)
        if (largest := size(vector)) == 0:
            return False
        vector = vector / largest
        vector = vector / vector.norm()
    return False


def size(image: Tensor) -> float:
    """The order of magnitude of an operator, from the image of the start."""
    largest = float(image.abs().max())
    if not math.isfinite(largest):
        why = "the operator gives NaN or infinity"
        raise KoriskError(f"the norm cannot be found: {why}; check its weights")
    return largest


def random_start_norm(
    gram: Gram, start: Tensor, *, width: float, chance: float = CHANCE, most: float = math.inf
) -> NormBracket:
    """sqrt of the largest eigenvalue of a symmetric M >= 0, from Lanczos with a random start.

    The Ritz value xi_k is never above the eigenvalue, Eq. (eq:rayleigh). Kuczynski and Wozniakowski
    (1992) bound how far below it may be: for a start that is uniform on the sphere of R^n,
    P[xi_k < (1 - eps) lambda] <= 1.648 sqrt(n) exp(-sqrt(eps) (2 k - 1)), whatever the spectrum,
    Eq. (eq:lanczos). A space that M maps to itself but for `length` misses an eigenvalue by at most
    length / |v.q|, where v.q is the start along its eigenvector q: below t / sqrt(n) with a
    probability below t. `most` is a norm that is known not to be exceeded.
    """
    n = start.numel()
    # The lower end may be 1 - eps of the eigenvalue: a norm's relative width is 1/sqrt(1-eps) - 1.
    eps = 1 - (1 + 0.98 * width) ** -2
    # Eq. eq:lanczos solved for the number of steps: 2 k - 1 = needed.
    needed = math.log(1.648 * math.sqrt(n) / chance) / math.sqrt(eps)
    steps = min(n, math.ceil((needed + 1) / 2))
    # With a certain bound the iteration may end as soon as it is reached.
    for last in krylov(gram, start, steps):
        if len(last.basis) < steps and not last.exhausted and most == math.inf:
            continue
        square = max(float(torch.linalg.eigvalsh(last.tridiagonal)[-1]), 0.0)
        lower = math.sqrt(square)
        if lower * (1 + width) >= most:
            lower = min(lower * (1 - ROUNDING), most)
            return NormBracket(lower, most, how="Lanczos from below, a certain bound from above")
    if len(last.basis) == n:
        # All n steps: the tridiagonal matrix has all eigenvalues.
        upper, how = lower * (1 + ROUNDING), "Lanczos to the end"
    else:
        done = len(last.basis)
        how = f"Lanczos, {done} step{'s' * (done > 1)}; "
        how += f"the upper end fails with probability < {chance:g}"
        upper = lower / math.sqrt(1 - eps) * (1 + ROUNDING)
        if last.exhausted:
            upper = math.sqrt(square + missed(last, chance)) * (1 + ROUNDING)
    if most <= upper:
        upper, how = most, "Lanczos from below, a certain bound from above"
    return NormBracket(min(lower * (1 - ROUNDING), upper), upper, how=how)


def missed(space: Krylov, chance: float) -> float:
    """By how much the largest eigenvalue may exceed those of an exhausted Krylov space.

    It exceeds them by more only with probability `chance`.
    """
    # A component of the top eigenvector below chance / sqrt(n) is that improbable, eq:unlucky.
    rounding = _UNIT * float(space.tridiagonal.diagonal().max())
    return (space.length + rounding) * math.sqrt(space.basis.shape[1]) / chance


class Krylov(NamedTuple):
    """The space of k steps of Lanczos: M V = V T + length v e_k^T."""

    basis: Tensor  # the rows are V^T, (k, n)
    tridiagonal: Tensor  # T, (k, k)
    length: float
    exhausted: bool  # whether M maps the space to itself, up to rounding


def krylov(gram: Gram, start: Tensor, steps: int) -> Iterator[Krylov]:
    """The Krylov spaces of a symmetric M >= 0, one step larger each, until one is exhausted."""
    basis = torch.empty((steps, start.numel()), dtype=torch.float64, device=start.device)
    tridiagonal = torch.zeros((steps, steps), dtype=torch.float64)
    vector = start.reshape(-1) / start.norm()
    largest = 1e-300
    for step in range(steps):
        basis[step] = vector
        image = gram(vector.reshape(start.shape)).reshape(-1)
        # Three-term recurrence; what it leaves is made orthogonal to all vectors before.
        tridiagonal[step, step] = vector @ image
        largest = max(largest, float(tridiagonal[step, step]))
        done = basis[: step + 1]
        for _ in range(2):  # orthogonal to working precision, so that no eigenvalue comes twice
            image = image - done.t() @ (done @ image)
        length = float(image.norm())
        exhausted = length <= EXHAUSTED * largest
        yield Krylov(done, tridiagonal[: step + 1, : step + 1], length, exhausted)
        if exhausted or step + 1 == steps:
            return
        tridiagonal[step, step + 1] = tridiagonal[step + 1, step] = length
        vector = image / length


def nonnegative_norm(gram: Gram, start: Tensor, *, width: float) -> NormBracket:
    """Certified bracket of the spectral norm of a matrix without negative entries.

    For M = A^T A >= 0 entrywise and any v > 0, the largest eigenvalue is at most
    max_i (M v)_i / v_i (Collatz and Wielandt), Eq. (eq:collatz), and at least v.M v / v.v,
    Eq. (eq:rayleigh). Power iteration from the vector of ones makes both meet. Its first quotient
    is max(A^T A 1), never above max(A 1) max(A^T 1). A small positive floor under v keeps v > 0
    where entries decay.
    """
    vector, lower, upper, steps = start, 0.0, math.inf, 0
    while steps < _MOST_STEPS and upper > lower * (1 + width) ** 2:
        steps += 1
        image = gram(vector)
        # Rayleigh from below (eq:rayleigh), Collatz and Wielandt from above (eq:collatz).
        lower = max(lower, float((vector * image).sum() / (vector * vector).sum()))
        upper = min(upper, float((image / vector).max()))
        # Entries must stay above 0 for the bound from above.
        vector = (image / image.max()).clamp_min(1e-3 * width)
    how = f"power iteration, {steps} step{'s' * (steps > 1)}, certified for entries >= 0"
    ends = math.sqrt(lower) * (1 - ROUNDING), math.sqrt(max(upper, lower)) * (1 + ROUNDING)
    return NormBracket(*ends, how=how)
