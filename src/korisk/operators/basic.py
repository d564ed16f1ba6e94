"""Small operators: Identity, Diagonal, Matrix, Fourier and Diffusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.operators import norms
from korisk.operators.linear import LinearOperator, Shape, checked_shape, shape_text
from korisk.theory.bracket import NormBracket

_LARGEST_DECOMPOSED = 2048  # side up to which all singular values take seconds, not minutes


class Identity(LinearOperator):
    """x -> x, as a copy: writing into the result does not change the input.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of x without its batch.
    device : torch.device or str, optional
        PyTorch's default where None.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; PyTorch's default where None.

    Notes
    -----
    I x = x, its own adjoint, with the norm 1.

    Examples
    --------
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

    Parameters
    ----------
    weights : Tensor or array_like
        Copied. A tensor gives the operator its precision and device; an array becomes PyTorch's
        default precision.
    name : str, default "W"
        Used in messages and by `Composed`.
    trainable : bool, default False
        Whether the weights are an `nn.Parameter`; `norm()` is that of the present weights.

    Notes
    -----
    (W x)_i = w_i x_i, its own adjoint, with the norm max |w_i|.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Diagonal
    >>> W = Diagonal([1.0, -2.0], trainable=True)
    >>> W(torch.ones(2)).tolist(), W.norm().upper, len(list(W.parameters()))
    ([1.0, -2.0], 2.0, 1)
    """

    weights: Tensor

    def __init__(self, weights: Any, *, name: str = "W", trainable: bool = False) -> None:
        values = own_tensor("weights", weights)
        place: dict[str, Any] = {"device": values.device, "dtype": values.dtype}
        super().__init__(values.shape, values.shape, name=name, **place)
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
    """x -> M x for a dense matrix M.

    Parameters
    ----------
    matrix : Tensor or array_like, shape (prod range, prod domain)
        Copied. A tensor gives the operator its precision and device.
    domain, range : int or sequence of int, optional
        Shapes of input and output; plain vectors where None.
    name : str, default "M"
        Used in messages and by `Composed`.

    Notes
    -----
    (M x)_i = sum_j M_ij x_j; the adjoint is the transpose. Up to 2,048 rows or columns the norm is
    the largest singular value; beyond that it is iterated.

    Examples
    --------
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
        shapes = []
        for field, value, length in (("domain", domain, columns), ("range", range, rows)):
            shape = (length,) if value is None else checked_shape(field, value)
            if math.prod(shape) != length:
                raise KoriskError(
                    f"{field} must have {length:,} entries for a matrix of {rows:,} x {columns:,}, "
                    f"got {shape_text(shape)}, which has {math.prod(shape):,}"
                )
            shapes.append(shape)
        super().__init__(*shapes, name=name, device=values.device, dtype=values.dtype)
        self.register_buffer("matrix", values)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every entry is >= 0."""
        return bool((self.matrix >= 0).all())

    def _map(self, x: Tensor) -> Tensor:
        return self._times(x, self.matrix.t(), self.domain, self.range)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self._times(y, self.matrix, self.range, self.domain)

    @staticmethod
    def _times(x: Tensor, matrix: Tensor, source: Shape, target: Shape) -> Tensor:
        batch = x.shape[: x.ndim - len(source)]
        return (x.reshape(*batch, math.prod(source)) @ matrix).reshape(*batch, *target)

    def _norm(self, width: float, seed: int) -> NormBracket:
        if min(self.matrix.shape) > _LARGEST_DECOMPOSED:
            return super()._norm(width, seed)
        largest = float(torch.linalg.matrix_norm(self.matrix, 2))
        return NormBracket(largest, largest, how="largest singular value")


class Fourier(LinearOperator):
    """x -> m F x: the orthonormal, centred Fourier transform of an image, sampled by a mask.

    Complex numbers are a last axis of 2 (real, imaginary), so that the operator is a real linear
    map: (*shape, 2) -> (*shape, 2), or (*shape) -> (*shape, 2) with `real=True`. The origin is at
    index n // 2 of both. Samples that the mask leaves out are zeros in the range; the adjoint
    ignores values there, even NaN.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the image; the transform is over all its axes.
    mask : array_like of 0 and 1 or bool, optional
        Of the image's shape, or of its last axes: a mask of shape (columns,) keeps whole columns
        of k-space. Everything is kept where None.
    real : bool, default False
        Whether images are real, without the last axis of 2.
    device : torch.device or str, optional
        PyTorch's default where None.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; PyTorch's default where None.

    Notes
    -----
    The continuous transform is (F x)(k) = integral x(r) exp(-2 pi i k.r) dr; discretely
    (F x)(k) = n^(-1/2) sum_r x(r) exp(-2 pi i k.r / n), a unitary matrix. So A^T y = F^H m y, of
    which a real image takes the real part. The norm is exact: 1, or for real images
    max sqrt((m(k) + m(-k)) / 2).

    Examples
    --------
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
        self._axes = tuple(range(-len(image), 0))
        kept = _checked_mask(1 if mask is None else mask, image)
        self.register_buffer("mask", kept.to(self.device))

    @property
    def acceleration(self) -> float:
        """The image's pixels over the samples that are kept."""
        return self.mask.numel() / int(self.mask.sum())

    def _map(self, x: Tensor) -> Tensor:
        image = x if self.real else torch.complex(x[..., 0], x[..., 1])
        axes = self._axes
        spectrum = torch.fft.fftn(torch.fft.ifftshift(image, dim=axes), dim=axes, norm="ortho")
        return self._sampled(torch.view_as_real(torch.fft.fftshift(spectrum, dim=axes)))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        kept = self._sampled(y)
        spectrum = torch.complex(kept[..., 0], kept[..., 1])
        axes = self._axes
        image = torch.fft.ifftn(torch.fft.ifftshift(spectrum, dim=axes), dim=axes, norm="ortho")
        centred = torch.fft.fftshift(image, dim=axes)
        return centred.real.clone() if self.real else torch.view_as_real(centred)

    def _sampled(self, samples: Tensor) -> Tensor:
        return torch.where(self.mask[..., None], samples, torch.zeros_like(samples))

    def _norm(self, width: float, seed: int) -> NormBracket:
        if not self.real:
            return NormBracket(1.0, 1.0, how="unitary, sampled")
        # A^T A = Re(F^H m F). The conjugate of F^H m F is F^H m(-k) F, so that their mean has the
        # eigenvalues (m(k) + m(-k)) / 2: 1 where both are sampled, a half where one of them is.
        # Flipped, index j holds n - 1 - j; where n is even, -k is at n - j, with -n/2 its own
        # mirror image.
        shifts = tuple(1 - length % 2 for length in self.image_shape)
        mirrored = self.mask.flip(self._axes).roll(shifts, self._axes)
        largest = math.sqrt(float((self.mask.double() + mirrored.double()).max()) / 2)
        return NormBracket(largest, largest, how="largest (m(k) + m(-k)) / 2")


