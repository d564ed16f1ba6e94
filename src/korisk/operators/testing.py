"""A conformance suite for linear operators, ours and anyone's: `check(operator)`.

All errors are relative to the operator's norm, so that one limit serves every operator: 1e-12 in
float64 and 1e-5 in float32. `tolerance` replaces the first for operators that iterate, and the
second where it is larger.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from korisk import _checks
from korisk.operators.inputs import DTYPES, Shape, shape_text
from korisk.operators.linear import LinearOperator, require_operator
from korisk.operators.norms import largest_singular_value
from korisk.theory.bracket import NormBracket

LIMITS = {torch.float64: 1e-12, torch.float32: 1e-5}
LAWS = ("adjoint", "linearity", "gradient", "batches", "norm")

_DRAWS = 3
_BATCHES: tuple[Shape, ...] = ((), (1,), (3,), (2, 3), (0,))
_SMALL = 200  # inputs and outputs together, up to which gradcheck takes a moment
_POWER_STEPS = 300
_NORM_SHORTFALL = 0.05  # how far power iteration may end below the norm's lower end
_NORM_ROUNDING = 1e-9
_DENSE = 2**18  # entries of a matrix whose singular values take a moment

Map = Callable[[Tensor], Tensor]
Errors = Iterator[tuple[float, torch.dtype]]


@dataclass(frozen=True)
class Report:
    """The laws that one operator keeps; prints as a table. Made by `check`.

    Parameters
    ----------
    operator : str
        Name and class of the operator.
    norm : NormBracket
        The bracket of its norm.
    errors : dict
        The largest relative error in float64 by law; of "norm", ||A x|| / ||x|| over its upper end.
    tolerance : float
        The limit of the errors.
    """

    operator: str
    norm: NormBracket
    errors: dict[str, float]
    tolerance: float

    def __str__(self) -> str:
        norm = f"norm from {self.norm.lower:.6g} to {self.norm.upper:.6g} ({self.norm.how})"
        lines = [f"{'law':<12}{'measured':>14}{'limit':>12}"]
        for law, error in self.errors.items():
            limit = 1.0 if law == "norm" else self.tolerance
            lines.append(f"{law:<12}{error:>14.2e}{limit:>12.0e}")
        return "\n".join([self.operator, norm, *lines])


def check(
    operator: LinearOperator,
    *,
    laws: Sequence[str] = LAWS,
    seed: int = 0,
    tolerance: float | None = None,
) -> Report:
    """Check the laws in turn; the first that is broken raises an AssertionError of one line.

    Parameters
    ----------
    operator : LinearOperator
        What to check.
    laws : sequence of str, default: all of `LAWS`
        Which laws, such as `["adjoint"]`.
    seed : int, default 0
        Random seed of the inputs.
    tolerance : float, default 1e-12
        Largest relative error in float64, for operators that iterate.

    Returns
    -------
    Report
        What was measured for each law.

    Notes
    -----
    adjoint: |<A x, y> - <x, A^T y>| / (||A|| ||x|| ||y||), in float32 and float64.
    linearity: A (a u + b v) = a A u + b A v, of A and of A^T, in float32 and float64.
    gradient: that of <A x, y> is A^T y, that of this gradient along v is A v, and so for A^T; small
    operators also pass torch.autograd.gradcheck and gradgradcheck, both in fast mode.
    batches: batches, empty ones, transposed and expanded inputs give what single items give; the
    input is not changed, and the result shares no memory with it.
    norm: the largest singular value lies in the bracket; of a large operator no x is stretched
    beyond the upper end, and power iteration reaches the lower one; the figure is the largest
    ||A x|| / ||x|| over the upper end.

    Examples
    --------
    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check
    >>> report = check(Diagonal([1.0, 2.0]))
    >>> report.errors["adjoint"] < 1e-12, list(report.errors)
    (True, ['adjoint', 'linearity', 'gradient', 'batches', 'norm'])
    """
    require_operator(operator)
    for law in laws:
        _checks.one_of("laws", law, LAWS)
    if tolerance is not None:
        tolerance = _checks.real("tolerance", tolerance, above=0, remedy="try 1e-6")
    suite = _Suite(operator, seed, tolerance)
    errors = {law: suite.error(law) for law in laws}
    return Report(suite.title, suite.bracket, errors, suite.limit(torch.float64))


class _Side(NamedTuple):
    """A or A^T, with the other as `back`; draws the same numbers for any precision and device."""

    name: str
    map: Map
    back: Map
    domain: Shape
    range: Shape
    normal: Callable[[Sequence[int]], Tensor]  # random numbers of a shape

    def draw(self, *batch: int) -> Tensor:
        return self.normal((*batch, *self.domain))


def _sides(operator: LinearOperator, seed: int) -> tuple[_Side, _Side]:
    generator = torch.Generator().manual_seed(seed)

    def draw(shape: Sequence[int]) -> Tensor:
        numbers = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
        return numbers.to(operator.device, operator.dtype)

    forward, adjoint = (operator, operator.adjoint), (operator.adjoint, operator)
    ends = operator.domain, operator.range
    return _Side("A", *forward, *ends, draw), _Side("A^T", *adjoint, *ends[::-1], draw)


class _Suite:
    """One method for each law: relative errors, each with the precision that it is held to.

    Laws say in `what` what they are about to try, for messages.
    """

    def __init__(self, operator: LinearOperator, seed: int, tolerance: float | None) -> None:
        self.operator, self.seed, self.tolerance = operator, seed, tolerance
        kind = type(operator).__name__
        self.title = kind if operator.name == kind else f"{operator.name} ({kind})"
        self.bracket = operator.norm()
        # ||A|| from below; errors of the zero operator are taken as they are.
        lower, upper = self.bracket.lower, self.bracket.upper
        self.scale = lower or (upper if 0 < upper < math.inf else 1.0)

    def error(self, law: str) -> float:
        """Check one law and return its largest error in float64."""
        self.figure, self.what = 0.0, law
        try:
            with torch.set_grad_enabled(law == "gradient"):
                for error, dtype in getattr(self, law)():
                    limit = self.limit(dtype)
                    far = f"is off by {error:.3g} of the norm, limit {limit:g}"
                    self._require(error <= limit, far)
                    if dtype == torch.float64:
                        self.figure = max(self.figure, error)
        except AssertionError:
            raise
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            self._require(False, f"raises {type(error).__name__}: {text}")
        return self.figure

    def limit(self, dtype: torch.dtype) -> float:
        """The largest relative error in a precision."""
        if self.tolerance is None:
            return LIMITS[dtype]
        return self.tolerance if dtype == torch.float64 else max(LIMITS[dtype], self.tolerance)

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise AssertionError(f"{self.title}: {self.what} {otherwise}")

    def _error(self, result: Tensor, expected: Tensor, of: Tensor) -> float:
        """||result - expected|| / (||A|| ||of||); infinite where it is NaN or the shapes differ."""
        if result.shape != expected.shape:
            return math.inf
        error, size = _length(result.double() - expected.double()), self.scale * _length(of)
        if error == 0:
            return 0.0
        return error / size if size > 0 and math.isfinite(error) else math.inf

    def _converted_sides(self, dtype: torch.dtype = torch.float64) -> tuple[_Side, _Side]:
        self.what = f"copying and .to({dtype})"
        there = copy.deepcopy(self.operator).to(dtype)
        self._require(there.dtype == dtype, f"leaves the operator in {there.dtype}")
        return _sides(there, self.seed)

    def adjoint(self) -> Errors:
        for dtype in DTYPES:
            forward, _ = self._converted_sides(dtype)
            self.what = f"adjoint in {_short(dtype)}"
            for _ in range(_DRAWS):
                x, y = forward.draw(), forward.normal(forward.range)
                image, back = forward.map(x).double(), forward.back(y).double()
                gap = abs(float((image * y.double()).sum()) - float((x.double() * back).sum()))
                yield gap / (self.scale * _length(x) * _length(y)), dtype

    def linearity(self) -> Errors:
        a, b = 1.7, -0.6  # a + b is not 1, so that an added constant shows
        for dtype in DTYPES:
            for side in self._converted_sides(dtype):
                self.what = f"linearity in {_short(dtype)}"
                for _ in range(_DRAWS):
                    u, v = side.draw(), side.draw()
                    output, expected = side.map(a * u + b * v), a * side.map(u) + b * side.map(v)
                    yield self._error(output, expected, torch.stack([a * u, b * v])), dtype

    def gradient(self) -> Errors:
        for side in self._converted_sides():
            x, v = side.draw().requires_grad_(), side.draw()
            y = side.normal(side.range).requires_grad_()
            self.what = f"gradient of {side.name}"
            (first,) = torch.autograd.grad((side.map(x) * y).sum(), x, create_graph=True)
            yield self._error(first, side.back(y), y), torch.float64
            self.what = f"second gradient of {side.name}"
            (second,) = torch.autograd.grad((first * v).sum(), y)
            yield self._error(second, side.map(v), v), torch.float64
            if math.prod(side.domain) + math.prod(side.range) < _SMALL:
                x = side.draw().requires_grad_()
                # Differences of a linear map may be as wide as its own rounding asks for.
                eps = 1e-6 if self.tolerance is None else 1.0
                for test in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
                    self.what = f"{test.__name__} of {side.name}"
                    # On a card, sums that threads add to are rounded in any order.
                    test(side.map, (x,), eps=eps, nondet_tol=LIMITS[torch.float64], fast_mode=True)

    def batches(self) -> Errors:
        for side in self._converted_sides():
            batches = {f"a batch {shape_text(lead)}": side.draw(*lead) for lead in _BATCHES}
            backwards = side.normal(tuple(reversed((2, 3, *side.domain))))
            batches["a transposed batch"] = backwards.permute(*reversed(range(backwards.ndim)))
            batches["an expanded batch"] = side.draw().expand(3, *side.domain)
            for name, batch in batches.items():
                self.what, before = f"{side.name} of {name}", batch.clone()
                output = side.map(batch)
                shape = (*batch.shape[: batch.ndim - len(side.domain)], *side.range)
                wrong = f"has shape {tuple(output.shape)}, must have {shape}"
                self._require(output.shape == shape, wrong)
                self._require(torch.equal(batch, before), "changes its input; write to a copy")
                storages = {tensor.untyped_storage().data_ptr() for tensor in (output, batch)}
                apart = not output.numel() or not batch.numel() or len(storages) == 2
                self._require(apart, "shares memory with its input; give a copy")
                items, results = batch.reshape(-1, *side.domain), output.reshape(-1, *side.range)
                for item, result in zip(items, results, strict=True):
                    yield self._error(result, side.map(item.clone()), item), torch.float64

    def norm(self) -> Errors:
        lower, upper = self.bracket.lower, self.bracket.upper
        reached = (1 - _NORM_SHORTFALL) * lower
        rounding = max(_NORM_ROUNDING, self.tolerance or 0)
        highest = upper * (1 + rounding)
        forward, _ = self._converted_sides()
        self.what = "norm:"
        if math.prod(forward.domain) * math.prod(forward.range) <= _DENSE:
            double = copy.deepcopy(self.operator).to(torch.float64)
            largest = float(largest_singular_value(double.as_matrix().cpu()))
            value = f"the largest singular value is {largest:.9g},"
            self._require(largest <= highest, f"{value} above the upper end {upper:.9g}")
            lowest = lower * (1 - rounding)
            self._require(largest >= lowest, f"{value} below the lower end {lower:.9g}")
        else:
            x, largest = forward.draw(), 0.0
            for _ in range(_POWER_STEPS):
                image = forward.map(x / max(_length(x), 1e-300))
                before, largest = largest, max(largest, _length(image))
                beyond = f"an x is stretched by {largest:.9g}, above the upper end {upper:.9g}"
                self._require(largest <= highest, beyond)
                if largest >= reached and largest - before <= 1e-6 * largest:
                    break
                x = forward.back(image)
            ends = f"{largest:.6g} at most, below the lower end {lower:.6g}"
            self._require(largest >= reached, f"power iteration stretches by {ends}")
        self.figure = largest / upper if upper > 0 else 0.0
        return iter(())


def _length(x: Tensor) -> float:
    return float(x.detach().double().norm())


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
