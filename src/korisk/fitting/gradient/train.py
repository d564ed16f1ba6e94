"""Training by gradients: any network, several of them side by side, interrupted and resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.fitting.gradient import checkpoint as _checkpoint
from korisk.fitting.gradient.evaluation import Check, Validator, evaluating
from korisk.fitting.gradient.optimisers import optimiser_for
from korisk.fitting.gradient.recipe import (
    OPTIMISERS,
    OptimiserName,
    Recipe,
    draw_batches,
    released_generator,
)
from korisk.fitting.gradient.steps import Stepper, runs_of, trainable
from korisk.fitting.gradient.training import Standing, Training, Validation, last_tenth
from korisk.operators.linear import LinearOperator, shape_text

__all__ = [
    "OPTIMISERS",
    "OptimiserName",
    "Pool",
    "Progress",
    "Recipe",
    "Standing",
    "Training",
    "Validation",
    "draw_batches",
    "released_generator",
    "train",
]

Pool = tuple[Tensor, Tensor]  # inputs (samples, ...) and targets (samples, ...)
Progress = Callable[[int, Tensor], None]  # iterations done, mean loss since the last call


def train(
    network: nn.Module,
    inputs: Tensor,  # (samples, *domain)
    targets: Tensor,  # (samples, *range)
    recipe: Recipe,
    *,
    indices: Tensor | None = None,  # (iterations[, runs], batch)
    generator: torch.Generator | None = None,
    checkpoint: str | PathLike[str] | None = None,
    every: int = 500,
    progress: Progress | None = None,
    validation: Pool | None = None,
    graphed: bool = True,
) -> Training:
    """Fit a network in place to the mean squared error over mini-batches.

    The samples of each batch are `indices`, or drawn from `generator`. A network with an axis of
    runs takes one column of indices for each run, into the one pool of samples, and its loss is
    the sum of the runs' own: each run evolves as it would alone. All parameters of such a network
    have that axis first.

    Every `every` iterations the losses are looked at (one that is not finite ends the training),
    the loss on `validation` is taken, `progress` is called and the `checkpoint` is written; where
    that file is there already, training goes on from it, to the same bits on the same device. A
    network that draws random numbers itself draws others when resumed. On CUDA the step of the
    networks of korisk is replayed as a graph unless `graphed` is False.

    `inputs` and `targets` are (samples, ...). Returns a `Training`. Shapes that do not fit, a
    checkpoint of something else, or a loss that is not finite raise `KoriskError`.

    >>> import torch
    >>> from korisk.fitting import Recipe, train
    >>> from korisk.networks import DenseNet
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> net, draws = DenseNet(3, 3, relu=False), torch.Generator().manual_seed(1)
    >>> recipe = Recipe(optimiser="sgd", rate=0.2, iterations=300, batch=8)
    >>> _ = train(net, x, 2 * x, recipe, generator=draws)
    >>> net.matrix().detach().diagonal().round(decimals=2).tolist()
    [2.0, 2.0, 2.0]
    """
    pool = _checked_pool("inputs", "targets", network, (inputs, targets))
    chosen = _checked_indices(network, recipe, len(inputs), indices, generator).to(inputs.device)
    held_out = None
    if validation is not None:
        held_out = _checked_pool("validation inputs", "validation targets", network, validation)
    marks = _marks(recipe, _checks.count("every", every, at_least=1, remedy="try 500"))
    trainer = _Trainer(network, pool, chosen, recipe, held_out, graphed=graphed)
    path = None if checkpoint is None else Path(checkpoint)
    if path is None or not trainer.resume(path):
        trainer.begin()
    for mark, whole in marks:
        if mark <= trainer.done:
            continue
        trainer.advance(mark)
        if whole:
            trainer.look()
            if path is not None:
                trainer.save(path)
            if progress is not None:
                progress(mark, trainer.recent_loss(every))
    return trainer.result()


def _marks(recipe: Recipe, every: int) -> list[tuple[int, bool]]:
    """Where training pauses, and whether for all that `every` promises or a look alone."""
    whole = {*range(every, recipe.iterations + 1, every), recipe.iterations}
    late = recipe.iterations - last_tenth(recipe)
    return [(mark, mark in whole) for mark in sorted({late, *whole})]


class _Trainer:
    """A training under way: what is stepped, what is looked at, and what a checkpoint holds."""

    def __init__(
        self,
        network: nn.Module,
        pool: Pool,
        indices: Tensor,
        recipe: Recipe,
        held_out: Pool | None,
        *,
        graphed: bool,
    ) -> None:
        self.network, self.recipe = network, recipe
        self.weights = trainable(network)
        self.optimiser = optimiser_for([w.detach() for w in self.weights.values()], recipe)
        self.stepper = Stepper(network, pool, indices, self.optimiser, graphed=graphed)
        self.check = Check(network, pool, indices)
        self.validator = None if held_out is None else Validator(network, held_out)
        self.identity = _identity(network, recipe, pool, indices, self.check, held_out)
        self.negligible = _rounding(pool[1])
        self.done = 0
        self.standings: dict[str, Standing] = {}

    def begin(self) -> None:
        """Look at the network before the first step."""
        self._stand("start")
        if self.done == self._late:
            self.standings["late"] = self.standings["start"]

    @property
    def _late(self) -> int:
        return self.recipe.iterations - last_tenth(self.recipe)

    def advance(self, mark: int) -> None:
        """Train up to an iteration, and see that nothing diverged on the way."""
        before = self.done
        self.stepper.advance(mark - before)
        self.done = mark
        self._refuse_divergence(before)
        if mark == self._late:
            self._stand("late")
        if mark == self.recipe.iterations:
            self._stand("end")

    def _stand(self, moment: str) -> None:
        standing = self.check.standing()
        if not bool(torch.isfinite(standing.loss).all()):
            raise self._diverged(self.done)
        self.standings[moment] = standing

    def _refuse_divergence(self, before: int) -> None:
        recent = self.stepper.losses[before : self.done]
        wrong = ~torch.isfinite(recent).reshape(len(recent), -1).all(1)
        if bool(wrong.any()):
            raise self._diverged(before + int(wrong.nonzero()[0]) + 1)
        if not all(bool(torch.isfinite(weight).all()) for weight in self.weights.values()):
            raise self._diverged(self.done)

    def _diverged(self, iteration: int) -> KoriskError:
        if iteration == 0:
            return KoriskError(
                "the loss must be finite before training, got one that is not; look at the "
                "network's weights and the scale of the data"
            )
        return KoriskError(
            f"training diverged: the loss is not finite at iteration {iteration:,} of "
            f"{self.recipe.iterations:,}; lower the rate, now {self.recipe.rate:g}"
        )

    def look(self) -> None:
        """Take the validation loss, if there is one."""
        if self.validator is not None:
            self.validator.look(self.done)

    def recent_loss(self, span: int) -> Tensor:
        """The mean loss of the last iterations, () or (runs,), on the CPU."""
        return self.stepper.losses[max(0, self.done - span) : self.done].mean(0).cpu()

    def save(self, path: Path) -> None:
        """Write the checkpoint."""
        content = {
            "iteration": self.done,
            "learned": {name: value.detach() for name, value in _learned(self.network).items()},
            "state": self.optimiser.state,
            "losses": self.stepper.losses[: self.done].clone(),
            "standings": {name: tuple(standing) for name, standing in self.standings.items()},
            "validation": None if self.validator is None else self.validator.state(),
        }
        _checkpoint.write(path, self.identity, content)

    def resume(self, path: Path) -> bool:
        """Go on from a checkpoint, where there is one."""
        content = _checkpoint.read(path, self.identity, self.stepper.losses.device)
        if content is None:
            return False
        try:
            self._restore(content)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError):
            raise _checkpoint.damaged(path) from None
        return True

    @torch.no_grad()
    def _restore(self, content: Mapping[str, Any]) -> None:
        self.done = int(content["iteration"])
        if not 0 < self.done <= self.recipe.iterations:
            raise ValueError("no iteration of this training")
        for name, value in _learned(self.network).items():
            value.copy_(content["learned"][name])
        for kept, given in zip(self.optimiser.state, content["state"], strict=True):
            for tensor, value in zip(kept, given, strict=True):
                tensor.copy_(value)
        self.stepper.losses[: self.done].copy_(content["losses"])
        self.stepper.iteration.fill_(self.done)
        standings = content["standings"].items()
        self.standings = {name: Standing(*(t.cpu() for t in pair)) for name, pair in standings}
        if self.validator is not None:
            self.validator.restore(content["validation"])
        if self.done == self.recipe.iterations:
            self.result().explain()  # nothing is left to do but this

    def result(self) -> Training:
        """What the training came to."""
        return Training(
            recipe=self.recipe,
            losses=self.stepper.losses.cpu(),
            validation=None if self.validator is None else self.validator.result(),
            negligible=self.negligible,
            **self.standings,
        )


def _rounding(targets: Tensor) -> float:
    """The mean squared error of outputs that are right but for rounding."""
    error = 8 * torch.finfo(targets.dtype).eps
    size = float(torch.linalg.vector_norm(targets, dtype=torch.float64))
    return error**2 * size**2 / targets.numel()


def _learned(network: nn.Module) -> dict[str, Tensor]:
    """What training changes: parameters, and buffers that do not belong to known operators."""
    known = {
        id(buffer)
        for module in network.modules()
        if isinstance(module, LinearOperator)
        for buffer in module.buffers()
    }
    buffers = {name: b for name, b in network.named_buffers() if id(b) not in known}
    return {**trainable(network), **buffers}


def _identity(
    network: nn.Module,
    recipe: Recipe,
    pool: Pool,
    indices: Tensor,
    check: Check,
    held_out: Pool | None,
) -> dict[str, object]:
    """What must be the same for a checkpoint to be one of this training."""
    shapes = {name: tuple(value.shape) for name, value in _learned(network).items()}
    return {
        **asdict(recipe),
        "weights": ", ".join(f"{name} {shape_text(shape)}" for name, shape in shapes.items()),
        "precision": str(pool[0].dtype),
        "network": hashlib.sha256(repr(network).encode()).hexdigest(),
        "number of samples": len(pool[0]),
        "validation samples": 0 if held_out is None else len(held_out[0]),
        "order of samples": _checkpoint.fingerprint([indices]),
        "data": _checkpoint.fingerprint([*check.data(), *(held_out or ())]),
    }


# Checks


def _checked_pool(first: str, second: str, network: nn.Module, pool: Any) -> Pool:
    if not isinstance(network, nn.Module):
        raise KoriskError(f"network must be an nn.Module, got {shown(network)}")
    weights = list(trainable(network).values())
    if not weights:
        raise KoriskError(
            f"{type(network).__name__} has no weights to train; unfreeze some with "
            "requires_grad_(), or leave out the training"
        )
    if not isinstance(pool, tuple | list) or len(pool) != 2:
        raise KoriskError(f"{first} and {second} must come as a pair, got {shown(pool)}")
    for field, values in zip((first, second), pool, strict=True):
        _check_samples(field, values, weights[0])
    inputs, targets = pool
    if len(inputs) != len(targets):
        raise KoriskError(
            f"{first} and {second} must be as many, got {len(inputs):,} and {len(targets):,}"
        )
    _check_shapes(network, inputs, second, targets)
    return inputs.detach(), targets.detach()


def _check_samples(field: str, values: object, weight: Tensor) -> None:
    if not isinstance(values, Tensor) or values.ndim < 1 or len(values) == 0:
        raise KoriskError(
            f"{field} must be a tensor with at least one sample along its first axis, got "
            f"{shown(values)}"
        )
    if (values.dtype, values.device) != (weight.dtype, weight.device):
        raise KoriskError(
            f"{field} must be {weight.dtype} on {weight.device} as the network's weights are, got "
            f"{values.dtype} on {values.device}; bring them together with .to(...)"
        )
    wrong = values.numel() - int(torch.isfinite(values).sum())
    if wrong:
        raise KoriskError(
            f"{field} must be finite, got {wrong:,} of {values.numel():,} values that are NaN or "
            "infinite; find where they come from"
        )


def _check_shapes(network: nn.Module, inputs: Tensor, field: str, targets: Tensor) -> None:
    """Refuse targets that are no outputs, where broadcasting would make a loss of them still."""
    runs = runs_of(network)
    lead = (1,) if runs is None else (runs, 1)
    with evaluating(network), torch.no_grad():
        image = network(inputs[:1].expand(*lead, *inputs.shape[1:]))
    if image.shape != (*lead, *targets.shape[1:]):
        raise KoriskError(
            f"{field} must have the shape of the network's outputs, "
            f"{shape_text(tuple(image.shape[len(lead) :]), batched=True)}, got "
            f"{shape_text(tuple(targets.shape))}"
        )


def _checked_indices(
    network: nn.Module,
    recipe: Recipe,
    samples: int,
    indices: Tensor | None,
    generator: torch.Generator | None,
) -> Tensor:
    if (indices is None) == (generator is None):
        raise KoriskError(
            "batches come from indices= or from generator=, got "
            f"{'neither' if indices is None else 'both'}; pass one, such as released_generator(1)"
        )
    runs = runs_of(network)
    if indices is None:
        if runs is not None:
            raise KoriskError(
                f"a network of {runs} runs takes indices=, one column for each run; stack what "
                "draw_batches gives for each along axis 1"
            )
        assert generator is not None
        return draw_batches(samples, recipe.batch, recipe.iterations, generator)
    _check_integers(indices)
    lead = (recipe.iterations,) if runs is None else (recipe.iterations, runs)
    if indices.shape[:-1] != lead or not 1 <= indices.shape[-1] <= recipe.batch:
        raise KoriskError(
            f"indices must have shape {shape_text((*lead, recipe.batch))}, or fewer in the last "
            f"axis, for this recipe and network, got {shape_text(tuple(indices.shape))}"
        )
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= samples:
        raise KoriskError(
            f"indices must be from 0 to {samples - 1}, the last sample, got {low} to {high}"
        )
    return indices


def _check_integers(indices: object) -> None:
    if not isinstance(indices, Tensor) or indices.dtype != torch.int64:
        raise KoriskError(f"indices must be a tensor of torch.int64, got {shown(indices)}")
