"""Brackets of described layers against exact Jacobians and sampled slopes."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from described import Of, draw, slope_at, told, upper
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from korisk.operators import DataConsistency, Diagonal, Fourier

FEW = settings(max_examples=settings().max_examples // 5)


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double()


def check_linear(module: nn.Module, x: Tensor, *, width: float = 0.011) -> None:
    """The bracket of the only layer holds the Jacobian's norm, and is narrow."""
    (layer,) = told(module, x)[0]
    exact = slope_at(module, x[:1])
    assert layer.bracket.lower <= exact * (1 + 1e-9)
    assert exact <= layer.bracket.upper * (1 + 1e-9)
    assert layer.bracket.upper <= layer.bracket.lower * (1 + width) + 1e-12


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nn.Module, Tensor]:
    dims = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 2]))
    inner, outer = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    size = draw(st.integers(5, 6)) if dims < 3 else 3
    kernel, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2)) if dims < 3 else 1
    stride = draw(st.integers(1, 3))
    transposed = draw(st.booleans())
    seed = draw(st.integers(0, 99))
    if transposed:
        kind: Any = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1]
        size = 4 if dims < 3 else 2
        extra: dict[str, Any] = {
            "output_padding": draw(st.integers(0, max(stride, dilation) - 1)),
            "padding": draw(st.integers(0, 1)),
        }
        length = (size - 1) * stride - 2 * extra["padding"] + dilation * (kernel - 1)
        assume(length + extra["output_padding"] >= 0)
    else:
        kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
        mode = draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]))
        extra = {"padding": draw(st.integers(0, 2 if dims < 3 else 1)), "padding_mode": mode}
    made = seeded(
        lambda: kind(
            inner, outer, kernel, stride=stride, dilation=dilation, groups=groups, **extra
        ),
        seed,
    )
    return made, torch.ones(1, inner, *[size] * dims, dtype=torch.float64)


@FEW
@given(convolutions())
def test_convolutions_hold_the_slope_at(case: tuple[nn.Module, Tensor]) -> None:
    check_linear(*case)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_upper_end_of_a_larger_convolution_is_certain(stride: int) -> None:
    module = seeded(lambda: nn.Conv2d(3, 4, 3, padding=1, stride=stride))
    (layer,) = told(module, torch.ones(1, 3, 64, 64, dtype=torch.float64))[0]
    assert "certain" in layer.bracket.how
    assert "probability" not in layer.bracket.how


@FEW
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_linear_layers_hold_the_slope_at(inner: int, outer: int, seed: int) -> None:
    module = seeded(lambda: nn.Linear(inner, outer), seed)
    check_linear(module, draw(2, inner), width=1e-9)
    check_linear(module, draw(1, 3, inner), width=1e-9)


