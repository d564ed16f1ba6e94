"""Sharded training of the dense network: its matrix in parts on several ranks, never whole on one.

The rows of M are cut into blocks, and each block is an FSDP unit of PyTorch, spread over the ranks.
A step goes through the blocks one by one: gather its weights, take its part of the loss and of the
gradient, scatter the gradient, update the own rows. The mean squared error is a sum over rows, so
this is the step of the whole network; and neither weights nor gradients are ever there but for one
block, and for the own share of the weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, MissingExtraError, shown
from korisk.fitting.gradient import checkpoint as _checkpoint
from korisk.fitting.gradient.evaluation import _spread
from korisk.fitting.gradient.recipe import Recipe
from korisk.fitting.gradient.sharded_ranks import Ranks, among_ranks, joined, launch, launched
from korisk.fitting.gradient.train import _check_samples, _checked_indices
from korisk.operators.linear import shape_text

try:
    from torch.distributed.tensor import DTensor

    from korisk.fitting.gradient.sharded_network import Block, ShardedDense, Start, uniform_rows
    from korisk.fitting.gradient.sharded_store import Checkpoints, newest_identity, newest_iteration
except ImportError as missing:
    raise MissingExtraError(
        f"sharded training needs PyTorch 2.6 or newer, this is {torch.__version__}; pip install "
        "--upgrade 'korisk[torch]'"
    ) from missing

__all__ = [
    "Ranks",
    "ShardedDense",
    "ShardedTraining",
    "Start",
    "among_ranks",
    "joined",
    "launch",
    "launched",
    "newest_identity",
    "newest_iteration",
    "train_sharded",
    "uniform_rows",
]

Progress = Callable[[int, float], None]  # iterations done, mean loss since the last call


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardedTraining:
    """Losses of every mini-batch, and what the steps of this run cost."""

    recipe: Recipe
    losses: Tensor  # (iterations,), float64
    ranks: int
    resumed_at: int  # the iteration that this run began after
    seconds: float  # of this run's steps, checkpoints apart
    peak_bytes: tuple[int, ...]  # of each rank, above what it held before the network
    peak_process_bytes: tuple[int, ...]  # of each rank, all that its process held on the host

    @property
    def steps(self) -> int:
        """How many steps this run took."""
        return self.recipe.iterations - self.resumed_at

    @property
    def seconds_per_step(self) -> float | None:
        """The mean over this run's steps; None where all were done before."""
        return self.seconds / self.steps if self.steps else None


def train_sharded(
    network: ShardedDense,
    inputs: Tensor,  # (samples, *domain)
    targets: Tensor,  # (samples, *range)
    recipe: Recipe,
    *,
    indices: Tensor | None = None,  # (iterations, batch)
    generator: torch.Generator | None = None,
    folder: str | PathLike[str] | None = None,
    every: int = 500,
    progress: Progress | None = None,
    resumed: Callable[[int], None] | None = None,
    data: str | None = None,
) -> ShardedTraining:
    """Fit a sharded network in place, as `korisk.fitting.train` fits a whole one.

    All ranks call it with the same data. The samples of each batch are dealt out among them, and
    a step is that of the whole batch whatever the number of ranks. Every `every` iterations the
    losses are looked at (one that is not finite ends the training), a checkpoint is written into
    `folder`, of which the last two are kept, and rank 0 calls `progress`. Where there is a
    checkpoint already, training goes on from the newest, on as many ranks as there are now, and
    rank 0 says from which iteration to `resumed`. A checkpoint belongs to its data, by their values
    or by the name `data` that they have, if their values may differ by rounding.
    """
    _check_pool(network, inputs, targets)
    chosen = _checked_indices(network, recipe, len(inputs), indices, generator)
    _checks.count("every", every, at_least=1, remedy="try 500")
    trainer = _Trainer(network, inputs, targets, recipe, chosen, data)
    kept = None
    if folder is not None:
        kept = Checkpoints(Path(folder), trainer.identity, network.ranks)
        trainer.resume(kept)
    begun = trainer.done
    if begun and resumed is not None and network.ranks.first:
        resumed(begun)
    for mark in [*range(every, recipe.iterations, every), recipe.iterations]:
        if mark <= begun:
            continue
        trainer.advance(mark)
        if kept is not None:
            kept.write(mark, trainer.state())
        if progress is not None and network.ranks.first:
            progress(mark, float(trainer.losses[max(0, mark - every) : mark].mean()))
    return trainer.result(begun)


