"""describe: networks of every shape, what is learned in them, and what is refused."""

import copy
import io
import json
import math
import pickle
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from described import Of, slope_at, told, upper
from torch import Tensor, nn

import korisk as kr
from benchmarks.networks import describe as described
from korisk.errors import KoriskError
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.networks.describe import rules
from korisk.operators import Diagonal, Matrix, ParallelBeam, Projector, fbp

ROOT = Path(__file__).parents[2]
GEOMETRY = ParallelBeam(4, views=3, bins=6)
SINOGRAM = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))


def kinds(net: kr.Network) -> list[str]:
    return [layer.kind for layer in net]


def parameters(net: kr.Network) -> list[int | None]:
    return [layer.parameters for layer in net.learned]


def test_korisks_own_networks_have_their_own_numbers() -> None:
    known = KnownOperatorNet.from_fbp(fbp(GEOMETRY))
    dense = DenseNet((3, 6), (4, 4), matrix=torch.randn(16, 18))
    factored = DenseNet.factored(torch.randn(16, 3), torch.randn(3, 18), (3, 6), (4, 4))
    rebuilt = nn.Sequential(*fbp(GEOMETRY, trainable=True).layers, nn.ReLU())
    whole = nn.Sequential(fbp(GEOMETRY, trainable=True), nn.ReLU())
    for module, own in (
        (known, known),
        (dense, dense),
        (factored, factored),
        (rebuilt, known),
        (nn.Sequential(nn.Identity(), known), known),
    ):
        net, expected = kr.describe(module, SINOGRAM), own.describe()
        assert (kinds(net), parameters(net)) == (kinds(expected), parameters(expected))
        for form in kr.theory.BOUNDS:
            assert net.amplification(form) == pytest.approx(expected.amplification(form))
            found = kr.barron_bound(net, 100, bound=form)
            assert found.total == pytest.approx(kr.barron_bound(expected, 100, bound=form).total)
    # Consecutive operators keep themselves, so that the theory multiplies them.
    net = kr.describe(rebuilt, SINOGRAM)
    product = math.prod(layer.bracket.lower for layer in net.layers[1:])
    assert net.tails("composed")[0] < 0.9 * product
    assert kr.describe(known, SINOGRAM).names == ("W", "K", "A^T", "ReLU")
    assert kr.describe(whole, SINOGRAM).names == ("W", "K", "A^T", "1 ReLU")


def test_own_networks_inside_others_become_their_layers() -> None:
    known, known_names = KnownOperatorNet.from_fbp(fbp(GEOMETRY)), ("W", "K", "A^T", "ReLU")
    net = kr.describe(nn.Sequential(known, nn.Flatten(), nn.Linear(16, 3)), SINOGRAM)
    assert (net.names, parameters(net)) == (("W", "K", "A^T", "ReLU", "2 Linear"), [18, 51])
    assert net["W"].bracket.upper == known.weights.abs().max()
    matrix = torch.randn(4, 5)
    behind = nn.Sequential(nn.Linear(3, 5), DenseNet(5, 4, matrix=matrix))
    net = kr.describe(behind, torch.ones(1, 3))
    exact = torch.linalg.matrix_norm(matrix.double(), 2).item()
    assert net["M"].bracket.upper == pytest.approx(exact, rel=1e-9)
    known.weights.requires_grad_(False)
    assert kinds(kr.describe(known, SINOGRAM)) == ["known"] * 4
    known.weights.requires_grad_(True)
    net, _ = told(Of(lambda x, inner: inner(x) + inner(2 * x), known), SINOGRAM)
    assert net.names == ("W", "K", "A^T", "ReLU", "mul", *(f"{n} (2)" for n in known_names), "add")
    assert net.inputs_of("add") == ("ReLU", "ReLU (2)")
    assert net.lipschitz() <= 3 * known.describe().lipschitz() * known.weights.max().item() * 1.01
    several = KnownOperatorNet.from_fbp(fbp(GEOMETRY), runs=3)
    assert parameters(kr.describe(several, torch.ones(3, 2, 3, 6))) == [18]


