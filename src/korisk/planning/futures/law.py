"""Laws of the log error at several sizes: mixtures of normal laws, and their quantiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLOSE = 1e-7  # of a logarithm
_STEPS = 60  # at most; some ten are taken
_FAR = 9.0  # half-width of the search bracket, in standard deviations
_RARE = 1e-15


@dataclass(frozen=True, eq=False)
class Law:
    """The law of the log error at each of M sizes."""

    under: Callable[[Array], Array]  # (M,) the probability of each being at most the one given
    low: Array  # (M,) below which it is never,
    high: Array  # (M,) and above which it is never

    def quantile(self, p: float) -> Array:
        """(M,) the log error at each size that is undercut with probability p.

        A secant search on the normal quantile of the probability, which is nearly a straight line
        of the log error, kept within a bracket that every step narrows.
        """
        from scipy.special import ndtri

        aim = float(ndtri(p))
        low, high = self.low.copy(), self.high.copy()
        below, above = np.full((2, len(low)), float(ndtri(_RARE)))
        above = -above
        at = 0.5 * (low + high)
        for step in range(_STEPS):
            score = ndtri(np.clip(self.under(at), _RARE, 1 - _RARE))
            short = score < aim
            low, below = np.where(short, at, low), np.where(short, score, below)
            high, above = np.where(short, high, at), np.where(short, above, score)
            with np.errstate(divide="ignore", invalid="ignore"):
                part = (aim - below) / (above - below)
            part = np.where(np.isfinite(part), np.clip(part, 0.02, 0.98), 0.5)
            # Every third step halves the bracket: a secant alone may creep along one end.
            following = low + (0.5 if step % 3 == 2 else part) * (high - low)
            if np.abs(following - at).max() < _CLOSE or (high - low).max() < _CLOSE:
                return np.asarray(following)
            at = following
        return np.asarray(at)


def normals(weight: Array, mean: Array, deviation: Array) -> Law:
    """Mixtures of normal laws: weights (P,) or (P, M), means and deviations (P, M)."""
    from scipy.special import ndtr

    deviation = np.maximum(deviation, 1e-12)
    axes = "p,pm->m" if weight.ndim == 1 else "pm,pm->m"

    def under(log_error: Array) -> Array:
        with np.errstate(under="ignore"):
            found = np.einsum(axes, weight, ndtr((log_error - mean) / deviation))
        return np.asarray(np.clip(found, 0.0, 1.0))

    far = _FAR * deviation
    return Law(under, (mean - far).min(axis=0), (mean + far).max(axis=0))


def turned(p: Array, offset: float, slope: float) -> Array:
    """Phi(offset + slope Phi^-1(p)): probabilities recalibrated, growing with p."""
    from scipy.special import ndtr, ndtri

    return np.asarray(ndtr(offset + slope * ndtri(np.clip(p, _RARE, 1 - _RARE))))


def recalibrated(law: Law, offset: float, slope: float) -> Law:
    """The same law with its probabilities `turned`; what was monotone in the error stays so."""
    if (offset, slope) == (0.0, 1.0):
        return law
    return Law(lambda error: turned(law.under(error), offset, slope), law.low, law.high)


def mixed(shares: Sequence[float], laws: Sequence[Law]) -> Law:
    """A mixture of several laws at the same sizes; the shares add up to one."""
    if len(laws) == 1:
        return laws[0]

    def under(log_error: Array) -> Array:
        parts = (share * law.under(log_error) for share, law in zip(shares, laws, strict=True))
        return np.asarray(sum(parts))

    low = np.min([law.low for law in laws], axis=0)
    return Law(under, low, np.max([law.high for law in laws], axis=0))


def joined(inside: NDArray[np.bool_], first: Law, second: Law) -> Law:
    """The first law at the sizes that lie inside, the second at the others, in their order."""

    def put(one: Array, other: Array) -> Array:
        values = np.empty(len(inside))
        values[inside], values[~inside] = one, other
        return values

    def under(log_error: Array) -> Array:
        return put(first.under(log_error[inside]), second.under(log_error[~inside]))

    return Law(under, put(first.low, second.low), put(first.high, second.high))
