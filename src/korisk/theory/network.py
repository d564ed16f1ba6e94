"""A network as data: layers, what they take, what is known of runs of them, how errors grow."""

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
from korisk._show import Drawn
from korisk.errors import KoriskError, did_you_mean, invalid, shown
from korisk.theory.amplification import (
    FloatArray,
    Node,
    Number,
    Runs,
    graph_tails,
    paper_amplification,
)
from korisk.theory.bracket import HasNorm, NormBracket, set_fields
from korisk.theory.layer import INPUT, Composition, Known, Layer, Learned, resolve

BoundForm = Literal["paper", "minkowski", "composed"]
BOUNDS: tuple[BoundForm, ...] = get_args(BoundForm)


@dataclass(frozen=True, repr=False)
class Network(Drawn):
    """Known and learned layers, input side first: f_L = u_L o ... o u_1 (eq:target), or a graph.

    `net["K"]` is a layer, `len(net)` is L, and a network is a value: `replace` gives another one.
    A layer takes the value of the one before it, or those that its `inputs` name, Eq. (eq:graph);
    the last layer gives the output.

    Parameters
    ----------
    layers : iterable of Known and Learned
        At least one, of different names, each behind the layers that it takes.
    compositions : iterable of Composition, default ()
        Constants of runs of layers, where those are known better than by their products.
    name : str, default ""
        A title.
    largest_slope : float, optional
        The largest |f(x) - f(y)| / |x - y| seen where somebody tried, as `describe` does: a lower
        end of the network's own constant. It takes no part in comparisons.

    Raises
    ------
    KoriskError
        If layers, names and compositions do not fit together.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=7680), kr.Known("K", lipschitz=0.03),
    ...                   kr.Known("A^T", lipschitz=85.0), kr.Known("ReLU", lipschitz=1.0)])
    >>> net.names, net.parameters
    (('W', 'K', 'A^T', 'ReLU'), 7680)
    >>> net.amplification("paper").round(1).tolist()
    [52.0, 57800.0, 4.0, 2.0]

    A residual block, the input and what a learned layer makes of it added up:

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

    def __init__(
        self,
        layers: Iterable[Layer],
        *,
        compositions: Iterable[Composition] = (),
        name: str = "",
        largest_slope: float | None = None,
    ) -> None:
        set_fields(self, layers=tuple(layers), compositions=tuple(compositions), name=name)
        if largest_slope is not None:
            remedy = "give a quotient that was seen, or leave it out"
            slope = _checks.real("largest_slope", largest_slope, at_least=0, remedy=remedy)
            set_fields(self, largest_slope=slope)
        else:
            set_fields(self, largest_slope=None)
        remedy = "list Known and Learned layers, the one that takes the input first"
        some, check = bool(self.layers), _checks.require
        check(some, "layers", "hold at least one layer", self.layers, remedy, got="none")
        for layer in self.layers:
            if not isinstance(layer, Known | Learned):
                raise invalid("layers", "be Known or Learned", layer)
        for title, uses in Counter(self.names).items():
            twice, remedy = f"{title!r} twice", "rename one of them"
            check(uses == 1, "layer names", "differ", title, remedy, got=twice)
        if self.name:
            _checks.name("network name", self.name, remedy="give a short title, or none")
        self._check_inputs()
        for part in self.compositions:
            run, rule = f"{part.first!r} to {part.last!r}", "run from an earlier to a later layer"
            follows = self.names[self.index(part.last)] in self.behind(part.first)
            check(follows, "composition", rule, part, "name the input side first", got=run)
            if len(takes := self.inputs_of(part.first)) > 1:
                raise KoriskError(
                    f"composition {run} must begin with a layer of one input, and {part.first!r} "
                    f"takes {', '.join(takes)}; begin with a layer behind it"
                )

    def _check_inputs(self) -> None:
        used, check = set(), _checks.require
        for at, layer in enumerate(self.layers):
            if layer.inputs is None:
                used.add(at)
                continue
            if INPUT in self.names:
                why = f"layer {INPUT!r} must have another name in a network with inputs="
                raise KoriskError(f"{why}, where {INPUT!r} is the network's input; rename it")
            earlier = (INPUT, *self.names[:at])
            rule = f"be layers listed before it or {INPUT!r}"
            for name in layer.inputs:
                hint = did_you_mean(name, earlier).removeprefix("; ")
                check(name in earlier, f"layer {layer.name!r}: inputs", rule, name, hint)
                used.add(earlier.index(name))
        unused = [name for at, name in enumerate(self.names[:-1], start=1) if at not in used]
        if unused:
            why = "must be taken by a later one, because the last layer gives the output"
            remedy = "name it among inputs= of a layer, or remove it"
            raise KoriskError(f"layer {unused[0]!r} {why}; {remedy}")

    @cached_property
    def _takes(self) -> tuple[tuple[int, ...], ...]:
        """The values that each layer takes: 0 is the network's input, k the value of layer k."""
        at = {INPUT: 0} | {name: place for place, name in enumerate(self.names, start=1)}
        return tuple(
            (place,) if layer.inputs is None else tuple(at[name] for name in layer.inputs)
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
        """Whether each layer takes the one before it, and nothing else."""
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
        """How many different parameters are learned; None where a layer does not tell."""
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

        Raises
        ------
        KoriskError
            If no layer has that name.
        """
        if name not in self.names:
            hint = did_you_mean(str(name), self.names)
            raise KoriskError(f"there is no layer {shown(name)} in this network{hint}")
        return self.names.index(name)

    def inputs_of(self, name: str) -> tuple[str, ...]:
        """The names of the layers that a layer takes, "input" being the network's input.

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
        """The names of the layers whose values depend on that of a layer, in order.

        Parameters
        ----------
        name : str
            The layer's name.

        Returns
        -------
        tuple of str
            Without itself.
        """
        moved = {self.index(name) + 1}
        for value, takes in enumerate(self._takes, start=1):
            if moved.intersection(takes):
                moved.add(value)
        return tuple(self.names[value - 1] for value in sorted(moved))[1:]

    def tails(self, bound: BoundForm = "composed") -> FloatArray:
        """P_l for every layer l: infinite where a Lipschitz constant further on is not known.

        Parameters
        ----------
        bound : {"composed", "minkowski", "paper"}, default "composed"
            "composed" uses constants of runs of layers and of several inputs as one vector where
            they are known; the others multiply constants along every path and add the paths up.

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
        """A_l: what one unit of squared error at layer l can become at the output.

        Parameters
        ----------
        bound : {"composed", "minkowski", "paper"}, default "composed"
            "paper" is Eq. (eq:Al); "minkowski" is P_l^2 with products of constants,
            Eq. (eq:minkowski); "composed" is P_l^2 with the constants of composed tails where the
            network knows them, Eq. (eq:composed).

        Returns
        -------
        array, (L,)
            A_l; infinite where a constant is not known.

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
            "composed" uses constants of runs of layers where they are known.

        Returns
        -------
        float
            The constant; infinite where a layer's is not known.

        Examples
        --------
        >>> import korisk as kr
        >>> kr.Network([kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=2)]).lipschitz()
        6.0
        """
        return float(self._constants(bound)[0])

    def _constants(self, bound: BoundForm) -> FloatArray:
        return np.array(self._tails_in(float, bound))

    def exact_tails(self, bound: BoundForm = "composed") -> list[Decimal]:
        """P_l for every layer l, to the digits of the present decimal context.

        Constants are the doubles that the layers and compositions state, at their exact value.

        Parameters
        ----------
        bound : {"composed", "minkowski", "paper"}, default "composed"
            As in `tails`.

        Returns
        -------
        list of Decimal, (L,)
            P_l.
        """
        return self._tails_in(Decimal, bound)[1:]

    def _tails_in(self, number: Callable[[float], Number], bound: BoundForm) -> list[Number]:
        _checks.one_of("bound", bound, BOUNDS)
        composed = bound == "composed"
        nodes = []
        for layer, takes in zip(self.layers, self._takes, strict=True):
            sources = self.inputs_of(layer.name)
            several = composed and len(takes) > 1 and not isinstance(layer.inputs, Mapping)
            constants = tuple(number(layer.bracket_of(source).upper) for source in sources)
            joint = number(layer.bracket.upper if several else math.inf)
            nodes.append(Node(takes, constants, joint))
        runs = self._segments if composed else {}
        exact_runs = {ends: number(constant) for ends, constant in runs.items()}
        return graph_tails(nodes, exact_runs, number(1.0))

    @cached_property
    def _segments(self) -> Runs[float]:
        """Constants of runs of layers, the smallest where several are known."""
        segments: dict[tuple[int, int], float] = {}
        for part in self._runs:
            (source,) = self._takes[self.index(part.first)]
            run = source, self.index(part.last) + 1
            segments[run] = min(segments.get(run, np.inf), part.bracket.upper)
        return segments

    @cached_property
    def _runs(self) -> tuple[Composition, ...]:
        """What was stated of runs of layers, and norms of parts that are operators throughout.

        A known layer is linear if its constants are operators. Where all paths from a value to a
        linear layer are, their sum is one operator, whose norm is asked for. A layer with one
        linear user that takes nothing else ends no run: that user does.
        """
        found = list(self.compositions)
        users: list[list[int]] = [[] for _ in range(len(self) + 1)]
        for value, takes in enumerate(self._takes, start=1):
            for source in takes:
                users[source].append(value)
        operators = [{}, *(_operators(layer, self.inputs_of(layer.name)) for layer in self.layers)]
        values = (INPUT, *self.names)
        for last in range(len(self), 0, -1):
            alone = [user for user in users[last] if len(self._takes[user - 1]) == 1]
            if not operators[last] or (len(users[last]) == len(alone) == 1 and operators[alone[0]]):
                continue
            whole: dict[int, Any] = {last: None}  # the operator from a value to the last one
            ways = {last}  # values that lead to the last one
            for value in range(last - 1, -1, -1):
                leading = [user for user in users[value] if user in ways]
                if not leading:
                    continue
                ways.add(value)
                if not all(user in whole and operators[user] for user in leading):
                    continue
                steps = [(whole[user], operators[user][values[value]]) for user in leading]
                terms = [step if rest is None else rest @ step for rest, step in steps]
                whole[value] = sum(terms[1:], start=terms[0])
                firsts = [user for user in leading if len(self._takes[user - 1]) == 1]
                if firsts and leading != [last]:
                    ends = values[firsts[0]], values[last]
                    norm = resolve(f"layers {ends[0]!r} to {ends[1]!r}", whole[value])
                    found.append(Composition(*ends, lipschitz=norm))
        return tuple(found)

    def replace(self, name: str, *layers: Layer) -> Network:
        """The network with layer `name` replaced, by default by the same map as a known operator.

        That default is Corollary (cor:known): û_m = u_m, nothing else changes. A layer of the same
        name counts as the same map too if its constant is the same, or was not known before.
        Compositions that run over the layer are kept for the same map, and dropped for another; so
        are those that other paths lead through in the new graph.
        The first of the new layers takes what the old one took, unless it names `inputs` itself,
        and layers that took the old one take the last of the new ones.
        Parameters that it shares with later layers are counted at the next of them from then on.

        Parameters
        ----------
        name : str
            The layer to replace.
        *layers : Known or Learned
            What takes its place; without any, the same map as a known operator.

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
        at = self.index(name)
        old = self.layers[at]
        new = layers or (_as_known(old),)
        if new[0].inputs is None and old.inputs is not None:
            named = isinstance(old.inputs, Mapping) and new[0].lipschitz is not None
            new = (replace(new[0], inputs=tuple(old.inputs) if named else old.inputs), *new[1:])
        later = [_renamed(layer, name, new[-1].name) for layer in _recounted(self.layers, at, new)]
        rewired = Network((*self.layers[:at], *new, *later), name=self.name)
        ends = {name: new[-1].name}  # what the layer's value is called from now on
        same = {*self.names[:at], *self.names[at + 1 :]}
        if not layers or _same_map(old, new):
            same.add(name)
        kept = [
            part
            for part in self.compositions
            if {part.first, part.last} <= same
            and (run := self._run_edges(part, ends)) == rewired._run_edges(part, {})
            and {layer for layer, _ in run} <= same
        ]
        slope = self.largest_slope if not layers else None  # another map, another slope
        return Network(rewired.layers, compositions=kept, name=self.name, largest_slope=slope)

    def _run_edges(self, part: Composition, renamed: Mapping[str, str]) -> set[tuple[str, str]]:
        """The layers on paths from the value that a composition begins with to its last one.

        Each with the values on these paths that it takes, as pairs. A composition says the same of
        two networks where these are the same layers with the same pairs; what else its layers take
        may be anything, as long as it does not depend on the first value.
        """
        (source,) = self.inputs_of(part.first)
        moved = {source}
        for name in self.names:
            if moved.intersection(self.inputs_of(name)):
                moved.add(name)
        leading = {part.last}
        for name in reversed(self.names):
            if name in leading and name != source:
                leading.update(self.inputs_of(name))
        inside = moved & leading
        return {
            (layer, renamed.get(taken, taken))
            for layer in inside - {source}
            for taken in self.inputs_of(layer)
            if taken in inside
        }

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Network:
        """The network that a YAML file describes; see docs/reference/network-file.md for its keys.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Network
            What it describes.

        Raises
        ------
        KoriskError
            If the file cannot be read, or says something else.

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
        """Write the network as YAML, so that what is read from it has the same bounds.

        Operators are written as the brackets that they give, and runs of them as compositions.

        Parameters
        ----------
        path : str or path
            The file to write.
        """
        from korisk.files import write_yaml

        write_yaml(path, self.to_dict())

    @classmethod
    def from_dict(cls, content: Any, *, source: object = "network") -> Network:
        """The network that plain values describe, in the shape that `to_dict` gives.

        Parameters
        ----------
        content : dict
            The values.
        source : object, default "network"
            Where they come from, for messages.

        Returns
        -------
        Network
            What they describe.

        Raises
        ------
        KoriskError
            If they describe no network.
        """
        from korisk.files import parse
        from korisk.theory.network_file import NetworkEntry, parts

        entry = parse(NetworkEntry, content, source=source)
        try:
            layers, compositions = parts(entry)
            return Network(
                layers,
                compositions=compositions,
                name=entry.name,
                largest_slope=entry.largest_slope,
            )
        except KoriskError as error:
            raise KoriskError(f"{source}: ", error.message) from None

    def to_dict(self) -> dict[str, Any]:
        """The network as plain values, in the shape of the file.

        Operators and runs of them are asked for their norms.

        Returns
        -------
        dict
            Values for YAML or JSON.
        """
        from korisk.theory.network_file import entries

        content = entries(self.layers, self._runs, self.name)
        if self.largest_slope is not None:
            content["largest_slope"] = self.largest_slope
        return content


def _operators(layer: Layer, sources: Sequence[str]) -> dict[str, Any]:
    """The operator in each input of a known linear layer; empty if it is not one.

    A learned layer whose constant is given as an operator has that operator's norm. It is another
    map, with any direction in which the norm is attained.
    """
    if not isinstance(layer, Known):
        return {}
    given = layer.inputs if isinstance(layer.inputs, Mapping) else {sources[0]: layer.lipschitz}
    linear = all(isinstance(c, HasNorm) and hasattr(c, "__matmul__") for c in given.values())
    return dict(given) if linear and len(given) == len(sources) else {}


def _as_known(layer: Layer) -> Known:
    """The same map as a known layer.

    A learned layer's operators only state its constants, and stay no more than that.
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
    """How many parameters a layer is the first to use; infinite where it does not tell."""
    if not isinstance(layer, Learned):
        return 0
    return math.inf if layer.parameters is None else layer.parameters - layer.shared


def _recounted(layers: Sequence[Layer], at: int, new: Sequence[Layer]) -> list[Layer]:
    """The layers behind a replaced one, whose `shared` parameters may be first used there now.

    A layer of the same name and a number, as `describe` writes a second use, takes over what the
    replaced one was first to use. Otherwise no layer shares more than the layers before it have.
    """
    old, later = layers[at], list(layers[at + 1 :])
    if not isinstance(old, Learned) or any(isinstance(layer, Learned) for layer in new):
        return later
    left, before = _own(old), sum(map(_own, layers[:at]))
    stem = re.sub(r" \(\d+\)$", "", old.name)
    for place, layer in enumerate(later):
        if isinstance(layer, Learned) and layer.shared:
            again = re.sub(r" \(\d+\)$", "", layer.name) == stem
            taken = int(min(left, layer.shared)) if again else 0
            left -= taken
            later[place] = replace(layer, shared=int(min(layer.shared - taken, before)))
        before += _own(later[place])
    return later


def _renamed(layer: Layer, old: str, new: str) -> Layer:
    """The layer, taking `new` where it took `old`."""
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
    plain = float | NormBracket  # operators may not be comparable: only the same one is the same
    return isinstance(before, plain) and isinstance(after, plain) and before == after
