"""Small operators: Identity, Diagonal, Mask, Matrix, Fourier and Diffusion."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, invalid, shown
from korisk.operators import inputs, norms
from korisk.operators.inputs import Shape, as_complex, as_pairs, checked_shape, shape_text
from korisk.operators.linear import LinearOperator
from korisk.operators.types import Device, Dtype, Lengths, Values
from korisk.theory.bracket import NormBracket

Limit = float | None
_LARGEST_DECOMPOSED = 2048  # side up to which all singular values take seconds, not minutes
_ROUNDING = 1e-10  # relative; far above what float64 loses in these sums


class Identity(LinearOperator):
    """x -> x, as a copy: writing into the result does not change the input.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of x without its batch.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

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

    def __init__(self, shape: Lengths, *, device: Device = None, dtype: Dtype = None) -> None:
        lengths = checked_shape("shape", shape)
        super().__init__(lengths, lengths, name="I", device=device, dtype=dtype)

    def _map(self, x: Tensor) -> Tensor:
        return x.clone()

    _map_adjoint = _map

    def _norm(self, width: float, seed: int) -> NormBracket:
        return NormBracket(1.0, 1.0, how="the identity's")


class Spectral(LinearOperator):
    """An operator whose A^T A is diagonal in a known basis, where `_squares` is not None."""

    fixed: tuple[str, ...] = ()  # attributes that other ones were computed from

    def __setattr__(self, name: str, value: Tensor | nn.Module) -> None:
        if name in self.fixed and name in self.__dict__:
            text = f"{name} of {self.name} cannot be set to {shown(value)} later on"
            raise KoriskError(f"{text}; make another {type(self).__name__}")
        super().__setattr__(name, value)

    @abstractmethod
    def _squares(self) -> Tensor | None:
        """The eigenvalues of A^T A, in the shape of the components in that basis."""

    def _weighed(self, x: Tensor, factors: Tensor) -> Tensor:
        """Multiply the components of x in that basis by factors; here these are its entries."""
        return x * factors


class Diagonal(Spectral):
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

    def __init__(self, weights: Values, *, name: str = "W", trainable: bool = False) -> None:
        values = own_tensor("weights", weights)
        shape = values.shape
        super().__init__(shape, shape, name=name, device=values.device, dtype=values.dtype)
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

    _map_adjoint = _map

    def _norm(self, width: float, seed: int) -> NormBracket:
        largest = norms.size(self.weights)
        return NormBracket(largest, largest, how="largest |weight|")

    def _squares(self) -> Tensor:
        return self.weights.square()


class Mask(Spectral):
    """x -> m x, entry by entry, with a mask m of 0 and 1: pixels or bins that are missing.

    Values that the mask leaves out are ignored, even NaN, and zeros in the result; the adjoint is
    the operator itself. `Diagonal` is for other weights.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of x without its batch.
    mask : array_like of 0 and 1 or bool
        Of that shape, or of its last axes.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    (M x)_i = x_i where m_i = 1, else 0: a projection, its own adjoint, with the norm 1.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Mask
    >>> Mask(3, [1, 0, 1])(torch.tensor([1.0, torch.nan, 3.0])).tolist()
    [1.0, 0.0, 3.0]
    """

    nonnegative = True
    mask: Tensor

    def __init__(
        self, shape: Lengths, mask: Values, *, device: Device = None, dtype: Dtype = None
    ) -> None:
        lengths = checked_shape("shape", shape)
        super().__init__(lengths, lengths, name="M", device=device, dtype=dtype)
        self.register_buffer("mask", _checked_mask(mask, lengths).to(self.device))

    def _map(self, x: Tensor) -> Tensor:
        return torch.where(self.mask, x, torch.zeros_like(x))

    _map_adjoint = _map

    def _norm(self, width: float, seed: int) -> NormBracket:
        return NormBracket(1.0, 1.0, how="a projection's")

    def _squares(self) -> Tensor:
        return self.mask.to(self.dtype)


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
        matrix: Values,
        domain: Lengths | None = None,
        range: Lengths | None = None,
        name: str = "M",
    ) -> None:
        values = own_tensor("matrix", matrix)
        got, remedy = f"shape {shape_text(values.shape)}", "reshape it to (rows, columns)"
        _checks.require(values.ndim == 2, "matrix", "have two dimensions", matrix, remedy, got=got)
        rows, columns = values.shape
        what = f"a matrix of {rows:,} x {columns:,}"
        source = inputs.checked_length("domain", domain, columns, what)
        target = inputs.checked_length("range", range, rows, what)
        super().__init__(source, target, name=name, device=values.device, dtype=values.dtype)
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
        largest = float(norms.largest_singular_value(self.matrix))
        return NormBracket(largest, largest, how="largest singular value")


