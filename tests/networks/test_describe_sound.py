"""No certified upper end lies below the true constant: the cases in which one could."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from described import Of, draw, slope_at, told, upper
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import korisk as kr
from korisk.errors import KoriskError
from korisk.networks import DenseNet
from korisk.operators import Matrix

fft: Any = torch.fft
linalg: Any = torch.linalg


def pairs(value: Tensor) -> Tensor:
    return torch.view_as_real(value)


MATRIX = draw(6, 6, seed=3)
IMAGINARY = torch.complex(0.1 * MATRIX, MATRIX)
SMALL = 0.01 * draw(1, 6, seed=4)
ONES, TENS = torch.ones(6).double(), 10 * torch.ones(6).double()

# Functions of x with shape (1, 6), the point where they are steep, and whether they have a rule.
STEEP: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, bool]] = {
    "complex matrix": (lambda x: pairs(x.to(torch.complex128) @ IMAGINARY), draw(1, 6), True),
    "sparse matrix": (lambda x: (MATRIX.to_sparse() @ x.T).T, draw(1, 6), True),
    "complex tanh": (lambda x: torch.complex(SMALL, x).tanh().imag, 1 + draw(1, 6), False),
    "complex abs": (lambda x: torch.complex(x, 2 * x).abs(), draw(1, 6), True),
    "linalg.norm": (lambda x: linalg.norm(x, ord=1, dim=1), draw(1, 6), False),
    "linalg.norm 2": (lambda x: linalg.norm(x, ord=2, dim=1), draw(1, 6), True),
    "norm by place": (lambda x: torch.norm(x, 1), draw(1, 6), False),
    "irfft of reals": (lambda x: fft.irfft(x, norm="forward"), draw(1, 6), True),
    "irfft": (lambda x: fft.irfft(torch.complex(x[:, :3], x[:, 3:])), draw(1, 6), True),
    "irfft forward": (
        lambda x: fft.irfft(torch.complex(x[:, :3], x[:, 3:]), norm="forward"),
        *(draw(1, 6), True),
    ),
    "rfft": (lambda x: pairs(fft.rfft(x)), draw(1, 6), True),
    "torch.batch_norm": (
        lambda x: torch.batch_norm(x, TENS, ONES, ONES, 0.01 * ONES, False, 0.1, 1e-5, False),
        *(draw(1, 6), False),
    ),
    "torch.instance_norm": (
        lambda x: torch.instance_norm(
            x[:, :, None], TENS, ONES, ONES, 0.01 * ONES, False, 0.1, 1e-5, False
        ),
        *(draw(1, 6), False),
    ),
    "inner elu": (lambda x: torch._C._nn.elu(x, 1.0, 3.0, 2.0), draw(1, 6), False),
    "elu": (lambda x: F.elu(input=x, alpha=4.0), torch.full((1, 6), -1e-9).double(), True),
    "batch norm's bias": (
        lambda x: F.batch_norm(0 * draw(3, 6, 2), ONES, 100 * ONES, None, x[0]),
        *(draw(1, 6), False),
    ),
    "batch norm in training": (
        lambda x: F.batch_norm(x.reshape(1, 2, 3), 0 * ONES[:2], 100 * ONES[:2], training=True),
        *(torch.full((1, 6), 0.5).double() + 1e-6 * draw(1, 6), True),
    ),
    "bias of linear": (lambda x: F.linear(SMALL, SMALL.T @ SMALL, x), draw(1, 6), True),
    "other by name": (
        lambda x: torch.sub(other=2 * x, input=torch.relu(x), alpha=-3),
        *(draw(1, 6).abs(), True),
    ),
    "input by name": (lambda x: torch.add(input=x, other=3.0, alpha=2), draw(1, 6), True),
    "constant by name": (lambda x: torch.add(other=x, input=ONES, alpha=2), draw(1, 6), True),
    "second times alpha": (lambda x: torch.sub(x.tanh(), x, alpha=-3), SMALL, True),
    "maximum of two": (
        lambda x: torch.maximum(x, x.flip(1)),
        *(torch.arange(6.0).double()[None], True),
    ),
    "spread maximum": (lambda x: torch.maximum(x[:, :1], SMALL), 5 + draw(1, 6).abs(), False),
    "clamped constant": (lambda x: torch.clamp(SMALL, min=x[:, :1]), 5 + draw(1, 6).abs(), False),
    "softplus": (lambda x: F.softplus(x, threshold=1), draw(1, 6), False),
    "dilated windows": (
        lambda x: F.max_pool1d(x[:, None], 2, stride=2, dilation=2),
        *(torch.tensor([[0.0, 0, 9, 0, 1, 0]]).double(), True),
    ),
    "stride of no numbers": (lambda x: F.max_pool1d(x[:, None], 2, stride=()), draw(1, 6), True),
    "chosen entries of two": (lambda x: torch.where(MATRIX > 0, x, x.T.sin()), *(SMALL, True)),
    "constant of its type": (lambda x: x - SMALL.to(x), draw(1, 6), True),
    "constant type_as": (lambda x: x * MATRIX[:1].type_as(x), draw(1, 6), True),
    "constant of its shape": (
        lambda x: x + ONES.view_as(x) + SMALL[:, :1].expand_as(x),
        *(draw(1, 6), True),
    ),
    "ends of its type": (lambda x: x.clamp(-ONES.to(x), TENS.to(x)), 1 + draw(1, 6).abs(), True),
    "type and shape of another": (
        lambda x: (3 * x[0]).to(x.tanh()).view_as(x.sin()) + x,
        *(draw(1, 6), True),
    ),
    "bits": (lambda x: x.view(torch.float32).double(), draw(1, 6), False),
    "drowned": (
        lambda x: F.conv1d(x[:, None], 1e-9 * MATRIX[:2, None, :3], 1e8 * ONES[:2]),
        *(draw(1, 6), False),
    ),
}


@pytest.mark.parametrize("name", STEEP)
def test_the_upper_end_holds_where_the_function_is_steepest(name: str) -> None:
    function, point, has_rule = STEEP[name]
    found = upper(Of(function), point)
    assert slope_at(Of(function), point) <= found * (1 + 1e-6)
    assert math.isfinite(found) is has_rule


ACTS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu, "leaky": lambda x: F.leaky_relu(x, -0.5), "gelu": F.gelu,
    "elu": lambda x: F.elu(x, 2.0), "selu": F.selu, "sin": torch.sin,
    "softmax": lambda x: 4 * x.softmax(1), "maximum": lambda x: torch.maximum(x, x.flip(1)),
    "mish": F.mish, "hardswish": F.hardswish,
    "where": lambda x: torch.where(MATRIX[:1] > 0, x.tanh(), x.flip(1).relu()),
    "pool": lambda x: F.max_pool1d(x[:, None], 3, stride=1, padding=1)[:, 0],
}  # fmt: skip


FAST = ("relu", "gelu", "softmax", "maximum")  # a bend, a curve, and two that mix entries


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in ACTS]
)
def test_the_constant_of_a_whole_graph_holds_and_is_below_the_sum_over_paths(name: str) -> None:
    act, weights = ACTS[name], [0.5 * draw(6, 6, seed=seed) for seed in range(5)]

    def forward(x: Tensor) -> Tensor:
        one = act(x @ weights[0])
        two = x + act(one @ weights[1])
        three = act(torch.cat([one, two], 1) @ torch.cat(weights[2:4]))
        return two - act(three @ weights[4])

    module = Of(forward)
    net, words = told(module, draw(1, 6))
    assert (words, net.inputs_of("cat")) == ("", (net.inputs_of("cat")[0], "add"))
    steepest = max(slope_at(module, size * draw(1, 6, seed=9)) for size in (0.1, 1, 10))
    for seed in range(20):
        steepest = max(steepest, slope_at(module, 2 * draw(1, 6, seed=seed)))
    assert steepest <= net.lipschitz() * (1 + 1e-9)
    assert net.lipschitz() < 0.7 * net.lipschitz("minkowski")


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_normalisation_of_16_bits_and_of_one_entry(kind: torch.dtype) -> None:
    norm, zero = nn.RMSNorm(6).to(kind), torch.zeros(1, 6, dtype=kind)
    small = zero.clone()
    small[0, 0] = 1e-4
    with torch.no_grad():
        slope = float((norm(small) - norm(zero)).float().norm() / small.float().norm())
    assert slope <= upper(norm, torch.ones(1, 6, dtype=kind))
    assert upper(nn.LayerNorm(1), torch.ones(1, 4, 1)) == 0  # one entry normalised is constant
    assert upper(nn.LayerNorm(2), torch.ones(1, 4, 2)) > 100


COARSER: dict[str, Callable[[Tensor], Tensor]] = {
    "half": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16().reshape(1, -1).float(),
    "to": lambda x: 2 * x.to(torch.float16).float(),
    "a sum": lambda x: (x.half() + x.half().relu()).float(),
    "a constant": lambda x: torch.cat([x.bfloat16(), torch.ones(1, 6).bfloat16()], 1).float(),
}


@pytest.mark.parametrize("name", COARSER)
def test_rounding_to_a_coarser_precision_jumps(name: str) -> None:
    function = COARSER[name]
    ones, steepest = torch.ones(1, 6), 0.0
    for step in range(200):  # short steps, some of them across a step of the coarser precision
        x, y = ones + step * 2**-14, ones + (step + 1) * 2**-14
        steepest = max(steepest, float((function(y) - function(x)).norm() / (y - x).norm()))
    net, words = told(Of(function), ones)
    assert net.lipschitz() > steepest > 4  # without rounding it were 2 at most
    assert "in one precision" in words


def test_an_example_of_the_same_precision_allows_for_its_rounding() -> None:
    def finite(kind: torch.dtype, other: torch.dtype) -> bool:
        net, _ = told(Of(lambda x: 2 * x.to(other).to(kind)), torch.ones(1, 6, dtype=kind))
        return math.isfinite(net.lipschitz())

    half, brain, single, double = torch.float16, torch.bfloat16, torch.float32, torch.float64
    assert all(finite(kind, kind) for kind in (half, brain, single, double))
    assert all(finite(*pair) for pair in ((half, single), (brain, single), (single, double)))
    # One of the two has fewer digits, the other a smaller range.
    assert not any(finite(*pair) for pair in ((double, single), (half, brain), (brain, half)))


def test_constants_are_those_of_the_time() -> None:
    def decaying(x: Tensor) -> Tensor:
        step = torch.tensor(5.0)
        for _ in range(2):
            x, step = torch.tanh(step * x), step.mul_(0.1)
        return x

    def branching(x: Tensor) -> Tensor:
        return decaying(x) if x.sum() < 100 else x

    for function in (decaying, branching):
        net, _ = told(Of(function), torch.ones(1, 4))
        assert [layer.bracket.upper for layer in net] == pytest.approx([5, 1, 0.5, 1])
    # Another way that another input takes is no fault.
    net, words = told(Of(lambda x: 2 * x if x.sum() == 4 else x.exp()), torch.ones(1, 4))
    assert net.lipschitz() == 2
    assert "branches on the values" in words


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.new_tensor(x.detach()) if x.sum() < 100 else x,
        lambda x: x * unseen(x) if x.sum() < 100 else x,
        lambda x: x * unseen(x),
    ],
)
def test_a_hidden_product_is_found_on_the_way_that_others_take_too(
    function: Callable[[Tensor], Tensor],
) -> None:
    assert upper(Of(function), torch.ones(1, 4)) == math.inf


def unseen(x: Tensor) -> Tensor:
    with torch.no_grad():  # so that autograd does not know of it
        return torch.vmap(torch.exp)(x)


class Fading(nn.Module):
    """A scale that falls with every call."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(10.0))
        self.calls, self.last = 0, None

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale
        self.scale.mul_(0.5)
        self.calls, self.last, self.seen = self.calls + 1, y, y  # type: ignore[assignment]
        return y


