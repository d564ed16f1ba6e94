"""From a recorded run to a chain: cut where one value carries everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise

import torch
from torch import Tensor

from korisk.networks.describe import rules
from korisk.networks.describe.linear import function_norm, largest_slope, plain_operator
from korisk.networks.describe.recording import Frame, Recording, Step, replayed
from korisk.networks.describe.rules import ROUNDING
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
    _gains: dict[int, rules.Gain | None] = field(default_factory=dict)

    @property
    def core(self) -> tuple[Step, ...]:
        """The steps that do more than rearrange or select."""
        return tuple(step for step in self.steps if self.rounds(step) or not rules.folded(step))

    @property
    def is_chain(self) -> bool:
        """Whether each step takes the one before it, once, and nothing else."""
        before = [self.start, *self.steps[:-1]]
        pairs = zip(self.steps, before, strict=True)
        return all(step.inputs == (previous.index,) for step, previous in pairs)

    @property
    def linear(self) -> bool:
        """Whether the whole is known to be a matrix, up to a constant."""
        for step in self.steps:
            if len(step.inputs) != 1:
                if self.rounds(step) or not rules.joins_linearly(step):
                    return False
            elif plain_operator(step.module) is None:  # an operator is, without asking its norm
                gain = self._gain(step)
                if gain is None or not gain.linear:
                    return False
        return True

    def rounds(self, step: Step) -> bool:
        """Whether a step rounds its result to a coarser precision than that of the run's input.

        Neighbours of the finer precision then come as far apart as those of the coarser one.
        """

        def coarser(index: int) -> bool:
            one, other = (self.all_steps[at].value.dtype for at in (index, 0))
            if not (one.is_floating_point or one.is_complex):
                return False
            ours, theirs = torch.finfo(one), torch.finfo(other)
            return ours.eps > theirs.eps or ours.max < theirs.max

        return coarser(step.index) and not (rules.folded(step) and coarser(step.inputs[0]))

    def apply(self, x: Tensor, *, double: bool = False) -> Tensor:
        """The map itself, by running the steps again."""
        return replayed(self.steps, {self.start.index: x}, double=double)

    @cached_property
    def bracket(self) -> NormBracket:
        """The Lipschitz constant of the whole, from below and above."""
        if len(self.core) == 1 and self.is_chain:
            gain = self._gain(self.core[0])
            if gain is not None and gain.bracket.upper < math.inf:
                return repeated(gain.bracket, self.core[0])
            how = SAMPLED if gain is None else gain.bracket.how
            return NormBracket(self._slope(), math.inf, how=how)
        upper = self._upper()
        if upper < math.inf and self.linear:
            whole = function_norm(partial(self.apply, double=True), self.start.value)
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
            found: float | None = None
            if len(given) == 1 or step.module is not None:
                if (gain := self._gain(step)) is not None:
                    # Several inputs of a module are one vector, with one value twice in f(x, x).
                    factors = gain.bracket.upper, math.hypot(*given)
                    found = 0.0 if 0 in factors else math.prod(factors)  # 0 * inf is 0 here
            else:
                parents = [self.all_steps[parent].value for parent in step.inputs]
                found = None if self.rounds(step) else rules.join(step, parents, given)
            constants[step.index] = math.inf if found is None or math.isnan(found) else found
        return constants[self.steps[-1].index]

    def _gain(self, step: Step) -> rules.Gain | None:
        if step.index not in self._gains:
            x = self.all_steps[step.inputs[0]].value
            whole = None if step.module is None else self.inside(step, x)
            if whole is None and self.rounds(step):
                kind = str(step.value.dtype).removeprefix("torch.")
                whole = NormBracket(0.0, math.inf, how=f"rounds to {kind}, so it jumps")
            found = rules.gain(step, x) if whole is None else rules.Gain(whole)
            self._gains[step.index] = found
        return self._gains[step.index]

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
    """The chain, input side first; links that only rearrange are left out.

    It is cut at the steps that no arrow between two others passes over: every way leads through
    them. Links that one call of one of torch's own layers made, such as its padding, are put
    together again.
    """
    steps = recording.steps
    live = [0, *(step.index for step in recording.leading_to(recording.output))]
    last_use = {index: index for index in live}
    for index in live:
        for parent in steps[index].parents:
            last_use[parent] = max(last_use[parent], index)
    furthest, cuts = 0, []
    for index in live:
        if furthest <= index:
            cuts.append(index)
        furthest = max(furthest, last_use[index])
    made: list[Link] = []
    for first, last in pairwise(cuts):
        between = tuple(steps[index] for index in live if first < index <= last)
        call = _layer_call(between)
        if made and call is not None and call == _layer_call(made[-1].steps):
            before = made.pop()
            made.append(Link(before.start, (*before.steps, *between), steps, inside))
        else:
            made.append(Link(steps[first], between, steps, inside))
    return [link for link in made if link.core]


def _layer_call(steps: Sequence[Step]) -> int | None:
    """The call of one of torch's layers that all steps lie in."""
    calls = {
        step.frames[-1].call if step.frames and is_torch_layer(step.frames[-1]) else None
        for step in steps
    }
    return calls.pop() if len(calls) == 1 else None


def is_torch_layer(frame: Frame) -> bool:
    """Whether a call is of one of torch's own layers, which holds no others."""
    children = (type(child).__module__ for child in frame.module.children())
    own = type(frame.module).__module__.startswith("torch.nn.")
    return own and all(name.startswith("torch.nn.utils") for name in children)


def repeated(bracket: NormBracket, step: Step) -> NormBracket:
    """A constant of all inputs together, where they are one value several times."""
    times = len(step.parents)
    if times == 1 or step.module is None:
        return bracket
    how = f"{bracket.how}; one value taken {times} times"
    return NormBracket(0.0, bracket.upper * math.sqrt(times) * (1 + ROUNDING), how=how)
