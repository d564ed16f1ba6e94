"""Where and how the command line computes cells: options, clusters, and the run itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from korisk import _checks
from korisk.cli.output import plain, warnings_as_lines
from korisk.errors import KoriskError, MissingExtraError
from korisk.files import make_folder, read_yaml, write_text
from korisk.store.cells import Task
from korisk.store.store import Failure, FlatRow, Store, store_to_write
from korisk.store.usage import cores
from korisk.studies.run import clusters
from korisk.studies.run.engine import Event, Summary, run_study
from korisk.studies.run.progress import Pace, event_line, progress
from korisk.studies.run.worker import threads_asked

FAILED_CELLS = 1  # exit code where some cells failed and the rest is stored
_MOST_WORKERS = 512
_LARGE, _MANY = 64, 4096  # pixels a side and rays from which a cell keeps all cores busy itself

ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME|ADDRESS",
        help="Run cells on Dask: local starts processes on this machine, tcp://host:8786 joins a "
        "scheduler, and slurm, pbs, lsf, sge, oar, moab or htcondor submit jobs. "
        "[default: processes without Dask]",
    ),
]
ClusterOptions = Annotated[
    Path | None,
    typer.Option(
        "--cluster-options",
        metavar="FILE.yaml",
        help="Options of the jobs, with dask-jobqueue's keys; see docs/reference/clusters.md.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="W",
        help="Number of processes, or of jobs; 0 runs cells in this process. "
        "[default: one per core for small images, else 1]",
    ),
]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, or auto: a GPU if there is one.")
]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Run failed cells again.")]
Wait = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="How long to wait while another run uses the store."),
]
Full = Annotated[bool, typer.Option("--full", help="Print the tables as well.")]
WithPage = Annotated[
    bool,
    typer.Option("--page", help="Write report.html into the folder too (needs korisk[report])."),
]
Live = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Serve the page while it runs, at http://127.0.0.1 (this machine alone), and write it "
        "at the end as --page does.",
    ),
]
Port = Annotated[
    int | None, typer.Option("--port", metavar="PORT", help="Port of --live. [default: a free one]")
]


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where cells run: in processes of this machine, or on a Dask cluster."""

    cluster: str | None = None  # "local", a scheduler's address, or a batch system
    options: Mapping[str, Any] = field(default_factory=dict)  # of a batch system's jobs
    workers: int | None = None
    device: str = "auto"

    @property
    def joins(self) -> bool:
        """Whether it is a running cluster, by its address."""
        return self.cluster is not None and ":" in self.cluster

    @property
    def batch(self) -> str | None:
        """The batch system, if it is one."""
        return None if self.joins or self.cluster == "local" else self.cluster

    @property
    def elsewhere(self) -> bool:
        """Whether cells may run on other machines than this one."""
        return self.joins or self.batch is not None

    def device_kind(self) -> str:
        """cpu or cuda, as far as that is known without starting anything."""
        if self.device != "auto":
            return self.device.partition(":")[0]
        if self.batch is not None:
            return "cuda" if clusters.uses_gpu(self.batch, self.options) else "cpu"
        try:
            return "cpu" if self.joins else chosen_device("auto")
        except MissingExtraError:  # nothing runs here without PyTorch, but cells can be listed
            return "cpu"


@dataclass(frozen=True)
class Outcome:
    """What a run did, and what the store then holds of the cells that were asked for."""

    counts: dict[str, Any]  # cells done, failed, skipped; seconds
    rows: list[FlatRow]
    failures: list[Failure]
    page: Path | None  # if one was written


