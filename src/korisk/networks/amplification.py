"""How much of a layer's error reaches the output, along the data: an estimate beside the bound.

The bound multiplies the largest slopes that occur anywhere. Here the gains are those of the data,
in directions drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import stdtrit
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, invalid
from korisk.networks.describe.marks import UNNAMED, mark_of
from korisk.networks.describe.recording import untouched
from korisk.networks.known_operator import free_name
from korisk.theory import Learned

_SURE = 0.9  # of intervals
_BATCH = 64  # inputs that are run at once

Call = Callable[[Tensor], Tensor]  # of a learned part's output
Samples = NDArray[np.float64]  # one number for each input


@dataclass(frozen=True)
class Mean:
    """A mean over the data with its 90% interval, by Student's t over the inputs."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Samples) -> Mean:
        """The mean of independent numbers, one for each input."""
        value, count = float(samples.mean()), len(samples)
        if count < 2:
            return cls(value, math.nan, math.nan)
        error = float(samples.std(ddof=1)) / math.sqrt(count)
        wide = error * float(stdtrit(count - 1, (1 + _SURE) / 2))
        return cls(value, max(0.0, value - wide), value + wide)


@dataclass(frozen=True)
class LayerGain:
    """How much the error of one learned layer grows on its way to the output."""

    name: str
    gain: Mean  # squared error of the output for each of the layer, in a random direction


def amplification(
    module: nn.Module, data: Tensor, *, probes: int = 4, seed: int = 0
) -> tuple[LayerGain, ...]:
    """Gains from each learned layer to the output along data.

    A learned layer is a part with trained weights of its own, or one that `korisk.mark_learned`
    marks; every call of it counts. Samples of a batch must not interact in evaluation mode.

    Parameters
    ----------
    module : torch.nn.Module
        The trained network.
    data : Tensor
        Inputs, batch first.
    probes : int, default 4
        Random directions for each input.
    seed : int, default 0
        Random seed of the directions.

    Returns
    -------
    tuple of LayerGain
        For each call of a layer, in order: its name and its gain with a 90% interval.

    Raises
    ------
    KoriskError
        If nothing is learned.

    Examples
    --------
    >>> import korisk as kr
    >>> import torch
    >>> linear = torch.nn.Linear(4, 4, bias=False)
    >>> _ = torch.nn.init.eye_(linear.weight)
    >>> net = torch.nn.Sequential(linear, torch.nn.Linear(4, 4, bias=False))
    >>> _ = torch.nn.init.constant_(net[1].weight, 0.5)
    >>> [layer.name for layer in kr.amplification(net, torch.rand(64, 4), probes=64)]
    ['0', '1']
    """
    _checks.count("probes", probes, at_least=1, remedy="try 4")
    candidate: object = data
    if not isinstance(candidate, Tensor) or not data.is_floating_point() or not data.numel():
        raise invalid("data", "be a batch of inputs", data, "give a tensor of floats, batch first")
    network: object = module
    if not isinstance(network, nn.Module):
        raise invalid("module", "be an nn.Module", network)
    draws = torch.Generator().manual_seed(seed)
    with untouched(module, data):
        names, gains = _gains(module, data, probes, draws)
    return tuple(LayerGain(name, Mean.of(gains[:, k])) for k, name in enumerate(names))


def learned_parts(module: nn.Module) -> dict[str, nn.Module]:
    """The submodules that are learned layers, by their paths."""
    parts: dict[str, nn.Module] = {}
    for path, submodule in module.named_modules():
        within = any(not outer or path.startswith(f"{outer}.") for outer in parts)
        trained = any(weights.requires_grad for weights in submodule.parameters(recurse=False))
        if not within and (trained or isinstance(mark_of(submodule), Learned)):
            parts[path] = submodule
    return parts


def title_of(path: str, layer: nn.Module) -> str:
    """Name of a learned part: that of its mark, or its path."""
    mark = mark_of(layer)
    return path or "network" if mark is None or mark.name == UNNAMED else mark.name


@contextmanager
def _watched(parts: Mapping[str, nn.Module], call: Call) -> Iterator[list[str]]:
    """Hook the learned parts: `call` receives each output in order, and replaces it."""
    names: list[str] = []

    def hook(title: str) -> Callable[[nn.Module, tuple[Any, ...], Any], Tensor]:
        def watch(_: nn.Module, __: tuple[Any, ...], output: Any) -> Tensor:
            if not isinstance(output, Tensor):
                remedy = "mark the part around it with kr.mark_learned"
                raise KoriskError(f"layer {title!r} returns more than one tensor; {remedy}")
            names.append(free_name(title, set(names)))
            return call(output)

        return watch

    handles = [
        layer.register_forward_hook(hook(title_of(path, layer))) for path, layer in parts.items()
    ]
    try:
        yield names
    finally:
        for handle in handles:
            handle.remove()


def _gains(
    module: nn.Module, data: Tensor, probes: int, draws: torch.Generator
) -> tuple[list[str], Samples]:
    """(inputs, layers): |J_l^T w|^2 / entries of layer l for normal w, all layers at once.

    Its mean is |J_l|_F^2 / entries, which is E|J v|^2 / |v|^2 over directions v of layer l.
    """
    if not (parts := learned_parts(module)):
        why = "nothing in the module is learned"
        raise KoriskError(f"{why}; unfreeze parameters, or mark parts with kr.mark_learned")
    rows = []
    names: list[str] = []
    for batch in torch.split(data, _BATCH):
        outputs: list[Tensor] = []

        def keep(output: Tensor, into: list[Tensor] = outputs) -> Tensor:
            value = output if output.requires_grad else output.detach().requires_grad_()
            into.append(value)
            return value

        with torch.enable_grad(), _watched(parts, keep) as called:
            result: Tensor = module(batch.detach())
        if any(len(output) != len(batch) for output in (*outputs, result)):
            why = "a layer's output does not have the batch as its first axis"
            raise KoriskError(f"{why}; mark the part around it with kr.mark_learned")
        total = torch.zeros(len(batch), len(outputs), dtype=torch.float64)
        for probe in range(probes):
            noise = torch.randn(result.shape, generator=draws, dtype=torch.float64).to(result)
            again = {"retain_graph": probe < probes - 1, "allow_unused": True}
            gradients = torch.autograd.grad(result, outputs, noise, **again)
            for place, gradient in enumerate(gradients):
                if gradient is not None:
                    squares = gradient.detach().double().flatten(1).square()
                    total[:, place] += squares.mean(1).cpu() / probes
        rows.append(total.numpy())
        names = called
    return names, np.concatenate(rows)
