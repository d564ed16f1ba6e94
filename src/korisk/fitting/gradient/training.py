"""Training: what a training by gradients came to, and whether it had come to rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from korisk.fitting.gradient.recipe import Recipe

# Change of the loss over the last tenth, relative to itself: an excess that decays like 1/t is
# nine times that change, and so below 2% of the loss.
_SETTLED = 0.002
_VANISHED = 1e-6  # the same, relative to the first loss: an exact fit falls for ever
_SLOWED = 0.01  # the same, relative to the whole fall, of which a steady descent makes a tenth
_FLAT = 0.1  # norm of the gradient relative to the first
_CRAWLING = 0.5  # the same, from where on the rate may be what is wrong


class Standing(NamedTuple):
    """The loss and the norm of its gradient on fixed training samples, each () or (runs,)."""

    loss: Tensor
    gradient: Tensor


class Validation(NamedTuple):
    """The loss on samples that were not trained on, and the weights that were best on them.

    With runs side by side each has its own best iteration, and `best_weights` holds for each run
    the weights of that iteration; `network.load_state_dict(best_weights, strict=False)` goes back
    to them.
    """

    iterations: tuple[int, ...]
    losses: Tensor  # (looks[, runs])
    best_iteration: Tensor  # () or (runs,)
    best_weights: dict[str, Tensor]


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """Losses of every mini-batch, how the loss stood at three moments, and what that says.

    `start`, `late` and `end` are taken before the first, before the last tenth and after the last
    iteration, on the same up to 64 samples of each run. A run counts as converged if

    - over the last tenth this loss changed by at most 0.2% (or by a millionth of the first),
    - that is at most 1% of its whole fall, or the gradient has fallen to a tenth of its first
      norm: a rate that is far too low changes little, too,
    - and the loss did not rise on the whole.

    >>> import torch
    >>> from korisk.fitting import Recipe, train
    >>> from korisk.networks import DenseNet
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> net, draws = DenseNet(3, 3, relu=False), torch.Generator().manual_seed(1)
    >>> recipe = Recipe(optimiser="sgd", rate=0.2, iterations=300, batch=8)
    >>> made = train(net, x, 2 * x, recipe, generator=draws)
    >>> made.losses.shape, bool(made.converged), made.explain()[:9]
    (torch.Size([300]), True, 'converged')
    """

    recipe: Recipe
    losses: Tensor  # (iterations[, runs])
    start: Standing
    late: Standing
    end: Standing
    validation: Validation | None = None
    negligible: float = 0.0  # a loss that is rounding, at which a run counts as converged

    @property
    def best_weights(self) -> dict[str, Tensor] | None:
        """The weights that were best on the validation samples, by name, if there were any."""
        return None if self.validation is None else self.validation.best_weights

    @property
    def first_loss(self) -> Tensor:
        """The mean loss of the first tenth of the mini-batches, () or (runs,)."""
        return self.losses[: last_tenth(self.recipe)].mean(0)

    @property
    def last_loss(self) -> Tensor:
        """The mean loss of the last tenth of the mini-batches."""
        return self.losses[-last_tenth(self.recipe) :].mean(0)

    @property
    def improvement(self) -> Tensor:
        """By what part of itself the loss fell over the last tenth; negative where it rose."""
        fall = self.late.loss - self.end.loss
        return torch.where(fall == 0, 0.0, fall / self.late.loss)

    @property
    def gradient_left(self) -> Tensor:
        """The last gradient's norm over that of the first; 0 where it has vanished."""
        left = self.end.gradient / self.start.gradient
        return torch.where(self.end.gradient == 0, 0.0, left)

    @property
    def converged(self) -> Tensor:
        """Whether each run had come to rest, () or (runs,); see the class for the rule."""
        at_rest = self._settled & self._slowed & ~self._risen
        return at_rest | (self.end.loss <= self.negligible)

    @property
    def _settled(self) -> Tensor:
        vanished = (self.late.loss - self.end.loss).abs() <= _VANISHED * self.start.loss
        return (self.improvement.abs() <= _SETTLED) | vanished

    @property
    def _slowed(self) -> Tensor:
        last, whole = self.late.loss - self.end.loss, self.start.loss - self.end.loss
        return ((whole > 0) & (last <= _SLOWED * whole)) | (self.gradient_left <= _FLAT)

    @property
    def _risen(self) -> Tensor:
        return self.end.loss > self.start.loss * (1 + _SETTLED)

    def explain(self) -> str:
        """In one or two sentences: whether it converged, by what, and what to do if not."""
        verdicts = self.converged.reshape(-1)
        if verdicts.all():
            change = float(self.improvement.abs().max())
            left = float(self.gradient_left.max())
            return (
                f"converged: the loss changed by {_percent(change)} over {self._tail_text}, and "
                f"the gradient's norm is {left:.2g} of what it was at first"
            )
        runs = len(verdicts)
        if runs == 1:
            return f"not converged: {self._reason(0)}"
        run = int((~verdicts).nonzero()[0])
        count = int((~verdicts).sum())
        return f"{count} of {runs} runs not converged, among them run {run}: {self._reason(run)}"

    @property
    def _tail_text(self) -> str:
        return f"the last {last_tenth(self.recipe)} of {self.recipe.iterations} iterations"

    def _reason(self, run: int) -> str:
        fall = float(self.improvement.reshape(-1)[run])
        if bool(self._risen.reshape(-1)[run]):
            return (
                f"the loss rose from {float(self.start.loss.reshape(-1)[run]):.3g} to "
                f"{float(self.end.loss.reshape(-1)[run]):.3g}; lower the rate"
            )
        if fall < 0:
            return f"the loss rose by {_percent(-fall)} over {self._tail_text}; lower the rate"
        whole = self.start.loss.reshape(-1)[run] - self.end.loss.reshape(-1)[run]
        if whole <= 0:
            return "the loss did not fall at all; raise the rate"
        share = float((self.late.loss - self.end.loss).reshape(-1)[run] / whole)
        crawls = float(self.gradient_left.reshape(-1)[run]) > _CRAWLING
        return (
            f"the loss still fell by {_percent(fall)} over {self._tail_text}, {_percent(share)} of "
            f"its whole fall; {'raise the rate, ' if crawls else ''}train longer or fit in closed "
            "form"
        )


def last_tenth(recipe: Recipe) -> int:
    """How many iterations the last tenth of them is, at least one."""
    return max(1, recipe.iterations // 10)


def _percent(part: float) -> str:
    """A part in percent with two digits: 3.2%, 0.00012%."""
    return f"{100 * part:.2g}%"
