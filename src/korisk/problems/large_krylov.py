"""Leading eigenvectors of a symmetric C >= 0 by blocks, and what Lanczos sees of the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # (k, m) -> (k, m)

STEPS = 48  # of Lanczos: what a threshold inside a spectrum of three decades needs
_NOTHING = (
    1e-7  # of the largest eigenvalue: smaller ones are float32's rounding, and left to Lanczos
)
_EXHAUSTED = 1e-12  # of the largest step: what is left of a vector then is rounding


def leading_vectors(product: Product, start: Tensor, *, blocks: int, tolerance: float) -> Tensor:
    """(R, m) orthonormal rows: Ritz vectors of start, C start, C^2 start, ... that have converged.

    Converged are those with |C u - theta u| <= tolerance theta. What they miss changes sums over
    the spectrum by the square of that alone. All vectors are kept orthogonal, twice.
    """
    width, entries = start.shape
    basis = start.new_empty(blocks * width, entries)
    projected = start.new_zeros(blocks * width, blocks * width)
    block = _orthonormal(start)
    coupling = start.new_zeros(width, width)
    for at in range(blocks):
        here, before = slice(at * width, (at + 1) * width), basis[: (at + 1) * width]
        basis[here] = block
        image = product(block)
        along = _along(image, before)
        projected[here, : len(before)] = along
        projected[: len(before), here] = along.t()
        image -= along @ before
        image -= _along(image, before) @ before
        block = _orthonormal(image)
        # Where the space is exhausted, as without noise, rounding is all that was normalised.
        block = _orthonormal(_off(block, before))
        coupling = image @ block.t()
    values, turned = torch.linalg.eigh(projected)
    residuals = torch.linalg.vector_norm(coupling.t() @ turned[-width:], dim=0)
    kept = (residuals <= tolerance * values) & (values > _NOTHING * values[-1])
    kept[-1] = True
    found: Tensor = turned[:, kept].t() @ basis
    return found


def _orthonormal(rows: Tensor) -> Tensor:
    columns: Tensor = torch.linalg.qr(rows.t())[0]
    return columns.t().contiguous()


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """Lanczos' answer for k starts: eigenvalues of k small matrices, and where they point."""

    size: Tensor  # (k,) norms of the starts
    nodes: Tensor  # (k, steps)
    turned: Tensor  # (k, steps, steps) eigenvectors in columns
    basis: Tensor  # (k, steps, m)

    @property
    def weights(self) -> Tensor:
        """(k, steps) of b^T f(C) b = sum of weights f(nodes)."""
        return self.size[:, None] ** 2 * self.turned[:, 0].square()

    def solve(self, shift: float) -> Tensor:
        """(k, m) (C + shift)^-1 b in the space that was built."""
        first = self.turned[:, 0] / (self.nodes.clamp_min(0.0) + shift) * self.size[:, None]
        coordinates = torch.einsum("kij,kj->ki", self.turned, first)
        return torch.einsum("ki,kim->km", coordinates, self.basis)


def lanczos(product: Product, starts: Tensor, off: Tensor, *, steps: int) -> Tridiagonal:
    """`steps` of Lanczos from each of k starts (k, m), in the space orthogonal to the rows `off`.

    A start whose space is exhausted goes on with zeros, which get no weight.
    """
    number, entries = starts.shape
    steps = max(1, min(steps, entries - len(off)))
    small = starts.new_zeros(number, steps, steps)
    basis = starts.new_zeros(number, steps, entries)
    vector = _off(starts, off)
    size = torch.linalg.vector_norm(vector, dim=1)
    vector = _scaled(vector, size, torch.zeros_like(size))
    largest = torch.zeros_like(size)
    for at in range(steps):
        basis[:, at] = vector
        image = _off(product(vector), off)
        small[:, at, at] = (vector * image).sum(1)
        before = basis[:, : at + 1]
        for _ in range(2):
            along = torch.einsum("ksm,km->ks", before, image)
            image = image - torch.einsum("ks,ksm->km", along, before)
        length = torch.linalg.vector_norm(image, dim=1)
        largest = torch.maximum(largest, torch.maximum(length, small[:, at, at].abs()))
        vector = _scaled(image, length, _EXHAUSTED * largest)
        if at + 1 < steps:
            small[:, at, at + 1] = small[:, at + 1, at] = length
    nodes, turned = torch.linalg.eigh(small)
    return Tridiagonal(size, nodes, turned, basis)


def _off(rows: Tensor, basis: Tensor) -> Tensor:
    return rows - _along(rows, basis) @ basis


def _along(rows: Tensor, basis: Tensor) -> Tensor:
    # Libraries multiply few columns faster than few rows.
    return (basis @ rows.t()).t()


def _scaled(rows: Tensor, length: Tensor, least: Tensor) -> Tensor:
    """Rows of norm one; zeros where nothing but rounding is left."""
    return torch.where((length > least)[:, None], rows / length.clamp_min(1e-300)[:, None], 0.0)
