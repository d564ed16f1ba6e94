"""A network as data: layers in order, what is known of runs of them, and how errors grow in it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.theory.bracket import HasNorm, NormBracket, set_fields
from korisk.theory.layer import Composition, Known, Layer, Learned, resolve

BoundForm = Literal["paper", "minkowski", "composed"]
BOUNDS: tuple[BoundForm, ...] = get_args(BoundForm)

FloatArray = NDArray[np.float64]
Segments = Mapping[tuple[int, int], float]


# --- How much an error that enters at layer l can grow on its way to the output ------------------
# Arrays run over the layers l = 1 ... L. `tails` holds P_l, a Lipschitz constant of the true tail
# u_L o ... o u_{l+1}; P_L = 1, because nothing follows the last layer.


def composed_tails(lipschitz: Sequence[float], segments: Segments) -> FloatArray:
    """The constant of the whole network, then P_l of Eq. (eq:cuts) for each layer: (1 + L,).

    Constants of runs of layers are known beside those of layers: `segments[first, last]` is a
    Lipschitz constant of u_last o ... o u_first (indices from 0). A tail may be cut into known runs
    in several ways; each way gives a valid product, and the smallest is taken. Without segments it
    is P_l = prod_{j>l} l_j, Eq. (eq:lip-prod) of Lemma (lem:lip).
    """
    layers = len(lipschitz)
    tails = np.ones(layers + 1)
    ends: list[list[tuple[int, float]]] = [[(j, constant)] for j, constant in enumerate(lipschitz)]
    for (first, last), constant in segments.items():
        ends[first].append((last, constant))
    for start in range(layers - 1, -1, -1):
        # A constant map forgets every error, even one whose growth further on is not known (inf).
        tails[start] = min(
            0.0 if 0 in (constant, tails[last + 1]) else constant * float(tails[last + 1])
            for last, constant in ends[start]
        )
    return tails


def paper_exponents(layers: int) -> NDArray[np.int64]:
    """The powers of two in Eq. (eq:Al), shape (L,): L-1 for the first layer, L-l+1 for others."""
    exponents = layers - np.arange(1, layers + 1) + 1
    exponents[0] = layers - 1
    return exponents


def paper_amplification(roots: FloatArray) -> FloatArray:
    """A_l of Eq. (eq:Al): 2^{L-1} P_1^2 for the first layer, 2^{L-l+1} P_l^2 for the others.

    The roots are P_l, or P_l sqrt(r_l) for the terms of the bound. They are scaled before they are
    squared, so that deep networks stay in range.
    """
    exponents = paper_exponents(len(roots))
    with np.errstate(over="ignore", under="ignore"):
        return np.square(np.ldexp(roots, exponents // 2)) * (1 + exponents % 2)


# --- The network ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Network:
    """f_L = u_L o ... o u_1 (eq:target), each layer known or learned, input side first.

    `net["K"]` is a layer, `len(net)` is L, and a network is a value: `replace` gives another one.

    Parameters
    ----------
    layers : iterable of Known and Learned
        At least one, of different names, the one that takes the input first.
    compositions : iterable of Composition, default ()
        Constants of runs of layers, where those are known better than by their products.
    name : str, default ""
        A title.

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
    """

    layers: tuple[Layer, ...]
    _: KW_ONLY
    compositions: tuple[Composition, ...] = ()
    name: str = ""

    def __init__(
        self, layers: Iterable[Layer], *, compositions: Iterable[Composition] = (), name: str = ""
    ) -> None:
        set_fields(self, layers=tuple(layers), compositions=tuple(compositions), name=name)
        if not self.layers:
            raise KoriskError(
                "layers must hold at least one layer, got none; list Known and Learned layers, "
                "the one that takes the input first"
            )
        seen: set[str] = set()
        for layer in self.layers:
            if not isinstance(layer, Known | Learned):
                raise KoriskError(f"layers must be Known or Learned, got {shown(layer)}")
            if layer.name in seen:
                raise KoriskError(
                    f"layer names must differ, got {layer.name!r} twice; rename one of them"
                )
            seen.add(layer.name)
        if self.name:
            _checks.name("network name", self.name, remedy="give a short title, or none")
        for part in self.compositions:
            if self.index(part.first) >= self.index(part.last):
                raise KoriskError(
                    f"composition must run from an earlier to a later layer, got "
                    f"{part.first!r} to {part.last!r}; name the input side first"
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

    def tails(self, bound: BoundForm = "composed") -> FloatArray:
        """P_l for every layer l: infinite where a Lipschitz constant further on is not known.

        Parameters
        ----------
        bound : {"composed", "minkowski", "paper"}, default "composed"
            "composed" uses constants of runs of layers where they are known.

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
        _checks.one_of("bound", bound, BOUNDS)
        singles = [layer.bracket.upper for layer in self.layers]
        return composed_tails(singles, self._segments if bound == "composed" else {})

    @cached_property
    def _segments(self) -> Segments:
        """Constants of runs of layers, the smallest where several are known."""
        segments: dict[tuple[int, int], float] = {}
        for part in self._runs:
            run = self.index(part.first), self.index(part.last)
            segments[run] = min(segments.get(run, np.inf), part.bracket.upper)
        return segments

    @cached_property
    def _runs(self) -> tuple[Composition, ...]:
        """What was stated of runs of layers, and norms of products of consecutive operators."""
        found = list(self.compositions)
        product: Any = None
        last = ""
        for layer in reversed(self.layers):
            operator: Any = layer.lipschitz
            if not (isinstance(operator, HasNorm) and hasattr(operator, "__matmul__")):
                product = None
            elif product is None:
                product, last = operator, layer.name
            else:
                product = product @ operator
                where = f"layers {layer.name!r} to {last!r}"
                norm = resolve(where, product)
                found.append(Composition(layer.name, last, lipschitz=norm))
        return tuple(found)

    def replace(self, name: str, *layers: Layer) -> Network:
        """The network with layer `name` replaced, by default by the same map as a known operator.

        That default is Corollary (cor:known): û_m = u_m, nothing else changes. A layer of the same
        name counts as the same map too if its constant is the same, or was not known before.
        Compositions that run over the layer are kept for the same map, and dropped for another.
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
        new = layers or (Known(old.name, lipschitz=old.lipschitz),)
        kept = (
            part
            for part in self.compositions
            if _same_map(old, new) or not self.index(part.first) <= at <= self.index(part.last)
        )
        later = _recounted(self.layers, at, new)
        return Network((*self.layers[:at], *new, *later), compositions=kept, name=self.name)

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
            return Network(layers, compositions=compositions, name=entry.name)
        except KoriskError as error:
            raise KoriskError(f"{source}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The network as plain values, in the shape of the file.

        Operators and runs of them are asked for their norms.

        Returns
        -------
        dict
            Values for YAML or JSON.
        """
        from korisk.theory.network_file import entries

        return entries(self.layers, self._runs, self.name)


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


def _same_map(old: Layer, new: Sequence[Layer]) -> bool:
    if len(new) != 1 or new[0].name != old.name:
        return False
    before, after = old.lipschitz, new[0].lipschitz
    if before is None or after is before:
        return True
    plain = float | NormBracket  # operators may not be comparable: only the same one is the same
    return isinstance(before, plain) and isinstance(after, plain) and before == after
