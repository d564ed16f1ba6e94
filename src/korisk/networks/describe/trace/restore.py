"""Leaving a module as it was: what a run may change is kept, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from korisk.operators.linear import LinearOperator

_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_state_dict_hooks", "_load_state_dict_pre_hooks"),
)
_TABLES = ("_parameters", "_buffers", "_modules", *_HOOKS)
_PLAIN = (Tensor, int, float, str, bool, type(None))  # what else a module may keep of a run


@contextmanager
def untouched(module: nn.Module, example: Tensor) -> Iterator[None]:
    """Evaluation mode, with the module and torch's random state put back afterwards."""
    undo = [_kept(part) for part in module.modules()]
    devices = [example.device] if example.device.type == "cuda" else []
    with torch.inference_mode(False), torch.random.fork_rng(devices=devices):
        values = [_value(tensor) for tensor in (*module.parameters(), *module.buffers())]
        try:
            for part in module.modules():
                part.training = False
            yield
        finally:
            for put_back in (*undo, *values):
                put_back()


def _kept(part: nn.Module) -> Callable[[], None]:
    """Flags, hooks and tables of a module, and the numbers and tensors that it holds."""
    before, training = dict(part.__dict__), part.training
    tables = {key: dict(before[key]) for key in _TABLES if key in before}

    def put_back() -> None:
        for key, table in tables.items():
            if dict(part.__dict__[key]) != table:
                part.__dict__[key].clear()
                part.__dict__[key].update(table)
        part.training = training
        if isinstance(part, LinearOperator):  # what it remembers of itself stays true
            return
        for key in [key for key in part.__dict__ if _changed(part.__dict__, before, key)]:
            if key in before:
                part.__dict__[key] = before[key]
            else:
                del part.__dict__[key]

    return put_back


def _changed(now: dict[str, Any], before: dict[str, Any], key: str) -> bool:
    is_plain = isinstance(now[key], _PLAIN) and isinstance(before.get(key), _PLAIN)
    return is_plain and (key not in before or now[key] is not before[key])


def _value(tensor: Tensor) -> Callable[[], None]:
    """The numbers of a parameter or buffer, and whether it is trained."""
    before, trained = tensor.detach().clone(), tensor.requires_grad

    def put_back() -> None:
        with torch.no_grad():
            if tensor.layout != torch.strided or not torch.equal(tensor, before):
                tensor.copy_(before)
        if tensor.is_leaf:
            tensor.requires_grad_(trained)

    return put_back
