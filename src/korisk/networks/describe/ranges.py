"""Ranges of all values of a module on a set of inputs, and the slopes that occur there.

Every value has a box and a ball around its value at the set's center; each is derived from those of
the values that a step takes, and narrows the other. On these a step has constants in its inputs,
and many have more: a linear part C and a rest with |f(a) - f(b) - C(a - b)| <= |R(a - b)|, which
`sectors` uses for whole networks. docs/explanation/theory.md proves the rules.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from korisk.networks.describe import affine, patterns, rules
from korisk.networks.describe.affine import OVER, TIMES, at_zero, replayed
from korisk.networks.describe.graph import Inside, Link
from korisk.networks.describe.linear import pulled_back, words
from korisk.networks.describe.marks import has_box_constant, mark_of
from korisk.networks.describe.recording import Recording, Ref, Step
from korisk.networks.describe.rules import ROUNDING, Gain, option
from korisk.networks.describe.sectors import sector_upper
from korisk.networks.describe.sets import InputSet
from korisk.operators.linear import LinearOperator
from korisk.operators.norms import largest_singular_value
from korisk.theory.bracket import NormBracket

# Ranges are widened by these shares of the numbers in them, and of the absolute terms of sums: far
# above the rounding of doubles, 1e-16 a term.
_WIDER, _WIDER_SUM = 1e-10, 1e-13
_SIDE = 1e-9  # at which both sides of a bend are looked at
_HUGE = 1e30  # stands for infinity where a slope is asked for
_MOST_WAVES = 64  # of sine and cosine whose extremes are listed
_POWER_STEPS = 12
_FAR_FROM_ZERO = 0.5  # of the norm of a group of entries: radii below it leave it its size

_UNDER = words("reciprocal rsqrt __rdiv__ __rtruediv__")
_RISING = words("amax amin logsumexp").union(rules._POOLS, rules._MAXIMA)  # in every entry
_WAVES = words("sin cos")
_POWERS = words("pow __pow__")

_AT_ZERO = words(
    "relu leaky_relu prelu elu celu selu abs absolute square tanh sigmoid expit softsign "
    "tanhshrink erf arctan atan asinh arcsinh"
)
_NOWHERE = words("exp expm1 logsigmoid neg negative log log1p sqrt")
# Where a function turns, or its slope is extreme or jumps: between two such points both are
# monotone. Numbers are roots of the first and second derivatives, to all digits of a double.
_POINTS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(_AT_ZERO, (0.0,)),
    **dict.fromkeys(_NOWHERE, ()),
    "relu6": (0.0, 6.0),
    "hardsigmoid": (-3.0, 3.0),
    "hardswish": (-3.0, -1.5, 3.0),
    "gelu": (-1.4142135623730951, -0.7517915246935645, 1.4142135623730951),
    "silu": (-2.399357280515468, -1.2784645427610737, 2.399357280515468),
    "mish": (-2.256376396360793, -1.192431214515495, 1.490571179485428),
}
_CLAMPS: dict[str, dict[str, float | None]] = {  # their ends, with torch's defaults
    "hardtanh": {"min_val": -1.0, "max_val": 1.0},
    "clamp_min": {"min": None},
    "clamp_max": {"max": None},
}
_GELU_TANH = (-1.418504008790828, -0.7524614220710163, 1.418504008790828)

Values = dict[int, Tensor]
Map = Callable[[Values], Tensor]  # of the values that a step takes


class Bend(NamedTuple):
    """|f(a) - f(b) - C(a - b)| <= |R(a - b)| on the ranges of a and b, Eq. (eq:rest)."""

    # Linear parts of eq:rest in docs/explanation/theory.md: f(a) - f(b) is C (a - b), up to
    # something not longer than R (a - b).
    linear: Map  # C
    moved: Map  # R
    slopes: list[tuple[Tensor, Tensor]] | None = None  # of each entry: middle and half-width


@dataclass(frozen=True, eq=False)
class Range:
    """Range of a step's values on the set, and its constants there."""

    center: Tensor  # in float64: the value at the set's center
    low: Tensor
    high: Tensor
    radius: float  # of the ball around the center
    constants: tuple[float, ...] | None = None  # in each value that the step takes
    gain: Gain | None = None  # of a step with one input
    bend: Bend | None = None
    affine: affine.Affine | None = None  # of the input

    @property
    def reach(self) -> Tensor:
        """The largest distance from the center, entry by entry."""
        return torch.maximum(self.high - self.center, self.center - self.low)

    def contains(self, value: Tensor) -> bool:
        """Whether a value lies in the box and in the ball, up to rounding."""
        if value.is_floating_point():  # complex numbers have no order, and no box
            slack = _WIDER * (self.center.abs() + self.reach)
            inside = (value >= self.low - slack) & (value <= self.high + slack)
            if not bool(inside.all()):
                return False
        far = self.radius * (1 + _WIDER) + _WIDER * float(self.center.norm())
        return float((value - self.center).norm()) <= far

    def slope(self, function: Callable[[Tensor], Tensor]) -> float:
        """The largest slope at a point near the center: a lower end of the constant on the set.

        Not at the center itself, where a function may bend and autograd then names no slope of it.
        """
        if self.center.is_complex():  # has no order, so no point of a box is chosen; 0 is certain
            return 0.0
        # A seed of its own: the slope must not depend on what was drawn before.
        draws = torch.Generator().manual_seed(811_549)
        noise = torch.randn(self.center.shape, generator=draws, dtype=torch.float64)
        noise = noise.to(self.center.device)
        size = 1e-3 * self.radius if math.isfinite(self.radius) else 1e-3
        point = self.center + size * noise / noise.norm()
        point = torch.minimum(torch.maximum(point, self.low), self.high).requires_grad_()
        try:
            with torch.enable_grad():
                value = function(point)
                dual = torch.zeros_like(value, requires_grad=True)
                (back,) = torch.autograd.grad(value, point, dual, create_graph=True)
            # Power iteration on J^T J, without the matrix J.
            direction, slope = noise / noise.norm(), 0.0
            for _ in range(_POWER_STEPS):
                image = pulled_back(back, dual, direction)  # J v, by the derivative of J^T w in w
                slope = float(image.norm() / direction.norm())
                direction = pulled_back(value, point, image)
                if not 0 < float(direction.norm()) < math.inf:
                    break
        except RuntimeError:  # no derivative, or none of second order
            return 0.0
        return slope * (1 - 1e-6) if math.isfinite(slope) else 0.0


