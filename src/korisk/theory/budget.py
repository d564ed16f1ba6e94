"""From a bound to a sample size: inversion, savings, and the two factors of Prop. (prop:ct-proxy).

Near a floor, a sample size depends on the last digits of target - floor, which doubles lose.
Inversion therefore converts doubles exactly to decimals and uses as many digits as the answer
needs, however large it is, and whatever decimal context the caller has set.
"""

import decimal
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, getcontext, localcontext
from functools import partial
from typing import TypeVar

import numpy as np

from korisk import _checks
from korisk.errors import Argument, KoriskError, KoriskWarning, levels_off
from korisk.theory.amplification import paper_exponents
from korisk.theory.bound import (
    approximation_risks,
    barron_bound,
    estimation_slope,
    estimation_slopes,
    evaluate,
    growth,
    in_form,
    rate,
)
from korisk.theory.layer import Known, Learned, is_assumed
from korisk.theory.network import BOUNDS, BoundForm, Network, exact_tails

_DIGITS = 120  # initial precision, enough for every N below 1e20
_MOST_DIGITS = 3_000  # enough for every N below 1e1460; doubles give none above 1e1400
_TRAPS = [decimal.InvalidOperation, decimal.DivisionByZero]
_CONTEXT = decimal.Context(prec=_DIGITS, Emin=-999_999, Emax=999_999, traps=_TRAPS)
_ZERO = Decimal(0)

Term = tuple[Decimal, Decimal, Decimal]  # P_l, f_l, s_l
Answer = TypeVar("Answer")  # a result for a network before and after a replacement


# --- Sample sizes from log N / N, Eq. (eq:inversion) ---------------------------------------------


def line_samples(floor: float | Decimal, slope: float | Decimal, target: float) -> int:
    """Eq. (eq:inversion): the smallest N >= 2 from which on floor + slope log N / N <= target."""
    return _settled(lambda: _line(Decimal(floor), Decimal(slope), target))


def root_sum_samples(terms: Sequence[tuple[float, float, float]], target: float) -> int:
    """The smallest N from which on (sum_l P_l sqrt(f_l + s_l log N / N))^2 <= target.

    `terms` are (P_l, f_l, s_l). By Newton steps from below, (eq:newton-start).
    """
    exact = [(Decimal(tail), Decimal(floor), Decimal(slope)) for tail, floor, slope in terms]
    return _settled(lambda: _root_sum(exact, target))


def _paper_sum(exponents: Sequence[int], terms: Sequence[Term], target: float) -> int:
    """The smallest N from which on sum_l 2^exponent P_l^2 (f_l + s_l log N / N) <= target."""
    # Layers without a floor or slope are left out: their tail may be infinite.
    powers = [Decimal(2) ** exponent for exponent in exponents]
    pairs = list(zip(powers, terms, strict=True))
    floor = sum((power * tail**2 * f for power, (tail, f, _) in pairs if f > 0), _ZERO)
    slope = sum((power * tail**2 * s for power, (tail, _, s) in pairs if s > 0), _ZERO)
    return _line(floor, slope, target)


def _root_sum(terms: Sequence[Term], target: float) -> int:
    # Layers without a risk drop out. With one left, the square of the sum is a line in log N / N,
    # which has an exact inverse.
    exact = [(tail, f, s) for tail, f, s in terms if f + s > 0 and tail > 0]
    if len(exact) == 1:
        ((tail, floor, slope),) = exact
        return _line(tail**2 * floor, tail**2 * slope, target)
    root = Decimal(target).sqrt()
    floor_root = sum((tail * floor.sqrt() for tail, floor, _ in exact), _ZERO)
    gap = root - floor_root
    growing = [term for term in exact if term[2] > 0]
    if not _is_above(gap, root, equal=not growing):
        raise levels_off(target, float(floor_root**2))
    if not growing:
        return 2
    # sum P sqrt(f + s q) is concave in q = log N / N, so that Newton steps from below the solution
    # stay below it. sqrt(f + s q) <= sqrt(f) + sqrt(s q) gives such a start, (eq:newton-start).
    q = (gap / sum((tail * slope.sqrt() for tail, _, slope in growing), _ZERO)) ** 2
    # Newton converges quadratically: a step below the last 20 digits leaves no error in the rest.
    # From below all steps go up, until one is nothing but rounding.
    step = q
    while step > q.scaleb(20 - getcontext().prec):
        roots = [(tail, slope, (floor + slope * q).sqrt()) for tail, floor, slope in exact]
        value = sum((tail * r for tail, _, r in roots), _ZERO)
        gradient = sum((tail * s / (2 * r) for tail, s, r in roots), _ZERO)
        step = (root - value) / gradient
        q += step
    return invert_rate(q)


