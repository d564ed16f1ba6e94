"""Filters along the detector: the ramp and its windows."""

import math
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk import _checks
from korisk.errors import invalid
from korisk.operators.inputs import checked_shape
from korisk.operators.linear import LinearOperator
from korisk.operators.types import Device, Dtype
from korisk.theory.bracket import NormBracket

FloatArray = NDArray[np.float64]
Window = Literal["ramp", "shepp-logan", "cosine", "hamming", "hann", "released"]
WINDOWS: tuple[Window, ...] = ("ramp", "shepp-logan", "cosine", "hamming", "hann", "released")

_LARGEST_DENSE = 1024  # bins up to which a matrix product beats two Fourier transforms
_ROUNDING = 1e-10


def fft_length(bins: int, window: Window) -> int:
    """A power of two at least twice the bins, so that a convolution does not wrap."""
    return bins if window == "released" else int(2 ** math.ceil(math.log2(max(2 * bins, 4))))


def filter_response(bins: int, window: Window, angle: float = 0.0) -> FloatArray:
    """The frequency response of the unit-spacing filter, for the real FFT of `fft_length`.

    The ramp |f| on |f| <= 1/2 is sampled in space (Ramachandran and Lakshminarayanan 1971), 1/4 at
    0 and -1/(pi n)^2 at odd n, which keeps the mean right. The released filter is |f| on the bins
    alone, without padding, and wraps. Bins that are an `angle` apart, on an arc about the source,
    have the kernel at n times (n angle / sin(n angle))^2 (Kak and Slaney, Eq. 3.4.59).
    """
    if window == "released":
        return np.asarray(np.abs(np.fft.rfftfreq(bins)), dtype=np.float64)
    length = fft_length(bins, window)
    distance = np.arange(length // 2 + 1)
    kernel = np.zeros(len(distance))
    # Ram and Lakshminarayanan: 1/4 at 0, -1 / (pi n)^2 at odd n, 0 at even n.
    kernel[0] = 0.25
    kernel[1::2] = -1 / (math.pi * distance[1::2]) ** 2
    ramp = np.fft.rfft(np.concatenate([kernel, kernel[-2:0:-1]])).real
    frequency = np.fft.rfftfreq(length).astype(np.float64)  # cycles a sample, 0 to 1/2
    turns = 2 * math.pi * frequency
    factor = {
        "ramp": np.ones(len(frequency)),
        "shepp-logan": np.sinc(frequency),
        "cosine": np.cos(math.pi * frequency),
        "hamming": 0.54 + 0.46 * np.cos(turns),
        "hann": 0.5 + 0.5 * np.cos(turns),
    }[window]
    if not angle:
        return np.asarray(ramp * factor, dtype=np.float64)
    kernel = np.fft.irfft(ramp * factor, n=length)[: length // 2 + 1]
    # On an arc distances are angles: the kernel is divided by (sin(a) / a)^2.
    kernel[:bins] /= np.sinc(distance[:bins] * angle / math.pi) ** 2
    return np.asarray(np.fft.rfft(np.concatenate([kernel, kernel[-2:0:-1]])).real)


class RampFilter(LinearOperator):
    """K: each view convolved with the ramp filter, (..., views, bins) -> (..., views, bins).

    Each row of a cone's detector on its own, (..., views, rows, columns).

    Parameters
    ----------
    shape : (int, int) or (int, int, int)
        Views and bins, or views, rows and columns.
    window : str, default "ramp"
        One of `WINDOWS`: what damps the ramp at high frequencies.
    scale : float, default 1
        A factor on everything; `fbp` folds the views' angle and the spacings into it.
    angle : float, default 0
        Radians between bins on an arc about the source; 0 for a flat detector.
    name : str, default "K"
        Used in messages and by `Composed`.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    Continuous: (K q)(s) = integral |f| w(f) q^(f) exp(2 pi i f s) df with the window w. Discrete:
    a convolution with the band-limited ramp, so a symmetric Toeplitz matrix for each view. Up to
    1,024 bins it is a product with that matrix, which is faster than two transforms and rounds
    less; beyond that it is done by FFT. The norm is exact up to 1,024 bins, and beyond that
    bracketed by Lanczos from below and the frequency response from above.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import RampFilter
    >>> K = RampFilter((6, 12), window="hann")
    >>> K(torch.ones(3, 6, 12)).shape, K.norm().upper < RampFilter((6, 12)).norm().upper
    (torch.Size([3, 6, 12]), True)
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        window: Window = "ramp",
        scale: float = 1.0,
        angle: float = 0.0,
        name: str = "K",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        sides = checked_shape("shape", shape)
        if len(sides) not in (2, 3):
            raise invalid("shape", "be (views, bins) or (views, rows, columns)", shape)
        _checks.one_of("window", window, WINDOWS)
        super().__init__(sides, sides, name=name, device=device, dtype=dtype)
        self.window: Window = window
        self.scale = _checks.real("scale", scale, remedy="give a finite factor")
        self.bins = sides[-1]
        most = math.pi / max(1, self.bins - 1) * (1 - 1e-6)
        remedy = "give the radians between two bins"
        self.angle = _checks.real("angle", angle, at_least=0, at_most=most, remedy=remedy)

    def response(self) -> FloatArray:
        """The frequency response.

        Returns
        -------
        ndarray of float64
            Scaled, for the real FFT of the padded length.
        """
        return self.scale * filter_response(self.bins, self.window, self.angle)

    def _matrix(self) -> FloatArray:
        """The convolution of one view as a symmetric matrix, (bins, bins)."""
        from scipy.linalg import toeplitz

        # The convolution without wrap-around, as a Toeplitz matrix.
        kernel = np.fft.irfft(self.response(), n=fft_length(self.bins, self.window))
        return np.asarray(toeplitz(kernel[: self.bins]), dtype=np.float64)

    def _map(self, x: Tensor) -> Tensor:
        factors: Tensor = self._once("_factors")
        if self.bins <= _LARGEST_DENSE:
            return x @ factors
        length = fft_length(self.bins, self.window)
        filtered: Tensor = torch.fft.irfft(torch.fft.rfft(x, n=length) * factors, n=length)
        return filtered[..., : self.bins]

    _map_adjoint = _map  # symmetric

    def _factors(self) -> Tensor:
        factors = self._matrix() if self.bins <= _LARGEST_DENSE else self.response()
        return torch.from_numpy(factors).to(self.device, self.dtype)

    def _norm(self, width: float, seed: int) -> NormBracket:
        highest = float(np.abs(self.response()).max()) * (1 + _ROUNDING)
        if self.window == "released":
            lower, upper = highest * (1 - 2 * _ROUNDING), highest
            how = "frequency response, exact (circulant)"
        elif self.bins <= _LARGEST_DENSE:
            from scipy.linalg import eigvalsh

            norm = float(np.abs(eigvalsh(self._matrix())).max())
            lower, upper = norm * (1 - _ROUNDING), min(norm * (1 + _ROUNDING), highest)
            how = "eigenvalues of the Toeplitz matrix, exact"
        else:
            # One view tells it for all; padding and cropping can only lower the circulant's norm.
            same = partial(RampFilter, window=self.window, scale=self.scale, angle=self.angle)
            view = same((1, self.bins), dtype=torch.float64)
            lower, upper = LinearOperator._norm(view, width, seed).lower, highest
            how = "Lanczos below, frequency response above"
        return NormBracket(lower, upper, how=how)

    def extra_repr(self) -> str:
        """The window and the shapes, as nn.Module prints them."""
        return f"{self.window}, {super().extra_repr()}"
