"""From a recorded run to a graph: every step that does more than rearrange is a link of it."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from korisk.networks.describe import patterns, rules
from korisk.networks.describe.linear import function_norm, is_plain, largest_slope, plain_operator
from korisk.networks.describe.recording import Frame, Recording, Step, replayed
from korisk.networks.describe.rules import ROUNDING
from korisk.networks.describe.sectors import sector_upper
from korisk.operators.consistency import DataConsistency
from korisk.theory.bracket import NormBracket

SAMPLED = "sampled, a lower estimate"

Gains = dict[int, rules.Gain | None]  # by step
Inside = Callable[[Step, Tensor], NormBracket | None]  # the bracket of a module taken whole


@dataclass(frozen=True, eq=False)
class Link:
    """Some steps as one map of the values that enter them."""

    starts: tuple[Step, ...]  # whose values it takes
    steps: tuple[Step, ...]
    all_steps: Sequence[Step]  # of the recording, by index
    inside: Inside
    gains: Gains = field(default_factory=dict)  # shared by the links of a recording

    @property
    def start(self) -> Step:
        """The step whose value it takes, where that is one."""
        (only,) = self.starts
        return only

    @property
    def core(self) -> tuple[Step, ...]:
        """The steps that do more than rearrange or select."""
        return tuple(step for step in self.steps if self.rounds(step) or not rules.folded(step))

    @property
    def is_chain(self) -> bool:
        """Whether each step takes the one before it, once, and nothing else."""
        if len(self.starts) > 1:
            return False
        pairs = zip(self.steps, [self.start, *self.steps[:-1]], strict=True)
        return all(step.inputs == (previous.index,) for step, previous in pairs)

    @property
    def linear(self) -> bool:
        """Whether the whole is known to be a matrix, up to a constant."""
        return all(map(self.is_linear, self.steps))

    def is_linear(self, step: Step) -> bool:
        """Whether a step is known to be linear, up to a constant."""
        if isinstance(step.module, DataConsistency) and is_plain(step.module):
            return True
        if len(step.inputs) != 1:
            return not self.rounds(step) and rules.joins_linearly(step)
        if plain_operator(step.module) is not None:  # without asking its norm
            return True
        gain = self.gain(step)
        return gain is not None and gain.linear

    def rounds(self, step: Step) -> bool:
        """Whether a step rounds its result to a coarser precision than that of the run's input.

        Neighbours of the finer precision then come as far apart as those of the coarser one.
        """

        # Fewer digits or a smaller range than the first value has.
        def coarser(index: int) -> bool:
            kind, first = (self.all_steps[place].value.dtype for place in (index, 0))
            if not (kind.is_floating_point or kind.is_complex):
                return False
            ours, theirs = torch.finfo(kind), torch.finfo(first)
            return ours.eps > theirs.eps or ours.max < theirs.max

        return coarser(step.index) and not (rules.folded(step) and coarser(step.inputs[0]))

    def apply(self, x: Tensor, *, double: bool = False) -> Tensor:
        """The map itself, by running the steps again."""
        return replayed(self.steps, {self.start.index: x}, double=double)

    @cached_property
    def bracket(self) -> NormBracket:
        """The Lipschitz constant of the whole, from below and above."""
        if len(self.core) == 1 and self.is_chain:
            if (gain := self.gain(self.core[0])) is not None and gain.bracket.upper < math.inf:
                return repeated(gain.bracket, self.core[0])
            how = SAMPLED if gain is None else gain.bracket.how
            return NormBracket(self._slope(), math.inf, how=how)
        bracket = self.upper_bracket
        if bracket.lower > 0 or bracket.upper == 0:
            return bracket
        return replace(bracket, lower=min(self._slope(), bracket.upper))

    @cached_property
    def upper_bracket(self) -> NormBracket:
        """The same without searching for a slope from below."""
        upper = self.uppers({self.start.index: 1.0})[self.steps[-1].index]
        if upper < math.inf and self.linear:
            norm = function_norm(partial(self.apply, double=True), self.start.value)
            if norm is not None:
                return NormBracket(min(norm.lower, upper), min(norm.upper, upper), how=norm.how)
        if upper == math.inf:
            return NormBracket(0.0, upper, how=SAMPLED)
        how = "constants multiplied and added"
        # Eq. eq:sectors knows of signs, which products of constants do not; it takes longest.
        if not self.is_chain and (whole_upper := sector_upper(self)) < upper:
            upper, how = whole_upper, "norm of the whole with slopes between bounds"
        return NormBracket(0.0, upper, how=how)

    def uppers(self, moved: Mapping[int, float]) -> dict[int, float]:
        """Upper constants, followed from step to step: sums add, concatenations by squares.

        `moved` is by how much each of the values that it takes may move.
        """
        constants = dict(moved)
        for step in self.steps:
            # How far each value moves where the start moves by 1: the d_k of eq:blocks.
            arriving = [constants[parent] for parent in step.parents]
            upper: float | None = None
            if len(arriving) == 1 or step.module is not None:
                if (gain := self.gain(step)) is not None:
                    # Several inputs of a module are one vector, with one value twice in f(x, x).
                    factors = gain.bracket.upper, math.hypot(*arriving)
                    upper = 0.0 if 0 in factors else math.prod(factors)  # 0 * inf is 0 here
            elif (line := patterns.pieces(step, self.all_steps)) and line[0] in constants:
                upper = max(map(abs, line[1:])) * constants[line[0]]
            else:
                parents = [self.all_steps[parent].value for parent in step.inputs]
                upper = None if self.rounds(step) else rules.join(step, parents, arriving)
            constants[step.index] = math.inf if upper is None or math.isnan(upper) else upper
        return constants

    @cached_property
    def constants(self) -> dict[int, NormBracket]:
        """The constant in each of the values that it takes, by step, with the others fixed."""
        brackets = {}
        for start in self.starts:
            # Only one of the inputs moves, the others are fixed.
            moved = {source.index: float(source is start) for source in self.starts}
            upper = self.uppers(moved)[self.steps[-1].index]
            uses = sum(parent == start.index for step in self.steps for parent in step.parents)
            # A sum or a concatenation that takes it once moves as far as it does.
            attained = uses == 1 and upper < math.inf and rules.attains(self.steps[-1])
            how = f"one of {len(self.starts)} inputs"
            brackets[start.index] = NormBracket(upper if attained else 0.0, upper, how=how)
        return brackets

    @property
    def adds(self) -> bool:
        """Whether the contributions of the inputs add up."""
        return len(self.core) > 1 or rules.adds(self.steps[-1])

    @property
    def joint(self) -> NormBracket:
        """The constant in all values that it takes, as one vector."""
        if len(self.starts) == 1:
            return self.bracket
        uppers = [bracket.upper for bracket in self.constants.values()]
        # Squares of the parts of the result add up to squares of the inputs, each times its own.
        upper = math.hypot(*uppers) if self.adds else max(uppers)
        return NormBracket(0.0, upper, how="of all inputs together")

    def gain(self, step: Step) -> rules.Gain | None:
        """Lipschitz bracket of a step with one input; None without a rule."""
        if step.index not in self.gains:
            x = self.all_steps[step.inputs[0]].value
            bracket = None if step.module is None else self.inside(step, x)
            if bracket is None and self.rounds(step):
                kind = str(step.value.dtype).removeprefix("torch.")
                bracket = NormBracket(0.0, math.inf, how=f"rounds to {kind}, so it jumps")
            self.gains[step.index] = rules.gain(step, x) if bracket is None else rules.Gain(bracket)
        return self.gains[step.index]

    def _slope(self) -> float:
        def function(x: Tensor) -> Tensor:
            torch.default_generator.manual_seed(0)  # what is random is so in the same way
            return self.apply(x)

        with torch.no_grad():
            first, second = function(self.start.value), function(self.start.value)
        if not torch.allclose(first, second, rtol=1e-5, equal_nan=True):
            return 0.0  # two values of the same point have no slope
        return largest_slope(function, self.start.value)


def links(recording: Recording, inside: Inside) -> list[Link]:
    """The graph, input side first; what only rearranges is left out.

    Every step that does more is a link of its own, with the values that it takes. Steps that one
    call of one of torch's own layers made, such as its padding, are put together. So is what lies
    around a step that joins values without a rule: the smallest part that one value enters and one
    leaves.
    """
    steps, live = recording.steps, recording.live
    gains: Gains = {}
    part_of = _parts_without_rule(recording, inside, gains)
    owner = {0: 0}  # the last step of the link that a value comes from
    # How many steps take a value: one that is taken twice ends a layer.
    users = Counter(parent for index in live[1:] for parent in set(steps[index].parents))
    links_by_end: dict[int, Link] = {}  # by the last step
    for index in live[1:]:
        step, group = steps[index], part_of.get(index)
        if group is not None and index != group[-1]:
            continue
        members = [steps[number] for number in group or [index]]
        inner = {member.index for member in members}
        # What rearranges on the way from another link belongs to this one.
        ahead = [parent for member in members for parent in member.parents if parent not in inner]
        sources: set[int] = set()
        while ahead:
            place = ahead.pop()
            if owner[place] == place:
                sources.add(place)
            elif place not in inner:
                inner.add(place)
                ahead.extend(steps[place].parents)
        starts = tuple(steps[source] for source in sorted(sources))
        link = Link(starts, tuple(steps[number] for number in sorted(inner)), steps, inside, gains)
        if not link.core:
            owner[index] = owner[step.parents[0]]
            continue
        owner[index] = index
        # Steps of one call of a torch layer, such as a matrix and a bias, are one layer.
        before = links_by_end.get(starts[0].index)
        if len(starts) == 1 and before is not None and group is None:
            call = _layer_call(link.steps)
            alone = all(users[previous.index] == 1 for previous in (starts[0], *link.steps[:-1]))
            if call is not None and call == _layer_call(before.steps) and alone:
                del links_by_end[starts[0].index]
                link = Link(before.starts, (*before.steps, *link.steps), steps, inside, gains)
        links_by_end[index] = link
    return list(links_by_end.values())


def cuts(recording: Recording) -> list[int]:
    """The steps that every path from the input to the output passes through."""
    parents = {index: set(recording.steps[index].parents) for index in recording.live}
    return sorted(_gates(recording.live, parents)[recording.output])


def _parts_without_rule(
    recording: Recording, inside: Inside, gains: Gains
) -> dict[int, tuple[int, ...]]:
    """The parts that stay together, each by the steps in it.

    Where a step joins several values without a constant: from the last value that all ways to it
    lead through, to the first one behind it that all ways from it lead through.
    """
    steps, live = recording.steps, recording.live
    above = {index: set(steps[index].parents) for index in live}
    below: dict[int, set[int]] = {index: set() for index in live}
    for index, parents in above.items():
        for parent in parents:
            below[parent].add(index)
    before = _gates(live, above)  # steps that every way from the input leads through
    after = _gates(live[::-1], below)
    groups: list[tuple[int, ...]] = []
    for index in live[1:]:
        step = steps[index]
        if len(set(step.inputs)) == 1:
            continue
        starts = tuple(steps[source] for source in sorted(set(step.inputs)))
        # A step without a rule, such as a product, ends in a larger part that may have one.
        joined = Link(starts, (step,), steps, inside, gains).joint
        if math.isfinite(joined.upper) and patterns.pieces(step, steps) is None:
            continue
        inner = {index}
        while True:
            # The part grows until one value enters it and one leaves: from the nearest common
            # dominator to the nearest common post-dominator.
            first = max(set.intersection(*(before[member] - inner for member in inner)))
            last = min(set.intersection(*(after[member] for member in inner)))
            between = {inner_step.index for inner_step in recording.leading_to(last, after=first)}
            for group in groups:
                if between & set(group):
                    between |= set(group)
            if between == inner:
                break
            inner = between
        groups = [group for group in groups if not inner & set(group)]
        groups.append(tuple(sorted(inner)))
    return {index: group for group in groups for index in group}


def _gates(order: Sequence[int], towards: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """Dominators of each step: those on every path from the first one, and itself."""
    gates: dict[int, set[int]] = {}
    for index in order:
        # Dominators of a step: those that all its neighbours share, and itself.
        ways = [gates[neighbour] for neighbour in towards[index]]
        gates[index] = {index} | (set.intersection(*ways) if ways else set())
    return gates


def _layer_call(steps: Sequence[Step]) -> int | None:
    """The call of one of torch's layers that all steps lie in."""
    frames = [step.frames[-1] if step.frames else None for step in steps]
    calls = {frame.call if frame and is_torch_layer(frame) else None for frame in frames}
    return calls.pop() if len(calls) == 1 else None


def is_torch_layer(frame: Frame) -> bool:
    """Whether a call is of one of torch's own layers, which holds no others."""
    children = (type(child).__module__ for child in frame.module.children())
    from_torch = type(frame.module).__module__.startswith("torch.nn.")
    return from_torch and all(name.startswith("torch.nn.utils") for name in children)


def repeated(bracket: NormBracket, step: Step) -> NormBracket:
    """The constant of a step that takes one value several times."""
    times = len(step.parents)
    if times == 1 or step.module is None:
        return bracket
    how = f"{bracket.how}; one value taken {times} times"
    # (x, ..., x) is sqrt(times) as long as x.
    upper = bracket.upper * math.sqrt(times) * (1 + ROUNDING)
    return NormBracket(0.0, upper, how=how, whose=bracket.whose)
