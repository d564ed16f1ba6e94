"""The spectrum of a dense layer that is too large for its matrix: 3,000 to 120,000 inputs.

The inputs' second moment C = A S A^T + diag(noise) is only applied to vectors. Its leading
eigenvectors are found by blocks; along them everything is exact. The rest of the spectrum enters a
learning curve through smooth sums, and these are seen by Lanczos from random starts. From random
signs z the eigenvalues of Lanczos' small matrix, with their weights, stand for all eigenvalues of
C; from P^T g, with P = W S A^T and random signs g of targets, for the energy of the targets that
each explains. All starts are the same on every call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators.ct.engines import free_memory
from korisk.prediction.dense.clipping import SIZES
from korisk.prediction.dense.from_examples import brightness
from korisk.prediction.dense.large_clipping import (
    CLIPPED,
    STEPS,
    Leading,
    large_clipping,
    shown_targets,
)
from korisk.prediction.dense.large_krylov import leading_vectors
from korisk.prediction.dense.large_products import Products, Progress
from korisk.prediction.dense.moments import Moment
from korisk.prediction.dense.spectral import Array, Spectrum, checked_sizes
from korisk.prediction.lanczos import lanczos
from korisk.problems.examples import Examples

_BLOCK = 32  # rows of a block, of which the space of the leading directions has BLOCKS
_BLOCKS = 32
_CONVERGED = 0.02  # residual of an eigenvector that is taken for one, over its eigenvalue
_COUNTING = 8  # random starts that count eigenvalues
_EXPLAINING = 24  # and those, at least, that see which energy of the targets they explain
_SEEN = 2**15  # entries of these: few inputs average less each
_SEED = 9
_ROUNDING = 1e-13  # of the largest eigenvalue, as in curves.spectral
_FITS = 0.75  # of the free memory
_RESOLVED = (4.6 / (4 * STEPS)) ** 2  # exp(-4 steps sqrt(.)) is 1%: how deep Lanczos sees


def large_spectrum(
    examples: Examples, moment: Moment, *, relu: bool, progress: Progress | None = None
) -> Spectrum:
    """What the learning curve of a dense layer depends on, without a matrix of its inputs.

    `progress` is told the share of the work that is done. `resolution_note` says from which N on
    the curve is not known.
    """
    products = Products(examples, moment)
    width, blocks = _sizes(products.inputs)
    probes = max(_EXPLAINING, min(_SEEN // products.inputs, 4 * _EXPLAINING))
    clipped = min(len(examples), CLIPPED) if relu else 0
    _refuse_what_does_not_fit(products, width * blocks, max(_COUNTING + probes, clipped))
    scales = brightness(examples)
    if not scales.any() and not products.noise.any():
        raise KoriskError("all inputs are zero; there is nothing to learn from")
    starts = _COUNTING + probes + clipped
    planned = 2 * width * blocks + starts * STEPS + probes + len(SIZES) * clipped
    products.report(progress, planned=planned)
    generator = torch.Generator().manual_seed(_SEED)
    with torch.no_grad():
        start = torch.randn(width, products.inputs, generator=generator, dtype=torch.float64)
        start = start.to(products.device)
        vectors = leading_vectors(products.apply, start, blocks=blocks, tolerance=_CONVERGED)
        leading = _along(products, vectors, shown_targets(products.targets if relu else 0))
        beyond = _beyond(products, leading, probes, generator)
        energy = moment.energy if products.wanted is None else None
        made = _assembled(products, leading, beyond, energy, scales)
        if relu:
            made = replace(made, gain=large_clipping(made, products, leading, examples, moment))
    if progress is not None:
        progress(1.0)
    return made


def resolution_note(made: Spectrum, n: ArrayLike) -> str | None:
    """From which of the sizes n on a large layer's error is unsure, in words; None if all are sure.

    With little or no noise a threshold may fall below the eigenvalues that Lanczos tells apart.
    """
    if made.counts is None:
        return None
    beyond = made.counts != 1.0
    depth = _RESOLVED * float(made.values[beyond].max(initial=0.0))
    least = float(made.values[beyond].min(initial=np.inf))
    for size in np.sort(checked_sizes(n)):
        if made.filter(float(size))[0] + least < depth:
            return (
                f"from N = {size:,.0f} on the error is given too large: it hangs on eigenvalues of "
                f"the inputs below {depth / made.values.max():.1g} of the largest, which are not "
                "told apart; give the noise that the measurement has, which covers them"
            )
    return None


class Beyond(NamedTuple):
    """What random starts saw of all other directions."""

    values: Tensor  # (K,)
    counts: Tensor  # (K,) directions that each stands for
    signal: Tensor  # (K,) energy of the targets that each explains
    left: float  # energy of the targets that is not along the leading directions


def _sizes(inputs: int) -> tuple[int, int]:
    """Rows of a block, and blocks: of at most half of all directions together."""
    width = max(1, min(_BLOCK, inputs // (2 * _BLOCKS)))
    return width, min(_BLOCKS, inputs // width)


def _along(products: Products, vectors: Tensor, shown: Tensor) -> Leading:
    """Eigenvalues and explained energy of the leading directions."""
    values, signal, parts = [], [], []
    for rows in products.split(vectors):
        image, targets = products.both(rows)
        value = (rows * image).sum(1)
        values.append(value)
        signal.append(targets.double().square().sum(1) / value)
        parts.append(targets[:, shown.to(targets.device)].square() / value[:, None].to(targets))
    return Leading(vectors, torch.cat(values), torch.cat(signal), torch.cat(parts), shown)


def _beyond(
    products: Products, leading: Leading, probes: int, generator: torch.Generator
) -> Beyond:
    """Lanczos' nodes for all directions that are not leading ones."""
    signs = _signs(_COUNTING, products.inputs, generator).to(products.device)
    asked = _signs(probes, products.targets, generator).to(products.device)
    towards, energies = products.cross_back(asked)
    held = (towards @ leading.vectors.t()).square() @ (1 / leading.values)
    seen = lanczos(products.apply, torch.cat([signs, towards]), steps=STEPS, off=leading.vectors)
    nodes = seen.nodes.clamp_min(float(products.noise.min()))  # no eigenvalue of C is smaller
    counted, explained = seen.weights[:_COUNTING], seen.weights[_COUNTING:] / probes
    others = products.inputs - len(leading.values)
    counted = counted * (others / counted.sum().clamp_min(1e-300))
    there = nodes[_COUNTING:] > _ROUNDING * leading.values.max()
    explained = torch.where(there, explained / nodes[_COUNTING:], 0.0)
    return Beyond(
        nodes.flatten(),
        torch.cat([counted, torch.zeros_like(explained)]).flatten(),
        torch.cat([torch.zeros_like(counted), explained]).flatten(),
        max(float((energies - held).mean()), 0.0),
    )


