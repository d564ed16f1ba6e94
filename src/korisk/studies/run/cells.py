"""The work of one cell, a point and a seed: every model at every training set size."""

import math
from collections.abc import Iterable
from functools import lru_cache, partial

import numpy as np
import torch

from korisk._json import JsonDict, JsonMapping
from korisk._memory import free_memory
from korisk.errors import KoriskError
from korisk.fitting.ridge.diagonal import gram_fits, tail_gram
from korisk.operators import Composed, LinearOperator, Matrix, Tikhonov
from korisk.problems import Problem
from korisk.store.cells import Result, Row, Task
from korisk.studies.run.fits import PICTURES, Arrays, Bench, Fit, Job, fit_of, picture
from korisk.studies.run.worker import Report, Work
from korisk.studies.spec.registry import classes_for, problem_of

_LARGEST_DENSE = 2**24  # entries of an inverse that is kept as a matrix


@torch.no_grad()
def run_cell(
    task: Task, report: Report, *, device: str = "cpu", uses: tuple[type, ...] = ()
) -> Result:
    """Fit every model at every size and measure it on the test set.

    `uses` are classes whose modules register kinds: pickled as an argument, they make a worker
    import these modules.
    """
    spec = task.spec
    fits = _fits(spec)
    bench = _bench(problem_of(spec), device, any(fit.with_gram for fit in fits.values()))
    samples = _samples(spec)
    # Inputs count twice: a ridge fit also stores their products with backprojected targets.
    entries = math.prod(bench.tail.range) + 2 * math.prod(bench.tail.domain)
    needed, free = samples * entries * bench.tail.dtype.itemsize, free_memory(bench.tail.device)
    if needed > free:
        memory = f"{needed / 2**30:,.1f} GiB, of {free / 2**30:,.1f} GiB free"
        problem = f"{samples:,} images and sinograms take {memory}"
        raise KoriskError(f"{problem}; use fewer samples or smaller images")
    train = spec["sizes"][-1]
    # One pool for all sizes: smaller training sets are its first samples.
    pools = bench.problem.pools(seed=task.seed, train=train, **spec["pools"], device=device)
    rows: list[Row] = []
    arrays: Arrays = {
        "truth": picture(pools.test.targets),
        "sinograms": pools.test.inputs[:PICTURES].cpu().numpy().astype(np.float32),
    }
    for index, (model, fit) in enumerate(fits.items()):
        # `index` is bound as a default, since the loop changes it.
        def share(fraction: float, index: int = index) -> None:
            report((index + fraction) / len(fits))

        job = Job(model, spec["sizes"], spec["models"][model], task.seed, bench, pools, share)
        for row, row_arrays in fit.rows(job):
            rows.append(row)
            arrays |= {f"{model}/{row.n}/{name}": array for name, array in row_arrays.items()}
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"
    detail: JsonDict = {"device": name, "precision": str(bench.tail.dtype).split(".")[-1]}
    return Result(rows=tuple(rows), arrays=arrays, detail=detail)


def cell_work(tasks: Iterable[Task], *, device: str = "cpu") -> Work:
    """`run_cell` for workers, with the classes that these tasks need."""
    return partial(run_cell, device=device, uses=classes_for(task.spec for task in tasks))


def _fits(spec: JsonMapping) -> dict[str, Fit]:
    """The fit of each model of a cell."""
    return {model: fit_of(model, settings) for model, settings in spec["models"].items()}


def _samples(spec: JsonMapping) -> int:
    """Number of samples of all pools."""
    return int(spec["sizes"][-1] + sum(spec["pools"].values()))


# The seeds of a point follow each other in a worker, so one entry is enough.
@lru_cache(maxsize=1)
def _bench(problem: Problem, device: str, with_gram: bool) -> Bench:
    weights, tail = problem.reconstruction(device)
    operators: list[LinearOperator] = []
    for operator in tail:
        small = math.prod(operator.domain) * math.prod(operator.range) <= _LARGEST_DENSE
        # One matrix is faster than the several products of Tikhonov's inverse.
        if isinstance(operator, Tikhonov) and small:
            matrix, name = operator.as_matrix(), operator.name
            operators.append(Matrix(matrix, operator.domain, operator.range, name=name))
        else:
            operators.append(operator)
    composed = Composed(operators)
    gram = tail_gram(composed) if with_gram and gram_fits(composed) else None
    return Bench(problem, problem.prepared(device), weights, composed, gram)
