"""Recipe: how a network is trained by gradients; and which samples make up each batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError, shown

OptimiserName = Literal["adam", "adagrad", "sgd"]
OPTIMISERS: tuple[OptimiserName, ...] = ("adam", "adagrad", "sgd")

_RELEASED = {128: (4, 5_000), 256: (1, 5_000), 512: (8, 10_000)}  # side: batch, iterations


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An optimiser, its rate, and how many mini-batches of how many samples it sees.

    Whatever is not said here is PyTorch's default: betas 0.9 and 0.999 for Adam, no decay.

    `optimiser` is "adam", "adagrad" or "sgd", the only one with `momentum`; a rate that is not
    above 0, or a count below 1, raises `KoriskError`.

    >>> from korisk.fitting import Recipe
    >>> Recipe(optimiser="sgd", rate=0.1, iterations=100, batch=8).momentum
    0.0
    >>> Recipe.released(128).optimiser, Recipe.released(128).iterations
    ('adagrad', 5000)
    """

    optimiser: OptimiserName
    rate: float
    iterations: int
    batch: int
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _checks.one_of("optimiser", self.optimiser, OPTIMISERS)
        checked = {
            "rate": _checks.real("rate", self.rate, above=0, remedy="try 0.01"),
            "iterations": _checks.count(
                "iterations", self.iterations, at_least=1, remedy="try 5000"
            ),
            "batch": _checks.count("batch", self.batch, at_least=1, remedy="try 4"),
            "momentum": _checks.real(
                "momentum", self.momentum, at_least=0, remedy="give 0 <= momentum < 1"
            ),
        }
        for field, value in checked.items():
            object.__setattr__(self, field, value)
        if self.momentum >= 1:
            raise KoriskError(f"momentum must be below 1, got {self.momentum:g}; try 0.9")
        if self.momentum and self.optimiser != "sgd":
            raise KoriskError(
                f"momentum belongs to optimiser='sgd', got {self.optimiser!r} with momentum "
                f"{self.momentum:g}; leave it out"
            )

    @classmethod
    def released(cls, side: int) -> Recipe:
        """The authors' recipe at 128, 256 or 512 pixels a side."""
        if side not in list(_RELEASED):
            raise KoriskError(f"the released sweeps have sides {sorted(_RELEASED)}, got {side!r}")
        batch, iterations = _RELEASED[side]
        return cls(optimiser="adagrad", rate=2e-2, iterations=iterations, batch=batch)


def released_generator(seed: int) -> torch.Generator:
    """The generator from which the released code draws the batches of a seed."""
    remedy = "give a whole number; the released seeds are 1, 2 and 3"
    number = _checks.count("seed", seed, at_least=0, at_most=2**53, remedy=remedy)
    return torch.Generator().manual_seed(1 + 1000 * number)


def draw_batches(
    samples: int, batch: int, iterations: int, generator: torch.Generator
) -> Tensor:  # (iterations, min(batch, samples))
    """The samples of every batch, with replacement, in the order in which training takes them.

    One call for each batch, as the released code makes them: that these draw the same numbers as
    a single call is a habit of PyTorch, not a promise.

    Indices of shape (iterations, batch), from 0 to `samples` - 1.

    >>> import torch
    >>> from korisk.fitting import draw_batches
    >>> draw_batches(100, batch=8, iterations=5, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([5, 8])
    """
    remedy = "pass whole numbers from 1"
    samples = _checks.count("samples", samples, at_least=1, remedy=remedy)
    batch = _checks.count("batch", batch, at_least=1, remedy=remedy)
    iterations = _checks.count("iterations", iterations, at_least=1, remedy=remedy)
    place = getattr(generator, "device", None)  # None for what is no generator at all
    if place is None or place.type != "cpu":
        raise KoriskError(
            f"generator must be a torch.Generator on the CPU, got {shown(generator)}; batches are "
            "to be the same on every device"
        )
    size = (min(batch, samples),)
    return torch.stack(
        [torch.randint(0, samples, size, generator=generator) for _ in range(iterations)]
    )
