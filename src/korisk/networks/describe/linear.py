"""Norms of linear maps, sampled slopes of others, and which modules run their own code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from korisk.operators.linear import LinearOperator
from korisk.operators.norms import drawn, largest_singular_value
from korisk.theory.bracket import NormBracket

_ROUNDING = 1e-12  # relative; above what a float64 singular value loses
_LARGEST_DECOMPOSED = 1024  # short side up to which all singular values are fast to compute
_MOST_BYTES = 2**30  # of the vectors that Lanczos keeps
_MOST_SYMBOLS = 2**24  # complex numbers in all matrices of a convolution: 256 MiB
_SYMBOL_ROUNDING = 1e-9  # relative; the largest eigenvalue of a Gram matrix loses less
_WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of a bracket, relative: the first that fits is taken
_OWN = ("torch.", "korisk.")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_CLIMB = 16  # steps of gradient ascent
_COORDINATES = 4
_SLACK = {torch.float64: 1e-9, torch.float32: 1e-3}  # what rounding may add to a quotient

Function = Callable[[Tensor], Tensor]


def words(text: str) -> frozenset[str]:
    """The words of a text, for tables of functions' names."""
    return frozenset(text.split())


class LinearPart(LinearOperator):
    """x -> f(x) - f(0) for an affine f; the adjoint is f's vector-Jacobian product.

    In float64; in float32 with `single`, twice as fast and more, for what need not be certain.
    """

    def __init__(
        self,
        function: Function,
        example: Tensor,
        *,
        nonnegative: bool = False,
        most: float = math.inf,
        single: bool = False,
    ) -> None:
        dtype = torch.float32 if single else torch.float64
        # The graph of the value at 0 serves every product with the adjoint: a vector-Jacobian
        # product.
        self._origin = torch.zeros_like(example, dtype=dtype).requires_grad_()
        with torch.enable_grad():
            value = function(self._origin)
        super().__init__(example.shape, value.shape, name="f", device=example.device, dtype=dtype)
        self._function = function
        self._value, self._at_zero = value, value.detach()
        self.is_real = value.is_floating_point()
        self.nonnegative, self.most_norm = nonnegative, most

    def _map(self, x: Tensor) -> Tensor:
        return self._function(x) - self._at_zero

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return pulled_back(self._value, self._origin, y)

    def is_linear(self) -> bool:
        """Whether the map is additive on two random vectors, and agrees with its adjoint.

        Measured by the linear part alone, and against the adjoint, which no offset enters: where
        f(0) is so large that rounding hides the rest, f(x) - f(0) means nothing: the answer is no.
        """
        # Random vectors: f(x - 3 y) = f(x) - 3 f(y), and <f x, y> = <x, f^T y>.
        first, second, y = (
            drawn(shape, 0, f"linearity {place}").to(self.device)
            for place, shape in enumerate((self.domain, self.domain, self.range))
        )
        with torch.no_grad():
            image = self._map(first)
            together, parts = self._map(first - 3 * second), image - 3 * self._map(second)
        scale = float(parts.abs().max()) if parts.numel() else 0.0
        if not bool(((together - parts).abs() <= 1e-9 * scale).all()):
            return False
        back = self._map_adjoint(y)
        slack = 1e-7 * float(image.norm() * y.norm() + first.norm() * back.norm())
        return abs(float((image * y).sum() - (first * back).sum())) <= slack

    def bracket(self, *, narrow: float = _WIDTHS[0]) -> NormBracket:
        """The norm bracket, as narrow as requested or as memory for Lanczos allows."""
        size = min(math.prod(self.domain), math.prod(self.range))
        # Steps that Lanczos needs for this width by eq:lanczos, each with a vector to keep.
        for width in (narrow, *_WIDTHS):
            eps = 1 - (1 + 0.98 * width) ** -2
            steps = math.log(1.648 * math.sqrt(size) / 1e-6) / math.sqrt(eps) / 2 + 1
            if min(steps, size) * size * 8 <= _MOST_BYTES:
                break
        return self.norm(width=width)


def pulled_back(value: Tensor, point: Tensor, y: Tensor) -> Tensor:
    """The vector-Jacobian product J^T y of a value that was computed from `point`.

    Not by torch.func, whose first use loads torch's compiler.
    """
    if not value.requires_grad:  # it does not depend on `point`
        return torch.zeros_like(point)
    return torch.autograd.grad(value, point, y, retain_graph=True, materialize_grads=True)[0]