class _Rule(NamedTuple):
    """Result of a rule: ends of the box, constants in the inputs, C and R."""

    low: Tensor
    high: Tensor
    constants: tuple[float, ...] | None = None
    bend: Bend | None = None
    how: str = ""


def on_set(recording: Recording, region: InputSet, inside: Inside) -> list[Step]:
    """The steps of a run at the set's center, those behind the output with their ranges."""
    form = affine.first(region.center)
    start = Range(region.center, region.low, region.high, region.radius, affine=form)
    steps, live = list(recording.steps), set(recording.live)
    steps[0] = replace(steps[0], on_set=start)
    for place, step in enumerate(steps[1:], start=1):
        number = step.value.is_floating_point() or step.value.is_complex()
        # Whole numbers, such as indices, have no range.
        if place in live and number:
            steps[place] = replace(step, on_set=_range(step, steps, inside))
            if step.name == "centred":
                before = Recording(steps, place, [], recording.root).leading_to(place)
                link = Link((steps[0],), tuple(before), steps, inside)
                steps[place] = replace(step, on_set=_searched(link, int(step.args[1])))
    return steps


def _range(step: Step, steps: Sequence[Step], inside: Inside) -> Range | None:
    parents = [steps[parent].on_set for parent in step.parents]
    ranges = [domain for domain in parents if domain is not None]
    center = _at_center(step, {place: steps[place] for place in step.parents})
    if center is None:
        return None
    starts = tuple(steps[place] for place in sorted(set(step.inputs)))
    link = Link(starts, (step,), steps, inside)
    # One value that enters once has a gain; several values have a constant each.
    single = len(set(step.inputs)) == 1 and (len(step.parents) == 1 or step.module is not None)
    gain = link.gain(step) if single else None
    known = len(ranges) == len(parents) and not link.rounds(step)
    real = step.value.is_floating_point() and all(r.center.is_floating_point() for r in ranges)
    rule = _rule(step, ranges, center, gain) if known and real else None
    constants = None if rule is None else rule.constants
    if constants is not None and len(constants) == 1 and rule is not None:
        # On its range a step may be flatter than on all inputs.
        if gain is None or constants[0] < gain.bracket.upper:
            linear = step.name == "centred" or (gain is not None and gain.linear)
            gain = Gain(NormBracket(0.0, constants[0], how=rule.how), linear=linear)
        constants = (gain.bracket.upper,)
    radii = [domain.radius for domain in ranges]
    if constants is not None:
        # Triangle inequality over the values that the step takes.
        radius = math.fsum(_product(c, r) for c, r in zip(constants, radii, strict=True))
    elif gain is not None and known:
        radius = _product(gain.bracket.upper, math.hypot(*radii))
    elif known:
        joined = rules.join(step, [steps[place].value for place in step.inputs], radii)
        radius = math.inf if joined is None else joined
    else:
        radius = math.inf
    # A step that a pattern knows as a function of one value moves by its slopes alone.
    line = patterns.pieces(step, steps)
    base = None if line is None else steps[line[0]].on_set
    if line is not None and base is not None:
        radius = min(radius, _product(max(map(abs, line[1:])), base.radius))
    radius = radius * (1 + _WIDER) + _WIDER_SUM * float(center.norm())
    bend = None if rule is None else rule.bend
    if not step.value.is_floating_point():  # complex numbers have no order
        ends = torch.full(center.shape, math.inf, dtype=torch.float64, device=center.device)
        return Range(center, -ends, ends, radius, constants, gain, bend)
    low, high = center - radius, center + radius
    if not real:
        return Range(center, low, high, radius, constants, gain, bend)
    if rule is not None:
        slack = _WIDER * (rule.low.abs() + rule.high.abs())
        low, high = torch.maximum(low, rule.low - slack), torch.minimum(high, rule.high + slack)
    # Infinity minus infinity: nothing is known of such an entry.
    bad = torch.isnan(low) | torch.isnan(high)
    low, high = low.masked_fill(bad, -math.inf), high.masked_fill(bad, math.inf)
    outer = Range(center, low, high, radius, constants, gain, bend)
    # Box and ball narrow each other: |x_i - c_i| <= radius, and radius <= |reach|.
    radius = min(radius, float(outer.reach.norm()) * (1 + _WIDER))
    linear = known and (rules.joins_linearly(step) if gain is None else gain.linear)
    return _narrowed(step, replace(outer, radius=radius), ranges, steps[0].on_set, linear=linear)


