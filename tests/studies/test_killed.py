"""A worker and the scheduler killed in mid-run: the results are those of a calm run.

The process that is killed, or one that it needs, waits in the middle of its work, so that nothing
hangs on how fast the others are.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import outputs
from fleet import Fleet, fleet
from waiting import contents, until

from korisk.store.store import Store

STUDY = """
name: tiny
problem: {beam: surrogate}
points: [{name: small, side: 8, sizes: [4, 8]}]
seeds: [1, 2, 3, 4]
pools: {validation: 8, test: 8}
"""
# What a worker does before it joins: its cells are as always, but one of them does not end.
WAITING_WORKER = """
import time
from pathlib import Path
from korisk.studies.run import cells

run_cell = getattr(cells.run_cell, "calm", cells.run_cell)  # Dask may run this twice
left = [None] * {cells}

def run_or_wait(task, report, **options):
    if not left:
        Path({begun!r}).touch()
        time.sleep(600)
    left.pop()
    return run_cell(task, report, **options)

run_or_wait.calm = run_cell
cells.run_cell = run_or_wait
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


def stored(folder: Path) -> dict[str, Any]:
    with Store.read(folder / "study.db") as store:
        return contents(store, seconds=False)


def attempts(folder: Path) -> list[int]:
    with Store.read(folder / "study.db") as store:
        return [found.usage.attempts for found in store.results()]


@contextmanager
def dask(folder: Path, workers: int = 1, *, waiting_after: int | None = None) -> Iterator[Fleet]:
    """Workers that are there; one more waits in the cell after so many."""
    distributed: Any = pytest.importorskip("distributed", reason="needs korisk[dask]")
    with fleet(folder) as made:
        for _ in range(workers):
            made.worker()
        if waiting_after is not None:
            preload, begun = folder / "preload.py", str(folder / "begun")
            preload.write_text(WAITING_WORKER.format(cells=waiting_after, begun=begun))
            made.worker("--preload", str(preload))
        with distributed.Client(made.address) as client:
            client.wait_for_workers(workers + (waiting_after is not None), timeout=120)
        yield made


@contextmanager
def killing(process: subprocess.Popen[bytes], begun: Path, out: Path, cells: int) -> Iterator[None]:
    """Kill a process as soon as the cell is begun that does not end, and so many are stored."""
    over = threading.Event()

    def kill() -> None:
        until(lambda: over.is_set() or (begun.exists() and len(attempts(out)) >= cells))
        process.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_a_worker_killed_in_mid_run_changes_nothing(study: Path, tmp_path: Path) -> None:
    broken, calm = tmp_path / "broken", tmp_path / "calm"
    with dask(tmp_path / "dask", 1, waiting_after=0) as cluster:
        where = ("--device", "cpu", "--scheduler", cluster.address)
        victim = cluster.processes[-1]
        with killing(victim, tmp_path / "dask" / "begun", broken, 1):
            outputs("run", study, "--out", broken, *where)
        assert victim.wait() == -signal.SIGKILL
        outputs("run", study, "--out", calm, *where)
    assert sorted(attempts(broken)) == [1, 1, 1, 2]
    assert attempts(calm) == [1, 1, 1, 1]
    assert stored(broken) == stored(calm)


@pytest.mark.slow
def test_a_scheduler_killed_in_mid_run_costs_a_second_run(study: Path, tmp_path: Path) -> None:
    broken, calm = tmp_path / "broken", tmp_path / "calm"
    run = ("run", study, "--device", "cpu", "--out", broken, "--scheduler")
    with dask(tmp_path / "first", 0, waiting_after=2) as cluster:
        with killing(cluster.scheduler, tmp_path / "first" / "begun", broken, 2):
            said = outputs(*run, cluster.address, code=2)[1]
        (line,) = [line for line in said.splitlines() if line.startswith("korisk: ")]
        assert cluster.address in line
        assert "run again" in line
    assert len(stored(broken)) == 2
    with dask(tmp_path / "second") as cluster:
        outputs(*run, cluster.address)
        outputs(*run[:-2], calm, "--scheduler", cluster.address)
    assert attempts(broken) == attempts(calm) == [1, 1, 1, 1]
    assert stored(broken) == stored(calm)