@FEW
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 1), st.booleans(), st.integers(5, 8))
def test_average_pooling_holds_the_slope_at(
    kernel: int, stride: int, padding: int, ceil: bool, size: int
) -> None:
    padding = min(padding, kernel // 2)
    check_linear(nn.AvgPool2d(kernel, stride, padding, ceil_mode=ceil), draw(1, 2, size, 6))
    check_linear(nn.AdaptiveAvgPool2d((kernel, stride)), draw(1, 1, size, 7))


@pytest.mark.parametrize(
    "module",
    [
        nn.Upsample(scale_factor=2, mode="nearest"), nn.Upsample(scale_factor=2.5, mode="bilinear"),
        nn.Upsample(size=(3, 9), mode="bilinear", align_corners=True),
        nn.Upsample(scale_factor=2, mode="bicubic"), nn.Upsample(scale_factor=0.5, mode="area"),
        nn.ReflectionPad2d(2), nn.ConstantPad2d(1, 3.0), nn.Unfold(3, stride=2),
    ],
    ids=str,
)  # fmt: skip
def test_resampling_holds_the_slope_at(module: nn.Module) -> None:
    check_linear(module, draw(1, 2, 5, 6))


MATRIX = draw(6, 6, seed=3)


def written(into: Tensor, value: Tensor, columns: Any) -> Tensor:
    into[:, :, columns] = value
    return into


fft2: Any = torch.fft.fft2

NARROW: dict[str, Callable[[Tensor], Tensor]] = {
    "times a matrix": lambda x: x @ MATRIX, "a matrix times": lambda x: MATRIX @ x,
    "factor": lambda x: -2.5 * x, "factors": lambda x: x * MATRIX, "divided": lambda x: x / MATRIX,
    "minus": lambda x: 3 - x, "twice": lambda x: torch.add(x, x, alpha=-3),
    "reversed": lambda x: torch.rsub(x, MATRIX, alpha=4),
    "scaled sum": lambda x: torch.add(MATRIX, x, alpha=2),
    "beside constants": lambda x: 2 * torch.cat([x, x.new_ones(1, 6, 6)], 1),
    "rolled": lambda x: 2 * x.roll(1, 2).flip(1).transpose(1, 2),
    "spectrum": lambda x: torch.view_as_real(fft2(x)),
}  # fmt: skip
INDEX = torch.tensor([0, 1, 1, 0, 0, 0])
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **NARROW, "einsum": lambda x: torch.einsum("bij,jk->bk", x, MATRIX),
    "mean": lambda x: x.mean(-1), "sum": lambda x: x.sum((1, 2)), "cumsum": lambda x: x.cumsum(1),
    "spread": lambda x: x.mean((1, 2), keepdim=True) * MATRIX,
    "added to more": lambda x: x.mean(1) + MATRIX, "indexed": lambda x: x[:, [0, 0, 2, 0]],
    "masked": lambda x: x.masked_fill(MATRIX > 0, 0.0) * 2,
    "filled": lambda x: torch.where(MATRIX > 0, x, MATRIX), "repeated": lambda x: x.repeat(1, 3, 1),
    "expanded": lambda x: x.unsqueeze(1).expand(-1, 4, -1, -1),
    "written": lambda x: x.new_zeros(6, 6).copy_(x[0]) * 3,
    "scattered": lambda x: torch.zeros(1, 6, 2).double().index_add(2, INDEX, x),
    "filtered": lambda x: F.conv1d(x, MATRIX[:, :, None]),
    "into zeros": lambda x: written(x.new_zeros(1, 6, 8), x, slice(1, 7)),
    "into itself": lambda x: written(2 * x, x[:, :, :1], slice(2, 5)),
    "into a copy": lambda x: written(MATRIX[None].clone(), x[:, :, :3], [5, 0, 2]),
    "chosen": lambda x: x[:, :, torch.tensor([1, 0, 1, 1, 0, 0]).bool()] * 2,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_linear_functions_hold_the_slope_at(name: str) -> None:
    function, width, x = FUNCTIONS[name], 1e-8 if name in NARROW else 0.011, draw(1, 6, 6)
    layers = told(Of(function), x)[0].layers
    exact, above = slope_at(Of(function), x), upper(Of(function), x)
    assert exact <= above * (1 + 1e-9)
    assert math.isfinite(above)
    if len(layers) == 1:
        assert layers[0].bracket.lower <= exact * (1 + 1e-9)
        assert above <= layers[0].bracket.lower * (1 + width) + 1e-12


@FEW
@given(st.integers(0, 99), st.sampled_from(["sum", "cat", "sub", "chain", "stack", "nested"]))
def test_linear_blocks_hold_the_slope_at(seed: int, kind: str) -> None:
    def block(x: Tensor, one: nn.Module, two: nn.Module, three: nn.Module) -> Tensor:
        ways: dict[str, Callable[[], Tensor]] = {
            "sum": lambda: x + two(one(x)), "sub": lambda: one(x) - 2 * three(x),
            "cat": lambda: torch.cat([one(x), x, two(x)], 1),
            "stack": lambda: torch.stack([one(x), two(x)], 1), "chain": lambda: two(one(x)),
            "nested": lambda: (y := one(x)) + two(y + three(y)) - x,
        }  # fmt: skip
        return ways[kind]()

    def make() -> nn.Module:
        return Of(block, *(nn.Conv1d(2, 2, 3, padding=1) for _ in range(3)))

    module, x = seeded(make, seed), draw(1, 2, 5)
    net = told(module, x)[0]
    exact = slope_at(module, x)
    assert exact <= net.lipschitz() * (1 + 1e-9)
    if kind != "chain":  # by the norm of the whole
        assert net.lipschitz() <= exact * 1.011 + 1e-12


def test_a_value_that_is_spread_counts_as_often() -> None:
    module = Of(lambda x: x.tanh() + x[:, :1])
    net, _ = told(module, draw(1, 4))
    assert net["add"].bracket_of("input").upper == pytest.approx(math.sqrt(4))
    assert upper(module, draw(1, 4)) <= 1 + math.sqrt(4) + 1e-9
    assert 2.5 < slope_at(module, torch.zeros(1, 4, dtype=torch.float64)) <= 3


ONE = (
    *(nn.ReLU(), nn.LeakyReLU(0.3), nn.ELU(0.5), nn.CELU(0.3), nn.Softplus(beta=3)),
    *(nn.LogSigmoid(), nn.Tanh(), nn.Tanhshrink(), nn.Hardtanh(-0.5, 2), nn.ReLU6(), nn.Softsign()),
    *(nn.Softshrink(), nn.Threshold(1, 1), Of(torch.sin), Of(lambda x: x.clamp(-1, 2))),
    Of(lambda x: x.clamp(torch.zeros_like(x), torch.ones_like(x))),
    Of(lambda x: torch.where(x > 0, x, -0.3 * x)),
    Of(lambda x: torch.where(x < 2, 1.0 * x, torch.tensor(2.0).double())),
)
ACTIVATIONS: list[tuple[nn.Module, float]] = [
    *((module, 1) for module in ONE), (nn.LeakyReLU(-2.0), 2),
    (Of(lambda x: torch.where(x >= 0, -x, x * 3)), 3), (nn.PReLU(init=1.75), 1.75),
    (nn.ELU(2.5), 2.5), (nn.SELU(), 1.7580993408), (nn.SiLU(), 1.0998393201),
    (nn.GELU(), 1.1289041452), (nn.GELU(approximate="tanh"), 1.1289930687),
    (nn.Mish(), 1.0884981613), (nn.Sigmoid(), 0.25), (nn.Hardswish(), 1.5),
    (nn.Hardsigmoid(), 1 / 6), (Of(torch.erf), 2 / math.sqrt(math.pi)),
]  # fmt: skip


LINE = torch.linspace(-12, 12, 96_001, dtype=torch.float64).reshape(1, -1)


def slopes_of(module: nn.Module) -> Tensor:
    x = LINE.clone().requires_grad_()
    return torch.autograd.grad(module.double().eval()(x).sum(), x)[0]


@pytest.mark.parametrize(("module", "constant"), ACTIVATIONS, ids=str)
def test_activations_have_their_largest_slope(module: nn.Module, constant: float) -> None:
    steepest = float(slopes_of(module).abs().max())
    assert steepest == pytest.approx(constant, rel=1e-4)
    (layer,) = told(module, LINE[:, ::1000])[0]
    # torch's own derivative of Hardsigmoid has a slope of 1/6 in single precision.
    assert steepest <= layer.bracket.upper * (1 + 1e-7)
    assert layer.bracket.lower == pytest.approx(constant, rel=2e-9)  # sampled ones leave 1e-9
    assert layer.bracket.upper == pytest.approx(constant, rel=1e-9)


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(module, marks=[pytest.mark.slow] * (index % 4 != 3))
        for index, (module, _) in enumerate(ACTIVATIONS)
    ],
    ids=str,
)
def test_the_lowest_slope_counts_in_a_whole_graph(module: nn.Module) -> None:
    """Bounds of whole graphs take slopes as lying between the lowest and the largest."""
    slopes = slopes_of(module)
    largest, lowest = float(slopes.max()), float(slopes.min())
    turned = Of(lambda x: module(x) - largest * x)
    assert largest - lowest <= upper(turned, LINE[:, ::16000]) * (1 + 1e-6)


