"""The base class of CT, MRI and deblurring: images, a linear operator and noise."""

import math
from abc import abstractmethod
from types import EllipsisType

import torch
from torch import Tensor

from korisk.operators.linear import LinearOperator
from korisk.operators.tikhonov import Tikhonov
from korisk.problems.noise import Noise, add_noise
from korisk.problems.problem import Counts, Device, Pairs, Pools, Problem
from korisk.problems.sources import ImageSource
from korisk.seeds import TEST_SEED

Index = EllipsisType | tuple[EllipsisType | Tensor | slice, ...]

_BATCH = 2**24  # pixels that are measured at once
LARGEST_DOUBLE = 64  # pixels a side up to which float64 is used and inverses are stored


class ImageProblem(Problem):
    """Learn images from linear measurements; subclasses are dataclasses with these fields."""

    side: int
    mu: float
    noise: Noise | None
    source: ImageSource

    @property
    def width(self) -> float:
        """Width of an image, in the unit of path lengths."""
        return 1.0

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the computation."""
        return torch.float64 if self.side <= LARGEST_DOUBLE else torch.float32

    @abstractmethod
    def operator(self, device: Device = None) -> LinearOperator:
        """The operator from images to inputs."""

    def _noisy(self) -> Index:
        """Index of the noisy entries of inputs: all of them."""
        return ...

    def _inverse(self, operator: LinearOperator) -> Tikhonov:
        """The regularised inverse of an operator."""
        # A stored factor takes memory quadratic in the number of pixels.
        solver = "factor" if self.side <= LARGEST_DOUBLE else "cg"
        return Tikhonov(operator, self.mu, solver=solver)

    _own_tests = False  # whether every seed has its own test set

    def _images(self, seed: int, counts: Counts, operator: LinearOperator) -> dict[str, Tensor]:
        pools = self.source.draw(self.side, seed=seed, counts=counts, device=operator.device)
        return {name: images.to(operator.dtype) for name, images in pools.items()}

    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """Draw measurements and images."""
        operator = self.operator(device)
        pairs = []
        for name, targets in self._images(seed, counts, operator).items():
            # The noise of a shared test set must not depend on the seed, either.
            key = TEST_SEED if name == "test" and not self._own_tests else seed
            pairs.append(Pairs(self._inputs(targets, operator, key, name), targets))
        return Pools(*pairs)

    def _inputs(self, images: Tensor, operator: LinearOperator, seed: int, stream: str) -> Tensor:
        """Noisy measurements, computed in small pieces to save memory."""
        inputs = images.new_empty((len(images), *operator.range))
        noisy, name = self._noisy(), f"{stream} noise"
        # Rays need several temporaries of an image's size.
        step = max(1, _BATCH // math.prod(operator.domain))
        for first in range(0, len(images), step):
            batch = inputs[first : first + step]
            batch[:] = operator(images[first : first + step])
            if self.noise is not None:
                clean, key = batch[noisy], {"seed": seed, "first": first}
                batch[noisy] = add_noise(clean, self.noise, width=self.width, stream=name, **key)
        return inputs
