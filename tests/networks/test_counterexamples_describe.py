"""Modules whose description once had an upper end below what they do."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from described import Of, draw, slope_at, told, upper
from torch import Tensor, nn

import korisk as kr
from korisk.errors import KoriskWarning
from korisk.networks.describe import rules
from korisk.networks.describe.describe import describe
from korisk.theory import NormBracket


class HiddenWrite(nn.Module):
    """Writes through `.data`, where autograd sees nothing, and only for large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.inner(x))
        y.data.copy_(y.data + 1e4 * torch.relu(x.detach() - 20))
        return y


class KeptGain(nn.Module):
    """A gain that follows the input, kept as a Parameter, and clamped near the example."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        self.gain.data = x.detach().abs().max().clamp(1.0, 1e6)
        return self.gain * torch.tanh(self.inner(x))


@pytest.mark.parametrize("make", [HiddenWrite, KeptGain])
def test_what_is_inactive_at_the_example_is_noticed_far_away(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module, x = make(), 0.1 * torch.randn(1, 6)
    with pytest.warns(KoriskWarning):
        net = describe(module, x)
    assert net.lipschitz() == math.inf  # nothing is known, and nothing is said


def test_a_slope_above_the_upper_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(1, 4)
    net, _ = told(module, x)
    assert net.largest_slope is not None
    assert 0 < net.largest_slope <= net.lipschitz()
    # As if a rule were wrong by a factor of ten.
    monkeypatch.setattr("korisk.networks.describe.describe.far_slope", lambda *_: 100.0)
    with pytest.raises(kr.KoriskError, match=r"100 times as far apart, more than the"):
        describe(module, x)
    marked = kr.mark_learned(nn.Linear(4, 4), lipschitz=1.0)  # of the true layer, as the user says
    with pytest.warns(KoriskWarning, match="the present ones are steeper"):
        describe(marked, x)


def test_batch_statistics_are_not_linear() -> None:
    """By the batch's own deviation: linear near 0 for a large eps, and flat far out."""

    class Batch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scale = torch.full((3,), 1e6, dtype=x.dtype)
            near = nn.functional.batch_norm(x, None, None, scale, training=True, eps=1e12)
            return near - 0.9 * (x - x.mean((0, 2), keepdim=True))

    x = torch.randn(8, 3, 5, dtype=torch.float64)
    far = 1e9 * x
    slope = float((Batch()(2 * far) - Batch()(far)).norm() / far.norm())
    assert slope > 0.8
    net, _ = told(Batch(), x)
    assert net.lipschitz() >= slope


def test_whose_constants_they_are_is_said() -> None:
    torch.manual_seed(0)
    inner = kr.mark_known(nn.Linear(4, 4), lipschitz=3.0, name="stated one")
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), inner)
    net, _ = told(module, torch.randn(1, 4))
    whose = [layer.bracket.whose for layer in net]
    assert whose == ["present weights", "operator", "stated"]
    assert kr.Network.from_dict(net.to_dict())["0 Linear"].bracket.whose == "present weights"
    with pytest.warns(KoriskWarning, match="present weights.*assumes the defaults C = 0"):
        kr.sample_size(net, 0.1)