def function_norm(
    function: Function, example: Tensor, *, nonnegative: bool = False, most: float = math.inf
) -> NormBracket | None:
    """Norm of the linear part of a real affine function; None if it is not affine.

    `most` is a norm that is known not to be exceeded.
    """
    if not example.is_floating_point():
        return None
    try:
        linear_part = LinearPart(function, example, nonnegative=nonnegative, most=most)
        return linear_part.bracket() if linear_part.is_real and linear_part.is_linear() else None
    except RuntimeError:  # a function that does not take doubles, or has no derivative
        return None


def matrix_norm(matrix: Tensor) -> NormBracket:
    """The largest singular value of a matrix, whatever its precision."""
    matrix = matrix.detach()
    if matrix.is_complex():  # the same map of real and imaginary parts
        real, imaginary = matrix.real, matrix.imag
        matrix = torch.cat([torch.cat([real, -imaginary], 1), torch.cat([imaginary, real], 1)])
    matrix = matrix.to(torch.float64)
    if min(matrix.shape) <= _LARGEST_DECOMPOSED:
        # The Gram matrix would square the condition, but the largest value is what is asked for.
        largest = float(largest_singular_value(matrix))
        lower, upper = largest * (1 - _ROUNDING), largest * (1 + _ROUNDING)
        return NormBracket(lower, upper, how="largest singular value")
    return LinearPart(lambda x: matrix @ x, matrix.new_zeros(matrix.shape[1])).bracket()


