"""A network as data: layers in order, and what is known of runs of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from korisk import _checks
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.theory._repr import terse_repr
from korisk.theory.amplification import (
    BOUNDS,
    BoundForm,
    FloatArray,
    Segments,
    composed_tails,
    minkowski_amplification,
    paper_amplification,
    tail_products,
)
from korisk.theory.bracket import HasNorm, Lipschitz, NormBracket
from korisk.theory.layer import Known, Layer, Learned, as_lipschitz, resolve

if TYPE_CHECKING:
    from korisk.theory.savings import Savings


@dataclass(frozen=True, repr=False)
class Composition:
    """A Lipschitz constant of the whole run of layers from `first` to `last`.

    For linear layers that is the norm of the product, often far below the product of the norms;
    Eq. (eq:composed) takes it for the tails.

    `first` and `last` name layers of the network, the input side first; `lipschitz` takes the same
    forms as a layer's, but not None.

    >>> import korisk as kr
    >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=0.03), kr.Known("B", lipschitz=85.0)]
    >>> whole = kr.Composition("K", "B", lipschitz=1.2)
    >>> kr.Network(layers, compositions=[whole]).tails().tolist()
    [1.2, 85.0, 1.0]
    >>> kr.Network(layers).tails().round(2).tolist()
    [2.55, 85.0, 1.0]
    """

    first: str
    last: str
    _: KW_ONLY
    lipschitz: Lipschitz

    def __post_init__(self) -> None:
        value = as_lipschitz(self._field, self.lipschitz)
        if value is None:
            raise KoriskError(f"{self._field} is missing; give the norm of the composed layers")
        object.__setattr__(self, "lipschitz", value)

    @property
    def _field(self) -> str:
        return f"composition {self.first!r} to {self.last!r}: lipschitz"

    @cached_property
    def bracket(self) -> NormBracket:
        """The constant as a bracket; an operator is asked for its norm once."""
        return resolve(self._field, self.lipschitz)

    def __repr__(self) -> str:
        return terse_repr(self)


@dataclass(frozen=True, repr=False)
class Network:
    """f_L = u_L o ... o u_1 (eq:target), each layer known or learned, input side first.

    `layers` are `Known` and `Learned` ones of different names, at least one. `compositions` state
    constants of runs of them, where those are known better than by their products. `name` is a
    title, or nothing. `net["K"]` is a layer, `len(net)` is L, and a network is a value: `replace`
    gives another one. What does not fit together raises `KoriskError`.

    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=7680), kr.Known("K", lipschitz=0.03),
    ...                   kr.Known("A^T", lipschitz=85.0), kr.Known("ReLU", lipschitz=1.0)])
    >>> net.names, net.parameters
    (('W', 'K', 'A^T', 'ReLU'), 7680)
    >>> net.amplification("paper").round(1).tolist()
    [52.0, 57800.0, 4.0, 2.0]
    """

    layers: tuple[Layer, ...]
    _: KW_ONLY
    compositions: tuple[Composition, ...] = ()
    name: str = ""

    def __init__(
        self,
        layers: Iterable[Layer],
        *,
        compositions: Iterable[Composition] = (),
        name: str = "",
    ) -> None:
        object.__setattr__(self, "layers", tuple(layers))
        object.__setattr__(self, "compositions", tuple(compositions))
        object.__setattr__(self, "name", name)
        self._check()

    def _check(self) -> None:
        if not self.layers:
            raise KoriskError(
                "layers must hold at least one layer, got none; list Known and Learned layers, "
                "the one that takes the input first"
            )
        for layer in self.layers:
            if not isinstance(layer, Known | Learned):
                raise KoriskError(f"layers must be Known or Learned, got {shown(layer)}")
        seen: set[str] = set()
        for layer in self.layers:
            if layer.name in seen:
                raise KoriskError(
                    f"layer names must differ, got {layer.name!r} twice; rename one of them"
                )
            seen.add(layer.name)
        if self.name:
            _checks.name("network name", self.name, remedy="give a short title, or none")
        for composition in self.compositions:
            first, last = self.index(composition.first), self.index(composition.last)
            if first >= last:
                raise KoriskError(
                    f"composition must run from an earlier to a later layer, got "
                    f"{composition.first!r} to {composition.last!r}; name the input side first"
                )

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __getitem__(self, name: str) -> Layer:
        return self.layers[self.index(name)]

    def __repr__(self) -> str:
        parts = [repr(list(self.layers))]
        if self.compositions:
            parts.append(f"compositions={list(self.compositions)!r}")
        if self.name:
            parts.append(f"name={self.name!r}")
        return f"Network({', '.join(parts)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The layers' names, input side first."""
        return tuple(layer.name for layer in self.layers)

    @property
    def learned(self) -> tuple[Learned, ...]:
        """The learned layers, the index set L of Theorem (thm:deep-risk)."""
        return tuple(layer for layer in self.layers if isinstance(layer, Learned))

    @property
    def parameters(self) -> int | None:
        """How many different parameters are learned; None where a layer does not tell."""
        counts = [
            None if layer.parameters is None else layer.parameters - layer.shared
            for layer in self.learned
        ]
        return None if None in counts else sum(filter(None, counts))

    def index(self, name: str) -> int:
        """The position of a layer, from 0.

        A name that no layer has raises `KoriskError`.
        """
        if name not in self.names:
            hint = did_you_mean(str(name), self.names)
            raise KoriskError(f"there is no layer {shown(name)} in this network{hint}")
        return self.names.index(name)

    def tails(self, bound: BoundForm = "composed") -> FloatArray:
        """P_l for every layer l: infinite where a Lipschitz constant further on is not known.

        Shape (L,). P_l is a Lipschitz constant of everything behind layer l, and 1 for the last
        layer.

        >>> import korisk as kr
        >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=2)]
        >>> net = kr.Network(layers)
        >>> net.tails().tolist()
        [6.0, 2.0, 1.0]
        """
        _checks.one_of("bound", bound, BOUNDS)
        singles = [layer.bracket.upper for layer in self.layers]
        if bound == "composed":
            return composed_tails(singles, self._segments)
        return tail_products(singles)

    def amplification(self, bound: BoundForm = "composed") -> FloatArray:
        """A_l, shape (L,): what one unit of squared error at layer l can become at the output.

        `paper` is Eq. (eq:Al); `minkowski` is P_l^2 with products of constants, Eq. (eq:minkowski);
        `composed` is P_l^2 with the constants of composed tails where the network knows them,
        Eq. (eq:composed).

        >>> import korisk as kr
        >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=2)]
        >>> net = kr.Network(layers)
        >>> net.amplification("paper").tolist(), net.amplification("minkowski").tolist()
        ([144.0, 16.0, 2.0], [36.0, 4.0, 1.0])
        """
        tails = self.tails(bound)
        return paper_amplification(tails) if bound == "paper" else minkowski_amplification(tails)

    def lipschitz(self, bound: BoundForm = "composed") -> float:
        """An upper bound of the network's own Lipschitz constant, Lemma (lem:lip).

        Infinite where a layer's constant is not known.

        >>> import korisk as kr
        >>> kr.Network([kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=2)]).lipschitz()
        6.0
        """
        # A layer put in front makes the whole network a tail.
        _checks.one_of("bound", bound, BOUNDS)
        segments = self._segments if bound == "composed" else {}
        shifted = {(first + 1, last + 1): value for (first, last), value in segments.items()}
        singles = [1.0, *(layer.bracket.upper for layer in self.layers)]
        return float(composed_tails(singles, shifted)[0])

    @cached_property
    def _segments(self) -> Segments:
        segments = _composed_operators(self.layers)
        for part in self.compositions:
            run = self.index(part.first), self.index(part.last)
            segments[run] = min(segments.get(run, np.inf), part.bracket.upper)
        return segments

    def replace(self, name: str, *layers: Layer) -> Network:
        """The network with layer `name` replaced, by default by the same map as a known operator.

        That default is Corollary (cor:known): û_m = u_m, nothing else changes. A layer of the same
        name counts as the same map too if its constant is the same, or was not known before.
        Compositions that run over the layer are kept for the same map, and dropped for another.
        Parameters that it shares with later layers are counted at the next of them from then on.

        >>> import korisk as kr
        >>> net = kr.Network([kr.Learned("W", parameters=10), kr.Learned("B", lipschitz=2)])
        >>> net.replace("B")
        Network([Learned('W', parameters=10), Known('B', lipschitz=2.0)])
        >>> net.replace("B", kr.Known("K", lipschitz=3), kr.Known("A^T", lipschitz=1)).names
        ('W', 'K', 'A^T')
        """
        at = self.index(name)
        old = self.layers[at]
        new = layers or (Known(old.name, lipschitz=old.lipschitz),)
        kept = (
            part
            for part in self.compositions
            if _same_map(old, new) or not self.index(part.first) <= at <= self.index(part.last)
        )
        later = _recounted(self.layers, at, new)
        return Network((*self.layers[:at], *new, *later), compositions=kept, name=self.name)

    def savings(
        self, name: str, *, bound: BoundForm = "composed", effective: bool = False
    ) -> Savings:
        """What the bound loses when layer `name` becomes a known operator.

        >>> import korisk as kr
        >>> net = kr.Network([kr.Learned("W", parameters=10),
        ...                   kr.Learned("B", parameters=1000, lipschitz=2)])
        >>> saved = net.savings("B", bound="paper")
        >>> round(saved.total(1000), 3), saved.approximation
        (13.816, 0.0)
        """
        from korisk.theory.savings import Savings

        after = self.replace(name)
        return Savings(before=self, after=after, bound=bound, effective=effective)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Network:
        """The network that a YAML file describes; see docs/reference/network-file.md for its keys.

        A file that cannot be read, or that says something else, raises `KoriskError`.

        >>> import korisk as kr
        >>> net = kr.Network([kr.Learned("W", parameters=10), kr.Known("K", lipschitz=2)])
        >>> net.write("network.yaml")
        >>> kr.Network.read("network.yaml") == net
        True
        """
        from korisk.theory.network_file import read_network

        return read_network(path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the network as YAML; operators are written as the brackets they give."""
        from korisk.theory.network_file import write_network

        write_network(self, path)


def _recounted(layers: Sequence[Layer], at: int, new: Sequence[Layer]) -> list[Layer]:
    """The layers behind a replaced one, whose `shared` parameters may be first used there now.

    A layer of the same name and a number, as `describe` writes a second use, takes over what the
    replaced one was first to use. Otherwise no layer shares more than the layers before it have.
    """
    old, later = layers[at], list(layers[at + 1 :])
    if not isinstance(old, Learned) or any(isinstance(layer, Learned) for layer in new):
        return later
    left = _own(old)
    before = sum(map(_own, layers[:at]))
    for place, layer in enumerate(later):
        if isinstance(layer, Learned) and layer.shared:
            again = _without_number(layer.name) == _without_number(old.name)
            falls = int(min(left, layer.shared)) if again else 0
            left -= falls
            shared = layer.shared - falls
            if math.isfinite(before):
                shared = min(shared, int(before))
            later[place] = replace(layer, shared=shared)
        before += _own(later[place])
    return later


def _without_number(name: str) -> str:
    return re.sub(r" \(\d+\)$", "", name)


def _own(layer: Layer) -> float:
    """How many parameters a layer is the first to use; infinite where it does not tell."""
    if not isinstance(layer, Learned):
        return 0
    return math.inf if layer.parameters is None else layer.parameters - layer.shared


def _same_map(old: Layer, new: Sequence[Layer]) -> bool:
    if len(new) != 1 or new[0].name != old.name:
        return False
    before, after = old.lipschitz, new[0].lipschitz
    if before is None or after is before:
        return True
    plain = float | NormBracket  # operators may not be comparable: only the same one is the same
    return isinstance(before, plain) and isinstance(after, plain) and before == after


def _composed_operators(layers: Sequence[Layer]) -> dict[tuple[int, int], float]:
    """Norms of products of consecutive operators, from each layer to the end of its run."""
    segments: dict[tuple[int, int], float] = {}
    product: Any = None
    for first in range(len(layers) - 1, -1, -1):
        operator = layers[first].lipschitz
        if not _composable(operator):
            product = None
        elif product is None:
            product, last = operator, first
        else:
            product = product @ operator
            bracket = resolve(f"layers {layers[first].name!r} to {layers[last].name!r}", product)
            segments[first, last] = bracket.upper
    return segments


def _composable(value: Lipschitz) -> bool:
    return isinstance(value, HasNorm) and hasattr(value, "__matmul__")
