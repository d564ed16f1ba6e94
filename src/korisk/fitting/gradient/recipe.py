"""Recipe and batches, what goes into a training; Training, its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError

OptimiserName = Literal["adam", "adagrad", "sgd"]
OPTIMISERS: tuple[OptimiserName, ...] = ("adam", "adagrad", "sgd")

_RELEASED = {128: (4, 5_000), 256: (1, 5_000), 512: (8, 10_000)}  # side: batch, iterations

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
    optimiser : {"adam", "adagrad", "sgd"}
        The update rule.
    rate : float
        Learning rate, above 0.
    iterations : int
        Number of mini-batches, at least 1.
    batch : int
        Samples of a mini-batch, at least 1.
    momentum : float, default 0.0
        At least 0 and below 1; for "sgd" only.

    Raises
    ------
    KoriskError
        If a value is outside its range.

    Examples
    --------
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
        _checks.set_fields(
            self,
            rate=_checks.real("rate", self.rate, above=0, remedy="try 0.01"),
            iterations=_checks.count("iterations", self.iterations, at_least=1, remedy="try 99"),
            batch=_checks.count("batch", self.batch, at_least=1, remedy="try 4"),
            momentum=_checks.real("momentum", self.momentum, at_least=0, remedy="try 0.9"),
        )
        allowed = self.momentum < 1 if self.optimiser == "sgd" else self.momentum == 0
        rule = "be below 1, and belongs to optimiser='sgd'"
        combination = f"{self.momentum:g} with {self.optimiser!r}"
        # PyTorch's Adam and Adagrad take no momentum; ignoring it would hide a mistake.
        _checks.require(allowed, "momentum", rule, self.momentum, "leave it out", got=combination)

    @classmethod
    def released(cls, side: int) -> Recipe:
        """The recipe of the released sweeps.

        Parameters
        ----------
        side : {128, 256, 512}
            Pixels a side.

        Returns
        -------
        Recipe

        Raises
        ------
        KoriskError
            If there is no released sweep with that side.
        """
        if side not in list(_RELEASED):
            raise KoriskError(f"the released sweeps have sides {sorted(_RELEASED)}, got {side!r}")
        batch, iterations = _RELEASED[side]
        return cls(optimiser="adagrad", rate=2e-2, iterations=iterations, batch=batch)

    @property
    def last_tenth(self) -> int:
        """Number of iterations in the last tenth, at least one."""
        return max(1, self.iterations // 10)


def released_generator(seed: int) -> torch.Generator:
    """The generator from which the released code draws the batches of a seed."""
    remedy = "give a whole number; the released seeds are 1, 2 and 3"
    released_seed = _checks.count("seed", seed, at_least=0, at_most=2**53, remedy=remedy)
    return torch.Generator().manual_seed(1 + 1000 * released_seed)


def draw_batches(samples: int, batch: int, iterations: int, generator: torch.Generator) -> Tensor:
    """Draw the samples of every batch, with replacement.

    Parameters
    ----------
    samples : int
        Size of the training set, at least 1.
    batch : int
        Samples of a batch, at least 1.
    iterations : int
        Number of batches, at least 1.
    generator : torch.Generator
        On the CPU, so that batches are the same on every device.

    Returns
    -------
    Tensor of shape (iterations, min(batch, samples))
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
    >>> draw_batches(100, batch=8, iterations=5, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([5, 8])
    """
    checked_count = partial(_checks.count, at_least=1, remedy="pass whole numbers from 1")
    samples, batch = checked_count("samples", samples), checked_count("batch", batch)
    draws, size = range(checked_count("iterations", iterations)), (min(batch, samples),)
    return torch.stack([torch.randint(0, samples, size, generator=generator) for _ in draws])


class Standing(NamedTuple):
    """The loss and the norm of its gradient on fixed training samples, each () or (runs,)."""

    loss: Tensor
    gradient: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """The outcome of `train`: every loss, and whether it had converged.

    A run counts as converged if

    - over the last tenth the loss changed by at most 0.2% (or by a millionth of the first loss),
    - that is at most 1% of its whole fall, or the gradient has fallen to a tenth of its first
      norm: a rate that is far too low changes little, too,
    - and the loss did not rise on the whole.

    Parameters
    ----------
    recipe : Recipe
        Training settings.
    losses : Tensor of shape (iterations,) or (iterations, runs)
        Of every mini-batch.
    start, late, end : Standing
        Loss and gradient norm before the first, before the last tenth and after the last
        iteration, on the same up to 64 training samples of each run.
    negligible : float, default 0.0
        A loss that is rounding, at which a run counts as converged.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import Recipe, train
    >>> from korisk.networks import DenseNet
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> net, draws = DenseNet(3, 3, relu=False), torch.Generator().manual_seed(1)
    >>> recipe = Recipe(optimiser="sgd", rate=0.2, iterations=300, batch=8)
    >>> training = train(net, x, 2 * x, recipe, generator=draws)
    >>> training.losses.shape, bool(training.converged)
    (torch.Size([300]), True)
    """

    recipe: Recipe
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
