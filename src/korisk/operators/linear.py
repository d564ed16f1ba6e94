"""LinearOperator: a linear map between tensors of fixed shapes, with its adjoint and its norm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import reduce, wraps
from itertools import pairwise
from operator import add
from typing import Any, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, invalid, shown
from korisk.operators import inputs, norms
from korisk.operators.exports import Exported
from korisk.operators.inputs import LOW, Shape, autocast_on, jit_tracing, shape_text, traced
from korisk.operators.types import Device, Dtype, Lengths
from korisk.theory.bracket import NormBracket

Operator = TypeVar("Operator", bound="LinearOperator")

_LARGEST_MATRIX = 2**31  # bytes that as_matrix() may fill
# How accurate products are, from best to worst. Errors of 1e-5 of the norm in every product move
# the norm by at most 18e-5 sqrt(steps): Lanczos is then exact for a Gram matrix within that
# distance. Solving may amplify such errors without limit.
EXACT, ROUNDED, SOLVED, UNCHECKED = INEXACT = "", "in float32", "solved in float32", "not checked"
_INEXACT = 18e-5


def _guarded(
    function: Callable[[Operator, Tensor], Tensor], method: str, source: str, target: str
) -> Callable[[Operator, Tensor], Tensor]:
    """Wrap a subclass's map: one node where it is traced and opaque, else check its shape."""

    @wraps(function)
    def guarded(self: Operator, x: Tensor) -> Tensor:
        if self.opaque and traced(x):
            node: Tensor = torch.ops.korisk.apply(x, self._key, method == "_map_adjoint")
            return node
        # The map of a subclass may be the user's: its result is checked.
        image: object = function(self, x)
        if not jit_tracing():  # which would warn of every comparison of shapes
            shape = *x.shape[: x.ndim - len(getattr(self, source))], *getattr(self, target)
            if not isinstance(image, Tensor) or image.shape != shape:
                got = shape_text(image.shape) if isinstance(image, Tensor) else shown(image)
                rule = f"give the shape {shape_text(shape)}, the batch and the {target}"
                got += f" for an input of {shape_text(x.shape)}"
                remedy = f"correct {function.__qualname__}, or the operator's {target}"
                raise invalid(f"{self.name}: {method}", rule, image, remedy, got=got)
        return cast(Tensor, image)

    return guarded


