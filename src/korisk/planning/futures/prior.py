"""The prior over learning curves, one for every metric and unit.

Broad curves, most of which level off, and plain power laws, most of which do not. Nothing is
learned from a file: published curves end where their owners stopped, so a prior learned from some
experimenters' curves does not fit those of others. Which priors were tried, and how each scored on
databases that were left out: docs/explanation/planner.md.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from korisk.curves.noise import ONE_SEED


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A component of the prior: log-normal rates b, beta-distributed floors phi."""

    weight: float
    rate_median: float
    rate_spread: float  # of log b
    no_floor: float  # probability that phi is zero
    floor_shape: tuple[float, float]  # of the beta law of phi otherwise
    drift_weights: tuple[float, ...]  # of `Prior.drifts`
    shift_weights: tuple[float, ...]  # of `Prior.shifts`,
    cap_weights: tuple[float, ...]  # and of `Prior.caps`


@dataclass(frozen=True, kw_only=True)
class Prior:
    """A prior over learning curves: a mixture of kinds on a grid of parameters."""

    kinds: tuple[Kind, ...]
    drifts: tuple[float, ...] = (1e-3, 0.003, 0.01, 0.03, 0.06, 0.12, 0.24)  # tau per doubling
    shifts: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)  # s, with c = 0
    caps: tuple[float, ...] = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85)  # c, with s = 0
    stretches: tuple[float, ...] = (0.8, 3.0)  # of tau beyond the pilot
    stretch_weights: tuple[float, ...] = (0.8, 0.2)
    growth: float = 1.1  # exponent of the doublings over which the drift's variance adds up
    least_noise: float = 1e-5  # of a mean, relative: seeds that agree exactly are still rounded
    # For pilots of single seeds, whose noise is not known: equally likely factors of the usual one.
    noises: tuple[float, ...] = tuple(factor * ONE_SEED for factor in (0.1, 0.3, 1.0, 3.0))


BROAD = Kind(
    weight=0.7,
    rate_median=0.8,
    rate_spread=0.5,
    no_floor=0.1,
    floor_shape=(2.0, 0.8),
    drift_weights=(0.02, 0.03, 0.15, 0.3, 0.25, 0.2, 0.05),
    shift_weights=(0.2, 0.06, 0.13, 0.16, 0.06, 0.12),
    cap_weights=(0.045, 0.08, 0.08, 0.045, 0.05, 0.03),
)
SLOW = replace(BROAD, rate_median=0.7, rate_spread=0.35)  # in the place of BROAD at large N
PLAIN = Kind(
    weight=0.3,
    rate_median=0.5,
    rate_spread=0.5,
    no_floor=0.7,
    floor_shape=(1.0, 1.0),
    drift_weights=(0.03, 0.07, 0.3, 0.4, 0.15, 0.03, 0.02),
    shift_weights=(0.8, 0.02, 0.02, 0.02, 0.02, 0.02),
    cap_weights=(0.02, 0.02, 0.02, 0.02, 0.01, 0.01),
)
PRIOR = Prior(kinds=(BROAD, PLAIN))  # of pilots to N = 4,096
_SMALL, _LARGE = 12.0, 20.0  # log2 of the N between which SLOW takes the place of BROAD


@lru_cache(maxsize=64)
def prior_at(last: float) -> Prior:
    """The prior of a pilot to this N: steep power laws slow down where N is large."""
    slow = min(max((math.log2(last) - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    if not slow:
        return PRIOR
    kinds = [replace(SLOW, weight=slow * BROAD.weight), PLAIN]
    if slow < 1:
        kinds = [replace(BROAD, weight=(1 - slow) * BROAD.weight), *kinds]
    return replace(PRIOR, kinds=tuple(kinds))
