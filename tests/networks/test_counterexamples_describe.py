"""Modules whose description once had an upper end below what they do."""

import math

import pytest
import torch
from described import Of, told
from torch import Tensor, nn

import korisk as kr
from korisk.errors import KoriskWarning
from korisk.networks.describe.describe import describe
from korisk.theory.overview import overview


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
    marked = kr.learned(nn.Linear(4, 4), lipschitz=1.0)  # of the true layer, as the user says
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
    inner = kr.known(nn.Linear(4, 4), lipschitz=3.0, name="stated one")
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), inner)
    net, _ = told(module, torch.randn(1, 4))
    whose = [layer.bracket.whose for layer in net]
    assert whose == ["present weights", "operator", "stated"]
    assert kr.Network.from_dict(net.to_dict())["0 Linear"].bracket.whose == "present weights"
    found = overview(net, target=0.1)
    assert [row["lipschitz"]["whose"] for row in found.to_dict()["layers"]] == whose
    assert [row["risk"] for row in found.to_dict()["layers"]] == ["assumed", "none", "none"]
    assert found.to_dict()["lipschitz"]["largest_slope"] == net.largest_slope
    text = found.explain()
    assert "those of the present weights" in text
    assert "true layers" in text
    assert "C = 0 and kappa = 1 of 0 Linear" in text
    with pytest.warns(KoriskWarning, match="present weights.*assumes the defaults C = 0"):
        assert kr.sample_size(net, 0.1) == found.needed


def test_an_operator_in_a_mark_is_a_constant() -> None:
    from korisk.operators import Diagonal

    first, second = Diagonal([2.0, 0.0]), Diagonal([0.0, 1.0])
    swap = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        swap.weight.copy_(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    module = nn.Sequential(kr.known(swap, lipschitz=first), second.to(torch.float32))
    net, _ = told(module, torch.ones(1, 2))
    assert net.lipschitz() >= 2 * (1 - 1e-9)  # (1, 0) -> (0, 2), which the second leaves


def test_a_number_keeps_its_digits() -> None:
    factor = 43.412720680236816  # 43.41271972 in single precision
    net, _ = told(Of(lambda x: x + factor * torch.relu(x)), torch.ones(1, 3, dtype=torch.float64))
    assert net.lipschitz() >= 1 + factor
    net, _ = told(Of(lambda x: nn.functional.leaky_relu(x, factor)), torch.ones(1, 3))
    assert net.lipschitz() >= factor