def test_a_small_cnn() -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular"),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(36, 10),
        nn.LogSoftmax(1),
    )
    net = kr.describe(module, torch.randn(4, 1, 8, 8), name="small")
    # Dropout and Flatten are no layers; the padding is part of its convolution.
    names = "0 Conv2d, 1 BatchNorm2d, 2 ReLU, 4 MaxPool2d, 6 Linear, 7 LogSoftmax"
    assert (", ".join(net.names), parameters(net), net.name) == (names, [40, 8, 370], "small")
    assert net["0 Conv2d"].bracket.how.startswith("present weights: ")
    assert math.isfinite(kr.barron_bound(net, 100, bound="paper").total)


def block(width: int) -> Of:
    parts = nn.Linear(width, 16), nn.Linear(16, width)
    return Of(lambda x, one, two: x + two(F.relu(one(x))), *parts)


def test_a_residual_mlp_shows_every_layer_and_what_it_takes() -> None:
    module = nn.Sequential(block(8), nn.Tanh(), block(8), nn.Linear(8, 1))
    net, words = told(module, torch.randn(3, 8))
    assert (len(net), parameters(net), words) == (10, [144, 136, 144, 136, 9], "")
    assert net.inputs_of("0.add") == ("input", "0.parts.1 Linear")
    assert net.inputs_of("2.add") == ("1 Tanh", "2.parts.1 Linear")
    assert net.inputs_of("2.ReLU") == ("2.parts.0 Linear",)
    for path in (0, 2):
        parts: Any = module[path].parts
        inner = [torch.linalg.matrix_norm(part.weight.double(), 2) for part in parts]
        (whole,) = (part for part in net.compositions if part.last == f"{path}.add")
        assert whole.first == f"{path}.parts.0 Linear"
        assert whole.bracket.upper <= 1 + (inner[0] * inner[1]).item() * (1 + 1e-9)
        assert 0 < whole.bracket.upper < math.inf


def test_a_unet_shows_every_layer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = runpy.run_path(str(ROOT / "examples" / "describe_unet.py"))
    module, example = script["factory"]()
    net, words = told(module, example)
    names = (
        "W, K, A^T, unet.first, unet.ReLU, unet.pool, unet.middle, unet.ReLU (2), unet.up, "
        "unet.cat, unet.last"
    )
    assert (", ".join(net.names), parameters(net), words) == (names, [288, 40, 148, 73], "")
    assert sum(p for p in parameters(net) if p) == sum(p.numel() for p in module.parameters())
    assert net.inputs_of("unet.cat") == ("unet.ReLU", "unet.up")
    middle = module.unet.middle.double()
    inner = upper(middle, torch.ones(1, 4, 8, 8).double())
    up = upper(module.unet.up, torch.ones(1, 4, 8, 8))
    # Concatenation: the root of the sum of squares of both ways.
    (whole,) = (part for part in net.compositions if part.last == "unet.cat")
    assert whole.bracket.upper <= math.hypot(1, inner * up) * (1 + 1e-6)
    monkeypatch.setattr(kr, "describe", lambda *_, **__: net)  # the same network, seconds later
    script["main"]()
    out = capsys.readouterr().out
    assert "unet.cat" in out
    assert out.count("learned") == 4


def unrolled(y: Tensor, A: Projector, clean: nn.Module, own: Any) -> Tensor:
    """Gradient steps on |A x - y|^2 with a learned step, the operator used in both directions."""
    x = A.adjoint(y) * own.step
    for _ in range(2):
        x = x - own.step * A.T(A(x) - y)
    return clean(x.unsqueeze(1)).squeeze(1)  # type: ignore[no-any-return]