def _searched(link: Link, axes: int) -> Range | None:
    """The range before a normalisation, narrowed by a constant of the whole path to it.

    Where a group of entries may vanish, its normalised slopes are as large as eps allows.
    """
    end: Range | None = link.steps[-1].on_set
    start: Range | None = link.start.on_set
    if end is None or start is None:
        return end
    # Groups of entries that are normalised together: (..., groups).
    sizes = end.center.flatten(-axes).norm(dim=-1)
    if end.radius < _FAR_FROM_ZERO * float(sizes.min()):
        return end
    radius = sector_upper(link) * start.radius * (1 + _WIDER) + _WIDER * float(end.center.norm())
    if not radius < end.radius:
        return end
    low, high = end.center - radius, end.center + radius
    low, high = torch.maximum(end.low, low), torch.minimum(end.high, high)
    return replace(end, low=low, high=high, radius=radius)


def _narrowed(
    step: Step, outer: Range, ranges: list[Range], start: Range | None, *, linear: bool
) -> Range:
    """The range narrowed by J and e, which keep cancellations between paths."""
    forms = [domain.affine for domain in ranges if domain.affine is not None]
    if start is None or len(forms) < len(step.parents):
        return outer
    form = affine.after(replace(step, on_set=outer), forms, linear=linear)
    if form is None:
        return outer
    # The input is at most `start.radius` from the center, and each entry at most its reach.
    rows, reach = form.jacobian, start.reach.reshape(-1)
    moves = torch.minimum(rows.norm(dim=1) * start.radius, rows.abs() @ reach)
    moves = moves.reshape(outer.center.shape) + form.ends * start.radius
    moves = moves * (1 + _WIDER) + _WIDER * outer.center.abs()
    radius = form.constant * start.radius * (1 + _WIDER) + _WIDER * float(outer.center.norm())
    return replace(
        outer,
        low=torch.maximum(outer.low, outer.center - moves),
        high=torch.minimum(outer.high, outer.center + moves),
        radius=min(outer.radius, radius, float(moves.norm())),
        affine=form,
    )


def _product(constant: float, radius: float) -> float:
    return 0.0 if 0 in (constant, radius) else constant * radius  # 0 * inf is 0 here


