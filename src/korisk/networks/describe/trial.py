"""Whether recorded steps are the module: on the example, once more, and on another input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from korisk.networks.describe.trace.calls import RANDOM
from korisk.networks.describe.trace.recording import CannotFollow
from korisk.networks.describe.trace.steps import Frame, Recording, Step, mapped

_COARSE = (torch.float16, torch.bfloat16)


def check_steady(first: Recording, second: Recording, root: Frame) -> None:
    """Give up on what two runs on the same input do differently.

    Modules that are taken whole are left out: theirs is a stated constant, or one that is sampled.
    """
    steps, others = first.steps, second.steps
    if _names(first) != _names(second):
        raise CannotFollow(root, RANDOM)
    values = {step.index: step.value for step in steps}
    for step, other in zip(steps, others, strict=True):
        if step.module is None and not (_same_constants(step, other) and _repeats(step, values)):
            raise CannotFollow(step.frames[-1] if step.frames else root, RANDOM)


def _same_constants(one: Step, other: Step) -> bool:
    pairs = zip(_leaves(one), _leaves(other), strict=False)
    return len(_leaves(one)) == len(_leaves(other)) and all(_same(*pair) for pair in pairs)


def _leaves(step: Step) -> list[Any]:
    found: list[Any] = []
    mapped((step.args, step.kwargs), found.append)
    return found


def _same(one: Any, other: Any) -> bool:
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


def check_reproduces(
    module: nn.Module,
    recording: Recording,
    example: Tensor,
    root: Frame,
    recorded: Callable[[Tensor], Recording],
) -> None:
    """Give up where the recorded steps are not the module, so that something was missed.

    Where values decide the way, another input may go another one: then a nearer one is taken, and
    it says nothing if it does. A module that is taken whole and differs from call to call leaves
    nothing to compare.
    """
    if _is_random(recording):
        return
    value = recording.steps[recording.output].value
    with torch.no_grad():
        found = _replayed(recording, example)
    if not _close(found, value, slack=_slack(value - value.mean(), value)):
        raise CannotFollow(root, "its steps do not give its output again")
    other = _beside(example, near=bool(recording.branches))
    try:
        if recording.branches and _names(recorded(other)) != _names(recording):
            return
        with torch.no_grad():
            expected = module(other.clone())
    except Exception:  # it does not take such inputs, so they say nothing
        return
    with torch.no_grad():
        # What changes with the input, so that a large offset hides nothing.
        moved = expected - value
        again = _replayed(recording, other) - value
    if not _close(again, moved, slack=_slack(moved, expected)):
        raise CannotFollow(root, "its steps do not give its output for other inputs")


def _beside(example: Tensor, *, near: bool) -> Tensor:
    part = 0.1 if not near or example.dtype in _COARSE else 1e-3
    drawn = torch.randn(example.shape, generator=torch.Generator().manual_seed(2))
    return example + part * float(example.abs().max() or 1) * drawn.to(example)


def _names(recording: Recording) -> list[str]:
    return [step.name for step in recording.steps]


def _is_random(recording: Recording) -> bool:
    """Whether a module that is taken whole gives something else every time."""
    values = {step.index: step.value for step in recording.steps}
    return not all(_repeats(step, values) for step in recording.steps if step.module is not None)


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
