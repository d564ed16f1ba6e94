"""Several steps that together are one function with slopes between two numbers.

Taken one by one some have no constant: a comparison, a sign, a quotient of two values. Together
they do, such as sign(v) relu(|v| - t), which nobody would call steep.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from korisk.networks.describe.linear import words
from korisk.networks.describe.recording import Ref, Step
from korisk.networks.describe.rules import SIGNS, is_number, option

Slopes = tuple[int, float, float]  # the step whose value the function takes, and two slopes

_ABOVE = words("gt __gt__ greater ge __ge__ greater_equal")
_UNDER = words("lt __lt__ less le __le__ less_equal")
_TIMES = words("mul multiply __mul__ __rmul__")
_OVER = words("div divide true_divide __truediv__")
_MINUS = words("sub subtract __sub__")
_CLAMPS = words("clamp clip clamp_min")
_MAXIMA = words("maximum max fmax")
_NORMS = words("norm vector_norm linalg_vector_norm linalg_norm")
_ABS = words("abs absolute __abs__")


def pieces(step: Step, steps: Sequence[Step]) -> Slopes | None:
    """If a step completes a known function of one value: that value, and bounds of the slope.

    where(v > t, a v + b, c v + d) without a jump; soft thresholds, sign(v) relu(|v| - t); and
    projections onto a ball or an interval, v / max(a, b |v|).
    """
    if not step.value.is_floating_point():
        return None
    if step.name == "where":
        return _two_lines(step, steps)
    if step.name in _TIMES:
        return _soft_threshold(step, steps)
    return _projection(step, steps) if step.name in _OVER else None


def needed(last: Step, steps: Sequence[Step]) -> set[int]:
    """The steps that a value depends on, without those inside functions of several steps."""
    ahead, indices = [last.index], set()
    while ahead:
        step = steps[ahead.pop()]
        if step.index not in indices:
            indices.add(step.index)
            line = pieces(step, steps)
            ahead.extend(step.parents if line is None else (line[0],))
    return indices


def _soft_threshold(step: Step, steps: Sequence[Step]) -> Slopes | None:
    """sign(v) relu(|v| - t) for t >= 0: flat up to t, then of slope 1."""
    if not _takes_two_values(step):
        return None
    # sign(x) relu(|x| - t), in either order of the factors.
    for sign, rest in (step.args, step.args[::-1]):
        turned, cut = steps[sign.step], steps[rest.step]
        positive = cut.name == "relu" or _clamped_from(cut) == 0
        if turned.name not in ("sign", "sgn") or not (positive and isinstance(cut.args[0], Ref)):
            continue
        shifted = steps[cut.args[0].step]
        if shifted.name not in _MINUS or len(shifted.args) != 2 or shifted.kwargs:
            continue
        size, threshold = shifted.args
        if not isinstance(size, Ref) or steps[size.step].name not in _ABS:
            continue
        base = turned.args[0]
        if not isinstance(base, Ref) or steps[size.step].args[0] != base:
            continue
        lowest, spread = _lowest(threshold), step.value.shape != steps[base.step].value.shape
        if lowest is not None and lowest >= 0 and not spread:
            return base.step, 0.0, 1.0
    return None


def _takes_two_values(step: Step) -> bool:
    """Whether both arguments of a step are values of the run, not constants."""
    return len(step.args) == 2 and all(isinstance(argument, Ref) for argument in step.args)


def _clamped_from(step: Step) -> float | None:
    """The lower limit of a clamp without an upper one."""
    if step.name not in _CLAMPS or option(step, 2, "max", None) is not None:
        return None
    low = option(step, 1, "min", None)
    return float(low) if is_number(low) else None


def _projection(step: Step, steps: Sequence[Step]) -> Slopes | None:
    """v / max(a, b |v|) with a, b > 0: v / a inside a ball of radius a / b, then onto its surface.

    That is the projection onto the ball, over a, and projections lie between the slopes 0 and 1
    as vectors; with |v| entry by entry it is one onto an interval.
    """
    if not _takes_two_values(step) or step.kwargs:
        return None
    base, bottom = step.args[0].step, steps[step.args[1].step]
    # x / max(low, |x| c): x / low near 0, a projection onto a ball beyond.
    low = _clamped_from(bottom)
    size: object = bottom.args[0] if low is not None else None
    if bottom.name in _MAXIMA and len(bottom.args) == 2 and not bottom.kwargs:
        refs = [argument for argument in bottom.args if isinstance(argument, Ref)]
        constants = [argument for argument in bottom.args if isinstance(argument, Tensor)]
        if len(refs) == len(constants) == 1:  # a number would be an axis
            low, size = _lowest(constants[0]), refs[0]
    if low is None or low <= 0 or not isinstance(size, Ref):
        return None
    inner = steps[size.step]
    # Positive factors of the norm leave the form as it is.
    while inner.name in _TIMES | _OVER and len(inner.args) == 2 and not inner.kwargs:
        first, second = inner.args
        if inner.name in _TIMES and not isinstance(first, Ref):
            first, second = second, first
        factor = _one_number(second)
        if not isinstance(first, Ref) or factor is None or not 0 < factor < math.inf:
            return None
        inner = steps[first.step]
    if step.value.shape != steps[base].value.shape or not inner.args or inner.args[0] != Ref(base):
        return None
    if inner.name in _ABS:
        return (base, 0.0, 1 / low) if inner.value.shape == step.value.shape else None
    # Entries that share a norm must share a: the projection is onto a ball, not an ellipsoid.
    shared = bottom.value.numel() == inner.value.numel()
    euclidean = shared and _is_euclidean(inner) and _norm_spreads(inner, step)
    return (base, 0.0, 1 / low) if euclidean else None


def _is_euclidean(step: Step) -> bool:
    """Whether a step is the Euclidean norm of entries: of a matrix, 2 may mean another norm."""
    kind = option(step, 1, "p", step.kwargs.get("ord"))
    if step.name not in _NORMS or kind not in (None, 2, "fro"):
        return False
    return kind != 2 or "vector" in step.name or isinstance(option(step, 2, "dim", None), int)


def _norm_spreads(norm: Step, step: Step) -> bool:
    """Whether a norm is over whole axes and divides each of the entries that it is of."""
    if norm.value.numel() == 1:
        return True
    dims = option(norm, 2, "dim", None)
    # The norm keeps its axes at length 1, so that the division spreads it.
    axes = {dims} if isinstance(dims, int) else set(dims or ())
    shape, ndim = step.value.shape, step.value.ndim
    expected = [1 if axis in axes or axis - ndim in axes else shape[axis] for axis in range(ndim)]
    return list(norm.value.shape) == expected


def _lowest(value: object) -> float | None:
    """The smallest of a constant's numbers."""
    if isinstance(value, Tensor) and not value.is_complex() and value.numel():
        return float(value.min()) if torch.isfinite(value).all() else None
    return float(value) if is_number(value) else None