OWN = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    "module",
    [
        Fading(),
        Of(lambda x: x * torch.rand(1, 4)),
        Of(lambda x: F.dropout(x, 0.5)),
        Of(lambda x: x * torch.bernoulli(0 * x + 0.5)),
        Of(lambda x: x * torch.bernoulli(torch.full((1, 4), 1e-9))),  # alike in most runs
        Of(lambda x: x * torch.rand(1, 4, generator=OWN)),
        Of(lambda x: torch.nn.init.trunc_normal_(x.clone(), generator=OWN) + x),
    ],
    ids=["state", "factor", "dropout", "drawn", "seldom", "own factor", "own numbers"],
)
def test_what_differs_from_call_to_call_has_an_open_end(module: nn.Module) -> None:
    net, words = told(nn.Sequential(nn.Linear(4, 4), module), torch.ones(1, 4))
    assert net.layers[-1].bracket.upper == math.inf
    assert "1 cannot be followed inside (it is random, or changes with every call)" in words
    assert net.layers[-1].bracket.lower <= 2  # of what is drawn, or nothing
    stated = nn.Sequential(nn.Linear(4, 4), kr.mark_known(module, lipschitz=4.0))
    for seed in range(6):  # some draw the same twice
        torch.manual_seed(seed)
        assert math.isfinite(upper(stated, torch.ones(1, 4)))
    assert upper(nn.Dropout(), torch.ones(1, 4)) == 1


