"""A Dask cluster as an administrator starts it, whose processes tests know and may kill."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from waiting import until

from korisk.studies.run.clusters import Cluster, joined_cluster

HERE = Path(__file__).parent


class Fleet:
    """A scheduler and workers as processes of their own, as an administrator starts them."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            *("dask_scheduler", "--host", "127.0.0.1", "--port", "0"),
            *("--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file), *options),
        )
        until(lambda: file.exists() and file.stat().st_size)
        self.address: str = json.loads(file.read_text())["address"]

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        return self._start(
            *("dask_worker", self.address, "--nthreads", "1", "--no-dashboard"),
            *("--local-directory", str(self._folder), "--no-nanny", *options),
        )

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore", "-m", f"distributed.cli.{program}", *options]
        with (self._folder / f"log-{len(self.processes)}").open("w") as log:
            # Workers have the korisk of this run, wherever it lies.
            found = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
            env = {**os.environ, "PYTHONPATH": found, "TMPDIR": str(self._folder)}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@contextmanager
def fleet(folder: Path, *options: str) -> Iterator[Fleet]:
    folder.mkdir(exist_ok=True)
    made = Fleet(folder, *options)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def dask_here(workers: int) -> Iterator[Cluster]:
    """A cluster of processes of this machine, with one thread each."""
    distributed: Any = import_module("distributed")
    settings = {"dashboard_address": "127.0.0.1:0", "memory_limit": 0, "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, **settings) as local,
        joined_cluster(local.scheduler_address) as cluster,
    ):
        cluster.client.wait_for_workers(workers, timeout=120)
        yield cluster
