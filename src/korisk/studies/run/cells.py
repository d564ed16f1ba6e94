"""What one cell of a study computes: a point and a seed, every model at every training set size.

Where a study asks for the theorem, the errors of single layers are measured, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Module

from korisk._memory import free_memory
from korisk.errors import KoriskError
from korisk.fitting.gradient.many import Member, Schedule, train_many
from korisk.fitting.gradient.recipe import Recipe, Training, draw_batches, released_generator
from korisk.fitting.gradient.train import train
from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.dense import DenseRidge, kernel_bytes
from korisk.fitting.ridge.diagonal import DiagonalRidge, gram_bytes, gram_fits, tail_gram
from korisk.fitting.ridge.refinement import refine
from korisk.networks import KnownOperatorNet, RefinedNet, zoo
from korisk.operators import Composed, LinearOperator, Matrix, Tikhonov
from korisk.paper.theorem.deep import DeepProblem
from korisk.paper.theorem.layers import graph_errors, graph_network
from korisk.paper.theorem.networks import GraphProblem
from korisk.problems import Pools, Problem, measure
from korisk.problems.problem import Pairs, Reconstruction
from korisk.store.cells import LEFT_OUT, Result, Row, Task
from korisk.studies.run.worker import Report
from korisk.studies.spec.kinds import OF_GRADIENT, entries
from korisk.studies.spec.study import problem_of
from korisk.theory import Known, Layer, Learned, Network, NormBracket

_SLIGHT = 1e-6  # lambda of the weights that fit the test set, over the mean of the diagonal


def sum_of_squares(errors: Tensor) -> float:
    """E||e||^2: the mean over samples of the sum over entries, in float64."""
    return float(errors.double().square().flatten(1).sum(1).mean())


class KnownLayers:
    """The layers of ReLU(B W x), to measure networks of this kind by.

    With the true layers, or with the weights that fit the test set best.
    """

    def __init__(
        self,
        tail: Composed,
        truth: Reconstruction | None,
        test: Pairs,
        *,
        toward: Tensor,
        relu: bool,
        gram: Tensor | None,
    ) -> None:
        if truth is None:
            ridge = DiagonalRidge(tail, *test, toward=toward, relu=relu, gram=gram)
            training = ridge.training(len(test.inputs))
            weights = training.fit(penalty=_SLIGHT * training.scale).weights
            truth = Reconstruction(weights, tail.layers)
        self.weights, self.true_tail = truth  # W*, and the true operators
        described = KnownOperatorNet(self.weights, self.true_tail, relu=False).describe()
        self._names = described.names[1:]
        output = Composed(self.true_tail)(self.weights * test.inputs)
        self.left_out = sum_of_squares(test.targets - (output.relu() if relu else output))
        self._tail, self._relu, self._inputs = tail.layers, relu, test.inputs

    def network(self) -> Network:
        """The true network as the theory takes it."""
        front = KnownOperatorNet(self.weights, self.true_tail, relu=self._relu)
        last = Known(LEFT_OUT, lipschitz=NormBracket(1, 1, how="adds to its input"))
        return Network([*front.describe(), last], name="KO")

    def measure(self, weights: Tensor) -> dict[str, float]:
        """The errors of a network with these weights, by layer."""
        errors = {"W": sum_of_squares((self.weights - weights) * self._inputs)}
        z = weights * self._inputs
        for name, true, used in zip(self._names, self.true_tail, self._tail, strict=True):
            made = used(z)
            if true is not used and (missed := sum_of_squares(true(z) - made)):
                errors[name] = missed
            z = made
        return errors | {LEFT_OUT: self.left_out}


def dense_network(inputs: Tensor, targets: Tensor, *, relu: bool) -> Network:
    """The dense network: everything that it errs by is the error of its one learned layer."""
    count = math.prod(inputs.shape[1:]) * math.prod(targets.shape[1:])
    layers: list[Layer] = [Learned("M", parameters=count)]
    if relu:
        layers.append(Known("ReLU", lipschitz=NormBracket(1, 1, how="a ReLU's")))
    return Network(layers, name="FC")


def refined_network(truth: RefinedNet) -> Network:
    """The true network of `DeepProblem` as the theory takes it."""
    from korisk.networks.describe.describe import describe

    rows, columns = truth.front.range
    example = torch.zeros(1, 1, rows, columns, dtype=truth.weights.dtype)
    convolutions = describe(deepcopy(truth.refinement).to(example.device), example)
    upper = convolutions.lipschitz()
    count = sum(parameter.numel() for parameter in truth.refinement.parameters())
    bracket = NormBracket(0.0, upper, how="product of the norms of its convolutions")
    last = Learned("S", parameters=count, lipschitz=bracket)
    return Network([*truth.front.describe(), last], name="KO")


def refined_errors(truth: RefinedNet, network: RefinedNet, test: Pairs) -> dict[str, float]:
    """Errors of both learned parts.

    W / c and z -> S(c z) are the same network as W and S. Training fixes no c, and the theorem
    holds for any: the layers are taken with the c that brings W nearest to the true weights.
    """
    true, made = truth.weights * test.inputs, network.weights * test.inputs
    scale = float((made * made).double().sum() / (true * made).double().sum())
    images = network.front(test.inputs)
    return {
        "W": sum_of_squares(true - made / scale),
        "S": sum_of_squares(truth.refine(images / scale) - network.refine(images)),
    }


Fitted = tuple[Row, dict[str, NDArray[np.generic]]]

_LARGEST_DENSE = 2**24  # entries of an inverse that is kept as a matrix
_STARTS = (10.0, 1.0, 0.1)  # lambdas over the mean of the diagonal, for fits with the ReLU alone
_CLEARLY = 0.99  # of a score, below which another beats weights that have no noise of their own
_PART = 64  # inputs that a network takes at once outside of training
_PICTURES = 2  # test images whose reconstructions are kept


@dataclass(frozen=True)
class Bench:
    """What all seeds of a point share: the problem and its known operators."""

    problem: Problem
    kept: object  # what all pools share
    weights: Tensor  # analytic, of an input's shape
    tail: Composed
    gram: Tensor | None  # B^T B of the tail, where it was asked for and fits


@dataclass(frozen=True)
class Job:
    """One model of a cell, to be fitted at every size."""

    model: str
    sizes: list[int]
    settings: Mapping[str, Any]
    seed: int
    bench: Bench
    pools: Pools
    report: Report
    networks: dict[str, Network] | None  # where errors are measured layer by layer: filled by fits

    def each_size(self) -> Iterator[int]:
        """The sizes; each is reported as done when the next is asked for."""
        for at, n in enumerate(self.sizes):
            yield n
            self.report(sum(self.sizes[: at + 1]) / sum(self.sizes))

    @property
    def recipe(self) -> Recipe:
        """How networks are trained by gradients."""
        return Recipe(**{name: self.settings[name] for name in OF_GRADIENT})

    def trained(self, network: Module, n: int, indices: Tensor, at: int, shares: int) -> Training:
        """Train a network on the first n samples, as one of several equal shares of the work."""

        def progress(done: int, _: Tensor) -> None:
            self.report((at + done / self.recipe.iterations) / shares)

        inputs, targets = (pool[:n] for pool in self.pools.train)
        return train(network, inputs, targets, self.recipe, indices=indices, progress=progress)

    def row(
        self,
        n: int,
        predictions: Tensor,
        detail: dict[str, Any],
        weights: Tensor | None = None,
        errors: dict[str, float] | None = None,
    ) -> Fitted:
        """A row of the results, with arrays; `errors` are those of the layers."""
        targets = self.pools.test.targets
        kept: dict[str, NDArray[np.generic]] = {"images": _picture(predictions)}
        if weights is not None:
            kept["weights"] = weights.detach().cpu().numpy().astype(np.float32)
        if errors is not None:
            error = sum_of_squares(targets - predictions)
            detail = detail | {"theorem": {"error": error, "layers": errors}}
        if targets.ndim > 2:
            metrics = measure(predictions, targets)
        else:  # fields on a line: those metrics that need neither a maximum nor a window
            found = measure(predictions.unsqueeze(1), targets.unsqueeze(1))
            metrics = {name: found[name] for name in ("mse", "relative")}
        return Row(model=self.model, n=n, metrics=metrics, detail=detail), kept


@torch.no_grad()
def run_cell(task: Task, report: Report, *, device: str = "cpu") -> Result:
    """Fit every model at every size and measure it on the test set."""
    spec = task.spec
    with_gram = spec["models"].get("KO", {}).get("fit") == "ridge"
    bench = _bench(problem_of(spec), device, with_gram)
    samples = _samples(spec)
    entries = math.prod(bench.tail.range) + 2 * math.prod(bench.tail.domain)
    needed, free = samples * entries * bench.tail.dtype.itemsize, free_memory(bench.tail.device)
    if needed > free:
        raise KoriskError(
            f"{samples:,} images and sinograms take {needed / 2**30:,.1f} GiB, of "
            f"{free / 2**30:,.1f} GiB free; use fewer samples or smaller images"
        )
    train = spec["sizes"][-1]
    pools = bench.problem.pools(seed=task.seed, train=train, **spec["pools"], device=device)
    rows: list[Row] = []
    arrays: dict[str, NDArray[np.generic]] = {
        "truth": _picture(pools.test.targets),
        "sinograms": pools.test.inputs[:_PICTURES].cpu().numpy().astype(np.float32),
    }
    networks: dict[str, Network] = {}
    for at, (model, settings) in enumerate(spec["models"].items()):
        fits = _trained if "kind" in settings else _FITS[model, settings.get("fit", "ridge")]
        if model == "KO" and isinstance(bench.problem, DeepProblem):
            fits = _refined_gradient
        if model == "KO" and isinstance(bench.problem, GraphProblem):
            fits = _graph_gradient

        def share(fraction: float, at: int = at) -> None:
            report((at + fraction) / len(spec["models"]))

        checked = networks if spec.get("theorem") else None
        job = Job(model, spec["sizes"], settings, task.seed, bench, pools, share, checked)
        for row, kept in fits(job):
            rows.append(row)
            arrays |= {f"{model}/{row.n}/{name}": array for name, array in kept.items()}
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"
    detail: dict[str, Any] = {"device": name, "precision": str(bench.tail.dtype).split(".")[-1]}
    if networks:
        detail["networks"] = {model: network.to_dict() for model, network in networks.items()}
        detail["pixels"] = math.prod(pools.test.targets.shape[1:])
    return Result(rows=tuple(rows), arrays=arrays, detail=detail)


def memory_needed(spec: Mapping[str, Any]) -> int:
    """Bytes of a cell's samples and of its largest fit; libraries and projectors come on top."""
    problem = problem_of(spec)
    dtype = getattr(getattr(problem, "scanner", problem), "dtype", torch.float64)
    targets, inputs = entries(spec["problem"])
    fits = [0]
    for model, settings in spec["models"].items():
        if "kind" in settings:
            fits.append(_training_bytes(settings, targets, inputs, _samples(spec)))
        elif model == "FC":
            fits.append(kernel_bytes(spec["sizes"][-1]))
        elif settings["fit"] == "ridge":  # where it does not fit, products go through the operators
            gram = gram_bytes(inputs, dtype.itemsize)
            fits.append(gram if gram <= free_memory(torch.device("cpu")) else 0)
    return int(_samples(spec) * (targets + 2 * inputs) * dtype.itemsize + max(fits))


