"""What one cell of a study computes: a point and a seed, every model at every training set size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.errors import KoriskError
from korisk.fitting.dense_ridge import DenseRidge
from korisk.fitting.diagonal_ridge import DiagonalRidge, gram_fits, tail_gram
from korisk.fitting.gradient import Recipe, Training, draw_batches, released_generator, train
from korisk.fitting.refinement import refine
from korisk.fitting.scores import Scorer
from korisk.networks import KnownOperatorNet
from korisk.operators import Composed, LinearOperator, Matrix, Tikhonov
from korisk.operators.engines import free_memory
from korisk.problems import CtScanner, Gaussian, Pairs, Poisson, Pools, draw_pools, measure
from korisk.studies.result import Result, Row, Task

Report = Callable[[float], None]

_LARGEST_DENSE = 2**24  # entries of an inverse that is kept as a matrix
_PICTURES = 2  # test images whose reconstructions are kept


@dataclass(frozen=True)
class _Bench:
    """What all seeds of a point share: the scanner and its known operators."""

    scanner: CtScanner
    projector: LinearOperator  # kept, so that all pools share what it has built
    weights: Tensor  # analytic, (views, bins)
    tail: Composed
    gram: Tensor | None  # B^T B of the tail, where it was asked for and fits


@torch.no_grad()
def run_cell(task: Task, report: Report, *, device: str = "cpu") -> Result:
    """Fit every model at every size and measure it on the test set."""
    spec = task.spec
    bench = _bench(scanner_of(spec), device, _needs_gram(spec))
    pools = _pools(spec, task.seed, bench, device)
    rows: list[Row] = []
    arrays: dict[str, NDArray[np.generic]] = {
        "truth": _picture(pools.test.targets[:_PICTURES]),
        "sinograms": pools.test.inputs[:_PICTURES].cpu().numpy().astype(np.float32),
    }
    for at, (model, settings) in enumerate(spec["models"].items()):
        fits = _FITS[model, settings.get("fit", "ridge")]
        share = partial(_report_share, report, at, len(spec["models"]))
        job = _Job(spec["sizes"], settings, task.seed, bench, pools, share)
        for row, kept in fits(job):
            rows.append(row)
            arrays |= {f"{model}/{row.n}/{name}": array for name, array in kept.items()}
    detail = {"device": _device_name(device), "precision": str(bench.tail.dtype).split(".")[-1]}
    return Result(rows=tuple(rows), arrays=arrays, detail=detail)


def _report_share(report: Report, at: int, shares: int, fraction: float) -> None:
    """Progress of one of several equal shares as progress of the whole."""
    report((at + fraction) / shares)


@dataclass(frozen=True)
class _Job:
    """One model of a cell, to be fitted at every size."""

    sizes: list[int]
    settings: Mapping[str, Any]
    seed: int
    bench: _Bench
    pools: Pools
    report: Report

    def each_size(self) -> Iterator[int]:
        """The sizes; each is reported as done when the next is asked for."""
        for at, n in enumerate(self.sizes):
            yield n
            self.report(sum(self.sizes[: at + 1]) / sum(self.sizes))


# --- What a cell works on ------------------------------------------------------------------------


def scanner_of(spec: Mapping[str, Any]) -> CtScanner:
    """The scanner of a point."""
    problem = spec["problem"]
    return CtScanner(**{name: problem[name] for name in ("side", "views", "bins", "beam")})


def _needs_gram(spec: Mapping[str, Any]) -> bool:
    known = spec["models"].get("KO")
    return known is not None and known["fit"] == "ridge"


@lru_cache(maxsize=1)
def _bench(scanner: CtScanner, device: str, gram: bool) -> _Bench:
    weights, tail = scanner.reconstruction(device)
    composed = Composed([_made_dense(operator) for operator in tail])
    made = tail_gram(composed) if gram and gram_fits(composed) else None
    projector = scanner.projector(device)
    projector(torch.zeros(projector.domain, device=projector.device, dtype=projector.dtype))
    return _Bench(scanner, projector, weights, composed, made)


def _made_dense(operator: LinearOperator) -> LinearOperator:
    """Small inverses as one matrix: the same map, without a sparse product in front of it."""
    entries = math.prod(operator.domain) * math.prod(operator.range)
    if not isinstance(operator, Tikhonov) or entries > _LARGEST_DENSE:
        return operator
    return Matrix(operator.as_matrix(), operator.domain, operator.range, name=operator.name)


def _pools(spec: Mapping[str, Any], seed: int, bench: _Bench, device: str) -> Pools:
    _refuse_large(spec, bench)
    train, validation = spec["sizes"][-1], spec["pools"]["validation"]
    return pools_of(spec, bench.scanner, seed, train=train, validation=validation, device=device)


def pools_of(
    spec: Mapping[str, Any],
    scanner: CtScanner,
    seed: int,
    *,
    train: int,
    validation: int,
    device: str,
) -> Pools:
    """The images and sinograms of a seed, with so many to learn from and to choose by."""
    problem = spec["problem"]
    ours = problem["population"] == "ellipses"
    fewest, most = problem["ellipses"] if ours else (1, 4)  # the released ones have their own
    return draw_pools(
        scanner,
        seed=seed,
        train=train,
        validation=validation,
        test=spec["pools"]["test"],
        population=problem["population"],
        fewest=fewest,
        most=most,
        noise=noise_of(problem["noise"]),
        device=device,
    )


def _refuse_large(spec: Mapping[str, Any], bench: _Bench) -> None:
    """Say what the pools would take before the machine finds out."""
    samples = spec["sizes"][-1] + sum(spec["pools"].values())
    entries = math.prod(bench.projector.domain) + 2 * math.prod(bench.projector.range)
    needed, free = (
        samples * entries * bench.projector.dtype.itemsize,
        free_memory(bench.tail.device),
    )
    if needed > free:
        raise KoriskError(
            f"{samples:,} images and sinograms take {needed / 2**30:,.1f} GiB, of "
            f"{free / 2**30:,.1f} GiB free; use fewer samples or smaller images"
        )


def noise_of(entry: Mapping[str, float] | None) -> Gaussian | Poisson | None:
    """The noise of a point."""
    if entry is None:
        return None
    return Gaussian(entry["gaussian"]) if "gaussian" in entry else Poisson(entry["poisson"])


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"


# --- The models ----------------------------------------------------------------------------------

Fitted = tuple[Row, dict[str, NDArray[np.generic]]]


def _known_ridge(job: _Job) -> Iterator[Fitted]:
    toward = job.bench.weights if job.settings["toward"] == "analytic" else None
    ridge = DiagonalRidge(
        job.bench.tail,
        *job.pools.train,
        toward=toward,
        relu=job.settings["relu"],
        gram=job.bench.gram,
    )
    test, analytic = job.pools.test, job.bench.weights
    yield _row("KO", 0, ridge.predict(analytic, test.inputs), test, {}, analytic)
    scorer = Scorer(*(test if job.settings["select"] == "test" else job.pools.validation))
    for n in job.each_size():
        start = time.perf_counter()
        weights, detail = _known_fit(ridge, n, scorer, job.settings)
        detail["seconds"] = _seconds(start, weights)
        yield _row("KO", n, ridge.predict(weights, test.inputs), test, detail, weights)


def _known_fit(
    ridge: DiagonalRidge, n: int, scorer: Scorer, settings: Mapping[str, Any]
) -> tuple[Tensor, dict[str, Any]]:
    """Weights and what is kept beside them; the normal matrix is gone when this returns."""
    fit = ridge.training(n).fit(scorer=scorer, grid=settings.get("grid"))
    if not settings["refine"]:
        return fit.weights, fit.detail()
    refined = refine(fit, scorer, steps=settings["refine"])
    return refined.weights, fit.detail() | refined.detail()


def _known_gradient(job: _Job) -> Iterator[Fitted]:
    """All sizes side by side: the smaller training sets are the beginnings of the largest."""
    recipe = Recipe(
        optimiser=job.settings["optimiser"],
        rate=job.settings["rate"],
        iterations=job.settings["iterations"],
        batch=job.settings["batch"],
    )
    test, analytic = job.pools.test, job.bench.weights
    make = partial(KnownOperatorNet, tail=job.bench.tail, relu=job.settings["relu"])
    yield _row("KO", 0, make(analytic)(test.inputs), test, {}, analytic)
    groups = list(_equal_batches(job.sizes, recipe.batch))
    for group, sizes in enumerate(groups):
        start = time.perf_counter()
        drawn = [
            draw_batches(n, recipe.batch, recipe.iterations, released_generator(job.seed))
            for n in sizes
        ]
        network = make(analytic.expand(len(sizes), *analytic.shape))
        share = partial(_report_share, job.report, group, len(groups))
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
            yield _row("KO", n, make(weights)(test.inputs), test, detail, weights)


def _convergence(made: Training, run: int) -> dict[str, Any]:
    return {
        "converged": bool(made.converged[run]),
        "loss": float(made.end.loss[run]),
        "improvement_in_last_tenth": float(made.improvement[run]),
        "gradient_left": float(made.gradient_left[run]),
    }


def _equal_batches(sizes: list[int], batch: int) -> Iterator[list[int]]:
    """Sizes in groups whose batches are of one length; below `batch` samples each has its own."""
    yield from ([n] for n in sizes if n < batch)
    if large := [n for n in sizes if n >= batch]:
        yield large


def _dense_ridge(job: _Job) -> Iterator[Fitted]:
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
        yield _row("FC", n, fit.predict(test.inputs), test, detail, None)


_FITS: dict[tuple[str, str], Callable[[_Job], Iterator[Fitted]]] = {
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
) -> Fitted:
    kept: dict[str, NDArray[np.generic]] = {"images": _picture(predictions[:_PICTURES])}
    if weights is not None:
        kept["weights"] = weights.detach().cpu().numpy().astype(np.float32)
    row = Row(model=model, n=n, metrics=measure(predictions, test.targets), detail=detail)
    return row, kept


def _picture(images: Tensor) -> NDArray[np.generic]:
    return images.detach().cpu().numpy().astype(np.float16)


def _seconds(start: float, result: Tensor) -> float:
    if result.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
