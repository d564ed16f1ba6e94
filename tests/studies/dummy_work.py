"""Cells that cost nothing, or die, or raise; and a study of them as a program of its own.

`python dummy_work.py STORE WORKERS` runs it, says when the first cells start and end, and leaves
with 130 when it is interrupted. WORKERS is a number, or "dask" for a Dask cluster of two.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from korisk.errors import KoriskError
from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.studies.run.engine import Compute, Event, run_study
from korisk.studies.run.worker import Report

STUDY = {"name": "dummy", "sizes": [4, 16]}
PAUSE = "DUMMY_PAUSE"  # seconds that a cell takes


def tasks(points: int = 2, seeds: int = 2, **spec: Any) -> list[Task]:
    return [
        Task(point=f"point-{4**p}", seed=seed, spec={"side": 4**p, "sizes": [4, 16], **spec})
        for p in range(points)
        for seed in range(seeds)
    ]


def cell(task: Task, report: Report) -> Result:
    rng = np.random.default_rng([task.seed, *task.point.encode()])
    pause = float(os.environ.get(PAUSE, "0"))
    rows = []
    for step, n in enumerate(task.spec["sizes"]):
        report(step / len(task.spec["sizes"]))
        time.sleep(pause / len(task.spec["sizes"]))
        rows += [
            Row(model=model, n=n, metrics={"mse": rng.random() / n}, detail={"lambda": 0.5})
            for model in ("KO", "FC")
        ]
    return Result(rows=tuple(rows), arrays={"curve": rng.random(5)}, detail={"draws": 9})


def raises_on_odd_seeds(task: Task, report: Report) -> Result:
    if task.seed % 2:
        raise KoriskError("odd seeds are not taken")
    return cell(task, report)


def names_a_strange_file(task: Task, report: Report) -> Result:
    raise FileNotFoundError("no file \udcff\nhere")


def out_of_memory(task: Task, report: Report) -> Result:
    raise MemoryError


def leaves(task: Task, report: Report) -> Result:
    sys.exit(7)


def returns_nonsense(task: Task, report: Report) -> Result:
    return Result(rows=(), arrays={"objects": np.array([object()])})


def kills_itself_once(task: Task, report: Report) -> Result:
    tried = Path(task.spec["folder"]) / task.key
    if task.seed == 1 and not tried.exists():
        tried.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return cell(task, report)


def kills_itself_always(task: Task, report: Report) -> Result:
    if task.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return cell(task, report)


def leaves_a_trace(task: Task, report: Report) -> Result:
    """A file for every time that it runs, named after its process."""
    (Path(task.spec["folder"]) / f"{task.key}, {os.getpid()}, {time.time_ns()}").touch()
    time.sleep(task.spec["pause"])
    return cell(task, report)


def reports_for_ever(task: Task, report: Report) -> Result:
    (Path(task.spec["folder"]) / "begun").touch()
    try:
        while True:
            report(0.5)
            time.sleep(0.05)
    finally:
        (Path(task.spec["folder"]) / "ended").touch()


def signs_and_sleeps(task: Task, report: Report) -> Result:
    (Path(task.spec["folder"]) / f"{os.getpid()}.pid").touch()
    time.sleep(60)
    return cell(task, report)


def tells_threads(task: Task, report: Report) -> Result:
    threads = float(os.environ["OMP_NUM_THREADS"])
    return Result(rows=(Row(model="KO", n=4, metrics={"threads": threads}),))


def tells_process(task: Task, report: Report) -> Result:
    return Result(rows=(Row(model="KO", n=4, metrics={"pid": os.getpid()}),))


def fills_memory(task: Task, report: Report) -> Result:
    held = np.ones(task.spec["bytes"][task.seed], dtype=np.uint8)
    return Result(rows=(Row(model="KO", n=4, metrics={"sum": float(held[-1])}),))


def reports_twice(task: Task, report: Report) -> Result:
    for fraction in (0.25, 0.75):
        report(fraction)
        time.sleep(task.spec["pause"])
    return cell(task, lambda fraction: None)


def one_never_ends(task: Task, report: Report) -> Result:
    return reports_for_ever(task, report) if task.point == "endless" else cell(task, report)


def stores_noise(task: Task, report: Report) -> Result:
    noise = np.random.default_rng(task.seed).integers(0, 256, 40_000, dtype=np.uint8)
    return Result(rows=(Row(model="KO", n=4, metrics={"mse": 0.5}),), arrays={"noise": noise})


def _say_so(event: Event) -> None:
    if event.kind in {"started", "done"} and event.done <= 1:
        print(event.kind, flush=True)


def _main(path: str, workers: str, work: str, folder: str) -> None:
    asked = tasks(points=4, seeds=15, **({"folder": folder} if folder else {}))
    with Store.create_or_open(path, STUDY, tasks=asked, wait=100) as store:
        if workers != "dask":
            run_study(
                asked, globals()[work], store, compute=Compute(workers=int(workers)), watch=_say_so
            )
            return
        from fleet import dask_here

        with dask_here(2) as cluster:
            run_study(
                asked, globals()[work], store, compute=Compute(cluster=cluster), watch=_say_so
            )


if __name__ == "__main__":
    try:
        _main(sys.argv[1], sys.argv[2], *(sys.argv[3:] or ["cell", ""]))
    except KeyboardInterrupt:
        sys.exit(130)
    except KoriskError as error:
        print(error)
        sys.exit(2)
