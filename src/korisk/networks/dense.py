"""DenseNet: one matrix between all inputs and all outputs, and a ReLU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from korisk.errors import KoriskError, shown
from korisk.operators.ct.engines import free_memory
from korisk.operators.diagonal import own_tensor
from korisk.operators.linear import (
    Shape,
    checked_device,
    checked_dtype,
    checked_shape,
    shape_text,
)
from korisk.theory import Known, Layer, Learned, Network


class DenseNet(nn.Module):
    """ReLU(M x): (..., *domain) -> (..., *range), M of shape (prod range, prod domain).

    M is the parameter `weight`: zero to begin with, or a copy of `matrix`, whose precision and
    place the network takes unless others are asked for. A matrix that does not fit in the free
    memory is refused before anything is allocated; `DenseNet.factored` forms none.
    `relu=False` leaves out the ReLU.

    `domain` and `range` are shapes, or numbers for vectors. An input of another shape raises
    `KoriskError`.

    >>> import torch
    >>> from korisk.networks import DenseNet
    >>> net = DenseNet(3, 2, matrix=[[1.0, 1.0, 1.0], [0.0, -1.0, 0.0]])
    >>> net(torch.ones(5, 3)).shape, net(torch.ones(3)).tolist()
    (torch.Size([5, 2]), [3.0, 0.0])
    >>> net.describe()
    Network([Learned('M', parameters=6), Known('ReLU', lipschitz=1.0)])
    """

    weight: nn.Parameter | None
    left: Tensor | None
    right: Tensor | None

    def __init__(
        self,
        domain: int | Sequence[int],
        range: int | Sequence[int],
        *,
        matrix: Tensor | Any = None,
        relu: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._take_shape(domain, range, relu)
        if isinstance(matrix, Tensor):
            device = matrix.device if device is None else device
            dtype = matrix.dtype if dtype is None else dtype
        place = checked_device(device) or torch.empty(0).device
        precision = checked_dtype(dtype)
        self._refuse_what_does_not_fit(place, precision)
        if matrix is None:
            values = torch.zeros(self._matrix_shape, device=place, dtype=precision)
        else:
            values = own_tensor("matrix", matrix).to(device=place, dtype=precision)
            self._require("matrix", values, self._matrix_shape)
        self.weight = nn.Parameter(values)
        self.register_buffer("left", None)
        self.register_buffer("right", None)

    @classmethod
    def factored(
        cls,
        left: Tensor,
        right: Tensor,
        domain: int | Sequence[int],
        range: int | Sequence[int],
        relu: bool = True,
    ) -> Self:
        """ReLU(left (right x)), M = left @ right never formed; nothing in it is trained.

        `left` is (prod range, N), or N targets of shape (N, *range), `right` is (N, prod domain):
        the dual form of a fit to N samples. Neither is copied.

        >>> import torch
        >>> from korisk.networks import DenseNet
        >>> net = DenseNet.factored(torch.ones(2, 1), torch.ones(1, 3), domain=3, range=2)
        >>> net(torch.ones(3)).tolist()
        [3.0, 3.0]
        """
        net = cls.__new__(cls)
        net._take_shape(domain, range, relu)
        _require_floats("left", left)
        _require_floats("right", right)
        if len(net.range) > 1 and left.shape[1:] == net.range:
            left = left.reshape(len(left), -1).t()
        rows, columns = net._matrix_shape
        net._require("right", right, (len(right), columns))
        net._require("left", left, (rows, len(right)))
        if (left.dtype, left.device) != (right.dtype, right.device):
            raise KoriskError(
                f"left is {left.dtype} on {left.device}, right {right.dtype} on {right.device}; "
                "bring them together with .to(...)"
            )
        net.register_parameter("weight", None)
        net.register_buffer("left", left.detach())
        net.register_buffer("right", right.detach())
        return net

    def _take_shape(
        self, domain: int | Sequence[int], range: int | Sequence[int], relu: bool
    ) -> None:
        nn.Module.__init__(self)
        self.domain: Shape = checked_shape("domain", domain)
        self.range: Shape = checked_shape("range", range)
        self.relu = bool(relu)

    @property
    def _matrix_shape(self) -> tuple[int, int]:
        return math.prod(self.range), math.prod(self.domain)

    @property
    def _standing(self) -> Tensor:
        """A tensor in the network's precision and place."""
        given = self.right if self.weight is None else self.weight
        assert given is not None
        return given

    def matrix(self) -> Tensor:
        """M, (prod range, prod domain); formed on request where the network is factored."""
        if self.weight is not None:
            return self.weight
        assert self.left is not None
        assert self.right is not None
        self._refuse_what_does_not_fit(self.right.device, self.right.dtype)
        return self.left @ self.right

    def forward(self, x: Tensor) -> Tensor:
        """ReLU(M x); x has shape (..., *domain)."""
        self._check(x)
        lead = x.shape[: x.ndim - len(self.domain)]
        flat = x.reshape(lead.numel(), math.prod(self.domain))
        image = self._times(flat).reshape(*lead, *self.range)
        return torch.relu(image) if self.relu else image

    def _times(self, flat: Tensor) -> Tensor:
        """M x for every row x of (batch, prod domain)."""
        if self.weight is not None:
            return flat @ self.weight.t()
        assert self.left is not None
        assert self.right is not None
        return (flat @ self.right.t()) @ self.left.t()

    def describe(self) -> Network:
        """The network as the theory takes it: one learned layer with all of M's entries."""
        layers: list[Layer] = [Learned("M", parameters=math.prod(self._matrix_shape))]
        if self.relu:
            layers.append(Known("ReLU", lipschitz=1.0))
        return Network(layers)

    def extra_repr(self) -> str:
        """The shapes and the ReLU, as nn.Module prints them."""
        rank = "" if self.right is None else f", {len(self.right)} factors"
        return f"{shape_text(self.domain)} -> {shape_text(self.range)}{rank}, relu={self.relu}"

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise KoriskError(f"the input must be a torch tensor, got {shown(x)}")
        if x.ndim < len(self.domain) or x.shape[x.ndim - len(self.domain) :] != self.domain:
            raise KoriskError(
                f"the input must have shape {shape_text(self.domain, batched=True)}, got "
                f"{shape_text(tuple(x.shape))}; batch dimensions come first"
            )
        own = self._standing
        if (x.dtype, x.device) != (own.dtype, own.device):
            raise KoriskError(
                f"the input must be {own.dtype} on {own.device}, got {x.dtype} on {x.device}; "
                "convert it, or the network, with .to(...)"
            )

    def _require(self, field: str, values: Tensor, shape: tuple[int, int]) -> None:
        if values.shape != shape:
            raise KoriskError(
                f"{field} must have shape {shape_text(shape)} between {shape_text(self.domain)} "
                f"and {shape_text(self.range)}, got {shape_text(tuple(values.shape))}"
            )

    def _refuse_what_does_not_fit(self, device: torch.device, dtype: torch.dtype) -> None:
        rows, columns = self._matrix_shape
        needed, free = rows * columns * dtype.itemsize, free_memory(device)
        if needed > free:
            raise KoriskError(
                f"a dense matrix of {rows:,} x {columns:,} takes {needed / 2**30:,.1f} GiB, of "
                f"{free / 2**30:,.1f} GiB free on {device}; keep it as factors, as the dual ridge "
                "fit and DenseNet.factored do"
            )


def _require_floats(field: str, given: object) -> None:
    if not isinstance(given, Tensor) or not given.is_floating_point():
        raise KoriskError(f"{field} must be a tensor of floats, got {shown(given)}")
