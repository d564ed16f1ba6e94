"""Looks at a network in training: on fixed training samples, and on validation samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from korisk.fitting.gradient.steps import gather, runs_of, trainable
from korisk.fitting.gradient.training import Standing, Validation

_SAMPLES = 64  # of each run, looked at before, late and after
_PIECE = 16  # samples at once


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """The network in evaluation mode, and every part of it back in its own afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


class Check:
    """Up to 64 of the samples that each run draws, on which its loss and gradient are taken."""

    def __init__(self, network: nn.Module, pool: tuple[Tensor, Tensor], indices: Tensor) -> None:
        self.network = network
        self.inputs, self.targets = pool
        runs = [indices] if indices.ndim == 2 else list(indices.unbind(1))
        chosen = [_spread(torch.unique(run)) for run in runs]
        longest = max(len(samples) for samples in chosen)
        places = torch.arange(longest, device=indices.device)
        # Runs of fewer samples are filled up, with a share of nothing.
        filled = torch.stack([samples[places % len(samples)] for samples in chosen])
        shares = torch.stack([(places < len(samples)) / len(samples) for samples in chosen])
        alone = indices.ndim == 2
        self.samples = filled[0] if alone else filled  # ([runs,] samples)
        self.shares = (shares[0] if alone else shares).to(self.inputs.dtype)

    def data(self) -> tuple[Tensor, Tensor]:
        """The samples that are looked at, each once."""
        samples = torch.unique(self.samples)
        return gather(self.inputs, samples), gather(self.targets, samples)

    def standing(self) -> Standing:
        """The loss of each run and the norm of its gradient, as the network is now."""
        weights = list(trainable(self.network).values())
        total = self.shares.new_zeros(self.shares.shape[:-1])
        gradients = [torch.zeros_like(weight) for weight in weights]
        pieces = (torch.split(each, _PIECE, -1) for each in (self.samples, self.shares))
        with evaluating(self.network), torch.enable_grad():
            for samples, shares in zip(*pieces, strict=True):
                losses = self._losses(samples, shares)
                total += losses.detach()
                parts = torch.autograd.grad(losses.sum(), weights)
                for gradient, part in zip(gradients, parts, strict=True):
                    gradient += part
        return Standing(total.cpu(), self._norms(gradients).cpu())

    def _losses(self, samples: Tensor, shares: Tensor) -> Tensor:
        x, y = gather(self.inputs, samples), gather(self.targets, samples)
        each = (self.network(x) - y).square().flatten(samples.ndim).mean(-1)
        found: Tensor = (each * shares).sum(-1)
        return found

    def _norms(self, gradients: list[Tensor]) -> Tensor:
        lead = self.shares.ndim - 1
        squares = [gradient.square().flatten(lead).sum(-1) for gradient in gradients]
        return torch.stack(squares).sum(0).sqrt()


def _spread(samples: Tensor) -> Tensor:
    """All of them, or 64 that lie evenly among them."""
    if len(samples) <= _SAMPLES:
        return samples
    return samples[torch.arange(_SAMPLES, device=samples.device) * len(samples) // _SAMPLES]


class Validator:
    """The validation loss over time, and the best weights so far."""

    def __init__(self, network: nn.Module, pool: tuple[Tensor, Tensor]) -> None:
        self.network = network
        self.inputs, self.targets = pool
        self.iterations: list[int] = []
        self.losses: list[Tensor] = []
        self.best_iteration = torch.zeros(0)
        self.best_weights: dict[str, Tensor] = {}

    def look(self, iteration: int) -> None:
        """Take the loss after so many iterations, and the weights of the runs where it is best."""
        loss = self._loss()
        best = torch.stack([*self.losses, torch.full_like(loss, torch.inf)]).amin(0)
        better = loss < best
        now = {name: weight.detach() for name, weight in trainable(self.network).items()}
        kept = self.best_weights or now
        self.best_weights = {name: _chosen(better, now[name], kept[name]) for name in now}
        before = self.best_iteration if self.losses else torch.zeros_like(better, dtype=torch.int64)
        self.best_iteration = torch.where(better, iteration, before)
        self.iterations.append(iteration)
        self.losses.append(loss)

    @torch.no_grad()
    def _loss(self) -> Tensor:
        runs = runs_of(self.network)
        lead = () if runs is None else (runs,)
        total = self.inputs.new_zeros(lead)
        pieces = torch.split(self.inputs, _PIECE), torch.split(self.targets, _PIECE)
        with evaluating(self.network):
            for x, y in zip(*pieces, strict=True):
                images = self.network(x.expand(*lead, *x.shape))
                total += (images - y).square().flatten(len(lead)).sum(-1)
        return total / self.targets.numel()

    def state(self) -> dict[str, object]:
        """What a checkpoint holds."""
        return {
            "iterations": list(self.iterations),
            "losses": list(self.losses),
            "best_iteration": self.best_iteration,
            "best_weights": dict(self.best_weights),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what a checkpoint held."""
        self.iterations = list(state["iterations"])
        self.losses = list(state["losses"])
        self.best_iteration = state["best_iteration"]
        known = trainable(self.network)  # a weight that is missing or of another shape is refused
        best = state["best_weights"]
        self.best_weights = {name: best[name].reshape_as(known[name]) for name in known}
        self.result()

    def result(self) -> Validation:
        """The curve and the best weights."""
        return Validation(
            tuple(self.iterations),
            torch.stack(self.losses).cpu(),
            self.best_iteration.cpu(),
            dict(self.best_weights),
        )


def _chosen(better: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """New weights for the runs that are better, old ones for the others; always a copy."""
    return torch.where(better.reshape(*better.shape, *[1] * (new.ndim - better.ndim)), new, old)