def test_what_a_run_changes_is_put_back() -> None:
    module = Fading()
    told(module, torch.ones(1, 4))
    assert (float(module.scale), module.calls, module.last) == (10, 0, None)
    assert not hasattr(module, "seen")
    copy.deepcopy(module)
    sparse = Of(lambda x, kept: (kept.matrix @ x.T).T, nn.Module())
    sparse.parts[0].register_buffer("matrix", torch.eye(4).to_sparse())
    assert upper(sparse, torch.ones(1, 4)) == pytest.approx(1, rel=0.01)
    norm = nn.BatchNorm1d(4)
    told(Of(lambda x, n: F.batch_norm(x, n.running_mean, n.running_var, training=True), norm), ROWS)
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == [0] * 4

    def clipped(x: Tensor, linear: nn.Linear) -> Tensor:
        linear.weight.data.clamp_(-0.1, 0.1)
        linear.register_forward_hook(lambda *_: None)
        return linear(x)  # type: ignore[no-any-return]

    linear = nn.Linear(4, 4)
    before = linear.weight.detach().clone()
    told(Of(clipped, linear), torch.ones(1, 4))
    assert torch.equal(linear.weight, before)
    assert not linear._forward_hooks


ROWS = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def test_a_large_offset_hides_nothing() -> None:
    def hidden(x: Tensor) -> Tensor:
        y = x.clone()
        y.data.mul_(5)
        return y + 1e4

    def only_here(x: Tensor) -> Tensor:
        return hidden(x) if x.sum() == 4 else x.exp()

    assert upper(Of(only_here), torch.ones(1, 4)) == math.inf
    net, words = told(Of(hidden), ROWS[:1])
    assert net.lipschitz() == math.inf
    assert "reproduce its output" in words


