"""Fourier: the centred Fourier transform of an image, sampled where a mask says, as MRI does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from korisk.errors import KoriskError, shown
from korisk.operators.linear import LinearOperator, Shape, checked_shape, shape_text
from korisk.theory.bracket import NormBracket


class Fourier(LinearOperator):
    """x -> m F x: the orthonormal Fourier transform over all dimensions of the image, masked.

    Complex numbers are a last axis of 2 (real, imaginary), so that the operator is a real linear
    map: (*shape, 2) -> (*shape, 2), or (*shape) -> (*shape, 2) with `real=True`. The origin lies
    in the middle of both, at index n // 2. Samples that the mask leaves out are zeros in the
    range, and what stands there is ignored by the adjoint, even NaN.

    `mask` is of 0 and 1, or bool, of the image's shape or of its last dimensions only: a mask of
    shape (columns,) keeps whole columns of k-space.

    Notes
    -----
    (F x)(k) = n^(-1/2) sum_r x(r) exp(-2 pi i k.r / n), a unitary matrix, so that F^-1 = F^H and
    A^T y = F^H m y, of which a real image takes the real part.

    >>> import torch
    >>> from korisk.operators import Fourier
    >>> F = Fourier((8, 8), mask=[0, 1] * 4, real=True)
    >>> F(torch.ones(8, 8)).shape, F.acceleration, F.norm().upper
    (torch.Size([8, 8, 2]), 2.0, 1.0)
    """

    mask: Tensor

    def __init__(
        self,
        shape: int | Sequence[int],
        mask: Any = None,
        *,
        real: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        image = checked_shape("shape", shape)
        if not image:
            raise KoriskError(
                "shape must have at least one dimension, got (); pass (rows, columns)"
            )
        domain = image if real else (*image, 2)
        super().__init__(domain, (*image, 2), name="F", device=device, dtype=dtype)
        self.image_shape = image
        self.real = bool(real)
        self.register_buffer("mask", _checked_mask(mask, image).to(self.device))

    @property
    def acceleration(self) -> float:
        """The image's pixels over the samples that are kept."""
        return self.mask.numel() / int(self.mask.sum())

    @property
    def _dimensions(self) -> tuple[int, ...]:
        return tuple(range(-len(self.image_shape), 0))

    def _map(self, x: Tensor) -> Tensor:
        image = x if self.real else torch.complex(x[..., 0], x[..., 1])
        dims = self._dimensions
        spectrum = torch.fft.fftn(torch.fft.ifftshift(image, dim=dims), dim=dims, norm="ortho")
        return self._sampled(torch.view_as_real(torch.fft.fftshift(spectrum, dim=dims)))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        kept = self._sampled(y)
        spectrum = torch.complex(kept[..., 0], kept[..., 1])
        dims = self._dimensions
        image = torch.fft.ifftn(torch.fft.ifftshift(spectrum, dim=dims), dim=dims, norm="ortho")
        centred = torch.fft.fftshift(image, dim=dims)
        return centred.real.clone() if self.real else torch.view_as_real(centred)

    def _sampled(self, samples: Tensor) -> Tensor:
        return torch.where(self.mask[..., None], samples, torch.zeros_like(samples))

    def _norm(self, width: float, seed: int) -> NormBracket:
        if not self.real:
            return NormBracket(1.0, 1.0, how="unitary, sampled")
        # A^T A = Re(F^H m F). The conjugate of F^H m F is F^H m(-k) F, so that their mean has the
        # eigenvalues (m(k) + m(-k)) / 2: 1 where both are sampled, a half where one of them is.
        shares = (self.mask.double() + _mirrored(self.mask).double()) / 2
        largest = math.sqrt(float(shares.max()))
        return NormBracket(largest, largest, how="largest (m(k) + m(-k)) / 2")


def _mirrored(mask: Tensor) -> Tensor:
    """m(-k), with the origin at index n // 2."""
    dims = tuple(range(mask.ndim))
    # Flipped, index j holds n - 1 - j; where n is even, -k is at n - j, with -n/2 its own mirror.
    shifts = tuple(1 - length % 2 for length in mask.shape)
    return mask.flip(dims).roll(shifts, dims)


def _checked_mask(given: Any, image: Shape) -> Tensor:
    if given is None:
        return torch.ones(image, dtype=torch.bool)
    try:
        mask = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    except ValueError:
        raise KoriskError(f"mask must be an array of 0 and 1, got {shown(given)}") from None
    if mask.ndim == 0 or mask.ndim > len(image) or not _broadcasts(mask.shape, image):
        raise KoriskError(
            f"mask must have the image's shape {shape_text(image)} or that of its last "
            f"dimensions, got {shape_text(mask.shape)}"
        )
    try:
        binary = bool(np.isin(mask, (0, 1)).all())
    except TypeError:
        binary = False
    if not binary:
        raise KoriskError(
            f"mask must hold 0 and 1 only, got {shown(mask.ravel()[:6].tolist())}; weigh samples "
            "with a Diagonal behind the transform"
        )
    if not mask.any():
        raise KoriskError("mask must keep at least one sample, got none; set the origin, n // 2")
    return torch.from_numpy(np.broadcast_to(mask != 0, image).copy())


def _broadcasts(shape: Sequence[int], image: Shape) -> bool:
    pairs = zip(reversed(shape), reversed(image), strict=False)
    return all(length in (1, wanted) for length, wanted in pairs)
