"""Priors over learning curves, one for each kind of metric.

The prior of squared errors (mse, rmse, psnr) was learned from imaging networks, that of rates
(accuracy, error rates, Dice) from LCDB, that of losses from published curves of large networks, and
all from simulated power laws with and without floors, by benchmarks/planner/prior.py, on curves
that no reported figure uses. A pilot of an unknown metric gets the mixture of all three.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


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
    stretches: tuple[float, ...] = (1.0, 3.9)  # of tau beyond the pilot
    stretch_weights: tuple[float, ...] = (0.84, 0.16)
    growth: float = 1.1  # exponent of the doublings over which the drift's variance adds up
    # Offset and slope of normal scores, which recalibrate probabilities beyond the pilot. Set on
    # curves that no reported figure uses: docs/explanation/planner.md, "Do odds come true?".
    recalibration: tuple[float, float] = (0.0, 1.0)
    least_noise: float = 1e-5  # of a mean, relative: seeds that agree exactly are still rounded
    noises: tuple[float, ...] = (1e-4, 1e-3, 0.003, 0.01, 0.03, 0.08)  # for pilots of single seeds


# Plain power laws, most of them without a floor, have a fixed share of every prior and are not
# learned. Published curves end where their owners stopped, mostly on a floor; learned from them
# alone, a curve without a floor would be so rare that no pilot could show one.
SHARES = {"squares": 0.15, "rates": 0.25, "losses": 0.25, "mixture": 0.25}
RECALIBRATION = {
    "squares": (-0.12, 1.05),
    "rates": (0.1, 0.95),
    "losses": (-0.1, 1.05),
    "mixture": (0, 1),
}
# korisk is used for images most: a metric without a name is twice as likely a squared error.
_FAMILIES = {"squares": 2.0, "rates": 1.0, "losses": 1.0}
PLAIN = Kind(
    weight=1.0,
    rate_median=0.5,
    rate_spread=0.5,
    no_floor=0.7,
    floor_shape=(1.0, 1.0),
    drift_weights=(0.03, 0.07, 0.3, 0.4, 0.15, 0.03, 0.02),
    shift_weights=(0.8, 0.02, 0.02, 0.02, 0.02, 0.02),
    cap_weights=(0.02, 0.02, 0.02, 0.02, 0.01, 0.01),
)


def _learned() -> dict[str, tuple[Kind, ...]]:
    """For each kind of metric, the components that benchmarks/planner/prior.py learned."""
    content = json.loads(Path(__file__).with_name("prior.json").read_text(encoding="utf-8"))

    def kind(fields: dict[str, Any]) -> Kind:  # with tuples, so that it can be hashed
        lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        return Kind(**fields | lists)

    return {name: tuple(map(kind, kinds)) for name, kinds in content.items()}


def _with_plain(name: str, kinds: Sequence[Kind]) -> Prior:
    """A prior of learned kinds and of plain power laws."""
    total = sum(kind.weight for kind in kinds) / (1 - SHARES[name])
    scaled = [replace(kind, weight=kind.weight / total) for kind in kinds]
    plain = replace(PLAIN, weight=SHARES[name])
    return Prior(kinds=(*scaled, plain), recalibration=RECALIBRATION[name])


LEARNED = _learned()
PRIORS = {name: _with_plain(name, kinds) for name, kinds in LEARNED.items()}
PRIOR = _with_plain(
    "mixture",
    [
        replace(kind, weight=_FAMILIES[name] * kind.weight)
        for name, kinds in LEARNED.items()
        for kind in kinds
    ],
)