class Tenfold(DenseNet):
    def forward(self, x: Tensor) -> Tensor:
        return 10 * super().forward(x)


class Recurrent(nn.RNN):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)[0] * 50


class Stretched(Matrix):
    def forward(self, x: Tensor) -> Tensor:
        return 10 * super().forward(x)


def hooked(module: nn.Module) -> nn.Module:
    module.register_forward_hook(lambda _, __, y: 7 * y)
    return module


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tenfold(6, 6, matrix=MATRIX), lambda: Recurrent(6, 3).double(),
        lambda: Stretched(MATRIX), lambda: hooked(Matrix(MATRIX)),
        lambda: nn.Sequential(kr.mark_known(hooked(Matrix(MATRIX)))),
        lambda: nn.Sequential(kr.mark_known(hooked(nn.Identity()))),
        lambda: kr.mark_known(Stretched(MATRIX)),
        lambda: kr.mark_learned(Tenfold(6, 6, matrix=MATRIX)),
        lambda: Of(lambda x, a: a(a(x)), kr.mark_known(hooked(Matrix(MATRIX)))),
    ],
)  # fmt: skip
def test_what_a_user_adds_to_a_module_counts(make: Callable[[], nn.Module]) -> None:
    module = make()
    points = [draw(1, 6, seed=seed) for seed in range(3)]
    assert max(slope_at(module, x) for x in points) <= upper(module, points[0]) * (1 + 1e-6)


