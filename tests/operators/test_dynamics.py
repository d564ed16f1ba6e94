"""Burgers' equation: exact solutions, conservation, derivatives, and constants on boxes."""

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import korisk as kr
from korisk.errors import KoriskError, KoriskWarning
from korisk.operators import Burgers, Diagonal

QUADRATURE = 2048  # points of a period: the integrand is smooth, so sums converge exponentially


def potential(x: Tensor, viscosity: float, time: float, size: float) -> Tensor:
    """-2 nu log phi of Cole and Hopf, whose derivative solves Burgers from size sin(2 pi x)."""
    y = torch.arange(-2 * QUADRATURE, 3 * QUADRATURE, dtype=torch.float64) / QUADRATURE
    start = -size * torch.cos(2 * math.pi * y) / (2 * math.pi)
    logs = -((x[:, None] - y) ** 2) / (4 * viscosity * time) - start / (2 * viscosity)
    return -2 * viscosity * torch.logsumexp(logs, 1)


def edges(n: int) -> Tensor:
    return torch.arange(n + 1, dtype=torch.float64) / n


def wave(n: int, size: float = 1.0, mean: float = 0.0) -> Tensor:
    """Means over cells of mean + size sin(2 pi x)."""
    return mean - (size * torch.cos(2 * math.pi * edges(n))).diff() * n / (2 * math.pi)


def jacobian(flow: nn.Module, u: Tensor) -> Tensor:
    derivative: Any = torch.autograd.functional.jacobian
    matrix: Tensor = derivative(flow, u).reshape(u.numel(), u.numel())
    return matrix


def error_on_line(n: int, viscosity: float, mean: float) -> float:
    """The mean distance from the exact means over cells; a moving frame adds `mean`."""
    time = 0.3
    flow = Burgers(n, viscosity=viscosity, time=time, largest=1.5)
    exact = mean + potential(edges(n) - mean * time, viscosity, time, 1.0).diff() * n
    return float((flow(wave(n, mean=mean)) - exact).abs().mean())


@pytest.mark.parametrize(("viscosity", "mean"), [(0.05, 0.0), (0.01, 0.0), (0.02, 0.4)])
def test_first_order_to_cole_hopf(viscosity: float, mean: float) -> None:
    coarse, middle, fine = (error_on_line(n, viscosity, mean) for n in (64, 128, 256))
    # The scheme is of first order; a shock that 64 cells barely resolve comes near it from below.
    assert math.log2(middle / fine) > 0.85
    assert coarse > middle > fine
    assert fine < 0.01


def test_first_order_in_the_plane_along_the_diagonal() -> None:
    # w(x + y) solves w_t + 2 w w_s = 2 nu w_ss, so that 2 w solves Burgers with 2 nu.
    viscosity, time, errors = 0.02, 0.2, []
    for n in (32, 64, 128):
        centers = (torch.arange(n, dtype=torch.float64) + 0.5) / n
        diagonal = centers[:, None] + centers  # s = x + y
        around = torch.arange(1, n + 1, dtype=torch.float64) / n  # s mod 1 lies on these points
        half = 1 / (2 * n)
        ends = (potential(around + side, 2 * viscosity, time, 1.0) for side in (-half, half))
        low, high = ends
        place = (torch.round(diagonal * n).long() - 1) % n
        exact = ((high - low) * n / 2)[place]
        flow = Burgers((n, n), viscosity=viscosity, time=time, largest=0.6)
        start = 0.5 * torch.sin(2 * math.pi * diagonal)
        errors.append(float((flow(start) - exact).abs().mean()))
    assert math.log2(errors[1] / errors[2]) > 0.85
    assert errors[2] < 0.01


