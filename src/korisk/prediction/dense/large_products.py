"""The second moment of a large layer's inputs, applied to vectors and never written down."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators.linear import shape_text
from korisk.prediction.dense.moments import Moment
from korisk.problems.examples import Examples

Progress = Callable[[float], None]

_PIECE = 2**25  # entries of padded images that are transformed at once
_MOST_ROWS = 64  # vectors that an operator gets at once


class Products:
    """C = A S A^T + diag(noise), and P = W S A^T, for rows of vectors.

    Operators and Fourier transforms work in the operator's precision. Vectors of inputs are
    float64: what they are orthogonal to must stay so, however small the eigenvalues become.
    """

    def __init__(self, examples: Examples, moment: Moment) -> None:
        self.forward, self.wanted = examples.forward, examples.wanted
        if tuple(moment.shape) != self.forward.domain:
            raise KoriskError(
                f"the moment must be of images {shape_text(self.forward.domain)}, which the "
                f"operator takes, got {shape_text(tuple(moment.shape))}; take it of these examples"
            )
        self.shape = self.forward.domain
        self.inputs = math.prod(self.forward.range)
        self.pixels = math.prod(self.shape)
        self._padded = math.prod(2 * length for length in self.shape)
        if examples.noise.numel() != self.inputs or not bool((examples.noise >= 0).all()):
            raise KoriskError(
                f"noise must be {self.inputs:,} variances >= 0, one for each input; "
                "zeros stand for none"
            )
        self.noise = examples.noise.detach().to(self.forward.device, torch.float64).flatten()
        self._sample = self._spread = None
        share = moment.shrinkage
        if share < 1:
            weight = math.sqrt((1 - share) / len(moment.images))
            self._sample = self._placed(torch.from_numpy(weight * moment.images))
        if share > 0:
            self._spread = self._placed(torch.from_numpy(math.sqrt(share) * moment.deviation))
            half = torch.from_numpy(moment.density)[..., : self.shape[-1] + 1]
            self._density = self._placed(half.contiguous())
        self._progress: Progress | None = None
        self._planned, self._done = 1, 0

    def report(self, progress: Progress | None, *, planned: int) -> None:
        """Tell `progress` from now on which share of the planned products is done."""
        self._progress, self._planned, self._done = progress, planned, 0

    @property
    def working_bytes(self) -> int:
        """About what images in work take: padded, transformed and back, and the examples."""
        examples = 0 if self._sample is None else self._sample.numel()
        rows = min(_MOST_ROWS, max(1, _PIECE // self._padded))
        return self.forward.dtype.itemsize * (4 * rows * self._padded + examples)

    @property
    def targets(self) -> int:
        """Entries of a target."""
        return self.pixels if self.wanted is None else math.prod(self.wanted.range)

    @property
    def device(self) -> torch.device:
        """Where everything is computed."""
        return self.forward.device

    def _placed(self, values: Tensor) -> Tensor:
        return values.to(self.forward.device, self.forward.dtype)

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """As many rows at a time as are worked on at once."""
        return torch.split(rows, min(_MOST_ROWS, max(1, _PIECE // self._padded)))

    def _moment(self, images: Tensor) -> Tensor:
        """(k, pixels) times S."""
        found = torch.zeros_like(images)
        if self._sample is not None:
            found += images @ self._sample.t() @ self._sample
        if self._spread is not None:
            axes = tuple(range(1, 1 + len(self.shape)))
            padded = [2 * length for length in self.shape]
            spread = (images * self._spread).reshape(-1, *self.shape)
            waves = torch.fft.rfftn(spread, s=padded, dim=axes) * self._density
            back = torch.fft.irfftn(waves, s=padded, dim=axes)
            inside = back[(slice(None), *(slice(length) for length in self.shape))]
            found += inside.reshape(len(images), -1) * self._spread
        return found

    def _explained(self, rows: Tensor) -> Tensor:
        """S A^T x, (k, pixels)."""
        seen = self.forward.adjoint(self._placed(rows).reshape(-1, *self.forward.range))
        return self._moment(seen.reshape(len(rows), -1))

    def _measured(self, images: Tensor) -> Tensor:
        found: Tensor = self.forward(images.reshape(-1, *self.shape))
        return found.reshape(len(images), -1).to(torch.float64)

    def _wanted_of(self, images: Tensor) -> Tensor:
        if self.wanted is None:
            return images
        found: Tensor = self.wanted(images.reshape(-1, *self.shape))
        return found.reshape(len(images), -1)

    def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """C x, (k, inputs), and P x, (k, targets), of a few rows."""
        images = self._explained(rows)
        self._count(len(rows))
        return self._measured(images) + self.noise * rows, self._wanted_of(images)

    def apply(self, rows: Tensor) -> Tensor:
        """C x, (k, inputs)."""
        found = torch.empty_like(rows)
        for part, out in zip(self.split(rows), self.split(found), strict=True):
            out.copy_(self._measured(self._explained(part)) + self.noise * part)
            self._count(len(part))
        return found

    def cross(self, rows: Tensor) -> Tensor:
        """P x, (k, targets), in the operator's precision."""
        found = []
        for part in self.split(rows):
            found.append(self._wanted_of(self._explained(part)))
            self._count(len(part))
        return torch.cat(found)

    def cross_back(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """P^T g, (k, inputs), and g^T W S W^T g, (k,), for rows g of targets."""
        found, energies = [], []
        for part in self.split(rows):
            given = self._placed(part)
            if self.wanted is not None:
                back = self.wanted.adjoint(given.reshape(-1, *self.wanted.range))
                given = back.reshape(len(part), -1)
            images = self._moment(given)
            energies.append((given.double() * images.double()).sum(1))
            found.append(self._measured(images))
            self._count(len(part))
        return torch.cat(found), torch.cat(energies)

    def _count(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(min(self._done / self._planned, 1.0))