class Outside(Matrix):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(10 * super().forward(x).detach().numpy())


def test_an_operator_that_leaves_torch_has_not_its_own_norm() -> None:
    for module in (Outside(MATRIX), kr.mark_known(Outside(MATRIX))):
        (layer,) = told(module, draw(1, 6))[0]
        assert layer.bracket.upper == math.inf
        assert layer.bracket.lower > Matrix(MATRIX).norm().upper


class Join(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sin() * y.sin()


@pytest.mark.parametrize(
    ("function", "stated", "expected"),
    [
        (lambda x, join: join(x, x), math.sqrt(2), 2),
        (lambda x, join: x + join(x, x), math.sqrt(2), 3),
        (lambda x, join: join(x, 2 * x), 3.0, 3 * math.hypot(1, 2)),
        (lambda x, join: join(x, 2 * x), None, math.inf),
    ],
)
def test_a_stated_constant_is_one_of_all_inputs_together(
    function: Callable[..., Tensor], stated: float | None, expected: float
) -> None:
    module = Of(function, kr.mark_known(Join(), lipschitz=stated, name="S"))
    net, _ = told(module, torch.ones(1, 4))
    assert any("S" in name for name in net.names)
    assert net.lipschitz() == pytest.approx(expected)


class Scale(nn.Module):
    def __init__(self, **mark: Any) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.ones(4))
        self.times = kr.mark_known(Times(), **mark)

    def forward(self, x: Tensor) -> Tensor:
        return self.times(x, self.gains)  # type: ignore[no-any-return]


class Times(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y * self.own


def test_a_trained_argument_of_a_marked_module_counts() -> None:
    (layer,) = told(Scale(lipschitz=1.0), torch.ones(1, 4))[0]
    assert isinstance(layer, kr.Learned)
    assert layer.parameters == 4
    thawed = Scale(lipschitz=1.0).requires_grad_(True)
    net, words = told(thawed, torch.ones(1, 4))
    assert net.parameters == 4
    assert "marked as known, but with parameters" in words
    with pytest.raises(KoriskError, match="a trained tensor is passed to it; freeze"):
        kr.describe(Scale(lipschitz=1.0, mismatch=0.1), torch.ones(1, 4))
    inside = nn.Sequential(kr.mark_known(nn.Linear(4, 4), mismatch=0.1), nn.Linear(4, 4))
    with pytest.raises(KoriskError, match="or inside another that is marked"):
        kr.describe(kr.mark_learned(inside), torch.ones(1, 4))


def test_stated_parameters_count_once_for_each_module() -> None:
    stated = kr.mark_learned(nn.Linear(4, 4), parameters=7)
    twice = Of(lambda x, one: x + one(torch.relu(one(x))), stated)
    assert told(twice, torch.ones(1, 4))[0].parameters == 7
    for module, p in ((stated, 7), (kr.mark_learned(nn.Linear(4, 4).requires_grad_(False)), 20)):
        net, _ = told(nn.Sequential(module, nn.ReLU(), module), torch.ones(1, 4))
        assert ([layer.shared for layer in net.learned], net.parameters) == ([0, p], p)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_checkpoints_count_what_weights_come_from(reentrant: bool) -> None:
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))
    module = Of(lambda x, one: checkpoint(one, x, use_reentrant=reentrant), normed)
    assert told(module, torch.ones(1, 5))[0].parameters == 5 * 3 + 3 + 3