def _checked_mask(value: Any, image: Shape) -> Tensor:
    mask = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    try:
        whole = np.broadcast_to(mask, image)
    except ValueError:
        raise KoriskError(
            f"mask must have the image's shape {shape_text(image)} or that of its last "
            f"dimensions, got {shown(value)}"
        ) from None
    known = whole.dtype.kind in "biuf" and bool(np.isin(whole, (0, 1)).all())
    if not known or not whole.any():
        raise KoriskError(
            "mask must hold 0 and 1 only and keep at least one sample, got "
            f"{shown(mask.ravel()[:6].tolist())}; weigh samples with a Diagonal behind it"
        )
    return torch.from_numpy(whole != 0)


class Diffusion(LinearOperator):
    """u(0) -> u(t): the exact flow of advection and diffusion on a periodic line.

    Parameters
    ----------
    points : int
        Equally spaced points on the line.
    viscosity : float
        nu >= 0, in length^2 per time.
    speed : float, default 0
        c, in length per time.
    time : float
        t >= 0.
    length : float, default 1
        Period of the line, > 0.
    device : torch.device or str, optional
        PyTorch's default where None.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; PyTorch's default where None.

    Notes
    -----
    u_t = nu u_xx - c u_x. Each wave exp(i k x), k = 2 pi j / length, is multiplied by
    exp(-(nu k^2 + i c k) t): exact in time, and in space for every function that the points
    resolve. The matrix is circulant, so its norm is the largest |multiplier|.

    Examples
    --------
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
        remedy = "a negative viscosity has no bounded solution"
        self.viscosity = _checks.real("viscosity", viscosity, at_least=0, remedy=remedy)
        self.speed = _checks.real("speed", speed, remedy="give length per time, of either sign")
        remedy = "the flow cannot be run backwards"
        self.time = _checks.real("time", time, at_least=0, remedy=remedy)
        self.length = _checks.real("length", length, above=0, remedy="give the period")

    def _map(self, x: Tensor) -> Tensor:
        moved: Tensor = torch.fft.irfft(torch.fft.rfft(x) * self._multiplier(), n=self.domain[0])
        return moved

    def _map_adjoint(self, y: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(y) * self._multiplier().conj()
        moved: Tensor = torch.fft.irfft(spectrum, n=self.domain[0])
        return moved

    def _multiplier(self) -> Tensor:
        precision = torch.complex64 if self.dtype == torch.float32 else torch.complex128
        return self._once(
            "multiplier", lambda: torch.from_numpy(self._waves()).to(self.device, precision)
        )

    def _waves(self) -> NDArray[np.complex128]:
        """exp(-(nu k^2 + i c k) t) for j = 0 ... points // 2."""
        n = self.domain[0]
        k = 2 * math.pi / self.length * np.arange(n // 2 + 1)
        decay, turn = self.viscosity * self.time * k**2, self.speed * self.time * k
        waves: NDArray[np.complex128] = np.exp(-(decay + 1j * turn))
        if n % 2 == 0:
            # The points see of the last wave only cos(k x). Moved by c t it is cos(k x) cos(k c t)
            # plus sin(k x) sin(k c t), and that second part is zero at every point.
            waves[-1] = waves[-1].real
        return waves

    def _norm(self, width: float, seed: int) -> NormBracket:
        # A circulant matrix is normal: its norm is its largest |eigenvalue|.
        largest = float(np.abs(self._waves()).max())
        return NormBracket(largest, largest, how="largest |multiplier|")


def own_tensor(field: str, value: Any) -> Tensor:
    """A copy of an array or tensor in float32 or float64, without NaN and infinities."""
    if isinstance(value, Tensor):
        values = value.detach().clone()
    else:
        try:
            values = torch.from_numpy(np.array(value, order="C"))
        except (TypeError, ValueError):
            raise KoriskError(
                f"{field} must be a torch tensor or an array of numbers, got {shown(value)}"
            ) from None
    if values.is_complex():
        raise KoriskError(
            f"{field} must be real, got {values.dtype}; hold complex numbers as a last axis of 2"
        )
    if not isinstance(value, Tensor) or not values.is_floating_point():
        values = values.to(torch.get_default_dtype())
    wrong = values.numel() - int(torch.isfinite(values).sum())
    if wrong or not values.numel():
        raise KoriskError(
            f"{field} must be one or more finite numbers, got {values.numel():,} entries, of which "
            f"{wrong:,} are NaN or infinite; clean them with torch.nan_to_num"
        )
    return values.contiguous()