def _at_center(step: Step, parents: dict[int, Step]) -> Tensor | None:
    """The value at the center in double precision; None where it cannot be computed."""
    values = {}
    for place, parent in parents.items():
        values[place] = parent.value if parent.on_set is None else parent.on_set.center
    module = step.module
    with torch.no_grad():
        try:
            if module is None or isinstance(module, LinearOperator):
                value = step.replay(values, double=True)
            else:
                finer = replace(step, function=copy.deepcopy(module).to(torch.float64))
                value = finer.replay(values, double=True)
        except Exception:  # whatever a function or the user's module cannot do in doubles
            return None
    return value if bool(torch.isfinite(value).all()) else None


def _rule(step: Step, ranges: list[Range], center: Tensor, gain: Gain | None) -> _Rule | None:
    """The rule of a step; None where only its constant on all inputs is known."""
    name, refs = step.name, [isinstance(domain, Ref) for domain in step.args]
    module = step.module
    mark = None if module is None else mark_of(module)
    has_constant = mark is not None and mark.lipschitz is not None
    # A stated constant is for all inputs, and goes before that on the box.
    if has_box_constant(module) and len(ranges) == 1 and not has_constant:
        bracket, low, high = module.on_box(ranges[0].low, ranges[0].high)
        return _Rule(low, high, (bracket.upper,), how=bracket.how)
    if module is not None and not isinstance(module, LinearOperator):
        return None
    if name == "centred":
        low, high = _linear_ends(step, ranges)
        return _Rule(low, high, (1.0,), how="less its mean: a projection")
    if name == "unit_rms":
        return _unit_rms(step, ranges[0])
    if name == "softmax" and refs[:1] == [True]:
        return _softmax(step, ranges[0])
    if name in affine.PRODUCTS and refs == [True, True] and not step.kwargs:
        return _matrix_product(step, *ranges)
    if name in TIMES | OVER and refs == [True, True] and not step.kwargs:
        return _product_or_quotient(step, *ranges)
    if len(step.parents) == 1 and (points := _points(step, ranges[0])) is not None:
        # Without a gain on all inputs the arguments are not those that the points are for.
        known = name not in rules.CONSTANTS or gain is not None
        return _bent(step, ranges[0], points) if known else None
    if name in _RISING and step.position in (None, 0):
        low, high = (
            replayed(step, [getattr(domain, end) for domain in ranges]) for end in ("low", "high")
        )
        return _Rule(low, high)
    linear = gain.linear if gain is not None else rules.joins_linearly(step)
    ends_known = all(bool(torch.isfinite(domain.reach).all()) for domain in ranges)
    if linear and ends_known and affine.is_summed(step):
        return _Rule(*_linear_ends(step, ranges))
    return None


# Steps that work entry by entry


def _points(step: Step, domain: Range) -> Sequence[float | Tensor] | None:
    """Points where a function of one value turns or bends; None if unknown."""
    name, x = step.name, domain.center
    if step.value.shape != x.shape:
        return None
    if name in _UNDER or (name in OVER and not isinstance(step.args[0], Ref)):
        return ()
    if not (step.args and isinstance(step.args[0], Ref)):
        return None
    if name in _POWERS:
        return (0.0,) if isinstance(step.args[1], int | float) else None
    if name in _WAVES:
        # Sine and cosine turn, and have extreme slopes, at multiples of pi / 2.
        first, last = (float(end) / (math.pi / 2) for end in (domain.low.min(), domain.high.max()))
        if not last - first < _MOST_WAVES:
            return None
        return [k * math.pi / 2 for k in range(math.floor(first), math.ceil(last) + 1)]
    if name == "gelu" and option(step, 1, "approximate", "none") == "tanh":
        return _GELU_TANH
    if name == "softplus":
        beta = float(option(step, 1, "beta", 1.0))
        return (float(option(step, 2, "threshold", 20.0)) / beta,)
    if name == "softshrink":
        size = float(option(step, 1, "lambd", 0.5))
        return (-size, size)
    if name in ("clamp", "clip", "hardtanh", "clamp_min", "clamp_max"):
        names = _CLAMPS.get(name, {"min": None, "max": None})
        ends = [option(step, 1 + k, *standard) for k, standard in enumerate(names.items())]
        return [torch.as_tensor(end, dtype=torch.float64) for end in ends if end is not None]
    return _POINTS.get(name)


