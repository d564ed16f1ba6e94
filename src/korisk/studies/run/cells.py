"""What one cell of a study computes: a point and a seed, every model at every training set size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from korisk.errors import KoriskError
from korisk.fitting.ridge.diagonal import gram_fits, tail_gram
from korisk.operators import Composed, LinearOperator, Matrix, Tikhonov
from korisk.operators.ct.engines import free_memory
from korisk.problems import Pools, Problem
from korisk.studies.result import Result, Row, Task
from korisk.studies.run import layer_errors
from korisk.studies.run.fits import PICTURES, Bench, Job, Report, fits_of, picture, report_share
from korisk.studies.spec.problem_of import problem_of
from korisk.theory import Network

_LARGEST_DENSE = 2**24  # entries of an inverse that is kept as a matrix


@torch.no_grad()
def run_cell(task: Task, report: Report, *, device: str = "cpu") -> Result:
    """Fit every model at every size and measure it on the test set."""
    spec = task.spec
    bench = _bench(problem_of(spec), device, _needs_gram(spec))
    pools = _pools(spec, task.seed, bench, device)
    rows: list[Row] = []
    arrays: dict[str, NDArray[np.generic]] = {
        "truth": picture(pools.test.targets[:PICTURES]),
        "sinograms": pools.test.inputs[:PICTURES].cpu().numpy().astype(np.float32),
    }
    networks: dict[str, Network] = {}
    for at, (model, settings) in enumerate(spec["models"].items()):
        fits = fits_of(bench.problem, model, settings)
        share = partial(report_share, report, at, len(spec["models"]))
        checked = networks if spec.get("theorem") else None
        job = Job(spec["sizes"], settings, task.seed, bench, pools, share, checked)
        for row, kept in fits(job):
            rows.append(row)
            arrays |= {f"{model}/{row.n}/{name}": array for name, array in kept.items()}
    detail = {"device": _device_name(device), "precision": str(bench.tail.dtype).split(".")[-1]}
    if networks:
        detail |= layer_errors.networks_detail(networks, pools.test)
    return Result(rows=tuple(rows), arrays=arrays, detail=detail)


# --- What a cell works on ------------------------------------------------------------------------


def _needs_gram(spec: Mapping[str, Any]) -> bool:
    known = spec["models"].get("KO")
    return known is not None and known.get("fit") == "ridge"


@lru_cache(maxsize=1)
def _bench(problem: Problem, device: str, gram: bool) -> Bench:
    weights, tail = problem.reconstruction(device)
    composed = Composed([_made_dense(operator) for operator in tail])
    made = tail_gram(composed) if gram and gram_fits(composed) else None
    return Bench(problem, problem.prepared(device), weights, composed, made)


def _made_dense(operator: LinearOperator) -> LinearOperator:
    """Small inverses as one matrix: the same map, without a sparse product in front of it."""
    entries = math.prod(operator.domain) * math.prod(operator.range)
    if not isinstance(operator, Tikhonov) or entries > _LARGEST_DENSE:
        return operator
    return Matrix(operator.as_matrix(), operator.domain, operator.range, name=operator.name)


def _pools(spec: Mapping[str, Any], seed: int, bench: Bench, device: str) -> Pools:
    _refuse_large(spec, bench)
    train = spec["sizes"][-1]
    return bench.problem.pools(seed=seed, train=train, **spec["pools"], device=device)


def _refuse_large(spec: Mapping[str, Any], bench: Bench) -> None:
    """Say what the pools would take before the machine finds out."""
    samples = spec["sizes"][-1] + sum(spec["pools"].values())
    entries = math.prod(bench.tail.range) + 2 * math.prod(bench.tail.domain)
    needed, free = samples * entries * bench.tail.dtype.itemsize, free_memory(bench.tail.device)
    if needed > free:
        raise KoriskError(
            f"{samples:,} images and sinograms take {needed / 2**30:,.1f} GiB, of "
            f"{free / 2**30:,.1f} GiB free; use fewer samples or smaller images"
        )


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"