class _Trainer:
    """A training under way on this rank."""

    def __init__(
        self,
        network: ShardedDense,
        inputs: Tensor,
        targets: Tensor,
        recipe: Recipe,
        indices: Tensor,
        data: str | None,
    ) -> None:
        self.network, self.recipe = network, recipe
        self.indices = indices.to(inputs.device)
        self.inputs, self.targets = inputs.detach().flatten(1), targets.detach().flatten(1)
        self.updates = [_Update(block, recipe) for block in network.parts]
        self.losses = torch.zeros(
            recipe.iterations, dtype=torch.float64, device=network.ranks.device
        )
        self.identity = _identity(network, recipe, inputs, targets, indices, data)
        self.done = 0
        self.seconds = 0.0

    def advance(self, mark: int) -> None:
        """Train up to an iteration, and see that nothing diverged on the way."""
        begun, before = time.perf_counter(), self.done
        for iteration in range(before, mark):
            self._step(iteration)
        recent = self.losses[before:mark]
        dist.all_reduce(recent)  # each rank has its own samples' part
        self.done = mark
        wrong = (~torch.isfinite(recent)).nonzero()  # which waits for the device
        self.seconds += time.perf_counter() - begun
        sound = all(bool(torch.isfinite(update.block.own).all()) for update in self.updates)
        if len(wrong) or not all(self.network.ranks.gather(sound)):
            iteration = before + int(wrong[0]) + 1 if len(wrong) else mark
            raise KoriskError(
                f"training diverged: the loss or a weight is not finite at iteration "
                f"{iteration:,} of {self.recipe.iterations:,}; lower the rate, now "
                f"{self.recipe.rate:g}"
            )

    def _step(self, iteration: int) -> None:
        ranks, chosen = self.network.ranks, self.indices[iteration]
        own = chosen[ranks.rank :: ranks.size]  # which may be none at all
        x, y = self.inputs.index_select(0, own), self.targets.index_select(0, own)
        entries = len(chosen) * y.shape[1]
        for update in self.updates:
            block = update.block
            image = block(x)
            if self.network.relu:
                image = torch.relu(image)
            loss = (image - y[:, block.first : block.last]).square().sum() / entries
            # FSDP takes the mean over ranks of what is a sum over them.
            (loss * ranks.size).backward()
            update.step()
            self.losses[iteration] += loss.detach()

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: weights, the optimiser's memory of them, and the losses."""
        state: dict[str, Tensor] = {"losses": self.losses}
        for number, update in enumerate(self.updates):
            state |= {f"{name}/{number}": part for name, part in update.state().items()}
        return state

    def resume(self, kept: Checkpoints) -> None:
        """Go on from the newest checkpoint, where there is one."""
        iteration = kept.newest()
        if not iteration:
            return
        if iteration > self.recipe.iterations:
            raise KoriskError(
                f"{kept.folder}: holds {iteration:,} iterations, and the recipe has "
                f"{self.recipe.iterations:,}; name another folder"
            )
        kept.read(iteration, self.state())
        self.done = iteration
        for update in self.updates:
            update.go_on_from(iteration)

    def result(self, begun: int) -> ShardedTraining:
        """What the training came to."""
        ranks = self.network.ranks
        above, process = self.network.peak.read()
        return ShardedTraining(
            recipe=self.recipe,
            losses=self.losses.cpu(),
            ranks=ranks.size,
            resumed_at=begun,
            seconds=self.seconds,
            peak_bytes=ranks.gather(above),
            peak_process_bytes=ranks.gather(process),
        )