@pytest.mark.parametrize("entries", [2, 3, 7])
def test_softmax_and_its_logarithm_reach_their_constants(entries: int) -> None:
    even = torch.full((1, entries), -50.0, dtype=torch.float64)
    even[0, :2] = 0
    sure = torch.zeros(1, entries, dtype=torch.float64)
    sure[0, 0] = 50
    for module, worst in ((nn.Softmax(1), even), (nn.LogSoftmax(1), sure)):
        (layer,) = told(module, draw(1, entries))[0]
        assert layer.bracket.upper == pytest.approx(slope_at(module, worst), rel=1e-9)
    (layer,) = told(nn.Softmax(1), draw(1, 1))[0]
    assert layer.bracket.upper == 0


@pytest.mark.parametrize(
    "module",
    [
        nn.MaxPool2d(2), nn.MaxPool2d(3, stride=2, padding=1), nn.MaxPool2d((3, 2), stride=1),
        nn.MaxPool2d(2, stride=1, dilation=2), nn.AdaptiveMaxPool2d((3, 4)),
    ],
    ids=str,
)  # fmt: skip
def test_max_pooling_stretches_a_peak_as_often_as_windows_hold_it(module: nn.Module) -> None:
    (layer,) = told(module, draw(1, 1, 5, 5))[0]
    most = 0.0
    for place in range(25):
        peak = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
        peak.view(-1)[place] = 100
        most = max(most, slope_at(module, peak + 0.01 * draw(1, 1, 5, 5)))
    assert layer.bracket.lower <= most * (1 + 1e-9)
    assert most <= layer.bracket.upper * (1 + 1e-9)


