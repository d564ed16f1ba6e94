"""Nufft against the dense Fourier sum, its trajectories and its density compensation."""

import builtins
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError, KoriskWarning, MissingExtraError
from korisk.operators import Diagonal, Fourier, Nufft, Sense, birdcage_sensitivities, radial, spiral

DRAWN = np.random.default_rng(0).uniform(-0.5, 0.5, (3, 50, 3))


def dense(operator: Nufft) -> Tensor:
    """The matrix of the sum, complex (samples, pixels), without coils."""
    exponent = torch.zeros(math.prod(operator.trajectory.shape[:-1]), 1, dtype=torch.float64)
    places = torch.from_numpy(operator.trajectory.copy()).flatten(0, -2)
    for axis, length in enumerate(operator.image_shape):
        pixels = torch.arange(length, dtype=torch.float64) - length // 2
        phase = torch.outer(places[:, axis], pixels) / length
        exponent = (exponent[..., None] + phase[:, None, :]).flatten(1)
    count = math.prod(operator.image_shape)
    return torch.exp(-2j * math.pi * exponent) / math.sqrt(count)


@pytest.mark.parametrize("points", [2, 5, 6, 8, 11])
@pytest.mark.parametrize("shape", [(7,), (1, 4), (8, 5), (4, 3, 6)])
def test_every_factor_is_within_the_stated_tolerance(shape: tuple[int, ...], points: int) -> None:
    drawn = DRAWN[..., : len(shape)] * shape
    # Points of the grid too: there a neighbour lies at the very edge of the window.
    trajectory = np.concatenate([drawn, np.round(2 * drawn) / 2])
    operator = Nufft(shape, trajectory, points=points, real=True, dtype=torch.float64)
    found = operator.as_matrix().reshape(-1, 2, math.prod(shape)).transpose(1, 2).contiguous()
    errors = (torch.view_as_complex(found) - dense(operator)).abs() * math.sqrt(math.prod(shape))
    assert float(errors.max()) <= operator.tolerance
    assert float(errors.max()) >= 0.1 * operator.tolerance  # stated as it is, and not far above


def test_the_tolerance_falls_with_the_points() -> None:
    stated = [Nufft(16, [[8.0]], points=points).tolerance for points in (4, 6, 8, 10)]
    assert stated[1] < 3e-5
    assert all(fewer > 30 * more for fewer, more in pairwise(stated))


@pytest.mark.parametrize("real", [False, True])
def test_on_the_grid_it_is_the_cartesian_transform_with_and_without_coils(real: bool) -> None:
    grid = np.stack(np.meshgrid(np.arange(6) - 3, np.arange(5) - 2, indexing="ij"), -1)
    maps = birdcage_sensitivities((6, 5), 3)
    shape = (6, 5) if real else (6, 5, 2)
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    precise: dict[str, Any] = {"real": real, "dtype": torch.float64}
    alone = Nufft((6, 5), grid, points=10, **precise)
    torch.testing.assert_close(alone(x), Fourier((6, 5), **precise)(x), rtol=0, atol=1e-7)
    several = Nufft((6, 5), grid, sensitivities=maps, points=10, **precise)
    torch.testing.assert_close(several(x), Sense((6, 5), maps, **precise)(x), rtol=0, atol=1e-7)
    assert (alone.coils, several.coils) == (1, 3)
    # Weights of one invert the unitary transform, up to the fit of the one factor they share.
    assert float((alone.density() - 1).abs().max()) < 1e-3


def test_the_norm_of_the_sum_itself_is_in_the_bracket() -> None:
    # Few points, so that the norm of what is computed is off by a visible amount.
    operator = Nufft((4, 5), DRAWN[0, :9, :2] * (4, 5), points=2, dtype=torch.float64)
    exact = float(torch.linalg.matrix_norm(dense(operator), 2))
    bracket = operator.norm()
    assert bracket.lower <= exact <= bracket.upper
    assert "NUFFT" in bracket.how


