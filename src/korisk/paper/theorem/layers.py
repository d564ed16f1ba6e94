"""Errors of the layers of any trained module, against a true module of the same shape.

Values may take any way through it: every call of a learned part is a layer, and errs at what the
trained module hands it.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from korisk.errors import KoriskError, KoriskWarning
from korisk.networks.describe.describe import describe
from korisk.networks.describe.marks import UNNAMED, learned, mark_of
from korisk.networks.known_operator import free_name
from korisk.theory import Learned, Network

_STATED = ("lipschitz", "parameters", "effective")  # by a mark, beside a name


def learned_parts(module: nn.Module) -> dict[str, nn.Module]:
    """The parts of a module that are a learned layer each, by their paths.

    Parameters
    ----------
    module : torch.nn.Module
        The module.

    Returns
    -------
    dict of str to torch.nn.Module
        Parts with trained weights of their own, and those that `korisk.learned` marks, whole.
    """
    found: dict[str, nn.Module] = {}
    for path, part in module.named_modules():
        within = any(not whole or path.startswith(f"{whole}.") for whole in found)
        own = any(weights.requires_grad for weights in part.parameters(recurse=False))
        if not within and (own or isinstance(mark_of(part), Learned)):
            found[path] = part
    return found


def _title(path: str, part: nn.Module) -> str:
    mark = mark_of(part)
    return path or "network" if mark is None or mark.name == UNNAMED else mark.name


def graph_network(truth: nn.Module, example: Tensor) -> Network:
    """The true network as the theory takes it.

    Parameters
    ----------
    truth : torch.nn.Module
        The true network.
    example : Tensor
        An input, batches first.

    Returns
    -------
    Network
        With a layer for every call of a learned part.
    """
    marked = copy.deepcopy(truth)
    for path, part in learned_parts(marked).items():
        mark = mark_of(part)
        stated = {} if mark is None else {name: getattr(mark, name) for name in _STATED}
        learned(part, name=_title(path, part), **stated)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore", KoriskWarning)  # of weights that layers share
        return describe(marked, example)


@torch.no_grad()
def graph_errors(truth: nn.Module, trained: nn.Module, inputs: Tensor) -> dict[str, float]:
    """E||e_l||^2 of every learned layer of a trained module.

    Parameters
    ----------
    truth : torch.nn.Module
        The true network.
    trained : torch.nn.Module
        A network with learned parts of the same paths that take and give the same shapes.
    inputs : Tensor
        Inputs of the network, batches first.

    Returns
    -------
    dict of str to float
        By the names that `graph_network` gives the layers: a part that is called again is a layer
        again.

    Raises
    ------
    KoriskError
        If the true network has no learned part of that path.
    """
    true_parts = learned_parts(truth)
    errors: dict[str, float] = {}
    handles = []
    for path, part in learned_parts(trained).items():
        if path not in true_parts:
            raise KoriskError(
                f"the true network has no learned part {path!r}; both must have the same parts"
            )

        def measure(_: nn.Module, taken: tuple[Any, ...], made: Tensor, path: str = path) -> None:
            missed = true_parts[path](*taken) - made
            name = free_name(_title(path, true_parts[path]), set(errors))
            errors[name] = float(missed.double().square().flatten(1).sum(1).mean())

        handles.append(part.register_forward_hook(measure))
    try:
        trained(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return errors
