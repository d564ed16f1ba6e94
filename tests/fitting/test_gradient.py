"""Training by gradients: against PyTorch's optimisers, alone and together."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.fitting import Recipe, draw_batches, train
from korisk.fitting.gradient.recipe import OptimiserName, released_generator
from korisk.fitting.gradient.stack import alone
from korisk.fitting.gradient.train import Training
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.operators import Matrix, ParallelBeam, fbp

GEOMETRY = ParallelBeam(8, views=6, bins=10)
SAMPLES = 12
RATES: dict[OptimiserName, float] = {"adam": 1e-2, "adagrad": 5e-2, "sgd": 2e-1}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def data(samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    return draw(samples, 6, 10, seed=1), draw(samples, 8, 8, seed=2).abs()


def net(**options: Any) -> KnownOperatorNet:
    return KnownOperatorNet.from_fbp(fbp(GEOMETRY, dtype=torch.float64), **options)


def recipe(optimiser: OptimiserName = "adagrad", **others: Any) -> Recipe:
    settings: dict[str, Any] = {"steps": 20, "batch": 3, **others}
    settings.setdefault("rate", RATES.get(optimiser))
    return Recipe(optimiser=optimiser, **settings)


def batches(of: Recipe, samples: int = SAMPLES, seed: int = 1) -> Tensor:
    return draw_batches(samples, of.batch, of.steps, released_generator(seed))


def fit(network: nn.Module, by: Recipe, **options: Any) -> Tensor:
    """Trained on the usual pool and batches, unless there are others."""
    x, y = options.pop("pool", None) or data()
    return train(network, x, y, by, **{"indices": batches(by), **options})


EACH = [recipe("adam"), recipe("adagrad"), recipe("sgd")]
each = pytest.mark.parametrize("by", EACH, ids=lambda by: by.optimiser)


@pytest.mark.parametrize(("samples", "batch"), [(4, 4), (3, 4), (2048, 4), (1, 1), (7, 1)])
def test_batches_are_those_of_one_call_an_iteration(samples: int, batch: int) -> None:
    drawn = draw_batches(samples, batch, 50, released_generator(3))
    generator = torch.Generator().manual_seed(3001)
    for row in drawn:
        alone = torch.randint(0, samples, (min(batch, samples),), generator=generator)
        assert torch.equal(row, alone)
    assert drawn.shape == (50, min(batch, samples))


def reference(network: nn.Module, x: Tensor, y: Tensor, by: Recipe, indices: Tensor) -> Tensor:
    """A plain loop with PyTorch's own optimiser and gradients."""
    kinds: dict[str, Any] = {
        "adam": lambda p: torch.optim.Adam(p, by.rate),
        "adagrad": lambda p: torch.optim.Adagrad(p, by.rate),
        "sgd": lambda p: torch.optim.SGD(p, by.rate),
    }
    optimiser = kinds[by.optimiser](network.parameters())
    losses = []
    for chosen in indices:
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(network(x[chosen]), y[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Flatten(1), nn.Linear(60, 5), nn.Tanh(), nn.Linear(5, 64)
    return nn.Sequential(*layers, nn.Unflatten(1, (8, 8))).double()


@each
@pytest.mark.parametrize("build", [net, lambda: net(relu=False), perceptron])
def test_networks_train_as_with_pytorch(by: Recipe, build: Callable[[], nn.Module]) -> None:
    ours, theirs, start = build(), build(), build()
    expected = reference(theirs, *data(), by, batches(by))
    done = fit(ours, by, indices=None, generator=released_generator(1))
    torch.testing.assert_close(done, expected, rtol=1e-11, atol=0)
    for one, other, first in zip(*(n.parameters() for n in (ours, theirs, start)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
        assert (one - first).abs().max() > 1e-2


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("runs", [None, 3])
def test_the_gradient_written_out_is_that_of_autograd(relu: bool, runs: int | None) -> None:
    network = net(runs=runs, relu=relu)
    network.weights.data += draw(*network.weights.shape, seed=5)
    lead = runs or 1, 4
    x, y = draw(*lead, 6, 10), draw(*lead, 8, 8, seed=1)
    for factor in (1, 0):  # without weights the image is zero: the corner of the ReLU
        network.weights.data *= factor
        losses, (written,) = alone(network).gradients(x, y)
        expected = (network(x) - y).square().flatten(1).mean(1)
        (recorded,) = torch.autograd.grad(expected.sum(), network.weights)
        torch.testing.assert_close(losses, expected.detach(), rtol=1e-13, atol=0)
        torch.testing.assert_close(written, recorded, rtol=1e-12, atol=1e-15)
        assert not written.requires_grad


@each
def test_each_run_evolves_as_it_would_alone(by: Recipe) -> None:
    sizes, (x, y), weights = [3, 5, SAMPLES], data(), draw(3, 6, 10, seed=7)
    columns = [batches(by, samples=size) for size in sizes]
    tail = fbp(GEOMETRY, dtype=torch.float64).layers[1:]
    together = KnownOperatorNet(weights, tail)
    side_by_side = fit(together, by, indices=torch.stack(columns, 1))
    assert side_by_side.shape == (20, 3)
    for run, size in enumerate(sizes):
        single = KnownOperatorNet(weights[run], tail)
        own = fit(single, by, pool=(x[:size], y[:size]), indices=columns[run])
        ours = [side_by_side, together.weights.detach().movedim(0, -1)]
        theirs = [own, single.weights.detach()]
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one[..., run], other, rtol=1e-12, atol=1e-12)


def test_a_convex_problem_is_solved() -> None:
    tail, x, y = draw(20, 12) / 4, draw(30, 12, seed=1), draw(30, 20, seed=2)
    gram = (tail.t() @ tail) * (x.t() @ x)
    best = torch.linalg.solve(gram, ((y @ tail) * x).sum(0))
    network = KnownOperatorNet(torch.zeros(12), Matrix(tail), relu=False)
    by = Recipe(optimiser="sgd", rate=4.0, steps=1500, batch=30)
    losses = train(network, x, y, by, indices=torch.arange(30).expand(1500, 30))
    torch.testing.assert_close(network.weights.detach(), best, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(losses[0], y.square().mean())


def normalised() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 3), nn.BatchNorm1d(6), nn.Linear(3, 10)).double()


def test_evaluation_leaves_the_mode_and_the_statistics_of_a_network_alone() -> None:
    ours, theirs, by = normalised(), normalised(), recipe("sgd")
    x, y = draw(SAMPLES, 6, 10), draw(SAMPLES, 6, 10, seed=1)
    reference(theirs, x, y, by, batches(by))
    train(ours, x, y, by, indices=batches(by))
    assert all(module.training for module in ours.modules())
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(value, theirs.state_dict()[name], rtol=1e-11, atol=1e-12)


def test_divergence_names_the_step_and_the_remedy() -> None:
    by, (x, y) = recipe("sgd", rate=1e40), data()
    losses = reference(net(relu=False), x, y, by, batches(by))
    first = int((~torch.isfinite(losses)).nonzero()[0]) + 1
    says = rf"not finite at step {first} of 20; lower the rate, now 1e\+40"
    with pytest.raises(KoriskError, match=says):
        train(net(relu=False), x, y, by, indices=batches(by))


def test_weights_that_diverge_in_the_last_step_are_found() -> None:
    by, (x, y) = recipe("sgd", steps=1, rate=1e308), data()
    with pytest.raises(KoriskError, match="at step 1 of 1"):
        train(net(), x * 1e3, y, by, indices=batches(by))


def test_progress_is_the_share_of_the_steps() -> None:
    shares: list[float] = []
    fit(net(), recipe(), progress=shares.append)
    assert shares == [1.0]


RUNS, FACTORED = net(runs=2), DenseNet.factored(draw(64, 2), draw(2, 60), (6, 10), (8, 8))
X, Y = data()
DRAWN, GENERATOR = batches(recipe()), torch.Generator()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"indices": None}, "either indices= or generator="),
        ({"generator": GENERATOR}, "either indices= or generator="),
        ({"indices": None, "generator": GENERATOR, "network": RUNS}, r"shape \(20, 2, 3\)"),
        ({"network": RUNS}, r"shape \(20, 2, 3\)"),
        ({"indices": DRAWN[:5]}, r"shape \(20, 3\)"),
        ({"indices": DRAWN + 10}, "from 0 to 11"),
        ({"indices": DRAWN - 10}, "from 0 to 11"),
        ({"indices": DRAWN.float()}, "int64"),
        ({"network": net().requires_grad_(False)}, "no weights to train"),
        ({"network": FACTORED}, "no weights to train"),
        ({"inputs": X.float()}, "float64"),
        ({"inputs": X[:5]}, "5 and 12"),
        ({"inputs": X * math.nan}, "inputs must be finite"),
        ({"targets": Y[:, :1]}, r"\(\.\.\., 8, 8\), got \(12, 1, 8\)"),
    ],
)
def test_a_wrong_training_is_refused_in_one_line(changed: dict[str, Any], says: str) -> None:
    usual: dict[str, Any] = {"network": net(), "inputs": X, "targets": Y, "indices": DRAWN}
    with pytest.raises(KoriskError, match=says) as caught:
        train(recipe=recipe(), **usual | changed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: recipe("adamw", rate=1), "one of adam, adagrad, sgd, got 'adamw'"),  # type: ignore[arg-type]
        (lambda: recipe(rate=0), "rate"),
        (lambda: recipe(steps=0), "steps"),
        (lambda: recipe(batch=1.5), "batch"),
        (lambda: recipe(cosine=True), "cosine"),
        (lambda: recipe(patience=11), "patience"),
        (lambda: draw_batches(0, 1, 1, GENERATOR), "samples"),
    ],
)
def test_a_wrong_recipe_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(KoriskError, match=says):
        make()


