"""Checks by running: whether recorded steps are the module, and slopes as lower constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from korisk.networks.describe.linear import pulled_back
from korisk.networks.describe.recording import RANDOM, CannotFollow
from korisk.networks.describe.steps import Recording, Step, mapped

_COARSE = (torch.float16, torch.bfloat16)
_DIRECTIONS = 8
_SCALES = (1e-2, 0.3, 1.0)
_POWER_STEPS = 12
_SLACK = {torch.float64: 1e-9, torch.float32: 1e-3}  # what rounding may add to a quotient

Function = Callable[[Tensor], Tensor]


def check_steady(first: Recording, second: Recording) -> None:
    """Give up on what two runs on the same input do differently.

    Modules that are taken whole are left out: their constant is stated, or sampled.
    """
    if _names(first) != _names(second):
        raise CannotFollow(first.root, RANDOM)
    values = {step.index: step.value for step in first.steps}
    for step, other in zip(first.steps, second.steps, strict=True):
        if step.module is not None:
            continue
        ours, theirs = _leaves(step), _leaves(other)
        same = len(ours) == len(theirs) and all(map(_same, ours, theirs))
        if not (same and _repeats(step, values)):
            raise CannotFollow(step.frames[-1] if step.frames else first.root, RANDOM)


def check_reproduces(
    module: nn.Module,
    recording: Recording,
    example: Tensor,
    recorded: Callable[[Tensor], Recording],
) -> None:
    """Give up where the recorded steps are not the module, so that something was missed.

    Where values decide the way, another input may go another one: then a nearer input is used, and
    it proves nothing if it does. A module that is taken whole and differs from call to call leaves
    nothing to compare.
    """
    values = {step.index: step.value for step in recording.steps}
    if not all(_repeats(step, values) for step in recording.steps if step.module is not None):
        return
    value = values[recording.output]
    found = _replayed(recording, example)
    if not _close(found, value, slack=_slack(value - value.mean(), value)):
        raise CannotFollow(recording.root, "its steps do not give its output again")
    near = recording.branches and example.dtype not in _COARSE
    drawn = torch.randn(example.shape, generator=torch.Generator().manual_seed(2))
    size = (1e-3 if near else 0.1) * float(example.abs().max() or 1)
    other = example + size * drawn.to(example)
    try:
        if recording.branches and _names(recorded(other)) != _names(recording):
            return
        with torch.no_grad():
            expected = module(other.clone())
    except Exception:  # it does not take such inputs, so they prove nothing
        return
    # What changes with the input, so that a large offset hides nothing.
    with torch.no_grad():
        moved = expected - value
    again = _replayed(recording, other) - value
    if not _close(again, moved, slack=_slack(moved, expected)):
        raise CannotFollow(recording.root, "its steps do not give its output for other inputs")


def _names(recording: Recording) -> list[str]:
    return [step.name for step in recording.steps]


def _leaves(step: Step) -> list[Any]:
    found: list[Any] = []
    mapped((step.args, step.kwargs), found.append)
    return found


def _same(one: Any, other: Any) -> bool:
    """Whether two arguments are the same constants."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.layout != torch.strided:  # torch compares no sparse ones; the next check does
            return one.layout == other.layout
        return one.shape == other.shape and _close(one, other, slack=0.0)
    if isinstance(one, int | float | str) and isinstance(other, int | float | str):
        return one == other
    return True


def _repeats(step: Step, values: dict[int, Tensor]) -> bool:
    """Whether the step alone gives the same twice: bernoulli or dropout that stays on do not."""
    if not step.parents:
        return True
    with torch.no_grad():
        return _close(step.replay(values), step.replay(values), slack=0.0)


@torch.no_grad()
def _replayed(recording: Recording, x: Tensor) -> Tensor:
    values = {0: x}
    for step in recording.leading_to(recording.output):
        values[step.index] = step.replay(values)
    return values[recording.output]


def _slack(moved: Tensor, whole: Tensor) -> float:
    """What rounding may change: a part of the movement, and the last digits of the whole."""
    part = 0.05 if whole.dtype in _COARSE else 1e-3
    digits = 4 * torch.finfo(whole.dtype).eps
    return part * float(moved.abs().max()) + digits * float(whole.abs().max())


def _close(one: Tensor, other: Tensor, *, slack: float) -> bool:
    return torch.allclose(one, other, rtol=1e-6, atol=slack, equal_nan=True)


def largest_slope(function: Function, point: Tensor) -> float:
    """The largest slope found near a point, less what rounding may have added.

    Pairs of points at several distances, and small steps along the direction in which the
    Jacobian stretches most, at the point and beside it, where torch can form the Jacobian.
    """
    point = point.detach()
    if not point.is_floating_point():
        return 0.0
    generator = torch.Generator().manual_seed(0)
    scale = float(point.norm()) / max(point.numel(), 1) ** 0.5 or 1.0

    def draw() -> Tensor:
        return torch.randn(point.shape, generator=generator, dtype=torch.float64).to(point)

    found = [0.0]
    for _ in range(_DIRECTIONS):
        for size in _SCALES:
            start = point + scale * size * draw()
            found.append(_quotient(function, point, start))
            found.append(_quotient(function, start, start + 0.1 * scale * draw()))
    for start in (point, point + scale * draw()):
        length = 0.01 * scale * point.numel() ** 0.5
        steepest = _steepest(function, start, draw(), length)
        step = length * steepest / steepest.norm()
        found += [_quotient(function, start, start + sign * step) for sign in (-1, 1)]
    slack = _SLACK.get(point.dtype, 0.05)
    return max(value for value in found if value < float("inf")) * (1 - slack)


@torch.no_grad()
def _quotient(function: Function, one: Tensor, two: Tensor) -> float:
    apart = float((one - two).norm())
    ends = [function(one), function(two)]
    if not (ends[0].is_floating_point() or ends[0].is_complex()):
        ends = [end.to(torch.float64) for end in ends]
    return float((ends[0] - ends[1]).norm()) / apart if apart > 0 else 0.0


def _steepest(function: Function, point: Tensor, direction: Tensor, length: float) -> Tensor:
    """The direction in which the Jacobian stretches most, by power iteration.

    Forward by a step of some length, back by a vector-Jacobian product. Only the direction is used:
    a function may state a derivative that is not its own.
    """
    try:
        point = point.clone().requires_grad_()
        with torch.enable_grad():
            at = function(point)
        for _ in range(_POWER_STEPS):
            step = length * direction / direction.norm()
            with torch.no_grad():
                image = function(point + step) - at
            back = pulled_back(at, point, image)
            if not 0 < float(back.norm()) < float("inf"):
                break
            direction = back
    except Exception:  # whatever torch or the user's code cannot do under autograd
        return direction
    return direction
