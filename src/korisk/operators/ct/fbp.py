"""Filtered backprojection as a network of visible layers: W, K, A^T."""

from __future__ import annotations

from typing import Literal

import torch

from korisk import _checks
from korisk.errors import KoriskError
from korisk.operators.ct.engines import EngineName
from korisk.operators.ct.filter import RampFilter, Window
from korisk.operators.ct.geometry import FanBeam, Geometry, require_geometry
from korisk.operators.ct.projector import PixelBackprojector, Projector
from korisk.operators.ct.weights import fbp_weights
from korisk.operators.basic import Diagonal
from korisk.operators.linear import Composed, LinearOperator, checked_device, checked_dtype

Backprojection = Literal["auto", "adjoint", "pixel"]
BACKPROJECTIONS: tuple[Backprojection, ...] = ("auto", "adjoint", "pixel")


def fbp(
    geometry: Geometry,
    *,
    window: Window = "ramp",
    backprojection: Backprojection = "auto",
    trainable: bool = False,
    engine: EngineName = "auto",
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Composed:
    """A^T K W of Eq. (eq:fbp): sinogram (..., views, bins) to image (..., rows, columns).

    W weighs rays (see `fbp_weights`), K is the windowed ramp with the angle between views and all
    spacings folded in. A^T backprojects: the adjoint of the Joseph projector for a parallel beam
    whose bins are no wider than pixels, pixel-driven for others and, distance-weighted, for a fan.
    With `trainable` the weights W are parameters: that is the known-operator network without its
    ReLU.

    `window` is one of `WINDOWS`. The result is a `Composed`, whose layers are called W, K and A^T.

    >>> import torch
    >>> from korisk.operators import ParallelBeam, Projector, fbp
    >>> scan = ParallelBeam(32, views=48, bins=48)
    >>> image = torch.zeros(32, 32)
    >>> image[8:24, 8:24] = 1.0
    >>> again = fbp(scan)(Projector(scan)(image))
    >>> again.shape, round(again[14:18, 14:18].mean().item(), 1)
    (torch.Size([32, 32]), 1.0)
    """
    require_geometry(geometry)
    _checks.one_of("backprojection", backprojection, BACKPROJECTIONS)
    fan = isinstance(geometry, FanBeam)
    if backprojection == "auto":
        # Rays that lie further apart than pixels leave gaps in the adjoint, as stripes.
        coarse = geometry.bin_spacing > geometry.pixel_spacing * (1 + 1e-9)
        backprojection = "pixel" if fan or coarse else "adjoint"
    if fan and backprojection == "adjoint":
        raise KoriskError(
            "a fan's filtered backprojection weighs pixels by their distance from the source, "
            "which the adjoint projector does not; use backprojection='pixel'"
        )
    place = {"device": device, "dtype": dtype}
    weights = torch.from_numpy(fbp_weights(geometry)).to(
        device=checked_device(device), dtype=checked_dtype(dtype)
    )
    spread = float(geometry.view_weights.mean())
    back: LinearOperator
    if backprojection == "adjoint":
        # Over the bins, the adjoint's weights of a pixel add up to pixel_spacing^2 / bin_spacing.
        scale = spread / geometry.pixel_spacing**2
        back = Projector(geometry, engine=engine, **place).T  # type: ignore[arg-type]
        back.name = "A^T"
    else:
        # The ramp acts in the plane of the centre, where bins lie closer by the magnification.
        magnification = geometry.magnification if isinstance(geometry, FanBeam) else 1.0
        scale = spread * magnification / geometry.bin_spacing
        back = PixelBackprojector(geometry, engine=engine, **place)  # type: ignore[arg-type]
    ramp = RampFilter(geometry.sinogram_shape, window=window, scale=scale, **place)  # type: ignore[arg-type]
    return Composed([Diagonal(weights, name="W", trainable=trainable), ramp, back], name="FBP")