def test_korisk_operators_inside_a_module() -> None:
    module = Of(unrolled, Projector(GEOMETRY), nn.Conv2d(1, 1, 3, padding=1), nn.Module())
    module.parts[2].step = nn.Parameter(torch.tensor(0.01))
    net, words = told(module, SINOGRAM)
    operators = [name for name in net.names if name.startswith("A")]
    assert operators == ["A^T", "A", "A^T (2)", "A (2)", "A^T (3)"]
    assert parameters(net) == [1, 1, 1, 10]  # the step errs at every pass,
    assert net.parameters == 11  # and counts once
    assert net.inputs_of("sub") == ("input", "A")
    assert "shared" in words
    assert net.replace("A (2)", kr.Learned("dense", parameters=9, lipschitz=1)).parameters == 20
    assert slope_at(module, SINOGRAM[:1]) <= net.lipschitz() * (1 + 1e-5)
    chain = Of(lambda y, A, clean: clean(A.adjoint(y)[:, None]), *module.parts[:2])
    net = kr.describe(chain, SINOGRAM)
    assert net.names == ("A^T", "parts.1 Conv2d")
    assert isinstance(
        net.layers[0].lipschitz, kr.theory.HasNorm
    )  # asked only when a bound needs it


def test_the_functions_of_the_module_are_recorded_in_loops_and_branches() -> None:
    def forward(x: Tensor, linear: nn.Module) -> Tensor:
        for _ in range(2):
            x = linear(x).tanh()
        return -x if x.sum() > 100 else 2 * x

    net, words = told(Of(forward, nn.Linear(4, 4)), torch.ones(1, 4))
    assert net.names == ("parts.0 Linear", "tanh", "parts.0 Linear (2)", "tanh (2)", "mul")
    assert "branches on the values" in words


def test_frozen_parameters_are_known() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4).requires_grad_(False))
    assert kinds(kr.describe(module, torch.ones(1, 4))) == ["learned", "known", "known"]
    partly = nn.Linear(4, 4)
    partly.weight.requires_grad_(False)
    assert parameters(kr.describe(partly, torch.ones(1, 4))) == [4]
    (layer,) = kr.describe(nn.Flatten(), torch.ones(1, 2, 3))
    assert (layer.kind, layer.bracket.upper) == ("known", 1)
    (layer,) = kr.describe(Diagonal(torch.tensor([1.0, -4.0]), trainable=True), torch.ones(1, 2))
    assert (layer.name, layer.kind, layer.bracket.upper) == ("W", "learned", 4)


def test_known_linear_layers_in_a_row_are_composed() -> None:
    torch.manual_seed(0)
    frozen = [nn.Linear(6, 6).requires_grad_(False) for _ in range(3)]
    module = nn.Sequential(nn.Linear(6, 6), *frozen[:2], nn.Flatten(), frozen[2], nn.ReLU())
    net = kr.describe(module, torch.ones(1, 6))
    product = frozen[2].weight @ frozen[1].weight @ frozen[0].weight
    exact = torch.linalg.matrix_norm(product.double(), 2).item()
    assert exact <= net.tails("composed")[0] <= 1.011 * exact
    assert net.tails("paper")[0] > 1.2 * exact
    learned = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    assert kr.describe(learned, torch.ones(1, 6)).compositions == ()