@pytest.mark.parametrize("points", [17, (8, 6), (4, 3, 5)])
def test_conserves_the_sum_and_keeps_the_order(points: int | tuple[int, ...]) -> None:
    flow = Burgers(points, viscosity=0.01, time=0.3, largest=2.0)
    draws = torch.Generator().manual_seed(5)
    low = 4 * torch.rand(20, *flow.points, generator=draws, dtype=torch.float64) - 2
    high = low + (2 - low) * torch.rand(low.shape, generator=draws, dtype=torch.float64)
    one, two = flow(low), flow(high)
    axes = tuple(range(1, low.ndim))
    torch.testing.assert_close(one.sum(axes), low.sum(axes), rtol=0, atol=1e-11)
    assert bool((one <= two + 1e-13).all())
    # Monotone and conservative: no sum of absolute differences grows (Crandall and Tartar).
    shuffled = high[torch.randperm(20, generator=draws)]
    apart = (flow(shuffled) - one).abs().sum(axes)
    assert bool((apart <= (shuffled - low).abs().sum(axes) + 1e-11).all())


@pytest.mark.parametrize("points", [12, (5, 4)])
def test_derivatives_are_those_of_finite_differences(points: int | tuple[int, ...]) -> None:
    flow = Burgers(points, viscosity=0.02, time=0.1, largest=2.0)
    draws = torch.Generator().manual_seed(6)
    u = torch.randn(2, *flow.points, generator=draws, dtype=torch.float64) / 2
    assert torch.autograd.gradcheck(flow, u.clamp(-1.9, 1.9).requires_grad_())


