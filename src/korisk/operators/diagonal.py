"""Identity, Diagonal and Matrix: operators whose entries are at hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from korisk.errors import KoriskError, shown
from korisk.operators import lanczos as _lanczos
from korisk.operators.linear import LinearOperator, Shape, checked_shape, shape_text
from korisk.theory.bracket import NormBracket

_LARGEST_DECOMPOSED = 2048  # side up to which all singular values take seconds, not minutes


class Identity(LinearOperator):
    """x -> x, as a copy: what is written into the result does not reach the input.

    `shape` is that of x without its batch.

    >>> import torch
    >>> from korisk.operators import Identity
    >>> Identity((2, 3))(torch.ones(5, 2, 3)).shape
    torch.Size([5, 2, 3])
    """

    nonnegative = True

    def __init__(
        self,
        shape: int | Sequence[int],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        lengths = checked_shape("shape", shape)
        super().__init__(lengths, lengths, name="I", device=device, dtype=dtype)

    def _map(self, x: Tensor) -> Tensor:
        return x.clone()

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return y.clone()

    def _norm(self, width: float, seed: int) -> NormBracket:
        return NormBracket(1.0, 1.0, how="the identity's")


class Diagonal(LinearOperator):
    """x -> w x, entry by entry, with weights w of the shape of x.

    Weights may be a tensor, whose precision and device the operator takes, or an array, which
    becomes torch's default precision; either is copied. With `trainable=True` they are an
    `nn.Parameter` and `norm()` is that of the present weights.

    >>> import torch
    >>> from korisk.operators import Diagonal
    >>> W = Diagonal([1.0, -2.0], trainable=True)
    >>> W(torch.ones(2)).tolist(), W.norm().upper, len(list(W.parameters()))
    ([1.0, -2.0], 2.0, 1)
    """

    weights: Tensor

    def __init__(self, weights: Any, *, name: str = "W", trainable: bool = False) -> None:
        values = own_tensor("weights", weights)
        super().__init__(
            values.shape, values.shape, name=name, device=values.device, dtype=values.dtype
        )
        if trainable:
            self.weights = nn.Parameter(values)
        else:
            self.register_buffer("weights", values)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every weight is >= 0 at present."""
        return bool((self.weights >= 0).all())

    def _map(self, x: Tensor) -> Tensor:
        return x * self.weights

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return y * self.weights

    def _norm(self, width: float, seed: int) -> NormBracket:
        largest = _lanczos.size(self.weights)
        return NormBracket(largest, largest, how="largest |weight|")


class Matrix(LinearOperator):
    """x -> M x for a dense matrix M of shape (prod range, prod domain), which is copied.

    Without `domain` and `range` the operator takes and gives plain vectors.

    >>> import torch
    >>> from korisk.operators import Matrix
    >>> M = Matrix([[1.0, 2.0], [0.0, 3.0]])
    >>> M(torch.ones(2)).tolist(), M.T(torch.ones(2)).tolist()
    ([3.0, 3.0], [1.0, 5.0])
    """

    matrix: Tensor

    def __init__(
        self,
        matrix: Any,
        domain: int | Sequence[int] | None = None,
        range: int | Sequence[int] | None = None,
        name: str = "M",
    ) -> None:
        values = own_tensor("matrix", matrix)
        if values.ndim != 2:
            raise KoriskError(
                f"matrix must have two dimensions, got shape {shape_text(tuple(values.shape))}; "
                "reshape it to (rows, columns)"
            )
        rows, columns = values.shape
        super().__init__(
            _side("domain", domain, columns, "columns"),
            _side("range", range, rows, "rows"),
            name=name,
            device=values.device,
            dtype=values.dtype,
        )
        self.register_buffer("matrix", values)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every entry is >= 0."""
        return bool((self.matrix >= 0).all())

    def _map(self, x: Tensor) -> Tensor:
        return _times(x, self.matrix.t(), self.domain, self.range)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return _times(y, self.matrix, self.range, self.domain)

    def _norm(self, width: float, seed: int) -> NormBracket:
        if min(self.matrix.shape) > _LARGEST_DECOMPOSED:
            return super()._norm(width, seed)
        largest = float(torch.linalg.matrix_norm(self.matrix, 2))
        return NormBracket(largest, largest, how="largest singular value")


def own_tensor(field: str, given: Any) -> Tensor:
    """A copy of an array or tensor in float32 or float64, without NaN and infinities."""
    if isinstance(given, Tensor):
        values = given.detach().clone()
    else:
        try:
            values = torch.from_numpy(np.array(given, order="C"))
        except (TypeError, ValueError):
            raise KoriskError(
                f"{field} must be a torch tensor or an array of numbers, got {shown(given)}"
            ) from None
        values = values if values.is_complex() else values.to(torch.get_default_dtype())
    if values.is_complex():
        raise KoriskError(
            f"{field} must be real, got {values.dtype}; hold complex numbers as a last axis of 2"
        )
    if not values.is_floating_point():
        values = values.to(torch.get_default_dtype())
    if values.numel() == 0:
        raise KoriskError(
            f"{field} must have at least one entry, got shape {shape_text(tuple(values.shape))}"
        )
    wrong = values.numel() - int(torch.isfinite(values).sum())
    if wrong:
        raise KoriskError(
            f"{field} must be finite, got {wrong:,} of {values.numel():,} entries that are NaN or "
            "infinite; clean them with torch.nan_to_num, or find where they come from"
        )
    return values.contiguous()


def _side(field: str, given: int | Sequence[int] | None, length: int, what: str) -> Shape:
    if given is None:
        return (length,)
    shape = checked_shape(field, given)
    if math.prod(shape) != length:
        raise KoriskError(
            f"{field} must have as many entries as the matrix has {what}, {length:,}, got "
            f"{shape_text(shape)}, which has {math.prod(shape):,}"
        )
    return shape


def _times(x: Tensor, matrix: Tensor, given: Shape, wanted: Shape) -> Tensor:
    batch = x.shape[: x.ndim - len(given)]
    return (x.reshape(*batch, math.prod(given)) @ matrix).reshape(*batch, *wanted)
