"""From a bound to a sample size: inversion, and the two factors of Proposition (prop:ct-proxy)."""

import math
from dataclasses import dataclass

import numpy as np

from korisk import _checks
from korisk.errors import KoriskError, UnreachableError
from korisk.theory.amplification import BoundForm, paper_exponents
from korisk.theory.bound import approximation_risks, estimation_slopes, evaluate, rate
from korisk.theory.inversion import line_samples, paper_samples, root_sum_samples
from korisk.theory.network import Network


@dataclass(frozen=True)
class RiskLine:
    """floor + slope log N / N, Eq. (eq:calibrated-bound); the paper writes slope as sigma.

    Both are squared errors, at least 0.

    >>> import korisk as kr
    >>> line = kr.RiskLine(floor=0.001, slope=0.5)
    >>> round(line.predict(1000), 5), line.samples(0.01)
    (0.00445, 321)
    """

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
        """The smallest N >= 2 from which on the line stays at or below the target.

        A target at or below the floor raises `UnreachableError`.
        """
        return line_samples(self.floor, self.slope, _checks.target_error(target))


def floor_of(net: Network, *, bound: BoundForm = "composed") -> float:
    """The bound with unlimited data: approximation and mismatch alone."""
    return evaluate(net, approximation_risks(net), bound).total


def risk_line(net: Network, *, bound: BoundForm = "composed", effective: bool = False) -> RiskLine:
    """The bound as floor + slope log N / N, where it is one, Eq. (eq:calibrated-bound).

    The paper's form always is. The Minkowski forms are while a single layer errs. `effective=True`
    gives the line of the estimate with effective dimensions, as in `barron_bound`.

    Others raise `KoriskError`.

    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> kr.risk_line(net)
    RiskLine(floor=0.0, slope=400.0)
    """
    floors, slopes = approximation_risks(net), estimation_slopes(net, effective=effective)
    if bound != "paper" and np.count_nonzero(floors + slopes) > 1:
        raise KoriskError(
            f"the {bound} bound of several erring layers is no line in log N / N; "
            "use barron_bound and sample_size, or bound='paper'"
        )
    return RiskLine(
        floor=evaluate(net, floors, bound).total, slope=evaluate(net, slopes, bound).total
    )


def sample_size(
    net: Network, target: float, *, bound: BoundForm = "composed", effective: bool = False
) -> int:
    """The smallest N >= 2 from which on the bound stays at or below the target.

    Exact for the network's tails, floors and slopes as doubles hold them. `effective=True` inverts
    the estimate with effective dimensions, as in `barron_bound`; these are kept as they are, so
    the answer is consistent only near the N that they were computed for.

    `target` is an expected squared error; one at or below the bound's floor raises
    `UnreachableError`.

    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> n = kr.sample_size(net, target=0.5)
    >>> n, kr.barron_bound(net, n).total <= 0.5 < kr.barron_bound(net, n - 1).total
    (7094, True)
    """
    target = _checks.target_error(target)
    floors, slopes = approximation_risks(net), estimation_slopes(net, effective=effective)
    evaluate(net, floors + slopes, bound)  # refuses what cannot be evaluated at all
    terms = [
        (float(tail), float(floor), float(slope))
        for tail, floor, slope in zip(net.tails(bound), floors, slopes, strict=True)
        if floor + slope > 0
    ]
    if bound != "paper":
        return root_sum_samples(terms, target)
    exponents = paper_exponents(len(net))[floors + slopes > 0]
    return paper_samples([int(exponent) for exponent in exponents], terms, target)


@dataclass(frozen=True)
class TwoFactors:
    """Proposition (prop:ct-proxy) at one target, and what it means in samples.

    `structural * approximation_budget` is the ratio of N / log N, (eq:prop2-twofactor); `ratio` is
    the ratio of the sample sizes themselves.

    >>> import korisk as kr
    >>> found = kr.two_factors(kr.RiskLine(0.001, 0.5), kr.RiskLine(0.002, 20.0), target=0.01)
    >>> found.structural, found.approximation_budget, found.product
    (40.0, 1.125, 45.0)
    >>> round(found.ratio)
    79
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
        """N of the dense network over N of the known-operator network, Eq. (eq:sample-ratio)."""
        try:
            return self.samples_dense / self.samples_known
        except OverflowError:
            return math.inf


def two_factors(known: RiskLine, dense: RiskLine, target: float) -> TwoFactors:
    """Eq. (eq:prop2-twofactor): how many more samples the dense network needs for a target.

    The first factor is sigma_FC / sigma_KO, the second (target - floor_KO) / (target - floor_FC),
    as in (eq:ct-twofactor).
    Lines of `risk_line(..., effective=True)` give the factors with effective dimensions.

    A target at or below one of the floors raises `UnreachableError`, a line without a slope
    `KoriskError`.

    >>> import korisk as kr
    >>> found = kr.two_factors(kr.RiskLine(0.001, 0.5), kr.RiskLine(0.002, 20.0), target=0.01)
    >>> found.samples_known, found.samples_dense
    (321, 25352)
    """
    target = _checks.target_error(target)
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
    """Eq. (eq:ct-structural): H^2 / (4 ||K||^2 ||A^T||^2), the first factor for equal kappa.

    `H` is the image side in pixels; the norms are those of the filter K and of the backprojection
    A^T, above 0, or `KoriskError` is raised.

    >>> import korisk as kr
    >>> round(kr.structural_factor(H=128, filter_norm=0.03, backprojection_norm=85.0), 1)
    629.9
    """
    side = _checks.count("H", H, at_least=1, remedy="H is the image side")
    remedy = "give the operator norm"
    norms = (
        _checks.real("filter_norm", filter_norm, above=0, remedy=remedy),
        _checks.real("backprojection_norm", backprojection_norm, above=0, remedy=remedy),
    )
    return (side / (2 * norms[0] * norms[1])) ** 2
