"""The paper's line through a pilot, and the checks of targets and sizes."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from korisk._checks import real, require
from korisk.curves.curve import Curve
from korisk.curves.unit import LARGEST_ERROR, SMALLEST_ERROR
from korisk.errors import KoriskError, invalid
from korisk.theory import RiskLine

Array = NDArray[np.float64]

_EASY = 3.0  # times the largest pilot error: easier targets are probably in another unit
_HARD = 0.1  # times the smallest pilot error: so may be harder ones
# What a target far from every measurement may mean: the first two in every unit, the others where
# the metric is an error. Where it is a score, an error may be meant.
_MEANINGS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("in percent", lambda t: t / 100),
    ("as a fraction of one", lambda t: t * 100),
    ("as a score of which larger is better", lambda t: 1 - t),
    ("as a score in percent", lambda t: 1 - t / 100),
    ("in decibels", lambda t: 10.0 ** (-t / 10)),
    ("as a root of the metric", np.square),
    ("as a square of the metric", np.sqrt),
)


def calibrate(curve: Curve) -> RiskLine:
    """The line of `korisk.calibrate` through a pilot's mean errors, whatever its unit.

    The floor is the lowest mean, and the slope that of a regression of error - floor on log N / N
    without intercept or weights (tab:calibration).
    """
    check_curve(curve)
    curve.require(2, "a line")
    n, means = curve.sizes.astype(float), curve.means
    rate, floor = np.log(n) / n, means.min()
    return RiskLine(floor.item(), ((means - floor) @ rate / (rate @ rate)).item())


def check_curve(curve: object) -> None:
    """Raise if the argument is not a Curve, such as a path to one."""
    remedy = "read one with korisk.Curve.read(path)"
    require(isinstance(curve, Curve), "curve", "be a Curve", curve, remedy)


def level_of(sure: float, name: str = "sure") -> float:
    """Check a requested probability."""
    return real(name, sure, at_least=0.5, at_most=0.99, remedy="ask for 0.9, for example")


# --- Targets -------------------------------------------------------------------------------------


def target_error(curve: Curve, target: object) -> float:
    """Check a target in the curve's unit, and return it as an error."""
    check_target([curve], target)
    return float(curve.unit.to_error(target))  # type: ignore[arg-type]


def check_target(curves: Sequence[Curve], target: object) -> None:
    """Raise if a target is impossible in the unit of the curves, or looks like another unit.

    A target that is worse than every measurement raises if it is plausible in another unit. One
    that is far too hard is a legitimate question; `other_unit` gives a hint for it.
    """
    for curve in curves:
        check_curve(curve)
        remedy = f"give the {curve.unit.noun} that you want to reach"
        # A list would fail as "not a number"; say instead that targets are asked one by one.
        several = np.ndim(target) if isinstance(target, list | tuple | np.ndarray) else 0
        value = real("target", target, remedy="ask for one target at a time" if several else remedy)
        error = float(curve.unit.to_error(value))
        hint, rule = other_unit(curve, value), f"be {curve.unit.rule}"
        if not SMALLEST_ERROR <= error <= LARGEST_ERROR:
            raise invalid("target", rule, value, hint or remedy, got=f"{value:.6g}")
        if hint and all(error > measured.means.max() for measured in curves):
            raise KoriskError(f"target {value:.6g} is worse than all that was measured; {hint}")


def other_unit(curve: Curve, value: float) -> str:
    """A hint that a target far from the pilot may be in another unit; empty where it may not."""
    unit, low, high = curve.unit, float(curve.means.min()), float(curve.means.max())
    error, worst = float(unit.to_error(value)), float(unit.from_error(high))
    # A score is bounded, and so is its error: compare the scores themselves.
    tiny_score = unit.larger_is_better and value < worst / 10 and worst > 0
    if _HARD * low <= error <= high or (high < error <= _EASY * high and not tiny_score):
        return ""
    meanings = _MEANINGS
    if unit.larger_is_better:
        meanings = (*_MEANINGS[:2], ("as an error", unit.from_error))
    for words, convert in meanings:
        with np.errstate(all="ignore"):
            converted = float(convert(np.array(value)))
        if 0.3 * low <= float(unit.to_error(converted)) <= high:
            ends = sorted(unit.from_error([low, high]).tolist())
            return (
                f"the pilot runs from {ends[0]:.4g} to {ends[1]:.4g}: was the target given "
                f"{words}? then ask for {converted:.4g}"
            )
    return ""
