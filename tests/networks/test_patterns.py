"""Functions of several steps, and linear ones with rules of their own, against their Jacobians."""

import math
from collections.abc import Callable

import pytest
import torch
from described import Of, draw, slope_at, told, upper
from torch import Tensor

SYSTEM = draw(6, 6) + 4 * torch.eye(6, dtype=torch.float64)
THRESHOLDS = draw(6).abs()
WINDOW = torch.hann_window(8, dtype=torch.float64)

Function = Callable[[Tensor], Tensor]


def spectrogram(x: Tensor) -> Tensor:
    return torch.stft(x.repeat(1, 4), 8, window=WINDOW, return_complex=True)


EXACT: dict[str, tuple[Function, float]] = {
    "onto a ball": (lambda x: x / x.norm(dim=1, keepdim=True).clamp(min=1), 1.0),
    "onto a ball of radius 2": (
        lambda x: x / torch.maximum(torch.ones(()), x.norm(dim=-1, keepdim=True) / 2),
        1.0,
    ),
    "onto a ball, over 4": (lambda x: x / torch.clamp_min(torch.linalg.vector_norm(x), 4.0), 0.25),
    "onto an interval": (lambda x: x / torch.clamp(x.abs(), min=0.5), 2.0),
    "soft threshold": (lambda x: torch.sign(x) * torch.relu(x.abs() - 0.3), 1.0),
    "thresholds": (lambda x: (x.abs() - THRESHOLDS).clamp(min=0) * x.sign(), 1.0),
}


@pytest.mark.parametrize(("function", "constant"), EXACT.values(), ids=EXACT)
def test_functions_of_several_steps_have_their_constant(
    function: Function, constant: float
) -> None:
    net, words = told(Of(function), draw(1, 6))
    assert net.lipschitz() == pytest.approx(constant, rel=1e-9)
    assert not words
    points = [size * draw(1, 6, seed=seed) for seed in range(6) for size in (0.05, 1, 10)]
    assert max(slope_at(Of(function), x) for x in points) <= constant * (1 + 1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.sign(x) * torch.relu(x.abs() + 0.3),  # jumps at 0
        lambda x: torch.sign(x) * torch.relu(x.roll(1).abs() - 0.3),  # of another value
        lambda x: x.roll(1) / x.norm(dim=1, keepdim=True).clamp(min=1),
        lambda x: x / x.norm(dim=1, p=1, keepdim=True).clamp(min=1),
        lambda x: x / x.reshape(2, 3).norm(dim=1).repeat(3)[None].clamp(min=1),
        lambda x: torch.linalg.solve(x.T @ x + torch.eye(6, dtype=x.dtype), x.T).T,
    ],
)
def test_what_only_looks_like_one_has_none(function: Function) -> None:
    assert upper(Of(function), draw(1, 6)) == math.inf


LINEAR: dict[str, Function] = {
    "solve": lambda x: torch.linalg.solve(SYSTEM, x.T).T,
    "solve_triangular": lambda x: torch.linalg.solve_triangular(SYSTEM.triu(), x.T, upper=True).T,
    "irfft to another length": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=9),
    "irfft cut": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=3),
    "fft cut": lambda x: torch.view_as_real(torch.fft.fft(x, n=4)),
    "rfft padded": lambda x: torch.view_as_real(torch.fft.rfft(x, n=11, norm="ortho")),
    "fft2 padded": lambda x: torch.view_as_real(torch.fft.fft2(x.reshape(2, 3), s=(4, 2))),
    "stft": lambda x: torch.view_as_real(spectrogram(x)),
    "istft": lambda x: torch.istft(0.5 * spectrogram(x), 8, window=WINDOW),
}


@pytest.mark.parametrize("function", LINEAR.values(), ids=LINEAR)
def test_linear_functions_hold_the_norm_of_their_matrix(function: Function) -> None:
    x = draw(1, 6)
    exact = slope_at(Of(function), x)
    assert exact <= upper(Of(function), x) * (1 + 1e-9)
    assert upper(Of(function), x) <= 2.5 * exact


def test_a_soft_threshold_in_a_skip_is_bounded_as_a_whole() -> None:
    weights = draw(6, 6) / 3

    def function(x: Tensor) -> Tensor:
        z = x @ weights
        return x - torch.sign(z) * torch.relu(z.abs() - 0.3) @ weights.T

    found = upper(Of(function), draw(1, 6))
    sums = 1 + float(torch.linalg.matrix_norm(weights, 2)) ** 2
    assert max(slope_at(Of(function), draw(1, 6, seed=seed)) for seed in range(9)) <= found
    assert found < 0.9 * sums
