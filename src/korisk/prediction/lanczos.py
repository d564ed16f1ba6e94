"""Lanczos' method from several starts at once, for sums over a spectrum and for inverses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # (k, m) -> (k, m), each row by its own symmetric C >= 0

# Of the largest step: a smaller vector is rounding, and its space is exhausted.
_EXHAUSTED = {torch.float64: 1e-12, torch.float32: 1e-6}


@dataclass(frozen=True, eq=False)
class Spaces:
    """Krylov spaces of k starts b, with the Ritz values and vectors of C in them."""

    size: Tensor  # (k,) norms of the starts
    nodes: Tensor  # (k, steps) in rising order, >= 0, float64
    turned: Tensor  # (k, steps, steps) eigenvectors in columns, float64
    basis: Tensor  # (k, steps, m)

    @property
    def weights(self) -> Tensor:
        """(k, steps) of b^T f(C) b = sum of weights f(nodes)."""
        return self.size[:, None] ** 2 * self.turned[:, 0].square()

    def applied(self, values: Tensor) -> Tensor:
        """(k, m) f(C) b in the spaces, from f(nodes), (k, steps)."""
        first = self.turned[:, 0] * values * self.size[:, None]
        coordinates = torch.einsum("kij,kj->ki", self.turned, first).to(self.basis)
        return torch.einsum("ki,kim->km", coordinates, self.basis)

    def solved(self, shift: float) -> Tensor:
        """(k, m) (C + shift)^-1 b."""
        return self.applied(1 / (self.nodes + shift))

    def solved_above(self, cut: float) -> Tensor:
        """(k, m) C^-1 b, without eigenvalues up to `cut` of the largest."""
        above = self.nodes > cut * self.nodes[:, -1:]
        return self.applied(torch.where(above, 1 / torch.where(above, self.nodes, 1.0), 0.0))


def lanczos(product: Product, starts: Tensor, *, steps: int, off: Tensor | None = None) -> Spaces:
    """`steps` of Lanczos from each of k starts (k, m), every vector orthogonal to all before it.

    With `off`, (r, m) orthonormal rows, in the space orthogonal to these. A start whose space is
    exhausted goes on with zeros, which get no weight.
    """
    number, entries = starts.shape
    excluded = starts.new_zeros(0, entries) if off is None else off
    steps = max(1, min(steps, entries - len(excluded)))
    small = starts.new_zeros(number, steps, steps, dtype=torch.float64)
    basis = starts.new_zeros(number, steps, entries)
    vector = without(starts, excluded)
    size = torch.linalg.vector_norm(vector, dim=1)
    vector = _scaled(vector, size, torch.zeros_like(size))
    largest = torch.zeros_like(size)
    for step in range(steps):
        basis[:, step] = vector
        image = without(product(vector), excluded)
        here = (vector * image).sum(1)
        small[:, step, step] = here.double()
        # Orthogonalised twice against all before: once leaves rounding that grows with the steps.
        before = basis[:, : step + 1]
        for _ in range(2):
            along = torch.einsum("ksm,km->ks", before, image)
            image = image - torch.einsum("ks,ksm->km", along, before)
        length = torch.linalg.vector_norm(image, dim=1)
        largest = torch.maximum(largest, torch.maximum(length, here.abs()))
        least = _EXHAUSTED[starts.dtype] * largest
        vector = _scaled(image, length, least)
        if step + 1 < steps:
            coupled = torch.where(length > least, length, 0.0).double()
            small[:, step, step + 1] = small[:, step + 1, step] = coupled
    # Gauss quadrature: eigenvalues of the small matrix are nodes, first components the weights.
    nodes, turned = torch.linalg.eigh(small)
    return Spaces(size.double(), nodes.clamp_min(0.0), turned, basis)


def without(rows: Tensor, basis: Tensor) -> Tensor:
    """Rows minus their projections onto an orthonormal basis."""
    return rows - along(rows, basis) @ basis


def along(rows: Tensor, basis: Tensor) -> Tensor:
    """(rows, basis) inner products of every row with every basis vector."""
    # Libraries multiply few columns faster than few rows.
    return (basis @ rows.t()).t()


def _scaled(rows: Tensor, length: Tensor, least: Tensor) -> Tensor:
    """Rows scaled to norm one; zeros where only rounding is left."""
    there = (length > least)[:, None]
    return torch.where(there, rows / torch.where(there, length[:, None], 1.0), 0.0)