class _Update:
    """The optimiser of one block, on the rows of this rank.

    Its updates are elementwise, so it works on the plain tensors inside the sharded ones: all of
    PyTorch's fused kernels take those.
    """

    def __init__(self, block: Block, recipe: Recipe) -> None:
        self.block = block
        self.held = nn.Parameter(block.own)
        self.optimiser = _optimiser(self.held, recipe)
        self.memories: dict[str, Tensor] = {}  # over all ranks, as the weights are
        state = self.optimiser.state[self.held]
        for name in _memories(recipe):
            memory = torch.zeros_like(block.sharded.detach())
            assert isinstance(memory, DTensor)
            self.memories[name], state[name] = memory, memory.to_local()
        if recipe.optimiser != "sgd":
            fused = bool(self.optimiser.defaults.get("fused"))
            place = self.held.device if fused else torch.device("cpu")
            state["step"] = torch.zeros((), dtype=torch.float32, device=place)

    @torch.no_grad()
    def step(self) -> None:
        """Move the rows of this rank by their gradient, and forget that."""
        weight = self.block.sharded
        gradient = weight.grad
        assert isinstance(gradient, DTensor)
        weight.grad = None
        if not self.held.numel():
            return
        self.held.data = self.block.own  # FSDP may have moved it
        self.held.grad = gradient.to_local()
        self.optimiser.step()
        self.held.grad = None

    def state(self) -> dict[str, Tensor]:
        """The weights and the memories, each as one tensor over all ranks."""
        return {"weight": self.block.sharded.detach(), **self.memories}

    def go_on_from(self, iteration: int) -> None:
        """Count steps from there on; the tensors were filled in place."""
        step = self.optimiser.state[self.held].get("step")
        if step is not None:
            step.fill_(iteration)


def _memories(recipe: Recipe) -> tuple[str, ...]:
    """What PyTorch's optimisers call what they remember of each weight."""
    names = {"adam": ("exp_avg", "exp_avg_sq"), "adagrad": ("sum",), "sgd": ()}
    return ("momentum_buffer",) if recipe.momentum else names[recipe.optimiser]


def _optimiser(held: nn.Parameter, recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.optimiser == "adam":
        return torch.optim.Adam([held], recipe.rate, fused=True)
    if recipe.optimiser == "adagrad":
        # Not every PyTorch that has it on the CPU has it on CUDA.
        fused = True if held.device.type == "cpu" else None
        return torch.optim.Adagrad([held], recipe.rate, fused=fused)
    return torch.optim.SGD([held], recipe.rate, momentum=recipe.momentum, fused=True)


# --- Checks --------------------------------------------------------------------------------------


def _identity(
    network: ShardedDense,
    recipe: Recipe,
    inputs: Tensor,
    targets: Tensor,
    indices: Tensor,
    data: str | None,
) -> dict[str, object]:
    """What must be the same for a checkpoint to be one of this training; ranks may differ."""
    if data is None:
        seen = _spread(torch.unique(indices)).to(inputs.device)
        data = _checkpoint.fingerprint([inputs[seen], targets[seen]])
    return {
        **asdict(recipe),
        "shape": f"{shape_text(network.domain)} -> {shape_text(network.range)}",
        "relu": network.relu,
        "blocks": len(network.blocks),
        "start": network.start,
        "seed": network.seed,
        "precision": str(network.dtype),
        "number of samples": len(inputs),
        "order of samples": _checkpoint.fingerprint([indices]),
        "data": data,
    }


def _check_pool(network: ShardedDense, inputs: Tensor, targets: Tensor) -> None:
    if not isinstance(network, ShardedDense):
        raise KoriskError(
            f"network must be a ShardedDense, got {shown(network)}; others are for "
            "korisk.fitting.train"
        )
    like = torch.empty(0, dtype=network.dtype, device=network.ranks.device)
    for field, values, shape in (
        ("inputs", inputs, network.domain),
        ("targets", targets, network.range),
    ):
        _check_samples(field, values, like)
        if values.shape[1:] != shape:
            raise KoriskError(
                f"{field} must have shape {shape_text(shape, batched=True)}, got "
                f"{shape_text(tuple(values.shape))}"
            )
    if len(inputs) != len(targets):
        raise KoriskError(
            f"inputs and targets must be as many, got {len(inputs):,} and {len(targets):,}"
        )
