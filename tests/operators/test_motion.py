"""Warp and Moving against geometry, derivatives in the poses, and estimates of motion."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import (
    Fourier,
    Moving,
    Nufft,
    ParallelBeam,
    Projector,
    Sense,
    Tikhonov,
    Warp,
    birdcage_sensitivities,
    radial,
)

SIDE = 24


def spots(*centres: tuple[float, float], side: int = SIDE, width: float = 2.5) -> Tensor:
    """Smooth spots at (row, column) from the centre, in pixels."""
    line = torch.arange(side, dtype=torch.float64) - (side - 1) / 2
    image = torch.zeros(side, side, dtype=torch.float64)
    for height, (row, column) in enumerate(centres, 1):
        squares = (line[:, None] - row) ** 2 + (line - column) ** 2
        image += height * torch.exp(-squares / (2 * width**2))
    return image


def test_whole_pixels_move_exactly_and_zeros_come_from_outside() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    still, moved = Warp((3, 4), [[0, 0, 0], [0, 1, -2]])(x)
    assert torch.equal(still, x)
    assert torch.equal(moved[1:, :2], x[:-1, 2:])
    assert not moved[0].any()
    assert not moved[:, 2:].any()


def test_a_quarter_turn_is_from_columns_towards_rows() -> None:
    x = torch.zeros(5, 5, dtype=torch.float64)
    x[2, 4] = 1  # on the axis of the columns, which turns to that of the rows
    turned = Warp((5, 5), [[math.pi / 2, 0, 0]], dtype=torch.float64)(x)[0]
    assert float(turned[4, 2]) == pytest.approx(1)
    # (W x)(r) = x(L r): the affine pose with L = R^T, as the notes state it.
    affine = Warp((5, 5), [[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]], dtype=torch.float64)(x)[0]
    assert torch.allclose(affine, turned, atol=1e-12)


def test_spots_end_up_where_a_rigid_pose_moves_them() -> None:
    angle, shift = 0.4, np.array([1.3, -2.2])
    place = np.array([3.0, 5.0])  # row and column
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    warp = Warp((SIDE, SIDE), [[angle, *shift]], dtype=torch.float64)
    moved = warp(spots((place[0], place[1])))[0]
    wanted = spots(tuple(turn @ place + shift))
    # Linear interpolation of a spot of 2.5 pixels: h^2 / (8 width^2) along each axis.
    assert float((moved - wanted).abs().max()) < 2 / (8 * 2.5**2) * 1.1


def test_a_turned_object_is_a_turned_scan() -> None:
    views, x = 12, spots((3.0, -4.0), (-5.0, 2.0))
    angles = np.linspace(0, math.pi, views, endpoint=False)
    rest, turned = (
        Projector(ParallelBeam(SIDE, bins=36, angles=tuple(each)), dtype=torch.float64)
        for each in (angles, angles - 0.3)
    )
    found, wanted = Moving(rest, [[0.3, 0, 0]])(x), turned(x)
    assert float((found - wanted).norm() / wanted.norm()) < 0.03
    assert float((rest(x) - wanted).norm() / wanted.norm()) > 0.2


def test_a_shift_is_a_phase_ramp_of_the_lines_that_see_it() -> None:
    x = spots((0.5, -1.0), side=8, width=0.7)
    rest = Fourier((8, 8), real=True, dtype=torch.float64)
    states = [0, 1, 0, 1, 0, 1, 0, 1]
    found = Moving(rest, [[0, 0, 0], [0, 0, 1]], states=states)(x)
    k = torch.arange(8, dtype=torch.float64) - 4
    ramp = torch.exp(-2j * math.pi * k / 8 * torch.tensor(states))
    # A whole pixel, of an image that is next to zero at the edge it leaves.
    wanted = torch.view_as_complex(rest(x)) * ramp
    assert torch.allclose(torch.view_as_complex(found), wanted, atol=0.02 * float(x.max()))
    assert torch.equal(found[:, ::2], rest(x)[:, ::2])


SCANS: dict[str, Any] = {
    "parallel": lambda: Projector(ParallelBeam(SIDE, views=16, bins=36), dtype=torch.float64),
    "radial": lambda: Nufft((SIDE, SIDE), radial(SIDE, spokes=16), real=True, dtype=torch.float64),
    "coils": lambda: Sense(
        (SIDE, SIDE), birdcage_sensitivities((SIDE, SIDE), 2), real=True, dtype=torch.float64
    ),
}


@pytest.mark.parametrize("name", SCANS)
def test_each_time_sees_its_pose(name: str) -> None:
    rest = SCANS[name]()
    poses = [[0.0, 0.0, 0.0], [0.1, 1.5, -0.5], [-0.2, 0.3, 2.0]]
    moving = Moving(rest, poses)
    x = spots((3.0, -4.0), (-5.0, 2.0))
    scans = [rest(image) for image in Warp((SIDE, SIDE), poses, dtype=torch.float64)(x)]
    found, times = moving(x), rest.range[rest.time_axis]
    for time in range(times):
        seen = scans[moving.states[time]].select(rest.time_axis, time)
        assert torch.allclose(found.select(rest.time_axis, time), seen, atol=1e-12)
    assert moving.rest is rest
    runs = moving.states == tuple(sorted(moving.states))
    assert runs == (name != "coils")  # whose lines take turns


@pytest.mark.parametrize("affine", [False, True])
def test_derivatives_in_the_poses_are_those_of_differences(affine: bool) -> None:
    rest = Projector(ParallelBeam(6, views=4, bins=8), dtype=torch.float64)
    x = spots((0.5, -1.0), side=6, width=1.0)
    rigid = torch.tensor([[0.05, 0.3, -0.2], [-0.1, 0.1, 0.4]], dtype=torch.float64)
    poses = rigid
    if affine:
        poses = torch.tensor([[1.02, 0.05, 0.3], [-0.04, 0.97, -0.2]], dtype=torch.float64)
        poses = torch.stack([poses, poses.flip(0).flip(1)[:, [1, 0, 2]] + 0.01])
    moving = Moving(rest, poses, trainable=True)
    assert [parameter.shape for parameter in moving.parameters()] == [poses.shape]

    def scanned(values: Tensor) -> Tensor:
        given = {"parts.0.poses": values}
        result: Tensor = torch.func.functional_call(moving, given, x)
        return result

    values = moving.poses.detach().clone().requires_grad_()
    torch.autograd.gradcheck(scanned, (values,))
    torch.autograd.gradgradcheck(scanned, (values,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Warp((4, 4), [[0, 0]]), "poses must be"),
        (lambda: Warp(4, [[0, 0, 0]]), "poses must be"),
        (lambda: Warp((4, 4), [[0, 0, math.nan]]), "finite"),
        (lambda: Warp((4, 4), torch.zeros(2, 3, 3)), "poses must be"),
        (lambda: Moving(Fourier((4, 4)), [[0, 0, 0]], states=[0, 0]), "states must have 4 entries"),
        (lambda: Moving(Fourier((4, 4)), [[0, 0, 0]], states=[0, 0, 0, 1]), "states must be"),
        (lambda: Moving(torch.ones(2), [[0, 0, 0]]), "be a LinearOperator"),  # type: ignore[arg-type]
        (lambda: Moving(Fourier((4, 4)), [[0, 0, 0]], axis=3), "axis must be"),
        (
            lambda: Tikhonov(Moving(Fourier((4, 4)), [[0, 0, 0]], trainable=True), 1.0),
            "not be trainable",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make: Any, message: str) -> None:
    with pytest.raises(KoriskError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("shape", "numbers"), [((4, 4), 3), ((3, 3, 3), 6)])
@pytest.mark.parametrize("size", [0.0, 1e-3, 0.0999, 2.0])
def test_turns_and_their_derivatives_are_those_of_the_matrix_exponential(
    shape: tuple[int, ...], numbers: int, size: float
) -> None:
    axes = len(shape)
    generator = torch.Generator().manual_seed(numbers)
    poses, direction = torch.randn(2, 1, numbers, generator=generator, dtype=torch.float64)
    poses = torch.cat([size * poses[:, :-axes], 0.3 + 0.1 * poses[:, -axes:].tanh()], 1)
    image = torch.rand(shape, generator=generator, dtype=torch.float64)
    weight = torch.rand((1, *shape), generator=generator, dtype=torch.float64)
    rigid = Warp(shape, poses, trainable=True, dtype=torch.float64)
    first, second = torch.triu_indices(axes, axes, 1)

    def affine(p: Tensor) -> Tensor:
        turned = p.new_zeros(1, axes, axes).index_put(
            (torch.zeros(1, dtype=torch.long), first, second), p[0, :-axes]
        )
        back = torch.linalg.matrix_exp(turned.mT - turned)
        return torch.cat([back, -(back @ p[:, -axes:, None])], -1)

    general = Warp(shape, affine(poses), trainable=True, dtype=torch.float64)
    derivatives: list[list[Tensor]] = []
    for warp, given in ((rigid, lambda p: p), (general, affine)):
        p = poses.clone().requires_grad_()
        value = (torch.func.functional_call(warp, {"poses": given(p)}, image) * weight).sum()
        orders = [value]
        for _ in range(3):  # along one direction, again and again
            (slope,) = torch.autograd.grad(value, p, create_graph=True)
            value = (slope * direction).sum()
            orders.append(slope)
        derivatives.append([order.detach() for order in orders])
    for ours, exact in zip(*derivatives, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-11)
