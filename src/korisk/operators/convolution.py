"""Convolution with a known kernel, such as the blur of a camera, and Gaussian kernels."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import invalid, shown
from korisk.operators.basic import Spectral, capped, filtered, own_tensor
from korisk.operators.inputs import Shape, checked_shape, complex_of, several, shape_text
from korisk.operators.types import Device, Dtype, Lengths, Values
from korisk.theory.bracket import NormBracket

Boundary = Literal["zero", "periodic", "reflect"]
BOUNDARIES: tuple[Boundary, ...] = ("zero", "periodic", "reflect")

_LARGEST_KERNEL = 2**26  # entries: half a GiB


class Convolution(Spectral):
    """x -> h * x, of the same size as x: a blur, or any other filter, along one or more axes.

    Channels and other leading axes are batches.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of x without its batch.
    kernel : Tensor or array_like
        h, with as many axes as x; its origin is at index n // 2 of each. Copied, not
        trained.
    boundary : {"zero", "periodic", "reflect"}, default "zero"
        What lies beyond the edges of x: zeros, x again, or its mirror image without the edge itself
        (c b | a b c | b a), for which the kernel must be shorter than twice the image.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    Continuous: (h * x)(r) = integral h(s) x(r - s) ds. Discrete: (h * x)(r) = sum_s h(s) x(r - s)
    with x extended beyond its edges. That is C H E: E extends x, H convolves on a torus by Fourier
    transforms, C crops. The adjoint is E^T H^T C^T, a correlation with h. The norm is exact on a
    torus ("periodic"), max |h^(k)|; certified on both sides for kernels >= 0; and for others from
    Lanczos, with "zero" never above max |h^(k)|.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Convolution
    >>> blurred = Convolution(4, [1.0, 2.0, 3.0])(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    >>> [round(value) for value in blurred.tolist()]
    [1, 2, 3, 0]
    >>> Convolution((8, 8), [[1.0, 1.0]], boundary="periodic").norm().upper
    2.0
    """

    fixed = ("boundary",)
    kernel: Tensor

    def __init__(
        self,
        shape: Lengths,
        kernel: Values,
        *,
        boundary: Boundary = "zero",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        lengths = checked_shape("shape", shape)
        super().__init__(lengths, lengths, name="H", device=device, dtype=dtype)
        _checks.one_of("boundary", boundary, BOUNDARIES)
        self.boundary = boundary
        values = own_tensor("kernel", kernel, trained=False).to(self.device, self.dtype)
        if values.ndim != len(lengths) or not lengths:
            rule = f"have an axis for each axis of shape {shape_text(lengths)}, at least one"
            remedy = "give an axis of length 1 where nothing is convolved"
            raise invalid("kernel", rule, kernel, remedy, got=shape_text(values.shape))
        self.register_buffer("kernel", values)
        # How far the kernel reaches back from a pixel, and how far ahead.
        ahead = tuple(length // 2 for length in values.shape)
        back = tuple(length - 1 - reach for length, reach in zip(values.shape, ahead, strict=True))
        # (length of the axis, reach back, reach ahead) of each axis.
        reaches = list(zip(lengths, back, ahead, strict=True))
        self._margins: list[tuple[int, int]] = [(0, 0)] * len(lengths)
        torus = list(lengths)
        if boundary == "reflect":
            self._margins = list(zip(back, ahead, strict=True))
            torus = [n + before + after for n, before, after in reaches]
            if any(max(margin) >= n for margin, n in zip(self._margins, lengths, strict=True)):
                rule = "reach less than the image's length beyond an edge to be mirrored"
                got = f"{shape_text(values.shape)} for {shape_text(lengths)}"
                raise invalid("kernel", rule, kernel, "use boundary='zero'", got=got)
        if boundary == "zero":  # so long that what wraps around meets zeros
            torus = [n + max(before, after) for n, before, after in reaches]
        if boundary != "periodic":
            from scipy.fft import next_fast_len

            torus = [next_fast_len(n, real=True) for n in torus]
        self._torus: Shape = tuple(torus)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether every value of the kernel is >= 0."""
        return bool((self.kernel >= 0).all())

    def _multiplier(self) -> Tensor:
        """The transform of the kernel on the torus, with its origin at index 0."""
        wide = torch.zeros(self._torus, dtype=torch.float64, device=self.device)
        # The kernel's origin is its middle: its first half wraps to the end of the torus.
        places = [
            (torch.arange(length, device=self.device) - length // 2) % n
            for length, n in zip(self.kernel.shape, self._torus, strict=True)
        ]
        index = torch.meshgrid(*places, indexing="ij")
        wide.index_put_(index, self.kernel.double(), accumulate=True)  # longer than a torus: wraps
        transform: Tensor = torch.fft.rfftn(wide)
        return transform.to(complex_of(self.dtype))

    def _map(self, x: Tensor) -> Tensor:
        for axis, (before, after) in enumerate(self._margins, -len(self._margins)):
            if before or after:
                n = x.shape[axis]
                # The edge pixel itself is not repeated.
                mirrored = x.narrow(axis, 1, before), x.narrow(axis, n - 1 - after, after)
                x = torch.cat([mirrored[0].flip(axis), x, mirrored[1].flip(axis)], axis)
        wide = filtered(x, self._once("_multiplier"), self._torus)
        for axis, (before, _) in enumerate(self._margins, -len(self._margins)):
            wide = wide.narrow(axis, before, self.domain[axis])
        return wide

    def _map_adjoint(self, y: Tensor) -> Tensor:
        # torch.nn.functional.pad counts axes from the last one.
        margins = [side for before, _ in reversed(self._margins) for side in (before, 0)]
        placed = torch.nn.functional.pad(y, margins)
        x = filtered(placed, torch.conj_physical(self._once("_multiplier")), self._torus)
        for axis, (before, after) in enumerate(self._margins, -len(self._margins)):
            n = self.domain[axis]
            inner = x.narrow(axis, before, n)
            if before or after:
                first = x.narrow(axis, 0, before).flip(axis)
                last = x.narrow(axis, before + n, after).flip(axis)
                inner = inner + _placed(first, axis, 1, n) + _placed(last, axis, n - 1 - after, n)
            x = inner
        return x

    def _norm(self, width: float, seed: int) -> NormBracket:
        largest = float(self._once("_multiplier").abs().max())
        how = "largest |transform of the kernel|"
        if self.boundary == "periodic":
            return NormBracket(largest, largest, how=how)
        bracket = super()._norm(width, seed)
        return bracket if self.boundary == "reflect" else capped(bracket, largest, how)

    def _squares(self) -> Tensor | None:
        multiplier: Tensor = self._once("_multiplier")
        return multiplier.abs().square() if self.boundary == "periodic" else None

    def _weighed(self, x: Tensor, factors: Tensor) -> Tensor:
        return filtered(x, factors, self.domain)


def _placed(values: Tensor, axis: int, first: int, length: int) -> Tensor:
    """Pad an axis with zeros to a length, so that the values start at index `first`."""
    after = length - first - values.shape[axis]
    return torch.nn.functional.pad(values, [0, 0] * (-axis - 1) + [first, after])


def gaussian_kernel(
    deviation: float | Sequence[float], *, axes: int = 2, reach: float = 4.0
) -> Tensor:
    """Kernel of a Gaussian blur, of odd lengths; its entries add up to 1.

    Parameters
    ----------
    deviation : float or sequence of float
        Standard deviation in pixels, > 0; several: one for each axis.
    axes : int, default 2
        How many axes it has, where `deviation` is one number.
    reach : float, default 4
        Where it is cut off, in standard deviations.

    Returns
    -------
    Tensor
        In float64.

    Examples
    --------
    >>> from korisk.operators import gaussian_kernel
    >>> kernel = gaussian_kernel(0.5)
    >>> kernel.shape, round(float(kernel.sum()), 12)
    (torch.Size([5, 5]), 1.0)
    """
    count = _checks.count("axes", axes, at_least=1, at_most=8, remedy="count those of the image")
    values = list(deviation) if several(deviation) else [deviation] * count
    _checks.require(bool(values), "deviation", "be one number or more", deviation)
    _checks.real("reach", reach, above=0, at_most=100, remedy="4 leaves out 1 part in 16,000")
    remedy, most = "give a standard deviation in pixels", _LARGEST_KERNEL
    widths = [
        _checks.real("deviation", value, above=0, at_most=most, remedy=remedy) for value in values
    ]
    reaches = [math.ceil(reach * width) for width in widths]
    if (entries := math.prod(2 * steps + 1 for steps in reaches)) > most:
        got, rule = f"{entries:.3g} for deviation={shown(deviation)}", f"at most {most:,} entries"
        remedy = "lower deviation, axes or reach"
        raise invalid("a Gaussian kernel", f"have {rule}", deviation, remedy, got=got)
    kernel = torch.ones((), dtype=torch.float64)
    for width, steps in zip(widths, reaches, strict=True):
        distance = torch.arange(-steps, steps + 1, dtype=torch.float64)
        line = torch.exp(-0.5 * (distance / width) ** 2)
        kernel = kernel[..., None] * (line / line.sum())
    return kernel
