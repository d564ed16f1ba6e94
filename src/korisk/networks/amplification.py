"""How much of a layer's error reaches the output, along the data: an estimate beside the bound.

The bound multiplies the largest slopes that occur anywhere. Here the gains are those of the data:
in directions drawn at random, and in the directions in which a layer differs from that of a
reference. docs/explanation/theory.md has the identity behind the second.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, KoriskWarning, invalid
from korisk.networks.describe.marks import UNNAMED, mark_of
from korisk.networks.describe.recording import untouched
from korisk.networks.known_operator import free_name
from korisk.theory import Learned

_SURE = 0.9  # of intervals
_BATCH = 64  # inputs that are run at once

Call = Callable[[int, Tensor], Tensor | None]  # of a learned part, by its number
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
        wide = error * float(student.ppf((1 + _SURE) / 2, count - 1))
        return cls(value, max(0.0, value - wide), value + wide)


@dataclass(frozen=True)
class LayerGain:
    """How much the error of one learned layer grows on its way to the output."""

    name: str
    gain: Mean  # squared error of the output for each of the layer, in a random direction
    error: float | None = None  # E|e|^2 of the layer against that of the reference
    part: float | None = None  # of E|f - f_reference|^2; the parts of all layers add up to it
    saved: float | None = None  # by how much that falls if this layer alone is the reference's


def amplification(
    module: nn.Module,
    data: Tensor,
    *,
    reference: nn.Module | None = None,
    probes: int = 4,
    seed: int = 0,
) -> tuple[LayerGain, ...]:
    """Gains from each learned layer to the output along data, and what each makes of an error.

    A learned layer is a part with trained weights of its own, or one that `korisk.mark_learned`
    marks; every call of it counts. Samples of a batch must not interact in evaluation mode.

    Parameters
    ----------
    module : torch.nn.Module
        The trained network.
    data : Tensor
        Inputs, batch first.
    reference : torch.nn.Module, optional
        A network of the same structure, such as the true one or the same one with layers replaced.
        Gives the layers' errors, and what each makes of the output, Eq. (eq:telescope).
    probes : int, default 4
        Random directions for each input.
    seed : int, default 0
        Random seed of the directions.

    Returns
    -------
    tuple of LayerGain
        For each call of a layer, in order: its name and its gain with a 90% interval; with a
        reference also its squared error, its part of that of the output, and what is saved if it
        is replaced.

    Raises
    ------
    KoriskError
        If nothing is learned, or the reference has other parts.

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
    for name, network in (("module", module), ("reference", reference)):
        if not isinstance(network, nn.Module | None):
            raise invalid(name, "be an nn.Module", network)
    draws = torch.Generator().manual_seed(seed)
    with untouched(module, data):
        names, gains = _gains(module, data, probes, draws)
    layers = [LayerGain(name, Mean.of(gains[:, place])) for place, name in enumerate(names)]
    if reference is None:
        return tuple(layers)
    with untouched(module, data), untouched(reference, data):
        differences = [_differences(module, reference, batch, names) for batch in _batches(data)]
    errors, products = (np.concatenate(arrays).mean(0) for arrays in zip(*differences, strict=True))
    for place, layer in enumerate(layers):
        part = float(products[place].sum())
        # Without this layer's difference d the sum s shrinks by |s|^2 - |s - d|^2 = 2 d.s - |d|^2.
        saved = 2 * part - float(products[place, place])
        layers[place] = replace(layer, error=float(errors[place]), part=part, saved=saved)
    return tuple(layers)


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


def _batches(data: Tensor) -> list[Tensor]:
    return [data[start : start + _BATCH] for start in range(0, len(data), _BATCH)]


@contextmanager
def _watched(parts: Mapping[str, nn.Module], call: Call) -> Iterator[list[str]]:
    """Hook the learned parts: `call` receives each output in order, and may replace it."""
    names: list[str] = []

    def hook(title: str) -> Callable[[nn.Module, tuple[Any, ...], Any], Tensor | None]:
        def watch(_: nn.Module, __: tuple[Any, ...], output: Any) -> Tensor | None:
            if not isinstance(output, Tensor):
                remedy = "mark the part around it with kr.mark_learned"
                raise KoriskError(f"layer {title!r} returns more than one tensor; {remedy}")
            names.append(free_name(title, set(names)))
            return call(len(names) - 1, output)

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
    for batch in _batches(data):
        outputs: list[Tensor] = []

        def keep(place: int, output: Tensor, into: list[Tensor] = outputs) -> Tensor:
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


@torch.no_grad()
def _differences(
    module: nn.Module, reference: nn.Module, batch: Tensor, names: list[str]
) -> tuple[Samples, Samples]:
    """|e_l|^2 of each layer, and the products d_l . d_k of the resulting output changes.

    g_l is the reference with the values of the first l learned layers from the module, so that
    d_l = g_(l-1) - g_l is what the error of layer l alone makes of the output, Eq. (eq:telescope).
    """
    parts, others = learned_parts(module), learned_parts(reference)
    if parts.keys() != others.keys():
        missing = min(parts.keys() ^ others.keys())
        why = f"only one of module and reference has the learned part {missing!r}"
        raise KoriskError(f"{why}; both must have the same parts")
    trained: list[Tensor] = []
    with _watched(parts, lambda _, output: trained.append(output)):
        last = module(batch).double().flatten(1)
    errors = torch.zeros(len(batch), len(names), dtype=torch.float64)

    def mixed(count: int) -> Tensor:
        def exchange(place: int, output: Tensor) -> Tensor | None:
            if place == count < len(trained):
                if output.shape != trained[place].shape:
                    why = f"layer {names[place]!r} gives another shape in the reference"
                    raise KoriskError(f"{why}; both must have the same parts")
                difference = (output - trained[place]).double().flatten(1)
                errors[:, place] = difference.square().sum(1).cpu()
            return trained[place] if place < count else None

        with _watched(others, exchange) as called:
            result: Tensor = reference(batch)
        if called != names:
            raise KoriskError("the reference calls its parts in another order; check it")
        return result.double().flatten(1)

    values = [mixed(count) for count in range(len(names) + 1)]
    if float((values[-1] - last).norm()) > 1e-3 * float(last.norm()):
        what = "module and reference differ outside of learned layers"
        warnings.warn(f"{what}; no layer's part includes that", KoriskWarning, stacklevel=3)
    steps = torch.stack([before - after for before, after in pairwise(values)], 1)
    return errors.numpy(), torch.einsum("nlx,nkx->nlk", steps, steps).cpu().numpy()