def _training_bytes(settings: Mapping[str, Any], targets: int, inputs: int, samples: int) -> int:
    """About what training a network of the zoo takes: samples, values of a batch, weights."""
    width, passes = settings["width"], settings.get("passes")
    values = 3 * 8 * width * targets if passes is None else 6 * width * passes * (targets + inputs)
    weights = 5 * inputs * targets if settings["kind"] == "dense-unet" else 0
    return int(4 * (samples * (inputs + targets) + settings["batch"] * values + weights))


def _samples(spec: Mapping[str, Any]) -> int:
    """The samples of all pools."""
    return int(spec["sizes"][-1] + sum(spec["pools"].values()))


@lru_cache(maxsize=1)
def _bench(problem: Problem, device: str, with_gram: bool) -> Bench:
    weights, tail = problem.reconstruction(device)
    operators: list[LinearOperator] = []
    for each in tail:
        small = math.prod(each.domain) * math.prod(each.range) <= _LARGEST_DENSE
        if isinstance(each, Tikhonov) and small:  # one matrix instead of a sparse product and more
            operators.append(Matrix(each.as_matrix(), each.domain, each.range, name=each.name))
        else:
            operators.append(each)
    composed = Composed(operators)
    gram = tail_gram(composed) if with_gram and gram_fits(composed) else None
    return Bench(problem, problem.prepared(device), weights, composed, gram)


