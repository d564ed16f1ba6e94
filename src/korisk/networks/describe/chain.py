"""From a recorded run to a chain: cut where one value carries everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import hypot
from typing import Any

import torch
from torch import Tensor

from korisk.networks.describe.linear_part import function_norm
from korisk.networks.describe.plain import plain_operator
from korisk.networks.describe.rules import rules
from korisk.networks.describe.rules.brackets import ROUNDING
from korisk.networks.describe.slopes import largest_slope
from korisk.networks.describe.trace.steps import Frame, Recording, Step, in_double
from korisk.theory.bracket import NormBracket

SAMPLED = "sampled, a lower estimate"

Inside = Callable[[Step, Tensor], NormBracket | None]  # the bracket of a module taken whole


@dataclass(frozen=True, eq=False)
class Link:
    """The steps between two cuts, as one map of the value at the first of them."""

    start: Step
    steps: tuple[Step, ...]
    all_steps: Sequence[Step]  # of the recording, by index
    inside: Inside

    @property
    def core(self) -> tuple[Step, ...]:
        """The steps that do more than rearrange or select."""
        return tuple(step for step in self.steps if not rules.folded(step))

    @property
    def is_chain(self) -> bool:
        """Whether each step takes the one before it, once, and nothing else."""
        before = [self.start, *self.steps[:-1]]
        pairs = zip(self.steps, before, strict=True)
        return all(step.inputs == (previous.index,) for step, previous in pairs)

    @property
    def trained(self) -> tuple[Tensor, ...]:
        """The trained tensors, each once."""
        found = {id(tensor): tensor for step in self.steps for tensor in step.trained}
        return tuple(found.values())

    @property
    def linear(self) -> bool:
        """Whether the whole is known to be a matrix, up to a constant."""
        return all(map(self._is_linear, self.steps))

    def _is_linear(self, step: Step) -> bool:
        if len(step.inputs) != 1:
            return rules.joins_linearly(step)
        if plain_operator(step.module) is not None:  # without asking for its norm
            return True
        given = self._gain(step)
        return given is not None and given.linear

    def apply(self, x: Tensor, *, double: bool = False) -> Tensor:
        """The map itself, by running the steps again."""
        values = {self.start.index: x.clone()}  # which a module may write into
        for step in self.steps:
            if double and rules.cast(step):
                values[step.index] = in_double(values[step.parents[0]])
            else:
                values[step.index] = step.replay(values, double=double)
        return values[self.steps[-1].index]

    @cached_property
    def bracket(self) -> NormBracket:
        """The Lipschitz constant of the whole, from below and above."""
        if len(self.core) == 1 and self.is_chain:
            given = self._gain(self.core[0])
            if given is not None and given.bracket.upper < math.inf:
                return repeated(given.bracket, self.core[0])
            how = SAMPLED if given is None or given.bracket.how == SAMPLED else given.bracket.how
            return NormBracket(self._slope(), math.inf, how=how)
        upper = self._upper()
        whole = self._whole_norm() if upper < math.inf and self.linear else None
        if whole is not None:
            return NormBracket(whole.lower, min(whole.upper, upper), how=whole.how)
        if upper == math.inf:
            return NormBracket(self._slope(), upper, how=SAMPLED)
        return NormBracket(min(self._slope(), upper), upper, how="constants multiplied and added")

    def _upper(self) -> float:
        """An upper constant, followed from step to step: sums add, concatenations by squares."""
        constants = {self.start.index: 1.0}
        for step in self.steps:
            given = [constants[parent] for parent in step.parents]
            if len(given) == 1 or step.module is not None:
                known = self._gain(step)
                # Several inputs of a module are one vector, with one value twice in f(x, x).
                found = math.inf if known is None else _times(known.bracket.upper, hypot(*given))
            else:
                parents = [self.all_steps[parent].value for parent in step.inputs]
                joined = rules.join(step, parents, given)
                found = math.inf if joined is None or math.isnan(joined) else joined
            constants[step.index] = found
        return constants[self.steps[-1].index]

    def _gain(self, step: Step) -> rules.Gain | None:
        if step.index not in self._gains:
            x = self.all_steps[step.inputs[0]].value
            whole = None if step.module is None else self.inside(step, x)
            found = rules.gain(step, x) if whole is None else rules.Gain(whole)
            self._gains[step.index] = found
        return self._gains[step.index]

    @cached_property
    def _gains(self) -> dict[int, rules.Gain | None]:
        return {}

    def _whole_norm(self) -> NormBracket | None:
        x, y = self.start.value, self.steps[-1].value
        if not (x.is_floating_point() and y.is_floating_point()):
            return None
        try:
            return function_norm(lambda value: self.apply(value, double=True), x)
        except RuntimeError:
            return None

    def _slope(self) -> float:
        def function(x: Tensor) -> Tensor:
            torch.default_generator.manual_seed(0)  # what is random is so in the same way
            return self.apply(x)

        with torch.no_grad():
            one, two = function(self.start.value), function(self.start.value)
        if not torch.allclose(one, two, rtol=1e-5, equal_nan=True):
            return 0.0  # two values of the same point have no slope
        return largest_slope(function, self.start.value)


def links(recording: Recording, inside: Inside) -> list[Link]:
    """The chain, input side first; links that only rearrange are left out."""
    steps = recording.steps
    live = [0, *(step.index for step in recording.leading_to(recording.output))]
    cuts = _cuts(live, steps)
    made = [_link(steps, first, last, live, inside) for first, last in pairwise(cuts)]
    return [link for link in _merged(made) if link.core]


def _cuts(live: list[int], steps: Sequence[Step]) -> list[int]:
    """The steps that no arrow between two others passes over: every way leads through them."""
    furthest = 0
    last_use = {index: index for index in live}
    for index in live:
        for parent in steps[index].parents:
            last_use[parent] = max(last_use[parent], index)
    cuts = []
    for index in live:
        if furthest <= index:
            cuts.append(index)
        furthest = max(furthest, last_use[index])
    return cuts


def _link(steps: Sequence[Step], first: int, last: int, live: list[int], inside: Inside) -> Link:
    between = tuple(steps[index] for index in live if first < index <= last)
    return Link(steps[first], between, steps, inside)


def _merged(made: list[Link]) -> list[Link]:
    """Links that one call of one of torch's own layers made, such as its padding, put together."""
    merged: list[Link] = []
    for link in made:
        before = merged[-1] if merged else None
        if before is not None and (call := _layer_call(link)) and call == _layer_call(before):
            steps = (*before.steps, *link.steps)
            merged[-1] = Link(before.start, steps, link.all_steps, link.inside)
        else:
            merged.append(link)
    return merged


def _layer_call(link: Link) -> int | None:
    """The call of one of torch's layers that all steps of a link lie in."""
    calls = {_innermost(step) for step in link.steps}
    (call,) = calls if len(calls) == 1 else (None,)
    return call


def _innermost(step: Step) -> int | None:
    if not step.frames or not is_torch_layer(step.frames[-1]):
        return None
    return step.frames[-1].call


def is_torch_layer(frame: Frame) -> bool:
    """Whether a call is of one of torch's own layers, which holds no others."""
    module: Any = frame.module
    return type(module).__module__.startswith("torch.nn.") and not any(
        not type(child).__module__.startswith("torch.nn.utils") for child in module.children()
    )


def repeated(bracket: NormBracket, step: Step) -> NormBracket:
    """A constant of all inputs together, where they are one value several times."""
    times = len(step.parents)
    if times == 1 or step.module is None:
        return bracket
    how = f"{bracket.how}; one value taken {times} times"
    return NormBracket(0.0, bracket.upper * math.sqrt(times) * (1 + ROUNDING), how=how)


def _times(one: float, other: float) -> float:
    return 0.0 if one == 0 or other == 0 else one * other