def test_unit_vectors_are_steepest_near_zero() -> None:
    module = Of(lambda x: F.normalize(x, eps=0.01))
    (layer,) = told(module, draw(1, 6))[0]
    assert slope_at(module, 1e-3 * draw(1, 6)) == pytest.approx(layer.bracket.upper)
    assert "large" in layer.bracket.how


def flat_input(*shape: int) -> Tensor:
    return torch.full(shape, 0.7, dtype=torch.float64)


@pytest.mark.parametrize(
    ("module", "worst"),
    [
        (nn.LayerNorm(6), flat_input(1, 6)),
        (nn.LayerNorm((2, 3), eps=0.1), flat_input(1, 2, 3)),
        (nn.GroupNorm(2, 4), flat_input(1, 4, 3)),
        (nn.InstanceNorm1d(2, affine=True, eps=0.01), flat_input(1, 2, 5)),
        (nn.BatchNorm1d(3, track_running_stats=False), flat_input(1, 3, 4)),
        (nn.RMSNorm(5, eps=1e-3), torch.zeros(1, 5, dtype=torch.float64)),
    ],
    ids=str,
)
def test_normalisation_is_steepest_without_variance(module: nn.Module, worst: Tensor) -> None:
    for number, weight in enumerate(module.parameters()):
        weight.data = draw(*weight.shape, seed=number)
    module = module.double()
    (layer,) = told(module, worst + 1e-3 * draw(*worst.shape))[0]
    exact = slope_at(module, worst)
    assert layer.bracket.lower <= exact * (1 + 1e-9)
    assert exact <= layer.bracket.upper * (1 + 1e-9)
    assert "large" in layer.bracket.how
    elsewhere = slope_at(module, draw(*worst.shape))
    assert elsewhere <= layer.bracket.upper


def test_batch_norm_takes_its_running_statistics() -> None:
    module = nn.BatchNorm2d(3).double()
    assert module.running_var is not None
    module.running_var.copy_(torch.tensor([0.5, 2.0, 0.01]))
    module.weight.data.copy_(torch.tensor([3.0, -9.0, 0.1]))
    check_linear(module, draw(1, 3, 2, 2), width=1e-9)