def symbol_norm(
    weight: Tensor,
    lengths: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> float:
    """A certain upper end of a convolution's norm, Eq. (eq:symbol); infinite with too many waves.

    `weight` is (C_out, C_in / groups, *kernel), `lengths` those of the input without its padding.
    """
    kernel = weight.shape[2:]
    # A torus so long that the kernel does not wrap around, in multiples of the stride.
    torus = [
        step * math.ceil((length + (taps - 1) * apart) / step)
        for length, taps, step, apart in zip(lengths, kernel, stride, dilation, strict=True)
    ]
    # Of a real kernel half of the frequencies say it all, unless a stride adds them up.
    strided = any(step > 1 for step in stride)
    matrices = weight.numel() // math.prod(kernel)
    if matrices * math.prod(torus) // (1 if strided else 2) > _MOST_SYMBOLS:
        return math.inf
    # The kernel with the zeros that dilation puts between its entries.
    sizes = ((taps - 1) * apart + 1 for taps, apart in zip(kernel, dilation, strict=True))
    spaced = torch.zeros(*weight.shape[:2], *sizes, dtype=torch.float64, device=weight.device)
    every = [slice(None, None, apart) for apart in dilation]
    spaced[(slice(None), slice(None), *every)] = weight.detach().double()
    axes = tuple(range(2, 2 + len(kernel)))
    symbol = (torch.fft.fftn if strided else torch.fft.rfftn)(spaced, s=torus, dim=axes)
    if strided:
        for axis, step in reversed(list(zip(axes, stride, strict=True))):
            # Frequencies k, k + L/s, ... look alike: (s, L/s), and s becomes columns.
            symbol = symbol.unflatten(axis, (step, symbol.shape[axis] // step)).movedim(axis, 2)
            symbol = symbol.flatten(1, 2) / math.sqrt(step)
    symbols = symbol.flatten(2).movedim(2, 0)  # (frequencies, C_out, C_in / groups)
    symbols = symbols.unflatten(1, (groups, -1))
    # Eq. eq:symbol, by eigenvalues of the smaller Gram matrix of each frequency and group.
    if symbols.shape[-2] > symbols.shape[-1]:
        symbols = symbols.mT
    gram = symbols @ symbols.mH
    eigenvalues = torch.linalg.eigvalsh(gram) if gram.shape[-1] > 1 else gram.abs()
    return math.sqrt(max(float(eigenvalues.max()), 0.0)) * (1 + _SYMBOL_ROUNDING)


def is_plain(module: nn.Module) -> bool:
    """Whether a call runs torch's or korisk's own forward alone, in the module's operators too."""
    if any(getattr(torch_module, f"_global{hooks}") for hooks in _HOOKS):
        return False
    operators = (child for child in module.modules() if isinstance(child, LinearOperator))
    for submodule in (module, *operators):
        if isinstance(submodule, torch.jit.ScriptModule):  # its class says nothing of its code
            return False
        if "forward" in submodule.__dict__ or any(getattr(submodule, hooks) for hooks in _HOOKS):
            return False
        if not str(getattr(type(submodule).forward, "__module__", "")).startswith(_OWN):
            return False
    return True


def plain_operator(module: nn.Module | None) -> LinearOperator | None:
    """The module, if it is a korisk operator and its norm is therefore that of its calls."""
    return module if isinstance(module, LinearOperator) and is_plain(module) else None


def largest_slope(function: Function, point: Tensor) -> float:
    """Largest slope found from a point, by steps at random and by a search."""
    points = [point.detach()]
    return max(far_slope(function, points), searched_slope(function, points))


def far_slope(function: Function, points: Iterable[Tensor]) -> float:
    """Largest slope between points, and from each point along a small and a large step.

    Less what rounding may have added, which matters for small steps far away.
    """
    slopes, before = [0.0], None
    for place, point in enumerate(points):
        try:
            value = _value(function, point)
            length = float(point.norm())
            for step_size in (0.01, 1.0):
                drawn_step = drawn(point.shape, place, f"far step {step_size}").to(point)
                step = drawn_step * (step_size * length / float(drawn_step.norm() or 1))
                moved = _value(function, point + step)
                slopes.append(_certain_quotient(value, moved, point + step - point))
            if before is not None:
                slopes.append(_certain_quotient(value, before[1], point - before[0]))
        except Exception:  # it does not take such inputs, so they prove nothing
            continue
        before = point, value
    return max(value for value in slopes if value < math.inf)


def searched_slope(function: Function, points: Iterable[Tensor]) -> float:
    """Largest slope that a search from some points finds, less what rounding may have added."""
    slopes = [0.0]
    for place, point in enumerate(points):
        try:
            for start, step in _attempts(function, point.detach(), f"search {place}"):
                values = _value(function, start), _value(function, start + step)
                slopes.append(_certain_quotient(*values, start + step - start))
        except Exception:  # whatever torch or the user's code cannot do under autograd
            continue
    return max(value for value in slopes if value < math.inf)


def _attempts(function: Function, point: Tensor, stream: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Steps from points: along single coordinates, then uphill by the gradient of the slope."""

    def draw(like: Tensor, place: int) -> Tensor:
        return drawn(like.shape, place, stream).to(like)

    def along(places: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for entry in places.tolist():
            for size in (1e-4, 0.01, 1.0):
                step = torch.zeros_like(point)
                step.view(-1)[entry] = size * length
                yield point, step

    length = float(point.norm()) or 1.0
    few = min(_COORDINATES, point.numel())
    yield from along(draw(point, 0).flatten().topk(few).indices)  # some at random
    x = point.clone().requires_grad_()
    with torch.enable_grad():
        value = function(x)
    # Then the steepest: the square of entry i of J^T w has the mean |J e_i|^2.
    backs = [pulled_back(value, x, draw(value, place)) for place in range(1, 4)]
    yield from along(torch.stack(backs).square().sum(0).flatten().topk(few).indices)
    step = draw(point, 4)
    for place in range(_CLIMB):
        step = 0.01 * length * step / step.norm()
        x, step = x.detach().requires_grad_(), step.detach().requires_grad_()
        with torch.enable_grad():
            moved = (function(x + step) - function(x - step)).double().norm()
            slope = moved.log() - step.double().norm().log()
        uphill, turn = torch.autograd.grad(slope, (x, step))
        yield (x - step).detach(), 2 * step.detach()
        if not bool(torch.isfinite(turn).all()) or not bool(torch.isfinite(uphill).all()):
            return
        # Of a linear map this is power iteration: |v|^2 times the gradient is J^T J v less v.
        step = step.detach() + float(step.detach().norm()) ** 2 * turn
        rate = 0.3 * length * (1 - place / _CLIMB)
        x = x.detach() + rate * uphill / (float(uphill.norm()) or 1.0)


def _certain_quotient(first: Tensor, second: Tensor, step: Tensor) -> float:
    """The quotient, less what rounding of the two values may have added."""
    apart = float(step.double().norm())
    if first.shape != second.shape or apart == 0:
        return 0.0
    # Rounding of both values, with room for errors that add up inside.
    digits = 2**10 * torch.finfo(first.dtype).eps * float(first.norm() + second.norm())
    moved = float((first - second).double().norm()) - digits
    return max(moved / apart, 0.0) * (1 - _SLACK.get(first.dtype, 0.05))


@torch.no_grad()
def _value(function: Function, point: Tensor) -> Tensor:
    value = function(point).detach()  # a function may turn gradients on itself
    return value if value.is_floating_point() or value.is_complex() else value.to(torch.float64)
