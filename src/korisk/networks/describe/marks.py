"""Marks: what a module's owner says of it, where its parameters do not say it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from korisk.errors import KoriskError, shown
from korisk.theory import Known, Learned
from korisk.theory.bracket import Lipschitz

Module = TypeVar("Module", bound=nn.Module)

_FIELD = "_korisk_mark"  # a plain attribute: copied and pickled, and in no state_dict


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What was said: known or learned, and what is known of it."""

    learned: bool
    lipschitz: Lipschitz = None
    mismatch: float = 0.0
    parameters: int | None = None
    effective: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        # The layers' own checks, where the mark is made rather than where it is read.
        name = "module" if self.name is None else self.name
        if self.learned:
            Learned(
                name,
                lipschitz=self.lipschitz,
                parameters=self.parameters,
                effective=self.effective,
            )
        else:
            Known(name, lipschitz=self.lipschitz, mismatch=self.mismatch)


def known(
    module: Module,
    *,
    lipschitz: Lipschitz = None,
    mismatch: float = 0.0,
    name: str | None = None,
) -> Module:
    """Mark a module as a known operator, and return it: `describe` takes it as one known layer.

    Its parameters are frozen, `requires_grad_(False)`, because the theorem's known layer is the
    true one and no training moves it. `lipschitz` is a constant of the true map, found by
    `describe` where it is left out; `mismatch` is E||u - û||^2 of one known only approximately.

    What is no `nn.Module` raises `KoriskError`, as does a constant below 0.

    >>> import korisk as kr
    >>> from torch import nn, ones
    >>> net = nn.Sequential(kr.known(nn.Linear(4, 4), lipschitz=2.0, name="K"), nn.Linear(4, 2))
    >>> kr.describe(net, ones(1, 4))["K"]
    Known('K', lipschitz=2.0)
    """
    mark = Mark(learned=False, lipschitz=lipschitz, mismatch=mismatch, name=name)
    return _marked(module, mark).requires_grad_(False)


def learned(
    module: Module,
    *,
    lipschitz: Lipschitz = None,
    parameters: int | None = None,
    effective: float | None = None,
    name: str | None = None,
) -> Module:
    """Mark a module as one learned layer, and return it.

    `lipschitz` is a constant of the true layer, such as one that training enforces; `parameters`
    is the paper's p where it is not the number of trained weights, and `effective` the effective
    dimension, an estimate in its place; see docs/explanation/theory.md.

    >>> import korisk as kr
    >>> from torch import nn, ones
    >>> body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    >>> kr.describe(kr.learned(body, lipschitz=1.0, name="body"), ones(1, 4))
    Network([Learned('body', lipschitz=1.0, parameters=76)])
    """
    mark = Mark(
        learned=True, lipschitz=lipschitz, parameters=parameters, effective=effective, name=name
    )
    return _marked(module, mark)


def mark_of(module: nn.Module) -> Mark | None:
    """The module's mark, if somebody made one."""
    found = module.__dict__.get(_FIELD)
    return found if isinstance(found, Mark) else None


def _marked(module: Module, mark: Mark) -> Module:
    if not isinstance(module, nn.Module):
        raise KoriskError(
            f"only an nn.Module can be marked, got {shown(module)}; put a function into a module's "
            "forward"
        )
    setattr(module, _FIELD, mark)
    return module
