"""Constants of maxima over windows, and of Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from korisk.networks.describe.rules.brackets import ROUNDING, Rule, exactly, one, option
from korisk.networks.describe.trace.steps import Step
from korisk.theory.bracket import NormBracket


def max_pool(dims: int) -> Rule:
    """Maxima of windows: an entry that is the largest of all shows in each window it is in."""

    def rule(step: Step, x: Tensor) -> NormBracket:
        kernel = _each(option(step, 1, "kernel_size", None), dims)
        given = option(step, 2, "stride", None)
        stride = kernel if given is None or given in ([], ()) else _each(given, dims)
        padding = _each(option(step, 3, "padding", 0), dims)
        dilation = _each(option(step, 4, "dilation", 1), dims)
        sizes = zip(x.shape[-dims:], step.value.shape[-dims:], strict=True)
        most = 1
        for axis, (length, windows) in enumerate(sizes):
            reach = [
                range(start, start + kernel[axis] * dilation[axis], dilation[axis])
                for start in (w * stride[axis] - padding[axis] for w in range(windows))
            ]
            most *= _most_windows(reach, length)
        return _max_bracket(most)

    return rule


def adaptive_max_pool(dims: int) -> Rule:
    """Maxima of windows that are as many as asked for."""

    def rule(step: Step, x: Tensor) -> NormBracket:
        most = 1
        for length, windows in zip(x.shape[-dims:], step.value.shape[-dims:], strict=True):
            reach = [
                range(w * length // windows, -(-(w + 1) * length // windows))
                for w in range(windows)
            ]
            most *= _most_windows(reach, length)
        return _max_bracket(most)

    return rule


def _max_bracket(most: int) -> NormBracket:
    how = "maxima: root of the most windows that an entry is in"
    return one("maxima of windows that do not overlap") if most == 1 else exactly(most**0.5, how)


def _most_windows(windows: list[range], length: int) -> int:
    counts = [0] * length
    for window in windows:
        for place in window:
            if 0 <= place < length:
                counts[place] += 1
    return max(counts, default=1)


def _each(given: Any, dims: int) -> tuple[int, ...]:
    several = tuple(given) if isinstance(given, list | tuple) else (given,)
    return several * dims if len(several) == 1 else several


def fourier(inverse: bool, halved: bool) -> Rule:
    """Discrete Fourier transforms are unitary times a power of their length."""

    def rule(step: Step, x: Tensor) -> NormBracket | None:
        if any(option(step, 1, key, None) is not None for key in ("n", "s")):
            return None  # padded or cut
        larger = step.value if inverse and halved else x  # the side that is not halved
        dims = option(step, 2, "dim", None)
        if dims is None:
            dims = {"": -1, "2": (-2, -1), "n": tuple(range(x.ndim))}[_kind(step.name)]
        lengths = [
            larger.shape[dim] for dim in (dims if isinstance(dims, list | tuple) else [dims])
        ]
        norm = option(step, 3, "norm", None) or "backward"
        power = {"ortho": 0.0, "backward": -0.5 if inverse else 0.5}.get(norm)
        if power is None:
            power = 0.5 if inverse else -0.5
        upper = math.prod(lengths) ** power
        if halved:  # half of the spectrum counts twice on the way back, once on the way there
            upper *= math.sqrt(2) if inverse else 1.0
            return NormBracket(0.0, upper * (1 + ROUNDING), how="Fourier transform, half spectrum")
        return exactly(upper, "Fourier transform: unitary times its scale")

    return rule


def _kind(name: str) -> str:
    return name[-1] if name[-1] in "2n" else ""
