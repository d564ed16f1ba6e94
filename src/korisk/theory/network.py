"""A network as data: layers, their inputs, constants of runs of layers, and amplification."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np

from korisk import _checks
from korisk.errors import KoriskError, did_you_mean, invalid, shown
from korisk.theory.amplification import (
    FloatArray,
    Node,
    Number,
    Runs,
    graph_tails,
    paper_amplification,
)
from korisk.theory.bracket import HasNorm, NormBracket
from korisk.theory.layer import INPUT, Composition, Known, Layer, Learned, resolve

BoundForm = Literal["paper", "minkowski", "composed"]
BOUNDS: tuple[BoundForm, ...] = get_args(BoundForm)


@dataclass(frozen=True)
class Network:
    """Known and learned layers, input side first: f_L = u_L o ... o u_1 (eq:target), or a graph.

    `net["K"]` is a layer, `len(net)` is L. A network is immutable: `replace` returns another one.
    A layer takes the value of the layer before it, or of those in its `inputs`, Eq. (eq:graph); the
    value of the last layer is the output. The paper's (fig:precision) is such a chain.

    Parameters
    ----------
    layers : iterable of Known and Learned
        At least one, with different names, each after the layers that it takes.
    compositions : iterable of Composition, default ()
        Constants of runs of layers, where they are smaller than products of the layers' constants.
    name : str, default ""
        A title.
    largest_slope : float, optional
        The largest observed |f(x) - f(y)| / |x - y|, as `describe` finds it: a lower bound of the
        network's Lipschitz constant. Ignored in comparisons.
    calibrated : {"composed", "minkowski", "paper"}, optional
        The form of the bound through which C and kappa of the one learned layer were found; in
        another form the bound is the same, with the constants of that form. See
        `theory.calibrated`. By default they are constants of the layer itself.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=7680), kr.Known("K", lipschitz=0.03),
    ...                   kr.Known("A^T", lipschitz=85.0), kr.Known("ReLU", lipschitz=1.0)])
    >>> net.names, net.parameters
    (('W', 'K', 'A^T', 'ReLU'), 7680)
    >>> net.amplification("paper").round(1).tolist()
    [52.0, 57800.0, 4.0, 2.0]

    A residual block, the sum of the input and a learned layer's value:

    >>> block = kr.Network([kr.Learned("f", parameters=9, lipschitz=0.5),
    ...                     kr.Known("add", inputs={"input": 1, "f": 1})])
    >>> block.is_chain, block.inputs_of("add"), block.lipschitz()
    (False, ('input', 'f'), 1.5)
    """

    layers: tuple[Layer, ...]
    _: KW_ONLY
    compositions: tuple[Composition, ...] = ()
    name: str = ""
    largest_slope: float | None = field(default=None, compare=False)
    calibrated: BoundForm | None = None

    def __init__(
        self,
        layers: Iterable[Layer],
        *,
        compositions: Iterable[Composition] = (),
        name: str = "",
        largest_slope: float | None = None,
        calibrated: str | None = None,
    ) -> None:
        _checks.set_fields(self, layers=tuple(layers), compositions=tuple(compositions), name=name)
        if largest_slope is not None:
            remedy = "give a quotient that was seen, or leave it out"
            largest_slope = _checks.real("largest_slope", largest_slope, at_least=0, remedy=remedy)
        _checks.set_fields(self, largest_slope=largest_slope, calibrated=calibrated)
        remedy = "list Known and Learned layers, the one that takes the input first"
        nonempty, check = bool(self.layers), _checks.require
        check(nonempty, "layers", "hold at least one layer", self.layers, remedy, got="none")
        for layer in self.layers:
            if not isinstance(layer, Known | Learned):
                raise invalid("layers", "be Known or Learned", layer)
        for title, uses in Counter(self.names).items():
            twice, remedy = f"{title!r} twice", "rename one of them"
            check(uses == 1, "layer names", "differ", title, remedy, got=twice)
        if self.name:
            _checks.name("network name", self.name, remedy="give a short title, or none")
        if calibrated is not None:
            _checks.one_of("calibrated", calibrated, BOUNDS)
            erring = [layer.name for layer in self.layers if layer.errs]
            rule = "belong to a network in which one layer errs"
            remedy, got = "leave it out", f"{', '.join(erring)} in this one"
            check(len(erring) <= 1, "calibrated", rule, calibrated, remedy, got=got)
        self._check_inputs()
        for run in self.compositions:
            ends, rule = f"{run.first!r} to {run.last!r}", "run from an earlier to a later layer"
            follows = self.names[self.index(run.last)] in self.behind(run.first)
            check(follows, "composition", rule, run, "name the input side first", got=ends)
            if len(takes := self.inputs_of(run.first)) > 1:
                raise KoriskError(
                    f"composition {ends} must begin with a layer of one input, and {run.first!r} "
                    f"takes {', '.join(takes)}; begin with a layer behind it"
                )

    def _check_inputs(self) -> None:
        # Every value but the output must be used, or the graph has layers without any effect.
        used, check = set(), _checks.require
        for index, layer in enumerate(self.layers):
            if layer.inputs is None:
                used.add(index)
                continue
            if INPUT in self.names:
                why = f"layer {INPUT!r} must have another name in a network with inputs="
                raise KoriskError(f"{why}, where {INPUT!r} is the network's input; rename it")
            earlier = (INPUT, *self.names[:index])
            rule = f"be layers listed before it or {INPUT!r}"
            for name in layer.inputs:
                hint = did_you_mean(name, earlier).removeprefix("; ")
                check(name in earlier, f"layer {layer.name!r}: inputs", rule, name, hint)
                used.add(earlier.index(name))
        unused = [name for index, name in enumerate(self.names[:-1], start=1) if index not in used]
        if unused:
            why = "must be taken by a later one, because the last layer gives the output"
            remedy = "name it among inputs= of a layer, or remove it"
            raise KoriskError(f"layer {unused[0]!r} {why}; {remedy}")

    @cached_property
    def _takes(self) -> tuple[tuple[int, ...], ...]:
        """The values that each layer takes: 0 is the network's input, k the value of layer k."""
        # Without `inputs`, layer k (counted from 1) takes value k - 1, its index in `layers`.
        values = {INPUT: 0} | {name: place for place, name in enumerate(self.names, start=1)}
        return tuple(
            (place,) if layer.inputs is None else tuple(values[name] for name in layer.inputs)
            for place, layer in enumerate(self.layers)
        )

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __getitem__(self, name: str) -> Layer:
        return self.layers[self.index(name)]

    def __repr__(self) -> str:
        runs = f", compositions={list(self.compositions)!r}" if self.compositions else ""
        title = f", name={self.name!r}" if self.name else ""
        return f"Network({list(self.layers)!r}{runs}{title})"

    @property
    def names(self) -> tuple[str, ...]:
        """The layers' names, input side first."""
        return tuple(layer.name for layer in self.layers)

    @property
    def is_chain(self) -> bool:
        """Whether each layer takes only the one before it."""
        return all(takes == (place,) for place, takes in enumerate(self._takes))

    @property
    def edges(self) -> dict[tuple[str, str], NormBracket]:
        """The constant L_(v,u) of each layer v in each value u that it takes, by (u, v)."""
        return {
            (source, layer.name): layer.bracket_of(source)
            for layer in self.layers
            for source in self.inputs_of(layer.name)
        }

    @property
    def learned(self) -> tuple[Learned, ...]:
        """The learned layers, the index set L of Theorem (thm:deep-risk)."""
        return tuple(layer for layer in self.layers if isinstance(layer, Learned))

    @property
    def parameters(self) -> int | None:
        """Number of distinct learned parameters; None if a layer does not state its own."""
        # Infinite if one is not stated, so that the sum need not look at each.
        total = sum(map(_own, self.layers))
        return None if total == math.inf else int(total)

    def index(self, name: str) -> int:
        """The position of a layer, from 0.

        Parameters
        ----------
        name : str
            The layer's name.

        Returns
        -------
        int
            Its position.
        """
        if name not in self.names:
            hint = did_you_mean(str(name), self.names)
            raise KoriskError(f"there is no layer {shown(name)} in this network{hint}")
        return self.names.index(name)

    def inputs_of(self, name: str) -> tuple[str, ...]:
        """The names of the layers that a layer takes; "input" is the network's input.

        Parameters
        ----------
        name : str
            The layer's name.

        Returns
        -------
        tuple of str
            In the order of its `inputs`.
        """
        values = (INPUT, *self.names)
        return tuple(values[place] for place in self._takes[self.index(name)])

    def behind(self, name: str) -> tuple[str, ...]:
        """The names of the layers that depend on a layer, in order.

        Parameters
        ----------
        name : str
            The layer's name.

        Returns
        -------
        tuple of str
            Without itself.
        """
        # Layers are listed after the ones that they take: one pass finds all dependents.
        moved = {self.index(name) + 1}
        for value, takes in enumerate(self._takes, start=1):
            if moved.intersection(takes):
                moved.add(value)
        return tuple(self.names[value - 1] for value in sorted(moved))[1:]

    def tails(self, bound: BoundForm = "composed") -> FloatArray:
        """P_l for every layer l; infinite if a Lipschitz constant behind it is not known.

        Parameters
        ----------
        bound : {"composed", "minkowski", "paper"}, default "composed"
            "composed" uses known constants of runs of layers, and of several inputs as one vector;
            the others multiply constants along every path and add over paths.

        Returns
        -------
        array, (L,)
            P_l, a Lipschitz constant of everything behind layer l, and 1 for the last layer.

        Examples
        --------
        >>> import korisk as kr
        >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=2)]
        >>> net = kr.Network(layers)
        >>> net.tails().tolist()
        [6.0, 2.0, 1.0]
        """
        return self._constants(bound)[1:]

    def amplification(self, bound: BoundForm = "composed") -> FloatArray:
        """A_l, the amplification of a squared error at layer l on its way to the output.

        Parameters
        ----------
        bound : {"composed", "minkowski", "paper"}, default "composed"
            "paper" is Eq. (eq:Al); "minkowski" is P_l^2 with products of constants,
            Eq. (eq:minkowski); "composed" is P_l^2 with known constants of composed tails,
            Eq. (eq:composed).

        Returns
        -------
        array, (L,)
            A_l; infinite if a constant is not known.

        Examples
        --------
        >>> import korisk as kr
        >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=2)]
        >>> net = kr.Network(layers)
        >>> net.amplification("paper").tolist(), net.amplification("minkowski").tolist()
        ([144.0, 16.0, 2.0], [36.0, 4.0, 1.0])
        """
        tails = self.tails(bound)
        if bound == "paper":
            return paper_amplification(tails)
        with np.errstate(over="ignore", under="ignore"):
            return np.square(tails)

    def lipschitz(self, bound: BoundForm = "composed") -> float:
        """An upper bound of the network's own Lipschitz constant, Lemma (lem:lip).

        Parameters
        ----------
        bound : {"composed", "minkowski", "paper"}, default "composed"
            "composed" uses known constants of runs of layers.

        Returns
        -------
        float
            The constant; infinite if a layer's is not known.

        Examples
        --------
        >>> import korisk as kr
        >>> kr.Network([kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=2)]).lipschitz()
        6.0
        """
        return float(self._constants(bound)[0])

    def _constants(self, bound: BoundForm) -> FloatArray:
        return np.array(self._tails_in(float, bound))

    def _tails_in(self, number: Callable[[float], Number], bound: BoundForm) -> list[Number]:
        _checks.one_of("bound", bound, BOUNDS)
        composed = bound == "composed"
        nodes = []
        for layer, takes in zip(self.layers, self._takes, strict=True):
            sources = self.inputs_of(layer.name)
            # A mapping's joint constant is derived from its parts, and adds no information.
            several = composed and len(takes) > 1 and not isinstance(layer.inputs, Mapping)
            constants = tuple(number(layer.bracket_of(source).upper) for source in sources)
            joint = number(layer.bracket.upper if several else math.inf)
            nodes.append(Node(takes, constants, joint))
        runs = self._segments if composed else {}
        exact_runs = {ends: number(constant) for ends, constant in runs.items()}
        return graph_tails(nodes, exact_runs, number(1.0))

    @cached_property
    def _segments(self) -> Runs[float]:
        """Constants of runs of layers, the smallest if there are several of one run."""
        segments: dict[tuple[int, int], float] = {}
        for run in self._runs:
            (source,) = self._takes[self.index(run.first)]
            ends = source, self.index(run.last) + 1
            segments[ends] = min(segments.get(ends, np.inf), run.bracket.upper)
        return segments

    @cached_property
    def _runs(self) -> tuple[Composition, ...]:
        """Stated constants of runs of layers, and norms of runs that consist of operators.

        A known layer is linear if its constants are operators. If all paths from a value to a
        linear layer are linear, their sum is one operator, and its norm a constant of the run. A
        run does not end at a layer whose only user is linear and takes nothing else: the longer run
        to that user replaces it.
        """
        compositions = list(self.compositions)
        users: list[list[int]] = [[] for _ in range(len(self) + 1)]
        for value, takes in enumerate(self._takes, start=1):
            for source in takes:
                users[source].append(value)
        operators = [{}, *(_operators(layer, self.inputs_of(layer.name)) for layer in self.layers)]
        values = (INPUT, *self.names)
        for last in range(len(self), 0, -1):
            # Skip ends that a longer run contains: its norm is at most the product.
            alone = [user for user in users[last] if len(self._takes[user - 1]) == 1]
            if not operators[last] or (len(users[last]) == len(alone) == 1 and operators[alone[0]]):
                continue
            # Operators from a value to the last; the identity is None.
            composed: dict[int, Any] = {last: None}
            ways = {last}  # values with a path to the last
            # Backward: the operator from a value is the sum over its users of theirs times a step.
            for value in range(last - 1, -1, -1):
                leading = [user for user in users[value] if user in ways]
                if not leading:
                    continue
                ways.add(value)
                # One path that is not linear spoils the run, also for all values before.
                if not all(user in composed and operators[user] for user in leading):
                    continue
                steps = [(composed[user], operators[user][values[value]]) for user in leading]
                terms = [step if rest is None else rest @ step for rest, step in steps]
                composed[value] = sum(terms[1:], start=terms[0])
                # A composition is named by its first layer, which must have one input.
                firsts = [user for user in leading if len(self._takes[user - 1]) == 1]
                if firsts and leading != [last]:
                    ends = values[firsts[0]], values[last]
                    norm = resolve(f"layers {ends[0]!r} to {ends[1]!r}", composed[value])
                    compositions.append(Composition(*ends, lipschitz=norm))
        return tuple(compositions)

    def replace(self, name: str, *layers: Layer) -> Network:
        """The network with layer `name` replaced, by default by the same map as a known operator.

        The default is Corollary (cor:known): û_m = u_m, and nothing else changes. A new layer with
        the same name is the same map if its constant is the same, or was not known before.
        Compositions that contain the layer are kept for the same map and dropped for another, and
        dropped as well if the new graph has other paths through them.
        The first new layer takes the inputs of the old one, unless it has `inputs`, and layers that
        took the old one take the last new one.
        Parameters that the old layer shares with later ones are counted at the next of them.

        Parameters
        ----------
        name : str
            The layer to replace.
        *layers : Known or Learned
            The replacement; by default the same map as a known operator.

        Returns
        -------
        Network
            Another network.

        Examples
        --------
        >>> import korisk as kr
        >>> net = kr.Network([kr.Learned("W", parameters=10), kr.Learned("B", lipschitz=2)])
        >>> net.replace("B")
        Network([Learned('W', parameters=10), Known('B', lipschitz=2.0)])
        >>> net.replace("B", kr.Known("K", lipschitz=3), kr.Known("A^T", lipschitz=1)).names
        ('W', 'K', 'A^T')
        """
        index = self.index(name)
        old = self.layers[index]
        new = layers or (_as_known(old),)
        # A stated constant of the new layer replaces those that the old one stated per input.
        if new[0].inputs is None and old.inputs is not None:
            per_input = isinstance(old.inputs, Mapping) and new[0].lipschitz is not None
            new = (replace(new[0], inputs=tuple(old.inputs) if per_input else old.inputs), *new[1:])
        recounted = _recounted(self.layers, index, new)
        later = [_renamed(layer, name, new[-1].name) for layer in recounted]
        rewired = Network((*self.layers[:index], *new, *later), name=self.name)
        ends = {name: new[-1].name}  # new name of the layer's value
        # Layers that are the same map before and after; runs over another one are not known.
        same = {*self.names[:index], *self.names[index + 1 :]}
        if not layers or _same_map(old, new):
            same.add(name)
        valid = [
            run
            for run in self.compositions
            if {run.first, run.last} <= same
            and (edges := self._run_edges(run, ends)) == rewired._run_edges(run, {})
            and {layer for layer, _ in edges} <= same
        ]
        # Another map has another slope, and constants that were not calibrated.
        slope, form = (None, None) if layers else (self.largest_slope, self.calibrated)
        title = self.name
        return Network(
            rewired.layers, compositions=valid, name=title, largest_slope=slope, calibrated=form
        )

    def _run_edges(self, run: Composition, renamed: Mapping[str, str]) -> set[tuple[str, str]]:
        """The edges on paths from the value at which a run begins to its last layer.

        As pairs of a layer and a value that it takes: if these are the same in two networks, a
        composition holds in both, since other inputs do not depend on the first value.
        """
        # Layers on a path: those that depend on the source, and on which the last one depends.
        (source,) = self.inputs_of(run.first)
        moved = {source}
        for name in self.names:
            if moved.intersection(self.inputs_of(name)):
                moved.add(name)
        leading = {run.last}
        for name in reversed(self.names):
            if name in leading and name != source:
                leading.update(self.inputs_of(name))
        inside = moved & leading
        return {
            (layer, renamed.get(source_name, source_name))
            for layer in inside - {source}
            for source_name in self.inputs_of(layer)
            if source_name in inside
        }

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Network:
        """Read a network from a YAML file; see docs/reference/network-file.md for its keys.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Network
            The network in the file.

        Examples
        --------
        >>> import korisk as kr
        >>> net = kr.Network([kr.Learned("W", parameters=10), kr.Known("K", lipschitz=2)])
        >>> net.write("network.yaml")
        >>> kr.Network.read("network.yaml") == net
        True
        """
        from korisk.files import read_yaml

        return cls.from_dict(read_yaml(path), source=path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the network as YAML; when read again, it has the same bounds.

        Operators are written as the brackets of their norms, and runs of them as compositions.

        Parameters
        ----------
        path : str or path
            The file to write.
        """
        from korisk.files import write_yaml

        write_yaml(path, self.to_dict())

    @classmethod
    def from_dict(cls, content: Any, *, source: object = "network") -> Network:
        """A network from plain values, as `to_dict` returns them.

        Parameters
        ----------
        content : dict
            The values.
        source : object, default "network"
            Their origin, for messages.

        Returns
        -------
        Network
            The network.
        """
        from korisk.files import parse
        from korisk.theory.network_file import NetworkEntry, parts

        entry = parse(NetworkEntry, content, source=source)
        try:
            layers, runs = parts(entry)
            slope, form, title = entry.largest_slope, entry.calibrated, entry.name
            return Network(
                layers, compositions=runs, name=title, largest_slope=slope, calibrated=form
            )
        except KoriskError as error:
            raise KoriskError(f"{source}: ", error.message) from None

    def to_dict(self) -> dict[str, Any]:
        """The network as plain values, in the structure of the file.

        The norms of operators, and of runs of them, are computed.

        Returns
        -------
        dict
            Values for YAML or JSON.
        """
        from korisk.theory.network_file import entries

        content = entries(self.layers, self._runs, self.name)
        if self.largest_slope is not None:
            content["largest_slope"] = self.largest_slope
        if self.calibrated is not None:
            content["calibrated"] = self.calibrated
        return content


def exact_tails(net: Network, bound: BoundForm) -> list[Decimal]:
    """P_l of every layer, with the digits of the current decimal context."""
    return net._tails_in(Decimal, bound)[1:]


def _operators(layer: Layer, sources: Sequence[str]) -> dict[str, Any]:
    """The operator in each input of a known linear layer; empty for other layers.

    A learned layer whose constant is given as an operator only has that operator's norm: it is
    another map, whose norm may be attained in any direction.
    """
    if not isinstance(layer, Known):
        return {}
    constants = layer.inputs if isinstance(layer.inputs, Mapping) else {sources[0]: layer.lipschitz}
    linear = all(isinstance(c, HasNorm) and hasattr(c, "__matmul__") for c in constants.values())
    return dict(constants) if linear and len(constants) == len(sources) else {}


def _as_known(layer: Layer) -> Known:
    """The same map as a known layer.

    Operators of a learned layer only state its constants, and are replaced by their brackets.
    """
    if isinstance(layer, Known):
        return Known(layer.name, lipschitz=layer.lipschitz, inputs=layer.inputs)
    constant, inputs = layer.lipschitz, layer.inputs
    if hasattr(constant, "__matmul__"):
        constant = layer.bracket
    if isinstance(inputs, Mapping):
        inputs = {
            name: layer.bracket_of(name) if hasattr(value, "__matmul__") else value
            for name, value in inputs.items()
        }
    return Known(layer.name, lipschitz=constant, inputs=inputs)


def _own(layer: Layer) -> float:
    """Number of parameters that no earlier layer shares; infinite if it is not stated."""
    if not isinstance(layer, Learned):
        return 0
    return math.inf if layer.parameters is None else layer.parameters - layer.shared


def _recounted(layers: Sequence[Layer], index: int, new: Sequence[Layer]) -> list[Layer]:
    """The layers after a replaced one, with `shared` recounted.

    A layer with the same name and a number takes over the parameters that the replaced one was the
    first to use; others share at most as many as the layers before them have.
    """
    old, later = layers[index], list(layers[index + 1 :])
    # Only a layer that is no longer learned passes its parameters on.
    if not isinstance(old, Learned) or any(isinstance(layer, Learned) for layer in new):
        return later
    unassigned, before = _own(old), sum(map(_own, layers[:index]))
    # "conv", "conv (2)", "conv (3)": uses of one module.
    stem = re.sub(r" \(\d+\)$", "", old.name)
    for place, layer in enumerate(later):
        if isinstance(layer, Learned) and layer.shared:
            again = re.sub(r" \(\d+\)$", "", layer.name) == stem
            passed_on = int(min(unassigned, layer.shared)) if again else 0
            unassigned -= passed_on
            later[place] = replace(layer, shared=int(min(layer.shared - passed_on, before)))
        before += _own(later[place])
    return later


def _renamed(layer: Layer, old: str, new: str) -> Layer:
    """The layer with the input `old` renamed to `new`."""
    if layer.inputs is None or old not in layer.inputs or old == new:
        return layer
    if isinstance(layer.inputs, Mapping):
        constants = {new if key == old else key: value for key, value in layer.inputs.items()}
        return replace(layer, inputs=constants)
    return replace(layer, inputs=tuple(new if key == old else key for key in layer.inputs))


def _same_map(old: Layer, new: Sequence[Layer]) -> bool:
    if len(new) != 1 or (old.name, old.inputs) != (new[0].name, new[0].inputs):
        return False
    before, after = old.lipschitz, new[0].lipschitz
    if before is None or after is before:
        return True
    plain = float | NormBracket  # operators may not be comparable, apart from their identity
    return isinstance(before, plain) and isinstance(after, plain) and before == after
