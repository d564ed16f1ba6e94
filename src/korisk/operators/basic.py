"""Small operators: Identity, Diagonal, Matrix, Fourier and Diffusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.operators import norms
from korisk.operators.linear import LinearOperator, Shape, checked_shape, shape_text
from korisk.theory.bracket import NormBracket

_LARGEST_DECOMPOSED = 2048  # side up to which all singular values take seconds, not minutes


class Identity(LinearOperator):
    """x -> x, as a copy: what is written into the result does not reach the input.

    `shape` is that of x without its batch.

    >>> import torch
    >>> from korisk.operators import Identity
    >>> Identity((2, 3))(torch.ones(5, 2, 3)).shape
    torch.Size([5, 2, 3])
    """

    nonnegative = True

    def __init__(
        self,
        shape: int | Sequence[int],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        lengths = checked_shape("shape", shape)
        super().__init__(lengths, lengths, name="I", device=device, dtype=dtype)

    def _map(self, x: Tensor) -> Tensor:
        return x.clone()

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return y.clone()

    def _norm(self, width: float, seed: int) -> NormBracket:
        return NormBracket(1.0, 1.0, how="the identity's")


class Diagonal(LinearOperator):
    """x -> w x, entry by entry, with weights w of the shape of x.

    Weights may be a tensor, whose precision and device the operator takes, or an array, which
    becomes torch's default precision; either is copied. With `trainable=True` they are an
    `nn.Parameter` and `norm()` is that of the present weights.

    >>> import torch
    >>> from korisk.operators import Diagonal
    >>> W = Diagonal([1.0, -2.0], trainable=True)
    >>> W(torch.ones(2)).tolist(), W.norm().upper, len(list(W.parameters()))
    ([1.0, -2.0], 2.0, 1)
    """

    weights: Tensor

    def __init__(self, weights: Any, *, name: str = "W", trainable: bool = False) -> None:
        values = own_tensor("weights", weights)
        super().__init__(
            values.shape, values.shape, name=name, device=values.device, dtype=values.dtype
        )
        if trainable:
            self.weights = nn.Parameter(values)
        else:
            self.register_buffer("weights", values)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every weight is >= 0 at present."""
        return bool((self.weights >= 0).all())

    def _map(self, x: Tensor) -> Tensor:
        return x * self.weights

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return y * self.weights

    def _norm(self, width: float, seed: int) -> NormBracket:
        largest = norms.size(self.weights)
        return NormBracket(largest, largest, how="largest |weight|")


