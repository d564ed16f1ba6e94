"""Filters along the detector: the ramp and its windows."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.operators.linear import LinearOperator, checked_shape
from korisk.theory.bracket import NormBracket

FloatArray = NDArray[np.float64]
Window = Literal["ramp", "shepp-logan", "cosine", "hamming", "hann", "released"]
WINDOWS: tuple[Window, ...] = ("ramp", "shepp-logan", "cosine", "hamming", "hann", "released")

_LARGEST_DENSE = 1024  # bins up to which a matrix product beats two Fourier transforms
_ROUNDING = 1e-10


def ramp_kernel(length: int) -> FloatArray:
    """The band-limited ramp at distances 0, 1, ..., (length,): 1/4, then -1/(pi n)^2 at odd n.

    These are the samples of the inverse Fourier transform of |f| on |f| <= 1/2 (Ramachandran and
    Lakshminarayanan 1971). Sampling in space rather than |f| itself keeps the mean right.
    """
    distance = np.arange(length)
    kernel = np.zeros(length)
    kernel[0] = 0.25
    odd = distance[1::2]
    kernel[1::2] = -1 / (math.pi * odd) ** 2
    return kernel


def window_response(window: Window, frequency: FloatArray) -> FloatArray:
    """The factor on the ramp at frequencies in cycles a sample, from 0 to 1/2."""
    match window:
        case "shepp-logan":
            return np.asarray(np.sinc(frequency), dtype=np.float64)
        case "cosine":
            return np.asarray(np.cos(math.pi * frequency))
        case "hamming":
            return 0.54 + 0.46 * np.cos(2 * math.pi * frequency)
        case "hann":
            return 0.5 + 0.5 * np.cos(2 * math.pi * frequency)
        case _:
            return np.ones(len(frequency))


def padded_length(bins: int) -> int:
    """A power of two at least twice the bins, so that a convolution does not wrap."""
    return int(2 ** math.ceil(math.log2(max(2 * bins, 4))))


def filter_response(bins: int, window: Window) -> FloatArray:
    """The frequency response of the unit-spacing filter, for the real FFT of its padded length.

    The released filter is |f| on the bins alone, without padding, and wraps.
    """
    if window == "released":
        return np.asarray(np.abs(np.fft.rfftfreq(bins)), dtype=np.float64)
    length = padded_length(bins)
    kernel = ramp_kernel(length // 2 + 1)
    around = np.concatenate([kernel, kernel[-2:0:-1]])
    frequency = np.fft.rfftfreq(length).astype(np.float64)
    response: FloatArray = np.fft.rfft(around).real * window_response(window, frequency)
    return response


class RampFilter(LinearOperator):
    """K: each view convolved with the ramp, (..., views, bins) -> the same, symmetric.

    `scale` multiplies everything: `fbp` folds the views' angle and the spacings into it. Up to a
    thousand bins the convolution is a product with its Toeplitz matrix, which is faster than two
    transforms and rounds less; beyond that it is done by FFT.

    `shape` is (views, bins), `window` one of `WINDOWS`.

    >>> import torch
    >>> from korisk.operators import RampFilter
    >>> K = RampFilter((6, 12), window="hann")
    >>> K(torch.ones(3, 6, 12)).shape, K.norm().upper < RampFilter((6, 12)).norm().upper
    (torch.Size([3, 6, 12]), True)
    """

    def __init__(
        self,
        shape: tuple[int, int],
        *,
        window: Window = "ramp",
        scale: float = 1.0,
        name: str = "K",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sides = checked_shape("shape", shape)
        if len(sides) != 2:
            raise KoriskError(f"shape must be (views, bins), got {shown(shape)}")
        views, bins = sides
        _checks.one_of("window", window, WINDOWS)
        super().__init__((views, bins), (views, bins), name=name, device=device, dtype=dtype)
        self.window: Window = window
        self.scale = _checks.real("scale", scale, remedy="give a finite factor")

    @property
    def bins(self) -> int:
        """The length of a view."""
        return self.domain[1]

    @property
    def _length(self) -> int:
        return self.bins if self.window == "released" else padded_length(self.bins)

    def response(self) -> FloatArray:
        """The frequency response, scaled, for the real FFT of the padded length."""
        return self.scale * filter_response(self.bins, self.window)

    def _matrix(self) -> FloatArray:
        """The convolution of one view as a symmetric matrix, (bins, bins)."""
        kernel = np.fft.irfft(self.response(), n=self._length)
        toeplitz: FloatArray = scipy.linalg.toeplitz(kernel[: self.bins])
        return toeplitz

    def _map(self, x: Tensor) -> Tensor:
        if self.bins <= _LARGEST_DENSE:
            matrix = self._once("matrix", lambda: self._here(self._matrix()))
            return x @ matrix
        response = self._once("response", lambda: self._here(self.response()))
        transformed = torch.fft.rfft(x, n=self._length) * response
        filtered: Tensor = torch.fft.irfft(transformed, n=self._length)
        return filtered[..., : self.bins]

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self._map(y)  # symmetric

    def _here(self, array: FloatArray) -> Tensor:
        return torch.from_numpy(array).to(device=self.device, dtype=self.dtype)

    def _norm(self, width: float, seed: int) -> NormBracket:
        highest = float(np.abs(self.response()).max()) * (1 + _ROUNDING)
        if self.window == "released":
            return NormBracket(
                highest * (1 - 2 * _ROUNDING), highest, how="frequency response, exact (circulant)"
            )
        if self.bins <= _LARGEST_DENSE:
            values = scipy.linalg.eigvalsh(self._matrix())
            norm = float(np.abs(values).max())
            return NormBracket(
                norm * (1 - _ROUNDING),
                min(norm * (1 + _ROUNDING), highest),
                how="eigenvalues of the Toeplitz matrix, exact",
            )
        # Padding and cropping can only lower what the circulant filter does.
        one = RampFilter((1, self.bins), window=self.window, scale=self.scale, dtype=torch.float64)
        below = LinearOperator._norm(one, width, seed).lower
        return NormBracket(below, highest, how="Lanczos below, frequency response above")

    def extra_repr(self) -> str:
        """The window and the shapes, as nn.Module prints them."""
        return f"{self.window}, {super().extra_repr()}"
