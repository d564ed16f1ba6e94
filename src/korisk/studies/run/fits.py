"""How each model of a study is fitted at every training set size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.fitting.gradient.train import Recipe, Training, draw_batches, released_generator, train
from korisk.fitting.ridge.dense import DenseFit, DenseRidge
from korisk.fitting.ridge.diagonal import DiagonalRidge
from korisk.fitting.ridge.refinement import refine
from korisk.fitting.scores import Scorer
from korisk.networks import KnownOperatorNet
from korisk.networks.refined import RefinedNet
from korisk.operators import Composed
from korisk.problems import Pairs, Pools, Problem, measure
from korisk.problems.deep import DeepProblem
from korisk.studies.result import Row
from korisk.studies.run import layer_errors
from korisk.studies.spec.entries import OF_GRADIENT
from korisk.theory import Network

Report = Callable[[float], None]
Fitted = tuple[Row, dict[str, NDArray[np.generic]]]
KnownErrors = Callable[[Tensor, Tensor], dict[str, Any]]

_STARTS = (10.0, 1.0, 0.1)  # lambdas over the mean of the diagonal, for fits with the ReLU alone
_CLEARLY = 0.99  # of a score, below which another beats weights that have no noise of their own

PICTURES = 2  # test images whose reconstructions are kept


@dataclass(frozen=True)
class Bench:
    """What all seeds of a point share: the problem and its known operators."""

    problem: Problem
    kept: object  # what all pools share
    weights: Tensor  # analytic, of an input's shape
    tail: Composed
    gram: Tensor | None  # B^T B of the tail, where it was asked for and fits


def report_share(report: Report, at: int, shares: int, fraction: float) -> None:
    """Progress of one of several equal shares as progress of the whole."""
    report((at + fraction) / shares)


@dataclass(frozen=True)
class Job:
    """One model of a cell, to be fitted at every size."""

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
    errors = _known_layers(job)
    yield _row("KO", 0, ridge.predict(analytic, test.inputs), test, {}, analytic, errors)
    scorer = Scorer(*(test if job.settings["select"] == "test" else job.pools.validation))
    for n in job.each_size():
        start = time.perf_counter()
        weights, detail = _known_fit(ridge, n, scorer, job.settings)
        detail["seconds"] = _seconds(start, weights)
        yield _row("KO", n, ridge.predict(weights, test.inputs), test, detail, weights, errors)


def _known_layers(job: Job) -> KnownErrors | None:
    """What measures the layers of this network; None where nobody asked."""
    if job.networks is None:
        return None
    bench, test = job.bench, job.pools.test
    layers = layer_errors.KnownLayers.of(
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
    """Weights and what is kept beside them; the normal matrix is gone when this returns."""
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
    recipe = _recipe(job)
    test, analytic = job.pools.test, job.bench.weights
    make = partial(KnownOperatorNet, tail=job.bench.tail, relu=job.settings["relu"])
    errors = _known_layers(job)
    yield _row("KO", 0, make(analytic)(test.inputs), test, {}, analytic, errors)
    groups = list(_equal_batches(job.sizes, recipe.batch))
    for group, sizes in enumerate(groups):
        start = time.perf_counter()
        drawn = [
            draw_batches(n, recipe.batch, recipe.iterations, released_generator(job.seed))
            for n in sizes
        ]
        network = make(analytic.expand(len(sizes), *analytic.shape))
        share = partial(report_share, job.report, group, len(groups))
        made = train(
            network,
            *job.pools.train,
            recipe,
            indices=torch.stack(drawn, 1),
            progress=lambda done, _, share=share: share(done / recipe.iterations),  # type: ignore[misc]
        )
        seconds = _seconds(start, network.weights)
        for at, n in enumerate(sizes):
            weights = network.weights.detach()[at]
            detail = _convergence(made, at) | {"seconds": seconds / len(sizes)}
            yield _row("KO", n, make(weights)(test.inputs), test, detail, weights, errors)


def _recipe(job: Job) -> Recipe:
    return Recipe(**{name: job.settings[name] for name in OF_GRADIENT})


def _convergence(made: Training, run: int | None) -> dict[str, Any]:
    """How a training ended, one of several side by side where `run` says which."""
    at = ... if run is None else run
    return {
        "converged": bool(made.converged[at]),
        "loss": float(made.end.loss[at]),
        "improvement_in_last_tenth": float(made.improvement[at]),
        "gradient_left": float(made.gradient_left[at]),
    }


def _equal_batches(sizes: list[int], batch: int) -> Iterator[list[int]]:
    """Sizes in groups whose batches are of one length; below `batch` samples each has its own."""
    yield from ([n] for n in sizes if n < batch)
    if large := [n for n in sizes if n >= batch]:
        yield large


def _dense_ridge(job: Job) -> Iterator[Fitted]:
    ridge = DenseRidge(*job.pools.train, relu=job.settings["relu"])
    scorer = None
    if job.settings["select"] != "leave-one-out":
        judges = job.pools.test if job.settings["select"] == "test" else job.pools.validation
        scorer = Scorer(*judges, by=job.settings["by"])
    for n in job.each_size():
        start = time.perf_counter()
        fit = ridge.training(n).fit(scorer=scorer, grid=job.settings.get("grid"))
        detail = fit.detail() | {"seconds": _seconds(start, ridge.targets)}
        test = job.pools.test
        predictions = fit.predict(test.inputs)
        if job.networks is not None:
            detail["theorem"] = _dense_layers(job, fit, predictions)
        yield _row("FC", n, predictions, test, detail, None)


def _dense_layers(job: Job, fit: DenseFit, predictions: Tensor) -> dict[str, Any]:
    assert job.networks is not None
    test, relu = job.pools.test, job.settings["relu"]
    job.networks["FC"] = layer_errors.dense_network(*test, relu=relu)
    return layer_errors.dense_errors(fit.product(test.inputs), predictions, test)


def _refined_gradient(job: Job) -> Iterator[Fitted]:
    """Two learned parts around the known operators, all trained at once, N after N."""
    problem, test = job.bench.problem, job.pools.test
    assert isinstance(problem, DeepProblem)
    truth = problem.true_network(test.inputs.device)
    if job.networks is not None:
        job.networks["KO"] = layer_errors.refined_network(truth)
    recipe = _recipe(job)
    for at, n in enumerate([0, *job.sizes]):
        start = time.perf_counter()
        generator = torch.Generator().manual_seed(job.seed)
        network = RefinedNet(
            job.bench.weights, job.bench.tail, channels=2 * problem.channels, generator=generator
        )
        detail: dict[str, Any] = {}
        if n:
            share = partial(report_share, job.report, at - 1, len(job.sizes))
            inputs, targets = job.pools.train
            made = train(
                network,
                inputs[:n],
                targets[:n],
                recipe,
                indices=draw_batches(n, recipe.batch, recipe.iterations, generator),
                progress=lambda done, _, share=share: share(done / recipe.iterations),  # type: ignore[misc]
            )
            detail = _convergence(made, None) | {"seconds": _seconds(start, network.weights)}
        if job.networks is not None:
            detail["theorem"] = layer_errors.refined_errors(truth, network, test)
        yield _row("KO", n, network(test.inputs), test, detail, network.weights)


def fits_of(
    problem: Problem, model: str, settings: Mapping[str, Any]
) -> Callable[[Job], Iterator[Fitted]]:
    """What fits a model to a problem at every size."""
    if model == "KO" and isinstance(problem, DeepProblem):
        return _refined_gradient
    return _FITS[model, settings.get("fit", "ridge")]


_FITS: dict[tuple[str, str], Callable[[Job], Iterator[Fitted]]] = {
    ("KO", "ridge"): _known_ridge,
    ("KO", "gradient"): _known_gradient,
    ("FC", "ridge"): _dense_ridge,
}


def _row(
    model: str,
    n: int,
    predictions: Tensor,
    test: Pairs,
    detail: dict[str, Any],
    weights: Tensor | None,
    errors: KnownErrors | None = None,
) -> Fitted:
    kept: dict[str, NDArray[np.generic]] = {"images": picture(predictions[:PICTURES])}
    if weights is not None:
        kept["weights"] = weights.detach().cpu().numpy().astype(np.float32)
        if errors is not None:
            detail = detail | {"theorem": errors(weights.detach(), predictions)}
    row = Row(model=model, n=n, metrics=_metrics(predictions, test.targets), detail=detail)
    return row, kept


def _metrics(predictions: Tensor, targets: Tensor) -> dict[str, float]:
    """Metrics of images; of fields on a line, those that need neither a maximum nor a window."""
    if targets.ndim > 2:
        return measure(predictions, targets)
    found = measure(predictions.unsqueeze(1), targets.unsqueeze(1))
    return {name: found[name] for name in ("mse", "relative")}


def picture(images: Tensor) -> NDArray[np.generic]:
    """Images as they are stored to be looked at."""
    return images.detach().cpu().numpy().astype(np.float16)


def _seconds(start: float, result: Tensor) -> float:
    if result.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
