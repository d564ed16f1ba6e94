"""A conformance suite for linear operators, ours and anyone's: `check(operator)`.

Each law has a function that raises an AssertionError of one line where the operator breaks it and
returns the figure that was measured. All errors are relative to the operator's norm, so that one
limit serves every operator: 1e-12 in float64 and 1e-5 in float32. `tolerance` replaces the first
for operators that iterate, and the second where it is larger.
"""

from __future__ import annotations

import copy
import functools
import io
import math
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from korisk.errors import KoriskError, shown
from korisk.operators.linear import DTYPES, LinearOperator, Shape, shape_text
from korisk.theory.bracket import NormBracket

LIMITS = {torch.float64: 1e-12, torch.float32: 1e-5}

_DRAWS = 3
_BATCHES: tuple[Shape, ...] = ((), (1,), (3,), (2, 3), (0,))
_SMALL = 200  # inputs and outputs together, up to which gradcheck takes a moment
_POWER_STEPS = 300
_NORM_SHORTFALL = 0.05  # how far power iteration may end below the norm's lower end
_NORM_ROUNDING = 1e-9

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Finding:
    """One law: what was measured, and what it must not exceed.

    `figure` is relative to the operator's norm, and None where it could not be measured.

    >>> from korisk.operators.testing import Finding
    >>> print(Finding("adjoint", 2e-16, 1e-12))
    adjoint           2.00e-16       1e-12
    """

    law: str
    figure: float | None  # None where it could not be measured here
    limit: float

    def __str__(self) -> str:
        if self.figure is None:
            return f"{self.law:<12}{'no CUDA here':>14}"
        return f"{self.law:<12}{self.figure:>14.2e}{self.limit:>12.0e}"


@dataclass(frozen=True)
class Report:
    """All laws of one operator, every one of them kept; prints as a table.

    Made by `check`. `report["adjoint"]` is the figure of one law.

    >>> from korisk import NormBracket
    >>> from korisk.operators.testing import Finding, Report
    >>> Report("W", NormBracket(1, 1), (Finding("adjoint", 2e-16, 1e-12),))["adjoint"]
    2e-16
    """

    operator: str
    norm: NormBracket
    findings: tuple[Finding, ...]

    def __getitem__(self, law: str) -> float | None:
        """The figure measured for a law, such as `report["adjoint"]`."""
        for finding in self.findings:
            if finding.law == law:
                return finding.figure
        raise KoriskError(
            f"there is no law {law!r}; laws: {', '.join(each.law for each in self.findings)}"
        )

    def __str__(self) -> str:
        norm = f"norm from {self.norm.lower:.6g} to {self.norm.upper:.6g} ({self.norm.how})"
        head = f"{'law':<12}{'measured':>14}{'limit':>12}"
        return "\n".join([self.operator, norm, head, *(str(each) for each in self.findings)])


def check(operator: LinearOperator, *, seed: int = 0, tolerance: float | None = None) -> Report:
    """Every law in turn; the first that is broken raises an AssertionError.

    `seed` draws the inputs; `tolerance` is the largest relative error in float64 (default 1e-12),
    for operators that iterate.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check
    >>> report = check(Diagonal([1.0, 2.0]))
    >>> report["adjoint"] < 1e-12, [each.law for each in report.findings][:3]
    (True, ['adjoint', 'linearity', 'gradient'])
    """
    if not isinstance(operator, LinearOperator):
        raise KoriskError(f"operator must be a LinearOperator, got {shown(operator)}")
    norm = operator.norm()
    findings = []
    for law, function in _LAWS.items():
        figure = function(operator, seed=seed, tolerance=tolerance, norm=norm)
        findings.append(Finding(law, figure, _limit_of(law, operator, tolerance)))
    return Report(_title(operator), norm, tuple(findings))