def chosen_compute(
    cluster: str | None = None,
    cluster_options: Path | None = None,
    *,
    workers: int | None = None,
    device: str = "auto",
) -> Compute:
    """What the options mean; raises if they contradict each other."""
    options: dict[str, Any] = {}
    if cluster_options is not None:
        found = read_yaml(cluster_options)
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise KoriskError(f"{cluster_options}: must be keys and values, such as cores: 4")
        options = found
    compute = Compute(cluster=cluster, options=options, workers=workers, device=device)
    if compute.batch is not None:
        _checks.one_of("--cluster", cluster, ("local", *clusters.SYSTEMS, "tcp://host:port"))
    elif cluster_options is not None:
        raise KoriskError(
            "--cluster-options is for jobs of a batch system; add --cluster slurm, or leave it out"
        )
    if workers is not None and compute.joins:
        raise KoriskError(
            "--workers is for clusters that are started, and --cluster ADDRESS joins one; leave it "
            "out, or start workers there"
        )
    if workers is not None:
        least = 0 if cluster is None else 1
        remedy = "count processes; 0 runs cells in this one" if least == 0 else "count workers"
        _checks.count("--workers", workers, at_least=least, at_most=_MOST_WORKERS, remedy=remedy)
    _check_device(device)
    if compute.batch is not None:
        try:
            clusters.job_script(compute.batch, options)
        except KoriskError as error:  # wrong options; name their file
            named = "" if cluster_options is None else f"{cluster_options}: "
            raise type(error)(f"{named}{error}") from None
        if device.startswith("cuda") and not clusters.uses_gpu(compute.batch, options):
            raise KoriskError(
                f"--device {device} needs jobs with a GPU; add worker_extra_args: "
                '["--resources", "GPU=1"] to the cluster options'
            )
    return compute


def chosen_device(name: str) -> str:
    """The device that an option means, if it is on this machine."""
    try:
        import torch
    except ModuleNotFoundError as missing:
        raise MissingExtraError(
            "running or predicting a study needs PyTorch, which is not installed; "
            "pip install 'korisk[torch]'"
        ) from missing
    _check_device(name)
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    count = torch.cuda.device_count()
    if name != "cpu" and int(name.partition(":")[2] or 0) >= count:
        raise KoriskError(
            f"--device {name} was not found: there are {count} GPUs; use --device cpu"
        )
    return name


def _check_device(name: str) -> None:
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?", name, re.ASCII) is None:
        raise KoriskError(f"--device must be cpu, cuda, cuda:1 or auto, got {name!r}")


@contextmanager
def opened(
    compute: Compute, *, processes: int, threads: int | None = None
) -> Iterator[tuple[clusters.Cluster | None, str]]:
    """The cluster, None for processes without Dask, and the device of its cells.

    `processes` is how many a local cluster has unless --workers says, `threads` those of each.
    """
    if compute.cluster is None:
        yield None, compute.device
        return
    device = compute.device
    asked = None if device == "auto" else device.startswith("cuda")
    if compute.batch is not None:
        made = clusters.job_cluster(compute.batch, compute.workers or 1, compute.options)
    elif compute.joins:
        made = clusters.joined_cluster(compute.cluster, gpu=asked)
    else:
        count = compute.workers or processes
        made = clusters.local_cluster(count, threads=threads, gpu=device != "cpu")
    with made as cluster:
        gpu = cluster.gpu if asked is None else asked
        yield replace(cluster, gpu=gpu), (("cuda" if gpu else "cpu") if asked is None else device)


def groups(tasks: Sequence[Task], compute: Compute) -> list[tuple[list[Task], int, int | None]]:
    """Tasks to run one group after the other, with local processes for each, and their threads.

    Small images run in parallel; a cell of a large one keeps all cores busy itself. Threads depend
    on the cell and on OMP_NUM_THREADS, never on --workers: results are the same bits with any.
    """
    if compute.elsewhere:
        return [(list(tasks), 1, None)]
    if compute.device != "cpu":
        return [(list(tasks), 0, None)]
    small: list[Task] = []
    large: list[Task] = []
    for task in tasks:
        problem = task.spec["problem"]
        rays = problem.get("views", 0) * problem.get("bins", 0)
        is_large = problem.get("side", 0) >= _LARGE or rays > _MANY
        (large if is_large else small).append(task)
    asked = threads_asked()
    each = (small, cores(), asked or 1), (large, 1, asked or cores())
    return [group for group in each if group[0]]


def expected_seconds(store: Store, tasks: Sequence[Task], device: str) -> dict[str, float]:
    """Seconds of a cell by point, on this kind of device, from what the store has measured.

    They are the mean of the point's own cells, or else of those of another point with the same kind
    and size of problem and the same fits.
    """
    measured: dict[str, list[float]] = {}
    for cell in store.results():
        if (cell.detail.get("device", "cpu") != "cpu") == (device == "cuda"):
            for name in (cell.task.point, _scale(cell.task.spec)):
                measured.setdefault(name, []).append(cell.usage.seconds)
    found = {
        task.point: measured.get(task.point) or measured.get(_scale(task.spec)) for task in tasks
    }
    return {point: fmean(seconds) for point, seconds in found.items() if seconds}