# --- Fits ----------------------------------------------------------------------------------------


def _known_ridge(job: Job) -> Iterator[Fitted]:
    toward = job.bench.weights if job.settings["toward"] == "analytic" else None
    ridge = DiagonalRidge(
        job.bench.tail,
        *job.pools.train,
        toward=toward,
        relu=job.settings["relu"],
        gram=job.bench.gram,
    )
    test, analytic = job.pools.test, job.bench.weights
    errors = _known_errors(job)
    yield job.row(0, ridge.predict(analytic, test.inputs), {}, analytic, errors(analytic))
    scorer = Scorer(*(test if job.settings["select"] == "test" else job.pools.validation))
    for n in job.each_size():
        start = time.perf_counter()
        weights, detail = _known_fit(ridge, n, scorer, job.settings)
        detail["seconds"] = _seconds(start, weights)
        yield job.row(n, ridge.predict(weights, test.inputs), detail, weights, errors(weights))


def _known_errors(job: Job) -> Callable[[Tensor], dict[str, float] | None]:
    """What measures the layers of this network; None where the study does not ask for it."""
    if job.networks is None:
        return lambda weights: None
    bench, test = job.bench, job.pools.test
    layers = KnownLayers(
        bench.tail,
        bench.problem.truth(test.inputs.device),
        test,
        toward=bench.weights,
        relu=job.settings["relu"],
        gram=bench.gram,
    )
    job.networks["KO"] = layers.network()
    return layers.measure


