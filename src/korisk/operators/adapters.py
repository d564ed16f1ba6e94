"""Operators from anywhere: functions, SciPy, PyLops, ASTRA and deepinv as LinearOperators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import numpy as np
import torch
from torch import Tensor, nn

from korisk._checks import require
from korisk.errors import KoriskError, invalid, shown
from korisk.operators import inputs, norms
from korisk.operators.inputs import DTYPES, Options, Shape, checked_length, shape_text
from korisk.operators.linear import EXACT, ROUNDED, UNCHECKED, LinearOperator
from korisk.operators.opaque import Opaque
from korisk.operators.types import Device, Dtype, Lengths

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator as ScipyOperator

# Largest |<A x, y> - <x, A^T y>|, relative, where results have that precision.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5}

Function = Callable[[Any], Any]


class _Shared(tuple[Function, Function]):
    """Two functions that copies of an operator share: their state may be large or not copyable."""

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type[_Shared], tuple[object]]:
        return _Shared, (tuple(self),)


class Adapted(Opaque):
    """Two functions as an operator, by `from_callables`, `from_scipy` or `from_deepinv`."""

    def __init__(
        self,
        functions: tuple[Function, Function],
        domain: Lengths,
        range: Lengths,
        *,
        parts: Sequence[nn.Module] = (),
        precision: Dtype = None,
        check: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(domain, range, **options)
        self.parts = nn.ModuleList(parts)
        self._check_fixed()
        # Functions of modules are copied with these; others are shared by copies.
        self._functions = functions if parts else _Shared(functions)
        # What was not tried is only known to work where it was made.
        self._precision = self.dtype if precision is None and not check else precision
        if self._precision is not None:
            inputs.checked_dtype(self._precision)
        self._checked = check
        self._made_on = self.device
        if check:
            self._precisions()

    def _check_fixed(self) -> None:
        for module in self.parts:
            remedy = "freeze it with requires_grad_(False)"
            self._require_frozen(module, type(module).__name__, remedy)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse=False)
        for module in self.parts:  # other buffers may be left behind in another precision
            module._apply(lambda tensor: tensor.to(self.device))  # type: ignore[no-untyped-call]
        return self

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        source, target = self._ends(adjoint)
        lead = x.shape[: x.ndim - len(source)]
        if not x.numel():
            return x.new_zeros(*lead, *target)
        self._check_fixed()
        # In the input's precision if the functions accept it, else in the first that they accept.
        accepted = self._precisions()
        items = x.reshape(-1, *source).to(x.dtype if x.dtype in accepted else next(iter(accepted)))
        # A function may write into what it is given, and keep what it returns.
        return self._called(items.clone(), adjoint).to(x.dtype, copy=True).reshape(*lead, *target)

    def _called(self, items: Tensor, adjoint: bool) -> Tensor:
        """Call a function on a batch and check the shape and type of its result."""
        source, target = self._ends(adjoint)
        subject = f"{self.name}: {'adjoint' if adjoint else 'forward'}"
        where = f"for a batch of {len(items)} in {items.dtype} on {items.device}"
        try:
            image = self._functions[adjoint](items)
        except Exception as error:
            remedy = "correct it, domain=, range= or batched=, which says whether it takes batches"
            if items.device != self._made_on:
                remedy = f"it worked on {self._made_on}: create it again on the other device"
            rule = f"map {shape_text(source)} to {shape_text(target)}"
            got = f"{type(error).__name__} {where}: {_one_line(error)}"
            raise invalid(subject, rule, items, remedy, got=got) from error
        shape = len(items), *target
        if not isinstance(image, Tensor) or image.shape != shape or image.dtype not in DTYPES:
            rule = f"give one tensor of float32 or float64 of shape {shape_text(shape)} {where}"
            remedy, got = "correct it, domain= or range=, or convert its result", shown(image)
            if isinstance(image, Tensor):
                got = f"{image.dtype} of shape {shape_text(image.shape)}"
            raise invalid(subject, rule, image, remedy, got=got)
        return image.detach().to(items.device)

    def _precisions(self) -> dict[torch.dtype, torch.dtype]:
        """`_tried()`, cached; runs in the caller's thread, whose modes the functions may need."""
        if "_tried" not in self._cache:
            with torch.no_grad():
                self._cache["_tried"] = self._tried()
        return cast(dict[torch.dtype, torch.dtype], self._cache["_tried"])

    def _tried(self) -> dict[torch.dtype, torch.dtype]:
        """The precision of the results for each input precision that the functions accept."""
        allowed = DTYPES[::-1] if self._precision is None else (self._precision,)
        if not self._checked:
            return dict.fromkeys(allowed, torch.float32)
        accepted, failed = {}, {}
        for dtype in allowed:
            try:
                accepted[dtype] = self._tested(dtype)
            except KoriskError as error:
                if not isinstance(error.__cause__, RuntimeError | TypeError):
                    raise
                failed[dtype] = error  # many functions hold weights in one precision, and say so
        if not accepted:
            raise failed.get(self.dtype) or next(iter(failed.values()))
        return accepted

    def _tested(self, dtype: torch.dtype) -> torch.dtype:
        """Check that the functions are linear and adjoint; return their results' precision."""

        def draw(shape: Shape, stream: str) -> Tensor:
            return norms.drawn(shape, 0, f"adapter {stream}").to(self.device, dtype)

        # Three inputs: x_0, x_1 and x_0 - 2 x_1, whose image shows whether the map is linear.
        x = draw((2, *self.domain), "inputs")
        image = self._called(torch.cat([x, (x[0] - 2 * x[1])[None]]), False)
        # A random y shows whatever differs; y = A x shows a wrong factor best.
        y = torch.stack([draw(self.range, "outputs"), image[1].to(dtype)])
        back = self._called(y.clone(), True)
        double = dtype == image.dtype == back.dtype == torch.float64
        precision = torch.float64 if double else torch.float32
        images, x, y, back = (
            batch.double().reshape(len(batch), -1).cpu() for batch in (image, x, y, back)
        )
        # <A x, y> and <x, A^T y>, relative to the sizes of both sides.
        sums = (images[:2] * y).sum(1), (x * back).sum(1)
        sizes = images[:2].norm(dim=1) * y.norm(dim=1) + x.norm(dim=1) * back.norm(dim=1)
        bend = images[2] - images[0] + 2 * images[1]
        gaps = (sums[0] - sums[1]).abs() / torch.where(sizes == 0, 1.0, sizes / 2)
        limit = TOLERANCES[precision]
        bent = "forward", "be linear", float(bend.norm() / (images.norm() or 1.0))
        for word, rule, error in (bent, ("adjoint", "be that of forward", float(gaps.max()))):
            got = f"a relative error of {error:.2g} in {precision}, limit {limit:g}"
            remedy = "correct it, pass precision=torch.float32 if it computes in that inside, or "
            remedy += "check=False to use it as it is"
            require(error <= limit, f"{self.name}: {word}", rule, error, remedy, got=got)
        return precision

    @property
    def inexact(self) -> str:  # type: ignore[override]
        """Why products are known to float32 alone, even in float64."""
        if not self._checked:
            return UNCHECKED
        return EXACT if self._precisions().get(torch.float64) == torch.float64 else ROUNDED


