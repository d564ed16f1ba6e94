"""How much an error that enters at layer l can grow on its way to the output.

Everything here works on plain arrays over the layers l = 1 ... L. `tails` holds P_l, a Lipschitz
constant of the true tail u_L o ... o u_{l+1}; P_L = 1, because nothing follows the last layer.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

BoundForm = Literal["paper", "minkowski", "composed"]
BOUNDS: tuple[BoundForm, ...] = get_args(BoundForm)

FloatArray = NDArray[np.float64]
Segments = Mapping[tuple[int, int], float]


def tail_products(lipschitz: Sequence[float]) -> FloatArray:
    """P_l = prod_{j>l} l_j, Eq. (eq:lip-prod) of Lemma (lem:lip), for every tail."""
    return composed_tails(lipschitz, {})


def composed_tails(lipschitz: Sequence[float], segments: Segments) -> FloatArray:
    """P_l of Eq. (eq:cuts), where constants of runs of layers are known beside those of layers.

    `segments[first, last]` is a Lipschitz constant of u_last o ... o u_first (indices from 0). A
    tail may be cut into known runs in several ways; each way gives a valid product, and the
    smallest is taken.
    """
    layers = len(lipschitz)
    tails = np.ones(layers + 1)
    ends: list[list[tuple[int, float]]] = [[(j, constant)] for j, constant in enumerate(lipschitz)]
    for (first, last), constant in segments.items():
        ends[first].append((last, constant))
    for start in range(layers - 1, 0, -1):
        tails[start] = min(
            _times(constant, float(tails[last + 1])) for last, constant in ends[start]
        )
    return tails[1:]


def paper_exponents(layers: int) -> NDArray[np.int64]:
    """The powers of two in Eq. (eq:Al), shape (L,): L-1 for the first layer, L-l+1 for others."""
    exponents = layers - np.arange(1, layers + 1) + 1
    exponents[0] = layers - 1
    return exponents


def paper_amplification(tails: FloatArray) -> FloatArray:
    """A_l of Eq. (eq:Al): 2^{L-1} P_1^2 for the first layer, 2^{L-l+1} P_l^2 for the others."""
    return times_power_of_two(tails, paper_exponents(len(tails)))


def times_power_of_two(roots: FloatArray, exponents: NDArray[np.int64]) -> FloatArray:
    """2^exponent root^2, scaled before it is squared so that deep networks stay in range."""
    with np.errstate(over="ignore", under="ignore"):
        return np.square(np.ldexp(roots, exponents // 2)) * (1 + exponents % 2)


def minkowski_amplification(tails: FloatArray) -> FloatArray:
    """P_l^2, Eq. (eq:minkowski) where one layer errs alone; several: `bound.minkowski_risk`."""
    with np.errstate(over="ignore", under="ignore"):
        return np.square(tails)


def _times(constant: float, tail: float) -> float:
    # A constant map forgets every error, even one whose growth further on is not known (infinite).
    return 0.0 if constant == 0 or tail == 0 else constant * tail
