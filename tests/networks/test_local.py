"""Constants on sets of inputs: above every quotient in the set, and every value in its range."""

import copy
import json
import math
import statistics
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import korisk as kr
from benchmarks.networks.describe import Of
from benchmarks.networks.local import Attention, Heads, inputs, modules, steepest, table, unsound
from korisk.networks.describe.local import LocalNetwork
from korisk.networks.describe.written_out import layer

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
FAST = [  # of every kind: the others are in the benchmark
    ("attention, tokens", "dot products, causal"),
    ("gates, vectors", "SwiGLU"),
    ("gates, images", "squeeze and excitation, residual"),
    ("recurrent, tokens", "LSTM cells"),
    ("normalisation, vectors", "written by hand"),
    ("normalisation, images", "group"),
    ("products, vectors", "quotient"),
    ("products, vectors", "matrix with itself"),
]
SLOW = [
    ("attention, tokens", "cross"),
    ("gates, vectors", "highway"),
    ("recurrent, tokens", "GRU cells"),
    ("normalisation, vectors", "layer, first"),
    ("normalisation, vectors", "to length 1"),
    ("products, vectors", "of three"),
    ("products, vectors", "softmax by hand"),
    ("products, vectors", "x / max(1, |x|)"),
]
BENT = [
    *(nn.ReLU(), nn.LeakyReLU(0.3), nn.PReLU(), nn.ELU(0.7), nn.SELU(), nn.CELU(0.5), nn.GELU()),
    *(nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Softplus(2.0), nn.Tanh(), nn.Sigmoid()),
    *(nn.Hardtanh(-0.5, 0.7), nn.ReLU6(), nn.Hardswish(), nn.Hardsigmoid(), nn.Softsign()),
    *(nn.Tanhshrink(), nn.Softshrink(0.3), nn.LogSigmoid()),
]
FUNCTIONS = [
    *(torch.exp, torch.square, torch.sin, torch.cos, torch.erf, torch.atan, torch.abs),
    *(lambda x: x**3, lambda x: x.clamp(-0.4, 0.9), lambda x: (x.square() + 0.1).sqrt()),
    *(lambda x: (x.square() + 0.1).log(), lambda x: (x.square() + 0.2).rsqrt()),
    *(lambda x: 1 / (x.square() + 0.2), lambda x: (x.square() + 0.5) ** 1.5),
    *(lambda x: x.softmax(-1), lambda x: x.amax(-1, keepdim=True) * x, lambda x: x.sigmoid() * x),
]


def local(module: nn.Module, example: Tensor, given: Any) -> LocalNetwork:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = kr.describe(module, example, inputs=given)
    assert isinstance(net, LocalNetwork)
    return net