def _terms(net: Network, bound: BoundForm) -> list[Term]:
    """(P_l, f_l, s_l) of every layer, with the digits of the current context.

    Computed from the stated doubles, and not from products of doubles, which are rounded.
    """
    terms = []
    for layer, tail in zip(net, exact_tails(net, bound), strict=True):
        floor, slope = _ZERO, _ZERO
        if isinstance(layer, Learned):
            floor = Decimal(layer.C) ** 2 / Decimal(layer.width)
            assert layer.parameters is not None  # else `estimation_slopes` has raised
            slope = Decimal(layer.kappa) * Decimal(layer.parameters)
        elif isinstance(layer, Known):
            floor = Decimal(layer.mismatch)
        terms.append((tail, floor, slope))
    return terms


class _TooCloseError(Exception):
    """A target that equals the floor up to the digits of the current context."""


def _settled(solve: Callable[[], int]) -> int:
    """The result of `solve` with twice the digits of N, half of which the gap may cancel.

    Where the target equals the floor up to these digits, the most digits decide.
    """
    # The digits depend on the answer: solve, and solve again if it turns out to need more.
    digits = _DIGITS
    while True:
        with localcontext(_CONTEXT) as context:
            context.prec = digits
            try:
                size = solve()
            except _TooCloseError:
                digits = _MOST_DIGITS
                continue
        # Twice the digits of N, because the gap target - floor may cancel as many as N has.
        needed = min(80 + 2 * math.ceil(math.log10(size)), _MOST_DIGITS)
        if needed <= digits:
            return size
        digits = needed


def _line(floor: Decimal, slope: Decimal, target: float) -> int:
    gap = Decimal(target) - floor
    if not _is_above(gap, Decimal(target), equal=slope == 0):
        raise levels_off(target, float(floor))
    return 2 if slope == 0 else invert_rate(gap / slope)