def test_shared_weights_err_at_every_use_and_are_named() -> None:
    linear, act = nn.Linear(4, 4), nn.PReLU()
    module = nn.Sequential(linear, act, linear, act)
    net, words = told(module, torch.ones(1, 4))
    assert net.names == ("0 Linear", "1 PReLU", "0 Linear (2)", "1 PReLU (2)")
    # The theorem adds the error of each use, so each needs the p of what it uses.
    assert parameters(net) == [20, 1, 20, 1]
    assert "20 by 0 Linear and 0 Linear (2), 1 by 1 PReLU and 1 PReLU (2)" in words
    assert "21 different parameters are trained" in words
    assert [layer.shared for layer in net.learned] == [0, 0, 20, 1]
    assert net.parameters == 21 == sum(part.numel() for part in module.parameters())
    assert math.isfinite(kr.barron_bound(net, 10).total)
    tied = Of(lambda x, one: F.linear(torch.relu(one(x)), one.weight.t()), nn.Linear(4, 3))
    net, words = told(tied, torch.ones(1, 4))
    assert parameters(net) == [15, 12]
    assert "15 different parameters" in words
    assert net.parameters == 15
    twice = Of(lambda x, one: one(x) + one(2 * x), linear)
    net, words = told(twice, torch.ones(1, 4))
    assert (parameters(net), net.parameters) == ([20, 20], 20)
    # Within one layer a weight counts once.
    gated = Of(lambda x, one: one(x) * one(2 * x), linear)
    net, words = told(gated, torch.ones(1, 4))
    assert parameters(net) == [20]
    assert "shared" not in words


def test_weights_that_are_computed_count_by_what_they_come_from() -> None:
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))
    net = kr.describe(normed, torch.ones(1, 5))
    assert parameters(net) == [5 * 3 + 3 + 3]  # direction, length, bias
    exact = torch.linalg.matrix_norm(normed.weight.detach().double(), 2).item()
    assert net.layers[0].bracket.upper == pytest.approx(exact, rel=1e-9)

    module = Of(lambda x, own: torch.relu(x * own.gains.abs() + own.offset), nn.Module())
    module.parts[0].gains = nn.Parameter(torch.tensor([1.0, -3.0]))
    module.parts[0].offset = nn.Parameter(torch.zeros(2))
    net = kr.describe(module, torch.ones(1, 2))
    assert net.names == ("parts.0.gains", "parts.0.offset", "ReLU")
    assert ([layer.bracket.upper for layer in net], parameters(net)) == ([3, 1, 1], [2, 2])


def test_marks_say_what_parameters_do_not() -> None:
    inner = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 4))
    known = kr.mark_known(inner, mismatch=0.25, name="physics")
    assert known is inner
    assert not any(p.requires_grad for p in inner.parameters())
    learned = kr.mark_learned(nn.MultiheadAttention(4, 1), lipschitz=2.0, parameters=7)
    attend = Of(lambda x, a: a(x, x, x)[0], learned)
    net = kr.describe(nn.Sequential(known, attend, nn.Linear(4, 1)), torch.ones(1, 5, 4))
    assert (net.names[0], kinds(net)) == ("physics", ["known", "learned", "learned"])
    assert parameters(net) == [7, 5]
    physics = net["physics"]
    assert isinstance(physics, kr.Known)
    assert physics.mismatch == 0.25
    product = math.prod(
        torch.linalg.matrix_norm(p.double(), 2).item() for p in inner.parameters() if p.ndim == 2
    )
    assert physics.bracket.upper == pytest.approx(product, rel=1e-9)
    # A constant of all inputs together, and x is each of the three.
    assert net.layers[1].bracket.upper == pytest.approx(2 * math.sqrt(3))


def test_marks_survive_copies_pickles_and_state_dicts() -> None:
    module = nn.Sequential(nn.Linear(3, 3), kr.mark_known(nn.Linear(3, 3), lipschitz=7.0, name="B"))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    other = copy.deepcopy(module)
    other.load_state_dict(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).state_dict())
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded, other):
        net = kr.describe(again, torch.ones(1, 3))
        assert (kinds(net), net["B"].bracket.upper) == (["learned", "known"], 7)