def _bent(step: Step, domain: Range, points: Sequence[float | Tensor]) -> _Rule | None:
    """A function of each entry: both it and its slope are monotone between the points."""
    low, high = domain.low.clamp(-_HUGE, _HUGE), domain.high.clamp(-_HUGE, _HUGE)
    whole_power = step.name in _POWERS and float(step.args[1]).is_integer() and step.args[1] >= 1
    if step.name in _UNDER | OVER or (step.name in _POWERS and not whole_power):
        apart = low > 0
        if step.name not in ("rsqrt", *_POWERS):
            apart = apart | (high < 0)
        if not bool(apart.all()):  # a pole, or roots of numbers below 0
            return None

    def slope(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            value = replayed(step, [x])
        return value.detach(), pulled_back(value, x, torch.ones_like(value))

    # Values and slopes at both ends, and on either side of each point inside.
    pairs = [slope(low), slope(high)]
    for point in points:
        place = torch.as_tensor(point, dtype=torch.float64, device=low.device)
        for side in (-_SIDE, _SIDE):
            near = (place + side * (1 + place.abs())).expand_as(low)
            hit = (low <= near.clamp_min(place)) & (near.clamp_max(place) <= high)
            pairs.append(slope(torch.where(hit, near, low)))
    values, slopes = (torch.stack(tensors) for tensors in zip(*pairs, strict=True))
    if not bool(torch.isfinite(values).all()) or bool(torch.isnan(slopes).any()):
        return None
    # A turning point is missed by `_SIDE`, within which the function moves by less than this.
    missed = 2 * _SIDE * slopes.abs().amax(0)
    low, high = values.amin(0) - missed, values.amax(0) + missed
    low = low.masked_fill(low.abs() > _HUGE / 10, -math.inf)
    high = high.masked_fill(high.abs() > _HUGE / 10, math.inf)
    how = f"largest slope of {step.name} on its range"
    ends = slopes.amin(0), slopes.amax(0)
    return _Rule(low, high, *_by_slopes(step, [domain], [ends]), how)


def _by_slopes(
    step: Step, ranges: list[Range], slopes: list[tuple[Tensor, Tensor]]
) -> tuple[tuple[float, ...], Bend | None]:
    """Constants, C and R from the slopes of each entry in each input, by the mean value theorem.

    An input that is spread over many entries moves them all.
    """
    widened = []
    for low, high in slopes:
        slack = _WIDER * (low.abs() + high.abs())
        widened.append((low - slack, high + slack))
    constants = []
    for domain, (low, high) in zip(ranges, widened, strict=True):
        # An entry that is spread over several has the root of the sum of their squared slopes.
        squares = torch.maximum(low.abs(), high.abs()).square().sum_to_size(domain.center.shape)
        constants.append(float(squares.max()) ** 0.5)
    if not all(map(math.isfinite, constants)):
        return tuple(constants), None
    middle = [(low + high) / 2 for low, high in widened]
    halves = [(high - low) / 2 for low, high in widened]
    # |x + y|^2 <= 2 |x|^2 + 2 |y|^2: with two inputs each half-width counts sqrt(2) times.
    rest = [math.sqrt(len(slopes)) * half for half in halves]
    parents = step.parents

    def linear(values: Values) -> Tensor:
        parts = zip(middle, parents, strict=True)
        return cast(Tensor, sum(factor * values[place] for factor, place in parts))

    def moved(values: Values) -> Tensor:
        parts = zip(rest, parents, strict=True)
        return torch.cat([(factor * values[place]).reshape(-1) for factor, place in parts])

    return tuple(constants), Bend(linear, moved, list(zip(middle, halves, strict=True)))


def _product_or_quotient(step: Step, first: Range, second: Range) -> _Rule | None:
    """u v has the slopes v and u; u / v has 1 / v and -u / v^2, where v is not 0."""
    shape = step.value.shape
    u, v = ((domain.low.expand(shape), domain.high.expand(shape)) for domain in (first, second))
    if step.name in TIMES:
        low, high = _interval_product(u, v)
        if step.parents[0] == step.parents[1]:
            low = low.clamp_min(0.0)
        how = "a product on its ranges: sup|v| and sup|u|"
        return _Rule(low, high, *_by_slopes(step, [first, second], [v, u]), how)
    if not bool(((v[0] > 0) | (v[1] < 0)).all()):
        return None
    # d(u / v) = du / v - u dv / v^2, with 1 / v between these ends.
    inverse = 1 / v[1], 1 / v[0]
    falling = _interval_product((-u[1], -u[0]), _interval_product(inverse, inverse))
    low, high = _interval_product(u, inverse)
    how = "a quotient on its ranges: sup 1/|v| and sup|u|/v^2"
    return _Rule(low, high, *_by_slopes(step, [first, second], [inverse, falling]), how)


def _interval_product(
    first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    corners = torch.stack([a * b for a in first for b in second])
    corners = torch.where(torch.isnan(corners), 0.0, corners)  # 0 times infinity
    return corners.amin(0), corners.amax(0)


# Steps that join entries


def _matrix_product(step: Step, first: Range, second: Range) -> _Rule | None:
    """U V: at most |U| in V and |V| in U, by spectral norms of each matrix of a batch."""
    shapes = first.center.shape, second.center.shape
    if min(map(len, shapes)) < 2 or shapes[0][:-2] != shapes[1][:-2]:
        return None
    reach = first.reach, second.reach
    if not all(bool(torch.isfinite(matrix).all()) for matrix in reach):
        return None
    centers = first.center, second.center
    # |E| <= R entry by entry, so the norm of E is at most that of R, and at most the ball's radius.
    rest = [
        _spectral(matrix).clamp_max(domain.radius)
        for matrix, domain in zip(reach, (first, second), strict=True)
    ]
    most = [_spectral(center) + size for center, size in zip(centers, rest, strict=True)]
    ends = centers[0].abs() @ reach[1] + reach[0] @ centers[1].abs() + reach[0] @ reach[1]
    # U V - U_c V_c = dU V_c + U_c dV + dU dV, entry by entry at most `ends`.
    middle = centers[0] @ centers[1]
    slack = _WIDER_SUM * (centers[0].abs() @ centers[1].abs() + ends)
    first_parent, second_parent = step.parents

    def linear(values: Values) -> Tensor:
        return values[first_parent] @ centers[1] + centers[0] @ values[second_parent]

    def moved(values: Values) -> Tensor:
        parts = (rest[1] * values[first_parent], rest[0] * values[second_parent])
        return math.sqrt(2) * torch.cat([tensor.reshape(-1) for tensor in parts])

    constants = float(most[1].max()), float(most[0].max())
    how = "a product of matrices on its ranges: sup|V| and sup|U|"
    return _Rule(middle - ends - slack, middle + ends + slack, constants, Bend(linear, moved), how)


def _spectral(matrices: Tensor) -> Tensor:
    """Largest singular values, as (..., 1, 1)."""
    return largest_singular_value(matrices)[..., None, None] * (1 + _WIDER)


def _softmax(step: Step, domain: Range) -> _Rule | None:
    """J = diag p - p p^T: |J| <= max 2 p (1 - p), |J(p) - J(q)| <= max|p - q| + |p + q||p - q|."""
    dim = option(step, 1, "dim", None)
    if dim is None or not bool(torch.isfinite(domain.reach).all()):
        return None

    def share(score: Tensor, others: Tensor) -> Tensor:
        shift = torch.maximum(score.amax(dim, keepdim=True), others.amax(dim, keepdim=True))
        exponential, rest = (score - shift).exp(), (others - shift).exp()
        rest = (rest.sum(dim, keepdim=True) - rest).clamp_min(0.0)
        return exponential / (exponential + rest)

    # The share of an entry is least where it is lowest and all others are highest.
    low = (share(domain.low, domain.high) - _WIDER).clamp(0.0, 1.0)
    high = (share(domain.high, domain.low) + _WIDER).clamp(0.0, 1.0)
    # 0 <= J <= max min(2 p (1 - p), p) by Gershgorin, see the table below eq:rest.
    nearest = torch.full_like(low, 0.5).clamp(low, high)  # where p (1 - p) is largest
    flat = (2 * nearest * (1 - nearest)).amax(dim, keepdim=True).clamp_max(0.5)
    flat = torch.minimum(flat, high.amax(dim, keepdim=True)) * (1 + ROUNDING)
    shares = torch.softmax(domain.center, dim)
    apart = torch.maximum(high - shares, shares - low)
    # 2 (p p^T - q q^T) = (p + q)(p - q)^T + (p - q)(p + q)^T, for J = diag(p) - p p^T.
    joint = (shares + high).norm(dim=dim, keepdim=True) * apart.norm(dim=dim, keepdim=True)
    change = (apart.amax(dim, keepdim=True) + joint) * (1 + ROUNDING)
    near = change < flat / 2  # the Jacobian at the center says more than 0 <= J <= flat
    (parent,) = step.parents

    def linear(values: Values) -> Tensor:
        x = values[parent]
        weighed = shares * (x - (shares * x).sum(dim, keepdim=True))
        return torch.where(near, weighed, flat / 2 * x)

    def moved(values: Values) -> Tensor:
        return torch.where(near, change, flat / 2) * values[parent]

    how = "softmax on its range: max 2 p (1 - p)"
    return _Rule(low, high, (float(flat.max()),), Bend(linear, moved), how)


def _unit_rms(step: Step, domain: Range) -> _Rule | None:
    """z / s, s^2 = mean z^2 + eps: 0 <= J <= 1/s, and |J(z) - J(c)| <= 3 |z - c| / (sqrt n s^2)."""
    axes = tuple(range(-int(step.args[1]), 0))
    eps, z, reach = float(step.args[2]), domain.center, domain.reach
    entries = math.prod(z.shape[axis] for axis in axes)
    # All of shape (..., 1): one group of entries is normalised by one number.
    distance = reach.square().sum(axes, keepdim=True).sqrt().clamp_max(domain.radius)
    size = z.square().sum(axes, keepdim=True).sqrt()
    # Of the box, the entry nearest to 0.
    nearest = torch.zeros_like(z).clamp(domain.low, domain.high).square().sum(axes, keepdim=True)
    least = torch.maximum((size - distance).clamp_min(0.0).square(), nearest) / entries + eps
    least = (least * (1 - _WIDER)).sqrt()
    most = (((size + distance).square() / entries + eps) * (1 + _WIDER)).sqrt()
    if not bool((least > 0).all()):
        return None
    steepest = 1 / least
    scale = (size.square() / entries + eps).sqrt()
    # J = (I - w w^T) / s with w = z / (sqrt(n) s) and s^2 = |z|^2 / n + eps.
    along = z / (scale * math.sqrt(entries))
    # |dJ| <= 3 |h| / (sqrt(n) s^2) along a direction h; s is at least `least`.
    change = 3 * distance / (math.sqrt(entries) * least.square())
    near = change < steepest / 2
    (parent,) = step.parents

    def linear(values: Values) -> Tensor:
        x = values[parent]
        flat = (x - along * (along * x).sum(axes, keepdim=True)) / scale
        return torch.where(near, flat, steepest / 2 * x)

    def moved(values: Values) -> Tensor:
        return torch.where(near, change, steepest / 2) * values[parent]

    bound = math.sqrt(entries)
    low = torch.where(domain.low > 0, domain.low / most, domain.low / least).clamp(-bound, bound)
    high = torch.where(domain.high < 0, domain.high / most, domain.high / least).clamp(
        -bound, bound
    )
    how = "1 / sqrt(least variance on its range + eps)"
    return _Rule(low, high, (float(steepest.max()) * (1 + ROUNDING),), Bend(linear, moved), how)


def _linear_ends(step: Step, ranges: list[Range]) -> tuple[Tensor, Tensor]:
    """f(middle) -/+ |f| half-width, or f(center) -/+ |row| radius where that is nearer."""
    # A box goes through a linear step as f(m) +- |A| w.
    middles = [(domain.low + domain.high) / 2 for domain in ranges]
    widths = [(domain.high - domain.low) / 2 for domain in ranges]
    middle, wide = replayed(step, middles), affine.absolute(step, widths)
    terms = [m.abs() + w for m, w in zip(middles, widths, strict=True)]
    slack = _WIDER_SUM * (affine.absolute(step, terms) + middle.abs())
    low, high = middle - wide - slack, middle + wide + slack
    if step.name not in affine.FILTERS or len(ranges) > 1 or math.isinf(ranges[0].radius):
        return low, high

    def squared(leaf: object) -> object:
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            return leaf.square()
        return leaf**2 if step.name in TIMES and isinstance(leaf, int | float) else leaf

    # A ball goes through a linear step as f(c) +- |a_i| radius, a_i being the rows: squared
    # constants applied to ones give |a_i|^2.
    ones = [torch.ones_like(ranges[0].center)]
    rows = (replayed(step, ones, squared) - at_zero(step, ones, squared)).clamp_min(0.0).sqrt()
    center, around = replayed(step, [ranges[0].center]), rows * ranges[0].radius + slack
    return torch.maximum(low, center - around), torch.minimum(high, center + around)