@pytest.mark.parametrize("captures", [True, False])
def test_eager_and_replayed_steps_make_up_the_whole(
    captures: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a graph that undoes a step when it is captured, and takes it when it is replayed."""
    by, network, plain = recipe("adam"), net(), net()
    stepper = Training(alone(network), data(), batches(by)[:, None], by)
    assert stepper.until_capture < 0  # there is nothing to capture on a CPU
    stepper.until_capture = 3
    graph = Mock()
    graph.replay.side_effect = stepper.step

    @contextmanager
    def capture(graph: Mock) -> Iterator[None]:
        changed = [network.weights.data, stepper.losses, stepper.iteration]
        changed += [tensor for memory in stepper.optimiser.state for tensor in memory]
        before = [tensor.clone() for tensor in changed]
        yield
        for tensor, kept in zip(changed, before, strict=True):
            tensor.copy_(kept)
        if not captures:
            raise RuntimeError("an operation is not permitted when a stream is capturing")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr("korisk.fitting.gradient.train.side_stream", nullcontext)
    for steps in (2, 7, 11):
        stepper.advance(steps)
    assert int(stepper.iteration) == 20
    assert graph.replay.call_count == (20 - 3 if captures else 0)
    done = fit(plain, by)
    assert torch.equal(stepper.losses[:, 0], done)
    assert torch.equal(network.weights, plain.weights)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@each
@pytest.mark.parametrize("dense", [False, True])
def test_a_captured_step_is_the_step(by: Recipe, dense: bool) -> None:
    x, y = (part.cuda() for part in data())

    def build() -> nn.Module:
        made = DenseNet((6, 10), (8, 8), relu=False).double() if dense else net()
        return made.cuda()

    replayed, launched, again = build(), build(), build()
    first = fit(replayed, by, pool=(x, y))
    losses = reference(launched, x, y, by, batches(by).cuda())
    torch.testing.assert_close(first, losses.cpu(), rtol=1e-9, atol=0)
    second = fit(again, by, pool=(x, y))
    assert torch.equal(second, first)
