"""Norms by iteration, each with the direction in which it is known."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.theory.bracket import NormBracket

Gram = Callable[[Tensor], Tensor]

CHANCE = 1e-6  # that the upper end of a random start fails
_ROUNDING = 1e-10  # relative; far above what float64 loses in these sums


def random_start_norm(
    gram: Gram, shape: tuple[int, ...], device: torch.device, *, width: float, seed: int
) -> NormBracket:
    """sqrt of the largest eigenvalue of a symmetric M >= 0, from Lanczos with a random start.

    The Ritz value xi_k is never above the eigenvalue. Kuczynski and Wozniakowski (1992) bound how
    far below it may be: for a start that is uniform on the sphere of R^n,
    P[xi_k < (1 - eps) lambda] <= 1.648 sqrt(n) exp(-sqrt(eps) (2 k - 1)), whatever the spectrum.
    """
    n = math.prod(shape)
    # The lower end may be 1 - eps of the eigenvalue: a norm's relative width is 1/sqrt(1-eps) - 1.
    eps = 1 - (1 + 0.98 * width) ** -2
    needed = math.log(1.648 * math.sqrt(n) / CHANCE) / math.sqrt(eps)
    steps = min(n, math.ceil((needed + 1) / 2))
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(shape, generator=generator, dtype=torch.float64).to(device)
    size = _size(gram, start)
    if size == 0:  # a random vector is mapped to nothing: so is, almost surely, every other
        return NormBracket(0.0, 0.0, how="a random vector is mapped to zero")
    ritz, exhausted = _largest_ritz_value(lambda x: gram(x) / size, start, steps)
    lower = math.sqrt(ritz) * math.sqrt(size)
    if exhausted or steps == n:
        # An invariant subspace of a random start holds the top eigenvector with probability one.
        upper = lower * (1 + _ROUNDING)
        return NormBracket(lower * (1 - _ROUNDING), upper, how="Lanczos to the end")
    upper = lower / math.sqrt(1 - eps) * (1 + _ROUNDING)
    how = f"Lanczos, {steps} steps; the upper end fails with probability < {CHANCE:g}"
    return NormBracket(lower * (1 - _ROUNDING), upper, how=how)


def _size(gram: Gram, start: Tensor) -> float:
    """The order of magnitude of M, which is divided out: its squares must not underflow."""
    largest = float(gram(start / start.norm()).abs().max())
    if not math.isfinite(largest):
        raise KoriskError(
            "the norm cannot be found: the operator gives NaN or infinity; check its weights"
        )
    return largest


def _largest_ritz_value(gram: Gram, start: Tensor, steps: int) -> tuple[float, bool]:
    """The largest Ritz value, and whether the Krylov space was exhausted."""
    basis = torch.empty((steps, start.numel()), dtype=torch.float64, device=start.device)
    diagonal: list[float] = []
    beside: list[float] = []
    vector = start.reshape(-1) / start.norm()
    for step in range(steps):
        basis[step] = vector
        image = gram(vector.reshape(start.shape)).reshape(-1)
        diagonal.append(float(vector @ image))
        done = basis[: step + 1]
        for _ in range(2):  # orthogonal to working precision, so that no eigenvalue comes twice
            image = image - done.t() @ (done @ image)
        length = float(image.norm())
        if length <= 1e-13 * max(max(diagonal), 1e-300):
            return _top(diagonal, beside), True
        beside.append(length)
        vector = image / length
    return _top(diagonal, beside[: len(diagonal) - 1]), False


def _top(diagonal: list[float], beside: list[float]) -> float:
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        side = torch.tensor(beside, dtype=torch.float64)
        matrix = matrix + torch.diag(side, 1) + torch.diag(side, -1)
    return max(float(torch.linalg.eigvalsh(matrix)[-1]), 0.0)


def nonnegative_norm(
    gram: Gram,
    shape: tuple[int, ...],
    device: torch.device,
    *,
    width: float,
    fallback: Callable[[], float],
) -> NormBracket:
    """The norm of a matrix without negative entries, certain on both sides.

    For M = A^T A >= 0 entrywise and any v > 0, the largest eigenvalue is at most
    max_i (M v)_i / v_i (Collatz and Wielandt), and at least v.M v / v.v. Power iteration from the
    vector of ones makes both meet; the first step alone gives ||A||^2 <= max(A 1) max(A^T 1) or
    better. A small positive floor under v keeps entries that decay from spoiling the quotient.
    """
    vector = torch.ones(shape, dtype=torch.float64, device=device)
    lower, upper = 0.0, fallback() ** 2
    how = "max(A 1) max(A^T 1)"
    for steps in range(1, 201):
        image = gram(vector)
        lower = max(lower, float((vector * image).sum() / (vector * vector).sum()))
        quotient = float((image / vector).max())
        if not math.isfinite(quotient):
            raise KoriskError(
                "the norm cannot be found: the operator gives NaN or infinity; check its weights"
            )
        if quotient < upper:
            upper, how = quotient, f"power iteration, {steps} steps, certified for entries >= 0"
        if upper <= lower * (1 + width) ** 2:
            break
        top = float(image.max())
        if top == 0:
            return NormBracket(0.0, 0.0, how="every entry is zero")
        vector = (image / top).clamp_min(1e-3 * width)
    root = math.sqrt(lower)
    return NormBracket(
        root * (1 - _ROUNDING), math.sqrt(max(upper, lower)) * (1 + _ROUNDING), how=how
    )