def _assembled(
    products: Products, leading: Leading, beyond: Beyond, energy: float | None, scales: Array
) -> Spectrum:
    """Leading directions one by one, and nodes for all others."""
    signal, left = beyond.signal, beyond.left
    if energy is not None and left > 0:
        # The probes saw too much or too little of what is left, and how much that is, is known.
        exact = max(energy - float(leading.signal.sum()), 0.0)
        signal, left = signal * (exact / left), exact
    if (total := float(signal.sum())) > left:  # by rounding where there is no noise
        signal, total = signal * (left / total), left
    parts = (
        (leading.values, beyond.values),
        (leading.signal, signal),
        (torch.ones_like(leading.values), beyond.counts),
    )
    values, explained, counts = (torch.cat(part).cpu().numpy() for part in parts)
    return Spectrum(
        values,
        explained,
        left - total,
        scales,
        products.targets,
        counts=counts,
        parameters=products.inputs * products.targets,
    )


def _signs(number: int, entries: int, generator: torch.Generator) -> Tensor:
    drawn = torch.randint(0, 2, (number, entries), generator=generator)
    return (2 * drawn - 1).double()


def _refuse_what_does_not_fit(products: Products, space: int, starts: int) -> None:
    """Say what it would take before the machine finds out."""
    rows = 2 * space + starts * (STEPS + 4)
    needed = 8 * rows * products.inputs + products.working_bytes
    free = free_memory(products.device)
    if needed > _FITS * free:
        raise KoriskError(
            f"the spectrum of a layer of {products.inputs:,} inputs takes {needed / 2**30:.1f} GiB "
            f"on {products.device}, of {free / 2**30:.1f} GiB free; use a smaller scan, or a "
            "machine with more memory"
        )