def _known_fit(
    ridge: DiagonalRidge, n: int, scorer: Scorer, settings: Mapping[str, Any]
) -> tuple[Tensor, dict[str, Any]]:
    """Weights and what is kept beside them; the normal matrix is freed when this returns."""
    training = ridge.training(n)
    fit = training.fit(scorer=scorer, grid=settings.get("grid"))
    if not settings["refine"]:
        return fit.weights, fit.detail()
    detail, refined = fit.detail(), refine(fit, scorer, steps=settings["refine"])
    if ridge.relu and math.isinf(fit.penalty):
        # No fit without the ReLU was better than the analytic weights; one with it may be.
        for share in _STARTS:
            start = training.fit(penalty=share * training.scale)
            other = refine(start, scorer, steps=settings["refine"])
            if other.score_after < _CLEARLY * refined.score_after:
                detail, refined = detail | start.detail(), other
    return refined.weights, detail | refined.detail()


def _known_gradient(job: Job) -> Iterator[Fitted]:
    """All sizes side by side: the smaller training sets are the beginnings of the largest."""
    recipe = job.recipe
    test, analytic = job.pools.test, job.bench.weights
    make = partial(KnownOperatorNet, tail=job.bench.tail, relu=job.settings["relu"])
    errors = _known_errors(job)
    yield job.row(0, make(analytic)(test.inputs), {}, analytic, errors(analytic))
    # Batches of one group have one length; below `batch` samples each size has its own.
    groups = [[n] for n in job.sizes if n < recipe.batch]
    if large := [n for n in job.sizes if n >= recipe.batch]:
        groups.append(large)
    for group, sizes in enumerate(groups):
        start = time.perf_counter()
        drawn = [
            draw_batches(n, recipe.batch, recipe.iterations, released_generator(job.seed))
            for n in sizes
        ]
        network = make(analytic.expand(len(sizes), *analytic.shape))
        made = job.trained(network, job.sizes[-1], torch.stack(drawn, 1), group, len(groups))
        seconds = _seconds(start, network.weights)
        for at, n in enumerate(sizes):
            weights = network.weights.detach()[at]
            detail = _convergence(made, at) | {"seconds": seconds / len(sizes)}
            yield job.row(n, make(weights)(test.inputs), detail, weights, errors(weights))


def _convergence(made: Training, run: int = 0) -> dict[str, Any]:
    """How a training ended; `run` is its index where several ran side by side."""
    return {
        "converged": bool(made.converged.reshape(-1)[run]),
        "loss": float(made.end.loss.reshape(-1)[run]),
        "improvement_in_last_tenth": float(made.improvement.reshape(-1)[run]),
        "gradient_left": float(made.gradient_left.reshape(-1)[run]),
    }


def _dense_ridge(job: Job) -> Iterator[Fitted]:
    test, relu = job.pools.test, job.settings["relu"]
    ridge = DenseRidge(*job.pools.train, relu=relu)
    scorer = None
    if job.settings["select"] != "leave-one-out":
        judges = test if job.settings["select"] == "test" else job.pools.validation
        scorer = Scorer(*judges, by=job.settings["by"])
    for n in job.each_size():
        start = time.perf_counter()
        fit = ridge.training(n).fit(scorer=scorer, grid=job.settings.get("grid"))
        detail = fit.detail() | {"seconds": _seconds(start, ridge.targets)}
        errors = None
        if job.networks is not None:
            job.networks["FC"] = dense_network(*test, relu=relu)
            errors = {"M": sum_of_squares(test.targets - fit.product(test.inputs))}
        yield job.row(n, fit.predict(test.inputs), detail, errors=errors)


