"""Differences behind a value as a linear map of its own difference, and what that leaves over.

For two runs on the set let d be the difference of a first value, and d_k that of step k. With the
linear parts C of steps, d_k = J_k d + e_k, J_k being the product of the C along all paths, and
|e_k| <= radius |d|: a step moves the errors of its inputs on by its constants, and adds its own
rest, at most R times how far its inputs move. So |J_k| + radius is a constant of value k, close to
the largest slope where the set is small. docs/explanation/theory.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from korisk.networks.describe import rules
from korisk.networks.describe.absolute import absolute, at_zero, is_summed
from korisk.networks.describe.recording import Step

MOST_COLUMNS, MOST_ENTRIES = 512, 2**21  # of J
ROUNDING = 1e-9  # relative, of sums and singular values in doubles


@dataclass(frozen=True, eq=False)
class Affine:
    """J and a bound of e, where the first value moves by 1, Eq. (eq:affine)."""

    jacobian: Tensor  # (entries of the value, entries of the first value)
    ends: Tensor  # of e, entry by entry
    radius: float  # of e

    @cached_property
    def stretch(self) -> float:
        """|J|."""
        return float(torch.linalg.matrix_norm(self.jacobian, 2)) * (1 + ROUNDING)

    @property
    def constant(self) -> float:
        """By how much the value moves at most."""
        return self.stretch + self.radius

    @property
    def moves(self) -> Tensor:
        """By how much each entry of the value moves at most."""
        rows: Tensor = self.jacobian.norm(dim=1)
        return rows.reshape(self.ends.shape) * (1 + ROUNDING) + self.ends


def first(value: Tensor) -> Affine | None:
    """The first value itself; None where it is too large."""
    if not value.is_floating_point() or value.numel() > MOST_COLUMNS:
        return None
    identity = torch.eye(value.numel(), dtype=torch.float64, device=value.device)
    return Affine(identity, torch.zeros_like(value, dtype=torch.float64), 0.0)


def affine_upper(start: Step, steps: Sequence[Step], is_linear: Callable[[Step], bool]) -> float:
    """A constant of the last of some steps in the value of `start`; infinite where none is found.

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
    """The form behind a step, from those of the values that it takes; None: not known."""
    on_set = step.on_set
    value = step.value
    columns = forms[0].jacobian.shape[1]
    if on_set is None or not value.is_floating_point() or columns * value.numel() > MOST_ENTRIES:
        return None
    if not all(map(math.isfinite, on_set.constants or ())):
        return None
    shapes = [form.ends.shape for form in forms]
    ends: Tensor | None = None
    rest = 0.0
    if linear:
        zero = at_zero(step, [form.ends for form in forms])

        def along(values: dict[int, Tensor]) -> Tensor:
            return step.replay(values, double=True) - zero

        moved = _moved(step, forms, [form.radius for form in forms])
        limit = _moved(step, forms, [form.constant for form in forms])
        if is_summed(step):
            ends = absolute(step, [form.ends for form in forms])
    elif on_set.bend is not None and on_set.constants is not None:
        bend = on_set.bend
        along = bend.linear
        pairs = zip(on_set.constants, forms, strict=True)
        moved = math.fsum(constant * form.radius for constant, form in pairs)
        rest = _rest(step, forms)
        limit = math.fsum(
            c * form.constant for c, form in zip(on_set.constants, forms, strict=True)
        )
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
        for column in range(columns):
            parts = zip(step.parents, forms, shapes, strict=True)
            basis = {p: form.jacobian[:, column].reshape(shape) for p, form, shape in parts}
            rows.append(along(basis).reshape(-1))
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
    """How far a linear step moves where its inputs move by these lengths."""
    assert step.on_set is not None
    if step.on_set.gain is not None:
        return float(step.on_set.gain.bracket.upper) * math.hypot(*lengths)
    joined = rules.join(step, [form.ends for form in forms], lengths)
    return math.inf if joined is None else joined


def _rest(step: Step, forms: Sequence[Affine]) -> float:
    """|R d| at most: by the entries' own moves, or by the largest factor in R."""
    assert step.on_set is not None and step.on_set.bend is not None  # noqa: PT018
    moved = step.on_set.bend.moved
    moves = dict(zip(step.parents, (form.moves for form in forms), strict=True))
    largest = moved({place: torch.ones_like(value) for place, value in moves.items()})
    # A value that is spread over many entries counts as often.
    spread = [
        form.constant * math.sqrt(max(1.0, step.value.numel() / max(form.ends.numel(), 1)))
        for form in forms
    ]
    by_largest = float(largest.max()) * math.hypot(*spread) if largest.numel() else 0.0
    return min(float(moved(moves).norm()), by_largest)
