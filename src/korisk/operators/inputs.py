"""What operators take: shapes, precisions and devices, and whether a compiler is looking."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, TypeGuard

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, invalid, shown
from korisk.operators.types import Device, Dtype

Array = NDArray[Any]  # of numbers of any type
Shape = tuple[int, ...]

DTYPES = (torch.float32, torch.float64)
LOW = (torch.bfloat16, torch.float16)  # taken inside autocast alone
PLAIN = (Tensor, nn.Parameter)
jit_tracing: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]


class Place(TypedDict):
    """Where and in which precision an operator computes; PyTorch's defaults where None."""

    device: Device
    dtype: Dtype


class Options(Place, total=False):
    """The same, and the name that messages and `Composed` use."""

    name: str


def traced(x: Tensor) -> bool:
    """Whether operations on x are being recorded, or x has no numbers."""
    return torch.compiler.is_compiling() or jit_tracing() or type(x) not in PLAIN or x.is_meta


def autocast_on(x: object) -> bool:
    """Whether x is a tensor whose device is inside torch.autocast."""
    kind = x.device.type if isinstance(x, Tensor) else ""
    return kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)


def complex_of(dtype: torch.dtype) -> torch.dtype:
    """The complex numbers of a precision."""
    return torch.complex64 if dtype == torch.float32 else torch.complex128


def as_complex(pairs: Tensor) -> Tensor:
    """Complex numbers from a last axis of 2, real and imaginary part."""
    return torch.complex(pairs[..., 0], pairs[..., 1])


def as_pairs(numbers: Tensor, *, real: bool) -> Tensor:
    """Complex numbers with a last axis of 2, or their real parts alone."""
    return numbers.real.clone() if real else torch.view_as_real(numbers)


def shape_text(shape: Shape, *, batched: bool = False) -> str:
    """A shape as messages show it: (..., 60, 128)."""
    return "(" + ", ".join(["..."] * batched + [str(length) for length in shape]) + ")"


def several(value: object) -> TypeGuard[Iterable[object]]:
    """Whether a value is a sequence of values."""
    return isinstance(value, Iterable) and not isinstance(value, str)


def checked_shape(field: str, value: Any, *, axes: int = 0) -> Shape:
    """A shape with at least `axes` axes of lengths >= 1; one number is a shape of one axis."""
    remedy = "count the points along each axis"
    lengths = value if several(value) else [value]
    shape = tuple(_checks.count(field, length, at_least=1, remedy=remedy) for length in lengths)
    rule = "have at least one axis"
    _checks.require(len(shape) >= axes, field, rule, shape, "pass (rows, columns)")
    return shape


def checked_length(field: str, value: Any, length: int, matrix: str) -> Shape:
    """A shape with `length` entries, the rows or columns of a matrix; one axis if None."""
    shape = checked_shape(field, length if value is None else value)
    rule, entries = f"have {length:,} entries for {matrix}", math.prod(shape)
    got = f"{shape_text(shape)}, which has {entries:,}"
    _checks.require(entries == length, field, rule, shape, got=got)
    return shape


def checked_device(device: Device) -> torch.device | None:
    """A device that PyTorch has here, or None for its default."""
    try:
        return None if device is None else torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        got = f"{shown(device)}: {reason}"
        raise invalid("device", "be one that PyTorch has here", device, got=got) from None


def checked_dtype(dtype: Dtype) -> torch.dtype:
    """float32 or float64; PyTorch's default where None."""
    chosen = torch.get_default_dtype() if dtype is None else dtype
    if chosen not in DTYPES:
        kinds = "torch.float32 or torch.float64"
        raise KoriskError(f"operators compute in {kinds}, got {shown(chosen)}")
    return chosen
