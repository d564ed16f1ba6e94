"""What it costs to run a cell on each engine, with cells that do nothing.

    python -m benchmarks.paper.engines [--cells 200] [--workers 2] [--json FILE]

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
from importlib import import_module
from pathlib import Path
from typing import Any

from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import cores, machine, versions
from korisk.studies.run.clusters import Cluster, joined_cluster
from korisk.studies.run.engine import Event, run_study
from korisk.studies.run.worker import Report

_ROUNDS = 3


def nothing(task: Task, report: Report) -> Result:
    """A cell that takes no time."""
    return Result(rows=(Row(model="KO", n=4, metrics={"mse": 1.0 / (1 + task.seed)}),))


def tasks(count: int) -> list[Task]:
    """Cells of ten points."""
    return [Task(point=f"p{i % 10}", seed=i // 10, spec={"sizes": [4]}) for i in range(count)]


class _Clock:
    """Notes when a run began, when its first cell was given and when the last one was stored."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.first = self.last = 0.0

    def __call__(self, event: Event) -> None:
        now = time.perf_counter()
        if not self.first:
            self.first = now
        if event.kind == "done":
            self.last = now


def engine_seconds(count: int, workers: int, cluster: Cluster | None) -> tuple[float, float]:
    """Seconds until the first cell, and from there to the last, all results looked at."""
    clock = _Clock()
    asked = tasks(count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        with Store.create_or_open(path, {"name": "engines"}, tasks=asked) as store:
            done = run_study(
                asked, nothing, store, workers=workers, cluster=cluster, watch=clock
            ).done
            assert done == count == sum(1 for _ in store.rows())
    return clock.first - clock.begun, clock.last - clock.first


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
    with (
        _bare_cluster(workers) as client,
        joined_cluster(client.scheduler.address) as cluster,
    ):
        yield cluster


def measure(
    make: Callable[[], AbstractContextManager[Any]],
    seconds: Callable[[Any], tuple[float, float]],
    count: int,
) -> dict[str, float]:
    """Milliseconds a cell, the middle of some rounds, and what starting took."""
    begun = time.perf_counter()
    with make() as made:
        start = time.perf_counter() - begun
        found = [seconds(made) for _ in range(_ROUNDS)]
    rounds = [1000 * taken / count for _, taken in found]
    return {
        "start_seconds": start + statistics.median(first for first, _ in found),
        "ms_a_cell": statistics.median(rounds),
        "least": min(rounds),
        "most": max(rounds),
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    count, workers = given.cells, given.workers
    found = {
        "in this process": measure(nullcontext, lambda _: engine_seconds(count, 0, None), count),
        "local pool": measure(nullcontext, lambda _: engine_seconds(count, workers, None), count),
        "Dask": measure(
            lambda: _cluster(workers), lambda c: engine_seconds(count, workers, c), count
        ),
        "Dask alone, nothing stored": measure(
            lambda: _bare_cluster(workers), lambda c: bare_seconds(count, c), count
        ),
    }
    print(f"{count} cells that do nothing, {workers} workers on {cores()} cores")
    print(f"{'engine':<28}{'ms a cell':>10}{'from':>8}{'to':>8}{'start, s':>10}")
    for name, row in found.items():
        print(
            f"{name:<28}{row['ms_a_cell']:>10.2f}{row['least']:>8.2f}{row['most']:>8.2f}"
            f"{row['start_seconds']:>10.2f}"
        )
    if given.json:
        content = {"cells": count, "workers": workers, "engines": found}
        about = {"machine": machine(), "versions": versions()}
        given.json.write_text(json.dumps(content | about, indent=1) + "\n")


if __name__ == "__main__":
    main()
