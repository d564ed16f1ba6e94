"""History by gradients: against PyTorch's optimisers, alone and together."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.fitting import History, Recipe, draw_batches, train
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


def fit(network: nn.Module, by: Recipe, **options: Any) -> History:
    """Trained on the usual pool and batches, unless there are others."""
    x, y = options.pop("pool", None) or data()
    return train(network, x, y, by, **{"indices": batches(by), **options})


EACH = [recipe("adam"), recipe("adagrad"), recipe("sgd"), recipe("sgd", momentum=0.9)]
each = pytest.mark.parametrize("by", EACH, ids=lambda by: f"{by.optimiser}-{by.momentum:g}")


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
        "sgd": lambda p: torch.optim.SGD(p, by.rate, momentum=by.momentum),
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
    torch.testing.assert_close(done.losses, expected, rtol=1e-11, atol=0)
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


def numbers(done: History) -> list[Tensor]:
    """All that a training gives, the axis of runs last where there is one."""
    return [done.losses, *done.start, *done.late, *done.end]


@each
def test_each_run_evolves_as_it_would_alone(by: Recipe) -> None:
    sizes, (x, y), weights = [3, 5, SAMPLES], data(), draw(3, 6, 10, seed=7)
    columns = [batches(by, samples=size) for size in sizes]
    tail = fbp(GEOMETRY, dtype=torch.float64).layers[1:]
    together = KnownOperatorNet(weights, tail)
    side_by_side = fit(together, by, indices=torch.stack(columns, 1))
    assert side_by_side.losses.shape == (20, 3)
    for run, size in enumerate(sizes):
        single = KnownOperatorNet(weights[run], tail)
        own = fit(single, by, pool=(x[:size], y[:size]), indices=columns[run])
        ours = [*numbers(side_by_side), together.weights.detach().movedim(0, -1)]
        theirs = [*numbers(own), single.weights.detach()]
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one[..., run], other, rtol=1e-12, atol=1e-12)


def convex(steps: int, rate: float) -> tuple[History, Tensor, Tensor]:
    """A least-squares problem of 12 weights: the training, its weights, and the minimiser."""
    tail, x, y = draw(20, 12) / 4, draw(30, 12, seed=1), draw(30, 20, seed=2)
    gram = (tail.t() @ tail) * (x.t() @ x)
    best = torch.linalg.solve(gram, ((y @ tail) * x).sum(0))
    network = KnownOperatorNet(torch.zeros(12), Matrix(tail), relu=False)
    everything = torch.arange(30).expand(steps, 30)
    by = Recipe(optimiser="sgd", rate=rate, steps=steps, batch=30)
    done = train(network, x, y, by, indices=everything)
    return done, network.weights.detach(), best


def test_a_convex_problem_is_solved_and_called_so() -> None:
    done, weights, best = convex(1500, rate=4.0)
    torch.testing.assert_close(weights, best, rtol=1e-8, atol=1e-10)
    assert bool(done.converged)
    assert float(done.gradient_left) < 1e-8


def test_a_training_that_still_falls_is_called_so() -> None:
    done, weights, best = convex(20, rate=0.5)
    assert (weights - best).abs().max() > 1e-2
    assert not bool(done.converged)
    fall = (done.late.loss - done.end.loss) / done.late.loss
    assert float(done.improvement) == pytest.approx(float(fall), rel=1e-12)
    assert 0 < float(done.gradient_left) < 1
    # Every batch is the whole pool here, so mini-batch losses and evaluations must agree.
    torch.testing.assert_close(done.losses[0], done.start.loss)
    torch.testing.assert_close(done.losses[18], done.late.loss)


@pytest.mark.parametrize(
    ("steps", "rate"),
    [(50, 1e-7), (10, 1e-300), (10, 60.0)],  # the first changes the loss by less than 1e-6
)
def test_a_wrong_rate_is_not_called_converged(steps: int, rate: float) -> None:
    assert not bool(convex(steps, rate=rate)[0].converged)


@pytest.mark.parametrize("eps", [0, 2])
def test_a_start_at_the_minimum_is_called_converged(eps: int) -> None:
    x, network, by = data()[0], net(), recipe("sgd")
    targets = network(x).detach() * (1 + eps * torch.finfo(x.dtype).eps)  # right but for rounding
    assert bool(train(network, x, targets, by, indices=batches(by)).converged)
    assert torch.allclose(network.weights, net().weights, rtol=1e-12)  # batches round otherwise


def test_the_gradient_norm_is_that_of_the_mean_loss_over_the_samples() -> None:
    done, weights, _ = convex(5, rate=1.0)
    tail, x, y = draw(20, 12) / 4, draw(30, 12, seed=1), draw(30, 20, seed=2)
    for standing, w in ((done.start, torch.zeros(12, dtype=torch.float64)), (done.end, weights)):
        residual = (x * w) @ tail.t() - y
        gradient = 2 / residual.numel() * ((residual @ tail) * x).sum(0)
        torch.testing.assert_close(standing.loss, residual.square().mean())
        torch.testing.assert_close(standing.gradient, gradient.norm())


def test_each_of_several_runs_is_judged() -> None:
    done = fit(net(runs=2), recipe(), indices=torch.stack([batches(recipe())] * 2, 1))
    assert done.converged.tolist() == [False, False]


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
    assert shares == [18 / 20, 1.0]  # before the last tenth, and at the end


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
        (lambda: recipe("sgd", momentum=1), "below 1"),
        (lambda: recipe("adam", momentum=0.5), "belongs to optimiser='sgd'"),
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
    assert torch.equal(stepper.losses[:, 0], done.losses)
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
    torch.testing.assert_close(first.losses, losses.cpu(), rtol=1e-9, atol=0)
    second = fit(again, by, pool=(x, y))
    assert all(torch.equal(*pair) for pair in zip(numbers(second), numbers(first), strict=True))
