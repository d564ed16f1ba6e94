"""Leading eigenvectors of a symmetric C >= 0 by blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from korisk.prediction.lanczos import Product, along, without

# Of the largest eigenvalue: smaller ones are float32's rounding, and left to Lanczos.
_NOTHING = 1e-7


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
        part = along(image, before)
        projected[here, : len(before)] = part
        projected[: len(before), here] = part.t()
        image -= part @ before
        image -= along(image, before) @ before
        block = _orthonormal(image)
        # Where the space is exhausted, as without noise, rounding is all that was normalised.
        block = _orthonormal(without(block, before))
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
