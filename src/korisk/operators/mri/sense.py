"""Multi-coil Cartesian MRI: Sense, and simulated sensitivities of coils."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import invalid
from korisk.operators.basic import Fourier, Spectral, capped, own_tensor
from korisk.operators.caching import version
from korisk.operators.inputs import as_complex, as_pairs, checked_shape, shape_text, traced
from korisk.operators.types import Device, Dtype, Lengths, Values
from korisk.theory.bracket import NormBracket


class Sense(Spectral):
    """x -> m F s_c x: k-space samples of an image as each of several coils sees it.

    Complex numbers are a last axis of 2 (real, imaginary): (*shape, 2) -> (coils, *shape, 2), or
    (*shape) -> (coils, *shape, 2) with `real=True`. k-space and its mask are those of `Fourier`.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the image; the transform is over all its axes.
    sensitivities : Tensor or array_like, complex (coils, *shape) or real (coils, *shape, 2)
        s, one map for each coil, such as `birdcage_sensitivities(shape, coils)`. Copied,
        not trained.
    mask : array_like of 0 and 1 or bool, optional
        Samples that are taken, of the image's shape or of its last axes; everything where None.
    real : bool, default False
        Whether images are real, without the last axis of 2.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    Continuous: (A x)_c(k) = integral s_c(r) x(r) exp(-2 pi i k.r) dr. Discrete: A x = (m F (s_c x))
    over the coils c, with F unitary and a mask m of 0 and 1, so that
    A^T y = sum_c conj(s_c) F^H m y_c, of which a real image takes the real part.
    ||A||^2 <= max_r sum_c |s_c(r)|^2, with equality where everything is sampled; otherwise the
    bracket is that of Lanczos, and its upper end not above this.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Sense, birdcage_sensitivities
    >>> A = Sense((8, 8), birdcage_sensitivities((8, 8), coils=4), mask=[0, 1] * 4)
    >>> A(torch.ones(8, 8, 2)).shape, A.coils, A.acceleration, A.norm().upper <= 1.0001
    (torch.Size([4, 8, 8, 2]), 4, 2.0, True)
    """

    time_axis, interleaved = -2, True
    sensitivities: Tensor

    def __init__(
        self,
        shape: Lengths,
        sensitivities: Values,
        mask: Values | None = None,
        *,
        real: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        fourier = Fourier(shape, mask, device=device, dtype=dtype)
        image = fourier.image_shape
        try:
            raw = torch.as_tensor(sensitivities)
        except (TypeError, ValueError, RuntimeError):
            raise invalid("sensitivities", "be a torch tensor or an array", sensitivities) from None
        parts = torch.view_as_real(raw.resolve_conj()) if raw.is_complex() else raw
        values = own_tensor("sensitivities", parts, trained=False)
        if values.ndim != len(image) + 2 or values.shape[1:] != (*image, 2):
            maps = f"(coils, {shape_text(image)[1:]}"
            rule = f"be complex of shape {maps}, or real with a last axis of 2"
            got = f"{raw.dtype} of {shape_text(raw.shape)}"
            raise invalid("sensitivities", rule, sensitivities, got=got)
        domain, range = image if real else (*image, 2), (len(values), *image, 2)
        super().__init__(domain, range, name="S", device=fourier.device, dtype=fourier.dtype)
        self.fourier = fourier
        self.real = bool(real)
        self.register_buffer("sensitivities", values.to(fourier.device, fourier.dtype))
        self._fully_sampled, self._mask_version = False, (0, -1)
        self._is_fully_sampled()
        # So that a compiled program, which looks at the answer alone, meets another one.
        self.register_load_state_dict_post_hook(Sense._after_loading)  # type: ignore[no-untyped-call]

    @property
    def coils(self) -> int:
        """How many coils there are."""
        return len(self.sensitivities)

    @property
    def mask(self) -> Tensor:
        """Which samples are taken, of the image's shape."""
        return self.fourier.mask

    @property
    def acceleration(self) -> float:
        """The image's pixels over the samples that a coil takes."""
        return self.fourier.acceleration

    def _is_fully_sampled(self) -> bool:
        """Whether every sample is taken; checked again after the mask has changed."""
        mask = self.fourier.mask
        if not traced(mask) and (now := version(mask)) != self._mask_version:
            self._fully_sampled, self._mask_version = bool(mask.all()), now
        return self._fully_sampled

    def _after_loading(self, _: object) -> None:
        self._is_fully_sampled()

    def _map(self, x: Tensor) -> Tensor:
        return self.fourier._map(coil_images(self.sensitivities, x, self.real))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return combined(self.sensitivities, self.fourier._map_adjoint(y), self.real)

    def _norm(self, width: float, seed: int) -> NormBracket:
        full = whole_norm(self.sensitivities)
        if self._is_fully_sampled():
            return full
        return capped(super()._norm(width, seed), full.upper, full.how)

    def _squares(self) -> Tensor | None:
        if not self._is_fully_sampled():
            return None
        # Fully sampled, F is unitary: A^T A is sum_c |s_c|^2, pixel by pixel.
        squares = self.sensitivities.square().sum((0, -1))
        return squares if self.real else squares[..., None]


