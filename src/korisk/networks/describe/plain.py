"""Whether a module does what its class says, and nothing that its user has added."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module

from korisk.operators.linear import LinearOperator

_OWN = ("torch.", "korisk.")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def is_plain(module: nn.Module) -> bool:
    """Whether torch's or korisk's own forward is all that a call runs, in its operators too."""
    if any(getattr(torch_module, f"_global{hooks}") for hooks in _HOOKS):
        return False
    operators = (part for part in module.modules() if isinstance(part, LinearOperator))
    return _is_own(module) and all(map(_is_own, operators))


def plain_operator(module: nn.Module | None) -> LinearOperator | None:
    """The module, if it is a korisk operator and its norm is therefore that of its calls."""
    return module if isinstance(module, LinearOperator) and is_plain(module) else None


def _is_own(module: nn.Module) -> bool:
    if "forward" in module.__dict__ or any(getattr(module, hooks) for hooks in _HOOKS):
        return False
    forward: Any = type(module).forward
    return str(getattr(forward, "__module__", "")).startswith(_OWN)
