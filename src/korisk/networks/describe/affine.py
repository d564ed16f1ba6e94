"""Differences behind a value as a linear map of its own difference, and what that leaves over.

For two runs on the set let d be the difference of a first value, and d_k that of step k. With the
linear parts C of steps, d_k = J_k d + e_k, J_k being the product of the C along all paths, and
|e_k| <= radius |d|: a step moves the errors of its inputs on by its constants, and adds its own
rest, at most R times how far its inputs move. So |J_k| + radius is a constant of value k, close to
the largest slope where the set is small: eq:affine in docs/explanation/theory.md, with its proof.
`absolute` is what a linear step does to absolute values, |f| w, for boxes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from korisk.networks.describe import rules
from korisk.networks.describe.linear import words
from korisk.networks.describe.recording import Step
from korisk.networks.describe.rules import option
from korisk.operators.linear import LinearOperator
from korisk.operators.norms import largest_singular_value

MOST_COLUMNS, MOST_ENTRIES = 512, 2**21  # of J
ROUNDING = 1e-9  # relative, of sums and singular values in doubles
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
).union(rules._NONNEGATIVE, rules._CONCATENATES)

Change = Callable[[object], object] | None  # of the constants of a step


@dataclass(frozen=True, eq=False)
class Affine:
    """J and a bound of e, where the first value moves by 1, Eq. (eq:affine)."""

    jacobian: Tensor  # (entries of the value, entries of the first value)
    ends: Tensor  # of e, entry by entry
    radius: float  # of e

    @cached_property
    def stretch(self) -> float:
        """|J|."""
        return float(largest_singular_value(self.jacobian)) * (1 + ROUNDING)

    @property
    def constant(self) -> float:
        """Largest change of the value, |J| + radius."""
        return self.stretch + self.radius

    @property
    def moves(self) -> Tensor:
        """Largest change of each entry of the value."""
        rows: Tensor = self.jacobian.norm(dim=1)
        return rows.reshape(self.ends.shape) * (1 + ROUNDING) + self.ends


def first(value: Tensor) -> Affine | None:
    """The form of the first value itself; None if it has too many entries."""
    if not value.is_floating_point() or value.numel() > MOST_COLUMNS:
        return None
    # d_0 = d: the difference of the first value is its own linear map.
    identity = torch.eye(value.numel(), dtype=torch.float64, device=value.device)
    return Affine(identity, torch.zeros_like(value, dtype=torch.float64), 0.0)


def affine_upper(start: Step, steps: Sequence[Step], is_linear: Callable[[Step], bool]) -> float:
    """Lipschitz constant from the value of `start` to the last step; infinite if unknown.

    Every step but the first value's has its range on the set.
    """
    form = first(start.value)
    if form is None:
        return math.inf
    forms = {start.index: form}
    for step in steps:
        parents = [forms.get(parent) for parent in step.parents]
        known = [parent_form for parent_form in parents if parent_form is not None]
        if len(known) < len(parents):
            return math.inf
        behind = after(step, known, linear=is_linear(step))
        if behind is None:
            return math.inf
        forms[step.index] = behind
    return forms[steps[-1].index].constant


def after(step: Step, forms: Sequence[Affine], *, linear: bool) -> Affine | None:
    """The form behind a step from those of its inputs; None if unknown."""
    on_set = step.on_set
    value = step.value
    columns = forms[0].jacobian.shape[1]
    if on_set is None or not value.is_floating_point() or columns * value.numel() > MOST_ENTRIES:
        return None
    if not all(map(math.isfinite, on_set.constants or ())):
        return None
    # Three cases: a linear step, one with a linear part C and a rest R, and one of which only a
    # constant is known.
    shapes = [form.ends.shape for form in forms]
    ends: Tensor | None = None
    rest = 0.0
    if linear:
        # An affine step without its constant.
        zero = at_zero(step, [form.ends for form in forms])

        def along(values: dict[int, Tensor]) -> Tensor:
            return step.replay(values, double=True) - zero

        moved = _moved(step, forms, [form.radius for form in forms])
        # How far the value moves by constants alone, in units of |d|.
        limit = _moved(step, forms, [form.constant for form in forms])
        if is_summed(step):
            ends = absolute(step, [form.ends for form in forms])
    elif on_set.bend is not None and on_set.constants is not None:
        bend = on_set.bend
        along = bend.linear
        pairs = list(zip(on_set.constants, forms, strict=True))
        moved = math.fsum(constant * form.radius for constant, form in pairs)
        limit = math.fsum(constant * form.constant for constant, form in pairs)
        rest = _rest(step, forms)
        if bend.slopes is not None:
            ends = torch.zeros_like(value, dtype=torch.float64)
            for (middle, half), form in zip(bend.slopes, forms, strict=True):
                ends = ends + middle.abs() * form.ends + half * form.moves
    else:  # all of it is left over
        constants = on_set.constants
        if constants is None:
            constants = () if on_set.gain is None else (on_set.gain.bracket.upper,)
        if len(constants) != len(forms) or not all(map(math.isfinite, constants)):
            return None
        total = math.fsum(c * form.constant for c, form in zip(constants, forms, strict=True))
        nothing = torch.zeros(value.numel(), columns, dtype=torch.float64, device=value.device)
        return Affine(nothing, torch.full_like(value, total, dtype=torch.float64), total)
    if math.isinf(moved):
        return None
    rows = []
    with torch.no_grad():
        # The step is replayed on each column of J: J_k = sum_j C_kj J_j.
        for column in range(columns):
            parts = zip(step.parents, forms, shapes, strict=True)
            basis = {p: form.jacobian[:, column].reshape(shape) for p, form, shape in parts}
            rows.append(along(basis).reshape(-1))
    # Eq. eq:affine: constants times the rests of the inputs, and the rest of this step.
    radius = (moved + rest) * (1 + ROUNDING)
    if ends is not None:
        ends = ends * (1 + ROUNDING)
        radius = min(radius, float(ends.norm()) * (1 + ROUNDING))
        ends = ends.clamp_max(radius)
    else:
        ends = torch.full_like(value, radius, dtype=torch.float64)
    form = Affine(torch.stack(rows, 1), ends, radius)
    if radius <= limit:
        return form
    # The constants multiplied say more: all of it is left over.
    return Affine(torch.zeros_like(form.jacobian), form.moves.clamp_max(limit), limit)


def _moved(step: Step, forms: Sequence[Affine], lengths: list[float]) -> float:
    """Largest change of a linear step when its inputs change by these lengths."""
    assert step.on_set is not None
    if step.on_set.gain is not None:
        return float(step.on_set.gain.bracket.upper) * math.hypot(*lengths)
    joined = rules.join(step, [form.ends for form in forms], lengths)
    return math.inf if joined is None else joined


def _rest(step: Step, forms: Sequence[Affine]) -> float:
    """Bound on |R d|: by the changes of entries, or by the largest factor in R."""
    assert step.on_set is not None and step.on_set.bend is not None  # noqa: PT018
    moved = step.on_set.bend.moved
    moves = dict(zip(step.parents, (form.moves for form in forms), strict=True))
    # R scales entries, so that |R| is at most its largest factor.
    largest = moved({place: torch.ones_like(value) for place, value in moves.items()})
    # A value that is spread over many entries counts as often.
    spread = [
        form.constant * math.sqrt(max(1.0, step.value.numel() / max(form.ends.numel(), 1)))
        for form in forms
    ]
    by_largest = float(largest.max()) * math.hypot(*spread) if largest.numel() else 0.0
    return min(float(moved(moves).norm()), by_largest)


# --- Linear steps on absolute values: |f| w, entry by entry --------------------------------------


def is_summed(step: Step) -> bool:
    """Whether the absolute terms of a linear step can be computed."""
    if isinstance(step.module, LinearOperator):
        return bool(step.module.nonnegative)
    if step.name in ("interpolate", "upsample"):
        return bool(option(step, 3, "mode", "nearest") != "bicubic")
    names = _SIGNED | _UNSIGNED | rules._ADDING | {"batch_norm", "centred"}
    return rules.folded(step) or step.name in names


def absolute(step: Step, widths: Sequence[Tensor]) -> Tensor:
    """|f| w: largest change of each entry of a linear step when its inputs change by w."""
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
    """Run a step on other inputs, and with other constants if `change` is given."""
    by_parent = dict(zip(step.parents, values, strict=True))
    with torch.set_grad_enabled(any(value.requires_grad for value in values)):
        return step.replay(by_parent, double=True, constants=change)