def from_callables(
    forward: Function,
    adjoint: Function,
    domain: Lengths,
    range: Lengths,
    *,
    batched: bool = False,
    numpy: bool = False,
    precision: Dtype = None,
    check: bool = True,
    name: str = "A",
    device: Device = None,
    dtype: Dtype = None,
) -> LinearOperator:
    """Two functions, A and its adjoint, as an operator.

    The functions are tried when the operator is made, and again after it has moved: they must give
    the stated shapes, be linear, and be each other's adjoint. Neither needs to be differentiable:
    the derivative of one is the other, to any order. Modules, and those whose methods are given,
    also as arguments of a `functools.partial`, move with the operator but keep their precision, and
    must not be trainable. Of what functions hold otherwise nothing is known: a copy of the operator
    shares it, also where the other function is a module, and a `Tikhonov` of the operator does not
    notice that it changes.

    Parameters
    ----------
    forward, adjoint : callable
        From a tensor of shape `domain` to one of shape `range`, and back. The operator can be
        pickled where they can.
    domain, range : int or sequence of int
        Shapes of input and output, without a batch.
    batched : bool, default False
        Whether the functions take and give batches, (items, *domain) and (items, *range); otherwise
        they are called for each item.
    numpy : bool, default False
        Whether they take and give NumPy's arrays.
    precision : torch.dtype, optional
        torch.float32 or torch.float64 if the functions compute in that whatever they are given;
        inputs are converted to it. Found out where None, from what they accept and return.
    check : bool, default True
        Whether to try them. With False, nothing is known about the adjoint, so that `norm()` is
        from 0 to infinity, also of what is made of the operator.
    name : str, default "A"
        Used in messages and by `Composed`.
    device : torch.device or str, optional
        PyTorch's default where None.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; PyTorch's default where None. Results are converted to it.

    Returns
    -------
    LinearOperator

    Raises
    ------
    KoriskError
        If a shape or precision is another than stated, or the functions are not adjoint within
        1e-9 in float64 and 1e-5 in float32.

    Notes
    -----
    `norm()` is Lanczos in float64. Where the functions compute in float32, both ends are moved
    outwards, by 0.15% for a width of 1%, which covers errors of up to 1e-5 of the norm in each
    product. A `Tikhonov` may enlarge these errors: what is made of it has a lower end of 0.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import from_callables
    >>> A = from_callables(lambda x: x.cumsum(0), lambda y: y.flip(0).cumsum(0).flip(0), 3, 3)
    >>> A(torch.ones(2, 3)).tolist(), A.T(torch.ones(3)).tolist()
    ([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], [3.0, 2.0, 1.0])
    """
    functions, parts = [], []
    for word, function in (("forward", forward), ("adjoint", adjoint)):
        require(callable(function), word, "be a function of a tensor", function)
        pending: list[object] = [function]
        # Modules that the functions are bound to, or that a partial passes to them.
        for item in pending:  # which grows
            if isinstance(item, partial):
                pending += [item.func, *item.args, *item.keywords.values()]
            pending += [item.__self__] if isinstance(item, MethodType) else []
            if isinstance(item, nn.Module) and item not in parts:
                parts.append(item)
        if numpy:
            function = partial(_on_arrays, function)
        functions.append(function if batched else partial(_item_by_item, function))
    pair, options = (functions[0], functions[1]), Options(name=name, device=device, dtype=dtype)
    return Adapted(pair, domain, range, parts=parts, precision=precision, check=check, **options)


