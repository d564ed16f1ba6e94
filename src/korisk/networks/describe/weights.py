"""What of a network is trained, and how many numbers that are."""

from __future__ import annotations

from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.networks.describe.chain import Link
from korisk.networks.describe.labels import step_mark
from korisk.networks.describe.trace.steps import Step

Weights = dict[int, int]  # how many numbers, by the id of their tensor, or module if it states them


def trained_in(module: nn.Module) -> tuple[Tensor, ...]:
    """The parameters of a module that require gradients."""
    return tuple(one for one in module.parameters() if one.requires_grad)


def sizes(tensors: tuple[Tensor, ...]) -> Weights:
    """How many numbers each of the tensors holds."""
    return {id(tensor): tensor.numel() for tensor in tensors}


def own_trained(step: Step) -> set[int]:
    """The trained tensors of a step that belong to the module it takes whole."""
    return set() if step.module is None else set(map(id, trained_in(step.module)))


def link_trained(link: Link) -> tuple[Tensor, ...]:
    """The trained tensors of a link, without those of modules that are marked as known."""
    found: dict[int, Tensor] = {}
    for step in link.steps:
        mark = step_mark(step)
        left_out = own_trained(step) if mark is not None and not mark.learned else set()
        found.update((id(one), one) for one in step.trained if id(one) not in left_out)
    return tuple(found.values())


def weights_of(link: Link, name: str, trained: tuple[Tensor, ...]) -> Weights:
    """p by its parts: trained tensors, each once, or what a mark states instead for its module."""
    stated: Weights = {}
    theirs: set[int] = set()
    for step in link.core:
        mark = step_mark(step)
        if mark is not None and mark.parameters is not None:
            stated[id(step.module)] = mark.parameters
            theirs |= own_trained(step)
    weights = stated | sizes(tuple(one for one in trained if id(one) not in theirs))
    if weights:
        return weights
    frozen = sizes(
        tuple(
            tensor
            for step in link.core
            if step.module is not None
            for tensor in step.module.parameters()
        )
    )
    if not frozen:
        raise KoriskError(
            f"layer {name!r} is marked as learned and has no parameters; give "
            "kr.learned(module, parameters=...)"
        )
    return frozen
