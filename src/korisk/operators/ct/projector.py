"""Projectors: line integrals through an image, and the pixel-driven backprojection."""

from __future__ import annotations

from typing import Any, Literal

import scipy.sparse
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError
from korisk.operators.ct import engines
from korisk.operators.ct.engines import Engine, EngineName
from korisk.operators.ct.geometry import Geometry, require_geometry
from korisk.operators.ct.stencils import Joseph, PixelDriven, RotateAndSum, Sampled, Stencil
from korisk.operators.linear import LinearOperator

Kind = Literal["joseph", "rotate", "sampled"]
KINDS: tuple[Kind, ...] = ("joseph", "rotate", "sampled")


class _Product(torch.autograd.Function):
    """A linear product and its adjoint as each other's derivative, to any order.

    PyTorch's own gradient of a sparse product is an order of magnitude slower, and it cannot be
    differentiated twice.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, operator: _StencilOperator, project: bool) -> Tensor:
        ctx.operator, ctx.project = operator, project
        return operator._product(x, project)

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None, None]:
        return _apply(gradient[0], ctx.operator, not ctx.project), None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        return _apply(tangents[0], ctx.operator, ctx.project)


class _TransformedProduct(torch.autograd.Function):
    """The same for torch.func, in the form that it asks for, which is slower to call."""

    @staticmethod
    def forward(x: Tensor, operator: _StencilOperator, project: bool) -> Tensor:
        return operator._product(x, project)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.operator, ctx.project = inputs

    backward = _Product.backward
    jvp = _Product.jvp

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, operator: Any, project: bool
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None
        return _apply(x.movedim(in_dims[0], 0), operator, project), 0


# Inside vmap, jvp or grad of torch.func; a PyTorch that cannot tell gets the slower form.
_inside_transform = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def _apply(x: Tensor, operator: _StencilOperator, project: bool) -> Tensor:
    form: Any = _TransformedProduct if _inside_transform() else _Product
    result: Tensor = form.apply(x, operator, project)
    return result


class _StencilOperator(LinearOperator):
    """Image to sinogram (or back) by the weights of a stencil."""

    nonnegative = True

    def __init__(
        self,
        stencil: Stencil,
        *,
        backwards: bool,
        engine: EngineName,
        name: str,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        shapes = stencil.image_shape, stencil.sinogram_shape
        domain, range = reversed(shapes) if backwards else shapes
        super().__init__(domain, range, name=name, device=device, dtype=dtype)
        _checks.one_of("engine", engine, engines.ENGINES)
        self.stencil = stencil
        self.engine: EngineName = engine
        self._backwards = backwards
        if engine == "matrix":
            engines.refuse_what_does_not_fit(stencil, self.device, self.dtype)

    @property
    def geometry(self) -> Geometry:
        """The scanner."""
        return self.stencil.geometry

    def _map(self, x: Tensor) -> Tensor:
        return _apply(x, self, not self._backwards)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return _apply(y, self, self._backwards)

    def _product(self, x: Tensor, project: bool) -> Tensor:
        image, sinogram = self.stencil.image_shape, self.stencil.sinogram_shape
        source, target = (image, sinogram) if project else (sinogram, image)
        lead = x.shape[: x.ndim - 2]
        flat = x.detach().reshape(lead.numel(), source[0] * source[1]).contiguous()
        if not len(flat):
            return x.new_zeros(*lead, *target)
        engine = self._engine()
        product = engine.project(flat) if project else engine.backproject(flat)
        return product.reshape(*lead, *target)

    def _engine(self) -> Engine:
        return self._once(
            "engine",
            lambda: engines.engine_for(self.stencil, self.engine, self.device, self.dtype),
        )

    def sparse_matrix(self) -> scipy.sparse.csr_array:
        """The matrix, rows in the order of the range's flat index and columns of the domain's."""
        engines.refuse_what_does_not_fit(self.stencil, torch.device("cpu"), self.dtype)
        matrix = engines.sparse_matrix(self.stencil, self.dtype)
        return scipy.sparse.csr_array(matrix.T.tocsr()) if self._backwards else matrix

    def extra_repr(self) -> str:
        """The geometry, as nn.Module prints it."""
        return f"{self.geometry!r}, {super().extra_repr()}"


class Projector(_StencilOperator):
    """A: the line integrals of an image, (..., rows, columns) -> (..., views, bins), millimetres.

    `kind` is "joseph" (linear interpolation along rays, any geometry), "rotate" (the paper's
    surrogate, parallel) or "sampled" (the released code's fan projector, `samples` points a ray
    from source to detector, twice the image's side unless given).
    `engine` is "matrix" (sparse, with its transpose), "on_the_fly" (nothing stored) or "auto",
    the matrix where it takes a small part of the free memory.

    `geometry` is a `ParallelBeam` or a `FanBeam`. Its adjoint `A.T` is exact.

    >>> import torch
    >>> from korisk.operators import ParallelBeam, Projector
    >>> A = Projector(ParallelBeam(16, views=12, bins=24))
    >>> A(torch.ones(3, 16, 16)).shape, A.T(torch.ones(12, 24)).shape
    (torch.Size([3, 12, 24]), torch.Size([16, 16]))
    >>> round(A(torch.ones(16, 16))[0].max().item(), 3)
    16.0
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        kind: Kind = "joseph",
        samples: int | None = None,
        engine: EngineName = "auto",
        name: str = "A",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        require_geometry(geometry)
        super().__init__(
            _stencil(geometry, kind, samples),
            backwards=False,
            engine=engine,
            name=name,
            device=device,
            dtype=dtype,
        )


class PixelBackprojector(_StencilOperator):
    """Pixel-driven backprojection, (..., views, bins) -> (..., rows, columns).

    The sum over views of the sinogram where the pixel's ray arrives, interpolated linearly; for a
    fan times (source_to_center / U)^2 (see `FanBeam.depth`). Not the adjoint of `Projector`.

    >>> import torch
    >>> from korisk.operators import ParallelBeam, PixelBackprojector
    >>> image = PixelBackprojector(ParallelBeam(16, views=12, bins=24))(torch.ones(12, 24))
    >>> image.shape, round(image[8, 8].item(), 3)
    (torch.Size([16, 16]), 12.0)
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        engine: EngineName = "auto",
        name: str = "A^T",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        require_geometry(geometry)
        super().__init__(
            PixelDriven(geometry),
            backwards=True,
            engine=engine,
            name=name,
            device=device,
            dtype=dtype,
        )


def _stencil(geometry: Geometry, kind: Kind, samples: int | None) -> Stencil:
    _checks.one_of("kind", kind, KINDS)
    if kind == "sampled":
        chosen = 2 * max(geometry.image_shape) if samples is None else samples
        remedy = "count the points from source to detector"
        return Sampled(geometry, _checks.count("samples", chosen, at_least=2, remedy=remedy))
    if samples is not None:
        raise KoriskError(f"samples= belongs to kind='sampled', got kind={kind!r}; leave it out")
    return Joseph(geometry) if kind == "joseph" else RotateAndSum(geometry)
