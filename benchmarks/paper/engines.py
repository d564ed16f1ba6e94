"""What it costs to run a cell on each engine, with cells that do nothing.

    python -m benchmarks.paper.engines [--cells 200] [--workers 2]
    python -m benchmarks.paper.engines --tables > benchmarks/results/clusters.txt

Four ways, in one run and over the same cells: in this process (what storing alone takes), the
local pool, a Dask cluster on this machine, and, as the rival, the same work by Dask's own
`client.map` and `gather`, which stores nothing and loses all where its caller dies. Times are from
the first cell given to the last one stored; what starting takes is told apart. The table gives the
middle of three rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.markdown import header, line
from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import machine, versions
from korisk.studies.run.clusters import Cluster, joined_cluster
from korisk.studies.run.engine import Compute, Event, run_study
from korisk.studies.run.worker import Report

RESULTS = Path(__file__).parents[1] / "results" / "engines_arm.json"
_ROUNDS = 3


def nothing(task: Task, report: Report) -> Result:
    """A cell that takes no time."""
    return Result(rows=(Row(model="KO", n=4, metrics={"mse": 1.0 / (1 + task.seed)}),))


def tasks(count: int) -> list[Task]:
    """Cells of ten points."""
    return [Task(point=f"p{i % 10}", seed=i // 10, spec={"sizes": [4]}) for i in range(count)]


def engine_seconds(count: int, workers: int, cluster: Cluster | None) -> tuple[float, float]:
    """Seconds until the first cell, and from there to the last, all results looked at."""
    begun = time.perf_counter()
    times: list[float] = []  # of all events
    asked = tasks(count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        with Store.create_or_open(path, {"name": "engines"}, tasks=asked) as store:
            watch = partial(_note, times)
            ran = run_study(
                asked,
                nothing,
                store,
                compute=Compute(workers=workers, cluster=cluster),
                watch=watch,
            )
            assert ran.done == count == sum(1 for _ in store.rows())
    return times[0] - begun, times[-1] - times[0]


def _note(times: list[float], event: Event) -> None:
    times.append(time.perf_counter())


def bare_seconds(count: int, client: Any) -> tuple[float, float]:
    """The same cells by Dask alone."""
    begun = time.perf_counter()
    futures = client.map(_bare, tasks(count), pure=False)
    assert len(client.gather(futures)) == count
    return 0.0, time.perf_counter() - begun


def _bare(task: Task) -> Result:
    return nothing(task, lambda fraction: None)


@contextmanager
def _bare_cluster(workers: int) -> Iterator[Any]:
    distributed: Any = import_module("distributed")  # which is not typed
    options = {"threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=workers, **options) as local,
        distributed.Client(local) as client,
    ):
        client.wait_for_workers(workers)
        yield client


@contextmanager
def _cluster(workers: int) -> Iterator[Cluster]:
    with _bare_cluster(workers) as client, joined_cluster(client.scheduler.address) as cluster:
        yield cluster


def measure(
    make: Callable[[], AbstractContextManager[Any]],
    seconds: Callable[[Any], tuple[float, float]],
    count: int,
) -> dict[str, float]:
    """Milliseconds a cell, the middle of some rounds, and what starting took."""
    begun = time.perf_counter()
    with make() as started:
        start = time.perf_counter() - begun
        firsts, rest = zip(*(seconds(started) for _ in range(_ROUNDS)), strict=True)
    return {
        "start_seconds": start + statistics.median(firsts),
        "ms_a_cell": 1000 * statistics.median(rest) / count,
    }


def tables() -> Iterator[str]:
    """What a cell that does nothing costs on each engine, as was kept."""
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    yield from ("### engines", "")
    first = f"{content['cells']} cells, {content['workers']} workers"
    yield from header(first, "ms a cell", "start s")
    for name, row in content["engines"].items():
        yield line(name, f"{row['ms_a_cell']:.1f}", f"{row['start_seconds']:.1f}")


def main() -> None:
    """Measure and keep, or print the table of what was kept."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if not options.tables:
        count, workers = options.cells, options.workers
        local, bare = partial(_cluster, workers), partial(_bare_cluster, workers)
        engine = partial(engine_seconds, count)
        engines = {
            "in this process": measure(nullcontext, lambda _: engine(0, None), count),
            "local pool": measure(nullcontext, lambda _: engine(workers, None), count),
            "Dask": measure(local, lambda cluster: engine(workers, cluster), count),
            "Dask alone, nothing stored": measure(bare, partial(bare_seconds, count), count),
        }
        content = {"cells": count, "workers": workers, "engines": engines}
        content |= {"machine": machine(), "versions": versions()}
        RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    print("\n".join(tables()))


if __name__ == "__main__":
    main()
