"""How much an error that enters a network at one layer can grow on its way to the output.

A network is a directed acyclic graph: value 0 is its input, value k the output of layer k, and the
last value its output. P_l, here called a tail, is a Lipschitz constant of the network's output in
value l, for any values of the layers before l.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Number = TypeVar("Number", float, Decimal)  # doubles, or decimals with as many digits as needed
Runs = Mapping[tuple[int, int], Number]  # (source, last): a constant of value `last` in `source`


@dataclass(frozen=True)
class Node(Generic[Number]):
    """A layer as a map of earlier values, with a Lipschitz constant L_(v,u) in each of them.

    `joint` is a constant in all of them as one vector, infinite if none is known.
    """

    inputs: tuple[int, ...]
    constants: tuple[Number, ...]
    joint: Number

    def grown(self, changes: Mapping[int, Number]) -> Number:
        """A bound of the value's change, given those of its inputs, Eq. (eq:graph)."""
        moving = [
            (constant, changes[value])
            for value, constant in zip(self.inputs, self.constants, strict=True)
            if value in changes
        ]
        products = [_times(constant, change) for constant, change in moving]
        total = sum(products[1:], start=products[0])
        if len(moving) == 1:
            return total
        # The joint constant bounds the change by the length of the inputs' changes as a vector.
        return min(total, _times(self.joint, _root_of_squares([change for _, change in moving])))


def graph_tails(nodes: Sequence[Node[Number]], runs: Runs[Number], unit: Number) -> list[Number]:
    """(1 + L,) the constant of the whole network, then P_l for each layer, Eq. (eq:blocks).

    A block runs from a value u to its immediate post-dominator, the next value on all paths from u
    to the output; P_u is the block's constant times P of its end. Inside a block, changes add up
    over all paths, Eq. (eq:paths), or to less where a layer has a `joint` constant, or `runs` has
    one for all paths from one value to another. In a chain every block is one layer, and this is
    the best cut into runs, or without runs the product of Eq. (eq:lip-prod) in Lemma (lem:lip).
    `unit` is the number 1, in the type of all numbers.
    """
    # A run from a value to itself does not occur, and the output has no user: P of it is 1.
    last = len(nodes)
    users: list[list[int]] = [[] for _ in range(last + 1)]
    for value, node in enumerate(nodes, start=1):
        for source in node.inputs:
            users[source].append(value)
    ends: dict[int, list[int]] = {}  # sources of runs, by their last value
    for source, end in runs:
        ends.setdefault(end, []).append(source)
    after = [last] * (last + 1)  # the immediate post-dominator of each value
    tails = [unit] * (last + 1)
    # Backward, so that post-dominators and tails of all later values are known.
    for start in range(last - 1, -1, -1):
        # The nearest common ancestor of all users in the tree of post-dominators.
        meeting = users[start][0]
        for user in users[start][1:]:
            # Values are in topological order: the smaller one cannot be the common ancestor.
            while meeting != user:
                if meeting < user:
                    meeting = after[meeting]
                else:
                    user = after[user]
        after[start] = meeting
        candidates = [_times(_block(nodes, runs, ends, start, meeting, unit), tails[meeting])]
        while meeting < last:  # a run may span several blocks, with less than their product
            meeting = after[meeting]
            if (start, meeting) in runs:
                candidates.append(_times(runs[start, meeting], tails[meeting]))
        tails[start] = min(candidates)
    return tails


def _block(
    nodes: Sequence[Node[Number]],
    runs: Runs[Number],
    ends: Mapping[int, Iterable[int]],
    start: int,
    end: int,
    unit: Number,
) -> Number:
    """A constant of value `end` in value `start`, over all paths between them."""
    changes = {start: unit}
    through = {start: 1 << start}  # bit set of the dominators: values on all paths from start
    # Every value between them that depends on `start`, in topological order; others do not move.
    for value in range(start + 1, end + 1):
        moving = [source for source in nodes[value - 1].inputs if source in changes]
        if not moving:
            continue
        common = -1  # all bits set, the neutral element of &
        for source in moving:
            common &= through[source]
        through[value] = common | 1 << value
        grown = nodes[value - 1].grown(changes)
        # A run counts only from a dominator: another path around its source is not in its constant.
        for source in ends.get(value, ()):
            if source in changes and common >> source & 1:
                grown = min(grown, _times(runs[source, value], changes[source]))
        changes[value] = grown
    return changes[end]


def _times(constant: Number, change: Number) -> Number:
    """The product, with 0 * inf = 0: a constant map removes even an unbounded change."""
    if constant == 0 or change == 0:
        return constant if constant == 0 else change
    return constant * change


def _root_of_squares(values: Sequence[Number]) -> Number:
    """Euclidean length of a vector with these entries."""
    if isinstance(values[0], float):
        return math.hypot(*values)  # which neither overflows nor underflows in between
    squares = [value * value for value in values]
    return sum(squares[1:], start=squares[0]).sqrt()


def paper_exponents(layers: int) -> NDArray[np.int64]:
    """(L,) the powers of two in Eq. (eq:Al): L-1 for the first layer, L-l+1 for the others."""
    exponents = layers - np.arange(1, layers + 1) + 1
    exponents[0] = layers - 1
    return exponents


def paper_amplification(roots: FloatArray) -> FloatArray:
    """A_l of Eq. (eq:Al): 2^{L-1} P_1^2 for the first layer, 2^{L-l+1} P_l^2 for the others.

    The roots are P_l, or P_l sqrt(r_l) for the terms of the bound.
    """
    # Scaled before they are squared, so that intermediate values of deep networks do not overflow.
    exponents = paper_exponents(len(roots))
    with np.errstate(over="ignore", under="ignore"):
        return np.square(np.ldexp(roots, exponents // 2)) * (1 + exponents % 2)
