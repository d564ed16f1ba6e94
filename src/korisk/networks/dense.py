"""DenseNet: one matrix between all inputs and all outputs, and a ReLU."""

import math
from typing import Self

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk._memory import check_memory
from korisk.errors import KoriskError, invalid
from korisk.operators.basic import own_tensor
from korisk.operators.inputs import Shape, checked_dtype, checked_shape, shape_text
from korisk.operators.types import Lengths, Values
from korisk.theory import Known, Layer, Learned, Network


class DenseNet(nn.Module):
    """ReLU(M x): (..., *domain) -> (..., *range), M of shape (prod range, prod domain).

    M is the parameter `weight`. A matrix that does not fit into the free memory is refused before
    anything is allocated; `DenseNet.factored` forms none.

    Parameters
    ----------
    domain, range : int or sequence of int
        Shapes of one input and one output; numbers for vectors.
    matrix : tensor or array of shape (prod range, prod domain), optional
        Start of M, copied; a tensor's device and precision are those of the network. Default: zero.
    relu : bool, default True
        Whether a ReLU follows.

    Raises
    ------
    KoriskError
        If shapes do not fit together, M does not fit into memory, or an input has another shape,
        precision or device.

    Examples
    --------
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
        self, domain: Lengths, range: Lengths, *, matrix: Values | None = None, relu: bool = True
    ) -> None:
        self._take_shape(domain, range, relu)
        like = matrix if isinstance(matrix, Tensor) else torch.empty(0)
        self._refuse_what_does_not_fit(like.device, checked_dtype(like.dtype))
        if matrix is None:
            values = torch.zeros(self._matrix_shape)
        else:
            values = own_tensor("matrix", matrix).to(like)
            self._require("matrix", values, self._matrix_shape)
        self.weight = nn.Parameter(values)
        self.register_buffer("left", None)
        self.register_buffer("right", None)

    @classmethod
    def factored(
        cls, left: Tensor, right: Tensor, domain: Lengths, range: Lengths, relu: bool = True
    ) -> Self:
        """ReLU(left (right x)), M = left @ right never formed; nothing in it is trained.

        Parameters
        ----------
        left : tensor of shape (prod range, N) or (N, *range)
            The left factor, or N targets: the dual form of a fit to N samples. Not copied.
        right : tensor of shape (N, prod domain)
            The right factor, of the same precision and device. Not copied.
        domain, range : int or sequence of int
            Shapes of one input and one output; numbers for vectors.
        relu : bool, default True
            Whether a ReLU follows.

        Returns
        -------
        DenseNet
            A network without parameters.

        Raises
        ------
        KoriskError
            If the factors do not fit together.

        Examples
        --------
        >>> import torch
        >>> from korisk.networks import DenseNet
        >>> net = DenseNet.factored(torch.ones(2, 1), torch.ones(1, 3), domain=3, range=2)
        >>> net(torch.ones(3)).tolist()
        [3.0, 3.0]
        """
        net = cls.__new__(cls)
        net._take_shape(domain, range, relu)
        factors: tuple[object, ...] = (left, right)
        for factor in factors:
            floats = isinstance(factor, Tensor) and factor.is_floating_point()
            _checks.require(floats, "left and right", "be tensors of floats", factor)
        if len(net.range) > 1 and left.shape[1:] == net.range:
            left = left.reshape(len(left), -1).t()
        rows, columns = net._matrix_shape
        net._require("right", right, (len(right), columns))
        net._require("left", left, (rows, len(right)))
        if (left.dtype, left.device) != (right.dtype, right.device):
            both = f"left is {left.dtype} on {left.device}, right {right.dtype} on {right.device}"
            raise KoriskError(f"{both}; bring them together with .to(...)")
        net.register_parameter("weight", None)
        net.register_buffer("left", left.detach())
        net.register_buffer("right", right.detach())
        return net

    def _take_shape(self, domain: Lengths, range: Lengths, relu: bool) -> None:
        nn.Module.__init__(self)
        self.domain: Shape = checked_shape("domain", domain)
        self.range: Shape = checked_shape("range", range)
        self.relu = bool(relu)

    @property
    def _matrix_shape(self) -> tuple[int, int]:
        return math.prod(self.range), math.prod(self.domain)

    def _factors(self) -> tuple[Tensor, ...]:
        """M as the matrices whose product it is."""
        if self.weight is not None:
            return (self.weight,)
        assert self.left is not None
        assert self.right is not None
        return self.left, self.right

    def matrix(self) -> Tensor:
        """M itself; formed on request where the network is factored.

        Returns
        -------
        tensor of shape (prod range, prod domain)
            The parameter `weight`, or the product of the factors.

        Raises
        ------
        KoriskError
            If a product does not fit into memory.
        """
        if self.weight is not None:
            return self.weight
        left, right = self._factors()
        self._refuse_what_does_not_fit(right.device, right.dtype)
        return left @ right

    def forward(self, x: Tensor) -> Tensor:
        """ReLU(M x): (..., *domain) -> (..., *range), batch dimensions first."""
        if not isinstance(x, Tensor):
            raise invalid("the input", "be a torch tensor", x)
        factors = self._factors()
        matrix, lead = factors[-1], x.shape[: max(x.ndim - len(self.domain), 0)]
        if (x.shape, x.dtype, x.device) != ((*lead, *self.domain), matrix.dtype, matrix.device):
            raise KoriskError(
                f"the input must have shape {shape_text(self.domain, batched=True)}, batch first, "
                f"in {matrix.dtype} on {matrix.device}, got {shape_text(tuple(x.shape))} "
                f"in {x.dtype} on {x.device}; convert it, or the network, with .to(...)"
            )
        image = x.reshape(lead.numel(), math.prod(self.domain))
        for factor in reversed(factors):
            image = image @ factor.t()
        image = image.reshape(*lead, *self.range)
        return torch.relu(image) if self.relu else image

    def describe(self) -> Network:
        """The network as the theory takes it: one learned layer with all of M's entries.

        Returns
        -------
        Network
            The layers "M" and, if there is one, "ReLU".
        """
        layers: list[Layer] = [Learned("M", parameters=math.prod(self._matrix_shape))]
        if self.relu:
            layers.append(Known("ReLU", lipschitz=1.0))
        return Network(layers)

    def extra_repr(self) -> str:
        """The shapes and the ReLU, as nn.Module prints them."""
        rank = "" if self.right is None else f", {len(self.right)} factors"
        return f"{shape_text(self.domain)} -> {shape_text(self.range)}{rank}, relu={self.relu}"

    def _require(self, field: str, values: Tensor, shape: tuple[int, int]) -> None:
        if values.shape != shape:
            between = f"{shape_text(self.domain)} and {shape_text(self.range)}"
            rule = f"have shape {shape_text(shape)} between {between}"
            raise invalid(field, rule, values, got=shape_text(tuple(values.shape)))

    def _refuse_what_does_not_fit(self, device: torch.device, dtype: torch.dtype) -> None:
        rows, columns = self._matrix_shape
        remedy = "keep it as factors, as the dual ridge fit and DenseNet.factored do"
        what = f"a dense matrix of {rows:,} x {columns:,}"
        check_memory(rows * columns * dtype.itemsize, device, what, remedy)