def from_scipy(
    operator: Any,
    domain: Lengths | None = None,
    range: Lengths | None = None,
    *,
    check: bool = True,
    name: str = "A",
    device: Device = None,
    dtype: Dtype = None,
) -> LinearOperator:
    """A matrix or linear operator of SciPy; this includes PyLops operators and ASTRA's OpTomo.

    It computes on the CPU in its own precision, whatever the device and precision of the tensors.
    A complex operator becomes a real one: complex numbers are a last axis of 2, real and imaginary
    part, as in `Fourier`.

    Parameters
    ----------
    operator : scipy.sparse.linalg.LinearOperator, sparse array or array
        A, with `rmatvec`. Matrices are copied; an operator is shared, and a `Tikhonov` does not
        notice that it changes.
    domain, range : int or sequence of int, optional
        Shapes of input and output, without the last axis of 2. The shapes that a PyLops operator
        states, or plain vectors, where None.
    check : bool, default True
        Whether to try it, see `from_callables`.
    name : str, default "A"
        Used in messages and by `Composed`.
    device : torch.device or str, optional
        PyTorch's default where None.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; PyTorch's default where None. Results are converted to it.

    Returns
    -------
    LinearOperator

    Raises
    ------
    KoriskError
        If it is something else, a shape has another number of entries, or the adjoint is wrong.

    Examples
    --------
    >>> import scipy.sparse, torch
    >>> from korisk.operators import from_scipy
    >>> A = from_scipy(scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]))
    >>> A(torch.tensor([1.0, 3.0])).tolist(), round(A.norm().upper, 2)
    ([6.0, 1.0, 0.0], 2.0)
    """
    from scipy.sparse import issparse
    from scipy.sparse.linalg import aslinearoperator

    values = None  # of a matrix that is held, for the norm
    is_matrix = isinstance(operator, np.ndarray) or issparse(operator)
    if is_matrix:
        rule, text = "be a matrix, with rows and columns", shape_text(operator.shape)
        remedy, got = "reshape it to (rows, columns)", f"an array of shape {text}"
        require(operator.ndim == 2, "operator", rule, operator, remedy, got=got)
        operator = operator.copy()  # so that it stays what it is
        values = getattr(operator, "data", None) if issparse(operator) else operator
    try:
        linear = aslinearoperator(operator)
        rows, columns = linear.shape
        # The dtype of some operators does not say that their images are complex.
        kinds = np.dtype(linear.dtype).kind, np.asarray(linear.matvec(np.zeros(columns))).dtype.kind
    except (TypeError, ValueError) as error:
        rule = "be a LinearOperator of SciPy or PyLops, or a matrix of numbers"
        remedy, text = "for functions use from_callables", f"{shown(operator)}: {error}"
        raise invalid("operator", rule, operator, remedy, got=text) from None
    ends = []
    for field, argument, attribute, length, is_complex in (
        ("domain", domain, "dims", columns, kinds[0] == "c"),
        ("range", range, "dimsd", rows, "c" in kinds),
    ):
        lengths = getattr(operator, attribute, None) if argument is None else argument
        shape = checked_length(field, lengths, length, f"an operator of {rows:,} x {columns:,}")
        ends.append((*shape, 2) if is_complex else shape)
    forward, back = (partial(_on_columns, linear, back, ends[not back]) for back in (False, True))
    options = Options(name=name, device=device, dtype=dtype)
    adapted = Adapted((forward, back), ends[0], ends[1], check=check, **options)
    if isinstance(values, np.ndarray) and values.dtype.kind in "bfiu":
        adapted.nonnegative = bool((values >= 0).all())
    return adapted