def coil_images(sensitivities: Tensor, x: Tensor, real: bool) -> Tensor:
    """An image as each coil sees it."""
    maps = as_complex(sensitivities)
    image = x if real else as_complex(x)
    return torch.view_as_real(maps * image.unsqueeze(-maps.ndim))


def combined(sensitivities: Tensor, y: Tensor, real: bool) -> Tensor:
    """The adjoint: the images of the coils, each weighted by its conjugate map, added up."""
    maps = as_complex(sensitivities)
    return as_pairs((as_complex(y) * torch.conj_physical(maps)).sum(-maps.ndim), real=real)


def whole_norm(sensitivities: Tensor) -> NormBracket:
    """The norm of the coils together, where everything is sampled."""
    largest = math.sqrt(float(sensitivities.square().sum((0, -1)).max()))
    return NormBracket(largest, largest, how="root of the largest sum of squared sensitivities")


def birdcage_sensitivities(shape: Sequence[int], coils: int, *, radius: float = 1.5) -> Tensor:
    """Smooth simulated sensitivities of coils on a circle around an image.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the image.
    coils : int
        How many coils, 1 to 1024.
    radius : float, default 1.5
        Radius of the circle in half edges of the image, > sqrt(2): the coils are outside of it.

    Returns
    -------
    Tensor, shape (coils, rows, columns, 2)
        In float64; the squares add up to one in every pixel.

    Notes
    -----
    A coil at r_c sees a pixel at r with the strength 1 / |r - r_c| and with the phase of r - r_c as
    a complex number, seen from its own side of the circle; then all coils are divided by the root
    of the sum of their squares. Simulated: no field was solved for.

    Examples
    --------
    >>> from korisk.operators import birdcage_sensitivities
    >>> maps = birdcage_sensitivities((16, 16), coils=4)
    >>> maps.shape, bool((maps.square().sum((0, -1)) - 1).abs().max() < 1e-12)
    (torch.Size([4, 16, 16, 2]), True)
    """
    lengths = checked_shape("shape", shape)
    if len(lengths) != 2:
        remedy = "give maps of your own to Sense for other images"
        raise invalid("shape", "be (rows, columns)", shape, remedy, got=shape_text(lengths))
    count = _checks.count("coils", coils, at_least=1, at_most=1024, remedy="count the coils")
    remedy = "1.5 is close to the image"
    away = _checks.real("radius", radius, above=math.sqrt(2), at_most=1e6, remedy=remedy)
    # Pixel centres from -1 to 1; coils on a circle around them.
    y, x = ((2 * np.arange(n) + 1) / n - 1 for n in lengths)
    towards = np.exp(1j * (2 * math.pi * np.arange(count) / count))[:, None, None]
    # conj(towards) turns each coil's view to the same one: its phase is zero on its own axis.
    apart = (away * towards - (x + 1j * y[:, None])) * towards.conj()
    # The field of a coil falls off as one over the distance.
    maps = apart / np.abs(apart) ** 2
    maps /= np.sqrt((np.abs(maps) ** 2).sum(0))
    return torch.view_as_real(torch.from_numpy(maps))
