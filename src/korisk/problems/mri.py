"""Magnetic resonance imaging: lines of k-space, and pools of them with the images they are of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import KoriskError
from korisk.operators.basic import Fourier
from korisk.operators.linear import checked_device
from korisk.problems.noise import Gaussian, add_noise, noise_variance
from korisk.problems.problem import (
    TEST_SEED,
    Counts,
    Device,
    Examples,
    Pairs,
    Pools,
    Problem,
    Reconstruction,
)
from korisk.problems.sources import EllipseSource, ImageSource

_LARGEST_DOUBLE = 64  # pixels a side up to which it is computed in float64


@dataclass(frozen=True, kw_only=True)
class MriProblem(Problem):
    """Real images of `side` x `side` pixels from `lines` of their `side` lines of k-space.

    `centre` lines about the origin are taken whole; the rest are spread evenly, each with its
    mirror image. A real image has F(-k) = conj(F(k)): a line whose mirror was not taken would tell
    that one too, and inverting with a factor of two there would make up for it. With both or
    neither, what is missing is missing. An odd number of lines leaves out the outermost one, which
    is its own mirror. Noise is white, relative to the root mean square of what was taken.

    Inputs are (samples, side, side, 2), real and imaginary parts; targets (samples, side, side).

    >>> from korisk.problems import MriProblem
    >>> problem = MriProblem(side=8, lines=4)
    >>> int(problem.mask.sum()), problem.operator().acceleration
    (4, 2.0)
    >>> problem.pools(seed=1, train=2, validation=1, test=1).train.inputs.shape
    torch.Size([2, 8, 8, 2])
    """

    side: int
    lines: int
    centre: int | None = None
    noise: Gaussian | None = None
    source: ImageSource = field(default_factory=EllipseSource)

    def __post_init__(self) -> None:
        remedy = "count pixels along an edge"
        side = _checks.count("side", self.side, at_least=4, at_most=4096, remedy=remedy)
        if side % 2:
            raise KoriskError(f"side must be even, got {side}; use {side + 1}")
        remedy = "count the lines of k-space that are taken, all of them for no undersampling"
        lines = _checks.count("lines", self.lines, at_least=1, at_most=side, remedy=remedy)
        centre = max(1, lines // 2) if self.centre is None else self.centre
        remedy = "count the lines about the origin that are taken whole"
        _checks.count("centre", centre, at_least=1, at_most=lines, remedy=remedy)
        object.__setattr__(self, "centre", centre - (centre + 1) % 2)  # the origin, and pairs

    @property
    def dtype(self) -> torch.dtype:
        """The precision it is computed in."""
        return torch.float64 if self.side <= _LARGEST_DOUBLE else torch.float32

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which lines are taken, (side,), the origin at side // 2."""
        middle, assigned = self.side // 2, self.centre
        assert assigned is not None
        inner = (assigned - 1) // 2
        outer = (self.lines - 1) // 2 - inner
        room = middle - 1 - inner  # pairs there are beyond the centre
        places = inner + 1 + np.floor((np.arange(outer) + 0.5) * room / max(outer, 1)).astype(int)
        taken = np.zeros(self.side, dtype=bool)
        taken[middle] = True
        for distance in (*range(1, inner + 1), *places.tolist()):
            taken[[middle - distance, middle + distance]] = True
        taken[0] |= self.lines % 2 == 0
        return taken

    def operator(self, device: Device = None) -> Fourier:
        """F: images (..., side, side) to samples (..., side, side, 2), zero where none is taken."""
        shape = (self.side, self.side)
        return Fourier(shape, self.mask, real=True, device=checked_device(device), dtype=self.dtype)

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """Weights of one, and the inverse transform with zeros for what was not taken."""
        inverse = self.operator(device).T
        ones = torch.ones(inverse.domain, device=inverse.device, dtype=inverse.dtype)
        return Reconstruction(ones, (inverse,))

    def examples(self, *, seed: int, count: int, device: Device = None) -> Examples:
        """Images of the source, and their samples of k-space."""
        operator = self.operator(device)
        drawn = self.source.examples(self.side, seed=seed, count=count, device=operator.device)
        images = drawn.to(operator.dtype)
        clean = operator(images)
        samples, variance = clean.clone(), torch.zeros_like(clean[0])
        taken = operator.mask[0]
        if self.noise is not None:
            samples[:, :, taken] = add_noise(
                clean[:, :, taken], self.noise, width=1.0, seed=seed, stream="examples noise"
            )
            variance[:, taken] = noise_variance(clean[:, :, taken], self.noise, width=1.0)
        return Examples(images, operator, None, samples, images, variance)

    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """Samples of k-space and the images they are of."""
        operator = self.operator(device)
        drawn = self.source.draw(self.side, seed=seed, counts=counts, device=operator.device)
        pairs = []
        for name, images in drawn.items():
            targets = images.to(operator.dtype)
            samples = operator(targets)
            if self.noise is not None:
                key = TEST_SEED if name == "test" else seed
                taken = operator.mask[0]
                samples[:, :, taken] = add_noise(
                    samples[:, :, taken], self.noise, width=1.0, seed=key, stream=f"{name} noise"
                )
            pairs.append(Pairs(samples, targets))
        return Pools(*pairs)
