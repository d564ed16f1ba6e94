"""How much an error that enters a network at one layer can grow on its way to the output.

A network is a directed acyclic graph: value 0 is its input, value k that of layer k, and the last
one its output. P_l, "tail" here, is a Lipschitz constant of the output in value l, whatever the
values of the layers before l.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Number = TypeVar("Number", float, Decimal)  # doubles, or as many digits as a question needs
Runs = Mapping[tuple[int, int], Number]  # (source, last): a constant of value `last` in `source`


@dataclass(frozen=True)
class Node(Generic[Number]):
    """A layer as a map of earlier values, with a constant L_(v,u) for each of them.

    `joint` is a constant of all of them as one vector, infinite where none is known.
    """

    inputs: tuple[int, ...]
    constants: tuple[Number, ...]
    joint: Number

    def grown(self, changes: Mapping[int, Number]) -> Number:
        """How far the value can move if some of its inputs move as far as `changes` says."""
        moving = [
            (constant, changes[value])
            for value, constant in zip(self.inputs, self.constants, strict=True)
            if value in changes
        ]
        products = [_times(constant, change) for constant, change in moving]
        total = sum(products[1:], start=products[0])
        if len(moving) == 1:
            return total
        return min(total, _times(self.joint, _root_of_squares([change for _, change in moving])))


def graph_tails(nodes: Sequence[Node[Number]], runs: Runs[Number], unit: Number) -> list[Number]:
    """The constant of the whole network, then P_l for each layer, Eq. (eq:blocks): (1 + L,).

    Between a value u and the next one that all ways from u to the output lead through lies a block;
    P_u is the block's constant times P there. Inside a block, changes add up over all paths,
    Eq. (eq:paths), or less where more is known: a layer's `joint` constant, and `runs`, which hold
    for all paths from one value to another. In a chain every block is one layer, and this is
    Eq. (eq:cuts), or without runs the product of Eq. (eq:lip-prod) in Lemma (lem:lip). `unit` is
    the number 1: all numbers are of its kind.
    """
    last = len(nodes)
    users: list[list[int]] = [[] for _ in range(last + 1)]
    for value, node in enumerate(nodes, start=1):
        for given in node.inputs:
            users[given].append(value)
    ends: dict[int, list[int]] = {}  # sources of runs, by their last value
    for source, end in runs:
        ends.setdefault(end, []).append(source)
    after = [last] * (last + 1)  # the next value that all ways lead through
    tails = [unit] * (last + 1)
    for start in range(last - 1, -1, -1):
        meeting = users[start][0]
        for other in users[start][1:]:
            while meeting != other:
                if meeting < other:
                    meeting = after[meeting]
                else:
                    other = after[other]
        after[start] = meeting
        found = [_times(_block(nodes, runs, ends, start, meeting, unit), tails[meeting])]
        while meeting < last:  # runs over several blocks
            meeting = after[meeting]
            if (start, meeting) in runs:
                found.append(_times(runs[start, meeting], tails[meeting]))
        tails[start] = min(found)
    return tails


def _block(
    nodes: Sequence[Node[Number]],
    runs: Runs[Number],
    ends: Mapping[int, Iterable[int]],
    start: int,
    end: int,
    unit: Number,
) -> Number:
    """A constant of value `end` in value `start`, by all paths between them."""
    changes = {start: unit}
    through = {start: 1 << start}  # as bits: the values that all paths from start lead through
    for value in range(start + 1, end + 1):
        moving = [given for given in nodes[value - 1].inputs if given in changes]
        if not moving:
            continue
        common = -1
        for given in moving:
            common &= through[given]
        through[value] = common | 1 << value
        grown = nodes[value - 1].grown(changes)
        for source in ends.get(value, ()):
            if source in changes and common >> source & 1:
                grown = min(grown, _times(runs[source, value], changes[source]))
        changes[value] = grown
    return changes[end]


def _times(one: Number, other: Number) -> Number:
    """The product; a constant map forgets every error, even one whose growth is not known (inf)."""
    if one == 0 or other == 0:
        return one if one == 0 else other
    return one * other


def _root_of_squares(values: Sequence[Number]) -> Number:
    """The length of a vector with these entries."""
    if isinstance(values[0], float):
        return math.hypot(*values)
    squares = [value * value for value in values]
    return sum(squares[1:], start=squares[0]).sqrt()


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
