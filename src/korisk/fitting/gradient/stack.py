"""Networks as one, side by side: their forward pass, their gradients and their errors.

Every tensor has an axis of members in front. The loss is the sum of the members' losses, so each
member evolves as it would alone.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from korisk.fitting.gradient.convolutions import SLOW, FastGradients
from korisk.networks import KnownOperatorNet

_CHUNK = 64  # pairs of a member whose errors are computed at once

Pool = tuple[Tensor, Tensor]  # inputs (samples, ...) and targets (samples, ...)
Forward = Callable[[Tensor], Tensor]  # inputs (members, batch, ...) to outputs of that shape


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """Tensors that training may change: weights and buffers, by name."""
    state = {name: weights.detach() for name, weights in trainable(network).items()}
    return state | {name: buffer.detach() for name, buffer in network.named_buffers()}


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode; restore the mode of every module at exit."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@dataclass(frozen=True, eq=False)
class Stack:
    """One or several networks as one."""

    members: int
    mode: nn.Module  # the module to switch between training and evaluation mode
    weights: list[nn.Parameter]  # with an axis of members, unless there is one member alone
    forward: Forward
    state: dict[str, Tensor]  # that training may change, by name, with an axis of members

    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The losses of a batch, (members,), and the gradients of their sum."""
        with FastGradients() if SLOW else nullcontext(), torch.enable_grad():
            losses = (self.forward(x) - y).square().flatten(1).mean(1)
            gradients = torch.autograd.grad(losses.sum(), self.weights, materialize_grads=True)
        return losses.detach(), gradients


def runs_of(network: nn.Module) -> int | None:
    """How many trainings a network runs side by side; None without an axis of runs."""
    return network.runs if isinstance(network, KnownOperatorNet) else None


def alone(network: nn.Module) -> Stack:
    """A network by itself, or one that has an axis of runs of its own."""
    weights = list(trainable(network).values())
    if (runs := runs_of(network)) is not None:
        return Stack(runs, network, weights, network, {})
    state = {name: value[None] for name, value in state_of(network).items()}
    return Stack(1, network, weights, lambda x: network(x[0])[None], state)


def stacked(networks: Sequence[nn.Module], trial: Tensor) -> Stack:
    """Networks of one kind, their weights stacked; what is equal and constant is shared."""
    # `probe` is called once in training mode: buffers that change in it cannot be shared.
    template, probe = (copy.deepcopy(networks[0]) for _ in range(2))
    with torch.no_grad():
        probe.train()(trial)
    modules = [probe, *networks]
    probed, *states = ({**dict(m.named_parameters()), **dict(m.named_buffers())} for m in modules)
    learned: dict[str, nn.Parameter] = {}
    unshared: dict[str, Tensor] = {}
    shared: dict[str, Tensor] = {}
    for name, value in states[0].items():
        if value.requires_grad:
            learned[name] = nn.Parameter(torch.stack([state[name].detach() for state in states]))
        elif all(torch.equal(state[name], value) for state in (probed, *states)):
            shared[name] = value
        else:
            unshared[name] = torch.stack([state[name] for state in states])

    def single(weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
        output: Tensor = functional_call(template, {**shared, **buffers, **weights}, (x,))
        return output

    mapped = vmap(single, randomness="different")
    state = {name: weights.detach() for name, weights in learned.items()} | unshared
    weights = list(learned.values())
    return Stack(len(networks), template, weights, lambda x: mapped(learned, unshared, x), state)


def pair_errors(stack: Stack, pool: Pool, rows: Tensor) -> Tensor:
    """(members, R) the mean squared error of each pair, for the pool's `rows` (members, R)."""
    inputs, targets = pool
    with evaluating(stack.mode), torch.no_grad():
        errors = [
            (stack.forward(inputs[piece]) - targets[piece]).square().flatten(2).mean(-1)
            for piece in torch.split(rows, _CHUNK, 1)
        ]
    return torch.cat(errors, 1).double()
