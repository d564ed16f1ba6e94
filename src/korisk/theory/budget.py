"""From a bound to a sample size: inversion, and the two factors of Proposition (prop:ct-proxy)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext

import numpy as np
from scipy.special import lambertw

from korisk.errors import KoriskError, UnreachableError
from korisk.theory import _checks
from korisk.theory.amplification import Method
from korisk.theory.bound import approximation_risks, estimation_slopes, evaluate, rate
from korisk.theory.network import Network

# log N / N over whole N >= 2 is largest at N = 3, so a bound that holds there holds everywhere.
_LARGEST_RATE = math.log(3) / 3


@dataclass(frozen=True)
class RiskLine:
    """floor + slope log N / N, Eq. (eq:calibrated-bound); the paper writes slope as sigma."""

    floor: float
    slope: float

    def __post_init__(self) -> None:
        for field in ("floor", "slope"):
            value = _checks.real(
                field, getattr(self, field), at_least=0, remedy="both are squared errors"
            )
            object.__setattr__(self, field, value)

    def predict(self, n: float) -> float:
        """The squared error at N."""
        return self.floor + self.slope * rate(n)

    def samples(self, target: float) -> int:
        """The smallest N >= 2 from which on the line stays at or below the target."""
        target = _checks.target_error(target)
        if target < self.floor or (target == self.floor and self.slope > 0):
            raise UnreachableError(target=target, floor=self.floor)
        if self.slope == 0:
            return 2
        return invert_rate(Decimal(self.slope), Decimal(target) - Decimal(self.floor))


def invert_rate(slope: Decimal, gap: Decimal) -> int:
    """The smallest N >= 2 with slope log M / M <= gap for every M >= N, exactly.

    With K = slope / gap the crossing is N = exp(-W_-1(-1/K)), K >= e. Doubles carry it to about
    15 digits; a few Newton steps on x = log K + log x, the same equation with x = log N, carry it
    to every digit of N. Equality never occurs: log N is transcendental and K is rational.
    """
    with localcontext() as context:
        context.prec = 60
        ratio = slope / gap
        context.prec = max(60, ratio.adjusted() + 60)
        ratio = slope / gap
        if ratio * Decimal(3).ln() <= 3:
            return 2
        log_ratio = ratio.ln()
        x = Decimal(_log_crossing(float(log_ratio)))
        tolerance = Decimal(10) ** (8 - context.prec)
        for _ in range(50):
            step = (x - log_ratio - x.ln()) / (1 - 1 / x)
            x -= step
            if abs(step) < tolerance * x:
                break
        return int(x.exp().to_integral_value(rounding=ROUND_CEILING))


def _log_crossing(log_ratio: float) -> float:
    """log N at the crossing, in double precision: -W_-1(-exp(-log K))."""
    if log_ratio > 600:  # exp(-log K) leaves the doubles; there W_-1 is its own expansion
        return log_ratio + math.log(log_ratio)
    return -float(lambertw(-math.exp(-log_ratio), -1).real)


def floor_of(net: Network, *, method: Method = "composed") -> float:
    """The bound with unlimited data: approximation and mismatch alone."""
    return evaluate(net, approximation_risks(net), method).total


def risk_line(net: Network, *, method: Method = "composed") -> RiskLine:
    """The bound as floor + slope log N / N, where it is one.

    The paper's form always is. The Minkowski forms are while a single layer errs.
    """
    floors, slopes = approximation_risks(net), estimation_slopes(net)
    if method != "paper" and np.count_nonzero(floors + slopes) > 1:
        raise KoriskError(
            f"the {method} bound of several erring layers is no line in log N / N; "
            "use barron_bound and sample_size, or method='paper'"
        )
    return RiskLine(
        floor=evaluate(net, floors, method).total, slope=evaluate(net, slopes, method).total
    )


def sample_size(net: Network, target: float, *, method: Method = "composed") -> int:
    """The smallest N >= 2 from which on the bound stays at or below the target."""
    target = _checks.target_error(target)
    floors, slopes = approximation_risks(net), estimation_slopes(net)
    if method == "paper" or np.count_nonzero(floors + slopes) <= 1:
        return risk_line(net, method=method).samples(target)
    floor = floor_of(net, method=method)
    if target < floor or (target == floor and slopes.any()):
        raise UnreachableError(target=target, floor=floor)

    def bound_at(rate: float) -> float:
        return evaluate(net, floors + slopes * rate, method).total

    if bound_at(_LARGEST_RATE) <= target:
        return 2
    return _samples_at_rate(_largest_rate_within(bound_at, target))


def _largest_rate_within(bound_at: Callable[[float], float], target: float) -> float:
    """The log N / N at which a bound that grows with it meets the target.

    Solved for the logarithm, so that the answer has the same relative precision at N = 10 and at
    N = 10^15: about 1e-13, from doubles.
    """
    from scipy.optimize import brentq  # imported here: it takes as long as all of korisk

    lowest = -600.0
    if bound_at(math.exp(lowest)) > target:
        raise KoriskError(
            f"target {target!r} is nearer to the bound's floor than doubles can tell apart; "
            "ask for a little more"
        )
    log_rate = brentq(
        lambda x: bound_at(math.exp(x)) - target, lowest, math.log(_LARGEST_RATE), xtol=1e-14
    )
    return math.exp(log_rate)


def _samples_at_rate(rate: float) -> int:
    return invert_rate(Decimal(1), Decimal(rate))


@dataclass(frozen=True)
class TwoFactors:
    """Proposition (prop:ct-proxy) at one target, and what it means in samples.

    `structural * approximation_budget` is the ratio of N / log N, (eq:prop2-twofactor); `ratio` is
    the ratio of the sample sizes themselves.
    """

    target: float
    structural: float
    approximation_budget: float
    samples_known: int
    samples_dense: int

    @property
    def product(self) -> float:
        """The ratio of N / log N."""
        return self.structural * self.approximation_budget

    @property
    def ratio(self) -> float:
        """N of the dense network over N of the known-operator network."""
        return self.samples_dense / self.samples_known


def two_factors(known: RiskLine, dense: RiskLine, target: float) -> TwoFactors:
    """Eq. (eq:prop2-twofactor): how many more samples the dense network needs for a target.

    The first factor is sigma_FC / sigma_KO, the second (target - floor_KO) / (target - floor_FC).
    """
    for line, what in ((known, "the known-operator line"), (dense, "the dense line")):
        if target <= line.floor:
            raise UnreachableError(target=target, floor=line.floor, what=what)
        if line.slope == 0:
            raise KoriskError(f"slope of {what} must be > 0, got 0; without it N has no meaning")
    return TwoFactors(
        target=target,
        structural=dense.slope / known.slope,
        approximation_budget=(target - known.floor) / (target - dense.floor),
        samples_known=known.samples(target),
        samples_dense=dense.samples(target),
    )


def structural_factor(*, H: int, filter_norm: float, backprojection_norm: float) -> float:
    """Eq. (eq:ct-structural): H^2 / (4 ||K||^2 ||A^T||^2), the first factor for equal kappa."""
    return H**2 / (4 * filter_norm**2 * backprojection_norm**2)
