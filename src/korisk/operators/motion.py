"""Motion during a scan: Warp, an image in several poses, and Moving, an operator that sees them."""

import math
from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import invalid
from korisk.operators.basic import own_tensor
from korisk.operators.inputs import Place, checked_shape, shape_text
from korisk.operators.linear import Combined, LinearOperator, require_operator
from korisk.operators.types import Device, Dtype, Lengths, Values

_RIGID = {1: 1, 3: 2, 6: 3}  # numbers of a rigid pose, and the axes of an image that it moves
# Squared angles below which series take the place of quotients by them, and the terms of these: the
# next one, and its first derivatives, are below the rounding of float64.
_NEAR, _TERMS = 0.01, 7


class Warp(LinearOperator):
    """x -> x in each of several poses, (*shape) -> (poses, *shape); zeros come from outside.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the image; axes beyond those that the poses move, such as the last axis of 2 of
        complex images, are carried along.
    poses : Tensor or array_like
        Rigid: (poses, 3) in the plane, the angle in radians from columns towards rows and the
        shifts along rows and columns in pixels; (poses, 6) for volumes, three angles and three
        shifts; (poses, 1) on a line. Affine: (poses, axes, axes + 1), a matrix and a shift.
    trainable : bool, default False
        Whether the poses are an `nn.Parameter`, with derivatives; `norm()` is that of the present
        ones.
    device, dtype : optional
        PyTorch's defaults where None; the precision is torch.float32 or torch.float64.

    Notes
    -----
    Continuous: a rigid pose (R, v) moves the object, (W x)(r) = x(R^T (r - v)) with r from the
    centre of the image; an affine one (L, v) says where a pixel takes its value from,
    (W x)(r) = x(L r + v). Discrete: linear interpolation between the nearest pixels, with weights
    >= 0, so that the bracket of the norm is certified. The adjoint spreads with the same weights.
    Weights are piecewise polynomials of the poses, so derivatives in these are exact wherever no
    sample meets a pixel's centre.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Warp
    >>> image = torch.zeros(3, 3)
    >>> image[1, 1] = 1.0
    >>> Warp((3, 3), [[0, 0, 0.25]])(image)[0, 1].tolist()
    [0.0, 0.75, 0.25]
    """

    nonnegative = True
    poses: Tensor

    def __init__(
        self,
        shape: Lengths,
        poses: Values,
        *,
        trainable: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        lengths = checked_shape("shape", shape, axes=1)
        values = own_tensor("poses", poses, dtype=torch.float64)
        rigid = values.ndim == 2 and values.shape[1] in _RIGID
        axes = _RIGID[values.shape[1]] if rigid else values.shape[-1] - 1
        affine = values.ndim == 3 and values.shape[1] == axes >= 1
        if not (rigid or affine) or axes > len(lengths):
            rule = f"be (poses, 3), (poses, 6) or (poses, axes, axes + 1) for {shape_text(lengths)}"
            remedy = "a rigid pose in the plane is (angle, rows, columns)"
            raise invalid("poses", rule, poses, remedy, got=shape_text(values.shape))
        super().__init__(lengths, (len(values), *lengths), name="M", device=device, dtype=dtype)
        self.axes, self.rigid = axes, rigid
        values = values.to(self.device, self.dtype)
        if trainable:
            self.poses = nn.Parameter(values)
        else:
            self.register_buffer("poses", values)

    def _sources(self) -> tuple[Tensor, Tensor]:
        """L and v of each pose, which say where a pixel's value comes from."""
        if not self.rigid:
            return self.poses[..., :-1], self.poses[..., -1]
        axes, angles = self.axes, self.poses[:, : -self.axes]
        # Rodrigues' formula for exp of a generator G, exact in two and three dimensions and, unlike
        # torch.linalg.matrix_exp, without numbers that come back from a card: CUDA graphs hold it.
        sine, cosine = _rodrigues(angles.square().sum(1)[:, None, None])
        # Generators of rotations: antisymmetric, an angle for each pair of axes.
        turned = self.poses.new_zeros(self.range[0], axes, axes)
        first, second = torch.triu_indices(axes, axes, 1, device=self.poses.device).unbind()
        every = torch.arange(self.range[0], device=angles.device)[:, None]
        turned = turned.index_put((every, first, second), angles)
        generator = turned.mT - turned  # of R^T
        unit = torch.eye(axes, device=angles.device, dtype=angles.dtype)
        back = unit + sine * generator + cosine * (generator @ generator)
        return back, -(back @ self.poses[:, -axes:, None])[..., 0]

    def _neighbours(self) -> tuple[Tensor, Tensor]:
        """Flat indices and weights of the pixels around each source, (poses, pixels, 2^axes)."""
        matrix, shift = self._sources()
        lengths = self.domain[: self.axes]
        pixels_along = partial(torch.arange, device=shift.device, dtype=shift.dtype)
        # Coordinates from the image's centre, in pixels.
        lines = [pixels_along(length) - (length - 1) / 2 for length in lengths]
        pixels = torch.stack(torch.meshgrid(*lines, indexing="ij")).flatten(1)
        moved = matrix @ pixels + shift[..., None]
        places = torch.zeros(*moved[:, 0].shape, 1, dtype=torch.long, device=shift.device)
        weights = torch.ones_like(places, dtype=shift.dtype)
        for axis, length in enumerate(lengths):
            source = moved[:, axis] + (length - 1) / 2
            low = source.detach().floor()
            fraction, both = source - low, torch.stack([low, low + 1], -1)
            # Linear interpolation along this axis; neighbours outside the image weigh nothing.
            near = torch.stack([1 - fraction, fraction], -1) * ((both >= 0) & (both < length))
            index = both.clamp(0, length - 1).long()
            # Flat index, axis by axis: twice as many neighbours with each.
            places = (places[..., None] * length + index[..., None, :]).flatten(-2)
            weights = (weights[..., None] * near[..., None, :]).flatten(-2)
        return places, weights

    def _taps(self) -> tuple[Tensor, Tensor]:
        trained = self.poses.requires_grad  # what is kept has no graph
        taps: tuple[Tensor, Tensor] = self._neighbours() if trained else self._once("_neighbours")
        return taps

    def _map(self, x: Tensor) -> Tensor:
        places, weights = self._taps()
        lead = x.shape[: x.ndim - len(self.domain)]
        # (..., poses, pixels, neighbours, numbers of a pixel)
        near = x.reshape(*lead, *self._flat).index_select(-2, places.flatten())
        near = near.reshape(*lead, *places.shape, -1) * weights[..., None]
        return near.sum(-2).reshape(*lead, *self.range)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        places, weights = self._taps()
        lead = y.shape[: y.ndim - len(self.range)]
        pixels = y.reshape(*lead, self.range[0], *self._flat)
        spread = (pixels.unsqueeze(-2) * weights[..., None]).flatten(-4, -2)
        image = spread.new_zeros(*lead, *self._flat).index_add(-2, places.flatten(), spread)
        return image.reshape(*lead, *self.domain)

    @property
    def _flat(self) -> tuple[int, int]:
        """Pixels that move, and numbers that each carries along."""
        return math.prod(self.domain[: self.axes]), math.prod(self.domain[self.axes :])


def _rodrigues(square: Tensor) -> tuple[Tensor, Tensor]:
    """sin t / t and (1 - cos t) / t^2 of t^2, with derivatives at zero as well."""
    near = square < _NEAR
    angle = square.masked_fill(near, 1.0).sqrt()  # where `near`, it is not used
    sine, cosine = torch.zeros_like(square), torch.zeros_like(square)
    for term in reversed(range(_TERMS)):
        sine = 1 / math.factorial(2 * term + 1) - square * sine
        cosine = 1 / math.factorial(2 * term + 2) - square * cosine
    far = angle.sin() / angle, (2 * (angle / 2).sin() / angle).square() / 2
    return torch.where(near, sine, far[0]), torch.where(near, cosine, far[1])


class Moving(Combined):
    """A scan of an object that moves: each view, line or shot sees the image in its pose.

    Parameters
    ----------
    operator : LinearOperator
        The scan of an object at rest, from images to measurements.
    poses : Tensor or array_like
        Those of `Warp`, one for each state of motion.
    states : sequence of int, optional
        The number of the pose of each view, line or shot. Where None, equal runs one after the
        other; lines of `Fourier` and `Sense` take turns, as those of several shots do, so that
        every pose is seen by low and by high frequencies.
    axis : int, optional
        The axis of the operator's range along which time passes; its `time_axis` where None: views
        of a projector, lines (columns of k-space) of `Fourier` and `Sense`, spokes of `Nufft`.
    trainable : bool, default False
        Whether the poses are trained, see `Warp`.

    Notes
    -----
    (A x)_t = (A_0 W_s(t) x)_t, with the pose s(t) at time t; A^T y = sum_s W_s^T A_0^T (y where
    s(t) = s). The work is that of as many scans at rest as there are poses. Motion that is known is
    compensated by this operator's inverse, ignored motion is A_0 in its place, and poses that are
    not known are trained, with the network or by scans of known images.

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Moving, ParallelBeam, Projector
    >>> rest = Projector(ParallelBeam(16, views=12, bins=24))
    >>> A = Moving(rest, [[0, 0, 0], [0.1, 0, 2]])  # turns and shifts after half of the views
    >>> x = torch.rand(16, 16)
    >>> same = torch.isclose(A(x), rest(x), rtol=1e-4).all(1)
    >>> same[:6].all().item(), same[6:].any().item()
    (True, False)
    """

    def __init__(
        self,
        operator: LinearOperator,
        poses: Values,
        *,
        states: Sequence[int] | None = None,
        axis: int | None = None,
        trainable: bool = False,
    ) -> None:
        rest = require_operator(operator)
        place = Place(device=rest.device, dtype=rest.dtype)
        warp = Warp(rest.domain, poses, trainable=trainable, **place)
        count, axes = warp.range[0], len(rest.range)
        chosen: int = rest.time_axis if axis is None else axis
        remedy = f"the range of {rest.name} is {shape_text(rest.range)}"
        counted = chosen + axes if chosen < 0 else chosen
        number = _checks.count("axis", counted, at_least=0, at_most=axes - 1, remedy=remedy)
        times = rest.range[number]
        # Shots that take turns see all poses in turn; otherwise poses follow one another.
        order = [t % count if rest.interleaved else t * count // times for t in range(times)]
        remedy = f"number the pose of each of the {times} times, from 0 to {count - 1}"
        checked = partial(_checks.count, "states", at_least=0, at_most=count - 1, remedy=remedy)
        values = tuple(map(checked, order if states is None else states))
        rule = f"have {times} entries, the length of axis {number} of {shape_text(rest.range)}"
        _checks.require(len(values) == times, "states", rule, len(values), remedy)
        super().__init__([warp, rest], rest.domain, rest.range, f"{rest.name}(t)")
        self.states, self.axis = values, number

    @property
    def warp(self) -> Warp:
        """The image in each pose."""
        return cast(Warp, self.operators[0])

    @property
    def rest(self) -> LinearOperator:
        """The scan of the object at rest: what a network has that ignores the motion."""
        return self.operators[1]

    @property
    def poses(self) -> Tensor:
        """The poses at present."""
        return self.warp.poses

    def _active_states(self) -> Tensor:
        """1 where a time is in a pose, (poses, 1, ..., times, ..., 1)."""
        active = torch.nn.functional.one_hot(torch.tensor(self.states), self.warp.range[0]).t()
        beside = (1,) * self.axis, (1,) * (len(self.range) - self.axis - 1)
        return active.reshape(-1, *beside[0], len(self.states), *beside[1]).to(self._location())

    def _map(self, x: Tensor) -> Tensor:
        # A scan in each pose, (..., poses, *range), of which each time is taken from its own pose.
        scans: Tensor = self.rest._map(self.warp._map(x)) * self._once("_active_states")
        return scans.sum(-len(self.range) - 1)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        scans = y.unsqueeze(-len(self.range) - 1) * self._once("_active_states")
        return self.warp._map_adjoint(self.rest._map_adjoint(scans))

    def _gross_norm(self, upper: float | None = None) -> float:
        return math.prod(operator._gross_norm() for operator in self.operators)
