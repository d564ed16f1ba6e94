"""What linear steps do to absolute values: |f| w, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from korisk.networks.describe import rules
from korisk.networks.describe.linear import words
from korisk.networks.describe.recording import Step
from korisk.networks.describe.rules import option
from korisk.operators.linear import LinearOperator

TIMES = words("mul multiply __mul__ __rmul__")
OVER = words("div divide true_divide __truediv__")
PRODUCTS = words("matmul __matmul__ mm bmm")
FILTERS = words(  # sums of entries, each times one constant
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d mv"
).union(PRODUCTS, TIMES)
_SIGNED = words("einsum tensordot __rmatmul__").union(FILTERS, OVER)  # by absolute constants
_UNSIGNED = words(  # sums of entries with factors >= 0, whatever the constants
    "pad unfold fold expand_as repeat_interleave broadcast_to index_select gather take "
    "take_along_dim tril triu trace masked_fill where __getitem__ __setitem__ diag diag_embed"
).union(rules._NONNEGATIVE, rules._ROOTS)

Change = Callable[[object], object] | None  # of the constants of a step


def is_summed(step: Step) -> bool:
    """Whether the absolute terms of a linear step can be computed."""
    if isinstance(step.module, LinearOperator):
        return bool(step.module.nonnegative)
    if step.name in ("interpolate", "upsample"):
        return bool(option(step, 3, "mode", "nearest") != "bicubic")
    names = _SIGNED | _UNSIGNED | rules._ADDING | {"batch_norm", "centred"}
    return rules.folded(step) or step.name in names


def absolute(step: Step, widths: Sequence[Tensor]) -> Tensor:
    """|f| w: by how much a linear step may move where its inputs move by w, entry by entry."""
    shape = step.value.shape
    if step.name in rules._ADDING:
        size = max(1.0, abs(float(option(step, 2, "alpha", 1))))
        return cast(Tensor, sum(size * width.expand(shape) for width in widths))
    if step.name == "centred":
        axes = tuple(range(-int(step.args[1]), 0))
        return widths[0] + widths[0].mean(axes, keepdim=True)
    numbers = step.name in TIMES | OVER

    def positive(leaf: object) -> object:
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            return leaf.abs()
        return abs(leaf) if numbers and isinstance(leaf, int | float) else leaf

    change = positive if step.name in _SIGNED else None
    return (replayed(step, widths, change) - at_zero(step, widths, change)).abs()


def at_zero(step: Step, like: Sequence[Tensor], change: Change = None) -> Tensor:
    """A step where all its inputs are 0: the constant part of an affine one."""
    return replayed(step, [torch.zeros_like(value) for value in like], change)


def replayed(step: Step, values: Sequence[Tensor], change: Change = None) -> Tensor:
    """A step on other values of its inputs, with other constants if asked."""
    by_parent = dict(zip(step.parents, values, strict=True))
    with torch.set_grad_enabled(any(value.requires_grad for value in values)):
        return step.replay(by_parent, double=True, constants=change)