class Matrix(LinearOperator):
    """x -> M x for a dense matrix M of shape (prod range, prod domain), which is copied.

    Without `domain` and `range` the operator takes and gives plain vectors.

    >>> import torch
    >>> from korisk.operators import Matrix
    >>> M = Matrix([[1.0, 2.0], [0.0, 3.0]])
    >>> M(torch.ones(2)).tolist(), M.T(torch.ones(2)).tolist()
    ([3.0, 3.0], [1.0, 5.0])
    """

    matrix: Tensor

    def __init__(
        self,
        matrix: Any,
        domain: int | Sequence[int] | None = None,
        range: int | Sequence[int] | None = None,
        name: str = "M",
    ) -> None:
        values = own_tensor("matrix", matrix)
        if values.ndim != 2:
            raise KoriskError(
                f"matrix must have two dimensions, got shape {shape_text(tuple(values.shape))}; "
                "reshape it to (rows, columns)"
            )
        rows, columns = values.shape
        super().__init__(
            _side("domain", domain, columns, "columns"),
            _side("range", range, rows, "rows"),
            name=name,
            device=values.device,
            dtype=values.dtype,
        )
        self.register_buffer("matrix", values)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every entry is >= 0."""
        return bool((self.matrix >= 0).all())

    def _map(self, x: Tensor) -> Tensor:
        return _times(x, self.matrix.t(), self.domain, self.range)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return _times(y, self.matrix, self.range, self.domain)

    def _norm(self, width: float, seed: int) -> NormBracket:
        if min(self.matrix.shape) > _LARGEST_DECOMPOSED:
            return super()._norm(width, seed)
        largest = float(torch.linalg.matrix_norm(self.matrix, 2))
        return NormBracket(largest, largest, how="largest singular value")


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


class Diffusion(LinearOperator):
    """u(0) -> u(t) for u_t = nu u_xx - c u_x, on `points` equal steps of a periodic line.

    `viscosity` is nu, `speed` is c, `time` is t and `length` the line's, in units that agree.

    Notes
    -----
    Each wave exp(i k x), k = 2 pi j / length, is multiplied by exp(-(nu k^2 + i c k) t): exact in
    time, and in space for every function that the points resolve.

    >>> import torch
    >>> from korisk.operators import Diffusion
    >>> flow = Diffusion(4, viscosity=0.0, speed=1.0, time=0.25)
    >>> flow(torch.tensor([1.0, 2.0, 3.0, 2.0])).round(decimals=4).tolist()
    [2.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        points: int,
        *,
        viscosity: float,
        speed: float = 0.0,
        time: float,
        length: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        n = _checks.count("points", points, at_least=1, remedy="count the points of the line")
        super().__init__((n,), (n,), name="E", device=device, dtype=dtype)
        remedy = "a line that sharpens with time has no bounded solution"
        self.viscosity = _checks.real("viscosity", viscosity, at_least=0, remedy=remedy)
        self.speed = _checks.real("speed", speed, remedy="give length per time, of either sign")
        remedy = "the flow cannot be run backwards"
        self.time = _checks.real("time", time, at_least=0, remedy=remedy)
        self.length = _checks.real("length", length, above=0, remedy="give the period")

    def _map(self, x: Tensor) -> Tensor:
        return self._filtered(x, self._multiplier())

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self._filtered(y, self._multiplier().conj())

    def _filtered(self, x: Tensor, multiplier: Tensor) -> Tensor:
        moved: Tensor = torch.fft.irfft(torch.fft.rfft(x) * multiplier, n=self.domain[0])
        return moved

    def _multiplier(self) -> Tensor:
        return self._once("multiplier", self._here)

    def _here(self) -> Tensor:
        precision = torch.complex64 if self.dtype == torch.float32 else torch.complex128
        return torch.from_numpy(self._waves()).to(self.device, precision)

    def _waves(self) -> np.ndarray[Any, np.dtype[np.complex128]]:
        """exp(-(nu k^2 + i c k) t) for j = 0 ... points // 2."""
        n = self.domain[0]
        k = 2 * math.pi / self.length * np.arange(n // 2 + 1)
        waves: np.ndarray[Any, np.dtype[np.complex128]] = np.exp(
            -(self.viscosity * self.time * k**2 + 1j * self.speed * self.time * k)
        )
        if n % 2 == 0:
            # The points see of the last wave only cos(k x). Moved by c t it is cos(k x) cos(k c t)
            # plus sin(k x) sin(k c t), and that second part is zero at every point.
            waves[-1] = waves[-1].real
        return waves

    def _norm(self, width: float, seed: int) -> NormBracket:
        # A circulant matrix is normal: its norm is its largest |eigenvalue|, at k = 0 if no other.
        largest = float(np.abs(self._waves()).max())
        return NormBracket(largest, largest, how="largest |multiplier|")


def own_tensor(field: str, given: Any) -> Tensor:
    """A copy of an array or tensor in float32 or float64, without NaN and infinities."""
    if isinstance(given, Tensor):
        values = given.detach().clone()
    else:
        try:
            values = torch.from_numpy(np.array(given, order="C"))
        except (TypeError, ValueError):
            raise KoriskError(
                f"{field} must be a torch tensor or an array of numbers, got {shown(given)}"
            ) from None
        values = values if values.is_complex() else values.to(torch.get_default_dtype())
    if values.is_complex():
        raise KoriskError(
            f"{field} must be real, got {values.dtype}; hold complex numbers as a last axis of 2"
        )
    if not values.is_floating_point():
        values = values.to(torch.get_default_dtype())
    if values.numel() == 0:
        raise KoriskError(
            f"{field} must have at least one entry, got shape {shape_text(tuple(values.shape))}"
        )
    wrong = values.numel() - int(torch.isfinite(values).sum())
    if wrong:
        raise KoriskError(
            f"{field} must be finite, got {wrong:,} of {values.numel():,} entries that are NaN or "
            "infinite; clean them with torch.nan_to_num, or find where they come from"
        )
    return values.contiguous()


def _side(field: str, given: int | Sequence[int] | None, length: int, what: str) -> Shape:
    if given is None:
        return (length,)
    shape = checked_shape(field, given)
    if math.prod(shape) != length:
        raise KoriskError(
            f"{field} must have as many entries as the matrix has {what}, {length:,}, got "
            f"{shape_text(shape)}, which has {math.prod(shape):,}"
        )
    return shape


def _times(x: Tensor, matrix: Tensor, given: Shape, wanted: Shape) -> Tensor:
    batch = x.shape[: x.ndim - len(given)]
    return (x.reshape(*batch, math.prod(given)) @ matrix).reshape(*batch, *wanted)