class Fourier(Spectral):
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
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

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

    time_axis, interleaved = -2, True
    mask: Tensor

    def __init__(
        self,
        shape: Lengths,
        mask: Values | None = None,
        *,
        real: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        image = checked_shape("shape", shape, axes=1)
        domain = image if real else (*image, 2)
        super().__init__(domain, (*image, 2), name="F", device=device, dtype=dtype)
        self.image_shape = image
        self.real = bool(real)
        self._axes = tuple(range(-len(image), 0))
        sampled = _checked_mask(1 if mask is None else mask, image)
        self.register_buffer("mask", sampled.to(self.device))

    @property
    def acceleration(self) -> float:
        """Number of pixels divided by the number of samples."""
        return self.mask.numel() / int(self.mask.sum())

    def _map(self, x: Tensor) -> Tensor:
        return self._sampled(torch.view_as_real(self._spectrum(x)))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self._image(as_complex(self._sampled(y)))

    def _spectrum(self, x: Tensor) -> Tensor:
        return self._transformed(torch.fft.fftn, x if self.real else as_complex(x))

    def _image(self, spectrum: Tensor) -> Tensor:
        return as_pairs(self._transformed(torch.fft.ifftn, spectrum), real=self.real)

    def _transformed(self, transform: Callable[..., Tensor], x: Tensor) -> Tensor:
        """The orthonormal transform of x, with both origins in the middle."""
        axes = self._axes
        transformed = transform(torch.fft.ifftshift(x, dim=axes), dim=axes, norm="ortho")
        centred: Tensor = torch.fft.fftshift(transformed, dim=axes)
        return centred

    def _sampled(self, samples: Tensor) -> Tensor:
        return torch.where(self.mask[..., None], samples, torch.zeros_like(samples))

    def _norm(self, width: float, seed: int) -> NormBracket:
        largest = math.sqrt(float(self._squares().max()))
        how = "largest (m(k) + m(-k)) / 2" if self.real else "unitary, sampled"
        return NormBracket(largest, largest, how=how)

    def _squares(self) -> Tensor:
        mask = self.mask.to(self.dtype)
        if not self.real:
            return mask
        # A^T A = Re(F^H m F). The conjugate of F^H m F is F^H m(-k) F, so that their mean has the
        # eigenvalues (m(k) + m(-k)) / 2: 1 where both are sampled, a half where one of them is.
        # Flipped, index j holds n - 1 - j; where n is even, -k is at n - j, with -n/2 its own
        # mirror image.
        shifts = tuple(1 - length % 2 for length in self.image_shape)
        return (mask + mask.flip(self._axes).roll(shifts, self._axes)) / 2

    def _weighed(self, x: Tensor, factors: Tensor) -> Tensor:
        return self._image(self._spectrum(x) * factors)


def _checked_mask(value: Values, image: Shape) -> Tensor:
    mask = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    try:
        sampled = np.broadcast_to(mask, image)
    except ValueError:
        rule = f"have the image's shape {shape_text(image)} or that of its last dimensions"
        raise invalid("mask", rule, value) from None
    known = sampled.dtype.kind in "biuf" and bool(np.isin(sampled, (0, 1)).all())
    rule = "hold 0 and 1 only and keep at least one sample"
    remedy = "weigh samples with a Diagonal behind it"
    _checks.require(known and bool(sampled.any()), "mask", rule, mask.ravel()[:6].tolist(), remedy)
    return torch.from_numpy(sampled != 0)


class Diffusion(Spectral):
    """u(0) -> u(t): the exact flow of advection and diffusion on a periodic line, or in a box.

    Parameters
    ----------
    points : int or sequence of int
        Equally spaced points on the line, or along each axis of a rectangle or a box.
    viscosity : float or sequence of float
        nu >= 0, in length^2 per time; several: one for each axis.
    speed : float or sequence of float, default 0
        c, in length per time, along each axis; a number for all of them.
    time : float
        t >= 0.
    length : float or sequence of float, default 1
        Period along each axis, > 0; a number for all of them.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    u_t = sum_a nu_a d^2 u / dx_a^2 - c_a du / dx_a; on a line u_t = nu u_xx - c u_x. Each wave
    exp(i k.x), k_a = 2 pi j_a / length_a, is multiplied by the product over the axes of
    exp(-(nu_a k_a^2 + i c_a k_a) t): exact in time, and in space for every function that the points
    resolve. The matrix is circulant along each axis, so its norm is the largest |multiplier|.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Diffusion
    >>> flow = Diffusion(4, viscosity=0.0, speed=1.0, time=0.25)
    >>> flow(torch.tensor([1.0, 2.0, 3.0, 2.0])).round(decimals=4).tolist()
    [2.0, 1.0, 2.0, 3.0]
    >>> Diffusion((8, 6), viscosity=0.01, speed=(0.0, 1.0), time=0.1)
    Diffusion((8, 6) -> (8, 6))
    """

    fixed = ("viscosity", "speed", "time", "length")

    def __init__(
        self,
        points: Lengths,
        *,
        viscosity: float | Sequence[float],
        speed: float | Sequence[float] = 0.0,
        time: float,
        length: float | Sequence[float] = 1.0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        lengths = checked_shape("points", points, axes=1)
        super().__init__(lengths, lengths, name="E", device=device, dtype=dtype)

        def of_axes(
            field: str, value: object, remedy: str, at_least: Limit = None, above: Limit = None
        ) -> tuple[float, ...]:
            values = tuple(value) if inputs.several(value) else (value,) * len(lengths)
            rule = f"be one number, or one for each of the {len(lengths)} axes of points"
            _checks.require(len(values) == len(lengths), field, rule, value)
            check = partial(_checks.real, field, remedy=remedy, at_least=at_least, above=above)
            return tuple(map(check, values))

        remedy = "a negative viscosity has no bounded solution"
        self.viscosity = of_axes("viscosity", viscosity, remedy, at_least=0)
        self.speed = of_axes("speed", speed, "give length per time, of either sign")
        self.time = _checks.real("time", time, "the flow cannot be run backwards", at_least=0)
        self.length = of_axes("length", length, "give the period", above=0)
        for n, nu, c, period in zip(lengths, self.viscosity, self.speed, self.length, strict=True):
            # The highest wave that n points resolve.
            k = 2 * math.pi / period * (n // 2)
            if not math.isfinite(nu * self.time * (k * k) + c * self.time * k):
                rule = f"be finite up to the last wave, k = {k:.3g}"
                got = f"viscosity {nu:g}, speed {c:g}, time {self.time:g}"
                both = "viscosity * time * k^2 and speed * time * k"
                raise invalid(both, rule, k, "choose other units", got=got)

    def _map(self, x: Tensor) -> Tensor:
        return filtered(x, self._once("_multiplier"), self.domain)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return filtered(y, torch.conj_physical(self._once("_multiplier")), self.domain)

    def _multiplier(self) -> Tensor:
        return torch.from_numpy(self._waves()).to(self.device, inputs.complex_of(self.dtype))

    def _waves(self) -> NDArray[np.complex128]:
        """exp(-(nu k^2 + i c k) t) of all axes multiplied, for the real transform of `points`."""
        product = np.ones((), dtype=np.complex128)
        last = len(self.domain) - 1
        axes = zip(self.domain, self.viscosity, self.speed, self.length, strict=True)
        for axis, (n, viscosity, speed, length) in enumerate(axes):
            # The real transform has half of the frequencies along its last axis.
            j = np.arange(n // 2 + 1) if axis == last else np.fft.fftfreq(n, 1 / n)
            k = 2 * math.pi / length * j
            waves = np.exp(-(viscosity * self.time * k**2 + 1j * (speed * self.time * k)))
            if n % 2 == 0:
                # The points see of the last wave only cos(k x). Moved by c t it is cos(k x)
                # cos(k c t) plus sin(k x) sin(k c t), and that second part is zero at every point.
                waves[n // 2] = waves[n // 2].real
            product = product[..., None] * waves
        return product

    def _norm(self, width: float, seed: int) -> NormBracket:
        # A circulant matrix is normal: its norm is its largest |eigenvalue|.
        largest = float(np.abs(self._waves()).max())
        return NormBracket(largest, largest, how="largest |multiplier|")

    def _squares(self) -> Tensor:
        multiplier: Tensor = self._once("_multiplier")
        return multiplier.abs().square()

    def _weighed(self, x: Tensor, factors: Tensor) -> Tensor:
        return filtered(x, factors, self.domain)


def capped(bracket: NormBracket, most: float, how: str) -> NormBracket:
    """A bracket with its upper end lowered to a certain bound."""
    # A certain bound may be below an iterated upper end.
    limit = most * (1 + _ROUNDING)
    if bracket.upper <= limit:
        return bracket
    below = bracket.how.split(",")[0]
    return NormBracket(min(bracket.lower, most), limit, how=f"{below} from below; {how} from above")


def filtered(x: Tensor, multiplier: Tensor, lengths: Shape) -> Tensor:
    """Circular convolution over the last axes of x, zero-padded to these lengths."""
    axes = tuple(range(-len(lengths), 0))
    spectrum = torch.fft.rfftn(x, s=lengths, dim=axes) * multiplier
    convolved: Tensor = torch.fft.irfftn(spectrum, s=lengths, dim=axes)
    return convolved


def own_tensor(field: str, value: Values, *, trained: bool = True, dtype: Dtype = None) -> Tensor:
    """A copy of an array or tensor in float32 or float64, without NaN and infinities."""
    if isinstance(value, Tensor):
        if value.requires_grad and not trained:
            why = "not require gradients, which would be lost: it is copied and not trained"
            raise KoriskError(f"{field} must {why}; give {field}.detach()")
        values = value.detach().clone()
    else:
        try:
            values = torch.from_numpy(np.array(value, order="C"))
        except (TypeError, ValueError):
            raise invalid(field, "be a torch tensor or an array of numbers", value) from None
    remedy = "hold complex numbers as a last axis of 2"
    _checks.require(not values.is_complex(), field, "be real", value, remedy, got=str(values.dtype))
    if not isinstance(value, Tensor) or not values.is_floating_point():
        values = values.to(dtype or torch.get_default_dtype())
    # One NaN would spread to every product.
    wrong = values.numel() - int(torch.isfinite(values).sum())
    got = f"{values.numel():,} entries, of which {wrong:,} are NaN or infinite"
    rule, remedy = "be one or more finite numbers", "clean them with torch.nan_to_num"
    _checks.require(not wrong and values.numel() > 0, field, rule, value, remedy, got=got)
    return values.contiguous()
