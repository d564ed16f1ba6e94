"""Metrics of reconstructed images, computed per image in float64 and averaged."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from korisk._checks import require
from korisk._json import JsonDict
from korisk.errors import invalid

_PIECE = 2**20  # pixels that are compared at once
_WINDOW, _SIGMA = 11, 1.5  # pixels; the Gaussian window of SSIM
_K1, _K2 = 0.01, 0.03  # the usual stabilising constants of SSIM


class Metric(NamedTuple):
    """Unit, direction and name of a metric.

    Parameters
    ----------
    unit : str
        One of `korisk.curves.UNITS`.
    larger_is_better : bool
        Whether larger values are better.
    words : str
        Its name in texts.

    Examples
    --------
    >>> from korisk.problems import METRICS
    >>> METRICS["psnr"]
    Metric(unit='psnr', larger_is_better=True, words='PSNR (dB)')
    """

    unit: str
    larger_is_better: bool
    words: str


METRICS: dict[str, Metric] = {
    "mse": Metric("error", False, "mean squared error"),
    "relative": Metric("squared", False, "||y - p|| / ||y||"),
    "rmse_over_max": Metric("squared", False, "RMSE / max(y)"),
    "psnr": Metric("psnr", True, "PSNR (dB)"),
    "ssim": Metric("ssim", True, "SSIM"),
}


def measure(predictions: Tensor, targets: Tensor) -> dict[str, float]:
    """The mean over images of every metric in `METRICS`.

    Parameters
    ----------
    predictions, targets : Tensor, shape (count, rows, columns) or (count, slices, rows, columns)
        Real, on one device.

    Returns
    -------
    dict of str to float
        An image whose target is zero everywhere has no scale and counts for the mse only; a metric
        without any image is nan.

    Examples
    --------
    >>> import torch
    >>> from korisk.problems import measure
    >>> target = torch.ones(2, 16, 16)
    >>> means = measure(0.9 * target, target)
    >>> round(means["mse"], 4), round(means["relative"], 4), round(means["psnr"], 2)
    (0.01, 0.1, 20.0)
    """
    means = {}
    for name, values in measure_each(predictions, targets).items():
        valid = values[~values.isnan()]
        means[name] = float(valid.mean()) if len(valid) else math.nan
    return means


def measure_each(predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Every metric of every image, or of every volume, whose SSIM is the mean over its slices.

    Parameters
    ----------
    predictions, targets : Tensor, shape (count, rows, columns) or (count, slices, rows, columns)
        Real, on one device.

    Returns
    -------
    dict of str to Tensor, shape (count,), float64
        Scales are the target's: its norm for "relative", its maximum for "rmse_over_max", "psnr"
        and "ssim"; nan where they are zero. A perfect image has a PSNR of infinity.

    Examples
    --------
    >>> import torch
    >>> from korisk.problems import measure_each
    >>> target = torch.ones(2, 16, 16)
    >>> measure_each(0.5 * target, target)["mse"].tolist()
    [0.25, 0.25]
    """
    images: JsonDict = {"predictions": predictions, "targets": targets}
    for name, value in images.items():
        if not (isinstance(value, Tensor) and value.is_floating_point() and value.ndim in (3, 4)):
            remedy = "reshape it, or take the magnitude of complex images"
            rule = "be a real floating point tensor (count, rows, columns) or of volumes"
            raise invalid(name, rule, value, remedy)
    same = predictions.shape == targets.shape and predictions.device == targets.device
    got = " and ".join(f"{tuple(x.shape)} on {x.device}" for x in (predictions, targets))
    rule = "have one shape with at least one image on one device"
    require(same and targets.numel() > 0, "predictions and targets", rule, got, got=got)
    pieces = []
    # In pieces, since everything is copied to float64.
    step = max(1, _PIECE // targets[0].numel())
    for first in range(0, len(targets), step):
        piece = slice(first, first + step)
        p, y = predictions[piece].detach().double(), targets[piece].detach().double()
        axes = tuple(range(1, y.ndim))
        mse, peak, power = ((p - y) ** 2).mean(axes), y.amax(axes), (y**2).mean(axes)
        peak = torch.where(peak > 0, peak, math.nan)
        # NaN marks images without a scale; `measure` leaves them out.
        power = torch.where(power > 0, power, math.nan)
        # A perfect image has an infinite PSNR, which is not an error.
        psnr = 10 * torch.log10(peak**2 / mse)
        # SSIM is defined for images: a volume is compared slice by slice, at the volume's peak.
        slices = math.prod(y.shape[1:-2])
        slice_arguments = p.flatten(0, -3), y.flatten(0, -3), peak.repeat_interleave(slices)
        similarity = ssim(*slice_arguments).reshape(-1, slices).mean(1)
        pieces.append([mse, (mse / power).sqrt(), mse.sqrt() / peak, psnr, similarity])
    columns = zip(*pieces, strict=True)
    return {name: torch.cat(list(parts)) for name, parts in zip(METRICS, columns, strict=True)}


def ssim(predictions: Tensor, targets: Tensor, peak: Tensor) -> Tensor:
    """Structural similarity of each image, (count,), for targets with values up to `peak`.

    With a Gaussian window of 11 x 11 pixels and sigma 1.5, as scikit-image does with
    gaussian_weights=True and use_sample_covariance=False; shorter axes have a shorter window.
    """
    scale = peak[:, None, None]
    # Constants scale with the peak, so that SSIM does not depend on the unit of the images.
    c1, c2 = (_K1 * scale) ** 2, (_K2 * scale) ** 2
    images = predictions, targets, predictions**2 + targets**2, predictions * targets
    # The Gaussian window is separable: one matrix per axis.
    rows, columns = (_means(n, targets.device, targets.dtype) for n in targets.shape[1:])
    p, y, squares, products = (rows @ torch.cat(images) @ columns.T).chunk(4)
    # E[p^2 + y^2] - E[p]^2 - E[y]^2: the sum of both variances, which is all that SSIM needs.
    variance = squares - p**2 - y**2
    covariance = products - p * y
    brightness = (2 * p * y + c1) / (p**2 + y**2 + c1)
    return (brightness * (2 * covariance + c2) / (variance + c2)).mean((1, 2))


@cache
def _means(length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The window means along one axis as a matrix."""
    width = min(_WINDOW, length - (length + 1) % 2)
    bell = [math.exp(-0.5 * ((index - width // 2) / _SIGMA) ** 2) for index in range(width)]
    matrix = torch.zeros(length - width + 1, length, device=device, dtype=dtype)
    for offset, height in enumerate(bell):
        matrix.diagonal(offset).fill_(height / sum(bell))
    return matrix