def test_replacing_a_first_use_counts_its_weights_at_the_next() -> None:
    linear, other = nn.Linear(4, 4), nn.Linear(4, 4)
    module = nn.Sequential(linear, nn.ReLU(), other, nn.ReLU(), linear, nn.ReLU(), linear)
    net, _ = told(module, torch.ones(1, 4))
    first, second, third, fourth = (layer.name for layer in net.learned)
    assert net.parameters == net.replace(first).parameters == net.replace(third).parameters == 40
    assert net.replace(second).parameters == 20
    assert net.replace(first).replace(third).parameters == 40
    assert net.replace(first).replace(third).replace(fourth).parameters == 20


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_cast_to_real_numbers_drops_the_imaginary_part_in_the_norm_of_the_whole_too() -> None:
    module = Of(lambda x: (torch.complex(x, x).to(torch.float64) * torch.tensor(1 - 1j)).imag)
    assert slope_at(module, SMALL) <= upper(kr.mark_known(module), SMALL) * (1 + 1e-6)


class Count(nn.Module):
    """How many entries are large, as a number of Python."""

    def forward(self, x: Tensor) -> Any:
        return (x > 2).sum().item()


class Large(nn.Module):
    """The large entries."""

    def forward(self, x: Tensor) -> Tensor:
        return x[x > 2]


COUNTS: dict[str, Callable[[Any], Any]] = {
    "nonzero": lambda x: len((x > 2).nonzero()),
    "where": lambda x: len(torch.where(x > 2)[0]),
    "unique": lambda x: x.clamp(min=2).unique().numel(),
    "masked_select": lambda x: x.masked_select(x > 2).numel(),
    "mask": lambda x: SMALL[:, x[0] > 2].shape[1],
    "bincount": lambda x: len((x[0] > 2).long().bincount()),
    "slice": lambda x: len(x[0, : (x > 2).sum()]),
    "expand": lambda x: len(ONES[:1].expand((x > 2).sum())),
    "number of a module": Count(),
    "size of a module": lambda x: len(Large()(x)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_values_that_leave_as_a_size_or_a_number_open_the_end(name: str) -> None:
    module = Of(lambda x: x * (1 + COUNTS[name](x)))
    assert slope_at(module, torch.tensor([[3.0, 4, 5, 6, 7, 8]])) > 1.5
    assert upper(module, SMALL) == math.inf


def test_entries_that_a_constant_mask_selects_are_followed() -> None:
    module = Of(lambda x: 3 * x[:, ONES > 0] + x[:, : len(ONES)])
    assert slope_at(module, SMALL) <= upper(module, SMALL) * (1 + 1e-6) < 4.1


def energy(x: Tensor, linear: nn.Module) -> Tensor:
    with torch.enable_grad():
        x = x if x.requires_grad else x.clone().requires_grad_()
        return torch.autograd.grad(linear(x).exp().sum(), x, create_graph=True)[0]


@torch.inference_mode()
def inferring(x: Tensor, linear: nn.Module) -> Any:
    return linear(x)


@pytest.mark.parametrize("function", [energy, inferring])
def test_what_runs_but_cannot_be_recorded_is_sampled(function: Callable[..., Any]) -> None:
    module = Of(function, nn.Linear(4, 4))
    net, words = told(nn.Sequential(module, nn.Tanh()), torch.ones(1, 4))
    assert net.layers[0].bracket.upper == math.inf
    assert net.layers[0].bracket.lower > 0
    assert net.parameters == 20
    assert "cannot be followed inside" in words
    if function is inferring:  # found to be the one that cannot be followed
        assert net.names == ("0 Of", "1 Tanh")
    marked = nn.Sequential(kr.mark_learned(module), nn.Tanh())
    assert told(marked, torch.ones(1, 4))[0].layers[0].bracket.upper == math.inf
