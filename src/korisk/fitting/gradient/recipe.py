"""Recipe and batches, what goes into a training; History, its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from korisk import _checks

OptimiserName = Literal["adam", "adagrad", "sgd"]
OPTIMISERS: tuple[OptimiserName, ...] = ("adam", "adagrad", "sgd")
CHECKS = 10  # evaluations on validation pairs, evenly spaced over the steps

# Change of the loss over the last tenth, relative to itself: an excess that decays like 1/t is
# nine times that change, and so below 2% of the loss.
_SETTLED = 0.002
_VANISHED = 1e-6  # the same, relative to the first loss: an exact fit's loss never stops falling
_SLOWED = 0.01  # the same, relative to the total fall, of which a steady descent makes a tenth
_FLAT = 0.1  # gradient norm at the end relative to the start


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
    momentum : float, default 0.0
        At least 0 and below 1; for "sgd" only.
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
    >>> Recipe(optimiser="sgd", rate=0.1, steps=100, batch=8).momentum
    0.0
    """

    steps: int = 2000
    batch: int = 16
    rate: float = 1e-3
    optimiser: OptimiserName = "adam"
    momentum: float = 0.0
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
            momentum=_checks.real("momentum", self.momentum, at_least=0, remedy="try 0.9"),
        )
        if self.patience is not None:
            counted("patience", self.patience, at_most=CHECKS, remedy="try 4")
        # PyTorch's Adam and Adagrad take no momentum; ignoring it would hide a mistake.
        allowed = self.momentum < 1 if self.optimiser == "sgd" else self.momentum == 0
        rule = "be below 1, and belongs to optimiser='sgd'"
        combination = f"{self.momentum:g} with {self.optimiser!r}"
        _checks.require(allowed, "momentum", rule, self.momentum, "leave it out", got=combination)
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


class Standing(NamedTuple):
    """The loss and the norm of its gradient on fixed training samples, each () or (runs,)."""

    loss: Tensor
    gradient: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """The outcome of `train`: every loss, and whether it had converged.

    A run counts as converged if

    - over the last tenth the loss changed by at most 0.2% (or by a millionth of the first loss),
    - that is at most 1% of its whole fall, or the gradient has fallen to a tenth of its first
      norm: a rate that is far too low changes little, too,
    - and the loss did not rise on the whole.

    Parameters
    ----------
    losses : Tensor of shape (steps,) or (steps, runs)
        Of every mini-batch.
    start, late, end : Standing
        Loss and gradient norm before the first, before the last tenth and after the last step, on
        the same up to 64 training samples of each run.
    negligible : float, default 0.0
        A loss that is rounding, at which a run counts as converged.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import Recipe, train
    >>> from korisk.networks import DenseNet
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> net, draws = DenseNet(3, 3, relu=False), torch.Generator().manual_seed(1)
    >>> recipe = Recipe(optimiser="sgd", rate=0.2, steps=300, batch=8)
    >>> history = train(net, x, 2 * x, recipe, generator=draws)
    >>> history.losses.shape, bool(history.converged)
    (torch.Size([300]), True)
    """

    losses: Tensor
    start: Standing
    late: Standing
    end: Standing
    negligible: float = 0.0

    @property
    def improvement(self) -> Tensor:
        """The relative fall of the loss over the last tenth; negative where it rose."""
        fall = self.late.loss - self.end.loss
        # A loss of zero stays zero: 0 / 0 would be NaN, and NaN compares as not converged.
        return torch.where(fall == 0, 0.0, fall / self.late.loss)

    @property
    def gradient_left(self) -> Tensor:
        """The last gradient's norm over that of the first; 0 where it has vanished."""
        ratio = self.end.gradient / self.start.gradient
        return torch.where(self.end.gradient == 0, 0.0, ratio)

    @property
    def converged(self) -> Tensor:
        """Whether each run had converged, () or (runs,); the rule is above."""
        late, total = self.late.loss - self.end.loss, self.start.loss - self.end.loss
        # "Settled" alone is not enough: at a rate that is far too low the loss changes little from
        # the first step on. So the fall must also have slowed, or the gradient have shrunk.
        settled = (self.improvement.abs() <= _SETTLED) | (late.abs() <= _VANISHED * self.start.loss)
        slowed = ((total > 0) & (late <= _SLOWED * total)) | (self.gradient_left <= _FLAT)
        risen = self.end.loss > self.start.loss * (1 + _SETTLED)
        return (settled & slowed & ~risen) | (self.end.loss <= self.negligible)