@pytest.mark.parametrize("make", [radial, spiral])
def test_a_scan_from_the_size_alone_is_inverted_by_gridding(make: Any) -> None:
    side = 32
    operator = Nufft((side, side), make(side), real=True, dtype=torch.float64)
    y, x = np.meshgrid(*[np.arange(side) - side // 2] * 2, indexing="ij")
    spot = torch.from_numpy(np.exp(-((y - 3) ** 2 + (x + 5) ** 2) / 18))  # band-limited
    gridding = operator.T @ Diagonal(operator.density())
    error = float((gridding(operator(spot)) - spot).norm() / spot.norm())
    plain = operator.T(operator(spot))
    scale = float((plain * spot).sum() / plain.square().sum())
    assert error < 0.05  # the weights are fitted to a density, not to the image
    assert error < 0.2 * float((scale * plain - spot).norm() / spot.norm())


def test_radial_spokes_pass_the_centre_evenly_or_by_the_golden_angle() -> None:
    for golden in (False, True):
        spokes = radial((16, 24), spokes=7, readout=20, golden=golden)
        assert spokes.shape == (7, 20, 2)
        assert np.all(spokes[:, 10] == 0)
        ends = spokes[:, 0] / np.array([16, 24])
        assert np.allclose(np.hypot(*ends.T), 0.5)
        angles = np.unwrap(np.arctan2(*(-ends).T) * 2) / 2
        wanted = math.radians(111.246117975) if golden else math.pi / 7
        assert np.allclose(np.mod(np.diff(angles) - wanted + 1, math.pi), 1)


def test_spiral_arms_are_a_cycle_apart_and_sampled_evenly() -> None:
    arms = spiral(32)
    radius = np.hypot(arms[..., 0], arms[..., 1])
    assert np.allclose(radius[:, 0], 0)
    assert np.allclose(radius[:, -1], 16)
    steps = np.hypot(*np.moveaxis(np.diff(arms, axis=1), -1, 0))
    assert 0.8 < steps.min() <= steps.max() <= 1.0
    # Along any direction neighbouring arms cross it a cycle apart: every turn moves an arm by as
    # many cycles as there are arms.
    turns = np.unwrap(np.arctan2(arms[0, 1:, 0], arms[0, 1:, 1])) / (2 * math.pi)
    slope = np.polyfit(turns, radius[0, 1:], 1)[0]
    assert slope == pytest.approx(len(arms), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Nufft((8, 8), radial(16)), "stay within 4, 4 cycles per field of view"),
        (lambda: Nufft((8, 8), np.zeros((5, 3))), r"have shape \(\*samples, 2\)"),
        (lambda: Nufft((8, 8), np.zeros(2)), r"have shape \(\*samples, 2\)"),
        (lambda: Nufft((8, 8), np.full((3, 2), np.nan)), "be one or more finite numbers"),
        (lambda: Nufft((8, 8), "spiral"), "be a torch tensor or an array of numbers"),
        (lambda: Nufft(8, torch.zeros(3, 1, requires_grad=True)), "not require gradients"),
        (lambda: Nufft((8, 8), radial(8), points=1), "points must be"),
        (lambda: Nufft((8, 8), radial(8), sensitivities=torch.ones(8, 8)), "sensitivities must"),
        (lambda: radial((4, 4, 4)), r"be \(rows, columns\)"),
        (lambda: radial(8, spokes=0), "spokes must be"),
        (lambda: spiral(8, shots=-1), "shots must be"),
        (lambda: spiral(8, readout=1), "readout must be"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make: Any, message: str) -> None:
    with pytest.raises(KoriskError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_radians_are_noticed() -> None:
    with pytest.warns(KoriskWarning, match=r"radians per pixel, multiply it by n / \(2 pi\)"):
        Nufft((32, 32), radial(32) * 2 * math.pi / 32)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "torchkbnufft":
            raise ModuleNotFoundError("No module named 'torchkbnufft'", name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'korisk\[mri\]'"):
        Nufft((8, 8), radial(8))