def _is_above(gap: Decimal, scale: Decimal, *, equal: bool) -> bool:
    """Whether a gap is positive, or nonnegative if `equal`; half of the digits may be rounding."""
    # A gap below half of the digits may be nothing but rounding: ask for more digits, up to the
    # most, with which only exact equality remains.
    digits = getcontext().prec
    if abs(gap) > scale.scaleb(-(digits // 2)):
        return gap > 0
    if digits < _MOST_DIGITS:
        raise _TooCloseError
    return equal


def invert_rate(rate: Decimal) -> int:
    """The smallest N >= 2 with log M / M <= rate for every M >= N.

    The crossing is N = exp(-W_-1(-rate)) for rate <= 1/e, Eq. (eq:inversion). Doubles give about 15
    digits of it; a few Newton steps on x = log x - log rate, the same equation with x = log N, give
    every digit of N. Equality never occurs: log N is transcendental, the rate is not.
    """
    from scipy.special import lambertw

    digits = max(getcontext().prec, _DIGITS)
    with localcontext(_CONTEXT) as context:
        context.prec = digits
        if Decimal(3).ln() <= 3 * rate:  # log N / N over whole N >= 2 is largest at N = 3
            return 2
        # N has about as many digits as the rate has zeros behind the point.
        context.prec = most = max(digits, 60 - rate.adjusted())
        log_rate = rate.ln()
        start = float(log_rate)
        if start < -600:  # the rate underflows a double; W_-1 is near its expansion there
            x = Decimal(math.log(-start) - start)
        else:
            x = Decimal(-float(lambertw(-math.exp(start), -1).real))
        # A Newton step doubles the correct digits, at first those of a double.
        context.prec = 20
        while context.prec < most:
            context.prec = min(2 * context.prec, most)
            for _ in range(2):  # the second corrects what the first step loses
                x -= (x + log_rate - x.ln()) / (1 - 1 / x)
        return int(x.exp().to_integral_value(rounding=decimal.ROUND_CEILING))


# --- Bounds and lines ----------------------------------------------------------------------------


@dataclass(frozen=True)
class RiskLine:
    """floor + slope log N / N, Eq. (eq:calibrated-bound); the paper writes slope as sigma.

    Parameters
    ----------
    floor, slope : float
        Squared errors, at least 0.

    Examples
    --------
    >>> import korisk as kr
    >>> line = kr.theory.RiskLine(floor=0.001, slope=0.5)
    >>> round(line.predict(1000), 5), line.samples(0.01)
    (0.00445, 321)
    """

    floor: float
    slope: float

    def __post_init__(self) -> None:
        check = partial(_checks.real, at_least=0, remedy="both are squared errors")
        _checks.set_fields(self, floor=check("floor", self.floor), slope=check("slope", self.slope))

    def predict(self, n: float) -> float:
        """The squared error at N.

        Parameters
        ----------
        n : float
            Training samples, at least 2.

        Returns
        -------
        float
            The value of the line.
        """
        return self.floor + self.slope * rate(n)

    def samples(self, target: float) -> int:
        """The smallest N >= 2 from which on the line stays at or below the target.

        Parameters
        ----------
        target : float
            A squared error above 0.

        Returns
        -------
        int
            N.

        Raises
        ------
        UnreachableError
            If the target is at or below the floor.
        """
        return line_samples(self.floor, self.slope, _checks.target_error(target))


def risk_line(net: Network, *, bound: BoundForm = "composed") -> RiskLine:
    """The bound as a line floor + slope log N / N, Eq. (eq:calibrated-bound).

    The paper's form always is one; the Minkowski forms are if only one layer has a risk.

    Parameters
    ----------
    net : Network
        The network, with the constants of its learned layers.
    bound : {"composed", "minkowski", "paper"}, default "composed"
        The form of the bound, one of `BOUNDS`.

    Returns
    -------
    RiskLine
        The line.

    Raises
    ------
    KoriskError
        If the bound is not a line.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> kr.theory.risk_line(net)
    RiskLine(floor=0.0, slope=400.0)
    """
    net = in_form(net, bound)
    floors, slopes = approximation_risks(net), estimation_slopes(net)
    if bound != "paper" and np.count_nonzero(floors + slopes) > 1:
        raise KoriskError(
            f"the {bound} bound of several erring layers is not a line in log N / N; "
            "use barron_bound and sample_size, or ",
            Argument("bound", "paper"),
        )
    # Both are linear in the risks here, so that floor and slope can be evaluated one by one.
    floor, slope = (evaluate(net, risks, bound).total for risks in (floors, slopes))
    return RiskLine(floor=floor, slope=slope)


def calibrated(net: Network, line: RiskLine, *, bound: BoundForm = "composed") -> Network:
    """The network with C and kappa such that its bound is a measured line; undoes `risk_line`.

    floor = A C^2 / n and sigma = A kappa p, Eq. (eq:calibrated-bound), are solved for C and kappa,
    with the amplification A of the form. Another form has other constants, and the same line.

    Parameters
    ----------
    net : Network
        The network, with one learned layer and exact known ones.
    line : RiskLine
        Floor and slope of a pilot.
    bound : {"composed", "minkowski", "paper"}, default "composed"
        The form of the bound, one of `BOUNDS`.

    Returns
    -------
    Network
        The network, with `calibrated` set to the form.

    Raises
    ------
    KoriskError
        If another layer errs, the line has no slope, or the layer no number of parameters.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> line = kr.theory.RiskLine(floor=0.01, slope=4.0)
    >>> kr.theory.calibrated(net, line)["W"]
    Learned('W', parameters=100, C=0.05, kappa=0.01)
    >>> kr.theory.calibrated(net, line, bound="paper")["W"].kappa
    0.005
    """
    _checks.one_of("bound", bound, BOUNDS)
    names = [layer.name for layer in net if layer.errs]
    if len(names) != 1 or len(net.learned) != 1:
        raise KoriskError(
            "a pilot has one floor and one sigma, and can calibrate a network in which one learned "
            f"layer errs, got {', '.join(names) or 'none'}; make the others known"
        )
    slope = _checks.real("slope", line.slope, above=0, remedy="a flat line has no kappa")
    layer, factor = net.learned[0], growth(net, names[0], bound)
    C = math.sqrt(line.floor * layer.width / factor)
    kappa = slope / factor / estimation_slope(replace(layer, kappa=1.0))
    fitted = replace(layer, C=C, kappa=kappa)
    layers = tuple(fitted if member is layer else member for member in net)
    return replace(net, layers=layers, calibrated=bound)


def sample_size(net: Network, target: float, *, bound: BoundForm = "composed") -> int:
    """The smallest N >= 2 from which on the bound stays at or below the target.

    Exact for the stated constants at the values of their doubles: no intermediate result is rounded
    to a double.

    Parameters
    ----------
    net : Network
        The network, with the constants of its learned layers.
    target : float
        The expected squared error to reach, above 0.
    bound : {"composed", "minkowski", "paper"}, default "composed"
        The form of the bound, one of `BOUNDS`.

    Returns
    -------
    int
        N.

    Raises
    ------
    UnreachableError
        If the target is at or below the bound's floor.

    Warns
    -----
    KoriskWarning
        If constants are those of present weights, as from `describe`, or a learned layer has the
        defaults C = 0 and kappa = 1: then N compares networks, and predicts no error.

    Examples
    --------
    >>> import korisk as kr
    >>> learned = kr.Learned("W", parameters=100, kappa=0.25)
    >>> net = kr.Network([learned, kr.Known("K", lipschitz=2)])
    >>> n = kr.sample_size(net, target=0.5)
    >>> n, kr.barron_bound(net, n).total <= 0.5 < kr.barron_bound(net, n - 1).total
    (1457, True)
    """
    size = samples_needed(net, target, bound=bound)
    if reservation := uncalibrated(net):
        warnings.warn(f"N = {size:,} {reservation}", KoriskWarning, stacklevel=2)
    return size


def uncalibrated(net: Network) -> str:
    """The uncalibrated constants that a sample size rests on, in words; empty without any."""
    # The theorem's constants are those of the true map; present weights are only an instance.
    present = [layer.name for layer in net if layer.bracket.whose == "present weights"]
    guessed = [layer.name for layer in net.learned if is_assumed(layer)]
    reasons = []
    if present:
        reasons.append(
            f"uses the Lipschitz constants of the present weights of {', '.join(present[:6])}, "
            "where the theorem speaks of the true layers"
        )
    if guessed:
        reasons.append(
            f"assumes the defaults C = 0 and kappa = 1 of {', '.join(guessed[:6])}: it compares "
            "networks in units of kappa and predicts no error; for that, train at a few sizes and "
            "calibrate the constants"
        )
    return ", and ".join(reasons)


def samples_needed(net: Network, target: float, *, bound: BoundForm = "composed") -> int:
    """`sample_size` without its warning, for callers that report `uncalibrated` themselves."""
    target, net = _checks.target_error(target), in_form(net, bound)
    floors, slopes = approximation_risks(net), estimation_slopes(net)
    evaluate(net, floors + slopes, bound)  # raises one-line errors for missing constants

    def solved() -> int:
        terms = _terms(net, bound)
        if bound != "paper":
            return _root_sum(terms, target)
        return _paper_sum([int(power) for power in paper_exponents(len(net))], terms, target)

    return _settled(solved)


@dataclass(frozen=True)
class Savings:
    """Corollary (cor:known): the bound before and after a layer became known. Made by `savings`.

    In the paper's form the savings are the replaced layer's own terms, A_m C_m^2/n_m and
    A_m kappa_m p_m log N / N, Eq. (eq:saving). In the Minkowski forms its cross terms with other
    layers vanish as well.

    Parameters
    ----------
    before, after : Network
        The original network, and the same network with the layer known.
    bound : {"composed", "minkowski", "paper"}
        The form of the bound.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=10, kappa=0.5),
    ...                   kr.Learned("B", parameters=1000, kappa=0.5, lipschitz=2)])
    >>> saved = kr.theory.savings(net, "B", bound="paper")
    >>> round(saved.estimation(1000), 3)
    6.908
    >>> saved.samples(target=1.0)
    (9529, 215)
    """

    before: Network
    after: Network
    bound: BoundForm

    @property
    def approximation(self) -> float:
        """Decrease of the floor, which does not depend on N."""
        networks = (in_form(net, self.bound) for net in (self.before, self.after))
        before, after = (evaluate(net, approximation_risks(net), self.bound) for net in networks)
        return before.total - after.total

    def estimation(self, n: float) -> float:
        """Decrease of the estimation part at N samples.

        Parameters
        ----------
        n : float
            Training samples, at least 2.

        Returns
        -------
        float
            A squared error.
        """
        before, after = self._both(barron_bound, n)
        return before.estimation - after.estimation

    def total(self, n: float) -> float:
        """Decrease of the bound at N samples.

        Parameters
        ----------
        n : float
            Training samples, at least 2.

        Returns
        -------
        float
            A squared error.
        """
        before, after = self._both(barron_bound, n)
        return before.total - after.total

    def samples(self, target: float) -> tuple[int, int]:
        """The sample sizes for a target before and after.

        Parameters
        ----------
        target : float
            The expected squared error to reach.

        Returns
        -------
        tuple of int
            N before and after.

        Raises
        ------
        UnreachableError
            If one of the bounds does not reach the target.
        """
        return self._both(sample_size, target)

    def _both(self, answer: Callable[..., Answer], argument: float) -> tuple[Answer, Answer]:
        ask = partial(answer, bound=self.bound)
        return ask(self.before, argument), ask(self.after, argument)


def savings(net: Network, name: str, *, bound: BoundForm = "composed") -> Savings:
    """The decrease of the bound if a layer becomes a known operator.

    Parameters
    ----------
    net : Network
        The network, with the constants of its learned layers.
    name : str
        The layer that becomes known.
    bound : {"composed", "minkowski", "paper"}, default "composed"
        The form of the bound, one of `BOUNDS`.

    Returns
    -------
    Savings
        The bound before and after.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=10, kappa=0.5),
    ...                   kr.Learned("B", parameters=1000, kappa=0.5, lipschitz=2)])
    >>> saved = kr.theory.savings(net, "B", bound="paper")
    >>> round(saved.total(1000), 3), saved.approximation
    (6.908, 0.0)
    """
    return Savings(before=net, after=net.replace(name), bound=bound)


@dataclass(frozen=True)
class TwoFactors:
    """Proposition (prop:ct-proxy) at one target, with the resulting sample sizes.

    `structural * approximation_budget` is the ratio of N / log N, (eq:prop2-twofactor); `ratio` is
    the ratio of the sample sizes themselves. Made by `two_factors`.

    Parameters
    ----------
    target : float
        The squared error to reach.
    structural, approximation_budget : float
        The two factors.
    samples_known, samples_dense : int
        The sample sizes of both networks.

    Examples
    --------
    >>> from korisk.theory import RiskLine, two_factors
    >>> factors = two_factors(RiskLine(0.001, 0.5), RiskLine(0.002, 20.0), target=0.01)
    >>> factors.structural, factors.approximation_budget, factors.product
    (40.0, 1.125, 45.0)
    >>> round(factors.ratio)
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
        # Sample sizes are exact integers, and their ratio may exceed a double.
        try:
            return self.samples_dense / self.samples_known
        except OverflowError:
            return math.inf


def two_factors(known: RiskLine, dense: RiskLine, target: float) -> TwoFactors:
    """Eq. (eq:prop2-twofactor): the factors of samples that the dense network needs for a target.

    The first factor is sigma_FC / sigma_KO, the second (target - floor_KO) / (target - floor_FC),
    as in (eq:ct-twofactor).

    Parameters
    ----------
    known, dense : RiskLine
        The lines of the known-operator and of the dense network.
    target : float
        The squared error to reach, above both floors.

    Returns
    -------
    TwoFactors
        Both factors, and the sample sizes.

    Raises
    ------
    UnreachableError
        If the target is at or below one of the floors.
    KoriskError
        If a line has no slope.

    Examples
    --------
    >>> from korisk.theory import RiskLine, two_factors
    >>> factors = two_factors(RiskLine(0.001, 0.5), RiskLine(0.002, 20.0), target=0.01)
    >>> factors.samples_known, factors.samples_dense
    (321, 25352)
    """
    # Each error names its line, because the factors do not tell which of the two is at fault.
    target = _checks.target_error(target)
    for line, name in ((known, "the known-operator line"), (dense, "the dense line")):
        if target <= line.floor:
            raise levels_off(target, line.floor, name)
        if line.slope == 0:
            flat = f"slope of {name} must be > 0, got 0"
            raise KoriskError(f"{flat}; the factors compare slopes, take N from samples()")
    structural, budget = dense.slope / known.slope, (target - known.floor) / (target - dense.floor)
    return TwoFactors(target, structural, budget, known.samples(target), dense.samples(target))


def structural_factor(*, H: int, filter_norm: float, backprojection_norm: float) -> float:
    """Eq. (eq:ct-structural): H^2 / (4 ||K||^2 ||A^T||^2), the first factor for equal kappa.

    Parameters
    ----------
    H : int
        The image side in pixels.
    filter_norm, backprojection_norm : float
        The norms of the filter K and of the backprojection A^T, above 0.

    Returns
    -------
    float
        The factor.

    Examples
    --------
    >>> import korisk as kr
    >>> round(kr.theory.structural_factor(H=128, filter_norm=0.03, backprojection_norm=85.0), 1)
    629.9
    """
    # From p_FC / p_KO = H^2 and amplifications 2^2 P^2 of the known-operator network.
    side = _checks.count("H", H, at_least=1, remedy="H is the image side")
    norm = partial(_checks.real, above=0, remedy="give the operator norm")
    first = norm("filter_norm", filter_norm)
    return (side / (2 * first * norm("backprojection_norm", backprojection_norm))) ** 2