def check_adjoint(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """|<A x, y> - <x, A^T y>| / (||A|| ||x|| ||y||), in both precisions; the float64 figure.

    Raises AssertionError where the law is broken; arguments as in `check`, and `norm` where the
    operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_adjoint
    >>> check_adjoint(Diagonal([1.0, 2.0])) < 1e-12
    True
    """
    scale = _scale(operator, norm)
    figures = {}
    for dtype in DTYPES:
        there = _converted(operator, dtype)
        draw = _Draw(there, seed)
        figures[dtype] = max(_mismatch(there, draw.x(), draw.y(), scale) for _ in range(_DRAWS))
        _hold(operator, f"adjoint in {_short(dtype)}", figures[dtype], _limit(dtype, tolerance))
    return figures[torch.float64]


def check_linearity(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """||A(a u + b v) - a A u - b A v|| over the norms, of A and of A^T, in both precisions.

    Returns the float64 figure. Raises AssertionError where the law is broken; arguments as in
    `check`, and `norm` where the operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_linearity
    >>> check_linearity(Diagonal([1.0, 2.0])) < 1e-12
    True
    """
    scale = _scale(operator, norm)
    figures = {}
    for dtype in DTYPES:
        figures[dtype] = max(
            _nonlinearity(side.map, side.draw(), side.draw(), scale)
            for side in _sides(_converted(operator, dtype), seed)
            for _ in range(_DRAWS)
        )
        _hold(operator, f"linearity in {_short(dtype)}", figures[dtype], _limit(dtype, tolerance))
    return figures[torch.float64]


def check_gradient(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """The gradient of <A x, y> is A^T y, that of the gradient along v is A v, and so for A^T.

    Small operators also pass torch.autograd.gradcheck and gradgradcheck. In float64.

    Returns the largest figure. Raises AssertionError where the law is broken; arguments as in
    `check`, and `norm` where the operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_gradient
    >>> check_gradient(Diagonal([1.0, 2.0])) < 1e-12
    True
    """
    scale = _scale(operator, norm)
    double = _converted(operator, torch.float64)
    figure = 0.0
    for side in _sides(double, seed):
        for name, error in _gradient_errors(operator, side, scale):
            _hold(operator, f"{name} of {side.name}", error, _limit(torch.float64, tolerance))
            figure = max(figure, error)
        if math.prod(operator.domain) + math.prod(operator.range) < _SMALL:
            _gradcheck(operator, side)
    return figure


def check_batches(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """Batches, empty ones, transposed and expanded inputs give what items give one by one.

    The input is left as it was, and the result shares no memory with it.

    Returns the largest figure. Raises AssertionError where the law is broken; arguments as in
    `check`, and `norm` where the operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_batches
    >>> check_batches(Diagonal([1.0, 2.0])) < 1e-12
    True
    """
    scale = _scale(operator, norm)
    double = _converted(operator, torch.float64)
    figure = 0.0
    for side in _sides(double, seed):
        for name, batch in _batches(side):
            error = _batch_error(operator, side, name, batch, scale)
            what = f"{side.name} of {name}"
            _hold(operator, what, error, _limit(torch.float64, tolerance))
            figure = max(figure, error)
    return figure


def check_transforms(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """torch.func's vmap, jvp and vjp, each on a fresh copy, and use after inference_mode.

    Returns the largest figure. Raises AssertionError where the law is broken; arguments as in
    `check`, and `norm` where the operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_transforms
    >>> check_transforms(Diagonal([1.0, 2.0])) < 1e-12
    True
    """
    scale = _scale(operator, norm)
    figure = 0.0
    for name, transform in _TRANSFORMS.items():
        # A copy for each: what an operator makes at its first use must not be caught inside.
        double = _converted(operator, torch.float64)
        for side in _sides(double, seed):
            what = f"{name} of {side.name}"
            with _as_assertion(operator, what):
                error = transform(side, scale)
            _hold(operator, what, error, _limit(torch.float64, tolerance))
            figure = max(figure, error)
    return figure


def check_pickle(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """pickle, torch.save and copy.deepcopy give an operator that does the same, also after use.

    Returns the largest difference, relative. Raises AssertionError where the law is broken;
    arguments as in `check`, and `norm` where the operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_pickle
    >>> check_pickle(Diagonal([1.0, 2.0])) < 1e-5
    True
    """
    scale = _scale(operator, norm)
    figure = 0.0
    for way, again in _COPIES.items():
        with _as_assertion(operator, way):
            twin = again(operator)
        for side, other in zip(_sides(operator, seed), _sides(twin, seed), strict=True):
            x = side.draw()
            with torch.no_grad():
                error = _error(other.map(x), side.map(x), scale * _length(x))
            _hold(operator, f"{side.name} after {way}", error, _limit(operator.dtype, tolerance))
            figure = max(figure, error)
    return figure


def check_dtypes(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """float32 gives float32 and agrees with float64; the wrong precision is refused.

    Returns the largest difference, relative. Raises AssertionError where the law is broken;
    arguments as in `check`, and `norm` where the operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_dtypes
    >>> check_dtypes(Diagonal([1.0, 2.0])) < 1e-5
    True
    """
    scale = _scale(operator, norm)
    single, double = (_converted(operator, dtype) for dtype in DTYPES)
    figure = 0.0
    limit = _limit(torch.float32, tolerance)
    for low, high in zip(_sides(single, seed), _sides(double, seed), strict=True):
        x = low.draw()
        with torch.no_grad():
            rough, fine = low.map(x), high.map(x.double())
        if (rough.dtype, fine.dtype) != DTYPES:
            found = f"{_short(rough.dtype)} and {_short(fine.dtype)}"
            _fail(operator, f"{low.name} gives {found}, must give float32 and float64")
        figure = max(figure, _error(rough, fine, scale * _length(x)))
        _hold(operator, f"{low.name} in float32 against float64", figure, limit)
        _refused(operator, high, x)
    return figure


def check_norm(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float:
    """The bracket holds: no x is stretched beyond `upper`, and power iteration reaches `lower`.

    Returns the largest ||A x|| / ||x|| found, over `upper`.

    Raises AssertionError where the law is broken; arguments as in `check`, and `norm` where the
    operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_norm
    >>> round(check_norm(Diagonal([1.0, 2.0])), 6)
    1.0
    """
    bracket = operator.norm() if norm is None else norm
    if not bracket.lower <= bracket.upper:
        _fail(operator, f"norm: lower {bracket.lower:.6g} is above upper {bracket.upper:.6g}")
    double = _converted(operator, torch.float64)
    largest = 0.0
    reached = (1 - _NORM_SHORTFALL) * bracket.lower
    highest = bracket.upper * (1 + max(_NORM_ROUNDING, tolerance or 0))
    for stretch in _stretches(double, seed, enough=reached):
        largest = max(largest, stretch)
        if largest > highest:
            ends = f"{largest:.9g}, above the upper end {bracket.upper:.9g}"
            _fail(operator, f"norm: an x is stretched by {ends}")
    if largest < reached:
        ends = f"{largest:.6g} at most, below the lower end {bracket.lower:.6g}"
        _fail(operator, f"norm: power iteration stretches by {ends}")
    return largest / bracket.upper if bracket.upper > 0 else 0.0


def check_device(
    operator: LinearOperator,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    norm: NormBracket | None = None,
) -> float | None:
    """The same on the GPU as on the CPU, and where it should be; None where there is no CUDA.

    Otherwise the float64 figure. Raises AssertionError where the law is broken; arguments as in
    `check`, and `norm` where the operator's is known already.

    >>> from korisk.operators import Diagonal
    >>> from korisk.operators.testing import check_device
    >>> check_device(Diagonal([1.0, 2.0])) in (None, 0.0)
    True
    """
    if not torch.cuda.is_available():
        return None
    scale = _scale(operator, norm)
    figures = {}
    for dtype in DTYPES:
        figures[dtype] = 0.0
        here = _converted(operator, dtype).to("cpu")
        there = _converted(operator, dtype).to("cuda")
        for near, far in zip(_sides(here, seed), _sides(there, seed), strict=True):
            x = near.draw()
            with _as_assertion(operator, f"{far.name} on CUDA"), torch.no_grad():
                result = far.map(x.to("cuda"))
            if result.device != there.device:
                _fail(operator, f"{far.name} of an x on {there.device} lies on {result.device}")
            with torch.no_grad():
                error = _error(result.cpu(), near.map(x), scale * _length(x))
            _hold(operator, f"{far.name} on CUDA, {_short(dtype)}", error, _limit(dtype, tolerance))
            figures[dtype] = max(figures[dtype], error)
    return figures[torch.float64]


_LAWS: dict[str, Callable[..., float | None]] = {
    "adjoint": check_adjoint,
    "linearity": check_linearity,
    "gradient": check_gradient,
    "batches": check_batches,
    "transforms": check_transforms,
    "pickle": check_pickle,
    "dtypes": check_dtypes,
    "norm": check_norm,
    "device": check_device,
}


# What the laws share


class _Draw:
    """Random inputs of an operator; the same numbers in either precision and on any device."""

    def __init__(self, operator: LinearOperator, seed: int) -> None:
        self.operator = operator
        self.generator = torch.Generator().manual_seed(seed)

    def of(self, shape: Sequence[int]) -> Tensor:
        numbers = torch.randn(tuple(shape), generator=self.generator, dtype=torch.float64)
        return numbers.to(self.operator.device, self.operator.dtype)

    def x(self) -> Tensor:
        return self.of(self.operator.domain)

    def y(self) -> Tensor:
        return self.of(self.operator.range)


@dataclass(frozen=True)
class _Side:
    """A or A^T, with the other as `back`."""

    name: str
    map: Map
    back: Map
    domain: Shape
    range: Shape
    of: Callable[[Sequence[int]], Tensor]

    def draw(self, batch: Shape = ()) -> Tensor:
        return self.of((*batch, *self.domain))

    def draw_back(self, batch: Shape = ()) -> Tensor:
        return self.of((*batch, *self.range))


def _sides(operator: LinearOperator, seed: int) -> Iterator[_Side]:
    domain, range_ = tuple(operator.domain), tuple(operator.range)
    draw = _Draw(operator, seed)
    yield _Side("A", operator, operator.adjoint, domain, range_, draw.of)
    yield _Side("A^T", operator.adjoint, operator, range_, domain, draw.of)


def _converted(operator: LinearOperator, dtype: torch.dtype) -> LinearOperator:
    with _as_assertion(operator, f"copying and .to({dtype})"):
        there = copy.deepcopy(operator).to(dtype)
    if there.dtype != dtype:
        _fail(operator, f".to({dtype}) left the operator in {there.dtype}")
    return there


def _scale(operator: LinearOperator, norm: NormBracket | None) -> float:
    """||A|| from below; errors of the zero operator are taken as they are."""
    bracket = operator.norm() if norm is None else norm
    if bracket.lower > 0:
        return bracket.lower
    return bracket.upper if 0 < bracket.upper < math.inf else 1.0


def _limit(dtype: torch.dtype, tolerance: float | None) -> float:
    if tolerance is None:
        return LIMITS[dtype]
    return tolerance if dtype == torch.float64 else max(LIMITS[dtype], tolerance)


def _limit_of(law: str, operator: LinearOperator, tolerance: float | None) -> float:
    """The limit of the figure that a law returns."""
    if law == "norm":
        return 1.0
    precision = {"dtypes": torch.float32, "pickle": operator.dtype}.get(law, torch.float64)
    return _limit(precision, tolerance)


def _length(x: Tensor) -> float:
    return float(x.detach().double().norm())


def _error(found: Tensor, wanted: Tensor, scale: float) -> float:
    """||found - wanted|| / scale, and infinite where that is no number or the shapes differ."""
    if found.shape != wanted.shape:
        return math.inf
    error = _length(found.detach().double() - wanted.detach().double())
    if error == 0:
        return 0.0
    return error / scale if scale > 0 and math.isfinite(error) else math.inf


def _mismatch(operator: LinearOperator, x: Tensor, y: Tensor, scale: float) -> float:
    with torch.no_grad():
        image, back = operator(x).double(), operator.adjoint(y).double()
    gap = abs(float((image * y.double()).sum()) - float((x.double() * back).sum()))
    error = gap / (scale * _length(x) * _length(y))
    return error if math.isfinite(error) else math.inf


def _nonlinearity(map_: Map, u: Tensor, v: Tensor, scale: float) -> float:
    a, b = 1.7, -0.6  # a + b is not 1, so that a constant that is added shows
    with torch.no_grad():
        found, wanted = map_(a * u + b * v), a * map_(u) + b * map_(v)
    return _error(found, wanted, scale * (abs(a) * _length(u) + abs(b) * _length(v)))


def _gradient_errors(
    operator: LinearOperator, side: _Side, scale: float
) -> Iterator[tuple[str, float]]:
    x, v = side.draw().requires_grad_(), side.draw()
    y = side.draw_back().requires_grad_()
    with _as_assertion(operator, f"gradient of {side.name}"):
        (gradient,) = torch.autograd.grad((side.map(x) * y).sum(), x, create_graph=True)
    yield "gradient", _error(gradient, side.back(y), scale * _length(y))
    with _as_assertion(operator, f"second gradient of {side.name}"):
        (second,) = torch.autograd.grad((gradient * v).sum(), y)
    yield "second gradient", _error(second, side.map(v), scale * _length(v))


def _gradcheck(operator: LinearOperator, side: _Side) -> None:
    x = side.draw().requires_grad_()
    with _as_assertion(operator, f"gradcheck of {side.name}"):
        torch.autograd.gradcheck(side.map, (x,))
    with _as_assertion(operator, f"gradgradcheck of {side.name}"):
        torch.autograd.gradgradcheck(side.map, (x,))


def _batches(side: _Side) -> Iterator[tuple[str, Tensor]]:
    for batch in _BATCHES:
        yield f"a batch {shape_text(batch)}", side.draw(batch)
    backwards = side.of(tuple(reversed((2, 3, *side.domain))))
    yield "a transposed batch", backwards.permute(*reversed(range(backwards.ndim)))
    yield "an expanded batch", side.draw().expand(3, *side.domain)


def _batch_error(
    operator: LinearOperator, side: _Side, name: str, batch: Tensor, scale: float
) -> float:
    before = batch.clone()
    what = f"{side.name} of {name}"
    with _as_assertion(operator, what), torch.no_grad():
        found = side.map(batch)
    lead = batch.shape[: batch.ndim - len(side.domain)]
    wanted = (*lead, *side.range)
    if tuple(found.shape) != wanted:
        got = shape_text(tuple(found.shape))
        _fail(operator, f"{what} has shape {got}, must have {shape_text(wanted)}")
    if not torch.equal(batch, before):
        _fail(operator, f"{what} changes its input; write to a copy")
    if _shares_memory(found, batch):
        _fail(operator, f"{what} shares memory with its input; give a copy")
    items = batch.reshape(-1, *side.domain)
    results = found.reshape(-1, *side.range)
    errors = [0.0]
    for item, result in zip(items, results, strict=True):
        with torch.no_grad():
            alone = side.map(item.clone())
        errors.append(_error(result, alone, scale * _length(item)))
    return max(errors)


def _shares_memory(one: Tensor, other: Tensor) -> bool:
    if one.numel() == 0 or other.numel() == 0:
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _vmap(side: _Side, scale: float) -> float:
    batch = side.draw((3,))
    wanted, size = side.map(batch), scale * _length(batch)
    front = _error(torch.func.vmap(side.map)(batch), wanted, size)
    # The mapped dimension last, where a map that counts dimensions from the front would fail.
    last = torch.func.vmap(side.map, in_dims=-1, out_dims=-1)(batch.movedim(0, -1))
    return max(front, _error(last.movedim(-1, 0), wanted, size))


def _jvp(side: _Side, scale: float) -> float:
    x, v = side.draw(), side.draw()
    value, tangent = _pushed(side.map, x, v)
    return max(
        _error(value, side.map(x), scale * _length(x)),
        _error(tangent, side.map(v), scale * _length(v)),
    )


def _vjp(side: _Side, scale: float) -> float:
    x, y = side.draw(), side.draw_back()
    value, pull = _pullback(side.map, x)
    return max(
        _error(value, side.map(x), scale * _length(x)),
        _error(pull(y)[0], side.back(y), scale * _length(y)),
    )


def _vmap_of_vjp(side: _Side, scale: float) -> float:
    cotangents = side.draw_back((3,))
    _, pull = _pullback(side.map, side.draw())
    (found,) = torch.func.vmap(pull)(cotangents)
    return _error(found, side.back(cotangents), scale * _length(cotangents))


def _vmap_of_jvp(side: _Side, scale: float) -> float:
    x, tangents = side.draw(), side.draw((3,))
    found = torch.func.vmap(lambda v: _pushed(side.map, x, v)[1])(tangents)
    return _error(found, side.map(tangents), scale * _length(tangents))


def _pushed(map_: Map, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    _load_forward_mode()
    return cast(tuple[Tensor, Tensor], torch.func.jvp(map_, (x,), (v,)))


def _pullback(map_: Map, x: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
    value, pull = cast(Any, torch.func.vjp(map_, x))
    return value, pull


@functools.cache
def _load_forward_mode() -> None:
    # PyTorch loads its rules at the first jvp of a process and, doing so, warns of its own use of
    # torch.jit: nothing that a user could act on, and an error where warnings are errors.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))


def _use_after_inference(side: _Side, scale: float) -> float:
    x, y = side.draw(), side.draw_back()
    with torch.inference_mode():
        side.map(x)
    (gradient,) = torch.autograd.grad((side.map(x.requires_grad_()) * y).sum(), x)
    return _error(gradient, side.back(y), scale * _length(y))


_TRANSFORMS: dict[str, Callable[[_Side, float], float]] = {
    "vmap": _vmap,
    "jvp": _jvp,
    "vjp": _vjp,
    "vmap of vjp": _vmap_of_vjp,
    "vmap of jvp": _vmap_of_jvp,
    "a gradient, first used in inference_mode,": _use_after_inference,
}


def _saved(operator: LinearOperator) -> LinearOperator:
    file = io.BytesIO()
    torch.save(operator, file)
    file.seek(0)
    loaded: LinearOperator = torch.load(file, weights_only=False)
    return loaded


_COPIES: dict[str, Callable[[LinearOperator], LinearOperator]] = {
    "pickle": lambda operator: pickle.loads(pickle.dumps(operator)),
    "torch.save": _saved,
    "copy.deepcopy": copy.deepcopy,
}


def _refused(operator: LinearOperator, side: _Side, wrong: Tensor) -> None:
    try:
        with torch.no_grad():
            side.map(wrong)
    except (KoriskError, TypeError, RuntimeError):
        return
    _fail(
        operator, f"{side.name} in float64 takes a float32 input; refuse it, or say how it rounds"
    )


def _stretches(operator: LinearOperator, seed: int, *, enough: float) -> Iterator[float]:
    """||A x|| / ||x|| for random x, then along power iteration until it is enough and stands."""
    draw = _Draw(operator, seed)
    with torch.no_grad():
        for _ in range(_DRAWS):
            x = draw.x()
            yield _length(operator(x)) / _length(x)
        x = draw.x()
        last = 0.0
        for _ in range(_POWER_STEPS):
            x = x / max(_length(x), 1e-300)
            image = operator(x)
            stretch = _length(image)
            yield stretch
            if stretch >= enough and stretch - last <= 1e-6 * stretch:
                return
            last = stretch
            x = operator.adjoint(image)


class _as_assertion:
    """Turns what an operator raises inside into an AssertionError of one line."""

    def __init__(self, operator: LinearOperator, what: str) -> None:
        self.operator = operator
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, AssertionError):
            text = " ".join(str(error).split())[:200]
            raise AssertionError(
                f"{_title(self.operator)}: {self.what} raises {type(error).__name__}: {text}"
            ) from error


def _hold(operator: LinearOperator, what: str, figure: float, limit: float) -> None:
    if not figure <= limit:
        _fail(operator, f"{what} is off by {figure:.3g} of the norm, limit {limit:g}")


def _fail(operator: LinearOperator, text: str) -> None:
    raise AssertionError(f"{_title(operator)}: {text}")


def _title(operator: LinearOperator) -> str:
    kind = type(operator).__name__
    return operator.name if operator.name == kind else f"{operator.name} ({kind})"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
