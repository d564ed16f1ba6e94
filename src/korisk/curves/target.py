"""A target in the user's unit: checked, and questioned where it looks like another unit."""

import math
from collections.abc import Callable

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.theory._checks import real

# What people mean when a target is far from every measured error, and how they might have said it.
_OTHERWISE: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("given in percent", lambda t: t / 100),
    ("given as a fraction of one", lambda t: t * 100),
    ("given as a score of which larger is better", lambda t: 1 - t),
    ("given as a score in percent", lambda t: 1 - t / 100),
    ("given in decibels", lambda t: 10 ** (-t / 10)),
    ("given as a root of the metric", lambda t: t * t),
    ("given as a square of the metric", lambda t: math.sqrt(t)),
)
_TOO_EASY = 3.0  # times the largest pilot error
_TOO_HARD = 0.01  # times the smallest one


def target_error(curve: Curve, target: object) -> float:
    """The target as an error, if it can be one and looks like the pilot's unit."""
    value = real("target", target, remedy=f"give the {curve.unit.noun} that you want to reach")
    error = float(curve.unit.to_error(value))
    if not 0 < error < math.inf:
        raise KoriskError(f"target: {curve.unit.refusal(value)}")
    low, high = float(curve.means.min()), float(curve.means.max())
    if _TOO_HARD * low <= error <= _TOO_EASY * high:
        return error
    for meaning, convert in _OTHERWISE:
        other = _converted(convert, value)
        if other is None:
            continue
        as_error = float(curve.unit.to_error(other))
        if 0.3 * low <= as_error <= high:
            measured = " to ".join(f"{end:.4g}" for end in _measured(curve))
            raise KoriskError(
                f"target {value:.6g} is far from all that was measured ({measured}); was it "
                f"{meaning}? then ask for {other:.4g}"
            )
    return error


def _converted(convert: Callable[[float], float], value: float) -> float | None:
    try:
        return convert(value)
    except (ValueError, OverflowError):
        return None


def _measured(curve: Curve) -> list[float]:
    ends = curve.unit.from_error([curve.means.min(), curve.means.max()])
    return sorted(ends.tolist())
