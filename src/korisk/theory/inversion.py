"""Sample sizes from log N / N, Eq. (eq:inversion), in decimal arithmetic.

Near a floor, a sample size hangs on the last digits of target - floor, and doubles lose them. All
inputs here are doubles taken at their exact value; everything after that has the digits it needs,
whatever decimal context the caller has set.
"""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal, DivisionByZero, InvalidOperation, localcontext

from korisk.errors import UnreachableError

_DIGITS = 120  # enough for every N below 1e50, one double above the floor
_CONTEXT = Context(
    prec=_DIGITS, Emin=-999_999, Emax=999_999, traps=[InvalidOperation, DivisionByZero]
)


def line_samples(floor: float, slope: float, target: float) -> int:
    """Eq. (eq:inversion): the smallest N >= 2 from which on floor + slope log N / N <= target."""
    return root_sum_samples([(1.0, floor, slope)], target)


def paper_samples(
    weights: Sequence[int], terms: Sequence[tuple[float, float, float]], target: float
) -> int:
    """The same for sum_l 2^weight P_l^2 (f_l + s_l log N / N), terms being (P_l, f_l, s_l)."""
    with localcontext(_CONTEXT):
        factors = [
            Decimal(2) ** weight * Decimal(tail) ** 2
            for weight, (tail, _, _) in zip(weights, terms, strict=True)
        ]
        floor = sum((a * Decimal(f) for a, (_, f, _) in zip(factors, terms, strict=True)), _ZERO)
        slope = sum((a * Decimal(s) for a, (_, _, s) in zip(factors, terms, strict=True)), _ZERO)
        return _invert_line(floor, slope, target)


def root_sum_samples(terms: Sequence[tuple[float, float, float]], target: float) -> int:
    """The same for (sum_l P_l sqrt(f_l + s_l log N / N))^2."""
    with localcontext(_CONTEXT):
        exact = [(Decimal(p), Decimal(f), Decimal(s)) for p, f, s in terms if p > 0 and f + s > 0]
        if len(exact) == 1:
            ((tail, floor, slope),) = exact
            return _invert_line(tail**2 * floor, tail**2 * slope, target)
        return _invert_root_sum(exact, target)


_ZERO = Decimal(0)
_Terms = Sequence[tuple[Decimal, Decimal, Decimal]]


def _invert_line(floor: Decimal, slope: Decimal, target: float) -> int:
    gap = Decimal(target) - floor
    _refuse_at_floor(floor, gap, target, rises=slope > 0)
    return 2 if slope == 0 else invert_rate(gap / slope)


def _invert_root_sum(terms: _Terms, target: float) -> int:
    root = Decimal(target).sqrt()
    floor_root = sum((tail * floor.sqrt() for tail, floor, _ in terms), _ZERO)
    gap = root - floor_root
    growing = [term for term in terms if term[2] > 0]
    _refuse_at_floor(floor_root**2, gap, target, rises=bool(growing))
    if not growing:
        return 2
    # sum P sqrt(f + s q) is concave in q = log N / N, so Newton's steps from below the solution
    # stay below it. sqrt(f + s q) <= sqrt(f) + sqrt(s q) gives such a start, (eq:newton-start).
    q = (gap / sum((tail * slope.sqrt() for tail, _, slope in growing), _ZERO)) ** 2
    for _ in range(200):
        value = sum((tail * (floor + slope * q).sqrt() for tail, floor, slope in terms), _ZERO)
        gradient = sum(
            (tail * slope / (2 * (floor + slope * q).sqrt()) for tail, floor, slope in growing),
            _ZERO,
        )
        step = (root - value) / gradient
        q += step
        if abs(step) <= q.scaleb(20 - _DIGITS):
            break
    return invert_rate(q)


def _refuse_at_floor(floor: Decimal, gap: Decimal, target: float, *, rises: bool) -> None:
    if gap < 0 or (gap == 0 and rises):
        raise UnreachableError(target=target, floor=float(floor))


def invert_rate(rate: Decimal) -> int:
    """The smallest N >= 2 with log M / M <= rate for every M >= N.

    The crossing is N = exp(-W_-1(-rate)) for rate <= 1/e, Eq. (eq:inversion). Doubles carry it to
    about 15 digits; a few Newton steps on x = log x - log rate, the same equation with x = log N,
    carry it to every digit of N. Equality never occurs: log N is transcendental, the rate is not.
    """
    with localcontext(_CONTEXT) as context:
        if Decimal(3).ln() <= 3 * rate:  # log N / N over whole N >= 2 is largest at N = 3
            return 2
        context.prec = max(_DIGITS, 60 - rate.adjusted())
        log_rate = rate.ln()
        x = Decimal(_log_crossing(float(log_rate)))
        for _ in range(50):
            step = (x + log_rate - x.ln()) / (1 - 1 / x)
            x -= step
            if abs(step) <= x.scaleb(8 - context.prec):
                break
        return int(x.exp().to_integral_value(rounding=ROUND_CEILING))


def _log_crossing(log_rate: float) -> float:
    """log N at the crossing, in double precision: -W_-1(-exp(log rate))."""
    from scipy.special import lambertw

    if log_rate < -600:  # the rate leaves the doubles; there W_-1 is near its own expansion
        return math.log(-log_rate) - log_rate
    return -float(lambertw(-math.exp(log_rate), -1).real)
