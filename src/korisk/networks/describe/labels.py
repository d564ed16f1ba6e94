"""What layers are called: by modules' paths, operators' names, parameters or functions."""

from __future__ import annotations

from torch import nn

from korisk.networks.describe.chain import Link, is_torch_layer
from korisk.networks.describe.marks import Mark, mark_of
from korisk.networks.describe.trace.steps import Frame, Step
from korisk.operators.linear import LinearOperator

_NAMES = {
    "relu": "ReLU",
    "gelu": "GELU",
    "silu": "SiLU",
    "elu": "ELU",
    "selu": "SELU",
    "leaky_relu": "LeakyReLU",
    "__getitem__": "index",
}


def link_label(link: Link, paths: dict[int, str]) -> str:
    """A link by its step, by the module that it is all of, or from its first step to its last."""
    first, last = link.core[0], link.core[-1]
    if len(link.core) == 1:
        return _own_label(first, paths)
    common = [one for one, other in zip(first.frames, last.frames, strict=False) if one == other]
    for frame in reversed(common):
        if (frame.path or is_torch_layer(frame)) and _is_all_of(link, frame):
            return _place(frame.path, frame.module)
    return f"{step_label(first)} to {step_label(last)}"


def _is_all_of(link: Link, frame: Frame) -> bool:
    """Whether nothing of a module's call lies outside the link."""
    inside = [step.index for step in link.all_steps if frame in step.frames]
    return link.start.index < inside[0] and inside[-1] <= link.steps[-1].index


def _own_label(step: Step, paths: dict[int, str]) -> str:
    frame = step.frames[-1] if step.frames else None
    if step.module is not None or (frame is not None and is_torch_layer(frame)):
        return step_label(step)
    used = [paths[id(tensor)] for tensor in step.trained if id(tensor) in paths]
    return used[0] if used else step_label(step)


def step_label(step: Step) -> str:
    """A step by its mark, its operator, the layer of torch that it is in, or its function."""
    mark = step_mark(step)
    if mark is not None and mark.name:
        return mark.name
    if isinstance(step.module, LinearOperator):
        return step.module.name
    frame = step.frames[-1] if step.frames else None
    if frame is not None and (step.module is not None or is_torch_layer(frame)):
        return _place(frame.path, frame.module)
    name = _NAMES.get(step.name, step.name.strip("_"))
    return f"{frame.path}.{name}" if frame is not None and frame.path else name


def _place(path: str, module: nn.Module) -> str:
    """A module by its path, with its kind where the path is a mere number."""
    kind = type(module).__name__
    if not path:
        return kind
    return f"{path} {kind}" if path.rsplit(".", 1)[-1].isdigit() else path


def step_mark(step: Step) -> Mark | None:
    """The mark of the module that a step takes whole."""
    return None if step.module is None else mark_of(step.module)
