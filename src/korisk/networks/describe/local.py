"""A described network whose constants hold on a set of inputs, and whether data stay in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from korisk.errors import KoriskError, invalid
from korisk.networks.describe.graph import Link
from korisk.networks.describe.recording import Step
from korisk.networks.describe.sets import InputSet
from korisk.theory import Composition, Layer, Network, NormBracket
from korisk.theory.bracket import Lipschitz, set_fields

_LONGEST_HOW = 80


@dataclass(frozen=True)
class Inside:
    """Share of inputs whose values stay in the ranges of a network."""

    share: float
    layers: dict[str, float]
    count: int

    def __str__(self) -> str:
        worst = min(self.layers, key=self.layers.__getitem__)
        text = f"{self.share:.1%} of {self.count:,} inputs stay in every range"
        return text if self.share == 1 else f"{text}; fewest at {worst} ({self.layers[worst]:.1%})"


class LocalNetwork(Network):
    """A network whose constants hold on a set of inputs. Made by `describe(..., inputs=...)`.

    The theorem then needs every value to stay in its range: those of the true network, of the
    trained one, and of the mixed ones that are trained up to a layer and true behind it;
    docs/explanation/theory.md has the proof, `inside` the check.
    """

    def __init__(
        self,
        net: Network,
        region: InputSet,
        *,
        steps: Sequence[Step],
        links: Sequence[Link],
        record: Callable[[nn.Module], Sequence[Step]],
    ) -> None:
        layers = [_conditional(layer, region.short) for layer in net.layers]
        runs = (
            Composition(run.first, run.last, lipschitz=_constant(run.lipschitz, region.short))
            for run in net.compositions
        )
        super().__init__(layers, compositions=runs, name=net.name, largest_slope=net.largest_slope)
        set_fields(self, _region=region, _steps=steps, _links=links, _record=record)

    _region: InputSet
    _steps: Sequence[Step]
    _links: Sequence[Link]
    _record: Callable[[nn.Module], Sequence[Step]]

    @property
    def condition(self) -> str:
        """Where the constants hold, in words."""
        return (
            f"The constants hold for inputs in {self._region.words}, as long as every value of the "
            "true, the trained and the mixed networks stays in the range it has there."
        )

    @torch.no_grad()
    def inside(self, data: Tensor, trained: nn.Module | None = None) -> Inside:
        """Share of inputs that stay in the ranges on which the constants hold."""
        center = self._region.center
        if data.ndim != center.ndim or data.shape[1:] != center.shape[1:] or not len(data):
            rule = f"be inputs of shape {tuple(center.shape[1:])}, batch first"
            raise invalid("data", rule, data, got=str(tuple(data.shape)))
        steps_by_index = {step.index: step for link in self._links for step in link.steps}
        needed = [steps_by_index[index] for index in sorted(steps_by_index)]
        trained_steps = None
        if trained is not None:
            steps = self._record(trained)
            if [step.name for step in steps] != [step.name for step in self._steps]:
                remedy = "give a module of the same class and sizes"
                raise KoriskError(f"trained must run the same functions as the module; {remedy}")
            # Steps of both runs have the same indices, as they run the same functions.
            trained_steps = [steps[step.index] for step in needed]
        names = self._names()
        stayed = dict.fromkeys(names.values(), 0)
        inside_everywhere = 0
        for sample in data.double():
            escaped = self._escaped(sample[None].to(center.device), needed, trained_steps)
            gone = {names[index] for index in escaped}
            for name in stayed:
                stayed[name] += name not in gone
            inside_everywhere += not gone
        shares = {name: count / len(data) for name, count in stayed.items()}
        return Inside(inside_everywhere / len(data), shares, len(data))

    def _names(self) -> dict[int, str]:
        """The name of the layer that each step belongs to."""
        # A composed operator is several layers in one link.
        same = len(self._links) == len(self.layers)
        titles = self.names if same else [f"part {place}" for place in range(len(self._links))]
        names = {0: "input"}
        for title, link in zip(titles, self._links, strict=True):
            for step in link.steps:
                names.setdefault(step.index, title)
        return names

    def _escaped(self, x: Tensor, needed: list[Step], trained: list[Step] | None) -> set[int]:
        """The steps whose values leave their ranges, in the network and in mixed ones."""
        escaped: set[int] = set()

        def follow(values: dict[int, Tensor], steps: Iterable[Step]) -> dict[int, Tensor]:
            values = dict(values)
            for step in steps:
                values[step.index] = step.replay(values, double=True)
                domain = self._steps[step.index].on_set
                if domain is not None and not domain.contains(values[step.index]):
                    escaped.add(step.index)
            return values

        start = self._steps[0].on_set
        assert start is not None
        if not start.contains(x):
            escaped.add(0)
        follow({0: x}, needed)
        if trained is None:
            return escaped
        values = follow({0: x}, trained)
        ends = [link.steps[-1].index for link in self._links if any(s.trained for s in link.steps)]
        # The mixed networks g_l of prop:local: trained up to a learned layer, as described behind.
        for end in ends:
            before = {place: value for place, value in values.items() if place <= end}
            follow(before, [step for step in needed if step.index > end])
        return escaped


def _conditional(layer: Layer, short: str) -> Layer:
    """A layer whose brackets name the set on which they hold."""
    if isinstance(layer.inputs, Mapping):
        constants = {key: _constant(value, short) for key, value in layer.inputs.items()}
        return replace(layer, inputs=constants)
    return replace(layer, lipschitz=_constant(layer.lipschitz, short))


def _constant(value: Lipschitz, short: str) -> Any:
    if not isinstance(value, NormBracket):
        return value  # stated, or an operator's, on all inputs
    how = f"{short}: {value.how}"
    how = how if len(how) <= _LONGEST_HOW else how[: _LONGEST_HOW - 3] + "..."
    return replace(value, how=how)
