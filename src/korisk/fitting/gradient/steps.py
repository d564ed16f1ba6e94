"""One step of training, without a word from the host: batch, gradient, update, record.

The iteration is counted on the device, and everything that changes from step to step is looked up
there. So a step can be captured as a CUDA graph and replayed, and nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from korisk.fitting.gradient.optimisers import Optimiser
from korisk.networks import DenseNet, KnownOperatorNet

Gradient = Callable[[Tensor, Tensor], tuple[Tensor, list[Tensor]]]

_EAGER = 3  # steps before a capture: libraries set themselves up in them


def runs_of(network: nn.Module) -> int | None:
    """How many trainings stand side by side in a network; None where it has no axis for them."""
    runs = getattr(network, "runs", None)
    return runs if isinstance(runs, int) else None


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def gather(pool: Tensor, chosen: Tensor) -> Tensor:
    """The chosen samples of (samples, ...), in the shape (*chosen.shape, ...)."""
    return pool.index_select(0, chosen.flatten()).reshape(*chosen.shape, *pool.shape[1:])


def gradient_of(network: nn.Module) -> Gradient:
    """The function from a batch to the losses, () or (runs,), and the gradients of their sum."""
    if type(network) is KnownOperatorNet:
        return lambda x, y: _written_out(network, x, y)
    return lambda x, y: by_autograd(network, x, y)


def by_autograd(network: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Losses and gradients of any network."""
    with torch.enable_grad():
        lead = 0 if runs_of(network) is None else 1
        losses = (network(x) - y).square().flatten(lead).mean(-1)
        gradients = torch.autograd.grad(losses.sum(), list(trainable(network).values()))
    return losses.detach(), list(gradients)


@torch.no_grad()
def _written_out(network: KnownOperatorNet, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The same for ReLU(B W x): nothing is recorded, and no gradient of x is made on the way."""
    tail = network.linear_tail
    lead = 0 if network.runs is None else 1  # where the batch's axis is
    image = tail(x * network.spread_weights(x))
    residual = (torch.relu(image) if network.relu else image) - y
    losses = residual.square().flatten(lead).mean(-1)
    if network.relu:
        residual = residual * (image > 0)
    entries = residual[0].numel() if lead else residual.numel()
    gradient = (x * tail.adjoint(residual)).sum(lead).mul_(2 / entries)
    return losses, [gradient]


class Stepper:
    """Training, one iteration at a time; `losses` and `iteration` live on the device."""

    def __init__(
        self,
        network: nn.Module,
        pool: tuple[Tensor, Tensor],
        indices: Tensor,
        optimiser: Optimiser,
        *,
        graphed: bool,
    ) -> None:
        self.gradient = gradient_of(network)
        self.inputs, self.targets = pool
        self.indices = indices
        self.optimiser = optimiser
        # Other networks may decide on the host what they do next, which a replay would not repeat.
        fixed = type(network) in (KnownOperatorNet, DenseNet)
        self.graphed = graphed and fixed and indices.device.type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None
        runs = () if indices.ndim == 2 else (indices.shape[1],)
        self.losses = self.inputs.new_zeros(len(indices), *runs)
        self.iteration = torch.zeros(1, dtype=torch.int64, device=indices.device)

    def advance(self, steps: int) -> None:
        """Take so many steps."""
        if not self.graphed:
            self._take(steps)
            return
        with torch.cuda.device(self.indices.device):
            self._replay(steps)

    def _replay(self, steps: int) -> None:
        if self._graph is None:
            eager = min(steps, _EAGER)
            self._take_aside(eager)
            steps -= eager
        if steps and self._graph is None:
            self._graph = self._captured()
            self.graphed = self._graph is not None
        if self._graph is None:
            self._take(steps)
            return
        for _ in range(steps):
            self._graph.replay()

    @torch.no_grad()
    def _step(self) -> None:
        chosen = self.indices.index_select(0, self.iteration)[0]
        x, y = gather(self.inputs, chosen), gather(self.targets, chosen)
        losses, gradients = self.gradient(x, y)
        self.losses.index_copy_(0, self.iteration, losses.unsqueeze(0))
        self.optimiser.step(gradients, self.iteration)
        self.iteration.add_(1)

    def _take(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def _take_aside(self, steps: int) -> None:
        """Take steps on a stream of their own, as is required before a capture."""
        here = torch.cuda.current_stream()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            self._take(steps)
        here.wait_stream(aside)

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        """One step as a graph, or None where something in it cannot be captured.

        Capturing runs nothing: the step is taken when the graph is replayed.
        """
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph):
                self._step()
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        return graph
