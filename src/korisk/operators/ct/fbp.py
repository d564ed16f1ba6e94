"""Filtered backprojection as a network of visible layers, W, K and A^T; ours and as released."""

import math
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch

from korisk import _checks
from korisk.errors import KoriskError
from korisk.operators.basic import Diagonal
from korisk.operators.ct.cone import ConeBeam, require_circle
from korisk.operators.ct.engines import EngineName
from korisk.operators.ct.filter import FloatArray, RampFilter, Window
from korisk.operators.ct.geometry import FanBeam, Geometry, require_fan
from korisk.operators.ct.projector import PixelBackprojector, Projector, require_geometry
from korisk.operators.inputs import Place, checked_device, checked_dtype
from korisk.operators.linear import Composed, LinearOperator
from korisk.operators.types import Device, Dtype

Backprojection = Literal["auto", "adjoint", "pixel"]
_SCANS = {128: (60, 128), 256: (90, 256), 512: (180, 512)}  # as released; side: views, bins
_SOURCE_TO_CENTER, _SOURCE_TO_DETECTOR = 1000.0, 1500.0  # mm, as released
_NARROW = 0.9  # pixels: of narrower bins the adjoint passes on less noise, see `fbp`


def fbp(
    geometry: Geometry | ConeBeam,
    *,
    window: Window = "ramp",
    backprojection: Backprojection = "auto",
    trainable: bool = False,
    engine: EngineName = "auto",
    device: Device = None,
    dtype: Dtype = None,
) -> Composed:
    """Filtered backprojection A^T K W: sinogram (..., views, bins) to image (..., rows, columns).

    For a cone beam on a circle it is FDK (Feldkamp, Davis and Kress 1984): pictures
    (..., views, rows, columns) to a volume (..., slices, rows, columns).

    Parameters
    ----------
    geometry : ParallelBeam, FanBeam or ConeBeam
        The scanner.
    window : str, default "ramp"
        One of `WINDOWS`.
    backprojection : {"auto", "adjoint", "pixel"}, default "auto"
        "adjoint" is the exact adjoint of the Joseph projector, parallel alone; "pixel" is
        `PixelBackprojector`, which is not that adjoint. "auto" takes the adjoint for a parallel
        beam whose bins are narrower than 0.9 pixels, and "pixel" otherwise.
    trainable : bool, default False
        Whether the weights W are parameters: the known-operator network without its ReLU.
    engine : {"auto", "matrix", "on_the_fly"}, default "auto"
        As for `Projector`.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Returns
    -------
    Composed
        Its layers are called W, K and A^T.

    Notes
    -----
    Continuous: f(x) = integral over b of (k * w q(b, .))(s(x, b)), with the ramp k and the weights
    w of `fbp_weights`. Discrete, Eq. (eq:fbp): A^T K W y, with the angle between views and all
    spacings folded into K. `norm()` brackets the norm of the product by Lanczos.

    On measured line integrals "pixel" has the smaller error, with noise and without, and converges
    with order 2 on smooth objects; the adjoint, whose weights over bins do not add up to the same
    at each pixel, with order 1/2. Bins narrower than 0.9 pixels are averaged over a pixel by the
    adjoint alone, which then passes on less noise. What "pixel" loses: its layer A^T is not the
    adjoint of `Projector`, so W and K stand between a pair that is not matched, and sinograms that
    `Projector` made itself, without noise, are reconstructed up to 5% less well.

    FDK filters along the detector's columns alone and is exact in the plane of the source; above
    and below, a circle does not measure enough, and objects fade with the cone's angle.

    Examples
    --------
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
    _checks.one_of("backprojection", backprojection, get_args(Backprojection))
    cone = isinstance(geometry, ConeBeam)
    plane = geometry.fan if isinstance(geometry, ConeBeam) else geometry
    fan = isinstance(plane, FanBeam)
    if backprojection == "auto":
        narrow = geometry.bin_spacing < _NARROW * geometry.pixel_spacing * (1 - 1e-9)
        backprojection = "adjoint" if narrow and not fan else "pixel"
    if fan and backprojection == "adjoint":
        why = "which the adjoint projector does not; use backprojection='pixel'"
        weighed = "weighs pixels by their distance from the source"
        raise KoriskError(f"a fan's filtered backprojection {weighed}, {why}")
    place: Place = {"device": device, "dtype": dtype}
    # Radians that a view stands for; `fbp_weights` has the deviations from the mean.
    spread = float(plane.view_weights.mean())
    angle = 0.0
    back: LinearOperator
    if backprojection == "adjoint":
        # Over the bins, the adjoint's weights of a pixel add up to pixel_spacing^2 / bin_spacing.
        scale = spread / geometry.pixel_spacing**2
        back = Projector(geometry, engine=engine, **place).T
        back.name = "A^T"
    else:
        # The ramp acts in the plane of the centre, where bins lie closer by the magnification.
        magnification = plane.magnification if isinstance(plane, FanBeam) else 1.0
        scale = spread * magnification / geometry.bin_spacing
        if isinstance(plane, FanBeam) and plane.curved:
            angle = plane.bin_spacing / plane.source_to_detector
        back = PixelBackprojector(geometry, engine=engine, **place)
    ramp = RampFilter(geometry.sinogram_shape, window=window, scale=scale, angle=angle, **place)
    weights = _diagonal(fbp_weights(geometry), trainable, **place)
    return Composed([weights, ramp, back], name="FDK" if cone else "FBP")


def _diagonal(array: FloatArray, trainable: bool, device: Device, dtype: Dtype) -> Diagonal:
    """The layer W on a device and in a precision, both checked."""
    weights = torch.from_numpy(array).to(checked_device(device), checked_dtype(dtype))
    return Diagonal(weights, name="W", trainable=trainable)


def fbp_weights(geometry: Geometry | ConeBeam) -> FloatArray:
    """The weights W of filtered backprojection, before training.

    Parameters
    ----------
    geometry : ParallelBeam, FanBeam or ConeBeam
        The scanner; a cone's must be a circle.

    Returns
    -------
    ndarray, shape (views, bins) or (views, rows, columns)
        One throughout for an even parallel scan. An uneven scan has the part of the arc that each
        view stands for, over their mean; a fan also has `cosine_weights` and `parker_weights`, and
        a cone those of its columns and the cosine of each ray's rise.

    Examples
    --------
    >>> from korisk.operators import ParallelBeam, fbp_weights
    >>> fbp_weights(ParallelBeam(16, views=2, bins=24)).round(6).max().item()
    1.0
    """
    require_geometry(geometry)
    if isinstance(geometry, ConeBeam):
        require_circle(geometry)
        # FDK: a further cosine, of the angle between the ray and the plane.
        rise = geometry.row_offsets[:, None] / geometry.fan.bin_distances
        return fbp_weights(geometry.fan)[:, None] / np.hypot(1.0, rise)
    uneven = geometry.view_weights / geometry.view_weights.mean()
    weights = np.repeat(uneven[:, None], geometry.bins, axis=1)
    if isinstance(geometry, FanBeam):
        weights = weights * cosine_weights(geometry) * parker_weights(geometry)
    return weights


def cosine_weights(geometry: FanBeam) -> FloatArray:
    """The cosine of each bin's fan angle: D / sqrt(D^2 + s^2), or cos(s / D) on an arc.

    Parameters
    ----------
    geometry : FanBeam
        The scanner; s is where a bin lies along the detector, D its distance from the source.

    Returns
    -------
    ndarray, shape (bins,)

    Examples
    --------
    >>> from korisk.operators import FanBeam, cosine_weights
    >>> scan = FanBeam(16, views=12, bins=3, bin_spacing=60, source_to_center=40,
    ...                source_to_detector=80)
    >>> cosine_weights(scan).round(3).tolist()
    [0.8, 1.0, 0.8]
    """
    require_fan(geometry, "cosine weights")
    return np.cos(geometry.fan_angles)


def parker_weights(geometry: FanBeam) -> FloatArray:
    """Smooth weights of a fan scan that add up to one over each line measured.

    Parker (1982) for the least arc of a short scan; with the margin taken from the arc itself they
    serve any arc below a full turn, as Silver (2000) showed for longer ones. Below the least arc,
    rays that were measured once keep the weight one, and those not measured stay missing. A full
    turn measures everything twice: one half.

    Parameters
    ----------
    geometry : FanBeam
        The scanner.

    Returns
    -------
    ndarray, shape (views, bins)

    Examples
    --------
    >>> from korisk.operators import FanBeam, parker_weights
    >>> scan = FanBeam(16, views=12, bins=32, source_to_center=40, source_to_detector=60)
    >>> parker_weights(scan).shape, parker_weights(scan).max().item()
    ((12, 32), 0.5)
    """
    require_fan(geometry, "Parker's weights")
    first, arc = geometry.coverage
    if arc >= 2 * math.pi * (1 - 1e-9):
        return np.full(geometry.sinogram_shape, 0.5)
    # Angle from the start of the arc: opposite rays share a weight of 1.
    view = np.mod(geometry.angle_array - first, 2 * math.pi)[:, None]
    return parker(view, geometry.fan_angles[None, :], margin=(arc - math.pi) / 2)


def parker(view: FloatArray, fan: FloatArray, *, margin: float) -> FloatArray:
    """The weight at angle `view` from the start of an arc pi + 2 margin, and at angle `fan`.

    The line (b, g) is measured again as (b + pi + 2 g, -g) or (b - pi + 2 g, -g): these weights
    of the two add up to one.
    """
    # The weight rises over the first 2 (margin - fan) and falls over the last 2 (margin + fan), so
    # that the weights of opposite rays add up to 1.
    rise, fall = margin - fan, margin + fan
    with np.errstate(all="ignore"):  # where a denominator vanishes, the range is empty
        rising = np.sin(math.pi / 4 * view / rise) ** 2
        falling = np.sin(math.pi / 4 * (math.pi + 2 * margin - view) / fall) ** 2
    weight = np.where(view < 2 * rise, rising, np.where(view > math.pi - 2 * fan, falling, 1.0))
    inside = (view >= 0) & (view <= math.pi + 2 * margin)
    return np.where(inside, np.nan_to_num(weight, nan=1.0), 0.0)


# As released: the operators of the authors' code, unchanged, so that its numbers can be reproduced.
# They leave out the magnification in the filter and zero padding, take few points along each ray,
# and let views count pi / V each although both ends are measured.


def released_geometry(side: int) -> FanBeam:
    """The fan beam of the released sweeps.

    Parameters
    ----------
    side : {128, 256, 512}
        Pixels a side.

    Returns
    -------
    FanBeam

    Examples
    --------
    >>> from korisk.operators import released_geometry
    >>> scan = released_geometry(128)
    >>> scan.sinogram_shape, scan.source_to_center, scan.source_to_detector
    ((60, 128), 1000.0, 1500.0)
    """
    _checks.require(side in list(_SCANS), "side", f"be one of {sorted(_SCANS)}, as released", side)
    return fan_of_released(side, *_SCANS[side])


def fan_of_released(side: int, views: int, bins: int, arc: float = math.pi) -> FanBeam:
    """The same fan at any size: bins of 1 mm, views over `arc` with both ends measured.

    The end of a full turn is its beginning, and is left out.
    """
    # Pixel centres reach from edge to edge of what the detector sees at the centre.
    reach = 0.5 * bins * _SOURCE_TO_CENTER / _SOURCE_TO_DETECTOR
    angles = tuple(np.linspace(0, arc, views, endpoint=arc < 2 * math.pi).tolist())
    source, detector = _SOURCE_TO_CENTER, _SOURCE_TO_DETECTOR
    fan = partial(FanBeam, side, source_to_center=source, source_to_detector=detector)
    return fan(bins=bins, angles=angles, pixel_spacing=2 * reach / (side - 1))


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
    device: Device = None,
    dtype: Dtype = None,
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
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

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
    place: Place = {"device": device, "dtype": dtype}
    weights = _diagonal(released_weights(geometry), trainable, **place)
    scale = math.pi / geometry.views_count
    ramp = RampFilter(geometry.sinogram_shape, window="released", scale=scale, **place)
    back = PixelBackprojector(geometry, engine=engine, **place)
    return Composed([weights, ramp, back], name="FBP as released")