@given(
    cells=st.integers(2, 24),
    viscosity=st.floats(0.003, 0.2),
    time=st.floats(0.02, 0.6),
    radius=st.floats(1e-3, 2.0),
    seed=st.integers(0, 2**16),
    plane=st.booleans(),
)
def test_no_pair_in_a_ball_moves_further_apart_than_the_constant(
    cells: int, viscosity: float, time: float, radius: float, seed: int, plane: bool
) -> None:
    points = (max(cells // 4, 2), 4) if plane else (cells,)
    flow = Burgers(points, viscosity=viscosity, time=time, largest=1.0)
    draws = torch.Generator().manual_seed(seed)
    center = 0.999 * (2 * torch.rand(points, generator=draws, dtype=torch.float64) - 1)
    ends = center - radius, center + radius
    bracket, low, high = flow.on_box(*ends), *(flow(end.clamp(-1, 1)) for end in ends)
    shape = (40, *points)
    pair = torch.randn(2, *shape, generator=draws, dtype=torch.float64).flatten(2)
    pair *= radius * torch.rand(2, 40, 1, generator=draws) / pair.norm(dim=2, keepdim=True)
    pair = (center + pair.reshape(2, *shape)).clamp(-1, 1)
    # Steepest at the center: along the first singular vector, by a step that stays in the ball.
    step = torch.linalg.svd(jacobian(flow, center))[2][0].reshape(points) * min(radius, 1e-3) / 2
    along = center + step, center - step
    one, two = (torch.cat([part, extra[None]]) for part, extra in zip(pair, along, strict=True))
    moved = (flow(one) - flow(two)).flatten(1).norm(dim=1)
    apart = (one - two).flatten(1).norm(dim=1)
    assert bool((moved <= bracket.upper * apart + 1e-12).all())
    assert bool((flow(one) >= low - 1e-12).all())
    assert bool((flow(one) <= high + 1e-12).all())


def test_the_constant_tends_to_the_slope_and_stays_below_the_energy_of_the_equation() -> None:
    center, viscosity, time = wave(48), 0.02, 0.3
    flow = Burgers(48, viscosity=viscosity, time=time, largest=1.5)
    slope = float(torch.linalg.matrix_norm(jacobian(flow, center), 2))
    uppers = [flow.on_box(center - r, center + r).upper for r in (1e-9, 1e-3, 1e-2, 1e-1, 0.5)]
    assert slope <= uppers[0] < slope * 1.001
    assert uppers == sorted(uppers)
    whole = flow.on_box(-math.inf, math.inf).upper
    assert uppers[-1] <= whole <= math.exp(1.5**2 * time / (4 * viscosity))
    finer = Burgers(96, viscosity=viscosity, time=time, largest=1.5)
    assert finer.on_box(-math.inf, math.inf).upper <= math.exp(1.5**2 * time / (4 * viscosity))


def test_wrong_numbers_are_refused_with_a_remedy() -> None:
    with pytest.raises(KoriskError, match="give at least 40 for a Courant number"):
        Burgers(32, viscosity=0.01, time=1.0, largest=1.25, steps=20)
    assert Burgers(32, viscosity=0.01, time=1.0, largest=1.25, steps=40).steps == 40
    with pytest.raises(KoriskError, match="viscosity must be"):
        Burgers(32, viscosity=0.0, time=1.0, largest=1.0)
    flow = Burgers(4, viscosity=0.01, time=0.1, largest=1.0)
    with pytest.raises(KoriskError, match=r"at most 1 in size, got 2; make it with a larger"):
        flow(torch.tensor([0.0, 2.0, 0.0, 0.0]))
    clipped = Burgers(4, viscosity=0.01, time=0.1, largest=1.0, clip=True)
    ends = torch.tensor([0.0, 2.0, -3.0, 0.5])
    torch.testing.assert_close(clipped(ends), flow(ends.clamp(-1, 1)))
    with pytest.raises(KoriskError, match=r"at most 1 in size, got nan"):
        flow(torch.full((4,), math.nan))
    with pytest.raises(KoriskError, match=r"shape \(\.\.\., 4\)"):
        flow(torch.zeros(2, 5))


# In networks


class Hybrid(nn.Module):
    """Gains that are learned, the known flow, and a learned correction."""

    def __init__(self, cells: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gains = Diagonal(torch.ones(cells), trainable=True)
        self.flow = Burgers(cells, viscosity=0.03, time=0.3, largest=2.0, clip=True)
        self.correction = nn.Sequential(nn.Linear(cells, 4), nn.Tanh(), nn.Linear(4, cells))

    def forward(self, x: Tensor) -> Tensor:
        v: Tensor = self.flow(self.gains(x))
        corrected: Tensor = v + self.correction(v)
        return corrected


def test_describe_takes_the_flow_as_a_known_layer() -> None:
    module, example = Hybrid(), wave(16).float()[None]
    anywhere = kr.describe(module, example)
    kr.mark_known(module.flow, lipschitz=module.flow.on_box(example - 0.02, example + 0.02))
    nearby = kr.describe(module, example)
    assert [layer.kind for layer in anywhere][:2] == ["learned", "known"]
    assert anywhere["flow"].bracket.upper == module.flow.on_box(-math.inf, math.inf).upper
    assert nearby["flow"].bracket.upper < anywhere["flow"].bracket.upper / 10
    assert nearby.lipschitz() < anywhere.lipschitz() / 10
    draws = torch.Generator().manual_seed(3)
    data = example + 0.02 * (2 * torch.rand(100, 16, generator=draws) - 1)
    with torch.no_grad():
        apart = (module(data[1:]) - module(data[:-1])).norm(dim=1)
    assert bool((apart <= nearby.lipschitz() * (data[1:] - data[:-1]).norm(dim=1) * 1.001).all())


def test_a_stated_constant_and_another_forward_come_first() -> None:
    example = wave(8)[None]
    flow = Burgers(8, viscosity=0.03, time=0.1, largest=2.0)
    marked = kr.mark_known(copy.deepcopy(flow), lipschitz=7.0, name="stated")
    assert kr.describe(marked, example)["stated"].bracket.upper == 7.0
    named = kr.describe(kr.mark_known(copy.deepcopy(flow), name="flow", mismatch=0.1), example)
    assert named["flow"].bracket.upper == kr.describe(flow, example).lipschitz()

    class Doubled(Burgers):
        def forward(self, u: Tensor) -> Tensor:
            return 2 * super().forward(u)

    doubled = Doubled(8, viscosity=0.03, time=0.1, largest=2.0, steps=2, clip=True)
    with pytest.warns(KoriskWarning):  # its class says nothing of this map
        assert kr.describe(doubled, example).lipschitz() == math.inf
