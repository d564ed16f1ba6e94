"""Recipe and batches: what goes into a training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from korisk import _checks

OptimiserName = Literal["adam", "adagrad", "sgd"]
OPTIMISERS: tuple[OptimiserName, ...] = ("adam", "adagrad", "sgd")
CHECKS = 10  # evaluations on validation pairs, evenly spaced over the steps


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Training settings: optimiser, learning rate, number and size of mini-batches.

    Everything else is PyTorch's default: betas 0.9 and 0.999 for Adam, no weight decay.

    Parameters
    ----------
    steps : int, default 2000
        Number of mini-batches.
    batch : int, default 16
        Samples of a mini-batch.
    rate : float, default 0.001
        Learning rate, at the start if it falls.
    optimiser : {"adam", "adagrad", "sgd"}, default "adam"
        The update rule.
    cosine : bool, default False
        Whether the rate falls to zero along half a cosine; for "adam" only.
    patience : int, optional
        Training ends early when so many of the 10 checks on validation samples have passed without
        a smaller error. Default: never.

    Raises
    ------
    KoriskError
        If a value is outside its range.

    Examples
    --------
    >>> from korisk.fitting import Recipe
    >>> Recipe(optimiser="sgd", rate=0.1, batch=8).steps
    2000
    """

    steps: int = 2000
    batch: int = 16
    rate: float = 1e-3
    optimiser: OptimiserName = "adam"
    cosine: bool = False
    patience: int | None = None

    def __post_init__(self) -> None:
        _checks.one_of("optimiser", self.optimiser, OPTIMISERS)
        counted = partial(_checks.count, at_least=1)
        _checks.set_fields(
            self,
            steps=counted("steps", self.steps, at_most=10**9, remedy="try 2000"),
            batch=counted("batch", self.batch, at_most=10**6, remedy="try 16"),
            rate=_checks.real("rate", self.rate, above=0, remedy="try 0.001"),
        )
        if self.patience is not None:
            counted("patience", self.patience, at_most=CHECKS, remedy="try 4")
        allowed = self.optimiser == "adam" or not self.cosine
        rule = "be False, except with optimiser='adam'"
        _checks.require(allowed, "cosine", rule, self.cosine, "leave it out")


def released_generator(seed: int) -> torch.Generator:
    """The generator from which the released code draws the batches of a seed."""
    return torch.Generator().manual_seed(1 + 1000 * seed)


def draw_batches(samples: int, batch: int, steps: int, generator: torch.Generator) -> Tensor:
    """Draw the samples of every batch, with replacement.

    Parameters
    ----------
    samples : int
        Size of the training set, at least 1.
    batch : int
        Samples of a batch, at least 1.
    steps : int
        Number of batches, at least 1.
    generator : torch.Generator
        On the CPU, so that batches are the same on every device.

    Returns
    -------
    Tensor of shape (steps, min(batch, samples))
        Indices from 0 to `samples` - 1, in the order in which training takes them.

    Raises
    ------
    KoriskError
        If a count is below 1.

    Notes
    -----
    Each batch is one call, as in the released code: PyTorch does not promise that a single call
    for all batches draws the same numbers.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import draw_batches
    >>> draw_batches(100, batch=8, steps=5, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([5, 8])
    """
    counted = partial(_checks.count, at_least=1, remedy="pass whole numbers from 1")
    samples, batch = counted("samples", samples), counted("batch", batch)
    draws, size = range(counted("steps", steps)), (min(batch, samples),)
    return torch.stack([torch.randint(0, samples, size, generator=generator) for _ in draws])
