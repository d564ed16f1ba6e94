"""Projectors: line integrals through an image, and the pixel-driven backprojection."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError, invalid, shown
from korisk.operators.ct import engines
from korisk.operators.ct.cone import ConeBeam
from korisk.operators.ct.cone_stencils import ConeJoseph, ConePixelDriven, ConeStencil
from korisk.operators.ct.engines import Engine, EngineName
from korisk.operators.ct.geometry import FanBeam, Geometry, ParallelBeam
from korisk.operators.ct.stencils import AnyStencil, Joseph, PixelDriven, RotateAndSum, Sampled
from korisk.operators.inputs import Options, traced
from korisk.operators.linear import LinearOperator
from korisk.operators.opaque import DECODERS, Opaque, differentiable, no_derivative
from korisk.operators.types import Device, Dtype
from korisk.theory.bracket import NormBracket

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Kind = Literal["joseph", "rotate", "sampled"]
_LARGEST_STORED_CONE = 2**26  # entries, 1 GiB with the transpose in float32: some 56^3 voxels

# Whether autocast is on for any device; a PyTorch that cannot tell checks every input.
_any_autocast: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)

_live: WeakValueDictionary[tuple[object, ...], Engine] = WeakValueDictionary()
_norms: dict[tuple[object, ...], NormBracket] = {}  # by what it depends on, which cannot change


def engine_for(
    stencil: AnyStencil, name: EngineName, device: torch.device, dtype: torch.dtype
) -> Engine:
    """The engine of a stencil; operators of the same geometry share one while any of them lives."""
    # Kernels are faster than the product with a matrix, see benchmarks/operators/compare.py.
    card = device.type == "cuda" and _has_triton()
    cone = isinstance(stencil, ConeStencil) and (card or device.type == "cpu")
    # The kernels are for straight detectors.
    straight = not getattr(stencil.geometry, "curved", False)
    kernels = card and isinstance(stencil, Joseph) and straight
    pixels = card and isinstance(stencil, PixelDriven) and straight and name == "auto"
    if name == "auto" and not pixels:
        quicker = not (kernels or (cone and card))
        if cone and quicker:  # up to here the matrix is quicker, for batches by far
            quicker = engines.entry_count(stencil) <= _LARGEST_STORED_CONE
        stored = quicker and engines.worth_storing(stencil, device, dtype)
        name = "matrix" if stored else "on_the_fly"
    key = stencil, name, device, dtype
    if (engine := _live.get(key)) is not None:
        return engine
    build: Callable[[Any, torch.device, torch.dtype], Engine] = engines.OnTheFly
    if name == "matrix":
        engines.check_matrix_fits(stencil, device, dtype)
        build = engines.CpuMatrix if device.type == "cpu" else engines.DeviceMatrix
    elif cone and not card:
        from korisk.operators.ct.cone_engine import Factored

        build = Factored
    elif cone:
        from korisk.operators.ct.triton_cone import TritonCone

        build = TritonCone
    elif kernels or pixels:
        from korisk.operators.ct import triton_joseph

        build = triton_joseph.TritonJoseph if kernels else triton_joseph.TritonPixelDriven
    engine = _live[key] = build(stencil, device, dtype)
    return engine


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


class _StencilOperator(Opaque):
    """Image to sinogram (or back) by the weights of a stencil."""

    nonnegative = True

    def __init__(
        self,
        stencil: AnyStencil,
        engine: EngineName,
        *,
        backwards: bool,
        **options: Unpack[Options],
    ) -> None:
        shapes = stencil.geometry.image_shape, stencil.geometry.sinogram_shape
        domain, range = reversed(shapes) if backwards else shapes
        _checks.one_of("engine", engine, get_args(EngineName))
        self.stencil, self.engine, self._backwards = stencil, engine, backwards
        super().__init__(domain, range, **options)
        if engine == "matrix":
            engines.check_matrix_fits(stencil, self.device, self.dtype)

    @property
    def geometry(self) -> Geometry | ConeBeam:
        """The scanner."""
        return self.stencil.geometry

    def _recipe(self) -> str:
        # Geometry and stencil as JSON: another process makes the operator from them.
        numbers = {field.name: getattr(self.stencil, field.name) for field in fields(self.stencil)}
        stencil = {**numbers, "geometry": self.geometry.__getstate__()}
        kinds = type(self.stencil).__name__, type(self.geometry).__name__
        return "scanner:" + json.dumps([*kinds, stencil, self.engine, self._backwards])

    def _applied(self, x: Tensor, adjoint: bool) -> Tensor:
        # The checks take longer than a small product on a card, and pass for all inputs alike:
        # they are made once for each kind of input, and again after the operator has moved.
        if traced(x) or _any_autocast():
            return super()._applied(x, adjoint)
        kind = adjoint, x.shape, x.dtype, x.device, x.layout
        if (known := self._cache.get(kind)) is None:
            result = super()._applied(x, adjoint)
            if result.numel():
                batch = x.numel() // math.prod(self._ends(adjoint)[0])
                how = adjoint == self._backwards, batch, result.shape
                self._cache[kind] = self._once("_engine"), *how
            return result
        if x.requires_grad or not no_derivative(x):
            return differentiable(x, self, adjoint)
        engine, *how = known
        product: Tensor = engine.product(x.contiguous(), *how)
        return product

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        source, target = self._ends(adjoint)
        lead = x.shape[: x.ndim - len(source)]
        shape, batch = (*lead, *target), lead.numel()
        if not batch:
            return x.new_zeros(shape)
        # Not `_once` alone, which looks for changed weights: there are none here.
        engine: Engine = self._cache.get("_engine") or self._once("_engine")
        return engine.product(x.contiguous(), adjoint == self._backwards, batch, shape)

    def _norm(self, width: float, seed: int) -> NormBracket:
        key = self.stencil, self.engine, self.device, width
        if key not in _norms:
            _norms[key] = super()._norm(width, seed)
        return _norms[key]

    def _engine(self) -> Engine:
        return engine_for(self.stencil, self.engine, self.device, self.dtype)

    def sparse_matrix(self) -> csr_array:
        """The matrix, rows in the order of the range's flat index and columns of the domain's."""
        engines.check_matrix_fits(self.stencil, torch.device("cpu"), self.dtype)
        matrix = engines.sparse_matrix(self.stencil, self.dtype)
        return matrix.T.tocsr() if self._backwards else matrix

    def extra_repr(self) -> str:
        """The geometry, as nn.Module prints it."""
        return f"{self.geometry!r}, {super().extra_repr()}"


def require_geometry(geometry: object) -> None:
    """Raise if it is not a geometry."""
    rule = "be a ParallelBeam, FanBeam or ConeBeam"
    _checks.require(isinstance(geometry, Geometry | ConeBeam), "geometry", rule, geometry)


def _decode(text: str, device: torch.device, dtype: torch.dtype) -> LinearOperator:
    """The operator of a recipe."""
    beams: dict[str, Any] = {beam.__name__: beam for beam in (ParallelBeam, FanBeam, ConeBeam)}
    known = Joseph, RotateAndSum, Sampled, PixelDriven, ConeJoseph, ConePixelDriven
    kinds: dict[str, Any] = {kind.__name__: kind for kind in known}
    try:
        kind, beam, values, engine, backwards = json.loads(text)
        geometry = values.pop("geometry")  # whose tuples JSON has as lists
        geometry |= {name: tuple(v) for name, v in geometry.items() if isinstance(v, list)}
        stencil = kinds[kind](beams[beam](**geometry), **values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        rule, got = "be one that this version of korisk knows", f"{shown(text)}: {error}"
        remedy = "export the network again"
        raise invalid("the program's scanner", rule, text, remedy, got=got) from None
    return _StencilOperator(stencil, engine, backwards=bool(backwards), device=device, dtype=dtype)


DECODERS.update(scanner=_decode)


class Projector(_StencilOperator):
    """A: the line integrals of an image, (..., rows, columns) -> (..., views, bins).

    Of a volume, for a cone beam: (..., slices, rows, columns) -> (..., views, rows, columns).

    Parameters
    ----------
    geometry : ParallelBeam, FanBeam or ConeBeam
        The scanner.
    kind : {"joseph", "rotate", "sampled"}, default "joseph"
        Discretisation: "joseph" interpolates linearly along rays, for any geometry; "rotate" is the
        paper's surrogate, which sums the columns of the rotated image, parallel alone; "sampled" is
        the released code's fan projector.
    samples : int, default: twice the image's longer side
        Points on a ray from source to detector, for kind="sampled" alone.
    engine : {"auto", "matrix", "on_the_fly"}, default "auto"
        "matrix" stores a sparse matrix and its transpose, "on_the_fly" stores none; "auto" takes
        the matrix where it needs at most a quarter of the free memory, Triton kernels for "joseph"
        on CUDA, and for cones of more than 2^26 entries the two factors of their weights, see
        `ct/cone_stencils.py`.
    name : str, default "A"
        Used in messages and by `Composed`.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Raises
    ------
    KoriskError
        If the kind does not fit the geometry, or the matrix not into memory.

    Notes
    -----
    Continuous: (A f)(b, s) = integral of f along the ray of view b that meets the detector at s,
    in millimetres times f's unit. Discrete: (A x)_r = sum_p w_rp x_p, where w_rp >= 0 is the length
    of ray r that pixel p stands for; for Joseph's method one sample a row or column, interpolated
    linearly across and spaced pixel_spacing / |cos|; bilinearly, between slices as well, in a
    volume, whose rays step along x or y. The adjoint uses the same weights, so it is
    exact. Since w >= 0, power iteration brackets the norm with certainty on both sides.

    Examples
    --------
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
        geometry: Geometry | ConeBeam,
        *,
        kind: Kind = "joseph",
        samples: int | None = None,
        engine: EngineName = "auto",
        name: str = "A",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        require_geometry(geometry)
        _checks.one_of("kind", kind, get_args(Kind))
        if samples is not None and kind != "sampled":
            condition = f"kind='sampled', got kind={kind!r}"
            raise KoriskError(f"samples= belongs to {condition}; leave it out")
        stencil: AnyStencil
        if isinstance(geometry, ConeBeam):
            rule, remedy = "be 'joseph' for a ConeBeam", "leave it out"
            _checks.require(kind == "joseph", "kind", rule, kind, remedy)
            stencil = ConeJoseph(geometry)
        elif kind == "sampled":
            chosen = 2 * max(geometry.image_shape) if samples is None else samples
            remedy = "count the points from source to detector"
            stencil = Sampled(geometry, _checks.count("samples", chosen, at_least=2, remedy=remedy))
        else:
            stencil = Joseph(geometry) if kind == "joseph" else RotateAndSum(geometry)
        super().__init__(stencil, engine, backwards=False, name=name, device=device, dtype=dtype)


