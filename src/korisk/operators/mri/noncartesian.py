"""Non-Cartesian MRI: Nufft, the trajectories `radial` and `spiral`, and density compensation."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskWarning, needed_by
from korisk.operators.basic import own_tensor
from korisk.operators.inputs import as_complex, as_pairs, checked_shape, complex_of, shape_text
from korisk.operators.linear import LinearOperator
from korisk.operators.mri.sense import Sense, coil_images, combined, whole_norm
from korisk.operators.types import Device, Dtype, Lengths, Values
from korisk.theory.bracket import NormBracket

FloatArray = NDArray[np.float64]

_POINTS = 6  # neighbours on the grid along each axis: an error of some 1e-5, below most noise
_OFFSETS = 128  # places between two points of the grid at which the error is measured
_BETWEEN = 1.01  # the error between these places: it is smooth, and they are dense
_GOLDEN = math.pi * (math.sqrt(5) - 1) / 2  # angle between spokes in golden order
_PIPE_STEPS = 20  # of density compensation; weights change by less than 1% from then on
_RADIANS = 3.2  # a trajectory that reaches no farther is in radians, or in cycles per pixel
_EDGE = 1e-9  # relative; how far rounding may move a sample beyond the edge of k-space
_FINE = 4096  # points of a spiral's curve from which equal steps along it are interpolated


class Nufft(LinearOperator):
    """x -> F_k s_c x: the Fourier transform of an image at any places k of k-space.

    Complex numbers are a last axis of 2 (real, imaginary): (*shape, 2) -> (*samples, 2), where the
    trajectory is (*samples, axes), such as (spokes, readout, 2). With coils the range is
    (coils, *samples, 2); with `real=True` the domain is (*shape).

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the image; the transform is over all its axes.
    trajectory : array_like, shape (*samples, axes)
        k of each sample in cycles per field of view, in the order of the image's axes, between
        -n / 2 and n / 2: `radial(shape)`, `spiral(shape)`, or your own. Integers are the places of
        `Fourier`.
    sensitivities : Tensor or array_like, optional
        Of coils, as for `Sense`; one with uniform sensitivity where None.
    real : bool, default False
        Whether images are real, without the last axis of 2.
    points : int, default 6
        Neighbours on the grid that each sample is interpolated from along each axis, 2 to 12. Two
        more lower `tolerance` 40 to 150 times.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Raises
    ------
    KoriskError
        If the trajectory has another number of axes or leaves k-space.
    MissingExtraError
        If torchkbnufft is not installed.

    Warns
    -----
    KoriskWarning
        If the trajectory looks like radians or cycles per pixel.

    Notes
    -----
    Continuous: y_c(k) = integral s_c(r) x(r) exp(-2 pi i k.r) dr. Discrete:
    y_c(k) = N^(-1/2) sum_r s_c(r) x(r) exp(-2 pi i k.r / n), with N pixels and the origin at index
    n // 2, so that it is `Fourier` where k are integers. The sum is computed on a grid of twice the
    size: weights d, an FFT, and interpolation G with the Kaiser-Bessel window of torchkbnufft,
    A = G F d s. The adjoint has the same weights, so it is exact. Each factor exp(...) is off by at
    most `tolerance`, so that ||A|| differs from that of the sum by at most
    tolerance sqrt(samples max_r sum_c |s_c|^2): the bracket of `norm()` is that much wider.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Nufft, radial
    >>> A = Nufft((16, 16), radial(16), real=True)
    >>> A(torch.ones(16, 16)).shape, A.tolerance < 1e-4
    (torch.Size([26, 32, 2]), True)
    """

    def __init__(
        self,
        shape: Lengths,
        trajectory: Values,
        *,
        sensitivities: Values | None = None,
        real: bool = False,
        points: int = _POINTS,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        image = checked_shape("shape", shape, axes=1)
        places = checked_trajectory(trajectory, image)
        remedy = "6 gives errors of 1e-5, 8 of 1e-7"
        self.points = _checks.count("points", points, at_least=2, at_most=12, remedy=remedy)
        grid = None  # the same coils on a Cartesian grid, whose maps are used
        if sensitivities is not None:
            grid = Sense(image, sensitivities, real=real, device=device, dtype=dtype)
        samples = places.shape[:-1]
        range = (*(() if grid is None else grid.range[:1]), *samples, 2)
        domain = image if real else (*image, 2)
        super().__init__(domain, range, name="N", device=device, dtype=dtype)
        self.image_shape, self.trajectory, self.real = image, places, bool(real)
        self.samples, self.cartesian = samples, grid
        _library()  # a missing package is reported here, and not at the first use

    @property
    def coils(self) -> int:
        """How many coils there are."""
        return 1 if self.cartesian is None else self.cartesian.coils

    @property
    def time_axis(self) -> int:  # type: ignore[override]
        """The axis of shots, or of samples where the trajectory has no other."""
        return -min(3, len(self.samples) + 1)

    @property
    def tolerance(self) -> float:
        """The largest error of a factor exp(-2 pi i k.r / n) in float64, at any k and r."""
        errors = [_axis(length, self.points)[1] for length in self.image_shape]
        return math.prod(1 + error for error in errors) - 1

    def _taps(self) -> list[tuple[Tensor, Tensor]]:
        """Groups of neighbours of each sample on the flat grid, and weights, (samples, points)."""
        # Cycles per field of view to radians per pixel.
        omega = 2 * math.pi * self.trajectory / np.array(self.image_shape)
        places, weights = _interpolation(omega, self.image_shape, self.points)
        scaled = weights / math.sqrt(math.prod(self.image_shape))
        scaled = scaled.to(complex_of(self.dtype))
        # Groups are gathered one after the other: all at once would take 36 times the samples.
        parts = [torch.split(table.to(self.device), self.points, 1) for table in (places, scaled)]
        return [(near.contiguous(), share.contiguous()) for near, share in zip(*parts, strict=True)]

    def _scaling(self) -> Tensor:
        """d, of the image's shape."""
        scaling = torch.ones((), dtype=torch.float64)
        for length in self.image_shape:
            scaling = scaling[..., None] * _axis(length, self.points)[0]
        return scaling.to(self.device, self.dtype)

    @property
    def _grid(self) -> tuple[int, ...]:
        return tuple(2 * length for length in self.image_shape)

    def _map(self, x: Tensor) -> Tensor:
        axes = tuple(range(-len(self.image_shape), 0))
        grid = self.cartesian
        pairs = x if grid is None else coil_images(grid.sensitivities, x, self.real)
        image = x if grid is None and self.real else as_complex(pairs)
        # Scaled, transformed on a grid of twice the lengths, then interpolated there.
        spectrum = torch.fft.fftn(image * self._once("_scaling"), s=self._grid, dim=axes)
        flat, samples = spectrum.flatten(-len(axes)), []
        for places, weights in self._once("_taps"):
            near = flat.index_select(-1, places.flatten())
            samples.append((near.reshape(*flat.shape[:-1], *places.shape) * weights).sum(-1))
        return torch.view_as_real(reduce(add, samples).reshape(*flat.shape[:-1], *self.samples))

    def _map_adjoint(self, y: Tensor) -> Tensor:
        axes = tuple(range(-len(self.image_shape), 0))
        samples = as_complex(y).flatten(-len(self.samples))
        flat = samples.new_zeros(*samples.shape[:-1], math.prod(self._grid))
        for places, weights in self._once("_taps"):
            spread = (samples[..., None] * torch.conj_physical(weights)).flatten(-2)
            flat = flat.index_add(-1, places.flatten(), spread)
        grid = flat.reshape(*flat.shape[:-1], *self._grid)
        image = torch.fft.ifftn(grid, dim=axes, norm="forward")
        for axis, length in zip(axes, self.image_shape, strict=True):
            image = image.narrow(axis, 0, length)
        image = image * self._once("_scaling")
        if self.cartesian is None:
            return as_pairs(image, real=self.real)
        return combined(self.cartesian.sensitivities, torch.view_as_real(image), self.real)

    def _norm(self, width: float, seed: int) -> NormBracket:
        bracket = super()._norm(width, seed)
        # The interpolated matrix differs from the exact one by the tolerance.
        most = 1.0 if self.cartesian is None else whole_norm(self.cartesian.sensitivities).upper
        slack = self.tolerance * most * math.sqrt(math.prod(self.samples))
        how = f"{bracket.how}; NUFFT {self.tolerance:.0e}"
        return NormBracket(max(bracket.lower - slack, 0.0), bracket.upper + slack, how=how)

    def density(self) -> Tensor:
        """Density compensation: weights D of the samples such that A^T D A is near the identity.

        Returns
        -------
        Tensor
            Of the range's shape: `A.T @ Diagonal(A.density())` reconstructs by gridding.

        Notes
        -----
        Pipe and Menon's iteration w <- w / |G G^H w|, with the interpolation G, from w = 1. Then
        one factor for all, so that <x, A^T D A x> = <x, x> of a smooth spot in the middle, whose
        transform lies where every trajectory samples: on a Cartesian grid the weights are 1.

        Examples
        --------
        >>> import torch
        >>> from korisk.operators import Diagonal, Nufft, radial
        >>> A = Nufft((16, 16), radial(16), real=True, dtype=torch.float64)
        >>> x = torch.zeros(16, 16, dtype=torch.float64)
        >>> x[6:10, 5:11] = 1
        >>> gridding = A.T @ Diagonal(A.density())
        >>> float((gridding(A(x)) - x).norm() / x.norm()) < 0.3
        True
        """
        alone = Nufft(self.image_shape, self.trajectory, real=True, points=self.points)
        alone = alone.to(self.device, torch.float64)
        places, weights = (torch.cat(parts, 1) for parts in zip(*alone._taps(), strict=True))
        near, flat = weights.abs(), places.flatten()
        # Pipe and Menon: weights are divided by their own spread over the grid, until it is flat.
        density = near.new_ones(len(near))
        for _ in range(_PIPE_STEPS):
            grid = near.new_zeros(math.prod(self._grid))
            grid = grid.index_add(0, flat, (density[:, None] * near).flatten())
            density = density / (grid[flat].reshape(near.shape) * near).sum(-1)
        weighted = density.reshape(self.samples)[..., None]
        spot = near.new_ones(())
        for length in self.image_shape:
            line = (torch.arange(length).to(near) - length // 2) / length
            spot = spot[..., None] * torch.exp(-32 * line.square())  # deviation of an eighth
        # Scaled so that a smooth spot keeps its energy.
        gain = (weighted * alone(spot).square()).sum() / spot.square().sum()
        shared: Tensor = (weighted / gain).to(self.dtype).expand(self.range)
        return shared.clone()


def radial(
    shape: Lengths, *, spokes: int | None = None, readout: int | None = None, golden: bool = False
) -> FloatArray:
    """Straight lines through the centre of k-space, in the plane.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns of the image; one number for a square.
    spokes : int, default: pi / 2 times the longer side
        How many lines; by default neighbours are one cycle apart at the edge of k-space.
    readout : int, default: twice the longer side
        Samples of a line, which the scanner reads at twice the rate the image needs.
    golden : bool, default False
        Whether each spoke is turned by the golden angle, 111.2 degrees, from the one before, so
        that any run of spokes covers k-space; otherwise they are evenly spaced over half a turn.

    Returns
    -------
    ndarray, shape (spokes, readout, 2)
        Cycles per field of view along rows and columns.

    Examples
    --------
    >>> from korisk.operators import radial
    >>> radial(32, spokes=8).shape, radial(32).shape
    ((8, 64, 2), (51, 64, 2))
    """
    rows, columns = _plane(shape)
    longer = max(rows, columns)
    lines = _counted("spokes", math.ceil(math.pi / 2 * longer) if spokes is None else spokes, 1)
    length = _counted("readout", 2 * longer if readout is None else readout, 2)
    # The golden angle spreads any number of spokes nearly evenly.
    angles = np.arange(lines) * (_GOLDEN if golden else math.pi / lines)
    along = (np.arange(length) - length // 2) / length
    # In cycles per field of view, which may differ along rows and columns.
    directions = np.stack([rows * np.sin(angles), columns * np.cos(angles)], -1)
    return np.asarray(along[:, None] * directions[:, None, :], dtype=np.float64)


def spiral(shape: Lengths, *, shots: int | None = None, readout: int | None = None) -> FloatArray:
    """Interleaved Archimedean spirals from the centre of k-space outwards, in the plane.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns of the image; one number for a square.
    shots : int, default: a quarter of the longer side
        How many arms, evenly turned. Each has as many turns as keep the arms together one cycle
        apart, so that fewer shots are longer ones.
    readout : int, default: one sample a cycle along the arm
        Samples of an arm, equally spaced along it.

    Returns
    -------
    ndarray, shape (shots, readout, 2)
        Cycles per field of view along rows and columns.

    Examples
    --------
    >>> from korisk.operators import spiral
    >>> spiral(32).shape, spiral(32, shots=4, readout=128).shape
    ((8, 104, 2), (4, 128, 2))
    """
    rows, columns = _plane(shape)
    longer = max(rows, columns)
    arms = _counted("shots", max(1, longer // 4) if shots is None else shots, 1)
    turns = longer / 2 / arms
    radius = np.linspace(0, 1, _FINE)
    # d(arc)^2 = d(radius)^2 + (radius d(angle))^2, in cycles
    speed = longer / 2 * np.hypot(1, 2 * math.pi * turns * radius)
    arc = np.concatenate([[0], np.cumsum((speed[1:] + speed[:-1]) / 2)]) / (_FINE - 1)
    length = _counted("readout", math.ceil(arc[-1]) + 1 if readout is None else readout, 2)
    radii = np.interp(np.linspace(0, arc[-1], length), arc, radius)
    angles = 2 * math.pi * turns * radii + 2 * math.pi * np.arange(arms)[:, None] / arms
    ends = rows / 2 * radii * np.sin(angles), columns / 2 * radii * np.cos(angles)
    return np.asarray(np.stack(ends, -1), dtype=np.float64)


def checked_trajectory(value: Values, image: tuple[int, ...]) -> FloatArray:
    """A trajectory within the k-space of an image, as an array that cannot be written to."""
    copied = own_tensor("trajectory", value, trained=False, dtype=torch.float64)
    places = copied.double().cpu().numpy()
    rule = f"have shape (*samples, {len(image)}), an entry for each axis of {shape_text(image)}"
    fits = places.ndim >= 2 and places.shape[-1] == len(image) and places.size > 0
    _checks.require(fits, "trajectory", rule, value, "transpose it", got=shape_text(places.shape))
    edges = np.array(image) / 2
    reach = np.abs(places).max(axis=tuple(range(places.ndim - 1)))
    within = bool(np.all(reach <= edges * (1 + _EDGE)))
    farthest = ", ".join(f"{edge:g}" for edge in edges)
    remedy = "give cycles per field of view: radians per pixel times n / (2 pi)"
    rule = f"stay within {farthest} cycles per field of view of the centre"
    _checks.require(within, "trajectory", rule, value, remedy, got=f"{reach.max():.4g}")
    if reach.max() <= _RADIANS and min(edges) > 2 * _RADIANS:
        text = f"the trajectory reaches {reach.max():.3g} of {farthest} cycles per field of view; "
        text += "if it is in radians per pixel, multiply it by n / (2 pi)"
        warnings.warn(text, KoriskWarning, stacklevel=3)
    places.flags.writeable = False
    return places


def _counted(name: str, value: int, least: int) -> int:
    remedy = "count lines through the centre or arms, and samples of each"
    return _checks.count(name, value, at_least=least, at_most=10**7, remedy=remedy)


def _plane(shape: Lengths) -> tuple[int, ...]:
    lengths = checked_shape("shape", shape)
    remedy = "build trajectories of volumes yourself: an array (*samples, 3)"
    got = shape_text(lengths)
    _checks.require(len(lengths) <= 2, "shape", "be (rows, columns)", shape, remedy, got=got)
    return lengths if len(lengths) == 2 else lengths * 2


def _library() -> Any:
    """Import torchkbnufft, which warns of its own use of torch.jit."""
    with needed_by("Nufft", "torchkbnufft", "'korisk[mri]'"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchkbnufft
    return torchkbnufft


def _interpolation(omega: FloatArray, image: tuple[int, ...], points: int) -> tuple[Tensor, Tensor]:
    """G: columns and complex weights of each row, (samples, points^axes), in float64."""
    flat = torch.from_numpy(np.ascontiguousarray(omega.reshape(-1, len(image)).T))
    with warnings.catch_warnings():  # PyTorch tells that it does not check sparse matrices
        warnings.simplefilter("ignore")
        real, imaginary = _library().calc_tensor_spmatrix(flat, image, numpoints=points)
    shape = -1, points ** len(image)  # its entries are listed row by row
    weights = torch.complex(real._values(), imaginary._values())
    return real._indices()[1].reshape(shape), weights.reshape(shape)


@lru_cache(maxsize=64)
def _axis(length: int, points: int) -> tuple[Tensor, float]:
    """d along an axis, and the largest error of a factor exp(-i w r) with it.

    Both depend on r and on where w lies between two points of the grid, smoothly in between: an
    even number of points changes neighbours at the points, an odd one half-way; there, the
    outermost neighbour is left out. d is that of least squares over these places, which needs no
    formula of the window.
    """
    between = (np.arange(_OFFSETS + 1) / _OFFSETS).clip(_EDGE, 1 - _EDGE)
    omega = (np.array([0, *between]) - points % 2 / 2)[:, None] * math.pi / length
    places, weights = _interpolation(omega, (length,), points)
    pixels = torch.arange(length, dtype=torch.float64)
    waves = torch.exp(-1j * (math.pi / length * places.double()[..., None] * pixels))
    unscaled = (weights[..., None] * waves).sum(1)
    exact = torch.exp(-1j * (torch.from_numpy(omega) * (pixels - length // 2)))
    # Least squares over the offsets, pixel by pixel.
    scaling = (exact * unscaled.conj()).real.sum(0) / unscaled.abs().square().sum(0)
    return scaling, _BETWEEN * float((unscaled * scaling - exact).abs().max())