@FEW
@given(
    st.lists(st.sampled_from(range(len(ACTIVATIONS) + 9)), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 999),
)
def test_no_upper_end_is_below_a_sampled_slope(
    chosen: list[int], residual: bool, seed: int
) -> None:
    """Random networks: steps along the steepest direction at random points stay below."""
    others: list[Callable[[], nn.Module]] = [
        lambda: nn.Conv1d(4, 4, 3, padding=1), lambda: nn.Linear(8, 8),
        lambda: nn.LayerNorm(8, eps=0.1), lambda: nn.BatchNorm1d(4),
        lambda: nn.MaxPool1d(3, stride=1, padding=1), lambda: nn.AvgPool1d(3, stride=1, padding=1),
        lambda: nn.Softmax(-1), lambda: nn.LogSoftmax(1),
        lambda: Of(lambda x: torch.maximum(x.flip(1), 2 * x)),
    ]  # fmt: skip

    def make() -> nn.Module:
        parts = [
            ACTIVATIONS[c][0] if c < len(ACTIVATIONS) else others[c - len(ACTIVATIONS)]()
            for c in chosen
        ]
        if not residual:
            return nn.Sequential(*parts)
        return Of(
            lambda x, inner: torch.cat([x - inner(x), inner(x).mean(1, True)], 1),
            nn.Sequential(*parts),
        )

    module = seeded(make, seed).eval()
    net = told(module, draw(1, 4, 8, seed=seed))[0]
    upper = net.lipschitz()
    assert math.isfinite(upper)
    for point in range(4):
        x = 2 * draw(1, 4, 8, seed=seed + point)
        assert slope_at(module, x) <= upper * (1 + 1e-6)  # see Hardsigmoid above
        y = x + draw(1, 4, 8, seed=point)
        with torch.no_grad():
            slope = float((module(x) - module(y)).norm() / (x - y).norm())
        assert slope <= upper * (1 + 1e-6)
    for layer in net:
        assert layer.bracket.lower <= layer.bracket.upper


@pytest.mark.parametrize(
    "function",
    [
        torch.exp, lambda x: x * x, lambda x: x @ x.transpose(1, 2),
        lambda x: x / (x.norm() + 1e-3), lambda x: torch.where(x > 0, x, x - 1), lambda x: 1 / x,
        lambda x: x * (x > 0), lambda x: F.normalize(x, p=1.0),
        lambda x: torch.where(x > 0.5, x, 2 * x), lambda x: torch.where(x > 0, x, x.exp() - 1),
        lambda x: F.grid_sample(MATRIX[None, None], x.reshape(-1, 4, 3, 2), align_corners=True),
        nn.Hardshrink(), nn.LPPool1d(2, 2), nn.RReLU(), nn.GLU(), nn.Threshold(0.1, 5.0),
    ],
)  # fmt: skip
def test_what_has_no_rule_is_a_lower_estimate(function: Callable[[Tensor], Tensor]) -> None:
    module, x = Of(function), draw(2, 4, 6)
    (layer,), words = told(module, x)
    assert "slopes were sampled, a lower estimate" in words
    assert layer.bracket.upper == math.inf
    # At least what the Jacobian at the example says, to the accuracy of finite steps.
    assert layer.bracket.lower >= 0.8 * slope_at(module, x[:1])


class Consistent(nn.Module):
    """Data consistency of x with fixed data, of a fixed image with x, or of both with x."""

    def __init__(self, layer: DataConsistency, of: str) -> None:
        super().__init__()
        self.layer, self.of = layer, of
        self.z, self.y = draw(1, *layer.operator.domain), draw(1, *layer.operator.range)

    def forward(self, x: Tensor) -> Tensor:
        z, y = x if "z" in self.of else self.z, x if "y" in self.of else self.y
        moved: Tensor = self.layer(z, y=y)
        return moved


def test_data_consistency_has_its_constant_in_the_image_in_the_data_and_in_both() -> None:
    fourier = Fourier((3, 4), [1, 0, 1, 1], real=True, dtype=torch.float64)
    for layer in (DataConsistency(fourier, 0.1), DataConsistency(fourier, 0.1, solver="factor")):
        check_linear(Consistent(layer, "z"), draw(1, 3, 4))
        check_linear(Consistent(layer, "y"), draw(1, 3, 4, 2))
    both = Consistent(DataConsistency(Diagonal(draw(5)), 0.1), "zy")
    assert slope_at(both, draw(1, 5)) <= upper(both, draw(1, 5)) * (1 + 1e-9)
