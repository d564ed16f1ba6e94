"""Weights of a sinogram before filtering: obliqueness, rays measured twice, uneven views."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from korisk.operators.ct.geometry import FanBeam, Geometry, require_fan, require_geometry

FloatArray = NDArray[np.float64]


def cosine_weights(geometry: FanBeam) -> FloatArray:
    """cos of each bin's fan angle: D / sqrt(D^2 + s^2), (bins,).

    s is where the bin lies along the detector and D its distance from the source, millimetres. A
    parallel beam raises `KoriskError`.

    >>> from korisk.operators import FanBeam, cosine_weights
    >>> scan = FanBeam(16, views=12, bins=3, bin_spacing=60, source_to_center=40,
    ...                source_to_detector=80)
    >>> cosine_weights(scan).round(3).tolist()
    [0.8, 1.0, 0.8]
    """
    require_fan(geometry, "cosine weights")
    distance = geometry.source_to_detector
    return np.asarray(distance / np.hypot(distance, geometry.offsets))


def parker_weights(geometry: FanBeam) -> FloatArray:
    """Smooth weights of a fan scan, (views, bins), that add up to one over each line measured.

    Parker (1982) for the least arc of a short scan; with its margin taken from the arc itself
    they serve any arc below a full turn, as Silver (2000) showed for longer ones. Below the least
    arc, rays that were measured once keep the weight one, and those not measured stay missing.
    A full turn measures everything twice: one half.

    >>> from korisk.operators import FanBeam, parker_weights
    >>> scan = FanBeam(16, views=12, bins=32, source_to_center=40, source_to_detector=60)
    >>> parker_weights(scan).shape, parker_weights(scan).max().item()
    ((12, 32), 0.5)
    """
    require_fan(geometry, "Parker's weights")
    first, arc = geometry.coverage
    if arc >= 2 * math.pi * (1 - 1e-9):
        return np.full(geometry.sinogram_shape, 0.5)
    view = np.mod(geometry.angle_array - first, 2 * math.pi)[:, None]
    fan = geometry.fan_angles[None, :]
    return parker(view, fan, margin=(arc - math.pi) / 2)


def parker(view: FloatArray, fan: FloatArray, *, margin: float) -> FloatArray:
    """The weight at angle `view` from the start of an arc pi + 2 margin, and at angle `fan`.

    The line (b, g) is measured again as (b + pi + 2 g, -g) or (b - pi + 2 g, -g): these weights
    of the two add up to one.
    """
    rise, fall = margin - fan, margin + fan
    with np.errstate(all="ignore"):  # where a denominator vanishes, the range is empty
        rising = np.sin(math.pi / 4 * view / rise) ** 2
        falling = np.sin(math.pi / 4 * (math.pi + 2 * margin - view) / fall) ** 2
    weight = np.where(view < 2 * rise, rising, np.where(view > math.pi - 2 * fan, falling, 1.0))
    inside = (view >= 0) & (view <= math.pi + 2 * margin)
    return np.where(inside, np.nan_to_num(weight, nan=1.0), 0.0)


def fbp_weights(geometry: Geometry) -> FloatArray:
    """What W holds before training, (views, bins): one throughout for an even parallel scan.

    An uneven scan has the part of the arc that each view stands for, over their mean; a fan also
    has `cosine_weights` and `parker_weights`.

    >>> from korisk.operators import ParallelBeam, fbp_weights
    >>> fbp_weights(ParallelBeam(16, views=2, bins=24)).round(6).max().item()
    1.0
    """
    require_geometry(geometry)
    uneven = geometry.view_weights / geometry.view_weights.mean()
    weights = np.repeat(uneven[:, None], geometry.bins, axis=1)
    if isinstance(geometry, FanBeam):
        weights = weights * cosine_weights(geometry) * parker_weights(geometry)
    return weights
