"""The steps of a recorded run, and how a step is run again with other values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from korisk.operators.linear import LinearOperator


@dataclass(frozen=True)
class Ref:
    """The place of an earlier step's value among a call's arguments."""

    step: int


@dataclass(frozen=True)
class Frame:
    """One call of a module that is under way: which module, its path, and which call."""

    module: nn.Module
    path: str
    call: int
    inference: bool = False  # whether inference mode was on before it


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of the run: `function(*args, **kwargs)`, its result, and where it happened."""

    index: int
    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parents: tuple[int, ...]  # in the order of the arguments, repeated where used twice
    value: Tensor
    frames: tuple[Frame, ...]
    part: int | None = None  # of a result that is a tuple
    in_place: bool = False
    trained: tuple[Tensor, ...] = ()

    @property
    def module(self) -> nn.Module | None:
        """The module that is taken whole, where the step is a call of one."""
        return self.function if isinstance(self.function, nn.Module) else None

    @property
    def inputs(self) -> tuple[int, ...]:
        """The steps that it takes: of a module each once, which makes a chain of f(x, x) too."""
        return self.parents if self.module is None else tuple(dict.fromkeys(self.parents))

    def replay(self, values: dict[int, Tensor], *, double: bool = False) -> Tensor:
        """The result for other values of earlier steps, in double precision if asked."""

        def filled(leaf: Any) -> Any:
            value = values[leaf.step] if isinstance(leaf, Ref) else leaf
            return value.clone() if self.in_place and isinstance(value, Tensor) else value

        function, args, kwargs = self._in_double if double else self._as_recorded
        result = function(*mapped(args, filled), **mapped(kwargs, filled))
        return cast(Tensor, result if self.part is None else tensors_in(result)[self.part])

    @cached_property
    def _as_recorded(self) -> tuple[Callable[..., Any], Any, Any]:
        def detached(leaf: Any) -> Any:
            return leaf.detach() if isinstance(leaf, Tensor) else leaf

        return self.function, *mapped((self.args, self.kwargs), detached)

    @cached_property
    def _in_double(self) -> tuple[Callable[..., Any], Any, Any]:
        function, args, kwargs = self._as_recorded
        if isinstance(function, LinearOperator):
            function = function.in_double()
        return function, *mapped((args, kwargs), in_double)


@dataclass
class Recording:
    """The steps of a run, the input first, and what was noticed on the way."""

    steps: list[Step]
    output: int
    branches: list[str]  # modules that chose their way by values of tensors
    root: Frame

    def leading_to(self, last: int, *, after: int = 0) -> list[Step]:
        """The steps behind `after` that step `last` depends on, and itself, in order."""
        needed, found = {last}, []
        for step in reversed(self.steps[after + 1 : last + 1]):
            if step.index in needed:
                needed.update(step.parents)
                found.append(step)
        return found[::-1]


def in_double(value: Any) -> Any:
    """A tensor of floats in double precision; whatever else as it is."""
    if not isinstance(value, Tensor):
        return value
    if value.is_complex():
        return value.to(torch.complex128)
    return value.to(torch.float64) if value.is_floating_point() else value


def tensors_in(structure: Any) -> list[Tensor]:
    """Every tensor in lists, tuples and dictionaries, in order."""
    found: list[Tensor] = []
    mapped(structure, lambda leaf: found.append(leaf) if isinstance(leaf, Tensor) else None)
    return found


def mapped(structure: Any, change: Callable[[Any], Any]) -> Any:
    """The same lists, tuples and dictionaries with every leaf changed."""
    if isinstance(structure, dict):
        return {key: mapped(value, change) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        several = [mapped(value, change) for value in structure]
        return several if isinstance(structure, list) else tuple(several)
    if isinstance(structure, slice):
        ends = (structure.start, structure.stop, structure.step)
        return slice(*(mapped(end, change) for end in ends))
    return change(structure)