class LinearOperator(Exported, ABC):
    """A linear map A from tensors of shape `domain` to tensors of shape `range`.

    It acts on the trailing dimensions; leading dimensions are batches: `A(x)` with x of shape
    (..., *domain) gives (..., *range), and `A.T(y)` or `A.adjoint(y)` goes back. Gradients of any
    order pass through both directions. An operator is an `nn.Module`: it can be part of an
    `nn.Sequential`, moves with `.to(...)` and can be pickled. What it needs on a device and in a
    precision is computed there when it is first used.

    A subclass defines `_map` and `_map_adjoint` in differentiable PyTorch, on tensors that were
    checked, and `_norm` where it knows more than the general iteration finds.

    Parameters
    ----------
    domain, range : int or sequence of int
        Shapes of input and output without the batch.
    name : str, default: the class's name
        Used in messages and by `Composed`.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    The adjoint is exact: <A x, y> = <x, A^T y> up to rounding. `norm()` brackets
    ||A|| = max ||A x|| / ||x||.

    Examples
    --------
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

    __array_ufunc__ = None  # `array @ A` then is a TypeError, not an array of operators
    nonnegative = False  # whether every matrix entry is known to be >= 0
    most_norm = math.inf  # a norm that is known not to be exceeded
    opaque = False  # whether compilers and tracers see it as one node, see `opaque.py`
    time_axis = 0  # of the range, along which a scan proceeds: views, lines, shots
    interleaved = False  # whether shots take turns along that axis
    inexact = EXACT  # why products are known to float32 alone, even in float64

    def __init__(
        self,
        domain: Lengths,
        range: Lengths,
        *,
        name: str = "",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        self.domain = inputs.checked_shape("domain", domain)
        self.range = inputs.checked_shape("range", range)
        self.name = name or type(self).__name__
        self._register()
        # An empty buffer that moves with the module says where and how it computes.
        place, precision = inputs.checked_device(device), inputs.checked_dtype(dtype)
        anchor = torch.empty(0, device=place, dtype=precision)
        self.register_buffer("_anchor", anchor, persistent=False)

    def __init_subclass__(cls, **kwargs: object) -> None:
        # Here, and not where operators are called: sums and compositions use _map directly, and a
        # wrong shape could be broadcast to the right one on the way.
        super().__init_subclass__(**kwargs)
        for method, ends in (("_map", ("domain", "range")), ("_map_adjoint", ("range", "domain"))):
            if method in vars(cls):
                setattr(cls, method, _guarded(vars(cls)[method], method, *ends))

    @abstractmethod
    def _map(self, x: Tensor) -> Tensor:
        """A x for x of shape (..., *domain), in the operator's dtype and on its device."""

    @abstractmethod
    def _map_adjoint(self, y: Tensor, /) -> Tensor:
        """A^T y for y of shape (..., *range)."""

    def forward(self, x: Tensor) -> Tensor:
        """A x.

        Parameters
        ----------
        x : Tensor, shape (..., *domain)
            In the operator's precision and on its device.

        Returns
        -------
        Tensor, shape (..., *range)
        """
        return self._applied(x, False)

    def adjoint(self, y: Tensor) -> Tensor:
        """A^T y.

        Parameters
        ----------
        y : Tensor, shape (..., *range)
            In the operator's precision and on its device.

        Returns
        -------
        Tensor, shape (..., *domain)
        """
        return self._applied(y, True)

    def _applied(self, x: Tensor, adjoint: bool) -> Tensor:
        """A x or A^T x in the operator's precision, which autocast must not lower."""
        if autocast_on(x):
            with torch.autocast(x.device.type, enabled=False):
                if x.dtype not in LOW:
                    return self._applied(x, adjoint)
                up = x.to(self.dtype)  # and back, as the layers around it expect
                return self._applied(up, adjoint).to(x.dtype)
        source, target = self._ends(adjoint)
        self._check(x, source, "input of the adjoint" if adjoint else "input")
        # An empty batch, which some libraries refuse; still part of the graph.
        if not jit_tracing() and x.numel() == 0:
            return x.new_zeros((*x.shape[: x.ndim - len(source)], *target)) + x.sum()
        return self._map_adjoint(x) if adjoint else self._map(x)

    def _check(self, x: Tensor, shape: Shape, what: str) -> None:
        subject = f"{self.name}: the {what}"
        if not isinstance(x, Tensor):
            raise invalid(subject, "be a torch tensor", x, "convert arrays with torch.as_tensor")
        wrong = not jit_tracing() and x.shape[x.ndim - len(shape) :] != shape
        if wrong or x.ndim < len(shape):
            rule = f"have shape {shape_text(shape, batched=True)}"
            raise invalid(subject, rule, x, "batch dimensions come first", got=shape_text(x.shape))
        self._check_parts()
        place = self._location()
        if x.dtype != place.dtype or x.device != place.device or x.layout != torch.strided:
            rule = f"be a dense tensor of {place.dtype} on {place.device}"
            inside = "call it inside torch.autocast, or " if x.dtype in LOW else ""
            remedy = f"{inside}convert it, or the operator, with .to(...)"
            raise invalid(subject, rule, x, remedy, got=f"{x.dtype} on {x.device}, {x.layout}")

    def _check_parts(self) -> None:
        """Raise if parts were moved apart since they were combined."""

    @property
    def T(self) -> LinearOperator:
        """The adjoint as an operator; it shares this one, so moving either moves both."""
        return Adjoint(self)

    # Algebra

    def __matmul__(self, right: object) -> Any:
        if isinstance(right, LinearOperator):
            return Composed([*parts_of(right), *parts_of(self)])
        if isinstance(right, Tensor):
            return self(right)
        takes = f"{self.name} @ takes a torch tensor or another operator, got {shown(right)}"
        raise KoriskError(f"{takes}; convert arrays with torch.as_tensor")

    def __mul__(self, factor: float) -> LinearOperator:
        return Scaled(self, factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> LinearOperator:
        number = _factor(divisor)
        return Scaled(self, 1 / number if number else math.inf)

    def __neg__(self) -> LinearOperator:
        return Scaled(self, -1.0)

    def __add__(self, term: LinearOperator) -> LinearOperator:
        return Sum([self, term])

    def __radd__(self, start: object) -> LinearOperator:
        return self if start == 0 else NotImplemented  # sum(...) starts from 0

    def __sub__(self, term: LinearOperator) -> LinearOperator:
        return self + Scaled(term, -1.0)

    def as_matrix(self) -> Tensor:
        """The whole matrix.

        Returns
        -------
        Tensor, shape (prod range, prod domain)

        Raises
        ------
        KoriskError
            If the matrix would take more than 2 GiB.

        Examples
        --------
        >>> from korisk.operators import Diagonal
        >>> Diagonal([1.0, 2.0]).as_matrix().tolist()
        [[1.0, 0.0], [0.0, 2.0]]
        """
        rows, columns = math.prod(self.range), math.prod(self.domain)
        needed = rows * columns * self._anchor.element_size()
        if needed > _LARGEST_MATRIX:
            size = f"{needed / 2**30:.1f} GiB ({rows:,} x {columns:,})"
            remedy = "apply the operator to vectors, or use a smaller geometry"
            raise KoriskError(f"{self.name}: as_matrix() would fill {size}; {remedy}")
        # The side with fewer unit vectors, in pieces that stay small.
        tall = columns <= rows
        apply, shape = (self, self.domain) if tall else (self.adjoint, self.range)
        unit = torch.eye(min(rows, columns), dtype=self.dtype, device=self.device)
        with torch.no_grad():
            images = [
                apply(block.reshape(-1, *shape)).reshape(len(block), -1)
                for block in torch.split(unit, max(1, 2**26 // (rows + columns)))
            ]
            return torch.cat(images).t().contiguous() if tall else torch.cat(images)

    # Norms

    def norm(self, *, width: float = 0.01, seed: int = 0) -> NormBracket:
        """The operator norm from below and from above, and how both ends are known.

        Computed in float64 whatever the operator's own precision.

        Parameters
        ----------
        width : float, default 0.01
            Relative width to aim for where the norm is iterated, from 1e-4 to 0.99.
        seed : int, default 0
            Random start of that iteration.

        Returns
        -------
        NormBracket

        Examples
        --------
        >>> from korisk.operators import ParallelBeam, Projector
        >>> bracket = Projector(ParallelBeam(8, views=6, bins=12)).norm(width=0.05)
        >>> bracket.lower <= bracket.upper <= 1.05 * bracket.lower
        True
        """
        aim = _checks.real("width", width, at_least=1e-4, at_most=0.99, remedy="try 0.01")
        start = _checks.count("seed", seed, "give a whole number", at_least=0, at_most=2**63 - 1)
        with torch.no_grad():
            return self.in_double()._norm(aim, start)

    def _norm(self, width: float, seed: int) -> NormBracket:
        """The bracket; called on the operator in float64."""
        if self.inexact == UNCHECKED:
            return NormBracket(0.0, math.inf, how=f"unknown; {self.inexact}")
        if self.inexact == SOLVED:
            return NormBracket(0.0, self._gross_norm(), how=f"norms of the parts; {self.inexact}")
        # A^T A and A A^T have the same largest eigenvalue; the smaller one is iterated.
        inner = math.prod(self.domain) <= math.prod(self.range)
        forward, adjoint = (self, self.adjoint) if inner else (self.adjoint, self)
        certain = self.nonnegative and not self.inexact  # what certifies divides by small numbers
        shape = self._ends(not inner)[0]
        slack = _INEXACT if self.inexact else norms.ROUNDING
        if certain:
            # Without negative entries: a positive start, and bounds that are certain.
            start = torch.ones(shape, dtype=torch.float64, device=self.device)
            bracket, steps = self._norm_from(forward, adjoint, start, width, certain=True)
        else:
            for attempt in range(norms.STARTS):
                # The witness of an attempt is the start of the next one.
                start, witness = (
                    norms.start(shape, seed, attempt + later).to(self.device) for later in (0, 1)
                )
                bracket, steps = self._norm_from(forward, adjoint, start, width, certain=False)
                limit = (1 + slack) * bracket.upper
                if not norms.is_contradicted(limit, forward, adjoint, witness):
                    break
            else:
                how = "random starts contradict one another; is the operator linear?"
                bracket = NormBracket(bracket.lower, math.inf, how=how)
        if not self.inexact:
            return bracket
        # Rounded products move both ends by this at most, see _INEXACT.
        slack = _INEXACT * math.sqrt(steps) * self._gross_norm(bracket.upper)
        how = f"{bracket.how}; {self.inexact}"
        return NormBracket(max(bracket.lower - slack, 0.0), bracket.upper + slack, how=how)

    def _norm_from(
        self, forward: norms.Map, adjoint: norms.Map, start: Tensor, width: float, *, certain: bool
    ) -> tuple[NormBracket, int]:
        """The bracket from one start, and how often the operator was applied."""
        size = norms.size(forward(start))
        steps = 1
        if size == 0:  # then so is the image of almost every other vector
            return NormBracket(0.0, 0.0, how="every vector is mapped to zero"), steps

        def gram(x: Tensor) -> Tensor:  # of A / size, whose square neither over- nor underflows
            nonlocal steps
            steps += 1
            return adjoint(forward(x) / size) / size

        if certain:
            bracket = norms.nonnegative_norm(gram, start, width=width)
        else:
            bracket = norms.random_start_norm(gram, start, width=width, most=self.most_norm / size)
        return scaled_bracket(bracket, size), steps

    def _gross_norm(self, upper: float | None = None) -> float:
        """Scale of the rounding errors: above the norm where parts cancel."""
        if self.inexact == SOLVED:
            return math.inf
        return self._norm(0.1, 0).upper if upper is None else upper

    def in_double(self) -> Self:
        """This operator in float64.

        Returns
        -------
        LinearOperator
            Itself if it is in float64, a copy if not.
        """
        return self if self.dtype == torch.float64 else deepcopy(self).to(torch.float64)

    def extra_repr(self) -> str:
        """The shapes, as nn.Module prints them."""
        return f"{shape_text(self.domain)} -> {shape_text(self.range)}"


class Combined(LinearOperator):
    """An operator made of several others, its `parts`, all on one device in one precision."""

    def __init__(
        self, parts: Sequence[LinearOperator], domain: Shape, range: Shape, name: str
    ) -> None:
        _check_same_place(parts)
        first = parts[0]
        super().__init__(domain, range, name=name, device=first.device, dtype=first.dtype)
        self.parts = nn.ModuleList(parts)

    @property
    def operators(self) -> tuple[LinearOperator, ...]:
        """The parts, in order."""
        return tuple(cast(LinearOperator, operator) for operator in self.parts)

    def _location(self) -> Tensor:
        return cast(LinearOperator, self.parts[0])._location()

    def _check_parts(self) -> None:
        _check_same_place(self.operators)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every matrix entry is known to be >= 0."""
        return all(operator.nonnegative for operator in self.operators)

    @property
    def inexact(self) -> str:  # type: ignore[override]
        """Why products of a part are known to float32 alone, even in float64."""
        return max((operator.inexact for operator in self.operators), key=INEXACT.index)

    def _gross_norm(self, upper: float | None = None) -> float:
        # Rounding errors of the terms add up, even where the terms cancel.
        return sum(operator._gross_norm() for operator in self.operators)


class Wrapped(LinearOperator):
    """An operator made of one other, `of`, which may be moved on its own."""

    def __init__(self, of: LinearOperator, domain: Shape, range: Shape, name: str) -> None:
        super().__init__(domain, range, name=name, device=of.device, dtype=of.dtype)
        self.of = of

    def _location(self) -> Tensor:
        return self.of._location()

    def _check_parts(self) -> None:
        self.of._check_parts()

    @property
    def inexact(self) -> str:  # type: ignore[override]
        """Why products of `of` are known to float32 alone, even in float64."""
        return self.of.inexact


class Adjoint(Wrapped):
    """The adjoint A^T of an operator A. `A.T` makes it, and its own `T` is A again.

    Parameters
    ----------
    of : LinearOperator
        A.

    Notes
    -----
    <A x, y> = <x, A^T y> for all x and y; the matrix is the transpose of A's, the norm A's.

    Examples
    --------
    >>> from korisk.operators import Matrix
    >>> A = Matrix([[1.0, 2.0, 3.0]])
    >>> A.T.domain, A.T.range, A.T.T is A
    ((1,), (3,), True)
    """

    def __init__(self, of: LinearOperator) -> None:
        _checked_operators([of])
        super().__init__(of, of.range, of.domain, f"{of.name}^T")

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every matrix entry is known to be >= 0."""
        return self.of.nonnegative

    @property
    def T(self) -> LinearOperator:
        """The operator of which this is the adjoint."""
        return self.of

    def _applied(self, x: Tensor, adjoint: bool) -> Tensor:
        return self.of._applied(x, not adjoint)

    def _map(self, x: Tensor) -> Tensor:
        return self.of._map_adjoint(x)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self.of._map(y)

    def _norm(self, width: float, seed: int) -> NormBracket:
        return self.of._norm(width, seed)

    def _gross_norm(self, upper: float | None = None) -> float:
        return self.of._gross_norm()


class Composed(Combined):
    """Operators applied one after the other. `A @ B` is Composed([B, A]).

    Each layer stays accessible: `f.layers`, `f["K"]`, `for layer in f`.

    Parameters
    ----------
    layers : sequence of LinearOperator
        The one that takes the input first.
    name : str, default: the names of the layers
        Used in messages.

    Notes
    -----
    (A B) x = A (B x) and (A B)^T = B^T A^T. The norm is that of the product, not the product of
    the norms, which may be far larger.

    Examples
    --------
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
                gives = f"{first.name} gives {shape_text(first.range)}"
                takes = f"{second.name} takes {shape_text(second.domain)}"
                raise KoriskError(f"{second.name} cannot follow {first.name}: {gives}, {takes}")
        words = name or " ".join(layer.name for layer in reversed(parts))
        super().__init__(parts, parts[0].domain, parts[-1].range, words)

    layers = Combined.operators  # input side first

    def __iter__(self) -> Iterator[LinearOperator]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, name: str) -> LinearOperator:
        by_name = {layer.name: layer for layer in reversed(self.layers)}
        if name not in by_name:
            known = ", ".join(layer.name for layer in self.layers)
            raise KoriskError(f"there is no layer {shown(name)}; layers: {known}")
        return by_name[name]

    @property
    def T(self) -> LinearOperator:
        """The adjoints in reverse order."""
        return Composed([layer.T for layer in reversed(self.layers)])

    def _map(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer._map(x)
        return x

    def _map_adjoint(self, y: Tensor) -> Tensor:
        for layer in reversed(self.layers):
            y = layer._map_adjoint(y)
        return y

    def _gross_norm(self, upper: float | None = None) -> float:
        rounded = sum(bool(layer.inexact) for layer in self.layers)  # the errors of each add up
        return max(rounded, 1) * math.prod(layer._gross_norm() for layer in self.layers)

    def _norm(self, width: float, seed: int) -> NormBracket:
        if len(self.layers) == 1:
            return self.layers[0]._norm(width, seed)
        return super()._norm(width, seed)


class Scaled(Wrapped):
    """c A, for a number c. `c * A`, `A / c` and `-A` make it.

    Parameters
    ----------
    of : LinearOperator
        A.
    factor : float
        c, finite.

    Notes
    -----
    (c A)^T = c A^T and ||c A|| = |c| ||A||.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Identity
    >>> (-3.0 * Identity(2))(torch.ones(2)).tolist()
    [-3.0, -3.0]
    """

    def __init__(self, of: LinearOperator, factor: float) -> None:
        _checked_operators([of])
        super().__init__(of, of.domain, of.range, of.name)
        self.factor = _factor(factor)

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

    def _gross_norm(self, upper: float | None = None) -> float:
        return abs(self.factor) * self.of._gross_norm()


class Sum(Combined):
    """A + B + ..., all between the same shapes. `A + B` and `sum([A, B])` make it.

    Parameters
    ----------
    terms : sequence of LinearOperator
        What is added.

    Notes
    -----
    (A + B) x = A x + B x and (A + B)^T = A^T + B^T.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Diagonal, Identity
    >>> (Identity(2) + Diagonal([1.0, 2.0]))(torch.ones(2)).tolist()
    [2.0, 3.0]
    """

    def __init__(self, terms: Sequence[LinearOperator]) -> None:
        parts = _checked_operators(terms)
        first = parts[0]
        for term in parts[1:]:
            if term._ends() != first._ends():
                both = f"{_arrow(first)} and {_arrow(term)}"
                only = "operators can be added between the same shapes only"
                raise KoriskError(f"{only}, got {both}")
        # "A - B" is a sum with -1 times B.
        negative = [isinstance(term, Scaled) and term.factor < 0 for term in parts]
        names = ["-" * minus + term.name for term, minus in zip(parts, negative, strict=True)]
        super().__init__(parts, first.domain, first.range, f"({' + '.join(names)})")

    def _map(self, x: Tensor) -> Tensor:
        return reduce(add, [term._map(x) for term in self.operators])

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return reduce(add, [term._map_adjoint(y) for term in self.operators])


class Stacked(Combined):
    """(A; B; ...): one input, outputs joined along their first axis, as views of a scan are.

    Parameters
    ----------
    parts : sequence of LinearOperator
        From the top.

    Notes
    -----
    (A; B) x = (A x; B x) and (A; B)^T (y; z) = A^T y + B^T z.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Diagonal, Identity, Stacked
    >>> Stacked([Identity(2), Diagonal([3.0, 4.0])])(torch.ones(2)).tolist()
    [1.0, 1.0, 3.0, 4.0]
    """

    def __init__(self, parts: Sequence[LinearOperator]) -> None:
        rows = _checked_operators(parts)
        first = rows[0]
        for row in rows:
            same = row.domain == first.domain and row.range[1:] == first.range[1:]
            if not same or not row.range:
                rule = "have one domain, and ranges of at least one axis that differ in "
                rule += "the first alone"
                both = f"{_arrow(first)} and {_arrow(row)}"
                raise invalid("stacked operators", rule, parts, got=both)
        height = sum(row.range[0] for row in rows)
        name = "[" + "; ".join(row.name for row in rows) + "]"
        super().__init__(rows, first.domain, (height, *first.range[1:]), name)

    def _map(self, x: Tensor) -> Tensor:
        return torch.cat([row._map(x) for row in self.operators], dim=-len(self.range))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        # The adjoint of a stack: each row's adjoint of its piece, added up.
        pieces = torch.split(y, [row.range[0] for row in self.operators], dim=-len(self.range))
        parts = zip(self.operators, pieces, strict=True)
        return reduce(add, [row._map_adjoint(piece) for row, piece in parts])


def stack(*operators: LinearOperator) -> LinearOperator:
    """(A; B; ...) as one operator.

    Parameters
    ----------
    *operators : LinearOperator
        From the top; see `Stacked`.

    Returns
    -------
    Stacked

    Examples
    --------
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
    upper = bracket.upper * factor if factor else 0.0  # of infinity too
    return NormBracket(bracket.lower * factor, upper, how=bracket.how)


def require_operator(value: object) -> LinearOperator:
    """The value, if it is an operator."""
    if not isinstance(value, LinearOperator):
        raise invalid("operator", "be a LinearOperator", value)
    return value


def _checked_operators(value: object) -> list[LinearOperator]:
    listed = isinstance(value, Iterable) and not isinstance(value, LinearOperator)
    operators = list(value) if isinstance(value, Iterable) and listed else []
    if not operators or not all(isinstance(operator, LinearOperator) for operator in operators):
        raise invalid("operators", "be one or more LinearOperators in a list", value)
    return operators


def _factor(value: object) -> float:
    learned = isinstance(value, Tensor) and value.requires_grad  # its gradient would be lost
    try:
        number = math.nan if learned else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        remedy = "use Diagonal(..., trainable=True) for weights that are learned"
        scaled = f"an operator can be scaled by a finite number only, got {shown(value)}"
        raise KoriskError(f"{scaled}; {remedy}")
    return number


def _arrow(operator: LinearOperator) -> str:
    return f"{operator.name} {shape_text(operator.domain)} -> {shape_text(operator.range)}"


def _check_same_place(operators: Sequence[LinearOperator]) -> None:
    first = operators[0]
    for operator in operators[1:]:
        if (operator.dtype, operator.device) != (first.dtype, first.device):
            here = f"{first.name} is {first.dtype} on {first.device}"
            there = f"{operator.name} {operator.dtype} on {operator.device}"
            raise KoriskError(f"{here}, {there}; bring them together with .to(...)")