def test_a_marked_operator_keeps_its_norm_and_thawed_parameters_are_warned_of() -> None:
    operator = kr.mark_known(Matrix(torch.eye(4)), mismatch=0.5, name="E")
    layer = kr.describe(nn.Sequential(nn.Linear(5, 4), operator), torch.ones(1, 5))["E"]
    assert layer == kr.Known("E", lipschitz=operator, mismatch=0.5)
    assert layer.bracket.upper == 1
    module = nn.Sequential(nn.Linear(3, 3), kr.mark_known(nn.Linear(3, 3))).requires_grad_(True)
    net, words = told(module, torch.ones(1, 3))
    assert kinds(net) == ["learned", "known"]
    assert "1 Linear: marked as known, but with parameters that require gradients" in words


def test_what_leaves_torch_is_taken_whole_and_sampled() -> None:
    def through_numpy(x: Tensor) -> Tensor:
        return torch.from_numpy(np.sin(3 * x.detach().numpy()))

    def by_value(x: Tensor) -> Tensor:
        return x / x.abs().max().item()

    def beside(x: Tensor) -> Tensor:
        y = 2 * x
        y.view(-1)[:2].mul_(3)
        return y

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return torch.from_numpy(2 * x.detach().numpy())

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return 1000 * gradient  # not its own

    def unreported(x: Tensor) -> Tensor:
        return x * torch.vmap(torch.exp)(x)  # as if times a constant, to who does not look

    functions: list[tuple[Callable[..., Any], float, float]] = [
        *((through_numpy, 2.0, 3.0), (by_value, 0.0, math.inf)),
        *((beside, 5.9, 6.1), (Doubled.apply, 1.99, 2.0), (unreported, 1.0, math.inf)),
    ]
    for function, low, high in functions:
        module = nn.Sequential(nn.Linear(4, 4), Of(function))
        net, words = told(module, torch.full((1, 4), 0.1))
        assert net.names == ("0 Linear", "1 Of"), function
        assert "1 cannot be followed inside" in words
        assert net["1 Of"].bracket.upper == math.inf
        assert net["1 Of"].bracket.how == "sampled, a lower estimate"
        assert low <= net["1 Of"].bracket.lower <= high


def test_what_is_missed_is_noticed_by_another_input() -> None:
    def hidden(x: Tensor) -> Tensor:
        with torch.no_grad():  # so that autograd does not know of it either
            return x * torch.vmap(torch.exp)(x)

    net, words = told(nn.Sequential(nn.Linear(4, 4), Of(hidden)), torch.ones(1, 4))
    assert (net.names, net.layers[0].bracket.upper) == (("Sequential",), math.inf)
    assert "its steps do not reproduce other outputs" in words


def test_a_compiled_module_is_what_it_was() -> None:
    class OptimizedModule(nn.Module):  # as torch.compile makes them, without loading it
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self._orig_mod = module

        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError

    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    net = kr.describe(OptimizedModule(plain), torch.ones(1, 4))
    assert repr(net) == repr(kr.describe(plain, torch.ones(1, 4)))
    inside = nn.Sequential(OptimizedModule(plain), nn.Tanh())
    assert parameters(kr.describe(inside, torch.ones(1, 4))) == [20]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_module_of_torch_jit_is_refused_unless_it_is_marked() -> None:
    jit: Any = torch.jit
    x, plain = torch.ones(2, 4), nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    makers: list[Callable[[], Any]] = [
        lambda: jit.trace(plain, x),
        lambda: jit.script(plain),
        lambda: jit.freeze(jit.script(plain)),  # no mode, no parameters
    ]
    for make in makers:
        for module, path in ((make(), "the module"), (nn.Sequential(make(), nn.Tanh()), "0")):
            with pytest.raises(
                KoriskError, match=rf"^{path} \(.*before it is scripted.*kr\.mark_known"
            ):
                kr.describe(module, x)
        marked = kr.mark_known(make(), lipschitz=2.0, name="K")
        assert repr(kr.describe(marked, x).layers) == "(Known('K', lipschitz=2.0),)"
        assert not any(weights.requires_grad for weights in marked.parameters())
        net, words = told(nn.Sequential(kr.mark_known(make(), name="K"), nn.Tanh()), x)
        assert net["K"].bracket.upper == math.inf
        assert "K; slopes were sampled" in words


