"""Where the ticks of a figure go: several round numbers, in plain digits where they are few."""

import math
from collections.abc import Iterable

MOST = 7  # ticks on an axis
MINUS = "\N{MINUS SIGN}"

Ticks = dict[float, str]  # a label for each value

# From dense to sparse; the densest that gives no more than MOST is taken.
_MANTISSAS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))


def doubling_ticks(start: int, low: float, high: float) -> Ticks:
    """Powers of two, `start` among them."""
    first = int(math.log2(start))
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = math.ceil(len(powers) / (MOST + 1))  # small numbers take little room
    return _plain(2.0**power for power in powers if (power - first) % step == 0)


def log_ticks(low: float, high: float) -> Ticks:
    """Round decimal numbers for a logarithmic axis; evenly spaced where its ends are close."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for mantissas in _MANTISSAS:
        every = (float(f"{mantissa}e{decade}") for decade in decades for mantissa in mantissas)
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) <= MOST:
            break
    if len(ticks) < 3:
        return linear_ticks(low, high)
    return _plain(ticks[:: math.ceil(len(ticks) / MOST)])


def linear_ticks(low: float, high: float) -> Ticks:
    """Evenly spaced round numbers, all with as many decimals."""
    power = math.floor(math.log10((high - low) / MOST))
    step = next(
        step
        for step in (float(f"{digit}e{power + more}") for more in (0, 1) for digit in (1, 2, 5))
        if (high - low) / step <= MOST
    )
    ticks = [step * index for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
    decimals = max(0, -math.floor(math.log10(step)))
    if decimals > 6 or max(abs(low), abs(high)) >= 1e7:
        return _plain(ticks)
    return {tick: f"{tick:,.{decimals}f}".replace("-", MINUS) for tick in ticks}


def number(value: float) -> str:
    """A value in plain digits, or in mathtext where they would be many."""
    return _digits(value) if _is_plain(value) else _power(value)


def _plain(ticks: Iterable[float]) -> Ticks:
    listed = list(ticks)
    write = _digits if all(map(_is_plain, listed)) else _power
    return {tick: write(tick) for tick in listed}


def _is_plain(value: float) -> bool:
    return value == 0 or 1e-5 <= abs(value) < 1e7


def _digits(value: float) -> str:
    digits = f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.9f}".rstrip("0").rstrip(".")
    return digits.replace("-", MINUS)


def _power(value: float) -> str:
    mantissa, power = f"{value:.6e}".split("e")
    factor = "" if float(mantissa) == 1 else rf"{float(mantissa):g}\times"
    return rf"${factor}10^{{{int(power)}}}$"
