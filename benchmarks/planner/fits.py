"""Fits that korisk does not offer: families of curves and averages that did no better than its own.

They are fitted as korisk fits its families. `line`, `log-power` and `no-floor` are families of
korisk's pooled band; the others are written here.

    line, log-power, no-floor       c + a log N / N, c + a (log N / N)^b, a N^-b
    inverse-log, weibull, mmf       c + a / log N, c + a exp(-k N^b), c + a / (1 + k N^b)
    aic, aic-all                    the average of four or of all eight families by AIC
    envelope                        the smallest c + a log N / N above all means
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import weights
from korisk.planning import fit as korisk_fit
from korisk.planning.chances import first_met, table_sizes
from korisk.planning.fit import (
    KNEE_LIMITS,
    KNEES,
    RATE_LIMITS,
    RATES,
    Family,
    Fits,
    least_squares,
    line_fits,
    target_error,
)
from korisk.planning.forecast import forecast
from korisk.planning.plan import plan

Array = NDArray[np.float64]

AVERAGED = ("line", "power", "no-floor", "log-power")


class Estimates(Protocol):
    """Fits of one kind to B pilots that share their N."""

    @property
    def floor(self) -> Array:
        """(B,) the error that no data removes."""

    def predict(self, n: Array) -> Array:
        """(B, M) the error at M values of N."""


@dataclass(frozen=True)
class Average:
    """Fits of several families, averaged for each pilot with its own weights."""

    parts: tuple[Fits, ...]
    shares: Array  # (families, B)

    @property
    def floor(self) -> Array:
        """(B,) the error that no data removes."""
        return np.asarray(sum(s * p.floor for s, p in zip(self.shares, self.parts, strict=True)))

    def predict(self, n: Array) -> Array:
        """(B, M) the error at M values of N."""
        pairs = zip(self.shares, self.parts, strict=True)
        return np.asarray(sum(share[:, None] * part.predict(n) for share, part in pairs))


def _inverse_log(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    return np.asarray(log_last / (x + log_last))


def _weibull(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    rate, knee = shape  # exp(-knee (N / N_last)^rate)
    return np.asarray(np.exp(-knee * np.expm1(rate * x)))


def _mmf(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    rate, knee = shape  # 1 / (1 + knee (N / N_last)^rate)
    return np.asarray((1.0 + knee) / (1.0 + knee * np.exp(rate * x)))


_OWN = korisk_fit.FAMILIES
FAMILIES: dict[str, Family] = {
    **{name: _OWN[name] for name in ("power", "line", "log-power", "no-floor")},
    "inverse-log": Family("inverse-log", _inverse_log),
    "shifted-power": _OWN["shifted-power"],
    "weibull": Family("weibull", _weibull, (RATES, KNEES), ((0.02, 3.0), (1e-4, 100.0))),
    "mmf": Family("mmf", _mmf, (RATES, KNEES), (RATE_LIMITS, KNEE_LIMITS)),
}
FITS = (
    "posterior",
    "power",
    "paper",
    *(name for name in FAMILIES if name != "power"),
    "aic",
    "aic-all",
    "envelope",
)


def estimate(fit: str, n: Array, errors: Array, weight: Array) -> Estimates:
    """Fit B pilots at once: n (K,), errors (B, K), weight (K,) of the means."""
    if fit == "envelope":
        return envelope(n, errors)
    if fit in ("aic", "aic-all"):
        return _averaged(AVERAGED if fit == "aic" else tuple(FAMILIES), n, errors, weight)
    if fit in FAMILIES:
        return least_squares(FAMILIES[fit], n, errors, weight)
    return korisk_fit.estimate(fit, n, errors, weight)


def samples(curve: Curve, target: float, fit: str) -> int | None:
    """The N at which a fitted curve meets a target, as a plan finds it."""
    if fit in korisk_fit.FITS:
        return plan(curve, target, fit=fit).middle
    made = estimate(fit, curve.sizes.astype(float), curve.means[None, :], weights(curve))
    goal = target_error(curve, target)
    missed = np.flatnonzero(curve.means > goal)
    grid = table_sizes(forecast(curve))
    if len(missed) and missed[-1] >= len(missed):  # met, and missed again later
        grid = grid[grid > curve.sizes[missed[-1]]]
    return first_met(lambda n: made.predict(n)[0], grid, goal)


def envelope(n: Array, errors: Array) -> Fits:
    """The line floor + slope log N / N that lies above all means with the least to spare.

    It touches two means, or one with no floor or no slope: all such lines are tried.
    """
    rate = np.log(n) / n
    first, second = np.triu_indices(len(n), 1)
    gap = rate[first] - rate[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (errors[:, first] - errors[:, second]) / gap
    slope = np.where(np.isfinite(slope), slope, -1.0)
    floor = errors[:, first] - slope * rate[first]
    steep = (errors / rate).max(axis=1, keepdims=True)
    level = errors.max(axis=1, keepdims=True)
    zero = np.zeros_like(level)
    slopes = np.concatenate([slope, steep, zero], axis=1)  # (B, lines)
    floors = np.concatenate([floor, zero, level], axis=1)
    spare = floors[..., None] + slopes[..., None] * rate - errors[:, None, :]
    allowed = (slopes >= 0) & (floors >= 0) & (spare >= -1e-12 * level[..., None]).all(axis=2)
    best = np.argmin(np.where(allowed, spare.sum(axis=2), np.inf), axis=1)
    rows = np.arange(len(errors))
    return line_fits(n, errors, floors[rows, best], slopes[rows, best])


def _averaged(names: tuple[str, ...], n: Array, errors: Array, weight: Array) -> Average:
    fitting = [FAMILIES[name] for name in names if FAMILIES[name].parameters < len(n)]
    parts = tuple(least_squares(family, n, errors, weight) for family in fitting)
    loss = np.array([part.loss for part in parts])
    smallest = 1e-20 * len(n)  # a perfect fit is one to rounding; losses are of unit errors
    parameters = np.array([family.parameters for family in fitting])
    criterion = len(n) * np.log(np.maximum(loss, smallest)) + 2.0 * parameters[:, None]
    shares = np.exp(-0.5 * (criterion - criterion.min(axis=0)))
    return Average(parts, shares / shares.sum(axis=0))