def test_an_operator_in_a_mark_is_a_constant() -> None:
    from korisk.operators import Diagonal

    first, second = Diagonal([2.0, 0.0]), Diagonal([0.0, 1.0])
    swap = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        swap.weight.copy_(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    module = nn.Sequential(kr.mark_known(swap, lipschitz=first), second.to(torch.float32))
    net, _ = told(module, torch.ones(1, 2))
    assert net.lipschitz() >= 2 * (1 - 1e-9)  # (1, 0) -> (0, 2), which the second leaves


def test_a_number_keeps_its_digits() -> None:
    factor = 43.412720680236816  # 43.41271972 in single precision
    net, _ = told(Of(lambda x: x + factor * torch.relu(x)), torch.ones(1, 3, dtype=torch.float64))
    assert net.lipschitz() >= 1 + factor
    net, _ = told(Of(lambda x: nn.functional.leaky_relu(x, factor)), torch.ones(1, 3))
    assert net.lipschitz() >= factor


WEIGHTS, OTHERS = draw(6, 6, seed=1), draw(6, 6, seed=2)


def written_through_a_view(x: Tensor) -> Tensor:
    y = x @ WEIGHTS
    y[:, 1:].mul_(3)
    return y


def kept_maxima(x: Tensor) -> Tensor:
    values, places = F.max_pool1d(x[:, None], 2, return_indices=True)
    return F.max_unpool1d(values, places, (2,))[:, 0]


def largest_in_place(x: Tensor) -> Tensor:
    values, places = x.topk(3, 1)
    return (x @ WEIGHTS).scatter_add(1, places, values)


def damped_where_negative(x: Tensor) -> Tensor:
    y = x @ WEIGHTS
    y[y < 0] *= 0.1
    return y


# Modules that jump, multiply values, or write where they are not watched.
WITHOUT_CONSTANT: dict[str, Callable[[Tensor], Tensor]] = {
    "a write through a view": written_through_a_view,
    "maxima put back": kept_maxima,
    "an order applied to others": lambda x: (x @ WEIGHTS).gather(1, x.argsort(1)),
    "columns chosen by size": lambda x: (x @ WEIGHTS)[:, x.topk(2, 1).indices[0]],
    "the largest in their places": largest_in_place,
    "a mask of other values": lambda x: (x @ OTHERS) * ((x @ WEIGHTS) > 0),
    "a chosen sign": lambda x: torch.where(x @ WEIGHTS > 0, x @ OTHERS, -(x @ OTHERS)),
    "entries damped by a mask": damped_where_negative,
    "filled by a mask": lambda x: (x @ WEIGHTS).masked_fill(x > 0.5, 0.0),
    "straight through": lambda x: x + (x.round() - x).detach(),
    "a grid from the input": lambda x: F.grid_sample(
        1e3 * draw(1, 1, 8, 8), 1e-3 * x.reshape(1, 1, 3, 2), align_corners=False
    ),
    "a matrix from the input": lambda x: torch.linalg.solve(
        torch.eye(6).double() + 1e-10 * torch.diag(x[0]), torch.ones(1, 6, 1).double()
    ),
    "a divisor from the input": lambda x: torch.ones_like(x) / (1 + 1e-10 * x),
    "running products": lambda x: (1 + 0.01 * x).cumprod(1),
    "a quadratic form": lambda x: torch.einsum("bi,ij,bj->b", x, WEIGHTS, x)[:, None],
    "a slope from the input": lambda x: F.prelu(x, (x @ WEIGHTS)[0, :1]),
    "a count of the input": lambda x: (x @ WEIGHTS) * (x > 0).sum(),
    "a remainder": lambda x: (x @ WEIGHTS) % 2.0,
}


@pytest.mark.parametrize("name", WITHOUT_CONSTANT)
def test_what_has_no_constant_gets_none(name: str) -> None:
    assert upper(Of(WITHOUT_CONSTANT[name]), draw(1, 6, seed=4)) == math.inf


class FiveTimes(torch.autograd.Function):
    """Its derivative, as stated, is not its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 5 * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


def added_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y += x @ WEIGHTS
    y -= y.flip(1)
    return y


def unwatched(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = 4 * (x @ WEIGHTS)
    return y + x


WITH_CONSTANT: dict[str, Callable[[Tensor], Tensor]] = {
    "a wrong derivative": lambda x: FiveTimes.apply(x),  # type: ignore[no-untyped-call]
    "sums in place": added_in_place,
    "without gradients": unwatched,
    "all into one entry": lambda x: torch.zeros_like(x).index_add(
        1, torch.full((6,), 2), x, alpha=2
    ),
    "a dilated, grouped, strided convolution": lambda x: F.conv1d(
        x.reshape(1, 2, 3), draw(4, 1, 2, seed=3), stride=2, padding=2, dilation=2, groups=2
    ),
    "its adjoint, padded at one end": lambda x: F.conv_transpose1d(
        x.reshape(1, 2, 3), draw(2, 3, 3, seed=3), None, 2, 1, 1, dilation=2
    ),
    "sorted, then mixed": lambda x: x.sort(1).values @ WEIGHTS,
    "a direction": lambda x: F.normalize(x @ WEIGHTS, dim=1, eps=0.5),
}


@pytest.mark.parametrize("name", WITH_CONSTANT)
def test_no_quotient_exceeds_a_constant_that_is_given(name: str) -> None:
    module = Of(WITH_CONSTANT[name])
    constant = upper(module, draw(1, 6, seed=4))
    assert constant < math.inf
    for seed, size in enumerate((1e-3, 0.1, 1.0, 30.0, 1e4)):
        one, two = (size * draw(1, 6, seed=seed + place) for place in (20, 40))
        quotient = float((module(one) - module(two)).norm() / (one - two).norm())
        # Of a custom function autograd knows what it states, so quotients are asked for as well.
        assert max(quotient, slope_at(module, one)) <= constant * (1 + 1e-9)


WIDE, TALL = draw(1, 6, seed=7), draw(4, 6, seed=8)


def written_wide(x: Tensor) -> Tensor:
    y = 2.0 * x.expand(4, 6)
    y[:, 1:] = x[:, :1]
    return y


def added_wide(x: Tensor) -> Tensor:
    y = 1.0 * x
    y.sub_(x[:, :1], alpha=3)
    return y


# Functions that repeat a value to the shape of another, in either place.
REPEATED: dict[str, Callable[[Tensor], Tensor]] = {
    "real part, of a constant": lambda x: torch.view_as_real(torch.complex(x[:, :1], TALL)),
    "imaginary part, of a constant": lambda x: torch.view_as_real(torch.complex(TALL, x)),
    "real part": lambda x: torch.view_as_real(torch.complex(x[:, :1], x)),
    "imaginary part": lambda x: torch.view_as_real(torch.complex(x, x[:, :1])),
    "both parts": lambda x: torch.view_as_real(torch.complex(x.T, x)),
    "added to a constant": lambda x: x[:, :1] + TALL,
    "added": lambda x: x[:, :1] + x,
    "rows and columns": lambda x: x + x.T,
    "subtracted three times": lambda x: torch.sub(x, x[:, :1], alpha=3),
    "subtracted from": lambda x: torch.rsub(x, x[:, :1], alpha=3),
    "subtracted in place": added_wide,
    "times a constant": lambda x: x[:, :1] * TALL,
    "over a constant": lambda x: x / (TALL.abs() + 1),
    "the larger": lambda x: torch.maximum(x[:, :1], x),
    "the larger of rows and columns": lambda x: torch.maximum(x, x.T),
    "chosen beside a constant": lambda x: torch.where(TALL > 0, x, TALL),
    "chosen": lambda x: torch.where(TALL > 0, x, x[:, :1]),
    "beside copies": lambda x: torch.stack([x, x[:, :1].expand_as(x)]),
    "filled": lambda x: x.masked_fill(TALL > 0, 3.0),
    "mixed with a constant": lambda x: torch.lerp(x, TALL, 0.3),
    "its share": lambda x: torch.lerp(WIDE, TALL, x[:, :1]),
    "added to products": lambda x: torch.addmm(x, TALL, WEIGHTS),
    "times matrices": lambda x: x @ torch.stack([WEIGHTS, OTHERS]),
    "a matrix times copies": lambda x: WEIGHTS @ x.T.expand(3, 6, 1),
    "the bias of a matrix": lambda x: F.linear(TALL, WEIGHTS[:1], x[0, :1]),
    "written": written_wide,
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_value_that_is_repeated_counts_as_often(name: str) -> None:
    module = Of(REPEATED[name])
    slope = max(slope_at(module, draw(1, 6, seed=seed)) for seed in range(20, 26))
    assert slope * (1 - 1e-9) <= upper(module, draw(1, 6, seed=4)) <= 1.1 * slope


def test_what_divides_with_rounding_or_by_several_radii_has_no_constant() -> None:
    def truncated(x: Tensor) -> Tensor:
        return torch.div(x, 5 * torch.ones_like(TALL), rounding_mode="trunc")

    radii = torch.tensor([[0.999, 1.001]]).double()

    def projected(x: Tensor) -> Tensor:  # onto no ball: v / max(a, |v|) with an a for each entry
        return x / torch.maximum(radii, x.norm(dim=1, keepdim=True))

    x = torch.full((1, 2), 0.5**0.5).double()
    assert slope_at(Of(projected), x) > 1.1 / 0.999
    assert upper(Of(projected), x) == upper(Of(truncated), draw(1, 6)) == math.inf


def test_a_slope_along_one_coordinate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,024 entries one is repeated 64 times, which random directions do not show."""

    def spread(x: Tensor) -> Tensor:
        return torch.view_as_real(torch.complex(x[:, :1], torch.ones(1, 64).to(x)))

    module, x = Of(spread), torch.randn(1, 1024, generator=torch.Generator().manual_seed(0))
    net, _ = told(module, x)
    assert net.lipschitz() == pytest.approx(8)
    assert net.largest_slope is not None
    assert net.largest_slope < 1
    monkeypatch.setattr("korisk.networks.describe.rules._spread", lambda *_: 1.0)
    with pytest.raises(kr.KoriskError, match=r"come out 7\.99\d* times as far apart"):
        describe(module, x)


def test_the_gradient_leads_to_a_steep_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow rise, away from the example and small against the other entries."""

    def rise(x: Tensor) -> Tensor:
        return torch.cat([torch.erf(x[:, :1] - 3), 0.1 * x[:, 1:]], 1)

    module, x = Of(rise), torch.linspace(1, 2, 64, dtype=torch.float64)[None]
    net, _ = told(module, x)
    assert net.largest_slope is not None
    assert net.largest_slope < 0.9 < 2 / math.sqrt(math.pi) < net.lipschitz()
    monkeypatch.setitem(rules.CONSTANTS, "erf", lambda *_: NormBracket(0.0, 0.9))
    with pytest.raises(kr.KoriskError, match=r"more than the 0\.9"):
        describe(module, x)
