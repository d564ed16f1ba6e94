"""What every rule of a constant needs: the options of a call, and brackets of one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from korisk.networks.describe.trace.steps import Step
from korisk.theory.bracket import NormBracket

Rule = Callable[[Step, Tensor], NormBracket | None]

ROUNDING = 1e-11  # relative: beyond the last digit of the constants that are written out


def option(step: Step, place: int, key: str, default: Any) -> Any:
    """An argument of a call, by its place or by its name."""
    if len(step.args) > place:
        return step.args[place]
    return step.kwargs.get(key, default)


def exactly(value: float, how: str) -> NormBracket:
    """A constant that is attained, or approached as near as one likes."""
    return NormBracket(value * (1 - ROUNDING), value * (1 + ROUNDING), how=how)


def one(how: str) -> NormBracket:
    """The constant 1, without any rounding."""
    return NormBracket(1.0, 1.0, how=how)
