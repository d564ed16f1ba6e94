"""What a ReLU behind a large dense layer takes off its error, without the layer's matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from korisk.prediction.dense.clipping import SIZES, clipped_share
from korisk.prediction.dense.large_products import Products
from korisk.prediction.dense.moments import Moment
from korisk.prediction.dense.spectral import Array, Clipping, Spectrum
from korisk.prediction.lanczos import Spaces, lanczos
from korisk.problems.examples import Examples

STEPS = 48  # of Lanczos: what a threshold inside a spectrum of three decades needs
CLIPPED = 32  # examples that tell what a ReLU takes off
_SHOWN = 2**14  # entries of a target that are looked at
_SEED = 10


class Leading(NamedTuple):
    """Directions of inputs that are known one by one."""

    vectors: Tensor  # (R, inputs) orthonormal rows u
    values: Tensor  # (R,) their eigenvalues lambda
    signal: Tensor  # (R,) |P u|^2 / lambda
    parts: Tensor  # (R, shown) (P u)^2 / lambda at some entries of the target
    shown: Tensor  # (shown,) which


def shown_targets(entries: int) -> Tensor:
    """Entries of a target that stand for all: the same on every call."""
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randperm(entries, generator=generator)[:_SHOWN].sort().values


def large_clipping(
    made: Spectrum, products: Products, leading: Leading, examples: Examples, moment: Moment
) -> Clipping:
    """The factor at `SIZES`, as `curves.clipping` has it.

    One Krylov space for each example solves for every threshold. The error at an entry of the
    target is exact along the leading directions; what is left of its energy shrinks with N as that
    of all entries does.
    """
    shown = leading.shown
    inputs = examples.inputs[:CLIPPED].to(products.device, torch.float64).flatten(1)
    along = inputs @ leading.vectors.t()
    beyond = lanczos(products.apply, inputs, steps=STEPS, off=leading.vectors)
    targets = _array(examples.targets[:CLIPPED].flatten(1)[:, shown.to(examples.targets.device)])
    parts = _array(leading.parts)
    left = np.maximum(_energies(examples, moment, shown) - parts.sum(axis=0), 0.0)
    factors = []
    for n in SIZES:
        threshold, effective, room = made.filter(float(n))
        solved = (along / (leading.values + threshold)) @ leading.vectors
        mean = products.cross(solved + beyond.solved(threshold))[:, shown.to(products.device)]
        kept = _array(leading.values / (leading.values + threshold))
        error = (1 - kept) ** 2 @ parts + _share_left(made, len(kept), threshold) * left
        scatter = _scatter(along, leading.values, beyond, threshold) / effective
        variance = np.outer(scatter, error / max(room, 1e-9))
        factors.append(clipped_share(_array(mean), variance, targets))
    return Clipping(np.asarray(SIZES, dtype=np.float64), np.array(factors))


def _share_left(made: Spectrum, leading: int, threshold: float) -> float:
    """Of the energy beyond the leading directions: what is not learned yet."""
    values, signal = made.values[leading:], made.signal[leading:]
    whole = float(signal.sum()) + made.rest
    bias = float(signal @ (threshold / (values + threshold)) ** 2) + made.rest
    return bias / whole if whole > 0 else 0.0


def _scatter(along: Tensor, values: Tensor, beyond: Spaces, threshold: float) -> Array:
    """(images,) x^T C (C + threshold)^-2 x."""
    nodes = beyond.nodes
    found = along.square() @ (values / (values + threshold) ** 2)
    found += (beyond.weights * nodes / (nodes + threshold) ** 2).sum(1)
    return _array(found)


def _energies(examples: Examples, moment: Moment, shown: Tensor) -> Array:
    """(shown,) E[y^2] of entries of the target; of the examples where an operator makes them."""
    if examples.wanted is None:
        return np.asarray(moment.energies[shown.numpy()])
    targets = examples.targets.flatten(1)[:, shown.to(examples.targets.device)]
    return _array(targets.double().square().mean(0))


def _array(tensor: Tensor) -> Array:
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())
