"""The operators of the authors' released code, unchanged, so that its numbers can be reproduced.

They differ from `fbp` in what they leave out: no magnification in the filter, no zero padding,
few points along each ray, and views that count pi / V each although both ends are measured.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from korisk.errors import KoriskError
from korisk.operators.basic import Diagonal
from korisk.operators.ct.engines import EngineName
from korisk.operators.ct.fbp import as_tensor, cosine_weights, parker
from korisk.operators.ct.filter import RampFilter
from korisk.operators.ct.geometry import FanBeam, FloatArray, require_fan
from korisk.operators.ct.projector import PixelBackprojector
from korisk.operators.linear import Composed

_SCANS = {128: (60, 128), 256: (90, 256), 512: (180, 512)}  # side: views, bins
_SOURCE_TO_CENTER, _SOURCE_TO_DETECTOR = 1000.0, 1500.0


def released_geometry(side: int) -> FanBeam:
    """The fan beam of the released sweeps.

    Parameters
    ----------
    side : {128, 256, 512}
        Pixels a side.

    Returns
    -------
    FanBeam

    Raises
    ------
    KoriskError
        If no sweep has that side.

    Examples
    --------
    >>> from korisk.operators import released_geometry
    >>> scan = released_geometry(128)
    >>> scan.sinogram_shape, scan.source_to_center, scan.source_to_detector
    ((60, 128), 1000.0, 1500.0)
    """
    if side not in list(_SCANS):
        raise KoriskError(f"side must be one of {sorted(_SCANS)}, as released, got {side!r}")
    return fan_of_released(side, *_SCANS[side])


def fan_of_released(side: int, views: int, bins: int, arc: float = math.pi) -> FanBeam:
    """The same fan at any size: bins of 1 mm, views over `arc` with both ends measured.

    The end of a full turn is its beginning, and is left out.
    """
    # Pixel centres reach from edge to edge of what the detector sees at the centre.
    reach = 0.5 * bins * _SOURCE_TO_CENTER / _SOURCE_TO_DETECTOR
    return FanBeam(
        side,
        bins=bins,
        angles=tuple(np.linspace(0, arc, views, endpoint=arc < 2 * math.pi).tolist()),
        pixel_spacing=2 * reach / (side - 1),
        source_to_center=_SOURCE_TO_CENTER,
        source_to_detector=_SOURCE_TO_DETECTOR,
    )


def released_weights(geometry: FanBeam) -> FloatArray:
    """The released W before training: Parker's weights without overscan, times the cosine.

    Parameters
    ----------
    geometry : FanBeam
        The scanner.

    Returns
    -------
    ndarray, shape (views, bins)

    Examples
    --------
    >>> from korisk.operators import released_geometry, released_weights
    >>> released_weights(released_geometry(128)).shape
    (60, 128)
    """
    require_fan(geometry, "the released weights")
    view, fan = geometry.angle_array[:, None], geometry.fan_angles[None, :]
    return parker(view, fan, margin=0.0) * cosine_weights(geometry)


def released_fbp(
    geometry: FanBeam,
    *,
    trainable: bool = False,
    engine: EngineName = "auto",
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Composed:
    """A^T K W as released, (..., views, bins) -> (..., rows, columns).

    Parameters
    ----------
    geometry : FanBeam
        The scanner.
    trainable : bool, default False
        Whether the weights W are parameters.
    engine : {"auto", "matrix", "on_the_fly"}, default "auto"
        As for `Projector`.
    device : torch.device or str, optional
        PyTorch's default where None.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; PyTorch's default where None.

    Returns
    -------
    Composed
        Its layers are called W, K and A^T; K is |f| without padding, with pi / V folded in.

    Examples
    --------
    >>> from korisk.operators import FanBeam, released_fbp
    >>> scan = FanBeam(8, views=6, bins=16, source_to_center=40, source_to_detector=60)
    >>> [layer.name for layer in released_fbp(scan)]
    ['W', 'K', 'A^T']
    """
    place: dict[str, Any] = {"device": device, "dtype": dtype}
    weights = as_tensor(released_weights(geometry), **place)
    scale = math.pi / geometry.views_count
    ramp = RampFilter(geometry.sinogram_shape, window="released", scale=scale, **place)
    back = PixelBackprojector(geometry, engine=engine, **place)
    layers = [Diagonal(weights, name="W", trainable=trainable), ramp, back]
    return Composed(layers, name="FBP as released")
