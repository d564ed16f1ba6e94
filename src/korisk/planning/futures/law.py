"""Distributions of the log error at several sizes: mixtures of normal laws, and quantiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLOSE = 1e-7  # tolerance of a quantile, in the log error
_STEPS = 60  # at most; about ten are needed
_FAR = 9.0  # half-width of the search bracket, in standard deviations
_RARE = 1e-15  # probabilities are clipped to this distance from 0 and 1, where scores diverge


@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of the log error at each of M sizes."""

    under: Callable[[Array], Array]  # cumulative distribution: (M,) log errors to probabilities
    low: Array  # (M,) lower end of the support
    high: Array  # (M,) upper end of the support

    def quantile(self, p: float) -> Array:
        """(M,) the p-quantile of the log error at each size, by a secant search."""
        from scipy.special import ndtri

        # Scores at the ends of the bracket are unknown: start from the largest that occur.
        aim = float(ndtri(p))
        low, high = self.low.copy(), self.high.copy()
        below, above = np.full((2, len(low)), float(ndtri(_RARE)))
        above = -above
        trial = 0.5 * (low + high)
        for step in range(_STEPS):
            score = ndtri(np.clip(self.under(trial), _RARE, 1 - _RARE))
            short = score < aim
            low, below = np.where(short, trial, low), np.where(short, score, below)
            high, above = np.where(short, high, trial), np.where(short, above, score)
            with np.errstate(divide="ignore", invalid="ignore"):
                fraction = (aim - below) / (above - below)
            fraction = np.where(np.isfinite(fraction), np.clip(fraction, 0.02, 0.98), 0.5)
            # Every third step bisects, because a secant alone may creep along one end.
            next_trial = low + (0.5 if step % 3 == 2 else fraction) * (high - low)
            if np.abs(next_trial - trial).max() < _CLOSE or (high - low).max() < _CLOSE:
                return np.asarray(next_trial)
            trial = next_trial
        return np.asarray(trial)


def normals(weight: Array, mean: Array, deviation: Array) -> Law:
    """Mixtures of normal laws: weights (P,), means and deviations (P, M)."""
    from scipy.special import ndtr

    # A deviation of zero is a step, which ndtr would divide by.
    deviation = np.maximum(deviation, 1e-12)

    def under(log_error: Array) -> Array:
        with np.errstate(under="ignore"):
            probability = np.einsum("p,pm->m", weight, ndtr((log_error - mean) / deviation))
        return np.asarray(np.clip(probability, 0.0, 1.0))

    far = _FAR * deviation
    return Law(under, (mean - far).min(axis=0), (mean + far).max(axis=0))


def mixed(shares: Sequence[float], laws: Sequence[Law]) -> Law:
    """The mixture of several laws at the same sizes; the shares add up to one."""
    if len(laws) == 1:
        return laws[0]

    def under(log_error: Array) -> Array:
        parts = (share * law.under(log_error) for share, law in zip(shares, laws, strict=True))
        return np.asarray(sum(parts))

    low = np.min([law.low for law in laws], axis=0)
    return Law(under, low, np.max([law.high for law in laws], axis=0))


def joined(inside: NDArray[np.bool_], first: Law, second: Law) -> Law:
    """The first law at the sizes that are inside, the second at the others, in order."""

    def put(inside_values: Array, outside_values: Array) -> Array:
        values = np.empty(len(inside))
        values[inside], values[~inside] = inside_values, outside_values
        return values

    def under(log_error: Array) -> Array:
        return put(first.under(log_error[inside]), second.under(log_error[~inside]))

    return Law(under, put(first.low, second.low), put(first.high, second.high))