def _one_number(value: object) -> float | None:
    several = isinstance(value, Tensor) and value.numel() != 1
    return None if several else _lowest(value)


def _two_lines(step: Step, steps: Sequence[Step]) -> Slopes | None:
    """where(v > t, a v + b, c v + d) for numbers, if it does not jump."""
    if len(step.args) != 3 or not isinstance(step.args[0], Ref):
        return None
    comparison = steps[step.args[0].step]
    if comparison.name not in _ABOVE | _UNDER or len(comparison.args) != 2:
        return None
    base, threshold = comparison.args
    if not isinstance(base, Ref):
        base, threshold = threshold, base
    if not (isinstance(base, Ref) and is_number(threshold)):
        return None
    lines = [_line(argument, base.step, steps) for argument in step.args[1:]]
    shape = steps[base.step].value.shape
    if None in lines or step.value.shape != shape or step.value.is_complex():
        return None
    (one_slope, one_offset), (two_slope, two_offset) = (line for line in lines if line)
    # Two lines that do not meet at the threshold are a jump.
    if one_slope * threshold + one_offset != two_slope * threshold + two_offset:
        return None
    return base.step, one_slope, two_slope


def _line(value: object, base: int, steps: Sequence[Step]) -> tuple[float, float] | None:
    """(a, b) if an argument is a v + b for numbers a and b, and the value v of step `base`."""
    if (number := _one_number(value)) is not None:
        return 0.0, number
    if not isinstance(value, Ref):
        return None
    if value.step == base:
        return 1.0, 0.0
    step = steps[value.step]
    if step.name in SIGNS:
        line = _line(step.args[0], base, steps)
        return None if line is None else (-line[0], -line[1])
    if step.name not in _TIMES or len(step.args) != 2:
        return None
    lines = [_line(argument, base, steps) for argument in step.args]
    if lines[0] is None or lines[1] is None or 0 not in (lines[0][0], lines[1][0]):
        return None
    # A line times a constant: the one with slope 0 is the factor.
    (slope, offset), factor = sorted((lines[0], lines[1]), key=lambda line: line[0] == 0)
    return slope * factor[1], offset * factor[1]
