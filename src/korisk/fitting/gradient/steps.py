"""One step of training without waiting for the device: batch, gradient, update, record.

The iteration is counted on the device, and everything that changes from step to step is looked up
there. So a step can be captured as a CUDA graph and replayed. PyTorch's optimisers keep step counts
on the CPU, which a captured graph could not advance, so their update rules are written out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn

from korisk.fitting.gradient.recipe import Recipe
from korisk.networks import DenseNet, KnownOperatorNet

_ADAM_BETAS = 0.9, 0.999
_ADAM_EPSILON = 1e-8
_ADAGRAD_EPSILON = 1e-10
_EAGER = 3  # steps before a capture: libraries set themselves up in them


def runs_of(network: nn.Module) -> int | None:
    """How many runs are trained side by side in a network; None where it has no axis for them."""
    runs = getattr(network, "runs", None)
    return runs if isinstance(runs, int) else None


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def gather(pool: Tensor, chosen: Tensor) -> Tensor:
    """The chosen samples of (samples, ...), in the shape (*chosen.shape, ...)."""
    return pool.index_select(0, chosen.flatten()).reshape(*chosen.shape, *pool.shape[1:])


class Optimiser:
    """PyTorch's Adam, Adagrad and SGD on lists of tensors; `state` is all that they remember."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        self.parameters, self.recipe = list(parameters), recipe
        memories = {"adam": 2, "adagrad": 1, "sgd": 1 if recipe.momentum else 0}[recipe.optimiser]
        self.state = [[torch.zeros_like(p) for p in parameters] for _ in range(memories)]
        step = torch.arange(1, recipe.iterations + 1, dtype=torch.float64)
        first, second = _ADAM_BETAS
        # Adam's rate and root at each iteration, which free its running means of their start.
        self.rates = (recipe.rate / (1 - first**step)).to(self.parameters[0])
        self.roots = (1 - second**step).sqrt().to(self.parameters[0])

    def step(self, gradients: Sequence[Tensor], iteration: Tensor) -> None:
        """Move the parameters in place; `iteration`, shape (1,), counts from 0."""
        for number, (parameter, gradient) in enumerate(
            zip(self.parameters, gradients, strict=True)
        ):
            memory = [each[number] for each in self.state]
            if self.recipe.optimiser == "adam":
                mean, square = memory
                mean.lerp_(gradient, 1 - _ADAM_BETAS[0])
                square.mul_(_ADAM_BETAS[1]).addcmul_(gradient, gradient, value=1 - _ADAM_BETAS[1])
                size = (square.sqrt() / self.roots[iteration]).add_(_ADAM_EPSILON)
                parameter.sub_((mean / size).mul_(self.rates[iteration]))
            elif self.recipe.optimiser == "adagrad":
                (total,) = memory
                total.addcmul_(gradient, gradient)
                root = total.sqrt().add_(_ADAGRAD_EPSILON)
                parameter.addcdiv_(gradient, root, value=-self.recipe.rate)
            else:
                move = gradient
                if memory:
                    (move,) = memory
                    move.mul_(self.recipe.momentum).add_(gradient)
                parameter.add_(move, alpha=-self.recipe.rate)


def gradient(network: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The losses of a batch, () or (runs,), and the gradients of their sum."""
    lead = 0 if runs_of(network) is None else 1  # where the batch's axis is
    if type(network) is not KnownOperatorNet:
        with torch.enable_grad():
            losses = (network(x) - y).square().flatten(lead).mean(-1)
            gradients = torch.autograd.grad(losses.sum(), list(trainable(network).values()))
        return losses.detach(), list(gradients)
    # ReLU(B W x) is written out: nothing is recorded, and no gradient of x is made on the way.
    with torch.no_grad():
        tail = network.linear_tail
        image = tail(x * network.spread_weights(x))
        residual = (torch.relu(image) if network.relu else image) - y
        losses = residual.square().flatten(lead).mean(-1)
        if network.relu:
            residual = residual * (image > 0)
        entries = residual[0].numel() if lead else residual.numel()
        slope = (x * tail.adjoint(residual)).sum(lead).mul_(2 / entries)
    return losses, [slope]


class Stepper:
    """Training, one iteration at a time; `losses` and `iteration` live on the device."""

    def __init__(
        self, network: nn.Module, pool: tuple[Tensor, Tensor], indices: Tensor, recipe: Recipe
    ) -> None:
        self.network, self.indices, (self.inputs, self.targets) = network, indices, pool
        self.optimiser = Optimiser([p.detach() for p in trainable(network).values()], recipe)
        # Other networks may decide on the host what they do next, which a replay would not repeat.
        fixed = indices.is_cuda and type(network) in (KnownOperatorNet, DenseNet)
        self.until_capture = _EAGER if fixed else -1
        self.graph: torch.cuda.CUDAGraph | None = None
        runs = () if indices.ndim == 2 else (indices.shape[1],)
        self.losses = self.inputs.new_zeros(len(indices), *runs)
        self.iteration = torch.zeros(1, dtype=torch.int64, device=indices.device)

    def advance(self, steps: int) -> None:
        """Take so many steps, on CUDA all but the first by replaying a captured one."""
        with torch.cuda.device_of(self.indices):  # type: ignore[no-untyped-call]
            for _ in range(steps):
                if self.until_capture == 0:
                    graph = torch.cuda.CUDAGraph()
                    with suppress(RuntimeError):  # from operators that cannot be captured
                        with torch.cuda.graph(graph):
                            self.step()
                        self.graph = graph
                self.until_capture -= 1
                if self.graph is None:
                    self.step()
                else:
                    self.graph.replay()

    @torch.no_grad()
    def step(self) -> None:
        """Take one step."""
        chosen = self.indices.index_select(0, self.iteration)[0]
        x, y = gather(self.inputs, chosen), gather(self.targets, chosen)
        losses, gradients = gradient(self.network, x, y)
        self.losses.index_copy_(0, self.iteration, losses.unsqueeze(0))
        self.optimiser.step(gradients, self.iteration)
        self.iteration.add_(1)