@pytest.mark.parametrize(
    ("kind", "name"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_no_quotient_in_a_ball_is_above_its_constant(kind: str, name: str) -> None:
    torch.manual_seed(23)  # other weights than those of the benchmark
    module = modules()[kind][name]().eval()
    example = inputs(kind, module)
    radius = 0.1 * float(example.norm())
    net = local(module, example, kr.Ball(example[0], radius))
    found = steepest(module, example, radius, starts=4)
    assert 0 < found <= net.lipschitz() * (1 + 1e-6) < math.inf
    noise = torch.randn(20, *example.shape[1:], dtype=torch.float64)
    noise *= radius / noise.flatten(1).norm(dim=1).reshape(-1, *[1] * (example.ndim - 1))
    assert net.inside(example + noise).share == 1


@pytest.mark.parametrize("center", [-0.4, pytest.param(2.3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("function", [*BENT, *FUNCTIONS])
def test_slopes_of_a_function_on_a_box(function: Any, center: float) -> None:
    """Every quotient of a grid over each entry stays below the constant, and hits a good part."""
    for width in (0.05, 3.0):
        example = torch.full((1, 3), center)
        net = local(Of(function), example, kr.Box(center - width, center + width))
        points = torch.linspace(center - width, center + width, 4001, dtype=torch.float64)
        grid = example.double().repeat(len(points), 1)
        grid[:, 1] = points
        with torch.no_grad():
            module = function.double() if isinstance(function, nn.Module) else function
            values = module(grid)
        if isinstance(function, nn.Module):
            function.float()
        quotients = (values[1:] - values[:-1]).norm(dim=1) / (points[1] - points[0])
        assert float(quotients.max()) <= net.lipschitz() * (1 + 1e-6)
        assert net.inside(grid[::500]).share == 1


def test_a_constant_on_a_small_ball_is_the_slope_there() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.GLU(), nn.Linear(4, 2))
    example = torch.randn(1, 6)
    jacobian: Any = torch.autograd.functional.jacobian
    slope = float(torch.linalg.matrix_norm(jacobian(module, example).reshape(2, 6), 2))
    for radius, loose in ((1e-6, 1.0001), (1e-3, 1.02)):
        upper = local(module, example, kr.Ball(example[0], radius)).lipschitz()
        assert slope * (1 - 1e-5) <= upper <= slope * loose


def test_sets_hold_one_another() -> None:
    torch.manual_seed(1)
    module, example = Attention(), torch.randn(1, 3, 8)
    data = example + 0.1 * torch.rand(12, 3, 8)
    hull = local(module, example, data)
    box = local(module, example, kr.Box(data.amin(0), data.amax(0)))
    assert hull.lipschitz() <= box.lipschitz() * (1 + 1e-6)
    assert hull.inside(data).share == box.inside(data).share == 1
    radii = [local(module, example, kr.Ball(example[0], r)).lipschitz() for r in (0.01, 0.1, 1.0)]
    assert radii == sorted(radii)
    far = data.clone()
    far[:3] += 10
    assert hull.inside(far).share == 0.75
    assert hull.inside(far).layers["input"] == 0.75


def test_mixed_networks_are_tried_too() -> None:
    """A trained network far from the described one leaves the ranges, a near one does not."""
    torch.manual_seed(2)
    truth = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Sigmoid())
    example = torch.randn(1, 4)
    net = local(truth, example, kr.Ball(example[0], 0.5))
    near, far = copy.deepcopy(truth), copy.deepcopy(truth)
    with torch.no_grad():
        dict(far.named_parameters())["0.bias"].add_(3.0)
    data = example + 0.01 * torch.randn(10, 4)
    assert net.inside(data, near).share == 1
    assert net.inside(data, far).share == 0
    with pytest.raises(kr.KoriskError, match="same functions"):
        net.inside(data, nn.Linear(4, 6))


@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(3, 4, num_layers=2, bidirectional=True),
        nn.GRU(3, 4, batch_first=True),
        nn.RNN(3, 4, nonlinearity="relu"),
        nn.MultiheadAttention(3, 1),
    ],
)
def test_layers_written_out_are_torchs(module: nn.Module) -> None:
    x = torch.randn(5, 2, 3)
    written = layer(module)
    assert written is not None
    given = (x, x, x) if isinstance(module, nn.MultiheadAttention) else (x,)
    torch.testing.assert_close(written(module, *given)[0], module(*given)[0])


def test_a_dependent_part_keeps_its_name_and_parameters() -> None:
    net = local(Heads(2), torch.randn(1, 6, 8), kr.Ball(torch.zeros(6, 8), 0.1))
    assert [(part.name, part.kind) for part in net] == [("inner", "learned")]
    assert net.parameters == 4 * 8 * 8 + 4 * 8
    assert "ball of radius 0.1" in net["inner"].bracket.how
    assert "ball of radius 0.1" in net.condition


def test_what_has_no_constant_on_the_set_says_so() -> None:
    class Inverse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 1 / x

    assert local(Inverse(), torch.ones(1, 2), kr.Box(-0.5, 1.0)).lipschitz() == math.inf
    upper = local(Inverse(), torch.ones(1, 2), kr.Box(0.5, 1.0)).lipschitz()
    assert 4 <= upper <= 4.0001  # 1 / x^2


def test_a_rounded_center_stays_in_its_ball() -> None:
    """A center that single precision cannot hold moves, and the ball grows by as much."""
    center = torch.full((2,), 1 / 3, dtype=torch.float64)
    net = local(nn.Tanh(), torch.zeros(1, 2), kr.Ball(center, 1e-9))
    assert net.inside(center[None]).share == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "set of inputs"),
        (kr.Box(1.0, 0.0), "low"),
        (kr.Ball(torch.zeros(5), 1.0), "center"),
        (torch.zeros(1, 2), "at least two"),
        (kr.Box(0.0, math.inf), "finite"),
    ],
)
def test_what_is_no_set_is_refused(given: Any, words: str) -> None:
    with pytest.raises(kr.KoriskError, match=words):
        kr.describe(nn.Tanh(), torch.zeros(1, 2), inputs=given)


def test_a_ball_needs_a_radius() -> None:
    with pytest.raises(kr.KoriskError, match="radius"):
        kr.Ball(torch.zeros(2), 0.0)


def test_functions_with_several_values_are_followed() -> None:
    """Cross-attention of one value with another that depends on the input too."""

    def run(x: Tensor, one: nn.Module, two: nn.Module) -> Tensor:
        return F.scaled_dot_product_attention(one(x), two(x), x)

    torch.manual_seed(4)
    module, example = Of(run, nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(1, 5, 4)
    net = local(module, example, kr.Ball(example[0], 0.2))
    assert steepest(module, example, 0.2, starts=4) <= net.lipschitz() * (1 + 1e-6)


def test_the_page_shows_the_kept_results_and_none_is_unsound() -> None:
    kept = json.loads((RESULTS / "local.json").read_text())
    assert list(table(kept)) == (RESULTS / "local.txt").read_text().splitlines()
    assert len({(case["kind"], case["name"]) for case in kept["cases"]}) >= 40
    assert not [case for case in kept["cases"] if unsound(case)]
    assert statistics.median(case["upper"] / case["lower"] for case in kept["cases"]) <= 20
    page = (RESULTS.parents[1] / "docs" / "reference" / "describe.md").read_text()
    assert "results/local.txt\n" in page
    assert f"in {len(kept['cases'])} cases" in page