def from_deepinv(
    physics: nn.Module,
    img_size: Sequence[int],
    *,
    check: bool = True,
    name: str = "A",
    dtype: Dtype = None,
) -> LinearOperator:
    """A LinearPhysics of deepinv, without its noise.

    It moves with the operator from device to device, and keeps its precision.

    Parameters
    ----------
    physics : deepinv.physics.LinearPhysics
        `physics.A` and `physics.A_adjoint` are called.
    img_size : sequence of int
        Shape of an image without the batch, such as (1, 64, 64).
    check : bool, default True
        Whether to try it, see `from_callables`.
    name : str, default "A"
        Used in messages and by `Composed`.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; PyTorch's default where None. Results are converted to it.

    Returns
    -------
    LinearOperator

    Raises
    ------
    KoriskError
        If it is not a linear physics, does not take such images, or its adjoint is only near one,
        as that of Tomography(adjoint_via_backprop=False).

    Examples
    --------
    >>> import torch
    >>> class Doubling(torch.nn.Module):  # has what LinearPhysics has
    ...     def A(self, x):
    ...         return 2 * x
    ...     A_adjoint = A
    >>> from korisk.operators import from_deepinv
    >>> from_deepinv(Doubling(), (1, 2, 2)).norm().upper.__round__(6)
    2.0
    """
    source: Any = physics
    known = isinstance(source, nn.Module) and hasattr(source, "A_adjoint")
    remedy = "for functions use from_callables"
    require(known, "physics", "be a LinearPhysics of deepinv", physics, remedy)
    domain = inputs.checked_shape("img_size", img_size)
    tensor = next(iter([*source.buffers(), *source.parameters()]), torch.empty(0))
    # deepinv's physics do not state a device or precision; their buffers have them.
    floats = [buffer.dtype for buffer in source.buffers() if buffer.is_floating_point()]
    probe = torch.zeros(1, *domain, device=tensor.device, dtype=next(iter(floats), None))
    try:
        image = source.A(probe)
    except Exception as error:
        got = f"{shape_text(domain)}: {_one_line(error)}"
        remedy = "give (channels, rows, columns)"
        rule = "be the shape of an image that physics.A takes"
        raise invalid("img_size", rule, img_size, remedy, got=got) from error
    remedy = "adapt the parts of a stacked physics and join them with stack"
    require(isinstance(image, Tensor), "physics.A", "give one tensor", image, remedy)
    options = Options(name=name, device=tensor.device, dtype=dtype)
    pair = source.A, source.A_adjoint
    return from_callables(*pair, domain, image.shape[1:], batched=True, check=check, **options)


def _one_line(error: Exception) -> str:
    """The first 200 characters of an exception's message, on one line."""
    return " ".join(str(error).split())[:200]


def _item_by_item(function: Function, items: Tensor) -> object:
    """Apply a function of one item to every item of a batch."""
    images = []
    for item in items:
        image = function(item)
        if not isinstance(image, Tensor):
            return image
        images.append(image.clone())  # the function may use that memory again
    return torch.stack(images)


def _on_arrays(function: Function, x: Tensor) -> object:
    """Apply a function of NumPy arrays to a tensor."""
    image = function(x.cpu().numpy())
    # A copy: PyTorch takes no reversed arrays, and warns of those that cannot be written to.
    return torch.from_numpy(np.array(image, order="C")) if isinstance(image, np.ndarray) else image


def _on_columns(linear: ScipyOperator, adjoint: bool, target: Shape, items: Tensor) -> Tensor:
    """Apply a SciPy operator to a batch, (items, *source) -> (items, *target)."""
    flat = items.cpu().numpy().reshape(len(items), -1)
    if flat.shape[1] != linear.shape[not adjoint]:  # pairs of real and imaginary parts
        flat = flat.view(np.complex64 if flat.dtype == np.float32 else np.complex128)
    # SciPy takes vectors as columns: (n, items).
    vectors = np.ascontiguousarray(flat.T)
    image = linear.rmatmat(vectors) if adjoint else linear.matmat(vectors)
    result = np.asarray(image).T
    pairs = result.shape[1] != math.prod(target)
    result = np.stack([result.real, result.imag], -1) if pairs else result.real
    return torch.from_numpy(np.ascontiguousarray(result)).reshape(len(items), *target)
