"""LinearOperator: a linear map between tensors of fixed shapes, with its adjoint and its norm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.operators import norms
from korisk.theory.bracket import NormBracket

Shape = tuple[int, ...]
Made = TypeVar("Made")

_LARGEST_MATRIX = 2**31  # bytes that as_matrix() may fill
DTYPES = (torch.float32, torch.float64)


class LinearOperator(nn.Module, ABC):
    """A: domain -> range, linear, applied to the trailing dimensions of a tensor.

    Leading dimensions are batches: `A(x)` with x of shape (..., *domain) gives (..., *range), and
    `A.T(y)` or `A.adjoint(y)` goes back. Gradients pass through both directions, twice if need
    be. An operator is an `nn.Module`, so it stands in `nn.Sequential`, moves with `.to(...)` and
    is pickled; what it needs for a device and a dtype it computes there, when it is first used.

    A subclass defines `_map` and `_map_adjoint` on tensors that were checked, in differentiable
    PyTorch, and `_norm` where it knows more than Lanczos finds out.

    `domain` and `range` are shapes without the batch. Inputs of another shape, precision or device
    raise `KoriskError`.

    >>> import torch
    >>> from korisk.operators import LinearOperator
    >>> class Difference(LinearOperator):
    ...     def _map(self, x):
    ...         return x[..., 1:] - x[..., :-1]
    ...     def _map_adjoint(self, y):
    ...         return torch.nn.functional.pad(y, (1, 0)) - torch.nn.functional.pad(y, (0, 1))
    >>> D = Difference((4,), (3,))
    >>> D(torch.arange(4.0)).tolist(), D.T(torch.ones(3)).tolist()
    ([1.0, 1.0, 1.0], [-1.0, 0.0, 0.0, 1.0])
    >>> 1.84 < D.norm().lower <= D.norm().upper < 1.85
    True
    """

    __array_ufunc__ = None  # so that NumPy's arrays leave `array @ A` to us, to be refused
    nonnegative = False  # whether every matrix entry is known to be >= 0
    _anchor: Tensor

    def __init__(
        self,
        domain: Sequence[int],
        range: Sequence[int],
        *,
        name: str = "",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.domain = checked_shape("domain", domain)
        self.range = checked_shape("range", range)
        self.name = name or type(self).__name__
        self._made: dict[str, Any] = {}
        place = checked_device(device)
        self.register_buffer(
            "_anchor", torch.empty(0, device=place, dtype=checked_dtype(dtype)), persistent=False
        )

    @abstractmethod
    def _map(self, x: Tensor) -> Tensor:
        """A x for x of shape (..., *domain), in the operator's dtype and on its device."""

    @abstractmethod
    def _map_adjoint(self, y: Tensor) -> Tensor:
        """A^T y for y of shape (..., *range)."""

    @property
    def dtype(self) -> torch.dtype:
        """The precision that inputs must have; change it with `.to(torch.float64)`."""
        return self._standing().dtype

    @property
    def device(self) -> torch.device:
        """Where inputs must lie; change it with `.to("cuda")`."""
        return self._standing().device

    def _standing(self) -> Tensor:
        """A tensor in the operator's precision and place; of its first part, where it has parts.

        Parts may be moved on their own, as when `A.to("cuda")` follows `B = A.T`.
        """
        part = self._first_part()
        return self._anchor if part is None else part._standing()

    def _first_part(self) -> LinearOperator | None:
        return None

    def forward(self, x: Tensor) -> Tensor:
        """A x; x has shape (..., *domain)."""
        self._check(x, self.domain, "input")
        return _applied(self._map, x, self.domain, self.range)

    def adjoint(self, y: Tensor) -> Tensor:
        """A^T y; y has shape (..., *range)."""
        self._check(y, self.range, "input of the adjoint")
        return _applied(self._map_adjoint, y, self.range, self.domain)

    def _check(self, x: Tensor, shape: Shape, what: str) -> None:
        if not isinstance(x, Tensor):
            raise KoriskError(
                f"{self.name}: the {what} must be a torch tensor, got {shown(x)}; "
                "convert arrays with torch.as_tensor"
            )
        if x.shape[x.ndim - len(shape) :] != shape or x.ndim < len(shape):
            raise KoriskError(
                f"{self.name}: the {what} must have shape {shape_text(shape, batched=True)}, got "
                f"{shape_text(tuple(x.shape))}; batch dimensions come first"
            )
        if x.dtype != self.dtype:
            raise KoriskError(
                f"{self.name}: the {what} must be {self.dtype}, got {x.dtype}; convert it, or the "
                f"operator with .to({x.dtype if x.dtype in DTYPES else torch.float32})"
            )
        if x.layout != torch.strided:
            raise KoriskError(
                f"{self.name}: the {what} must be a dense tensor, got {x.layout}; use .to_dense()"
            )
        self._check_parts()
        if x.device != self.device:
            raise KoriskError(
                f"{self.name}: the {what} must be on {self.device}, got one on {x.device}; move "
                f'one of them with .to("{x.device}")'
            )

    def _check_parts(self) -> None:
        """Refuse parts that were moved apart since they were put together."""
        return

    @property
    def T(self) -> LinearOperator:
        """The adjoint as an operator that shares this one: moving either moves both."""
        return Adjoint(self)

    def _once(self, key: str, make: Callable[[], Made]) -> Made:
        """What `make` gives, kept until the operator moves or changes precision; not pickled."""
        if key not in self._made:
            # What is made in inference mode could not be saved for a later backward pass.
            with torch.inference_mode(False), torch.no_grad():
                self._made[key] = make()
        return cast(Made, self._made[key])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}  # also for copies: what was made is made again

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        # nn.Module moves and converts everything through this method; a precision in which the
        # adjoint would not be one is refused here, once for .half(), .bfloat16() and .to().
        checked_dtype(fn(self._anchor).dtype)
        module = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._made = {}
        return cast(Self, module)

    # Algebra

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, LinearOperator):
            return Composed([*parts_of(other), *parts_of(self)])
        if isinstance(other, Tensor):
            return self(other)
        raise KoriskError(
            f"{self.name} @ takes a torch tensor or another operator, got {shown(other)}; convert "
            "arrays with torch.as_tensor"
        )

    def __rmatmul__(self, other: object) -> Any:
        raise KoriskError(
            f"{self.name} stands left of what it is applied to, got {shown(other)} @ {self.name}; "
            "use its adjoint, .T, for the other direction"
        )

    def __mul__(self, factor: float) -> LinearOperator:
        return Scaled(self, factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> LinearOperator:
        number = _factor(divisor)
        if number == 0:
            raise KoriskError(f"{self.name} cannot be divided by zero")
        return Scaled(self, 1 / number)

    def __neg__(self) -> LinearOperator:
        return Scaled(self, -1.0)

    def __add__(self, other: LinearOperator) -> LinearOperator:
        return Sum([self, other])

    def __radd__(self, other: object) -> LinearOperator:
        if other == 0:  # where sum(...) starts
            return self
        return NotImplemented

    def __sub__(self, other: LinearOperator) -> LinearOperator:
        _checked_operators([other])
        return self + (-other)

    def as_matrix(self) -> Tensor:
        """The whole matrix, shape (prod range, prod domain); refused where it would be huge.

        More than 2 GiB raises `KoriskError`.

        >>> from korisk.operators import Diagonal
        >>> Diagonal([1.0, 2.0]).as_matrix().tolist()
        [[1.0, 0.0], [0.0, 2.0]]
        """
        rows, columns = math.prod(self.range), math.prod(self.domain)
        needed = rows * columns * self._anchor.element_size()
        if needed > _LARGEST_MATRIX:
            raise KoriskError(
                f"{self.name}: as_matrix() would fill {needed / 2**30:.1f} GiB ({rows:,} x "
                f"{columns:,}); apply the operator to vectors, or use a smaller geometry"
            )
        # The shorter side is applied to its unit vectors, in pieces that stay small.
        short = min(rows, columns)
        unit = torch.eye(short, dtype=self.dtype, device=self.device)
        piece = max(1, 2**26 // (rows + columns))
        with torch.no_grad():
            if columns <= rows:
                images = [
                    self(part.reshape(-1, *self.domain)).reshape(-1, rows)
                    for part in torch.split(unit, piece)
                ]
                return torch.cat(images).t().contiguous()
            images = [
                self.adjoint(part.reshape(-1, *self.range)).reshape(-1, columns)
                for part in torch.split(unit, piece)
            ]
            return torch.cat(images)

    # Norms

    def norm(self, *, width: float = 0.01, seed: int = 0) -> NormBracket:
        """The operator norm from below and from above, and how both are known.

        `width` is the relative width to aim for where the norm is iterated, `seed` the random
        start of that iteration. Computed in float64 whatever the operator's own precision.

        >>> from korisk.operators import ParallelBeam, Projector
        >>> bracket = Projector(ParallelBeam(8, views=6, bins=12)).norm(width=0.05)
        >>> bracket.lower <= bracket.upper <= 1.05 * bracket.lower
        True
        """
        if not 1e-4 <= _checks.real("width", width, remedy="try 0.01") < 1:
            raise KoriskError(f"width must be from 1e-4 to below 1, got {shown(width)}; try 0.01")
        remedy = "give a whole number to start from"
        start = _checks.count("seed", seed, at_least=0, at_most=2**63 - 1, remedy=remedy)
        with torch.no_grad():
            return self.in_double()._norm(width, start)

    def _norm(self, width: float, seed: int) -> NormBracket:
        """The bracket; called on the operator in double precision."""
        inner = math.prod(self.domain) <= math.prod(self.range)
        there, back = (self, self.adjoint) if inner else (self.adjoint, self)
        start = norms.start(self.domain if inner else self.range, self.nonnegative, seed)
        start = start.to(self.device)
        size = norms.size(there(start))
        if size == 0:  # so is, almost surely, the image of every other vector
            return NormBracket(0.0, 0.0, how="every vector is mapped to zero")

        def gram(x: Tensor) -> Tensor:  # of A / size, whose square neither over- nor underflows
            return cast(Tensor, back(there(x) / size)) / size

        search = norms.nonnegative_norm if self.nonnegative else norms.random_start_norm
        return scaled_bracket(search(gram, start, width=width), size)

    def in_double(self) -> LinearOperator:
        """This operator in float64; itself where it is so already."""
        if self.dtype == torch.float64:
            return self
        from copy import deepcopy

        return deepcopy(self).to(torch.float64)

    def extra_repr(self) -> str:
        """The shapes, as nn.Module prints them."""
        return f"{shape_text(self.domain)} -> {shape_text(self.range)}"


class Adjoint(LinearOperator):
    """A^T, for an operator A.

    `A.T` makes it; its own `T` is A again.

    >>> from korisk.operators import Matrix
    >>> A = Matrix([[1.0, 2.0, 3.0]])
    >>> A.T.domain, A.T.range, A.T.T is A
    ((1,), (3,), True)
    """

    def __init__(self, of: LinearOperator) -> None:
        _checked_operators([of])
        super().__init__(of.range, of.domain, name=f"{of.name}^T", device=of.device, dtype=of.dtype)
        self.of = of

    def _first_part(self) -> LinearOperator:
        return self.of

    def _check_parts(self) -> None:
        self.of._check_parts()

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every matrix entry is known to be >= 0."""
        return self.of.nonnegative

    @property
    def T(self) -> LinearOperator:
        """The operator of which this is the adjoint."""
        return self.of

    def _map(self, x: Tensor) -> Tensor:
        return self.of._map_adjoint(x)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self.of._map(y)

    def _norm(self, width: float, seed: int) -> NormBracket:
        return self.of._norm(width, seed)


class _Several(LinearOperator):
    """An operator made of others, its `parts`; subclasses name them as is usual for them."""

    def __init__(
        self, parts: list[LinearOperator], *, domain: Shape, range: Shape, name: str
    ) -> None:
        _same_place(parts)
        place = {"device": parts[0].device, "dtype": parts[0].dtype}
        super().__init__(domain, range, name=name, **place)  # type: ignore[arg-type]
        self.parts = nn.ModuleList(parts)

    @property
    def _operators(self) -> tuple[LinearOperator, ...]:
        return tuple(cast(LinearOperator, part) for part in self.parts)

    def _first_part(self) -> LinearOperator:
        return self._operators[0]

    def _check_parts(self) -> None:
        _same_place(self._operators)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every matrix entry is known to be >= 0."""
        return all(part.nonnegative for part in self._operators)


class Composed(_Several):
    """Operators one after the other, the one that takes the input first: `layers`.

    `A @ B` is Composed([B, A]). Each layer stays visible: `f.layers`, `f["K"]`, `for layer in f`.

    A range that is not the next one's domain raises `KoriskError`, as does a name that no layer
    has. The norm is that of the product, not the product of the norms.

    >>> import torch
    >>> from korisk.operators import Diagonal, Matrix
    >>> A = Diagonal([1.0, 2.0]) @ Matrix([[1.0], [1.0]])
    >>> [layer.name for layer in A], A(torch.tensor([3.0])).tolist()
    (['M', 'W'], [3.0, 6.0])
    """

    def __init__(self, layers: Sequence[LinearOperator], *, name: str = "") -> None:
        parts = _checked_operators(layers)
        for first, second in pairwise(parts):
            if first.range != second.domain:
                raise KoriskError(
                    f"{second.name} cannot follow {first.name}: {first.name} gives "
                    f"{shape_text(first.range)}, {second.name} takes {shape_text(second.domain)}"
                )
        super().__init__(
            parts,
            domain=parts[0].domain,
            range=parts[-1].range,
            name=name or " ".join(part.name for part in reversed(parts)),
        )

    def __iter__(self) -> Iterator[LinearOperator]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def layers(self) -> tuple[LinearOperator, ...]:
        """The operators, input side first."""
        return self._operators

    def __getitem__(self, name: str) -> LinearOperator:
        for part in self.layers:
            if part.name == name:
                return part
        known = ", ".join(part.name for part in self.layers)
        raise KoriskError(f"there is no layer {shown(name)}; layers: {known}")

    @property
    def T(self) -> LinearOperator:
        """The adjoints in reverse order."""
        return Composed([part.T for part in reversed(self.layers)])

    def _map(self, x: Tensor) -> Tensor:
        for part in self.layers:
            x = part._map(x)
        return x

    def _map_adjoint(self, y: Tensor) -> Tensor:
        for part in reversed(self.layers):
            y = part._map_adjoint(y)
        return y

    def _norm(self, width: float, seed: int) -> NormBracket:
        if len(self.layers) == 1:
            return self.layers[0]._norm(width, seed)
        return super()._norm(width, seed)


class Scaled(LinearOperator):
    """c A, for a number c.

    `c * A` and `-A` make it.

    >>> import torch
    >>> from korisk.operators import Identity
    >>> (-3.0 * Identity(2))(torch.ones(2)).tolist()
    [-3.0, -3.0]
    """

    def __init__(self, of: LinearOperator, factor: float) -> None:
        _checked_operators([of])
        number = _factor(factor)
        super().__init__(of.domain, of.range, name=of.name, device=of.device, dtype=of.dtype)
        self.of = of
        self.factor = number

    def _first_part(self) -> LinearOperator:
        return self.of

    def _check_parts(self) -> None:
        self.of._check_parts()

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every matrix entry is known to be >= 0."""
        return self.of.nonnegative and self.factor >= 0

    def _map(self, x: Tensor) -> Tensor:
        return self.of._map(x) * self.factor

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self.of._map_adjoint(y) * self.factor

    def _norm(self, width: float, seed: int) -> NormBracket:
        return scaled_bracket(self.of._norm(width, seed), abs(self.factor))


class Sum(_Several):
    """A + B + ..., all between the same shapes.

    `A + B` makes it; other shapes raise `KoriskError`.

    >>> import torch
    >>> from korisk.operators import Diagonal, Identity
    >>> (Identity(2) + Diagonal([1.0, 2.0]))(torch.ones(2)).tolist()
    [2.0, 3.0]
    """

    def __init__(self, terms: Sequence[LinearOperator]) -> None:
        parts = _checked_operators(terms)
        for part in parts[1:]:
            if (part.domain, part.range) != (parts[0].domain, parts[0].range):
                raise KoriskError(
                    f"operators can be added between the same shapes only, got {_arrow(parts[0])} "
                    f"and {_arrow(part)}"
                )
        super().__init__(
            parts,
            domain=parts[0].domain,
            range=parts[0].range,
            name="(" + " + ".join(_signed_name(part) for part in parts) + ")",
        )

    @property
    def terms(self) -> tuple[LinearOperator, ...]:
        """What is added."""
        return self._operators

    def _map(self, x: Tensor) -> Tensor:
        return _sum([part._map(x) for part in self.terms])

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return _sum([part._map_adjoint(y) for part in self.terms])


class Stacked(_Several):
    """(A; B; ...): one domain, ranges joined along their first axis, as views of a scan are.

    `stack(A, B)` makes it. Another domain, or ranges that differ beyond their first axis, raise
    `KoriskError`.

    >>> import torch
    >>> from korisk.operators import Diagonal, Identity, Stacked
    >>> Stacked([Identity(2), Diagonal([3.0, 4.0])])(torch.ones(2)).tolist()
    [1.0, 1.0, 3.0, 4.0]
    """

    def __init__(self, parts: Sequence[LinearOperator]) -> None:
        rows = _checked_operators(parts)
        for part in rows[1:]:
            if part.domain != rows[0].domain or part.range[1:] != rows[0].range[1:]:
                raise KoriskError(
                    "stacked operators share their domain and all but the first axis of their "
                    f"range, got {_arrow(rows[0])} and {_arrow(part)}"
                )
        if not rows[0].range:
            raise KoriskError("operators whose range is a single number cannot be stacked")
        super().__init__(
            rows,
            domain=rows[0].domain,
            range=(sum(part.range[0] for part in rows), *rows[0].range[1:]),
            name="[" + "; ".join(part.name for part in rows) + "]",
        )

    @property
    def rows(self) -> tuple[LinearOperator, ...]:
        """What is stacked, from the top."""
        return self._operators

    def _map(self, x: Tensor) -> Tensor:
        return torch.cat([part._map(x) for part in self.rows], dim=-len(self.range))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        sizes = [part.range[0] for part in self.rows]
        pieces = torch.split(y, sizes, dim=-len(self.range))
        parts = zip(self.rows, pieces, strict=True)
        return _sum([part._map_adjoint(piece) for part, piece in parts])


def stack(*operators: LinearOperator) -> LinearOperator:
    """(A; B; ...) as one operator; see `Stacked`.

    >>> from korisk.operators import ParallelBeam, Projector, stack
    >>> first = Projector(ParallelBeam(8, views=6, bins=12))
    >>> second = Projector(ParallelBeam(8, views=6, bins=12, start=0.1))
    >>> stack(first, second).range
    (12, 12)
    """
    return Stacked(operators)


def parts_of(operator: LinearOperator) -> tuple[LinearOperator, ...]:
    """The layers of a composition, or the operator itself."""
    return operator.layers if isinstance(operator, Composed) else (operator,)


def scaled_bracket(bracket: NormBracket, factor: float) -> NormBracket:
    """The bracket of a norm times a factor >= 0."""
    if factor == 0:
        return NormBracket(0.0, 0.0, how="zero")
    return NormBracket(bracket.lower * factor, bracket.upper * factor, how=bracket.how)


def shape_text(shape: Shape, *, batched: bool = False) -> str:
    """A shape as messages show it: (..., 60, 128)."""
    return "(" + ", ".join((["..."] if batched else []) + [str(length) for length in shape]) + ")"


def checked_shape(field: str, given: Any) -> Shape:
    """A shape as whole numbers >= 1; one number stands for a line of that length."""
    remedy = "count the points along each axis"
    several = isinstance(given, Iterable) and not isinstance(given, str)
    lengths = given if several else [given]
    return tuple(_checks.count(field, length, at_least=1, remedy=remedy) for length in lengths)


def _checked_operators(given: Any) -> list[LinearOperator]:
    if not isinstance(given, Iterable) or isinstance(given, LinearOperator):
        raise KoriskError(f"operators must come in a list, got {shown(given)}")
    operators = list(given)
    if not operators:
        raise KoriskError("there must be at least one operator, got none")
    for operator in operators:
        if not isinstance(operator, LinearOperator):
            raise KoriskError(f"only LinearOperators can be combined, got {shown(operator)}")
    return operators


def _factor(given: object) -> float:
    if isinstance(given, Tensor) and given.requires_grad:
        raise KoriskError(
            "an operator is scaled by a plain number, got a tensor that requires gradients; use "
            "Diagonal(..., trainable=True) for weights that are learned"
        )
    try:
        number = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise KoriskError(f"an operator is scaled by a finite number, got {shown(given)}")
    return number


def _signed_name(operator: LinearOperator) -> str:
    minus = isinstance(operator, Scaled) and operator.factor < 0
    return f"-{operator.name}" if minus else operator.name


def _applied(
    function: Callable[[Tensor], Tensor], x: Tensor, source: Shape, target: Shape
) -> Tensor:
    """The function of x, in x's precision: autocast would round what an exact adjoint needs."""
    if x.numel() == 0:  # an empty batch, which some libraries refuse; still part of the graph
        return x.new_zeros((*x.shape[: x.ndim - len(source)], *target)) + x.sum()
    if not torch.is_autocast_enabled(x.device.type):
        return function(x)
    with torch.autocast(x.device.type, enabled=False):
        return function(x)


def _arrow(operator: LinearOperator) -> str:
    return f"{operator.name} {shape_text(operator.domain)} -> {shape_text(operator.range)}"


def _sum(terms: list[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _same_place(operators: Sequence[LinearOperator]) -> None:
    first = operators[0]
    for other in operators[1:]:
        if (other.dtype, other.device) != (first.dtype, first.device):
            raise KoriskError(
                f"{first.name} is {first.dtype} on {first.device}, {other.name} {other.dtype} on "
                f"{other.device}; bring them together with .to(...)"
            )


def checked_device(device: torch.device | str | None) -> torch.device | None:
    """A device that is there, or None for PyTorch's default."""
    if device is None:
        return None
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise KoriskError(
            f"device must be one that PyTorch has here, got {shown(device)}: {reason}"
        ) from None


def checked_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """float32 or float64, PyTorch's default where nothing is asked for."""
    chosen = torch.get_default_dtype() if dtype is None else dtype
    if chosen not in DTYPES:
        raise KoriskError(
            f"operators compute in torch.float32 or torch.float64, got {shown(chosen)}"
        )
    return chosen