def _scale(spec: Mapping[str, Any]) -> str:
    """What the time of a cell depends on, and other points may share."""
    problem = spec["problem"]
    size = [problem.get(name) for name in ("kind", "side", "views", "bins", "beam", "points")]
    return repr((size, *(spec.get(name) for name in ("sizes", "models", "pools"))))


def run_tasks(
    tasks: Sequence[Task],
    study: dict[str, Any],
    out: Path,
    *,
    compute: Compute,
    retry: bool,
    wait: float,
    quiet: bool,
    page: bool = False,
    live: bool = False,
    port: int | None = None,
) -> Outcome:
    """Run what the store in `out` lacks; a refused run leaves no empty folder or store behind."""
    _checks.real("--wait", wait, at_least=0, remedy="give seconds")
    if port is not None and not live:
        raise KoriskError(f"--port {port} is of the page that --live serves; add --live")
    device = chosen_device("cpu" if compute.elsewhere else compute.device)  # PyTorch is installed
    from korisk.studies.run.cells import cell_work

    if page or live:  # which says so where something is missing
        from korisk.report.contents import read_contents
        from korisk.report.live import LivePort, live_page
        from korisk.report.page.study import study_page
    asked = compute if compute.elsewhere else replace(compute, device=device)
    path = store_to_write(out)
    drawn = path.with_name("report.html")
    had_folder, had_store = path.parent.exists(), path.exists()
    make_folder(path.parent)
    keys = {task.key for task in tasks}

    def print_line(event: Event) -> None:  # for logs; failures are listed at the end anyway
        if event.kind in {"retried", "waiting"}:
            typer.echo(f"korisk: {event_line(event)}", err=True)

    parts: list[Summary] = []
    try:
        open_store = warnings_as_lines()(Store.create_or_open)
        with (
            LivePort(True if port is None else port) if live else nullcontext() as served,
            open_store(path, study, tasks=tasks, wait=wait) as store,
        ):
            try:
                missing = store.missing(tasks)
                pace = Pace(
                    [task for task in missing if retry or not store.failed(task)],
                    seconds=expected_seconds(store, tasks, asked.device_kind()),
                    skipped=len(tasks) - len(missing),
                )
                with (
                    live_page(served, path, pace, page=drawn) if served else nullcontext() as told,
                    progress(pace, quiet=quiet, watches=[told], lines=print_line) as watch,
                ):
                    for group, processes, threads in groups(tasks, asked):
                        todo = store.missing(group)
                        idle = all(store.failed(task) and not retry for task in todo)
                        place = Compute(device="cpu") if idle else asked  # starts nothing for it
                        workers = processes if compute.workers is None else compute.workers
                        many = max(1, processes)
                        with opened(place, processes=many, threads=threads) as (cluster, device):
                            done = run_study(
                                *(group, cell_work(group, device=device), store),
                                workers=workers,
                                threads=threads,
                                cluster=cluster,
                                retry_failed=retry,
                                watch=watch,
                            )
                        parts.append(done)
            except KoriskError:
                if not had_store and not store.failures() and not list(store.results()):
                    path.unlink(missing_ok=True)  # empty, and its lock is still ours
                raise
            rows = [row for row in store.rows() if row.task.key in keys]
            failures = [failure for failure in store.failures() if failure.task.key in keys]
    except KoriskError:
        if not had_folder:
            with suppress(OSError):  # not empty: another process uses it
                path.parent.rmdir()
        raise
    if page and not live and rows:
        with Console(stderr=True, quiet=quiet).status("drawing the page") as status:
            html = study_page(read_contents(path), watch=lambda what: status.update(Text(what)))
            write_text(drawn, html)
    counts = {
        "done": sum(part.done for part in parts),
        "failed": len(failures),
        "skipped": sum(part.skipped for part in parts),
        "seconds": sum(part.seconds for part in parts),
    }
    return Outcome(counts, rows, failures, drawn if (page or live) and drawn.exists() else None)


def report_failures(outcome: Outcome) -> None:
    """List failed cells on stderr, and exit with the code for them."""
    for failure in outcome.failures:
        said = " ".join(f"{failure.task.key} failed: {failure.reason}".split())
        typer.echo(f"korisk: {plain(said)}", err=True)
    if outcome.failures:
        typer.echo("korisk: the rest is stored; run again with --retry-failed", err=True)
        raise typer.Exit(FAILED_CELLS)