def _refined_gradient(job: Job) -> Iterator[Fitted]:
    """Two learned parts around the known operators, trained together, N after N."""
    problem, test = job.bench.problem, job.pools.test
    assert isinstance(problem, DeepProblem)
    truth = problem.true_network(test.inputs.device)
    if job.networks is not None:
        job.networks["KO"] = refined_network(truth)
    recipe = job.recipe
    for at, n in enumerate([0, *job.sizes]):
        start = time.perf_counter()
        generator = torch.Generator().manual_seed(job.seed)
        network = RefinedNet(
            job.bench.weights, job.bench.tail, channels=2 * problem.channels, generator=generator
        )
        detail: dict[str, Any] = {}
        if n:
            indices = draw_batches(n, recipe.batch, recipe.iterations, generator)
            made = job.trained(network, n, indices, at - 1, len(job.sizes))
            detail = _convergence(made) | {"seconds": _seconds(start, network.weights)}
        checked = job.networks is not None
        errors = refined_errors(truth, network, test) if checked else None
        yield job.row(n, network(test.inputs), detail, network.weights, errors)


def _trained(job: Job) -> Iterator[Fitted]:
    """A network of the zoo at all sizes, trained at once where the device allows."""
    settings, device = job.settings, job.pools.test.inputs.device
    known = job.bench.problem.known_operators(device)
    shape = {name: settings[name] for name in ("width", "levels", "passes") if name in settings}
    schedule = Schedule(**{name: settings[name] for name in ("steps", "batch", "rate")})
    inputs, targets = (torch.cat(parts).float() for parts in zip(*job.pools, strict=True))
    counts = [len(pool.inputs) for pool in job.pools]
    _, validation, test = torch.split(torch.arange(len(inputs), device=device), counts)
    networks = [zoo.build(settings["kind"], *known, seed=job.seed, **shape) for _ in job.sizes]
    front, _ = zoo.split_known(networks[0])  # the same for all of them
    learned = [zoo.split_known(network)[1] for network in networks]
    images = torch.cat([front(part) for part in torch.split(inputs, _PART)])
    members = [
        Member(
            f"{job.model} at N = {n}",
            network,
            job.seed,
            torch.arange(n, device=device),
            validation,
            test,
        )
        for n, network in zip(job.sizes, learned, strict=True)
    ]
    start, notes = time.perf_counter(), list[str]()
    with torch.enable_grad():
        list(train_many(members, images, targets, schedule, notes=notes, progress=job.report))
    detail: dict[str, Any] = {"seconds": _seconds(start, images) / len(members)}
    detail |= {"note": " ".join(notes)} if notes else {}
    for n, network in zip(job.sizes, learned, strict=True):
        network.eval()
        found = torch.cat([network(images[part]) for part in torch.split(test, _PART)])
        weights = sum(each.numel() for each in network.parameters())
        yield job.row(n, found, detail | {"parameters": weights})


@lru_cache(maxsize=2)
def _described(problem: GraphProblem, device: str) -> Network:
    """The true network of all seeds as the theory takes it."""
    example = torch.zeros(1, *problem.scanner.geometry.sinogram_shape, device=device)
    return graph_network(problem.true_network(device), example)


def _graph_gradient(job: Job) -> Iterator[Fitted]:
    """A network whose values take several ways, trained towards a true one of its shape."""
    problem, test = job.bench.problem, job.pools.test
    assert isinstance(problem, GraphProblem)
    truth = problem.true_network(test.inputs.device)
    if job.networks is not None:
        job.networks["KO"] = _described(problem, str(test.inputs.device))
    recipe = job.recipe
    for at, n in enumerate([0, *job.sizes]):
        start = time.perf_counter()
        network = problem.start(job.seed, test.inputs.device)
        detail: dict[str, Any] = {}
        if n:
            generator = torch.Generator().manual_seed(job.seed)
            indices = draw_batches(n, recipe.batch, recipe.iterations, generator)
            made = job.trained(network, n, indices, at - 1, len(job.sizes))
            detail = _convergence(made) | {"seconds": _seconds(start, made.end.loss)}
        errors = graph_errors(truth, network, test.inputs) if job.networks is not None else None
        yield job.row(n, network(test.inputs), detail, errors=errors)


_FITS: dict[tuple[str, str], Callable[[Job], Iterator[Fitted]]] = {
    ("KO", "ridge"): _known_ridge,
    ("KO", "gradient"): _known_gradient,
    ("FC", "ridge"): _dense_ridge,
}


def _picture(images: Tensor) -> NDArray[np.generic]:
    """The first images as they are stored for figures."""
    return images[:_PICTURES].detach().cpu().numpy().astype(np.float16)


def _seconds(start: float, result: Tensor) -> float:
    if result.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