def test_whole_numbers_jump() -> None:
    net, _ = told(Of(lambda x: 2 * x.argmax(-1, keepdim=True).float()), torch.randn(1, 4))
    assert net.layers[0].bracket.upper == math.inf
    assert net.layers[0].bracket.how == "gives whole numbers, so it jumps"


def test_writing_in_place_by_name_is_followed() -> None:
    def forward(x: Tensor) -> Tensor:
        x *= 2
        y = F.relu(x, inplace=True)
        y += x  # the same tensor by now
        return y.mul_(3)

    module = Of(forward)
    x = torch.randn(1, 5)
    kept = x.clone()
    net, _ = told(module, x)
    assert torch.equal(x, kept)
    assert net.lipschitz() == pytest.approx(12)


def test_the_module_is_left_as_it_was() -> None:
    noise = Of(lambda x: x + torch.rand(4))
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.ReLU(), noise)
    module[1].eval()
    module(torch.randn(3, 4)).sum().backward()
    seen: list[int] = []
    module[0].register_forward_hook(lambda *_: seen.append(1))
    flags = [part.training for part in module.modules()]
    gradients = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    state = {key: value.clone() for key, value in module.state_dict().items()}
    random = torch.get_rng_state()
    call = nn.Module.__call__
    with torch.inference_mode():
        net, words = told(module, torch.randn(3, 4, generator=torch.Generator().manual_seed(1)))
    assert net.layers[-1].bracket.upper == math.inf
    assert "4 cannot be followed inside (it is random, or changes with every call)" in words
    assert [part.training for part in module.modules()] == flags
    assert all(p.requires_grad for p in module.parameters())
    for parameter, before in zip(module.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, before)
    for key, value in module.state_dict().items():
        assert torch.equal(value, state[key])
    assert torch.equal(torch.get_rng_state(), random)
    assert nn.Module.__call__ is call
    assert len(module[0]._forward_hooks) == 1
    assert seen
    failing = Of(lambda x, linear: linear(x) @ torch.ones(7, 7), nn.Linear(4, 4))
    with pytest.raises(KoriskError, match="the module fails on the example of shape"):
        kr.describe(failing, torch.ones(1, 4))
    assert failing.training
    assert nn.Module.__call__ is call


def test_the_same_numbers_again_in_other_batches_and_precisions() -> None:
    module, x = nn.Sequential(nn.Conv1d(1, 2, 3), nn.GELU(), Of(torch.exp)), torch.randn(1, 1, 9)
    assert repr(told(module, x)[0]) == repr(told(module, x)[0])
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
    one = kr.describe(module, torch.ones(1, 6)).tails().tolist()
    assert kr.describe(module, torch.ones(9, 6)).tails().tolist() == one
    single = upper(module, torch.ones(1, 6))
    assert upper(module.double(), torch.ones(1, 6).double()) == pytest.approx(single)


def attention(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x)


