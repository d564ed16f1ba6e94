"""Examples: a handful of images, what is measured of them, and what is wanted of that."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from korisk.operators.linear import LinearOperator


@dataclass(frozen=True, eq=False)
class Examples:
    """Images behind a linear operator with noise: inputs = forward(latents) + noise.

    Targets are `wanted(latents)`, or the latents themselves where `wanted` is None.
    """

    latents: Tensor  # (n, ...) images, or fields on a line
    forward: LinearOperator
    wanted: LinearOperator | None
    inputs: Tensor  # (n, ...) with noise
    targets: Tensor  # (n, ...)
    noise: Tensor  # (...) of an input's shape: the mean variance of the noise at each entry

    def __len__(self) -> int:
        return len(self.latents)