class PixelBackprojector(_StencilOperator):
    """Pixel-driven backprojection, (..., views, bins) -> (..., rows, columns).

    For a cone beam voxel-driven, (..., views, rows, columns) -> (..., slices, rows, columns).

    Parameters
    ----------
    geometry : ParallelBeam, FanBeam or ConeBeam
        The scanner.
    engine : {"auto", "matrix", "on_the_fly"}, default "auto"
        As for `Projector`.
    name : str, default "A^T"
        Used in messages and by `Composed`.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    Continuous: (B q)(x, y) = integral over views b of (R / U)^2 q(b, s(x, y, b)), where s is where
    the ray through (x, y) meets the detector, R the distance from source to centre and U that along
    the central ray (from the source where the detector is curved), see `FanBeam.nearness`; for
    parallel rays the factor is 1. Discrete: a sum over
    views, interpolated linearly between bins. Not the adjoint of `Projector`. Its weights are >= 0,
    so the bracket of its norm is certified.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import ParallelBeam, PixelBackprojector
    >>> image = PixelBackprojector(ParallelBeam(16, views=12, bins=24))(torch.ones(12, 24))
    >>> image.shape, round(image[8, 8].item(), 3)
    (torch.Size([16, 16]), 12.0)
    """

    def __init__(
        self,
        geometry: Geometry | ConeBeam,
        *,
        engine: EngineName = "auto",
        name: str = "A^T",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        require_geometry(geometry)
        kind: Any = ConePixelDriven if isinstance(geometry, ConeBeam) else PixelDriven
        place = Options(name=name, device=device, dtype=dtype)
        super().__init__(kind(geometry), engine, backwards=True, **place)