ONES, SEQUENCE, LINEAR = torch.ones(1, 4), torch.ones(1, 3, 4), nn.Linear(4, 4)
REFUSED: list[tuple[Any, Any, str]] = [
    (nn.LSTM(4, 4), SEQUENCE, r"LSTM.*gates.*kr\.mark_learned\(module, lipschitz=\.\.\.\)"),
    (nn.TransformerEncoderLayer(4, 1), SEQUENCE, "no Lipschitz constant on unbounded"),
    (Of(attention), SEQUENCE, r"scaled_dot.*kr\.mark_known\("),
    (Of(lambda x, a: a(x, x, x)[0], nn.MultiheadAttention(4, 1)), SEQUENCE, "unbounded"),
    (Of(lambda x, e: e(x.long()), nn.Embedding(4, 4)), ONES, "describe the part behind"),
    (LINEAR, ONES.long(), "floating-point numbers, got torch.int64"),
    (LINEAR, ONES * 1j, "real floating-point numbers, got torch.complex64.*view_as_real"),
    (LINEAR, torch.eye(4).to_sparse(), "dense tensor.*got.*torch.sparse_coo"),
    (nn.Linear(4, 4, device="meta"), ONES, "holds no numbers"),
    (nn.LazyLinear(4), ONES, "or run it once"),
    (LINEAR, torch.ones(0, 4), "at least one sample"),
    (LINEAR, torch.full((1, 4), math.nan), "finite"),
    (LINEAR, torch.ones(2, 3), r"fails on the example of shape \(2, 3\): RuntimeError: "),
    (LINEAR, (ONES,), "one torch tensor.*wrap it"),
    (lambda x: x, ONES, "must be an nn.Module"),
    (Of(lambda x: (x, x)), ONES, "one tensor of floats, got tuple; wrap it"),
    (Of(lambda x: x > 0), ONES, "got torch.bool"),
    (Of(lambda x: torch.ones(3)), ONES, "does not depend on its input"),
    (Of(torch.log), -ONES, "returns NaN or infinity for the example"),
    (kr.mark_learned(nn.ReLU()), ONES, r"no parameters; give kr\.mark_learned\(module, para"),
    (
        Of(lambda x, b: x * b(x), kr.mark_known(nn.Linear(4, 4), mismatch=0.1)),
        *(ONES, "mismatch= is in a part that is one layer"),
    ),
]


@pytest.mark.parametrize(("module", "example", "says"), REFUSED)
def test_refused_in_one_line(module: Any, example: Any, says: str) -> None:
    with pytest.raises(KoriskError, match=says) as caught:
        kr.describe(module, example)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        (lambda: kr.mark_known(3), "only an nn.Module"),  # type: ignore[type-var]
        (lambda: kr.mark_known(LINEAR, lipschitz=-1.0), "lipschitz must be a finite number >= 0"),
        (lambda: kr.mark_known(LINEAR, mismatch=-1.0), "mismatch must be"),
        (lambda: kr.mark_learned(LINEAR, parameters=0), "parameters must be a whole number >= 1"),
        (lambda: kr.mark_learned(LINEAR, name=""), "name must be a printable text"),
    ],
)
def test_wrong_marks_are_refused_where_they_are_made(mark: Callable[[], Any], says: str) -> None:
    with pytest.raises(KoriskError, match=says):
        mark()


def test_the_constants_of_the_page_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "reference" / "describe.md").read_text()
    for constant in (rules.GELU, rules.GELU_TANH, rules.SILU, rules.MISH):
        assert f"{constant:.5f}" in page
    assert f"{rules.SELU:.4f}" in page


def test_what_the_page_says_of_graphs_was_measured() -> None:
    results = ROOT / "benchmarks" / "results"
    kept = json.loads((results / "describe.json").read_text())
    page = (ROOT / "docs" / "reference" / "describe.md").read_text()
    assert described.table(kept) == (results / "describe.txt").read_text().splitlines()
    assert "results/describe.txt\n" in page
    assert (kept["unsound"], kept["hidden"]) == (0, 0)
    assert all(case["lower"] <= case["upper"] * (1 + 1e-5) for case in kept["cases"])
    assert sum(case["kind"] != "random graphs" for case in kept["cases"]) >= 60
    assert sum(case["kind"] == "random graphs" for case in kept["cases"]) >= 200
    attack = json.loads((results / "attack.json").read_text())
    assert attack["unsound"] == []
    assert f"Against {attack['modules']} random modules" in page
    # Deep networks of ReLUs are the loosest: kept is how much of it slopes alone cannot avoid.
    free = [case for case in kept["cases"] if case["free"] is not None]
    assert {case["kind"] for case in free} == {"ResNets", "four unrolled passes"}
    assert all(case["free"] <= case["upper"] * (1 + 1e-9) for case in free)
