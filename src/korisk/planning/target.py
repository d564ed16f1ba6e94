"""A target in the user's unit: checked, and questioned where it looks like another unit."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from korisk._checks import real
from korisk.curves.curve import Curve
from korisk.curves.unit import LARGEST_ERROR, SMALLEST_ERROR
from korisk.errors import KoriskError
from korisk.planning.calibrate import check_curve

_EASY = 3.0  # times the largest pilot error: nobody asks for that
_HARD = 0.1  # times the smallest one: few do


@dataclass(frozen=True)
class _Meaning:
    words: str
    convert: Callable[[float], float]
    laws: frozenset[str]  # the units in which it can be meant


_ERRORS = frozenset({"error", "squared"})
_SCORES = frozenset({"complement", "percent"})

# What people mean when a target is far from all that was measured.
_MEANINGS = (
    _Meaning("given in percent", lambda t: t / 100, _ERRORS | _SCORES),
    _Meaning("given as a fraction of one", lambda t: t * 100, _ERRORS | _SCORES),
    _Meaning("given as a score of which larger is better", lambda t: 1 - t, _ERRORS),
    _Meaning("given as a score in percent", lambda t: 1 - t / 100, _ERRORS),
    _Meaning("given in decibels", lambda t: 10 ** (-t / 10), _ERRORS),
    _Meaning("given as a root of the metric", lambda t: t * t, _ERRORS),
    _Meaning("given as a square of the metric", lambda t: math.sqrt(t), _ERRORS),
    _Meaning("given with the sign of an error", lambda t: -t, frozenset({"negated"})),
    _Meaning("given as an error", lambda t: 1 - t, frozenset({"complement"})),
    _Meaning("given as an error", lambda t: 100 - t, frozenset({"percent"})),
    _Meaning("given as an error", lambda t: -10 * math.log10(t), frozenset({"psnr"})),
)


def target_error(curve: Curve, target: object) -> float:
    """The target as an error, if it can be one.

    One that is far too easy, and would be a fair one in another unit, is refused; one that is far
    too hard is a sound question, and `other_unit` speaks of it.
    """
    check_curve(curve)
    value = real("target", target, remedy=f"give the {curve.unit.noun} that you want to reach")
    error = float(curve.unit.to_error(value))
    hint = other_unit(curve, value)
    if not SMALLEST_ERROR <= error <= LARGEST_ERROR:
        raise KoriskError(
            f"target must be {_article(curve.unit.noun)} {curve.unit.rule}, got {value:.6g}; "
            + (hint or "give the one that you want to reach")
        )
    if hint and error > curve.means.max():
        raise KoriskError(f"target {value:.6g} is worse than all that was measured; {hint}")
    return error


def other_unit(curve: Curve, value: float) -> str:
    """A question that suggests what a target far from the pilot might have meant, or nothing."""
    low, high = float(curve.means.min()), float(curve.means.max())
    error = float(curve.unit.to_error(value))
    if _HARD * low <= error <= high or (error > high and not _too_easy(curve, value, error)):
        return ""
    for meaning in _MEANINGS:
        other = _converted(meaning, value) if curve.unit.law in meaning.laws else None
        if other is not None and 0.3 * low <= float(curve.unit.to_error(other)) <= high:
            ends = sorted(curve.unit.from_error([low, high]).tolist())
            return (
                f"the pilot runs from {ends[0]:.4g} to {ends[1]:.4g}: was the target "
                f"{meaning.words}? then ask for {other:.4g}"
            )
    return ""


def _too_easy(curve: Curve, value: float, error: float) -> bool:
    if error > _EASY * curve.means.max():
        return True
    # A score has an end, so that its error cannot be many times larger; the score itself can be.
    worst = float(curve.unit.from_error(curve.means.max()))
    return curve.unit.larger_is_better and value < worst / 10 and worst > 0


def _converted(meaning: _Meaning, value: float) -> float | None:
    try:
        return meaning.convert(value)
    except (ValueError, OverflowError):
        return None


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
